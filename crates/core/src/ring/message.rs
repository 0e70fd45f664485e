//! What nodes of the ring say to each other: bodies of control messages.
//!
//! A request carries a number of the asker's, and its answer the same number; an answer counts only if
//! the node that was asked signed it and its request is open. Source: protocol decision 7.

use super::bounds::{
    ACCOUNT_TOLD_MAX_BYTES, CARD_TOLD_MAX_BYTES, DECLINE_CODE_MAX_BYTES, SUCCESSORS_KEPT,
};
use crate::fault::{Coded, Fault};
use crate::ids::{Did, TransactionDigest};
use crate::wire::bounds::SIGNAL_MAX_BYTES;
use crate::wire::cbor::{CborError, CborReason, Decode, Encode, Kind, Reader, Writer, from_slice};

/// What a control message of the ring begins with. Any other is the application's.
pub const RING_MARKER: [u8; 4] = *b"OvRg";

/// Names a request among those of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// One message of the ring.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RingMessage {
    /// Who are your neighbours?
    Ask {
        /// The request.
        id: RequestId,
    },
    /// My neighbours.
    State {
        /// The request.
        id: RequestId,
        /// Whom I take for my predecessor.
        predecessor: Option<Did>,
        /// My successors, nearest first.
        successors: Vec<Did>,
    },
    /// I take you for my successor.
    Notify,
    /// Who owns this place?
    Find {
        /// The request.
        id: RequestId,
        /// The place.
        place: Did,
    },
    /// The first of these owns it: nobody lies between me and it.
    Owner {
        /// The request.
        id: RequestId,
        /// The owner, and its successors as far as I know.
        owners: Vec<Did>,
    },
    /// I do not know; this node lies nearer before it.
    Nearer {
        /// The request.
        id: RequestId,
        /// The node.
        node: Did,
        /// The first node at the place or after it that I know, which may not be its owner.
        after: Option<Did>,
    },
    /// I leave the ring; these were my neighbours.
    Leave {
        /// My predecessor.
        predecessor: Option<Did>,
        /// My successors, nearest first.
        successors: Vec<Did>,
    },
    /// Are you there?
    Ping {
        /// The request.
        id: RequestId,
    },
    /// Here I am.
    Pong {
        /// The request.
        id: RequestId,
        /// How many hops the request took.
        hops: u8,
    },
    /// Where do you send what is for this node?
    Where {
        /// The request.
        id: RequestId,
        /// The node.
        destination: Did,
        /// Whether it crossed its destination before it came to you.
        handed_off: bool,
    },
    /// There.
    There {
        /// The request.
        id: RequestId,
        /// The next hop; none where the route ends.
        next_hop: Option<Did>,
        /// Whether it has crossed its destination by then.
        handed_off: bool,
    },
    /// A signed offer of a link.
    Offer {
        /// The request.
        id: RequestId,
        /// The offer's bytes.
        offer: Vec<u8>,
    },
    /// A signed answer to an offer.
    Answer {
        /// The request.
        id: RequestId,
        /// The answer's bytes.
        answer: Vec<u8>,
    },
    /// The offer is not taken.
    Decline {
        /// The request.
        id: RequestId,
        /// Why, as a code.
        code: String,
    },
    /// What you sent does not reach its destination.
    Unreachable {
        /// The transaction.
        digest: TransactionDigest,
        /// Its destination.
        destination: Did,
        /// Why.
        why: WhyUnreachable,
    },
    /// What is sealed to, for this account?
    KeyOf {
        /// The request.
        id: RequestId,
        /// The account.
        account: Did,
    },
    /// As far as I know, this. Whoever says it, a key counts by its hash, and a card by its signature.
    Key {
        /// The request.
        id: RequestId,
        /// The account's public key, in libp2p's protobuf form.
        account: Option<Vec<u8>>,
        /// Its contact card, where the key says no sealing key.
        card: Option<Vec<u8>>,
    },
}

/// Why a message does not reach its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum WhyUnreachable {
    /// The route ends: nobody nearer is linked, and it crossed its destination before.
    NoRoute = 0,
    /// It took as many hops as it might.
    HopBudget = 1,
    /// The next hop's lane is full.
    Congested = 2,
}

impl Coded for WhyUnreachable {
    fn code(&self) -> &'static str {
        match self {
            Self::NoRoute => "route/destination_unreachable",
            Self::HopBudget => "route/hop_budget",
            Self::Congested => "route/congested",
        }
    }

    fn fault(&self) -> Fault {
        Fault::Unreachable
    }
}

impl RingMessage {
    /// The body of the control message that says this.
    pub fn to_body(&self) -> Vec<u8> {
        let mut writer = Writer::append(RING_MARKER.to_vec());
        self.encode(&mut writer);
        writer.into_bytes()
    }

    /// Whether a control message's body is the ring's.
    pub fn is_ring(body: &[u8]) -> bool {
        body.starts_with(&RING_MARKER)
    }

    /// What a control message's body says.
    ///
    /// # Errors
    /// Not the one form of a ring message, its marker included.
    pub fn from_body(body: &[u8]) -> Result<Self, CborError> {
        match body.split_first_chunk() {
            Some((&RING_MARKER, message)) => from_slice(message),
            _ => Err(Reader::invalid(0, "ring marker")),
        }
    }

    /// The number of the request that this answers.
    pub fn answers(&self) -> Option<RequestId> {
        match self {
            Self::State { id, .. }
            | Self::Owner { id, .. }
            | Self::Nearer { id, .. }
            | Self::Pong { id, .. }
            | Self::There { id, .. }
            | Self::Answer { id, .. }
            | Self::Decline { id, .. }
            | Self::Key { id, .. } => Some(*id),
            _ => None,
        }
    }

    /// The number of the request that this is.
    pub fn asks(&self) -> Option<RequestId> {
        match self {
            Self::Ask { id }
            | Self::Find { id, .. }
            | Self::Ping { id }
            | Self::Where { id, .. }
            | Self::Offer { id, .. }
            | Self::KeyOf { id, .. } => Some(*id),
            _ => None,
        }
    }

    /// What it is called in events and logs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ask { .. } => "ask",
            Self::State { .. } => "state",
            Self::Notify => "notify",
            Self::Find { .. } => "find",
            Self::Owner { .. } => "owner",
            Self::Nearer { .. } => "nearer",
            Self::Leave { .. } => "leave",
            Self::Ping { .. } => "ping",
            Self::Pong { .. } => "pong",
            Self::Where { .. } => "where",
            Self::There { .. } => "there",
            Self::Offer { .. } => "offer",
            Self::Answer { .. } => "answer",
            Self::Decline { .. } => "decline",
            Self::Unreachable { .. } => "unreachable",
            Self::KeyOf { .. } => "key_of",
            Self::Key { .. } => "key",
        }
    }
}

impl Encode for RequestId {
    fn encode(&self, writer: &mut Writer) {
        writer.uint(self.0);
    }
}

impl<'a> Decode<'a> for RequestId {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.uint().map(Self)
    }
}

impl Encode for WhyUnreachable {
    fn encode(&self, writer: &mut Writer) {
        writer.uint(u64::from(*self as u8));
    }
}

impl<'a> Decode<'a> for WhyUnreachable {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        match reader.u8()? {
            0 => Ok(Self::NoRoute),
            1 => Ok(Self::HopBudget),
            2 => Ok(Self::Congested),
            _ => Err(Reader::invalid(at, "reason of an unreachable destination")),
        }
    }
}

impl Encode for RingMessage {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Ask { id } => w.array(2).uint(0).value(id),
            Self::State {
                id,
                predecessor,
                successors,
            } => w
                .array(4)
                .uint(1)
                .value(id)
                .value(predecessor)
                .list(successors),
            Self::Notify => w.array(1).uint(2),
            Self::Find { id, place } => w.array(3).uint(3).value(id).value(place),
            Self::Owner { id, owners } => w.array(3).uint(4).value(id).list(owners),
            Self::Nearer { id, node, after } => {
                w.array(4).uint(5).value(id).value(node).value(after)
            }
            Self::Leave {
                predecessor,
                successors,
            } => w.array(3).uint(6).value(predecessor).list(successors),
            Self::Ping { id } => w.array(2).uint(7).value(id),
            Self::Pong { id, hops } => w.array(3).uint(8).value(id).value(hops),
            Self::Where {
                id,
                destination,
                handed_off,
            } => w
                .array(4)
                .uint(9)
                .value(id)
                .value(destination)
                .value(handed_off),
            Self::There {
                id,
                next_hop,
                handed_off,
            } => w
                .array(4)
                .uint(10)
                .value(id)
                .value(next_hop)
                .value(handed_off),
            Self::Offer { id, offer } => w.array(3).uint(11).value(id).bytes(offer),
            Self::Answer { id, answer } => w.array(3).uint(12).value(id).bytes(answer),
            Self::Decline { id, code } => w.array(3).uint(13).value(id).text(code),
            Self::Unreachable {
                digest,
                destination,
                why,
            } => w
                .array(4)
                .uint(14)
                .value(digest)
                .value(destination)
                .value(why),
            Self::KeyOf { id, account } => w.array(3).uint(15).value(id).value(account),
            Self::Key { id, account, card } => {
                w.array(4).uint(16).value(id);
                told(w, account.as_deref());
                told(w, card.as_deref());
                w
            }
        };
    }
}

impl<'a> Decode<'a> for RingMessage {
    fn decode(r: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = r.at();
        let found = r.array()?;
        let tag = r.u8()?;
        let wanted = match tag {
            2 => 1,
            0 | 7 => 2,
            3 | 4 | 6 | 8 | 11..=13 | 15 => 3,
            1 | 5 | 9 | 10 | 14 | 16 => 4,
            _ => return Err(Reader::invalid(at, "kind of ring message")),
        };
        if found != wanted {
            let reason = CborReason::Length { wanted, found };
            return Err(CborError { at, reason });
        }
        Ok(match tag {
            0 => Self::Ask { id: r.value()? },
            1 => Self::State {
                id: r.value()?,
                predecessor: r.value()?,
                successors: r.list(SUCCESSORS_KEPT)?,
            },
            2 => Self::Notify,
            3 => Self::Find {
                id: r.value()?,
                place: r.value()?,
            },
            4 => Self::Owner {
                id: r.value()?,
                owners: r.list(SUCCESSORS_KEPT)?,
            },
            5 => Self::Nearer {
                id: r.value()?,
                node: r.value()?,
                after: r.value()?,
            },
            6 => Self::Leave {
                predecessor: r.value()?,
                successors: r.list(SUCCESSORS_KEPT)?,
            },
            7 => Self::Ping { id: r.value()? },
            8 => Self::Pong {
                id: r.value()?,
                hops: r.value()?,
            },
            9 => Self::Where {
                id: r.value()?,
                destination: r.value()?,
                handed_off: r.value()?,
            },
            10 => Self::There {
                id: r.value()?,
                next_hop: r.value()?,
                handed_off: r.value()?,
            },
            11 => Self::Offer {
                id: r.value()?,
                offer: signal(r)?,
            },
            12 => Self::Answer {
                id: r.value()?,
                answer: signal(r)?,
            },
            13 => Self::Decline {
                id: r.value()?,
                code: code(r)?,
            },
            14 => Self::Unreachable {
                digest: r.value()?,
                destination: r.value()?,
                why: r.value()?,
            },
            15 => Self::KeyOf {
                id: r.value()?,
                account: r.value()?,
            },
            _ => Self::Key {
                id: r.value()?,
                account: read_told(r, ACCOUNT_TOLD_MAX_BYTES)?,
                card: read_told(r, CARD_TOLD_MAX_BYTES)?,
            },
        })
    }
}

fn told(writer: &mut Writer, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => writer.bytes(bytes),
        None => writer.null(),
    };
}

/// Bytes whose own form is judged where they are used, or null.
fn read_told(reader: &mut Reader<'_>, bound: usize) -> Result<Option<Vec<u8>>, CborError> {
    if reader.peek()? == Kind::Null {
        reader.null()?;
        return Ok(None);
    }
    let at = reader.at();
    let bytes = reader.bytes()?;
    within(at, bytes.len(), bound)?;
    Ok(Some(bytes.to_vec()))
}

/// An offer's or an answer's bytes, whose own form is judged where they are used.
fn signal(reader: &mut Reader<'_>) -> Result<Vec<u8>, CborError> {
    let at = reader.at();
    let bytes = reader.bytes()?;
    within(at, bytes.len(), SIGNAL_MAX_BYTES)?;
    Ok(bytes.to_vec())
}

/// A code is shown to people: nothing but the letters of codes is taken.
fn code(reader: &mut Reader<'_>) -> Result<String, CborError> {
    let at = reader.at();
    let text = reader.text()?;
    within(at, text.len(), DECLINE_CODE_MAX_BYTES)?;
    let of_code = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '/';
    if !text.chars().all(of_code) {
        return Err(Reader::invalid(at, "code"));
    }
    Ok(text.to_owned())
}

fn within(at: usize, found: usize, bound: usize) -> Result<(), CborError> {
    if found <= bound {
        return Ok(());
    }
    let reason = CborReason::OverBound { bound, found };
    Err(CborError { at, reason })
}
