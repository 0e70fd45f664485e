//! Reassembly: chunks of messages that are too large for one frame, until they are whole.
//!
//! Chunks come verified, so a message's set is its origin's alone: nobody else adds to it. Law
//! (bounded): sets and bytes are bounded for each link and for the node, a message by
//! [`MESSAGE_MAX_BYTES`], a set in time by [`CHUNKS_IDLE_MS`] without a chunk, by
//! [`CHUNKS_PASSED_MS`] behind a later message of its lane, and by the message's expiry; what is held of a whole message counts until its user lets it go. Law (once): a message
//! becomes whole once; its id is remembered in [`TOMBSTONES_MAX`] tombstones, and the replay window
//! knows it for ever. Law (again): one that was whole and not admitted, for a reason that may pass, may
//! come again. Expiry is judged first. Source: protocol decision 6 (chunks), seed 1.

use std::collections::{BTreeMap, VecDeque};

use crate::fault::{Coded, Fault};
use crate::ids::{Class, Did, TxId};
use crate::replay::Now;
use crate::transaction::{Chunk, ChunkHead};
use crate::wire::bounds::{MESSAGE_MAX_BYTES, PAYLOAD_OVERHEAD_MAX_BYTES};

/// Messages that one link brought in part.
pub const SETS_PER_LINK_MAX: usize = 64;

/// Messages that all links brought in part.
pub const SETS_MAX: usize = 512;

/// Bytes of messages, in part or whole and not yet let go, that one link brought.
pub const LINK_CHUNKS_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes of messages, in part or whole and not yet let go, that all links brought.
pub const CHUNKS_MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Finished messages whose ids are remembered.
pub const TOMBSTONES_MAX: usize = 1_024;

/// A set that got no chunk for this long is given up.
pub const CHUNKS_IDLE_MS: u64 = 30_000;

/// A set that got no chunk for this long is given up where chunks of a later message of its origin and
/// class came since over its link: a lane keeps its order, so the rest of it was taken back.
pub const CHUNKS_PASSED_MS: u64 = 500;

/// What a chunk costs beside its bytes.
const CHUNK_COST_BYTES: u64 = 64;

/// The most that a whole payload is.
const WHOLE_MAX_BYTES: u64 = (MESSAGE_MAX_BYTES + PAYLOAD_OVERHEAD_MAX_BYTES) as u64;

const _: () = assert!(
    LINK_CHUNKS_MAX_BYTES
        >= WHOLE_MAX_BYTES + crate::wire::bounds::CHUNKS_MAX as u64 * CHUNK_COST_BYTES,
    "the largest message fits its link's share"
);
const _: () = assert!(LINK_CHUNKS_MAX_BYTES * 2 <= CHUNKS_MAX_BYTES);
const _: () = assert!(SETS_PER_LINK_MAX < SETS_MAX);

/// Names the message that chunks are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunksOf {
    /// Who signed it.
    pub origin: Did,
    /// Its class.
    pub class: Class,
    /// The sequence that was reserved for it.
    pub sequence: u64,
    /// Its own name.
    pub tx_id: TxId,
}

/// What a chunk made of its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gathered {
    /// Others are missing.
    Waits,
    /// This one came before.
    Again,
    /// The message is whole: its payload. What it holds counts until [`Chunks::release`].
    Whole(Vec<u8>),
}

/// Why a chunk was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChunkRefusal {
    /// The message can be verified no more.
    #[error("a chunk of a message that expired at {expiry_ms}")]
    Expired {
        /// When it did.
        expiry_ms: u64,
    },
    /// The message was whole already, or was given up.
    #[error("a chunk of a message that is finished")]
    Finished,
    /// It says another total or expiry than the chunks before it, or other bytes in its place.
    #[error("a chunk that disagrees with the others of its message")]
    Disagrees,
    /// The chunks are more than a message may be.
    #[error("chunks of more than {MESSAGE_MAX_BYTES} bytes in all")]
    TooLarge,
    /// The link brought as many messages in part as it may.
    #[error("the link brought {SETS_PER_LINK_MAX} messages in part")]
    LinkSets,
    /// All links did.
    #[error("{SETS_MAX} messages are there in part")]
    NodeSets,
    /// The link brought as many bytes as it may.
    #[error("the link brought {LINK_CHUNKS_MAX_BYTES} bytes of messages in part")]
    LinkBytes,
    /// All links did.
    #[error("as many bytes of messages are there in part as this node holds")]
    NodeBytes,
    /// What the chunks gave together is no such payload.
    #[error("the chunks together are no payload of theirs")]
    NotWhole,
}

impl Coded for ChunkRefusal {
    fn code(&self) -> &'static str {
        match self {
            Self::Expired { .. } => "chunk/expired",
            Self::Finished => "chunk/finished",
            Self::Disagrees => "chunk/disagrees",
            Self::TooLarge => "chunk/too_large",
            Self::LinkSets => "chunk/link_sets",
            Self::NodeSets => "chunk/node_sets",
            Self::LinkBytes => "chunk/link_bytes",
            Self::NodeBytes => "chunk/node_bytes",
            Self::NotWhole => "chunk/not_whole",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Disagrees | Self::TooLarge | Self::NotWhole => Fault::PeerMisbehaved,
            _ => Fault::RefusedByBound,
        }
    }
}

/// Messages in part, by their links `L`.
#[derive(Debug)]
pub struct Chunks<L> {
    sets: BTreeMap<ChunksOf, Set<L>>,
    /// What whole messages hold that were not let go.
    wholes: BTreeMap<ChunksOf, (L, u64)>,
    held: BTreeMap<L, Held>,
    held_bytes: u64,
    high_water_bytes: u64,
    max_bytes: u64,
    tombstones: VecDeque<ChunksOf>,
    given_up: u64,
}

#[derive(Debug)]
struct Set<L> {
    link: L,
    total: u32,
    expiry_ms: u64,
    parts: BTreeMap<u32, Vec<u8>>,
    bytes: u64,
    last_steady_ms: u64,
}

impl<L> Set<L> {
    fn cost_bytes(&self) -> u64 {
        self.bytes
            .saturating_add(self.parts.len() as u64 * CHUNK_COST_BYTES)
    }
}

/// What one link brought.
#[derive(Debug, Default)]
struct Held {
    sets: usize,
    bytes: u64,
}

impl<L> Default for Chunks<L> {
    fn default() -> Self {
        Self {
            sets: BTreeMap::new(),
            wholes: BTreeMap::new(),
            held: BTreeMap::new(),
            held_bytes: 0,
            high_water_bytes: 0,
            max_bytes: CHUNKS_MAX_BYTES,
            tombstones: VecDeque::new(),
            given_up: 0,
        }
    }
}

impl<L: Copy + Ord> Chunks<L> {
    /// Holds so many bytes at most instead of [`CHUNKS_MAX_BYTES`]; never fewer than two links may bring.
    pub fn set_max_bytes(&mut self, max_bytes: u64) {
        self.max_bytes = max_bytes.max(2 * LINK_CHUNKS_MAX_BYTES);
    }

    /// The most bytes that may be held, and that were held at once.
    pub fn max_and_high_water_bytes(&self) -> (u64, u64) {
        (self.max_bytes, self.high_water_bytes)
    }

    /// Takes a chunk of the message `of` that `link` brought.
    ///
    /// # Errors
    /// [`ChunkRefusal`]; nothing of the chunk is kept.
    pub fn take(
        &mut self,
        link: L,
        of: ChunksOf,
        chunk: &Chunk<'_>,
        now: Now,
    ) -> Result<Gathered, ChunkRefusal> {
        let ChunkHead {
            index,
            total,
            expiry_ms,
            ..
        } = chunk.head;
        self.give_up(now);
        if now.wall_ms > expiry_ms {
            return Err(ChunkRefusal::Expired { expiry_ms });
        }
        if self.tombstones.contains(&of) || self.wholes.contains_key(&of) {
            return Err(ChunkRefusal::Finished);
        }
        if let Some(set) = self.sets.get(&of) {
            if set.total != total || set.expiry_ms != expiry_ms {
                return Err(ChunkRefusal::Disagrees);
            }
            match set.parts.get(&index) {
                Some(before) if before == chunk.bytes => return Ok(Gathered::Again),
                Some(_) => return Err(ChunkRefusal::Disagrees),
                None => {}
            }
        }
        self.has_room(link, &of, chunk.bytes.len() as u64)?;
        Ok(self.add(link, of, chunk, now))
    }

    /// Whether a chunk of so many bytes fits every bound. A message that is too large is given up.
    fn has_room(&mut self, link: L, of: &ChunksOf, bytes: u64) -> Result<(), ChunkRefusal> {
        let set = self.sets.get(of);
        let of_set = set.map_or(0, |set| set.bytes);
        if of_set.saturating_add(bytes) > WHOLE_MAX_BYTES {
            self.forget(*of);
            self.bury(*of);
            return Err(ChunkRefusal::TooLarge);
        }
        let charged = set.map_or(link, |set| set.link);
        let held = self.held.get(&charged);
        if set.is_none() {
            if held.is_some_and(|held| held.sets >= SETS_PER_LINK_MAX) {
                return Err(ChunkRefusal::LinkSets);
            }
            if self.sets.len() >= SETS_MAX {
                return Err(ChunkRefusal::NodeSets);
            }
        }
        let cost = bytes.saturating_add(CHUNK_COST_BYTES);
        let of_link = held.map_or(0, |held| held.bytes);
        if of_link.saturating_add(cost) > LINK_CHUNKS_MAX_BYTES {
            return Err(ChunkRefusal::LinkBytes);
        }
        if self.held_bytes.saturating_add(cost) > self.max_bytes {
            return Err(ChunkRefusal::NodeBytes);
        }
        Ok(())
    }

    fn add(&mut self, link: L, of: ChunksOf, chunk: &Chunk<'_>, now: Now) -> Gathered {
        let bytes = chunk.bytes.len() as u64;
        let cost = bytes.saturating_add(CHUNK_COST_BYTES);
        let fresh = !self.sets.contains_key(&of);
        let set = self.sets.entry(of).or_insert_with(|| Set {
            link,
            total: chunk.head.total,
            expiry_ms: chunk.head.expiry_ms,
            parts: BTreeMap::new(),
            bytes: 0,
            last_steady_ms: now.steady_ms,
        });
        set.parts.insert(chunk.head.index, chunk.bytes.to_vec());
        set.bytes = set.bytes.saturating_add(bytes);
        set.last_steady_ms = now.steady_ms;
        let whole = set.parts.len() as u64 == u64::from(set.total);
        let held = self.held.entry(set.link).or_default();
        held.sets += usize::from(fresh);
        held.bytes = held.bytes.saturating_add(cost);
        self.held_bytes = self.held_bytes.saturating_add(cost);
        self.high_water_bytes = self.high_water_bytes.max(self.held_bytes);
        if !whole {
            return Gathered::Waits;
        }
        let Some(set) = self.sets.remove(&of) else {
            return Gathered::Waits;
        };
        if let Some(held) = self.held.get_mut(&set.link) {
            held.sets = held.sets.saturating_sub(1);
        }
        self.wholes.insert(of, (set.link, set.cost_bytes()));
        self.bury(of);
        // Each part is let go as it is copied.
        let mut payload = Vec::with_capacity(usize::try_from(set.bytes).unwrap_or_default());
        for (_, part) in set.parts {
            payload.extend_from_slice(&part);
        }
        Gathered::Whole(payload)
    }

    /// A whole message is held no more: it was admitted, or refused.
    pub fn release(&mut self, of: &ChunksOf) {
        if let Some((link, cost)) = self.wholes.remove(of) {
            self.uncharge(link, cost, 0);
        }
    }

    /// As [`release`](Self::release), of a message that was not admitted and may be when it comes again.
    pub fn reopen(&mut self, of: &ChunksOf) {
        self.release(of);
        self.tombstones.retain(|finished| finished != of);
    }

    /// The whole messages of a link are dropped; they may come again.
    pub fn drop_link(&mut self, link: L) {
        let of_link = self.wholes.iter().filter(|(_, (of, _))| *of == link);
        let of_link: Vec<_> = of_link.map(|(&of, _)| of).collect();
        for of in of_link {
            self.reopen(&of);
        }
    }

    /// Gives up what expired, what got no chunk for [`CHUNKS_IDLE_MS`], and what a later message of its
    /// lane has passed for [`CHUNKS_PASSED_MS`].
    pub fn give_up(&mut self, now: Now) {
        let mut over = Vec::new();
        let mut later: Option<(&ChunksOf, &Set<L>)> = None;
        // Of one origin and class they are in the order of their sequences.
        for (of, set) in self.sets.iter().rev() {
            let idle_ms = now.steady_ms.saturating_sub(set.last_steady_ms);
            let passed = later.is_some_and(|(later, its)| {
                (later.origin, later.class, its.link) == (of.origin, of.class, set.link)
                    && its.last_steady_ms > set.last_steady_ms
            });
            let bound_ms = if passed {
                CHUNKS_PASSED_MS
            } else {
                CHUNKS_IDLE_MS
            };
            if now.wall_ms > set.expiry_ms || idle_ms >= bound_ms {
                over.push(*of);
            }
            later = Some((of, set));
        }
        for of in over {
            self.given_up = self.given_up.saturating_add(1);
            self.forget(of);
        }
    }

    /// When [`give_up`](Self::give_up) has something to do, by the steady clock; expiry is judged by
    /// the wall clock when a chunk comes.
    pub fn due_ms(&self) -> Option<u64> {
        let sets = self.sets.values();
        sets.map(|set| set.last_steady_ms.saturating_add(CHUNKS_IDLE_MS))
            .min()
    }

    /// Messages in part.
    pub fn sets(&self) -> usize {
        self.sets.len()
    }

    /// Bytes of messages, in part or whole and not let go.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Messages given up in part, since the start.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    fn forget(&mut self, of: ChunksOf) {
        if let Some(set) = self.sets.remove(&of) {
            self.uncharge(set.link, set.cost_bytes(), 1);
        }
    }

    fn uncharge(&mut self, link: L, cost: u64, sets: usize) {
        self.held_bytes = self.held_bytes.saturating_sub(cost);
        let Some(held) = self.held.get_mut(&link) else {
            return;
        };
        held.bytes = held.bytes.saturating_sub(cost);
        held.sets = held.sets.saturating_sub(sets);
        if held.bytes == 0 && held.sets == 0 {
            self.held.remove(&link);
        }
    }

    fn bury(&mut self, of: ChunksOf) {
        if self.tombstones.len() >= TOMBSTONES_MAX {
            self.tombstones.pop_front();
        }
        self.tombstones.push_back(of);
    }
}
