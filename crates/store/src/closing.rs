//! What a run commits together with its end.
//!
//! A store hands out no transactions; a driver does, to tasks that ask for one. When such a task has ended well, the
//! executor decides what follows as always, and has the decision written in that transaction, with the guards
//! of [`settle`](crate::Store::settle): so either both are committed, or neither.

use std::{any::Any, fmt, time::Duration};

use turnwise_core::Incarnation;

use crate::{Epoch, Note, Settled, Settlement};

/// An open transaction that a run has left to be committed with its end.
#[async_trait::async_trait]
pub trait Closing: Send + fmt::Debug {
    /// Writes the end, checks the fence and commits, in this order; others see all of it or nothing.
    ///
    /// A run that is to be cancelled commits nothing, also where the decision took the request into account: its end is then
    /// written without the transaction.
    ///
    /// If the reply to the commit is lost, this finds out whether it was committed, for as long as that takes. If the future is
    /// dropped before, it stays unknown.
    async fn settle(self: Box<Self>, last: Last) -> Closed;

    /// Discards everything the transaction has written.
    async fn roll_back(self: Box<Self>) -> Undone;
}

/// How a transaction was rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undone {
    /// On request.
    Asked,
    /// By itself: the connection it was on is lost.
    Cut,
}

/// What is written at the end of a run.
#[derive(Debug, Clone)]
pub struct Last {
    pub node: Incarnation,
    /// As in [`Author::Node`](crate::Author::Node).
    pub told: Option<Epoch>,
    pub settlement: Settlement,
    pub note: Option<Note>,
}

/// What became of the transaction.
#[derive(Debug)]
pub enum Closed {
    Committed,
    /// Nothing was committed: the job is in other hands or gone, or is to be cancelled. Never [`Settled::Applied`].
    Refused(Settled),
    /// Nothing was committed: the database refused it.
    Failed(Box<dyn std::error::Error + Send + Sync>),
    /// Nothing was committed, and not because of the task: the database could not go on. The run is to be done again, and spends
    /// no attempt.
    NotNow(Box<dyn std::error::Error + Send + Sync>),
    /// Nothing was committed: the connection was lost before the commit was sent.
    Cut(Box<dyn std::error::Error + Send + Sync>),
    /// Nothing was committed: what the task left to be done at the end took longer than this.
    TimedOut {
        limit: Duration,
    },
    /// Nothing was committed: what the task left to be done at the end panicked.
    Panicked(Box<dyn Any + Send>),
}
