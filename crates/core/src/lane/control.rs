//! Link control frames: what the two ends of one link generation say about the link itself.
//!
//! They are unsigned and idempotent, and mean something only on the generation they arrive on. HELLO, FIN and their
//! answers ride the channel they speak of; CREDIT, PING and PONG ride the control channel and are
//! numbered from 1 without a gap, and each says how many of the other side's were heard.
//! Law (one form): a frame decodes only from the bytes that encoding it gives.

use super::bounds::{
    LANE_WINDOW_DEFAULT_BYTES, LANE_WINDOW_FRAMES, LANE_WINDOW_MIN_BYTES, LANES,
    LINK_WINDOW_DEFAULT_BYTES, LINK_WINDOW_MIN_BYTES, MISSING_MAX, REFERRED_MAX_BYTES,
    WINDOW_MAX_BYTES, WINDOW_SCALE_MAX,
};
use super::delegations::Statements;
use crate::identity::DelegationDigest;
use crate::ids::{Class, NetworkId};
use crate::wire::cbor::{CborError, Decode, Encode, Reader, Writer, from_slice};
use crate::wire::frame::CONTROL_MARKER;

/// How much one receiver lets a sender have under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    lane_bytes: u32,
    link_bytes: u32,
}

impl Windows {
    /// Windows for a link byte window, which is brought into its bounds. A lane gets half of the
    /// link's, and never less than [`LANE_WINDOW_MIN_BYTES`].
    pub fn sized(link_bytes: u32) -> Self {
        let link_bytes = link_bytes.clamp(LINK_WINDOW_MIN_BYTES, WINDOW_MAX_BYTES);
        Self {
            lane_bytes: (link_bytes / 2).max(LANE_WINDOW_MIN_BYTES),
            link_bytes,
        }
    }

    /// Messages of a lane that the application has not yet taken.
    pub const fn lane_frames(self) -> u64 {
        LANE_WINDOW_FRAMES as u64
    }

    /// Payload bytes of a lane that the application has not yet taken.
    pub const fn lane_bytes(self) -> u64 {
        self.lane_bytes as u64
    }

    /// Payload bytes of the link that have not yet come off the channels.
    pub const fn link_bytes(self) -> u64 {
        self.link_bytes as u64
    }

    /// These windows so many times.
    pub(super) const fn times(self, scale: u8) -> Scaled {
        let scale = scale as u64;
        Scaled {
            lane_frames: self.lane_frames() * scale,
            lane_bytes: self.lane_bytes() * scale,
            link_bytes: self.link_bytes() * scale,
        }
    }
}

/// Windows as they are granted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scaled {
    pub(super) lane_frames: u64,
    pub(super) lane_bytes: u64,
    pub(super) link_bytes: u64,
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            lane_bytes: LANE_WINDOW_DEFAULT_BYTES,
            link_bytes: LINK_WINDOW_DEFAULT_BYTES,
        }
    }
}

impl Encode for Windows {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(2)
            .value(&self.lane_bytes)
            .value(&self.link_bytes);
    }
}

impl<'a> Decode<'a> for Windows {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        let at = reader.at();
        let lane_bytes = reader.u32()?;
        if !(LANE_WINDOW_MIN_BYTES..=WINDOW_MAX_BYTES).contains(&lane_bytes) {
            return Err(Reader::invalid(at, "lane byte window"));
        }
        let at = reader.at();
        let link_bytes = reader.u32()?;
        if !(LINK_WINDOW_MIN_BYTES..=WINDOW_MAX_BYTES).contains(&link_bytes) {
            return Err(Reader::invalid(at, "link byte window"));
        }
        Ok(Self {
            lane_bytes,
            link_bytes,
        })
    }
}

/// The origin quota that a destination keeps for each stream, told to its direct peers so that an
/// honest sender paces itself before it signs. Source: protocol decision 4 (origin quota).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaHint {
    /// Messages a second.
    pub messages_per_s: u32,
    /// Messages at once.
    pub burst_messages: u32,
    /// Bytes a second.
    pub bytes_per_s: u32,
    /// Bytes at once.
    pub burst_bytes: u32,
}

impl Default for QuotaHint {
    /// The quota of a destination that was not told otherwise.
    fn default() -> Self {
        Self {
            messages_per_s: 256,
            burst_messages: 2_048,
            bytes_per_s: 4 * 1024 * 1024,
            burst_bytes: 64 * 1024 * 1024,
        }
    }
}

impl Encode for QuotaHint {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(4)
            .value(&self.messages_per_s)
            .value(&self.burst_messages)
            .value(&self.bytes_per_s)
            .value(&self.burst_bytes);
    }
}

impl<'a> Decode<'a> for QuotaHint {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(4)?;
        Ok(Self {
            messages_per_s: reader.value()?,
            burst_messages: reader.value()?,
            bytes_per_s: reader.value()?,
            burst_bytes: reader.value()?,
        })
    }
}

/// What one end tells the other before any data, the same on every channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The network; a link never joins two.
    pub network: NetworkId,
    /// How much this end lets the other have under way.
    pub windows: Windows,
    /// The quota that this end keeps as a destination.
    pub quota: QuotaHint,
}

impl Encode for Hello {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(3)
            .value(&self.network)
            .value(&self.windows)
            .value(&self.quota);
    }
}

impl<'a> Decode<'a> for Hello {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(3)?;
        Ok(Self {
            network: reader.value()?,
            windows: reader.value()?,
            quota: reader.value()?,
        })
    }
}

/// What a receiver has let through since the link opened. Cumulative, so a repeated or a late one
/// changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credit {
    /// Messages, frames or batches, that the application took, a lane each.
    pub taken_frames: [u64; LANES],
    /// Payload bytes that the application took, a lane each.
    pub taken_bytes: [u64; LANES],
    /// Payload bytes of all lanes that came off the channels.
    pub drained_bytes: u64,
    /// How many times its HELLO's windows the receiver lets be under way, from 1 to
    /// [`WINDOW_SCALE_MAX`]. It never falls.
    pub scale: u8,
}

impl Default for Credit {
    /// Nothing let through yet, and the windows of the HELLO.
    fn default() -> Self {
        Self {
            taken_frames: [0; LANES],
            taken_bytes: [0; LANES],
            drained_bytes: 0,
            scale: 1,
        }
    }
}

impl Encode for Credit {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(4)
            .list(&self.taken_frames)
            .list(&self.taken_bytes)
            .value(&self.drained_bytes)
            .uint(self.scale.into());
    }
}

impl<'a> Decode<'a> for Credit {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(4)?;
        let (taken_frames, taken_bytes) = (each_lane(reader)?, each_lane(reader)?);
        let drained_bytes = reader.uint()?;
        let at = reader.at();
        let scale = reader.u8()?;
        if !(1..=WINDOW_SCALE_MAX).contains(&scale) {
            return Err(Reader::invalid(at, "window scale"));
        }
        Ok(Self {
            taken_frames,
            taken_bytes,
            drained_bytes,
            scale,
        })
    }
}

fn each_lane(reader: &mut Reader<'_>) -> Result<[u64; LANES], CborError> {
    reader.expect_array(LANES)?;
    let mut lanes = [0; LANES];
    for lane in &mut lanes {
        *lane = reader.uint()?;
    }
    Ok(lanes)
}

fn missing(reader: &mut Reader<'_>) -> Result<Vec<DelegationDigest>, CborError> {
    let at = reader.at();
    let digests = reader.list(MISSING_MAX)?;
    match digests.is_empty() {
        true => Err(Reader::invalid(at, "number of missing delegations")),
        false => Ok(digests),
    }
}

fn shown(reader: &mut Reader<'_>) -> Result<Vec<u8>, CborError> {
    let at = reader.at();
    match reader.bytes()? {
        shown if shown.len() <= REFERRED_MAX_BYTES => Ok(shown.to_vec()),
        _ => Err(Reader::invalid(at, "delegation that is shown")),
    }
}

/// What a numbered control frame says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Numbered {
    /// What the receiver has let through.
    Credit(Credit),
    /// The same, and what the receiver says of delegations.
    Delegations(Credit, Statements),
    /// Frames wait for these delegations, which they refer to and which are not held.
    Missing(Vec<DelegationDigest>),
    /// A delegation that is missed.
    Show(Vec<u8>),
    /// Are you there?
    Ping,
    /// The answer to the PING of this number.
    Pong(u64),
}

/// A link control frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlFrame {
    /// `[0, class, hello]`: the channel's first frame, sent again until it is answered.
    Hello(Class, Hello),
    /// `[1, class]`: the channel's HELLO came through.
    HelloAck(Class),
    /// `[2, class, frames]`: the lane's last frame; it carried `frames` payload frames in all.
    Fin(Class, u64),
    /// `[3, class]`: the lane's FIN came through, and everything before it.
    FinAck(Class),
    /// `[4, number, heard, credit]`, `[5, number, heard]` (PING), `[6, number, heard, ping]` (PONG),
    /// `[7, number, heard, credit, [[known digest, …], [disclaimed digest, …]]]` (CREDIT with KNOWN and DISCLAIM),
    /// `[8, number, heard, [digest, …]]` (MISSING), `[9, number, heard, delegation]` (SHOW).
    Numbered {
        /// This frame's number, from 1.
        number: u64,
        /// The highest number heard from the other side.
        heard: u64,
        /// What it says.
        says: Numbered,
    },
}

impl ControlFrame {
    /// The whole frame, its marker included.
    pub fn to_frame(&self) -> Vec<u8> {
        let mut writer = Writer::append(CONTROL_MARKER.to_vec());
        self.encode(&mut writer);
        writer.into_bytes()
    }

    /// Reads the body of a control frame: what follows its marker.
    ///
    /// # Errors
    /// Bytes that [`ControlFrame::to_frame`] does not give.
    pub fn from_body(body: &[u8]) -> Result<Self, CborError> {
        from_slice(body)
    }
}

impl Encode for ControlFrame {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Hello(class, hello) => writer.array(3).uint(0).value(class).value(hello),
            Self::HelloAck(class) => writer.array(2).uint(1).value(class),
            Self::Fin(class, frames) => writer.array(3).uint(2).value(class).value(frames),
            Self::FinAck(class) => writer.array(2).uint(3).value(class),
            Self::Numbered {
                number,
                heard,
                says,
            } => match says {
                Numbered::Credit(credit) => writer
                    .array(4)
                    .uint(4)
                    .value(number)
                    .value(heard)
                    .value(credit),
                Numbered::Delegations(credit, statements) => writer
                    .array(5)
                    .uint(7)
                    .value(number)
                    .value(heard)
                    .value(credit)
                    .value(statements),
                Numbered::Missing(digests) => writer
                    .array(4)
                    .uint(8)
                    .value(number)
                    .value(heard)
                    .list(digests),
                Numbered::Show(delegation) => writer
                    .array(4)
                    .uint(9)
                    .value(number)
                    .value(heard)
                    .bytes(delegation),
                Numbered::Ping => writer.array(3).uint(5).value(number).value(heard),
                Numbered::Pong(ping) => writer
                    .array(4)
                    .uint(6)
                    .value(number)
                    .value(heard)
                    .value(ping),
            },
        };
    }
}

impl<'a> Decode<'a> for ControlFrame {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let items = reader.array()?;
        let at = reader.at();
        let frame = match (reader.u8()?, items) {
            (0, 3) => Self::Hello(reader.value()?, reader.value()?),
            (1, 2) => Self::HelloAck(reader.value()?),
            (2, 3) => Self::Fin(reader.value()?, reader.value()?),
            (3, 2) => Self::FinAck(reader.value()?),
            (tag @ 4..=9, _) => Self::Numbered {
                number: reader.value()?,
                heard: reader.value()?,
                says: match (tag, items) {
                    (4, 4) => Numbered::Credit(reader.value()?),
                    (5, 3) => Numbered::Ping,
                    (6, 4) => Numbered::Pong(reader.value()?),
                    (7, 5) => Numbered::Delegations(reader.value()?, reader.value()?),
                    (8, 4) => Numbered::Missing(missing(reader)?),
                    (9, 4) => Numbered::Show(shown(reader)?),
                    _ => return Err(Reader::invalid(at, "link control frame")),
                },
            },
            _ => return Err(Reader::invalid(at, "link control frame")),
        };
        Ok(frame)
    }
}
