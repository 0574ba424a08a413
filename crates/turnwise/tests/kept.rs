//! The view that a server keeps between two questions says what a fresh one says.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Notify, Semaphore};
use turnwise::{
    Config, Ctx, JobId, JobRequest, JobState, Outcome, Registry, StoreError, Task, Turnwise,
    store::{Load, MemoryStore, Page, Store},
    view::{Answer, Asked, KeptView},
};
use turnwise_store::delegate::Delegate;

/// Runs until it is let through.
struct Gate;
impl Task for Gate {
    type Args = u32;
    const NAME: &'static str = "gate";
    async fn run(&self, ctx: Ctx, _: u32) -> Outcome {
        ctx.state::<Semaphore>().unwrap().acquire().await.unwrap().forget();
        Outcome::done()
    }
}

async fn asked(view: &KeptView, id: JobId) -> Answer {
    let Asked::Answered(answer) = view.why(id).await.unwrap() else { panic!("no other caller has the view built") };
    *answer
}

/// Both views about this job, as far as time does not change it.
async fn same(turnwise: &Turnwise, view: &KeptView, id: JobId) -> (Vec<String>, Option<usize>) {
    let told = |answer: Answer| {
        let why = answer.why.expect("it has not ended");
        let gates: Vec<_> = why.gates.iter().map(|gate| format!("{gate:?}")).collect();
        (gates, why.forecast.map(|forecast| forecast.before), answer.job.state)
    };
    let (kept, fresh) = (told(asked(view, id).await), told(turnwise.why(id).await.unwrap()));
    assert_eq!(kept, fresh);
    (kept.0, kept.1)
}

#[tokio::test]
async fn a_kept_view_says_what_a_fresh_one_says_whatever_happens_between_two_questions() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let mut registry = Registry::new();
    registry.register(Gate).unwrap();
    let mut config = Config::new("a".parse().unwrap());
    (config.core_pool_size, config.queue_capacity) = (1, 0);
    let node = turnwise.executor_with(config).registry(registry).shared(gate.clone()).build().unwrap();
    node.start().await.unwrap();
    let view = KeptView::new(turnwise.clone());
    let mut ids = Vec::new();
    for n in 0..8_u32 {
        ids.push(turnwise.submit(JobRequest::new("gate", &n)).await.unwrap());
    }
    let running = async |id: JobId| {
        while turnwise.job(id).await.unwrap().state != JobState::Running {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    running(ids[0]).await;
    let (gates, before) = same(&turnwise, &view, ids[7]).await;
    assert_eq!((gates.len(), before), (1, Some(6)), "the slot is busy: {gates:?}");
    // Two runs end and one begins, and the view heard of neither beginning nor end of the middle one.
    gate.add_permits(2);
    running(ids[2]).await;
    assert_eq!(same(&turnwise, &view, ids[7]).await.1, Some(4));
    // People decide and set something; jobs come.
    turnwise.cancel(ids[4]).await.unwrap();
    let later = turnwise.submit(JobRequest::new("gate", &9)).await.unwrap();
    assert_eq!(same(&turnwise, &view, later).await.1, Some(4));
    turnwise.pause_group("default", None).await.unwrap();
    let (gates, _) = same(&turnwise, &view, ids[7]).await;
    assert!(gates.iter().any(|gate| gate.contains("Paused")), "{gates:?}");
    turnwise.resume_group("default").await.unwrap();
    let ended = asked(&view, ids[0]).await;
    assert!(ended.why.is_none() && ended.job.state == JobState::Success);
    // The node goes, and what it had comes back.
    gate.add_permits(1);
    node.stop().await;
    let (gates, before) = same(&turnwise, &view, ids[7]).await;
    assert!(gates.iter().any(|gate| gate.contains("NoLiveNode")) && before.is_none(), "{gates:?}");
}

#[tokio::test(start_paused = true)]
async fn a_view_that_nobody_asks_is_dropped_after_a_minute() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    let id = turnwise.submit(JobRequest::new("t", &())).await.unwrap();
    let view = KeptView::new(turnwise);
    assert!(!view.is_kept().await, "nobody has asked");
    for _ in 0..3 {
        asked(&view, id).await;
        tokio::time::sleep(Duration::from_secs(50)).await;
        assert!(view.is_kept().await);
    }
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(!view.is_kept().await);
    asked(&view, id).await;
    assert!(view.is_kept().await, "it is built again when it is asked for");
}

/// Holds up who reads the backlog, and counts how often it is read.
#[derive(Debug)]
struct Slow {
    inner: Arc<dyn Store>,
    holds: AtomicBool,
    go: Notify,
    reads: AtomicUsize,
}

#[async_trait::async_trait]
impl Delegate for Slow {
    fn inner(&self) -> Arc<dyn Store> {
        self.inner.clone()
    }

    async fn load(&self, load: Load) -> Result<Page, StoreError> {
        if matches!(load, Load::After { .. }) {
            self.reads.fetch_add(1, Ordering::SeqCst);
            if self.holds.load(Ordering::SeqCst) {
                self.go.notified().await;
            }
        }
        self.inner.load(load).await
    }
}

#[tokio::test]
async fn while_the_view_is_built_for_one_caller_the_others_are_told_so() {
    let memory = MemoryStore::default();
    let slow =
        Arc::new(Slow { inner: Arc::new(memory.clone()), holds: true.into(), go: Notify::new(), reads: 0.into() });
    let turnwise = Turnwise::on(slow.clone()).with_operators(Arc::new(memory));
    let id = turnwise.submit(JobRequest::new("t", &())).await.unwrap();
    let view = Arc::new(KeptView::new(turnwise.clone()));
    let first = tokio::spawn({
        let view = view.clone();
        async move { view.why(id).await }
    });
    while !view.is_being_built() {
        tokio::task::yield_now().await;
    }
    assert!(matches!(view.why(id).await.unwrap(), Asked::BeingBuilt));
    slow.holds.store(false, Ordering::SeqCst);
    slow.go.notify_one();
    assert!(matches!(first.await.unwrap().unwrap(), Asked::Answered(_)));
    let reads = slow.reads.load(Ordering::SeqCst);
    turnwise.submit(JobRequest::new("t", &())).await.unwrap();
    assert!(matches!(view.why(id).await.unwrap(), Asked::Answered(_)));
    assert_eq!(slow.reads.load(Ordering::SeqCst), reads, "the backlog was read once");
}
