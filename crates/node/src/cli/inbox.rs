//! `inbox list | take | probe`: mail that came while this node was away, and who holds it.

use std::time::{Duration, Instant};

use axum::http::Method;
use overlane_node::api::{
    Client, EndedReport, InboxReport, ProbeReport, ProbedReport, TakeMailRequest, TakenMessage,
    counted, instant,
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
        let (fetched, most) = (counted(report.fetched, "more mail"), report.custody_max);
        lines.push(format!(
            "custody is full ({custody} of {most}): {fetched}, and what else is with the holders, wait there until some are taken{}",
            until_when(report)
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
    lines.extend(report.ended.iter().map(ended));
    for inbox in &report.inboxes {
        lines.push(format!(
            "holds {} for {}",
            counted(inbox.mails, "mail"),
            inbox.owner
        ));
    }
    lines.join("\n")
}

/// Until when mail that waits for room in custody waits.
pub(super) fn until_when(report: &InboxReport) -> String {
    let waits = report.waits_until_ms.map_or_else(String::new, |ms| {
        format!("; the first of them is held until {}", instant(ms))
    });
    let spent = report.full_until_ms.map_or_else(String::new, |ms| {
        format!("; the first here is spent at {}", instant(ms))
    });
    waits + &spent
}

/// What became of a mail that others held.
fn ended(mail: &EndedReport) -> String {
    let (destination, digest) = (&mail.destination, &mail.digest);
    let (by, at) = (&mail.by, instant(mail.at_ms));
    match mail.outcome.as_str() {
        "expired" => {
            format!("expired: {destination} did not take {digest} in its time, says {by}, at {at}")
        }
        "evicted" => format!(
            "evicted: {digest} for {destination} made room for mail of others, says {by}, at {at}; send it again"
        ),
        outcome => format!("{outcome} by {destination}: {digest}, says {by}, at {at}"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_mail_is_said_as_what_it_is() {
        let said = |outcome: &str| {
            ended(&EndedReport {
                digest: "d1".to_owned(),
                destination: "to".to_owned(),
                outcome: outcome.to_owned(),
                by: "holder".to_owned(),
                at_ms: 0,
            })
        };
        assert!(said("taken").starts_with("taken by to: d1, says holder, at "));
        assert!(
            said("expired").starts_with("expired: to did not take d1 in its time, says holder")
        );
        assert!(said("evicted").starts_with("evicted: d1 for to made room"));
    }
}
