//! A record that is kept as bad: why, and what is left of it.

use overlane_core::store::Found;

use super::fields::{Put, Take};

/// Longest reason that is kept.
const REASON_BYTES_MAX: usize = 500;

/// A record that is kept as bad.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bad {
    pub(super) kind: BadKind,
    pub(super) reason: String,
    /// The newest bytes that are left: an earlier value, or the damaged block.
    pub(super) kept: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum BadKind {
    Torn = 1,
    Missing = 2,
    Unreadable = 3,
}

impl BadKind {
    pub(super) fn from_index(index: u8) -> Option<Self> {
        [Self::Torn, Self::Missing, Self::Unreadable]
            .into_iter()
            .find(|kind| *kind as u8 == index)
    }
}

impl Bad {
    pub(super) fn torn(reason: impl Into<String>, kept: Vec<u8>) -> Self {
        Self {
            kind: BadKind::Torn,
            reason: reason.into(),
            kept,
        }
    }

    pub(super) fn found(&self) -> Found {
        match self.kind {
            BadKind::Torn => Found::Torn(self.reason.clone()),
            BadKind::Missing => Found::Missing,
            BadKind::Unreadable => Found::Unreadable(self.reason.clone()),
        }
    }

    /// `kind, reason` of a cell; what is kept stands in the snapshot alone.
    pub(super) fn cell_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![self.kind as u8];
        bytes.raw(self.short_reason().as_bytes());
        bytes
    }

    pub(super) fn from_cell(bytes: &[u8], kept: Vec<u8>) -> Self {
        let mut fields = Take(bytes);
        let kind = fields.u8().and_then(BadKind::from_index);
        Self {
            kind: kind.unwrap_or(BadKind::Torn),
            reason: String::from_utf8_lossy(fields.0).into_owned(),
            kept,
        }
    }

    /// `reason length, reason, kept` of a snapshot's block.
    pub(super) fn block_bytes(&self) -> Vec<u8> {
        let reason = self.short_reason();
        let mut bytes = Vec::with_capacity(reason.len().saturating_add(self.kept.len()));
        bytes.u32(u32::try_from(reason.len()).unwrap_or(0));
        bytes.raw(reason.as_bytes());
        bytes.raw(&self.kept);
        bytes
    }

    pub(super) fn from_block(kind: BadKind, bytes: &[u8]) -> Option<Self> {
        let mut fields = Take(bytes);
        let length = fields.size()?;
        let reason = String::from_utf8_lossy(fields.raw(length)?).into_owned();
        let kept = fields.0.to_vec();
        Some(Self { kind, reason, kept })
    }

    fn short_reason(&self) -> &str {
        let end = (0..=REASON_BYTES_MAX)
            .rev()
            .find(|end| self.reason.is_char_boundary(*end));
        let end = end.unwrap_or(0).min(self.reason.len());
        self.reason.get(..end).unwrap_or_default()
    }
}
