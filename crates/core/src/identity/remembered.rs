//! What signatures were found to be, remembered for a simulation in which many nodes check the same ones.
//!
//! Whether a key made a signature of a message is a function of those bytes alone, so that asking once is
//! asking as often as one likes: a run is the same with and without. Every verdict was found by the check that
//! a daemon makes; one that does not hold is remembered too. Outside [`remembering`], in any other thread and in
//! a daemon, nothing is remembered.

use std::cell::RefCell;
use std::collections::HashMap;

use super::Signature;

/// Verdicts that are kept of each generation: the older one goes when the newer one is full.
pub const REMEMBERED_MAX: usize = 32_768;

/// Key, message and signature.
type Asked = [u8; 128];

#[derive(Debug, Default)]
struct Verdicts {
    newer: HashMap<Asked, bool>,
    older: HashMap<Asked, bool>,
    counts: Remembered,
}

/// Signatures that were checked, and how often that was remembered instead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Signatures that were checked.
    pub checked: u64,
    /// Times that one was asked for again.
    pub asked_again: u64,
}

thread_local! {
    static VERDICTS: RefCell<Option<Verdicts>> = const { RefCell::new(None) };
}

/// Remembers what signatures were found to be while `run` runs in this thread.
pub fn remembering<R>(run: impl FnOnce() -> R) -> (R, Remembered) {
    let outer = VERDICTS.replace(Some(Verdicts::default()));
    let result = run();
    let verdicts = VERDICTS.replace(outer);
    (result, verdicts.unwrap_or_default().counts)
}

/// What `check` finds of these, or found before.
pub(super) fn verdict(
    key: &[u8; 32],
    message: &[u8],
    signature: &Signature,
    check: impl FnOnce() -> bool,
) -> bool {
    let Ok(message) = <&[u8; 32]>::try_from(message) else {
        return check();
    };
    VERDICTS.with_borrow_mut(|verdicts| match verdicts {
        Some(verdicts) => verdicts.of(asked(key, message, signature), check),
        None => check(),
    })
}

fn asked(key: &[u8; 32], message: &[u8; 32], signature: &Signature) -> Asked {
    let mut asked = [0; 128];
    let parts = key.iter().chain(message).chain(&signature.0);
    for (byte, of) in asked.iter_mut().zip(parts) {
        *byte = *of;
    }
    asked
}

impl Verdicts {
    fn of(&mut self, asked: Asked, check: impl FnOnce() -> bool) -> bool {
        let found = self.newer.get(&asked).or_else(|| self.older.get(&asked));
        if let Some(&holds) = found {
            self.counts.asked_again += 1;
            return holds;
        }
        self.counts.checked += 1;
        let holds = check();
        if self.newer.len() >= REMEMBERED_MAX {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(asked, holds);
        holds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(number: usize) -> Signature {
        let mut bytes = [0; 64];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        Signature(bytes)
    }

    #[test]
    fn each_verdict_is_its_own_and_none_is_kept_beyond_its_bound_or_outside() {
        let found = |number: usize, check: bool| {
            let mut asked = false;
            let check = || {
                asked = true;
                check
            };
            (
                verdict(&[1; 32], &[2; 32], &signature(number), check),
                asked,
            )
        };
        let ((), counts) = remembering(|| {
            assert_eq!(found(1, true), (true, true));
            assert_eq!(found(2, false), (false, true));
            assert_eq!(found(1, false), (true, false));
            assert_eq!(found(2, true), (false, false));
            // Another key, another message, another length.
            assert!(!verdict(&[3; 32], &[2; 32], &signature(1), || false));
            assert!(!verdict(&[1; 32], &[3; 32], &signature(1), || false));
            assert!(!verdict(&[1; 32], &[2; 31], &signature(1), || false));
            for number in 3..=2 * REMEMBERED_MAX {
                found(number, true);
            }
            assert_eq!(found(1, false), (false, true));
            let ((), inner) = remembering(|| assert_eq!(found(1, true), (true, true)));
            assert_eq!((inner.checked, inner.asked_again), (1, 0));
            assert_eq!(found(1, true), (false, false));
            VERDICTS.with_borrow(|verdicts| {
                let verdicts = verdicts.as_ref().unwrap();
                assert!(verdicts.newer.len() <= REMEMBERED_MAX);
                assert!(verdicts.older.len() <= REMEMBERED_MAX);
            });
        });
        assert_eq!(counts.asked_again, 3);
        assert_eq!(found(1, true), (true, true));
        assert_eq!(found(1, false), (false, true));
    }
}
