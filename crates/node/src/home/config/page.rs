//! What is said of keys to people: one, or the page of all.

use super::keys::{KEYS, Key, KeySpec, Kind, named};
use super::layers::unknown;
use super::{Config, Profile, values};

impl KeySpec {
    /// Whether the profile gives its default.
    pub fn is_of_profile(&self) -> bool {
        let of = |profile| values::written(&Config::of(profile), self.key).map(|it| it.to_string());
        self.key != Key::Profile && of(Profile::Home) != of(Profile::Server)
    }

    /// Its default with this profile, as it is written; `None` where it has none.
    pub fn default_of(&self, profile: Profile) -> Option<String> {
        let profile = if self.key == Key::Profile {
            Profile::default()
        } else {
            profile
        };
        let value = values::written(&Config::of(profile), self.key)?;
        Some(value.to_string().trim().to_owned())
    }

    /// Its default, or those of the profiles.
    pub fn default_in_words(&self) -> String {
        let of = |profile| match (self.default_of(profile), self.kind) {
            (None, _) | (Some(_), Kind::List(..) | Kind::Tables(..)) => "none".to_owned(),
            (Some(default), _) => default,
        };
        if !self.is_of_profile() {
            return of(Profile::Home);
        }
        format!(
            "{} (home), {} (server)",
            of(Profile::Home),
            of(Profile::Server)
        )
    }
}

/// What is known of the key of this name, or which one was probably meant.
///
/// # Errors
/// That there is none, in words.
pub fn key(name: &str) -> Result<&'static KeySpec, String> {
    named(name).ok_or_else(|| unknown(name))
}

/// The page of the documentation.
pub fn config_page() -> String {
    let mut page = String::from(
        "# Configuration\n\n\
         A node reads `config.toml` in its home, in TOML, when it starts. Of a key counts what a flag says, else the \
         environment, else the file, else the profile, else the default. `overlane run --set KEY=VALUE` sets any key; \
         the variable of a key is its name in capitals behind `OVERLANE_`, with `_` for every dot, and a list there \
         has commas between its texts.\n\n\
         - `overlane config check`: everything that is wrong, each with its file and line and what was probably meant; \
         exit code 2 if anything is.\n\
         - `overlane config show --origin`: every key, its value, and who said so. A credential is not shown.\n\
         - `overlane config explain KEY`: what is on this page.\n\n\
         This page is made from the table in the program: `overlane config explain --page > docs/config.md`.\n\n\
         | key | type | what it may be | unit | default |\n|---|---|---|---|---|\n",
    );
    for spec in KEYS {
        let (name, kind, unit) = (spec.name, spec.type_name(), spec.unit);
        let (bounds, default) = (spec.bounds(), spec.default_in_words());
        page += &format!("| `{name}` | {kind} | {bounds} | {unit} | {default} |\n");
    }
    for spec in KEYS {
        page += &format!(
            "\n## {}\n\n{} In the environment: `{}`.\n",
            spec.name,
            spec.what,
            spec.environment()
        );
    }
    page
}
