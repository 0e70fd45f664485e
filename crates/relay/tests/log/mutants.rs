//! Each rule broken on purpose is found by the check of its law.

use crate::support::*;
use overlane_recon::{ItemSet, Limits};
use overlane_relay::log::{Frame, Mutant, Space, Turn};

/// A run that looks at all five laws: what was found wrong, first of all.
fn run(mutant: Option<Mutant>) -> Result<(), &'static str> {
    let mut host = node(Plain::of(&[1, 2], &[9]));
    if let Some(mutant) = mutant {
        host.break_rule(mutant);
    }
    for number in 0..100 {
        send(&mut host, 2, &envelope(2, number));
    }
    if !owed(&mut host).is_empty() {
        return Err("told before it was durable");
    }
    host.flush(NOW_MS).unwrap();
    owed(&mut host);
    send(&mut host, 1, &envelope(2, 500));
    host.flush(NOW_MS).unwrap();
    if words(&owed(&mut host)) != ["log/not_its_author"] {
        return Err("one brought what another wrote");
    }
    let Ok(payload) = overlane_recon::initiate(&mut ItemSet::new(), &Limits::default());
    let ask = Frame::Recon {
        log: LOG,
        space: Space::Numbered,
        turn: Turn::Ask,
        payload: &payload,
    }
    .to_bytes();
    host.handle_frame(peer(1), &ask, NOW_MS).unwrap();
    host.flush(NOW_MS).unwrap();
    host.handle_frame(peer(1), &ask, NOW_MS).unwrap();
    host.flush(NOW_MS).unwrap();
    let told = words(&owed(&mut host));
    if told.iter().position(|it| it == "recon") < told.iter().rposition(|it| it.starts_with("push"))
    {
        return Err("an answer before its pushes, or two at once");
    }
    host.handle_frame(peer(1), &ask, NOW_MS).unwrap();
    host.flush(NOW_MS).unwrap();
    host.rules().members.remove(&did(1));
    if words(&owed(&mut host))
        .iter()
        .any(|it| it.starts_with("push"))
    {
        return Err("one who was removed is served");
    }
    Ok(())
}

#[test]
fn law_logs_every_broken_rule_is_found() {
    assert_eq!(run(None), Ok(()));
    for mutant in [
        Mutant::AckAtOnce,
        Mutant::AnswerFirst,
        Mutant::ServeTheRemoved,
        Mutant::AnswerTheUnread,
        Mutant::AnyAuthor,
    ] {
        assert!(run(Some(mutant)).is_err(), "{mutant:?} passes");
    }
}
