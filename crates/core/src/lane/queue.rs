//! Outbound lanes: one FIFO a class, and whose turn it is.
//!
//! Law (order): frames of one class leave in the order they were pushed; nothing is dropped or
//! taken twice. Law (reserve): no lane, however full, keeps another from its reserve of places and
//! bytes, and no other peer does. Law (turns):
//! control goes first, but at most [`CONTROL_BURST_MAX`](super::bounds::CONTROL_BURST_MAX) times in
//! a row while a lower class could send; lower classes take turns.

use super::bounds::{LANES, QUEUED_MAX, QUEUED_MAX_BYTES, ROOM_TOLD_PLACES};
use super::per_lane::PerLane;
use super::reason::SendError;
use super::rules::Rules;
use super::waiting::{Leaving, Waiting};
use crate::ids::Class;

/// The frames that wait for one peer.
#[derive(Debug)]
pub(super) struct Outbound {
    lanes: PerLane<Waiting>,
    /// Bytes that wait, a lane.
    bytes: PerLane<usize>,
    /// Bytes beyond the reserves that the node lets this peer's lanes hold.
    spare_bytes: usize,
    /// Control frames in a row while a lower class could have gone.
    control_run: u8,
    /// The lower class whose turn is next.
    next: Class,
    /// Lanes that refused a frame of this size and have not told since that they have room.
    refused: PerLane<Option<usize>>,
    rules: Rules,
}

impl Outbound {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            lanes: PerLane::default(),
            bytes: PerLane::default(),
            spare_bytes: usize::MAX,
            control_run: 0,
            next: Class::Storage,
            refused: PerLane::default(),
            rules,
        }
    }

    /// Appends a frame to its lane, if the lane's reserve or the shared places have room.
    pub(super) fn push(&mut self, class: Class, frame: Vec<u8>) -> Result<(), SendError> {
        let size = frame.len();
        if let Some(full) = self.full(class, size) {
            *self.refused.of_mut(class) = Some(size);
            return Err(full);
        }
        *self.bytes.of_mut(class) += size;
        self.lanes.of_mut(class).push(frame);
        Ok(())
    }

    /// What the node lets these lanes hold beyond their reserves.
    pub(super) fn spare(&mut self, bytes: usize) {
        self.spare_bytes = bytes;
    }

    /// Bytes that wait beyond the lanes' reserves.
    pub(super) fn shared_bytes(&self) -> usize {
        let over = |class| self.over_bytes(class, 0);
        Class::ALL.into_iter().map(over).sum()
    }

    /// Whether a lane would hold more bytes than its reserve with so many more.
    pub(super) fn exceeds_reserve(&self, class: Class, more: usize) -> bool {
        self.over_bytes(class, more) > 0
    }

    /// Whether a lane refused a frame and waits to tell that it has room.
    pub(super) fn has_refused(&self) -> bool {
        self.refused.iter().any(Option::is_some)
    }

    /// A lane that refused a frame and now has room, for it and some more; told once for any number of refusals.
    pub(super) fn poll_room(&mut self) -> Option<Class> {
        let roomy = |&class: &Class| {
            let size = *self.refused.of(class);
            size.is_some_and(|size| self.full(class, size).is_none() && self.has_places(class))
        };
        let class = Class::ALL.into_iter().find(roomy)?;
        *self.refused.of_mut(class) = None;
        Some(class)
    }

    /// Whether places are free for as many frames as leave together, or one of the lane's own is.
    fn has_places(&self, class: Class) -> bool {
        let shared = self.shared().saturating_sub(self.shared_used());
        self.queued(class) < self.reserve(class) || shared >= ROOM_TOLD_PLACES
    }

    /// Why the lane has no room for a frame of this size, if it has none.
    fn full(&self, class: Class, size: usize) -> Option<SendError> {
        let queued = self.queued(class);
        if queued >= self.reserve(class) && self.shared_used() >= self.shared() {
            return Some(SendError::LaneFull { class, queued });
        }
        let more = self.over_bytes(class, size) - self.over_bytes(class, 0);
        let shared = self.shared_bytes() + more;
        if more > 0 && shared > QUEUED_MAX_BYTES.saturating_sub(LANES * self.rules.reserve_bytes) {
            let queued_bytes = *self.bytes.of(class);
            return Some(SendError::LaneFullBytes {
                class,
                queued_bytes,
            });
        }
        (more > 0 && shared > self.spare_bytes).then_some(SendError::NodeFull { class })
    }

    /// Bytes that the lane would hold beyond its reserve with so many more.
    fn over_bytes(&self, class: Class, more: usize) -> usize {
        let bytes = self.bytes.of(class).saturating_add(more);
        bytes.saturating_sub(self.rules.reserve_bytes)
    }

    /// Takes the next message among the lanes whose head `may_leave`, being of so many bytes and
    /// frames: the lane's first frame, and what else of the lane fits in one batch that may leave.
    /// `shorten` may give another form of a frame, told its lane and how many frames of the message go
    /// before it.
    pub(super) fn take(
        &mut self,
        may_leave: impl Fn(Class, usize, usize) -> bool,
        mut shorten: impl FnMut(Class, usize, &[u8]) -> Option<Vec<u8>>,
    ) -> Option<(Class, Leaving)> {
        let ready = |class| {
            let head = self.lanes.of(class).head_bytes();
            head.is_some_and(|bytes| may_leave(class, bytes, 1))
        };
        let lower = lower_from(self.next)
            .into_iter()
            .find(|&class| ready(class));
        let class = match (ready(Class::Control), lower) {
            (true, Some(lower)) if self.control_run >= self.rules.control_burst => lower,
            (true, _) => Class::Control,
            (false, lower) => lower?,
        };
        if class == Class::Control {
            let passed = u8::from(lower.is_some());
            self.control_run = self.control_run.saturating_add(passed);
        } else {
            self.control_run = 0;
            let [_, after, _] = lower_from(class);
            self.next = after;
        }
        let (leaving, taken_bytes) = self.lanes.of_mut(class).take(
            self.rules.batch_frames,
            |bytes, frames| may_leave(class, bytes, frames),
            |before, frame| shorten(class, before, frame),
        )?;
        let bytes = self.bytes.of_mut(class);
        *bytes = bytes.saturating_sub(taken_bytes);
        Some((class, leaving))
    }

    /// Frames of a lane that wait.
    pub(super) fn queued(&self, class: Class) -> usize {
        self.lanes.of(class).len()
    }

    /// Bytes of a lane that wait.
    pub(super) fn queued_lane_bytes(&self, class: Class) -> usize {
        *self.bytes.of(class)
    }

    /// Frames of all lanes that wait.
    pub(super) fn queued_total(&self) -> usize {
        self.lanes.iter().map(Waiting::len).sum()
    }

    /// Bytes of all lanes that wait.
    pub(super) fn queued_bytes(&self) -> usize {
        self.bytes.iter().sum()
    }

    /// Forgets everything that waits.
    pub(super) fn clear(&mut self) {
        self.lanes = PerLane::default();
        self.bytes = PerLane::default();
    }

    /// Places that only this class may use.
    const fn reserve(&self, class: Class) -> usize {
        match class {
            Class::Control => self.rules.control_reserve,
            _ => self.rules.data_reserve,
        }
    }

    /// Places that any class may use beyond its reserve.
    fn shared(&self) -> usize {
        let reserved: usize = Class::ALL
            .into_iter()
            .map(|class| self.reserve(class))
            .sum();
        QUEUED_MAX.saturating_sub(reserved)
    }

    fn shared_used(&self) -> usize {
        let over = |class| self.queued(class).saturating_sub(self.reserve(class));
        Class::ALL.into_iter().map(over).sum()
    }
}

/// The lower classes in the order of their turns, beginning with `first`.
const fn lower_from(first: Class) -> [Class; 3] {
    match first {
        Class::Control | Class::Storage => [Class::Storage, Class::E2e, Class::Application],
        Class::E2e => [Class::E2e, Class::Application, Class::Storage],
        Class::Application => [Class::Application, Class::Storage, Class::E2e],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::bounds::{
        CONTROL_BURST_MAX, CONTROL_RESERVE, DATA_RESERVE, LANES, QUEUED_SHARED,
    };

    fn fill(outbound: &mut Outbound, class: Class) -> usize {
        (0..)
            .take_while(|_| outbound.push(class, vec![0]).is_ok())
            .count()
    }

    #[test]
    fn law_a_full_lane_keeps_no_other_from_its_reserve() {
        for first in Class::ALL {
            let mut outbound = Outbound::new(Rules::PROTOCOL);
            let reserve = |class| match class {
                Class::Control => CONTROL_RESERVE,
                _ => DATA_RESERVE,
            };
            assert_eq!(fill(&mut outbound, first), reserve(first) + QUEUED_SHARED);
            for class in Class::ALL.into_iter().filter(|&class| class != first) {
                assert_eq!(fill(&mut outbound, class), reserve(class), "{class}");
            }
            assert_eq!(outbound.queued_total(), QUEUED_MAX);
            let queued = outbound.queued(first);
            let class = first;
            assert_eq!(
                outbound.push(class, vec![0]),
                Err(SendError::LaneFull { class, queued })
            );
        }
    }

    #[test]
    fn a_lane_that_refused_tells_once_that_it_has_room() {
        let mut outbound = Outbound::new(Rules::PROTOCOL);
        fill(&mut outbound, Class::E2e);
        assert!(outbound.push(Class::E2e, vec![0]).is_err());
        assert_eq!(outbound.poll_room(), None);
        outbound.take(|_, _, _| true, |_, _, _| None).unwrap();
        assert_eq!(outbound.poll_room(), Some(Class::E2e));
        assert_eq!(outbound.poll_room(), None);
        assert_eq!(outbound.push(Class::E2e, vec![0]), Ok(()));
    }

    #[test]
    fn a_full_lane_tells_of_room_when_a_batch_finds_it_or_a_place_of_its_own() {
        let rules = Rules {
            batch_frames: 1,
            ..Rules::PROTOCOL
        };
        let mut outbound = Outbound::new(rules);
        fill(&mut outbound, Class::E2e);
        for _ in 1..ROOM_TOLD_PLACES {
            outbound.take(|_, _, _| true, |_, _, _| None).unwrap();
            assert_eq!(outbound.poll_room(), None);
        }
        outbound.take(|_, _, _| true, |_, _, _| None).unwrap();
        assert_eq!(outbound.poll_room(), Some(Class::E2e));
        // Another holds all that is shared.
        let mut outbound = Outbound::new(rules);
        fill(&mut outbound, Class::Application);
        fill(&mut outbound, Class::Storage);
        assert_eq!(outbound.poll_room(), None);
        let storage = |class, _, _| class == Class::Storage;
        outbound.take(storage, |_, _, _| None).unwrap();
        assert_eq!(outbound.poll_room(), Some(Class::Storage));
        assert_eq!(outbound.poll_room(), None);
    }

    #[test]
    fn a_lane_without_a_reserve_is_shut_out_by_another() {
        let broken = Rules {
            data_reserve: 0,
            control_reserve: 0,
            ..Rules::PROTOCOL
        };
        let mut outbound = Outbound::new(broken);
        assert_eq!(fill(&mut outbound, Class::Application), QUEUED_MAX);
        assert_eq!(fill(&mut outbound, Class::Control), 0);
    }

    /// Takes everything from full lanes; the longest run of control while others waited, and the
    /// longest wait of a data lane between its turns.
    fn runs(rules: Rules) -> (usize, usize) {
        // Turns are counted in messages.
        let rules = Rules {
            batch_frames: 1,
            ..rules
        };
        let mut outbound = Outbound::new(rules);
        for _ in 0..40 {
            for class in Class::ALL {
                outbound.push(class, vec![0]).unwrap();
            }
        }
        let mut order = Vec::new();
        while let Some((class, _)) = outbound.take(|_, _, _| true, |_, _, _| None) {
            order.push(class);
        }
        assert_eq!(order.len(), 40 * LANES);
        let contended = order.iter().rposition(|&class| class != Class::Control);
        let contended = &order[..contended.unwrap()];
        let run = |belongs: &dyn Fn(Class) -> bool| {
            let stretches = contended.split(|&class| !belongs(class));
            stretches.map(<[Class]>::len).max().unwrap()
        };
        let control = run(&|class| class == Class::Control);
        let lower = order.iter().filter(|&&class| class != Class::Control);
        let turns: Vec<_> = lower.copied().collect();
        let wait = turns
            .split(|&class| class == Class::Storage)
            .map(<[Class]>::len)
            .max();
        (control, wait.unwrap())
    }

    #[test]
    fn law_control_goes_first_but_lower_classes_get_their_turns() {
        assert_eq!(
            runs(Rules::PROTOCOL),
            (usize::from(CONTROL_BURST_MAX), LANES - 2)
        );
    }

    #[test]
    fn an_unbounded_control_burst_starves_the_lower_classes() {
        let broken = Rules {
            control_burst: u8::MAX,
            ..Rules::PROTOCOL
        };
        assert_eq!(runs(broken).0, 40);
    }
}
