//! A node's **home**: the one folder that holds its account key, its configuration, its replay
//! store, its lock and the socket of its local API.
//!
//! ```text
//! <home>/              0700
//!   account.key        0600  the account's key pair (protobuf, as libp2p writes it)
//!   delegated.key      0600  or a delegatee's, with the word of an account that is kept elsewhere
//!   api.token          0600  who has it drives the node on TCP, if api.listen is set
//!   dashboard.html     0600  leads a browser to the dashboard, with that token
//!   config.toml        0600  what the operator chose; it may hold credentials
//!   groups/                  the logs of groups, in an embedded database
//!   overlane.lock            held by the one daemon that runs here; names its process
//!   overlane.sock      0600  the local API, while the daemon runs
//!   neighbours         0600  where the neighbours of the last life took offers
//!   inbox/                   mail held for others who are away, in an embedded database
//!   references/              what is kept of references, in an embedded database
//!   replay/                  the authoritative replay store; never deleted by the node
//! ```
//!
//! Everything here blocks: call it before the runtime starts, or off its workers.

mod backup;
mod config;
mod delegated;
mod error;
mod files;
mod key;
mod lock;
mod neighbours;
mod sealed;
mod store;

use std::path::{Path, PathBuf};

use crate::Neighbour;
use overlane_core::identity::{Account, AccountKey};
use overlane_core::store::StoreError;
use overlane_storage_native::{LogsStore, RefsStore, StoreAdmin, StoreKind};

pub use backup::{Backup, BackupError, Kept, Stillness, backup, check_ripe, check_start, restore};
pub use config::{
    ApiConfig, Config, GroupsConfig, KEYS, KeyConfig, KeySpec, Kind, LinksConfig, LogFilter,
    LogsConfig, Origin, Profile, Setting, Settings, Sources, config_page, key, peer_url,
};
pub use delegated::DelegatedKey;
pub use error::HomeError;
pub use lock::HomeLock;
pub use sealed::{
    KEY_FILE_MAX_BYTES, KEY_FILE_MIN_BYTES, KeyLock, LockError, PASSPHRASE_MAX_BYTES,
    PASSPHRASE_MIN_BYTES,
};

/// The folder of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    dir: PathBuf,
}

impl Home {
    /// The home in `dir`; nothing is read or made yet.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// The default home: `$XDG_DATA_HOME/overlane`, or `~/.local/share/overlane`.
    ///
    /// # Errors
    /// [`HomeError::Nowhere`] when the environment names neither.
    pub fn default_for_user() -> Result<Self, HomeError> {
        let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let data = named("XDG_DATA_HOME").map(PathBuf::from);
        // The base-directory rules say: a relative path is to be ignored.
        let data = data.filter(|path| path.is_absolute());
        let data = data.or_else(|| Some(PathBuf::from(named("HOME")?).join(".local/share")));
        data.map(|data| Self::at(data.join("overlane")))
            .ok_or(HomeError::Nowhere)
    }

    /// The folder itself.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the account's key pair is.
    pub fn key_path(&self) -> PathBuf {
        self.dir.join("account.key")
    }

    /// Where the delegatee's key is, if the account is kept elsewhere.
    pub fn delegated_path(&self) -> PathBuf {
        self.dir.join("delegated.key")
    }

    /// Where the configuration is.
    pub fn config_path(&self) -> PathBuf {
        self.dir.join("config.toml")
    }

    /// Where the replay store is.
    pub fn store_path(&self) -> PathBuf {
        self.dir.join("replay")
    }

    /// Where the store of references is.
    pub fn references_path(&self) -> PathBuf {
        self.dir.join("references")
    }

    /// Where the logs of groups are.
    pub fn groups_path(&self) -> PathBuf {
        self.dir.join("groups")
    }

    /// Where the store of mail is.
    pub fn inbox_path(&self) -> PathBuf {
        self.dir.join("inbox")
    }

    /// Where the local API listens.
    pub fn socket_path(&self) -> PathBuf {
        self.dir.join("overlane.sock")
    }

    /// Where the token of the local API on TCP is.
    pub fn token_path(&self) -> PathBuf {
        self.dir.join("api.token")
    }

    /// Where the page is that leads a browser to the dashboard.
    pub fn dashboard_path(&self) -> PathBuf {
        self.dir.join("dashboard.html")
    }

    /// Writes that page, for its owner's eyes only: the token is in it.
    ///
    /// # Errors
    /// [`HomeError`]
    pub fn write_dashboard(&self, page: &str) -> Result<(), HomeError> {
        files::replace(&self.dashboard_path(), page.as_bytes(), 0o600)
    }

    /// Writes that token, for its owner's eyes only.
    pub(crate) fn write_token(&self, token: &str) -> Result<(), HomeError> {
        let line = zeroize::Zeroizing::new(format!("{token}\n"));
        files::replace(&self.token_path(), line.as_bytes(), 0o600)
    }

    /// Where the addresses of neighbours are.
    pub fn neighbours_path(&self) -> PathBuf {
        self.dir.join("neighbours")
    }

    /// Where the neighbours of the last life took offers; nobody where that is not known.
    pub fn neighbours(&self) -> Vec<Neighbour> {
        neighbours::read(&self.neighbours_path())
    }

    /// Keeps where neighbours take offers, for the next life.
    ///
    /// # Errors
    /// [`HomeError`]
    pub fn keep_neighbours(&self, neighbours: &[Neighbour]) -> Result<(), HomeError> {
        neighbours::write(&self.neighbours_path(), neighbours)
    }

    /// Where the lock is.
    pub fn lock_path(&self) -> PathBuf {
        self.dir.join("overlane.lock")
    }

    /// Makes the folder, the configuration and the account's key file. The key comes last, so a
    /// home that was half made by a crash can be made again; a key is never written over.
    ///
    /// # Errors
    /// [`HomeError::AlreadyInitialised`] when there is a key, [`HomeError::InUse`] when a daemon
    /// runs here, and what the file system refuses.
    pub fn init(
        &self,
        account: &Account,
        config: &Config,
        key_lock: &KeyLock,
    ) -> Result<(), HomeError> {
        self.make(config, || key::write(&self.key_path(), account, key_lock))
    }

    /// The same of a home whose account is kept elsewhere.
    ///
    /// # Errors
    /// As [`init`](Self::init).
    pub fn init_delegated(
        &self,
        key: &DelegatedKey,
        config: &Config,
        key_lock: &KeyLock,
    ) -> Result<(), HomeError> {
        self.make(config, || {
            delegated::write(&self.delegated_path(), key, key_lock)
        })
    }

    fn make(
        &self,
        config: &Config,
        write_key: impl FnOnce() -> Result<(), HomeError>,
    ) -> Result<(), HomeError> {
        files::private_dir(&self.dir)?;
        let _lock = self.lock()?;
        if self.is_initialised()? {
            return Err(HomeError::AlreadyInitialised {
                path: self.dir.clone(),
            });
        }
        if !files::exists(&self.config_path())? {
            files::replace(
                &self.config_path(),
                config.to_toml().as_bytes(),
                files::PRIVATE,
            )?;
        }
        write_key()
    }

    /// Whether there is an account here.
    ///
    /// # Errors
    /// [`HomeError::Io`] when the folder cannot be looked into.
    pub fn is_initialised(&self) -> Result<bool, HomeError> {
        Ok(files::exists(&self.key_path())? || self.is_delegated()?)
    }

    /// Whether the account is kept elsewhere, and a delegatee's key is here.
    ///
    /// # Errors
    /// [`HomeError::Io`] when the folder cannot be looked into.
    pub fn is_delegated(&self) -> Result<bool, HomeError> {
        Ok(!files::exists(&self.key_path())? && files::exists(&self.delegated_path())?)
    }

    /// Reads the delegatee's key of a home whose account is kept elsewhere, opened with `key_lock` if it is
    /// sealed.
    ///
    /// # Errors
    /// As [`account`](Self::account); [`HomeError::OwnAccount`] where the account is here.
    pub fn delegated(&self, key_lock: &KeyLock) -> Result<DelegatedKey, HomeError> {
        self.require_account()?;
        if !self.is_delegated()? {
            let path = self.dir.clone();
            return Err(HomeError::OwnAccount { path });
        }
        delegated::read(&self.delegated_path(), key_lock)
    }

    /// Writes it again, under this lock.
    ///
    /// # Errors
    /// As [`account`](Self::account), and what the file system refuses.
    pub fn keep_delegated(&self, key: &DelegatedKey, key_lock: &KeyLock) -> Result<(), HomeError> {
        self.require_account()?;
        delegated::write(&self.delegated_path(), key, key_lock)
    }

    /// Reads the account's key pair, opened with `key_lock` if it is sealed.
    ///
    /// # Errors
    /// [`HomeError::NotInitialised`] without one; [`HomeError::Delegated`]; [`HomeError::KeyMode`] and
    /// [`HomeError::KeyOwner`] when others could have read or put it there;
    /// [`HomeError::KeyLocked`] and [`HomeError::KeyWrongLock`].
    pub fn account(&self, key_lock: &KeyLock) -> Result<Account, HomeError> {
        self.require_account()?;
        if self.is_delegated()? {
            let path = self.dir.clone();
            return Err(HomeError::Delegated { path });
        }
        key::read(&self.key_path(), key_lock)
    }

    /// Reads who the account is, and what its key is sealed under, without opening it.
    ///
    /// # Errors
    /// As [`account`](Self::account), but for what opening it may meet.
    pub fn account_key(&self) -> Result<(AccountKey, &'static str), HomeError> {
        self.require_account()?;
        match self.is_delegated()? {
            true => delegated::public(&self.delegated_path()),
            false => key::public(&self.key_path()),
        }
    }

    /// Writes the account's key pair again, under another lock.
    ///
    /// # Errors
    /// As [`account`](Self::account), and what the file system refuses.
    pub fn seal_account(&self, account: &Account, key_lock: &KeyLock) -> Result<(), HomeError> {
        self.require_account()?;
        key::write(&self.key_path(), account, key_lock)
    }

    /// Writes a key pair to a file of its own, for its owner's eyes only; never over another.
    ///
    /// # Errors
    /// [`HomeError::KeyThere`] where there is such a file; [`HomeError::Io`].
    pub fn export_account(
        path: &Path,
        account: &Account,
        key_lock: &KeyLock,
    ) -> Result<(), HomeError> {
        if files::exists(path)? {
            let path = path.to_owned();
            return Err(HomeError::KeyThere { path });
        }
        key::write(path, account, key_lock)
    }

    /// Reads a key pair from a file that was exported.
    ///
    /// # Errors
    /// As [`account`](Self::account).
    pub fn exported_account(path: &Path, key_lock: &KeyLock) -> Result<Account, HomeError> {
        key::read(path, key_lock)
    }

    /// Reads the configuration from its file alone; a missing file is the defaults.
    ///
    /// # Errors
    /// [`HomeError::Config`] naming file and line; [`HomeError::ConfigMode`] when others could have
    /// read a credential in it.
    pub fn config(&self) -> Result<Config, HomeError> {
        self.settings(&Sources::default()).map(|it| it.config)
    }

    /// Reads the configuration: of its file, and of what else says something.
    ///
    /// # Errors
    /// The first of [`check`](Self::check)'s mistakes.
    pub fn settings(&self, sources: &Sources) -> Result<Settings, HomeError> {
        self.check(sources).map_err(|mistakes| {
            let first = mistakes.into_iter().next();
            first.unwrap_or(HomeError::Nowhere)
        })
    }

    /// Reads the configuration, or finds everything that is wrong with it.
    ///
    /// # Errors
    /// [`HomeError::Config`] naming file and line, [`HomeError::Setting`] naming a variable or a flag;
    /// at least one.
    pub fn check(&self, sources: &Sources) -> Result<Settings, Vec<HomeError>> {
        Config::resolve(&self.config_path(), sources)
    }

    /// Adds `url` to the configured peers, and leaves every other byte of the file as it is;
    /// whether it was not there before.
    ///
    /// # Errors
    /// As [`Home::config`], and what the file system refuses.
    pub fn add_peer(&self, url: &str) -> Result<bool, HomeError> {
        self.edit_peers(|peers| peers.push(url.to_owned()), url, false)
    }

    /// Takes `url` out of the configured peers, and leaves every other byte of the file as it
    /// is; whether it was there before.
    ///
    /// # Errors
    /// As [`Home::config`], and what the file system refuses.
    pub fn drop_peer(&self, url: &str) -> Result<bool, HomeError> {
        self.edit_peers(|peers| peers.retain(|peer| peer != url), url, true)
    }

    /// Opens the replay store, and makes it if there is none.
    ///
    /// # Errors
    /// [`StoreError`]: without its store a node neither sends nor admits anything.
    pub fn open_store(&self, kind: StoreKind) -> Result<Box<dyn StoreAdmin>, StoreError> {
        store::open(&self.store_path(), kind)
    }

    /// Opens the store of references, and makes it if there is none.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn open_references(&self) -> Result<RefsStore, StoreError> {
        RefsStore::open(&self.references_path())
    }

    /// Bytes that the logs of groups take on the disk; zero where there are none.
    pub fn groups_bytes(&self) -> u64 {
        let files = std::fs::read_dir(self.groups_path()).into_iter().flatten();
        let sizes = files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len()));
        sizes.sum()
    }

    /// Opens the store of the logs of groups, and makes it if there is none.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn open_groups(&self) -> Result<LogsStore, StoreError> {
        LogsStore::open(&self.groups_path())
    }

    /// Opens the store of mail, and makes it if there is none.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn open_inbox(&self) -> Result<LogsStore, StoreError> {
        LogsStore::open(&self.inbox_path())
    }

    /// Takes the home for this process. The lock lasts as long as the value.
    ///
    /// # Errors
    /// [`HomeError::InUse`] naming the process that holds it, [`HomeError::NotInitialised`] when
    /// there is no such folder, and as [`check_folder`](Self::check_folder).
    pub fn lock(&self) -> Result<HomeLock, HomeError> {
        if !files::exists(&self.dir)? {
            return Err(self.not_initialised());
        }
        self.check_folder()?;
        HomeLock::take(&self.lock_path(), &self.dir)
    }

    /// Checks that nobody else can put another store, configuration or socket into the home.
    ///
    /// # Errors
    /// [`HomeError::FolderOpen`]
    pub fn check_folder(&self) -> Result<(), HomeError> {
        files::check_folder(&self.dir)
    }

    /// Edits the list if `url` is in it as `there` says; whether it did.
    fn edit_peers(
        &self,
        edit: impl FnOnce(&mut Vec<String>),
        url: &str,
        there: bool,
    ) -> Result<bool, HomeError> {
        let mut peers = self.config()?.peers;
        if peers.iter().any(|peer| peer == url) != there {
            return Ok(false);
        }
        edit(&mut peers);
        config::write_peers(&self.config_path(), &peers)?;
        Ok(true)
    }

    /// Checks that there is an account here.
    ///
    /// # Errors
    /// [`HomeError::NotInitialised`] without one.
    pub fn require_account(&self) -> Result<(), HomeError> {
        let there = self.is_initialised()?;
        there.then_some(()).ok_or_else(|| self.not_initialised())
    }

    fn not_initialised(&self) -> HomeError {
        HomeError::NotInitialised {
            path: self.dir.clone(),
        }
    }
}
