//! What goes wrong with mail: sending it, holding it, taking it.

use super::{Entry, NOTHING, entry};

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "inbox/busy",
        "A node was asked to hold more mail at once than it looks up holders for.",
        "send it again: others may hold it already",
    ),
    entry(
        "inbox/custody_full",
        "As many mails are here and were not taken as may be: no other comes, and none can be probed with.",
        "take some: `{overlane} inbox take --all`; what more there is waits at its holders until then",
    ),
    entry(
        "inbox/empty",
        "No mail waits to be taken here.",
        "`{overlane} inbox list --fetch` asks those who hold some for this node",
    ),
    entry(
        "inbox/inboxes_full",
        "A node holds as many inboxes as it may, and holds no other.",
        "send it again later; its other holders may have room",
    ),
    entry(
        "inbox/no_holder",
        "The destination does not answer, and the ring names nobody who would hold mail for it.",
        "see that this node is in a ring: `{overlane} status`; then send it again",
    ),
    entry(
        "inbox/no_store",
        "A node was started without a store of mail: it holds none, and sends none to be held.",
        "run it with a home, or give its builder a store of mail",
    ),
    entry(
        "inbox/not_a_holder",
        "A node was asked to hold mail for an account that it does not lie behind on the ring.",
        "send it again: the ring has changed, and is asked anew",
    ),
    entry(
        "inbox/not_fresh",
        "The proof of a message had ended by the clock of the node that was to hold it.",
        "send the message again; if that helps nothing, compare the clocks",
    ),
    entry(
        "inbox/not_held",
        "The destination does not answer, and none of the nodes that would hold mail for it does.",
        "the message says what each of them says; explain those codes, or send it again later",
    ),
    entry(
        "inbox/not_waiting",
        "No mail with this digest waits to be taken here: it was taken, or is still with its holders.",
        "`{overlane} inbox list --fetch` shows what waits",
    ),
    entry(
        "inbox/removed",
        "A mail was taken by its destination before; it is not held again.",
        NOTHING,
    ),
    entry(
        "inbox/store_failed",
        "The store of mail failed: nothing is held, fetched or taken until the node is started again.",
        "see the log for the cause, mend the disk, and start the node again",
    ),
    entry(
        "inbox/store_unreadable",
        "The store of mail in the home cannot be read.",
        "the message says why; what others hold for this node is not in it",
    ),
    entry(
        "inbox/too_many_sends",
        "As many messages as may be wait to be delivered or held.",
        "wait for one of them",
    ),
];
