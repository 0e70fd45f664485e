//! The UDP socket under a link, and the runtime that hands it to the WebRTC crate.
//!
//! Habits of the crate are mended here, all through its [`Runtime`] door:
//!
//! * A burst larger than the socket's receive buffer is dropped by the kernel and costs a whole
//!   second of retransmission. So every socket asks for [`RECEIVE_BUFFER_WANTED_BYTES`], reads
//!   back what the kernel granted, and the link's byte window is chosen from that.
//! * A connection that is dropped without being closed leaves its driver running. Drivers and
//!   sockets are counted, so that a leak shows, and file descriptors have a bound.
//! * Those of its TURN client (`relay.rs`), and that it sets the address of a TURN server
//!   without the brackets that an IPv6 address needs.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use overlane_core::lane::bounds::{
    LINK_WINDOW_DEFAULT_BYTES, LINK_WINDOW_MIN_BYTES, WINDOW_SCALE_MAX,
};
use webrtc::runtime::{
    AsyncInterval, AsyncTcpListener, AsyncTcpStream, AsyncUdpSocket, JoinHandle, RecvMeta, Runtime,
    TokioRuntime, Transmit,
};

use super::beside::Beside;
use super::count::{Counted, Held};
use super::ice::{Gathering, RESOLVE_DEADLINE_MS};
use super::relay::{Rounds, asks_in_vain, is_channel_bind, is_renewal};

/// The receive buffer that every link socket asks for.
pub const RECEIVE_BUFFER_WANTED_BYTES: usize = 4 * 1024 * 1024;

/// The receive buffer that an untuned Linux grants.
pub const RECEIVE_BUFFER_UNTUNED_BYTES: usize = 208 * 1024;

/// A window takes at most this fraction of the granted receive buffer: the kernel charges a
/// datagram more than its bytes, and control frames come on top of the window.
const WINDOW_FRACTION: usize = 8;

const _: () =
    assert!(RECEIVE_BUFFER_WANTED_BYTES / WINDOW_FRACTION == LINK_WINDOW_DEFAULT_BYTES as usize);
const _: () = assert!((LINK_WINDOW_MIN_BYTES as usize) < RECEIVE_BUFFER_UNTUNED_BYTES);

/// The byte window that fits a receive buffer of `granted_bytes`. It never falls below
/// [`LINK_WINDOW_MIN_BYTES`]: a smaller buffer costs retransmissions, not correctness.
pub fn byte_window(granted_bytes: usize) -> u32 {
    u32::try_from(granted_bytes / WINDOW_FRACTION)
        .unwrap_or(LINK_WINDOW_DEFAULT_BYTES)
        .clamp(LINK_WINDOW_MIN_BYTES, LINK_WINDOW_DEFAULT_BYTES)
}

/// How many times that window a far peer may have under way: what comes from far away comes spread
/// over the path, and still at most half of the buffer's worth.
pub fn window_scale_max(granted_bytes: usize) -> u8 {
    let window = usize::try_from(byte_window(granted_bytes)).unwrap_or(usize::MAX);
    let times = granted_bytes / 2 / window;
    u8::try_from(times)
        .unwrap_or(u8::MAX)
        .clamp(1, WINDOW_SCALE_MAX)
}

/// Asks for `wanted_bytes` of receive buffer and tells what the kernel granted.
fn size_receive_buffer(socket: &UdpSocket, wanted_bytes: usize) -> io::Result<usize> {
    let socket = socket2::SockRef::from(socket);
    socket.set_recv_buffer_size(wanted_bytes)?;
    let told_bytes = socket.recv_buffer_size()?;
    // Linux tells twice what may be filled; the other half is its own book-keeping (socket(7)).
    Ok(if cfg!(target_os = "linux") {
        told_bytes / 2
    } else {
        told_bytes
    })
}

/// A gate on the datagrams of one connection, for tests that make a peer vanish or stand a wall
/// between two: cut, nothing leaves and nothing is read; walled, nothing leaves but to servers.
#[cfg(test)]
#[derive(Debug, Default, Clone)]
pub(crate) struct Cable {
    cut: Arc<std::sync::atomic::AtomicBool>,
    walled: Arc<std::sync::atomic::AtomicBool>,
}

#[cfg(test)]
impl Cable {
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Release);
    }

    pub(crate) fn wall(&self) {
        self.walled.store(true, Ordering::Release);
    }

    fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Acquire)
    }

    fn lets_out(&self, to_server: bool) -> bool {
        !self.is_cut() && (to_server || !self.walled.load(Ordering::Acquire))
    }
}

/// The tokio runtime, with the socket's buffer sized and everything counted. One for each
/// connection.
#[derive(Debug)]
pub(crate) struct LinkRuntime {
    inner: TokioRuntime,
    held: Held,
    wanted_bytes: usize,
    granted_bytes: Arc<AtomicUsize>,
    far: FarEnd,
    gathering: Gathering,
    rounds: Rounds,
    beside: Beside,
    #[cfg(test)]
    pub(crate) cable: Cable,
}

/// Where a connection's datagrams went last: of one that is up, the other end, or a TURN server.
#[derive(Debug, Default, Clone)]
pub(super) struct FarEnd {
    last: Arc<Mutex<Option<SocketAddr>>>,
    servers: Gathering,
}

impl FarEnd {
    /// The address, once anything was sent; none where a server stands between.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.filter(|address| !self.servers.is_server(*address))
    }

    fn sent_to(&self, address: SocketAddr) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
    }
}

impl LinkRuntime {
    /// With `relays`, its connection asks a TURN server to relay.
    pub(crate) fn new(held: Held, wanted_bytes: usize, relays: bool) -> Self {
        let gathering = Gathering::default();
        let rounds = Rounds::default();
        rounds.set_relays(relays);
        Self {
            inner: TokioRuntime,
            held,
            wanted_bytes,
            granted_bytes: Arc::new(AtomicUsize::new(0)),
            far: FarEnd {
                last: Arc::default(),
                servers: gathering.clone(),
            },
            gathering,
            rounds,
            beside: Beside::new(),
            #[cfg(test)]
            cable: Cable::default(),
        }
    }

    /// What is heard of the servers that help through NATs.
    pub(super) fn gathering(&self) -> &Gathering {
        &self.gathering
    }

    /// Where the task of its driver takes up work.
    pub(super) fn beside(&self) -> &Beside {
        &self.beside
    }

    /// The rounds of its driver.
    pub(super) fn rounds(&self) -> &Rounds {
        &self.rounds
    }

    /// Where its datagrams go.
    pub(super) fn far_end(&self) -> FarEnd {
        self.far.clone()
    }

    /// What the kernel granted the socket; zero before there is one.
    pub(crate) fn granted_bytes(&self) -> usize {
        self.granted_bytes.load(Ordering::Acquire)
    }
}

impl Runtime for LinkRuntime {
    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) -> Box<dyn JoinHandle> {
        let counted = self.held.drivers.one();
        self.beside.spawn(Rounds::driver(Box::pin(async move {
            let _counted = counted;
            future.await;
        })))
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let granted_bytes = size_receive_buffer(&socket, self.wanted_bytes)?;
        self.granted_bytes.store(granted_bytes, Ordering::Release);
        Ok(Arc::new(LinkSocket {
            inner: self.inner.wrap_udp_socket(socket)?,
            _counted: self.held.sockets.one(),
            far: self.far.clone(),
            gathering: self.gathering.clone(),
            rounds: self.rounds.clone(),
            #[cfg(test)]
            cable: self.cable.clone(),
        }))
    }

    fn wrap_tcp_listener(&self, listener: TcpListener) -> io::Result<Arc<dyn AsyncTcpListener>> {
        self.inner.wrap_tcp_listener(listener)
    }

    fn connect_tcp<'a>(
        &'a self,
        remote_addr: SocketAddr,
    ) -> Pin<Box<dyn Future<Output = io::Result<Arc<dyn AsyncTcpStream>>> + Send + 'a>> {
        self.inner.connect_tcp(remote_addr)
    }

    fn resolve_host<'a>(
        &'a self,
        host: &'a str,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>> {
        Box::pin(async move {
            // The driver that waits for it does nothing else meanwhile.
            let deadline = Duration::from_millis(RESOLVE_DEADLINE_MS);
            let addresses = match bare_ipv6(host) {
                Some(address) => vec![address],
                None => {
                    let resolving = tokio::time::timeout(deadline, self.inner.resolve_host(host));
                    resolving.await.map_err(|_| io::ErrorKind::TimedOut)??
                }
            };
            self.gathering.resolved(host, &addresses);
            Ok(addresses)
        })
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        self.rounds.sleep(|| self.inner.sleep(duration))
    }

    fn interval(&self, period: Duration) -> Box<dyn AsyncInterval> {
        self.inner.interval(period)
    }

    fn block_on(&self, future: Pin<Box<dyn Future<Output = ()> + '_>>) {
        self.inner.block_on(future);
    }

    fn yield_now(&self) -> Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        self.inner.yield_now()
    }

    fn name(&self) -> &'static str {
        "overlane"
    }
}

/// Whether the system says that nothing leads there, or that nothing may be sent there.
fn leads_nowhere(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::PermissionDenied
    )
}

/// An IPv6 address and a port as the crate sets those of a TURN server: without brackets.
fn bare_ipv6(place: &str) -> Option<SocketAddr> {
    let (address, port) = place.rsplit_once(':')?;
    let address: Ipv6Addr = address.parse().ok()?;
    Some((address, port.parse().ok()?).into())
}

/// A counted socket.
#[derive(Debug)]
struct LinkSocket {
    inner: Arc<dyn AsyncUdpSocket>,
    _counted: Counted,
    far: FarEnd,
    gathering: Gathering,
    rounds: Rounds,
    #[cfg(test)]
    cable: Cable,
}

impl LinkSocket {
    fn heard(&self, received: &Poll<io::Result<usize>>, meta: &[RecvMeta]) {
        if let Poll::Ready(Ok(count)) = received {
            for datagram in meta.iter().take(*count) {
                self.gathering.came_from(datagram.addr);
            }
        }
    }
}

impl AsyncUdpSocket for LinkSocket {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn poll_send(&self, cx: &mut Context<'_>, transmit: &Transmit<'_>) -> Poll<io::Result<usize>> {
        self.far.sent_to(transmit.destination);
        let gone = Poll::Ready(Ok(transmit.contents.len()));
        let to_server = self.gathering.is_server(transmit.destination);
        if to_server {
            let request = transmit.contents;
            let renews_in_vain = !self.rounds.relays() && is_renewal(request);
            if renews_in_vain
                || is_channel_bind(request)
                || asks_in_vain(request, transmit.destination)
            {
                return gone;
            }
            self.rounds.sent();
        }
        #[cfg(test)]
        if !self.cable.lets_out(to_server) {
            return gone;
        }
        match self.inner.poll_send(cx, transmit) {
            // No way there is no fault of this node's: it is one of the addresses that are tried.
            Poll::Ready(Err(cause)) if !to_server && leads_nowhere(&cause) => gone,
            sent => sent,
        }
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [io::IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        #[cfg(test)]
        loop {
            let received = self.inner.poll_recv(cx, bufs, meta);
            if !(self.cable.is_cut() && received.is_ready()) {
                self.heard(&received, meta);
                return received;
            }
        }
        #[cfg(not(test))]
        {
            let received = self.inner.poll_recv(cx, bufs, meta);
            self.heard(&received, meta);
            received
        }
    }

    fn max_gso_segments(&self) -> usize {
        self.inner.max_gso_segments()
    }

    fn max_gro_segments(&self) -> usize {
        self.inner.max_gro_segments()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_chosen_from_what_the_kernel_granted() {
        assert_eq!(
            byte_window(RECEIVE_BUFFER_WANTED_BYTES),
            LINK_WINDOW_DEFAULT_BYTES
        );
        assert_eq!(byte_window(2 * 1024 * 1024), 256 * 1024);
        assert_eq!(
            byte_window(RECEIVE_BUFFER_UNTUNED_BYTES),
            LINK_WINDOW_MIN_BYTES
        );
        assert_eq!(byte_window(0), LINK_WINDOW_MIN_BYTES);
        assert_eq!(byte_window(usize::MAX), LINK_WINDOW_DEFAULT_BYTES);
        assert_eq!(
            window_scale_max(RECEIVE_BUFFER_WANTED_BYTES),
            WINDOW_SCALE_MAX
        );
        assert_eq!(window_scale_max(RECEIVE_BUFFER_UNTUNED_BYTES), 1);
        assert_eq!(window_scale_max(0), 1);
        assert_eq!(window_scale_max(usize::MAX), WINDOW_SCALE_MAX);
    }

    #[test]
    fn an_ipv6_address_is_known_without_its_brackets() {
        let one = "[::1]:3478".parse().ok();
        assert_eq!(bare_ipv6("::1:3478"), one);
        for other in ["[::1]:3478", "a:3478", "127.0.0.1:3478", "::1", "::1:x", ""] {
            assert_eq!(bare_ipv6(other), None, "{other}");
        }
    }

    #[test]
    fn the_buffer_is_read_back_from_the_kernel() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(size_receive_buffer(&socket, 64 * 1024).unwrap(), 64 * 1024);
        let granted_bytes = size_receive_buffer(&socket, usize::MAX >> 34).unwrap();
        assert!(
            (1..usize::MAX >> 34).contains(&granted_bytes),
            "the kernel caps a buffer of a gibibyte, and told {granted_bytes}"
        );
    }
}
