//! The contents of a disk as one value.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Everything a disk holds, by path. The root folder is always there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    pub(super) nodes: BTreeMap<PathBuf, Node>,
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
        match self.nodes.get(path)? {
            Node::File(bytes) => Some(bytes),
            Node::Folder => None,
        }
    }

    /// The paths of all files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let files = |(path, node)| matches!(node, &Node::File(_)).then_some(path);
        self.nodes.iter().filter_map(files).map(PathBuf::as_path)
    }

    /// Puts a file in place, as something outside every store would.
    pub fn put(&mut self, path: &Path, bytes: Vec<u8>) {
        self.nodes.insert(path.into(), Node::File(Arc::new(bytes)));
    }

    /// Takes a file away, as something outside every store would.
    pub fn take(&mut self, path: &Path) -> Option<Vec<u8>> {
        match self.nodes.remove(path)? {
            Node::File(bytes) => Some(bytes.to_vec()),
            Node::Folder => None,
        }
    }

    /// What tells this image from every other.
    pub fn digest(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for (path, node) in &self.nodes {
            let path = path.as_os_str().as_encoded_bytes();
            hasher.update(&(path.len() as u64).to_be_bytes());
            hasher.update(path);
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
        let folders: Vec<PathBuf> = self
            .nodes
            .iter()
            .filter(|(_, node)| **node == Node::Folder)
            .map(|(path, _)| path.clone())
            .collect();
        let mut kept: Vec<PathBuf> = vec![PathBuf::from("/")];
        // Ascending, so a folder comes after its parent.
        for folder in folders {
            if folder
                .parent()
                .is_some_and(|parent| kept.contains(&parent.into()))
            {
                kept.push(folder);
            }
        }
        self.nodes.retain(|path, _| {
            path.parent()
                .is_some_and(|parent| kept.iter().any(|folder| folder == parent))
        });
    }
}
