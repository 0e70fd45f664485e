//! The file that is written: a word on every key, and edits that leave every other byte alone.

use std::path::Path;

use toml_edit::{Array, DocumentMut, Item, Value};

use super::keys::{KEYS, Key, KeySpec, Kind};
use super::{Config, Written, values, written};
use crate::home::{HomeError, files};

/// How wide the words are.
const WIDTH: usize = 98;

/// Keys that stand in the file also where they have their default.
const WRITTEN: &[Key] = &[
    Key::Network,
    Key::Listen,
    Key::Store,
    Key::Peers,
    Key::Log,
    Key::LinksRequire,
];

impl Config {
    /// The file that says this, with a word on every key.
    pub fn to_toml(&self) -> String {
        let mut file = String::from(
            "# What this node is to do. Every key may be left out; it then has the default named here.\n\
             # The daemon reads this file when it starts. A variable of the environment or a flag goes before\n\
             # it: `overlane config show --origin` shows what counts, and `overlane config explain KEY` says more.\n",
        );
        let default = Self::of(self.profile);
        let mut table = "";
        for spec in KEYS {
            let (of, name) = spec.name.rsplit_once('.').unwrap_or(("", spec.name));
            let tables = matches!(spec.kind, Kind::Tables(..));
            if of != table && !tables {
                table = of;
                file += &format!("\n[{of}]");
            }
            file += "\n";
            file += &in_words(spec);
            if tables {
                file += &self.servers(spec);
                continue;
            }
            let value = values::written(self, spec.key);
            let usual = values::written(&default, spec.key);
            let same = value.as_ref().map(Value::to_string) == usual.map(|it| it.to_string());
            let is_written = WRITTEN.contains(&spec.key) || !same || spec.is_chosen(self);
            let text = match (value, spec.kind) {
                (Some(value), _) => value.to_string(),
                (None, Kind::Text(_, example)) => Value::from(example).to_string(),
                (None, _) => String::new(),
            };
            let text = text.trim();
            let mark = if is_written { "" } else { "# " };
            file += &format!("{mark}{name} = {text}\n");
        }
        file
    }

    /// The tables of the servers, or how one is written.
    fn servers(&self, spec: &KeySpec) -> String {
        let name = spec.name;
        let mut text = format!(
            "# [[{name}]]\n# url = \"stun:stun.example:3478\"\n\
             # [[{name}]]\n# url = \"turn:turn.example:3478\"\n\
             # username = \"NAME\"\n# credential = \"WORD\"\n"
        );
        let written = values::written(self, spec.key);
        let servers = written.as_ref().and_then(Value::as_array);
        for server in servers.into_iter().flatten() {
            text += &format!("\n[[{name}]]\n");
            for (key, value) in server.as_inline_table().into_iter().flatten() {
                text += &format!("{key} = {}\n", value.to_string().trim());
            }
        }
        text
    }
}

impl KeySpec {
    /// A profile that is not the default is chosen.
    fn is_chosen(&self, config: &Config) -> bool {
        self.key == Key::Profile && config.profile != super::Profile::default()
    }
}

/// What is said of a key above it.
fn in_words(spec: &KeySpec) -> String {
    let default = spec.default_in_words();
    let words = format!("{} Default: {default}.", spec.what);
    let mut lines = String::new();
    let mut line = "#".to_owned();
    for word in words.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            lines += &format!("{line}\n");
            line = "#".to_owned();
        }
        line += &format!(" {word}");
    }
    format!("{lines}{line}\n")
}

/// Puts `peers` in place of the list in the file, and keeps everything else, comments too.
pub(in crate::home) fn write_peers(path: &Path, peers: &[String]) -> Result<(), HomeError> {
    let Written { text: before, mode } = written(path)?;
    let mut document: DocumentMut =
        before
            .parse()
            .map_err(|error: toml_edit::TomlError| HomeError::Config {
                path: path.to_owned(),
                line: line(&before, error.span().map_or(0, |span| span.start)),
                cause: error.message().to_owned(),
            })?;
    let list: Array = peers.iter().collect();
    let decor = document
        .get("peers")
        .and_then(Item::as_value)
        .map(|value| value.decor().clone());
    let mut value = Value::from(list);
    if let Some(decor) = decor {
        *value.decor_mut() = decor;
    }
    let value = Item::Value(value);
    // Inserting would put a bare key in the place of one that has comments above it.
    match document.get_mut("peers") {
        Some(there) => *there = value,
        None => drop(document.insert("peers", value)),
    }
    files::replace(path, document.to_string().as_bytes(), mode)
}

fn line(text: &str, start: usize) -> usize {
    1 + text
        .bytes()
        .take(start)
        .filter(|&byte| byte == b'\n')
        .count()
}
