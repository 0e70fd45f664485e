//! `receipt verify`, and what `send --receipt` shows.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use overlane_core::Fault;
use overlane_core::receipt::{self, AdmissionReceipt, RECEIPT_MAX_BYTES};
use overlane_core::wire::cbor::{from_slice, to_vec};
use serde_json::{Value, json};

use super::output::{Done, Failure, Output};

/// Checks a receipt that was kept; needs no node and no network.
pub(super) fn verify(file: &Path, output: &Output) -> Result<Done, Failure> {
    let failed = |cause: std::io::Error| {
        Failure::new(
            "cli/read",
            Fault::Usage,
            format!("read {}: {cause}", file.display()),
        )
    };
    let opened = File::open(file).map_err(failed)?;
    let mut bytes = Vec::new();
    let most = RECEIPT_MAX_BYTES as u64 + 1;
    opened.take(most).read_to_end(&mut bytes).map_err(failed)?;
    let signed = read(&bytes)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = since.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX));
    let verified = receipt::verify(signed, now_ms)?;
    output.answer(&as_json(&verified), |_| {
        format!("a receipt of {}", in_words(&verified))
    })?;
    Ok(Done::Yes)
}

/// Keeps a receipt in a file.
pub(super) fn write(file: &Path, receipt: &AdmissionReceipt) -> Result<(), Failure> {
    fs::write(file, to_vec(receipt)).map_err(|cause| {
        Failure::new(
            "cli/write",
            Fault::Usage,
            format!("write {}: {cause}", file.display()),
        )
    })
}

/// A receipt as the node gave it.
pub(super) fn read_hex(text: &str) -> Result<AdmissionReceipt, Failure> {
    read(&hex::decode(text).unwrap_or_default())
}

fn read(bytes: &[u8]) -> Result<AdmissionReceipt, Failure> {
    from_slice(bytes).map_err(|cause| {
        let message = format!("this is no receipt: {cause}");
        Failure::new("receipt/form", Fault::PeerMisbehaved, message)
    })
}

/// What it says.
pub(super) fn as_json(receipt: &AdmissionReceipt) -> Value {
    let subject = receipt.subject();
    json!({
        "destination": receipt.signer().to_string(),
        "stream": subject.stream.to_string(),
        "sequence": subject.sequence,
        "digest": subject.digest.to_string(),
        "verdict": subject.entered.word(),
        "durable_ms": subject.durable_ms,
        "signed_ms": receipt.life().issued_ms,
        "delegation": receipt.delegation().digest().to_string(),
    })
}

/// The same, in a line.
pub(super) fn in_words(receipt: &AdmissionReceipt) -> String {
    let subject = receipt.subject();
    format!(
        "{}: admitted ({}) as sequence {} of {}, durable at {}, digest {}",
        receipt.signer(),
        subject.entered.word(),
        subject.sequence,
        subject.stream,
        overlane_node::api::instant(subject.durable_ms),
        subject.digest
    )
}
