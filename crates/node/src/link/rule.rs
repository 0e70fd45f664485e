//! Which of two links between the same two nodes stands.
//!
//! Law (one link): both nodes judge two offers by what is signed in them alone, so both keep the
//! same link, whatever order they hear of them in.
//!
//! Source: protocol decision 6 (two crossing offers: the smaller Did's wins).

use overlane_core::Did;

/// Offers of the two sides issued within this long of each other cross: neither had heard of the
/// other's. A handshake takes less; a node that lost its links and dials again takes longer.
pub const CROSSING_MS: u64 = 2_000;

/// What an offer is judged by. All of it is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Who offered.
    pub(crate) offerer: Did,
    /// When.
    pub(crate) issued_ms: u64,
    /// Settles the rest.
    pub(crate) nonce: [u8; 32],
}

impl Mark {
    /// Whether the link of this offer stands where the other also is.
    ///
    /// Of one side's offers the newer stands, and of two sides' that do not cross: the older link
    /// is one that somebody no longer had.
    pub(crate) fn stands_against(&self, other: &Self) -> bool {
        let crossing = self.issued_ms.abs_diff(other.issued_ms) <= CROSSING_MS;
        if self.offerer != other.offerer && crossing {
            return self.offerer < other.offerer;
        }
        (self.issued_ms, self.nonce) > (other.issued_ms, other.nonce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(offerer: u8, issued_ms: u64, nonce: u8) -> Mark {
        Mark {
            offerer: Did([offerer; 20]),
            issued_ms,
            nonce: [nonce; 32],
        }
    }

    #[test]
    fn law_of_two_offers_exactly_one_stands() {
        let marks: Vec<_> = [1, 2]
            .into_iter()
            .flat_map(|offerer| {
                [0, 1, CROSSING_MS, CROSSING_MS + 1, 9 * CROSSING_MS]
                    .into_iter()
                    .flat_map(move |at| [1, 2].map(|nonce| mark(offerer, 1_000 + at, nonce)))
            })
            .collect();
        for one in &marks {
            for other in &marks {
                let stand = one.stands_against(other) ^ other.stands_against(one);
                assert_eq!(stand, one != other, "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn crossing_offers_go_by_did_and_later_ones_by_time() {
        assert!(mark(1, 1_000, 1).stands_against(&mark(2, 1_000 + CROSSING_MS, 2)));
        assert!(mark(2, 1_001 + CROSSING_MS, 1).stands_against(&mark(1, 1_000, 2)));
        assert!(mark(1, 1_001, 1).stands_against(&mark(1, 1_000, 2)));
    }
}
