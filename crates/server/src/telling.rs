//! Turns what was read into events: pure functions of what was read now and before. Each event is written as JSON once, for all
//! listeners.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
};

use serde_json::Value;
use turnwise::{
    Fleet, GroupName, JobId, JobState, Node, NodeState, QueueName, TaskName, Timestamp,
    settings::QueueSettings,
    story::Progress,
    watch::{HeldJob, InHands, Watched},
    wire::{self, Event, EventJob, EventType},
};
use turnwise_core::{
    Fence, Incarnation,
    access::{Action, Grant, Target},
    secret::Secrets,
};

use crate::limits::{LATE_COMMIT, RECENT_JOBS};

/// An event, ready to be sent.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) kind: EventType,
    pub(crate) about: About,
    /// As JSON, on one line.
    pub(crate) json: String,
}

/// What an event is about: decides who may see it, and whether it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum About {
    /// `None`: nothing is kept of it, so it cannot be said whose it was.
    Job(JobId, Option<(QueueName, GroupName, TaskName)>),
    Queue(QueueName),
    Installation,
}

impl About {
    pub(crate) fn is_seen_by(&self, grant: &Grant) -> bool {
        match self {
            Self::Job(_, Some((queue, group, task))) => grant.covers(queue, group, task),
            Self::Job(_, None) => !grant.is_limited(),
            Self::Queue(name) => grant.is_told_of(name),
            Self::Installation => grant.check(Action::ReadNodes, Target::Installation).is_ok(),
        }
    }
}

impl Told {
    /// As this listener gets it: the queues that one waits for are named to those that hear of them as well.
    pub(crate) fn json_for(&self, grant: &Grant) -> Cow<'_, str> {
        if !grant.is_limited() || self.kind != EventType::Queue {
            return Cow::Borrowed(&self.json);
        }
        let mut event: Value = serde_json::from_str(&self.json).expect("it was written as JSON");
        if let Some(after) = event["queue"]["after"].as_array_mut() {
            let is_told = |name: &str| QueueName::new(name).is_ok_and(|name| grant.is_told_of(&name));
            after.retain(|name| name.as_str().is_some_and(is_told));
        }
        Cow::Owned(event.to_string())
    }

    pub(crate) fn new(kind: EventType, about: About, event: &Event<'_>) -> Self {
        Self { kind, about, json: json(event) }
    }

    fn of_job<'a>(kind: EventType, job: EventJob<'a>, event: impl FnOnce(EventJob<'a>) -> Event<'a>) -> Self {
        let names = || Some((job.queue?.clone(), job.group?.clone(), job.task?.clone()));
        let about = About::Job(job.id, names());
        Self::new(kind, about, &event(job))
    }
}

pub(crate) fn json(event: &Event<'_>) -> String {
    serde_json::to_string(event).expect("names, numbers and texts are JSON")
}

/// The jobs that were last sent as submitted: one that ended right after it came is not sent twice.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    known: HashSet<JobId>,
    in_order: VecDeque<JobId>,
}

impl Recent {
    fn add(&mut self, id: JobId) -> bool {
        if !self.known.insert(id) {
            return false;
        }
        self.in_order.push_back(id);
        if self.in_order.len() > RECENT_JOBS
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

/// What came and what ended since the last look.
pub(crate) fn of_look(watched: &Watched, recent: &mut Recent) -> Vec<Told> {
    let at = watched.now;
    let came = |job| Told::of_job(EventType::Submitted, job, |job| Event::Submitted { at, job });
    let gone = |job| Told::of_job(EventType::Ended, job, |job| Event::Ended { at, job });
    let mut told = Vec::with_capacity(watched.jobs.len() + watched.changes.len());
    for head in &watched.jobs {
        recent.add(head.id);
        told.push(came(EventJob::new(head)));
    }
    let ended: HashMap<_, _> = watched.ended.iter().map(|job| (job.id, job)).collect();
    let mut known = HashSet::new();
    for change in watched.changes.iter().filter(|change| change.head.is_none() && known.insert(change.id)) {
        match ended.get(&change.id) {
            Some(job) => {
                // It came and went between two looks.
                if job.submitted_at.plus(LATE_COMMIT) >= watched.since && recent.add(job.id) {
                    told.push(came(EventJob::before_its_end(job)));
                }
                told.push(gone(EventJob::ended(job)));
            }
            None => told.push(gone(EventJob::forgotten(change))),
        }
    }
    told
}

/// What nodes had in their hands at the last look: at which fence, whether it ran, and how far it had come.
#[derive(Debug, Default)]
pub(crate) struct Hands(HashMap<JobId, (Fence, bool, Option<Progress>)>);

impl Hands {
    pub(crate) fn of(held: &InHands) -> Self {
        let seen = |job: &HeldJob| (job.id, (job.fence, job.state == JobState::Running, job.progress.clone()));
        Self(held.jobs.iter().map(seen).collect())
    }

    /// What has begun and what has come further since. From nothing: all that runs.
    pub(crate) fn tell(&self, held: &InHands, secrets: &Secrets) -> Vec<Told> {
        let at = held.now;
        let mut told = Vec::new();
        for job in held.jobs.iter().filter(|job| job.state == JobState::Running) {
            let before = self.0.get(&job.id).filter(|(fence, ..)| *fence == job.fence);
            if !before.is_some_and(|(_, ran, _)| *ran) {
                told.push(Told::of_job(EventType::Started, EventJob::held(job), |job| Event::Started { at, job }));
            }
            if let Some(progress) = &job.progress
                && before.and_then(|(.., progress)| progress.as_ref()) != Some(progress)
            {
                let mask = secrets.mask_unread(&job.task);
                let progress = wire::Progress::new(progress, &mask);
                let event = |job| Event::Progress { at, job, progress };
                told.push(Told::of_job(EventType::Progress, EventJob::held(job), event));
            }
        }
        told
    }
}

/// How nodes have changed; which one dispatches now, if that is another one.
pub(crate) fn of_fleet(before: &Fleet, now: &Fleet) -> Vec<Told> {
    let known: BTreeMap<Incarnation, &Node> = before.nodes.iter().map(|node| (node.incarnation, node)).collect();
    let there: BTreeSet<Incarnation> = now.nodes.iter().map(|node| node.incarnation).collect();
    let lost: BTreeSet<Incarnation> = now.losses.iter().map(|loss| loss.node.incarnation).collect();
    let mut changes: Vec<(Incarnation, &'static str)> = Vec::new();
    for node in &now.nodes {
        let (was, is) = (known.get(&node.incarnation).map(|node| node.state(before.now)), node.state(now.now));
        let change = match (was, is) {
            (Some(was), is) if was == is => continue,
            (_, NodeState::Lost) => "lost",
            (None, _) => "joined",
            (_, NodeState::Stopping) => "stopping",
            (_, _) => "alive",
        };
        changes.push((node.incarnation, change));
    }
    let mut told = tell_nodes(now, &changes);
    let gone = before.nodes.iter().filter(|node| !there.contains(&node.incarnation));
    for node in gone.filter(|node| node.state(before.now) != NodeState::Lost) {
        if lost.contains(&node.incarnation) {
            told.extend(tell_nodes(now, &[(node.incarnation, "lost")]));
        } else {
            told.push(tell_node(now.now, "left", wire::Node::new(node, before.now)));
        }
    }
    let (was, is) = (leader(before), leader(now));
    if was.map(|node| node.incarnation) != is.map(|node| node.incarnation) {
        told.push(tell_leader(now));
    }
    told
}

/// All nodes as they are, for a listener that may have missed something.
pub(crate) fn all_of_fleet(fleet: &Fleet) -> Vec<Told> {
    let all: Vec<_> = fleet.nodes.iter().map(|node| (node.incarnation, "present")).collect();
    tell_nodes(fleet, &all).into_iter().chain([tell_leader(fleet)]).collect()
}

fn tell_nodes(fleet: &Fleet, changes: &[(Incarnation, &'static str)]) -> Vec<Told> {
    if changes.is_empty() {
        return Vec::new();
    }
    let mut nodes: BTreeMap<_, _> = wire::Node::all(fleet).into_iter().map(|node| (node.incarnation, node)).collect();
    changes.iter().filter_map(|(id, change)| Some(tell_node(fleet.now, change, nodes.remove(id)?))).collect()
}

fn tell_node(at: Timestamp, change: &'static str, node: wire::Node<'_>) -> Told {
    Told::new(EventType::Node, About::Installation, &Event::Node { at, change, node: Box::new(node) })
}

fn leader(fleet: &Fleet) -> Option<&Node> {
    fleet.nodes.iter().find(|node| node.dispatcher && node.alive(fleet.now))
}

fn tell_leader(fleet: &Fleet) -> Told {
    let event = Event::Dispatcher { at: fleet.now, node: leader(fleet).map(|node| &node.name) };
    Told::new(EventType::Dispatcher, About::Installation, &event)
}

/// What is set for queues.
pub(crate) type Queues = BTreeMap<QueueName, QueueSettings>;

/// How the settings of queues have changed.
pub(crate) fn of_queues(at: Timestamp, before: &Queues, now: &Queues) -> Vec<Told> {
    let default = QueueSettings::default();
    let names: BTreeSet<&QueueName> = before.keys().chain(now.keys()).collect();
    let change = |name: &QueueName| {
        let (old, new) = (before.get(name).unwrap_or(&default), now.get(name).unwrap_or(&default));
        Some(Told::new(EventType::Queue, About::Queue(name.clone()), &Event::of_queue(at, name, old, new)?))
    };
    names.into_iter().filter_map(change).collect()
}

/// All settings as they are, for a listener that may have missed something.
pub(crate) fn all_queues(at: Timestamp, queues: &Queues) -> Vec<Told> {
    let present = |(name, set): (&QueueName, &QueueSettings)| {
        let queue = Box::new(wire::QueueSet::new(name.as_str(), set));
        Told::new(EventType::Queue, About::Queue(name.clone()), &Event::Queue { at, change: "present", queue })
    };
    queues.iter().map(present).collect()
}

#[cfg(test)]
mod tests {
    use turnwise::{
        JobId, NodeName,
        watch::{Change, EndedJob, WatchCursor},
    };
    use turnwise_core::{Serves, access::Limits, access::Scope, node::Host};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(1_900_000_000_000_000 + seconds * 1_000_000)
    }

    fn id(n: u64) -> JobId {
        JobId::from_parts(n, [7; 10])
    }

    fn ended(n: u64, submitted_at: Timestamp) -> EndedJob {
        EndedJob {
            id: id(n),
            task: TaskName::new("t").unwrap(),
            queue: QueueName::new("q").unwrap(),
            group: GroupName::new("acme").unwrap(),
            state: JobState::Success,
            attempt: 1,
            node: None,
            submitted_at,
            started_at: None,
            finished_at: None,
            fingerprint: None,
        }
    }

    fn end(n: u64) -> Change {
        Change { id: id(n), ran: None, failed: false, well: true, error: None, head: None }
    }

    fn look(since: i64, ended: Vec<EndedJob>, changes: Vec<Change>) -> Watched {
        let nothing = Watched::nothing(at(since + 1), WatchCursor(String::new()), false);
        Watched { since: at(since), ended, changes, ..nothing }
    }

    fn names(told: &[Told]) -> Vec<&'static str> {
        told.iter().map(|told| told.kind.name()).collect()
    }

    #[test]
    fn a_job_that_came_and_went_between_two_looks_is_told_twice_and_once_more_never() {
        let mut recent = Recent::default();
        let told = of_look(&look(100, vec![ended(1, at(100))], vec![end(1), end(1)]), &mut recent);
        assert_eq!(names(&told), ["submitted", "ended"]);
        let told = of_look(&look(101, vec![ended(1, at(100))], vec![end(1)]), &mut recent);
        assert_eq!(names(&told), ["ended"], "it was told that it came");
        let told = of_look(&look(100, vec![ended(2, at(1))], vec![end(2), end(3)]), &mut recent);
        assert_eq!(names(&told), ["ended", "ended"], "it came long ago; nothing is known of the other");
        assert_eq!(told[1].about, About::Job(id(3), None));
    }

    #[test]
    fn what_nothing_is_kept_of_is_shown_to_nobody_with_limits() {
        let group = |name| Limits { groups: Some([GroupName::new(name).unwrap()].into()), ..Limits::default() };
        let [own, other] = ["acme", "other"].map(|name| Grant::new([Scope::Read], group(name)).unwrap());
        let told = of_look(&look(1, vec![ended(1, at(-100))], vec![end(1), end(2)]), &mut Recent::default());
        let seen = |grant: &Grant| told.iter().filter(|told| told.about.is_seen_by(grant)).count();
        assert_eq!([seen(&own), seen(&other), seen(&Grant::unlimited())], [1, 0, 2]);
        for about in [About::Installation, About::Queue(QueueName::new("q").unwrap())] {
            assert!(about.is_seen_by(&Grant::unlimited()) && !about.is_seen_by(&other), "{about:?}");
        }
    }

    #[test]
    fn as_many_jobs_are_remembered_as_may_be() {
        let mut recent = Recent::default();
        for n in 0..RECENT_JOBS as u64 + 5 {
            assert!(recent.add(id(n)));
        }
        assert_eq!((recent.known.len(), recent.in_order.len()), (RECENT_JOBS, RECENT_JOBS));
        assert!(recent.add(id(0)) && !recent.add(id(9)));
    }

    fn node(n: u128, name: &str, slots: u32, dispatcher: bool) -> Node {
        let text = String::new;
        let host = Host { name: text(), boot_id: text(), pid_namespace: text(), pid: 1, started: 0, version: None };
        Node {
            incarnation: Incarnation(uuid::Uuid::from_u128(n)),
            name: NodeName::new(name).unwrap(),
            host,
            slots,
            queue_capacity: 1,
            batch_size: None,
            queues: Serves::All,
            tasks: BTreeSet::new(),
            joined_at: at(0),
            lease: std::time::Duration::from_secs(5),
            lease_until: at(5),
            lost: false,
            dispatcher,
        }
    }

    #[test]
    fn nodes_come_stop_leave_and_are_lost() {
        let fleet = |now, nodes| Fleet {
            now: at(now),
            nodes,
            losses: Vec::new(),
            workers: Default::default(),
            drained: Default::default(),
        };
        let changes = |before: &Fleet, now: &Fleet| -> Vec<String> {
            let value = |told: &Told| serde_json::from_str::<serde_json::Value>(&told.json).unwrap();
            let told = of_fleet(before, now).iter().map(value).collect::<Vec<_>>();
            told.iter()
                .map(|told| {
                    format!(
                        "{} {}",
                        told["change"],
                        told["node"]["name"].as_str().or(told["node"].as_str()).unwrap_or("-")
                    )
                })
                .collect()
        };
        let none = fleet(1, vec![]);
        let one = fleet(1, vec![node(1, "a", 4, true)]);
        let both = fleet(2, vec![node(1, "a", 0, false), node(2, "b", 4, true)]);
        assert_eq!(changes(&none, &one), ["\"joined\" a", "null a"]);
        assert_eq!(changes(&one, &one), [""; 0]);
        assert_eq!(changes(&one, &both), ["\"stopping\" a", "\"joined\" b", "null b"]);
        assert_eq!(changes(&both, &fleet(3, vec![node(2, "b", 4, true)])), ["\"left\" a"]);
        assert_eq!(changes(&one, &fleet(6, vec![node(1, "a", 4, true)])), ["\"lost\" a", "null -"]);
    }
}
