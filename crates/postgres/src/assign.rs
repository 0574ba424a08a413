//! Giving picked jobs to nodes, and reading what a node was given.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use foldhash::{HashMap, HashMapExt};
use tokio_postgres::types::ToSql;
use turnwise_core::{Fence, Incarnation, JobHead, JobId, job::AssignedJob, scheduler::Pick};
use turnwise_store::{Assign, AssignReply, BatchId, Delivery, Mail, Result, StoreError};
use uuid::Uuid;

use crate::{
    after,
    connect::connection,
    errors::{failed, is_locked},
    rows::{self, Names, get},
    session::{Part, Session},
    store::Inner,
};

/// For how long after a job was found locked the others are assigned by the statement that skips locked ones. It costs more,
/// but waits for no lock; a job that stays locked is tried again every second, and so never by the other statement.
const CALM: Duration = Duration::from_secs(5);

/// When a job was last found locked by another transaction.
#[derive(Debug, Default)]
pub(crate) struct LocksMet(Mutex<Option<Instant>>);

impl LocksMet {
    fn lately(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|at| at.elapsed() < CALM)
    }

    fn now(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

pub(crate) async fn assign(store: &Inner, assign: &Assign) -> Result<Vec<(JobId, AssignReply)>> {
    let fail = failed("assign");
    // Sorted by id, so that two batches never lock in opposite orders; delivered in the order they were picked in.
    let mut ranked: Vec<(usize, &Pick)> = assign.picks.iter().enumerate().collect();
    ranked.sort_by_key(|(_, pick)| pick.job);
    ranked.dedup_by_key(|(_, pick)| pick.job);
    let picks = || ranked.iter().map(|(_, pick)| *pick);
    let ids: Vec<Uuid> = picks().map(|pick| pick.job.uuid()).collect();
    let fences: Vec<i64> = picks().map(|pick| pick.fence.0).collect();
    let nodes: Vec<Uuid> = picks().map(|pick| pick.node.0).collect();
    let ranks: Vec<i32> = ranked.iter().filter_map(|(rank, _)| i32::try_from(*rank).ok()).collect();
    let limited: Vec<bool> = picks().map(|pick| pick.limited).collect();
    let client = connection(&store.pools.assign).await?;
    let binds: [&(dyn ToSql + Sync); 8] =
        [&assign.holder.0, &assign.epoch.0, &assign.batch.0, &ids, &fences, &nodes, &ranks, &limited];
    let taken_at_once = if store.locks_met.lately() {
        None
    } else {
        match client.query(include_str!("../sql/assign.sql"), &binds).await {
            // An application's transaction holds one of the rows; the dispatcher does not wait for that.
            Err(error) if is_locked(&error) => {
                store.locks_met.now();
                None
            }
            rows => Some(rows.map_err(fail)?),
        }
    };
    let rows = match taken_at_once {
        Some(rows) => rows,
        None => {
            let skip = [Part::of(include_str!("../sql/assign_skip.sql"), binds.to_vec())];
            // It waits for no job, but perhaps for a beat that is being committed.
            let patience = "set local lock_timeout = '5s'";
            client.in_a_transaction("begin", patience, &skip).await.map_err(fail)?.swap_remove(0)
        }
    };
    if !get::<bool>(rows.first().ok_or_else(|| StoreError::broken("assign", "no answer"))?, 0)? {
        return Err(StoreError::NotLeading);
    }
    let mut names = Names::default();
    let mut replies: Vec<Option<AssignReply>> = assign.picks.iter().map(|_| None).collect();
    let mut taken = 0;
    for row in &rows {
        let Some(rank) = get::<Option<i32>>(row, 1)?.and_then(|rank| usize::try_from(rank).ok()) else { continue };
        let pick = &assign.picks[rank];
        let fence = pick.fence.next();
        replies[rank] = Some(if pick.node == assign.holder {
            let job = rows::assigned(row, pick.job, fence, 2, &mut names)?;
            AssignReply::Mine(Box::new(AssignedJob { limited: pick.limited, ..job }))
        } else {
            AssignReply::Theirs(fence)
        });
        taken += 1;
    }
    if taken < ranked.len() {
        let missing = ranked.iter().filter(|(at, _)| replies[*at].is_none());
        let missing: Vec<(usize, &Pick)> = missing.copied().collect();
        let ids: Vec<Uuid> = missing.iter().map(|(_, pick)| pick.job.uuid()).collect();
        let mut found = read_again(&client, &ids).await?;
        for (at, pick) in missing {
            let reply = not_taken(pick, assign.holder, found.remove(&pick.job));
            if matches!(reply, AssignReply::Locked) {
                store.locks_met.now();
            }
            replies[at] = Some(reply);
        }
    }
    if assign.picks.iter().any(|pick| pick.node != assign.holder && store.joined_here(pick.node)) {
        store.bell.ring_mail();
    }
    let replies = assign.picks.iter().zip(replies);
    Ok(replies.filter_map(|(pick, reply)| Some((pick.job, reply?))).collect())
}

async fn read_again(client: &impl Session, ids: &[Uuid]) -> Result<HashMap<JobId, (JobHead, AssignedJob)>> {
    let fail = failed("read picked jobs again");
    let rows = client.query(include_str!("../sql/assign_again.sql"), &[&ids]).await.map_err(fail)?;
    let mut names = Names::default();
    let mut found = HashMap::with_capacity(rows.len());
    for row in &rows {
        if let Some(head) = rows::head(row, 0, &mut names)? {
            let assigned = rows::assigned(row, head.id, head.fence, 16, &mut names)?;
            found.insert(head.id, (head, assigned));
        }
    }
    after::complete(client, found.values_mut().map(|(head, _)| head)).await?;
    Ok(found)
}

/// Why a pick was not taken, or that an earlier call took it whose reply was lost.
fn not_taken(pick: &Pick, holder: Incarnation, found: Option<(JobHead, AssignedJob)>) -> AssignReply {
    let Some((head, assigned)) = found else { return AssignReply::Gone };
    let by_an_earlier_call = head.fence == pick.fence.next() && head.state.assigned() && head.node == Some(pick.node);
    let as_it_was_picked = head.fence == pick.fence && !head.state.assigned();
    match (by_an_earlier_call, as_it_was_picked) {
        (true, _) if pick.node == holder => {
            AssignReply::Mine(Box::new(AssignedJob { limited: pick.limited, ..assigned }))
        }
        (true, _) => AssignReply::Theirs(head.fence),
        // Only a lock can have kept it from being taken.
        (_, true) => AssignReply::Locked,
        _ => AssignReply::Changed(head),
    }
}

pub(crate) async fn assignments(store: &Inner, node: Incarnation, known: &[BatchId]) -> Result<Mail> {
    let fail = failed("read assignments");
    let known: Vec<Uuid> = known.iter().map(|batch| batch.0).collect();
    let client = connection(&store.pools.node).await?;
    let rows = client.query(include_str!("../sql/assignments.sql"), &[&node.0, &known]).await.map_err(fail)?;
    let mut names = Names::default();
    let mut mail = Mail::default();
    for row in &rows {
        let job = get::<Option<Uuid>>(row, 2)?.map(JobId::from_uuid);
        let Some(batch) = get::<Option<Uuid>>(row, 0)?.map(BatchId) else {
            mail.stop.extend(job.zip(get::<Option<i64>>(row, 3)?.map(Fence)));
            continue;
        };
        if mail.batches.last().is_none_or(|last| last.batch != batch) {
            mail.batches.push(Delivery { batch, jobs: Vec::new() });
        }
        if let (Some(id), Some(last)) = (job, mail.batches.last_mut()) {
            let job = rows::assigned(row, id, Fence(get(row, 3)?), 4, &mut names)?;
            last.jobs.push(AssignedJob { limited: get(row, 17)?, ..job });
        }
    }
    Ok(mail)
}
