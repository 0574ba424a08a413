//! The graph as an SVG: a column for each layer, an arrow from each job to those that wait for it.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Write,
};

use turnwise::JobState;

use super::{Graph, Tied};

const BOX: (f64, f64) = (190.0, 46.0);
/// Between columns and between rows.
const GAP: (f64, f64) = (70.0, 18.0);
const MARGIN: f64 = 24.0;
const HEAD: f64 = 56.0;
/// Rounds of putting each job beside those it is tied to: after a few, little changes.
const ROUNDS: usize = 6;
/// Longest name in a box, in characters.
const NAME: usize = 22;

/// Readable on a light and on a dark background; the reader's browser chooses.
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

pub(super) fn draw(graph: &Graph, shown: &str) -> String {
    let layout = Layout::of(graph);
    let rows = layout.columns.iter().map(Vec::len).max().unwrap_or(0);
    let width = (2.0 * MARGIN + size(layout.columns.len(), BOX.0, GAP.0)).max(460.0);
    let height = HEAD + MARGIN + size(rows, BOX.1, GAP.1);
    let places = layout.places();
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
    for way in &layout.ways {
        let points: Vec<_> = way.iter().map(|&vertex| places[vertex]).collect();
        line(arrow(&points));
    }
    for (at, tied) in graph.jobs.iter().enumerate() {
        line(node(tied, places[at], tied.id == shown));
    }
    line("</svg>".to_owned());
    svg
}

/// What stands in a column: a job by its number in the graph, or, beyond these, a bend of an arrow that passes.
type Vertex = usize;

/// The place of each job. An arrow that passes other columns has a place of its own in each, so that it goes behind no job. An
/// arrow that follows from other arrows is not drawn: a job that waits for another also comes after all that the other waits for.
struct Layout {
    columns: Vec<Vec<Vertex>>,
    /// From each job to those that wait for it, bend by bend.
    ways: Vec<Vec<Vertex>>,
}

impl Layout {
    fn of(graph: &Graph) -> Self {
        let layers = graph.jobs.iter().map(|tied| tied.layer + 1).max().unwrap_or(0);
        let mut columns: Vec<Vec<Vertex>> = vec![Vec::new(); layers];
        graph.jobs.iter().enumerate().for_each(|(at, tied)| columns[tied.layer].push(at));
        let mut ways = Vec::new();
        let mut count = graph.jobs.len();
        for (from, to) in needed(graph) {
            let mut way = vec![from];
            for column in &mut columns[graph.jobs[from].layer + 1..graph.jobs[to].layer] {
                column.push(count);
                way.push(count);
                count += 1;
            }
            way.push(to);
            ways.push(way);
        }
        let mut layout = Self { columns, ways };
        layout.sort(count);
        layout
    }

    /// Puts each vertex near the middle of those it is tied to, so that few arrows cross.
    fn sort(&mut self, count: usize) {
        let mut tied_to: Vec<Vec<Vertex>> = vec![Vec::new(); count];
        for pair in self.ways.iter().flat_map(|way| way.windows(2)) {
            tied_to[pair[0]].push(pair[1]);
            tied_to[pair[1]].push(pair[0]);
        }
        for _ in 0..ROUNDS {
            for at in 0..self.columns.len() {
                let places = self.places();
                let middle = |vertex: Vertex| {
                    let others = &tied_to[vertex];
                    let sum: f64 = others.iter().map(|&other| places[other].1).sum();
                    if others.is_empty() { places[vertex].1 } else { sum / coordinate(others.len()) }
                };
                self.columns[at].sort_by(|&a, &b| middle(a).total_cmp(&middle(b)).then(a.cmp(&b)));
            }
        }
    }

    /// The top left corner of each vertex; shorter columns are centred.
    fn places(&self) -> Vec<(f64, f64)> {
        let rows = self.columns.iter().map(Vec::len).max().unwrap_or(0);
        let mut places = vec![(0.0, 0.0); self.columns.iter().map(Vec::len).sum()];
        for (at, column) in self.columns.iter().enumerate() {
            let x = MARGIN + coordinate(at) * (BOX.0 + GAP.0);
            let top = HEAD + (size(rows, BOX.1, GAP.1) - size(column.len(), BOX.1, GAP.1)) / 2.0;
            for (row, &vertex) in column.iter().enumerate() {
                places[vertex] = (x, top + coordinate(row) * (BOX.1 + GAP.1));
            }
        }
        places
    }
}

/// The pairs (awaited, waiting) that do not follow from others.
fn needed(graph: &Graph) -> Vec<(Vertex, Vertex)> {
    let number: HashMap<&str, Vertex> = graph.jobs.iter().map(|tied| tied.id.as_str()).zip(0..).collect();
    // All jobs that each job comes after, directly or not. Jobs are in the order of their layers, so the sets of those that a
    // job waits for are complete when its turn comes.
    let mut before: Vec<BTreeSet<Vertex>> = Vec::with_capacity(graph.jobs.len());
    let mut pairs = Vec::new();
    for (at, tied) in graph.jobs.iter().enumerate() {
        let direct: Vec<Vertex> = tied.after.iter().filter_map(|id| number.get(id.as_str()).copied()).collect();
        let implied: BTreeSet<Vertex> = direct.iter().flat_map(|&other| before[other].iter().copied()).collect();
        pairs.extend(direct.iter().filter(|other| !implied.contains(other)).map(|&other| (other, at)));
        before.push(implied.into_iter().chain(direct).collect());
    }
    pairs
}

fn size(count: usize, each: f64, gap: f64) -> f64 {
    let count = coordinate(count);
    (count * (each + gap) - gap).max(0.0)
}

/// At most two hundred of anything.
fn coordinate(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// From the first box past the bends to the last.
fn arrow(points: &[(f64, f64)]) -> String {
    let middle = |y: f64| y + BOX.1 / 2.0;
    let last = points.len() - 1;
    let bend = GAP.0 * 0.6;
    let mut path = format!("M{:.1} {:.1}", points[0].0 + BOX.0, middle(points[0].1));
    for (at, pair) in points.windows(2).enumerate() {
        let ((from, y1), (to, y2)) = ((pair[0].0 + BOX.0, middle(pair[0].1)), (pair[1].0, middle(pair[1].1)));
        let end = if at + 1 == last { to - 7.0 } else { to };
        let _ = write!(path, "C{:.1} {y1:.1} {:.1} {y2:.1} {end:.1} {y2:.1}", from + bend, end - bend);
        if at + 1 < last {
            let _ = write!(path, "H{:.1}", to + BOX.0);
        }
    }
    let (x, y) = (points[last].0, middle(points[last].1));
    format!("<path class=\"edge\" d=\"{path}\"/><path class=\"tip\" d=\"M{x:.1} {y:.1}l-8 -4v8z\"/>")
}

fn node(tied: &Tied, (x, y): (f64, f64), shown: bool) -> String {
    let (state, task) = match (tied.state, &tied.task) {
        (Some(state), Some(task)) => (state.name(), task.clone()),
        _ => ("gone", "kept no longer".to_owned()),
    };
    let waits = tied.state.is_none_or(|state| state == JobState::Waiting);
    let policy =
        tied.on_failure.as_ref().filter(|_| waits).map_or(String::new(), |what| format!(" · on failure {what}"));
    let this = if shown { " this" } else { "" };
    let name: String =
        if task.chars().count() > NAME { task.chars().take(NAME - 1).chain(['…']).collect() } else { task };
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
            tied(7, &[2], 1),
            tied(6, &[1, 3, 4, 5], 2),
        ];
        let graph = Graph { jobs, more: false };
        let layout = Layout::of(&graph);
        let places = layout.places();
        for (a, (ax, ay)) in places.iter().enumerate() {
            for (bx, by) in &places[a + 1..] {
                assert!((ax - bx).abs() >= BOX.0 || (ay - by).abs() >= BOX.1, "{places:?}");
            }
        }
        assert!(layout.ways.iter().all(|way| way.windows(2).all(|pair| places[pair[0]].0 < places[pair[1]].0)));
        let svg = draw(&graph, &graph.jobs[6].id);
        assert_eq!((svg.matches("<rect").count(), svg.matches("class=\"edge\"").count()), (8, 8));
    }

    #[test]
    fn an_arrow_that_follows_from_others_is_not_drawn_and_a_long_one_has_its_own_place() {
        let jobs = vec![tied(1, &[], 0), tied(2, &[], 0), tied(3, &[1], 1), tied(4, &[1, 2, 3], 2)];
        let graph = Graph { jobs, more: false };
        assert_eq!(needed(&graph), [(0, 2), (1, 3), (2, 3)]);
        let layout = Layout::of(&graph);
        assert_eq!((layout.columns[1].len(), &layout.ways[1]), (2, &vec![1, 4, 3]));
    }

    #[test]
    fn what_a_task_is_called_does_not_break_the_picture() {
        assert_eq!(escape("<a & b>"), "&lt;a &amp; b&gt;");
    }
}
