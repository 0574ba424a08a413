//! How things look as JSON, outside: once, for `--json`, `enqueue --stdin` and whatever speaks to other programs.
//!
//! Going out, each is a struct that serialises: [`Job`] and [`JobInFull`], [`Node`], [`Queue`] and [`Group`], [`Why`] with its [`Gate`]s,
//! [`Schedule`]. Coming in, [`Request`] is a job to submit and [`Batch`] several that name one another; [`Outcome`] is how a run ended,
//! both ways. Names and values are an interface: programs read them, and `wire/shapes.json` shows them all. A name that is
//! not known is refused, one with `null` is as if it had not been given.

mod batch;
mod job;
mod node;
mod object;
mod outcome;
mod overview;
mod request;
mod schedule;
#[cfg(test)]
mod shapes;
mod why;

pub use batch::{Batch, Misfit};
pub use job::{Attempt, Job, JobInFull, Progress, Story};
pub use node::Node;
pub use object::Unreadable;
pub use outcome::Outcome;
pub use overview::{Group, Queue};
pub use request::Request;
pub use schedule::Schedule;
pub use why::{Gate, Why};
