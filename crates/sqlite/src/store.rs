//! How a file is opened, and which module does which verb.

use std::{
    collections::BTreeMap,
    fmt::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, ffi};
use turnwise_core::{
    Incarnation, Job, JobId, NewJob, OnceKey, Timestamp,
    access::{NewToken, Token, TokenId},
    audit::NewAuditLine,
    doctor::Vitals,
    secret::Secrets,
    statistics::{ErrorRow, Row as StatisticsRow},
    story::Story,
    time::parse_span,
    totals::Totals,
};
use turnwise_store::{
    AskAudit, AskErrors, AskJobs, AskLost, AskNews, AskStatistics, AskStory, AskWatch, Assign, AssignReply, AuditPage,
    BatchId, Beat, BeatReply, BegunStatistics, Bell, BodyHash, Cursor, Epoch, Filter, Fleet, FoundLogin, FoundToken,
    FoundTotals, InHands, Intervention, JobPage, Join, Joined, Keeps, Kept, Load, LostNode, Mail, Memo, MemoKind,
    NewLogin, NewMemo, News, Note, Once, OperatorStore, Options, Page, Result, Schema, Settle, Settled, Store,
    StoreError, SubmitOnce, Submitted, TimedRow, TokenHash, Watched, WriteStatistics,
    memory::Clock,
    moving::{Cell, Hindrance, Import, MoveId, MoveStore, MovedRow, Moving, Part},
    operators::new_secrets,
    operators::totals_text,
};

use crate::{
    assign, audit,
    bell::{Ring, Watcher},
    control, enqueue,
    errors::{Failure, explain},
    listing, logins, memo, migrate, moving, news, nodes, once, prune,
    read::{self, Reader},
    secrets, settle, statistics, story, tokens, totals, unique, vitals, watch,
    writer::Writer,
};

/// An answered caller's job survives a loss of power, not only of the process.
const SYNCHRONOUS: &str = "full";
/// Older ones can corrupt a file in WAL mode when two connections write and checkpoint at the same moment.
const LEAST_SQLITE: i32 = 3_051_003;
/// How long a write waits for another process's transaction before it is [`StoreError::Transient`].
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a read may take; as a statement on PostgreSQL.
const LONGEST_READ: Duration = Duration::from_secs(30);
/// All statements of this crate fit, so that each is prepared once per connection.
const STATEMENTS: usize = 200;
/// A WAL that grew under a long read is cut back to this many bytes.
const WAL_BYTES: i64 = 64 * 1024 * 1024;
/// Pages the writer keeps at hand, in KiB: taken only as they are touched. Batches of some thousand jobs from all over the table
/// fit. With SQLite's 2 MiB one does not: its pages are written out before the commit, and read again.
const CACHE_KIB: i64 = 16 * 1024;
/// Bytes of a page, where a file is made: twice SQLite's own. A batch of jobs then touches half as many pages, and each costs
/// two calls of the system and a place in the WAL. A file that is there keeps what it has.
const PAGE_BYTES: i64 = 8_192;
/// Bytes in the WAL that make the writer copy its pages into the file. More at a time than SQLite's 1,000 pages: one that was
/// changed several times in between is copied once.
const CHECKPOINT_BYTES: i64 = 16 * 1024 * 1024;

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
    /// [`StoreError::Refused`] says what to mend: a missing directory, a file that is something else or read-only, a
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
        Ok((!location.in_memory()).then_some(location.path))
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
        self.write(Ring::MAIL, move |conn, now| assign::assign(conn, &assign, now)).await
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
        let ring = Ring { news: true, mail: true, lead: false };
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

    async fn error_statistics(&self, ask: AskErrors) -> Result<Vec<ErrorRow>> {
        self.read(For::People, move |conn, _| statistics::errors(conn, &ask)).await
    }

    async fn statistics_totals(&self) -> Result<Vec<StatisticsRow>> {
        self.read(For::People, |conn, _| statistics::totals(conn)).await
    }

    async fn merge_statistics(&self) -> Result<bool> {
        self.write(Ring::NONE, statistics::merge).await
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

/// Where the jobs are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    path: PathBuf,
    busy_timeout: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Write,
    Read,
}

/// Refuses a url that cannot be read; opens nothing.
pub fn check_url(path_or_url: &str) -> Result<()> {
    Location::parse(path_or_url).map(drop)
}

impl Location {
    pub(crate) fn parse(path_or_url: &str) -> Result<Self> {
        let (path, parameters) = match path_or_url.strip_prefix("sqlite:") {
            Some(url) => url.split_once('?').unwrap_or((url, "")),
            None => (path_or_url, ""),
        };
        let path = if path_or_url.starts_with("sqlite://") { &path[2..] } else { path };
        if path.is_empty() {
            let text = format!("{path_or_url:?} names no file; write it like sqlite:jobs.db");
            return Err(StoreError::Refused(text));
        }
        let mut location = Self { path: PathBuf::from(path), busy_timeout: BUSY_TIMEOUT };
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("busy_timeout", span)) => {
                    let span = parse_span("busy_timeout", span);
                    location.busy_timeout = span.map_err(|invalid| StoreError::Refused(invalid.to_string()))?;
                }
                _ => {
                    let text = format!("{path_or_url:?}: {parameter:?} is not a setting; there is busy_timeout=10s");
                    return Err(StoreError::Refused(text));
                }
            }
        }
        Ok(location)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the file lies that was just opened.
    fn place(&self) -> OpenFile {
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        let file = if self.in_memory() { None } else { OpenFile::number(&path).ok() };
        OpenFile { path, file, log: None }
    }

    pub(crate) fn in_memory(&self) -> bool {
        self.path == Path::new(":memory:")
    }

    /// A connection, set up for its purpose. Only a writer makes a file.
    pub(crate) fn open(&self, purpose: Purpose) -> Result<Connection> {
        check_version(rusqlite::version_number())?;
        self.check_directory()?;
        match purpose {
            Purpose::Write => {
                let conn = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
                self.begin_writing(&conn).map_err(|error| self.explain(error))?;
                Ok(conn)
            }
            Purpose::Read => {
                let conn = self.connect_to_read()?;
                conn.pragma_update(None, "query_only", true).map_err(|error| self.explain(error))?;
                Ok(conn)
            }
        }
    }

    /// A connection that has read nothing yet, and changed nothing. SQLite makes it one that only reads, if this process may not write
    /// the file.
    fn connect(&self, flags: OpenFlags) -> Result<Connection> {
        // Each connection lives on one thread. No URI: a path is taken to the letter.
        let conn = Connection::open_with_flags(&self.path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX);
        self.set_up(conn).map_err(|error| self.explain(error))
    }

    fn set_up(&self, conn: rusqlite::Result<Connection>) -> rusqlite::Result<Connection> {
        let conn = conn?;
        conn.busy_timeout(self.busy_timeout)?;
        conn.set_prepared_statement_cache_capacity(STATEMENTS);
        conn.pragma_update(None, "temp_store", "memory")?;
        Ok(conn)
    }

    fn connect_to_read(&self) -> Result<Connection> {
        let conn = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // A file in WAL mode is read with two more files beside it. Where no process has made them, and this one may not write the file,
        // they would be left behind as this user's, and in the way of the file's owner.
        let readable = |conn: &Connection| conn.query_row("select count(*) from sqlite_schema", (), |_| Ok(()));
        let cannot = |error: &rusqlite::Error| error.sqlite_error_code() == Some(ErrorCode::CannotOpen);
        let is_readonly = conn.is_readonly(MAIN_DB).map_err(|error| self.explain(error))?;
        let unreadable = || readable(&conn).is_err_and(|error| cannot(&error));
        if !self.has_log() && (is_readonly || unreadable()) && self.in_wal_mode() {
            let conn = self.connect_by_uri("immutable=1");
            return self.set_up(conn).map_err(|error| self.explain(error));
        }
        Ok(conn)
    }

    /// Only SQLite may open the file. When a process closes a file, the operating system drops all locks of this process on it, those of
    /// its other connections too; another program that closes the file then finds it in use by no one, and (with a SQLite before 3.51)
    /// deletes the log that this process goes on writing to. SQLite knows its own connections and keeps a file open as long as one of them holds a lock.
    ///
    /// So not even the head of the file is read here. A connection that takes no locks has no log, and cannot open a file that needs one.
    /// A file that it cannot read for another reason is left to an ordinary connection to explain.
    fn in_wal_mode(&self) -> bool {
        let read = |conn: Connection| conn.query_row("select count(*) from sqlite_schema", (), |_| Ok(()));
        let without_locks = self.connect_by_uri("nolock=1");
        without_locks
            .is_ok_and(|conn| read(conn).is_err_and(|error| error.sqlite_error_code() == Some(ErrorCode::CannotOpen)))
    }

    fn connect_by_uri(&self, parameter: &str) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(uri(&self.path, parameter), flags)
    }

    /// Whether there is something in the log beside the file, or a process may have it open.
    fn has_log(&self) -> bool {
        self.log().exists()
    }

    /// SQLite's log, which lies beside the file itself, also where the path is a link to it.
    pub(crate) fn log(&self) -> PathBuf {
        let file = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let mut log = file.into_os_string();
        log.push("-wal");
        log.into()
    }

    /// Makes a connection ready to write.
    pub(crate) fn begin_writing(&self, conn: &Connection) -> rusqlite::Result<()> {
        if conn.is_readonly(MAIN_DB)? {
            return Err(read_only(self.refused(READ_ONLY).to_string()));
        }
        let ready = || {
            conn.pragma_update(None, "page_size", PAGE_BYTES)?;
            self.use_wal(conn)?;
            conn.pragma_update(None, "synchronous", SYNCHRONOUS)?;
            conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
            let page_bytes: i64 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
            conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_BYTES / page_bytes)?;
            conn.pragma_update(None, "journal_size_limit", WAL_BYTES)
        };
        ready().map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                read_only(self.explain(error).to_string())
            }
            _ => error,
        })
    }

    /// Readers then never wait for the writer. The mode is the file's, so all but the first find it done; several first
    /// ones at once get "busy" without SQLite's own waiting, hence the loop.
    fn use_wal(&self, conn: &Connection) -> rusqlite::Result<()> {
        let begun = Instant::now();
        loop {
            match conn.query_row("pragma journal_mode = wal", (), |row| row.get::<_, String>(0)) {
                Err(error)
                    if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                        && begun.elapsed() < self.busy_timeout =>
                {
                    std::thread::sleep(Duration::from_millis(10));
                }
                mode => return mode.map(drop),
            }
        }
    }

    fn check_directory(&self) -> Result<()> {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => {
                let text = format!("the directory {:?} of {:?} does not exist; create it first", parent, self.path);
                Err(StoreError::Refused(text))
            }
            _ => Ok(()),
        }
    }

    /// As [`explain`], naming the file where a person has to do something about it.
    pub(crate) fn explain(&self, error: rusqlite::Error) -> StoreError {
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => self.refused("is not a SQLite database; name another file"),
            // It says itself what to do.
            Some(ErrorCode::ReadOnly) if is_read_only(&error) => StoreError::Refused(error.to_string()),
            Some(ErrorCode::ReadOnly) => self.refused(READ_ONLY),
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                self.refused("cannot be opened; see that it is a file, and that it and its directory are writable")
            }
            _ => explain(error),
        }
    }

    pub(crate) fn refused(&self, problem: &str) -> StoreError {
        StoreError::Refused(format!("{:?} {problem}", self.path))
    }
}

/// What a file must be to be written.
const READ_ONLY: &str = "is read-only; make it and its directory writable";

/// An error that [`explain`] passes on as it is.
fn read_only(text: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_READONLY_DBMOVED), Some(text))
}

fn is_read_only(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_READONLY_DBMOVED)
}

/// The path as SQLite reads it from a URI, with a parameter: `immutable=1` promises that no process changes the file while it is read.
fn uri(path: &Path, parameter: &str) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = String::from("file://");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'_' | b'-' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(char::from(*byte)),
            // Writing to a String cannot fail.
            _ => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri + "?" + parameter
}

/// A file that is open and its log, to distinguish them from others at their paths.
#[derive(Debug)]
pub(crate) struct OpenFile {
    path: PathBuf,
    /// `None`: they cannot be distinguished.
    file: Option<(u64, u64)>,
    /// Of the writer's connection, once it has one.
    log: Option<(PathBuf, (u64, u64))>,
}

impl OpenFile {
    /// Remembers the log that the connection of a writer has just opened: it stays the same one as long as that is open.
    pub(crate) fn remember_log(&mut self, location: &Location) {
        let log = location.log();
        self.log = self.file.and_then(|_| Self::number(&log).ok()).map(|number| (log, number));
    }

    /// Whether the paths still lead to the file and its log. SQLite does not look once they are open: what is committed into one that was
    /// deleted or replaced is seen by this process alone, and gone with it.
    pub(crate) fn check(&self) -> rusqlite::Result<()> {
        let Some(file) = self.file else { return Ok(()) };
        if let Some(problem) = Self::problem(&self.path, file) {
            let text = format!(
                "the database file {:?} {problem} while this process had it open, so nothing more is written to it; put it back, \
                 or restart this process to go on with what is there",
                self.path
            );
            return Err(read_only(text));
        }
        if let Some((log, number)) = &self.log
            && let Some(problem) = Self::problem(log, *number)
        {
            let text = format!(
                "the log {log:?} of the database file {problem} while this process had it open, so nothing more is written to it; \
                 restart this process to go on with what is in the file, and see that no program opens the file by other means than SQLite"
            );
            return Err(read_only(text));
        }
        Ok(())
    }

    fn problem(path: &Path, opened: (u64, u64)) -> Option<&'static str> {
        match Self::number(path) {
            Ok(now) if now == opened => None,
            Ok(_) => Some("was replaced by another file"),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some("was deleted or moved away"),
            // That it cannot be seen does not mean that it is gone.
            Err(_) => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn unknown() -> Self {
        Self { path: PathBuf::new(), file: None, log: None }
    }

    /// Device and inode.
    #[cfg(unix)]
    fn number(path: &Path) -> std::io::Result<(u64, u64)> {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).map(|file| (file.dev(), file.ino()))
    }

    #[cfg(not(unix))]
    fn number(_: &Path) -> std::io::Result<(u64, u64)> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

fn check_version(number: i32) -> Result<()> {
    let print = |number: i32| format!("{}.{}.{}", number / 1_000_000, number / 1_000 % 1_000, number % 1_000);
    if number >= LEAST_SQLITE {
        return Ok(());
    }
    let (is, least) = (print(number), print(LEAST_SQLITE));
    Err(StoreError::Refused(format!("SQLite {is} is linked in, at least {least} is needed; build with a newer one")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_be_written_as_a_url() {
        for (text, path) in [
            ("jobs.db", "jobs.db"),
            ("/var/jobs.db", "/var/jobs.db"),
            ("a?b.db", "a?b.db"),
            ("sqlite:jobs.db", "jobs.db"),
            ("sqlite:/var/jobs.db", "/var/jobs.db"),
            ("sqlite://jobs.db", "jobs.db"),
            ("sqlite:///var/jobs.db", "/var/jobs.db"),
            ("sqlite::memory:", ":memory:"),
        ] {
            assert_eq!(Location::parse(text).unwrap().path(), Path::new(path), "{text}");
        }
        assert_eq!(Location::parse("sqlite:a?busy_timeout=1s").unwrap().busy_timeout, Duration::from_secs(1));
        for text in ["", "sqlite:", "sqlite://", "sqlite:a?mode=ro", "sqlite:a?busy_timeout=1"] {
            assert!(matches!(Location::parse(text), Err(StoreError::Refused(_))), "{text}");
        }
    }

    #[test]
    fn a_path_is_taken_to_the_letter_also_in_a_uri() {
        let uri = uri(Path::new("/var/a b?c#d%25é.db"), "immutable=1");
        assert_eq!(uri, "file:///var/a%20b%3Fc%23d%2525%C3%A9.db?immutable=1");
    }

    #[test]
    fn an_old_sqlite_is_refused_with_both_versions() {
        let error = check_version(3_051_002).unwrap_err().to_string();
        assert!(error.contains("3.51.2") && error.contains("3.51.3"), "{error}");
        assert!(check_version(rusqlite::version_number()).is_ok());
    }
}
