//! Mails a second with a durable receipt: a transaction each, and 64 in flight.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use overlane_core::identity::Verified;
use overlane_core::transaction::Payload;
use overlane_relay::inbox::{Frame, Inboxes};
use overlane_storage_native::LogsStore;

use crate::Args;
use crate::cast::{NETWORK, NOW_MS, Someone};

const IN_FLIGHT: usize = 64;

/// A holder on the disk, alone in the chains of these.
pub(crate) fn holder(dir: &Path, own: &Someone, owners: &[Someone]) -> Result<Inboxes<LogsStore>> {
    let mut holder = Inboxes::open(LogsStore::open(dir)?, NETWORK, own.did(), NOW_MS)?;
    for owner in owners {
        holder.set_chain(owner.did(), [own.did()], [])?;
    }
    Ok(holder)
}

/// Brings them in, so many a transaction, and gives how many a second had their receipt.
pub(crate) fn deposit(
    holder: &mut Inboxes<LogsStore>,
    own: &Someone,
    mails: Vec<Verified<Payload>>,
    in_flight: usize,
) -> Result<f64> {
    let count = mails.len();
    let mut receipts = 0;
    let started = Instant::now();
    let mut mails = mails.into_iter();
    let mut slot = 0;
    while receipts < count {
        for mail in mails.by_ref().take(in_flight) {
            // A slot a thousand mails: what is measured is no slot's share.
            slot += 1;
            let by = own.peer(slot / 1_000);
            holder.handle_deposit(mail, by, &own.signer, NOW_MS)?;
        }
        holder.flush(NOW_MS)?;
        let before = receipts;
        while let Some(transmit) = holder.poll_transmit() {
            let held = matches!(Frame::from_bytes(&transmit.frame)?, Frame::Held(_));
            receipts += usize::from(held);
        }
        ensure!(receipts > before, "no receipt came of a flush");
    }
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

pub(crate) fn measure(args: &Args) -> Result<()> {
    let (own, origin) = (Someone::new(0)?, Someone::new(1)?);
    let owners: Vec<_> = (0..2 * args.owners)
        .map(|number| Someone::new(100 + number))
        .collect::<Result<_>>()?;
    let mut holder = holder(&args.dir.join("holder"), &own, &owners)?;
    let mails = |owners: &[Someone]| -> Result<Vec<_>> {
        let mut mails = Vec::new();
        for sequence in 0..args.mails {
            for owner in owners {
                mails.push(origin.mail(owner, sequence)?);
            }
        }
        Ok(mails)
    };
    let (first, second) = owners.split_at(owners.len() / 2);
    let mut single = mails(first)?;
    // Enough for a rate: each costs a flush.
    single.truncate(1_000);
    let flushes = |holder: &mut Inboxes<LogsStore>| holder.logs().counters().flushes;
    let one = deposit(&mut holder, &own, single, 1)?;
    let before = flushes(&mut holder);
    let many = mails(second)?;
    let count = many.len();
    let rate = deposit(&mut holder, &own, many, IN_FLIGHT)?;
    let flushes = flushes(&mut holder) - before;
    println!(
        "mails held with a durable receipt each, {} inboxes:",
        owners.len()
    );
    println!("  one transaction each:    {one:>8.0}/s");
    println!(
        "  {IN_FLIGHT} in flight:            {rate:>8.0}/s, {:.1} times as many, {flushes} transactions for {count} mails",
        rate / one
    );
    Ok(())
}
