//! Who holds whose inbox, by the ring: looked up for what is held here, for mail that others bring, and for
//! mail of this node's own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use overlane_core::replay::Now;
use overlane_core::ring::{RequestId, RingAnswer, RingError};
use overlane_core::{Coded, Did, Fault};
use overlane_relay::inbox::bounds::CHAIN;
use overlane_relay::log::Peer as Bringer;

use super::super::Peer;
use super::super::lanes::InboundLane;
use super::keeper::Job;

/// Lookups at a time.
pub const LOOKUPS_AT_ONCE: usize = 8;

/// Accounts that wait to be looked up.
pub const LOOKUPS_WAITING_MAX: usize = 8_192;

/// Mail of others that waits until its chain is known; more is refused with `inbox/busy`.
pub const DEPOSITS_WAITING_MAX: usize = 128;

/// Chains that are remembered.
pub const CHAINS_KNOWN_MAX: usize = 1_024;

/// Nodes that say they hold an account's mail, remembered until its chain is known.
pub const ANNOUNCED_MAX: usize = 8;

/// How long a chain is taken for right while nothing changes, in milliseconds.
pub const CHAIN_FRESH_MS: u64 = 30_000;

/// What is known of chains, and what is asked.
#[derive(Debug, Default)]
pub(super) struct Chains {
    known: BTreeMap<Did, (Vec<Did>, u64)>,
    lookups: BTreeMap<RequestId, Did>,
    waiting: VecDeque<Did>,
    wanted: BTreeSet<Did>,
    deposits: BTreeMap<Did, Vec<Deposit>>,
    deposited: usize,
    /// Who said that it holds mail for an account that waits to be looked up.
    announced: BTreeMap<Did, BTreeSet<Did>>,
}

/// Mail that another node brought.
#[derive(Debug)]
pub(super) struct Deposit {
    pub(super) payload: Vec<u8>,
    pub(super) by: Bringer,
    /// The lane whose place it holds.
    pub(super) lane: InboundLane,
}

/// Why mail of others is not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Declined {
    /// As much waits for its chain as may.
    Busy,
    /// This node is not in its chain.
    NotAHolder,
}

impl Coded for Declined {
    fn code(&self) -> &'static str {
        match self {
            Self::Busy => "inbox/busy",
            Self::NotAHolder => "inbox/not_a_holder",
        }
    }

    fn fault(&self) -> Fault {
        Fault::RefusedByBound
    }
}

impl Chains {
    fn fresh(&self, owner: &Did, steady_ms: u64) -> Option<&[Did]> {
        let (chain, at_ms) = self.known.get(owner)?;
        (at_ms.saturating_add(CHAIN_FRESH_MS) > steady_ms).then_some(chain)
    }

    fn want(&mut self, owner: Did) {
        if self.waiting.len() < LOOKUPS_WAITING_MAX && self.wanted.insert(owner) {
            self.waiting.push_back(owner);
        }
    }

    fn note(&mut self, owner: Did, chain: Vec<Did>, steady_ms: u64) {
        if self.known.len() >= CHAINS_KNOWN_MAX && !self.known.contains_key(&owner) {
            let oldest = self.known.iter().min_by_key(|it| it.1.1).map(|it| *it.0);
            oldest.and_then(|oldest| self.known.remove(&oldest));
        }
        self.known.insert(owner, (chain, steady_ms));
    }
}

impl Peer {
    /// Mail came for an account: it is kept if this node is in its chain.
    pub(super) fn take_deposit(&mut self, owner: Did, deposit: Deposit, now: Now) {
        let chains = &mut self.mail.chains;
        if let Some(chain) = chains.fresh(&owner, now.steady_ms) {
            let chain = chain.to_vec();
            return self.pass_deposit(owner, deposit, &chain, now);
        }
        if chains.deposited >= DEPOSITS_WAITING_MAX {
            return self.refuse_deposit(&deposit, Declined::Busy.code(), now);
        }
        chains.deposited += 1;
        chains.deposits.entry(owner).or_default().push(deposit);
        chains.want(owner);
    }

    /// Another node thinks that this one should hold an account's inbox.
    pub(super) fn handle_announced(&mut self, owner: Did, by: Did, now: Now) {
        let chains = &mut self.mail.chains;
        if chains.fresh(&owner, now.steady_ms).is_none() {
            chains.want(owner);
            let known = chains.wanted.contains(&owner);
            let said = known.then(|| chains.announced.entry(owner).or_default());
            if let Some(said) = said.filter(|said| said.len() < ANNOUNCED_MAX) {
                said.insert(by);
            }
        }
    }

    /// The ring changed, or it is time: what is held here is looked up again.
    pub(super) fn look_up_held(&mut self, changed: bool) {
        if changed {
            self.mail.chains.known.clear();
        }
        let owners: Vec<Did> = self.mail.holdings.inboxes.keys().copied().collect();
        for owner in owners {
            self.mail.chains.known.remove(&owner);
            self.mail.chains.want(owner);
        }
    }

    /// Who would hold mail of this node's own for `destination`.
    pub(super) fn look_up_for_sender(&mut self, destination: Did, now: Now) {
        let fresh = self.mail.chains.fresh(&destination, now.steady_ms);
        match fresh.map(<[Did]>::to_vec) {
            Some(chain) => self.holders_known(destination, Ok(&chain), now),
            None => self.mail.chains.want(destination),
        }
    }

    pub(super) fn forget_chain(&mut self, owner: Did) {
        self.mail.chains.known.remove(&owner);
    }

    /// Asks the ring, as far as it may be asked at a time. Whether there was anything.
    pub(super) fn pump_lookups(&mut self, now: Now) -> bool {
        let mut any = false;
        while self.mail.chains.lookups.len() < LOOKUPS_AT_ONCE {
            let Some(owner) = self.mail.chains.waiting.pop_front() else {
                break;
            };
            any = true;
            self.mail.chains.wanted.remove(&owner);
            let asked = match &mut self.ring.ring {
                Some(ring) => ring.chain(owner, now.steady_ms),
                None => Err(RingError::NotJoined),
            };
            match asked {
                Ok(request) => drop(self.mail.chains.lookups.insert(request, owner)),
                Err(error) => self.chain_known(owner, Err(error.code()), now),
            }
        }
        any
    }

    /// The ring's answer to one of these questions; whether it was one.
    pub(in crate::peer) fn chain_answered(
        &mut self,
        request: RequestId,
        result: &Result<RingAnswer, RingError>,
        now: Now,
    ) -> bool {
        let Some(owner) = self.mail.chains.lookups.remove(&request) else {
            return false;
        };
        let chain = match result {
            Ok(RingAnswer::Chain(chain)) => Ok(chain.clone()),
            Ok(_) => Err("ring/other_answer"),
            Err(error) => Err(error.code()),
        };
        self.chain_known(owner, chain, now);
        true
    }

    fn chain_known(&mut self, owner: Did, named: Result<Vec<Did>, &'static str>, now: Now) {
        let deposits = self.mail.chains.deposits.remove(&owner).unwrap_or_default();
        let announced = self.mail.chains.announced.remove(&owner);
        self.mail.chains.deposited -= deposits.len();
        let chain = named.map(|mut named| {
            let former = named.split_off(CHAIN.min(named.len()));
            (named, former)
        });
        match chain {
            Ok((chain, former)) => {
                let mine = chain.contains(&self.did);
                self.mail.chains.note(owner, chain.clone(), now.steady_ms);
                if mine || self.mail.holdings.inboxes.contains_key(&owner) {
                    let announced = announced.unwrap_or_default().into_iter();
                    let job = Job::Chain {
                        owner,
                        chain: chain.clone(),
                        asked: announced.filter(|by| former.contains(by)).collect(),
                        former,
                    };
                    self.keep(job, false, now);
                }
                for deposit in deposits {
                    self.pass_deposit(owner, deposit, &chain, now);
                }
                self.holders_known(owner, Ok(&chain), now);
            }
            Err(code) => {
                for deposit in deposits {
                    self.refuse_deposit(&deposit, code, now);
                }
                self.holders_known(owner, Err(code), now);
            }
        }
    }

    fn pass_deposit(&mut self, owner: Did, deposit: Deposit, chain: &[Did], now: Now) {
        if !chain.contains(&self.did) {
            return self.refuse_deposit(&deposit, Declined::NotAHolder.code(), now);
        }
        let Deposit { payload, by, lane } = deposit;
        self.mail.places.push_back(lane);
        let job = Job::Deposit {
            payload,
            by,
            owner,
            chain: chain.to_vec(),
            signer: self.signer.clone(),
        };
        self.keep(job, true, now);
    }
}
