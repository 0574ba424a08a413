//! Jobs are stored.

use std::collections::BTreeSet;

use turnwise_core::{Fence, JobState, NewJob, Timestamp, calendar::stored_due, job::Counts, unique::OnDuplicate};

use super::{Data, MemoryStore, rows::Row, unique};
use crate::{
    StoreError, ids,
    store::{Duplicate, MemoKind, Result, Submitted},
};

pub(super) fn enqueue(store: &MemoryStore, jobs: Vec<NewJob>) -> Result<Vec<Submitted>> {
    let now = store.clock.now();
    let replies = store_jobs(&mut store.data(), jobs, now)?;
    store.bell.ring_news();
    Ok(replies)
}

pub(super) fn store_jobs(data: &mut Data, jobs: Vec<NewJob>, now: Timestamp) -> Result<Vec<Submitted>> {
    ids::check_version(&jobs)?;
    let (entries, taken) = data.claim_keys(&jobs, now)?;
    let stored = jobs.iter().zip(&entries).filter(|(_, entry)| matches!(entry, unique::Entry::In));
    ids::check_ahead(stored.map(|(job, _)| job), now, |id| Ok::<_, StoreError>(data.is_known(id)))?;
    data.check_room(jobs.iter().zip(&entries))?;
    let previews: Vec<Submitted> = jobs.iter().zip(&entries).map(|(job, entry)| data.preview(job, entry)).collect();
    let waiting = data.check_after(&jobs, &previews)?;
    data.keys.extend(taken);
    // First the jobs that are stored: one of them may stand for another of the call.
    let mut replies = Vec::with_capacity(jobs.len());
    let mut held = Vec::new();
    for (at, (job, entry)) in jobs.into_iter().zip(entries).enumerate() {
        replies.push(match entry {
            unique::Entry::In => data.insert(job, now),
            unique::Entry::Known => Submitted::itself(job.id, false),
            unique::Entry::HeldBy(holder) => {
                let policy = job.unique.map_or(OnDuplicate::Keep, |unique| unique.on_duplicate);
                held.push((at, holder, policy, job.task, job.args));
                Submitted::itself(holder, false)
            }
        });
    }
    for (at, holder, policy, task, args) in held {
        replies[at] = data.stand_in(holder, policy, &task, args);
    }
    data.wait_for(waiting);
    Ok(replies)
}

impl Data {
    /// An error if a new one among `jobs` is of a group that is full.
    pub(super) fn check_room<'a>(&self, jobs: impl Iterator<Item = (&'a NewJob, &'a unique::Entry)>) -> Result<()> {
        let mut ids = BTreeSet::new();
        for (job, _) in jobs.filter(|(_, entry)| matches!(entry, unique::Entry::In)) {
            let known = !ids.insert(job.id) || self.is_known(job.id);
            let full = self.memos.get(&(MemoKind::Full, job.group.to_string()));
            if let (false, Some((sentence, _))) = (known, full) {
                return Err(StoreError::Refused(sentence.clone()));
            }
        }
        Ok(())
    }

    /// What will be answered to a submit, before anything is stored.
    pub(super) fn preview(&self, job: &NewJob, entry: &unique::Entry) -> Submitted {
        match entry {
            unique::Entry::In => Submitted::itself(job.id, !self.is_known(job.id)),
            unique::Entry::Known => Submitted::itself(job.id, false),
            unique::Entry::HeldBy(holder) => Submitted::held_by(*holder, Duplicate::Kept),
        }
    }

    pub(super) fn insert(&mut self, job: NewJob, now: Timestamp) -> Submitted {
        if self.is_known(job.id) {
            return Submitted::itself(job.id, false);
        }
        let row = Row {
            seq: self.next_seq,
            id: job.id,
            task: job.task,
            args: job.args,
            queue: job.queue,
            group: job.group,
            priority: job.priority,
            retry: job.retry,
            key: job.key,
            terms: job.terms,
            expires_at: job.expires,
            on_failure: None,
            state: JobState::Waiting,
            counts: Counts::default(),
            fence: Fence::default(),
            cancel_requested: false,
            node: None,
            node_name: None,
            result: None,
            error: None,
            submitted_at: now,
            due_at: Some(stored_due(job.due, now)),
            assigned_at: None,
            started_at: None,
            finished_at: None,
            ended_at: None,
        };
        self.next_seq += 1;
        self.jobs.insert(job.id, row);
        Submitted::itself(job.id, true)
    }
}
