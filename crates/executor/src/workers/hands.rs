//! What is in a worker's hands: read, written as running or ended if its time is over, and compared with what the worker says.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::time::Instant;
use turnwise_core::{
    JobState,
    job::AssignedJob,
    lifecycle,
    worker::{GRACE, MOMENT, Stop, is_over_time},
};
use turnwise_store::{Author, Load, Settle, Settled, StoreError};

use super::{EndAnswer, Held, Workers, known::Known};
use crate::settle::decide::{RunEnd, begin, settlement};

impl Workers {
    /// Reads what is assigned to the worker, beyond the batches of which it holds every job. Returns what was read.
    pub(super) async fn look(&self, known: &Known, held: &BTreeSet<Held>) -> Result<Vec<Arc<AssignedJob>>, StoreError> {
        let left_out = known.hands().known_batches(held);
        let mail = self.store.assignments(known.node, left_out.clone()).await?;
        Ok(known.hands().read(&left_out, mail))
    }

    /// Writes which of the held jobs run, and ends those whose time and grace are over. What cannot be written now is tried again with the
    /// next request.
    pub(super) async fn tend(&self, known: &Known, held: &BTreeSet<Held>) {
        if held.is_empty() {
            return;
        }
        self.see_held(known, held).await;
        let now = self.clock.now();
        let (mut running, mut over) = (Vec::new(), Vec::new());
        for job in held {
            let mut hands = known.hands();
            let Some(one) = hands.at(*job) else { continue };
            let Some(lasted) = one.since.map(|since| since.elapsed()) else { continue };
            match known.worker.timeout(&one.job) {
                Some(limit) if is_over_time(lasted, limit) => {
                    over.push((Arc::clone(&one.job), limit, lasted, one.cancel));
                }
                _ if lasted >= MOMENT && !one.running => running.push(begin(&one.job, now.minus(lasted), now)),
                _ => {}
            }
        }
        let begun = running.len();
        let ends = over.iter().map(|(job, limit, lasted, cancel)| {
            let end = RunEnd {
                job,
                outcome: lifecycle::Outcome::TimedOut { limit: *limit },
                cancel_requested: *cancel,
                started_at: Some(now.minus(*lasted)),
                finished_at: Some(now),
                noted: true,
            };
            settlement(&known.worker, end, now, self.chance.random())
        });
        let settlements: Vec<_> = running.into_iter().chain(ends).collect();
        if settlements.is_empty() {
            return;
        }
        let jobs: Vec<Held> = settlements.iter().map(|one| (one.job, one.fence)).collect();
        let author = Author::Node { node: known.node, told: None };
        let replies = match self.store.settle(Settle { author, settlements, done: Vec::new() }).await {
            Ok(replies) => replies,
            Err(error) => return tracing::debug!(%error, "what a worker's jobs have come to could not be written"),
        };
        let mut hands = known.hands();
        for ((at, job), reply) in jobs.into_iter().enumerate().zip(replies) {
            match reply {
                // It is decided again with that.
                Settled::CancelRequested => hands.at(job).into_iter().for_each(|one| one.cancel = true),
                Settled::Locked | Settled::KeyHeld => {}
                // Another server has ended it, or another node has it.
                Settled::Superseded | Settled::Gone => drop(hands.jobs.remove(&job.0)),
                Settled::Applied if at < begun => hands.at(job).into_iter().for_each(|one| one.running = true),
                Settled::Applied => {
                    tracing::warn!(job = %job.0, worker = %known.name, "a worker did not end a job in its time; it has timed out");
                    hands.ends(job, EndAnswer::Stale);
                    hands.over.insert(job);
                }
            }
        }
    }

    /// Notes since when the worker has what it holds. Of a job that began before this server saw it, the row says when.
    async fn see_held(&self, known: &Known, held: &BTreeSet<Held>) {
        let mut began_before = Vec::new();
        {
            let mut hands = known.hands();
            hands.over.retain(|job| held.contains(job));
            for job in held {
                if let Some(one) = hands.at(*job).filter(|one| one.since.is_none()) {
                    one.since = Some(Instant::now());
                    if one.job.state == JobState::Running && known.worker.timeout(&one.job).is_some() {
                        began_before.push(*job);
                    }
                }
            }
        }
        for job in began_before {
            let Ok(Some(row)) = self.store.job(job.0).await else { continue };
            if let (true, Some(began)) = (row.fence == job.1, row.started_at)
                && let Some(one) = known.hands().at(job)
            {
                one.since = Some(Self::ago(self.since(began)));
            }
        }
    }

    /// Which of what it holds the worker is to stop.
    pub(super) async fn stops(&self, known: &Known, held: &BTreeSet<Held>) -> Result<Vec<(Held, Stop)>, StoreError> {
        let (mut stops, mut unknown) = (Vec::new(), Vec::new());
        {
            let mut hands = known.hands();
            for job in held {
                if hands.over.contains(job) {
                    stops.push((*job, Stop::TimedOut));
                } else if let Some(one) = hands.at(*job) {
                    if one.cancel {
                        stops.push((*job, Stop::Cancelled));
                    }
                } else if hands.answered(*job).is_none() {
                    // An end that this server has written is on its way to the worker.
                    unknown.push(*job);
                }
            }
        }
        if !unknown.is_empty() {
            let ids = unknown.iter().map(|(id, _)| *id).collect();
            let heads = self.store.load(Load::These(ids)).await?.jobs;
            let here = |(id, fence): Held| {
                heads.iter().any(|head| {
                    (head.id, head.fence, head.node) == (id, fence, Some(known.node)) && head.state.assigned()
                })
            };
            stops.extend(unknown.into_iter().filter(|job| !here(*job)).map(|job| (job, Stop::Gone)));
        }
        let mut hands = known.hands();
        hands.told.retain(|job, _| held.contains(job));
        Ok(stops)
    }

    /// When the next of the held jobs is to be written as running, or to be ended.
    pub(super) fn next_tending(known: &Known, held: &BTreeSet<Held>) -> Option<Instant> {
        let mut hands = known.hands();
        let times = held.iter().filter_map(|job| {
            let one = hands.at(*job)?;
            let since = one.since?;
            let over = known.worker.timeout(&one.job).and_then(|limit| since.checked_add(limit.checked_add(GRACE)?));
            let tick = Duration::from_millis(1);
            match (one.running, over) {
                (true, over) => over.map(|over| over + tick),
                (false, None) => Some(since + MOMENT),
                (false, Some(over)) => Some((since + MOMENT).min(over + tick)),
            }
        });
        times.min()
    }

    /// Names batches as done of which nothing is left, if there is no settle to name them in.
    pub(super) async fn call_done(&self, known: &Known) {
        let done = known.hands().done();
        if done.is_empty() {
            return;
        }
        let author = Author::Node { node: known.node, told: None };
        match self.store.settle(Settle { author, settlements: Vec::new(), done: done.clone() }).await {
            Ok(_) => known.hands().called_done(&done),
            Err(error) => tracing::debug!(%error, "batches of a worker could not be called done"),
        }
    }
}
