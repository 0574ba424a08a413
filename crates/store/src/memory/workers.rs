//! Foreign workers: beats of many at once, and which of them have mail.

use turnwise_core::Incarnation;

use super::MemoryStore;
use crate::{
    operators::{BeatenWorkers, FoundWorker, WorkerBeat},
    store::{MemoKind, Result},
};

pub(super) fn worker(store: &MemoryStore, node: Incarnation) -> Result<Option<FoundWorker>> {
    let (now, data) = (store.clock.now(), store.data());
    let (Some(found), Some(worker)) = (data.nodes.get(&node), data.workers.get(&node)) else { return Ok(None) };
    Ok(Some(FoundWorker { node: data.shown(found), worker: worker.clone(), now, lineage: data.lineage }))
}

pub(super) fn beat(store: &MemoryStore, beats: &[WorkerBeat]) -> Result<BeatenWorkers> {
    let now = store.clock.now();
    let mut data = store.data();
    let set = data.memos.iter().take_while(|((kind, _), _)| *kind == MemoKind::Installation);
    store.kept.hear_memo(set.last().map(|(_, (value, _))| value.as_str()));
    let (mut alive, mut resized) = (Vec::with_capacity(beats.len()), false);
    let all = &mut *data;
    for beat in beats {
        let node = all.nodes.get_mut(&beat.node).filter(|node| !node.lost);
        alive.push(node.is_some());
        if let Some(node) = node {
            let drained = all.memos.get(&(MemoKind::Drained, node.name.to_string()));
            let is_drained = drained.is_some_and(|(value, _)| *value == beat.node.to_string());
            let slots = if is_drained { 0 } else { beat.slots };
            node.lease_until = now.plus(beat.lease);
            resized |= std::mem::replace(&mut node.slots, slots) != slots;
        }
    }
    let lineage = data.lineage;
    drop(data);
    if resized {
        store.bell.ring_lead();
    }
    Ok(BeatenWorkers { now, lineage, alive })
}

pub(super) fn mail_waiting(store: &MemoryStore, mut nodes: Vec<Incarnation>) -> Result<Vec<Incarnation>> {
    let data = store.data();
    nodes.retain(|node| {
        data.nodes.get(node).is_none_or(|node| node.lost)
            || data.assignments.keys().any(|(to, _)| to == node)
            || data.stop_requests.keys().any(|(to, _)| to == node)
    });
    Ok(nodes)
}
