//! Writing what core decided about assigned jobs.

use std::collections::{HashMap, HashSet};

use tokio_postgres::{GenericClient, Row, Statement, types::ToSql};
use turnwise_core::{Fence, Incarnation, JobId, State, lifecycle::Target};
use turnwise_store::{Author, Epoch, Result, Settle, Settled, Settlement, StoreError};
use uuid::Uuid;

use crate::{
    rows::{self, Moment, get, int, micros},
    store::{Inner, connection, failed, query},
};

const STAY: &str = include_str!("../sql/settle_stay.sql");
const FINISH: &str = include_str!("../sql/settle_finish.sql");
const DISCARD: &str = include_str!("../sql/settle_discard.sql");

pub(crate) async fn settle(store: &Inner, settle: &Settle) -> Result<Vec<Settled>> {
    let fail = failed("settle");
    let (node, told, lost) = match settle.author {
        Author::Node { node, told } => (node, told, false),
        Author::Dispatcher { epoch, lost, .. } => (lost, Some(epoch), true),
    };
    // Sorted by id, so that two batches never lock in opposite orders. Of several decisions about one job the last one
    // stands: it was made knowing the others.
    let mut last: Vec<&Settlement> = settle.settlements.iter().rev().collect();
    last.sort_by_key(|settlement| settlement.job);
    last.dedup_by_key(|settlement| settlement.job);
    let ends = |settlement: &&Settlement| matches!(settlement.to.to, Target::Finish { .. });
    let (finishing, staying): (Vec<&Settlement>, Vec<&Settlement>) = last.iter().copied().partition(ends);

    let mut client = connection(&store.pools.settle).await?;
    let keep = !store.options.retention.is_zero();
    let finish = client.prepare_cached(if keep { FINISH } else { DISCARD }).await.map_err(fail)?;
    let stay = match staying.is_empty() {
        true => None,
        false => Some(client.prepare_cached(STAY).await.map_err(fail)?),
    };
    let common = Common { node: node.0, told: told.map(|epoch| epoch.0), raise: i64::from(lost) };
    let done: Vec<Uuid> = settle.done.iter().map(|batch| batch.0).collect();
    let finishing = Finishing { columns: Columns::of(&finishing), results: results(&finishing), keep };
    let staying = Staying { columns: Columns::of(&staying), dues: dues(&staying)? };

    let applied = match (settle.author, stay) {
        (Author::Dispatcher { holder, epoch, lost, bury }, stay) => {
            let transaction = client.transaction().await.map_err(fail)?;
            check_leading(&transaction, holder, epoch).await?;
            let mut applied = Vec::new();
            if let Some(stay) = &stay {
                applied.extend(staying.write(&*transaction, stay, &common, &[]).await.map_err(fail)?);
            }
            applied.extend(finishing.write(&*transaction, &finish, &common, &done).await.map_err(fail)?);
            if bury {
                transaction.execute(include_str!("../sql/node_lock.sql"), &[&lost.0]).await.map_err(fail)?;
                transaction.execute(include_str!("../sql/bury.sql"), &[&lost.0]).await.map_err(fail)?;
            }
            transaction.commit().await.map_err(fail)?;
            applied
        }
        (Author::Node { .. }, None) => finishing.write(&**client, &finish, &common, &done).await.map_err(fail)?,
        (Author::Node { .. }, Some(stay)) if finishing.columns.ids.is_empty() => {
            staying.write(&**client, &stay, &common, &done).await.map_err(fail)?
        }
        (Author::Node { .. }, Some(stay)) => {
            // All four in one write: a process that is stopped here cannot leave a transaction open.
            let (begun, stayed, finished, committed) = tokio::join!(
                client.batch_execute("begin"),
                staying.write(&**client, &stay, &common, &[]),
                finishing.write(&**client, &finish, &common, &done),
                client.batch_execute("commit"),
            );
            begun.map_err(fail)?;
            let (mut applied, finished) = (stayed.map_err(fail)?, finished.map_err(fail)?);
            committed.map_err(fail)?;
            applied.extend(finished);
            applied
        }
    };
    if !applied.is_empty() {
        store.bell.ring_news();
    }
    if applied.len() == last.len() {
        return Ok(vec![Settled::Applied; settle.settlements.len()]);
    }
    let applied: HashSet<Uuid> = applied.iter().map(|row| get(row, 0)).collect::<Result<_>>()?;
    let missing: Vec<Uuid> =
        last.iter().map(|settlement| settlement.job.0).filter(|id| !applied.contains(id)).collect();
    let standing = read_standing(&client, &missing).await?;
    let reply = |settlement: &Settlement| match applied.contains(&settlement.job.0) {
        true => Ok(Settled::Applied),
        false => why_not(settlement, node, lost, standing.get(&settlement.job)),
    };
    settle.settlements.iter().map(reply).collect()
}

/// Where a job is now.
pub(crate) struct Standing {
    pub(crate) state: State,
    pub(crate) fence: Fence,
    node: Option<Incarnation>,
    cancel_requested: bool,
}

pub(crate) async fn read_standing(
    client: &deadpool_postgres::Object,
    ids: &[Uuid],
) -> Result<HashMap<JobId, Standing>> {
    let fail = failed("read jobs again");
    let rows = query(client, include_str!("../sql/standing.sql"), &[&ids]).await.map_err(fail)?;
    rows.iter()
        .map(|row| {
            let standing = Standing {
                state: rows::state(row, 1)?,
                fence: Fence(get(row, 2)?),
                node: get::<Option<Uuid>>(row, 3)?.map(Incarnation),
                cancel_requested: get(row, 4)?,
            };
            Ok((JobId(get(row, 0)?), standing))
        })
        .collect()
}

fn why_not(settlement: &Settlement, node: Incarnation, lost: bool, standing: Option<&Standing>) -> Result<Settled> {
    let Some(now) = standing else { return Ok(Settled::Gone) };
    let here = now.state.assigned() && now.node == Some(node);
    match () {
        () if now.fence != settlement.fence => Ok(Settled::Superseded),
        // At its end or at rest at this very fence: only the node's own settle with that fence can have put it there.
        () if !now.state.assigned() => Ok(if lost { Settled::Superseded } else { Settled::Applied }),
        () if !here => Ok(Settled::Superseded),
        () if now.cancel_requested && !settlement.saw_cancel => Ok(Settled::CancelRequested),
        // It could be written now, and could not a moment ago.
        () => Err(StoreError::transient("settle", "a job changed while it was being settled")),
    }
}

pub(crate) async fn check_leading(
    client: &impl deadpool_postgres::GenericClient,
    holder: Incarnation,
    epoch: Epoch,
) -> Result<()> {
    let leading = query(client, include_str!("../sql/leading.sql"), &[&holder.0, &epoch.0]).await;
    leading.map_err(failed("check who dispatches"))?.first().map(drop).ok_or(StoreError::NotLeading)
}

/// What all settlements of a call share.
struct Common {
    node: Uuid,
    told: Option<i64>,
    /// Added to the fence: a lost node's own late settle must be refused.
    raise: i64,
}

/// Settlements as columns, in the order of the binds.
struct Columns<'a> {
    ids: Vec<Uuid>,
    fences: Vec<i64>,
    saw_cancel: Vec<bool>,
    states: Vec<i16>,
    attempts: Vec<i32>,
    retries: Vec<i32>,
    crashes: Vec<i32>,
    errors: Vec<Option<&'a str>>,
    began: Vec<Option<Moment>>,
    ended: Vec<Option<Moment>>,
    ran: Vec<Option<i64>>,
}

impl<'a> Columns<'a> {
    fn of(settlements: &[&'a Settlement]) -> Self {
        let each = || settlements.iter();
        Self {
            ids: each().map(|s| s.job.0).collect(),
            fences: each().map(|s| s.fence.0).collect(),
            saw_cancel: each().map(|s| s.saw_cancel).collect(),
            states: each().map(|s| s.to.state(State::Running).code()).collect(),
            attempts: each().map(|s| int(s.to.counts.attempt)).collect(),
            retries: each().map(|s| int(s.to.counts.retry)).collect(),
            crashes: each().map(|s| int(s.to.counts.crashes)).collect(),
            errors: each().map(|s| s.to.error.as_deref()).collect(),
            began: each().map(|s| s.started_at.map(Moment)).collect(),
            ended: each().map(|s| s.finished_at.map(Moment)).collect(),
            ran: each().map(|s| s.ran().map(micros)).collect(),
        }
    }
}

struct Finishing<'a> {
    columns: Columns<'a>,
    results: Vec<Option<&'a str>>,
    /// Whether finished jobs enter history.
    keep: bool,
}

fn results<'a>(settlements: &[&'a Settlement]) -> Vec<Option<&'a str>> {
    let result = |settlement: &&'a Settlement| match &settlement.to.to {
        Target::Finish { result, .. } => result.as_ref().map(|result| result.as_str()),
        _ => None,
    };
    settlements.iter().map(result).collect()
}

impl Finishing<'_> {
    async fn write(
        &self,
        client: &impl GenericClient,
        statement: &Statement,
        common: &Common,
        done: &[Uuid],
    ) -> std::result::Result<Vec<Row>, tokio_postgres::Error> {
        let c = &self.columns;
        let guards: [&(dyn ToSql + Sync); 6] = [&common.node, &common.told, &done, &c.ids, &c.fences, &c.saw_cancel];
        let rest: &[&(dyn ToSql + Sync)] = match self.keep {
            true => &[
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
            ],
            false => &[&c.ran, &c.states],
        };
        client.query(statement, &[&guards, rest].concat()).await
    }
}

struct Staying<'a> {
    columns: Columns<'a>,
    dues: Vec<Option<Moment>>,
}

fn dues(settlements: &[&Settlement]) -> Result<Vec<Option<Moment>>> {
    let due = |settlement: &&Settlement| match settlement.to.to {
        Target::Stuck { due } => Ok(due.map(Moment)),
        Target::Waiting { due } => Ok(Some(Moment(due))),
        Target::Running | Target::Finish { .. } => Ok(None),
        Target::Scheduled | Target::CancelRequested => {
            Err(StoreError::broken("settle", "assigning and asking for a cancel are not settlements"))
        }
    };
    settlements.iter().map(due).collect()
}

impl Staying<'_> {
    async fn write(
        &self,
        client: &impl GenericClient,
        statement: &Statement,
        common: &Common,
        done: &[Uuid],
    ) -> std::result::Result<Vec<Row>, tokio_postgres::Error> {
        let c = &self.columns;
        let binds: [&(dyn ToSql + Sync); 16] = [
            &common.node,
            &common.told,
            &done,
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
        ];
        client.query(statement, &binds).await
    }
}
