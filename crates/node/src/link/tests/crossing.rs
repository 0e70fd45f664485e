//! Two links between the same two nodes.

use overlane_core::Coded;

use super::must;
use super::node::{Node, Pair, smaller_first};
use crate::link::{CROSSING_MS, DownReason, LinkConfig, LinkEvent, LinkId};

/// Waits until the link that the smaller Did's node dialled is up at `node`.
async fn standing(node: &mut Node, dialed_here: bool) -> LinkId {
    loop {
        if let LinkEvent::Up {
            link, dialed_url, ..
        } = node.next().await
            && dialed_url.is_some() == dialed_here
        {
            return link;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn law_two_nodes_that_dial_each_other_keep_the_smaller_dids_link() {
    for _ in 0..5 {
        let [small, great] = smaller_first();
        let mut small = Node::with(small, LinkConfig::default()).await;
        let mut great = Node::with(great, LinkConfig::default()).await;
        let (from_small, from_great) = tokio::join!(
            must("a link", small.links.dial(&great.url)),
            must("a link", great.links.dial(&small.url)),
        );
        assert_eq!(from_small.unwrap().peer, great.did());
        assert_eq!(from_great.unwrap().peer, small.did());
        let at_small = standing(&mut small, true).await;
        let at_great = standing(&mut great, false).await;
        for (node, standing) in [(&small, at_small), (&great, at_great)] {
            let status = node.links.status();
            let stay: Vec<_> = status.iter().filter(|link| !link.leaving).collect();
            assert_eq!(stay.len(), 1);
            assert_eq!(stay[0].link, standing);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_dial_replaces_the_link_whoever_dials() {
    for a_dials_again in [true, false] {
        let Pair {
            mut a,
            mut b,
            at_a,
            at_b,
        } = Pair::new().await;
        for node in [&a, &b] {
            node.identity.advance(CROSSING_MS + 1);
        }
        let (from, to) = if a_dials_again { (&a, &b) } else { (&b, &a) };
        let up = must("a link", from.links.dial(&to.url)).await.unwrap();
        assert_eq!(up.peer, to.did());
        let (new_at_a, _) = a.up().await;
        let (new_at_b, _) = b.up().await;
        assert_ne!((new_at_a, new_at_b), (at_a, at_b));
        // Whoever is told last closes; the other is told by the peer or by itself.
        for (node, old, new) in [(&mut a, at_a, new_at_a), (&mut b, at_b, new_at_b)] {
            let reason = node.down(old).await;
            assert!(
                reason == DownReason::Replaced { by: new } || reason.code() == "link/closed_peer",
                "{reason}"
            );
            let links: Vec<_> = node.links.status().iter().map(|link| link.link).collect();
            assert_eq!(links, [new]);
        }
    }
}
