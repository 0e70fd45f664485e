//! `bounds`: the bound sheet of replay protection.

use overlane_core::identity::Verified;
use overlane_core::replay::{Engine, EngineConfig};
use overlane_core::transaction::Payload;
use overlane_node::api::{BoundReport, BoundsReport, Client};
use overlane_node::home::Home;

use super::output::{Done, Failure, Output};
use super::{ask, only_if_running, replay};

/// Shows it: the running node's, or what the store of a stopped one comes to.
pub(super) fn bounds(home: &Home, output: &Output) -> Result<Done, Failure> {
    let client = Client::of(home);
    let answer = ask(async { only_if_running(client.get::<BoundsReport>("/v1/bounds").await) })?;
    let bounds = match answer {
        Some(report) => report.bounds,
        None => of_store(home)?,
    };
    if output.json {
        return show_all(&bounds, output);
    }
    output.line(&table(&bounds))?;
    Ok(Done::Yes)
}

fn show_all(bounds: &[BoundReport], output: &Output) -> Result<Done, Failure> {
    for bound in bounds {
        output.answer(bound, |_| String::new())?;
    }
    Ok(Done::Yes)
}

fn of_store(home: &Home) -> Result<Vec<BoundReport>, Failure> {
    let mut opened = replay::Opened::of(home)?;
    let scan = opened.store.scan()?;
    let config = EngineConfig::default();
    let engine: Engine<Verified<Payload>> = Engine::restore(config, scan, replay::now());
    Ok(engine.bounds().map(BoundReport::from).collect())
}

fn table(bounds: &[BoundReport]) -> String {
    let mut text = format!(
        "{:<28} {:>8} {:>8} {:>10}  at the limit",
        "bound", "limit", "current", "high water"
    );
    for bound in bounds {
        let BoundReport {
            name,
            limit,
            current,
            high_water,
            unit,
            at_limit,
        } = bound;
        text +=
            &format!("\n{name:<28} {limit:>8} {current:>8} {high_water:>10}  {at_limit}  [{unit}]");
    }
    text
}
