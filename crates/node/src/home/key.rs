//! The account's key file: a libp2p key pair in protobuf, for its owner's eyes only, or sealed.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use overlane_core::identity::{Account, AccountKey};
use zeroize::Zeroizing;

use super::HomeError;
use super::files::{self, OTHERS, PRIVATE};
use super::sealed::{self, KeyLock};

/// The most a key file may hold. An Ed25519 key pair takes 68 bytes, sealed some 200; a delegatee's with its
/// delegation some 450.
const KEY_FILE_MAX_BYTES: u64 = 1024;

pub(super) fn write(path: &Path, account: &Account, lock: &KeyLock) -> Result<(), HomeError> {
    let bytes = sealed::seal(account, lock).map_err(HomeError::key(path))?;
    files::replace(path, &bytes, PRIVATE)
}

/// The account, opened with this lock if it is sealed.
pub(super) fn read(path: &Path, lock: &KeyLock) -> Result<Account, HomeError> {
    sealed::open(&bytes(path)?, lock).map_err(HomeError::key(path))
}

/// Who the account is, and what its key is sealed under.
pub(super) fn public(path: &Path) -> Result<(AccountKey, &'static str), HomeError> {
    sealed::public(&bytes(path)?).map_err(HomeError::key(path))
}

pub(super) fn bytes(path: &Path) -> Result<Zeroizing<Vec<u8>>, HomeError> {
    // The checks are made on the open file, so what is checked is what is read; a link is not
    // followed, as its target may be anybody's.
    let file = File::options()
        .read(true)
        .custom_flags(no_follow())
        .open(path)
        .map_err(HomeError::io("open", path))?;
    check(&file, path)?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(1024));
    file.take(KEY_FILE_MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(HomeError::io("read", path))?;
    if bytes.len() as u64 > KEY_FILE_MAX_BYTES {
        let cause = format!("more than {KEY_FILE_MAX_BYTES} bytes");
        return Err(HomeError::KeyInvalid {
            path: path.to_owned(),
            cause,
        });
    }
    Ok(bytes)
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
