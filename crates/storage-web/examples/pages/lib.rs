//! What the pages of `web/` call: a store to look into, an engine to admit with, a store to kill, and a
//! bench. `scripts/wasm build` compiles them.
#![cfg(target_family = "wasm")]

mod admissions;
mod batches;
mod bench;
mod inspector;
mod item;

use overlane_core::Coded;
use overlane_core::store::StoreError;
use wasm_bindgen::JsValue;

/// An error as a page shows it: its code, then its words.
fn said(error: &StoreError) -> JsValue {
    js_sys::Error::new(&format!("{}: {error}", error.code())).into()
}
