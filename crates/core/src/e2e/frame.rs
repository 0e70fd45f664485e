//! What two nodes say to each other in an E2E session: bodies of E2E messages.

use super::bounds::{BODY_MAX_BYTES, SAID_MAX_BYTES};
use super::noise::{FIRST_BYTES, SECOND_BYTES, TAG_BYTES};
use crate::wire::cbor::{CborError, CborReason, Decode, Encode, Reader, Writer, from_slice};
use std::fmt;

/// What an E2E message of a session begins with. Any other is the application's.
pub const E2E_MARKER: [u8; 4] = *b"OvEs";

/// Names a session, by the hash of the message that asked for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub [u8; 16]);

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

/// One message of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// Let us have one: the handshake's first message, which names it.
    Open(&'a [u8; FIRST_BYTES]),
    /// So be it: the second.
    Accept(SessionId, &'a [u8; SECOND_BYTES]),
    /// This, under this number.
    Data(SessionId, u64, &'a [u8]),
    /// I have no such session.
    Lost(SessionId),
    /// I have no use for it any more.
    Close(SessionId),
}

impl Said<'_> {
    pub(super) fn to_body(self) -> Vec<u8> {
        let mut writer = Writer::append(E2E_MARKER.to_vec());
        self.encode(&mut writer);
        writer.into_bytes()
    }
}

impl<'a> Said<'a> {
    pub(super) fn from_body(body: &'a [u8]) -> Result<Self, CborError> {
        let marked = body.strip_prefix(&E2E_MARKER);
        let said = marked.ok_or_else(|| Reader::invalid(0, "marker of a session"))?;
        if said.len() > SAID_MAX_BYTES {
            let (bound, found) = (SAID_MAX_BYTES, said.len());
            let reason = CborReason::OverBound { bound, found };
            return Err(CborError { at: 0, reason });
        }
        from_slice(said)
    }
}

impl Encode for SessionId {
    fn encode(&self, writer: &mut Writer) {
        writer.bytes(&self.0);
    }
}

impl<'a> Decode<'a> for SessionId {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.byte_array().map(Self)
    }
}

impl Encode for Said<'_> {
    fn encode(&self, w: &mut Writer) {
        match *self {
            Self::Open(first) => w.array(2).uint(0).bytes(first),
            Self::Accept(id, second) => w.array(3).uint(1).value(&id).bytes(second),
            Self::Data(id, number, sealed) => {
                w.array(4).uint(2).value(&id).uint(number).bytes(sealed)
            }
            Self::Lost(id) => w.array(2).uint(3).value(&id),
            Self::Close(id) => w.array(2).uint(4).value(&id),
        };
    }
}

impl<'a> Decode<'a> for Said<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = r.at();
        let found = r.array()?;
        let tag = r.u8()?;
        let wanted = match tag {
            0 | 3 | 4 => 2,
            1 => 3,
            2 => 4,
            _ => return Err(Reader::invalid(at, "kind of message of a session")),
        };
        if found != wanted {
            let reason = CborReason::Length { wanted, found };
            return Err(CborError { at, reason });
        }
        Ok(match tag {
            0 => Self::Open(exactly(r)?),
            1 => Self::Accept(r.value()?, exactly(r)?),
            2 => Self::Data(r.value()?, r.uint()?, sealed(r)?),
            3 => Self::Lost(r.value()?),
            _ => Self::Close(r.value()?),
        })
    }
}

fn exactly<'a, const N: usize>(reader: &mut Reader<'a>) -> Result<&'a [u8; N], CborError> {
    let at = reader.at();
    let bytes = reader.bytes()?;
    let (wanted, found) = (N, bytes.len());
    let reason = CborReason::Length { wanted, found };
    bytes.try_into().map_err(|_| CborError { at, reason })
}

fn sealed<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], CborError> {
    let at = reader.at();
    let bytes = reader.bytes()?;
    let (bound, found) = (BODY_MAX_BYTES + TAG_BYTES, bytes.len());
    if found < TAG_BYTES {
        let reason = CborReason::Length {
            wanted: TAG_BYTES,
            found,
        };
        return Err(CborError { at, reason });
    }
    if found > bound {
        let reason = CborReason::OverBound { bound, found };
        return Err(CborError { at, reason });
    }
    Ok(bytes)
}
