//! Queues and groups: what is set for them, and how much there is.

use serde::Serialize;
use turnwise_core::{
    GroupName, QueueName, Timestamp,
    calendar::{Schedule, Window, blocked_until},
    settings::{Concurrency, Fairness, GroupSettings, OnError, Pause, QueueSettings, Rate, Weight},
    turn::Scheme,
};

use crate::overview::{GroupOverview, Overview, QueueOverview, Tally};

/// A queue.
#[derive(Debug, Serialize)]
#[non_exhaustive]
#[allow(missing_docs, reason = "they are those of the settings and of the tally")]
pub struct Queue<'a> {
    pub name: &'a QueueName,
    /// `active`, `paused`, `waiting` for another, `finished` and the like.
    pub state: &'static str,
    pub waiting: usize,
    pub scheduled: usize,
    pub running: usize,
    pub stuck: usize,
    pub weight: Weight,
    pub fairness: Fairness,
    pub concurrency: Concurrency,
    pub per_node: Option<u32>,
    pub rate: Option<Rate>,
    pub scheme: Option<Scheme>,
    pub on_error: OnError,
    pub after: &'a [QueueName],
    pub schedule: Option<&'a Schedule>,
    pub block: &'a [Window],
    /// The end of the window it is in.
    pub blocked_until: Option<Timestamp>,
    pub sealed: Option<Timestamp>,
    pub paused: Option<&'a Pause>,
}

impl<'a> Queue<'a> {
    /// The queue as it is seen in the overview.
    pub fn new(name: &'a QueueName, queue: &'a QueueOverview, overview: &Overview) -> Self {
        let QueueOverview { settings, jobs } = queue;
        let &Tally { waiting, scheduled, running, stuck } = jobs;
        // The cursor of a seal is the dispatcher's own.
        let QueueSettings {
            weight,
            fairness,
            concurrency,
            per_node,
            rate,
            scheme,
            on_error,
            paused,
            sealed,
            quiet: _,
            after,
            schedule,
            block,
        } = settings;
        Self {
            name,
            state: overview.state(name).name(),
            waiting,
            scheduled,
            running,
            stuck,
            weight: *weight,
            fairness: *fairness,
            concurrency: *concurrency,
            per_node: *per_node,
            rate: *rate,
            scheme: *scheme,
            on_error: *on_error,
            after,
            schedule: schedule.as_ref(),
            block,
            blocked_until: blocked_until(block, overview.now),
            sealed: *sealed,
            paused: paused.as_ref(),
        }
    }
}

/// A group.
#[derive(Debug, Serialize)]
#[non_exhaustive]
#[allow(missing_docs, reason = "they are those of the settings and of the tally")]
pub struct Group<'a> {
    pub name: &'a GroupName,
    /// `active` or `paused`.
    pub state: &'static str,
    pub waiting: usize,
    pub scheduled: usize,
    pub running: usize,
    pub stuck: usize,
    pub weight: Weight,
    pub concurrency: Option<u32>,
    pub rate: Option<Rate>,
    pub scheme: Option<Scheme>,
    pub max_waiting: Option<u32>,
    /// Weighted seconds it has used beyond its turn.
    pub ahead: f64,
    pub paused: Option<&'a Pause>,
}

impl<'a> Group<'a> {
    /// The group as it is seen in the overview.
    pub fn new(name: &'a GroupName, group: &'a GroupOverview) -> Self {
        let GroupOverview { settings, jobs, ahead } = group;
        let &Tally { waiting, scheduled, running, stuck } = jobs;
        let GroupSettings { weight, concurrency, rate, scheme, max_waiting, paused } = settings;
        Self {
            name,
            state: if paused.is_some() { "paused" } else { "active" },
            waiting,
            scheduled,
            running,
            stuck,
            weight: *weight,
            concurrency: *concurrency,
            rate: *rate,
            scheme: *scheme,
            max_waiting: *max_waiting,
            ahead: ahead.seconds(),
            paused: paused.as_ref(),
        }
    }
}
