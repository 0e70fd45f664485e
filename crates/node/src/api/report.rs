//! What the node says of itself, in the API's words.

use std::collections::BTreeMap;

use overlane_core::identity::AccountKey;
use overlane_core::lane::{self, LaneStatus};
use overlane_core::replay::{self, SLOT_FLOOR, Verdict};
use overlane_core::ring::{Path, PathEnd};
use overlane_core::{Class, Coded, Did};

use super::names::ClassName;
use super::types::{
    AttemptReport, BucketReport, Cause, DistributionReport, EventLine, HealthReport,
    IceServerReport, Identity, LaneReport, LinkReport, NeighbourReport, PeerReport, QueueReport,
    ReceivingReport, RouteReport, SendOutcome, SendingReport, SlotReport, StatusReport,
    StoreReport, StreamsReport, TakenMessage, WayReport,
};
use crate::link::LinkStatus;
use crate::link::ice::{IceServerState, LinkPath};
use crate::link::tried::{Attempt, AttemptEnd};
use crate::peer::inbox::MailEvent;
use crate::peer::{Counters, Peer};
use crate::words::counted;
use crate::{
    Delivery, Distribution, Event, NeighbourStatus, Outcome, PeerState, PeerStatus, Role, Status,
    StoreStatus, StoreTimes,
};
use overlane_core::transaction::Message;

/// A verdict as it is shown and as programs read it.
pub const fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::First => "First",
        Verdict::Advance { .. } => "Advance",
        Verdict::Late => "Late",
        Verdict::Replay => "Replay",
        Verdict::Fork { .. } => "Fork",
        Verdict::Stale { .. } => "Stale",
    }
}

pub(super) fn status(
    account: &AccountKey,
    home: String,
    store: StoreReport,
    links: &[LinkStatus],
    status: &Status,
) -> StatusReport {
    let queues = status.queues.iter().map(|queue| QueueReport {
        class: queue.class.into(),
        held: queue.held,
        high_water: queue.high_water,
    });
    StatusReport {
        identity: Identity::of(account, status.network),
        home,
        url: status.url.clone(),
        uptime_ms: status.uptime_ms,
        delegation_ends_ms: status.delegation_ends_ms,
        renews_itself: status.renews_itself,
        store,
        links: links.iter().map(|it| link(it, status)).collect(),
        ice_servers: status.ice_servers.iter().map(ice_server).collect(),
        nat: (!status.ice_servers.is_empty()).then(|| status.nat.word().to_owned()),
        attempts: status.attempts.iter().map(attempt).collect(),
        peers: peers(status, links),
        neighbours: neighbours(status, links),
        place_confirmed_ago_ms: status.place_confirmed_ago_ms,
        queues: queues.collect(),
        pending_sends: status.pending_sends,
        counters: counters(&status.counters),
        refused: owned(&status.counters.refused),
        sends_refused: owned(&status.counters.sends_refused),
        offers_refused: owned(&status.offers_refused),
        links_not_opened: owned(&status.links_not_opened),
        replay: replay_counters(&status.replay),
        verdicts: verdicts(&status.verdicts),
        store_times: store_times(&status.store_times),
        references_failed: None,
        references: BTreeMap::new(),
        groups_failed: None,
        groups: BTreeMap::new(),
        mail_failed: None,
        mail: BTreeMap::new(),
        api: None,
        api_refused: BTreeMap::new(),
    }
}

/// Streams of each direction that are shown at once.
const STREAMS_SHOWN_MAX: usize = 1_000;

pub(super) fn streams(peer: &Peer) -> StreamsReport {
    let engine = peer.engine();
    let receiving = engine.receivers().map(|record| ReceivingReport {
        stream: record.stream.to_string(),
        newest: record
            .window
            .admitted()
            .map(|(at, _)| at)
            .max()
            .unwrap_or_default(),
        admitted: record.window.admitted().count(),
        custody: record.custody.len(),
        spent_ms: record.spent_ms,
    });
    let sending = engine.senders().map(|record| SendingReport {
        stream: record.stream.to_string(),
        leased_to: record.end,
        spent_ms: record.spent_ms,
    });
    let beyond = |count: usize| count.saturating_sub(STREAMS_SHOWN_MAX);
    StreamsReport {
        receiving: receiving.take(STREAMS_SHOWN_MAX).collect(),
        sending: sending.take(STREAMS_SHOWN_MAX).collect(),
        left_off: beyond(engine.receivers().count()) + beyond(engine.senders().count()),
    }
}

/// Whether the node does its work: its stores keep what they are given.
pub(super) fn health(status: &StatusReport) -> HealthReport {
    let store = &status.store;
    let up = status.links.iter().filter(|link| link.up).count();
    let not = |why: String| HealthReport {
        healthy: false,
        why,
        links: up,
    };
    if store.state != "durable" {
        let cause = store.error.as_ref();
        let cause = cause.map_or(String::new(), |cause| format!(": {}", cause.message));
        return not(format!("the replay store is {}{cause}", store.state));
    }
    match (&status.references_failed, &status.groups_failed) {
        (Some(cause), _) => not(format!("the store of references failed: {cause}")),
        (None, Some(cause)) => not(cause.clone()),
        (None, None) if status.mail_failed.is_some() => {
            let cause = status.mail_failed.as_deref().unwrap_or_default();
            not(format!("the store of mail failed: {cause}"))
        }
        (None, None) => HealthReport {
            healthy: true,
            why: counted(up, "link"),
            links: up,
        },
    }
}

/// The store's state; kind and path are the daemon's to say.
pub(super) fn store(store: &StoreStatus) -> StoreReport {
    let (state, error) = match store {
        StoreStatus::Absent => ("absent", None),
        StoreStatus::Durable => ("durable", None),
        StoreStatus::Failed(error) => ("failed", Some(Cause::of(error))),
    };
    StoreReport {
        kind: String::new(),
        path: String::new(),
        state: state.to_owned(),
        error,
    }
}

/// The nodes of the configuration, and how each is reached.
pub(super) fn peers(status: &Status, links: &[LinkStatus]) -> Vec<PeerReport> {
    let report = |it: &PeerStatus| {
        let did = it.did;
        let path = did.and_then(|did| path_to(did, links));
        let via = did.and_then(|did| status.peers_via.get(&did));
        peer(it, path, via.copied())
    };
    status.peers.iter().map(report).collect()
}

/// The nodes that the ring needs, and how each is reached.
pub(super) fn neighbours(status: &Status, links: &[LinkStatus]) -> Vec<NeighbourReport> {
    let report = |it: &NeighbourStatus| neighbour(it, path_to(it.did, links));
    status.neighbours.iter().map(report).collect()
}

/// The way that the link to `did` took.
fn path_to(did: Did, links: &[LinkStatus]) -> Option<LinkPath> {
    let mut links = links.iter().filter(|link| !link.leaving);
    links.find(|link| link.peer == did)?.path
}

fn peer(peer: &PeerStatus, path: Option<LinkPath>, via: Option<Did>) -> PeerReport {
    let state = match peer.state {
        PeerState::Dialing => "dialing",
        PeerState::Linked => "linked",
        PeerState::Waiting => "waiting",
    };
    let error = peer.last_error.as_ref().map(|(code, message)| Cause {
        error: (*code).to_owned(),
        message: message.clone(),
    });
    PeerReport {
        url: peer.url.clone(),
        did: peer.did.map(|did| did.to_string()),
        state: state.to_owned(),
        path: match (path, via) {
            (Some(path), _) => Some(path.word().to_owned()),
            (None, Some(_)) => Some("via".to_owned()),
            (None, None) => None,
        },
        via: via.map(|via| via.to_string()),
        error,
        dials: peer.dials,
        next_dial_ms: peer.next_dial_ms,
    }
}

pub(super) fn outcome(outcome: Outcome) -> SendOutcome {
    match outcome {
        Outcome::Placed => SendOutcome::Placed,
        Outcome::PassedOn { hops } => SendOutcome::PassedOn { hops },
        Outcome::Unreachable { reporter, why } => SendOutcome::Unreachable {
            error: why.code().to_owned(),
            reporter: reporter.to_string(),
        },
        Outcome::Unanswered => SendOutcome::Unanswered,
    }
}

fn neighbour(neighbour: &NeighbourStatus, path: Option<LinkPath>) -> NeighbourReport {
    let role = match neighbour.role {
        Role::Successor => "successor",
        Role::Predecessor => "predecessor",
        Role::Finger => "finger",
    };
    let via = neighbour.next_hop.filter(|&hop| hop != neighbour.did);
    let link = match (neighbour.next_hop, via) {
        (None, _) => "none",
        (Some(_), None) => "direct",
        (Some(_), Some(_)) => "via",
    };
    NeighbourReport {
        did: neighbour.did.to_string(),
        role: role.to_owned(),
        link: link.to_owned(),
        path: path.map(|path| path.word().to_owned()),
        via: via.map(|via| via.to_string()),
        error: neighbour.error.map(str::to_owned),
    }
}

pub(super) fn route(destination: Did, path: &Path) -> RouteReport {
    let end = match path.end {
        PathEnd::Arrives => "arrives",
        PathEnd::NoRoute => "no_route",
        PathEnd::Silent => "silent",
        PathEnd::HopBudget => "hop_budget",
    };
    RouteReport {
        destination: destination.to_string(),
        hops: path.hops.iter().map(Did::to_string).collect(),
        end: end.to_owned(),
    }
}

pub(super) fn message(delivery: &Delivery) -> TakenMessage {
    let payload = delivery.item();
    let message = payload.message();
    let namespace = match message {
        Message::Application { namespace, .. } => Some(namespace.as_str().to_owned()),
        _ => None,
    };
    TakenMessage {
        stream: payload.stream().to_string(),
        origin: payload.origin().to_string(),
        class: payload.class().into(),
        sequence: payload.sequence(),
        digest: payload.digest().to_string(),
        verdict: verdict_word(delivery.verdict()).to_owned(),
        sealed: payload.is_open(),
        namespace,
        text: std::str::from_utf8(message.body()).ok().map(str::to_owned),
        body: hex::encode(message.body()),
    }
}

pub(super) fn event(event: &Event) -> EventLine {
    match event {
        Event::LinkUp { link, peer } => EventLine::LinkUp {
            link: link.0,
            peer: peer.to_string(),
        },
        Event::LinkDown { link, peer, reason } => EventLine::LinkDown {
            link: link.0,
            peer: peer.to_string(),
            reason: reason.clone(),
        },
        Event::Admitted {
            stream,
            sequence,
            digest,
            verdict,
        } => EventLine::Admitted {
            stream: stream.to_string(),
            sequence: *sequence,
            digest: digest.to_string(),
            verdict: verdict_word(*verdict).to_owned(),
        },
        Event::Refused {
            link,
            peer,
            class,
            refusal,
        } => {
            let Cause { error, message } = Cause::of(refusal);
            EventLine::Refused {
                link: link.0,
                peer: peer.to_string(),
                class: ClassName::from(*class),
                error,
                message,
            }
        }
        Event::Unreachable {
            stream,
            sequence,
            digest,
            reporter,
            why,
        } => EventLine::Unreachable {
            stream: stream.to_string(),
            sequence: *sequence,
            digest: digest.to_string(),
            reporter: reporter.to_string(),
            error: why.code().to_owned(),
        },
        Event::SessionLost { with, sent } => EventLine::SessionLost {
            with: with.to_string(),
            sent: *sent,
        },
        Event::SendProgress {
            id,
            placed_bytes,
            total_bytes,
        } => EventLine::SendProgress {
            send: id.0,
            placed_bytes: *placed_bytes,
            total_bytes: *total_bytes,
        },
        Event::Mail(event) => mail_event(event),
        Event::StoreFailed { error } => {
            let Cause { error, message } = Cause::of(error);
            EventLine::StoreFailed { error, message }
        }
    }
}

fn mail_event(event: &MailEvent) -> EventLine {
    match event {
        MailEvent::Waits { origin, digest } => EventLine::MailWaits {
            origin: origin.to_string(),
            digest: digest.to_string(),
        },
        MailEvent::Lost {
            origin,
            digest,
            code,
        } => EventLine::MailLost {
            origin: origin.to_string(),
            digest: digest.to_string(),
            error: (*code).to_owned(),
        },
        MailEvent::Ended {
            destination,
            digest,
            kind,
            by,
        } => EventLine::MailEnded {
            destination: destination.to_string(),
            digest: digest.to_string(),
            outcome: kind.word().to_owned(),
            by: by.to_string(),
        },
        MailEvent::Holds { owner, mails } => EventLine::MailHolds {
            owner: owner.to_string(),
            mails: *mails,
        },
        MailEvent::Holders(holders) => EventLine::MailHolders {
            holders: holders.iter().map(Did::to_string).collect(),
        },
    }
}

fn link(link: &LinkStatus, status: &Status) -> LinkReport {
    let slot = status.slots.get(&link.link);
    LinkReport {
        link: link.link.0,
        peer: link.peer.to_string(),
        up: slot.is_some() && !link.leaving,
        slot: slot.map(|of| SlotReport {
            number: of.slot.number(),
            streams: of.streams,
            floor: SLOT_FLOOR,
        }),
        dialed_url: link.dialed_url.clone(),
        path: link.path.map(|path| path.word().to_owned()),
        disturbed: link.disturbed,
        round_trip_ms: link.session.round_trip_ms,
        clock_ahead_ms: link.clock_ahead_ms,
        window_scale: link.session.window_scales.0,
        delegation_references: delegation_references(&link.session.counters),
        lanes: link.session.lanes.each().map(lane).collect(),
    }
}

fn delegation_references(counters: &lane::Counters) -> BTreeMap<String, u64> {
    let named = [
        ("sent", counters.references_sent),
        ("missed", counters.references_missed),
        ("lost", counters.references_lost),
    ];
    let named = named.into_iter();
    named
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}

fn attempt(attempt: &Attempt) -> AttemptReport {
    let ago = attempt.at.elapsed().as_millis();
    let path = match attempt.end {
        AttemptEnd::Connected(path) => path.map(|path| path.word().to_owned()),
        _ => None,
    };
    let ways = attempt.ways.iter().map(|way| WayReport {
        kind: way.kind_word().to_owned(),
        address: way.address.to_string(),
        answered: way.answered,
    });
    AttemptReport {
        ago_ms: u64::try_from(ago).unwrap_or(u64::MAX),
        end: attempt.end.word().to_owned(),
        connected: matches!(attempt.end, AttemptEnd::Connected(_)),
        path,
        ways: ways.collect(),
    }
}

fn ice_server((url, state): &(String, IceServerState)) -> IceServerReport {
    IceServerReport {
        url: url.clone(),
        state: state.word().to_owned(),
        error: state.code().map(str::to_owned),
    }
}

fn lane((class, lane): (Class, &LaneStatus)) -> LaneReport {
    let LaneStatus {
        queued,
        queued_bytes,
        in_flight,
        credit,
        untaken,
        sent,
        received,
    } = *lane;
    LaneReport {
        class: class.into(),
        queued,
        queued_bytes,
        in_flight,
        credit,
        untaken,
        sent,
        received,
    }
}

fn counters(counters: &Counters) -> BTreeMap<String, u64> {
    let Counters {
        frames_received,
        chunks_received,
        dispatched,
        handlers_late,
        handlers_broken,
        unclaimed,
        ring_received,
        own_received,
        receipts_forgotten,
        sent,
        sealed,
        opened,
        keys_asked,
        ring_sent,
        offered_again,
        refused: _,
        links_cut,
        sends_refused: _,
        forwarded,
        unreachable,
        offers_declined,
        unreported,
        stories_forgotten,
        links_evicted,
        links_without_slot,
    } = counters;
    let sum = |of: &BTreeMap<&'static str, u64>| of.values().sum::<u64>();
    let (links_cut, forwarded) = (sum(links_cut), sum(forwarded));
    let (unreachable, offers_declined) = (sum(unreachable), sum(offers_declined));
    let named = [
        ("frames_received", frames_received),
        ("chunks_received", chunks_received),
        ("links_cut", &links_cut),
        ("dispatched", dispatched),
        ("handlers_late", handlers_late),
        ("handlers_broken", handlers_broken),
        ("unclaimed", unclaimed),
        ("ring_received", ring_received),
        ("own_received", own_received),
        ("receipts_forgotten", receipts_forgotten),
        ("sent", sent),
        ("sealed", sealed),
        ("opened", opened),
        ("keys_asked", keys_asked),
        ("ring_sent", ring_sent),
        ("offered_again", offered_again),
        ("forwarded", &forwarded),
        ("unreachable", &unreachable),
        ("offers_declined", &offers_declined),
        ("unreported", unreported),
        ("stories_forgotten", stories_forgotten),
        ("links_evicted", links_evicted),
        ("links_without_slot", links_without_slot),
    ];
    let named = named.into_iter();
    named
        .map(|(name, count)| (name.to_owned(), *count))
        .collect()
}

fn verdicts(counted: &[(Class, &'static str, u64)]) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut verdicts = BTreeMap::<_, BTreeMap<_, _>>::new();
    for (class, verdict, count) in counted {
        let of_class = verdicts.entry(ClassName::from(*class).to_string());
        of_class.or_default().insert((*verdict).to_owned(), *count);
    }
    verdicts
}

fn store_times(times: &StoreTimes) -> BTreeMap<String, DistributionReport> {
    let StoreTimes {
        batch_answers,
        batch_write_us,
        durable_wait_us,
    } = times;
    let named = [
        ("batch_answers", batch_answers),
        ("batch_write_us", batch_write_us),
        ("durable_wait_us", durable_wait_us),
    ];
    let report = |of: &Distribution| DistributionReport {
        sum: of.sum,
        buckets: (of.buckets.iter())
            .map(|&(up_to, count)| BucketReport { up_to, count })
            .collect(),
    };
    named
        .map(|(name, of)| (name.to_owned(), report(of)))
        .into_iter()
        .collect()
}

fn replay_counters(counters: &replay::Counters) -> BTreeMap<String, u64> {
    let named = counters.iter();
    named
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}

fn owned(table: &BTreeMap<&'static str, u64>) -> BTreeMap<String, u64> {
    let entries = table.iter();
    entries
        .map(|(code, count)| ((*code).to_owned(), *count))
        .collect()
}
