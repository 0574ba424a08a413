//! How values lie in columns. Every reader takes its columns in the order in which the `.sql` files name them.

use std::{
    collections::{HashMap, HashSet},
    error::Error,
    num::NonZeroU32,
    sync::Arc,
    time::Duration,
};

use rusqlite::{
    Row,
    types::{Type, ValueRef},
};
use turnwise_core::{
    Failure, Fence, Fingerprint, GroupName, Incarnation, Job, JobHead, JobId, JobState, Json, KeyName, Node, NodeName,
    OnFailure, Priority, QueueName, RetryPolicy, Serves, TaskName, Terms, Timestamp,
    job::{AssignedJob, Counts, long_args},
    lifecycle::Ending,
    story::{Attempt, Finished, Level, Line, LineAt, Progress},
};
use turnwise_store::{BatchId, EndedJob, HeldJob, LostJob};
use uuid::Uuid;

use crate::after;

type Result<T> = rusqlite::Result<T>;

/// The names of one reply, each held once however many rows have it.
#[derive(Debug, Default)]
pub(crate) struct Names {
    all: HashSet<Arc<str>>,
    /// What each column had in the last row: mostly the next one has the same task, and is of the same queue.
    last: [Option<Arc<str>>; NAMES],
    retry: Option<(String, Option<RetryPolicy>)>,
}

/// Names stand in front of all else: so many columns may hold one that is likely to come again.
const NAMES: usize = 6;

impl Names {
    fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(name) = self.all.get(text) {
            return Arc::clone(name);
        }
        let name: Arc<str> = Arc::from(text);
        self.all.insert(Arc::clone(&name));
        name
    }

    fn read(&mut self, row: &Row<'_>, column: usize) -> Result<Arc<str>> {
        let text = row.get_ref(column)?.as_str()?;
        match self.last.get(column) {
            Some(Some(last)) if **last == *text => return Ok(Arc::clone(last)),
            _ => {}
        }
        let name = self.share(text);
        if let Some(last) = self.last.get_mut(column) {
            *last = Some(Arc::clone(&name));
        }
        Ok(name)
    }

    /// Policies are few, and each is read from its text once for all rows that follow one another with it.
    fn retry(&mut self, row: &Row<'_>, column: usize) -> Result<Option<RetryPolicy>> {
        let text = row.get_ref(column)?.as_str()?;
        match &self.retry {
            Some((last, policy)) if last == text => Ok(policy.clone()),
            _ => {
                let policy = RetryPolicy::from_stored(text).map_err(|error| foreign(column, error))?;
                self.retry = Some((text.to_owned(), policy.clone()));
                Ok(policy)
            }
        }
    }
}

/// All but the jobs it waits for, which `after::complete` adds.
pub(crate) fn head(row: &Row<'_>, names: &mut Names) -> Result<JobHead> {
    let (state, fence) = (state(row, 6)?, Fence(row.get(8)?));
    let never_given_away = state == JobState::Waiting && !fence.was_assigned();
    Ok(JobHead {
        id: JobId::from_uuid(uuid(row, 0)?),
        seq: row.get(1)?,
        task: TaskName::stored(names.read(row, 2)?),
        queue: QueueName::stored(names.read(row, 3)?),
        group: GroupName::stored(names.read(row, 4)?),
        priority: priority(row, 5)?,
        state,
        due: moment(row, 7)?,
        fence,
        crashes: row.get(9)?,
        node: node_ref(row, 10)?,
        key: key(row, 11, names)?,
        submitted_at: Timestamp::from_micros(row.get(12)?),
        expires: moment(row, 13)?,
        args_bytes: long_args(row.get::<_, u32>(15)? as usize),
        awaits: on_failure(row, 14)?.filter(|_| never_given_away).map(after::incomplete),
    })
}

pub(crate) fn assigned(row: &Row<'_>, names: &mut Names, limited: bool) -> Result<AssignedJob> {
    Ok(AssignedJob {
        id: JobId::from_uuid(uuid(row, 0)?),
        fence: Fence(row.get(1)?),
        task: TaskName::stored(names.read(row, 2)?),
        args: Json::stored(row.get_ref(3)?.as_str()?),
        queue: QueueName::stored(names.read(row, 4)?),
        group: GroupName::stored(names.read(row, 5)?),
        priority: priority(row, 6)?,
        retry: names.retry(row, 7)?,
        state: state(row, 8)?,
        counts: counts(row, 9)?,
        cancel_requested: row.get(12)?,
        submitted_at: Timestamp::from_micros(row.get(13)?),
        terms: terms(row, 14)?,
        limited,
    })
}

/// The unique key that it holds is in another table.
pub(crate) fn job(row: &Row<'_>, names: &mut Names) -> Result<Job> {
    Ok(Job {
        id: JobId::from_uuid(uuid(row, 0)?),
        task: TaskName::stored(names.read(row, 1)?),
        args: Json::stored(row.get_ref(2)?.as_str()?),
        queue: QueueName::stored(names.read(row, 3)?),
        group: GroupName::stored(names.read(row, 4)?),
        priority: priority(row, 5)?,
        retry: names.retry(row, 6)?,
        state: state(row, 7)?,
        counts: counts(row, 8)?,
        fence: Fence(row.get(11)?),
        cancel_requested: row.get(12)?,
        node: node_name(row, 13, names)?,
        result: row.get_ref(14)?.as_str_or_null()?.map(Json::stored),
        error: row.get(15)?,
        submitted_at: Timestamp::from_micros(row.get(16)?),
        due_at: moment(row, 17)?,
        assigned_at: moment(row, 18)?,
        started_at: moment(row, 19)?,
        finished_at: moment(row, 20)?,
        key: key(row, 21, names)?,
        unique: None,
        terms: terms(row, 22)?,
        fingerprint: row.get(23)?,
        expires_at: moment(row, 24)?,
    })
}

/// A finished job, without what may be long.
pub(crate) fn ended(row: &Row<'_>, names: &mut Names) -> Result<EndedJob> {
    Ok(EndedJob {
        id: JobId::from_uuid(uuid(row, 0)?),
        task: TaskName::stored(names.read(row, 1)?),
        queue: QueueName::stored(names.read(row, 2)?),
        group: GroupName::stored(names.read(row, 3)?),
        state: state(row, 4)?,
        attempt: row.get(5)?,
        node: node_name(row, 6, names)?,
        submitted_at: Timestamp::from_micros(row.get(7)?),
        started_at: moment(row, 8)?,
        finished_at: moment(row, 9)?,
        fingerprint: row.get(10)?,
    })
}

/// A job in the hands of this node.
pub(crate) fn in_hands(row: &Row<'_>, node: &NodeName, names: &mut Names) -> Result<HeldJob> {
    let text: Option<String> = row.get(11)?;
    let progress = match text {
        Some(text) => Some(Progress { done: amount(row, 9)?, total: amount(row, 10)?, text }),
        None => None,
    };
    Ok(HeldJob {
        id: JobId::from_uuid(uuid(row, 0)?),
        task: TaskName::stored(names.read(row, 1)?),
        queue: QueueName::stored(names.read(row, 2)?),
        group: GroupName::stored(names.read(row, 3)?),
        state: state(row, 4)?,
        attempt: row.get(5)?,
        submitted_at: Timestamp::from_micros(row.get(6)?),
        started_at: moment(row, 7)?,
        fence: Fence(row.get(8)?),
        node: node.clone(),
        progress,
    })
}

pub(crate) fn held(row: &Row<'_>, names: &mut Names) -> Result<LostJob> {
    Ok(LostJob {
        id: JobId::from_uuid(uuid(row, 0)?),
        fence: Fence(row.get(1)?),
        state: state(row, 2)?,
        counts: counts(row, 3)?,
        cancel_requested: row.get(6)?,
        retry: names.retry(row, 7)?,
        terms: terms(row, 8)?,
    })
}

pub(crate) fn attempt(row: &Row<'_>, names: &mut Names) -> Result<Attempt> {
    let ending = row.get(3)?;
    Ok(Attempt {
        fence: Fence(row.get(0)?),
        number: row.get(1)?,
        task: TaskName::stored(names.read(row, 2)?),
        ending: Ending::from_code(ending).ok_or_else(|| foreign(3, format!("{ending} is not an ending")))?,
        node: node_name(row, 4, names)?,
        started_at: moment(row, 5)?,
        finished_at: moment(row, 6)?,
        failure: failure(row, 7)?,
    })
}

/// How it failed, if it did: two columns from `first`.
fn failure(row: &Row<'_>, first: usize) -> Result<Option<Failure>> {
    let Some(chain) = row.get_ref(first)?.as_str_or_null()? else { return Ok(None) };
    let chain = serde_json::from_str(chain).map_err(|error| foreign(first, error))?;
    Ok(Some(Failure { chain, place: row.get(first + 1)? }))
}

pub(crate) fn line(row: &Row<'_>) -> Result<Line> {
    let level = row.get(3)?;
    Ok(Line {
        at: LineAt { fence: Fence(row.get(0)?), number: row.get(1)? },
        time: Timestamp::from_micros(row.get(2)?),
        level: Level::from_code(level).ok_or_else(|| foreign(3, format!("{level} is not a level")))?,
        text: row.get(4)?,
    })
}

pub(crate) fn finished(row: &Row<'_>) -> Result<Finished> {
    Ok(Finished { name: row.get(0)?, result: Json::stored(row.get_ref(1)?.as_str()?) })
}

/// The progress, if any was noted, and the number of lines that were dropped.
pub(crate) fn progress(row: &Row<'_>) -> Result<(Option<Progress>, u64)> {
    let text: Option<String> = row.get(2)?;
    let said = match text {
        Some(text) => Some(Progress { done: amount(row, 0)?, total: amount(row, 1)?, text }),
        None => None,
    };
    Ok((said, amount(row, 3)?))
}

/// SQLite's numbers have a sign: what is beyond the largest of them wraps, and comes back as it went in.
fn amount(row: &Row<'_>, column: usize) -> Result<u64> {
    row.get(column).map(i64::cast_unsigned)
}

pub(crate) fn node(row: &Row<'_>) -> Result<Node> {
    let names = |column| -> Result<Option<Vec<Arc<str>>>> {
        let list = row.get_ref(column)?.as_str_or_null()?;
        let list: Option<Vec<String>> =
            list.map(serde_json::from_str).transpose().map_err(|error| foreign(column, error))?;
        Ok(list.map(|names| names.into_iter().map(Arc::from).collect()))
    };
    Ok(Node {
        incarnation: Incarnation(uuid(row, 0)?),
        name: NodeName::stored(Arc::from(row.get_ref(1)?.as_str()?)),
        host: serde_json::from_str(row.get_ref(2)?.as_str()?).map_err(|error| foreign(2, error))?,
        slots: row.get(3)?,
        queue_capacity: row.get(4)?,
        batch_size: row.get::<_, Option<u32>>(12)?.and_then(NonZeroU32::new),
        queues: Serves::from_parts(
            names(5)?.map(|names| names.into_iter().map(QueueName::stored).collect()),
            row.get(11)?,
        ),
        tasks: names(6)?.unwrap_or_default().into_iter().map(TaskName::stored).collect(),
        joined_at: Timestamp::from_micros(row.get(7)?),
        lease: Duration::from_micros(u64::try_from(row.get::<_, i64>(13)?).unwrap_or(0)),
        lease_until: Timestamp::from_micros(row.get(8)?),
        lost: row.get(9)?,
        dispatcher: row.get(10)?,
    })
}

pub(crate) fn uuid(row: &Row<'_>, column: usize) -> Result<Uuid> {
    row.get(column).map(Uuid::from_bytes)
}

pub(crate) fn maybe_uuid(row: &Row<'_>, column: usize) -> Result<Option<Uuid>> {
    let bytes: Option<[u8; 16]> = row.get(column)?;
    Ok(bytes.map(Uuid::from_bytes))
}

pub(crate) fn batch(row: &Row<'_>, column: usize) -> Result<BatchId> {
    uuid(row, column).map(BatchId)
}

pub(crate) fn node_ref(row: &Row<'_>, column: usize) -> Result<Option<Incarnation>> {
    Ok(maybe_uuid(row, column)?.map(Incarnation))
}

pub(crate) fn state(row: &Row<'_>, column: usize) -> Result<JobState> {
    let code = row.get(column)?;
    JobState::from_code(code).ok_or_else(|| foreign(column, format!("{code} is not a state")))
}

pub(crate) fn moment(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>> {
    let micros: Option<i64> = row.get(column)?;
    Ok(micros.map(Timestamp::from_micros))
}

fn key(row: &Row<'_>, column: usize, names: &mut Names) -> Result<Option<KeyName>> {
    Ok(row.get_ref(column)?.as_str_or_null()?.map(|name| KeyName::stored(names.share(name))))
}

fn node_name(row: &Row<'_>, column: usize, names: &mut Names) -> Result<Option<NodeName>> {
    Ok(row.get_ref(column)?.as_str_or_null()?.map(|name| NodeName::stored(names.share(name))))
}

/// Three columns from `first`.
fn counts(row: &Row<'_>, first: usize) -> Result<Counts> {
    Ok(Counts { attempt: row.get(first)?, retry: row.get(first + 1)?, crashes: row.get(first + 2)? })
}

fn priority(row: &Row<'_>, column: usize) -> Result<Priority> {
    Priority::new(row.get(column)?).map_err(|error| foreign(column, error))
}

/// Terms that a newer version wrote, or a person by hand, must not hold up all other jobs.
fn terms(row: &Row<'_>, column: usize) -> Result<Terms> {
    let Some(text) = row.get_ref(column)?.as_str_or_null()? else { return Ok(Terms::default()) };
    Ok(Terms::from_text(text).unwrap_or_else(|error| {
        tracing::warn!(%error, "stored terms of a job cannot be read; it goes without");
        Terms::default()
    }))
}

pub(crate) fn maybe_state(row: &Row<'_>, column: usize) -> Result<Option<JobState>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => state(row, column).map(Some),
    }
}

pub(crate) fn on_failure(row: &Row<'_>, column: usize) -> Result<Option<OnFailure>> {
    let Some(text) = row.get_ref(column)?.as_str_or_null()? else { return Ok(None) };
    text.parse().map(Some).map_err(|error| foreign(column, error))
}

/// A value no version of this store has written.
fn foreign(column: usize, error: impl Into<Box<dyn Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
}

/// Ids one after the other.
pub(crate) fn pack_ids(ids: &[JobId]) -> Vec<u8> {
    ids.iter().map(|id| id.uuid().into_bytes()).collect::<Vec<_>>().into_flattened()
}

pub(crate) fn unpack_ids(packed: &[u8]) -> impl Iterator<Item = JobId> {
    let (ids, _) = packed.as_chunks::<16>();
    ids.iter().map(|id| JobId::from_uuid(Uuid::from_bytes(*id)))
}

/// A job that changed, as it is recorded for the dispatcher: its head is looked up when the change is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChangedJob {
    pub(crate) id: JobId,
    pub(crate) ran: Option<Duration>,
    pub(crate) failed: bool,
    /// It did not fail and did not end with success either: it goes on, or was cancelled or given up.
    pub(crate) otherwise: bool,
    pub(crate) error: Option<Fingerprint>,
}

/// Ids and how long each ran, one after the other.
pub(crate) fn pack_changes(changes: &[ChangedJob]) -> Vec<u8> {
    let micros = |ran: Option<Duration>| ran.map_or(-1, |ran| i64::try_from(ran.as_micros()).unwrap_or(i64::MAX));
    let mut packed = Vec::with_capacity(changes.len() * 24);
    for change in changes {
        packed.extend_from_slice(change.id.as_bytes());
        packed.extend_from_slice(&micros(change.ran).to_be_bytes());
    }
    packed
}

/// The ids of those that failed: mostly none.
pub(crate) fn pack_failed(changes: &[ChangedJob]) -> Vec<u8> {
    changes.iter().filter(|change| change.failed).flat_map(|change| change.id.uuid().into_bytes()).collect()
}

/// The ids of those that neither failed nor ended with success: mostly none.
pub(crate) fn pack_otherwise(changes: &[ChangedJob]) -> Vec<u8> {
    changes.iter().filter(|change| change.otherwise).flat_map(|change| change.id.uuid().into_bytes()).collect()
}

/// The ids of those with an error, each with its fingerprint: mostly none.
pub(crate) fn pack_errors(changes: &[ChangedJob]) -> Vec<u8> {
    let mut packed = Vec::new();
    for (change, error) in changes.iter().filter_map(|change| Some((change, change.error?))) {
        packed.extend_from_slice(change.id.as_bytes());
        packed.extend_from_slice(&error.number().to_be_bytes());
    }
    packed
}

fn unpack_errors(packed: &[u8]) -> HashMap<JobId, Fingerprint> {
    let (errors, _) = packed.as_chunks::<24>();
    let error = |error: &[u8; 24]| {
        let (id, number) = error.split_first_chunk::<16>()?;
        let number = u64::from_be_bytes(number.try_into().ok()?);
        Some((JobId::from_uuid(Uuid::from_bytes(*id)), Fingerprint::from_number(number)))
    };
    errors.iter().filter_map(error).collect()
}

pub(crate) fn unpack_changes(
    packed: &[u8],
    failed: &[u8],
    otherwise: &[u8],
    errors: &[u8],
) -> impl Iterator<Item = ChangedJob> {
    let (changes, _) = packed.as_chunks::<24>();
    let errors = unpack_errors(errors);
    let [failed, otherwise] = [failed, otherwise].map(|ids| unpack_ids(ids).collect::<HashSet<JobId>>());
    changes.iter().map(move |change| {
        let (id, ran) = change.split_at(16);
        let id: [u8; 16] = id.try_into().expect("24 bytes are 16 and 8");
        let ran: [u8; 8] = ran.try_into().expect("24 bytes are 16 and 8");
        let ran = u64::try_from(i64::from_be_bytes(ran)).ok().map(Duration::from_micros);
        let id = JobId::from_uuid(Uuid::from_bytes(id));
        let (failed, otherwise) = (failed.contains(&id), otherwise.contains(&id));
        ChangedJob { id, ran, failed, otherwise, error: errors.get(&id).copied() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_changes_read_back() {
        let id = |n| JobId::from_uuid(Uuid::from_u128(n));
        let runs = [(1, None, true), (u128::MAX, Some(Duration::ZERO), false), (7, Some(Duration::from_secs(3)), true)];
        let changes = runs.map(|(n, ran, failed)| {
            let error = failed.then(|| Fingerprint::from_number(u64::try_from(n).unwrap_or(5)));
            ChangedJob { id: id(n), ran, failed, otherwise: !failed && ran.is_some(), error }
        });
        let packed = (pack_changes(&changes), pack_failed(&changes), pack_otherwise(&changes), pack_errors(&changes));
        let unpacked = unpack_changes(&packed.0, &packed.1, &packed.2, &packed.3).collect::<Vec<_>>();
        assert_eq!(unpacked, changes);
        let ids = [id(3), id(1)];
        assert_eq!(unpack_ids(&pack_ids(&ids)).collect::<Vec<_>>(), ids);
    }

    #[test]
    fn a_name_is_held_once_per_reply() {
        let mut names = Names::default();
        assert!(Arc::ptr_eq(&names.share("mail"), &names.share("mail")));
    }
}
