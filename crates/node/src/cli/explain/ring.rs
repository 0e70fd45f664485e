//! What goes wrong on the way to nodes that are not linked here: the ring and its routes.

use super::{Entry, NOTHING, THEIRS, entry};

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "ring/declined",
        "The node takes no link from this one now, and says why.",
        "messages go through other nodes meanwhile; see `{overlane} explain` on the code it gave",
    ),
    entry(
        "ring/disordered",
        "A node named neighbours that are not in the order of the ring.",
        THEIRS,
    ),
    entry(
        "ring/malformed",
        "A control message of the ring is not in its one form.",
        THEIRS,
    ),
    entry(
        "ring/no_answer",
        "The node that was asked gave no answer in time.",
        "see that it runs and is on this network; `{overlane} route DID` shows how far messages come",
    ),
    entry(
        "ring/no_progress",
        "A node answered a lookup with one that is no nearer to the place.",
        THEIRS,
    ),
    entry(
        "ring/not_joined",
        "This node is in no ring.",
        "start it again: a node joins when it starts",
    ),
    entry(
        "ring/offers_full",
        "As many offers of links as may wait for this node's answer.",
        "nothing: who offered tries again by itself",
    ),
    entry(
        "ring/other_answer",
        "A node answered with something else than it was asked.",
        THEIRS,
    ),
    entry(
        "ring/slots_full",
        "The node has no place for a link that its ring does not need.",
        "messages go through other nodes meanwhile",
    ),
    entry(
        "ring/to_itself",
        "The node that was to be asked is this one.",
        "give another node's Did: `{overlane} id` shows it there",
    ),
    entry(
        "ring/too_many_requests",
        "As many requests of this node wait for their answers as may.",
        "wait for one of them",
    ),
    entry(
        "ring/unasked",
        "A node answered what it was not asked, or twice.",
        THEIRS,
    ),
    entry(
        "route/congested",
        "The next hop's lane is full of what others send.",
        "send again later",
    ),
    entry(
        "route/destination_unreachable",
        "The route ends: no linked peer is nearer to the destination.",
        "the destination may be down, or not on this ring: `{overlane} route DID` shows how far messages come",
    ),
    entry(
        "route/hop_budget",
        "The message took as many hops as it may, and has not arrived.",
        NOTHING,
    ),
    entry(
        "route/no_progress",
        "The peer sent a message back, away from its destination; its link was cut.",
        THEIRS,
    ),
    entry(
        "ticket/malformed",
        "The text is no ticket, or not all of one.",
        "copy the whole word that `overlane invite` prints",
    ),
    entry(
        "ticket/no_url",
        "This node takes no offers, so nobody can join by it.",
        "give the URL where others reach it: `{overlane} invite --url URL`",
    ),
    entry(
        "ticket/other_network",
        "The ticket is for another network than this node's.",
        NOTHING,
    ),
    entry(
        "ticket/own",
        "The ticket leads to this node itself.",
        "give it to another node",
    ),
    entry(
        "route/unknown_report",
        "A node reports a message that this one did not send, or not lately.",
        THEIRS,
    ),
];
