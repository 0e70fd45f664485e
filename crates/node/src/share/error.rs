//! Why a file was not shared, or not fetched.

use std::path::PathBuf;

use overlane_core::{Coded, Fault};

use super::PATH_MAX_BYTES;
use crate::refs::{CallError, RedeemError, ReferenceError};

/// Why a file was not shared, or not fetched.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// The file cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The platform's words.
        cause: String,
    },
    /// The path leads to no file, is no text, or is too long.
    #[error("{} is not a file that can be shared: {what}", path.display())]
    NoFile {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// What the reference stands for answers as no file does.
    #[error("what the ticket leads to is no file: {what}")]
    NotAFile {
        /// What is wrong.
        what: &'static str,
    },
    /// The references refused.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// The ticket gave no reference.
    #[error(transparent)]
    Redeem(#[from] RedeemError),
    /// The other node says no.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl ShareError {
    pub(super) const PATH_TOO_LONG: &'static str = "its path is too long";

    pub(super) fn path_fits(path: &str) -> bool {
        path.len() <= PATH_MAX_BYTES
    }
}

impl Coded for ShareError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "share/unreadable",
            Self::NoFile { .. } => "share/no_file",
            Self::NotAFile { .. } => "share/not_a_file",
            Self::Reference(error) => error.code(),
            Self::Redeem(error) => error.code(),
            Self::Call(error) => error.code(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Unreadable { .. } | Self::NoFile { .. } => Fault::Usage,
            Self::NotAFile { .. } => Fault::PeerMisbehaved,
            Self::Reference(error) => error.fault(),
            Self::Redeem(error) => error.fault(),
            Self::Call(error) => error.fault(),
        }
    }
}
