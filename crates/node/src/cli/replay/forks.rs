//! `replay forks`: evidence that an origin signed twice, listed, exported, checked.

use std::fs;
use std::path::Path;

use overlane_core::Fault;
use overlane_core::replay::record::{EVIDENCE_MAX_BYTES, Record};
use overlane_core::replay::restored;
use overlane_core::store::RecordName;
use overlane_core::transaction::ForkEvidence;
use overlane_core::wire::cbor::from_slice;
use serde::Serialize;

use super::{Done, Failure, Opened, Output};
use crate::cli::send::read;

#[derive(Serialize)]
struct ForkLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<String>,
    stream: String,
    sequence: u64,
    accepted: String,
    offered: String,
    /// Whether the origin signed both; else the accepted one is the reporter's word.
    both_signed: bool,
    reporter: String,
    reported_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

/// Lists the evidence that the store keeps, and exports it if asked to.
pub(super) fn forks(
    opened: &mut Opened,
    export: Option<&Path>,
    output: &Output,
) -> Result<Done, Failure> {
    if let Some(folder) = export {
        fs::create_dir_all(folder).map_err(|cause| unwritable(folder, &cause))?;
    }
    let mut none = true;
    for (name, found) in opened.store.scan()?.records {
        let Ok(Record::Fork(record)) = restored(name, found) else {
            continue;
        };
        none = false;
        let mut line = checked(&record.evidence)?;
        line.record = Some(name.to_string());
        line.file = export
            .map(|folder| write(folder, name, &record.evidence))
            .transpose()?;
        output.answer(&line, ForkLine::in_words)?;
    }
    if none && !output.json {
        output.line("the store keeps no evidence of a fork")?;
    }
    Ok(Done::Yes)
}

/// Checks one exported evidence by its signatures alone.
pub(in crate::cli) fn verify_fork(file: &Path, output: &Output) -> Result<Done, Failure> {
    let line = checked(&read(file, EVIDENCE_MAX_BYTES)?)?;
    output.answer(&line, |line| {
        let proved = if line.both_signed {
            "its origin signed both: whoever holds this file can show it"
        } else {
            "its origin signed the offered one; that the other was accepted is the reporter's word"
        };
        format!("the evidence holds: {proved}\n{}", line.in_words())
    })?;
    Ok(Done::Yes)
}

fn checked(evidence: &[u8]) -> Result<ForkLine, Failure> {
    let evidence: ForkEvidence = from_slice(evidence)?;
    let evidence = evidence.verify()?;
    let fork = evidence.facts();
    Ok(ForkLine {
        record: None,
        stream: fork.stream.to_string(),
        sequence: fork.sequence,
        accepted: fork.accepted.to_string(),
        offered: fork.offered.to_string(),
        both_signed: fork.both_signed,
        reporter: fork.reporter.to_string(),
        reported_ms: fork.reported_ms,
        file: None,
    })
}

impl ForkLine {
    fn in_words(&self) -> String {
        let Self {
            stream,
            sequence,
            accepted,
            offered,
            both_signed,
            reporter,
            reported_ms,
            file,
            ..
        } = self;
        let signed = if *both_signed {
            "both signed"
        } else {
            "the offered one signed"
        };
        let mut text = format!(
            "fork of {stream} at {sequence}, {signed}\n  accepted  {accepted}\n  offered   \
             {offered}\n  reporter  {reporter}, at {reported_ms} ms of Unix time"
        );
        if let Some(file) = file {
            text += &format!("\n  file      {file}");
        }
        text
    }
}

fn write(folder: &Path, name: RecordName, evidence: &[u8]) -> Result<String, Failure> {
    let path = folder.join(format!("{name}.fork"));
    fs::write(&path, evidence).map_err(|cause| unwritable(&path, &cause))?;
    Ok(path.display().to_string())
}

fn unwritable(path: &Path, cause: &std::io::Error) -> Failure {
    let message = format!("write {}: {cause}", path.display());
    Failure::new("cli/write", Fault::Usage, message)
}
