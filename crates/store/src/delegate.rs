//! A store that passes its verbs on to another one, and changes only what it is there for.
//!
//! Tests put such stores between a node and its database: one loses replies, one holds calls up, one takes notes. The list of
//! verbs is written once, below; a store that delegates writes only the verbs it changes.

use std::{any::Any, fmt, pin::Pin, sync::Arc};

use async_trait::async_trait;
use turnwise_core::{Incarnation, Job, JobId, NewJob, story::Story};

use crate::{Bell, store::*};

/// A call of the inner store that has not begun: dropped without being awaited, it has never happened.
pub type Call<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

macro_rules! verbs {
    ($( $verb:ident ( $( $arg:ident : $type:ty ),* ) -> $answer:ty ; )*) => {
        /// A [`Store`] that asks another one. All verbs go to [`Delegate::inner`] by way of [`Delegate::pass`], unless they are
        /// overridden.
        ///
        /// It is not exported at the root of the crate: where it is in scope beside [`Store`], a verb of a delegating store
        /// could be either's.
        ///
        /// ```
        /// use std::sync::Arc;
        /// use turnwise_core::NewJob;
        /// use turnwise_store::{MemoryStore, Result, Store, StoreError, Submitted, delegate::Delegate};
        ///
        /// /// Takes no more jobs; everything else goes on.
        /// #[derive(Debug)]
        /// struct Closed(Arc<dyn Store>);
        ///
        /// #[async_trait::async_trait]
        /// impl Delegate for Closed {
        ///     fn inner(&self) -> Arc<dyn Store> {
        ///         self.0.clone()
        ///     }
        ///     async fn enqueue(&self, _: Vec<NewJob>) -> Result<Vec<Submitted>> {
        ///         Err(StoreError::transient("enqueue", "it is closed"))
        ///     }
        /// }
        ///
        /// let store: Arc<dyn Store> = Arc::new(Closed(Arc::new(MemoryStore::default())));
        /// ```
        #[async_trait]
        pub trait Delegate: Send + Sync + fmt::Debug + 'static {
            /// The store that is asked.
            fn inner(&self) -> Arc<dyn Store>;

            /// What happens around a call. `asked` is the argument of the verb, or the tuple of its arguments.
            async fn pass<T: Send + 'static>(
                &self,
                verb: &'static str,
                asked: &(dyn Any + Send + Sync),
                call: Call<T>,
            ) -> Result<T> {
                let _ = (verb, asked);
                call.await
            }

            fn bell(&self) -> Bell {
                self.inner().bell()
            }

            $(
                async fn $verb(&self, $( $arg: $type ),*) -> Result<$answer> {
                    let (store, asked) = (self.inner(), ($( $arg.clone() ),*));
                    let call = Box::pin(async move { store.$verb($( $arg ),*).await });
                    self.pass(stringify!($verb), &asked, call).await
                }
            )*
        }

        #[async_trait]
        impl<D: Delegate> Store for D {
            $(
                async fn $verb(&self, $( $arg: $type ),*) -> Result<$answer> {
                    Delegate::$verb(self, $( $arg ),*).await
                }
            )*

            fn bell(&self) -> Bell {
                Delegate::bell(self)
            }
        }
    };
}

verbs! {
    enqueue(jobs: Vec<NewJob>) -> Vec<Submitted>;
    join(join: Join) -> Joined;
    beat(beat: Beat) -> BeatReply;
    leave(node: Incarnation) -> bool;
    load(load: Load) -> Page;
    news(ask: AskNews) -> News;
    assign(assign: Assign) -> Vec<(JobId, AssignReply)>;
    assignments(node: Incarnation, known: Vec<BatchId>) -> Mail;
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
