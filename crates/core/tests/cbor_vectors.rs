//! RFC 8949's own examples, both ways, and the forms that have a better one.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use overlane_core::wire::cbor::{CborReason, Value, from_slice, to_vec};
use std::iter::Peekable;
use std::str::Chars;

const APPENDIX_A: &str = include_str!("data/rfc8949_appendix_a.txt");

#[test]
fn golden_every_example_of_rfc_8949_is_read_and_written_or_refused_with_its_reason() {
    let mut accepted = 0;
    let mut refused = 0;
    let rows = APPENDIX_A.lines().filter(|line| !line.starts_with('#'));
    for row in rows {
        let [bytes, verdict, diagnostic] = row.splitn(3, " | ").collect::<Vec<_>>()[..] else {
            panic!("three columns in {row:?}");
        };
        let bytes = hex::decode(bytes).unwrap();
        let read = from_slice::<Value>(&bytes);
        if verdict == "ok" {
            let value = parse(diagnostic);
            assert_eq!(to_vec(&value), bytes, "written: {row}");
            // Compared as bytes: a NaN equals nothing, itself included.
            assert_eq!(to_vec(&read.expect(row)), bytes, "read: {row}");
            accepted += 1;
        } else {
            assert_eq!(
                format!("{:?}", read.expect_err(row).reason),
                verdict,
                "{row}"
            );
            refused += 1;
        }
    }
    assert_eq!((accepted, refused), (53, 28), "the whole table");
}

#[test]
fn golden_every_longer_head_is_refused() {
    // An initial byte and its shortest argument, then the same value in each longer form.
    for major in [0x00, 0x20, 0x40, 0x60, 0x80, 0xa0_u8] {
        for argument in [0_u8, 1, 23, 24, 255] {
            let wider: [&[u8]; 4] = [
                &[0x18, argument],
                &[0x19, 0, argument],
                &[0x1a, 0, 0, 0, argument],
                &[0x1b, 0, 0, 0, 0, 0, 0, 0, argument],
            ];
            let shortest = usize::from(argument >= 24);
            for head in &wider[shortest..] {
                let mut bytes = head.to_vec();
                bytes[0] |= major;
                bytes.resize(bytes.len() + 2 * usize::from(argument), 0);
                let error = from_slice::<Value>(&bytes).unwrap_err();
                assert_eq!(error.reason, CborReason::NotShortest, "{bytes:02x?}");
                assert_eq!(error.at, 0);
            }
        }
    }
}

#[test]
fn golden_malformed_and_disordered_items_are_refused() {
    use CborReason::*;
    for (bytes, reason) in [
        ("", Truncated),
        ("18", Truncated),
        ("1c", Malformed),
        ("1d", Malformed),
        ("3e", Malformed),
        ("5c", Malformed),
        ("ff", Malformed),
        ("f818", NotUsed),
        ("f814", NotShortest),
        ("f8f6", NotUsed),
        ("61ff", NotUtf8),
        ("62c328", NotUtf8),
        ("63eda080", NotUtf8),
        ("0000", Trailing),
        ("8000", Trailing),
        ("a200000000", KeyOrder),
        ("a201000000", KeyOrder),
        ("a2616200616100", KeyOrder),
        ("a28000180000", NotShortest),
        ("a1a20000000000", KeyOrder),
        ("fa3fc00000", NotShortest),
        ("fb3ff8000000000000", NotShortest),
        ("f97c01", NotShortest),
    ] {
        let error = from_slice::<Value>(&hex::decode(bytes).unwrap()).unwrap_err();
        assert_eq!(error.reason, reason, "{bytes}");
    }
}

/// The value of diagnostic notation (RFC 8949, section 8), as far as the table needs it.
fn parse(text: &str) -> Value {
    let mut chars = text.chars().peekable();
    let value = parse_value(&mut chars);
    assert_eq!(chars.next(), None, "all of {text:?}");
    value
}

fn parse_value(chars: &mut Peekable<Chars<'_>>) -> Value {
    match chars.peek().expect("a value") {
        '[' => Value::Array(parse_items(chars, ']', parse_value)),
        '{' => Value::map(parse_items(chars, '}', |chars| {
            let key = parse_value(chars);
            assert_eq!((chars.next(), chars.next()), (Some(':'), Some(' ')));
            (key, parse_value(chars))
        }))
        .expect("keys once"),
        '"' => Value::Text(parse_text(chars)),
        _ => parse_word(chars),
    }
}

fn parse_items<T>(
    chars: &mut Peekable<Chars<'_>>,
    close: char,
    mut item: impl FnMut(&mut Peekable<Chars<'_>>) -> T,
) -> Vec<T> {
    chars.next();
    let mut items = Vec::new();
    while chars.next_if_eq(&close).is_none() {
        while chars.next_if(|c| matches!(c, ',' | ' ')).is_some() {}
        items.push(item(chars));
    }
    items
}

fn parse_text(chars: &mut Peekable<Chars<'_>>) -> String {
    chars.next();
    let mut text = String::new();
    loop {
        match chars.next().expect("a closing quote") {
            '"' => return text,
            '\\' => text.extend(chars.next()),
            other => text.push(other),
        }
    }
}

fn parse_word(chars: &mut Peekable<Chars<'_>>) -> Value {
    let mut word = String::new();
    while let Some(c) = chars.next_if(|c| !matches!(c, ',' | ':' | ']' | '}')) {
        word.push(c);
    }
    match word.as_str() {
        "true" => Value::Boolean(true),
        "false" => Value::Boolean(false),
        "null" => Value::Null,
        "Infinity" => Value::Float(f64::INFINITY),
        "-Infinity" => Value::Float(f64::NEG_INFINITY),
        "NaN" => Value::Float(f64::NAN),
        _ if word.starts_with("h'") => {
            Value::Bytes(hex::decode(word.trim_start_matches('h').trim_matches('\'')).unwrap())
        }
        _ if word.contains(['.', 'e']) => Value::Float(word.parse().unwrap()),
        _ => match word.parse::<i128>().unwrap() {
            number @ 0.. => Value::Uint(number.try_into().unwrap()),
            number => Value::Negative((-1 - number).try_into().unwrap()),
        },
    }
}
