//! Pools and pushing as a service uses them, on SQLite and PostgreSQL; no node here ever polls.

mod schema;
mod wait;

use std::time::Duration;

use turnwise::{Builder, Config, Ctx, Event, EventKind, JobRequest, NodeName, Registry, State, Turnwise, Tx, task};
use wait::soon;

const NEVER: Duration = Duration::from_secs(3600);

/// Where this runs: the node and the thread.
fn place(ctx: &Ctx) -> String {
    format!("{} {}", ctx.node(), std::thread::current().name().unwrap_or_default())
}

#[task("look", register = false)]
async fn look(ctx: Ctx) -> String {
    place(&ctx)
}

#[task("look_blocking", register = false)]
fn look_blocking(ctx: Ctx) -> String {
    place(&ctx)
}

/// A way to store a job without a ring.
enum Backdoor {
    Sqlite(std::path::PathBuf),
    Postgres(tokio_postgres::Client),
}

/// Holds its transaction until the other pool's has one too.
#[task("meet", register = false)]
async fn meet(tx: &Tx, meeting: State<tokio::sync::Barrier>) -> anyhow::Result<()> {
    tx.execute("select 1", &[]).await?;
    meeting.wait().await;
    Ok(())
}

#[task("whisper", register = false)]
async fn whisper(door: State<Backdoor>) {
    match &*door {
        Backdoor::Sqlite(path) => {
            let connection = turnwise::rusqlite::Connection::open(path).unwrap();
            JobRequest::from_json("look", "null").submit_in_sqlite(&connection).unwrap();
        }
        Backdoor::Postgres(client) => {
            let by_hand = "insert into turnwise.job (id, task, args, queue, grp, priority, due_at, retry)
                           values (gen_random_uuid(), 'look', 'null', 'default', 'g', 5, turnwise.now(), 'none')";
            client.execute(by_hand, &[]).await.unwrap();
        }
    }
}

fn node(turnwise: &Turnwise, door: Backdoor) -> Builder {
    let mut registry = Registry::new();
    registry.register(look).unwrap().register(look_blocking).unwrap().register(whisper).unwrap();
    let config = Config { poll_interval: Some(NEVER), ..Config::new(NodeName::new("a").unwrap()) };
    turnwise.executor_with(config).registry(registry).state(door)
}

async fn sqlite(folder: &tempfile::TempDir) -> (Turnwise, Backdoor) {
    let path = folder.path().join("jobs.db");
    (Turnwise::open(&format!("sqlite:{}", path.display())).await.unwrap(), Backdoor::Sqlite(path))
}

async fn postgres() -> (Turnwise, Backdoor) {
    let url = turnwise_testpg::Cluster::shared().fresh_database().unwrap();
    let turnwise = schema::open(&url).await;
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    (turnwise, Backdoor::Postgres(client))
}

/// Submits to a node with pools that never polls, and waits until it is idle again.
async fn submits_start_right_after_their_commit((turnwise, door): (Turnwise, Backdoor)) {
    let builder = node(&turnwise, door).pool("mail", |pool| pool.queues(["mail"]).core_pool_size(2));
    let executor = builder.configure(|config| config.thread_name_prefix = Some("own-".to_owned())).build().unwrap();
    let mut events = executor.events();
    soon(executor.start()).await.unwrap();
    soon(events.wait_for(EventKind::Idle)).await.unwrap();
    for (queue, node, prefix) in [("default", "a", "own-"), ("mail", "a/mail", "mail-")] {
        for task in ["look", "look_blocking"] {
            let id = turnwise.submit(JobRequest::from_json(task, "null").queue(queue)).await.unwrap();
            let mut ended = false;
            loop {
                match soon(events.next()).await.unwrap() {
                    Event::Success(job) if job.id == id => ended = true,
                    Event::Idle if ended => break,
                    Event::Started(_) | Event::Idle => {}
                    other => panic!("{other:?}"),
                }
            }
            let place = turnwise.job(id).await.unwrap().result.unwrap();
            assert!(place.as_str().starts_with(&format!("\"{node} {prefix}")), "{queue} {task}: {place:?}");
        }
    }
    let fleet = turnwise.nodes().await.unwrap().nodes;
    assert_eq!(fleet.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["a", "a/mail"]);
    soon(executor.stop()).await;
    assert!(turnwise.nodes().await.unwrap().nodes.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submit_starts_right_after_its_commit_in_the_pool_of_its_queue_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    submits_start_right_after_their_commit(sqlite(&folder).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submit_starts_right_after_its_commit_in_the_pool_of_its_queue_on_postgres() {
    submits_start_right_after_their_commit(postgres().await).await;
}

async fn whispers_are_found((turnwise, door): (Turnwise, Backdoor)) {
    let executor = node(&turnwise, door).build().unwrap();
    let mut events = executor.events();
    soon(executor.start()).await.unwrap();
    soon(events.wait_for(EventKind::Idle)).await.unwrap();
    turnwise.submit(JobRequest::from_json("whisper", "null")).await.unwrap();
    for _ in 0..2 {
        soon(events.wait_for(EventKind::Success)).await.unwrap();
    }
    soon(executor.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_no_bell_told_of_is_found_when_nothing_else_is_left_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    whispers_are_found(sqlite(&folder).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_no_bell_told_of_is_found_when_nothing_else_is_left_on_postgres() {
    whispers_are_found(postgres().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_pool_has_as_many_transactions_as_slots() {
    let (turnwise, _) = postgres().await;
    let mut registry = Registry::new();
    registry.register(meet).unwrap();
    let config = Config { poll_interval: Some(NEVER), core_pool_size: 1, ..Config::new(NodeName::new("a").unwrap()) };
    let builder = turnwise.executor_with(config).registry(registry).state(tokio::sync::Barrier::new(3));
    let executor = builder.pool("mail", |pool| pool.queues(["mail"]).core_pool_size(2)).build().unwrap();
    let mut events = executor.events();
    soon(executor.start()).await.unwrap();
    let queues = ["default", "mail", "mail"];
    turnwise.submit_all(queues.map(|queue| JobRequest::from_json("meet", "null").queue(queue))).await.unwrap();
    for _ in queues {
        let event = soon(events.wait_for(EventKind::Success)).await.unwrap();
        assert_eq!(event.job().map(|job| job.attempt), Some(1));
    }
    soon(executor.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_found_whose_submitter_could_not_know_that_the_dispatcher_would_sleep() {
    let (turnwise, door) = postgres().await;
    let Backdoor::Postgres(client) = &door else { unreachable!() };
    // No node dispatches yet, so no dispatcher is asleep: the submitter does not ring.
    client.batch_execute("begin; select turnwise.enqueue('look')").await.unwrap();
    let nowhere = Backdoor::Sqlite(std::path::PathBuf::new());
    let executor = node(&turnwise, nowhere).build().unwrap();
    let mut events = executor.events();
    soon(executor.start()).await.unwrap();
    soon(events.wait_for(EventKind::Idle)).await.unwrap();
    client.batch_execute("commit").await.unwrap();
    soon(events.wait_for(EventKind::Success)).await.unwrap();
    soon(executor.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_pools_share_the_connections_of_their_process() {
    let (turnwise, door) = postgres().await;
    let Backdoor::Postgres(client) = door else { unreachable!() };
    // All but the one that counts, and the server's own.
    let count = async |client: &tokio_postgres::Client| -> i64 {
        let sql = "select count(*) from pg_stat_activity
                    where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()";
        client.query_one(sql, &[]).await.unwrap().get(0)
    };
    // The server takes a moment to end the connection by which the schema was made.
    soon(async {
        while count(&client).await > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let mut builder = node(&turnwise, Backdoor::Sqlite(folder.path().to_owned()));
    for n in 0..8 {
        builder = builder.pool(format!("p{n}"), |pool| pool.queues([format!("q{n}")]).core_pool_size(1));
    }
    let executor = builder.build().unwrap();
    soon(executor.start()).await.unwrap();
    let mut most = 0;
    for _ in 0..20 {
        // As many callers at once as would take a connection each.
        let mut callers = tokio::task::JoinSet::new();
        for n in 0..30 {
            let turnwise = turnwise.clone();
            callers.spawn(async move {
                let request = JobRequest::from_json("look", "null").queue(format!("q{}", n % 8));
                let id = turnwise.submit(request).await.unwrap();
                turnwise.jobs(turnwise::Filter::default()).await.unwrap();
                id
            });
        }
        most = most.max(count(&client).await);
        while callers.join_next().await.is_some() {
            most = most.max(count(&client).await);
        }
    }
    soon(executor.drained()).await.unwrap();
    let most = most.max(count(&client).await);
    assert!((4..=10).contains(&most), "{most} connections for nine pools and thirty callers");
    soon(executor.stop()).await;
}
