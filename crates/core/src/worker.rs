//! A foreign worker: a node whose tasks run in another program, which says what any server must know to decide for it.
//!
//! Its facts are stored in the node's row when it registers, and never change in one life of it. Everything that is decided about its
//! jobs follows from them, from the job's row and from what the worker says that it holds; so any server can answer it.

mod hands;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

pub use hands::{Stop, is_over_time, known_batches, to_give};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    access::TokenId,
    job::{AssignedJob, Step},
    lifecycle::Outcome,
    name::{Invalid, TaskName},
    node::Node,
    retry::RetryPolicy,
    secret::{self, Pointer, Secrets},
    terms::Terms,
    time::{Timestamp, parse_span, print_span},
};

/// The versions of the protocol that servers speak, the newest last.
pub const PROTOCOLS: [u32; 1] = [1];
/// How long a worker's lease may be.
pub const LEASES: std::ops::RangeInclusive<Duration> = Duration::from_secs(5)..=Duration::from_secs(600);
/// The lease of a worker that names none.
pub const LEASE: Duration = Duration::from_secs(30);
/// Beats in a lease: two of them may be lost.
pub const BEATS: u32 = 3;
/// How long a task has to stop once its time is over; then the server ends its job.
pub const GRACE: Duration = Duration::from_secs(10);
/// A job that is held so long is written as running, and no sooner: most are done by then.
pub const MOMENT: Duration = Duration::from_secs(1);
/// Longest name of a worker, and longest words for its language and its client, in bytes.
pub const MAX_TEXT_BYTES: usize = 100;
/// Most tasks of a worker: their facts are read whole.
pub const MAX_TASKS: usize = 1_000;
/// Most jobs that a worker runs at a time, and most that it holds beyond them.
pub const MAX_SLOTS: u32 = 10_000;

/// What is known of a task that runs elsewhere: as its jobs name none of their own, these count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFacts {
    /// When a failed run is tried again; `None`: [`RetryPolicy::DEFAULT`].
    pub retry: Option<RetryPolicy>,
    /// How long a run may take; `None`: as long as it needs.
    pub timeout: Option<Duration>,
    /// The task a job goes on as, with the same arguments, when its retries run out; `None`: the job fails.
    pub on_exhausted: Option<TaskName>,
    /// Secret fields of its arguments.
    pub secret: BTreeSet<Pointer>,
}

impl TaskFacts {
    /// From their texts; [`Invalid`] names the first that cannot be read.
    pub fn read(
        retry: Option<&str>,
        timeout: Option<&str>,
        on_exhausted: Option<&str>,
        secret: &[String],
    ) -> Result<Self, Invalid> {
        let timeout = timeout.map(|span| parse_span("timeout", span)).transpose()?;
        timeout.map_or(Ok(()), |limit| Terms::default().set_timeout(limit))?;
        Ok(Self {
            retry: retry.map(str::parse).transpose()?,
            timeout,
            on_exhausted: on_exhausted
                .map(|task| TaskName::new(task).map_err(|invalid| Invalid::new("on_exhausted", invalid.problem)))
                .transpose()?,
            secret: secret::pointers(secret)?,
        })
    }
}

/// A worker as it is stored with its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// The version of the protocol that it speaks.
    pub protocol: u32,
    /// What it is written in, for people.
    pub language: String,
    /// The program that speaks for it, for people.
    pub client: String,
    /// The token that registered it, which every later verb needs; `None`: there were no tokens.
    pub token: Option<TokenId>,
    /// What it runs, by name.
    pub tasks: BTreeMap<TaskName, TaskFacts>,
}

impl Worker {
    /// Refuses what is beyond the bounds, and naming it.
    pub fn check(&self) -> Result<(), Invalid> {
        if !PROTOCOLS.contains(&self.protocol) {
            let known: Vec<_> = PROTOCOLS.iter().map(u32::to_string).collect();
            let problem = format!("{} is not known here; this server speaks {}", self.protocol, known.join(", "));
            return Err(Invalid::new("protocol", problem));
        }
        check_text("language", &self.language)?;
        check_text("client", &self.client)?;
        if self.tasks.len() > MAX_TASKS {
            return Err(Invalid::new("tasks", format!("are {}, at most {MAX_TASKS} are allowed", self.tasks.len())));
        }
        Ok(())
    }

    /// The secret fields of its tasks. What is secret for a task is secret for the one that its jobs go on as with the same arguments.
    pub fn secrets(&self) -> Secrets {
        let mut secrets = Secrets::default();
        for (name, facts) in &self.tasks {
            facts.secret.iter().for_each(|pointer| secrets.add(name.clone(), pointer.clone()));
        }
        secrets.carried_on(|task| self.tasks.get(task).and_then(|facts| facts.on_exhausted.as_ref()))
    }

    /// How long a run of this job may take.
    pub fn timeout(&self, job: &AssignedJob) -> Option<Duration> {
        job.terms.timeout().or_else(|| self.tasks.get(&job.task)?.timeout)
    }

    /// As the databases keep it.
    pub fn to_text(&self) -> String {
        serde_json::to_string(&Stored::of(self)).expect("names and words are text")
    }

    /// Reads what [`Worker::to_text`] wrote. What a newer program has added is left out.
    pub fn from_text(text: &str) -> Result<Self, Invalid> {
        let stored: Stored = serde_json::from_str(text).map_err(|error| Invalid::new("worker", error.to_string()))?;
        stored.read()
    }
}

/// Refuses words for people that are too long, or more than one line.
pub fn check_text(field: &'static str, text: &str) -> Result<(), Invalid> {
    if text.len() > MAX_TEXT_BYTES {
        let problem = format!("is {} bytes long, at most {MAX_TEXT_BYTES} are allowed", text.len());
        return Err(Invalid::new(field, problem));
    }
    if text.chars().any(char::is_control) {
        return Err(Invalid::new(field, "must not contain control characters"));
    }
    Ok(())
}

/// How long a newcomer has to wait for a name that this node has; `None`: the node is lost or its lease is over, and it is replaced.
pub fn wait_for_name(by: &Node, now: Timestamp) -> Option<Duration> {
    (by.alive(now)).then(|| by.lease_until.since(now))
}

/// What tasks set for their jobs, wherever it is known: in a program's registry, or among the facts of a worker.
pub trait TaskLookup {
    /// When a failed run of the task is tried again.
    fn retry(&self, task: &TaskName) -> Option<&RetryPolicy>;
    /// The task that a job of it goes on as when its retries run out.
    fn on_exhausted(&self, task: &TaskName) -> Option<&TaskName>;
}

impl TaskLookup for Worker {
    fn retry(&self, task: &TaskName) -> Option<&RetryPolicy> {
        self.tasks.get(task)?.retry.as_ref()
    }

    fn on_exhausted(&self, task: &TaskName) -> Option<&TaskName> {
        self.tasks.get(task)?.on_exhausted.as_ref()
    }
}

/// The job's own policy, or else its task's, or else the default.
pub fn retry_of<'a>(tasks: &'a impl TaskLookup, job: &'a AssignedJob) -> &'a RetryPolicy {
    job.retry.as_ref().or_else(|| tasks.retry(&job.task)).unwrap_or(&RetryPolicy::DEFAULT)
}

/// The job's own terms. Where its retries may run out and they do not name a task for that, the one that its task names.
pub fn terms_of(tasks: &impl TaskLookup, job: &AssignedJob, outcome: &Outcome) -> Terms {
    let mut terms = job.terms.clone();
    let failed = matches!(outcome, Outcome::Error(_) | Outcome::Panic(_) | Outcome::TimedOut { .. });
    if failed
        && terms.on_exhausted().is_none()
        && let Some(task) = tasks.on_exhausted(&job.task)
    {
        let retry = tasks.retry(task).cloned();
        let step = Step { task: task.clone(), args: job.args.clone(), retry, terms: Terms::default() };
        terms.set_on_exhausted(step).expect("one step that none follows");
    }
    terms
}

#[derive(Serialize, Deserialize)]
struct Stored {
    protocol: u32,
    #[serde(default)]
    language: String,
    #[serde(default)]
    client: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    tasks: BTreeMap<String, StoredFacts>,
}

#[derive(Serialize, Deserialize)]
struct StoredFacts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on_exhausted: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    secret: Vec<String>,
}

impl Stored {
    fn of(worker: &Worker) -> Self {
        let text = |value: &dyn fmt::Display| value.to_string();
        let facts = |facts: &TaskFacts| StoredFacts {
            retry: facts.retry.as_ref().map(|retry| text(retry)),
            timeout: facts.timeout.map(print_span),
            on_exhausted: facts.on_exhausted.as_ref().map(|task| text(task)),
            secret: facts.secret.iter().map(|pointer| text(pointer)).collect(),
        };
        Self {
            protocol: worker.protocol,
            language: worker.language.clone(),
            client: worker.client.clone(),
            token: worker.token.map(|token| token.0.to_string()),
            tasks: worker.tasks.iter().map(|(name, of)| (name.to_string(), facts(of))).collect(),
        }
    }

    fn read(self) -> Result<Worker, Invalid> {
        let token = |text: String| {
            let uuid = text.parse::<Uuid>().map_err(|_| Invalid::new("token", format!("{text:?} is not a token's id")));
            uuid.map(TokenId)
        };
        let facts = |(name, of): (String, StoredFacts)| {
            let StoredFacts { retry, timeout, on_exhausted, secret } = of;
            let facts = TaskFacts::read(retry.as_deref(), timeout.as_deref(), on_exhausted.as_deref(), &secret)?;
            Ok((TaskName::new(name)?, facts))
        };
        Ok(Worker {
            protocol: self.protocol,
            language: self.language,
            client: self.client,
            token: self.token.map(token).transpose()?,
            tasks: self.tasks.into_iter().map(facts).collect::<Result<_, Invalid>>()?,
        })
    }
}
