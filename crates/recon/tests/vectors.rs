//! Every case of the published and derived vectors, byte for byte.
//!
//! Further files of the same format are named in `OVERLANE_RECON_VECTORS`, separated by colons.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a case that cannot be read fails the test"
)]

mod common;

use std::collections::BTreeMap;

use overlane_recon::frames::{Envelope, Frame};
use overlane_recon::pair::Relay;
use overlane_recon::{
    Content, Id, Item, ItemSet, Limits, Message, Storage, advance, initiate, respond,
};
use serde_json::Value;

const OURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/recon-vectors.json");
const CASES_OURS: usize = 210;

#[test]
fn golden_every_vector_passes_byte_for_byte() {
    let further = std::env::var("OVERLANE_RECON_VECTORS").unwrap_or_default();
    let mut failures = Vec::new();
    for path in std::iter::once(OURS).chain(further.split(':').filter(|path| !path.is_empty())) {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let file: Value = serde_json::from_str(&text).unwrap();
        let cases = file["cases"].as_array().unwrap();
        let mut passed: BTreeMap<&str, usize> = BTreeMap::new();
        for case in cases {
            let (kind, name) = (
                case["kind"].as_str().unwrap(),
                case["name"].as_str().unwrap(),
            );
            match check(kind, case) {
                Ok(()) => *passed.entry(kind).or_default() += 1,
                Err(why) => failures.push(format!("{kind} '{name}': {why}")),
            }
        }
        let total: usize = passed.values().sum();
        println!("{path}: {total} of {} vectors pass {passed:?}", cases.len());
        if path == OURS {
            assert_eq!(cases.len(), CASES_OURS);
        }
    }
    assert!(
        failures.is_empty(),
        "{} fail:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

type Checked = Result<(), String>;

fn check(kind: &str, case: &Value) -> Checked {
    match kind {
        "published" => published(case),
        "fingerprint" => {
            let mut set = set(&case["items"]);
            same(
                "fingerprint",
                set.whole_fingerprint().to_string(),
                text(&case["fingerprint"]),
            )
        }
        "initiate" => {
            let mut set = set(&case["items"]);
            let Ok(opening) = initiate(&mut set, &Limits::default());
            payload("opening", &opening, case, "opening")
        }
        "decode" => decode(case),
        "malformed" => {
            let outcome = Message::decode(&bytes(&case["payload"])).map(|_| "accepted");
            let code = outcome.unwrap_or_else(|refusal| refusal.code());
            same("code", code, text(&case["code"]))
        }
        "respond" => responded(case, Limits::default()),
        "respond_bounded" => {
            let limit = number(&case["push_limit"]) as usize;
            responded(case, Limits::default().push_ids(limit))
        }
        "advance" => advanced(case),
        "dialogue" | "dialogue_digest" => dialogue(case),
        "envelope" => envelope(case),
        "frame" => frame(case),
        unknown => Err(format!("unknown kind {unknown}")),
    }
}

fn published(case: &Value) -> Checked {
    let mut held = set(&case["held"]);
    same(
        "fingerprint",
        held.whole_fingerprint().to_string(),
        text(&case["fingerprint"]),
    )?;
    let Ok(opening) = initiate(&mut held, &Limits::default());
    payload("opening", &opening, case, "opening")?;
    if case.get("incoming").is_none_or(Value::is_null) {
        return Ok(());
    }
    let Ok(incoming) = initiate(&mut set(&case["answering"]), &Limits::default());
    payload("incoming", &incoming, case, "incoming")?;
    let step = advance(&mut held, &incoming, &Limits::default()).map_err(|e| e.to_string())?;
    match step.reply {
        Some(reply) => payload("reply", &reply, case, "reply")?,
        None => same("reply", &Value::Null, &case["reply"])?,
    }
    list("want", &step.want, case, "want")?;
    list("send", &ids(&step.send), case, "send")
}

fn decode(case: &Value) -> Checked {
    let payload = bytes(&case["payload"]);
    let message = Message::decode(&payload).map_err(|refusal| refusal.to_string())?;
    let expected = case["ranges"].as_array().unwrap();
    same("ranges", message.ranges().len(), expected.len())?;
    for (range, expected) in message.ranges().iter().zip(expected) {
        same("upper", range.upper, number(&expected["upper"]))?;
        match (&range.content, expected["mode"].as_str().unwrap()) {
            (Content::Skip, "skip") => {}
            (Content::Fingerprint(found), "fingerprint") => {
                same(
                    "fingerprint",
                    hex::encode(found),
                    text(&expected["fingerprint"]),
                )?;
            }
            (Content::Ids(found), "idlist") => {
                let found: Vec<_> = found.iter().map(|id| Id(*id)).collect();
                list("ids", &found, expected, "ids")?;
            }
            (found, mode) => return Err(format!("mode {mode}, found {found:?}")),
        }
    }
    same("bytes", message.encode(), payload)
}

fn responded(case: &Value, limits: Limits) -> Checked {
    let mut local = set(&case["local"]);
    let response =
        respond(&mut local, &bytes(&case["incoming"]), &limits).map_err(|e| e.to_string())?;
    payload("reply", &response.reply, case, "reply")?;
    list("push", &ids(&response.push), case, "push")
}

fn advanced(case: &Value) -> Checked {
    let mut local = set(&case["local"]);
    let step = advance(&mut local, &bytes(&case["incoming"]), &Limits::default())
        .map_err(|e| e.to_string())?;
    match step.reply {
        Some(reply) => payload("reply", &reply, case, "reply")?,
        None => same("reply", &Value::Null, &case["reply"])?,
    }
    list("want", &step.want, case, "want")?;
    list("send", &ids(&step.send), case, "send")
}

/// The whole exchange as the two machines have it, and each step of it as the pure functions see it.
fn dialogue(case: &Value) -> Checked {
    let limits = Limits::default();
    let relay_limits = match &case["push_limit"] {
        Value::Null => limits,
        limit => limits.push_ids(number(limit) as usize),
    };
    let (mut client, mut relay) = (set(&case["client"]), Relay::new(items(&case["relay"])));
    let (report, seen) = common::run_between(&mut client, &mut relay, limits, relay_limits);
    let steps = case["steps"].as_array().unwrap();
    same("rounds", report.rounds as usize, steps.len())?;
    same(
        "client bytes",
        report.bytes_out,
        number(&case["client_bytes"]),
    )?;
    same("relay bytes", report.bytes_in, number(&case["relay_bytes"]))?;
    same("pushed", seen.pushed.len() as u64, number(&case["pushed"]))?;
    same("sent", seen.sent.len() as u64, number(&case["sent"]))?;
    let (mut before, mut relay_before) = (set(&case["client"]), Relay::new(items(&case["relay"])));
    for (index, step) in steps.iter().enumerate() {
        payload(
            "client message",
            &seen.client[index],
            step,
            "client_message",
        )?;
        payload("relay reply", &seen.relay[index], step, "relay_reply")?;
        let response = respond(&mut relay_before.set, &seen.client[index], &relay_limits)
            .map_err(|e| e.to_string())?;
        list("push", &ids(&response.push), step, "push")?;
        for item in &response.push {
            before.insert(*item).unwrap();
        }
        let advanced = advance(&mut before, &response.reply, &limits).map_err(|e| e.to_string())?;
        list("want", &advanced.want, step, "want")?;
        list("send", &ids(&advanced.send), step, "send")?;
        let mut acks = Vec::new();
        for item in &advanced.send {
            let seq = relay_before.accept(item.id).unwrap();
            before.renumber(item, seq).unwrap();
            acks.push(serde_json::json!([item.id.to_string(), seq.to_string()]));
        }
        if let Some(expected) = step.get("acks") {
            same("acks", &Value::from(acks), expected)?;
        }
    }
    final_set("client", &mut client, case, "final_client")?;
    final_set("relay", &mut relay.set, case, "final_relay")
}

fn final_set(what: &str, found: &mut ItemSet, case: &Value, key: &str) -> Checked {
    let fingerprint = text(&case[format!("{key}_fingerprint").as_str()]);
    same(what, found.whole_fingerprint().to_string(), fingerprint)?;
    if case[key].is_array() {
        let expected: ItemSet = items(&case[key]).into_iter().collect();
        same(
            what,
            found.iter().collect::<Vec<_>>(),
            expected.iter().collect::<Vec<_>>(),
        )?;
    }
    Ok(())
}

fn envelope(case: &Value) -> Checked {
    let content = match &case["ct"] {
        Value::Object(fill) => vec![number(&fill["fill"]) as u8; number(&fill["len"]) as usize],
        ct => bytes(ct),
    };
    let group: [u8; 32] = bytes(&case["group"]).try_into().unwrap();
    let envelope = Envelope {
        encrypted: number(&case["enc"]) == 1,
        group: &group,
        epoch: number(&case["epoch"]),
        seq: number(&case["seq"]),
        made_ms: number(&case["ts"]),
        content: &content,
    };
    same("hash", envelope.hash().to_string(), text(&case["hash"]))?;
    payload("encoded", &envelope.encode(), case, "encoded")
}

fn frame(case: &Value) -> Checked {
    let group = case
        .get("group")
        .map(bytes)
        .unwrap_or_default()
        .try_into()
        .unwrap_or([0; 32]);
    let hash = case
        .get("hash")
        .map(bytes)
        .unwrap_or_default()
        .try_into()
        .unwrap_or([0; 32]);
    let payload_bytes = case.get("payload").map(bytes).unwrap_or_default();
    let envelope = case.get("envelope").map(bytes).unwrap_or_default();
    let detail = case.get("detail").map(bytes).unwrap_or_default();
    let frame = match number(&case["tag"]) {
        9 => Frame::Recon {
            group: &group,
            payload: &payload_bytes,
        },
        10 => Frame::Push(&envelope),
        11 => Frame::Send(&envelope),
        12 => Frame::SendAck {
            hash: &hash,
            seq: number(&case["seq"]),
        },
        15 => Frame::Error {
            class: text(&case["class"]).as_bytes(),
            reason: text(&case["code"]).as_bytes(),
            retry_after_s: number(&case["retry_after"]),
            detail: &detail,
        },
        tag => return Err(format!("tag {tag}")),
    };
    let encoded = frame.encode();
    payload("frame", &encoded, case, "frame")?;
    same("decoded", Frame::decode(&encoded), Ok(frame))
}

// ---- reading the file ----

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn bytes(value: &Value) -> Vec<u8> {
    hex::decode(text(value)).unwrap()
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| text(value).parse().unwrap())
}

fn items(value: &Value) -> Vec<Item> {
    let mut items = Vec::new();
    for entry in value.as_array().unwrap() {
        match entry {
            Value::Array(pair) => items.push(Item {
                seq: number(&pair[0]),
                id: Id(bytes(&pair[1]).try_into().unwrap()),
            }),
            Value::Object(run) => {
                let (from, to) = (number(&run["from"]), number(&run["to"]));
                let step = number(&run["step"]) as usize;
                let rule = text(&run["ids"]);
                items.extend((from..=to).step_by(step).map(|seq| ruled(seq, rule)));
            }
            seq => items.push(ruled(number(seq), "seq")),
        }
    }
    items
}

fn ruled(seq: u64, rule: &str) -> Item {
    if rule == "b3" {
        return common::item(seq);
    }
    let mut id = [0; 32];
    id[..8].copy_from_slice(&seq.to_be_bytes());
    Item { seq, id: Id(id) }
}

fn set(value: &Value) -> ItemSet {
    items(value).into_iter().collect()
}

fn ids(items: &[Item]) -> Vec<Id> {
    items.iter().map(|item| item.id).collect()
}

// ---- comparing ----

fn same<A: PartialEq<B> + std::fmt::Debug, B: std::fmt::Debug>(
    what: &str,
    found: A,
    expected: B,
) -> Checked {
    if found == expected {
        return Ok(());
    }
    let shorten = |text: String| text.chars().take(300).collect::<String>();
    Err(format!(
        "{what}: found {}, expected {}",
        shorten(format!("{found:?}")),
        shorten(format!("{expected:?}"))
    ))
}

/// Bytes given in full under `key`, or by `key_blake3` and `key_len`.
fn payload(what: &str, found: &[u8], case: &Value, key: &str) -> Checked {
    if let Some(digest) = case.get(format!("{key}_blake3")) {
        same(
            what,
            found.len() as u64,
            number(&case[format!("{key}_len").as_str()]),
        )?;
        return same(what, blake3::hash(found).to_string(), text(digest));
    }
    same(
        what,
        hex::encode(found),
        case[key].as_str().unwrap_or("null"),
    )
}

/// Ids given in full under `key`, by `key_blake3` and `key_count`, or by `key_count` alone.
fn list(what: &str, found: &[Id], case: &Value, key: &str) -> Checked {
    if let Some(count) = case.get(format!("{key}_count")) {
        same(what, found.len() as u64, number(count))?;
        let all: Vec<u8> = found.iter().flat_map(|id| id.0).collect();
        return match case.get(format!("{key}_blake3")) {
            Some(digest) => same(what, blake3::hash(&all).to_string(), text(digest)),
            None => Ok(()),
        };
    }
    let found: Vec<Value> = found.iter().map(|id| id.to_string().into()).collect();
    same(what, &Value::from(found), &case[key])
}

/// The set's own fingerprints agree with hashing the records as they stand.
#[test]
fn law_a_kept_fingerprint_is_what_hashing_anew_gives() {
    let mut set: ItemSet = (1..=5000).map(common::item).collect();
    let records: Vec<_> = set.iter().map(|item| item.record().unwrap()).collect();
    for range in [0..5000, 0..4096, 17..4200, 4990..5000, 0..0, 0..5000] {
        let Ok(kept) = set.fingerprint(range.clone());
        assert_eq!(
            kept,
            overlane_recon::fingerprint::of_records(&records[range])
        );
    }
}
