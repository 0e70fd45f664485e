//! A folder is put back from an older copy.
//!
//! Law (named rollback): when either side forgot what it had said or acknowledged, the next
//! connection ends the epoch on both, and says which side forgot.

#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "what the store must cope with is put in place past its door"
)]

use std::path::Path;

use overlane_core::Coded as _;

use crate::node::Node;

/// Both nodes say where they are, and what was under way comes or is lost.
fn connect(nodes: &mut [Node; 2]) {
    let mut under_way = nodes.each_mut().map(|node| node.connected(0));
    exchange(nodes, &mut under_way);
}

fn exchange(nodes: &mut [Node; 2], under_way: &mut [Vec<Vec<u8>>; 2]) {
    while under_way.iter().any(|frames| !frames.is_empty()) {
        for from in [0, 1] {
            for bytes in std::mem::take(&mut under_way[from]) {
                let back = nodes[1 - from].frame(&bytes, 0);
                under_way[1 - from].extend(back);
            }
        }
    }
}

fn talk(nodes: &mut [Node; 2], number: u32) {
    let mut under_way = nodes.each_mut().map(|node| node.call(number, 0));
    exchange(nodes, &mut under_way);
}

fn open(home: &Path) -> [Node; 2] {
    ["0", "1"].map(|name| Node::open(&home.join(name)))
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn ended(node: &Node) -> &'static str {
    node.ended.as_ref().map_or("goes on", |cause| cause.code())
}

#[test]
fn law_either_side_put_back_from_a_copy_is_named() {
    for put_back in [0, 1] {
        let home = tempfile::tempdir().unwrap();
        let (folder, aside) = (
            home.path().join(put_back.to_string()),
            home.path().join("aside"),
        );
        let mut nodes = open(home.path());
        connect(&mut nodes);
        talk(&mut nodes, 1);
        drop(nodes);
        copy(&folder, &aside);

        // Put back at once, it forgot nothing.
        let mut nodes = open(home.path());
        connect(&mut nodes);
        assert_eq!(nodes.each_ref().map(ended), ["goes on"; 2]);
        talk(&mut nodes, 2);
        talk(&mut nodes, 3);
        drop(nodes);

        copy(&aside, &folder);
        let mut nodes = open(home.path());
        connect(&mut nodes);
        let [forgot, other] = [put_back, 1 - put_back].map(|at| ended(&nodes[at]));
        assert_eq!(other, "refs/peer_rolled_back");
        assert!(
            ["refs/we_rolled_back", "refs/peer_closed"].contains(&forgot),
            "{forgot}"
        );
        if forgot == "refs/peer_closed" {
            let told = nodes[put_back].ended.as_ref().unwrap().to_string();
            assert!(told.contains("refs/peer_rolled_back"), "{told}");
        }
    }
}
