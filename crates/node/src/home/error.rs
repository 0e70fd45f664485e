//! What can be wrong with a home, each with words on how to mend it.

use std::path::{Path, PathBuf};

use overlane_core::identity::DelegationError;
use overlane_core::{Coded, Fault};

use super::sealed::LockError;

/// Why a home could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HomeError {
    /// Neither XDG_DATA_HOME nor HOME says where a home could be.
    #[error("neither XDG_DATA_HOME nor HOME is set, so there is no default home")]
    Nowhere,
    /// No account has been made here.
    #[error("there is no node in {}", path.display())]
    NotInitialised {
        /// The home.
        path: PathBuf,
    },
    /// There is an account here already, and a key is never written over.
    #[error("{} already holds a node's account", path.display())]
    AlreadyInitialised {
        /// The home.
        path: PathBuf,
    },
    /// Another process has this home.
    #[error("{} is in use by {}", path.display(), holder(*pid))]
    InUse {
        /// The home.
        path: PathBuf,
        /// The process that holds it, as far as it wrote its number down.
        pid: Option<u32>,
    },
    /// There is such a file, and no key is written over it.
    #[error("{} is there already, and no key is written over it", path.display())]
    KeyThere {
        /// The file.
        path: PathBuf,
    },
    /// Others can change what is in the home.
    #[error("{}: {cause}", path.display())]
    FolderOpen {
        /// The home.
        path: PathBuf,
        /// How.
        cause: String,
    },
    /// The key file can be read or written by others.
    #[error("{} has mode {mode:04o}: others on this machine may have read the key", path.display())]
    KeyMode {
        /// The key file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The key file belongs to somebody else.
    #[error("{} belongs to user {owner}, but this process runs as user {user}", path.display())]
    KeyOwner {
        /// The key file.
        path: PathBuf,
        /// The user number of its owner.
        owner: u32,
        /// The user number of this process.
        user: u32,
    },
    /// The key file is no key pair.
    #[error("{} does not hold a key pair: {cause}", path.display())]
    KeyInvalid {
        /// The key file.
        path: PathBuf,
        /// Why it does not decode.
        cause: String,
    },
    /// The configuration holds a credential and can be read or written by others.
    #[error("{} has mode {mode:04o} and holds the credential of a TURN server: others on this machine may have read it", path.display())]
    ConfigMode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The key file is sealed, and what opens it was not given.
    #[error("{} is sealed under {needed}, which was not given", path.display())]
    KeyLocked {
        /// The key file.
        path: PathBuf,
        /// What it is sealed under.
        needed: &'static str,
    },
    /// What was given does not open the key file.
    #[error("{given} does not open {}: it is another one, or the file was changed", path.display())]
    KeyWrongLock {
        /// The key file.
        path: PathBuf,
        /// What was given.
        given: &'static str,
    },
    /// A passphrase or a key file that protects nothing.
    #[error("{cause}")]
    KeyWeakLock {
        /// What is wrong with it.
        cause: String,
    },
    /// The account's key is not here: this home has a delegatee's.
    #[error("{} holds a delegatee's key, and its account's is kept elsewhere", path.display())]
    Delegated {
        /// The home.
        path: PathBuf,
    },
    /// The account's key is here, so that nothing has to be asked for.
    #[error("{} holds its account's own key, which signs for the delegatees of its node by itself", path.display())]
    OwnAccount {
        /// The home.
        path: PathBuf,
    },
    /// The account has not let this home's delegatee sign yet.
    #[error("no account has let this home's delegatee sign yet")]
    NotDelegated,
    /// A delegation to a key that is not this home's, or that it asked for no longer.
    #[error("the delegation is not what this home asked for last")]
    NotAskedFor,
    /// An account that cannot be kept away from its node.
    #[error(
        "{account} is an Ed25519 account: messages are sealed to its own key, which its node needs"
    )]
    AccountKind {
        /// The account.
        account: String,
    },
    /// The account's word does not count.
    #[error(transparent)]
    Delegation(#[from] DelegationError),
    /// The platform gave no random bytes for a key.
    #[error("the platform gives no randomness for a key: {cause}")]
    Random {
        /// The platform's words.
        cause: String,
    },
    /// The configuration is wrong.
    #[error("{}:{line}: {cause}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there.
        cause: String,
    },
    /// What the environment or a flag says of the configuration is wrong.
    #[error("{origin}: {cause}")]
    Setting {
        /// The variable or the flag.
        origin: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The path of the local API's socket is longer than the platform can bind.
    #[error("the socket path {} has {length} bytes; this platform allows {limit}", path.display())]
    SocketPathTooLong {
        /// The socket.
        path: PathBuf,
        /// Its length.
        length: usize,
        /// The most the platform allows.
        limit: usize,
    },
    /// The platform refused a call.
    #[error("{action} {}: {cause}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The platform's words.
        cause: String,
    },
}

impl HomeError {
    /// Names the key file in what is wrong with it or its lock.
    pub(super) fn key(path: &Path) -> impl FnOnce(LockError) -> Self {
        let path = path.to_owned();
        move |error| match error {
            LockError::Locked(needed) => Self::KeyLocked { path, needed },
            LockError::Wrong(given) => Self::KeyWrongLock { path, given },
            error @ (LockError::PassphraseLength | LockError::KeyFileLength) => Self::KeyWeakLock {
                cause: error.to_string(),
            },
            LockError::Form(cause) | LockError::Platform(cause) => Self::KeyInvalid { path, cause },
        }
    }

    /// Names the file and the call in a refusal of the platform's.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::Io {
            action,
            path,
            cause: cause.to_string(),
        }
    }
}

impl Coded for HomeError {
    fn code(&self) -> &'static str {
        match self {
            Self::Nowhere => "home/nowhere",
            Self::NotInitialised { .. } => "home/not_initialised",
            Self::AlreadyInitialised { .. } => "home/already_initialised",
            Self::InUse { .. } => "home/in_use",
            Self::KeyThere { .. } => "home/key_there",
            Self::FolderOpen { .. } => "home/folder_open",
            Self::KeyMode { .. } => "home/key_mode",
            Self::KeyOwner { .. } => "home/key_owner",
            Self::KeyInvalid { .. } => "home/key_invalid",
            Self::ConfigMode { .. } => "home/config_mode",
            Self::KeyLocked { .. } => "home/key_locked",
            Self::KeyWrongLock { .. } => "home/key_wrong_lock",
            Self::KeyWeakLock { .. } => "home/key_weak_lock",
            Self::Delegated { .. } => "home/delegated",
            Self::OwnAccount { .. } => "home/own_account",
            Self::NotDelegated => "home/not_delegated",
            Self::NotAskedFor => "home/not_asked_for",
            Self::AccountKind { .. } => "home/account_kind",
            Self::Delegation(error) => error.code(),
            Self::Random { .. } => "home/random",
            Self::Config { .. } => "home/config",
            Self::Setting { .. } => "home/setting",
            Self::SocketPathTooLong { .. } => "home/socket_path_too_long",
            Self::Io { .. } => "home/io",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Nowhere
            | Self::NotInitialised { .. }
            | Self::AlreadyInitialised { .. }
            | Self::KeyThere { .. }
            | Self::ConfigMode { .. }
            | Self::Delegated { .. }
            | Self::OwnAccount { .. }
            | Self::NotDelegated
            | Self::NotAskedFor
            | Self::AccountKind { .. }
            | Self::Config { .. }
            | Self::Setting { .. }
            | Self::KeyLocked { .. }
            | Self::KeyWrongLock { .. }
            | Self::KeyWeakLock { .. }
            | Self::SocketPathTooLong { .. } => Fault::Usage,
            // One daemon a home is a bound, and a held one refuses.
            Self::InUse { .. } | Self::Random { .. } => Fault::RefusedByBound,
            Self::Delegation(error) => error.fault(),
            // The key is durable state of this node's own that cannot be trusted or kept.
            Self::FolderOpen { .. }
            | Self::KeyMode { .. }
            | Self::KeyOwner { .. }
            | Self::KeyInvalid { .. }
            | Self::Io { .. } => Fault::StoreFailedClosed,
        }
    }
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(
        || "another process".to_owned(),
        |pid| format!("process {pid}"),
    )
}
