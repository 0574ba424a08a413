//! The tokio shell around `turnwise_core`: it reads the store, asks core what to do, and does it.
//!
//! A part of the crate `turnwise`, not for direct use: it changes with any release.
//!
//! [`task`] what a job names, [`ctx`] what it sees, [`outcome`] how it ends, [`command`] a program
//! instead of Rust → [`registry`] how it is found → [`config`] how a node is set up, [`pool`] with pools beside its own →
//! [`executor`] submit, start, stop → `life` from joining to leaving → `beat` staying alive and taking the lead → `dispatcher`
//! giving jobs to nodes → `mail` bringing them, `desk` holding them → `worker` running them → `outbox` and `settle` writing how
//! they ended, or `closing` in a transaction of the task's → [`event`] notifying listeners, `idle` finding that nothing is left,
//! [`trace`] for the record.
//! `inline` is a node without the loops, for tests of tasks; [`workers`] answers nodes whose tasks run in other programs.
//!
//! Everything that must go on while user code runs (`beat`, `dispatcher`, `settle`, `mail`) lives on a
//! control thread with a runtime of its own: a task that blocks its thread stops neither the heartbeat nor the fleet.

mod backoff;
mod beat;
mod chance;
mod clock;
mod closing;
#[cfg(unix)]
pub mod command;
pub mod config;
mod contact;
mod contain;
mod desk;
mod dispatcher;
mod doubt;
pub mod event;
pub mod ctx;
pub mod executor;
mod follow;
mod host;
mod idle;
#[doc(hidden)]
pub mod inline;
mod life;
mod logs;
mod lock;
mod mail;
pub mod middleware;
#[cfg(feature = "job-log")]
pub mod joblog;
mod outbox;
pub mod outcome;
mod panics;
pub mod pool;
pub mod registry;
mod run;
mod seal;
mod settle;
mod stop_sign;
pub mod task;
mod term;
mod this_node;
mod threads;
pub mod trace;
mod worker;
pub mod workers;

#[cfg(unix)]
pub use command::CommandTask;
pub use config::Config;
pub use ctx::{Ctx, State};
pub use event::{Event, EventKind, Events, Listener, PanicEvent};
pub use executor::{Executor, PoolStats, StartError, Stats};
#[cfg(feature = "job-log")]
pub use joblog::JobLog;
pub use middleware::Inner;
pub use outcome::{CtxError, Next, Outcome, TaskError};
pub use pool::Pool;
pub use registry::{DuplicateTask, Registry};
pub use task::Task;

#[doc(hidden)]
pub use host::Process;
#[doc(hidden)]
pub use inventory;
