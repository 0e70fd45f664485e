//! The log of a daemon: to standard error and, its latest lines, in memory; its level is changed while it runs.

mod redact;

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, reload};

use crate::home::{LogFilter, LogsConfig};

pub use redact::Redactor;

/// Lines that are kept in memory.
pub const LINES_KEPT_MAX: usize = 1_000;

/// Bytes of them.
pub const LINES_KEPT_MAX_BYTES: usize = 256 * 1024;

/// The log of this process.
#[derive(Clone)]
pub struct Logs {
    reload: reload::Handle<Targets, Registry>,
    filter: Arc<Mutex<LogFilter>>,
    kept: Arc<Mutex<Kept>>,
    redactor: Arc<Redactor>,
}

impl std::fmt::Debug for Logs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Logs").finish_non_exhaustive()
    }
}

/// The latest lines, without names and addresses whatever standard error shows.
#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<String>,
    bytes: usize,
}

impl Kept {
    fn keep(&mut self, line: String) {
        self.bytes = self.bytes.saturating_add(line.len());
        self.lines.push_back(line);
        while self.lines.len() > LINES_KEPT_MAX || self.bytes > LINES_KEPT_MAX_BYTES {
            let Some(oldest) = self.lines.pop_front() else {
                break;
            };
            self.bytes = self.bytes.saturating_sub(oldest.len());
        }
    }
}

impl Logs {
    /// Starts the log of this process. Where there is one already, that stays, and this one is of nothing.
    pub fn start(filter: &LogFilter, config: LogsConfig) -> Self {
        let (level, reload) = reload::Layer::new(filter.targets());
        let mut key = [0; 32];
        let key = getrandom::fill(&mut key).is_ok().then_some(key);
        let folder = std::env::var("HOME").ok();
        let redactor = Arc::new(Redactor::new(key, folder));
        let kept: Arc<Mutex<Kept>> = Arc::default();
        let writer = Writer {
            kept: Arc::clone(&kept),
            redactor: Arc::clone(&redactor),
            shows_all: config.shows_all,
        };
        let lines = tracing_subscriber::fmt::layer().with_writer(writer);
        let lines = if config.json {
            lines.json().with_ansi(false).boxed()
        } else {
            lines.with_ansi(io::stderr().is_terminal()).boxed()
        };
        let log = tracing_subscriber::registry().with(lines.with_filter(level));
        let _ = log.try_init();
        Self {
            reload,
            filter: Arc::new(Mutex::new(filter.clone())),
            kept,
            redactor,
        }
    }

    /// What is logged.
    pub fn filter(&self) -> LogFilter {
        held(&self.filter).clone()
    }

    /// Logs this from now on.
    pub fn set(&self, filter: LogFilter) {
        // Fails only where the log is gone, with the process.
        let _ = self.reload.modify(|targets| *targets = filter.targets());
        *held(&self.filter) = filter;
    }

    /// The latest lines, without names and addresses.
    pub fn kept(&self) -> Vec<String> {
        held(&self.kept).lines.iter().cloned().collect()
    }

    /// What takes names and addresses out, with the pseudonyms of the kept lines.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }
}

fn held<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a line for each event.
#[derive(Debug)]
struct Writer {
    kept: Arc<Mutex<Kept>>,
    redactor: Arc<Redactor>,
    shows_all: bool,
}

impl<'a> MakeWriter<'a> for Writer {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line {
            of: self,
            bytes: Vec::new(),
        }
    }
}

/// One event's line, written whole.
#[derive(Debug)]
struct Line<'a> {
    of: &'a Writer,
    bytes: Vec<u8>,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.bytes);
        if text.is_empty() {
            return;
        }
        let redacted = self.of.redactor.redact(&text);
        let shown = match self.of.shows_all {
            true => text.as_bytes(),
            false => redacted.as_bytes(),
        };
        // Nothing is left to tell about a log that cannot be written.
        let _ = io::stderr().lock().write_all(shown);
        held(&self.of.kept).keep(redacted.trim_end().to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_lines_are_bounded_in_number_and_bytes() {
        let mut kept = Kept::default();
        for number in 0..LINES_KEPT_MAX + 5 {
            kept.keep(number.to_string());
        }
        assert_eq!(kept.lines.len(), LINES_KEPT_MAX);
        assert_eq!(kept.lines.front().map(String::as_str), Some("5"));
        kept.keep("x".repeat(LINES_KEPT_MAX_BYTES - 10));
        assert!(
            kept.bytes <= LINES_KEPT_MAX_BYTES && kept.lines.len() < 12,
            "{}",
            kept.lines.len()
        );
        kept.keep("x".repeat(LINES_KEPT_MAX_BYTES + 1));
        assert_eq!((kept.lines.len(), kept.bytes), (0, 0));
    }
}
