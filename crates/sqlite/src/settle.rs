//! Settle: decisions about assigned jobs, each written if the job still is what was decided about.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, Statement, params};
use turnwise_core::{
    Fence, Incarnation, JobId, JobState, Retention, RetryPolicy, Timestamp,
    lifecycle::{End, Target, Transition},
};
use turnwise_store::{
    Author, Epoch, Settle, Settled, Settlement,
    verdict::{self, SettleFacts},
};

use crate::{
    after,
    errors::Failure,
    nodes::{bury, check_leading, holds, node_name},
    rows::{self, ChangedJob},
    story,
};

type Result<T> = std::result::Result<T, Failure>;

/// The replies, and whether the dispatcher has something to read.
pub(crate) fn settle(
    conn: &Connection,
    settle: &Settle,
    retention: Retention,
    now: Timestamp,
) -> Result<(Vec<Settled>, bool)> {
    let (node, told, lost) = match settle.author {
        Author::Node { node, told } => (node, told, false),
        Author::Dispatcher { holder, epoch, lost, .. } => {
            check_leading(conn, holder, epoch)?;
            (lost, Some(epoch), true)
        }
    };
    let hands = Hands { node, name: node_name(conn, node)?, lost };
    let left = leave_together(conn, &hands, &settle.settlements, retention)?;
    let mut leave = conn.prepare_cached(include_str!("../sql/settle_discard.sql"))?;
    let mut replies = Vec::with_capacity(settle.settlements.len());
    let mut changed = Vec::new();
    for settlement in &settle.settlements {
        let gone = left.contains(&settlement.job) || leaves_nothing(&mut leave, &hands, settlement, retention)?;
        let (reply, written) =
            if gone { (Settled::Applied, true) } else { settle_one(conn, &hands, settlement, retention, now)? };
        if settlement.ends_stop() {
            let mut stopped = conn.prepare_cached(include_str!("../sql/settle_stopped.sql"))?;
            stopped.execute(params![node.0.as_bytes(), settlement.job.as_bytes(), settlement.fence.0])?;
        }
        if written && settlement.to.to != Target::Running {
            let failed = settlement.failed();
            let otherwise = !failed && !settlement.well();
            let error = settlement.to.fingerprint();
            changed.push(ChangedJob { id: settlement.job, ran: settlement.ran(), failed, otherwise, error });
        }
        replies.push(reply);
    }
    let mut delivered = conn.prepare_cached(include_str!("../sql/settle_delivered.sql"))?;
    for batch in &settle.done {
        delivered.execute(params![node.0.as_bytes(), batch.0.as_bytes()])?;
    }
    if let Author::Dispatcher { lost, bury: true, .. } = settle.author
        && !holds(conn, lost)?
    {
        bury(conn, lost)?;
    }
    tell(conn, told, &changed)?;
    Ok((replies, !changed.is_empty()))
}

/// The node whose hands the jobs must be in.
struct Hands {
    node: Incarnation,
    name: Option<String>,
    lost: bool,
}

/// Whether it is an ordinary end of which nothing is to be kept: most are, where finished jobs are not kept.
fn ordinary(hands: &Hands, settlement: &Settlement, retention: Retention) -> bool {
    let well = |end: End| end == End::Success && !retention.keeps(end);
    !settlement.noted && !hands.lost && matches!(settlement.to.to, Target::Finish { end, .. } if well(end))
}

/// Ends such a job in one statement that holds all guards. `false`: nothing was written, and each guard is to be looked at.
fn leaves_nothing(
    leave: &mut Statement<'_>,
    hands: &Hands,
    settlement: &Settlement,
    retention: Retention,
) -> Result<bool> {
    if !ordinary(hands, settlement, retention) {
        return Ok(false);
    }
    let (id, node) = (settlement.job.as_bytes(), hands.node.0.as_bytes());
    Ok(leave.execute(params![id, settlement.fence.0, node, settlement.saw_cancel])? == 1)
}

/// How many other jobs between those that end may be read for nothing, beyond as many as end.
const IN_VAIN: usize = 32;

/// Ends such jobs that lie side by side with one statement, which costs half of one for each. Returns the jobs that it
/// deleted; the others are settled one by one later.
fn leave_together(
    conn: &Connection,
    hands: &Hands,
    settlements: &[Settlement],
    retention: Retention,
) -> Result<HashSet<JobId>> {
    let ends = settlements.iter().filter(|settlement| ordinary(hands, settlement, retention));
    let mut ends: Vec<_> = ends.map(|end| (end.job, end.fence, end.saw_cancel)).collect();
    ends.sort_unstable();
    let mut gone = HashSet::new();
    let [(first, ..), .., (last, ..)] = ends[..] else { return Ok(gone) };
    // Of several decisions about one job each is looked at in its turn.
    let mut jobs: Vec<_> = settlements.iter().map(|settlement| settlement.job).collect();
    jobs.sort_unstable();
    if jobs.windows(2).any(|two| two[0] == two[1]) {
        return Ok(gone);
    }
    let mut leave = conn.prepare_cached(include_str!("../sql/settle_discard_between.sql"))?;
    for run in side_by_side(conn, ends, first, last)? {
        let (Some((first, fence, saw_cancel)), Some((last, ..))) = (run.first(), run.last()) else { continue };
        let (first, last, node) = (first.as_bytes(), last.as_bytes(), hands.node.0.as_bytes());
        let rows = leave.execute(params![first, last, fence.0, node, saw_cancel])?;
        for (id, ..) in &run {
            // All of them were there a moment ago: this statement deleted what is missing now.
            if rows == run.len() || JobRow::read(conn, *id)?.is_none() {
                gone.insert(*id);
            }
        }
    }
    Ok(gone)
}

/// A job, and what its guard wants to see.
type Ending = (JobId, Fence, bool);

/// Those of `ends` that are there, in runs of the same guard between which no other job lies.
fn side_by_side(conn: &Connection, ends: Vec<Ending>, first: JobId, last: JobId) -> Result<Vec<Vec<Ending>>> {
    let mut between = conn.prepare_cached(include_str!("../sql/settle_ids_between.sql"))?;
    let mut rows = between.query(params![first.as_bytes(), last.as_bytes()])?;
    let (mut ends, mut runs, mut run) = (ends.into_iter().peekable(), Vec::new(), Vec::<Ending>::new());
    let (mut found, mut in_vain) = (0, 0);
    while let Some(row) = rows.next()? {
        let id = JobId::from_uuid(rows::uuid(row, 0)?);
        while ends.next_if(|(end, ..)| *end < id).is_some() {}
        let end = ends.next_if(|(end, ..)| *end == id);
        let goes_on = end.zip(run.last()).is_some_and(|((_, fence, saw), last)| (fence, saw) == (last.1, last.2));
        if !goes_on {
            runs.push(std::mem::take(&mut run));
        }
        match end {
            Some(end) => run.push(end),
            None => in_vain += 1,
        }
        found += usize::from(end.is_some());
        if in_vain > found + IN_VAIN {
            break;
        }
    }
    runs.push(run);
    runs.retain(|run| run.len() > 1);
    Ok(runs)
}

/// The answer, and whether anything was written: a repeated settle changes nothing and is no news.
fn settle_one(
    conn: &Connection,
    hands: &Hands,
    settlement: &Settlement,
    retention: Retention,
    now: Timestamp,
) -> Result<(Settled, bool)> {
    let row = JobRow::read(conn, settlement.job)?;
    let found = match &row {
        Some(row) => Some(row.found()),
        None => ended(conn, settlement.job)?,
    };
    let row = match (row, verdict::answer(settlement, hands.node, hands.lost, found)) {
        (Some(row), None) => row,
        (_, reply) => return Ok((reply.unwrap_or(Settled::Gone), false)),
    };
    let run = RunEnd {
        node_name: hands.name.as_deref(),
        fence: if hands.lost { row.fence.next() } else { row.fence },
        started_at: settlement.started_at,
        finished_at: settlement.finished_at,
        noted: settlement.noted,
    };
    // Where nothing is kept of a job that ends, nothing need be written.
    let kept = !matches!(settlement.to.to, Target::Finish { end, .. } if !retention.keeps(end));
    if let Some(ending) = settlement.to.ending.filter(|_| kept) {
        story::keep_attempt(conn, settlement, &row, &run, ending)?;
    }
    write(conn, &row, &run, &settlement.to, retention, now)?;
    Ok((Settled::Applied, true))
}

/// As much of an unfinished job as its guards need.
pub(crate) struct JobRow {
    pub(crate) id: JobId,
    pub(crate) seq: i64,
    pub(crate) state: JobState,
    pub(crate) fence: Fence,
    pub(crate) node: Option<Incarnation>,
    pub(crate) cancel_requested: bool,
    pub(crate) started_at: Option<Timestamp>,
    /// It waits or waited for others.
    pub(crate) waits: bool,
}

impl JobRow {
    pub(crate) fn found(&self) -> SettleFacts {
        let &Self { state, fence, node, cancel_requested, started_at, .. } = self;
        SettleFacts { state, fence, node, cancel_requested, started_at }
    }

    pub(crate) fn read(conn: &Connection, id: JobId) -> Result<Option<Self>> {
        let mut read = conn.prepare_cached(include_str!("../sql/settle_read.sql"))?;
        let row = read.query_row([id.as_bytes()], |row| {
            Ok(Self {
                id,
                seq: row.get(0)?,
                state: rows::state(row, 1)?,
                fence: Fence(row.get(2)?),
                node: rows::node_ref(row, 3)?,
                cancel_requested: row.get(4)?,
                started_at: rows::moment(row, 5)?,
                waits: row.get(6)?,
            })
        });
        Ok(row.optional()?)
    }
}

/// What a finished job has come to.
pub(crate) fn ended(conn: &Connection, id: JobId) -> Result<Option<SettleFacts>> {
    let mut ended = conn.prepare_cached(include_str!("../sql/settle_read_ended.sql"))?;
    let ended = ended.query_row([id.as_bytes()], |row| {
        Ok(SettleFacts {
            state: rows::state(row, 0)?,
            fence: Fence(row.get(1)?),
            node: None,
            cancel_requested: false,
            started_at: rows::moment(row, 2)?,
        })
    });
    Ok(ended.optional()?)
}

/// What a decision brings along from the run it ends; what is `None` stays as it is.
pub(crate) struct RunEnd<'a> {
    pub(crate) node_name: Option<&'a str>,
    /// The fence from now on.
    pub(crate) fence: Fence,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Option<Timestamp>,
    /// Whether the job may have a story: where nothing is kept, it goes with the job.
    pub(crate) noted: bool,
}

/// Puts an unfinished job where core decided.
pub(crate) fn write(
    conn: &Connection,
    row: &JobRow,
    run: &RunEnd<'_>,
    to: &Transition,
    retention: Retention,
    now: Timestamp,
) -> Result<()> {
    let counts = to.counts;
    let (started_at, finished_at) = (run.started_at.map(Timestamp::micros), run.finished_at.map(Timestamp::micros));
    let (error, fingerprint) = to.error.as_ref().map(|error| (error.text(), error.fingerprint())).unzip();
    let clears = to.clears;
    // The first eleven are the same in all of these.
    macro_rules! with {
        ($($more:expr),* $(,)?) => {
            params![
                row.seq, row.fence.0, counts.attempt, counts.retry, counts.crashes, error, run.fence.0, started_at,
                finished_at, fingerprint, clears.expiry, $($more),*
            ]
        };
    }
    match &to.to {
        Target::Running => {
            conn.prepare_cached(include_str!("../sql/settle_start.sql"))?.execute(with![run.node_name])?;
        }
        Target::Waiting { due } => {
            conn.prepare_cached(include_str!("../sql/settle_again.sql"))?
                .execute(with![due.micros(), clears.cancel])?;
        }
        Target::Next { step, due } => {
            conn.prepare_cached(include_str!("../sql/settle_next.sql"))?.execute(with![
                due.micros(),
                clears.cancel,
                step.task.as_str(),
                step.args.as_str(),
                RetryPolicy::to_stored(step.retry.as_ref()),
                step.terms.to_text()
            ])?;
            story::forget_steps(conn, row.id)?;
        }
        Target::Stuck { due } => {
            conn.prepare_cached(include_str!("../sql/settle_stuck.sql"))?.execute(with![due.map(Timestamp::micros)])?;
        }
        Target::Finish { end, result } => {
            if !retention.keeps(*end) {
                if run.noted || row.waits {
                    story::forget(conn, row.id)?;
                }
                after::remember_end(conn, row.id, end.state())?;
            } else {
                let result = result.as_ref().map(|result| result.as_str());
                conn.prepare_cached(include_str!("../sql/settle_finish.sql"))?.execute(with![
                    end.state().code(),
                    run.node_name,
                    result,
                    now.micros()
                ])?;
            }
            conn.prepare_cached(include_str!("../sql/settle_remove.sql"))?.execute(params![row.seq, row.fence.0])?;
        }
        Target::Scheduled | Target::CancelRequested | Target::Edited(_) => {
            unreachable!("assign and control write these themselves")
        }
    }
    Ok(())
}

/// Records the changes for the dispatcher, except for the one of epoch `told`, which knows them already.
pub(crate) fn tell(conn: &Connection, told: Option<Epoch>, changed: &[ChangedJob]) -> Result<()> {
    if !changed.is_empty() {
        let told = told.map(|epoch| epoch.0);
        conn.prepare_cached(include_str!("../sql/settle_tell.sql"))?.execute(params![
            told,
            rows::pack_changes(changed),
            rows::pack_failed(changed),
            false,
            rows::pack_otherwise(changed),
            rows::pack_errors(changed)
        ])?;
    }
    Ok(())
}
