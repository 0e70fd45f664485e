//! `replay clear`: one stream starts again, and whoever does it knows what that costs.

use overlane_core::replay::record::Record;
use overlane_core::replay::{Bad, restored};
use overlane_core::store::RecordName;
use serde::Serialize;

use super::record::RecordLine;
use super::{Done, Failure, Opened, Output};

#[derive(Serialize)]
struct Clearing {
    #[serde(flatten)]
    line: RecordLine,
    /// What may be replayed or lost.
    cost: String,
    cleared: bool,
    /// Where what was there is kept.
    kept: Option<String>,
}

/// Says what it costs, and does it if told so.
pub(super) fn clear(
    opened: &mut Opened,
    name: RecordName,
    yes: bool,
    output: &Output,
) -> Result<Done, Failure> {
    let record = restored(name, opened.store.show(name)?);
    let mut clearing = Clearing {
        line: RecordLine::of(name, &record),
        cost: cost(&record),
        cleared: false,
        kept: None,
    };
    if !output.json {
        output.line(&format!("{}\n{}", clearing.line.in_words(), clearing.cost))?;
    }
    if yes {
        let cleared = opened.store.clear(name)?;
        clearing.cleared = true;
        clearing.kept = Some(cleared.kept.display().to_string());
    }
    output.answer(&clearing, |clearing| match &clearing.kept {
        Some(kept) => format!("cleared; what was there is kept in {kept}"),
        None => format!(
            "nothing was changed; to do it: {} replay clear {name} --yes",
            output.overlane
        ),
    })?;
    Ok(if yes { Done::Yes } else { Done::No })
}

fn cost(record: &Result<Record, Bad>) -> String {
    match record {
        Ok(Record::Receiver(record)) => format!(
            "Its stream starts again from First. What it admitted may be admitted once more, as \
             long as its proof lives: none of it after {} ms of Unix time.",
            record.spent_ms
        ),
        Ok(Record::Sender(_)) => SENDER.to_owned(),
        Ok(Record::Floor(_)) => String::from(
            "Mail of streams that were retired may be admitted once more, and a sending stream \
             that was retired may sign used sequences, if this clock was ever wrong by more than \
             their lives.",
        ),
        Ok(Record::Fork(_)) => String::from(
            "The store forgets the evidence of this fork; export it first: overlane replay forks \
             --export DIR. A later fork of the stream is evidenced anew.",
        ),
        Err(_) => format!(
            "What it holds cannot be read, so which stream it is of is not known. If it is a \
             receiver's: the stream starts again from First, and what it admitted may be admitted \
             once more as long as its proof lives. If it is a sender's: {SENDER}"
        ),
    }
}

const SENDER: &str = "The stream goes on above all it signed, as sequences begin at the clock's \
                      instant; only if this clock was set back since, its destination refuses \
                      what it signs, as Stale or as a Fork, and those messages are lost.";
