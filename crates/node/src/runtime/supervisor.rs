//! Keeps a link to each configured peer: dials, and dials again when the link is lost.
//!
//! These are the ring's bootstrap: while one of them is away, it is dialled later and later
//! ([`Backoff`], at most a minute apart). A node that loses its last link has no ring to go by any more, and one
//! that has its first again is on a network that others come back to as well: either dials all of them anew at
//! once, however long they were away, but none of them more often than it does at first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use overlane_core::{Coded, Did};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Duration, Instant, sleep, timeout};

use super::neighbours::{Neighbour, Neighbours};
use super::redial::{Backoff, QUICK_PAUSE_MS};
use crate::link::{LinkId, Links};
use crate::status::{PeerState, PeerStatus};

/// Configured peers at most.
pub const PEERS_MAX: usize = 64;

/// How long an answered dial may take to be told as a link.
const UP_WITHIN: Duration = Duration::from_secs(5);

/// The admitted links, as the driver last told.
pub(crate) type LinksUp = BTreeMap<LinkId, Did>;

/// The configured peers, each with its task.
#[derive(Clone)]
pub(crate) struct Supervisor {
    links: Links,
    up: watch::Receiver<LinksUp>,
    peers: Arc<Mutex<BTreeMap<String, Entry>>>,
    neighbours: Neighbours,
    seeking: Arc<OnceLock<AbortHandle>>,
}

struct Entry {
    status: PeerStatus,
    next_dial: Option<Instant>,
    task: AbortHandle,
}

impl Supervisor {
    /// A supervisor of no peer yet.
    pub(crate) fn new(links: Links, up: watch::Receiver<LinksUp>, neighbours: Neighbours) -> Self {
        Self {
            links,
            up,
            peers: Arc::default(),
            neighbours,
            seeking: Arc::default(),
        }
    }

    /// Dials the neighbours of before from now on whenever the node has no link for a moment.
    pub(crate) fn seek(&self) {
        let task = tokio::spawn(seek(self.clone())).abort_handle();
        // One seeks at a time.
        if let Err(second) = self.seeking.set(task) {
            second.abort();
        }
    }

    /// Keeps a link to the peer at `url` from now on. One that is kept already is dialled anew.
    /// `false` when as many peers are kept as may be.
    pub(crate) fn add(&self, url: &str) -> bool {
        let mut peers = self.lock();
        if !peers.contains_key(url) && peers.len() >= PEERS_MAX {
            return false;
        }
        if self.neighbours.is_sought(url) {
            self.neighbours.seek_at(None);
        }
        let did = peers.remove(url).and_then(|entry| {
            entry.task.abort();
            entry.status.did
        });
        let task = tokio::spawn(self.clone().keep(url.to_owned(), did)).abort_handle();
        let status = PeerStatus {
            url: url.to_owned(),
            did,
            state: PeerState::Dialing,
            last_error: None,
            dials: 0,
            next_dial_ms: None,
        };
        let entry = Entry {
            status,
            next_dial: None,
            task,
        };
        peers.insert(url.to_owned(), entry);
        true
    }

    /// Keeps a link to the peer at `url` no longer, closes the ones there are, and does not seek it as a neighbour of
    /// before. `false` when it is none of the configured ones.
    pub(crate) async fn drop_peer(&self, url: &str) -> bool {
        let Some(entry) = self.lock().remove(url) else {
            return false;
        };
        entry.task.abort();
        let of_peer =
            |(link, did): (&LinkId, &Did)| (Some(*did) == entry.status.did).then_some(*link);
        let links: Vec<_> = self.up.borrow().iter().filter_map(of_peer).collect();
        for link in links {
            self.links.close(link).await;
        }
        self.neighbours
            .forget_all(|it| Some(it.did) == entry.status.did || it.url() == url);
        true
    }

    /// Every configured peer.
    pub(crate) fn status(&self) -> Vec<PeerStatus> {
        let peers = self.lock();
        let now = Instant::now();
        let status = |entry: &Entry| {
            let left = entry.next_dial.map(|at| at.saturating_duration_since(now));
            let next_dial_ms = left.map(|left| left.as_millis());
            PeerStatus {
                next_dial_ms: next_dial_ms.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX)),
                ..entry.status.clone()
            }
        };
        peers.values().map(status).collect()
    }

    /// Ends every task. Links stay as they are.
    pub(crate) fn stop(&self) {
        for entry in self.lock().values() {
            entry.task.abort();
        }
        if let Some(seeking) = self.seeking.get() {
            seeking.abort();
        }
    }

    async fn keep(self, url: String, mut did: Option<Did>) {
        let mut up = self.up.clone();
        let mut backoff = Backoff::default();
        loop {
            // The peer may have dialled this node meanwhile; one link to it is enough.
            let linked = |links: &LinksUp| links.values().any(|peer| Some(*peer) == did);
            if linked(&up.borrow()) {
                self.note(&url, |status| {
                    status.state = PeerState::Linked;
                    status.dials = 0;
                    status.last_error = None;
                });
                backoff.reset();
                if up.wait_for(|links| !linked(links)).await.is_err() {
                    return;
                }
            }
            self.note(&url, |status| {
                status.state = PeerState::Dialing;
                status.dials = status.dials.saturating_add(1);
            });
            match self.links.dial(&url).await {
                Ok(dialed) => {
                    did = Some(dialed.peer);
                    self.note(&url, |status| {
                        status.did = did;
                        status.last_error = None;
                    });
                    let told = up.wait_for(|links| links.contains_key(&dialed.link));
                    if matches!(timeout(UP_WITHIN, told).await, Ok(Ok(_))) {
                        continue;
                    }
                }
                Err(error) => self.note(&url, |status| {
                    status.last_error = Some((error.code(), error.to_string()));
                }),
            }
            self.note(&url, |status| status.state = PeerState::Waiting);
            let pause = backoff.pause(super::random_u64());
            self.note_next(&url, Instant::now().checked_add(pause));
            if waited(pause, &mut up, did).await == Woken::Turned {
                backoff.reset();
            }
            self.note_next(&url, None);
        }
    }

    /// Whether this one is dialled as a configured peer.
    fn keeps(&self, neighbour: &Neighbour) -> bool {
        let (peers, url) = (self.lock(), neighbour.url());
        let mut dids = peers.values().map(|entry| entry.status.did);
        peers.contains_key(&url) || dids.any(|did| did == Some(neighbour.did))
    }

    fn note_next(&self, url: &str, next_dial: Option<Instant>) {
        if let Some(entry) = self.lock().get_mut(url) {
            entry.next_dial = next_dial;
        }
    }

    fn note(&self, url: &str, change: impl FnOnce(&mut PeerStatus)) {
        if let Some(entry) = self.lock().get_mut(url) {
            change(&mut entry.status);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        // A panic elsewhere cannot leave an entry half changed: each change is one call.
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Dials the neighbours of before while the node has no link, one after another until one answers, later and
/// later. Those that it was told to stay linked to have a moment first, and are dialled by who keeps them alone.
async fn seek(supervisor: Supervisor) {
    let Supervisor {
        links,
        mut up,
        neighbours,
        ..
    } = supervisor.clone();
    let mut backoff = Backoff::default();
    loop {
        if !up.borrow().is_empty() {
            backoff.reset();
        }
        if up.wait_for(LinksUp::is_empty).await.is_err() {
            return;
        }
        let pause = backoff.pause(super::random_u64());
        let linked = timeout(pause, up.wait_for(|links| !links.is_empty()));
        match linked.await.map(|linked| linked.is_ok()) {
            Ok(true) => continue,
            Ok(false) => return,
            Err(_) => {}
        }
        let known = neighbours.known().into_iter();
        for neighbour in known.filter(|it| !supervisor.keeps(it)) {
            if !up.borrow().is_empty() {
                break;
            }
            let url = neighbour.url();
            neighbours.seek_at(Some(url.clone()));
            match links.dial(&url).await {
                Ok(dialed) if dialed.peer == neighbour.did => break,
                // It is linked all the same: one that proved its account is as good a way in.
                Ok(_) => neighbours.forget(&neighbour),
                Err(error) => {
                    tracing::debug!(peer = %neighbour.did, %error, "an old neighbour does not answer");
                }
            }
        }
    }
}

/// Why a peer is looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Woken {
    /// Its time has come.
    Time,
    /// The node has no link any more, or one again.
    Turned,
    /// It is linked: it dialled this node.
    Linked,
}

/// Waits so long, or until something happens before.
async fn waited(pause: Duration, up: &mut watch::Receiver<LinksUp>, did: Option<Did>) -> Woken {
    let mut links = up.clone();
    let linked = async {
        let told = links.wait_for(|links| links.values().any(|peer| Some(*peer) == did));
        if told.await.is_err() {
            std::future::pending().await
        }
    };
    // Whoever links and leaves again and again has this node dial nobody without end.
    let least = pause.min(Duration::from_millis(QUICK_PAUSE_MS));
    let turned = async {
        tokio::join!(turned(up), sleep(least));
    };
    tokio::select! {
        () = sleep(pause) => Woken::Time,
        () = turned => Woken::Turned,
        () = linked => Woken::Linked,
    }
}

/// Resolves when the node loses its last link, or has its first.
async fn turned(up: &mut watch::Receiver<LinksUp>) {
    let had_none = up.borrow_and_update().is_empty();
    let turned = up.wait_for(|links| links.is_empty() != had_none);
    let ends = turned.await.is_err();
    if ends {
        // The node ends, and this task with it.
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Whether it turned by then: polled once after each change.
    fn turns(links_at_first: usize, changes: &[usize]) -> Vec<bool> {
        let links = |count: usize| {
            let link = |it: usize| (LinkId(it as u64), Did([7; 20]));
            (0..count).map(link).collect::<LinksUp>()
        };
        let (tell, mut up) = watch::channel(links(links_at_first));
        let mut turned = pin!(turned(&mut up));
        let mut context = Context::from_waker(Waker::noop());
        let mut poll = || turned.as_mut().poll(&mut context) == Poll::Ready(());
        let mut seen = vec![poll()];
        for &count in changes {
            tell.send_replace(links(count));
            seen.push(poll());
            if seen.last() == Some(&true) {
                break;
            }
        }
        seen
    }

    #[test]
    fn who_loses_its_last_link_or_has_its_first_again_dials_at_once_and_nobody_else() {
        assert_eq!(turns(2, &[1, 3, 1, 0]), [false, false, false, false, true]);
        assert_eq!(turns(0, &[0, 1]), [false, false, true]);
        assert_eq!(turns(1, &[2, 1]), [false, false, false]);
    }

    #[tokio::test]
    async fn who_was_dialled_by_the_peer_it_waits_for_sees_that_at_once() {
        let (tell, mut up) = watch::channel(LinksUp::new());
        let peer = Did([7; 20]);
        let pause = Duration::from_secs(300);
        let later = tokio::spawn(async move { waited(pause, &mut up, Some(peer)).await });
        tokio::task::yield_now().await;
        tell.send_modify(|links| {
            links.insert(LinkId(1), Did([8; 20]));
        });
        tokio::task::yield_now().await;
        assert!(!later.is_finished(), "that was another one");
        tell.send_modify(|links| {
            links.insert(LinkId(2), peer);
        });
        assert_eq!(later.await.unwrap(), Woken::Linked);
        let mut up = tell.subscribe();
        assert_eq!(waited(Duration::ZERO, &mut up, None).await, Woken::Time);
        // One that lost its last link has not dialled just now for nothing.
        let mut later = pin!(waited(pause, &mut up, None));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(later.as_mut().poll(&mut context), Poll::Pending);
        tell.send_replace(LinksUp::new());
        let dialled_just_now = later.as_mut().poll(&mut context);
        assert_eq!(dialled_just_now, Poll::Pending);
    }
}
