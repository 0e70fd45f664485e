//! What goes wrong with references between nodes.

use super::{Entry, NOTHING, THEIRS, entry};

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "refs/ack_beyond_sent",
        "The other node acknowledges what was never sent to it; what was shared with it is lost.",
        THEIRS,
    ),
    entry(
        "refs/ack_deadline",
        "The other node was linked for a minute and did not acknowledge; what was shared with it is lost.",
        "see why it stands still; then fetch what it shared again",
    ),
    entry(
        "refs/already_revoked",
        "The reference was taken back before.",
        "`{overlane} ref revoke --hard` takes its identity, too",
    ),
    entry(
        "refs/bad_ticket",
        "The text is no ticket.",
        "copy the whole line that begins with \"ref:\"",
    ),
    entry(
        "refs/busy",
        "The node that was called works on as many calls as it takes from one sender.",
        "wait for answers, then call again",
    ),
    entry(
        "refs/cannot_send_to_data",
        "The promise that was called became data, which takes no calls.",
        NOTHING,
    ),
    entry(
        "refs/disconnected",
        "What was shared with the node is lost: one of the two lost its store, or ended it.",
        "get the reference again: `{overlane} fetch TICKET`",
    ),
    entry(
        "refs/double_drop",
        "The other node dropped what it had dropped; what was shared with it is lost.",
        THEIRS,
    ),
    entry(
        "refs/ended",
        "What was shared with a node was ended here.",
        NOTHING,
    ),
    entry(
        "refs/exports_full",
        "As many services are offered as may.",
        "revoke and drop some: `{overlane} ref list`",
    ),
    entry(
        "refs/forged_ref",
        "The other node names a reference that it was never given; what was shared with it is lost.",
        THEIRS,
    ),
    entry(
        "refs/held_elsewhere",
        "Other nodes hold what was to be let go of.",
        "take it back first: `{overlane} ref revoke NUMBER --reason TEXT`",
    ),
    entry(
        "refs/id_jump",
        "The other node skipped a number for a reference; what was shared with it is lost.",
        THEIRS,
    ),
    entry(
        "refs/id_reuse",
        "The other node used a number for a reference again; what was shared with it is lost.",
        THEIRS,
    ),
    entry(
        "refs/kept_full",
        "As many references are kept as may.",
        "drop some: `{overlane} ref list`",
    ),
    entry(
        "refs/kind_mismatch",
        "The other node took an object for a promise, or a promise for an object; what was shared with it is lost.",
        THEIRS,
    ),
    entry(
        "refs/limit_exceeded",
        "The other node went over a limit that was agreed on; what was shared with it is lost.",
        THEIRS,
    ),
    entry(
        "refs/link_open",
        "An epoch with that node lasts already.",
        NOTHING,
    ),
    entry(
        "refs/malformed",
        "The other node sent bytes that are no frame of references; what was shared with it is lost.",
        THEIRS,
    ),
    entry(
        "refs/misdirected",
        "The other node called an object of its own here; what was shared with it is lost.",
        THEIRS,
    ),
    entry(
        "refs/no_answer",
        "The node is linked, and does not answer about references.",
        "see that it runs a version that shares references, and that its disk has room",
    ),
    entry(
        "refs/no_link",
        "Nothing is shared with that node any more.",
        "get the reference again: `{overlane} fetch TICKET`",
    ),
    entry(
        "refs/no_store",
        "The node was given no store of references, and refuses everything about them.",
        "give its builder one: `refs_store`",
    ),
    entry(
        "refs/no_such_call",
        "The call is answered already.",
        NOTHING,
    ),
    entry(
        "refs/not_decider",
        "The other node resolved a promise that it does not decide; what was shared with it is lost.",
        THEIRS,
    ),
    entry(
        "refs/not_exported",
        "The other node took back what is not its own; what was shared with it is lost.",
        THEIRS,
    ),
    entry(
        "refs/not_held",
        "The other node dropped what it does not hold; what was shared with it is lost.",
        THEIRS,
    ),
    entry(
        "refs/not_kept",
        "No reference is kept under that number.",
        "see which are: `{overlane} ref list`",
    ),
    entry(
        "refs/not_open",
        "The promise is not this node's to resolve, or is resolved.",
        NOTHING,
    ),
    entry(
        "refs/not_owner",
        "The reference is another node's, and only its owner can do that.",
        "drop it instead: `{overlane} ref drop NUMBER`",
    ),
    entry(
        "refs/note_too_long",
        "The note beside a kept reference is over its bound.",
        NOTHING,
    ),
    entry(
        "refs/other_epoch",
        "The other node has begun anew, so what was shared with it is lost.",
        "get the references again: `{overlane} fetch TICKET`",
    ),
    entry(
        "refs/other_node",
        "Another node answers at the address in the ticket.",
        "ask who shared it where the node is now; then `{overlane} peer add URL`, and fetch again",
    ),
    entry(
        "refs/peer_closed",
        "The other node ended what was shared with it; its reason is in the message.",
        "get the references again: `{overlane} fetch TICKET`",
    ),
    entry(
        "refs/peer_rolled_back",
        "The other node forgot what it had acknowledged: its store was put back to an earlier state. What was shared with it is lost.",
        "tell its operator; then get the references again",
    ),
    entry(
        "refs/peers_full",
        "References are shared with as many nodes as may, and all are in use.",
        "drop some: `{overlane} ref list`",
    ),
    entry(
        "refs/queue_full",
        "Too many messages wait for one promise.",
        "wait until it is resolved",
    ),
    entry(
        "refs/reference_not_held",
        "The reference was let go of, or never given.",
        NOTHING,
    ),
    entry(
        "refs/refused",
        "The service that was called refused; its words are in the message.",
        NOTHING,
    ),
    entry(
        "refs/repeated_revoke",
        "The other node took back what it had taken back; what was shared with it is lost.",
        THEIRS,
    ),
    entry(
        "refs/resolved_to_promise",
        "A promise was resolved to another one, which is not done.",
        NOTHING,
    ),
    entry(
        "refs/revoked",
        "The reference was taken back by its owner; why is in the message.",
        "ask its owner for another ticket",
    ),
    entry(
        "refs/service_ended",
        "The program behind the reference ended, and was not to be started again.",
        "ask its owner for another reference",
    ),
    entry(
        "refs/soft_violations",
        "The other node called what it knew to be taken back, again and again; what was shared with it is lost.",
        THEIRS,
    ),
    entry(
        "refs/store_closed",
        "The store of references failed before.",
        "start the node again",
    ),
    entry(
        "refs/store_corrupt",
        "What the store of references holds contradicts itself; none of it is used.",
        "restore HOME/references from a backup, or move it aside: then every reference is lost, here and at those who hold them",
    ),
    entry(
        "refs/store_failed",
        "The store of references could not make something durable, so everything about references is refused.",
        "see that the disk has room and can be written, then start the node again",
    ),
    entry(
        "refs/store_unreadable",
        "The store of references cannot be read, so the node does not start without it.",
        "see whether HOME/references can be read and written, and that no other process has it",
    ),
    entry(
        "refs/table_full",
        "The other node holds as many references as it may.",
        "revoke some, or wait until it drops them",
    ),
    entry(
        "refs/taboo",
        "The message speaks of an object that was taken back for good.",
        NOTHING,
    ),
    entry(
        "refs/tickets_full",
        "As many tickets lead to the reference as may.",
        "share it anew",
    ),
    entry(
        "refs/to_itself",
        "The reference is this node's own.",
        NOTHING,
    ),
    entry(
        "refs/too_large",
        "The message does not fit a frame of references.",
        "send it in parts",
    ),
    entry(
        "refs/too_many_resolutions",
        "The message speaks of too many promises that became something.",
        "send it in parts",
    ),
    entry(
        "refs/too_many_waiting",
        "Too many requests wait until something is shared with that node.",
        "wait for one of them",
    ),
    entry(
        "refs/undeliverable",
        "A bound on the way to the reference, or in it, was reached.",
        "call again later; if it stays so, with less",
    ),
    entry(
        "refs/unknown_ref",
        "The other node names a reference that it had let go of; what was shared with it is lost.",
        THEIRS,
    ),
    entry(
        "refs/unknown_ticket",
        "The node does not know the ticket: it was dropped, or is another node's.",
        "ask who shared it for another",
    ),
    entry(
        "refs/unreachable",
        "No link leads to the node.",
        "see how the link is: `{overlane} peer list`",
    ),
    entry(
        "refs/we_rolled_back",
        "This node forgot what it had sent or acknowledged: its store was put back to an earlier state. What was shared with that node is lost.",
        "get the references again; look after HOME/references",
    ),
    entry(
        "refs/window_full",
        "The other node has not acknowledged what was sent to it.",
        "wait for answers, then call again",
    ),
    entry(
        "share/cut_short",
        "The node stopped, or lost what it was fetching.",
        "start it again, and fetch again: it goes on from what is here",
    ),
    entry(
        "share/exists",
        "Where the file is to go, something is.",
        "`{overlane} fetch TICKET -o OTHER-NAME`",
    ),
    entry(
        "share/io",
        "A file could not be read or written.",
        "see the platform's words in the message",
    ),
    entry(
        "share/no_file",
        "The path leads to nothing that can be shared.",
        "share a file; a folder goes as an archive",
    ),
    entry(
        "share/not_a_file",
        "What the ticket leads to does not answer as a file does.",
        THEIRS,
    ),
    entry(
        "share/unreadable",
        "The file to share cannot be read by the node.",
        "see that it is there, and that the user of the node may read it",
    ),
    entry(
        "share/wrong_hash",
        "What came is not the file that was shared; it is thrown away.",
        "fetch again: what an earlier try left may have been damaged; if it stays so, tell who shared it",
    ),
];
