//! Keys that are not known here: asked for at the account itself, and where that does not answer, at those that
//! lie behind its place, who were linked to it and hold its mail.
//!
//! Law **bounded**: so many destinations at a time, and for each one the account, one look-up, and the chain,
//! one after another. Whoever tells a key, it is one if its hash is the account's Did.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::identity::{AccountKey, KeyKind, Life};
use overlane_core::ring::{RequestId, RingAnswer, RingError};
use overlane_core::seal::{CARD_TTL_MAX_MS, CardSubject, ContactCard};
use overlane_core::wire::cbor::{from_slice, to_vec};
use overlane_core::{Coded, Did, Fault};
use overlane_relay::inbox::bounds::CHAIN;

use super::super::{Now, Peer, SendError};
use super::sealing::{ASKED_KEYS_MAX, no_key};

/// What is asked for.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// Destinations whose keys are asked for.
    asked: BTreeSet<Did>,
    requests: BTreeMap<RequestId, (Did, Step)>,
}

/// Who is asked for a key.
#[derive(Debug)]
enum Step {
    /// The account itself.
    Itself,
    /// Nobody: the ring is asked who lies behind its place.
    Chain,
    /// One of those; the rest come after it.
    Behind(Vec<Did>),
}

/// What an answer about a key does not hold.
struct NotToldOf;

impl Coded for NotToldOf {
    fn code(&self) -> &'static str {
        "seal/not_told"
    }

    fn fault(&self) -> Fault {
        Fault::Unreachable
    }
}

impl Peer {
    /// Asks for a destination's key, unless it is being asked for. Where nothing leads there, nobody is asked: what is
    /// to be held needs a key that is known.
    pub(super) fn ask_key(&mut self, destination: Did, now: Now) -> Result<(), SendError> {
        if self.way(destination, (None, None)).is_none() {
            return Err(SendError::Unreachable { destination });
        }
        if self.sealing.asking.asked.contains(&destination) {
            return Ok(());
        }
        if self.sealing.asking.asked.len() >= ASKED_KEYS_MAX {
            return Err(SendError::KeysAsked);
        }
        let Some(ring) = &mut self.ring.ring else {
            return Err(no_key(destination, &RingError::NotJoined));
        };
        let asked = ring.ask_key(destination, destination, now.steady_ms);
        let request = asked.map_err(|error| no_key(destination, &error))?;
        self.counters.keys_asked = self.counters.keys_asked.saturating_add(1);
        let asking = &mut self.sealing.asking;
        asking.asked.insert(destination);
        asking.requests.insert(request, (destination, Step::Itself));
        Ok(())
    }

    /// The answer to a request, if it was for a key.
    pub(in crate::peer) fn key_answered(
        &mut self,
        request: RequestId,
        result: &Result<RingAnswer, RingError>,
        now: Now,
    ) -> bool {
        let Some((destination, step)) = self.sealing.asking.requests.remove(&request) else {
            return false;
        };
        if let Ok(RingAnswer::Key { account, card }) = result {
            self.learn_told(destination, account.as_deref(), card.as_deref(), now);
        }
        let known = self.sealing.keys.sealing_key(destination, now.wall_ms);
        let next = match (known, step, result) {
            (Some(_), ..) => None,
            (None, Step::Itself, _) => self.ask_who_is_behind(destination, now),
            (None, Step::Chain, Ok(RingAnswer::Chain(chain))) => {
                let chain = chain.iter().take(CHAIN).copied();
                self.ask_one_behind(destination, chain.collect(), now)
            }
            (None, Step::Chain, _) => None,
            (None, Step::Behind(rest), _) => self.ask_one_behind(destination, rest, now),
        };
        if next.is_some() {
            return true;
        }
        self.sealing.asking.asked.remove(&destination);
        let why = match result {
            Err(error) => no_key(destination, error),
            Ok(_) => no_key(destination, &NotToldOf),
        };
        for stream in self.sealing.lines.of(destination) {
            if known.is_none() {
                self.give_up_keys(stream, &why);
            }
            self.move_line(stream, now);
        }
        true
    }

    /// The account does not answer, or tells none.
    fn ask_who_is_behind(&mut self, destination: Did, now: Now) -> Option<()> {
        let ring = self.ring.ring.as_mut()?;
        let request = ring.chain(destination, now.steady_ms).ok()?;
        let asking = (destination, Step::Chain);
        self.sealing.asking.requests.insert(request, asking);
        Some(())
    }

    /// The next of those behind it, if there is one.
    fn ask_one_behind(&mut self, destination: Did, mut rest: Vec<Did>, now: Now) -> Option<()> {
        // What this node knows itself, it was not asked for.
        rest.retain(|it| *it != self.did);
        while !rest.is_empty() {
            let to = rest.remove(0);
            let ring = self.ring.ring.as_mut()?;
            if let Ok(request) = ring.ask_key(to, destination, now.steady_ms) {
                let asking = (destination, Step::Behind(rest));
                self.sealing.asking.requests.insert(request, asking);
                return Some(());
            }
        }
        None
    }

    /// What somebody says of an account: a key of its hash is its key, and a card that it signed is its
    /// card; anything else is nothing.
    fn learn_told(&mut self, of: Did, account: Option<&[u8]>, card: Option<&[u8]>, now: Now) {
        let account = account.and_then(|bytes| AccountKey::from_protobuf(bytes).ok());
        if let Some(account) = account.filter(|account| account.did() == of) {
            self.note_account(of, &account, now);
        }
        let card = card.and_then(|bytes| from_slice::<ContactCard>(bytes).ok());
        let card = card.and_then(|card| card.verify(&self.verify_context(now)).ok());
        if let Some(card) = card.filter(|card| card.signer() == of) {
            self.sealing.keys.learn_card(&card);
        }
    }

    /// What this node says of an account to whoever asks: of its own, and of those it knows.
    pub(in crate::peer) fn key_told(
        &self,
        of: Did,
        now: Now,
    ) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        if of != self.did {
            return self.sealing.keys.told(of);
        }
        let account = self.signer.delegation().account();
        let card = match (&self.sealing.secret, account.kind()) {
            (Some(secret), kind) if kind != KeyKind::Ed25519 => {
                let life = Life {
                    issued_ms: now.wall_ms,
                    ttl_ms: CARD_TTL_MAX_MS,
                };
                ContactCard::sign(CardSubject(secret.key()), &self.signer, life).ok()
            }
            _ => None,
        };
        let card = card.map(|card| to_vec(&card));
        (Some(account.to_protobuf().to_vec()), card)
    }
}

#[cfg(test)]
mod tests {
    use overlane_core::NetworkId;
    use overlane_core::identity::{
        Account, DELEGATION_TTL_DEFAULT_MS, Delegatee, Delegation, Signer, VerifyContext,
    };
    use zeroize::Zeroizing;

    use std::sync::Arc;

    use overlane_core::seal::{SealingKey, SealingSecret};

    use super::*;

    const NOW: Now = Now {
        wall_ms: 1_900_000_000_000,
        steady_ms: 0,
    };

    fn signer(account: &Account) -> Signer {
        let (network, now_ms) = (NetworkId(7), NOW.wall_ms);
        let life = Life {
            issued_ms: now_ms,
            ttl_ms: DELEGATION_TTL_DEFAULT_MS,
        };
        let delegatee = Delegatee::from_seed(Zeroizing::new([2; 32]));
        let delegation = Delegation::issue(account, &delegatee, network, life).unwrap();
        let delegation = delegation.verify(&VerifyContext { network, now_ms });
        Signer::new(delegatee, delegation.unwrap()).unwrap()
    }

    fn card(account: &Account, key: SealingKey, issued_ms: u64) -> Vec<u8> {
        let life = Life {
            issued_ms,
            ttl_ms: 60_000,
        };
        to_vec(&ContactCard::sign(CardSubject(key), &signer(account), life).unwrap())
    }

    #[test]
    fn law_a_key_counts_by_its_hash_and_a_card_by_its_signature() {
        let own = Account::ed25519(Zeroizing::new([1; 32])).unwrap();
        let edwards = Account::ed25519(Zeroizing::new([3; 32])).unwrap();
        let other = Account::secp256k1(Zeroizing::new([4; 32])).unwrap();
        let evil = Account::ed25519(Zeroizing::new([5; 32])).unwrap();
        let mut peer = Peer::new(Arc::new(signer(&own)), None, NOW);
        let mut told = |of: &Account, key: Option<&Account>, card: Option<&[u8]>, wall_ms: u64| {
            let now = Now { wall_ms, ..NOW };
            let key = key.map(|account| account.key().to_protobuf().to_vec());
            peer.learn_told(of.did(), key.as_deref(), card, now);
            peer.sealing.keys.sealing_key(of.did(), wall_ms)
        };
        let its_own = SealingKey::of_account(edwards.key());
        let evils = SealingSecret::for_account(&evil).unwrap().key();
        let cards = SealingSecret::for_account(&other).unwrap().key();
        let at_ms = NOW.wall_ms;
        // Another's key, and none.
        assert_eq!(told(&edwards, Some(&evil), None, at_ms), None);
        assert_eq!(told(&edwards, None, None, at_ms), None);
        // Its own key; and no card changes that, signed by itself or by another.
        assert_eq!(told(&edwards, Some(&edwards), None, at_ms), its_own);
        for by in [&edwards, &evil] {
            let card = card(by, evils, at_ms);
            assert_eq!(told(&edwards, None, Some(&card), at_ms), its_own);
        }
        // An account of another kind: by its own card alone, and while that counts.
        assert_eq!(told(&other, Some(&other), None, at_ms), None);
        let forged = card(&evil, evils, at_ms);
        assert_eq!(told(&other, None, Some(&forged), at_ms), None);
        let early = card(&other, cards, at_ms + 60_000);
        assert_eq!(told(&other, None, Some(&early), at_ms), None);
        let good = card(&other, cards, at_ms);
        assert_eq!(told(&other, None, Some(&good), at_ms), Some(cards));
        assert_eq!(told(&other, None, None, at_ms + 60_000), Some(cards));
        assert_eq!(told(&other, None, None, at_ms + 60_001), None);
        assert_eq!(peer.keys_known(), 2);
    }
}
