//! A fleet in virtual time: groups with work, nodes that run what they are given one after the other, and a store that
//! always agrees. It keeps its own books, as simply as possible, and checks every pick against them.

#![allow(dead_code, unreachable_pub)] // each test file uses its part

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    time::Duration,
};

use turnwise_core::{
    Fence, GroupName, Incarnation, JobHead, JobId, JobState, Node, QueueName, TaskName, Timestamp,
    scheduler::{Input, Output, Pick, Reply, Rest, Scheduler, Settled},
    settings::{Fairness, GroupSettings, Pause, QueueSettings, Settings, Weight},
};

use crate::table::{at, head};

/// The longest a dispatcher sleeps.
const POLL: Duration = Duration::from_secs(1);

/// What a group is like: how long its runs take and how they end, by lists that are repeated over and over.
#[derive(Debug, Clone)]
pub struct Member {
    pub weight: Weight,
    pub task: &'static str,
    pub costs: Vec<Duration>,
    pub fails: Vec<bool>,
}

impl Member {
    pub fn new(weight: f64, costs: impl IntoIterator<Item = Duration>) -> Self {
        let weight = Weight::try_from(weight).unwrap();
        Self { weight, task: "t", costs: costs.into_iter().collect(), fails: vec![false] }
    }
}

/// A group's side of the books.
#[derive(Debug, Clone, Default)]
pub struct Books {
    /// Slot time of its runs that have ended, or were lost.
    pub served: Duration,
    pub longest: Duration,
    /// Jobs in nodes' hands.
    pub held: usize,
    pub most_held: usize,
    /// How often it was its turn.
    pub turns: usize,
    /// Jobs that are due and in no node's hands.
    pub ready: usize,
    later: BinaryHeap<Reverse<Timestamp>>,
    begun: usize,
    ended: usize,
    pub finished: usize,
    pub limit: Option<u32>,
    pub paused: bool,
}

impl Books {
    pub fn gate_open(&self) -> bool {
        !self.paused && self.limit.is_none_or(|limit| self.held < limit as usize)
    }

    /// It has a job that would start if there were a slot.
    pub fn runnable(&self) -> bool {
        self.ready > 0 && self.gate_open()
    }

    pub fn is_empty(&self) -> bool {
        self.ready + self.held + self.later.len() == 0
    }
}

struct Row {
    head: JobHead,
    group: usize,
    /// Since when it runs.
    started: Option<Timestamp>,
}

struct Seat {
    node: Node,
    alive: bool,
    buffer: VecDeque<JobId>,
    running: Vec<JobId>,
}

/// When, a number that breaks ties, which job at which fence.
type End = (Timestamp, u64, JobId, Fence);

pub struct Fleet {
    pub scheduler: Scheduler,
    pub now: Timestamp,
    pub members: Vec<Member>,
    pub books: Vec<Books>,
    rows: HashMap<JobId, Row>,
    seats: Vec<Seat>,
    ends: BinaryHeap<Reverse<End>>,
    wake_at: Option<Timestamp>,
    poll_at: Timestamp,
    settings: Settings,
    numbers: i64,
    count: u64,
    ended: u64,
    /// The group of every start, in order.
    pub starts: Vec<usize>,
}

pub fn group_name(group: usize) -> GroupName {
    GroupName::new(format!("g{group}")).unwrap()
}

impl Fleet {
    pub fn new(members: Vec<Member>, nodes: Vec<Node>, fairness: Fairness) -> Self {
        let now = at(10);
        let mut settings = Settings::default();
        settings.queues.insert(QueueName::default(), QueueSettings { fairness, ..QueueSettings::default() });
        for (group, member) in members.iter().enumerate() {
            let set = GroupSettings { weight: member.weight, ..GroupSettings::default() };
            settings.groups.insert(group_name(group), set);
        }
        let seats = nodes
            .iter()
            .map(|node| Seat { node: node.clone(), alive: true, buffer: VecDeque::new(), running: Vec::new() })
            .collect();
        let mut fleet = Self {
            scheduler: Scheduler::new(50),
            now,
            books: vec![Books::default(); members.len()],
            members,
            rows: HashMap::new(),
            seats,
            ends: BinaryHeap::new(),
            wake_at: None,
            poll_at: now.plus(POLL),
            settings: settings.clone(),
            numbers: 0,
            count: 0,
            ended: 0,
            starts: Vec::new(),
        };
        fleet.feed(Input::Settings(settings));
        fleet.feed(Input::Nodes(nodes));
        fleet
    }

    /// `count` jobs for each of these groups, in one reading.
    pub fn arrive(&mut self, jobs: &[(usize, usize)]) {
        let mut heads = Vec::new();
        for &(group, count) in jobs {
            for _ in 0..count {
                self.numbers += 1;
                let task = TaskName::new(self.members[group].task).unwrap();
                let head = JobHead { task, ..head(self.numbers, group_name(group).as_str()) };
                self.rows.insert(head.id, Row { head: head.clone(), group, started: None });
                heads.push(head);
            }
            self.books[group].ready += count;
        }
        self.feed(Input::Jobs(heads));
    }

    pub fn limit(&mut self, group: usize, limit: Option<u32>) {
        self.books[group].limit = limit;
        self.settings.groups.get_mut(&group_name(group)).unwrap().concurrency = limit;
        self.feed(Input::Settings(self.settings.clone()));
    }

    pub fn pause(&mut self, group: usize, paused: bool) {
        self.books[group].paused = paused;
        let pause = paused.then_some(Pause { since: self.now, reason: None });
        self.settings.groups.get_mut(&group_name(group)).unwrap().paused = pause;
        self.feed(Input::Settings(self.settings.clone()));
    }

    /// These nodes live. The dispatcher takes back the jobs of all others.
    pub fn live(&mut self, alive: impl Fn(usize) -> bool) {
        let mut lost = Vec::new();
        for at in 0..self.seats.len() {
            let seat = &mut self.seats[at];
            seat.alive = alive(at);
            if seat.alive {
                continue;
            }
            let jobs: Vec<JobId> = seat.running.drain(..).chain(seat.buffer.drain(..)).collect();
            for job in jobs {
                let row = self.rows.get_mut(&job).unwrap();
                row.head.fence = row.head.fence.next();
                row.head.state = JobState::Waiting;
                row.head.node = None;
                row.head.due = Some(self.now);
                let books = &mut self.books[row.group];
                // A run that is lost with its node has used its slot until then.
                books.served += row.started.take().map(|started| self.now.since(started)).unwrap_or_default();
                books.held -= 1;
                books.ready += 1;
                lost.push(row.head.clone());
            }
        }
        let nodes = self.seats.iter().filter(|seat| seat.alive).map(|seat| seat.node.clone()).collect();
        self.feed(Input::Nodes(nodes));
        self.feed(Input::Jobs(lost));
    }

    /// Performs the next thing that happens by itself before `until`; if there is none, time passes until then.
    pub fn advance(&mut self, until: Timestamp) -> bool {
        while let Some(&Reverse((at, _, job, fence))) = self.ends.peek() {
            if self.rows.get(&job).is_some_and(|row| row.head.fence == fence && row.started.is_some()) {
                if at > until.min(self.poll_at).min(self.wake_at.unwrap_or(until)) {
                    break;
                }
                self.ends.pop();
                self.now = at;
                self.end(job);
                return true;
            }
            // Its node was lost.
            self.ends.pop();
        }
        let next = self.poll_at.min(self.wake_at.unwrap_or(self.poll_at));
        if next > until {
            self.now = until;
            return false;
        }
        self.now = next;
        self.feed(Input::Tick);
        true
    }

    /// The next run ends.
    pub fn step(&mut self) {
        let ended = self.ended;
        while self.ended == ended {
            self.advance(Timestamp::MAX);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.books.iter().all(Books::is_empty)
    }

    /// A slot of a living node is free.
    pub fn slot_free(&self) -> bool {
        self.seats.iter().any(|seat| seat.alive && seat.running.len() < seat.node.slots as usize)
    }

    pub fn share(&self, group: usize) -> f64 {
        self.books[group].served.as_secs_f64() / f64::from(self.members[group].weight)
    }

    /// The most that a job of this group may have cost or have been charged so far.
    pub fn most(&self, group: usize) -> f64 {
        let task = self.members[group].task;
        let same = self.members.iter().zip(&self.books).filter(|(member, _)| member.task == task);
        let longest = same.map(|(_, books)| books.longest).max().unwrap_or_default();
        longest.max(Duration::from_millis(10)).as_secs_f64()
    }

    fn end(&mut self, job: JobId) {
        let row = self.rows.get_mut(&job).unwrap();
        let started = row.started.take().expect("it ran");
        let (group, fence, node) = (row.group, row.head.fence, row.head.node.take().expect("on a node"));
        let ran = self.now.since(started);
        let (member, books) = (&self.members[group], &mut self.books[group]);
        let failed = member.fails[books.ended % member.fails.len()];
        books.ended += 1;
        self.ended += 1;
        books.held -= 1;
        books.served += ran;
        let rest = failed.then(|| Rest { stuck: true, due: Some(self.now.plus(ran)), crashes: 0, next: None });
        match &rest {
            Some(rest) => {
                row.head.state = JobState::Stuck;
                row.head.due = rest.due;
                books.later.extend(rest.due.map(Reverse));
            }
            None => {
                books.finished += 1;
                self.rows.remove(&job);
            }
        }
        let at = self.seat(node);
        self.seats[at].running.retain(|running| *running != job);
        self.run(at);
        self.feed(Input::Settled(vec![Settled {
            id: job,
            fence,
            ran: Some(ran),
            rest,
            failed: false,
            well: true,
            error: None,
        }]));
    }

    fn seat(&self, node: Incarnation) -> usize {
        self.seats.iter().position(|seat| seat.node.incarnation == node).expect("a known node")
    }

    /// Begins the jobs in the node's buffer, as far as there are slots for them.
    fn run(&mut self, at: usize) {
        let seat = &mut self.seats[at];
        while seat.running.len() < seat.node.slots as usize
            && let Some(job) = seat.buffer.pop_front()
        {
            let row = self.rows.get_mut(&job).unwrap();
            let books = &mut self.books[row.group];
            let costs = &self.members[row.group].costs;
            let cost = costs[books.begun % costs.len()];
            books.begun += 1;
            books.longest = books.longest.max(cost);
            row.started = Some(self.now);
            self.starts.push(row.group);
            self.count += 1;
            self.ends.push(Reverse((self.now.plus(cost), self.count, job, row.head.fence)));
            seat.running.push(job);
        }
    }

    fn feed(&mut self, input: Input) {
        self.poll_at = self.now.plus(POLL);
        for books in &mut self.books {
            while books.later.peek().is_some_and(|Reverse(due)| *due <= self.now) {
                books.later.pop();
                books.ready += 1;
            }
        }
        let mut outputs = self.scheduler.handle(self.now, input);
        loop {
            self.wake_at = None;
            let mut picks = Vec::new();
            for output in outputs {
                match output {
                    Output::Assign(batch) => picks = batch,
                    Output::WakeAt(at) => self.wake_at = Some(at),
                    Output::Pause { .. } | Output::ReadAgain | Output::Expire(_) | Output::Review(_) => {}
                }
            }
            if picks.is_empty() {
                return;
            }
            let replies = picks.into_iter().map(|pick| self.assign(&pick)).collect();
            outputs = self.scheduler.handle(self.now, Input::Replied(replies));
        }
    }

    fn assign(&mut self, pick: &Pick) -> (JobId, Fence, Reply) {
        let at = self.seat(pick.node);
        let row = self.rows.get_mut(&pick.job).expect("a picked job exists");
        let books = &mut self.books[row.group];
        assert!(self.seats[at].alive, "picked for a node that is gone");
        assert!(!row.head.state.assigned() && row.head.fence == pick.fence, "picked twice: {:?}", row.head);
        assert!(row.head.due.is_some_and(|due| due <= self.now), "picked early: {:?}", row.head);
        assert!(!books.paused, "group {} is paused", row.group);
        assert!(books.gate_open(), "group {} has {} at work, its limit is {:?}", row.group, books.held, books.limit);
        let most = self.seats[at].node.slots + self.seats[at].node.queue_capacity;
        let held = self.seats[at].running.len() + self.seats[at].buffer.len();
        assert!(held < most as usize, "{held} jobs on a node of {most}");
        books.ready -= 1;
        books.held += 1;
        books.most_held = books.most_held.max(books.held);
        books.turns += 1;
        row.head.state = JobState::Scheduled;
        row.head.fence = row.head.fence.next();
        row.head.node = Some(pick.node);
        let reply = (pick.job, pick.fence, Reply::Assigned(row.head.fence));
        self.seats[at].buffer.push_back(pick.job);
        self.run(at);
        reply
    }
}
