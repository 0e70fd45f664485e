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
//! frame that named it. What is under way no longer than `DELIVERY_BOUND_MS` so never misses. A miss leaves the
//! frame as it is, to be refused where it is read, and answers DISCLAIM, after which the sender shows the
//! delegation again. Source: protocol decision 6 (delegation references).

use std::collections::BTreeMap;

use super::bounds::{
    DISCLAIMED_MAX, HELD_DELEGATIONS_MAX, KNOWN_AGAIN_MS, REFERRED_MAX_BYTES,
    SHOWN_DELEGATIONS_MAX, STATEMENTS_MAX, STATEMENTS_OWED_MAX,
};
use super::rules::Rules;
use crate::identity::DelegationDigest;
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

/// What a sender showed.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// By their bytes, so that nothing is hashed for a frame whose delegations are here.
    delegations: BTreeMap<Vec<u8>, ShownOne>,
    uses: u64,
    /// References sent.
    pub(super) referred: u64,
}

#[derive(Debug)]
struct ShownOne {
    digest: DelegationDigest,
    /// The receiver said that it knows it.
    known: bool,
    used: u64,
}

impl Shown {
    /// The frame with references in place of what the receiver knows; `None` if it stays as it is.
    pub(super) fn shorten(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let [origin, hop] = named(frame).ok()?;
        let edits = [origin, hop].map(|named| match named.by {
            NamedBy::Inline(bytes) => self.refer(bytes).map(|digest| (named.at, digest)),
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

    /// The digest, if the receiver knows it.
    fn refer(&mut self, bytes: &[u8]) -> Option<DelegationDigest> {
        if bytes.len() > REFERRED_MAX_BYTES {
            return None;
        }
        self.uses = self.uses.wrapping_add(1);
        let used = self.uses;
        if let Some(one) = self.delegations.get_mut(bytes) {
            one.used = used;
            return one.known.then_some(one.digest);
        }
        if self.delegations.len() >= SHOWN_DELEGATIONS_MAX {
            let oldest = self.delegations.iter().min_by_key(|(_, one)| one.used);
            let oldest = oldest.map(|(bytes, _)| bytes.clone());
            oldest.and_then(|oldest| self.delegations.remove(&oldest));
        }
        let one = ShownOne {
            digest: DelegationDigest::of(bytes),
            known: false,
            used,
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
    rules: Rules,
    /// References that came to what is not held.
    pub(super) missed: u64,
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
            rules,
            missed: 0,
        }
    }

    /// The frame as it was before it was shortened. What it shows is held from now on.
    pub(super) fn write_out(&mut self, frame: Vec<u8>, now_ms: u64) -> Vec<u8> {
        let Ok([origin, hop]) = named(&frame) else {
            return frame;
        };
        let of_origin = self.take(&origin.by, now_ms);
        let of_hop = match hop.by {
            // It refers to the origin's in its own frame, as it always may.
            NamedBy::Digest(digest) if digest == origin.by.digest() => None,
            by => self.take(&by, now_ms),
        };
        let mut whole = Vec::new();
        let mut copied = 0;
        for (at, digest) in [(origin.at, of_origin), (hop.at, of_hop)] {
            let Some(one) = digest.and_then(|digest| self.delegations.get(&digest)) else {
                continue;
            };
            whole.extend_from_slice(frame.get(copied..at.start).unwrap_or_default());
            whole = inline(whole, &one.bytes);
            copied = at.end;
        }
        if copied == 0 {
            return frame;
        }
        whole.extend_from_slice(frame.get(copied..).unwrap_or_default());
        whole
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

    /// What a frame names: the digest of what is to be written out in it.
    fn take(&mut self, by: &NamedBy<'_>, now_ms: u64) -> Option<DelegationDigest> {
        match *by {
            NamedBy::Inline(bytes) => {
                self.hold(bytes, now_ms);
                None
            }
            NamedBy::Digest(digest) => {
                let Some(one) = self.delegations.get_mut(&digest) else {
                    self.missed = self.missed.saturating_add(1);
                    self.owe(digest, false);
                    return None;
                };
                one.named_ms = now_ms;
                Some(digest)
            }
        }
    }

    /// The sender showed this one.
    fn hold(&mut self, bytes: &[u8], now_ms: u64) {
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
        // A sender that names what it never showed is not told more than this.
        if self.owed.len() < STATEMENTS_OWED_MAX || self.owed.contains_key(&digest) {
            self.owed.insert(digest, known);
        }
    }

    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.delegations.len(), self.owed.len())
    }
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
