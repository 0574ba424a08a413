//! Decisions about many jobs at once.

use std::collections::HashSet;

use turnwise_core::{
    Job, JobId, JobState, Timestamp,
    audit::AuditVerb,
    lifecycle::{self, Event, Illegal, JobFacts, Target, Transition},
};
use turnwise_store::{Filter, Settled};

use crate::{
    Decision, Error, Turnwise,
    client::{log_given_up, log_rest_given_up},
    id,
};

/// What cancelling many jobs came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CancelledAll {
    /// They had not begun and never will.
    pub at_once: usize,
    /// They are in the hands of nodes, which are notified to stop them.
    pub requested: usize,
    /// They changed meanwhile, or an open transaction holds them: look at them again.
    pub left: Vec<JobId>,
    /// The filter names more jobs than its limit allows: call again. Always `false` for jobs that the caller has read.
    pub more: bool,
}

/// What marking many jobs as failed came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FailedAll {
    /// They are failed.
    pub failed: usize,
    /// They changed meanwhile, or an open transaction holds them: look at them again.
    pub left: Vec<JobId>,
    /// The filter names more jobs than its limit allows: call again. Always `false` for jobs that the caller has read.
    pub more: bool,
}

/// What having many jobs run again came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RetriedAll {
    /// They run now or again.
    pub again: usize,
    /// They changed meanwhile, or an open transaction holds them: look at them again.
    pub left: Vec<JobId>,
    /// The filter names more jobs than its limit allows: call again. Always `false` for jobs that the caller has read.
    pub more: bool,
}

/// What changing many jobs came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ChangedAll {
    /// They are changed.
    pub changed: usize,
    /// They changed otherwise meanwhile, their unique key keeps them in their queue, or an open transaction holds them: look at them
    /// again.
    pub left: Vec<JobId>,
    /// The filter names more jobs than its limit allows: call again. Always `false` for jobs that the caller has read.
    pub more: bool,
}

/// Jobs in one transaction.
const AT_ONCE: usize = 1_000;

impl Turnwise {
    /// Stops the unfinished jobs that `filter` names, the newest first: a thousand in a transaction, where [`Turnwise::cancel`]
    /// takes one for each. Without a limit all of them, up to [`Filter::MAX_LIMIT`]; [`CancelledAll::more`] says whether that left
    /// some.
    ///
    /// A job that cannot be stopped is named in [`CancelledAll::left`], and is no error. After an error ([`Error::Store`]) some of them
    /// may have been stopped; calling again is safe, and stops the others.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), turnwise::Error> {
    /// use turnwise::{Filter, JobRequest, Turnwise};
    ///
    /// let turnwise = Turnwise::open("memory:").await?;
    /// turnwise.submit_all((0..3).map(|n| JobRequest::new("mail", &n).group("acme"))).await?;
    /// let stopped = turnwise.cancel_all(Filter { group: Some("acme".to_owned()), ..Filter::default() }).await?;
    /// assert_eq!(stopped.at_once, 3);
    /// # Ok(()) }
    /// ```
    pub async fn cancel_all(&self, filter: Filter) -> Result<CancelledAll, Error> {
        let (jobs, more) = self.named_by(filter, Decision::Cancel).await?;
        Ok(CancelledAll { more, ..self.cancel_these(&jobs).await? })
    }

    /// As [`Turnwise::cancel_all`], of jobs that were read before. One that has changed since is left alone.
    ///
    /// Fails as [`Turnwise::cancel_all`] does; a repeat is safe: jobs that the first call ended are named in `left`, and the nodes of the
    /// others are asked again.
    pub async fn cancel_these(&self, jobs: &[Job]) -> Result<CancelledAll, Error> {
        let mut stopped = CancelledAll::default();
        for (job, decided) in self.decide_all(jobs, &Event::Cancel).await? {
            match decided {
                Some(Target::CancelRequested) => stopped.requested += 1,
                Some(_) => stopped.at_once += 1,
                None => stopped.left.push(job),
            }
        }
        Ok(stopped)
    }

    /// Marks the stuck jobs that `filter` names as failed, as [`Turnwise::fail`] does; otherwise as [`Turnwise::cancel_all`], also
    /// when it fails.
    pub async fn fail_all(&self, filter: Filter) -> Result<FailedAll, Error> {
        let (jobs, more) = self.named_by(filter, Decision::Fail).await?;
        Ok(FailedAll { more, ..self.fail_these(&jobs).await? })
    }

    /// As [`Turnwise::fail_all`], of jobs that were read before. One that has changed since is left alone.
    ///
    /// Fails as [`Turnwise::cancel_all`] does; a repeat is safe: jobs that the first call changed are named in `left`.
    pub async fn fail_these(&self, jobs: &[Job]) -> Result<FailedAll, Error> {
        let mut marked = FailedAll::default();
        let mut failed = HashSet::new();
        for (job, decided) in self.decide_all(jobs, &Event::GiveUp).await? {
            match decided {
                Some(_) => drop(failed.insert(job)),
                None => marked.left.push(job),
            }
        }
        marked.failed = failed.len();
        jobs.iter().filter(|job| failed.contains(&job.id)).for_each(log_given_up);
        log_rest_given_up();
        Ok(marked)
    }

    /// Runs the stuck, failed and cancelled jobs that `filter` names now or again, with fresh retries, as [`Turnwise::retry`] does;
    /// otherwise as [`Turnwise::cancel_all`], also when it fails: a repeat retries those jobs again that have failed once more meanwhile.
    pub async fn retry_all(&self, filter: Filter) -> Result<RetriedAll, Error> {
        let (jobs, more) = self.named_by(filter, Decision::Retry).await?;
        Ok(RetriedAll { more, ..self.retry_these(&jobs).await? })
    }

    /// As [`Turnwise::retry_all`], of jobs that were read before. One that has changed since is left alone.
    ///
    /// Fails as [`Turnwise::cancel_all`] does; a repeat is safe: jobs that the first call changed are named in `left`.
    pub async fn retry_these(&self, jobs: &[Job]) -> Result<RetriedAll, Error> {
        self.again(jobs, &Event::Retry).await
    }

    /// As [`Turnwise::retry_these`], and jobs that have succeeded run once more, too, as [`Turnwise::rerun`] does. A repeat with the same
    /// jobs is safe, since each is decided about only if it is as it was read; with jobs that were read anew it is not.
    pub async fn rerun_these(&self, jobs: &[Job]) -> Result<RetriedAll, Error> {
        self.again(jobs, &Event::Rerun).await
    }

    async fn again(&self, jobs: &[Job], event: &Event) -> Result<RetriedAll, Error> {
        let mut retried = RetriedAll::default();
        for (job, decided) in self.decide_all(jobs, event).await? {
            match decided {
                Some(_) => retried.again += 1,
                None => retried.left.push(job),
            }
        }
        Ok(retried)
    }

    /// The jobs in states in which the decision is possible, all of these if no states are named; and whether the limit leaves some.
    pub(crate) async fn named_by(&self, filter: Filter, decision: Decision) -> Result<(Vec<Job>, bool), Error> {
        let may = |state: &JobState| decision.may(*state) && filter.wants(*state);
        let states: Vec<_> = JobState::ALL.into_iter().filter(may).collect();
        if states.is_empty() {
            return Ok((Vec::new(), false));
        }
        let limit = Some(filter.limit.unwrap_or(Filter::MAX_LIMIT));
        let filter = Filter { states, limit, ..filter };
        let jobs = self.jobs(filter.clone()).await?;
        if jobs.len() < filter.limit() as usize {
            return Ok((jobs, false));
        }
        let (first, newest) = filter.id_range();
        // The newest come first.
        let Some(last) = jobs.last().map_or(Some(newest), |job| id::before(job.id)) else { return Ok((jobs, false)) };
        let older = self.jobs(Filter { ids: Some((first, last)), limit: Some(1), ..filter }).await?;
        Ok((jobs, !older.is_empty()))
    }

    async fn decide_all(&self, jobs: &[Job], event: &Event) -> Result<Vec<(JobId, Option<Target>)>, Error> {
        let decide = |job: &Job, now| lifecycle::decide(&JobFacts::from(job), event, now, 0.0);
        self.decide_all_by(jobs, AuditVerb::of(event), decide).await
    }

    /// What each job came to; `None`: it was left alone, for it has changed, does not allow it, or an open transaction holds it.
    pub(crate) async fn decide_all_by(
        &self,
        jobs: &[Job],
        verb: Option<AuditVerb>,
        decide: impl Fn(&Job, Timestamp) -> Result<Transition, Illegal>,
    ) -> Result<Vec<(JobId, Option<Target>)>, Error> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        // The installation's settings say whether jobs that end by this are kept.
        self.hear_of_installation().await?;
        let now = self.now().await?;
        let mut decisions = Vec::new();
        let mut decided = Vec::new();
        for job in jobs {
            match decide(job, now) {
                Ok(to) => decisions.push(self.intervention(job, verb, to)),
                Err(_) => decided.push((job.id, None)),
            }
        }
        // Two callers that do the same never wait for each other in a circle.
        decisions.sort_unstable_by_key(|decision| decision.job);
        let mut decisions = decisions.into_iter().peekable();
        while decisions.peek().is_some() {
            let chunk: Vec<_> = decisions.by_ref().take(AT_ONCE).collect();
            let targets: Vec<_> = chunk.iter().map(|decision| (decision.job, decision.to.to.clone())).collect();
            let replies = self.store().control(chunk).await?;
            let written = |(reply, (job, target))| (job, (reply == Settled::Applied).then_some(target));
            decided.extend(replies.into_iter().zip(targets).map(written));
        }
        Ok(decided)
    }
}
