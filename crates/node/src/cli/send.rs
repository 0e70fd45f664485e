//! `send`: signs a message, or offers signed bytes again.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use axum::http::Method;
use indicatif::{ProgressBar, ProgressStyle};
use overlane_core::Fault;
use overlane_core::mail::MAIL_DATA_MAX_BYTES;
use overlane_core::seal::SEALED_OVERHEAD_BYTES;
use overlane_core::wire::bounds::{
    DATA_MAX_BYTES, FRAME_MAX_BYTES, MESSAGE_MAX_BYTES, NAMESPACE_MAX_BYTES,
};
use overlane_node::api::{
    ArrivedReport, ClassName, Client, ClientError, OfferAgainRequest, SendOutcome, SendReceipt,
    SendRequest, UploadLine, UploadRequest,
};
use overlane_node::home::Home;
use serde::Serialize;
use serde_json::Value;

use super::args::Send;
use super::ask;
use super::output::{Done, Failure, Output};
use super::receipts;
use super::waits::Waits;
use overlane_node::api::instant;

#[derive(Serialize)]
struct Sent {
    stream: String,
    sequence: u64,
    digest: String,
    kept: Option<String>,
    disturbed: bool,
    arrived: Option<ArrivedReport>,
    outcome: Option<SendOutcome>,
    /// How the destination admitted it, if that was asked for and its receipt came.
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt_file: Option<String>,
}

/// What a message and sealing it add to its body at most.
const BODY_HEAD_MAX_BYTES: usize = NAMESPACE_MAX_BYTES + 16 + SEALED_OVERHEAD_BYTES;

const ARRIVAL: &str = "; that is not yet its arrival: what its destination says of it, shows there: \
                       overlane watch --events";

const UNANSWERED: &str = "\nA neighbour took it, but its destination does not answer, and nobody says why: it may be lost";

const TOOK_IN_SILENCE: &str = "\nThe link took it, but nothing was heard of its peer for some seconds: it may be lost. Bytes \
                               that --keep kept can be offered again (--signed)";

/// Sends.
pub(super) fn send(home: &Home, send: Send, output: &Output) -> Result<Done, Failure> {
    let keep = send.keep.as_deref().map(Keep::open).transpose()?;
    let receipt = match &send.signed {
        Some(file) => offer_again(home, file, &send),
        None => sign(home, &send, output),
    };
    let receipt = match (receipt, keep) {
        (Ok(receipt), Some(keep)) => keep.write(&receipt).map(|()| receipt),
        (Err(failure), Some(keep)) => {
            keep.forget();
            Err(failure)
        }
        (receipt, None) => receipt,
    }?;
    let signed = receipt
        .receipt
        .as_deref()
        .map(receipts::read_hex)
        .transpose()?;
    let file = send
        .receipt
        .as_deref()
        .filter(|file| file.as_os_str() != "-");
    if let (Some(signed), Some(file)) = (&signed, file) {
        receipts::write(file, signed)?;
    }
    let missing = send.receipt.is_some() && signed.is_none();
    let sent = Sent {
        receipt_file: signed
            .as_ref()
            .and(file)
            .map(|file| file.display().to_string()),
        receipt: signed.as_ref().map(receipts::as_json),
        stream: receipt.stream,
        sequence: receipt.sequence,
        digest: receipt.digest,
        kept: send.keep.as_ref().map(|path| path.display().to_string()),
        disturbed: receipt.disturbed,
        arrived: receipt.arrived,
        outcome: receipt.outcome,
    };
    if let Some(ArrivedReport::Refused(refusal)) = &sent.arrived {
        return Err(Failure::of_refusal(refusal));
    }
    let done = if send.signed.is_some() {
        "offered again"
    } else {
        "signed"
    };
    if let Some(failure) = undelivered(&sent, done) {
        return Err(failure);
    }
    output.answer(&sent, |sent| {
        let mut text = format!(
            "{done} as sequence {} of stream {}\n  digest  {}",
            sent.sequence, sent.stream, sent.digest
        );
        if let Some(kept) = &sent.kept {
            text += &format!("\n  kept    {kept}");
        }
        if let Some(receipt) = &signed {
            text += &format!("\n  receipt {}", receipts::in_words(receipt));
            if let Some(file) = &sent.receipt_file {
                text += &format!("\n          kept in {file}");
            }
            return text;
        }
        text += &match &sent.arrived {
            Some(arrived) => arrived_in_words(arrived),
            None => in_words(sent),
        };
        if missing {
            text += &format!("\nNo receipt came within {} s", send.wait);
        }
        text
    })?;
    Ok(if missing { Done::No } else { Done::Yes })
}

/// Where the message is.
fn arrived_in_words(arrived: &ArrivedReport) -> String {
    match arrived {
        ArrivedReport::Delivered => "\ndelivered: its destination has admitted it".to_owned(),
        ArrivedReport::Held { by } => {
            if let [hold] = &by[..]
                && hold.here
            {
                return format!(
                    "\nheld here until {}: its destination does not answer, and no other node is there to hold \
                     it.\nIt is handed over when its destination comes and this node runs: keep it running",
                    instant(hold.until_ms)
                );
            }
            let mut text = String::from("\nheld: its destination does not answer");
            for hold in by {
                let whose = if hold.here { "this node" } else { &hold.did };
                text += &format!("\n  by {whose} until {}", instant(hold.until_ms));
            }
            text
        }
        ArrivedReport::Refused(refusal) => format!("\nrefused: {}", refusal.message),
    }
}

/// Whether a message of so many bytes is to be held where its destination does not answer: only sealed ones
/// of a certain size are.
fn hold(send: &Send, bytes: usize) -> bool {
    let fits = bytes + BODY_HEAD_MAX_BYTES <= MAIL_DATA_MAX_BYTES;
    let sealed = !send.plain && matches!(send.class, ClassName::Application);
    sealed && fits && !send.no_hold
}

/// What became of a message that is not known not to arrive.
fn in_words(sent: &Sent) -> String {
    match &sent.outcome {
        Some(SendOutcome::PassedOn { hops }) => {
            format!(
                "\nA neighbour took it, and its destination is there, {hops} hops away{ARRIVAL}"
            )
        }
        Some(SendOutcome::Unanswered) => format!("{UNANSWERED}{ARRIVAL}"),
        _ if sent.disturbed => TOOK_IN_SILENCE.to_owned(),
        _ => format!("\nThe link took it{ARRIVAL}"),
    }
}

/// The failure of a message that a node on its way says does not arrive.
fn undelivered(sent: &Sent, done: &str) -> Option<Failure> {
    let Some(SendOutcome::Unreachable { error, reporter }) = &sent.outcome else {
        return None;
    };
    let kept = sent.kept.as_deref();
    let kept = kept.map_or_else(String::new, |kept| format!(", kept in {kept}"));
    let message = format!(
        "{done} as sequence {} of stream {} (digest {}{kept}), and it does not arrive: its way ends at {reporter}",
        sent.sequence, sent.stream, sent.digest
    );
    Some(Failure::reported(error, Fault::Unreachable, message))
}

fn sign(home: &Home, send: &Send, output: &Output) -> Result<SendReceipt, Failure> {
    let body = match (&send.text, &send.file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(file)) => read(file, MESSAGE_MAX_BYTES)?,
        (None, None) => read_body()?,
    };
    // What surrounds a body may be what makes a message too large for one frame.
    if body.len() + BODY_HEAD_MAX_BYTES > DATA_MAX_BYTES {
        return upload(home, send, &body, output);
    }
    let holds = hold(send, body.len());
    let asked = SendRequest {
        destination: send.did.clone().unwrap_or_default(),
        namespace: send.namespace.clone(),
        class: send.class,
        body: hex::encode(body),
        plain: send.plain,
        hold: holds,
        wait_ms: wait_ms(send),
        receipt_ms: receipt_ms(send),
    };
    let answered = || format!("{} says that it admitted the message", asked.destination);
    let awaited = holds.then(answered);
    call(home, "/v1/send", &asked, Waits::of(send, awaited))
}

/// Sends a body that travels in chunks, with a bar on a terminal.
fn upload(home: &Home, send: &Send, body: &[u8], output: &Output) -> Result<SendReceipt, Failure> {
    if send.keep.is_some() {
        let message = format!(
            "--keep keeps messages of one frame: at most {} bytes of body",
            DATA_MAX_BYTES - BODY_HEAD_MAX_BYTES
        );
        return Err(Failure::new("cli/keep_too_large", Fault::Usage, message));
    }
    let asked = UploadRequest {
        destination: send.did.clone().unwrap_or_default(),
        namespace: send.namespace.clone(),
        class: send.class,
        plain: send.plain,
        wait_ms: wait_ms(send),
        receipt_ms: receipt_ms(send),
    };
    let client = Client::of(home);
    let bar = match output.json {
        true => ProgressBar::hidden(),
        false => ProgressBar::new(body.len() as u64).with_style(bar_style()),
    };
    let sent = ask(Waits::of(send, None).said(&client, async {
        let failed = |error: ClientError| Failure::of_daemon(&error);
        let mut steps = client.upload(&asked, body).await.map_err(failed)?;
        loop {
            match steps.next::<UploadLine>().await.map_err(failed)? {
                Some(UploadLine::Progress {
                    placed_bytes,
                    total_bytes,
                }) => {
                    bar.set_length(total_bytes);
                    bar.set_position(placed_bytes);
                }
                Some(UploadLine::Sent(receipt)) => return Ok(receipt),
                Some(UploadLine::Refused(refusal)) => {
                    return Err(Failure::of_daemon(&ClientError::Refused(refusal)));
                }
                None => {
                    let message = "the node ended before the message was in its lane";
                    return Err(Failure::new(
                        "cli/upload_ended",
                        Fault::Unreachable,
                        message,
                    ));
                }
            }
        }
    }));
    bar.finish_and_clear();
    sent
}

fn bar_style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{bytes} of {total_bytes}, {eta} to go {wide_bar}");
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn offer_again(home: &Home, file: &Path, send: &Send) -> Result<SendReceipt, Failure> {
    let asked = OfferAgainRequest {
        signed: hex::encode(read(file, FRAME_MAX_BYTES)?),
        wait_ms: wait_ms(send),
        receipt_ms: receipt_ms(send),
    };
    call(home, "/v1/offer_again", &asked, Waits::of(send, None))
}

fn call(
    home: &Home,
    path: &str,
    asked: &impl Serialize,
    waits: Waits,
) -> Result<SendReceipt, Failure> {
    let client = Client::of(home);
    ask(async {
        let question = client.call(Method::POST, path, asked);
        let answer = waits.said(&client, question).await;
        answer.map_err(|error| Failure::of_daemon(&error))
    })
}

fn receipt_ms(send: &Send) -> u64 {
    send.receipt.as_ref().map_or(0, |_| wait_ms(send).max(1))
}

fn wait_ms(send: &Send) -> u64 {
    u64::from(send.wait) * 1_000
}

/// What the file holds, if it is no longer than that.
pub(super) fn read(path: &Path, max_bytes: usize) -> Result<Vec<u8>, Failure> {
    let file = File::open(path).map_err(unreadable(path))?;
    read_from(file, path, max_bytes)
}

/// The body from standard input. Nothing there is more likely a closed input than a message.
fn read_body() -> Result<Vec<u8>, Failure> {
    let name = Path::new("standard input");
    let body = read_from(io::stdin().lock(), name, MESSAGE_MAX_BYTES)?;
    if body.is_empty() {
        let message = "there is no TEXT, no --file, and nothing on standard input; for an empty \
                       message, TEXT is \"\"";
        return Err(Failure::new("cli/no_body", Fault::Usage, message));
    }
    Ok(body)
}

fn read_from(from: impl Read, name: &Path, max_bytes: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX);
    let mut from = from.take(limit.saturating_add(1));
    from.read_to_end(&mut bytes).map_err(unreadable(name))?;
    if bytes.len() > max_bytes {
        let message = format!("{} holds more than {max_bytes} bytes", name.display());
        return Err(Failure::new(
            "cli/too_large",
            Fault::RefusedByBound,
            message,
        ));
    }
    Ok(bytes)
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> Failure {
    move |cause| {
        let message = format!("read {}: {cause}", path.display());
        Failure::new("cli/read", Fault::Usage, message)
    }
}

/// The file that is to keep the signed bytes. It is opened before anything is signed, so that
/// nothing is sent whose bytes then cannot be kept; and written only then, so that a send that
/// fails leaves an earlier file as it was.
struct Keep<'a> {
    path: &'a Path,
    file: File,
    was_there: bool,
}

impl<'a> Keep<'a> {
    fn open(path: &'a Path) -> Result<Self, Failure> {
        let was_there = fs::symlink_metadata(path).is_ok();
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|cause| unwritable(path, &cause, ""))?;
        Ok(Self {
            path,
            file,
            was_there,
        })
    }

    fn write(mut self, receipt: &SendReceipt) -> Result<(), Failure> {
        let bytes = hex::decode(&receipt.signed).map_err(|cause| {
            let cause = std::io::Error::other(cause);
            unwritable(self.path, &cause, "; the message was sent")
        })?;
        let written = self
            .file
            .set_len(0)
            .and_then(|()| self.file.write_all(&bytes));
        written.map_err(|cause| unwritable(self.path, &cause, "; the message was sent"))
    }

    fn forget(self) {
        if !self.was_there {
            // An empty file that stays harms nobody.
            let _ = fs::remove_file(self.path);
        }
    }
}

fn unwritable(path: &Path, cause: &io::Error, what_then: &str) -> Failure {
    let message = format!("write {}: {cause}{what_then}", path.display());
    Failure::new("cli/write", Fault::Usage, message)
}
