//! The key file of a home whose account is kept elsewhere: a delegatee's key, and the account's word on it.
//!
//! Law (bounded): whoever gets hold of this file signs for the account no longer than the delegation in it
//! lives, and its owner can bring no other without the account's key. Law (own seals): what is sealed to this
//! node opens with a secret that is its own, which the account's contact card says; the account's key opens
//! nothing and is not needed. An Ed25519 account is sealed to by its own key and by nothing else, so it cannot
//! be kept away from its node.
//!
//! Open, the file is `overlane delegated 1\n` and `[account, sealing seed, [] or [delegatee seed, delegation],
//! [] or [delegatee seed that a delegation is asked for]]`; sealed, it is that as an account's key is.

use std::path::Path;

use overlane_core::NetworkId;
use overlane_core::identity::{
    AccountKey, Delegatee, Delegation, DelegationRequest, KeyKind, Life, Signer, VerifyContext,
};
use overlane_core::seal::SealingSecret;
use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer, from_slice, to_vec};
use zeroize::Zeroizing;

use super::sealed::{self, KeyLock, LockError, form};
use super::{HomeError, files, key};

/// What the open file begins with. A key pair in protobuf begins otherwise.
const MAGIC: &[u8] = b"overlane delegated 1\n";

type Seed = Zeroizing<[u8; 32]>;

/// What signs and opens for an account that is kept elsewhere.
#[derive(Clone)]
pub struct DelegatedKey {
    account: AccountKey,
    sealing: Seed,
    held: Option<(Seed, Delegation)>,
    asked: Option<Seed>,
}

impl DelegatedKey {
    /// A key for this account, which has not been asked yet.
    ///
    /// # Errors
    /// [`HomeError::AccountKind`]; the platform gives no randomness.
    pub fn new(account: AccountKey) -> Result<Self, HomeError> {
        if account.kind() == KeyKind::Ed25519 {
            return Err(HomeError::AccountKind {
                account: account.to_string(),
            });
        }
        Ok(Self {
            account,
            sealing: drawn()?,
            held: None,
            asked: None,
        })
    }

    /// The account that is signed for.
    pub fn account(&self) -> &AccountKey {
        &self.account
    }

    /// The account's word, if there is one.
    pub fn delegation(&self) -> Option<&Delegation> {
        self.held.as_ref().map(|(_, delegation)| delegation)
    }

    /// What opens what is sealed to this node.
    pub fn sealing(&self) -> SealingSecret {
        SealingSecret::from_seed(self.sealing.clone())
    }

    /// Draws another delegatee and asks for it. What signs now goes on; a request from before is forgotten.
    ///
    /// # Errors
    /// The platform gives no randomness.
    pub fn ask(&mut self, network: NetworkId, life: Life) -> Result<DelegationRequest, HomeError> {
        let seed = self.asked.insert(drawn()?).clone();
        let delegatee = Delegatee::from_seed(seed);
        Ok(DelegationRequest::new(
            &self.account,
            &delegatee,
            network,
            life,
        ))
    }

    /// Takes the account's word on what was asked for, or again on what signs now.
    ///
    /// # Errors
    /// [`HomeError::NotAskedFor`]; [`HomeError::Delegation`].
    pub fn accept(
        &mut self,
        delegation: Delegation,
        network: NetworkId,
        now_ms: u64,
    ) -> Result<(), HomeError> {
        let ours = delegation.account() == &self.account;
        let held = self.held.as_ref().map(|(seed, _)| seed);
        let is_its = |seed: &&Seed| {
            let delegatee = Delegatee::from_seed((*seed).clone());
            &delegatee.key() == delegation.delegatee()
        };
        let seed = self.asked.as_ref().filter(is_its);
        let seed = seed.or(held.filter(is_its)).filter(|_| ours);
        let seed = seed.ok_or(HomeError::NotAskedFor)?.clone();
        let context = VerifyContext { network, now_ms };
        let delegation = delegation.verify(&context)?.into_inner();
        self.held = Some((seed, delegation));
        self.asked = None;
        Ok(())
    }

    /// What signs, if the account's word counts now.
    ///
    /// # Errors
    /// [`HomeError::NotDelegated`]; [`HomeError::Delegation`].
    pub fn signer(&self, network: NetworkId, now_ms: u64) -> Result<Signer, HomeError> {
        let (seed, delegation) = self.held.as_ref().ok_or(HomeError::NotDelegated)?;
        let verified = delegation
            .clone()
            .verify(&VerifyContext { network, now_ms })?;
        let delegatee = Delegatee::from_seed(seed.clone());
        Signer::new(delegatee, verified).map_err(|_| HomeError::NotAskedFor)
    }

    fn open_form(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(512));
        bytes.extend_from_slice(MAGIC);
        let fields = Zeroizing::new(to_vec(self));
        bytes.extend_from_slice(&fields);
        bytes
    }

    fn of_open_form(bytes: &[u8]) -> Result<Self, LockError> {
        let fields = bytes.strip_prefix(MAGIC);
        let fields = fields.ok_or_else(|| LockError::Form("it is of another kind".to_owned()))?;
        from_slice(fields).map_err(|error| form(&error))
    }
}

impl std::fmt::Debug for DelegatedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DelegatedKey({})", self.account)
    }
}

pub(super) fn write(path: &Path, key: &DelegatedKey, lock: &KeyLock) -> Result<(), HomeError> {
    let bytes = sealed::seal_bytes(key.open_form(), &key.account, lock);
    files::replace(path, &bytes.map_err(HomeError::key(path))?, files::PRIVATE)
}

/// The key, opened with this lock if it is sealed.
pub(super) fn read(path: &Path, lock: &KeyLock) -> Result<DelegatedKey, HomeError> {
    let file = key::bytes(path)?;
    let opened = sealed::open_bytes(&file, lock).and_then(|(open, public)| {
        let key = DelegatedKey::of_open_form(&open)?;
        match public {
            Some(public) if key.account.to_protobuf() != public => Err(sealed::other_key()),
            _ => Ok(key),
        }
    });
    opened.map_err(HomeError::key(path))
}

/// Which account it is for, and what the key is sealed under.
pub(super) fn public(path: &Path) -> Result<(AccountKey, &'static str), HomeError> {
    let file = key::bytes(path)?;
    let read = |open: &Zeroizing<Vec<u8>>| Ok(DelegatedKey::of_open_form(open)?.account);
    sealed::public_of(&file, read).map_err(HomeError::key(path))
}

fn drawn() -> Result<Seed, HomeError> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut_slice()).map_err(|cause| HomeError::Random {
        cause: cause.to_string(),
    })?;
    Ok(seed)
}

impl Encode for DelegatedKey {
    fn encode(&self, writer: &mut Writer) {
        let writer = writer.array(4).value(&self.account).bytes(&*self.sealing);
        match &self.held {
            Some((seed, delegation)) => writer.array(2).bytes(&**seed).value(delegation),
            None => writer.array(0),
        };
        match &self.asked {
            Some(seed) => writer.array(1).bytes(&**seed),
            None => writer.array(0),
        };
    }
}

impl<'a> Decode<'a> for DelegatedKey {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(4)?;
        let account = reader.value()?;
        let seed = |reader: &mut Reader<'a>| reader.byte_array().map(Zeroizing::new);
        let sealing = seed(reader)?;
        let at = reader.at();
        let held = match reader.array()? {
            0 => None,
            2 => Some((seed(reader)?, reader.value()?)),
            _ => return Err(Reader::invalid(at, "what is held")),
        };
        let at = reader.at();
        let asked = match reader.array()? {
            0 => None,
            1 => Some(seed(reader)?),
            _ => return Err(Reader::invalid(at, "what is asked for")),
        };
        Ok(Self {
            account,
            sealing,
            held,
            asked,
        })
    }
}

#[cfg(test)]
mod tests {
    use overlane_core::Coded;
    use overlane_core::identity::Account;

    use super::*;

    const NETWORK: NetworkId = NetworkId(3);
    const NOW_MS: u64 = 1_900_000_000_000;
    const LIFE: Life = Life {
        issued_ms: NOW_MS,
        ttl_ms: 60_000,
    };

    fn account() -> Account {
        Account::secp256k1(Zeroizing::new([7; 32])).expect("an account")
    }

    fn delegated() -> (DelegatedKey, Delegation) {
        let mut key = DelegatedKey::new(account().key().clone()).expect("a key");
        let request = key.ask(NETWORK, LIFE).expect("asked");
        let delegation = request.grant(&account(), NOW_MS).expect("granted");
        (key, delegation)
    }

    #[test]
    fn a_delegated_key_signs_while_the_accounts_word_lives_and_not_after() {
        let (mut key, delegation) = delegated();
        let refused = |key: &DelegatedKey, network, now_ms| {
            let refused = key.signer(network, now_ms).expect_err("refused");
            refused.code()
        };
        assert_eq!(refused(&key, NETWORK, NOW_MS), "home/not_delegated");
        let late = key.accept(delegation.clone(), NETWORK, NOW_MS + 60_001);
        assert_eq!(late.expect_err("late").code(), "delegation/expired");
        let other = key.accept(delegation.clone(), NetworkId(4), NOW_MS);
        assert_eq!(other.expect_err("other").code(), "delegation/wrong_network");
        key.accept(delegation, NETWORK, NOW_MS).expect("accepted");
        let signer = key.signer(NETWORK, NOW_MS + 60_000).expect("signs");
        assert_eq!(signer.did(), account().did());
        assert_eq!(
            refused(&key, NETWORK, NOW_MS + 60_001),
            "delegation/expired"
        );
        // Asking again leaves what signs; what comes of it signs from then on.
        let life = Life {
            issued_ms: NOW_MS + 60_001,
            ttl_ms: 1_000,
        };
        let request = key.ask(NETWORK, life).expect("asked");
        assert_ne!(request.delegatee(), signer.delegation().delegatee());
        assert!(key.signer(NETWORK, NOW_MS).is_ok());
        let renewed = request.grant(&account(), life.issued_ms).expect("granted");
        key.accept(renewed, NETWORK, life.issued_ms)
            .expect("accepted");
        assert!(key.signer(NETWORK, life.issued_ms + 1_000).is_ok());
    }

    #[test]
    fn only_the_accounts_word_on_a_key_of_this_home_is_taken() {
        let (mut key, delegation) = delegated();
        let (mut other, others) = delegated();
        let refused = key.accept(others.clone(), NETWORK, NOW_MS);
        assert_eq!(refused.expect_err("another's").code(), "home/not_asked_for");
        // A request that was followed by another is forgotten.
        key.ask(NETWORK, LIFE).expect("asked");
        let refused = key.accept(delegation, NETWORK, NOW_MS);
        assert_eq!(
            refused.expect_err("an old one").code(),
            "home/not_asked_for"
        );
        other.accept(others, NETWORK, NOW_MS).expect("its own");
        let edwards = Account::ed25519(Zeroizing::new([7; 32])).expect("an account");
        let refused = DelegatedKey::new(edwards.key().clone()).expect_err("its own key seals");
        assert_eq!(refused.code(), "home/account_kind");
    }

    #[test]
    fn a_delegated_key_reads_back_open_and_sealed_and_no_changed_byte_does() {
        let (mut key, delegation) = delegated();
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("delegated.key");
        let lock = KeyLock::key_file(Zeroizing::new(vec![9; 32])).expect("long enough");
        for (held, lock) in [
            (false, &KeyLock::Open),
            (true, &KeyLock::Open),
            (true, &lock),
        ] {
            if held && key.delegation().is_none() {
                let accepted = key.accept(delegation.clone(), NETWORK, NOW_MS);
                accepted.expect("its own");
            }
            write(&path, &key, lock).expect("written");
            let back = read(&path, lock).expect("read");
            assert_eq!(*back.open_form(), *key.open_form());
            assert_eq!(back.delegation().is_some(), held);
            let (account, under) = public(&path).expect("readable");
            assert_eq!((&account, under), (key.account(), lock.name()));
        }
        let refused = read(&path, &KeyLock::Open).expect_err("sealed");
        assert_eq!(refused.code(), "home/key_locked");
        let file = key::bytes(&path).expect("there");
        let secret = key.open_form();
        assert!(!file.windows(32).any(|it| it == &key.sealing[..]));
        assert!(secret.windows(32).any(|it| it == &key.sealing[..]));
        for at in (0..file.len()).step_by(7) {
            let mut changed = file.to_vec();
            changed[at] ^= 1;
            files::replace(&path, &changed, files::PRIVATE).expect("written");
            assert!(read(&path, &lock).is_err(), "byte {at}");
        }
    }
}
