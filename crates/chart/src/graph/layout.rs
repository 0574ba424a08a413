//! Where each node of a graph stands, and which arrows are needed.

use std::collections::{BTreeSet, VecDeque};

use crate::drawing::Pair;

pub(super) const BOX: Pair = (190.0, 46.0);
/// Between columns and between rows.
pub(super) const GAP: Pair = (70.0, 18.0);
pub(super) const MARGIN: f64 = 24.0;
pub(super) const HEAD: f64 = 56.0;
/// Rounds of putting each node beside those it is tied to: after a few, little changes.
const ROUNDS: usize = 6;

/// Where arrows have more bends, the others go straight, behind what is in their way: nobody could follow them by eye.
const VERTICES: usize = 5_000;

/// What stands in a column: a node by its number, or, beyond these, a bend of an arrow that passes.
type Vertex = usize;

/// What waits for what, in an order in which each node stands after those it waits for.
#[derive(Debug)]
pub(super) struct Layers {
    /// Of each node.
    pub(super) layer: Vec<usize>,
    /// All nodes, layer by layer, and in a layer as they came.
    pub(super) order: Vec<Vertex>,
    /// The pairs (awaited, waiting) that do not follow from others.
    pub(super) needed: Vec<(Vertex, Vertex)>,
    /// The pairs that close a circle: their arrows lead back.
    pub(super) back: Vec<(Vertex, Vertex)>,
}

impl Layers {
    /// `after`: what each node waits for.
    pub(super) fn of(after: &[BTreeSet<Vertex>]) -> Self {
        let count = after.len();
        let mut waiting: Vec<Vec<Vertex>> = vec![Vec::new(); count];
        for (node, awaited) in after.iter().enumerate() {
            awaited.iter().for_each(|&other| waiting[other].push(node));
        }
        let mut missing: Vec<usize> = after.iter().map(BTreeSet::len).collect();
        let mut layer = vec![0; count];
        let mut placed = vec![false; count];
        let mut ready: VecDeque<Vertex> = (0..count).filter(|&node| missing[node] == 0).collect();
        // In a circle no node is ready: then the first one that is left goes on, as if it waited for nothing more.
        while let Some(node) = ready.pop_front().or_else(|| (0..count).find(|&node| !placed[node])) {
            if std::mem::replace(&mut placed[node], true) {
                continue;
            }
            for &next in &waiting[node] {
                missing[next] -= 1;
                if !placed[next] {
                    layer[next] = layer[next].max(layer[node] + 1);
                    if missing[next] == 0 {
                        ready.push_back(next);
                    }
                }
            }
        }
        let mut order: Vec<Vertex> = (0..count).collect();
        order.sort_by_key(|&node| layer[node]);
        // All nodes that each node comes after, directly or not, a bit for each: complete for those of the layers before.
        let mut before: Vec<Vec<u64>> = vec![vec![0; count.div_ceil(64)]; count];
        let (mut needed, mut back) = (Vec::new(), Vec::new());
        for &node in &order {
            let (direct, circular): (Vec<Vertex>, Vec<Vertex>) =
                after[node].iter().partition(|&&other| layer[other] < layer[node]);
            let mut implied = vec![0; count.div_ceil(64)];
            for &other in &direct {
                implied.iter_mut().zip(&before[other]).for_each(|(all, some): (&mut u64, &u64)| *all |= some);
            }
            let is_implied = |other: Vertex| implied[other / 64] >> (other % 64) & 1 == 1;
            needed.extend(direct.iter().filter(|&&other| !is_implied(other)).map(|&other| (other, node)));
            back.extend(circular.into_iter().map(|other| (other, node)));
            direct.iter().for_each(|other| implied[other / 64] |= 1 << (other % 64));
            before[node] = implied;
        }
        Self { layer, order, needed, back }
    }

    pub(super) fn count(&self) -> usize {
        self.layer.iter().max().map_or(0, |last| last + 1)
    }
}

/// The place of each node, a column for each layer. An arrow that passes other columns has a place of its own in each, so that it
/// goes behind no node. An arrow that follows from other arrows is not drawn: a node that waits for another also comes after all
/// that the other waits for.
#[derive(Debug)]
pub(super) struct Layout {
    columns: Vec<Vec<Vertex>>,
    /// From each node to those that wait for it, bend by bend.
    pub(super) ways: Vec<Vec<Vertex>>,
}

impl Layout {
    pub(super) fn of(layers: &Layers) -> Self {
        let mut columns: Vec<Vec<Vertex>> = vec![Vec::new(); layers.count()];
        layers.order.iter().for_each(|&node| columns[layers.layer[node]].push(node));
        let mut ways = Vec::new();
        let mut count = layers.layer.len();
        for &(from, to) in &layers.needed {
            let mut way = vec![from];
            let passed = layers.layer[from] + 1..layers.layer[to];
            let passed = if count + passed.len() > VERTICES { 0..0 } else { passed };
            for column in &mut columns[passed] {
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

    /// The width and the height of all columns.
    pub(super) fn size(&self) -> Pair {
        let rows = self.columns.iter().map(Vec::len).max().unwrap_or(0);
        (size(self.columns.len(), BOX.0, GAP.0), size(rows, BOX.1, GAP.1))
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
    pub(super) fn places(&self) -> Vec<Pair> {
        let (_, height) = self.size();
        let mut places = vec![(0.0, 0.0); self.columns.iter().map(Vec::len).sum()];
        for (at, column) in self.columns.iter().enumerate() {
            let x = MARGIN + coordinate(at) * (BOX.0 + GAP.0);
            let top = HEAD + (height - size(column.len(), BOX.1, GAP.1)) / 2.0;
            for (row, &vertex) in column.iter().enumerate() {
                places[vertex] = (x, top + coordinate(row) * (BOX.1 + GAP.1));
            }
        }
        places
    }
}

pub(super) fn size(count: usize, each: f64, gap: f64) -> f64 {
    (coordinate(count) * (each + gap) - gap).max(0.0)
}

/// At most a few thousand of anything.
pub(super) fn coordinate(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(after: &[&[Vertex]]) -> Layers {
        Layers::of(&after.iter().map(|after| after.iter().copied().collect()).collect::<Vec<_>>())
    }

    #[test]
    fn boxes_do_not_overlap_and_arrows_go_to_the_right() {
        let layers = layers(&[&[], &[], &[0], &[0, 1], &[1], &[1], &[0, 2, 3, 4]]);
        let layout = Layout::of(&layers);
        let places = layout.places();
        for (a, (ax, ay)) in places.iter().enumerate() {
            for (bx, by) in &places[a + 1..] {
                assert!((ax - bx).abs() >= BOX.0 || (ay - by).abs() >= BOX.1, "{places:?}");
            }
        }
        assert!(layout.ways.iter().all(|way| way.windows(2).all(|pair| places[pair[0]].0 < places[pair[1]].0)));
        assert_eq!((layers.layer.as_slice(), layout.ways.len()), (&[0, 0, 1, 1, 1, 1, 2][..], 8));
    }

    #[test]
    fn an_arrow_that_follows_from_others_is_not_drawn_and_a_long_one_has_its_own_place() {
        let layers = layers(&[&[], &[], &[0], &[0, 1, 2]]);
        assert_eq!(layers.needed, [(0, 2), (1, 3), (2, 3)]);
        let layout = Layout::of(&layers);
        assert_eq!((layout.columns[1].len(), &layout.ways[1]), (2, &vec![1, 4, 3]));
    }

    #[test]
    fn a_circle_is_drawn_with_arrows_that_lead_back() {
        let layers = layers(&[&[2], &[0], &[1], &[3]]);
        assert_eq!((layers.layer.as_slice(), layers.needed.as_slice()), (&[0, 1, 2, 0][..], &[(0, 1), (1, 2)][..]));
        assert_eq!(layers.back, [(2, 0), (3, 3)]);
    }
}
