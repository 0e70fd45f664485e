//! `ref list | show | drop | revoke`: the references that the running node keeps.

use axum::http::Method;
use overlane_core::Fault;
use overlane_node::api::{
    Client, DropRequest, FileReport, ReferenceReport, ReferencesReport, RevokeRequest,
};
use overlane_node::home::Home;

use super::args::Refs;
use super::ask;
use super::output::{Done, Failure, Output};

/// Does what was asked about references.
pub(super) fn refs(home: &Home, asked: &Refs, output: &Output) -> Result<Done, Failure> {
    match asked {
        Refs::List => list(home, output),
        Refs::Show { number } => show(home, *number, output),
        Refs::Drop { number } => drop_one(home, *number, output),
        Refs::Revoke {
            number,
            hard,
            reason,
        } => revoke(home, *number, *hard, reason, output),
    }
}

fn list(home: &Home, output: &Output) -> Result<Done, Failure> {
    output.answer(&kept(home)?, |report| {
        if report.references.is_empty() {
            return format!(
                "no references; share a file: {} share FILE",
                output.overlane
            );
        }
        let lines: Vec<String> = report.references.iter().map(in_a_line).collect();
        lines.join("\n")
    })?;
    Ok(Done::Yes)
}

fn show(home: &Home, number: u64, output: &Output) -> Result<Done, Failure> {
    let kept = kept(home)?.references;
    let one = kept.into_iter().find(|one| one.number == number);
    let Some(one) = one else {
        let message = format!("no reference is kept under the number {number}");
        return Err(Failure::new("refs/not_kept", Fault::Usage, message));
    };
    output.answer(&one, in_full)?;
    Ok(Done::Yes)
}

fn drop_one(home: &Home, number: u64, output: &Output) -> Result<Done, Failure> {
    let was: ReferenceReport = call(home, Method::DELETE, "/v1/refs", &DropRequest { number })?;
    output.answer(&was, |was| {
        format!("dropped: {}", in_a_line(was).trim_start())
    })?;
    Ok(Done::Yes)
}

fn revoke(
    home: &Home,
    number: u64,
    hard: bool,
    reason: &str,
    output: &Output,
) -> Result<Done, Failure> {
    let asked = RevokeRequest {
        number,
        hard,
        reason: reason.to_owned(),
    };
    let now: ReferenceReport = call(home, Method::POST, "/v1/refs/revoke", &asked)?;
    output.answer(&now, |now| {
        let told = match now.holders.len() {
            0 => "nobody holds it".to_owned(),
            holders => format!("{holders} who hold it are told, as soon as they can be reached"),
        };
        format!("{}\n{told}", in_a_line(now).trim_start())
    })?;
    Ok(Done::Yes)
}

fn kept(home: &Home) -> Result<ReferencesReport, Failure> {
    let client = Client::of(home);
    ask(async {
        let report = client.get("/v1/refs").await;
        report.map_err(|error| Failure::of_daemon(&error))
    })
}

fn call<T: serde::de::DeserializeOwned>(
    home: &Home,
    method: Method,
    path: &str,
    asked: &impl serde::Serialize,
) -> Result<T, Failure> {
    let client = Client::of(home);
    ask(async {
        let answer = client.call(method, path, asked).await;
        answer.map_err(|error| Failure::of_daemon(&error))
    })
}

/// What another node said stays off this terminal's control.
pub(super) fn quoted(text: &str) -> String {
    text.chars().flat_map(char::escape_debug).collect()
}

fn in_a_line(one: &ReferenceReport) -> String {
    let what = one.file.as_ref().map_or_else(String::new, |file| {
        format!("  {}  {} bytes", quoted(&file.name), file.size)
    });
    let whose = match (&one.from, one.holders.len()) {
        (Some(from), _) => format!("  of {from}"),
        (None, 0) => String::new(),
        (None, 1) => "  held by 1 other".to_owned(),
        (None, holders) => format!("  held by {holders} others"),
    };
    let reason = one.reason.as_ref();
    let reason = reason.map_or_else(String::new, |why| format!(": {}", quoted(&why.text)));
    let (number, kind, state) = (one.number, &one.kind, &one.state);
    format!("{number:>4}  {kind:<8}{what}{whose}  {state}{reason}")
}

fn in_full(one: &ReferenceReport) -> String {
    let mut text = format!(
        "  number   {}\n  kind     {}\n  state    {}",
        one.number, one.kind, one.state
    );
    if let Some(why) = &one.reason {
        text += &format!("\n  reason   {} ({})", quoted(&why.text), why.number);
    }
    if let Some(FileReport {
        name,
        size,
        hash,
        path,
    }) = &one.file
    {
        text += &format!(
            "\n  name     {}\n  size     {size} bytes\n  hash     {hash}",
            quoted(name)
        );
        if let Some(path) = path {
            text += &format!("\n  path     {path}");
        }
    }
    if let Some(from) = &one.from {
        text += &format!("\n  of       {from}");
    }
    if one.own {
        text += &format!("\n  tickets  {}", one.tickets);
        for holder in &one.holders {
            text += &format!("\n  held by  {holder}");
        }
    }
    text
}
