//! Sealing: what one account alone can read, whoever carries or keeps it.
//!
//! Law (sealed to one): what is sealed opens with the recipient's secret, for the network, the origin
//! and the recipient it was sealed for, and with nothing else. A carrier that puts a sealed message
//! into a transaction of its own makes something that does not open.
//!
//! Law (nothing shown): a sealed message shows its size and the key it was made for nobody else to
//! know; its namespace and its body are inside.
//!
//! Sealing is HPKE (RFC 9180) in base mode: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256,
//! ChaCha20-Poly1305. Base mode, because the transaction around a sealed message is signed by its
//! origin already, and because auth mode would have the account's own key at work for every message.
//! Whoever learns the recipient's secret later reads what was sealed to it before: sessions with
//! forward secrecy are another thing. Source: protocol decision 8 (sealing).

mod admitted;
mod card;
mod direct;
mod error;
mod key;

pub use card::{CARD_TTL_MAX_MS, CardSubject, ContactCard};
pub use direct::{
    SEALED_NAMESPACE, SEALED_OVERHEAD_BYTES, SealContext, SealedMessage, is_sealed, open, seal,
    seal_data, sealed_bytes,
};
pub use error::SealError;
pub use key::{SealingKey, SealingSecret};

pub(crate) use direct::{open_bytes, seal_bytes};
