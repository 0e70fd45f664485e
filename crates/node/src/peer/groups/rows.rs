//! What is kept of groups beside their logs, in rows of the same store.
//!
//! | key | value |
//! |---|---|
//! | `90`, log | `[name, owner, least revision, hosts, roster or null]` |
//! | `91`, log, epoch | the epoch's key, sealed to this account |
//! | `92`, log, account | the key to seal to a member, at the group's owner |
//! | `94`, log | below this number nothing is missing that the host has |
//! | `93`, log | empty: a log that was left, and is being deleted |
//! | `95`, log | `[owner, until_ms]`: a group that was left, whose owner has not answered |
//! | `96`, log, epoch | `[whether it is the last, roster]`: at a host, the last roster of an epoch that is over |
//! | `97`, log | no key of this epoch or an earlier one is to be had |
//! | `98`, log | the host that a member went over to |

use overlane_core::Did;
use overlane_core::group::GROUP_HOSTS_MAX;
use overlane_core::wire::cbor::{CborError, Decode, Encode, Kind, Reader, Writer};
use overlane_relay::log::LogId;

pub(super) const GROUP_ROWS: u8 = 0x90;
pub(super) const KEY_ROWS: u8 = 0x91;
pub(super) const MEMBER_ROWS: u8 = 0x92;
pub(super) const LEFT_ROWS: u8 = 0x93;
pub(super) const COMPLETE_ROWS: u8 = 0x94;
pub(super) const LEAVING_ROWS: u8 = 0x95;
pub(super) const EARLIER_ROWS: u8 = 0x96;
pub(super) const FLOOR_ROWS: u8 = 0x97;
pub(super) const HOME_ROWS: u8 = 0x98;

/// One group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupRow {
    pub(super) name: String,
    pub(super) owner: Did,
    pub(super) least_revision: u64,
    pub(super) hosts: Vec<Did>,
    pub(super) roster: Option<Vec<u8>>,
}

pub(super) fn key(kind: u8, log: &LogId, rest: &[u8]) -> Vec<u8> {
    let mut key = vec![kind];
    key.extend_from_slice(&log.0);
    key.extend_from_slice(rest);
    key
}

/// The log that a row of this key is of, and what stands behind.
pub(super) fn of_key(key: &[u8]) -> Option<(LogId, &[u8])> {
    let (log, rest) = key.get(1..)?.split_first_chunk()?;
    Some((LogId(*log), rest))
}

impl Encode for GroupRow {
    fn encode(&self, writer: &mut Writer) {
        let writer = writer.array(5).text(&self.name).value(&self.owner);
        let writer = writer.uint(self.least_revision).list(&self.hosts);
        match &self.roster {
            Some(roster) => writer.bytes(roster),
            None => writer.null(),
        };
    }
}

impl<'a> Decode<'a> for GroupRow {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(5)?;
        Ok(Self {
            name: reader.text()?.to_owned(),
            owner: reader.value()?,
            least_revision: reader.uint()?,
            hosts: reader.list(GROUP_HOSTS_MAX)?,
            roster: match reader.peek()? {
                Kind::Null => reader.null().map(|()| None)?,
                _ => Some(reader.bytes()?.to_vec()),
            },
        })
    }
}
