//! When each job was submitted, started and ended, in seconds from the beginning.

use std::{
    ops::{Range, RangeInclusive},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::sync::Notify;

#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) group: usize,
    pub(super) submitted: Option<f64>,
    pub(super) started: Option<f64>,
    pub(super) ended: Option<f64>,
}

impl Times {
    /// How long the job held a slot within these times; a job that still runs is counted until `now`.
    pub(super) fn slot_time(&self, within: &RangeInclusive<f64>, now: f64) -> f64 {
        let Some(started) = self.started else { return 0.0 };
        (self.ended.unwrap_or(now).min(*within.end()) - started.max(*within.start())).max(0.0)
    }
}

/// The totals of a group so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) jobs: usize,
    pub(super) ended: usize,
    pub(super) started: usize,
    /// Seconds that the started ones waited.
    pub(super) waited: f64,
    /// Slot-seconds of the ended ones.
    pub(super) served: f64,
}

#[derive(Debug)]
pub(super) struct Ledger {
    pages: Mutex<Pages>,
    ended: Notify,
}

#[derive(Debug)]
struct Pages {
    begun: Instant,
    jobs: Vec<Times>,
    tallies: Vec<Tally>,
    left: usize,
    /// Nothing is written any more.
    closed: bool,
}

impl Ledger {
    /// `owners`: the group of each job.
    pub(super) fn new(owners: &[usize], groups: usize) -> Self {
        let mut tallies = vec![Tally::default(); groups];
        owners.iter().for_each(|&group| tallies[group].jobs += 1);
        let jobs = owners.iter().map(|&group| Times { group, submitted: None, started: None, ended: None }).collect();
        let pages = Pages { begun: Instant::now(), jobs, tallies, left: owners.len(), closed: false };
        Self { pages: Mutex::new(pages), ended: Notify::new() }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        // Numbers are written one by one: a panic elsewhere leaves none of them half done.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time counts from now on, also for jobs that were submitted before.
    pub(super) fn begin(&self) {
        let mut pages = self.pages();
        pages.begun = Instant::now();
        pages.jobs.iter_mut().filter_map(|job| job.submitted.as_mut()).for_each(|submitted| *submitted = 0.0);
    }

    pub(super) fn submit(&self, jobs: Range<usize>) {
        let mut pages = self.pages();
        let now = pages.now();
        pages.jobs[jobs].iter_mut().for_each(|job| job.submitted = Some(now));
    }

    pub(super) fn start(&self, job: usize) {
        let mut pages = self.pages();
        let now = pages.now();
        if pages.closed {
            return;
        }
        let times = &mut pages.jobs[job];
        times.started = Some(now);
        let (group, waited) = (times.group, now - times.submitted.unwrap_or(now));
        pages.tallies[group].started += 1;
        pages.tallies[group].waited += waited;
    }

    pub(super) fn end(&self, job: usize) {
        let mut pages = self.pages();
        let now = pages.now();
        if pages.closed {
            return;
        }
        let times = &mut pages.jobs[job];
        times.ended = Some(now);
        let (group, served) = (times.group, now - times.started.unwrap_or(now));
        pages.tallies[group].ended += 1;
        pages.tallies[group].served += served;
        pages.left -= 1;
        if pages.left == 0 {
            self.ended.notify_one();
        }
    }

    pub(super) async fn all_ended(&self) {
        self.ended.notified().await;
    }

    pub(super) fn tallies(&self) -> (f64, Vec<Tally>) {
        let pages = self.pages();
        (pages.now(), pages.tallies.clone())
    }

    /// Ends the writing; returns the present time and all that was written.
    pub(super) fn close(&self) -> (f64, Vec<Times>) {
        let mut pages = self.pages();
        pages.closed = true;
        (pages.now(), std::mem::take(&mut pages.jobs))
    }
}

impl Pages {
    fn now(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }
}

pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}
