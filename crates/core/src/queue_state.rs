//! What a queue is doing: the one place that decides when a queue is finished, and which state it is shown in.

use crate::{name::QueueName, settings::QueueSettings};

/// What a queue is doing now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueState {
    /// It starts jobs, as far as its limits and windows allow.
    Active,
    /// It starts nothing until a person resumes it; what runs goes on.
    Paused,
    /// Until this queue is finished.
    Waiting(QueueName),
    /// Nothing is left in it and nothing more can come.
    Finished,
}

impl QueueState {
    /// `left`: whether a job is left in the queue, or may be as long as the backlog is not fully read; `finished`: whether another
    /// queue is finished. A queue that is finished stays so, whether it is paused or not.
    pub fn of(settings: &QueueSettings, left: bool, finished: impl Fn(&QueueName) -> bool) -> Self {
        if is_finished(settings, left) {
            Self::Finished
        } else if settings.paused.is_some() {
            Self::Paused
        } else if let Some(other) = waits_for(settings, finished) {
            Self::Waiting(other.clone())
        } else {
            Self::Active
        }
    }

    /// The word for it, as programs read it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Waiting(_) => "waiting",
            Self::Finished => "finished",
        }
    }
}

/// Whether a queue is sealed, no open transaction can bring it a job, and none is `left` in it.
pub fn is_finished(settings: &QueueSettings, left: bool) -> bool {
    settings.closed() && !left
}

/// The first queue that is not finished and that this one waits for.
pub fn waits_for(settings: &QueueSettings, finished: impl Fn(&QueueName) -> bool) -> Option<&QueueName> {
    settings.after.iter().find(|name| !finished(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{settings::Pause, time::Timestamp};

    #[test]
    fn a_queue_that_is_finished_is_neither_paused_nor_waiting() {
        let first = QueueName::new("first").unwrap();
        let sealed = Some(Timestamp::MIN);
        let paused = Some(Pause { since: Timestamp::MIN, reason: None });
        let all =
            QueueSettings { sealed, quiet: sealed, paused, after: [first.clone()].into(), ..QueueSettings::default() };
        let of = |settings: &QueueSettings, left| QueueState::of(settings, left, |_| false);
        assert_eq!((of(&all, false), of(&all, true)), (QueueState::Finished, QueueState::Paused));
        let waiting = QueueSettings { paused: None, ..all };
        assert_eq!(of(&waiting, true), QueueState::Waiting(first));
        assert_eq!(QueueState::of(&waiting, true, |_| true), QueueState::Active);
        assert_eq!(of(&QueueSettings { quiet: None, ..waiting.clone() }, false), of(&waiting, true), "more may come");
    }
}
