//! How things look as JSON, outside: defined once, for `--json`, `enqueue --stdin` and all that other programs read or write.
//!
//! Going out, each is a struct that serialises: [`Job`] and [`JobInFull`], its [`Log`], [`Jobs`] a page of them, [`Node`], [`Queue`],
//! [`Group`], [`Task`] and [`Key`] in their [listings](Queues), [`Overview`], [`Why`] with its [`Gate`]s, a [`Graph`], [`Schedule`], [`Token`],
//! [`AuditLines`], [`Statistics`] and [`Errors`], [`Findings`], a [`Comparison`]; [`Event`] is what happens;
//! [`Submitted`], [`Decided`], [`Preview`] and [`DecidedAll`] are what calls came to, [`QueueSet`] and its like what is set then. Coming in,
//! [`Request`] is a job to submit and [`Batch`] several that name one another; [`NewSchedule`], [`NewToken`], [`WhatIf`], [`Choice`], [`JobEdit`] and
//! [`QueueChange`] with its like are what else a caller may ask for; [`Outcome`] is how a run ended, both ways; [`RegisterWorker`], [`TakeJobs`] and their like are what foreign workers say, and [`TakenJobs`] and its like the answers. Names and values
//! are an interface: programs read them, and `wire/shapes.json` shows them all. A name that is
//! not known is refused, one with `null` is as if it had not been given.

mod audit;
mod batch;
mod change;
mod decision;
mod doctor;
mod event;
mod graph;
mod job;
mod listing;
mod log;
mod node;
mod object;
mod outcome;
mod overview;
mod request;
mod resubmit;
mod schedule;
#[cfg(test)]
mod shapes;
mod statistics;
mod ticket;
mod token;
mod whatif;
mod why;
mod worker;

pub use audit::{AuditLine, AuditLines};
pub use batch::{Batch, Misfit};
pub use change::{
    GroupChange, GroupSet, InstallationChange, InstallationSet, LimitChange, LimitSet, PauseReason, QueueChange,
    QueueSet, Reset,
};
pub use decision::{Choice, Decided, DecidedAll, JobEdit, Jobs, Preview, Pruned, Submitted, SubmittedAll};
pub use doctor::{Finding, Findings};
pub use event::{Event, EventJob, EventType};
pub use graph::{Graph, Tied};
pub use job::{Attempt, Job, JobInFull, Progress, Story};
pub use listing::{Groups, Keys, Nodes, Overview, Queues, Schedules, Tasks};
pub use log::{Log, LogLine};
pub use node::{Node, NodeSet};
pub use object::Unreadable;
pub use outcome::Outcome;
pub use overview::{Group, HeldBy, Key, Queue, Task};
pub use request::Request;
pub use resubmit::{Resubmission, ToEdit};
pub use schedule::{NewSchedule, Schedule};
pub use statistics::{ErrorSeen, Errors, ErrorsCounted, Statistics, StatisticsPoint, Times};
pub use ticket::{CreatedTicket, NewTicket, Redeem, Redeemed};
pub use token::{CreatedToken, LogIn, LoggedIn, NewToken, Token, Tokens};
pub use whatif::{Comparison, Course, GroupCourse, Waits, WhatIf};
pub use why::{Gate, Why};
pub use worker::{
    Answered, BeatWorker, BeatenWorker, EndsAnswered, JobToRun, LONGEST_TAKE, LeaveWorker, MAX_ENDS, MAX_TAKEN,
    NoteRuns, NotesAnswered, RegisterWorker, RegisteredWorker, SettleRuns, TakeJobs, TakenJobs, ToStop, WorkerLeft,
};

/// How a node reads what the program of a command task writes.
#[cfg(unix)]
pub(crate) const ANSWER_FORMAT: turnwise_executor::command::AnswerFormat = turnwise_executor::command::AnswerFormat {
    outcome: |json| {
        let outcome = Outcome::read(json).map_err(|unreadable| unreadable.to_string())?;
        outcome.to_outcome().map_err(|invalid| invalid.to_string())
    },
    progress: |json| Progress::read(json).map_err(|unreadable| unreadable.to_string()),
};
