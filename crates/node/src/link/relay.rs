//! What the crate's TURN client needs around it. Three of its habits are mended here:
//!
//! * What a driver hands to its TURN client in one round leaves in its next, and nothing wakes the
//!   driver for it: each relayed datagram waits for another to come, or for a timer, which is up to
//!   a second, and no handshake lives through that. So a driver that worked goes round once more
//!   before it sleeps ([`Rounds`]).
//! * It binds a channel to each peer, and forgets it when its refresh meets a nonce that is no longer
//!   fresh, as servers demand every ten minutes or so. What the server sends on that channel is then
//!   thrown away. So no channel is bound ([`is_channel_bind`]): datagrams travel in indications, which
//!   take 36 bytes more and need permissions only, and those are renewed well before they end.
//! * It renews the allocation of a connection that took another way for as long as that lives, and
//!   servers allow a user only so many. So such a one is let go ([`is_renewal`]).
//!
//! Source: RFC 8656, sections 9 (permissions), 11 (Send and Data), 12 (channels).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often an allocation is renewed: often enough that one renewal may fail, as that with an old
/// nonce does, and that a NAT on the way keeps its mapping.
pub(super) const ALLOCATION_REFRESH: Duration = Duration::from_secs(25);

/// How long direct ways are looked for before a relayed one is good enough. Those through NATs are
/// found within a few checks of each side.
pub(super) const RELAY_ACCEPTED_AFTER: Duration = Duration::from_millis(1_000);

/// What requests begin with, and what their fifth to eighth byte is.
const REFRESH: [u8; 2] = [0x00, 0x04];
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
