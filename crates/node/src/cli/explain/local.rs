//! What goes wrong on this machine: the command, the home, the local API, the node as a whole.

use super::{Entry, NOTHING, entry};

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "api/bad_digest",
        "The text is no digest of a transaction.",
        "give the digest that `{overlane} send` printed, or a Did and a sequence: `{overlane} explain DID SEQUENCE`",
    ),
    entry(
        "api/bad_destination",
        "Text that names no node was given as a destination.",
        "the other node shows its Did: overlane id",
    ),
    entry(
        "api/bad_log_filter",
        "The text says no levels that can be logged.",
        "give a level, or levels by target: `{overlane} log warn,overlane_node::link=debug`",
    ),
    entry(
        "api/bad_peer_url",
        "Text that is no address of a node was given as a peer.",
        "the other node's overlane run shows its URL, as http://HOST:PORT",
    ),
    entry(
        "api/bad_request",
        "The local API was sent a body that its path does not take.",
        "see what it takes: overlane api --openapi",
    ),
    entry(
        "api/broken",
        "The running node's answer broke off, or was none.",
        "see whether the node still runs: `{overlane} status`; its log says why it ended",
    ),
    entry(
        "api/key_not_opened",
        "The process that runs cannot open the key in its home: its passphrase was typed, or the file is gone.",
        "start the node again; with the file named in config.toml (key.passphrase_file or key.file) the next time needs no start",
    ),
    entry(
        "api/namespace_too_long",
        "The name of an application protocol has at most 64 bytes.",
        "give a shorter one",
    ),
    entry(
        "api/not_ours",
        "The home's node runs for another user of this machine. Its socket answers that user's processes alone, and root's.",
        "ask as that user: for the service, `sudo -u overlane overlane --home /var/lib/overlane status`",
    ),
    entry(
        "api/host_not_allowed",
        "A request on TCP named the host otherwise than the local API is known by: so does a page of a stranger whose name \
         was made to lead here.",
        "ask by the address itself, or name the host under api.hosts",
    ),
    entry(
        "api/no_randomness",
        "The platform gave no random bytes for the token of the local API.",
        "try again; if it stays so, the platform's random source is broken",
    ),
    entry(
        "api/no_token",
        "A request on TCP brought no token, or another one.",
        "send `Authorization: Bearer TOKEN`, with what is in api.token in the home",
    ),
    entry(
        "api/no_such_request",
        "The local API answers no such path, or not with this method.",
        "see what there is: overlane api --openapi",
    ),
    entry(
        "api/not_hex",
        "A field of the request is not hexadecimal.",
        NOTHING,
    ),
    entry(
        "api/not_running",
        "No node runs on this home.",
        "start it in another terminal: `{overlane} run`",
    ),
    entry(
        "api/not_watching",
        "Messages are taken by the one who watches.",
        "watch first: `{overlane} watch`",
    ),
    entry(
        "api/origin_not_allowed",
        "A page of another origin asked the local API from a browser.",
        "if the page is yours, name its origin under api.origins",
    ),
    entry(
        "api/relative_path",
        "A path was given to the local API that does not begin at the root.",
        "give it from the root: the node has a working folder of its own",
    ),
    entry(
        "api/stopping",
        "The node is shutting down and takes no more requests.",
        "start it again: `{overlane} run`",
    ),
    entry(
        "api/token_form",
        "The file of the local API's token holds none.",
        "remove the file; the next start makes another",
    ),
    entry(
        "api/token_open",
        "Others on this machine can read the local API's token, or have put it there.",
        "remove the file, and start the node again: it makes another",
    ),
    entry(
        "api/watched",
        "Somebody else takes this node's messages; one watcher at a time does.",
        "end the other `{overlane} watch` first",
    ),
    entry(
        "backup/is_copy",
        "The folder is a copy of a home that `backup` made, and no node is started in it.",
        "put it back into another folder: `{overlane} restore COPY` with --home NEW-FOLDER",
    ),
    entry(
        "backup/no_place",
        "No folder can be made where the copy is to go.",
        "name a folder that is not there yet, in one that you may write to",
    ),
    entry(
        "backup/not_ripe",
        "This home was put back from a copy, and proofs of messages that were admitted since the copy may still live.",
        "start it after the instant that is named; to start now would admit them twice",
    ),
    entry(
        "backup/not_whole",
        "The folder holds no whole copy of a home, or a file of it was changed.",
        "take another copy; one that was interrupted has no backup.json",
    ),
    entry(
        "backup/there",
        "There is something where the copy, or what is put back, is to go.",
        "name a folder that is not there yet",
    ),
    entry(
        "cli/api_listen",
        "The local API cannot listen at the address of api.listen.",
        "end what listens there, or name another port: `{overlane} run --set api.listen=127.0.0.1:7491`",
    ),
    entry(
        "cli/export_lock",
        "A key was to be exported, and it was not said under what.",
        "name --passphrase-file or --key-file; --open writes it for its owner's eyes alone",
    ),
    entry(
        "cli/ice_servers",
        "A server under ice.servers in config.toml cannot be used.",
        "name STUN servers as stun:HOST:PORT and TURN servers as turn:HOST:PORT with a username and a credential, three at most",
    ),
    entry(
        "cli/keep_too_large",
        "The signed bytes of a message that travels in chunks are not kept.",
        "send it without --keep; while its proof lives it can be sent anew",
    ),
    entry(
        "cli/metrics",
        "The numbers could not be written as text.",
        NOTHING,
    ),
    entry(
        "cli/man",
        "The manual pages cannot be written.",
        "name a folder that may be written to: `{overlane} man ~/.local/share/man/man1`",
    ),
    entry(
        "cli/metrics_listen",
        "`run --metrics` cannot listen at its address.",
        "end what listens there, or name another port: `{overlane} run --metrics 127.0.0.1:9465`",
    ),
    entry(
        "cli/metrics_not_loopback",
        "`run --metrics` answers this machine only: whoever reads metrics sees how busy a node is.",
        "name an address such as 127.0.0.1:9464, and let what collects them for others ask there",
    ),
    entry(
        "cli/no_body",
        "Neither TEXT nor --file was given, and standard input is empty.",
        "name the body; for an empty message, TEXT is \"\"",
    ),
    entry(
        "cli/no_browser",
        "No program opened the page of the dashboard.",
        "open what `{overlane} dashboard` prints in a browser on this machine",
    ),
    entry(
        "cli/no_dashboard",
        "The dashboard is on a port of the loopback, and the running node answers on its Unix socket alone.",
        "start the node as `{overlane} run --set api.listen=127.0.0.1:7490`, or put `listen = \"127.0.0.1:7490\"` under [api] in \
         config.toml",
    ),
    entry(
        "cli/no_randomness",
        "The platform gave no random bytes for a key.",
        "try again; if it stays so, the platform's random source is broken",
    ),
    entry(
        "cli/no_runtime",
        "The platform gave the process no event queue.",
        "see the limits of open files and processes: ulimit -a",
    ),
    entry(
        "cli/no_signals",
        "The platform let the process listen to no signals.",
        "see the limits of the service or container it runs in",
    ),
    entry(
        "cli/openapi",
        "The document of the local API could not be written as text.",
        NOTHING,
    ),
    entry(
        "cli/output",
        "Standard output could not be written.",
        "see where it is redirected to, and the room left there",
    ),
    entry(
        "cli/read",
        "A file that was named cannot be read.",
        "see its path and its permissions",
    ),
    entry(
        "cli/too_large",
        "The body, or the file, is larger than one message may be.",
        "send less, or several messages",
    ),
    entry(
        "cli/unknown_code",
        "There is no such code.",
        "see them all: overlane explain",
    ),
    entry(
        "cli/unknown_key",
        "The configuration has no such key.",
        "see them all: overlane config explain",
    ),
    entry(
        "cli/usage",
        "What was typed is not understood.",
        "see the command's --help",
    ),
    entry(
        "cli/upload_ended",
        "The node ended before a large message was in its lane.",
        "start it, and send the message again",
    ),
    entry(
        "cli/write",
        "A file that was named cannot be written.",
        "see its path, its permissions and the room left there",
    ),
    entry(
        "demo/delegatee",
        "The demo could not make a second delegatee.",
        NOTHING,
    ),
    entry(
        "demo/folder",
        "The demo could not make its temporary folder.",
        "see the room in the folder for temporary files, or set TMPDIR",
    ),
    entry(
        "demo/no_evidence",
        "A node of the demo kept no evidence of a fork that it saw.",
        NOTHING,
    ),
    entry(
        "demo/no_verdict",
        "A node of the demo gave no verdict in time.",
        "try again on a machine that is less busy; loopback must not be filtered",
    ),
    entry(
        "demo/stopped",
        "A node of the demo is not running.",
        NOTHING,
    ),
    entry(
        "home/account_kind",
        "An Ed25519 account cannot be kept away from its node: others seal to that account's own key, whatever card they are \
         shown.",
        "make an account that can be: `overlane --home DIR init --kind secp256k1`",
    ),
    entry(
        "home/already_initialised",
        "There is an account in this home, and a key is never written over.",
        "see who it is: `{overlane} id`; for another node, name another folder with --home",
    ),
    entry(
        "home/config",
        "The configuration has a mistake in the line that is named.",
        "mend that line, or take it away to get the default; `{overlane} config check` shows every mistake",
    ),
    entry(
        "home/config_mode",
        "config.toml holds the credential of a TURN server, and others on this machine can read or write it.",
        "chmod 600 on that file; if somebody else can have read it, a new credential too",
    ),
    entry(
        "home/delegated",
        "The account's key is asked for, and this home has a delegatee's alone.",
        "do this where the account's key is",
    ),
    entry(
        "home/folder_open",
        "The home's folder is another user's, or everybody may write into it: they could put another store or socket there.",
        "if nobody else has been there: chmod 700 on that folder, as the user that owns it; else name another with --home",
    ),
    entry(
        "home/in_use",
        "Another process has this home: one daemon at a time does.",
        "stop that process first, or name another folder with --home",
    ),
    entry(
        "home/io",
        "A file of the home could not be read or written.",
        "see that the folder is there, is yours, and its disk is well",
    ),
    entry(
        "home/key_invalid",
        "The key file holds no key pair.",
        "put the file back from a backup; without it the account is lost",
    ),
    entry(
        "home/key_locked",
        "The account's key is sealed, and what opens it was not given.",
        "name the file that opens it: `{overlane} run --set key.passphrase_file=FILE`, or key.file; or start it at a terminal, \
         which asks",
    ),
    entry(
        "home/key_mode",
        "Others on this machine can read or write the key file.",
        "if nobody else can have read it: chmod 600 on that file",
    ),
    entry(
        "home/key_owner",
        "The key file belongs to another user.",
        "run as the user that owns it, or give the file back to yourself with chown",
    ),
    entry(
        "home/key_there",
        "There is a file where the key is to be written, and no key is written over it.",
        "name a file that is not there yet",
    ),
    entry(
        "home/key_weak_lock",
        "A passphrase or a key file is too short to protect anything, or too long.",
        "a passphrase has 8 bytes or more, a key file 32 or more: head -c 32 /dev/urandom > FILE",
    ),
    entry(
        "home/key_wrong_lock",
        "The passphrase or the key file does not open the account's key.",
        "give the one it was sealed under; without it the account is lost",
    ),
    entry(
        "home/not_asked_for",
        "The delegation is to another key than the one this home asked for last, or of another account.",
        "have the account grant the last request: `{overlane} key request`, then key delegate and key accept",
    ),
    entry(
        "home/not_delegated",
        "The account of this home is kept elsewhere, and has not let this home sign yet.",
        "ask it: `{overlane} key request`, then key delegate where the account is, then key accept here",
    ),
    entry(
        "home/not_initialised",
        "There is no node in this home.",
        "make one: `{overlane} init`",
    ),
    entry(
        "home/nowhere",
        "The environment names no place for a home.",
        "name a folder: --home DIR, or OVERLANE_HOME",
    ),
    entry(
        "home/own_account",
        "The account's own key is in this home: nobody has to be asked.",
        "a home for an account that is kept elsewhere: `overlane --home DIR init --delegated-by DID-KEY`",
    ),
    entry(
        "home/random",
        "The platform gave no random bytes for a key.",
        "try again; if it stays so, the platform's random source is broken",
    ),
    entry(
        "home/setting",
        "A variable of the environment, or a flag, says what the configuration does not take.",
        "mend it or leave it out; `{overlane} config explain KEY` says what a key takes",
    ),
    entry(
        "home/socket_path_too_long",
        "The path of the local API's socket is longer than the platform can bind.",
        "name a folder with a shorter path: --home DIR",
    ),
    entry(
        "receipt/form",
        "The file, or what a node answered, is no admission receipt.",
        "name the file that `send --receipt=FILE` wrote",
    ),
    entry(
        "receipt/not_the_destination",
        "A receipt is signed by somebody else than the destination of the message's stream.",
        "do not count on it: it proves nothing",
    ),
    entry(
        "key/secret_mode",
        "A file with a passphrase, or one that a key is sealed under, can be read by others on this machine.",
        "chmod 600 on that file; if somebody else can have read it, seal the key anew: `{overlane} key seal`",
    ),
    entry(
        "key/too_long",
        "The delegation that is asked for would live longer than is allowed here.",
        "ask for fewer days, or allow more with --days",
    ),
    entry(
        "node/broken",
        "The node broke off without being asked to; what was durable is kept.",
        "its log says why; start it again: `{overlane} run`",
    ),
    entry(
        "node/closed",
        "The node has shut down.",
        "start it again: `{overlane} run`",
    ),
    entry(
        "node/delegated",
        "The node signs for an account that is kept elsewhere, so it cannot have another delegatee signed for.",
        "ask the account: `{overlane} key request`, then key delegate where it is, and key accept here: a running node signs with that at once",
    ),
    entry(
        "node/delegating_full",
        "As many namespaces delegate their replay as may.",
        "let one namespace carry several kinds of message",
    ),
    entry(
        "node/delegation",
        "No delegation can be made with this life.",
        "give a life of at most 30 days",
    ),
    entry(
        "node/listen",
        "The node cannot listen at the address.",
        "give an address of this machine: `{overlane} run --listen 127.0.0.1:0`",
    ),
    entry(
        "node/listen_in_use",
        "Another program listens at the address.",
        "listen on another port: `{overlane} run --listen 127.0.0.1:0`",
    ),
    entry(
        "node/no_account",
        "A node was built without an account.",
        "give the builder one",
    ),
    entry(
        "node/other_account",
        "What is to be signed with is of another account or network, or the account's own key is here and signs for itself.",
        "accept the word of this node's account: `{overlane} key request` shows which it is; with the account's key here, key rotate",
    ),
    entry(
        "node/peers_full",
        "The node stays linked to as many peers as it may.",
        "drop one: `{overlane} peer drop URL`",
    ),
    entry(
        "node/random",
        "The platform gave no random bytes.",
        "try again; if it stays so, the platform's random source is broken",
    ),
    entry(
        "node/thread",
        "The platform started no thread.",
        "see the limits of the service or container it runs in",
    ),
];
