//! Foreign workers: what is known of one, beats of many at once, and which of them have mail.

use std::collections::HashSet;

use tokio_postgres::types::ToSql;
use turnwise_core::Incarnation;
use turnwise_store::{BeatenWorkers, FoundWorker, Lineage, Result, StoreError, WorkerBeat, operators::read_worker};
use uuid::Uuid;

use crate::{
    connect::connection,
    errors::failed,
    rows::{self, Names, get, micros},
    session::Session,
    store::Inner,
};

pub(crate) async fn worker(store: &Inner, node: Incarnation) -> Result<Option<FoundWorker>> {
    let client = connection(&store.pools.node).await?;
    let rows = client.query(include_str!("../sql/worker.sql"), &[&node.0]).await.map_err(failed("read a worker"))?;
    let Some(row) = rows.first() else { return Ok(None) };
    let Some(node) = rows::node(row, 0, &mut Names::default())? else { return Ok(None) };
    store.kept.hear_memo(get(row, 17)?);
    let (worker, now, lineage) = (read_worker(get(row, 14)?)?, rows::now(row, 15)?, Lineage(get(row, 16)?));
    Ok(Some(FoundWorker { node, worker, now, lineage }))
}

pub(crate) async fn beat(store: &Inner, beats: &[WorkerBeat]) -> Result<BeatenWorkers> {
    let fail = failed("beat for workers");
    let nodes: Vec<Uuid> = beats.iter().map(|beat| beat.node.0).collect();
    let slots: Vec<i64> = beats.iter().map(|beat| i64::from(beat.slots)).collect();
    let leases: Vec<i64> = beats.iter().map(|beat| micros(beat.lease)).collect();
    let client = connection(&store.pools.node).await?;
    let binds: [&(dyn ToSql + Sync); 3] = [&nodes, &slots, &leases];
    let rows = client.query(include_str!("../sql/worker_beat.sql"), &binds).await.map_err(fail)?;
    let row = rows.first().ok_or_else(|| StoreError::broken("beat for workers", "no answer"))?;
    if get(row, 2)? {
        store.bell.ring_lead();
    }
    store.kept.hear_memo(get(row, 3)?);
    let alive: HashSet<Uuid> = get::<Option<Vec<Uuid>>>(row, 4)?.unwrap_or_default().into_iter().collect();
    let alive = nodes.iter().map(|node| alive.contains(node)).collect();
    Ok(BeatenWorkers { now: rows::now(row, 0)?, lineage: Lineage(get(row, 1)?), alive })
}

pub(crate) async fn mail_waiting(store: &Inner, nodes: &[Incarnation]) -> Result<Vec<Incarnation>> {
    let nodes: Vec<Uuid> = nodes.iter().map(|node| node.0).collect();
    let client = connection(&store.pools.node).await?;
    let rows =
        client.query(include_str!("../sql/worker_mail.sql"), &[&nodes]).await.map_err(failed("look for mail"))?;
    rows.iter().map(|row| get(row, 0).map(Incarnation)).collect()
}
