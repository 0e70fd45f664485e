//! A driver over a transport that a test plays by hand.

use async_trait::async_trait;
use overlane_core::NetworkId;
use overlane_core::lane::{Phase, SessionConfig};
use overlane_core::signal::Source;
use overlane_core::wire::frame::PAYLOAD_MARKER;

use super::*;
use crate::link::config::LinkConfig;
use crate::link::count::Held;

use crate::link::links::Links;
use crate::link::registry::Direction;
use crate::link::rule::Mark;
use crate::link::sdp::SdpError;
use crate::link::tests::node::Identity;
use crate::link::transport::{Connector, Opened};

/// Takes everything, and brings nothing.
#[derive(Debug)]
struct Nowhere;

#[async_trait]
impl Transport for Nowhere {
    async fn offer(&self) -> Result<String, TransportError> {
        Err(TransportError::Closed)
    }

    async fn answer(&self, _offer: &str) -> Result<String, TransportError> {
        Err(TransportError::Closed)
    }

    async fn conclude(&self, _answer: &str) -> Result<(), TransportError> {
        Err(TransportError::Closed)
    }

    async fn send(&self, _: Class, _: Vec<u8>, _: Duration) -> Result<(), TransportError> {
        Ok(())
    }

    fn byte_window(&self) -> u32 {
        1 << 19
    }

    fn window_scale_max(&self) -> u8 {
        1
    }

    async fn close(&self) {}
}

#[async_trait]
impl Connector for Nowhere {
    async fn open(&self) -> Result<Opened, TransportError> {
        Err(TransportError::Closed)
    }

    fn check(&self, _sdp: &str) -> Result<(), SdpError> {
        Ok(())
    }
}

/// Lets two sessions say all they have to say.
fn exchange(here: &mut Session, far: &mut Session) {
    let mut moved = true;
    while moved {
        moved = false;
        let (mut from, mut to) = (&mut *here, &mut *far);
        for _ in 0..2 {
            while let Some(transmit) = from.poll_transmit(0) {
                moved = true;
                from.handle_accepted(transmit.class, 0);
                to.handle_message(transmit.class, transmit.bytes, 0);
            }
            std::mem::swap(&mut from, &mut to);
        }
    }
}

/// Another link to the same peer came up between the opening of this one's session and its telling.
/// What the peer had sent on this one, its session answers for.
#[tokio::test]
async fn law_told_if_answered_a_link_that_gives_way_before_it_is_told_loses_no_frame() {
    let held = Held::default();
    let identity = Identity::new(1);
    let (links, mut events) = Links::over(Arc::new(Nowhere), held, LinkConfig::default(), identity);
    let shared = Arc::clone(&links.shared);
    let peer = Did([9; 20]);
    let mark = Mark {
        offerer: peer,
        issued_ms: 1,
        nonce: [0; 32],
    };
    let id = lock(&shared.registry)
        .begin(Direction::Inbound(Source::Local))
        .unwrap();
    lock(&shared.registry).admit(id, peer, mark).unwrap();
    let session = || Session::new(SessionConfig::new(NetworkId(7)), 0);
    let asked = Asked {
        peer,
        url: None,
        witness: None,
        account: None,
        listens: None,
    };
    let queued = Arc::clone(&shared.queued);
    let link = Link::new(id, asked, 1 << 19, session(), queued, shared.epoch);
    let link = Arc::new(link);
    lock(&shared.registry)
        .attach(id, link.peer, Arc::clone(&link))
        .unwrap();

    let mut far = session();
    for class in Class::ALL {
        far.handle_channel_open(class, 0);
        link.session().handle_channel_open(class, 0);
    }
    let frame = |number| [&PAYLOAD_MARKER[..], &[number]].concat();
    for number in 0..3 {
        far.send(Class::E2e, frame(number)).unwrap();
    }
    exchange(&mut link.session(), &mut far);
    assert_eq!(link.session().phase(), Phase::Open);

    // Now the other one stands.
    let by = LinkId(99);
    lock(&shared.registry).leave(id, DownReason::Replaced { by });
    let (opened, opens) = oneshot::channel();
    let (brings, transport_events) = mpsc::channel(1);
    let driver = Driver::new(link, shared, Arc::new(Nowhere), transport_events, opened);
    let driver = tokio::spawn(driver.run());
    let up = events.recv().await.unwrap();
    assert!(
        matches!(up, LinkEvent::Up { link, leaving: true, .. } if link == id),
        "{up:?}"
    );
    let (link, class) = (id, Class::E2e);
    let frames = (0..3).map(|number| frame(number).into()).collect();
    let told = LinkEvent::Frames {
        link,
        class,
        frames,
    };
    assert_eq!(events.recv().await, Some(told), "in one message");
    drop(brings);
    let down = events.recv().await.unwrap();
    assert!(
        matches!(down, LinkEvent::Down { link, .. } if link == id),
        "{down:?}"
    );
    driver.await.unwrap();
    // Whoever dialled it is told that it does not stand.
    assert!(opens.await.unwrap().is_err());
}
