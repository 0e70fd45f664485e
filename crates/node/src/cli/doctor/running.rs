//! What a running daemon knows of itself.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use overlane_core::identity::CLOCK_SKEW_MS;
use overlane_node::api::{IceServerReport, StatusReport};
use overlane_node::link::tried::Nat;

use super::super::explain::to_do;
use super::super::output::Output;
use super::super::replay::now;
use super::stopped::ending;
use super::{Finding, Step};
use overlane_node::api::instant;

/// How long this machine may take to answer itself.
const KNOCK_WITHIN: Duration = Duration::from_secs(2);

/// A queue of admitted messages this full holds its senders back soon.
const HELD_MANY: usize = 200;

/// Stores, links, peers, neighbours, queues and what was refused.
pub(super) fn steps(status: &StatusReport, output: &Output) -> Vec<Step> {
    let mut steps = vec![delegation(status, output)];
    steps.extend(stores(status, output));
    steps.extend(listens(status));
    steps.push(links(status, output));
    steps.extend(clocks(status));
    steps.extend(ways(status, output));
    steps.extend(ice_servers(status, output));
    steps.extend(nat(status, output));
    steps.extend(peers(status, output));
    steps.push(neighbours(status, output));
    steps.push(queues(status, output));
    steps.push(refusals(status, output));
    steps
}

/// Until when what the node signs counts.
fn delegation(status: &StatusReport, output: &Output) -> Step {
    let ends_ms = status.delegation_ends_ms;
    let until = format!("until {}", instant(ends_ms));
    let tried = "ask until when what it signs counts";
    let now_ms = now().wall_ms;
    if status.renews_itself {
        let step = Step::good(
            "delegation",
            tried,
            format!("{until}, and it renews that itself"),
        );
        return match ends_ms < now_ms {
            true => {
                let next = format!("{} key rotate", output.overlane);
                step.but(Finding::Bad, "that is over: nothing it signs counts", next)
            }
            false => step,
        };
    }
    let next = format!(
        "{0} key request, then key delegate where the account's key is, then {0} key accept here",
        output.overlane
    );
    ending(
        Step::good("delegation", tried, until),
        ends_ms,
        now_ms,
        next,
    )
}

/// Whether offers come through to the node that runs, from this machine at least.
fn listens(status: &StatusReport) -> Option<Step> {
    let url = status.url.as_ref()?;
    let tried = format!("knock where it takes offers, {url}");
    let place = url.trim_start_matches("http://").to_owned();
    let connected = place.to_socket_addrs().and_then(|mut addresses| {
        let address = addresses.next().ok_or(std::io::ErrorKind::NotFound)?;
        TcpStream::connect_timeout(&address, KNOCK_WITHIN)
    });
    Some(match connected {
        Ok(_) => Step::good("signalling", tried, "it takes the connection"),
        Err(cause) => Step::good("signalling", tried, cause.to_string()).but(
            Finding::Bad,
            "nobody can dial this node, this machine included",
            "see whether a firewall of this machine stands before that port".to_owned(),
        ),
    })
}

/// The clock, compared with those of peers that answered this node's offers.
fn clocks(status: &StatusReport) -> Option<Step> {
    let skews: Vec<i64> = status
        .links
        .iter()
        .filter_map(|it| it.clock_ahead_ms)
        .collect();
    let (first, last) = (skews.iter().min()?, skews.iter().max()?);
    let (peers, tried) = (
        skews.len(),
        "compare the clock with those of the peers it dialled",
    );
    let found = format!("{peers} peers, from {first} to {last} ms ahead of it");
    Some(against(Step::good("clocks", tried, found), &skews))
}

/// Where more than half of the peers are off to one side by more than is allowed for, the clock here is wrong.
fn against(step: Step, skews: &[i64]) -> Step {
    let most = i64::try_from(CLOCK_SKEW_MS).unwrap_or(i64::MAX);
    let off = |far: &dyn Fn(i64) -> bool| skews.iter().filter(|it| far(**it)).count();
    let (behind, ahead) = (off(&|it| it > most), off(&|it| it < -most));
    let half = skews.len() / 2;
    let next = "set the clock of this machine by a time server".to_owned();
    if behind > half || ahead > half {
        let word = if behind > half { "behind" } else { "ahead" };
        let meaning = format!(
            "this machine's clock is {word}: others refuse what it signs, or it what they do"
        );
        return step.but(Finding::Bad, meaning, next);
    }
    if behind + ahead > 0 {
        let meaning = "a peer's clock is off, and this one's agrees with the others";
        return step.but(Finding::Warning, meaning, None);
    }
    step
}

fn stores(status: &StatusReport, output: &Output) -> Vec<Step> {
    let store = &status.store;
    let found = format!("{} in {}: {}", store.kind, store.path, store.state);
    let mut steps = vec![Step::good("store", "ask how the replay store is", found)];
    if store.state != "durable" {
        let cause = store.error.as_ref();
        let next = cause.and_then(|cause| to_do(&cause.error, &output.overlane));
        let cause = cause.map_or(String::new(), |cause| format!(": {}", cause.message));
        let meaning = format!("every send and every admission is refused{cause}");
        steps = vec![steps.remove(0).but(Finding::Bad, meaning, next)];
    }
    let bad = status
        .replay
        .get("unrestorable_record")
        .copied()
        .unwrap_or_default();
    if bad > 0 {
        let step = Step::good(
            "records",
            "ask for records that do not restore",
            format!("{bad}"),
        );
        let meaning = "each refuses its own stream, and no other";
        let next = format!("stop the node, then: {} replay verify", output.overlane);
        steps.push(step.but(Finding::Bad, meaning, next));
    }
    if let Some(cause) = &status.references_failed {
        let step = Step::good(
            "references",
            "ask how the store of references is",
            cause.clone(),
        );
        let meaning = "files by reference are neither given nor fetched";
        let next = "mend the disk, then start the node again";
        steps.push(step.but(Finding::Bad, meaning, next.to_owned()));
    }
    if let Some(cause) = &status.groups_failed {
        let step = Step::good("groups", "ask how the store of logs is", cause.clone());
        let meaning = "nothing is posted to groups, and nothing of them is served";
        let next = "mend the disk, then start the node again";
        steps.push(step.but(Finding::Bad, meaning, next.to_owned()));
    }
    if let Some(cause) = &status.mail_failed {
        let step = Step::good("mail", "ask how the store of mail is", cause.clone());
        let meaning = "nothing is held for others, fetched or taken";
        let next = "mend the disk, then start the node again";
        steps.push(step.but(Finding::Bad, meaning, next.to_owned()));
    }
    steps
}

fn links(status: &StatusReport, output: &Output) -> Step {
    let up = status.links.iter().filter(|link| link.up);
    let (links, quiet) = (up.clone().count(), up.filter(|link| link.disturbed).count());
    let found = format!("{links} up, {quiet} of them quiet for some seconds");
    let step = Step::good("links", "count the links", found);
    if links == 0 {
        let meaning = "nothing leaves or comes now; what can be held is held here";
        let next = format!("{0} peer add URL, or {0} join TICKET", output.overlane);
        return step.but(Finding::Warning, meaning, next);
    }
    if quiet > 0 {
        let meaning = "what a quiet link took may be lost: its peer may be gone";
        return step.but(Finding::Warning, meaning, None);
    }
    step
}

/// The addresses that were tried for the latest connection.
fn ways(status: &StatusReport, output: &Output) -> Option<Step> {
    let last = status.attempts.last()?;
    let tried = "look at the addresses tried for the latest link";
    let ways = last.ways.iter().map(|way| {
        let answered = if way.answered { "answered" } else { "silent" };
        format!("{} {} {answered}", way.kind, way.address)
    });
    let ways = ways.collect::<Vec<_>>().join(", ");
    let path = last
        .path
        .as_ref()
        .map_or(String::new(), |it| format!(", {it}"));
    let (ago, end) = (last.ago_ms / 1_000, &last.end);
    let step = Step::good("ways", tried, format!("{ago} s ago, {end}{path}: {ways}"));
    if last.connected {
        return Some(step);
    }
    let answered = last.ways.iter().any(|it| it.answered);
    let meaning = match answered {
        true => {
            "datagrams come through, and the encrypted link does not: the peer ended, or something between changes them"
        }
        false => "no datagram comes through: a firewall, or NATs at both ends, stand between",
    };
    let next = format!("{} config explain ice.servers", output.overlane);
    Some(step.but(Finding::Warning, meaning, next))
}

/// What the servers see of a NAT.
fn nat(status: &StatusReport, output: &Output) -> Option<Step> {
    let nat = status.nat.as_ref()?;
    let step = Step::good(
        "nat",
        "compare what the STUN servers see of this node",
        nat.clone(),
    );
    let strict = *nat == Nat::AddressEach.word();
    let relays = |it: &IceServerReport| it.url.starts_with("turn:") && it.error.is_none();
    if !strict || status.ice_servers.iter().any(relays) {
        return Some(step);
    }
    let meaning = "two nodes behind such NATs reach each other through a TURN server alone, or through other nodes";
    let next = format!("{} config explain ice.servers", output.overlane);
    Some(step.but(Finding::Warning, meaning, next))
}

fn ice_servers(status: &StatusReport, output: &Output) -> Vec<Step> {
    let step = |server: &IceServerReport| {
        let tried = format!("ask how {} fared", server.url);
        let Some(code) = &server.error else {
            return Step::good("ice", tried, server.state.clone());
        };
        let found = format!("{} ({code})", server.state);
        let meaning = "links go on without it; through NATs fewer of them come up";
        let next = to_do(code, &output.overlane);
        Step::good("ice", tried, found).but(Finding::Warning, meaning, next)
    };
    status.ice_servers.iter().map(step).collect()
}

fn peers(status: &StatusReport, output: &Output) -> Vec<Step> {
    let away = status.peers.iter().filter(|peer| peer.state != "linked");
    away.map(|peer| {
        let cause = peer.error.as_ref();
        let found = cause.map_or(peer.state.clone(), |cause| {
            format!(
                "{}; the last dial: {} ({})",
                peer.state, cause.message, cause.error
            )
        });
        let next = cause.and_then(|cause| {
            // What the other side refused, it said by a code of its own.
            let theirs = code_in(&cause.message).and_then(|code| to_do(code, &output.overlane));
            theirs.or_else(|| to_do(&cause.error, &output.overlane))
        });
        Step::good("peers", format!("ask for {}", peer.url), found).but(
            Finding::Warning,
            "it is not linked; it is dialled again by itself",
            next,
        )
    })
    .collect()
}

/// The code in parentheses that a message ends with.
fn code_in(message: &str) -> Option<&str> {
    let (_, code) = message.strip_suffix(')')?.rsplit_once('(')?;
    code.contains('/').then_some(code)
}

fn neighbours(status: &StatusReport, output: &Output) -> Step {
    let none = |it: &&overlane_node::api::NeighbourReport| it.link == "none";
    let known = status.neighbours.len();
    let unreached = status.neighbours.iter().filter(none).count();
    let found = format!("{known} neighbours, {unreached} of them not reached");
    let step = Step::good("ring", "ask for the neighbours in the ring", found);
    match (status.links.is_empty(), unreached) {
        (false, 0) => step,
        (true, _) => step.but(
            Finding::Warning,
            "without a link there is no ring, and nobody is reached",
            None,
        ),
        (false, _) => step.but(
            Finding::Warning,
            "the ring heals by itself, as a rule within a minute",
            format!("{} peer list", output.overlane),
        ),
    }
}

fn queues(status: &StatusReport, output: &Output) -> Step {
    let full = status.queues.iter().filter(|queue| queue.held >= HELD_MANY);
    let full: Vec<_> = full.map(|queue| queue.class.to_string()).collect();
    let held: usize = status.queues.iter().map(|queue| queue.held).sum();
    let found = format!("{held} admitted messages wait to be taken");
    let step = Step::good("application", "count what nobody has taken", found);
    if full.is_empty() {
        return step;
    }
    let meaning = format!(
        "nobody takes {}: its senders are held back",
        full.join(" and ")
    );
    step.but(
        Finding::Warning,
        meaning,
        format!("{} watch", output.overlane),
    )
}

/// What came and was not admitted, the most frequent code first.
fn refusals(status: &StatusReport, output: &Output) -> Step {
    let mut codes: Vec<_> = status.refused.iter().collect();
    codes.sort_by_key(|(code, count)| (std::cmp::Reverse(**count), (*code).clone()));
    let most = codes.iter().take(3);
    let most: Vec<_> = most
        .map(|(code, count)| format!("{code} {count}"))
        .collect();
    let tried = "count the frames that were refused since the start";
    let Some((code, _)) = codes.first() else {
        return Step::good("refusals", tried, "none");
    };
    let suspect = ["clock_suspect", "expired"];
    let clock: u64 = suspect.iter().filter_map(|it| status.replay.get(*it)).sum();
    let step = Step::good("refusals", tried, most.join(", "));
    if clock > 0 {
        let meaning = "some were refused because of time: a clock here or there is wrong";
        let next = "set the clock of this machine by a time server";
        return step.but(Finding::Warning, meaning, next.to_owned());
    }
    Step {
        next: Some(format!("{} explain {code}", output.overlane)),
        ..step
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::explain::to_do;
    use super::{Finding, Step, against, code_in};

    #[test]
    fn a_clock_that_most_peers_disagree_with_is_wrong_and_one_peers_that_is_off_is_theirs() {
        let finding = |skews: &[i64]| against(Step::good("clocks", "compare", ""), skews).finding;
        assert_eq!(finding(&[0, -900, 900]), Finding::Good);
        assert_eq!(finding(&[0, 100_000_000, 10]), Finding::Warning);
        assert_eq!(finding(&[100_000_000, 100_000_000, 10]), Finding::Bad);
        assert_eq!(finding(&[-100_000_000]), Finding::Bad);
        // Two that are off to either side say nothing of this one.
        assert_eq!(finding(&[-100_000_000, 100_000_000]), Finding::Warning);
    }

    #[test]
    fn what_the_other_side_said_by_a_code_is_looked_up() {
        let said = "http://a:1 refused the offer: expired at 1, before 2 (signal/expired)";
        assert_eq!(code_in(said), Some("signal/expired"));
        assert!(to_do("signal/expired", "overlane").is_some_and(|it| it.contains("date -u")));
        for none in [
            "",
            "it (maybe)",
            "refused (signal/expired) today",
            "(os error 111)",
        ] {
            assert_eq!(code_in(none), None, "{none}");
        }
    }
}
