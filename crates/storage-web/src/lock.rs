//! Law (one owner): two pages that reserve sequences from one store would fork, so whoever opens it
//! holds a Web Lock of its name until it closes it, or its page is gone.

use std::cell::RefCell;
use std::rc::Rc;

use futures_channel::oneshot;
use js_sys::{Function, Promise};
use overlane_core::store::StoreError;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::DomException;

use crate::idb::{Health, words};
use crate::platform::{locks, object, signal_after};

/// The lock, held. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Held {
    release: Function,
}

impl Held {
    /// Takes the lock of this name, waiting so long for another page to give it back. A lock that is
    /// taken away later closes the store.
    pub(crate) async fn take(
        path: &str,
        wait_ms: u32,
        health: &Health,
    ) -> Result<Self, StoreError> {
        let no_storage = |cause: String| StoreError::NoStorage {
            path: path.to_owned(),
            cause,
        };
        let locks = locks().ok_or_else(|| {
            no_storage("the page has no Web Locks, so it cannot be its store's one owner".into())
        })?;
        let (told, granted) = oneshot::channel();
        let told = Rc::new(RefCell::new(Some(told)));
        let mut release = None;
        let held = Promise::new(&mut |resolve, _| release = Some(resolve));
        let grant = {
            let told = Rc::clone(&told);
            Closure::once_into_js(move |lock: JsValue| -> Promise {
                tell(&told, if lock.is_null() { Err(None) } else { Ok(()) });
                if lock.is_null() {
                    Promise::resolve(&lock)
                } else {
                    held
                }
            })
        };
        let mut options = vec![("mode", JsValue::from_str("exclusive"))];
        match wait_ms {
            0 => options.push(("ifAvailable", JsValue::TRUE)),
            wait_ms => options.push(("signal", signal_after(wait_ms))),
        }
        let ended = locks
            .request(path, &object(&options), grant.unchecked_ref())
            .map_err(|error| no_storage(words(&error)))?;
        let health = health.clone();
        spawn_local(async move {
            // It ends when it is given back, or was not granted in time, or was taken away.
            if let Err(error) = JsFuture::from(ended).await {
                let name = error.dyn_ref().map(DomException::name).unwrap_or_default();
                let too_late = ["AbortError", "TimeoutError"].contains(&name.as_str());
                tell(&told, Err((!too_late).then(|| words(&error))));
                health.fail(format!("its lock was taken away: {}", words(&error)));
            }
        });
        match (granted.await, release) {
            (Ok(Ok(())), Some(release)) => Ok(Self { release }),
            (Ok(Err(Some(cause))), _) => Err(no_storage(cause)),
            _ => Err(StoreError::Locked {
                path: path.to_owned(),
                pid: None,
            }),
        }
    }
}

/// Whether the lock was granted; why not, unless it is another's.
type Granted = Result<(), Option<String>>;

/// The first word counts.
fn tell(told: &RefCell<Option<oneshot::Sender<Granted>>>, granted: Granted) {
    if let Some(told) = told.borrow_mut().take() {
        // Nobody waits any more: then nobody holds it either, once this is dropped.
        let _ = told.send(granted);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Resolving a promise does not fail.
        let _ = self.release.call0(&JsValue::UNDEFINED);
    }
}
