//! Assign: picked jobs into nodes' hands; and what a node finds there.

use std::collections::{BTreeMap, btree_map::Entry};

use rusqlite::{Connection, OptionalExtension, params};
use turnwise_core::{Incarnation, JobId, Timestamp};
use turnwise_store::{Assign, AssignReply, BatchId, Delivery};

use crate::{
    news::head,
    nodes::{check_leading, node_name},
    rows::{self, Names},
    store::Failure,
};

type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn assign(conn: &Connection, assign: &Assign, now: Timestamp) -> Result<Vec<(JobId, AssignReply)>> {
    check_leading(conn, assign.holder, assign.epoch)?;
    let mut take = conn.prepare_cached(include_str!("../sql/assign.sql"))?;
    let mut assigned = conn.prepare_cached(include_str!("../sql/assigned.sql"))?;
    let mut names = Names::default();
    let mut there: BTreeMap<Incarnation, bool> = BTreeMap::new();
    let mut mail: BTreeMap<Incarnation, (Vec<JobId>, Vec<u8>)> = BTreeMap::new();
    let mut replies = Vec::with_capacity(assign.picks.len());
    for pick in &assign.picks {
        let (id, node) = (pick.job.0.as_bytes(), pick.node.0.as_bytes());
        // In the hands of a node that has left, nobody would ever see to it.
        let there = match there.entry(pick.node) {
            Entry::Occupied(there) => *there.get(),
            Entry::Vacant(unknown) => *unknown.insert(node_name(conn, pick.node)?.is_some()),
        };
        let taken = there && take.execute(params![id, pick.fence.0, node, now.micros()])? == 1;
        if taken {
            let (jobs, limited) = mail.entry(pick.node).or_default();
            jobs.push(pick.job);
            limited.push(pick.limited.into());
        }
        let mine = pick.node == assign.holder;
        if taken && !mine {
            replies.push((pick.job, AssignReply::Theirs(pick.fence.next())));
            continue;
        }
        // Just what this pick makes of it: now, or when the first call's reply was lost.
        let in_hands = assigned
            .query_row(params![id, node], |row| rows::assigned(row, &mut names, pick.limited))
            .optional()?
            .filter(|job| job.fence == pick.fence.next());
        let reply = match in_hands {
            Some(job) if mine => AssignReply::Mine(Box::new(job)),
            Some(job) => AssignReply::Theirs(job.fence),
            None => match head(conn, pick.job, &mut names)? {
                Some(head) if head.fence == pick.fence && !head.state.assigned() => AssignReply::Locked,
                Some(head) => AssignReply::Changed(head),
                None => AssignReply::Gone,
            },
        };
        replies.push((pick.job, reply));
    }
    let mut deliver = conn.prepare_cached(include_str!("../sql/deliver.sql"))?;
    for (node, (jobs, limited)) in mail {
        deliver.execute(params![node.0.as_bytes(), assign.batch.0.as_bytes(), rows::pack_ids(&jobs), limited])?;
    }
    Ok(replies)
}

pub(crate) fn assignments(conn: &Connection, node: Incarnation, known: &[BatchId]) -> Result<Vec<Delivery>> {
    let mut batches = conn.prepare_cached(include_str!("../sql/assignments.sql"))?;
    let mut assigned = conn.prepare_cached(include_str!("../sql/assigned.sql"))?;
    let mut names = Names::default();
    let mut held = |id: JobId, limited: bool| {
        let params = params![id.0.as_bytes(), node.0.as_bytes()];
        assigned.query_row(params, |row| rows::assigned(row, &mut names, limited)).optional()
    };
    let mut deliveries = Vec::new();
    let mut batches = batches.query([node.0.as_bytes()])?;
    while let Some(row) = batches.next()? {
        let batch = rows::batch(row, 0)?;
        if known.contains(&batch) {
            continue;
        }
        let mut delivery = Delivery { batch, jobs: Vec::new(), cancel: Vec::new() };
        let mut limited = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?.iter();
        for id in rows::unpack_ids(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?) {
            delivery.jobs.extend(held(id, limited.next() == Some(&1))?);
        }
        for id in rows::unpack_ids(row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?) {
            delivery.cancel.extend(held(id, false)?.filter(|job| job.cancel_requested).map(|job| job.id));
        }
        deliveries.push(delivery);
    }
    Ok(deliveries)
}
