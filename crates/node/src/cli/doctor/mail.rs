//! What is wrong with mail: its store, those who hold some, custody, and the whole way tried once.

use axum::http::Method;
use overlane_node::api::{Client, InboxReport, ProbeReport};
use overlane_node::home::Home;

use super::super::inbox::until_when;
use super::super::output::{Failure, Output};
use super::super::{ask, only_if_running};
use super::{Finding, Step};
use overlane_node::api::counted;

/// Looks at mail, with a running daemon.
pub(super) fn steps(home: &Home, output: &Output) -> Result<Vec<Step>, Failure> {
    let client = Client::of(home);
    let report = ask(async { only_if_running(client.get::<InboxReport>("/v1/inbox").await) })?;
    let Some(report) = report else {
        let step = Step::good("daemon", "ask it by its socket", "none runs here");
        let meaning = "mail for this node waits with its holders, for a day at most";
        let next = format!("{} run", output.overlane);
        return Ok(vec![step.but(Finding::Bad, meaning, next)]);
    };
    let mut steps = vec![store(&report), holders(&report), custody(&report, output)];
    let tried = !report.holders.is_empty() && report.has_store && report.failed.is_none();
    // Where nothing more may come, it proves nothing that what is left does not.
    if tried && report.custody < report.custody_max {
        steps.push(probe(&client, output));
    }
    Ok(steps)
}

/// Holders and custody of a running node that keeps mail, with nothing tried.
pub(super) fn in_short(home: &Home, output: &Output) -> Result<Vec<Step>, Failure> {
    let client = Client::of(home);
    let report = ask(async { only_if_running(client.get::<InboxReport>("/v1/inbox").await) })?;
    let report = report.filter(|it| it.has_store && it.failed.is_none());
    Ok(report.map_or_else(Vec::new, |report| {
        vec![holders(&report), custody(&report, output)]
    }))
}

fn store(report: &InboxReport) -> Step {
    let mails: u64 = report.inboxes.iter().map(|it| it.mails).sum();
    let found = format!("{mails} mails held for {} others", report.inboxes.len());
    let step = Step::good("store", "ask how the store of mail is", found);
    match (&report.failed, report.has_store) {
        (Some(cause), _) => {
            let meaning = format!("nothing is held, fetched or taken: {cause}");
            let next = "mend the disk, then start the node again";
            step.but(Finding::Bad, meaning, next.to_owned())
        }
        (None, false) => step.but(Finding::Bad, "this node keeps no mail", None),
        (None, true) => step,
    }
}

fn holders(report: &InboxReport) -> Step {
    let all = report.holders.len();
    let drained = report.holders.iter().filter(|it| it.drained).count();
    let found = format!("{all}, of which {drained} gave all they hold");
    let step = Step::good(
        "holders",
        "ask the ring who holds mail for this node",
        found,
    );
    if all == 0 {
        let meaning = "nobody would hold mail for this node, and none is fetched";
        return step.but(Finding::Warning, meaning, None);
    }
    if drained < all {
        let meaning = "one that is silent or empty proves nothing: it is asked again every minute";
        return step.but(Finding::Warning, meaning, None);
    }
    step
}

fn custody(report: &InboxReport, output: &Output) -> Step {
    let (held, most) = (report.custody, report.custody_max);
    let found = format!(
        "{held} of {most}, {} of them wait to be taken",
        report.waiting.len()
    );
    let step = Step::good(
        "custody",
        "count the mail that is here and was not taken",
        found,
    );
    let take = format!("{} inbox take --all", output.overlane);
    match report.full_until_ms {
        Some(_) => {
            let fetched = counted(report.fetched, "more mail");
            let meaning = format!(
                "it is full: {fetched}, and what else is with the holders, wait there until some are taken{}",
                until_when(report)
            );
            step.but(Finding::Warning, meaning, take)
        }
        None if held > 0 => Step {
            next: Some(take),
            ..step
        },
        None => step,
    }
}

fn probe(client: &Client, output: &Output) -> Step {
    let tried = "leave a sealed item with each holder, and take it again";
    let answer = ask(async {
        let answer = client.call(Method::POST, "/v1/inbox/probe", &()).await;
        answer.map_err(|error| Failure::of_daemon(&error))
    });
    let report: ProbeReport = match answer {
        Ok(report) => report,
        Err(failure) => {
            let meaning = "the way of a mail could not be tried";
            return Step::failed("probe", tried, &failure, meaning, output);
        }
    };
    let back = report.holders.iter().filter(|it| it.taken_ms.is_some());
    let (back, all) = (back.count(), report.holders.len());
    let step = Step::good("probe", tried, format!("{back} of {all} came back"));
    match back {
        0 => step.but(Finding::Bad, "no mail for this node arrives now", None),
        _ if back < all => {
            let meaning = "mail arrives by way of the others; that one may be leaving or full";
            step.but(Finding::Warning, meaning, None)
        }
        _ => step,
    }
}
