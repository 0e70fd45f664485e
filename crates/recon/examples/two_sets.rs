//! A client that was away and the relay it comes back to: the whole exchange, message by message.
//!
//! `cargo run -p overlane-recon --example two_sets`

use overlane_recon::{
    Budget, Differences, Id, Initiator, Item, ItemSet, Limits, Outgoing, Patience, Request,
    Responder, plan,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Items are content addresses at the sequence numbers a relay gave them.
    let item = |seq: u64| Item {
        seq,
        id: Id(*blake3::hash(&seq.to_be_bytes()).as_bytes()),
    };
    // The relay went on to 10,000; the client missed some, and made two of its own meanwhile.
    let mut relay: ItemSet = (1..=10_000).map(item).collect();
    let mut client: ItemSet = (1..=9_500)
        .filter(|seq| seq % 1_000 != 0)
        .map(item)
        .collect();
    for offline in [9_501, 9_502] {
        client.insert(Item {
            seq: offline,
            id: item(1_000_000 + offline).id,
        })?;
    }
    println!(
        "before: client {} items, relay {} items",
        client.len(),
        relay.len()
    );

    // Take the limit on a message from the transport, and ask what to expect.
    let limits = Limits::default().message_bytes(64 * 1024);
    let expected = plan(client.len() as u64, Differences::Spread(10), &limits);
    println!(
        "expected: {} rounds, {} bytes",
        expected.rounds, expected.bytes
    );

    let mut responder = Responder::new(limits, Budget::default());
    let mut initiator = Initiator::open(&mut client, limits, Patience::default(), 0);
    let mut next_seq = 10_001;
    while let Some(request) = initiator.poll_transmit() {
        match request {
            Request::Recon(payload) => {
                println!("client says {} bytes", payload.len());
                responder.handle_message(&mut relay, &payload, &mut |_| 500, 0)?;
                // Pushes come out before the reply, and must be sent and applied in that order.
                let mut pushed = 0;
                while let Some(outgoing) = responder.poll_transmit() {
                    match outgoing {
                        Outgoing::Push(item) => {
                            initiator.handle_push(&mut client, item, 0)?;
                            pushed += 1;
                        }
                        Outgoing::Reply(reply) => {
                            println!("relay pushes {pushed} and says {} bytes", reply.len());
                            initiator.handle_answer(&mut client, &reply, 0)?;
                        }
                    }
                }
            }
            // The relay numbers what it is sent; the client re-keys the item before it goes on.
            Request::Send(item) => {
                relay.insert(Item {
                    seq: next_seq,
                    ..item
                })?;
                initiator.handle_ack(&mut client, item.id, next_seq, 0)?;
                println!("client sends {}, numbered {next_seq}", item.id);
                next_seq += 1;
            }
        }
    }

    let report = initiator.report();
    match &report.end {
        Some(end) => println!("{end}: {} rounds, {} bytes", report.rounds, report.bytes()),
        None => println!("not ended"),
    }
    println!(
        "received {}, sent {}, missing {}",
        report.received,
        report.sent,
        report.missing.len()
    );
    println!(
        "after: client {} items, relay {} items",
        client.len(),
        relay.len()
    );
    if client.whole_fingerprint() != relay.whole_fingerprint() {
        return Err("the sets differ".into());
    }
    println!("both fingerprints are {}", client.whole_fingerprint());
    Ok(())
}
