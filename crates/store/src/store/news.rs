//! What the dispatcher reads: unfinished jobs in pages, and what has become visible since its last look.

use std::time::Duration;

use turnwise_core::{Fingerprint, Incarnation, JobHead, JobId, Timestamp};

use super::Epoch;

/// Which unfinished jobs to read.
#[derive(Debug, Clone)]
pub enum Load {
    /// At most `limit` jobs with greater ids than `id`, in id order; `None`: from the first on.
    After { id: Option<JobId>, limit: u32 },
    /// These, as far as they are there and unfinished.
    These(Vec<JobId>),
    /// What all nodes have in their hands, or one of them: no more than they may hold. The dispatcher counts its limits from
    /// this, so it reads it first.
    InHands(Option<Incarnation>),
    /// The same for one node by the jobs' rows alone, also jobs that none of its batches names. A crash may take back the end of a
    /// job after which the node has called its batch done. Reads every job, so it is for a node that has seen a new
    /// [`Lineage`](super::Lineage).
    HeldBy(Incarnation),
}

/// The jobs that [`Store::load`](super::Store::load) has read, in id order.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The database's time.
    pub now: Timestamp,
    /// As they were at that time.
    pub jobs: Vec<JobHead>,
    /// Where the next page begins; `None` at the end, and for all but [`Load::After`].
    pub next: Option<JobId>,
}

/// How far the dispatcher has seen; only its store can read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub String);

/// From where on, and how much, a dispatcher wants to read of what is new.
#[derive(Debug, Clone)]
pub struct AskNews {
    /// From the last [`News`]; `None`: nothing is read, and the reply says where to begin.
    pub cursor: Option<Cursor>,
    /// Changes that the dispatcher of this epoch was notified of within its own process are left out.
    pub epoch: Epoch,
    /// The dispatcher is about to sleep: submitters shall ring.
    pub asleep: bool,
    /// New jobs, at most. Zero for a caller that looks far back and wants only the changes.
    pub new_jobs: u32,
}

/// What became visible since the cursor.
#[derive(Debug, Clone, PartialEq)]
pub struct News {
    /// The database's time.
    pub now: Timestamp,
    /// Where the next call begins. Until it is used, the same news can be read again with the old one.
    pub cursor: Cursor,
    /// New jobs, and finished ones that a person has run again, in the order of submission; at most [`AskNews::new_jobs`].
    pub jobs: Vec<JobHead>,
    /// Whether there may be more new jobs than were asked for. The cursor is beyond them: they are found by reading the backlog.
    pub more: bool,
    /// What others than the dispatcher's own process have done with jobs.
    pub changes: Vec<Change>,
    /// Whether a memo was written or deleted by others than the dispatcher: recall them.
    pub memos: bool,
    /// Which transactions have ended; a sealed queue waits for those that were open.
    pub writers: Writers,
    /// Until when the dispatcher is asked to write how much there is
    /// ([`OperatorStore::ask_totals`](crate::OperatorStore::ask_totals)), if it is. Not in the first news, which only begin.
    pub asked: Option<Timestamp>,
}

impl News {
    /// The first ones, which only say where to begin.
    pub fn begin(now: Timestamp, cursor: Cursor, writers: Writers) -> Self {
        let (jobs, changes) = (Vec::new(), Vec::new());
        Self { now, cursor, jobs, more: false, changes, memos: false, writers, asked: None }
    }
}

/// How far the writing transactions have come, counted in the order in which they began to write. Both are zero in a store with one
/// writer at a time: there, no transaction is ever open whose changes the news could miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Writers {
    /// All transactions before this one have ended, and the news up to here contains what they wrote.
    pub over: u64,
    /// The one after the last that has ended. A transaction that began to write before something that is in the news has a lower
    /// number.
    pub next: u64,
}

/// A job that was settled elsewhere or changed by a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The job that was changed; one job may have several changes.
    pub id: JobId,
    /// How long it ran, if this was the end of a run.
    pub ran: Option<Duration>,
    /// Whether a run ended in an error: the job failed or got stuck then, whatever it is now. A person's decision does not count.
    pub failed: bool,
    /// Whether this ended it with success. A job that has ended with neither was cancelled, or ended by a person's decision.
    pub well: bool,
    /// What went wrong in the run, or what a person or the dispatcher ended the job for.
    pub error: Option<Fingerprint>,
    /// What it is now; `None`: finished.
    pub head: Option<JobHead>,
}
