//! What a node keeps about references besides their tables, in rows of the same store and the same
//! commits.

use overlane_core::Did;
use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer, from_slice, to_vec};
use overlane_relay::refs::table::{Change, LinkId, Local, LocalObject, LocalPromise, Source};
use overlane_relay::refs::wire::{Body, Epoch, Reason, Seq};

use super::NOTE_MAX_BYTES;

/// What the names of these rows begin with: the head of a pair, and `"node"`. Those of the tables
/// begin with a number.
const PREFIX: [u8; 6] = *b"\x82\x64node";

/// Names a reference that is kept over restarts; never used again for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// What names a call for as long as it is open: the frame that brought it, and its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    pub(super) link: LinkId,
    pub(super) epoch: Epoch,
    pub(super) seq: Seq,
    pub(super) index: u32,
}

/// The name of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Numbers,
    Kept(Token),
    Far(LinkId),
    Call(CallId),
}

/// Numbers of this node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) next_kept: u64,
    pub(super) next_own_call: u64,
    pub(super) door: Option<LocalObject>,
}

/// A reference that outlives the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeptRow {
    pub(super) local: Local,
    /// What whoever keeps it wrote down to know it again.
    pub(super) note: Vec<u8>,
    /// What its owner said when it was taken back.
    pub(super) taken_back: Option<(Reason, Vec<u8>)>,
    /// The digests of the secrets that lead to it.
    pub(super) tickets: Vec<[u8; 32]>,
}

/// A node that references are shared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FarRow {
    pub(super) did: Did,
    pub(super) floor: Epoch,
    pub(super) door: Option<LocalObject>,
}

/// A call that was not answered yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallRow {
    pub(super) from: Source,
    pub(super) target: LocalObject,
    pub(super) body: Body<Local>,
    pub(super) result: Option<LocalPromise>,
}

impl Key {
    /// The row's name, if it is not one of the tables.
    pub(super) fn read(key: &[u8]) -> Option<Result<Self, CborError>> {
        key.strip_prefix(&PREFIX).map(from_slice)
    }

    fn to_bytes(self) -> Vec<u8> {
        let mut key = PREFIX.to_vec();
        key.extend(to_vec(&self));
        key
    }

    /// The row as it is from now on.
    pub(super) fn holds(self, value: &impl Encode) -> Change {
        Change {
            key: self.to_bytes(),
            value: Some(to_vec(value)),
        }
    }

    /// The row is gone.
    pub(super) fn is_gone(self) -> Change {
        Change {
            key: self.to_bytes(),
            value: None,
        }
    }
}

impl Encode for Key {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Numbers => writer.array(1).uint(0),
            Self::Kept(Token(number)) => writer.array(2).uint(1).value(number),
            Self::Far(link) => writer.array(2).uint(2).value(link),
            Self::Call(call) => writer
                .array(5)
                .uint(3)
                .value(&call.link)
                .value(&call.epoch)
                .value(&call.seq)
                .value(&call.index),
        };
    }
}

impl<'a> Decode<'a> for Key {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        let fields = reader.array()?;
        match (reader.u8()?, fields) {
            (0, 1) => Ok(Self::Numbers),
            (1, 2) => Ok(Self::Kept(Token(reader.value()?))),
            (2, 2) => reader.value().map(Self::Far),
            (3, 5) => Ok(Self::Call(CallId {
                link: reader.value()?,
                epoch: reader.value()?,
                seq: reader.value()?,
                index: reader.value()?,
            })),
            _ => Err(Reader::invalid(at, "name of a row of a node")),
        }
    }
}

impl Encode for Numbers {
    fn encode(&self, writer: &mut Writer) {
        let writer = writer.array(3).value(&self.next_kept);
        writer.value(&self.next_own_call).value(&self.door);
    }
}

impl<'a> Decode<'a> for Numbers {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(3)?;
        Ok(Self {
            next_kept: reader.value()?,
            next_own_call: reader.value()?,
            door: reader.value()?,
        })
    }
}

impl Encode for KeptRow {
    fn encode(&self, writer: &mut Writer) {
        writer.array(4).value(&self.local).bytes(&self.note);
        match &self.taken_back {
            Some((reason, said)) => writer.array(2).value(reason).bytes(said),
            None => writer.null(),
        };
        writer.list(&self.tickets);
    }
}

impl<'a> Decode<'a> for KeptRow {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        use overlane_core::wire::cbor::Kind;
        reader.expect_array(4)?;
        let local = reader.value()?;
        let note = reader.bytes()?.to_vec();
        if note.len() > NOTE_MAX_BYTES {
            return Err(Reader::invalid(reader.at(), "note of a kept reference"));
        }
        let taken_back = match reader.peek()? {
            Kind::Null => reader.null().map(|()| None)?,
            _ => {
                reader.expect_array(2)?;
                Some((reader.value()?, reader.bytes()?.to_vec()))
            }
        };
        Ok(Self {
            local,
            note,
            taken_back,
            tickets: reader.list(super::TICKETS_MAX)?,
        })
    }
}

impl Encode for FarRow {
    fn encode(&self, writer: &mut Writer) {
        let writer = writer.array(3).value(&self.did);
        writer.value(&self.floor).value(&self.door);
    }
}

impl<'a> Decode<'a> for FarRow {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(3)?;
        Ok(Self {
            did: reader.value()?,
            floor: reader.value()?,
            door: reader.value()?,
        })
    }
}

impl Encode for CallRow {
    fn encode(&self, writer: &mut Writer) {
        let writer = writer.array(4).value(&self.from).value(&self.target);
        writer.value(&self.body).value(&self.result);
    }
}

impl<'a> Decode<'a> for CallRow {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(4)?;
        Ok(Self {
            from: reader.value()?,
            target: reader.value()?,
            body: reader.value()?,
            result: reader.value()?,
        })
    }
}

impl std::fmt::Display for CallId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            link,
            epoch,
            seq,
            index,
        } = self;
        write!(f, "{link}.{epoch}.{seq}.{index}")
    }
}

impl std::str::FromStr for Token {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again<T: Encode + for<'a> Decode<'a> + PartialEq + std::fmt::Debug>(row: &T) {
        assert_eq!(&from_slice::<T>(&to_vec(row)).unwrap(), row);
    }

    #[test]
    fn law_rows_of_a_node_read_as_they_were_written_and_are_none_of_the_tables() {
        let call = CallId {
            link: LinkId(1),
            epoch: Epoch(2),
            seq: Seq(3),
            index: 4,
        };
        let keys = [
            Key::Numbers,
            Key::Kept(Token(7)),
            Key::Far(LinkId(9)),
            Key::Call(call),
        ];
        for key in keys {
            assert_eq!(Key::read(&key.is_gone().key).unwrap().unwrap(), key);
        }
        assert!(Key::read(&[0x82, 1, 2]).is_none());
        let local = Local::Object(LocalObject(5));
        again(&Numbers {
            next_kept: 1,
            next_own_call: 2,
            door: Some(LocalObject(3)),
        });
        for taken_back in [None, Some((Reason(300), b"why".to_vec()))] {
            again(&KeptRow {
                local,
                note: b"note".to_vec(),
                taken_back,
                tickets: vec![[1; 32], [2; 32]],
            });
        }
        again(&FarRow {
            did: Did([1; 20]),
            floor: Epoch(2),
            door: None,
        });
        again(&CallRow {
            from: Source::Link(LinkId(3)),
            target: LocalObject(1),
            body: Body::of([local, Local::Promise(LocalPromise(2))]),
            result: Some(LocalPromise(2)),
        });
    }
}
