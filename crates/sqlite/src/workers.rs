//! Foreign workers: what is known of one, beats of many at once, and which of them have mail.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};
use turnwise_core::{Incarnation, Timestamp, worker::Worker};
use turnwise_store::{BeatenWorkers, FoundWorker, WorkerBeat, operators::read_worker};

use crate::{bell::Ring, errors::Failure, nodes::LINEAGE, rows};

type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn worker(conn: &Connection, node: Incarnation, now: Timestamp) -> Result<Option<FoundWorker>> {
    let mut find = conn.prepare_cached(include_str!("../sql/worker.sql"))?;
    let found =
        find.query_row([node.0.as_bytes()], |row| Ok((rows::node(row)?, row.get::<_, String>(14)?))).optional()?;
    let Some((node, text)) = found else { return Ok(None) };
    Ok(Some(FoundWorker { node, worker: read_worker(&text)?, now, lineage: LINEAGE }))
}

/// What all foreign workers said when they registered.
pub(crate) fn all(conn: &Connection) -> Result<BTreeMap<Incarnation, Worker>> {
    let mut all = conn.prepare_cached(include_str!("../sql/workers.sql"))?;
    let mut rows = all.query(())?;
    let mut workers = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let text: String = row.get(1)?;
        workers.insert(Incarnation(rows::uuid(row, 0)?), read_worker(&text)?);
    }
    Ok(workers)
}

/// The reply, and whether one has more or fewer slots than before.
pub(crate) fn beat(conn: &Connection, beats: &[WorkerBeat], now: Timestamp) -> Result<(BeatenWorkers, Ring)> {
    let mut before = conn.prepare_cached(include_str!("../sql/beat_slots.sql"))?;
    let mut prolong = conn.prepare_cached(include_str!("../sql/beat.sql"))?;
    let (mut alive, mut resized) = (Vec::with_capacity(beats.len()), false);
    for WorkerBeat { node, slots, lease } in beats {
        let known = before.query_row([node.0.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let (was, drained): (Option<u32>, Option<String>) = known.unwrap_or_default();
        let slots = if drained == Some(node.to_string()) { 0 } else { *slots };
        let until = now.plus(*lease).micros();
        let beaten = prolong.execute(params![node.0.as_bytes(), until, slots])? == 1;
        resized |= beaten && was != Some(slots);
        alive.push(beaten);
    }
    let ring = if resized { Ring::LEAD } else { Ring::NONE };
    Ok((BeatenWorkers { now, lineage: LINEAGE, alive }, ring))
}

pub(crate) fn mail_waiting(conn: &Connection, nodes: Vec<Incarnation>) -> Result<Vec<Incarnation>> {
    let mut should_look = conn.prepare_cached(include_str!("../sql/worker_mail.sql"))?;
    let mut waiting = Vec::new();
    for node in nodes {
        if should_look.query_row([node.0.as_bytes()], |row| row.get(0))? {
            waiting.push(node);
        }
    }
    Ok(waiting)
}
