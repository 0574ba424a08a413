//! How many connections there are, and which purposes get them.

mod database;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use database::{LEASE, client, fresh_store, fresh_url, id, job, join, lead, node};
use turnwise_core::{Fence, Unique, UniqueKey, scheduler::Pick};
use turnwise_postgres::{PostgresStore, Transactions};
use turnwise_store::{Assign, BatchId, Beat, Filter, Options, Store};
use turnwise_testpg::{Cluster, Pace};
use uuid::Uuid;

/// Far beyond any wait of a machine that is busy.
const NEVER: Duration = Duration::from_secs(60);

/// Everything at once, on both handles of a process, until `over`.
async fn bustle(callers: &PostgresStore, control: &PostgresStore, over: Arc<AtomicBool>, from: u64) {
    let mut tasks = tokio::task::JoinSet::new();
    for line in 0..30_u64 {
        let (callers, control, over) = (callers.clone(), control.clone(), Arc::clone(&over));
        tasks.spawn(async move {
            let mut round = 0;
            while !over.load(Ordering::Relaxed) {
                round += 1;
                let jobs = |count: u64| (0..count).map(|n| job(from + line * 1_000_000 + round * 1_000 + n)).collect();
                match line % 6 {
                    0 => drop(callers.enqueue(jobs(1)).await.expect("submit")),
                    1 => drop(callers.enqueue(jobs(300)).await.expect("submit many")),
                    2 => drop(callers.jobs(Filter::default()).await.expect("list")),
                    3 => drop(control.beat(beat()).await.expect("beat")),
                    4 => drop(control.assignments(node(1), vec![]).await.expect("mail")),
                    _ => drop(control.recall(vec![]).await.expect("recall")),
                }
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no call fails");
    }
}

fn beat() -> Beat {
    Beat::new(node(1), LEASE, 10, true)
}

/// Other connections to the database of `app`; the server's own workers are not counted.
async fn connections(app: &tokio_postgres::Client) -> i64 {
    let count = "select count(*) from pg_stat_activity
                 where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()";
    app.query_one(count, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_has_at_most_ten_connections() {
    let (callers, url) = fresh_store().await;
    let app = client(&url).await;
    let begun = Instant::now();
    // The server takes a moment to end the connections by which the schema was made.
    while connections(&app).await > 0 {
        assert!(begun.elapsed() < NEVER, "a handle that did nothing has connections");
    }
    let control = callers.for_control();
    control.bell();
    join(&control, node(1), "alpha").await;
    let over = Arc::new(AtomicBool::new(false));
    let busy = tokio::spawn({
        let (callers, control, over) = (callers.clone(), control.clone(), Arc::clone(&over));
        async move { bustle(&callers, &control, over, 0).await }
    });
    let (mut most, begun) = (0, Instant::now());
    while begun.elapsed() < Duration::from_secs(3) || most < 8 {
        assert!(begun.elapsed() < NEVER, "{most} connections at most: nothing is done at once");
        most = most.max(connections(&app).await);
        assert!(most <= 10, "{most} connections");
    }
    over.store(true, Ordering::Relaxed);
    busy.await.unwrap();
}

/// A database with its schema, as a role that may have five connections reaches it.
async fn five_connections(role: &str) -> String {
    let url = fresh_url();
    drop(PostgresStore::open(&url, Options::default()).await.unwrap());
    let role = format!("{role}_{}", std::process::id());
    let make = format!(
        "create role {role} login connection limit 5; grant usage on schema turnwise to {role};
         grant select, insert, update, delete on all tables in schema turnwise to {role};
         grant usage on all sequences in schema turnwise to {role}"
    );
    Cluster::shared().psql(&url, &make).unwrap();
    url.replace("postgres@", &format!("{role}@"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_that_comes_late_gets_a_connection_of_the_one_that_has_all() {
    let url = five_connections("late").await;
    // Four for the control loops, and one that listens: all that the role may have.
    let callers = PostgresStore::connect(&url, Options { connections: 7, ..Options::default() }).await.unwrap();
    let control = callers.for_control();
    control.bell();
    join(&control, node(1), "alpha").await;
    let app = client(&url.replace(&format!("late_{}@", std::process::id()), "postgres@")).await;
    let begun = Instant::now();
    while connections(&app).await < 5 {
        assert!(begun.elapsed() < NEVER, "the control loops do not take all connections");
        let mail = (0..30).map(|_| control.assignments(node(1), vec![]));
        futures_util::future::try_join_all(mail).await.unwrap();
    }
    callers.enqueue(vec![job(1)]).await.expect("the control loops give one up");
    control.beat(beat()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_with_five_connections_gets_everything_done() {
    let url = five_connections("few").await;
    let callers = PostgresStore::connect(&url, Options::default()).await.unwrap();
    let control = callers.for_control();
    control.bell();
    join(&control, node(1), "alpha").await;
    let over = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&over);
    let stopper = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(3)).await;
        stop.store(true, Ordering::Relaxed);
    });
    // No call fails, and none waits for ever.
    tokio::time::timeout(NEVER * 2, bustle(&callers, &control, over, 0)).await.expect("it ends");
    stopper.await.unwrap();
}

#[tokio::test]
async fn a_server_without_connections_says_so() {
    let url = fresh_url();
    drop(PostgresStore::open(&url, Options::default()).await.unwrap());
    let role = format!("none_{}", std::process::id());
    let make = format!("create role {role} login superuser");
    Cluster::shared().psql(&url, &make).unwrap();
    let ours = url.replace("postgres@", &format!("{role}@"));
    let store = PostgresStore::connect(&ours, Options::default()).await.unwrap();
    // Superusers have no limit of their own.
    Cluster::shared().psql(&url, &format!("alter role {role} nosuperuser connection limit 0")).unwrap();
    let error = store.enqueue(vec![job(1)]).await.unwrap_err();
    let says = ["no connection left for this process", "too many connections for role"];
    assert!(error.is_transient() && says.iter().all(|part| error.to_string().contains(part)), "{error}");
}

/// An application has locked the table of jobs: calls that need it wait for its locks, on all connections they can get.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_that_waits_for_locks_delays_no_beat() {
    let (store, url) = fresh_store().await;
    lead(&store, node(1), "alpha").await;
    let mut app = client(&url).await;
    let held = app.transaction().await.unwrap();
    held.batch_execute("lock table turnwise.job in access exclusive mode").await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let mut flood = tokio::task::JoinSet::new();
    for line in 0..60_u64 {
        let (store, over) = (store.clone(), Arc::clone(&over));
        flood.spawn(async move {
            let mut round = 0;
            while !over.load(Ordering::Relaxed) {
                round += 1;
                let mut new = job(line * 1_000 + round);
                new.unique = (line % 3 == 0)
                    .then(|| Box::new(Unique::new(UniqueKey::new(format!("key {line}")).expect("a good key"))));
                // They may fail with a transient error.
                let _ = match line % 3 {
                    1 => store.jobs(Filter::default()).await.map(drop),
                    _ => store.enqueue(vec![new]).await.map(drop),
                };
            }
        });
    }
    // They do wait, on all connections that are not kept for beats and the dispatcher.
    let waiting =
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    let watch = client(&url).await;
    let begun = Instant::now();
    while watch.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) < 2 {
        assert!(begun.elapsed() < NEVER, "no call waits");
    }
    let (pace, mut slowest) = (Pace::start(), Duration::ZERO);
    for _ in 0..20 {
        let asked = pace.elapsed();
        store.beat(beat()).await.expect("beat");
        slowest = slowest.max(pace.elapsed().saturating_sub(asked));
    }
    // A beat that had to wait for a submit's lock would have taken a second at least.
    assert!(slowest < Duration::from_millis(900), "a beat took {slowest:?}");
    over.store(true, Ordering::Relaxed);
    held.rollback().await.unwrap();
    while flood.join_next().await.is_some() {}
}

#[tokio::test]
async fn a_task_beyond_the_bound_waits_before_it_begins() {
    let (store, url) = fresh_store().await;
    lead(&store, node(1), "alpha").await;
    let options = Options { task_connections: Some(1), ..Options::default() };
    let transactions = Arc::new(Transactions::new(&url, &options).unwrap());
    let first = transactions.begin(node(1), None, 8).await.unwrap();
    // A run with little time gets a transient error while it still has some of its time: no attempt is spent on that.
    let limit = Duration::from_millis(200);
    let error = transactions.begin(node(2), Some(limit), 8).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("task_connections"), "{error}");
    let second = tokio::spawn({
        let transactions = Arc::clone(&transactions);
        async move { transactions.begin(node(2), None, 8).await }
    });
    drop(first);
    let second = tokio::time::timeout(NEVER, second).await.expect("it begins").unwrap().unwrap();
    second.batch_execute("select 1").await.unwrap();
}

#[tokio::test]
async fn a_single_connection_serves_every_purpose() {
    let url = fresh_url();
    let store = PostgresStore::open(&url, Options { connections: 3, ..Options::default() }).await.unwrap();
    let epoch = lead(&store, node(1), "alpha").await;
    store.enqueue(vec![job(1)]).await.unwrap();
    let picks = vec![Pick { job: id(1), fence: Fence(0), node: node(1), limited: false }];
    let batch = BatchId(Uuid::from_u128(1));
    assert_eq!(store.assign(Assign { holder: node(1), epoch, batch, picks }).await.unwrap().len(), 1);
    assert_eq!(store.jobs(Filter::default()).await.unwrap().len(), 1);
    let (app, begun) = (client(&url).await, Instant::now());
    while connections(&app).await > 1 {
        assert!(begun.elapsed() < NEVER, "it has more than one");
    }
}
