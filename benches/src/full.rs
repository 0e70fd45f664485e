//! Full tables: every stream that a node may have, each as a stream in use is.

use overlane_core::replay::record::{ReceiverRecord, Record, SenderRecord};
use overlane_core::replay::{Introducer, STREAM_CAPACITY, Window, spent_ms};
use overlane_core::{Class, Did, NetworkId, StreamKey, TransactionDigest};

/// The network of the streams.
pub const NETWORK: NetworkId = NetworkId(1);

/// When they were used last, in milliseconds of Unix time.
pub const NOW_MS: u64 = 1_800_000_000_000;

const PAIRS: u64 = STREAM_CAPACITY as u64 / Class::ALL.len() as u64;

/// The stream of this number, below [`STREAM_CAPACITY`].
pub fn stream(number: u64) -> StreamKey {
    let class = Class::ALL.get((number / PAIRS) as usize % Class::ALL.len());
    // Accounts' places are hashes.
    let hash = blake3::hash(&(number % PAIRS).to_be_bytes());
    let mut origin = [0; 20];
    let bytes = hash.as_bytes().iter();
    origin
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, from)| *to = *from);
    StreamKey {
        network: NETWORK,
        origin: Did(origin),
        destination: Did([0xbb; 20]),
        class: class.copied().unwrap_or(Class::Application),
    }
}

/// The digest of a stream's transaction.
pub fn digest(stream: &StreamKey, sequence: u64) -> TransactionDigest {
    let mut digest = [0; 32];
    let origin = stream.origin.0.iter().copied();
    let bytes = origin.chain(sequence.to_be_bytes());
    digest
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, from)| *to = from);
    TransactionDigest(digest)
}

/// A receiver record of 32 admitted transactions.
pub fn receiver(number: u64) -> ReceiverRecord {
    let stream = stream(number);
    let mut window = Window::first(0, digest(&stream, 0));
    for sequence in 1..32 {
        window.observe(sequence, digest(&stream, sequence));
    }
    ReceiverRecord {
        stream,
        version: 32,
        window,
        custody: Vec::new(),
        introducer: Introducer::Own,
        spent_ms: spent_ms(stream.class, NOW_MS + 600_000),
    }
}

/// Every record of both tables.
pub fn records() -> impl Iterator<Item = Record> {
    let streams = 0..STREAM_CAPACITY as u64;
    let senders = streams.clone().map(|number| {
        Record::Sender(SenderRecord {
            stream: stream(number),
            version: 1,
            end: 1 << 61,
            spent_ms: NOW_MS,
        })
    });
    let receivers = streams.map(|number| Record::Receiver(Box::new(receiver(number))));
    receivers.chain(senders)
}
