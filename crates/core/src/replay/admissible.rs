//! What a node admits: payloads whose two signatures were verified, and nothing else.

use super::outcome::Candidate;
use crate::identity::Verified;
use crate::ids::{StreamKey, TransactionDigest};
use crate::transaction::{Message, Payload};
use crate::wire::cbor::to_vec;

impl Candidate for Verified<Payload> {
    fn stream(&self) -> StreamKey {
        self.stream()
    }

    fn sequence(&self) -> u64 {
        self.sequence()
    }

    fn digest(&self) -> TransactionDigest {
        self.digest()
    }

    fn data_bytes(&self) -> u64 {
        self.data_bytes().try_into().unwrap_or(u64::MAX)
    }

    fn issued_ms(&self) -> u64 {
        self.transaction().proof().life().issued_ms
    }

    fn last_ms(&self) -> u64 {
        self.last_ms()
    }

    fn namespace(&self) -> Option<&str> {
        match self.message() {
            Message::Application { namespace, .. } => Some(namespace.as_str()),
            _ => None,
        }
    }

    fn signed_header(&self) -> Vec<u8> {
        to_vec(&self.header())
    }
}
