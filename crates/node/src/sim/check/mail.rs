//! Laws **mail is kept** and **mail is let go of when taken**: what an honest node has stored for somebody
//! who is away it lets go of when the application that it is for took it, when its time is over, or when
//! every honest node has it that by its view holds that inbox; never because a process ended. What is
//! held so is taken in the end.
//!
//! What is in the stores is looked at from outside, after each step and at each start. A step may see more than one
//! view of a chain: each that was in force since the look before last counts. Nobody speaks for a hostile holder, nor
//! for a chain that is hostile whole.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use overlane_core::mail::MAIL_LIFE_DEFAULT_MS;
use overlane_core::replay::WINDOW_SLOTS;
use overlane_core::{Class, Did, StreamKey, TransactionDigest};
use overlane_relay::inbox::bounds::INBOX_MAILS;

use super::Seen;

/// What holders have promised is not there any more, and was not taken.
pub(in crate::sim) const KEPT: &str = "mail is kept";
/// A holder of an inbox let go of what its owner did not take.
pub(in crate::sim) const LET_GO: &str = "mail is let go of when taken";

/// A hold instant that is so far ahead of the time is of a clock that is wrong.
const AHEAD_MAX_MS: u64 = 5_000;

/// A mail in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sim) struct Kept {
    /// Whose it is.
    pub(in crate::sim) owner: Did,
    /// The last instant at which it is kept, by the clock of who holds it.
    pub(in crate::sim) until_ms: u64,
}

/// Whether a node has just started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sim) enum Start {
    No,
    /// Its last process ended with nothing on its way to the store.
    AfterRest,
    /// Something was on its way there.
    AfterWork,
}

/// What a node's store has of mail, and when.
#[derive(Debug)]
pub(in crate::sim) struct Stored {
    pub(in crate::sim) node: Did,
    pub(in crate::sim) mails: BTreeMap<TransactionDigest, Kept>,
    /// By the node's clock, the latest that it showed since the look before; and by the simulation's.
    pub(in crate::sim) wall_ms: u64,
    pub(in crate::sim) true_ms: u64,
    pub(in crate::sim) start: Start,
}

/// A law that did not hold, and what was seen.
type Broke = (&'static str, String);

/// What came of a look at a store.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::sim) struct Looked {
    pub(in crate::sim) broke: Vec<Broke>,
    pub(in crate::sim) handed_on: u64,
    pub(in crate::sim) let_go: u64,
}

/// Who holds an inbox, by the views of one that knows it: each with how often that node's store had been looked at when
/// it came, the earliest first.
#[derive(Debug, Default)]
struct Views(VecDeque<(u64, Vec<Did>)>);

impl Views {
    /// A view comes. What was not in force any more at the look before last is let go of.
    fn set(&mut self, looks: u64, chain: &[Did]) {
        if self.0.back().is_none_or(|last| last.1 != chain) {
            self.0.push_back((looks, chain.to_vec()));
        }
        while self.0.get(1).is_some_and(|next| is_past(next.0, looks)) {
            self.0.pop_front();
        }
    }

    /// The views that were in force since the look before last, the latest first.
    fn in_force(&self, looks: u64) -> impl Iterator<Item = &[Did]> {
        let next = self.0.iter().skip(1);
        let over = next.take_while(|next| is_past(next.0, looks)).count();
        self.0.iter().skip(over).rev().map(|it| it.1.as_slice())
    }
}

/// Whether what came at this count of looks had come before the look before last.
fn is_past(came: u64, looks: u64) -> bool {
    came.saturating_add(1) < looks
}

/// All that is known of mail from outside.
#[derive(Default)]
pub(in crate::sim) struct Mails {
    hostile: BTreeSet<Did>,
    stores: BTreeMap<Did, BTreeMap<TransactionDigest, Kept>>,
    /// Who has ever stored what.
    ever: BTreeSet<(Did, TransactionDigest)>,
    /// What anybody has ever stored.
    seen: BTreeSet<TransactionDigest>,
    /// What somebody let go of because its time was over.
    over: BTreeSet<TransactionDigest>,
    /// By who has the views, and whose the inbox is.
    chains: BTreeMap<(Did, Did), Views>,
    /// How often a node's store was looked at.
    looks: BTreeMap<Did, u64>,
    /// What its application may have.
    gone: BTreeSet<TransactionDigest>,
    /// An application leaves it where it is.
    alone: BTreeSet<TransactionDigest>,
    /// Its hold instant was not yet when it was first stored.
    ahead: BTreeSet<TransactionDigest>,
    /// What was given to nodes over their own links and they have not handed over, in this life.
    near: BTreeMap<Did, BTreeSet<TransactionDigest>>,
    highest: BTreeMap<StreamKey, u64>,
}

impl Mails {
    /// Nobody speaks for these.
    pub(in crate::sim) fn hostile(&mut self, hostile: BTreeSet<Did>) {
        self.hostile = hostile;
    }

    pub(in crate::sim) fn see(&mut self, seen: &Seen<'_>) {
        match *seen {
            Seen::OnTheWire { signed, relay, .. } if signed.stream.class == Class::Application => {
                let highest = self.highest.entry(signed.stream).or_default();
                *highest = signed.sequence.max(*highest);
                let to = signed.stream.destination;
                if relay.next_hop == to {
                    self.near.entry(to).or_default().insert(signed.digest);
                }
            }
            // What is held where it was signed is on no wire before it is fetched.
            Seen::Receipt(signed) if signed.stream.class == Class::Application => {
                let highest = self.highest.entry(signed.stream).or_default();
                *highest = signed.sequence.max(*highest);
            }
            Seen::Dispatched { signed, .. } if signed.stream.class == Class::Application => {
                self.gone.insert(signed.digest);
                if let Some(near) = self.near.get_mut(&signed.stream.destination) {
                    near.remove(&signed.digest);
                }
            }
            _ => {}
        }
    }

    /// A process ended; `in_order` with everything admitted handed over. What it was given and did not hand
    /// over otherwise may have been admitted, and is then lost with it: at most once.
    pub(in crate::sim) fn ended(&mut self, node: Did, in_order: bool) {
        let near = self.near.remove(&node).unwrap_or_default();
        if !in_order {
            self.gone.extend(near);
        }
    }

    /// A process begins.
    pub(in crate::sim) fn started(&mut self, node: Did) {
        self.near.remove(&node);
    }

    /// By its ring, a node thinks that these hold an inbox.
    pub(in crate::sim) fn chain(&mut self, node: Did, owner: Did, chain: &[Did]) {
        let looks = self.looks.get(&node).copied().unwrap_or_default();
        let views = self.chains.entry((node, owner)).or_default();
        views.set(looks, chain);
    }

    /// An application asked for a mail: it may have it from now on.
    pub(in crate::sim) fn asked(&mut self, digest: TransactionDigest) {
        self.gone.insert(digest);
    }

    /// It was told that it has not.
    pub(in crate::sim) fn not_taken(&mut self, digest: TransactionDigest) {
        self.gone.remove(&digest);
    }

    /// An application leaves a mail where it is.
    pub(in crate::sim) fn left_alone(&mut self, digest: TransactionDigest) {
        self.alone.insert(digest);
    }

    /// A sender was told that a mail is held by this node.
    ///
    /// # Errors
    /// It never stored it.
    pub(in crate::sim) fn told(&self, by: Did, digest: TransactionDigest) -> Result<(), Broke> {
        if self.hostile.contains(&by) || self.ever.contains(&(by, digest)) {
            return Ok(());
        }
        Err((
            KEPT,
            format!("{by} gave a receipt for {digest}, which it never stored"),
        ))
    }

    /// A node says that a mail of its own can be admitted no more: a window's worth of its stream came
    /// before it, or a clock was wrong. Whether its application never had it.
    ///
    /// # Errors
    /// Neither is so.
    pub(in crate::sim) fn lost(
        &mut self,
        (stream, sequence, digest): (StreamKey, u64, TransactionDigest),
        code: &str,
        wrong_clock: bool,
    ) -> Result<bool, Broke> {
        let window = u64::try_from(WINDOW_SLOTS).unwrap_or(u64::MAX);
        let highest = self.highest.get(&stream).copied().unwrap_or_default();
        let overtaken = code == "replay/stale" && highest >= sequence.saturating_add(window);
        let first = self.gone.insert(digest);
        if !first || overtaken || wrong_clock {
            return Ok(first);
        }
        Err((
            KEPT,
            format!("sequence {sequence} of {stream} cannot be admitted any more: {code}"),
        ))
    }

    /// What a node's store has now.
    pub(in crate::sim) fn look(&mut self, stored: Stored) -> Looked {
        let mut looked = Looked::default();
        let Stored { node, mails, .. } = &stored;
        for (&digest, mail) in mails {
            let held_ms = mail.until_ms.saturating_sub(MAIL_LIFE_DEFAULT_MS);
            let first = self.seen.insert(digest);
            if first && held_ms > stored.true_ms.saturating_add(AHEAD_MAX_MS) {
                self.ahead.insert(digest);
            }
            self.ever.insert((*node, digest));
        }
        let before = self.stores.insert(*node, mails.clone()).unwrap_or_default();
        if self.hostile.contains(node) {
            return looked;
        }
        let gone = before.iter().filter(|it| !mails.contains_key(it.0));
        for (&digest, mail) in gone {
            let full = before.values().filter(|it| it.owner == mail.owner).count();
            let full = u64::try_from(full).is_ok_and(|mails| mails >= INBOX_MAILS);
            if self.gone.contains(&digest) {
                looked.let_go += 1;
            } else if mail.until_ms < stored.wall_ms || full {
                // By the only clock that counts; or others' mail takes its share.
                self.over.insert(digest);
            } else {
                match self.handed_on(digest, mail, &stored) {
                    Ok(()) => looked.handed_on += 1,
                    Err(broke) => looked.broke.push(broke),
                }
            }
        }
        *self.looks.entry(*node).or_default() += 1;
        looked
    }

    /// Whether a node may have let go of a mail because others hold it.
    fn handed_on(&self, digest: TransactionDigest, mail: &Kept, at: &Stored) -> Result<(), Broke> {
        let (node, owner) = (at.node, mail.owner);
        if at.start == Start::AfterRest {
            let words = format!("{node} started without mail {digest} for {owner}, which it held");
            return Err((KEPT, words));
        }
        let looks = self.looks.get(&node).copied().unwrap_or_default();
        let views = self.chains.get(&(node, owner)).into_iter();
        let views = views.flat_map(|it| it.in_force(looks));
        // Those by which this node had left.
        let mut left = views.filter(|chain| !chain.is_empty() && !chain.contains(&node));
        let without = |chain: &[Did]| {
            let mut honest = chain.iter().filter(|it| !self.hostile.contains(it));
            honest
                .find(|it| !self.ever.contains(&(**it, digest)))
                .copied()
        };
        let Some(latest) = left.next() else {
            let words = format!("{node} let go of mail {digest}, which {owner} did not take");
            let law = if at.start == Start::No { LET_GO } else { KEPT };
            return Err((law, words));
        };
        match without(latest) {
            Some(member) if left.all(|earlier| without(earlier).is_some()) => {
                let words = format!(
                    "{node} left the chain of {owner} and let go of mail {digest}, which {member} \
                     never had"
                );
                Err((KEPT, words))
            }
            _ => Ok(()),
        }
    }

    /// Mail that honest nodes hold and that is to be taken.
    pub(in crate::sim) fn owed(&self) -> BTreeSet<TransactionDigest> {
        let honest = self.stores.iter();
        let honest = honest.filter(|it| !self.hostile.contains(it.0));
        let mails = honest.flat_map(|it| it.1);
        let owed = mails.filter(|(digest, mail)| {
            let over = self.gone.contains(digest) || self.alone.contains(digest);
            !over && !self.ahead.contains(digest) && !self.hostile.contains(&mail.owner)
        });
        owed.map(|it| *it.0).collect()
    }

    /// The run is over, and everything had healed.
    ///
    /// # Errors
    /// Some mail was not taken, or is not there for one that would not take it.
    pub(in crate::sim) fn end(&self) -> Result<(), Broke> {
        let owed = self.owed();
        if let Some(first) = owed.first() {
            let count = owed.len();
            let mut holders = self.stores.iter().filter(|it| it.1.contains_key(first));
            let holder = holders
                .next()
                .and_then(|it| Some((it.0, it.1.get(first)?.owner)));
            let whose = holder.map(|(by, owner)| format!(" for {owner}, held by {by}"));
            let whose = whose.unwrap_or_default();
            let words =
                format!("{count} mails are held and never came, one of them {first}{whose}");
            return Err((KEPT, words));
        }
        let held = |digest: &TransactionDigest| {
            let mut stores = self.stores.iter();
            stores.any(|(node, it)| !self.hostile.contains(node) && it.contains_key(digest))
        };
        let ever = |digest: &TransactionDigest| {
            let mut ever = self.ever.iter();
            ever.any(|it| it.1 == *digest && !self.hostile.contains(&it.0))
        };
        let mut left = self.alone.difference(&self.gone);
        let lost = |digest: &TransactionDigest| ever(digest) && !held(digest);
        match left.find(|it| !self.over.contains(*it) && lost(it)) {
            Some(first) => Err((KEPT, format!("{first} was not taken, and nobody holds it"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Did = Did([9; 20]);
    const MAIL: TransactionDigest = TransactionDigest([7; 32]);

    fn did(first: u8) -> Did {
        Did([first; 20])
    }

    /// A look at a node's store, with the mail or without it.
    fn stored(node: u8, has: bool) -> Stored {
        let until_ms = MAIL_LIFE_DEFAULT_MS;
        let kept = Kept {
            owner: OWNER,
            until_ms,
        };
        Stored {
            node: did(node),
            mails: has.then_some((MAIL, kept)).into_iter().collect(),
            wall_ms: 1,
            true_ms: 1,
            start: Start::No,
        }
    }

    fn chain(mails: &mut Mails, node: u8, members: &[u8]) {
        let members: Vec<Did> = members.iter().copied().map(did).collect();
        mails.chain(did(node), OWNER, &members);
    }

    /// Nodes `have` the mail, and node 1 is of the chain by its view.
    fn held(have: &[u8]) -> Mails {
        let mut mails = Mails::default();
        for &node in have {
            chain(&mut mails, node, &[1, 2, 3]);
            assert_eq!(mails.look(stored(node, true)), Looked::default());
        }
        mails
    }

    /// What is said of node 1, which has the mail no more.
    fn let_go(mails: &mut Mails) -> Result<(), &'static str> {
        let looked = mails.look(stored(1, false));
        match looked.broke.as_slice() {
            [] => {
                assert_eq!((looked.handed_on, looked.let_go), (1, 0));
                Ok(())
            }
            [(law, _)] => Err(law),
            more => panic!("{more:?}"),
        }
    }

    #[test]
    fn who_left_by_an_earlier_view_of_one_batch_may_have_handed_on() {
        let mut mails = held(&[1, 2, 3, 4]);
        chain(&mut mails, 1, &[2, 3, 4]);
        chain(&mut mails, 1, &[1, 2, 3]);
        assert_eq!(let_go(&mut mails), Ok(()));
        // Neither order nor what came between them matters.
        let mut mails = held(&[1, 2, 3, 4]);
        chain(&mut mails, 1, &[1, 2, 4]);
        chain(&mut mails, 1, &[2, 3, 4]);
        chain(&mut mails, 1, &[1, 3, 4]);
        chain(&mut mails, 1, &[]);
        assert_eq!(let_go(&mut mails), Ok(()));
    }

    #[test]
    fn a_view_that_was_in_force_when_a_batch_began_counts_and_no_older_one() {
        let mut mails = held(&[1, 2, 3, 4]);
        chain(&mut mails, 1, &[2, 3, 4]);
        for _ in 0..3 {
            assert_eq!(mails.look(stored(1, true)), Looked::default());
        }
        chain(&mut mails, 1, &[1, 2, 3]);
        assert_eq!(mails.look(stored(1, true)), Looked::default());
        assert_eq!(let_go(&mut mails), Ok(()));
        let mut mails = held(&[1, 2, 3, 4]);
        chain(&mut mails, 1, &[2, 3, 4]);
        chain(&mut mails, 1, &[1, 2, 3]);
        for _ in 0..2 {
            assert_eq!(mails.look(stored(1, true)), Looked::default());
        }
        assert_eq!(let_go(&mut mails), Err(LET_GO));
    }

    #[test]
    fn an_earlier_view_counts_only_where_all_its_honest_members_had_the_mail() {
        let views = |mails: &mut Mails| {
            chain(mails, 1, &[2, 3, 4]);
            chain(mails, 1, &[1, 2, 3]);
        };
        let mut mails = held(&[1, 2, 3]);
        views(&mut mails);
        assert_eq!(let_go(&mut mails), Err(KEPT));
        let mut mails = held(&[1, 2, 3]);
        mails.hostile([did(4)].into_iter().collect());
        views(&mut mails);
        assert_eq!(let_go(&mut mails), Ok(()));
        // One view is enough, also where another asks for one that never had it.
        let mut mails = held(&[1, 2, 3, 4]);
        chain(&mut mails, 1, &[2, 3, 4]);
        chain(&mut mails, 1, &[2, 3, 5]);
        assert_eq!(let_go(&mut mails), Ok(()));
    }

    #[test]
    fn who_is_in_the_chain_by_all_its_views_lets_go_of_nothing() {
        let mut mails = held(&[1, 2, 3, 4]);
        assert_eq!(let_go(&mut mails), Err(LET_GO));
        let mut mails = held(&[1, 2, 3, 4]);
        chain(&mut mails, 1, &[]);
        chain(&mut mails, 1, &[1, 3, 4]);
        assert_eq!(let_go(&mut mails), Err(LET_GO));
        let mut mails = held(&[1, 2, 3, 4]);
        chain(&mut mails, 1, &[2, 3, 4]);
        let mut stored = stored(1, false);
        stored.start = Start::AfterRest;
        let broke = mails.look(stored).broke;
        assert_eq!(broke.first().map(|it| it.0), Some(KEPT));
    }

    #[test]
    fn views_that_were_over_before_the_look_before_last_are_not_kept() {
        let mut mails = held(&[1]);
        for round in 0..20 {
            chain(&mut mails, 1, &[2, 3, 10 + round]);
            chain(&mut mails, 1, &[2, 3, 10 + round]);
            assert_eq!(mails.look(stored(1, true)), Looked::default());
        }
        assert_eq!(mails.chains[&(did(1), OWNER)].0.len(), 3);
    }
}
