//! A store that passes its verbs on to another one, and changes only what it is there for.
//!
//! Tests put such stores between a node and its database: one loses replies, one holds calls up, one takes notes. The two lists of
//! verbs are written once, below; a store that delegates writes only the verbs it changes.

use std::{any::Any, fmt, pin::Pin, sync::Arc};

use async_trait::async_trait;
use turnwise_core::{
    Incarnation, Job, JobId, NewJob, OnceKey, Timestamp,
    access::{NewToken, Token, TokenId},
    audit::NewAuditLine,
    doctor::Vitals,
    secret::Secrets,
    statistics::Row,
    story::Story,
    totals::Totals,
};

use crate::{Bell, operators::*, store::*};

/// A call of the inner store that has not begun: dropped without being awaited, it has never happened.
pub type Call<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// A trait that passes each verb of `$store` on, and what implements `$store` by it. `$own` and `$other` are what the two have beside the verbs.
macro_rules! verbs {
    (
        $( #[$about:meta] )*
        trait $delegate:ident [ $( $bounds:tt )+ ] { $( $own:tt )* }
        impl $store:ident by $inner:ident { $( $other:tt )* }
        $( $verb:ident ( $( $arg:ident : $type:ty ),* ) -> $answer:ty ; )*
    ) => {
        $( #[$about] )*
        #[async_trait]
        pub trait $delegate: $( $bounds )+ {
            $( $own )*

            $(
                async fn $verb(&self, $( $arg: $type ),*) -> Result<$answer> {
                    let (store, asked) = (self.$inner(), ($( $arg.clone() ),*));
                    let call = Box::pin(async move { store.$verb($( $arg ),*).await });
                    self.pass(stringify!($verb), &asked, call).await
                }
            )*
        }

        #[async_trait]
        impl<D: $delegate> $store for D {
            $(
                async fn $verb(&self, $( $arg: $type ),*) -> Result<$answer> {
                    $delegate::$verb(self, $( $arg ),*).await
                }
            )*

            $( $other )*
        }
    };
}

verbs! {
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
    trait Delegate [Send + Sync + fmt::Debug + 'static] {
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
    }
    impl Store by inner {
        fn bell(&self) -> Bell {
            Delegate::bell(self)
        }
    }

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

verbs! {
    /// An [`OperatorStore`] that asks another one: as [`Delegate`], and by way of the same [`Delegate::pass`].
    trait DelegateOperators [Delegate] {
        /// The store that is asked.
        fn operators(&self) -> Arc<dyn OperatorStore>;
    }
    impl OperatorStore by operators {}

    create_token(token: NewToken, hash: TokenHash, line: Option<NewAuditLine>) -> Token;
    find_token(hash: TokenHash) -> FoundToken;
    tokens() -> (Vec<Token>, Timestamp);
    revoke_token(id: TokenId, line: Option<NewAuditLine>) -> Option<Token>;
    note_token_uses(ids: Vec<TokenId>) -> ();
    log_in(login: NewLogin) -> ();
    find_login(hash: TokenHash) -> Option<FoundLogin>;
    log_out(hash: TokenHash) -> ();
    make_ticket(ticket: NewTicket, line: Option<NewAuditLine>) -> ();
    redeem_ticket(redeem: Redeem) -> Option<FoundTicket>;
    find_bearer(hash: TokenHash) -> Option<FoundTicket>;
    submit_once(submit: SubmitOnce) -> Once;
    find_once(caller: Option<TokenId>, key: OnceKey, body: BodyHash) -> Option<Once>;
    list_jobs(ask: AskJobs) -> JobPage;
    audit(ask: AskAudit) -> AuditPage;
    note_secrets(secrets: Secrets) -> ();
    secrets() -> Secrets;
    vitals() -> Vitals;
    prune_audited(limit: u32, line: NewAuditLine) -> u64;
    ask_totals() -> FoundTotals;
    write_totals(lead: (Incarnation, Epoch), totals: Totals) -> Option<Timestamp>;
    watch(ask: AskWatch) -> Watched;
    in_hands(most: u32) -> InHands;
    begin_statistics(epoch: Epoch) -> BegunStatistics;
    write_statistics(write: WriteStatistics) -> ();
    statistics(ask: AskStatistics) -> Vec<TimedRow>;
    error_statistics(ask: AskErrors) -> Vec<TimedError>;
    statistics_totals() -> Vec<Row>;
    merge_statistics() -> bool;
    worker(node: Incarnation) -> Option<FoundWorker>;
    beat_workers(beats: Vec<WorkerBeat>) -> BeatenWorkers;
    mail_waiting(nodes: Vec<Incarnation>) -> Vec<Incarnation>;
}
