//! Frames under way: order, credit, and what an unread lane does to the others.

use overlane_core::lane::bounds::{LANE_WINDOW_FRAMES, LINK_WINDOW_MESSAGES};
use overlane_core::lane::{PerLane, SendError};
use overlane_core::{Class, Coded};

use super::node::{Node, Pair, frame, number, wide};
use crate::link::{LinkError, LinkEvent, LinkId};

/// Sends numbered frames in all classes, as fast as there is room, and checks what comes.
struct Exchange {
    node: Node,
    link: LinkId,
    each: u32,
    sent: PerLane<u32>,
    received: PerLane<u32>,
}

impl Exchange {
    fn new(node: Node, link: LinkId, each: u32) -> Self {
        Self {
            node,
            link,
            each,
            sent: PerLane::default(),
            received: PerLane::default(),
        }
    }

    fn fill(&mut self, class: Class) {
        let sent = self.sent.of_mut(class);
        while *sent < self.each {
            match self.node.links.send(self.link, class, frame(*sent)) {
                Ok(()) => *sent += 1,
                Err(LinkError::Lane {
                    error: SendError::LaneFull { .. },
                    ..
                }) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn run(mut self) -> Node {
        for class in Class::ALL {
            self.fill(class);
        }
        while self.received.iter().any(|&received| received < self.each)
            || self.sent.iter().any(|&sent| sent < self.each)
        {
            match self.node.next().await {
                LinkEvent::Frames {
                    link,
                    class,
                    frames,
                } => {
                    assert_eq!(link, self.link);
                    let next = self.received.of_mut(class);
                    for frame in &frames {
                        assert_eq!(number(frame), *next, "order in {class}");
                        *next += 1;
                        self.node.links.taken(link, class, 1);
                    }
                }
                LinkEvent::Room { class, .. } => self.fill(class),
                other => panic!("{other:?}"),
            }
        }
        self.node
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn law_four_classes_both_ways_at_once_keep_their_order() {
    const EACH: u32 = 600;
    let Pair { a, b, at_a, at_b } = Pair::new().await;
    let a = tokio::spawn(Exchange::new(a, at_a, EACH).run());
    let b = tokio::spawn(Exchange::new(b, at_b, EACH).run());
    let (a, b) = (a.await.unwrap(), b.await.unwrap());
    for (node, link) in [(a, at_a), (b, at_b)] {
        let status = node.links.status();
        assert_eq!((status.len(), status[0].link), (1, link));
        for (class, lane) in status[0].session.lanes.each() {
            let told = (lane.sent, lane.received);
            assert_eq!(told, (u64::from(EACH), u64::from(EACH)), "{class}");
        }
    }
}

/// The transport may stall once more than 256 small messages lie undrained on a channel, and a
/// datagram wakes it only by chance. Credit keeps far below that, whatever is offered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn law_untaken_small_messages_stay_below_what_stalls_the_transport() {
    const MANY: u32 = 64;
    let Pair { a, mut b, at_a, .. } = Pair::new().await;
    for number in 0..MANY {
        for class in Class::ALL {
            // Offered beyond what fits: refusals are part of the bound.
            let _ = a.links.send(at_a, class, wide(number));
        }
    }
    let window = u32::from(LANE_WINDOW_FRAMES);
    let mut came = PerLane([0; 4]);
    while came.iter().any(|&came| came < window) {
        let (_, class, bytes) = b.frame().await;
        assert_eq!(number(&bytes), *came.of(class));
        *came.of_mut(class) += 1;
        assert!(*came.of(class) <= window, "{class} passed its window");
    }
    // Nothing was taken, so no more was sent: 64 frames and their control, not 256.
    let status = &a.links.status()[0].session;
    for (class, lane) in status.lanes.each() {
        assert_eq!(lane.sent, u64::from(window), "{class}");
    }
    let received = b.links.status()[0].session.counters.messages_received;
    assert!(received <= LINK_WINDOW_MESSAGES, "{received} messages");
    // And all of what was queued comes once frames are taken.
    let queued: PerLane<u32> =
        PerLane(Class::ALL.map(|class| status.lanes.of(class).queued as u32 + window));
    for class in Class::ALL {
        for _ in 0..window {
            b.links.taken(b.links.status()[0].link, class, 1);
        }
    }
    while came != queued {
        let (link, class, bytes) = b.frame().await;
        assert_eq!(number(&bytes), *came.of(class));
        *came.of_mut(class) += 1;
        b.links.taken(link, class, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn law_an_untaken_lane_holds_no_other() {
    let Pair { a, mut b, at_a, .. } = Pair::new().await;
    let window = u32::from(LANE_WINDOW_FRAMES);
    for number in 0..2 * window {
        a.links.send(at_a, Class::Storage, wide(number)).unwrap();
    }
    for next in 0..window {
        let (_, class, bytes) = b.frame().await;
        assert_eq!((class, number(&bytes)), (Class::Storage, next));
    }
    for next in 0..10 * window {
        for class in [Class::Control, Class::E2e, Class::Application] {
            a.links.send(at_a, class, frame(next)).unwrap();
            let (link, came, bytes) = b.frame().await;
            assert_eq!((came, number(&bytes)), (class, next));
            b.links.taken(link, class, 1);
        }
    }
    let storage = *a.links.status()[0].session.lanes.of(Class::Storage);
    assert_eq!(storage.sent, u64::from(window));
    assert_eq!(storage.queued, usize::try_from(window).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_payload_frame_or_no_link_is_refused() {
    let Pair { a, at_a, .. } = Pair::new().await;
    let refused = a.links.send(at_a, Class::E2e, b"hello".to_vec());
    assert_eq!(refused.unwrap_err().code(), "lane/not_payload");
    let unknown = LinkId(at_a.0 + 1);
    let refused = a.links.send(unknown, Class::E2e, frame(1));
    assert_eq!(refused, Err(LinkError::Unknown(unknown)));
}
