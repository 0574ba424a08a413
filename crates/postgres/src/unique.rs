//! Unique keys: which jobs may be stored, which job stands for one that may not, and which keys are of no use any more.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use tokio_postgres::Row;
use turnwise_core::{
    Job, JobId, NewJob, UniqueKey,
    unique::{HeldKey, Holding, OnDuplicate},
};
use turnwise_store::{Duplicate, Result, StoreError, Submitted};
use uuid::Uuid;

use crate::{
    enqueue::store_jobs,
    errors::failed,
    rows::{get, moment, now},
    session::Session,
    store::Inner,
    submit::{Claimed, Claims, Replacements, Submitting},
};

/// Rows that are looked at for one that may be pruned: most keys are held for a while.
const LOOKS_PER_ROW: i64 = 10;

/// What is to be done with a submitted job.
enum Entry {
    /// Stored, unless its id is there.
    In,
    /// It was there before.
    Known,
    HeldBy(JobId),
}

/// Stores those of `jobs` that their keys allow, in the transaction that is open.
pub(crate) async fn enqueue(
    session: &mut impl Submitting,
    jobs: &[NewJob],
    replies: &mut Vec<Submitted>,
) -> Result<()> {
    let entries = claim(session, jobs).await?;
    let coming = jobs.iter().zip(&entries).filter(|(_, entry)| matches!(entry, Entry::In)).map(|(job, _)| job);
    let mut stored = Vec::new();
    if coming.clone().next().is_some() {
        store_jobs(session, coming, &mut stored).await?;
    }
    let replaced = replace_args(session, jobs, &entries).await?;
    let mut stored = stored.into_iter();
    for (job, entry) in jobs.iter().zip(entries) {
        replies.push(match entry {
            Entry::In => stored.next().ok_or_else(|| StoreError::broken("enqueue", "a job without an answer"))?,
            Entry::Known => Submitted::itself(job.id, false),
            Entry::HeldBy(holder) => {
                let duplicate = match policy(job) {
                    OnDuplicate::ReplaceArgs => match replaced.get(&holder) {
                        Some((task, _)) if task != job.task.as_str() => Duplicate::OtherTask,
                        Some((_, true)) => Duplicate::Replaced,
                        Some((_, false)) | None => Duplicate::TooLate,
                    },
                    _ => Duplicate::Kept,
                };
                Submitted::held_by(holder, duplicate)
            }
        });
    }
    Ok(())
}

fn policy(job: &NewJob) -> OnDuplicate {
    job.unique.as_ref().map_or(OnDuplicate::Keep, |unique| unique.on_duplicate)
}

async fn claim(session: &mut impl Submitting, jobs: &[NewJob]) -> Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = jobs.iter().map(|_| Entry::In).collect();
    let keyed: Vec<_> = jobs.iter().enumerate().filter(|(_, job)| job.unique.is_some()).map(|(at, _)| at).collect();
    for Claimed { place, holder, outcome } in session.claim(&Claims::of(jobs.iter())).await? {
        let at = usize::try_from(place - 1)
            .ok()
            .and_then(|place| keyed.get(place))
            .ok_or_else(|| StoreError::broken("enqueue", "an answer without a question"))?;
        entries[*at] = match outcome {
            0 => Entry::In,
            1 => Entry::Known,
            _ => Entry::HeldBy(JobId::from_uuid(holder)),
        };
    }
    Ok(entries)
}

/// For each unfinished job that is to get other arguments: its task, and whether it got them.
async fn replace_args(
    session: &mut impl Submitting,
    jobs: &[NewJob],
    entries: &[Entry],
) -> Result<HashMap<JobId, (String, bool)>> {
    let mut wanted = Replacements::default();
    for (job, entry) in jobs.iter().zip(entries) {
        if let Entry::HeldBy(holder) = entry
            && policy(job) == OnDuplicate::ReplaceArgs
        {
            wanted.ids.push(holder.uuid());
            wanted.tasks.push(job.task.as_str());
            wanted.args.push(job.args.as_str());
        }
    }
    if wanted.ids.is_empty() {
        return Ok(HashMap::new());
    }
    let replaced = session.replace_args(&wanted).await?;
    Ok(replaced.into_iter().map(|row| (JobId::from_uuid(row.id), (row.task, row.replaced))).collect())
}

/// The jobs that hold this key now, in whatever scope.
pub(crate) async fn holders(client: &impl Session, key: &str) -> Result<Vec<JobId>> {
    let rows = client.query(include_str!("../sql/key_holders.sql"), &[&key]).await.map_err(failed("list jobs"))?;
    let mut holders = Vec::new();
    for row in &rows {
        let holding = holding(row, 0)?;
        if holding.holds(get(row, 3)?, now(row, 4)?) {
            holders.push(holding.job);
        }
    }
    Ok(holders)
}

/// Sets the key that each of `jobs` holds now: one look for all of them.
pub(crate) async fn show_held(client: &impl Session, jobs: &mut [Job]) -> Result<()> {
    if jobs.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = jobs.iter().map(|job| job.id.uuid()).collect();
    let rows = client.query(include_str!("../sql/key_held.sql"), &[&ids]).await.map_err(failed("list jobs"))?;
    let mut held: HashMap<JobId, &Row> = HashMap::new();
    for row in &rows {
        held.insert(JobId::from_uuid(get(row, 2)?), row);
    }
    for job in jobs {
        if let Some(row) = held.get(&job.id) {
            job.unique = held_key(row, 0, !job.state.finished())?;
        }
    }
    Ok(())
}

/// `scope, key, job, until_ended, expires` and the time, from column `at` on: the key, if the job holds it now.
pub(crate) fn held_key(row: &Row, at: usize, unfinished: bool) -> Result<Option<HeldKey>> {
    let Some(scope) = get::<Option<String>>(row, at)? else { return Ok(None) };
    let key = UniqueKey::stored(get::<&str>(row, at + 1)?.into());
    Ok(holding(row, at + 2)?.shown(scope, key, unfinished, now(row, at + 5)?))
}

/// Where the last look at the keys ended; the next goes on from there, so that all have their turn.
#[derive(Debug, Default)]
pub(crate) struct KeyCursor(Mutex<(String, String)>);

impl KeyCursor {
    fn get(&self) -> (String, String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, place: (String, String)) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }
}

/// Deletes at most `limit` keys that no job can hold any more.
pub(crate) async fn prune(store: &Inner, client: &impl Session, limit: i64) -> Result<u64> {
    let fail = failed("prune");
    let (mut pruned, mut looked) = (0, 0);
    while pruned < limit && looked < limit * LOOKS_PER_ROW {
        let (scope, key) = store.keys.get();
        let size = limit - pruned;
        let page = client.query(include_str!("../sql/key_page.sql"), &[&scope, &key, &size]).await.map_err(fail)?;
        let mut spent: (Vec<&str>, Vec<&str>, Vec<Uuid>) = Default::default();
        for row in &page {
            let holding = holding(row, 2)?;
            if holding.is_spent(get(row, 5)?, now(row, 6)?) {
                spent.0.push(get(row, 0)?);
                spent.1.push(get(row, 1)?);
                spent.2.push(holding.job.uuid());
            }
        }
        if !spent.0.is_empty() {
            let sql = include_str!("../sql/key_delete.sql");
            let gone = client.execute(sql, &[&spent.0, &spent.1, &spent.2]).await.map_err(fail)?;
            pruned += i64::try_from(gone).unwrap_or(i64::MAX);
        }
        let full = i64::try_from(page.len()).unwrap_or(i64::MAX) >= size;
        let last = page.last().filter(|_| full);
        store
            .keys
            .set(last.map(|row| Ok::<_, StoreError>((get(row, 0)?, get(row, 1)?))).transpose()?.unwrap_or_default());
        if !full {
            break;
        }
        looked += size;
    }
    Ok(u64::try_from(pruned).unwrap_or(0))
}

fn holding(row: &Row, from: usize) -> Result<Holding> {
    let job = JobId::from_uuid(get(row, from)?);
    Ok(Holding { job, until_ended: get(row, from + 1)?, expires: moment(row, from + 2)? })
}

/// One submitter at a time for each unique key: the others of this process wait here, without a connection.
pub(crate) mod gates {
    use std::{
        collections::{BTreeSet, HashMap},
        sync::{Arc, Mutex, PoisonError},
    };

    use tokio::sync::OwnedMutexGuard;
    use turnwise_core::NewJob;

    /// Scope and key.
    type KeyAt = (String, String);
    type Gate = Arc<tokio::sync::Mutex<()>>;

    /// The gates that submitters hold or wait at. All jobs with keys are submitted on a few connections: if several of these waited
    /// for one open transaction, other keys would wait with them.
    #[derive(Debug, Default)]
    pub(crate) struct Gates(Mutex<HashMap<KeyAt, Gate>>);

    /// The right to submit jobs with some keys, until it is dropped.
    #[derive(Debug)]
    pub(crate) struct Pass<'g> {
        gates: &'g Gates,
        held: Vec<(KeyAt, Gate, Option<OwnedMutexGuard<()>>)>,
    }

    impl Gates {
        /// Waits until no other submitter of this handle is submitting a job with a key of `jobs`.
        pub(crate) async fn pass(&self, jobs: &[NewJob]) -> Pass<'_> {
            let claim = |job: &NewJob| {
                let unique = job.unique.as_ref()?;
                Some((unique.scope.of(job), unique.key.as_str().to_owned()))
            };
            let mut pass = Pass { gates: self, held: Vec::new() };
            // All submitters take gates in the same order, so no two can wait for each other.
            for at in jobs.iter().filter_map(claim).collect::<BTreeSet<_>>() {
                let gate = self.gate(&at);
                // Listed before it is waited for: a submitter that gives up leaves no gate behind.
                pass.held.push((at, Arc::clone(&gate), None));
                let guard = gate.lock_owned().await;
                if let Some((.., held)) = pass.held.last_mut() {
                    *held = Some(guard);
                }
            }
            pass
        }

        fn gate(&self, at: &KeyAt) -> Gate {
            let mut gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(gates.entry(at.clone()).or_default())
        }
    }

    impl Drop for Pass<'_> {
        fn drop(&mut self) {
            let mut gates = self.gates.0.lock().unwrap_or_else(PoisonError::into_inner);
            for (at, gate, guard) in self.held.drain(..) {
                drop(guard);
                // Two references, ours and the map's: no other submitter waits at it.
                if Arc::strong_count(&gate) <= 2 {
                    gates.remove(&at);
                }
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use turnwise_core::{JobId, Json, TaskName, Unique, UniqueKey};

        use super::*;

        fn keyed(key: &str) -> NewJob {
            let job = NewJob::new(
                JobId::from_parts(1, [1; 10]),
                TaskName::new("mail").unwrap(),
                Json::parse("args", "null").unwrap(),
            );
            NewJob { unique: Some(Box::new(Unique::new(UniqueKey::new(key).unwrap()))), ..job }
        }

        #[tokio::test]
        async fn who_has_passed_keeps_others_of_its_keys_out_and_leaves_nothing_behind() {
            let gates = Gates::default();
            let both = gates.pass(&[keyed("b"), keyed("a"), keyed("b")]).await;
            let another = [keyed("a")];
            let mut waiting = std::pin::pin!(gates.pass(&another));
            assert!(futures_util::poll!(waiting.as_mut()).is_pending());
            {
                let mut giving_up = std::pin::pin!(gates.pass(&another));
                assert!(futures_util::poll!(giving_up.as_mut()).is_pending());
            }
            drop(gates.pass(&[keyed("c")]).await);
            drop(both);
            drop(waiting.await);
            assert!(gates.0.lock().unwrap().is_empty());
        }
    }
}
