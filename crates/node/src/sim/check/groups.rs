//! Laws **every member has every post**, **who was removed reads nothing later** and **a post is its author's**: what was
//! posted to a group, each of its members has once everything healed, once, in the order of the host whose numbers it has;
//! what was posted by one that knew that a member was removed, that member never reads; and what is read as somebody's that
//! one's application wrote so. A host that lies may hand on posts of epochs that are over by accounts that were in no group:
//! they are read by nobody.
//!
//! Seen are what applications posted, and what they read.
//!
//! What is dated in a time to come, by a clock that was wrong when it was written, others take once that has come, and its
//! author has it until then: so it is with its author that it must be, and with others from its date on.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::Did;
use overlane_core::identity::CLOCK_SKEW_MS;
use overlane_relay::log::EnvelopeId;

/// A member lacks a post, has one twice, or in another order than its host.
const EVERY: &str = "every member has every post";
/// One that was removed reads what was posted to the others.
const REMOVED: &str = "who was removed reads nothing later";

/// One reads what its author did not write, or has what nobody in the group wrote.
const AUTHORS: &str = "a post is its author's";

/// A law that did not hold, and what was seen.
type Broke = (&'static str, String);

/// A post as an application reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sim) struct Read {
    pub(in crate::sim) seq: u64,
    pub(in crate::sim) id: EnvelopeId,
    pub(in crate::sim) author: Did,
    /// Zero if it does not read as a post.
    pub(in crate::sim) epoch: u64,
    /// None if it cannot be read.
    pub(in crate::sim) body: Option<Vec<u8>>,
    /// By its author's clock.
    pub(in crate::sim) written_ms: u64,
}

/// What an application was told to be durable.
#[derive(Debug)]
struct Durable {
    by: Did,
    body: Vec<u8>,
    /// By its author's clock.
    written_ms: u64,
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
    posted: BTreeMap<EnvelopeId, Durable>,
    /// What was posted by one that knew that somebody was removed.
    later: BTreeSet<Vec<u8>>,
    removed: Option<Did>,
    readers: BTreeMap<Did, Reader>,
    /// What applications wrote, each once, durable or not.
    written: BTreeMap<Vec<u8>, Did>,
    /// What each node told its application to have, and did not tell it later to be refused.
    kept: BTreeSet<(Did, EnvelopeId)>,
    /// Its host lies, and may have handed on what it does not have itself.
    liar: bool,
}

/// All groups, in the order they were made.
#[derive(Debug, Default)]
pub(in crate::sim) struct GroupWatch {
    groups: BTreeMap<usize, Group>,
}

impl GroupWatch {
    /// An application was told that a post is durable, when its node's clock showed `written_ms`. One of who is removed may
    /// be refused by all.
    pub(in crate::sim) fn posted(
        &mut self,
        group: usize,
        by: Did,
        id: EnvelopeId,
        (body, written_ms): (&[u8], u64),
    ) {
        let group = self.groups.entry(group).or_default();
        if group.removed != Some(by) {
            let body = body.to_vec();
            let durable = Durable {
                by,
                body,
                written_ms,
            };
            group.posted.insert(id, durable);
        }
    }

    /// An application that knows of the removal posts this.
    pub(in crate::sim) fn posts_later(&mut self, group: usize, body: &[u8]) {
        let group = self.groups.entry(group).or_default();
        group.later.insert(body.to_vec());
    }

    /// The host of this group lies while faults come.
    pub(in crate::sim) fn is_hosted_by_a_liar(&mut self, group: usize) {
        self.groups.entry(group).or_default().liar = true;
    }

    /// An application posts this.
    pub(in crate::sim) fn posts(&mut self, group: usize, by: Did, bodies: &[Vec<u8>]) {
        let group = self.groups.entry(group).or_default();
        group
            .written
            .extend(bodies.iter().map(|it| (it.clone(), by)));
    }

    /// An application was told that the host refused a post.
    pub(in crate::sim) fn refused(&mut self, group: usize, by: Did, id: EnvelopeId) {
        let group = self.groups.entry(group).or_default();
        group.posted.remove(&id);
        group.kept.remove(&(by, id));
    }

    /// An application was told that a post is there which was not before.
    ///
    /// # Errors
    /// It was told before.
    pub(in crate::sim) fn kept(
        &mut self,
        group: usize,
        by: Did,
        id: EnvelopeId,
    ) -> Result<(), Broke> {
        let number = group;
        match self.groups.entry(group).or_default().kept.insert((by, id)) {
            true => Ok(()),
            false => Err((
                EVERY,
                format!("{by} is told of post {id} of group {number} again"),
            )),
        }
    }

    /// What one read last is what those wrote whom it names.
    ///
    /// # Errors
    /// A post of another's, one that its author did not sign, or one of nobody in the group in an epoch that is not over.
    pub(in crate::sim) fn are_signed(
        &self,
        number: usize,
        by: Did,
        members: &BTreeSet<Did>,
    ) -> Result<(), Broke> {
        let Some((group, reader)) = self.groups.get(&number).and_then(|it| {
            let reader = it.readers.get(&by)?;
            Some((it, reader))
        }) else {
            return Ok(());
        };
        // The first, and the one that a removal begins.
        let newest = 1 + u64::from(group.removed.is_some());
        let read = reader.posts.iter().filter(|it| it.body.is_some());
        let has_key: BTreeSet<u64> = read.map(|it| it.epoch).collect();
        for post in &reader.posts {
            let Read { id, author, .. } = post;
            let wrong = match &post.body {
                Some(body) if group.written.get(body) != Some(author) => "did not write",
                None if !members.contains(author) && post.epoch >= newest => {
                    "is not in it to write"
                }
                None if members.contains(author)
                    && (post.epoch == 0 || has_key.contains(&post.epoch)) =>
                {
                    "did not sign"
                }
                _ => continue,
            };
            let words = format!("{by} has post {id} of group {number}, which {author} {wrong}");
            return Err((AUTHORS, words));
        }
        Ok(())
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
            if group.posted.get(&id).is_some_and(|it| it.body != *body) {
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

    /// What members lack of a group, by what they read last, when clocks that are right show `wall_ms`.
    pub(in crate::sim) fn lacks(
        &self,
        number: usize,
        members: &[Did],
        wall_ms: u64,
    ) -> Option<String> {
        let group = self.groups.get(&number)?;
        let is_ahead = |written_ms: u64| written_ms > wall_ms.saturating_add(CLOCK_SKEW_MS);
        for member in members.iter().filter(|it| group.removed != Some(**it)) {
            let Some(reader) = group.readers.get(member) else {
                return Some(format!("{member} has not read group {number}"));
            };
            let posts: BTreeMap<EnvelopeId, bool> = {
                let posts = reader.posts.iter();
                posts.map(|post| (post.id, post.body.is_some())).collect()
            };
            for (id, durable) in &group.posted {
                let lack = match posts.get(id) {
                    Some(true) => continue,
                    Some(false) => "cannot read",
                    None if is_ahead(durable.written_ms) && durable.by != *member => continue,
                    None => "does not have",
                };
                return Some(format!("{member} {lack} post {id} of group {number}"));
            }
            let host = reader.follows.and_then(|host| group.readers.get(&host));
            // What a lying host handed on it may not have.
            let counts = |it: &&Read| {
                (!group.liar || group.posted.contains_key(&it.id)) && !is_ahead(it.written_ms)
            };
            let numbered = |it: &Reader| -> Vec<(u64, EnvelopeId)> {
                let posts = it.posts.iter().filter(counts);
                posts.map(|post| (post.seq, post.id)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    const WALL_MS: u64 = 1_000_000;

    fn read(seq: u64, id: u8, written_ms: u64) -> Read {
        Read {
            seq,
            id: overlane_recon::Id([id; 32]),
            author: Did([1; 20]),
            epoch: 1,
            body: Some(vec![id]),
            written_ms,
        }
    }

    /// One group of a host and a member; the host posted what is dated so, and both read it, but for what the member
    /// lacks; what is missing then.
    fn lacks(dated_ms: u64, host: &[u8], member: &[u8]) -> Option<String> {
        let (author, other) = (Did([1; 20]), Did([2; 20]));
        let mut watch = GroupWatch::default();
        let posts = [(1, WALL_MS), (2, dated_ms), (3, WALL_MS)];
        for (id, written_ms) in posts {
            let name = overlane_recon::Id([id; 32]);
            watch.posted(0, author, name, (&[id], written_ms));
        }
        for (who, has, follows) in [(author, host, None), (other, member, Some(author))] {
            let all = posts.iter().zip(1..);
            let has = all.filter(|((id, _), _)| has.contains(id));
            let posts = has.map(|((id, written_ms), seq)| read(seq, *id, *written_ms));
            watch.read(0, who, posts.collect(), follows).unwrap();
        }
        watch.lacks(0, &[author, other], WALL_MS)
    }

    #[test]
    fn a_post_dated_ahead_is_missed_by_nobody_but_its_author() {
        let ahead_ms = WALL_MS + CLOCK_SKEW_MS + 1;
        assert_eq!(lacks(ahead_ms, &[1, 2, 3], &[1, 3]), None);
        assert_eq!(lacks(ahead_ms, &[1, 2, 3], &[1, 2, 3]), None);
        assert!(lacks(ahead_ms, &[1, 3], &[1, 3]).is_some(), "it is lost");
        assert!(lacks(ahead_ms, &[1, 2, 3], &[1, 2]).is_some());
        // Its time has come.
        assert!(lacks(ahead_ms - 1, &[1, 2, 3], &[1, 3]).is_some());
        assert_eq!(lacks(ahead_ms - 1, &[1, 2, 3], &[1, 2, 3]), None);
    }
}
