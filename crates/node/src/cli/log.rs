//! `log`: what the running node logs.

use axum::http::Method;
use overlane_node::api::{Client, LogReport, LogRequest};
use overlane_node::home::Home;

use super::ask;
use super::output::{Done, Failure, Output};

/// Shows it, or changes it first.
pub(super) fn log(
    home: &Home,
    filter: Option<String>,
    lines: bool,
    output: &Output,
) -> Result<Done, Failure> {
    let client = Client::of(home);
    let answer: Result<LogReport, _> = ask(async {
        Ok(match filter {
            None => client.get("/v1/log").await,
            Some(filter) => {
                client
                    .call(Method::PUT, "/v1/log", &LogRequest { filter })
                    .await
            }
        })
    })?;
    let mut report = answer.map_err(|error| Failure::of_daemon(&error))?;
    if !lines {
        report.lines.clear();
    }
    output.answer(&report, |report| {
        let mut text = format!("logs {}", report.filter);
        for line in &report.lines {
            text += &format!("\n{line}");
        }
        text
    })?;
    Ok(Done::Yes)
}
