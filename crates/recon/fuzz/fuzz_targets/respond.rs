//! Any bytes are answered within the limits, or refused, by both roles. The first bytes choose set and limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use overlane_recon::bounds::RANGES_MAX;
use overlane_recon::{Id, Item, ItemSet, Limits, Message, advance, respond};

fuzz_target!(|bytes: &[u8]| {
    let Some(([size, stride, limit, pushes], payload)) = bytes.split_first_chunk() else {
        return;
    };
    let set: ItemSet = (0..u64::from(*size) * 8)
        .map(|n| Item {
            seq: n * u64::from(*stride) / 16,
            id: Id([n as u8; 32]),
        })
        .collect();
    let message_bytes = 2048 + 64 * usize::from(*limit);
    let limits = Limits::default()
        .message_bytes(message_bytes)
        .push_ids(usize::from(*pushes));
    let check = |reply: &[u8]| {
        assert!(reply.len() <= message_bytes);
        let reply = Message::decode(reply).expect("an own message decodes");
        assert!(reply.ranges().len() <= RANGES_MAX);
    };
    if let Ok(response) = respond(&mut set.clone(), payload, &limits) {
        check(&response.reply);
        assert!(response.push.len() <= usize::from(*pushes));
        assert!(response.push.is_sorted_by(|a, b| a.id < b.id));
    }
    if let Ok(step) = advance(&mut set.clone(), payload, &limits) {
        step.reply.iter().for_each(|reply| check(reply));
        assert!(step.send.is_sorted_by(|a, b| a.id < b.id));
    }
});
