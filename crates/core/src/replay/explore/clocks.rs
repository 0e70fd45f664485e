//! The world of two clocks: one that is set, witnesses that lie, mail that comes late.
//!
//! True time runs beside the node's wall clock. A live transaction is offered only where the node's
//! verification lets it through by its wall clock; mail only while a holder may have it by true time.
//! A peer may lie as far as protocol decision 4 takes it: it confirms a clock that is ahead. A peer
//! that confirms a clock set back is the stated residual and is not in this world.

use std::collections::{BTreeMap, BTreeSet};

use super::item::{Item, stream};
use super::{World, check, hash};
use crate::identity::CLOCK_SKEW_MS;
use crate::ids::Class;
use crate::replay::clock::Now;
use crate::replay::engine::{Engine, EngineConfig};
use crate::replay::mutant::Mutant;
use crate::replay::outcome::Outcome;
use crate::replay::slots::Introducer;
use crate::replay::spent::{MAIL_LIFE_MAX_MS, RIPE_MS};
use crate::store::{Effect, Found, RecordName, Scan};

const START_MS: u64 = 1_800_000_000_000;
const LIFE_MS: u64 = 600_000;
const DECADE_MS: u64 = 3_650 * 86_400_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// The control transaction over a live connection.
    OfferLive,
    /// The application transaction over a live connection.
    OfferApplication,
    /// The application transaction out of the inbox, taken at once where it is held.
    OfferMail,
    /// What the application's stream signs next, over a live connection.
    OfferNext,
    /// Time passes, for every clock.
    Pass(u64),
    /// The wall clock is set to true time plus, or minus, this.
    SetAhead(u64),
    SetBack(u64),
    /// A peer with the right time is heard, and something is admitted.
    Witness,
    /// A peer with this node's time is heard, and something is admitted.
    Accomplice,
    Restart,
}

#[derive(Clone)]
struct Clocks {
    engine: Engine<Item>,
    disk: BTreeMap<RecordName, Vec<u8>>,
    true_ms: u64,
    wall_ms: u64,
    steady_ms: u64,
    dispatched: BTreeSet<Item>,
}

impl Clocks {
    /// The world after these.
    fn after(actions: &[Action]) -> Self {
        let mut world = Self::new();
        for action in actions {
            world.act(*action).unwrap();
        }
        world
    }

    fn new() -> Self {
        let mut world = Self {
            engine: Engine::new(EngineConfig::default()),
            disk: BTreeMap::new(),
            true_ms: START_MS,
            wall_ms: START_MS,
            steady_ms: 0,
            dispatched: BTreeSet::new(),
        };
        world.restart();
        world
    }

    fn now(&self) -> Now {
        Now {
            wall_ms: self.wall_ms,
            steady_ms: self.steady_ms,
        }
    }

    fn restart(&mut self) {
        self.steady_ms = 0;
        let records = self.disk.iter();
        let records = records.map(|(name, bytes)| (*name, Found::Bytes(bytes.clone())));
        let scan = Scan {
            records: records.collect(),
        };
        self.engine = Engine::restore(EngineConfig::default(), scan, self.now());
    }

    fn verifies(&self) -> bool {
        (START_MS.saturating_sub(CLOCK_SKEW_MS)..=START_MS + LIFE_MS).contains(&self.wall_ms)
    }

    /// A fresh transaction of the stream: its origin's clock is right.
    fn offer_next(&mut self) -> Result<(), String> {
        let item = Item {
            stream: stream(7, Class::Application),
            sequence: 6,
            tag: 2,
            issued_ms: self.true_ms,
            last_ms: self.true_ms + LIFE_MS,
        };
        self.engine
            .stage_admission(item, Introducer::Own, self.now());
        self.settle()
    }

    fn offer(&mut self, class: Class, introducer: Introducer) -> Result<(), String> {
        let item = Item {
            stream: stream(7, class),
            sequence: 5,
            tag: 1,
            issued_ms: START_MS,
            last_ms: START_MS + LIFE_MS,
        };
        self.engine.stage_admission(item, introducer, self.now());
        self.settle()
    }

    /// Something else that is admitted: what is spent retires with it.
    fn something(&mut self) -> Result<(), String> {
        let item = Item {
            stream: stream(9, Class::Storage),
            sequence: self.true_ms - START_MS,
            tag: 2,
            issued_ms: self.wall_ms,
            last_ms: self.wall_ms + LIFE_MS,
        };
        self.engine
            .stage_admission(item, Introducer::Own, self.now());
        self.settle()
    }

    fn settle(&mut self) -> Result<(), String> {
        loop {
            while let Some((_, outcome)) = self.engine.poll_outcome() {
                match outcome {
                    Outcome::InCustody(mail) => {
                        self.engine.stage_take(mail, self.now());
                    }
                    Outcome::Admitted(admitted) => {
                        let item = admitted.into_item();
                        if item.tag == 1 && !self.dispatched.insert(item) {
                            let class = item.stream.class;
                            return Err(format!("law two clocks: {class} dispatched twice"));
                        }
                    }
                    _ => {}
                }
            }
            let Some(batch) = self.engine.take_batch() else {
                return Ok(());
            };
            for change in &batch.changes {
                match &change.effect {
                    Effect::Write(image) => self.disk.insert(change.name, image.whole()),
                    Effect::Remove => self.disk.remove(&change.name),
                };
            }
            let done = self.engine.batch_done(batch.id, Ok(()));
            done.map_err(|it| it.to_string())?;
        }
    }
}

impl World for Clocks {
    type Action = Action;

    fn actions(&self) -> Vec<Action> {
        let mut actions = vec![
            Action::Pass(RIPE_MS),
            Action::Pass(MAIL_LIFE_MAX_MS),
            Action::SetAhead(0),
            Action::SetAhead(DECADE_MS),
            Action::SetBack(RIPE_MS),
            Action::Witness,
            Action::Restart,
        ];
        if self.verifies() {
            actions.extend([Action::OfferLive, Action::OfferApplication]);
        }
        if self.true_ms <= START_MS + LIFE_MS + MAIL_LIFE_MAX_MS + 2 * CLOCK_SKEW_MS {
            actions.push(Action::OfferMail);
        }
        if self.wall_ms == self.true_ms {
            actions.push(Action::OfferNext);
        }
        if self.wall_ms >= self.true_ms {
            actions.push(Action::Accomplice);
        }
        actions
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::OfferLive => self.offer(Class::Control, Introducer::Own),
            Action::OfferApplication => self.offer(Class::Application, Introducer::Own),
            Action::OfferMail => self.offer(Class::Application, Introducer::Inbox),
            Action::OfferNext => self.offer_next(),
            Action::Pass(ms) => {
                self.true_ms += ms;
                self.wall_ms += ms;
                self.steady_ms += ms;
                Ok(())
            }
            Action::SetAhead(ms) => {
                self.wall_ms = self.true_ms + ms;
                Ok(())
            }
            Action::SetBack(ms) => {
                self.wall_ms = self.true_ms - ms;
                Ok(())
            }
            Action::Witness => {
                self.engine.handle_witness(self.true_ms, self.now());
                self.something()
            }
            Action::Accomplice => {
                self.engine.handle_witness(self.wall_ms, self.now());
                self.something()
            }
            Action::Restart => {
                self.restart();
                Ok(())
            }
        }
    }

    fn fingerprint(&self) -> u64 {
        hash((
            self.engine.fingerprint(),
            &self.disk,
            (self.true_ms, self.wall_ms, self.steady_ms),
            &self.dispatched,
        ))
    }
}

#[test]
fn law_two_clocks_reopen_no_replay_in_any_state_of_a_small_world() {
    // Both were admitted; what may follow must admit neither again.
    let world = || Clocks::after(&[Action::OfferLive, Action::OfferMail]);
    let broken = [
        Mutant::TrustsTheWallClock,
        Mutant::RaisesNoFloor,
        Mutant::BelievesAClockSetBack,
    ];
    check("two clocks", world, 5, &broken);
}

#[test]
fn law_mail_floor_holds_in_every_state_after_a_wrong_retirement() {
    // The application's stream has retired ten years ahead of its time, and the clock came back.
    const BEFORE: [Action; 5] = [
        Action::OfferApplication,
        Action::Pass(RIPE_MS),
        Action::SetAhead(DECADE_MS),
        Action::Accomplice,
        Action::SetAhead(0),
    ];
    let world = || Clocks::after(&BEFORE);
    let retired = stream(7, Class::Application);
    assert_eq!(world().engine.receiver(&retired), None);
    let broken = [Mutant::RaisesNoFloor, Mutant::AsksNoFloorOfLateOnes];
    check("mail floor", world, 5, &broken);
}
