//! Between a value as it is written and what it means.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use overlane_core::NetworkId;
use overlane_storage_native::StoreKind;
use toml_edit::{Array, InlineTable, Value};

use super::Config;
use super::keys::{Key, KeySpec, Kind, nearest_of};
use super::url::peer_url;
use crate::PEERS_MAX;
use crate::link::ice::{ICE_SERVERS_MAX, IceServer, IceServerError};

/// What is shown in the place of a credential.
pub(super) const HIDDEN: &str = "(hidden)";

/// What is wrong with a value, and where in the file if it is of one.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) at: Option<usize>,
    pub(super) cause: String,
}

/// Where a value begins in the file.
pub(super) fn start(value: &Value) -> Option<usize> {
    value.span().map(|span| span.start)
}

fn wrong(value: &Value, cause: impl Into<String>) -> Wrong {
    let (at, cause) = (start(value), cause.into());
    Wrong { at, cause }
}

/// Puts `value` in the place of the key's value.
pub(super) fn set(config: &mut Config, spec: &KeySpec, value: &Value) -> Result<(), Wrong> {
    match spec.key {
        Key::Profile => drop(parsed::<super::Profile>(value)?),
        Key::Network => {
            let number = number(spec, value)?;
            config.network = NetworkId(u32::try_from(number).unwrap_or(u32::MAX));
        }
        Key::Listen => config.listen = parsed(value)?,
        Key::Metrics => {
            config.metrics = optional(value)?.map(|it| loopback(value, it)).transpose()?
        }
        Key::LogsFormat => config.logs.json = word(value, "text", "json")?,
        Key::LogsIdentities => config.logs.shows_all = word(value, "hidden", "shown")?,
        Key::PassphraseFile => config.key.passphrase_file = optional(value)?,
        Key::UnlockFile => config.key.file = optional(value)?,
        Key::ApiListen => {
            config.api.listen = optional(value)?.map(|it| loopback(value, it)).transpose()?
        }
        Key::ApiHosts => config.api.hosts = texts(spec, value)?,
        Key::ApiOrigins => config.api.origins = texts(spec, value)?,
        Key::Store => config.store = store(value)?,
        Key::Peers => config.peers = peers(value)?,
        Key::Log => config.log = parsed(value)?,
        Key::LinksBind => config.links.bind = optional::<IpAddr>(value)?,
        Key::LinksRequire => config.links.require_direct = direct(value)?,
        Key::LinksMax => config.limits.links_max = size(number(spec, value)?),
        Key::LinksPorts => config.links.ports = parsed(value)?,
        Key::LimitsSends => config.limits.sends_max_bytes = number(spec, value)?,
        Key::LimitsDispatch => config.limits.dispatch_max_bytes = number(spec, value)?,
        Key::LimitsChunks => config.limits.chunks_max_bytes = number(spec, value)?,
        Key::LimitsQueued => config.limits.queued_max_bytes = size(number(spec, value)?),
        Key::InboxMails => config.inbox_mails = number(spec, value)?,
        Key::GroupsHostGone => config.groups.host_gone_ms = number(spec, value)?,
        Key::GroupsKeep => config.groups.keep_ms = number(spec, value)?,
        Key::GroupsKeepPosts => config.groups.keep_posts = number(spec, value)?,
        Key::GroupsKeepBytes => config.groups.keep_max_bytes = number(spec, value)?,
        Key::IceServers => config.ice_servers = ice_servers(spec, value)?,
    }
    Ok(())
}

/// The key's value as it is written; `None` where it has none.
pub(super) fn written(config: &Config, key: Key) -> Option<Value> {
    let Config {
        profile,
        network,
        listen,
        metrics,
        api,
        store,
        peers,
        log,
        logs,
        key: at_rest,
        links,
        limits,
        inbox_mails,
        groups,
        ice_servers,
    } = config;
    let number = |number: u64| Value::from(i64::try_from(number).unwrap_or(i64::MAX));
    Some(match key {
        Key::Profile => profile.name().into(),
        Key::Network => number(network.0.into()),
        Key::Listen => listen.to_string().into(),
        Key::Metrics => (*metrics)?.to_string().into(),
        Key::LogsFormat => if logs.json { "json" } else { "text" }.into(),
        Key::LogsIdentities => if logs.shows_all { "shown" } else { "hidden" }.into(),
        Key::PassphraseFile => at_rest
            .passphrase_file
            .as_ref()?
            .display()
            .to_string()
            .into(),
        Key::UnlockFile => at_rest.file.as_ref()?.display().to_string().into(),
        Key::ApiListen => api.listen?.to_string().into(),
        Key::ApiHosts => api.hosts.iter().collect::<Array>().into(),
        Key::ApiOrigins => api.origins.iter().collect::<Array>().into(),
        Key::Store => store.name().into(),
        Key::Peers => peers.iter().collect::<Array>().into(),
        Key::Log => log.text().into(),
        Key::LinksBind => links.bind?.to_string().into(),
        Key::LinksRequire => if links.require_direct {
            "direct"
        } else {
            "any"
        }
        .into(),
        Key::LinksMax => number(limits.links_max as u64),
        Key::LinksPorts => links.ports.to_string().into(),
        Key::LimitsSends => number(limits.sends_max_bytes),
        Key::LimitsDispatch => number(limits.dispatch_max_bytes),
        Key::LimitsChunks => number(limits.chunks_max_bytes),
        Key::LimitsQueued => number(limits.queued_max_bytes as u64),
        Key::InboxMails => number(*inbox_mails),
        Key::GroupsHostGone => number(groups.host_gone_ms),
        Key::GroupsKeep => number(groups.keep_ms),
        Key::GroupsKeepPosts => number(groups.keep_posts),
        Key::GroupsKeepBytes => number(groups.keep_max_bytes),
        Key::IceServers => ice_servers.iter().map(server).collect::<Array>().into(),
    })
}

/// The same, without what is nobody's business.
pub(super) fn shown(config: &Config, key: Key) -> Option<Value> {
    let mut value = written(config, key)?;
    for table in value.as_array_mut().into_iter().flat_map(Array::iter_mut) {
        let credential = table
            .as_inline_table_mut()
            .and_then(|it| it.get_mut("credential"));
        if let Some(credential) = credential {
            *credential = HIDDEN.into();
        }
    }
    Some(value)
}

/// The value that the environment or a flag says.
pub(super) fn from_text(spec: &KeySpec, text: &str) -> Result<Value, Wrong> {
    let none = |cause: String| Wrong { at: None, cause };
    match spec.kind {
        Kind::Text(..) | Kind::Word(_) => Ok(text.into()),
        Kind::Number(..) => {
            let number: Result<i64, _> = text.trim().parse();
            number
                .map(Value::from)
                .map_err(|_| none(format!("invalid type: \"{text}\" is no number")))
        }
        Kind::List(..) if !text.trim_start().starts_with('[') => {
            let items = text.split(',').map(str::trim).filter(|it| !it.is_empty());
            Ok(items.collect::<Array>().into())
        }
        Kind::List(..) | Kind::Tables(..) => {
            let value: Result<Value, toml_edit::TomlError> = text.parse();
            value.map_err(|error| none(error.message().to_owned()))
        }
    }
}

fn text(value: &Value) -> Result<&str, Wrong> {
    let found = || {
        wrong(
            value,
            format!("invalid type: expected text, found {}", kind_of(value)),
        )
    };
    value.as_str().ok_or_else(found)
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "text",
        Value::Integer(_) => "a number",
        Value::Float(_) => "a number with a fraction",
        Value::Boolean(_) => "a truth value",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::InlineTable(_) => "a table",
    }
}

fn parsed<T: FromStr<Err: ToString>>(value: &Value) -> Result<T, Wrong> {
    let parsed = text(value)?.parse();
    parsed.map_err(|cause: T::Err| wrong(value, cause.to_string()))
}

/// As [`parsed`]; nothing where the text is empty.
fn optional<T: FromStr<Err: ToString>>(value: &Value) -> Result<Option<T>, Wrong> {
    match text(value)? {
        "" => Ok(None),
        _ => parsed(value).map(Some),
    }
}

fn number(spec: &KeySpec, value: &Value) -> Result<u64, Wrong> {
    let Some(number) = value.as_integer() else {
        let found = kind_of(value);
        return Err(wrong(
            value,
            format!("invalid type: expected a number, found {found}"),
        ));
    };
    let Kind::Number(least, most) = spec.kind else {
        return Err(wrong(value, "takes no number"));
    };
    let fits = u64::try_from(number).ok();
    fits.filter(|it| (least..=most).contains(it))
        .ok_or_else(|| {
            let unit = if spec.unit.is_empty() { "" } else { " " };
            let cause = format!(
                "{number} is not within {least} to {most}{unit}{}",
                spec.unit
            );
            wrong(value, cause)
        })
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn loopback(value: &Value, address: SocketAddr) -> Result<SocketAddr, Wrong> {
    let local = address.ip().is_loopback().then_some(address);
    local.ok_or_else(|| wrong(value, format!("{address} is no address of the loopback")))
}

fn store(value: &Value) -> Result<StoreKind, Wrong> {
    let name = text(value)?;
    StoreKind::from_name(name).ok_or_else(|| {
        let cause = format!("\"{name}\" is no store; there is \"journal\" and \"files\"");
        wrong(value, cause)
    })
}

/// Whether the value is the second word, and not the first.
fn word(value: &Value, one: &str, other: &str) -> Result<bool, Wrong> {
    match text(value)? {
        word if word == one => Ok(false),
        word if word == other => Ok(true),
        word => Err(wrong(
            value,
            format!("\"{word}\" is neither \"{one}\" nor \"{other}\""),
        )),
    }
}

fn direct(value: &Value) -> Result<bool, Wrong> {
    match text(value)? {
        "any" => Ok(false),
        "direct" => Ok(true),
        word => Err(wrong(
            value,
            format!("links require \"{word}\"; there is \"any\" and \"direct\""),
        )),
    }
}

fn items(value: &Value) -> Result<&Array, Wrong> {
    let found = || {
        wrong(
            value,
            format!("invalid type: expected a list, found {}", kind_of(value)),
        )
    };
    value.as_array().ok_or_else(found)
}

/// Texts as they are, none of them empty.
fn texts(spec: &KeySpec, value: &Value) -> Result<Vec<String>, Wrong> {
    let list = items(value)?;
    if let Kind::List(_, most) = spec.kind
        && let Some(beyond) = list.get(most)
    {
        return Err(wrong(
            beyond,
            format!("{} texts; there may be {most}", list.len()),
        ));
    }
    let one = |it: &Value| match text(it)? {
        "" | "*" | "null" => Err(wrong(it, "expected a name: nothing stands for all")),
        text => Ok(text.to_owned()),
    };
    list.iter().map(one).collect()
}

/// The URLs in their one form. None is left out without a word.
fn peers(value: &Value) -> Result<Vec<String>, Wrong> {
    let list = items(value)?;
    if let Some(beyond) = list.get(PEERS_MAX) {
        let count = list.len();
        let cause = format!("{count} peers; a node stays linked to at most {PEERS_MAX}");
        return Err(wrong(beyond, cause));
    }
    let form = |it: &Value| peer_url(text(it)?).map_err(|cause| wrong(it, cause));
    list.iter().map(form).collect()
}

fn ice_servers(spec: &KeySpec, value: &Value) -> Result<Vec<IceServer>, Wrong> {
    let list = items(value)?;
    if list.len() > ICE_SERVERS_MAX {
        let beyond = list.get(ICE_SERVERS_MAX).and_then(first_value);
        let cause = IceServerError::TooMany(list.len()).to_string();
        return Err(wrong(beyond.unwrap_or(value), cause));
    }
    list.iter().map(|it| ice_server(spec, it)).collect()
}

/// A table that was written in lines of its own is nowhere in the file, its values are.
fn first_value(table: &Value) -> Option<&Value> {
    let mut values = table.as_inline_table()?.iter();
    values.next().map(|(_, value)| value)
}

fn ice_server(spec: &KeySpec, value: &Value) -> Result<IceServer, Wrong> {
    let Some(table) = value.as_inline_table() else {
        let found = kind_of(value);
        return Err(wrong(
            value,
            format!("invalid type: expected a table, found {found}"),
        ));
    };
    let Kind::Tables(keys, _) = spec.kind else {
        return Err(wrong(value, "takes no tables"));
    };
    for (name, written) in table {
        if !keys.contains(&name) {
            let meant = nearest_of(name, keys.iter().copied());
            let meant = meant.map_or_else(String::new, |it| format!("; did you mean \"{it}\"?"));
            let at = table.key(name).and_then(toml_edit::Key::span);
            let at = at.map(|span| span.start).or_else(|| start(written));
            let expected = keys.join(", ");
            let cause = format!("\"{name}\" is no key of a server: expected {expected}{meant}");
            return Err(Wrong { at, cause });
        }
    }
    let named = |name: &str| table.get(name).map(text).transpose();
    let Some(url) = table.get("url") else {
        let near = first_value(value).unwrap_or(value);
        return Err(wrong(
            near,
            "a server needs its url, as in \"stun:HOST:PORT\"",
        ));
    };
    let (username, credential) = (named("username")?, named("credential")?);
    IceServer::new(text(url)?, username, credential).map_err(|cause| wrong(url, cause.to_string()))
}

fn server(server: &IceServer) -> Value {
    let mut table = InlineTable::new();
    table.insert("url", server.url().into());
    if let Some((username, credential)) = server.credentials() {
        table.insert("username", username.into());
        table.insert("credential", credential.into());
    }
    table.into()
}
