//! The store as a person looks into it.

use overlane_core::store::RecordName;
use overlane_storage_web::{WebConfig, WebStore, inspect};
use wasm_bindgen::prelude::*;

use crate::said;

#[wasm_bindgen]
pub struct Inspector(WebStore);

#[wasm_bindgen]
impl Inspector {
    pub async fn open(node: String) -> Result<Self, JsValue> {
        let store = WebStore::open(&node, WebConfig::default()).await;
        store.map(Self).map_err(|error| said(&error))
    }

    /// `[name, words, whether it restores]` of each record.
    pub async fn list(&mut self) -> Result<js_sys::Array, JsValue> {
        let lines = inspect::list(&mut self.0)
            .await
            .map_err(|error| said(&error))?;
        let lines = lines.into_iter().map(|line| {
            let (words, whole) = (line.in_words(), line.cause.is_none());
            js_sys::Array::of3(&line.record.into(), &words.into(), &whole.into())
        });
        Ok(lines.collect())
    }

    pub async fn show(&mut self, name: String) -> Result<String, JsValue> {
        let shown = inspect::show(&mut self.0, parse(&name)?).await;
        shown.map_err(|error| said(&error))
    }

    pub async fn verify(&mut self) -> Result<String, JsValue> {
        let verified = inspect::verify(&mut self.0)
            .await
            .map_err(|error| said(&error))?;
        Ok(verified.in_words("“Clear” beside it"))
    }

    /// What clearing costs, or what it did.
    pub async fn clear(&mut self, name: String, yes: bool) -> Result<String, JsValue> {
        let cleared = inspect::clear(&mut self.0, parse(&name)?, yes).await;
        let cleared = cleared.map_err(|error| said(&error))?;
        let done = match cleared.kept {
            Some(kept) => format!("cleared; what was there is kept in {kept}"),
            None => "nothing was changed yet".into(),
        };
        Ok(format!("{}\n{done}", cleared.cost))
    }

    pub async fn close(self) -> Result<(), JsValue> {
        self.0.close().await.map_err(|error| said(&error))
    }
}

fn parse(name: &str) -> Result<RecordName, JsValue> {
    let parsed = name.parse::<RecordName>();
    parsed.map_err(|error| js_sys::Error::new(&error.to_string()).into())
}
