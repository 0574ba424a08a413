//! The log of a job.

use std::borrow::Cow;

use serde::Serialize;
use turnwise_core::{Fence, Invalid, Timestamp, secret::Mask, story};

use crate::story::{Level, LineAt};

/// A part of a job's log.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Log<'a> {
    /// In their order.
    pub lines: Vec<LogLine<'a>>,
    /// How many earlier lines are not kept any more.
    pub dropped: u64,
    /// To be given as `after` for the lines that follow; `null`: there are none yet.
    pub next: Option<String>,
}

impl<'a> Log<'a> {
    /// The lines of this story, without the job's secrets; `after` is where they were to begin.
    pub fn new(story: &'a story::Story, after: Option<LineAt>, mask: &Mask) -> Self {
        let next = story.lines.last().map(|line| line.at).or(after);
        Self {
            lines: story.lines.iter().map(|line| LogLine::new(line, mask)).collect(),
            dropped: story.dropped,
            next: next.map(|at| format!("{}.{}", at.fence.0, at.number)),
        }
    }

    /// Reads `next` of an earlier part. [`Invalid`] for other text.
    pub fn read_after(text: &str) -> Result<LineAt, Invalid> {
        let read = || {
            let (run, line) = text.split_once('.')?;
            Some(LineAt { fence: Fence(run.parse().ok()?), number: line.parse().ok()? })
        };
        read().ok_or_else(|| Invalid::new("after", format!("{text:?} is not the next of an earlier answer")))
    }
}

/// A line of a job's log.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct LogLine<'a> {
    /// When the task wrote it, by the clock of its node.
    pub at: Timestamp,
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: Level,
    /// Which run wrote it: the number grows with each time that the job is given to a node.
    pub run: i64,
    /// Its number in this run.
    pub line: u32,
    /// What it says.
    pub text: Cow<'a, str>,
}

impl<'a> LogLine<'a> {
    /// As it is kept, without the job's secrets.
    pub fn new(line: &'a story::Line, mask: &Mask) -> Self {
        let story::Line { at, time, level, text } = line;
        Self { at: *time, level: *level, run: at.fence.0, line: at.number, text: mask.text(text) }
    }
}
