//! Decisions about all jobs that a filter names: a preview first, then the decision about what was previewed.

use tokio::time::Instant;
use turnwise::{
    Job, JobId, JobState, ListCursor, Timestamp, Turnwise,
    wire::{Choice, DecidedAll, Preview},
};

use crate::{
    call::{Call, Reply},
    limits::{DECIDED_AT_ONCE, DECIDING_TIME, PAGE_MOST, READ_AT_ONCE},
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
    /// The same in the library, which knows in which states it is possible.
    fn kind(self) -> turnwise::Decision {
        match self {
            Self::Cancel => turnwise::Decision::Cancel,
            Self::Retry => turnwise::Decision::Retry,
            Self::Fail => turnwise::Decision::Fail,
        }
    }

    fn may(self, state: JobState) -> bool {
        self.kind().may(state)
    }

    fn usual(self) -> Vec<JobState> {
        self.kind().usual()
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
    let named = choice.filter.states();
    if let Some(state) = named.and_then(|named| named.iter().find(|state| !decision.may(**state))) {
        let problem = format!("filter: jobs that are {state} cannot be {}", decision.participle());
        return Err(Problem::invalid("/filter", problem));
    }
    if choice.states.is_empty() && named.is_none() {
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
    if choice.newest.is_none() {
        let problem = "newest: is missing; ask with dry_run first, and give back the newest of its answer";
        return Err(Problem::invalid("/newest", problem));
    }
    let (mut done, seen) = each(call, &choice, limit, Some(decision)).await?;
    done.ended(seen.next, seen.reached);
    Reply::json(&done)
}

async fn preview(call: &Call, choice: &Choice, limit: usize) -> Result<Reply, Problem> {
    let (_, seen) = each(call, choice, limit, None).await?;
    Reply::json(&Preview::new(seen.count, seen.newest, seen.next, seen.reached))
}

/// The jobs that were found, and where the look for them has ended.
#[derive(Debug, Default)]
struct Seen {
    count: usize,
    newest: Option<JobId>,
    next: Option<ListCursor>,
    reached: Option<Timestamp>,
}

/// Decides about the jobs, or only counts them, the newest first. They are read a few at a time, so that large arguments do not fill the
/// memory. It ends where enough were found, where the store has looked at as many rows as one call is to cost, or when it has taken long.
async fn each(
    call: &Call,
    choice: &Choice,
    limit: usize,
    decision: Option<Decision>,
) -> Result<(DecidedAll, Seen), Problem> {
    let (mut search, mut done, mut seen) =
        (choice.search(call.time_for(&choice.filter).await?), DecidedAll::default(), Seen::default());
    let list = &mut search.list;
    if !call.grant.narrow(&mut list.queues, &mut list.groups, &mut list.tasks) {
        return Ok((done, seen));
    }
    // A search that looks closer bounds what it reads itself, and would read the rest of a part again for the next one.
    let at_once = if search.looks_closer() { PAGE_MOST } else { READ_AT_ONCE };
    let (acting, begun, mut cursor) = (call.acting(), Instant::now(), choice.begins());
    loop {
        let count = u32::try_from(limit - seen.count).unwrap_or(at_once).min(at_once);
        let page = call.turnwise().search(&mut search, cursor, count).await?;
        let jobs: Vec<_> = page.jobs.into_iter().filter(|job| call.covers(job)).collect();
        seen.newest = seen.newest.or(jobs.first().map(|job| job.id));
        seen.count += jobs.len();
        if let Some(decision) = decision {
            decision.make(&acting, &jobs, &mut done).await?;
        }
        (seen.next, seen.reached) = (page.next, page.reached);
        if seen.next.is_none() || seen.reached.is_some() || begun.elapsed() >= DECIDING_TIME {
            return Ok((done, seen));
        }
        if seen.count >= limit {
            // A part that is full may still be the last.
            let rest = call.turnwise().search(&mut search, seen.next, 1).await?;
            if rest.jobs.is_empty() && rest.next.is_none() {
                seen.next = None;
            }
            return Ok((done, seen));
        }
        cursor = seen.next;
    }
}
