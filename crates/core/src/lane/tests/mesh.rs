//! A node with several links, on one virtual clock: what it sends while it handles a message.

use super::pair::{Broken, Net, Pair, Takes, broken};
use crate::ids::Class;
use crate::lane::SendError;
use crate::lane::rules::Rules;

/// The hub is side 0 of every link; its peers are the sides 1.
struct Mesh {
    links: Vec<Pair>,
    /// Frames that the hub could not pass on, by link.
    refused: Vec<u64>,
    passed_on: u64,
}

const LANE: Class = Class::Application;
const HUB: usize = 0;
const PEER: usize = 1;

impl Mesh {
    fn opened(links: u64) -> Result<Self, Broken> {
        let opened = |seed| Pair::opened(seed, Net::default(), [Rules::PROTOCOL; 2]);
        let mut links: Vec<_> = (0..links).map(opened).collect::<Result<_, _>>()?;
        let latest_ms = links.iter().map(|link| link.now_ms).max().unwrap_or(0);
        links.iter_mut().for_each(|link| link.now_ms = latest_ms);
        let refused = vec![0; links.len()];
        Ok(Self {
            links,
            refused,
            passed_on: 0,
        })
    }

    /// The hub handles what came on its first link: it passes each frame on over one of the others
    /// and then has taken it, whether that link had room or not.
    fn pass_on(&mut self) -> bool {
        let mut moved = false;
        while self.links[0].take_one(HUB, LANE) {
            let others = self.links.len() as u64 - 1;
            let to = 1 + usize::try_from(self.passed_on % others).unwrap();
            self.passed_on += 1;
            match self.links[to].send(HUB, LANE, 1_000) {
                Ok(()) => {}
                Err(SendError::LaneFull { .. }) => self.refused[to] += 1,
                Err(error) => panic!("{error}"),
            }
            moved = true;
        }
        moved
    }

    fn run_for(&mut self, for_ms: u64) -> Result<(), Broken> {
        let until_ms = self.links[0].now_ms + for_ms;
        for _ in 0..1_000_000 {
            for link in &mut self.links {
                link.settle()?;
                link.both_live()?;
            }
            if self.pass_on() {
                continue;
            }
            let next_ms = self.links.iter().filter_map(Pair::next_ms).min();
            let next_ms = next_ms.unwrap_or(until_ms).min(until_ms);
            if next_ms == until_ms {
                self.links
                    .iter_mut()
                    .for_each(|link| link.now_ms = until_ms);
                return Ok(());
            }
            for link in &mut self.links {
                link.now_ms = link.now_ms.max(next_ms);
            }
        }
        Err(broken("quiet", "the mesh never rests"))
    }
}

#[test]
fn law_a_send_while_handling_never_waits_on_another_peer() -> Result<(), Broken> {
    let frames = 3_000;
    let mut mesh = Mesh::opened(4)?;
    *mesh.links[0].ends[HUB].takes.of_mut(LANE) = Takes::Never;
    // one peer's handler never returns; to another nothing arrives for ten seconds
    *mesh.links[2].ends[PEER].takes.of_mut(LANE) = Takes::Never;
    let stalled_until_ms = mesh.links[3].now_ms + 10_000;
    mesh.links[3].stall(HUB, LANE, stalled_until_ms);

    let mut sent = 0;
    while sent < frames {
        while sent < frames && mesh.links[0].send(PEER, LANE, 1_000).is_ok() {
            sent += 1;
        }
        mesh.run_for(100)?;
    }
    mesh.run_for(1_000)?;
    assert_eq!(mesh.passed_on, frames, "the hub took everything");
    assert!(
        mesh.links[0].now_ms < stalled_until_ms,
        "before the stall ended"
    );
    assert!(
        mesh.links[1].all_came(HUB),
        "nothing waits for the other peers"
    );
    assert_eq!(mesh.refused[1], 0);
    assert!(mesh.refused[2] > 0, "a full lane is the sender's to know");

    *mesh.links[2].ends[PEER].takes.of_mut(LANE) = Takes::AtOnce;
    mesh.run_for(20_000)?;
    assert!(mesh.links.iter().skip(1).all(|link| link.all_came(HUB)));
    Ok(())
}
