//! The rules of inboxes: who holds which, what mail is, and what was removed.

use super::bounds::{
    ALL_BYTES, CHAIN, INBOX_MAILS, INBOX_MAILS_MAX, INBOXES_MAX, REMOVALS_KEPT, SLOT_BYTES,
    retention,
};
use crate::log::{Access, EnvelopeId, Judged, LogId, Refusal, Retention, Rules};
use overlane_core::identity::{Verified, VerifyContext};
use overlane_core::mail::{HeldMail, Mail, MailError, Removal};
use overlane_core::{Coded, Did, Fault, NetworkId, TransactionDigest};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Why a holder does not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InboxRefusal {
    /// This node is not in the chain of that inbox, by its view of the ring.
    #[error("this node does not hold the inbox of {owner}")]
    NotAHolder {
        /// The inbox's owner.
        owner: Did,
    },
    /// The sender's proof does not live by this node's clock.
    #[error("the sender's proof ended at {last_ms}, and it is {now_ms} here: sign it again")]
    NotFresh {
        /// The proof's last instant.
        last_ms: u64,
        /// This node's time.
        now_ms: u64,
    },
    /// The mail was taken and removed before.
    #[error("{digest} was taken by its destination, which removed it")]
    Removed {
        /// The transaction.
        digest: TransactionDigest,
    },
    /// Too many inboxes.
    #[error("{INBOXES_MAX} inboxes are held here, and this would be another")]
    InboxesFull,
    /// What mail is not.
    #[error(transparent)]
    Mail(#[from] MailError),
    /// What the log of the inbox refuses.
    #[error(transparent)]
    Log(#[from] Refusal),
}

impl Coded for InboxRefusal {
    fn code(&self) -> &'static str {
        match self {
            Self::NotAHolder { .. } => "inbox/not_a_holder",
            Self::NotFresh { .. } => "inbox/not_fresh",
            Self::Removed { .. } => "inbox/removed",
            Self::InboxesFull => "inbox/inboxes_full",
            Self::Mail(error) => error.code(),
            Self::Log(refusal) => refusal.code(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Mail(error) => error.fault(),
            Self::Log(refusal) => refusal.fault(),
            _ => Fault::RefusedByBound,
        }
    }
}

/// One inbox this node knows of.
#[derive(Debug, Clone)]
pub(super) struct Inbox {
    pub(super) owner: Did,
    /// Who holds it, by this node's view of the ring.
    pub(super) chain: BTreeSet<Did>,
    /// Who held it until not long ago, and hands on.
    pub(super) former: BTreeSet<Did>,
    /// Removals by their owner, by the instant they end.
    pub(super) removals: BTreeMap<(u64, [u8; 32]), Verified<Removal>>,
}

/// Says whether mail that another holder hands on is held here: whose it is, who brings it, and its bytes.
pub type MayHold = Box<dyn FnMut(Did, Did, usize) -> Result<(), Refusal> + Send>;

/// The inboxes this node holds, or held and has not handed on.
pub struct InboxRules {
    pub(super) network: NetworkId,
    pub(super) own: Did,
    pub(super) inboxes: BTreeMap<LogId, Inbox>,
    pub(super) may_hold: Option<MayHold>,
    retention: Retention,
}

impl fmt::Debug for InboxRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboxRules")
            .field("own", &self.own)
            .field("inboxes", &self.inboxes)
            .field("asks", &self.may_hold.is_some())
            .finish_non_exhaustive()
    }
}

impl InboxRules {
    pub(super) fn new(network: NetworkId, own: Did) -> Self {
        Self {
            network,
            own,
            inboxes: BTreeMap::new(),
            may_hold: None,
            retention: retention(INBOX_MAILS),
        }
    }

    /// Keeps at most so many mails in an inbox from now on.
    pub(super) fn set_mails(&mut self, mails: u64) {
        self.retention = retention(mails.clamp(1, INBOX_MAILS_MAX));
    }

    pub(super) fn open(&mut self, owner: Did) -> Result<LogId, InboxRefusal> {
        let log = LogId::inbox(&owner);
        if !self.inboxes.contains_key(&log) {
            if self.inboxes.len() >= INBOXES_MAX {
                return Err(InboxRefusal::InboxesFull);
            }
            let inbox = Inbox {
                owner,
                chain: BTreeSet::new(),
                former: BTreeSet::new(),
                removals: BTreeMap::new(),
            };
            self.inboxes.insert(log, inbox);
        }
        Ok(log)
    }

    pub(super) fn set_chain(
        &mut self,
        log: &LogId,
        chain: impl IntoIterator<Item = Did>,
        former: impl IntoIterator<Item = Did>,
    ) {
        if let Some(inbox) = self.inboxes.get_mut(log) {
            let chain = chain.into_iter().take(CHAIN).collect();
            let before = std::mem::replace(&mut inbox.chain, chain);
            let left = before.into_iter().filter(|it| !inbox.chain.contains(it));
            let mut former: BTreeSet<Did> = former.into_iter().take(CHAIN).chain(left).collect();
            if former.is_empty() {
                former = std::mem::take(&mut inbox.former);
            }
            inbox.former = former;
        }
    }

    pub(super) fn holds(&self, log: &LogId) -> bool {
        let inbox = self.inboxes.get(log);
        inbox.is_some_and(|it| it.chain.contains(&self.own))
    }

    /// The removal that took this mail.
    pub(super) fn removal_of(&self, log: &LogId, id: &EnvelopeId) -> Option<&Verified<Removal>> {
        let inbox = self.inboxes.get(log)?;
        let digest = TransactionDigest(id.0);
        let names = |it: &&Verified<Removal>| it.subject().digests().binary_search(&digest).is_ok();
        inbox.removals.values().find(names)
    }

    /// Remembers a removal. Gives those that it made room by forgetting.
    pub(super) fn remember(
        &mut self,
        log: &LogId,
        address: [u8; 32],
        removal: Verified<Removal>,
    ) -> Vec<[u8; 32]> {
        let Some(inbox) = self.inboxes.get_mut(log) else {
            return Vec::new();
        };
        inbox
            .removals
            .insert((removal.life().last_ms(), address), removal);
        let mut forgotten = Vec::new();
        while inbox.removals.len() > REMOVALS_KEPT {
            forgotten.extend(inbox.removals.pop_first().map(|it| it.0.1));
        }
        forgotten
    }

    /// Forgets the removals that have ended, and gives their addresses.
    pub(super) fn end_removals(&mut self, log: &LogId, now_ms: u64) -> Vec<[u8; 32]> {
        let Some(inbox) = self.inboxes.get_mut(log) else {
            return Vec::new();
        };
        let ongoing = inbox.removals.split_off(&(now_ms, [0; 32]));
        let ended = std::mem::replace(&mut inbox.removals, ongoing);
        ended.into_keys().map(|(_, address)| address).collect()
    }

    /// Forgets an inbox, unless removals of it are remembered. Whether it did.
    pub(super) fn forget(&mut self, log: &LogId) -> bool {
        let over = self
            .inboxes
            .get(log)
            .is_some_and(|it| it.removals.is_empty());
        over && self.inboxes.remove(log).is_some()
    }

    /// Checks mail that another holder hands on, as of its hold instant.
    pub(super) fn read(
        &self,
        log: &LogId,
        bytes: &[u8],
        now_ms: u64,
    ) -> Result<Mail, InboxRefusal> {
        let inbox = self.inboxes.get(log);
        let network = self.network;
        let mail = HeldMail::from_bytes(bytes).map_err(MailError::from)?;
        let found = mail.destination();
        let owner = inbox.map_or(found, |it| it.owner);
        // One that has left the chain hands on, and takes nothing back.
        if !self.holds(log) {
            return Err(InboxRefusal::NotAHolder { owner });
        }
        if found != owner {
            let wanted = owner;
            return Err(MailError::WrongDestination { wanted, found }.into());
        }
        let mail = mail.verify(&VerifyContext { network, now_ms })?;
        let (digest, id) = (mail.digest(), overlane_recon::Id(mail.digest().0));
        if self.removal_of(log, &id).is_some() {
            return Err(InboxRefusal::Removed { digest });
        }
        Ok(mail)
    }
}

impl Rules for InboxRules {
    fn access(&self, log: &LogId, peer: &Did) -> Access {
        match self.inboxes.get(log) {
            Some(inbox) if inbox.owner == *peer => Access::Member,
            Some(inbox) if inbox.chain.contains(peer) || inbox.former.contains(peer) => {
                Access::Holder
            }
            _ => Access::None,
        }
    }

    fn retention(&self, _: &LogId) -> Retention {
        self.retention
    }

    fn name(&self, envelope: &[u8]) -> EnvelopeId {
        claimed_name(envelope)
    }

    fn slot_bytes(&self) -> u64 {
        SLOT_BYTES
    }

    fn all_bytes(&self) -> u64 {
        ALL_BYTES
    }

    fn judge(
        &mut self,
        log: &LogId,
        envelope: &[u8],
        from: &Did,
        now_ms: u64,
    ) -> Result<Judged, Refusal> {
        let mail = self.read(log, envelope, now_ms);
        let mail = mail.map_err(|error| Refusal::rules(&error))?;
        if let Some(may_hold) = &mut self.may_hold {
            may_hold(mail.destination(), *from, envelope.len())?;
        }
        Ok(judged(&mail))
    }
}

/// The name that mail claims, before anything of it was checked.
pub(super) fn claimed_name(envelope: &[u8]) -> EnvelopeId {
    match HeldMail::from_bytes(envelope) {
        Ok(mail) => crate::log::mail_id(mail.hold().digest()),
        Err(_) => crate::log::address(envelope),
    }
}

/// A mail as its log knows it.
pub(super) fn judged(mail: &Mail) -> Judged {
    Judged {
        id: crate::log::mail_id(mail.digest()),
        author: mail.origin(),
        expires_ms: mail.hold_proof().until_ms(),
    }
}
