//! How a worker's runs ended: decided as for every node, by the facts that it registered, and written together.

use std::{sync::Arc, time::Duration};

use turnwise_core::{
    Incarnation, JobState,
    access::TokenId,
    job::AssignedJob,
    lifecycle::{self, Ending},
};
use turnwise_store::{AskStory, Author, BatchId, Settle, Settled, Settlement, StoreError};

use super::{End, EndAnswer, Held, How, WorkerError, Workers, known::Known};
use crate::{
    settle::{
        decide::{RunEnd, settlement},
        write::{cannot_be_stored, spoilt_already},
    },
    worker::hidden,
};

/// Times an end is decided anew because a person asked for a cancel meanwhile: after the first it is known.
const DECIDE_AGAIN: usize = 3;

/// An end that is to be written.
struct Pending {
    /// Its place in the answer.
    at: usize,
    job: Arc<AssignedJob>,
    outcome: lifecycle::Outcome,
    ran: Option<Duration>,
    cancel: bool,
    /// What is wrong with it, as the store said.
    spoilt: Option<String>,
}

impl Pending {
    fn held(&self) -> Held {
        (self.job.id, self.job.fence)
    }
}

impl Workers {
    /// Writes how runs ended, each answered by itself. Repeated, what was written is answered so again.
    pub async fn settle(
        &self,
        node: Incarnation,
        token: Option<TokenId>,
        ends: Vec<End>,
    ) -> Result<Vec<EndAnswer>, WorkerError> {
        let known = self.known(node, token).await?;
        Ok(self.settle_known(&known, ends).await?)
    }

    pub(super) async fn settle_known(&self, known: &Known, ends: Vec<End>) -> Result<Vec<EndAnswer>, StoreError> {
        let mut answers: Vec<Option<EndAnswer>> = vec![None; ends.len()];
        self.read_unknown(known, ends.iter().map(|end| end.job)).await?;
        let mut pending = Vec::with_capacity(ends.len());
        for (at, End { job, ran, how }) in ends.into_iter().enumerate() {
            if let Some(answer) = known.hands().answered(job) {
                answers[at] = Some(answer);
                continue;
            }
            let here = known.hands().at(job).map(|one| (Arc::clone(&one.job), one.cancel));
            let (job, cancel) = match here {
                Some(here) => here,
                None => match self.find(known, job, &how).await? {
                    Found::InHands(job) => {
                        let cancel = job.cancel_requested;
                        (Arc::new(*job), cancel)
                    }
                    Found::Ended(answer) => {
                        answers[at] = Some(answer);
                        continue;
                    }
                },
            };
            let outcome = self.outcome(known, &job, ran, how).await?;
            pending.push(Pending { at, job, outcome, ran, cancel, spoilt: None });
        }
        self.write_pending(known, pending, &mut answers).await?;
        Ok(answers.into_iter().map(|answer| answer.unwrap_or(EndAnswer::Locked)).collect())
    }

    /// Reads what is assigned to the worker, if one of these is not known to be.
    pub(super) async fn read_unknown(&self, known: &Known, jobs: impl Iterator<Item = Held>) -> Result<(), StoreError> {
        let all_known = {
            let mut hands = known.hands();
            let mut jobs = jobs;
            jobs.all(|job| hands.at(job).is_some() || hands.answered(job).is_some())
        };
        if !all_known {
            let here = known.all_in_hands().into_iter().collect();
            self.look(known, &here).await?;
        }
        Ok(())
    }

    /// What the run came to, without what its task's arguments have to hide.
    async fn outcome(
        &self,
        known: &Known,
        job: &AssignedJob,
        ran: Option<Duration>,
        how: How,
    ) -> Result<lifecycle::Outcome, StoreError> {
        let outcome = match how {
            How::Said(outcome) => outcome.resolve(&known.worker, self.clock.now()),
            How::TimedOut => {
                let limit = known.worker.timeout(job).or(ran).unwrap_or_default();
                lifecycle::Outcome::TimedOut { limit }
            }
            How::Interrupted => lifecycle::Outcome::Interrupted,
        };
        let mask = self.mask(known, job).await?;
        Ok(hidden(mask.as_ref(), outcome))
    }

    /// Writes all of it; what the store cannot take as it is, in halves, until the one end that spoils it is alone: that job fails.
    async fn write_pending(
        &self,
        known: &Known,
        pending: Vec<Pending>,
        answers: &mut [Option<EndAnswer>],
    ) -> Result<(), StoreError> {
        let mut parts = vec![(pending, 0)];
        while let Some((mut part, tries)) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            let settlements: Vec<_> = part.iter().map(|one| self.settlement(known, one)).collect();
            let states: Vec<JobState> =
                part.iter().zip(&settlements).map(|(one, to)| to.to.state(one.job.state)).collect();
            let done = known.hands().done();
            match self.write(known, settlements.clone(), done).await {
                Ok(replies) => {
                    let mut again = Vec::new();
                    for ((mut one, state), reply) in part.into_iter().zip(states).zip(replies) {
                        let answer = match reply {
                            Settled::CancelRequested if tries < DECIDE_AGAIN => {
                                one.cancel = true;
                                again.push(one);
                                continue;
                            }
                            Settled::CancelRequested | Settled::Locked | Settled::KeyHeld => EndAnswer::Locked,
                            Settled::Applied => match one.spoilt.take() {
                                Some(problem) => EndAnswer::Invalid(problem),
                                None => EndAnswer::Applied(state),
                            },
                            // An earlier try, of this server or another, may have been written.
                            Settled::Superseded | Settled::Gone => {
                                self.ended(
                                    known,
                                    one.held(),
                                    matches!(one.outcome, lifecycle::Outcome::TimedOut { .. }),
                                )
                                .await?
                            }
                        };
                        if answer != EndAnswer::Locked {
                            known.hands().ends(one.held(), answer.clone());
                        }
                        answers[one.at] = Some(answer);
                    }
                    parts.push((again, tries + 1));
                }
                Err(StoreError::Broken { .. }) if part.len() > 1 => {
                    let second = part.split_off(part.len() / 2);
                    parts.push((second, tries));
                    parts.push((part, tries));
                }
                Err(error @ StoreError::Broken { .. }) if !settlements.iter().any(spoilt_already) => {
                    part[0].outcome = cannot_be_stored(&error);
                    part[0].spoilt = Some(error.to_string());
                    parts.push((part, tries));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn settlement(&self, known: &Known, one: &Pending) -> Settlement {
        let now = self.clock.now();
        // By the worker's clock it took so long; by the database's it has not begun before it was submitted.
        let started_at = one.ran.map(|ran| now.minus(ran).max(one.job.submitted_at).min(now));
        let end = RunEnd {
            job: &one.job,
            outcome: one.outcome.clone(),
            cancel_requested: one.cancel,
            started_at,
            finished_at: started_at.map(|_| now),
            noted: one.ran.is_some(),
        };
        settlement(&known.worker, end, now, self.chance.random())
    }

    async fn write(
        &self,
        known: &Known,
        settlements: Vec<Settlement>,
        done: Vec<BatchId>,
    ) -> Result<Vec<Settled>, StoreError> {
        let author = Author::Node { node: known.node, told: None };
        let replies = self.store.settle(Settle { author, settlements, done: done.clone() }).await?;
        known.hands().called_done(&done);
        Ok(replies)
    }

    /// A job that none of the worker's batches names: its end is written already, or it is not the worker's, or a crash of the database has
    /// taken back what this server knows.
    async fn find(&self, known: &Known, job: Held, how: &How) -> Result<Found, StoreError> {
        let Some(row) = self.store.job(job.0).await? else { return Ok(Found::Ended(EndAnswer::Gone)) };
        let here = row.state.assigned() && row.fence == job.1 && row.node.as_ref() == Some(&known.name);
        if !here {
            return Ok(Found::Ended(self.ended(known, job, matches!(how, How::TimedOut)).await?));
        }
        Ok(Found::InHands(Box::new(AssignedJob {
            id: row.id,
            fence: row.fence,
            task: row.task,
            args: row.args,
            queue: row.queue,
            group: row.group,
            priority: row.priority,
            retry: row.retry,
            terms: row.terms,
            state: row.state,
            counts: row.counts,
            cancel_requested: row.cancel_requested,
            submitted_at: row.submitted_at,
            limited: true,
        })))
    }

    /// What became of a run that is not in the worker's hands any more. At rest or at its end at this fence its end was written, by the
    /// worker's own settle, or by a server because its time was over.
    async fn ended(&self, known: &Known, (id, fence): Held, says_timed_out: bool) -> Result<EndAnswer, StoreError> {
        let Some(row) = self.store.job(id).await? else { return Ok(EndAnswer::Gone) };
        if row.state.assigned() || !row.fence.only_edited_since(fence) {
            return Ok(EndAnswer::Stale);
        }
        let story = self.store.story(AskStory { job: id, after: None, lines: 0 }).await?;
        let last = story.attempts.last().filter(|attempt| attempt.fence == fence);
        let own = row.node.as_ref() == Some(&known.name)
            || last.is_some_and(|attempt| attempt.node.as_ref() == Some(&known.name))
            || known.can_run(&row.queue, &row.task);
        if !own {
            return Ok(EndAnswer::Gone);
        }
        if last.is_some_and(|attempt| attempt.ending == Ending::TimedOut) && !says_timed_out {
            return Ok(EndAnswer::Stale);
        }
        Ok(EndAnswer::Applied(row.state))
    }
}

enum Found {
    InHands(Box<AssignedJob>),
    Ended(EndAnswer),
}
