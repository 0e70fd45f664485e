//! An application that is tested on the simulator: eight banks pay each other single coins by messages, while their
//! nodes crash, lose power, are cut off, and signed bytes are offered again. No coin may ever be made out of nothing,
//! which is what a message that counts more than once would do; banks that book each message tenfold are found out.
//!
//! Run it with `cargo run --release -p overlane-node --example simulated`.

use std::cell::RefCell;
use std::error::Error;
use std::rc::Rc;

use overlane_core::Did;
use overlane_node::testkit::{Application, Faults, Outbox, Report, Sim, SimConfig};

const COINS: u64 = 1_000;
const BANKS: usize = 8;

/// What all banks hold, and what is on its way or lost.
#[derive(Default)]
struct Ledger {
    held: u64,
    paid: u64,
    got: u64,
}

/// One bank: it pays a coin whenever it may.
struct Bank {
    coins: u64,
    turn: usize,
    /// How often it books a coin that came.
    books: u64,
    ledger: Rc<RefCell<Ledger>>,
}

impl Application for Bank {
    fn handle_time(&mut self, outbox: &mut Outbox) {
        self.turn += 1;
        let (own, banks) = (outbox.own(), outbox.nodes());
        let to = banks.get(self.turn % banks.len()).copied();
        let Some(to) = to.filter(|&to| to != own && self.coins > 0) else {
            return;
        };
        self.coins -= 1;
        let mut ledger = self.ledger.borrow_mut();
        ledger.held -= 1;
        ledger.paid += 1;
        outbox.send(to, "a coin");
    }

    fn handle_message(&mut self, _from: Did, _body: &[u8], _outbox: &mut Outbox) {
        self.coins += self.books;
        let mut ledger = self.ledger.borrow_mut();
        ledger.held += self.books;
        ledger.got += self.books;
    }
}

/// A simulated minute with every fault, and its healing, and what the banks hold then.
fn run(seed: u64, books: u64) -> Result<(Report, Ledger), Box<dyn Error>> {
    let config = SimConfig {
        nodes: BANKS,
        minutes: 1,
        seed,
        faults: Faults::all(),
        // What this application does alone: no mail, no groups, no references.
        mails_per_minute: 0,
        groups: 0,
        references_per_minute: 0,
        ..SimConfig::default()
    };
    let ledger = Rc::new(RefCell::new(Ledger::default()));
    let simulation = Sim::new(config)?.with_applications(|_| {
        ledger.borrow_mut().held += COINS;
        Box::new(Bank {
            coins: COINS,
            turn: 0,
            books,
            ledger: Rc::clone(&ledger),
        })
    });
    let report = simulation.run(|_| ());
    let ledger = ledger.take();
    Ok((report, ledger))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (report, ledger) = run(7, 1)?;
    let counts = &report.counts;
    println!(
        "{} crashes, {} messages offered again, {} laws broken: {} coins paid, {} got",
        counts.kills + counts.power_cuts,
        counts.offered_again,
        report.violations,
        ledger.paid,
        ledger.got
    );
    if report.violations > 0 || ledger.got > ledger.paid || ledger.got == 0 {
        return Err(format!("coins out of nothing, seed 7: {:?}", report.first).into());
    }
    let (_, ledger) = run(7, 10)?;
    println!(
        "booked tenfold: {} coins paid, {} got",
        ledger.paid, ledger.got
    );
    if ledger.got <= ledger.paid {
        return Err("a bank that books tenfold was not noticed".into());
    }
    Ok(())
}
