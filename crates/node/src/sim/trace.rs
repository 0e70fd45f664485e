//! What happened, as one hash and, on demand, in words.

use std::fmt;

/// Takes a line for each thing that happens. A run with a tracer is the run without one.
pub(super) type Tracer<'t> = dyn FnMut(&str) + 't;

/// The hash over everything that happened, in its order.
pub(super) struct Trace<'t> {
    hasher: blake3::Hasher,
    /// Things that happened.
    pub(super) steps: u64,
    tracer: Option<Box<Tracer<'t>>>,
}

impl<'t> Trace<'t> {
    pub(super) fn new(tracer: Option<Box<Tracer<'t>>>) -> Self {
        Self {
            hasher: blake3::Hasher::new(),
            steps: 0,
            tracer,
        }
    }

    /// Something happened: `bytes` say what exactly, `words` what to people.
    pub(super) fn note(&mut self, at_ms: u64, bytes: &[&[u8]], words: impl FnOnce() -> String) {
        self.steps += 1;
        self.hasher.update(&at_ms.to_be_bytes());
        for bytes in bytes {
            let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            self.hasher.update(&length.to_be_bytes());
            self.hasher.update(bytes);
        }
        if let Some(tracer) = &mut self.tracer {
            tracer(&format!("{at_ms:>9} ms  {}", words()));
        }
    }

    /// The first half of the hash, in hexadecimal.
    pub(super) fn hash(&self) -> String {
        let hash = self.hasher.finalize();
        hash.to_hex().chars().take(32).collect()
    }
}

impl fmt::Debug for Trace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}
