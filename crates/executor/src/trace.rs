//! The record of a run, one JSON line per event, for the history checker (`turnwise-sim`) and for hard questions.
//!
//! Each line is one write to a file opened for appending, so lines of several processes do not mix and a killed
//! process loses none it has written.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{Arc, Mutex},
};

use serde::Serialize;
use turnwise_core::{Incarnation, JobId, JobState, NodeName, Timestamp};

use crate::lock::locked;

/// One line.
#[derive(Debug, Serialize)]
pub struct Line<'a> {
    pub at: Timestamp,
    pub node: &'a NodeName,
    pub incarnation: Incarnation,
    #[serde(flatten)]
    pub record: Record,
}

#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Record {
    /// The node is in the fleet.
    Join {
        slots: u32,
    },
    /// This node dispatches from now on.
    Lead {
        epoch: i64,
    },
    Assign {
        job: JobId,
        fence: i64,
        to: Incarnation,
    },
    /// The task begins to run.
    Start {
        job: JobId,
        fence: i64,
        task: String,
    },
    /// The task has returned: what it did, it did.
    Effect {
        job: JobId,
        fence: i64,
    },
    /// The run was stopped before its task returned. Its slot is free at once, whenever that is written to the store.
    Interrupt {
        job: JobId,
        fence: i64,
    },
    /// The store has accepted how it ended.
    Settle {
        job: JobId,
        fence: i64,
        state: JobState,
    },
    /// The store has refused a settle with an old fence.
    Stale {
        job: JobId,
        fence: i64,
    },
    /// The node stops or was declared lost, and the store does not answer: whether the end was accepted, it does not know.
    GiveUp {
        job: JobId,
        fence: i64,
    },
    /// The dispatcher has taken a job from a lost node.
    NodeLost {
        job: JobId,
        fence: i64,
        lost: Incarnation,
        state: JobState,
    },
    /// The dispatcher is about to end a job that has never run: it expired, or another one that it waited for failed.
    Unrun {
        job: JobId,
        fence: i64,
        state: JobState,
    },
    /// The node has left; `held` jobs were still in its hands.
    Leave {
        held: usize,
    },
}

/// Where lines go, if anywhere.
#[derive(Debug, Clone, Default)]
pub struct Trace(Option<To>);

#[derive(Debug, Clone)]
enum To {
    File(Arc<File>),
    Memory(Arc<Mutex<Vec<u8>>>),
}

impl Trace {
    pub fn off() -> Self {
        Self(None)
    }

    pub fn to_file(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self(Some(To::File(Arc::new(file)))))
    }

    /// Lines are added to `lines`.
    pub fn to_memory(lines: Arc<Mutex<Vec<u8>>>) -> Self {
        Self(Some(To::Memory(lines)))
    }

    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn write(&self, line: &Line<'_>) {
        let Some(to) = &self.0 else { return };
        let written = serde_json::to_vec(line).map_err(io::Error::other).and_then(|mut text| {
            text.push(b'\n');
            match to {
                To::File(file) => (&**file).write_all(&text),
                To::Memory(lines) => {
                    locked(lines).append(&mut text);
                    Ok(())
                }
            }
        });
        if let Err(error) = written {
            tracing::error!(%error, "the trace could not be written");
        }
    }
}
