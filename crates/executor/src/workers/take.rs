//! Giving a worker its jobs: what is assigned to it and missing there, as soon as there is some.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};
use turnwise_core::{
    Incarnation, JobState,
    access::TokenId,
    job::AssignedJob,
    worker::{Stop, to_give},
};
use turnwise_store::{AskStory, Author, Settle, Settled, StoreError};

use super::{Given, Held, Take, Taken, WorkerError, Workers, known::Known};
use crate::settle::decide::begin;

/// A stop that was told does not end a wait again for so long: a task takes a while to stop.
const TOLD_FOR: Duration = Duration::from_secs(5);

/// Why a take looks again.
#[derive(Debug, Clone, Copy, Default)]
struct Woken {
    /// A newer one has taken its place.
    newer_take: bool,
    /// A look without a ring found that it should look.
    doubted: bool,
}

/// Arguments in one answer, about; the rest is given with the next. One job always fits.
const ANSWER_BYTES: usize = 8 * 1024 * 1024;

fn as_many_as_fit(read: &[Arc<AssignedJob>], mut give: Vec<Held>) -> Vec<Held> {
    let bytes = |job: &Held| {
        let job = read.iter().find(|read| (read.id, read.fence) == *job);
        job.map_or(0, |job| job.args.as_str().len())
    };
    let (mut sum, mut fit) = (0, 0);
    for job in &give {
        sum += bytes(job);
        if fit > 0 && sum > ANSWER_BYTES {
            break;
        }
        fit += 1;
    }
    give.truncate(fit);
    give
}

impl Workers {
    /// What is assigned to the worker and missing there, and what it is to stop; waits for that if there is none. A later take of the same
    /// worker ends this one. It may be dropped at any moment: what was not answered is answered again.
    pub async fn take(&self, node: Incarnation, token: Option<TokenId>, ask: Take) -> Result<Taken, WorkerError> {
        let until = Instant::now() + ask.wait;
        let mut known = self.known(node, token).await?;
        let number = known.take_begins();
        let mut woken = Woken::default();
        loop {
            let taken = self.take_now(&known, &ask).await?;
            if !taken.jobs.is_empty() || self.tell(&known, &taken.stop) || Instant::now() >= until {
                return Ok(taken);
            }
            // It was found that it should look, and there is nothing: it may be lost or gone.
            if woken.doubted && known.hands().idle {
                known = self.read_known(node, token).await?;
            }
            self.call_done(&known).await;
            woken = self.wait(&known, number, until, &ask.held).await;
            if woken.newer_take {
                return Ok(Taken::default());
            }
        }
    }

    /// Until there may be something to tell, but no longer than until then.
    async fn wait(&self, known: &Known, number: u64, until: Instant, held: &BTreeSet<Held>) -> Woken {
        let until = Self::next_tending(known, held).map_or(until, |tending| tending.min(until));
        let waiting = self.waits.begin(known);
        let newer = known.newer_take.notified();
        tokio::pin!(newer);
        // Listening before looking: a newer one in between is not missed.
        newer.as_mut().enable();
        if !known.is_newest(number) {
            return Woken { newer_take: true, doubted: false };
        }
        tokio::select! {
            biased;
            () = newer => return Woken { newer_take: true, doubted: false },
            () = known.mail.notified() => known.is_unsure(),
            () = sleep_until(until) => {}
            () = self.poll() => {}
        }
        Woken { newer_take: false, doubted: waiting.is_doubted() }
    }

    async fn take_now(&self, known: &Known, ask: &Take) -> Result<Taken, WorkerError> {
        // Nothing was assigned to it when this server last looked, and it has not rung since.
        if ask.held.is_empty() && known.hands().idle {
            return Ok(Taken::default());
        }
        let read = self.look(known, &ask.held).await?;
        self.tend(known, &ask.held).await;
        let stop = self.stops(known, &ask.held).await?;
        let missing = to_give(read.iter().map(|job| &**job), &ask.held, ask.n);
        let give = as_many_as_fit(&read, missing);
        let jobs = self.give(known, read, &give).await?;
        Ok(Taken { jobs, stop })
    }

    /// Notes that it is told these stops. Whether one of them is news.
    fn tell(&self, known: &Known, stops: &[(Held, Stop)]) -> bool {
        let mut hands = known.hands();
        let mut news = false;
        for (job, _) in stops {
            if hands.told.get(job).is_none_or(|told| told.elapsed() >= TOLD_FOR) {
                hands.told.insert(*job, Instant::now());
                news = true;
            }
        }
        news
    }

    /// The jobs as the worker gets them. A job under which a node has died is written down as running before.
    async fn give(&self, known: &Known, read: Vec<Arc<AssignedJob>>, give: &[Held]) -> Result<Vec<Given>, StoreError> {
        let jobs: Vec<_> = read.into_iter().filter(|job| give.contains(&(job.id, job.fence))).collect();
        let refused = self.begin_watched(known, &jobs).await?;
        let mut given = Vec::with_capacity(jobs.len());
        for job in jobs.into_iter().filter(|job| !refused.contains(&(job.id, job.fence))) {
            // In the first run there are none to read.
            let ran_before = job.fence.assignments() > 1 || job.state == JobState::Running;
            let steps = if ran_before {
                self.store.story(AskStory { job: job.id, after: None, lines: 0 }).await?.steps
            } else {
                Vec::new()
            };
            let timeout = known.worker.timeout(&job);
            if let Some(one) = known.hands().at((job.id, job.fence)) {
                one.since.get_or_insert_with(Instant::now);
                one.steps = one.steps.max(steps.len());
            }
            given.push(Given { job, timeout, steps });
        }
        Ok(given)
    }

    /// Those that must not begin.
    async fn begin_watched(&self, known: &Known, jobs: &[Arc<AssignedJob>]) -> Result<Vec<Held>, StoreError> {
        let now = self.clock.now();
        let watched = jobs.iter().filter(|job| Self::is_watched(job));
        let settlements: Vec<_> = watched.map(|job| begin(job, now, now)).collect();
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<Held> = settlements.iter().map(|one| (one.job, one.fence)).collect();
        let author = Author::Node { node: known.node, told: None };
        let replies = self.store.settle(Settle { author, settlements, done: Vec::new() }).await?;
        let mut hands = known.hands();
        let mut refused = Vec::new();
        for (job, reply) in names.into_iter().zip(replies) {
            if reply == Settled::Applied {
                hands.at(job).into_iter().for_each(|one| one.running = true);
            } else {
                refused.push(job);
            }
        }
        Ok(refused)
    }
}
