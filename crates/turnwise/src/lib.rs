//! Durable jobs in the database you already have, where every group gets its turn.
//!
//! ```no_run
//! use turnwise::prelude::*;
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Extract { document: u64 }
//!
//! #[task("extract")]
//! async fn extract(args: Extract) -> Result<String, std::io::Error> {
//!     Ok(format!("text of {}", args.document))
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let turnwise = Turnwise::open("sqlite:jobs.db").await?;
//! let executor = turnwise.executor()?.build()?;
//! executor.start().await?;
//! turnwise.submit(extract.job(Extract { document: 7 }).group("acme")).await?;
//! # Ok(()) }
//! ```
//!
//! [`Turnwise`] opens a database, submits, looks and decides; [`JobRequest`] is what is submitted, also in
//! [your own transaction](JobRequest#submitting-in-your-own-transaction); [`Executor`] runs tasks → [`transactional`] tasks
//! that commit together with their end → [`settings`] weights, limits and pauses → [`schedules`] jobs that come again and
//! again → [`story`] what a job reported → [`overview`] how much there is → [`filter`] which jobs are meant → [`graph`] which
//! jobs wait for which → [`view`] why a job waits, and what would change it → [`wire`] how all of it looks as JSON →
//! [`testing`] tasks under test → [`access`] which caller may ask a server for what → [`secret`] fields that are not shown →
//! [`audit`] who changed what → [`watch`] what happens → [`statistics`] what happened → [`workers`] whose tasks are elsewhere → [`store`] a store of your own.
//!
//! # Features
//! - `sqlite` and `postgres`, both on by default: the databases. Without one, its driver is neither compiled nor linked.
//! - `sqlx`: submitting in an sqlx transaction on PostgreSQL.
//! - `job-log`, on by default: [`JobLog`], a layer of `tracing-subscriber` that adds what a task logs to its job's log.
//!
//! The crates `turnwise-core`, `-store`, `-executor`, `-sqlite`, `-postgres` and `-macros` are parts of this one and change
//! with any release; use them through this crate.

#![deny(missing_docs)]

/// The version of this library, such as `0.1.0`. That of the schema it works with: [`Turnwise::schema_version`].
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

pub mod access;
pub mod audit;
mod backend;
mod bulk;
mod change;
mod client;
mod decided;
mod decision;
pub mod doctor;
mod drain;
pub mod filter;
pub mod graph;
mod id;
pub mod overview;
mod request;
mod resubmit;
pub mod schedules;
pub mod settings;
pub mod statistics;
pub mod store;
pub mod testing;
pub mod transactional;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod submit;
mod submit_in;
pub mod view;
pub mod watch;
pub mod wire;
pub mod workers;

pub use bulk::{CancelledAll, ChangedAll, FailedAll, RetriedAll};
pub use change::JobChange;
pub use client::{Cancelled, Error, Turnwise};
pub use decided::DecidedMany;
pub use decision::Decision;
pub use request::JobRequest;
#[cfg(feature = "sqlite")]
pub use transactional::SqliteTx;
#[cfg(feature = "postgres")]
pub use transactional::Tx;
pub use turnwise_core::{
    GroupName, Invalid, Job, JobId, JobState, Json, KeyName, Node, NodeName, OnFailure, OnceKey, Priority, QueueName,
    RetryPolicy, TaskName, Timestamp, TraceContext, UniqueKey,
    lifecycle::Illegal,
    node::NodeState,
    unique::{HeldKey, OnDuplicate, Scope},
};
#[cfg(unix)]
pub use turnwise_executor::CommandTask;
#[cfg(feature = "job-log")]
pub use turnwise_executor::JobLog;
pub use turnwise_executor::{
    Config, Ctx, CtxError, Event, EventKind, Events, Executor, Inner, Listener, Next, Outcome, PanicEvent, Pool,
    PoolStats, Registry, StartError, State, Stats, Task, TaskError,
    event::JobEvent,
    executor::Builder,
    registry::RegistryError,
    task::{AnyTask, Policies},
};
pub use turnwise_macros::task;
pub use turnwise_store::{
    AskJobs, BodyHash, Duplicate, Filter, Fleet, JobPage, ListCursor, ListFilter, Loss, Once, Options, Schema,
    StoreError, Submitted,
};

/// The version of rusqlite that [`JobRequest::submit_in_sqlite`] takes a connection of.
#[cfg(feature = "sqlite")]
pub use turnwise_sqlite::rusqlite;

/// The version of tokio-postgres that [`JobRequest::submit_in_postgres`] takes a transaction of.
#[cfg(feature = "postgres")]
pub use tokio_postgres;

/// What nearly every program with tasks needs: `use turnwise::prelude::*;`.
pub mod prelude {
    pub use crate::{
        Ctx, CtxError, Error, Executor, Job, JobId, JobRequest, JobState, Next, Outcome, State, TaskError, Turnwise,
        task,
    };
}

/// Secret fields of tasks: where they are, and how a job looks without them.
pub mod secret {
    pub use turnwise_core::secret::{MASKED, Mask, Pointer, Secrets};
}

/// What is kept of a job besides its row: attempts, progress, steps and the lines of its log.
pub mod story {
    pub use turnwise_core::{
        lifecycle::Ending,
        story::{Attempt, Finished, Level, Line, LineAt, Progress, Story},
    };
}

/// For what `#[task]` expands to.
#[doc(hidden)]
pub mod __task {
    pub use turnwise_executor::{
        inventory,
        registry::Annotated,
        task::{AnyTask, IntoOutcome, Need, from_result},
    };
}
