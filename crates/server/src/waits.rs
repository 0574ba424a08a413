//! Callers that wait for the end of a job. One of them looks for all: a thousand long polls cost one read each time, and nothing runs
//! while no caller waits.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::oneshot, time::sleep};
use turnwise::{JobId, Turnwise};

use crate::limits::{FEW_WAITS, LOOK_FOR_FEW, LOOK_FOR_MANY, LOOKED_UP, WAITS};

/// The callers that wait.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    waiting: Mutex<Vec<(JobId, oneshot::Sender<()>)>>,
    /// The caller that looks holds it; when it leaves, another one goes on.
    looking: tokio::sync::Mutex<()>,
}

/// There are as many waiting callers as there may be.
#[derive(Debug)]
pub(crate) struct TooMany;

impl Waits {
    fn waiting(&self) -> MutexGuard<'_, Vec<(JobId, oneshot::Sender<()>)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the job has ended (or is there no longer), or the time is over, or the service stops.
    pub(crate) async fn wait(
        &self,
        turnwise: &Turnwise,
        id: JobId,
        most: Duration,
        stops: impl Future<Output = ()>,
    ) -> Result<(), TooMany> {
        let (tell, ended) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            waiting.retain(|(_, tell)| !tell.is_closed());
            if waiting.len() >= WAITS {
                return Err(TooMany);
            }
            waiting.push((id, tell));
        }
        tokio::select! {
            _ = ended => {}
            () = sleep(most) => {}
            () = stops => {}
            () = self.look(turnwise) => {}
        }
        Ok(())
    }

    async fn look(&self, turnwise: &Turnwise) {
        let _looking = self.looking.lock().await;
        loop {
            sleep(if self.waiting().len() > FEW_WAITS { LOOK_FOR_MANY } else { LOOK_FOR_FEW }).await;
            let ids: BTreeSet<JobId> = {
                let mut waiting = self.waiting();
                waiting.retain(|(_, tell)| !tell.is_closed());
                waiting.iter().map(|(id, _)| *id).collect()
            };
            let ids: Vec<_> = ids.into_iter().collect();
            for some in ids.chunks(LOOKED_UP) {
                // Without an answer of the database nobody's job has ended; the next look asks again.
                let Ok(unfinished) = turnwise.unfinished(some.to_vec()).await else { continue };
                let unfinished: BTreeSet<_> = unfinished.into_iter().collect();
                let ended = |id: &JobId| some.binary_search(id).is_ok() && !unfinished.contains(id);
                // A caller whose entry is dropped is woken.
                self.waiting().retain(|(id, _)| !ended(id));
            }
        }
    }
}
