//! The key of one epoch, and how members get it.

use super::error::GroupError;
use super::roster::GroupId;
use crate::identity::transcript;
use crate::ids::Did;
use crate::seal::{SealError, SealingKey, SealingSecret, open_bytes, seal_bytes};
use crate::wire::cbor::{Encode, Writer};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use std::fmt;
use zeroize::Zeroizing;

/// The most bytes of a group key sealed to a member.
pub const WRAPPED_KEY_MAX_BYTES: usize = 96;

/// Context of what a wrapped key is bound to.
const KEY_CONTEXT: &str = "overlane group key";

/// Context of what a sealed post is bound to.
const SEAL_CONTEXT: &str = "overlane group seal";

/// The key under which the posts of one epoch are sealed. Wiped when dropped.
#[derive(Clone)]
pub struct GroupKey {
    epoch: u64,
    key: Zeroizing<[u8; 32]>,
}

impl GroupKey {
    /// The key of `epoch` that 32 fresh random bytes make.
    pub fn new(epoch: u64, key: Zeroizing<[u8; 32]>) -> Self {
        Self { epoch, key }
    }

    /// The epoch it is of.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The 32 secret bytes, wiped when dropped.
    pub fn to_secret(&self) -> Zeroizing<[u8; 32]> {
        self.key.clone()
    }

    /// The key sealed to one member. `seed` are fresh random bytes, used once.
    ///
    /// # Errors
    /// The member's sealing key is weak.
    pub fn wrap(
        &self,
        group: GroupId,
        member: Did,
        to: &SealingKey,
        seed: Zeroizing<[u8; 32]>,
    ) -> Result<Vec<u8>, GroupError> {
        let info = transcript(KEY_CONTEXT, &Bound(group, self.epoch, member));
        seal_bytes(to, &info, self.key.as_slice(), seed)
            .map_err(|error| GroupError::Key { member, error })
    }

    /// The key of `epoch` that was sealed to this member.
    ///
    /// # Errors
    /// It does not open.
    pub fn unwrap(
        group: GroupId,
        epoch: u64,
        member: Did,
        secret: &SealingSecret,
        wrapped: &[u8],
    ) -> Result<Self, GroupError> {
        let refuse = |error| GroupError::Key { member, error };
        let info = transcript(KEY_CONTEXT, &Bound(group, epoch, member));
        let opened = Zeroizing::new(open_bytes(secret, &info, wrapped).map_err(refuse)?);
        let key = <[u8; 32]>::try_from(opened.as_slice());
        let key = Zeroizing::new(key.map_err(|_| refuse(SealError::DoesNotOpen))?);
        Ok(Self { epoch, key })
    }

    pub(super) fn seal(
        &self,
        group: GroupId,
        author: Did,
        nonce: &[u8; 24],
        plain: &[u8],
    ) -> Result<Vec<u8>, GroupError> {
        let aad = transcript(SEAL_CONTEXT, &Bound(group, self.epoch, author));
        let (msg, aad) = (plain, aad.as_slice());
        let sealed = self
            .cipher()
            .encrypt(&XNonce::from(*nonce), Payload { msg, aad });
        sealed.map_err(|_| GroupError::OverBound {
            what: "bytes of a post",
            found: plain.len(),
            bound: super::POST_BODY_MAX_BYTES,
        })
    }

    pub(super) fn open(
        &self,
        group: GroupId,
        author: Did,
        nonce: &[u8; 24],
        sealed: &[u8],
    ) -> Result<Vec<u8>, GroupError> {
        let aad = transcript(SEAL_CONTEXT, &Bound(group, self.epoch, author));
        let (msg, aad) = (sealed, aad.as_slice());
        let opened = self
            .cipher()
            .decrypt(&XNonce::from(*nonce), Payload { msg, aad });
        opened.map_err(|_| GroupError::DoesNotOpen { epoch: self.epoch })
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&*self.key).into())
    }
}

impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupKey(epoch {})", self.epoch)
    }
}

/// What is sealed is bound to its group, its epoch, and one account.
struct Bound(GroupId, u64, Did);

impl Encode for Bound {
    fn encode(&self, writer: &mut Writer) {
        let Self(group, epoch, account) = self;
        writer.array(3).value(group).value(epoch).value(account);
    }
}
