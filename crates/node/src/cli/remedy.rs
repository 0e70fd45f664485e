//! What to do about a failure, by its code.

/// What to do, in words or as a command to type; `overlane` is how this home is meant on the
/// command line. `None` where the message itself says all there is.
pub(super) fn remedy(code: &str, overlane: &str) -> Option<String> {
    let known = REMEDIES.iter().find(|(known, _)| *known == code);
    known.map(|(_, remedy)| remedy.replace("{overlane}", overlane))
}

const REMEDIES: &[(&str, &str)] = &[
    (
        "api/bad_destination",
        "the other node shows its Did: overlane id",
    ),
    (
        "api/bad_peer_url",
        "the other node's overlane run shows its URL",
    ),
    ("api/not_watching", "watch first: `{overlane} watch`"),
    ("api/watched", "end the other `{overlane} watch` first"),
    (
        "api/broken",
        "see whether the node still runs: `{overlane} status`; its log says why it ended",
    ),
    (
        "api/not_running",
        "start it in another terminal: `{overlane} run`",
    ),
    (
        "home/already_initialised",
        "see who it is: `{overlane} id`; for another node, name another folder with --home",
    ),
    (
        "home/config",
        "mend that line, or take the line away to get the default",
    ),
    (
        "home/in_use",
        "stop that process first, or name another folder with --home",
    ),
    (
        "home/key_invalid",
        "put the file back from a backup; without it the account is lost",
    ),
    (
        "home/key_mode",
        "if nobody else can have read it: chmod 600 on that file",
    ),
    (
        "home/key_owner",
        "run as the user that owns it, or give the file back to yourself with chown",
    ),
    ("home/not_initialised", "make one: `{overlane} init`"),
    (
        "home/nowhere",
        "name a folder: --home DIR, or OVERLANE_HOME",
    ),
    (
        "home/socket_path_too_long",
        "name a folder with a shorter path: --home DIR",
    ),
    (
        "node/listen_in_use",
        "listen on another port: `{overlane} run --listen 127.0.0.1:0`",
    ),
    ("replay/no_store", "the first `{overlane} run` makes one"),
    (
        "send/unreachable",
        "stay linked to it: `{overlane} peer add URL`; see the links: `{overlane} peer list`",
    ),
    (
        "store/io",
        "see that the folder is there, is yours, and its disk is well; then `{overlane} run`",
    ),
    (
        "store/unknown_record",
        "see the names: `{overlane} replay list`",
    ),
    ("store/locked", "stop the process that has the store open"),
    (
        "store/wrong_kind",
        "name that kind of store in config.toml; a store is never converted",
    ),
];
