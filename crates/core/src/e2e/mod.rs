//! E2E sessions: what two nodes say to each other under keys that nobody has any more afterwards.
//!
//! Law (forward secrecy): the keys of a session are of fresh ones on both sides and are wiped when it ends;
//! [`REKEY_MS`](bounds::REKEY_MS) after it began another takes its place, and none lives longer than
//! [`SESSION_LIFE_MS`](bounds::SESSION_LIFE_MS). Whoever learns an account's secret later reads nothing that
//! was said in a session before. Law (who it is): a session is with the account that signed the messages
//! around it, and with its own static key. Law (taken once): a body is taken once in its session. Law (a lost
//! session ends): a node that does not know a session says so, and the next body is sent in another.
//!
//! The handshake is Noise IK (`Noise_IK_25519_ChaChaPoly_SHA256`), without payloads: what is sealed under
//! its first message alone has no forward secrecy. The static keys are those that messages are sealed to
//! ([`SealingKey`](crate::seal::SealingKey)). Messages of a session are bodies of E2E messages: signed,
//! admitted at most once, in their class's lane. Each side uses the newest session that the other has shown to
//! have the keys of, so two that are asked for at once do no harm. Source: protocol decision 8.

pub mod bounds;
mod error;
mod frame;
#[macro_use]
mod mutant;
mod noise;
mod sessions;

#[cfg(test)]
mod tests;

pub use error::{SessionError, SessionRefusal};
pub use frame::{E2E_MARKER, SessionId};
pub use sessions::{SessionAction, SessionCounters, Sessions};
