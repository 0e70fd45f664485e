//! The index on disk answers what a set in memory answers, whatever came and went.

use std::path::Path;

use overlane_core::Did;
use overlane_recon::{Item, ItemSet, Limits, Storage, advance, initiate, respond};
use overlane_relay::log::{Change, Entry, EnvelopeId, LogId, LogStore, shared_place};
use overlane_storage_native::testkit::Disk;
use overlane_storage_native::{LEAF_RECORDS, LogIndex, LogsStore, NAME_LEAF_RECORDS};

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

/// Where an item stands in the space that all holders share.
fn shared(item: Item) -> Item {
    let seq = shared_place(&item.id);
    Item { seq, ..item }
}

/// Both orders.
fn compare(store: &mut LogsStore, set: &mut ItemSet, rng: &mut Rng) {
    store.verify(&LOG).unwrap();
    compare_one(store.index(&LOG).unwrap(), set, rng);
    let mut by_name: Vec<_> = set.iter().map(shared).collect();
    by_name.sort_unstable();
    let mut by_name = by_name.into_iter().collect();
    compare_one(store.shared_index(&LOG).unwrap(), &mut by_name, rng);
}

/// Everything a reconciliation asks of an index.
fn compare_one(mut index: LogIndex<'_>, set: &mut ItemSet, rng: &mut Rng) {
    let len = set.len();
    for _ in 0..20 {
        let near = set.iter().nth(rng.below(len as u64 + 1) as usize);
        let bound =
            near.map_or(u64::MAX, |it| it.seq) - rng.below(2).min(near.map_or(0, |it| it.seq));
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
    let peer: Vec<Item> = set.iter().filter(|it| it.id.0[31] % 7 != 0).collect();
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
    // What comes at the end changes no range before it, nor does what goes elsewhere; what goes inside does.
    store
        .commit(vec![append(LOG, 2_001), remove(LOG, 1_900)])
        .unwrap();
    assert!(work(&mut store, 0..1_500) <= 80);
    store.commit(vec![remove(LOG, 7)]).unwrap();
    assert!(work(&mut store, 0..1_500) >= 1_500 * 40);
}

/// Rows of the database, and records of the index, that each round of a whole exchange reads at the answering side, in
/// the space that two holders share; `held` is what the asking one holds, and comes to hold.
fn rounds(store: &mut LogsStore, held: &mut ItemSet) -> Vec<(u64, u64)> {
    let limits = Limits::default();
    let Ok(mut payload) = initiate(held, &limits);
    let mut read = Vec::new();
    loop {
        let mut index = store.shared_index(&LOG).unwrap();
        let answer = respond(&mut index, &payload, &limits).unwrap();
        let records = index.work_bytes() / overlane_recon::RECORD_BYTES as u64;
        read.push((index.rows_read(), records));
        for item in answer.push {
            held.insert(item).unwrap();
        }
        match advance(held, &answer.reply, &limits).unwrap().reply {
            Some(next) => payload = next,
            None => return read,
        }
    }
}

/// No timing: rows are counted. Beside the leaves that hold the ranges in question, a range costs a few rows to find.
#[test]
fn law_logs_a_round_in_the_shared_space_reads_what_it_asks_about_and_not_the_log() {
    const ENVELOPES: u64 = 12_000;
    const RANGE_ROWS: u64 = 6;
    let disk = Disk::new();
    let mut store = open(&disk);
    for from in (1..=ENVELOPES).step_by(3_000) {
        let changes = (from..from + 3_000).map(|seq| append(LOG, seq));
        store.commit(changes.collect()).unwrap();
    }
    let leaves = {
        let mut index = store.shared_index(&LOG).unwrap();
        let count = index.position(u64::MAX).unwrap();
        assert_eq!(count as u64, ENVELOPES);
        let before = index.rows_read();
        index.visit(0..count, &mut |_| {}).unwrap();
        index.rows_read() - before
    };
    let fewest = ENVELOPES / NAME_LEAF_RECORDS as u64;
    assert!((fewest..=3 * fewest).contains(&leaves), "{leaves}");
    let lacking = |seqs: &[u64]| {
        let items = (1..=ENVELOPES).filter(|it| !seqs.contains(it));
        let mut items: Vec<_> = items.map(|seq| shared(Item { seq, id: id(seq) })).collect();
        items.sort_unstable();
        items.into_iter().collect::<ItemSet>()
    };
    drop(store);
    let mut store = open(&disk);
    let mut peer = lacking(&[77]);
    let first = rounds(&mut store, &mut peer);
    assert!(
        peer.len() as u64 == ENVELOPES && first.len() >= 3,
        "{first:?}"
    );
    // The first question is about everything, and each after it about an eighth of the one before.
    let mut most = leaves;
    for (round, (rows, _)) in first.iter().enumerate() {
        let ranges = 8 * (round as u64 + 1);
        assert!(
            *rows <= 2 * most + ranges * RANGE_ROWS,
            "{round}: {first:?} of {leaves}"
        );
        most = most.div_ceil(8) + 1;
    }
    // Another that lacks the same costs no leaf but those whose names are listed.
    let again = rounds(&mut store, &mut lacking(&[77]));
    for (round, (rows, records)) in again.iter().enumerate() {
        let ranges = 8 * (round as u64 + 1);
        assert!(*rows <= ranges * RANGE_ROWS, "{round}: {again:?}");
        assert!(*records <= ENVELOPES / 10, "{round}: {again:?}");
    }
    // One that comes is in one range of the question, which is read again and parted: the others are not read again.
    store.commit(vec![append(LOG, ENVELOPES + 1)]).unwrap();
    let after = rounds(&mut store, &mut lacking(&[77]));
    assert!(after[0].1 <= ENVELOPES / 2, "{after:?}");
    assert!(first[0].1 >= ENVELOPES, "{first:?}");
}
