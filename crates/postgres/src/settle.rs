//! Writing what core decided about assigned jobs.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio_postgres::types::ToSql;
use turnwise_core::{
    Failure, Fence, Incarnation, JobId, JobState, Retention, Step,
    lifecycle::{Ending, Target},
    story::MAX_ATTEMPTS,
};
use turnwise_store::{
    Author, Epoch, Result, Settle, Settled, Settlement, StoreError,
    verdict::{self, SettleFacts},
};
use uuid::Uuid;

use crate::{
    connect::connection,
    errors::{causes, failed, is_about_a_value, is_locked},
    rows::{self, Moment, get, int, micros, policy_text, sparse},
    session::{Begin, Binds, Part, Session},
    store::Inner,
};

const ATTEMPTS: &str = include_str!("../sql/settle_attempts.sql");
const TRIM: &str = include_str!("../sql/trim_attempts.sql");
const STAY: &str = include_str!("../sql/settle_stay.sql");
const NEXT: &str = include_str!("../sql/settle_next.sql");
const FINISH: &str = include_str!("../sql/settle_finish.sql");
const DISCARD: &str = include_str!("../sql/settle_discard.sql");
const STOPPED: &str = include_str!("../sql/settle_stopped.sql");
pub(crate) const FORGET: &str = include_str!("../sql/forget.sql");

/// How often a write around rows that other transactions hold is tried, before the caller gets a transient error.
const TRIES: u32 = 3;

pub(crate) async fn settle(store: &Inner, settle: &Settle) -> Result<Vec<Settled>> {
    let ids = || settle.settlements.iter().map(|settlement| settlement.job);
    // A job that was found locked before is not waited for again.
    let mut last_error = StoreError::transient("settle", "a row is locked");
    if !store.locked.any(ids()) {
        match write(store, settle, &HashSet::new(), Patience::Short).await {
            Err(Unwritten::Locked(error)) => last_error = error,
            told => return told.map_err(Unwritten::into),
        }
    }
    for _ in 0..TRIES {
        let held = held_by_others(store, settle).await?;
        store.locked.see(ids(), &held);
        // If none of the jobs is locked, another row of ours is, and that is soon free.
        let patience = if held.is_empty() { Patience::Long } else { Patience::Short };
        match write(store, settle, &held, patience).await {
            Err(Unwritten::Locked(error)) => last_error = error,
            told => return told.map_err(Unwritten::into),
        }
    }
    Err(last_error)
}

/// Jobs that were found locked by another transaction when they were to be settled, and have not been found free since.
#[derive(Debug, Default)]
pub(crate) struct Locked(Mutex<HashSet<JobId>>);

impl Locked {
    fn jobs(&self) -> MutexGuard<'_, HashSet<JobId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn any(&self, mut ids: impl Iterator<Item = JobId>) -> bool {
        let jobs = self.jobs();
        !jobs.is_empty() && ids.any(|id| jobs.contains(&id))
    }

    fn see(&self, ids: impl Iterator<Item = JobId>, held: &HashSet<JobId>) {
        let mut jobs = self.jobs();
        ids.for_each(|id| {
            jobs.remove(&id);
        });
        jobs.extend(held);
    }
}

/// Jobs that another transaction has locked now.
async fn held_by_others(store: &Inner, settle: &Settle) -> Result<HashSet<JobId>> {
    let fail = failed("look for locked jobs");
    let mut ids: Vec<Uuid> = settle.settlements.iter().map(|settlement| settlement.job.uuid()).collect();
    ids.sort_unstable();
    let client = connection(&store.pools.settle).await?;
    let rows = client.query(include_str!("../sql/settle_held.sql"), &[&ids]).await.map_err(fail)?;
    rows.iter().map(|row| Ok(JobId::from_uuid(get(row, 0)?))).collect()
}

/// How long a write waits for a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// As the connection has it.
    Short,
    Long,
}

impl Patience {
    fn set(self) -> &'static str {
        match self {
            Self::Short => "",
            Self::Long => "set local lock_timeout = '10s'",
        }
    }
}

enum Unwritten {
    /// Another transaction holds a row, and nothing was written.
    Locked(StoreError),
    Other(StoreError),
}

impl From<StoreError> for Unwritten {
    fn from(error: StoreError) -> Self {
        Self::Other(error)
    }
}

impl From<Unwritten> for StoreError {
    fn from((Unwritten::Locked(error) | Unwritten::Other(error)): Unwritten) -> Self {
        error
    }
}

/// What the node should do about `error`.
fn unwritten(error: tokio_postgres::Error) -> Unwritten {
    if is_locked(&error) {
        Unwritten::Locked(failed("settle")(error))
    } else if is_about_a_value(&error) {
        Unwritten::Other(StoreError::broken("settle", causes(&error)))
    } else {
        Unwritten::Other(failed("settle")(error))
    }
}

/// Writes all but those that are `held`.
async fn write(
    store: &Inner,
    settle: &Settle,
    held: &HashSet<JobId>,
    patience: Patience,
) -> std::result::Result<Vec<Settled>, Unwritten> {
    let (node, told, lost) = match settle.author {
        Author::Node { node, told } => (node, told, false),
        Author::Dispatcher { epoch, lost, .. } => (lost, Some(epoch), true),
    };
    // Sorted by id, so that two batches never lock in opposite orders. Of several decisions about one job the last one
    // stands: it was made knowing the others.
    let free = settle.settlements.iter().rev().filter(|settlement| !held.contains(&settlement.job));
    let mut last: Vec<&Settlement> = free.collect();
    last.sort_by_key(|settlement| settlement.job);
    last.dedup_by_key(|settlement| settlement.job);
    let common = Common { node: node.0, told: told.map(|epoch| epoch.0), raise: i64::from(lost) };
    let done: Vec<Uuid> = settle.done.iter().map(|batch| batch.0).collect();
    let work = Work::of(&last, store.kept.now().retention)?;

    let mut client = connection(&store.pools.settle).await?;
    let parts = work.parts(&common, &done);
    let replies = match settle.author {
        Author::Node { .. } if patience == Patience::Short => {
            client.in_one_write("begin", &parts).await.map_err(unwritten)?
        }
        Author::Node { .. } => client.in_a_transaction("begin", patience.set(), &parts).await.map_err(unwritten)?,
        Author::Dispatcher { holder, epoch, lost, bury } => {
            let transaction = client.begin().await.map_err(unwritten)?;
            if patience == Patience::Long {
                transaction.batch_execute(patience.set()).await.map_err(unwritten)?;
            }
            check_leading(&transaction, LEADING, holder, epoch).await?;
            let replies = transaction.pipeline(&parts).await.map_err(unwritten)?;
            if bury {
                transaction.execute(include_str!("../sql/node_lock.sql"), &[&lost.0]).await.map_err(unwritten)?;
                transaction.execute(include_str!("../sql/bury.sql"), &[&lost.0]).await.map_err(unwritten)?;
            }
            transaction.commit().await.map_err(unwritten)?;
            replies
        }
    };
    // Only the statements that settle answer, each with one list: a row for each job would cost more than its id.
    let mut applied: Vec<Uuid> = Vec::with_capacity(last.len());
    for row in replies.iter().flatten() {
        applied.extend(get::<Option<Vec<Uuid>>>(row, 0)?.into_iter().flatten());
    }
    if !applied.is_empty() {
        store.bell.ring_news();
    }
    if held.is_empty() && applied.len() == last.len() {
        return Ok(vec![Settled::Applied; settle.settlements.len()]);
    }
    let applied: HashSet<Uuid> = applied.into_iter().collect();
    let missing: Vec<Uuid> =
        last.iter().map(|settlement| settlement.job.uuid()).filter(|id| !applied.contains(id)).collect();
    let facts = read_facts(&client, &missing).await?;
    let reply = |settlement: &Settlement| {
        if applied.contains(&settlement.job.uuid()) {
            Ok(Settled::Applied)
        } else if held.contains(&settlement.job) {
            Ok(Settled::Locked)
        } else {
            Ok(why_not(settlement, node, lost, facts.get(&settlement.job))?)
        }
    };
    settle.settlements.iter().map(reply).collect()
}

/// Where jobs are now.
pub(crate) async fn read_facts(client: &impl Session, ids: &[Uuid]) -> Result<HashMap<JobId, SettleFacts>> {
    let fail = failed("read jobs again");
    let rows = client.query(include_str!("../sql/settle_read.sql"), &[&ids]).await.map_err(fail)?;
    rows.iter()
        .map(|row| {
            let found = SettleFacts {
                state: rows::state(row, 1)?,
                fence: Fence(get(row, 2)?),
                node: get::<Option<Uuid>>(row, 3)?.map(Incarnation),
                cancel_requested: get(row, 4)?,
                started_at: rows::moment(row, 5)?,
            };
            Ok((JobId::from_uuid(get(row, 0)?), found))
        })
        .collect()
}

/// Why a settlement was not written.
pub(crate) fn why_not(
    settlement: &Settlement,
    node: Incarnation,
    lost: bool,
    found: Option<&SettleFacts>,
) -> Result<Settled> {
    // It could be written now, but could not a moment ago: the job changed in between.
    let changed = || StoreError::transient("settle", "a job changed while it was being settled");
    verdict::answer(settlement, node, lost, found.copied()).ok_or_else(changed)
}

pub(crate) const LEADING: &str = include_str!("../sql/leading.sql");
pub(crate) const LEADING_ALONE: &str = include_str!("../sql/leading_alone.sql");

/// `sql` is one of these two statements.
pub(crate) async fn check_leading(client: &impl Session, sql: &str, holder: Incarnation, epoch: Epoch) -> Result<()> {
    let leading = client.query(sql, &[&holder.0, &epoch.0]).await;
    leading.map_err(failed("check who dispatches"))?.first().map(drop).ok_or(StoreError::NotLeading)
}

/// What all settlements of a call share.
pub(crate) struct Common {
    pub(crate) node: Uuid,
    pub(crate) told: Option<i64>,
    /// Added to the fence: a lost node's own late settle must be refused.
    pub(crate) raise: i64,
}

/// A batch, by statement. Most have jobs that end, and some that stay; all the rest is rare, and costs nothing where it
/// is not there.
pub(crate) struct Work<'a> {
    attempts: Option<Attempts>,
    staying: Option<Staying>,
    going_on: Option<GoingOn<'a>>,
    finishing: Finishing<'a>,
    /// Those that end in a state of which nothing is kept.
    vanishing: Option<Finishing<'a>>,
    /// Jobs whose story is deleted with them.
    forgotten: Vec<Uuid>,
    /// Jobs that their node was asked to stop, and at which fence.
    stopped: (Vec<Uuid>, Vec<i64>),
}

impl<'a> Work<'a> {
    pub(crate) fn of(settlements: &[&'a Settlement], retention: Retention) -> Result<Self> {
        let (mut finishing, mut vanishing) = (Vec::new(), Vec::new());
        let (mut staying, mut going_on) = (Vec::new(), Vec::new());
        for settlement in settlements {
            match &settlement.to.to {
                Target::Finish { end, .. } if retention.keeps(*end) => finishing.push(*settlement),
                Target::Finish { .. } => vanishing.push(*settlement),
                Target::Running | Target::Stuck { .. } | Target::Waiting { .. } => staying.push(*settlement),
                Target::Next { step, .. } => going_on.push((*settlement, &**step)),
                Target::Scheduled | Target::CancelRequested | Target::Edited(_) => {
                    let problem = "assigning, asking for a cancel and editing are not settlements";
                    return Err(StoreError::broken("settle", problem));
                }
            }
        }
        let stopped = settlements.iter().filter(|settlement| settlement.ends_stop());
        let noted = vanishing.iter().filter(|settlement| settlement.noted);
        let forgotten = noted.map(|settlement| settlement.job.uuid()).collect();
        Ok(Self {
            attempts: Attempts::of(settlements, retention),
            staying: (!staying.is_empty()).then(|| Staying::of(&staying)),
            going_on: (!going_on.is_empty()).then(|| GoingOn::of(&going_on)),
            finishing: Finishing::of(&finishing, true),
            vanishing: (!vanishing.is_empty()).then(|| Finishing::of(&vanishing, false)),
            forgotten,
            stopped: stopped.map(|settlement| (settlement.job.uuid(), settlement.fence.0)).unzip(),
        })
    }

    /// The statements, in their order. `done` goes with the last of the three statements of which every batch has one.
    pub(crate) fn parts<'b>(&'b self, common: &'b Common, done: &'b Vec<Uuid>) -> Vec<Part<'b>> {
        let mut parts = Vec::with_capacity(2);
        if let Some(attempts) = &self.attempts {
            parts.push(Part::of(ATTEMPTS, attempts.binds(common)));
            if !attempts.many.is_empty() {
                parts.push(Part::of(TRIM, vec![&attempts.many, &KEPT_ATTEMPTS]));
            }
        }
        let ends = !self.finishing.columns.ids.is_empty();
        if let Some(staying) = &self.staying {
            let done = if ends || self.vanishing.is_some() { &NOTHING } else { done };
            parts.push(Part::of(STAY, staying.binds(common, done)));
        }
        if let Some(going_on) = &self.going_on {
            parts.push(Part::of(NEXT, going_on.binds(common)));
        }
        if ends || (self.staying.is_none() && self.vanishing.is_none()) {
            let done = if self.vanishing.is_some() { &NOTHING } else { done };
            parts.push(Part::of(FINISH, self.finishing.binds(common, done)));
        }
        if let Some(vanishing) = &self.vanishing {
            parts.push(Part::of(DISCARD, vanishing.binds(common, done)));
        }
        if !self.forgotten.is_empty() {
            parts.push(Part::of(FORGET, vec![&self.forgotten]));
        }
        let (ids, fences) = &self.stopped;
        if !ids.is_empty() {
            parts.push(Part::of(STOPPED, vec![&common.node, ids, fences]));
        }
        parts
    }
}

static NOTHING: Vec<Uuid> = Vec::new();
const KEPT_ATTEMPTS: i64 = MAX_ATTEMPTS as i64;

/// Runs that are kept in the record of their jobs.
struct Attempts {
    ids: Vec<Uuid>,
    fences: Vec<i64>,
    saw_cancel: Vec<bool>,
    endings: Vec<Option<i16>>,
    began: Vec<Option<Moment>>,
    ended: Vec<Option<Moment>>,
    chains: Vec<Option<String>>,
    places: Vec<Option<String>>,
    /// Jobs that may have more attempts than are kept. Each has a fence of its own, so a low fence means that there are
    /// few, and hardly a job is ever looked at.
    many: Vec<Uuid>,
}

impl Attempts {
    fn of(settlements: &[&Settlement], retention: Retention) -> Option<Self> {
        let wanted = |settlement: &&Settlement| match &settlement.to.to {
            Target::Next { .. } => true,
            // It would be deleted with the job at once.
            Target::Finish { end, .. } if !retention.keeps(*end) => false,
            _ => settlement.to.ending.is_some(),
        };
        let wanted: Vec<&Settlement> = settlements.iter().copied().filter(wanted).collect();
        let each = || wanted.iter();
        let failure = |settlement: &&Settlement| settlement.to.error.clone().filter(|_| settlement.to.ending.is_some());
        (!wanted.is_empty()).then(|| Self {
            ids: each().map(|s| s.job.uuid()).collect(),
            fences: each().map(|s| s.fence.0).collect(),
            saw_cancel: each().map(|s| s.saw_cancel).collect(),
            endings: each().map(|s| s.to.ending.map(Ending::code)).collect(),
            began: each().map(|s| s.started_at.map(Moment)).collect(),
            ended: each().map(|s| s.finished_at.map(Moment)).collect(),
            chains: each().map(|s| failure(s).map(|failure| chain_text(&failure))).collect(),
            places: each().map(|s| failure(s).and_then(|failure| failure.place)).collect(),
            many: each().filter(|s| s.fence.0 > KEPT_ATTEMPTS).map(|s| s.job.uuid()).collect(),
        })
    }

    fn binds<'b>(&'b self, common: &'b Common) -> Binds<'b> {
        vec![
            &common.node,
            &self.ids,
            &self.fences,
            &self.saw_cancel,
            &self.endings,
            &self.began,
            &self.ended,
            &self.chains,
            &self.places,
        ]
    }
}

fn chain_text(failure: &Failure) -> String {
    serde_json::to_string(&failure.chain).expect("texts are JSON")
}

/// Settlements as columns, in the order of the binds.
struct Columns {
    ids: Vec<Uuid>,
    fences: Vec<i64>,
    saw_cancel: Vec<bool>,
    states: Vec<i16>,
    attempts: Vec<i32>,
    retries: Vec<i32>,
    crashes: Vec<i32>,
    errors: Vec<Option<String>>,
    fingerprints: Vec<Option<String>>,
    began: Vec<Option<Moment>>,
    ended: Vec<Option<Moment>>,
    ran: Vec<Option<i64>>,
    clears_expiry: Vec<bool>,
    clears_cancel: Vec<bool>,
}

impl Columns {
    fn of(settlements: &[&Settlement]) -> Self {
        let each = || settlements.iter();
        Self {
            ids: each().map(|s| s.job.uuid()).collect(),
            fences: each().map(|s| s.fence.0).collect(),
            saw_cancel: each().map(|s| s.saw_cancel).collect(),
            states: each().map(|s| s.to.state(JobState::Running).code()).collect(),
            attempts: each().map(|s| int(s.to.counts.attempt)).collect(),
            retries: each().map(|s| int(s.to.counts.retry)).collect(),
            crashes: each().map(|s| int(s.to.counts.crashes)).collect(),
            errors: sparse(each().map(|s| s.to.error.as_ref().map(Failure::text))),
            fingerprints: sparse(each().map(|s| s.to.error.as_ref().map(Failure::fingerprint))),
            began: each().map(|s| s.started_at.map(Moment)).collect(),
            ended: each().map(|s| s.finished_at.map(Moment)).collect(),
            ran: each().map(|s| s.ran().map(micros)).collect(),
            clears_expiry: each().map(|s| s.to.clears.expiry).collect(),
            clears_cancel: each().map(|s| s.to.clears.cancel).collect(),
        }
    }
}

struct Finishing<'a> {
    columns: Columns,
    results: Vec<Option<&'a str>>,
    noted: Vec<bool>,
    /// Whether they enter history.
    keep: bool,
}

impl<'a> Finishing<'a> {
    fn of(settlements: &[&'a Settlement], keep: bool) -> Self {
        let result = |settlement: &&'a Settlement| match &settlement.to.to {
            Target::Finish { result, .. } => result.as_ref().map(|result| result.as_str()),
            _ => None,
        };
        Self {
            columns: Columns::of(settlements),
            results: settlements.iter().map(result).collect(),
            noted: settlements.iter().map(|settlement| settlement.noted || settlement.to.ending.is_some()).collect(),
            keep,
        }
    }

    fn binds<'b>(&'b self, common: &'b Common, done: &'b Vec<Uuid>) -> Binds<'b> {
        let c = &self.columns;
        let guards: [&(dyn ToSql + Sync); 6] = [&common.node, &common.told, done, &c.ids, &c.fences, &c.saw_cancel];
        let rest: &[&(dyn ToSql + Sync)] = if self.keep {
            &[
                &c.states,
                &c.attempts,
                &c.retries,
                &c.crashes,
                &c.errors,
                &self.results,
                &c.began,
                &c.ended,
                &c.ran,
                &common.raise,
                &c.fingerprints,
                &self.noted,
                &c.clears_expiry,
            ]
        } else {
            &[&c.ran, &c.states, &c.fingerprints]
        };
        [&guards, rest].concat()
    }
}

struct Staying {
    columns: Columns,
    dues: Vec<Option<Moment>>,
}

impl Staying {
    fn of(settlements: &[&Settlement]) -> Self {
        let due = |settlement: &&Settlement| match settlement.to.to {
            Target::Stuck { due } => due.map(Moment),
            Target::Waiting { due } => Some(Moment(due)),
            _ => None,
        };
        Self { columns: Columns::of(settlements), dues: settlements.iter().map(due).collect() }
    }

    fn binds<'b>(&'b self, common: &'b Common, done: &'b Vec<Uuid>) -> Binds<'b> {
        let c = &self.columns;
        vec![
            &common.node,
            &common.told,
            done,
            &c.ids,
            &c.fences,
            &c.saw_cancel,
            &c.states,
            &c.attempts,
            &c.retries,
            &c.crashes,
            &c.errors,
            &self.dues,
            &c.began,
            &c.ended,
            &c.ran,
            &common.raise,
            &c.fingerprints,
            &c.clears_expiry,
            &c.clears_cancel,
        ]
    }
}

/// Jobs that wait to go on with another step.
struct GoingOn<'a> {
    columns: Columns,
    dues: Vec<Option<Moment>>,
    tasks: Vec<&'a str>,
    args: Vec<&'a str>,
    policies: Vec<Option<String>>,
    terms: Vec<Option<String>>,
}

impl<'a> GoingOn<'a> {
    fn of(steps: &[(&'a Settlement, &'a Step)]) -> Self {
        let settlements: Vec<&Settlement> = steps.iter().map(|(settlement, _)| *settlement).collect();
        let due = |(settlement, _): &(&Settlement, &Step)| match settlement.to.to {
            Target::Next { due, .. } => Some(Moment(due)),
            _ => None,
        };
        Self {
            columns: Columns::of(&settlements),
            dues: steps.iter().map(due).collect(),
            tasks: steps.iter().map(|(_, step)| step.task.as_str()).collect(),
            args: steps.iter().map(|(_, step)| step.args.as_str()).collect(),
            policies: steps.iter().map(|(_, step)| policy_text(&step.retry)).collect(),
            terms: steps.iter().map(|(_, step)| step.terms.to_text()).collect(),
        }
    }

    fn binds<'b>(&'b self, common: &'b Common) -> Binds<'b> {
        let c = &self.columns;
        vec![
            &common.node,
            &common.raise,
            &common.told,
            &c.ids,
            &c.fences,
            &c.saw_cancel,
            &c.attempts,
            &c.retries,
            &c.crashes,
            &c.errors,
            &c.fingerprints,
            &self.dues,
            &c.began,
            &c.ended,
            &c.ran,
            &self.tasks,
            &self.args,
            &self.policies,
            &self.terms,
            &c.clears_expiry,
            &c.clears_cancel,
        ]
    }
}
