//! Each story's test fails once the story's fault is put back. Stories 2, 3 and 14 are shown so where
//! they are tested: among the broken sessions of `lane`, the broken meshes and hand-offs of the
//! node, and the broken engines of `replay::explore`.

use crate::support::{Fault, fails_with};
use crate::{bad_records, custody, group_commit, leases, slots, window};

#[test]
fn law_every_story_fails_with_its_fault() {
    let stories: [(u8, Fault, fn()); 12] = [
        (
            1,
            Fault::OneSequenceForAllClasses,
            window::a_backlog_is_overtaken,
        ),
        (
            4,
            Fault::OneShareForAll,
            slots::law_slots_every_share_is_filled_and_none_spills_s04,
        ),
        (
            5,
            Fault::BadIsAbsent,
            bad_records::law_never_delete_no_call_touches_a_bad_record_s05,
        ),
        (
            6,
            Fault::OneBadFailsAll,
            bad_records::law_isolation_a_bad_record_fails_its_own_stream_and_no_other_s06,
        ),
        (
            7,
            Fault::BadIsAbsent,
            bad_records::law_missing_a_sender_stream_whose_record_is_gone_signs_nothing_s07,
        ),
        (
            7,
            Fault::BadIsAbsent,
            bad_records::law_missing_a_receiver_stream_whose_record_is_gone_does_not_start_again_s07,
        ),
        (
            8,
            Fault::AWriteEach,
            group_commit::law_order_a_record_changed_often_in_one_batch_is_written_once_s08,
        ),
        (
            10,
            Fault::StoreInMemory,
            leases::law_lease_no_sequence_is_reused_at_any_crash_point_s10,
        ),
        (
            10,
            Fault::StoreInMemory,
            group_commit::law_release_without_a_store_everything_is_refused_s10,
        ),
        (
            11,
            Fault::AWriteASequence,
            leases::law_lease_one_durable_write_covers_sixty_four_sequences_s11,
        ),
        (
            12,
            Fault::EmptyDrainDropsCustody,
            custody::law_custody_mail_enters_window_and_custody_in_one_batch_and_comes_again_until_taken_s12,
        ),
        (
            13,
            Fault::WritesEveryStream,
            bad_records::law_one_record_an_admission_writes_its_own_stream_alone_s13,
        ),
    ];
    // Without the fault each of them passes: it is a test of its own.
    for (story, fault, law) in stories {
        assert!(fails_with(fault, law), "story {story} with {fault:?}");
    }
}
