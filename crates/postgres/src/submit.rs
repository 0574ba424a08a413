//! The statements of a submit: what is bound to each, what comes back, and on what they are sent. The steps of a submit, in
//! `enqueue`, `unique` and `after`, are the same on a connection of ours, of the caller's tokio-postgres and of the caller's sqlx.

use tokio_postgres::types::ToSql;
use turnwise_core::{KeyName, NewJob, unique::OnDuplicate};
use turnwise_store::{Result, after::Waiting};
use uuid::Uuid;

use crate::{
    errors::{failed, failed_to_claim},
    rows::{get, micros, policy_text, sparse},
    session::Session,
};

/// Stores jobs. All binds but the last are arrays of the same length, one element per job, in submission order; two may
/// be shorter, and the rest of them is null then ([`Jobs`]). Returns one column `id uuid`, one row for each job that
/// was not there before. If one of these belongs to a group that takes no more, or has an id of the future, the
/// statement fails with SQLSTATE [`REFUSED`](crate::REFUSED) and the reason as its message.
pub(crate) const ENQUEUE: &str = include_str!("../sql/enqueue.sql");

/// Takes unique keys, before [`ENQUEUE`] in the same transaction. All binds are arrays of the same length, one element per job
/// with a key, in submission order ([`Claims`]). Returns `place int` (from 1), `holder uuid`, `outcome smallint`, one row for
/// each: 0 store it, 1 it was there before, 2 the holder stands for it.
pub(crate) const CLAIM: &str = include_str!("../sql/claim.sql");

/// Gives other arguments to jobs of the same task that have not begun ([`Replacements`]); of several for one job the last of its
/// task. Returns `id uuid`, `task text`, `replaced boolean`, one row for each of these jobs that is unfinished.
pub(crate) const REPLACE_ARGS: &str = include_str!("../sql/replace_args.sql");

/// Writes down which jobs the new ones wait for ([`Awaited`]), after [`ENQUEUE`] in the same transaction. If one waits for a job
/// that does not exist, the statement fails with SQLSTATE [`REFUSED`](crate::REFUSED) and the reason as its message.
pub(crate) const ENQUEUE_AFTER: &str = include_str!("../sql/enqueue_after.sql");

/// Sends the statements of a submit and reads their rows.
pub(crate) trait Submitting: Send {
    fn store(&mut self, jobs: &Jobs<'_>) -> impl Future<Output = Result<Vec<Uuid>>> + Send;
    fn claim(&mut self, claims: &Claims<'_>) -> impl Future<Output = Result<Vec<Claimed>>> + Send;
    fn replace_args(&mut self, wanted: &Replacements<'_>) -> impl Future<Output = Result<Vec<Replaced>>> + Send;
    fn wait_for(&mut self, awaited: &Awaited<'_>) -> impl Future<Output = Result<()>> + Send;
}

/// On a connection of tokio-postgres, ours or the caller's.
pub(crate) struct On<'a, S>(pub(crate) &'a S);

impl<S: Session> Submitting for On<'_, S> {
    async fn store(&mut self, jobs: &Jobs<'_>) -> Result<Vec<Uuid>> {
        let rows = self.0.query(ENQUEUE, &jobs.binds()).await.map_err(failed("enqueue"))?;
        rows.iter().map(|row| get(row, 0)).collect()
    }

    async fn claim(&mut self, claims: &Claims<'_>) -> Result<Vec<Claimed>> {
        let Claims { ids, scopes, keys, until_ended, periods, reject } = claims;
        let rows = self.0.query(CLAIM, &[ids, scopes, keys, until_ended, periods, reject]).await;
        let rows = rows.map_err(failed_to_claim)?;
        rows.iter()
            .map(|row| Ok(Claimed { place: get(row, 0)?, holder: get(row, 1)?, outcome: get(row, 2)? }))
            .collect()
    }

    async fn replace_args(&mut self, wanted: &Replacements<'_>) -> Result<Vec<Replaced>> {
        let Replacements { ids, tasks, args } = wanted;
        let rows = self.0.query(REPLACE_ARGS, &[ids, tasks, args]).await.map_err(failed("enqueue"))?;
        rows.iter().map(|row| Ok(Replaced { id: get(row, 0)?, task: get(row, 1)?, replaced: get(row, 2)? })).collect()
    }

    async fn wait_for(&mut self, awaited: &Awaited<'_>) -> Result<()> {
        let Awaited { waiting, awaited, ids, policies, stand_ins } = awaited;
        let binds: [&(dyn ToSql + Sync); 5] = [waiting, awaited, ids, policies, stand_ins];
        self.0.execute(ENQUEUE_AFTER, &binds).await.map(drop).map_err(failed("enqueue"))
    }
}

/// The binds of [`ENQUEUE`].
pub(crate) struct Jobs<'a> {
    pub(crate) ids: Vec<Uuid>,
    pub(crate) tasks: Vec<&'a str>,
    /// As JSON text.
    pub(crate) args: Vec<&'a str>,
    pub(crate) queues: Vec<&'a str>,
    pub(crate) groups: Vec<&'a str>,
    pub(crate) priorities: Vec<i16>,
    /// In RFC 3339; null: now, by the database's clock.
    pub(crate) dues: Vec<Option<String>>,
    /// Null: the default.
    pub(crate) retries: Vec<Option<String>>,
    pub(crate) keys: Vec<Option<&'a str>>,
    pub(crate) terms: Vec<Option<String>>,
    /// In RFC 3339.
    pub(crate) expires: Vec<Option<String>>,
    pub(crate) newest: i64,
}

/// The time of the newest id, in milliseconds since 1970.
pub(crate) fn newest<'a>(jobs: impl Iterator<Item = &'a NewJob>) -> i64 {
    let newest = jobs.map(|job| job.id).max();
    newest.map_or(0, |id| i64::try_from(id.unix_millis()).expect("48 bits"))
}

impl<'a> Jobs<'a> {
    pub(crate) fn of(jobs: impl Iterator<Item = &'a NewJob> + Clone) -> Self {
        let each = || jobs.clone();
        Self {
            ids: each().map(|job| job.id.uuid()).collect(),
            tasks: each().map(|job| job.task.as_str()).collect(),
            args: each().map(|job| job.args.as_str()).collect(),
            queues: each().map(|job| job.queue.as_str()).collect(),
            groups: each().map(|job| job.group.as_str()).collect(),
            priorities: each().map(|job| job.priority.get().into()).collect(),
            dues: each().map(|job| job.due.map(|due| due.to_string())).collect(),
            retries: each().map(|job| policy_text(&job.retry)).collect(),
            keys: each().map(|job| job.key.as_ref().map(KeyName::as_str)).collect(),
            terms: sparse(each().map(|job| job.terms.to_text())),
            expires: sparse(each().map(|job| job.expires.map(|expires| expires.to_string()))),
            newest: newest(each()),
        }
    }

    pub(crate) fn binds(&self) -> [&(dyn ToSql + Sync); 12] {
        [
            &self.ids,
            &self.tasks,
            &self.args,
            &self.queues,
            &self.groups,
            &self.priorities,
            &self.dues,
            &self.retries,
            &self.keys,
            &self.terms,
            &self.expires,
            &self.newest,
        ]
    }
}

/// The binds of [`CLAIM`].
#[derive(Default)]
pub(crate) struct Claims<'a> {
    pub(crate) ids: Vec<Uuid>,
    pub(crate) scopes: Vec<String>,
    pub(crate) keys: Vec<&'a str>,
    /// Whether the key is held until the job has ended.
    pub(crate) until_ended: Vec<bool>,
    /// For how long it is held, in microseconds; null: no period.
    pub(crate) periods: Vec<Option<i64>>,
    /// 1: a duplicate refuses the statement, with SQLSTATE [`DUPLICATE`](crate::DUPLICATE).
    pub(crate) reject: Vec<i16>,
}

impl<'a> Claims<'a> {
    /// Of those that have a key.
    pub(crate) fn of(jobs: impl Iterator<Item = &'a NewJob>) -> Self {
        let mut claims = Self::default();
        for (job, unique) in jobs.filter_map(|job| Some((job, job.unique.as_deref()?))) {
            claims.ids.push(job.id.uuid());
            claims.scopes.push(unique.scope.of(job));
            claims.keys.push(unique.key.as_str());
            claims.until_ended.push(unique.hold.until_ended());
            claims.periods.push(unique.hold.period().map(micros));
            claims.reject.push(i16::from(unique.on_duplicate == OnDuplicate::Reject));
        }
        claims
    }
}

/// A row of [`CLAIM`].
pub(crate) struct Claimed {
    /// Counts from 1.
    pub(crate) place: i32,
    pub(crate) holder: Uuid,
    pub(crate) outcome: i16,
}

/// The binds of [`REPLACE_ARGS`].
#[derive(Default)]
pub(crate) struct Replacements<'a> {
    pub(crate) ids: Vec<Uuid>,
    pub(crate) tasks: Vec<&'a str>,
    pub(crate) args: Vec<&'a str>,
}

/// A row of [`REPLACE_ARGS`].
pub(crate) struct Replaced {
    pub(crate) id: Uuid,
    pub(crate) task: String,
    pub(crate) replaced: bool,
}

/// The binds of [`ENQUEUE_AFTER`].
pub(crate) struct Awaited<'a> {
    pub(crate) waiting: Vec<Uuid>,
    /// Which job each of them waits for: pairs with the first.
    pub(crate) awaited: Vec<Uuid>,
    /// Jobs that wait, each once.
    pub(crate) ids: Vec<Uuid>,
    /// What becomes of each if a job it waits for fails: `fail`, `run` or `cancel`.
    pub(crate) policies: Vec<&'a str>,
    /// Awaited jobs that need not exist any more.
    pub(crate) stand_ins: Vec<Uuid>,
}

impl Awaited<'static> {
    pub(crate) fn of(Waiting { jobs, stand_ins }: Waiting) -> Self {
        let pairs =
            || jobs.iter().flat_map(|(job, _, awaited)| awaited.iter().map(|awaited| (job.uuid(), awaited.uuid())));
        let (waiting, awaited) = pairs().unzip();
        Self {
            waiting,
            awaited,
            ids: jobs.iter().map(|(job, ..)| job.uuid()).collect(),
            policies: jobs.iter().map(|(_, on_failure, _)| on_failure.name()).collect(),
            stand_ins: stand_ins.into_iter().map(|id| id.uuid()).collect(),
        }
    }
}
