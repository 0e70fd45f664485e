//! The protocol page tells the bounds, the frames and the laws as they are.

use super::frames::golden_vectors;
use crate::lane::bounds::*;

const PAGE: &str = include_str!("../../../../../docs/protocol.md");

/// The page's part about links and lanes, from this heading to the next of its level.
fn part(heading: &str) -> &'static str {
    let (_, part) = PAGE.split_once(heading).expect("the heading is there");
    let level = heading.split(' ').next().unwrap_or_default();
    let next = format!("\n{level} ");
    part.split(next.as_str()).next().unwrap_or_default()
}

macro_rules! named {
    ($($name:ident),* $(,)?) => {
        [$((stringify!($name), u64::try_from($name).unwrap())),*]
    };
}

#[test]
fn the_page_tells_every_bound() {
    let bounds = named![
        LANE_IN_FLIGHT_MAX,
        CONTROL_IN_FLIGHT_MAX,
        QUEUED_MAX,
        QUEUED_MAX_BYTES,
        LANE_RESERVE_BYTES,
        NODE_QUEUED_MAX_BYTES,
        BATCH_MAX_BYTES,
        BATCH_MAX_FRAMES,
        CONTROL_RESERVE,
        DATA_RESERVE,
        CONTROL_BURST_MAX,
        LANE_WINDOW_FRAMES,
        LANE_PAYLOADS_MAX,
        LANE_WINDOW_DEFAULT_BYTES,
        LANE_WINDOW_MIN_BYTES,
        LINK_WINDOW_DEFAULT_BYTES,
        LINK_WINDOW_MIN_BYTES,
        WINDOW_MAX_BYTES,
        LINK_WINDOW_MESSAGES,
        CONTROL_WINDOW_FRAMES,
        PROBE_RESERVE_FRAMES,
        HELD_DEFAULT_MAX_BYTES,
        WINDOW_SCALE_MAX,
        WINDOW_SCALE_STEP_MS,
        PIPE_BYTES_PER_MS,
        HELD_FAR_MAX_BYTES,
        HELLO_QUICK_MAX,
        HELLOS_TAKEN_MAX,
        HANDSHAKE_DEADLINE_MS,
        FIN_DEADLINE_MS,
        LINGER_MS,
        PROBE_IDLE_MS,
        GONE_MS,
        STATEMENTS_ALONE_MAX,
        GRANT_EARLY_BYTES,
        ANSWER_EARLY_FRAMES,
        STATEMENTS_MAX,
        STATEMENTS_OWED_MAX,
        SHOWN_DELEGATIONS_MAX,
        HELD_DELEGATIONS_MAX,
        DISCLAIMED_MAX,
        REFERRED_MAX_BYTES,
        DELIVERY_BOUND_MS,
        FORGETS_AFTER_MS,
        KNOWN_AGAIN_MS,
        MISSING_MAX,
        MISSED_WAITS_MS,
    ];
    let table = part("## Links and lanes");
    let (_, table) = table
        .split_once("### Bounds")
        .expect("the heading is there");
    let (table, _) = table.split_once("### Laws").expect("the heading is there");
    for (name, value) in bounds {
        let row = format!("| `{name}` | {value} |");
        assert!(table.contains(&row), "no row {row}");
    }
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    assert_eq!(rows.count(), bounds.len());
}

#[test]
fn the_page_shows_every_control_frame() {
    for (frame, digits) in golden_vectors() {
        assert!(PAGE.contains(digits), "{frame:?}: {digits}");
    }
}

#[test]
fn the_page_names_every_law() {
    let sources = [
        include_str!("laws.rs"),
        include_str!("early.rs"),
        include_str!("mesh.rs"),
        include_str!("hostile.rs"),
        include_str!("frames.rs"),
        include_str!("delegations.rs"),
        include_str!("missing.rs"),
        include_str!("../queue.rs"),
        include_str!("../batch.rs"),
    ];
    let laws = part("## Links and lanes");
    let (_, laws) = laws.split_once("### Laws").expect("the heading is there");
    let named: Vec<_> = laws.split('`').skip(1).step_by(2).collect();
    for name in &named {
        let function = format!("fn {name}(");
        let written = sources.iter().any(|source| source.contains(&function));
        assert!(written, "no test {name}");
    }
    let tests = sources
        .iter()
        .flat_map(|source| source.split("fn law_").skip(1));
    for test in tests {
        let name = format!("law_{}", test.split('(').next().unwrap_or_default());
        assert!(named.contains(&name.as_str()), "{name} is not on the page");
    }
}
