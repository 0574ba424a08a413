//! Deleting what is kept no longer.

use turnwise_core::{JobId, JobState, Retention, Timestamp, lifecycle::End};

use super::{Data, MemoryStore, news::read_cursor, rows::Row};
use crate::store::{Cursor, Loss, Result};

pub(super) fn prune(store: &MemoryStore, seen: Option<Cursor>, limit: u32) -> Result<u64> {
    prune_on(&mut store.data(), store.kept.now().retention, seen, limit, store.clock.now())
}

pub(super) fn prune_on(
    data: &mut Data,
    retention: Retention,
    seen: Option<Cursor>,
    limit: u32,
    now: Timestamp,
) -> Result<u64> {
    let edges = End::ALL.map(|end| (end.state(), retention.edge(end, now)));
    let old = |row: &&Row| edges.iter().any(|(state, edge)| row.state == *state && row.ended_at < Some(*edge));
    let limit = limit as usize;
    let ended: Vec<_> = data.history.values().filter(old).map(|row| row.id).take(limit).collect();
    let read: Vec<_> = match seen {
        Some(cursor) => {
            let (_, change) = read_cursor(&cursor)?;
            data.changes.range(..change).map(|(seq, _)| *seq).take(limit).collect()
        }
        None => Vec::new(),
    };
    for id in &ended {
        if let Some(row) = data.history.remove(id) {
            data.forget(*id, row.state);
        }
    }
    read.iter().for_each(|seq| drop(data.changes.remove(seq)));
    let keys = data.prune_keys(limit, now) + data.prune_once(limit, now) + data.prune_audit(limit, now);
    let losses: Vec<_> = data.losses.values().filter(|loss| loss.lost_at < Loss::edge(now)).collect();
    let losses: Vec<_> = losses.into_iter().take(limit).map(|loss| loss.node.incarnation).collect();
    losses.iter().for_each(|node| drop(data.losses.remove(node)));
    Ok((ended.len() + read.len() + keys + losses.len()) as u64)
}

impl Data {
    /// Deletes the job's story with it. For the jobs that wait for it, a bad end is kept.
    pub(super) fn forget(&mut self, id: JobId, end: JobState) {
        self.stories.remove(&id);
        for awaited in self.after.remove(&id).unwrap_or_default().ids() {
            self.awaited.remove(&(*awaited, id));
        }
        if end != JobState::Success {
            let first = (id, JobId::from_uuid(uuid::Uuid::nil()));
            let waiting = self.awaited.range_mut(first..).take_while(|((awaited, _), _)| *awaited == id);
            waiting.for_each(|(_, ended)| *ended = Some(end));
        }
    }
}
