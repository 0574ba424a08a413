//! The store as plain Rust: what every verb means, without a database in the way.
//!
//! One lock, one struct, no cleverness. Where a driver and this file disagree, the driver is wrong, or the promise in
//! [`crate::store`] is.

mod unique;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use turnwise_core::{
    After, Failure, Fence, GroupName, Incarnation, Job, JobHead, JobId, Json, KeyName, NewJob, Node, NodeName,
    OnFailure, Priority, QueueName, Retention, RetryPolicy, State, TaskName, Terms, Timestamp,
    after::Awaits,
    job::{AssignedJob, Counts},
    lead::Sight,
    lifecycle::{End, Target},
    story::{Attempt, MAX_ATTEMPTS, MAX_AWAITED_BY, Story},
    unique::{Holding, OnDuplicate},
};

use crate::{Bell, StoreError, after::Waiting, store::*};

/// The database's clock.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The machine's own.
    pub fn system() -> Self {
        Self::new(|| {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
        })
    }

    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

/// Jobs in memory: for tests, trials and the simulator.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    data: Arc<Mutex<Data>>,
    bell: Bell,
    clock: Clock,
    options: Options,
}

/// What a [`MemoryStore`] held at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot(Box<Data>);

/// Between two lineages, so that their epochs are far apart.
const LEAP: i64 = 100_000_007;

#[derive(Debug, Clone, Default)]
struct Data {
    lineage: Lineage,
    /// Unfinished jobs.
    jobs: BTreeMap<JobId, Row>,
    /// Finished ones.
    history: BTreeMap<JobId, Row>,
    nodes: BTreeMap<Incarnation, Node>,
    dispatcher: Dispatcher,
    assignments: BTreeMap<(Incarnation, BatchId), Mail>,
    changes: BTreeMap<i64, ChangeRow>,
    /// Of jobs, finished or not, that have something to tell.
    stories: BTreeMap<JobId, Story>,
    /// Who holds which unique key.
    keys: BTreeMap<unique::KeyAt, Holding>,
    /// Of jobs, finished or not, that wait or waited for others.
    after: BTreeMap<JobId, After>,
    /// The same from the other side: who is awaited, by whom; and how it ended, if that was badly and it is kept no longer.
    awaited: BTreeMap<(JobId, JobId), Option<State>>,
    /// Value and version.
    memos: BTreeMap<(MemoKind, String), (String, i64)>,
    next_seq: i64,
    next_change: i64,
}

#[derive(Debug, Clone, Default)]
struct Dispatcher {
    holder: Option<Incarnation>,
    epoch: Epoch,
    until: Option<Timestamp>,
    /// What the holder was chosen in.
    lineage: Option<Lineage>,
}

#[derive(Debug, Clone)]
struct Row {
    seq: i64,
    id: JobId,
    task: TaskName,
    args: Json,
    queue: QueueName,
    group: GroupName,
    priority: Priority,
    retry: RetryPolicy,
    key: Option<KeyName>,
    terms: Terms,
    expires_at: Option<Timestamp>,
    /// It waits for those in `after`.
    on_failure: Option<OnFailure>,
    state: State,
    counts: Counts,
    fence: Fence,
    cancel_requested: bool,
    node: Option<Incarnation>,
    node_name: Option<NodeName>,
    result: Option<Json>,
    error: Option<Failure>,
    submitted_at: Timestamp,
    due_at: Option<Timestamp>,
    assigned_at: Option<Timestamp>,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    /// When it entered history.
    ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone)]
struct Mail {
    /// With whether each is limited.
    jobs: Vec<(JobId, bool)>,
    cancel: Vec<JobId>,
}

#[derive(Debug, Clone)]
struct ChangeRow {
    told: Option<Epoch>,
    jobs: Vec<Told>,
    /// Memos were written.
    memos: bool,
}

/// A [`Change`] without its head, which is looked up when it is told.
#[derive(Debug, Clone, Copy)]
struct Told {
    id: JobId,
    ran: Option<Duration>,
    failed: bool,
    well: bool,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Options::default(), Clock::system())
    }
}

impl MemoryStore {
    pub fn new(options: Options, clock: Clock) -> Self {
        Self { data: Arc::default(), bell: Bell::default(), clock, options }
    }

    /// The same data seen by another process: its own bells, which nobody else rings.
    pub fn another_process(&self) -> Self {
        Self { bell: Bell::default(), ..self.clone() }
    }

    /// All there is at this moment, for [`MemoryStore::fail_over`].
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(Box::new(self.data().clone()))
    }

    /// What was committed since the snapshot is taken back, as by a failover to a server that had not heard of it.
    pub fn fail_over(&self, snapshot: &Snapshot) {
        let mut data = self.data();
        let lineage = Lineage(data.lineage.0 + LEAP);
        *data = Data { lineage, ..(*snapshot.0).clone() };
    }

    fn data(&self) -> MutexGuard<'_, Data> {
        // A panic while the lock is held would be a bug in this file; the data is then not to be trusted.
        self.data.lock().expect("the memory store panicked earlier")
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        let now = self.clock.now();
        let replies = {
            let mut data = self.data();
            let (entries, taken) = data.claim_keys(&jobs, now)?;
            data.check_room(jobs.iter().zip(&entries))?;
            let previews: Vec<Enqueued> =
                jobs.iter().zip(&entries).map(|(job, entry)| data.preview(job, entry)).collect();
            let waiting = data.check_after(&jobs, &previews)?;
            data.keys.extend(taken);
            // All that come in first: one of them may stand for another.
            let mut replies = Vec::with_capacity(jobs.len());
            let mut held = Vec::new();
            for (at, (job, entry)) in jobs.into_iter().zip(entries).enumerate() {
                replies.push(match entry {
                    unique::Entry::In => data.insert(job, now),
                    unique::Entry::Known => Enqueued::itself(job.id, false),
                    unique::Entry::HeldBy(holder) => {
                        let policy = job.unique.map_or(OnDuplicate::Keep, |unique| unique.on_duplicate);
                        held.push((at, holder, policy, job.task, job.args));
                        Enqueued::itself(holder, false)
                    }
                });
            }
            for (at, holder, policy, task, args) in held {
                replies[at] = data.stand_in(holder, policy, &task, args);
            }
            data.wait_for(waiting);
            replies
        };
        self.bell.ring_news();
        Ok(replies)
    }

    async fn join(&self, join: Join) -> Result<Joined> {
        let now = self.clock.now();
        let mut data = self.data();
        let holder_of_name = data
            .nodes
            .values()
            .find(|node| node.name == join.name && !node.lost && node.incarnation != join.incarnation);
        if let Some(other) = holder_of_name {
            let seen = Replace { incarnation: other.incarnation, lease_until: other.lease_until };
            if join.replace != Some(seen) {
                return Ok(Joined::Taken { by: Box::new(data.told(other)), now });
            }
            let other = other.incarnation;
            data.nodes.get_mut(&other).expect("just found").lost = true;
            if data.dispatcher.holder == Some(other) {
                data.dispatcher.holder = None;
            }
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
        self.bell.ring_lead();
        Ok(Joined::In { now })
    }

    async fn beat(&self, beat: Beat) -> Result<Pulse> {
        let now = self.clock.now();
        let mut data = self.data();
        if beat.only_look {
            let (lineage, leader) = (data.lineage, data.leader(beat.node));
            return Ok(Pulse { now, lineage, alive: true, epoch: None, nodes: Vec::new(), leader });
        }
        let Some(node) = data.nodes.get_mut(&beat.node).filter(|node| !node.lost) else {
            let lineage = data.lineage;
            return Ok(Pulse { now, lineage, alive: false, epoch: None, nodes: Vec::new(), leader: None });
        };
        node.lease_until = now.plus(beat.lease);
        let resized = std::mem::replace(&mut node.slots, beat.slots) != beat.slots;
        let lineage = data.lineage;
        let dispatcher = &mut data.dispatcher;
        let of_this_lineage = dispatcher.lineage == Some(lineage);
        let found_over = |until| beat.over == Some(Term { epoch: dispatcher.epoch, until });
        let over = !of_this_lineage || dispatcher.until.is_none_or(|until| until < now || found_over(until));
        let mine = dispatcher.holder == Some(beat.node);
        if beat.lead && !(mine && of_this_lineage) && (dispatcher.holder.is_none() || over) {
            dispatcher.epoch = dispatcher.epoch.next(dispatcher.lineage, lineage);
            dispatcher.holder = Some(beat.node);
            dispatcher.lineage = Some(lineage);
        }
        let leads = beat.lead && dispatcher.holder == Some(beat.node);
        if leads {
            dispatcher.until = Some(now.plus(beat.lease));
        }
        let gives_up = mine && !beat.lead;
        if gives_up {
            dispatcher.holder = None;
        }
        let epoch = leads.then_some(data.dispatcher.epoch);
        let nodes = match epoch {
            Some(_) => data.nodes.values().filter(|node| node.alive(now)).map(|node| data.told(node)).collect(),
            None => Vec::new(),
        };
        let leader = if beat.lead && !leads { data.leader(beat.node) } else { None };
        drop(data);
        if gives_up || (resized && !leads) {
            self.bell.ring_lead();
        }
        Ok(Pulse { now, lineage, alive: true, epoch, nodes, leader })
    }

    async fn leave(&self, node: Incarnation) -> Result<bool> {
        let mut data = self.data();
        if data.dispatcher.holder == Some(node) {
            data.dispatcher.holder = None;
        }
        let gone = !data.jobs.values().any(|row| row.in_hands_of(node));
        if gone {
            data.bury(node);
        }
        drop(data);
        self.bell.ring_lead();
        Ok(gone)
    }

    async fn load(&self, load: Load) -> Result<Page> {
        let now = self.clock.now();
        let data = self.data();
        let in_hands = |of: Option<Incarnation>| {
            let wanted = |row: &&Row| row.state.assigned() && (of.is_none() || row.node == of);
            data.jobs.values().filter(wanted).map(|row| data.head(row)).collect()
        };
        let (jobs, next) = match load {
            Load::After { id, limit } => {
                let limit = limit.max(1) as usize;
                let rows = data.jobs.values().filter(|row| id.is_none_or(|id| row.id > id));
                let jobs: Vec<_> = rows.take(limit).map(|row| data.head(row)).collect();
                let next = jobs.last().filter(|_| jobs.len() == limit).map(|head| head.id);
                (jobs, next)
            }
            Load::These(ids) => {
                let ids: BTreeSet<_> = ids.into_iter().collect();
                (ids.iter().filter_map(|id| data.jobs.get(id)).map(|row| data.head(row)).collect(), None)
            }
            Load::InHands(of) => (in_hands(of), None),
            Load::HeldBy(node) => (in_hands(Some(node)), None),
        };
        Ok(Page { now, jobs, next })
    }

    async fn news(&self, ask: AskNews) -> Result<News> {
        let now = self.clock.now();
        let data = self.data();
        let cursor = Cursor(format!("{} {}", data.next_seq, data.next_change));
        let Some(last) = ask.cursor else {
            return Ok(News {
                now,
                cursor,
                jobs: Vec::new(),
                more: false,
                changes: Vec::new(),
                memos: false,
                writers: Writers::default(),
            });
        };
        let (seq, change) = read_cursor(&last)?;
        let most = usize::try_from(ask.new_jobs).unwrap_or(usize::MAX);
        let mut jobs: Vec<_> = data.jobs.values().filter(|row| row.seq >= seq).map(|row| data.head(row)).collect();
        jobs.sort_by_key(|head| head.seq);
        jobs.truncate(most);
        let more = most > 0 && jobs.len() >= most;
        let unseen = data.changes.range(change..).filter(|(_, row)| row.told != Some(ask.epoch));
        let memos = unseen.clone().any(|(_, row)| row.memos);
        let changes = unseen
            .flat_map(|(_, row)| &row.jobs)
            .map(|&Told { id, ran, failed, well }| {
                let head = data.jobs.get(&id).map(|row| data.head(row));
                // It may have been brought back since.
                Change { id, ran, failed, well: well && head.is_none(), head }
            })
            .collect();
        Ok(News { now, cursor, jobs, more, changes, memos, writers: Writers::default() })
    }

    async fn assign(&self, assign: Assign) -> Result<Vec<(JobId, AssignReply)>> {
        let now = self.clock.now();
        let mut data = self.data();
        data.check_leading(assign.holder, assign.epoch)?;
        let mut replies = Vec::with_capacity(assign.picks.len());
        for pick in &assign.picks {
            // In the hands of a node that has left, nobody would ever see to it.
            let node_is_there = data.nodes.contains_key(&pick.node);
            let reply = match data.jobs.get_mut(&pick.job) {
                None => AssignReply::Gone,
                Some(row) => {
                    let at_rest = row.fence == pick.fence && !row.state.assigned();
                    let fresh = at_rest && node_is_there;
                    if fresh {
                        row.state = State::Scheduled;
                        row.fence = row.fence.next();
                        row.node = Some(pick.node);
                        row.assigned_at = Some(now);
                    }
                    // Not fresh, but just what this pick would have made of it: the first call's reply was lost.
                    if row.fence == pick.fence.next() && row.in_hands_of(pick.node) {
                        if fresh {
                            let mail = data
                                .assignments
                                .entry((pick.node, assign.batch))
                                .or_insert(Mail { jobs: vec![], cancel: vec![] });
                            mail.jobs.push((pick.job, pick.limited));
                        }
                        let row = &data.jobs[&pick.job];
                        match pick.node == assign.holder {
                            true => AssignReply::Mine(Box::new(row.assigned(pick.limited))),
                            false => AssignReply::Theirs(row.fence),
                        }
                    } else if at_rest {
                        AssignReply::Locked
                    } else {
                        AssignReply::Changed(
                            data.jobs.get(&pick.job).map(|row| data.head(row)).expect("just looked at"),
                        )
                    }
                }
            };
            replies.push((pick.job, reply));
        }
        drop(data);
        self.bell.ring_mail();
        Ok(replies)
    }

    async fn assignments(&self, node: Incarnation, known: Vec<BatchId>) -> Result<Vec<Delivery>> {
        let data = self.data();
        let held = |id: &JobId| data.jobs.get(id).filter(|row| row.in_hands_of(node));
        Ok(data
            .assignments
            .iter()
            .filter(|((to, batch), _)| *to == node && !known.contains(batch))
            .map(|((_, batch), mail)| Delivery {
                batch: *batch,
                jobs: mail.jobs.iter().filter_map(|(id, limited)| Some(held(id)?.assigned(*limited))).collect(),
                cancel: mail
                    .cancel
                    .iter()
                    .filter(|id| held(id).is_some_and(|row| row.cancel_requested))
                    .copied()
                    .collect(),
            })
            .collect())
    }

    async fn settle(&self, settle: Settle) -> Result<Vec<Settled>> {
        let now = self.clock.now();
        let mut data = self.data();
        let (holder, told, lost) = match settle.author {
            Author::Node { node, told } => (node, told, false),
            Author::Dispatcher { holder, epoch, lost, .. } => {
                data.check_leading(holder, epoch)?;
                (lost, Some(epoch), true)
            }
        };
        let mut replies = Vec::with_capacity(settle.settlements.len());
        let mut changed = Vec::new();
        for settlement in settle.settlements {
            let (reply, written) = data.settle_one(holder, lost, &settlement, now, self.options.retention);
            if written && settlement.to.to != Target::Running {
                let (failed, well) = (settlement.failed(), settlement.well());
                changed.push(Told { id: settlement.job, ran: settlement.ran(), failed, well });
            }
            replies.push(reply);
        }
        for batch in settle.done {
            data.assignments.remove(&(holder, batch));
        }
        if let Author::Dispatcher { lost, bury: true, .. } = settle.author
            && !data.jobs.values().any(|row| row.in_hands_of(lost))
        {
            data.bury(lost);
        }
        let anything = !changed.is_empty();
        data.tell(told, changed);
        drop(data);
        if anything {
            self.bell.ring_news();
        }
        Ok(replies)
    }

    async fn note(&self, node: Incarnation, notes: Vec<Note>) -> Result<Vec<Settled>> {
        let mut data = self.data();
        let keep = self.options.log_lines as usize;
        Ok(notes.into_iter().map(|note| data.note_one(node, note, keep)).collect())
    }

    async fn lost_nodes(&self, ask: AskLost) -> Result<Vec<LostNode>> {
        let now = self.clock.now();
        let mut data = self.data();
        data.check_leading(ask.holder, ask.epoch)?;
        for node in data.nodes.values_mut() {
            node.lost |= match &ask.expire {
                Expire::Nobody => false,
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
            lost_nodes.push(LostNode { node: data.told(node), complete: jobs.len() == held().count(), jobs });
        }
        Ok(lost_nodes)
    }

    async fn control(&self, interventions: Vec<Intervention>) -> Result<Vec<Settled>> {
        let now = self.clock.now();
        let mut data = self.data();
        let mut changed = Vec::new();
        let replies = interventions
            .iter()
            .map(|intervention| {
                let reply = data.control_one(intervention, now, self.options.retention);
                if reply == Settled::Applied && intervention.to.to != Target::CancelRequested {
                    changed.push(Told { id: intervention.job, ran: None, failed: false, well: false });
                }
                reply
            })
            .collect();
        data.tell(None, changed);
        drop(data);
        self.bell.ring_news();
        self.bell.ring_mail();
        Ok(replies)
    }

    async fn prune(&self, seen: Option<Cursor>, limit: u32) -> Result<u64> {
        let now = self.clock.now();
        let edges = End::ALL.map(|end| (end.state(), self.options.retention.edge(end, now)));
        let old = |row: &&Row| edges.iter().any(|(state, edge)| row.state == *state && row.ended_at < Some(*edge));
        let mut data = self.data();
        let limit = limit as usize;
        let ended: Vec<_> = data.history.values().filter(old).map(|row| row.id).take(limit).collect();
        let told: Vec<_> = match seen {
            Some(cursor) => {
                let (_, change) = read_cursor(&cursor)?;
                data.changes.range(..change).map(|(seq, _)| *seq).take(limit).collect()
            }
            None => Vec::new(),
        };
        for id in &ended {
            if let Some(row) = data.history.remove(id) {
                data.forget(*id, row.state);
            }
        }
        told.iter().for_each(|seq| drop(data.changes.remove(seq)));
        let keys = data.prune_keys(limit, self.clock.now());
        Ok((ended.len() + told.len() + keys) as u64)
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>> {
        let data = self.data();
        Ok(data.jobs.get(&id).or_else(|| data.history.get(&id)).map(|row| data.show(row)))
    }

    async fn jobs(&self, filter: Filter) -> Result<Vec<Job>> {
        let data = self.data();
        let is = |wish: &Option<String>, value: &str| wish.as_deref().is_none_or(|wish| wish == value);
        let mut rows: Vec<_> = data
            .jobs
            .values()
            .chain(data.history.values())
            .filter(|row| filter.wants(row.state))
            .filter(|row| {
                is(&filter.queue, row.queue.as_str())
                    && is(&filter.group, row.group.as_str())
                    && is(&filter.task, row.task.as_str())
            })
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.id));
        Ok(rows.into_iter().take(filter.limit() as usize).map(|row| data.show(row)).collect())
    }

    async fn story(&self, ask: AskStory) -> Result<Story> {
        let data = self.data();
        let none = Story::default();
        let story = data.stories.get(&ask.job).unwrap_or(&none);
        let limit = ask.lines as usize;
        Ok(match ask.after {
            None => {
                let skip = story.lines.len().saturating_sub(limit);
                Story {
                    lines: story.lines[skip..].to_vec(),
                    after: data.after.get(&ask.job).cloned().unwrap_or_default(),
                    awaited_by: data.awaited_by(ask.job).take(MAX_AWAITED_BY as usize).collect(),
                    ..story.clone()
                }
            }
            Some(after) => Story {
                attempts: Vec::new(),
                steps: Vec::new(),
                lines: story.lines.iter().filter(|line| line.at > after).take(limit).cloned().collect(),
                ..story.clone()
            },
        })
    }

    async fn nodes(&self) -> Result<Fleet> {
        let data = self.data();
        let mut nodes: Vec<_> = data.nodes.values().map(|node| data.told(node)).collect();
        nodes.sort_by(|a, b| (&a.name, a.joined_at, a.incarnation).cmp(&(&b.name, b.joined_at, b.incarnation)));
        Ok(Fleet { now: self.clock.now(), nodes })
    }

    async fn recall(&self, kinds: Vec<MemoKind>) -> Result<Vec<Memo>> {
        let data = self.data();
        let wanted = data.memos.iter().filter(|((kind, _), _)| kinds.contains(kind));
        Ok(wanted
            .map(|((kind, name), (value, version))| Memo {
                kind: *kind,
                name: name.clone(),
                value: value.clone(),
                version: *version,
            })
            .collect())
    }

    async fn remember(&self, lead: Option<(Incarnation, Epoch)>, memos: Vec<NewMemo>) -> Result<Vec<bool>> {
        NewMemo::check_named_once(&memos)?;
        let mut data = self.data();
        if let Some((holder, epoch)) = lead {
            data.check_leading(holder, epoch)?;
        }
        let mut replies = Vec::with_capacity(memos.len());
        let mut changed = false;
        for NewMemo { kind, name, value, seen } in memos {
            let memo = (kind, name);
            let version = data.memos.get(&memo).map_or(0, |(_, version)| *version);
            let as_seen = seen.is_none_or(|seen| seen == version);
            replies.push(as_seen);
            if as_seen {
                changed |= match value {
                    Some(value) => {
                        data.memos.insert(memo, (value, version + 1));
                        true
                    }
                    None => data.memos.remove(&memo).is_some(),
                };
            }
        }
        let news = changed && lead.is_none();
        if news {
            data.write_change(ChangeRow { told: None, jobs: Vec::new(), memos: true });
        }
        drop(data);
        if news {
            self.bell.ring_news();
        }
        Ok(replies)
    }

    fn bell(&self) -> Bell {
        self.bell.clone()
    }
}

impl Data {
    /// Whether all that is new among `jobs` may come in.
    fn check_room<'a>(&self, jobs: impl Iterator<Item = (&'a NewJob, &'a unique::Entry)>) -> Result<()> {
        let mut ids = BTreeSet::new();
        for (job, _) in jobs.filter(|(_, entry)| matches!(entry, unique::Entry::In)) {
            let known = !ids.insert(job.id) || self.is_known(job.id);
            let full = self.memos.get(&(MemoKind::Full, job.group.to_string()));
            if let (false, Some((sentence, _))) = (known, full) {
                return Err(StoreError::Refused(sentence.clone()));
            }
        }
        Ok(())
    }

    /// What will be answered to a submit, before anything is stored.
    fn preview(&self, job: &NewJob, entry: &unique::Entry) -> Enqueued {
        match entry {
            unique::Entry::In => Enqueued::itself(job.id, !self.is_known(job.id)),
            unique::Entry::Known => Enqueued::itself(job.id, false),
            unique::Entry::HeldBy(holder) => Enqueued::held_by(*holder, Duplicate::Kept),
        }
    }

    /// Whom the new ones among `jobs` wait for, if all of that is there or comes with them.
    fn check_after(&self, jobs: &[NewJob], previews: &[Enqueued]) -> Result<Waiting> {
        let mut ids = BTreeSet::new();
        let mut previews = previews.to_vec();
        // Of an id that is twice in the call, the first comes in.
        for reply in previews.iter_mut().filter(|reply| reply.new) {
            reply.new = ids.insert(reply.id);
        }
        let waiting = Waiting::of(jobs, &previews)?;
        match waiting.awaited().into_iter().find(|id| !self.is_known(*id) && !ids.contains(id)) {
            Some(id) => Err(Waiting::missing(id)),
            None => Ok(waiting),
        }
    }

    fn wait_for(&mut self, waiting: Waiting) {
        for (job, on_failure, awaited) in waiting.jobs {
            let Some(row) = self.jobs.get_mut(&job) else { continue };
            row.on_failure = Some(on_failure);
            self.awaited.extend(awaited.iter().map(|awaited| ((*awaited, job), None)));
            self.after.insert(job, After::new(awaited, on_failure).expect("no more than were asked for"));
        }
    }

    /// What was told of a job goes with it; those who wait for it remember a bad end.
    fn forget(&mut self, id: JobId, end: State) {
        self.stories.remove(&id);
        for awaited in self.after.remove(&id).unwrap_or_default().ids() {
            self.awaited.remove(&(*awaited, id));
        }
        if end != State::Success {
            let first = (id, JobId(uuid::Uuid::nil()));
            let waiting = self.awaited.range_mut(first..).take_while(|((awaited, _), _)| *awaited == id);
            waiting.for_each(|(_, ended)| *ended = Some(end));
        }
    }

    fn awaited_by(&self, id: JobId) -> impl Iterator<Item = JobId> {
        let first = (id, JobId(uuid::Uuid::nil()));
        self.awaited.range(first..).take_while(move |((awaited, _), _)| *awaited == id).map(|((_, waiter), _)| *waiter)
    }

    fn head(&self, row: &Row) -> JobHead {
        let on_failure = row.on_failure.filter(|_| row.state == State::Waiting && row.fence == Fence(0));
        let awaits = on_failure.map(|on_failure| {
            let ids = || self.after.get(&row.id).map_or(&[][..], After::ids).iter().copied();
            let ended = |id| match self.history.get(&id) {
                Some(row) => Some(row.state),
                None => self.awaited.get(&(id, row.id)).copied().flatten().filter(|_| !self.jobs.contains_key(&id)),
            };
            let badly = |id| ended(id).map(|state| (id, state)).filter(|(_, end)| *end != State::Success);
            Box::new(Awaits {
                on_failure,
                open: ids().filter(|id| self.jobs.contains_key(id)).collect(),
                ended_badly: ids().find_map(badly),
            })
        });
        JobHead { awaits, ..row.head() }
    }

    fn insert(&mut self, job: NewJob, now: Timestamp) -> Enqueued {
        if self.is_known(job.id) {
            return Enqueued::itself(job.id, false);
        }
        let row = Row {
            seq: self.next_seq,
            id: job.id,
            task: job.task,
            args: job.args,
            queue: job.queue,
            group: job.group,
            priority: job.priority,
            retry: job.retry,
            key: job.key,
            terms: job.terms,
            expires_at: job.expires,
            on_failure: None,
            state: State::Waiting,
            counts: Counts::default(),
            fence: Fence::default(),
            cancel_requested: false,
            node: None,
            node_name: None,
            result: None,
            error: None,
            submitted_at: now,
            due_at: Some(job.due.unwrap_or(now)),
            assigned_at: None,
            started_at: None,
            finished_at: None,
            ended_at: None,
        };
        self.next_seq += 1;
        self.jobs.insert(job.id, row);
        Enqueued::itself(job.id, true)
    }

    /// Who dispatches, if not `node`.
    fn leader(&self, node: Incarnation) -> Option<Leader> {
        let holder = self.dispatcher.holder.filter(|holder| *holder != node)?;
        let Node { host, lease, .. } = self.nodes.get(&holder)?;
        let term = Term { epoch: self.dispatcher.epoch, until: self.dispatcher.until? };
        Some(Leader { term, host: host.clone(), lease: *lease, sight: Sight::Unseen })
    }

    fn check_leading(&self, holder: Incarnation, epoch: Epoch) -> Result<()> {
        let Dispatcher { holder: leads, epoch: now, lineage, .. } = self.dispatcher;
        if (leads, now, lineage) == (Some(holder), epoch, Some(self.lineage)) {
            Ok(())
        } else {
            Err(StoreError::NotLeading)
        }
    }

    /// A node as readers see it: with the word on who dispatches.
    fn told(&self, node: &Node) -> Node {
        Node { dispatcher: self.dispatcher.holder == Some(node.incarnation), ..node.clone() }
    }

    fn bury(&mut self, node: Incarnation) {
        self.nodes.remove(&node);
        self.assignments.retain(|(to, _), _| *to != node);
    }

    fn tell(&mut self, told: Option<Epoch>, jobs: Vec<Told>) {
        if !jobs.is_empty() {
            self.write_change(ChangeRow { told, jobs, memos: false });
        }
    }

    fn write_change(&mut self, row: ChangeRow) {
        self.changes.insert(self.next_change, row);
        self.next_change += 1;
    }

    /// The answer, and whether anything was written: a repeated settle changes nothing and is no news.
    fn settle_one(
        &mut self,
        node: Incarnation,
        lost: bool,
        settlement: &Settlement,
        now: Timestamp,
        retention: Retention,
    ) -> (Settled, bool) {
        // At rest or at its end at this very fence: only the node's own settle with that fence can have put it there.
        let settled_by_the_node = if lost { Settled::Superseded } else { Settled::Applied };
        let Some(row) = self.jobs.get_mut(&settlement.job) else {
            let reply = match self.history.get(&settlement.job) {
                Some(row) if row.fence == settlement.fence => settled_by_the_node,
                Some(_) => Settled::Superseded,
                None => Settled::Gone,
            };
            return (reply, false);
        };
        if row.fence != settlement.fence {
            return (Settled::Superseded, false);
        }
        if !row.in_hands_of(node) {
            return (if row.state.assigned() { Settled::Superseded } else { settled_by_the_node }, false);
        }
        if row.cancel_requested && !settlement.saw_cancel {
            return (Settled::CancelRequested, false);
        }
        row.started_at = settlement.started_at.or(row.started_at);
        row.finished_at = settlement.finished_at.or(row.finished_at);
        if settlement.started_at.is_some() {
            row.expires_at = None;
        }
        if lost {
            row.fence = row.fence.next();
        }
        row.node_name = self.nodes.get(&node).map(|node| node.name.clone());
        if let Some(ending) = settlement.to.ending {
            let attempt = Attempt {
                fence: settlement.fence,
                number: row.counts.attempt + 1,
                task: row.task.clone(),
                ending,
                node: row.node_name.clone(),
                started_at: row.started_at,
                finished_at: settlement.finished_at,
                failure: settlement.to.error.clone(),
            };
            let attempts = &mut self.stories.entry(settlement.job).or_default().attempts;
            attempts.push(attempt);
            let over = attempts.len().saturating_sub(MAX_ATTEMPTS as usize);
            attempts.drain(..over);
        }
        self.write(settlement.job, &settlement.to, now, retention);
        (Settled::Applied, true)
    }

    fn note_one(&mut self, node: Incarnation, note: Note, keep: usize) -> Settled {
        let held = self.jobs.get(&note.job).is_some_and(|row| row.fence == note.fence && row.in_hands_of(node));
        if !held {
            return Settled::Superseded;
        }
        let story = self.stories.entry(note.job).or_default();
        story.progress = note.progress.or(story.progress.take());
        for line in note.lines {
            if let Err(at) = story.lines.binary_search_by_key(&line.at, |line| line.at) {
                story.lines.insert(at, line);
            }
        }
        if note.trim {
            let over = story.lines.len().saturating_sub(keep);
            story.lines.drain(..over);
            story.dropped += over as u64;
        }
        for step in note.steps {
            if let Err(at) = story.steps.binary_search_by(|known| known.name.cmp(&step.name)) {
                story.steps.insert(at, step);
            }
        }
        Settled::Applied
    }

    fn control_one(&mut self, intervention: &Intervention, now: Timestamp, retention: Retention) -> Settled {
        let Intervention { job, state, fence, to } = intervention;
        let Some(row) = self.jobs.get_mut(job).or_else(|| self.history.get_mut(job)) else { return Settled::Gone };
        if (row.state, row.fence) != (*state, *fence) {
            return Settled::Superseded;
        }
        match (to.to.clone(), row.node) {
            (Target::CancelRequested, Some(node)) if row.state.assigned() => {
                row.cancel_requested = true;
                let batch = BatchId(job.0);
                self.assignments.insert((node, batch), Mail { jobs: vec![], cancel: vec![*job] });
            }
            (Target::CancelRequested, _) => return Settled::Superseded,
            _ => {
                if row.state.finished() {
                    let mut row = self.history.remove(job).expect("finished jobs are in history");
                    row.seq = self.next_seq;
                    self.next_seq += 1;
                    self.jobs.insert(*job, row);
                }
                self.write(*job, to, now, retention);
            }
        }
        Settled::Applied
    }

    /// Puts an unfinished job where core decided.
    fn write(&mut self, id: JobId, to: &turnwise_core::lifecycle::Transition, now: Timestamp, retention: Retention) {
        let row = self.jobs.get_mut(&id).expect("checked by the caller");
        row.counts = to.counts;
        if let Some(error) = &to.error {
            row.error = Some(error.clone());
        }
        row.state = to.state(row.state);
        match &to.to {
            Target::Running => return,
            Target::Scheduled | Target::CancelRequested => unreachable!("assign and control write these themselves"),
            Target::Waiting { due } | Target::Next { due, .. } => {
                row.due_at = Some(*due);
                row.result = None;
                row.cancel_requested = false;
                // A person who has it run again does not mean the old time to begin, nor those it waited for.
                if row.ended_at.take().is_some() {
                    row.expires_at = None;
                    row.on_failure = None;
                }
                if let Target::Next { step, .. } = &to.to {
                    row.task = step.task.clone();
                    row.args = step.args.clone();
                    row.retry = step.retry.clone();
                    row.terms = step.terms.clone();
                    // What the last step's steps came to is nothing to the next.
                    self.stories.entry(id).or_default().steps.clear();
                }
            }
            Target::Stuck { due } => row.due_at = *due,
            Target::Finish { end, result } => {
                row.result = result.clone();
                row.finished_at = row.finished_at.or(Some(now));
                row.ended_at = Some(now);
                row.node = None;
                let row = self.jobs.remove(&id).expect("just written");
                if retention.keeps(*end) {
                    self.history.insert(id, row);
                } else {
                    self.forget(id, row.state);
                }
                return;
            }
        }
        row.node = None;
        row.node_name = None;
    }

    fn show(&self, row: &Row) -> Job {
        let node = row.node.and_then(|node| self.nodes.get(&node)).map(|node| node.name.clone());
        Job {
            id: row.id,
            task: row.task.clone(),
            args: row.args.clone(),
            queue: row.queue.clone(),
            group: row.group.clone(),
            priority: row.priority,
            retry: row.retry.clone(),
            key: row.key.clone(),
            terms: row.terms.clone(),
            state: row.state,
            counts: row.counts,
            fence: row.fence,
            cancel_requested: row.cancel_requested,
            node: node.or_else(|| row.node_name.clone()),
            result: row.result.clone(),
            error: row.error.as_ref().map(Failure::text),
            fingerprint: row.error.as_ref().map(Failure::fingerprint),
            expires_at: row.expires_at,
            submitted_at: row.submitted_at,
            due_at: row.due_at,
            assigned_at: row.assigned_at,
            started_at: row.started_at,
            finished_at: row.finished_at,
        }
    }
}

impl Row {
    fn in_hands_of(&self, node: Incarnation) -> bool {
        self.state.assigned() && self.node == Some(node)
    }

    /// All but whom it waits for.
    fn head(&self) -> JobHead {
        JobHead {
            id: self.id,
            seq: self.seq,
            task: self.task.clone(),
            queue: self.queue.clone(),
            group: self.group.clone(),
            priority: self.priority,
            state: self.state,
            due: self.due_at,
            fence: self.fence,
            crashes: self.counts.crashes,
            node: self.node,
            key: self.key.clone(),
            submitted_at: self.submitted_at,
            expires: self.expires_at,
            awaits: None,
        }
    }

    fn assigned(&self, limited: bool) -> AssignedJob {
        AssignedJob {
            id: self.id,
            fence: self.fence,
            task: self.task.clone(),
            args: self.args.clone(),
            queue: self.queue.clone(),
            group: self.group.clone(),
            priority: self.priority,
            retry: self.retry.clone(),
            terms: self.terms.clone(),
            state: self.state,
            counts: self.counts,
            cancel_requested: self.cancel_requested,
            submitted_at: self.submitted_at,
            limited,
        }
    }

    fn held(&self) -> Held {
        Held {
            id: self.id,
            fence: self.fence,
            state: self.state,
            counts: self.counts,
            cancel_requested: self.cancel_requested,
        }
    }
}

impl Settlement {
    /// How long the run took that this settles.
    pub fn ran(&self) -> Option<Duration> {
        Some(self.finished_at?.since(self.started_at?))
    }

    /// Whether this ends the job as failed.
    pub fn failed(&self) -> bool {
        matches!(self.to.to, Target::Finish { end: End::Failed, .. })
    }

    /// Whether this ends the job with success.
    pub fn well(&self) -> bool {
        matches!(self.to.to, Target::Finish { end: End::Success, .. })
    }
}

fn read_cursor(cursor: &Cursor) -> Result<(i64, i64)> {
    let parts = cursor.0.split_once(' ').and_then(|(seq, change)| Some((seq.parse().ok()?, change.parse().ok()?)));
    parts.ok_or_else(|| StoreError::broken("read a cursor", format!("{:?} is not one of this store's", cursor.0)))
}
