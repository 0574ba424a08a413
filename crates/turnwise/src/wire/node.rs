//! A node.

use std::num::NonZeroU32;

use serde::Serialize;
use turnwise_core::{Incarnation, NodeName, QueueName, TaskName, Timestamp};

/// A node of the fleet.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Node<'a> {
    /// As configured; at most one node that is not lost has it.
    pub name: &'a NodeName,
    /// This life of the node; a restart is another one.
    pub incarnation: Incarnation,
    /// The machine that its process runs on.
    pub host: &'a str,
    /// Its process on that machine.
    pub pid: u32,
    /// Jobs it runs at a time; 0 while it drains.
    pub slots: u32,
    /// Jobs it is given at once, at most; `null` if the node has not named a bound.
    pub batch_size: Option<NonZeroU32>,
    /// The queues it serves; `null`: all.
    pub queues: Option<Vec<&'a QueueName>>,
    /// `queues` are those it does not serve.
    pub all_but: bool,
    /// The tasks it knows, sorted; jobs of others are not assigned to it.
    pub tasks: Vec<&'a TaskName>,
    /// Whether it holds the lead.
    pub dispatcher: bool,
    /// `alive` or `lost`: a node whose lease is over counts as lost, too.
    pub state: &'static str,
    /// When its lease expires unless it beats before, by the database's clock.
    pub lease_until: Timestamp,
    /// When this life of it began, by the database's clock.
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
