//! A store error says what the caller should do next; the driver's own error is its source.

use turnwise_core::JobId;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a store could not do what it was asked: each kind says what the caller should do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Try again. The call may or may not have taken effect: every verb is safe to repeat.
    #[error("{what}: {source}")]
    Transient { what: &'static str, source: Source },

    /// Another node is the dispatcher now: stop dispatching and throw the scheduler away.
    #[error("another node is the dispatcher now")]
    NotLeading,

    /// A person has to change something: the password, the version, the disk. Repeating alone will not help.
    #[error("{0}")]
    Refused(String),

    /// The unique key of a job is held by another job, and its submitter asked to be rejected then. Nothing of the call is stored.
    #[error("{text}")]
    Duplicate { holder: JobId, text: String },

    /// A broken promise of the program or of the database's content; the text is for a bug report.
    #[error("{what}: {source}")]
    Broken { what: &'static str, source: Source },
}

impl StoreError {
    /// `what` was being done when `source` came; the caller tries again.
    pub fn transient(what: &'static str, source: impl Into<Source>) -> Self {
        Self::Transient { what, source: source.into() }
    }

    /// `what` was being done when `source` came; trying again would not help.
    pub fn broken(what: &'static str, source: impl Into<Source>) -> Self {
        Self::Broken { what, source: source.into() }
    }

    /// Whether trying again may help. The call may have taken effect all the same.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Transient { .. })
    }
}
