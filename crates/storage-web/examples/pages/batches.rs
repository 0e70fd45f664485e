//! A store that is written to without end, until its tab is killed in the middle of a batch; and what
//! another tab finds then.

use overlane_core::store::testkit::{batch, name, splice};
use overlane_core::store::{Found, RecordName};
use overlane_storage_web::{WebConfig, WebStore};
use wasm_bindgen::prelude::*;

use crate::said;

/// How many records a batch changes.
const RECORDS: u64 = 64;

#[wasm_bindgen]
pub struct Batches(WebStore);

#[wasm_bindgen]
impl Batches {
    /// With few frames, so that folds are under way as often as frames.
    pub async fn open(node: String) -> Result<Self, JsValue> {
        let config = WebConfig {
            frames_max: 3,
            apply: splice::apply,
            ..WebConfig::default()
        };
        let store = WebStore::open(&node, config).await;
        store.map(Self).map_err(|error| said(&error))
    }

    /// Gives every record its value number `version`.
    pub async fn write(&mut self, version: u32) -> Result<(), JsValue> {
        let changes = (0..RECORDS).map(|record| (name(record), Some(value(record, version))));
        let changes: Vec<(RecordName, Option<Vec<u8>>)> = changes.collect();
        let written = self.0.write(&batch(&changes)).await;
        written.map_err(|error| said(&error))
    }

    /// The one version that every record has; an error names the record that is not whole.
    pub async fn version(&mut self) -> Result<Option<u32>, JsValue> {
        let scan = self.0.scan().await.map_err(|error| said(&error))?;
        let mut versions = Vec::new();
        for record in 0..RECORDS {
            let found = scan.records.iter().find(|(of, _)| *of == name(record));
            versions.push(match found {
                None => None,
                Some((_, Found::Bytes(bytes))) => {
                    let version = version_of(bytes);
                    let whole = version.is_some_and(|it| *bytes == value(record, it));
                    if !whole {
                        return Err(format!("record {record} is at no value").into());
                    }
                    version
                }
                Some((_, bad)) => return Err(format!("record {record} is {bad:?}").into()),
            });
        }
        versions.dedup();
        match versions.as_slice() {
            [version] => Ok(*version),
            _ => Err(format!("records of one batch are at {versions:?}").into()),
        }
    }

    pub async fn close(self) -> Result<(), JsValue> {
        self.0.close().await.map_err(|error| said(&error))
    }
}

/// A long value that says which it is, and is like no other.
fn value(record: u64, version: u32) -> Vec<u8> {
    let mut bytes = version.to_be_bytes().to_vec();
    let words = (0..250_u64).flat_map(|it| {
        let mixed = (record << 40) ^ (u64::from(version) << 10) ^ it;
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
    });
    bytes.extend(words);
    bytes
}

fn version_of(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|it| u32::from_be_bytes(*it))
}
