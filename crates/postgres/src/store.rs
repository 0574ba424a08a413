//! The verbs, each handed to the file of its name; and how their statements are sent.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use async_trait::async_trait;
use tokio::runtime::Handle;
use turnwise_core::{
    Incarnation, Job, JobId, NewJob, OnceKey, Timestamp,
    access::{NewToken, Token, TokenId},
    audit::NewAuditLine,
    doctor::Vitals,
    secret::Secrets,
    statistics::Row as StatisticsRow,
    story::Story,
    totals::Totals,
};
use turnwise_store::{
    AskAudit, AskErrors, AskJobs, AskLost, AskNews, AskStatistics, AskStory, AskWatch, Assign, AssignReply, AuditPage,
    BatchId, Beat, BeatReply, BeatenWorkers, BegunStatistics, Bell, BodyHash, Cursor, Epoch, Filter, Fleet, FoundLogin,
    FoundTicket, FoundToken, FoundTotals, FoundWorker, InHands, Intervention, JobPage, Join, Joined, Kept, Load,
    LostNode, Mail, Memo, MemoKind, NewLogin, NewMemo, NewTicket, News, Note, Once, OperatorStore, Options, Page,
    Redeem, Result, Settle, Settled, Store, SubmitOnce, Submitted, TimedError, TimedRow, TokenHash, Watched,
    WorkerBeat, WriteStatistics,
    moving::{Cell, Hindrance, Import, MoveId, MoveStore, MovedRow, Moving, Part},
};

use crate::{
    assign, audit,
    bell::{Listener, Presence},
    connect::{Address, Budget, Pools, Share},
    control, enqueue,
    gather::Gather,
    listing, logins, memo, migrate, moving, news, nodes, once, prune, read, secrets, settle, statistics, story,
    tickets, tokens, totals,
    unique::{self, gates::Gates},
    vitals, watch, workers,
};

/// Jobs in a PostgreSQL database, shared by all processes that open it. Cheap to clone; clones share connections and bell.
///
/// Must be opened and used inside a tokio runtime with time and IO enabled.
#[derive(Clone)]
pub struct PostgresStore(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) pools: Pools,
    pub(crate) options: Options,
    pub(crate) kept: Arc<Kept>,
    pub(crate) bell: Bell,
    /// Nodes that joined through this handle: the ones whose mail rings here.
    pub(crate) joined: Arc<Mutex<HashSet<Incarnation>>>,
    /// What this handle last wrote about the dispatcher's sleep, and in which epoch: written again only when it differs.
    pub(crate) asleep: Mutex<Option<(Epoch, bool)>>,
    /// How far the unique keys have been looked through.
    pub(crate) keys: unique::KeyCursor,
    /// Small submits on their way.
    pub(crate) gather: Gather,
    pub(crate) locks_met: assign::LocksMet,
    pub(crate) locked: settle::Locked,
    /// The unique keys that submitters of this handle are using or waiting for.
    pub(crate) gates: Gates,
    /// The lock by which other processes see that this one is alive.
    pub(crate) presence: Arc<Presence>,
    /// Started by the first call of `bell`: a handle without such a call needs no connection for it.
    listener: OnceLock<Listener>,
    address: Address,
    budget: Arc<Budget>,
    runtime: Handle,
}

impl PostgresStore {
    /// Connects and brings the schema up to date; an empty database gets all of it.
    ///
    /// [`StoreError::Refused`](turnwise_store::StoreError::Refused) when a person has to act: a wrong password, a
    /// missing database, a schema that this binary is too old for.
    pub async fn open(url: &str, options: Options) -> Result<Self> {
        let address = Address::read(url)?;
        migrate::migrate_for(&address, options.retention.unwrap_or_default()).await?;
        Ok(Self::first(address, options))
    }

    /// As [`PostgresStore::open`], but as [`Options::schema`] says: what is missing may be refused instead of made.
    pub async fn connect(url: &str, options: Options) -> Result<Self> {
        let address = Address::read(url)?;
        migrate::migrate_or_refuse(&address, options.schema, options.retention.unwrap_or_default()).await?;
        Ok(Self::first(address, options))
    }

    /// What the server has done when it answers a commit: its settings about that, by name.
    pub async fn durability(&self) -> Result<BTreeMap<String, String>> {
        read::durability(&self.0).await
    }

    /// A handle of its own on the same database, for the control loops of a node: its connections live on the runtime that
    /// calls this. Both together keep to [`Options::connections`].
    pub fn for_control(&self) -> Self {
        let Inner { address, options, kept, budget, .. } = &*self.0;
        Self::start(address.clone(), options.clone(), Arc::clone(kept), Arc::clone(budget), Share::Control)
    }

    pub(crate) fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.0.budget)
    }

    fn first(address: Address, options: Options) -> Self {
        let budget = Budget::new(usize::try_from(options.connections).unwrap_or(usize::MAX));
        let kept = Arc::new(Kept::new(&options));
        Self::start(address, options, kept, Arc::new(budget), Share::Callers)
    }

    fn start(address: Address, options: Options, kept: Arc<Kept>, budget: Arc<Budget>, share: Share) -> Self {
        Self(Arc::new(Inner {
            pools: Pools::new(&address, &budget, share),
            address,
            budget,
            runtime: Handle::current(),
            options,
            kept,
            bell: Bell::default(),
            joined: Arc::default(),
            asleep: Mutex::default(),
            keys: unique::KeyCursor::default(),
            gather: Gather::default(),
            locks_met: assign::LocksMet::default(),
            locked: settle::Locked::default(),
            gates: Gates::default(),
            presence: Arc::default(),
            listener: OnceLock::new(),
        }))
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("options", &self.0.options).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Submitted>> {
        enqueue::enqueue(&self.0, jobs).await
    }

    async fn join(&self, join: Join) -> Result<Joined> {
        nodes::join(&self.0, &join).await
    }

    async fn beat(&self, beat: Beat) -> Result<BeatReply> {
        nodes::beat(&self.0, &beat).await
    }

    async fn leave(&self, node: Incarnation) -> Result<bool> {
        nodes::leave(&self.0, node).await
    }

    async fn load(&self, load: Load) -> Result<Page> {
        news::load(&self.0, load).await
    }

    async fn news(&self, ask: AskNews) -> Result<News> {
        news::news(&self.0, &ask).await
    }

    async fn assign(&self, assign: Assign) -> Result<Vec<(JobId, AssignReply)>> {
        assign::assign(&self.0, &assign).await
    }

    async fn assignments(&self, node: Incarnation, known: Vec<BatchId>) -> Result<Mail> {
        assign::assignments(&self.0, node, &known).await
    }

    async fn settle(&self, settle: Settle) -> Result<Vec<Settled>> {
        settle::settle(&self.0, &settle).await
    }

    async fn note(&self, node: Incarnation, notes: Vec<Note>) -> Result<Vec<Settled>> {
        story::note(&self.0, node, &notes).await
    }

    async fn lost_nodes(&self, ask: AskLost) -> Result<Vec<LostNode>> {
        nodes::lost_nodes(&self.0, ask).await
    }

    async fn control(&self, interventions: Vec<Intervention>) -> Result<Vec<Settled>> {
        control::control(&self.0, &interventions).await
    }

    async fn prune(&self, seen: Option<Cursor>, limit: u32) -> Result<u64> {
        prune::prune(&self.0, seen.as_ref(), limit, None).await
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>> {
        read::job(&self.0, id).await
    }

    async fn jobs(&self, filter: Filter) -> Result<Vec<Job>> {
        read::jobs(&self.0, &filter).await
    }

    async fn story(&self, ask: AskStory) -> Result<Story> {
        story::story(&self.0, &ask).await
    }

    async fn nodes(&self) -> Result<Fleet> {
        nodes::nodes(&self.0).await
    }

    async fn recall(&self, kinds: Vec<MemoKind>) -> Result<Vec<Memo>> {
        let memos = memo::recall(&self.0, &kinds).await?;
        self.0.kept.hear(&kinds, &memos);
        Ok(memos)
    }

    async fn remember(&self, lead: Option<(Incarnation, Epoch)>, memos: Vec<NewMemo>) -> Result<Vec<bool>> {
        memo::remember(&self.0, lead, &memos).await
    }

    fn bell(&self) -> Bell {
        let inner = &*self.0;
        inner.listener.get_or_init(|| {
            let _here = inner.runtime.enter();
            Listener::start(
                inner.address.clone(),
                Arc::clone(&inner.budget),
                inner.bell.clone(),
                Arc::clone(&inner.joined),
                Arc::clone(&inner.presence),
            )
        });
        inner.bell.clone()
    }
}

#[async_trait]
impl OperatorStore for PostgresStore {
    async fn create_token(&self, token: NewToken, hash: TokenHash, line: Option<NewAuditLine>) -> Result<Token> {
        tokens::create(&self.0, token, hash, line.as_ref()).await
    }

    async fn find_token(&self, hash: TokenHash) -> Result<FoundToken> {
        tokens::find(&self.0, hash).await
    }

    async fn tokens(&self) -> Result<(Vec<Token>, Timestamp)> {
        tokens::all(&self.0).await
    }

    async fn revoke_token(&self, id: TokenId, line: Option<NewAuditLine>) -> Result<Option<Token>> {
        tokens::revoke(&self.0, id, line.as_ref()).await
    }

    async fn note_token_uses(&self, ids: Vec<TokenId>) -> Result<()> {
        tokens::note_uses(&self.0, &ids).await
    }

    async fn log_in(&self, login: NewLogin) -> Result<()> {
        logins::log_in(&self.0, login).await
    }

    async fn find_login(&self, hash: TokenHash) -> Result<Option<FoundLogin>> {
        logins::find(&self.0, hash).await
    }

    async fn log_out(&self, hash: TokenHash) -> Result<()> {
        logins::log_out(&self.0, hash).await
    }

    async fn make_ticket(&self, ticket: NewTicket, line: Option<NewAuditLine>) -> Result<()> {
        tickets::make(&self.0, ticket, line.as_ref()).await
    }

    async fn redeem_ticket(&self, redeem: Redeem) -> Result<Option<FoundTicket>> {
        tickets::redeem(&self.0, redeem).await
    }

    async fn find_bearer(&self, hash: TokenHash) -> Result<Option<FoundTicket>> {
        tickets::find_bearer(&self.0, hash).await
    }

    async fn submit_once(&self, submit: SubmitOnce) -> Result<Once> {
        once::submit_once(&self.0, submit).await
    }

    async fn find_once(&self, caller: Option<TokenId>, key: OnceKey, body: BodyHash) -> Result<Option<Once>> {
        once::find(&self.0, caller, &key, body).await
    }

    async fn list_jobs(&self, ask: AskJobs) -> Result<JobPage> {
        listing::list_jobs(&self.0, &ask).await
    }

    async fn audit(&self, ask: AskAudit) -> Result<AuditPage> {
        audit::page(&self.0, &ask).await
    }

    async fn note_secrets(&self, secrets: Secrets) -> Result<()> {
        secrets::note(&self.0, &secrets).await
    }

    async fn secrets(&self) -> Result<Secrets> {
        secrets::all(&self.0).await
    }

    async fn vitals(&self) -> Result<Vitals> {
        vitals::vitals(&self.0).await
    }

    async fn prune_audited(&self, limit: u32, line: NewAuditLine) -> Result<u64> {
        prune::prune(&self.0, None, limit, Some(line)).await
    }

    async fn ask_totals(&self) -> Result<FoundTotals> {
        totals::ask(&self.0).await
    }

    async fn write_totals(&self, lead: (Incarnation, Epoch), totals: Totals) -> Result<Option<Timestamp>> {
        totals::write(&self.0, lead, &totals).await
    }

    async fn watch(&self, ask: AskWatch) -> Result<Watched> {
        watch::watch(&self.0, &ask).await
    }

    async fn in_hands(&self, most: u32) -> Result<InHands> {
        watch::in_hands(&self.0, most).await
    }

    async fn begin_statistics(&self, epoch: Epoch) -> Result<BegunStatistics> {
        statistics::begin(&self.0, epoch).await
    }

    async fn write_statistics(&self, write: WriteStatistics) -> Result<()> {
        statistics::write(&self.0, &write).await
    }

    async fn statistics(&self, ask: AskStatistics) -> Result<Vec<TimedRow>> {
        statistics::rows(&self.0, &ask).await
    }

    async fn error_statistics(&self, ask: AskErrors) -> Result<Vec<TimedError>> {
        statistics::errors(&self.0, &ask).await
    }

    async fn statistics_totals(&self) -> Result<Vec<StatisticsRow>> {
        statistics::totals(&self.0).await
    }

    async fn merge_statistics(&self) -> Result<bool> {
        statistics::merge(&self.0).await
    }

    async fn worker(&self, node: Incarnation) -> Result<Option<FoundWorker>> {
        workers::worker(&self.0, node).await
    }

    async fn beat_workers(&self, beats: Vec<WorkerBeat>) -> Result<BeatenWorkers> {
        workers::beat(&self.0, &beats).await
    }

    async fn mail_waiting(&self, nodes: Vec<Incarnation>) -> Result<Vec<Incarnation>> {
        workers::mail_waiting(&self.0, &nodes).await
    }
}

#[async_trait]
impl MoveStore for PostgresStore {
    async fn moving(&self) -> Result<Option<Moving>> {
        moving::moving(&self.0).await
    }

    async fn close(&self, moving: Moving) -> Result<std::result::Result<(), Hindrance>> {
        moving::close(&self.0, &moving).await
    }

    async fn export(&self, part: &'static Part, after: Vec<Cell>, limit: u32) -> Result<Vec<MovedRow>> {
        moving::export(&self.0, part, &after, limit).await
    }

    async fn import(&self, import: Import) -> Result<bool> {
        moving::import(&self.0, &import).await
    }

    async fn finish(&self, id: MoveId) -> Result<bool> {
        moving::finish(&self.0, id).await
    }

    async fn give_up(&self, id: MoveId) -> Result<bool> {
        moving::give_up(&self.0, id).await
    }
}

impl Inner {
    pub(crate) fn joined_here(&self, node: Incarnation) -> bool {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner).contains(&node)
    }
}
