//! Calls of `harm.js`.

use js_sys::Array;
use wasm_bindgen::prelude::*;

#[wasm_bindgen(module = "/tests/browser/harm.js")]
extern "C" {
    #[wasm_bindgen(catch)]
    pub(crate) async fn rows(database: &str) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(catch)]
    pub(crate) async fn put(
        database: &str,
        key: &JsValue,
        value: &JsValue,
    ) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(catch)]
    pub(crate) async fn take(database: &str, key: &JsValue) -> Result<JsValue, JsValue>;
    pub(crate) fn reads() -> u32;
    pub(crate) fn changes() -> Array;
    pub(crate) fn complete() -> u32;
    #[wasm_bindgen(js_name = abortAfter)]
    pub(crate) fn abort_after(requests: u32);
    pub(crate) fn healed() -> bool;
    #[wasm_bindgen(js_name = ignoreDurability)]
    pub(crate) fn ignore_durability(on: bool);
    #[wasm_bindgen(catch)]
    pub(crate) async fn hold(
        database: &str,
        version: u32,
        store: Option<&str>,
    ) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(catch)]
    pub(crate) async fn steal(lock: &str) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(js_name = refuseToOpen)]
    pub(crate) fn refuse_to_open(name: Option<&str>);
}
