//! Connection slots: story 4, the shares, and slots that come and go.

use std::collections::BTreeSet;

use overlane_core::replay::{
    Engine, EngineConfig, INBOX_SHARE, Introducer, OWN_SHARE, Outcome, Refusal, SLOT_FLOOR,
    SLOT_POOL, SLOTS, Share, ShareFull, Slot,
};
use proptest::prelude::*;

use crate::support::*;

/// A node whose connections offer first transactions of fresh origins.
struct Crowd {
    node: Node,
    origins: u64,
}

impl Crowd {
    fn new() -> Self {
        Self {
            node: Node::new(),
            origins: 0,
        }
    }

    fn connect(&mut self) -> Slot {
        self.node.engine.claim_slot(did(1 << 40)).unwrap()
    }

    /// Offers a fresh origin's first transaction; it enters the open batch or is refused.
    fn fresh(&mut self, introducer: Introducer) -> Result<(), ShareFull> {
        let introducer = match faulty(Fault::OneShareForAll) {
            true => Introducer::Own,
            false => introducer,
        };
        let charged = self.node.engine.charged(introducer);
        self.origins += 1;
        let mut item = self.node.item(stream(self.origins), 1, 1);
        // Small, so that the quota record rests at once.
        item.data_bytes = 0;
        self.node.pass(4);
        let ticket = self.node.offer(item, introducer);
        if self.node.engine.charged(introducer) == charged + 1 {
            return Ok(());
        }
        match self.node.answer(ticket) {
            Outcome::Refused {
                refusal: Refusal::StreamShareFull { full, .. },
                ..
            } => Err(full),
            other => panic!("{other:?}"),
        }
    }

    /// Offers fresh origins until one is refused.
    fn flood(&mut self, introducer: Introducer) -> (usize, ShareFull) {
        for admitted in 0.. {
            if let Err(full) = self.fresh(introducer) {
                return (admitted, full);
            }
        }
        unreachable!("every introducer has a bound")
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// A party of `k` connections with any number of origins, connections of the party coming
    /// and going, and others that stay within their floors.
    #[test]
    fn law_slots_a_party_is_refused_on_its_own_slots_only_s04(
        party in 1..8usize,
        others in 1..24usize,
        moves in prop::collection::vec((any::<prop::sample::Index>(), 0..200usize, 0..10u8), 10..60),
        restart_at in any::<prop::sample::Index>(),
    ) {
        let mut crowd = Crowd::new();
        let mut others: Vec<_> = (0..others).map(|_| (crowd.connect(), 0)).collect();
        let mut party: Vec<_> = (0..party).map(|_| crowd.connect()).collect();
        let mut party_ever: BTreeSet<_> = party.iter().copied().collect();
        let restart_at = restart_at.index(moves.len());
        for (at, (whose, count, kind)) in moves.into_iter().enumerate() {
            match kind {
                // One of the party's connections leaves, and comes back as another.
                0 => {
                    let slot = party.swap_remove(whose.index(party.len()));
                    crowd.node.engine.release_slot(slot);
                    party.push(crowd.connect());
                    party_ever.extend(&party);
                }
                // Another connection brings up to its floor.
                1..=3 => {
                    let index = whose.index(others.len());
                    let (slot, held) = &mut others[index];
                    let (slot, more) = (*slot, count.min(SLOT_FLOOR - *held));
                    *held += more;
                    for _ in 0..more {
                        let admitted = crowd.fresh(Introducer::Slot(slot));
                        prop_assert_eq!(admitted, Ok(()));
                    }
                }
                // The party brings as many origins as it likes.
                _ => {
                    let slot = *whose.get(&party);
                    for _ in 0..count * 8 {
                        if let Err(full) = crowd.fresh(Introducer::Slot(slot)) {
                            prop_assert_eq!(full.introducer, Introducer::Slot(slot));
                            break;
                        }
                    }
                }
            }
            while crowd.node.write() {}
            crowd.node.drain();
            if at == restart_at {
                // A restart recovers every charge from the records.
                let charged = |node: &Node| -> Vec<_> {
                    let slots = others.iter().map(|(slot, _)| *slot).chain(party_ever.clone());
                    slots.map(|slot| node.engine.charged(Introducer::Slot(slot))).collect()
                };
                let again = Node::over(crowd.node.disk.clone(), crowd.node.now);
                prop_assert_eq!(charged(&again), charged(&crowd.node));
            }
        }
        for (slot, held) in &others {
            prop_assert_eq!(crowd.node.engine.charged(Introducer::Slot(*slot)), *held);
            prop_assert!(!party_ever.contains(slot));
        }
    }
}

#[test]
pub(crate) fn law_slots_every_share_is_filled_and_none_spills_s04() {
    let mut crowd = Crowd::new();
    let slots: Vec<_> = (0..SLOTS).map(|_| crowd.connect()).collect();
    assert_eq!(crowd.node.engine.claim_slot(did(5)), None);
    let (party, honest) = slots.split_first().unwrap();
    // One party takes its floor and the whole pool: nobody else wants any of it yet.
    let (admitted, full) = crowd.flood(Introducer::Slot(*party));
    assert_eq!(admitted, SLOT_FLOOR + SLOT_POOL);
    assert_eq!(
        (full.share, full.limit),
        (Share::FairClaim, SLOT_FLOOR + SLOT_POOL)
    );
    // Still everybody has a floor, the inbox and this node have their shares.
    for slot in honest {
        let (admitted, full) = crowd.flood(Introducer::Slot(*slot));
        assert_eq!((admitted, full.share), (SLOT_FLOOR, Share::Pool));
        while crowd.node.write() {}
        crowd.node.drain();
    }
    for (introducer, share, limit) in [
        (Introducer::Inbox, Share::Inbox, INBOX_SHARE),
        (Introducer::Own, Share::Own, OWN_SHARE),
    ] {
        let mut admitted = 0;
        let full = loop {
            crowd.origins += 1;
            // Control streams: mail of them is not kept in custody's way by this test alone.
            let ticket = crowd
                .node
                .offer(crowd.node.item(stream(crowd.origins), 1, 1), introducer);
            crowd.node.pass(4);
            match crowd.node.answer(ticket) {
                Outcome::Admitted(_) => admitted += 1,
                Outcome::InCustody(mail) => {
                    admitted += 1;
                    let taken = crowd.node.engine.stage_take(mail, crowd.node.now);
                    assert_eq!(word(&crowd.node.answer(taken)), "first");
                }
                Outcome::Refused {
                    refusal: Refusal::StreamShareFull { full, .. },
                    ..
                } => break full,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((admitted, full.share, full.limit), (limit, share, limit));
    }
    let held = crowd.node.engine.receivers().count();
    let bound = usize::from(SLOTS) * SLOT_FLOOR + SLOT_POOL + INBOX_SHARE + OWN_SHARE;
    assert_eq!((held, bound), (15_616, 15_616));
    for name in [
        "replay_slot_pool",
        "replay_inbox_share",
        "replay_own_share",
        "replay_slots",
    ] {
        let line = crowd
            .node
            .engine
            .bounds()
            .find(|it| it.name == name)
            .unwrap();
        assert_eq!(
            (line.current, line.high_water),
            (line.limit, line.limit),
            "{name}"
        );
    }
}

#[test]
fn law_slots_claims_on_the_pool_are_fair() {
    let mut crowd = Crowd::new();
    let slots = [crowd.connect(), crowd.connect(), crowd.connect()];
    for _ in 0..=SLOT_FLOOR {
        for slot in slots {
            crowd.fresh(Introducer::Slot(slot)).unwrap();
        }
    }
    for slot in slots {
        let (_, full) = crowd.flood(Introducer::Slot(slot));
        let fair = SLOT_FLOOR + SLOT_POOL.div_ceil(3);
        // The last of them is a stream short: a third of the pool is no whole number.
        let pool = (Share::Pool, SLOT_POOL);
        assert!([(Share::FairClaim, fair), pool].contains(&(full.share, full.limit)));
        let charged = crowd.node.engine.charged(Introducer::Slot(slot));
        assert!(charged + 2 >= fair, "{charged} of {fair}");
    }
}

#[test]
fn law_slots_a_newcomer_gets_the_cleanest_free_slot_and_inherits_what_it_holds() {
    let mut crowd = Crowd::new();
    let slots: Vec<_> = (0..SLOTS).map(|_| crowd.connect()).collect();
    for (streams, slot) in slots.iter().enumerate().take(20) {
        for _ in 0..20 - streams {
            crowd.fresh(Introducer::Slot(*slot)).unwrap();
        }
    }
    for slot in &slots[..20] {
        crowd.node.engine.release_slot(*slot);
        assert_eq!(crowd.node.engine.slot_peer(*slot), None);
    }
    for expected in slots[..20].iter().rev() {
        assert_eq!(crowd.connect(), *expected);
    }
    assert_eq!(crowd.node.engine.charged(Introducer::Slot(slots[0])), 20);
}

#[test]
fn law_slots_where_slots_shrink_their_streams_count_in_the_table_alone() {
    let mut crowd = Crowd::new();
    let slots: Vec<_> = (0..SLOTS).map(|_| crowd.connect()).collect();
    for slot in [slots[0], slots[327]] {
        for _ in 0..10 {
            crowd.fresh(Introducer::Slot(slot)).unwrap();
        }
    }
    while crowd.node.write() {}
    let config = EngineConfig {
        successors: 1,
        ..EngineConfig::default()
    };
    let scan = crowd.node.disk.scan();
    let mut engine = Engine::<Item>::restore(config, scan, crowd.node.now);
    assert_eq!(engine.charged(Introducer::Slot(slots[0])), 10);
    let sheet = |engine: &Engine<Item>, name| engine.bounds().find(|it| it.name == name).unwrap();
    assert_eq!(sheet(&engine, "replay_slots").limit, 324);
    assert_eq!(sheet(&engine, "replay_receiver_streams").current, 20);
    assert_eq!(sheet(&engine, "replay_slot_floor").current, 10);
    for _ in 0..324 {
        assert_ne!(engine.claim_slot(did(3)), Some(slots[327]));
    }
    // Streams of a slot that is gone are judged like any other.
    let again = Item::new(stream(15), 1, 1, crowd.node.now);
    engine.stage_admission(again, Introducer::Slot(slots[0]), crowd.node.now);
    assert_eq!(word(&engine.poll_outcome().unwrap().1), "replay/replay");
}
