//! Which jobs wait for which.

use serde::Serialize;
use turnwise_core::{JobId, JobState, OnFailure, TaskName};

use crate::graph;

/// Jobs that are tied to one another.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Graph<'a> {
    /// In layers: each stands after all it waits for; within a layer by id.
    pub jobs: Vec<Tied<'a>>,
    /// Whether there are more: the nearest ones are listed.
    pub more: bool,
}

/// A job of the graph.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Tied<'a> {
    /// Its id, also when it is kept no longer.
    pub id: JobId,
    /// `null`: it is kept no longer.
    pub state: Option<JobState>,
    /// `null`: it is kept no longer.
    pub task: Option<&'a TaskName>,
    /// Those of the graph that it waits or waited for.
    pub after: &'a [JobId],
    /// What becomes of it when one of these fails; `null` for one that waits for no job.
    pub on_failure: Option<&'static str>,
    /// The length of the longest way from a job that waits for no other.
    pub layer: usize,
}

impl<'a> Graph<'a> {
    /// As it was read.
    pub fn new(graph: &'a graph::Graph) -> Self {
        let tied = |tied: &'a graph::Tied| Tied {
            id: tied.id,
            state: tied.job.as_ref().map(|job| job.state),
            task: tied.job.as_ref().map(|job| &job.task),
            after: &tied.after,
            on_failure: tied.on_failure.map(OnFailure::name),
            layer: tied.layer,
        };
        Self { jobs: graph.jobs.iter().map(tied).collect(), more: graph.more }
    }
}
