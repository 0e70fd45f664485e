//! An application that opens its store and admits.

use overlane_core::Coded;
use overlane_core::replay::{EngineConfig, Introducer, Outcome, Refusal};
use overlane_storage_web::{Replay, WebConfig, WebStore};
use wasm_bindgen::prelude::*;

use crate::item::Item;
use crate::said;

#[wasm_bindgen]
pub struct Admissions(Replay<Item>);

#[wasm_bindgen]
impl Admissions {
    pub async fn open(node: String) -> Result<Self, JsValue> {
        let store = WebStore::open(&node, WebConfig::default()).await;
        let store = store.map_err(|error| said(&error))?;
        let replay = Replay::open(store, EngineConfig::default()).await;
        replay.map(Self).map_err(|error| said(&error))
    }

    /// The verdict's name, or the refusal's code and, of a store that failed, the store's.
    pub async fn admit(&self, origin: u32, sequence: u32, tag: u8) -> String {
        let item = Item::new(origin, u64::from(sequence), tag);
        match self.0.admit(item, Introducer::Own).await {
            Outcome::Admitted(admitted) => admitted.verdict().name().into(),
            Outcome::Refused {
                refusal: Refusal::StoreFailed { cause },
                ..
            } => format!("replay/store_failed ({})", cause.code()),
            Outcome::Refused { refusal, .. } => refusal.code().into(),
            _ => "another answer".into(),
        }
    }

    pub async fn close(self) -> Result<(), JsValue> {
        self.0.close().await.map_err(|error| said(&error))
    }
}
