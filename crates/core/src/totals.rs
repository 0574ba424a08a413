//! How much there is, by queue, group, task and key: what the dispatcher's scheduler knows, in few enough words to be written once a second.

use serde::{Deserialize, Serialize};

use crate::{
    job::{JobId, JobState},
    name::{GroupName, KeyName, QueueName, TaskName},
    turn::Charge,
};

/// Groups that totals name: those with the most jobs, and as many with the most in nodes' hands.
pub const GROUPS: usize = 200;
/// Queues that totals name, and tasks, those with the most jobs; a few hundred kilobytes even with the longest names.
pub const NAMES: usize = 1_000;
/// Keys that totals name, those with the most jobs. There may be one for each job.
pub const KEYS: usize = 200;

/// Unfinished jobs by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Tally {
    /// They wait for their time, their turn or other jobs.
    #[serde(skip_serializing_if = "is_zero")]
    pub waiting: usize,
    /// They are in a node's hands and have not begun.
    #[serde(skip_serializing_if = "is_zero")]
    pub scheduled: usize,
    /// A node runs them.
    #[serde(skip_serializing_if = "is_zero")]
    pub running: usize,
    /// They failed and wait for their next attempt, or for a decision.
    #[serde(skip_serializing_if = "is_zero")]
    pub stuck: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Tally {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// All of them.
    pub fn jobs(&self) -> usize {
        self.waiting + self.in_hand() + self.stuck
    }

    /// Those in the hands of nodes.
    pub fn in_hand(&self) -> usize {
        self.scheduled + self.running
    }

    /// One more job in this state; a finished one is not counted.
    pub fn add(&mut self, state: JobState) {
        match state {
            JobState::Waiting => self.waiting += 1,
            JobState::Scheduled => self.scheduled += 1,
            JobState::Running => self.running += 1,
            JobState::Stuck => self.stuck += 1,
            JobState::Success | JobState::Failed | JobState::Cancelled => {}
        }
    }

    /// Adds what another one has counted.
    pub fn add_all(&mut self, other: Self) {
        self.waiting += other.waiting;
        self.scheduled += other.scheduled;
        self.running += other.running;
        self.stuck += other.stuck;
    }
}

/// What a dispatcher's scheduler knows of how much there is.
///
/// `scheduled` and `running` are as the dispatcher expects them from the order in which nodes got their jobs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// `false`: the backlog is still being read, and each count is the least that there are.
    pub complete: bool,
    /// In all.
    pub all: Tally,
    /// The queues with the most jobs, at most [`NAMES`], the largest first.
    pub queues: Vec<(QueueName, Tally)>,
    /// The groups with the most jobs, and those with the most in nodes' hands: at most [`GROUPS`] of each.
    pub groups: Vec<GroupTotal>,
    /// The tasks with the most jobs, at most [`NAMES`].
    pub tasks: Vec<(TaskName, Tally)>,
    /// The keys with the most jobs, at most [`KEYS`].
    pub keys: Vec<(KeyName, Tally)>,
    /// How many have jobs, named above or not.
    pub known: Known,
    /// Serial queues in which nothing starts, because no living node knows the task of the first job; at most [`NAMES`].
    pub held: Vec<HeldLine>,
}

/// A group, in all queues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupTotal {
    /// Its name.
    pub name: GroupName,
    /// Its unfinished jobs.
    pub jobs: Tally,
    /// What it has used beyond its turn, in the queue where that is most.
    #[serde(with = "charge_text")]
    pub ahead: Charge,
}

/// How many queues, groups, tasks and keys have unfinished jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Known {
    pub queues: usize,
    pub groups: usize,
    pub tasks: usize,
    pub keys: usize,
}

/// A serial queue that its first job holds up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldLine {
    pub queue: QueueName,
    #[serde(with = "id_text")]
    pub job: JobId,
    pub task: TaskName,
}

impl Totals {
    /// Whether every queue, task and key with jobs is named.
    pub fn names_all_but_groups(&self) -> bool {
        let Known { queues, groups: _, tasks, keys } = self.known;
        (self.queues.len(), self.tasks.len(), self.keys.len()) == (queues, tasks, keys)
    }

    /// Whether every group with jobs is named.
    pub fn names_all_groups(&self) -> bool {
        self.groups.iter().filter(|group| !group.jobs.is_empty()).count() == self.known.groups
    }
}

/// A charge as memos have it.
mod charge_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::turn::Charge;

    pub(super) fn serialize<S: Serializer>(charge: &Charge, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(charge)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Charge, D::Error> {
        let text = String::deserialize(from)?;
        Charge::from_text(&text).ok_or_else(|| D::Error::custom("not a charge"))
    }
}

mod id_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::job::JobId;

    pub(super) fn serialize<S: Serializer>(id: &JobId, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(id)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<JobId, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
