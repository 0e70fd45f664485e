//! `init` and `id`: who a node is.

use overlane_core::identity::{Account, AccountKey};
use overlane_core::{Fault, NetworkId};
use overlane_node::api::Identity;
use overlane_node::home::{Config, DelegatedKey, Home};
use serde::Serialize;
use zeroize::Zeroizing;

use super::args::Init;
use super::config;
use super::output::{Done, Failure, Output};

#[derive(Serialize)]
struct Initialised {
    #[serde(flatten)]
    identity: Identity,
    home: String,
    config: String,
}

/// Makes an account and a configuration.
pub(super) fn init(home: &Home, init: &Init, output: &Output) -> Result<Done, Failure> {
    if init.if_missing && home.is_initialised()? {
        return id(home, output);
    }
    let default = Config::of(init.profile.unwrap_or_default());
    let config = Config {
        network: init.network.map_or(default.network, NetworkId),
        listen: init.listen.unwrap_or(default.listen),
        store: init.store.unwrap_or(default.store),
        ..default
    };
    let lock = init.lock.given()?;
    let key = match &init.delegated_by {
        Some(account) => {
            let key = DelegatedKey::new(account.parse::<AccountKey>()?)?;
            home.init_delegated(&key, &config, &lock)?;
            key.account().clone()
        }
        None => {
            let account = match init.kind.as_deref() {
                Some("secp256k1") => Account::secp256k1(seed()?)?,
                _ => new_account()?,
            };
            home.init(&account, &config, &lock)?;
            account.key().clone()
        }
    };
    // What counts is what the next command will read.
    let config = config::config(home)?;
    let made = Initialised {
        identity: Identity::of(&key, config.network),
        home: home.dir().display().to_string(),
        config: home.config_path().display().to_string(),
    };
    let next = match &init.delegated_by {
        Some(_) => "key request > request.txt, for `overlane key delegate` where the account is",
        None => "run",
    };
    output.answer(&made, |made| {
        format!(
            "a new node in {}\n\n{}\n\nnext: {} {next}",
            made.home,
            in_words(&made.identity),
            output.overlane
        )
    })?;
    Ok(Done::Yes)
}

/// A new account.
pub(super) fn new_account() -> Result<Account, Failure> {
    Ok(Account::ed25519(seed()?)?)
}

fn seed() -> Result<Zeroizing<[u8; 32]>, Failure> {
    let mut seed = Zeroizing::new([0; 32]);
    random(seed.as_mut_slice())?;
    Ok(seed)
}

/// Fills `bytes` with what nobody can foresee.
pub(super) fn random(bytes: &mut [u8]) -> Result<(), Failure> {
    getrandom::fill(bytes).map_err(|cause| {
        let message = format!("the platform gives no randomness for a key: {cause}");
        Failure::new("cli/no_randomness", Fault::RefusedByBound, message)
    })
}

/// Shows who the node is.
pub(super) fn id(home: &Home, output: &Output) -> Result<Done, Failure> {
    let identity = Identity::of(&home.account_key()?.0, config::config(home)?.network);
    output.answer(&identity, in_words)?;
    Ok(Done::Yes)
}

fn in_words(identity: &Identity) -> String {
    let Identity {
        did,
        did_key,
        peer_id,
        network,
    } = identity;
    format!("  did      {did}\n  did:key  {did_key}\n  peer id  {peer_id}\n  network  {network}")
}
