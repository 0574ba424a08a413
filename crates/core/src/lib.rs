//! The decisions of Turnwise, as values and pure functions: no async, clock, randomness, database or log.
//!
//! A part of the crate `turnwise`, not for direct use: it changes with any release.
//!
//! # Life of a job
//! [`name`], [`json`], [`time`]: the values that callers may pass in → [`job`]: what is submitted, [`unique`]: jobs of
//! which there is one at a time, [`after`]: jobs that wait for jobs → [`scheduler`]: which node runs which job; it asks
//! [`turn`] whose turn it is and [`calendar`] what time it is → [`lifecycle`]: what follows a run; it asks [`retry`]
//! how long to wait, and [`failure`] holds what went wrong → [`retention`]: how long a finished job is kept.
//!
//! [`estimate`] is what a run is expected to take, [`spread`] sums up times; [`story`] is what a run reports meanwhile; [`periodic`] is what is
//! submitted again and again; [`node`] is what runs jobs, [`worker`] a node whose tasks run in another program, [`pool`] how many at a time, [`remaining`] whether
//! anything is left for a node to do, [`lead`] whether a node should dispatch and [`pace`] how fast, [`log_bound`] how
//! much it logs, [`strays`] what becomes of a job that is in no node's hands though it is said to be; [`queue_state`] is what a queue is doing; [`why`] explains what holds a job up; [`statistics`] adds up
//! what happened; [`access`] is what a token may do, [`audit`] what is written down of it; [`secret`] is what is not
//! shown of a job, [`trace_context`] whose trace it belongs to; [`watch`] how long watchers may take to read what has
//! changed; [`doctor`] is what is well with an installation and what is not.

pub mod access;
pub mod after;
pub mod audit;
pub mod doctor;
pub mod estimate;
pub mod failure;
pub mod job;
pub mod json;
pub mod lead;
pub mod remaining;
pub mod lifecycle;
pub mod log_bound;
pub mod name;
pub mod node;
pub mod pace;
pub mod periodic;
pub mod pool;
pub mod queue_state;
pub mod retention;
pub mod retry;
pub mod scheduler;
pub mod statistics;
pub mod secret;
pub mod spread;
pub mod story;
pub mod strays;
pub mod terms;
pub mod time;
pub mod trace_context;
pub mod unique;
pub mod calendar;
pub mod settings;
pub mod totals;
pub mod turn;
mod words;
mod limits;
mod backlog;
mod heap;
mod chain;
mod find;
mod chunks;
mod small_list;
pub mod watch;
pub mod why;
pub mod worker;

pub use after::{After, OnFailure};
pub use failure::{Failure, Fingerprint};
pub use job::{Fence, Job, JobHead, JobId, JobState, NewJob, Priority, Step};
pub use json::Json;
pub use name::{
    ActorName, GroupName, Invalid, KeyName, NodeName, OnceKey, QueueName, ScheduleName, ScopeName, TaskName, TokenName,
    UniqueKey,
};
pub use node::{Incarnation, Node, Serves};
pub use retention::Retention;
pub use retry::RetryPolicy;
pub use terms::Terms;
pub use time::Timestamp;
pub use trace_context::TraceContext;
pub use unique::Unique;
