//! Errors are values with an address: who is at fault is part of the type.

/// Whose fault an error is. The three kinds are never mixed: a peer that misbehaved is no
/// reason to stop, a bound that refused is no reason to blame, a store that failed closed is
/// no reason to retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The other side sent what no honest peer sends.
    PeerMisbehaved,
    /// A named bound, lifetime or policy of this node refused.
    RefusedByBound,
    /// This node's own store could not make something durable, or cannot be trusted.
    StoreFailedClosed,
    /// The caller asked for something that cannot be done as asked.
    Usage,
    /// The other side could not be reached.
    Unreachable,
}

/// An error with a stable code of the form `area/reason`, for machines and for
/// `overlane explain`.
pub trait Coded {
    /// The stable code. It never changes once released.
    fn code(&self) -> &'static str;
    /// Whose fault this is.
    fn fault(&self) -> Fault;
}
