//! What goes wrong between two nodes: offers, links, connections.

use super::{Entry, NOTHING, THEIRS, entry};

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "ice/refused",
        "A TURN server answered and relays nothing for this node. Links go on without it.",
        "see username and credential under ice.servers in config.toml, and the server's log",
    ),
    entry(
        "ice/unreachable",
        "The name of a STUN or TURN server does not resolve, or nothing came from it in time. Links go on without it.",
        "see its url under ice.servers in config.toml, and whether UDP gets there and back",
    ),
    entry(
        "lane/ended",
        "The link takes no more frames: it is closing, or closed.",
        "send again once it is linked: `{overlane} peer list`",
    ),
    entry(
        "lane/full",
        "As many frames wait for the peer as may.",
        "wait: the lane tells when it has room; a peer that takes nothing is slow or stuck",
    ),
    entry(
        "lane/full_bytes",
        "A lane holds as many bytes as it may: its peer takes them more slowly than they are sent.",
        "nothing: what waits leaves first; a peer that reads nothing is given up by itself",
    ),
    entry(
        "lane/node_full",
        "The lanes of all links together hold as many bytes as they may.",
        "nothing: what waits leaves first",
    ),
    entry(
        "lane/not_payload",
        "What was to be sent is no payload frame.",
        NOTHING,
    ),
    entry(
        "link/after_fin",
        "The peer sent payload on a lane that it had ended.",
        THEIRS,
    ),
    entry(
        "link/before_hello",
        "The peer sent a frame before its HELLO.",
        THEIRS,
    ),
    entry(
        "link/closed_local",
        "This node closed the link, and everything queued was taken.",
        NOTHING,
    ),
    entry(
        "link/closed_peer",
        "The peer closed the link, and everything queued was taken.",
        NOTHING,
    ),
    entry(
        "link/control_gap",
        "Link control frames are missing or out of their order.",
        THEIRS,
    ),
    entry(
        "link/control_malformed",
        "A link control frame is not in its one form.",
        THEIRS,
    ),
    entry(
        "link/credit_unsent",
        "The peer says it took more than was sent to it.",
        THEIRS,
    ),
    entry(
        "link/crossed",
        "Both sides dialled at once, and the other's offer stands.",
        "wait: its link comes up by itself",
    ),
    entry(
        "link/fin_count",
        "The peer ended a lane with another number of frames than came.",
        THEIRS,
    ),
    entry(
        "link/fin_timeout",
        "Closing took too long; frames that were queued may be undelivered.",
        "offer what matters again: a copy that arrived is refused as a replay",
    ),
    entry(
        "link/handshake_timeout",
        "The channels of a new link did not answer in time.",
        "see that UDP passes between the two nodes; the dial is repeated by itself",
    ),
    entry(
        "link/handshakes_full",
        "As many links are being opened as may.",
        "try again later",
    ),
    entry(
        "link/heard_unsent",
        "The peer answers what was never sent.",
        THEIRS,
    ),
    entry(
        "link/hello_changed",
        "The peer's second HELLO says something else than its first.",
        THEIRS,
    ),
    entry(
        "link/hello_flood",
        "The peer sent more HELLOs than an honest one does.",
        THEIRS,
    ),
    entry(
        "link/itself",
        "The URL is this node's own.",
        "give another node's URL",
    ),
    entry(
        "link/links_full",
        "As many links are up as may.",
        "drop a peer: `{overlane} peer drop URL`",
    ),
    entry(
        "link/not_a_node",
        "Something answers at the URL, and it is no node.",
        "see the URL: the other node's overlane run shows it",
    ),
    entry(
        "link/not_opened",
        "The offer was answered, and then no link came up.",
        "see that UDP passes between the two nodes; the dial is repeated by itself",
    ),
    entry(
        "link/other_signer",
        "Another node signed the offer or the answer than was to: no link was made.",
        THEIRS,
    ),
    entry(
        "link/over_control",
        "The peer sent more link control frames than were granted.",
        THEIRS,
    ),
    entry(
        "link/over_lane_bytes",
        "The peer sent more bytes on a lane than were granted.",
        THEIRS,
    ),
    entry(
        "link/over_lane_frames",
        "The peer sent more frames on a lane than were granted.",
        THEIRS,
    ),
    entry(
        "link/over_link_bytes",
        "The peer sent more bytes on the link than were granted.",
        THEIRS,
    ),
    entry(
        "link/payload_violation",
        "The peer sent a frame that no honest one makes, and this node cut the link.",
        THEIRS,
    ),
    entry(
        "link/peer_gone",
        "The peer did not answer a probe for 45 seconds.",
        "see whether it runs and its network is up; the dial is repeated by itself",
    ),
    entry(
        "link/refused_by_peer",
        "The other node refused the offer; its own code is in the message.",
        "look that code up: overlane explain CODE",
    ),
    entry(
        "link/replaced",
        "A newer link to the same peer took this one's place.",
        NOTHING,
    ),
    entry(
        "link/share_full",
        "One source has as many places as are left for everybody else.",
        "try again later, or from another address",
    ),
    entry(
        "link/shutting_down",
        "The node is shutting down.",
        "start it again: `{overlane} run`",
    ),
    entry(
        "link/transport_ended",
        "The connection ended under the link.",
        "see the network; the dial is repeated by itself",
    ),
    entry(
        "link/unasked",
        "The peer answers what it was not asked.",
        THEIRS,
    ),
    entry(
        "link/unknown",
        "The link is down, or there never was one.",
        "see the links: `{overlane} status`",
    ),
    entry(
        "link/unreachable",
        "Nobody answers at the URL.",
        "see that the other node runs and listens there: the first line of its overlane run",
    ),
    entry(
        "link/url",
        "Text is not the URL of a node.",
        "give it as http://HOST:PORT",
    ),
    entry(
        "link/wrong_channel",
        "A link control frame came on a channel where it does not belong.",
        THEIRS,
    ),
    entry(
        "link/wrong_network",
        "The other node is of another network.",
        "give both nodes the same network in config.toml",
    ),
    entry(
        "sdp/candidate",
        "A candidate of the session description is malformed.",
        THEIRS,
    ),
    entry(
        "sdp/candidate_name",
        "A candidate names a host; only addresses are taken.",
        THEIRS,
    ),
    entry(
        "sdp/candidate_reach",
        "A candidate's address is out of this node's reach.",
        "have both nodes listen on addresses that reach each other",
    ),
    entry(
        "sdp/candidate_transport",
        "A candidate is not over UDP.",
        THEIRS,
    ),
    entry(
        "sdp/fingerprint_kind",
        "The certificate's fingerprint is not SHA-256.",
        THEIRS,
    ),
    entry(
        "sdp/fingerprints",
        "The session description has not exactly one fingerprint.",
        THEIRS,
    ),
    entry(
        "sdp/ice_credentials",
        "The session description has not exactly one user fragment and password.",
        THEIRS,
    ),
    entry(
        "sdp/listens",
        "The session description says the port that its node takes offers on twice, or as no port.",
        THEIRS,
    ),
    entry(
        "sdp/no_candidate",
        "The session description has no address to reach its peer at.",
        THEIRS,
    ),
    entry(
        "sdp/not_a_line",
        "A line of the session description is not type=value.",
        THEIRS,
    ),
    entry(
        "sdp/sections",
        "The session description has another section than one of data channels.",
        THEIRS,
    ),
    entry(
        "sdp/too_long",
        "The session description is longer than 16 KiB.",
        THEIRS,
    ),
    entry(
        "sdp/too_many_candidates",
        "The session description has more candidates than any needs.",
        THEIRS,
    ),
    entry(
        "sdp/too_many_lines",
        "The session description has more lines than any needs.",
        THEIRS,
    ),
    entry(
        "signal/bad_signature",
        "The signer of the offer or answer did not sign it.",
        THEIRS,
    ),
    entry(
        "signal/before_floor",
        "The offer is older than what this node still remembers offers from.",
        "the other node makes a new one by itself",
    ),
    entry(
        "signal/broken_request",
        "The offer broke off while it was sent.",
        "the other node tries again by itself; see the network",
    ),
    entry(
        "signal/content_type",
        "The offer is not application/cbor.",
        THEIRS,
    ),
    entry(
        "signal/description_too_long",
        "The session description in the offer is longer than 16 KiB.",
        THEIRS,
    ),
    entry(
        "signal/expired",
        "The offer's or answer's life is over.",
        "the other node makes a new one by itself; where it goes on, compare the clocks of both machines: date -u",
    ),
    entry(
        "signal/from_the_future",
        "The offer or answer was issued later than this clock says it is.",
        "compare the clocks of both machines: date -u; they may differ by three seconds",
    ),
    entry(
        "signal/guard_full",
        "As many offers are remembered as may be.",
        "try again when some are over",
    ),
    entry(
        "signal/late_request",
        "The offer took too long to arrive.",
        "try again; see the network",
    ),
    entry(
        "signal/life_too_long",
        "The offer or answer lives longer than any may.",
        THEIRS,
    ),
    entry(
        "signal/malformed",
        "What was posted is no offer in its one form.",
        THEIRS,
    ),
    entry(
        "signal/other_offer",
        "The answer is to another offer.",
        THEIRS,
    ),
    entry(
        "signal/oversized",
        "The offer or answer is larger than any may be.",
        THEIRS,
    ),
    entry(
        "signal/replayed",
        "The offer was taken once already.",
        THEIRS,
    ),
    entry(
        "signal/resigned",
        "Somebody else signed this session description before.",
        THEIRS,
    ),
    entry(
        "signal/share_full",
        "As many offers from one source are remembered as there is room for from elsewhere.",
        "try again when some are over",
    ),
    entry(
        "transport/closed",
        "The connection is closed.",
        "the dial is repeated by itself",
    ),
    entry(
        "transport/closed_by_peer",
        "The other side closed the connection.",
        "the dial is repeated by itself",
    ),
    entry(
        "transport/foreign_channel",
        "The other side opened a channel of its own.",
        THEIRS,
    ),
    entry(
        "transport/lost",
        "Nothing was heard of the other side any more.",
        "see its network; the dial is repeated by itself",
    ),
    entry(
        "transport/message_too_long",
        "A message is larger than a frame.",
        NOTHING,
    ),
    entry(
        "transport/negotiation",
        "WebRTC refused a step of opening the connection.",
        "the dial is repeated by itself",
    ),
    entry(
        "transport/open",
        "No connection could be opened here.",
        "see the limit of open files, and that UDP sockets can be bound",
    ),
    entry(
        "transport/send_deadline",
        "The peer read nothing for too long.",
        "see whether it is stuck; the dial is repeated by itself",
    ),
    entry(
        "transport/relayed",
        "The link would go by way of a TURN server, and this node's links.require is \"direct\".",
        "nothing needs doing: the peer is reached by way of other nodes; to allow it, links.require = \"any\"",
    ),
    entry(
        "transport/vanished",
        "The peer's host says that its socket is closed: its process ended without a word. What its \
         link had taken last may be lost.",
        "offer kept bytes again (send --keep, then --signed) once it runs again",
    ),
    entry(
        "transport/wrong_certificate",
        "The other side's certificate is not the one that was signed for: somebody may be in between.",
        "see the network between the two nodes; nothing was sent",
    ),
];
