//! The transaction of a task on PostgreSQL.

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

use turnwise_core::{JobId, story::Progress};
use turnwise_executor::{
    Ctx, Outcome,
    task::{Admission, Need},
};
use turnwise_postgres::{Seat, TaskTransaction, Transactions};
use turnwise_store::StoreError;

use crate::{Error, JobRequest};

/// How long a run waits that cannot have a connection now; it spends no attempt.
const NO_CONNECTION: Duration = Duration::from_secs(1);

/// Where the transactions of tasks come from, as state of an executor.
pub(crate) struct OnPostgres(pub(crate) Arc<Transactions>);

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
        .admitting(admit)
    }

    #[doc(hidden)]
    pub async fn begin(ctx: &Ctx) -> Result<Self, Outcome> {
        let Some(on) = ctx.state::<OnPostgres>() else { return Err(no_postgres()) };
        let (node, limit) = (ctx.incarnation(), ctx.timeout());
        let begun = match ctx.take_admission::<Seat>() {
            Some(seat) => on.0.0.begin_on(seat, node, limit).await,
            // Middleware has the task run once more.
            None => on.0.0.begin(node, limit, slots(ctx)).await,
        };
        begun.map(Self).map_err(|error| not_begun(ctx, error))
    }

    #[doc(hidden)]
    pub fn end(self, ctx: &Ctx, outcome: Outcome) -> Outcome {
        ctx.close_with(Box::new(self.0));
        outcome
    }

    /// Submits a job that exists exactly if the transaction is committed. Fails as [`JobRequest::submit_in_postgres`] does: after an
    /// [`Error::Store`] the task should end with an error, since the transaction can only roll back.
    pub async fn submit(&self, request: JobRequest) -> Result<JobId, Error> {
        request.submit_in_postgres(&**self).await
    }

    /// As [`Ctx::progress`], but it is seen only once the transaction is committed, and never if it is not.
    pub fn progress(&self, done: u64, total: u64, text: impl AsRef<str>) {
        self.0.progress(Progress::new(done, total, text.as_ref()));
    }
}

/// A connection for a run, before the run begins.
fn admit(ctx: Ctx) -> Admission {
    Box::pin(async move {
        let Some(on) = ctx.state::<OnPostgres>() else { return Err(no_postgres()) };
        match on.0.0.seat(ctx.incarnation(), slots(&ctx)).await {
            Ok(seat) => Ok(Box::new(seat) as _),
            Err(error) => Err(not_begun(&ctx, error)),
        }
    })
}

fn slots(ctx: &Ctx) -> usize {
    usize::try_from(ctx.slots()).unwrap_or(usize::MAX)
}

fn no_postgres() -> Outcome {
    Outcome::fail("there is no PostgreSQL here")
}

fn not_begun(ctx: &Ctx, error: StoreError) -> Outcome {
    if error.is_transient() {
        ctx.log(format!("could not begin its transaction; trying again: {error}"));
        Outcome::snooze(NO_CONNECTION)
    } else {
        Outcome::error(error)
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
