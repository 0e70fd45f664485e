//! A reader that is broken: whatever a host hands on is a post to it, whoever wrote it.

use overlane_core::group::{GroupId, Post};
use overlane_core::wire::cbor::from_slice;
use overlane_relay::log::group::GroupRules;
use overlane_relay::log::{Frame, LogId, address};

use super::check::Read;
use super::node::NETWORK;
use crate::peer::groups::Said;

/// What was handed on that nobody in the group wrote, as it reads.
#[derive(Debug, Default)]
pub(super) struct Forged(Vec<(GroupId, Read)>);

impl Forged {
    /// Keeps what is forged of what was said. The node's own code takes none of it.
    pub(super) fn look(&mut self, body: &[u8], rules: &GroupRules) {
        let Ok(Said::Frames(frames)) = Said::read(body) else {
            return;
        };
        for bytes in frames {
            if let Ok(Frame::Push { log, seq, envelope }) = Frame::from_bytes(bytes.0)
                && let Ok(post) = from_slice::<Post>(envelope)
                && is_forged(&log, envelope, rules)
            {
                let read = Read {
                    seq,
                    id: address(envelope),
                    author: post.signer(),
                    epoch: post.subject().epoch(),
                    body: None,
                    written_ms: post.life().issued_ms,
                };
                self.0.push((GroupId(log.0), read));
            }
        }
    }

    /// What is forged of a group's posts.
    pub(super) fn of(&self, group: GroupId) -> impl Iterator<Item = Read> {
        let of = self.0.iter().filter(move |it| it.0 == group);
        of.map(|it| it.1.clone())
    }
}

/// Whether nobody in the group signed it.
fn is_forged(log: &LogId, envelope: &[u8], rules: &GroupRules) -> bool {
    let post = Post::read(envelope, NETWORK, GroupId(log.0));
    let post = post.ok().zip(rules.roster(log));
    post.is_none_or(|(post, roster)| !roster.subject().has(&post.signer()))
}
