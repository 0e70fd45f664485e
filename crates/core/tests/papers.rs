//! Whatever the papers and the protocol page cite as a test is one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

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
fn every_law_of_a_paper_cites_a_test() {
    for paper in files(&root().join("papers"), ".tex") {
        let text = fs::read_to_string(&paper).unwrap();
        for law in text.split("\\begin{law}").skip(1) {
            let (statement, _) = law.split_once("\\end{law}").unwrap();
            let words: String = statement.chars().take(80).collect();
            assert!(!cited(statement).is_empty(), "{}: {words}", paper.display());
        }
    }
}
