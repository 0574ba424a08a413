//! What a run commits together with its end.
//!
//! A store hands out no transactions; a driver does, to tasks that ask for one. When such a task has ended well, the
//! executor decides what follows as ever, and gives the decision to the transaction to be written there, with the guards
//! of [`settle`](crate::Store::settle): then both are there, or neither.

use std::{any::Any, fmt, time::Duration};

use turnwise_core::Incarnation;

use crate::{Epoch, Note, Settled, Settlement};

/// Something open that a run has left behind for its end.
#[async_trait::async_trait]
pub trait Closing: Send + fmt::Debug {
    /// Writes the end, checks the fence and commits, in this order of what others may see: all of it or nothing.
    ///
    /// A run that is to be cancelled commits nothing, also where the decision knows: its end is written without it.
    ///
    /// If the reply to the commit is lost, it finds out whether it went through, for as long as that takes; dropped
    /// before, nobody knows.
    async fn settle(self: Box<Self>, last: Last) -> Closed;

    /// Nothing of it is to be there.
    async fn roll_back(self: Box<Self>) -> Undone;
}

/// How it came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undone {
    /// As it was asked to.
    Asked,
    /// It was nothing already: the connection it was on is lost.
    Cut,
}

/// The last words of a run.
#[derive(Debug, Clone)]
pub struct Last {
    pub node: Incarnation,
    /// As in [`Author::Node`](crate::Author::Node).
    pub told: Option<Epoch>,
    pub settlement: Settlement,
    pub note: Option<Note>,
}

/// What became of it.
#[derive(Debug)]
pub enum Closed {
    Committed,
    /// Nothing is there: the job is in other hands or gone, or is to be cancelled. Never [`Settled::Applied`].
    Refused(Settled),
    /// Nothing is there: the database would not have it.
    Failed(Box<dyn std::error::Error + Send + Sync>),
    /// Nothing is there, and nobody is to blame: the database could not go on. The run is to be done again, and spends no
    /// attempt.
    NotNow(Box<dyn std::error::Error + Send + Sync>),
    /// Nothing is there: the connection was lost before anything was sent that could commit it.
    Cut(Box<dyn std::error::Error + Send + Sync>),
    /// Nothing is there: what was handed over to be done at the end took longer than this.
    TimedOut {
        limit: Duration,
    },
    /// Nothing is there: what was handed over to be done at the end panicked.
    Panicked(Box<dyn Any + Send>),
}
