//! What several of the files here begin with or look at.

use std::collections::BTreeSet;

use overlane_core::group::GroupId;
use overlane_core::wire::cbor::Writer;
use overlane_node::peer::groups::{Ask, EVERY_MS, GroupTicket, GroupView, GroupsError, Reply};
use overlane_recon::{ItemSet, Limits};
use overlane_relay::log::{Frame, LogId, Space, Turn};

use crate::net::{NETWORK, Net};

pub(crate) fn posted(answer: Option<Result<Reply, GroupsError>>) -> Vec<Option<u64>> {
    match answer {
        Some(Ok(Reply::Posted(posted))) => posted.iter().map(|it| it.seq).collect(),
        other => panic!("{other:?}"),
    }
}

/// `[0, [frame]]`, as a node that speaks of logs says it.
pub(crate) fn frames(frames: &[&[u8]]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.array(2).uint(0).array(frames.len());
    for frame in frames {
        writer.bytes(frame);
    }
    writer.into_bytes()
}

pub(crate) fn say(net: &mut Net, from: usize, to: usize, body: &[u8]) {
    let (did, now) = (net.nodes[from].did, net.now());
    net.nodes[to].given += 1;
    net.groups(to).handle_message(did, body, now);
    net.flush(to);
}

pub(crate) fn ask_everything(log: LogId) -> Vec<u8> {
    let Ok(payload) = overlane_recon::initiate(&mut ItemSet::new(), &Limits::default());
    let frame = Frame::Recon {
        log,
        space: Space::Numbered,
        turn: Turn::Ask,
        payload: &payload,
    };
    frames(&[&frame.to_bytes()])
}

/// Who is on the roster, as its owner has it.
pub(crate) fn listed(net: &mut Net, owner: usize) -> usize {
    let Ok(Reply::Groups(views)) = net.asked(owner, Ask::List) else {
        panic!("it has a group")
    };
    views[0].members.len()
}

pub(crate) fn view(net: &mut Net, node: usize) -> GroupView {
    match net.asked(node, Ask::List) {
        Ok(Reply::Groups(mut views)) => views.remove(0),
        other => panic!("{other:?}"),
    }
}

/// Node 0 owns a group and hosts it, and so does node 1, which reads nothing. The others are members; the last follows
/// node 1, and the rest node 0.
pub(crate) fn two_hosts(net: &mut Net) -> GroupId {
    let group = net.create(0, &[1]);
    let hosts = vec![net.nodes[0].did, net.nodes[1].did];
    let ticket = GroupTicket {
        network: NETWORK,
        group,
        owner: net.nodes[0].did,
        revision: 1,
        hosts,
        name: "team".into(),
        url: None,
    };
    let joined = net.join(1, ticket);
    assert!(joined.host && !joined.member, "{joined:?}");
    let last = net.nodes.len() - 1;
    let tickets: Vec<_> = (2..=last).map(|node| net.invite(0, group, node)).collect();
    net.run_for(2 * EVERY_MS);
    for (node, ticket) in (2..=last).zip(tickets) {
        let other = usize::from(node != last);
        net.unlink(other, node);
        let follows = net.join(node, ticket).follows;
        assert_eq!(follows, Some(net.nodes[1 - other].did));
        net.link(other, node);
    }
    group
}

/// What a node reads, each once, or what is wrong with it.
pub(crate) fn said(net: &mut Net, node: usize, group: GroupId) -> Result<BTreeSet<String>, String> {
    let posts = net.read(node, group, false);
    let mut bodies = BTreeSet::new();
    for post in posts {
        let body = post
            .body
            .ok_or(format!("node {node} cannot read {}", post.seq))?;
        let body = String::from_utf8(body).unwrap();
        if !bodies.insert(body.clone()) {
            return Err(format!("node {node} has {body} twice"));
        }
    }
    Ok(bodies)
}

pub(crate) fn expect(
    net: &mut Net,
    group: GroupId,
    nodes: &[usize],
    all: &[String],
) -> Result<(), String> {
    let all: BTreeSet<String> = all.iter().cloned().collect();
    for node in nodes {
        let has = said(net, *node, group)?;
        if has != all {
            let lacks: Vec<_> = all.difference(&has).collect();
            return Err(format!("node {node} lacks {lacks:?}"));
        }
        let waiting = view(net, *node).waiting;
        if waiting > 0 {
            return Err(format!("{waiting} posts of node {node} wait"));
        }
    }
    Ok(())
}

pub(crate) fn bytes(net: &mut Net, node: usize, group: GroupId) -> u64 {
    net.groups(node)
        .logs()
        .size(&LogId::group(group))
        .unwrap()
        .1
}
