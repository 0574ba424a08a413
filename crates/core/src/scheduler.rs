//! Who runs what, where: a value that is told what happened and answers what to do.
//!
//! [`Scheduler::handle`] takes an [`Input`] and the database's time and returns [`Output`]s. It is a cache of the
//! store: everything it holds came from there, and nothing it says is true before the store has agreed
//! ([`Input::Replied`]). Losing it loses nothing.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap, VecDeque},
    time::Duration,
};

use crate::{
    job::{Class, Fence, JobHead, JobId, State},
    lifecycle::ALONE_CRASHES,
    name::{GroupName, QueueName, TaskName},
    node::{Incarnation, Node},
    time::Timestamp,
    turn::{Ring, Scheme, Served},
};

/// Work a node may hold beyond its slots, as time per slot: enough to bridge a round trip, too little to hoard.
const PREFETCH: Duration = Duration::from_millis(50);
/// What a task is taken to cost before it has run once: so long that nothing is prefetched on a guess.
const UNKNOWN_COST: Duration = Duration::from_secs(1);
/// First and longest wait for a row that somebody else's transaction holds.
const LOCKED_FIRST: Duration = Duration::from_millis(20);
const LOCKED_LONGEST: Duration = Duration::from_secs(1);

/// What happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// Rows as they stand: new, changed or read again.
    Jobs(Vec<JobHead>),
    /// Jobs that are no longer there.
    Gone(Vec<JobId>),
    /// The store has written how these left their nodes' hands.
    Settled(Vec<Settled>),
    /// The nodes that live; the others are gone.
    Nodes(Vec<Node>),
    /// The store's word on an [`Output::Assign`].
    Replied(Vec<(JobId, Reply)>),
    /// The backlog is (not) being read: while it is, an empty scheduler does not mean an empty store.
    Loading(bool),
    /// Time has passed.
    Tick,
}

/// A job that left its node's hands.
#[derive(Debug, Clone)]
pub struct Settled {
    pub id: JobId,
    pub fence: Fence,
    /// How long it ran, if it did.
    pub ran: Option<Duration>,
    /// Where it rests; `None`: it has ended.
    pub rest: Option<Rest>,
}

/// An unfinished job out of a node's hands.
#[derive(Debug, Clone, Copy)]
pub struct Rest {
    pub stuck: bool,
    pub due: Option<Timestamp>,
    pub crashes: u32,
}

/// What became of one pick.
#[derive(Debug, Clone)]
pub enum Reply {
    Assigned(Fence),
    /// Somebody's transaction holds the row.
    Locked,
    /// It is not what it was when it was picked.
    Changed(JobHead),
    Gone,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    Assign(Vec<Pick>),
    /// Call again at this time at the latest.
    WakeAt(Timestamp),
}

/// This job, as it was at this fence, to this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick {
    pub job: JobId,
    pub fence: Fence,
    pub node: Incarnation,
}

/// How much there is, by what holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pending {
    /// Could run now, or is on its way to a node.
    pub ready: usize,
    /// In the hands of nodes.
    pub in_flight: usize,
    /// Will be due by itself.
    pub future: usize,
    /// No live node can run them.
    pub unknown: usize,
    /// Stuck until a person decides.
    pub manual: usize,
    pub loading: bool,
}

impl Pending {
    /// Nothing is left that time alone would bring to a node.
    pub fn drained(&self) -> bool {
        !self.loading && self.ready + self.in_flight + self.future == 0
    }
}

/// Index into one of the scheduler's tables; names are kept once.
type Index = u32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In its group's lane, or among the suspects.
    Ready,
    /// Not due yet, or held by a lock until then.
    Future(Timestamp),
    /// Stuck without a due time.
    Manual,
    /// Waits for its node to be empty.
    Reserved(Index),
    /// Picked; the store has not answered.
    Picked(Index),
    /// In a node's hands. `None`: a node we do not know (lost, not yet settled).
    Assigned(Option<Index>),
}

#[derive(Debug)]
struct Entry {
    kind: Index,
    group: Index,
    seq: i64,
    fence: Fence,
    priority: u8,
    stuck: bool,
    crashes: u32,
    due: Timestamp,
    locked: u8,
    /// What its run is expected to cost, as added to its node's load.
    cost: Duration,
    place: Place,
}

/// A queue and a task: what a node must serve and know.
#[derive(Debug)]
struct Kind {
    queue: QueueName,
    task: TaskName,
    cost: Option<Duration>,
    /// Entries that no node can run are not waited for.
    runnable: bool,
}

#[derive(Debug)]
struct Group {
    queue: Index,
    lanes: Vec<(Index, Lane)>,
    /// Picks so far, for the counting scheme.
    count: u32,
    in_ring: bool,
}

/// Ready jobs of one kind in one group. Entries are not removed from the middle: a job that left is recognised by
/// its place or its fence when it comes up.
#[derive(Debug, Default)]
struct Lane {
    stuck: BinaryHeap<Reverse<(Timestamp, i64, JobId, Fence)>>,
    high: BinaryHeap<Reverse<Rank>>,
    low: BinaryHeap<Reverse<Rank>>,
}

/// Order within a class: priority, due time, submission.
type Rank = (u8, Timestamp, i64, JobId, Fence);

#[derive(Debug)]
struct Queue {
    ring: Ring<Index>,
    in_ring: bool,
}

#[derive(Debug)]
struct Seat {
    node: Node,
    alive: bool,
    in_flight: u32,
    load: Duration,
    /// A suspect runs here alone, or the node drains for it.
    suspect: Option<JobId>,
    can_run: Vec<bool>,
}

impl Seat {
    fn has_room(&self) -> bool {
        if !self.alive || self.suspect.is_some() {
            return false;
        }
        let slots = self.node.slots;
        self.in_flight < slots
            || (slots > 0
                && self.in_flight - slots < self.node.queue_capacity
                && self.load < PREFETCH.saturating_mul(slots))
    }

    /// Less is freer; compares nodes of different sizes.
    fn fullness(&self) -> u64 {
        u64::from(self.in_flight) * 1_000 / u64::from(self.node.slots.max(1))
    }
}

#[derive(Debug)]
pub struct Scheduler {
    scheme: Scheme,
    batch: usize,
    jobs: HashMap<JobId, Entry>,
    future: BinaryHeap<Reverse<(Timestamp, JobId, Fence)>>,
    suspects: VecDeque<JobId>,
    kinds: Vec<Kind>,
    kind_index: HashMap<(QueueName, TaskName), Index>,
    groups: Vec<Group>,
    group_index: HashMap<(Index, GroupName), Index>,
    queues: Vec<Queue>,
    queue_index: HashMap<QueueName, Index>,
    queue_ring: Ring<Index>,
    seats: Vec<Seat>,
    seat_index: BTreeMap<Incarnation, Index>,
    loading: bool,
}

impl Scheduler {
    /// `batch` bounds the picks of one [`Output::Assign`].
    pub fn new(scheme: Scheme, batch: usize) -> Self {
        Self {
            scheme,
            batch: batch.max(1),
            jobs: HashMap::new(),
            future: BinaryHeap::new(),
            suspects: VecDeque::new(),
            kinds: Vec::new(),
            kind_index: HashMap::new(),
            groups: Vec::new(),
            group_index: HashMap::new(),
            queues: Vec::new(),
            queue_index: HashMap::new(),
            queue_ring: Ring::new(),
            seats: Vec::new(),
            seat_index: BTreeMap::new(),
            loading: false,
        }
    }

    /// Takes in what happened and says what to do. At most one [`Output::Assign`] is on its way at a time: the next
    /// comes after its [`Input::Replied`].
    pub fn handle(&mut self, now: Timestamp, input: Input) -> Vec<Output> {
        match input {
            Input::Jobs(heads) => heads.into_iter().for_each(|head| self.take_in(now, head)),
            Input::Gone(ids) => ids.into_iter().for_each(|id| self.forget(id)),
            Input::Settled(settled) => settled.into_iter().for_each(|settled| self.settle(now, settled)),
            Input::Nodes(nodes) => self.see_nodes(nodes),
            Input::Replied(replies) => replies.into_iter().for_each(|(id, reply)| self.reply(now, id, reply)),
            Input::Loading(loading) => self.loading = loading,
            Input::Tick => {}
        }
        self.release_due(now);
        let picks = self.pick_batch();
        let mut outputs = Vec::new();
        if !picks.is_empty() {
            outputs.push(Output::Assign(picks));
        }
        if let Some(Reverse((due, _, _))) = self.future.peek() {
            outputs.push(Output::WakeAt(*due));
        }
        outputs
    }

    /// Counts by what holds the jobs. Walks all of them: for tests, overviews and the end of a drain, not for the hot path.
    pub fn pending(&self) -> Pending {
        let mut pending = Pending { loading: self.loading, ..Pending::default() };
        for entry in self.jobs.values() {
            let count = match entry.place {
                Place::Assigned(_) => &mut pending.in_flight,
                Place::Manual => &mut pending.manual,
                _ if !self.kinds[entry.kind as usize].runnable => &mut pending.unknown,
                Place::Future(_) => &mut pending.future,
                Place::Ready | Place::Reserved(_) | Place::Picked(_) => &mut pending.ready,
            };
            *count += 1;
        }
        pending
    }

    /// Whether the scheduler knows of no unfinished job at all.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty() && !self.loading
    }

    // --- taking in -------------------------------------------------------------------------------------------

    fn take_in(&mut self, now: Timestamp, head: JobHead) {
        if let Some(entry) = self.jobs.get(&head.id) {
            // Within one fence a job goes from a node's hands to rest and never back, so older news is recognised.
            let at_rest = !matches!(entry.place, Place::Assigned(_));
            // A pick is with the store, whose answer is newer than anything that reads like the moment it was made.
            let picked = matches!(entry.place, Place::Picked(_));
            if head.fence < entry.fence || (head.fence == entry.fence && (picked || at_rest && head.state.assigned())) {
                return;
            }
            self.leave_place(head.id);
        }
        let kind = self.kind(&head.queue, &head.task);
        let group = self.group(&head.queue, &head.group);
        let due = head.due.unwrap_or(Timestamp::MAX);
        let entry = Entry {
            kind,
            group,
            seq: head.seq,
            fence: head.fence,
            priority: head.priority.get(),
            stuck: head.state == State::Stuck,
            crashes: head.crashes,
            due,
            locked: 0,
            cost: Duration::ZERO,
            place: Place::Manual,
        };
        self.jobs.insert(head.id, entry);
        if head.state.assigned() {
            let seat = head.node.and_then(|node| self.seat_index.get(&node).copied());
            self.enter_node(head.id, seat, Place::Assigned(seat));
        } else if head.due.is_some() {
            self.put_by_due(now, head.id, due);
        }
    }

    /// Ready when due, else into the future.
    fn put_by_due(&mut self, now: Timestamp, id: JobId, due: Timestamp) {
        if due > now {
            let entry = self.jobs.get_mut(&id).expect("just placed");
            entry.place = Place::Future(due);
            self.future.push(Reverse((due, id, entry.fence)));
        } else {
            self.put_ready(id);
        }
    }

    fn put_ready(&mut self, id: JobId) {
        let entry = self.jobs.get_mut(&id).expect("known job");
        entry.place = Place::Ready;
        if entry.crashes >= ALONE_CRASHES {
            self.suspects.push_back(id);
            return;
        }
        let group_index = entry.group;
        let group = &mut self.groups[group_index as usize];
        let lane = match group.lanes.iter().position(|(kind, _)| *kind == entry.kind) {
            Some(at) => &mut group.lanes[at].1,
            None => {
                group.lanes.push((entry.kind, Lane::default()));
                &mut group.lanes.last_mut().expect("just pushed").1
            }
        };
        if entry.stuck {
            lane.stuck.push(Reverse((entry.due, entry.seq, id, entry.fence)));
        } else {
            let rank = Reverse((entry.priority, entry.due, entry.seq, id, entry.fence));
            if entry.priority <= 5 { lane.high.push(rank) } else { lane.low.push(rank) }
        }
        if !group.in_ring {
            group.in_ring = true;
            let queue_index = group.queue;
            let queue = &mut self.queues[queue_index as usize];
            queue.ring.join(group_index);
            if !queue.in_ring {
                queue.in_ring = true;
                self.queue_ring.join(queue_index);
            }
        }
    }

    fn forget(&mut self, id: JobId) {
        if self.jobs.contains_key(&id) {
            self.leave_place(id);
            self.jobs.remove(&id);
        }
    }

    /// Gives back what the job's place held: a node's room. Lanes and the future drop it when it comes up.
    fn leave_place(&mut self, id: JobId) {
        let entry = self.jobs.get_mut(&id).expect("known job");
        let seat = match entry.place {
            Place::Picked(seat) | Place::Assigned(Some(seat)) => {
                let seat = &mut self.seats[seat as usize];
                seat.in_flight -= 1;
                seat.load = seat.load.saturating_sub(entry.cost);
                seat
            }
            Place::Reserved(seat) => &mut self.seats[seat as usize],
            Place::Ready | Place::Future(_) | Place::Manual | Place::Assigned(None) => return,
        };
        if seat.suspect == Some(id) {
            seat.suspect = None;
        }
    }

    fn enter_node(&mut self, id: JobId, seat: Option<Index>, place: Place) {
        let entry = self.jobs.get_mut(&id).expect("known job");
        entry.place = place;
        if let Some(seat) = seat {
            let seat = &mut self.seats[seat as usize];
            entry.cost = self.kinds[entry.kind as usize].cost.unwrap_or(UNKNOWN_COST);
            seat.in_flight += 1;
            seat.load += entry.cost;
            if entry.crashes >= ALONE_CRASHES {
                seat.suspect = Some(id);
            }
        }
    }

    fn settle(&mut self, now: Timestamp, settled: Settled) {
        let Settled { id, fence, ran, rest } = settled;
        let Some(entry) = self.jobs.get(&id) else { return };
        if let Some(ran) = ran {
            let kind = &mut self.kinds[entry.kind as usize];
            // A moving average over about eight runs: quick to follow, slow to be fooled by one.
            kind.cost = Some(kind.cost.map_or(ran, |cost| (cost * 7 + ran) / 8));
        }
        if entry.fence > fence {
            return;
        }
        let Some(rest) = rest else { return self.forget(id) };
        self.leave_place(id);
        let entry = self.jobs.get_mut(&id).expect("found above");
        entry.fence = fence;
        entry.stuck = rest.stuck;
        entry.crashes = rest.crashes;
        entry.due = rest.due.unwrap_or(Timestamp::MAX);
        entry.place = Place::Manual;
        if let Some(due) = rest.due {
            self.put_by_due(now, id, due);
        }
    }

    fn see_nodes(&mut self, nodes: Vec<Node>) {
        for seat in &mut self.seats {
            seat.alive = false;
        }
        for node in nodes {
            let can_run = self.kinds.iter().map(|kind| node.can_run(&kind.queue, &kind.task)).collect();
            match self.seat_index.get(&node.incarnation) {
                Some(&at) => {
                    let seat = &mut self.seats[at as usize];
                    seat.alive = true;
                    seat.can_run = can_run;
                    seat.node = node;
                }
                None => {
                    self.seat_index.insert(node.incarnation, index(self.seats.len()));
                    self.seats.push(Seat {
                        node,
                        alive: true,
                        in_flight: 0,
                        load: Duration::ZERO,
                        suspect: None,
                        can_run,
                    });
                }
            }
        }
        // A suspect that waited for a node that is gone waits for another.
        for at in 0..self.seats.len() {
            let seat = &mut self.seats[at];
            if !seat.alive
                && let Some(id) = seat.suspect
                && matches!(self.jobs.get(&id), Some(entry) if entry.place == Place::Reserved(index(at)))
            {
                seat.suspect = None;
                self.put_ready(id);
            }
        }
        self.forget_empty_seats();
        for kind in 0..self.kinds.len() {
            self.kinds[kind].runnable = self.seats.iter().any(|seat| seat.alive && seat.can_run[kind]);
        }
    }

    /// A node that has left and holds nothing is nobody any more. Only the last seats go, so indexes stay true.
    fn forget_empty_seats(&mut self) {
        while let Some(seat) = self.seats.last() {
            if seat.alive || seat.in_flight > 0 || seat.suspect.is_some() {
                break;
            }
            self.seat_index.remove(&seat.node.incarnation);
            self.seats.pop();
        }
    }

    fn reply(&mut self, now: Timestamp, id: JobId, reply: Reply) {
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        let Place::Picked(seat) = entry.place else { return };
        match reply {
            Reply::Assigned(fence) => {
                entry.fence = fence;
                entry.locked = 0;
                entry.place = Place::Assigned(Some(seat));
            }
            Reply::Locked => {
                entry.locked = entry.locked.saturating_add(1);
                let wait = LOCKED_FIRST.saturating_mul(1 << entry.locked.min(10)).min(LOCKED_LONGEST);
                self.leave_place(id);
                self.put_by_due(now, id, now.plus(wait));
            }
            Reply::Changed(head) => {
                self.forget(id);
                self.take_in(now, head);
            }
            Reply::Gone => self.forget(id),
        }
    }

    fn release_due(&mut self, now: Timestamp) {
        while let Some(&Reverse((due, id, fence))) = self.future.peek() {
            let current =
                matches!(self.jobs.get(&id), Some(entry) if entry.fence == fence && entry.place == Place::Future(due));
            if current && due > now {
                break;
            }
            self.future.pop();
            if current {
                self.put_ready(id);
            }
        }
    }

    // --- choosing --------------------------------------------------------------------------------------------

    fn pick_batch(&mut self) -> Vec<Pick> {
        let mut picks = Vec::new();
        self.reserve_for_a_suspect();
        self.start_reserved_suspects(&mut picks);
        let mut seats: Vec<Index> =
            (0..index(self.seats.len())).filter(|&seat| self.seats[seat as usize].has_room()).collect();
        while picks.len() < self.batch
            && let Some(at) = (0..seats.len()).min_by_key(|&at| self.seats[seats[at] as usize].fullness())
        {
            let seat = seats[at];
            match self.pick_for(seat) {
                Some(id) => picks.push(self.hand_over(id, seat)),
                None => drop(seats.swap_remove(at)),
            }
            if let Some(at) = seats.iter().position(|&other| other == seat)
                && !self.seats[seat as usize].has_room()
            {
                seats.swap_remove(at);
            }
        }
        picks
    }

    fn hand_over(&mut self, id: JobId, seat: Index) -> Pick {
        let fence = self.jobs[&id].fence;
        self.enter_node(id, Some(seat), Place::Picked(seat));
        Pick { job: id, fence, node: self.seats[seat as usize].node.incarnation }
    }

    /// One node at a time drains for one suspect, so that a handful of them cannot stop the fleet.
    fn reserve_for_a_suspect(&mut self) {
        if self.suspects.is_empty() || self.seats.iter().any(|seat| seat.suspect.is_some()) {
            return;
        }
        let mut left = self.suspects.len();
        while left > 0
            && let Some(id) = self.suspects.pop_front()
        {
            left -= 1;
            let Some(entry) = self.jobs.get_mut(&id).filter(|entry| entry.place == Place::Ready) else { continue };
            let freest = (0..self.seats.len())
                .filter(|&at| {
                    self.seats[at].alive && self.seats[at].node.slots > 0 && self.seats[at].can_run[entry.kind as usize]
                })
                .min_by_key(|&at| self.seats[at].in_flight);
            match freest {
                Some(at) => {
                    entry.place = Place::Reserved(index(at));
                    self.seats[at].suspect = Some(id);
                    return;
                }
                None => self.suspects.push_back(id),
            }
        }
    }

    fn start_reserved_suspects(&mut self, picks: &mut Vec<Pick>) {
        for at in 0..self.seats.len() {
            let seat = &self.seats[at];
            if let Some(id) = seat.suspect
                && seat.in_flight == 0
                && self.jobs.get(&id).is_some_and(|entry| entry.place == Place::Reserved(index(at)))
            {
                picks.push(self.hand_over(id, index(at)));
            }
        }
    }

    /// The next queue in turn, its next group in turn, that group's next job that this node can run.
    fn pick_for(&mut self, seat: Index) -> Option<JobId> {
        let Self { queue_ring, queues, groups, jobs, seats, scheme, .. } = self;
        let can_run = &seats[seat as usize].can_run;
        queue_ring.serve(|queue| {
            let queue = &mut queues[queue as usize];
            let picked = queue.ring.serve(|group| {
                let group = &mut groups[group as usize];
                let served = group.pick(*scheme, jobs, can_run);
                group.in_ring = !matches!(served, Served::Empty | Served::Some { more: false, .. });
                served
            });
            queue.in_ring = !queue.ring.is_empty();
            match picked {
                Some(value) => Served::Some { value, more: queue.in_ring },
                None if queue.in_ring => Served::Blocked,
                None => Served::Empty,
            }
        })
    }

    // --- names -----------------------------------------------------------------------------------------------

    fn kind(&mut self, queue: &QueueName, task: &TaskName) -> Index {
        if let Some(&known) = self.kind_index.get(&(queue.clone(), task.clone())) {
            return known;
        }
        let at = index(self.kinds.len());
        for seat in &mut self.seats {
            seat.can_run.push(seat.node.can_run(queue, task));
        }
        let runnable = self.seats.iter().any(|seat| seat.alive && seat.can_run[at as usize]);
        self.kinds.push(Kind { queue: queue.clone(), task: task.clone(), cost: None, runnable });
        self.kind_index.insert((queue.clone(), task.clone()), at);
        at
    }

    fn group(&mut self, queue: &QueueName, group: &GroupName) -> Index {
        let queue = match self.queue_index.get(queue) {
            Some(&known) => known,
            None => {
                let at = index(self.queues.len());
                self.queues.push(Queue { ring: Ring::new(), in_ring: false });
                self.queue_index.insert(queue.clone(), at);
                at
            }
        };
        if let Some(&known) = self.group_index.get(&(queue, group.clone())) {
            return known;
        }
        let at = index(self.groups.len());
        self.groups.push(Group { queue, lanes: Vec::new(), count: 0, in_ring: false });
        self.group_index.insert((queue, group.clone()), at);
        at
    }
}

impl Group {
    /// Due stuck jobs first, whatever the hint; then the class the scheme prefers, then the other one.
    fn pick(&mut self, scheme: Scheme, jobs: &HashMap<JobId, Entry>, can_run: &[bool]) -> Served<JobId> {
        for (_, lane) in &mut self.lanes {
            lane.drop_stale(jobs);
        }
        self.lanes.retain(|(_, lane)| !lane.is_empty());
        let picked = self.take_stuck(can_run).or_else(|| {
            let preferred = scheme.preferred(self.count);
            let picked = self.take_class(preferred, can_run).or_else(|| self.take_class(preferred.other(), can_run));
            self.count = self.count.wrapping_add(u32::from(picked.is_some()));
            picked
        });
        match picked {
            Some(value) => Served::Some { value, more: self.lanes.iter().any(|(_, lane)| !lane.is_empty()) },
            None if self.lanes.is_empty() => Served::Empty,
            None => Served::Blocked,
        }
    }

    fn take_stuck(&mut self, can_run: &[bool]) -> Option<JobId> {
        let lanes = self.lanes.iter_mut().filter(|(kind, _)| can_run[*kind as usize]).map(|(_, lane)| lane);
        let lane = lanes
            .filter(|lane| !lane.stuck.is_empty())
            .min_by_key(|lane| lane.stuck.peek().map(|Reverse(first)| *first))?;
        lane.stuck.pop().map(|Reverse((_, _, id, _))| id)
    }

    fn take_class(&mut self, class: Class, can_run: &[bool]) -> Option<JobId> {
        let lanes =
            self.lanes.iter_mut().filter(|(kind, _)| can_run[*kind as usize]).map(|(_, lane)| lane.class(class));
        let heap = lanes.filter(|heap| !heap.is_empty()).min_by_key(|heap| heap.peek().map(|Reverse(first)| *first))?;
        heap.pop().map(|Reverse((_, _, _, id, _))| id)
    }
}

impl Lane {
    fn class(&mut self, class: Class) -> &mut BinaryHeap<Reverse<Rank>> {
        match class {
            Class::High => &mut self.high,
            Class::Low => &mut self.low,
        }
    }

    fn is_empty(&self) -> bool {
        self.stuck.is_empty() && self.high.is_empty() && self.low.is_empty()
    }

    fn drop_stale(&mut self, jobs: &HashMap<JobId, Entry>) {
        let stale = |id: &JobId, fence: Fence, due: Timestamp| {
            !jobs.get(id).is_some_and(|entry| entry.place == Place::Ready && entry.fence == fence && entry.due == due)
        };
        while self.stuck.peek().is_some_and(|Reverse((due, _, id, fence))| stale(id, *fence, *due)) {
            self.stuck.pop();
        }
        for heap in [&mut self.high, &mut self.low] {
            while heap.peek().is_some_and(|Reverse((_, due, _, id, fence))| stale(id, *fence, *due)) {
                heap.pop();
            }
        }
    }
}

impl Class {
    fn other(self) -> Class {
        match self {
            Class::High => Class::Low,
            Class::Low => Class::High,
        }
    }
}

fn index(length: usize) -> Index {
    Index::try_from(length).expect("fewer than four billion names and nodes")
}
