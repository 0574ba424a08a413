//! What is new since a cursor.

use super::{ChangeRow, ChangedJob, Data, MemoryStore};
use crate::{
    StoreError,
    store::{AskNews, Cursor, Epoch, News, Result, Writers},
};

pub(super) fn news(store: &MemoryStore, ask: AskNews) -> Result<News> {
    let now = store.clock.now();
    let data = store.data();
    let cursor = Cursor(format!("{} {}", data.next_seq, data.next_change));
    let Some(last) = ask.cursor else { return Ok(News::begin(now, cursor, Writers::default())) };
    let (seq, change) = read_cursor(&last)?;
    let most = usize::try_from(ask.new_jobs).unwrap_or(usize::MAX);
    let mut jobs: Vec<_> = data.jobs.values().filter(|row| row.seq >= seq).map(|row| data.head(row)).collect();
    jobs.sort_by_key(|head| head.seq);
    jobs.truncate(most);
    let more = most > 0 && jobs.len() >= most;
    let unseen = data.changes.range(change..).filter(|(_, row)| row.told != Some(ask.epoch));
    let memos = unseen.clone().any(|(_, row)| row.memos);
    let changes = unseen.flat_map(|(_, row)| &row.jobs).map(|changed| data.change(changed)).collect();
    Ok(News { now, cursor, jobs, more, changes, memos, writers: Writers::default(), asked: data.asked(now) })
}

impl Data {
    pub(super) fn tell(&mut self, told: Option<Epoch>, jobs: Vec<ChangedJob>) {
        if !jobs.is_empty() {
            self.write_change(ChangeRow { told, jobs, memos: false });
        }
    }

    pub(super) fn write_change(&mut self, row: ChangeRow) {
        self.changes.insert(self.next_change, row);
        self.next_change += 1;
    }
}

pub(super) fn read_cursor(cursor: &Cursor) -> Result<(i64, i64)> {
    let parts = cursor.0.split_once(' ').and_then(|(seq, change)| Some((seq.parse().ok()?, change.parse().ok()?)));
    parts.ok_or_else(|| StoreError::broken("read a cursor", format!("{:?} is not one of this store's", cursor.0)))
}
