//! The UDP ports that links are bound to.

use std::fmt;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::str::FromStr;

use super::config::SOCKETS_DEFAULT_MAX;

/// The fewest ports of a range: one for each socket of a node of the default bounds.
pub const PORTS_MIN: u16 = SOCKETS_DEFAULT_MAX as u16;

/// The UDP ports that links are bound to: any that the system gives, or a range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ports(Option<(u16, u16)>);

impl Ports {
    /// The ports from `first` to `last`; `None` where they are fewer than [`PORTS_MIN`].
    pub const fn range(first: u16, last: u16) -> Option<Self> {
        if first == 0 || last < first || last - first < PORTS_MIN - 1 {
            return None;
        }
        Some(Self(Some((first, last))))
    }

    /// How many there are; `None` where the system gives them.
    pub fn count(self) -> Option<u16> {
        self.0.map(|(first, last)| last - first + 1)
    }

    /// A free port of `address`, the first from `start` on, around the range; 0, for the system to
    /// choose, where there is no range, and `None` where every port of it is taken.
    ///
    /// The port is free when this looks, and may be taken before it is bound.
    pub fn free(self, address: IpAddr, start: u16) -> Option<u16> {
        let (Some((first, last)), Some(count)) = (self.0, self.count()) else {
            return Some(0);
        };
        let from = first + start % count;
        let ports = (from..=last).chain(first..from);
        ports
            .map(|port| SocketAddr::new(address, port))
            .find(|address| UdpSocket::bind(address).is_ok())
            .map(|address| address.port())
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((first, last)) => write!(f, "{first}-{last}"),
            None => f.write_str("any"),
        }
    }
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "any" {
            return Ok(Self::default());
        }
        let ends = text.split_once('-');
        let ends = ends.and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        let range = ends.and_then(|(first, last)| Self::range(first, last));
        range.ok_or_else(|| {
            format!(
                "\"{text}\" is no range of {PORTS_MIN} ports or more; expected \"any\", or first and last, as in \
                 \"24000-25023\""
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_and_written_and_is_no_smaller_than_a_node_needs() {
        for text in ["any", "24000-25023", "1-64", "65472-65535"] {
            assert_eq!(
                text.parse::<Ports>().map(|it| it.to_string()),
                Ok(text.to_owned())
            );
        }
        for wrong in [
            "", "1", "0-100", "1-63", "100-1", "1-65536", "a-b", "1-64-128",
        ] {
            assert!(wrong.parse::<Ports>().is_err(), "{wrong}");
        }
        assert_eq!(
            Ports::range(24_000, 24_063).and_then(Ports::count),
            Some(64)
        );
    }

    #[test]
    fn the_next_free_port_is_found_around_the_range_until_none_is_left() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let held = |ports: Ports| {
            let mut held = Vec::new();
            while let Some(port) = ports.free(here, 60) {
                held.push(UdpSocket::bind((here, port)).expect("free"));
                assert!(held.len() <= 64);
            }
            held.iter()
                .map(|it| it.local_addr().expect("bound").port())
                .collect::<Vec<_>>()
        };
        // Others may have some of them; the last that is free comes before the first.
        let ports = Ports::range(23_900, 23_963).expect("a range");
        let taken = held(ports);
        assert!(taken.iter().all(|port| (23_900..=23_963).contains(port)));
        assert!(taken.len() > 4, "{taken:?}");
        assert!(taken.first() > taken.last(), "{taken:?}");
        assert_eq!(Ports::default().free(here, 7), Some(0));
    }
}
