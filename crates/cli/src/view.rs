//! What tables and sentences show of a job: read from the JSON that both ways give, so that they look the same.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use turnwise::{JobState, Timestamp};

/// A [`wire::Job`](turnwise::wire::Job).
#[derive(Debug, Deserialize)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) task: String,
    pub(crate) queue: String,
    pub(crate) group: String,
    pub(crate) key: Option<String>,
    pub(crate) unique: Option<String>,
    pub(crate) unique_scope: Option<String>,
    pub(crate) unique_until: Option<Timestamp>,
    pub(crate) priority: u8,
    pub(crate) state: JobState,
    pub(crate) attempt: u32,
    pub(crate) retries_left: Option<u32>,
    pub(crate) args: Box<RawValue>,
    pub(crate) result: Option<Box<RawValue>>,
    pub(crate) error: Option<String>,
    pub(crate) node: Option<String>,
    pub(crate) submitted_at: Timestamp,
    pub(crate) due_at: Option<Timestamp>,
    pub(crate) assigned_at: Option<Timestamp>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Option<Timestamp>,
    pub(crate) retry: Option<String>,
    pub(crate) timeout: Option<String>,
    pub(crate) on_exhausted: Option<String>,
    pub(crate) next: Option<String>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) fingerprint: Option<String>,
    pub(crate) cancel_requested: bool,
    pub(crate) waits_for: Vec<String>,
    pub(crate) schedule: Option<String>,
}

/// A [`wire::Story`](turnwise::wire::Story).
#[derive(Debug, Deserialize)]
pub(crate) struct Story {
    pub(crate) progress: Option<Progress>,
    pub(crate) steps: BTreeMap<String, Box<RawValue>>,
    pub(crate) after: Vec<String>,
    pub(crate) on_failure: Option<String>,
    pub(crate) awaited_by: Vec<String>,
    pub(crate) attempts: Vec<Attempt>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Progress {
    pub(crate) done: u64,
    pub(crate) total: u64,
    pub(crate) text: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Attempt {
    pub(crate) number: u32,
    pub(crate) task: String,
    pub(crate) ending: String,
    pub(crate) node: Option<String>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Option<Timestamp>,
    pub(crate) error: Option<Vec<String>>,
    pub(crate) place: Option<String>,
}

/// A [`wire::Node`](turnwise::wire::Node).
#[derive(Debug, Deserialize)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) pid: u32,
    #[serde(default)]
    pub(crate) version: Option<String>,
    pub(crate) slots: u32,
    pub(crate) queues: Option<Vec<String>>,
    pub(crate) all_but: bool,
    pub(crate) tasks: Vec<String>,
    pub(crate) dispatcher: bool,
    pub(crate) state: String,
    pub(crate) lease_until: Timestamp,
    pub(crate) joined_at: Timestamp,
    pub(crate) lost_at: Option<Timestamp>,
    pub(crate) held: Option<u64>,
    pub(crate) held_jobs: Vec<String>,
    #[serde(default)]
    pub(crate) language: Option<String>,
    #[serde(default)]
    pub(crate) client: Option<String>,
}

impl Node {
    /// Whether its tasks run in another program.
    pub(crate) fn is_foreign(&self) -> bool {
        self.language.is_some() || self.client.is_some()
    }

    /// What a foreign worker says that it is; empty for any other node.
    pub(crate) fn program(&self) -> String {
        let said = [&self.language, &self.client].into_iter().flatten();
        said.map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    /// Whether its lease holds: one that stops is alive, too.
    pub(crate) fn lives(&self) -> bool {
        self.state != "lost"
    }
}
