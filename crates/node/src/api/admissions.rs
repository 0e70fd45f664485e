//! What was admitted and what was not, over the last half hour.
//!
//! Law (nothing is lost between spans): a span begins where the one before it ended, so what the spans say
//! adds up to what was counted, however late a look comes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use overlane_core::replay::Counters;
use serde::{Deserialize, Serialize};
use tokio::time::{MissedTickBehavior, interval};
use utoipa::ToSchema;

use super::openapi::Refused;
use super::server::{Answer, Daemon, Shared};

/// Spans that are kept.
pub const ADMISSION_SPANS_MAX: usize = 180;

/// How long a span lasts, where the node is looked at in time.
pub const ADMISSION_SPAN: Duration = Duration::from_secs(10);

/// How many transactions came to each verdict since the node started, in the order of [`WORDS`].
type Counts = [u64; 6];

const WORDS: [&str; 6] = ["first", "advance", "late", "replay", "fork", "stale"];

/// Verdicts over time, the latest half hour of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdmissionsReport {
    /// How long a whole span lasts.
    pub span_ms: u64,
    /// How many of them are kept.
    pub spans_max: usize,
    /// Transactions since the node started, by verdict: `first`, `advance` and `late` were admitted, `replay`, `fork` and
    /// `stale` were not.
    pub total: BTreeMap<String, u64>,
    /// The spans, the oldest first. The last is under way.
    pub spans: Vec<AdmissionSpan>,
}

/// What came to which verdict in some seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdmissionSpan {
    /// How long ago it ended.
    pub ago_ms: u64,
    /// How long it lasted.
    pub lasted_ms: u64,
    /// Transactions by verdict, without those that there were none of.
    pub verdicts: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Look {
    at_ms: u64,
    counts: Counts,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    from_ms: u64,
    to_ms: u64,
    counts: Counts,
}

/// Spans up to the latest look.
#[derive(Debug, Default)]
struct History {
    latest: Look,
    spans: VecDeque<Span>,
}

impl History {
    fn since(&self, look: Look) -> Span {
        let before = self.latest.counts;
        let counts = std::array::from_fn(|at| {
            let count = |of: &Counts| of.get(at).copied().unwrap_or_default();
            count(&look.counts).saturating_sub(count(&before))
        });
        Span {
            from_ms: self.latest.at_ms,
            to_ms: look.at_ms,
            counts,
        }
    }

    fn handle_look(&mut self, look: Look) {
        let span = self.since(look);
        if self.spans.len() >= ADMISSION_SPANS_MAX {
            self.spans.pop_front();
        }
        self.spans.push_back(span);
        self.latest = look;
    }

    fn report(&self, look: Look) -> AdmissionsReport {
        let spans = self.spans.iter().copied().chain([self.since(look)]);
        let spans = spans.map(|span| AdmissionSpan {
            ago_ms: look.at_ms.saturating_sub(span.to_ms),
            lasted_ms: span.to_ms.saturating_sub(span.from_ms),
            verdicts: named(span.counts).filter(|(_, count)| *count > 0).collect(),
        });
        AdmissionsReport {
            span_ms: u64::try_from(ADMISSION_SPAN.as_millis()).unwrap_or(u64::MAX),
            spans_max: ADMISSION_SPANS_MAX,
            total: named(look.counts).collect(),
            spans: spans.collect(),
        }
    }
}

fn named(counts: Counts) -> impl Iterator<Item = (String, u64)> {
    let words = WORDS.into_iter().map(str::to_owned);
    words.zip(counts)
}

/// The history of a running node.
#[derive(Debug)]
pub(super) struct Admissions {
    started: Instant,
    history: Mutex<History>,
}

impl Admissions {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            history: Mutex::default(),
        }
    }

    fn look(&self, counters: &Counters) -> Look {
        let elapsed = self.started.elapsed().as_millis();
        let counts = [
            counters.first,
            counters.advance,
            counters.late,
            counters.replay,
            counters.fork,
            counters.stale,
        ];
        Look {
            at_ms: u64::try_from(elapsed).unwrap_or(u64::MAX),
            counts,
        }
    }

    /// Looks at the node again and again, until the API is told to stop or the node has ended.
    pub(super) async fn follow(daemon: Arc<Daemon>) {
        let mut stopping = daemon.stopping.clone();
        let mut next = interval(ADMISSION_SPAN);
        // After a machine slept, one long span says more than many that are empty.
        next.set_missed_tick_behavior(MissedTickBehavior::Delay);
        next.tick().await;
        loop {
            tokio::select! {
                _ = next.tick() => {}
                _ = stopping.wait_for(|stopping| *stopping) => return,
            }
            let Ok(counters) = daemon.node.seen(|peer| *peer.engine().counters()).await else {
                return;
            };
            let look = daemon.admissions.look(&counters);
            daemon
                .admissions
                .locked(|history| history.handle_look(look));
        }
    }

    fn locked<T>(&self, on: impl FnOnce(&mut History) -> T) -> T {
        on(&mut self.history.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What was admitted and what was not, by verdict, in spans of ten seconds.
#[utoipa::path(get, path = "/v1/admissions",
    responses((status = 200, description = "as asked", body = AdmissionsReport), Refused))]
pub(super) async fn admissions(State(daemon): Shared) -> Answer<AdmissionsReport> {
    let counters = daemon.node.seen(|peer| *peer.engine().counters()).await?;
    let look = daemon.admissions.look(&counters);
    Ok(Json(
        daemon.admissions.locked(|history| history.report(look)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(at_ms: u64, first: u64, replay: u64) -> Look {
        let counts = [first, 0, 0, replay, 0, 0];
        Look { at_ms, counts }
    }

    fn of(span: &AdmissionSpan, word: &str) -> u64 {
        span.verdicts.get(word).copied().unwrap_or_default()
    }

    #[test]
    fn what_the_spans_say_adds_up_to_what_was_counted() {
        let mut history = History::default();
        history.handle_look(look(10_000, 3, 0));
        // Nobody looked for a while.
        history.handle_look(look(95_000, 3, 2));
        let report = history.report(look(97_500, 8, 2));
        let times: Vec<_> = report
            .spans
            .iter()
            .map(|it| (it.ago_ms, it.lasted_ms))
            .collect();
        assert_eq!(times, [(87_500, 10_000), (2_500, 85_000), (0, 2_500)]);
        let firsts: Vec<_> = report.spans.iter().map(|it| of(it, "first")).collect();
        let replays: Vec<_> = report.spans.iter().map(|it| of(it, "replay")).collect();
        assert_eq!((firsts, replays), (vec![3, 0, 5], vec![0, 2, 0]));
        assert_eq!(report.total.get("first"), Some(&8));
        assert_eq!(report.total.len(), WORDS.len());
        // Asking changes nothing.
        assert_eq!(history.report(look(97_500, 8, 2)), report);
    }

    #[test]
    fn spans_are_bounded_and_the_oldest_go() {
        let mut history = History::default();
        for at in 1..=2 * ADMISSION_SPANS_MAX as u64 {
            history.handle_look(look(at * 10_000, at, 0));
        }
        let last = 2 * ADMISSION_SPANS_MAX as u64;
        let report = history.report(look(last * 10_000, last, 0));
        assert_eq!(report.spans.len(), ADMISSION_SPANS_MAX + 1);
        let said: u64 = report.spans.iter().map(|it| of(it, "first")).sum();
        assert_eq!(said, ADMISSION_SPANS_MAX as u64);
    }
}
