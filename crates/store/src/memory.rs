//! The store as plain Rust: what every verb means, without a database in the way.
//!
//! One lock, one struct, no cleverness. Where a driver and this file disagree, the driver is wrong, or the promise in
//! [`crate::store`] is.

mod after;
mod assign;
mod audit;
mod control;
mod enqueue;
mod listing;
mod logins;
mod memo;
mod news;
mod nodes;
mod once;
mod prune;
mod read;
mod rows;
mod secrets;
mod settle;
mod statistics;
mod story;
mod tickets;
mod tokens;
mod totals;
mod unique;
mod watch;
mod workers;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use turnwise_core::{
    After, Fence, Fingerprint, Incarnation, Job, JobId, JobState, NewJob, Node, OnceKey, Timestamp,
    access::{NewToken, Token, TokenId},
    audit::{AuditId, AuditLine, NewAuditLine},
    doctor::Vitals,
    secret::Secrets,
    statistics::Row as StatisticsRow,
    story::Story,
    totals::Totals,
    unique::Holding,
    worker::Worker,
};

use self::rows::Row;
use crate::{
    Bell, Kept,
    operators::{
        AskAudit, AskErrors, AskJobs, AskStatistics, AskWatch, AuditPage, BeatenWorkers, BegunStatistics, BodyHash,
        FoundLogin, FoundTicket, FoundToken, FoundTotals, FoundWorker, InHands, JobPage, KnownOnce, NewLogin,
        NewTicket, Once, OperatorStore, Redeem, SubmitOnce, TimedError, TimedRow, TokenHash, Watched, WorkerBeat,
        WriteStatistics, WrittenTotals,
    },
    store::{
        AskLost, AskNews, AskStory, Assign, AssignReply, BatchId, Beat, BeatReply, Cursor, Epoch, Filter, Fleet,
        Intervention, Join, Joined, Lineage, Load, Loss, LostNode, Mail, Memo, MemoKind, NewMemo, News, Note, Options,
        Page, Result, Settle, Settled, Store, Submitted,
    },
    verdict::Lead,
};

/// The database's clock.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The store's time is what `now` returns at each call.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The machine's own.
    pub fn system() -> Self {
        Self::new(|| {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
        })
    }

    /// The time of the store, as every verb sees it.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

/// Jobs in memory: for tests, trials and the simulator.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    data: Arc<Mutex<Data>>,
    bell: Bell,
    clock: Clock,
    kept: Arc<Kept>,
    /// When it was made: by it a cursor of another store is recognised.
    born: Timestamp,
}

/// What a [`MemoryStore`] held at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot(Box<Data>);

/// The difference between two lineages: large, so that their epochs are far apart.
const LEAP: i64 = 100_000_007;

#[derive(Debug, Clone, Default)]
struct Data {
    lineage: Lineage,
    /// Unfinished jobs.
    jobs: BTreeMap<JobId, Row>,
    /// Finished ones.
    history: BTreeMap<JobId, Row>,
    nodes: BTreeMap<Incarnation, Node>,
    /// Those of the nodes that are foreign workers.
    workers: BTreeMap<Incarnation, Worker>,
    losses: BTreeMap<Incarnation, Loss>,
    dispatcher: Lead,
    /// Each with whether it is limited.
    assignments: BTreeMap<(Incarnation, BatchId), Vec<(JobId, bool)>>,
    /// Jobs that nodes were asked to stop, and at which fence.
    stop_requests: BTreeMap<(Incarnation, JobId), Fence>,
    changes: BTreeMap<i64, ChangeRow>,
    /// Of jobs, finished or not, that have attempts, progress, steps or lines.
    stories: BTreeMap<JobId, Story>,
    /// Which job holds which unique key.
    keys: BTreeMap<unique::KeyAt, Holding>,
    /// Of jobs, finished or not, that wait or waited for others.
    after: BTreeMap<JobId, After>,
    /// The same from the other side: pairs of an awaited job and a job that waits for it, with how the awaited one ended, if it
    /// ended badly and is kept no longer.
    awaited: BTreeMap<(JobId, JobId), Option<JobState>>,
    /// Value and version.
    memos: BTreeMap<(MemoKind, String), (String, i64)>,
    /// Each with the hash of its secret.
    tokens: BTreeMap<TokenId, (Token, TokenHash)>,
    logins: Vec<NewLogin>,
    /// By the hash of each ticket's secret.
    tickets: BTreeMap<[u8; 32], tickets::Kept>,
    secrets: Secrets,
    /// Keys of submits that are done once, by caller.
    once: BTreeMap<(Option<TokenId>, OnceKey), KnownOnce>,
    /// By when they were written.
    audit: BTreeMap<(Timestamp, AuditId), AuditLine>,
    /// The ids of these lines.
    audited: BTreeSet<AuditId>,
    /// Until when totals are asked for.
    totals_asked: Option<Timestamp>,
    totals: Option<WrittenTotals>,
    statistics: statistics::Counts,
    next_seq: i64,
    next_change: i64,
}

#[derive(Debug, Clone)]
struct ChangeRow {
    told: Option<Epoch>,
    jobs: Vec<ChangedJob>,
    /// Memos were written.
    memos: bool,
}

/// A [`Change`] without its head, which is looked up when the news is read.
#[derive(Debug, Clone, Copy)]
struct ChangedJob {
    id: JobId,
    ran: Option<Duration>,
    failed: bool,
    well: bool,
    error: Option<Fingerprint>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Options::default(), Clock::system())
    }
}

impl MemoryStore {
    /// An empty store. All data is lost when its last clone is dropped.
    pub fn new(options: Options, clock: Clock) -> Self {
        let (kept, born) = (Arc::new(Kept::new(&options)), clock.now());
        Self { data: Arc::default(), bell: Bell::default(), clock, kept, born }
    }

    /// The same data seen by another process: with bells of its own, which no other handle rings.
    pub fn another_process(&self) -> Self {
        Self { bell: Bell::default(), ..self.clone() }
    }

    /// All there is at this moment, for [`MemoryStore::fail_over`].
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(Box::new(self.data().clone()))
    }

    /// Takes back what was committed since the snapshot, as a failover to a server does that had not received it.
    pub fn fail_over(&self, snapshot: &Snapshot) {
        let mut data = self.data();
        let lineage = Lineage(data.lineage.0 + LEAP);
        *data = Data { lineage, ..(*snapshot.0).clone() };
    }

    fn data(&self) -> MutexGuard<'_, Data> {
        // A panic while the lock is held would be a bug in this file; the data is then not to be trusted.
        self.data.lock().expect("the memory store panicked earlier")
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Submitted>> {
        enqueue::enqueue(self, jobs)
    }

    async fn join(&self, join: Join) -> Result<Joined> {
        nodes::join(self, join)
    }

    async fn beat(&self, beat: Beat) -> Result<BeatReply> {
        nodes::beat(self, beat)
    }

    async fn leave(&self, node: Incarnation) -> Result<bool> {
        nodes::leave(self, node)
    }

    async fn load(&self, load: Load) -> Result<Page> {
        read::load(self, load)
    }

    async fn news(&self, ask: AskNews) -> Result<News> {
        news::news(self, ask)
    }

    async fn assign(&self, assign: Assign) -> Result<Vec<(JobId, AssignReply)>> {
        assign::assign(self, assign)
    }

    async fn assignments(&self, node: Incarnation, known: Vec<BatchId>) -> Result<Mail> {
        assign::assignments(self, node, known)
    }

    async fn settle(&self, settle: Settle) -> Result<Vec<Settled>> {
        settle::settle(self, settle)
    }

    async fn note(&self, node: Incarnation, notes: Vec<Note>) -> Result<Vec<Settled>> {
        story::note(self, node, notes)
    }

    async fn lost_nodes(&self, ask: AskLost) -> Result<Vec<LostNode>> {
        nodes::lost_nodes(self, ask)
    }

    async fn control(&self, interventions: Vec<Intervention>) -> Result<Vec<Settled>> {
        control::control(self, interventions)
    }

    async fn prune(&self, seen: Option<Cursor>, limit: u32) -> Result<u64> {
        prune::prune(self, seen, limit)
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>> {
        read::job(self, id)
    }

    async fn jobs(&self, filter: Filter) -> Result<Vec<Job>> {
        read::jobs(self, filter)
    }

    async fn story(&self, ask: AskStory) -> Result<Story> {
        story::story(self, ask)
    }

    async fn nodes(&self) -> Result<Fleet> {
        nodes::nodes(self)
    }

    async fn recall(&self, kinds: Vec<MemoKind>) -> Result<Vec<Memo>> {
        memo::recall(self, kinds)
    }

    async fn remember(&self, lead: Option<(Incarnation, Epoch)>, memos: Vec<NewMemo>) -> Result<Vec<bool>> {
        memo::remember(self, lead, memos)
    }

    fn bell(&self) -> Bell {
        self.bell.clone()
    }
}

#[async_trait]
impl OperatorStore for MemoryStore {
    async fn create_token(&self, token: NewToken, hash: TokenHash, line: Option<NewAuditLine>) -> Result<Token> {
        tokens::create_token(self, token, hash, line.as_ref())
    }

    async fn find_token(&self, hash: TokenHash) -> Result<FoundToken> {
        tokens::find_token(self, hash)
    }

    async fn tokens(&self) -> Result<(Vec<Token>, Timestamp)> {
        tokens::tokens(self)
    }

    async fn revoke_token(&self, id: TokenId, line: Option<NewAuditLine>) -> Result<Option<Token>> {
        tokens::revoke_token(self, id, line.as_ref())
    }

    async fn note_token_uses(&self, ids: Vec<TokenId>) -> Result<()> {
        tokens::note_token_uses(self, ids)
    }

    async fn log_in(&self, login: NewLogin) -> Result<()> {
        logins::log_in(self, login)
    }

    async fn find_login(&self, hash: TokenHash) -> Result<Option<FoundLogin>> {
        logins::find_login(self, hash)
    }

    async fn log_out(&self, hash: TokenHash) -> Result<()> {
        logins::log_out(self, hash)
    }

    async fn make_ticket(&self, ticket: NewTicket, line: Option<NewAuditLine>) -> Result<()> {
        tickets::make(self, ticket, line.as_ref())
    }

    async fn redeem_ticket(&self, redeem: Redeem) -> Result<Option<FoundTicket>> {
        tickets::redeem(self, redeem)
    }

    async fn find_bearer(&self, hash: TokenHash) -> Result<Option<FoundTicket>> {
        tickets::find_bearer(self, hash)
    }

    async fn submit_once(&self, submit: SubmitOnce) -> Result<Once> {
        once::submit_once(self, submit)
    }

    async fn find_once(&self, caller: Option<TokenId>, key: OnceKey, body: BodyHash) -> Result<Option<Once>> {
        once::find_once(self, caller, key, body)
    }

    async fn list_jobs(&self, ask: AskJobs) -> Result<JobPage> {
        listing::list_jobs(self, &ask)
    }

    async fn audit(&self, ask: AskAudit) -> Result<AuditPage> {
        audit::audit(self, &ask)
    }

    async fn note_secrets(&self, secrets: Secrets) -> Result<()> {
        secrets::note(self, &secrets)
    }

    async fn secrets(&self) -> Result<Secrets> {
        secrets::all(self)
    }

    async fn vitals(&self) -> Result<Vitals> {
        Ok(Vitals::default())
    }

    async fn prune_audited(&self, limit: u32, line: NewAuditLine) -> Result<u64> {
        audit::prune_audited(self, limit, line)
    }

    async fn ask_totals(&self) -> Result<FoundTotals> {
        totals::ask_totals(self)
    }

    async fn write_totals(&self, lead: (Incarnation, Epoch), totals: Totals) -> Result<Option<Timestamp>> {
        totals::write_totals(self, lead, totals)
    }

    async fn watch(&self, ask: AskWatch) -> Result<Watched> {
        watch::watch(self, &ask)
    }

    async fn in_hands(&self, most: u32) -> Result<InHands> {
        watch::in_hands(self, most as usize)
    }

    async fn begin_statistics(&self, epoch: Epoch) -> Result<BegunStatistics> {
        statistics::begin(self, epoch)
    }

    async fn write_statistics(&self, write: WriteStatistics) -> Result<()> {
        statistics::write(self, write)
    }

    async fn statistics(&self, ask: AskStatistics) -> Result<Vec<TimedRow>> {
        statistics::rows(self, &ask)
    }

    async fn error_statistics(&self, ask: AskErrors) -> Result<Vec<TimedError>> {
        statistics::errors(self, &ask)
    }

    async fn statistics_totals(&self) -> Result<Vec<StatisticsRow>> {
        statistics::totals(self)
    }

    async fn merge_statistics(&self) -> Result<bool> {
        statistics::merge(self)
    }

    async fn worker(&self, node: Incarnation) -> Result<Option<FoundWorker>> {
        workers::worker(self, node)
    }

    async fn beat_workers(&self, beats: Vec<WorkerBeat>) -> Result<BeatenWorkers> {
        workers::beat(self, &beats)
    }

    async fn mail_waiting(&self, nodes: Vec<Incarnation>) -> Result<Vec<Incarnation>> {
        workers::mail_waiting(self, nodes)
    }
}
