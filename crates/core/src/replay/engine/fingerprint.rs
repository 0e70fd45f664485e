//! Everything of an engine that decides what it will do, as a hash; for the explorer.

use std::fmt::Debug;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use super::{Engine, Waiter};
use crate::replay::outcome::Staged;

impl<T: Debug + Hash> Engine<T> {
    /// Equal for engines that answer equally from now on, but for their counters and the numbers of
    /// tickets and batches.
    pub(in crate::replay) fn fingerprint(&self) -> u64 {
        let tables = &self.state.tables;
        let bad: Vec<_> = tables.unrestorable.keys().collect();
        let in_flight = self.in_flight.as_ref();
        let in_flight = in_flight.map(|it| (&it.touched, waiting(&it.waiting)));
        BuildHasherDefault::<DefaultHasher>::default().hash_one((
            (
                &tables.receivers,
                &tables.senders,
                &tables.floor,
                &tables.forks,
            ),
            (&tables.receivers_due, &tables.senders_due, bad),
            (self.state.witness, &self.state.open, in_flight),
            (waiting(&self.waiting), format!("{:?}", self.authority)),
            &self.state.quota,
        ))
    }
}

impl<T> Engine<T> {
    /// Answers every refusal in the open batch now: a broken variant.
    pub(super) fn refuse_at_once(&mut self) {
        let (refused, rest) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiter| matches!(waiter.staged, Staged::Refuse { .. }));
        self.waiting = rest;
        let refused: Vec<Waiter<T>> = refused;
        let answers = refused.into_iter().map(|it| (it.ticket, it.staged));
        self.ready.extend(answers);
    }
}

fn waiting<T: Debug + Hash>(waiting: &[Waiter<T>]) -> Vec<(u64, bool)> {
    let hash = |staged: &Staged<T>| match staged {
        Staged::Admit { item, .. } => hash((0, item)),
        Staged::Take { item, .. } => hash((1, item)),
        Staged::Hold { item, .. } => hash((2, item)),
        Staged::Reserve { stream, sequences } => hash((3, stream, sequences)),
        Staged::Keep(stream) => hash((4, stream)),
        Staged::Refuse { .. } => hash((5, format!("{staged:?}"))),
    };
    let each = waiting.iter();
    each.map(|it| (hash(&it.staged), it.abandoned)).collect()
}

fn hash(value: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}
