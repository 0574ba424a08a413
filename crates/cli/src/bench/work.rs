//! The jobs of a benchmark: they do nothing, and note that they did.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use tokio::sync::mpsc;
use turnwise::{JobRequest, State, task};

use super::plan::Plan;

/// Name of the task, the queue and the node: by it the benchmark knows what is its own.
pub(super) const NAME: &str = "turnwise-bench";

#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Padded {
    n: u64,
    pad: String,
}

#[task("turnwise-bench", register = false)]
pub(super) async fn work(padded: Padded, notes: State<Notes>) {
    notes.begun(padded.n);
}

/// What is noted when a job begins.
#[derive(Debug)]
pub(super) enum Notes {
    None,
    Turns(Starts),
    Moments(mpsc::Sender<(u64, Instant)>),
}

impl Notes {
    pub(super) fn none() -> Arc<Self> {
        Arc::new(Self::None)
    }

    /// Which group had a turn.
    pub(super) fn turns(plan: &Plan) -> Arc<Self> {
        Arc::new(Self::Turns(Starts::new(plan)))
    }

    /// Which job began when.
    pub(super) fn moments() -> (Arc<Self>, mpsc::Receiver<(u64, Instant)>) {
        // One job is under way at a time.
        let (sender, receiver) = mpsc::channel(8);
        (Arc::new(Self::Moments(sender)), receiver)
    }

    fn begun(&self, n: u64) {
        match self {
            Self::None => {}
            Self::Turns(starts) => starts.note(n),
            // If the receiver is gone, the measurement is over.
            Self::Moments(sender) => _ = sender.try_send((n, Instant::now())),
        }
    }

    /// See [`Starts::lead_at_half`].
    pub(super) fn lead_at_half(&self) -> Option<u64> {
        match self {
            Self::Turns(starts) => starts.lead_at_half(),
            Self::None | Self::Moments(_) => None,
        }
    }
}

/// How many jobs of each group have begun. Jobs are numbered from 0, and so are groups, in turn.
#[derive(Debug)]
pub(super) struct Starts {
    jobs: u64,
    by_group: Vec<AtomicU64>,
    all: AtomicU64,
    lead: OnceLock<u64>,
}

impl Starts {
    fn new(plan: &Plan) -> Self {
        let by_group = (0..plan.shape.groups).map(|_| AtomicU64::new(0)).collect();
        Self { jobs: plan.jobs, by_group, all: AtomicU64::new(0), lead: OnceLock::new() }
    }

    fn note(&self, n: u64) {
        let groups = self.by_group.len() as u64;
        if let Some(group) = usize::try_from(n % groups).ok().and_then(|group| self.by_group.get(group)) {
            group.fetch_add(1, Ordering::Relaxed);
        }
        if self.all.fetch_add(1, Ordering::Relaxed) + 1 == self.jobs / 2 {
            let begun: Vec<_> = self.by_group.iter().map(|group| group.load(Ordering::Relaxed)).collect();
            let _ = self.lead.set(lead(self.jobs, &begun));
        }
    }

    /// How many more jobs of one group than of another had begun when half of all jobs had, among groups with jobs left.
    fn lead_at_half(&self) -> Option<u64> {
        self.lead.get().copied().filter(|_| self.by_group.len() > 1)
    }
}

fn lead(jobs: u64, begun: &[u64]) -> u64 {
    let groups = begun.len() as u64;
    let size = |group: u64| jobs / groups + u64::from(group < jobs % groups);
    let left = || (0..).zip(begun).filter(|(group, begun)| **begun < size(*group)).map(|(_, begun)| *begun);
    left().max().unwrap_or(0) - left().min().unwrap_or(0)
}

/// What all jobs have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) groups: u64,
    pub(super) args_bytes: usize,
}

impl Shape {
    /// The job with this number.
    pub(super) fn job(self, n: u64) -> JobRequest {
        let mut args = format!(r#"{{"n":{n},"pad":""#);
        args.push_str(&"x".repeat(self.args_bytes.saturating_sub(args.len() + 2)));
        args.push_str(r#""}"#);
        JobRequest::from_json(NAME, &args).queue(NAME).group(format!("g{}", n % self.groups))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lead_is_measured_among_groups_that_have_jobs_left() {
        assert_eq!(lead(40, &[5, 5, 5, 5]), 0);
        assert_eq!(lead(40, &[9, 4, 5, 2]), 7);
        // The first group has no jobs left: its lead over the others does not count.
        assert_eq!(lead(40, &[10, 4, 5, 1]), 4);
        // Not all groups are of one size, and some have no job at all.
        assert_eq!(lead(3, &[1, 0]), 1);
        assert_eq!(lead(2, &[1, 0, 0]), 0);
    }
}
