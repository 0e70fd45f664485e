//! What the application asks of its references.

use overlane_core::Did;
use overlane_relay::refs::SendError;
use overlane_relay::refs::table::{Answer, Local, LocalObject, ObjectState};
use overlane_relay::refs::wire::{Body, Hardness, Outcome, Reason, Slot};

use super::rows::{KeptRow, Key};
use super::{
    Ask, AskId, EXPORTS_MAX, Effect, KEPT_MAX, NOTE_MAX_BYTES, Now, RefState, ReferenceError,
    References, Reply, TICKETS_MAX, TakenBack, Token,
};

/// The context of a ticket's digest.
const TICKET_CONTEXT: &str = "overlane reference ticket";

/// What is kept of a ticket's secret: whoever reads the store cannot use it.
pub(crate) fn ticket_digest(secret: &[u8; 32]) -> [u8; 32] {
    blake3::derive_key(TICKET_CONTEXT, secret)
}

impl References {
    /// Asks for something. The answer comes as [`Effect::Answer`], once it is durable.
    pub fn ask(&mut self, id: AskId, ask: Ask, now: Now) {
        if let Some(cause) = &self.failure {
            let cause = cause.clone();
            let refused = Err(ReferenceError::StoreFailed { cause });
            return self.out.push_back(Effect::Answer(id, refused));
        }
        let now_ms = self.at(now);
        let attaches = matches!(ask, Ask::Attach(_));
        let at = self.held.len();
        let answer = match ask {
            Ask::Export => self.export(),
            Ask::Attach(kept) => self.attach(kept),
            Ask::Send {
                target,
                bytes,
                refs,
            } => self.send(target, &bytes, &refs, now_ms),
            Ask::Answer { call, outcome } => self.answer_held(call, outcome, now_ms),
            Ask::Revoke {
                object,
                hardness,
                reason,
                text,
            } => self.revoke(object, hardness, (reason, &text), now_ms),
            Ask::Keep { local, note } => self.keep(local, note),
            Ask::Restore(kept) => self.restore(kept),
            Ask::Forget(kept) => self.forget(kept, now_ms),
            Ask::Admit(kept, digest) => self.admit(kept, digest),
            Ask::Redeem(peer, secret) => match self.redeem(id, peer, secret, now_ms) {
                Some(answer) => answer,
                // It is answered once an epoch has begun, or is given up.
                None => return,
            },
        };
        let attached = match &answer {
            Ok(Reply::Handle(handle)) if attaches => self.own(handle.local),
            _ => None,
        };
        self.hold_answer(at, id, answer);
        if let Some(object) = attached {
            // Whoever answers is known by now.
            self.hand_out_waiting(object);
        }
    }

    /// Lets go of `handles` handles of a reference.
    pub fn let_go_of(&mut self, local: Local, handles: u32, now: Now) {
        if self.failure.is_none() {
            let now_ms = self.at(now);
            self.release(local, handles, now_ms);
        }
    }

    pub(super) fn release(&mut self, local: Local, handles: u32, now_ms: u64) {
        for _ in 0..handles {
            match self.tables.release(local, now_ms) {
                Ok(step) => self.follow(step, now_ms),
                Err(error) => {
                    tracing::error!(%error, ?local, "a handle was let go of that nobody had");
                    return;
                }
            }
        }
        if let Local::Object(object) = local
            && self.tables.object(object).is_none()
        {
            self.said.remove(&object);
        }
    }

    pub(super) fn send(
        &mut self,
        target: Local,
        bytes: &[u8],
        refs: &[Local],
        now_ms: u64,
    ) -> Result<Reply, ReferenceError> {
        let body = Body {
            slots: refs.iter().copied().map(Slot::Ref).collect(),
            bytes: bytes.into(),
        };
        let (promise, step) = self.tables.send(target, body, Answer::New, now_ms)?;
        self.follow(step, now_ms);
        let promise = promise.ok_or(ReferenceError::Tables(SendError::NotDecider))?;
        Ok(Reply::Promise(promise))
    }

    /// What a reference is worth.
    pub(super) fn state(&self, local: Local) -> RefState {
        let Local::Object(object) = local else {
            return RefState::Live;
        };
        let taken_back = |reason| {
            let said = self.said.get(&object).filter(|(of, _)| *of == reason);
            TakenBack::new(reason, said.map_or(&[], |(_, said)| said))
        };
        match self.tables.object(object) {
            Some(ObjectState::Live) => RefState::Live,
            Some(ObjectState::Revoked(reason)) => RefState::Revoked(taken_back(reason)),
            Some(ObjectState::Broken(reason)) => RefState::Broken(taken_back(reason)),
            None => RefState::Broken(taken_back(Reason::DISCONNECTED)),
        }
    }

    fn export(&mut self) -> Result<Reply, ReferenceError> {
        self.room_for_a_service()?;
        let object = self.tables.export();
        self.attached.insert(object);
        Ok(Reply::Handle(self.handle(object.into())))
    }

    fn attach(&mut self, kept: Token) -> Result<Reply, ReferenceError> {
        let local = self.kept_row(kept)?.local;
        let Some(object) = self.own(local) else {
            return Err(ReferenceError::NotOwn);
        };
        if !self.attached.contains(&object) {
            self.room_for_a_service()?;
        }
        self.tables.retain(local)?;
        self.attached.insert(object);
        Ok(Reply::Handle(self.handle(local)))
    }

    fn room_for_a_service(&self) -> Result<(), ReferenceError> {
        if self.attached.len() >= EXPORTS_MAX {
            return Err(ReferenceError::ExportsFull);
        }
        Ok(())
    }

    /// As [`answer`](Self::answer), unless the answer speaks of what the application does not hold.
    fn answer_held(
        &mut self,
        call: super::CallId,
        outcome: Outcome<Local>,
        now_ms: u64,
    ) -> Result<Reply, ReferenceError> {
        if outcome.refs().any(|&local| self.tables.handles(local) == 0) {
            return Err(ReferenceError::Tables(SendError::NotHeld));
        }
        self.answer(call, outcome, now_ms)
    }

    fn revoke(
        &mut self,
        object: LocalObject,
        hardness: Hardness,
        (reason, text): (Reason, &str),
        now_ms: u64,
    ) -> Result<Reply, ReferenceError> {
        let text = text.as_bytes();
        let step = self.tables.revoke(object, hardness, reason, text, now_ms)?;
        self.follow(step, now_ms);
        self.taken_back(object, reason, &text.into());
        Ok(Reply::Done)
    }

    fn keep(&mut self, local: Local, note: Vec<u8>) -> Result<Reply, ReferenceError> {
        if note.len() > NOTE_MAX_BYTES {
            let bytes = note.len();
            return Err(ReferenceError::NoteTooLong { bytes });
        }
        if self.kept.len() >= KEPT_MAX {
            return Err(ReferenceError::KeptFull);
        }
        self.tables.retain(local)?;
        let said = match local {
            Local::Object(object) => self.said.get(&object),
            Local::Promise(_) => None,
        };
        let taken_back = said.map(|(reason, said)| (*reason, said.to_vec()));
        self.numbers.next_kept = self.numbers.next_kept.saturating_add(1);
        self.keep_numbers();
        let id = Token(self.numbers.next_kept);
        let row = KeptRow {
            local,
            note,
            taken_back,
            tickets: Vec::new(),
        };
        self.change(Key::Kept(id).holds(&row));
        self.kept.insert(id, row);
        Ok(Reply::Kept(id))
    }

    fn restore(&mut self, kept: Token) -> Result<Reply, ReferenceError> {
        let local = self.kept_row(kept)?.local;
        self.tables.retain(local)?;
        Ok(Reply::Handle(self.handle(local)))
    }

    fn forget(&mut self, kept: Token, now_ms: u64) -> Result<Reply, ReferenceError> {
        let row = self.kept_row(kept)?;
        let (local, live) = (row.local, row.taken_back.is_none());
        if let Some(object) = self.own(local).filter(|_| live) {
            let holders = self.tables.importers(object).count();
            if holders > 0 {
                return Err(ReferenceError::HeldElsewhere { holders });
            }
        }
        if let Some(row) = self.kept.remove(&kept) {
            for digest in &row.tickets {
                self.tickets.remove(digest);
            }
        }
        self.change(Key::Kept(kept).is_gone());
        self.release(local, 1, now_ms);
        Ok(Reply::Done)
    }

    fn admit(&mut self, kept: Token, digest: [u8; 32]) -> Result<Reply, ReferenceError> {
        let row = self
            .kept
            .get_mut(&kept)
            .ok_or(ReferenceError::NotKept { number: kept.0 })?;
        if row.tickets.len() >= TICKETS_MAX {
            return Err(ReferenceError::TicketsFull);
        }
        row.tickets.push(digest);
        let change = Key::Kept(kept).holds(row);
        self.change(change);
        self.tickets.insert(digest, kept);
        Ok(Reply::Done)
    }

    fn redeem(
        &mut self,
        ask: AskId,
        peer: Did,
        secret: [u8; 32],
        now_ms: u64,
    ) -> Option<Result<Reply, ReferenceError>> {
        if peer == self.did {
            return Some(Err(ReferenceError::ToItself { did: peer }));
        }
        let Some(link) = self.link_to(peer) else {
            return Some(Err(ReferenceError::PeersFull));
        };
        let far = self.book.far(link)?;
        if far.door.is_some() {
            return Some(self.knock(link, secret, now_ms));
        }
        if !far.linked {
            return Some(Err(ReferenceError::Unreachable { peer }));
        }
        let waits = self.wait_for_epoch(link, ask, secret, now_ms);
        waits.err().map(Err)
    }

    fn kept_row(&self, kept: Token) -> Result<&KeptRow, ReferenceError> {
        let number = kept.0;
        self.kept
            .get(&kept)
            .ok_or(ReferenceError::NotKept { number })
    }

    /// The object, if it is this node's own.
    pub(super) fn own(&self, local: Local) -> Option<LocalObject> {
        match local {
            Local::Object(object) if self.tables.is_own(object) => Some(object),
            _ => None,
        }
    }
}
