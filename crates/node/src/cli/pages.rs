//! `completions` and `man`: what a shell and a reader of manuals know of this program.

use std::fs;

use clap::CommandFactory;
use overlane_core::Fault;
use serde_json::json;

use super::args::{Cli, Completions, Manual};
use super::output::{Done, Failure, Output};

/// Prints what a shell completes by.
pub(super) fn completions(asked: &Completions, output: &Output) -> Result<Done, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(asked.shell, &mut Cli::command(), "overlane", &mut script);
    let script = String::from_utf8_lossy(&script);
    output.answer(&json!({ "script": script }), |_| {
        script.trim_end().to_owned()
    })?;
    Ok(Done::Yes)
}

/// Writes a page for the program and one for each of its commands.
pub(super) fn manual(asked: &Manual, output: &Output) -> Result<Done, Failure> {
    let dir = &asked.dir;
    let written =
        fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(Cli::command(), dir));
    written.map_err(|cause| {
        let message = format!(
            "the pages cannot be written into {}: {cause}",
            dir.display()
        );
        Failure::new("cli/man", Fault::Usage, message)
    })?;
    output.answer(&json!({ "dir": dir }), |_| {
        format!(
            "pages in {}; for one: man {}/overlane.1",
            dir.display(),
            dir.display()
        )
    })?;
    Ok(Done::Yes)
}
