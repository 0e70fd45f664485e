//! Records, for people and for programs.

use std::collections::BTreeMap;

use overlane_core::identity::Verified as Checked;
use overlane_core::replay::Bad;
use overlane_core::replay::record::Record;
use overlane_core::store::RecordName;
use overlane_core::transaction::ForkEvidence;
use overlane_core::wire::cbor::from_slice;
use overlane_storage_native::StoreSummary;
use serde::Serialize;
use serde_json::{Value, json};

/// A record in one line.
#[derive(Serialize)]
pub(super) struct RecordLine {
    pub(super) record: String,
    /// `restores`, or what is wrong: `torn`, `corrupt`, `unreadable`, `foreign`, `missing`.
    pub(super) state: &'static str,
    pub(super) table: Option<&'static str>,
    pub(super) stream: Option<String>,
    /// How many batches have written it.
    pub(super) version: Option<u64>,
    /// What is wrong, in words.
    pub(super) cause: Option<String>,
}

impl RecordLine {
    pub(super) fn of(name: RecordName, record: &Result<Record, Bad>) -> Self {
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

    pub(super) fn in_words(&self) -> String {
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
pub(super) fn full(name: RecordName, record: &Result<Record, Bad>) -> Value {
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
pub(super) fn indented(full: &Value) -> String {
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

/// What verifying a whole store found.
#[derive(Serialize)]
pub(super) struct Verified {
    kind: &'static str,
    path: String,
    records: usize,
    held_bytes: u64,
    budget_bytes: u64,
    foreign_entries: usize,
    cleared_kept: usize,
    /// Records that restore, by table.
    restores: BTreeMap<&'static str, usize>,
    /// Records that do not.
    pub(super) bad: Vec<RecordLine>,
}

impl Verified {
    pub(super) fn new(summary: &StoreSummary) -> Self {
        Self {
            kind: summary.kind.name(),
            path: summary.folder.display().to_string(),
            records: summary.records,
            held_bytes: summary.held_bytes,
            budget_bytes: summary.budget_bytes,
            foreign_entries: summary.foreign_entries,
            cleared_kept: summary.cleared_kept,
            restores: BTreeMap::new(),
            bad: Vec::new(),
        }
    }

    pub(super) fn count(&mut self, name: RecordName, record: &Result<Record, Bad>) {
        match record {
            Ok(record) => match unverified(record) {
                None => *self.restores.entry(record.id().table().name()).or_default() += 1,
                Some(cause) => self.bad.push(RecordLine {
                    state: "corrupt",
                    cause: Some(format!("corrupt: {cause}")),
                    ..RecordLine::of(name, &Ok(record.clone()))
                }),
            },
            Err(_) => self.bad.push(RecordLine::of(name, record)),
        }
    }

    pub(super) fn in_words(&self, overlane: &str) -> String {
        let Self {
            kind,
            path,
            records,
            held_bytes,
            budget_bytes,
            foreign_entries,
            cleared_kept,
            restores,
            bad,
        } = self;
        let mut text = format!(
            "{kind} store in {path}: {records} records, {held_bytes} of {budget_bytes} bytes"
        );
        for (table, count) in restores {
            text += &format!("\n  {count:>6} {table} records restore");
        }
        if *foreign_entries > 0 {
            text += &format!(
                "\n  {foreign_entries:>6} entries of its folder are nobody's, and left alone"
            );
        }
        if *cleared_kept > 0 {
            text += &format!("\n  {cleared_kept:>6} cleared records are kept aside");
        }
        if bad.is_empty() {
            return text + "\nevery record restores";
        }
        for line in bad {
            text += &format!("\n{}", line.in_words());
        }
        let count = bad.len();
        text + &format!(
            "\n{count} do not restore; each refuses its own stream and no other, until: {overlane} replay clear NAME"
        )
    }
}

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
