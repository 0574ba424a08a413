//! What a node logs about jobs and the fleet, each kind bounded in rate: a thousand jobs that fail are ten lines and a count.

use std::{fmt, sync::Mutex, time::Duration};

use tokio::time::Instant;
use turnwise_core::{
    GroupName, JobId, TaskName, Timestamp,
    log_bound::{Bound, Outage, OutageLine},
};

use crate::lock::locked;

/// Kinds of lines that may come by the thousand.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Failed,
    Retry,
    QueuePaused,
    NodeLost,
    Lead,
    Stale,
    UnknownTask,
    HeldLine,
    Refused,
    Outage,
    Aside,
    Cut,
    PeriodicRefused,
    Unreadable,
    NotNoted,
}

impl Kind {
    const ALL: [Kind; 15] = [
        Kind::Failed,
        Kind::Retry,
        Kind::QueuePaused,
        Kind::NodeLost,
        Kind::Lead,
        Kind::Stale,
        Kind::UnknownTask,
        Kind::HeldLine,
        Kind::Refused,
        Kind::Outage,
        Kind::Aside,
        Kind::Cut,
        Kind::PeriodicRefused,
        Kind::Unreadable,
        Kind::NotNoted,
    ];

    /// What many of them are called.
    fn many(self) -> &'static str {
        match self {
            Kind::Failed => "jobs failed",
            Kind::Retry => "runs failed and are tried again",
            Kind::QueuePaused => "queues paused themselves",
            Kind::NodeLost => "nodes were lost",
            Kind::Lead => "the lead changed",
            Kind::Stale => "stale settles were refused",
            Kind::UnknownTask => "tasks are unknown to every live node",
            Kind::HeldLine => "serial queues are held by a job of an unknown task",
            Kind::Refused => "calls of the database were refused",
            Kind::Outage => "the database did not answer, or answered again",
            Kind::Aside => "what the dispatcher does besides panicked",
            Kind::Cut => "runs lost their connection before their end could be committed",
            Kind::PeriodicRefused => "periodic jobs were refused",
            Kind::Unreadable => "schedules cannot be read and are left out",
            Kind::NotNoted => "what jobs have said could not be stored",
        }
    }
}

/// The log of one process: all pools of a node share it.
#[derive(Debug)]
pub(crate) struct Logs {
    begun: Instant,
    bounds: Mutex<[Bound; Kind::ALL.len()]>,
    outage: Mutex<Outage>,
}

impl Default for Logs {
    fn default() -> Self {
        Self { begun: Instant::now(), bounds: Mutex::default(), outage: Mutex::default() }
    }
}

/// A job whose run has failed.
pub(crate) struct FailedRun<'a> {
    pub(crate) job: JobId,
    pub(crate) task: &'a TaskName,
    pub(crate) group: &'a GroupName,
    pub(crate) attempt: u32,
    pub(crate) error: &'a str,
}

impl Logs {
    /// Whether a line of this kind may be logged now; one that may not is counted.
    pub(crate) fn may(&self, kind: Kind) -> bool {
        let at = self.begun.elapsed();
        let (left_out, admitted) = {
            let bound = &mut locked(&self.bounds)[kind as usize];
            (bound.take_left_out(at), bound.admits(at))
        };
        if let Some((lines, over)) = left_out {
            tell_left_out(kind, lines, over);
        }
        admitted
    }

    /// Logs how many lines were left out, once their time is over. Called with every beat.
    pub(crate) fn tell_left_out(&self) {
        self.tell(Bound::take_left_out);
    }

    /// The same when a node stops, though their time is not over: no later beat would.
    pub(crate) fn tell_rest(&self) {
        self.tell(Bound::take_rest);
    }

    fn tell(&self, take: fn(&mut Bound, Duration) -> Option<(u64, Duration)>) {
        let at = self.begun.elapsed();
        for kind in Kind::ALL {
            let left_out = take(&mut locked(&self.bounds)[kind as usize], at);
            if let Some((lines, over)) = left_out {
                tell_left_out(kind, lines, over);
            }
        }
    }

    pub(crate) fn failed(&self, run: &FailedRun<'_>) {
        if tracing::enabled!(tracing::Level::WARN) && self.may(Kind::Failed) {
            let FailedRun { job, task, group, attempt, error } = run;
            tracing::warn!(%job, %task, %group, attempt, error, "a job failed for good");
        }
    }

    /// `due`: `None` if a person decides. `next`: the task it goes on as, its retries being used up.
    pub(crate) fn retried(&self, run: &FailedRun<'_>, due: Option<Timestamp>, next: Option<&TaskName>) {
        if !tracing::enabled!(tracing::Level::INFO) || !self.may(Kind::Retry) {
            return;
        }
        let FailedRun { job, task, group, attempt, error } = run;
        match (next, due) {
            (Some(next), _) => {
                tracing::info!(%job, %task, %group, attempt, error, "a run failed, and no retry is left: the job goes on as task {next}");
            }
            (None, Some(due)) => {
                tracing::info!(%job, %task, %group, attempt, error, %due, "a run failed; the job is stuck until its next try");
            }
            (None, None) => {
                tracing::info!(%job, %task, %group, attempt, error, "a run failed; the job is stuck until a person retries or fails it");
            }
        }
    }

    /// A call of the database failed and is tried again. `what` it was for.
    pub(crate) fn no_answer(&self, what: &str, error: &dyn fmt::Display) {
        let line = locked(&self.outage).failed(self.begun.elapsed());
        match line {
            Some(OutageLine::Begun) if self.may(Kind::Outage) => {
                tracing::warn!(%error, "the database does not answer; trying again ({what})");
            }
            Some(OutageLine::GoesOn(span)) => {
                tracing::warn!(%error, "the database has not answered for {}; trying again", seconds(span));
            }
            Some(OutageLine::Begun | OutageLine::Over(_)) | None => tracing::debug!(%error, "{what}"),
        }
    }

    /// A beat that was `sent` then is answered.
    pub(crate) fn answered(&self, sent: Instant) {
        let sent = sent.saturating_duration_since(self.begun);
        let line = locked(&self.outage).answered(sent, self.begun.elapsed());
        if let Some(OutageLine::Over(span)) = line
            && self.may(Kind::Outage)
        {
            tracing::warn!("the database answers again, after {}", seconds(span));
        }
    }
}

fn tell_left_out(kind: Kind, lines: u64, over: Duration) {
    let (many, over) = (kind.many(), over.as_secs());
    match kind {
        Kind::Retry => tracing::info!("and {lines} more in the last {over} s: {many}"),
        _ => tracing::warn!("and {lines} more in the last {over} s: {many}"),
    }
}

fn seconds(span: Duration) -> String {
    format!("{:.1} s", span.as_secs_f64())
}
