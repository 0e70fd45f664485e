//! `config`: what is wrong with it, what it comes to, what a key does.

use overlane_core::Fault;
use overlane_node::home::{
    Config, Home, HomeError, KEYS, KeySpec, Origin, Profile, Setting, Settings, Sources,
    config_page, key,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::args::{Config as Asked, Set};
use super::output::{Done, Failure, Output};

/// What the file and the environment come to, for commands that take no keys themselves.
pub(super) fn config(home: &Home) -> Result<Config, Failure> {
    Ok(home.settings(&Sources::of_process())?.config)
}

/// What the environment and these flags say.
pub(super) fn sources_with(set: &Set) -> Sources {
    let mut sources = Sources::of_process();
    for (key, value) in &set.set {
        sources.flag("--set", key, value);
    }
    sources
}

/// Does what was asked.
pub(super) fn config_of(home: &Home, asked: &Asked, output: &Output) -> Result<Done, Failure> {
    match asked {
        Asked::Check(set) => check(home, set, output),
        Asked::Show { origin, set } => show(home, set, *origin, output),
        Asked::Explain { key, page } => explain(key.as_deref(), *page, output),
    }
}

fn check(home: &Home, set: &Set, output: &Output) -> Result<Done, Failure> {
    let mistakes = match home.check(&sources_with(set)) {
        Ok(settings) if settings.strays.is_empty() => {
            return all_right(home, &settings, output);
        }
        Ok(settings) => settings.strays.into_iter().map(stray).collect(),
        Err(mistakes) => mistakes,
    };
    let Some((last, before)) = mistakes.split_last() else {
        return Ok(Done::Yes);
    };
    for mistake in before {
        let failure = Failure::from(mistake.clone());
        let told = json!({"error": failure.code(), "message": failure.message()});
        output.answer(&told, |_| failure.message().to_owned())?;
    }
    Err(last.clone().into())
}

fn all_right(home: &Home, settings: &Settings, output: &Output) -> Result<Done, Failure> {
    let said = settings
        .all()
        .filter(|setting| !matches!(setting.origin, Origin::Default | Origin::Profile(_)));
    let path = home.config_path().display().to_string();
    let profile = settings.config.profile.name();
    let without = match home.config_path().exists() {
        true => String::new(),
        false => format!("; there is no {path}"),
    };
    let answer = json!({"ok": true, "config": path, "profile": profile, "keys": said.count()});
    output.answer(&answer, |answer| {
        format!(
            "nothing is wrong: {} keys are set, over profile {profile}{without}",
            answer["keys"]
        )
    })?;
    Ok(Done::Yes)
}

fn stray((name, meant): (String, Option<String>)) -> HomeError {
    let meant = meant.map(|meant| format!("; did you mean {meant}?"));
    let cause = format!("it is of no key{}", meant.unwrap_or_default());
    let origin = name;
    HomeError::Setting { origin, cause }
}

fn show(home: &Home, set: &Set, origin: bool, output: &Output) -> Result<Done, Failure> {
    let settings = home.settings(&sources_with(set))?;
    let values: Vec<_> = settings
        .all()
        .map(|setting| setting.value.unwrap_or_default())
        .collect();
    let wide = |it: usize| it.min(44);
    let value_width = wide(values.iter().map(String::len).max().unwrap_or(0));
    for setting in settings.all() {
        let Setting {
            name,
            value,
            origin: from,
        } = setting;
        let answer = json!({"key": name, "value": value, "origin": from.to_string()});
        output.answer(&answer, |_| {
            let value = value.as_deref().unwrap_or("(none)");
            match origin {
                true => format!("{name:<26} {value:<value_width$}  {from}"),
                false => format!("{name:<26} {value}"),
            }
        })?;
    }
    Ok(Done::Yes)
}

#[derive(Serialize)]
struct Explained {
    key: &'static str,
    r#type: &'static str,
    may_be: String,
    unit: &'static str,
    what: &'static str,
    default: Value,
    environment: String,
}

/// Explains one key, or all of them; needs no home.
pub(super) fn explain(name: Option<&str>, page: bool, output: &Output) -> Result<Done, Failure> {
    if page {
        output.line(config_page().trim_end())?;
        return Ok(Done::Yes);
    }
    let asked: Vec<&KeySpec> = match name {
        None => KEYS.iter().collect(),
        Some(name) => {
            let unknown = |cause: String| Failure::new("cli/unknown_key", Fault::Usage, cause);
            vec![key(name).map_err(unknown)?]
        }
    };
    for spec in asked {
        let explained = Explained {
            key: spec.name,
            r#type: spec.type_name(),
            may_be: spec.bounds(),
            unit: spec.unit,
            what: spec.what,
            default: json!({
                "home": spec.default_of(Profile::Home),
                "server": spec.default_of(Profile::Server),
            }),
            environment: spec.environment(),
        };
        output.answer(&explained, |it| in_words(it, spec))?;
    }
    Ok(Done::Yes)
}

fn in_words(explained: &Explained, spec: &KeySpec) -> String {
    let Explained {
        key,
        r#type,
        may_be,
        unit,
        what,
        environment,
        ..
    } = explained;
    let unit = if unit.is_empty() {
        String::new()
    } else {
        format!(", in {unit}")
    };
    format!(
        "{key}\n  {what}\n  {type}{unit}: {may_be}\n  default: {}\n  environment: {environment}",
        spec.default_in_words()
    )
}
