//! The task that runs handlers, on a clock that the test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use overlane_core::{Class, Did, NetworkId};
use tokio::sync::{Mutex, Semaphore, mpsc};

use super::*;
use crate::messages::Taken;
use crate::peer::PlaceId;

/// A clock that stands until what a test waits for was handled, and then is once at the instant that is
/// waited for.
struct Standing {
    now_ms: Arc<AtomicU64>,
    goes: Arc<Semaphore>,
}

impl Time for Standing {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    async fn until(&self, due_ms: u64) {
        let goes = self.goes.acquire().await;
        goes.expect("it is open").forget();
        self.now_ms.fetch_max(due_ms, Ordering::Relaxed);
    }
}

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
/// how each place came free, and how late it was then. Time stands until "other" was handled.
async fn served(given: &[(u8, &'static str)]) -> (Vec<&'static str>, Vec<(PlaceId, Ended)>, u64) {
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
    let goes = Arc::new(Semaphore::new(0));
    let now_ms = Arc::<AtomicU64>::default();
    let time = Standing {
        now_ms: Arc::clone(&now_ms),
        goes: Arc::clone(&goes),
    };
    serve(HANDLER_DEADLINE_MS, time, next, |word| {
        let (handled, goes) = (handled_out.clone(), Arc::clone(&goes));
        async move {
            match word {
                "stuck" => std::future::pending().await,
                "broken" => panic!("a handler that breaks off"),
                word => assert!(handled.send(word).is_ok()),
            }
            if word == "other" {
                goes.add_permits(1);
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
    (words, places, now_ms.load(Ordering::Relaxed))
}

#[tokio::test]
async fn law_handler_deadline_a_stuck_handler_is_ended_and_its_place_comes_free_once() {
    let given = [(1, "stuck"), (1, "behind"), (2, "other")];
    let (words, mut places, now_ms) = served(&given).await;
    assert_eq!(now_ms, HANDLER_DEADLINE_MS);
    assert_eq!(words, ["other", "behind"]);
    assert_eq!(places.first(), Some(&(PlaceId(2), Ended::Taken)));
    places.sort_by_key(|(place, _)| *place);
    let ended = [Ended::Late, Ended::Taken, Ended::Taken];
    let expected: Vec<_> = (0..).map(PlaceId).zip(ended).collect();
    assert_eq!(places, expected);
}

#[tokio::test]
async fn a_handler_that_panics_is_counted_and_its_stream_goes_on() {
    let (words, places, now_ms) = served(&[(1, "broken"), (1, "behind")]).await;
    assert_eq!((words, now_ms), (vec!["behind"], 0));
    let expected = [(PlaceId(0), Ended::Broke), (PlaceId(1), Ended::Taken)];
    assert_eq!(places, expected);
}
