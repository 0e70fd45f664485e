//! The accounts whose public keys are known here, and the sealing keys that follow.
//!
//! A Did is a hash, so whoever shows a key of that hash shows the account's. An Ed25519 account is sealed
//! to by the X25519 form of that key and by nothing else, whatever card anybody shows; an account of another
//! kind by its contact card, while that counts.

use std::collections::BTreeMap;

use overlane_core::Did;
use overlane_core::identity::{AccountKey, Verified};
use overlane_core::seal::{ContactCard, SealingKey};
use overlane_core::wire::cbor::to_vec;

/// Accounts whose keys are known at once. The one that was used longest ago is forgotten for another;
/// its key is asked for again when it is next needed.
pub const KEYS_MAX: usize = 4_096;

/// What is known of accounts.
#[derive(Debug, Default)]
pub(super) struct Keys {
    known: BTreeMap<Did, Known>,
    /// By when they were used last.
    order: BTreeMap<u64, Did>,
    uses: u64,
}

#[derive(Debug)]
struct Known {
    account: AccountKey,
    card: Option<Card>,
    used: u64,
}

#[derive(Debug)]
struct Card {
    key: SealingKey,
    bytes: Vec<u8>,
    last_ms: u64,
}

impl Keys {
    /// Notes an account; whether it is new.
    pub(super) fn learn(&mut self, did: Did, account: &AccountKey) -> bool {
        if self.known.contains_key(&did) {
            return false;
        }
        if self.known.len() >= KEYS_MAX
            && let Some((_, earliest)) = self.order.pop_first()
        {
            self.known.remove(&earliest);
        }
        self.uses += 1;
        let known = Known {
            account: account.clone(),
            card: None,
            used: self.uses,
        };
        self.order.insert(self.uses, did);
        self.known.insert(did, known);
        true
    }

    /// Notes the card of an account that is known.
    pub(super) fn learn_card(&mut self, card: &Verified<ContactCard>) {
        if let Some(known) = self.known.get_mut(&card.signer()) {
            known.card = Some(Card {
                key: card.subject().0,
                bytes: to_vec(card),
                last_ms: card.life().last_ms(),
            });
        }
    }

    /// The key that is sealed to for this account.
    pub(super) fn sealing_key(&mut self, did: Did, now_ms: u64) -> Option<SealingKey> {
        self.uses += 1;
        let uses = self.uses;
        let known = self.known.get_mut(&did)?;
        self.order.remove(&known.used);
        known.used = uses;
        self.order.insert(uses, did);
        let of_card = |card: &Card| (card.last_ms >= now_ms).then_some(card.key);
        let own = SealingKey::of_account(&known.account);
        own.or_else(|| known.card.as_ref().and_then(of_card))
    }

    /// What this node says of an account to whoever asks: its key, and its card.
    pub(super) fn told(&self, did: Did) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let Some(known) = self.known.get(&did) else {
            return (None, None);
        };
        let card = known.card.as_ref().map(|card| card.bytes.clone());
        (Some(known.account.to_protobuf().to_vec()), card)
    }

    /// How many are known.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use overlane_core::identity::Account;
    use zeroize::Zeroizing;

    use super::*;

    fn account(number: usize) -> Account {
        let mut seed = [1; 32];
        seed[..8].copy_from_slice(&number.to_be_bytes());
        Account::ed25519(Zeroizing::new(seed)).unwrap()
    }

    #[test]
    fn law_keys_are_bounded_and_the_one_used_longest_ago_is_forgotten() {
        let mut keys = Keys::default();
        let kept = account(0);
        assert!(keys.learn(kept.did(), kept.key()));
        assert!(!keys.learn(kept.did(), kept.key()));
        let first = account(1);
        for number in 1..KEYS_MAX {
            let account = account(number);
            assert!(keys.learn(account.did(), account.key()));
        }
        assert_eq!(keys.len(), KEYS_MAX);
        let key = SealingKey::of_account(kept.key());
        assert_eq!(keys.sealing_key(kept.did(), 0), key);
        let another = account(KEYS_MAX);
        assert!(keys.learn(another.did(), another.key()));
        assert_eq!((keys.len(), keys.order.len()), (KEYS_MAX, KEYS_MAX));
        assert_eq!(keys.sealing_key(kept.did(), 0), key);
        assert_eq!(keys.sealing_key(first.did(), 0), None);
    }
}
