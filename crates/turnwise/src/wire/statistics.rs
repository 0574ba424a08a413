//! Statistics.

use std::time::Duration;

use serde::Serialize;
use turnwise_core::Timestamp;

use crate::statistics::{BOUNDS, Counted, ErrorCount, ErrorCounts, Histogram, Of, Point, Row, Sums};

/// What happened.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Statistics<'a> {
    /// In the order of time.
    pub points: Vec<StatisticsPoint<'a>>,
    /// The longest time that each bucket of a histogram holds, in seconds; the last bucket holds all that is longer.
    pub bounds: Vec<f64>,
}

impl<'a> Statistics<'a> {
    /// These points. With an outcome, `runs` are those with that outcome.
    pub fn new(points: &'a [Point], outcome: Option<Counted>) -> Self {
        let points = points.iter().map(|point| StatisticsPoint::new(point, outcome)).collect();
        Self { points, bounds: BOUNDS.iter().map(|micros| seconds(*micros)).collect() }
    }
}

/// What happened at a time, in a queue, to the jobs of a task or a group.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct StatisticsPoint<'a> {
    /// When the time began.
    pub at: Timestamp,
    /// How long it was: `minute`, `hour` or `day`.
    pub step: &'static str,
    /// The queue.
    pub queue: &'a str,
    /// The task; `null`: all tasks, or all others.
    pub task: Option<&'a str>,
    /// The group; `null`: all groups, or all others.
    pub group: Option<&'a str>,
    /// Jobs that nodes got.
    pub started: u64,
    /// Jobs that ended with success.
    pub success: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// Jobs that were cancelled, or given up by a person.
    pub cancelled: u64,
    /// Runs that ended in an error, after which a person is to decide.
    pub stuck: u64,
    /// Runs that ended in an error and were to be tried again.
    pub retried: u64,
    /// Runs after which the job waited again without an error.
    pub again: u64,
    /// What was used of the share, in seconds of a slot; in a queue that counts turns, in turns.
    pub used: f64,
    /// What could be claimed while jobs were ready, in the same unit; 0 for tasks.
    pub entitled: f64,
    /// How long jobs had been due when they started.
    pub waits: Times,
    /// How long runs took.
    pub runs: Times,
}

impl<'a> StatisticsPoint<'a> {
    fn new(point: &'a Point, outcome: Option<Counted>) -> Self {
        let Row { queue, of, sums } = &point.row;
        let (task, group) = match of {
            Of::Task(task) => (Some(task.as_str()), None),
            Of::Group(group) => (None, Some(group.as_str())),
            Of::OtherTasks | Of::OtherGroups => (None, None),
        };
        let count = |counted| sums.count(counted);
        Self {
            at: point.at,
            step: point.step.name(),
            queue: queue.as_str(),
            task,
            group,
            started: count(Counted::Started),
            success: count(Counted::Success),
            failed: count(Counted::Failed),
            cancelled: count(Counted::Cancelled),
            stuck: count(Counted::Stuck),
            retried: count(Counted::Retried),
            again: count(Counted::Again),
            used: seconds(sums.used),
            entitled: seconds(sums.entitled),
            waits: Times::new(&sums.histogram(Counted::Started)),
            runs: Times::new(&outcome.map_or_else(|| Sums::runs(sums), |outcome| sums.histogram(outcome))),
        }
    }
}

/// How long something took.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Times {
    /// How many are known.
    pub count: u64,
    /// All together, in seconds.
    pub seconds: f64,
    /// Half of them took no longer, in seconds; `null`: there are none, or it is beyond the last bound. It is the bound of a bucket.
    pub p50: Option<f64>,
    /// The same for nine of ten.
    pub p90: Option<f64>,
    /// The same for 99 of 100.
    pub p99: Option<f64>,
    /// How many were in each bucket.
    pub buckets: Vec<u64>,
}

impl Times {
    fn new(histogram: &Histogram) -> Self {
        let quantile = |part| histogram.quantile(part).as_ref().map(Duration::as_secs_f64);
        Self {
            count: histogram.count(),
            seconds: seconds(histogram.micros),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            buckets: histogram.buckets.to_vec(),
        }
    }
}

/// Errors that runs ended with, the most frequent first.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Errors<'a> {
    /// At most 200.
    pub errors: Vec<ErrorSeen<'a>>,
}

/// How often an error was seen.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ErrorSeen<'a> {
    /// The same for errors of the same kind. Jobs are listed by it.
    pub fingerprint: String,
    /// Of which queue.
    pub queue: &'a str,
    /// Of which task.
    pub task: &'a str,
    /// How often.
    pub count: u64,
    /// When first, within the time that was asked for.
    pub first_seen: Timestamp,
    /// When last.
    pub last_seen: Timestamp,
    /// How often by the time; empty unless a step was asked for.
    pub counts: Vec<ErrorsCounted>,
}

/// How often an error was seen at a time.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ErrorsCounted {
    /// When the time began.
    pub at: Timestamp,
    /// How long it was: `minute`, `hour` or `day`.
    pub step: &'static str,
    /// How often.
    pub count: u64,
}

impl<'a> Errors<'a> {
    /// These.
    pub fn new(errors: &'a [ErrorCounts]) -> Self {
        let counted = |&ErrorCount { at, step, count }: &ErrorCount| ErrorsCounted { at, step: step.name(), count };
        let seen = |ErrorCounts { row, counts }: &'a ErrorCounts| ErrorSeen {
            fingerprint: row.fingerprint.to_string(),
            queue: row.queue.as_str(),
            task: row.task.as_str(),
            count: row.count,
            first_seen: row.first,
            last_seen: row.last,
            counts: counts.iter().map(counted).collect(),
        };
        Self { errors: errors.iter().map(seen).collect() }
    }
}

fn seconds(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}
