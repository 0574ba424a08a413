//! Audit: what is written down about a change that an operator makes, and for how long.
//!
//! A line says who ([`Actor`]) did what ([`AuditVerb`]) to what ([`AuditTarget`]), how it was before and how it is after. Here it is
//! decided what a line says; a store writes it in the transaction of the change itself, and only if that is written. A change that
//! changes nothing has no line. Arguments of jobs are in a line as a SHA-256 only.

mod facts;

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use serde_json::{Map, Value};
use uuid::Uuid;

use self::facts::{Facts, difference, job_after, job_before, schedule, settings};
use crate::{
    access::{Grant, NewToken, Scope, Token, TokenId},
    job::{Job, JobId, NewJob},
    json::Json,
    lifecycle::{Event, Transition},
    name::{ActorName, GroupName, Invalid, KeyName, NodeName, QueueName, ScheduleName, TaskName},
    retention::Retention,
    settings::{GroupSettings, InstallationSettings, LimitSettings, QueueSettings},
    time::Timestamp,
    words::words,
};

/// How long a line is kept.
pub const KEEP_AUDIT: Duration = Duration::from_secs(400 * 86_400);

/// What the id of an actor begins with that is a token. No other actor has such a name.
const TOKEN: &str = "token:";

/// Chosen by the caller that makes the change, so that a repeated call leaves one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AuditId(pub Uuid);

/// Who makes a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    id: ActorName,
    label: Option<Arc<str>>,
}

impl Actor {
    /// A person or a program by a name of the caller's choice, such as `cli:alice@build-3`. Refuses names that begin with `token:`,
    /// which are those of tokens.
    pub fn named(name: impl AsRef<str>) -> Result<Self, Invalid> {
        let id = ActorName::new(name)?;
        if id.as_str().starts_with(TOKEN) {
            return Err(Invalid::new("actor", format!("must not begin with {TOKEN}, as tokens do")));
        }
        Ok(Self { id, label: None })
    }

    /// The bearer of a token: `token:` and its id; what the token is called and how it begins is kept with it.
    pub fn token(token: &Token) -> Self {
        let id = ActorName::stored(format!("{TOKEN}{}", token.id).into());
        Self { id, label: Some(format!("{} ({}…)", token.name, token.prefix).into()) }
    }

    /// The bearer of a ticket that was made with this token: the token answers for it, and the label says so.
    pub fn ticket_of(token: &Token) -> Self {
        let Self { id, label } = Self::token(token);
        Self { id, label: label.map(|label| format!("{label}, by a ticket").into()) }
    }

    /// Read back from the database.
    pub fn stored(id: String, label: Option<String>) -> Self {
        Self { id: ActorName::stored(id.into()), label: label.map(Into::into) }
    }

    /// What lines are found by.
    pub fn id(&self) -> &ActorName {
        &self.id
    }

    /// Of a token: what it is called, and how its secret begins.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditVerb {
    /// A job is stopped, or its node is asked to stop it.
    Cancel,
    /// A job runs now, or again.
    Retry,
    /// A job runs again, also one that has succeeded.
    Rerun,
    /// A stuck job is marked as failed.
    Fail,
    /// A job gets another priority, time or queue.
    Change,
    /// A job is submitted again, perhaps with changes: as another job.
    Resubmit,
    /// Settings or a schedule are set.
    Set,
    /// A queue, group or schedule is paused.
    Pause,
    /// The pause is over.
    Resume,
    /// No more jobs come to a queue.
    Seal,
    /// More may come after all.
    Unseal,
    /// What was set is taken away.
    Reset,
    /// A schedule is taken away.
    Remove,
    /// A token is created.
    Create,
    /// A token is taken back.
    Revoke,
    /// What is kept no longer is deleted at once.
    Prune,
    /// A node takes no more jobs.
    Drain,
}

words!(
    AuditVerb, "verb",
    "cancel" => Cancel, "retry" => Retry, "rerun" => Rerun, "fail" => Fail, "change" => Change, "resubmit" => Resubmit, "set" => Set, "pause" => Pause,
    "resume" => Resume, "seal" => Seal, "unseal" => Unseal, "reset" => Reset, "remove" => Remove, "create" => Create,
    "revoke" => Revoke, "prune" => Prune, "drain" => Drain
);

impl AuditVerb {
    /// What a person does by this event; `None`: no person causes it.
    pub fn of(event: &Event) -> Option<Self> {
        match event {
            Event::Cancel => Some(Self::Cancel),
            Event::Retry => Some(Self::Retry),
            Event::Rerun => Some(Self::Rerun),
            Event::GiveUp => Some(Self::Fail),
            Event::Edit(_) => Some(Self::Change),
            _ => None,
        }
    }
}

/// What it is done to. Written as `queue:mail`, `job:` and an id, or `installation`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditTarget {
    /// A job.
    Job(JobId),
    /// What is set for a queue.
    Queue(QueueName),
    /// What is set for a group.
    Group(GroupName),
    /// The limits of a task.
    Task(TaskName),
    /// The limits of a key that jobs share.
    Key(KeyName),
    /// A schedule.
    Schedule(ScheduleName),
    /// A token.
    Token(TokenId),
    /// A decision about many jobs that is carried out in parts, by its number.
    Decision(u64),
    /// A node.
    Node(NodeName),
    /// What is set for all nodes, and what concerns all jobs.
    Installation,
}

impl fmt::Display for AuditTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(id) => write!(f, "job:{id}"),
            Self::Queue(name) => write!(f, "queue:{name}"),
            Self::Group(name) => write!(f, "group:{name}"),
            Self::Task(name) => write!(f, "task:{name}"),
            Self::Key(name) => write!(f, "key:{name}"),
            Self::Schedule(name) => write!(f, "schedule:{name}"),
            Self::Token(id) => write!(f, "token:{id}"),
            Self::Decision(number) => write!(f, "decision:{number}"),
            Self::Node(name) => write!(f, "node:{name}"),
            Self::Installation => f.write_str("installation"),
        }
    }
}

impl FromStr for AuditTarget {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let bad = |invalid: Invalid| Invalid::new("target", format!("{text:?}: {}", invalid.problem));
        let no_job = |_| Invalid::new("target", format!("{text:?}: is not a job id"));
        let no_number = |_| Invalid::new("target", format!("{text:?}: is not the number of a decision"));
        match text.split_once(':') {
            Some(("job", id)) => id.parse().map(Self::Job).map_err(no_job),
            Some(("queue", name)) => name.parse().map(Self::Queue).map_err(bad),
            Some(("group", name)) => name.parse().map(Self::Group).map_err(bad),
            Some(("task", name)) => name.parse().map(Self::Task).map_err(bad),
            Some(("key", name)) => name.parse().map(Self::Key).map_err(bad),
            Some(("schedule", name)) => name.parse().map(Self::Schedule).map_err(bad),
            Some(("token", id)) => id.parse().map(Self::Token).map_err(bad),
            Some(("decision", number)) => number.parse().map(Self::Decision).map_err(no_number),
            Some(("node", name)) => name.parse().map(Self::Node).map_err(bad),
            None if text == "installation" => Ok(Self::Installation),
            _ => {
                let forms = "job:ID, queue:NAME, group:NAME, task:NAME, key:NAME, schedule:NAME, token:ID, decision:NUMBER, node:NAME or installation";
                Err(Invalid::new("target", format!("must be {forms}, not {text:?}")))
            }
        }
    }
}

/// A line that is to be written with a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAuditLine {
    /// A fresh one, the same when the call is repeated.
    pub id: AuditId,
    /// Who makes the change.
    pub actor: Actor,
    /// What is done.
    pub verb: AuditVerb,
    /// What it is done to.
    pub target: AuditTarget,
    /// What it was before, in as far as it changes; `None`: it was not there.
    pub before: Option<Json>,
    /// What it is then; `None`: it is gone.
    pub after: Option<Json>,
}

/// A line as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLine {
    /// Chosen by the caller that made the change.
    pub id: AuditId,
    /// When the change was written, by the database's clock.
    pub at: Timestamp,
    /// Who made it.
    pub actor: Actor,
    /// The word of an [`AuditVerb`], perhaps of a later version.
    pub verb: String,
    /// The text of an [`AuditTarget`].
    pub target: String,
    /// What it was before, in as far as it was changed; `None`: it was not there.
    pub before: Option<Json>,
    /// What it was then; `None`: it was gone.
    pub after: Option<Json>,
}

impl NewAuditLine {
    fn about(
        (id, actor): (AuditId, &Actor),
        verb: AuditVerb,
        target: AuditTarget,
        before: Option<Facts>,
        after: Option<Facts>,
    ) -> Self {
        let actor = actor.clone();
        Self { id, actor, verb, target, before: before.map(facts::bounded), after: after.map(facts::bounded) }
    }

    /// About a decision that changes a job; `None`: it changes nothing that people see. Before: also which job it is, for the line
    /// is kept longer than the job.
    pub fn of_job(by: (AuditId, &Actor), verb: AuditVerb, job: &Job, to: &Transition) -> Option<Self> {
        let (mut before, after) = difference(Some(job_before(job)), Some(job_after(job, to)))?;
        before.get_or_insert_default().extend(facts::job_itself(job));
        Some(Self::about(by, verb, AuditTarget::Job(job.id), before, after))
    }

    /// About a job that is submitted again as `new`. Before: which job it was; after: what it is then, and under which id.
    pub fn of_resubmit(by: (AuditId, &Actor), job: &Job, new: &NewJob) -> Self {
        let (before, after) = (facts::job_itself(job), facts::new_job(new));
        Self::about(by, AuditVerb::Resubmit, AuditTarget::Job(job.id), Some(before), Some(after))
    }

    /// About settings or a schedule, given as they are stored before and after; `None`: nothing changes.
    pub fn of_setting(
        by: (AuditId, &Actor),
        verb: AuditVerb,
        target: AuditTarget,
        before: Option<&str>,
        after: Option<&str>,
    ) -> Option<Self> {
        let read = |text: Option<&str>| match &target {
            AuditTarget::Queue(_) => Some(settings::<QueueSettings>(text)),
            AuditTarget::Group(_) => Some(settings::<GroupSettings>(text)),
            AuditTarget::Task(_) | AuditTarget::Key(_) => Some(settings::<LimitSettings>(text)),
            AuditTarget::Installation => Some(settings::<InstallationSettings>(text)),
            AuditTarget::Schedule(_) => text.map(schedule),
            AuditTarget::Job(_) | AuditTarget::Token(_) | AuditTarget::Decision(_) | AuditTarget::Node(_) => None,
        };
        let (before, after) = difference(read(before), read(after))?;
        Some(Self::about(by, verb, target, before, after))
    }

    /// About a token that is to be created.
    pub fn of_new_token(by: (AuditId, &Actor), token: &NewToken) -> Self {
        Self::about(by, AuditVerb::Create, AuditTarget::Token(token.id), None, Some(facts::token(token)))
    }

    /// About a token that is to be revoked. The store writes it unless the token was revoked before.
    pub fn of_revoked_token(by: (AuditId, &Actor), token: &Token) -> Self {
        let (before, after) = facts::revoked(token);
        Self::about(by, AuditVerb::Revoke, AuditTarget::Token(token.id), Some(before), Some(after))
    }

    /// About a ticket that is made with a token, if it may change something. One that may only look changes nothing, as a log-in does not, and
    /// has no line.
    pub fn of_ticket(by: (AuditId, &Actor), token: &Token, given: &Grant, origins: &[String]) -> Option<Self> {
        let after = facts::ticket(given, origins);
        let line = || Self::about(by, AuditVerb::Create, AuditTarget::Token(token.id), None, Some(after));
        given.may(Scope::Operate).then(line)
    }

    /// About a decision about many jobs, which begins or is over: what is said of it before and after. Each of its jobs has a line of its own.
    pub fn of_decision(
        by: (AuditId, &Actor),
        verb: AuditVerb,
        number: u64,
        before: Option<Map<String, Value>>,
        after: Map<String, Value>,
    ) -> Self {
        Self::about(by, verb, AuditTarget::Decision(number), before, Some(after))
    }

    /// About a node that is to take no more jobs, or to take some again.
    pub fn of_node(by: (AuditId, &Actor), verb: AuditVerb, name: &NodeName, drained: bool) -> Self {
        let fact = |drained: bool| Map::from_iter([("drained".to_owned(), Value::Bool(drained))]);
        Self::about(by, verb, AuditTarget::Node(name.clone()), Some(fact(!drained)), Some(fact(drained)))
    }

    /// About a prune; the store adds [what is kept](Self::keeping).
    pub fn of_prune(by: (AuditId, &Actor)) -> Self {
        Self::about(by, AuditVerb::Prune, AuditTarget::Installation, None, None)
    }

    /// With the retention that a prune went by.
    #[must_use]
    pub fn keeping(self, retention: Retention) -> Self {
        Self { after: Some(facts::bounded(facts::kept(retention))), ..self }
    }

    /// As it is kept, written at this time.
    pub fn written(self, at: Timestamp) -> AuditLine {
        let Self { id, actor, verb, target, before, after } = self;
        AuditLine { id, at, actor, verb: verb.to_string(), target: target.to_string(), before, after }
    }
}

#[cfg(test)]
mod tests;
