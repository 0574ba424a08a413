//! What the picture of a graph shows: a node for each job, with its state and what becomes of it if one that it waits for fails.

use std::collections::HashMap;

use turnwise::JobState;
use turnwise_chart::{Kind, Node, State};

use super::{Graph, Tied};

pub(super) fn picture(graph: &Graph, shown: &str) -> turnwise_chart::Graph {
    let numbers: HashMap<&str, usize> = graph.jobs.iter().map(|tied| tied.id.as_str()).zip(0..).collect();
    let more = if graph.more { ", the nearest" } else { "" };
    turnwise_chart::Graph {
        title: format!("Jobs that wait for one another, around {shown}"),
        heading: format!("{} jobs{more}", graph.jobs.len()),
        nodes: graph.jobs.iter().map(|tied| node(tied, &numbers, tied.id == shown)).collect(),
    }
}

fn node(tied: &Tied, numbers: &HashMap<&str, usize>, here: bool) -> Node {
    let (state, task) = match (tied.state, &tied.task) {
        (Some(state), Some(task)) => (state.name(), task.clone()),
        _ => ("gone", "kept no longer".to_owned()),
    };
    let waits = tied.state.is_none_or(|state| state == JobState::Waiting);
    let policy =
        tied.on_failure.as_ref().filter(|_| waits).map_or(String::new(), |what| format!(" · on failure {what}"));
    Node {
        name: task,
        note: format!("{state}{policy}"),
        hint: format!("{} {state}", tied.id),
        kind: State::from_name(state).map_or(Kind::Gone, Kind::State),
        href: None,
        here,
        after: tied.after.iter().filter_map(|id| numbers.get(id.as_str()).copied()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::tied, *};

    #[test]
    fn every_state_of_a_job_has_its_look() {
        for state in JobState::ALL {
            let mut tied = tied(1, &[], 0);
            (tied.state, tied.task) = (Some(state), Some("noop".to_owned()));
            let node = node(&tied, &HashMap::new(), false);
            assert!(matches!(node.kind, Kind::State(look) if look.name() == state.name()), "{state:?}");
        }
        assert_eq!(node(&tied(1, &[], 0), &HashMap::new(), true).kind, Kind::Gone);
    }
}
