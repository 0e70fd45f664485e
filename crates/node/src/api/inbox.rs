//! Mail on the local API.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use overlane_core::replay::CUSTODY_CAPACITY;
use overlane_core::transaction::{Data, Message};
use overlane_core::{Did, TransactionDigest};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};
use utoipa::ToSchema;

use super::error::ApiError;
use super::object::Object;
use super::openapi::Refused;
use super::report;
use super::server::{Answer, Asked, Daemon, Shared};
use super::types::{Refusal, TakenMessage};
use crate::inbox::{
    Arrived, HeldElsewhere, Holdings, InboxError, MailCounters, MailEvent, MailStatus, WaitingMail,
};
use crate::{Delivery, Event};

/// How long a probe waits for what it left.
const PROBE_WITHIN: Duration = Duration::from_secs(20);

/// A node's mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InboxReport {
    /// Whether there is a store of mail.
    pub has_store: bool,
    /// Why that store failed.
    pub failed: Option<String>,
    /// Mail that waits to be taken, in the order it came in.
    pub waiting: Vec<WaitingReport>,
    /// Mails in custody, those that were not fetched again since the start with them.
    pub custody: usize,
    /// How many there may be.
    pub custody_max: usize,
    /// Mails that were fetched and wait for room in custody.
    pub fetched: usize,
    /// When custody has room if nothing is taken, while mail waits for room, in Unix milliseconds.
    pub full_until_ms: Option<u64>,
    /// The first instant at which a holder lets go of a mail that was fetched and waits for room, in Unix milliseconds.
    #[serde(default)]
    pub waits_until_ms: Option<u64>,
    /// The nodes that hold this node's inbox, by the ring.
    pub holders: Vec<HolderReport>,
    /// Messages of this node's that wait to be delivered or held.
    pub sending: usize,
    /// Mails of this node's that others hold.
    pub held: Vec<HeldReport>,
    /// Mails of this node's that others held, and what became of them, for a day; the latest first.
    #[serde(default)]
    pub ended: Vec<EndedReport>,
    /// Inboxes that this node holds for others, with what is in them.
    pub inboxes: Vec<HeldInboxReport>,
}

/// A mail that waits to be taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitingReport {
    /// Its digest, by which it is taken.
    pub digest: String,
    /// Who sent it.
    pub origin: String,
    /// Its sequence.
    pub sequence: u64,
    /// Its sealed bytes.
    pub bytes: usize,
    /// The holder it came from.
    pub holder: String,
    /// When that holder took it, in Unix milliseconds.
    pub held_ms: u64,
}

/// A node that holds this node's inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HolderReport {
    /// The node.
    pub did: String,
    /// Whether it gave all that it holds.
    pub drained: bool,
}

/// Where a message is that was to be delivered or held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ArrivedReport {
    /// Its destination has admitted it.
    Delivered,
    /// Others hold it for its destination, which is away.
    Held {
        /// By whom.
        by: Vec<HoldReport>,
    },
    /// Neither.
    Refused(Refusal),
}

/// A mail of this node's that others hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldReport {
    /// Its digest.
    pub digest: String,
    /// Whom it is for.
    pub destination: String,
    /// By whom.
    pub by: Vec<HoldReport>,
}

/// What became of a mail of this node's that others held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndedReport {
    /// Its digest.
    pub digest: String,
    /// Whom it was for.
    pub destination: String,
    /// `taken`, `expired` or `evicted`.
    pub outcome: String,
    /// The holder that says so.
    pub by: String,
    /// When that was by its clock, in Unix milliseconds.
    pub at_ms: u64,
}

/// Who holds a mail, and until when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HoldReport {
    /// The node.
    pub did: String,
    /// The last instant at which it does, in Unix milliseconds.
    pub until_ms: u64,
    /// Whether it is this node itself.
    #[serde(default)]
    pub here: bool,
}

/// An inbox that this node holds for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldInboxReport {
    /// Whose.
    pub owner: String,
    /// Mails in it.
    pub mails: u64,
}

/// Takes a mail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TakeMailRequest {
    /// Its digest; the one that came first if none is named.
    #[serde(default)]
    pub digest: Option<String>,
    /// How long to wait for it, if it does not wait here yet; 10 s at most. Who wants to wait longer asks again.
    #[serde(default)]
    pub wait_ms: u64,
}

/// The longest that one request waits for a mail: a connection that is forgotten ends.
const TAKE_WAIT_MAX_MS: u64 = 10_000;

/// What came of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProbeReport {
    /// By holder.
    pub holders: Vec<ProbedReport>,
}

/// What came of a probe of one holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProbedReport {
    /// The holder.
    pub did: String,
    /// After how long what was left with it was taken, in milliseconds; none if it was not.
    pub taken_ms: Option<u64>,
}

pub(super) fn arrived(arrived: &Result<Arrived, InboxError>, own: Did) -> ArrivedReport {
    match arrived {
        Ok(Arrived::Delivered) => ArrivedReport::Delivered,
        Ok(Arrived::Held(receipts)) => {
            let by = receipts.iter().map(|receipt| HoldReport {
                did: receipt.signer().to_string(),
                until_ms: receipt.until_ms(),
                here: receipt.signer() == own,
            });
            ArrivedReport::Held { by: by.collect() }
        }
        Err(error) => ArrivedReport::Refused(Refusal::of(error)),
    }
}

/// The mail that waits, who holds some, and what this node holds for others.
#[utoipa::path(get, path = "/v1/inbox",
    responses((status = 200, description = "as asked", body = InboxReport), Refused))]
pub(super) async fn show(State(daemon): Shared) -> Answer<InboxReport> {
    Ok(Json(InboxReport::of(
        &daemon.node.mail().await?,
        daemon.node.did(),
    )))
}

/// Asks the holders, then the same.
#[utoipa::path(post, path = "/v1/inbox/fetch",
    responses((status = 200, description = "as asked", body = InboxReport), Refused))]
pub(super) async fn fetch(State(daemon): Shared) -> Answer<InboxReport> {
    daemon.node.fetch_mail().await?;
    Ok(Json(InboxReport::of(
        &daemon.node.mail().await?,
        daemon.node.did(),
    )))
}

/// Takes a mail.
#[utoipa::path(post, path = "/v1/inbox/take", request_body = TakeMailRequest,
    responses((status = 200, description = "as asked", body = TakenMessage), Refused))]
pub(super) async fn take(
    State(daemon): Shared,
    asked: Asked<TakeMailRequest>,
) -> Answer<TakenMessage> {
    let Json(Object(TakeMailRequest { digest, wait_ms })) = asked?;
    let digest = digest.map(|text| parse_digest(&text)).transpose()?;
    let delivery = take_within(
        &daemon,
        digest,
        Duration::from_millis(wait_ms.min(TAKE_WAIT_MAX_MS)),
    )
    .await?;
    // What does not open is shown as it came: it was taken all the same.
    let opened = daemon.node.open_mail(&delivery).ok();
    let mut taken = report::message(&delivery);
    if let Some(Message::Application { namespace, body }) = opened.as_ref().map(Data::message) {
        taken.namespace = Some(namespace.as_str().to_owned());
        taken.text = std::str::from_utf8(body).ok().map(str::to_owned);
        taken.body = hex::encode(body);
        taken.sealed = true;
    }
    Ok(Json(taken))
}

/// Takes a mail, and waits for one to come if that is asked for and the node goes on.
async fn take_within(
    daemon: &Daemon,
    digest: Option<TransactionDigest>,
    within: Duration,
) -> Result<Delivery, InboxError> {
    // Before it is looked whether there is one, so that none comes unseen in between.
    let mut events = daemon.node.events();
    let mut stopping = daemon.stopping.clone();
    let until = Instant::now().checked_add(within);
    loop {
        let taken = daemon.node.take_mail(digest).await;
        let nothing = matches!(
            taken,
            Err(InboxError::Empty | InboxError::NotWaiting { .. })
        );
        let Some(until) = until.filter(|_| nothing) else {
            return taken;
        };
        let came = async {
            // One that was missed may have been this.
            while matches!(events.recv().await, Ok(ref event) if !is_come(event)) {}
        };
        tokio::select! {
            () = came => {}
            () = sleep_until(until) => return taken,
            _ = stopping.wait_for(|stopping| *stopping) => return taken,
        }
    }
}

/// Whether this says that a mail waits.
fn is_come(event: &Event) -> bool {
    matches!(event, Event::Mail(MailEvent::Waits { .. }))
}

/// Leaves a sealed item with each holder, and takes it again.
#[utoipa::path(post, path = "/v1/inbox/probe",
    responses((status = 200, description = "as asked", body = ProbeReport), Refused))]
pub(super) async fn probe(State(daemon): Shared) -> Answer<ProbeReport> {
    let probed = daemon.node.probe_inbox(PROBE_WITHIN).await?;
    let holders = probed.into_iter().map(|(did, taken)| ProbedReport {
        did: did.to_string(),
        taken_ms: taken.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
    });
    Ok(Json(ProbeReport {
        holders: holders.collect(),
    }))
}

/// Why the store of mail failed, and what mail comes to.
pub(super) fn numbers(status: &MailStatus) -> (Option<String>, BTreeMap<String, u64>) {
    let MailCounters {
        delivered,
        held,
        not_held,
        fetched,
        taken,
        lost,
        put_off,
        turned_away,
        unsaid,
        malformed,
    } = &status.counters;
    let Holdings {
        inboxes,
        kept,
        let_go,
        refused,
        flushes,
        outcomes_lost,
        bad_frames,
    } = &status.holdings;
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let numbers = [
        ("waiting", count(status.waiting.len())),
        ("custody", count(status.custody)),
        ("fetched_waiting", count(status.fetched)),
        ("holders", count(status.holders.len())),
        ("sending", count(status.sending)),
        ("held_elsewhere", count(status.held.len())),
        ("inboxes_here", count(inboxes.len())),
        ("mails_here", inboxes.values().sum()),
        ("delivered", *delivered),
        ("held", *held),
        ("not_held", *not_held),
        ("fetched", *fetched),
        ("taken", *taken),
        ("lost", lost.values().sum()),
        ("put_off", put_off.values().sum()),
        ("turned_away", turned_away.values().sum()),
        ("unsaid", *unsaid),
        ("malformed", malformed.saturating_add(*bad_frames)),
        ("kept_here", *kept),
        ("let_go_here", *let_go),
        ("refused_here", *refused),
        ("flushes", *flushes),
        ("outcomes_lost", *outcomes_lost),
    ];
    let numbers = numbers.map(|(name, number)| (name.to_owned(), number));
    (status.failure.clone(), numbers.into())
}

fn parse_digest(text: &str) -> Result<TransactionDigest, ApiError> {
    let bytes = hex::decode(text).ok();
    let digest = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    digest
        .map(TransactionDigest)
        .ok_or_else(|| ApiError::BadDigest {
            text: text.chars().take(100).collect(),
        })
}

impl InboxReport {
    fn of(mail: &MailStatus, own: Did) -> Self {
        let held = |mail| held(mail, own);
        let holder = |did| HolderReport {
            did: format!("{did}"),
            drained: mail.drained.contains(did),
        };
        let inboxes = mail.holdings.inboxes.iter().filter(|it| *it.1 > 0);
        let inboxes = inboxes.map(|(owner, &mails)| HeldInboxReport {
            owner: owner.to_string(),
            mails,
        });
        Self {
            has_store: mail.has_store,
            failed: mail.failure.clone(),
            waiting: mail.waiting.iter().map(waiting).collect(),
            custody: mail.custody,
            custody_max: CUSTODY_CAPACITY,
            fetched: mail.fetched,
            full_until_ms: mail.full_until_ms,
            waits_until_ms: mail.waits_until_ms,
            holders: mail.holders.iter().map(holder).collect(),
            sending: mail.sending,
            held: mail.held.iter().map(held).collect(),
            ended: ended(mail),
            inboxes: inboxes.collect(),
        }
    }
}

fn waiting(mail: &WaitingMail) -> WaitingReport {
    WaitingReport {
        digest: mail.digest.to_string(),
        origin: mail.origin.to_string(),
        sequence: mail.sequence,
        bytes: mail.bytes,
        holder: mail.holder.to_string(),
        held_ms: mail.held_ms,
    }
}

fn held(mail: &HeldElsewhere, own: Did) -> HeldReport {
    let by = mail.by.iter().map(|(did, &until_ms)| HoldReport {
        did: did.to_string(),
        until_ms,
        here: *did == own,
    });
    HeldReport {
        digest: mail.digest.to_string(),
        destination: mail.destination.to_string(),
        by: by.collect(),
    }
}

fn ended(mail: &MailStatus) -> Vec<EndedReport> {
    let ended = mail.ended.iter().filter_map(|mail| {
        let end = mail.end?;
        Some(EndedReport {
            digest: mail.digest.to_string(),
            destination: mail.destination.to_string(),
            outcome: end.kind.word().to_owned(),
            by: end.by.to_string(),
            at_ms: end.at_ms,
        })
    });
    let mut ended: Vec<EndedReport> = ended.collect();
    ended.sort_by_key(|it| std::cmp::Reverse(it.at_ms));
    ended
}
