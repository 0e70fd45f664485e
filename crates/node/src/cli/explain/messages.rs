//! What goes wrong with messages: their bytes, their proofs, their place in a stream, its record.

use super::{Entry, NOTHING, THEIRS, entry};

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "cbor/indefinite",
        "A length was left open; every length is definite here.",
        THEIRS,
    ),
    entry(
        "cbor/invalid",
        "A value is outside of what its field may hold.",
        THEIRS,
    ),
    entry(
        "cbor/key_order",
        "Keys of a map do not ascend, or one comes twice.",
        THEIRS,
    ),
    entry(
        "cbor/length",
        "A structure has another number of fields than it should.",
        THEIRS,
    ),
    entry("cbor/malformed", "No item begins with such a byte.", THEIRS),
    entry(
        "cbor/not_shortest",
        "A number or a length is not in its shortest form.",
        THEIRS,
    ),
    entry(
        "cbor/not_used",
        "Tags and unassigned simple values are not used here.",
        THEIRS,
    ),
    entry("cbor/not_utf8", "Text is not UTF-8.", THEIRS),
    entry(
        "cbor/over_bound",
        "A list or a text is longer than its bound.",
        THEIRS,
    ),
    entry(
        "cbor/too_deep",
        "Containers nest deeper than the bound.",
        THEIRS,
    ),
    entry(
        "cbor/too_long",
        "A length is longer than what is left of the input.",
        THEIRS,
    ),
    entry("cbor/trailing", "Something follows the value.", THEIRS),
    entry("cbor/truncated", "The input ends inside an item.", THEIRS),
    entry(
        "cbor/unexpected",
        "Another kind of value was expected.",
        THEIRS,
    ),
    entry(
        "chunk/disagrees",
        "A chunk says another total, expiry or content than the chunks of its message before it.",
        THEIRS,
    ),
    entry(
        "chunk/expired",
        "A chunk of a message whose proof is over.",
        "send the message again; if this is frequent, compare both clocks",
    ),
    entry(
        "chunk/finished",
        "A chunk of a message that was whole already: it was sent again, as after a lost link.",
        NOTHING,
    ),
    entry(
        "chunk/link_bytes",
        "The link brought as many bytes of messages in part as it may.",
        "nothing: messages that stand still for 30 s are given up",
    ),
    entry(
        "chunk/link_sets",
        "The link brought as many messages in part as it may.",
        "nothing: messages that stand still for 30 s are given up",
    ),
    entry(
        "chunk/node_bytes",
        "All links together brought as many bytes of messages in part as they may.",
        "nothing: messages that stand still for 30 s are given up",
    ),
    entry(
        "chunk/node_sets",
        "All links together brought as many messages in part as they may.",
        "nothing: messages that stand still for 30 s are given up",
    ),
    entry(
        "chunk/not_whole",
        "What the chunks of a message gave together is no payload of its origin's.",
        THEIRS,
    ),
    entry(
        "chunk/too_large",
        "The chunks of one message are more than 60 MB.",
        THEIRS,
    ),
    entry(
        "delegation/bad_signature",
        "The account, or the delegatee itself, did not sign the delegation.",
        THEIRS,
    ),
    entry(
        "delegation/expired",
        "The delegation's life is over.",
        "the other node makes a new one by itself; if it does not, see both clocks. A node whose account is kept elsewhere \
         asks it for another: `{overlane} key request`, then key delegate where the account is, then key accept",
    ),
    entry(
        "delegation/from_the_future",
        "The delegation was issued later than this clock says it is.",
        "compare the clocks of both machines: date -u; they may differ by three seconds",
    ),
    entry(
        "delegation/life_too_long",
        "The delegation lives longer than any may.",
        THEIRS,
    ),
    entry(
        "delegation/malformed",
        "The text is no request for a delegation, no delegation, or not all of one.",
        NOTHING,
    ),
    entry(
        "delegation/other_account",
        "Another account is asked for the delegation.",
        "grant it in the home of the account that it names",
    ),
    entry(
        "delegation/wrong_network",
        "The delegation is for another network.",
        "give both nodes the same network in config.toml",
    ),
    entry(
        "delegation/wrong_possession",
        "The delegatee did not prove that it holds its key.",
        THEIRS,
    ),
    entry(
        "fork/apart_streams",
        "The two headers are of two streams, or of two sequences: no fork.",
        NOTHING,
    ),
    entry(
        "fork/not_the_destination",
        "The evidence is reported by another node than the stream's destination.",
        NOTHING,
    ),
    entry(
        "fork/same_transaction",
        "Both headers are of one transaction: no fork.",
        NOTHING,
    ),
    entry("frame/oversized", "A frame is larger than 64 KiB.", THEIRS),
    entry(
        "frame/unknown_marker",
        "A frame begins with no marker of this protocol.",
        THEIRS,
    ),
    entry(
        "identity/malformed_key",
        "Bytes are no Ed25519 or secp256k1 key in its one form.",
        NOTHING,
    ),
    entry(
        "identity/not_did_key",
        "Text is no did:key of a kind in use.",
        "the other node shows its did:key: overlane id",
    ),
    entry(
        "identity/weak_key",
        "A signature under this key would prove nothing.",
        THEIRS,
    ),
    entry(
        "payload/bad_origins",
        "A link was cut: its peer passed on more transactions with a bad proof than one that checks \
         before it carries ever does.",
        THEIRS,
    ),
    entry(
        "payload/bad_signature",
        "The origin, the hop or the reporter did not sign what came.",
        THEIRS,
    ),
    entry(
        "payload/expired",
        "The proof's life is over.",
        "send again, so that it is signed anew; if it just was, see both clocks",
    ),
    entry(
        "payload/from_the_future",
        "The proof was issued later than this clock says it is.",
        "compare the clocks of both machines: date -u; they may differ by three seconds",
    ),
    entry(
        "payload/life_too_long",
        "The proof lives longer than any may.",
        THEIRS,
    ),
    entry(
        "payload/link_cut",
        "The frame came after the one for which its link was cut.",
        THEIRS,
    ),
    entry(
        "payload/malformed",
        "The frame is no payload in its one form.",
        THEIRS,
    ),
    entry(
        "payload/not_payload",
        "A link control frame came where a payload was expected.",
        THEIRS,
    ),
    entry(
        "policy/broken",
        "A policy hook of the program that embeds the node panicked, and so refused what it was asked about. Nothing was \
         admitted, linked or held.",
        "mend the hook: the log names what it was asked about",
    ),
    entry(
        "policy/refused_link",
        "The policy of the program that embeds the node allows no link with that account.",
        NOTHING,
    ),
    entry(
        "policy/refused_mail",
        "The policy of the program that embeds the node does not hold mail for that account.",
        NOTHING,
    ),
    entry(
        "policy/refused_message",
        "The policy of the program that embeds the node did not admit the message. No window changed: it may come again.",
        NOTHING,
    ),
    entry(
        "payload/orphaned",
        "The link went down before what it brought was admitted, and too much waits already.",
        "offer it again",
    ),
    entry(
        "payload/unknown_delegation",
        "The frame refers to a delegation that this node does not know.",
        "offer it again: the delegation then comes with it",
    ),
    entry(
        "payload/verifier_stopped",
        "Verification of the frame ended without an answer.",
        "offer it again; if it stays so, restart the node",
    ),
    entry(
        "payload/wrong_destination",
        "The transaction is for another node, which this one cannot reach.",
        "link to the destination itself",
    ),
    entry(
        "payload/wrong_hop",
        "The link's peer passed on what another hop signed.",
        THEIRS,
    ),
    entry(
        "payload/wrong_lane",
        "The message's class is another than its lane's.",
        THEIRS,
    ),
    entry(
        "payload/wrong_next_hop",
        "The frame names another node as the one it is passed to.",
        THEIRS,
    ),
    entry(
        "replay/clock_suspect",
        "This clock is behind an instant at which streams were retired, and no peer confirms it.",
        "set the clock right, or dial a peer whose clock is; `{overlane} replay floor` says how far the instant is",
    ),
    entry(
        "replay/evidence_too_large",
        "The evidence of a fork is larger than any may be.",
        NOTHING,
    ),
    entry(
        "replay/expired",
        "The proof was over when it came to be admitted.",
        "send again, so that it is signed anew",
    ),
    entry(
        "replay/floor_unavailable",
        "The record of the floors does not restore, so they cannot be shown.",
        "`{overlane} replay clear NAME` says what starting them again costs",
    ),
    entry(
        "replay/fork",
        "Another transaction was admitted under this sequence: the origin signed two.",
        "if the account is yours: it signs in two places, or an old backup of its store is in use; `{overlane} replay forks` has the evidence",
    ),
    entry(
        "replay/fork_log_full",
        "The store keeps as much evidence of forks as it may.",
        "export it, then clear what was exported: `{overlane} replay forks --export DIR`",
    ),
    entry(
        "replay/link_local_streams_full",
        "A connection has as many link-local streams as it may.",
        NOTHING,
    ),
    entry(
        "replay/no_store",
        "There is no replay store in this home yet.",
        "the first `{overlane} run` makes one",
    ),
    entry(
        "replay/not_in_custody",
        "The mail was taken already, or was spent before.",
        NOTHING,
    ),
    entry(
        "replay/pending_full",
        "As many admissions and sends wait for the store as may.",
        "wait; if it stays so, the disk is too slow",
    ),
    entry(
        "replay/quota_bytes",
        "The stream brought more bytes a second than it may.",
        "send slower; an honest node paces itself",
    ),
    entry(
        "replay/quota_messages",
        "The stream brought more messages a second than it may.",
        "send slower; an honest node paces itself",
    ),
    entry(
        "replay/quota_over_burst",
        "One message is larger than the quota ever allows.",
        "send less in one message",
    ),
    entry(
        "replay/quota_records",
        "As many streams are active as quota is kept for.",
        "try again later",
    ),
    entry(
        "replay/relay_custody_full",
        "As many mails wait for their application as may.",
        "take them: `{overlane} watch`",
    ),
    entry(
        "replay/replay",
        "The very same transaction was admitted before.",
        "nothing: this is the protection at work",
    ),
    entry(
        "replay/reservation_size",
        "More sequences were asked for at once than may be.",
        NOTHING,
    ),
    entry(
        "replay/sender_streams_full",
        "This node sends on as many streams as it may.",
        "wait until some are spent: about ten minutes after their last message, seven days for applications",
    ),
    entry(
        "replay/sequences_exhausted",
        "The stream has no sequence left.",
        NOTHING,
    ),
    entry(
        "replay/spent_mail",
        "The mail's stream may be one that was retired.",
        NOTHING,
    ),
    entry(
        "replay/stale",
        "The sequence is below the stream's window of 32.",
        "nothing: it came too late, and this node can no longer tell whether it came before",
    ),
    entry(
        "replay/storage_unavailable",
        "The node has no replay store, so it neither sends nor admits.",
        "give it one; there is no such store in memory",
    ),
    entry(
        "replay/store_failed",
        "The store did not make something durable; nothing was admitted or reserved.",
        "see the disk, then restart the node: it scans the store",
    ),
    entry(
        "replay/stream_share_full",
        "Whoever brought this new stream has used up its share of the table.",
        "wait until some of its streams are spent; `{overlane} bounds` shows the shares",
    ),
    entry(
        "replay/stream_unavailable",
        "The stream's record does not restore, so nothing of it is admitted or signed.",
        "stop the node; `{overlane} replay verify` says what is wrong, `{overlane} replay clear NAME` what starting again costs",
    ),
    entry(
        "send/not_signed",
        "The bytes to offer again are no signed message.",
        "give a file that `{overlane} send --keep FILE` wrote",
    ),
    entry(
        "send/reserved_namespace",
        "The namespace begins as those do that the node keeps for itself.",
        "choose another: `--namespace NAME`",
    ),
    entry(
        "send/to_itself",
        "The destination is this node itself.",
        "give another node's Did",
    ),
    entry(
        "send/cancelled",
        "Whoever sent the message took it back before a lane had it; its destination never admits it.",
        "send it again if it is wanted after all",
    ),
    entry(
        "send/too_many_pending",
        "As many sends are on their way as may, in all or to this destination.",
        "wait for one of them",
    ),
    entry(
        "send/unreachable",
        "No link leads to the destination.",
        "stay linked to it: `{overlane} peer add URL`; see the links: `{overlane} peer list`",
    ),
    entry(
        "sign/life_too_long",
        "The proof's life is longer than any may be.",
        NOTHING,
    ),
    entry(
        "sign/not_message",
        "The data to sign is no message.",
        NOTHING,
    ),
    entry(
        "sign/oversized",
        "The message is larger than one frame carries.",
        "send less in one message",
    ),
    entry(
        "sign/too_many_hops",
        "The hop budget is larger than any may be.",
        NOTHING,
    ),
    entry(
        "sign/unresolved_delegation",
        "A transaction is carried on only with its delegation.",
        NOTHING,
    ),
    entry(
        "store/bad_record",
        "The store was to change a record that it cannot trust.",
        "stop the node and see: `{overlane} replay verify`",
    ),
    entry(
        "store/blocked",
        "A page that runs an older version has the browser's store open, and the new version \
         cannot take it over until it is closed.",
        "close every other page of this site, then load this one again",
    ),
    entry(
        "store/budget_exhausted",
        "The store's budget is used up; nothing is evicted to make room.",
        "`{overlane} replay verify` shows what it holds",
    ),
    entry(
        "store/capacity_exhausted",
        "A browser's store takes as many records as all bounds of replay protection allow, and no \
         more; nothing is evicted. It was opened with a lower capacity than it holds, or something \
         else wrote into it.",
        "open it with the capacity it had; list what is in it on the inspect page",
    ),
    entry(
        "store/damaged",
        "The store is damaged so that it cannot be told which records are.",
        "put it back from where it was whole, or start with a new one: that resets every stream",
    ),
    entry(
        "store/full",
        "The disk, or a quota, is full.",
        "free space, then restart the node",
    ),
    entry(
        "store/io",
        "The platform refused to read or write the store.",
        "see that the folder is there, is yours, and its disk is well; then `{overlane} run`",
    ),
    entry(
        "store/locked",
        "Another process has the store open.",
        "stop that process first",
    ),
    entry(
        "store/no_storage",
        "The browser keeps nothing for this page: a private window, storage that is turned off, a \
         frame without an origin, or a page that did not come over HTTPS or from this machine.",
        "open the page in an ordinary window, over HTTPS; see docs/browser.md",
    ),
    entry(
        "store/not_strict",
        "The browser ignores what is asked of a commit, so nothing it says is durable can be \
         believed.",
        "use a browser that knows strict commits; see docs/browser.md",
    ),
    entry(
        "store/poisoned",
        "Something did not become durable before; until the store is scanned again nothing does.",
        "see the disk, then restart the node",
    ),
    entry(
        "store/record_too_large",
        "A record is larger than any may be.",
        NOTHING,
    ),
    entry(
        "store/unknown_record",
        "The store holds no record of this name.",
        "see the names: `{overlane} replay list`",
    ),
    entry(
        "store/wrong_kind",
        "The folder holds a store of another kind, or none.",
        "name that kind of store in config.toml; a store is never converted",
    ),
];
