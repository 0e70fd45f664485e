//! What a reconciliation would move, found before it is done.
//!
//! A plan goes through the rounds of the reconciliation with its host, and names stand in place of posts: so what it says is
//! what the reconciliation then takes, as long as nothing else is posted. It moves no post. One of more than
//! [`PLAN_ITEMS_MAX`](overlane_relay::log::bounds::PLAN_ITEMS_MAX) that would come is told as what it came to, and the rest
//! is estimated by how many posts the host says it holds.

use overlane_core::Did;
use overlane_recon::{Bound, Differences, End, plan};
use overlane_relay::log::bounds::{PLAN_ITEMS_MAX, RECON_MAX_BYTES};
use overlane_relay::log::{LogId, LogStore, Numbering, Planned};

use super::book::{Stage, Want};
use super::{Groups, PlanView, Reply};
use crate::peer::Now;

impl<S: LogStore> Groups<S> {
    /// A plan has ended.
    pub(super) fn planned(&mut self, log: LogId, with: Did, planned: &Planned, now: Now) {
        let end = planned.report.end.clone();
        let end = end.unwrap_or(End::GaveUp(Bound::Idle));
        let cut = planned.receive >= PLAN_ITEMS_MAX
            || matches!(end, End::GaveUp(Bound::Rounds | Bound::Bytes));
        match &end {
            End::Settled => {}
            _ if cut => {}
            End::Refused { code } => return self.failed(log, with, code, now),
            end => return self.failed(log, with, end.code(), now),
        }
        let size = self.logs.size(&log);
        let numbering = self.logs.numbering(&log);
        let (Ok((here, here_bytes)), Ok(numbering)) = (self.check(size), self.check(numbering))
        else {
            return;
        };
        let Some(course) = self.course(&log, &with) else {
            return;
        };
        let (there, there_bytes) = course.there;
        let mut view = PlanView {
            with,
            here,
            there,
            receive: planned.receive,
            receive_bytes: planned.receive_bytes,
            send: planned.send,
            send_bytes: planned.send_bytes,
            rounds: planned.report.rounds,
            bytes: planned.report.bytes(),
            exact: !cut,
        };
        if cut {
            view.at_least(numbering, here_bytes, there_bytes);
        }
        let plans = course
            .wants
            .extract_if(.., |it| matches!(it, Want::Plan(_)));
        let plans: Vec<_> = plans.collect();
        let resumes_ms = course.resumes_ms.take().filter(|at| *at > now.steady_ms);
        course.failures = 0;
        course.error = None;
        match resumes_ms {
            // Nothing but the plan was wanted.
            Some(at_ms) if course.wants.is_empty() && !course.again && !course.news => {
                course.rests(now, at_ms.saturating_sub(now.steady_ms));
            }
            _ => course.stage = Stage::Ready,
        }
        for want in plans {
            self.answer_want(want, Ok(Reply::Planned(view)));
        }
        // Another host than is asked by itself was asked for this alone.
        self.set_courses(log, now);
    }
}

impl PlanView {
    /// More would come than was named: what is told is the least.
    fn at_least(&mut self, numbering: Numbering, here_bytes: u64, there_bytes: u64) {
        self.receive = self.receive.max(self.there.saturating_sub(self.here));
        let bytes = there_bytes.saturating_sub(here_bytes);
        self.receive_bytes = self.receive_bytes.max(bytes);
        let differences = match numbering {
            Numbering::Of(_) => Differences::Run(self.receive),
            Numbering::Own => Differences::Spread(self.receive.max(self.send)),
        };
        let limits = overlane_recon::Limits::default().message_bytes(RECON_MAX_BYTES);
        let cost = plan(self.here.max(self.there), differences, &limits);
        self.rounds = self.rounds.max(cost.rounds);
        self.bytes = self.bytes.max(cost.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_group_a_plan_of_more_than_may_be_named_says_at_least() {
        let mut view = PlanView {
            with: Did([1; 20]),
            here: 10,
            there: 50_010,
            receive: PLAN_ITEMS_MAX,
            receive_bytes: 100 * PLAN_ITEMS_MAX,
            send: 3,
            send_bytes: 300,
            rounds: 20,
            bytes: 1_000,
            exact: false,
        };
        let named = view;
        view.at_least(Numbering::Own, 1_000, 5_001_000);
        assert_eq!((view.receive, view.receive_bytes), (50_000, 5_000_000));
        assert_eq!((view.send, view.send_bytes), (3, 300));
        assert!(view.rounds >= 20 && view.bytes > 1_000, "{view:?}");
        // A host that holds less than it named says nothing that takes away from that.
        let mut less = PlanView { there: 5, ..named };
        less.at_least(Numbering::Of(Did([1; 20])), 1_000, 500);
        assert_eq!(
            (less.receive, less.receive_bytes),
            (named.receive, named.receive_bytes)
        );
    }
}
