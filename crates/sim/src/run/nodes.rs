//! Nodes of a simulated fleet: each is a process that starts, stops and may die.

use std::sync::Arc;

use serde_json::json;
use turnwise_core::{NodeName, node::Host};
use turnwise_executor::{
    Config, Executor,
    executor::{Builder, Connected},
    trace::Trace,
};
use turnwise_store::StoreError;

use super::{
    chance::Chance,
    network::{Alive, Process, locked},
    plan::{self, NodePlan},
    task::{self, Here},
    world::{ENOUGH, Node, World},
};

impl World {
    pub(super) fn start(self: &Arc<Self>, at: usize, elsewhere: bool) {
        if locked(&self.nodes[at]).is_some() {
            return;
        }
        let plan = &self.plan.nodes[at];
        let (process, store) = self.process(plan.name.as_str());
        self.network.note(format_args!("{} starts", plan.name));
        // In every other seed all nodes are on one machine, and see each other's processes.
        let machine = if self.plan.seed.is_multiple_of(2) { "m".to_owned() } else { format!("m{at}") };
        let machine = if elsewhere { format!("{machine}-{}", process.id) } else { machine };
        let host = Host {
            name: machine.clone(),
            boot_id: machine.clone(),
            pid_namespace: String::new(),
            pid: u32::try_from(process.id).unwrap_or(u32::MAX),
            started: process.id,
            version: None,
        };
        let network = self.network.clone();
        let is_gone = move |other: &Host| other.boot_id == machine && !network.lives(other.started);
        let process_of_the_node = turnwise_executor::Process { host, is_gone: Arc::new(is_gone) };
        let connect = move || {
            let connected = Connected::to(Arc::new(store.clone()));
            Box::pin(async move { Ok::<_, StoreError>(connected) }) as _
        };
        let executor = Builder::new(Arc::new(connect), config(plan))
            .registry(task::registry(plan.tasks).expect("names of our own"))
            .state(Here { runs: self.runs.clone(), process: process.clone() })
            .trace(Trace::to_memory(self.trace.clone()))
            .simulated(process_of_the_node, Chance::new(self.plan.seed, 100 + process.id).number(), plan.page)
            .build()
            .expect("a good set-up");
        let executor = Arc::new(executor);
        let living = executor.clone();
        let running = tokio::spawn(Alive::new(process.clone(), async move { living.live_here().await }));
        *locked(&self.nodes[at]) = Some(Node { process, executor, running });
    }

    /// Waits until the node is gone; if it was killed, a line says so in the record.
    pub(super) async fn gone(&self, at: usize, process: &Process) {
        // Another fault may have struck it first, and it may be back already.
        let Some(node) = locked(&self.nodes[at]).take_if(|node| node.process.id == process.id) else { return };
        self.joined(&node.process.name, node.running.await);
        self.network.detach(&node.process);
        if node.process.is_killed() {
            self.network.note(format_args!("{} is dead", node.process.name));
            if let Some(killed) = self.last_incarnation(&self.plan.nodes[at].name) {
                self.record(json!({"event": "kill", "killed": killed}));
            }
        }
    }

    pub(super) fn last_incarnation(&self, name: &NodeName) -> Option<String> {
        let trace = locked(&self.trace);
        let text = std::str::from_utf8(&trace).ok()?;
        let joined = text
            .lines()
            .rev()
            .find(|line| line.contains(r#""event":"join""#) && line.contains(&format!(r#""node":"{name}""#)))?;
        let line: serde_json::Value = serde_json::from_str(joined).ok()?;
        line.get("incarnation")?.as_str().map(str::to_owned)
    }

    pub(super) fn process_of(&self, at: usize) -> Option<Arc<Process>> {
        locked(&self.nodes[at]).as_ref().map(|node| node.process.clone())
    }

    pub(super) fn executor_of(&self, at: usize) -> Option<Arc<Executor>> {
        locked(&self.nodes[at]).as_ref().map(|node| node.executor.clone())
    }

    pub(super) async fn stop_all(&self) {
        for at in 0..self.nodes.len() {
            let (Some(executor), Some(process)) = (self.executor_of(at), self.process_of(at)) else { continue };
            executor.stop().await;
            if tokio::time::timeout(ENOUGH, self.gone(at, &process)).await.is_err() {
                self.broken(format!("{} does not stop", self.plan.nodes[at].name));
            }
        }
    }
}

fn config(plan: &NodePlan) -> Config {
    let mut config = Config::new(plan.name.clone());
    config.core_pool_size = plan.slots;
    config.max_pool_size = Some(plan.slots + plan.more_slots);
    config.queue_capacity = plan.queue_capacity;
    config.batch_size = plan.batch_size;
    // All nodes serve the contest's queue in the last part of a run.
    config.queues = plan.queues.clone().map(|mut queues| {
        queues.insert(plan::contest_queue());
        queues
    });
    config.lease = plan.lease;
    config.poll_interval = Some(plan.poll_interval);
    config.cancel_grace = plan.cancel_grace;
    config.await_termination = plan.await_termination;
    config.dispatch = plan.dispatch;
    config
}
