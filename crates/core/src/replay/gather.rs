//! How long an open batch waits for company.
//!
//! A flush costs far more than what it carries, so what is being verified just now had better share
//! one. A batch therefore waits while payloads are with the verification workers, and goes at the
//! latest once [`GATHER_RESULTS`] of them have come back since the batch before it. No clock is
//! asked: a message that is alone never waits, and a flood of bad payloads holds nothing back for
//! longer than these few results take.
//!
//! Law **bounded wait**: a batch is taken at the first call at which nothing is being verified or
//! [`GATHER_RESULTS`] results came since the last batch. Source: seed 1 (group commit).

use super::{Batch, Candidate, Engine};

/// Results of verification after which a batch waits for no more, whatever they were.
pub const GATHER_RESULTS: u32 = 16;

/// Decides when the open batch of an [`Engine`] is taken.
#[derive(Debug, Default)]
pub struct Gather {
    /// Results since a batch was last taken.
    results: u32,
}

impl Gather {
    /// A verification worker is done with a payload, whatever it found.
    pub fn handle_verified(&mut self) {
        self.results = self.results.saturating_add(1);
    }

    /// Takes the open batch, unless it is better to wait for some of the `verifying` payloads that
    /// are with the workers; `None` also where [`Engine::take_batch`] has none.
    pub fn take_batch<T: Candidate>(
        &mut self,
        engine: &mut Engine<T>,
        verifying: usize,
    ) -> Option<Batch> {
        if verifying > 0 && self.results < GATHER_RESULTS {
            return None;
        }
        let batch = engine.take_batch();
        if batch.is_some() {
            self.results = 0;
        }
        batch
    }
}
