//! The documents: the commands of the tour are run as they stand there, and print what stands there;
//! every page is in the book, and every link leads somewhere.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TOUR: &str = include_str!("../../../docs/tour.md");

/// What follows each block of commands in their output.
const MARK: &str = "-- end of block --";

/// Commands, and what they print if the page says so.
#[derive(Debug)]
struct Block {
    commands: String,
    printed: Option<String>,
}

/// The blocks of a page, in order.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut fences = page.split("```");
    while let (Some(_text), Some(fence)) = (fences.next(), fences.next()) {
        match fence.split_once('\n') {
            Some(("sh", commands)) => blocks.push(Block {
                commands: commands.to_owned(),
                printed: None,
            }),
            Some(("text", printed)) => {
                let of = blocks.last_mut().expect("commands before what they print");
                of.printed = Some(printed.trim().to_owned());
            }
            other => panic!("a block of another kind: {other:?}"),
        }
    }
    blocks
}

/// Whether `text` is `pattern`, in which `…` stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('…').peekable();
    let first = pieces.next().expect("a first piece");
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.is_empty()
}

/// A loopback address that no other test listens at. Where there is only the usual one, the page's ports
/// must be free.
fn own_address() -> String {
    let pid = std::process::id();
    match cfg!(target_os = "linux") {
        true => format!(
            "127.{}.{}.{}",
            100 + (pid >> 16) % 100,
            (pid >> 8) % 256,
            1 + pid % 254
        ),
        false => "127.0.0.1".to_owned(),
    }
}

#[test]
fn cli_tour_prints_what_the_page_shows() {
    let blocks = blocks(TOUR);
    assert!(blocks.len() > 15, "{blocks:?}");
    let dir = tempfile::tempdir().expect("a folder");
    let address = own_address();
    let here = |text: &str| text.replace("127.0.0.1", &address);
    let script: String = blocks
        .iter()
        .map(|it| format!("{}\necho '{MARK}'\n", it.commands))
        .collect();
    let program = Path::new(env!("CARGO_BIN_EXE_overlane"));
    let path = format!(
        "{}:{}",
        program.parent().expect("its folder").display(),
        std::env::var("PATH").expect("a PATH")
    );
    let script = format!(
        "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{}",
        here(&script)
    );
    let mut bash = Command::new("bash");
    bash.args(["-eu", "-o", "pipefail", "-c", &script]);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("OVERLANE_") {
            bash.env_remove(name);
        }
    }
    bash.current_dir(dir.path())
        .env("PATH", path)
        .stdin(Stdio::null());
    let ran = bash.output().expect("bash");
    let out = String::from_utf8(ran.stdout).expect("text");
    let err = String::from_utf8_lossy(&ran.stderr);
    let printed: Vec<&str> = out.split(MARK).collect();
    for (block, printed) in blocks.iter().zip(&printed) {
        if let Some(pattern) = &block.printed {
            let (pattern, printed) = (here(pattern), printed.trim());
            assert!(
                matches(pattern.trim(), printed),
                "{}\nprinted\n{printed}\ninstead of\n{pattern}\n{err}",
                block.commands
            );
        }
    }
    assert_eq!(
        printed.len(),
        blocks.len() + 1,
        "the tour ended early\n{out}\n{err}"
    );
    assert!(ran.status.success(), "{:?}\n{err}", ran.status);
}

#[test]
fn a_page_that_shows_something_else_is_noticed() {
    assert!(matches("did …\nnetwork 1", "did ab12\nnetwork 1"));
    assert!(matches("…", "anything"));
    assert!(!matches("did …\nnetwork 1", "did ab12\nnetwork 2"));
    assert!(!matches("first … last", "first"));
    assert!(!matches("exact", "exactly"));
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages of docs/, by name.
fn pages() -> BTreeSet<String> {
    let entries = fs::read_dir(workspace().join("docs")).expect("the folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    names
        .map(|name| name.into_string().expect("text"))
        .filter(|name| name.ends_with(".md") && name != "SUMMARY.md")
        .collect()
}

/// A page without its code, which links to nothing.
fn prose(page: &str) -> String {
    let mut prose = String::new();
    for text in page.split("```").step_by(2) {
        // What stands between backquotes is code too.
        prose.extend(text.split('`').step_by(2));
        prose.push('\n');
    }
    prose
}

/// Where a page's links lead, but for other sites.
fn links(page: &str) -> Vec<String> {
    let prose = prose(page);
    let targets = prose
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'));
    targets
        .map(|(target, _)| target.to_owned())
        .filter(|target| !target.contains("://"))
        .collect()
}

/// What a page's headings are called in a link.
fn anchors(page: &str) -> BTreeSet<String> {
    let text: String = page.split("```").step_by(2).collect();
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|heading| {
            let words = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = words.chars().filter_map(|letter| match letter {
                ' ' => Some('-'),
                '-' | '_' => Some(letter),
                _ => letter.is_alphanumeric().then_some(letter),
            });
            kept.collect()
        })
        .collect()
}

/// Links of the page at `path`, with this text, that lead nowhere.
fn dead_links(path: &Path, page: &str) -> Vec<String> {
    let dead = |target: &String| {
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let of = match file {
            "" => path.to_owned(),
            file => path.parent().expect("its folder").join(file),
        };
        if !of.exists() {
            return true;
        }
        if anchor.is_empty() {
            return false;
        }
        let there = fs::read_to_string(&of).expect("a page");
        !anchors(&there).contains(anchor)
    };
    links(page).into_iter().filter(dead).collect()
}

#[test]
fn every_page_is_in_the_book_once() {
    let summary = fs::read_to_string(workspace().join("docs/SUMMARY.md")).expect("the summary");
    let listed = links(&summary);
    let set: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(set.len(), listed.len(), "a page is there twice: {listed:?}");
    assert_eq!(set, pages());
}

#[test]
fn every_link_of_the_documents_leads_somewhere() {
    let docs = pages().into_iter().map(|name| format!("docs/{name}"));
    let others = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    ];
    let mut seen = 0;
    for name in docs.chain(others.map(str::to_owned)) {
        let path = workspace().join(&name);
        let page = fs::read_to_string(&path).expect("a page");
        seen += links(&page).len();
        let dead = dead_links(&path, &page);
        assert!(dead.is_empty(), "{name} leads nowhere by {dead:?}");
    }
    assert!(seen > 30, "{seen} links");
}

#[test]
fn a_link_that_leads_nowhere_is_noticed() {
    let path = workspace().join("docs/tour.md");
    let page = "[a](operating.md) [b](nowhere.md) [c](protocol.md#bytes) [d](protocol.md#no) `[e](f.md)` [g](https://h)";
    assert_eq!(dead_links(&path, page), ["nowhere.md", "protocol.md#no"]);
}
