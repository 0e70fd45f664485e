//! Places on the ring: 160-bit numbers, clockwise, without end.

use crate::ids::Did;

/// Bits of a place, and so slots of a finger table.
pub const PLACE_BITS: u8 = 160;

/// How far one place lies clockwise after another, in 160 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Distance {
    high: u128,
    low: u32,
}

impl Distance {
    /// From `from` clockwise to `to`; zero when they are the same.
    pub fn between(from: Did, to: Did) -> Self {
        let (from, to) = (Self::of(from), Self::of(to));
        let (low, borrow) = to.low.overflowing_sub(from.low);
        let high = to.high.wrapping_sub(from.high);
        let high = high.wrapping_sub(u128::from(borrow));
        Self { high, low }
    }

    /// Two to the power of `bit`; zero from [`PLACE_BITS`] on.
    pub fn power_of_two(bit: u8) -> Self {
        let bit = u32::from(bit);
        Self {
            low: 1_u32.checked_shl(bit).unwrap_or_default(),
            high: bit
                .checked_sub(u32::BITS)
                .and_then(|bit| 1_u128.checked_shl(bit))
                .unwrap_or_default(),
        }
    }

    /// The place that lies this far clockwise after `from`.
    pub fn after(self, from: Did) -> Did {
        let from = Self::of(from);
        let (low, carry) = from.low.overflowing_add(self.low);
        let high = from.high.wrapping_add(self.high);
        let high = high.wrapping_add(u128::from(carry));
        let mut bytes = [0; 20];
        let (head, tail) = bytes.split_at_mut(16);
        head.copy_from_slice(&high.to_be_bytes());
        tail.copy_from_slice(&low.to_be_bytes());
        Did(bytes)
    }

    fn of(place: Did) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t] = place.0;
        Self {
            high: u128::from_be_bytes([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]),
            low: u32::from_be_bytes([q, r, s, t]),
        }
    }
}

/// Whether `place` lies on the way clockwise from `from` to `to`, both excluded. From a place to
/// itself, the way is the whole ring.
pub fn is_between(from: Did, place: Did, to: Did) -> bool {
    let at = Distance::between(from, place);
    place != from && (from == to || at < Distance::between(from, to))
}

/// As [`is_between`], `to` included: whether the node at `to`, with no other after `from`, owns
/// `place`.
pub fn is_owned(from: Did, place: Did, to: Did) -> bool {
    place == to || is_between(from, place, to)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn did(last: u8) -> Did {
        let mut bytes = [0; 20];
        bytes[19] = last;
        Did(bytes)
    }

    fn any_did() -> impl Strategy<Value = Did> {
        any::<[u8; 20]>().prop_map(Did)
    }

    #[test]
    fn distances_wrap_and_carry_over_the_whole_width() {
        let last = Did([0xff; 20]);
        assert_eq!(Distance::between(last, did(0)), Distance::power_of_two(0));
        assert_eq!(Distance::power_of_two(0).after(last), did(0));
        assert_eq!(
            Distance::between(did(7), did(7)),
            Distance { high: 0, low: 0 }
        );
        let bit_32 = Distance::power_of_two(32).after(did(0));
        assert_eq!(bit_32.0[15], 1);
        let top = Distance::power_of_two(PLACE_BITS - 1).after(did(0));
        assert_eq!(top.0[0], 0x80);
        assert!(Distance::power_of_two(31) < Distance::power_of_two(32));
        assert_eq!(Distance::power_of_two(PLACE_BITS).after(did(3)), did(3));
    }

    #[test]
    fn ways_are_clockwise_and_a_way_to_itself_is_the_whole_ring() {
        assert!(is_between(did(1), did(2), did(3)));
        assert!(!is_between(did(1), did(3), did(3)) && is_owned(did(1), did(3), did(3)));
        assert!(!is_between(did(3), did(2), did(1)) && is_between(did(3), did(0), did(1)));
        assert!(is_between(did(5), did(6), did(5)) && !is_between(did(5), did(5), did(5)));
        assert!(is_owned(did(5), did(5), did(5)));
    }

    proptest! {
        #[test]
        fn prop_going_the_distance_arrives(from in any_did(), to in any_did()) {
            prop_assert_eq!(Distance::between(from, to).after(from), to);
        }

        #[test]
        fn prop_of_three_places_the_order_is_one_of_two(a in any_did(), b in any_did(), c in any_did()) {
            prop_assume!(a != b && b != c && a != c);
            prop_assert!(is_between(a, b, c) ^ is_between(a, c, b));
            prop_assert_eq!(is_between(a, b, c), is_between(b, c, a));
        }
    }
}
