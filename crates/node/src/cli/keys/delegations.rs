//! `key request | delegate | accept`: an account that stays away from the node that signs for it.

use axum::http::Method;
use overlane_core::Fault;
use overlane_core::identity::{Delegation, DelegationRequest, KeyKind, Life};
use overlane_node::api::{Client, DelegateeReport, instant};
use overlane_node::home::{DelegatedKey, Home, HomeError};
use serde::Serialize;
use serde_json::json;

use super::super::args::DAY_MS;
use super::super::config::config;
use super::super::output::{Done, Failure, Output};
use super::super::{ask, only_if_running, replay};
use super::opening;

/// What is asked for, granted or taken.
#[derive(Serialize)]
struct Shown {
    /// Whether a running node signs with it already; without one, none.
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delegation: Option<String>,
    account: String,
    delegatee: String,
    network: u32,
    ends_ms: u64,
}

/// Draws a delegatee and prints what its account is asked for.
pub(super) fn request(home: &Home, days: u64, output: &Output) -> Result<Done, Failure> {
    let config = config(home)?;
    let lock = opening(home, &config)?;
    let mut key = home.delegated(&lock)?;
    let life = Life {
        issued_ms: replay::now().wall_ms,
        ttl_ms: days.saturating_mul(DAY_MS),
    };
    let request = key.ask(config.network, life)?;
    // Kept before it is shown: what is granted is always to a key that is here.
    home.keep_delegated(&key, &lock)?;
    let shown = Shown {
        request: Some(request.to_string()),
        ..Shown::of_request(&request)
    };
    output.answer(&shown, |_| request.to_string())?;
    Ok(Done::Yes)
}

/// Signs what is asked for with this home's account.
pub(super) fn delegate(
    home: &Home,
    request: &str,
    days: u64,
    output: &Output,
) -> Result<Done, Failure> {
    let request: DelegationRequest = request.parse()?;
    let config = config(home)?;
    let account = home.account(&opening(home, &config)?)?;
    if account.key().kind() == KeyKind::Ed25519 {
        let account = account.key().to_string();
        return Err(HomeError::AccountKind { account }.into());
    }
    let asked = request.life().ttl_ms;
    if asked > days.saturating_mul(DAY_MS) {
        let message = format!(
            "it asks for {} days, and {days} are allowed: ask for less, or allow it with --days",
            asked.div_ceil(DAY_MS)
        );
        return Err(Failure::new("key/too_long", Fault::RefusedByBound, message));
    }
    let shown = Shown::of_request(&request);
    let granted = request.grant(&account, replay::now().wall_ms)?;
    let shown = Shown {
        delegation: Some(granted.to_string()),
        ..shown
    };
    output.answer(&shown, |_| granted.to_string())?;
    Ok(Done::Yes)
}

/// Takes what the account signed.
pub(super) fn accept(home: &Home, delegation: &str, output: &Output) -> Result<Done, Failure> {
    let delegation: Delegation = delegation.parse()?;
    let config = config(home)?;
    let lock = opening(home, &config)?;
    let mut key: DelegatedKey = home.delegated(&lock)?;
    let ends_ms = delegation.life().last_ms();
    let mut shown = Shown {
        live: None,
        request: None,
        delegation: None,
        account: delegation.account().to_string(),
        delegatee: hex(delegation.delegatee().as_bytes()),
        network: delegation.network().0,
        ends_ms,
    };
    key.accept(delegation, config.network, replay::now().wall_ms)?;
    home.keep_delegated(&key, &lock)?;
    let renewed = renew(home);
    shown.live = renewed.as_ref().map(Result::is_ok);
    output.answer(&shown, |shown| {
        let node = match &renewed {
            Some(Ok(())) => "the running node does so now".to_owned(),
            Some(Err(why)) => format!("the running node does so from its next start on: {why}"),
            None => format!("now: {} run", output.overlane),
        };
        let until = instant(ends_ms);
        format!(
            "this home signs for {} until {until}; {node}",
            shown.account
        )
    })?;
    Ok(Done::Yes)
}

/// Has the running node, if one runs, sign with it from now on; else why it does not.
fn renew(home: &Home) -> Option<Result<(), String>> {
    let client = Client::of(home);
    let renewed: Result<Option<DelegateeReport>, Failure> = ask(async {
        let answer = client.call(Method::POST, "/v1/key/renew", &json!({})).await;
        only_if_running(answer)
    });
    match renewed {
        Ok(report) => report.map(|_| Ok(())),
        Err(failure) => Some(Err(failure.message().to_owned())),
    }
}

impl Shown {
    fn of_request(request: &DelegationRequest) -> Self {
        Self {
            live: None,
            request: None,
            delegation: None,
            account: request.account().to_string(),
            delegatee: hex(request.delegatee().as_bytes()),
            network: request.network().0,
            ends_ms: request.life().last_ms(),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
