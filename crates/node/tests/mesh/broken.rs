//! Meshes with one part broken on purpose: the law that the part keeps has to say so.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What is broken between a peer and what it drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A batch is told to be durable as it is handed over; it is written later, or never.
    DurableBeforeItIs,
    /// A store's failure is told as a success.
    StoreFailureSwallowed,
    /// A worker's answer goes to another frame than the one it checked.
    AnswersOfWorkersSwapped,
    /// The credit of a refused frame does not go back.
    RefusedFrameNotCredited,
    /// A frame waits for what it lacks while those behind it pass.
    FrameHeldBack,
    /// The places of messages are free before the application took them.
    PlacesFreedBeforeTaken,
    /// A message that is to be sealed is sent as it is.
    SentPlain,
    /// What a worker sealed or opened goes to another message than the one it was.
    AnswersOfSealersSwapped,
    /// A wish to take a message back is forgotten while the driver has it in hand.
    CancelForgottenInHand,
    /// What a keeper of mail tells is told before its store has it.
    MailToldBeforeDurable,
    /// Holders are told to let go of mail when it is in custody, and was not taken.
    MailReleasedUntaken,
    /// A holder that leaves a chain lets go of its mail before the chain has it.
    MailDroppedByLeaver,
    /// A sender says to nobody that it is not linked to that it is here.
    HeirsNotSought,
    /// Nobody is told that a keeper of mail broke off.
    KeeperBreaksUntold,
    /// Those behind a place forget the keys of whom they met.
    KeysForgottenBehind,
}

thread_local!(static BROKEN: Cell<Option<Broken>> = const { Cell::new(None) });

/// What is broken in the meshes that this thread makes.
pub(crate) fn now() -> Option<Broken> {
    BROKEN.get()
}

/// Runs a law's test over meshes that are broken, and gives the words it fails with.
pub(crate) fn caught(broken: Broken, law: fn()) -> String {
    BROKEN.set(Some(broken));
    let said = catch_unwind(AssertUnwindSafe(law));
    BROKEN.set(None);
    let Err(said) = said else {
        panic!("{broken:?} was not caught");
    };
    match said.downcast::<String>() {
        Ok(said) => *said,
        Err(said) => (*said.downcast::<&str>().expect("words")).to_owned(),
    }
}
