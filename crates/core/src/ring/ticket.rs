//! Tickets: all that a newcomer needs to join, as one word to hand on.
//!
//! `overlane` and the base58 of `[network, Did, [URL, …]]` and four bytes of its BLAKE3, so that a ticket
//! mistyped is told from one that leads nowhere. A ticket is no secret and gives no right: who answers at
//! a URL proves its account as anybody does.

use std::fmt;
use std::str::FromStr;

use crate::fault::{Coded, Fault};
use crate::ids::{Did, NetworkId};
use crate::wire::cbor::{CborError, Decode, Encode, Reader, Writer};
use crate::wire::word;

/// URLs of one ticket at most.
pub const TICKET_URLS_MAX: usize = 4;

/// The longest URL of a ticket, in bytes.
pub const TICKET_URL_MAX_BYTES: usize = 512;

const PREFIX: &str = "overlane";

/// The longest ticket as text: no longer one is decoded.
const TEXT_MAX_BYTES: usize = 2 * TICKET_URLS_MAX * TICKET_URL_MAX_BYTES;

/// Where to join, and whom to expect there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The network to belong to.
    pub network: NetworkId,
    /// The node that answers.
    pub did: Did,
    /// Where it takes offers.
    pub urls: Vec<String>,
}

/// Text that is no ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("that is no ticket, or not all of one: copy what `overlane invite` prints")]
pub struct NotATicket;

impl Coded for NotATicket {
    fn code(&self) -> &'static str {
        "ticket/malformed"
    }

    fn fault(&self) -> Fault {
        Fault::Usage
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&word::write(PREFIX, self))
    }
}

impl FromStr for Ticket {
    type Err = NotATicket;

    fn from_str(text: &str) -> Result<Self, NotATicket> {
        word::read(PREFIX, text, TEXT_MAX_BYTES).ok_or(NotATicket)
    }
}

impl Encode for Ticket {
    fn encode(&self, writer: &mut Writer) {
        writer.array(3).value(&self.network).value(&self.did);
        writer.array(self.urls.len());
        for url in &self.urls {
            writer.text(url);
        }
    }
}

impl<'a> Decode<'a> for Ticket {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(3)?;
        let (network, did) = (reader.value()?, reader.value()?);
        let at = reader.at();
        let count = reader.array()?;
        if count == 0 || count > TICKET_URLS_MAX {
            return Err(Reader::invalid(at, "number of URLs"));
        }
        let mut urls = Vec::with_capacity(count);
        for _ in 0..count {
            let at = reader.at();
            let url = reader.text()?;
            if url.len() > TICKET_URL_MAX_BYTES || url.chars().any(char::is_control) {
                return Err(Reader::invalid(at, "URL"));
            }
            urls.push(url.to_owned());
        }
        Ok(Self { network, did, urls })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket() -> Ticket {
        Ticket {
            network: NetworkId(7),
            did: Did([0xab; 20]),
            urls: vec!["http://192.0.2.1:7420".to_owned()],
        }
    }

    #[test]
    fn a_ticket_is_one_word_and_reads_back() {
        let text = ticket().to_string();
        assert!(text.chars().all(|c| c.is_ascii_alphanumeric()), "{text}");
        assert_eq!(text.parse(), Ok(ticket()));
        assert_eq!(format!(" {text}\n").parse(), Ok(ticket()));
    }

    #[test]
    fn any_changed_letter_is_no_ticket() {
        let text = ticket().to_string();
        for at in 0..text.len() {
            let other = if text.as_bytes()[at] == b'2' {
                "3"
            } else {
                "2"
            };
            let mut changed = text.clone();
            changed.replace_range(at..=at, other);
            assert_eq!(changed.parse::<Ticket>(), Err(NotATicket), "{changed}");
        }
        for bad in ["", "overlane", "http://127.0.0.1:7420"] {
            assert_eq!(bad.parse::<Ticket>(), Err(NotATicket));
        }
        let none = Ticket {
            urls: Vec::new(),
            ..ticket()
        };
        assert_eq!(none.to_string().parse::<Ticket>(), Err(NotATicket));
    }
}
