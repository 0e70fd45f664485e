//! Link-local windows: streams whose replay their namespace guards itself.
//!
//! A transaction is link-local when all three hold: it is application traffic, it arrived on the
//! authenticated connection of its own origin, and its namespace was registered in advance as
//! delegating its replay. Such a transaction is judged by a window that is never written and that
//! ends with the connection. Only the origin can present it again, to a namespace that acts on
//! each of its payloads at most once by its own durable key. Source: seed 1, "Persistence and
//! bounds".

use std::collections::{BTreeMap, BTreeSet};

use super::slots::Slot;
use super::window::Window;
use crate::ids::StreamKey;

/// Link-local streams of one connection.
pub const VOLATILE_STREAMS: usize = 64;

/// Namespaces that may be registered.
pub const DELEGATING_NAMESPACES: usize = 64;

/// The windows of every connection, and the namespaces that may use them.
#[derive(Debug, Clone, Default)]
pub(super) struct Volatile {
    namespaces: BTreeSet<String>,
    windows: BTreeMap<Slot, BTreeMap<StreamKey, Window>>,
    fullest_ever: usize,
}

impl Volatile {
    /// Registers a namespace; `false` where as many as allowed are.
    pub(super) fn register(&mut self, namespace: &str) -> bool {
        let room = self.namespaces.len() < DELEGATING_NAMESPACES;
        if room {
            self.namespaces.insert(namespace.to_owned());
        }
        room || self.namespaces.contains(namespace)
    }

    pub(super) fn delegates(&self, namespace: Option<&str>) -> bool {
        namespace.is_some_and(|namespace| self.namespaces.contains(namespace))
    }

    pub(super) fn window(&self, slot: Slot, stream: &StreamKey) -> Option<&Window> {
        self.windows.get(&slot)?.get(stream)
    }

    /// How many link-local streams the connection in this slot has.
    pub(super) fn streams(&self, slot: Slot) -> usize {
        self.windows.get(&slot).map_or(0, BTreeMap::len)
    }

    /// The most link-local streams any connection has.
    pub(super) fn fullest(&self) -> usize {
        self.windows.values().map(BTreeMap::len).max().unwrap_or(0)
    }

    /// The most link-local streams any connection has had.
    pub(super) const fn fullest_ever(&self) -> usize {
        self.fullest_ever
    }

    /// How many namespaces are registered.
    pub(super) fn namespaces(&self) -> usize {
        self.namespaces.len()
    }

    /// Sets or forgets one window.
    pub(super) fn put(&mut self, slot: Slot, stream: StreamKey, window: Option<Window>) {
        let windows = self.windows.entry(slot).or_default();
        match window {
            Some(window) => windows.insert(stream, window),
            None => windows.remove(&stream),
        };
        self.fullest_ever = self.fullest_ever.max(windows.len());
        if windows.is_empty() {
            self.windows.remove(&slot);
        }
    }

    /// Forgets every window of the connection that leaves this slot.
    pub(super) fn end(&mut self, slot: Slot) {
        self.windows.remove(&slot);
    }
}
