//! Mail: what applications send to those who are away, the store's thread of each node, and what
//! applications take. The simulated twin of `runtime::mailroom`.

use std::sync::Arc;

use overlane_core::replay::Refusal;
use overlane_core::{Class, Coded, Did, TransactionDigest, TxId};
use overlane_relay::log::{Frame as LogFrame, LogId};
use overlane_storage_native::LogsStore;

use super::check::{Looked, Seen, Signed, Start, Stored};
use super::clock::START_MS;
use super::load::data;
use super::mailbox::{Mailroom, OnDisk as _};
use super::names::Broken;
use super::node::{Asked, seed_of};
use super::report::Phase;
use super::world::{Event, Life, World};
use crate::peer::inbox::{Arrived, Effect, InboxError, Job, Keeper, MailEvent, TakeId, Told, Work};
use crate::peer::{Delivery, Outgoing, Receipt, SealSeed, SendId};
use crate::runtime::GATHERED_MAX;

/// How long an application lets a mail wait at most.
const TAKEN_WITHIN_MS: u64 = 40_000;

/// Of so many mails an application leaves one where it is.
const ALONE_ONE_IN: u8 = 24;

impl World<'_> {
    /// Opens a node's store of mail.
    ///
    /// # Errors
    /// As the store says.
    pub(super) fn open_mail(&mut self, number: usize) -> Result<Option<Keeper<LogsStore>>, String> {
        if !self.config.has_mail() {
            return Ok(None);
        }
        let now_ms = self.now_at(number).wall_ms;
        let Some(node) = self.nodes.get_mut(number) else {
            return Ok(None);
        };
        node.mail.open_mail(node.did, now_ms).map(Some)
    }

    /// A node that has just started keeps mail.
    pub(super) fn begin_mail(&mut self, number: usize, keeper: Option<Keeper<LogsStore>>) {
        let Some(keeper) = keeper else {
            return;
        };
        let (seed, now) = (*seed_of(&mut self.chance), self.now_at(number));
        let Some(node) = self.nodes.get_mut(number) else {
            return;
        };
        let secret = node.sealing();
        if let Some(running) = &mut node.running {
            if let Some(secret) = secret {
                running.peer.open_with(Arc::new(secret));
            }
            running.peer.open_inbox(seed, now);
            running.mail = Some(Mailroom::new(keeper));
        }
        let (did, life) = (node.did, self.life(number));
        if let Some(mails) = &mut self.checks.mail {
            mails.started(did);
        }
        self.look_at_store(number, true);
        // What is known is told before anybody can ask for it.
        let room = self.running(number).and_then(|it| it.mail.as_mut());
        let told = room.map(|room| room.keeper.flush(now.wall_ms));
        self.hear_keeper(life, told.unwrap_or_default());
    }

    /// A process ended: what it was given it hands over no more.
    pub(super) fn mail_ended(&mut self, number: usize, in_order: bool) {
        let did = self.nodes.get(number).map(|it| it.did);
        if let Some((mails, did)) = self.checks.mail.as_mut().zip(did) {
            mails.ended(did, in_order);
        }
    }

    // What applications send.

    /// The node's application sends mail some time later.
    pub(super) fn mail_later(&mut self, node: usize) {
        if !self.config.has_mail() {
            return;
        }
        if let Some(mean_ms) = 60_000_u64.checked_div(self.config.mails_per_minute) {
            let wait_ms = self.between(mean_ms / 2, mean_ms * 3 / 2);
            self.after(wait_ms.max(1), Event::Mail(node));
        }
    }

    /// The node's application sends mail, in most cases to one that is away.
    pub(super) fn send_mail(&mut self, node: usize) {
        if self.phase != Phase::Faults {
            return;
        }
        self.mail_later(node);
        let away = self.nodes.iter().filter(|it| it.running.is_none());
        let away: Vec<usize> = away.map(|it| it.number).filter(|&it| it != node).collect();
        let drawn = self.any_of(self.nodes.len());
        let to = match away.get(self.any_of(away.len())) {
            Some(&away) if self.permille(700) => away,
            _ => drawn,
        };
        let size_bytes = match self.chance.below(100) {
            0..90 => self.between(16, 400),
            _ => self.between(2_000, 30_000),
        };
        if to != node {
            self.send_one(node, to, size_bytes);
        }
    }

    fn send_one(&mut self, from: usize, to: usize, size_bytes: u64) {
        let (name, seed) = (*seed_of(&mut self.chance), seed_of(&mut self.chance));
        let now = self.now_at(from);
        let Some((destination, key)) = self.nodes.get(to).map(|it| (it.did, it.key())) else {
            return;
        };
        let Some(node) = self.nodes.get_mut(from) else {
            return;
        };
        let running = node.running.as_mut().filter(|it| !it.leaving);
        let Some(running) = running.filter(|it| it.mail.is_some()) else {
            return;
        };
        node.next_number += 1;
        let Some(data) = data(Class::Application, node.next_number, size_bytes) else {
            return;
        };
        running.next_send += 1;
        let id = SendId(running.next_send);
        running.asked.insert(
            id,
            Asked {
                to,
                again: false,
                congested: 0,
            },
        );
        if let Some(room) = &mut running.mail {
            room.sending.insert(id, None);
        }
        let tx_id = TxId(name.first_chunk().copied().unwrap_or_default());
        let outgoing = Outgoing::new(destination, data, tx_id).sealed(SealSeed::new(seed));
        // Its user has the contact of whom it writes to.
        running.peer.learn(&key, now);
        running.peer.send_or_hold(id, outgoing, now);
        self.counts.mail.sent += 1;
        self.dirty_nodes.insert(from);
    }

    /// The result of a send: a mail that is signed may come by other ways than its own.
    pub(super) fn mail_signed(&mut self, node: usize, id: SendId, receipt: Option<&Receipt>) {
        let room = self.running(node).and_then(|it| it.mail.as_mut());
        let Some(room) = room.filter(|room| room.sending.contains_key(&id)) else {
            return;
        };
        let Some(receipt) = receipt else {
            room.sending.remove(&id);
            return;
        };
        room.sending.insert(id, Some(receipt.digest));
        let signed = Signed {
            stream: receipt.stream,
            sequence: receipt.sequence,
            digest: receipt.digest,
        };
        self.mails.insert(receipt.digest, signed);
        self.see(&Seen::OfferedAgain(receipt.digest));
    }

    // The store's thread.

    /// A node gives its keeper of mail something to do.
    pub(super) fn keep(&mut self, node: usize, work: Work) {
        let (life, dropped) = (self.life(node), self.is_broken(Broken::DroppedInbox));
        let did = self.nodes.get(node).map(|it| it.did);
        if let (Some(did), Job::Chain { owner, chain, .. } | Job::Deposit { owner, chain, .. }) =
            (did, &work.job)
        {
            if let Some(mails) = &mut self.checks.mail {
                mails.chain(did, *owner, chain);
            }
            if dropped && !chain.contains(&did) {
                self.drop_inbox(node, *owner);
            }
        }
        let Some(room) = self.running(node).and_then(|it| it.mail.as_mut()) else {
            return self.broke("one keeper of mail", format!("node {node} has none"));
        };
        room.work.push_back(work);
        if !std::mem::replace(&mut room.due, true) {
            let slow = self.permille(20);
            let wait_ms = self.idle_ms(node) + self.chance.below(if slow { 200 } else { 4 });
            self.maybe_cut_power(life, wait_ms);
            self.after(wait_ms, Event::Kept(life));
        }
    }

    /// What a node does that forgets to hand on.
    fn drop_inbox(&mut self, node: usize, owner: Did) {
        let room = self.running(node).and_then(|it| it.mail.as_mut());
        if let Some(room) = room {
            // Looked at for what is there now, and again for what is missing then.
            room.looked_at = None;
            let held = room.look().unwrap_or_default();
            room.looked_at = None;
            let logs = room.keeper.inboxes().logs();
            for (digest, _) in held.iter().filter(|it| it.1.owner == owner) {
                // A store that fails says so at the next flush.
                let _ = logs.remove(&LogId::inbox(&owner), &overlane_recon::Id(digest.0));
            }
        }
    }

    /// The store's thread looks at what waits, and makes it durable.
    pub(super) fn kept(&mut self, life: Life) {
        let node = life.node;
        if self.living(life).is_none() {
            return;
        }
        self.withhold_mail(node);
        let forgetful = self.is_broken(Broken::ForgetfulInbox);
        let Some(room) = self.living(life).and_then(|it| it.mail.as_mut()) else {
            return;
        };
        room.due = false;
        let told = room.work(GATHERED_MAX);
        if !room.work.is_empty() {
            room.due = true;
            self.after(1, Event::Kept(life));
        }
        if let Some(state) = self.nodes.get_mut(node) {
            state.mail.wrote(forgetful);
        }
        self.look_at_store(node, false);
        self.hear_keeper(life, told);
        self.drop_deposits(node);
    }

    /// The peer hears what came of its keeper's work.
    fn hear_keeper(&mut self, life: Life, told: Vec<Told>) {
        let (node, now) = (life.node, self.now_at(life.node));
        let mut failed = false;
        for told in &told {
            match told {
                Told::Refused(_, _, code) => self.note_refused(code),
                Told::SayLog(_, frame) => {
                    if let Ok(LogFrame::Refuse { code, .. }) = LogFrame::from_bytes(frame) {
                        self.note_refused(code);
                    }
                }
                Told::Failed(_) => failed = true,
                _ => {}
            }
        }
        if let Some(running) = self.running(node) {
            running.peer.handle_kept(told, now);
        }
        self.dirty_nodes.insert(node);
        if failed {
            self.counts.stores_failed += 1;
            if let Some(state) = self.nodes.get_mut(node) {
                state.store_failed = true;
            }
            let number = node.to_be_bytes();
            let noted: [&[u8]; 2] = [b"store of mail failed", &number];
            self.trace.note(self.now_ms, &noted, || {
                format!("node {node}: the store of mail failed")
            });
            self.mend_later(life);
        }
    }

    fn note_refused(&mut self, code: &str) {
        *self.counts.mail.refused.entry(code.to_owned()).or_default() += 1;
    }

    /// The checker looks at what a node has stored.
    pub(super) fn look_at_store(&mut self, number: usize, at_start: bool) {
        let (wall_ms, true_ms) = (self.now_at(number).wall_ms, START_MS + self.now_ms);
        let Some(node) = self.nodes.get_mut(number) else {
            return;
        };
        let room = node.running.as_mut().and_then(|it| it.mail.as_mut());
        let Some((mails, acted_ms)) = room.and_then(|it| Some((it.look()?, it.acted_ms()))) else {
            return;
        };
        // What is over was so when the store was told, which may be a while before it did what it was told; and the last
        // process may have been told before it ended.
        let acted_ms = acted_ms.max(node.mail.acted_ms());
        let stored = Stored {
            node: node.did,
            mails,
            wall_ms: wall_ms.max(acted_ms),
            true_ms,
            start: match (at_start, node.mail.ended_at_rest) {
                (false, _) => Start::No,
                (true, true) => Start::AfterRest,
                (true, false) => Start::AfterWork,
            },
        };
        let looked = self.checks.mail.as_mut().map(|mails| mails.look(stored));
        let Looked {
            broke,
            handed_on,
            let_go,
        } = looked.unwrap_or_default();
        self.counts.mail.handed_on += handed_on;
        self.counts.mail.let_go += let_go;
        for (law, words) in broke {
            self.broke(law, words);
        }
    }

    // What mail tells the application.

    pub(super) fn mail_did(&mut self, node: usize, effect: Effect) {
        match effect {
            Effect::Arrived(id, result) => self.arrived(node, id, result),
            Effect::Taken(id, result) => self.taken_mail(node, id, result.map(|it| *it)),
        }
    }

    fn arrived(&mut self, node: usize, id: SendId, result: Result<Arrived, InboxError>) {
        let room = self.running(node).and_then(|it| it.mail.as_mut());
        let digest = room.and_then(|room| room.sending.remove(&id)).flatten();
        let code = match &result {
            Ok(Arrived::Delivered) => {
                self.counts.mail.delivered += 1;
                "delivered"
            }
            Ok(Arrived::Held(_)) => {
                self.counts.mail.held += 1;
                "held"
            }
            Err(error) => {
                *self.counts.mail.not_held.entry(error.code()).or_default() += 1;
                error.code()
            }
        };
        let number = node.to_be_bytes();
        let noted: [&[u8]; 3] = [b"mail", &number, code.as_bytes()];
        self.trace.note(self.now_ms, &noted, || {
            let name = digest.map_or_else(String::new, |it| it.to_string());
            format!("mail {name} of node {node}: {code}")
        });
        let Ok(Arrived::Held(proofs)) = result else {
            return;
        };
        for proof in proofs {
            if Some(proof.digest()) != digest {
                let words = format!("node {node} has a receipt for another mail");
                self.broke("one receipt a mail", words);
            }
            let mails = self.checks.mail.as_ref();
            let told = mails.map(|it| it.told(proof.signer(), proof.digest()));
            if let Some(Err((law, words))) = told {
                self.broke(law, words);
            }
        }
    }

    /// What is told of mail to whoever watches.
    pub(super) fn mail_told(&mut self, node: usize, event: MailEvent) {
        match event {
            MailEvent::Waits { digest, .. } => self.waits(node, digest),
            MailEvent::Lost { digest, code, .. } => {
                let (wrong, signed) = (self.clocks_were_wrong(), self.mails.get(&digest).copied());
                let of = signed.map(|it| (it.stream, it.sequence, digest));
                let lost = self.checks.mail.as_mut().zip(of);
                match lost.map(|(mails, of)| mails.lost(of, code, wrong)) {
                    Some(Ok(false)) | None => {}
                    Some(Ok(true)) => *self.counts.mail.lost.entry(code).or_default() += 1,
                    Some(Err((law, words))) => self.broke(law, words),
                }
            }
            MailEvent::Ended { .. } | MailEvent::Holds { .. } | MailEvent::Holders(_) => {}
        }
    }

    /// A mail waits to be taken: most are, some time later.
    fn waits(&mut self, node: usize, digest: TransactionDigest) {
        self.counts.mail.waited += 1;
        let number = node.to_be_bytes();
        let noted: [&[u8]; 3] = [b"mail waits", &number, &digest.0];
        self.trace.note(self.now_ms, &noted, || {
            format!("mail {digest} waits at node {node}")
        });
        if self.is_broken(Broken::EarlyTake)
            && let Some(&signed) = self.mails.get(&digest)
        {
            self.handed_over(node, signed);
        }
        if self.is_broken(Broken::EarlyRemoval) {
            self.remove_early(node, digest);
        }
        // The same in every life of the node.
        if digest.0.first().is_some_and(|it| it % ALONE_ONE_IN == 0) {
            self.counts.mail.left_alone += 1;
            if let Some(mails) = &mut self.checks.mail {
                mails.left_alone(digest);
            }
            return;
        }
        let wait_ms = self.between(10, TAKEN_WITHIN_MS);
        self.after(wait_ms, Event::TakeMail(self.life(node), digest));
    }

    fn remove_early(&mut self, node: usize, digest: TransactionDigest) {
        let now_ms = self.now_at(node).wall_ms;
        let Some(signer) = self.running(node).map(|it| it.signer.clone()) else {
            return;
        };
        for job in [Job::Taken(digest), Job::SignRemovals(signer)] {
            let work = Work {
                job,
                now_ms,
                holds_place: false,
            };
            self.keep(node, work);
        }
    }

    /// The application takes a mail.
    pub(super) fn take_mail(&mut self, life: Life, digest: TransactionDigest) {
        let wait_ms = self.app_idle_ms(life.node);
        if wait_ms > 0 {
            return self.after(wait_ms, Event::TakeMail(life, digest));
        }
        let now = self.now_at(life.node);
        let Some(running) = self.living(life) else {
            return;
        };
        let Some(room) = &mut running.mail else {
            return;
        };
        room.next_take += 1;
        let id = TakeId(room.next_take);
        room.takes.insert(id, digest);
        running.peer.take_mail(id, Some(digest), now);
        if let Some(mails) = &mut self.checks.mail {
            mails.asked(digest);
        }
        self.dirty_nodes.insert(life.node);
    }

    fn taken_mail(&mut self, node: usize, id: TakeId, result: Result<Delivery, InboxError>) {
        let room = self.running(node).and_then(|it| it.mail.as_mut());
        let Some(digest) = room.and_then(|room| room.takes.remove(&id)) else {
            let words = format!("node {node} answered a taking twice");
            return self.broke("one result a taking", words);
        };
        match result {
            Ok(delivery) => {
                self.counts.mail.taken += 1;
                let payload = delivery.item();
                let signed = Signed {
                    stream: payload.stream(),
                    sequence: payload.sequence(),
                    digest: payload.digest(),
                };
                if signed.digest != digest {
                    let words = format!("node {node} was given another mail than it asked for");
                    self.broke("one result a taking", words);
                }
                if !self.is_broken(Broken::EarlyTake) {
                    self.handed_over(node, signed);
                }
            }
            Err(error) => {
                let (number, code) = (node.to_be_bytes(), error.code());
                let noted: [&[u8]; 3] = [b"mail not taken", &number, code.as_bytes()];
                self.trace.note(self.now_ms, &noted, || {
                    format!("node {node} could not take mail {digest}: {code}")
                });
                // What a write that failed may have left on the disk counts as taken: it waits again, or is gone.
                let unsure = matches!(error, InboxError::Replay(Refusal::StoreFailed { .. }));
                if let Some(mails) = self.checks.mail.as_mut().filter(|_| !unsure) {
                    mails.not_taken(digest);
                }
            }
        }
    }

    /// Mail that is to be taken still, once everything is healed.
    pub(super) fn mail_owed(&self) -> usize {
        let owed = self.checks.mail.as_ref().map(|mails| mails.owed().len());
        owed.unwrap_or_default()
    }
}
