//! The socket's own rules: private from its first moment, replaced when stale, for one user.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use tokio::net::{UnixListener, UnixStream, unix};
use tracing::warn;

use crate::home::{Home, HomeError, HomeLock};

/// The longest socket path the platform binds, in bytes, without the closing zero.
const SOCKET_PATH_MAX_BYTES: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// Opens the local API's socket. The lock shows that no other daemon runs on this home, so a
/// socket that is there was left by one that was killed, and is replaced.
///
/// The socket gets its mode in a folder that nobody else can enter, and only then its place:
/// there is no moment at which it is open to others, whatever the umask.
///
/// # Errors
/// [`HomeError::SocketPathTooLong`], and what the platform refuses.
pub fn bind(home: &Home, _held: &HomeLock) -> Result<LocalListener, HomeError> {
    let path = home.socket_path();
    let length = path.as_os_str().as_bytes().len();
    if length > SOCKET_PATH_MAX_BYTES {
        return Err(HomeError::SocketPathTooLong {
            path,
            length,
            limit: SOCKET_PATH_MAX_BYTES,
        });
    }
    let private = home.dir().join(".bind");
    bind_through(&private, &path).map_err(HomeError::io("listen on", &path))
}

fn bind_through(private: &Path, path: &Path) -> io::Result<LocalListener> {
    remove(fs::remove_dir_all(private))?;
    DirBuilder::new().mode(0o700).create(private)?;
    // Shorter than the socket's own path, so within the limit where that is.
    let first = private.join("s");
    let listener = UnixListener::bind(&first)?;
    fs::set_permissions(&first, Permissions::from_mode(0o600))?;
    fs::rename(&first, path)?;
    fs::remove_dir(private)?;
    Ok(LocalListener {
        listener,
        user: rustix::process::geteuid().as_raw(),
    })
}

fn remove(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The local API's socket: accepts processes of its own user alone.
#[derive(Debug)]
pub struct LocalListener {
    listener: UnixListener,
    user: u32,
}

impl LocalListener {
    fn admits(&self, stream: &UnixStream) -> bool {
        match stream.peer_cred() {
            Ok(peer) if peer.uid() == self.user || peer.uid() == ROOT => true,
            Ok(peer) => {
                warn!(
                    user = peer.uid(),
                    "local API: another user's process refused"
                );
                false
            }
            Err(cause) => {
                warn!(%cause, "local API: a process without credentials refused");
                false
            }
        }
    }
}

/// Root can become any user, so refusing it protects nothing.
const ROOT: u32 = 0;

impl axum::serve::Listener for LocalListener {
    type Io = UnixStream;
    type Addr = unix::SocketAddr;

    async fn accept(&mut self) -> (UnixStream, unix::SocketAddr) {
        loop {
            // The system's own `accept` loop waits out a shortage of descriptors.
            let (stream, address) = axum::serve::Listener::accept(&mut self.listener).await;
            if self.admits(&stream) {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<unix::SocketAddr> {
        self.listener.local_addr()
    }
}
