//! The fleet: which nodes there are, what they know and have in hand, and which of them dispatches.

use std::collections::BTreeMap;

use askama::Template;
use serde::Deserialize;
use turnwise::Timestamp;

use crate::{
    call::Reply,
    page::{
        Visit,
        frame::Frame,
        jobs::{quoted, short},
        recipe::{Command, Recipe},
        shown::{Count, Shown},
        visit::{encoded, render},
    },
    problem::Problem,
};

/// A [`turnwise::wire::Node`].
#[derive(Debug, Deserialize)]
struct Node {
    name: String,
    incarnation: String,
    host: String,
    pid: u32,
    version: Option<String>,
    slots: u32,
    queues: Option<Vec<String>>,
    all_but: bool,
    tasks: Vec<String>,
    dispatcher: bool,
    state: String,
    beat_at: Timestamp,
    joined_at: Timestamp,
    lost_at: Option<Timestamp>,
    held: Option<u64>,
    held_jobs: Vec<String>,
    language: Option<String>,
    client: Option<String>,
}

impl Node {
    fn is_lost(&self) -> bool {
        self.state == "lost"
    }

    /// Where it lives, in words: a foreign worker says what it is.
    fn place(&self) -> String {
        let said: Vec<_> = [&self.language, &self.client].into_iter().flatten().map(String::as_str).collect();
        let program = if said.is_empty() { format!("process {}", self.pid) } else { said.join(", ") };
        format!("{}, {program}", self.host)
    }

    /// The queues it serves, in words.
    fn serves(&self) -> String {
        match (&self.queues, self.all_but) {
            (None, _) => "all queues".to_owned(),
            (Some(queues), true) => format!("all queues but {}", queues.join(", ")),
            (Some(queues), false) if queues.is_empty() => "no queue".to_owned(),
            (Some(queues), false) => queues.join(", "),
        }
    }
}

#[derive(Debug, Deserialize)]
struct Fleet {
    now: Timestamp,
    nodes: Vec<Node>,
}

/// A job in a node's hands.
#[derive(Debug, Deserialize)]
struct Held {
    node: Option<String>,
    state: String,
}

#[derive(Debug, Deserialize)]
struct Hands {
    jobs: Vec<Held>,
    next: Option<String>,
}

/// What a node has in hand.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    running: u64,
    scheduled: u64,
    at_least: bool,
}

impl Load {
    fn running(self) -> Count {
        Count { number: self.running, at_least: self.at_least }
    }

    fn scheduled(self) -> Count {
        Count { number: self.scheduled, at_least: self.at_least }
    }
}

/// A node, as a row.
struct Row {
    node: Node,
    load: Load,
    /// The jobs in its hands.
    jobs: String,
    /// Where the form is sent that drains it, or lets it go on; what the button says; and how it is done without the page. `None`: the caller may
    /// not.
    operate: Option<(String, &'static str, Recipe)>,
}

impl Row {
    fn held(&self) -> Vec<(&str, &str)> {
        self.node.held_jobs.iter().map(|id| (id.as_str(), short(id))).collect()
    }
}

#[derive(Template)]
#[template(path = "nodes.html")]
struct Nodes {
    frame: Frame,
    /// The token is limited: nodes are not its own.
    hidden: bool,
    living: Vec<Row>,
    lost: Vec<Row>,
    slots: u64,
    running: Count,
    dispatches: bool,
    recipe: Recipe,
}

/// Jobs in nodes' hands that are counted by node.
const HELD: &str = "1000";

pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    let frame = Frame::of(&visit, "nodes", "Nodes").json("nodes");
    let recipe = visit.table("listNodes", "", &[], Some(Command::new("nodes")));
    let hidden = visit.asker.caller.grant.is_limited();
    let (fleet, hands) = if hidden {
        (Fleet { now: frame.now, nodes: Vec::new() }, Hands { jobs: Vec::new(), next: None })
    } else {
        let fleet = visit.get("listNodes", "", &[]).await?;
        (fleet, visit.get("listJobs", "", &[("state", "scheduled,running"), ("limit", HELD)]).await?)
    };
    let mut loads: BTreeMap<&str, Load> = BTreeMap::new();
    let at_least = hands.next.is_some();
    for job in &hands.jobs {
        let load = loads.entry(job.node.as_deref().unwrap_or_default()).or_insert(Load { at_least, ..Load::default() });
        if job.state == "running" { load.running += 1 } else { load.scheduled += 1 }
    }
    let frame = frame.at(fleet.now);
    let row = |node: Node| {
        let load = loads.get(node.name.as_str()).copied().unwrap_or(Load { at_least, ..Load::default() });
        let jobs = frame.jobs(format!("state:scheduled,running node:{}", quoted(&node.name)));
        let operate = operate(&visit, &node);
        Row { load, jobs, operate, node }
    };
    let (lost, living): (Vec<_>, Vec<_>) = fleet.nodes.into_iter().map(row).partition(|row| row.node.is_lost());
    let slots = living.iter().map(|row| u64::from(row.node.slots)).sum();
    let running = Count { number: living.iter().map(|row| row.load.running).sum(), at_least };
    let dispatches = living.iter().any(|row| row.node.dispatcher);
    render(&Nodes { frame, hidden, living, lost, slots, running, dispatches, recipe })
}

fn operate(visit: &Visit, node: &Node) -> Option<(String, &'static str, Recipe)> {
    let (route, verb, command, label) = match node.state.as_str() {
        "alive" => ("drainNode", "drain", "node drain", "Drain"),
        "drained" => ("resumeNode", "resume", "node resume", "Take jobs again"),
        _ => return None,
    };
    let recipe = || visit.action(route, &node.name, None, Some(Command::new(command).value(&node.name)));
    visit.may(route).then(|| (format!("nodes/{}/{verb}", encoded(&node.name)), label, recipe()))
}
