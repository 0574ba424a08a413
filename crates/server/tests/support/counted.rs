//! A store that counts what it is asked, and holds up what a test says.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use std::any::Any;
use tokio::sync::watch;
use turnwise::Turnwise;
use turnwise_core::{
    Incarnation, Timestamp,
    access::{NewToken, Token, TokenId},
    audit::NewAuditLine,
    doctor::Vitals,
    secret::Secrets,
    statistics::{ErrorRow, Row},
    totals::Totals,
};
use turnwise_store::{
    AskAudit, AskErrors, AskJobs, AskStatistics, AskWatch, AuditPage, BegunStatistics, BodyHash, Epoch, FoundLogin,
    FoundToken, FoundTotals, InHands, JobPage, MemoryStore, NewLogin, Once, OperatorStore, Result, Store, SubmitOnce,
    TimedRow, TokenHash, Watched, WriteStatistics,
    delegate::{Call, Delegate},
};

/// On the memory store.
#[derive(Debug)]
pub(crate) struct Counted {
    store: MemoryStore,
    asked: Mutex<BTreeMap<&'static str, usize>>,
    held: watch::Sender<BTreeSet<&'static str>>,
}

impl Counted {
    pub(crate) fn new() -> (Arc<Self>, Turnwise) {
        let held = watch::Sender::new(BTreeSet::new());
        let counted = Arc::new(Self { store: MemoryStore::default(), asked: Mutex::default(), held });
        (counted.clone(), Turnwise::on(counted.clone()).with_operators(counted))
    }

    /// How often a verb was called.
    pub(crate) fn asked(&self, verb: &str) -> usize {
        self.asked.lock().unwrap().get(verb).copied().unwrap_or_default()
    }

    /// How often any verb was called.
    pub(crate) fn asked_in_all(&self) -> usize {
        self.asked.lock().unwrap().values().sum()
    }

    /// From now on calls of this verb are held up.
    pub(crate) fn hold(&self, verb: &'static str) {
        self.held.send_modify(|held| {
            held.insert(verb);
        });
    }

    /// All calls go on.
    pub(crate) fn release(&self) {
        self.held.send_modify(BTreeSet::clear);
    }

    async fn begins(&self, verb: &'static str) {
        *self.asked.lock().unwrap().entry(verb).or_default() += 1;
        // The sender lives as long as this.
        let _ = self.held.subscribe().wait_for(|held| !held.contains(verb)).await;
    }
}

#[async_trait]
impl Delegate for Counted {
    fn inner(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn pass<T: Send + 'static>(
        &self,
        verb: &'static str,
        _asked: &(dyn Any + Send + Sync),
        call: Call<T>,
    ) -> Result<T> {
        self.begins(verb).await;
        call.await
    }
}

macro_rules! operators {
    ($( $verb:ident ( $( $arg:ident : $type:ty ),* ) -> $answer:ty ; )*) => {
        #[async_trait]
        impl OperatorStore for Counted {
            $( async fn $verb(&self, $( $arg: $type ),*) -> Result<$answer> {
                self.begins(stringify!($verb)).await;
                OperatorStore::$verb(&self.store, $( $arg ),*).await
            } )*
        }
    };
}

operators! {
    create_token(token: NewToken, hash: TokenHash, line: Option<NewAuditLine>) -> Token;
    find_token(hash: TokenHash) -> FoundToken;
    tokens() -> (Vec<Token>, Timestamp);
    revoke_token(id: TokenId, line: Option<NewAuditLine>) -> Option<Token>;
    note_token_uses(ids: Vec<TokenId>) -> ();
    log_in(login: NewLogin) -> ();
    find_login(hash: TokenHash) -> Option<FoundLogin>;
    log_out(hash: TokenHash) -> ();
    submit_once(submit: SubmitOnce) -> Once;
    find_once(caller: Option<TokenId>, key: turnwise::OnceKey, body: BodyHash) -> Option<Once>;
    list_jobs(ask: AskJobs) -> JobPage;
    audit(ask: AskAudit) -> AuditPage;
    note_secrets(secrets: Secrets) -> ();
    secrets() -> Secrets;
    vitals() -> Vitals;
    prune_audited(limit: u32, line: NewAuditLine) -> u64;
    ask_totals() -> FoundTotals;
    watch(ask: AskWatch) -> Watched;
    in_hands(most: u32) -> InHands;
    begin_statistics(epoch: Epoch) -> BegunStatistics;
    write_statistics(write: WriteStatistics) -> ();
    statistics(ask: AskStatistics) -> Vec<TimedRow>;
    error_statistics(ask: AskErrors) -> Vec<ErrorRow>;
    statistics_totals() -> Vec<Row>;
    merge_statistics() -> bool;
    write_totals(lead: (Incarnation, Epoch), totals: Totals) -> Option<Timestamp>;
}
