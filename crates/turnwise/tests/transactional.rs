//! Transactional tasks: what they write, their end and the jobs they submit are there together, or not at all.

mod schema;
mod ledger;

use std::time::Duration;

use ledger::{Bank, Deposit, How, deposit};
use turnwise::{Config, JobState, NodeName, Registry};

macro_rules! on_both {
    ($($promise:ident),* $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread")] async fn $promise() { super::$promise(super::Bank::in_sqlite().await).await })*
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread")] async fn $promise() { super::$promise(super::Bank::in_postgres().await).await })*
        }
    };
}

on_both!(
    writes_end_progress_and_follow_ups_are_there_together,
    an_error_leaves_nothing,
    a_failure_leaves_nothing,
    a_panic_leaves_nothing,
    a_timeout_leaves_nothing,
    a_cancel_leaves_nothing,
    a_cancel_at_the_last_moment_leaves_nothing,
    a_next_step_is_committed_with_what_was_written,
    a_snooze_is_committed_with_what_was_written,
    what_was_written_before_a_long_sleep_is_written_once,
    a_stopping_node_rolls_back_what_it_interrupts,
    many_at_once_are_all_booked,
    an_end_goes_by_what_is_set_for_the_installation,
);

async fn an_end_goes_by_what_is_set_for_the_installation(bank: Bank) {
    bank.turnwise.set_installation(|installation| installation.retention = Some(Duration::ZERO.into())).await.unwrap();
    let executor = bank.started().await;
    let id = bank.submit(deposit(How::Well)).await;
    let gone = bank.turnwise.wait(id).await;
    assert!(matches!(gone, Err(turnwise::Error::NoSuchJob(_))), "{gone:?}");
    assert_eq!(bank.entries(), [id.to_string()]);
    executor.stop().await;
}

async fn writes_end_progress_and_follow_ups_are_there_together(bank: Bank) {
    let executor = bank.started().await;
    let id = bank.submit(deposit(How::Well)).await;
    let job = bank.ended(id).await;
    assert_eq!((job.state, job.counts.attempt, job.error), (JobState::Success, 1, None));
    assert_eq!(job.result.unwrap().as_str(), "1");
    assert_eq!((bank.entries(), bank.total()), (vec![id.to_string()], 1));
    let receipts = bank.receipts().await;
    assert_eq!(receipts.len(), 1);
    assert_eq!(receipts[0].args.as_str(), format!("\"{id}\""));
    assert_eq!(bank.ended(receipts[0].id).await.state, JobState::Success);
    let progress = bank.turnwise.story(id, 10).await.unwrap().progress.unwrap();
    assert_eq!((progress.done, progress.text.as_str()), (1, "deposited"));
    executor.stop().await;
    assert_eq!(executor.stats().settled, 2);
}

/// The job ended so, for this reason, and nothing of it is there.
async fn comes_to_nothing(bank: Bank, deposit: Deposit, state: JobState, error: &str) {
    let executor = bank.started().await;
    let id = bank.submit(deposit).await;
    let job = bank.ended(id).await;
    assert_eq!(job.state, state);
    assert!(job.error.as_deref().unwrap_or_default().contains(error), "{:?}", job.error);
    assert_eq!(bank.turnwise.story(id, 10).await.unwrap().progress, None);
    bank.assert_untouched().await;
    // The next one finds everything in order.
    let well = bank.submit(ledger::deposit(How::Well)).await;
    assert_eq!(bank.ended(well).await.state, JobState::Success);
    assert_eq!((bank.entries(), bank.total()), (vec![well.to_string()], 1));
    executor.stop().await;
}

async fn an_error_leaves_nothing(bank: Bank) {
    comes_to_nothing(bank, deposit(How::Error), JobState::Failed, "the bank is closed").await;
}

async fn a_failure_leaves_nothing(bank: Bank) {
    comes_to_nothing(bank, deposit(How::Fail), JobState::Failed, "no such account").await;
}

async fn a_panic_leaves_nothing(bank: Bank) {
    comes_to_nothing(bank, deposit(How::Panic), JobState::Failed, "robbers").await;
}

async fn a_timeout_leaves_nothing(bank: Bank) {
    let executor = bank.started().await;
    let request = turnwise::JobRequest::new("deposit", &deposit(How::Hang)).retry("none".parse().unwrap());
    let id = bank.turnwise.submit(request.timeout(std::time::Duration::from_millis(300))).await.unwrap();
    let job = bank.ended(id).await;
    assert!(job.error.as_deref().unwrap_or_default().starts_with("timed out"), "{:?}", job.error);
    bank.assert_untouched().await;
    // The account is free again.
    let well = bank.submit(deposit(How::Well)).await;
    assert_eq!(bank.ended(well).await.state, JobState::Success);
    executor.stop().await;
}

async fn a_cancel_leaves_nothing(bank: Bank) {
    let executor = bank.started().await;
    let id = bank.submit(deposit(How::HeedsLate)).await;
    bank.reached(id, |job| job.state == JobState::Running).await;
    bank.turnwise.cancel(id).await.unwrap();
    assert_eq!(bank.ended(id).await.state, JobState::Cancelled);
    bank.assert_untouched().await;
    executor.stop().await;
}

async fn a_cancel_at_the_last_moment_leaves_nothing(bank: Bank) {
    comes_to_nothing(bank, deposit(How::CancelledLast), JobState::Cancelled, "").await;
}

async fn a_next_step_is_committed_with_what_was_written(bank: Bank) {
    let executor = bank.started().await;
    let id = bank.submit(deposit(How::Next)).await;
    let job = bank.ended(id).await;
    assert_eq!((job.state, job.task.as_str(), job.counts.attempt), (JobState::Success, "receipt", 2));
    assert_eq!((bank.entries(), bank.total()), (vec![id.to_string()], 1));
    executor.stop().await;
}

async fn a_snooze_is_committed_with_what_was_written(bank: Bank) {
    let executor = bank.started().await;
    let id = bank.submit(deposit(How::SnoozeOnce)).await;
    let job = bank.reached(id, |job| job.state == JobState::Waiting && job.started_at.is_some()).await;
    assert_eq!(job.counts.attempt, 0);
    assert_eq!((bank.entries(), bank.total()), (vec![id.to_string()], 1));
    executor.stop().await;
}

async fn what_was_written_before_a_long_sleep_is_written_once(bank: Bank) {
    let executor = bank.started().await;
    let id = bank.submit(deposit(How::Sleeps)).await;
    bank.reached(id, |job| job.state == JobState::Waiting && job.started_at.is_some()).await;
    bank.assert_untouched().await;
    let job = bank.ended(id).await;
    assert_eq!((job.state, job.counts.attempt), (JobState::Success, 1));
    assert_eq!((bank.entries(), bank.total()), (vec![id.to_string()], 1));
    assert_eq!(bank.receipts().await.len(), 1);
    executor.stop().await;
}

async fn a_stopping_node_rolls_back_what_it_interrupts(bank: Bank) {
    let executor = bank.executor(|config| config.wait_for_tasks_on_shutdown = false);
    executor.start().await.unwrap();
    let id = bank.submit(deposit(How::Hang)).await;
    bank.reached(id, |job| job.state == JobState::Running).await;
    executor.stop().await;
    let job = bank.turnwise.job(id).await.unwrap();
    assert_eq!((job.state, job.counts.attempt), (JobState::Waiting, 0));
    bank.assert_untouched().await;
}

async fn many_at_once_are_all_booked(bank: Bank) {
    let executor = bank.started().await;
    let mut ids = Vec::new();
    for n in 0..200 {
        let how = if n % 5 == 0 { How::Error } else { How::Well };
        ids.push(bank.submit(Deposit { account: 1 + n % ledger::ACCOUNTS, how, millis: 0 }).await);
    }
    let mut well = Vec::new();
    for id in ids {
        if bank.ended(id).await.state == JobState::Success {
            well.push(id.to_string());
        }
    }
    well.sort();
    assert_eq!((well.len(), bank.total()), (160, 160));
    assert_eq!(bank.entries(), well);
    assert_eq!(bank.receipts().await.len(), 160);
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_swallows_a_failed_statement_has_not_ended_well() {
    let bank = Bank::in_postgres().await;
    comes_to_nothing(bank, deposit(How::Swallow), JobState::Failed, "its transaction was not committed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_database_refuses_at_the_commit_is_the_tasks_error() {
    let bank = Bank::in_postgres().await;
    comes_to_nothing(bank, deposit(How::Deferred), JobState::Failed, "duplicate key").await;
    let bank = Bank::in_sqlite().await;
    comes_to_nothing(bank, deposit(How::Deferred), JobState::Failed, "FOREIGN KEY").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_could_not_be_is_made_up_for_and_spends_no_attempt() {
    let bank = Bank::in_a_hurry().await;
    let reader = Bank::another_process(&ledger::elsewhere(bank.path().unwrap()));
    reader.execute_batch("create table copy (n); begin; select * from copy;").unwrap();
    let executor = bank.started().await;
    let id = bank.submit(deposit(How::Elsewhere)).await;
    let job = bank.reached(id, |job| job.state == JobState::Waiting && job.started_at.is_some()).await;
    assert_eq!((job.counts.attempt, job.error), (0, None));
    bank.assert_untouched().await;
    reader.execute_batch("commit").unwrap();
    let job = bank.ended(id).await;
    assert_eq!((job.state, job.counts.attempt), (JobState::Success, 1));
    assert_eq!((bank.entries(), bank.total()), (vec![id.to_string()], 1));
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_lost_before_the_commit_is_made_up_for_and_spends_no_attempt() {
    for how in [How::CutOnce, How::CutOnceAndMinds] {
        let bank = Bank::in_postgres().await;
        let executor = bank.started().await;
        let id = bank.submit(deposit(how)).await;
        let job = bank.ended(id).await;
        assert_eq!((job.state, job.counts.attempt, job.error), (JobState::Success, 1, None), "{how:?}");
        assert_eq!((bank.entries(), bank.total()), (vec![id.to_string()], 1));
        executor.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_always_loses_its_connection_comes_to_an_end() {
    let bank = Bank::in_postgres().await;
    let executor = bank.started().await;
    let job = bank.ended(bank.submit(deposit(How::CutsAlways)).await).await;
    assert_eq!((job.state, job.counts.attempt), (JobState::Failed, 1));
    assert_eq!(i64::from(job.counts.attempt) + turnwise_core::lifecycle::FREE_RUNS, job.fence.0);
    let error = job.error.unwrap_or_default();
    assert!(error.starts_with("its transaction was not committed"), "{error}");
    bank.assert_untouched().await;
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_steps_down_ends_in_its_nodes_own_role() {
    let bank = Bank::in_postgres().await;
    let executor = bank.started().await;
    let id = bank.submit(deposit(How::StepsDown)).await;
    let job = bank.ended(id).await;
    assert_eq!((job.state, job.error), (JobState::Success, None));
    assert_eq!((bank.entries(), bank.total()), (vec![id.to_string()], 1));
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_task_leaves_in_its_session_is_gone_before_the_next_one() {
    for (how, state) in [(How::Litters, JobState::Success), (How::LittersAndFails, JobState::Failed)] {
        let bank = Bank::in_postgres().await;
        let executor = bank.executor(|config| config.core_pool_size = 1);
        executor.start().await.unwrap();
        let id = bank.submit(deposit(how)).await;
        let job = bank.ended(id).await;
        assert_eq!(job.state, state, "{:?}", job.error);
        // The lock is given back without another task on this session.
        bank.asked("select count(*) from pg_locks where locktype = 'advisory' and objid = 4711", "0").await;
        let job = bank.ended(bank.submit(deposit(How::FindsClean)).await).await;
        assert_eq!((job.state, job.error), (JobState::Success, None));
        executor.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_what_is_done_at_the_end_is_the_tasks_error() {
    comes_to_nothing(Bank::in_sqlite().await, deposit(How::ErrorAtEnd), JobState::Failed, "no more ink").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_bounds_what_is_done_at_the_end() {
    let bank = Bank::in_sqlite().await;
    let executor = bank.started().await;
    let request = turnwise::JobRequest::new("deposit", &deposit(How::HangAtEnd)).retry("none".parse().unwrap());
    let id = bank.turnwise.submit(request.timeout(std::time::Duration::from_millis(300))).await.unwrap();
    let job = bank.ended(id).await;
    assert_eq!((job.state, job.error.as_deref()), (JobState::Failed, Some("timed out: it took longer than 300ms")));
    bank.assert_untouched().await;
    let well = bank.submit(deposit(How::Well)).await;
    assert_eq!(bank.ended(well).await.state, JobState::Success);
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_what_is_done_at_the_end_is_the_tasks_panic() {
    let bank = Bank::in_sqlite().await;
    comes_to_nothing(bank, deposit(How::PanicAtEnd), JobState::Failed, "panic: the inkwell fell over").await;
}

#[tokio::test]
async fn a_transactional_task_needs_its_own_database() {
    let config = || Config::new(NodeName::new("n").unwrap());
    let mut postgres_only = Registry::new();
    postgres_only.register(ledger::into_postgres).unwrap();
    let mut sqlite_only = Registry::new();
    sqlite_only.register(ledger::into_sqlite).unwrap();
    for (url, registry, part) in [
        ("memory:", &postgres_only, "not kept there; open postgres://"),
        ("sqlite::memory:", &postgres_only, "not kept there; open postgres://"),
        ("memory:", &sqlite_only, "not kept in SQLite; open sqlite:"),
    ] {
        let turnwise = schema::open(url).await;
        let error = turnwise.executor_with(config()).registry(registry.clone()).build().unwrap_err().to_string();
        assert!(error.starts_with("task \"deposit\" takes a ") && error.contains(part), "{error}");
    }
}
