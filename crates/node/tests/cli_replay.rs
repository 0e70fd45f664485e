//! `replay …` and `bounds`, on stores that real daemons wrote.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed, helpers' parts too"
)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use overlane_core::identity::{Delegatee, Delegation, Life, Signer, VerifyContext};
use overlane_core::replay::record::{FloorRecord, Record};
use overlane_core::store::{Change, Effect, Found, RecordName, RecordStore as _};
use overlane_core::transaction::{Draft, Message, Namespace, Payload, RelayFields, Transaction};
use overlane_core::wire::cbor::to_vec;
use overlane_core::{NetworkId, TxId};
use overlane_node::home::{Home, KeyLock};
use overlane_storage_native::vfs::RealVfs;
use overlane_storage_native::{JournalConfig, JournalStore, StoreAdmin as _, StoreKind};
use serde_json::Value;
use support::{Answer, Pair, Place, event};

/// A receiver, stopped, that admitted one message in each of these classes.
fn stopped_receiver(kind: &str, classes: &[&str]) -> Pair {
    let mut pair = Pair::of(Place::with_node(), Place::with_store(kind));
    for class in classes {
        pair.send(&["hello", "--class", class, "--no-hold"]);
        pair.take();
    }
    assert_eq!(pair.receiver.running.terminate(), Some(0));
    pair
}

fn lines(answer: &Answer) -> Vec<Value> {
    let lines = answer.out.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect()
}

/// The names of the store's records, by the class of their stream.
fn name_of(place: &Place, class: &str) -> String {
    let listed = place.overlane(["replay", "list", "--json"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    let lines = lines(&listed);
    let of_class = |line: &&Value| {
        line["stream"]
            .as_str()
            .is_some_and(|it| it.ends_with(class))
    };
    let line = lines.iter().find(of_class).expect("a record");
    line["record"].as_str().expect("a name").to_owned()
}

#[test]
fn cli_replay_shows_a_sound_store_of_either_kind() {
    for kind in ["journal", "files"] {
        let pair = stopped_receiver(kind, &["application", "storage"]);
        let verified = pair.there.overlane(["replay", "verify", "--json"]);
        assert_eq!(verified.code, 0, "{verified:?}");
        let verified = verified.json();
        assert_eq!(
            (&verified["kind"], &verified["records"]),
            (&kind.into(), &2.into())
        );
        assert_eq!(verified["restores"]["receiver"], 2);
        let name = name_of(&pair.there, "storage");
        let shown = pair
            .there
            .overlane(["replay", "show", &name, "--json"])
            .json();
        assert_eq!(
            (&shown["state"], &shown["table"]),
            (&"restores".into(), &"receiver".into())
        );
        assert_eq!(shown["admitted"][0]["sequence"], shown["high"]);
        let sender = pair.here.overlane(["replay", "list", "--json"]);
        sender.is_refused(3, "home/in_use");
        pair.there
            .overlane(["replay", "show", &"0".repeat(40), "--json"])
            .is_refused(2, "store/unknown_record");
        pair.there
            .overlane(["replay", "show", "short", "--json"])
            .is_refused(2, "cli/usage");
    }
}

/// One record corrupted, one in another's place, one gone; what is left of the first.
fn harm_files(place: &Place, [corrupted, foreign, deleted, sound]: [&str; 4]) -> Vec<u8> {
    let file = |name: &str| place.home().join("replay").join(name);
    let mut bytes = fs::read(file(corrupted)).expect("a record");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(file(corrupted), &bytes).expect("corrupted");
    fs::copy(file(sound), file(foreign)).expect("another's");
    fs::remove_file(file(deleted)).expect("deleted");
    bytes
}

/// The same in a journal: another's bytes get into a record's place through the store alone, the
/// rest happens to the blocks of its snapshot.
fn harm_journal(place: &Place, [corrupted, foreign, deleted, sound]: [&str; 4]) {
    let folder = place.home().join("replay");
    let record = |name: &str| name.parse::<RecordName>().expect("a name");
    let store = JournalStore::open(Arc::new(RealVfs), &folder, JournalConfig::default());
    let mut store = store.expect("the store");
    let Ok(Found::Bytes(anothers)) = store.show(record(sound)) else {
        panic!("it is sound")
    };
    let change = Change {
        name: record(foreign),
        effect: Effect::Write(Arc::new(anothers)),
    };
    store.write(&[change]).expect("written");
    store.checkpoint().expect("a snapshot");
    drop(store);
    let mut entries = fs::read_dir(&folder).expect("a folder").flatten();
    let snapshot =
        entries.find(|entry| entry.file_name().to_string_lossy().starts_with("snapshot-"));
    let snapshot = snapshot.expect("a snapshot").path();
    let mut bytes = fs::read(&snapshot).expect("a snapshot");
    let block = |bytes: &[u8], name: &str| {
        let head = [b"OVSR", record(name).0.as_slice()].concat();
        let found = bytes.windows(head.len()).position(|at| at == head);
        let start = found.expect("its block");
        let length = bytes[start + 36..].first_chunk().expect("its length");
        start..start + 40 + u32::from_be_bytes(*length) as usize + 16
    };
    let middle = block(&bytes, corrupted).start + 60;
    bytes[middle] ^= 1;
    let gone = block(&bytes, deleted);
    bytes[gone].fill(0);
    fs::write(&snapshot, &bytes).expect("written");
}

#[test]
fn cli_replay_names_what_is_wrong_and_harms_nothing_else() {
    for kind in ["journal", "files"] {
        let classes = ["application", "storage", "e2e", "control"];
        let mut pair = stopped_receiver(kind, &classes);
        let names = classes.map(|class| name_of(&pair.there, class));
        let [corrupted, foreign, deleted, sound] = &names;
        let harmed = [corrupted, foreign, deleted, sound].map(String::as_str);
        let left = match kind {
            "files" => Some(harm_files(&pair.there, harmed)),
            _ => {
                harm_journal(&pair.there, harmed);
                None
            }
        };

        let verified = pair.there.overlane(["replay", "verify", "--json"]);
        assert_eq!(verified.code, 1, "{verified:?}");
        let verified = verified.json();
        assert_eq!(verified["restores"]["receiver"], 1, "{verified}");
        let bad = verified["bad"].as_array().expect("a list");
        assert_eq!(bad.len(), 3, "{verified}");
        for (name, state) in [
            (corrupted, "torn"),
            (foreign, "foreign"),
            (deleted, "missing"),
        ] {
            let line = bad.iter().find(|line| line["record"] == name.as_str());
            assert_eq!(line.expect("it is named")["state"], state, "{kind}");
            let shown = pair.there.overlane(["replay", "show", name, "--json"]);
            assert_eq!(shown.json()["state"], state, "{kind}: {shown:?}");
        }
        if let Some(left) = left {
            let file = pair.there.home().join("replay").join(corrupted);
            assert_eq!(fs::read(file).expect("still there"), left);
        }
        let words = pair.there.overlane(["replay", "verify"]);
        assert!(words.out.contains("3 do not restore"), "{words:?}");
        assert!(words.out.contains("replay clear"), "{words:?}");

        // The node runs on: each stream fails closed alone.
        pair.receiver = pair.there.daemon();
        pair.link();
        let mut watch = pair.watch();
        pair.send(&["again", "--class", "application", "--no-hold"]);
        let refused = event(&mut watch, "refused");
        assert_eq!(refused["error"], "replay/stream_unavailable", "{kind}");
        watch.kill();
        pair.send(&["again", "--class", "control"]);
        assert_eq!(pair.take()["verdict"], "Advance", "{kind}");
        assert_eq!(pair.receiver.running.terminate(), Some(0));

        for name in [corrupted, foreign, deleted] {
            let done = pair
                .there
                .overlane(["replay", "clear", name, "--yes", "--json"]);
            assert_eq!(done.code, 0, "{kind}: {done:?}");
        }
        let verified = pair.there.overlane(["replay", "verify", "--json"]);
        assert_eq!(verified.code, 0, "{kind}: {verified:?}");
        assert_eq!(verified.json()["restores"]["receiver"], 1);
    }
}

#[test]
fn cli_replay_a_store_that_lost_its_kind_file_is_damaged_and_no_new_one() {
    for kind in ["journal", "files"] {
        let pair = stopped_receiver(kind, &["application"]);
        fs::remove_file(pair.there.home().join("replay").join("kind")).expect("removed");
        for (command, code) in [("verify", 4), ("list", 4)] {
            let refused = pair.there.overlane(["replay", command, "--json"]);
            refused.is_refused(code, "store/damaged");
            let words = refused.json()["message"].to_string();
            assert!(words.contains("move it away"), "{words}");
        }
        let refused = pair.there.overlane(["run", "--json"]);
        refused.is_refused(4, "store/damaged");
    }
}

#[test]
fn cli_replay_clear_says_what_it_costs_and_keeps_what_it_moves() {
    for kind in ["journal", "files"] {
        let mut pair = stopped_receiver(kind, &["application", "storage"]);
        let name = name_of(&pair.there, "application");
        let asked = pair.there.overlane(["replay", "clear", &name, "--json"]);
        assert_eq!(asked.code, 1, "{asked:?}");
        let asked = asked.json();
        assert_eq!(asked["cleared"], false);
        assert!(
            asked["cost"]
                .as_str()
                .is_some_and(|cost| cost.contains("once more")),
            "{asked}"
        );
        assert_eq!(
            name_of(&pair.there, "application"),
            name,
            "nothing was changed"
        );

        let done = pair
            .there
            .overlane(["replay", "clear", &name, "--yes", "--json"]);
        assert_eq!(done.code, 0, "{done:?}");
        let kept = done.json()["kept"].as_str().expect("a path").to_owned();
        assert!(Path::new(&kept).exists(), "{kept}");
        let left = lines(&pair.there.overlane(["replay", "list", "--json"]));
        assert!(
            left.iter().all(|line| line["record"] != name.as_str()),
            "{left:?}"
        );

        pair.receiver = pair.there.daemon();
        pair.link();
        pair.send(&["hello again", "--no-hold"]);
        assert_eq!(
            pair.take()["verdict"],
            "First",
            "the cleared stream starts again"
        );
        pair.send(&["and here", "--class", "storage"]);
        assert_eq!(pair.take()["verdict"], "Advance", "the other goes on");
    }
}

#[test]
fn cli_replay_forks_are_listed_exported_and_checked_by_anyone() {
    let mut pair = Pair::linked();
    let sent = pair.send(&["hello", "--no-hold"]);
    pair.take();
    let forged = pair.here.dir.path().join("forged");
    let sequence = sent["sequence"].as_u64().expect("a number");
    fs::write(&forged, forge(&pair, sequence)).expect("written");
    let mut watch = pair.watch();
    let forged = forged.to_str().expect("text");
    assert_eq!(pair.here.overlane(["send", "--signed", forged]).code, 0);
    assert_eq!(event(&mut watch, "refused")["error"], "replay/fork");
    watch.kill();
    assert_eq!(pair.receiver.running.terminate(), Some(0));

    let listed = pair
        .there
        .overlane(["replay", "forks", "--export", "out", "--json"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    let [fork] = lines(&listed).try_into().expect("one");
    assert_eq!(
        (&fork["stream"], &fork["sequence"]),
        (&sent["stream"], &sent["sequence"])
    );
    assert_eq!(
        (&fork["accepted"], &fork["both_signed"]),
        (&sent["digest"], &true.into())
    );
    assert_eq!(fork["reporter"], pair.receiver.up["did"]);

    // Anywhere else: no home, no store.
    let elsewhere = Place::new();
    let file = pair
        .there
        .dir
        .path()
        .join(fork["file"].as_str().expect("a path"));
    let path = file.to_str().expect("text");
    let checked = elsewhere.overlane(["replay", "forks", "verify", path, "--json"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert_eq!(checked.json()["offered"], fork["offered"]);
    let mut bytes = fs::read(&file).expect("an evidence");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&file, &bytes).expect("tampered");
    let refused = elsewhere.overlane(["replay", "forks", "verify", path, "--json"]);
    refused.is_refused(1, "payload/bad_signature");
    fs::write(&file, "no evidence").expect("written");
    assert_eq!(
        elsewhere.overlane(["replay", "forks", "verify", path]).code,
        1
    );
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.expect("after it").as_millis();
    since.try_into().expect("this age")
}

/// Another message of the sender's account to the receiver, under this sequence.
fn forge(pair: &Pair, sequence: u64) -> Vec<u8> {
    let account = Home::at(pair.here.home())
        .account(&KeyLock::Open)
        .expect("a key");
    let network = NetworkId(1);
    let life = Life {
        issued_ms: now_ms(),
        ttl_ms: 60_000,
    };
    let context = VerifyContext {
        network,
        now_ms: life.issued_ms,
    };
    let delegatee = Delegatee::from_seed([7; 32].into());
    let delegation = Delegation::issue(&account, &delegatee, network, life).expect("issued");
    let delegation = delegation.verify(&context).expect("verified");
    let signer = Signer::new(delegatee, delegation).expect("its own");
    let destination = pair.receiver.did().parse().expect("a Did");
    let draft = Draft {
        destination,
        tx_id: TxId([7; 16]),
        sequence,
        message: Message::Application {
            namespace: Namespace::default(),
            body: b"something else",
        },
        life,
    };
    let transaction = Transaction::sign(&draft, &signer).expect("signed");
    let relay = RelayFields::direct(destination);
    let payload = Payload::carry(transaction, relay, &signer, life).expect("carried");
    payload.to_frame(|_| false)
}

#[test]
fn cli_bounds_are_those_of_the_daemon_or_of_its_store() {
    let mut pair = Pair::linked();
    pair.send(&["hello", "--no-hold"]);
    pair.take();
    let bound = |name: &str| -> Value {
        let sheet = lines(&pair.there.overlane(["bounds", "--json"]));
        sheet
            .into_iter()
            .find(|bound| bound["name"] == name)
            .expect("in the sheet")
    };
    let running = bound("replay_receiver_streams");
    assert_eq!(
        (&running["limit"], &running["current"]),
        (&16_384.into(), &1.into())
    );
    assert_eq!(running["high_water"], 1);
    assert!(
        running["at_limit"]
            .as_str()
            .is_some_and(|it| it.contains("replay/stream_share_full"))
    );
    assert_eq!(bound("replay_slots")["current"], 1);
    let words = pair.there.overlane(["bounds"]);
    assert!(words.out.contains("replay_custody"), "{words:?}");

    assert_eq!(pair.receiver.running.terminate(), Some(0));
    let bound = |name: &str| -> Value {
        let sheet = lines(&pair.there.overlane(["bounds", "--json"]));
        sheet
            .into_iter()
            .find(|bound| bound["name"] == name)
            .expect("in the sheet")
    };
    assert_eq!(bound("replay_receiver_streams")["current"], 1);
    assert_eq!(bound("replay_slots")["current"], 0, "nobody is connected");
}

/// Writes this floor into the stopped node's store.
fn write_floor(place: &Place, kind: StoreKind, mail_ms: u64) {
    let home = Home::at(place.home());
    let mut store = home.open_store(kind).expect("the store");
    let floor = Record::Floor(FloorRecord {
        version: 3,
        mail_ms,
        sender_end: 77,
    });
    let change = Change {
        name: floor.id().name(),
        effect: Effect::Write(Arc::new(to_vec(&floor))),
    };
    store.write(&[change]).expect("written");
}

#[test]
fn cli_replay_floor_comes_down_from_the_future_to_now_and_says_what_that_costs() {
    for (name, kind) in [("journal", StoreKind::Journal), ("files", StoreKind::Files)] {
        let mut pair = stopped_receiver(name, &["storage"]);
        let floor = |pair: &Pair, args: &[&str]| {
            let asked = ["replay", "floor", "--json"].iter().chain(args);
            let answer = pair.there.overlane(asked);
            (answer.code, answer.json())
        };
        let (code, none) = floor(&pair, &[]);
        assert_eq!((code, &none["mail_ms"]), (0, &0.into()));

        let year_ms = 31_536_000_000;
        write_floor(&pair.there, kind, now_ms() + year_ms);
        let (code, shown) = floor(&pair, &[]);
        assert_eq!((code, &shown["reset"]), (1, &false.into()));
        let ahead_ms = shown["ahead_ms"].as_u64().expect("a number");
        assert!((1..=year_ms).contains(&ahead_ms), "{shown}");
        let cost = shown["cost"].as_str().expect("words");
        assert!(cost.contains("once more"), "{cost}");
        let words = pair.there.overlane(["replay", "floor"]);
        assert!(words.out.contains("replay floor --reset"), "{words:?}");

        // A node with this floor believes no newcomer, since nobody fresh confirms its clock.
        pair.receiver = pair.there.daemon();
        pair.there
            .overlane(["replay", "floor", "--reset", "--json"])
            .is_refused(3, "home/in_use");
        pair.link();
        let mut watch = pair.watch();
        pair.send(&["too early", "--class", "e2e"]);
        let refused = event(&mut watch, "refused");
        assert_eq!(refused["error"], "replay/clock_suspect");
        watch.kill();
        assert_eq!(pair.receiver.running.terminate(), Some(0));

        let (code, reset) = floor(&pair, &["--reset"]);
        assert_eq!((code, &reset["reset"]), (0, &true.into()));
        assert_eq!(reset["sender_end"], 77, "no sequence is signed twice");
        let (code, after) = floor(&pair, &[]);
        assert_eq!(
            (
                code,
                &after["ahead_ms"],
                &after["mail_ms"],
                &after["sender_end"]
            ),
            (0, &0.into(), &reset["mail_ms"], &77.into())
        );
        pair.receiver = pair.there.daemon();
        pair.link();
        pair.send(&["and now", "--class", "e2e"]);
        assert_eq!(pair.take()["verdict"], "First");
    }
}

#[test]
fn cli_replay_without_a_store_says_so() {
    let place = Place::with_node();
    place
        .overlane(["replay", "list", "--json"])
        .is_refused(2, "replay/no_store");
    let nowhere: PathBuf = place.home().join("replay");
    assert!(!nowhere.exists(), "looking made nothing");
    Place::new()
        .overlane(["replay", "verify", "--json"])
        .is_refused(2, "home/not_initialised");
}
