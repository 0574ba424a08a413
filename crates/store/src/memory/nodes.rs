//! Nodes join, beat, leave and are lost.

use std::{cmp::Reverse, collections::BTreeSet};

use turnwise_core::{Incarnation, JobId, Node, lead::Sight};

use super::{Data, MemoryStore, rows::Row};
use crate::{
    StoreError,
    store::{
        AskLost, Beat, BeatReply, Epoch, Expire, Fleet, Join, Joined, Leader, Loss, LostNode, MemoKind, Replace,
        Result, Term,
    },
    verdict::Lead,
};

pub(super) fn join(store: &MemoryStore, join: Join) -> Result<Joined> {
    let now = store.clock.now();
    let mut data = store.data();
    let holder_of_name =
        data.nodes.values().find(|node| node.name == join.name && !node.lost && node.incarnation != join.incarnation);
    if let Some(other) = holder_of_name {
        let seen = Replace { incarnation: other.incarnation, lease_until: other.lease_until };
        if join.replace != Some(seen) {
            return Ok(Joined::Taken { by: Box::new(data.shown(other)), now });
        }
        let other = other.incarnation;
        data.nodes.get_mut(&other).expect("just found").lost = true;
        if data.dispatcher.holder == Some(other) {
            data.dispatcher.holder = None;
        }
    }
    if let Some(worker) = join.worker.filter(|_| !data.nodes.contains_key(&join.incarnation)) {
        data.workers.insert(join.incarnation, worker);
    }
    data.nodes.entry(join.incarnation).or_insert(Node {
        incarnation: join.incarnation,
        name: join.name,
        host: join.host,
        slots: join.slots,
        queue_capacity: join.queue_capacity,
        batch_size: join.batch_size,
        queues: join.queues,
        tasks: join.tasks,
        joined_at: now,
        lease: join.lease,
        lease_until: now.plus(join.lease),
        lost: false,
        dispatcher: false,
    });
    drop(data);
    store.bell.ring_lead();
    Ok(Joined::In { now })
}

pub(super) fn beat(store: &MemoryStore, beat: Beat) -> Result<BeatReply> {
    let now = store.clock.now();
    let mut data = store.data();
    if beat.only_look {
        let (lineage, leader) = (data.lineage, data.leader(beat.node));
        return Ok(BeatReply { now, lineage, alive: true, epoch: None, nodes: Vec::new(), leader, drained: false });
    }
    let Some(node) = data.nodes.get_mut(&beat.node).filter(|node| !node.lost) else {
        let lineage = data.lineage;
        return Ok(BeatReply {
            now,
            lineage,
            alive: false,
            epoch: None,
            nodes: Vec::new(),
            leader: None,
            drained: false,
        });
    };
    node.lease_until = now.plus(beat.lease);
    let name = node.name.to_string();
    // They are the first, by their kind.
    let set = data.memos.iter().take_while(|((kind, _), _)| *kind == MemoKind::Installation);
    store.kept.hear_memo(set.last().map(|(_, (value, _))| value.as_str()));
    let drained = data.memos.get(&(MemoKind::Drained, name)).is_some_and(|(value, _)| *value == beat.node.to_string());
    let node = data.nodes.get_mut(&beat.node).expect("just seen");
    let resized = std::mem::replace(&mut node.slots, beat.slots) != beat.slots;
    let lineage = data.lineage;
    let dispatcher = &mut data.dispatcher;
    let epoch = beat.lead.then(|| dispatcher.asked(&beat, lineage, now)).flatten();
    if let Some(epoch) = epoch {
        let until = Some(now.plus(beat.lease));
        *dispatcher = Lead { holder: Some(beat.node), epoch, until, lineage: Some(lineage) };
    }
    let leads = epoch.is_some();
    let gives_up = dispatcher.holder == Some(beat.node) && !beat.lead;
    if gives_up {
        dispatcher.holder = None;
    }
    let nodes = match epoch {
        Some(_) => data.nodes.values().filter(|node| node.alive(now)).map(|node| data.shown(node)).collect(),
        None => Vec::new(),
    };
    let leader = if beat.lead && !leads { data.leader(beat.node) } else { None };
    drop(data);
    if gives_up || (resized && !leads) {
        store.bell.ring_lead();
    }
    Ok(BeatReply { now, lineage, alive: true, epoch, nodes, leader, drained })
}

pub(super) fn leave(store: &MemoryStore, node: Incarnation) -> Result<bool> {
    let mut data = store.data();
    if data.dispatcher.holder == Some(node) {
        data.dispatcher.holder = None;
    }
    let gone = !data.jobs.values().any(|row| row.in_hands_of(node));
    if gone {
        data.bury(node);
    }
    drop(data);
    store.bell.ring_lead();
    Ok(gone)
}

pub(super) fn lost_nodes(store: &MemoryStore, ask: AskLost) -> Result<Vec<LostNode>> {
    let now = store.clock.now();
    let mut data = store.data();
    data.check_leading(ask.holder, ask.epoch)?;
    for node in data.nodes.values_mut() {
        node.lost |= match &ask.expire {
            Expire::NoNode => false,
            Expire::Over { by, silent } => {
                let seen = Replace { incarnation: node.incarnation, lease_until: node.lease_until };
                node.lease_until < now.min(*by) || silent.contains(&seen)
            }
        };
    }
    let mut left = ask.limit as usize;
    let mut lost_nodes = Vec::new();
    for node in data.nodes.values().filter(|node| node.lost) {
        let held = || data.jobs.values().filter(|row| row.in_hands_of(node.incarnation));
        let jobs: Vec<_> = held().take(left).map(Row::held).collect();
        left -= jobs.len();
        lost_nodes.push(LostNode { node: data.shown(node), complete: jobs.len() == held().count(), jobs });
    }
    for LostNode { node, .. } in &lost_nodes {
        let held: Vec<JobId> =
            data.jobs.values().filter(|row| row.in_hands_of(node.incarnation)).map(|row| row.id).collect();
        let jobs = held.iter().take(Loss::JOBS).copied().collect();
        let node = Node { dispatcher: false, ..node.clone() };
        let loss = Loss { node: node.clone(), lost_at: now, held: held.len() as u64, jobs };
        data.losses.entry(node.incarnation).or_insert(loss);
    }
    Ok(lost_nodes)
}

pub(super) fn nodes(store: &MemoryStore) -> Result<Fleet> {
    let data = store.data();
    let mut nodes: Vec<_> = data.nodes.values().map(|node| data.shown(node)).collect();
    nodes.sort_by(|a, b| (&a.name, a.joined_at, a.incarnation).cmp(&(&b.name, b.joined_at, b.incarnation)));
    let now = store.clock.now();
    let mut losses: Vec<_> = data.losses.values().filter(|loss| loss.lost_at >= Loss::edge(now)).cloned().collect();
    losses.sort_by_key(|loss| Reverse((loss.lost_at, loss.node.incarnation)));
    losses.truncate(Loss::SHOWN);
    Ok(Fleet { now, nodes, losses, workers: data.workers.clone(), drained: BTreeSet::new() })
}

impl Data {
    /// The node that dispatches, if it is not `node`.
    pub(super) fn leader(&self, node: Incarnation) -> Option<Leader> {
        let holder = self.dispatcher.holder.filter(|holder| *holder != node)?;
        let Node { host, lease, .. } = self.nodes.get(&holder)?;
        let term = Term { epoch: self.dispatcher.epoch, until: self.dispatcher.until? };
        Some(Leader { term, host: host.clone(), lease: *lease, sight: Sight::Unseen })
    }

    pub(super) fn check_leading(&self, holder: Incarnation, epoch: Epoch) -> Result<()> {
        if self.dispatcher.is_held(holder, epoch, self.lineage) { Ok(()) } else { Err(StoreError::NotLeading) }
    }

    /// A node as readers see it: with whether it dispatches.
    pub(super) fn shown(&self, node: &Node) -> Node {
        Node { dispatcher: self.dispatcher.holder == Some(node.incarnation), ..node.clone() }
    }

    pub(super) fn bury(&mut self, node: Incarnation) {
        self.nodes.remove(&node);
        self.workers.remove(&node);
        self.assignments.retain(|(to, _), _| *to != node);
        self.stop_requests.retain(|(to, _), _| *to != node);
    }
}
