//! Giving out what the scheduler picks: batches on their way, and what became of them.

use std::{collections::HashMap, future::Future, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use turnwise_core::{
    Incarnation, JobId,
    scheduler::{Input, Pick, Reply},
};
use turnwise_store::{Assign, AssignReply, BatchId, StoreError};

use super::Dispatcher;
use crate::{shared::fence_number, trace::Record};

/// Batches on their way at once: the database writes one while the other is picked, or its reply is read.
const AHEAD: usize = 2;
/// Batches that follow one another on what ended meanwhile, before everything else has its turn again.
const BATCHES: u32 = 32;
/// Between two tries of an assignment that gets no reply.
const DOUBT_PAUSE: Duration = Duration::from_millis(100);

/// A batch that was sent, and what the store said of it.
struct Sent {
    batch: BatchId,
    picks: Vec<Pick>,
    /// Whether its jobs come with the reply: a batch that was sent before may have come by mail meanwhile.
    expected: bool,
    replies: Result<Vec<(JobId, AssignReply)>, StoreError>,
}

impl<'a> Dispatcher<'a> {
    /// Tells the scheduler, and does what it says until it says no more. Nothing is on its way when this is over, whichever
    /// way it ends.
    pub(super) async fn act(&mut self, input: Input) -> Result<(), StoreError> {
        let mut picks = self.tell(input);
        if picks.is_empty() {
            return Ok(());
        }
        // While the backlog is read, its pages come first: quick jobs would otherwise run among what is known so far.
        let mut batches = if self.loading.is_some() { 0 } else { BATCHES };
        let mut on_their_way = FuturesUnordered::new();
        let mut ended = Ok(());
        loop {
            if !picks.is_empty() {
                on_their_way.push(self.assign(std::mem::take(&mut picks)));
                if on_their_way.len() < AHEAD {
                    picks = self.tell(Input::Tick);
                    if !picks.is_empty() {
                        continue;
                    }
                }
            }
            let Some(sent) = on_their_way.next().await else { return ended };
            match self.hear(sent) {
                Ok(Some(replies)) => picks = self.tell(Input::Replied(replies)),
                // It is sent again with the next round.
                Ok(None) => batches = 0,
                Err(error) => (ended, batches) = (Err(error), 0),
            }
            if ended.is_err() {
                // What is picked now, nobody gives out any more: the scheduler goes with this term.
                picks.clear();
            }
            if batches == 0 || !picks.is_empty() || self.many_since_news() {
                continue;
            }
            // What ended meanwhile makes room for the next batch.
            batches -= 1;
            let told = self.life.take_told();
            if !told.is_empty() {
                self.see_ends(&told);
                picks = self.tell(Input::Settled(told));
            }
        }
    }

    fn assign(&mut self, picks: Vec<Pick>) -> impl Future<Output = Sent> + use<'a> {
        self.dispatched += picks.len() as u64;
        let shared = &self.life.shared;
        let batch = BatchId::in_order(shared.clock.now(), shared.chance.random());
        self.send(batch, picks)
    }

    fn send(&self, batch: BatchId, picks: Vec<Pick>) -> impl Future<Output = Sent> + use<'a> {
        let (life, epoch) = (self.life, self.epoch);
        // Its jobs are not to come twice.
        let expected = life.expect(batch);
        async move {
            let assign = Assign { holder: life.incarnation, epoch, batch, picks: picks.clone() };
            let replies = life.store.assign(assign).await;
            Sent { batch, picks, expected, replies }
        }
    }

    /// `None`: no reply; the picks are in doubt.
    fn hear(&mut self, sent: Sent) -> Result<Option<Vec<(JobId, Reply)>>, StoreError> {
        let life = self.life;
        let Sent { batch, picks, expected, replies } = sent;
        let unexpect = || {
            if expected {
                life.unexpect(batch);
            }
        };
        let replies = match replies {
            Ok(replies) => replies,
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, jobs = picks.len(), "an assignment got no reply; sending it again");
                unexpect();
                self.open.doubts.push((batch, picks));
                return Ok(None);
            }
            Err(error) => {
                unexpect();
                return Err(error);
            }
        };
        let to: HashMap<JobId, Incarnation> = match life.shared.trace.is_on() {
            true => picks.iter().map(|pick| (pick.job, pick.node)).collect(),
            false => HashMap::new(),
        };
        let mut mine = Vec::with_capacity(replies.len());
        let mut answers = Vec::with_capacity(replies.len());
        for (id, reply) in replies {
            let reply = match reply {
                AssignReply::Mine(job) => {
                    let fence = job.fence;
                    mine.push(*job);
                    Reply::Assigned(fence)
                }
                AssignReply::Theirs(fence) => Reply::Assigned(fence),
                AssignReply::Locked => Reply::Locked,
                AssignReply::Changed(head) => Reply::Changed(head),
                AssignReply::Gone => Reply::Gone,
            };
            if let (Reply::Assigned(fence), Some(&to)) = (&reply, to.get(&id)) {
                life.trace(|| Record::Assign { job: id, fence: fence_number(*fence), to });
            }
            answers.push((id, reply));
        }
        match (expected, mine.is_empty()) {
            (true, true) => life.unexpect(batch),
            (true, false) => life.take_assigned(batch, mine),
            (false, _) => {}
        }
        Ok(Some(answers))
    }

    pub(super) async fn repeat_doubtful(&mut self) -> Result<(), StoreError> {
        for _ in 0..self.open.doubts.len() {
            let (batch, picks) = self.open.doubts.remove(0);
            let sent = self.send(batch, picks).await;
            match self.hear(sent)? {
                Some(replies) => self.act(Input::Replied(replies)).await?,
                None => tokio::time::sleep(DOUBT_PAUSE).await,
            }
        }
        Ok(())
    }
}
