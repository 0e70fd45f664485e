//! What windows said of transactions, by class.

use std::collections::BTreeMap;

use super::outcome::{Candidate, Staged};
use super::refusal::Refusal;
use super::window::Verdict;
use crate::ids::Class;

/// The verdicts by their one names, those that admit first.
pub const VERDICTS: [&str; 6] = ["first", "advance", "late", "replay", "fork", "stale"];

#[derive(Debug, Clone, Default)]
pub(super) struct ByClass(BTreeMap<(Class, &'static str), u64>);

impl ByClass {
    /// Counts an answer as it is released, if a window gave it.
    pub(super) fn count<T: Candidate>(&mut self, staged: &Staged<T>) {
        let said = match staged {
            Staged::Admit { item, verdict, .. } => Some((item, of_verdict(*verdict))),
            Staged::Hold { item, verdict } if verdict.admits() => {
                Some((item, of_verdict(*verdict)))
            }
            Staged::Refuse {
                refusal,
                item: Some(item),
            } => of_refusal(refusal).map(|verdict| (item, verdict)),
            _ => None,
        };
        if let Some((item, verdict)) = said {
            let count = self.0.entry((item.stream().class, verdict)).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// Every class and verdict, with how often it came.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Class, &'static str, u64)> {
        let all = Class::ALL.into_iter();
        let all = all.flat_map(|class| VERDICTS.map(|verdict| (class, verdict)));
        all.map(|(class, verdict)| {
            let count = self.0.get(&(class, verdict)).copied();
            (class, verdict, count.unwrap_or_default())
        })
    }
}

const fn of_verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::First => "first",
        Verdict::Advance { .. } => "advance",
        Verdict::Late => "late",
        Verdict::Replay => "replay",
        Verdict::Fork { .. } => "fork",
        Verdict::Stale { .. } => "stale",
    }
}

const fn of_refusal(refusal: &Refusal) -> Option<&'static str> {
    match refusal {
        Refusal::Replay { .. } => Some("replay"),
        Refusal::Fork(_) => Some("fork"),
        Refusal::Stale { .. } => Some("stale"),
        _ => None,
    }
}
