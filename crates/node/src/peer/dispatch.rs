//! Places on the application's side: one bounded queue a class.
//!
//! Law **room**: a message is staged for admission only while it holds a place in its class's
//! queue, so what was admitted always has somewhere to go and is never dropped. A full queue
//! leaves the class's next frames where they are: verified, not admitted, their credit not
//! returned, so the far side stops. Peers take turns for the places that come free, each within its
//! share (law **share**), so that one lane whose messages are not taken leaves places to the others.
//! Source: protocol decision 4 (order at the destination).

use std::collections::VecDeque;

use overlane_core::{Class, Did};

use super::share::Shares;

/// Messages of one class that are staged, or admitted and not yet taken by the application. A lane
/// holds its share of them.
pub const DISPATCH_QUEUE_MAX: usize = 256;

/// Bytes of them; a message that finds none held is taken whatever it is.
pub const DISPATCH_QUEUE_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Names the place of one message on the application's side until it is free again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlaceId(pub u64);

/// The places of all classes, and the lanes that wait for one.
#[derive(Debug, Default)]
pub(super) struct Dispatch {
    classes: [Places; Class::ALL.len()],
}

#[derive(Debug)]
struct Places {
    shares: Shares,
    waiting: VecDeque<(Did, u64)>,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            shares: Shares::new(DISPATCH_QUEUE_MAX, DISPATCH_QUEUE_MAX_BYTES),
            waiting: VecDeque::new(),
        }
    }
}

impl Dispatch {
    /// Holds so many bytes of each class at most.
    pub(super) fn set_max_bytes(&mut self, max_bytes: u64) {
        for places in &mut self.classes {
            places.shares.set_max_bytes(max_bytes);
        }
    }

    /// Bytes of the class that is fullest, or was: the most there may be, held now, the most ever.
    pub(super) fn bytes(&self) -> [u64; 3] {
        let classes = self.classes.iter().map(|places| places.shares.bytes());
        classes.fold([0; 3], |[max, held, most], [a, b, c]| {
            [max.max(a), held.max(b), most.max(c)]
        })
    }

    /// Takes a place for a lane's next message of so many bytes, or notes that the lane waits for its
    /// turn.
    pub(super) fn take_place(&mut self, class: Class, peer: Did, bytes: u64) -> bool {
        let places = self.of(class);
        let waits = places.waiting.iter().any(|(waits, _)| *waits == peer);
        if !waits && places.shares.take(peer, bytes) {
            return true;
        }
        if !waits {
            places.waiting.push_back((peer, bytes));
        }
        false
    }

    /// The lane whose turn it is, with a place taken for it; `None` when no lane waits or none of
    /// them may take a place.
    pub(super) fn next_turn(&mut self, class: Class) -> Option<(Did, u64)> {
        let places = self.of(class);
        let shares = &mut places.shares;
        let turn = places
            .waiting
            .iter()
            .position(|&(peer, bytes)| shares.take(peer, bytes))?;
        places.waiting.remove(turn)
    }

    /// Gives the place of a message of so many bytes back.
    pub(super) fn free_place(&mut self, class: Class, peer: Did, bytes: u64) {
        self.of(class).shares.give_back(peer, bytes);
    }

    /// Gives the bytes of a message back that holds its place on.
    pub(super) fn free_bytes(&mut self, class: Class, peer: Did, bytes: u64) {
        self.of(class).shares.give_back_bytes(peer, bytes);
    }

    /// Places held now, and the most ever held, over all classes in order.
    pub(super) fn occupancy(&self) -> [(usize, usize); Class::ALL.len()] {
        [0, 1, 2, 3].map(|index| {
            self.classes.get(index).map_or((0, 0), |places: &Places| {
                (places.shares.places(), places.shares.high_water())
            })
        })
    }

    fn of(&mut self, class: Class) -> &mut Places {
        let [control, storage, e2e, application] = &mut self.classes;
        match class {
            Class::Control => control,
            Class::Storage => storage,
            Class::E2e => e2e,
            Class::Application => application,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_room_a_full_class_holds_itself_only_and_lanes_take_turns() {
        let mut dispatch = Dispatch::default();
        let (first, second, third) = (Did([1; 20]), Did([2; 20]), Did([3; 20]));
        let half = DISPATCH_QUEUE_MAX / 2;
        for _ in 0..half {
            assert!(dispatch.take_place(Class::Application, first, 10));
        }
        // A lane that is over its share waits, and keeps no other out.
        assert!(!dispatch.take_place(Class::Application, first, 10));
        for _ in 0..half / 2 {
            assert!(dispatch.take_place(Class::Application, second, 10));
        }
        assert!(!dispatch.take_place(Class::Application, second, 10));
        assert!(dispatch.take_place(Class::Control, first, 10));
        assert_eq!(dispatch.next_turn(Class::Application), None);

        // Places come free: whose turn it is goes by who waited first, within its share.
        for _ in 0..half / 2 {
            dispatch.free_place(Class::Application, first, 10);
        }
        assert_eq!(dispatch.next_turn(Class::Application), Some((first, 10)));
        assert!(dispatch.take_place(Class::Application, third, 10));
        assert_eq!(dispatch.next_turn(Class::Application), Some((second, 10)));
        assert_eq!(dispatch.next_turn(Class::Application), None);
        assert_eq!(dispatch.occupancy()[3], (half + 3, half + half / 2));
    }

    #[test]
    fn law_room_a_class_holds_no_more_bytes_than_its_bound() {
        let mut dispatch = Dispatch::default();
        let (first, second) = (Did([1; 20]), Did([2; 20]));
        let half = DISPATCH_QUEUE_MAX_BYTES / 2;
        assert!(dispatch.take_place(Class::Storage, first, half));
        assert!(!dispatch.take_place(Class::Storage, first, 1));
        assert!(dispatch.take_place(Class::Storage, second, half));
        assert!(!dispatch.take_place(Class::Storage, second, 1));
        assert!(dispatch.take_place(Class::E2e, second, half));
        dispatch.free_place(Class::Storage, first, half);
        assert_eq!(dispatch.next_turn(Class::Storage), Some((first, 1)));
        // Alone, any message is taken.
        dispatch.free_place(Class::Storage, second, half);
        dispatch.free_place(Class::Storage, first, 1);
        assert_eq!(dispatch.next_turn(Class::Storage), Some((second, 1)));
        dispatch.free_place(Class::Storage, second, 1);
        assert!(dispatch.take_place(Class::Storage, first, 2 * DISPATCH_QUEUE_MAX_BYTES));
        assert!(!dispatch.take_place(Class::Storage, second, 1));
    }
}
