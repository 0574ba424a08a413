//! Settings of a handle, versions, and counts that do not walk all jobs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use turnwise::{
    Config, Error, JobRequest, QueueName, StoreError, Submitted, Turnwise,
    overview::{Overview, QueueState},
    store::{Load, MemoryStore, NewJob, Page, Store},
};
use turnwise_store::delegate::Delegate;

/// Stores what it is sent and loses its first replies.
#[derive(Debug)]
struct Lossy {
    inner: Arc<dyn Store>,
    lost: u32,
    asked: AtomicU32,
}

#[async_trait::async_trait]
impl Delegate for Lossy {
    fn inner(&self) -> Arc<dyn Store> {
        self.inner.clone()
    }

    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Submitted>, StoreError> {
        let stored = self.inner.enqueue(jobs).await?;
        if self.asked.fetch_add(1, Ordering::SeqCst) < self.lost {
            return Err(StoreError::transient("enqueue", "the reply is lost"));
        }
        Ok(stored)
    }
}

/// A submit of which this many replies are lost: whether it was answered, how often it was sent, and how long that took.
async fn submitted(budget: Option<Duration>, lost: u32) -> (bool, u32, Duration) {
    let store = Arc::new(Lossy { inner: Arc::new(MemoryStore::default()), lost, asked: AtomicU32::new(0) });
    let turnwise = Turnwise::on(store.clone());
    let turnwise = match budget {
        Some(budget) => turnwise.repeat_submits_for(budget),
        None => turnwise,
    };
    let began = Instant::now();
    let answer = turnwise.submit(JobRequest::new("t", &())).await;
    if let Err(error) = &answer {
        assert!(matches!(error, Error::Store(error) if error.is_transient()), "{error}");
    }
    assert_eq!(turnwise.jobs(Default::default()).await.unwrap().len(), 1, "it is stored once");
    (answer.is_ok(), store.asked.load(Ordering::SeqCst), began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_submit_is_repeated_for_as_long_as_its_handle_says() {
    let ms = Duration::from_millis;
    assert_eq!(submitted(None, 4).await, (true, 5, ms(750)));
    assert_eq!(submitted(None, 1000).await, (false, 5, ms(750)), "the next would be after more than a second");
    assert_eq!(submitted(Some(Duration::ZERO), 1).await, (false, 1, ms(0)));
    let (answered, asked, took) = submitted(Some(Duration::from_secs(30)), 20).await;
    assert_eq!((answered, asked), (true, 21));
    assert_eq!(took, ms(50 + 100 + 200 + 400 + 800) + Duration::from_secs(15), "at last once a second");
    let (answered, _, took) = submitted(Some(Duration::from_secs(30)), 1000).await;
    assert!(!answered && took > Duration::from_secs(29) && took <= Duration::from_secs(30), "{took:?}");
    assert!(submitted(Some(Duration::MAX), 100).await.0, "for ever");
}

#[tokio::test]
async fn versions_are_told() {
    assert_eq!(turnwise::VERSION, env!("CARGO_PKG_VERSION"));
    assert_eq!(Turnwise::open("memory:").await.unwrap().schema_version(), None);
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let version = Turnwise::open(&url).await.unwrap().schema_version().unwrap();
    let file = turnwise::rusqlite::Connection::open(folder.path().join("jobs.db")).unwrap();
    let stored: u32 = file.query_row("select max(version) from turnwise_migration", [], |row| row.get(0)).unwrap();
    assert_eq!(version, stored);
}

#[tokio::test]
async fn a_bounded_count_says_that_there_are_more() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    let queue = |name: &str| QueueName::new(name).unwrap();
    let jobs = |name: &'static str, count| (0..count).map(move |n| JobRequest::new("t", &n).queue(name));
    turnwise.submit_all(jobs("early", 5).chain(jobs("late", 3))).await.unwrap();
    turnwise
        .set_queue("late", |set| {
            (set.sealed, set.quiet) = (Some(turnwise::Timestamp::MIN), Some(turnwise::Timestamp::MIN));
        })
        .await
        .unwrap();
    let waiting = |overview: &Overview, name| overview.queues.get(&queue(name)).map(|queue| queue.jobs.waiting);
    for (most, early, late, more) in [
        (4, Some(4), Some(0), true),
        (7, Some(5), Some(2), true),
        (8, Some(5), Some(3), false),
        (9, Some(5), Some(3), false),
    ] {
        let overview = turnwise.overview_within(most).await.unwrap();
        assert_eq!(
            (waiting(&overview, "early"), waiting(&overview, "late"), overview.more),
            (early, late, more),
            "{most}"
        );
        assert_ne!(overview.state(&queue("late")), QueueState::Finished, "{most}: it has jobs, counted or not");
    }
    let all = turnwise.overview().await.unwrap();
    assert_eq!((waiting(&all, "late"), all.more), (Some(3), false));
}

/// The dispatcher is asked for what one page of jobs does not show.
#[tokio::test]
async fn a_count_of_many_jobs_is_the_dispatchers() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    let queue = |name: &str| QueueName::new(name).unwrap();
    let jobs = |name: &'static str, group: &'static str, count| {
        (0..count).map(move |n| JobRequest::new("t", &n).queue(name).group(group))
    };
    turnwise.submit_all(jobs("early", "a", 5).chain(jobs("late", "b", 3))).await.unwrap();
    let alone = turnwise.overview_by_dispatcher(4).await.unwrap();
    assert_eq!((alone.all.waiting, alone.more), (4, true), "no node dispatches: it is counted here");
    // A node that knows no task: everything waits.
    let node = turnwise.executor_with(Config::new("a".parse().unwrap())).build().unwrap();
    node.start().await.unwrap();
    let told = loop {
        let told = turnwise.overview_by_dispatcher(4).await.unwrap();
        if !told.more {
            break told;
        }
    };
    assert_eq!((told.all.waiting, told.all.jobs(), told.groups_in_all), (8, 8, 2));
    let waiting = |name| told.queues.get(&queue(name)).map(|queue| queue.jobs.waiting);
    assert_eq!((waiting("early"), waiting("late")), (Some(5), Some(3)));
    let groups: Vec<_> = told.groups.values().map(|group| (group.jobs.waiting, group.at_least)).collect();
    assert_eq!(groups, [(5, false), (3, false)]);
    assert!(told.counted_at <= told.now && !told.is_partial());
    let looked = turnwise.overview_by_dispatcher(100).await.unwrap();
    assert_eq!((looked.all, looked.counted_at), (told.all, looked.now), "few are counted now");
    node.stop().await;
}

/// Takes no job, and says nothing else either.
#[derive(Debug)]
struct Full(Arc<dyn Store>);

#[async_trait::async_trait]
impl Delegate for Full {
    fn inner(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    async fn enqueue(&self, _: Vec<NewJob>) -> Result<Vec<Submitted>, StoreError> {
        Err(StoreError::Refused("it is full".to_owned()))
    }

    async fn load(&self, _: Load) -> Result<Page, StoreError> {
        Err(StoreError::Refused("permission denied".to_owned()))
    }
}

#[tokio::test]
async fn a_refused_submit_returns_the_refusal_also_where_the_time_cannot_be_read() {
    let turnwise = Turnwise::on(Arc::new(Full(Arc::new(MemoryStore::default()))));
    let id: turnwise::JobId = "01890000-0000-7000-8000-000000000000".parse().unwrap();
    for request in [JobRequest::new("t", &()), JobRequest::new("t", &()).id(id)] {
        let refused = turnwise.submit(request).await.unwrap_err();
        assert!(matches!(&refused, Error::Store(StoreError::Refused(text)) if text == "it is full"), "{refused:?}");
    }
}
