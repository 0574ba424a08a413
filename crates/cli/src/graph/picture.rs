//! The graph as an SVG: a column for each layer, an arrow from each job to those that wait for it.

use std::{collections::HashMap, fmt::Write};

use turnwise::{
    JobId,
    core::State,
    graph::{Graph, Tied},
};

const BOX: (f64, f64) = (190.0, 46.0);
/// Between columns and between rows.
const GAP: (f64, f64) = (70.0, 18.0);
const MARGIN: f64 = 24.0;
const HEAD: f64 = 56.0;
/// Rounds of putting each job beside those it is tied to: after a few, little changes.
const ROUNDS: usize = 6;
/// Longest name in a box, in characters.
const NAME: usize = 22;

/// Readable on light and on dark: the reader's browser says which.
const STYLE: &str = "
  .page { fill: #ffffff } .ink { fill: #1f2328 } .soft { fill: #59636e } .edge { stroke: #818b98; fill: none; stroke-width: 1.5 } .tip { fill: #818b98 }
  .box { fill: #f6f8fa; stroke: #818b98; stroke-width: 1.5 } .this { stroke-width: 3 }
  .success { stroke: #1a7f37 } .failed { stroke: #cf222e } .cancelled { stroke: #59636e; stroke-dasharray: 5 3 } .gone { stroke-dasharray: 2 3 }
  .running, .scheduled { stroke: #0969da } .stuck { stroke: #bc4c00 }
  text { font: 13px system-ui, sans-serif } .title { font-size: 17px; font-weight: 600 } .small { font-size: 11px }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .ink { fill: #f0f6fc } .soft { fill: #9198a1 } .edge { stroke: #656c76 } .tip { fill: #656c76 }
    .box { fill: #151b23; stroke: #656c76 } .success { stroke: #3fb950 } .failed { stroke: #f85149 } .cancelled { stroke: #9198a1 }
    .running, .scheduled { stroke: #4493f8 } .stuck { stroke: #f0883e }
  }";

pub(super) fn draw(graph: &Graph, shown: JobId) -> String {
    let columns = columns(graph);
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
    let width = 2.0 * MARGIN + size(columns.len(), BOX.0, GAP.0);
    let height = HEAD + MARGIN + size(rows, BOX.1, GAP.1);
    let width = width.max(460.0);
    let places = places(&columns, rows);
    let mut svg = String::new();
    let mut line = |text: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(svg, "{text}");
    };
    line(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">"
    ));
    let title = format!("Jobs that wait for one another, around {shown}");
    line(format!("<title>{title}</title>\n<style>{STYLE}\n</style>"));
    line(format!("<rect class=\"page\" width=\"{width}\" height=\"{height}\"/>"));
    let more = if graph.more { ", the nearest" } else { "" };
    line(format!("<text class=\"ink title\" x=\"{MARGIN}\" y=\"34\">{} jobs{more}</text>", graph.jobs.len()));
    for tied in &graph.jobs {
        for awaited in &tied.after {
            line(edge(places[awaited], places[&tied.id]));
        }
    }
    for tied in &graph.jobs {
        line(node(tied, places[&tied.id], tied.id == shown));
    }
    line("</svg>".to_owned());
    svg
}

fn size(count: usize, each: f64, gap: f64) -> f64 {
    let count = coordinate(count);
    (count * (each + gap) - gap).max(0.0)
}

/// At most two hundred of anything.
fn coordinate(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// The jobs of each layer, from top to bottom: each near the middle of those it is tied to, so that few arrows cross.
fn columns(graph: &Graph) -> Vec<Vec<JobId>> {
    let layers = graph.jobs.iter().map(|tied| tied.layer + 1).max().unwrap_or(0);
    let mut columns: Vec<Vec<JobId>> = vec![Vec::new(); layers];
    graph.jobs.iter().for_each(|tied| columns[tied.layer].push(tied.id));
    let mut tied_to: HashMap<JobId, Vec<JobId>> = HashMap::new();
    for tied in &graph.jobs {
        for awaited in &tied.after {
            tied_to.entry(tied.id).or_default().push(*awaited);
            tied_to.entry(*awaited).or_default().push(tied.id);
        }
    }
    for _ in 0..ROUNDS {
        for at in 0..layers {
            let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
            let places = places(&columns, rows);
            let middle = |id: &JobId| {
                let others = tied_to.get(id).map_or(&[][..], Vec::as_slice);
                let sum: f64 = others.iter().map(|other| places[other].1).sum();
                if others.is_empty() { places[id].1 } else { sum / coordinate(others.len()) }
            };
            let mut column: Vec<(f64, JobId)> = columns[at].iter().map(|id| (middle(id), *id)).collect();
            column.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            columns[at] = column.into_iter().map(|(_, id)| id).collect();
        }
    }
    columns
}

/// The top left corner of each box; shorter columns stand in the middle.
fn places(columns: &[Vec<JobId>], rows: usize) -> HashMap<JobId, (f64, f64)> {
    let mut places = HashMap::new();
    for (at, column) in columns.iter().enumerate() {
        let x = MARGIN + coordinate(at) * (BOX.0 + GAP.0);
        let top = HEAD + (size(rows, BOX.1, GAP.1) - size(column.len(), BOX.1, GAP.1)) / 2.0;
        for (row, id) in column.iter().enumerate() {
            places.insert(*id, (x, top + coordinate(row) * (BOX.1 + GAP.1)));
        }
    }
    places
}

fn edge(from: (f64, f64), to: (f64, f64)) -> String {
    let (x1, y1) = (from.0 + BOX.0, from.1 + BOX.1 / 2.0);
    let (x2, y2) = (to.0 - 7.0, to.1 + BOX.1 / 2.0);
    let bend = GAP.0 * 0.6;
    format!(
        "<path class=\"edge\" d=\"M{x1:.1} {y1:.1}C{:.1} {y1:.1} {:.1} {y2:.1} {x2:.1} {y2:.1}\"/>\
         <path class=\"tip\" d=\"M{:.1} {y2:.1}l-8 -4v8z\"/>",
        x1 + bend,
        x2 - bend,
        x2 + 7.0
    )
}

fn node(tied: &Tied, (x, y): (f64, f64), shown: bool) -> String {
    let (state, task) = match &tied.job {
        Some(job) => (job.state.name(), job.task.to_string()),
        None => ("gone", "kept no longer".to_owned()),
    };
    let waits = tied.job.as_ref().is_none_or(|job| job.state == State::Waiting);
    let policy = tied.on_failure.filter(|_| waits).map_or(String::new(), |what| format!(" · on failure {what}"));
    let this = if shown { " this" } else { "" };
    let name: String = match task.chars().count() > NAME {
        true => task.chars().take(NAME - 1).chain(['…']).collect(),
        false => task,
    };
    format!(
        "<g><title>{} {state}</title><rect class=\"box {state}{this}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{}\" height=\"{}\" rx=\"6\"/>\
         <text class=\"ink\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
         <text class=\"soft small\" x=\"{:.1}\" y=\"{:.1}\">{state}{policy}</text></g>",
        tied.id,
        BOX.0,
        BOX.1,
        x + 12.0,
        y + 19.0,
        escape(&name),
        x + 12.0,
        y + 35.0,
    )
}

/// A task may be called anything.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::{super::tests::tied, *};

    #[test]
    fn boxes_do_not_overlap_and_arrows_go_to_the_right() {
        let jobs = vec![
            tied(1, &[], 0),
            tied(2, &[], 0),
            tied(3, &[1], 1),
            tied(4, &[1, 2], 1),
            tied(5, &[2], 1),
            tied(6, &[1, 3, 4, 5], 2),
        ];
        let graph = Graph { jobs, more: false };
        let columns = columns(&graph);
        let places = places(&columns, 3);
        for a in &graph.jobs {
            for b in graph.jobs.iter().filter(|b| b.id != a.id) {
                let ((ax, ay), (bx, by)) = (places[&a.id], places[&b.id]);
                assert!((ax - bx).abs() >= BOX.0 || (ay - by).abs() >= BOX.1, "{a:?} {b:?}");
            }
            assert!(a.after.iter().all(|awaited| places[awaited].0 + BOX.0 < places[&a.id].0));
        }
        let svg = draw(&graph, graph.jobs[5].id);
        assert_eq!((svg.matches("<rect").count(), svg.matches("class=\"edge\"").count()), (7, 8));
    }

    #[test]
    fn what_a_task_is_called_does_not_break_the_picture() {
        assert_eq!(escape("<a & b>"), "&lt;a &amp; b&gt;");
    }
}
