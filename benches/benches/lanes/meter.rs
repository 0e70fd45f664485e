//! What is counted of a run, the same for both sides.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// No answer for so long ends the program.
const ANSWER_DEADLINE: Duration = Duration::from_secs(20);

/// What the two ends and the one who measures share.
pub(crate) struct Meter {
    epoch: Instant,
    sends: AtomicBool,
    started: Notify,
    arrivals: Mutex<Option<Arrivals>>,
    pong: Mutex<Option<Duration>>,
    ponged: Notify,
}

/// Messages since the measuring began.
struct Arrivals {
    began: Instant,
    cpu: Duration,
    count: u64,
    last: Instant,
    gaps: Vec<Duration>,
}

/// Messages of a part of a run.
pub(crate) struct SoFar {
    took: Duration,
    cpu: Duration,
    count: u64,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self {
            epoch: Instant::now(),
            sends: AtomicBool::new(false),
            started: Notify::new(),
            arrivals: Mutex::new(None),
            pong: Mutex::new(None),
            ponged: Notify::new(),
        }
    }

    /// Whether data is to flow.
    pub(crate) fn sends(&self) -> bool {
        self.sends.load(Ordering::Relaxed)
    }

    pub(crate) fn send(&self, sends: bool) {
        self.sends.store(sends, Ordering::Relaxed);
        self.started.notify_one();
    }

    /// Resolves when it changed whether data is to flow.
    pub(crate) async fn turned(&self) {
        self.started.notified().await;
    }

    /// A message was handed out.
    pub(crate) fn arrived(&self) {
        let now = Instant::now();
        if let Some(arrivals) = self.arrivals.lock().unwrap().as_mut() {
            arrivals.count += 1;
            arrivals.gaps.push(now - arrivals.last);
            arrivals.last = now;
        }
    }

    pub(crate) fn begin(&self) {
        let now = Instant::now();
        *self.arrivals.lock().unwrap() = Some(Arrivals {
            began: now,
            cpu: cpu(),
            count: 0,
            last: now,
            gaps: Vec::with_capacity(1 << 20),
        });
    }

    pub(crate) fn so_far(&self) -> SoFar {
        let arrivals = self.arrivals.lock().unwrap();
        let arrivals = arrivals.as_ref().unwrap();
        SoFar {
            took: arrivals.began.elapsed(),
            cpu: cpu() - arrivals.cpu,
            count: arrivals.count,
        }
    }

    /// The times between messages, the last one's to now with them.
    pub(crate) fn end(&self) -> Vec<Duration> {
        let arrivals = self.arrivals.lock().unwrap().take().unwrap();
        let mut gaps = arrivals.gaps;
        gaps.push(arrivals.last.elapsed());
        gaps
    }

    /// Now, for a control message.
    pub(crate) fn stamp(&self) -> [u8; 8] {
        let nanos = u64::try_from(self.epoch.elapsed().as_nanos()).unwrap();
        nanos.to_be_bytes()
    }

    /// A control message came back; it ends on its stamp.
    pub(crate) fn ponged(&self, message: &[u8]) {
        let (_, stamp) = message.split_last_chunk().unwrap();
        let sent = Duration::from_nanos(u64::from_be_bytes(*stamp));
        *self.pong.lock().unwrap() = Some(self.epoch.elapsed() - sent);
        self.ponged.notify_one();
    }

    /// How long the control message that was sent last took.
    pub(crate) async fn pong(&self) -> Duration {
        let ponged = self.ponged.notified();
        tokio::time::timeout(ANSWER_DEADLINE, ponged)
            .await
            .expect("a control message comes back");
        self.pong.lock().unwrap().take().unwrap()
    }
}

/// The processor time that this process has used.
fn cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        used.tv_sec.try_into().unwrap(),
        used.tv_nsec.try_into().unwrap(),
    )
}

/// What came of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) per_second: f64,
    /// Processor time of both ends, a message.
    pub(crate) cpu_us: f64,
    pub(crate) gap_p50_ms: f64,
    pub(crate) gap_p99_ms: f64,
    pub(crate) gap_max_ms: f64,
    pub(crate) idle_p50_ms: f64,
    pub(crate) busy_p50_ms: f64,
    pub(crate) busy_p99_ms: f64,
}

impl Figures {
    pub(crate) fn new(
        alone: &SoFar,
        mut gaps: Vec<Duration>,
        mut idle: Vec<Duration>,
        mut busy: Vec<Duration>,
    ) -> Self {
        for times in [&mut gaps, &mut idle, &mut busy] {
            times.sort_unstable();
        }
        Self {
            per_second: alone.count as f64 / alone.took.as_secs_f64(),
            cpu_us: alone.cpu.as_secs_f64() * 1e6 / alone.count as f64,
            gap_p50_ms: share(&gaps, 0.50),
            gap_p99_ms: share(&gaps, 0.99),
            gap_max_ms: share(&gaps, 1.0),
            idle_p50_ms: share(&idle, 0.50),
            busy_p50_ms: share(&busy, 0.50),
            busy_p99_ms: share(&busy, 0.99),
        }
    }
}

fn share(sorted: &[Duration], share: f64) -> f64 {
    let at = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(at).map_or(f64::NAN, |it| it.as_secs_f64() * 1e3)
}
