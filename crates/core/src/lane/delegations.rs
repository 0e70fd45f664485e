//! Delegations by reference: what crossed a link once is named by its digest from then on.
//!
//! A sender keeps the delegations it **showed**, a receiver those it **holds**, both for one link generation
//! and one direction. Frames are shortened as they leave and written out as they come off the channel,
//! before they wait in their lane, so nobody beyond the session sees a reference. A reference stands
//! for bytes that came on this very link and whose digest this side took itself: whether the delegation
//! counts is judged with the frame, each time, as ever.
//!
//! Law (lease): a sender refers to a delegation only after the receiver said KNOWN and before it said
//! DISCLAIM; a receiver forgets one only `FORGETS_AFTER_MS` after it said DISCLAIM, and after the last
//! frame that named it. What is under way no longer than `DELIVERY_BOUND_MS` so never misses. Law (a miss
//! loses nothing): a frame that misses keeps its place in its lane, and what is behind it there, no
//! other lane, waits with it; the receiver says MISSING, and the sender, which keeps what it refers to
//! until the frame is taken, answers SHOW. Only a sender that does not is waited for no longer than
//! `MISSED_WAITS_MS`; the frame then goes on as it is, to be refused where it is read.
//! Source: protocol decision 6 (delegation references), failure story 3.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::Bytes;

use super::bounds::{
    DISCLAIMED_MAX, HELD_DELEGATIONS_MAX, KNOWN_AGAIN_MS, MISSING_MAX, REFERRED_MAX_BYTES,
    SHOWN_DELEGATIONS_MAX, STATEMENTS_MAX, STATEMENTS_OWED_MAX,
};
use super::per_lane::PerLane;
use super::rules::Rules;
use crate::identity::DelegationDigest;
use crate::ids::Class;
use crate::transaction::{NamedBy, named};
use crate::wire::cbor::{CborError, Decode, Encode, Reader, Writer};

/// What a receiver says of the delegations that it was shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statements {
    /// May be referred to.
    pub known: Vec<DelegationDigest>,
    /// May not be referred to any more.
    pub disclaimed: Vec<DelegationDigest>,
}

impl Statements {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.known.len().saturating_add(self.disclaimed.len())
    }
}

impl Encode for Statements {
    fn encode(&self, writer: &mut Writer) {
        writer.array(2).list(&self.known).list(&self.disclaimed);
    }
}

impl<'a> Decode<'a> for Statements {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        let at = reader.at();
        let statements = Self {
            known: reader.list(STATEMENTS_MAX)?,
            disclaimed: reader.list(STATEMENTS_MAX)?,
        };
        match statements.count() {
            1..=STATEMENTS_MAX => Ok(statements),
            _ => Err(Reader::invalid(at, "number of statements")),
        }
    }
}

/// Where a frame leaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaves<'a> {
    /// Its lane.
    pub(super) class: Class,
    /// How many payload frames left in that lane before it.
    pub(super) number: u64,
    /// How many of each lane's the receiver said were taken.
    pub(super) passed: &'a PerLane<u64>,
}

/// A frame that came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Came {
    /// As far as it could be written out.
    pub(super) frame: Bytes,
    /// Whether it refers to what is not held.
    pub(super) misses: bool,
    /// When it came.
    pub(super) at_ms: u64,
}

impl Came {
    /// As it came off its channel.
    pub(super) fn now(frame: Bytes, at_ms: u64) -> Self {
        Self {
            frame,
            misses: false,
            at_ms,
        }
    }
}

/// What a sender showed.
#[derive(Debug)]
pub(super) struct Shown {
    /// By their bytes, so that nothing is hashed for a frame whose delegations are here.
    delegations: BTreeMap<Vec<u8>, ShownOne>,
    /// Those that are to be shown again.
    to_show: BTreeSet<DelegationDigest>,
    uses: u64,
    rules: Rules,
    /// References sent.
    pub(super) referred: u64,
}

#[derive(Debug)]
struct ShownOne {
    digest: DelegationDigest,
    /// The receiver said that it knows it.
    known: bool,
    used: u64,
    /// How many payload frames of each lane had left with the last one that refers to it.
    referred: PerLane<u64>,
}

impl ShownOne {
    /// Whether a frame that refers to it was not taken yet.
    fn is_under_way(&self, passed: &PerLane<u64>) -> bool {
        let mut lanes = self.referred.each();
        lanes.any(|(class, &referred)| referred > *passed.of(class))
    }
}

impl Shown {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            delegations: BTreeMap::new(),
            to_show: BTreeSet::new(),
            uses: 0,
            rules,
            referred: 0,
        }
    }

    /// The frame with references in place of what the receiver knows; `None` if it stays as it is.
    pub(super) fn shorten(&mut self, frame: &[u8], leaves: &Leaves<'_>) -> Option<Vec<u8>> {
        let [origin, hop] = named(frame)?;
        let edits = [origin, hop].map(|named| match named.by {
            NamedBy::Inline(bytes) => {
                let digest = self.refer(bytes, leaves);
                digest.map(|digest| (named.at, digest))
            }
            NamedBy::Digest(_) => None,
        });
        let mut short = Vec::with_capacity(frame.len());
        let mut copied = 0;
        for (at, digest) in edits.into_iter().flatten() {
            short.extend_from_slice(frame.get(copied..at.start)?);
            short = by_digest(short, digest);
            copied = at.end;
            self.referred = self.referred.saturating_add(1);
        }
        if copied == 0 {
            return None;
        }
        short.extend_from_slice(frame.get(copied..)?);
        Some(short)
    }

    /// The receiver may be referred to it. One that was not shown, or was since forgotten, is shown first.
    pub(super) fn known(&mut self, digest: DelegationDigest, known: bool) {
        let shown = self.delegations.values_mut();
        for one in shown.filter(|one| one.digest == digest) {
            one.known = known;
        }
    }

    /// Frames wait at the receiver for this delegation. What no frame under way refers to, no honest
    /// receiver misses.
    pub(super) fn missed(&mut self, digest: DelegationDigest, passed: &PerLane<u64>) {
        let shown = self.delegations.values_mut();
        for one in shown.filter(|one| one.digest == digest && one.is_under_way(passed)) {
            one.known = false;
            if self.rules.shows_again {
                self.to_show.insert(digest);
            }
        }
    }

    /// The next delegation that is to be shown again.
    pub(super) fn next_to_show(&mut self) -> Option<Vec<u8>> {
        while let Some(digest) = self.to_show.pop_first() {
            let mut shown = self.delegations.iter();
            if let Some((bytes, _)) = shown.find(|(_, one)| one.digest == digest) {
                return Some(bytes.clone());
            }
        }
        None
    }

    /// The digest, if the receiver knows it.
    fn refer(&mut self, bytes: &[u8], leaves: &Leaves<'_>) -> Option<DelegationDigest> {
        if bytes.len() > REFERRED_MAX_BYTES {
            return None;
        }
        self.uses = self.uses.wrapping_add(1);
        let used = self.uses;
        if let Some(one) = self.delegations.get_mut(bytes) {
            one.used = used;
            if !one.known {
                return None;
            }
            let referred = one.referred.of_mut(leaves.class);
            *referred = (*referred).max(leaves.number.saturating_add(1));
            return Some(one.digest);
        }
        if self.delegations.len() >= SHOWN_DELEGATIONS_MAX {
            let keeps = self.rules.keeps_referred;
            let free = self.delegations.iter();
            let free = free.filter(|(_, one)| !keeps || !one.is_under_way(leaves.passed));
            let oldest = free.min_by_key(|(_, one)| one.used);
            // Where frames under way refer to all of them, a newcomer travels inline until one is free.
            let oldest = oldest.map(|(bytes, _)| bytes.clone())?;
            self.delegations.remove(&oldest);
        }
        let one = ShownOne {
            digest: DelegationDigest::of(bytes),
            known: false,
            used,
            referred: PerLane::default(),
        };
        self.delegations.insert(bytes.to_vec(), one);
        None
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.delegations.len()
    }
}

/// What a receiver holds.
#[derive(Debug)]
pub(super) struct Held {
    delegations: BTreeMap<DelegationDigest, HeldOne>,
    /// What it has yet to say of them: KNOWN, or DISCLAIM.
    owed: BTreeMap<DelegationDigest, bool>,
    /// What it has yet to say it misses.
    missing: BTreeSet<DelegationDigest>,
    rules: Rules,
    /// References that came to what is not held.
    pub(super) missed: u64,
    /// Frames that went on without what they refer to.
    pub(super) lost: u64,
}

#[derive(Debug)]
struct HeldOne {
    bytes: Vec<u8>,
    /// When a frame named it last.
    named_ms: u64,
    /// When KNOWN or DISCLAIM was said of it last.
    said_ms: u64,
    lease: Lease,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lease {
    /// The sender may refer to it.
    Known,
    /// DISCLAIM is owed.
    Ending,
    /// DISCLAIM was said.
    Disclaimed,
}

impl Held {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            delegations: BTreeMap::new(),
            owed: BTreeMap::new(),
            missing: BTreeSet::new(),
            rules,
            missed: 0,
            lost: 0,
        }
    }

    /// The frame as it was before it was shortened, or what it misses is asked for. What it shows is held
    /// from now on.
    pub(super) fn write_out(&mut self, came: Came, now_ms: u64) -> Came {
        self.write_out_asking(came, true, now_ms)
    }

    fn write_out_asking(&mut self, came: Came, asks: bool, now_ms: u64) -> Came {
        let Some([origin, hop]) = named(&came.frame) else {
            return came;
        };
        let of_origin = self.take(&origin.by, asks, now_ms);
        let of_hop = match hop.by {
            // It refers to the origin's in its own frame, as it always may.
            NamedBy::Digest(digest) if digest == origin.by.digest() => Take::Stays,
            by => self.take(&by, asks, now_ms),
        };
        let takes = [(origin.at, of_origin), (hop.at, of_hop)];
        let misses = takes.iter().any(|(_, take)| *take == Take::Missed);
        let held = takes.map(|(at, take)| match take {
            Take::Held(digest) => self.delegations.get(&digest).map(|one| (at, &*one.bytes)),
            Take::Stays | Take::Missed => None,
        });
        let frame = inlined(&came.frame, held);
        Came {
            frame: frame.map_or(came.frame, Bytes::from),
            misses,
            at_ms: came.at_ms,
        }
    }

    /// A frame that missed `digest`, which is `shown` now.
    pub(super) fn write_out_shown(
        &mut self,
        came: Came,
        digest: DelegationDigest,
        shown: &[u8],
        now_ms: u64,
    ) -> Came {
        let frame = match named(&came.frame) {
            Some([origin, hop]) => {
                let first = origin.by == NamedBy::Digest(digest);
                let also = hop.by == NamedBy::Digest(digest) && !first;
                let here = [(origin.at, first), (hop.at, also)];
                inlined(
                    &came.frame,
                    here.map(|(at, here)| here.then_some((at, shown))),
                )
            }
            None => None,
        };
        match frame {
            // What else it misses was asked for, and is not shown with this.
            Some(frame) => {
                let frame = frame.into();
                self.write_out_asking(Came { frame, ..came }, false, now_ms)
            }
            None => came,
        }
    }

    /// What is missed, to be said next.
    pub(super) fn missing(&mut self) -> Option<Vec<DelegationDigest>> {
        let mut missing = Vec::new();
        while missing.len() < MISSING_MAX
            && let Some(digest) = self.missing.pop_first()
        {
            missing.push(digest);
        }
        (!missing.is_empty()).then_some(missing)
    }

    /// Whether there is something to say.
    pub(super) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// What is to be said next.
    pub(super) fn statements(&mut self, now_ms: u64) -> Option<Statements> {
        let mut statements = Statements::default();
        while statements.count() < STATEMENTS_MAX
            && let Some((digest, known)) = self.owed.pop_first()
        {
            if let Some(one) = self.delegations.get_mut(&digest) {
                one.said_ms = now_ms;
                one.lease.said();
            }
            let list = if known {
                &mut statements.known
            } else {
                &mut statements.disclaimed
            };
            list.push(digest);
        }
        (statements.count() > 0).then_some(statements)
    }

    /// What a frame names.
    fn take(&mut self, by: &NamedBy<'_>, asks: bool, now_ms: u64) -> Take {
        match *by {
            NamedBy::Inline(bytes) => {
                self.hold(bytes, now_ms);
                Take::Stays
            }
            NamedBy::Digest(digest) => {
                if let Some(one) = self.delegations.get_mut(&digest) {
                    one.named_ms = now_ms;
                    return Take::Held(digest);
                }
                if asks {
                    self.missed = self.missed.saturating_add(1);
                    // A sender that names what it never showed is asked for no more than this.
                    if self.missing.len() >= STATEMENTS_OWED_MAX {
                        self.lost = self.lost.saturating_add(1);
                        return Take::Stays;
                    }
                    self.missing.insert(digest);
                }
                Take::Missed
            }
        }
    }

    /// The sender showed this one.
    pub(super) fn hold(&mut self, bytes: &[u8], now_ms: u64) {
        if bytes.len() > REFERRED_MAX_BYTES {
            return;
        }
        let digest = DelegationDigest::of(bytes);
        if let Some(one) = self.delegations.get_mut(&digest) {
            one.named_ms = now_ms;
            // What is still shown was on its way when it was first confirmed, or the sender forgot.
            let again = one.said_ms.saturating_add(KNOWN_AGAIN_MS) <= now_ms;
            if one.lease != Lease::Known || again {
                one.lease = Lease::Known;
                one.said_ms = now_ms;
                self.owe(digest, true);
            }
            return;
        }
        if self.delegations.len() >= HELD_DELEGATIONS_MAX && !self.forget_one(now_ms) {
            return self.disclaim_one();
        }
        let one = HeldOne {
            bytes: bytes.to_vec(),
            named_ms: now_ms,
            said_ms: now_ms,
            lease: Lease::Known,
        };
        self.delegations.insert(digest, one);
        self.owe(digest, true);
    }

    /// Makes a place, if a lease is over.
    fn forget_one(&mut self, now_ms: u64) -> bool {
        let after_ms = self.rules.forgets_after_ms;
        let over = |one: &HeldOne| {
            let since_ms = one.said_ms.max(one.named_ms);
            let ended = one.lease == Lease::Disclaimed || !self.rules.disclaims;
            ended && since_ms.saturating_add(after_ms) <= now_ms
        };
        let over = self.delegations.iter().find(|(_, one)| over(one));
        let over = over.map(|(&digest, _)| digest);
        over.and_then(|over| self.delegations.remove(&over))
            .is_some()
    }

    /// Disclaims the one that was named longest ago.
    fn disclaim_one(&mut self) {
        let ending = |one: &&HeldOne| one.lease != Lease::Known;
        if self.delegations.values().filter(ending).count() >= DISCLAIMED_MAX {
            return;
        }
        let known = self.delegations.iter_mut();
        let known = known.filter(|(_, one)| one.lease == Lease::Known);
        if let Some((&digest, one)) = known.min_by_key(|(_, one)| one.named_ms) {
            one.lease = Lease::Ending;
            self.owe(digest, false);
        }
    }

    fn owe(&mut self, digest: DelegationDigest, known: bool) {
        // No more than are held; the bound holds whatever else is told.
        if self.owed.len() < STATEMENTS_OWED_MAX || self.owed.contains_key(&digest) {
            self.owed.insert(digest, known);
        }
    }

    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize, usize) {
        let (owed, missing) = (self.owed.len(), self.missing.len());
        (self.delegations.len(), owed, missing)
    }
}

/// What becomes of a name in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Take {
    /// It stays as it is.
    Stays,
    /// It is written out.
    Held(DelegationDigest),
    /// It is not held.
    Missed,
}

impl Lease {
    fn said(&mut self) {
        if *self == Self::Ending {
            *self = Self::Disclaimed;
        }
    }
}

impl NamedBy<'_> {
    fn digest(&self) -> DelegationDigest {
        match *self {
            Self::Inline(bytes) => DelegationDigest::of(bytes),
            Self::Digest(digest) => digest,
        }
    }
}

/// The frame with these delegations written out; `None` if there is none of them.
fn inlined(frame: &[u8], held: [Option<(Range<usize>, &[u8])>; 2]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    let mut copied = 0;
    for (at, delegation) in held.into_iter().flatten() {
        whole.extend_from_slice(frame.get(copied..at.start)?);
        whole = inline(whole, delegation);
        copied = at.end;
    }
    if copied == 0 {
        return None;
    }
    whole.extend_from_slice(frame.get(copied..)?);
    Some(whole)
}

/// `[0, delegation]` behind what is there.
fn inline(out: Vec<u8>, delegation: &[u8]) -> Vec<u8> {
    let mut writer = Writer::append(out);
    writer.array(2).uint(0);
    let mut out = writer.into_bytes();
    out.extend_from_slice(delegation);
    out
}

/// `[1, digest]` behind what is there.
fn by_digest(out: Vec<u8>, digest: DelegationDigest) -> Vec<u8> {
    let mut writer = Writer::append(out);
    writer.array(2).uint(1).value(&digest);
    writer.into_bytes()
}
