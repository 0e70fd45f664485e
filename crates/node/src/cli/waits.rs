//! What a command waits for, said on standard error once that takes longer than a moment.

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, Write};
use std::time::Duration;

use overlane_node::api::{Client, LinksReport};
use tokio::time::sleep;

use super::args::Send;

/// How long a command says nothing, and how often it looks again.
const SAID_AFTER: Duration = Duration::from_secs(1);

/// What a send may wait for.
#[derive(Debug)]
pub(super) struct Waits {
    link_s: u16,
    /// What it waits for once there is a link.
    then: Option<String>,
}

impl Waits {
    /// Of this send: a link, and then that.
    pub(super) fn of(send: &Send, then: Option<String>) -> Self {
        let link_s = send.wait;
        Self { link_s, then }
    }

    /// The answer to a question, while what it waits for is said.
    pub(super) async fn said<T>(&self, client: &Client, question: impl Future<Output = T>) -> T {
        let linked = async || {
            let links = client.get::<LinksReport>("/v1/links").await;
            links
                .ok()
                .map(|links| links.links.iter().any(|link| link.up))
        };
        // Whoever closed it does not want to know.
        let say = |words: &str| drop(writeln!(io::stderr(), "{words}"));
        let pause = async || sleep(SAID_AFTER).await;
        tokio::select! {
            answer = question => answer,
            never = self.say(pause, linked, say) => match never {},
        }
    }

    /// Says each thing once, as it begins to be waited for.
    async fn say(
        &self,
        pause: impl AsyncFn(),
        linked: impl AsyncFn() -> Option<bool>,
        say: impl Fn(&str),
    ) -> Infallible {
        let mut said = None;
        loop {
            pause().await;
            let Some(linked) = linked().await else {
                continue;
            };
            if said == Some(linked) {
                continue;
            }
            said = Some(linked);
            match (linked, &self.then) {
                (false, _) => say(&format!(
                    "waiting for a link, at most {} s: none is up",
                    self.link_s
                )),
                (true, Some(then)) => say(&format!("waiting until {then}")),
                (true, None) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::future::{pending, ready};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn what_is_waited_for_is_said_once_and_not_before_it_lasts() {
        let waits = Waits {
            link_s: 10,
            then: Some("it answers".to_owned()),
        };
        let (looks, said) = (Cell::new(0), RefCell::new(Vec::new()));
        let end = Cell::new(0);
        let pause = async || match looks.get() < end.get() {
            true => ready(()).await,
            false => pending().await,
        };
        let look = async || {
            looks.set(looks.get() + 1);
            (looks.get() != 2).then_some(looks.get() > 4)
        };
        let note = |words: &str| said.borrow_mut().push(words.to_owned());
        let mut context = Context::from_waker(Waker::noop());
        let mut until = |count: usize| {
            end.set(count);
            looks.set(0);
            said.borrow_mut().clear();
            let mut telling = pin!(waits.say(pause, look, note));
            assert!(matches!(telling.as_mut().poll(&mut context), Poll::Pending));
            said.borrow().join("; ")
        };
        assert_eq!(until(0), "", "it may be a moment");
        let link = "waiting for a link, at most 10 s: none is up";
        assert_eq!(until(4), link);
        assert_eq!(until(8), format!("{link}; waiting until it answers"));
    }
}
