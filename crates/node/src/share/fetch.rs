//! The side that gets the file.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use overlane_core::Did;
use overlane_core::wire::cbor::{from_slice, to_vec};
use tokio::time::sleep;

use super::note::{About, Note, Wanted};
use super::{PART_BYTES, PARTS_AHEAD, ShareError};
use crate::node::Node;
use crate::refs::{CallError, Reason, Ref, RefState, Reply, Ticket, Token};

/// How long after a dial that failed the next one is.
const DIAL_PAUSE: Duration = Duration::from_secs(1);

/// A file that is being fetched. Its reference is kept, so that it can be fetched again, and its
/// owner's word on it is heard.
#[derive(Debug)]
pub struct Fetch {
    node: Node,
    file: Ref,
    token: Token,
    about: About,
    from: Did,
    url: Option<String>,
}

impl Fetch {
    /// The file that a ticket leads to, by the reference that is kept of it, if one is.
    ///
    /// # Errors
    /// [`ShareError`]
    pub async fn of(node: &Node, ticket: &Ticket) -> Result<Self, ShareError> {
        let digest = crate::peer::refs::ticket_digest(&ticket.secret);
        let (file, token, about) = match kept(node, digest).await? {
            Some(kept) => kept,
            None => redeem(node, ticket, digest).await?,
        };
        Ok(Self {
            node: node.clone(),
            file,
            token,
            about,
            from: ticket.peer,
            url: ticket.url.clone(),
        })
    }

    /// What the file is.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// What its reference is kept under.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Whose it is.
    pub fn from(&self) -> Did {
        self.from
    }

    /// Its parts in order, from byte `at` on. While this is read, the node is dialled again whenever
    /// it is not linked; a part that was asked for comes as soon as both can reach each other, after
    /// a restart of the other node too.
    pub fn parts(self, at: u64) -> impl Stream<Item = Result<(u64, Bytes), ShareError>> + Send {
        let step = PART_BYTES as u64;
        let size = self.about.size;
        let offsets = (0..).map(move |part: u64| at.saturating_add(part.saturating_mul(step)));
        let offsets = offsets.take_while(move |&at| at < size);
        let file = self.file.clone();
        let parts = stream::iter(offsets).map(move |at| part(file.clone(), at, size));
        let parts = parts.buffered(PARTS_AHEAD);
        let linked = stay_linked(self.node.clone(), self.from, self.url.clone());
        // Nothing comes from the second; it ends with the first.
        stream::select(
            parts.map(Some).chain(stream::once(async { None })),
            stream::once(linked),
        )
        .take_while(|part| std::future::ready(part.is_some()))
        .filter_map(std::future::ready)
    }
}

/// The reference that was kept of what this ticket leads to.
async fn kept(node: &Node, digest: [u8; 32]) -> Result<Option<(Ref, Token, About)>, ShareError> {
    for kept in node.kept().await? {
        if let Some(Note::Fetched { ticket, about, .. }) = Note::read(&kept.note)
            && ticket == digest
        {
            match kept.state {
                RefState::Live => {
                    let file = node.restore(kept.id).await?;
                    return Ok(Some((file, kept.id, about)));
                }
                // It may be had again.
                RefState::Broken(why) if why.reason == Reason::DISCONNECTED => {
                    node.forget(kept.id).await?;
                }
                RefState::Revoked(why) | RefState::Broken(why) => {
                    return Err(CallError::Broken(why).into());
                }
            }
        }
    }
    Ok(None)
}

async fn redeem(
    node: &Node,
    ticket: &Ticket,
    digest: [u8; 32],
) -> Result<(Ref, Token, About), ShareError> {
    let file = node.redeem(ticket).await?;
    let wanted = to_vec(&Wanted::About);
    let Reply { bytes, .. } = file.send(wanted, &[]).await?.await?;
    let about: About = from_slice(&bytes).map_err(|_| ShareError::NotAFile {
        what: "it does not say what it is",
    })?;
    let note = Note::Fetched {
        from: ticket.peer,
        ticket: digest,
        about: about.clone(),
    };
    let token = file.token(&note.to_bytes()).await?;
    Ok((file, token, about))
}

async fn part(file: Ref, at: u64, size: u64) -> Result<(u64, Bytes), ShareError> {
    let wanted = Wanted::Part {
        at,
        bytes: u32::try_from(PART_BYTES).unwrap_or(u32::MAX),
    };
    let Reply { bytes, .. } = file.send(to_vec(&wanted), &[]).await?.await?;
    let whole = (size - at).min(PART_BYTES as u64);
    if bytes.len() as u64 != whole {
        return Err(ShareError::NotAFile {
            what: "a part of it is too short or too long",
        });
    }
    Ok((at, bytes))
}

/// Dials a node whenever it is not linked.
async fn stay_linked(
    node: Node,
    peer: Did,
    url: Option<String>,
) -> Option<Result<(u64, Bytes), ShareError>> {
    let Some(url) = url else {
        return std::future::pending().await;
    };
    let mut up = node.parts().up.clone();
    loop {
        let gone = up.wait_for(|links| links.values().all(|did| *did != peer));
        if gone.await.is_err() {
            return std::future::pending().await;
        }
        // Whoever answers there instead is no harm: only its own node has the file.
        if node.connect(&url).await.ok() != Some(peer) {
            sleep(DIAL_PAUSE).await;
        }
    }
}
