//! The table: ours, the other, and the ratio of ours to it.

use serde_json::{Value, json};

use crate::sets::Case;

pub(crate) fn head() {
    println!(
        "CPU in ms of client and server; peak memory of both sides in MB; ratio = ours / negentropy"
    );
    println!(
        "{:>9} {:>7} {:>9} {:>6} | {:>22} | {:>23} | {:>19} | {:>25} {:>25} {:>6} | {:>13}",
        "items",
        "differ",
        "where",
        "limit",
        "rounds, theirs",
        "KB, theirs",
        "largest KB, theirs",
        "CPU ms",
        "theirs",
        "ratio",
        "MB, theirs"
    );
}

pub(crate) fn row(case: &Case, ours: &Value, theirs: &Value) {
    let number = |value: &Value, key: &str| value.get(key).and_then(Value::as_f64).unwrap_or(0.0);
    let both = |key: &str, unit: f64| (number(ours, key) / unit, number(theirs, key) / unit);
    let (rounds, their_rounds) = both("rounds", 1.0);
    let (bytes, their_bytes) = both("bytes", 1e3);
    let (largest, their_largest) = both("largest_message", 1e3);
    let (client, their_client) = both("client_cpu_ms", 1.0);
    let (relay, their_relay) = both("relay_cpu_ms", 1.0);
    let (peak, their_peak) = both("peak_memory_bytes", 1e6);
    println!(
        "{:>9} {:>7} {:>9} {:>5}K | {:>10} {:>11} | {:>11.1} {:>11.1} | {:>9.1} {:>9.1} | {:>12.1} {:>12.1} {:>12.1} {:>12.1} {:>6.2} | {:>6.0} {:>6.0}",
        case.items,
        case.differences,
        case.shape.name(),
        case.message_bytes / 1024,
        rounds,
        their_rounds,
        bytes,
        their_bytes,
        largest,
        their_largest,
        client,
        relay,
        their_client,
        their_relay,
        cpu_ratio(ours, theirs),
        peak,
        their_peak,
    );
}

pub(crate) fn json(case: &Case, ours: &Value, theirs: &Value) -> Value {
    json!({
        "items": case.items,
        "differences": case.differences,
        "shape": case.shape.name(),
        "message_bytes": case.message_bytes,
        "seed": case.seed,
        "ours": ours,
        "negentropy": theirs,
        "cpu_ratio": cpu_ratio(ours, theirs),
    })
}

fn cpu_ratio(ours: &Value, theirs: &Value) -> f64 {
    let sum = |value: &Value| {
        let side = |key: &str| value.get(key).and_then(Value::as_f64).unwrap_or(0.0);
        side("client_cpu_ms") + side("relay_cpu_ms")
    };
    sum(ours) / sum(theirs).max(f64::MIN_POSITIVE)
}
