//! Writing how runs ended.

use turnwise_core::{
    Incarnation, JobId, Retention, Timestamp,
    lifecycle::{Target, Transition},
    story::{Attempt, MAX_ATTEMPTS},
};

use super::{ChangedJob, Data, MemoryStore, rows::Row};
use crate::{
    store::{Author, Result, Settle, Settled, Settlement},
    verdict,
};

pub(super) fn settle(store: &MemoryStore, settle: Settle) -> Result<Vec<Settled>> {
    let now = store.clock.now();
    let mut data = store.data();
    let (holder, told, lost) = match settle.author {
        Author::Node { node, told } => (node, told, false),
        Author::Dispatcher { holder, epoch, lost, .. } => {
            data.check_leading(holder, epoch)?;
            (lost, Some(epoch), true)
        }
    };
    let mut replies = Vec::with_capacity(settle.settlements.len());
    let mut changed = Vec::new();
    for settlement in settle.settlements {
        if settlement.ends_stop() && data.stop_requests.get(&(holder, settlement.job)) == Some(&settlement.fence) {
            data.stop_requests.remove(&(holder, settlement.job));
        }
        let (reply, written) = data.settle_one(holder, lost, &settlement, now, store.kept.now().retention);
        if written && settlement.to.to != Target::Running {
            let (failed, well) = (settlement.failed(), settlement.well());
            let error = settlement.to.fingerprint();
            changed.push(ChangedJob { id: settlement.job, ran: settlement.ran(), failed, well, error });
        }
        replies.push(reply);
    }
    for batch in settle.done {
        data.assignments.remove(&(holder, batch));
    }
    if let Author::Dispatcher { lost, bury: true, .. } = settle.author
        && !data.jobs.values().any(|row| row.in_hands_of(lost))
    {
        data.bury(lost);
    }
    let anything = !changed.is_empty();
    data.tell(told, changed);
    drop(data);
    if anything {
        store.bell.ring_news();
    }
    Ok(replies)
}

impl Data {
    /// The answer, and whether anything was written: a repeated settle changes nothing and is no news.
    pub(super) fn settle_one(
        &mut self,
        node: Incarnation,
        lost: bool,
        settlement: &Settlement,
        now: Timestamp,
        retention: Retention,
    ) -> (Settled, bool) {
        let found = self.jobs.get(&settlement.job).or_else(|| self.history.get(&settlement.job)).map(Row::found);
        if let Some(reply) = verdict::answer(settlement, node, lost, found) {
            return (reply, false);
        }
        let row = self.jobs.get_mut(&settlement.job).expect("it is in the node's hands");
        row.started_at = settlement.started_at.or(row.started_at);
        row.finished_at = settlement.finished_at.or(row.finished_at);
        if lost {
            row.fence = row.fence.next();
        }
        row.node_name = self.nodes.get(&node).map(|node| node.name.clone());
        if let Some(ending) = settlement.to.ending {
            let attempt = Attempt {
                fence: settlement.fence,
                number: row.counts.attempt + 1,
                task: row.task.clone(),
                ending,
                node: row.node_name.clone(),
                started_at: row.started_at,
                finished_at: settlement.finished_at,
                failure: settlement.to.error.clone(),
            };
            let attempts = &mut self.stories.entry(settlement.job).or_default().attempts;
            attempts.push(attempt);
            let over = attempts.len().saturating_sub(MAX_ATTEMPTS as usize);
            attempts.drain(..over);
        }
        self.write(settlement.job, &settlement.to, now, retention);
        (Settled::Applied, true)
    }

    /// Puts an unfinished job where core decided.
    pub(super) fn write(&mut self, id: JobId, to: &Transition, now: Timestamp, retention: Retention) {
        let row = self.jobs.get_mut(&id).expect("checked by the caller");
        row.counts = to.counts;
        if let Some(error) = &to.error {
            row.error = Some(error.clone());
        }
        row.state = to.state(row.state);
        if to.clears.cancel {
            row.cancel_requested = false;
        }
        if to.clears.expiry {
            row.expires_at = None;
        }
        if to.clears.dependencies {
            row.on_failure = None;
        }
        match &to.to {
            Target::Running => return,
            Target::Scheduled | Target::CancelRequested | Target::Edited(_) => {
                unreachable!("assign and control write these themselves")
            }
            Target::Waiting { due } | Target::Next { due, .. } => {
                row.due_at = Some(*due);
                row.result = None;
                row.ended_at = None;
                if let Target::Next { step, .. } = &to.to {
                    row.task = step.task.clone();
                    row.args = step.args.clone();
                    row.retry = step.retry.clone();
                    row.terms = step.terms.clone();
                    // What the last step's steps came to is nothing to the next.
                    self.stories.entry(id).or_default().steps.clear();
                }
            }
            Target::Stuck { due } => row.due_at = *due,
            Target::Finish { end, result } => {
                row.result = result.clone();
                row.finished_at = row.finished_at.or(Some(now));
                row.ended_at = Some(now);
                row.node = None;
                let row = self.jobs.remove(&id).expect("just written");
                if retention.keeps(*end) {
                    self.history.insert(id, row);
                } else {
                    self.forget(id, row.state);
                }
                return;
            }
        }
        row.node = None;
        row.node_name = None;
    }
}
