//! Stories: what it costs to keep them, and to delete them.

use std::{collections::BTreeSet, time::Duration};

use rusqlite::Connection;
use tempfile::TempDir;
use turnwise_core::{
    Failure, Fence, Incarnation, JobId, JobState, Json, NewJob, NodeName, Serves, TaskName, Terms, Timestamp,
    job::Counts,
    lifecycle::{Clears, End, Ending, Target, Transition},
    node::Host,
    scheduler::Pick,
    story::{Finished, Level, Line, LineAt, Progress},
};
use turnwise_sqlite::{SqliteStore, rusqlite};
use turnwise_store::{
    AskStory, Assign, Author, BatchId, Beat, Epoch, Filter, Join, Note, Options, Settle, Settled, Settlement, Store,
    conformance::StillClock,
};
use uuid::Uuid;

const NODE: Incarnation = Incarnation(Uuid::from_u128(1));
const RETENTION: Duration = Duration::from_secs(60);
/// Jobs are pruned together with all others that ended in the same hour.
const PAST: Duration = Duration::from_secs(3_600 + 60);

/// A node that dispatches for itself, and a second look at its file.
struct Scene {
    _dir: TempDir,
    store: SqliteStore,
    conn: Connection,
    clock: StillClock,
    epoch: Epoch,
}

fn job(n: u64) -> NewJob {
    NewJob::new(JobId::from_parts(n, [0; 10]), TaskName::new("ship").unwrap(), Json::null())
}

/// A job that the node had, and that fails for good.
fn failed(n: u64, noted: bool) -> Settlement {
    Settlement {
        job: job(n).id,
        fence: Fence(1),
        saw_cancel: false,
        to: Transition {
            to: Target::Finish { end: End::Failed, result: None },
            counts: Counts { attempt: 1, ..Counts::default() },
            error: Some(Failure::new("no")),
            ending: Some(Ending::Fail),
            clears: Clears::default(),
        },
        noted,
        started_at: None,
        finished_at: None,
    }
}

async fn scene(retention: Duration) -> Scene {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db");
    let clock = StillClock::default();
    let options = Options { retention: Some(retention.into()), ..Options::default() };
    let store = SqliteStore::open_with_clock(path.to_str().unwrap(), options, clock.clock()).unwrap();
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
    Scene { _dir: dir, store, conn: Connection::open(path).unwrap(), clock, epoch }
}

impl Scene {
    /// Brings jobs into the node's hands.
    async fn hold(&self, numbers: impl IntoIterator<Item = u64>) {
        let jobs: Vec<_> = numbers.into_iter().map(job).collect();
        let picks = jobs.iter().map(|job| Pick { job: job.id, fence: Fence(0), node: NODE, limited: false }).collect();
        self.store.enqueue(jobs).await.unwrap();
        let assign = Assign { holder: NODE, epoch: self.epoch, batch: BatchId(Uuid::nil()), picks };
        self.store.assign(assign).await.unwrap();
    }

    async fn note(&self, n: u64, lines: u32) {
        let line = |number| Line {
            at: LineAt { fence: Fence(1), number },
            time: Timestamp::from_micros(7),
            level: Level::Info,
            text: "so far".to_owned(),
        };
        let note = Note {
            job: job(n).id,
            fence: Fence(1),
            progress: Some(Progress::new(u64::MAX, u64::MAX - 1, "")),
            lines: (0..lines).map(line).collect(),
            trim: false,
            steps: vec![Finished { name: "fetch".to_owned(), result: Json::null() }],
        };
        assert_eq!(self.store.note(NODE, vec![note]).await.unwrap(), [Settled::Applied]);
    }

    /// Ends jobs as failed.
    async fn fail(&self, numbers: impl IntoIterator<Item = u64>, noted: bool) {
        let author = Author::Node { node: NODE, told: None };
        let settlements: Vec<_> = numbers.into_iter().map(|n| failed(n, noted)).collect();
        let all = vec![Settled::Applied; settlements.len()];
        assert_eq!(self.store.settle(Settle { author, settlements, done: vec![] }).await.unwrap(), all);
    }

    /// The rows of all stories.
    fn story_rows(&self) -> i64 {
        let sql = "select (select count(*) from turnwise_attempt) + (select count(*) from turnwise_log)
                        + (select count(*) from turnwise_step) + (select count(*) from turnwise_progress)";
        self.conn.query_row(sql, (), |row| row.get(0)).unwrap()
    }

    async fn kept(&self) -> usize {
        self.store.jobs(Filter { limit: Some(10_000), ..Filter::default() }).await.unwrap().len()
    }
}

#[tokio::test]
async fn terms_that_cannot_be_read_hold_up_no_other_job() {
    let scene = scene(RETENTION).await;
    let mut terms = Terms::default();
    terms.set_timeout(Duration::from_secs(5)).unwrap();
    let jobs = [1, 2].map(|n| NewJob { terms: terms.clone(), ..job(n) });
    scene.store.enqueue(jobs.to_vec()).await.unwrap();
    let spoil = r#"update turnwise_job set terms = '{"of":"tomorrow"}' where id = ?1"#;
    assert_eq!(scene.conn.execute(spoil, [job(1).id.as_bytes()]).unwrap(), 1);
    let seen = scene.store.jobs(Filter::default()).await.unwrap();
    assert_eq!(seen.into_iter().map(|job| job.terms).collect::<Vec<_>>(), [terms, Terms::default()]);
}

#[tokio::test]
async fn a_number_of_any_size_comes_back_as_it_went_in() {
    let scene = scene(RETENTION).await;
    scene.hold([1]).await;
    scene.note(1, 0).await;
    let story = scene.store.story(AskStory { job: job(1).id, after: None, lines: 10 }).await.unwrap();
    assert_eq!(story.progress, Some(Progress::new(u64::MAX, u64::MAX - 1, "")));
}

#[tokio::test]
async fn where_nothing_is_kept_a_job_leaves_no_row_behind() {
    let scene = scene(Duration::ZERO).await;
    scene.hold([1, 2]).await;
    scene.note(1, 3).await;
    assert_eq!(scene.story_rows(), 5);
    scene.fail([1], true).await;
    assert_eq!(scene.story_rows(), 0);
    scene.fail([2], false).await;
    assert_eq!(scene.story_rows(), 0, "not even how its last run failed");
    assert_eq!(scene.kept().await, 0);
}

#[tokio::test]
async fn pruned_jobs_take_their_stories_and_nothing_of_the_others() {
    let scene = scene(RETENTION).await;
    // More than are pruned at once; every third has a story, and every failed one has its attempt.
    scene.hold(0..200).await;
    for n in (0..200).step_by(3) {
        scene.note(n, 2).await;
    }
    let begun = scene.story_rows();
    scene.fail((0..200).filter(|n| n % 2 == 0), true).await;
    assert_eq!(scene.story_rows(), begun + 100);
    scene.clock.advance(PAST);
    assert_eq!(scene.store.prune(None, 1_000).await.unwrap(), 100);
    assert_eq!(scene.kept().await, 100);
    assert_eq!(scene.story_rows(), (0..200).step_by(3).filter(|n| n % 2 == 1).count() as i64 * 4);
    for n in (0..200).step_by(3) {
        let story = scene.store.story(AskStory { job: job(n).id, after: None, lines: 10 }).await.unwrap();
        assert_eq!((story.lines.len(), story.attempts.len()), (if n % 2 == 0 { 0 } else { 2 }, 0), "{n}");
    }
    assert_eq!(scene.store.prune(None, 1_000).await.unwrap(), 0);
}

#[tokio::test]
async fn jobs_with_long_logs_are_pruned_some_at_a_time() {
    let scene = scene(RETENTION).await;
    scene.hold(0..200).await;
    for n in 0..200 {
        scene.note(n, 50).await;
    }
    scene.fail(0..200, true).await;
    scene.clock.advance(PAST);
    let limit = 1_000;
    assert!(scene.store.prune(None, limit).await.unwrap() >= u64::from(limit), "it says that there may be more");
    let left = scene.kept().await;
    assert!(left > 0, "not all lines at once");
    assert_eq!(scene.story_rows(), left as i64 * 53, "jobs that are left still have their whole stories");
    let mut calls = 1;
    while scene.store.prune(None, limit).await.unwrap() > 0 {
        calls += 1;
    }
    assert_eq!((scene.kept().await, scene.story_rows()), (0, 0));
    assert!(calls > 2, "{calls} calls");
}

#[tokio::test]
async fn a_failed_run_is_written_with_the_job_or_not_at_all() {
    let scene = scene(RETENTION).await;
    scene.hold([1]).await;
    let trigger = "create trigger no_end before insert on turnwise_history
                   begin select raise(abort, 'not today'); end";
    scene.conn.execute_batch(trigger).unwrap();
    let author = Author::Node { node: NODE, told: None };
    let error =
        scene.store.settle(Settle { author, settlements: vec![failed(1, true)], done: vec![] }).await.unwrap_err();
    assert!(format!("{error:?}").contains("not today"), "{error:?}");
    assert_eq!(scene.story_rows(), 0);
    let seen = scene.store.job(job(1).id).await.unwrap().unwrap();
    assert_eq!((seen.state, seen.error), (JobState::Scheduled, None));
}
