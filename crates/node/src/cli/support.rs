//! `support-bundle`: what somebody who helps needs, and nothing secret.
//!
//! Law (no secret): nothing is read that is secret: no key, no token, no message; credentials of the
//! configuration are left out. What names somebody or leads to a machine goes through the log's redactor.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use overlane_core::Fault;
use overlane_node::api::{BoundsReport, Client, LogReport, StatusReport, metrics_text};
use overlane_node::home::{Home, Sources};
use overlane_node::logs::Redactor;
use serde_json::{Value, json};

use super::identity::random;
use super::output::{Done, Failure, Output};
use super::{ask, doctor, only_if_running};

/// Writes it.
pub(super) fn bundle(home: &Home, file: &Path, output: &Output) -> Result<Done, Failure> {
    let failed = |cause: std::io::Error| {
        Failure::new(
            "cli/write",
            Fault::Usage,
            format!("write {}: {cause}", file.display()),
        )
    };
    let text = serde_json::to_string_pretty(&collected(home, output)?);
    let text = text.map_err(|cause| failed(cause.into()))?;
    let mut key = [0; 32];
    random(&mut key)?;
    let redactor = Redactor::new(key, std::env::var("HOME").ok());
    let folder = home.dir().display().to_string();
    let text = redactor.redact(&text.replace(&folder, "HOME"));
    // Whatever the umask: names and addresses are pseudonyms in it, and what a node does is still its owner's to give.
    let mut private = std::fs::OpenOptions::new();
    private.write(true).create_new(true).mode(0o600);
    let mut written = private.open(file).map_err(failed)?;
    written.write_all(text.as_bytes()).map_err(failed)?;
    let name = file.display().to_string();
    let answer = json!({"file": name, "bytes": text.len()});
    output.answer(&answer, |_| {
        format!(
            "{} bytes in {name}: text, to be read before it is given away",
            text.len()
        )
    })?;
    Ok(Done::Yes)
}

fn collected(home: &Home, output: &Output) -> Result<Value, Failure> {
    let client = Client::of(home);
    let asked = ask(async {
        let status = only_if_running(client.get::<StatusReport>("/v1/status").await)?;
        let bounds = only_if_running(client.get::<BoundsReport>("/v1/bounds").await)?;
        let log = only_if_running(client.get::<LogReport>("/v1/log").await)?;
        Ok((status, bounds, log))
    });
    // A node that does not answer as it should is what somebody may want help with.
    let (running, unanswered) = match asked {
        Ok(answers) => (answers, None),
        Err(failure) => ((None, None, None), Some(failure.message().to_owned())),
    };
    let (status, bounds, log) = running;
    let metrics = status.clone().zip(bounds.clone());
    let metrics = metrics.and_then(|(status, bounds)| metrics_text(status, bounds.bounds).ok());
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "platform": {"os": std::env::consts::OS, "architecture": std::env::consts::ARCH},
        "configuration": configuration(home),
        "doctor": doctor::steps_as_json(home, output),
        "unanswered": unanswered,
        "status": status,
        "bounds": bounds,
        "metrics": metrics.as_deref().map(str::lines).map(Iterator::collect::<Vec<_>>),
        "log": log,
    }))
}

/// Every key without credentials, or what is wrong. A mistake is told by its place alone: what was typed
/// there may be a secret in the wrong line.
fn configuration(home: &Home) -> Value {
    match home.check(&Sources::of_process()) {
        Ok(settings) => settings
            .all()
            .map(|it| json!({"key": it.name, "value": it.value, "origin": it.origin.to_string()}))
            .collect(),
        Err(mistakes) => json!({"mistakes": mistakes.len()}),
    }
}
