//! One task for each connection: the driver of the library beneath, and what works for the connection beside it.
//!
//! A message goes from the library's driver to its channel's drain, from there to the link's driver, and its grant goes
//! back. Were each of them a task of its own, a busy link's would be taken over by one idle worker and then by another,
//! message by message: two sides in one process get half of two cores, and most of that goes into handing over. In
//! one task they wake each other and nobody else (`docs/measuring.md`, lanes).
//!
//! Law (apart): what ends, by itself, told to, or in a panic, ends alone.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use overlane_core::lane::bounds::LANES;
use tokio::sync::mpsc;
use webrtc::runtime::JoinHandle;

use super::driver::lock;

/// Something to be done beside the others.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Works that may wait to be taken up: a drain for each channel, and the link's driver. What finds no place gets a task of
/// its own.
const WORKS_WAITING_MAX: usize = LANES + 1;

/// Where a connection's task takes up work.
#[derive(Debug)]
pub(super) struct Beside {
    works: mpsc::Sender<Work>,
    /// Until the task is there.
    taken_up: Mutex<Option<mpsc::Receiver<Work>>>,
}

impl Beside {
    pub(super) fn new() -> Self {
        let (works, taken_up) = mpsc::channel(WORKS_WAITING_MAX);
        Self {
            works,
            taken_up: Mutex::new(Some(taken_up)),
        }
    }

    /// Makes a task of a connection's driver, beside which work is taken up; of any other a plain one.
    pub(super) fn spawn(&self, driver: Work) -> Box<dyn JoinHandle> {
        let ended = Arc::new(AtomicBool::new(false));
        let (abort, registration) = AbortHandle::new_pair();
        let ends = Ends(Arc::clone(&ended));
        let driver: Work = Box::pin(async move {
            let _ends = ends;
            let _ = Abortable::new(driver, registration).await;
        });
        match lock(&self.taken_up).take() {
            Some(taken_up) => drop(tokio::spawn(together(driver, taken_up))),
            None => drop(tokio::spawn(driver)),
        }
        Box::new(DriverHandle { abort, ended })
    }

    /// Does this in the connection's task, or in one of its own where that has ended.
    pub(super) fn add(&self, work: Work) {
        if let Err(back) = self.works.try_send(work) {
            tokio::spawn(back.into_inner());
        }
    }

    /// The same, until what is given back is dropped.
    pub(super) fn add_until(&self, work: Work) -> Until {
        let (abort, registration) = AbortHandle::new_pair();
        let work = Abortable::new(work, registration);
        self.add(Box::pin(work.map(drop)));
        Until(abort)
    }
}

/// Ends a work when it is dropped.
#[derive(Debug)]
pub(super) struct Until(AbortHandle);

impl Drop for Until {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs until all of it ended.
async fn together(first: Work, mut come: mpsc::Receiver<Work>) {
    let mut works = FuturesUnordered::new();
    let apart = |work: Work| AssertUnwindSafe(work).catch_unwind();
    works.push(apart(first));
    let mut more = true;
    loop {
        tokio::select! {
            biased;
            work = come.recv(), if more => match work {
                Some(work) => works.push(apart(work)),
                None => more = false,
            },
            ended = works.next() => match ended {
                Some(_) => {}
                // What came meanwhile is still taken up.
                None if more => come.close(),
                None => return,
            },
        }
    }
}

/// Tells that a driver ended, however it did.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The library's handle to its driver.
#[derive(Debug)]
struct DriverHandle {
    abort: AbortHandle,
    ended: Arc<AtomicBool>,
}

impl JoinHandle for DriverHandle {
    /// Dropping it leaves the driver alone, so there is nothing to do.
    fn detach(&self) {}

    fn abort(&self) {
        self.abort.abort();
    }

    fn is_finished(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::task::{Id, id};

    use super::*;

    /// A work that tells the task it is done in and then waits to be let go.
    fn telling() -> (Work, oneshot::Receiver<Id>, oneshot::Sender<()>) {
        let (tell, told) = oneshot::channel();
        let (let_go, waits) = oneshot::channel::<()>();
        let work = async move {
            tell.send(id()).unwrap();
            let _ = waits.await;
        };
        (Box::pin(work), told, let_go)
    }

    #[tokio::test]
    async fn a_connection_has_one_task_for_its_driver_and_what_works_beside_it() {
        let beside = Beside::new();
        let (early, in_early, _early) = telling();
        beside.add(early);
        let (driver, in_driver, _driver) = telling();
        let handle = beside.spawn(driver);
        let (late, in_late, _late) = telling();
        beside.add(late);
        let task = in_driver.await.unwrap();
        assert_eq!(in_early.await, Ok(task));
        assert_eq!(in_late.await, Ok(task));
        assert!(!handle.is_finished());
        // Another driver is none of this connection's.
        let (other, in_other, _other) = telling();
        beside.spawn(other);
        assert_ne!(in_other.await, Ok(task));
    }

    #[tokio::test]
    async fn law_what_ends_ends_alone_and_what_comes_after_all_of_it_has_a_task_of_its_own() {
        let beside = Beside::new();
        let (driver, in_driver, mut driver_waits) = telling();
        let handle = beside.spawn(driver);
        let task = in_driver.await.unwrap();
        beside.add(Box::pin(async { panic!("of a test") }));
        let (until, in_until, mut until_waits) = telling();
        let until = beside.add_until(until);
        assert_eq!(in_until.await, Ok(task));
        drop(until);
        until_waits.closed().await;
        let (stays, in_stays, stays_waits) = telling();
        beside.add(stays);
        assert_eq!(in_stays.await, Ok(task));
        assert!(!handle.is_finished());
        handle.abort();
        driver_waits.closed().await;
        let (last, in_last, last_waits) = telling();
        beside.add(last);
        assert_eq!(in_last.await, Ok(task));
        assert!(handle.is_finished());
        drop((stays_waits, last_waits));
        beside.works.closed().await;
        let (after, in_after, _after) = telling();
        beside.add(after);
        assert_ne!(in_after.await.unwrap(), task);
    }
}
