//! IndexedDB as futures.
//!
//! Law (release): a change is reported only on its transaction's `complete`, and only of a transaction
//! whose own `durability` reads `strict`: an engine that does not know the option ignores it in silence.

use std::cell::RefCell;
use std::rc::Rc;

use js_sys::{Array, ArrayBuffer, Promise, Uint8Array};
use overlane_core::store::{RecordName, StoreError};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::{
    DomException, Event, IdbKeyRange, IdbObjectStore, IdbOpenDbRequest, IdbRequest,
    IdbVersionChangeEvent,
};

use crate::platform::{Database, Transaction, indexed_db, object};
use crate::rows::{Key, Row};

/// The one object store of a database.
const OBJECT_STORE: &str = "records";

/// The largest number that a key holds exactly.
const NUMBER_MAX: f64 = 9_007_199_254_740_991.0;

/// Why nothing of an open store may be believed any more, once there is a reason.
#[derive(Debug, Clone, Default)]
pub(crate) struct Health(Rc<RefCell<Option<String>>>);

impl Health {
    /// The first reason stays.
    pub(crate) fn fail(&self, cause: String) {
        self.0.borrow_mut().get_or_insert(cause);
    }

    /// # Errors
    /// [`StoreError::Poisoned`] once it failed.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match &*self.0.borrow() {
            Some(cause) => Err(StoreError::Poisoned {
                cause: cause.clone(),
            }),
            None => Ok(()),
        }
    }
}

/// An open database. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Idb {
    path: String,
    database: Database,
    // Called by the database, while it is open.
    _on_close: Closure<dyn FnMut(Event)>,
}

impl Idb {
    /// Opens the database of this name at this version, and fills a new one's object store with
    /// `rows`.
    pub(crate) async fn open(
        path: &str,
        version: u32,
        rows: &[(JsValue, JsValue)],
        health: &Health,
    ) -> Result<Self, StoreError> {
        let no_storage = |error: &JsValue| StoreError::NoStorage {
            path: path.to_owned(),
            cause: words(error),
        };
        let factory = indexed_db()
            .ok_or_else(|| no_storage(&JsValue::from_str("the page has no IndexedDB")))?;
        let request = factory.open_with_u32(path, version);
        let request = request.map_err(|error| no_storage(&error))?;
        let rows = rows.to_vec();
        let upgrade = Closure::once(move |event: IdbVersionChangeEvent| fill(&event, &rows));
        request.set_onupgradeneeded(Some(upgrade.as_ref().unchecked_ref()));
        let opened = Promise::new(&mut |resolve, reject| {
            request.set_onsuccess(Some(&resolve));
            request.set_onerror(Some(&reject));
            request.set_onblocked(Some(&reject));
        });
        if let Err(event) = JsFuture::from(opened).await {
            return Err(not_opened(path, &request, &event));
        }
        let database: Database = request.result().unwrap_or_default().unchecked_into();
        let on_close = {
            let health = health.clone();
            let cause = "the browser closed the database: its data was cleared, or its disk failed";
            Closure::new(move |_: Event| health.fail(cause.into()))
        };
        database.set_onclose(Some(on_close.as_ref().unchecked_ref()));
        let idb = Self {
            path: path.to_owned(),
            database,
            _on_close: on_close,
        };
        idb.check_kind()?;
        Ok(idb)
    }

    fn check_kind(&self) -> Result<(), StoreError> {
        let names = self.database.object_store_names();
        let only = (names.length() == 1).then(|| names.get(0)).flatten();
        if only.as_deref() == Some(OBJECT_STORE) {
            return Ok(());
        }
        Err(StoreError::WrongKind {
            path: self.path.clone(),
            cause: "its object stores are not those of a replay store".into(),
        })
    }

    /// Every row, read in one transaction.
    pub(crate) async fn rows(&self) -> Result<Vec<Row>, StoreError> {
        let failed = |error: &JsValue| self.failed("read", error);
        let read = || -> Result<_, JsValue> {
            let transaction =
                self.database
                    .transaction_with(OBJECT_STORE, "readonly", &object(&[]))?;
            let store = transaction.object_store(OBJECT_STORE)?;
            Ok((store.get_all_keys()?, store.get_all()?))
        };
        let (keys, values) = read().map_err(|error| failed(&error))?;
        let keys: Array = answer(&keys).await.map_err(|error| failed(&error))?.into();
        let values: Array = answer(&values)
            .await
            .map_err(|error| failed(&error))?
            .into();
        let rows = keys.iter().zip(values.iter()).map(|(key, value)| Row {
            key: key_of(&key),
            bytes: bytes_of(&value),
        });
        Ok(rows.collect())
    }

    /// Lets `change` put and delete in one strict transaction, and ends when that is complete.
    pub(crate) async fn change<T>(
        &self,
        change: impl AsyncFnOnce(&IdbObjectStore) -> Result<T, JsValue>,
    ) -> Result<T, StoreError> {
        let failed = |error: &JsValue| self.failed("write", error);
        let (transaction, store) = self.strict()?;
        let done = Promise::new(&mut |resolve, reject| {
            transaction.set_oncomplete(Some(&resolve));
            transaction.set_onabort(Some(&reject));
        });
        let changed = change(&store).await;
        let ended = match &changed {
            Ok(_) => Transaction::commit(&transaction),
            Err(_) => transaction.abort(),
        };
        // A transaction that is over already says why in its event.
        drop(ended);
        match (JsFuture::from(done).await, changed) {
            (Ok(_), Ok(changed)) => Ok(changed),
            (_, Err(error)) => Err(failed(&error)),
            (Err(event), Ok(_)) => Err(match transaction.error() {
                Some(error) => failed(&error),
                None => failed(&event),
            }),
        }
    }

    /// Whether the engine takes a strict transaction for what it is.
    pub(crate) async fn check_strict(&self) -> Result<(), StoreError> {
        self.change(async |_| Ok(())).await
    }

    fn strict(&self) -> Result<(Transaction, IdbObjectStore), StoreError> {
        let failed = |error: JsValue| self.failed("write", &error);
        let options = object(&[("durability", JsValue::from_str("strict"))]);
        let transaction = self
            .database
            .transaction_with(OBJECT_STORE, "readwrite", &options)
            .map_err(failed)?;
        let transaction: Transaction = transaction.unchecked_into();
        if transaction.durability().as_deref() != Some("strict") {
            // Nothing was put into it.
            drop(transaction.abort());
            return Err(StoreError::NotStrict {
                path: self.path.clone(),
            });
        }
        let store = transaction.object_store(OBJECT_STORE).map_err(failed)?;
        Ok((transaction, store))
    }

    fn failed(&self, action: &'static str, error: &JsValue) -> StoreError {
        let name = error.dyn_ref().map(DomException::name).unwrap_or_default();
        if name == "QuotaExceededError" {
            return StoreError::Full {
                path: self.path.clone(),
            };
        }
        StoreError::Io {
            action,
            path: self.path.clone(),
            cause: words(error),
        }
    }
}

impl Drop for Idb {
    fn drop(&mut self) {
        self.database.set_onclose(None);
        // What is under way is completed first.
        self.database.close();
    }
}

/// A new database gets its object store and its first rows. A throw in here aborts the upgrade, and
/// opening fails with it.
fn fill(event: &IdbVersionChangeEvent, rows: &[(JsValue, JsValue)]) -> Result<(), JsValue> {
    let request = event.target().ok_or("an event of no request")?;
    let request: IdbOpenDbRequest = request.unchecked_into();
    let database: Database = request.result()?.unchecked_into();
    if event.old_version() == 0.0 {
        let store = database.create_object_store(OBJECT_STORE)?;
        for (key, value) in rows {
            store.put_with_key(value, key)?;
        }
    }
    Ok(())
}

/// Why a database did not open.
fn not_opened(path: &str, request: &IdbOpenDbRequest, event: &JsValue) -> StoreError {
    let path = path.to_owned();
    let kind = event.dyn_ref().map(Event::type_).unwrap_or_default();
    if kind == "blocked" {
        give_up(request);
        return StoreError::Blocked { path };
    }
    let error = request.error().ok().flatten();
    let name = error.as_ref().map(DomException::name).unwrap_or_default();
    let cause = error.map_or_else(|| words(event), |error| words(&error));
    match name.as_str() {
        "QuotaExceededError" => StoreError::Full { path },
        "VersionError" => StoreError::WrongKind {
            path,
            cause: "a newer version made it".into(),
        },
        "InvalidStateError" | "SecurityError" | "NotAllowedError" => {
            StoreError::NoStorage { path, cause }
        }
        _ => StoreError::Io {
            action: "open",
            path,
            cause,
        },
    }
}

/// Once it is no longer blocked, the request would open the database for nobody.
fn give_up(request: &IdbOpenDbRequest) {
    let close = Closure::once_into_js(|event: Event| {
        if let Some(request) = event.target() {
            let request: IdbOpenDbRequest = request.unchecked_into();
            if let Ok(database) = request.result() {
                database.unchecked_into::<Database>().close();
            }
        }
    });
    request.set_onsuccess(Some(close.unchecked_ref()));
    request.set_onupgradeneeded(None);
}

/// What a request came to.
pub(crate) async fn answer(request: &IdbRequest) -> Result<JsValue, JsValue> {
    let answered = Promise::new(&mut |resolve, reject| {
        request.set_onsuccess(Some(&resolve));
        request.set_onerror(Some(&reject));
    });
    match JsFuture::from(answered).await {
        Ok(_) => request.result(),
        Err(event) => Err(request.error()?.map_or(event, JsValue::from)),
    }
}

/// The key of a record's row.
pub(crate) fn record_key(name: RecordName) -> JsValue {
    Uint8Array::from(name.0.as_slice()).into()
}

/// The key of a frame.
#[expect(clippy::cast_precision_loss, reason = "a frame's number is below 2^53")]
pub(crate) fn frame_key(number: u64) -> JsValue {
    JsValue::from_f64(number as f64)
}

/// The keys of these frames.
pub(crate) fn frame_keys(frames: &std::ops::Range<u64>) -> Result<IdbKeyRange, JsValue> {
    let (from, to) = (frame_key(frames.start), frame_key(frames.end));
    IdbKeyRange::bound_with_lower_open_and_upper_open(&from, &to, false, true)
}

/// These bytes as a value.
pub(crate) fn value(bytes: &[u8]) -> JsValue {
    Uint8Array::from(bytes).into()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a whole number between 1 and 2^53"
)]
fn key_of(key: &JsValue) -> Key {
    if let Some(text) = key.as_string() {
        return Key::Text(text);
    }
    if let Some(number) = key.as_f64() {
        let is_number = number >= 1.0 && number < NUMBER_MAX && number.fract() == 0.0;
        return if is_number {
            Key::Frame(number as u64)
        } else {
            Key::Other
        };
    }
    let bytes = key
        .dyn_ref()
        .map(|bytes: &ArrayBuffer| Uint8Array::new(bytes).to_vec());
    let name = bytes.and_then(|bytes| <[u8; 20]>::try_from(bytes).ok());
    name.map_or(Key::Other, |name| Key::Record(RecordName(name)))
}

fn bytes_of(value: &JsValue) -> Option<Vec<u8>> {
    value.dyn_ref().map(Uint8Array::to_vec)
}

/// The platform's words for what went wrong.
pub(crate) fn words(error: &JsValue) -> String {
    match error.dyn_ref::<DomException>() {
        Some(error) => format!("{}: {}", error.name(), error.message()),
        None => match error.dyn_ref::<js_sys::Error>() {
            Some(error) => format!("{}: {}", error.name(), error.message()),
            None => error.as_string().unwrap_or_else(|| format!("{error:?}")),
        },
    }
}
