//! What is known of a job besides its row: its attempts, its progress, its log, its finished steps, the jobs it waits for.

use std::{fmt, str::FromStr};

use crate::{
    after::After,
    failure::Failure,
    job::{Fence, JobId},
    json::Json,
    lifecycle::Ending,
    name::{Invalid, NodeName, TaskName},
    time::Timestamp,
};

/// Most attempts that are kept of a job; the oldest go first.
pub const MAX_ATTEMPTS: u32 = 1_000;
/// Lines of a job's log that are kept, unless it is set otherwise; the oldest go first.
pub const LOG_LINES: u32 = 10_000;
/// Longest line of a log, in bytes.
pub const MAX_LINE_BYTES: usize = 4 * 1024;
/// Most steps whose results are kept for one job.
pub const MAX_STEPS: usize = 10_000;
/// Most waiting jobs that are listed for the job they wait for.
pub const MAX_AWAITED_BY: u32 = 1_000;

/// A run that has ended, in the job's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The assignment that it ran under.
    pub fence: Fence,
    /// The number of the run, from 1.
    pub number: u32,
    /// The code that ran: a job with several steps has several tasks.
    pub task: TaskName,
    /// How it ended.
    pub ending: Ending,
    /// Where it ran, if the node was still known when the end was written.
    pub node: Option<NodeName>,
    /// When the task began, if that is known.
    pub started_at: Option<Timestamp>,
    /// When the task ended; `None` where its node was lost.
    pub finished_at: Option<Timestamp>,
    /// What went wrong; `None` where nothing was reported: the job went on to its next step, or its node was lost.
    pub failure: Option<Failure>,
}

/// How far a run has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// How much of `total` is done, in units of the task's own.
    pub done: u64,
    /// Zero: not known.
    pub total: u64,
    /// The task's own words for it; at most [`MAX_LINE_BYTES`].
    pub text: String,
}

impl Progress {
    /// Of a text longer than [`MAX_LINE_BYTES`] the end is cut off.
    pub fn new(done: u64, total: u64, text: &str) -> Self {
        Self { done, total, text: line(text) }
    }

    /// Between 0 and 1, where there is a total.
    #[allow(clippy::cast_precision_loss)] // for people
    pub fn share(&self) -> Option<f64> {
        (self.total > 0).then(|| (self.done as f64 / self.total as f64).min(1.0))
    }
}

/// How urgent a line of a log is, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something failed.
    Error,
    /// Something may fail, or was handled.
    Warn,
    /// What a reader of the log wants to know; the level of `Ctx::log`.
    Info,
    /// Details for the author of the task.
    Debug,
    /// The finest details.
    Trace,
}

impl Level {
    /// Every level, the most urgent first.
    pub const ALL: [Level; 5] = [Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// In lower case, as it is printed and parsed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }

    /// Number in the database; never reuse one.
    pub fn code(self) -> i16 {
        match self {
            Self::Error => 0,
            Self::Warn => 1,
            Self::Info => 2,
            Self::Debug => 3,
            Self::Trace => 4,
        }
    }

    /// The level with this number; `None` if no level has it.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.code() == code)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Level {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::ALL
            .into_iter()
            .find(|level| level.name() == text)
            .ok_or_else(|| Invalid::new("level", format!("{text:?} is not one of error, warn, info, debug, trace")))
    }
}

/// Where a line stands in the log of a job: by run, then in the order it was written. Chosen by the node, so that a line
/// whose reply was lost is not written twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineAt {
    /// The assignment whose run wrote the line.
    pub fence: Fence,
    /// Counts the lines of that run.
    pub number: u32,
}

/// A line of a job's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its place in the log; no two lines of a job have the same.
    pub at: LineAt,
    /// When the task wrote it.
    pub time: Timestamp,
    /// How urgent it is.
    pub level: Level,
    /// At most [`MAX_LINE_BYTES`], without NUL bytes.
    pub text: String,
}

/// Longest name of a step, in bytes: it is part of a key in the database.
pub const MAX_STEP_NAME_BYTES: usize = 200;

/// A text as one line of a log takes it: bounded, without the NUL that fits in no database column.
pub fn line(text: &str) -> String {
    let mut end = text.len().min(MAX_LINE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].replace('\0', "?")
}

/// The result of a finished step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Unique within the job's current task.
    pub name: String,
    /// What the step returned; a later run gets this and does not run the step again.
    pub result: Json,
}

/// What is known of a job besides its row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Story {
    /// In the order of the runs.
    pub attempts: Vec<Attempt>,
    /// What a run reported last; `None`: none has reported any.
    pub progress: Option<Progress>,
    /// Finished steps of the job's current task, by name.
    pub steps: Vec<Finished>,
    /// Of the job's log, in order: as many as were asked for.
    pub lines: Vec<Line>,
    /// Lines that were written and are not kept any more.
    pub dropped: u64,
    /// The jobs that it waits for, or waited for.
    pub after: After,
    /// The jobs that wait or waited for it, by id; at most [`MAX_AWAITED_BY`].
    pub awaited_by: Vec<JobId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_read_back() {
        for level in Level::ALL {
            assert_eq!(level.name().parse::<Level>().unwrap(), level);
            assert_eq!(Level::from_code(level.code()), Some(level));
        }
        assert!("loud".parse::<Level>().unwrap_err().to_string().starts_with("level: "));
    }

    #[test]
    fn a_line_is_bounded() {
        assert_eq!(line(&"é".repeat(MAX_LINE_BYTES)).len(), MAX_LINE_BYTES);
        assert_eq!(line("a\0b"), "a?b");
        assert_eq!(Progress::new(3, 2, "").share(), Some(1.0));
        assert_eq!(Progress::new(3, 0, "").share(), None);
    }
}
