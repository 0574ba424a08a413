//! Nodes: joining, beating, leaving, being lost; and which one dispatches.

use std::{collections::BTreeSet, num::NonZeroU32, time::Duration};

use rusqlite::{Connection, OptionalExtension, params};
use turnwise_core::{Incarnation, JobId, Node, Timestamp, lead::Sight, worker::Worker};
use turnwise_store::{
    AskLost, Beat, BeatReply, Epoch, Expire, Join, Joined, Leader, Lineage, Loss, LostJob, LostNode, Replace,
    StoreError, Term, verdict::Lead,
};

use crate::{
    bell::Ring,
    errors::Failure,
    rows::{self, Names},
};

type Result<T> = std::result::Result<T, Failure>;

/// The answer, and whether there is a node the dispatcher does not know.
pub(crate) fn join(conn: &Connection, join: &Join, now: Timestamp) -> Result<(Joined, Ring)> {
    let other = nodes(conn)?
        .into_iter()
        .find(|node| node.name == join.name && !node.lost && node.incarnation != join.incarnation);
    if let Some(other) = other {
        let seen = Replace { incarnation: other.incarnation, lease_until: other.lease_until };
        if join.replace != Some(seen) {
            return Ok((Joined::Taken { by: Box::new(other), now }, Ring::NONE));
        }
        mark_lost(conn, other.incarnation)?;
        stand_down(conn, other.incarnation)?;
    }
    let (queues, all_but) = join.queues.parts();
    conn.prepare_cached(include_str!("../sql/join.sql"))?.execute(params![
        join.incarnation.0.as_bytes(),
        join.name.as_str(),
        json(&join.host)?,
        join.slots,
        join.queue_capacity,
        queues.map(json).transpose()?,
        json(&join.tasks)?,
        now.micros(),
        now.plus(join.lease).micros(),
        all_but,
        join.batch_size.map(NonZeroU32::get),
        micros(join.lease),
        join.worker.as_ref().map(Worker::to_text),
    ])?;
    Ok((Joined::In { now }, Ring::LEAD))
}

/// A file goes on where it was: nothing takes back a commit behind the back of the processes that have it open.
pub(crate) const LINEAGE: Lineage = Lineage(0);

/// The reply, and whether to ring for the lead: this node gave it up, or has more or fewer slots than before.
pub(crate) fn beat(conn: &Connection, beat: &Beat, now: Timestamp) -> Result<(BeatReply, Ring)> {
    let reply =
        BeatReply { now, lineage: LINEAGE, alive: true, epoch: None, nodes: Vec::new(), leader: None, drained: false };
    if beat.only_look {
        return Ok((BeatReply { leader: leader(conn, &lead(conn)?, beat.node)?, ..reply }, Ring::NONE));
    }
    let until = now.plus(beat.lease);
    let mut slots = conn.prepare_cached(include_str!("../sql/beat_slots.sql"))?;
    let known = slots.query_row([beat.node.0.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let (slots, drained): (Option<u32>, Option<String>) = known.unwrap_or_default();
    let reply = BeatReply { drained: drained == Some(beat.node.to_string()), ..reply };
    let resized = if slots == Some(beat.slots) { Ring::NONE } else { Ring::LEAD };
    let alive = conn.prepare_cached(include_str!("../sql/beat.sql"))?.execute(params![
        beat.node.0.as_bytes(),
        until.micros(),
        beat.slots
    ])?;
    if alive == 0 {
        return Ok((BeatReply { alive: false, ..reply }, Ring::NONE));
    }
    if !beat.lead {
        let gave_up = stand_down(conn, beat.node)?;
        return Ok((reply, if gave_up { Ring::LEAD } else { resized }));
    }
    let dispatcher = lead(conn)?;
    let Some(epoch) = dispatcher.asked(beat, LINEAGE, now) else {
        return Ok((BeatReply { leader: leader(conn, &dispatcher, beat.node)?, ..reply }, resized));
    };
    conn.prepare_cached(include_str!("../sql/beat_lead.sql"))?.execute(params![
        beat.node.0.as_bytes(),
        epoch.0,
        until.micros()
    ])?;
    let living = nodes(conn)?.into_iter().filter(|node| node.alive(now)).collect();
    Ok((BeatReply { epoch: Some(epoch), nodes: living, ..reply }, Ring::NONE))
}

/// Whether the node is gone; it stays while jobs are in its hands.
pub(crate) fn leave(conn: &Connection, node: Incarnation) -> Result<bool> {
    stand_down(conn, node)?;
    let gone = !holds(conn, node)?;
    if gone {
        bury(conn, node)?;
    }
    Ok(gone)
}

pub(crate) fn lost_nodes(conn: &Connection, ask: &AskLost, now: Timestamp) -> Result<Vec<LostNode>> {
    check_leading(conn, ask.holder, ask.epoch)?;
    if let Expire::Over { by, silent } = &ask.expire {
        conn.prepare_cached(include_str!("../sql/lost_expire.sql"))?.execute([now.min(*by).micros()])?;
        let mut mark = conn.prepare_cached(include_str!("../sql/lost_silent.sql"))?;
        for Replace { incarnation, lease_until } in silent {
            mark.execute(params![incarnation.0.as_bytes(), lease_until.micros()])?;
        }
    }
    let mut left = ask.limit as usize;
    let mut lost_nodes = Vec::new();
    for node in nodes(conn)?.into_iter().filter(|node| node.lost) {
        let mut jobs = held(conn, node.incarnation)?;
        note_loss(conn, &node, &jobs, now)?;
        let complete = jobs.len() <= left;
        jobs.truncate(left);
        left -= jobs.len();
        lost_nodes.push(LostNode { node, jobs, complete });
    }
    Ok(lost_nodes)
}

/// Notes that a node is lost, unless that is noted. `jobs`: what is in its hands.
fn note_loss(conn: &Connection, node: &Node, jobs: &[LostJob], now: Timestamp) -> Result<()> {
    let first: Vec<u8> = jobs.iter().take(Loss::JOBS).flat_map(|held| *held.id.as_bytes()).collect();
    conn.prepare_cached(include_str!("../sql/lost_note.sql"))?.execute(params![
        node.incarnation.0.as_bytes(),
        now.micros(),
        jobs.len().cast_signed(),
        first
    ])?;
    Ok(())
}

/// The nodes that were lost within the last day, the last one first.
pub(crate) fn losses(conn: &Connection, now: Timestamp) -> Result<Vec<Loss>> {
    let mut losses = conn.prepare_cached(include_str!("../sql/lost_noted.sql"))?;
    let losses = losses.query_map(params![Loss::edge(now).micros(), Loss::SHOWN.cast_signed()], |row| {
        Ok(Loss {
            node: rows::node(row)?,
            lost_at: Timestamp::from_micros(row.get(14)?),
            held: u64::try_from(row.get::<_, i64>(15)?).unwrap_or(0),
            jobs: rows::unpack_ids(row.get_ref(16)?.as_blob()?).collect(),
        })
    })?;
    Ok(losses.collect::<rusqlite::Result<_>>()?)
}

/// All nodes, by incarnation.
pub(crate) fn nodes(conn: &Connection) -> Result<Vec<Node>> {
    let mut nodes = conn.prepare_cached(include_str!("../sql/nodes.sql"))?;
    let nodes = nodes.query_map((), rows::node)?;
    Ok(nodes.collect::<rusqlite::Result<_>>()?)
}

pub(crate) fn check_leading(conn: &Connection, holder: Incarnation, epoch: Epoch) -> Result<()> {
    if lead(conn)?.is_held(holder, epoch, LINEAGE) { Ok(()) } else { Err(StoreError::NotLeading.into()) }
}

/// Whether any job is in a node's hands. Its batches show that at once; but they are kept only for as long as the node says, and a
/// job in no batch would be lost for ever if its node were forgotten: so where the batches show none, all jobs are read.
pub(crate) fn holds(conn: &Connection, node: Incarnation) -> Result<bool> {
    let mut one = conn.prepare_cached(include_str!("../sql/leave_holds_one.sql"))?;
    for id in batched(conn, node)? {
        if one.query_row(params![id.as_bytes(), node.0.as_bytes()], |row| row.get(0))? {
            return Ok(true);
        }
    }
    let mut holds = conn.prepare_cached(include_str!("../sql/leave_holds.sql"))?;
    Ok(holds.query_row([node.0.as_bytes()], |row| row.get(0))?)
}

/// Jobs in a node's hands, by id.
fn held(conn: &Connection, node: Incarnation) -> Result<Vec<LostJob>> {
    let mut held = conn.prepare_cached(include_str!("../sql/lost_jobs.sql"))?;
    let mut names = Names::default();
    let held = held.query_map([node.0.as_bytes()], |row| rows::held(row, &mut names))?;
    let mut held = held.collect::<rusqlite::Result<Vec<_>>>()?;
    held.sort_unstable_by_key(|held| held.id);
    Ok(held)
}

/// All jobs of a node's batches, each once; most of them may have settled.
pub(crate) fn batched(conn: &Connection, node: Incarnation) -> Result<BTreeSet<JobId>> {
    let mut batches = conn.prepare_cached(include_str!("../sql/assignments.sql"))?;
    let mut batches = batches.query([node.0.as_bytes()])?;
    let mut jobs = BTreeSet::new();
    while let Some(row) = batches.next()? {
        jobs.extend(rows::unpack_ids(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?));
    }
    Ok(jobs)
}

pub(crate) fn bury(conn: &Connection, node: Incarnation) -> Result<()> {
    conn.prepare_cached(include_str!("../sql/bury_node.sql"))?.execute([node.0.as_bytes()])?;
    conn.prepare_cached(include_str!("../sql/bury_assignments.sql"))?.execute([node.0.as_bytes()])?;
    conn.prepare_cached(include_str!("../sql/bury_stop_requests.sql"))?.execute([node.0.as_bytes()])?;
    Ok(())
}

pub(crate) fn node_name(conn: &Connection, node: Incarnation) -> Result<Option<String>> {
    let mut name = conn.prepare_cached(include_str!("../sql/join_name.sql"))?;
    Ok(name.query_row([node.0.as_bytes()], |row| row.get(0)).optional()?)
}

/// Gives the lead up, if this node has it.
fn stand_down(conn: &Connection, node: Incarnation) -> Result<bool> {
    let mut stand_down = conn.prepare_cached(include_str!("../sql/leave_lead.sql"))?;
    Ok(stand_down.execute([node.0.as_bytes()])? == 1)
}

fn mark_lost(conn: &Connection, node: Incarnation) -> Result<()> {
    conn.prepare_cached(include_str!("../sql/lost_mark.sql"))?.execute([node.0.as_bytes()])?;
    Ok(())
}

/// The lead: which node has it, in which epoch, until when.
fn lead(conn: &Connection) -> Result<Lead> {
    let mut dispatcher = conn.prepare_cached(include_str!("../sql/beat_dispatcher.sql"))?;
    Ok(dispatcher.query_row((), |row| {
        let (holder, epoch, until) = (rows::node_ref(row, 0)?, Epoch(row.get(1)?), rows::moment(row, 2)?);
        Ok(Lead { holder, epoch, until, lineage: Some(LINEAGE) })
    })?)
}

/// The node that leads, if not `node`.
fn leader(conn: &Connection, lead: &Lead, node: Incarnation) -> Result<Option<Leader>> {
    let (Some(holder), Some(until)) = (lead.holder.filter(|holder| *holder != node), lead.until) else {
        return Ok(None);
    };
    let leader = nodes(conn)?.into_iter().find(|node| node.incarnation == holder);
    let term = Term { epoch: lead.epoch, until };
    Ok(leader.map(|Node { host, lease, .. }| Leader { term, host, lease, sight: Sight::Unseen }))
}

pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::broken("write a node as JSON", error).into())
}
