//! The transaction of a task on SQLite.

use std::{fmt, ops::Deref};

use turnwise_core::{JobId, Timestamp, story::Progress};
use turnwise_executor::{Ctx, TaskError, task::Need};
use turnwise_sqlite::{SqliteStore, rusqlite};

use crate::{Error, JobRequest};

/// The store whose writer does what tasks hand over, as state of an executor.
pub(crate) struct OnSqlite(pub(crate) SqliteStore);

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

    /// If the task succeeds and its node still has the job, `work` runs and is committed with the end; if it fails, nothing is
    /// written, and its error or panic is the task's own.
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
    /// Submits a job that exists exactly if the end is committed. Fails as [`JobRequest::submit_in_sqlite`] does.
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
