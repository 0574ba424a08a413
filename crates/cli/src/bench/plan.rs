//! What was asked for, all of it checked before anything is done.

use std::{ops::RangeInclusive, time::Duration};

use serde::Serialize;
use turnwise::{Config, NodeName, core::Invalid, store::Options};

use super::work::NAME;
use crate::{args, error::Failure, settings::Settings};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    Drain,
    Bulk,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum History {
    Delete,
    Keep,
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) mode: Mode,
    pub(super) database: String,
    pub(super) jobs: u64,
    pub(super) groups: u64,
    pub(super) args_bytes: usize,
    pub(super) history: History,
    pub(super) force: bool,
    /// How a node of the benchmark is set up.
    pub(super) node: Config,
}

impl Plan {
    pub(super) fn read(settings: &Settings, wish: &args::Bench) -> Result<Self, Failure> {
        // The command line takes no other words than these.
        let mode = match wish.mode.as_str() {
            "bulk" => Mode::Bulk,
            _ => Mode::Drain,
        };
        let history = if wish.history == "keep" { History::Keep } else { History::Delete };
        let groups = number("groups", wish.groups.as_ref(), 1_000, 1..=10_000_000)?;
        let args_bytes = number("args-bytes", wish.args_bytes.as_ref(), 100, 0..=1_000_000)?;
        let mut node = settings.executor()?;
        node.name = NodeName::new(NAME)?;
        // All the benchmark's jobs, and it knows no other task.
        node.queues = None;
        node.thread_name_prefix = None;
        if let Some(slots) = &wish.slots {
            let slots = number("slots", Some(slots), 1, 1..=100_000)?;
            (node.core_pool_size, node.max_pool_size) = (u32::try_from(slots).unwrap_or(u32::MAX), None);
        }
        Ok(Self {
            mode,
            database: settings.database().to_owned(),
            jobs: number("jobs", wish.jobs.as_ref(), mode.usual_jobs(), 1..=100_000_000)?,
            groups,
            args_bytes: usize::try_from(args_bytes).unwrap_or(usize::MAX),
            history,
            force: wish.force,
            node,
        })
    }

    pub(super) fn options(&self) -> Options {
        match self.history {
            History::Delete => nothing_kept(),
            History::Keep => Options::default(),
        }
    }
}

/// Where finished jobs are deleted at once.
pub(super) fn nothing_kept() -> Options {
    Options { retention: Duration::ZERO.into(), ..Options::default() }
}

impl Mode {
    fn usual_jobs(self) -> u64 {
        match self {
            Self::Drain | Self::Bulk => 100_000,
        }
    }
}

fn number(field: &'static str, text: Option<&String>, usual: u64, bounds: RangeInclusive<u64>) -> Result<u64, Invalid> {
    let Some(text) = text else { return Ok(usual) };
    text.parse()
        .ok()
        .filter(|number| bounds.contains(number))
        .ok_or_else(|| Invalid::new(field, format!("must be {} to {}, not {text:?}", bounds.start(), bounds.end())))
}
