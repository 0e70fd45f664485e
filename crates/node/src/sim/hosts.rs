//! Hostile hosts of groups: they number as they like, keep posts back, answer without end, make up posts, bring old ones
//! and say what nobody asked for.
//!
//! Such a host runs the keeper that any host does. Beside that it changes what its keeper hears and says, in the way of one
//! trick for a while; which, is drawn at each act.

use overlane_core::Did;
use overlane_core::group::{GroupId, GroupKey, Post};
use overlane_core::transaction::{Data, Message, Namespace};
use overlane_core::wire::cbor::{Writer, to_vec};
use overlane_recon::Id;
use overlane_relay::log::bounds::NUMBER_MAX;
use overlane_relay::log::{Frame, LogId, Refused, Turn, address};

use super::names::Act;
use super::node::seed_of;
use super::world::World;
use crate::peer::Heard;
use crate::peer::groups::{FrameBytes, GROUPS_NAMESPACE, Said};

/// How long one trick is played.
const TRICK_MS: (u64, u64) = (5_000, 20_000);

/// How often what it hears or says meanwhile is changed, in a thousand.
const PLAYS: u64 = 700;

/// Posts that a hostile host remembers.
const REMEMBERED: usize = 32;

/// Posts that it brings at once, and messages that nobody asked for.
const VOLLEY: u64 = 4;

/// How far from now it dates what it makes up, at most: longer than a host would still take it.
const DATED_WITHIN_MS: u64 = 40 * 24 * 3_600 * 1_000;

/// What a hostile host does for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trick {
    /// It gives numbers that other posts have, or that nobody comes to.
    Numbers,
    /// It says that it has what it lets go of, or refuses it; and that it holds nothing more.
    Keeps,
    /// Its every answer is new and leads nowhere, or is none.
    Endless,
    /// It hands on posts that nobody in the group wrote, and such as were changed; dated now, long ago or ahead.
    MadeUp,
    /// It hands on what it was given before, again and again, under other numbers.
    Old,
    /// It says what nobody asked for.
    Noise,
}

impl Trick {
    const ALL: [Self; 6] = [
        Self::Numbers,
        Self::Keeps,
        Self::Endless,
        Self::MadeUp,
        Self::Old,
        Self::Noise,
    ];
}

/// What a hostile host is up to, and what it remembers.
#[derive(Debug, Default)]
pub(super) struct Liar {
    trick: Option<Trick>,
    until_ms: u64,
    posts: Vec<(LogId, u64, Vec<u8>)>,
    /// The first roster that it gave.
    roster: Option<Vec<u8>>,
}

impl World<'_> {
    /// A hostile host begins another trick.
    pub(super) fn lie_as_host(&mut self, node: usize) {
        let for_ms = self.between(TRICK_MS.0, TRICK_MS.1);
        let drawn = self.any_of(Trick::ALL.len());
        let until_ms = self.now_ms + for_ms;
        let liar = self.liars.entry(node).or_default();
        liar.trick = Trick::ALL.get(drawn).copied();
        liar.until_ms = until_ms;
        if liar.trick == Some(Trick::Noise) {
            for _ in 0..VOLLEY {
                self.say_unasked(node);
            }
        }
    }

    /// The trick that it plays now.
    fn plays(&mut self, node: usize) -> Option<Trick> {
        let lies = self.does(node, Act::Hosts);
        let liar = self.liars.get(&node).filter(|_| lies)?;
        let trick = liar.trick.filter(|_| self.now_ms < liar.until_ms)?;
        self.permille(PLAYS).then_some(trick)
    }

    /// What a hostile host's keeper hears instead of what was said to it, and who said it; none if just that.
    pub(super) fn misheard(&mut self, node: usize, heard: &Heard) -> Option<(Did, Vec<u8>)> {
        let Heard::Message { delivery, .. } = heard else {
            return None;
        };
        let trick = self.plays(node)?;
        let payload = delivery.item();
        let Message::Application { body, .. } = payload.message() else {
            return None;
        };
        let Ok(Said::Frames(frames)) = Said::read(body) else {
            return None;
        };
        let (mut left, mut answers) = (Vec::new(), Vec::new());
        for bytes in frames {
            let frame = Frame::from_bytes(bytes.0);
            let heard = frame.is_ok_and(|frame| {
                self.remember(node, &frame);
                self.is_heard(node, trick, &frame, &mut answers)
            });
            left.extend(heard.then_some(bytes));
        }
        let from = payload.origin();
        self.say_frames(node, from, &answers);
        Some((from, to_vec(&Said::Frames(left))))
    }

    /// Whether its keeper hears a frame; what is said at once because of it goes to `answers`.
    fn is_heard(
        &mut self,
        node: usize,
        trick: Trick,
        frame: &Frame<'_>,
        answers: &mut Vec<Vec<u8>>,
    ) -> bool {
        let asks = Turn::Ask;
        match (trick, *frame) {
            (Trick::Keeps, Frame::Send { log, envelope }) => {
                let (id, code, retry_ms) = (address(envelope), "log/too_old", 0);
                let what = Refused::Envelope(id);
                let answer = match self.chance.below(8) {
                    0 => Frame::Refuse {
                        log,
                        what,
                        code,
                        retry_ms,
                    },
                    _ => Frame::SendAck {
                        log,
                        id,
                        seq: self.any_number(),
                    },
                };
                answers.push(answer.to_bytes());
                false
            }
            (
                Trick::Keeps | Trick::Endless,
                Frame::Recon {
                    log, space, turn, ..
                },
            ) if turn == asks => {
                let payload = match (trick, self.chance.below(8)) {
                    // It says nothing.
                    (Trick::Keeps, 0) => return false,
                    (Trick::Keeps, _) => settled(),
                    (_, 0) => vec![0xff],
                    (_, 1) => of_nobody(*seed_of(&mut self.chance)),
                    _ => self.cover(),
                };
                let answer = Frame::Recon {
                    log,
                    space,
                    turn: Turn::Answer,
                    payload: &payload,
                };
                answers.push(answer.to_bytes());
                false
            }
            (Trick::MadeUp, Frame::Recon { log, turn, .. }) if turn == asks => {
                for _ in 0..VOLLEY {
                    let envelope = self.made_up(node, log);
                    answers.extend(envelope.map(|it| self.push(log, &it)));
                }
                true
            }
            (Trick::Old, Frame::Recon { log, turn, .. }) if turn == asks => {
                for _ in 0..VOLLEY {
                    let post = self.any_remembered(node, log);
                    answers.extend(post.map(|it| self.push(log, &it)));
                }
                true
            }
            _ => true,
        }
    }

    /// What a hostile host says instead of what its keeper would; none for nothing.
    pub(super) fn misspoken(&mut self, node: usize, data: Data) -> Option<Data> {
        if !self.does(node, Act::Hosts) {
            return Some(data);
        }
        let trick = self.plays(node);
        let body = data.message().body().to_vec();
        let changed = match (trick, Said::read(&body)) {
            (_, Ok(Said::Frames(frames))) => {
                let mut said = Vec::new();
                for bytes in frames {
                    match Frame::from_bytes(bytes.0) {
                        Ok(frame) => {
                            self.remember(node, &frame);
                            said.extend(self.twist(trick, &frame));
                        }
                        Err(_) => said.push(bytes.0.to_vec()),
                    }
                }
                if said.is_empty() {
                    return None;
                }
                let frames = said.iter().map(|it| FrameBytes(it)).collect();
                Said::Frames(frames).to_data()
            }
            (Some(Trick::Numbers), Ok(Said::Greeted { log, .. })) => {
                self.counts.groups.lies += 1;
                let said = Said::Greeted {
                    log,
                    revision: self.any_number(),
                    entries: self.any_number(),
                    bytes: self.any_number(),
                };
                said.to_data()
            }
            (trick, Ok(Said::Roster(roster))) => {
                let liar = self.liars.entry(node).or_default();
                liar.roster.get_or_insert_with(|| roster.to_vec());
                return Some(data).filter(|_| trick != Some(Trick::Keeps));
            }
            _ => return Some(data),
        };
        // What is too long for one message is said as it was.
        Some(changed.unwrap_or(data))
    }

    /// A frame that its keeper says, as it goes out: not at all, changed, or twice.
    fn twist(&mut self, trick: Option<Trick>, frame: &Frame<'_>) -> Vec<Vec<u8>> {
        let twisted = match (trick, *frame) {
            (Some(Trick::Numbers), Frame::SendAck { log, id, .. }) => {
                let seq = self.any_number();
                vec![Frame::SendAck { log, id, seq }.to_bytes()]
            }
            (Some(Trick::Numbers), Frame::Push { log, envelope, .. }) => {
                vec![self.push(log, envelope)]
            }
            (Some(Trick::Keeps), Frame::Push { .. }) => Vec::new(),
            (Some(Trick::Old), _) => vec![frame.to_bytes(); 2],
            _ => return vec![frame.to_bytes()],
        };
        self.counts.groups.lies += 1;
        twisted
    }

    fn say_unasked(&mut self, node: usize) {
        let hosted = self.groups.iter();
        let hosted = hosted.filter_map(|it| it.hosted_by(node));
        let hosted: Vec<(LogId, Vec<usize>)> = hosted.map(|(log, to)| (log, to.to_vec())).collect();
        let (group, whom) = (self.any_of(hosted.len()), self.chance.next_u64());
        let Some((log, members)) = hosted.get(group) else {
            return;
        };
        let log = *log;
        let whom = usize::try_from(whom).unwrap_or_default() % members.len().max(1);
        let to = members.get(whom).and_then(|it| self.nodes.get(*it));
        let Some(to) = to.map(|it| it.did) else {
            return;
        };
        let (kind, number, drawn) = (
            self.chance.below(8),
            self.any_number(),
            *seed_of(&mut self.chance),
        );
        let roster = self.liars.get(&node).and_then(|it| it.roster.clone());
        let roster = roster.unwrap_or_else(|| drawn.to_vec());
        let said = match kind {
            0 => Said::News(log),
            1 => Said::NotHere(log),
            2 => Said::Greeted {
                log,
                revision: number,
                entries: u64::MAX,
                bytes: u64::MAX,
            },
            3 => Said::Roster(&roster),
            4 => Said::Earlier(&roster),
            5 => Said::NoEarlier {
                log,
                epoch: self.chance.below(3),
            },
            6 => {
                let made_up = self.made_up(node, log).unwrap_or_default();
                let (id, seq) = (Id(drawn), number);
                let (what, code, retry_ms) = (Refused::Envelope(id), "log/too_old", 0);
                let refuse = Frame::Refuse {
                    log,
                    what,
                    code,
                    retry_ms,
                };
                let frames = [
                    self.push(log, &made_up),
                    Frame::SendAck { log, id, seq }.to_bytes(),
                    refuse.to_bytes(),
                ];
                return self.say_frames(node, to, &frames);
            }
            _ => return self.say_body(node, to, &drawn),
        };
        self.say_body(node, to, &to_vec(&said));
    }

    fn say_frames(&mut self, node: usize, to: Did, frames: &[Vec<u8>]) {
        if !frames.is_empty() {
            let frames = frames.iter().map(|it| FrameBytes(it)).collect();
            self.say_body(node, to, &to_vec(&Said::Frames(frames)));
        }
    }

    fn say_body(&mut self, node: usize, to: Did, body: &[u8]) {
        let namespace = Namespace::new(GROUPS_NAMESPACE).unwrap_or_default();
        let message = Message::Application { namespace, body };
        if let Ok(data) = Data::parse(to_vec(&message)) {
            self.counts.groups.lies += 1;
            self.send_data(node, to, data);
        }
    }

    // What it remembers and makes up.

    fn remember(&mut self, node: usize, frame: &Frame<'_>) {
        let post = match *frame {
            Frame::Send { log, envelope } => (log, 0, envelope.to_vec()),
            Frame::Push { log, seq, envelope } => (log, seq, envelope.to_vec()),
            _ => return,
        };
        let posts = &mut self.liars.entry(node).or_default().posts;
        if posts.iter().all(|it| it.2 != post.2) {
            posts.push(post);
            let over = posts.len().saturating_sub(REMEMBERED);
            posts.drain(..over);
        }
    }

    fn any_remembered(&mut self, node: usize, log: LogId) -> Option<Vec<u8>> {
        let count = self.liars.get(&node).map_or(0, |it| it.posts.len());
        let drawn = self.any_of(count);
        let post = self.liars.get(&node)?.posts.get(drawn)?;
        (post.0 == log).then(|| post.2.clone())
    }

    /// One that nobody in the group wrote: of somebody who is in no group, of its own, or a member's with a byte changed.
    fn made_up(&mut self, node: usize, log: LogId) -> Option<Vec<u8>> {
        let now_ms = self.now_at(node).wall_ms;
        let by_ms = self.between(0, DATED_WITHIN_MS);
        let at_ms = match self.chance.below(3) {
            0 => now_ms,
            1 => now_ms.saturating_sub(by_ms),
            _ => now_ms.saturating_add(by_ms),
        };
        let whose = self.chance.below(3);
        if whose == 0 {
            let mut changed = self.any_remembered(node, log)?;
            let at = self.any_of(changed.len());
            if let Some(byte) = changed.get_mut(at) {
                *byte ^= 1;
            }
            return Some(changed);
        }
        let key = GroupKey::new(self.chance.below(4), seed_of(&mut self.chance));
        let nonce = *seed_of(&mut self.chance).first_chunk()?;
        let stranger = self.stranger(at_ms)?;
        let own = self.running(node)?.signer.clone();
        let author = if whose == 1 { &own } else { &stranger };
        let post = Post::write(GroupId(log.0), &key, author, b"made up", nonce, at_ms);
        post.ok().map(|post| post.to_bytes())
    }

    fn push(&mut self, log: LogId, envelope: &[u8]) -> Vec<u8> {
        let seq = self.any_number();
        Frame::Push { log, seq, envelope }.to_bytes()
    }

    /// One that another post may have, or that nobody comes to.
    fn any_number(&mut self) -> u64 {
        match self.chance.below(8) {
            0 => NUMBER_MAX - self.chance.below(3),
            1 => NUMBER_MAX + 1,
            2 => u64::MAX - 1,
            3 => u64::MAX,
            _ => self.chance.below(64),
        }
    }

    /// An answer that says of everything that it differs, never in the same way.
    fn cover(&mut self) -> Vec<u8> {
        let mut cover = Writer::new();
        cover.array(2).uint(1).array(2);
        for upper in [self.chance.below(1 << 20) + 1, u64::MAX] {
            let range = cover.array(3).uint(upper).uint(1);
            range.bytes(&*seed_of(&mut self.chance));
        }
        cover.into_bytes()
    }
}

/// An answer that leaves nothing open.
fn settled() -> Vec<u8> {
    let mut settled = Writer::new();
    let ranges = settled.array(2).uint(1).array(1);
    ranges.array(3).uint(u64::MAX).uint(0).null();
    settled.into_bytes()
}

/// An answer that names one post, which nobody has.
fn of_nobody(id: [u8; 32]) -> Vec<u8> {
    let mut ids = Writer::new();
    let ranges = ids.array(2).uint(1).array(1);
    ranges.array(3).uint(u64::MAX).uint(2).array(1).bytes(&id);
    ids.into_bytes()
}
