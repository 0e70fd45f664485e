//! Calls that fail.

use std::io;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// Any call fails with an I/O error.
    Io,
    /// A call that takes space finds none.
    NoSpace,
    /// A read, a write or a flush is interrupted by a signal.
    Interrupted,
    /// A read or a write does half of what was asked.
    Short,
    /// A file's flush fails; what it was to make durable may be lost for ever.
    FileFlush,
    /// A folder's flush fails.
    FolderFlush,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Io,
        Self::NoSpace,
        Self::Interrupted,
        Self::Short,
        Self::FileFlush,
        Self::FolderFlush,
    ];

    fn concerns(self, call: CallKind) -> bool {
        match self {
            Self::Io => true,
            Self::NoSpace => matches!(
                call,
                CallKind::Change | CallKind::Write | CallKind::FileFlush | CallKind::FolderFlush
            ),
            Self::Interrupted => matches!(
                call,
                CallKind::Read | CallKind::Write | CallKind::FileFlush | CallKind::FolderFlush
            ),
            Self::Short => matches!(call, CallKind::Read | CallKind::Write),
            Self::FileFlush => call == CallKind::FileFlush,
            Self::FolderFlush => call == CallKind::FolderFlush,
        }
    }

    fn inject(self) -> io::Result<Injected> {
        match self {
            Self::Io => Err(io::Error::other("injected: input/output error")),
            Self::NoSpace => Err(io::ErrorKind::StorageFull.into()),
            Self::Interrupted => Err(io::ErrorKind::Interrupted.into()),
            Self::Short => Ok(Injected::Short),
            Self::FileFlush | Self::FolderFlush => Err(io::Error::other("injected: failed flush")),
        }
    }
}

/// Which calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultPlan {
    /// How.
    pub kind: FaultKind,
    /// The first of the calls it concerns that fails, from one.
    pub at: u64,
    /// Whether every later one fails too.
    pub for_good: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    Look,
    Read,
    Change,
    Write,
    FileFlush,
    FolderFlush,
}

/// What a call that goes on is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Injected {
    Nothing,
    Short,
}

impl Injected {
    pub(super) fn shortened(self, bytes: usize) -> usize {
        match self {
            Self::Short if bytes > 1 => bytes / 2,
            _ => bytes,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    plan: Option<FaultPlan>,
    seen: u64,
    fired: bool,
}

impl Faults {
    pub(super) fn plan(&mut self, plan: FaultPlan) {
        *self = Self {
            plan: Some(plan),
            seen: 0,
            fired: false,
        };
    }

    pub(super) fn heal(&mut self) -> bool {
        self.plan = None;
        self.fired
    }

    pub(super) fn next(&mut self, call: CallKind) -> io::Result<Injected> {
        let Some(plan) = self.plan.filter(|plan| plan.kind.concerns(call)) else {
            return Ok(Injected::Nothing);
        };
        self.seen = self.seen.saturating_add(1);
        if self.seen == plan.at || plan.for_good && self.seen > plan.at {
            self.fired = true;
            return plan.kind.inject();
        }
        Ok(Injected::Nothing)
    }
}
