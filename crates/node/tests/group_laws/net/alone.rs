//! Accounts, and one node over any store without a net around it.

use std::sync::Arc;

use overlane_core::identity::{Account, Delegatee, Delegation, Life, Signer, VerifyContext};
use overlane_core::replay::Now;
use overlane_core::seal::{SealingKey, SealingSecret};
use overlane_node::peer::groups::{Ask, AskId, Effect, GroupTicket, Groups, Own, Reply};
use overlane_relay::log::testkit::MemoryLogs;
use overlane_relay::log::{EnvelopeId, Frame, LogStore};
use zeroize::Zeroizing;

use super::{NETWORK, START_MS};

const DELEGATION_MS: u64 = 400 * 24 * 3_600 * 1_000;

/// The kinds of frames in a message.
pub(crate) fn frames_in(body: &[u8]) -> Vec<&'static str> {
    use overlane_core::wire::cbor::Reader;
    let mut reader = Reader::new(body);
    let (Ok(2), Ok(0), Ok(count)) = (reader.array(), reader.u8(), reader.array()) else {
        return Vec::new();
    };
    let mut kinds = Vec::new();
    for _ in 0..count {
        kinds.push(match Frame::from_bytes(reader.bytes().unwrap()).unwrap() {
            Frame::Send { .. } => "send",
            Frame::SendAck { .. } => "ack",
            Frame::Push { .. } => "push",
            Frame::Recon { .. } => "recon",
            Frame::Refuse { .. } => "refuse",
            Frame::Named { .. } => "named",
        });
    }
    kinds
}

pub(crate) fn account(number: u8) -> Account {
    Account::ed25519(Zeroizing::new([number + 1; 32])).unwrap()
}

pub(super) fn signer(account: &Account, number: u8) -> Arc<Signer> {
    let delegatee = Delegatee::from_seed(Zeroizing::new([number + 101; 32]));
    let life = Life {
        issued_ms: START_MS,
        ttl_ms: DELEGATION_MS.min(overlane_core::identity::DELEGATION_TTL_MAX_MS),
    };
    let context = VerifyContext {
        network: NETWORK,
        now_ms: START_MS,
    };
    let delegation = Delegation::issue(account, &delegatee, NETWORK, life).unwrap();
    let delegation = delegation.verify(&context).unwrap();
    Arc::new(Signer::new(delegatee, delegation).unwrap())
}

/// The groups of one node over any store, without a net around it.
pub(crate) fn over<S: LogStore>(store: S, number: u8) -> Groups<S> {
    let own = Own {
        signer: signer(&account(number), number),
        secret: SealingSecret::of_account(&account(number)),
        seed: Zeroizing::new([number + 1; 32]),
    };
    Groups::open(store, own, at(0)).expect("it opens")
}

pub(crate) fn at(ms: u64) -> Now {
    Now {
        wall_ms: START_MS + ms,
        steady_ms: ms,
    }
}

/// Makes a group at `owner` with the account of this number as its other member.
pub(crate) fn group_of_two<S: LogStore>(owner: &mut Groups<S>, member: u8) -> GroupTicket {
    let hosts = Vec::new();
    let name = "team".to_owned();
    owner.ask(AskId(0), Ask::Create { name, hosts }, at(0));
    let Reply::Group(view) = answer(owner) else {
        panic!("it is made")
    };
    let member = account(member);
    let invite = Ask::Invite {
        group: view.group,
        account: member.did(),
        member: SealingKey::of_account(member.key()),
        hosts: false,
    };
    owner.ask(AskId(1), invite, at(0));
    match answer(owner) {
        Reply::Ticket(ticket) => *ticket,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn answer<S: LogStore>(groups: &mut Groups<S>) -> Reply {
    groups.flush(at(0));
    let mut effects = std::iter::from_fn(|| groups.poll_effect());
    let answer = effects.find_map(|effect| match effect {
        Effect::Answer(_, answer) => Some(answer.expect("it is done")),
        _ => None,
    });
    answer.expect("it is answered")
}

/// Has `author` join and post, one post after another, with `host` on the other side; the names of
/// those that the host acknowledged.
pub(crate) fn acknowledged<S: LogStore>(
    author: &mut Groups<MemoryLogs>,
    host: &mut Groups<S>,
    ticket: &GroupTicket,
    posts: u64,
) -> Vec<EnvelopeId> {
    let dids = [account(1).did(), account(0).did()];
    let mut acknowledged = Vec::new();
    let (ticket, group) = (ticket.clone(), ticket.group);
    author.ask(AskId(0), Ask::Join { ticket, name: None }, at(0));
    for number in 0..=posts {
        let now = at(100 * number);
        if number > 0 {
            let bodies = vec![number.to_be_bytes().to_vec()];
            author.ask(AskId(number), Ask::Post { group, bodies }, now);
        }
        loop {
            author.handle_timeout(now);
            host.handle_timeout(now);
            author.flush(now);
            let mut said = Vec::new();
            while let Some(effect) = author.poll_effect() {
                if let Effect::Say { to, data } = effect {
                    author.handle_said(to, Ok(()), now);
                    said.push(data);
                }
            }
            for data in &said {
                host.handle_message(dids[0], data.message().body(), now);
            }
            host.flush(now);
            let mut heard = Vec::new();
            while let Some(effect) = host.poll_effect() {
                if let Effect::Say { to, data } = effect {
                    host.handle_said(to, Ok(()), now);
                    heard.push(data);
                }
            }
            for data in &heard {
                acknowledged.extend(acks_in(data.message().body()));
                author.handle_message(dids[1], data.message().body(), now);
            }
            if said.is_empty() && heard.is_empty() {
                break;
            }
        }
    }
    acknowledged
}

fn acks_in(body: &[u8]) -> Vec<EnvelopeId> {
    use overlane_core::wire::cbor::Reader;
    let mut reader = Reader::new(body);
    let (Ok(2), Ok(0), Ok(count)) = (reader.array(), reader.u8(), reader.array()) else {
        return Vec::new();
    };
    let frames = (0..count).map(|_| reader.bytes().unwrap());
    let acks = frames.filter_map(|frame| match Frame::from_bytes(frame).unwrap() {
        Frame::SendAck { id, .. } => Some(id),
        _ => None,
    });
    acks.collect()
}
