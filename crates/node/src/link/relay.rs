//! What the crate's TURN client needs around it. Four of its habits are mended here:
//!
//! * What a driver hands to its TURN client in one round leaves in its next, and nothing wakes the
//!   driver for it: each relayed datagram waits for another to come, or for a timer. A relayed link
//!   takes 4 s longer to open for it, and each message waits. So a driver that worked goes round once
//!   more before it sleeps ([`Rounds`]).
//! * It binds a channel to each peer, and forgets it when its refresh meets a nonce that is no longer
//!   fresh, as servers demand every ten minutes or so. What the server sends on that channel is then
//!   thrown away. So no channel is bound ([`is_channel_bind`]): datagrams travel in indications, which
//!   take 36 bytes more and need permissions only, and those are renewed well before they end.
//! * It renews the allocation of a connection that took another way for as long as that lives, and
//!   servers allow a user only so many. So such a one is let go ([`is_renewal`]).
//! * It has a server try every address of the peer, also one that only the peer's own network knows.
//!   coturn ends the whole allocation when its system says that nothing leads there. So a server outside
//!   such a network is asked for no permission for one ([`asks_in_vain`]), and nothing is sent there.
//!
//! Source: RFC 8656, sections 9 (permissions), 11 (Send and Data), 12 (channels).

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rtc::stun::attributes::ATTR_XOR_PEER_ADDRESS;
use rtc::stun::message::{Getter, Message};
use rtc::turn::proto::peeraddr::PeerAddress;

/// How often an allocation is renewed: often enough that one renewal may fail, as that with an old
/// nonce does, and that a NAT on the way keeps its mapping.
pub(super) const ALLOCATION_REFRESH: Duration = Duration::from_secs(25);

/// How long direct ways are looked for before a relayed one is good enough. Those through NATs are
/// found within a few checks of each side.
pub(super) const RELAY_ACCEPTED_AFTER: Duration = Duration::from_millis(1_000);

/// What requests begin with, and what their fifth to eighth byte is.
const REFRESH: [u8; 2] = [0x00, 0x04];
const CREATE_PERMISSION: [u8; 2] = [0x00, 0x08];
const CHANNEL_BIND: [u8; 2] = [0x00, 0x09];
const MAGIC_COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];

/// The first attribute of the crate's Refresh request that gives an allocation back: LIFETIME, zero.
const NO_LIFETIME: [u8; 8] = [0x00, 0x0d, 0x00, 0x04, 0, 0, 0, 0];

/// Whether a datagram to a TURN server asks for a channel.
pub(super) fn is_channel_bind(datagram: &[u8]) -> bool {
    is_request(datagram, CHANNEL_BIND)
}

/// Whether a datagram to a TURN server asks for the allocation to live on.
pub(super) fn is_renewal(datagram: &[u8]) -> bool {
    is_request(datagram, REFRESH) && datagram.get(20..28) != Some(&NO_LIFETIME)
}

/// Whether a datagram to `server` asks it for a permission that leads nowhere from there: for one
/// address, of a network that the server is outside of. A request for more renews what was given.
pub(super) fn asks_in_vain(datagram: &[u8], server: SocketAddr) -> bool {
    if !is_request(datagram, CREATE_PERMISSION) || is_of_a_private_network(server.ip()) {
        return false;
    }
    let mut request = Message::new();
    request.raw = datagram.to_vec();
    if request.decode().is_err() {
        return false;
    }
    let attributes = request.attributes.0.iter();
    let peers = attributes.filter(|it| it.typ == ATTR_XOR_PEER_ADDRESS);
    let mut peer = PeerAddress::default();
    peers.count() == 1 && peer.get_from(&request).is_ok() && is_of_a_private_network(peer.ip)
}

/// An address that means something in its own network alone.
fn is_of_a_private_network(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            // Those of a carrier's NAT (RFC 6598) too.
            let shared = matches!(v4.octets(), [100, 64..=127, ..]);
            shared || v4.is_private() || v4.is_link_local() || v4.is_loopback()
        }
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_unicast_link_local() || v6.is_loopback(),
    }
}

fn is_request(datagram: &[u8], kind: [u8; 2]) -> bool {
    datagram.starts_with(&kind) && datagram.get(4..8) == Some(&MAGIC_COOKIE)
}

pub(super) type Sleeping = Pin<Box<dyn Future<Output = ()> + Send + 'static>>;

tokio::task_local! {
    /// Set in the task of a driver: others sleep by the same runtime, and go no rounds.
    static DRIVER: ();
}

/// The rounds of one connection's driver. Clones share it.
#[derive(Debug, Default, Clone)]
pub(super) struct Rounds(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// The connection is, or may become, relayed by a server of this node's.
    relays: AtomicBool,
    /// Something left for a server since the driver slept last.
    sent: AtomicBool,
    /// The last sleep was none, and ran out: the round after it was the one more.
    once_more: AtomicBool,
}

impl Rounds {
    /// Whether a relayed datagram may wait for a round.
    pub(super) fn set_relays(&self, relays: bool) {
        self.0.relays.store(relays, Ordering::Relaxed);
    }

    /// Whether the connection is, or may become, relayed by a server of this node's.
    pub(super) fn relays(&self) -> bool {
        self.0.relays.load(Ordering::Relaxed)
    }

    /// Something left for a server.
    pub(super) fn sent(&self) {
        self.0.sent.store(true, Ordering::Relaxed);
    }

    /// A driver, known for one while it runs.
    pub(super) fn driver(driver: Sleeping) -> Sleeping {
        Box::pin(DRIVER.scope((), driver))
    }

    /// What the driver that asks for `sleeping` gets: no sleep at all, if it owes another round.
    pub(super) fn sleep(&self, sleeping: impl FnOnce() -> Sleeping) -> Sleeping {
        let is_driver = DRIVER.try_with(|()| ()).is_ok();
        if !(is_driver && self.owes_one_more()) {
            return sleeping();
        }
        let rounds = self.clone();
        Box::pin(async move { rounds.0.once_more.store(true, Ordering::Relaxed) })
    }

    /// It worked since it slept, or its last round sent something, which may have made more.
    fn owes_one_more(&self) -> bool {
        let worked = !self.0.once_more.swap(false, Ordering::Relaxed);
        let sent = self.0.sent.swap(false, Ordering::Relaxed);
        (worked || sent) && self.relays()
    }
}

#[cfg(test)]
mod tests {
    use rtc::stun::message::{CLASS_REQUEST, METHOD_CREATE_PERMISSION, MessageType, Setter};

    use super::*;

    #[test]
    fn a_request_for_a_channel_is_known_and_nothing_else_is_taken_for_one() {
        let mut bind = [0; 20];
        bind[1] = 9;
        bind[4..8].copy_from_slice(&MAGIC_COOKIE);
        assert!(is_channel_bind(&bind));
        for length in 0..8 {
            assert!(!is_channel_bind(&bind[..length]), "{length} bytes");
        }
        for (at, byte) in [(0, 1), (1, 8), (4, 0)] {
            let mut other = bind;
            other[at] = byte;
            assert!(!is_channel_bind(&other), "byte {at}");
        }
    }

    #[test]
    fn a_renewal_is_known_and_what_gives_an_allocation_back_is_none() {
        let refresh = |lifetime_s: u32| {
            let mut refresh = vec![0; 20];
            refresh[1] = 4;
            refresh[4..8].copy_from_slice(&MAGIC_COOKIE);
            refresh.extend([0x00, 0x0d, 0x00, 0x04]);
            refresh.extend(lifetime_s.to_be_bytes());
            refresh
        };
        assert!(is_renewal(&refresh(600)));
        assert!(is_renewal(&refresh(600)[..20]));
        assert!(!is_renewal(&refresh(0)));
        assert!(!is_renewal(&refresh(600)[..7]));
    }

    fn permission(peers: &[&str]) -> Vec<u8> {
        let kind = MessageType::new(METHOD_CREATE_PERMISSION, CLASS_REQUEST);
        let mut setters: Vec<Box<dyn Setter>> = vec![Box::new(kind)];
        for peer in peers {
            let (ip, port) = (peer.parse().unwrap(), 9);
            setters.push(Box::new(PeerAddress { ip, port }));
        }
        let mut request = Message::new();
        request.build(&setters).unwrap();
        request.raw
    }

    #[test]
    fn a_server_is_asked_for_no_address_of_a_network_that_it_is_outside_of() {
        let outside = "198.51.100.1:3478".parse().unwrap();
        let inside = "10.0.0.1:3478".parse().unwrap();
        for private in [
            "10.0.20.2",
            "192.168.1.7",
            "100.64.0.1",
            "169.254.0.1",
            "fd00::1",
        ] {
            assert!(asks_in_vain(&permission(&[private]), outside), "{private}");
            assert!(!asks_in_vain(&permission(&[private]), inside), "{private}");
        }
        for public in ["198.51.100.20", "100.128.0.1", "2001:db8::1"] {
            assert!(!asks_in_vain(&permission(&[public]), outside), "{public}");
        }
        // What renews permissions names all, also those that were never given.
        let renewal = permission(&["10.0.20.2", "198.51.100.20"]);
        assert!(!asks_in_vain(&renewal, outside));
        assert!(!asks_in_vain(&permission(&["10.0.20.2"])[..19], outside));
    }

    /// How many of the sleeps that are asked for are slept.
    async fn slept(rounds: &Rounds, asked: usize) -> usize {
        let (slept, count) = (
            Arc::new(std::sync::atomic::AtomicUsize::new(0)),
            rounds.clone(),
        );
        let counted = Arc::clone(&slept);
        Rounds::driver(Box::pin(async move {
            for _ in 0..asked {
                let counted = Arc::clone(&counted);
                let sleep = count.sleep(|| {
                    Box::pin(async move {
                        counted.fetch_add(1, Ordering::Relaxed);
                    })
                });
                sleep.await;
            }
        }))
        .await;
        slept.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn law_a_driver_that_may_relay_goes_round_once_more_before_it_sleeps() {
        let rounds = Rounds::default();
        assert_eq!(slept(&rounds, 6).await, 6, "nothing is relayed");
        rounds.set_relays(true);
        assert_eq!(slept(&rounds, 6).await, 3, "every other round");
        // One that sends has perhaps not sent all.
        rounds.sent();
        assert_eq!(slept(&rounds, 3).await, 1);
        rounds.sent();
        assert_eq!(slept(&rounds, 1).await, 0);
        rounds.sent();
        assert_eq!(slept(&rounds, 1).await, 0, "it sent in the round after");
        assert_eq!(slept(&rounds, 1).await, 1, "then it sleeps");
    }

    #[tokio::test]
    async fn what_sleeps_beside_a_driver_sleeps() {
        let rounds = Rounds::default();
        rounds.set_relays(true);
        let slept = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&slept);
        rounds
            .sleep(|| Box::pin(async move { told.store(true, Ordering::Relaxed) }))
            .await;
        assert!(slept.load(Ordering::Relaxed));
    }
}
