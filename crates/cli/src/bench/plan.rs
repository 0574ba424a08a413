//! The options, all of them checked before anything is done.

use std::{ops::RangeInclusive, time::Duration};

use serde::Serialize;
use turnwise::{Config, Invalid, NodeName, Options};

use super::work::{NAME, Shape};
use crate::{args, error::Failure, settings::Settings};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    Drain,
    Submit,
    Bulk,
    Latency,
    Lifecycle,
    Pinned,
    Idle,
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
    pub(super) shape: Shape,
    /// Callers that submit at the same time.
    pub(super) callers: u64,
    /// How long an idle node is measured.
    pub(super) idle: Duration,
    pub(super) other_node: bool,
    pub(super) history: History,
    pub(super) force: bool,
    /// How a node of the benchmark is set up.
    pub(super) node: Config,
}

impl Plan {
    pub(super) fn read(settings: &Settings, call: &args::Bench) -> Result<Self, Failure> {
        // The command line takes no other words than these.
        let mode = match call.mode.as_str() {
            "submit" => Mode::Submit,
            "bulk" => Mode::Bulk,
            "latency" => Mode::Latency,
            "lifecycle" => Mode::Lifecycle,
            "pinned" => Mode::Pinned,
            "idle" => Mode::Idle,
            _ => Mode::Drain,
        };
        let database = settings.database();
        if !lasting(database) && (mode == Mode::Pinned || call.other_node) {
            let problem =
                format!("{database} cannot be opened a second time, as this mode needs; name a file or a server");
            return Err(Invalid::new("database", problem).into());
        }
        if call.other_node && mode != Mode::Latency {
            return Err(Invalid::new("other-node", "works only with --mode latency").into());
        }
        let history = if call.history == "keep" { History::Keep } else { History::Delete };
        let groups = number("groups", call.groups.as_ref(), 1_000, 1..=10_000_000)?;
        let args_bytes = number("args-bytes", call.args_bytes.as_ref(), 100, 0..=1_000_000)?;
        let mut node = settings.executor()?;
        node.name = NodeName::new(NAME)?;
        // It serves every queue, and runs only the benchmark's jobs: it has no other task.
        node.queues = None;
        node.thread_name_prefix = None;
        if let Some(slots) = &call.slots {
            let slots = number("slots", Some(slots), 1, 1..=100_000)?;
            (node.core_pool_size, node.max_pool_size) = (u32::try_from(slots).unwrap_or(u32::MAX), None);
        }
        Ok(Self {
            mode,
            database: database.to_owned(),
            jobs: match mode {
                Mode::Idle => 0,
                _ => number("jobs", call.jobs.as_ref(), mode.usual_jobs(), 1..=100_000_000)?,
            },
            shape: Shape { groups, args_bytes: usize::try_from(args_bytes).unwrap_or(usize::MAX) },
            // No more: each caller is notified of its job's end, and a few thousand events are kept for a listener.
            callers: number("callers", call.callers.as_ref(), 50, 1..=1_000)?,
            idle: Duration::from_secs(number("seconds", call.seconds.as_ref(), 30, 1..=86_400)?),
            other_node: call.other_node,
            history,
            force: call.force,
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

/// Options with which finished jobs are deleted at once.
pub(super) fn nothing_kept() -> Options {
    Options { retention: Some(Duration::ZERO.into()), ..Options::default() }
}

/// Whether what is stored outlives this process.
pub(super) fn lasting(database: &str) -> bool {
    !database.starts_with("memory:") && !database.starts_with("sqlite::memory:")
}

impl Mode {
    fn usual_jobs(self) -> u64 {
        match self {
            Self::Drain | Self::Bulk => 100_000,
            Self::Submit | Self::Lifecycle => 20_000,
            Self::Latency => 200,
            Self::Pinned => 300_000,
            Self::Idle => 0,
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
