//! The command line. What is typed comes in through [`args`], what is shown goes out through
//! [`output`], and between them each command is one function.

mod api;
mod args;
mod backup;
mod bounds;
mod config;
mod dashboard;
mod demo;
mod doctor;
mod explain;
mod groups;
mod identity;
mod inbox;
mod keys;
mod log;
mod metrics;
mod output;
mod overlay;
mod pages;
mod peers;
mod receipts;
mod refs;
mod replay;
mod run;
mod send;
mod service;
mod share;
#[cfg(feature = "sim")]
mod sim;
mod status;
mod support;
mod waits;
mod watch;

use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use overlane_core::Fault;
use overlane_node::api::ClientError;
use overlane_node::home::{Home, HomeError};

use args::{CheckForks, Cli, Command, Config as Asked, Forks, Global, Receipt, Replay};
use output::{Failure, Output};

/// Does what was typed.
pub(crate) fn main() -> ExitCode {
    let typed: Vec<OsString> = std::env::args_os().collect();
    match Cli::try_parse_from(&typed) {
        Ok(cli) => run(cli),
        Err(error) => not_understood(&error, &typed),
    }
}

fn run(Cli { global, command }: Cli) -> ExitCode {
    let mut output = Output {
        json: global.json,
        overlane: "overlane".to_owned(),
    };
    // What needs no home does without one.
    match &command {
        Command::Demo => return output.end(demo::demo(&output)),
        #[cfg(feature = "sim")]
        Command::Sim(asked) => return output.end(sim::sim(asked, &output)),
        Command::Config(Asked::Explain { key, page }) => {
            return output.end(config::explain(key.as_deref(), *page, &output));
        }
        Command::Receipt(Receipt::Verify { file }) => {
            return output.end(receipts::verify(file, &output));
        }
        Command::Api { openapi: true } => return output.end(api::document(&output)),
        Command::Metrics(asked) if asked.page => return output.end(metrics::page(&output)),
        Command::Explain(asked) if !explain::is_of_a_transaction(asked) => {
            return output.end(explain::explain(None, asked, &output));
        }
        Command::Completions(asked) => return output.end(pages::completions(asked, &output)),
        Command::Man(asked) => return output.end(pages::manual(asked, &output)),
        Command::Replay(Replay::Forks(Forks {
            check: Some(CheckForks::Verify { file }),
            ..
        })) => return output.end(replay::verify_fork(file, &output)),
        _ => {}
    }
    let home = match home(&global) {
        Ok(home) => home,
        Err(error) => return output.end(Err(error.into())),
    };
    // A home that the environment names is meant without saying so.
    let by_environment = std::env::var_os("OVERLANE_HOME").map(PathBuf::from);
    if let Some(dir) = global
        .home
        .filter(|dir| by_environment.as_ref() != Some(dir))
    {
        output.overlane = format!("overlane --home {}", shell_word(&dir.to_string_lossy()));
    }
    let ended = match command {
        Command::Init(init) => identity::init(&home, &init, &output),
        Command::Id => identity::id(&home, &output),
        Command::Config(asked) => config::config_of(&home, &asked, &output),
        Command::Backup { to } => backup::backup(&home, &to, &output),
        Command::Restore { from } => backup::restore(&home, &from, &output),
        Command::Log { filter, lines } => log::log(&home, filter, lines, &output),
        Command::SupportBundle { file } => support::bundle(&home, &file, &output),
        Command::Key(asked) => keys::key(&home, &asked, &output),
        Command::Run(run) => run::run(&home, run, &output),
        Command::Status => status::status(&home, &output),
        Command::Peer(peer) => peers::peer(&home, peer, &output),
        Command::Invite { url } => overlay::invite(&home, url, &output),
        Command::Join { ticket } => overlay::join(&home, &ticket, &output),
        Command::Route { did } => overlay::route(&home, did, &output),
        Command::Send(send) => send::send(&home, send, &output),
        Command::Watch(watch) => watch::watch(&home, &watch, &output),
        Command::Share(asked) => share::share(&home, &asked, &output),
        Command::Fetch(asked) => share::fetch(&home, &asked, &output),
        Command::Inbox(asked) => inbox::inbox(&home, &asked, &output),
        Command::Ref(asked) => refs::refs(&home, &asked, &output),
        Command::Group(asked) => groups::groups(&home, asked, &output),
        Command::Replay(asked) => replay::replay(&home, &asked, &output),
        Command::Doctor(asked) => doctor::doctor(&home, &asked, &output),
        Command::Health(asked) => doctor::health(&home, &asked, &output),
        Command::Api { .. } => api::api(&home, &output),
        Command::Dashboard { open } => dashboard::dashboard(&home, open, &output),
        Command::Receipt(Receipt::Verify { file }) => receipts::verify(&file, &output),
        Command::Metrics(asked) => metrics::metrics(&home, &asked, &output),
        Command::Bounds => bounds::bounds(&home, &output),
        Command::Explain(asked) => explain::explain(Some(&home), &asked, &output),
        Command::Completions(asked) => pages::completions(&asked, &output),
        Command::Man(asked) => pages::manual(&asked, &output),
        Command::Demo => demo::demo(&output),
        #[cfg(feature = "sim")]
        Command::Sim(asked) => sim::sim(&asked, &output),
    };
    output.end(ended)
}

fn home(global: &Global) -> Result<Home, HomeError> {
    let named = global.home.as_ref();
    named.map_or_else(Home::default_for_user, |dir| Ok(Home::at(dir)))
}

/// Runs one question to the daemon on this thread.
fn ask<T>(question: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(no_runtime)?.block_on(question)
}

/// `None` when no daemon runs, which here is no failure.
fn only_if_running<T>(answer: Result<T, ClientError>) -> Result<Option<T>, Failure> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(ClientError::NotRunning { .. }) => Ok(None),
        Err(error) => Err(Failure::of_daemon(&error)),
    }
}

fn no_runtime(cause: std::io::Error) -> Failure {
    let message = format!("the platform gives no event queue: {cause}");
    Failure::new("cli/no_runtime", Fault::Usage, message)
}

fn not_understood(error: &clap::Error, typed: &[OsString]) -> ExitCode {
    let asked_for_text = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    let output = Output {
        json: typed.iter().any(|word| word == "--json"),
        overlane: "overlane".to_owned(),
    };
    if asked_for_text || !output.json {
        // With its own exit code: 0 for help that was asked for, 2 for what was not understood.
        error.exit();
    }
    let message = error.to_string();
    let message = message.trim().trim_start_matches("error: ");
    output.end(Err(Failure::new("cli/usage", Fault::Usage, message)))
}

/// `text` as a shell takes it for one word.
fn shell_word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:,@%=".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
