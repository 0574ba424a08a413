//! What became of a submitted job.

use turnwise_core::{JobId, unique::Replacing};

/// What became of a submitted job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Submitted {
    /// The job that stands for it: itself, or the one that holds its unique key.
    pub id: JobId,
    /// `false`: it was there already, or another job stands for it.
    pub new: bool,
    /// Set when another job stands for it.
    pub duplicate: Option<Duplicate>,
}

impl Submitted {
    /// The job itself, now or since an earlier call.
    pub fn itself(id: JobId, new: bool) -> Self {
        Self { id, new, duplicate: None }
    }

    /// Another job stands for it.
    pub fn held_by(id: JobId, duplicate: Duplicate) -> Self {
        Self { id, new: false, duplicate: Some(duplicate) }
    }
}

/// How the job that holds the key stands for one that was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicate {
    /// As it is.
    Kept,
    /// With the arguments of the one that was submitted.
    Replaced,
    /// As it is, though its arguments were to be replaced: it had begun, or is in a node's hands.
    TooLate,
    /// As it is, though its arguments were to be replaced: it is a job of another task.
    OtherTask,
}

impl From<Replacing> for Duplicate {
    fn from(may: Replacing) -> Self {
        match may {
            Replacing::Allowed => Self::Replaced,
            Replacing::OtherTask => Self::OtherTask,
            Replacing::TooLate => Self::TooLate,
        }
    }
}
