//! `watch`: messages as they are admitted.

use std::pin::pin;

use axum::http::Method;
use overlane_node::api::{Client, ClientError, EventLine, Lines, TakeRequest, TakenMessage};
use overlane_node::home::Home;

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

fn message_in_words(message: &TakenMessage) -> String {
    let TakenMessage {
        origin,
        class,
        sequence,
        verdict,
        namespace,
        text,
        body,
        ..
    } = message;
    let about = namespace
        .as_ref()
        .map_or(String::new(), |name| format!("/{name}"));
    // Control characters of a stranger's stay off this terminal.
    let says = match text {
        Some(text) => text.escape_debug().to_string(),
        None => format!("0x{body}"),
    };
    format!(
        "{origin} {class}{} #{sequence} {verdict}: {says}",
        about.escape_debug()
    )
}

/// `None` for what a message's own line says already.
fn event_in_words(event: &EventLine) -> Option<String> {
    Some(match event {
        EventLine::Watching { .. } | EventLine::Admitted { .. } => return None,
        EventLine::LinkUp { peer, .. } => format!("-- linked to {peer}"),
        EventLine::LinkDown { peer, reason, .. } => format!("-- no link to {peer}: {reason}"),
        EventLine::Refused {
            peer,
            class,
            error,
            message,
            ..
        } => format!("-- refused from {peer}, {class}: {message} ({error})"),
        EventLine::Unreachable {
            stream,
            sequence,
            error,
            ..
        } => format!("-- {sequence} of {stream} does not arrive: {error}"),
        EventLine::StoreFailed { error, message } => {
            format!("-- store failed: {message} ({error})")
        }
        EventLine::Missed { count } => format!("-- {count} events missed"),
    })
}
