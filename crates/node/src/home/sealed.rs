//! The account's key at rest: open for its owner's eyes, or sealed under a passphrase or a key file.
//!
//! A sealed key file is `overlane key 1\n` and the CBOR array `[head, sealed]`, each a byte string; the head is
//! `[kind, memory_kib, passes, lanes, salt, nonce, public key]`. What is sealed is the key pair in protobuf, with
//! ChaCha20-Poly1305 (RFC 8439), the head beside it as associated data. The key of kind 1 is Argon2id
//! (RFC 9106) of the passphrase, of kind 2 BLAKE3 in derive-key mode over the salt and the key file. Who
//! this is stays readable.

use argon2::{Algorithm, Argon2, Params, Version};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Nonce};
use overlane_core::identity::{Account, AccountKey};
use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer, from_slice, to_vec};
use zeroize::Zeroizing;

/// What a sealed key file begins with. A key pair in protobuf begins otherwise.
const MAGIC: &[u8] = b"overlane key 1\n";

/// The context of the key that a key file gives.
const KEY_FILE_CONTEXT: &str = "overlane account key file";

/// Memory of Argon2id, in KiB: the second recommended choice of RFC 9106, section 4.
const MEMORY_KIB: u32 = 64 * 1024;

/// Its passes.
const PASSES: u32 = 3;

/// Its lanes.
const LANES: u32 = 4;

/// The most that a file may ask for: who put it there must not make a start take all memory, or for ever.
const MEMORY_MAX_KIB: u32 = 1024 * 1024;
const PASSES_MAX: u32 = 16;
const LANES_MAX: u32 = 16;

/// The shortest key file that protects anything.
pub const KEY_FILE_MIN_BYTES: usize = 32;

/// The longest.
pub const KEY_FILE_MAX_BYTES: usize = 64 * 1024;

/// The shortest passphrase that is taken, in bytes.
pub const PASSPHRASE_MIN_BYTES: usize = 8;

/// The longest.
pub const PASSPHRASE_MAX_BYTES: usize = 1024;

/// What a key at rest is sealed under, or opened with.
#[derive(Clone, Default)]
pub enum KeyLock {
    /// Nothing: the file is for its owner's eyes alone.
    #[default]
    Open,
    /// A passphrase.
    Passphrase(Zeroizing<Vec<u8>>),
    /// What a key file holds.
    KeyFile(Zeroizing<Vec<u8>>),
}

impl std::fmt::Debug for KeyLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl KeyLock {
    /// What it is, in words.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Open => "nothing",
            Self::Passphrase(_) => "a passphrase",
            Self::KeyFile(_) => "a key file",
        }
    }

    const fn kind(&self) -> u8 {
        match self {
            Self::Open => 0,
            Self::Passphrase(_) => 1,
            Self::KeyFile(_) => 2,
        }
    }

    /// A passphrase.
    ///
    /// # Errors
    /// That it is too short or too long.
    pub fn passphrase(text: Zeroizing<Vec<u8>>) -> Result<Self, LockError> {
        match text.len() {
            PASSPHRASE_MIN_BYTES..=PASSPHRASE_MAX_BYTES => Ok(Self::Passphrase(text)),
            _ => Err(LockError::PassphraseLength),
        }
    }

    /// What a key file holds.
    ///
    /// # Errors
    /// That it is too short or too long.
    pub fn key_file(bytes: Zeroizing<Vec<u8>>) -> Result<Self, LockError> {
        match bytes.len() {
            KEY_FILE_MIN_BYTES..=KEY_FILE_MAX_BYTES => Ok(Self::KeyFile(bytes)),
            _ => Err(LockError::KeyFileLength),
        }
    }
}

/// Why a key cannot be sealed or opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// A passphrase out of bounds.
    #[error("a passphrase has {PASSPHRASE_MIN_BYTES} to {PASSPHRASE_MAX_BYTES} bytes")]
    PassphraseLength,
    /// A key file out of bounds.
    #[error("a key file has {KEY_FILE_MIN_BYTES} to {KEY_FILE_MAX_BYTES} bytes")]
    KeyFileLength,
    /// It is sealed under something that was not given.
    #[error("it is sealed under {0}, which was not given")]
    Locked(&'static str),
    /// What was given does not open it.
    #[error("{0} does not open it: it is another one, or the file was changed")]
    Wrong(&'static str),
    /// It is no such file.
    #[error("it is no key pair: {0}")]
    Form(String),
    /// The platform gave no random bytes, or no memory.
    #[error("{0}")]
    Platform(String),
}

/// What a sealed file says in the clear.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Head {
    kind: u8,
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    salt: [u8; 16],
    nonce: [u8; 12],
    public: Vec<u8>,
}

impl Encode for Head {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(7)
            .uint(self.kind.into())
            .uint(self.memory_kib.into())
            .uint(self.passes.into())
            .uint(self.lanes.into())
            .bytes(&self.salt)
            .bytes(&self.nonce)
            .bytes(&self.public);
    }
}

impl<'a> Decode<'a> for Head {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(7)?;
        Ok(Self {
            kind: reader.u8()?,
            memory_kib: reader.u32()?,
            passes: reader.u32()?,
            lanes: reader.u32()?,
            salt: reader.byte_array()?,
            nonce: reader.byte_array()?,
            public: reader.bytes()?.to_vec(),
        })
    }
}

/// A sealed file as it lies.
struct Parts<'a> {
    head: &'a [u8],
    sealed: &'a [u8],
}

impl Encode for Parts<'_> {
    fn encode(&self, writer: &mut Writer) {
        writer.array(2).bytes(self.head).bytes(self.sealed);
    }
}

impl<'a> Decode<'a> for Parts<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        Ok(Self {
            head: reader.bytes()?,
            sealed: reader.bytes()?,
        })
    }
}

/// The account's key pair as a file under this lock.
pub(super) fn seal(account: &Account, lock: &KeyLock) -> Result<Zeroizing<Vec<u8>>, LockError> {
    let open = account.to_protobuf().map_err(|error| form(&error))?;
    seal_bytes(open, account.key(), lock)
}

/// What is kept for this account, as a file under this lock.
pub(super) fn seal_bytes(
    open: Zeroizing<Vec<u8>>,
    public: &AccountKey,
    lock: &KeyLock,
) -> Result<Zeroizing<Vec<u8>>, LockError> {
    if lock.kind() == 0 {
        return Ok(open);
    }
    let mut drawn = [0; 28];
    getrandom::fill(&mut drawn).map_err(|cause| LockError::Platform(cause.to_string()))?;
    let [salt @ .., _, _, _, _, _, _, _, _, _, _, _, _] = drawn;
    let [_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, nonce @ ..] = drawn;
    let passphrase = lock.kind() == 1;
    let of = |number: u32| if passphrase { number } else { 0 };
    let head = Head {
        kind: lock.kind(),
        memory_kib: of(MEMORY_KIB),
        passes: of(PASSES),
        lanes: of(LANES),
        salt,
        nonce,
        public: public.to_protobuf().to_vec(),
    };
    let key = derive(&head, lock)?;
    let head_bytes = to_vec(&head);
    let payload = Payload {
        msg: &open,
        aad: &head_bytes,
    };
    let sealed = ChaCha20Poly1305::new((&*key).into())
        .encrypt(&Nonce::from(head.nonce), payload)
        .map_err(|error| form(&error))?;
    let mut file = Zeroizing::new(MAGIC.to_vec());
    file.extend_from_slice(&to_vec(&Parts {
        head: &head_bytes,
        sealed: &sealed,
    }));
    Ok(file)
}

/// The account of a file, opened with this lock if it is sealed.
pub(super) fn open(file: &Zeroizing<Vec<u8>>, lock: &KeyLock) -> Result<Account, LockError> {
    let (opened, public) = open_bytes(file, lock)?;
    let account = Account::from_protobuf(&opened).map_err(|error| form(&error))?;
    match public {
        Some(public) if account.key().to_protobuf() != public => Err(other_key()),
        _ => Ok(account),
    }
}

/// What a file keeps, and the public key that a sealed one says.
type Opened = (Zeroizing<Vec<u8>>, Option<Vec<u8>>);

/// What a file keeps, opened with this lock if it is sealed, and the public key that a sealed one says.
pub(super) fn open_bytes(file: &Zeroizing<Vec<u8>>, lock: &KeyLock) -> Result<Opened, LockError> {
    let Some((head, parts)) = sealed(file)? else {
        return Ok((file.clone(), None));
    };
    let key = derive(&head, lock)?;
    let payload = Payload {
        msg: parts.sealed,
        aad: parts.head,
    };
    let opened = ChaCha20Poly1305::new((&*key).into())
        .decrypt(&Nonce::from(head.nonce), payload)
        .map_err(|_| LockError::Wrong(lock.name()))?;
    Ok((Zeroizing::new(opened), Some(head.public)))
}

/// It says another public key than that of what is in it.
pub(super) fn other_key() -> LockError {
    LockError::Form("it says another public key".to_owned())
}

pub(super) fn form(error: &dyn std::fmt::Display) -> LockError {
    LockError::Form(error.to_string())
}

/// Whose key a file holds, and what it is sealed under. A sealed one says so unproved: only opening it
/// proves it.
pub(super) fn public(file: &Zeroizing<Vec<u8>>) -> Result<(AccountKey, &'static str), LockError> {
    public_of(file, |open| {
        let account = Account::from_protobuf(open).map_err(|error| form(&error))?;
        Ok(account.key().clone())
    })
}

/// The same of a file whose open form `read` reads.
pub(super) fn public_of(
    file: &Zeroizing<Vec<u8>>,
    read: impl FnOnce(&Zeroizing<Vec<u8>>) -> Result<AccountKey, LockError>,
) -> Result<(AccountKey, &'static str), LockError> {
    match sealed(file)? {
        None => Ok((read(file)?, KeyLock::Open.name())),
        Some((head, _)) => {
            let key = AccountKey::from_protobuf(&head.public).map_err(|error| form(&error))?;
            Ok((key, lock_of(head.kind)?))
        }
    }
}

fn sealed(file: &[u8]) -> Result<Option<(Head, Parts<'_>)>, LockError> {
    let Some(rest) = file.strip_prefix(MAGIC) else {
        return Ok(None);
    };
    let form = |error: CborError| LockError::Form(error.to_string());
    let parts: Parts<'_> = from_slice(rest).map_err(form)?;
    let head: Head = from_slice(parts.head).map_err(form)?;
    Ok(Some((head, parts)))
}

fn lock_of(kind: u8) -> Result<&'static str, LockError> {
    match kind {
        1 => Ok("a passphrase"),
        2 => Ok("a key file"),
        _ => Err(LockError::Form(format!("a lock of kind {kind}"))),
    }
}

fn derive(head: &Head, lock: &KeyLock) -> Result<Zeroizing<[u8; 32]>, LockError> {
    let needed = lock_of(head.kind)?;
    let mut key = Zeroizing::new([0; 32]);
    match lock {
        KeyLock::Passphrase(passphrase) if head.kind == 1 => {
            let within = head.memory_kib <= MEMORY_MAX_KIB
                && head.passes <= PASSES_MAX
                && head.lanes <= LANES_MAX;
            let params = Params::new(head.memory_kib, head.passes, head.lanes, Some(32));
            let params = params.ok().filter(|_| within);
            let params = params.ok_or_else(|| {
                LockError::Form("the costs of its passphrase are out of bounds".to_owned())
            })?;
            Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
                .hash_password_into(passphrase, &head.salt, key.as_mut_slice())
                .map_err(|error| LockError::Platform(error.to_string()))?;
        }
        KeyLock::KeyFile(bytes) if head.kind == 2 => {
            let mut hasher = blake3::Hasher::new_derive_key(KEY_FILE_CONTEXT);
            hasher.update(&head.salt).update(bytes);
            key = Zeroizing::new(*hasher.finalize().as_bytes());
        }
        _ => return Err(LockError::Locked(needed)),
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        Account::ed25519(Zeroizing::new([7; 32])).expect("an account")
    }

    fn locks() -> [KeyLock; 2] {
        let passphrase = Zeroizing::new(b"correct horse".to_vec());
        let file = Zeroizing::new(vec![9; 32]);
        [
            KeyLock::passphrase(passphrase).expect("long enough"),
            KeyLock::key_file(file).expect("long enough"),
        ]
    }

    #[test]
    fn a_sealed_key_opens_under_its_own_lock_alone() {
        for lock in locks() {
            let file = seal(&account(), &lock).expect("sealed");
            assert_eq!(open(&file, &lock).expect("opened").did(), account().did());
            let (key, under) = public(&file).expect("readable");
            assert_eq!((key.did(), under), (account().did(), lock.name()));
            assert_eq!(
                open(&file, &KeyLock::Open).err(),
                Some(LockError::Locked(under))
            );
            let secret = account().to_protobuf().expect("a key pair");
            assert!(
                !file
                    .windows(32)
                    .any(|it| secret.windows(32).any(|of| of == it)
                        && !account().key().to_protobuf().windows(32).any(|of| of == it))
            );
            // Twice the same is nowhere the same.
            assert_ne!(*seal(&account(), &lock).expect("sealed"), *file);
        }
        let [passphrase, file] = locks();
        let sealed = seal(&account(), &passphrase).expect("sealed");
        assert_eq!(
            open(&sealed, &file).err(),
            Some(LockError::Locked("a passphrase"))
        );
        let other = KeyLock::passphrase(Zeroizing::new(b"correct hors!".to_vec())).expect("long");
        assert_eq!(
            open(&sealed, &other).err(),
            Some(LockError::Wrong("a passphrase"))
        );
        let plain = seal(&account(), &KeyLock::Open).expect("written");
        assert_eq!(
            open(&plain, &passphrase).expect("opened").did(),
            account().did()
        );
    }

    #[test]
    fn a_sealed_key_with_any_changed_byte_is_refused_and_its_costs_are_bounded() {
        let [_, lock] = locks();
        let file = seal(&account(), &lock).expect("sealed");
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 1;
            assert!(open(&changed, &lock).is_err(), "byte {at}");
        }
        for length in 0..file.len() {
            assert!(open(&Zeroizing::new(file[..length].to_vec()), &lock).is_err());
        }
        let [passphrase, _] = locks();
        let head = |memory_kib, passes, lanes| Head {
            kind: 1,
            memory_kib,
            passes,
            lanes,
            salt: [0; 16],
            nonce: [0; 12],
            public: Vec::new(),
        };
        for beyond in [
            head(MEMORY_MAX_KIB + 1, 1, 1),
            head(64, PASSES_MAX + 1, 1),
            head(u32::MAX, u32::MAX, u32::MAX),
            head(0, 0, 0),
        ] {
            assert!(matches!(
                derive(&beyond, &passphrase),
                Err(LockError::Form(_))
            ));
        }
        assert!(KeyLock::passphrase(Zeroizing::new(vec![0; 7])).is_err());
        assert!(KeyLock::key_file(Zeroizing::new(vec![0; 31])).is_err());
    }
}
