//! The catalogue of codes, held against the sources and the page made from it.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed, helpers' parts too"
)]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::Place;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn explained() -> BTreeSet<String> {
    let all = Place::new().overlane(["explain", "--json"]);
    assert_eq!(all.code, 0, "{all:?}");
    let codes: Vec<String> = all
        .out
        .lines()
        .map(|line| {
            let entry: Value = serde_json::from_str(line).expect("an object");
            assert!(
                entry["meaning"].as_str().is_some_and(|it| !it.is_empty()),
                "{entry}"
            );
            entry["code"].as_str().expect("a code").to_owned()
        })
        .collect();
    let set: BTreeSet<String> = codes.iter().cloned().collect();
    assert_eq!(set.len(), codes.len(), "a code is explained twice");
    set
}

/// Every code that the sources give an error: in a `fn code`, or to `Failure::new`.
fn in_sources() -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    // Of `relay` what the node uses of it.
    for used in ["refs", "log", "inbox"] {
        collect(&workspace().join("crates/relay/src").join(used), &mut codes);
    }
    for krate in ["core", "storage-native", "node"] {
        collect(
            &workspace().join("crates").join(krate).join("src"),
            &mut codes,
        );
    }
    // Not shown: whoever would read it is gone.
    codes.remove("cli/reader_gone");
    codes
}

fn collect(folder: &Path, codes: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            let name = path.file_name().and_then(|name| name.to_str());
            if !matches!(name, Some("tests" | "testkit")) {
                collect(&path, codes);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).expect("text");
            for (start, _) in source.match_indices("fn code(&self)") {
                codes_in(body(&source[start..]), codes);
            }
            for (start, _) in source.match_indices("Failure::new(") {
                let call = &source[start..];
                codes_in(call.split_once(',').map_or(call, |(code, _)| code), codes);
            }
        }
    }
}

/// A function's source, up to the brace that closes it.
fn body(source: &str) -> &str {
    let mut depth = 0_usize;
    for (at, letter) in source.char_indices() {
        match letter {
            '{' => depth += 1,
            // A declaration ends with what holds it.
            '}' if depth <= 1 => return &source[..at],
            '}' => depth -= 1,
            _ => {}
        }
    }
    source
}

/// The quoted `area/reason` in a piece of source.
fn codes_in(source: &str, codes: &mut BTreeSet<String>) {
    let part = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        !part.is_empty() && part.bytes().all(plain)
    };
    for quoted in source.split('"').skip(1).step_by(2) {
        if quoted
            .split_once('/')
            .is_some_and(|(area, reason)| part(area) && part(reason))
        {
            codes.insert(quoted.to_owned());
        }
    }
}

#[test]
fn cli_explain_knows_every_code_and_no_other() {
    let (explained, in_sources) = (explained(), in_sources());
    let missing: Vec<_> = in_sources.difference(&explained).collect();
    let stray: Vec<_> = explained.difference(&in_sources).collect();
    assert!(missing.is_empty(), "not explained: {missing:?}");
    assert!(stray.is_empty(), "explained, and in no source: {stray:?}");
}

#[test]
fn cli_explain_is_the_page_of_the_documentation() {
    let page = Place::new().overlane(["explain", "--page"]);
    let kept = fs::read_to_string(workspace().join("docs/errors.md")).expect("the page");
    assert!(
        page.out == kept,
        "make it again: overlane explain --page > docs/errors.md"
    );
}

#[test]
fn cli_explain_says_what_to_do() {
    let place = Place::new();
    let one = place.overlane(["explain", "home/not_initialised"]);
    assert_eq!(one.code, 0, "{one:?}");
    assert!(one.out.contains("`overlane init`"), "{one:?}");
    place
        .overlane(["explain", "no/such", "--json"])
        .is_refused(2, "cli/unknown_code");
}
