//! One submitter at a time for each unique key: the others of this process wait here, without a connection.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::OwnedMutexGuard;
use turnwise_core::NewJob;

/// Scope and key.
type KeyAt = (String, String);
type Gate = Arc<tokio::sync::Mutex<()>>;

/// The gates somebody is at. A few connections submit all jobs with keys: were several of them to wait for one open
/// transaction, other keys would wait with them.
#[derive(Debug, Default)]
pub(crate) struct Gates(Mutex<HashMap<KeyAt, Gate>>);

/// The right to submit jobs with some keys, until it is dropped.
#[derive(Debug)]
pub(crate) struct Pass<'g> {
    gates: &'g Gates,
    held: Vec<(KeyAt, Gate, Option<OwnedMutexGuard<()>>)>,
}

impl Gates {
    /// Waits until nobody else here submits a job with a key of `jobs`.
    pub(crate) async fn pass(&self, jobs: &[NewJob]) -> Pass<'_> {
        let wish = |job: &NewJob| {
            let unique = job.unique.as_ref()?;
            Some((unique.scope.of(job), unique.key.as_str().to_owned()))
        };
        let mut pass = Pass { gates: self, held: Vec::new() };
        // All in one order: nobody waits for one who waits for him.
        for at in jobs.iter().filter_map(wish).collect::<BTreeSet<_>>() {
            let gate = self.gate(&at);
            // Listed before it is waited for: who gives up leaves no gate behind.
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
            // Ours and the map's: nobody waits at it.
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
