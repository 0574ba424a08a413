//! A process's way to its store, on which the test watches every call, and may hold it up or refuse it.

use std::{any::Any, future::Future, pin::Pin, sync::Arc};

use async_trait::async_trait;
use turnwise_core::{
    Incarnation, Timestamp,
    access::{NewToken, Token, TokenId},
    audit::NewAuditLine,
    doctor::Vitals,
    secret::Secrets,
    statistics::{ErrorRow, Row},
    totals::Totals,
};
use turnwise_executor::executor::{Connect, Connected};
use turnwise_store::{
    AskAudit, AskErrors, AskJobs, AskStatistics, AskWatch, AuditPage, BegunStatistics, Bell, BodyHash, Epoch,
    FoundLogin, FoundToken, FoundTotals, InHands, JobPage, MemoryStore, NewLogin, Once, OperatorStore, Result, Store,
    SubmitOnce, TimedRow, TokenHash, WriteStatistics,
    delegate::{Call, Delegate},
};

pub(crate) type Watching<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Sees calls by the verb's name and what was asked.
pub(crate) trait Watch: Send + Sync + 'static {
    /// An error is the answer, and the call does not happen.
    fn before<'a>(&'a self, verb: &'static str, asked: &'a (dyn Any + Send + Sync)) -> Watching<'a, Result<()>> {
        let _ = (verb, asked);
        Box::pin(async { Ok(()) })
    }

    /// The store has answered; the caller has not got the answer yet.
    fn after(&self, verb: &'static str) -> Watching<'_, ()> {
        let _ = verb;
        Box::pin(async {})
    }

    /// Instead of the store's own, which rings for every write of this process.
    fn bell(&self) -> Option<Bell> {
        None
    }
}

pub(crate) fn connect(store: &MemoryStore, watch: &Arc<impl Watch>) -> Connect {
    let (store, watch) = (store.clone(), watch.clone());
    Arc::new(move || {
        let store = Watched { inner: Arc::new(store.another_process()), watch: watch.clone() };
        Box::pin(async move { Ok(Connected::to(Arc::new(store))) })
    })
}

/// As [`connect`], with the side for operators: the test sees its calls as well.
pub(crate) fn connect_both(store: &MemoryStore, watch: &Arc<impl Watch>) -> Connect {
    let (store, watch) = (store.clone(), watch.clone());
    Arc::new(move || {
        let store = Watched { inner: Arc::new(store.another_process()), watch: watch.clone() };
        Box::pin(async move { Ok(Connected::to_both(Arc::new(store))) })
    })
}

struct Watched {
    inner: Arc<MemoryStore>,
    watch: Arc<dyn Watch>,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl Delegate for Watched {
    fn inner(&self) -> Arc<dyn Store> {
        self.inner.clone()
    }

    async fn pass<T: Send + 'static>(
        &self,
        verb: &'static str,
        asked: &(dyn Any + Send + Sync),
        call: Call<T>,
    ) -> Result<T> {
        self.watch.before(verb, asked).await?;
        let answer = call.await;
        self.watch.after(verb).await;
        answer
    }

    fn bell(&self) -> Bell {
        self.watch.bell().unwrap_or_else(|| Store::bell(&*self.inner))
    }
}

macro_rules! watch_operators {
    ($( $verb:ident ( $( $arg:ident : $type:ty ),* ) -> $answer:ty ; )*) => {
        #[async_trait]
        impl OperatorStore for Watched {
            $(
                async fn $verb(&self, $( $arg: $type ),*) -> Result<$answer> {
                    let (store, asked) = (self.inner.clone(), ($( $arg.clone() ),*));
                    let call: Call<$answer> = Box::pin(async move { OperatorStore::$verb(&*store, $( $arg ),*).await });
                    self.pass(stringify!($verb), &asked, call).await
                }
            )*
        }
    };
}

watch_operators! {
    create_token(token: NewToken, hash: TokenHash, line: Option<NewAuditLine>) -> Token;
    find_token(hash: TokenHash) -> FoundToken;
    tokens() -> (Vec<Token>, Timestamp);
    revoke_token(id: TokenId, line: Option<NewAuditLine>) -> Option<Token>;
    note_token_uses(ids: Vec<TokenId>) -> ();
    log_in(login: NewLogin) -> ();
    find_login(hash: TokenHash) -> Option<FoundLogin>;
    log_out(hash: TokenHash) -> ();
    submit_once(submit: SubmitOnce) -> Once;
    find_once(caller: Option<TokenId>, key: turnwise_core::OnceKey, body: BodyHash) -> Option<Once>;
    list_jobs(ask: AskJobs) -> JobPage;
    audit(ask: AskAudit) -> AuditPage;
    note_secrets(secrets: Secrets) -> ();
    secrets() -> Secrets;
    vitals() -> Vitals;
    prune_audited(limit: u32, line: NewAuditLine) -> u64;
    ask_totals() -> FoundTotals;
    write_totals(lead: (Incarnation, Epoch), totals: Totals) -> Option<Timestamp>;
    watch(ask: AskWatch) -> turnwise_store::Watched;
    in_hands(most: u32) -> InHands;
    begin_statistics(epoch: Epoch) -> BegunStatistics;
    write_statistics(write: WriteStatistics) -> ();
    statistics(ask: AskStatistics) -> Vec<TimedRow>;
    error_statistics(ask: AskErrors) -> Vec<ErrorRow>;
    statistics_totals() -> Vec<Row>;
    merge_statistics() -> bool;
}
