//! Where this node stands with each host, and what it does next.

use overlane_core::Did;
use overlane_core::group::GroupId;
use overlane_recon::{Bound, End, Report};
use overlane_relay::log::{LogId, LogStore, LogsError, Numbering, is_numbered_anew};

use super::book::{Course, Stage, Want};
use super::rows::{COMPLETE_ROWS, key};
use super::wire::Said;
use super::{
    AskId, EVERY_MS, Effect, GREETING_MS, GroupEvent, Groups, GroupsError, PAUSE_MS, Reply,
    SYNCS_MAX,
};
use crate::peer::Now;

/// What a reconciliation costs this side is paid with a pause: milliseconds for so many items.
const PAUSE_ITEMS: u64 = 100;

impl<S: LogStore> Groups<S> {
    /// Notes that a request waits for a host, and asks the host now.
    pub(super) fn want(&mut self, log: LogId, host: Did, want: Want, now: Now) {
        if let Some(group) = self.groups.get_mut(&log) {
            // Another host than is asked by itself is asked for this alone.
            let course = group.courses.entry(host).or_insert_with(|| Course {
                due_ms: u64::MAX,
                ..Course::default()
            });
            let rests = course.stage == Stage::Idle && course.due_ms > now.steady_ms;
            course.resumes_ms = match want {
                Want::Plan(_) if rests => Some(course.due_ms),
                Want::Plan(_) => course.resumes_ms,
                Want::Sync(_) => None,
            };
            course.wants.push(want);
            course.due_ms = now.steady_ms;
            course.again = course.stage != Stage::Idle;
            self.waiting += 1;
        }
    }

    /// Goes on with what is due; whether a reconciliation began.
    pub(super) fn go_on(&mut self, now: Now) -> bool {
        if self.failure.is_some() {
            return false;
        }
        let mut began = self.number_what_waits(now);
        let mut due = Vec::new();
        let mut ready = Vec::new();
        for (log, group) in &self.groups {
            for (host, course) in &group.courses {
                match course.stage {
                    Stage::Idle if course.due_ms <= now.steady_ms => due.push((*log, *host)),
                    Stage::Ready => ready.push((*log, *host)),
                    _ => {}
                }
            }
        }
        for (log, host) in due {
            self.greet(log, host, now);
        }
        for (log, host) in ready {
            if self.logs.syncing() >= SYNCS_MAX {
                break;
            }
            began |= self.begin(log, host, now);
        }
        began
    }

    pub(super) fn courses_due_ms(&self) -> Option<u64> {
        let courses = self.groups.values().flat_map(|it| it.courses.values());
        let due = courses.filter_map(|course| match course.stage {
            Stage::Idle => Some(course.due_ms),
            Stage::Greeting(since_ms) => Some(since_ms.saturating_add(GREETING_MS)),
            // Its turn comes when another has ended.
            Stage::Ready | Stage::Planning | Stage::Syncing => None,
        });
        due.min()
    }

    fn greet(&mut self, log: LogId, host: Did, now: Now) {
        let Some(group) = self.groups.get(&log) else {
            return;
        };
        let greet = Said::Greet {
            log,
            revision: group.revision(),
            follows: true,
        };
        let said = self.say(host, &greet);
        if let Some(course) = self.course(&log, &host) {
            course.stage = Stage::Greeting(now.steady_ms);
            course.again = false;
        }
        if !said {
            self.failed(log, host, "group/no_answer", now);
        }
    }

    fn begin(&mut self, log: LogId, host: Did, now: Now) -> bool {
        let course = self.course(&log, &host);
        let plans = course.is_some_and(|it| it.plans());
        let started = match plans {
            true => self.logs.start_plan(log, host, now.wall_ms),
            false => self.logs.start_sync(log, host, now.wall_ms),
        };
        match started {
            Ok(()) => {
                let own = self.did;
                if self.groups.get(&log).is_some_and(|it| !it.is_host(&own)) {
                    self.logs.send_only(log, host, own);
                }
                if let Some(course) = self.course(&log, &host) {
                    course.stage = match plans {
                        true => Stage::Planning,
                        false => Stage::Syncing,
                    };
                }
                true
            }
            Err(LogsError::Peer(refusal)) => {
                use overlane_core::Coded as _;
                self.failed(log, host, refusal.code(), now);
                false
            }
            Err(error) => {
                self.fail(&error);
                false
            }
        }
    }

    pub(super) fn greeting_answered(
        &mut self,
        from: Did,
        log: LogId,
        revision: u64,
        there: (u64, u64),
        now: Now,
    ) {
        let Some(course) = self.course(&log, &from) else {
            return;
        };
        if !matches!(course.stage, Stage::Greeting(_)) {
            return;
        }
        let group = self.groups.get(&log);
        let own = group.map_or(0, super::book::Group::revision);
        let newer = group.and_then(|it| it.row.roster.clone());
        if let Some(roster) = newer.filter(|_| own > revision) {
            self.say(from, &Said::Roster(&roster));
        }
        self.ask_for_earlier(log, from, now);
        self.answered(log, from, now);
        let reconciles = self.reconciles(&log, &from);
        let pause_ms = EVERY_MS.saturating_add(self.jitter_ms());
        let Some(course) = self.course(&log, &from) else {
            return;
        };
        course.there = there;
        if own > 0 && (reconciles || course.plans()) {
            course.stage = Stage::Ready;
        } else {
            course.rests(now, pause_ms);
            course.failures = 0;
            course.error = None;
        }
    }

    pub(super) fn heard_news(&mut self, from: Did, log: LogId, now: Now) {
        let pause_ms = self.news_pause_ms(&log);
        let Some(course) = self.course(&log, &from) else {
            return;
        };
        let due_ms = course.ended_ms.saturating_add(pause_ms).max(now.steady_ms);
        course.news = course.stage != Stage::Idle;
        course.resumes_ms = None;
        course.due_ms = course.due_ms.min(due_ms);
    }

    /// How often a host can have this node reconcile is bounded by what that costs it.
    fn news_pause_ms(&mut self, log: &LogId) -> u64 {
        let size = self.logs.size(log);
        let (items, _) = self.check(size).unwrap_or_default();
        PAUSE_ITEMS.saturating_add(items / PAUSE_ITEMS)
    }

    pub(super) fn told_not_here(&mut self, from: Did, log: LogId, now: Now) {
        self.has_left(from, log);
        self.failed(log, from, "group/not_here", now);
        if self.course(&log, &from).is_some() {
            self.logs.give_up(log, from);
        }
    }

    pub(super) fn synced(&mut self, log: LogId, with: Did, report: Report, now: Now) {
        let end = report.end.clone().unwrap_or(End::GaveUp(Bound::Idle));
        // It goes on at once where it came further, and there alone.
        let moved = matches!(end, End::GaveUp(Bound::Rounds | Bound::Bytes))
            && report.received.saturating_add(report.sent) > 0;
        let news_pause_ms = self.news_pause_ms(&log);
        let jitter_ms = self.jitter_ms();
        // Its author came with a roster that this node has not seen yet.
        let refused = |it: &overlane_recon::Refused| it.why == "group/not_a_member";
        let behind = report.refused_here.iter().any(refused);
        // Its numbers are not those that it had when this node followed it.
        let anew = |it: &overlane_recon::Refused| is_numbered_anew(&it.why);
        let anew = report.refused_here.iter().any(anew);
        self.take_refusals(log, with, &report);
        let Some(course) = self.course(&log, &with) else {
            return;
        };
        let wants = course
            .wants
            .extract_if(.., |it| matches!(it, Want::Sync(_)));
        let wants: Vec<_> = wants.collect();
        if end == End::Settled || moved {
            let pause_ms = match () {
                () if moved || course.again => 0,
                () if course.news => news_pause_ms,
                () if behind => PAUSE_MS,
                () => EVERY_MS.saturating_add(jitter_ms),
            };
            course.failures = 0;
            course.error = None;
            if end == End::Settled {
                course.settled_ms = Some(now.wall_ms);
            }
            course.rests(now, pause_ms);
            self.counters.settled += 1;
            if anew {
                self.go_over(log, with, now);
            } else if end == End::Settled && !behind {
                self.complete(log, with);
            }
        } else {
            let code = match &end {
                End::Refused { code } => code.clone(),
                end => end.code().to_owned(),
            };
            self.failed(log, with, &code, now);
        }
        for want in wants {
            let report = Box::new(report.clone());
            self.answer_want(want, Ok(Reply::Synced(with, report)));
        }
    }

    /// All that the host has is here.
    fn complete(&mut self, log: LogId, with: Did) {
        let numbering = self.logs.numbering(&log);
        let next = self.logs.next_seq(&log);
        let (Ok(Numbering::Of(host)), Ok(to)) = (self.check(numbering), self.check(next)) else {
            return;
        };
        let group = self.groups.get_mut(&log);
        let Some(group) = group.filter(|it| host == with && it.complete_to < to) else {
            return;
        };
        group.complete_to = to;
        let row = key(COMPLETE_ROWS, &log, &[]);
        self.logs.put_row(row, Some(to.to_be_bytes().to_vec()));
        let group = GroupId(log.0);
        self.held
            .push(Effect::Event(GroupEvent::Complete { group, to }));
    }

    /// Nothing comes through to a node: what is under way with it ends.
    pub(super) fn lost(&mut self, node: Did, code: &str, now: Now) {
        if let Some(line) = self.lines.get_mut(&node) {
            line.clear();
        }
        self.logs.handle_disconnected(&node);
        let greeting = |it: &super::book::Group| {
            let course = it.courses.get(&node);
            let driven = |it: Stage| matches!(it, Stage::Idle | Stage::Planning | Stage::Syncing);
            course.is_some_and(|it| !driven(it.stage))
        };
        let groups = self.groups.iter().filter(|(_, group)| greeting(group));
        let logs: Vec<_> = groups.map(|(log, _)| *log).collect();
        for log in logs {
            self.failed(log, node, code, now);
        }
    }

    pub(super) fn greetings_late(&mut self, now: Now) {
        let mut late = Vec::new();
        for (log, group) in &self.groups {
            for (host, course) in &group.courses {
                if let Stage::Greeting(since_ms) = course.stage
                    && since_ms.saturating_add(GREETING_MS) <= now.steady_ms
                {
                    late.push((*log, *host));
                }
            }
        }
        for (log, host) in late {
            self.failed(log, host, "group/no_answer", now);
        }
    }

    /// What was tried with a host came to nothing: it is tried again after a pause.
    pub(super) fn failed(&mut self, log: LogId, host: Did, code: &str, now: Now) {
        let jitter_ms = self.jitter_ms();
        let Some(course) = self.course(&log, &host) else {
            return;
        };
        if course.stage == Stage::Idle {
            return;
        }
        let doubled = PAUSE_MS.saturating_mul(1 << course.failures.min(6));
        course.rests(now, doubled.min(EVERY_MS).saturating_add(jitter_ms));
        course.failures = course.failures.saturating_add(1);
        course.failing_since_ms.get_or_insert(now.steady_ms);
        course.error = Some(code.to_owned());
        let wants = std::mem::take(&mut course.wants);
        self.counters.failed += 1;
        for want in wants {
            let code = code.to_owned();
            let refused = match code.as_str() {
                "group/not_here" => GroupsError::NotHere { host },
                "group/no_answer" => GroupsError::NoAnswer { host },
                _ => GroupsError::Unreachable { host, code },
            };
            self.answer_want(want, Err(refused));
        }
        self.joins_failed(log);
        self.set_courses(log, now);
    }

    /// Who joined is told once every node that may have the roster was tried.
    fn joins_failed(&mut self, log: LogId) {
        let group = self.groups.get_mut(&log);
        let Some(group) = group.filter(|it| it.roster.is_none()) else {
            return;
        };
        if group.courses.values().all(|course| course.failures > 0) {
            let joins = std::mem::take(&mut group.joining);
            self.answer_joins(log, joins);
        }
    }

    /// Tells who joined how the group is known here now.
    pub(super) fn answer_joins(&mut self, log: LogId, joins: Vec<AskId>) {
        for id in joins {
            self.waiting = self.waiting.saturating_sub(1);
            let view = self.view(&log);
            let reply = view.map(|view| Reply::Group(Box::new(view)));
            self.held.push(Effect::Answer(id, reply));
        }
    }

    pub(super) fn answer_want(&mut self, want: Want, answer: Result<Reply, GroupsError>) {
        let (Want::Sync(id) | Want::Plan(id)) = want;
        self.waiting = self.waiting.saturating_sub(1);
        self.held.push(Effect::Answer(id, answer));
    }

    /// Every request that waits for another node; nothing waits any more.
    pub(super) fn forget_waiting(&mut self) -> Vec<AskId> {
        let mut ids = Vec::new();
        for group in self.groups.values_mut() {
            ids.append(&mut group.joining);
            for course in group.courses.values_mut() {
                let wants = std::mem::take(&mut course.wants).into_iter();
                ids.extend(wants.map(|(Want::Sync(id) | Want::Plan(id))| id));
            }
        }
        self.waiting = 0;
        ids
    }

    /// Has a host asked again soon: something waits here for it.
    pub(super) fn ask_soon(&mut self, log: &LogId, now: Now) {
        let home = self.home(log);
        let Some(group) = self.groups.get_mut(log) else {
            return;
        };
        for (host, course) in &mut group.courses {
            if home.is_none_or(|home| home == *host) && course.failures == 0 {
                course.due_ms = course.due_ms.min(now.steady_ms);
                course.resumes_ms = None;
                course.again = course.stage != Stage::Idle;
            }
        }
    }

    pub(super) fn course(&mut self, log: &LogId, host: &Did) -> Option<&mut Course> {
        self.groups.get_mut(log)?.courses.get_mut(host)
    }

    /// Keeps nodes that began together apart.
    fn jitter_ms(&mut self) -> u64 {
        let drawn = self.draw();
        let number = drawn.first_chunk().map_or(0, |it| u64::from_be_bytes(*it));
        number % PAUSE_MS
    }
}

impl Course {
    /// Whether a request for a plan waits for it.
    fn plans(&self) -> bool {
        self.wants.iter().any(|it| matches!(it, Want::Plan(_)))
    }

    pub(super) fn rests(&mut self, now: Now, pause_ms: u64) {
        self.stage = Stage::Idle;
        self.again = false;
        self.news = false;
        self.ended_ms = now.steady_ms;
        self.due_ms = now.steady_ms.saturating_add(pause_ms);
    }
}
