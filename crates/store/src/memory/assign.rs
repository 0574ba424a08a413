//! Giving picked jobs to nodes, and reading what a node was given.

use turnwise_core::{Fence, Incarnation, JobId, JobState};

use super::MemoryStore;
use crate::store::{Assign, AssignReply, BatchId, Delivery, Mail, Result};

pub(super) fn assign(store: &MemoryStore, assign: Assign) -> Result<Vec<(JobId, AssignReply)>> {
    let now = store.clock.now();
    let mut data = store.data();
    data.check_leading(assign.holder, assign.epoch)?;
    let mut replies = Vec::with_capacity(assign.picks.len());
    for pick in &assign.picks {
        // In the hands of a node that has left, it would never run.
        let node_is_there = data.nodes.contains_key(&pick.node);
        let reply = match data.jobs.get_mut(&pick.job) {
            None => AssignReply::Gone,
            Some(row) => {
                let at_rest = row.fence == pick.fence && !row.state.assigned();
                let fresh = at_rest && node_is_there;
                if fresh {
                    row.state = JobState::Scheduled;
                    row.fence = row.fence.next();
                    row.node = Some(pick.node);
                    row.assigned_at = Some(now);
                }
                // Not fresh, but just what this pick would have made of it: the first call's reply was lost.
                if row.fence == pick.fence.next() && row.in_hands_of(pick.node) {
                    if fresh {
                        let jobs = data.assignments.entry((pick.node, assign.batch)).or_default();
                        jobs.push((pick.job, pick.limited));
                    }
                    let row = &data.jobs[&pick.job];
                    if pick.node == assign.holder {
                        AssignReply::Mine(Box::new(row.assigned(pick.limited)))
                    } else {
                        AssignReply::Theirs(row.fence)
                    }
                } else if at_rest {
                    AssignReply::Locked
                } else {
                    AssignReply::Changed(data.jobs.get(&pick.job).map(|row| data.head(row)).expect("just looked at"))
                }
            }
        };
        replies.push((pick.job, reply));
    }
    drop(data);
    store.bell.ring_mail();
    assign.picks.iter().for_each(|pick| store.bell.ring_for(pick.node));
    Ok(replies)
}

pub(super) fn assignments(store: &MemoryStore, node: Incarnation, known: Vec<BatchId>) -> Result<Mail> {
    let data = store.data();
    let held = |id: &JobId| data.jobs.get(id).filter(|row| row.in_hands_of(node));
    let unknown = data.assignments.iter().filter(|((to, batch), _)| *to == node && !known.contains(batch));
    let batches = unknown.map(|((_, batch), jobs)| Delivery {
        batch: *batch,
        jobs: jobs.iter().filter_map(|(id, limited)| Some(held(id)?.assigned(*limited))).collect(),
    });
    let requests = data.stop_requests.iter().filter(|((to, _), _)| *to == node);
    let stop = requests.map(|((_, id), fence)| (*id, *fence));
    let wanted = |(id, fence): &(JobId, Fence)| held(id).is_some_and(|row| row.fence == *fence && row.cancel_requested);
    Ok(Mail { batches: batches.collect(), stop: stop.filter(wanted).collect() })
}
