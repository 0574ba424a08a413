//! What a task hands over for its end: its failure harms no other caller, and no other caller's failure harms it.

use std::{collections::BTreeSet, time::Duration};

use rusqlite::Connection;
use tempfile::TempDir;
use turnwise_core::{
    Fence, Incarnation, JobId, JobState, Json, NewJob, NodeName, Serves, TaskName,
    job::Counts,
    lifecycle::{Clears, End, Target, Transition},
    node::Host,
    scheduler::Pick,
};
use turnwise_sqlite::{AtEnd, SqliteStore, rusqlite};
use turnwise_store::{Assign, BatchId, Beat, Closed, Closing, Join, Last, Settlement, Store};
use uuid::Uuid;

const NODE: Incarnation = Incarnation(Uuid::from_u128(1));

/// A node with job 1 in its hands, and another connection that has the file open.
struct Scene {
    dir: TempDir,
    store: SqliteStore,
    other: Connection,
}

fn job(n: u64) -> NewJob {
    NewJob::new(JobId::from_parts(n, [0; 10]), TaskName::new("ship").unwrap(), Json::null())
}

async fn scene(settings: &str) -> Scene {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db");
    let store = SqliteStore::open(&format!("sqlite:{}{settings}", path.display()), Default::default()).unwrap();
    let lease = Duration::from_secs(3_600);
    let join = Join {
        incarnation: NODE,
        name: NodeName::new("alpha").unwrap(),
        host: Host {
            name: "h".into(),
            boot_id: "b".into(),
            pid_namespace: "n".into(),
            pid: 1,
            started: 1,
            version: None,
        },
        slots: 4,
        queue_capacity: 100,
        batch_size: None,
        queues: Serves::All,
        tasks: BTreeSet::from([TaskName::new("ship").unwrap()]),
        lease,
        replace: None,
        worker: None,
    };
    store.join(join).await.unwrap();
    let epoch = store.beat(Beat::new(NODE, lease, 4, true)).await.unwrap().epoch.unwrap();
    store.enqueue(vec![job(1)]).await.unwrap();
    let picks = vec![Pick { job: job(1).id, fence: Fence(0), node: NODE, limited: false }];
    store.assign(Assign { holder: NODE, epoch, batch: BatchId(Uuid::nil()), picks }).await.unwrap();
    let other = Connection::open(path).unwrap();
    other.execute_batch("create table book (line text)").unwrap();
    Scene { dir, store, other }
}

impl Scene {
    /// Job 1 ends well, and does this.
    async fn end(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<()> + Send + 'static) -> Closed {
        self.end_within(None, work).await
    }

    async fn end_within(
        &self,
        limit: Option<Duration>,
        work: impl FnOnce(&Connection) -> rusqlite::Result<()> + Send + 'static,
    ) -> Closed {
        let settlement = Settlement {
            job: job(1).id,
            fence: Fence(1),
            saw_cancel: false,
            to: Transition {
                to: Target::Finish { end: End::Success, result: None },
                counts: Counts { attempt: 1, ..Counts::default() },
                error: None,
                ending: None,
                clears: Clears::default(),
            },
            noted: false,
            started_at: None,
            finished_at: None,
        };
        let work = move |conn: &Connection, _| {
            conn.execute("insert into book values ('paid')", ())?;
            Ok(work(conn)?)
        };
        let closing = Box::new(AtEnd::new(self.store.clone(), None, work).within(limit));
        closing.settle(Last { node: NODE, told: None, settlement, note: None }).await
    }

    async fn state(&self) -> JobState {
        self.store.job(job(1).id).await.unwrap().unwrap().state
    }

    fn lines(&self) -> u32 {
        self.other.query_row("select count(*) from book", (), |row| row.get(0)).unwrap()
    }
}

#[tokio::test]
async fn what_is_refused_at_the_commit_is_refused_to_the_task_alone() {
    let scene = scene("").await;
    let tables = "create table account (id integer primary key);
        create table entry (account integer references account deferrable initially deferred);";
    scene.other.execute_batch(tables).unwrap();
    // All stand in line before anything is committed.
    scene.other.execute_batch("begin immediate").unwrap();
    let (first, before, closed, after, ()) = tokio::join!(
        scene.store.enqueue(vec![job(2)]),
        scene.store.enqueue(vec![job(3)]),
        scene.end(|conn| conn.execute("insert into entry values (7)", ()).map(drop)),
        scene.store.enqueue(vec![job(4)]),
        async { scene.other.execute_batch("commit").unwrap() },
    );
    assert!(matches!(&closed, Closed::Failed(error) if error.to_string().contains("FOREIGN KEY")), "{closed:?}");
    assert!(first.unwrap()[0].new && before.unwrap()[0].new && after.unwrap()[0].new);
    assert!(scene.state().await.assigned() && scene.lines() == 0);
}

#[tokio::test]
async fn an_end_waits_for_the_lock_of_another_process_as_long_as_it_takes() {
    let scene = scene("?busy_timeout=1ms").await;
    scene.other.execute_batch("begin immediate").unwrap();
    let (closed, ()) = tokio::join!(scene.end(|_| Ok(())), async {
        // It stands behind the end: when it is refused the lock, the end has been refused as well.
        let refused = scene.store.enqueue(vec![job(2)]).await.unwrap_err();
        assert!(refused.is_transient(), "{refused}");
        scene.other.execute_batch("commit").unwrap();
    });
    assert!(matches!(closed, Closed::Committed), "{closed:?}");
    assert_eq!((scene.state().await, scene.lines()), (JobState::Success, 1));
}

#[tokio::test]
async fn a_commit_that_is_not_possible_now_is_no_failure_of_the_task() {
    let scene = scene("?busy_timeout=1ms").await;
    // A file without a WAL cannot be written while another connection reads it; that is found out at the commit.
    let path = scene.dir.path().join("copy.db");
    let copy = Connection::open(&path).unwrap();
    copy.execute_batch("create table copy (n); begin; select * from copy;").unwrap();
    let path = path.to_str().unwrap().to_owned();
    let closed = scene.end(move |conn| {
        conn.execute("attach ?1 as elsewhere", [path])?;
        conn.execute("insert into elsewhere.copy values (1)", ()).map(drop)
    });
    let closed = closed.await;
    assert!(matches!(closed, Closed::NotNow(_)), "{closed:?}");
    assert!(scene.state().await.assigned() && scene.lines() == 0);
}

#[tokio::test]
async fn a_task_that_ends_the_transaction_itself_is_told_so() {
    let scene = scene("").await;
    let closed = scene.end(|conn| conn.execute_batch("rollback")).await;
    assert!(matches!(&closed, Closed::Failed(error) if error.to_string().contains("transaction")), "{closed:?}");
    assert!(scene.state().await.assigned() && scene.lines() == 0);
}

/// They go on for ever, reading and in a statement that writes.
const ENDLESS: [&str; 2] = [
    "with recursive n (i) as (select 1 union all select i + 1 from n) select count(*) from n",
    "insert into book with recursive n (i) as (select 1 union all select i + 1 from n) select i from n where i < 0",
];

#[tokio::test]
async fn an_end_that_takes_too_long_is_interrupted_and_leaves_nothing() {
    let limit = Duration::from_millis(50);
    for (endless, minds) in [(ENDLESS[0], true), (ENDLESS[0], false), (ENDLESS[1], true), (ENDLESS[1], false)] {
        let scene = scene("").await;
        let work = move |conn: &Connection| {
            let done = conn.query_row(endless, (), |_| Ok(()));
            if minds { done } else { Ok(()) }
        };
        let closed = scene.end_within(Some(limit), work).await;
        assert!(matches!(closed, Closed::TimedOut { limit: found } if found == limit), "{endless} {minds}: {closed:?}");
        assert!(scene.state().await.assigned() && scene.lines() == 0, "{endless} {minds}");
        // The next request is not interrupted.
        assert!(scene.store.enqueue(vec![job(2)]).await.unwrap()[0].new);
        assert!(matches!(scene.end_within(Some(limit * 1_000), |_| Ok(())).await, Closed::Committed));
        assert_eq!((scene.state().await, scene.lines()), (JobState::Success, 1));
    }
}
