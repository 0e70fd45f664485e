//! Laws **every member has every post** and **who was removed reads nothing later**: what was posted to a
//! group, each of its members has once everything healed, once, in the order of the host whose numbers it has; and
//! what was posted by one that knew that a member was removed, that member never reads.
//!
//! Seen are what applications posted, and what they read.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::Did;
use overlane_relay::log::EnvelopeId;

/// A member lacks a post, has one twice, or in another order than its host.
const EVERY: &str = "every member has every post";
/// One that was removed reads what was posted to the others.
const REMOVED: &str = "who was removed reads nothing later";

/// A law that did not hold, and what was seen.
type Broke = (&'static str, String);

/// A post as an application reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sim) struct Read {
    pub(in crate::sim) seq: u64,
    pub(in crate::sim) id: EnvelopeId,
    /// None if it cannot be read.
    pub(in crate::sim) body: Option<Vec<u8>>,
}

/// What one member read, from the first post to the last.
#[derive(Debug, Default)]
struct Reader {
    posts: Vec<Read>,
    /// Whose numbers they have; none for its own.
    follows: Option<Did>,
}

/// What is known of one group from outside.
#[derive(Debug, Default)]
struct Group {
    /// Posts that are durable with who wrote them, by their names.
    posted: BTreeMap<EnvelopeId, Vec<u8>>,
    /// What was posted by one that knew that somebody was removed.
    later: BTreeSet<Vec<u8>>,
    removed: Option<Did>,
    readers: BTreeMap<Did, Reader>,
}

/// All groups, in the order they were made.
#[derive(Debug, Default)]
pub(in crate::sim) struct GroupWatch {
    groups: BTreeMap<usize, Group>,
}

impl GroupWatch {
    /// An application was told that a post is durable. One of who is removed may be refused by all.
    pub(in crate::sim) fn posted(&mut self, group: usize, by: Did, id: EnvelopeId, body: &[u8]) {
        let group = self.groups.entry(group).or_default();
        if group.removed != Some(by) {
            group.posted.insert(id, body.to_vec());
        }
    }

    /// An application that knows of the removal posts this.
    pub(in crate::sim) fn posts_later(&mut self, group: usize, body: &[u8]) {
        let group = self.groups.entry(group).or_default();
        group.later.insert(body.to_vec());
    }

    /// An application was told that the host refused a post.
    pub(in crate::sim) fn refused(&mut self, group: usize, id: EnvelopeId) {
        self.groups.entry(group).or_default().posted.remove(&id);
    }

    /// A member is taken away: what it wrote and the others have not may be lost.
    pub(in crate::sim) fn removes(&mut self, group: usize, who: Did, wrote: &BTreeSet<EnvelopeId>) {
        let group = self.groups.entry(group).or_default();
        group.removed = Some(who);
        group.posted.retain(|id, _| !wrote.contains(id));
    }

    /// An application read all that its node has of a group.
    ///
    /// # Errors
    /// Something twice or in disorder, something else than was posted, or what is not for it.
    pub(in crate::sim) fn read(
        &mut self,
        group: usize,
        by: Did,
        posts: Vec<Read>,
        follows: Option<Did>,
    ) -> Result<(), Broke> {
        let number = group;
        let group = self.groups.entry(group).or_default();
        let mut names = BTreeSet::new();
        let mut last = 0;
        for post in &posts {
            let (seq, id) = (post.seq, post.id);
            if !names.insert(id) || seq <= last {
                let words =
                    format!("{by} reads post {id} of group {number} again, or after {last}");
                return Err((EVERY, words));
            }
            last = seq;
            let Some(body) = &post.body else {
                continue;
            };
            if group.posted.get(&id).is_some_and(|posted| posted != body) {
                let words = format!("{by} reads post {id} of group {number} as something else");
                return Err((EVERY, words));
            }
            if group.removed == Some(by) && group.later.contains(body) {
                let words = format!("{by} was removed from group {number}, and reads {id}");
                return Err((REMOVED, words));
            }
        }
        group.readers.insert(by, Reader { posts, follows });
        Ok(())
    }

    /// What members lack of a group, by what they read last.
    pub(in crate::sim) fn lacks(&self, number: usize, members: &[Did]) -> Option<String> {
        let group = self.groups.get(&number)?;
        for member in members.iter().filter(|it| group.removed != Some(**it)) {
            let Some(reader) = group.readers.get(member) else {
                return Some(format!("{member} has not read group {number}"));
            };
            let posts: BTreeMap<EnvelopeId, bool> = {
                let posts = reader.posts.iter();
                posts.map(|post| (post.id, post.body.is_some())).collect()
            };
            for id in group.posted.keys() {
                let lack = match posts.get(id) {
                    Some(true) => continue,
                    Some(false) => "cannot read",
                    None => "does not have",
                };
                return Some(format!("{member} {lack} post {id} of group {number}"));
            }
            let host = reader.follows.and_then(|host| group.readers.get(&host));
            let numbered = |it: &Reader| -> Vec<(u64, EnvelopeId)> {
                it.posts.iter().map(|post| (post.seq, post.id)).collect()
            };
            if host.is_some_and(|host| numbered(host) != numbered(reader)) {
                let words = format!("{member} has group {number} in another order than its host");
                return Some(words);
            }
        }
        None
    }

    /// The law that a lack breaks.
    pub(in crate::sim) const fn law_of_lacks() -> &'static str {
        EVERY
    }
}
