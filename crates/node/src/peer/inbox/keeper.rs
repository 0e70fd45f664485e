//! The side of mail that touches the store: what is held for others, and what holders have for this node.
//!
//! A [`Keeper`] blocks on its store and checks signatures, so it lives on a thread of its own; the peer
//! hands it [`Work`] and hears [`Told`]. Whoever drives it handles what is there and then flushes once.
//! Law **durable first**: nothing that came of work leaves [`Keeper::flush`] before the store has it.

mod job;
mod rows;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc;

use overlane_core::identity::{Signer, VerifyContext};
use overlane_core::transaction::Payload;
use overlane_core::{Coded, Did, Fault, NetworkId, TransactionDigest};
use overlane_relay::inbox::{
    Bound, Drain, DrainEvent, End, Event, Frame, InboxRefusal, Inboxes, InboxesError, Outcome,
};
use overlane_relay::log::{Frame as LogFrame, LogId, LogStore, Peer as Bringer, Refusal};

use super::STORE_FAILED;
use super::book::{Book, Changed};
use super::claims;
use crate::policy::{Holding, Policies};
pub use job::{Holdings, Job, Told, Work};
use rows::{BOOK_ROWS, TAKEN_ROWS, key, read_book, read_taken};

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
    book: Book,
    told: Vec<Told>,
    places: usize,
    tells_holdings: bool,
    /// Whose inboxes changed since that was told.
    touched: BTreeSet<Did>,
    bad_frames: u64,
    /// Mail that was taken in since the last flush, and who brought it: refused should that fail.
    brought: Vec<(Did, TransactionDigest)>,
    /// What the policy said no with since the last flush.
    not_let_in: Option<mpsc::Receiver<&'static str>>,
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
        let mut drain = Drain::new(own, VerifyContext { network, now_ms });
        for forgotten in read_taken(&mut inboxes, &mut drain, now_ms)? {
            inboxes.logs().put_row(forgotten, None);
        }
        let book = read_book(&mut inboxes)?;
        let told = book
            .all()
            .map(|mail| Told::Sent(mail.digest, Some(Box::new(mail))));
        Ok(Self {
            own,
            network,
            told: told.collect(),
            book,
            inboxes,
            drain,
            waiting: VecDeque::new(),
            under_way: BTreeSet::new(),
            places: 0,
            tells_holdings: true,
            touched: BTreeSet::new(),
            bad_frames: 0,
            brought: Vec::new(),
            not_let_in: None,
            maintained: 0,
            failed: false,
        })
    }

    /// Asks this policy of mail that other holders hand on, from now on.
    pub(crate) fn ask_policy(&mut self, policies: Policies) {
        let (refuses, refused) = mpsc::channel();
        self.not_let_in = Some(refused);
        self.inboxes
            .ask_before_held(Box::new(move |owner, by, bytes| {
                let mail = Holding { owner, by, bytes };
                policies.hold(&mail).map_err(|refusal| {
                    // Heard by this very keeper, after the frame.
                    let _ = refuses.send(refusal.code());
                    Refusal::rules(&refusal)
                })
            }));
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
            if let Job::Deposit { payload, by, .. } = &job
                && let Some((_, digest)) = claims(payload)
            {
                let refused = Told::Refused(by.account, digest, STORE_FAILED);
                self.told.push(refused);
            }
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
        self.brought.clear();
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
            Job::Lost(digest) => self.drain.handle_lost(digest),
            Job::Taken(digest) => {
                let row = Some(now_ms.to_be_bytes().to_vec());
                self.inboxes.logs().put_row(key(TAKEN_ROWS, digest), row);
                if let Some(forgotten) = self.drain.handle_taken(digest) {
                    self.inboxes
                        .logs()
                        .put_row(key(TAKEN_ROWS, forgotten), None);
                }
            }
            Job::Remember {
                digest,
                destination,
                by,
                asked,
            } => {
                for changed in self.book.hold(digest, destination, &by, &asked) {
                    self.write(changed);
                }
                self.told.push(Told::Remembered(digest));
            }
            Job::Outcome(by, outcome) => self.end(by, outcome),
            Job::HandedOn(by, outcome) => {
                if let Some(changed) = self.book.end_of_heir(by, &outcome) {
                    self.write(changed);
                }
            }
            Job::SignRemovals(signer) => self.drain.sign_removals(&signer, now_ms),
            Job::Maintain => {
                self.maintained = self.maintained.wrapping_add(1);
                if self.maintained.is_multiple_of(FORGET_EVERY) {
                    self.inboxes.forget_empty(now_ms)?;
                }
                self.inboxes.maintain(now_ms)?;
                self.drain.handle_timeout(now_ms);
                for changed in self.book.maintain(now_ms) {
                    self.write(changed);
                }
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
        let verified = Payload::from_frame(payload).and_then(|it| it.verify(&context));
        let payload = match verified {
            Ok(payload) => payload,
            Err(error) => {
                self.bad_frames += 1;
                // Who brought it hears why, whoever signed it.
                if let Some((_, digest)) = claims(payload) {
                    let refused = Told::Refused(by.account, digest, error.code());
                    self.told.push(refused);
                }
                return Ok(());
            }
        };
        let brings_its_own = payload.origin() == by.account;
        let (origin, digest) = (payload.origin(), payload.digest());
        self.touched.insert(payload.stream().destination);
        self.brought.push((by.account, digest));
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
        if let Some(owner) = log.ok().and_then(|log| self.inboxes.owner_of(&log)) {
            self.touched.insert(owner);
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
        if let Ok(Frame::Remove(removal)) = Frame::from_bytes(frame) {
            self.touched.insert(removal.signer());
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
        if !self.inboxes.knows(&owner) {
            self.touched.insert(owner);
        }
        self.inboxes
            .set_chain(owner, chain.iter().copied(), former)?;
        // Those who hold it now take nothing from one that they never knew as a holder, such as one that was cut off
        // with a ring of its own: its owner can fetch what there is itself, once it is back.
        if !chain.contains(&self.own) && self.inboxes.held(&owner)? > 0 {
            let frame = Frame::Announce(owner).to_bytes();
            self.told.push(Told::Say(owner, frame));
        }
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
                    let end = report.end;
                    let settled = match &end {
                        Some(End::Settled) => true,
                        Some(End::Refused { code }) => code == "log/not_here",
                        _ => false,
                    };
                    let lets_go = self.drain.is_to_let_go(&from);
                    Some(Told::Drained {
                        from,
                        settled,
                        lets_go,
                        never_ends: end.and_then(|end| never_ends(&end)),
                    })
                }
                DrainEvent::Refused { .. } => {
                    self.bad_frames += 1;
                    None
                }
            });
        }
        let not_let_in = self.not_let_in.iter().flat_map(mpsc::Receiver::try_iter);
        self.told.extend(not_let_in.map(Told::NotLetIn));
        if std::mem::take(&mut self.tells_holdings) {
            let holdings = self.holdings()?;
            self.told.push(Told::Held(holdings));
            self.touched.clear();
        }
        for owner in std::mem::take(&mut self.touched) {
            if self.inboxes.knows(&owner) {
                let mails = self.inboxes.held(&owner)?;
                self.told.push(Told::Holds(owner, mails));
            }
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
            Event::Receipt(proof) => {
                let (digest, by, until_ms) = (proof.digest(), proof.signer(), proof.until_ms());
                match self.book.hold_too(digest, by, until_ms) {
                    Ok(Some(changed)) => self.write(changed),
                    // Nobody asked its signer, or it is one of those that are noted.
                    Ok(None) => self.bad_frames += 1,
                    Err(()) => self.told.push(Told::Receipt(proof)),
                }
            }
            Event::Outcome(outcome) => {
                if let Some(by) = by {
                    self.end(by, outcome);
                }
            }
            Event::Reconciled { owner, with, .. } => {
                self.under_way.remove(&(owner, with));
                self.touched.insert(owner);
            }
            Event::HandedOn { owner } => drop(self.touched.insert(owner)),
        }
    }

    /// A holder's word on the end of a mail. It is answered after the next transaction, as it was said.
    fn end(&mut self, by: Did, outcome: Outcome) {
        match self.book.end(by, &outcome) {
            Ok(Some(changed)) => self.write(changed),
            // One that those who hold it may have handed it on to.
            Ok(None) if self.book.may_be_of_heir(&by, &outcome) => {
                self.told.push(Told::Outcome(by, outcome));
            }
            Ok(None) => {}
            Err(()) => self.told.push(Told::Outcome(by, outcome)),
        }
    }

    /// Writes a change of the book with the next transaction, and tells it after that.
    fn write(&mut self, changed: Changed) {
        let Changed {
            digest,
            row,
            mail,
            ended,
        } = changed;
        self.inboxes.logs().put_row(key(BOOK_ROWS, digest), row);
        self.told.push(Told::Sent(digest, mail.map(Box::new)));
        if ended {
            self.told.push(Told::Ended(digest));
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
            // Nothing of what was staged is told; who brought mail hears that it is not held.
            let brought = std::mem::take(&mut self.brought).into_iter();
            let refused = brought.map(|(by, digest)| Told::Refused(by, digest, STORE_FAILED));
            self.told = refused.collect();
            self.told.push(Told::Failed(error.to_string()));
        } else {
            self.bad_frames += 1;
        }
    }
}

/// The code of an end that no honest holder comes to. One that is silent, or gone, proves nothing.
fn never_ends(end: &End) -> Option<&'static str> {
    let ends = match end {
        End::Settled | End::Refused { .. } | End::GaveUp(Bound::Idle | Bound::Link) => true,
        End::GaveUp(Bound::Rounds | Bound::Bytes | Bound::Pushes | Bound::Stalled)
        | End::BrokeRules { .. } => false,
    };
    (!ends).then_some(end.code())
}

#[cfg(test)]
mod tests;
