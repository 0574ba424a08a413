//! Foreign workers: what any server must know to answer one, and what it asks for all of its workers at once.

use std::time::Duration;

use turnwise_core::{Incarnation, Node, Timestamp, worker::Worker};

use crate::{StoreError, store::Lineage, store::Result};

/// A foreign worker as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundWorker {
    /// Its row.
    pub node: Node,
    /// What it said when it registered.
    pub worker: Worker,
    /// The database's time.
    pub now: Timestamp,
    /// Which run of the database has answered.
    pub lineage: Lineage,
}

/// A worker's sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerBeat {
    /// Whose lease is prolonged.
    pub node: Incarnation,
    /// Slots from now on; zero while it drains.
    pub slots: u32,
    /// How long it is believed to live from now on.
    pub lease: Duration,
}

/// The reply to many of them.
#[derive(Debug, Clone, PartialEq)]
pub struct BeatenWorkers {
    /// The database's time.
    pub now: Timestamp,
    /// Another one than before: commits may have been taken back since.
    pub lineage: Lineage,
    /// In the order of the beats; `false`: unknown or lost.
    pub alive: Vec<bool>,
}

/// What a worker said, read back from its column.
pub fn read_worker(text: &str) -> Result<Worker> {
    let newer = |error| StoreError::Refused(format!("a worker is not of this version ({error}); use a newer turnwise"));
    Worker::from_text(text).map_err(newer)
}
