//! What nodes say to each other about mail: storage transactions that begin with a marker.
//!
//! They travel in the storage class and not beside the mail itself, because every message of a class
//! moves its stream's window: one who holds mail of its own for a node that comes back would otherwise
//! make that mail stale by the very answers that bring it.

use overlane_core::TransactionDigest;
use overlane_core::transaction::{Data, Message};
use overlane_core::wire::bounds::DATA_MAX_BYTES;
use overlane_core::wire::cbor::{
    CborError, CborReason, Decode, Encode, Reader, Writer, from_slice, to_vec,
};

/// The namespace of what is said about mail: what the body of such a storage message begins with.
pub const INBOX_NAMESPACE: &str = "overlane/inbox";

/// The longest code of a refusal.
const CODE_MAX_BYTES: usize = 64;

/// One thing said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// `[0, bytes]`: a frame of [`overlane_relay::inbox::Frame`].
    Inbox(Vec<u8>),
    /// `[1, bytes]`: a frame of an inbox's log.
    Log(Vec<u8>),
    /// `[2, payload]`: hold this for its destination.
    Deposit(Vec<u8>),
    /// `[3, digest, code]`: that mail is not held here.
    Refused(TransactionDigest, String),
    /// `[4, digest]`: did you admit this message of mine?
    Ask(TransactionDigest),
    /// `[5, digest]`: it is admitted here, durably.
    Have(TransactionDigest),
    /// `[6]`: I am here; what became of mail of mine that you held?
    Here,
}

impl Said {
    /// The storage message that says this; `None` over the bound of a message.
    pub fn to_data(&self) -> Option<Data> {
        let body = to_vec(&Around(self));
        Data::parse(to_vec(&Message::Storage(&body))).ok()
    }

    /// Whether a storage message's body is about mail.
    pub fn is_said(body: &[u8]) -> bool {
        let mut reader = Reader::new(body);
        let head = reader.expect_array(2).and_then(|()| reader.text());
        head.is_ok_and(|namespace| namespace == INBOX_NAMESPACE)
    }

    /// What a storage message's body says.
    ///
    /// # Errors
    /// Not the one form of it.
    pub fn from_body(body: &[u8]) -> Result<Self, CborError> {
        if body.len() > DATA_MAX_BYTES {
            let (bound, found) = (DATA_MAX_BYTES, body.len());
            let reason = CborReason::OverBound { bound, found };
            return Err(CborError { at: 0, reason });
        }
        from_slice::<Read>(body).map(|read| read.0)
    }
}

/// `[namespace, said]`, to write.
struct Around<'a>(&'a Said);

/// `[namespace, said]`, that was read.
struct Read(Said);

impl Encode for Around<'_> {
    fn encode(&self, writer: &mut Writer) {
        writer.array(2).text(INBOX_NAMESPACE).value(self.0);
    }
}

impl Encode for Read {
    fn encode(&self, writer: &mut Writer) {
        Around(&self.0).encode(writer);
    }
}

impl<'a> Decode<'a> for Read {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        let at = reader.at();
        if reader.text()? != INBOX_NAMESPACE {
            return Err(Reader::invalid(at, "namespace of mail"));
        }
        reader.value().map(Self)
    }
}

impl Encode for Said {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Inbox(frame) => writer.array(2).uint(0).bytes(frame),
            Self::Log(frame) => writer.array(2).uint(1).bytes(frame),
            Self::Deposit(payload) => writer.array(2).uint(2).bytes(payload),
            Self::Refused(digest, code) => writer.array(3).uint(3).value(digest).text(code),
            Self::Ask(digest) => writer.array(2).uint(4).value(digest),
            Self::Have(digest) => writer.array(2).uint(5).value(digest),
            Self::Here => writer.array(1).uint(6),
        };
    }
}

impl<'a> Decode<'a> for Said {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        let fields = reader.array()?;
        Ok(match (reader.u8()?, fields) {
            (0, 2) => Self::Inbox(reader.bytes()?.to_vec()),
            (1, 2) => Self::Log(reader.bytes()?.to_vec()),
            (2, 2) => Self::Deposit(reader.bytes()?.to_vec()),
            (3, 3) => Self::Refused(reader.value()?, code(reader)?),
            (4, 2) => Self::Ask(reader.value()?),
            (5, 2) => Self::Have(reader.value()?),
            (6, 1) => Self::Here,
            _ => return Err(Reader::invalid(at, "what is said about mail")),
        })
    }
}

/// A code: printable, short.
fn code(reader: &mut Reader<'_>) -> Result<String, CborError> {
    let at = reader.at();
    let code = reader.text()?;
    let fits = code.len() <= CODE_MAX_BYTES && code.bytes().all(|it| it.is_ascii_graphic());
    if !fits {
        return Err(Reader::invalid(at, "code of a refusal"));
    }
    Ok(code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_what_is_said_about_mail_has_one_form() {
        let digest = TransactionDigest([7; 32]);
        let all = [
            Said::Inbox(vec![1]),
            Said::Log(vec![2]),
            Said::Deposit(vec![3]),
            Said::Refused(digest, "inbox/not_a_holder".to_owned()),
            Said::Ask(digest),
            Said::Have(digest),
            Said::Here,
        ];
        for said in all {
            let body = to_vec(&Around(&said));
            assert!(Said::is_said(&body));
            assert_eq!(Said::from_body(&body), Ok(said.clone()));
            assert!(Said::from_body(&body[..body.len() - 1]).is_err());
            assert!(said.to_data().is_some());
        }
        let here = hex(&to_vec(&Around(&Said::Here)));
        assert_eq!(here, "826e6f7665726c616e652f696e626f788106");
        for other in [&b""[..], b"\x82", b"\x82\x61x\x81\x06", b"OvRg"] {
            assert!(!Said::is_said(other));
            assert!(Said::from_body(other).is_err());
        }
        let rude = to_vec(&Around(&Said::Refused(digest, "a b".to_owned())));
        assert!(Said::from_body(&rude).is_err());
        let long = to_vec(&Around(&Said::Refused(digest, "x".repeat(65))));
        assert!(Said::from_body(&long).is_err());
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
