//! What the driver reads, and what it leaves to the links.

use overlane_core::lane::QuotaHint;

use super::super::fixture::{NETWORK, account, frame, life};
use super::super::verify::Job;
use super::*;
use crate::link::LinkConfig;
use crate::peer::VerifyResult;
use crate::refs::Shared;

const LINK: LinkId = LinkId(1);
/// Frames that wait on the link beyond the bound.
const BEYOND: usize = 10;

/// The link is up, to this peer.
fn up(peer: Did) -> LinkEvent {
    LinkEvent::Up {
        link: LINK,
        peer,
        dialed_url: None,
        quota: QuotaHint::default(),
        witness: None,
        account: None,
        leaving: false,
    }
}

/// A driver whose workers the test is.
struct Driven {
    links: mpsc::Sender<LinkEvent>,
    commands: mpsc::Sender<Command>,
    jobs: async_channel::Receiver<Job>,
    worked: mpsc::UnboundedSender<Worked>,
}

impl Driven {
    fn start(waiting: impl IntoIterator<Item = LinkEvent>, identity: &Arc<Identity>) -> Self {
        let clock = Clock::start();
        let (workers, jobs) = Workers::idle();
        let (links, _) = Links::start(LinkConfig::default(), Arc::clone(identity) as _);
        let (worked_out, worked) = mpsc::unbounded_channel();
        let (_batches_out, batches) = mpsc::unbounded_channel();
        let (taken_out, taken) = mpsc::unbounded_channel();
        let (commands_out, commands) = mpsc::channel(1);
        let (_posted_out, posted) = mpsc::unbounded_channel();
        let (_committed_out, committed) = mpsc::unbounded_channel();
        let (_told_out, told) = mpsc::unbounded_channel();
        let (dropped_out, dropped) = mpsc::unbounded_channel();
        let (_words_out, words) = mpsc::unbounded_channel();
        let refs = Shared::new(dropped_out, commands_out.downgrade());
        let (links_out, link_events) = mpsc::channel(2 * VERIFY_OUTSTANDING_MAX);
        for event in waiting {
            assert!(links_out.try_send(event).is_ok());
        }
        let peer = Peer::new(identity.signer(), None, clock.now());
        let driver = Driver {
            teller: Teller::new(&peer).0,
            peer,
            clock,
            identity: Arc::clone(identity),
            courier: Courier::new(links.clone(), commands_out.downgrade()),
            questions: BTreeMap::new(),
            receipts: BTreeMap::new(),
            next_ask: 0,
            refs: Hands::new(refs, None),
            keepers: BTreeMap::new(),
            mail: MailHands::new(None),
            neighbours: Neighbours::default(),
            keeping: None,
            links,
            workers,
            writer: None,
            messages: Messages::new(taken_out),
            events: broadcast::channel(1).0,
            up: watch::channel(LinksUp::new()).0,
            replies: BTreeMap::new(),
            progress: BTreeMap::new(),
            outstanding: 0,
            handles: BTreeMap::new(),
            came: VecDeque::new(),
            taken: Vec::new(),
            store_watch: StoreWatch::default(),
        };
        tokio::spawn(driver.run(Inbox {
            commands,
            posted,
            links: link_events,
            worked,
            batches,
            taken,
            committed,
            told,
            dropped,
            words,
        }));
        Self {
            links: links_out,
            commands: commands_out,
            jobs,
            worked: worked_out,
        }
    }

    /// Events that the driver has not read.
    fn unread(&self) -> usize {
        self.links.max_capacity() - self.links.capacity()
    }

    /// The driver has gone round its loop this often.
    async fn rounds(&self, count: usize) {
        for _ in 0..count {
            let (seen_out, seen) = oneshot::channel();
            let look = Command::Look(Box::new(move |_| {
                let _ = seen_out.send(());
            }));
            assert!(self.commands.send(look).await.is_ok());
            assert!(seen.await.is_ok());
        }
    }

    async fn until_jobs(&self, count: usize) {
        for _ in 0..100 {
            if self.jobs.len() == count {
                return;
            }
            self.rounds(2 * VERIFY_OUTSTANDING_MAX / 100).await;
        }
        panic!("{} jobs, not {count}", self.jobs.len());
    }

    async fn answer(&self, result: impl FnOnce() -> VerifyResult) {
        let Ok(Job::Verify(ticket, _)) = self.jobs.recv().await else {
            panic!("a job waits")
        };
        let verified = Worked::Verified(ticket, result());
        assert!(self.worked.send(verified).is_ok());
    }
}

/// With as many checks out as may be, what is in the links stays there, and their credit holds the far
/// side; each check that comes back lets one frame in.
#[tokio::test]
async fn law_the_driver_reads_no_link_at_the_bound_of_outstanding_checks() {
    let identity = Arc::new(Identity::new(account(), NETWORK, 86_400_000).unwrap());
    let signer = identity.signer();
    let bytes = frame(&signer, life(Clock::wall_ms()));
    let frames = (0..VERIFY_OUTSTANDING_MAX + BEYOND).map(|_| LinkEvent::Frames {
        link: LINK,
        class: Class::Control,
        frames: vec![bytes.clone().into()],
    });
    let driven = Driven::start([up(signer.did())].into_iter().chain(frames), &identity);
    driven.until_jobs(VERIFY_OUTSTANDING_MAX).await;
    for answered in 0..BEYOND {
        // Each round would read a frame with an even chance, were it allowed to.
        driven.rounds(64).await;
        assert_eq!(driven.unread(), BEYOND - answered);
        assert_eq!(driven.jobs.len(), VERIFY_OUTSTANDING_MAX);
        driven.answer(|| Err(Refusal::VerifierStopped)).await;
        driven.until_jobs(VERIFY_OUTSTANDING_MAX).await;
    }
    assert_eq!(driven.unread(), 0);
}

/// So it is within frames that came together.
#[tokio::test]
async fn law_the_driver_reads_no_frame_of_many_at_the_bound_of_outstanding_checks() {
    let identity = Arc::new(Identity::new(account(), NETWORK, 86_400_000).unwrap());
    let signer = identity.signer();
    let bytes: Bytes = frame(&signer, life(Clock::wall_ms())).into();
    let frames = LinkEvent::Frames {
        link: LINK,
        class: Class::Control,
        frames: vec![bytes; VERIFY_OUTSTANDING_MAX + BEYOND],
    };
    let driven = Driven::start([up(signer.did()), frames], &identity);
    for _ in 0..=BEYOND {
        driven.until_jobs(VERIFY_OUTSTANDING_MAX).await;
        driven.rounds(64).await;
        assert_eq!(driven.jobs.len(), VERIFY_OUTSTANDING_MAX);
        driven.answer(|| Err(Refusal::VerifierStopped)).await;
    }
    driven.rounds(64).await;
    assert_eq!(
        driven.jobs.len(),
        VERIFY_OUTSTANDING_MAX - 1,
        "no more came"
    );
}

/// A link that is being made asks another node by way of the driver, and the links wait for it when a
/// node ends: it is answered though nothing is asked any more.
#[tokio::test]
async fn law_whoever_asks_a_node_that_ends_is_not_left_waiting() {
    let identity = Arc::new(Identity::new(account(), NETWORK, 86_400_000).unwrap());
    let signer = identity.signer();
    let frame = LinkEvent::Frames {
        link: LINK,
        class: Class::Control,
        frames: vec![frame(&signer, life(Clock::wall_ms())).into()],
    };
    let driven = Driven::start([up(signer.did()), frame], &identity);
    // A check that is out keeps the driver from its end.
    driven.until_jobs(1).await;
    let (ended, end) = oneshot::channel();
    let (asks, answer) = oneshot::channel();
    let (ended_too, end_too) = oneshot::channel();
    for command in [
        Command::Shutdown(ended),
        Command::Ask(Ask::Ping(signer.did()), asks),
        Command::Shutdown(ended_too),
    ] {
        assert!(driven.commands.send(command).await.is_ok());
    }
    assert!(answer.await.is_err());
    driven.answer(|| Err(Refusal::VerifierStopped)).await;
    for end in [end, end_too] {
        assert_eq!(end.await, Ok(()));
    }
}
