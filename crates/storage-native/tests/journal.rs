//! The journal under the conformance suite, one test a law, with its records in the journal and
//! in the snapshot.

use overlane_storage_native::testkit::JournalSubject;

mod records_in_the_journal {
    use super::JournalSubject;
    use overlane_storage_native::conformance_tests;

    conformance_tests!(JournalSubject::SHORT);
}

mod records_in_the_snapshot {
    use super::JournalSubject;
    use overlane_storage_native::conformance_tests;

    conformance_tests!(JournalSubject::COMPACTED);
}
