//! A process's way to its store, with somebody who watches every call, and may hold it up or refuse it.

use std::{any::Any, future::Future, pin::Pin, sync::Arc};

use async_trait::async_trait;
use turnwise_core::{Incarnation, Job, JobId, NewJob, story::Story};
use turnwise_executor::executor::Connect;
use turnwise_store::*;

pub(crate) type Watching<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Sees calls by the verb's name and what was asked.
pub(crate) trait Watch: Send + Sync + 'static {
    /// An error is the answer, and the call does not happen.
    fn before<'a>(&'a self, verb: &'static str, asked: &'a (dyn Any + Send + Sync)) -> Watching<'a, Result<()>> {
        let _ = (verb, asked);
        Box::pin(async { Ok(()) })
    }

    /// The store has answered; whoever asked has not heard yet.
    fn after(&self, verb: &'static str) -> Watching<'_, ()> {
        let _ = verb;
        Box::pin(async {})
    }

    /// Instead of the store's own, which rings for whatever is written in this process.
    fn bell(&self) -> Option<Bell> {
        None
    }
}

pub(crate) fn connect(store: &MemoryStore, watch: &Arc<impl Watch>) -> Connect {
    let (store, watch) = (store.clone(), watch.clone());
    Arc::new(move || {
        let store = Watched { inner: store.another_process(), watch: watch.clone() };
        Box::pin(async move { Ok(Arc::new(store) as Arc<dyn Store>) })
    })
}

struct Watched {
    inner: MemoryStore,
    watch: Arc<dyn Watch>,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

macro_rules! verbs {
    ($( $verb:ident ( $( $arg:ident : $type:ty ),* ) -> $answer:ty ; )*) => {
        #[async_trait]
        impl Store for Watched {
            $(
                async fn $verb(&self, $( $arg: $type ),*) -> Result<$answer> {
                    let asked = ($( $arg.clone() ),*);
                    self.watch.before(stringify!($verb), &asked).await?;
                    let answer = self.inner.$verb($( $arg ),*).await;
                    self.watch.after(stringify!($verb)).await;
                    answer
                }
            )*

            fn bell(&self) -> Bell {
                self.watch.bell().unwrap_or_else(|| self.inner.bell())
            }
        }
    };
}

verbs! {
    enqueue(jobs: Vec<NewJob>) -> Vec<Submitted>;
    join(join: Join) -> Joined;
    beat(beat: Beat) -> Pulse;
    leave(node: Incarnation) -> bool;
    load(load: Load) -> Page;
    news(ask: AskNews) -> News;
    assign(assign: Assign) -> Vec<(JobId, AssignReply)>;
    assignments(node: Incarnation, known: Vec<BatchId>) -> Vec<Delivery>;
    settle(settle: Settle) -> Vec<Settled>;
    note(node: Incarnation, notes: Vec<Note>) -> Vec<Settled>;
    lost_nodes(ask: AskLost) -> Vec<LostNode>;
    control(interventions: Vec<Intervention>) -> Vec<Settled>;
    prune(seen: Option<Cursor>, limit: u32) -> u64;
    job(id: JobId) -> Option<Job>;
    jobs(filter: Filter) -> Vec<Job>;
    story(ask: AskStory) -> Story;
    nodes() -> Fleet;
    recall(kinds: Vec<MemoKind>) -> Vec<Memo>;
    remember(lead: Option<(Incarnation, Epoch)>, memos: Vec<NewMemo>) -> Vec<bool>;
}
