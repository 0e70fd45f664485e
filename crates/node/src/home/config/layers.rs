//! Who says what a value is: a flag over the environment over the file over the profile over the default.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use toml_edit::{Document, Item, TableLike, TomlError, Value};

use super::keys::{ENVIRONMENT_PREFIX, KEYS, Key, KeySpec, named, nearest, nearest_of};
use super::values::{self, Wrong, start};
use super::{Config, Profile};
use crate::home::HomeError;
use crate::link::config::HANDSHAKES_DEFAULT_MAX;

/// Names of the environment that begin as keys do and are none.
const NO_KEYS: &[&str] = &["OVERLANE_HOME"];

/// What is said beside the file.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    environment: Vec<(String, String)>,
    flags: Vec<(String, String, String)>,
}

impl Sources {
    /// What this process's environment says: every variable that begins with `OVERLANE_`.
    pub fn of_process() -> Self {
        let all = std::env::vars_os().map(|(name, value)| {
            let text = |it: std::ffi::OsString| it.to_string_lossy().into_owned();
            (text(name), text(value))
        });
        Self::of_environment(all)
    }

    /// What these variables say.
    pub fn of_environment(all: impl IntoIterator<Item = (String, String)>) -> Self {
        let ours = |(name, _): &(String, String)| {
            name.starts_with(ENVIRONMENT_PREFIX) && !NO_KEYS.contains(&name.as_str())
        };
        Self {
            environment: all.into_iter().filter(ours).collect(),
            flags: Vec::new(),
        }
    }

    /// Adds that `flag` sets the key `name`. The last one counts.
    pub fn flag(&mut self, flag: &str, name: &str, value: &str) {
        let flag = (flag.to_owned(), name.to_owned(), value.to_owned());
        self.flags.push(flag);
    }
}

/// Who said what a value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody: it is the default.
    Default,
    /// The profile.
    Profile(Profile),
    /// The file, in this line, counted from 1.
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// A variable of the environment.
    Environment(String),
    /// A flag.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Profile(profile) => write!(f, "profile {}", profile.name()),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// What the configuration comes to, and who said so.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// What it comes to.
    pub config: Config,
    /// Variables of the environment that begin as keys do and are none, each with the one that
    /// was probably meant.
    pub strays: Vec<(String, Option<String>)>,
    origins: BTreeMap<Key, Origin>,
}

/// One key, its value and who said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The key.
    pub name: &'static str,
    /// The value as it would be written, without credentials; `None` where it has none.
    pub value: Option<String>,
    /// Who said so.
    pub origin: Origin,
}

impl Settings {
    /// Every key, in the order of the file.
    pub fn all(&self) -> impl Iterator<Item = Setting> {
        KEYS.iter().map(|spec| Setting {
            name: spec.name,
            value: values::shown(&self.config, spec.key).map(|it| it.to_string().trim().to_owned()),
            origin: self.origin(spec.key),
        })
    }

    /// Whether the credential of a server is in the file, and not only in the environment or a flag.
    pub(super) fn file_says_credential(&self) -> bool {
        let mut servers = self.config.ice_servers.iter();
        matches!(self.origin(Key::IceServers), Origin::File { .. })
            && servers.any(|server| server.credentials().is_some())
    }

    fn origin(&self, key: Key) -> Origin {
        let unsaid = || match KEYS.iter().find(|spec| spec.key == key) {
            Some(spec) if spec.is_of_profile() => Origin::Profile(self.config.profile),
            _ => Origin::Default,
        };
        self.origins.get(&key).cloned().unwrap_or_else(unsaid)
    }
}

/// One value as somebody said it.
struct Said {
    spec: &'static KeySpec,
    value: Value,
    origin: Origin,
}

/// Collects what everybody says, and what is wrong with it.
struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    said: Vec<Said>,
    mistakes: Vec<HomeError>,
}

/// Reads what the file of this text says, and everybody else; or everything that is wrong with it.
pub(super) fn resolve(
    text: &str,
    path: &Path,
    sources: &Sources,
) -> Result<Settings, Vec<HomeError>> {
    let mut reader = Reader {
        path,
        text,
        said: Vec::new(),
        mistakes: Vec::new(),
    };
    match Document::parse(text) {
        Ok(document) => reader.table(document.as_table(), ""),
        Err(error) => reader.unread(&error),
    }
    let strays = reader.environment(sources);
    for (flag, name, value) in &sources.flags {
        reader.flag(flag, name, value);
    }
    let profiles = reader.said.iter().rev();
    let profile = profiles
        .filter(|said| said.spec.key == Key::Profile)
        .find_map(|said| said.value.as_str()?.parse().ok());
    let mut config = Config::of(profile.unwrap_or_default());
    let mut origins = BTreeMap::new();
    for Said {
        spec,
        value,
        origin,
    } in std::mem::take(&mut reader.said)
    {
        match values::set(&mut config, spec, &value) {
            Ok(()) => drop(origins.insert(spec.key, origin)),
            Err(wrong) => reader.mistaken(spec.name, &origin, wrong),
        }
    }
    let settings = Settings {
        config,
        strays,
        origins,
    };
    if reader.mistakes.is_empty() {
        reader.together(&settings);
    }
    if reader.mistakes.is_empty() {
        return Ok(settings);
    }
    reader.mistakes.sort_by_key(|mistake| match mistake {
        HomeError::Config { line, .. } => *line,
        _ => usize::MAX,
    });
    Err(reader.mistakes)
}

impl Reader<'_> {
    fn line(&self, at: Option<usize>) -> usize {
        let before = self.text.bytes().take(at.unwrap_or(0));
        1 + before.filter(|&byte| byte == b'\n').count()
    }

    fn in_file(&mut self, at: Option<usize>, cause: String) {
        let mistake = HomeError::Config {
            path: self.path.to_owned(),
            line: self.line(at),
            cause,
        };
        self.mistakes.push(mistake);
    }

    fn unread(&mut self, error: &TomlError) {
        let at = error.span().map(|span| span.start);
        self.in_file(at, error.message().to_owned());
    }

    /// Takes the keys of one table of the file.
    fn table(&mut self, table: &dyn TableLike, prefix: &str) {
        for (name, item) in table.iter() {
            let dotted = format!("{prefix}{name}");
            let at = table.key(name).and_then(toml_edit::Key::span);
            let at = at.map(|span| span.start);
            if let Some(spec) = named(&dotted) {
                self.item(spec, item, at);
                continue;
            }
            let inside = format!("{dotted}.");
            let is_table = KEYS.iter().any(|spec| spec.name.starts_with(&inside));
            match item.as_table_like() {
                Some(table) if is_table => self.table(table, &inside),
                _ if is_table => {
                    let cause = format!("invalid type: \"{dotted}\" is a table, as in [{dotted}]");
                    self.in_file(at, cause);
                }
                _ => {
                    let cause = unknown(&dotted);
                    self.in_file(at, cause);
                }
            }
        }
    }

    fn item(&mut self, spec: &'static KeySpec, item: &Item, at: Option<usize>) {
        let Ok(value) = item.clone().into_value() else {
            return self.in_file(at, format!("\"{}\" has no value", spec.name));
        };
        let line = self.line(start(&value).or(at));
        let path = self.path.to_owned();
        let origin = Origin::File { path, line };
        self.said.push(Said {
            spec,
            value,
            origin,
        });
    }

    /// What is wrong with a value. A value that was written as tables is nowhere in the file.
    fn mistaken(&mut self, name: &str, origin: &Origin, Wrong { at, cause }: Wrong) {
        let cause = format!("{name}: {cause}");
        let mistake = match origin {
            Origin::File { path, line } => HomeError::Config {
                path: path.clone(),
                line: at.map_or(*line, |at| self.line(Some(at))),
                cause,
            },
            origin => HomeError::Setting {
                origin: origin.to_string(),
                cause,
            },
        };
        self.mistakes.push(mistake);
    }

    /// Takes what the environment says; what begins as a key does and is none is told.
    fn environment(&mut self, sources: &Sources) -> Vec<(String, Option<String>)> {
        let mut strays = Vec::new();
        for (name, text) in &sources.environment {
            let Some(spec) = KEYS.iter().find(|spec| spec.environment() == *name) else {
                let all: Vec<_> = KEYS.iter().map(KeySpec::environment).collect();
                let meant = nearest_of(name, all.iter().map(String::as_str));
                strays.push((name.clone(), meant.map(str::to_owned)));
                continue;
            };
            self.text(spec, text, Origin::Environment(name.clone()));
        }
        strays.sort();
        strays
    }

    fn flag(&mut self, flag: &str, name: &str, text: &str) {
        let origin = Origin::Flag(flag.to_owned());
        match named(name) {
            Some(spec) => self.text(spec, text, origin),
            None => self.mistakes.push(HomeError::Setting {
                origin: origin.to_string(),
                cause: unknown(name),
            }),
        }
    }

    fn text(&mut self, spec: &'static KeySpec, text: &str, origin: Origin) {
        match values::from_text(spec, text) {
            Ok(value) => self.said.push(Said {
                spec,
                value,
                origin,
            }),
            Err(wrong) => self.mistaken(spec.name, &origin, wrong),
        }
    }

    /// What is wrong with values that are each right.
    fn together(&mut self, settings: &Settings) {
        let Config { links, limits, .. } = &settings.config;
        let needed = limits.links_max + 2 * HANDSHAKES_DEFAULT_MAX;
        if let Some(count) = links
            .ports
            .count()
            .filter(|&count| usize::from(count) < needed)
        {
            let cause = format!(
                "{count} ports are too few for links.max = {} and the handshakes under way: {needed} \
                 are needed",
                limits.links_max
            );
            let spec = if settings.origins.contains_key(&Key::LinksPorts) {
                (Key::LinksPorts, "links.ports")
            } else {
                (Key::LinksMax, "links.max")
            };
            let origin = settings.origin(spec.0);
            self.mistaken(spec.1, &origin, Wrong { at: None, cause });
        }
    }
}

/// What is said of a key that there is not.
pub(super) fn unknown(name: &str) -> String {
    let tables = KEYS
        .iter()
        .filter_map(|spec| Some(spec.name.split_once('.')?.0));
    let meant = nearest(name).or_else(|| super::keys::nearest_of(name, tables));
    let meant = meant.map(|meant| format!("; did you mean \"{meant}\"?"));
    let meant = meant.unwrap_or_else(|| "; `overlane config explain` shows all".to_owned());
    format!("there is no key \"{name}\"{meant}")
}
