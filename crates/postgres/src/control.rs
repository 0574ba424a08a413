//! Writing what a person decided.

use std::collections::HashSet;

use tokio_postgres::types::ToSql;
use turnwise_core::{
    Failure, JobState,
    lifecycle::{Edit, End, Target},
};
use turnwise_store::{Intervention, Result, Settled, StoreError, verdict::SettleFacts};
use uuid::Uuid;

use crate::{
    audit,
    connect::{Lent, connection},
    errors::{failed, is_locked},
    rows::{Moment, get, int, sparse},
    session::{Begin, Session},
    settle::{FORGET, read_facts},
    store::Inner,
};

pub(crate) async fn control(store: &Inner, interventions: &[Intervention]) -> Result<Vec<Settled>> {
    // Sorted by id, so that two batches never lock in opposite orders. Of several decisions about one job the first
    // stands: the others were made for a state it no longer has.
    let mut first: Vec<&Intervention> = interventions.iter().collect();
    first.sort_by_key(|intervention| intervention.job);
    first.dedup_by_key(|intervention| intervention.job);
    let mut client = connection(&store.pools.people).await?;
    let mut held = HashSet::new();
    let mut applied = match write(store, &mut client, &first).await? {
        Some(applied) => applied,
        None => {
            let free = free_rows(&client, &first).await?;
            let (some, others): (Vec<_>, Vec<_>) = first.into_iter().partition(|i| free.contains(&i.job.uuid()));
            held.extend(others.iter().map(|i| i.job.uuid()));
            let busy = || StoreError::transient("control", "an open transaction holds the job");
            write(store, &mut client, &some).await?.ok_or_else(busy)?
        }
    };
    store.bell.ring_news();
    store.bell.ring_mail();

    let missing: Vec<Uuid> = interventions.iter().map(|i| i.job.uuid()).filter(|id| !applied.contains(id)).collect();
    let facts = if missing.is_empty() { Default::default() } else { read_facts(&client, &missing).await? };
    let reply = |intervention: &Intervention| match facts.get(&intervention.job) {
        // Taken once: the second decision about a job finds another state.
        _ if applied.remove(&intervention.job.uuid()) => Settled::Applied,
        Some(_) if held.contains(&intervention.job.uuid()) => Settled::Locked,
        Some(found) if held_by_key(intervention, found) => Settled::KeyHeld,
        Some(_) => Settled::Superseded,
        None if missing.contains(&intervention.job.uuid()) => Settled::Gone,
        None => Settled::Superseded,
    };
    Ok(interventions.iter().map(reply).collect())
}

/// In one transaction; returns the jobs that still were as the decision saw them. `None`: another open transaction has locked a
/// row, and nothing is written. The dispatcher ends jobs this way: it must not wait for one locked job.
async fn write(store: &Inner, client: &mut Lent, interventions: &[&Intervention]) -> Result<Option<HashSet<Uuid>>> {
    let fail = failed("control");
    let mut by_kind: [Vec<&Intervention>; 5] = Default::default();
    for &intervention in interventions {
        by_kind[Statement::of(intervention)? as usize].push(intervention);
    }
    let retention = store.kept.now().retention;
    let kept = End::ALL.into_iter().filter(|end| retention.keeps(*end)).map(|end| end.state().code());
    let kept: Vec<i16> = kept.collect();
    let transaction = client.begin().await.map_err(fail)?;
    transaction.batch_execute(QUICK_LOCKS).await.map_err(fail)?;
    let mut applied: HashSet<Uuid> = HashSet::new();
    for (kind, some) in Statement::ALL.into_iter().zip(&by_kind).filter(|(_, some)| !some.is_empty()) {
        let columns = Columns::of(some);
        let rows = match transaction.query(kind.sql(), &columns.binds(kind, &kept)).await {
            Err(error) if is_locked(&error) => return Ok(None),
            rows => rows.map_err(fail)?,
        };
        for row in &rows {
            applied.insert(get(row, 0)?);
        }
        let gone = |end: &End| matches!(kind, Statement::Finish) && !retention.keeps(*end);
        if End::ALL.iter().any(gone) {
            // A job that is in history keeps its story.
            transaction.execute(FORGET, &[&columns.ids]).await.map_err(fail)?;
            // Not for jobs that another process has ended meanwhile, perhaps in another state.
            let ends = columns.ids.iter().copied().zip(columns.states.iter().copied());
            let (ids, states): (Vec<Uuid>, Vec<i16>) = ends.filter(|(id, _)| applied.contains(id)).unzip();
            transaction.execute(include_str!("../sql/remember_ends.sql"), &[&ids, &states]).await.map_err(fail)?;
        }
    }
    let written = interventions.iter().filter(|i| applied.contains(&i.job.uuid()));
    let lines: Vec<_> = written.filter_map(|i| i.line.as_deref()).collect();
    audit::write(&transaction, &lines).await.map_err(fail)?;
    transaction.commit().await.map_err(fail)?;
    Ok(Some(applied))
}

/// The jobs whose row no open transaction has locked now.
async fn free_rows(client: &impl Session, interventions: &[&Intervention]) -> Result<HashSet<Uuid>> {
    let ids: Vec<Uuid> = interventions.iter().map(|i| i.job.uuid()).collect();
    let rows = client.query(include_str!("../sql/control_free.sql"), &[&ids]).await.map_err(failed("control"))?;
    rows.iter().map(|row| get(row, 0)).collect()
}

/// How long a decision waits for a row that another transaction is writing, before the job is reported as locked.
const QUICK_LOCKS: &str = "set local lock_timeout = '50ms'";

/// The statements; in this order, they never lock a job after its history.
#[derive(Debug, Clone, Copy)]
enum Statement {
    Cancel,
    Stay,
    Edit,
    Finish,
    Again,
}

impl Statement {
    const ALL: [Statement; 5] =
        [Statement::Cancel, Statement::Stay, Statement::Edit, Statement::Finish, Statement::Again];

    fn of(intervention: &Intervention) -> Result<Self> {
        match (&intervention.to.to, intervention.state.finished()) {
            (Target::CancelRequested, _) => Ok(Statement::Cancel),
            (Target::Waiting { .. } | Target::Stuck { .. }, true) => Ok(Statement::Again),
            (Target::Waiting { .. } | Target::Stuck { .. }, false) => Ok(Statement::Stay),
            (Target::Edited(_), false) => Ok(Statement::Edit),
            (Target::Finish { .. }, false) => Ok(Statement::Finish),
            (to, _) => Err(StoreError::broken(
                "control",
                format!("{to:?} is not a person's to decide for {}", intervention.state),
            )),
        }
    }

    fn sql(self) -> &'static str {
        match self {
            Statement::Cancel => include_str!("../sql/control_cancel.sql"),
            Statement::Stay => include_str!("../sql/control_stay.sql"),
            Statement::Edit => include_str!("../sql/control_edit.sql"),
            Statement::Finish => include_str!("../sql/control_finish.sql"),
            Statement::Again => include_str!("../sql/control_again.sql"),
        }
    }
}

/// What a person changes of the job, if that is what this is.
fn edit(intervention: &Intervention) -> Option<&Edit> {
    match &intervention.to.to {
        Target::Edited(edit) => Some(edit),
        _ => None,
    }
}

/// Whether the job is still what an edit was decided for, and is to leave its queue. Then only a key can have kept it there.
fn held_by_key(intervention: &Intervention, found: &SettleFacts) -> bool {
    let moves = edit(intervention).is_some_and(|edit| edit.queue.is_some());
    moves && !found.state.assigned() && (found.state, found.fence) == (intervention.state, intervention.fence)
}

/// Interventions as columns, in the order of the binds.
struct Columns {
    ids: Vec<Uuid>,
    fences: Vec<i64>,
    seen: Vec<i16>,
    states: Vec<i16>,
    attempts: Vec<i32>,
    retries: Vec<i32>,
    crashes: Vec<i32>,
    errors: Vec<Option<String>>,
    fingerprints: Vec<Option<String>>,
    dues: Vec<Option<Moment>>,
    clears_cancel: Vec<bool>,
    clears_expiry: Vec<bool>,
    clears_dependencies: Vec<bool>,
    edited_fences: Vec<i64>,
    priorities: Vec<Option<i16>>,
    queues: Vec<Option<String>>,
    scopes_left: Vec<Option<String>>,
}

impl Columns {
    fn of(interventions: &[&Intervention]) -> Self {
        let each = || interventions.iter();
        let edits = || each().map(|i| edit(i));
        let due = |target: &Target| match target {
            Target::Waiting { due } => Some(Moment(*due)),
            Target::Stuck { due } => due.map(Moment),
            Target::Edited(edit) => edit.due.map(Moment),
            _ => None,
        };
        Self {
            ids: each().map(|i| i.job.uuid()).collect(),
            fences: each().map(|i| i.fence.0).collect(),
            seen: each().map(|i| i.state.code()).collect(),
            states: each().map(|i| i.to.state(JobState::Running).code()).collect(),
            attempts: each().map(|i| int(i.to.counts.attempt)).collect(),
            retries: each().map(|i| int(i.to.counts.retry)).collect(),
            crashes: each().map(|i| int(i.to.counts.crashes)).collect(),
            errors: sparse(each().map(|i| i.to.error.as_ref().map(Failure::text))),
            fingerprints: sparse(each().map(|i| i.to.error.as_ref().map(Failure::fingerprint))),
            dues: each().map(|i| due(&i.to.to)).collect(),
            clears_cancel: each().map(|i| i.to.clears.cancel).collect(),
            clears_expiry: each().map(|i| i.to.clears.expiry).collect(),
            clears_dependencies: each().map(|i| i.to.clears.dependencies).collect(),
            edited_fences: each().map(|i| i.fence.edited().0).collect(),
            priorities: edits().map(|edit| Some(edit?.priority?.get().into())).collect(),
            queues: edits().map(|edit| Some(edit?.queue.as_ref()?.name.to_string())).collect(),
            scopes_left: edits().map(|edit| Some(edit?.queue.as_ref()?.leaves.clone())).collect(),
        }
    }

    fn binds<'b>(&'b self, kind: Statement, kept: &'b Vec<i16>) -> Vec<&'b (dyn ToSql + Sync)> {
        let guards: [&(dyn ToSql + Sync); 3] = [&self.ids, &self.fences, &self.seen];
        let decision: [&(dyn ToSql + Sync); 6] =
            [&self.states, &self.attempts, &self.retries, &self.crashes, &self.errors, &self.fingerprints];
        match kind {
            Statement::Cancel => guards.to_vec(),
            Statement::Finish => [&guards[..], &decision, &[kept]].concat(),
            Statement::Edit => {
                let edit: [&(dyn ToSql + Sync); 5] =
                    [&self.edited_fences, &self.priorities, &self.dues, &self.queues, &self.scopes_left];
                [&guards[..], &edit].concat()
            }
            Statement::Stay => [&guards[..], &decision, &[&self.dues, &self.clears_cancel]].concat(),
            Statement::Again => {
                let clears: [&(dyn ToSql + Sync); 3] =
                    [&self.clears_cancel, &self.clears_expiry, &self.clears_dependencies];
                [&guards[..], &decision, &[&self.dues], &clears].concat()
            }
        }
    }
}
