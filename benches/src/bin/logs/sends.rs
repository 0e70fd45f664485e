//! Sends with durable acknowledgements: each in a transaction of its own, and 64 in flight.

use std::time::Instant;

use anyhow::{Result, ensure};
use overlane_relay::log::{Frame, Logs};
use overlane_storage_native::LogsStore;

use crate::Args;
use crate::rules::{LOG, Open, envelope, peer};

const IN_FLIGHT: u64 = 64;
const SINGLE: u64 = 1_000;
const BATCHES: u64 = 300;
const BEFORE: u64 = 20_000;

pub(crate) fn measure(args: &Args) -> Result<()> {
    let dir = args.dir.join("sends");
    if dir.exists() {
        std::fs::remove_dir_all(&dir)?;
    }
    let mut logs = Logs::open(LogsStore::open(&dir)?, Open)?;
    let mut next = 0;
    let mut send = |logs: &mut Logs<LogsStore, Open>, count: u64| -> Result<()> {
        for _ in 0..count {
            let envelope = envelope(next, args.envelope_bytes);
            let envelope = envelope.as_slice();
            let frame = Frame::Send { log: LOG, envelope }.to_bytes();
            // A minute a frame, so that no allowance is measured.
            logs.handle_frame(peer(), &frame, next * 60_000)?;
            next += 1;
        }
        logs.flush(next * 60_000)?;
        let mut acknowledged = 0;
        while let Some(transmit) = logs.poll_transmit()? {
            let frame = Frame::from_bytes(&transmit.frame)?;
            acknowledged += u64::from(matches!(frame, Frame::SendAck { .. }));
        }
        ensure!(
            acknowledged == count,
            "{acknowledged} of {count} acknowledged"
        );
        Ok(())
    };
    for _ in 0..BEFORE / 1_000 {
        send(&mut logs, 1_000)?;
    }
    println!("sends of {} bytes, after {BEFORE}:", args.envelope_bytes);
    let one = {
        let started = Instant::now();
        for _ in 0..SINGLE {
            send(&mut logs, 1)?;
        }
        SINGLE as f64 / started.elapsed().as_secs_f64()
    };
    println!("  one transaction each: {one:.0}/s");
    let many = {
        let started = Instant::now();
        for _ in 0..BATCHES {
            send(&mut logs, IN_FLIGHT)?;
        }
        (BATCHES * IN_FLIGHT) as f64 / started.elapsed().as_secs_f64()
    };
    let times = many / one;
    println!("  {IN_FLIGHT} in flight, a flush a batch: {many:.0}/s, {times:.1} times as many");
    println!("  transactions: {}", logs.counters().flushes);
    Ok(())
}
