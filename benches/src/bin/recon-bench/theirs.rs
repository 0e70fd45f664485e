//! One exchange of the `negentropy` crate.

use std::time::Duration;

use anyhow::Result;
use negentropy::{Id, Negentropy, NegentropyStorageVector};
use overlane_recon::Item;
use serde_json::{Value, json};

use crate::meter::{cpu, milliseconds, peak_memory_bytes};
use crate::sets::{Case, Pair};

pub(crate) fn measure(case: &Case) -> Result<Value> {
    let pair = Pair::of(case);
    let room = usize::try_from(case.items)?;
    let client = sealed(pair.client(), room)?;
    let relay = sealed(pair.relay(), room)?;
    let mut initiator = Negentropy::borrowed(&client, case.message_bytes)?;
    let mut responder = Negentropy::borrowed(&relay, case.message_bytes)?;
    let (mut client_cpu, mut relay_cpu) = (Duration::ZERO, Duration::ZERO);
    let (mut rounds, mut bytes, mut largest) = (0_u64, 0, 0);
    let (mut have, mut need) = (Vec::new(), Vec::new());
    let begun = cpu();
    let mut message = initiator.initiate()?;
    client_cpu += cpu() - begun;
    loop {
        rounds += 1;
        let begun = cpu();
        let answer = responder.reconcile(&message)?;
        relay_cpu += cpu() - begun;
        bytes += message.len() + answer.len();
        largest = largest.max(message.len()).max(answer.len());
        let begun = cpu();
        let next = initiator.reconcile_with_ids(&answer, &mut have, &mut need)?;
        client_cpu += cpu() - begun;
        match next {
            Some(next) => message = next,
            None => break,
        }
    }
    Ok(json!({
        "rounds": rounds,
        "bytes": bytes,
        "largest_message": largest,
        "client_cpu_ms": milliseconds(client_cpu),
        "relay_cpu_ms": milliseconds(relay_cpu),
        "peak_memory_bytes": peak_memory_bytes(),
        "have": have.len(),
        "need": need.len(),
    }))
}

fn sealed(items: impl Iterator<Item = Item>, room: usize) -> Result<NegentropyStorageVector> {
    let mut storage = NegentropyStorageVector::with_capacity(room);
    for item in items {
        storage.insert(item.seq, Id::from_byte_array(item.id.0))?;
    }
    storage.seal()?;
    Ok(storage)
}
