//! `doctor` and `health`: what is wrong with a node, found step by step.
//!
//! Every step says what was tried, what came back, what that means and what to type next. It works
//! without a daemon and without a network: then it looks at what the daemon would look at when it
//! starts. With a daemon it asks it, and opens nothing that the daemon holds.

mod mail;
mod running;
mod stopped;
mod way;

use std::time::{Duration, Instant};

use overlane_node::api::{Client, HealthReport, StatusReport, counted};
use overlane_node::home::Home;
use serde::Serialize;
use serde_json::json;

use super::args::{Doctor, DoctorOf, Health};
use super::explain::to_do;
use super::output::{Done, Failure, Output};
use super::{ask, only_if_running};

/// How a step came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Finding {
    /// As it should be.
    Good,
    /// It works, and somebody may want to know.
    Warning,
    /// Something does not work.
    Bad,
}

impl Finding {
    const fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Warning => "warning",
            Self::Bad => "bad",
        }
    }
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Step {
    step: &'static str,
    finding: Finding,
    tried: String,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    meaning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl Step {
    fn good(step: &'static str, tried: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            step,
            finding: Finding::Good,
            tried: tried.into(),
            found: found.into(),
            meaning: None,
            next: None,
        }
    }

    /// What came back, if it is not as it should be.
    fn but(
        self,
        finding: Finding,
        meaning: impl Into<String>,
        next: impl Into<Option<String>>,
    ) -> Self {
        Self {
            finding,
            meaning: Some(meaning.into()),
            next: next.into(),
            ..self
        }
    }

    /// A step that failed with a code of the catalogue.
    fn failed(
        step: &'static str,
        tried: impl Into<String>,
        failure: &Failure,
        meaning: &str,
        output: &Output,
    ) -> Self {
        let found = format!("{} ({})", failure.message(), failure.code());
        let next = to_do(failure.code(), &output.overlane);
        Self::good(step, tried, found).but(Finding::Bad, meaning, next)
    }

    fn in_words(&self) -> String {
        let mut text = format!(
            "{:<8} {:<11} {}: {}",
            self.finding.word(),
            self.step,
            self.tried,
            self.found
        );
        for (word, line) in [("means", &self.meaning), ("to do", &self.next)] {
            if let Some(line) = line {
                text += &format!("\n{:21}{word}  {line}", "");
            }
        }
        text
    }
}

/// Looks at everything, or at the way to one node.
pub(super) fn doctor(home: &Home, asked: &Doctor, output: &Output) -> Result<Done, Failure> {
    let steps = match &asked.of {
        None => whole(home, output)?,
        Some(DoctorOf::Peer { did }) => way::steps(home, did, output)?,
        Some(DoctorOf::Mail) => mail::steps(home, output)?,
    };
    for step in &steps {
        output.answer(step, Step::in_words)?;
    }
    let count = |finding| steps.iter().filter(|step| step.finding == finding).count();
    let (warnings, bad) = (count(Finding::Warning), count(Finding::Bad));
    let sum = json!({"steps": steps.len(), "warnings": warnings, "bad": bad});
    output.answer(&sum, |_| match (warnings, bad) {
        (0, 0) => "\nall is well".to_owned(),
        (_, 0) => format!("\nit works; warnings: {warnings}"),
        (_, _) => format!("\nbad: {bad}, warnings: {warnings}"),
    })?;
    Ok(if bad == 0 { Done::Yes } else { Done::No })
}

/// Every step, for a bundle; a doctor that fails says why. What is wrong in the configuration is left out: a
/// secret may stand in the wrong place there.
pub(super) fn steps_as_json(home: &Home, output: &Output) -> serde_json::Value {
    match whole(home, output) {
        Ok(mut steps) => {
            let config = steps.iter_mut().filter(|step| step.step == "config");
            for step in config.filter(|step| step.finding == Finding::Bad) {
                step.found = "it is mistaken; `overlane config check` says where".to_owned();
            }
            json!(steps)
        }
        Err(failure) => json!({"failed": failure.code()}),
    }
}

fn whole(home: &Home, output: &Output) -> Result<Vec<Step>, Failure> {
    let mut steps = stopped::of_files(home, output);
    if steps.iter().any(|step| step.finding == Finding::Bad) {
        // What a daemon would stumble over first; the rest would only say it again.
        return Ok(steps);
    }
    match running_status(home)? {
        Some(status) => {
            let found = format!("it runs, for {} s", status.uptime_ms / 1_000);
            steps.push(Step::good("daemon", "ask it by its socket", found));
            steps.extend(running::steps(&status, output));
            steps.extend(mail::in_short(home, output)?);
        }
        None => {
            let step = Step::good("daemon", "ask it by its socket", "none runs here");
            let next = format!("{} run", output.overlane);
            let meaning = "nothing is sent or received; what follows is what it would meet";
            steps.push(step.but(Finding::Warning, meaning, next));
            steps.extend(stopped::of_start(home, output));
        }
    }
    Ok(steps)
}

fn running_status(home: &Home) -> Result<Option<StatusReport>, Failure> {
    let client = Client::of(home);
    ask(async { only_if_running(client.get::<StatusReport>("/v1/status").await) })
}

/// One line and an exit code, for what watches over the node: 0 if it does its work.
///
/// With a wait, asks again until it does or the time is up.
pub(super) fn health(home: &Home, asked: &Health, output: &Output) -> Result<Done, Failure> {
    let until = Instant::now() + Duration::from_secs(asked.wait);
    let health = loop {
        let answer = is_healthy(home, asked.links)?;
        if answer.healthy || Instant::now() >= until {
            break answer;
        }
        std::thread::sleep(HEALTH_EVERY);
    };
    output.answer(&health, |HealthReport { healthy, why, .. }| {
        let word = if *healthy { "healthy" } else { "not healthy" };
        format!("{word}: {why}")
    })?;
    Ok(if health.healthy { Done::Yes } else { Done::No })
}

/// How often a node that is not up yet is asked.
const HEALTH_EVERY: Duration = Duration::from_millis(50);

fn is_healthy(home: &Home, links: usize) -> Result<HealthReport, Failure> {
    let client = Client::of(home);
    let health = ask(async { only_if_running(client.get::<HealthReport>("/v1/health").await) })?;
    let mut health = health.unwrap_or_else(|| HealthReport {
        healthy: false,
        why: "no daemon runs here".to_owned(),
        links: 0,
    });
    if health.healthy && health.links < links {
        health.healthy = false;
        health.why = format!(
            "{}, and {links} are asked for",
            counted(health.links, "link")
        );
    }
    Ok(health)
}
