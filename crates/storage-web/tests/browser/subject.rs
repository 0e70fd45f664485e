//! The store on IndexedDB as the shared suite sees it.

use js_sys::{Array, Uint8Array};
use overlane_core::store::testkit::{Budget, OpenStore, Subject, splice};
use overlane_core::store::{Change, RecordName, Scan, StoreError};
use overlane_storage_web::rows::frame::locate;
use overlane_storage_web::{WebConfig, WebStore};
use wasm_bindgen::{JsCast, JsValue};

use crate::harm;

/// One database of its own.
pub(crate) struct InBrowser {
    node: String,
    config: WebConfig,
}

/// Records in frames, as far as the bounds let them.
pub(crate) fn in_frames() -> InBrowser {
    InBrowser::of(WebConfig::default())
}

/// Records in rows: every batch is folded at once.
pub(crate) fn in_rows() -> InBrowser {
    InBrowser::of(WebConfig {
        frames_max: 0,
        ..WebConfig::default()
    })
}

/// Records here and there.
pub(crate) fn in_both() -> InBrowser {
    InBrowser::of(WebConfig {
        frames_max: 2,
        ..WebConfig::default()
    })
}

impl InBrowser {
    fn of(config: WebConfig) -> Self {
        let config = WebConfig {
            lock_wait_ms: 500,
            apply: splice::apply,
            ..config
        };
        let node = format!("test-{}", (js_sys::Math::random() * 1e15).floor());
        Self { node, config }
    }

    pub(crate) fn config(&self) -> WebConfig {
        self.config
    }

    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    pub(crate) fn database(&self) -> String {
        format!("overlane-replay/{}", self.node)
    }

    pub(crate) async fn open_with(&self, config: WebConfig) -> Result<WebStore, StoreError> {
        WebStore::open(&self.node, config).await
    }

    pub(crate) async fn rows(&self) -> Vec<(JsValue, JsValue)> {
        let rows: Array = harm::rows(&self.database()).await.unwrap().unchecked_into();
        let pair = |row: JsValue| {
            let row: Array = row.unchecked_into();
            (row.get(0), row.get(1))
        };
        rows.iter().map(pair).collect()
    }

    /// Lets `harm` at the bytes of every row that holds this record, and at where they are.
    async fn harm(&self, name: RecordName, harm: impl Fn(&mut Vec<u8>, Place)) {
        for (key, value) in self.rows().await {
            let Some(value) = value.dyn_ref::<Uint8Array>() else {
                continue;
            };
            let mut bytes = value.to_vec();
            if is_row_of(&key, name) {
                harm(&mut bytes, Place::Row);
            } else if key.as_f64().is_some() {
                let Some((payload, check)) = locate(&bytes, name) else {
                    continue;
                };
                harm(&mut bytes, Place::Frame { payload, check });
            } else {
                continue;
            }
            let value = match bytes.is_empty() {
                true => None,
                false => Some(Uint8Array::from(bytes.as_slice())),
            };
            match value {
                Some(value) => harm::put(&self.database(), &key, &value).await.unwrap(),
                None => harm::take(&self.database(), &key).await.unwrap(),
            };
        }
    }
}

enum Place {
    Row,
    Frame {
        payload: std::ops::Range<usize>,
        check: std::ops::Range<usize>,
    },
}

pub(crate) fn is_row_of(key: &JsValue, name: RecordName) -> bool {
    let key = key.dyn_ref::<Uint8Array>();
    key.is_some_and(|key| key.to_vec() == name.0)
}

impl Subject for InBrowser {
    type Store = Opened;

    fn fresh(&self) -> Self {
        Self::of(self.config)
    }

    async fn open(&self, budget: Budget) -> Result<Opened, StoreError> {
        let records_max = match budget {
            Budget::Ample => self.config.records_max,
            Budget::Of { records, .. } => records,
        };
        let config = WebConfig {
            records_max,
            ..self.config
        };
        self.open_with(config).await.map(Opened)
    }

    async fn close(&self, store: Opened) {
        // A poisoned store says so once more.
        drop(store.0.close().await);
    }

    /// As near as a page comes to it; `web/drive.mjs` kills tabs.
    async fn crash(&self, store: Opened) {
        drop(store);
    }

    async fn damage(&self, name: RecordName) {
        self.harm(name, |bytes, place| {
            let at = match place {
                Place::Row => bytes.len() / 2,
                Place::Frame { payload, check } if payload.is_empty() => check.start,
                Place::Frame { payload, .. } => payload.start + payload.len() / 2,
            };
            bytes[at] ^= 1;
        })
        .await;
    }

    async fn take_away(&self, name: RecordName) {
        self.harm(name, |bytes, place| match place {
            Place::Row => bytes.clear(),
            Place::Frame { payload, check } => {
                bytes[payload].fill(0);
                bytes[check].fill(0);
            }
        })
        .await;
    }

    async fn misplace(&self, of: RecordName, under: RecordName) {
        let rows = self.rows().await;
        let row = rows.iter().find(|(key, _)| is_row_of(key, of));
        let row: Option<Uint8Array> = row.map(|(_, value)| value.clone().unchecked_into());
        self.harm(under, |bytes, place| match place {
            Place::Row => *bytes = row.as_ref().unwrap().to_vec(),
            Place::Frame { payload, check } => {
                let (from, from_check) = locate(bytes, of).unwrap();
                bytes.copy_within(from, payload.start);
                bytes.copy_within(from_check, check.start);
            }
        })
        .await;
    }

    fn reads(&self) -> u64 {
        u64::from(harm::reads())
    }

    fn fail_next_commit(&self) {
        harm::abort_after(0);
    }

    fn heal(&self) -> bool {
        harm::healed()
    }

    async fn keeps(&self, kept: &str) -> bool {
        let rows = self.rows().await;
        rows.iter()
            .any(|(key, _)| key.as_string().as_deref() == Some(kept))
    }

    fn owner(&self) -> Option<u32> {
        None
    }
}

impl OpenStore for Opened {
    async fn scan(&mut self) -> Result<Scan, StoreError> {
        self.0.scan().await
    }
    async fn write(&mut self, batch: &[Change]) -> Result<(), StoreError> {
        self.0.write(batch).await
    }
    async fn seal(&mut self) -> Result<(), StoreError> {
        self.0.seal().await
    }
    async fn clear(&mut self, name: RecordName) -> Result<String, StoreError> {
        self.0.clear(name).await.map(|cleared| cleared.kept)
    }
}

/// The store, as the suite opens it.
pub(crate) struct Opened(pub(crate) WebStore);
