//! A disk in memory that records, fails and crashes.
//!
//! [`Disk`] is a [`Vfs`] that records every effect, fails the call it is told to, and tells what a
//! crash may leave: for tests and for simulations. No node keeps its records on it.

mod effects;
mod faults;
mod image;
mod seeded;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use effects::{CrashChoices, Recording};
pub use faults::{FaultKind, FaultPlan};
pub use image::Image;
pub use seeded::Seeded;

use crate::vfs::{Entry, EntryKind, OpenMode, Vfs, VfsFile};
use effects::{Effect, Inode, Logged};
use faults::{CallKind, Faults, Injected};
use image::{Key, Node, key, parent};

/// How many calls of each kind a disk has taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// Files opened to be read, and reads.
    pub reads: u64,
    /// Files made, writes, renames, removals.
    pub changes: u64,
    /// File flushes.
    pub file_flushes: u64,
    /// Folder flushes.
    pub folder_flushes: u64,
}

/// A disk in memory. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    folders: BTreeSet<Key>,
    names: BTreeMap<Key, Inode>,
    contents: BTreeMap<Inode, Arc<Vec<u8>>>,
    next_inode: Inode,
    base: Image,
    base_inodes: BTreeMap<Key, Inode>,
    log: Vec<Logged>,
    calls: Calls,
    faults: Faults,
    locks: BTreeSet<Key>,
    /// How often each file is open.
    open: BTreeMap<Inode, usize>,
    cut_off: bool,
}

impl Disk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// A disk that holds this and has nothing pending.
    pub fn from_image(image: &Image) -> Self {
        let mut state = State::default();
        for (path, node) in &image.nodes {
            match node {
                Node::Folder => {
                    state.folders.insert(Arc::clone(path));
                }
                Node::File(bytes) => {
                    let inode = state.new_inode();
                    state.names.insert(Arc::clone(path), inode);
                    state.contents.insert(inode, Arc::clone(bytes));
                }
            }
        }
        state.base = image.clone();
        state.base_inodes = state.names.clone();
        Self(Arc::new(Mutex::new(state)))
    }

    /// This disk as a store's door.
    pub fn vfs(&self) -> Arc<dyn Vfs> {
        Arc::new(self.clone())
    }

    /// What the disk shows now: what a process finds that starts after another one ended, with
    /// the system still up.
    pub fn image(&self) -> Image {
        self.state().image()
    }

    /// Changes what the disk holds behind every store's back, durably.
    pub fn tamper(&self, change: impl FnOnce(&mut Image)) {
        let mut image = self.image();
        change(&mut image);
        let fresh = Self::from_image(&image);
        let mut state = self.state();
        let mut fresh = fresh.state();
        std::mem::swap(&mut *state, &mut *fresh);
        state.calls = fresh.calls;
        state.locks = std::mem::take(&mut fresh.locks);
    }

    /// How many bytes its files have now, those without a name that somebody has open among them.
    pub fn bytes(&self) -> usize {
        self.state()
            .contents
            .values()
            .map(|content| content.len())
            .sum()
    }

    /// How many effects and flushes are recorded.
    pub fn position(&self) -> usize {
        self.state().log.len()
    }

    /// Forgets the recorded effects that every crash keeps, up to the first that one may lose.
    /// Positions count from there.
    pub fn forget_durable(&self) {
        let durable =
            |logged: &Logged| matches!(logged.effect, Effect::Flush) || logged.durable_at.is_some();
        self.forget(|mut log| {
            let kept = log.iter().position(|logged| !durable(logged));
            let count = kept.unwrap_or(log.len());
            let mut kept = log.split_off(count);
            for logged in &mut kept {
                logged.durable_at = logged.durable_at.map(|at| at.saturating_sub(count));
            }
            (log, kept)
        });
    }

    /// Forgets the recorded effects that every crash from now on keeps, those after one that it may lose among them: what
    /// is never flushed, as who holds a lock, holds up nothing else. Those stay that do not commute with one before them
    /// that does. Positions before the last are no longer to be asked for, and an image drawn for a later one is the
    /// same as before.
    pub fn forget_settled(&self) {
        self.forget(effects::split);
    }

    fn forget(&self, split: impl FnOnce(Vec<Logged>) -> (Vec<Logged>, Vec<Logged>)) {
        let mut state = self.state();
        let base = std::mem::take(&mut state.base);
        let inodes = std::mem::take(&mut state.base_inodes);
        let (settled, kept) = split(std::mem::take(&mut state.log));
        state.log = kept;
        (state.base, state.base_inodes) = effects::settle(base, inodes, &settled);
    }

    /// Everything recorded so far.
    pub fn recording(&self) -> Recording {
        let state = self.state();
        Recording {
            base: state.base.clone(),
            base_inodes: state.base_inodes.clone(),
            log: state.log.clone(),
        }
    }

    /// How many calls it has taken.
    pub fn calls(&self) -> Calls {
        self.state().calls
    }

    /// Lets calls fail from now on as planned.
    pub fn fail(&self, plan: FaultPlan) {
        self.state().faults.plan(plan);
    }

    /// Lets no call fail any more; tells whether one did since [`fail`](Self::fail).
    pub fn heal(&self) -> bool {
        self.state().faults.heal()
    }

    /// Runs `end`, in which a process ends without a call of it reaching the disk: its files are
    /// given up as they are.
    pub fn cut_off(&self, end: impl FnOnce()) {
        self.state().cut_off = true;
        end();
        self.state().cut_off = false;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new_inode(&mut self) -> Inode {
        self.next_inode = self.next_inode.saturating_add(1);
        self.next_inode
    }

    fn image(&self) -> Image {
        let mut image = Image::default();
        for folder in &self.folders {
            image.nodes.insert(Arc::clone(folder), Node::Folder);
        }
        for (path, inode) in &self.names {
            let bytes = self.contents.get(inode).cloned().unwrap_or_default();
            image.nodes.insert(Arc::clone(path), Node::File(bytes));
        }
        image
    }

    fn record(&mut self, effect: Effect) {
        self.log.push(Logged {
            effect,
            durable_at: None,
            in_limbo: false,
        });
    }

    /// What the call of a process that has ended comes to.
    fn alive(&self) -> io::Result<()> {
        match self.cut_off {
            true => Err(io::ErrorKind::BrokenPipe.into()),
            false => Ok(()),
        }
    }

    fn change(&mut self) -> io::Result<Injected> {
        self.alive()?;
        self.calls.changes = self.calls.changes.saturating_add(1);
        self.faults.next(CallKind::Change)
    }

    fn has_folder(&self, path: &str) -> bool {
        path == "/" || self.folders.contains(path)
    }

    fn need_parent(&self, path: &str) -> io::Result<()> {
        match self.has_folder(parent(path)) {
            true => Ok(()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn inode_of(&self, path: &str) -> io::Result<Inode> {
        let inode = self.names.get(path).copied();
        inode.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Marks what a flush covers as durable, or as in limbo when it failed.
    fn flush(&mut self, failed: bool, covers: impl Fn(&Effect) -> bool) {
        let position = self.log.len();
        self.record(Effect::Flush);
        for logged in &mut self.log {
            if logged.durable_at.is_none() && !logged.in_limbo && covers(&logged.effect) {
                logged.in_limbo = failed;
                logged.durable_at = (!failed).then_some(position);
            }
        }
    }

    fn write(&mut self, inode: Inode, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let end = offset.saturating_add(bytes.len());
        let content = Arc::make_mut(self.contents.entry(inode).or_default());
        if content.len() < end {
            content.resize(end, 0);
        }
        if let Some(target) = content.get_mut(offset..end) {
            target.copy_from_slice(bytes);
        }
        let bytes = bytes.into();
        self.record(Effect::Write {
            inode,
            offset,
            bytes,
        });
        Ok(())
    }
}

impl Vfs for Disk {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        let path = key(path);
        let mut state = self.state();
        state.change()?;
        if state.has_folder(&path) || state.names.contains_key(&path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.need_parent(&path)?;
        state.folders.insert(Arc::clone(&path));
        state.record(Effect::MakeFolder(path));
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        let folder = key(folder);
        let mut state = self.state();
        state.calls.reads = state.calls.reads.saturating_add(1);
        state.faults.next(CallKind::Look)?;
        if !state.has_folder(&folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = |path: &str| parent(path) == &*folder;
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let files = state.names.iter().filter(|(path, _)| inside(path));
        let files = files.map(|(path, inode)| Entry {
            name: name(path),
            kind: EntryKind::File {
                bytes: state.contents.get(inode).map_or(0, |c| c.len() as u64),
            },
        });
        let folders = state.folders.iter().filter(|path| inside(path));
        let folders = folders.map(|path| Entry {
            name: name(path),
            kind: EntryKind::Other,
        });
        Ok(files.chain(folders).collect())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn VfsFile>> {
        let path = key(path);
        let mut state = self.state();
        if mode == OpenMode::Create {
            state.change()?;
            state.need_parent(&path)?;
        } else {
            state.calls.reads = state.calls.reads.saturating_add(1);
            state.faults.next(CallKind::Look)?;
        }
        if state.folders.contains(&path) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let inode = match state.inode_of(&path) {
            Ok(inode) if mode == OpenMode::Create => {
                state.contents.insert(inode, Arc::default());
                state.record(Effect::Resize(inode, 0));
                inode
            }
            Err(_) if mode == OpenMode::Create => state.make(path),
            found => found?,
        };
        drop(state);
        Ok(self.opened(inode, None))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (key(from), key(to));
        let mut state = self.state();
        state.change()?;
        state.need_parent(&to)?;
        let inode = state.inode_of(&from)?;
        if state.folders.contains(&to) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        state.names.remove(&from);
        let before = state.names.insert(Arc::clone(&to), inode);
        before.into_iter().for_each(|before| state.let_go(before));
        state.record(Effect::Rename(from, to, inode));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let path = key(path);
        let mut state = self.state();
        state.change()?;
        let inode = state.inode_of(&path)?;
        state.names.remove(&path);
        state.let_go(inode);
        state.record(Effect::Remove(path));
        Ok(())
    }

    fn flush_folder(&self, folder: &Path) -> io::Result<()> {
        let folder = key(folder);
        let mut state = self.state();
        state.calls.folder_flushes = state.calls.folder_flushes.saturating_add(1);
        state.faults.next(CallKind::FolderFlush)?;
        // A failed folder flush loses nothing that a later one cannot still make durable: the
        // entries are the file system's own journal's, not pages that were given up.
        let inside = |path: &str| parent(path) == &*folder;
        state.flush(false, |effect| match effect {
            Effect::MakeFolder(path) | Effect::Make(path, _) | Effect::Remove(path) => inside(path),
            Effect::Rename(_, to, _) => inside(to),
            Effect::Resize(..) | Effect::Write { .. } | Effect::Flush => false,
        });
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        let path = key(path);
        let mut state = self.state();
        state.change()?;
        state.need_parent(&path)?;
        if state.locks.contains(&path) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let inode = match state.inode_of(&path) {
            Ok(inode) => inode,
            Err(_) => state.make(Arc::clone(&path)),
        };
        state.locks.insert(Arc::clone(&path));
        drop(state);
        Ok(self.opened(inode, Some(path)))
    }
}

impl State {
    fn make(&mut self, path: Key) -> Inode {
        let inode = self.new_inode();
        self.names.insert(Arc::clone(&path), inode);
        self.contents.insert(inode, Arc::default());
        self.record(Effect::Make(path, inode));
        inode
    }

    /// What has neither a name nor a user is gone; what a crash brings back is in the record.
    fn let_go(&mut self, inode: Inode) {
        let named = self.names.values().any(|&of| of == inode);
        if !named && !self.open.contains_key(&inode) {
            self.contents.remove(&inode);
        }
    }

    fn close(&mut self, inode: Inode) {
        if let Some(users) = self.open.get_mut(&inode) {
            *users = users.saturating_sub(1);
            if *users == 0 {
                self.open.remove(&inode);
                self.let_go(inode);
            }
        }
    }
}

impl Disk {
    fn opened(&self, inode: Inode, lock: Option<Key>) -> Box<dyn VfsFile> {
        *self.state().open.entry(inode).or_default() += 1;
        Box::new(OpenFile {
            disk: self.clone(),
            inode,
            lock,
        })
    }
}

#[derive(Debug)]
struct OpenFile {
    disk: Disk,
    inode: Inode,
    lock: Option<Key>,
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if let Some(lock) = &self.lock {
            state.locks.remove(lock);
        }
        state.close(self.inode);
    }
}

impl VfsFile for OpenFile {
    fn read_at(&mut self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.calls.reads = state.calls.reads.saturating_add(1);
        let injected = state.faults.next(CallKind::Read)?;
        let content = state.contents.get(&self.inode).cloned().unwrap_or_default();
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let rest = content.get(offset..).unwrap_or_default();
        let taken = injected.shortened(into.len().min(rest.len()));
        for (to, from) in into.iter_mut().zip(rest.iter().take(taken)) {
            *to = *from;
        }
        Ok(taken)
    }

    fn write_at(&mut self, from: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.alive()?;
        state.calls.changes = state.calls.changes.saturating_add(1);
        match state.faults.next(CallKind::Write) {
            Ok(injected) => {
                let taken = injected.shortened(from.len());
                state.write(self.inode, offset, from.get(..taken).unwrap_or_default())?;
                Ok(taken)
            }
            Err(error) => {
                // A failed write may have written some of it.
                if error.kind() != io::ErrorKind::Interrupted {
                    let part = from.get(..from.len() / 2).unwrap_or_default();
                    state.write(self.inode, offset, part)?;
                }
                Err(error)
            }
        }
    }

    fn length(&mut self) -> io::Result<u64> {
        let mut state = self.disk.state();
        state.calls.reads = state.calls.reads.saturating_add(1);
        state.faults.next(CallKind::Look)?;
        let content = state.contents.get(&self.inode);
        Ok(content.map_or(0, |content| content.len() as u64))
    }

    fn resize(&mut self, bytes: u64) -> io::Result<()> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let mut state = self.disk.state();
        state.change()?;
        let content = state.contents.entry(self.inode).or_default();
        Arc::make_mut(content).resize(bytes, 0);
        state.record(Effect::Resize(self.inode, bytes));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let inode = self.inode;
        let mut state = self.disk.state();
        state.alive()?;
        state.calls.file_flushes = state.calls.file_flushes.saturating_add(1);
        let injected = state.faults.next(CallKind::FileFlush);
        state.flush(injected.is_err(), |effect| match effect {
            Effect::Write { inode: of, .. } | Effect::Resize(of, _) => *of == inode,
            _ => false,
        });
        injected.map(drop)
    }
}
