//! A simulated node: what outlives its process, and its process.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use overlane_core::identity::{
    Account, AccountKey, DELEGATION_TTL_DEFAULT_MS, Delegatee, Delegation, Life, Signer,
    VerifyContext,
};
use overlane_core::replay::Batch;
use overlane_core::seal::SealingSecret;
use overlane_core::signal::OfferGuard;
use overlane_core::store::Scan;
use overlane_core::{Class, Did, NetworkId};
use overlane_storage_native::disk::Seeded;
use zeroize::Zeroizing;

use super::clock::{Clock, SLOWEST};
use super::courier::RingDial;
use super::groups::GroupRoom;
use super::mailbox::{LogsDisk, Mailroom};
use super::refs::{Offered, RefsRoom};
use super::store::SimStore;
use crate::link::config::{HANDSHAKES_DEFAULT_MAX, PEERS_DEFAULT_MAX};
use crate::link::registry::{Handle, Registry};
use crate::link::{DownReason, LinkId};
use crate::peer::{AskId, Peer, PlaceId, SendId, VerifyJob, VerifyTicket};
use crate::runtime::{Backoff, VERIFY_OUTSTANDING_MAX};

/// The network of every simulation.
pub(super) const NETWORK: NetworkId = NetworkId(7);

/// One node.
#[derive(Debug)]
pub(super) struct SimNode {
    pub(super) number: usize,
    pub(super) did: Did,
    account: Account,
    pub(super) clock: Clock,
    pub(super) store: SimStore,
    pub(super) mail: LogsDisk,
    pub(super) group_disk: LogsDisk,
    pub(super) refs_disk: LogsDisk,
    /// What its application shares.
    pub(super) offered: Vec<Offered>,
    /// How often it was started.
    pub(super) life: u32,
    /// `None` while it is down.
    pub(super) running: Option<Running>,
    /// When it went down last.
    pub(super) down_since_ms: Option<u64>,
    /// The nodes it keeps a link to.
    pub(super) wanted: BTreeMap<usize, Wanted>,
    /// What its last life's store held when it started.
    pub(super) last_scan: Option<Scan>,
    /// Until when its application takes nothing.
    pub(super) idle_until_ms: u64,
    /// Until when its workers, its disk and its application do nothing.
    pub(super) stalled_until_ms: u64,
    /// Its power fails while it next writes to its store.
    pub(super) doomed: bool,
    /// What it sent last, by destination: what an application offers again that is not sure.
    pub(super) recent: BTreeMap<Did, VecDeque<Bytes>>,
    /// Its store failed in this life.
    pub(super) store_failed: bool,
    pub(super) next_number: u64,
    /// When it last had nothing on its way.
    pub(super) settled_ms: u64,
}

/// A node that another keeps a link to.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) backoff: Backoff,
    /// A dial is under way, or will be.
    pub(super) dialling: bool,
}

/// A node's process.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) peer: Peer,
    pub(super) signer: Arc<Signer>,
    pub(super) registry: Registry<SimHandle>,
    pub(super) guard: OfferGuard,
    /// Which end of which simulated link each of its links is.
    pub(super) links: BTreeMap<LinkId, EndId>,
    /// Who is or was at the other end of each of its links of this life.
    pub(super) far: BTreeMap<LinkId, usize>,
    pub(super) jobs: BTreeMap<VerifyTicket, VerifyJob>,
    /// Frames that came and wait to be read until fewer checks are out: those of one event of a session.
    pub(super) came: VecDeque<(LinkId, Class, Bytes)>,
    /// Ends of its links have events that it did not take, as too many checks are out.
    pub(super) is_full: bool,
    /// Batches on their way to the store: one, unless a mutant releases early.
    pub(super) writing: VecDeque<Batch>,
    /// Dispatched messages that the application has not taken.
    pub(super) waiting: [VecDeque<PlaceId>; Class::ALL.len()],
    /// When it is next woken, if it is.
    pub(super) wake_ms: Option<u64>,
    /// Stops in order: no new work, and an end once its links are down.
    pub(super) leaving: bool,
    pub(super) next_send: u64,
    pub(super) asked: BTreeMap<SendId, Asked>,
    /// Its keeper of mail, if it has one.
    pub(super) mail: Option<Mailroom>,
    /// Its keeper of groups, if it has one.
    pub(super) groups: Option<GroupRoom>,
    /// Its store of references, if it has one, and what its application does with them.
    pub(super) refs: Option<RefsRoom>,
    /// Offers on their way by the ring.
    pub(super) dials: BTreeMap<AskId, RingDial>,
    pub(super) next_ask: u64,
    /// Until when it takes nothing of what it is sent, as a hostile node, and what it so kept back.
    pub(super) mute_until_ms: u64,
    pub(super) withheld: Vec<(LinkId, Class)>,
    /// Ends of links whose session the registry ended.
    pub(super) ended: Ended,
}

impl Running {
    /// Whether as many checks are out as may be.
    pub(super) fn is_checking_most(&self) -> bool {
        self.jobs.len() >= VERIFY_OUTSTANDING_MAX
    }

    /// Whether it takes no event of a session: too many checks are out, or what came waits for them.
    pub(super) fn reads_nothing(&self) -> bool {
        self.is_checking_most() || !self.came.is_empty()
    }
}

/// What a send was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) to: usize,
    pub(super) again: bool,
    /// How often the way was congested for what it is sent in place of.
    pub(super) congested: u8,
}

/// One end of a simulated link.
pub(super) type EndId = (usize, usize);

type Ended = Rc<RefCell<Vec<(EndId, bool, DownReason)>>>;

/// A link as a node's registry holds it.
#[derive(Debug, Clone)]
pub(super) struct SimHandle {
    end: EndId,
    ended: Ended,
}

impl SimHandle {
    pub(super) fn new(end: EndId, ended: &Ended) -> Self {
        Self {
            end,
            ended: Rc::clone(ended),
        }
    }
}

impl Handle for SimHandle {
    fn end(&self, reason: DownReason) {
        self.ended.borrow_mut().push((self.end, false, reason));
    }

    fn cut(&self, reason: DownReason) {
        self.ended.borrow_mut().push((self.end, true, reason));
    }
}

impl SimNode {
    /// A node that was never started, with a disk that is `forgetful` or not; `None` for a seed that makes no
    /// account.
    pub(super) fn new(number: usize, forgetful: bool, chance: &mut Seeded) -> Option<Self> {
        let account = Account::ed25519(seed_of(chance)).ok()?;
        // Two honest clocks differ by the allowed skew at most.
        let half_skew_ms = overlane_core::identity::CLOCK_SKEW_MS / 2;
        let ahead_ms = chance.below(2 * half_skew_ms + 1);
        let ahead_ms = i64::try_from(ahead_ms).ok()? - i64::try_from(half_skew_ms).ok()?;
        Some(Self {
            number,
            did: account.did(),
            account,
            clock: Clock {
                started_ms: 0,
                rate_ppm: chance.below(2 * SLOWEST + 1),
                ahead_ms,
                wrong_by_ms: 0,
            },
            store: SimStore::new(forgetful),
            mail: LogsDisk::default(),
            group_disk: LogsDisk::default(),
            refs_disk: LogsDisk::default(),
            offered: Vec::new(),
            life: 0,
            running: None,
            down_since_ms: None,
            wanted: BTreeMap::new(),
            last_scan: None,
            idle_until_ms: 0,
            stalled_until_ms: 0,
            doomed: false,
            recent: BTreeMap::new(),
            store_failed: false,
            next_number: 0,
            settled_ms: 0,
        })
    }

    /// Starts the process over what its store holds.
    pub(super) fn start(&mut self, scan: Scan, at_ms: u64, chance: &mut Seeded) -> Option<()> {
        self.clock.started_ms = at_ms;
        let now = self.clock.now(at_ms);
        let signer = Arc::new(self.signer(now.wall_ms, chance)?);
        let peer = Peer::new(Arc::clone(&signer), Some(scan), now);
        self.life += 1;
        self.store_failed = false;
        self.doomed = false;
        for wanted in self.wanted.values_mut() {
            *wanted = Wanted::default();
        }
        self.running = Some(Running {
            peer,
            signer,
            registry: Registry::new(PEERS_DEFAULT_MAX, HANDSHAKES_DEFAULT_MAX),
            guard: OfferGuard::new(),
            links: BTreeMap::new(),
            far: BTreeMap::new(),
            jobs: BTreeMap::new(),
            came: VecDeque::new(),
            is_full: false,
            writing: VecDeque::new(),
            waiting: Default::default(),
            wake_ms: None,
            leaving: false,
            next_send: 0,
            asked: BTreeMap::new(),
            mail: None,
            groups: None,
            refs: None,
            dials: BTreeMap::new(),
            next_ask: 0,
            mute_until_ms: 0,
            withheld: Vec::new(),
            ended: Rc::default(),
        });
        Some(())
    }

    /// What opens what is sealed to its account.
    pub(super) fn sealing(&self) -> Option<SealingSecret> {
        SealingSecret::of_account(&self.account)
    }

    /// Its account's public key.
    pub(super) fn key(&self) -> AccountKey {
        self.account.key().clone()
    }

    /// Draws another delegatee, as a node does whose delegation is due.
    pub(super) fn rotate(&mut self, at_ms: u64, chance: &mut Seeded) -> Option<()> {
        let now_ms = self.clock.now(at_ms).wall_ms;
        let life = self.running.as_ref()?.signer.delegation().life();
        if !crate::runtime::is_rotation_due(life, now_ms) {
            return None;
        }
        let signer = Arc::new(self.signer(now_ms, chance)?);
        let running = self.running.as_mut()?;
        running.signer = signer;
        running
            .peer
            .rotate(Arc::clone(&running.signer))
            .then_some(())
    }

    /// Its account's signer under another delegatee.
    pub(super) fn signer(&self, now_ms: u64, chance: &mut Seeded) -> Option<Signer> {
        let delegatee = Delegatee::from_seed(seed_of(chance));
        delegated(&self.account, delegatee, NETWORK, now_ms)
    }

    /// The nodes that it is linked to now.
    pub(super) fn linked(&self) -> BTreeSet<Did> {
        let running = self.running.iter();
        let links = running.flat_map(|running| running.peer.links());
        links.map(|(_, peer)| peer).collect()
    }
}

/// A signer for this account, from now on.
pub(super) fn delegated(
    account: &Account,
    delegatee: Delegatee,
    network: NetworkId,
    now_ms: u64,
) -> Option<Signer> {
    let life = Life {
        issued_ms: now_ms,
        ttl_ms: DELEGATION_TTL_DEFAULT_MS,
    };
    let delegation = Delegation::issue(account, &delegatee, network, life).ok()?;
    let delegation = delegation.verify(&VerifyContext { network, now_ms }).ok()?;
    Signer::new(delegatee, delegation).ok()
}

/// Thirty-two drawn bytes.
pub(super) fn seed_of(chance: &mut Seeded) -> Zeroizing<[u8; 32]> {
    let mut seed = Zeroizing::new([0; 32]);
    for bytes in seed.chunks_mut(8) {
        bytes.copy_from_slice(&chance.next_u64().to_le_bytes());
    }
    seed
}
