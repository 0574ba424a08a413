//! The lines of a run, sorted by job and fence and by incarnation.

use std::collections::{BTreeMap, HashMap, HashSet};

use turnwise_core::JobState;

use super::{Counts, Violation};
use crate::history::{HarnessEvent, History, Line, NodeEvent};

/// The lines of a run, by job and fence and by incarnation.
#[derive(Default)]
pub(super) struct Lines<'a> {
    pub(super) jobs: HashMap<&'a str, JobRecord<'a>>,
    pub(super) incarnations: HashMap<&'a str, Life>,
    /// The incarnation that a node's name stands for, as far as the lines are read.
    pub(super) current: HashMap<&'a str, &'a str>,
    pub(super) rest: Vec<(u64, u64)>,
    /// The store's listing is there.
    pub(super) listed: bool,
    /// A dispatcher's trace is there.
    pub(super) dispatched: bool,
    pub(super) outage: bool,
    pub(super) counts: Counts,
    pub(super) seen_on_the_way: Vec<Violation>,
}

#[derive(Default)]
pub(super) struct JobRecord<'a> {
    pub(super) submitted: bool,
    /// A person interfered.
    pub(super) decided: bool,
    /// How a dispatcher wanted to end it without a run.
    pub(super) unrun: Vec<JobState>,
    /// A failover took back commits: its fences were given out twice, and what was reported about it may not be true any more.
    pub(super) taken_back: bool,
    /// All of it was taken back, once.
    pub(super) gone: bool,
    pub(super) listed: Option<JobState>,
    pub(super) tenures: BTreeMap<i64, Tenure<'a>>,
    /// The last fence each dispatcher gave it.
    pub(super) last_assigned: HashMap<&'a str, i64>,
}

/// A job in a node's hands under one fence.
#[derive(Default)]
pub(super) struct Tenure<'a> {
    pub(super) assigns: Vec<Assigned<'a>>,
    pub(super) starts: Vec<Mark<'a>>,
    pub(super) effect: Option<Mark<'a>>,
    pub(super) settles: Vec<(Mark<'a>, JobState)>,
    pub(super) stale: Option<Mark<'a>>,
    pub(super) given_up: bool,
    pub(super) node_lost: Vec<JobState>,
}

/// Which incarnation wrote a line, and which line of the record it is.
#[derive(Clone, Copy)]
pub(super) struct Mark<'a> {
    pub(super) by: &'a str,
    pub(super) line: usize,
}

pub(super) struct Assigned<'a> {
    pub(super) mark: Mark<'a>,
    pub(super) to: &'a str,
}

#[derive(Default)]
pub(super) struct Life {
    pub(super) slots: Option<u32>,
    pub(super) running: HashSet<(String, i64)>,
    pub(super) led: bool,
    pub(super) left: bool,
    /// Killed, or declared lost and joined anew.
    pub(super) gone: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn gather(history: &'a History) -> Self {
        let mut run = Self::default();
        for (line, entry) in history.lines.iter().enumerate() {
            match entry {
                Line::Node { node, incarnation, event } => run.node_line(node, Mark { by: incarnation, line }, event),
                Line::Harness(event) => run.harness_line(event),
            }
        }
        run.counts.incarnations = run.incarnations.len();
        run
    }

    pub(super) fn harness_line(&mut self, event: &'a HarnessEvent) {
        match event {
            HarnessEvent::Submit { job } => {
                self.job(job).submitted = true;
                self.counts.submitted += 1;
            }
            HarnessEvent::Decide { job } => self.job(job).decided = true,
            HarnessEvent::Kill { killed } => self.life(killed).gone = true,
            HarnessEvent::Outage => self.outage = true,
            HarnessEvent::TakenBack { job, gone } => {
                let job = self.job(job);
                job.taken_back = true;
                job.gone |= gone;
            }
            HarnessEvent::End { job, state } => {
                self.listed = true;
                if self.job(job).listed.replace(*state).is_some() {
                    self.seen_on_the_way.push(Violation::ListedTwice { job: job.clone() });
                }
            }
            HarnessEvent::Rest { running, nodes } => self.rest.push((*running, *nodes)),
        }
    }

    pub(super) fn node_line(&mut self, node: &'a str, mark: Mark<'a>, event: &'a NodeEvent) {
        match event {
            NodeEvent::Join { slots } => {
                if let Some(earlier) = self.current.insert(node, mark.by) {
                    self.life(earlier).gone = true;
                }
                self.life(mark.by).slots = Some(*slots);
            }
            NodeEvent::Lead { .. } => {
                self.dispatched = true;
                self.life(mark.by).led = true;
            }
            NodeEvent::Assign { job, fence, to } => {
                self.dispatched = true;
                self.tenure(job, *fence).assigns.push(Assigned { mark, to });
                let record = self.job(job);
                let earlier = record.last_assigned.insert(mark.by, *fence).filter(|_| !record.taken_back);
                if let Some(from) = earlier.filter(|from| from > fence) {
                    self.seen_on_the_way.push(Violation::FenceWentBack { job: job.clone(), from, to: *fence });
                }
            }
            NodeEvent::Start { job, fence } => {
                self.counts.starts += 1;
                self.tenure(job, *fence).starts.push(mark);
                let life = self.life(mark.by);
                life.running.insert((job.clone(), *fence));
                let running = life.running.len();
                if let Some(slots) = life.slots.filter(|slots| running > *slots as usize) {
                    let incarnation = mark.by.to_owned();
                    self.seen_on_the_way.push(Violation::SlotsExceeded { incarnation, slots, running });
                }
            }
            NodeEvent::Effect { job, fence } => {
                self.counts.effects += 1;
                self.tenure(job, *fence).effect = Some(mark);
                self.free_slot(mark.by, job, *fence);
            }
            NodeEvent::Interrupt { job, fence } => self.free_slot(mark.by, job, *fence),
            NodeEvent::Settle { job, fence, state } => {
                self.counts.settles += 1;
                self.tenure(job, *fence).settles.push((mark, *state));
                self.free_slot(mark.by, job, *fence);
            }
            NodeEvent::Stale { job, fence } => {
                self.counts.stale += 1;
                self.tenure(job, *fence).stale = Some(mark);
                self.free_slot(mark.by, job, *fence);
            }
            NodeEvent::GiveUp { job, fence } => {
                self.tenure(job, *fence).given_up = true;
                self.free_slot(mark.by, job, *fence);
            }
            NodeEvent::NodeLost { job, fence, state, lost: _ } => {
                self.counts.node_lost += 1;
                self.tenure(job, *fence).node_lost.push(*state);
            }
            NodeEvent::Unrun { job, fence: _, state } => self.job(job).unrun.push(*state),
            NodeEvent::Leave { .. } => self.life(mark.by).left = true,
        }
    }

    pub(super) fn job(&mut self, id: &'a str) -> &mut JobRecord<'a> {
        self.jobs.entry(id).or_default()
    }

    pub(super) fn tenure(&mut self, job: &'a str, fence: i64) -> &mut Tenure<'a> {
        self.job(job).tenures.entry(fence).or_default()
    }

    pub(super) fn life(&mut self, incarnation: &'a str) -> &mut Life {
        self.incarnations.entry(incarnation).or_default()
    }

    pub(super) fn free_slot(&mut self, by: &'a str, job: &str, fence: i64) {
        self.life(by).running.remove(&(job.to_owned(), fence));
    }

    /// Gone without leaving: what it did last may be in no trace.
    pub(super) fn is_gone(&self, incarnation: &str) -> bool {
        self.incarnations.get(incarnation).is_some_and(|life| life.gone && !life.left)
    }

    /// Whether jobs may have been assigned to `node` that are in no trace.
    pub(super) fn untraced_to(&self, node: &str) -> bool {
        self.outage || self.incarnations.iter().any(|(id, life)| *id != node && life.led && self.is_gone(id))
    }
}

impl Tenure<'_> {
    /// The incarnation that ran it, or wrote about it as if it had.
    pub(super) fn runner(&self) -> Option<&str> {
        let settled = self.settles.first().map(|(mark, _)| mark);
        self.starts.first().or(self.effect.as_ref()).or(settled).or(self.stale.as_ref()).map(|mark| mark.by)
    }

    pub(super) fn holder(&self) -> Option<&str> {
        self.runner().or(self.assigns.first().map(|assigned| assigned.to))
    }
}
