//! Lists of jobs for operators.

use std::collections::{BTreeMap, BTreeSet};

use turnwise_core::{Job, JobId, Timestamp};

use super::{Data, MemoryStore, rows::Row};
use crate::{
    operators::{AskJobs, JobPage, Looked},
    store::Result,
};

pub(super) fn list_jobs(store: &MemoryStore, ask: &AskJobs) -> Result<JobPage> {
    let now = store.clock.now();
    let data = store.data();
    let Some(first) = ask.first() else { return Ok(JobPage::default()) };
    if let Some(key) = &ask.filter.unique {
        let held = data.keys.iter().filter(|((_, held), _)| held == key.as_str()).map(|(_, holding)| holding);
        let holders = held.filter(|holding| holding.holds(data.jobs.contains_key(&holding.job), now));
        let holders: BTreeSet<JobId> = holders.map(|holding| holding.job).filter(|id| *id <= first).collect();
        let rows = holders.iter().filter_map(|id| data.jobs.get(id).or_else(|| data.history.get(id)));
        let jobs = rows.map(|row| data.show(row, now)).filter(|job| ask.filter.admits(job)).collect();
        return Ok(JobPage::of([Looked { jobs, down_to: None }], ask.limit()));
    }
    let tables = [(false, &data.jobs), (true, &data.history)].into_iter();
    let wanted = tables.filter(|(finished, _)| ask.filter.wants(*finished));
    Ok(JobPage::of(wanted.map(|(_, rows)| data.look(rows, ask, first, now)), ask.limit()))
}

impl Data {
    fn look(&self, rows: &BTreeMap<JobId, Row>, ask: &AskJobs, first: JobId, now: Timestamp) -> Looked {
        let mut looked = Looked::default();
        for (at, (id, row)) in rows.range(..=first).rev().enumerate() {
            if looked.jobs.len() >= ask.limit() as usize || at >= ask.looks() as usize {
                return looked;
            }
            let job: Job = self.show(row, now);
            looked.down_to = Some(*id);
            looked.jobs.extend(ask.filter.admits(&job).then_some(job));
        }
        Looked { down_to: None, ..looked }
    }
}
