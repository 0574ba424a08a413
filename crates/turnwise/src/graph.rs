//! Which jobs wait for which, around one job.

use std::collections::{BTreeMap, VecDeque};

use turnwise_core::{Job, JobId, OnFailure};

use crate::{Error, Turnwise};

/// Jobs that are tied to one another.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Graph {
    /// In layers: each stands after all it waits for; within a layer by id.
    pub jobs: Vec<Tied>,
    /// There are more than these: the nearest ones are listed.
    pub more: bool,
}

/// A job of the graph.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Tied {
    /// `None`: it is kept no longer.
    pub job: Option<Job>,
    /// Its id, also when it is kept no longer.
    pub id: JobId,
    /// Those of the graph that it waits or waited for.
    pub after: Vec<JobId>,
    /// What becomes of it when one of these fails; `None` for one that waits for no job.
    pub on_failure: Option<OnFailure>,
    /// The length of the longest way from a job that waits for no other.
    pub layer: usize,
}

impl Turnwise {
    /// All jobs that are tied to this one, whatever the direction; the nearest `limit` of them.
    ///
    /// Read one after the other: what changes meanwhile may be seen in part.
    ///
    /// [`Error::NoSuchJob`] if this job is not there; others that are gone have no row in the answer. [`Error::Store`] if the
    /// database does not answer.
    pub async fn graph(&self, id: JobId, limit: usize) -> Result<Graph, Error> {
        // It must be there; the others may have gone.
        self.job(id).await?;
        let mut found: BTreeMap<JobId, Tied> = BTreeMap::new();
        let mut line = VecDeque::from([id]);
        let mut more = false;
        while let Some(id) = line.pop_front() {
            if found.contains_key(&id) {
                continue;
            }
            if found.len() == limit {
                more = true;
                break;
            }
            let story = self.story(id, 0).await?;
            let job = self.store().job(id).await?;
            line.extend(story.after.ids());
            line.extend(&story.awaited_by);
            let on_failure = story.after.on_failure();
            found.insert(id, Tied { job, id, after: story.after.ids().to_vec(), on_failure, layer: 0 });
        }
        Ok(Graph { jobs: in_layers(found), more })
    }
}

fn in_layers(mut found: BTreeMap<JobId, Tied>) -> Vec<Tied> {
    let ids: Vec<JobId> = found.keys().copied().collect();
    found.values_mut().for_each(|tied| tied.after.retain(|id| ids.binary_search(id).is_ok()));
    // Down from the jobs that wait for no other. Nothing waits in a circle, so all are reached.
    let mut left: BTreeMap<JobId, usize> = found.iter().map(|(id, tied)| (*id, tied.after.len())).collect();
    let mut waiters: BTreeMap<JobId, Vec<JobId>> = BTreeMap::new();
    for tied in found.values() {
        tied.after.iter().for_each(|awaited| waiters.entry(*awaited).or_default().push(tied.id));
    }
    let mut free: VecDeque<JobId> = left.iter().filter(|(_, left)| **left == 0).map(|(id, _)| *id).collect();
    while let Some(id) = free.pop_front() {
        let layer = found[&id].layer + 1;
        for waiter in waiters.remove(&id).unwrap_or_default() {
            let tied = found.get_mut(&waiter).expect("it is of the graph");
            tied.layer = tied.layer.max(layer);
            let left = left.entry(waiter).or_default();
            *left -= 1;
            if *left == 0 {
                free.push_back(waiter);
            }
        }
    }
    let mut jobs: Vec<Tied> = found.into_values().collect();
    jobs.sort_by_key(|tied| (tied.layer, tied.id));
    jobs
}
