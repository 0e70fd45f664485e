//! Failing calls: for every scenario, every kind of fault and every N, the N-th call it
//! concerns fails, once or for good; then the store must be closed to every call, and opening
//! it again, after the process alone ended or after a crash too, must show the model.

use super::scenario::{self, AMPLE_BUDGET_BYTES, Changes, Model, Owner, Scenario, batch};
use super::{CrashChoices, Disk, FaultKind, FaultPlan, Image, Step, Subject, name};
use crate::StoreAdmin;
use overlane_core::store::StoreError;

/// What a run of failing calls went through.
#[derive(Debug, Clone, Copy, Default)]
pub struct FailingReport {
    /// Runs in which a call failed.
    pub runs: u64,
    /// Of these, runs that the store carried on from (an interruption, a short read or write).
    pub carried_on: u64,
    /// Images opened again after a failure.
    pub images: u64,
}

/// Lets every call of these scenarios fail in turn.
///
/// # Errors
/// The first violation, in words that say how to replay it.
pub fn every_call(
    subject: &dyn Subject,
    scenarios: &[Scenario],
    choices: CrashChoices,
) -> Result<FailingReport, String> {
    let mut report = FailingReport::default();
    for scenario in scenarios {
        for (kind, for_good) in FaultKind::ALL
            .into_iter()
            .flat_map(|kind| [(kind, false), (kind, true)])
        {
            for at in 1.. {
                let plan = FaultPlan { kind, at, for_good };
                let run = Run {
                    subject,
                    scenario,
                    plan,
                    choices,
                };
                let fired = run.run(&mut report).map_err(|violation| {
                    format!(
                        "{}, “{}”, {plan:?}, seed {}: {violation}",
                        subject.name(),
                        scenario.name,
                        choices.seed
                    )
                })?;
                if !fired {
                    break;
                }
            }
        }
    }
    Ok(report)
}

struct Run<'a> {
    subject: &'a dyn Subject,
    scenario: &'a Scenario,
    plan: FaultPlan,
    choices: CrashChoices,
}

impl Run<'_> {
    /// Whether a call failed at all.
    fn run(&self, report: &mut FailingReport) -> Result<bool, String> {
        let disk = Disk::new();
        let mut model = Model::new();
        let mut in_flight = Changes::new();
        let mut owner = Owner::default();
        disk.fail(self.plan);
        let mut failure = None;
        for step in std::iter::once(&Step::Reopen).chain(&self.scenario.steps) {
            match owner.take(self.subject, &disk, step) {
                Ok(()) => model = scenario::after(&model, &step.changes()),
                // A record that could not be read is bad, and a batch that names it is refused
                // before anything is written: the store goes on.
                Err(StoreError::BadRecord { .. }) => {}
                Err(error) => {
                    in_flight = step.changes();
                    failure = Some(error);
                    break;
                }
            }
        }
        if failure.is_some() && owner.is_open() {
            owner.store().map_or(Ok(()), stays_closed)?;
        }
        drop(owner);
        let fired = disk.heal();
        if !fired {
            return failure.map_or(Ok(false), |error| {
                Err(format!("failed unprovoked: {error}"))
            });
        }
        report.runs = report.runs.saturating_add(1);
        if failure.is_none() {
            report.carried_on = report.carried_on.saturating_add(1);
        }
        self.afterwards(&disk, &model, &in_flight, report)?;
        Ok(true)
    }

    /// Opens what a restarted process finds, and what a crash at that moment leaves.
    fn afterwards(
        &self,
        disk: &Disk,
        model: &Model,
        in_flight: &Changes,
        report: &mut FailingReport,
    ) -> Result<(), String> {
        let mut violation = None;
        let mut judge = |image: &Image, when: &str| {
            report.images = report.images.saturating_add(1);
            let judged = scenario::open(self.subject, &Disk::from_image(image))
                .map_err(|error| format!("does not open: {error}"))
                .and_then(|(_, scan)| scenario::judge(&scan, model, in_flight));
            violation = violation
                .take()
                .or(judged.err().map(|why| format!("{when}: {why}")));
        };
        disk.recording()
            .crash_images(disk.position(), self.choices, |image| {
                judge(&image, "after a crash");
            });
        self.go_on(disk, model, in_flight)?;
        violation.map_or(Ok(()), Err)
    }

    /// The process starts again on the same system: what the failed flush lost is still shown
    /// by the page cache. Whatever is released now must outlive a crash, and so must what was
    /// released before, at every point of the recovery.
    fn go_on(&self, disk: &Disk, model: &Model, in_flight: &Changes) -> Result<(), String> {
        let from = disk.position();
        let (mut store, scan) = scenario::open(self.subject, disk)
            .map_err(|error| format!("after a restart: does not open: {error}"))?;
        let shown = scenario::judge(&scan, model, in_flight)
            .map_err(|violation| format!("after a restart: {violation}"))?;
        let opened = disk.position();
        let probe = vec![(name(900), Some(vec![9; 700]))];
        store
            .write(&batch(&probe))
            .map_err(|error| format!("after a restart: {error}"))?;
        drop(store);
        let after = scenario::after(&shown, &probe);
        // What a failed flush leaves is the one thing that recovery itself can get wrong.
        if self.plan.kind == FaultKind::FileFlush {
            for position in from..opened {
                self.crash_at(disk, position, model, in_flight)?;
            }
        }
        self.crash_at(disk, disk.position(), &after, &Changes::new())
    }

    fn crash_at(
        &self,
        disk: &Disk,
        position: usize,
        model: &Model,
        in_flight: &Changes,
    ) -> Result<(), String> {
        let mut violation = None;
        disk.recording()
            .crash_images(position, self.choices, |image| {
                let judged = self
                    .subject
                    .open(&Disk::from_image(&image), AMPLE_BUDGET_BYTES)
                    .and_then(|mut store| store.scan())
                    .map_err(|error| format!("does not open: {error}"))
                    .and_then(|scan| scenario::judge(&scan, model, in_flight));
                violation = violation.take().or(judged.err());
            });
        violation.map_or(Ok(()), |why| {
            Err(format!(
                "after a restart and a crash at effect {position}: {why}"
            ))
        })
    }
}

fn stays_closed(store: &mut dyn StoreAdmin) -> Result<(), String> {
    match store.write(&[]) {
        Err(StoreError::Poisoned { .. }) => Ok(()),
        other => Err(format!("a failed store went on: {other:?}")),
    }
}
