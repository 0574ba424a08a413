//! A fleet on a PostgreSQL that crashes, and beside applications that hold what they should not: what a user sees of it.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use turnwise::{Ctx, Executor, Job, JobId, Turnwise, core::State, task};
use turnwise_testpg::Cluster;

#[task("nothing")]
async fn nothing() {}

#[task("hold")]
async fn hold(ctx: Ctx) {
    ctx.cancelled().await;
}

async fn start(turnwise: &Turnwise) -> Executor {
    let quick = Duration::from_millis(20);
    let executor = turnwise.executor().unwrap().configure(|config| config.poll_interval = quick).build().unwrap();
    executor.start().await.unwrap();
    executor
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
    let turnwise = Turnwise::open(&url).await.unwrap();
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
async fn a_waiting_job_that_an_application_holds_locked_holds_up_nobody_else() {
    let url = Cluster::shared().fresh_database().unwrap();
    let turnwise = Turnwise::open(&url).await.unwrap();
    let locked = turnwise.submit(nothing.job(()).group("locked")).await.unwrap();
    let mut app = application(&url).await;
    let transaction = app.transaction().await.unwrap();
    transaction.execute("select from turnwise.job where id = $1 for update", &[&locked.0]).await.unwrap();
    let executor = start(&turnwise).await;
    let request = |n: u32| nothing.job(()).group(format!("group {}", n % 10));
    let ids = turnwise.submit_all((0..500).map(request)).await.unwrap();
    let took = ended(&turnwise, &ids).await;
    assert!(took < Duration::from_secs(5), "500 jobs of others took {took:?}");
    assert_eq!(turnwise.job(locked).await.unwrap().state, State::Waiting);
    transaction.rollback().await.unwrap();
    let took = ended(&turnwise, &[locked]).await;
    assert!(took < Duration::from_secs(5), "after its lock was gone it took {took:?}");
    executor.stop().await;
}
