//! The side that has the file.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use overlane_core::wire::cbor::{from_slice, to_vec};
use tokio::task::spawn_blocking;

use super::note::{About, Note, Wanted};
use super::{NAME_MAX_BYTES, PART_BYTES, ShareError};
use crate::node::Node;
use crate::refs::{Answer, Call, RefState, ReferenceError, Service, Ticket, Token};

/// A file that is shared.
#[derive(Debug)]
pub struct Offer {
    /// What its reference is kept under.
    pub token: Token,
    /// What to give to whoever may have it.
    pub ticket: Ticket,
    /// What it is.
    pub about: About,
}

/// Offers a file, from now on and after each restart, until its reference is taken back.
///
/// # Errors
/// [`ShareError`]: no file, or a bound of the references.
pub async fn share(node: &Node, path: &Path) -> Result<Offer, ShareError> {
    let path = path.to_owned();
    let looked = spawn_blocking(move || look_at(&path)).await;
    let shared = looked.map_err(|_| ReferenceError::Closed)??;
    let (about, note) = (shared.about.clone(), shared.note().to_bytes());
    let of = node.export(shared).await?;
    let token = of.token(&note).await?;
    let ticket = node.ticket(token).await?;
    Ok(Offer {
        token,
        ticket,
        about,
    })
}

/// Offers again what was shared before the process was started. Gives how many files there are.
///
/// # Errors
/// [`ReferenceError`]
pub async fn restore(node: &Node) -> Result<usize, ReferenceError> {
    let mut restored = 0;
    for kept in node.kept().await? {
        let live = kept.own && kept.state == RefState::Live && !kept.attached;
        if let (true, Some(note)) = (live, Note::read(&kept.note))
            && let Some(shared) = SharedFile::noted(note)
        {
            node.attach(kept.id, shared).await?;
            restored += 1;
        }
    }
    Ok(restored)
}

/// The service of one file.
struct SharedFile {
    path: PathBuf,
    modified_ns: u64,
    about: About,
}

impl SharedFile {
    fn note(&self) -> Note {
        Note::Shared {
            path: self.path.clone(),
            modified_ns: self.modified_ns,
            about: self.about.clone(),
        }
    }

    fn noted(note: Note) -> Option<Self> {
        match note {
            Note::Shared {
                path,
                modified_ns,
                about,
            } => Some(Self {
                path,
                modified_ns,
                about,
            }),
            Note::Fetched { .. } => None,
        }
    }
}

#[async_trait]
impl Service for SharedFile {
    async fn call(&self, call: Call) -> Answer {
        match from_slice(&call.bytes) {
            Ok(Wanted::About) => Answer::bytes(to_vec(&self.about)),
            Ok(Wanted::Part { at, bytes }) => {
                let (path, size, modified_ns) =
                    (self.path.clone(), self.about.size, self.modified_ns);
                let read = spawn_blocking(move || part(&path, size, modified_ns, at, bytes)).await;
                match read {
                    Ok(Ok(part)) => Answer::bytes(part),
                    Ok(Err(error)) => {
                        tracing::warn!(path = %self.path.display(), %error, "a shared file");
                        // Where it is, is nobody's business.
                        Answer::refuse("the file cannot be read any more, or was changed")
                    }
                    Err(_) => Answer::refuse("the node is shutting down"),
                }
            }
            Err(_) => Answer::refuse("this is a file: ask what it is, or for a part of it"),
        }
    }
}

fn part(path: &Path, size: u64, modified_ns: u64, at: u64, bytes: u32) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let now = file.metadata()?;
    if now.len() != size || modified(&now) != modified_ns {
        return Err(io::Error::other("it was changed since it was shared"));
    }
    let bytes = u64::from(bytes).min(PART_BYTES as u64);
    file.seek(SeekFrom::Start(at.min(size)))?;
    let mut part = Vec::new();
    file.take(bytes).read_to_end(&mut part)?;
    Ok(part)
}

/// What a file is; reads all of it.
fn look_at(path: &Path) -> Result<SharedFile, ShareError> {
    let unreadable = |cause: io::Error| ShareError::Unreadable {
        path: path.to_owned(),
        cause: cause.to_string(),
    };
    let no_file = |what| ShareError::NoFile {
        path: path.to_owned(),
        what,
    };
    let whole = path.canonicalize().map_err(unreadable)?;
    let text = whole.to_str().ok_or(no_file("its path is no text"))?;
    if !ShareError::path_fits(text) {
        return Err(no_file(ShareError::PATH_TOO_LONG));
    }
    let name = whole.file_name().and_then(|name| name.to_str());
    let name = name.ok_or(no_file("it has no name"))?;
    let fits = name.len() <= NAME_MAX_BYTES;
    let name = fits.then(|| name.to_owned());
    let name = name.ok_or(no_file("its name is too long"))?;
    let file = File::open(&whole).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(no_file("it is a folder or a device"));
    }
    let mut hasher = blake3::Hasher::new();
    let size = io::copy(&mut { file }, &mut hasher).map_err(unreadable)?;
    if size != metadata.len() {
        return Err(no_file("it is being written"));
    }
    let about = About {
        name,
        size,
        hash: *hasher.finalize().as_bytes(),
    };
    Ok(SharedFile {
        modified_ns: modified(&metadata),
        path: whole,
        about,
    })
}

fn modified(metadata: &Metadata) -> u64 {
    let modified = metadata.modified().ok();
    let since = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0))
}
