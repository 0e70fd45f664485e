//! One transaction's story, from what the node remembers and what its stores hold, in the API's words.

use axum::Json;
use axum::extract::State;
use overlane_core::{Class, Coded, Did, StreamKey, TransactionDigest};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::error::ApiError;
use super::names::ClassName;
use super::object::Object;
use super::openapi::Refused;
use super::report::verdict_word;
use super::server::{Answer, Asked, Shared, destination};
use crate::peer::{Peer, STORIES_MAX, Step, Story, StoryOf};
use crate::words::instant;

/// Facts that are answered at most; a sequence may be one of many streams.
const FACTS_MAX: usize = 64;

/// Which transactions to tell of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExplainRequest {
    /// A transaction's digest, 64 hexadecimal digits; or, with a sequence, an account that it is from or to.
    pub of: String,
    /// Its sequence.
    #[serde(default)]
    pub sequence: Option<u64>,
    /// Its class, with a sequence: what nodes say by themselves is told only of a class that is named, or by its digest.
    #[serde(default)]
    pub class: Option<ClassName>,
}

/// What the node knows of the transactions that were asked after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TransactionReport {
    /// This node.
    pub did: String,
    /// What it saw since it started, of each transaction that it remembers.
    pub stories: Vec<StoryReport>,
    /// What its stores hold.
    pub stores: Vec<FactReport>,
    /// What it does not know, or not any more, and who does.
    pub not_known: Vec<String>,
    /// How long the node has run.
    pub uptime_ms: u64,
    /// Transactions whose stories it remembers.
    pub remembered: usize,
    /// Transactions whose stories were forgotten since then.
    pub forgotten: u64,
}

/// What the node saw of one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoryReport {
    /// Its digest.
    pub digest: String,
    /// Its stream.
    pub stream: String,
    /// Its sequence.
    pub sequence: u64,
    /// What happened, in order.
    pub steps: Vec<StepReport>,
    /// Steps before the last one that were not kept.
    pub left_out: u64,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepReport {
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// What, in a word.
    pub step: String,
    /// What, in words.
    pub says: String,
    /// The other node that has to do with it.
    pub did: Option<String>,
    /// The code of what refused it.
    pub code: Option<String>,
    /// Until when it holds, in milliseconds since the Unix epoch.
    pub until_ms: Option<u64>,
}

/// What a store holds of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FactReport {
    /// Which store, in a word: window, lease, custody, forks, mail.
    pub store: String,
    /// What, in a word.
    pub fact: String,
    /// What, in words.
    pub says: String,
    /// Its stream, where that is known.
    pub stream: Option<String>,
    /// Its digest, where that is known.
    pub digest: Option<String>,
}

/// One transaction's story: signed, its way, its lane, held, its verdict or the bound that refused it; and
/// what is not known of it any more.
#[utoipa::path(post, path = "/v1/explain", request_body = ExplainRequest,
    responses((status = 200, description = "as asked", body = TransactionReport), Refused))]
pub(super) async fn explain(
    State(daemon): Shared,
    asked: Asked<ExplainRequest>,
) -> Answer<TransactionReport> {
    let Json(Object(ExplainRequest {
        of,
        sequence,
        class,
    })) = asked?;
    let of = match sequence {
        Some(sequence) => StoryOf::Sequence(destination(&of)?, sequence, class.map(Class::from)),
        None => StoryOf::Digest(of.parse().map_err(|_| ApiError::BadDigest {
            text: of.chars().take(100).collect(),
        })?),
    };
    let uptime_ms = daemon.node.uptime_ms();
    let tell = move |peer: &Peer| report(peer, of, uptime_ms);
    Ok(Json(daemon.node.seen(tell).await?))
}

fn report(peer: &Peer, of: StoryOf, uptime_ms: u64) -> TransactionReport {
    let stories = peer.stories(of);
    let mut stores = Vec::new();
    windows(peer, of, &mut stores);
    leases(peer, of, &stories, &mut stores);
    forks(peer, of, &stories, &mut stores);
    mail(peer, of, &stories, &mut stores);
    stores.truncate(FACTS_MAX);
    let mut not_known = Vec::new();
    if stories.is_empty() {
        not_known.push(format!(
            "what this node saw of it: that is kept in memory, since the start {} s ago, of the latest {STORIES_MAX} \
             messages from or to this node, as many of what nodes say by themselves, and as many that it passed on",
            uptime_ms / 1_000
        ));
    }
    let own = peer.did();
    let away = |it: &Story| it.stream.destination != own && !is_delivered(it);
    if stories.iter().any(|it| away(it)) {
        not_known.push(
            "whether its destination admitted it: ask there in the same words, or send with --receipt".to_owned(),
        );
    } else if stories.is_empty() && !stores.iter().any(|it| it.fact == "admitted") {
        not_known.push("whether another node admitted it: ask there in the same words".to_owned());
    }
    TransactionReport {
        did: own.to_string(),
        stories: stories.into_iter().map(story).collect(),
        stores,
        not_known,
        uptime_ms,
        remembered: peer.stories_remembered(),
        forgotten: peer.counters().stories_forgotten,
    }
}

fn is_delivered(story: &Story) -> bool {
    let mut steps = story.steps.iter();
    steps.any(|(_, step)| match step {
        Step::Delivered => true,
        Step::Ended { kind, .. } => *kind == overlane_relay::inbox::OutcomeKind::Taken,
        _ => false,
    })
}

fn fact(
    (store, fact): (&str, &str),
    says: String,
    stream: Option<&StreamKey>,
    digest: Option<TransactionDigest>,
) -> FactReport {
    FactReport {
        store: store.to_owned(),
        fact: fact.to_owned(),
        says,
        stream: stream.map(ToString::to_string),
        digest: digest.map(|it| it.to_string()),
    }
}

/// What the windows of replay protection hold.
fn windows(peer: &Peer, of: StoryOf, facts: &mut Vec<FactReport>) {
    for record in peer.engine().receivers() {
        let stream = Some(&record.stream);
        let window = &record.window;
        for entry in &record.custody {
            if of.is(&record.stream, entry.sequence, entry.digest) {
                let says = format!(
                    "it is in custody here, durably, and waits to be taken until {}",
                    instant(entry.spent_ms)
                );
                facts.push(fact(("custody", "waits"), says, stream, Some(entry.digest)));
            }
        }
        let mut found = false;
        for (sequence, digest) in window.admitted() {
            if of.is(&record.stream, sequence, digest) {
                found = true;
                let says = "it was admitted here: its place in its stream's window is taken by it, durably";
                facts.push(fact(
                    ("window", "admitted"),
                    says.to_owned(),
                    stream,
                    Some(digest),
                ));
            }
        }
        // Of this node's own account every stream would be one.
        let StoryOf::Sequence(did, sequence, class) = of else {
            continue;
        };
        if found
            || record.stream.origin != did
            || class.is_some_and(|class| class != record.stream.class)
        {
            continue;
        }
        let (word, says) = if sequence < window.lowest() {
            (
                "below",
                format!(
                    "it is below its stream's window, which begins at {}: whether it was admitted is not known any \
                     more; a copy is refused as Stale",
                    window.lowest()
                ),
            )
        } else if sequence > window.high() {
            (
                "above",
                format!(
                    "nothing so high was admitted of its stream, which is at {}",
                    window.high()
                ),
            )
        } else {
            (
                "free",
                "its place in its stream's window is free: it was not admitted, and may be"
                    .to_owned(),
            )
        };
        facts.push(fact(("window", word), says, stream, None));
    }
}

/// What the leases say of what was signed here.
fn leases(peer: &Peer, of: StoryOf, stories: &[&Story], facts: &mut Vec<FactReport>) {
    for record in peer.engine().senders() {
        let of_stories = stories.iter().find(|it| it.stream == record.stream);
        let sequence = match (of, of_stories) {
            (_, Some(story)) => story.sequence,
            (StoryOf::Sequence(did, sequence, class), None)
                if record.stream.destination == did
                    && class.is_none_or(|class| class == record.stream.class) =>
            {
                sequence
            }
            _ => continue,
        };
        let next = peer.engine().next_sequence(&record.stream);
        let (word, says) = match next {
            Some(next) if sequence < next => (
                "used",
                format!(
                    "sequence {sequence} lies under a durable lease, and was used or passed over: it is never signed again"
                ),
            ),
            _ if sequence < record.end => (
                "leased",
                format!(
                    "sequence {sequence} is leased, up to {}, and was not used since the start",
                    record.end
                ),
            ),
            _ => (
                "never",
                format!("sequence {sequence} was never leased here: this node did not sign it"),
            ),
        };
        facts.push(fact(("lease", word), says, Some(&record.stream), None));
    }
}

/// Evidence that somebody signed twice under its sequence.
fn forks(peer: &Peer, of: StoryOf, stories: &[&Story], facts: &mut Vec<FactReport>) {
    for fork in peer.engine().forks() {
        let asked = match of {
            StoryOf::Sequence(did, sequence, class) => {
                sequence == fork.sequence
                    && class.is_none_or(|class| class == fork.stream.class)
                    && (fork.stream.origin == did || fork.stream.destination == did)
            }
            StoryOf::Digest(_) => stories
                .iter()
                .any(|it| it.stream == fork.stream && it.sequence == fork.sequence),
        };
        if asked {
            let says = "its origin signed two transactions under this sequence: the evidence is kept (overlane \
                        replay forks)";
            facts.push(fact(
                ("forks", "evidence"),
                says.to_owned(),
                Some(&fork.stream),
                None,
            ));
        }
    }
}

/// What is known of mail.
fn mail(peer: &Peer, of: StoryOf, stories: &[&Story], facts: &mut Vec<FactReport>) {
    let asked = |digest: TransactionDigest| {
        of == StoryOf::Digest(digest) || stories.iter().any(|it| it.digest == digest)
    };
    let mail = peer.mail();
    for held in mail.held.iter().filter(|it| asked(it.digest)) {
        for (by, until_ms) in &held.by {
            let says = format!(
                "{by} holds it for {} until {}, by its signed word",
                held.destination,
                instant(*until_ms)
            );
            facts.push(fact(("mail", "held"), says, None, Some(held.digest)));
        }
    }
    for waits in mail.waiting.iter().filter(|it| asked(it.digest)) {
        let says = "it waits to be taken: overlane inbox take".to_owned();
        facts.push(fact(("mail", "waits"), says, None, Some(waits.digest)));
    }
}

fn story(story: &Story) -> StoryReport {
    StoryReport {
        digest: story.digest.to_string(),
        stream: story.stream.to_string(),
        sequence: story.sequence,
        steps: story.steps.iter().map(step).collect(),
        left_out: story.left_out,
    }
}

fn step((at_ms, step): &(u64, Step)) -> StepReport {
    let told = |word: &str, says: String| StepReport {
        at_ms: *at_ms,
        step: word.to_owned(),
        says,
        did: None,
        code: None,
        until_ms: None,
    };
    let with = |did: &Did, report: StepReport| StepReport {
        did: Some(did.to_string()),
        ..report
    };
    let by_code = |code: &str, report: StepReport| StepReport {
        code: Some(code.to_owned()),
        ..report
    };
    match step {
        Step::Signed => told(
            "signed",
            "signed here, under a sequence that a durable lease covers".to_owned(),
        ),
        Step::OfferedAgain => told(
            "offered_again",
            "its signed bytes were offered again here".to_owned(),
        ),
        Step::Way { neighbour, class } => {
            let says = format!("to go to {neighbour} in its lane of class {}", class.name());
            with(neighbour, told("way", says))
        }
        Step::InLane { link, peer } => {
            let to = peer.map_or_else(String::new, |peer| format!(" to {peer}"));
            let report = told("in_lane", format!("the lane of link {link}{to} took it"));
            match peer {
                Some(peer) => with(peer, report),
                None => report,
            }
        }
        Step::NotSent { code } => {
            by_code(code, told("not_sent", format!("no lane took it ({code})")))
        }
        Step::Unreachable { reporter, why } => {
            let code = why.code();
            let says = format!("{reporter} says that it does not reach its destination ({code})");
            by_code(code, with(reporter, told("unreachable", says)))
        }
        Step::Delivered => told(
            "delivered",
            "its destination says that it admitted it".to_owned(),
        ),
        Step::Held { by, until_ms } => {
            let says = format!(
                "{by} holds it until {}, by its signed word",
                instant(*until_ms)
            );
            StepReport {
                until_ms: Some(*until_ms),
                ..with(by, told("held", says))
            }
        }
        Step::NotHeld { code } => {
            by_code(code, told("not_held", format!("nobody holds it ({code})")))
        }
        Step::Ended { by, kind } => {
            let says = format!("{by}, which held it, says how that ended: {}", kind.word());
            with(by, told("ended", says))
        }
        Step::Came { from, hops } => {
            let unit = if *hops == 1 { "hop" } else { "hops" };
            let says =
                format!("came from {from}, by {hops} {unit} as the last one says, and verified");
            with(from, told("came", says))
        }
        Step::CameAsMail { holder } => with(
            holder,
            told(
                "came_as_mail",
                format!("came out of the inbox that {holder} holds"),
            ),
        ),
        Step::Admitted { verdict } => {
            let word = verdict_word(*verdict);
            told("admitted", format!("admitted as {word}, durably"))
        }
        Step::InCustody => told(
            "in_custody",
            "in custody, durably: it waits to be taken".to_owned(),
        ),
        Step::Refused { code } => by_code(code, told("refused", format!("refused here ({code})"))),
        Step::HandedOver => told(
            "handed_over",
            "handed to the application's queue".to_owned(),
        ),
        Step::Taken => told("taken", "taken by the application".to_owned()),
    }
}
