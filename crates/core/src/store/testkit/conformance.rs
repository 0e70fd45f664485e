//! One case a law, over any store. Atomicity, order and removals-last need crashes at chosen
//! points, which each kind of store makes in its own way; latency is the engine's law.

use super::{Budget, Changes, Model, OpenStore, Subject, after, batch, judge, name, value};
use crate::store::{Found, RecordName, Scan, StoreError};

/// What a case comes to: the violation, in words.
pub type Checked = Result<(), String>;

fn put(record: u64, version: u64) -> (RecordName, Option<Vec<u8>>) {
    (name(record), Some(value(record, version)))
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(otherwise()) }
}

async fn open<S: Subject>(subject: &S) -> Result<(S::Store, Scan), String> {
    open_within(subject, Budget::Ample).await
}

async fn open_within<S: Subject>(subject: &S, budget: Budget) -> Result<(S::Store, Scan), String> {
    let opened = subject.open(budget).await;
    let mut store = opened.map_err(|error| format!("open: {error}"))?;
    let scan = scan(&mut store).await?;
    Ok((store, scan))
}

async fn scan(store: &mut impl OpenStore) -> Result<Scan, String> {
    store.scan().await.map_err(|error| format!("scan: {error}"))
}

async fn write(store: &mut impl OpenStore, changes: &Changes) -> Checked {
    let written = store.write(&batch(changes)).await;
    written.map_err(|error| format!("write: {error}"))
}

async fn seal(store: &mut impl OpenStore) -> Checked {
    store.seal().await.map_err(|error| format!("seal: {error}"))
}

/// A store with records 0 to 3, sealed and closed.
async fn four_records(subject: &impl Subject) -> Result<Model, String> {
    let (mut store, _) = open(subject).await?;
    let changes: Changes = (0..4).map(|record| put(record, 0)).collect();
    write(&mut store, &changes).await?;
    seal(&mut store).await?;
    subject.close(store).await;
    Ok(after(&Model::new(), &changes))
}

fn found(scan: &Scan, name: RecordName) -> Option<&Found> {
    let record = scan.records.iter().find(|(of, _)| *of == name);
    record.map(|(_, found)| found)
}

fn is_bad(found: Option<&Found>) -> bool {
    !matches!(found, None | Some(Found::Bytes(_)))
}

/// Every other record is as the model has it.
fn others_whole(scan: &Scan, model: &Model, except: RecordName) -> Checked {
    for (name, value) in model.iter().filter(|(name, _)| **name != except) {
        ensure(
            found(scan, *name) == Some(&Found::Bytes(value.clone())),
            || format!("record {name} was harmed: {:?}", found(scan, *name)),
        )?;
    }
    Ok(())
}

/// Release: a write that returned outlives a crash that keeps nothing unflushed.
///
/// # Errors
/// The violation.
pub async fn law_release(subject: &impl Subject) -> Checked {
    for batches in 1..9 {
        let subject = subject.fresh();
        let (mut store, _) = open(&subject).await?;
        let mut model = Model::new();
        for version in 0..batches {
            let changes = vec![put(version % 3, version), put(7, version)];
            write(&mut store, &changes).await?;
            model = after(&model, &changes);
        }
        subject.crash(store).await;
        let (store, scan) = open(&subject).await?;
        judge(&scan, &model, &Vec::new())?;
        subject.close(store).await;
    }
    Ok(())
}

/// Fail closed: after a failed commit every call is refused until the store is opened again.
///
/// # Errors
/// The violation.
pub async fn law_fail_closed(subject: &impl Subject) -> Checked {
    let subject = subject.fresh();
    let model = four_records(&subject).await?;
    let (mut store, _) = open(&subject).await?;
    subject.fail_next_commit();
    let changes = vec![put(0, 1)];
    let failed = store.write(&batch(&changes)).await;
    ensure(subject.heal() && failed.is_err(), || {
        "a failed commit was taken for a good one".into()
    })?;
    let refused = [
        store.write(&batch(&[put(1, 1)])).await.err(),
        store.write(&[]).await.err(),
        store.scan().await.err(),
        store.seal().await.err(),
    ];
    for refusal in refused {
        ensure(matches!(refusal, Some(StoreError::Poisoned { .. })), || {
            format!("a poisoned store went on: {refusal:?}")
        })?;
    }
    subject.close(store).await;
    let (mut store, scan) = open(&subject).await?;
    judge(&scan, &model, &changes)?;
    write(&mut store, &vec![put(1, 1)]).await?;
    subject.close(store).await;
    Ok(())
}

/// Isolation: a bad record is named, and every other one is read and written as ever.
///
/// # Errors
/// The violation.
pub async fn law_isolation(subject: &impl Subject) -> Checked {
    for record in 0..4 {
        let subject = subject.fresh();
        let model = four_records(&subject).await?;
        subject.damage(name(record)).await;
        let (mut store, scan) = open(&subject).await?;
        ensure(is_bad(found(&scan, name(record))), || {
            format!("a damaged record is {:?}", found(&scan, name(record)))
        })?;
        others_whole(&scan, &model, name(record))?;
        let other = vec![put((record + 1) % 4, 1)];
        write(&mut store, &other).await?;
        subject.close(store).await;
        let (store, scan) = open(&subject).await?;
        others_whole(&scan, &after(&model, &other), name(record))?;
        subject.close(store).await;
    }
    Ok(())
}

/// Never delete: a bad record is not written over, and stays bad however long the store runs.
///
/// # Errors
/// The violation.
pub async fn law_never_delete(subject: &impl Subject) -> Checked {
    let subject = subject.fresh();
    four_records(&subject).await?;
    subject.damage(name(1)).await;
    for round in 0..40 {
        let (mut store, scan) = open(&subject).await?;
        ensure(is_bad(found(&scan, name(1))), || {
            format!(
                "in round {round} the bad record is {:?}",
                found(&scan, name(1))
            )
        })?;
        for changes in [
            vec![put(1, 5)],
            vec![(name(1), None)],
            vec![put(0, 5), put(1, 5)],
        ] {
            let refused = store.write(&batch(&changes)).await;
            ensure(
                refused == Err(StoreError::BadRecord { name: name(1) }),
                || format!("a bad record was written over: {refused:?}"),
            )?;
        }
        write(&mut store, &vec![put(0, round), put(2, round)]).await?;
        subject.close(store).await;
    }
    Ok(())
}

/// Missing: a record that was made durable and is gone is noticed.
///
/// # Errors
/// The violation.
pub async fn law_missing(subject: &impl Subject) -> Checked {
    let subject = subject.fresh();
    let model = four_records(&subject).await?;
    subject.take_away(name(2)).await;
    for _ in 0..2 {
        let (store, scan) = open(&subject).await?;
        ensure(is_bad(found(&scan, name(2))), || {
            format!(
                "a record that was taken away is {:?}",
                found(&scan, name(2))
            )
        })?;
        others_whole(&scan, &model, name(2))?;
        subject.close(store).await;
    }
    Ok(())
}

/// Own key: another record's bytes under a name are bad.
///
/// # Errors
/// The violation.
pub async fn law_own_key(subject: &impl Subject) -> Checked {
    let subject = subject.fresh();
    let model = four_records(&subject).await?;
    // Of one length, so that nothing but the name tells them apart.
    let pair = vec![
        (name(20), Some(vec![1; 100])),
        (name(21), Some(vec![2; 100])),
    ];
    let (mut store, _) = open(&subject).await?;
    write(&mut store, &pair).await?;
    seal(&mut store).await?;
    subject.close(store).await;
    let model = after(&model, &pair);
    subject.misplace(name(20), name(21)).await;
    let (store, scan) = open(&subject).await?;
    ensure(is_bad(found(&scan, name(21))), || {
        format!("another record's bytes are {:?}", found(&scan, name(21)))
    })?;
    others_whole(&scan, &model, name(21))?;
    subject.close(store).await;
    Ok(())
}

/// One scan: after it, writing reads nothing.
///
/// # Errors
/// The violation.
pub async fn law_one_scan(subject: &impl Subject) -> Checked {
    let subject = subject.fresh();
    four_records(&subject).await?;
    let before = subject.reads();
    let (mut store, _) = open(&subject).await?;
    let reads = subject.reads();
    ensure(reads > before, || "reads are not counted".into())?;
    for version in 1..4 {
        write(&mut store, &vec![put(0, version), put(9, version)]).await?;
    }
    let more = subject.reads().saturating_sub(reads);
    ensure(more == 0, || format!("three batches read {more} times"))?;
    subject.close(store).await;
    Ok(())
}

/// Budget: a batch beyond it is refused whole and changes nothing, nothing is evicted, and a
/// store beyond a lowered budget does not open.
///
/// # Errors
/// The violation.
pub async fn law_budget(subject: &impl Subject) -> Checked {
    let subject = subject.fresh();
    let model = four_records(&subject).await?;
    let record_bytes: usize = model.values().map(Vec::len).sum();
    let full = Budget::Of {
        records: 4,
        record_bytes: record_bytes as u64,
    };
    let (mut store, _) = open_within(&subject, full).await?;
    let beyond = [(name(0), None), put(8, 0), put(9, 0), put(10, 0)];
    let refused = store.write(&batch(&beyond)).await;
    ensure(refused.as_ref().is_err_and(is_exhausted), || {
        format!("a batch beyond the budget: {refused:?}")
    })?;
    judge(&scan(&mut store).await?, &model, &Vec::new())?;
    write(&mut store, &vec![put(0, 0)]).await?;
    write(&mut store, &vec![(name(0), None)]).await?;
    subject.close(store).await;
    let (store, _) = open(&subject).await?;
    subject.close(store).await;
    let lowered = Budget::Of {
        records: 1,
        record_bytes: 100,
    };
    let lowered = subject.open(lowered).await.err();
    ensure(lowered.as_ref().is_some_and(is_exhausted), || {
        format!("a lowered budget: {lowered:?}")
    })
}

fn is_exhausted(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::BudgetExhausted { .. } | StoreError::CapacityExhausted { .. }
    )
}

/// Clear one: clearing resets that record alone, keeps what was there, and lasts.
///
/// # Errors
/// The violation.
pub async fn law_clear_one(subject: &impl Subject) -> Checked {
    let subject = subject.fresh();
    let model = four_records(&subject).await?;
    subject.damage(name(1)).await;
    subject.take_away(name(2)).await;
    let (mut store, _) = open(&subject).await?;
    for record in [1, 2, 3] {
        let cleared = store.clear(name(record)).await;
        let kept = cleared.map_err(|error| format!("clear: {error}"))?;
        ensure(subject.keeps(&kept).await, || {
            format!("nothing is kept of record {record}")
        })?;
        let again = store.clear(name(record)).await.err();
        ensure(
            again == Some(StoreError::UnknownRecord { name: name(record) }),
            || format!("cleared twice: {again:?}"),
        )?;
    }
    let model = Model::from_iter(model.into_iter().filter(|(of, _)| *of == name(0)));
    for _ in 0..2 {
        subject.close(store).await;
        let (reopened, scan) = open(&subject).await?;
        judge(&scan, &model, &Vec::new())?;
        store = reopened;
    }
    write(&mut store, &vec![put(1, 1), put(2, 1)]).await?;
    subject.close(store).await;
    Ok(())
}

/// One owner: a second opener is refused by name until the first one is gone.
///
/// # Errors
/// The violation.
pub async fn law_one_owner(subject: &impl Subject) -> Checked {
    let subject = subject.fresh();
    let (store, _) = open(&subject).await?;
    let second = subject.open(Budget::Ample).await.err();
    let owner = subject.owner();
    ensure(
        matches!(&second, Some(StoreError::Locked { pid, .. }) if *pid == owner),
        || format!("a second opener: {second:?}"),
    )?;
    subject.close(store).await;
    let (store, _) = open(&subject).await?;
    subject.close(store).await;
    Ok(())
}
