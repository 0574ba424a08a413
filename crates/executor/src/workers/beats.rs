//! Signs of life. Those of many workers share a statement: the first goes at once, then one a second.

use std::{collections::BTreeSet, sync::Mutex, time::Duration};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until},
};
use turnwise_core::{Incarnation, access::TokenId, worker::Stop};
use turnwise_store::{StoreError, WorkerBeat};

use super::{Held, WorkerError, Workers};
use crate::lock::locked;

/// Between two statements.
const APART: Duration = Duration::from_secs(1);
/// Beats in one statement.
const AT_ONCE: usize = 5_000;

type Told = std::result::Result<bool, String>;

#[derive(Debug, Default)]
pub(super) struct Beats {
    waiting: Mutex<Vec<(WorkerBeat, oneshot::Sender<Told>)>>,
    /// The caller that writes holds it.
    turn: tokio::sync::Mutex<()>,
    /// When the last statement was sent.
    last: Mutex<Option<Instant>>,
}

impl Workers {
    /// Prolongs the worker's lease. Returns which of what it holds it is to stop.
    pub async fn beat(
        &self,
        node: Incarnation,
        token: Option<TokenId>,
        slots: u32,
        held: BTreeSet<Held>,
    ) -> Result<(Duration, Vec<(Held, Stop)>), WorkerError> {
        let known = self.known(node, token).await?;
        if !self.beat_with_others(WorkerBeat { node, slots, lease: known.lease }).await? {
            self.cache.forget(node);
            return Err(WorkerError::Lost);
        }
        if held.is_empty() {
            return Ok((known.lease, Vec::new()));
        }
        self.look(&known, &held).await?;
        self.tend(&known, &held).await;
        Ok((known.lease, self.stops(&known, &held).await?))
    }

    /// Whether the worker is alive. Any of the callers that wait writes the beats of all; if it goes away meanwhile, the others begin
    /// again.
    async fn beat_with_others(&self, beat: WorkerBeat) -> Result<bool, StoreError> {
        loop {
            let (tell, mut told) = oneshot::channel();
            locked(&self.beats.waiting).push((beat, tell));
            let said = tokio::select! {
                biased;
                said = &mut told => said,
                turn = self.beats.turn.lock() => {
                    self.write_beats().await;
                    drop(turn);
                    told.await
                }
            };
            match said {
                Ok(Ok(alive)) => return Ok(alive),
                Ok(Err(error)) => return Err(StoreError::transient("beat for workers", error)),
                Err(_) => {}
            }
        }
    }

    async fn write_beats(&self) {
        let last = *locked(&self.beats.last);
        if let Some(last) = last {
            sleep_until(last + APART).await;
        }
        let beats: Vec<_> = {
            let mut waiting = locked(&self.beats.waiting);
            // The caller of one may have gone.
            waiting.retain(|(_, tell)| !tell.is_closed());
            let some = waiting.len().min(AT_ONCE);
            waiting.drain(..some).collect()
        };
        if beats.is_empty() {
            return;
        }
        *locked(&self.beats.last) = Some(Instant::now());
        // Of two beats of one worker the later counts.
        let mut asked: Vec<WorkerBeat> = Vec::with_capacity(beats.len());
        let mut places = std::collections::HashMap::with_capacity(beats.len());
        for (beat, _) in &beats {
            let at = *places.entry(beat.node).or_insert_with(|| {
                asked.push(*beat);
                asked.len() - 1
            });
            asked[at] = *beat;
        }
        let reply = self.operators.beat_workers(asked).await;
        match reply {
            Ok(reply) => {
                self.clock.heard(reply.now);
                for (beat, tell) in beats {
                    let alive = reply.alive.get(places[&beat.node]).copied().unwrap_or(false);
                    if alive {
                        self.is_alive(beat.node, reply.lineage);
                    }
                    // An error means that the caller is gone.
                    let _ = tell.send(Ok(alive));
                }
            }
            Err(error) => {
                for (_, tell) in beats {
                    let _ = tell.send(Err(error.to_string()));
                }
            }
        }
    }
}
