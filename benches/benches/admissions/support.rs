//! What the admission benches run on: a full table, a payload, and a place on a real disk.

use std::path::PathBuf;
use std::sync::Arc;

use overlane_benches::full::{self, NETWORK, NOW_MS, digest, stream};
use overlane_core::identity::{Account, Delegatee, Delegation, Life, Signer, VerifyContext};
use overlane_core::replay::record::{Record, RecordId};
use overlane_core::replay::{
    Batch, BatchId, Candidate, Engine, EngineConfig, Gather, Introducer, Now, Outcome,
    STREAM_CAPACITY,
};
use overlane_core::store::{Change, Effect, Found, Scan, StoreError};
use overlane_core::transaction::{Draft, Message, Namespace, Payload, RelayFields, Transaction};
use overlane_core::wire::cbor::to_vec;
use overlane_core::{StreamKey, TransactionDigest, TxId};
use overlane_storage_native::{FILES_BUDGET_BYTES, JOURNAL_BUDGET_BYTES, StoreAdmin, StoreKind};
use zeroize::Zeroizing;

/// Records written at once while a store is filled.
const FILL_AT_ONCE: usize = 1_024;

/// An already verified transaction: the engine looks at nothing else.
struct Item {
    stream: StreamKey,
    sequence: u64,
}

impl Candidate for Item {
    fn stream(&self) -> StreamKey {
        self.stream
    }
    fn sequence(&self) -> u64 {
        self.sequence
    }
    fn digest(&self) -> TransactionDigest {
        digest(&self.stream, self.sequence)
    }
    fn data_bytes(&self) -> u64 {
        256
    }
    fn issued_ms(&self) -> u64 {
        NOW_MS
    }
    fn last_ms(&self) -> u64 {
        NOW_MS + 600_000
    }
    fn namespace(&self) -> Option<&str> {
        None
    }
    fn signed_header(&self) -> Vec<u8> {
        vec![0; 400]
    }
}

/// Admissions that visit all streams in turn.
pub(crate) struct Admissions {
    engine: Engine<Item>,
    gather: Gather,
    now: Now,
    turn: u64,
}

impl Admissions {
    pub(crate) fn new() -> Self {
        let mut records: Vec<_> = (0..STREAM_CAPACITY as u64)
            .map(full::receiver)
            .map(|record| {
                let name = RecordId::Receiver(record.stream).name();
                let record = Record::Receiver(Box::new(record));
                (name, Found::Bytes(to_vec(&record)))
            })
            .collect();
        records.sort_by_key(|(name, _)| *name);
        Self::over(Scan { records })
    }

    pub(crate) fn over(scan: Scan) -> Self {
        let now = Now {
            wall_ms: NOW_MS,
            steady_ms: 0,
        };
        let engine = Engine::restore(EngineConfig::default(), scan, now);
        assert_eq!(engine.receivers().count(), STREAM_CAPACITY);
        Self {
            engine,
            gather: Gather::default(),
            now,
            turn: 0,
        }
    }

    /// Admits `in_flight` transactions of as many streams and waits for all of them.
    pub(crate) fn round(
        &mut self,
        in_flight: usize,
        mut write: impl FnMut(&Batch) -> Result<(), StoreError>,
    ) {
        for _ in 0..in_flight {
            self.stage();
        }
        let mut admitted = 0;
        while let Some(batch) = self.take_batch() {
            let written = write(&batch);
            self.done(batch.id, written);
            admitted += self.poll_admitted();
        }
        assert_eq!(admitted, in_flight, "each of them was admitted");
    }

    /// Stages a transaction of the next stream.
    pub(crate) fn stage(&mut self) {
        let streams = STREAM_CAPACITY as u64;
        let item = Item {
            stream: stream(self.turn % streams),
            sequence: 32 + self.turn / streams,
        };
        self.turn += 1;
        // At 256,000 admissions a second by this clock, a quota record rests before it is
        // needed again.
        self.now.steady_ms += u64::from(self.turn.is_multiple_of(256));
        self.engine.stage_admission(item, Introducer::Own, self.now);
    }

    pub(crate) fn take_batch(&mut self) -> Option<Batch> {
        self.engine.take_batch()
    }

    /// As [`stage`](Self::stage), for what a worker verified.
    pub(crate) fn stage_verified(&mut self) {
        self.gather.handle_verified();
        self.stage();
    }

    /// The open batch, once it waits for no more.
    pub(crate) fn gather_batch(&mut self, verifying: usize) -> Option<Batch> {
        self.gather.take_batch(&mut self.engine, verifying)
    }

    pub(crate) fn done(&mut self, id: BatchId, written: Result<(), StoreError>) {
        assert_eq!(self.engine.batch_done(id, written), Ok(()));
    }

    /// How many were admitted since this was last asked.
    pub(crate) fn poll_admitted(&mut self) -> usize {
        let outcomes = std::iter::from_fn(|| self.engine.poll_outcome());
        let admitted = |outcome: Outcome<Item>| matches!(outcome, Outcome::Admitted(_));
        outcomes
            .map(|(_, outcome)| assert!(admitted(outcome), "each of them is admitted"))
            .count()
    }
}

/// A folder on the disk that is measured.
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        let given = std::env::var_os("OVERLANE_BENCH_DIR").map(PathBuf::from);
        let parent = given.unwrap_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")));
        match tempfile::tempdir_in(&parent) {
            Ok(folder) => Self(folder),
            Err(cause) => panic!("{}: {cause}", parent.display()),
        }
    }

    /// A store of 16,384 streams, and admissions over what it scanned.
    pub(crate) fn filled(&self, kind: StoreKind) -> (Box<dyn StoreAdmin>, Admissions) {
        let path = self.0.path().join(name(kind));
        let budget_bytes = match kind {
            StoreKind::Files => FILES_BUDGET_BYTES,
            StoreKind::Journal => JOURNAL_BUDGET_BYTES,
        };
        let open = || {
            overlane_storage_native::open(&path, kind, budget_bytes)
                .unwrap_or_else(|cause| panic!("{cause}"))
        };
        let mut store = open();
        let numbers: Vec<_> = (0..STREAM_CAPACITY as u64).collect();
        for numbers in numbers.chunks(FILL_AT_ONCE) {
            let changes: Vec<_> = numbers.iter().map(|number| fill(*number)).collect();
            assert_eq!(store.write(&changes), Ok(()));
        }
        // A store is scanned when it is opened.
        drop(store);
        let mut store = open();
        let scan = store.scan().unwrap_or_else(|cause| panic!("{cause}"));
        (store, Admissions::over(scan))
    }
}

/// A store's name in the rows.
pub(crate) const fn name(kind: StoreKind) -> &'static str {
    match kind {
        StoreKind::Files => "files",
        StoreKind::Journal => "journal",
    }
}

/// What a scan of a store with both tables full finds.
pub(crate) fn full_scan() -> Scan {
    let mut records: Vec<_> = full::records()
        .map(|record| (record.id().name(), Found::Bytes(to_vec(&record))))
        .collect();
    records.sort_by_key(|(name, _)| *name);
    Scan { records }
}

fn fill(number: u64) -> Change {
    let record = Record::Receiver(Box::new(full::receiver(number)));
    Change {
        name: record.id().name(),
        effect: Effect::Write(Arc::new(to_vec(&record))),
    }
}

fn signer(seed: u8) -> Signer {
    let life = Life {
        issued_ms: NOW_MS,
        ttl_ms: 86_400_000,
    };
    let made = || {
        let account = Account::ed25519(Zeroizing::new([seed; 32]))?;
        let delegatee = Delegatee::from_seed(Zeroizing::new([seed + 1; 32]));
        let delegation = Delegation::issue(&account, &delegatee, NETWORK, life)?;
        Ok((delegatee, delegation))
    };
    let (delegatee, delegation) =
        made().unwrap_or_else(|cause: overlane_core::identity::KeyError| panic!("{cause}"));
    let delegation = delegation
        .verify(&verify_context())
        .unwrap_or_else(|cause| panic!("{cause}"));
    Signer::new(delegatee, delegation).unwrap_or_else(|cause| panic!("{cause}"))
}

pub(crate) const fn verify_context() -> VerifyContext {
    VerifyContext {
        network: NETWORK,
        now_ms: NOW_MS,
    }
}

/// A small application message, signed by one account and carried by another, as it comes off a link:
/// both delegations inline.
pub(crate) fn payload() -> Payload {
    let (origin, carrier) = (signer(1), signer(3));
    let life = Life {
        issued_ms: NOW_MS,
        ttl_ms: 600_000,
    };
    let namespace = Namespace::new("bench").unwrap_or_else(|cause| panic!("{cause}"));
    let draft = Draft {
        destination: carrier.did(),
        tx_id: TxId([7; 16]),
        sequence: 1,
        message: Message::Application {
            namespace,
            body: &[0x5a; 256],
        },
        life,
    };
    let relay = RelayFields::direct(carrier.did());
    let carried = Transaction::sign(&draft, &origin)
        .and_then(|signed| Payload::carry(signed, relay, &carrier, life))
        .unwrap_or_else(|cause| panic!("{cause}"));
    Payload::from_frame(&carried.to_frame(|_| false)).unwrap_or_else(|cause| panic!("{cause}"))
}

/// The same payload with both delegations verified before.
pub(crate) fn known(payload: Payload) -> Payload {
    payload
        .verify(&verify_context())
        .unwrap_or_else(|cause| panic!("{cause}"))
        .into_payload()
}
