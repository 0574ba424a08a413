//! Watching what happens.

use std::collections::BTreeSet;

use turnwise_core::{Failure, JobId};

use super::{ChangedJob, Data, MemoryStore, rows::Row};
use crate::{
    operators::{AskWatch, EndedJob, HeldJob, InHands, NextNumbers, WatchCursor, Watched},
    store::{Change, Result},
};

pub(super) fn watch(store: &MemoryStore, ask: &AskWatch) -> Result<Watched> {
    let now = store.clock.now();
    let data = store.data();
    let lineage = store.born.micros().wrapping_add(data.lineage.0);
    let next = NextNumbers { job: data.next_seq, change: data.next_change };
    let cursor = WatchCursor::new(lineage, now, next);
    let Some(last) = &ask.cursor else { return Ok(Watched::nothing(now, cursor, false)) };
    let first = data.changes.keys().next().copied();
    let read = last.parts().filter(|(of, ..)| *of == lineage);
    let read = read.and_then(|(_, since, place)| Some((since, NextNumbers::parse(place)?)));
    let Some((since, from)) = read.filter(|(_, from)| from.can_go_on(next, first)) else {
        return Ok(Watched::nothing(now, cursor, true));
    };
    let most = ask.most as usize;
    let mut jobs: Vec<_> = data.jobs.values().filter(|row| row.seq >= from.job).collect();
    jobs.sort_by_key(|row| row.seq);
    let jobs: Vec<_> = jobs.into_iter().take(most).map(|row| data.head(row)).collect();
    let unseen = data.changes.range(from.change..);
    let changed = unseen.clone().flat_map(|(_, row)| &row.jobs).take(most);
    let changes: Vec<_> = changed.map(|changed| data.change(changed)).collect();
    let ended = changes.iter().filter(|change| ask.ends && change.head.is_none()).map(|change| change.id);
    let ended =
        ended.collect::<BTreeSet<JobId>>().iter().filter_map(|id| data.history.get(id)).map(ended_job).collect();
    let more = jobs.len() >= most || changes.len() >= most;
    let memos = unseen.clone().any(|(_, row)| row.memos);
    Ok(Watched { now, since, cursor, reset: false, jobs, changes, ended, memos, more })
}

impl Data {
    pub(super) fn change(&self, &ChangedJob { id, ran, failed, well, error }: &ChangedJob) -> Change {
        let head = self.jobs.get(&id).map(|row| self.head(row));
        // A person may have had it run again since.
        Change { id, ran, failed, well: well && head.is_none(), error, head }
    }

    fn held_job(&self, row: &Row) -> Option<HeldJob> {
        Some(HeldJob {
            id: row.id,
            task: row.task.clone(),
            queue: row.queue.clone(),
            group: row.group.clone(),
            state: row.state,
            attempt: row.counts.attempt,
            fence: row.fence,
            node: self.nodes.get(&row.node?)?.name.clone(),
            submitted_at: row.submitted_at,
            started_at: row.started_at,
            progress: self.stories.get(&row.id).and_then(|story| story.progress.clone()),
        })
    }
}

pub(super) fn in_hands(store: &MemoryStore, most: usize) -> Result<InHands> {
    let now = store.clock.now();
    let data = store.data();
    let held = data.jobs.values().filter(|row| row.state.assigned()).filter_map(|row| data.held_job(row));
    let jobs: Vec<_> = held.take(most).collect();
    Ok(InHands { now, more: jobs.len() >= most, jobs })
}

fn ended_job(row: &Row) -> EndedJob {
    EndedJob {
        id: row.id,
        task: row.task.clone(),
        queue: row.queue.clone(),
        group: row.group.clone(),
        state: row.state,
        attempt: row.counts.attempt,
        node: row.node_name.clone(),
        submitted_at: row.submitted_at,
        started_at: row.started_at,
        finished_at: row.finished_at,
        fingerprint: row.error.as_ref().map(Failure::fingerprint),
    }
}
