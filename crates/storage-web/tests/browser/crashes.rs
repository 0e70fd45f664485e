//! Laws atomicity, order and removals-last: a transaction is given up at every request of a batch, and
//! at its commit, and the store is opened again. (`web/drive.mjs` kills a tab in the middle of one.)

use overlane_core::store::testkit::{
    Budget, Changes, Model, Subject, after, batch, judge, name, value,
};
use wasm_bindgen_test::wasm_bindgen_test;

use crate::harm;
use crate::subject::{InBrowser, in_both, in_frames, in_rows};

fn put(record: u64, version: u64) -> (overlane_core::store::RecordName, Option<Vec<u8>>) {
    (name(record), Some(value(record, version)))
}

/// Writes these batches, the last of them with its N-th request given up, for every N there is; what is
/// shown then is all of it or nothing of it.
async fn all_or_nothing(subject: &InBrowser, batches: &[Changes]) {
    let (last, before) = batches.split_last().unwrap();
    let mut given_up = 0;
    for requests in 0.. {
        let subject = subject.fresh();
        let mut store = subject.open(Budget::Ample).await.unwrap().0;
        let mut model = Model::new();
        for changes in before {
            store.write(&batch(changes)).await.unwrap();
            model = after(&model, changes);
        }
        harm::abort_after(requests);
        let written = store.write(&batch(last)).await;
        let fired = harm::healed();
        drop(store);
        let mut store = subject.open(Budget::Ample).await.unwrap().0;
        let shown = judge(&store.scan().await.unwrap(), &model, last).unwrap();
        store.close().await.unwrap();
        let new = after(&model, last);
        assert_eq!(written.is_err(), fired, "{written:?}");
        assert_eq!(
            shown,
            if fired { model } else { new },
            "given up after {requests} requests"
        );
        if !fired {
            break;
        }
        given_up += 1;
    }
    assert!(given_up > 1, "every request and the commit");
}

#[wasm_bindgen_test]
async fn law_atomicity() {
    let three = |version| {
        (0..3)
            .map(|record| put(record, version))
            .collect::<Changes>()
    };
    for subject in [in_frames(), in_rows(), in_both()] {
        all_or_nothing(&subject, &[three(0), three(1)]).await;
        all_or_nothing(&subject, &[three(0), three(1), three(2)]).await;
    }
}

#[wasm_bindgen_test]
async fn law_removals_last() {
    let four: Changes = (0..4).map(|record| put(record, 0)).collect();
    let mixed = vec![(name(0), None), put(4, 0), (name(2), None), put(1, 1)];
    for subject in [in_frames(), in_rows(), in_both()] {
        all_or_nothing(&subject, &[four.clone(), mixed.clone()]).await;
        all_or_nothing(&subject, &[four.clone(), vec![put(9, 0)], mixed.clone()]).await;
    }
}

#[wasm_bindgen_test]
async fn law_order() {
    for subject in [in_frames(), in_rows(), in_both()] {
        let mut store = subject.open(Budget::Ample).await.unwrap().0;
        for version in 0..8 {
            store.write(&batch(&[put(0, version)])).await.unwrap();
            // Whoever comes after finds this value and no other.
            drop(store);
            store = subject.open(Budget::Ample).await.unwrap().0;
            let model = after(&Model::new(), &vec![put(0, version)]);
            judge(&store.scan().await.unwrap(), &model, &Vec::new()).unwrap();
        }
    }
}

/// A write whose future is dropped leaves nobody who knows what is durable.
#[wasm_bindgen_test]
async fn law_fail_closed_a_write_that_is_given_up_poisons_the_store() {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};
    let subject = in_frames();
    let mut store = subject.open(Budget::Ample).await.unwrap().0;
    let changes = batch(&[put(0, 0)]);
    {
        let mut write = pin!(store.write(&changes));
        assert!(
            write
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
    }
    let refused = store.write(&batch(&[put(1, 0)])).await;
    assert!(
        matches!(
            refused,
            Err(overlane_core::store::StoreError::Poisoned { .. })
        ),
        "{refused:?}"
    );
}
