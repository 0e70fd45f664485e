//! Two real daemons on loopback, a thousand messages, and a receiver that is killed with SIGKILL
//! on the way, again and again. After each restart every transaction is offered again. Nothing
//! waits by the clock: the kills come when a number of messages has been taken, drawn from a fixed
//! seed; the rest waits for what the receiver says that it judged.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod support;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use axum::http::Method;
use overlane_node::api::{
    Client, ClientError, EventLine, OfferAgainRequest, SendReceipt, SendRequest, StatusReport,
    TakeRequest, TakenMessage,
};
use overlane_node::home::Home;
use overlane_storage_native::testkit::Seeded;
use support::{Daemon, Place};
use tokio::sync::watch;
use tokio::task::JoinHandle;

const MESSAGES: u64 = 1_000;

/// How often the receiver is killed.
const KILLS: usize = 6;

/// Messages sent and neither taken nor known to be lost: a kill loses no more than these.
const ON_THE_WAY_MAX: u64 = 48;

/// How long a send waits for a link; the receiver dials as soon as it is up.
const LINK_WAIT_MS: u64 = 60_000;

/// What is known of the whole run, over all lives of the receiver.
#[derive(Debug, Clone, Default)]
struct Seen {
    digests: BTreeSet<String>,
    twice: Vec<String>,
}

/// One life of the receiver, watched.
struct Life {
    daemon: Daemon,
    /// Frames that it admitted or refused, as it told.
    judged: watch::Receiver<u64>,
    /// Messages taken from it.
    taken: watch::Receiver<u64>,
    tasks: [JoinHandle<()>; 2],
}

impl Life {
    /// Starts the receiver, and watches it from before its first link.
    async fn begin(place: &Place, seen: &Arc<Mutex<Seen>>) -> Self {
        let daemon = place.daemon();
        let client = client(place);
        let mut lines = client.lines("/v1/watch").await.expect("a watch");
        let begin = lines.next().await.expect("a line");
        let Some(EventLine::Watching { watch: Some(right) }) = begin else {
            panic!("the watch begins with {begin:?}");
        };
        let (judged_out, judged) = watch::channel(0);
        let events = tokio::spawn(async move {
            // Ends when the daemon is killed.
            while let Ok(Some(line)) = lines.next::<EventLine>().await {
                let more = match line {
                    EventLine::Admitted { .. } | EventLine::Refused { .. } => 1,
                    EventLine::Missed { count } => panic!("{count} events were missed"),
                    _ => 0,
                };
                judged_out.send_modify(|judged| *judged += more);
            }
        });
        let (taken_out, taken) = watch::channel(0);
        let seen = Arc::clone(seen);
        let takes = tokio::spawn(async move {
            let take = TakeRequest { watch: right };
            while let Ok(Some(message)) = take_one(&client, &take).await {
                let mut seen = seen.lock().expect("seen");
                if !seen.digests.insert(message.digest.clone()) {
                    seen.twice.push(message.digest);
                }
                taken_out.send_modify(|taken| *taken += 1);
            }
        });
        Self {
            daemon,
            judged,
            taken,
            tasks: [events, takes],
        }
    }

    /// Kills the receiver where it stands.
    async fn kill(mut self) {
        self.daemon.running.kill();
        for task in self.tasks {
            task.await.expect("no event was missed");
        }
    }
}

async fn take_one(
    client: &Client,
    take: &TakeRequest,
) -> Result<Option<TakenMessage>, ClientError> {
    client.call(Method::POST, "/v1/take", take).await
}

fn client(place: &Place) -> Client {
    Client::of(&Home::at(place.home()))
}

/// Counts the links that come up at a daemon, from now on.
async fn links_up(place: &Place) -> watch::Receiver<u64> {
    let mut lines = client(place).lines("/v1/events").await.expect("events");
    let begin = lines.next().await.expect("a line");
    assert!(matches!(begin, Some(EventLine::Watching { .. })));
    let (up_out, up) = watch::channel(0);
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next::<EventLine>().await {
            if let EventLine::LinkUp { .. } = line {
                up_out.send_modify(|up| *up += 1);
            }
        }
    });
    up
}

/// The sender's side of the run.
struct Sender {
    client: Client,
    to: String,
    receipts: Vec<SendReceipt>,
}

impl Sender {
    /// Sends one more message; one that was not placed is sent anew, as another transaction.
    async fn send(&mut self) {
        let request = SendRequest {
            receipt_ms: 0,
            destination: self.to.clone(),
            namespace: "sigkill".to_owned(),
            class: Default::default(),
            body: hex::encode(self.receipts.len().to_be_bytes()),
            plain: false,
            hold: false,
            wait_ms: LINK_WAIT_MS,
        };
        let receipt = loop {
            match self.client.call(Method::POST, "/v1/send", &request).await {
                Ok(receipt) => break receipt,
                Err(error) => assert_eq!(error.code(), "send/unreachable", "{error}"),
            }
        };
        self.receipts.push(receipt);
    }

    /// Offers every transaction again, in the order they were signed.
    async fn offer_all(&self) {
        for receipt in &self.receipts {
            let request = OfferAgainRequest {
                receipt_ms: 0,
                signed: receipt.signed.clone(),
                wait_ms: LINK_WAIT_MS,
            };
            let offered: Result<SendReceipt, _> = self
                .client
                .call(Method::POST, "/v1/offer_again", &request)
                .await;
            assert_eq!(offered.expect("offered").digest, receipt.digest);
        }
    }
}

async fn at_least(watched: &mut watch::Receiver<u64>, count: u64) {
    let reached = watched.wait_for(|now| *now >= count).await;
    reached.expect("the daemon lives");
}

/// Where the receiver is killed: after so many taken messages.
fn kill_points(seed: u64) -> Vec<u64> {
    let mut random = Seeded::new(seed);
    let mut points = BTreeSet::new();
    while points.len() < KILLS {
        points.insert(20 + random.below(MESSAGES * 6 / 10));
    }
    points.into_iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_of_a_daemon_by_sigkill_dispatches_nothing_twice_s14() {
    let seed = 0x0e71_a4e0;
    println!("seed {seed:#x}: killed after {:?}", kill_points(seed));
    let (here, there) = (Place::with_node(), Place::with_node());
    let sending = here.daemon();
    // The receiver dials the sender, so that a restart links them again at once.
    let added = there.overlane(["peer", "add", sending.url(), "--json"]);
    assert_eq!(added.code, 0, "{added:?}");
    let mut links = links_up(&here).await;
    let seen = Arc::new(Mutex::new(Seen::default()));
    let mut life = Life::begin(&there, &seen).await;
    let mut sender = Sender {
        client: client(&here),
        to: life.daemon.did().to_owned(),
        receipts: Vec::new(),
    };
    let count = |of: &Mutex<Seen>| of.lock().expect("seen").digests.len() as u64;
    let mut lost = 0;
    let mut points = kill_points(seed).into_iter().peekable();
    let mut taken_before = 0;
    while (sender.receipts.len() as u64) < MESSAGES {
        sender.send().await;
        let sent = sender.receipts.len() as u64;
        let wanted = (sent - lost).saturating_sub(ON_THE_WAY_MAX);
        at_least(&mut life.taken, wanted.saturating_sub(taken_before)).await;
        if points.next_if(|point| *point <= count(&seen)).is_none() {
            continue;
        }
        let up = *links.borrow();
        life.kill().await;
        life = Life::begin(&there, &seen).await;
        // Until the new link is there, the sender may not know that the old one leads nowhere.
        at_least(&mut links, up + 1).await;
        taken_before = count(&seen);
        sender.offer_all().await;
        at_least(&mut life.judged, sent).await;
        let admitted = admitted(&status(&there).await);
        at_least(&mut life.taken, admitted).await;
        lost = sent - count(&seen);
    }
    assert_eq!(points.next(), None, "every kill came");
    at_least(&mut life.taken, MESSAGES - lost - taken_before).await;

    // Once more over a quiet link: the window refuses every one, also those that were lost.
    let before = status(&there).await;
    let judged = *life.judged.borrow();
    sender.offer_all().await;
    at_least(&mut life.judged, judged + MESSAGES).await;
    let after = status(&there).await;
    let seen = seen.lock().expect("seen").clone();
    assert_eq!(seen.twice, Vec::<String>::new(), "dispatched twice");
    let sent: BTreeSet<_> = sender.receipts.iter().map(|it| it.digest.clone()).collect();
    assert_eq!(sent.len() as u64, MESSAGES);
    assert!(seen.digests.is_subset(&sent));
    assert_eq!(
        seen.digests.len() as u64 + lost,
        MESSAGES,
        "dispatched + lost = sent"
    );
    assert!(lost <= KILLS as u64 * (ON_THE_WAY_MAX + 1), "{lost} lost");
    println!(
        "sent {MESSAGES}, dispatched {}, lost {lost}",
        seen.digests.len()
    );

    // The counters of both ends agree with what was seen.
    let replay = |status: &StatusReport, names: &[&str]| -> u64 {
        names.iter().map(|name| status.replay[*name]).sum()
    };
    let refuses = ["replay", "stale", "fork"];
    assert_eq!(admitted(&after), admitted(&before));
    assert_eq!(
        replay(&after, &refuses) - replay(&before, &refuses),
        MESSAGES
    );
    assert_eq!(replay(&after, &["fork"]), 0);
    assert_eq!(after.counters["dispatched"], admitted(&after));
    assert_eq!(after.counters["dispatched"], *life.taken.borrow());
    let sending_status: StatusReport = client(&here).get("/v1/status").await.expect("a status");
    // The node's own words about mail are sent messages too.
    assert!(sending_status.counters["sent"] >= MESSAGES);
    assert!(sending_status.counters["offered_again"] >= MESSAGES);
}

async fn status(place: &Place) -> StatusReport {
    client(place).get("/v1/status").await.expect("a status")
}

/// The messages that the receiver has admitted in this life: all that its windows admitted, but for
/// what the two nodes say to each other about the ring and mail.
fn admitted(status: &StatusReport) -> u64 {
    let admits = ["first", "advance", "late"];
    let all: u64 = admits.iter().map(|name| status.replay[*name]).sum();
    all - status.counters["ring_received"] - status.counters["own_received"]
}
