//! The ring: hops in a simulated ring of 1,024 nodes, 10 % joining at once, what passing a message on
//! costs beside verifying it, and what a node holds of a peer. `cargo bench -p overlane-benches --bench ring`.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a measuring program stops by panicking"
)]

#[allow(
    dead_code,
    reason = "the world of the tests has more than is measured here"
)]
#[path = "../../crates/core/tests/ring/world.rs"]
mod world;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use allocation_counter::measure;

use overlane_core::Did;
use overlane_core::identity::{
    Account, DELEGATION_TTL_DEFAULT_MS, Delegatee, Delegation, Life, Signer, VerifyContext,
};
use overlane_core::replay::Now;
use overlane_core::store::Scan;
use overlane_core::transaction::{
    Draft, HOP_BUDGET_MAX, Message, Namespace, Payload, RelayFields, Transaction,
};
use overlane_core::{NetworkId, TxId};
use overlane_node::link::LinkId;
use overlane_node::peer::Peer;
use world::{Chance, World};
use zeroize::Zeroizing;

const NODES: usize = 1_024;
const PAIRS: usize = 20_000;
const NOW_MS: u64 = 1_900_000_000_000;

fn main() {
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    forwarding();
    memory();
    simulated_ring();
}

fn simulated_ring() {
    let started = Instant::now();
    let mut world = World::new(7);
    let mut dids: Vec<Did> = Vec::new();
    for _ in 0..NODES {
        let did = world.chance.did();
        let contact = (!dids.is_empty()).then(|| dids[pick(&mut world, dids.len())]);
        world.join(did, contact);
        dids.push(did);
        world.run(250);
    }
    let settled = world.settle(1_800_000);
    println!("{NODES} nodes joined one by one; settled {settled:?} ms after the last");
    world.run(600_000);
    hops(&mut world, "settled");
    let links: usize = world.nodes.values().map(|ring| ring.linked().len()).sum();
    let most = world.nodes.values().map(|ring| ring.linked().len()).max();
    println!(
        "links a node: {:.1}, most {most:?}",
        links as f64 / NODES as f64
    );

    let before = world.sent;
    world.run(900_000);
    let messages = (world.sent.messages - before.messages) as f64;
    println!(
        "at rest: {:.1} control messages a node a minute",
        messages / NODES as f64 / 15.0
    );

    for _ in 0..NODES / 10 {
        let did = world.chance.did();
        let contact = dids[pick(&mut world, dids.len())];
        world.join(did, Some(contact));
    }
    let settled = world.settle(1_800_000);
    println!("{} more at once: settled after {settled:?} ms", NODES / 10);
    world.run(600_000);
    hops(&mut world, "after the joins");
    println!("simulated in {:.1} s", started.elapsed().as_secs_f64());
    let links: usize = world.nodes.values().map(|ring| ring.linked().len()).sum();
    let nodes = world.nodes.len();
    let held = -measure(|| drop(world.nodes)).bytes_current as f64;
    println!(
        "memory: {:.0} B a node for its part of the ring, of {:.1} known peers: {:.0} B each",
        held / nodes as f64,
        links as f64 / nodes as f64,
        held / links as f64
    );
}

/// What a node's protocol holds of a peer that it is linked to, beside the link itself.
fn memory() {
    const PEERS: u32 = 32;
    let now = Now {
        wall_ms: NOW_MS,
        steady_ms: 0,
    };
    let own = Arc::new(signer(9));
    let mut chance = Chance(7);
    let mut held = |peers: u32| {
        let mut peer = Peer::new(Arc::clone(&own), Some(Scan::default()), now);
        peer.join_ring([3; 32], now);
        for number in 0..peers {
            let link = LinkId(u64::from(number));
            peer.handle_link_up(link, chance.did(), None, now);
            while peer.poll_effect().is_some() {}
        }
        -measure(|| drop(peer)).bytes_current
    };
    let none = held(0);
    println!(
        "memory: {} B for each of {PEERS} peers linked, beside the link; {none} B with none",
        (held(PEERS) - none) / i64::from(PEERS)
    );
}

fn pick(world: &mut World, bound: usize) -> usize {
    usize::try_from(world.chance.next() % bound as u64).unwrap()
}

fn hops(world: &mut World, when: &str) {
    let all: Vec<Did> = world.nodes.keys().copied().collect();
    let (mut sum, mut most, mut lost) = (0_u64, 0, 0);
    for _ in 0..PAIRS {
        let (from, to) = (pick(world, all.len()), pick(world, all.len()));
        match world.hops(all[from], all[to]) {
            Some(hops) => {
                sum += u64::from(hops);
                most = most.max(hops);
            }
            None => lost += 1,
        }
    }
    let mean = sum as f64 / PAIRS as f64;
    let bound = 0.5 * (all.len() as f64).log2() + 1.0;
    println!(
        "{when}: mean hops {mean:.2} (bound {bound:.2}), most {most}, not delivered {lost} of {PAIRS}"
    );
}

fn signer(number: u8) -> Signer {
    let account = Account::ed25519(Zeroizing::new([number; 32])).unwrap();
    let delegatee = Delegatee::from_seed(Zeroizing::new([number + 100; 32]));
    let life = Life {
        issued_ms: NOW_MS,
        ttl_ms: DELEGATION_TTL_DEFAULT_MS,
    };
    let network = NetworkId(7);
    let context = VerifyContext {
        network,
        now_ms: NOW_MS,
    };
    let delegation = Delegation::issue(&account, &delegatee, network, life).unwrap();
    Signer::new(delegatee, delegation.verify(&context).unwrap()).unwrap()
}

/// Processor time of this thread for one call, over some.
fn cpu_us(call: &dyn Fn()) -> f64 {
    const CALLS: u32 = 100;
    let now = || {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        used.tv_sec as f64 * 1e6 + used.tv_nsec as f64 / 1e3
    };
    let began = now();
    (0..CALLS).for_each(|_| call());
    (now() - began) / f64::from(CALLS)
}

/// Beside verification, passing on is a signature and the writing of a frame.
fn forwarding() {
    const TURNS: u32 = 40;
    let (origin, hop, relay) = (signer(1), signer(2), signer(3));
    let context = VerifyContext {
        network: NetworkId(7),
        now_ms: NOW_MS,
    };
    let life = Life {
        issued_ms: NOW_MS,
        ttl_ms: 600_000,
    };
    for bytes in [100, 1_024, 16_384] {
        let body = vec![7; bytes];
        let draft = Draft {
            destination: signer(4).did(),
            tx_id: TxId([1; 16]),
            sequence: 1,
            message: Message::Application {
                namespace: Namespace::new("bench").unwrap(),
                body: &body,
            },
            life,
        };
        let fields = RelayFields {
            hop_budget: HOP_BUDGET_MAX,
            ..RelayFields::direct(relay.did())
        };
        let transaction = Transaction::sign(&draft, &origin).unwrap();
        let payload = Payload::carry(transaction, fields, &hop, life).unwrap();
        let frame = payload.to_frame(|_| false);
        let known = payload.verify(&context).unwrap();
        let (origin_known, hop_known) = (known.origin_delegation(), known.hop_delegation());
        let read = || {
            let mut payload = Payload::from_frame(&frame).unwrap();
            payload
                .resolve(|named| {
                    [origin_known, hop_known]
                        .into_iter()
                        .find(|of| of.digest() == named.digest())
                        .cloned()
                })
                .unwrap();
            payload.verify(&context).unwrap()
        };
        let verify = || drop(black_box(read()));
        let forward = || {
            let transaction = read().into_payload().into_transaction();
            let payload = Payload::carry(transaction, fields, &relay, life).unwrap();
            black_box(payload.to_frame(|_| false));
        };
        // In turns, and the least of each: what else the machine does is in neither.
        let (mut verified, mut forwarded) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..TURNS {
            verified = verified.min(cpu_us(&verify));
            forwarded = forwarded.min(cpu_us(&forward));
        }
        println!(
            "{bytes} B: verification {verified:.1} us, verification and passing on {forwarded:.1} us: {:.2} times \
             (bound 1.3)",
            forwarded / verified
        );
    }
}
