//! Sealing and opening, as work for any thread.

use std::fmt;
use std::sync::Arc;

use overlane_core::seal::{SealContext, SealError, SealingKey, SealingSecret, seal_data};
use zeroize::Zeroizing;

use super::super::{Delivery, Outgoing};

/// Random bytes that one message is sealed with. They are used once.
#[derive(Clone)]
pub struct SealSeed(Zeroizing<[u8; 32]>);

impl SealSeed {
    /// These bytes, which nobody can foresee and nothing else uses.
    pub fn new(bytes: Zeroizing<[u8; 32]>) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for SealSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealSeed")
    }
}

/// Names a message that is being sealed or opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SealTicket(pub(super) u64);

/// A message to seal or to open, on any thread.
#[derive(Debug)]
pub struct SealJob(pub(super) Work);

#[derive(Debug)]
pub(super) enum Work {
    Seal(SealingKey, SealContext, Box<Outgoing>),
    Open(Arc<SealingSecret>, Box<Delivery>),
}

/// What came of it.
#[derive(Debug)]
pub struct SealResult(pub(super) Done);

#[derive(Debug)]
pub(super) enum Done {
    Sealed(Result<Box<Outgoing>, SealError>),
    Opened(Result<Box<Delivery>, SealError>),
    Stopped,
}

impl SealJob {
    /// Does it.
    pub fn run(self) -> SealResult {
        SealResult(match self.0 {
            Work::Seal(key, context, outgoing) => Done::Sealed(sealed(&key, &context, outgoing)),
            Work::Open(secret, mut delivery) => {
                Done::Opened(delivery.open(&secret).map(|()| delivery))
            }
        })
    }
}

impl SealResult {
    /// It stopped without an answer, and what was to be sealed or opened is lost.
    pub fn stopped() -> Self {
        Self(Done::Stopped)
    }
}

fn sealed(
    key: &SealingKey,
    context: &SealContext,
    mut outgoing: Box<Outgoing>,
) -> Result<Box<Outgoing>, SealError> {
    if let Some(SealSeed(seed)) = outgoing.seal.take() {
        outgoing.data = seal_data(key, context, &outgoing.data, seed)?;
        // The node's one task need not read a large message for it.
        outgoing.data.hash();
    }
    Ok(outgoing)
}
