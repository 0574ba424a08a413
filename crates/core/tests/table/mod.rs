//! A scheduler at a table: a store that always agrees, and the order in which jobs were given out.

#![allow(dead_code, unreachable_pub)] // each test file uses its part

use std::{collections::HashMap, time::Duration};

use turnwise_core::{
    Fence, GroupName, Incarnation, JobHead, JobId, JobState, Node, NodeName, Priority, QueueName, Serves, TaskName,
    Timestamp,
    node::Host,
    scheduler::{Input, Output, Pick, Reply, Rest, Scheduler, Settled},
    settings::{InstallationSettings, Settings},
    turn::Scheme,
};
use uuid::Uuid;

pub fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(0).plus(Duration::from_secs(seconds))
}

pub fn node(number: u128, slots: u32, tasks: &[&str]) -> Node {
    Node {
        incarnation: Incarnation(Uuid::from_u128(number)),
        name: NodeName::new(format!("n{number}")).unwrap(),
        host: Host {
            name: "h".into(),
            boot_id: "b".into(),
            pid_namespace: "p".into(),
            pid: 1,
            started: 1,
            version: None,
        },
        slots,
        queue_capacity: 0,
        batch_size: None,
        queues: Serves::All,
        tasks: tasks.iter().map(|task| TaskName::new(task).unwrap()).collect(),
        joined_at: at(0),
        lease: std::time::Duration::from_secs(5),
        lease_until: at(1_000_000),
        lost: false,
        dispatcher: false,
    }
}

pub fn head(number: i64, group: &str) -> JobHead {
    JobHead {
        id: JobId::from_uuid(Uuid::from_u128(number as u128)),
        seq: number,
        task: TaskName::new("t").unwrap(),
        queue: QueueName::default(),
        group: GroupName::new(group).unwrap(),
        priority: Priority::default(),
        state: JobState::Waiting,
        due: Some(at(0)),
        fence: Fence(0),
        crashes: 0,
        node: None,
        key: None,
        submitted_at: at(0),
        expires: None,
        args_bytes: 0,
        awaits: None,
    }
}

/// A scheduler, a store that always agrees, and the order in which jobs were given out.
pub struct Table {
    pub scheduler: Scheduler,
    pub now: Timestamp,
    pub groups: HashMap<JobId, JobHead>,
    pub order: Vec<Pick>,
    pub wake_at: Option<Timestamp>,
    pub pauses: Vec<QueueName>,
    pub read_again: bool,
}

impl Table {
    pub fn new(scheme: Scheme, nodes: Vec<Node>) -> Self {
        let mut table = Self {
            scheduler: Scheduler::new(1_000),
            now: at(1),
            groups: HashMap::new(),
            order: Vec::new(),
            wake_at: None,
            pauses: Vec::new(),
            read_again: false,
        };
        let installation = InstallationSettings { scheme, ..InstallationSettings::default() };
        table.tell(Input::Settings(Settings { installation, ..Settings::default() }));
        table.tell(Input::Nodes(nodes));
        table
    }

    pub fn one_slot() -> Self {
        Self::new(Scheme::default(), vec![node(1, 1, &["t"])])
    }

    /// Passes on the input; every pick is answered with "assigned".
    pub fn tell(&mut self, input: Input) -> Vec<Pick> {
        if let Input::Jobs(heads) = &input {
            self.groups.extend(heads.iter().map(|head| (head.id, head.clone())));
        }
        let mut outputs = self.scheduler.handle(self.now, input);
        let mut picked = Vec::new();
        loop {
            let mut picks = Vec::new();
            self.wake_at = None;
            for output in outputs {
                match output {
                    Output::Assign(batch) => picks = batch,
                    Output::WakeAt(at) => self.wake_at = Some(at),
                    Output::Pause { queue, .. } => self.pauses.push(queue),
                    Output::ReadAgain => self.read_again = true,
                    Output::Expire(_) | Output::Review(_) => {}
                }
            }
            if picks.is_empty() {
                self.order.extend(picked.iter().cloned());
                return picked;
            }
            let replies = picks.iter().map(|pick| (pick.job, pick.fence, Reply::Assigned(pick.fence.next()))).collect();
            picked.extend(picks);
            outputs = self.scheduler.handle(self.now, Input::Replied(replies));
        }
    }

    pub fn settle(&mut self, pick: &Pick, ran: Duration, rest: Option<Rest>) -> Vec<Pick> {
        self.tell(Input::Settled(vec![Settled {
            id: pick.job,
            fence: pick.fence.next(),
            ran: Some(ran),
            rest,
            failed: false,
            well: true,
            error: None,
        }]))
    }

    /// Runs all jobs to their end, one after the other, and returns the order in which they ran.
    pub fn drain(&mut self) -> Vec<i64> {
        let mut at = 0;
        while at < self.order.len() {
            let pick = self.order[at].clone();
            self.settle(&pick, Duration::from_secs(1), None);
            at += 1;
        }
        self.order.iter().map(|pick| self.groups[&pick.job].seq).collect()
    }
}
