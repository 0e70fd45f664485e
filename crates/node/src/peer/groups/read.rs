//! Reading what is here of a group.

use overlane_core::group::{GroupId, Post};
use overlane_relay::log::{Entry, LogId, LogStore, LogsError, Numbering};

use super::book::Group;
use super::{Groups, GroupsError, PAGE_MAX, Page, PostView};

/// Bytes of posts after which a page ends.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

impl<S: LogStore> Groups<S> {
    /// Posts from number `from` on, each opened if this node has its epoch's key.
    pub(super) fn page(
        &mut self,
        group: GroupId,
        from: u64,
        most: usize,
        complete: bool,
    ) -> Result<Page, GroupsError> {
        let log = LogId::group(group);
        let known = self.groups.get(&log);
        let complete_to = known.ok_or(GroupsError::NotKnown { group })?.complete_to;
        let numbering = self.logs.numbering(&log);
        let end = match (complete, self.check(numbering)?) {
            (true, Numbering::Of(_)) => complete_to,
            _ => u64::MAX,
        };
        let most = most.clamp(1, PAGE_MAX);
        let entries = self.logs.store().entries(&log, from, most + 1);
        let entries = entries.map_err(LogsError::Store);
        let mut entries = self.check(entries)?;
        entries.retain(|entry| entry.seq < end);
        let mut posts = Vec::new();
        let mut next = entries.get(most).map(|entry| entry.seq);
        let mut bytes = 0;
        for entry in entries.iter().take(most) {
            if bytes > PAGE_BYTES {
                next = Some(entry.seq);
                break;
            }
            bytes += entry.bytes as usize;
            let envelope = self.logs.store().envelope(&log, entry.seq);
            let envelope = envelope.map_err(LogsError::Store);
            let Some(envelope) = self.check(envelope)? else {
                continue;
            };
            let known = self.groups.get(&log);
            let known = known.ok_or(GroupsError::NotKnown { group })?;
            let post = self.view_post(known, group, entry, &envelope);
            let current = known.roster.as_ref().map_or(0, |it| it.subject().epoch());
            if complete && (post.epoch > current || known.awaits_key(&self.did, post.epoch)) {
                // Its key comes with a roster, or after one, that is on its way here.
                next = None;
                break;
            }
            posts.push(post);
        }
        Ok(Page { posts, next })
    }

    fn view_post(&self, known: &Group, group: GroupId, entry: &Entry, bytes: &[u8]) -> PostView {
        let Ok(post) = Post::read(bytes, self.network, group) else {
            return unread(entry);
        };
        let epoch = post.subject().epoch();
        let key = known.keys.get(&epoch);
        PostView {
            written_ms: post.life().issued_ms,
            epoch,
            body: key.and_then(|key| post.open(key).ok()),
            ..unread(entry)
        }
    }
}

/// What is known of a post that does not read.
fn unread(entry: &Entry) -> PostView {
    PostView {
        seq: entry.seq,
        id: entry.id,
        author: entry.author,
        written_ms: entry.stored_ms,
        epoch: 0,
        body: None,
    }
}
