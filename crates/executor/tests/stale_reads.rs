//! News that are stale, because a job has ended in the process itself meanwhile.

mod support;

use std::{
    any::Any,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use support::{
    watched::{self, Watch, Watching},
    *,
};
use tokio::sync::{Notify, Semaphore};
use turnwise_core::{After, JobId, JobState, NewJob, OnFailure};
use turnwise_executor::{Ctx, Outcome, Task, executor::Builder};
use turnwise_store::{Assign, MemoryStore, Result, Store};

/// Says that it has begun, and ends when it may.
struct Gate;
impl Task for Gate {
    type Args = ();
    const NAME: &'static str = "gate";
    async fn run(&self, ctx: Ctx, (): ()) -> Outcome {
        let scene = ctx.state::<Scene>().unwrap().0;
        scene.began.add_permits(1);
        scene.open.notified().await;
        Outcome::done()
    }
}

/// One slot. While the first job runs another one is submitted and the news are read; they are heard only when the second job is
/// being given away, so that the end of the first must have been told before.
struct Scene {
    store: MemoryStore,
    first: JobId,
    second: JobId,
    third: Mutex<Option<NewJob>>,
    began: Semaphore,
    open: Notify,
    holds: AtomicBool,
    second_given: Semaphore,
}

impl Watch for Scene {
    fn before<'a>(&'a self, verb: &'static str, asked: &'a (dyn Any + Send + Sync)) -> Watching<'a, Result<()>> {
        Box::pin(async move {
            let assign = asked.downcast_ref::<Assign>();
            if assign.is_some_and(|assign| assign.picks.iter().any(|pick| pick.job == self.second)) {
                self.second_given.add_permits(1);
            }
            let given = self.store.job(self.first).await?.is_some_and(|job| job.fence.0 > 0);
            if verb == "news" && given {
                let third = self.third.lock().unwrap().take();
                if let Some(third) = third {
                    let _ = soon(self.began.acquire()).await;
                    self.store.enqueue(vec![third]).await?;
                    self.holds.store(true, SeqCst);
                }
            }
            Ok(())
        })
    }

    fn after(&self, verb: &'static str) -> Watching<'_, ()> {
        Box::pin(async move {
            if verb == "news" && self.holds.swap(false, SeqCst) {
                self.open.notify_one();
                // A dispatcher that hears nothing of the end while it waits for news reads nothing stale.
                let _ = tokio::time::timeout(Duration::from_secs(2), self.second_given.acquire()).await;
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_awaited_one_ends_while_news_of_it_are_on_their_way_runs() {
    let store = MemoryStore::default();
    let (first, second, mut third) = (job("gate", "null"), job("noop", "null"), job("noop", "null"));
    third.after = After::new([first.id], OnFailure::Fail).unwrap();
    let ids = [first.id, second.id, third.id];
    let scene = Arc::new(Scene {
        store: store.clone(),
        first: first.id,
        second: second.id,
        third: Mutex::new(Some(third)),
        began: Semaphore::new(0),
        open: Notify::new(),
        holds: AtomicBool::new(false),
        second_given: Semaphore::new(0),
    });
    store.enqueue(vec![first, second]).await.unwrap();
    let builder = Builder::new(watched::connect(&store, &scene), config("one")).registry(tasks!(Gate, Noop));
    let builder = builder.shared(scene.clone()).configure(looks_often);
    let one_slot = builder.configure(|config| {
        (config.core_pool_size, config.queue_capacity, config.look_every) = (1, 0, 1);
    });
    let _executor = started(one_slot).await;
    for id in ids {
        assert_eq!(ended(&store, id).await.state, JobState::Success);
    }
}
