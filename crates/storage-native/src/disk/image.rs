//! The contents of a disk as one value.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A path, shared: a disk in memory compares and copies many.
pub(super) type Key = Arc<str>;

pub(super) fn key(path: &Path) -> Key {
    path.to_string_lossy().into()
}

pub(super) fn parent(key: &str) -> &str {
    match key.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

/// Everything a disk holds, by path. The root folder is always there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    pub(super) nodes: BTreeMap<Key, Node>,
}

/// A folder or a file's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    Folder,
    File(Arc<Vec<u8>>),
}

impl Image {
    /// The bytes of a file.
    pub fn file(&self, path: &Path) -> Option<&[u8]> {
        match self.nodes.get(path.to_str()?)? {
            Node::File(bytes) => Some(bytes),
            Node::Folder => None,
        }
    }

    /// The paths of all files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let files = self.nodes.iter();
        let files = files.filter(|(_, node)| **node != Node::Folder);
        files.map(|(path, _)| Path::new(&**path))
    }

    /// Puts a file in place, as something outside every store would.
    pub fn put(&mut self, path: &Path, bytes: Vec<u8>) {
        self.nodes.insert(key(path), Node::File(Arc::new(bytes)));
    }

    /// Takes a file away, as something outside every store would.
    pub fn take(&mut self, path: &Path) -> Option<Vec<u8>> {
        match self.nodes.remove(path.to_str()?)? {
            Node::File(bytes) => Some(bytes.to_vec()),
            Node::Folder => None,
        }
    }

    /// What tells this image from every other.
    pub fn digest(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for (path, node) in &self.nodes {
            hasher.update(&(path.len() as u64).to_be_bytes());
            hasher.update(path.as_bytes());
            let bytes: &[u8] = match node {
                Node::Folder => &[],
                Node::File(bytes) => bytes,
            };
            hasher.update(&[u8::from(*node == Node::Folder)]);
            hasher.update(&(bytes.len() as u64).to_be_bytes());
            hasher.update(bytes);
        }
        *hasher.finalize().as_bytes()
    }

    /// Drops what lies in no folder of the image.
    pub(super) fn drop_orphans(&mut self) {
        let folders = self.nodes.iter();
        let folders = folders.filter(|(_, node)| **node == Node::Folder);
        let mut kept: Vec<Key> = vec!["/".into()];
        // Ascending, so a folder comes after its parent.
        for (folder, _) in folders {
            if kept.iter().any(|kept| **kept == *parent(folder)) {
                kept.push(Arc::clone(folder));
            }
        }
        self.nodes
            .retain(|path, _| kept.iter().any(|folder| **folder == *parent(path)));
    }
}
