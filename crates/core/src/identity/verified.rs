//! The proof that a value passed its checks.

use crate::ids::NetworkId;
use crate::wire::cbor::{Encode, Writer};
use std::ops::Deref;

/// What every check needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyContext {
    /// The network this node is on.
    pub network: NetworkId,
    /// The instant to judge at, in milliseconds of Unix time.
    pub now_ms: u64,
}

pub(crate) mod sealed {
    /// Only this crate says what its values' checks are.
    pub trait Sealed {}
}

/// A value that carries what is needed to check it.
pub trait Checked: Sized + sealed::Sealed {
    /// What the check needs.
    type Context<'c>;
    /// What the check establishes.
    type Facts;
    /// Why it is refused.
    type Error;

    /// The whole check: the value's life, its network and every signature in it.
    ///
    /// # Errors
    /// The first thing that is wrong.
    fn check(&self, context: Self::Context<'_>) -> Result<Self::Facts, Self::Error>;
}

/// A value whose checks passed, with what they established. It can be made by
/// [`Verified::verify`] alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified<T: Checked> {
    value: T,
    facts: T::Facts,
}

impl<T: Checked> Verified<T> {
    /// Checks `value`.
    ///
    /// # Errors
    /// Those of the value's own checks.
    pub fn verify(value: T, context: T::Context<'_>) -> Result<Self, T::Error> {
        let facts = value.check(context)?;
        Ok(Self { value, facts })
    }

    /// What the checks established.
    pub fn facts(&self) -> &T::Facts {
        &self.facts
    }

    /// The same, for what is learnt later of a value that passed.
    pub(crate) fn facts_mut(&mut self) -> &mut T::Facts {
        &mut self.facts
    }

    /// The value, no longer proven.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T: Checked> Deref for Verified<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// As the value alone: that it was verified here is nobody else's proof.
impl<T: Checked + Encode> Encode for Verified<T> {
    fn encode(&self, writer: &mut Writer) {
        self.value.encode(writer);
    }
}
