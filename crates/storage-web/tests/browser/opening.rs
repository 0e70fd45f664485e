//! Opening: one owner, what the browser will not give, capacity; and story 9, durability and eviction.

use overlane_core::Coded;
use overlane_core::store::testkit::{
    Budget, Changes, Model, Subject, after, batch, judge, name, value,
};
use overlane_core::store::{Found, StoreError, envelope};
use overlane_storage_web::{RECORDS_MAX, WebConfig, WebStore};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_test::wasm_bindgen_test;

use crate::harm;
use crate::subject::{InBrowser, in_both, in_frames, in_rows, is_row_of};

fn code(opened: Result<WebStore, StoreError>) -> &'static str {
    opened.map_or_else(|error| error.code(), |_| "opened")
}

#[wasm_bindgen_test]
async fn law_release_every_change_is_strict_and_told_on_complete_s09() {
    for subject in [in_frames(), in_rows(), in_both()] {
        let mut store = subject.open(Budget::Ample).await.unwrap().0;
        let (strict, complete) = (harm::changes().length(), harm::complete());
        for version in 0..8 {
            let changes = [
                (name(0), Some(value(0, version))),
                (name(version), Some(vec![1])),
            ];
            store
                .write(&batch(&changes[..1 + usize::from(version > 0)]))
                .await
                .unwrap();
            // By now, and not before, the transaction has said that it is complete.
            assert_eq!(u64::from(harm::complete() - complete), version + 1);
        }
        store.seal().await.unwrap();
        store.clear(name(1)).await.unwrap();
        let made = harm::changes().slice(strict, harm::changes().length());
        assert!(made.length() >= 10);
        for durability in made.iter() {
            assert_eq!(durability.as_string().as_deref(), Some("strict"));
        }
    }
}

#[wasm_bindgen_test]
async fn law_release_an_engine_that_ignores_strictness_is_refused_s09() {
    let subject = in_frames();
    harm::ignore_durability(true);
    let opened = subject.open_with(subject.config()).await;
    harm::ignore_durability(false);
    assert_eq!(code(opened), "store/not_strict");
    let mut store = subject.open_with(subject.config()).await.unwrap();
    harm::ignore_durability(true);
    let written = store.write(&batch(&[(name(0), Some(vec![1]))])).await;
    harm::ignore_durability(false);
    assert!(
        matches!(written, Err(StoreError::NotStrict { .. })),
        "{written:?}"
    );
    drop(store);
    let mut store = subject.open_with(subject.config()).await.unwrap();
    assert_eq!(
        store.scan().await.unwrap().records,
        [],
        "nothing of it was written"
    );
}

#[wasm_bindgen_test]
async fn law_budget_a_full_store_refuses_and_evicts_nothing_s09() {
    let subject = in_frames();
    let mut store = subject.open_with(subject.config()).await.unwrap();
    let mut model = Model::new();
    for from in (0..RECORDS_MAX).step_by(4_096) {
        let many = from..from + 4_096;
        let changes: Changes = many
            .map(|it| (name(it), Some(it.to_be_bytes().to_vec())))
            .collect();
        store.write(&batch(&changes)).await.unwrap();
        model = after(&model, &changes);
    }
    let one_more = vec![(name(RECORDS_MAX), Some(vec![1]))];
    let refused = StoreError::CapacityExhausted {
        capacity: RECORDS_MAX,
        needed: RECORDS_MAX + 1,
    };
    assert_eq!(store.write(&batch(&one_more)).await, Err(refused));
    // What is there can change, and leave to make room.
    let change = vec![(name(7), Some(vec![7]))];
    store.write(&batch(&change)).await.unwrap();
    let swap = vec![(name(8), None), one_more[0].clone()];
    store.write(&batch(&swap)).await.unwrap();
    store.close().await.unwrap();
    model = after(&after(&model, &change), &swap);
    let lowered = WebConfig {
        records_max: RECORDS_MAX - 1,
        ..subject.config()
    };
    assert_eq!(
        code(subject.open_with(lowered).await),
        "store/capacity_exhausted"
    );
    let mut store = subject.open_with(subject.config()).await.unwrap();
    judge(&store.scan().await.unwrap(), &model, &Vec::new()).unwrap();
    assert_eq!(store.summary().records as u64, RECORDS_MAX);
}

#[wasm_bindgen_test]
async fn a_lock_that_is_taken_away_closes_the_store() {
    let subject = in_frames();
    let mut store = subject.open_with(subject.config()).await.unwrap();
    harm::steal(store.path()).await.unwrap();
    let written = store.write(&batch(&[(name(0), Some(vec![1]))])).await;
    assert!(
        matches!(written, Err(StoreError::Poisoned { .. })),
        "{written:?}"
    );
}

#[wasm_bindgen_test]
async fn a_page_that_gets_no_storage_is_told_so() {
    let subject = in_frames();
    for (thrown, named) in [
        ("SecurityError", "store/no_storage"),
        ("InvalidStateError", "store/no_storage"),
        ("NotAllowedError", "store/no_storage"),
    ] {
        harm::refuse_to_open(Some(thrown));
        let opened = subject.open_with(subject.config()).await;
        harm::refuse_to_open(None);
        let said = opened
            .as_ref()
            .err()
            .map(ToString::to_string)
            .unwrap_or_default();
        assert!(said.contains(thrown), "{said}");
        assert_eq!(code(opened), named);
    }
    // The lock was given back.
    assert_eq!(code(subject.open_with(subject.config()).await), "opened");
}

/// A later version of the store meets a page of this one, and this one a database of a later.
#[wasm_bindgen_test]
async fn another_version_in_the_way_is_named() {
    let subject = in_frames();
    let held = harm::hold(&subject.database(), 9, Some("records"))
        .await
        .unwrap();
    let opened = subject.open_with(subject.config()).await;
    assert!(
        matches!(&opened, Err(StoreError::WrongKind { cause, .. }) if cause.contains("newer")),
        "{opened:?}"
    );
    drop(held);
    let subject = in_frames();
    let held = harm::hold(&subject.database(), 1, Some("records"))
        .await
        .unwrap();
    let opened = WebStore::open_version(subject.node(), subject.config(), 2).await;
    assert_eq!(code(opened), "store/blocked");
    // Once the page lets go, nobody is left in the way.
    let close: js_sys::Function = js_sys::Reflect::get(&held, &"close".into())
        .unwrap()
        .unchecked_into();
    close.call0(&held).unwrap();
    let opened = WebStore::open_version(subject.node(), subject.config(), 2).await;
    assert_eq!(code(opened), "store/damaged", "it has no directory");
}

#[wasm_bindgen_test]
async fn a_database_of_something_else_is_of_the_wrong_kind() {
    let subject = in_frames();
    let other = harm::hold(&subject.database(), 1, Some("other"))
        .await
        .unwrap();
    assert_eq!(
        code(subject.open_with(subject.config()).await),
        "store/wrong_kind"
    );
    drop(other);
}

async fn foreign_and_wrong(subject: &InBrowser) {
    let mut store = subject.open_with(subject.config()).await.unwrap();
    let two = [(name(0), Some(vec![1; 9])), (name(1), Some(vec![2; 9]))];
    store.write(&batch(&two)).await.unwrap();
    store.close().await.unwrap();
    let database = subject.database();
    let zero = subject
        .rows()
        .await
        .into_iter()
        .find(|(key, _)| is_row_of(key, name(0)));
    let (key, _) = zero.unwrap();
    // A value that no store wrote, a row that nothing vouches for, and a key of nobody's.
    harm::put(&database, &key, &JsValue::from_str("not bytes"))
        .await
        .unwrap();
    let stray = js_sys::Uint8Array::from(name(5).0.as_slice());
    let row = js_sys::Uint8Array::from(envelope::seal(name(5), b"old").as_slice());
    harm::put(&database, &stray, &row).await.unwrap();
    harm::put(&database, &"anybody's".into(), &JsValue::TRUE)
        .await
        .unwrap();
    let mut store = subject.open_with(subject.config()).await.unwrap();
    let scan = store.scan().await.unwrap();
    let found = |record| {
        scan.records
            .iter()
            .find(|(of, _)| *of == name(record))
            .map(|it| &it.1)
    };
    assert!(matches!(found(0), Some(Found::Unreadable(_))), "{scan:?}");
    assert_eq!(found(1), Some(&Found::Bytes(vec![2; 9])));
    assert!(matches!(found(5), Some(Found::Unreadable(_))), "{scan:?}");
    assert_eq!(store.summary().foreign_rows, 1);
    // Clearing keeps even what is not bytes.
    let kept = store.clear(name(0)).await.unwrap().kept;
    store.close().await.unwrap();
    let rows = subject.rows().await;
    let (_, aside) = rows
        .iter()
        .find(|(key, _)| key.as_string().as_ref() == Some(&kept))
        .unwrap();
    let aside: &js_sys::Array = aside.unchecked_ref();
    assert_eq!(aside.get(0).as_string().as_deref(), Some("not bytes"));
    assert!(
        rows.iter()
            .any(|(key, _)| key.as_string().as_deref() == Some("anybody's"))
    );
}

#[wasm_bindgen_test]
async fn rows_that_the_store_did_not_write_are_named_kept_and_counted() {
    foreign_and_wrong(&in_rows()).await;
}
