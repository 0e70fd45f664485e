//! How answers and failures are shown: words for people, or JSON for programs.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use overlane_core::{Coded, Fault};
use overlane_node::api::{ClientError, Refusal};
use overlane_node::home::Home;
use serde::Serialize;
use serde_json::json;

use super::explain::to_do;

/// Where the answers go, and how.
#[derive(Debug, Clone)]
pub(super) struct Output {
    /// JSON instead of words.
    pub(super) json: bool,
    /// What to type to mean this home: `overlane`, or `overlane --home DIR`.
    pub(super) overlane: String,
}

/// How a command ended that ended well.
pub(super) enum Done {
    /// It did what was asked.
    Yes,
    /// It answered, and the answer is no.
    No,
}

impl Output {
    /// Shows one answer.
    pub(super) fn answer<T: Serialize>(
        &self,
        value: &T,
        words: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        let text = if self.json {
            serde_json::to_string(value).map_err(|cause| Failure::of_output(&cause.into()))?
        } else {
            words(value)
        };
        self.line(&text)
    }

    /// Writes one line, and flushes it: whoever waits for it gets it now.
    pub(super) fn line(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")
            .and_then(|()| out.flush())
            .map_err(|cause| Failure::of_output(&cause))
    }

    /// Shows how the command ended, and gives its exit code.
    pub(super) fn end(&self, ended: Result<Done, Failure>) -> ExitCode {
        match ended {
            Ok(Done::Yes) => ExitCode::SUCCESS,
            Ok(Done::No) => ExitCode::from(1),
            Err(failure) => self.failure(&failure),
        }
    }

    fn failure(&self, failure: &Failure) -> ExitCode {
        if failure.code == READER_GONE {
            return ExitCode::SUCCESS;
        }
        let next = to_do(&failure.code, &self.overlane);
        // Nothing is left to tell about a failure to show a failure.
        let _ = if self.json {
            self.failure_as_json(failure, next.as_deref())
        } else {
            self.failure_in_words(failure, next.as_deref())
        };
        ExitCode::from(failure.exit)
    }

    fn failure_as_json(&self, failure: &Failure, next: Option<&str>) -> io::Result<()> {
        let Failure {
            code,
            message,
            exit,
        } = failure;
        let object = json!({"error": code, "message": message, "next": next, "exit": exit});
        writeln!(io::stdout().lock(), "{object}")
    }

    fn failure_in_words(&self, failure: &Failure, next: Option<&str>) -> io::Result<()> {
        let mut err = io::stderr().lock();
        writeln!(err, "error: {}", failure.message)?;
        writeln!(err, "code:  {}", failure.code)?;
        next.map_or(Ok(()), |next| writeln!(err, "to do: {next}"))
    }
}

/// The reader of standard output is gone (`overlane watch | head -1`): nobody is left to tell.
const READER_GONE: &str = "cli/reader_gone";

/// How a command ended that did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    code: Cow<'static, str>,
    message: String,
    exit: u8,
}

impl Failure {
    /// A failure with a code of its own.
    pub(super) fn new(code: &'static str, fault: Fault, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            exit: exit_code(fault),
        }
    }

    /// A failure whose code another node told.
    pub(super) fn reported(code: &str, fault: Fault, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned().into(),
            message: message.into(),
            exit: exit_code(fault),
        }
    }

    /// Its code.
    pub(super) fn code(&self) -> &str {
        &self.code
    }

    /// What happened.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// No answer from the daemon, or its refusal.
    pub(super) fn of_daemon(error: &ClientError) -> Self {
        // Where no node was made none can be started: a folder that was mistyped, as a rule.
        if let ClientError::NotRunning { home } = error
            && let Err(none) = Home::at(home).require_account()
        {
            return none.into();
        }
        Self {
            code: error.code().to_owned().into(),
            message: error.to_string(),
            exit: exit_code(error.fault()),
        }
    }

    /// A refusal that came in the middle of an answer.
    pub(super) fn of_refusal(refusal: &Refusal) -> Self {
        Self {
            code: refusal.error.clone().into(),
            message: refusal.message.clone(),
            exit: exit_code(refusal.fault.into()),
        }
    }

    fn of_output(cause: &io::Error) -> Self {
        if cause.kind() == ErrorKind::BrokenPipe {
            return Failure::new(READER_GONE, Fault::Usage, "");
        }
        let message = format!("write to standard output: {cause}");
        Failure::new("cli/output", Fault::Usage, message)
    }
}

impl<E: Coded + std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            // A message that already tells its cause is not told it twice.
            let words = inner.to_string();
            if !message.contains(&words) {
                message = format!("{message}: {words}");
            }
            cause = inner.source();
        }
        Self::new(error.code(), error.fault(), message)
    }
}

/// The one place where whose fault an error is becomes an exit code.
const fn exit_code(fault: Fault) -> u8 {
    match fault {
        Fault::PeerMisbehaved => 1,
        Fault::Usage => 2,
        Fault::RefusedByBound => 3,
        Fault::StoreFailedClosed => 4,
        Fault::Unreachable => 5,
    }
}
