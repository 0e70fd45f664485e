//! Laws of references, judged by what applications asked, were answered and were handed: **nothing is served once it
//! was taken back**, over all lives of its owner; **a call is served once**, and again only after a restart; **an answer
//! is its call's**.

use std::collections::BTreeSet;

use super::Map;

/// An object that an application shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::sim) struct Shared {
    /// Whose.
    pub(in crate::sim) node: usize,
    /// Which one of the simulation.
    pub(in crate::sim) number: u64,
}

/// A law that did not hold, and what broke it.
type Broke = (&'static str, String);

const SERVED: &str = "nothing is served once it was taken back";
const ONCE: &str = "a call is served once";
const ANSWER: &str = "an answer is its call's";

/// What applications know of what they share.
#[derive(Debug, Default)]
pub(in crate::sim) struct SharedWatch {
    /// Its owner was answered that it is taken back.
    taken_back: BTreeSet<Shared>,
    called: Map<u64, Shared>,
    served: BTreeSet<u64>,
}

impl SharedWatch {
    /// An owner was answered that it took this back.
    pub(in crate::sim) fn taken_back(&mut self, of: Shared) {
        self.taken_back.insert(of);
    }

    pub(in crate::sim) fn is_taken_back(&self, of: Shared) -> bool {
        self.taken_back.contains(&of)
    }

    /// Somebody calls it.
    pub(in crate::sim) fn called(&mut self, number: u64, of: Shared) {
        self.called.insert(number, of);
    }

    /// Its owner answers for it again, in another life; `live` for one that works.
    pub(in crate::sim) fn attached(&self, of: Shared, live: bool) -> Result<(), Broke> {
        match live && self.is_taken_back(of) {
            true => Err((SERVED, format!("{of:?} works again after a restart"))),
            false => Ok(()),
        }
    }

    /// A call with these bytes is handed to who answers for `of`; whether for the first time in this life, and as one
    /// that may have been handed over before.
    pub(in crate::sim) fn served(
        &mut self,
        of: Option<Shared>,
        bytes: &[u8],
        (first, again): (bool, bool),
    ) -> Result<(), Broke> {
        let number = bytes.try_into().map(u64::from_be_bytes);
        let number = number.map_err(|_| (ANSWER, "a call that nobody made".to_owned()))?;
        let called = self.called.get(&number).copied();
        if called.is_none() || called != of {
            return Err((
                ANSWER,
                format!("call {number} of {called:?} came to {of:?}"),
            ));
        }
        let before = !self.served.insert(number);
        if !first || before && !again {
            return Err((ONCE, format!("call {number} is handed over twice")));
        }
        // What was handed over before it was taken back may be handed over again, to be answered.
        match of.filter(|of| !before && self.is_taken_back(*of)) {
            Some(of) => Err((SERVED, format!("call {number} to {of:?} is handed over"))),
            None => Ok(()),
        }
    }

    /// A call was answered with data.
    pub(in crate::sim) fn answered(
        &self,
        number: u64,
        of: Shared,
        bytes: &[u8],
    ) -> Result<(), Broke> {
        let own = bytes == number.to_be_bytes() && self.served.contains(&number);
        match own && self.called.get(&number) == Some(&of) {
            true => Ok(()),
            false => Err((ANSWER, format!("call {number} was answered with {bytes:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Shared = Shared { node: 1, number: 7 };
    const OTHER: Shared = Shared { node: 2, number: 8 };

    fn law(judged: Result<(), Broke>) -> Option<&'static str> {
        judged.err().map(|(law, _)| law)
    }

    #[test]
    fn law_what_is_served_late_twice_or_elsewhere_is_noticed() {
        let mut watch = SharedWatch::default();
        for number in 1..=4_u64 {
            watch.called(number, ONE);
        }
        let bytes = u64::to_be_bytes;
        let served = |watch: &mut SharedWatch, of, number: u64, how| {
            law(watch.served(Some(of), &bytes(number), how))
        };
        assert_eq!(served(&mut watch, ONE, 1, (true, false)), None);
        assert_eq!(served(&mut watch, ONE, 1, (true, true)), None, "a restart");
        assert_eq!(served(&mut watch, ONE, 1, (true, false)), Some(ONCE));
        assert_eq!(served(&mut watch, ONE, 1, (false, true)), Some(ONCE));
        assert_eq!(served(&mut watch, OTHER, 2, (true, false)), Some(ANSWER));
        assert_eq!(served(&mut watch, ONE, 9, (true, false)), Some(ANSWER));
        assert_eq!(law(watch.answered(1, ONE, &bytes(1))), None);
        assert_eq!(law(watch.answered(1, ONE, &bytes(2))), Some(ANSWER));
        assert_eq!(
            law(watch.answered(3, ONE, &bytes(3))),
            Some(ANSWER),
            "unserved"
        );
        assert_eq!(law(watch.attached(ONE, true)), None);
        watch.taken_back(ONE);
        assert_eq!(law(watch.attached(ONE, false)), None);
        assert_eq!(law(watch.attached(ONE, true)), Some(SERVED));
        assert_eq!(
            served(&mut watch, ONE, 1, (true, true)),
            None,
            "begun before"
        );
        assert_eq!(served(&mut watch, ONE, 4, (true, false)), Some(SERVED));
    }
}
