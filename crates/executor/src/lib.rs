//! The tokio shell around `turnwise_core`: it reads the store, asks core what to do, and does it.
//!
//! [`task`] what a job names → [`registry`] how it is found → [`config`] how a node is set up → [`executor`] post,
//! start, stop → `pulse` staying alive and taking the lead → `dispatcher` giving jobs to nodes → `node` running
//! them → `settle` writing how they ended → [`event`] telling whoever listens, [`trace`] for the record.
//!
//! Everything that must go on while user code runs (`pulse`, `dispatcher`, `settle`, the mail of a node) lives on a
//! control thread with a runtime of its own: a task that blocks its thread stops neither the heartbeat nor the fleet.

mod chance;
mod clock;
pub mod config;
mod dispatcher;
pub mod event;
pub mod executor;
mod host;
mod node;
mod pulse;
pub mod registry;
mod seal;
mod settle;
pub mod settings;
mod shared;
pub mod task;
pub mod trace;

pub use config::Config;
pub use event::{Event, EventKind, Events, Listener};
pub use executor::{Executor, StartError, Stats};
pub use registry::{DuplicateTask, Registry};
pub use task::{Ctx, Outcome, State, Task};

#[doc(hidden)]
pub use host::Process;
#[doc(hidden)]
pub use inventory;
