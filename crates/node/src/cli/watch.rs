//! `watch`: messages as they are admitted.

use std::fs;
use std::path::{Path, PathBuf};
use std::pin::pin;

use axum::http::Method;
use overlane_core::Fault;
use overlane_node::api::{
    ClassName, Client, ClientError, EventLine, Lines, TakeRequest, TakenMessage,
};
use overlane_node::home::Home;
use serde::Serialize;

use super::args::Watch;
use super::ask;
use super::output::{Done, Failure, Output};

/// Takes messages and shows them, until the count is reached or the node ends.
pub(super) fn watch(home: &Home, watch: &Watch, output: &Output) -> Result<Done, Failure> {
    let client = Client::of(home);
    ask(async {
        let failed = |error: ClientError| Failure::of_daemon(&error);
        let mut events = client.lines("/v1/watch").await.map_err(failed)?;
        let begun = events.next().await.map_err(failed)?;
        if let (Some(begun), true) = (&begun, watch.events) {
            show(begun, output)?;
        }
        let Some(EventLine::Watching { watch: Some(right) }) = begun else {
            return ended(watch);
        };
        // One message at a time: what is not shown any more is not taken either.
        let asked = TakeRequest { watch: right };
        let take = || client.call(Method::POST, "/v1/take", &asked);
        let mut taken = pin!(take());
        let mut left = watch.count;
        while left != Some(0) {
            tokio::select! {
                message = &mut taken => {
                    let message: Option<TakenMessage> = match message {
                        Ok(message) => message,
                        Err(error) if ended_before(&error, &mut events).await => None,
                        Err(error) => return Err(failed(error)),
                    };
                    let Some(message) = message else { return ended(watch) };
                    let message = Shown::of(message, watch.save.as_deref())?;
                    output.answer(&message, message_in_words)?;
                    left = left.map(|left| left - 1);
                    taken.set(take());
                }
                event = events.next::<EventLine>() => match event.map_err(failed)? {
                    Some(event) if watch.events => show(&event, output)?,
                    Some(_) => {}
                    None => return ended(watch),
                }
            }
        }
        Ok(Done::Yes)
    })
}

/// Whether a request failed only because the node had been told to stop, and took no more: then
/// it ends its events in order, and one that was killed does not.
async fn ended_before(error: &ClientError, events: &mut Lines) -> bool {
    if matches!(error, ClientError::Refused(_)) {
        return false;
    }
    loop {
        match events.next::<EventLine>().await {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// The node ended in order; a count that was asked for was not reached.
fn ended(watch: &Watch) -> Result<Done, Failure> {
    Ok(if watch.count.is_some() {
        Done::No
    } else {
        Done::Yes
    })
}

fn show(event: &EventLine, output: &Output) -> Result<(), Failure> {
    if output.json {
        return output.answer(event, |_| String::new());
    }
    match event_in_words(event) {
        Some(words) => output.line(&words),
        None => Ok(()),
    }
}

/// A body longer than this is shown by its beginning, and saved where that was asked for.
const BODY_SHOWN_MAX_BYTES: usize = 4 * 1024;

/// How many characters of such a body are shown.
const BEGINNING_CHARS: usize = 64;

/// A message as it is shown.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    message: TakenMessage,
    /// How long the body is.
    body_bytes: usize,
    /// Where the body was saved; it is then in no other field.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved: Option<String>,
}

impl Shown {
    fn of(mut message: TakenMessage, save: Option<&Path>) -> Result<Self, Failure> {
        // Two digits a byte.
        let body_bytes = message.body.len() / 2;
        let mut saved = None;
        if let Some(folder) = save.filter(|_| body_bytes > BODY_SHOWN_MAX_BYTES) {
            saved = Some(save_body(&message, folder)?.display().to_string());
            message.body = String::new();
            message.text = None;
        }
        Ok(Self {
            message,
            body_bytes,
            saved,
        })
    }
}

/// Writes a body under the name of its digest, which no stranger chooses.
fn save_body(message: &TakenMessage, folder: &Path) -> Result<PathBuf, Failure> {
    let path = folder.join(format!("{}.body", message.digest));
    let unwritable = |cause: String| {
        let message = format!("write {}: {cause}", path.display());
        Failure::new("cli/write", Fault::Usage, message)
    };
    let body = hex::decode(&message.body).map_err(|cause| unwritable(cause.to_string()))?;
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, body));
    written.map_err(|cause| unwritable(cause.to_string()))?;
    Ok(path)
}

fn message_in_words(shown: &Shown) -> String {
    let Shown {
        message,
        body_bytes,
        saved,
    } = shown;
    let TakenMessage {
        origin,
        class,
        sequence,
        verdict,
        sealed,
        namespace,
        text,
        body,
        ..
    } = message;
    let about = namespace
        .as_ref()
        .map_or(String::new(), |name| format!("/{name}"));
    // Control characters of a stranger's stay off this terminal.
    let long = *body_bytes > BODY_SHOWN_MAX_BYTES;
    let shown = if long { BEGINNING_CHARS } else { usize::MAX };
    let says = match (saved, text) {
        (Some(path), _) => format!("{body_bytes} bytes, saved as {path}"),
        (None, Some(text)) => text
            .chars()
            .take(shown)
            .collect::<String>()
            .escape_debug()
            .to_string(),
        (None, None) => format!("0x{}", body.chars().take(shown).collect::<String>()),
    };
    let says = match (saved, long) {
        (None, true) => format!("{says}… {body_bytes} bytes (--save DIR saves them)"),
        _ => says,
    };
    let sealed = match (sealed, class) {
        (true, _) => ", sealed",
        (false, ClassName::Application) => ", plain",
        (false, _) => "",
    };
    format!(
        "{origin} {class}{} #{sequence} {verdict}{sealed}: {says}",
        about.escape_debug()
    )
}

/// `None` for what a message's own line says already.
fn event_in_words(event: &EventLine) -> Option<String> {
    Some(match event {
        EventLine::Watching { .. }
        | EventLine::Admitted { .. }
        | EventLine::SendProgress { .. } => return None,
        EventLine::LinkUp { peer, .. } => format!("-- linked to {peer}"),
        EventLine::LinkDown { peer, reason, .. } => format!("-- no link to {peer}: {reason}"),
        EventLine::Refused {
            peer,
            class,
            error,
            message,
            ..
        } => format!("-- refused from {peer}, {class}: {message} ({error})"),
        EventLine::MailWaits { origin, digest } => {
            format!("-- mail {digest} of {origin} waits: `overlane inbox take`")
        }
        EventLine::MailLost {
            origin,
            digest,
            error,
        } => format!("-- mail {digest} of {origin} can be admitted no more: {error}"),
        EventLine::MailEnded {
            destination,
            digest,
            outcome,
            by,
        } => format!("-- mail {digest} for {destination} was {outcome}, says {by}"),
        EventLine::MailHolds { owner, mails } => format!("-- holds {mails} mails for {owner}"),
        EventLine::MailHolders { holders } => match holders.as_slice() {
            [] => "-- nobody holds mail for this node".to_owned(),
            holders => format!("-- mail for this node is held by {}", holders.join(", ")),
        },
        EventLine::Unreachable {
            stream,
            sequence,
            error,
            ..
        } => format!("-- {sequence} of {stream} does not arrive: {error}"),
        EventLine::SessionLost { with, .. } => {
            format!("-- {with} does not know its session any more")
        }
        EventLine::StoreFailed { error, message } => {
            format!("-- store failed: {message} ({error})")
        }
        EventLine::Missed { count } => format!("-- {count} events missed"),
    })
}
