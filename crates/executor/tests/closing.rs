//! A run that leaves a transaction open whose commit nobody hears of.

mod support;

use std::{
    any::Any,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use support::{
    SHORT_LEASE, config, job, soon, started, tasks,
    watched::{self, Watch, Watching},
};
use tokio::sync::Notify;
use turnwise_executor::{Ctx, Outcome, Task, executor::Builder};
use turnwise_store::*;

/// Nobody ever hears what became of it.
#[derive(Debug)]
struct Unheard(Arc<Scene>);

#[async_trait::async_trait]
impl Closing for Unheard {
    async fn settle(self: Box<Self>, _: Last) -> Closed {
        self.0.closing.notify_one();
        std::future::pending().await
    }
    async fn roll_back(self: Box<Self>) -> Undone {
        Undone::Asked
    }
}

struct Commits;
impl Task for Commits {
    type Args = ();
    const NAME: &'static str = "commits";
    async fn run(&self, ctx: Ctx, (): ()) -> Outcome {
        let scene = ctx.state::<Given>().unwrap().0.0.clone();
        ctx.close_with(Box::new(Unheard(scene)));
        Outcome::done()
    }
}

#[derive(Clone)]
struct Given(Arc<Scene>);

#[derive(Debug, Default)]
struct Scene {
    closing: Notify,
    /// The node is cut off from here on, but for what it settles.
    cut: AtomicBool,
    done: Mutex<Vec<BatchId>>,
}

impl Watch for Scene {
    fn before<'a>(&'a self, verb: &'static str, asked: &'a (dyn Any + Send + Sync)) -> Watching<'a, Result<()>> {
        Box::pin(async move {
            if verb == "settle" {
                self.done.lock().unwrap().extend(&asked.downcast_ref::<Settle>().unwrap().done);
            }
            if self.cut.load(SeqCst) && verb != "settle" {
                Err(StoreError::transient("reach the store", "it is out of reach"))
            } else {
                Ok(())
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_not_called_done_for_a_run_whose_commit_was_given_up() {
    let (store, scene) = (MemoryStore::default(), Arc::new(Scene::default()));
    let builder = Builder::new(watched::connect(&store, &scene), config("a")).registry(tasks!(Commits));
    // It stops after a lease in which it hears of nothing.
    let builder = builder.state(Given(scene.clone())).configure(|config| config.lease = SHORT_LEASE);
    let executor = started(builder).await;
    let id = executor.submit(job("commits", "null")).await.unwrap().id;
    soon(scene.closing.notified()).await;
    scene.cut.store(true, SeqCst);
    soon(executor.stop()).await;
    assert!(store.job(id).await.unwrap().unwrap().state.assigned(), "it is in the node's hands");
    // The dispatcher that takes a lost node's jobs finds them by their batches.
    assert_eq!(*scene.done.lock().unwrap(), []);
}
