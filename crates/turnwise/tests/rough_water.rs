//! A fleet on a PostgreSQL that crashes, and beside applications that hold what they should not: what a user sees of it.

mod schema;
use std::{
    collections::HashSet,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use turnwise::{Ctx, Executor, Filter, Job, JobId, JobState, Turnwise, task};
use turnwise_testpg::{Cluster, Pace};

#[task("nothing")]
async fn nothing() {}

/// Goes on until the test opens the gate.
#[task("wait")]
async fn wait(gate: turnwise::State<Gate>, ctx: Ctx) -> &'static str {
    ctx.log("waiting");
    let _ = gate.0.0.subscribe().wait_for(|open| *open).await;
    ctx.log("done");
    "odd"
}

struct Gate(tokio::sync::watch::Sender<bool>);

/// The one gate of a test: held by its executor.
fn gate() -> Arc<Gate> {
    Arc::new(Gate(tokio::sync::watch::Sender::new(false)))
}

async fn start(turnwise: &Turnwise) -> Executor {
    start_with(turnwise, gate()).await
}

async fn start_with(turnwise: &Turnwise, gate: Arc<Gate>) -> Executor {
    let executor = turnwise.executor().unwrap().shared(gate).configure(|config| {
        config.poll_interval = Some(Duration::from_millis(20));
        config.lease = Duration::from_secs(2);
        config.core_pool_size = 4;
        config.await_termination = Duration::from_secs(1);
    });
    let executor = executor.build().unwrap();
    executor.start().await.unwrap();
    executor
}

/// As many jobs of others end soon.
async fn others_go_on(turnwise: &Turnwise, count: u32) {
    let request = |n: u32| nothing.job(()).group(format!("group {}", n % 10));
    let ids = turnwise.submit_all((0..count).map(request)).await.unwrap();
    let (begun, ids) = (Pace::start(), ids.into_iter().collect::<HashSet<_>>());
    // One question for all of them: to ask for each would take longer than their runs.
    let open = vec![JobState::Waiting, JobState::Scheduled, JobState::Running, JobState::Stuck];
    let open = Filter { states: open, limit: Some(10_000), ..Filter::default() };
    while turnwise.jobs(open.clone()).await.unwrap().iter().any(|job| ids.contains(&job.id)) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(2), "{count} jobs of others took {took:?}");
}

/// A plain connection, as an application has one.
async fn application(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// How long it took until all of them had ended.
async fn ended(turnwise: &Turnwise, ids: &[JobId]) -> Duration {
    let begun = Instant::now();
    for id in ids {
        reached(turnwise, *id, |job| job.state.finished()).await;
    }
    begun.elapsed()
}

async fn reached(turnwise: &Turnwise, id: JobId, there: impl Fn(&Job) -> bool) -> Job {
    let begun = Instant::now();
    loop {
        let job = turnwise.job(id).await.unwrap();
        if there(&job) {
            return job;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{} is still {}", job.id, job.state);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_are_acknowledged_after_a_crash_of_the_server_run() {
    let cluster = Cluster::start().unwrap();
    let url = cluster.fresh_database().unwrap();
    let turnwise = schema::open(&url).await;
    let executor = start(&turnwise).await;
    let first = turnwise.submit(nothing.job(())).await.unwrap();
    ended(&turnwise, &[first]).await;
    let app = application(&url).await;
    app.batch_execute("alter system set wal_writer_delay = '10s'").await.unwrap();
    app.batch_execute("create table scrap (n int); checkpoint; select pg_reload_conf()").await.unwrap();
    // Numbers that are not flushed, and are forgotten with the crash, right after the dispatcher has looked.
    let looked = "select coalesce(max(query_start)::text, '') from pg_stat_activity where query like '-- news.sql%'";
    let look = async || app.query_one(looked, &[]).await.unwrap().get::<_, String>(0);
    let mut last = look().await;
    for burnt in 0.. {
        app.batch_execute("begin; insert into scrap values (1); rollback").await.unwrap();
        let now = look().await;
        if std::mem::replace(&mut last, now.clone()) != now && burnt > 100 {
            break;
        }
    }
    let pid: i32 = app.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    while app.query_one("select 1", &[]).await.is_ok() {}
    let mut ids = Vec::new();
    while ids.len() < 20 {
        // While the server recovers, a submit may be refused: then nothing was acknowledged.
        ids.extend(turnwise.submit(nothing.job(())).await);
    }
    ended(&turnwise, &ids).await;
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_job_that_an_application_holds_locked_holds_up_no_other() {
    let url = Cluster::shared().fresh_database().unwrap();
    let turnwise = schema::open(&url).await;
    let locked = turnwise.submit(nothing.job(()).group("locked")).await.unwrap();
    let mut app = application(&url).await;
    let transaction = app.transaction().await.unwrap();
    transaction.execute("select from turnwise.job where id = $1 for update", &[&locked.uuid()]).await.unwrap();
    let executor = start(&turnwise).await;
    others_go_on(&turnwise, 500).await;
    assert_eq!(turnwise.job(locked).await.unwrap().state, JobState::Waiting);
    transaction.rollback().await.unwrap();
    let took = ended(&turnwise, &[locked]).await;
    assert!(took < Duration::from_secs(5), "after its lock was gone it took {took:?}");
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_that_an_application_holds_locked_holds_up_no_other_end() {
    let url = Cluster::shared().fresh_database().unwrap();
    let turnwise = schema::open(&url).await;
    let gate = gate();
    let executor = start_with(&turnwise, gate.clone()).await;
    let locked = turnwise.submit(wait.job(())).await.unwrap();
    reached(&turnwise, locked, |job| job.state == JobState::Running).await;
    let mut app = application(&url).await;
    let transaction = app.transaction().await.unwrap();
    transaction.execute("select from turnwise.job where id = $1 for update", &[&locked.uuid()]).await.unwrap();
    gate.0.send_replace(true);
    others_go_on(&turnwise, 200).await;
    assert_eq!(turnwise.job(locked).await.unwrap().state, JobState::Running);
    transaction.rollback().await.unwrap();
    let took = ended(&turnwise, &[locked]).await;
    assert!(took < Duration::from_secs(5), "after its lock was gone it took {took:?}");
    let story = turnwise.story(locked, 10).await.unwrap();
    let lines: Vec<_> = story.lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(lines, ["waiting", "done"], "what it said meanwhile is not lost");
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_cannot_be_stored_says_so_and_holds_up_no_other() {
    let url = Cluster::shared().fresh_database().unwrap();
    let turnwise = schema::open(&url).await;
    let app = application(&url).await;
    app.batch_execute(
        "create function reject() returns trigger language plpgsql as $$
         begin
             if new.result::text = '\"odd\"' or new.grp = 'never' then
                 raise exception using message = 'too odd', errcode = '23514';
             end if;
             return new;
         end $$;
         create trigger reject before insert on turnwise.history_success_rest for each row execute function reject()",
    )
    .await
    .unwrap();
    let parts = "select format('create trigger reject before insert on %s for each row execute function reject()',
                               inhrelid::regclass)
                   from pg_inherits
                  where inhparent in ('turnwise.history_success'::regclass, 'turnwise.history_failed'::regclass)
                    and inhrelid <> 'turnwise.history_success_rest'::regclass";
    for row in app.query(parts, &[]).await.unwrap() {
        app.batch_execute(row.get(0)).await.unwrap();
    }
    let gate = gate();
    gate.0.send_replace(true);
    let executor = start_with(&turnwise, gate).await;
    let odd = turnwise.submit(wait.job(())).await.unwrap();
    // Not even its failure can be stored.
    let never = turnwise.submit(wait.job(()).group("never")).await.unwrap();
    let job = reached(&turnwise, odd, |job| job.state.finished()).await;
    let error = job.error.unwrap_or_default();
    assert!(
        job.state == JobState::Failed && error.contains("could not be stored") && error.contains("too odd"),
        "{error}"
    );
    for _ in 0..3 {
        others_go_on(&turnwise, 20).await;
    }
    assert!(!turnwise.job(never).await.unwrap().state.finished());
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_end_while_nothing_can_be_said_of_them() {
    let url = Cluster::shared().fresh_database().unwrap();
    let turnwise = schema::open(&url).await;
    let gate = gate();
    gate.0.send_replace(true);
    let executor = start_with(&turnwise, gate).await;
    let mut app = application(&url).await;
    let transaction = app.transaction().await.unwrap();
    transaction.batch_execute("lock table turnwise.log in access exclusive mode").await.unwrap();
    let ids = turnwise.submit_all((0..20).map(|_| wait.job(()))).await.unwrap();
    let took = ended(&turnwise, &ids).await;
    assert!(took < Duration::from_secs(15), "20 jobs that say something took {took:?}");
    transaction.rollback().await.unwrap();
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_said_to_be_with_a_node_and_is_not_goes_back() {
    let url = Cluster::shared().fresh_database().unwrap();
    let turnwise = schema::open(&url).await;
    let gate = gate();
    let executor = start_with(&turnwise, gate.clone()).await;
    let held = turnwise.submit(wait.job(())).await.unwrap();
    reached(&turnwise, held, |job| job.state == JobState::Running).await;
    let stray = turnwise.submit(nothing.job(()).delay(Duration::from_secs(3600))).await.unwrap();
    let app = application(&url).await;
    // A batch that grew after its node had read it.
    app.execute("update turnwise.assignment set jobs = jobs || $1::uuid, limited = limited || false", &[&stray.uuid()])
        .await
        .unwrap();
    let give = "update turnwise.job set state = 1, fence = fence + 1, due_at = submitted_at, assigned_at = now(),
                       node = (select node from turnwise.job where id = $2) where id = $1";
    assert_eq!(app.execute(give, &[&stray.uuid(), &held.uuid()]).await.unwrap(), 1);
    let took = ended(&turnwise, &[stray]).await;
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert_eq!(turnwise.job(held).await.unwrap().state, JobState::Running, "what it has, it keeps");
    gate.0.send_replace(true);
    ended(&turnwise, &[held]).await;
    executor.stop().await;
}

/// As a person sees it who has cancelled the job: the node that is asked to stop it does not have it.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_no_batch_names_goes_back_from_a_living_node_and_from_one_that_is_not_there() {
    let url = Cluster::shared().fresh_database().unwrap();
    let turnwise = schema::open(&url).await;
    let gate = gate();
    let executor = start_with(&turnwise, gate.clone()).await;
    let held = turnwise.submit(wait.job(())).await.unwrap();
    reached(&turnwise, held, |job| job.state == JobState::Running).await;
    let later = || nothing.job(()).delay(Duration::from_secs(3600));
    let mut strays = Vec::new();
    for _ in 0..3 {
        strays.push(turnwise.submit(later()).await.unwrap());
    }
    let app = application(&url).await;
    let here = "(select node from turnwise.job where id = $2)";
    for (stray, node) in strays.iter().zip([here, here, "gen_random_uuid()"]) {
        let give = format!(
            "update turnwise.job set state = 1, fence = fence + 1, due_at = submitted_at, assigned_at = now(), node = {node}
              where id = $1 and $2::uuid is not null"
        );
        assert_eq!(app.execute(&give, &[&stray.uuid(), &held.uuid()]).await.unwrap(), 1);
    }
    turnwise.cancel(strays[0]).await.unwrap();
    let took = ended(&turnwise, &strays).await;
    assert!(took < Duration::from_secs(50), "{took:?}");
    assert_eq!(turnwise.job(strays[0]).await.unwrap().state, JobState::Cancelled);
    assert_eq!(turnwise.job(strays[1]).await.unwrap().state, JobState::Success);
    assert_eq!(turnwise.job(held).await.unwrap().state, JobState::Running, "what it has, it keeps");
    gate.0.send_replace(true);
    ended(&turnwise, &[held]).await;
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doctor_finds_jobs_that_are_said_to_be_in_hands_that_do_not_have_them() {
    let url = Cluster::shared().fresh_database().unwrap();
    let turnwise = schema::open(&url).await;
    let ids = turnwise.submit_all((0..4).map(|_| nothing.job(()))).await.unwrap();
    let app = application(&url).await;
    let found = async || {
        let findings = turnwise.diagnose(1_000).await.unwrap();
        findings.into_iter().find(|found| found.subject == "jobs in hand").unwrap().to_string()
    };
    assert_eq!(found().await, "jobs in hand: each is with the node that is said to have it");
    let node = "'00000000-0000-4000-8000-000000000001'::uuid";
    app.batch_execute(&format!(
        "insert into turnwise.node (incarnation, name, host, slots, queue_capacity, tasks, joined_at, lease_until)
         values ({node}, 'lives', json_build_object('name', 'h', 'boot_id', '', 'pid_namespace', '', 'pid', 1, 'started', 1)::text,
                 1, 0, '{{}}', now(), now() + interval '1 hour')"
    ))
    .await
    .unwrap();
    let give = "update turnwise.job set state = 1, fence = 1, assigned_at = now(), node = $2 where id = $1";
    let (here, nowhere) = (uuid::Uuid::from_u128(0x4000_8000_0000_0000_0001), uuid::Uuid::from_u128(2));
    for (id, node) in ids.iter().zip([here, here, nowhere]) {
        app.execute(give, &[&id.uuid(), &node]).await.unwrap();
    }
    let named =
        format!("insert into turnwise.assignment (node, batch, jobs) values ({node}, $1::uuid, array[$1::uuid])");
    app.execute(&named, &[&ids[0].uuid()]).await.unwrap();
    let found = found().await;
    assert!(found.starts_with("jobs in hand: 2 jobs are said to be in nodes' hands, and are in none; "), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_in_the_hands_of_a_node_that_is_not_there_goes_back() {
    let url = Cluster::shared().fresh_database().unwrap();
    let turnwise = schema::open(&url).await;
    let stray = turnwise.submit(nothing.job(())).await.unwrap();
    let app = application(&url).await;
    let give =
        "update turnwise.job set state = 2, fence = 1, assigned_at = now(), node = gen_random_uuid() where id = $1";
    assert_eq!(app.execute(give, &[&stray.uuid()]).await.unwrap(), 1);
    let executor = start(&turnwise).await;
    let took = ended(&turnwise, &[stray]).await;
    assert!(took < Duration::from_secs(30), "{took:?}");
    executor.stop().await;
}

/// Empties what the migrations fill in, so that a subscription can copy all rows.
const EMPTY: &str = "do $$
    declare name text;
    begin
        for name in select oid::regclass from pg_class where relnamespace = 'turnwise'::regnamespace
                       and relkind in ('r', 'p') and not relispartition loop
            execute format('truncate %s', name);
        end loop;
    end $$";

/// Waits until the query's one value is true.
async fn comes_true(app: &tokio_postgres::Client, sql: &str) {
    let begun = Instant::now();
    while !app.query_one(sql, &[]).await.unwrap().get::<_, bool>(0) {
        assert!(begun.elapsed() < Duration::from_secs(60), "not so yet: {sql}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_database_goes_on_and_so_does_its_logical_replica_when_it_is_promoted() {
    let publishes = Cluster::start_set_up("wal_level = logical", &[]).unwrap();
    let subscribes = Cluster::start_set_up("wal_level = logical", &[]).unwrap();
    let (url, copy) = (publishes.fresh_database().unwrap(), subscribes.fresh_database().unwrap());
    let turnwise = schema::open(&url).await;
    drop(schema::open(&copy).await);
    let (app, replica) = (application(&url).await, application(&copy).await);
    app.batch_execute("create publication jobs for all tables with (publish_via_partition_root = true)").await.unwrap();
    replica.batch_execute(EMPTY).await.unwrap();
    let subscribe = format!("create subscription jobs connection '{url}' publication jobs");
    replica.batch_execute(&subscribe).await.unwrap();
    comes_true(&replica, "select coalesce(bool_and(srsubstate = 'r'), false) from pg_subscription_rel").await;

    let executor = start(&turnwise).await;
    others_go_on(&turnwise, 50).await;
    // Rows of history that change and go, and changes that go.
    let again = turnwise.submit(nothing.job(()).delay(Duration::from_secs(3600))).await.unwrap();
    turnwise.cancel(again).await.unwrap();
    turnwise.retry(again).await.unwrap();
    ended(&turnwise, &[again]).await;
    app.batch_execute("delete from turnwise.change").await.unwrap();
    executor.stop().await;
    let waiting = turnwise.submit_all((0..20).map(|_| nothing.job(()))).await.unwrap();
    drop(turnwise);
    let sent: String = app.query_one("select pg_current_wal_lsn()::text", &[]).await.unwrap().get(0);
    comes_true(&app, &format!("select coalesce(bool_and(replay_lsn >= '{sent}'), false) from pg_stat_replication"))
        .await;

    replica.batch_execute("alter subscription jobs disable").await.unwrap();
    replica.batch_execute("alter subscription jobs set (slot_name = none)").await.unwrap();
    replica.batch_execute("drop subscription jobs").await.unwrap();
    let turnwise = schema::open(&copy).await;
    assert_eq!(turnwise.job(again).await.unwrap().state, JobState::Success, "an end that came after a retry");
    let executor = start(&turnwise).await;
    ended(&turnwise, &waiting).await;
    others_go_on(&turnwise, 50).await;
    executor.stop().await;
}
