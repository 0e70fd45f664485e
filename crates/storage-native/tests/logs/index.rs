//! The index on disk answers what a set in memory answers, whatever came and went.

use std::path::Path;

use overlane_core::Did;
use overlane_recon::{Item, ItemSet, Limits, Storage, initiate, respond};
use overlane_relay::log::{Change, Entry, EnvelopeId, LogId, LogStore};
use overlane_storage_native::testkit::Disk;
use overlane_storage_native::{LEAF_RECORDS, LogsStore};

const FOLDER: &str = "/home/logs";
const LOG: LogId = LogId([3; 32]);

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn id(seq: u64) -> EnvelopeId {
    let mut id = [0; 32];
    id[..8].copy_from_slice(&seq.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    id[24..].copy_from_slice(&seq.to_be_bytes());
    overlane_recon::Id(id)
}

fn append(log: LogId, seq: u64) -> Change {
    let entry = Entry {
        seq,
        id: id(seq),
        author: Did([1; 20]),
        slot: 3,
        stored_ms: 10 * seq,
        expires_ms: u64::MAX,
        bytes: 5,
    };
    let envelope = vec![seq as u8; 5];
    Change::Append {
        log,
        entry,
        envelope,
    }
}

fn remove(log: LogId, seq: u64) -> Change {
    let id = id(seq);
    Change::Remove { log, seq, id }
}

fn open(disk: &Disk) -> LogsStore {
    LogsStore::open_on(disk.vfs(), Path::new(FOLDER)).unwrap()
}

/// Everything a reconciliation asks of an index.
fn compare(store: &mut LogsStore, set: &mut ItemSet, rng: &mut Rng) {
    store.verify(&LOG).unwrap();
    let len = set.len();
    let mut index = store.index(&LOG).unwrap();
    for _ in 0..20 {
        let bound = rng.below(4_000);
        let Ok(position) = set.position(bound);
        assert_eq!(index.position(bound).unwrap(), position);
        let at = rng.below(len as u64 + 3) as usize;
        let Ok(seq) = set.seq_at(at);
        assert_eq!(index.seq_at(at).unwrap(), seq);
        let from = rng.below(len as u64 + 1) as usize;
        let to = from + rng.below((len - from) as u64 + 1) as usize;
        for range in [from..to, 0..to, from..len] {
            let Ok(wanted) = set.fingerprint(range.clone());
            assert_eq!(index.fingerprint(range).unwrap(), wanted);
        }
    }
    let peer: Vec<Item> = set.iter().filter(|it| it.seq % 7 != 0).collect();
    let limits = Limits::default();
    let Ok(opening) = initiate(&mut peer.into_iter().collect::<ItemSet>(), &limits);
    let answer = respond(&mut index, &opening, &limits).unwrap();
    assert_eq!(answer, respond(set, &opening, &limits).unwrap());
}

#[test]
fn law_logs_the_index_on_disk_is_the_set_in_memory() {
    for seed in 0..2 {
        let disk = Disk::new();
        let mut rng = Rng(seed);
        let mut store = open(&disk);
        let mut set = ItemSet::new();
        let mut end = 1;
        for round in 0..8 {
            let mut changes = vec![append(LogId([9; 32]), round + 1)];
            match rng.below(4) {
                // At the end, as a host numbers.
                0 | 1 => {
                    for _ in 0..rng.below(3 * LEAF_RECORDS as u64) {
                        changes.push(append(LOG, end));
                        set.insert(Item {
                            seq: end,
                            id: id(end),
                        })
                        .unwrap();
                        end += 1 + rng.below(2);
                    }
                }
                // Anywhere, as a follower is pushed.
                2 => {
                    for _ in 0..200 {
                        let seq = 1 + rng.below(4_000);
                        if set.insert(Item { seq, id: id(seq) }).unwrap() {
                            changes.push(append(LOG, seq));
                            end = end.max(seq + 1);
                        }
                    }
                }
                // The oldest, and holes.
                _ => {
                    let items: Vec<_> = set.iter().collect();
                    let oldest = items.len() / 3;
                    for (at, item) in items.iter().enumerate() {
                        if at < oldest || rng.below(10) == 0 {
                            set.remove(item);
                            changes.push(remove(LOG, item.seq));
                        }
                    }
                }
            }
            store.commit(changes).unwrap();
            compare(&mut store, &mut set, &mut rng);
            // As asked before, and as read anew.
            if round % 4 == 3 {
                drop(store);
                store = open(&disk);
                compare(&mut store, &mut set, &mut rng);
            }
        }
        let entries = store.entries(&LOG, 0, usize::MAX).unwrap();
        for entry in entries {
            assert_eq!(store.seq_of(&LOG, &entry.id).unwrap(), Some(entry.seq));
            assert_eq!(store.entry(&LOG, entry.seq).unwrap(), Some(entry));
            let bytes = store.envelope(&LOG, entry.seq).unwrap();
            assert_eq!(bytes, Some(vec![entry.seq as u8; 5]));
        }
        assert_eq!(store.entry(&LOG, 1 << 40).unwrap(), None);
        store.verify(&LogId([9; 32])).unwrap();
    }
}

#[test]
fn law_logs_a_range_asked_again_is_not_read_again() {
    let disk = Disk::new();
    let mut store = open(&disk);
    store
        .commit((1..=2_000).map(|seq| append(LOG, seq)).collect())
        .unwrap();
    let work = |store: &mut LogsStore, range: std::ops::Range<usize>| {
        let mut index = store.index(&LOG).unwrap();
        index.fingerprint(range).unwrap();
        index.work_bytes()
    };
    assert!(work(&mut store, 0..1_500) >= 1_500 * 40);
    assert!(work(&mut store, 0..1_500) <= 80);
    // What comes at the end changes no range before it; what goes inside changes all.
    store.commit(vec![append(LOG, 2_001)]).unwrap();
    assert!(work(&mut store, 0..1_500) <= 80);
    store.commit(vec![remove(LOG, 7)]).unwrap();
    assert!(work(&mut store, 0..1_500) >= 1_500 * 40);
}
