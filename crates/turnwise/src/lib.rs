//! Durable jobs in the database you already have, where every group gets its turn.
//!
//! ```no_run
//! use turnwise::{Turnwise, task};
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
//! [`client`] opening a database, submitting, looking, deciding → [`bulk`] deciding about many → [`request`] what is submitted → [`tx`] submitting in
//! your own transaction → [`executor`](Turnwise::executor) running tasks → [`transactional`] tasks that commit together with
//! their end → [`settings`] weights, limits and pauses → [`schedules`] jobs that come again and again →
//! [`overview`] how much there is → [`graph`] who waits for whom → [`view`] why a job waits, and what would change it →
//! [`testing`] tasks under test.

pub mod client;
pub mod bulk;
pub mod id;
pub mod request;
pub mod tx;
pub mod transactional;
pub mod settings;
pub mod schedules;
pub mod overview;
pub mod graph;
pub mod view;
pub mod testing;

pub use client::{Error, Turnwise};
pub use request::JobRequest;
pub use transactional::{SqliteTx, Tx};
pub use turnwise_core::{
    self as core, GroupName, Job, JobId, Json, KeyName, NewJob, Node, NodeName, OnFailure, Priority, QueueName,
    RetryPolicy, TaskName, Timestamp,
    unique::{OnDuplicate, Scope},
};
pub use turnwise_executor::{
    self as executor, Config, Ctx, CtxError, Event, EventKind, Executor, Inner, JobLog, Next, Outcome, Pool, Registry,
    State, Task, TaskError,
};
pub use turnwise_macros::task;
pub use turnwise_postgres as postgres;
pub use turnwise_sqlite as sqlite;
pub use turnwise_store::{self as store, Duplicate, Enqueued, Filter, StoreError};
