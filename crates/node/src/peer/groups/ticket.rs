//! Tickets: which group, and where it is hosted, as a line of text.
//!
//! A ticket is no secret and gives no right: who may read and write is on the roster.

use std::fmt;
use std::str::FromStr;

use overlane_core::group::{GROUP_HOSTS_MAX, GroupId};
use overlane_core::wire::cbor::{
    CborError, Decode, Encode, Kind, Reader, Writer, from_slice, to_vec,
};
use overlane_core::{Did, NetworkId};

use super::NAME_MAX_BYTES;

/// The longest address in a group's ticket, in bytes.
pub const GROUP_TICKET_URL_MAX_BYTES: usize = 256;

/// Heads, network, group, owner, revision, hosts, name, address, and the sum.
const TICKET_MAX_BYTES: usize =
    64 + 32 + 21 + GROUP_HOSTS_MAX * 21 + NAME_MAX_BYTES + GROUP_TICKET_URL_MAX_BYTES + SUM_BYTES;

const PREFIX: &str = "group:";

/// Bytes that notice a slip of the pen.
const SUM_BYTES: usize = 4;

const SUM_CONTEXT: &str = "overlane group ticket sum";

/// Which group, and where it is hosted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupTicket {
    /// The network it is on.
    pub network: NetworkId,
    /// The group.
    pub group: GroupId,
    /// Who owns it.
    pub owner: Did,
    /// The roster that was in force; an older one is not taken.
    pub revision: u64,
    /// Who hosts it.
    pub hosts: Vec<Did>,
    /// What its owner calls it.
    pub name: String,
    /// Where the node that invites takes offers, if it says.
    pub url: Option<String>,
}

/// Text that is no ticket of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is no ticket of a group: it begins with \"group:\", and has every character that it was printed with"
)]
pub struct BadGroupTicket;

impl fmt::Display for GroupTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = to_vec(self);
        let sum = sum(&bytes);
        bytes.extend(sum);
        write!(f, "{PREFIX}{}", hex::encode(bytes))
    }
}

impl FromStr for GroupTicket {
    type Err = BadGroupTicket;

    fn from_str(text: &str) -> Result<Self, BadGroupTicket> {
        let digits = text.trim().strip_prefix(PREFIX).ok_or(BadGroupTicket)?;
        if digits.len() > 2 * TICKET_MAX_BYTES {
            return Err(BadGroupTicket);
        }
        let bytes = hex::decode(digits).map_err(|_| BadGroupTicket)?;
        let (bytes, told) = bytes
            .split_last_chunk::<SUM_BYTES>()
            .ok_or(BadGroupTicket)?;
        if sum(bytes) != *told {
            return Err(BadGroupTicket);
        }
        from_slice(bytes).map_err(|_| BadGroupTicket)
    }
}

impl Encode for GroupTicket {
    fn encode(&self, writer: &mut Writer) {
        let writer = writer.array(7).value(&self.network).value(&self.group);
        let writer = writer.value(&self.owner).uint(self.revision);
        writer.list(&self.hosts).text(&self.name);
        match &self.url {
            Some(url) => writer.text(url),
            None => writer.null(),
        };
    }
}

impl<'a> Decode<'a> for GroupTicket {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(7)?;
        let at = reader.at();
        let this = Self {
            network: reader.value()?,
            group: reader.value()?,
            owner: reader.value()?,
            revision: reader.uint()?,
            hosts: reader.list(GROUP_HOSTS_MAX)?,
            name: reader.text()?.to_owned(),
            url: match reader.peek()? {
                Kind::Null => reader.null().map(|()| None)?,
                _ => Some(reader.text()?.to_owned()),
            },
        };
        let long = this
            .url
            .as_ref()
            .is_some_and(|it| it.len() > GROUP_TICKET_URL_MAX_BYTES);
        if long || !super::is_name(&this.name) {
            return Err(Reader::invalid(at, "ticket of a group"));
        }
        Ok(this)
    }
}

fn sum(bytes: &[u8]) -> [u8; SUM_BYTES] {
    let hash = blake3::derive_key(SUM_CONTEXT, bytes);
    hash.first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_a_group_ticket_has_one_form_is_bounded_and_notices_a_slip() {
        let ticket = GroupTicket {
            network: NetworkId(u32::MAX),
            group: GroupId([7; 32]),
            owner: Did([8; 20]),
            revision: u64::MAX,
            hosts: vec![Did([9; 20]); GROUP_HOSTS_MAX],
            name: "n".repeat(NAME_MAX_BYTES),
            url: Some("u".repeat(GROUP_TICKET_URL_MAX_BYTES)),
        };
        let text = ticket.to_string();
        assert_eq!(text.parse(), Ok(ticket.clone()));
        for at in (PREFIX.len()..text.len()).step_by(7) {
            let mut other = text.clone().into_bytes();
            other[at] = if other[at] == b'0' { b'1' } else { b'0' };
            let other = String::from_utf8(other).unwrap();
            assert_eq!(other.parse::<GroupTicket>(), Err(BadGroupTicket), "{at}");
        }
        let over = GroupTicket {
            url: Some("u".repeat(GROUP_TICKET_URL_MAX_BYTES + 1)),
            ..ticket.clone()
        };
        assert!(over.to_string().parse::<GroupTicket>().is_err());
        let shown = GroupTicket {
            name: "a\u{1b}b".into(),
            ..ticket
        };
        assert!(shown.to_string().parse::<GroupTicket>().is_err());
        for text in ["", "group:", "ref:00", "group:zz"] {
            assert!(text.parse::<GroupTicket>().is_err());
        }
    }
}
