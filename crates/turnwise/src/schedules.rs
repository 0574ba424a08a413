//! Periodic jobs: what is submitted again and again, set and changed while nodes run.

use std::collections::BTreeMap;

use turnwise_core::{Invalid, JobId, NewJob, Timestamp, periodic::run_id, settings::Pause};
use turnwise_store::{MemoKind, StoreError, memo};

pub use turnwise_core::{
    ScheduleName,
    calendar::{Schedule, Window, Zone},
    periodic::{CatchUp, Overlap, Periodic, When},
};

use crate::{
    Error, JobRequest, Turnwise,
    audit::{AuditTarget, AuditVerb},
    id,
};

/// Longest name of a schedule.
const MAX_NAME: usize = 100;

/// A job that is to be submitted again and again. Invalid values are reported by `set_schedule`.
#[derive(Debug, Clone)]
#[must_use = "set it with `Turnwise::set_schedule`"]
pub struct Recurring {
    when: Result<When, Invalid>,
    job: JobRequest,
    overlap: Overlap,
    catch_up: CatchUp,
}

/// The last time of a schedule that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastTime {
    /// Times up to this one are over: a job was submitted for them, or they were skipped.
    pub at: Timestamp,
    /// The last job that was submitted for one of them; `None`: none was.
    pub job: Option<JobId>,
}

impl Recurring {
    /// At the times of a cron pattern (with seconds before the minutes, if wanted) by the clock of UTC.
    pub fn cron(pattern: &str, job: JobRequest) -> Self {
        Self::cron_in(pattern, "UTC", job)
    }

    /// At the times of a cron pattern by the clock of a zone.
    pub fn cron_in(pattern: &str, zone: &str, job: JobRequest) -> Self {
        let when = zone.parse::<Zone>().and_then(|zone| Schedule::new(pattern, zone)).map(When::Cron);
        Self::new(when, job)
    }

    /// Every so often: at the multiples of this span, written like `10m`, since the beginning of 1970.
    pub fn every(span: &str, job: JobRequest) -> Self {
        Self::new(When::every(span), job)
    }

    fn new(when: Result<When, Invalid>, job: JobRequest) -> Self {
        Self { when, job, overlap: Overlap::default(), catch_up: CatchUp::default() }
    }

    /// What happens at its time while the last job of this schedule has not ended. Default: as [`Overlap::default`].
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// What happens with times at which no dispatcher was there. Default: as [`CatchUp::default`].
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }
}

impl Turnwise {
    /// All schedules, by name.
    ///
    /// [`Error::Invalid`] names one that cannot be read, perhaps because a newer program wrote it; [`Error::Store`] if the database does not
    /// answer. Nothing is changed: a repeat is safe.
    pub async fn schedules(&self) -> Result<BTreeMap<ScheduleName, Periodic>, Error> {
        let memos = self.store().recall(vec![MemoKind::Schedule]).await?;
        let unread = |name: &str, error| Invalid::new("schedule", format!("{name:?} cannot be read: {error}")).into();
        memo::schedules(&memos).map(|(memo, read)| read.map_err(|error| unread(&memo.name, error))).collect()
    }

    /// Up to which time each schedule's times are over, and the job of the last one that submitted one.
    ///
    /// [`Error::Store`] if the database does not answer. Nothing is changed: a repeat is safe.
    pub async fn last_times(&self) -> Result<BTreeMap<ScheduleName, LastTime>, Error> {
        let memos = self.store().recall(vec![MemoKind::Fired]).await?;
        let read = |memo: &turnwise_store::Memo| {
            let memo::Fired { over, job } = memo::Fired::read(&memo.value)?;
            Some((ScheduleName::new(&memo.name).ok()?, LastTime { at: over?, job }))
        };
        Ok(memos.iter().filter_map(read).collect())
    }

    /// Sets a schedule, or another in its place. Times before now do not count; one that stays as it was goes on, and one
    /// that is paused stays paused.
    ///
    /// [`Error::Invalid`] for an invalid name or value, and for a job with a due time, a unique key, a time by which it
    /// must have begun, or jobs that it waits for: nothing was changed. [`Error::Contested`] and [`Error::Store`] as for
    /// [`Turnwise::set_queue`]. A repeat is safe: a schedule that is there already stays as it is.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), turnwise::Error> {
    /// # use turnwise::{JobRequest, schedules::Recurring};
    /// let turnwise = turnwise::Turnwise::open("memory:").await?;
    /// let report = JobRequest::new("report", &"sales").group("acme");
    /// turnwise.set_schedule("sales", Recurring::cron_in("0 2 * * *", "Europe/Berlin", report)).await?;
    /// # Ok(()) }
    /// ```
    pub async fn set_schedule(&self, name: impl AsRef<str>, recurring: Recurring) -> Result<Periodic, Error> {
        let name = ScheduleName::new(name)?;
        if name.as_str().len() > MAX_NAME {
            return Err(Invalid::new("schedule", format!("the name is longer than {MAX_NAME} bytes")).into());
        }
        let now = self.now().await?;
        let set = periodic(recurring, now)?;
        self.write_schedule(AuditVerb::Set, &name, |there| {
            // A pause is a person's, and stays.
            let paused = there.as_ref().and_then(|there| there.paused.clone());
            let set = Periodic { paused, ..set.clone() };
            let same = there.filter(|there| Periodic { since: there.since, ..set.clone() } == *there);
            Ok(Some(same.unwrap_or(set)))
        })
        .await?
        .ok_or_else(|| Error::Contested(format!("schedule {name}")))
    }

    /// No more jobs of it are submitted until it is resumed; those that are there go on. One that is paused already keeps its moment and
    /// its reason.
    ///
    /// [`Error::Invalid`] if there is no such schedule; otherwise fails as [`Turnwise::set_schedule`] does. A repeat is safe.
    pub async fn pause_schedule(&self, name: impl AsRef<str>, reason: Option<String>) -> Result<Periodic, Error> {
        let since = self.now().await?;
        self.change_schedule(AuditVerb::Pause, name, |periodic| {
            periodic.paused.get_or_insert_with(|| Pause { since, reason: reason.clone() });
        })
        .await
    }

    /// Goes on from now: times within the pause are skipped. One that is not paused stays as it is.
    ///
    /// Fails as [`Turnwise::pause_schedule`] does. A repeat is safe.
    pub async fn resume_schedule(&self, name: impl AsRef<str>) -> Result<Periodic, Error> {
        let now = self.now().await?;
        self.change_schedule(AuditVerb::Resume, name, |periodic| {
            if periodic.paused.take().is_some() {
                periodic.since = now;
            }
        })
        .await
    }

    /// Takes the schedule away; its jobs stay.
    ///
    /// Fails as [`Turnwise::pause_schedule`] does. If a reply was lost, this call or a repeat of it may be answered with [`Error::Invalid`],
    /// which says that there is no such schedule, though it was this one that took it away.
    pub async fn remove_schedule(&self, name: impl AsRef<str>) -> Result<(), Error> {
        let name = ScheduleName::new(name)?;
        self.write_schedule(AuditVerb::Remove, &name, |there| there.map(|_| None).ok_or_else(|| none(&name)))
            .await
            .map(drop)
    }

    /// Submits the schedule's job once more, now, beside the plan: whether it is paused or its last job has not ended does
    /// not count, and neither does this one for the next.
    ///
    /// [`Error::Invalid`] if there is no such schedule; otherwise fails as [`Turnwise::submit`] does. A repeat is **not** safe after a
    /// transient error: each call that is done submits a job.
    pub async fn run_schedule(&self, name: impl AsRef<str>) -> Result<JobId, Error> {
        let (name, periodic) = self.schedule(name).await?;
        let id = run_id(&name, id::next().unix_millis(), rand::random());
        let submitted = self.store_jobs(vec![periodic.job_now(id)], &[id].into()).await?;
        let job = submitted.first().ok_or_else(|| StoreError::broken("submit", "no answer"))?;
        Ok(job.id)
    }

    async fn schedule(&self, name: impl AsRef<str>) -> Result<(ScheduleName, Periodic), Error> {
        let name = ScheduleName::new(name)?;
        let periodic = self.schedules().await?.remove(&name).ok_or_else(|| none(&name))?;
        Ok((name, periodic))
    }

    async fn change_schedule(
        &self,
        verb: AuditVerb,
        name: impl AsRef<str>,
        mut change: impl FnMut(&mut Periodic),
    ) -> Result<Periodic, Error> {
        let name = ScheduleName::new(name)?;
        let written = self.write_schedule(verb, &name, |there| {
            let mut periodic = there.ok_or_else(|| none(&name))?;
            change(&mut periodic);
            Ok(Some(periodic))
        });
        written.await?.ok_or_else(|| Error::Contested(format!("schedule {name}")))
    }

    /// Writes what `change` makes of what is there (`None`: take it away). One that cannot be read, a newer program's say, may be set
    /// anew or taken away.
    async fn write_schedule(
        &self,
        verb: AuditVerb,
        name: &ScheduleName,
        mut change: impl FnMut(Option<Periodic>) -> Result<Option<Periodic>, Invalid>,
    ) -> Result<Option<Periodic>, Error> {
        let change = |there: Option<serde_json::Result<_>>| change(there.and_then(Result::ok));
        self.change_memo(verb, AuditTarget::Schedule(name.clone()), change).await
    }
}

fn none(name: &ScheduleName) -> Invalid {
    Invalid::new("schedule", format!("there is none named {:?}", name.as_str()))
}

fn periodic(recurring: Recurring, now: turnwise_core::Timestamp) -> Result<Periodic, Invalid> {
    let when = recurring.when?;
    let NewJob { task, args, queue, group, priority, due, retry, key, terms, expires, unique, after, .. } =
        recurring.job.into_job(now)?;
    if due.is_some() {
        return Err(Invalid::new("due", "is what the schedule says"));
    }
    if expires.is_some() {
        return Err(Invalid::new("expires", "cannot be set for a schedule; limit how long a run takes instead"));
    }
    if !after.is_empty() {
        return Err(Invalid::new("after", "cannot be set for a schedule"));
    }
    if unique.is_some() {
        return Err(Invalid::new("unique", "cannot be set for a schedule: each of its times is unique already"));
    }
    Ok(Periodic {
        when,
        task,
        args,
        queue,
        group,
        priority,
        retry,
        key,
        terms,
        overlap: recurring.overlap,
        catch_up: recurring.catch_up,
        paused: None,
        since: now,
    })
}
