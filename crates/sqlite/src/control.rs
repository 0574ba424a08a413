//! Control: a person's decisions, each written if the job still is what the person saw.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, params};
use turnwise_core::{
    JobId, Priority, Retention, Timestamp,
    lifecycle::{Edit, Target},
};
use turnwise_store::{Intervention, Settled};

use crate::{
    audit,
    errors::Failure,
    rows::ChangedJob,
    settle::{JobRow, RunEnd, ended, tell, write},
    unique,
};

type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn control(
    conn: &Connection,
    interventions: &[Intervention],
    retention: Retention,
    now: Timestamp,
) -> Result<Vec<Settled>> {
    let kept = kept_by_keys(conn, interventions, now)?;
    let mut changed = Vec::new();
    let mut replies = Vec::with_capacity(interventions.len());
    for intervention in interventions {
        let reply = control_one(conn, intervention, &kept, retention, now)?;
        if reply == Settled::Applied {
            audit::write(conn, intervention.line.as_deref(), now)?;
        }
        if reply == Settled::Applied && intervention.to.to != Target::CancelRequested {
            let error = intervention.to.fingerprint();
            changed.push(ChangedJob { id: intervention.job, ran: None, failed: false, otherwise: true, error });
        }
        replies.push(reply);
    }
    tell(conn, None, &changed)?;
    Ok(replies)
}

fn control_one(
    conn: &Connection,
    intervention: &Intervention,
    kept: &HashSet<JobId>,
    retention: Retention,
    now: Timestamp,
) -> Result<Settled> {
    let unfinished = JobRow::read(conn, intervention.job)?;
    let found = match &unfinished {
        Some(row) => Some(row.found()),
        None => ended(conn, intervention.job)?,
    };
    let Some(found) = found else { return Ok(Settled::Gone) };
    if (found.state, found.fence) != (intervention.state, intervention.fence) {
        return Ok(Settled::Superseded);
    }
    if intervention.to.to == Target::CancelRequested {
        return request_cancel(conn, intervention, unfinished);
    }
    if let Target::Edited(change) = &intervention.to.to {
        return edit(conn, unfinished, change, kept);
    }
    let row = match unfinished {
        Some(row) => row,
        None => redrive(conn, intervention)?,
    };
    let run = RunEnd { node_name: None, fence: row.fence, started_at: None, finished_at: None, noted: true };
    write(conn, &row, &run, &intervention.to, retention, now)?;
    Ok(Settled::Applied)
}

/// Records the request, with the job and for its node; a job in no node's hands cannot be asked to stop.
fn request_cancel(conn: &Connection, intervention: &Intervention, row: Option<JobRow>) -> Result<Settled> {
    let Some(row) = row.filter(|row| row.state.assigned()) else { return Ok(Settled::Superseded) };
    let Some(node) = row.node else { return Ok(Settled::Superseded) };
    conn.prepare_cached(include_str!("../sql/control_cancel.sql"))?.execute(params![row.seq, row.fence.0])?;
    let job = intervention.job.as_bytes();
    conn.prepare_cached(include_str!("../sql/control_stop.sql"))?.execute(params![
        node.0.as_bytes(),
        job,
        row.fence.0
    ])?;
    Ok(Settled::Applied)
}

/// Brings a finished job back among the unfinished ones, under a new number.
fn redrive(conn: &Connection, intervention: &Intervention) -> Result<JobRow> {
    let Intervention { job: id, state, fence, .. } = *intervention;
    conn.prepare_cached(include_str!("../sql/control_redrive.sql"))?.execute([id.as_bytes()])?;
    let seq = conn.last_insert_rowid();
    conn.prepare_cached(include_str!("../sql/forget.sql"))?.execute([id.as_bytes()])?;
    Ok(JobRow { id, seq, state, fence, node: None, cancel_requested: false, started_at: None, waits: false })
}

/// Edits a job at rest, and raises its fence.
fn edit(conn: &Connection, row: Option<JobRow>, edit: &Edit, kept: &HashSet<JobId>) -> Result<Settled> {
    let Some(row) = row.filter(|row| !row.state.assigned()) else { return Ok(Settled::Superseded) };
    if edit.queue.is_some() && kept.contains(&row.id) {
        return Ok(Settled::KeyHeld);
    }
    conn.prepare_cached(include_str!("../sql/control_edit.sql"))?.execute(params![
        row.seq,
        row.fence.0,
        row.fence.edited().0,
        edit.priority.map(Priority::get),
        edit.due.map(Timestamp::micros),
        edit.queue.as_ref().map(|queue| queue.name.as_str()),
    ])?;
    Ok(Settled::Applied)
}

/// The jobs that are to leave their queue and hold a key within it. The keys of a queue are read once for all of them.
fn kept_by_keys(conn: &Connection, interventions: &[Intervention], now: Timestamp) -> Result<HashSet<JobId>> {
    let mut leaving: HashMap<&str, HashSet<JobId>> = HashMap::new();
    for Intervention { job, to, .. } in interventions {
        if let Target::Edited(edit) = &to.to
            && let Some(queue) = &edit.queue
        {
            leaving.entry(&queue.leaves).or_default().insert(*job);
        }
    }
    let mut kept = HashSet::new();
    for (scope, jobs) in leaving {
        let mut keys = conn.prepare_cached(include_str!("../sql/control_keys.sql"))?;
        for holding in keys.query_map([scope], |row| unique::holding(row, 0))? {
            let holding = holding?;
            if jobs.contains(&holding.job) && holding.holds(true, now) {
                kept.insert(holding.job);
            }
        }
    }
    Ok(kept)
}
