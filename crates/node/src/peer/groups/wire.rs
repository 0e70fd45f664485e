//! What the nodes of a group say to each other, each in one application transaction.

use overlane_core::transaction::{Data, Message, Namespace};
use overlane_core::wire::bounds::DATA_MAX_BYTES;
use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer, from_slice, to_vec};
use overlane_relay::log::LogId;
use overlane_relay::log::bounds::FRAME_MAX_BYTES;

/// The namespace that groups travel in.
pub const GROUPS_NAMESPACE: &str = "overlane/groups";

/// The most frames of logs in one message.
pub const FRAMES_PER_MESSAGE: usize = 1_024;

/// The tag, the heads of arrays and of the body, and the namespace.
const AROUND_BYTES: usize = 32 + GROUPS_NAMESPACE.len();

/// What a frame in a message has besides its bytes: the head of a byte string.
pub(super) const FRAME_HEAD_BYTES: usize = 3;

/// Bytes that frames of one message may have together, heads included.
pub(super) const FRAMES_BYTES: usize = DATA_MAX_BYTES - AROUND_BYTES;

const _: () = assert!(
    FRAME_MAX_BYTES + FRAME_HEAD_BYTES <= FRAMES_BYTES,
    "every frame of a log fits a transaction"
);

/// One message about groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said<'a> {
    /// `[0, frames]`: frames of logs, in this order.
    Frames(Vec<FrameBytes<'a>>),
    /// `[1, log, revision, follows]`: I have this revision of the roster; zero for none. Tell me of
    /// news if I follow.
    Greet {
        /// The group's log.
        log: LogId,
        /// The revision of the roster in force there.
        revision: u64,
        /// Whether news are wanted.
        follows: bool,
    },
    /// `[2, log, revision, entries, bytes]`: the answer, and how much of the log is here.
    Greeted {
        /// The group's log.
        log: LogId,
        /// The revision of the roster in force there.
        revision: u64,
        /// Envelopes held.
        entries: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// `[3, roster]`: a newer roster than yours.
    Roster(&'a [u8]),
    /// `[4, log]`: there is something new since you asked last.
    News(LogId),
    /// `[5, log]`: take me off the roster.
    Leave(LogId),
    /// `[6, log]`: not kept here, or not for you.
    NotHere(LogId),
    /// `[7, log, epoch, revision]`: give me the last roster of this epoch, or of the next below that you
    /// have, if it is of this revision or a later one.
    AskEarlier {
        /// The group's log.
        log: LogId,
        /// The epoch.
        epoch: u64,
        /// The least revision.
        revision: u64,
    },
    /// `[8, roster]`: the last roster of an epoch that is over, to one that asked.
    Earlier(&'a [u8]),
    /// `[9, log, epoch]`: none of this epoch or an earlier one for you.
    NoEarlier {
        /// The group's log.
        log: LogId,
        /// The epoch that was asked for.
        epoch: u64,
    },
}

/// The bytes of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameBytes<'a>(pub(crate) &'a [u8]);

impl<'a> Said<'a> {
    /// What the body of a message in [`GROUPS_NAMESPACE`] says.
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, CborError> {
        from_slice(body)
    }

    /// The data of the transaction that says it.
    pub(crate) fn to_data(&self) -> Result<Data, CborError> {
        let body = to_vec(self);
        let namespace = Namespace::new(GROUPS_NAMESPACE).unwrap_or_default();
        Data::parse(to_vec(&Message::Application {
            namespace,
            body: &body,
        }))
    }
}

impl Encode for FrameBytes<'_> {
    fn encode(&self, writer: &mut Writer) {
        writer.bytes(self.0);
    }
}

impl<'a> Decode<'a> for FrameBytes<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.bytes().map(Self)
    }
}

impl Encode for Said<'_> {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Frames(frames) => writer.array(2).uint(0).list(frames),
            Self::Greet {
                log,
                revision,
                follows,
            } => {
                let writer = writer.array(4).uint(1).value(&log.0);
                writer.uint(*revision).boolean(*follows)
            }
            Self::Greeted {
                log,
                revision,
                entries,
                bytes,
            } => {
                let writer = writer.array(5).uint(2).value(&log.0);
                writer.uint(*revision).uint(*entries).uint(*bytes)
            }
            Self::Roster(roster) => writer.array(2).uint(3).bytes(roster),
            Self::News(log) => writer.array(2).uint(4).value(&log.0),
            Self::Leave(log) => writer.array(2).uint(5).value(&log.0),
            Self::NotHere(log) => writer.array(2).uint(6).value(&log.0),
            Self::AskEarlier {
                log,
                epoch,
                revision,
            } => {
                let writer = writer.array(4).uint(7).value(&log.0);
                writer.uint(*epoch).uint(*revision)
            }
            Self::Earlier(roster) => writer.array(2).uint(8).bytes(roster),
            Self::NoEarlier { log, epoch } => writer.array(3).uint(9).value(&log.0).uint(*epoch),
        };
    }
}

impl<'a> Decode<'a> for Said<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        let fields = reader.array()?;
        let kind = reader.u8()?;
        Ok(match (kind, fields) {
            (0, 2) => Self::Frames(reader.list(FRAMES_PER_MESSAGE)?),
            (1, 4) => Self::Greet {
                log: log(reader)?,
                revision: reader.uint()?,
                follows: reader.boolean()?,
            },
            (2, 5) => Self::Greeted {
                log: log(reader)?,
                revision: reader.uint()?,
                entries: reader.uint()?,
                bytes: reader.uint()?,
            },
            (3, 2) => Self::Roster(reader.bytes()?),
            (4, 2) => Self::News(log(reader)?),
            (5, 2) => Self::Leave(log(reader)?),
            (6, 2) => Self::NotHere(log(reader)?),
            (7, 4) => Self::AskEarlier {
                log: log(reader)?,
                epoch: reader.uint()?,
                revision: reader.uint()?,
            },
            (8, 2) => Self::Earlier(reader.bytes()?),
            (9, 3) => Self::NoEarlier {
                log: log(reader)?,
                epoch: reader.uint()?,
            },
            _ => return Err(Reader::invalid(at, "message about groups")),
        })
    }
}

fn log(reader: &mut Reader<'_>) -> Result<LogId, CborError> {
    reader.byte_array().map(LogId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_group_messages_have_one_form_and_the_largest_fit_a_transaction() {
        let log = LogId([7; 32]);
        let frame = vec![7; FRAME_MAX_BYTES];
        let small = [9; 10];
        let many = vec![FrameBytes(&small); FRAMES_PER_MESSAGE];
        for said in [
            Said::Frames(vec![FrameBytes(&frame)]),
            Said::Frames(many),
            Said::Greet {
                log,
                revision: u64::MAX,
                follows: true,
            },
            Said::Greeted {
                log,
                revision: 1,
                entries: 2,
                bytes: u64::MAX,
            },
            Said::Roster(&small),
            Said::News(log),
            Said::Leave(log),
            Said::NotHere(log),
            Said::AskEarlier {
                log,
                epoch: u64::MAX,
                revision: 3,
            },
            Said::Earlier(&small),
            Said::NoEarlier { log, epoch: 1 },
        ] {
            let data = said.to_data().unwrap();
            let message = data.message();
            assert_eq!(Said::read(message.body()), Ok(said));
        }
        let over = vec![FrameBytes(&small); FRAMES_PER_MESSAGE + 1];
        assert!(Said::read(&to_vec(&Said::Frames(over))).is_err());
        assert!(Said::read(&[0x82, 9, 9]).is_err());
    }
}
