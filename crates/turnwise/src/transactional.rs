//! Transactional tasks: what a task writes, its end, its last word on its progress and the jobs it submits are committed
//! together, if the job is still in its hands; or nothing of it is there. That is exactly once.
//!
//! A task is transactional when it takes a [`Tx`] (PostgreSQL) or a [`SqliteTx`]:
//!
//! ```
//! use turnwise::{TaskError, Tx, task};
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Pay { account: i64, amount: i64 }
//!
//! #[task("pay")]
//! async fn pay(args: Pay, tx: &Tx) -> Result<i64, TaskError> {
//!     let sql = "update account set balance = balance - $1 where id = $2 returning balance";
//!     let row = tx.query_one(sql, &[&args.amount, &args.account]).await?;
//!     tx.submit(receipt.job(args.account)).await?; // exists if this is committed
//!     Ok(row.get(0)) // committed with the result, or never paid
//! }
//!
//! #[task("receipt")]
//! async fn receipt(account: i64) {
//!     println!("dear {account}");
//! }
//! ```
//!
//! It is committed when the task returns a value, [`Outcome::next`] or [`Outcome::snooze`]. It is rolled back on an error, a
//! failure, a panic, a timeout, a cancel, a long [`Ctx::sleep`], a stop of the node, and when the job is in other hands by
//! then; a lost node's open transactions are ended by the others.

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

use turnwise_core::{JobId, Timestamp, story::Progress};
use turnwise_executor::{Ctx, Outcome, TaskError, task::Need};
use turnwise_postgres::{TaskTransaction, Transactions};
use turnwise_sqlite::{SqliteStore, rusqlite};

use crate::{Error, JobRequest};

/// How long a run waits that cannot have a connection now; it spends no attempt.
const NO_CONNECTION: Duration = Duration::from_secs(1);

/// Where the transactions of tasks come from, as state of an executor.
pub(crate) struct OnPostgres(pub(crate) Arc<Transactions>);
pub(crate) struct OnSqlite(pub(crate) SqliteStore);

/// The transaction of a task whose jobs are in PostgreSQL: in it, a [`tokio_postgres::Client`]. Take it as `tx: &Tx`.
///
/// Do not commit it: it is committed with the end of the run. Its isolation is read committed. Each node has as many
/// connections for these as it has slots, at most, and opens them when they are needed; `Options::task_connections` bounds them
/// for the process, and a run beyond waits before it begins. One that stands idle for longer
/// than the task's timeout (ten minutes where it has none) is ended by the server.
pub struct Tx(TaskTransaction);

impl Tx {
    #[doc(hidden)]
    pub fn need() -> Need {
        Need::of_database::<OnPostgres>(
            "takes a Tx, a transaction of PostgreSQL, and the jobs are not kept there; open postgres://USER@HOST/NAME, \
             or leave the task out of this node's registry",
        )
    }

    #[doc(hidden)]
    pub async fn begin(ctx: &Ctx) -> Result<Self, Outcome> {
        let Some(on) = ctx.state::<OnPostgres>() else { return Err(Outcome::fail("there is no PostgreSQL here")) };
        let at_most = usize::try_from(ctx.slots()).unwrap_or(usize::MAX);
        match on.0.0.begin(ctx.incarnation(), ctx.timeout(), at_most).await {
            Ok(transaction) => Ok(Self(transaction)),
            Err(error) if error.is_transient() => {
                ctx.log(format!("could not begin its transaction; trying again: {error}"));
                Err(Outcome::snooze(NO_CONNECTION))
            }
            Err(error) => Err(Outcome::error(error)),
        }
    }

    #[doc(hidden)]
    pub fn end(self, ctx: &Ctx, outcome: Outcome) -> Outcome {
        ctx.close_with(Box::new(self.0));
        outcome
    }

    /// Submits a job that exists exactly if the transaction is committed.
    pub async fn submit(&self, request: JobRequest) -> Result<JobId, Error> {
        request.enqueue_in_postgres(&**self).await
    }

    /// As [`Ctx::progress`], but it is seen only once the transaction is committed, and never if it is not.
    pub fn progress(&self, done: u64, total: u64, text: impl AsRef<str>) {
        self.0.progress(Progress::new(done, total, text.as_ref()));
    }
}

impl Deref for Tx {
    type Target = tokio_postgres::Client;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tx")
    }
}

/// The transaction of a task whose jobs are in SQLite. Take it as `tx: SqliteTx`.
///
/// SQLite has one writer, so no task keeps a transaction open: it hands its writes over, to be done when it has ended, in
/// the transaction that settles it.
///
/// ```
/// use turnwise::{SqliteTx, TaskError, task};
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Pay { account: i64, amount: i64 }
///
/// #[task("pay")]
/// async fn pay(args: Pay, tx: SqliteTx) -> Result<(), TaskError> {
///     tx.at_end(move |db| {
///         db.execute("update account set balance = balance - ?1 where id = ?2", (args.amount, args.account))?;
///         Ok(())
///     });
///     Ok(())
/// }
/// ```
pub struct SqliteTx {
    ctx: Ctx,
    progress: Option<Progress>,
}

impl SqliteTx {
    #[doc(hidden)]
    pub fn need() -> Need {
        Need::of_database::<OnSqlite>(
            "takes a SqliteTx, and the jobs are not kept in SQLite; open sqlite:FILE, or leave the task out of this \
             node's registry",
        )
    }

    #[doc(hidden)]
    pub fn of(ctx: &Ctx) -> Self {
        Self { ctx: ctx.clone(), progress: None }
    }

    /// As [`Ctx::progress`], but it is seen only once the end is committed, and never if it is not.
    #[must_use]
    pub fn progress(mut self, done: u64, total: u64, text: impl AsRef<str>) -> Self {
        self.progress = Some(Progress::new(done, total, text.as_ref()));
        self
    }

    /// When the task has ended well and the job is still in its hands, `work` is done, and committed together with the
    /// end. Its error or panic is the task's own: then nothing is there.
    ///
    /// It runs on the one thread that writes, so nothing else is written meanwhile, heartbeats included: read, compute and
    /// call others before, and only write here. The task's timeout, anew, bounds its statements; nothing bounds what else it
    /// does. Return with the first error: a statement that is interrupted takes the whole transaction back, and what is written
    /// after that is written for itself.
    pub fn at_end(self, work: impl FnOnce(&AtEnd<'_>) -> Result<(), TaskError> + Send + 'static) {
        let Self { ctx, progress } = self;
        let Some(on) = ctx.state::<OnSqlite>() else { return };
        let work =
            move |conn: &rusqlite::Connection, now| Ctx::elsewhere(|| work(&AtEnd { conn, now })).map_err(Into::into);
        let at_end = turnwise_sqlite::AtEnd::new(on.0.0.clone(), progress, work).within(ctx.timeout());
        ctx.close_with(Box::new(at_end));
    }
}

impl fmt::Debug for SqliteTx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SqliteTx")
    }
}

/// The end of a task, inside the transaction that settles it: a [`rusqlite::Connection`]. Do not commit it.
pub struct AtEnd<'a> {
    conn: &'a rusqlite::Connection,
    now: Timestamp,
}

impl AtEnd<'_> {
    /// Submits a job that exists exactly if the end is committed.
    pub fn submit(&self, request: JobRequest) -> Result<JobId, Error> {
        let job = request.into_job(self.now)?;
        let enqueued = turnwise_sqlite::enqueue_in(self.conn, std::slice::from_ref(&job))?;
        Ok(enqueued[0].id)
    }
}

impl Deref for AtEnd<'_> {
    type Target = rusqlite::Connection;

    fn deref(&self) -> &Self::Target {
        self.conn
    }
}

impl fmt::Debug for AtEnd<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AtEnd")
    }
}
