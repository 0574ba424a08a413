//! A node.

use std::num::NonZeroU32;

use serde::Serialize;
use turnwise_core::{Incarnation, NodeName, QueueName, TaskName, Timestamp};

/// A node of the fleet.
#[derive(Debug, Serialize)]
#[non_exhaustive]
#[allow(missing_docs, reason = "they are those of the node")]
pub struct Node<'a> {
    pub name: &'a NodeName,
    pub incarnation: Incarnation,
    pub host: &'a str,
    pub pid: u32,
    pub slots: u32,
    pub batch_size: Option<NonZeroU32>,
    /// `null`: all.
    pub queues: Option<Vec<&'a QueueName>>,
    /// Those are the ones it does not serve.
    pub all_but: bool,
    pub tasks: Vec<&'a TaskName>,
    pub dispatcher: bool,
    /// `alive` or `lost`.
    pub state: &'static str,
    pub lease_until: Timestamp,
    pub joined_at: Timestamp,
}

impl<'a> Node<'a> {
    /// The node as it is seen at the fleet's time.
    pub fn new(node: &'a crate::Node, now: Timestamp) -> Self {
        let (queues, all_but) = node.queues.parts();
        Self {
            name: &node.name,
            incarnation: node.incarnation,
            host: &node.host.name,
            pid: node.host.pid,
            slots: node.slots,
            batch_size: node.batch_size,
            queues: queues.map(|queues| queues.iter().collect()),
            all_but,
            tasks: node.tasks.iter().collect(),
            dispatcher: node.dispatcher,
            state: if node.alive(now) { "alive" } else { "lost" },
            lease_until: node.lease_until,
            joined_at: node.joined_at,
        }
    }
}
