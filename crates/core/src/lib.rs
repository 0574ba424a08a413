//! The decisions of Turnwise, as values and pure functions: no async, clock, randomness, database or log.
//!
//! A part of the crate `turnwise`, not for direct use: it changes with any release.
//!
//! # Life of a job
//! [`name`], [`json`], [`time`] what may be said at the border → [`job`] what is asked for, [`unique`] what only once,
//! [`after`] what after others →
//! [`scheduler`] who runs it where, asking [`turn`] whose turn it is and [`calendar`] what time it is → [`lifecycle`]
//! what follows a run, asking [`retry`] how long to wait and saying with [`failure`] what went wrong →
//! [`retention`] how long its end is kept. [`estimate`] is what a run is expected to take; [`story`] is what a
//! job tells meanwhile; [`periodic`] is what is submitted again and again; [`node`] is who runs things and [`pool`] how many at a time, [`left`] whether anything is left for them to do, [`lead`] whether a node should dispatch and [`pace`] how fast; [`queue_state`] is what a queue is doing; [`why`] explains what holds a job up.

pub mod after;
pub mod estimate;
pub mod failure;
pub mod job;
pub mod json;
pub mod lead;
pub mod left;
pub mod lifecycle;
pub mod name;
pub mod node;
pub mod pace;
pub mod periodic;
pub mod pool;
pub mod queue_state;
pub mod retention;
pub mod retry;
pub mod scheduler;
pub mod story;
pub mod terms;
pub mod time;
pub mod unique;
pub mod calendar;
pub mod settings;
pub mod turn;
mod words;
mod limits;
mod backlog;
mod heap;
mod chain;
mod find;
mod chunks;
mod few;
pub mod why;

pub use after::{After, OnFailure};
pub use failure::Failure;
pub use job::{Fence, Job, JobHead, JobId, JobState, NewJob, Priority, Step};
pub use json::Json;
pub use name::{GroupName, Invalid, KeyName, NodeName, QueueName, ScheduleName, ScopeName, TaskName, UniqueKey};
pub use node::{Incarnation, Node, Serves};
pub use retention::Retention;
pub use retry::RetryPolicy;
pub use terms::Terms;
pub use time::Timestamp;
pub use unique::Unique;
