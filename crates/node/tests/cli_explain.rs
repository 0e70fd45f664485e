//! The catalogue of codes, held against the sources and the page made from it; and what is told of one
//! transaction.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed, helpers' parts too"
)]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::{Pair, Place, event};

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
    // How reconciliations end, which groups and what is refused of mail show.
    let ends = workspace().join("crates/recon/src/report.rs");
    collect_in(&fs::read_to_string(ends).expect("text"), &mut codes);
    codes.remove("recon/settled");
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
            collect_in(&fs::read_to_string(&path).expect("text"), codes);
        }
    }
}

fn collect_in(source: &str, codes: &mut BTreeSet<String>) {
    for (start, _) in source.match_indices("fn code(&self)") {
        codes_in(body(&source[start..]), codes);
    }
    for (start, _) in source.match_indices("Failure::new(") {
        let call = &source[start..];
        codes_in(call.split_once(',').map_or(call, |(code, _)| code), codes);
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

/// What a node answers on its socket.
fn asked(place: &Place, line: &str) -> Value {
    let mut stream = UnixStream::connect(place.home().join("overlane.sock")).expect("it listens");
    let request = format!("{line} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    serde_json::from_str(body).expect("an object")
}

/// What a node tells of a transaction, and its exit code.
fn told(place: &Place, of: &[&str]) -> (Value, i32) {
    let told = place.overlane(["explain"].iter().chain(of).chain(&["--json"]));
    (told.json(), told.code)
}

/// The words of the steps of its one story.
fn steps(told: &Value) -> Vec<&str> {
    let stories = told["stories"].as_array().expect("stories");
    assert_eq!(stories.len(), 1, "{told}");
    let steps = stories[0]["steps"].as_array().expect("steps").iter();
    steps
        .map(|it| it["step"].as_str().expect("a word"))
        .collect()
}

#[test]
fn cli_explain_tells_the_story_of_a_transaction_at_both_ends() {
    let mut pair = Pair::linked();
    let sent = pair.send(&["hello", "--receipt", "--wait", "60", "--keep", "signed"]);
    let digest = sent["digest"].as_str().expect("a digest").to_owned();
    let sequence = sent["sequence"].to_string();

    // Where it was signed: its way, and the lane that took it.
    let (told_here, code) = told(&pair.here, &[&digest]);
    assert_eq!(code, 0, "{told_here}");
    assert_eq!(steps(&told_here)[..3], ["signed", "way", "in_lane"]);
    let lane = &told_here["stories"][0]["steps"][2];
    assert_eq!(lane["did"], pair.receiver.did(), "{lane}");
    let lease = &told_here["stores"][0];
    assert_eq!(
        (&lease["store"], &lease["fact"]),
        (&"lease".into(), &"used".into()),
        "{told_here}"
    );

    // Where it is for: it came, was admitted, and the application has it.
    let message = pair.take();
    assert_eq!(message["text"], "hello");
    let (told_there, code) = told(&pair.there, &[&digest]);
    assert_eq!(code, 0, "{told_there}");
    let expected = ["came", "admitted", "handed_over", "taken"];
    assert_eq!(steps(&told_there), expected, "{told_there}");
    assert_eq!(told_there["stores"][0]["fact"], "admitted", "{told_there}");
    assert_eq!(told_there["not_known"], Value::Array(Vec::new()));
    // By whom it is from and its sequence, the same.
    let both = format!("{}#{sequence}", pair.sender.did());
    let ways: [&[&str]; 2] = [&[pair.sender.did(), sequence.as_str()], &[both.as_str()]];
    for of in ways {
        let (same, code) = told(&pair.there, of);
        assert_eq!((&same["stories"], code), (&told_there["stories"], 0));
    }
    let words = pair.there.overlane(["explain", &digest]);
    for says in [
        &digest,
        "came from",
        "by 1 hop as",
        "admitted as First, durably",
        "taken by the application",
    ] {
        assert!(words.out.contains(says), "{says}: {words:?}");
    }

    // The same bytes again: what refused them, and what to do about that.
    let mut watch = pair.watch();
    let again = pair.here.overlane(["send", "--signed", "signed", "--json"]);
    assert_eq!(again.code, 0, "{again:?}");
    event(&mut watch, "refused");
    drop(watch);
    let (told_there, _) = told(&pair.there, &[&digest]);
    assert_eq!(steps(&told_there)[4..], ["came", "refused"], "{told_there}");
    let refused = &told_there["stories"][0]["steps"][5];
    assert_eq!(refused["code"], "replay/replay", "{refused}");

    // After a crash the story is gone, and is said to be; the store knows what counts.
    pair.receiver.running.kill();
    pair.receiver = pair.there.daemon();
    let (told_there, code) = told(&pair.there, &[&digest]);
    assert_eq!(code, 0, "{told_there}");
    assert_eq!(told_there["stories"], Value::Array(Vec::new()));
    assert_eq!(told_there["stores"][0]["fact"], "admitted", "{told_there}");
    let not_known = told_there["not_known"].as_array().expect("a list");
    assert_eq!(not_known.len(), 1, "{told_there}");
}

#[test]
fn cli_explain_tells_what_nodes_say_by_themselves_of_a_class_that_is_named() {
    let pair = Pair::linked();
    // They talk as soon as they are linked. What was said last has a sequence, which the streams show.
    let newest = || {
        let answer = asked(&pair.there, "GET /v1/streams");
        let streams = answer["receiving"].as_array().expect("streams").clone();
        let control = streams.iter().find(|it| {
            let stream = it["stream"].as_str().expect("a stream");
            stream.ends_with("/control") && stream.contains(pair.sender.did())
        });
        control.map(|it| it["newest"].to_string())
    };
    let story = std::iter::repeat(()).find_map(|()| {
        let sequence = newest()?;
        let of = [pair.receiver.did(), sequence.as_str(), "--class", "control"];
        let (told, _) = told(&pair.here, &of);
        let stories = told["stories"].as_array().expect("stories").clone();
        stories.into_iter().find(|it| {
            let steps = it["steps"].as_array().expect("steps").iter();
            let words: Vec<_> = steps
                .map(|it| it["step"].as_str().expect("a word"))
                .collect();
            words.starts_with(&["signed", "way", "in_lane"])
        })
    });
    let story = story.expect("a story of the ring's");
    let sequence = story["sequence"].to_string();
    let stream = story["stream"].as_str().expect("a stream");
    assert!(stream.ends_with("/control"), "{story}");
    // The other end tells the same one, by its digest: it came and was admitted.
    let digest = story["digest"].as_str().expect("a digest");
    let steps_there = std::iter::repeat(()).find_map(|()| {
        let (told, code) = told(&pair.there, &[digest]);
        (code == 0 && told["stories"] != Value::Array(Vec::new()))
            .then(|| {
                let steps = steps(&told);
                steps.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()
            })
            .filter(|steps| steps.len() >= 2)
    });
    let steps_there = steps_there.expect("it arrives");
    assert_eq!(steps_there[..2], ["came", "admitted"], "{steps_there:?}");
    // Without a class only what applications said is told.
    let (told, _) = told(&pair.here, &[pair.receiver.did(), &sequence]);
    assert_eq!(told["stories"], Value::Array(Vec::new()), "{told}");
}

#[test]
fn cli_explain_says_what_it_does_not_know() {
    let place = Place::with_node();
    let daemon = place.daemon();
    let nobody = "0f".repeat(32);
    let (nothing, code) = told(&place, &[&nobody]);
    assert_eq!(code, 1, "{nothing}");
    let not_known = nothing["not_known"].as_array().expect("a list");
    assert_eq!(not_known.len(), 2, "{nothing}");
    let words = place.overlane(["explain", &nobody]);
    assert!(
        words.out.starts_with("nothing is known of it here"),
        "{words:?}"
    );
    let (nothing, code) = told(&place, &[daemon.did(), "7"]);
    assert_eq!((code, &nothing["stores"]), (1, &Value::Array(Vec::new())));
    // What names no transaction is taken for a code.
    place
        .overlane(["explain", "0f0f", "--json"])
        .is_refused(2, "cli/unknown_code");
    place
        .overlane(["explain", "did:key:zNobody", "7", "--json"])
        .is_refused(2, "api/bad_destination");
}
