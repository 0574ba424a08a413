//! Callers that wait for the end of a job. One of them looks for all: a thousand long polls cost one read each time, and nothing runs
//! while no caller waits.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::oneshot, time::sleep};
use turnwise::{JobId, Turnwise, access::TokenId};

use crate::limits::{FEW_WAITS, LOOK_FOR_FEW, LOOK_FOR_MANY, LOOKED_UP, WAITS, WAITS_OF_ONE};

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
