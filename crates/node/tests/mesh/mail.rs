//! The mail's part of a mesh: keepers over stores in memory, and an application that takes.

#![allow(
    dead_code,
    reason = "a mesh serves several tests, each with its part of it"
)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use overlane_core::identity::Signer;
use overlane_core::mail::MAIL_LIFE_DEFAULT_MS;
use overlane_core::replay::Now;
use overlane_core::seal::{SEALED_NAMESPACE, SealContext, SealingSecret, open, seal};
use overlane_core::transaction::{Data, Message, Namespace, Payload};
use overlane_core::{Coded, Did, TransactionDigest, TxId};
use overlane_node::inbox::{
    Arrived, Effect, InboxError, Job, Keeper, MailEvent, MailStatus, Said, TakeId, Told, Work,
};
use overlane_node::peer::{Event, Outgoing, Peer, SealSeed, SendId};
use overlane_relay::log::testkit::MemoryLogs;
use overlane_relay::log::{LogId, LogStore};
use zeroize::Zeroizing;

use super::broken::Broken;
use super::{Mesh, NETWORK, data_in};

/// What one node of a mesh has of mail.
#[derive(Default)]
pub(crate) struct Mail {
    keeper: Option<Keeper<MemoryLogs>>,
    /// What is durable while the node is crashed.
    store: Option<MemoryLogs>,
    /// What is durable in a broken mesh: nothing that came since.
    before: Option<MemoryLogs>,
    mails_max: u64,
    work: VecDeque<Work>,
    /// Where its messages are, by their sends.
    pub(crate) arrived: BTreeMap<SendId, Result<Arrived, InboxError>>,
    /// Everything its application ever took: who sent it, what it says.
    pub(crate) taken: Vec<(TransactionDigest, Vec<u8>)>,
    pub(crate) not_taken: Vec<&'static str>,
    next_take: u64,
    /// Whether its keeper waits for a disk: nothing it is given is done.
    pub(crate) is_stuck: bool,
    /// Whether its keeper broke off.
    is_broken: bool,
}

impl Mail {
    /// Has a store of mail from its next start on.
    pub(crate) fn give_store(&mut self, mails_max: u64) {
        self.before = Some(MemoryLogs::default());
        self.mails_max = mails_max;
    }

    pub(super) fn start(&mut self, peer: &mut Peer, own: Did, life: u8, now: Now) {
        let Some(store) = self.store.take() else {
            return;
        };
        let keeper = Keeper::open(store.reopened(), NETWORK, own, self.mails_max, now.wall_ms);
        self.keeper = Some(keeper.unwrap());
        peer.open_inbox([life; 32], now);
    }

    pub(super) fn crash(&mut self, loses_the_last: bool) {
        let store = self.keeper.take().map(Keeper::into_store);
        self.store = match self.before.take() {
            Some(before) if loses_the_last || store.is_none() => Some(before),
            _ => store,
        };
        self.work.clear();
    }

    pub(super) fn has_work(&self) -> bool {
        !self.work.is_empty() && !self.is_stuck
    }

    pub(super) fn note_work(&mut self, work: Work, own: Did, broken: Option<Broken>) {
        if let (Some(Broken::MailDroppedByLeaver), Job::Chain { owner, chain, .. }) =
            (broken, &work.job)
            && !chain.contains(&own)
            && let Some(keeper) = &mut self.keeper
        {
            let log = LogId::inbox(owner);
            let entries = keeper.inboxes().logs().store().entries(&log, 0, 999);
            for entry in entries.unwrap() {
                keeper.inboxes().logs().remove(&log, &entry.id).unwrap();
            }
        }
        self.work.push_back(work);
    }

    pub(super) fn note(&mut self, effect: Effect) {
        match effect {
            Effect::Arrived(id, result) => {
                let told = self.arrived.insert(id, result);
                assert_eq!(told, None, "a message is in one place");
            }
            Effect::Taken(_, Ok(delivery)) => {
                let payload = delivery.item();
                let body = payload.message().body().to_vec();
                self.taken.push((payload.digest(), body));
            }
            Effect::Taken(_, Err(error)) => self.not_taken.push(error.code()),
        }
    }

    pub(super) fn release(&mut self, event: &Event, signer: &Arc<Signer>, now: Now) {
        if let Event::Mail(MailEvent::Waits { digest, .. }) = event {
            let sign = Job::SignRemovals(Arc::clone(signer));
            for job in [Job::Taken(*digest), sign] {
                self.work.push_back(Work {
                    job,
                    now_ms: now.wall_ms,
                    holds_place: false,
                });
            }
        }
    }
}

/// What is told of a keeper that broke off.
fn broke_off() -> Told {
    Told::Failed("it broke off".to_owned())
}

impl Mesh {
    /// Gives every node a store of mail, and starts it again with it.
    pub(crate) fn with_mail(&mut self, mails_max: u64) {
        for index in 0..self.nodes.len() {
            let mail = &mut self.nodes[index].mail;
            mail.store = Some(MemoryLogs::default());
            mail.mails_max = mails_max;
            self.start(index, true);
        }
    }

    pub(super) fn keep_mail(&mut self, index: usize) {
        let (now, broken) = (self.now(index), self.broken);
        let mail = &mut self.nodes[index].mail;
        let Some(keeper) = &mut mail.keeper else {
            mail.work.clear();
            // As of a thread that is gone.
            if mail.is_broken {
                self.peer(index).handle_kept(vec![broke_off()], now);
                self.drain(index);
            }
            return;
        };
        if broken == Some(Broken::MailToldBeforeDurable) && mail.before.is_none() {
            mail.before = Some(keeper.inboxes().logs().store().clone());
        }
        for work in mail.work.drain(..) {
            keeper.handle(work);
        }
        let told = keeper.flush(now.wall_ms);
        self.peer(index).handle_kept(told, now);
        self.drain(index);
    }

    /// A node's keeper of mail breaks off: what it was given is answered by nobody.
    pub(crate) fn keeper_breaks(&mut self, index: usize) {
        let (now, broken) = (self.now(index), self.broken);
        let mail = &mut self.nodes[index].mail;
        mail.store = mail.keeper.take().map(Keeper::into_store);
        (mail.is_stuck, mail.is_broken) = (false, true);
        mail.work.clear();
        if broken != Some(Broken::KeeperBreaksUntold) {
            self.peer(index).handle_kept(vec![broke_off()], now);
        }
        self.drain(index);
    }

    /// Has a node seal this to another and send it, to be delivered or held.
    pub(crate) fn mail_to_seal(&mut self, from: usize, to: Did, data: Data) -> SendId {
        let id = self.next_send(from);
        let mut name = [8; 16];
        name[..8].copy_from_slice(&id.0.to_be_bytes());
        let now = self.now(from);
        let seed = SealSeed::new(Zeroizing::new([5; 32]));
        let outgoing = Outgoing::new(to, data, TxId(name)).sealed(seed);
        self.peer(from).send_or_hold(id, outgoing, now);
        self.drain(from);
        id
    }

    /// Has a node send what is sealed to another, to be delivered or held.
    pub(crate) fn mail(&mut self, from: usize, to: usize, body: &[u8]) -> SendId {
        let (origin, destination) = (self.nodes[from].did, self.nodes[to].did);
        let context = SealContext {
            network: NETWORK,
            origin,
            destination,
        };
        let key = self.sealing(to).key();
        let chat = Namespace::new("chat").unwrap();
        let seed = Zeroizing::new([u8::try_from(body.len() % 251).unwrap(); 32]);
        let sealed = seal(&key, &context, chat, body, seed).unwrap();
        self.mail_data(from, destination, data_in(SEALED_NAMESPACE, &sealed))
    }

    pub(crate) fn mail_data(&mut self, from: usize, to: Did, data: Data) -> SendId {
        let id = self.next_send(from);
        let mut name = [9; 16];
        name[..8].copy_from_slice(&id.0.to_be_bytes());
        let now = self.now(from);
        let outgoing = Outgoing::new(to, data, TxId(name));
        self.peer(from).send_or_hold(id, outgoing, now);
        self.drain(from);
        id
    }

    /// Has a node say this about mail, as whoever breaks the protocol does.
    pub(crate) fn say_of_mail(&mut self, from: usize, to: Did, said: &Said) {
        let data = said.to_data().unwrap();
        self.send_data(from, to, data);
    }

    /// Has a node's application take the mail that came first.
    pub(crate) fn take_mail(&mut self, index: usize) {
        let now = self.now(index);
        let mail = &mut self.nodes[index].mail;
        mail.next_take += 1;
        let id = TakeId(mail.next_take);
        self.peer(index).take_mail(id, None, now);
        self.drain(index);
    }

    /// Has it take all that waits, and gives what it ever took, opened.
    pub(crate) fn take_all(&mut self, index: usize) -> Vec<Vec<u8>> {
        for _ in 0..self.mail_of(index).waiting.len() {
            self.take_mail(index);
        }
        self.run_for(2_000);
        self.opened(index)
    }

    /// Whether a node says to another that it is not linked to that it is here.
    pub(super) fn seeks(&self, index: usize, frame: &[u8]) -> bool {
        let Ok(payload) = Payload::from_frame(frame) else {
            return false;
        };
        let transaction = payload.transaction();
        let (stream, _) = transaction.claims().unwrap();
        let far = self
            .nodes
            .iter()
            .position(|it| it.did == stream.destination);
        let here = match transaction.data().message() {
            Message::Storage(body) => Said::from_body(body) == Ok(Said::Here),
            _ => false,
        };
        let own = stream.origin == self.nodes[index].did;
        own && here && far.is_some_and(|far| !self.linked(index, far))
    }

    fn sealing(&self, index: usize) -> SealingSecret {
        SealingSecret::for_account(&self.nodes[index].account).unwrap()
    }

    /// What a node's application took, opened; and that it took nothing twice.
    pub(crate) fn opened(&mut self, index: usize) -> Vec<Vec<u8>> {
        let taken = &self.nodes[index].mail.taken;
        let digests: BTreeSet<_> = taken.iter().map(|it| it.0).collect();
        assert_eq!(digests.len(), taken.len(), "a mail was taken twice");
        let secret = self.sealing(index);
        let destination = self.nodes[index].did;
        let origins: Vec<Did> = self.nodes.iter().map(|it| it.did).collect();
        let one = |body: &Vec<u8>| {
            let mut opened = origins.iter().filter_map(|&origin| {
                let context = SealContext {
                    network: NETWORK,
                    origin,
                    destination,
                };
                open(&secret, &context, body).ok()
            });
            opened.next().expect("it opens").message().body().to_vec()
        };
        taken.iter().map(|it| one(&it.1)).collect()
    }

    pub(crate) fn mail_of(&mut self, index: usize) -> MailStatus {
        self.peer(index).mail()
    }

    /// Mails that a node holds for another, also while it is crashed.
    pub(crate) fn held(&mut self, holder: usize, owner: usize) -> usize {
        let log = LogId::inbox(&self.nodes[owner].did);
        let mail = &mut self.nodes[holder].mail;
        let entries = match (&mut mail.keeper, &mut mail.store) {
            (Some(keeper), _) => keeper.inboxes().logs().store().entries(&log, 0, 9_999),
            (None, Some(store)) => store.entries(&log, 0, 9_999),
            (None, None) => return 0,
        };
        entries.unwrap().len()
    }

    /// The nodes that a receipt of this send is of; none if it was not held.
    pub(crate) fn holders(&mut self, from: usize, id: SendId) -> Vec<usize> {
        let Some(Ok(Arrived::Held(receipts))) = self.nodes[from].mail.arrived.get(&id) else {
            return Vec::new();
        };
        let now_ms = self.now_ms;
        let lives = |until_ms| until_ms > now_ms && until_ms <= now_ms + MAIL_LIFE_DEFAULT_MS;
        assert!(receipts.iter().all(|it| lives(it.until_ms())));
        let by: BTreeSet<Did> = receipts.iter().map(|it| it.signer()).collect();
        let nodes = (0..self.nodes.len()).filter(|&it| by.contains(&self.nodes[it].did));
        nodes.collect()
    }
}
