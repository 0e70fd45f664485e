//! Posts: sealed under the epoch's key, signed by their author.

use super::error::GroupError;
use super::key::GroupKey;
use super::roster::GroupId;
use crate::identity::{Life, Signer, Statement, Subject, Verified, VerifyContext, sealed};
use crate::ids::NetworkId;
use crate::wire::bounds::DATA_MAX_BYTES;
use crate::wire::cbor::{
    CborError, CborReason, Decode, Encode, Reader, Writer, from_slice, to_vec,
};

/// The most bytes of a post: an envelope of a log, with room for the frame around it.
pub const POST_MAX_BYTES: usize = DATA_MAX_BYTES - 1024;

/// The most bytes of what a post says.
pub const POST_BODY_MAX_BYTES: usize = POST_MAX_BYTES - 1024;

/// `[group, epoch, nonce, ciphertext]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostSubject {
    group: GroupId,
    epoch: u64,
    nonce: [u8; 24],
    ciphertext: Vec<u8>,
}

/// A post: its signer is its author, `issued_ms` is when it was written.
pub type Post = Statement<PostSubject>;

impl PostSubject {
    /// The group.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// The epoch under whose key it is sealed.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl Post {
    /// Writes `body` to the group. `nonce` are fresh random bytes.
    ///
    /// # Errors
    /// The body is too long.
    pub fn write(
        group: GroupId,
        key: &GroupKey,
        author: &Signer,
        body: &[u8],
        nonce: [u8; 24],
        now_ms: u64,
    ) -> Result<Self, GroupError> {
        let (found, bound) = (body.len(), POST_BODY_MAX_BYTES);
        if found > bound {
            let what = "bytes of a post";
            return Err(GroupError::OverBound { what, found, bound });
        }
        let subject = PostSubject {
            group,
            epoch: key.epoch(),
            nonce,
            ciphertext: key.seal(group, author.did(), &nonce, body)?,
        };
        let life = Life {
            issued_ms: now_ms,
            ttl_ms: 0,
        };
        Ok(Self::sign(subject, author, life)?)
    }

    /// Its one form, whose hash names it in a log.
    pub fn to_bytes(&self) -> Vec<u8> {
        to_vec(self)
    }

    /// The post in `bytes`, if its author once signed it: a post counts whatever the time.
    ///
    /// # Errors
    /// Another form, of another network or group, or not signed by the author it claims.
    pub fn read(
        bytes: &[u8],
        network: NetworkId,
        group: GroupId,
    ) -> Result<Verified<Self>, GroupError> {
        if bytes.len() > POST_MAX_BYTES {
            let (bound, found) = (POST_MAX_BYTES, bytes.len());
            let reason = CborReason::OverBound { bound, found };
            return Err(CborError { at: 0, reason }.into());
        }
        let post: Self = from_slice(bytes)?;
        let (wanted, found) = (group, post.subject().group);
        if wanted != found {
            return Err(GroupError::OtherGroup { wanted, found });
        }
        let now_ms = post.life().issued_ms;
        Ok(Verified::verify(post, &VerifyContext { network, now_ms })?)
    }
}

impl Verified<Post> {
    /// What it says, to one who has its epoch's key.
    ///
    /// # Errors
    /// Another epoch's key, or it does not open.
    pub fn open(&self, key: &GroupKey) -> Result<Vec<u8>, GroupError> {
        let subject = self.subject();
        let epoch = subject.epoch;
        if key.epoch() != epoch {
            return Err(GroupError::NoKey { epoch });
        }
        key.open(
            subject.group,
            self.signer(),
            &subject.nonce,
            &subject.ciphertext,
        )
    }
}

impl sealed::Sealed for PostSubject {}

impl Subject for PostSubject {
    const NAME: &'static str = "post";
    const CONTEXT: &'static str = "overlane group post";
    const TTL_MAX_MS: u64 = 0;
}

impl Encode for PostSubject {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(4)
            .value(&self.group)
            .value(&self.epoch)
            .value(&self.nonce)
            .bytes(&self.ciphertext);
    }
}

impl<'a> Decode<'a> for PostSubject {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(4)?;
        Ok(Self {
            group: reader.value()?,
            epoch: reader.value()?,
            nonce: reader.value()?,
            ciphertext: reader.bytes()?.to_vec(),
        })
    }
}
