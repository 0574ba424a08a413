//! Which submitted jobs are stored, and which find their unique key held.

use std::collections::{BTreeMap, BTreeSet};

use turnwise_core::{
    JobId, Json, NewJob, TaskName, Timestamp, UniqueKey,
    unique::{Claim, HeldKey, Holding, OnDuplicate, Replacing, replace},
};

use super::Data;
use crate::{StoreError, store::*};

/// Scope and key.
pub(super) type KeyAt = (String, String);

/// What is to be done with a submitted job.
pub(super) enum Entry {
    /// Stored, unless its id is there.
    In,
    /// By its key it was there before.
    Known,
    HeldBy(JobId),
}

impl Data {
    /// What is to be done with each of `jobs`, and the keys they take then.
    pub(super) fn claim_keys(&self, jobs: &[NewJob], now: Timestamp) -> Result<(Vec<Entry>, BTreeMap<KeyAt, Holding>)> {
        let mut taken: BTreeMap<KeyAt, Holding> = BTreeMap::new();
        let mut entered = BTreeSet::new();
        let mut entries = Vec::with_capacity(jobs.len());
        for job in jobs {
            let known = !entered.insert(job.id) || self.is_known(job.id);
            entries.push(match &job.unique {
                None => Entry::In,
                Some(_) if known => Entry::Known,
                Some(unique) => {
                    let at = (unique.scope.of(job), unique.key.to_string());
                    let claim = match (taken.get(&at), self.keys.get(&at)) {
                        // The holder is not stored yet, but comes with this call.
                        (Some(holding), _) => holding.claim(job.id, true, now),
                        (None, Some(holding)) => holding.claim(job.id, self.jobs.contains_key(&holding.job), now),
                        (None, None) => Claim::Free,
                    };
                    match claim {
                        Claim::Free => {
                            taken.insert(at, Holding::new(job.id, unique.hold, now));
                            Entry::In
                        }
                        Claim::Own => Entry::Known,
                        Claim::HeldBy(holder) if unique.on_duplicate == OnDuplicate::Reject => {
                            return Err(StoreError::Duplicate { holder, text: unique.refusal(job, holder) });
                        }
                        Claim::HeldBy(holder) => Entry::HeldBy(holder),
                    }
                }
            });
        }
        Ok((entries, taken))
    }

    /// Does what a submit asked for whose key `holder` has, and returns the reply to it.
    pub(super) fn stand_in(&mut self, holder: JobId, policy: OnDuplicate, task: &TaskName, args: Json) -> Submitted {
        if policy != OnDuplicate::ReplaceArgs {
            return Submitted::held_by(holder, Duplicate::Kept);
        }
        let Some(row) = self.jobs.get_mut(&holder) else { return Submitted::held_by(holder, Duplicate::TooLate) };
        let may = replace(row.task == *task, row.state, row.started_at.is_some(), row.counts.crashes);
        if may == Replacing::Allowed {
            row.args = args;
        }
        Submitted::held_by(holder, may.into())
    }

    /// The key that a job holds now.
    pub(super) fn held_key(&self, job: JobId, now: Timestamp) -> Option<HeldKey> {
        let ((scope, key), holding) = self.keys.iter().find(|(_, holding)| holding.job == job)?;
        holding.shown(scope.clone(), UniqueKey::stored(key.as_str().into()), self.jobs.contains_key(&job), now)
    }

    /// Removes at most `limit` keys that no job can hold any more.
    pub(super) fn prune_keys(&mut self, limit: usize, now: Timestamp) -> usize {
        let spent = |holding: &Holding| holding.is_spent(self.is_known(holding.job), now);
        let keys: Vec<_> =
            self.keys.iter().filter(|(_, holding)| spent(holding)).map(|(at, _)| at.clone()).take(limit).collect();
        keys.iter().for_each(|at| {
            self.keys.remove(at);
        });
        keys.len()
    }

    pub(super) fn is_known(&self, id: JobId) -> bool {
        self.jobs.contains_key(&id) || self.history.contains_key(&id)
    }
}
