//! `explain TRANSACTION`: what became of one transaction, as far as the running node knows.

use axum::http::Method;
use overlane_core::{Did, TransactionDigest};
use overlane_node::api::{Client, ExplainRequest, StepReport, StoryReport, TransactionReport};
use overlane_node::home::Home;

use super::super::args::Explain;
use super::super::ask;
use super::super::output::{Done, Failure, Output};
use super::to_do;
use overlane_node::api::instant;

/// Which transaction is meant, if one is.
pub(super) fn asked(asked: &Explain) -> Option<ExplainRequest> {
    let text = asked.code.as_deref()?;
    if text.contains('/') {
        return None;
    }
    let (of, sequence) = match (text.split_once('#'), asked.sequence) {
        (Some((did, sequence)), None) => (did, Some(sequence.parse().ok()?)),
        (_, sequence) => (text, sequence),
    };
    let is_one = match sequence {
        Some(_) => of.parse::<Did>().is_ok() || of.starts_with("did:key:"),
        None => of.parse::<TransactionDigest>().is_ok(),
    };
    is_one.then(|| ExplainRequest {
        of: of.to_owned(),
        sequence,
        class: asked.class,
    })
}

/// Tells it; exit code 1 if nothing is known of it here.
pub(super) fn explain(
    home: &Home,
    asked: &ExplainRequest,
    output: &Output,
) -> Result<Done, Failure> {
    let client = Client::of(home);
    let report: TransactionReport = ask(async {
        let answer = client.call(Method::POST, "/v1/explain", asked).await;
        answer.map_err(|error| Failure::of_daemon(&error))
    })?;
    output.answer(&report, |report| in_words(report, &output.overlane))?;
    let known = !report.stories.is_empty() || !report.stores.is_empty();
    Ok(if known { Done::Yes } else { Done::No })
}

fn in_words(report: &TransactionReport, overlane: &str) -> String {
    let mut lines = Vec::new();
    for story in &report.stories {
        told(story, overlane, &mut lines);
    }
    if !report.stores.is_empty() {
        lines.push("in the stores of this node:".to_owned());
    }
    for fact in &report.stores {
        let of = match &fact.stream {
            Some(stream) => format!("  (stream {stream})"),
            None => String::new(),
        };
        lines.push(format!("  {:<8} {}{of}", fact.store, fact.says));
    }
    if report.stories.is_empty() && report.stores.is_empty() {
        lines.push("nothing is known of it here".to_owned());
    }
    if !report.not_known.is_empty() {
        lines.push("not known here:".to_owned());
    }
    for not_known in &report.not_known {
        lines.push(format!("  {not_known}"));
    }
    if report.forgotten > 0 {
        let forgotten = report.forgotten;
        lines.push(format!(
            "the stories of {forgotten} transactions were forgotten since the start"
        ));
    }
    lines.join("\n")
}

fn told(story: &StoryReport, overlane: &str, lines: &mut Vec<String>) {
    lines.push(story.digest.clone());
    lines.push(format!(
        "  sequence {} of stream {}",
        story.sequence, story.stream
    ));
    let began_ms = story.steps.first().map_or(0, |it| it.at_ms);
    lines.push(format!("  from {} on", instant(began_ms)));
    let last = story.steps.len().saturating_sub(1);
    for (at, step) in story.steps.iter().enumerate() {
        if at == last && story.left_out > 0 {
            lines.push(format!("  … {} steps that were not kept", story.left_out));
        }
        let StepReport {
            at_ms, says, code, ..
        } = step;
        lines.push(format!(
            "  +{:>7} ms  {says}",
            at_ms.saturating_sub(began_ms)
        ));
        if let Some(to_do) = code.as_deref().and_then(|code| to_do(code, overlane)) {
            lines.push(format!("    to do: {to_do}"));
        }
    }
}
