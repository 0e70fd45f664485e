//! The records of a store, from its snapshot and its journal.

use std::collections::BTreeMap;

use overlane_core::store::{Found, RecordName};

use super::ApplyDeltas;
use super::bad::Bad;
use super::cell::{Cell, CellKind};
use super::recover::Logged;
use super::snapshot::{Block, Listed};

/// Every record of a store being opened.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) records: BTreeMap<RecordName, Record>,
}

#[derive(Debug)]
pub(super) struct Record {
    pub(super) version: u64,
    pub(super) value: Value,
    /// The number of the frame that changed it last; nothing when the snapshot's value stands.
    pub(super) stamp: Option<u64>,
    /// Where the snapshot has it.
    pub(super) listed: Option<Listed>,
    deltas: Vec<Vec<u8>>,
    /// It became bad by what the journal says, and no cell says so yet.
    pub(super) newly_bad: bool,
}

#[derive(Debug)]
pub(super) enum Value {
    Whole(Vec<u8>),
    Bad(Bad),
}

impl Loaded {
    pub(super) fn new() -> Self {
        Self {
            records: BTreeMap::new(),
        }
    }

    pub(super) fn take_block(&mut self, listed: Listed, block: Block) {
        let value = match block {
            Block::Whole(bytes) => Value::Whole(bytes),
            Block::Bad(bad) => Value::Bad(bad),
        };
        let record = Record {
            version: listed.version,
            value,
            stamp: None,
            listed: Some(listed),
            deltas: Vec::new(),
            newly_bad: false,
        };
        self.records.insert(listed.name, record);
    }

    pub(super) fn take_frame(&mut self, apply: ApplyDeltas, frame: &Logged) {
        match frame {
            Logged::Whole(frame) => {
                for (name, cell) in &frame.cells {
                    self.take_cell(apply, *name, cell, frame.head.number);
                }
            }
            Logged::Damaged { number, cells, .. } => {
                for (name, cell) in cells {
                    match cell {
                        Some(cell) => self.take_cell(apply, *name, cell, *number),
                        None => self.lose(apply, *name, *number),
                    }
                }
            }
        }
    }

    fn take_cell(&mut self, apply: ApplyDeltas, name: RecordName, cell: &Cell, number: u64) {
        match cell.kind {
            CellKind::Remove | CellKind::Clear => {
                self.records.remove(&name);
                return;
            }
            CellKind::Whole | CellKind::Delta | CellKind::Bad => {}
        }
        let record = self.records.entry(name).or_insert_with(|| Record {
            version: 0,
            value: Value::Bad(Bad::torn(
                "the journal does not hold its beginning",
                Vec::new(),
            )),
            stamp: None,
            listed: None,
            deltas: Vec::new(),
            newly_bad: true,
        });
        record.stamp = Some(number);
        match cell.kind {
            CellKind::Whole => {
                record.value = Value::Whole(cell.bytes.clone());
                record.deltas.clear();
                record.newly_bad = false;
            }
            CellKind::Delta => record.grow(cell),
            CellKind::Bad => {
                let kept = record.kept(apply);
                record.value = Value::Bad(Bad::from_cell(&cell.bytes, kept));
                record.newly_bad = false;
            }
            CellKind::Remove | CellKind::Clear => {}
        }
        record.version = cell.new;
    }

    /// A frame that is lost changed this record.
    fn lose(&mut self, apply: ApplyDeltas, name: RecordName, number: u64) {
        let reason = format!("frame {number} of the journal is damaged where it holds it");
        let record = self.records.entry(name).or_insert_with(|| Record {
            version: 0,
            value: Value::Whole(Vec::new()),
            stamp: None,
            listed: None,
            deltas: Vec::new(),
            newly_bad: true,
        });
        let kept = record.kept(apply);
        record.value = Value::Bad(Bad::torn(reason, kept));
        record.stamp = Some(number);
        record.newly_bad = true;
    }

    /// Brings every record to its newest value.
    pub(super) fn settle(&mut self, apply: ApplyDeltas) {
        for record in self.records.values_mut() {
            if let Err(cause) = record.settle(apply) {
                let kept = record.kept(apply);
                record.value = Value::Bad(Bad::torn(cause, kept));
                record.newly_bad = true;
            }
        }
    }
}

impl Record {
    fn grow(&mut self, cell: &Cell) {
        let Value::Whole(whole) = &mut self.value else {
            return;
        };
        if self.version == cell.old {
            self.deltas.push(cell.bytes.clone());
            return;
        }
        let reason = format!(
            "the journal goes on from version {} and the store holds {}",
            cell.old, self.version
        );
        self.value = Value::Bad(Bad::torn(reason, std::mem::take(whole)));
        self.newly_bad = true;
    }

    fn settle(&mut self, apply: ApplyDeltas) -> Result<(), String> {
        let deltas = std::mem::take(&mut self.deltas);
        if let (Value::Whole(whole), false) = (&mut self.value, deltas.is_empty()) {
            *whole = apply(whole, &deltas)?;
        }
        Ok(())
    }

    /// The newest bytes there are.
    fn kept(&mut self, apply: ApplyDeltas) -> Vec<u8> {
        // What cannot be brought further is kept as it is.
        let _unsettled = self.settle(apply);
        match &mut self.value {
            Value::Whole(bytes) => std::mem::take(bytes),
            Value::Bad(bad) => std::mem::take(&mut bad.kept),
        }
    }

    pub(super) fn found(&self) -> Found {
        match &self.value {
            Value::Whole(bytes) => Found::Bytes(bytes.clone()),
            Value::Bad(bad) => bad.found(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match &self.value {
            Value::Whole(bytes) => bytes.len() as u64,
            Value::Bad(bad) => bad.kept.len() as u64,
        }
    }
}
