//! Stories: which writes wait for which locks, and what stories cost.

mod database;

use std::time::Duration;

use database::{LEASE, client, fresh_store, id, job, lead, node};
use turnwise_core::{
    Fence, Json, NewJob, RetryPolicy, Step, TaskName, Terms, Timestamp,
    lifecycle::{self, Event, JobFacts, Outcome},
    scheduler::Pick,
    story::{Finished, Level, Line, LineAt, Progress},
};
use turnwise_postgres::PostgresStore;
use turnwise_store::{AskStory, Assign, Author, BatchId, Cursor, Note, Options, Settle, Settled, Settlement, Store};
use uuid::Uuid;

/// Jobs 1 to `jobs` in the hands of node 1, which dispatches.
async fn assigned(store: &PostgresStore, jobs: u64) {
    let alpha = node(1);
    let epoch = lead(store, alpha, "alpha").await;
    store.enqueue((1..=jobs).map(|n| NewJob { retry: Some(RetryPolicy::Manual), ..job(n) }).collect()).await.unwrap();
    let picks = (1..=jobs).map(|n| Pick { job: id(n), fence: Fence(0), node: alpha, limited: false }).collect();
    let batch = BatchId(Uuid::from_u128(1));
    store.assign(Assign { holder: alpha, epoch, batch, picks }).await.unwrap();
}

async fn settlement(store: &PostgresStore, n: u64, outcome: Outcome) -> Settlement {
    let (job, now) = (store.job(id(n)).await.unwrap().unwrap(), store.nodes().await.unwrap().now);
    let to = lifecycle::decide(&JobFacts::from(&job), &Event::Ended(outcome), now, 0.0).unwrap();
    let saw_cancel = false;
    Settlement {
        job: job.id,
        fence: job.fence,
        saw_cancel,
        to,
        noted: true,
        started_at: Some(now),
        finished_at: Some(now),
    }
}

fn settle(settlements: Vec<Settlement>) -> Settle {
    Settle { author: Author::Node { node: node(1), told: None }, settlements, done: vec![] }
}

fn next() -> Outcome {
    let task = TaskName::new("mail").unwrap();
    let step = Step { task, args: Json::null(), retry: Some(RetryPolicy::Manual), terms: Terms::default() };
    Outcome::Next { step: Box::new(step), due: None }
}

fn note(n: u64, lines: u32) -> Note {
    let time = Timestamp::from_micros(1_893_456_000_000_000);
    let line = |number| Line { at: LineAt { fence: Fence(1), number }, time, level: Level::Warn, text: "said".into() };
    let steps = vec![Finished { name: "fetch".into(), result: Json::null() }];
    let progress = Some(Progress::new(1, 2, "half"));
    Note { job: id(n), fence: Fence(1), progress, lines: (0..lines).map(line).collect(), trim: false, steps }
}

/// Waits until a backend of this database waits for a lock.
async fn until_a_lock_is_awaited(url: &str) {
    let app = client(url).await;
    let waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    while app.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
}

async fn rows(url: &str, table: &str) -> i64 {
    let count = format!("select count(*) from turnwise.{table}");
    client(url).await.query_one(&count, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn the_next_step_does_not_see_a_result_that_was_being_written_as_it_began() {
    let (store, url) = fresh_store().await;
    assigned(&store, 1).await;
    let on = settlement(&store, 1, next()).await;
    let mut app = client(&url).await;
    // A note, only slower.
    let noting = app.transaction().await.unwrap();
    noting.execute("select from turnwise.job where id = $1 for no key update", &[&id(1).uuid()]).await.unwrap();
    noting.execute("insert into turnwise.step values ($1, 'fetch', '7')", &[&id(1).uuid()]).await.unwrap();
    let settling = tokio::spawn({
        let store = store.clone();
        async move {
            // The node repeats it: one settle does not wait for long.
            loop {
                match store.settle(settle(vec![on.clone()])).await.unwrap()[..] {
                    [Settled::Locked] => {}
                    [ref reply] => break *reply,
                    _ => unreachable!("one settlement, one answer"),
                }
            }
        }
    });
    until_a_lock_is_awaited(&url).await;
    noting.commit().await.unwrap();
    assert_eq!(settling.await.unwrap(), Settled::Applied);
    assert_eq!(rows(&url, "step").await, 0);
}

#[tokio::test]
async fn a_note_on_a_locked_job_does_not_wait_and_after_its_end_writes_nothing() {
    let (store, url) = fresh_store().await;
    assigned(&store, 2).await;
    let mut app = client(&url).await;
    // A settle, only slower; or an application that holds the row.
    let settling = app.transaction().await.unwrap();
    settling.execute("update turnwise.job set state = 0, node = null where id = $1", &[&id(1).uuid()]).await.unwrap();
    let notes = || vec![note(2, 1), note(1, 1)];
    assert_eq!(store.note(node(1), notes()).await.unwrap(), [Settled::Applied, Settled::Locked]);
    settling.commit().await.unwrap();
    assert_eq!(store.note(node(1), notes()).await.unwrap(), [Settled::Applied, Settled::Superseded]);
    for table in ["log", "step", "progress"] {
        assert_eq!(rows(&url, table).await, 1, "{table}");
    }
}

#[tokio::test]
async fn of_several_notes_of_a_run_the_last_progress_stands() {
    let (store, _) = fresh_store().await;
    assigned(&store, 1).await;
    let said = |progress: Option<u64>, fence| Note {
        fence: Fence(fence),
        progress: progress.map(|done| Progress::new(done, 9, "")),
        ..note(1, 2)
    };
    let notes = vec![said(Some(1), 1), said(Some(2), 1), said(None, 1), said(Some(3), 7)];
    use Settled::{Applied, Superseded};
    assert_eq!(store.note(node(1), notes).await.unwrap(), [Applied, Applied, Applied, Superseded]);
    let story = store.story(AskStory { job: id(1), after: None, lines: 10 }).await.unwrap();
    assert_eq!((story.progress, story.lines.len()), (Some(Progress::new(2, 9, "")), 2));
}

#[tokio::test]
async fn a_long_story_goes_in_rounds_and_its_job_with_the_last() {
    let url = database::fresh_url();
    let store =
        PostgresStore::open(&url, Options { retention: Some(Duration::from_secs(60).into()), ..Options::default() })
            .await;
    let store = store.unwrap();
    let app = client(&url).await;
    app.batch_execute(
        "insert into turnwise.history
                (id, seq, task, queue, grp, priority, args, state, attempt, retries, crashes, fence, cancel_requested,
                 submitted_at, ended_at)
         values ('00000000-0000-0000-0000-000000000001', 7, 'mail', 'q', 'g', 5, 'null', 4, 1, 0, 0, 1, false, now(),
                 now() - interval '2 hours');
         insert into turnwise.progress (job) values ('00000000-0000-0000-0000-000000000001');
         insert into turnwise.log
         select '00000000-0000-0000-0000-000000000001', 1, n, now(), 2, 'x' from generate_series(1, 50000) as n;",
    )
    .await
    .unwrap();
    let none: Option<Cursor> = None;
    let mut left = Vec::new();
    while rows(&url, "history").await > 0 {
        let went = store.prune(none.clone(), 10).await.unwrap();
        left.push((went >= 10, rows(&url, "log").await));
    }
    assert_eq!(left, [(true, 30_000), (true, 10_000), (false, 0)]);
    assert_eq!(rows(&url, "progress").await, 0);
}

#[tokio::test]
async fn terms_that_cannot_be_read_hold_up_no_job() {
    let (store, url) = fresh_store().await;
    store.enqueue(vec![job(1)]).await.unwrap();
    client(&url).await.execute("update turnwise.job set terms = '{\"tomorrow\": 1}'", &[]).await.unwrap();
    assert_eq!(store.job(id(1)).await.unwrap().unwrap().terms, Terms::default());
}

/// How often a table of stories was looked into or written to, and how many of the updates of jobs were HOT.
async fn looks_and_hot(url: &str, updates: i64) -> (i64, i64) {
    let app = client(url).await;
    let of_job =
        "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where schemaname = 'turnwise' and relname = 'job'";
    // Statistics arrive when the backends that made them end; ask until they have.
    let hot = loop {
        let row = app.query_one(of_job, &[]).await.unwrap();
        if row.get::<_, i64>(0) >= updates {
            break row.get(1);
        }
        tokio::task::yield_now().await;
    };
    // Scans of the whole tables are not counted: making their keys was one each.
    let looks = "select sum(idx_scan + n_tup_ins)::bigint from pg_stat_user_tables
                  where schemaname = 'turnwise' and relname in ('attempt', 'log', 'step', 'progress')";
    (app.query_one(looks, &[]).await.unwrap().get(0), hot)
}

#[tokio::test]
async fn a_batch_without_failures_looks_into_no_story() {
    for retention in [Duration::from_secs(60), Duration::ZERO] {
        let url = database::fresh_url();
        let store = PostgresStore::open(&url, Options { retention: Some(retention.into()), ..Options::default() })
            .await
            .unwrap();
        assigned(&store, 30).await;
        let mut settlements = Vec::new();
        for n in 1..=30 {
            let outcome = match n % 3 {
                0 => Outcome::Snooze { wait: LEASE },
                1 => Outcome::Interrupted,
                _ => Outcome::Done { result: None },
            };
            settlements.push(Settlement { noted: false, ..settlement(&store, n, outcome).await });
        }
        assert_eq!(store.settle(settle(settlements)).await.unwrap(), [Settled::Applied; 30]);
        drop(store);
        let (looks, _) = looks_and_hot(&url, 50).await;
        assert_eq!(looks, 0, "{retention:?}");
    }
}

#[tokio::test]
async fn failing_and_going_on_are_hot_updates() {
    const JOBS: u64 = 1_000;
    let (store, url) = fresh_store().await;
    assigned(&store, JOBS).await;
    // Half a page at a time: what a transaction replaces makes room only for the next one.
    for half in 0..2 {
        let mut settlements = Vec::new();
        for n in (1..=JOBS).filter(|n| n % 2 == half) {
            let outcome = if half == 0 { next() } else { Outcome::Error("no".into()) };
            settlements.push(settlement(&store, n, outcome).await);
        }
        store.settle(settle(settlements)).await.unwrap();
    }
    assert_eq!(rows(&url, "attempt").await, 1_000);
    drop(store);
    let (_, hot) = looks_and_hot(&url, 2_000).await;
    assert!(hot >= 1_990, "{hot} of 2000 updates were HOT");
}
