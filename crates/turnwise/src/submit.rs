//! Submitting: the ways in, and what is done when a reply is lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;
use turnwise_core::{After, JobId, NewJob, OnceKey, Timestamp, access::TokenId};
use turnwise_store::{BodyHash, Once, StoreError, SubmitOnce, Submitted};

use crate::{Error, JobRequest, Turnwise};

/// The first and the longest wait between a submit whose reply was lost and its repeat.
const SUBMIT_WAIT: Duration = Duration::from_millis(50);
const SUBMIT_WAIT_LONGEST: Duration = Duration::from_secs(1);

impl Turnwise {
    /// Submits a job in a transaction of its own and returns its id once it is durable.
    ///
    /// Where another job holds its [unique key](JobRequest::unique), the id is that one's; [`Turnwise::submit_each`] distinguishes the two.
    ///
    /// - [`Error::Invalid`] names the first invalid value of the request. Nothing was stored.
    /// - [`Error::Store`] with [`StoreError::Refused`] for a group that takes no more jobs, and for an id that is too far ahead of the
    ///   database's time; the text says why. Nothing was stored.
    /// - [`Error::Store`] that [is transient](StoreError::is_transient): the job may or may not be stored.
    ///
    /// The call repeats itself after a lost reply ([for how long](Turnwise::repeat_submits_for)), under the same id, so a submit that is answered
    /// was stored exactly once. A repeat by the caller is safe if the request has [an id of the caller's](JobRequest::id) or a unique key;
    /// otherwise it may store a second job.
    pub async fn submit(&self, request: JobRequest) -> Result<JobId, Error> {
        let ids = self.submit_all([request]).await?;
        Ok(ids[0])
    }

    /// Submits all of the jobs or none, in this order. Fails as [`Turnwise::submit`] does.
    pub async fn submit_all(&self, requests: impl IntoIterator<Item = JobRequest>) -> Result<Vec<JobId>, Error> {
        Ok(self.submit_each(requests).await?.into_iter().map(|enqueued| enqueued.id).collect())
    }

    /// As [`Turnwise::submit_all`], and returns for each job whether it was stored or which other job stands for it. Fails as
    /// [`Turnwise::submit`] does.
    pub async fn submit_each(&self, requests: impl IntoIterator<Item = JobRequest>) -> Result<Vec<Submitted>, Error> {
        let (jobs, ours) = self.new_jobs(requests).await?;
        self.store_jobs(jobs, &ours).await
    }

    /// Submits the jobs of a batch and one that begins when all of them have ended, all or none; their ids in this order. Fails as
    /// [`Turnwise::submit`] does.
    ///
    /// Fan-out and fan-in with other shapes: [`JobRequest::after_jobs`] with the ids that requests have before they are
    /// submitted ([`JobRequest::job_id`]), and [`Turnwise::submit_all`].
    pub async fn submit_batch(
        &self,
        requests: impl IntoIterator<Item = JobRequest>,
        then: JobRequest,
    ) -> Result<Vec<JobId>, Error> {
        let mut requests: Vec<_> = requests.into_iter().collect();
        requests.push(then.after_all(&requests));
        self.submit_all(requests).await
    }

    /// As [`Turnwise::submit_each`], unless a call with the same key was done for the same caller in the last 24 hours: then nothing is
    /// stored, and the answer is that call's ([`Once::Again`]). For callers that cannot keep the ids of their jobs until they know that the
    /// submit was done. A caller that can store ids should use [`JobRequest::id`] instead.
    ///
    /// Key and jobs are written together: the key is there exactly if the jobs are. `body` detects another request that reuses the key
    /// by mistake ([`Once::OtherBody`]).
    ///
    /// Fails as [`Turnwise::submit`] does, and with [`Error::Invalid`] on a store without a [side for operators](Turnwise::operators). A
    /// repeat with the same key is safe.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), turnwise::Error> {
    /// use turnwise::{BodyHash, JobRequest, Once, OnceKey, Turnwise};
    ///
    /// let turnwise = Turnwise::open("memory:").await?;
    /// let (key, body) = (OnceKey::new("order-7")?, BodyHash::of(b"7"));
    /// let submit = || turnwise.submit_once(None, key.clone(), body, [JobRequest::new("ship", &7)]);
    /// let Once::Submitted(first) = submit().await? else { panic!("the key is new") };
    /// assert_eq!(submit().await?, Once::Again(first));
    /// # Ok(()) }
    /// ```
    pub async fn submit_once(
        &self,
        caller: Option<TokenId>,
        key: OnceKey,
        body: BodyHash,
        requests: impl IntoIterator<Item = JobRequest>,
    ) -> Result<Once, Error> {
        self.send_once(requests, |jobs| SubmitOnce { caller, key: key.clone(), body, jobs, line: None }).await
    }

    pub(crate) async fn send_once(
        &self,
        requests: impl IntoIterator<Item = JobRequest>,
        call: impl Fn(Vec<NewJob>) -> SubmitOnce,
    ) -> Result<Once, Error> {
        let operators = self.operators()?;
        let (jobs, ours) = self.new_jobs(requests).await?;
        let submit = move |jobs| {
            let (operators, call) = (Arc::clone(&operators), call(jobs));
            async move { operators.submit_once(call).await }
        };
        self.send(jobs, &ours, submit).await
    }

    /// What [`Turnwise::submit_once`] with this key would answer without storing anything: [`Once::Again`] or [`Once::OtherBody`]. `None`:
    /// no call with this key was done in the last 24 hours; one may be under way.
    ///
    /// For callers that check a submit before they make it, and must not refuse the repeat of one that was made.
    pub async fn find_once(
        &self,
        caller: Option<TokenId>,
        key: OnceKey,
        body: BodyHash,
    ) -> Result<Option<Once>, Error> {
        Ok(self.operators()?.find_once(caller, key, body).await?)
    }

    /// The jobs, and the ids among theirs that the caller did not choose.
    async fn new_jobs(
        &self,
        requests: impl IntoIterator<Item = JobRequest>,
    ) -> Result<(Vec<NewJob>, BTreeSet<JobId>), Error> {
        let requests: Vec<_> = requests.into_iter().collect();
        let now = if requests.iter().any(JobRequest::is_relative) { self.now().await? } else { Timestamp::MIN };
        let ours = requests.iter().filter(|request| !request.id_is_given()).filter_map(|request| request.job_id().ok());
        let ours = ours.collect();
        let jobs = requests.into_iter().map(|request| request.into_job(now)).collect::<Result<_, _>>()?;
        Ok((jobs, ours))
    }

    /// `ours`: the ids that the caller did not choose.
    pub(crate) async fn store_jobs(&self, jobs: Vec<NewJob>, ours: &BTreeSet<JobId>) -> Result<Vec<Submitted>, Error> {
        let store = self.store();
        let enqueue = move |jobs| {
            let store = Arc::clone(&store);
            async move { store.enqueue(jobs).await }
        };
        self.send(jobs, ours, enqueue).await
    }

    /// Repeats `submit` while replies are lost, and once with other ids if those of `ours` were ahead of the database's time.
    async fn send<T, F>(
        &self,
        mut jobs: Vec<NewJob>,
        ours: &BTreeSet<JobId>,
        submit: impl Fn(Vec<NewJob>) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut wait = SUBMIT_WAIT;
        // From the first lost reply, not from the submit: to learn that it is lost may take longer than the budget.
        let mut until = None;
        let mut renewed = false;
        loop {
            let lost = match submit(jobs.clone()).await {
                Ok(done) => return Ok(done),
                Err(error) if error.is_transient() => error,
                // Perhaps because of ids that were made by a clock which is ahead of the database's. Where that cannot be found out, the
                // caller gets the refusal, which says more.
                Err(refused @ StoreError::Refused(_)) if !renewed && !ours.is_empty() => {
                    match self.renew_ids(&mut jobs, ours).await {
                        Ok(true) => renewed = true,
                        Ok(false) | Err(_) => return Err(refused.into()),
                    }
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let now = Instant::now();
            let until = *until.get_or_insert_with(|| now.checked_add(self.repeat_submits_for));
            if until.is_some_and(|until| now + wait > until) {
                return Err(lost.into());
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(SUBMIT_WAIT_LONGEST);
        }
    }

    /// Gives other ids to those of `ours` that are too far ahead of the database's time; whether there are any.
    async fn renew_ids(&self, jobs: &mut [NewJob], ours: &BTreeSet<JobId>) -> Result<bool, Error> {
        let now = self.now().await?;
        let ahead = jobs.iter().map(|job| job.id).filter(|id| ours.contains(id) && id.is_ahead(now));
        let others: BTreeMap<JobId, JobId> = ahead.map(|id| (id, self.ids.next(now))).collect();
        if others.is_empty() {
            return Ok(false);
        }
        let other = |id: &JobId| others.get(id).copied().unwrap_or(*id);
        for job in jobs {
            job.id = other(&job.id);
            if let Some(on_failure) = job.after.on_failure() {
                job.after = After::new(job.after.ids().iter().map(other), on_failure)?;
            }
        }
        Ok(true)
    }
}
