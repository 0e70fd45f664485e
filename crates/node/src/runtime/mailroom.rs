//! The one thread that owns the store of mail, and the driver's hands for mail.
//!
//! What is there when the thread looks is handled together and made durable by one flush, so the rate
//! grows with what waits. What waits is bounded by the places that messages of other nodes hold.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;

use overlane_core::{Did, NetworkId, TransactionDigest};
use overlane_relay::log::LogStore;
use tokio::sync::{mpsc as tokio_mpsc, oneshot};

use crate::error::NodeError;
use crate::peer::inbox::{Arrived, Effect, InboxError, Keeper, TakeId, Told, Work};
use crate::peer::{Delivery, SendId};
use crate::policy::Policies;

/// Jobs that share a flush at most.
pub(crate) const GATHERED_MAX: usize = 512;

/// A keeper of mail, whatever its store is.
trait AnyKeeper: Send {
    fn handle(&mut self, work: Work);
    fn flush(&mut self, now_ms: u64) -> Vec<Told>;
}

impl<S: LogStore + Send> AnyKeeper for Keeper<S> {
    fn handle(&mut self, work: Work) {
        Keeper::handle(self, work);
    }

    fn flush(&mut self, now_ms: u64) -> Vec<Told> {
        Keeper::flush(self, now_ms)
    }
}

/// Whose mail it is, and how much is kept.
#[derive(Debug, Clone)]
pub(crate) struct Whose {
    pub(crate) network: NetworkId,
    pub(crate) own: Did,
    pub(crate) mails_max: u64,
    pub(crate) policies: Policies,
    pub(crate) now_ms: u64,
}

type Opened = Result<Box<dyn AnyKeeper>, String>;

/// A store of mail that is opened on its thread.
pub(crate) struct InboxStore(Box<dyn FnOnce(Whose) -> Opened + Send>);

impl InboxStore {
    pub(crate) fn new<S: LogStore + Send + 'static>(store: S) -> Self {
        Self(Box::new(move |whose: Whose| {
            let Whose {
                network,
                own,
                mails_max,
                policies,
                now_ms,
            } = whose;
            let keeper = Keeper::open(store, network, own, mails_max, now_ms);
            let mut keeper = keeper.map_err(|error| error.to_string())?;
            keeper.ask_policy(policies);
            Ok(Box::new(keeper) as Box<dyn AnyKeeper>)
        }))
    }
}

/// The handle to the thread. Dropping it closes the store once what waits is done.
pub(crate) struct MailThread {
    work: mpsc::Sender<Work>,
    closed: oneshot::Receiver<()>,
}

impl MailThread {
    /// Starts the thread, and opens the store on it.
    ///
    /// # Errors
    /// [`NodeError`]: no thread, or a store that cannot be read.
    pub(crate) async fn start(
        store: InboxStore,
        whose: Whose,
        told: tokio_mpsc::UnboundedSender<Vec<Told>>,
    ) -> Result<Self, NodeError> {
        let (work, inbox) = mpsc::channel();
        let (opening, opened) = oneshot::channel();
        let (closing, closed) = oneshot::channel();
        let thread = thread::Builder::new().name("overlane-inbox".to_owned());
        let started = thread.spawn(move || {
            let now_ms = whose.now_ms;
            let open = || (store.0)(whose);
            match catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(|_| Err(stopped())) {
                Ok(mut keeper) => {
                    // What is held is known before anybody can ask for it.
                    let known = told.send(keeper.flush(now_ms));
                    if known.is_ok() && opening.send(Ok(())).is_ok() {
                        serve(&mut *keeper, &inbox, &told);
                    }
                }
                Err(cause) => drop(opening.send(Err(cause))),
            }
            // The store is closed by now: whoever waits may open it again.
            let _ = closing.send(());
        });
        started.map_err(|cause| NodeError::Thread {
            cause: cause.to_string(),
        })?;
        let opened = opened.await.unwrap_or_else(|_| Err(stopped()));
        opened.map_err(|cause| NodeError::InboxStore { cause })?;
        Ok(Self { work, closed })
    }

    pub(crate) async fn close(self) {
        drop(self.work);
        let _ = self.closed.await;
    }
}

fn serve(
    keeper: &mut dyn AnyKeeper,
    inbox: &mpsc::Receiver<Work>,
    told: &tokio_mpsc::UnboundedSender<Vec<Told>>,
) {
    while let Ok(first) = inbox.recv() {
        let more = inbox.try_iter().take(GATHERED_MAX - 1);
        let work: Vec<Work> = std::iter::once(first).chain(more).collect();
        let done = catch_unwind(AssertUnwindSafe(|| {
            let mut now_ms = 0;
            for work in work {
                now_ms = work.now_ms;
                keeper.handle(work);
            }
            keeper.flush(now_ms)
        }));
        let panicked = done.is_err();
        let tells = done.unwrap_or_else(|_| vec![Told::Failed(stopped())]);
        if told.send(tells).is_err() || panicked {
            return;
        }
    }
}

fn stopped() -> String {
    "the store of mail stopped in the middle of a call".to_owned()
}

/// Who waits for what became of mail.
#[derive(Default)]
pub(crate) struct MailHands {
    thread: Option<MailThread>,
    takes: BTreeMap<TakeId, oneshot::Sender<Result<Delivery, InboxError>>>,
    next_take: u64,
    arrivals: BTreeMap<SendId, oneshot::Sender<Result<Arrived, InboxError>>>,
}

/// A request about mail.
pub(crate) enum MailRequest {
    /// Take this mail, or the one that came first.
    Take(
        Option<TransactionDigest>,
        oneshot::Sender<Result<Delivery, InboxError>>,
    ),
    /// Ask the holders now.
    Fetch,
    /// Leave this payload with that node, as any sender does.
    Leave(Did, Vec<u8>),
}

impl MailHands {
    pub(crate) fn new(thread: Option<MailThread>) -> Self {
        Self {
            thread,
            ..Self::default()
        }
    }

    pub(crate) fn note_take(
        &mut self,
        reply: oneshot::Sender<Result<Delivery, InboxError>>,
    ) -> TakeId {
        let id = TakeId(self.next_take);
        self.next_take += 1;
        self.takes.insert(id, reply);
        id
    }

    pub(crate) fn note_arrival(
        &mut self,
        id: SendId,
        reply: oneshot::Sender<Result<Arrived, InboxError>>,
    ) {
        self.arrivals.insert(id, reply);
    }

    /// A send that was to be delivered or held failed: nothing more comes of it.
    pub(crate) fn not_sent(&mut self, id: SendId) {
        self.arrivals.remove(&id);
    }

    /// Gives work to the thread; what it tells when it cannot take it.
    pub(crate) fn keep(&self, work: Work) -> Option<Vec<Told>> {
        let taken = self.thread.as_ref().map(|it| it.work.send(work));
        match taken {
            Some(Ok(())) => None,
            _ => Some(vec![Told::Failed(stopped())]),
        }
    }

    pub(crate) fn do_effect(&mut self, effect: Effect) {
        // Whoever asked may have gone. A mail whose taker is gone is taken all the same: its
        // application asked for it, as with any message.
        match effect {
            Effect::Arrived(id, result) => {
                if let Some(reply) = self.arrivals.remove(&id) {
                    let _ = reply.send(result);
                }
            }
            Effect::Taken(id, result) => {
                if let Some(reply) = self.takes.remove(&id) {
                    let _ = reply.send(result.map(|delivery| *delivery));
                }
            }
        }
    }

    pub(crate) async fn close(self) {
        drop((self.takes, self.arrivals));
        if let Some(thread) = self.thread {
            thread.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::inbox::Job;

    struct Breaks;

    impl AnyKeeper for Breaks {
        fn handle(&mut self, work: Work) {
            assert!(!work.holds_place, "a keeper that breaks off");
        }

        fn flush(&mut self, _: u64) -> Vec<Told> {
            vec![Told::Done(0)]
        }
    }

    #[tokio::test]
    async fn a_keeper_of_mail_that_breaks_off_is_told_and_takes_nothing_more() {
        let whose = Whose {
            network: NetworkId(7),
            own: Did([7; 20]),
            mails_max: 1,
            now_ms: 0,
            policies: Policies::default(),
        };
        let (told_out, mut told) = tokio_mpsc::unbounded_channel();
        let store = InboxStore(Box::new(|_| Ok(Box::new(Breaks) as _)));
        let thread = MailThread::start(store, whose, told_out).await.unwrap();
        let hands = MailHands::new(Some(thread));
        let work = |holds_place| Work {
            job: Job::Maintain,
            now_ms: 0,
            holds_place,
        };
        assert!(hands.keep(work(false)).is_none());
        assert!(matches!(
            told.recv().await.as_deref(),
            Some([Told::Done(0)])
        ));
        assert!(matches!(
            told.recv().await.as_deref(),
            Some([Told::Done(0)])
        ));
        assert!(hands.keep(work(true)).is_none());
        // One that breaks off says so last; what is given it later is refused here.
        assert!(matches!(
            told.recv().await.as_deref(),
            Some([Told::Failed(_)])
        ));
        assert!(told.recv().await.is_none());
        let refused = loop {
            match hands.keep(work(true)) {
                Some(refused) => break refused,
                // Its thread is about to be gone.
                None => tokio::task::yield_now().await,
            }
        };
        assert!(matches!(&refused[..], [Told::Failed(_)]));
        hands.close().await;
    }
}
