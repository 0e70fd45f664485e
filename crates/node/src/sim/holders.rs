//! Hostile holders of mail: they drop it, hide it, bring it again, and lie about when they took it.

use overlane_core::TransactionDigest;
use overlane_core::identity::{Verified, VerifyContext};
use overlane_core::mail::{MAIL_LIFE_DEFAULT_MS, Mail};
use overlane_core::transaction::Payload;
use overlane_relay::inbox::Frame;
use overlane_relay::log::{Frame as LogFrame, LogId, Refused, Turn};

use super::names::Act;
use super::node::NETWORK;
use super::world::World;
use crate::peer::inbox::{Job, Said, Told};

/// Mails that a hostile node remembers.
const REMEMBERED: usize = 32;

/// How often it brings one in an act.
const VOLLEY: u64 = 4;

/// What a hostile node has seen of mail, and has to do yet.
#[derive(Debug, Default)]
pub(super) struct Seized {
    mails: Vec<Verified<Payload>>,
    /// To be dropped once its receipt is out.
    drops: Vec<(LogId, TransactionDigest)>,
}

impl World<'_> {
    /// A hostile node's keeper is about to work: it hides mail from its owner, and remembers what it is
    /// given.
    pub(super) fn withhold_mail(&mut self, node: usize) {
        let [drops, old, dates] =
            [Act::Drops, Act::OldMail, Act::BackDates].map(|act| self.does(node, act));
        if !drops && !old && !dates {
            return;
        }
        let now = self.now_at(node);
        let context = VerifyContext {
            network: NETWORK,
            now_ms: now.wall_ms,
        };
        let (hides, mut told) = (drops && self.permille(500), Vec::new());
        let Some(room) = self.running(node).and_then(|it| it.mail.as_mut()) else {
            return;
        };
        let mut seized = Vec::new();
        let work = std::mem::take(&mut room.work);
        for work in work {
            match &work.job {
                Job::Log { by, frame }
                    if hides && asks(frame) == Some(LogId::inbox(&by.account)) =>
                {
                    let refuse = LogFrame::Refuse {
                        log: LogId::inbox(&by.account),
                        what: Refused::Recon,
                        code: "log/not_here",
                        retry_ms: 0,
                    };
                    told.push(Told::SayLog(by.account, refuse.to_bytes()));
                    told.extend(work.holds_place.then_some(Told::Done(1)));
                    continue;
                }
                Job::Deposit { payload, .. } => {
                    let payload = Payload::from_frame(payload).ok();
                    seized.extend(payload.and_then(|it| it.verify(&context).ok()));
                }
                _ => {}
            }
            room.work.push_back(work);
        }
        let hidden = told.iter().filter(|it| matches!(it, Told::SayLog(..)));
        self.counts.mail.dropped += hidden.count() as u64;
        if let Some(running) = self.running(node) {
            running.peer.handle_kept(told, now);
        }
        let dropped: Vec<_> = (0..seized.len())
            .map(|_| drops && self.permille(700))
            .collect();
        let kept = self.seized.entry(node).or_default();
        for (payload, dropped) in seized.into_iter().zip(dropped) {
            let log = LogId::inbox(&payload.stream().destination);
            kept.drops
                .extend(dropped.then_some((log, payload.digest())));
            kept.mails.push(payload);
        }
        let over = kept.mails.len().saturating_sub(REMEMBERED);
        kept.mails.drain(..over);
    }

    /// It has said that it holds them.
    pub(super) fn drop_deposits(&mut self, node: usize) {
        let drops = self.seized.get_mut(&node).map(|it| &mut it.drops);
        let drops = drops.map(std::mem::take).unwrap_or_default();
        let Some(room) = self.running(node).and_then(|it| it.mail.as_mut()) else {
            return;
        };
        let logs = room.keeper.inboxes().logs();
        let mut dropped = 0;
        for (log, digest) in drops {
            // A store that fails says so at the next flush.
            let held = logs.remove(&log, &overlane_recon::Id(digest.0));
            dropped += u64::from(held.unwrap_or_default());
        }
        self.counts.mail.dropped += dropped;
    }

    /// A hostile node brings mail again that it was given once.
    pub(super) fn bring_old_mail(&mut self, node: usize) {
        for _ in 0..VOLLEY {
            let now_ms = self.now_at(node).wall_ms;
            self.bring(node, now_ms);
        }
    }

    /// It says that it holds mail since before it was written, or from a time that is not yet.
    pub(super) fn back_date(&mut self, node: usize) {
        for _ in 0..VOLLEY {
            let now_ms = self.now_at(node).wall_ms;
            let by_ms = self.between(5_000, 4_000_000);
            let held_ms = match self.permille(700) {
                true => now_ms.saturating_sub(by_ms),
                false => now_ms.saturating_add(by_ms),
            };
            self.bring(node, held_ms);
        }
    }

    /// Brings a mail that it holds since `held_ms`, as it says, to its owner, to a holder, or to anybody.
    fn bring(&mut self, node: usize, held_ms: u64) {
        let count = self.seized.get(&node).map_or(0, |it| it.mails.len());
        let drawn = self.any_of(count);
        let (kind, anybody) = (self.chance.below(4), self.any_of(self.nodes.len()));
        let seized = self.seized.get(&node).and_then(|it| it.mails.get(drawn));
        let Some(payload) = seized.cloned() else {
            return;
        };
        let owner = payload.stream().destination;
        let (log, deposit) = (LogId::inbox(&owner), payload.to_frame(|_| false));
        let Some(signer) = self.running(node).map(|it| it.signer.clone()) else {
            return;
        };
        let Ok(mail) = Mail::hold(payload, &signer, held_ms, MAIL_LIFE_DEFAULT_MS) else {
            return;
        };
        let envelope = &mail.to_held().to_bytes()[..];
        let holder = self.nodes.get(anybody).map_or(owner, |it| it.did);
        let (to, said) = match kind {
            0 => (holder, Said::Deposit(deposit)),
            1 => {
                let seq = 1;
                let push = LogFrame::Push { log, seq, envelope };
                (owner, Said::Log(push.to_bytes()))
            }
            2 => (
                holder,
                Said::Log(LogFrame::Send { log, envelope }.to_bytes()),
            ),
            _ => (owner, Said::Inbox(Frame::Announce(owner).to_bytes())),
        };
        if let Some(data) = said.to_data() {
            self.counts.mail.brought += 1;
            self.send_data(node, to, data);
        }
    }
}

/// The log that a question is about.
fn asks(frame: &[u8]) -> Option<LogId> {
    match LogFrame::from_bytes(frame).ok()? {
        LogFrame::Recon {
            log,
            turn: Turn::Ask,
            ..
        } => Some(log),
        _ => None,
    }
}
