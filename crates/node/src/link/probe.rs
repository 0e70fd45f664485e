//! Asking a silent connection's far end whether its socket is still there.
//!
//! A process that was killed says nothing, but its host does: a datagram to a port that nobody
//! listens on is answered with "port unreachable". A connection's own socket is connected to
//! nobody and never hears that; a second one, connected to the far end, does. So a killed peer whose
//! host lives is known as soon as its connection counts as disturbed, and is not waited for as one
//! whose datagrams may only be lost. The kernel matches the answer to the socket that asked, so
//! nobody off the path makes one up.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::{sleep, timeout};

/// How long an answer may take, and how long until the next question.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// What is asked: one byte that is the beginning of no protocol of the stack, which drops it.
const QUESTION: [u8; 1] = [0xff];

/// Resolves once the far end's host says that its socket is closed.
pub(super) async fn closed(bind: IpAddr, far: SocketAddr) {
    loop {
        match timeout(ASK_EVERY, ask(bind, far)).await {
            Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => return,
            // Something answers there, or this node has no socket for the question.
            Ok(_) => sleep(ASK_EVERY).await,
            Err(_) => {}
        }
    }
}

async fn ask(bind: IpAddr, far: SocketAddr) -> io::Result<()> {
    let socket = UdpSocket::bind((bind, 0)).await?;
    socket.connect(far).await?;
    socket.send(&QUESTION).await?;
    socket.recv(&mut [0]).await.map(drop)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test]
    async fn a_closed_socket_is_known_and_an_open_one_is_not_taken_for_one() {
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        let open = UdpSocket::bind((here, 0)).await.unwrap();
        let far = open.local_addr().unwrap();
        let mut asking = Box::pin(closed(here, far));
        // The question comes, and is no refusal.
        let mut question = [0; 8];
        tokio::select! {
            () = &mut asking => panic!("an open socket was taken for a closed one"),
            heard = open.recv_from(&mut question) => assert_eq!(heard.unwrap().0, QUESTION.len()),
        }
        drop(open);
        asking.await;
    }
}
