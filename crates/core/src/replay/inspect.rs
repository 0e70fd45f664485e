//! Records, for people and for programs: the words of `overlane replay`, and of a page that looks into
//! a browser's store.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::record::Record;
use super::unrestorable::Bad;
use crate::identity::Verified as Checked;
use crate::store::RecordName;
use crate::transaction::ForkEvidence;
use crate::wire::cbor::from_slice;

/// A record in one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordLine {
    /// Its name.
    pub record: String,
    /// `restores`, or what is wrong: `torn`, `corrupt`, `unreadable`, `foreign`, `missing`.
    pub state: &'static str,
    /// Its table, where it restores.
    pub table: Option<&'static str>,
    /// Its stream, where it restores and has one.
    pub stream: Option<String>,
    /// How many batches have written it.
    pub version: Option<u64>,
    /// What is wrong, in words.
    pub cause: Option<String>,
}

impl RecordLine {
    /// The line of what was found under `name`.
    pub fn of(name: RecordName, record: &Result<Record, Bad>) -> Self {
        let good = record.as_ref().ok();
        let bad = record.as_ref().err();
        Self {
            record: name.to_string(),
            state: bad.map_or("restores", Bad::name),
            table: good.map(|record| record.id().table().name()),
            stream: good.and_then(|record| record.id().stream().map(ToString::to_string)),
            version: good.map(Record::version),
            cause: bad.map(ToString::to_string),
        }
    }

    /// The line, in words.
    pub fn in_words(&self) -> String {
        let Self {
            record,
            table,
            stream,
            cause,
            ..
        } = self;
        let table = table.unwrap_or("?");
        let says = cause
            .as_ref()
            .or(stream.as_ref())
            .map_or("", String::as_str);
        let mark = if cause.is_some() { "BAD " } else { "" };
        format!("{record}  {table:<8}  {mark}{says}")
            .trim_end()
            .to_owned()
    }
}

/// Everything a record says.
pub fn full(name: RecordName, record: &Result<Record, Bad>) -> Value {
    let mut full = match record {
        Err(_) => json!({}),
        Ok(Record::Receiver(record)) => {
            let window = &record.window;
            let admitted = window.admitted().map(
                |(sequence, digest)| json!({"sequence": sequence, "digest": digest.to_string()}),
            );
            let custody = record.custody.iter().map(|entry| {
                json!({
                    "sequence": entry.sequence,
                    "digest": entry.digest.to_string(),
                    "spent_ms": entry.spent_ms,
                })
            });
            json!({
                "high": window.high(),
                "lowest": window.lowest(),
                "admitted": admitted.collect::<Vec<_>>(),
                "custody": custody.collect::<Vec<_>>(),
                "introducer": record.introducer.to_string(),
                "spent_ms": record.spent_ms,
            })
        }
        Ok(Record::Sender(record)) => json!({"end": record.end, "spent_ms": record.spent_ms}),
        Ok(Record::Floor(record)) => {
            json!({"mail_ms": record.mail_ms, "sender_end": record.sender_end})
        }
        Ok(Record::Fork(record)) => {
            json!({"sequence": record.sequence, "evidence_bytes": record.evidence.len()})
        }
    };
    let line = serde_json::to_value(RecordLine::of(name, record));
    if let (Some(full), Ok(Value::Object(line))) = (full.as_object_mut(), line) {
        full.extend(line);
    }
    full
}

/// The fields of an object, one a line.
pub fn indented(full: &Value) -> String {
    let said = ["record", "state", "table", "stream", "cause"];
    let mut lines = Vec::new();
    for (field, value) in full.as_object().into_iter().flatten() {
        match value {
            Value::Null => {}
            _ if said.contains(&field.as_str()) => {}
            Value::Array(entries) => {
                lines.push(format!("  {field:<14} {}", entries.len()));
                lines.extend(entries.iter().map(|entry| format!("    {}", flat(entry))));
            }
            value => lines.push(format!("  {field:<14} {}", flat(value))),
        }
    }
    lines.join("\n")
}

fn flat(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| format!("{name} {}", flat(value)));
            fields.collect::<Vec<_>>().join("  ")
        }
        value => value.to_string(),
    }
}

/// Figures of a store, as it tells them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Which kind of store it is.
    pub kind: &'static str,
    /// Where it is.
    pub path: String,
    /// How many records it holds or has witnessed, bad ones among them.
    pub records: usize,
    /// What it holds and may hold, with its unit: what the store's bound is counted in.
    #[serde(flatten)]
    pub bound: Bound,
    /// Entries that are nobody's.
    pub foreign_entries: usize,
    /// Records that were cleared and are kept aside.
    pub cleared_kept: usize,
}

/// What a store's bound is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Bound {
    /// A folder's, in bytes.
    Bytes {
        /// What counts against the budget.
        held_bytes: u64,
        /// The budget.
        budget_bytes: u64,
    },
    /// An object store's, in records.
    Records {
        /// How many it takes.
        records_max: u64,
    },
}

impl Figures {
    fn in_words(&self) -> String {
        let Self {
            kind,
            path,
            records,
            bound,
            foreign_entries,
            cleared_kept,
        } = self;
        let (mut text, entries) = match bound {
            Bound::Bytes {
                held_bytes,
                budget_bytes,
            } => (
                format!(
                    "{kind} store in {path}: {records} records, {held_bytes} of {budget_bytes} bytes"
                ),
                "entries of its folder",
            ),
            Bound::Records { records_max } => (
                format!("{kind} store in {path}: {records} of {records_max} records"),
                "rows",
            ),
        };
        if *foreign_entries > 0 {
            text += &format!("\n  {foreign_entries:>6} {entries} are nobody's, and left alone");
        }
        if *cleared_kept > 0 {
            text += &format!("\n  {cleared_kept:>6} cleared records are kept aside");
        }
        text
    }
}

/// What verifying a whole store found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verified {
    #[serde(flatten)]
    figures: Figures,
    /// Records that restore, by table.
    restores: BTreeMap<&'static str, usize>,
    /// Records that do not.
    pub bad: Vec<RecordLine>,
}

impl Verified {
    /// Nothing is verified yet.
    pub const fn new(figures: Figures) -> Self {
        Self {
            figures,
            restores: BTreeMap::new(),
            bad: Vec::new(),
        }
    }

    /// Counts what was found under `name`.
    pub fn count(&mut self, name: RecordName, record: &Result<Record, Bad>) {
        match record {
            Ok(record) => match unverified(record) {
                None => {
                    let count = self.restores.entry(record.id().table().name()).or_default();
                    *count = count.saturating_add(1);
                }
                Some(cause) => self.bad.push(RecordLine {
                    state: "corrupt",
                    cause: Some(format!("corrupt: {cause}")),
                    ..RecordLine::of(name, &Ok(record.clone()))
                }),
            },
            Err(_) => self.bad.push(RecordLine::of(name, record)),
        }
    }

    /// In words; `clear` is how to let a stream start again.
    pub fn in_words(&self, clear: &str) -> String {
        let Self {
            figures,
            restores,
            bad,
        } = self;
        let mut text = figures.in_words();
        for (table, count) in restores {
            text += &format!("\n  {count:>6} {table} records restore");
        }
        if bad.is_empty() {
            return text + "\nevery record restores";
        }
        for line in bad {
            text += &format!("\n{}", line.in_words());
        }
        let count = bad.len();
        text + &format!(
            "\n{count} do not restore; each refuses its own stream and no other, until: {clear}"
        )
    }
}

/// What it costs to let the stream of this record start again.
pub fn cost(record: &Result<Record, Bad>) -> String {
    match record {
        Ok(Record::Receiver(record)) => format!(
            "Its stream starts again from First. What it admitted may be admitted once more, as \
             long as its proof lives: none of it after {} ms of Unix time.",
            record.spent_ms
        ),
        Ok(Record::Sender(_)) => SENDER.to_owned(),
        Ok(Record::Floor(_)) => String::from(
            "Mail of streams that were retired may be admitted once more, and a sending stream \
             that was retired may sign used sequences, if this clock was ever wrong by more than \
             their lives.",
        ),
        Ok(Record::Fork(_)) => String::from(
            "The store forgets the evidence of this fork; export it first: overlane replay forks \
             --export DIR. A later fork of the stream is evidenced anew.",
        ),
        Err(_) => format!(
            "What it holds cannot be read, so which stream it is of is not known. If it is a \
             receiver's: the stream starts again from First, and what it admitted may be admitted \
             once more as long as its proof lives. If it is a sender's: {SENDER}"
        ),
    }
}

const SENDER: &str = "The stream goes on above all it signed, as sequences begin at the clock's \
                      instant; only if this clock was set back since, its destination refuses \
                      what it signs, as Stale or as a Fork, and those messages are lost.";

/// What is wrong with an evidence whose record is whole.
fn unverified(record: &Record) -> Option<String> {
    let Record::Fork(record) = record else {
        return None;
    };
    let evidence: Result<ForkEvidence, _> = from_slice(&record.evidence);
    let checked: Result<Checked<ForkEvidence>, String> = evidence
        .map_err(|error| error.to_string())
        .and_then(|evidence| evidence.verify().map_err(|error| error.to_string()));
    checked.err()
}
