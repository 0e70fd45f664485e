//! Where offers come from, and how many places of a bound one source may hold.
//!
//! Identities are free to mint, addresses are not. Law (share): a source takes a place only while more
//! places are free than it holds. So one source alone gets half of a bound, `k` of them together leave
//! one place in `k + 1` free, and whoever holds none finds a place while there are fewer sources than
//! places. Source: threats 5 and 14.

use std::net::IpAddr;

use crate::ids::Did;

/// Who answers for an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// This machine. It has no share of its own: who is on it can take more than places.
    Local,
    /// An IPv4 address.
    V4([u8; 4]),
    /// An IPv6 site: the first 48 bits of its addresses, which is what one is commonly given.
    V6([u8; 6]),
    /// A linked peer that brought the offer by way of the ring: links are bounded as addresses are.
    Carrier(Did),
}

impl Source {
    /// The source that an offer from `address` is charged to.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            address if address.is_loopback() => Self::Local,
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, ..] = address.octets();
                Self::V6([a, b, c, d, e, f])
            }
        }
    }

    /// Whether it may take another place of a bound of `max`, of which `used` are taken, `held` of
    /// them by itself.
    pub const fn may_take(self, held: usize, used: usize, max: usize) -> bool {
        let free = max.saturating_sub(used);
        match self {
            Self::Local => free > 0,
            Self::V4(_) | Self::V6(_) | Self::Carrier(_) => held < free,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const MAX: usize = 64;

    /// Each of `greedy` sources takes all that it may, in turns; the places left free.
    fn free_beside(greedy: u8) -> usize {
        let mut held = BTreeMap::new();
        loop {
            let mut took = false;
            for source in (0..greedy).map(|at| Source::V4([10, 0, 0, at])) {
                let used = held.values().sum();
                let own = held.entry(source).or_insert(0);
                if source.may_take(*own, used, MAX) {
                    *own += 1;
                    took = true;
                }
            }
            if !took {
                return MAX - held.values().sum::<usize>();
            }
        }
    }

    #[test]
    fn law_greedy_sources_leave_places_to_others() {
        assert_eq!(free_beside(1), MAX / 2);
        for greedy in 1..MAX as u8 {
            let free = free_beside(greedy);
            assert!(free >= MAX / (usize::from(greedy) + 1), "{greedy}: {free}");
            assert!(Source::V4([9; 4]).may_take(0, MAX - free, MAX));
        }
    }

    #[test]
    fn a_bound_is_never_passed_and_this_machine_may_fill_it() {
        for source in [Source::Local, Source::V4([9; 4]), Source::V6([9; 6])] {
            assert!(!source.may_take(0, MAX, MAX));
            assert!(source.may_take(0, MAX - 1, MAX));
        }
        assert!(Source::Local.may_take(MAX - 1, MAX - 1, MAX));
    }

    #[test]
    fn a_site_is_one_source_and_so_is_an_address_in_any_dress() {
        let of = |text: &str| Source::of(text.parse().unwrap());
        assert_eq!(of("127.0.0.9"), Source::Local);
        assert_eq!(of("::1"), Source::Local);
        assert_eq!(of("::ffff:127.0.0.1"), Source::Local);
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("2001:db8:1:2::3"), of("2001:db8:1:ffff::"));
        assert_ne!(of("2001:db8:1::"), of("2001:db8:2::"));
    }
}
