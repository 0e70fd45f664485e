//! Shares of a bound that many have to live within.
//!
//! Law **share**: whoever asks takes a place only while more places are free than it holds, and bytes
//! only while it holds, with them, no more than is free. So one alone gets half of the bound, `k` of
//! them together leave one place in `k + 1` free, and whoever holds none finds a place while there
//! are fewer of them than places: who is stuck keeps nobody else out. The same law as that of sources
//! in signalling. Source: protocol decision 6 (sends made while handling never wait on another peer).

use std::collections::BTreeMap;

use overlane_core::Did;

/// A bound of places and bytes, and who holds how much of it.
#[derive(Debug)]
pub(crate) struct Shares {
    most: Held,
    all: Held,
    high_water: Held,
    held: BTreeMap<Did, Held>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Held {
    places: usize,
    bytes: u64,
}

impl Shares {
    /// A bound of so many places, and of so many bytes in them.
    pub(crate) fn new(places: usize, bytes: u64) -> Self {
        Self {
            most: Held { places, bytes },
            all: Held::default(),
            high_water: Held::default(),
            held: BTreeMap::new(),
        }
    }

    /// Takes a place for so many bytes, if `of` may. Where nobody holds any, any number of bytes is
    /// taken.
    pub(crate) fn take(&mut self, of: Did, bytes: u64) -> bool {
        let own = self.held.get(&of).copied().unwrap_or_default();
        let free = self.most.places.saturating_sub(self.all.places);
        let free_bytes = self.most.bytes.saturating_sub(self.all.bytes);
        let fits = self.all.places == 0 || own.bytes.saturating_add(bytes) <= free_bytes;
        let may = own.places < free && fits;
        if may {
            let own = self.held.entry(of).or_default();
            for held in [own, &mut self.all] {
                held.places += 1;
                held.bytes = held.bytes.saturating_add(bytes);
            }
            let high_water = &mut self.high_water;
            high_water.places = high_water.places.max(self.all.places);
            high_water.bytes = high_water.bytes.max(self.all.bytes);
        }
        may
    }

    /// Gives a place of so many bytes back.
    pub(crate) fn give_back(&mut self, of: Did, bytes: u64) {
        self.change(of, 1, bytes);
    }

    /// Gives so many bytes back whose place is held on.
    pub(crate) fn give_back_bytes(&mut self, of: Did, bytes: u64) {
        self.change(of, 0, bytes);
    }

    /// Places held now.
    pub(crate) fn places(&self) -> usize {
        self.all.places
    }

    /// The most places ever held at once.
    pub(crate) fn high_water(&self) -> usize {
        self.high_water.places
    }

    /// Bytes: the most there may be, held now, and the most ever held at once.
    pub(crate) fn bytes(&self) -> [u64; 3] {
        [self.most.bytes, self.all.bytes, self.high_water.bytes]
    }

    /// Holds so many bytes at most from now on.
    pub(crate) fn set_max_bytes(&mut self, max_bytes: u64) {
        self.most.bytes = max_bytes;
    }

    fn change(&mut self, of: Did, places: usize, bytes: u64) {
        let Some(own) = self.held.get_mut(&of) else {
            return;
        };
        let (places, bytes) = (places.min(own.places), bytes.min(own.bytes));
        for held in [own, &mut self.all] {
            held.places = held.places.saturating_sub(places);
            held.bytes = held.bytes.saturating_sub(bytes);
        }
        if self.held.get(&of) == Some(&Held::default()) {
            self.held.remove(&of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn did(number: usize) -> Did {
        let mut did = [0; 20];
        did[..8].copy_from_slice(&number.to_be_bytes());
        Did(did)
    }

    /// How many places each of `greedy` gets, one after another, if it takes all it may.
    fn taken(shares: &mut Shares, greedy: usize) -> Vec<usize> {
        let mut take = |of| (0..2_000).filter(|_| shares.take(did(of), 1)).count();
        (0..greedy).map(&mut take).collect()
    }

    #[test]
    fn law_share_who_takes_all_it_may_leaves_places_to_others() {
        let mut shares = Shares::new(1_024, 1 << 30);
        assert_eq!(taken(&mut shares, 4), [512, 256, 128, 64]);
        assert!(shares.take(did(9), 1), "whoever holds none finds a place");
        assert_eq!(shares.places(), 961);
        assert_eq!(shares.high_water(), 961);
        for _ in 0..512 {
            shares.give_back(did(0), 1);
        }
        // What it never took, it cannot give back.
        shares.give_back(did(0), 1);
        assert_eq!(shares.places(), 449);
        assert!(shares.take(did(0), 1));
    }

    #[test]
    fn law_share_holds_for_bytes_and_one_message_alone_may_be_larger() {
        let mut shares = Shares::new(1_024, 100);
        assert!(shares.take(did(0), 101));
        assert!(!shares.take(did(1), 1));
        shares.give_back(did(0), 101);
        assert!(shares.take(did(0), 50));
        assert!(!shares.take(did(0), 1));
        assert!(shares.take(did(1), 25));
        assert!(!shares.take(did(1), 1));
        assert!(shares.take(did(2), 12));
        shares.give_back_bytes(did(0), 50);
        assert!(shares.take(did(1), 19));
        shares.give_back(did(0), 0);
        shares.give_back(did(1), 25);
        shares.give_back(did(1), 19);
        shares.give_back(did(2), 12);
        assert_eq!((shares.places(), shares.held.len()), (0, 0));
    }
}
