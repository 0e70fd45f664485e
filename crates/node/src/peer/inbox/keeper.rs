//! The side of mail that touches the store: what is held for others, and what holders have for this node.
//!
//! A [`Keeper`] blocks on its store and checks signatures, so it lives on a thread of its own; the peer
//! hands it [`Work`] and hears [`Told`]. Whoever drives it handles what is there and then flushes once.
//! Law **durable first**: nothing that came of work leaves [`Keeper::flush`] before the store has it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use overlane_core::identity::{Signer, VerifyContext};
use overlane_core::mail::{HoldProof, Mail};
use overlane_core::transaction::Payload;
use overlane_core::{Coded, Did, Fault, NetworkId, TransactionDigest};
use overlane_relay::inbox::{
    Drain, DrainEvent, End, Event, Frame, InboxRefusal, Inboxes, InboxesError, Outcome,
};
use overlane_relay::log::{Frame as LogFrame, LogId, LogStore, Peer as Bringer};

/// Reconciliations that this node drives at a time, of those that the logs may hold.
pub const RECONCILED_AT_ONCE: usize = 3;

/// Reconciliations that wait for their turn; more are left to the next maintenance.
pub const RECONCILE_WAITING_MAX: usize = 16_384;

/// Maintenances between two in which inboxes are forgotten that nothing is left of.
pub const FORGET_EVERY: u64 = 16;

/// The slot that what this node itself leaves for others is charged to.
pub const OWN_SLOT: u32 = u32::MAX - 1;

/// The slot of what came over a link that is gone.
pub const GONE_SLOT: u32 = u32::MAX - 2;

/// Something for the keeper to do.
#[derive(Debug)]
pub enum Job {
    /// Mail for an account that is away.
    Deposit {
        /// The sender's payload frame, not verified.
        payload: Vec<u8>,
        /// Who brought it.
        by: Bringer,
        /// The account it is for, as far as that is known without checking it.
        owner: Did,
        /// The holders of that account's inbox, by the ring.
        chain: Vec<Did>,
        /// Signs the receipt.
        signer: Arc<Signer>,
    },
    /// A frame of a log.
    Log {
        /// Who says it.
        by: Bringer,
        /// The frame.
        frame: Vec<u8>,
    },
    /// A frame of an inbox.
    Frame {
        /// Who says it.
        by: Bringer,
        /// The frame.
        frame: Vec<u8>,
    },
    /// An account is met: it is told what became of its mail.
    Met(Did),
    /// The last link to an account is down.
    Unlinked(Did),
    /// By the ring, these hold an account's inbox, and those may have until not long ago.
    Chain {
        /// The account.
        owner: Did,
        /// The holders, the nearest first.
        chain: Vec<Did>,
        /// Who held until not long ago.
        former: Vec<Did>,
        /// Those of them that said they hold some: they are asked too.
        asked: Vec<Did>,
    },
    /// By the ring, these hold this node's own inbox.
    Holders(Vec<Did>),
    /// Fetch what these hold for this node.
    Fetch(Vec<Did>),
    /// A mail that was fetched is in no custody: it waits at its holders.
    NotKept(TransactionDigest),
    /// A mail was taken, durably, or had been: its holders let go of it.
    Taken(TransactionDigest),
    /// Signs what was taken since, for whoever has not let go of it.
    SignRemovals(Arc<Signer>),
    /// Time for maintenance.
    Maintain,
}

/// A job, and when.
#[derive(Debug)]
pub struct Work {
    /// What.
    pub job: Job,
    /// The time on the wall, in Unix milliseconds.
    pub now_ms: u64,
    /// Whether a message of another node holds a place until this is done.
    pub holds_place: bool,
}

/// What came of work, after it is durable.
#[derive(Debug)]
pub enum Told {
    /// Say this frame of an inbox.
    Say(Did, Vec<u8>),
    /// Say this frame of an inbox's log.
    SayLog(Did, Vec<u8>),
    /// Tell the sender of a mail that it is not held here.
    Refused(Did, TransactionDigest, &'static str),
    /// A holder has mail of this node's own.
    Receipt(Box<HoldProof>),
    /// What a holder says became of mail of this node's own.
    Outcome(Did, Outcome),
    /// A node says that it holds mail for an account, and that this node should.
    Announced {
        /// The account.
        owner: Did,
        /// Who says so.
        by: Did,
    },
    /// A mail for this node.
    Fetched(Box<Mail>),
    /// A holder of this node's own inbox was asked to its end.
    Drained {
        /// Who.
        from: Did,
        /// Whether it gave all that it holds.
        settled: bool,
    },
    /// What is held here for others.
    Held(Holdings),
    /// So many messages that held a place are dealt with.
    Done(usize),
    /// The store failed: nothing is held and nothing fetched until the node starts again.
    Failed(String),
}

/// What a node holds for others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Mails by their owner; also of owners that nothing is held of any more.
    pub inboxes: BTreeMap<Did, u64>,
    /// What was kept since the start.
    pub kept: u64,
    /// What was let go of at its end or to make room since the start.
    pub let_go: u64,
    /// Frames and mail that were refused since the start.
    pub refused: u64,
    /// Transactions of the store since the start.
    pub flushes: u64,
    /// Outcomes that were not kept for their senders.
    pub outcomes_lost: u64,
    /// Frames that were none, or did not count.
    pub bad_frames: u64,
}

/// The keeper of one node.
#[derive(Debug)]
pub struct Keeper<S: LogStore> {
    own: Did,
    network: NetworkId,
    inboxes: Inboxes<S>,
    drain: Drain,
    /// What is to be reconciled, and with whom.
    waiting: VecDeque<(Did, Did)>,
    under_way: BTreeSet<(Did, Did)>,
    told: Vec<Told>,
    places: usize,
    tells_holdings: bool,
    bad_frames: u64,
    maintained: u64,
    failed: bool,
}

/// A store that failed, or another thing that ends the keeper's work.
type Fatal<E> = Result<(), InboxesError<E>>;

impl<S: LogStore> Keeper<S> {
    /// What `store` kept, with at most `mails_max` mails an inbox.
    ///
    /// # Errors
    /// The store fails.
    pub fn open(
        store: S,
        network: NetworkId,
        own: Did,
        mails_max: u64,
        now_ms: u64,
    ) -> Result<Self, InboxesError<S::Error>> {
        let mut inboxes = Inboxes::open(store, network, own, now_ms)?;
        inboxes.set_mails_max(mails_max);
        Ok(Self {
            own,
            network,
            inboxes,
            drain: Drain::new(own, VerifyContext { network, now_ms }),
            waiting: VecDeque::new(),
            under_way: BTreeSet::new(),
            told: Vec::new(),
            places: 0,
            tells_holdings: true,
            bad_frames: 0,
            maintained: 0,
            failed: false,
        })
    }

    /// The store, to open it again.
    pub fn into_store(self) -> S {
        self.inboxes.into_store()
    }

    /// The inboxes below, to ask them.
    pub fn inboxes(&mut self) -> &mut Inboxes<S> {
        &mut self.inboxes
    }

    /// Does a job. What comes of it is told by the next [`flush`](Self::flush).
    pub fn handle(&mut self, work: Work) {
        let Work {
            job,
            now_ms,
            holds_place,
        } = work;
        self.places += usize::from(holds_place);
        if self.failed {
            return;
        }
        let done = self.do_job(job, now_ms);
        self.note(done);
    }

    /// Makes durable what came of the jobs, and tells it.
    pub fn flush(&mut self, now_ms: u64) -> Vec<Told> {
        if !self.failed {
            let done = self.flush_all(now_ms);
            self.note(done);
        }
        let mut told = std::mem::take(&mut self.told);
        let places = std::mem::take(&mut self.places);
        if places > 0 {
            told.push(Told::Done(places));
        }
        told
    }

    fn do_job(&mut self, job: Job, now_ms: u64) -> Fatal<S::Error> {
        match job {
            Job::Deposit {
                payload,
                by,
                owner,
                chain,
                signer,
            } => {
                // One that nothing was left of is begun anew.
                if !self.inboxes.knows(&owner) {
                    self.tells_holdings = true;
                    self.inboxes.set_chain(owner, chain, [])?;
                }
                return self.deposit(&payload, by, &signer, now_ms);
            }
            Job::Log { by, frame } => return self.handle_log(by, &frame, now_ms),
            Job::Frame { by, frame } => return self.handle_frame(by, &frame, now_ms),
            Job::Met(account) => self.meet(account)?,
            Job::Unlinked(account) => {
                self.inboxes.handle_disconnected(&account);
                self.drain.handle_disconnected(&account);
            }
            Job::Chain {
                owner,
                chain,
                former,
                asked,
            } => self.set_chain(owner, chain, former, &asked)?,
            Job::Holders(holders) => self.drain.set_holders(holders),
            Job::Fetch(holders) => {
                for holder in holders {
                    self.drain.start(holder, now_ms);
                }
            }
            Job::NotKept(digest) => self.drain.handle_not_kept(digest),
            Job::Taken(digest) => self.drain.handle_taken(digest),
            Job::SignRemovals(signer) => self.drain.sign_removals(&signer, now_ms),
            Job::Maintain => {
                self.maintained = self.maintained.wrapping_add(1);
                if self.maintained.is_multiple_of(FORGET_EVERY) {
                    self.inboxes.forget_empty(now_ms)?;
                }
                self.inboxes.maintain(now_ms)?;
                self.drain.handle_timeout(now_ms);
                let logs = self.inboxes.logs();
                self.under_way
                    .retain(|(owner, with)| logs.is_syncing(&LogId::inbox(owner), with));
                self.tells_holdings = true;
            }
        }
        Ok(())
    }

    fn deposit(
        &mut self,
        payload: &[u8],
        by: Bringer,
        signer: &Signer,
        now_ms: u64,
    ) -> Fatal<S::Error> {
        let context = VerifyContext {
            network: self.network,
            now_ms,
        };
        let payload = Payload::from_frame(payload).and_then(|it| it.verify(&context));
        let Ok(payload) = payload else {
            self.bad_frames += 1;
            return Ok(());
        };
        let brings_its_own = payload.origin() == by.account;
        let (origin, digest) = (payload.origin(), payload.digest());
        match self.inboxes.handle_deposit(payload, by, signer, now_ms) {
            Err(error) if error.fault() != Fault::StoreFailedClosed => {
                // Who brings another's mail has that one bothered by nothing.
                if brings_its_own {
                    let code = error.code();
                    self.told.push(Told::Refused(origin, digest, code));
                }
                Ok(())
            }
            done => done,
        }
    }

    fn handle_log(&mut self, by: Bringer, frame: &[u8], now_ms: u64) -> Fatal<S::Error> {
        let log = LogFrame::from_bytes(frame).map(|frame| frame.log());
        if log.is_ok_and(|log| log == LogId::inbox(&self.own)) {
            self.drain.handle_log_frame(by.account, frame, now_ms);
            return Ok(());
        }
        self.inboxes.handle_log_frame(by, frame, now_ms)
    }

    fn handle_frame(&mut self, by: Bringer, frame: &[u8], now_ms: u64) -> Fatal<S::Error> {
        self.drain.handle_frame(by.account, frame);
        match self.inboxes.handle_frame(by, frame, now_ms) {
            // Nothing of it is held here, as its owner wants.
            Err(InboxesError::Refused(InboxRefusal::NotAHolder { owner }))
                if owner == by.account =>
            {
                if let Ok(Frame::Remove(removal)) = Frame::from_bytes(frame) {
                    let digests = removal.subject().digests().to_vec();
                    let frame = Frame::Removed(owner, digests).to_bytes();
                    self.told.push(Told::Say(owner, frame));
                }
                return Ok(());
            }
            done => done?,
        }
        // Told now, while it is known who said it; nothing of it is this store's.
        while let Some(event) = self.inboxes.poll_event() {
            self.tell(Some(by.account), event);
        }
        Ok(())
    }

    /// An account that comes is told what became of its mail, and that there is some for it.
    fn meet(&mut self, account: Did) -> Fatal<S::Error> {
        self.inboxes.handle_met(&account);
        if self.inboxes.knows(&account) && self.inboxes.held(&account)? > 0 {
            let frame = Frame::Announce(account).to_bytes();
            self.told.push(Told::Say(account, frame));
        }
        Ok(())
    }

    fn set_chain(
        &mut self,
        owner: Did,
        chain: Vec<Did>,
        former: Vec<Did>,
        asked: &[Did],
    ) -> Fatal<S::Error> {
        self.tells_holdings |= !self.inboxes.knows(&owner);
        self.inboxes
            .set_chain(owner, chain.iter().copied(), former)?;
        for &with in chain.iter().chain(asked).filter(|&&with| with != self.own) {
            let pair = (owner, with);
            let room = self.waiting.len() < RECONCILE_WAITING_MAX;
            if room && !self.waiting.contains(&pair) && !self.under_way.contains(&pair) {
                self.waiting.push_back(pair);
            }
        }
        Ok(())
    }

    fn flush_all(&mut self, now_ms: u64) -> Fatal<S::Error> {
        self.reconcile_more(now_ms)?;
        // What settles may make room for the next, and is told with what it moved.
        self.inboxes.flush(now_ms)?;
        self.tell_events();
        self.reconcile_more(now_ms)?;
        self.inboxes.flush(now_ms)?;
        self.tell_events();
        // That an inbox is announced comes before what is asked of it.
        while let Some(it) = self.inboxes.poll_transmit() {
            self.told.push(Told::Say(it.to, it.frame));
        }
        while let Some(it) = self.inboxes.poll_log_transmit()? {
            self.told.push(Told::SayLog(it.to, it.frame));
        }
        while let Some(it) = self.drain.poll_log_transmit() {
            self.told.push(Told::SayLog(it.to, it.frame));
        }
        while let Some(it) = self.drain.poll_transmit() {
            self.told.push(Told::Say(it.to, it.frame));
        }
        while let Some(event) = self.drain.poll_event() {
            self.told.extend(match event {
                DrainEvent::Fetched(mail) => Some(Told::Fetched(mail)),
                DrainEvent::Drained { from, report } => {
                    // One that holds nothing for this node knows no such inbox.
                    let settled = match report.end {
                        Some(End::Settled) => true,
                        Some(End::Refused { code }) => code == "log/not_here",
                        _ => false,
                    };
                    Some(Told::Drained { from, settled })
                }
                DrainEvent::Refused { .. } => {
                    self.bad_frames += 1;
                    None
                }
            });
        }
        if std::mem::take(&mut self.tells_holdings) {
            let holdings = self.holdings()?;
            self.told.push(Told::Held(holdings));
        }
        Ok(())
    }

    /// Starts what waits for its turn, as far as it may.
    fn reconcile_more(&mut self, now_ms: u64) -> Fatal<S::Error> {
        while self.under_way.len() < RECONCILED_AT_ONCE {
            let Some((owner, with)) = self.waiting.pop_front() else {
                return Ok(());
            };
            match self.inboxes.reconcile(owner, with, now_ms) {
                Err(error) if error.fault() != Fault::StoreFailedClosed => {}
                done => done?,
            }
            if self.inboxes.logs().is_syncing(&LogId::inbox(&owner), &with) {
                self.under_way.insert((owner, with));
            }
        }
        Ok(())
    }

    fn tell_events(&mut self) {
        while let Some(event) = self.inboxes.poll_event() {
            self.tell(None, event);
        }
    }

    fn tell(&mut self, by: Option<Did>, event: Event) {
        match event {
            Event::Announced { owner, by } => self.told.push(Told::Announced { owner, by }),
            Event::Receipt(proof) => self.told.push(Told::Receipt(proof)),
            Event::Outcome(outcome) => {
                self.told.extend(by.map(|by| Told::Outcome(by, outcome)));
            }
            Event::Reconciled { owner, with, .. } => {
                self.under_way.remove(&(owner, with));
                self.tells_holdings = true;
            }
            Event::HandedOn { .. } => self.tells_holdings = true,
        }
    }

    fn holdings(&mut self) -> Result<Holdings, InboxesError<S::Error>> {
        let mut inboxes = BTreeMap::new();
        for owner in self.inboxes.owners() {
            let mails = self.inboxes.held(&owner)?;
            inboxes.insert(owner, mails);
        }
        let outcomes_lost = self.inboxes.outcomes_lost();
        let counters = self.inboxes.logs().counters();
        Ok(Holdings {
            inboxes,
            kept: counters.kept,
            let_go: counters.let_go,
            refused: counters.refused,
            flushes: counters.flushes,
            outcomes_lost,
            bad_frames: self.bad_frames,
        })
    }

    /// Counts what did not count; ends the work when the store failed.
    fn note(&mut self, done: Fatal<S::Error>) {
        let Err(error) = done else {
            return;
        };
        if error.fault() == Fault::StoreFailedClosed {
            self.failed = true;
            // Nothing of what was staged is told.
            self.told = vec![Told::Failed(error.to_string())];
        } else {
            self.bad_frames += 1;
        }
    }
}
