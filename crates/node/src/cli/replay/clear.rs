//! `replay clear`: one stream starts again, and whoever does it knows what that costs.

use overlane_core::replay::inspect::{RecordLine, cost};
use overlane_core::replay::restored;
use overlane_core::store::RecordName;
use serde::Serialize;

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
