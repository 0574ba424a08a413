//! The promises every store makes, as tests: one suite for memory, SQLite and PostgreSQL, without skips.
//!
//! A store crate's test file makes a [`Harness`] and names it to [`conformance_suite!`](crate::conformance_suite),
//! which becomes one test per promise. Promises are sorted by verb; [`random`] compares random commands with the memory store,
//! [`repeat`] loses replies, [`crash`] kills the process at every step, by means of [`faulty`].

pub mod after;
pub mod assign;
pub mod audit;
pub mod closing;
pub mod control;
pub mod crash;
pub mod edit;
pub mod enqueue;
pub mod faulty;
pub mod forget;
pub mod kept;
pub mod listing;
pub mod memo;
pub mod moving;
pub mod news;
pub mod nodes;
pub mod once;
pub mod random;
pub mod read;
pub mod repeat;
pub mod scene;
pub mod secrets;
pub mod settle;
pub mod still;
pub mod statistics;
pub mod story;
pub mod logins;
pub mod tickets;
pub mod tokens;
pub mod totals;
pub mod unique;
pub mod watch;
pub mod workers;
pub mod vitals;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use turnwise_core::{Incarnation, NewJob};

use crate::{Closing, OperatorStore, Store, moving::mover::Place};

pub use faulty::Faulty;
pub use still::{MemoryHarness, StillClock};

/// A fresh, empty store with a clock that stands still until it is moved.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// A handle as another process would have it: same data, own bell.
    async fn open(&self) -> Arc<dyn Store>;

    /// Moves the database's clock forward, to the microsecond, for every handle.
    async fn advance(&self, by: Duration);

    /// Empties the store, for the next random case (cheaper than a new one). Handles opened before are not used again;
    /// the clock may stand where it stood.
    async fn reset(&self);
}

/// A store whose driver gives tasks transactions.
#[async_trait]
pub trait ClosingHarness: Harness {
    /// The open transaction of a run of `node` that has submitted `job` in it.
    async fn closing(&self, node: Incarnation, job: NewJob) -> Box<dyn Closing>;
}

/// A store with its side for operators.
#[async_trait]
pub trait OperatorHarness: Harness {
    /// Both sides of one handle, as another process would have it, on the same data as [`Harness::open`] gives.
    async fn both(&self) -> (Arc<dyn Store>, Arc<dyn OperatorStore>);

    /// A handle of its own.
    async fn operators(&self) -> Arc<dyn OperatorStore> {
        self.both().await.1
    }
}

/// A store that outlives its process, and can be moved.
#[async_trait]
pub trait MoveHarness: OperatorHarness {
    /// The data that [`Harness::open`] gives.
    async fn source(&self) -> Place;

    /// Another store, which is empty at first; always the same one.
    async fn target(&self) -> Place;
}

/// One `#[tokio::test]` per promise of [`MoveStore`](crate::MoveStore). `$make` is `async fn(Options) -> impl MoveHarness`.
#[macro_export]
macro_rules! move_suite {
    ($make:path) => {
        $crate::__promises! { $make, $crate::Options::default();
            moving:
                everything_is_in_the_target_and_new_jobs_come_after_it,
                a_closed_source_refuses_changes_and_is_read_as_before,
                a_target_takes_neither_jobs_nor_nodes_before_everything_is_there,
                a_database_in_use_is_not_closed,
                what_a_lost_node_held_is_handed_back_by_the_same_decision,
                a_move_that_dies_at_any_step_goes_on,
                a_move_that_is_given_up_leaves_nothing_behind;
        }
    };
}

/// One `#[tokio::test]` per promise of [`OperatorStore`]. `$make` is `async fn(Options) -> impl OperatorHarness`.
#[macro_export]
macro_rules! operator_suite {
    ($make:path) => {
        $crate::__promises! { $make, $crate::Options::default();
            tokens:
                a_token_is_kept_with_all_that_was_said_of_it,
                without_any_token_this_is_said,
                a_token_is_found_by_its_secret_and_by_no_other,
                a_token_created_twice_is_one,
                tokens_are_listed_newest_first,
                a_revoked_token_stays_revoked_from_the_first_time,
                an_expired_token_is_found_and_says_so,
                the_last_use_is_noted_once_a_minute,
                tokens_dead_for_long_make_room_for_new_ones_and_leave_one_behind,
                what_one_process_did_with_tokens_another_sees_at_once;
            logins:
                a_log_in_leads_to_its_token_until_it_ends,
                a_log_in_ends_when_it_is_said_and_others_go_on,
                a_repeated_log_in_is_one,
                a_log_in_shows_that_its_token_was_revoked,
                log_ins_that_are_over_make_room,
                of_too_many_log_ins_with_one_token_the_oldest_end;
            tickets:
                a_ticket_is_redeemed_once_for_a_bearer_that_every_server_finds,
                a_redemption_whose_reply_was_lost_is_repeated_and_another_one_is_refused,
                of_sixteen_that_redeem_a_ticket_one_gets_its_bearer,
                a_ticket_that_is_over_is_not_redeemed,
                a_bearer_shows_that_its_token_was_revoked,
                tickets_that_are_over_make_room_and_others_are_not_ended,
                a_ticket_is_made_with_its_line_and_once;
            secrets:
                secret_fields_are_noted_for_every_process,
                a_secret_field_stays_one_whatever_later_programs_note,
                too_many_secret_fields_are_refused_and_none_of_them_is_noted;
            once:
                the_first_call_submits_and_a_repeat_gets_its_answer,
                a_repeat_is_recognised_after_its_jobs_have_ended_and_are_pruned,
                the_same_key_with_another_body_is_refused,
                keys_of_different_callers_do_not_meet,
                a_call_that_is_refused_leaves_no_key_behind,
                every_kind_of_answer_is_repeated_as_it_was,
                a_key_is_kept_for_a_day_and_then_free_again,
                old_keys_are_pruned_within_the_limit_and_young_ones_are_not,
                of_sixteen_calls_with_one_key_one_submits,
                a_submit_that_is_done_once_rings_the_dispatcher,
                ten_thousand_jobs_are_submitted_once;
            listing:
                pages_hold_every_job_once_newest_first,
                a_list_goes_on_from_its_cursor_whatever_came_or_ended_meanwhile,
                every_condition_of_a_list_must_hold,
                jobs_are_listed_by_the_time_of_their_submit,
                the_holder_of_a_unique_key_is_listed,
                failed_jobs_are_listed_by_their_kind_of_error,
                finished_jobs_are_listed_at_once_however_many_wait,
                a_caller_that_looks_closer_itself_has_fewer_rows_looked_at,
                jobs_of_tasks_with_secrets_are_found_whatever_text_is_looked_for,
                a_look_for_one_among_many_is_bounded_and_comes_to_its_end,
                a_quiet_group_is_listed_at_once_however_loud_another_is,
                groups_are_listed_as_one_however_many_they_are;
            vitals:
                a_store_tells_what_it_knows_of_its_database_and_changes_nothing;
            audit:
                a_line_is_kept_with_all_that_it_says,
                a_decision_about_a_job_is_written_with_its_line,
                a_submit_that_is_done_once_leaves_one_line,
                a_decision_that_is_not_written_leaves_no_line,
                a_node_asked_twice_by_one_call_to_stop_a_job_is_one_line,
                a_thousand_decisions_are_a_thousand_lines,
                a_setting_is_written_with_its_line,
                of_sixteen_callers_that_set_the_same_one_leaves_a_line,
                a_token_is_created_and_revoked_with_a_line_each,
                of_sixteen_callers_that_revoke_a_token_one_leaves_a_line,
                a_prune_by_a_person_leaves_one_line_if_it_deletes_anything,
                pages_of_the_log_hold_every_line_once_newest_first,
                a_line_is_kept_for_400_days_and_pruned_within_the_limit;
            totals:
                a_question_comes_with_the_news_and_expires,
                a_question_rings_the_dispatcher_if_nobody_asked_before,
                totals_are_found_as_they_were_written_last,
                only_the_dispatcher_writes_totals,
                totals_are_no_news;
            watch:
                a_watcher_without_a_cursor_is_told_where_to_begin,
                a_watcher_is_told_new_jobs_as_the_dispatcher_is,
                a_watcher_is_told_ends_that_the_dispatcher_knows_already,
                a_job_that_came_and_ended_between_two_looks_is_told_by_its_end,
                decisions_of_people_and_jobs_that_run_again_are_told_to_watchers,
                a_watcher_is_told_that_memos_were_written,
                a_cursor_holds_in_every_process_and_tells_the_same_again,
                a_look_is_bounded_and_says_that_there_is_more,
                a_cursor_from_elsewhere_is_told_as_a_reset,
                a_cursor_that_is_older_than_what_is_kept_is_told_as_a_reset,
                sixteen_submitters_do_not_hide_a_job_from_a_watcher,
                watching_leaves_nothing_behind_and_nothing_out,
                what_is_in_nodes_hands_is_shown_with_how_far_it_has_come;
            statistics:
                what_was_counted_is_read_by_its_time_and_queue,
                only_the_names_that_are_asked_for_are_read_and_not_the_sum_of_others,
                a_minute_that_is_written_again_replaces_what_was_written_of_it,
                a_minute_may_be_written_in_several_batches,
                minutes_of_two_terms_are_both_kept,
                an_earlier_dispatcher_writes_no_statistics_after_a_later_one_has_begun,
                running_totals_go_from_one_dispatcher_to_the_next,
                errors_are_counted_with_when_they_were_first_and_last_seen,
                old_rows_are_merged_into_hours_and_days_and_nothing_is_lost,
                old_days_are_deleted_and_totals_stay;
            workers:
                a_worker_is_found_with_all_it_said,
                a_repeated_join_keeps_what_a_worker_said_first,
                a_lost_worker_is_found_as_lost_and_one_that_left_is_not_found,
                beats_of_many_workers_prolong_each_as_it_says,
                a_worker_that_a_person_drained_has_no_slots_whatever_it_says,
                a_worker_that_was_lost_or_replaced_beats_in_vain,
                sixteen_servers_beat_for_the_same_workers_at_once,
                workers_with_batches_or_requests_to_stop_should_look;
        }
    };
}

/// One `#[tokio::test]` per promise of the drivers' transactions for tasks. `$make` is `async fn(Options) -> impl
/// ClosingHarness`.
#[macro_export]
macro_rules! closing_suite {
    ($make:path) => {
        $crate::__promises! { $make, $crate::Options::default();
            closing:
                what_a_run_wrote_is_committed_with_its_end,
                what_a_run_wrote_is_committed_with_its_next_step,
                what_is_rolled_back_was_never_there,
                a_run_that_is_dropped_was_never_there,
                a_run_whose_job_is_in_other_hands_commits_nothing,
                a_run_that_was_settled_already_commits_nothing,
                a_cancel_that_the_decision_did_not_know_comes_first,
                a_run_that_is_known_to_be_cancelled_commits_nothing;
        }
    };
}

/// One `#[tokio::test]` per promise. `$make` is `async fn(Options) -> impl Harness`; the crate needs tokio with
/// `rt-multi-thread` and `macros`.
///
/// ```
/// use turnwise_store::{Options, conformance::MemoryHarness};
///
/// async fn make(options: Options) -> MemoryHarness {
///     MemoryHarness::new(options)
/// }
///
/// turnwise_store::conformance_suite!(make);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! conformance_suite {
    ($make:path) => {
        $crate::__promises! { $make, $crate::Options::default();
            enqueue:
                a_new_job_waits_and_is_due_at_once,
                every_field_of_a_job_is_kept,
                a_limit_key_stays_with_its_job_all_its_life,
                every_retry_policy_is_kept,
                a_job_that_names_no_retry_policy_is_told_from_one_that_names_the_default,
                a_time_that_is_named_is_told_from_none,
                the_first_and_the_last_moment_are_kept,
                jobs_of_one_call_are_in_the_order_they_were_given,
                replies_are_in_the_order_of_the_jobs,
                an_empty_call_is_answered_with_nothing,
                an_id_twice_in_one_call_is_one_job,
                a_long_list_is_stored_in_its_order_with_all_its_jobs_have,
                what_is_there_or_has_ended_is_left_out_of_a_long_list,
                one_that_waits_or_comes_twice_is_one_job_of_a_long_list,
                a_repeated_job_leaves_the_first_as_it_is,
                a_repeated_job_is_recognised_while_it_runs,
                a_repeated_job_is_recognised_after_its_end,
                of_sixteen_submitters_of_one_id_one_is_told_new,
                arguments_are_kept_to_the_letter,
                the_largest_arguments_and_results_pass,
                names_of_all_scripts_are_kept,
                a_thousand_jobs_in_one_call_are_all_there,
                an_id_that_is_no_uuid_of_version_seven_is_refused,
                an_id_of_the_future_is_refused_and_one_of_a_minute_ahead_is_not,
                a_job_that_is_there_is_recognised_though_its_id_is_of_the_future_by_now,
                a_submit_rings_the_sleeping_dispatcher;
            unique:
                a_key_is_held_until_its_job_has_ended,
                a_key_is_free_again_however_its_job_ended,
                a_key_may_be_held_for_a_period_whatever_became_of_the_job,
                a_key_may_be_held_for_the_longer_of_both,
                keys_of_different_scopes_do_not_meet,
                a_rejected_duplicate_refuses_the_whole_call_and_names_the_holder,
                arguments_are_replaced_as_long_as_the_holder_has_not_begun,
                no_job_gets_the_arguments_of_another_task,
                of_one_call_the_first_with_a_key_gets_it,
                a_repeated_submit_is_its_own_holder,
                a_full_group_refuses_no_job_that_another_stands_for,
                a_job_that_runs_again_holds_its_key_again_unless_it_is_taken,
                keys_go_with_their_jobs_and_not_before_their_period_is_over,
                pruning_keys_has_a_limit_and_comes_to_an_end,
                of_thirty_two_submitters_of_one_key_one_gets_it,
                submitters_with_keys_in_opposite_order_all_get_an_answer,
                a_job_is_shown_with_the_key_that_it_holds;
            nodes:
                a_node_that_joins_is_seen_with_all_it_said,
                a_node_may_serve_all_queues_or_none_or_all_but_some,
                nodes_are_told_by_name_and_joining_time,
                a_name_that_is_taken_is_told_and_nothing_changes,
                a_name_is_taken_until_its_holder_is_lost,
                a_silent_namesake_is_replaced_in_one_step,
                a_replaced_dispatcher_leads_no_more,
                a_silent_node_is_not_lost_before_it_is_said_so,
                a_node_found_silent_is_lost_however_late_its_lease_ends_unless_it_beat_since,
                nobody_is_lost_whose_lease_was_not_over_by_the_time_the_dispatcher_believes_it_to_be,
                a_lead_that_was_found_over_is_taken_unless_it_was_renewed,
                a_look_tells_who_leads_and_changes_nothing,
                a_namesake_that_beats_meanwhile_is_not_replaced,
                only_the_one_that_was_seen_is_replaced,
                of_sixteen_namesakes_one_is_let_in,
                a_beat_prolongs_the_lease_and_sets_the_slots,
                a_beat_says_whether_this_life_of_the_node_was_drained,
                an_unknown_node_is_told_that_it_is_not_alive,
                one_node_dispatches_at_a_time,
                the_dispatcher_is_told_all_living_nodes,
                dispatching_is_prolonged_within_one_epoch,
                dispatching_is_taken_over_when_it_is_over_and_not_before,
                a_beat_without_the_wish_to_lead_does_not_lead,
                the_epoch_only_grows,
                of_sixteen_that_want_to_lead_one_does,
                who_leaves_hands_over_at_once,
                a_clean_leave_takes_the_nodes_mail_along,
                a_node_does_not_leave_before_its_jobs_are_settled,
                a_dispatcher_with_jobs_in_its_hands_gives_up_the_lead_and_stays,
                a_lost_node_that_leaves_stays_lost_until_its_jobs_are_seen_to,
                an_unknown_node_may_leave,
                a_leaving_node_rings_for_a_new_dispatcher,
                a_beat_with_other_slots_rings_for_the_dispatcher,
                everybody_who_listens_hears_a_ring,
                nobody_is_lost_before_its_lease_is_over,
                a_silent_node_is_lost_and_its_beat_refused,
                a_silent_node_that_nobody_called_lost_may_beat_again,
                a_lost_node_is_told_with_the_jobs_in_its_hands,
                jobs_of_lost_nodes_are_told_within_the_limit,
                a_batch_that_is_called_done_too_early_loses_no_job,
                only_the_dispatcher_calls_a_node_lost,
                a_lost_node_is_told_until_it_is_buried,
                a_node_is_not_buried_while_jobs_are_in_its_hands,
                a_name_is_free_again_once_its_holder_is_lost,
                a_lost_node_is_noted_with_when_and_what_it_held,
                a_node_that_was_lost_is_in_nobodys_way,
                a_node_that_was_replaced_by_name_is_noted_once_the_dispatcher_has_seen_it,
                a_loss_is_shown_for_a_day_and_then_pruned;
            news:
                whoever_looks_far_back_may_leave_new_jobs_out,
                news_tell_no_more_new_jobs_than_were_asked_for_and_say_that_there_are,
                pages_hold_every_unfinished_job_once_in_id_order,
                a_page_that_is_not_full_is_the_last,
                a_page_tells_where_the_job_is,
                named_jobs_are_loaded_if_they_are_still_there,
                what_is_in_nodes_hands_is_told_whosever_they_are,
                what_a_node_holds_is_told_though_its_batch_was_called_done,
                news_without_a_cursor_only_say_where_to_begin,
                news_tell_every_new_job_once_as_load_does,
                every_head_says_when_its_job_was_submitted,
                every_head_says_how_long_its_arguments_are_if_they_are_long,
                what_had_begun_is_over_once_it_has_ended,
                the_same_cursor_tells_the_same_again,
                news_from_sixteen_busy_submitters_miss_none_and_repeat_none,
                another_nodes_end_is_told_with_how_long_it_ran,
                another_nodes_failure_is_told_as_one_and_no_other_end_is,
                a_lost_nodes_last_crash_is_told_to_the_next_dispatcher_as_a_failure,
                a_start_is_no_news,
                an_assignment_is_no_news,
                what_was_told_in_the_same_process_is_left_out_for_that_epoch,
                what_the_dispatcher_settles_itself_is_left_out,
                a_persons_decision_is_told,
                a_job_that_a_person_gives_up_is_not_told_as_a_failure,
                a_wish_to_stop_a_running_job_is_no_news,
                a_redriven_job_is_news_again,
                a_settle_that_was_refused_is_no_news,
                a_repeated_settle_is_told_once,
                a_settle_rings_the_dispatcher;
            assign:
                an_assigned_job_is_scheduled_with_the_next_fence,
                the_dispatchers_own_node_starts_from_the_reply,
                of_jobs_side_by_side_only_the_picked_are_given,
                another_node_reads_the_same_as_a_delivery,
                a_node_is_told_which_of_its_jobs_are_limited,
                one_batch_reaches_every_node_in_it,
                a_stuck_job_is_assigned_like_a_waiting_one,
                who_does_not_lead_assigns_nothing,
                a_dispatcher_that_was_followed_assigns_nothing,
                a_pick_at_another_fence_is_left_alone,
                a_pick_of_a_job_in_other_hands_is_left_alone,
                a_pick_at_another_fence_is_left_alone_in_the_same_hands,
                a_pick_of_a_finished_job_is_told_gone,
                one_bad_pick_does_not_hold_the_others,
                a_job_is_never_given_to_a_node_that_has_left,
                a_job_given_to_a_node_that_leaves_meanwhile_is_not_stranded,
                two_dispatchers_give_each_job_once,
                a_batch_is_answered_and_delivered_in_the_order_of_its_picks,
                a_known_batch_is_not_delivered_again,
                a_batch_is_kept_until_it_is_done,
                a_batch_does_not_deliver_what_others_have_by_now,
                a_batch_is_done_for_its_own_node_only,
                nobody_reads_anothers_mail,
                an_assignment_rings_the_node;
            settle:
                a_started_job_is_running_and_still_held,
                a_finished_job_leaves_for_history_with_all_that_is_known,
                a_job_without_a_run_is_finished_when_it_is_settled,
                a_failed_run_is_stuck_until_it_is_due,
                a_job_may_be_stuck_without_a_due_time,
                the_last_error_is_kept_through_a_later_success,
                the_last_run_is_kept_where_a_settle_tells_of_none,
                a_snoozed_job_waits_for_its_time,
                every_end_is_kept_as_what_it_is,
                answers_are_in_the_order_of_the_settlements,
                an_empty_settle_is_answered_with_nothing,
                a_settle_with_an_old_fence_is_superseded,
                an_end_of_another_run_at_the_same_fence_is_superseded,
                a_settle_of_a_job_in_other_hands_is_superseded,
                a_settle_of_an_unknown_job_is_told_gone,
                a_start_that_comes_after_the_end_changes_nothing,
                a_cancel_between_decision_and_settle_brings_the_job_back,
                a_lost_nodes_late_settle_is_superseded,
                a_lost_nodes_late_settle_is_superseded_while_the_job_runs_elsewhere,
                what_a_lost_node_settles_before_the_dispatcher_does_counts,
                only_the_dispatcher_settles_for_a_lost_node,
                the_dispatcher_settles_only_what_the_lost_node_has,
                a_cancelled_job_of_a_lost_node_ends_cancelled,
                of_sixteen_settlers_of_one_fence_one_is_written,
                of_a_lost_node_and_its_dispatcher_one_settles;
            control:
                a_waiting_job_is_cancelled_at_once,
                a_stuck_job_is_cancelled_retried_or_given_up,
                a_running_job_is_told_to_stop,
                a_cancel_that_came_too_late_stops_nothing,
                a_cancel_of_an_earlier_run_does_not_stop_a_later_one,
                a_decision_about_another_state_is_superseded,
                a_decision_about_another_fence_is_superseded,
                a_decision_about_an_unknown_job_is_told_gone,
                an_ended_job_is_redriven_with_a_fence_that_goes_on_growing,
                a_redriven_job_carries_neither_result_nor_cancel,
                a_job_that_succeeded_runs_once_more_if_a_person_says_so,
                of_sixteen_people_who_redrive_a_job_one_does,
                a_persons_decision_rings_node_and_dispatcher;
            edit:
                a_job_at_rest_gets_another_priority_time_and_queue_and_nothing_else,
                what_an_edit_does_not_name_stays_as_it_is,
                an_edited_job_runs_and_ends_like_any_other,
                a_job_in_a_nodes_hands_or_at_its_end_is_not_edited,
                an_edit_of_a_job_that_ran_meanwhile_is_superseded,
                a_pick_from_before_an_edit_is_answered_with_the_edited_job,
                an_edit_is_news_with_the_edited_job,
                an_edit_rings_the_dispatcher,
                a_settle_is_recognised_after_an_edit,
                a_job_that_waits_for_others_goes_on_waiting_when_it_is_edited,
                a_job_that_holds_a_key_within_its_queue_stays_there,
                many_edits_are_answered_in_their_order,
                of_sixteen_people_who_edit_a_job_one_does;
            story:
                a_job_goes_on_as_another_task_with_that_ones_terms,
                every_attempt_is_kept_with_its_task_and_failure,
                a_lost_nodes_run_is_an_attempt,
                a_repeated_settle_writes_no_second_attempt,
                a_settle_that_is_refused_writes_no_attempt,
                attempts_beyond_the_bound_go_oldest_first,
                a_note_is_there_for_those_who_ask,
                a_note_of_one_who_has_not_the_job_is_refused,
                a_repeated_note_changes_nothing,
                a_story_goes_on_through_retries_and_to_the_next_node,
                the_next_step_begins_without_the_results_of_the_last,
                a_log_keeps_its_last_lines_and_says_how_many_went,
                a_log_is_read_from_where_one_was,
                what_a_pruned_job_told_goes_with_it,
                terms_and_the_time_to_begin_are_kept,
                a_job_that_expires_fails_and_says_so;
            after:
                a_job_tells_whom_it_waits_for,
                who_has_ended_well_is_waited_for_no_longer,
                a_bad_end_is_told_to_those_who_wait,
                a_job_may_wait_for_one_that_has_ended,
                a_job_that_was_given_away_once_waits_for_nobody,
                a_job_that_a_person_has_run_again_waits_for_nobody,
                jobs_of_one_call_may_wait_for_one_another,
                an_unknown_id_refuses_the_whole_call,
                a_circle_refuses_the_whole_call,
                a_job_that_is_there_is_not_refused_for_whom_it_waits,
                a_job_that_is_there_is_in_no_circle,
                who_waits_for_a_duplicate_waits_for_the_one_that_stands_for_it,
                a_repeated_submit_waits_for_the_same,
                a_story_tells_who_waits_for_whom,
                what_a_pruned_job_waited_for_goes_with_it,
                a_bad_end_is_remembered_when_its_job_is_pruned,
                an_end_is_told_as_good_or_not,
                a_rest_before_a_bad_end_is_not_told_as_a_good_one,
                a_job_may_wait_for_ten_thousand;
            memo:
                memos_are_recalled_by_kind_and_in_order,
                what_is_kept_follows_the_installation_once_the_store_hears_of_it,
                every_write_of_a_memo_raises_its_version_by_one,
                a_memo_that_moved_on_since_it_was_seen_is_left_alone,
                of_one_call_the_memos_are_written_that_are_as_they_were_seen,
                a_memo_is_deleted_if_it_is_as_it_was_seen,
                a_memo_named_twice_in_one_call_is_a_mistake,
                who_does_not_lead_remembers_nothing_as_the_dispatcher,
                of_sixteen_writers_who_saw_one_version_one_writes,
                no_write_of_sixteen_writers_who_saw_nothing_is_lost,
                ten_thousand_charges_are_written_in_one_call,
                a_memo_written_by_others_is_news_once,
                what_the_dispatcher_remembers_or_nobody_wrote_is_no_news,
                pruning_seen_changes_hides_no_memo_that_was_not_seen,
                a_remembered_memo_rings_the_dispatcher,
                a_full_group_takes_no_jobs,
                one_job_of_a_full_group_refuses_the_whole_call,
                a_job_that_is_there_is_not_refused_when_it_is_repeated,
                a_full_group_keeps_what_it_has;
            read:
                an_unknown_job_is_none,
                jobs_come_newest_first_and_finished_ones_are_among_them,
                all_given_conditions_must_hold,
                jobs_are_found_by_the_time_of_their_submit,
                jobs_are_found_by_a_range_of_ids,
                the_job_that_holds_a_unique_key_is_found_by_it,
                every_state_can_be_asked_for,
                what_nodes_have_can_be_asked_for_alone,
                a_listing_has_a_limit,
                what_one_process_wrote_another_reads_at_once,
                history_is_pruned_by_days_after_its_retention_and_not_before,
                a_redriven_job_is_kept_from_its_last_end,
                pruning_has_a_limit,
                pruning_seen_changes_hides_none_that_were_not_seen,
                a_pruned_id_is_new_again;
            repeat:
                a_repeated_enqueue_says_that_the_jobs_are_there,
                a_repeated_join_is_in,
                a_repeated_replacement_is_in,
                a_repeated_beat_stays_in_its_epoch,
                a_repeated_leave_is_no_error,
                a_repeated_look_shows_the_same,
                a_repeated_assign_answers_what_the_first_did,
                a_repeated_assign_of_a_job_that_has_ended_since_is_told,
                a_repeated_settle_is_applied_whatever_became_of_the_job,
                a_repeated_settle_is_applied_after_the_node_has_gone,
                a_repeated_settle_for_a_lost_node_finds_the_fence_raised,
                a_repeated_call_for_the_lost_tells_the_same,
                a_repeated_intervention_finds_the_job_moved,
                a_repeated_redrive_finds_the_job_moved,
                a_repeated_cancel_of_a_running_job_is_applied,
                a_repeated_edit_finds_the_fence_raised,
                a_repeated_prune_finds_nothing,
                a_repeated_remember_finds_the_memo_moved,
                a_repeated_remember_without_a_version_writes_the_same_again,
                a_late_beat_of_another_life_changes_nothing;
            random:
                random_commands_have_the_effect_they_have_in_memory;
            crash:
                a_power_cut_at_any_step_loses_and_doubles_nothing,
                a_dispatcher_that_dies_at_any_step_loses_and_doubles_nothing;
        }
        $crate::__promises! { $make, $crate::Options { retention: ::std::option::Option::Some(::std::time::Duration::ZERO.into()), ..$crate::Options::default() };
            forget:
                without_retention_a_finished_job_is_deleted,
                without_retention_an_end_is_told_all_the_same,
                without_retention_a_failure_is_told_as_one,
                without_retention_a_repeated_settle_is_told_gone,
                without_retention_an_end_is_refused_for_the_same_reasons,
                without_retention_the_end_of_many_leaves_those_between_them_alone,
                without_retention_an_unfinished_job_is_kept,
                without_retention_a_job_takes_its_story_with_it,
                without_retention_a_bad_end_is_remembered_by_those_who_wait,
                without_retention_an_end_that_is_refused_is_remembered_by_nobody,
                without_retention_what_a_job_waited_for_goes_with_it;
        }
        $crate::__promises! { $make, $crate::Options { retention: ::std::option::Option::Some($crate::conformance::kept::KEPT), ..$crate::Options::default() };
            kept:
                a_state_without_retention_is_deleted_and_the_others_are_kept,
                each_state_is_kept_for_its_own_time,
                a_decision_of_a_person_is_kept_by_the_state_it_ends_in,
                an_end_that_is_not_kept_is_told_beside_one_that_is;
        }
        mod without_retention {
            use super::*;
            $crate::__promises! { $make, $crate::Options { retention: ::std::option::Option::Some(::std::time::Duration::ZERO.into()), ..$crate::Options::default() };
                unique:
                    without_retention_a_key_is_free_when_its_job_has_ended;
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __promises {
    ($make:path, $options:expr; $($verb:ident: $($promise:ident),+;)*) => {
        $(mod $verb {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $promise() {
                    let harness = $make($options).await;
                    $crate::conformance::$verb::$promise(&harness).await;
                }
            )+
        })*
    };
}
