//! The laws of `wire::cbor`, with `ciborium` as the oracle.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use overlane_core::wire::cbor::{
    CborError, CborReason, DEPTH_MAX, Decode, Encode, Reader, Value, Writer, from_slice, to_vec,
};
use proptest::prelude::*;

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u64>().prop_map(Value::Uint),
        (0..300_u64).prop_map(Value::Uint),
        any::<u64>().prop_map(Value::Negative),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(Value::Bytes),
        any::<String>().prop_map(Value::Text),
        any::<bool>().prop_map(Value::Boolean),
        Just(Value::Null),
        any::<f64>().prop_map(Value::Float),
        any::<f32>().prop_map(|float| Value::Float(float.into())),
        any::<i8>().prop_map(|float| Value::Float(float.into())),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let depth = u32::try_from(DEPTH_MAX).unwrap();
    scalar().prop_recursive(depth, 64, 6, |inner| {
        let entries = proptest::collection::vec((inner.clone(), inner.clone()), 0..6);
        prop_oneof![
            proptest::collection::vec(inner, 0..6).prop_map(Value::Array),
            entries.prop_map(|entries| Value::map(entries).unwrap_or(Value::Null)),
        ]
    })
}

/// The same value as the oracle has it.
fn oracle(value: &Value) -> ciborium::Value {
    match value {
        Value::Uint(value) => ciborium::Value::Integer((*value).into()),
        Value::Negative(value) => {
            ciborium::Value::Integer((-1 - i128::from(*value)).try_into().unwrap())
        }
        Value::Bytes(value) => ciborium::Value::Bytes(value.clone()),
        Value::Text(value) => ciborium::Value::Text(value.clone()),
        Value::Array(items) => ciborium::Value::Array(items.iter().map(oracle).collect()),
        Value::Map(entries) => ciborium::Value::Map(
            entries
                .iter()
                .map(|(key, value)| (oracle(key), oracle(value)))
                .collect(),
        ),
        Value::Boolean(value) => ciborium::Value::Bool(*value),
        Value::Null => ciborium::Value::Null,
        Value::Float(value) => ciborium::Value::Float(*value),
    }
}

fn assert_reads_back(bytes: &[u8]) {
    if let Ok(value) = from_slice::<Value>(bytes) {
        assert_eq!(to_vec(&value), bytes, "accepted, so this is its one form");
    }
}

proptest! {
    #[test]
    fn prop_what_is_written_the_oracle_reads_and_writes_equally(value in value()) {
        let bytes = to_vec(&value);
        let mut theirs = Vec::new();
        ciborium::into_writer(&oracle(&value), &mut theirs).unwrap();
        prop_assert_eq!(&theirs, &bytes);
        // Compared as bytes, because a NaN equals nothing.
        let read: ciborium::Value = ciborium::from_reader(bytes.as_slice()).unwrap();
        let mut again = Vec::new();
        ciborium::into_writer(&read, &mut again).unwrap();
        prop_assert_eq!(&again, &bytes);
        prop_assert_eq!(to_vec(&from_slice::<Value>(&bytes).unwrap()), bytes);
    }

    #[test]
    fn prop_what_is_accepted_has_one_form(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        assert_reads_back(&bytes);
    }

    #[test]
    fn prop_a_changed_byte_gives_another_value_or_none(
        value in value(), at in any::<prop::sample::Index>(), with in 1..=255_u8,
    ) {
        let mut bytes = to_vec(&value);
        let at = at.index(bytes.len());
        bytes[at] ^= with;
        assert_reads_back(&bytes);
    }

    #[test]
    fn prop_every_truncation_is_refused(value in value()) {
        let bytes = to_vec(&value);
        for length in 0..bytes.len() {
            prop_assert!(from_slice::<Value>(&bytes[..length]).is_err(), "{} bytes", length);
        }
    }

    #[test]
    fn prop_anything_after_a_value_is_refused(value in value(), extra in any::<u8>()) {
        let mut bytes = to_vec(&value);
        bytes.push(extra);
        prop_assert!(from_slice::<Value>(&bytes).is_err());
    }

    #[test]
    fn prop_what_the_oracle_refuses_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if from_slice::<Value>(&bytes).is_ok() {
            prop_assert!(ciborium::from_reader::<ciborium::Value, _>(bytes.as_slice()).is_ok());
        }
    }

    #[test]
    fn prop_a_map_has_one_order(entries in proptest::collection::vec((value(), value()), 0..6)) {
        let mut reversed = entries.clone();
        reversed.reverse();
        let forward = Value::map(entries).map(|map| to_vec(&map));
        prop_assert_eq!(forward, Value::map(reversed).map(|map| to_vec(&map)));
    }
}

#[test]
fn law_containers_nest_to_the_bound_and_no_deeper() {
    for opener in [0x81, 0xa1_u8] {
        let nested = |depth: usize| {
            let mut bytes = Vec::new();
            for _ in 0..depth {
                bytes.push(opener);
                if opener == 0xa1 {
                    bytes.push(0x00);
                }
            }
            bytes.push(0x00);
            bytes
        };
        assert!(from_slice::<Value>(&nested(DEPTH_MAX)).is_ok());
        let error = from_slice::<Value>(&nested(DEPTH_MAX + 1)).unwrap_err();
        assert_eq!(error.reason, CborReason::TooDeep);
        // A bomb is refused at the same place, whatever its size, on a stack too small to recurse.
        let bomb = nested(1_000_000);
        let on_a_small_stack = std::thread::Builder::new()
            .stack_size(128 * 1024)
            .spawn(move || from_slice::<Value>(&bomb).unwrap_err());
        assert_eq!(on_a_small_stack.unwrap().join().unwrap(), error);
    }
    let empty_at_the_bottom = [[0x81; DEPTH_MAX].as_slice(), &[0x80]].concat();
    let error = from_slice::<Value>(&empty_at_the_bottom).unwrap_err();
    assert_eq!(
        error.reason,
        CborReason::TooDeep,
        "an empty container nests too"
    );
}

#[test]
fn law_a_length_is_never_believed_beyond_the_input() {
    for major in [0x40, 0x60, 0x80, 0xa0_u8] {
        for declared in [1_u64, 24, 256, 65_536, 1 << 32, u64::MAX] {
            let mut head = to_vec(&declared);
            head[0] |= major;
            let error = from_slice::<Value>(&head).unwrap_err();
            assert!(
                matches!(error.reason, CborReason::TooLong { remaining: 0, .. }),
                "{head:02x?}: {error}",
            );
        }
    }
}

/// A structure that reads fewer items than its array holds.
struct Short;

impl<'a> Decode<'a> for Short {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.array()?;
        reader.uint()?;
        Ok(Self)
    }
}

#[test]
fn law_a_container_is_read_to_its_end() {
    assert!(from_slice::<Short>(&[0x81, 0x00]).is_ok());
    let error = from_slice::<Short>(&[0x82, 0x00, 0x00]).err().unwrap();
    assert_eq!(error.reason, CborReason::Trailing);
}

struct Pair(u16, Option<[u8; 2]>);

impl Encode for Pair {
    fn encode(&self, writer: &mut Writer) {
        writer.array(2).value(&self.0).value(&self.1);
    }
}

impl<'a> Decode<'a> for Pair {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        Ok(Self(reader.u16()?, reader.value()?))
    }
}

#[test]
fn golden_a_typed_structure_refuses_what_is_not_its_own() {
    assert_eq!(
        to_vec(&Pair(500, Some([1, 2]))),
        [0x82, 0x19, 1, 0xf4, 0x42, 1, 2]
    );
    assert_eq!(to_vec(&Pair(0, None)), [0x82, 0, 0xf6]);
    for (bytes, text) in [
        (
            "830000f6",
            "CBOR at byte 0: expected a length of 2, found 3",
        ),
        (
            "820043010203",
            "CBOR at byte 2: expected a length of 2, found 3",
        ),
        (
            "821a00010000f6",
            "CBOR at byte 1: not a valid integer: too large",
        ),
        (
            "822000",
            "CBOR at byte 1: expected an unsigned integer, found a negative integer",
        ),
        (
            "820060",
            "CBOR at byte 2: expected a byte string, found text",
        ),
        (
            "8200f7",
            "CBOR at byte 2: tags, undefined and unassigned simple values are not used",
        ),
    ] {
        let error = from_slice::<Pair>(&hex::decode(bytes).unwrap())
            .err()
            .unwrap();
        assert_eq!(error.to_string(), text, "{bytes}");
    }
}
