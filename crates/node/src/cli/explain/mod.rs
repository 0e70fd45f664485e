//! The catalogue of error codes: what each means, and what to do about it. One place, from which
//! `overlane explain`, the last line of every failure and `docs/errors.md` are made; a test holds
//! it against the codes in the sources, both ways.

mod groups;
mod inbox;
mod links;
mod local;
mod mail;
mod messages;
mod references;
mod ring;
mod story;

use overlane_core::Fault;
use overlane_node::home::Home;
use serde::Serialize;

use super::args::Explain;
use super::output::{Done, Failure, Output};

/// One code.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Entry {
    code: &'static str,
    meaning: &'static str,
    /// Empty where the message itself says all there is.
    to_do: &'static str,
}

const fn entry(code: &'static str, meaning: &'static str, to_do: &'static str) -> Entry {
    Entry {
        code,
        meaning,
        to_do,
    }
}

const NOTHING: &str = "";

const THEIRS: &str = "nothing here: an honest node sends no such thing; if the other one is yours, see that \
                      both run the same version";

/// How this home is meant on the command line, in what to do.
const COMMAND: &str = "{overlane}";

fn entries() -> impl Iterator<Item = &'static Entry> {
    let areas = [
        local::ENTRIES,
        groups::ENTRIES,
        inbox::ENTRIES,
        links::ENTRIES,
        mail::ENTRIES,
        messages::ENTRIES,
        references::ENTRIES,
        ring::ENTRIES,
    ];
    areas.into_iter().flatten()
}

/// What to do about a code, in words or as a command to type; `overlane` is how this home is
/// meant on the command line.
pub(super) fn to_do(code: &str, overlane: &str) -> Option<String> {
    let entry = entries().find(|entry| entry.code == code)?;
    let to_do = entry.to_do.replace(COMMAND, overlane);
    (!to_do.is_empty()).then_some(to_do)
}

/// Whether a running node is to be asked.
pub(super) fn is_of_a_transaction(asked: &Explain) -> bool {
    story::asked(asked).is_some()
}

/// Explains one code or transaction, or shows all codes.
pub(super) fn explain(
    home: Option<&Home>,
    asked: &Explain,
    output: &Output,
) -> Result<Done, Failure> {
    if asked.page {
        output.line(page().trim_end())?;
        return Ok(Done::Yes);
    }
    if let (Some(of), Some(home)) = (story::asked(asked), home) {
        return story::explain(home, &of, output);
    }
    let mut found = false;
    let wanted = |entry: &&Entry| asked.code.as_ref().is_none_or(|code| code == entry.code);
    let mut all: Vec<_> = entries().filter(wanted).collect();
    all.sort_by_key(|entry| entry.code);
    for entry in all {
        found = true;
        output.answer(entry, |entry| in_words(entry, &output.overlane))?;
    }
    let unknown = asked.code.as_ref().filter(|_| !found);
    unknown.map_or(Ok(Done::Yes), |code| {
        let message = format!("there is no code \"{code}\", and it is no transaction's digest, and no Did with a sequence");
        Err(Failure::new("cli/unknown_code", Fault::Usage, message))
    })
}

fn in_words(entry: &Entry, overlane: &str) -> String {
    let Entry { code, meaning, .. } = entry;
    let mut text = format!("{code}\n  {meaning}");
    if let Some(to_do) = to_do(code, overlane) {
        text += &format!("\n  to do: {to_do}");
    }
    text
}

/// The page of the documentation.
fn page() -> String {
    let mut page = String::from(
        "# Error codes\n\n\
         Every refusal and failure has a stable code, `area/reason`: on the command line, in JSON as `error`, in \
         `overlane status` as the name of a counter. This page is made from the catalogue in the program, which \
         `overlane explain CODE` shows too: `overlane explain --page > docs/errors.md`.\n\n\
         Whose fault an error is gives the exit code: 1 the other side misbehaved, 2 usage, 3 refused by a bound, 4 the \
         store failed closed, 5 unreachable.\n\n\
         | code | what happened | what to do |\n|---|---|---|\n",
    );
    let mut sorted: Vec<&Entry> = entries().collect();
    sorted.sort_by_key(|entry| entry.code);
    for Entry {
        code,
        meaning,
        to_do,
    } in sorted
    {
        let to_do = to_do.replace(COMMAND, "overlane");
        page += &format!("| `{code}` | {meaning} | {to_do} |\n");
    }
    page
}
