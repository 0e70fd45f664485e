//! Tickets: a reference as a line of text, for whoever is to have it.
//!
//! A ticket is a bearer's: who shows its secret gets the reference. The secret has 32 bytes that
//! nobody can guess, and the node keeps only its digest.

use std::fmt;
use std::str::FromStr;

use overlane_core::Did;
use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer, from_slice, to_vec};

/// The longest address in a ticket, in bytes.
pub const TICKET_URL_MAX_BYTES: usize = 256;

/// The longest ticket, in characters.
pub const TICKET_MAX_CHARS: usize = PREFIX.len() + 2 * TICKET_MAX_BYTES;

/// Heads, the Did, the secret, the address, and the sum.
const TICKET_MAX_BYTES: usize = 1 + 21 + 34 + 3 + TICKET_URL_MAX_BYTES + SUM_BYTES;

const PREFIX: &str = "ref:";

/// Bytes that notice a slip of the pen.
const SUM_BYTES: usize = 4;

const SUM_CONTEXT: &str = "overlane reference ticket sum";

/// A reference to give away: the node, where it is reached, and a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The node that has what it leads to.
    pub peer: Did,
    /// Where that node takes offers, if it says.
    pub url: Option<String>,
    pub(crate) secret: [u8; 32],
}

/// Text that is no ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is no ticket: it begins with \"ref:\", and has every character that it was printed with"
)]
pub struct BadTicket;

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = to_vec(self);
        let sum = sum(&bytes);
        bytes.extend(sum);
        write!(f, "{PREFIX}{}", hex::encode(bytes))
    }
}

impl FromStr for Ticket {
    type Err = BadTicket;

    fn from_str(text: &str) -> Result<Self, BadTicket> {
        let digits = text.trim().strip_prefix(PREFIX).ok_or(BadTicket)?;
        if digits.len() > 2 * TICKET_MAX_BYTES {
            return Err(BadTicket);
        }
        let bytes = hex::decode(digits).map_err(|_| BadTicket)?;
        let (bytes, told) = bytes.split_last_chunk::<SUM_BYTES>().ok_or(BadTicket)?;
        if sum(bytes) != *told {
            return Err(BadTicket);
        }
        from_slice(bytes).map_err(|_| BadTicket)
    }
}

/// The secret stays off logs.
impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("peer", &self.peer)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Encode for Ticket {
    fn encode(&self, writer: &mut Writer) {
        writer.array(3).value(&self.peer).value(&self.secret);
        match &self.url {
            Some(url) => writer.text(url),
            None => writer.null(),
        };
    }
}

impl<'a> Decode<'a> for Ticket {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        use overlane_core::wire::cbor::Kind;
        reader.expect_array(3)?;
        let (peer, secret) = (reader.value()?, reader.value()?);
        let at = reader.at();
        let url = match reader.peek()? {
            Kind::Null => reader.null().map(|()| None)?,
            _ => Some(reader.text()?.to_owned()),
        };
        if url
            .as_ref()
            .is_some_and(|url| url.len() > TICKET_URL_MAX_BYTES)
        {
            return Err(Reader::invalid(at, "address of a ticket"));
        }
        Ok(Self { peer, url, secret })
    }
}

fn sum(bytes: &[u8]) -> [u8; SUM_BYTES] {
    let hash = blake3::derive_key(SUM_CONTEXT, bytes);
    hash.first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(url: Option<&str>) -> Ticket {
        Ticket {
            peer: Did([7; 20]),
            url: url.map(str::to_owned),
            secret: [9; 32],
        }
    }

    #[test]
    fn law_a_ticket_has_one_form_is_bounded_and_notices_a_slip() {
        let longest = "u".repeat(TICKET_URL_MAX_BYTES);
        for url in [None, Some("http://127.0.0.1:7420"), Some(longest.as_str())] {
            let text = ticket(url).to_string();
            assert!(text.len() <= TICKET_MAX_CHARS);
            assert_eq!(text.parse(), Ok(ticket(url)));
            for at in PREFIX.len()..text.len() {
                let mut other = text.clone().into_bytes();
                other[at] = if other[at] == b'0' { b'1' } else { b'0' };
                let other = String::from_utf8(other).unwrap();
                assert_eq!(other.parse::<Ticket>(), Err(BadTicket), "{at}");
            }
            assert_eq!(text[..text.len() - 2].parse::<Ticket>(), Err(BadTicket));
        }
        let over = "u".repeat(TICKET_URL_MAX_BYTES + 1);
        let over = ticket(Some(over.as_str())).to_string();
        assert_eq!(over.parse::<Ticket>(), Err(BadTicket));
        for text in ["", "ref:", "nothing", "ref:zz", &"ref:00".repeat(400)] {
            assert_eq!(text.parse::<Ticket>(), Err(BadTicket));
        }
        assert!(!format!("{:?}", ticket(None)).contains("09"));
    }
}
