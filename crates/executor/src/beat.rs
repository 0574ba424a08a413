//! Staying in the fleet: joining under a name, beating, taking the lead, leaving.

use std::{sync::atomic::Ordering, time::Duration};

use tokio::{sync::watch, time::Instant};
use turnwise_core::{Incarnation, Node};
use turnwise_store::{Beat, Epoch, Join, Joined, Replace, Store};

use crate::{
    backoff::Backoff, executor::StartError, follow::Following, life::Life, mail::read_mail, this_node::ThisNode,
    trace::Record,
};

/// Tries to leave the fleet; after them the node goes without having left. Each try reads the mail that came since the last one,
/// and a node that drains is sent little.
const LEAVE_TRIES: u32 = 20;

/// What the last beat returned about dispatching, if this node leads.
#[derive(Debug, Clone)]
pub(crate) struct Lead {
    pub(crate) epoch: Epoch,
    pub(crate) nodes: Vec<Node>,
}

/// Joins the fleet under the configured name. Where another node has the name, this one replaces it if that node's process is
/// certainly gone or its lease has expired. If that node beats meanwhile, it is alive, and this one is refused.
pub(crate) async fn join(node: &ThisNode, store: &dyn Store) -> Result<(Incarnation, Instant), StartError> {
    let here = &node.process;
    let incarnation = Incarnation(uuid::Builder::from_random_bytes(node.chance.random()).into_uuid());
    let mut replace: Option<Replace> = None;
    let mut seen: Option<Replace> = None;
    loop {
        let sent = Instant::now();
        let join = Join {
            incarnation,
            name: node.config.name.clone(),
            host: here.host.clone(),
            slots: node.config.core_pool_size,
            queue_capacity: node.config.queue_capacity,
            batch_size: node.config.share(),
            queues: node.serves.clone(),
            tasks: node.registry.names().cloned().collect(),
            lease: node.config.lease,
            replace,
            worker: None,
        };
        match store.join(join).await? {
            Joined::In { now } => {
                node.clock.heard(now);
                return Ok((incarnation, sent));
            }
            Joined::Taken { by, now } => {
                let other = Replace { incarnation: by.incarnation, lease_until: by.lease_until };
                let beats = seen
                    .is_some_and(|seen| seen.incarnation == other.incarnation && seen.lease_until != other.lease_until);
                if here.is_gone(&by.host) || by.lease_until < now {
                    replace = Some(other);
                } else if beats {
                    return Err(StartError::NameTaken { name: by.name, host: by.host.name, pid: by.host.pid });
                } else {
                    seen = Some(other);
                    tracing::info!(name = %by.name, host = by.host.name, pid = by.host.pid, "the name is taken; waiting to see whether its owner lives");
                    // It beats three times a lease; one beat is proof enough.
                    let wait = by.lease_until.since(now).min(node.config.lease / 2) + Duration::from_millis(10);
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }
}

/// Beats until the life is over or this node is declared lost. Sends the dispatcher loop whether this node leads.
pub(crate) async fn beat(life: &Life, lead: &watch::Sender<Option<Lead>>) {
    let bell = &life.bell;
    let config = &life.node.config;
    let mut backoff = Backoff::default();
    let mut following = Following::default();
    loop {
        if life.over.is_up() {
            lead.send_replace(None);
            return;
        }
        if life.draining.is_up() {
            // The dispatcher of this process writes down what the next one should know, while it still may.
            let _ = tokio::time::timeout(config.beat_interval(), life.term.ended()).await;
        }
        let sent = Instant::now();
        let (draining, drained) = (life.draining.is_up(), life.drained.load(Ordering::Relaxed));
        let slots = if draining || drained { 0 } else { life.desk.slots() };
        let ask = Beat {
            node: life.incarnation,
            lease: config.lease,
            slots,
            // A node that stops gives up the lead, and so does one whose control loops have panicked.
            lead: config.dispatch && !draining && !life.node.hold_off.holds(),
            over: following.over(life),
            only_look: false,
        };
        let (asks_for_the_lead, over) = (ask.lead, ask.over);
        match life.store.beat(ask).await {
            Ok(reply) if reply.alive => {
                backoff = Backoff::default();
                life.node.clock.heard(reply.now);
                life.node.logs.answered(sent);
                life.node.logs.tell_left_out();
                life.heard(sent, reply.lineage);
                if !asks_for_the_lead && life.node.hold_off.stood_down() {
                    // The term that panicked can write nothing more: now the mail shows all that it gave to this node.
                    life.bell.ring_mail();
                }
                following.hear(life, over, &reply);
                lead.send_replace(reply.epoch.map(|epoch| Lead { epoch, nodes: following.living(life, reply.nodes) }));
                if reply.drained != drained {
                    let what =
                        if reply.drained { "takes no more jobs: a person has drained it" } else { "takes jobs again" };
                    tracing::info!(node = %config.name, "this node {what}");
                    life.drained.store(reply.drained, Ordering::Relaxed);
                    // The dispatcher hears of it at once.
                    continue;
                }
            }
            Ok(_) => {
                // The leave may have been written before this beat, although the beat was sent first.
                if !life.leaving.is_up() {
                    tracing::warn!("this node was declared lost; other nodes may run its jobs");
                }
                life.contact.lose();
                lead.send_replace(None);
                life.draining.raise();
                return;
            }
            Err(error) => {
                life.node.logs.no_answer("could not beat", &error);
                if !life.contact.holds() {
                    lead.send_replace(None);
                }
                backoff.wait(&life.node.chance).await;
                continue;
            }
        }
        let beat_at = Instant::now() + next_beat(life, asks_for_the_lead);
        tokio::select! {
            biased;
            () = life.over.wait() => {}
            () = life.draining.wait(), if !draining => {}
            () = bell.lead.notified(), if config.dispatch => {}
            () = life.desk.resized() => {}
            () = following.look_out(life, beat_at) => {}
        }
    }
}

/// How long until the next beat; sooner where it may ask for the lead again.
fn next_beat(life: &Life, asked_for_the_lead: bool) -> Duration {
    let config = &life.node.config;
    let left = life.node.hold_off.left();
    if config.dispatch && !asked_for_the_lead && !left.is_zero() {
        left.min(config.beat_interval())
    } else {
        config.beat_interval()
    }
}

/// Leaves the fleet, so that the other nodes need not wait for the lease to expire. Jobs that the dispatcher of another process
/// assigned before it saw that this node takes no more are handed back first; the loops must still run, to beat and to write that.
pub(crate) async fn leave(life: &Life) -> bool {
    life.leaving.raise();
    let left = tokio::time::timeout(life.node.config.lease, try_to_leave(life)).await.unwrap_or(false);
    life.trace(|| Record::Leave { held: life.desk.count() });
    if !left {
        tracing::warn!(
            jobs = life.desk.count(),
            "could not leave the fleet; the other nodes will notice when the lease expires"
        );
    }
    left
}

/// Tries to leave once more: a task that was slow to stop may have been the only reason that it could not. An error is ignored, for
/// nothing is left to be done about it.
pub(crate) async fn leave_at_last(life: &Life) {
    let _ = tokio::time::timeout(life.node.config.lease, life.store.leave(life.incarnation)).await;
}

async fn try_to_leave(life: &Life) -> bool {
    let mut backoff = Backoff::default();
    for _ in 0..LEAVE_TRIES {
        let mail = read_mail(life).await.unwrap_or(false);
        life.nothing_held().await;
        match life.store.leave(life.incarnation).await {
            Ok(true) => return true,
            Ok(false) if mail => {}
            // The jobs that it still holds are not in its mail yet, or another process has to write something about them first.
            Ok(false) => backoff.wait(&life.node.chance).await,
            Err(error) => {
                life.node.logs.no_answer("could not leave the fleet", &error);
                backoff.wait(&life.node.chance).await;
            }
        }
        if life.contact.is_lost() {
            // A beat was refused: this node has left, or was declared lost.
            return true;
        }
    }
    false
}
