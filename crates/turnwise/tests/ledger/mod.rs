//! A bank: accounts, one entry per deposit, and a receipt for each. Whatever happens to its tasks, the books must balance.

#![allow(dead_code, reason = "each test file uses its part")]

use std::{sync::OnceLock, time::Duration};

use turnwise::{
    Config, Ctx, Executor, Filter, Job, JobId, NodeName, Outcome, Registry, SqliteTx, State, TaskError, Turnwise, Tx,
    rusqlite, task,
};
use turnwise_testpg::{Cluster, PgBouncer, PoolMode};

pub(crate) const ACCOUNTS: i64 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum How {
    Well,
    Error,
    Fail,
    Panic,
    /// Takes longer than it may.
    Hang,
    /// Goes on until it is asked to stop, and then ends as if all were well.
    HeedsLate,
    /// Is cancelled at the last moment.
    CancelledLast,
    Next,
    SnoozeOnce,
    /// Gives its slot back for a while after it has written, and begins anew.
    Sleeps,
    /// A statement fails, and the task ignores the error.
    Swallow,
    /// The database finds out only at the commit.
    Deferred,
    /// Also writes into another file, which another process may be reading.
    Elsewhere,
    /// Works with fewer rights from then on.
    StepsDown,
    /// Leaves all kinds of things behind in its session.
    Litters,
    LittersAndFails,
    /// Fails if another task has left something in the same session.
    FindsClean,
    /// Loses its connection the first time, and ignores it.
    CutOnce,
    /// Loses its connection the first time, and returns the error.
    CutOnceAndMinds,
    CutsAlways,
    /// In what is handed over for the end.
    ErrorAtEnd,
    PanicAtEnd,
    HangAtEnd,
}

#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub(crate) struct Deposit {
    pub(crate) account: i64,
    pub(crate) how: How,
    pub(crate) millis: u64,
}

pub(crate) fn deposit(how: How) -> Deposit {
    Deposit { account: 1, how, millis: 0 }
}

/// One entry a job: a second one would be seen.
const ENTER: &str = "insert into entry (job, account) values ($1, $2)";
const BOOK: &str = "update account set balance = balance + 1 where id = $1";

/// A sequence goes on whatever becomes of the transaction: it remembers the session.
const LITTER: &str = "select setval('seen', pg_backend_pid()); create temp table scrap (n int); set work_mem = '77MB';
    listen gossip; select pg_advisory_lock(4711); set role pg_monitor";
const CLEAN: &str = "select (select last_value from seen) = pg_backend_pid(),
    to_regclass('pg_temp.scrap') is null and current_setting('work_mem') <> '77MB' and current_user = session_user
        and not exists (select from pg_listening_channels())
        and not exists (select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())";

const ENDLESS: &str =
    "insert into entry with recursive n (i) as (select 1 union all select i + 1 from n) select i, i from n where i < 0";
const CUT: &str = "select pg_terminate_backend(pg_backend_pid())";

#[task("deposit", retry = "none", register = false)]
pub(crate) async fn into_postgres(args: Deposit, ctx: Ctx, tx: &Tx) -> Result<Outcome, TaskError> {
    tx.execute(ENTER, &[&ctx.id().to_string(), &args.account]).await?;
    tx.execute(BOOK, &[&args.account]).await?;
    tx.submit(receipt.job(ctx.id().to_string())).await?;
    tx.progress(1, 1, "deposited");
    match args.how {
        How::Swallow => drop(tx.execute("insert into nowhere values (1)", &[]).await),
        How::Deferred => drop(tx.execute("insert into strict values (7), (7)", &[]).await?),
        How::StepsDown => tx.batch_execute("set local role pg_monitor").await?,
        How::CutsAlways => drop(tx.batch_execute(CUT).await),
        How::CutOnce if ctx.fence().0 == 1 => drop(tx.batch_execute(CUT).await),
        How::CutOnceAndMinds if ctx.fence().0 == 1 => tx.batch_execute(CUT).await?,
        How::Litters | How::LittersAndFails => tx.batch_execute(LITTER).await?,
        How::FindsClean => {
            let row = tx.query_one(CLEAN, &[]).await?;
            if !row.get::<_, bool>(0) {
                return Err(TaskError::new("it is not the same session"));
            }
            if !row.get::<_, bool>(1) {
                return Err(TaskError::new("another task has left something behind"));
            }
        }
        _ => {}
    }
    end(args, ctx).await
}

#[task("deposit", retry = "none", register = false)]
pub(crate) async fn into_sqlite(args: Deposit, ctx: Ctx, tx: SqliteTx) -> Result<Outcome, TaskError> {
    let job = ctx.id().to_string();
    tx.progress(1, 1, "deposited").at_end(move |db| {
        db.execute(ENTER, (&job, args.account))?;
        db.execute(BOOK, [args.account])?;
        db.submit(receipt.job(job))?;
        match args.how {
            How::Deferred => drop(db.execute("insert into strict values (77)", ())?),
            How::HangAtEnd => drop(db.execute(ENDLESS, ())?),
            How::Elsewhere => {
                // Attached once: a connection keeps it.
                let _ = db.execute("attach ?1 as elsewhere", [elsewhere(db.path().unwrap_or_default())]);
                db.execute("insert into elsewhere.copy values (1)", ())?;
            }
            _ => {}
        }
        match args.how {
            How::ErrorAtEnd => Err(TaskError::new("no more ink")),
            How::PanicAtEnd => panic!("the inkwell fell over"),
            _ => Ok(()),
        }
    });
    end(args, ctx).await
}

/// The other file of a bank in SQLite.
pub(crate) fn elsewhere(bank: &str) -> String {
    format!("{bank}.copy")
}

async fn end(args: Deposit, ctx: Ctx) -> Result<Outcome, TaskError> {
    tokio::time::sleep(Duration::from_millis(args.millis)).await;
    match args.how {
        How::LittersAndFails => return Err(TaskError::new("no more paper")),
        How::Error => return Err(TaskError::new("the bank is closed")),
        How::Fail => return Ok(Outcome::fail("no such account")),
        How::Panic => panic!("robbers"),
        How::Hang => std::future::pending().await,
        How::HeedsLate => ctx.cancelled().await,
        How::CancelledLast => {
            let bank = ctx.state::<Turnwise>().ok_or_else(|| TaskError::new("no bank"))?;
            bank.cancel(ctx.id()).await?;
        }
        How::Next => return Ok(Outcome::next(receipt.job("next".to_owned()))),
        How::Sleeps => ctx.sleep(Duration::from_millis(1_500)).await?,
        How::SnoozeOnce => return Ok(Outcome::snooze(Duration::from_secs(3600))),
        _ => {}
    }
    Ok(Outcome::done_with(&args.account))
}

#[task("receipt", register = false)]
pub(crate) async fn receipt(_deposit: String, _bank: State<Turnwise>) {}

pub(crate) struct Bank {
    pub(crate) turnwise: Turnwise,
    pub(crate) url: String,
    _folder: tempfile::TempDir,
}

const TABLES: &str = "create table account (id bigint primary key, balance bigint not null);
    create table entry (job text not null, account bigint not null);";

impl Bank {
    pub(crate) async fn in_sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("bank.db").display());
        Self::found(url, folder).await.strict("references account (id) deferrable initially deferred")
    }

    /// In SQLite, where no connection waits long for another's lock.
    pub(crate) async fn in_a_hurry() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}?busy_timeout=20ms", folder.path().join("bank.db").display());
        Self::found(url, folder).await
    }

    /// A table whose rule is looked at when all else is done.
    fn strict(self, rule: &str) -> Self {
        self.ask(&format!("create table strict (id bigint {rule})"));
        self
    }

    pub(crate) async fn in_postgres() -> Self {
        Self::at(Cluster::shared().fresh_database().unwrap()).await
    }

    /// In transaction mode: each transaction has another of its sessions.
    pub(crate) async fn through_pgbouncer() -> Self {
        static PGBOUNCER: OnceLock<PgBouncer> = OnceLock::new();
        let in_turn = "server_round_robin = 1";
        let start = || PgBouncer::start(Cluster::shared(), PoolMode::Transaction, in_turn).unwrap();
        let direct = Cluster::shared().fresh_database().unwrap();
        Self::at(PGBOUNCER.get_or_init(start).url(&direct)).await
    }

    async fn at(url: String) -> Self {
        let bank = Self::found(url, tempfile::tempdir().unwrap()).await.strict("unique deferrable initially deferred");
        bank.ask("create sequence seen");
        bank
    }

    async fn found(url: String, folder: tempfile::TempDir) -> Self {
        let turnwise = crate::schema::open(&url).await;
        let bank = Self { turnwise, url, _folder: folder };
        bank.ask(TABLES);
        for account in 1..=ACCOUNTS {
            bank.ask(&format!("insert into account values ({account}, 0)"));
        }
        bank
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        self.url.starts_with("sqlite:")
    }

    /// The file, where it is one.
    pub(crate) fn path(&self) -> Option<&str> {
        self.url.strip_prefix("sqlite:").map(|path| path.split('?').next().unwrap_or(path))
    }

    /// A connection that is not the node's.
    pub(crate) fn another_process(path: &str) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        connection
    }

    /// Rows of one column.
    pub(crate) fn ask(&self, sql: &str) -> Vec<String> {
        match self.path() {
            Some(path) => {
                let connection = Self::another_process(path);
                if !sql.starts_with("select") {
                    connection.execute_batch(sql).unwrap();
                    return Vec::new();
                }
                let mut statement = connection.prepare(sql).unwrap();
                let rows = statement.query_map((), |row| row.get(0)).unwrap();
                rows.collect::<Result<_, _>>().unwrap()
            }
            None => Cluster::shared().psql(&self.url, sql).unwrap().lines().map(str::to_owned).collect(),
        }
    }

    /// Asks until this is the answer.
    pub(crate) async fn asked(&self, sql: &str, answer: &str) {
        let look = async {
            while self.ask(sql) != [answer] {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), look).await.expect("did not happen in time");
    }

    /// The jobs that made an entry, once for each.
    pub(crate) fn entries(&self) -> Vec<String> {
        self.ask("select job from entry order by job")
    }

    pub(crate) fn total(&self) -> i64 {
        self.ask("select cast(sum(balance) as text) from account")[0].parse().unwrap()
    }

    pub(crate) async fn receipts(&self) -> Vec<Job> {
        let filter = Filter { task: Some("receipt".to_owned()), limit: Some(100_000), ..Filter::default() };
        self.turnwise.jobs(filter).await.unwrap()
    }

    /// Nothing was ever booked here.
    pub(crate) async fn assert_untouched(&self) {
        assert_eq!((self.entries(), self.total()), (Vec::new(), 0));
        assert!(self.receipts().await.is_empty(), "a receipt for nothing");
    }

    pub(crate) fn executor(&self, change: impl FnOnce(&mut Config)) -> Executor {
        executor(&self.turnwise, self.is_sqlite(), change)
    }

    pub(crate) async fn started(&self) -> Executor {
        let executor = self.executor(|_| {});
        executor.start().await.unwrap();
        executor
    }

    pub(crate) async fn submit(&self, deposit: Deposit) -> JobId {
        let request = turnwise::JobRequest::new("deposit", &deposit).retry("none".parse().unwrap());
        self.turnwise.submit(request).await.unwrap()
    }

    pub(crate) async fn reached(&self, id: JobId, there: impl Fn(&Job) -> bool) -> Job {
        let look = async {
            loop {
                let job = self.turnwise.job(id).await.unwrap();
                if there(&job) {
                    return job;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), look).await.expect("did not happen in time")
    }

    pub(crate) async fn ended(&self, id: JobId) -> Job {
        self.reached(id, |job| job.state.finished()).await
    }
}

pub(crate) fn executor(turnwise: &Turnwise, sqlite: bool, change: impl FnOnce(&mut Config)) -> Executor {
    let mut config = Config::new(NodeName::new("bank").unwrap());
    config.lease = Duration::from_secs(2);
    config.core_pool_size = 8;
    change(&mut config);
    let mut registry = Registry::new();
    registry.register(receipt).unwrap();
    if sqlite {
        registry.register(into_sqlite).unwrap()
    } else {
        registry.register(into_postgres).unwrap()
    };
    turnwise.executor_with(config).registry(registry).state(turnwise.clone()).build().unwrap()
}
