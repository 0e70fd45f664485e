//! Admissions a second through the engine and its group commit.

use std::cell::Cell;
use std::rc::Rc;

use futures_channel::oneshot;
use overlane_core::replay::{EngineConfig, Introducer, Outcome, QuotaLimits};
use overlane_storage_web::{Replay, WebConfig, WebStore, now};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;

use crate::item::Item;
use crate::said;

/// How many streams the admissions go round.
const STREAMS: u32 = 1_024;

#[wasm_bindgen]
pub struct Bench {
    replay: Replay<Item>,
    /// How many were offered.
    offered: Rc<Cell<u32>>,
}

#[wasm_bindgen]
impl Bench {
    /// A store in which every stream has admitted once. The quota lets everything pass.
    pub async fn open(node: String) -> Result<Self, JsValue> {
        let store = WebStore::open(&node, WebConfig::default()).await;
        let store = store.map_err(|error| said(&error))?;
        let unbounded = QuotaLimits {
            messages_per_s: 1 << 30,
            burst_messages: 1 << 30,
            bytes_per_s: 1 << 40,
            burst_bytes: 1 << 40,
        };
        let config = EngineConfig {
            quota: unbounded,
            ..EngineConfig::default()
        };
        let replay = Replay::open(store, config)
            .await
            .map_err(|error| said(&error))?;
        let bench = Self {
            replay,
            offered: Rc::default(),
        };
        bench.admit_until(512, None).await;
        Ok(bench)
    }

    /// Admissions a second with so many in flight.
    pub async fn run(&self, in_flight: u32, ms: u32) -> f64 {
        let (from, before) = (now().steady_ms, self.offered.get());
        self.admit_until(in_flight, Some(from.saturating_add(u64::from(ms))))
            .await;
        let took_ms = now().steady_ms.saturating_sub(from).max(1);
        let admitted = self.offered.get().saturating_sub(before);
        f64::from(admitted) * 1_000.0 / f64::from(u32::try_from(took_ms).unwrap_or(u32::MAX))
    }
}

impl Bench {
    /// Until that instant, or once round all streams.
    async fn admit_until(&self, in_flight: u32, until_ms: Option<u64>) {
        let mut ended = Vec::new();
        for _ in 0..in_flight {
            let (end, ends) = oneshot::channel::<()>();
            ended.push(ends);
            let (replay, offered) = (self.replay.clone(), Rc::clone(&self.offered));
            spawn_local(async move {
                loop {
                    let number = offered.get();
                    let over = match until_ms {
                        Some(until_ms) => now().steady_ms >= until_ms,
                        None => number >= STREAMS,
                    };
                    if over {
                        break;
                    }
                    offered.set(number.saturating_add(1));
                    let (stream, round) = (number % STREAMS, number / STREAMS);
                    let item = Item::new(stream, u64::from(round).saturating_add(1), 1);
                    let outcome = replay.admit(item, Introducer::Own).await;
                    if !matches!(outcome, Outcome::Admitted(_)) {
                        wasm_bindgen::throw_str(&format!("not admitted: {outcome:?}"));
                    }
                }
                // Whoever measures waits for all of them.
                drop(end);
            });
        }
        for ends in ended {
            // It ends by being dropped.
            let _ = ends.await;
        }
    }
}
