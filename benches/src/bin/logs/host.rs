//! The host of the large log: frames in and out on its standard streams, each behind its length.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use overlane_relay::log::Logs;
use overlane_storage_native::LogsStore;

use crate::rules::{Open, peer};

/// Frames of one answer end with one of no bytes; the time it took stands before it.
pub(crate) fn serve(dir: &Path) -> Result<()> {
    let started = Instant::now();
    let mut logs = Logs::open(LogsStore::open(dir)?, Open)?;
    let opened = started.elapsed();
    let mut input = BufReader::new(io::stdin().lock());
    let mut output = BufWriter::new(io::stdout().lock());
    write_frame(&mut output, &micros(opened).to_be_bytes())?;
    output.flush()?;
    let mut now_ms = 0;
    while let Some(frame) = read_frame(&mut input)? {
        now_ms += 60_000;
        if frame.is_empty() {
            write_frame(&mut output, memory()?.as_bytes())?;
            output.flush()?;
            continue;
        }
        let started = Instant::now();
        logs.handle_frame(peer(), &frame, now_ms)?;
        logs.flush(now_ms)?;
        let mut first = None;
        while let Some(transmit) = logs.poll_transmit()? {
            first.get_or_insert_with(|| started.elapsed());
            write_frame(&mut output, &transmit.frame)?;
        }
        write_frame(
            &mut output,
            &micros(first.unwrap_or_default()).to_be_bytes(),
        )?;
        write_frame(&mut output, &[])?;
        output.flush()?;
    }
    Ok(())
}

fn micros(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

pub(crate) fn write_frame(output: &mut impl Write, frame: &[u8]) -> Result<()> {
    output.write_all(&u32::try_from(frame.len())?.to_be_bytes())?;
    output.write_all(frame)?;
    Ok(())
}

/// The next frame; none at the end.
pub(crate) fn read_frame(input: &mut impl Read) -> Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    if let Err(error) = input.read_exact(&mut length) {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => Ok(None),
            _ => Err(error.into()),
        };
    }
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    input.read_exact(&mut frame)?;
    Ok(Some(frame))
}

/// Memory now, and at most, as the platform says.
fn memory() -> Result<String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines = status
        .lines()
        .filter(|it| it.starts_with("VmRSS") || it.starts_with("VmHWM"));
    Ok(lines
        .map(|it| it.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join(", "))
}
