//! What people and the dispatcher decide about jobs out of nodes' hands.

use turnwise_core::{
    JobId, Retention, Timestamp,
    lifecycle::{Edit, Target},
    unique::Holding,
};

use super::{ChangedJob, Data, MemoryStore};
use crate::store::{Intervention, Result, Settled};

pub(super) fn control(store: &MemoryStore, interventions: Vec<Intervention>) -> Result<Vec<Settled>> {
    let now = store.clock.now();
    let mut data = store.data();
    let mut changed = Vec::new();
    let replies = interventions
        .iter()
        .map(|intervention| {
            let reply = data.control_one(intervention, now, store.kept.now().retention);
            if reply == Settled::Applied {
                data.write_line(intervention.line.as_deref(), now);
            }
            if reply == Settled::Applied && intervention.to.to != Target::CancelRequested {
                let error = intervention.to.fingerprint();
                changed.push(ChangedJob { id: intervention.job, ran: None, failed: false, well: false, error });
            }
            reply
        })
        .collect();
    data.tell(None, changed);
    drop(data);
    store.bell.ring_news();
    store.bell.ring_mail();
    store.bell.ring_for_any();
    Ok(replies)
}

impl Data {
    pub(super) fn control_one(&mut self, intervention: &Intervention, now: Timestamp, retention: Retention) -> Settled {
        let Intervention { job, state, fence, to, .. } = intervention;
        let Some(row) = self.jobs.get_mut(job).or_else(|| self.history.get_mut(job)) else { return Settled::Gone };
        if (row.state, row.fence) != (*state, *fence) {
            return Settled::Superseded;
        }
        match (to.to.clone(), row.node) {
            (Target::Edited(edit), _) => return self.edit_one(*job, &edit, now),
            (Target::CancelRequested, Some(node)) if row.state.assigned() => {
                row.cancel_requested = true;
                self.stop_requests.insert((node, *job), *fence);
            }
            (Target::CancelRequested, _) => return Settled::Superseded,
            _ => {
                if row.state.finished() {
                    let mut row = self.history.remove(job).expect("finished jobs are in history");
                    row.seq = self.next_seq;
                    self.next_seq += 1;
                    self.jobs.insert(*job, row);
                }
                self.write(*job, to, now, retention);
            }
        }
        Settled::Applied
    }

    /// Edits a job at rest.
    fn edit_one(&mut self, id: JobId, edit: &Edit, now: Timestamp) -> Settled {
        let Some(row) = self.jobs.get_mut(&id).filter(|row| !row.state.assigned()) else { return Settled::Superseded };
        if let Some(queue) = &edit.queue {
            let holds = |holding: &Holding| holding.job == id && holding.holds(true, now);
            if self.keys.iter().any(|((scope, _), holding)| *scope == queue.leaves && holds(holding)) {
                return Settled::KeyHeld;
            }
            row.queue = queue.name.clone();
        }
        row.priority = edit.priority.unwrap_or(row.priority);
        row.due_at = edit.due.or(row.due_at);
        row.fence = row.fence.edited();
        Settled::Applied
    }
}
