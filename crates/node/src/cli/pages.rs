//! `completions` and `man`: what a shell and a reader of manuals know of this program.

use std::path::Path;
use std::{fs, io};

use clap::{Command, CommandFactory};
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
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let written = fs::create_dir_all(dir).and_then(|()| write_pages(program, dir));
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

/// When what the pages say last changed: without a date, readers take what comes after it for one.
const PAGES_OF: &str = "2026-11-30";

/// Writes the page of a command, and those of its own commands.
fn write_pages(command: Command, dir: &Path) -> io::Result<()> {
    let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
    for command in shown.cloned() {
        write_pages(command, dir)?;
    }
    let page = clap_mangen::Man::new(command).date(PAGES_OF);
    let page = page.source(concat!("overlane ", env!("CARGO_PKG_VERSION")));
    page.manual("Overlane").generate_to(dir).map(drop)
}
