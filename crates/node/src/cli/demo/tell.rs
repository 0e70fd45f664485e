//! How the story is told: a line a step, and whether each was as it should be.

use overlane_core::identity::Verified;
use overlane_core::replay::Verdict;
use overlane_core::transaction::ForkEvidence;
use overlane_core::{Coded, Did};
use overlane_node::api::verdict_word;
use overlane_node::{Receipt, Refusal};
use serde::Serialize;

use super::cast::Answer;
use super::verdict_of;
use crate::cli::output::{Done, Failure, Output};

/// What a step should come to.
pub(super) struct Expected {
    verdict: Option<&'static str>,
    error: Option<&'static str>,
}

impl Expected {
    pub(super) fn verdict(verdict: &'static str) -> Self {
        Self {
            verdict: Some(verdict),
            error: None,
        }
    }

    pub(super) fn error(error: &'static str) -> Self {
        Self {
            verdict: None,
            error: Some(error),
        }
    }
}

/// One step, and what it came to: a verdict of a window, or a refusal before the window.
#[derive(Serialize)]
pub(super) struct Line {
    step: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    stream: String,
    sequence: u64,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Evidence>,
    expected: bool,
}

/// Two transactions under one sequence.
#[derive(Serialize)]
struct Evidence {
    accepted: String,
    offered: String,
    /// Whether both carry the origin's signature.
    both_signed: bool,
}

impl Line {
    pub(super) fn of(step: &'static str, receipt: &Receipt, answer: Answer) -> Self {
        let verdict = verdict_of(&answer);
        let (error, message, evidence) = match &answer {
            Answer::Admitted(_) => (None, String::from("admitted"), None),
            Answer::Refused(refusal) => {
                let error = verdict.is_none().then(|| refusal.code());
                (error, refusal.to_string(), evidence_in(refusal))
            }
        };
        Self {
            step,
            verdict,
            error,
            stream: receipt.stream.to_string(),
            sequence: receipt.sequence,
            message,
            evidence,
            expected: false,
        }
    }

    pub(super) fn of_evidence(step: &'static str, evidence: &Verified<ForkEvidence>) -> Self {
        let fork = evidence.facts();
        let (accepted, offered) = (fork.accepted, fork.offered);
        let words = if fork.both_signed {
            "both are signed by"
        } else {
            "the offered one is signed by"
        };
        Self {
            step,
            verdict: Some(verdict_word(Verdict::Fork { accepted, offered })),
            error: None,
            stream: fork.stream.to_string(),
            sequence: fork.sequence,
            message: format!(
                "{words} {}, reported by {}",
                fork.stream.origin, fork.reporter
            ),
            evidence: Some(Evidence {
                accepted: accepted.to_string(),
                offered: offered.to_string(),
                both_signed: fork.both_signed,
            }),
            expected: false,
        }
    }

    fn in_words(&self, number: usize) -> String {
        let Self {
            step,
            verdict,
            error,
            sequence,
            message,
            evidence,
            ..
        } = self;
        let came = verdict.or(*error).unwrap_or("?");
        let mut text = format!("{number:>2}. {step}, as {sequence}\n    {came}: {message}");
        if let Some(Evidence {
            both_signed: true, ..
        }) = evidence
        {
            text += "\n    the evidence holds both signatures";
        }
        if !self.expected {
            text += "\n    THIS IS NOT WHAT IT SHOULD BE";
        }
        text
    }
}

fn evidence_in(refusal: &Refusal) -> Option<Evidence> {
    let Refusal::Replay(overlane_core::replay::Refusal::Fork(forked)) = refusal else {
        return None;
    };
    Some(Evidence {
        accepted: forked.accepted.to_string(),
        offered: forked.offered.to_string(),
        both_signed: forked.accepted_header.is_some(),
    })
}

/// Shows the lines, and remembers whether all were as they should be.
pub(super) struct Teller<'a> {
    output: &'a Output,
    /// Who is who, for people: a Did and the name that is told instead.
    names: Vec<(String, &'static str)>,
    told: usize,
    unexpected: usize,
}

impl<'a> Teller<'a> {
    pub(super) fn new(output: &'a Output) -> Self {
        Self {
            output,
            names: Vec::new(),
            told: 0,
            unexpected: 0,
        }
    }

    /// From here on this Did is told by its name.
    pub(super) fn name(&mut self, did: Did, name: &'static str) {
        self.names.push((did.to_string(), name));
    }

    /// What people want to know between the steps.
    pub(super) fn say(&self, words: &str) -> Result<(), Failure> {
        if self.output.json {
            return Ok(());
        }
        self.output.line(words)
    }

    pub(super) fn tell(&mut self, mut line: Line, expected: Expected) -> Result<(), Failure> {
        line.expected = line.verdict == expected.verdict && line.error == expected.error;
        self.told += 1;
        self.unexpected += usize::from(!line.expected);
        let number = self.told;
        self.output.answer(&line, |line| {
            let words = line.in_words(number);
            let names = self.names.iter();
            names.fold(words, |words, (did, name)| words.replace(did, name))
        })
    }

    pub(super) fn end(self) -> Result<Done, Failure> {
        let (told, unexpected) = (self.told, self.unexpected);
        if unexpected == 0 {
            self.say(&format!("\nall {told} steps came out as they should"))?;
            return Ok(Done::Yes);
        }
        self.say(&format!(
            "\n{unexpected} of {told} steps did not come out as they should"
        ))?;
        Ok(Done::No)
    }
}
