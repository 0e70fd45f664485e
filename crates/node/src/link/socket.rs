//! The UDP socket under a link, and the runtime that hands it to the WebRTC crate.
//!
//! Two of the crate's habits are mended here, both through its [`Runtime`] door:
//!
//! * A burst larger than the socket's receive buffer is dropped by the kernel and costs a whole
//!   second of retransmission. So every socket asks for [`RECEIVE_BUFFER_WANTED_BYTES`], reads
//!   back what the kernel granted, and the link's byte window is chosen from that.
//! * A connection that is dropped without being closed leaves its driver running. Drivers and
//!   sockets are counted, so that a leak shows, and file descriptors have a bound.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use webrtc::runtime::{
    AsyncInterval, AsyncTcpListener, AsyncTcpStream, AsyncUdpSocket, JoinHandle, RecvMeta, Runtime,
    TokioRuntime, Transmit,
};

/// The receive buffer that every link socket asks for.
pub const RECEIVE_BUFFER_WANTED_BYTES: usize = 4 * 1024 * 1024;

/// The receive buffer that an untuned Linux grants.
pub const RECEIVE_BUFFER_UNTUNED_BYTES: usize = 208 * 1024;

/// The byte window of a link whose socket got all it asked for.
pub const BYTE_WINDOW_MAX: u32 = 512 * 1024;

/// The byte window of a link whose socket got what an untuned system grants, or less.
pub const BYTE_WINDOW_MIN: u32 = 128 * 1024;

/// A window takes at most this fraction of the granted receive buffer: the kernel charges a
/// datagram more than its bytes, and control frames come on top of the window.
const WINDOW_FRACTION: usize = 8;

const _: () = assert!(RECEIVE_BUFFER_WANTED_BYTES / WINDOW_FRACTION == BYTE_WINDOW_MAX as usize);
const _: () = assert!((BYTE_WINDOW_MIN as usize) < RECEIVE_BUFFER_UNTUNED_BYTES);

/// The byte window that fits a receive buffer of `granted_bytes`.
///
/// It never falls below [`BYTE_WINDOW_MIN`], which one frame and its successor need: a smaller
/// buffer costs retransmissions, not correctness.
pub fn byte_window(granted_bytes: usize) -> u32 {
    u32::try_from(granted_bytes / WINDOW_FRACTION)
        .unwrap_or(BYTE_WINDOW_MAX)
        .clamp(BYTE_WINDOW_MIN, BYTE_WINDOW_MAX)
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

/// What all links of a node hold of the operating system.
#[derive(Debug, Clone)]
pub struct Held {
    drivers: Arc<watch::Sender<usize>>,
    sockets: Arc<watch::Sender<usize>>,
}

impl Default for Held {
    fn default() -> Self {
        Self {
            drivers: Arc::new(watch::Sender::new(0)),
            sockets: Arc::new(watch::Sender::new(0)),
        }
    }
}

impl Held {
    /// Connection drivers that run.
    pub fn drivers(&self) -> usize {
        *self.drivers.borrow()
    }

    /// UDP sockets that are open: one file descriptor each, one for each link or half-open link.
    pub fn sockets(&self) -> usize {
        *self.sockets.borrow()
    }

    /// Resolves once no driver runs and no socket is open.
    pub async fn all_released(&self) {
        let mut drivers = self.drivers.subscribe();
        let mut sockets = self.sockets.subscribe();
        // The senders live in `self`, so neither wait can fail.
        let _ = drivers.wait_for(|held| *held == 0).await;
        let _ = sockets.wait_for(|held| *held == 0).await;
    }
}

/// One of something counted in a [`Held`], until dropped.
#[derive(Debug)]
struct Counted(Arc<watch::Sender<usize>>);

impl Counted {
    fn one_of(count: &Arc<watch::Sender<usize>>) -> Self {
        count.send_modify(|held| *held += 1);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|held| *held -= 1);
    }
}

/// A gate on the datagrams of one connection, for tests that make a peer vanish: while it is
/// shut, nothing leaves and nothing is read, as if the cable were cut.
#[cfg(test)]
#[derive(Debug, Default, Clone)]
pub(crate) struct Cable(Arc<std::sync::atomic::AtomicBool>);

#[cfg(test)]
impl Cable {
    pub(crate) fn cut(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_cut(&self) -> bool {
        self.0.load(Ordering::Acquire)
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
    #[cfg(test)]
    pub(crate) cable: Cable,
}

impl LinkRuntime {
    pub(crate) fn new(held: Held, wanted_bytes: usize) -> Self {
        Self {
            inner: TokioRuntime,
            held,
            wanted_bytes,
            granted_bytes: Arc::new(AtomicUsize::new(0)),
            #[cfg(test)]
            cable: Cable::default(),
        }
    }

    /// What the kernel granted the socket; zero before there is one.
    pub(crate) fn granted_bytes(&self) -> usize {
        self.granted_bytes.load(Ordering::Acquire)
    }
}

impl Runtime for LinkRuntime {
    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) -> Box<dyn JoinHandle> {
        let counted = Counted::one_of(&self.held.drivers);
        self.inner.spawn(Box::pin(async move {
            let _counted = counted;
            future.await;
        }))
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let granted_bytes = size_receive_buffer(&socket, self.wanted_bytes)?;
        self.granted_bytes.store(granted_bytes, Ordering::Release);
        Ok(Arc::new(LinkSocket {
            inner: self.inner.wrap_udp_socket(socket)?,
            _counted: Counted::one_of(&self.held.sockets),
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
        self.inner.resolve_host(host)
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        self.inner.sleep(duration)
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

/// A counted socket.
#[derive(Debug)]
struct LinkSocket {
    inner: Arc<dyn AsyncUdpSocket>,
    _counted: Counted,
    #[cfg(test)]
    cable: Cable,
}

impl AsyncUdpSocket for LinkSocket {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn poll_send(&self, cx: &mut Context<'_>, transmit: &Transmit<'_>) -> Poll<io::Result<usize>> {
        #[cfg(test)]
        if self.cable.is_cut() {
            return Poll::Ready(Ok(transmit.contents.len()));
        }
        self.inner.poll_send(cx, transmit)
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
                return received;
            }
        }
        #[cfg(not(test))]
        self.inner.poll_recv(cx, bufs, meta)
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
        assert_eq!(byte_window(RECEIVE_BUFFER_WANTED_BYTES), BYTE_WINDOW_MAX);
        assert_eq!(byte_window(2 * 1024 * 1024), 256 * 1024);
        assert_eq!(byte_window(RECEIVE_BUFFER_UNTUNED_BYTES), BYTE_WINDOW_MIN);
        assert_eq!(byte_window(0), BYTE_WINDOW_MIN);
        assert_eq!(byte_window(usize::MAX), BYTE_WINDOW_MAX);
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
