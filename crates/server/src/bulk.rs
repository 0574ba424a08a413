//! Decisions about all jobs that a filter names: a preview first, then the decision about what was previewed.

use turnwise::{
    Filter, Job, JobId, JobState, Turnwise,
    wire::{Choice, DecidedAll, Preview},
};
use uuid::Uuid;

use crate::{
    call::{Call, Reply},
    limits::{DECIDED_AT_ONCE, LOOKED_AT, PAGE_BYTES, READ_AT_ONCE},
    problem::Problem,
};

/// What is to be done to the jobs.
#[derive(Debug, Clone, Copy)]
enum Decision {
    Cancel,
    Retry,
    Fail,
}

impl Decision {
    fn may(self, state: JobState) -> bool {
        match self {
            Self::Cancel => !state.finished(),
            Self::Retry => state.can_be_retried(),
            Self::Fail => state == JobState::Stuck,
        }
    }

    /// The states that are meant if none is named.
    fn usual(self) -> Vec<JobState> {
        match self {
            Self::Retry => vec![JobState::Failed],
            Self::Cancel | Self::Fail => JobState::ALL.into_iter().filter(|state| self.may(*state)).collect(),
        }
    }

    async fn make(self, turnwise: &Turnwise, jobs: &[Job], done: &mut DecidedAll) -> Result<(), turnwise::Error> {
        match self {
            Self::Cancel => {
                let stopped = turnwise.cancel_these(jobs).await?;
                done.decided += stopped.at_once;
                done.requested += stopped.requested;
                done.left.extend(stopped.left);
            }
            Self::Retry => {
                let again = turnwise.retry_these(jobs).await?;
                done.decided += again.again;
                done.left.extend(again.left);
            }
            Self::Fail => {
                let failed = turnwise.fail_these(jobs).await?;
                done.decided += failed.failed;
                done.left.extend(failed.left);
            }
        }
        Ok(())
    }

    fn participle(self) -> &'static str {
        match self {
            Self::Cancel => "cancelled",
            Self::Retry => "retried",
            Self::Fail => "failed by a person",
        }
    }
}

pub(crate) async fn cancel(call: Call) -> Result<Reply, Problem> {
    decide(&call, Decision::Cancel).await
}

pub(crate) async fn retry(call: Call) -> Result<Reply, Problem> {
    decide(&call, Decision::Retry).await
}

pub(crate) async fn fail(call: Call) -> Result<Reply, Problem> {
    decide(&call, Decision::Fail).await
}

async fn decide(call: &Call, decision: Decision) -> Result<Reply, Problem> {
    let mut choice = call.read(Choice::read)?;
    if let Some(state) = choice.states.iter().find(|state| !decision.may(**state)) {
        let problem = format!("state: jobs that are {state} cannot be {}", decision.participle());
        return Err(Problem::invalid("/state", problem));
    }
    if choice.states.is_empty() {
        choice.states = decision.usual();
    }
    let limit = match choice.limit {
        None => DECIDED_AT_ONCE,
        Some(limit) => usize::try_from(limit)
            .ok()
            .filter(|limit| (1..=DECIDED_AT_ONCE).contains(limit))
            .ok_or_else(|| Problem::invalid("/limit", format!("limit: must be 1 to {DECIDED_AT_ONCE}, not {limit}")))?,
    };
    if choice.dry_run {
        if choice.newest.is_some() {
            return Err(Problem::invalid("/newest", "newest: has no effect together with dry_run"));
        }
        return preview(call, &choice, limit).await;
    }
    let Some(newest) = choice.newest else {
        let problem = "newest: is missing; ask with dry_run first, and give back the newest of its answer";
        return Err(Problem::invalid("/newest", problem));
    };
    Reply::json(&each(call, &choice, Some(newest), limit, Some(decision)).await?.0)
}

async fn preview(call: &Call, choice: &Choice, limit: usize) -> Result<Reply, Problem> {
    let (counted, newest) = each(call, choice, None, limit, None).await?;
    Reply::json(&Preview::new(counted.decided, counted.more, newest))
}

/// Decides about the jobs, or only counts them, a few at a time, the newest first; and the newest of them.
async fn each(
    call: &Call,
    choice: &Choice,
    newest: Option<JobId>,
    limit: usize,
    decision: Option<Decision>,
) -> Result<(DecidedAll, Option<JobId>), Problem> {
    let (filter, mut done, mut first) = (choice.filter(), DecidedAll::default(), None);
    let (mut last, mut left) = (newest, limit);
    let acting = call.acting();
    loop {
        let found = find(call, &filter, last, left.min(READ_AT_ONCE as usize)).await?;
        first = first.or(found.jobs.first().map(|job| job.id));
        match decision {
            Some(decision) => decision.make(&acting, &found.jobs, &mut done).await?,
            None => done.decided += found.jobs.len(),
        }
        left -= found.jobs.len();
        let Some(before) = found.next.and_then(id_before) else { return Ok((done, first)) };
        if left == 0 {
            // A part that is full may still be the last.
            done.more = !find(call, &filter, Some(before), 1).await?.jobs.is_empty();
            return Ok((done, first));
        }
        last = Some(before);
    }
}

/// A part of a listing.
struct Found {
    jobs: Vec<Job>,
    /// The last job that was looked at, if there may be more.
    next: Option<JobId>,
}

/// The newest jobs up to `last` that the filter names and that are the caller's to see. Reads a few at a time, so that large arguments do
/// not fill the memory, and looks at a bounded number.
async fn find(call: &Call, filter: &Filter, last: Option<JobId>, limit: usize) -> Result<Found, Problem> {
    let (first, newest) = Filter::default().id_range();
    let mut last = last.unwrap_or(newest);
    let (mut jobs, mut looked, mut bytes) = (Vec::new(), 0, 0);
    loop {
        let left = u32::try_from(limit - jobs.len()).unwrap_or(READ_AT_ONCE);
        let count = if call.grant.is_limited() { READ_AT_ONCE } else { left.min(READ_AT_ONCE) };
        let part = Filter { ids: Some((first, last)), limit: Some(count), ..filter.clone() };
        let part = call.turnwise().jobs(part).await?;
        let more = part.len() == count as usize;
        for job in part {
            looked += 1;
            last = job.id;
            if call.covers(&job) {
                bytes += job.args.as_str().len() + job.result.as_ref().map_or(0, |result| result.as_str().len());
                jobs.push(job);
                if jobs.len() == limit {
                    return Ok(Found { jobs, next: Some(last) });
                }
            }
        }
        let Some(before) = id_before(last).filter(|_| more) else { return Ok(Found { jobs, next: None }) };
        if bytes > PAGE_BYTES || looked >= LOOKED_AT {
            return Ok(Found { jobs, next: Some(last) });
        }
        last = before;
    }
}

fn id_before(id: JobId) -> Option<JobId> {
    id.uuid().as_u128().checked_sub(1).map(|before| JobId::from_uuid(Uuid::from_u128(before)))
}
