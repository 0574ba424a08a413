//! A node.

use std::num::NonZeroU32;

use serde::Serialize;
use turnwise_core::{Incarnation, JobId, NodeName, QueueName, TaskName, Timestamp, node::NodeState, worker::Worker};
use turnwise_store::{Fleet, Loss};

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
    /// The version of the program; `null`: one that does not say.
    pub version: Option<&'a str>,
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
    /// `alive`, `drained` (it takes no more jobs, since a person wants that), `stopping` (it takes no more jobs, and leaves once those that it
    /// has are done) or `lost`: a node whose lease is over counts as lost, too. Lost nodes are shown for a day.
    pub state: &'static str,
    /// When it last beat, by the database's clock.
    pub beat_at: Timestamp,
    /// When its lease expires unless it beats before, by the database's clock.
    pub lease_until: Timestamp,
    /// When this life of it began, by the database's clock.
    pub joined_at: Timestamp,
    /// When the dispatcher found it lost, or, as long as none has, when its lease was over; by the database's clock. `null`: it is not lost.
    pub lost_at: Option<Timestamp>,
    /// How many jobs were in its hands then; `null` where it is not lost.
    pub held: Option<u64>,
    /// The first of these jobs, by id; at most ten.
    pub held_jobs: &'a [JobId],
    /// Of a foreign worker: what it is written in, as it says; `null` for any other node.
    pub language: Option<&'a str>,
    /// Of a foreign worker: the program that speaks for it; `null` for any other node.
    pub client: Option<&'a str>,
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
            version: node.host.version.as_deref(),
            slots: node.slots,
            batch_size: node.batch_size,
            queues: queues.map(|queues| queues.iter().collect()),
            all_but,
            tasks: node.tasks.iter().collect(),
            dispatcher: node.dispatcher,
            state: node.state(now).name(),
            beat_at: node.lease_until.minus(node.lease),
            lease_until: node.lease_until,
            joined_at: node.joined_at,
            lost_at: None,
            held: None,
            held_jobs: &[],
            language: None,
            client: None,
        }
    }

    /// All nodes of the fleet, then those that were lost within the last day and whose jobs are settled, the last one first.
    pub fn all(fleet: &'a Fleet) -> Vec<Self> {
        let nodes = fleet.nodes.iter().map(|node| {
            let loss = fleet.losses.iter().find(|loss| loss.node.incarnation == node.incarnation);
            let shown = Self::new(node, fleet.now).lost(loss).of(fleet.workers.get(&node.incarnation));
            let drained = fleet.drained.contains(&node.incarnation) && node.state(fleet.now) == NodeState::Stopping;
            if drained { Self { state: NodeState::Drained.name(), ..shown } } else { shown }
        });
        let is_there = |loss: &&Loss| fleet.nodes.iter().any(|node| node.incarnation == loss.node.incarnation);
        let buried = fleet.losses.iter().filter(|loss| !is_there(loss));
        nodes.chain(buried.map(|loss| Self::new(&loss.node, fleet.now).lost(Some(loss)))).collect()
    }

    fn of(self, worker: Option<&'a Worker>) -> Self {
        let said = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        match worker {
            None => self,
            Some(worker) => Self { language: said(&worker.language), client: said(&worker.client), ..self },
        }
    }

    fn lost(self, loss: Option<&'a Loss>) -> Self {
        match loss {
            None => self,
            Some(Loss { lost_at, held, jobs, .. }) => {
                Self { lost_at: Some(*lost_at), held: Some(*held), held_jobs: jobs, ..self }
            }
        }
    }
}

/// What a person wants of a node.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct NodeSet<'a> {
    /// Its name.
    pub name: &'a NodeName,
    /// Whether it is to take no more jobs. It hears of that with its next beat.
    pub drained: bool,
}

impl<'a> NodeSet<'a> {
    /// As it is set now.
    pub fn new(name: &'a NodeName, drained: bool) -> Self {
        Self { name, drained }
    }
}
