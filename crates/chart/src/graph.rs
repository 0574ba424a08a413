//! What waits for what: an arrow from each node to those that wait for it.
//!
//! Wide, the nodes stand in columns; on a phone one below the other, with the arrows beside them. [`layout`] decides where.

mod layout;

use std::collections::BTreeSet;

use self::layout::{BOX, GAP, HEAD, Layers, Layout, MARGIN, coordinate, size};
use crate::{
    Chart, Colour, QueueState, State, Table, Width,
    drawing::{Drawing, Pair, Path, Role, Words, class},
    plot::{FONT, SMALL},
    text::{escaped, fit, named},
};

/// The first are drawn; more of them could not be read.
const NODES: usize = 200;
/// A graph that is wider than a page by this is moved sideways instead of made smaller.
const SHRINK: f64 = 1.25;
/// Nodes one below the other: where they begin, and what is between them.
const LANE: f64 = 64.0;
const BETWEEN: f64 = 12.0;

/// Jobs that wait for jobs, or queues that wait for queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// What is shown, as a heading says it.
    pub title: String,
    /// Stands above the nodes.
    pub heading: String,
    /// In any order.
    pub nodes: Vec<Node>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What it is called.
    pub name: String,
    /// Its state in words, and what else there is to say of it.
    pub note: String,
    /// What is shown when a pointer rests on it.
    pub hint: String,
    /// What it looks like.
    pub kind: Kind,
    /// Where it leads.
    pub href: Option<String>,
    /// It is the one that the graph is shown for.
    pub here: bool,
    /// What it waits for, as numbers in the list of nodes.
    pub after: Vec<usize>,
}

/// What a node looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As a job in this state, with its shape.
    State(State),
    /// As a queue that does this, with its shape.
    Queue(QueueState),
    /// As one that is kept no longer.
    Gone,
    /// Without a state.
    Plain,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Kind::State(state) => state.class(),
            Kind::Queue(state) => state.class(),
            Kind::Gone => "gone",
            Kind::Plain => "plain",
        }
    }
}

impl Chart for Graph {
    fn svg(&self, width: Width) -> String {
        let layers = self.layers();
        // A file is as wide as its graph.
        if width >= Width::Wide {
            let layout = Layout::of(&layers);
            self.columns(width, &layers, &layout, (2.0 * MARGIN + layout.size().0).max(460.0))
        } else {
            self.rows(width, &layers)
        }
    }

    /// A graph of many columns keeps its size: the reader moves it sideways.
    fn figure(&self) -> String {
        let layers = self.layers();
        let layout = Layout::of(&layers);
        let natural = 2.0 * MARGIN + layout.size().0;
        let columns = |width: Width| self.columns(width, &layers, &layout, natural.max(width.units()));
        let narrow = self.rows(Width::Narrow, &layers);
        // Ten columns on half a page could not be read.
        let fits = |width: Width| natural <= SHRINK * width.units();
        let medium = if fits(Width::Medium) { columns(Width::Medium) } else { self.rows(Width::Medium, &layers) };
        let wide = columns(Width::Wide);
        let wide = if fits(Width::Wide) {
            wide
        } else {
            let title = escaped(&self.title);
            let sized = wide.replacen(" role=", &format!(" width=\"{natural}\" role="), 1);
            format!(
                "<div class=\"chart-scroll wide\" role=\"region\" aria-label=\"{title}\" tabindex=\"0\">{sized}</div>"
            )
        };
        format!("<div class=\"chart-fit\">{narrow}{medium}{wide}</div>")
    }

    fn table(&self) -> Table {
        let name = |number: &usize| self.nodes.get(*number).map(|node| node.name.clone());
        let after = |node: &Node| node.after.iter().filter_map(name).collect::<Vec<_>>().join(", ");
        Table::new(
            ["name", "state", "after"],
            self.nodes.iter().map(|node| [node.name.clone(), node.note.clone(), after(node)]),
        )
    }
}

impl Graph {
    fn shown(&self) -> &[Node] {
        &self.nodes[..self.nodes.len().min(NODES)]
    }

    fn layers(&self) -> Layers {
        let shown = self.shown();
        let after = |node: &Node| -> BTreeSet<usize> {
            node.after.iter().copied().filter(|&other| other < shown.len()).collect()
        };
        Layers::of(&shown.iter().map(after).collect::<Vec<_>>())
    }

    /// Above the nodes: room for what stands there.
    fn head(&self) -> f64 {
        if self.heading.is_empty() { 12.0 } else { HEAD }
    }

    fn begin(&self, width: Width, size: Pair) -> Drawing {
        let count = self.nodes.len();
        let waiting = self.nodes.iter().filter(|node| !node.after.is_empty()).count();
        let here = self.nodes.iter().find(|node| node.here);
        let here =
            here.map_or_else(String::new, |node| format!(" This one: {}, {}.", named(&node.name), named(&node.note)));
        let hidden = count - self.shown().len();
        let hidden = if hidden > 0 { format!(" {hidden} are not drawn.") } else { String::new() };
        let point = format!("{count} in all, {waiting} of them after others.{here}{hidden}");
        let linked = self.shown().iter().any(|node| node.href.is_some());
        let role = if linked { Role::Links } else { Role::Picture };
        let mut drawing =
            Drawing::begin(&class("graph", width), size, Words { title: &self.title, point: &point }, role);
        let heading = fit(&self.heading, (size.0 - 2.0 * MARGIN).max(FONT), 17.0);
        drawing.text("ink title", (if width == Width::Narrow { 8.0 } else { MARGIN }, 34.0), &heading);
        drawing
    }

    fn columns(&self, width: Width, layers: &Layers, layout: &Layout, natural: f64) -> String {
        let places: Vec<Pair> = layout.places().into_iter().map(|(x, y)| (x, y + self.head() - HEAD)).collect();
        let mut drawing = self.begin(width, (natural, self.head() + MARGIN + layout.size().1));
        for way in &layout.ways {
            let points: Vec<_> = way.iter().map(|&vertex| places[vertex]).collect();
            arrow(&mut drawing, &points);
        }
        for &(from, to) in &layers.back {
            back(&mut drawing, places[from], places[to]);
        }
        for (node, &place) in self.shown().iter().zip(&places) {
            draw(&mut drawing, node, place, BOX.0);
        }
        drawing.end()
    }

    fn rows(&self, width: Width, layers: &Layers) -> String {
        let each = BOX.1 + BETWEEN;
        let height = self.head() + MARGIN + size(layers.order.len(), BOX.1, BETWEEN);
        let mut drawing = self.begin(width, (width.units(), height));
        let mut tops = vec![0.0; layers.order.len()];
        for (row, &node) in layers.order.iter().enumerate() {
            tops[node] = self.head() + coordinate(row) * each;
        }
        for (pairs, class) in [(&layers.needed, "edge"), (&layers.back, "edge back")] {
            for &(from, to) in pairs {
                let (start, end) = (tops[from] + 31.0, tops[to] + 15.0);
                // The further it leads, the further it keeps off the boxes.
                let out = LANE - 6.0 - (LANE - 14.0) * ((end - start).abs() / (8.0 * each)).min(1.0);
                let out = out.min(LANE - 18.0);
                let curve = Path::default().to((LANE, start)).curve((out, start), (out, end), (LANE - 7.0, end));
                drawing.path(class, &curve);
                tip(&mut drawing, (LANE, end));
            }
        }
        for &node in &layers.order {
            draw(&mut drawing, &self.shown()[node], (LANE, tops[node]), width.units() - LANE - 8.0);
        }
        drawing.end()
    }
}

/// From the first box past the bends to the last.
fn arrow(drawing: &mut Drawing, points: &[Pair]) {
    let middle = |y: f64| y + BOX.1 / 2.0;
    let last = points.len() - 1;
    let bend = GAP.0 * 0.6;
    let mut path = Path::default().to((points[0].0 + BOX.0, middle(points[0].1)));
    for (at, pair) in points.windows(2).enumerate() {
        let ((from, y1), (to, y2)) = ((pair[0].0 + BOX.0, middle(pair[0].1)), (pair[1].0, middle(pair[1].1)));
        let end = if at + 1 == last { to - 7.0 } else { to };
        path = path.curve((from + bend, y1), (end - bend, y2), (end, y2));
        if at + 1 < last {
            path = path.to((to + BOX.0, y2));
        }
    }
    drawing.path("edge", &path);
    tip(drawing, (points[last].0, middle(points[last].1)));
}

/// Below the boxes, to one that stands before.
fn back(drawing: &mut Drawing, from: Pair, to: Pair) {
    let (start, end) = ((from.0 + BOX.0, from.1 + BOX.1 - 8.0), (to.0, to.1 + BOX.1 - 8.0));
    let low = start.1.max(end.1) + BOX.1;
    drawing.path(
        "edge back",
        &Path::default().to(start).curve((start.0 + GAP.0, low), (end.0 - GAP.0, low), (end.0 - 7.0, end.1)),
    );
    tip(drawing, end);
}

fn tip(drawing: &mut Drawing, (x, y): Pair) {
    drawing.path("tip", &Path::default().to((x, y)).to((x - 8.0, y - 4.0)).to((x - 8.0, y + 4.0)).closed());
}

fn draw(drawing: &mut Drawing, node: &Node, (x, y): Pair, width: f64) {
    let here = if node.here { " here" } else { "" };
    drawing.link(&format!("node {}{here}", node.kind.class()), node.href.as_deref());
    drawing.hint(&node.hint);
    drawing.rect("box", (x, y), (width, BOX.1), 6.0);
    drawing.text("ink", (x + 12.0, y + 19.0), &fit(&node.name, width - 20.0, FONT));
    let note = match node.kind {
        Kind::State(state) => {
            Colour::State(state).draw(drawing, (x + 17.0, y + 32.0));
            x + 28.0
        }
        Kind::Queue(state) => {
            state.draw(drawing, (x + 17.0, y + 32.0));
            x + 28.0
        }
        Kind::Gone | Kind::Plain => x + 12.0,
    };
    drawing.text("soft small", (note, y + 36.0), &fit(&node.note, x + width - 8.0 - note, SMALL));
    drawing.close();
}
