//! `inbox list | take | probe`: mail that came while this node was away, and who holds it.

use std::time::{Duration, Instant};

use axum::http::Method;
use overlane_node::api::{
    Client, InboxReport, ProbeReport, ProbedReport, TakeMailRequest, TakenMessage, counted, instant,
};
use overlane_node::home::Home;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::args::Inbox;
use super::ask;
use super::output::{Done, Failure, Output};
use super::refs::quoted;

/// The code of a taking where nothing waits.
const EMPTY: &str = "inbox/empty";

/// The code of a taking where the mail that is named does not wait.
const NOT_WAITING: &str = "inbox/not_waiting";

/// Does what was asked about mail.
pub(super) fn inbox(home: &Home, asked: &Inbox, output: &Output) -> Result<Done, Failure> {
    match asked {
        Inbox::List { fetch } => list(home, *fetch, output),
        Inbox::Take {
            digest,
            all,
            count,
            wait,
        } => {
            let asked = TakeMailRequest {
                digest: digest.clone(),
                wait_ms: u64::from(*wait) * 1_000,
            };
            let most = if *all { None } else { Some(count.unwrap_or(1)) };
            take(home, &asked, most, output)
        }
        Inbox::Probe => probe(home, output),
    }
}

fn list(home: &Home, fetch: bool, output: &Output) -> Result<Done, Failure> {
    let report: InboxReport = if fetch {
        call(home, "/v1/inbox/fetch", &())?
    } else {
        let client = Client::of(home);
        ask(async {
            let report = client.get("/v1/inbox").await;
            report.map_err(|error| Failure::of_daemon(&error))
        })?
    };
    output.answer(&report, |report| in_words(report, &output.overlane))?;
    Ok(Done::Yes)
}

fn in_words(report: &InboxReport, overlane: &str) -> String {
    if !report.has_store {
        return "this node keeps no mail".to_owned();
    }
    let mut lines = Vec::new();
    if let Some(cause) = &report.failed {
        lines.push(format!("the store of mail failed: {cause}"));
    }
    let (waiting, custody) = (report.waiting.len(), report.custody);
    match (waiting, custody) {
        (0, 0) => lines.push("no mail waits".to_owned()),
        (0, _) => {}
        _ => lines.push(format!("{waiting} mails wait: {overlane} inbox take")),
    }
    if custody > waiting {
        let missing = custody - waiting;
        lines.push(format!(
            "{missing} more are in custody here and are fetched again from their holders"
        ));
    }
    for mail in &report.waiting {
        let (digest, origin, bytes) = (&mail.digest, &mail.origin, mail.bytes);
        lines.push(format!("  {digest}  of {origin}  {bytes} bytes"));
    }
    if report.fetched > 0 || report.full_until_ms.is_some() {
        let (fetched, most) = (report.fetched, report.custody_max);
        let until = report.full_until_ms.map_or_else(String::new, |ms| {
            format!("; else the first is spent at {}", instant(ms))
        });
        lines.push(format!(
            "custody is full ({custody} of {most}): {fetched} fetched, and what is with the holders, come when some are taken{until}"
        ));
    }
    lines.push(match report.holders.len() {
        0 => no_holders(overlane),
        1 => "1 node holds mail for this one while it is away".to_owned(),
        holders => format!("{holders} nodes hold mail for this one while it is away"),
    });
    for holder in &report.holders {
        let drained = if holder.drained {
            "gave all it holds"
        } else {
            "did not answer yet; that proves nothing of what it holds"
        };
        lines.push(format!("  {}  {drained}", holder.did));
    }
    for mail in &report.held {
        let until = mail.by.iter().map(|it| it.until_ms).max();
        let by = match mail.by.iter().all(|it| it.here) {
            true => "here alone".to_owned(),
            false => format!("by {}", mail.by.len()),
        };
        lines.push(format!(
            "held for {}: {} {by} until {}",
            mail.destination,
            mail.digest,
            until.map_or_else(String::new, instant)
        ));
    }
    for mail in &report.ended {
        let (destination, digest, outcome) = (&mail.destination, &mail.digest, &mail.outcome);
        let (by, at) = (&mail.by, instant(mail.at_ms));
        lines.push(format!(
            "{outcome} by {destination}: {digest}, says {by}, at {at}"
        ));
    }
    for inbox in &report.inboxes {
        lines.push(format!(
            "holds {} for {}",
            counted(inbox.mails, "mail"),
            inbox.owner
        ));
    }
    lines.join("\n")
}

/// Takes one, and asks again until the time to wait is over: the node answers each request within some seconds.
fn take_one(home: &Home, asked: &TakeMailRequest) -> Result<TakenMessage, Failure> {
    let until = Instant::now().checked_add(Duration::from_millis(asked.wait_ms));
    let mut asked = asked.clone();
    loop {
        let answer = call(home, "/v1/inbox/take", &asked);
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left_ms = left.map_or(0, |left| {
            u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
        });
        match answer {
            Err(failure) if [EMPTY, NOT_WAITING].contains(&failure.code()) && left_ms > 0 => {
                asked.wait_ms = left_ms;
            }
            answer => return answer,
        }
    }
}

/// Takes so many, or all that wait.
fn take(
    home: &Home,
    asked: &TakeMailRequest,
    most: Option<u64>,
    output: &Output,
) -> Result<Done, Failure> {
    let mut taken = 0_u64;
    while most.is_none_or(|most| taken < most) {
        match take_one(home, asked) {
            Ok(message) => {
                taken += 1;
                output.answer(&message, shown)?;
            }
            // Nothing is left: that is the end of all, and the answer no to who wants more.
            Err(failure) if failure.code() == EMPTY => {
                if taken == 0 {
                    output.line(if output.json { "{}" } else { "no mail waits" })?;
                }
                let enough = most.is_none() && taken > 0;
                return Ok(if enough { Done::Yes } else { Done::No });
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(Done::Yes)
}

fn shown(message: &TakenMessage) -> String {
    let namespace = message.namespace.as_deref().unwrap_or_default();
    let body = match &message.text {
        Some(text) => quoted(text),
        None => format!("{} bytes: {}", message.body.len() / 2, message.body),
    };
    format!("{} {}: {body}", message.origin, quoted(namespace))
}

/// Without a link nothing is known of what waits elsewhere.
fn no_holders(overlane: &str) -> String {
    format!(
        "it is not known yet who holds mail for this node: it has no successor in the ring; once a peer is linked, \
         it asks by itself: {overlane} peer add URL"
    )
}

fn probe(home: &Home, output: &Output) -> Result<Done, Failure> {
    let report: ProbeReport = call(home, "/v1/inbox/probe", &())?;
    let all = report.holders.iter().all(|it| it.taken_ms.is_some());
    let well = all && !report.holders.is_empty();
    output.answer(&report, |report| {
        if report.holders.is_empty() {
            return no_holders(&output.overlane);
        }
        let lines: Vec<String> = report.holders.iter().map(probed).collect();
        lines.join("\n")
    })?;
    Ok(if well { Done::Yes } else { Done::No })
}

fn probed(holder: &ProbedReport) -> String {
    let did = &holder.did;
    match holder.taken_ms {
        Some(ms) => format!("{did}  stored a sealed item, and it was taken, in {ms} ms"),
        None => format!("{did}  did not give back what was left with it"),
    }
}

fn call<T: DeserializeOwned>(
    home: &Home,
    path: &str,
    asked: &impl Serialize,
) -> Result<T, Failure> {
    let client = Client::of(home);
    ask(async {
        let answer = client.call(Method::POST, path, asked).await;
        answer.map_err(|error| Failure::of_daemon(&error))
    })
}
