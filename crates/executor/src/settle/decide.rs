//! What follows the end of a run. The decision is core's; only the numbers are put in here.

use std::sync::Arc;

use tokio::sync::oneshot;
use turnwise_core::{
    Failure, JobState, RetryPolicy, Step, Terms, Timestamp,
    job::AssignedJob,
    lifecycle::{self, Event, JobFacts, Outcome, Target},
    scheduler::Rest,
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

/// The job's own terms. Where its retries may run out and they do not name a task for that, the one that its task names.
fn terms(life: &Life, job: &AssignedJob, outcome: &Outcome) -> Terms {
    let mut terms = job.terms.clone();
    let failed = matches!(outcome, Outcome::Error(_) | Outcome::Panic(_) | Outcome::TimedOut { .. });
    if failed && terms.on_exhausted().is_none() {
        let registry = &life.node.registry;
        let step = || {
            let task = registry.get(&job.task)?.known().on_exhausted.clone()?;
            let retry = registry.get(&task).and_then(|task| task.known().retry.clone());
            Some(Step { task, args: job.args.clone(), retry, terms: Terms::default() })
        };
        if let Some(step) = step() {
            terms.set_on_exhausted(step).expect("one step that none follows");
        }
    }
    terms
}

/// The job's own policy, or else its task's, or else the default.
fn retry<'a>(life: &'a Life, job: &'a AssignedJob) -> &'a RetryPolicy {
    let of_task = || life.node.registry.get(&job.task)?.known().retry.as_ref();
    job.retry.as_ref().or_else(of_task).unwrap_or(&RetryPolicy::DEFAULT)
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
            let cancel_requested = job.cancel_requested || life.desk.cancel_wanted(job.id);
            let outcome = ended.outcome.clone().then(job.terms.next(), &job.args);
            let terms = terms(life, job, &outcome);
            let begun = ended.started_at.is_some();
            let facts = JobFacts::from(&**job);
            let facts = JobFacts { cancel_requested, retry: retry(life, job), terms: &terms, begun, ..facts };
            let to = lifecycle::decide(&facts, &Event::Ended(outcome), life.node.clock.now(), life.node.jitter())
                .expect("an assigned job may end in every way");
            let crashes = to.counts.crashes;
            let rest = match &to.to {
                Target::Stuck { due } => Some(Rest { stuck: true, due: *due, crashes, next: None }),
                Target::Waiting { due } => Some(Rest { stuck: false, due: Some(*due), crashes, next: None }),
                Target::Next { step, due } => {
                    Some(Rest { stuck: false, due: Some(*due), crashes, next: Some(step.task.clone()) })
                }
                _ => None,
            };
            let noted = ended.run.as_ref().is_some_and(|run| run.noted())
                || to.ending.is_some()
                // An earlier run may have said something.
                || job.fence.assignments() > 1;
            let settlement = Settlement {
                job: job.id,
                fence: job.fence,
                saw_cancel: cancel_requested,
                started_at: ended.started_at,
                finished_at: ended.finished_at,
                noted,
                to,
            };
            let (attempt, state) = (settlement.to.counts.attempt, settlement.to.state(job.state));
            let error = settlement.to.error.as_ref().map(Failure::text);
            (Some(Follows { attempt, state, rest, error }), settlement)
        }
    }
}

pub(super) fn start(life: &Life, job: &AssignedJob, started_at: Option<Timestamp>) -> Settlement {
    let now = life.node.clock.now();
    let to = lifecycle::decide(&JobFacts::from(job), &Event::Start, now, 0.0).expect("a scheduled job may start");
    Settlement {
        job: job.id,
        fence: job.fence,
        saw_cancel: true,
        to,
        noted: false,
        started_at: Some(started_at.unwrap_or(now)),
        finished_at: None,
    }
}
