//! The task that runs handlers, by a deadline that a test can wait for.

use overlane_core::{Class, Did, NetworkId};
use tokio::sync::{Mutex, mpsc};

use super::*;
use crate::messages::Taken;
use crate::peer::PlaceId;

/// Milliseconds that a handler may take where one is to be ended.
const SOON_MS: u64 = 500;

type Source = (StreamKey, &'static str, Place);

fn stream(origin: u8) -> StreamKey {
    StreamKey {
        network: NetworkId(1),
        origin: Did([origin; 20]),
        destination: Did([9; 20]),
        class: Class::Application,
    }
}

/// Serves what is given, where "stuck" never returns and "broken" panics; the words that were handled,
/// and how each place came free.
async fn served(
    deadline_ms: u64,
    given: &[(u8, &'static str)],
) -> (Vec<&'static str>, Vec<(PlaceId, Ended)>) {
    let (taken_out, mut taken) = mpsc::unbounded_channel();
    let (given_out, messages) = mpsc::unbounded_channel::<Source>();
    for (number, &(origin, word)) in (0..).zip(given) {
        let place = Place::of_test(PlaceId(number), taken_out.clone());
        assert!(given_out.send((stream(origin), word, place)).is_ok());
    }
    drop((given_out, taken_out));
    let (handled_out, mut handled) = mpsc::unbounded_channel();
    let messages = Mutex::new(messages);
    let next = || async { messages.lock().await.recv().await };
    serve(deadline_ms, next, |word| {
        let handled = handled_out.clone();
        async move {
            match word {
                "stuck" => std::future::pending().await,
                "broken" => panic!("a handler that breaks off"),
                word => assert!(handled.send(word).is_ok()),
            }
        }
    })
    .await;
    let (mut words, mut places) = (Vec::new(), Vec::new());
    while let Ok(word) = handled.try_recv() {
        words.push(word);
    }
    while let Ok(Taken { place, ended }) = taken.try_recv() {
        places.push((place, ended));
    }
    (words, places)
}

#[tokio::test]
async fn law_handler_deadline_a_stuck_handler_is_ended_and_its_place_comes_free_once() {
    let (words, mut places) = served(SOON_MS, &[(1, "stuck"), (1, "behind"), (2, "other")]).await;
    assert_eq!(words, ["other", "behind"]);
    assert_eq!(places.first(), Some(&(PlaceId(2), Ended::Taken)));
    places.sort_by_key(|(place, _)| *place);
    let ended = [Ended::Late, Ended::Taken, Ended::Taken];
    let expected: Vec<_> = (0..).map(PlaceId).zip(ended).collect();
    assert_eq!(places, expected);
}

#[tokio::test]
async fn a_handler_that_panics_is_counted_and_its_stream_goes_on() {
    let (words, places) = served(HANDLER_DEADLINE_MS, &[(1, "broken"), (1, "behind")]).await;
    assert_eq!(words, ["behind"]);
    let expected = [(PlaceId(0), Ended::Broke), (PlaceId(1), Ended::Taken)];
    assert_eq!(places, expected);
}
