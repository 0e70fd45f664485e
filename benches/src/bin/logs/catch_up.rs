//! The large log: its first answer after it was opened, the same when warm, and clients that catch up.

use std::io::{BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use overlane_recon::{End, Initiator, Item, ItemSet, Limits, Patience, Request};
use overlane_relay::log::bounds::{PUSH_IDS, RECON_MAX_BYTES};
use overlane_relay::log::{Change, Entry, Frame, LogStore, Space, Turn};
use overlane_storage_native::LogsStore;

use crate::Args;
use crate::host::{read_frame, write_frame};
use crate::rules::{LOG, envelope, id_of, peer};

const BATCH: u64 = 50_000;

pub(crate) fn measure(args: &Args) -> Result<()> {
    let dir = args.dir.join("large");
    build(&dir, args)?;
    let items: Vec<Item> = (1..=args.envelopes)
        .map(|seq| Item {
            seq,
            id: id_of(&envelope(seq, args.envelope_bytes)),
        })
        .collect();
    let tail = args.envelopes - args.behind;
    let every = args.envelopes / args.behind;
    println!(
        "a log of {} envelopes of {} bytes:",
        args.envelopes, args.envelope_bytes
    );
    for (name, holds) in [
        (
            "the last",
            Box::new(|it: &Item| it.seq <= tail) as Box<dyn Fn(&Item) -> bool>,
        ),
        (
            "spread over all",
            Box::new(move |it: &Item| !it.seq.is_multiple_of(every)),
        ),
    ] {
        let set = || {
            items
                .iter()
                .filter(|it| holds(it))
                .copied()
                .collect::<ItemSet>()
        };
        let opening = opening(&mut set());
        // One host at a time: the store is its own.
        let mut colds = Vec::new();
        for _ in 1..args.starts {
            colds.push(Host::start(args)?.ask(&opening)?.0);
        }
        let mut host = Host::start(args)?;
        let (cold, _) = host.ask(&opening)?;
        let (warm, _) = host.ask(&opening)?;
        colds.push(cold);
        colds.sort_unstable();
        let (least, most) = (colds.first(), colds.last());
        let (least, most) = (least.context("a start")?, most.context("a start")?);
        let median = colds.get(colds.len() / 2).context("a start")?;
        println!("  client behind by {}, {name}:", args.behind);
        println!(
            "    first answer after opening: {median:.1?} ({least:.1?} to {most:.1?} of {}); the same again: {warm:.2?}",
            colds.len()
        );
        catch_up(&mut host, &mut set(), &items)?;
        let (opened, memory) = (host.opened, host.memory()?);
        println!(
            "    the host's memory: {memory}; its file was opened and checked whole in {opened:.2?}"
        );
    }
    Ok(())
}

/// Makes the log, unless it is there.
fn build(dir: &Path, args: &Args) -> Result<()> {
    let mut store = LogsStore::open(dir)?;
    let there = store
        .entry(&LOG, args.envelopes)?
        .map(|it| it.bytes as usize);
    if there == Some(args.envelope_bytes) && store.entry(&LOG, args.envelopes + 1)?.is_none() {
        return Ok(());
    }
    ensure!(
        store.entry(&LOG, 1)?.is_none(),
        "{} holds another log: remove it",
        dir.display()
    );
    let started = Instant::now();
    let mut seq = 1;
    while seq <= args.envelopes {
        let to = (seq + BATCH - 1).min(args.envelopes);
        let changes = (seq..=to).map(|seq| {
            let envelope = envelope(seq, args.envelope_bytes);
            let entry = Entry {
                seq,
                id: id_of(&envelope),
                author: peer().account,
                slot: 0,
                stored_ms: seq,
                expires_ms: u64::MAX,
                bytes: u32::try_from(envelope.len()).unwrap_or(u32::MAX),
            };
            Change::Append {
                log: LOG,
                entry,
                envelope,
            }
        });
        store.commit(changes.collect())?;
        seq = to + 1;
    }
    println!(
        "made {} envelopes in {:.1?}",
        args.envelopes,
        started.elapsed()
    );
    Ok(())
}

fn limits() -> Limits {
    Limits::default()
        .message_bytes(RECON_MAX_BYTES)
        .push_ids(PUSH_IDS)
}

fn opening(set: &mut ItemSet) -> Vec<u8> {
    let Ok(payload) = overlane_recon::initiate(set, &limits());
    payload
}

fn catch_up(host: &mut Host, set: &mut ItemSet, all: &[Item]) -> Result<()> {
    let mut initiator = Initiator::open(set, limits(), Patience::default(), 0);
    let (mut working, mut envelopes) = (Duration::ZERO, 0);
    while let Some(request) = initiator.poll_transmit() {
        let Request::Recon(payload) = request else {
            anyhow::bail!("it has nothing that the host lacks");
        };
        let (time, frames) = host.ask(&payload)?;
        working += time;
        for frame in frames {
            match Frame::from_bytes(&frame)? {
                Frame::Push { seq, envelope, .. } => {
                    envelopes += envelope.len();
                    let id = id_of(envelope);
                    initiator.handle_push(set, Item { seq, id }, 0)?;
                }
                Frame::Recon { payload, .. } => initiator.handle_answer(set, payload, 0)?,
                other => anyhow::bail!("{other:?}"),
            }
        }
    }
    let report = initiator.report();
    ensure!(report.end == Some(End::Settled), "{:?}", report.end);
    ensure!(set.len() == all.len(), "{} of {}", set.len(), all.len());
    println!(
        "    {} rounds, {} bytes besides {envelopes} of envelopes, largest message {}; host {working:.2?}",
        report.rounds,
        report.bytes(),
        report.largest_message
    );
    Ok(())
}

struct Host {
    child: Child,
    input: Option<BufWriter<ChildStdin>>,
    output: BufReader<ChildStdout>,
    opened: Duration,
}

impl Host {
    fn start(args: &Args) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("--dir")
            .arg(&args.dir)
            .arg("host")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = BufWriter::new(child.stdin.take().context("its input")?);
        let mut output = BufReader::new(child.stdout.take().context("its output")?);
        let opened = time(&read_frame(&mut output)?.context("the host ended")?)?;
        Ok(Self {
            child,
            input: Some(input),
            output,
            opened,
        })
    }

    /// Asks, and gives how long the host took to its first frame, and the frames.
    fn ask(&mut self, payload: &[u8]) -> Result<(Duration, Vec<Vec<u8>>)> {
        let frame = Frame::Recon {
            log: LOG,
            space: Space::Numbered,
            turn: Turn::Ask,
            payload,
        };
        let mut frames = self.exchange(&frame.to_bytes())?;
        let took = time(&frames.pop().context("no time")?)?;
        Ok((took, frames))
    }

    fn memory(&mut self) -> Result<String> {
        let input = self.input.as_mut().context("its input")?;
        write_frame(input, &[])?;
        input.flush()?;
        let said = read_frame(&mut self.output)?.context("the host ended")?;
        Ok(String::from_utf8(said)?)
    }

    fn exchange(&mut self, frame: &[u8]) -> Result<Vec<Vec<u8>>> {
        let input = self.input.as_mut().context("its input")?;
        write_frame(input, frame)?;
        input.flush()?;
        let mut frames = Vec::new();
        loop {
            let frame = read_frame(&mut self.output)?.context("the host ended")?;
            if frame.is_empty() {
                return Ok(frames);
            }
            frames.push(frame);
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}

fn time(bytes: &[u8]) -> Result<Duration> {
    let micros = bytes.first_chunk().context("a time")?;
    Ok(Duration::from_micros(u64::from_be_bytes(*micros)))
}
