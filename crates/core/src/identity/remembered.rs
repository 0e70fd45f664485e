//! What signatures were found to be, remembered for a simulation in which many nodes check the same ones.
//!
//! Whether a key made a signature of a message is a function of those bytes alone, so that asking once is
//! asking as often as one likes: a run is the same with and without. Every verdict was found by the check that
//! a daemon makes, and one that does not hold is remembered too; or the key itself made the signature here, by
//! the code of a daemon, and such a one holds. Outside [`remembering`], in any other thread and in a daemon,
//! nothing is remembered.

use std::cell::RefCell;
use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::Signature;

/// Verdicts that are kept of each generation: the older one goes when the newer one is full.
pub const REMEMBERED_MAX: usize = 32_768;

/// Key, message and signature.
type Asked = [u8; 128];

/// The table is bounded: signatures that were made to collide would cost time alone.
type Found = HashMap<Asked, bool, FixedState>;

#[derive(Debug, Default)]
struct Verdicts {
    newer: Found,
    older: Found,
    counts: Remembered,
}

/// Signatures that were checked, and how often that was remembered instead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Signatures that were checked.
    pub checked: u64,
    /// Times that one was asked for again.
    pub asked_again: u64,
    /// Signatures that were made.
    pub made: u64,
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

/// That `key` made this signature of the message.
pub(super) fn made(key: &[u8; 32], message: &[u8; 32], signature: &Signature) {
    VERDICTS.with_borrow_mut(|verdicts| {
        if let Some(verdicts) = verdicts {
            verdicts.counts.made += 1;
            verdicts.keep(asked(key, message, signature), true);
        }
    });
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
        self.keep(asked, holds);
        holds
    }

    fn keep(&mut self, asked: Asked, holds: bool) {
        if self.newer.len() >= REMEMBERED_MAX {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(asked, holds);
    }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::super::delegatee::{Delegatee, verify_strict};
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

    #[test]
    fn what_a_key_made_holds_as_the_check_would_find_and_nothing_beside_it_does() {
        for number in 0..64u8 {
            let keys = [number, !number].map(|it| Delegatee::from_seed(Zeroizing::new([it; 32])));
            let [own, other] = keys.each_ref().map(|it| *it.key().as_bytes());
            let (signature, counts) = remembering(|| {
                let signature = keys[0].sign(&[number; 32]);
                assert!(verdict(&own, &[number; 32], &signature, || false));
                assert!(!verdict(&own, &[number ^ 1; 32], &signature, || false));
                assert!(!verdict(&other, &[number; 32], &signature, || false));
                let mut forged = signature;
                forged.0[usize::from(number)] ^= 1;
                assert!(!verdict(&own, &[number; 32], &forged, || false));
                signature
            });
            assert_eq!((counts.made, counts.checked, counts.asked_again), (1, 3, 1));
            let strict = |key: &[u8; 32]| {
                let key = ed25519_dalek::VerifyingKey::from_bytes(key).unwrap();
                verify_strict(&key, &[number; 32], &signature)
            };
            assert!(strict(&own) && !strict(&other), "{number}");
        }
    }
}
