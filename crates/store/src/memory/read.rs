//! Looking at jobs.

use std::collections::BTreeSet;

use turnwise_core::{After, Failure, Incarnation, Job, JobHead, JobId, JobState, Timestamp, after::Awaits};

use super::{Data, MemoryStore, rows::Row};
use crate::store::{Filter, Load, Page, Result};

pub(super) fn load(store: &MemoryStore, load: Load) -> Result<Page> {
    let now = store.clock.now();
    let data = store.data();
    let named_by_batches = |of: Option<Incarnation>| {
        let batches = data.assignments.iter().filter(|((to, _), _)| of.is_none_or(|of| of == *to));
        let jobs = batches.flat_map(|((to, _), jobs)| jobs.iter().map(|(id, _)| (*id, *to)));
        let named: BTreeSet<_> = jobs.collect();
        let held = named.iter().filter_map(|(id, to)| data.jobs.get(id).filter(|row| row.in_hands_of(*to)));
        held.map(|row| data.head(row)).collect()
    };
    let held_by =
        |node| data.jobs.values().filter(|row| row.in_hands_of(node)).map(|row| data.head(row)).collect::<Vec<_>>();
    let (jobs, next) = match load {
        Load::After { id, limit } => {
            let limit = limit.max(1) as usize;
            let rows = data.jobs.values().filter(|row| id.is_none_or(|id| row.id > id));
            let jobs: Vec<_> = rows.take(limit).map(|row| data.head(row)).collect();
            let next = jobs.last().filter(|_| jobs.len() == limit).map(|head| head.id);
            (jobs, next)
        }
        Load::These(ids) => {
            let ids: BTreeSet<_> = ids.into_iter().collect();
            (ids.iter().filter_map(|id| data.jobs.get(id)).map(|row| data.head(row)).collect(), None)
        }
        Load::InHands(of) => (named_by_batches(of), None),
        Load::HeldBy(node) => (held_by(node), None),
    };
    Ok(Page { now, jobs, next })
}

pub(super) fn job(store: &MemoryStore, id: JobId) -> Result<Option<Job>> {
    let now = store.clock.now();
    let data = store.data();
    Ok(data.jobs.get(&id).or_else(|| data.history.get(&id)).map(|row| data.show(row, now)))
}

pub(super) fn jobs(store: &MemoryStore, filter: Filter) -> Result<Vec<Job>> {
    let now = store.clock.now();
    let data = store.data();
    let (first, last) = filter.id_range();
    let holders: Option<BTreeSet<JobId>> = filter.unique.as_ref().map(|key| {
        let held = data.keys.iter().filter(|((_, held), _)| held == key).map(|(_, holding)| holding);
        held.filter(|holding| holding.holds(data.jobs.contains_key(&holding.job), now)).map(|held| held.job).collect()
    });
    let given: Option<BTreeSet<(Incarnation, JobId)>> = filter.in_hands.then(|| {
        let batches = data.assignments.iter();
        batches.flat_map(|((node, _), jobs)| jobs.iter().map(|(job, _)| (*node, *job))).collect()
    });
    let in_hands = |row: &Row| {
        let of = row.node.filter(|node| row.state.assigned() && data.nodes.contains_key(node));
        given.as_ref().is_none_or(|given| of.is_some_and(|node| given.contains(&(node, row.id))))
    };
    let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
    let mut rows: Vec<_> = data
        .jobs
        .values()
        .chain(data.history.values())
        .filter(|row| filter.wants(row.state))
        .filter(|row| {
            is(&filter.queue, row.queue.as_str())
                && is(&filter.group, row.group.as_str())
                && is(&filter.task, row.task.as_str())
                && filter.since.is_none_or(|since| row.submitted_at >= since)
                && filter.until.is_none_or(|until| row.submitted_at < until)
                && (first..=last).contains(&row.id)
                && in_hands(row)
                && holders.as_ref().is_none_or(|holders| holders.contains(&row.id))
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.id));
    Ok(rows.into_iter().take(filter.limit() as usize).map(|row| data.show(row, now)).collect())
}

impl Data {
    pub(super) fn head(&self, row: &Row) -> JobHead {
        let on_failure = row.on_failure.filter(|_| row.state == JobState::Waiting && !row.fence.was_assigned());
        let awaits = on_failure.map(|on_failure| {
            let ids = || self.after.get(&row.id).map_or(&[][..], After::ids).iter().copied();
            let ended = |id| match self.history.get(&id) {
                Some(row) => Some(row.state),
                None => self.awaited.get(&(id, row.id)).copied().flatten().filter(|_| !self.jobs.contains_key(&id)),
            };
            let badly = |id| ended(id).map(|state| (id, state)).filter(|(_, end)| *end != JobState::Success);
            Box::new(Awaits {
                on_failure,
                open: ids().filter(|id| self.jobs.contains_key(id)).collect(),
                ended_badly: ids().find_map(badly),
            })
        });
        JobHead { awaits, ..row.head() }
    }

    pub(super) fn show(&self, row: &Row, now: Timestamp) -> Job {
        let node = row.node.and_then(|node| self.nodes.get(&node)).map(|node| node.name.clone());
        Job {
            id: row.id,
            task: row.task.clone(),
            args: row.args.clone(),
            queue: row.queue.clone(),
            group: row.group.clone(),
            priority: row.priority,
            retry: row.retry.clone(),
            key: row.key.clone(),
            unique: self.held_key(row.id, now),
            terms: row.terms.clone(),
            state: row.state,
            counts: row.counts,
            fence: row.fence,
            cancel_requested: row.cancel_requested,
            node: node.or_else(|| row.node_name.clone()),
            result: row.result.clone(),
            error: row.error.as_ref().map(Failure::text),
            fingerprint: row.error.as_ref().map(Failure::fingerprint),
            expires_at: row.expires_at,
            submitted_at: row.submitted_at,
            due_at: row.due_at,
            assigned_at: row.assigned_at,
            started_at: row.started_at,
            finished_at: row.finished_at,
        }
    }
}
