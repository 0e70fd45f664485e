//! The thread of a keeper: the one place where its store is touched.
//!
//! Every call of such a store waits for a disk, so none runs on an asynchronous worker. What has
//! gathered while the last transaction was written shares the next: the thread takes in all that is
//! there, up to what the machine holds, before it has it made durable. A machine that panics is one
//! that failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use overlane_core::Did;
use overlane_core::identity::Signer;
use overlane_core::transaction::Data;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::clock::Clock;
use crate::error::NodeError;
use crate::peer::{Heard, Keeper, Now};

/// What goes in to a keeper. How much of it there can be is bounded by the places of messages, by
/// the links, by what the keeper itself says, and by the asks that a node lets wait.
pub(crate) enum Input<A> {
    /// It heard something.
    Heard(Heard),
    /// The node signs with this from now on.
    Signer(Arc<Signer>),
    /// Its user asks for something.
    Ask(A),
    /// End in order.
    End,
}

/// What a keeper wants of the driver.
#[derive(Debug)]
pub(crate) enum Word {
    /// Say this.
    Say { to: Did, data: Data },
    /// The oldest message is taken.
    Took,
    /// Its store failed; it refuses everything from now on.
    Failed { cause: String },
    /// It runs no more.
    Ended,
}

/// The machine on the thread.
pub(crate) trait Machine {
    /// What its user asks for.
    type Ask: Send + 'static;

    /// Takes something in.
    fn handle(&mut self, input: Input<Self::Ask>, now: Now);

    /// Time passed.
    fn handle_timeout(&mut self, now: Now);

    /// When time is to be passed next, by the steady clock.
    fn poll_timeout(&self) -> Option<u64>;

    /// Whether it is to make durable what it holds before it takes more in.
    fn is_full(&self) -> bool;

    /// Makes what it holds durable, and lets go of what waited for that.
    fn flush(&mut self, now: Now);

    /// The next word, until there is none.
    fn poll_word(&mut self) -> Option<Word>;
}

/// Hands what is heard to a keeper, whatever its asks are.
pub(crate) trait Hear: Send {
    /// Whether the keeper still runs.
    fn hear(&self, heard: Heard) -> bool;

    /// It signs with this from now on.
    fn sign_with(&self, signer: Arc<Signer>);

    /// It is to end in order.
    fn end(&self);
}

/// The way in to a keeper.
pub(crate) struct Inlet<A>(mpsc::Sender<Input<A>>);

impl<A> Clone for Inlet<A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<A> Inlet<A> {
    /// Asks for something; whether the keeper still runs. One that ends drops what it was asked.
    pub(crate) fn ask(&self, ask: A) -> bool {
        self.0.send(Input::Ask(ask)).is_ok()
    }
}

impl<A: Send> Hear for Inlet<A> {
    fn hear(&self, heard: Heard) -> bool {
        self.0.send(Input::Heard(heard)).is_ok()
    }

    fn sign_with(&self, signer: Arc<Signer>) {
        // One that ended signs no more.
        let _ = self.0.send(Input::Signer(signer));
    }

    fn end(&self) {
        let _ = self.0.send(Input::End);
    }
}

/// A keeper's thread. Dropping it ends the thread once what is there is durable.
pub(crate) struct KeeperThread {
    inlet: Box<dyn Hear>,
    ended: oneshot::Receiver<()>,
}

impl KeeperThread {
    /// Starts the thread, and opens the machine on it. Its words go to `words`.
    ///
    /// # Errors
    /// [`NodeError`]: no thread, or a machine that does not open.
    pub(crate) async fn start<A: Send + 'static>(
        keeper: Keeper,
        clock: Clock,
        open: impl FnOnce(Now) -> Result<Box<dyn Machine<Ask = A>>, NodeError> + Send + 'static,
        words: UnboundedSender<(Keeper, Word)>,
    ) -> Result<(Self, Inlet<A>), NodeError> {
        let (inlet, inputs) = mpsc::channel();
        let (tell_opened, opened) = oneshot::channel();
        let (tell_ended, ended) = oneshot::channel();
        let thread = thread::Builder::new().name(format!("overlane-{}", keeper.name()));
        let started = thread.spawn(move || {
            match open(clock.now()) {
                Ok(machine) => {
                    if tell_opened.send(Ok(())).is_ok() {
                        run(keeper, machine, clock, &inputs, &words);
                    }
                }
                Err(refused) => drop(tell_opened.send(Err(refused))),
            }
            // The store is closed by now: whoever waits may open it again.
            let _ = tell_ended.send(());
        });
        started.map_err(|cause| NodeError::Thread {
            cause: cause.to_string(),
        })?;
        opened.await.unwrap_or(Err(NodeError::Broken))?;
        let inlet = Inlet(inlet);
        let this = Self {
            inlet: Box::new(inlet.clone()),
            ended,
        };
        Ok((this, inlet))
    }

    /// Whether the keeper still runs.
    pub(crate) fn hear(&self, heard: Heard) -> bool {
        self.inlet.hear(heard)
    }

    /// It signs with this from now on.
    pub(crate) fn sign_with(&self, signer: Arc<Signer>) {
        self.inlet.sign_with(signer);
    }

    /// Waits until all it was given is durable and the store is closed.
    pub(crate) async fn close(mut self) {
        self.inlet.end();
        let _ = (&mut self.ended).await;
    }
}

impl Drop for KeeperThread {
    fn drop(&mut self) {
        self.inlet.end();
    }
}

fn run<A: Send + 'static>(
    keeper: Keeper,
    mut machine: Box<dyn Machine<Ask = A>>,
    clock: Clock,
    inputs: &mpsc::Receiver<Input<A>>,
    words: &UnboundedSender<(Keeper, Word)>,
) {
    let served = catch_unwind(AssertUnwindSafe(|| {
        serve(keeper, machine.as_mut(), clock, inputs, words);
    }));
    if served.is_err() {
        tracing::error!(?keeper, "a keeper broke off: start the node again");
    }
    // Nobody may be left who would hear it.
    let _ = words.send((keeper, Word::Ended));
}

fn serve<A: Send + 'static>(
    keeper: Keeper,
    machine: &mut dyn Machine<Ask = A>,
    clock: Clock,
    inputs: &mpsc::Receiver<Input<A>>,
    words: &UnboundedSender<(Keeper, Word)>,
) {
    loop {
        let now = clock.now();
        let first = match machine.poll_timeout() {
            Some(due_ms) if due_ms <= now.steady_ms => inputs.recv_timeout(Duration::ZERO),
            Some(due_ms) => inputs.recv_timeout(Duration::from_millis(due_ms - now.steady_ms)),
            None => inputs.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let mut next = match first {
            Ok(input) => Some(input),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let now = clock.now();
        machine.handle_timeout(now);
        let mut ends = false;
        while let Some(input) = next {
            if matches!(input, Input::End) {
                ends = true;
                break;
            }
            machine.handle(input, now);
            next = match machine.is_full() {
                true => None,
                false => inputs.try_recv().ok(),
            };
        }
        machine.flush(clock.now());
        while let Some(word) = machine.poll_word() {
            // One whose driver is gone still makes durable what it was given.
            let _ = words.send((keeper, word));
        }
        if ends {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use overlane_core::Did;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    struct Breaks;

    impl Machine for Breaks {
        type Ask = oneshot::Sender<()>;

        fn handle(&mut self, input: Input<Self::Ask>, _: Now) {
            assert!(
                !matches!(input, Input::Heard(_)),
                "a machine that breaks off"
            );
        }

        fn handle_timeout(&mut self, _: Now) {}

        fn poll_timeout(&self) -> Option<u64> {
            None
        }

        fn is_full(&self) -> bool {
            false
        }

        fn flush(&mut self, _: Now) {}

        fn poll_word(&mut self) -> Option<Word> {
            None
        }
    }

    /// Its end is a word like any other: the driver then frees the places of what it was given.
    #[tokio::test]
    async fn a_keeper_that_breaks_off_says_that_it_ended_and_leaves_nobody_waiting() {
        let (words_out, mut words) = unbounded_channel();
        let open = |_| Ok(Box::new(Breaks) as Box<dyn Machine<Ask = _>>);
        let started = KeeperThread::start(Keeper::Groups, Clock::start(), open, words_out);
        let (thread, inlet) = started.await.unwrap();
        assert!(thread.hear(Heard::Linked(Did([7; 20]))));
        let (reply, answer) = oneshot::channel();
        let _ = inlet.ask(reply);
        assert!(matches!(
            words.recv().await,
            Some((Keeper::Groups, Word::Ended))
        ));
        assert!(words.recv().await.is_none());
        assert!(answer.await.is_err(), "it waits for ever");
        thread.close().await;
    }
}
