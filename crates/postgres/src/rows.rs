//! Between values and columns.

use std::{collections::BTreeSet, error::Error, num::NonZeroU32, sync::Arc, time::Duration};

use bytes::{BufMut, BytesMut};
use foldhash::{HashMap, HashSet};
use tokio_postgres::{
    Row,
    types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked},
};
use turnwise_core::{
    Fence, GroupName, Incarnation, Job, JobHead, JobId, JobState, Json, KeyName, Node, NodeName, OnFailure, Priority,
    QueueName, RetryPolicy, Serves, TaskName, Terms, Timestamp,
    job::{AssignedJob, Counts, long_args},
    story::Progress,
};
use turnwise_store::{EndedJob, HeldJob, Result, StoreError};
use uuid::Uuid;

use crate::after;

type AnyError = Box<dyn Error + Sync + Send>;

/// A `timestamptz`: on the wire, microseconds since 2000.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment(pub(crate) Timestamp);

/// Microseconds from 1970 to 2000.
const YEAR_2000: i64 = 946_684_800_000_000;

impl<'a> FromSql<'a> for Moment {
    fn from_sql(_: &Type, raw: &'a [u8]) -> std::result::Result<Self, AnyError> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        // Saturating: "infinity" is the largest number, and the end of time here.
        Ok(Self(Timestamp::from_micros(micros.saturating_add(YEAR_2000))))
    }

    accepts!(TIMESTAMPTZ);
}

impl ToSql for Moment {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> std::result::Result<IsNull, AnyError> {
        out.put_i64(self.0.micros() - YEAR_2000);
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

/// The text of a `json` column, to the letter.
#[derive(Debug)]
pub(crate) struct JsonText<'a>(pub(crate) &'a str);

impl<'a> FromSql<'a> for JsonText<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> std::result::Result<Self, AnyError> {
        Ok(Self(std::str::from_utf8(raw)?))
    }

    accepts!(JSON);
}

impl ToSql for JsonText<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> std::result::Result<IsNull, AnyError> {
        out.put_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    accepts!(JSON);
    to_sql_checked!();
}

impl From<JsonText<'_>> for Json {
    fn from(text: JsonText<'_>) -> Self {
        Json::stored(text.0)
    }
}

/// Names of one reply, each held once: a page of a thousand jobs has a handful of queues, tasks and groups.
#[derive(Default)]
pub(crate) struct Names {
    all: HashSet<Arc<str>>,
    policies: HashMap<Box<str>, Option<RetryPolicy>>,
}

impl Names {
    fn share(&mut self, text: &str) -> Arc<str> {
        match self.all.get(text) {
            Some(name) => Arc::clone(name),
            None => {
                let name: Arc<str> = Arc::from(text);
                self.all.insert(Arc::clone(&name));
                name
            }
        }
    }

    /// Jobs from before a task's own policy held for them have null, and keep the default.
    pub(crate) fn policy(&mut self, text: Option<&str>) -> Option<RetryPolicy> {
        let Some(text) = text else { return Some(RetryPolicy::DEFAULT) };
        if let Some(policy) = self.policies.get(text) {
            return policy.clone();
        }
        // The SQL function checks a policy only roughly. One bad row must not hold up all others.
        let policy = RetryPolicy::from_stored(text).unwrap_or_else(|error| {
            tracing::warn!(%error, "a stored retry policy cannot be read; the default is used");
            Some(RetryPolicy::DEFAULT)
        });
        self.policies.insert(text.into(), policy.clone());
        policy
    }
}

/// A column of `row`; one that cannot be read is a broken promise of the database.
pub(crate) fn get<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Result<T> {
    row.try_get(at).map_err(|error| StoreError::broken("read a row", error))
}

pub(crate) fn moment(row: &Row, at: usize) -> Result<Option<Timestamp>> {
    Ok(get::<Option<Moment>>(row, at)?.map(|moment| moment.0))
}

pub(crate) fn now(row: &Row, at: usize) -> Result<Timestamp> {
    Ok(get::<Moment>(row, at)?.0)
}

pub(crate) fn state(row: &Row, at: usize) -> Result<JobState> {
    let code = get(row, at)?;
    JobState::from_code(code).ok_or_else(|| StoreError::broken("read a row", format!("{code} is not a state")))
}

fn priority(row: &Row, at: usize) -> Result<Priority> {
    Priority::new(get::<i16>(row, at)?.into()).map_err(|error| StoreError::broken("read a row", error))
}

fn key(row: &Row, at: usize, names: &mut Names) -> Result<Option<KeyName>> {
    Ok(get::<Option<&str>>(row, at)?.map(|name| KeyName::stored(names.share(name))))
}

/// Like a retry policy, terms that cannot be read must not hold up all others.
pub(crate) fn terms(row: &Row, at: usize) -> Result<Terms> {
    let Some(text) = get::<Option<&str>>(row, at)? else { return Ok(Terms::default()) };
    Ok(Terms::from_text(text).unwrap_or_else(|error| {
        tracing::warn!(%error, "stored terms cannot be read; none are used");
        Terms::default()
    }))
}

pub(crate) fn on_failure(row: &Row, at: usize) -> Result<Option<OnFailure>> {
    // A job that a person has retried waits for no other any more.
    let text = get::<Option<&str>>(row, at)?.filter(|text| *text != "over");
    text.map(str::parse).transpose().map_err(|error| StoreError::broken("read a row", error))
}

/// A count that the database keeps as a signed number.
pub(crate) fn count(row: &Row, at: usize) -> Result<u32> {
    Ok(u32::try_from(get::<i32>(row, at)?).unwrap_or(0))
}

/// `attempt, retries, crashes`, from column `at` on.
pub(crate) fn counts(row: &Row, at: usize) -> Result<Counts> {
    Ok(Counts { attempt: count(row, at)?, retry: count(row, at + 1)?, crashes: count(row, at + 2)? })
}

/// `id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at, on_failure`
/// and the bytes of the arguments, from column `at` on; `None` where a left join found no job. The jobs it waits for are added by `after::complete`.
pub(crate) fn head(row: &Row, at: usize, names: &mut Names) -> Result<Option<JobHead>> {
    let Some(id) = get::<Option<Uuid>>(row, at)? else { return Ok(None) };
    let (state, fence) = (state(row, at + 6)?, Fence(get(row, at + 8)?));
    let never_given_away = state == JobState::Waiting && !fence.was_assigned();
    Ok(Some(JobHead {
        id: JobId::from_uuid(id),
        seq: get(row, at + 1)?,
        task: TaskName::stored(names.share(get(row, at + 2)?)),
        queue: QueueName::stored(names.share(get(row, at + 3)?)),
        group: GroupName::stored(names.share(get(row, at + 4)?)),
        priority: priority(row, at + 5)?,
        state,
        due: moment(row, at + 7)?,
        fence,
        crashes: count(row, at + 9)?,
        node: get::<Option<Uuid>>(row, at + 10)?.map(Incarnation),
        key: key(row, at + 11, names)?,
        submitted_at: now(row, at + 12)?,
        expires: moment(row, at + 13)?,
        args_bytes: long_args(count(row, at + 15)? as usize),
        awaits: on_failure(row, at + 14)?.filter(|_| never_given_away).map(after::incomplete),
    }))
}

/// `state, attempt, retries, crashes, cancel_requested, submitted_at, priority, task, queue, grp, retry, args,
/// terms`, from column `at` on.
pub(crate) fn assigned(row: &Row, id: JobId, fence: Fence, at: usize, names: &mut Names) -> Result<AssignedJob> {
    Ok(AssignedJob {
        id,
        fence,
        state: state(row, at)?,
        counts: counts(row, at + 1)?,
        cancel_requested: get(row, at + 4)?,
        submitted_at: now(row, at + 5)?,
        priority: priority(row, at + 6)?,
        task: TaskName::stored(names.share(get(row, at + 7)?)),
        queue: QueueName::stored(names.share(get(row, at + 8)?)),
        group: GroupName::stored(names.share(get(row, at + 9)?)),
        retry: names.policy(get(row, at + 10)?),
        args: get::<JsonText<'_>>(row, at + 11)?.into(),
        terms: terms(row, at + 12)?,
        // Set later, from the mail or from the pick.
        limited: false,
    })
}

/// The columns of `job.sql` and `jobs.sql`; the unique key that it holds is in another table.
pub(crate) fn job(row: &Row, names: &mut Names) -> Result<Job> {
    Ok(Job {
        id: JobId::from_uuid(get(row, 0)?),
        task: TaskName::stored(names.share(get(row, 1)?)),
        queue: QueueName::stored(names.share(get(row, 2)?)),
        group: GroupName::stored(names.share(get(row, 3)?)),
        priority: priority(row, 4)?,
        args: get::<JsonText<'_>>(row, 5)?.into(),
        retry: names.policy(get(row, 6)?),
        state: state(row, 7)?,
        counts: counts(row, 8)?,
        fence: Fence(get(row, 11)?),
        cancel_requested: get(row, 12)?,
        node: get::<Option<&str>>(row, 13)?.map(|name| NodeName::stored(names.share(name))),
        result: get::<Option<JsonText<'_>>>(row, 14)?.map(Json::from),
        error: get(row, 15)?,
        submitted_at: now(row, 16)?,
        due_at: moment(row, 17)?,
        assigned_at: moment(row, 18)?,
        started_at: moment(row, 19)?,
        finished_at: moment(row, 20)?,
        key: key(row, 21, names)?,
        unique: None,
        terms: terms(row, 22)?,
        fingerprint: get(row, 23)?,
        expires_at: moment(row, 24)?,
    })
}

/// The columns of `watch_ended.sql`.
pub(crate) fn ended(row: &Row, names: &mut Names) -> Result<EndedJob> {
    Ok(EndedJob {
        id: JobId::from_uuid(get(row, 0)?),
        task: TaskName::stored(names.share(get(row, 1)?)),
        queue: QueueName::stored(names.share(get(row, 2)?)),
        group: GroupName::stored(names.share(get(row, 3)?)),
        state: state(row, 4)?,
        attempt: count(row, 5)?,
        node: get::<Option<&str>>(row, 6)?.map(|name| NodeName::stored(names.share(name))),
        submitted_at: now(row, 7)?,
        started_at: moment(row, 8)?,
        finished_at: moment(row, 9)?,
        fingerprint: get(row, 10)?,
    })
}

/// The columns of `in_hands.sql`.
pub(crate) fn in_hands(row: &Row, names: &mut Names) -> Result<HeldJob> {
    let amount = |at| Ok::<_, StoreError>(u64::try_from(get::<Option<i64>>(row, at)?.unwrap_or(0)).unwrap_or(0));
    let progress = match get::<Option<String>>(row, 12)? {
        Some(text) => Some(Progress { done: amount(10)?, total: amount(11)?, text }),
        None => None,
    };
    Ok(HeldJob {
        id: JobId::from_uuid(get(row, 0)?),
        task: TaskName::stored(names.share(get(row, 1)?)),
        queue: QueueName::stored(names.share(get(row, 2)?)),
        group: GroupName::stored(names.share(get(row, 3)?)),
        state: state(row, 4)?,
        attempt: count(row, 5)?,
        node: NodeName::stored(names.share(get(row, 6)?)),
        submitted_at: now(row, 7)?,
        started_at: moment(row, 8)?,
        fence: Fence(get(row, 9)?),
        progress,
    })
}

/// `incarnation, name, host, slots, queue_capacity, queues, tasks, joined_at, lease_until, lost, dispatcher,
/// all_but, batch_size, lease`, from column `at` on; `None` where a left join found no node.
pub(crate) fn node(row: &Row, at: usize, names: &mut Names) -> Result<Option<Node>> {
    let Some(incarnation) = get::<Option<Uuid>>(row, at)? else { return Ok(None) };
    let host =
        serde_json::from_str(get(row, at + 2)?).map_err(|error| StoreError::broken("read a node's host", error))?;
    let queues = get::<Option<Vec<&str>>>(row, at + 5)?;
    let queues = queues.map(|queues| queues.into_iter().map(|name| QueueName::stored(names.share(name))).collect());
    let tasks = get::<Vec<&str>>(row, at + 6)?;
    let number = |at| Ok::<_, StoreError>(u32::try_from(get::<i64>(row, at)?).unwrap_or(0));
    let number_or_none =
        |at| Ok::<_, StoreError>(get::<Option<i64>>(row, at)?.and_then(|number| u32::try_from(number).ok()));
    Ok(Some(Node {
        incarnation: Incarnation(incarnation),
        name: NodeName::stored(names.share(get(row, at + 1)?)),
        host,
        slots: number(at + 3)?,
        queue_capacity: number(at + 4)?,
        batch_size: number_or_none(at + 12)?.and_then(NonZeroU32::new),
        queues: Serves::from_parts(queues, get(row, at + 11)?),
        tasks: tasks.into_iter().map(|name| TaskName::stored(names.share(name))).collect::<BTreeSet<_>>(),
        joined_at: now(row, at + 7)?,
        lease: span(get(row, at + 13)?),
        lease_until: now(row, at + 8)?,
        lost: get(row, at + 9)?,
        dispatcher: get(row, at + 10)?,
    }))
}

/// A span as SQL returns it.
pub(crate) fn span(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// A span as SQL takes it.
pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// A count as the database keeps it.
pub(crate) fn int(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// A policy as statements take it. Most jobs have that of their task, which travels as null; the statements write it out, because a
/// null in a row is the default policy of a job from before tasks had a say.
pub(crate) fn policy_text(policy: &Option<RetryPolicy>) -> Option<String> {
    policy.as_ref().map(ToString::to_string)
}

/// A column that is null for nearly all. Where it is null for all, nothing travels: `unnest` fills up with nulls.
pub(crate) fn sparse<T>(values: impl Iterator<Item = Option<T>>) -> Vec<Option<T>> {
    let mut values: Vec<_> = values.collect();
    if values.iter().all(Option::is_none) {
        values.clear();
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_reads_back_to_the_microsecond() {
        for micros in [0, 1, -1, YEAR_2000, 1_893_456_000_123_457, Timestamp::MAX.micros(), Timestamp::MIN.micros()] {
            let (moment, mut out) = (Timestamp::from_micros(micros), BytesMut::new());
            Moment(moment).to_sql(&Type::TIMESTAMPTZ, &mut out).unwrap();
            assert_eq!(Moment::from_sql(&Type::TIMESTAMPTZ, &out).unwrap().0, moment);
        }
        let infinity = Moment::from_sql(&Type::TIMESTAMPTZ, &i64::MAX.to_be_bytes()).unwrap();
        assert_eq!(infinity.0, Timestamp::MAX);
    }

    #[test]
    fn a_bad_stored_policy_becomes_the_default() {
        let read = |text| Names::default().policy(text);
        assert_eq!(
            [read(Some("exponential:soon,5")), read(None)],
            [Some(RetryPolicy::DEFAULT), Some(RetryPolicy::DEFAULT)]
        );
        assert_eq!([read(Some("none")), read(Some("task"))], [Some(RetryPolicy::None), None]);
    }
}
