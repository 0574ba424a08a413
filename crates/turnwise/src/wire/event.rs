//! Events as listeners receive them.

use serde::Serialize;
use turnwise_core::{
    GroupName, Invalid, JobHead, JobId, JobState, NodeName, QueueName, TaskName, Timestamp, settings::QueueSettings,
};
use turnwise_store::{
    Change,
    operators::{EndedJob, HeldJob},
};

use super::{Node, Progress, QueueSet};

/// The kinds of events that a listener may choose from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EventType {
    /// A job was submitted, or is to run again.
    Submitted,
    /// A node has begun to run a job.
    Started,
    /// A job that runs has come further.
    Progress,
    /// A job has ended.
    Ended,
    /// A node came, left, was lost or stops.
    Node,
    /// Another node dispatches, or none does.
    Dispatcher,
    /// A queue was paused or resumed, or its settings were changed.
    Queue,
}

impl EventType {
    /// Every kind.
    pub const ALL: [EventType; 7] =
        [Self::Submitted, Self::Started, Self::Progress, Self::Ended, Self::Node, Self::Dispatcher, Self::Queue];

    /// As programs write and read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Started => "started",
            Self::Progress => "progress",
            Self::Ended => "ended",
            Self::Node => "node",
            Self::Dispatcher => "dispatcher",
            Self::Queue => "queue",
        }
    }
}

impl std::str::FromStr for EventType {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let known = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| Invalid::new("type", format!("{text:?} is not a type of event; there are {}", known())))
    }
}

/// Something that happened.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Event<'a> {
    /// A job was submitted, or is to run again.
    Submitted {
        /// When it was observed, by the database's clock; as in all events.
        at: Timestamp,
        /// The job at that time.
        job: EventJob<'a>,
    },
    /// A node has begun to run a job. Not sent for jobs shorter than about a second.
    Started {
        /// When it was observed.
        at: Timestamp,
        /// The job at that time.
        job: EventJob<'a>,
    },
    /// A job that runs has come further.
    Progress {
        /// When it was observed.
        at: Timestamp,
        /// The job at that time.
        job: EventJob<'a>,
        /// How far.
        progress: Progress<'a>,
    },
    /// A job has ended.
    Ended {
        /// When it was observed.
        at: Timestamp,
        /// As it ended.
        job: EventJob<'a>,
    },
    /// A node came, left, was lost or stops.
    Node {
        /// When it was observed.
        at: Timestamp,
        /// `joined`, `left`, `lost`, `stopping`, `alive` (once more) or, after a connection was lost, `present`.
        change: &'static str,
        /// As it is now, or was last.
        node: Box<Node<'a>>,
    },
    /// Another node dispatches, or none does.
    Dispatcher {
        /// When it was observed.
        at: Timestamp,
        /// The node; `null`: none does.
        node: Option<&'a NodeName>,
    },
    /// A queue was paused or resumed, or its settings were changed.
    Queue {
        /// When it was observed.
        at: Timestamp,
        /// `paused`, `resumed`, `changed` or, after a connection was lost, `present`.
        change: &'static str,
        /// What is set for it now.
        queue: Box<QueueSet<'a>>,
    },
    /// What happened meanwhile is not known: the listener reads again what it shows.
    Reset {
        /// Why the stream was reset.
        reason: &'a str,
    },
    /// The last event of a stream.
    Closed {
        /// Why the stream ends.
        reason: &'a str,
    },
}

impl<'a> Event<'a> {
    /// That the queue's settings are others than they were.
    pub fn of_queue(at: Timestamp, name: &'a QueueName, old: &QueueSettings, new: &'a QueueSettings) -> Option<Self> {
        // The cursor of a seal is the dispatcher's own.
        let shown = |set: &QueueSettings| QueueSettings { quiet: None, ..set.clone() };
        let change = match (&old.paused, &new.paused) {
            _ if shown(old) == shown(new) => return None,
            (None, Some(_)) => "paused",
            (Some(_), None) => "resumed",
            _ => "changed",
        };
        Some(Self::Queue { at, change, queue: Box::new(QueueSet::new(name.as_str(), new)) })
    }
}

/// A job in an event: no more than is known without reading its arguments, result and error.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct EventJob<'a> {
    /// The job.
    pub id: JobId,
    /// The task that it runs, or ran last; `null` where the job has ended and nothing is kept of it.
    pub task: Option<&'a TaskName>,
    /// The queue that it is in; `null` as above.
    pub queue: Option<&'a QueueName>,
    /// The group that it belongs to; `null` as above.
    pub group: Option<&'a GroupName>,
    /// `waiting`, `scheduled`, `running`, `stuck`, `success`, `failed` or `cancelled`; `null` where a job of which nothing is kept was
    /// ended by a person.
    pub state: Option<JobState>,
    /// How many runs have ended by themselves; `null` where that was not read.
    pub attempt: Option<u32>,
    /// The node that has it, or had it at its end.
    pub node: Option<&'a NodeName>,
    /// When it was stored, by the database's clock.
    pub submitted_at: Option<Timestamp>,
    /// When it is due; `null` where that was not read.
    pub due_at: Option<Timestamp>,
    /// When its last run began.
    pub started_at: Option<Timestamp>,
    /// When its last run ended.
    pub finished_at: Option<Timestamp>,
    /// What kind of error it ended with.
    pub fingerprint: Option<&'a str>,
}

impl<'a> EventJob<'a> {
    fn of(id: JobId) -> Self {
        Self {
            id,
            task: None,
            queue: None,
            group: None,
            state: None,
            attempt: None,
            node: None,
            submitted_at: None,
            due_at: None,
            started_at: None,
            finished_at: None,
            fingerprint: None,
        }
    }

    /// A new one.
    pub fn new(head: &'a JobHead) -> Self {
        Self {
            task: Some(&head.task),
            queue: Some(&head.queue),
            group: Some(&head.group),
            state: Some(head.state),
            submitted_at: Some(head.submitted_at),
            due_at: head.due,
            ..Self::of(head.id)
        }
    }

    /// One in a node's hands.
    pub fn held(job: &'a HeldJob) -> Self {
        Self {
            task: Some(&job.task),
            queue: Some(&job.queue),
            group: Some(&job.group),
            state: Some(job.state),
            attempt: Some(job.attempt),
            node: Some(&job.node),
            submitted_at: Some(job.submitted_at),
            started_at: job.started_at,
            ..Self::of(job.id)
        }
    }

    /// One that has ended.
    pub fn ended(job: &'a EndedJob) -> Self {
        Self {
            task: Some(&job.task),
            queue: Some(&job.queue),
            group: Some(&job.group),
            state: Some(job.state),
            attempt: Some(job.attempt),
            node: job.node.as_ref(),
            submitted_at: Some(job.submitted_at),
            started_at: job.started_at,
            finished_at: job.finished_at,
            fingerprint: job.fingerprint.as_deref(),
            ..Self::of(job.id)
        }
    }

    /// All that an event shows of it.
    pub fn whole(job: &'a crate::Job) -> Self {
        Self {
            task: Some(&job.task),
            queue: Some(&job.queue),
            group: Some(&job.group),
            state: Some(job.state),
            attempt: Some(job.attempt()),
            node: job.node.as_ref(),
            submitted_at: Some(job.submitted_at),
            due_at: job.due_at,
            started_at: job.started_at,
            finished_at: job.finished_at,
            fingerprint: job.fingerprint.as_deref(),
            ..Self::of(job.id)
        }
    }

    /// One that came and has ended since: as it was when it came.
    pub fn before_its_end(job: &'a EndedJob) -> Self {
        Self {
            task: Some(&job.task),
            queue: Some(&job.queue),
            group: Some(&job.group),
            state: Some(JobState::Waiting),
            submitted_at: Some(job.submitted_at),
            ..Self::of(job.id)
        }
    }

    /// One that has ended, and of which nothing is kept.
    pub fn forgotten(change: &Change) -> Self {
        let state = if change.well {
            Some(JobState::Success)
        } else if change.failed {
            Some(JobState::Failed)
        } else {
            None
        };
        Self { state, ..Self::of(change.id) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_read_by_its_name() {
        for kind in EventType::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let refused = "ende".parse::<EventType>().unwrap_err().to_string();
        assert!(
            refused.ends_with("there are submitted, started, progress, ended, node, dispatcher, queue"),
            "{refused}"
        );
    }

    #[test]
    fn a_change_of_a_queue_says_what_it_is() {
        use turnwise_core::settings::Pause;
        let (name, now) = (QueueName::new("mail").unwrap(), Timestamp::from_micros(0));
        let plain = QueueSettings::default();
        let paused = QueueSettings { paused: Some(Pause { since: now, reason: None }), ..plain.clone() };
        let other = QueueSettings { per_node: Some(2), ..plain.clone() };
        let told = |old, new| match Event::of_queue(now, &name, old, new) {
            Some(Event::Queue { change, .. }) => change,
            _ => "nothing",
        };
        assert_eq!(
            [told(&plain, &paused), told(&paused, &plain), told(&plain, &other)],
            ["paused", "resumed", "changed"]
        );
        assert_eq!(told(&plain, &plain), "nothing");
    }
}
