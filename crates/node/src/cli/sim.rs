//! `sim`: many nodes of this program in one process, on a virtual clock, network and disk.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use overlane_core::Fault as Whose;
use overlane_node::sim::{
    GroupCounts, MailCounts, Minute, ReferenceCounts, Report, Sim, SimConfig,
};
use serde_json::{Value, json};

use super::args;
use super::output::{Done, Failure, Output};

/// Violations that are shown in words of a run; all are counted, and more are in its JSON.
const VIOLATIONS_SHOWN: usize = 5;

/// Runs one simulation for each seed, and shows each minute and each end.
pub(super) fn sim(asked: &args::Sim, output: &Output) -> Result<Done, Failure> {
    let seeds = asked.seed..asked.seed.saturating_add(asked.seeds.max(1));
    let began = Instant::now();
    let (mut runs, mut failed, mut violations) = (0_u64, Vec::new(), 0_u64);
    for seed in seeds {
        let config = SimConfig {
            nodes: asked.nodes,
            minutes: asked.minutes,
            seed,
            topology: asked.topology,
            faults: asked.faults.clone(),
            hostile: asked.hostile.clone(),
            messages_per_minute: asked.messages,
            mails_per_minute: asked.mails,
            groups: asked.groups,
            references_per_minute: asked.references,
            broken: asked.broken,
        };
        let report = run(config, asked, output)?;
        runs += 1;
        violations += report.violations;
        if report.violations > 0 {
            failed.push(seed);
        }
    }
    if asked.seeds > 1 {
        let took_s = began.elapsed().as_secs();
        let last = json!({"seeds": runs, "failed": failed, "violations": violations});
        output.answer(&last, |_| {
            let failed = failed.len();
            format!("{runs} seeds in {took_s} s: {failed} failed, {violations} violations")
        })?;
    }
    Ok(if violations == 0 { Done::Yes } else { Done::No })
}

fn run(config: SimConfig, asked: &args::Sim, output: &Output) -> Result<Report, Failure> {
    let many = asked.seeds > 1;
    let cannot = |error: overlane_node::sim::ConfigError| {
        Failure::new("cli/usage", Whose::Usage, error.to_string())
    };
    let sim = match asked.trace {
        true => Sim::traced(config, |line| {
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        }),
        false => Sim::new(config),
    };
    let began = Instant::now();
    let progress = Progress::new(output, many);
    // What cannot be shown any more is told at the end; the run goes on to its result.
    let mut shown = Ok(());
    let report = sim.map_err(cannot)?.run(|minute| {
        progress.show(minute);
        if !many && shown.is_ok() {
            shown = output.answer(&minute_json(minute), |_| minute_line(minute));
        }
    });
    progress.clear();
    shown?;
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    output.answer(&report_json(&report), |_| {
        report_lines(&report, took_ms, many)
    })?;
    Ok(report)
}

/// Where a run is, on a terminal.
struct Progress {
    shown: bool,
}

impl Progress {
    fn new(output: &Output, many: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self {
            shown: many && !output.json && terminal,
        }
    }

    fn show(&self, minute: &Minute) {
        if self.shown {
            let (seed, at) = (minute.seed, minute.minute);
            let _ = write!(std::io::stderr().lock(), "\rseed {seed}: minute {at} ");
        }
    }

    fn clear(&self) {
        if self.shown {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

fn minute_json(minute: &Minute) -> Value {
    let counts = &minute.counts;
    json!({
        "minute": minute.minute,
        "phase": minute.phase.name(),
        "nodes_up": minute.nodes_up,
        "links": minute.links,
        "signed": counts.signed,
        "dispatched": counts.dispatched,
        "refused": counts.refused.values().sum::<u64>(),
        "starts": counts.starts,
        "power_cuts": counts.power_cuts,
        "partitions": counts.partitions,
        "mails_held": counts.mail.held,
        "mails_taken": counts.mail.taken,
        "posts": counts.groups.posts,
        "violations": minute.violations,
    })
}

fn minute_line(minute: &Minute) -> String {
    let Minute {
        minute: at,
        phase,
        nodes_up,
        links,
        counts,
        violations,
        ..
    } = minute;
    let refused: u64 = counts.refused.values().sum();
    format!(
        "minute {at:>4}  {:<8} {nodes_up:>4} nodes up, {links:>5} link ends; so far {:>7} signed, \
         {:>7} dispatched, {refused:>5} refused, {:>4} starts, {:>4} power cuts, {violations} \
         violations",
        phase.name(),
        counts.signed,
        counts.dispatched,
        counts.starts,
        counts.power_cuts,
    )
}

fn report_json(report: &Report) -> Value {
    let counts = &report.counts;
    let first = report.first.iter().map(|violation| {
        json!({"law": violation.law, "at_ms": violation.at_ms, "words": violation.words})
    });
    json!({
        "seed": report.config.seed,
        "nodes": report.config.nodes,
        "minutes": report.config.minutes,
        "topology": report.config.topology.name(),
        "faults": report.config.faults.to_string(),
        "hostile": report.config.hostile.to_string(),
        "simulated_ms": report.simulated_ms,
        "healed_after_ms": report.healed_after_ms,
        "signed": counts.signed,
        "dispatched": counts.dispatched,
        "offered_again": counts.offered_again,
        "forwarded": counts.forwarded,
        "unreachable": counts.unreachable,
        "sent_in_place": counts.sent_in_place,
        "offers_answered": counts.offers_answered,
        "offers_failed": counts.offers_failed,
        "cut": counts.cut,
        "hostile_acts": counts.hostile_acts,
        "rings_checked": counts.rings_checked,
        "refused": counts.refused,
        "sends_refused": counts.sends_refused,
        "starts": counts.starts,
        "stops": counts.stops,
        "kills": counts.kills,
        "power_cuts": counts.power_cuts,
        "stores_failed": counts.stores_failed,
        "links_up": counts.links_up,
        "links_down": counts.links_down,
        "partitions": counts.partitions,
        "clocks_set": counts.clocks_set,
        "mail": mail_json(&counts.mail),
        "groups": groups_json(&counts.groups),
        "references": references_json(&counts.references),
        "steps": report.steps,
        "trace": report.trace,
        "by_law": report.by_law,
        "first": first.collect::<Vec<_>>(),
        "command": report.config.command(),
        "violations": report.violations,
    })
}

fn mail_json(mail: &MailCounts) -> Value {
    json!({
        "sent": mail.sent,
        "delivered": mail.delivered,
        "held": mail.held,
        "not_held": mail.not_held,
        "waited": mail.waited,
        "taken": mail.taken,
        "left_alone": mail.left_alone,
        "let_go": mail.let_go,
        "handed_on": mail.handed_on,
        "lost": mail.lost,
        "dropped": mail.dropped,
        "brought": mail.brought,
        "refused": mail.refused,
    })
}

fn groups_json(groups: &GroupCounts) -> Value {
    json!({
        "groups": groups.groups,
        "joined": groups.joined,
        "removed": groups.removed,
        "posts": groups.posts,
        "came": groups.came,
        "caught_up": groups.caught_up,
        "lies": groups.lies,
        "not_taken": groups.not_taken,
        "posts_refused": groups.posts_refused,
        "refused": groups.refused,
    })
}

fn references_json(references: &ReferenceCounts) -> Value {
    json!({
        "shared": references.shared,
        "fetched": references.fetched,
        "calls": references.calls,
        "served": references.served,
        "answered": references.answered,
        "heard_back": references.heard_back,
        "let_go": references.let_go,
        "taken_back": references.taken_back,
        "heard": references.heard,
        "broken": references.broken,
        "ended": references.ended,
        "refused": references.refused,
    })
}

fn references_line(references: &ReferenceCounts) -> String {
    let ReferenceCounts {
        shared,
        fetched,
        calls,
        served,
        answered,
        heard_back,
        let_go,
        taken_back,
        heard,
        broken,
        ended,
        refused,
    } = references;
    format!(
        "\n  references: {shared} shared, {fetched} fetched, {let_go} let go of, {taken_back} taken back, of which \
         {heard} holders heard; {calls} calls, {served} handed over, {answered} answered, {heard_back} answers came; \
         broken by reason {broken:?}, lost {ended:?}, requests refused {refused:?}"
    )
}

fn groups_line(groups: &GroupCounts) -> String {
    let GroupCounts {
        groups,
        joined,
        removed,
        posts,
        came,
        caught_up,
        lies,
        not_taken,
        posts_refused,
        refused,
    } = groups;
    format!(
        "\n  {groups} groups: {joined} joined, {removed} removed, {posts} posts, {came} came to \
         others, {caught_up} of them after a restart, refused {posts_refused:?}, requests refused \
         {refused:?}; {lies} lies of hosts, {not_taken} envelopes not taken"
    )
}

fn mail_line(mail: &MailCounts) -> String {
    let MailCounts {
        sent,
        delivered,
        held,
        not_held,
        waited,
        taken,
        left_alone,
        let_go,
        handed_on,
        lost,
        dropped,
        brought,
        refused,
    } = mail;
    format!(
        "\n  mail: {sent} sent, {delivered} delivered at once, {held} held, neither {not_held:?}; \
         {waited} waited, {taken} taken, {left_alone} left alone, lost {lost:?}; holders let go of \
         {let_go}, handed {handed_on} on, dropped {dropped}, brought {brought} \
         again, refused {refused:?}"
    )
}

fn report_lines(report: &Report, took_ms: u64, many: bool) -> String {
    let counts = &report.counts;
    let minutes = report.simulated_ms / 60_000;
    let healed = report.healed_after_ms.map_or_else(
        || "did not heal".to_owned(),
        |ms| format!("healed after {} s", ms / 1_000),
    );
    let seed = report.config.seed;
    let mut text = format!(
        "seed {seed}: {minutes} simulated minutes in {took_ms} ms, {healed}, {} dispatched, trace \
         {}, {} violations",
        counts.dispatched, report.trace, report.violations
    );
    if !many {
        text += &format!(
            "\n  {} signed, {} offered again, {} passed on, refused {:?}, sends refused {:?}, \
             unreachable {:?}, {} sent in their place\n  {} links offered by the ring, {:?} of them failed; the ring was \
             looked at {} times; {} hostile acts, links cut for {:?}\n  {} starts, {} stops, {} kills, {} power cuts, {} failed stores, {} partitions, {} wrong clocks, {} \
             links up, {} down",
            counts.signed,
            counts.offered_again,
            counts.forwarded,
            counts.refused,
            counts.sends_refused,
            counts.unreachable,
            counts.sent_in_place,
            counts.offers_answered,
            counts.offers_failed,
            counts.rings_checked,
            counts.hostile_acts,
            counts.cut,
            counts.starts,
            counts.stops,
            counts.kills,
            counts.power_cuts,
            counts.stores_failed,
            counts.partitions,
            counts.clocks_set,
            counts.links_up,
            counts.links_down,
        );
        if counts.mail.sent > 0 {
            text += &mail_line(&counts.mail);
        }
        if counts.groups.groups > 0 {
            text += &groups_line(&counts.groups);
        }
        if counts.references.shared > 0 {
            text += &references_line(&counts.references);
        }
    }
    for violation in report.first.iter().take(VIOLATIONS_SHOWN) {
        let (at_ms, law, words) = (violation.at_ms, violation.law, &violation.words);
        text += &format!("\n  at {at_ms} ms, law “{law}”: {words}");
    }
    if report.violations > 0 {
        text += &format!("\n  again: {}", report.config.command());
    }
    text
}
