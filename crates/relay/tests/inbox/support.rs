//! Real accounts, real mail, holders over a store in memory, and a network that delivers at once.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::identity::{
    Account, Delegatee, Delegation, Life, Signer, Verified, VerifyContext,
};
use overlane_core::seal::{SEALED_NAMESPACE, SealContext, SealingKey, seal};
use overlane_core::transaction::{
    Draft, Message, Namespace, PROOF_TTL_DEFAULT_MS, Payload, RelayFields, Transaction,
};
use overlane_core::{Coded, Did, NetworkId, TransactionDigest, TxId};
use overlane_relay::inbox::{Drain, DrainEvent, Event, Inboxes};
use overlane_relay::log::testkit::MemoryLogs;
use overlane_relay::log::{LogId, LogStore, Peer, Transmit};
use zeroize::Zeroizing;

pub(crate) const NETWORK: NetworkId = NetworkId(7);
pub(crate) const T0_MS: u64 = 1_700_000_000_000;
pub(crate) const OWNER: u8 = 100;

pub(crate) type Holder = Inboxes<MemoryLogs>;

fn secret(seed: u8) -> Zeroizing<[u8; 32]> {
    Zeroizing::new([seed; 32])
}

fn account(seed: u8) -> Account {
    Account::ed25519(secret(seed)).unwrap()
}

pub(crate) fn did(seed: u8) -> Did {
    account(seed).did()
}

pub(crate) fn peer(seed: u8) -> Peer {
    Peer {
        account: did(seed),
        slot: u32::from(seed),
    }
}

pub(crate) fn at(now_ms: u64) -> VerifyContext {
    VerifyContext {
        network: NETWORK,
        now_ms,
    }
}

pub(crate) fn signer(seed: u8) -> Signer {
    let delegatee = Delegatee::from_seed(secret(seed ^ 0x80));
    let life = Life {
        issued_ms: T0_MS - 1_000,
        ttl_ms: 30 * 24 * 3_600_000,
    };
    let delegation = Delegation::issue(&account(seed), &delegatee, NETWORK, life).unwrap();
    Signer::new(delegatee, delegation.verify(&at(T0_MS)).unwrap()).unwrap()
}

/// Mail number `sequence` of this origin to the owner, signed at `issued_ms`.
pub(crate) fn mail(origin: u8, sequence: u64, issued_ms: u64) -> Verified<Payload> {
    let context = SealContext {
        network: NETWORK,
        origin: did(origin),
        destination: did(OWNER),
    };
    let key = SealingKey::of_account(account(OWNER).key()).unwrap();
    let chat = Namespace::new("chat").unwrap();
    let body = seal(
        &key,
        &context,
        chat,
        &sequence.to_be_bytes(),
        secret(sequence as u8),
    );
    let body = body.unwrap();
    let life = Life {
        issued_ms,
        ttl_ms: PROOF_TTL_DEFAULT_MS,
    };
    let mut tx_id = [origin; 16];
    tx_id[..8].copy_from_slice(&sequence.to_be_bytes());
    let draft = Draft {
        destination: did(OWNER),
        tx_id: TxId(tx_id),
        sequence,
        message: Message::Application {
            namespace: Namespace::new(SEALED_NAMESPACE).unwrap(),
            body: &body,
        },
        life,
    };
    let origin = signer(origin);
    let transaction = Transaction::sign(&draft, &origin).unwrap();
    let relay = RelayFields::direct(did(OWNER));
    let payload = Payload::carry(transaction, relay, &origin, life).unwrap();
    payload.verify(&at(issued_ms)).unwrap()
}

/// Holders by name, an owner that drains, and what each was told.
pub(crate) struct World {
    pub(crate) holders: BTreeMap<u8, Holder>,
    pub(crate) drain: Drain,
    pub(crate) now_ms: u64,
    pub(crate) events: BTreeMap<u8, Vec<Event>>,
    /// What holders sent to accounts that are no holders.
    pub(crate) outside: Vec<Transmit>,
    /// Links that are cut.
    pub(crate) cut: BTreeSet<u8>,
    chain: Vec<u8>,
}

impl World {
    pub(crate) fn of(holders: &[u8]) -> Self {
        let mut this = Self {
            holders: BTreeMap::new(),
            drain: Drain::new(did(OWNER), at(T0_MS)),
            now_ms: T0_MS,
            events: BTreeMap::new(),
            outside: Vec::new(),
            cut: BTreeSet::new(),
            chain: Vec::new(),
        };
        for holder in holders {
            this.add(*holder);
        }
        this.set_chain(holders);
        this
    }

    pub(crate) fn add(&mut self, name: u8) {
        let holder = Inboxes::open(MemoryLogs::default(), NETWORK, did(name), self.now_ms);
        self.holders.insert(name, holder.unwrap());
    }

    /// The process of a holder ends and begins anew from what was durable.
    pub(crate) fn restart(&mut self, name: u8, chain: &[u8]) {
        let store = self.holders.remove(&name).unwrap().into_store().reopened();
        let mut holder = Inboxes::open(store, NETWORK, did(name), self.now_ms).unwrap();
        holder
            .set_chain(did(OWNER), chain.iter().map(|it| did(*it)), [])
            .unwrap();
        self.holders.insert(name, holder);
    }

    pub(crate) fn set_chain(&mut self, chain: &[u8]) {
        let before = std::mem::replace(&mut self.chain, chain.to_vec());
        let left: Vec<_> = before
            .iter()
            .filter(|it| !chain.contains(it))
            .map(|it| did(*it))
            .collect();
        for holder in self.holders.values_mut() {
            let chain = chain.iter().map(|it| did(*it));
            holder.set_chain(did(OWNER), chain, left.clone()).unwrap();
        }
        self.drain.set_holders(chain.iter().map(|it| did(*it)));
    }

    pub(crate) fn at(&mut self, holder: u8) -> &mut Holder {
        self.holders.get_mut(&holder).unwrap()
    }

    /// Puts mail in at a holder; its code if it is refused.
    pub(crate) fn deposit(
        &mut self,
        holder: u8,
        mail: Verified<Payload>,
        slot: u32,
    ) -> &'static str {
        let now_ms = self.now_ms;
        let by = Peer {
            account: mail.origin(),
            slot,
        };
        let at = self.at(holder);
        match at.handle_deposit(mail, by, &signer(holder), now_ms) {
            Ok(()) => {
                at.flush(now_ms).unwrap();
                "held"
            }
            Err(error) => error.code(),
        }
    }

    /// Every holder reconciles with every other of the chain.
    pub(crate) fn reconcile(&mut self, chain: &[u8]) {
        let names: Vec<u8> = self.holders.keys().copied().collect();
        for one in names {
            for other in chain.iter().filter(|it| **it != one) {
                let now_ms = self.now_ms;
                if !self.cut.contains(other) && !self.cut.contains(&one) {
                    self.at(one)
                        .reconcile(did(OWNER), did(*other), now_ms)
                        .unwrap();
                    self.settle();
                }
            }
        }
    }

    /// Delivers until nobody has anything to say.
    pub(crate) fn settle(&mut self) {
        for _ in 0..1_000 {
            let now_ms = self.now_ms;
            let mut log_frames = Vec::new();
            let mut frames = Vec::new();
            for (name, holder) in &mut self.holders {
                holder.flush(now_ms).unwrap();
                let from = did(*name);
                while let Some(it) = holder.poll_log_transmit().unwrap() {
                    log_frames.push((from, it));
                }
                while let Some(it) = holder.poll_transmit() {
                    frames.push((from, it));
                }
                let told = self.events.entry(*name).or_default();
                told.extend(std::iter::from_fn(|| holder.poll_event()));
            }
            let owner = did(OWNER);
            while let Some(it) = self.drain.poll_log_transmit() {
                log_frames.push((owner, it));
            }
            while let Some(it) = self.drain.poll_transmit() {
                frames.push((owner, it));
            }
            if log_frames.is_empty() && frames.is_empty() {
                return;
            }
            for (from, it) in log_frames {
                self.deliver(from, it, true);
            }
            for (from, it) in frames {
                self.deliver(from, it, false);
            }
        }
        panic!("they never come to rest");
    }

    fn deliver(&mut self, from: Did, transmit: Transmit, of_log: bool) {
        let now_ms = self.now_ms;
        let cut = self
            .cut
            .iter()
            .any(|it| did(*it) == from || did(*it) == transmit.to);
        if cut {
            return;
        }
        if transmit.to == did(OWNER) {
            match of_log {
                true => self.drain.handle_log_frame(from, &transmit.frame, now_ms),
                false => self.drain.handle_frame(from, &transmit.frame),
            }
            return;
        }
        let holder = self.holders.iter_mut().find(|it| did(*it.0) == transmit.to);
        let Some((_, holder)) = holder else {
            self.outside.push(transmit);
            return;
        };
        let by = Peer {
            account: from,
            slot: 1,
        };
        match of_log {
            true => holder
                .handle_log_frame(by, &transmit.frame, now_ms)
                .unwrap(),
            // What does not count is refused, and nothing else is concerned.
            false => drop(holder.handle_frame(by, &transmit.frame, now_ms)),
        }
    }

    /// The owner asks these holders. Gives what it fetched.
    pub(crate) fn drain_from(&mut self, holders: &[u8]) -> Vec<TransactionDigest> {
        for holder in holders {
            self.drain.start(did(*holder), self.now_ms);
        }
        self.settle();
        let mut fetched = Vec::new();
        while let Some(event) = self.drain.poll_event() {
            if let DrainEvent::Fetched(mail) = event {
                fetched.push(mail.digest());
            }
        }
        fetched
    }

    /// The application took these.
    pub(crate) fn take(&mut self, digests: &[TransactionDigest]) {
        for digest in digests {
            self.drain.handle_taken(*digest);
        }
        self.drain.sign_removals(&signer(OWNER), self.now_ms);
        self.settle();
    }

    /// Digests held, by holder.
    pub(crate) fn held(&mut self, holder: u8) -> BTreeSet<TransactionDigest> {
        let log = LogId::inbox(&did(OWNER));
        let entries = self
            .at(holder)
            .logs()
            .store()
            .entries(&log, 0, 999)
            .unwrap();
        entries
            .into_iter()
            .map(|it| TransactionDigest(it.id.0))
            .collect()
    }
}
