//! Which jobs wait for which: a line for each job, and a picture.

mod picture;

use std::{collections::HashMap, path::Path};

use serde::Deserialize;
use turnwise::{JobId, JobState, wire};
use turnwise_chart::{Chart, Width, standalone};
use turnwise_client::Ask;

use crate::{
    error::Failure,
    place::{self, Place, read},
    print,
    serve::block_on,
    settings::Settings,
};

/// Most jobs that are shown: a larger graph cannot be read. A server shows as many.
const JOBS: usize = 200;

/// A [`wire::Graph`].
#[derive(Debug, Deserialize)]
struct Graph {
    jobs: Vec<Tied>,
    more: bool,
}

/// A [`wire::Tied`].
#[derive(Debug, Deserialize)]
struct Tied {
    id: String,
    /// `None`: it is kept no longer.
    state: Option<JobState>,
    task: Option<String>,
    after: Vec<String>,
    on_failure: Option<String>,
    layer: usize,
}

pub(crate) fn show(settings: &Settings, id: JobId, json: bool, svg: Option<&Path>) -> Result<(), Failure> {
    let shown = block_on(async {
        match Place::find(settings).await? {
            Place::Database(turnwise) => place::shown(&wire::Graph::new(&turnwise.graph(id, JOBS).await?)),
            Place::Server(server) => server.ask(Ask::get(format!("/jobs/{id}/graph"))).await,
        }
    })?;
    let (graph, id) = (read(&shown)?, id.to_string());
    if let Some(path) = svg {
        print::picture(path, &standalone(&picture::picture(&graph, &id).svg(Width::Wide)))?;
    }
    if json {
        print::indented(shown.get())?;
    } else {
        print::lines(lines(&graph, &id))?;
    }
    Ok(())
}

/// `#3    waiting  join  01900000-…  after #1 #2 (fail)  <- this one`, deeper by layer.
fn lines(graph: &Graph, shown: &str) -> Vec<String> {
    let numbers: HashMap<&str, usize> = graph.jobs.iter().map(|tied| tied.id.as_str()).zip(1..).collect();
    let width = graph.jobs.len().to_string().len() + 1;
    let line = |tied: &Tied| {
        let number = format!("#{}", numbers[tied.id.as_str()]);
        let indent = "  ".repeat(tied.layer);
        let what = match (tied.state, &tied.task) {
            (Some(state), Some(task)) => format!("{:<9} {task}", state.name()),
            _ => "gone      -".to_owned(),
        };
        let after = match (tied.after.is_empty(), &tied.on_failure) {
            (false, Some(what)) => format!("  after {} ({what})", references(&tied.after, &numbers)),
            _ => String::new(),
        };
        let here = if tied.id == shown { "  <- this one" } else { "" };
        format!("{number:<width$}  {indent}{what}  {}{after}{here}", tied.id)
    };
    let mut lines: Vec<String> = graph.jobs.iter().map(line).collect();
    if graph.more {
        lines.push(format!("there are more jobs; the nearest {} are shown", graph.jobs.len()));
    }
    lines
}

/// The numbers, with runs of them drawn together: `#1-#40 #44`.
fn references(ids: &[String], numbers: &HashMap<&str, usize>) -> String {
    let mut sorted: Vec<usize> = ids.iter().filter_map(|id| numbers.get(id.as_str()).copied()).collect();
    sorted.sort_unstable();
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for number in sorted {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => spans.push((number, number)),
        }
    }
    let print = |&(first, last): &(usize, usize)| match last - first {
        0 => format!("#{first}"),
        1 => format!("#{first} #{last}"),
        _ => format!("#{first}-#{last}"),
    };
    spans.iter().map(print).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn tied(n: u64, after: &[u64], layer: usize) -> Tied {
        let id = |n| JobId::from_parts(n, [7; 10]).to_string();
        let on_failure = (!after.is_empty()).then(|| "fail".to_owned());
        let after = after.iter().copied().map(id).collect();
        Tied { id: id(n), state: None, task: None, after, on_failure, layer }
    }

    #[test]
    fn a_line_names_whom_it_waits_for_by_their_numbers() {
        let jobs = vec![tied(1, &[], 0), tied(2, &[], 0), tied(3, &[], 0), tied(9, &[], 0), tied(4, &[1, 2, 3, 9], 1)];
        let graph = Graph { more: true, jobs };
        let lines = lines(&graph, &graph.jobs[4].id);
        let last = format!("#5    gone      -  {}  after #1-#4 (fail)  <- this one", graph.jobs[4].id);
        assert_eq!(
            (lines[4].as_str(), lines[5].as_str()),
            (last.as_str(), "there are more jobs; the nearest 5 are shown")
        );
        let numbers = graph.jobs.iter().map(|tied| tied.id.as_str()).zip([1, 2, 4, 7, 8]).collect();
        let ids: Vec<_> = graph.jobs.iter().map(|tied| tied.id.clone()).collect();
        assert_eq!(references(&ids, &numbers), "#1 #2 #4 #7 #8");
    }
}
