//! The account's key file: a libp2p key pair in protobuf, for its owner's eyes only.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use overlane_core::identity::Account;
use zeroize::Zeroizing;

use super::HomeError;
use super::files::{self, OTHERS, PRIVATE};

/// The most a key file may hold. An Ed25519 key pair takes 68 bytes.
const KEY_FILE_MAX_BYTES: u64 = 1024;

pub(super) fn write(path: &Path, account: &Account) -> Result<(), HomeError> {
    let invalid = |cause: String| HomeError::KeyInvalid {
        path: path.to_owned(),
        cause,
    };
    let bytes = account
        .to_protobuf()
        .map_err(|error| invalid(error.to_string()))?;
    files::replace(path, &bytes, PRIVATE)
}

pub(super) fn read(path: &Path) -> Result<Account, HomeError> {
    // The checks are made on the open file, so what is checked is what is read; a link is not
    // followed, as its target may be anybody's.
    let file = File::options()
        .read(true)
        .custom_flags(no_follow())
        .open(path)
        .map_err(HomeError::io("open", path))?;
    check(&file, path)?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(128));
    file.take(KEY_FILE_MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(HomeError::io("read", path))?;
    let invalid = |cause: String| HomeError::KeyInvalid {
        path: path.to_owned(),
        cause,
    };
    if bytes.len() as u64 > KEY_FILE_MAX_BYTES {
        return Err(invalid(format!("more than {KEY_FILE_MAX_BYTES} bytes")));
    }
    Account::from_protobuf(&bytes).map_err(|error| invalid(error.to_string()))
}

fn check(file: &File, path: &Path) -> Result<(), HomeError> {
    let about = file.metadata().map_err(HomeError::io("look at", path))?;
    let user = rustix::process::geteuid().as_raw();
    if about.uid() != user {
        return Err(HomeError::KeyOwner {
            path: path.to_owned(),
            owner: about.uid(),
            user,
        });
    }
    let mode = about.mode() & 0o7777;
    if mode & OTHERS != 0 {
        return Err(HomeError::KeyMode {
            path: path.to_owned(),
            mode,
        });
    }
    Ok(())
}

fn no_follow() -> i32 {
    // The flag's bits, in the type the standard library asks for.
    rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()
}
