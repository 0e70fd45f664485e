//! Whatever the papers and the protocol page cite as a test is one, and what the page says of bounds,
//! contexts, codes and bytes is so.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use overlane_core::e2e::bounds::*;
use overlane_core::group::*;
use overlane_core::identity::{CLOCK_SKEW_MS, DELEGATION_TTL_DEFAULT_MS, DELEGATION_TTL_MAX_MS};
use overlane_core::lane::chunks::*;
use overlane_core::mail::*;
use overlane_core::receipt::*;
use overlane_core::replay::record::*;
use overlane_core::replay::*;
use overlane_core::ring::bounds::*;
use overlane_core::seal::{CARD_TTL_MAX_MS, SEALED_OVERHEAD_BYTES};
use overlane_core::signal::{OFFER_GUARD_MAX, SIGNAL_TTL_DEFAULT_MS, SIGNAL_TTL_MAX_MS};
use overlane_core::transaction::{HOP_BUDGET_MAX, PROOF_TTL_DEFAULT_MS, PROOF_TTL_MAX_MS};
use overlane_core::wire::bounds::*;
use overlane_core::wire::cbor::DEPTH_MAX;

/// The workspace's folder.
fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

/// Every file below `folder` with this ending, build outputs aside.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(files(&path, ending));
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The names of every function in the workspace that is a test, or is made one by a macro of
/// that name.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for folder in ["crates", "benches"] {
        for path in files(&root().join(folder), ".rs") {
            let source = fs::read_to_string(path).unwrap();
            for after in source.split("fn ").skip(1) {
                let (name, rest) = after.split_at(identifier(after));
                if rest.starts_with('(') {
                    names.insert(name.to_owned());
                }
            }
        }
    }
    names
}

fn identifier(text: &str) -> usize {
    let end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    text.find(end).unwrap_or(text.len())
}

/// What stands in the braces of `\test{…}`, but for the macro's own definition.
fn cited(paper: &str) -> Vec<&str> {
    let braces = paper.split("\\test{").skip(1);
    braces.map(|it| it.split('}').next().unwrap()).collect()
}

#[test]
fn every_test_that_a_paper_cites_exists() {
    let tests = tests();
    let papers = files(&root().join("papers"), ".tex");
    assert!(!papers.is_empty());
    let mut missing = Vec::new();
    for paper in papers {
        let text = fs::read_to_string(&paper).unwrap();
        let cited = cited(&text);
        assert!(!cited.is_empty(), "{} cites no test", paper.display());
        let unknown = cited.into_iter().filter(|name| !tests.contains(*name));
        missing.extend(unknown.map(|name| format!("{}: {name}", paper.display())));
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_law_of_a_paper_has_its_witness() {
    for paper in files(&root().join("papers"), ".tex") {
        let text = fs::read_to_string(&paper).unwrap();
        let (_, witnesses) = text.split_once("\\section{Witnesses}").unwrap_or_default();
        for law in text.split("\\begin{law}").skip(1) {
            let (statement, after) = law.split_once("\\end{law}").unwrap();
            // Its name in the list of witnesses, or in its head where it has no label.
            let label = statement.split("\\label{").nth(1);
            let label = label.and_then(|it| it.split('}').next());
            let listed = label.is_some_and(|label| {
                let reference = format!("\\ref{{{label}}}");
                witnesses.contains(&reference)
            });
            // Or tests are cited in the law, or as its witness before the next law.
            let cites = |text| !cited(text).is_empty();
            let witness = after.split_once("\\witness{").map(|(_, rest)| rest);
            let has = listed || cites(statement) || witness.is_some_and(cites);
            let label = label.or(statement.lines().next()).unwrap_or_default();
            assert!(has, "{}: {label}", paper.display());
        }
    }
}

/// The protocol page's part under this heading, up to the next of its level.
fn part<'a>(text: &'a str, heading: &str) -> &'a str {
    let start = format!("\n{heading}\n");
    let (_, part) = text
        .split_once(start.as_str())
        .expect("the heading is there");
    let level = heading.split(' ').next().unwrap();
    part.split(format!("\n{level} ").as_str()).next().unwrap()
}

/// The page without the part that `lane` checks itself.
fn page() -> String {
    let page = fs::read_to_string(root().join("docs/protocol.md")).unwrap();
    page.split("\n## Links and lanes\n")
        .next()
        .unwrap()
        .to_owned()
}

macro_rules! named {
    ($($name:ident),* $(,)?) => {
        vec![$((stringify!($name), u64::try_from($name).unwrap())),*]
    };
}

#[test]
fn the_page_tells_every_bound_as_it_is() {
    let page = page();
    let sections: [(&str, Vec<(&str, u64)>); 9] = [
        (
            "## Bytes",
            named![FRAME_MAX_BYTES, CONTROL_FRAME_MAX_BYTES, DEPTH_MAX],
        ),
        (
            "## Identity",
            named![
                CLOCK_SKEW_MS,
                DELEGATION_TTL_DEFAULT_MS,
                DELEGATION_TTL_MAX_MS
            ],
        ),
        (
            "## Transactions and payloads",
            named![
                DATA_MAX_BYTES,
                MESSAGE_MAX_BYTES,
                CHUNK_FRAME_BYTES,
                CHUNKS_MAX,
                SETS_PER_LINK_MAX,
                SETS_MAX,
                LINK_CHUNKS_MAX_BYTES,
                CHUNKS_MAX_BYTES,
                TOMBSTONES_MAX,
                CHUNKS_IDLE_MS,
                CHUNKS_PASSED_MS,
                PAYLOAD_OVERHEAD_MAX_BYTES,
                NAMESPACE_MAX_BYTES,
                PROOF_TTL_DEFAULT_MS,
                PROOF_TTL_MAX_MS,
                HOP_BUDGET_MAX,
            ],
        ),
        (
            "## Replay",
            named![
                WINDOW_SLOTS,
                LEASE_SEQUENCES,
                RESERVATION_MAX,
                START_SHIFT,
                LEASE_LIFE_MS,
                SIGN_WITHIN_MS,
                STREAM_CAPACITY,
                SLOTS,
                SLOT_FLOOR,
                SLOT_POOL,
                INBOX_SHARE,
                OWN_SHARE,
                QUOTA_RECORDS,
                CUSTODY_CAPACITY,
                VOLATILE_STREAMS,
                DELEGATING_NAMESPACES,
                FORK_LOG_CAPACITY,
                HEADER_RING_CAPACITY,
                HEADER_MAX_BYTES,
                EVIDENCE_MAX_BYTES,
                PENDING_MAX,
                GATHER_RESULTS,
                MAIL_LIFE_MAX_MS,
                RIPE_MS,
                WITNESS_WITHIN_MS,
                WITNESS_LIFE_MS,
            ],
        ),
        (
            "## Durable records",
            named![
                STREAM_RECORD_MAX_BYTES,
                FORK_RECORD_MAX_BYTES,
                DELTA_OPS_MAX
            ],
        ),
        (
            "## Offers and answers",
            named![
                SDP_MAX_BYTES,
                SIGNAL_MAX_BYTES,
                SIGNAL_TTL_DEFAULT_MS,
                SIGNAL_TTL_MAX_MS,
                OFFER_GUARD_MAX,
            ],
        ),
        (
            "## Sealing, mail and groups",
            named![
                SEALED_OVERHEAD_BYTES,
                CARD_TTL_MAX_MS,
                MAIL_DATA_MAX_BYTES,
                HELD_MAIL_MAX_BYTES,
                MAIL_LIFE_DEFAULT_MS,
                REMOVAL_DIGESTS_MAX,
                GROUP_MEMBERS_MAX,
                GROUP_HOSTS_MAX,
                ROSTER_TTL_MAX_MS,
                WRAPPED_KEY_MAX_BYTES,
                POST_BODY_MAX_BYTES,
                POST_MAX_BYTES,
            ],
        ),
        (
            "## Admission receipts",
            named![RECEIPT_TTL_MAX_MS, RECEIPT_MAX_BYTES],
        ),
        (
            "## The ring",
            named![
                SUCCESSORS_KEPT,
                FINGER_SLOTS,
                CONNECTIONS_MAX,
                STABILISE_MS,
                STABILISE_QUICK_MS,
                REQUEST_MS,
                NEIGHBOUR_TRIES,
                REQUESTS_MAX,
                OWN_REQUESTS,
                LOOKUP_STEPS_MAX,
                CANDIDATES_PER_ROUND,
                SILENT_MAX,
                SILENT_MS,
                FOUND_BY_MAX,
                CONNECTS_MAX,
                CONNECT_AGAIN_MS,
                CONNECT_AGAIN_MAX_MS,
                CONNECT_MS,
                PREDECESSOR_DIALS_MS,
                DECLINE_CODE_MAX_BYTES,
                ACCOUNT_TOLD_MAX_BYTES,
                CARD_TOLD_MAX_BYTES,
                LATE_MAX,
            ],
        ),
    ];
    for (heading, bounds) in sections {
        let table = part(part(&page, heading), "### Bounds");
        for (name, value) in &bounds {
            let row = format!("| `{name}` | {value} |");
            assert!(table.contains(&row), "{heading}: no row {row}");
        }
        let rows = table.lines().filter(|line| line.starts_with("| `"));
        assert_eq!(rows.count(), bounds.len(), "{heading}");
    }
}

#[test]
fn the_page_tells_every_bound_of_sessions_as_it_is() {
    let page = page();
    let bounds = named![
        BODY_MAX_BYTES,
        SESSION_PEERS_MAX,
        SESSIONS_KEPT,
        SESSION_WAITING_MAX,
        SESSION_WAITING_MAX_BYTES,
        SESSION_ANSWER_MS,
        SESSION_TRIES,
        REKEY_MESSAGES,
        REKEY_MS,
        SESSION_LIFE_MS,
        SESSION_OPENS,
        SESSION_LOSTS,
    ];
    let table = part(part(&page, "## E2E sessions"), "### Bounds");
    for (name, value) in &bounds {
        let row = format!("| `{name}` | {value} |");
        assert!(table.contains(&row), "no row {row}");
    }
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    assert_eq!(rows.count(), bounds.len());
}

/// Every string in quotes of this kind in the crate's sources.
fn quoted(source: &str, is_one: impl Fn(&str) -> bool) -> BTreeSet<&str> {
    let strings = source.split('"').skip(1);
    strings.filter(|it| is_one(it)).collect()
}

#[test]
fn the_page_names_every_context_and_every_code() {
    let page = page();
    let mut sources = files(&root().join("crates/core/src"), ".rs");
    sources.extend(files(&root().join("crates/node/src/peer/groups"), ".rs"));
    sources.push(root().join("crates/node/src/peer/receipts.rs"));
    let sources = sources.iter().map(|it| fs::read_to_string(it).unwrap());
    let source: String = sources.collect();
    let lower = |it: &str| it.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let is_code = |it: &str| match it.split_once('/') {
        Some((area, reason)) => {
            let by_lane = ["link", "lane"].contains(&area);
            !by_lane && lower(area) && lower(reason) && !area.is_empty() && !reason.is_empty()
        }
        None => false,
    };
    let codes = quoted(&source, is_code);
    assert!(codes.len() > 70, "{codes:?}");
    let is_context = |it: &str| {
        let words = it.strip_prefix("overlane ");
        words.is_some_and(|it| it.chars().all(|c| c.is_ascii_lowercase() || c == ' '))
    };
    let contexts = quoted(&source, is_context);
    assert!(contexts.len() > 10, "{contexts:?}");
    let named: BTreeSet<_> = page.split('`').skip(1).step_by(2).collect();
    for name in codes.iter().chain(&contexts) {
        assert!(
            named.contains(name),
            "{name} is not in docs/protocol.md: tell there what it is"
        );
    }
    let areas: BTreeSet<_> = codes
        .iter()
        .filter_map(|it| it.split_once('/'))
        .map(|it| it.0)
        .collect();
    let is_ours = |it: &str| {
        it.split_once('/')
            .is_some_and(|(area, _)| areas.contains(area))
    };
    for code in named.into_iter().filter(|it| is_code(it) && is_ours(it)) {
        assert!(
            codes.contains(code),
            "the page names {code}, which is no code"
        );
    }
}

#[test]
fn every_test_that_the_page_names_exists() {
    let (page, tests) = (page(), tests());
    let mut named = 0;
    for laws in page.split("\n### Laws\n").skip(1) {
        let laws = laws.split("\n#").next().unwrap();
        for name in laws.split('`').skip(1).step_by(2) {
            assert!(tests.contains(name), "no test {name}");
            named += 1;
        }
    }
    assert!(named > 40);
}

#[test]
fn every_test_that_the_page_of_security_names_exists() {
    let page = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let tests = tests();
    let named = page.split('`').skip(1).step_by(2);
    let is_test = |it: &&str| {
        ["law_", "mail_", "group_"]
            .iter()
            .any(|head| it.starts_with(head))
    };
    let named: Vec<_> = named.filter(is_test).collect();
    assert!(named.len() > 15);
    for name in named {
        assert!(tests.contains(name), "no test {name}");
    }
}

#[test]
fn the_page_shows_the_golden_bytes() {
    let page = page();
    let golden = |bytes: &'static str, name: &str| -> &'static str {
        let mut lines = bytes.lines().filter_map(|it| it.rsplit_once(' '));
        lines.find(|(of, _)| *of == name).expect("it is there").1
    };
    let identity = include_str!("data/identity_golden.txt");
    let transaction = include_str!("data/transaction_golden.txt");
    let shown: Vec<String> = page
        .split("```")
        .skip(1)
        .step_by(2)
        .map(bytes_shown)
        .collect();
    for bytes in [
        golden(identity, "ed25519 delegation"),
        golden(transaction, "frame"),
    ] {
        assert!(
            shown.iter().any(|it| it == bytes),
            "{bytes} is not on the page"
        );
    }
    for digest in [
        golden(identity, "ed25519 digest"),
        golden(transaction, "digest"),
    ] {
        assert!(page.contains(digest), "{digest} is not on the page");
    }
}

/// The hexadecimal digits of a block, whose comments stand behind three spaces.
fn bytes_shown(block: &str) -> String {
    let lines = block.lines().filter_map(|line| line.split("   ").next());
    lines
        .flat_map(|it| it.chars().filter(|c| *c != ' '))
        .collect()
}
