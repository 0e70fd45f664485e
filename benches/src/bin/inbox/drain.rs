//! An owner that comes back: what it costs to fetch what three holders keep, and to have it removed.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use overlane_core::Did;
use overlane_relay::inbox::{Drain, DrainEvent, Inboxes};
use overlane_relay::log::Transmit;
use overlane_storage_native::LogsStore;

use crate::Args;
use crate::cast::{NOW_MS, Someone, context};
use crate::holding;

#[derive(Default)]
struct Cost {
    frames: usize,
    bytes: usize,
    turns: usize,
    holders: Duration,
}

pub(crate) fn measure(args: &Args) -> Result<()> {
    let (owner, origin) = (Someone::new(2)?, Someone::new(1)?);
    let names: Vec<_> = (10..13).map(Someone::new).collect::<Result<_>>()?;
    let chain: Vec<Did> = names.iter().map(Someone::did).collect();
    let mut holders = Vec::new();
    for (at, own) in names.iter().enumerate() {
        let dir = args.dir.join(format!("chain-{at}"));
        let mut holder = holding::holder(&dir, own, &[])?;
        holder.set_chain(owner.did(), chain.iter().copied(), [])?;
        let mails = (0..args.mails).map(|sequence| origin.mail(&owner, sequence));
        let mails = mails.collect::<Result<Vec<_>>>()?;
        holding::deposit(&mut holder, own, mails, 64)?;
        holders.push(holder);
    }
    let mut drain = Drain::new(owner.did(), context());
    drain.set_holders(chain.iter().copied());
    for holder in &chain {
        drain.start(*holder, NOW_MS);
    }
    let mut cost = Cost::default();
    let fetched = settle(&mut drain, &mut holders, &owner, &names, &mut cost)?;
    ensure!(
        fetched.len() as u64 == args.mails,
        "{} fetched",
        fetched.len()
    );
    let say = |what: &str, cost: &Cost| {
        println!(
            "  {what}: {} frames, {} bytes, {} turns; the holders took {:.1?}",
            cost.frames, cost.bytes, cost.turns, cost.holders
        );
    };
    println!("an owner of {} mails at each of three holders:", args.mails);
    say("fetched once each", &cost);
    let mut cost = Cost::default();
    for digest in fetched {
        drain.handle_taken(digest);
    }
    drain.sign_removals(&owner.signer, NOW_MS);
    settle(&mut drain, &mut holders, &owner, &names, &mut cost)?;
    say("removed by its word", &cost);
    for holder in &mut holders {
        ensure!(holder.held(&owner.did())? == 0, "something is left");
    }
    Ok(())
}

/// Delivers until nobody has anything to say; what the owner fetched.
fn settle(
    drain: &mut Drain,
    holders: &mut [Inboxes<LogsStore>],
    owner: &Someone,
    names: &[Someone],
    cost: &mut Cost,
) -> Result<Vec<overlane_core::TransactionDigest>> {
    let mut fetched = Vec::new();
    loop {
        let mut of_logs: Vec<Transmit> = std::iter::from_fn(|| drain.poll_log_transmit()).collect();
        let mut others: Vec<Transmit> = std::iter::from_fn(|| drain.poll_transmit()).collect();
        let mut moved = !of_logs.is_empty() || !others.is_empty();
        count(cost, of_logs.iter().chain(&others));
        for (holder, own) in holders.iter_mut().zip(names) {
            let to_it = |it: &Transmit| it.to == own.did();
            let started = Instant::now();
            for transmit in of_logs.extract_if(.., |it| to_it(it)) {
                holder.handle_log_frame(owner.peer(1), &transmit.frame, NOW_MS)?;
            }
            for transmit in others.extract_if(.., |it| to_it(it)) {
                holder.handle_frame(owner.peer(1), &transmit.frame, NOW_MS)?;
            }
            holder.flush(NOW_MS)?;
            let mut back = Vec::new();
            while let Some(transmit) = holder.poll_log_transmit()? {
                back.push((true, transmit));
            }
            while let Some(transmit) = holder.poll_transmit() {
                back.push((false, transmit));
            }
            cost.holders += started.elapsed();
            let back = back.into_iter().filter(|(_, it)| it.to == owner.did());
            for (of_log, transmit) in back {
                moved = true;
                count(cost, [&transmit]);
                match of_log {
                    true => drain.handle_log_frame(own.did(), &transmit.frame, NOW_MS),
                    false => drain.handle_frame(own.did(), &transmit.frame),
                }
            }
        }
        while let Some(event) = drain.poll_event() {
            if let DrainEvent::Fetched(mail) = event {
                fetched.push(mail.digest());
            }
        }
        if !moved {
            return Ok(fetched);
        }
        cost.turns += 1;
    }
}

fn count<'a>(cost: &mut Cost, frames: impl IntoIterator<Item = &'a Transmit>) {
    for transmit in frames {
        cost.frames += 1;
        cost.bytes += transmit.frame.len();
    }
}
