//! What goes wrong with groups, and with the logs they are kept in.

use super::{Entry, NOTHING, THEIRS, entry};

const FULL: &str = "ask the group's host for a larger log (`groups.keep_posts`, `groups.keep_max_bytes`), or wait until some of it is gone";
const LATER: &str = "nothing: it is tried again by itself";

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "api/group_of_other_network",
        "The ticket is of a group on another network than this node's.",
        "make a node of that network: `{overlane} init --network NUMBER`",
    ),
    entry(
        "api/no_key",
        "A member is invited by its key, and 40 hexadecimal digits do not hold it.",
        "ask for its did:key, which `{overlane} id` shows there",
    ),
    entry(
        "api/no_such_group",
        "No group of this name is here.",
        "`{overlane} group list` shows those that are",
    ),
    entry(
        "group/alone",
        "This node hosts the group and nobody else does, so there is nobody to reconcile with.",
        NOTHING,
    ),
    entry(
        "group/asks_full",
        "As many requests as may wait for other nodes already.",
        "wait until one of them is answered",
    ),
    entry(
        "group/bad_name",
        "A name that no group can have.",
        "give 1 to 64 bytes of text in one line",
    ),
    entry(
        "group/bad_ticket",
        "Text that is no ticket of a group.",
        "copy all of what `{overlane} group invite` printed",
    ),
    entry(
        "group/closed",
        "The node has shut down, or the thread of its groups has.",
        "start the node again: `{overlane} run`",
    ),
    entry(
        "group/full",
        "This node has as many groups as it may.",
        "leave one: `{overlane} group leave GROUP`",
    ),
    entry(
        "group/in_already",
        "The account is on the group's roster already.",
        NOTHING,
    ),
    entry(
        "group/known_already",
        "This node has the group already.",
        "`{overlane} group list` shows it",
    ),
    entry(
        "group/member_key_unknown",
        "This owner was put back from a copy, and does not know the key of a member that it took in since.",
        "invite that member again by its did:key, or remove it: `{overlane} group list --json` shows all",
    ),
    entry(
        "group/name_taken",
        "Another group has this name here.",
        "join it under another: --name NAME",
    ),
    entry(
        "group/no_answer",
        "The host did not answer in time.",
        "see that the node runs there, and has joined the group; it is asked again by itself",
    ),
    entry(
        "group/no_roster",
        "The group was joined, and no host has given its roster yet.",
        "wait until a host can be reached; `{overlane} group list` shows what each came to",
    ),
    entry(
        "group/no_sealing_key",
        "An account of this kind has no key that the group's key could be sealed to.",
        "use an Ed25519 account, which `{overlane} init` makes",
    ),
    entry(
        "group/no_store",
        "The node was started without a store of logs.",
        "give its builder one",
    ),
    entry(
        "group/not_a_host",
        "The node is no host of the group, by the roster that is here.",
        "`{overlane} group list` shows the hosts, and which of them is followed; one that was just named may be in a roster that has \
         not come yet: `{overlane} group sync` first",
    ),
    entry(
        "group/not_here",
        "The host does not keep the group for this node: it is not on the roster that the host has.",
        "ask the group's owner whether this node is on the roster still",
    ),
    entry(
        "group/not_in",
        "The account is not on the group's roster.",
        "`{overlane} group list --json` shows who is",
    ),
    entry(
        "group/not_known",
        "This node knows no such group, or has left it.",
        "join it with a ticket: `{overlane} group join TICKET`",
    ),
    entry(
        "group/not_owner",
        "Only the group's owner changes who is in it.",
        "ask its owner",
    ),
    entry(
        "group/owner_stays",
        "The owner of a group leaves it last: nobody else could change its roster.",
        "remove the others first: `{overlane} group remove GROUP DID`",
    ),
    entry(
        "group/posts_waiting",
        "As many posts as may wait for the number of the group's host.",
        "wait until a host can be reached: they are sent by themselves; or go over to one that can: `{overlane} group sync GROUP --host DID`",
    ),
    entry(
        "group/store_corrupt",
        "A row of a group in the store of logs is not what this node wrote.",
        "restore the home's folder `groups` from a backup, or move it away and join the groups again",
    ),
    entry(
        "group/store_failed",
        "The store of logs failed: nothing about groups is done until the node is started again. \
         Nothing was acknowledged that is not durable.",
        "make room on the disk if it is full, then start the node again: `{overlane} run`",
    ),
    entry(
        "group/store_unreadable",
        "The store of logs cannot be read.",
        "the message says why",
    ),
    entry(
        "group/too_many_posts",
        "More posts in one request than it may have.",
        "write them in several",
    ),
    entry(
        "group/unreachable",
        "Nothing comes through to the host.",
        "`{overlane} doctor peer DID` shows the way to it",
    ),
    entry(
        "log/authors_full",
        "A host brought what somebody wrote who is in the group no more, and there are as many such as may be.",
        "nothing here: what members write is taken; what others wrote goes with its age",
    ),
    entry(
        "log/busy",
        "More waits for the next transaction of a log than it takes; or the log has far more than is kept of it by now (`groups.keep_posts`, `groups.keep_max_bytes`), and lets go of it a part at a time.",
        "nothing: it is tried again by itself; a post of this node's own user is to be posted again in a minute",
    ),
    entry(
        "log/exchanges_full",
        "As many reconciliations as are driven at a time run already.",
        LATER,
    ),
    entry(
        "log/exhausted",
        "What one node may cost another in a minute is used up.",
        LATER,
    ),
    entry("log/malformed", "Bytes that are no frame of a log.", THEIRS),
    entry(
        "log/not_asked",
        "A node sent envelopes that nobody asked for.",
        THEIRS,
    ),
    entry(
        "log/not_here",
        "The log is not kept there for this node; whether it is kept at all is not said.",
        "ask the group's owner whether this node is on the roster",
    ),
    entry(
        "log/not_its_author",
        "A member sent what another wrote; only hosts hand on.",
        THEIRS,
    ),
    entry(
        "log/number_taken",
        "A host gave two envelopes the same number: it lost its store, or lies.",
        "nothing: this node numbers by itself from then on, and has all that the hosts have",
    ),
    entry(
        "log/number_too_high",
        "A host gave an envelope a number that no host comes to: it lies.",
        "nothing: this node numbers by itself from then on, and has all that the hosts have; the group's owner may take the host off the roster",
    ),
    entry(
        "log/peers_full",
        "As many nodes as may be are served at a time.",
        LATER,
    ),
    entry(
        "log/share_full",
        "The log is full, and the author has its share of it.",
        FULL,
    ),
    entry(
        "log/slot_full",
        "One connection has brought as much as it may.",
        "wait until some of it is gone",
    ),
    entry(
        "log/store_closed",
        "The store of logs failed before.",
        "start the node again: `{overlane} run`",
    ),
    entry(
        "log/store_corrupt",
        "A row of the store of logs is not what this node wrote.",
        "restore the home's folder `groups` from a backup, or move it away and join the groups again",
    ),
    entry(
        "log/store_failed",
        "The store of logs failed.",
        "make room on the disk if it is full, then start the node again: `{overlane} run`",
    ),
    entry(
        "log/too_large",
        "The log has more envelopes than this side can take into memory to reconcile them.",
        "have its host keep less of it",
    ),
    entry(
        "log/too_old",
        "An envelope is older than what the log keeps, or dated in the future.",
        "compare the clocks of the two nodes",
    ),
    entry(
        "log/unread",
        "A node asked again before it took what it had asked for.",
        LATER,
    ),
    entry(
        "recon/broke_rules",
        "A node answered a reconciliation with what is no answer.",
        THEIRS,
    ),
    entry(
        "recon/gave_up_bytes",
        "A reconciliation took more bytes than one may.",
        LATER,
    ),
    entry(
        "recon/gave_up_idle",
        "A node said nothing new in a reconciliation for too long.",
        LATER,
    ),
    entry(
        "recon/gave_up_link",
        "The link to a node closed in the middle of a reconciliation.",
        LATER,
    ),
    entry(
        "recon/gave_up_pushes",
        "A node gave envelopes without end in a reconciliation.",
        THEIRS,
    ),
    entry(
        "recon/gave_up_rounds",
        "A reconciliation took more rounds than one may.",
        LATER,
    ),
    entry(
        "recon/gave_up_stalled",
        "A node says the same again and again in a reconciliation: it names what it does not give.",
        THEIRS,
    ),
    entry(
        "recon/refused",
        "A node refused to reconcile; the code that it gave says why.",
        NOTHING,
    ),
];
