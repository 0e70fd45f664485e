//! The roster: who is a member, who hosts, and the sealed keys of the current epoch.

use super::error::GroupError;
use super::key::{GroupKey, WRAPPED_KEY_MAX_BYTES};
use crate::identity::{
    DELEGATION_TTL_MAX_MS, Statement, Subject, Verified, VerifyContext, sealed, transcript,
};
use crate::ids::{Did, NetworkId};
use crate::seal::SealingSecret;
use crate::wire::cbor::{
    CborError, CborReason, Decode, Encode, Reader, Writer, from_slice, to_vec,
};
use std::fmt;

/// The most members of a group, its owner included.
pub const GROUP_MEMBERS_MAX: usize = 256;

/// The most hosts of a group.
pub const GROUP_HOSTS_MAX: usize = 8;

/// The longest a roster counts: a year. The owner signs another before.
pub const ROSTER_TTL_MAX_MS: u64 = DELEGATION_TTL_MAX_MS;

/// Context of a group's name.
const GROUP_CONTEXT: &str = "overlane group";

/// The most bytes of a roster.
const ROSTER_MAX_BYTES: usize =
    GROUP_MEMBERS_MAX * (24 + WRAPPED_KEY_MAX_BYTES) + GROUP_HOSTS_MAX * 21 + 1024;

const _: () = assert!(ROSTER_MAX_BYTES < crate::wire::bounds::DATA_MAX_BYTES);

/// A group's name: the hash of its network, its owner and a nonce.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub [u8; 32]);

/// One member, and the current epoch's key sealed to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The member.
    pub member: Did,
    /// The wrapped key ([`GroupKey::wrap`]).
    pub key: Vec<u8>,
}

/// `[nonce, revision, epoch, members, hosts]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RosterSubject {
    nonce: [u8; 16],
    revision: u64,
    epoch: u64,
    members: Vec<Membership>,
    hosts: Vec<Did>,
}

/// A roster: its signer is the group's owner.
pub type Roster = Statement<RosterSubject>;

impl GroupId {
    /// The group that `owner` makes with this nonce.
    pub fn of(network: NetworkId, owner: Did, nonce: &[u8; 16]) -> Self {
        Self(transcript(GROUP_CONTEXT, &Named(network, owner, nonce)))
    }
}

impl RosterSubject {
    /// A roster of these members and hosts, sorted here.
    ///
    /// # Errors
    /// Too many members or hosts.
    pub fn new(
        nonce: [u8; 16],
        revision: u64,
        epoch: u64,
        mut members: Vec<Membership>,
        mut hosts: Vec<Did>,
    ) -> Result<Self, GroupError> {
        members.sort_by_key(|it| it.member);
        members.dedup_by_key(|it| it.member);
        hosts.sort_unstable();
        hosts.dedup();
        for (what, found, bound) in [
            ("members", members.len(), GROUP_MEMBERS_MAX),
            ("hosts", hosts.len(), GROUP_HOSTS_MAX),
        ] {
            if found > bound {
                return Err(GroupError::OverBound { what, found, bound });
            }
        }
        Ok(Self {
            nonce,
            revision,
            epoch,
            members,
            hosts,
        })
    }

    /// Which of the owner's groups it is.
    pub fn nonce(&self) -> &[u8; 16] {
        &self.nonce
    }

    /// Its place among the group's rosters; the highest is in force.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The epoch whose key it carries.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The members, ascending.
    pub fn members(&self) -> &[Membership] {
        &self.members
    }

    /// The hosts, ascending.
    pub fn hosts(&self) -> &[Did] {
        &self.hosts
    }

    /// Whether the account is a member.
    pub fn has(&self, account: &Did) -> bool {
        let found = self.members.binary_search_by_key(account, |it| it.member);
        found.is_ok()
    }

    fn key_of(&self, account: &Did) -> Option<&[u8]> {
        let found = self.members.binary_search_by_key(account, |it| it.member);
        self.members.get(found.ok()?).map(|it| it.key.as_slice())
    }
}

impl Roster {
    /// Its one form.
    pub fn to_bytes(&self) -> Vec<u8> {
        to_vec(self)
    }

    /// The roster in `bytes`, if it counts now.
    ///
    /// # Errors
    /// Another form, or it does not count.
    pub fn read(bytes: &[u8], context: &VerifyContext) -> Result<Verified<Self>, GroupError> {
        if bytes.len() > ROSTER_MAX_BYTES {
            let (bound, found) = (ROSTER_MAX_BYTES, bytes.len());
            let reason = CborReason::OverBound { bound, found };
            return Err(CborError { at: 0, reason }.into());
        }
        let roster: Self = from_slice(bytes)?;
        Ok(Verified::verify(roster, context)?)
    }

    /// The group it is of.
    pub fn group(&self) -> GroupId {
        let network = self.delegation().network();
        GroupId::of(network, self.signer(), self.subject().nonce())
    }
}

impl Verified<Roster> {
    /// The current epoch's key, as this member opens it.
    ///
    /// # Errors
    /// The account is no member, or the key sealed to it does not open.
    pub fn key(&self, member: Did, secret: &SealingSecret) -> Result<GroupKey, GroupError> {
        let group = self.group();
        let none = GroupError::NotAMember {
            group,
            author: member,
        };
        let wrapped = self.subject().key_of(&member).ok_or(none)?;
        GroupKey::unwrap(group, self.subject().epoch(), member, secret, wrapped)
    }

    /// Whether it takes the place of `current`: of the same group, and newer.
    ///
    /// # Errors
    /// It does not.
    pub fn check_follows(&self, current: &Self) -> Result<(), GroupError> {
        let (wanted, found) = (current.group(), self.group());
        if wanted != found {
            return Err(GroupError::OtherGroup { wanted, found });
        }
        let (current, found) = (current.subject().revision(), self.subject().revision());
        if found <= current {
            return Err(GroupError::OldRevision { current, found });
        }
        Ok(())
    }
}

impl sealed::Sealed for RosterSubject {}

impl Subject for RosterSubject {
    const NAME: &'static str = "roster";
    const CONTEXT: &'static str = "overlane group roster";
    const TTL_MAX_MS: u64 = ROSTER_TTL_MAX_MS;
}

impl Encode for RosterSubject {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(5)
            .value(&self.nonce)
            .value(&self.revision)
            .value(&self.epoch)
            .list(&self.members)
            .list(&self.hosts);
    }
}

impl<'a> Decode<'a> for RosterSubject {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(5)?;
        let at = reader.at();
        let this = Self {
            nonce: reader.value()?,
            revision: reader.value()?,
            epoch: reader.value()?,
            members: reader.list(GROUP_MEMBERS_MAX)?,
            hosts: reader.list(GROUP_HOSTS_MAX)?,
        };
        let members = this
            .members
            .is_sorted_by(|one, next| one.member < next.member);
        if !members || !this.hosts.is_sorted_by(|one, next| one < next) {
            return Err(Reader::invalid(at, "roster: not ascending"));
        }
        Ok(this)
    }
}

impl Encode for Membership {
    fn encode(&self, writer: &mut Writer) {
        writer.array(2).value(&self.member).bytes(&self.key);
    }
}

impl<'a> Decode<'a> for Membership {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        let member = reader.value()?;
        let at = reader.at();
        let key = reader.bytes()?;
        if key.len() > WRAPPED_KEY_MAX_BYTES {
            let (bound, found) = (WRAPPED_KEY_MAX_BYTES, key.len());
            let reason = CborReason::OverBound { bound, found };
            return Err(CborError { at, reason });
        }
        let key = key.to_vec();
        Ok(Self { member, key })
    }
}

struct Named<'a>(NetworkId, Did, &'a [u8; 16]);

impl Encode for Named<'_> {
    fn encode(&self, writer: &mut Writer) {
        let Self(network, owner, nonce) = self;
        writer.array(3).value(network).value(owner).value(*nonce);
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupId({self})")
    }
}

impl Encode for GroupId {
    fn encode(&self, writer: &mut Writer) {
        writer.bytes(&self.0);
    }
}

impl<'a> Decode<'a> for GroupId {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.byte_array().map(Self)
    }
}
