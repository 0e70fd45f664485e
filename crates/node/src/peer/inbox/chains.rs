//! Who holds whose inbox, by the ring: looked up for what is held here, for mail that others bring, and for
//! mail of this node's own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use overlane_core::replay::Now;
use overlane_core::ring::{RequestId, RingAnswer, RingError};
use overlane_core::{Coded, Did, Fault};
use overlane_relay::inbox::bounds::{CHAIN, INBOXES_MAX};
use overlane_relay::log::Peer as Bringer;

use super::super::Peer;
use super::super::lanes::InboundLane;
use super::heirs::{HEIRS_SOUGHT_MAX, HEIRS_WAITING_MAX};
use super::keeper::Job;
use super::sender::SENDING_MAX;

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

/// Accounts that wait to be looked up because other nodes say that they hold their mail; more are not
/// looked up, and said again by those who do hold some.
pub const ANNOUNCED_OWNERS_MAX: usize = 1_024;

/// How long a chain is taken for right while nothing changes, in milliseconds.
pub const CHAIN_FRESH_MS: u64 = 30_000;

// Whoever wants a lookup has a place for it: nobody's mail waits for one that is not made.
const _: () = assert!(
    INBOXES_MAX
        + ANNOUNCED_OWNERS_MAX
        + DEPOSITS_WAITING_MAX
        + SENDING_MAX
        + HEIRS_WAITING_MAX
        + HEIRS_SOUGHT_MAX
        <= LOOKUPS_WAITING_MAX
);

/// What is known of chains, and what is asked.
#[derive(Debug, Default)]
pub(super) struct Chains {
    known: BTreeMap<Did, (Vec<Did>, u64)>,
    lookups: BTreeMap<RequestId, Did>,
    waiting: VecDeque<Did>,
    /// Those that a user's own mail waits for: they go before all others.
    first: VecDeque<Did>,
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

    /// Whether it is looked up.
    fn want(&mut self, owner: Did) -> bool {
        if self.wanted.contains(&owner) {
            return true;
        }
        let room = self.wanted.len() < LOOKUPS_WAITING_MAX;
        if room {
            self.wanted.insert(owner);
            self.waiting.push_back(owner);
        }
        room
    }

    /// The same, before all that nobody's own mail waits for.
    fn want_first(&mut self, owner: Did) -> bool {
        let wanted = self.want(owner);
        if let Some(place) = self.waiting.iter().position(|it| *it == owner) {
            self.waiting.remove(place);
            self.first.push_back(owner);
        }
        wanted
    }

    /// What is looked up next.
    fn next(&mut self) -> Option<Did> {
        let owner = self
            .first
            .pop_front()
            .or_else(|| self.waiting.pop_front())?;
        self.wanted.remove(&owner);
        Some(owner)
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
        if chains.deposited >= DEPOSITS_WAITING_MAX || !chains.want(owner) {
            return self.refuse_deposit(&deposit, Declined::Busy.code(), now);
        }
        chains.deposited += 1;
        chains.deposits.entry(owner).or_default().push(deposit);
    }

    /// Another node thinks that this one should hold an account's inbox.
    pub(super) fn handle_announced(&mut self, owner: Did, by: Did, now: Now) {
        let chains = &mut self.mail.chains;
        let room = chains.announced.len() < ANNOUNCED_OWNERS_MAX;
        let room = room || chains.announced.contains_key(&owner);
        if room && chains.fresh(&owner, now.steady_ms).is_none() && chains.want(owner) {
            let said = chains.announced.entry(owner).or_default();
            if said.len() < ANNOUNCED_MAX {
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

    /// Who would hold mail of this node's own for `destination`; `first` of what its user sends now. Whether there was a
    /// place for it.
    pub(super) fn look_up(&mut self, destination: Did, first: bool, now: Now) -> bool {
        let chains = &mut self.mail.chains;
        let fresh = chains.fresh(&destination, now.steady_ms);
        match fresh.map(<[Did]>::to_vec) {
            Some(chain) => {
                self.holders_known(destination, Ok(&chain), now);
                true
            }
            None if first => chains.want_first(destination),
            None => chains.want(destination),
        }
    }

    pub(super) fn forget_chain(&mut self, owner: Did) {
        self.mail.chains.known.remove(&owner);
    }

    /// Asks the ring, as far as it may be asked at a time. Whether there was anything.
    pub(super) fn pump_lookups(&mut self, now: Now) -> bool {
        let mut any = false;
        while self.mail.chains.lookups.len() < LOOKUPS_AT_ONCE {
            let Some(owner) = self.mail.chains.next() else {
                break;
            };
            any = true;
            let alone = self.ring.is_alone();
            let asked = match &mut self.ring.ring {
                // It is alone in its ring, whoever it knew before: every place there is its own.
                Some(_) if alone => {
                    self.chain_known(owner, Ok(vec![self.did]), now);
                    continue;
                }
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
        if let Some(failure) = self.mail.failure() {
            return self.refuse_deposit(&deposit, failure.code(), now);
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

#[cfg(test)]
mod tests {
    use overlane_core::Class;

    use super::super::fixture::{NOW, peer};
    use super::*;

    fn owner(number: usize) -> Did {
        let mut did = [9; 20];
        did[..8].copy_from_slice(&number.to_be_bytes());
        Did(did)
    }

    fn deposit() -> Deposit {
        let account = Did([5; 20]);
        Deposit {
            payload: Vec::new(),
            by: Bringer { account, slot: 1 },
            lane: (account, Class::Storage),
        }
    }

    #[test]
    fn law_who_announces_inboxes_leaves_lookups_their_places() {
        let mut peer = peer();
        for number in 0..2 * ANNOUNCED_OWNERS_MAX {
            peer.handle_announced(owner(number), Did([6; 20]), NOW);
        }
        let chains = &peer.mail.chains;
        assert_eq!(chains.waiting.len(), ANNOUNCED_OWNERS_MAX);
        assert_eq!(chains.announced.len(), ANNOUNCED_OWNERS_MAX);
        // Another that says so of one of them is heard.
        peer.handle_announced(owner(0), Did([7; 20]), NOW);
        assert_eq!(peer.mail.chains.announced[&owner(0)].len(), 2);
        peer.take_deposit(owner(usize::MAX), deposit(), NOW);
        assert!(peer.mail.chains.wanted.contains(&owner(usize::MAX)));
    }

    #[test]
    fn law_what_a_user_sends_is_looked_up_before_all_else_in_its_order() {
        let mut peer = peer();
        for number in 0..4 {
            assert!(peer.look_up(owner(number), false, NOW));
        }
        for number in [9, 2, 9, 8] {
            assert!(peer.look_up(owner(number), true, NOW));
        }
        // What is looked up for somebody is not looked up twice.
        assert!(peer.look_up(owner(2), false, NOW));
        let chains = &mut peer.mail.chains;
        let order: Vec<Did> = std::iter::from_fn(|| chains.next()).collect();
        assert_eq!(order, [9, 2, 8, 0, 1, 3].map(owner));
        assert!(chains.wanted.is_empty());
    }

    /// Mail that no lookup is made for would hold its place on its lane for ever.
    #[test]
    fn law_mail_waits_only_for_a_lookup_that_is_made() {
        let mut peer = peer();
        let filled = (0..).take_while(|&number| peer.mail.chains.want(owner(number)));
        assert_eq!(filled.count(), LOOKUPS_WAITING_MAX);
        peer.take_deposit(owner(usize::MAX), deposit(), NOW);
        let chains = &peer.mail.chains;
        assert_eq!((chains.deposited, chains.deposits.len()), (0, 0));
        peer.take_deposit(owner(0), deposit(), NOW);
        assert_eq!(peer.mail.chains.deposited, 1);
    }
}
