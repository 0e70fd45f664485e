//! `backup` and `restore`: a copy of a home, and what putting it back costs.

use std::path::Path;

use axum::http::Method;
use overlane_core::Fault;
use overlane_node::api::{BackupReport, BackupRequest, Client};
use overlane_node::home::{self, Home, Stillness};
use serde_json::json;

use super::output::{Done, Failure, Output};
use super::{ask, only_if_running};

/// Copies the home: the running node does, or this program where none runs.
pub(super) fn backup(home: &Home, to: &Path, output: &Output) -> Result<Done, Failure> {
    let to = std::path::absolute(to).map_err(|cause| {
        let message = format!("{}: {cause}", to.display());
        Failure::new("cli/read", Fault::Usage, message)
    })?;
    let asked = BackupRequest {
        path: to.display().to_string(),
    };
    let client = Client::of(home);
    let answer =
        ask(async { only_if_running(client.call(Method::POST, "/v1/backup", &asked).await) })?;
    let report = match answer {
        Some(report) => report,
        None => {
            home.require_account()?;
            let _lock = home.lock()?;
            BackupReport::of(&home::backup(home, &to, &Stillness::default())?, &to)
        }
    };
    output.answer(&report, |report| {
        format!(
            "{} replay records of {} are in {}\n{}\nto put it back: overlane --home DIR restore {}",
            report.records, report.did, report.path, report.cost, report.path
        )
    })?;
    Ok(Done::Yes)
}

/// Puts a copy back.
pub(super) fn restore(home: &Home, from: &Path, output: &Output) -> Result<Done, Failure> {
    let backup = home::restore(home, from)?;
    let cost = backup.cost();
    let dir = home.dir().display().to_string();
    let answer = json!({"did": backup.did, "taken_ms": backup.taken_ms, "home": dir, "cost": cost});
    output.answer(&answer, |_| {
        format!("{} is in {dir} again\n{cost}", backup.did)
    })?;
    Ok(Done::Yes)
}
