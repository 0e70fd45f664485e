//! The numbers of E2E sessions.

use crate::wire::bounds::DATA_MAX_BYTES;

/// The longest body that is sent in a session: with what is around it, it fits one frame.
pub const BODY_MAX_BYTES: usize = 61_440;

/// The longest message of a session, its marker aside.
pub(super) const SAID_MAX_BYTES: usize = BODY_MAX_BYTES + 64;

/// Nodes with which this one has sessions at once. The one that was heard of or spoken to longest ago
/// gives way, those that this node has said nothing to before the others, and its sessions end.
pub const SESSION_PEERS_MAX: usize = 256;

/// Sessions kept with one node: one that is new and not confirmed, the one in use, the one before it.
pub const SESSIONS_KEPT: usize = 3;

/// Bodies to one node that wait for a session. One more is refused with `e2e/waiting_full`.
pub const SESSION_WAITING_MAX: usize = 64;

/// Bytes of them.
pub const SESSION_WAITING_MAX_BYTES: usize = 1024 * 1024;

/// How long an answer to the handshake's first message is waited for, before it is sent again.
pub const SESSION_ANSWER_MS: u64 = 5_000;

/// How often it is sent.
pub const SESSION_TRIES: u8 = 3;

/// Messages in one direction after which another session is asked for.
pub const REKEY_MESSAGES: u64 = 1 << 16;

/// The time after which another one is.
pub const REKEY_MS: u64 = 600_000;

/// How long a session lives at most: its keys are wiped then, whatever came of another.
pub const SESSION_LIFE_MS: u64 = 1_200_000;

/// Handshakes that one node may begin here at once, and in a minute. Each costs four
/// Diffie-Hellman operations.
pub const SESSION_OPENS: u64 = 8;

/// Words that a session is not known here, to one node in a minute.
pub const SESSION_LOSTS: u64 = 8;

const _: () = assert!(
    BODY_MAX_BYTES + 64 + 64 <= DATA_MAX_BYTES,
    "a message of a session fits one frame"
);
const _: () = assert!(REKEY_MS < SESSION_LIFE_MS);
const _: () = assert!(SESSION_ANSWER_MS * (SESSION_TRIES as u64) < REKEY_MS);
