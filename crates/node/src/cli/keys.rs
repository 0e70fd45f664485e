//! `key …`: how the account's key lies, copies of it, and the delegatee that signs for it.

mod delegations;

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use axum::http::Method;
use overlane_core::Fault;
use overlane_node::api::{ApiError, Client, DelegateeReport, Identity, Renewal, instant};
use overlane_node::home::{
    Config, Home, HomeError, KEY_FILE_MAX_BYTES, KeyConfig, KeyLock, LockError,
    PASSPHRASE_MAX_BYTES,
};
use serde_json::json;
use zeroize::Zeroizing;

use super::args::{Key, Lock};
use super::config::config;
use super::output::{Done, Failure, Output};
use super::{ask, replay};

/// Permissions that a file with a passphrase or a key may not give: anything to everybody, and writing to its group.
/// Service managers hand files out that their group may read.
const NOT_SECRET: u32 = 0o037;

/// Does what was asked of the key.
pub(super) fn key(home: &Home, asked: &Key, output: &Output) -> Result<Done, Failure> {
    match asked {
        Key::Show => show(home, output),
        Key::Seal(lock) => seal(home, lock, output),
        Key::Export { file, lock, open } => export(home, file, lock, *open, output),
        Key::Import { file, lock } => import(home, file, lock, output),
        Key::Rotate => rotate(home, output),
        Key::Request { days } => delegations::request(home, *days, output),
        Key::Delegate { request, days } => delegations::delegate(home, request, *days, output),
        Key::Accept { delegation } => delegations::accept(home, delegation, output),
    }
}

fn show(home: &Home, output: &Output) -> Result<Done, Failure> {
    let (key, under) = home.account_key()?;
    let identity = Identity::of(&key, config(home)?.network);
    let answer = json!({"did": identity.did, "did_key": identity.did_key, "sealed_under": under});
    output.answer(&answer, |_| {
        format!(
            "  did      {}\n  did:key  {}\n  sealed   {}",
            identity.did,
            identity.did_key,
            match under {
                "nothing" => "no: whoever can read the file is this account".to_owned(),
                under => format!("under {under}"),
            }
        )
    })?;
    Ok(Done::Yes)
}

fn seal(home: &Home, lock: &Lock, output: &Output) -> Result<Done, Failure> {
    let with = opening(home, &config(home)?)?;
    let lock = lock.given()?;
    if home.is_delegated()? {
        home.keep_delegated(&home.delegated(&with)?, &lock)?;
    } else {
        home.seal_account(&home.account(&with)?, &lock)?;
    }
    output.answer(&json!({"sealed_under": lock.name()}), |_| {
        match lock {
            KeyLock::Open => format!(
                "the key is not sealed: whoever can read {} is this account; to seal it, name --passphrase-file or --key-file",
                home.key_path().display()
            ),
            _ => format!("the key is sealed under {} now", lock.name()),
        }
    })?;
    Ok(Done::Yes)
}

fn export(
    home: &Home,
    file: &Path,
    lock: &Lock,
    open: bool,
    output: &Output,
) -> Result<Done, Failure> {
    let sealed = lock.given()?;
    if matches!(sealed, KeyLock::Open) != open {
        let message = "name a passphrase file or a key file, or --open, and not both";
        return Err(Failure::new("cli/export_lock", Fault::Usage, message));
    }
    let account = home.account(&opening(home, &config(home)?)?)?;
    Home::export_account(file, &account, &sealed)?;
    let answer = json!({"file": file.display().to_string(), "sealed_under": sealed.name()});
    output.answer(&answer, |_| {
        format!(
            "the key is in {}, {}",
            file.display(),
            sealed_under(&sealed)
        )
    })?;
    Ok(Done::Yes)
}

/// How a key lies, in words.
pub(super) fn sealed_under(lock: &KeyLock) -> String {
    match lock {
        KeyLock::Open => "not sealed".to_owned(),
        _ => format!("sealed under {}", lock.name()),
    }
}

fn import(home: &Home, file: &Path, lock: &Lock, output: &Output) -> Result<Done, Failure> {
    let lock = lock.given()?;
    let account = Home::exported_account(file, &lock)?;
    home.init(&account, &Config::default(), &lock)?;
    let identity = Identity::of(account.key(), config(home)?.network);
    output.answer(&identity, |identity| {
        format!(
            "{} is at home in {} now, its key {}; no other node may run with it",
            identity.did,
            home.dir().display(),
            sealed_under(&lock)
        )
    })?;
    Ok(Done::Yes)
}

fn rotate(home: &Home, output: &Output) -> Result<Done, Failure> {
    let client = Client::of(home);
    let report: DelegateeReport = ask(async {
        let answer = client
            .call(Method::POST, "/v1/key/rotate", &json!({}))
            .await;
        answer.map_err(|error| Failure::of_daemon(&error))
    })?;
    output.answer(&report, |report| {
        format!(
            "signs with delegatee {} now, until {}",
            report.delegatee,
            instant(report.ends_ms)
        )
    })?;
    Ok(Done::Yes)
}

/// What opens the key of a home: what the configuration names, or who sits there types.
pub(super) fn opening(home: &Home, config: &Config) -> Result<KeyLock, Failure> {
    opened_by(home, &config.key, std::io::stdin().is_terminal())
}

/// The same where nobody sits there.
pub(super) fn unattended(home: &Home, config: &Config) -> Result<KeyLock, Failure> {
    opened_by(home, &config.key, false)
}

fn opened_by(home: &Home, key: &KeyConfig, asks: bool) -> Result<KeyLock, Failure> {
    let (_, under) = home.account_key()?;
    Ok(match (&key.passphrase_file, &key.file) {
        (Some(file), _) if under == "a passphrase" => passphrase(file)?,
        (_, Some(file)) if under == "a key file" => key_file(file)?,
        _ if under == "a passphrase" && asks => typed()?,
        _ => KeyLock::Open,
    })
}

/// Reads the delegatee's key and the account's word on it from the home, whenever a running node is asked to.
pub(super) fn renewal(home: &Home, config: &Config) -> Renewal {
    let (home, key, network) = (home.clone(), config.key.clone(), config.network);
    Arc::new(move || {
        let lock = match home.is_delegated()? {
            true => opened_by(&home, &key, false),
            false => Ok(KeyLock::Open),
        };
        let lock = lock.map_err(|failure| ApiError::KeyNotOpened {
            cause: failure.message().to_owned(),
        })?;
        let delegated = home.delegated(&lock)?;
        Ok(delegated.signer(network, replay::now().wall_ms)?)
    })
}

impl Lock {
    /// The lock that is named; none where none is.
    pub(super) fn given(&self) -> Result<KeyLock, Failure> {
        match (&self.passphrase_file, &self.key_file) {
            (Some(file), _) => passphrase(file),
            (None, Some(file)) => key_file(file),
            (None, None) => Ok(KeyLock::Open),
        }
    }
}

fn typed() -> Result<KeyLock, Failure> {
    let typed = rpassword::prompt_password("passphrase of the account's key: ");
    let typed = typed.map_err(|cause| read_failed(Path::new("the terminal"), &cause))?;
    locked(KeyLock::passphrase(Zeroizing::new(typed.into_bytes())))
}

/// The first line of the file.
fn passphrase(file: &Path) -> Result<KeyLock, Failure> {
    let mut bytes = read(file, PASSPHRASE_MAX_BYTES + 2)?;
    if let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
        bytes.truncate(end);
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    locked(KeyLock::passphrase(bytes))
}

fn key_file(file: &Path) -> Result<KeyLock, Failure> {
    locked(KeyLock::key_file(read(file, KEY_FILE_MAX_BYTES + 1)?))
}

fn locked(lock: Result<KeyLock, LockError>) -> Result<KeyLock, Failure> {
    let weak = |error: LockError| HomeError::KeyWeakLock {
        cause: error.to_string(),
    };
    Ok(lock.map_err(weak)?)
}

fn read(file: &Path, most: usize) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let failed = |cause: std::io::Error| read_failed(file, &cause);
    let opened = File::open(file).map_err(failed)?;
    let mode = opened.metadata().map_err(failed)?.mode() & 0o7777;
    if mode & NOT_SECRET != 0 {
        let message = format!(
            "{} has mode {mode:04o}: others on this machine may have read what opens the key",
            file.display()
        );
        return Err(Failure::new("key/secret_mode", Fault::Usage, message));
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(most));
    let taken = opened.take(most as u64).read_to_end(&mut bytes);
    taken.map_err(failed)?;
    Ok(bytes)
}

fn read_failed(file: &Path, cause: &std::io::Error) -> Failure {
    Failure::new(
        "cli/read",
        Fault::Usage,
        format!("read {}: {cause}", file.display()),
    )
}
