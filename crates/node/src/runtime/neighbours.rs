//! Where a node's neighbours take offers, kept over restarts: whom it dials where it has no link and those it was
//! told to stay linked to do not answer.
//!
//! Law **bounded, the nearest first**: so many addresses, those that the ring needs before others, and the newest
//! before those that were known before; each is the address of a node that proved its account on a link there.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use overlane_core::Did;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};

/// Addresses that are kept; the one that was needed least and longest ago gives way.
pub const NEIGHBOURS_MAX: usize = 8;

/// A node that was linked, and where it took offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbour {
    /// The node.
    pub did: Did,
    /// Where it took offers.
    pub at: SocketAddr,
}

impl Neighbour {
    /// As nodes are dialled.
    pub fn url(&self) -> String {
        format!("http://{}", self.at)
    }
}

/// Keeps them where the next process finds them; may block.
pub(crate) type Keep = Box<dyn FnMut(&[Neighbour]) + Send>;

/// The neighbours that are known. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Neighbours(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    known: Vec<Neighbour>,
    keep: Option<watch::Sender<Vec<Neighbour>>>,
    /// Where one of them was dialled last that nobody asked for a link to.
    sought: Option<String>,
}

impl Neighbours {
    /// Those of an earlier life, and who keeps what changes; its task ends with
    /// [`close`](Self::close).
    pub(crate) fn new(
        mut known: Vec<Neighbour>,
        keep: Option<Keep>,
    ) -> (Self, Option<JoinHandle<()>>) {
        known.truncate(NEIGHBOURS_MAX);
        let (changes, keeping) = match keep {
            Some(keep) => {
                let (out, changes) = watch::channel(known.clone());
                (Some(out), Some(tokio::spawn(keep_all(keep, changes))))
            }
            None => (None, None),
        };
        let known = Known {
            known,
            keep: changes,
            sought: None,
        };
        (Self(Arc::new(Mutex::new(known))), keeping)
    }

    /// These are linked now, the most needed first. Whoever is linked no more is known still, while there is
    /// room.
    pub(crate) fn note(&self, linked: impl IntoIterator<Item = Neighbour>) {
        self.with(|this| {
            let mut next: Vec<Neighbour> = Vec::new();
            let linked: Vec<Neighbour> = linked.into_iter().collect();
            for neighbour in linked.iter().chain(&this.known) {
                let room = next.len() < NEIGHBOURS_MAX;
                if room && next.iter().all(|it| it.did != neighbour.did) {
                    next.push(*neighbour);
                }
            }
            this.take_over(next);
        });
    }

    /// Another node answers where this one did.
    pub(crate) fn forget(&self, neighbour: &Neighbour) {
        self.forget_all(|it| it == neighbour);
    }

    /// None of these is dialled any more.
    pub(crate) fn forget_all(&self, gone: impl Fn(&Neighbour) -> bool) {
        self.with(|this| {
            let mut next = this.known.clone();
            next.retain(|it| !gone(it));
            this.take_over(next);
        });
    }

    /// One of them is dialled there, or somebody asks for a link to the one that is.
    pub(crate) fn seek_at(&self, url: Option<String>) {
        self.with(|this| this.sought = url);
    }

    /// Whether a link that was dialled there is one that nobody asked for.
    pub(crate) fn is_sought(&self, url: &str) -> bool {
        self.with(|this| this.sought.as_deref() == Some(url))
    }

    /// All that are known, those to be tried first at the front.
    pub(crate) fn known(&self) -> Vec<Neighbour> {
        self.with(|this| this.known.clone())
    }

    /// Nothing is kept any more.
    pub(crate) fn close(&self) {
        self.with(|this| this.keep = None);
    }

    fn with<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Known {
    /// Takes over another list; it is kept if it has others in it.
    fn take_over(&mut self, next: Vec<Neighbour>) {
        let sorted = |of: &[Neighbour]| {
            let mut of = of.to_vec();
            of.sort_unstable();
            of
        };
        let changed = sorted(&next) != sorted(&self.known);
        self.known = next;
        if let (true, Some(keep)) = (changed, &self.keep) {
            keep.send_replace(self.known.clone());
        }
    }
}

/// Keeps what changes, off the asynchronous workers; of what waits, the last alone counts.
async fn keep_all(mut keep: Keep, mut changes: watch::Receiver<Vec<Neighbour>>) {
    while changes.changed().await.is_ok() {
        let known = changes.borrow_and_update().clone();
        let kept = spawn_blocking(move || {
            keep(&known);
            keep
        });
        match kept.await {
            Ok(again) => keep = again,
            Err(_) => return tracing::error!("the addresses of neighbours are kept no more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn neighbour(number: u8, port: u16) -> Neighbour {
        let did = Did([number; 20]);
        let at = SocketAddr::from(([127, 0, 0, 1], port));
        Neighbour { did, at }
    }

    #[tokio::test]
    async fn law_neighbours_are_bounded_and_those_that_are_needed_stay() {
        let (kept_out, kept) = channel();
        let keep = move |known: &[Neighbour]| kept_out.send(known.to_vec()).unwrap();
        let old: Vec<Neighbour> = (0..20).map(|it| neighbour(it, 1)).collect();
        let (neighbours, keeping) = Neighbours::new(old.clone(), Some(Box::new(keep)));
        assert_eq!(neighbours.known(), old[..NEIGHBOURS_MAX]);
        // One of them is elsewhere now, and two are new.
        neighbours.note([neighbour(3, 2), neighbour(90, 1), neighbour(91, 1)]);
        let known = neighbours.known();
        assert_eq!(known.len(), NEIGHBOURS_MAX);
        assert_eq!(
            known[..3],
            [neighbour(3, 2), neighbour(90, 1), neighbour(91, 1)]
        );
        assert_eq!(known[3..], [old[0], old[1], old[2], old[4], old[5]]);
        // Strangers without end push out what is known of before, and nobody that comes first.
        neighbours.note((3..4).chain(100..200).map(|it| neighbour(it, 2)));
        assert_eq!(neighbours.known().len(), NEIGHBOURS_MAX);
        assert_eq!(neighbours.known()[0], neighbour(3, 2));
        // Nobody is linked: all are known still.
        let known = neighbours.known();
        neighbours.note([]);
        neighbours.forget(&neighbour(3, 1));
        assert_eq!(neighbours.known(), known, "that was another address");
        neighbours.forget(&neighbour(3, 2));
        neighbours.close();
        keeping.unwrap().await.unwrap();
        // A link that was dialled there is one that nobody asked for, until somebody does.
        let url = neighbour(3, 1).url();
        neighbours.seek_at(Some(url.clone()));
        assert!(neighbours.is_sought(&url) && !neighbours.is_sought(&neighbour(3, 2).url()));
        neighbours.seek_at(None);
        assert!(!neighbours.is_sought(&url));
        // The last that was kept is what is known.
        assert_eq!(kept.try_iter().last().unwrap(), neighbours.known());
        assert_eq!(neighbours.known(), known[1..]);
    }
}
