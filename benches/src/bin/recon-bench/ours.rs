//! One exchange of `overlane-recon`.

use std::time::Duration;

use anyhow::{Result, ensure};
use overlane_recon::pair::{Event, Relay, Side, reconcile};
use overlane_recon::{End, ItemSet, Limits, Patience, Storage};
use serde_json::{Value, json};

use crate::meter::{cpu, milliseconds, peak_memory_bytes};
use crate::sets::{Case, Pair};

pub(crate) fn measure(case: &Case) -> Result<Value> {
    let pair = Pair::of(case);
    let mut client: ItemSet = pair.client().collect();
    let mut relay = Relay::over(pair.relay().collect());
    let (client_len, relay_len) = (client.len(), relay.set.len());
    let limits = Limits::default().message_bytes(usize::try_from(case.message_bytes)?);
    let (mut client_cpu, mut relay_cpu) = (Duration::ZERO, Duration::ZERO);
    let (mut turn, mut since) = (Side::Between, cpu());
    let mut largest = 0;
    let patience = Patience::default();
    let report = reconcile(
        &mut client,
        &mut relay,
        limits,
        limits,
        patience,
        &mut |event| match event {
            Event::Turn(side) => {
                let now = cpu();
                match turn {
                    Side::Client => client_cpu += now - since,
                    Side::Relay => relay_cpu += now - since,
                    Side::Between => {}
                }
                (turn, since) = (side, now);
            }
            Event::Said(_, payload) => largest = largest.max(payload.len()),
            Event::Pushed(_) | Event::Sent(_) => {}
        },
    )?;
    ensure!(
        report.end == Some(End::Settled),
        "ended as {:?}",
        report.end
    );
    let hashed = client.work_bytes() + relay.set.work_bytes();
    ensure!(
        client.whole_fingerprint() == relay.set.whole_fingerprint(),
        "settled on unequal sets"
    );
    ensure!(
        report.received_again == 0,
        "{} pushes were redundant",
        report.received_again
    );
    let items = (client.len() + relay.set.len()) as u64;
    Ok(json!({
        "client_items": client_len,
        "relay_items": relay_len,
        "rounds": report.rounds,
        "bytes": report.bytes(),
        "largest_message": largest,
        "client_cpu_ms": milliseconds(client_cpu),
        "relay_cpu_ms": milliseconds(relay_cpu),
        "peak_memory_bytes": peak_memory_bytes(),
        "set_bytes_per_item": (client.memory_bytes() + relay.set.memory_bytes()) as u64 / items.max(1),
        "hashed_bytes": hashed,
        "received": report.received,
        "sent": report.sent,
    }))
}
