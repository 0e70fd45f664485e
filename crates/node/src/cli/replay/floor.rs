//! `replay floor`: the mail floor, and a way down from one that a wrong clock left in the future.
//!
//! The reset lowers the floor to this instant and no further, and leaves the floor of sequences
//! alone: what was spent by now stays refused, and no sequence is signed twice. Source: protocol
//! decision 4 (two-clock retirement).

use overlane_core::Fault;
use overlane_core::replay::record::{FloorRecord, Record, RecordId};
use overlane_core::replay::restored;
use overlane_core::store::{Change, Effect, StoreError};
use overlane_core::wire::cbor::to_vec;
use serde::Serialize;
use std::sync::Arc;

use super::{Done, Failure, Opened, Output, now};

#[derive(Serialize)]
struct Floor {
    record: String,
    /// The largest instant at which a receiver stream retired, in milliseconds of Unix time.
    mail_ms: u64,
    /// The largest end of a retired sender stream.
    sender_end: u64,
    /// This instant, by the wall clock.
    now_ms: u64,
    /// By how much the floor lies in the future; zero where it does not.
    ahead_ms: u64,
    /// What lowering it may replay; `None` where there is nothing to lower.
    cost: Option<String>,
    /// Whether it was lowered to this instant.
    reset: bool,
}

/// Shows the floor; lowers it to this instant if told so.
pub(super) fn floor(opened: &mut Opened, reset: bool, output: &Output) -> Result<Done, Failure> {
    let found = read(opened)?;
    let now_ms = now().wall_ms;
    let ahead_ms = found.mail_ms.saturating_sub(now_ms);
    let mut floor = Floor {
        record: RecordId::Floor.name().to_string(),
        mail_ms: found.mail_ms,
        sender_end: found.sender_end,
        now_ms,
        ahead_ms,
        cost: (ahead_ms > 0).then(|| cost(found.mail_ms)),
        reset: false,
    };
    if !output.json {
        output.line(&in_words(&floor))?;
    }
    if reset && ahead_ms > 0 {
        lower(opened, found, now_ms)?;
        floor.reset = true;
        floor.mail_ms = now_ms;
    }
    let ended = ended(&floor, reset, output);
    match (output.json, ended) {
        (true, _) => output.answer(&floor, |_| String::new())?,
        (false, Some(words)) => output.line(&words)?,
        (false, None) => {}
    }
    Ok(if ahead_ms == 0 || floor.reset {
        Done::Yes
    } else {
        Done::No
    })
}

fn read(opened: &mut Opened) -> Result<FloorRecord, Failure> {
    let name = RecordId::Floor.name();
    let found = match opened.store.show(name) {
        // No stream has retired yet.
        Err(StoreError::UnknownRecord { .. }) => return Ok(FloorRecord::default()),
        found => found?,
    };
    let bad = match restored(name, found) {
        Ok(Record::Floor(floor)) => return Ok(floor),
        Ok(_) => String::from("it is another's"),
        Err(bad) => bad.to_string(),
    };
    let message = format!("the record of the floors, {name}, does not restore: {bad}");
    Err(Failure::new(
        "replay/floor_unavailable",
        Fault::StoreFailedClosed,
        message,
    ))
}

fn lower(opened: &mut Opened, found: FloorRecord, now_ms: u64) -> Result<(), StoreError> {
    let lowered = Record::Floor(FloorRecord {
        version: found.version.saturating_add(1),
        mail_ms: now_ms,
        ..found
    });
    opened.store.write(&[Change {
        name: lowered.id().name(),
        effect: Effect::Write(Arc::new(to_vec(&lowered))),
    }])
}

fn in_words(floor: &Floor) -> String {
    let Floor {
        mail_ms,
        now_ms,
        ahead_ms,
        ..
    } = floor;
    match (mail_ms, ahead_ms) {
        (0, _) => String::from("no stream has retired: there is no floor"),
        (_, 0) => format!("the mail floor is {mail_ms} ms of Unix time, and past: as it should be"),
        _ => format!(
            "the mail floor is {mail_ms} ms of Unix time, {ahead_ms} ms after this clock's {now_ms}: a \
             stream retired while a clock was ahead, or this clock is behind; set the clock right \
             before anything else"
        ),
    }
}

fn cost(mail_ms: u64) -> String {
    format!(
        "Lowered to this instant, it forgets which streams retired early: what they admitted may be \
         admitted once more, as mail and as live traffic, as long as its proof or its mail lives, \
         which is until {mail_ms} ms of Unix time at the latest. Left as it is, it costs the mail \
         that is spent before that instant, and nothing else once a fresh link confirms the clock."
    )
}

fn ended(floor: &Floor, reset: bool, output: &Output) -> Option<String> {
    let cost = floor.cost.as_deref()?;
    let ended = if reset {
        format!("lowered to {} ms of Unix time", floor.mail_ms)
    } else {
        let overlane = &output.overlane;
        format!("nothing was changed; to do it: {overlane} replay floor --reset")
    };
    Some(format!("{cost}\n{ended}"))
}
