//! What of the platform has no binding of its own, or one that hides what has to be asserted.

use js_sys::{Function, Object, Promise};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::{IdbFactory, IdbTransaction};

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_name = indexedDB, thread_local_v2)]
    static INDEXED_DB: Option<IdbFactory>;

    #[wasm_bindgen(js_namespace = navigator, js_name = locks, thread_local_v2)]
    static LOCKS: Option<LockManager>;

    /// Web Locks of this origin.
    #[derive(Clone)]
    pub(crate) type LockManager;

    #[wasm_bindgen(method, catch)]
    pub(crate) fn request(
        this: &LockManager,
        name: &str,
        options: &Object,
        granted: &Function,
    ) -> Result<Promise, JsValue>;

    /// A database whose transactions can be asked to be strict.
    #[wasm_bindgen(extends = web_sys::IdbDatabase)]
    #[derive(Debug)]
    pub(crate) type Database;

    #[wasm_bindgen(method, catch, js_name = transaction)]
    pub(crate) fn transaction_with(
        this: &Database,
        store: &str,
        mode: &str,
        options: &Object,
    ) -> Result<IdbTransaction, JsValue>;

    /// A transaction that says how durable it is; nothing where the browser knows no such thing.
    #[wasm_bindgen(extends = IdbTransaction)]
    pub(crate) type Transaction;

    #[wasm_bindgen(method, getter)]
    pub(crate) fn durability(this: &Transaction) -> Option<String>;

    #[wasm_bindgen(method, catch)]
    pub(crate) fn commit(this: &Transaction) -> Result<(), JsValue>;

    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(after: &Function, ms: u32) -> JsValue;

    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    pub(crate) fn steady_ms() -> f64;

    type AbortSignal;

    #[wasm_bindgen(static_method_of = AbortSignal)]
    fn timeout(ms: u32) -> JsValue;
}

/// The page's databases, if it has any.
pub(crate) fn indexed_db() -> Option<IdbFactory> {
    INDEXED_DB.with(Clone::clone)
}

/// The origin's locks, if the page may have any.
pub(crate) fn locks() -> Option<LockManager> {
    LOCKS.with(Clone::clone)
}

/// A signal that fires after a while.
pub(crate) fn signal_after(ms: u32) -> JsValue {
    AbortSignal::timeout(ms)
}

/// Ends after a while.
pub(crate) async fn pause(ms: u32) {
    let promise = Promise::new(&mut |resolve, _| {
        set_timeout(&resolve, ms);
    });
    // A timer's promise is never rejected.
    let _ = JsFuture::from(promise).await;
}

/// An object with these fields.
pub(crate) fn object(fields: &[(&str, JsValue)]) -> Object {
    let object = Object::new();
    for (field, value) in fields {
        // Setting a field of a plain object does not fail.
        let _ = js_sys::Reflect::set(&object, &JsValue::from_str(field), value);
    }
    object
}
