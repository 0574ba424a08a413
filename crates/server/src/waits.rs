//! Callers that wait for the end of a job. One of them looks for all: a thousand long polls cost one read each time, and nothing runs
//! while no caller waits.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::oneshot, time::sleep};
use turnwise::{JobId, Turnwise, access::TokenId};

use crate::limits::{
    FEW_WAITS, LOOK_FOR_FEW, LOOK_FOR_MANY, LOOKED_UP, WAITS, WAITS_OF_ONE, WORKER_WAITS, WORKER_WAITS_OF_ONE,
};

/// The callers that wait.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    waiting: Mutex<Vec<Waiting>>,
    /// The caller that looks holds it; when it leaves, another one goes on.
    looking: tokio::sync::Mutex<()>,
}

/// A caller that waits; it is woken when this is dropped.
#[derive(Debug)]
struct Waiting {
    job: JobId,
    /// Whose it is; `None`: there are no tokens.
    token: Option<TokenId>,
    tell: oneshot::Sender<()>,
}

/// There are as many waiting callers as there may be.
#[derive(Debug)]
pub(crate) struct TooMany;

impl Waits {
    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the job has ended (or is there no longer), or the time is over, or the service stops. Returns whether the job has ended.
    pub(crate) async fn wait(
        &self,
        turnwise: &Turnwise,
        job: JobId,
        token: Option<TokenId>,
        most: Duration,
        stops: impl Future<Output = ()>,
    ) -> Result<bool, TooMany> {
        let (tell, ended) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            waiting.retain(|one| !one.tell.is_closed());
            let own = || waiting.iter().filter(|one| one.token == token).count();
            if waiting.len() >= WAITS || token.is_some() && own() >= WAITS_OF_ONE {
                return Err(TooMany);
            }
            waiting.push(Waiting { job, token, tell });
        }
        let ended = tokio::select! {
            _ = ended => true,
            () = sleep(most) => false,
            () = stops => false,
            () = self.look(turnwise) => false,
        };
        Ok(ended)
    }

    async fn look(&self, turnwise: &Turnwise) {
        let _looking = self.looking.lock().await;
        loop {
            sleep(if self.waiting().len() > FEW_WAITS { LOOK_FOR_MANY } else { LOOK_FOR_FEW }).await;
            let ids: BTreeSet<JobId> = {
                let mut waiting = self.waiting();
                waiting.retain(|one| !one.tell.is_closed());
                waiting.iter().map(|one| one.job).collect()
            };
            let ids: Vec<_> = ids.into_iter().collect();
            for some in ids.chunks(LOOKED_UP) {
                // Without an answer of the database it is not known that a job has ended; the next look asks again.
                let Ok(unfinished) = turnwise.unfinished(some.to_vec()).await else { continue };
                let unfinished: BTreeSet<_> = unfinished.into_iter().collect();
                let ended = |id: &JobId| some.binary_search(id).is_ok() && !unfinished.contains(id);
                // A caller whose entry is dropped is woken.
                self.waiting().retain(|one| !ended(&one.job));
            }
        }
    }
}

/// Takes of foreign workers that wait, counted: each is woken by itself.
#[derive(Debug, Default)]
pub(crate) struct WorkerWaits(Arc<Mutex<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    all: usize,
    by_token: HashMap<TokenId, usize>,
}

/// The place of one of them; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct WorkerWait {
    counted: Arc<Mutex<Counted>>,
    token: Option<TokenId>,
}

impl WorkerWaits {
    /// A place; `None`: all are taken, or all that one token may take.
    pub(crate) fn begin(&self, token: Option<TokenId>) -> Option<WorkerWait> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = token.map_or(0, |token| counted.by_token.get(&token).copied().unwrap_or(0));
        if counted.all >= WORKER_WAITS || own >= WORKER_WAITS_OF_ONE {
            return None;
        }
        counted.all += 1;
        if let Some(token) = token {
            *counted.by_token.entry(token).or_default() += 1;
        }
        Some(WorkerWait { counted: Arc::clone(&self.0), token })
    }
}

impl Drop for WorkerWait {
    fn drop(&mut self) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.all -= 1;
        let Some(token) = self.token else { return };
        if let Some(own) = counted.by_token.get_mut(&token) {
            *own -= 1;
            if *own == 0 {
                counted.by_token.remove(&token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_takes_the_places_of_all_workers() {
        let waits = WorkerWaits::default();
        let token = |n: u128| Some(TokenId(uuid::Uuid::from_u128(n)));
        let mut one: Vec<_> = (0..WORKER_WAITS_OF_ONE).map(|_| waits.begin(token(1)).unwrap()).collect();
        assert!(waits.begin(token(1)).is_none());
        let rest: Vec<_> = (WORKER_WAITS_OF_ONE..WORKER_WAITS).map(|_| waits.begin(None).unwrap()).collect();
        assert!(waits.begin(token(2)).is_none() && waits.begin(None).is_none());
        one.pop();
        assert!(waits.begin(token(2)).is_some() && waits.begin(token(1)).is_some());
        drop((one, rest));
        assert!(waits.0.lock().unwrap().by_token.is_empty());
    }
}
