//! The small values everything else is named by.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// The network a node belongs to. Signed into every delegation, transaction and offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkId(pub u32);

impl fmt::Display for NetworkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An account's place on the ring: 160 bits, big-endian, printed as 40 hex digits.
/// Source: protocol decision 1 (identity).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Did(pub [u8; 20]);

/// 32-byte BLAKE3 digest of a transaction's transcript.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionDigest(pub [u8; 32]);

/// A transaction's own 16-byte name, chosen by its origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxId(pub [u8; 16]);

/// Text that is not the hexadecimal form of the value asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {digits} hexadecimal digits")]
pub struct NotHex {
    /// How many digits the value has.
    pub digits: usize,
}

macro_rules! hex_text {
    ($name:ident, $bytes:literal) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl FromStr for $name {
            type Err = NotHex;

            fn from_str(text: &str) -> Result<Self, NotHex> {
                parse_hex(text)
                    .map(Self)
                    .ok_or(NotHex { digits: 2 * $bytes })
            }
        }
    };
}

hex_text!(Did, 20);
hex_text!(TransactionDigest, 32);
hex_text!(TxId, 16);

/// Exactly `2 * N` hexadecimal digits, of either case.
pub(crate) fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let mut digits = pair.iter().map(|&digit| char::from(digit).to_digit(16));
        let high = digits.next()??;
        let low = digits.next()??;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(bytes)
}

/// The traffic class of a message, derived from its signed data on both sides. Each class has
/// its own lane, its own data channel and its own streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// DHT control.
    Control = 0,
    /// Storage.
    Storage = 1,
    /// End-to-end sessions.
    E2e = 2,
    /// Application.
    Application = 3,
}

impl Class {
    /// All classes, in channel order.
    pub const ALL: [Self; 4] = [Self::Control, Self::Storage, Self::E2e, Self::Application];

    /// The class with this number; `None` for any other number than 0 to 3.
    pub fn from_index(index: u8) -> Option<Self> {
        Self::ALL.get(usize::from(index)).copied()
    }

    /// The class's number, which is also its lane's and its data channel's.
    pub const fn index(self) -> u8 {
        self as u8
    }

    /// The class's one name, in logs, metrics and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Storage => "storage",
            Self::E2e => "e2e",
            Self::Application => "application",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What replay state is keyed by. Source: seed 1, "Stream and transcript".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamKey {
    /// The network.
    pub network: NetworkId,
    /// The account that signed (not its delegatee, not a relay).
    pub origin: Did,
    /// The final destination.
    pub destination: Did,
    /// The class of the signed data.
    pub class: Class,
}

/// By origin, then destination, network and class. Keys of a table differ in an account as a rule,
/// and accounts are hashes: their first bytes, as one number, decide nearly every comparison.
impl Ord for StreamKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let rest = |key: &Self| (key.origin, key.destination, key.network, key.class);
        let first = head(&self.origin).cmp(&head(&other.origin));
        first.then_with(|| rest(self).cmp(&rest(other)))
    }
}

impl PartialOrd for StreamKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The first eight bytes, as the number whose order is theirs.
fn head(did: &Did) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = did.0;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

impl fmt::Display for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            network,
            origin,
            destination,
            class,
        } = self;
        write!(f, "{network}:{origin}>{destination}/{class}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trips_and_refuses_other_lengths() {
        let did = Did([0xab; 20]);
        assert_eq!(did.to_string().parse(), Ok(did));
        assert_eq!("ab".parse::<Did>(), Err(NotHex { digits: 40 }));
        assert_eq!("zz".repeat(20).parse::<Did>(), Err(NotHex { digits: 40 }));
        assert_eq!("+1".repeat(20).parse::<Did>(), Err(NotHex { digits: 40 }));
    }

    #[test]
    fn streams_are_ordered_by_their_ends_then_network_then_class() {
        let key = |origin: u8, tail: u8, destination: u8, network: u32, class| {
            let mut did = [origin; 20];
            did[19] = tail;
            StreamKey {
                network: NetworkId(network),
                origin: Did(did),
                destination: Did([destination; 20]),
                class,
            }
        };
        let ascending = [
            key(1, 9, 9, 9, Class::Application),
            key(2, 0, 9, 9, Class::Application),
            key(2, 1, 8, 9, Class::Application),
            key(2, 1, 9, 1, Class::Application),
            key(2, 1, 9, 2, Class::Control),
            key(2, 1, 9, 2, Class::E2e),
        ];
        assert!(ascending.is_sorted_by(|one, next| one < next));
        assert_eq!(ascending[5].cmp(&ascending[5].clone()), Ordering::Equal);
    }

    #[test]
    fn classes_are_their_channels() {
        for (index, class) in (0u8..).zip(Class::ALL) {
            assert_eq!(class.index(), index);
            assert_eq!(Class::from_index(index), Some(class));
        }
        assert_eq!(Class::from_index(4), None);
    }
}
