//! A node in a process of its own, and what its record says.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::mpsc,
    time::{Duration, SystemTime},
};

use serde_json::Value;
use turnwise::Timestamp;
use turnwise_sim::{
    History,
    history::{Line, NodeEvent},
};

use super::{process::Process, wait::PATIENCE};

/// A running `turnwise serve`; killed when it is dropped.
pub(crate) struct Node {
    pub(super) name: String,
    pub(super) process: Process,
    pub(super) output: mpsc::Receiver<String>,
    pub(super) trace: PathBuf,
    pub(super) errors: PathBuf,
}

impl Node {
    /// The line that says so.
    pub(crate) fn wait_until_ready(&mut self) -> String {
        let line = self
            .output
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|_| panic!("{} is not ready: {}", self.name, self.errors()));
        assert!(line.contains("ready"), "{line}");
        line
    }

    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// SIGTERM, and the code it must end with.
    pub(crate) fn stop(mut self) {
        self.signal("TERM");
        let status = self.exit_within(PATIENCE);
        assert_eq!(status.code(), Some(0), "{}", self.errors());
    }

    pub(crate) fn exit_within(&mut self, limit: Duration) -> ExitStatus {
        self.process.exit_within(limit, &self.name)
    }

    /// What it wrote to stderr so far.
    pub(crate) fn errors(&self) -> String {
        fs::read_to_string(&self.errors).unwrap()
    }

    /// The file with its record.
    pub(crate) fn trace_file(&self) -> &Path {
        &self.trace
    }

    pub(crate) fn trace(&self) -> Vec<Line> {
        whole_lines(&self.trace)
    }

    pub(crate) fn count(&self, wanted: fn(&NodeEvent) -> bool) -> usize {
        self.trace().iter().filter(|line| matches!(line, Line::Node { event, .. } if wanted(event))).count()
    }

    pub(crate) fn starts(&self) -> usize {
        self.count(|event| matches!(event, NodeEvent::Start { .. }))
    }

    /// The jobs that have begun here, by its own record.
    pub(super) fn started(&self) -> Vec<String> {
        let started = |line: &Line| match line {
            Line::Node { event: NodeEvent::Start { job, .. }, .. } => Some(job.to_string()),
            _ => None,
        };
        self.trace().iter().filter_map(started).collect()
    }

    /// The lines of its record that name the job.
    pub(crate) fn records_of(&self, job: &str) -> String {
        let text = fs::read_to_string(&self.trace).unwrap();
        text.lines().filter(|line| line.contains(job)).map(|line| format!("    {line}\n")).collect()
    }

    /// The jobs its record names, with the time of each line.
    pub(crate) fn jobs_at(&self) -> Vec<(String, SystemTime)> {
        let text = fs::read_to_string(&self.trace).unwrap();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let jobs = lines.filter_map(|line| {
            let at: Timestamp = line["at"].as_str()?.parse().ok()?;
            let since = Duration::from_micros(at.micros().try_into().ok()?);
            Some((line["job"].as_str()?.to_owned(), SystemTime::UNIX_EPOCH + since))
        });
        jobs.collect()
    }

    pub(crate) fn effects(&self) -> usize {
        self.count(|event| matches!(event, NodeEvent::Effect { .. }))
    }

    pub(crate) fn settles(&self) -> usize {
        self.count(|event| matches!(event, NodeEvent::Settle { .. }))
    }

    /// How often it has taken the lead.
    pub(crate) fn leads(&self) -> usize {
        self.count(|event| matches!(event, NodeEvent::Lead { .. }))
    }

    /// The incarnations it has joined as so far.
    pub(crate) fn incarnations(&self) -> Vec<String> {
        let joined = |line: &Line| match line {
            Line::Node { incarnation, event: NodeEvent::Join { .. }, .. } => Some(incarnation.clone()),
            _ => None,
        };
        self.trace().iter().filter_map(joined).collect()
    }
}

/// The complete lines of a file that a process is still writing to.
fn whole_lines(path: &Path) -> Vec<Line> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let end = text.rfind('\n').map_or(0, |end| end + 1);
    History::parse(&path.display().to_string(), &text[..end]).unwrap().lines
}
