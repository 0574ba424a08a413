//! What if: how long groups would wait if something were changed.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use turnwise_core::{
    GroupName, Invalid, QueueName, TaskName, Timestamp,
    settings::{Concurrency, Pause, Settings, Weight},
};

use super::{
    Unreadable,
    object::{self, number, pairs, texts},
};
use crate::view;

/// The changes to suppose.
#[derive(Debug, Clone, Default)]
pub struct WhatIf {
    slots: Option<u32>,
    weights: Vec<(GroupName, Weight)>,
    concurrency: Vec<(QueueName, Concurrency)>,
    group_concurrency: Vec<(GroupName, Option<u32>)>,
    pauses: Vec<GroupName>,
}

impl WhatIf {
    /// Reads `{"slots": 8, "weights": {"acme": 2}, "concurrency": {"mail": 3}, "group_concurrency": {"acme": 4}, "pause": ["flood"]}`; each
    /// may be left out. [`Unreadable`] names the first field that is unknown or invalid.
    pub fn read(json: &str) -> Result<Self, Unreadable> {
        let mut what_if = Self::default();
        object::read(json, ["slots", "weights", "concurrency", "group_concurrency", "pause"], |name, value| {
            what_if.put(name, value)
        })?;
        Ok(what_if)
    }

    fn put(&mut self, name: &'static str, value: &RawValue) -> Result<(), Invalid> {
        let read = match name {
            "slots" => self.set_slots(number(name, value)?),
            "weights" => pairs(name, value)?.iter().try_for_each(|(group, weight)| self.set_weight(group, weight)),
            "concurrency" => {
                pairs(name, value)?.iter().try_for_each(|(queue, limit)| self.set_concurrency(queue, limit))
            }
            "group_concurrency" => {
                pairs(name, value)?.iter().try_for_each(|(group, limit)| self.set_group_concurrency(group, limit))
            }
            _ => texts(name, value)?.iter().try_for_each(|group| self.pause(group)),
        };
        read.map_err(|invalid| Invalid::new(name, invalid.problem))
    }

    /// Suppose the fleet had so many slots. [`Invalid`] if the text is no number of slots.
    pub fn set_slots(&mut self, text: &str) -> Result<(), Invalid> {
        self.slots = match text.parse() {
            Ok(slots @ 1..=1_000_000) => Some(slots),
            _ => return Err(Invalid::new("slots", format!("must be 1 to 1000000, not {text:?}"))),
        };
        Ok(())
    }

    /// Suppose the group had this weight. [`Invalid`] for an invalid name or weight.
    pub fn set_weight(&mut self, group: &str, weight: &str) -> Result<(), Invalid> {
        self.weights.push((GroupName::new(group)?, weight.parse()?));
        Ok(())
    }

    /// Suppose the queue had this concurrency. [`Invalid`] for an invalid name or limit.
    pub fn set_concurrency(&mut self, queue: &str, limit: &str) -> Result<(), Invalid> {
        self.concurrency.push((QueueName::new(queue)?, limit.parse()?));
        Ok(())
    }

    /// Suppose nodes had at most so many jobs of the group at a time, or `unlimited`. [`Invalid`] for an invalid name or limit.
    pub fn set_group_concurrency(&mut self, group: &str, limit: &str) -> Result<(), Invalid> {
        let problem =
            || Invalid::new("group_concurrency", format!("must be a number from 1 on, or unlimited, not {limit:?}"));
        let most = match limit {
            "unlimited" => None,
            number => Some(number.parse().ok().filter(|most| *most > 0).ok_or_else(problem)?),
        };
        self.group_concurrency.push((GroupName::new(group)?, most));
        Ok(())
    }

    /// Suppose the group were paused. [`Invalid`] for an invalid name.
    pub fn pause(&mut self, group: &str) -> Result<(), Invalid> {
        self.pauses.push(GroupName::new(group)?);
        Ok(())
    }

    /// How many slots the fleet would have; `None`: as it has.
    pub fn slots(&self) -> Option<u32> {
        self.slots
    }

    /// Changes the settings as supposed.
    pub fn apply(self, settings: &mut Settings, now: Timestamp) {
        for (group, weight) in self.weights {
            settings.groups.entry(group).or_default().weight = weight;
        }
        for (queue, limit) in self.concurrency {
            settings.queues.entry(queue).or_default().concurrency = limit;
        }
        for (group, limit) in self.group_concurrency {
            settings.groups.entry(group).or_default().concurrency = limit;
        }
        for group in self.pauses {
            settings.groups.entry(group).or_default().paused = Some(Pause { since: now, reason: None });
        }
    }
}

/// What becomes of the backlog as things are, and with the changes.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Comparison<'a> {
    /// All jobs that no node has.
    pub jobs: usize,
    /// As things are.
    pub before: Course,
    /// With the changes.
    pub after: Course,
    /// By group.
    pub groups: Vec<GroupCourse<'a>>,
    /// Tasks without a recorded run: a short run is assumed for them.
    pub guessed: Vec<&'a TaskName>,
}

/// What becomes of the whole backlog.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Course {
    /// Slots of all nodes that live, or as many as were supposed.
    pub slots: u32,
    /// How many starts were looked at: 200,000 at most, and those that happen at once.
    pub starts: usize,
    /// How long those jobs wait, on average.
    pub mean_wait_ms: u64,
    /// Half of them wait no longer.
    pub p50_wait_ms: u64,
    /// 95 of 100 wait no longer.
    pub p95_wait_ms: u64,
    /// How long they wait at most.
    pub max_wait_ms: u64,
    /// Until the last of their runs is over.
    pub end_ms: u64,
    /// From now to where the simulation stopped looking: all starts until then were looked at. 30 days at most.
    pub looked_ms: u64,
    /// `false`: the simulation was cut off, more jobs would start after it.
    pub complete: bool,
}

/// How long the jobs of a group wait, as things are and with the changes.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct GroupCourse<'a> {
    /// The group.
    pub group: &'a GroupName,
    /// Its jobs that no node has.
    pub jobs: usize,
    /// As things are.
    pub before: Waits,
    /// With the changes.
    pub after: Waits,
}

/// How long jobs wait from now on, or from their due time if that is later.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Waits {
    /// How many of their starts were looked at. The other jobs start later, if the simulation was cut off, or are held up.
    pub starts: usize,
    /// From now to the first start; `null`: none starts.
    pub first_start_ms: Option<u64>,
    /// On average.
    pub mean_wait_ms: u64,
    /// Half of them wait no longer.
    pub p50_wait_ms: u64,
    /// 95 of 100 wait no longer.
    pub p95_wait_ms: u64,
    /// At most.
    pub max_wait_ms: u64,
    /// From now to the end of the last run.
    pub end_ms: u64,
}

impl From<&view::Waits> for Waits {
    fn from(waits: &view::Waits) -> Self {
        Self {
            starts: waits.starts,
            first_start_ms: waits.first.map(millis),
            mean_wait_ms: millis(waits.mean),
            p50_wait_ms: millis(waits.p50),
            p95_wait_ms: millis(waits.p95),
            max_wait_ms: millis(waits.longest),
            end_ms: millis(waits.end),
        }
    }
}

impl From<&view::Simulation> for Course {
    fn from(simulation: &view::Simulation) -> Self {
        let view::Simulation { slots, all, looked, complete, .. } = simulation;
        Self {
            slots: *slots,
            starts: all.starts,
            mean_wait_ms: millis(all.mean),
            p50_wait_ms: millis(all.p50),
            p95_wait_ms: millis(all.p95),
            max_wait_ms: millis(all.longest),
            end_ms: millis(all.end),
            looked_ms: millis(*looked),
            complete: *complete,
        }
    }
}

impl<'a> Comparison<'a> {
    /// As it was simulated.
    pub fn new(comparison: &'a view::Comparison) -> Self {
        let view::Comparison { before, after, .. } = comparison;
        let groups = before.groups.iter().map(|(group, waits)| GroupCourse {
            group,
            jobs: waits.jobs,
            before: waits.into(),
            after: after.groups.get(group).unwrap_or(waits).into(),
        });
        Self {
            jobs: before.all.jobs,
            before: before.into(),
            after: after.into(),
            groups: groups.collect(),
            guessed: before.guessed.iter().collect(),
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
