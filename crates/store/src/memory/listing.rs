//! Lists of jobs for operators.

use std::collections::{BTreeMap, BTreeSet};

use turnwise_core::{GroupName, Job, JobId, Timestamp};

use super::{Data, MemoryStore, rows::Row};
use crate::{
    operators::{AskJobs, FoundBy, JobPage, Looked},
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
    let wanted = tables.filter(|(finished, _)| ask.filter.wants(*finished)).map(|(_, rows)| rows);
    let looks: Vec<Looked> = match ask.filter.found_by() {
        FoundBy::Groups(groups) => {
            let looks = wanted.flat_map(|rows| groups.iter().map(move |group| (rows, Some(group))));
            looks.map(|(rows, group)| data.look(rows, group, ask, first, now)).collect()
        }
        _ => wanted.map(|rows| data.look(rows, None, ask, first, now)).collect(),
    };
    Ok(JobPage::of(looks, ask.limit()))
}

impl Data {
    /// Goes through the rows of a table, or through those of a group in it.
    fn look(
        &self,
        rows: &BTreeMap<JobId, Row>,
        group: Option<&GroupName>,
        ask: &AskJobs,
        first: JobId,
        now: Timestamp,
    ) -> Looked {
        let (mut looked, looks) = (Looked::default(), ask.looks());
        let rows = rows.range(..=first).rev().filter(|(_, row)| group.is_none_or(|group| row.group == *group));
        for (at, (id, row)) in rows.enumerate() {
            if looked.jobs.len() >= ask.limit() as usize || at >= looks as usize {
                return looked;
            }
            let job: Job = self.show(row, now);
            looked.down_to = Some(*id);
            looked.jobs.extend(ask.filter.admits(&job).then_some(job));
        }
        Looked { down_to: None, ..looked }
    }
}
