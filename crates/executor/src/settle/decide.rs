//! What follows the end of a run. The decision is core's; only the numbers are put in here.

use std::sync::Arc;

use tokio::sync::oneshot;
use turnwise_core::{
    Failure, JobState, Timestamp,
    job::AssignedJob,
    lifecycle::{self, Event, JobFacts, Outcome, Target},
    scheduler::Rest,
    worker::{TaskLookup, retry_of, terms_of},
};
use turnwise_store::Settlement;

use crate::{
    life::Life,
    outbox::{Ended, Outgoing},
};

/// One settlement with what is needed once it is written.
pub(crate) enum Item {
    Ended { ended: Ended, follows: Follows },
    Begin { job: Arc<AssignedJob>, may_start: oneshot::Sender<bool> },
}

/// What follows an end, for the reports to the dispatcher and to listeners.
pub(crate) struct Follows {
    pub(super) attempt: u32,
    pub(super) state: JobState,
    pub(super) rest: Option<Rest>,
    pub(super) error: Option<String>,
}

impl Item {
    pub(super) fn of(outgoing: Outgoing, follows: Option<Follows>) -> Self {
        match outgoing {
            Outgoing::Ended(ended) => Item::Ended { ended, follows: follows.expect("something follows every end") },
            Outgoing::Begin { job, may_start } => Item::Begin { job, may_start },
            Outgoing::Step { .. } => unreachable!("steps are written with the notes"),
        }
    }

    /// To be decided and written anew.
    pub(crate) fn back(self) -> Outgoing {
        match self {
            Item::Ended { ended, .. } => Outgoing::Ended(ended),
            Item::Begin { job, may_start } => Outgoing::Begin { job, may_start },
        }
    }
}

/// The end of a run, of this node or of a foreign worker, before it is known what follows.
pub(crate) struct RunEnd<'a> {
    pub(crate) job: &'a AssignedJob,
    pub(crate) outcome: Outcome,
    /// Whether a person wants it stopped, as far as is known.
    pub(crate) cancel_requested: bool,
    /// `None`: it did not begin.
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Option<Timestamp>,
    /// Whether this run may have notes in the store.
    pub(crate) noted: bool,
}

/// What follows the end of a run, by what is known of its tasks.
pub(crate) fn settlement(tasks: &impl TaskLookup, end: RunEnd<'_>, now: Timestamp, jitter: f64) -> Settlement {
    let RunEnd { job, outcome, cancel_requested, started_at, finished_at, noted } = end;
    let outcome = outcome.then(job.terms.next(), &job.args);
    let terms = terms_of(tasks, job, &outcome);
    let facts = JobFacts::from(job);
    let begun = started_at.is_some();
    let facts = JobFacts { cancel_requested, retry: retry_of(tasks, job), terms: &terms, begun, ..facts };
    let to =
        lifecycle::decide(&facts, &Event::Ended(outcome), now, jitter).expect("an assigned job may end in every way");
    // An earlier run may have said something.
    let noted = noted || to.ending.is_some() || job.fence.assignments() > 1;
    Settlement { job: job.id, fence: job.fence, saw_cancel: cancel_requested, to, noted, started_at, finished_at }
}

pub(crate) fn decide(life: &Life, ended: Ended) -> (Item, Settlement) {
    let outgoing = Outgoing::Ended(ended);
    let (follows, settlement) = decide_on(life, &outgoing);
    (Item::of(outgoing, follows), settlement)
}

/// Decides what follows each end. The decision is core's; only the numbers are put in here.
pub(super) fn decide_on(life: &Life, outgoing: &Outgoing) -> (Option<Follows>, Settlement) {
    match outgoing {
        Outgoing::Step { .. } => unreachable!("steps are written with the notes"),
        Outgoing::Begin { job, .. } => (None, start(life, job, None)),
        Outgoing::Ended(ended) => {
            let job = &ended.job;
            let end = RunEnd {
                job,
                outcome: ended.outcome.clone(),
                cancel_requested: job.cancel_requested || life.desk.cancel_wanted(job.id),
                started_at: ended.started_at,
                finished_at: ended.finished_at,
                noted: ended.run.as_ref().is_some_and(|run| run.noted()),
            };
            let node = &life.node;
            let settlement = settlement(&node.registry, end, node.clock.now(), node.jitter());
            let crashes = settlement.to.counts.crashes;
            let rest = match &settlement.to.to {
                Target::Stuck { due } => Some(Rest { stuck: true, due: *due, crashes, next: None }),
                Target::Waiting { due } => Some(Rest { stuck: false, due: Some(*due), crashes, next: None }),
                Target::Next { step, due } => {
                    Some(Rest { stuck: false, due: Some(*due), crashes, next: Some(step.task.clone()) })
                }
                _ => None,
            };
            let (attempt, state) = (settlement.to.counts.attempt, settlement.to.state(job.state));
            let error = settlement.to.error.as_ref().map(Failure::text);
            (Some(Follows { attempt, state, rest, error }), settlement)
        }
    }
}

pub(super) fn start(life: &Life, job: &AssignedJob, started_at: Option<Timestamp>) -> Settlement {
    let now = life.node.clock.now();
    begin(job, started_at.unwrap_or(now), now)
}

/// That a run goes on, which began then.
pub(crate) fn begin(job: &AssignedJob, started_at: Timestamp, now: Timestamp) -> Settlement {
    let to = lifecycle::decide(&JobFacts::from(job), &Event::Start, now, 0.0).expect("a scheduled job may start");
    Settlement {
        job: job.id,
        fence: job.fence,
        saw_cancel: true,
        to,
        noted: false,
        started_at: Some(started_at),
        finished_at: None,
    }
}
