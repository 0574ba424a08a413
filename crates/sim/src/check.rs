//! Were all promises kept? One pass that sorts the lines by job and fence (`record`), one over the jobs (`promises`).
//!
//! Fences give the order without clocks: an assignment raises a job's fence by one, a settle leaves it, a node loss
//! raises it by one, and an edit by so much that it is no assignment ([`Fence`](turnwise_core::Fence)). So whether a
//! late settle overtook a node loss is read from the numbers that follow, never from which line stands first in which
//! file.

mod promises;
mod record;
#[cfg(test)]
mod tests;

use std::fmt;

use turnwise_core::JobState;

use self::record::{Lines, Tenure};
use crate::history::History;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub violations: Vec<Violation>,
    pub counts: Counts,
}

/// What there was, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Acknowledged submits.
    pub submitted: usize,
    /// Jobs that ended so, by the store's listing, or by the trace where the store keeps none.
    pub success: usize,
    pub failed: usize,
    pub cancelled: usize,
    pub incarnations: usize,
    pub starts: usize,
    pub effects: usize,
    /// Accepted ends of runs.
    pub settles: usize,
    /// Refused ones.
    pub stale: usize,
    /// Jobs taken from lost nodes, attempts included.
    pub node_lost: usize,
    /// Jobs that began more than once.
    pub ran_twice: usize,
    /// Jobs whose task returned more than once.
    pub effects_twice: usize,
    /// Runs whose assignment is in no trace, because its dispatcher died, or did not get the database's answer.
    pub untraced_assigns: usize,
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    LostJob { job: String },
    NotEnded { job: String, state: JobState },
    NeverEnded { job: String },
    ListedTwice { job: String },
    WrongEnd { job: String, settled: JobState, listed: JobState },
    UnexplainedEnd { job: String, listed: JobState },
    SettledTwice { job: String, fence: i64 },
    ZombieAccepted { job: String, fence: i64, newer: i64 },
    RefusedAndAccepted { job: String, fence: i64 },
    StaleWithoutReason { job: String, fence: i64 },
    NeverAssigned { job: String, fence: i64 },
    OutOfOrder { job: String, fence: i64, first: &'static str, then: &'static str },
    RanElsewhere { job: String, fence: i64, assigned_to: String, by: String },
    AssignedTwice { job: String, fence: i64 },
    FenceWentBack { job: String, from: i64, to: i64 },
    StartedTwice { job: String, fence: i64 },
    SuccessWithoutEffect { job: String, fence: i64 },
    SlotLeaked { job: String, fence: i64, incarnation: String },
    SlotsExceeded { incarnation: String, slots: u32, running: usize },
    LeaseLeaked { running: u64 },
    NodeLeaked { nodes: u64, living: usize },
}

/// Checks everything that can be seen in `history`. What needs lines that are missing (no listing at the end, no dispatcher's
/// trace) is not checked.
pub fn check(history: &History) -> Report {
    let run = Lines::gather(history);
    let mut violations = run.seen_on_the_way.clone();
    let mut counts = run.counts;
    let mut jobs: Vec<_> = run.jobs.iter().collect();
    jobs.sort_unstable_by_key(|(id, _)| **id);
    for (id, job) in jobs {
        run.check_end(id, job, &mut violations, &mut counts);
        for (&fence, tenure) in &job.tenures {
            if !job.taken_back {
                run.check_assignment(id, fence, tenure, &mut violations, &mut counts);
                run.check_order(id, fence, tenure, &mut violations);
                run.check_settle(id, job, fence, tenure, &mut violations);
            }
            run.check_slot(id, fence, tenure, &mut violations);
        }
        let times = |happened: fn(&Tenure<'_>) -> bool| job.tenures.values().filter(|tenure| happened(tenure)).count();
        counts.ran_twice += usize::from(times(|tenure| !tenure.starts.is_empty()) > 1);
        counts.effects_twice += usize::from(times(|tenure| tenure.effect.is_some()) > 1);
    }
    run.check_rest(&mut violations);
    Report { violations, counts }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.violations {
            writeln!(f, "violation: {violation}")?;
        }
        writeln!(f, "{}", self.counts)?;
        match self.violations.len() {
            0 => writeln!(f, "every promise was kept"),
            n => writeln!(f, "{n} violations"),
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { submitted, success, failed, cancelled, incarnations, starts, effects, settles, stale, .. } = self;
        let Counts { node_lost, ran_twice, effects_twice, untraced_assigns, .. } = self;
        write!(f, "{submitted} submitted: {success} success, {failed} failed, {cancelled} cancelled; ")?;
        write!(
            f,
            "{incarnations} incarnations, {starts} starts, {effects} effects, {settles} settled, {stale} stale, "
        )?;
        write!(
            f,
            "{node_lost} taken from lost nodes; {ran_twice} jobs began twice, {effects_twice} took effect twice"
        )?;
        match untraced_assigns {
            0 => Ok(()),
            n => write!(f, "; {n} assignments in no trace"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Violation::*;
        match self {
            LostJob { job } => write!(f, "job {job} was acknowledged and is not in the store"),
            NotEnded { job, state } => write!(f, "job {job} was acknowledged and is still {state} at the end"),
            NeverEnded { job } => write!(f, "job {job} was acknowledged and no end of it was accepted"),
            ListedTwice { job } => write!(f, "job {job} is listed twice"),
            WrongEnd { job, settled, listed } => write!(f, "job {job} ended in {settled} and is listed as {listed}"),
            UnexplainedEnd { job, listed } => write!(f, "job {job} is listed as {listed}, and no run ended so"),
            SettledTwice { job, fence } => write!(f, "job {job}: two ends were accepted under fence {fence}"),
            ZombieAccepted { job, fence, newer } => {
                write!(f, "job {job}: an end under fence {fence} was accepted although fence {newer} was given out")
            }
            RefusedAndAccepted { job, fence } => {
                write!(f, "job {job}: an end under fence {fence} was refused and one was accepted")
            }
            StaleWithoutReason { job, fence } => {
                write!(f, "job {job}: an end under fence {fence} was refused, and nothing is newer")
            }
            NeverAssigned { job, fence } => write!(f, "job {job} ran under fence {fence} and was never assigned so"),
            OutOfOrder { job, fence, first, then } => {
                write!(f, "job {job}, fence {fence}: {then} stands before {first}")
            }
            RanElsewhere { job, fence, assigned_to, by } => {
                write!(f, "job {job}, fence {fence}: assigned to {assigned_to}, run by {by}")
            }
            AssignedTwice { job, fence } => write!(f, "job {job} was assigned twice under fence {fence}"),
            FenceWentBack { job, from, to } => write!(f, "job {job}: its fence went back from {from} to {to}"),
            StartedTwice { job, fence } => write!(f, "job {job} was started twice under fence {fence}"),
            SuccessWithoutEffect { job, fence } => {
                write!(f, "job {job}, fence {fence}: success of a task that did not run")
            }
            SlotLeaked { job, fence, incarnation } => {
                write!(f, "job {job}, fence {fence}: began on {incarnation}, which lives, and never ended")
            }
            SlotsExceeded { incarnation, slots, running } => {
                write!(f, "{incarnation} ran {running} jobs at a time in {slots} slots")
            }
            LeaseLeaked { running } => write!(f, "{running} jobs are in a node's hands at rest"),
            NodeLeaked { nodes, living } => write!(f, "the store knows {nodes} nodes at rest, {living} live"),
        }
    }
}
