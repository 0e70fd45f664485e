//! Two sets drawn from the input always end equal, under limits drawn from it too; then a peer that says the input
//! itself never keeps an initiator from ending.
#![no_main]

use libfuzzer_sys::fuzz_target;
use overlane_recon::pair::{Relay, reconcile};
use overlane_recon::{End, Id, Initiator, Item, ItemSet, Limits, Patience, Request};

fuzz_target!(|bytes: &[u8]| {
    // Enough for every path; more only makes each run slower.
    let bytes = bytes.get(..400).unwrap_or(bytes);
    let Some(([limit, open], bytes)) = bytes.split_first_chunk() else {
        return;
    };
    let limits = Limits::default()
        .message_bytes(2048 + 32 * usize::from(*limit))
        .open_ranges(usize::from(*open));
    let (mut client, mut relay) = (ItemSet::new(), Vec::new());
    for (seq, byte) in (1_u64..).zip(bytes.iter().flat_map(|byte| [byte & 15, byte >> 4])) {
        let item = Item {
            seq,
            id: Id([seq as u8, (seq >> 8) as u8, byte].repeat(11)[..32].try_into().expect("32 bytes")),
        };
        if byte % 4 != 1 {
            client.insert(item).expect("a low seq");
        }
        if byte % 4 != 2 {
            relay.push(item);
        }
    }
    let mut hounded = client.clone();
    let mut relay = Relay::new(relay);
    let report = reconcile(&mut client, &mut relay, limits, limits, Patience::default(), &mut |_| {})
        .expect("own messages are answered");
    assert_eq!(report.end, Some(End::Settled));
    assert_eq!(report.received_again, 0);
    assert_eq!(client.whole_fingerprint(), relay.set.whole_fingerprint());

    let mut initiator = Initiator::open(&mut hounded, limits, Patience::default(), 0);
    for turn in 0..64 {
        while let Some(request) = initiator.poll_transmit() {
            if let Request::Send(item) = request {
                initiator.handle_send_refused(&mut hounded, item.id, "reject/malformed_header".into(), turn);
            }
        }
        let _ = initiator.handle_answer(&mut hounded, bytes, turn);
    }
    assert!(initiator.ended().is_some());
});
