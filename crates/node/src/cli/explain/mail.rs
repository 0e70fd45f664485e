//! What goes wrong with sealed messages, mail and groups.

use super::{Entry, NOTHING, THEIRS, entry};

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "e2e/again",
        "A message of an E2E session was taken before.",
        THEIRS,
    ),
    entry(
        "e2e/does_not_open",
        "A message of an E2E session does not open under its keys.",
        THEIRS,
    ),
    entry(
        "e2e/ended",
        "The E2E session was ended before this was sent in it.",
        "send it again: another session is asked for",
    ),
    entry(
        "e2e/handshake",
        "The handshake of an E2E session does not hold for who signed it.",
        THEIRS,
    ),
    entry(
        "e2e/malformed",
        "Bytes that are no message of an E2E session.",
        THEIRS,
    ),
    entry(
        "e2e/no_answer",
        "The other node did not answer the handshake of an E2E session.",
        "see whether it is there: {overlane} peer ping DID",
    ),
    entry(
        "e2e/no_key",
        "A node speaks in an E2E session whose key is not known here: its account is not Ed25519, and no contact card of it was seen.",
        "send it something sealed, which asks for its card",
    ),
    entry(
        "e2e/paced",
        "A node began more handshakes of E2E sessions than it may in a minute.",
        NOTHING,
    ),
    entry(
        "e2e/too_large",
        "A body is larger than an E2E session carries at once.",
        "the message names the bound; send less at once, or send it sealed",
    ),
    entry(
        "e2e/unasked",
        "An answer to no handshake of an E2E session that is open here.",
        THEIRS,
    ),
    entry(
        "e2e/unknown_session",
        "A message of an E2E session that this node does not know: it was restarted, or let go of it. The other side is told, and begins another.",
        NOTHING,
    ),
    entry(
        "e2e/waiting_full",
        "As many bodies as may be wait for an E2E session with this node.",
        "wait until some are sent, or see whether it is there: {overlane} peer ping DID",
    ),
    entry(
        "e2e/weak_key",
        "The other node's key gives every secret the same answer: no E2E session can be had with it.",
        THEIRS,
    ),
    entry(
        "group/does_not_open",
        "A post of a group does not open under the key of its epoch.",
        THEIRS,
    ),
    entry(
        "group/malformed",
        "Neither a post nor a roster of a group.",
        THEIRS,
    ),
    entry(
        "group/no_key",
        "A post is sealed under a key that this member was not given: it was written before it joined, or after it left.",
        NOTHING,
    ),
    entry(
        "group/not_a_member",
        "An account that the group's roster does not list wrote to it, or asked for its key.",
        "ask the group's owner for an invitation",
    ),
    entry(
        "group/old_revision",
        "A roster that is not newer than the one in force.",
        NOTHING,
    ),
    entry(
        "group/other_group",
        "A post or a roster of another group than the one asked about.",
        THEIRS,
    ),
    entry(
        "group/over_bound",
        "A group has too many members or hosts, or a post is too long.",
        "the message names the bound; split the group or the post",
    ),
    entry("mail/malformed", "Bytes that are no held mail.", THEIRS),
    entry(
        "mail/not_application",
        "Only application messages are held for those who are away.",
        "send it again when the other one is there",
    ),
    entry(
        "mail/not_sealed",
        "A message that its holders could read is not held.",
        "seal it: messages to one destination are, unless asked otherwise",
    ),
    entry(
        "mail/other_transaction",
        "A holder's proof stands beside another mail than the one it is of.",
        THEIRS,
    ),
    entry(
        "mail/too_large",
        "A message is larger than what is held for one who is away.",
        "the message names the bound; send less at once",
    ),
    entry(
        "mail/wrong_destination",
        "Mail was put into the inbox of another than its destination.",
        THEIRS,
    ),
    entry(
        "seal/does_not_open",
        "A sealed message does not open: it was sealed to another key, or for another origin or network, or changed on the way.",
        "if the other one's account or card is new, have it sent again",
    ),
    entry(
        "seal/keys_asked",
        "As many destinations as may be are being asked for the keys that messages to them are sealed to.",
        "send it again when some of them answered",
    ),
    entry(
        "seal/malformed",
        "Bytes that are no sealed message.",
        THEIRS,
    ),
    entry(
        "seal/no_key",
        "The key that messages to a destination are sealed to is not known here, and could not be had: neither it nor those behind its place, who hold its mail, answered or told one. Nothing was signed, and nothing left unsealed.",
        "see whether it is there ({overlane} peer ping DID); name it by its did:key, which says the key; or send unsealed, with --plain",
    ),
    entry(
        "seal/not_a_message",
        "What is sealed is no application message, or one that is sealed itself.",
        THEIRS,
    ),
    entry(
        "seal/not_told",
        "A node that was asked for its sealing key told none that counts.",
        "see that both run the same version",
    ),
    entry(
        "seal/required",
        "A message came unsealed, and this node takes sealed messages only. It was admitted, and is consumed.",
        "have it sent sealed, or let this node take others too",
    ),
    entry(
        "seal/stopped",
        "Sealing a message stopped without an answer. Nothing was signed.",
        "send it again",
    ),
    entry(
        "seal/too_large",
        "A message is larger than what is sent once it is sealed.",
        "the message names the bound; send less at once",
    ),
    entry(
        "seal/weak_key",
        "A sealing key under which everyone could read.",
        "ask its owner for another contact card",
    ),
    entry(
        "statement/bad_signature",
        "A signed statement is not by the account it names.",
        THEIRS,
    ),
    entry(
        "statement/expired",
        "A contact card, a hold proof, a removal or a roster is over.",
        "ask for a newer one",
    ),
    entry(
        "statement/from_the_future",
        "A signed statement was issued later than this node's clock says it is.",
        "compare the two clocks",
    ),
    entry(
        "statement/life_too_long",
        "A signed statement asks for a longer life than its kind may have.",
        THEIRS,
    ),
];
