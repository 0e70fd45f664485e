//! What is taken out of a log before anybody reads it.
//!
//! Law (nobody is named): of accounts, of keys and digests, and of addresses that lead off this machine, a
//! line keeps a pseudonym. The same one has the same pseudonym as long as the process runs, so that a
//! story can be followed, and another one in the next process.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

/// Hexadecimal text of so many digits, or more, names or holds something.
const HEX_MIN_DIGITS: usize = 32;

/// Digits of a pseudonym.
const PSEUDONYM_DIGITS: usize = 6;

/// What the names of libp2p peers and keys begin with.
const NAMES: [&str; 5] = ["did:key:z", "12D3Koo", "16Uiu2", "Qm", "bafz"];

/// Shorter than this, none of them is one.
const NAME_MIN_CHARS: usize = 40;

/// Takes names and addresses out of text.
#[derive(Debug)]
pub struct Redactor {
    /// Drawn for this process; `None` where the platform gave no randomness.
    key: Option<[u8; 32]>,
    /// The folder of the user, which names them.
    folder: Option<String>,
}

impl Redactor {
    /// One whose pseudonyms come from `key`, which is drawn at random; `folder` is written `~`. Without a
    /// key all have one pseudonym: whoever knows a key can find out whose a pseudonym is.
    pub fn new(key: impl Into<Option<[u8; 32]>>, folder: Option<String>) -> Self {
        Self {
            key: key.into(),
            folder: folder.filter(|it| it.len() > 1),
        }
    }

    /// The text without them.
    pub fn redact(&self, text: &str) -> String {
        let text = match &self.folder {
            Some(folder) => text.replace(folder.as_str(), "~"),
            None => text.to_owned(),
        };
        let mut out = String::with_capacity(text.len());
        let mut word = String::new();
        let mut after_scheme = false;
        let mut chars = text.chars();
        while let Some(char) = chars.next() {
            if char == '\u{1b}' {
                // Colours stand between words.
                self.end(&mut word, after_scheme, &mut out);
                after_scheme = false;
                out.push(char);
                for of_colour in chars.by_ref() {
                    out.push(of_colour);
                    if of_colour.is_ascii_alphabetic() {
                        break;
                    }
                }
                continue;
            }
            if char.is_ascii_alphanumeric() || ".:-_[]%".contains(char) {
                word.push(char);
                continue;
            }
            let scheme = char == '/' && word.ends_with(':');
            self.end(&mut word, after_scheme, &mut out);
            after_scheme = scheme || (char == '/' && out.ends_with(":/"));
            out.push(char);
        }
        self.end(&mut word, after_scheme, &mut out);
        out
    }

    /// Writes a word, or its pseudonym.
    fn end(&self, word: &mut String, after_scheme: bool, out: &mut String) {
        // What ends a sentence, and what a list or a label puts around it.
        let core = word.trim_matches(['.', ':', '-', '_', '%']);
        let core = if core.starts_with('[') && !core.contains("]") {
            core.trim_start_matches('[')
        } else if !core.contains('[') {
            core.trim_end_matches(']')
        } else {
            core
        };
        let kind = match kind(core) {
            None if after_scheme && is_host_elsewhere(core) => Some("host"),
            kind => kind,
        };
        match (kind, word.split_once(core)) {
            (Some(kind), Some((before, after))) => {
                let _ = write!(out, "{before}<{kind} {}>{after}", self.pseudonym(core));
            }
            // Of a pair such as origin>destination or peer:address each part is a word of its own.
            _ if core.contains(':') && !core.contains('[') && core.parse::<IpAddr>().is_err() => {
                let parts = word.split(':').map(|part| match self::kind(part) {
                    Some(kind) => format!("<{kind} {}>", self.pseudonym(part)),
                    None => part.to_owned(),
                });
                out.push_str(&parts.collect::<Vec<_>>().join(":"));
            }
            _ => out.push_str(word),
        }
        word.clear();
    }

    fn pseudonym(&self, text: &str) -> String {
        let Some(key) = &self.key else {
            return "?".repeat(PSEUDONYM_DIGITS);
        };
        let hash = blake3::keyed_hash(key, text.to_lowercase().as_bytes());
        hash.to_hex().chars().take(PSEUDONYM_DIGITS).collect()
    }
}

/// What a word names; `None` where it names nobody and nowhere.
fn kind(word: &str) -> Option<&'static str> {
    let is_hex = word.len() >= HEX_MIN_DIGITS && word.bytes().all(|it| it.is_ascii_hexdigit());
    let is_name = word.len() >= NAME_MIN_CHARS && NAMES.iter().any(|it| word.starts_with(it));
    if is_hex || is_name {
        return Some("id");
    }
    let bare = word.split('%').next().unwrap_or_default();
    let address = word.parse::<SocketAddr>().map(|it| it.ip());
    let address = address.or_else(|_| bare.trim_matches(['[', ']']).parse::<IpAddr>());
    let away = address.is_ok_and(|it| !it.is_loopback() && !it.is_unspecified());
    away.then_some("address")
}

/// Whether what stands behind `://` is a name of another machine.
fn is_host_elsewhere(word: &str) -> bool {
    let host = word.split(':').next().unwrap_or_default();
    let here = host == "localhost" || host.is_empty();
    let address = word.parse::<SocketAddr>().map(|it| it.ip());
    !here && address.is_err() && word.parse::<IpAddr>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_taken_out_and_nothing_else() {
        let redactor = Redactor::new([7; 32], Some("/home/ann".to_owned()));
        let did = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c";
        let key = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";
        let peer = "12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN";
        for (line, hidden) in [
            (format!("link up peer={did} link=4"), did),
            (format!("stream 7:{did}>{did}/application"), did),
            (format!("it is {key}."), key),
            (format!("({peer})"), peer),
            (format!("{{\"peer\":\"{did}\",\"n\":1}}"), did),
            (
                format!("\u{1b}[3mpeer\u{1b}[0m=\u{1b}[2m{did}\u{1b}[0m"),
                did,
            ),
            (format!("digest {}", "ab".repeat(32)), "abababab"),
            ("from 192.0.2.7:4000".to_owned(), "192.0.2.7"),
            ("from 192.0.2.7.".to_owned(), "192.0.2.7"),
            ("at http://192.0.2.7:4000/v1".to_owned(), "192.0.2.7"),
            ("at http://ann.example:4000/v1".to_owned(), "ann.example"),
            ("stun://ann.example".to_owned(), "ann.example"),
            ("addr=[2001:db8::1]:4000,".to_owned(), "2001:db8::1"),
            ("addr=2001:db8::1".to_owned(), "2001:db8::1"),
            ("addr=[192.0.2.7]".to_owned(), "192.0.2.7"),
            ("open /home/ann/.local: no".to_owned(), "ann"),
        ] {
            let redacted = redactor.redact(&line);
            assert!(!redacted.contains(hidden), "{line}: {redacted}");
        }
        for line in [
            "2026-11-30T10:00:00.123456Z  WARN overlane_node::link: link down reason=\"closed\" code=link/closed",
            "listening on 127.0.0.1:7420 and [::1]:7420, http://localhost:9464/metrics 0.0.0.0:1",
            "sequence 18446744073709551615, 40 of 4096 bytes, deadbeef",
            "",
        ] {
            assert_eq!(redactor.redact(line), line);
        }
    }

    #[test]
    fn the_same_has_the_same_pseudonym_in_one_process_and_another_in_the_next() {
        let did = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c";
        let (one, next) = (Redactor::new([1; 32], None), Redactor::new([2; 32], None));
        assert_eq!(one.redact(did), one.redact(&did.to_uppercase()));
        assert_ne!(one.redact(did), next.redact(did));
        assert_ne!(one.redact(did), one.redact(&did.replace('0', "1")));
    }

    #[test]
    fn without_randomness_nothing_tells_one_from_another() {
        let none = Redactor::new(None, None);
        let did = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c";
        assert!(!none.redact(did).contains("0f1e"));
        assert_eq!(none.redact(did), none.redact(&did.replace('0', "1")));
    }
}
