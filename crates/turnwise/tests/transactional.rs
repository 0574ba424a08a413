//! Transactional tasks: what they write, their end and the jobs they submit are there together, or not at all.

mod schema;
mod ledger;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use ledger::{Bank, Deposit, How, deposit};
use turnwise::{Config, Ctx, Filter, JobState, NodeName, Options, Registry, TaskError, Turnwise, Tx, task};
use turnwise_testpg::Cluster;

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

/// How many runs are in it, and were at most.
#[derive(Default)]
struct Room {
    now: AtomicUsize,
    most: AtomicUsize,
}

const NAP: Duration = Duration::from_millis(1_200);

#[task("nap", retry = "none", timeout = "2s", register = false)]
async fn nap(_args: (), ctx: Ctx, tx: &Tx) -> Result<(), TaskError> {
    let room = ctx.state::<Room>().ok_or_else(|| TaskError::new("no room"))?;
    room.most.fetch_max(room.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    tx.execute("select pg_sleep($1)", &[&NAP.as_secs_f64()]).await?;
    room.now.fetch_sub(1, Ordering::SeqCst);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_beyond_task_connections_waits_before_it_begins_and_has_all_of_its_time_then() {
    let bank = Bank::in_postgres().await;
    let options = Options { task_connections: Some(1), ..Options::default() };
    let turnwise = Turnwise::open_with(&bank.url, options).await.unwrap();
    let mut config = Config::new(NodeName::new("bank").unwrap());
    config.core_pool_size = 4;
    let mut registry = Registry::new();
    registry.register(nap).unwrap();
    let room = Arc::new(Room::default());
    let executor = turnwise.executor_with(config).registry(registry).shared(room.clone()).build().unwrap();
    executor.start().await.unwrap();
    let ids = turnwise.submit_all((0..4).map(|_| nap.job(()))).await.unwrap();
    let mut begun = Vec::new();
    for id in ids {
        let job = bank.ended(id).await;
        assert_eq!((job.state, job.error, job.counts.attempt), (JobState::Success, None, 1));
        assert_eq!(job.fence.0, 1, "it was put back, and given out again");
        begun.push(job.started_at.unwrap());
    }
    assert_eq!(room.most.load(Ordering::SeqCst), 1, "runs at once");
    begun.sort_unstable();
    let apart: Vec<_> = begun.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    assert!(apart.iter().all(|apart| *apart >= NAP), "they count as begun while they wait: {apart:?}");
    executor.stop().await;
}

/// All five are in use by what the process does besides, and by another program.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_with_five_connections_runs_transactional_tasks_beside_everything_else() {
    let bank = Bank::in_postgres().await;
    let role = format!("five_{}", std::process::id());
    let grants = format!(
        "create role {role} login connection limit 5; grant usage on schema turnwise to {role};
         grant all on all tables in schema turnwise, public to {role};
         grant all on all sequences in schema turnwise, public to {role}"
    );
    Cluster::shared().psql(&bank.url, &grants).unwrap();
    let ours = bank.url.replace("postgres@", &format!("{role}@"));
    let turnwise = Turnwise::open(&ours).await.unwrap();
    let executor = ledger::executor(&turnwise, false, |config| config.core_pool_size = 4);
    executor.start().await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let mut load = tokio::task::JoinSet::new();
    for line in 0..8 {
        let (turnwise, over) = (turnwise.clone(), over.clone());
        load.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                if line % 2 == 0 {
                    turnwise.submit_all((0..20).map(|n| ledger::receipt.job(n.to_string()))).await.unwrap();
                } else {
                    turnwise.jobs(Filter { limit: Some(100), ..Filter::default() }).await.unwrap();
                }
            }
        });
    }
    // The rest of the five, if there is any left, goes to another program.
    let receipt = turnwise.submit(ledger::receipt.job("first".to_owned())).await.unwrap();
    bank.ended(receipt).await;
    let mut others = Vec::new();
    while let Ok((client, connection)) = tokio_postgres::connect(&ours, tokio_postgres::NoTls).await {
        tokio::spawn(connection);
        others.push(client);
    }
    assert!(others.len() < 3, "the process has {} of five", 5 - others.len());
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(bank.submit(deposit(How::Well)).await);
    }
    for id in &ids {
        let job = bank.ended(*id).await;
        assert_eq!((job.state, job.counts.attempt), (JobState::Success, 1), "{:?}", job.error);
    }
    over.store(true, Ordering::Relaxed);
    while let Some(ended) = load.join_next().await {
        ended.expect("no call fails");
    }
    assert_eq!((bank.entries().len(), bank.total()), (20, 20));
    executor.stop().await;
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
