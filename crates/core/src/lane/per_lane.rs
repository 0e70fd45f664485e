//! One value a lane.

use super::bounds::LANES;
use crate::ids::Class;

/// One value for each class's lane, in channel order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PerLane<T>(pub [T; LANES]);

impl<T> PerLane<T> {
    /// The value of this class's lane.
    pub const fn of(&self, class: Class) -> &T {
        let [control, storage, e2e, application] = &self.0;
        match class {
            Class::Control => control,
            Class::Storage => storage,
            Class::E2e => e2e,
            Class::Application => application,
        }
    }

    /// The value of this class's lane, to change.
    pub const fn of_mut(&mut self, class: Class) -> &mut T {
        let [control, storage, e2e, application] = &mut self.0;
        match class {
            Class::Control => control,
            Class::Storage => storage,
            Class::E2e => e2e,
            Class::Application => application,
        }
    }

    /// All values, in channel order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// All values with their classes, in channel order, to change.
    pub fn each_mut(&mut self) -> impl Iterator<Item = (Class, &mut T)> {
        Class::ALL.into_iter().zip(&mut self.0)
    }

    /// All values with their classes, in channel order.
    pub fn each(&self) -> impl Iterator<Item = (Class, &T)> {
        Class::ALL.into_iter().zip(&self.0)
    }
}
