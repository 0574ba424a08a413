//! The library as a service uses it, on SQLite and PostgreSQL.

mod schema;
mod wait;

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use turnwise::{
    Cancelled, CancelledAll, Ctx, Error, EventKind, Executor, Filter, Job, JobId, JobRequest, JobState, Outcome,
    Registry, StartError, State, Turnwise, task,
};
use wait::soon;

#[derive(serde::Serialize, serde::Deserialize)]
struct Extract {
    document: u64,
}

#[derive(Debug, Default)]
struct Archive {
    stored: AtomicU32,
}

/// Documents become text.
#[task("extract", retry = "durations:1ms,2ms")]
async fn extract(args: Extract, archive: State<Archive>, ctx: Ctx) -> Result<String, std::io::Error> {
    if ctx.attempt() == 1 && args.document == 13 {
        return Err(std::io::Error::other("unlucky"));
    }
    archive.stored.fetch_add(1, Ordering::SeqCst);
    Ok(format!("text of {}", args.document))
}

#[task("count")]
fn count(upto: u32) -> u32 {
    (1..=upto).sum()
}

#[task("nothing")]
async fn nothing() {}

#[task("snooze")]
async fn snooze(_ctx: Ctx) -> Outcome {
    Outcome::snooze(Duration::from_secs(3600))
}

#[task("wait")]
async fn wait_for_a_cancel(ctx: Ctx) -> anyhow::Result<()> {
    ctx.cancelled().await;
    Ok(())
}

mod twin {
    #[turnwise::task("extract", register = false)]
    pub async fn extract() {}
}

struct Site {
    turnwise: Turnwise,
    executor: Executor,
    _folder: tempfile::TempDir,
}

async fn open(url: &str, folder: tempfile::TempDir) -> Site {
    let turnwise = schema::open(url).await;
    let executor = turnwise.executor().unwrap().state(Archive::default()).build().unwrap();
    executor.start().await.unwrap();
    Site { turnwise, executor, _folder: folder }
}

async fn sqlite() -> Site {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    open(&url, folder).await
}

async fn postgres() -> Site {
    let url = turnwise_testpg::Cluster::shared().fresh_database().unwrap();
    open(&url, tempfile::tempdir().unwrap()).await
}

impl Site {
    async fn ended(&self, id: JobId) -> Job {
        self.reached(id, |job| job.state.finished()).await
    }

    async fn reached(&self, id: JobId, there: impl Fn(&Job) -> bool) -> Job {
        soon(async {
            loop {
                let job = self.turnwise.job(id).await.unwrap();
                if there(&job) {
                    return job;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
    }
}

async fn many_jobs_are_stopped_at_once_and_others_left_alone(site: Site) {
    let runs = site.turnwise.submit(wait_for_a_cancel.job(()).group("acme")).await.unwrap();
    site.reached(runs, |job| job.state == JobState::Running).await;
    let later = |n: u64| count.job(3).group(if n < 5 { "acme" } else { "other" }).delay(Duration::from_secs(3600));
    let ids = site.turnwise.submit_all((0..7).map(later)).await.unwrap();
    let of = |group: &str, limit| Filter { group: Some(group.to_owned()), limit, ..Filter::default() };

    // The newest first.
    let some = site.turnwise.cancel_all(of("acme", Some(2))).await.unwrap();
    assert_eq!((some.at_once, some.requested, some.left, some.more), (2, 0, vec![], true));
    assert_eq!(site.turnwise.job(ids[4]).await.unwrap().state, JobState::Cancelled);
    assert_eq!(site.turnwise.job(ids[2]).await.unwrap().state, JobState::Waiting);

    let rest = site.turnwise.cancel_all(of("acme", None)).await.unwrap();
    assert_eq!((rest.at_once, rest.requested, rest.left, rest.more), (3, 1, vec![], false));
    assert_eq!(site.ended(runs).await.state, JobState::Cancelled);
    assert_eq!(site.turnwise.cancel_all(of("acme", None)).await.unwrap(), CancelledAll::default());

    // States that are ends name no job that could be stopped.
    let ended = Filter { states: vec![JobState::Success], ..of("other", None) };
    assert_eq!(site.turnwise.cancel_all(ended).await.unwrap(), CancelledAll::default());
    for id in &ids[5..] {
        assert_eq!(site.turnwise.job(*id).await.unwrap().state, JobState::Waiting);
    }
    site.executor.stop().await;
}

async fn bulk_calls_know_no_limit_that_was_not_set(site: Site) {
    let requests = (0..2_345).map(|n| JobRequest::new("unknown", &n).group("acme"));
    let ids = site.turnwise.submit_all(requests).await.unwrap();
    let of_acme = || Filter { group: Some("acme".to_owned()), ..Filter::default() };
    let stopped = site.turnwise.cancel_all(of_acme()).await.unwrap();
    assert_eq!((stopped.at_once, stopped.requested, stopped.left), (2_345, 0, vec![]));
    let few = Filter { limit: Some(5), ..of_acme() };
    let five = site.turnwise.retry_all(few).await.unwrap();
    assert_eq!((five.again, five.left, five.more), (5, vec![], true));
    let seen = site.turnwise.job(ids[0]).await.unwrap();
    let rest = site.turnwise.retry_all(of_acme()).await.unwrap();
    assert_eq!((rest.again, rest.left, rest.more), (2_340, vec![], false));
    let changed = site.turnwise.retry_these(&[seen]).await.unwrap();
    assert_eq!((changed.again, changed.left), (0, vec![ids[0]]));
    site.executor.stop().await;
}

async fn the_end_of_a_job_can_be_waited_for(site: Site) {
    let sum = site.turnwise.submit(count.job(4)).await.unwrap();
    let ended = soon(site.turnwise.wait(sum)).await.unwrap();
    assert_eq!((ended.state, ended.result.unwrap().as_str()), (JobState::Success, "10"));
    let waits = site.turnwise.submit(JobRequest::new("unknown", &())).await.unwrap();
    let (waited, _) = tokio::join!(soon(site.turnwise.wait(waits)), site.turnwise.cancel(waits));
    assert_eq!(waited.unwrap().state, JobState::Cancelled);
    let nowhere = JobRequest::new("unknown", &()).job_id().unwrap();
    assert!(matches!(site.turnwise.wait(nowhere).await, Err(Error::NoSuchJob(id)) if id == nowhere));
    site.executor.stop().await;
}

async fn jobs_of_annotated_tasks_run(site: Site) {
    let mut events = site.executor.events();
    let plain = site.turnwise.submit(extract.job(Extract { document: 7 }).group("acme").priority(2)).await.unwrap();
    let unlucky = site.turnwise.submit(extract.job(Extract { document: 13 })).await.unwrap();
    let sum = site.turnwise.submit(count.job(4)).await.unwrap();
    let empty = site.turnwise.submit(nothing.job(())).await.unwrap();
    let plain = site.ended(plain).await;
    assert_eq!((plain.state, plain.group.as_str(), plain.priority.get()), (JobState::Success, "acme", 2));
    assert_eq!(plain.result.unwrap().as_str(), r#""text of 7""#);
    let unlucky = site.ended(unlucky).await;
    assert_eq!(
        (unlucky.state, unlucky.counts.attempt, unlucky.error.as_deref()),
        (JobState::Success, 2, Some("unlucky"))
    );
    assert_eq!(unlucky.retry.map(|retry| retry.to_string()).as_deref(), Some("durations:1ms,2ms"));
    assert_eq!(site.ended(sum).await.result.unwrap().as_str(), "10");
    assert_eq!(site.ended(empty).await.result, None);
    soon(events.wait_for(EventKind::Stuck)).await.unwrap();
    soon(site.executor.drained()).await.unwrap();
    site.executor.stop().await;
}

async fn a_person_decides(site: Site) {
    let turnwise = &site.turnwise;
    let later = turnwise.submit(nothing.job(()).delay(Duration::from_secs(3600))).await.unwrap();
    assert_eq!(turnwise.cancel(later).await.unwrap(), Cancelled::AtOnce);
    assert_eq!(site.ended(later).await.state, JobState::Cancelled);
    assert_eq!(
        turnwise.cancel(later).await.unwrap_err().to_string(),
        "the job cannot be cancelled: it was already cancelled"
    );
    turnwise.retry(later).await.unwrap();
    assert_eq!(site.ended(later).await.state, JobState::Success);

    let running = turnwise.submit(wait_for_a_cancel.job(())).await.unwrap();
    site.reached(running, |job| job.state == JobState::Running).await;
    assert_eq!(turnwise.cancel(running).await.unwrap(), Cancelled::Requested);
    assert_eq!(site.ended(running).await.state, JobState::Cancelled);

    let broken = turnwise
        .submit(JobRequest::from_json("count", "\"no number\"").retry("manual".parse().unwrap()))
        .await
        .unwrap();
    assert_eq!(site.ended(broken).await.state, JobState::Failed, "arguments that cannot be read fail for good");
    let snoozing = turnwise.submit(snooze.job(())).await.unwrap();
    let snoozing = site.reached(snoozing, |job| job.started_at.is_some() && job.state == JobState::Waiting).await;
    assert_eq!(snoozing.counts.attempt, 0);
    site.executor.stop().await;
}

macro_rules! on_both {
    ($($promise:ident),* $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread")] async fn $promise() { super::$promise(super::sqlite().await).await })*
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread")] async fn $promise() { super::$promise(super::postgres().await).await })*
        }
    };
}

on_both!(
    jobs_of_annotated_tasks_run,
    a_person_decides,
    many_jobs_are_stopped_at_once_and_others_left_alone,
    bulk_calls_know_no_limit_that_was_not_set,
    the_end_of_a_job_can_be_waited_for,
);

#[tokio::test]
async fn two_tasks_of_one_name_are_an_error_at_start() {
    let mut registry = Registry::annotated().unwrap();
    let error = registry.register(twin::extract).unwrap_err();
    assert_eq!(error.to_string(), r#"two tasks are named "extract"; give one of them another name"#);
}

#[tokio::test]
async fn an_executor_does_not_start_without_the_state_its_tasks_need() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    let error = turnwise.executor().unwrap().build().unwrap_err();
    assert!(matches!(&error, StartError::MissingState { task, .. } if task == "extract"), "{error}");
    assert!(error.to_string().contains("Archive"), "{error}");
}

#[tokio::test]
async fn bad_input_is_refused_with_its_field_and_nothing_is_stored() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    for (request, field) in [
        (nothing.job(()).group(""), "group: "),
        (nothing.job(()).queue("a\nb"), "queue: "),
        (nothing.job(()).priority(11), "priority: "),
        (JobRequest::from_json("t", "{"), "args: "),
        (JobRequest::new("", &1), "task: "),
    ] {
        let good = nothing.job(());
        let error = turnwise.submit_all([good, request]).await.unwrap_err().to_string();
        assert!(error.starts_with(field), "{error}");
    }
    assert!(turnwise.jobs(Filter::default()).await.unwrap().is_empty());
    assert!(Turnwise::open("mysql://x").await.unwrap_err().to_string().starts_with("database: "));
}
