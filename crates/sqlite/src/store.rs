//! How a store is opened, and which module does which verb.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags};
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
    FoundTicket, FoundToken, FoundTotals, FoundWorker, InHands, Intervention, JobPage, Join, Joined, Keeps, Kept, Load,
    LostNode, Mail, Memo, MemoKind, NewLogin, NewMemo, NewTicket, News, Note, Once, OperatorStore, Options, Page,
    Redeem, Result, Schema, Settle, Settled, Store, SubmitOnce, Submitted, TimedError, TimedRow, TokenHash, Watched,
    WorkerBeat, WriteStatistics,
    memory::Clock,
    moving::{Cell, Hindrance, Import, MoveId, MoveStore, MovedRow, Moving, Part},
    operators::new_secrets,
    operators::totals_text,
};

use crate::{
    assign, audit,
    bell::{Ring, Watcher},
    control, enqueue,
    errors::Failure,
    listing,
    location::{Location, Purpose, SYNCHRONOUS},
    logins, memo, migrate, moving, news, nodes, once, prune,
    read::{self, Reader},
    secrets, settle, statistics, story, tickets, tokens, totals, unique, vitals, watch, workers,
    writer::Writer,
};

/// How long a read may take; as a statement on PostgreSQL.
const LONGEST_READ: Duration = Duration::from_secs(30);

/// Jobs in a SQLite file. Cheap to clone; the file is closed when the last clone is dropped.
///
/// Any number of processes of one machine may have the same file open. All writes of one handle and its clones go
/// through one thread, which commits what has queued up at once; reads have threads of their own.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    writer: Writer,
    /// `None` in memory, where the writer's connection is the only one there is.
    readers: Option<Readers>,
    /// Stops with the store; it is never called.
    _watcher: Option<Watcher>,
    bell: Bell,
    clock: Clock,
    kept: Arc<Kept>,
    keys: Arc<unique::KeyCursor>,
    location: Location,
}

/// Two, so that a person's long listing does not hold the dispatcher up.
#[derive(Debug)]
struct Readers {
    control: Reader,
    people: Reader,
}

#[derive(Clone, Copy)]
enum For {
    Control,
    People,
}

impl SqliteStore {
    /// What has been done when a commit is answered: the writer's settings about that, by name.
    pub fn durability(&self) -> BTreeMap<String, String> {
        [("journal_mode", "wal"), ("synchronous", SYNCHRONOUS)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    /// Opens `path_or_url`, creating the file and bringing its schema up to date.
    ///
    /// Accepted are a plain path, `sqlite:jobs.db`, `sqlite://jobs.db`, `sqlite:///var/lib/jobs.db`, and
    /// `sqlite::memory:` for jobs that shall not outlive the store. `?busy_timeout=30s` after a URL says how long a
    /// write waits for another process (10 s by default).
    ///
    /// [`StoreError::Refused`](turnwise_store::StoreError::Refused) says what to mend: a missing directory, a file that is something else or read-only, a
    /// schema that this version is too old for.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turnwise_core::{JobId, Json, NewJob, TaskName};
    /// use turnwise_sqlite::SqliteStore;
    /// use turnwise_store::Store;
    ///
    /// let store = SqliteStore::open("sqlite::memory:", Default::default())?;
    /// let job = NewJob::new(JobId::from_parts(1, [7; 10]), TaskName::new("ship")?, Json::null());
    /// store.enqueue(vec![job.clone()]).await?;
    /// assert_eq!(store.job(job.id).await?.map(|job| job.task), Some(job.task));
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(path_or_url: &str, options: Options) -> Result<Self> {
        Self::open_with_clock(path_or_url, options, Clock::system())
    }

    /// As [`SqliteStore::open`], but as [`Options::schema`] says: what is missing may be refused instead of made.
    pub fn connect(path_or_url: &str, options: Options) -> Result<Self> {
        let location = Location::parse(path_or_url)?;
        if location.in_memory() {
            return Self::start(location, options, Clock::system());
        }
        migrate::refuse_pending(&location, options.schema)?;
        if options.schema == Schema::Existing {
            return Self::start_as_it_is(location, &options, Clock::system());
        }
        Self::start(location, options, Clock::system())
    }

    /// As [`SqliteStore::open`], with another clock than the machine's: every process of a file must have the same.
    pub fn open_with_clock(path_or_url: &str, options: Options, clock: Clock) -> Result<Self> {
        Self::start(Location::parse(path_or_url)?, options, clock)
    }

    fn start(location: Location, options: Options, clock: Clock) -> Result<Self> {
        let conn = location.open(Purpose::Write)?;
        migrate::run(&conn, &location)?;
        Self::start_with(conn, None, location, &options, clock)
    }

    /// For callers that may only look: the file stays as it is, byte by byte, until the first write.
    fn start_as_it_is(location: Location, options: &Options, clock: Clock) -> Result<Self> {
        let conn = location.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let unready = Some(location.clone());
        Self::start_with(conn, unready, location, options, clock)
    }

    /// `unready`: the connection is to be set up with the first write.
    fn start_with(
        conn: Connection,
        unready: Option<Location>,
        location: Location,
        options: &Options,
        clock: Clock,
    ) -> Result<Self> {
        let bell = Bell::default();
        let (readers, watcher) = if location.in_memory() {
            (None, None)
        } else {
            let reader = |name| Reader::start(name, location.open(Purpose::Read)?, clock.clone(), LONGEST_READ);
            let readers = Readers { control: reader("turnwise-reader")?, people: reader("turnwise-listing")? };
            (Some(readers), Some(Watcher::start(location.open(Purpose::Read)?, bell.clone())?))
        };
        let mut place = location.place();
        if unready.is_none() {
            place.remember_log(&location);
        }
        let writer = Writer::start(conn, unready, place, bell.clone(), clock.clone())?;
        let keys = Arc::default();
        Ok(Self {
            inner: Arc::new(Inner {
                writer,
                readers,
                _watcher: watcher,
                bell,
                clock,
                kept: Arc::new(Kept::new(options)),
                keys,
                location,
            }),
        })
    }

    /// The file that `path_or_url` names, if it is one; `None` where jobs are in memory.
    pub fn file(path_or_url: &str) -> Result<Option<PathBuf>> {
        let location = Location::parse(path_or_url)?;
        Ok((!location.in_memory()).then(|| location.path().to_owned()))
    }

    /// As the function [`enqueue_in`](crate::enqueue_in), by this store's clock.
    pub fn enqueue_in(&self, conn: &Connection, jobs: &[NewJob]) -> Result<Vec<Submitted>> {
        enqueue::enqueue_at(conn, jobs, self.inner.clock.now())
    }

    async fn write<T, W>(&self, ring: Ring, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Connection, Timestamp) -> std::result::Result<T, Failure> + Send + 'static,
    {
        self.inner.writer.write(move |conn, now| Ok((work(conn, now)?, ring))).await
    }

    pub(crate) fn keeps(&self) -> Keeps {
        self.inner.kept.now()
    }

    /// For work that is a task's, not ours.
    pub(crate) async fn write_for_a_task<W>(&self, work: W) -> Result<()>
    where
        W: FnOnce(&Connection, Timestamp) -> std::result::Result<((), Ring), Failure> + Send + 'static,
    {
        self.inner.writer.write_alone(work).await
    }

    async fn read<T, R>(&self, whom: For, read: R) -> Result<T>
    where
        T: Send + 'static,
        R: FnOnce(&Connection, Timestamp) -> std::result::Result<T, Failure> + Send + 'static,
    {
        match (&self.inner.readers, whom) {
            (Some(readers), For::Control) => readers.control.read(read).await,
            (Some(readers), For::People) => readers.people.read(read).await,
            (None, _) => self.write(Ring::NONE, read).await,
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Submitted>> {
        self.write(Ring::NEWS, move |conn, now| enqueue::enqueue(conn, &jobs, now)).await
    }

    async fn join(&self, join: Join) -> Result<Joined> {
        self.inner.writer.write(move |conn, now| nodes::join(conn, &join, now)).await
    }

    async fn beat(&self, beat: Beat) -> Result<BeatReply> {
        let kept = Arc::clone(&self.inner.kept);
        let beat = move |conn: &Connection, now| {
            if !beat.only_look {
                let set = memo::recall(conn, vec![MemoKind::Installation])?;
                kept.hear_memo(set.last().map(|memo| memo.value.as_str()));
            }
            nodes::beat(conn, &beat, now)
        };
        self.inner.writer.write(beat).await
    }

    async fn leave(&self, node: Incarnation) -> Result<bool> {
        self.write(Ring::LEAD, move |conn, _| nodes::leave(conn, node)).await
    }

    async fn load(&self, load: Load) -> Result<Page> {
        self.read(For::Control, move |conn, now| news::load(conn, load, now)).await
    }

    async fn news(&self, ask: AskNews) -> Result<News> {
        self.read(For::Control, move |conn, now| news::news(conn, &ask, now)).await
    }

    async fn assign(&self, assign: Assign) -> Result<Vec<(JobId, AssignReply)>> {
        let nodes: BTreeSet<_> = assign.picks.iter().map(|pick| pick.node).collect();
        let replies = self.write(Ring::MAIL, move |conn, now| assign::assign(conn, &assign, now)).await?;
        nodes.into_iter().for_each(|node| self.inner.bell.ring_for(node));
        Ok(replies)
    }

    async fn assignments(&self, node: Incarnation, known: Vec<BatchId>) -> Result<Mail> {
        self.read(For::Control, move |conn, _| assign::assignments(conn, node, &known)).await
    }

    async fn settle(&self, settle: Settle) -> Result<Vec<Settled>> {
        let retention = self.inner.kept.now().retention;
        let work = move |conn: &Connection, now| {
            let (replies, news) = settle::settle(conn, &settle, retention, now)?;
            Ok((replies, Ring { news, ..Ring::NONE }))
        };
        self.inner.writer.write(work).await
    }

    async fn note(&self, node: Incarnation, notes: Vec<Note>) -> Result<Vec<Settled>> {
        let keep = self.inner.kept.now().log_lines;
        self.write(Ring::NONE, move |conn, _| story::note(conn, node, &notes, keep)).await
    }

    async fn lost_nodes(&self, ask: AskLost) -> Result<Vec<LostNode>> {
        self.write(Ring::NONE, move |conn, now| nodes::lost_nodes(conn, &ask, now)).await
    }

    async fn control(&self, interventions: Vec<Intervention>) -> Result<Vec<Settled>> {
        let retention = self.inner.kept.now().retention;
        let ring = Ring { news: true, mail: true, any: true, lead: false };
        self.write(ring, move |conn, now| control::control(conn, &interventions, retention, now)).await
    }

    async fn prune(&self, seen: Option<Cursor>, limit: u32) -> Result<u64> {
        let retention = self.inner.kept.now().retention;
        let keys = Arc::clone(&self.inner.keys);
        self.write(Ring::NONE, move |conn, now| prune::prune(conn, &keys, seen.as_ref(), limit, retention, now)).await
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>> {
        self.read(For::People, move |conn, now| read::job(conn, id, now)).await
    }

    async fn jobs(&self, filter: Filter) -> Result<Vec<Job>> {
        self.read(For::People, move |conn, now| read::jobs(conn, &filter, now)).await
    }

    async fn story(&self, ask: AskStory) -> Result<Story> {
        self.read(For::People, move |conn, _| story::story(conn, &ask)).await
    }

    async fn nodes(&self) -> Result<Fleet> {
        self.read(For::People, read::fleet).await
    }

    async fn recall(&self, kinds: Vec<MemoKind>) -> Result<Vec<Memo>> {
        let asked = kinds.clone();
        let memos = self.read(For::Control, move |conn, _| memo::recall(conn, kinds)).await?;
        self.inner.kept.hear(&asked, &memos);
        Ok(memos)
    }

    async fn remember(&self, lead: Option<(Incarnation, Epoch)>, memos: Vec<NewMemo>) -> Result<Vec<bool>> {
        self.inner.writer.write(move |conn, now| memo::remember(conn, lead, &memos, now)).await
    }

    fn bell(&self) -> Bell {
        self.inner.bell.clone()
    }
}

#[async_trait]
impl OperatorStore for SqliteStore {
    async fn create_token(&self, token: NewToken, hash: TokenHash, line: Option<NewAuditLine>) -> Result<Token> {
        self.write(Ring::NONE, move |conn, now| tokens::create(conn, token, hash, line.as_ref(), now)).await
    }

    async fn find_token(&self, hash: TokenHash) -> Result<FoundToken> {
        self.read(For::People, move |conn, now| tokens::find(conn, hash, now)).await
    }

    async fn tokens(&self) -> Result<(Vec<Token>, Timestamp)> {
        self.read(For::People, |conn, now| Ok((tokens::all(conn)?, now))).await
    }

    async fn revoke_token(&self, id: TokenId, line: Option<NewAuditLine>) -> Result<Option<Token>> {
        self.write(Ring::NONE, move |conn, now| tokens::revoke(conn, id, line.as_ref(), now)).await
    }

    async fn note_token_uses(&self, ids: Vec<TokenId>) -> Result<()> {
        self.write(Ring::NONE, move |conn, now| tokens::note_uses(conn, &ids, now)).await
    }

    async fn log_in(&self, login: NewLogin) -> Result<()> {
        self.write(Ring::NONE, move |conn, now| logins::log_in(conn, &login, now)).await
    }

    async fn find_login(&self, hash: TokenHash) -> Result<Option<FoundLogin>> {
        self.read(For::People, move |conn, now| logins::find(conn, hash, now)).await
    }

    async fn log_out(&self, hash: TokenHash) -> Result<()> {
        self.write(Ring::NONE, move |conn, _| logins::log_out(conn, hash)).await
    }

    async fn make_ticket(&self, ticket: NewTicket, line: Option<NewAuditLine>) -> Result<()> {
        self.write(Ring::NONE, move |conn, now| tickets::make(conn, &ticket, line.as_ref(), now)).await
    }

    async fn redeem_ticket(&self, redeem: Redeem) -> Result<Option<FoundTicket>> {
        self.write(Ring::NONE, move |conn, now| tickets::redeem(conn, redeem, now)).await
    }

    async fn find_bearer(&self, hash: TokenHash) -> Result<Option<FoundTicket>> {
        self.read(For::People, move |conn, now| tickets::find_bearer(conn, hash, now)).await
    }

    async fn submit_once(&self, submit: SubmitOnce) -> Result<Once> {
        self.inner.writer.write(move |conn, now| once::submit_once(conn, &submit, now)).await
    }

    async fn find_once(&self, caller: Option<TokenId>, key: OnceKey, body: BodyHash) -> Result<Option<Once>> {
        self.read(For::People, move |conn, now| once::find_once(conn, caller, &key, body, now)).await
    }

    async fn list_jobs(&self, ask: AskJobs) -> Result<JobPage> {
        self.read(For::People, move |conn, now| listing::list_jobs(conn, &ask, now)).await
    }

    async fn audit(&self, ask: AskAudit) -> Result<AuditPage> {
        self.read(For::People, move |conn, _| audit::page(conn, &ask)).await
    }

    async fn note_secrets(&self, secrets: Secrets) -> Result<()> {
        let known = self.secrets().await?;
        // Most nodes start with what is noted already, and write nothing then.
        if new_secrets(&known, &secrets)?.is_empty() {
            return Ok(());
        }
        self.write(Ring::NONE, move |conn, _| secrets::note(conn, &secrets)).await
    }

    async fn secrets(&self) -> Result<Secrets> {
        self.read(For::People, |conn, _| secrets::all(conn)).await
    }

    async fn vitals(&self) -> Result<Vitals> {
        let (moving, schema) =
            self.read(For::People, |conn, _| Ok((moving::moving(conn)?, migrate::last_step(conn)?))).await?;
        let closed = moving.filter(Moving::closed).map(|moving| moving.refusal());
        Ok(Vitals { closed, ..vitals::vitals(&self.inner.location, schema, self.durability()) })
    }

    async fn prune_audited(&self, limit: u32, line: NewAuditLine) -> Result<u64> {
        let retention = self.inner.kept.now().retention;
        let keys = Arc::clone(&self.inner.keys);
        let work = move |conn: &Connection, now| {
            let deleted = prune::prune(conn, &keys, None, limit, retention, now)?;
            if deleted > 0 {
                audit::write(conn, Some(&line.keeping(retention)), now)?;
            }
            Ok(deleted)
        };
        self.write(Ring::NONE, work).await
    }

    async fn ask_totals(&self) -> Result<FoundTotals> {
        let (found, is_written) = self.read(For::People, totals::find).await?;
        if is_written {
            self.inner.writer.write(totals::ask).await?;
        }
        Ok(found)
    }

    async fn write_totals(&self, lead: (Incarnation, Epoch), totals: Totals) -> Result<Option<Timestamp>> {
        let text = totals_text(&totals)?;
        self.write(Ring::NONE, move |conn, now| totals::write(conn, lead, &text, now)).await
    }

    async fn watch(&self, ask: AskWatch) -> Result<Watched> {
        self.read(For::People, move |conn, now| watch::watch(conn, &ask, now)).await
    }

    async fn in_hands(&self, most: u32) -> Result<InHands> {
        self.read(For::People, move |conn, now| watch::in_hands(conn, most as usize, now)).await
    }

    async fn begin_statistics(&self, epoch: Epoch) -> Result<BegunStatistics> {
        self.write(Ring::NONE, move |conn, _| statistics::begin(conn, epoch)).await
    }

    async fn write_statistics(&self, write: WriteStatistics) -> Result<()> {
        self.write(Ring::NONE, move |conn, _| statistics::write(conn, &write)).await
    }

    async fn statistics(&self, ask: AskStatistics) -> Result<Vec<TimedRow>> {
        self.read(For::People, move |conn, _| statistics::rows(conn, &ask)).await
    }

    async fn error_statistics(&self, ask: AskErrors) -> Result<Vec<TimedError>> {
        self.read(For::People, move |conn, _| statistics::errors(conn, &ask)).await
    }

    async fn statistics_totals(&self) -> Result<Vec<StatisticsRow>> {
        self.read(For::People, |conn, _| statistics::totals(conn)).await
    }

    async fn merge_statistics(&self) -> Result<bool> {
        self.write(Ring::NONE, statistics::merge).await
    }

    async fn worker(&self, node: Incarnation) -> Result<Option<FoundWorker>> {
        let kept = Arc::clone(&self.inner.kept);
        let find = move |conn: &Connection, now| {
            let set = memo::recall(conn, vec![MemoKind::Installation])?;
            kept.hear_memo(set.last().map(|memo| memo.value.as_str()));
            workers::worker(conn, node, now)
        };
        self.read(For::Control, find).await
    }

    async fn beat_workers(&self, beats: Vec<WorkerBeat>) -> Result<BeatenWorkers> {
        let kept = Arc::clone(&self.inner.kept);
        let beat = move |conn: &Connection, now| {
            let set = memo::recall(conn, vec![MemoKind::Installation])?;
            kept.hear_memo(set.last().map(|memo| memo.value.as_str()));
            workers::beat(conn, &beats, now)
        };
        self.inner.writer.write(beat).await
    }

    async fn mail_waiting(&self, nodes: Vec<Incarnation>) -> Result<Vec<Incarnation>> {
        self.read(For::Control, move |conn, _| workers::mail_waiting(conn, nodes)).await
    }
}

#[async_trait]
impl MoveStore for SqliteStore {
    async fn moving(&self) -> Result<Option<Moving>> {
        self.read(For::People, |conn, _| moving::moving(conn)).await
    }

    async fn close(&self, moving: Moving) -> Result<std::result::Result<(), Hindrance>> {
        self.write(Ring::NONE, move |conn, now| moving::close(conn, &moving, now)).await
    }

    async fn export(&self, part: &'static Part, after: Vec<Cell>, limit: u32) -> Result<Vec<MovedRow>> {
        self.read(For::People, move |conn, _| moving::export(conn, part, &after, limit)).await
    }

    async fn import(&self, import: Import) -> Result<bool> {
        self.write(Ring::NONE, move |conn, _| moving::import(conn, &import)).await
    }

    async fn finish(&self, id: MoveId) -> Result<bool> {
        self.write(Ring::NONE, move |conn, _| moving::finish(conn, id)).await
    }

    async fn give_up(&self, id: MoveId) -> Result<bool> {
        self.write(Ring::NONE, move |conn, _| moving::give_up(conn, id)).await
    }
}
