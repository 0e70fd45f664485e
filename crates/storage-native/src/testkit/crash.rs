//! Crash enumeration: every prefix of a scenario's effects, every subset of those not yet
//! durable, every tear; each image is opened again and compared with the model.

use std::collections::HashSet;

use super::scenario::{self, Changes, Model, Owner, Scenario};
use super::{CrashChoices, Disk, Image, Step, Subject, name};

/// What an enumeration went through.
#[derive(Debug, Clone, Copy, Default)]
pub struct CrashReport {
    /// Images that a crash may leave, many of them alike.
    pub visited: u64,
    /// Images that differed from every other and were opened again.
    pub distinct: u64,
}

/// One step of a scenario that was run: which effects are its own.
struct Span {
    from: usize,
    to: usize,
    before: Model,
    changes: Changes,
}

/// How deep and how wide to enumerate.
#[derive(Debug, Clone, Copy, Default)]
pub struct CrashPlan {
    /// Of each crash point.
    pub choices: CrashChoices,
    /// Of every how many images the recovery is crashed in turn; zero for none.
    pub crash_recovery_every: u64,
}

/// Enumerates the crashes of these scenarios on one store.
///
/// # Errors
/// The first violation, in words that say how to replay it.
pub fn enumerate(
    subject: &dyn Subject,
    scenarios: &[Scenario],
    plan: CrashPlan,
) -> Result<CrashReport, String> {
    let mut enumeration = Enumeration::new(subject, plan);
    enumeration.run(scenarios)?;
    Ok(enumeration.report)
}

/// An enumeration over any number of scenarios: an image that one of them left is not opened
/// again for another.
pub struct Enumeration<'a> {
    subject: &'a dyn Subject,
    plan: CrashPlan,
    /// What it went through so far.
    pub report: CrashReport,
    seen: HashSet<[u8; 32]>,
    made: bool,
}

impl<'a> Enumeration<'a> {
    /// An enumeration on one store.
    pub fn new(subject: &'a dyn Subject, plan: CrashPlan) -> Self {
        Self {
            subject,
            plan,
            report: CrashReport::default(),
            seen: HashSet::new(),
            made: false,
        }
    }

    /// Enumerates the crashes of these scenarios.
    ///
    /// # Errors
    /// The first violation, in words that say how to replay it.
    pub fn run(&mut self, scenarios: &[Scenario]) -> Result<(), String> {
        for scenario in scenarios {
            self.scenario(scenario).map_err(|violation| {
                format!(
                    "{}, “{}”, seed {}: {violation}",
                    self.subject.name(),
                    scenario.name,
                    self.plan.choices.seed
                )
            })?;
        }
        Ok(())
    }

    fn scenario(&mut self, scenario: &Scenario) -> Result<(), String> {
        let disk = Disk::new();
        let spans = run(self.subject, &disk, Model::new(), &scenario.steps)?;
        // Every scenario makes the store in the same way: the first one enumerates that.
        let skipped = usize::from(std::mem::replace(&mut self.made, true));
        let spans = spans.get(skipped..).unwrap_or_default();
        self.crash_all(&disk, spans, self.plan.crash_recovery_every)
    }

    fn crash_all(&mut self, disk: &Disk, spans: &[Span], recovery: u64) -> Result<(), String> {
        let recording = disk.recording();
        let mut violation = None;
        for position in 0..=recording.len() {
            let Some((before, in_flight)) = allowed(spans, position) else {
                continue;
            };
            // Inside a step, a crash before the last effect left what an earlier prefix did.
            let last_kept = !spans.iter().any(|span| span.from == position);
            let choices = CrashChoices {
                last_kept,
                ..self.plan.choices
            };
            recording.crash_images(position, choices, |image| {
                self.report.visited = self.report.visited.saturating_add(1);
                if violation.is_some() || !self.seen.insert(image.digest()) {
                    return;
                }
                self.report.distinct = self.report.distinct.saturating_add(1);
                let deep = recovery != 0 && self.report.distinct.is_multiple_of(recovery);
                let checked = self.check(&image, before, in_flight, deep);
                violation = checked
                    .err()
                    .map(|why| format!("crash at effect {position}: {why}"));
            });
        }
        violation.map_or(Ok(()), Err)
    }

    fn check(
        &mut self,
        image: &Image,
        before: &Model,
        in_flight: &Changes,
        deep: bool,
    ) -> Result<(), String> {
        let disk = Disk::from_image(image);
        let (mut store, scan) = scenario::open(self.subject, &disk)
            .map_err(|error| format!("does not open: {error}"))?;
        let shown = scenario::judge(&scan, before, in_flight)?;
        let opened = disk.position();
        // What was shown, and what is written then, must outlive the loss of all that is not
        // yet durable.
        let probe: Changes = vec![(name(900), Some(vec![9; 700]))];
        store
            .write(&scenario::batch(&probe))
            .map_err(|error| format!("does not go on: {error}"))?;
        drop(store);
        let end = disk.position();
        let after = scenario::after(&shown, &probe);
        let span = |from, to, before: &Model, changes: &Changes| Span {
            from,
            to,
            before: before.clone(),
            changes: changes.clone(),
        };
        let spans = [
            span(0, opened, before, in_flight),
            span(opened, end, &shown, &probe),
            span(end, end, &after, &Changes::new()),
        ];
        let recording = disk.recording();
        let mut violation = None;
        let nothing_kept = CrashChoices {
            exhaustive_max: 0,
            samples: 1,
            ..CrashChoices::default()
        };
        recording.crash_images(recording.len(), nothing_kept, |image| {
            let disk = Disk::from_image(&image);
            let judged = scenario::open(self.subject, &disk)
                .map_err(|error| format!("does not open: {error}"))
                .and_then(|(_, scan)| scenario::judge(&scan, &after, &Changes::new()));
            violation = judged.err();
        });
        if let Some(violation) = violation {
            return Err(format!("after recovery and a crash: {violation}"));
        }
        if deep {
            self.crash_all(&disk, &spans, 0)
                .map_err(|violation| format!("in recovery, {violation}"))?;
        }
        Ok(())
    }
}

/// What may be found after a crash at this position; nothing where no step has it.
fn allowed(spans: &[Span], position: usize) -> Option<(&Model, &Changes)> {
    const NONE: &Changes = &Vec::new();
    // A step that returned is released: only its new values will do.
    let ended = spans.iter().rev().find(|span| span.from == position);
    if let Some(next) = ended {
        return Some((&next.before, NONE));
    }
    spans
        .iter()
        .find(|span| span.from < position && position < span.to)
        .map(|span| (&span.before, &span.changes))
}

/// Opens the store and takes the steps; the last span is empty and holds what is there in the
/// end.
fn run(
    subject: &dyn Subject,
    disk: &Disk,
    model: Model,
    steps: &[Step],
) -> Result<Vec<Span>, String> {
    let mut spans = Vec::new();
    let mut model = model;
    let mut owner = Owner::of(&model);
    for step in std::iter::once(&Step::Reopen).chain(steps) {
        let from = disk.position();
        owner
            .take(subject, disk, step)
            .map_err(|error| format!("{step:?} failed on a sound disk: {error}"))?;
        let changes = step.changes();
        let before = std::mem::take(&mut model);
        model = scenario::after(&before, &changes);
        let to = disk.position();
        spans.push(Span {
            from,
            to,
            before,
            changes,
        });
    }
    drop(owner);
    let end = disk.position();
    spans.push(Span {
        from: end,
        to: end,
        before: model,
        changes: Vec::new(),
    });
    Ok(spans)
}
