//! What charts have in common: a rectangle with a scale on each side, and a legend.

use crate::{
    Times,
    colour::Colour,
    drawing::{Drawing, Pair},
    scale::{Ladder, Measure, tame},
    text::{breadth, fit},
};

/// Of most texts, and of small ones.
pub(crate) const FONT: f64 = 13.0;
pub(crate) const SMALL: f64 = 12.0;
/// Below a chart for the labels of its time axis.
pub(crate) const AXIS: f64 = 26.0;
/// Where a chart's values begin; to the left are the labels of its rungs.
const LEFT: f64 = 66.0;
/// To the right, so that half of the last label has room.
const RIGHT: f64 = 20.0;
/// Labels of a time axis are this far apart, and cut to it: which of them stand there does not depend on what they say.
const SLOT: f64 = 64.0;

/// A rectangle with a scale on each side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plot {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
    from: f64,
    to: f64,
}

impl Plot {
    /// Over time, as wide as the picture.
    pub(crate) fn over(times: &Times, width: f64, top: f64, height: f64) -> Self {
        let [from, to] = [times.from, times.to].map(|at| tame(at).unwrap_or(0.0));
        Self { left: LEFT, right: width - RIGHT, top, bottom: top + height, from, to }
    }

    pub(crate) fn width(&self) -> f64 {
        self.right - self.left
    }

    /// Where a time is. If all is at the same time, it is at the left.
    pub(crate) fn x(&self, at: f64) -> f64 {
        let length = (self.to - self.from).max(f64::MIN_POSITIVE);
        self.left + self.width() * ((at - self.from) / length).clamp(0.0, 1.0)
    }

    /// `part`: 0 at the bottom, 1 at the top.
    pub(crate) fn y(&self, part: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * part.clamp(0.0, 1.0)
    }

    /// A line across for each rung, with its value.
    pub(crate) fn rungs(&self, drawing: &mut Drawing, ladder: Ladder, measure: Measure) {
        for rung in ladder.rungs() {
            let y = self.y(rung / ladder.end);
            let class = if rung == 0.0 { "base" } else { "grid" };
            drawing.line(class, (self.left, y), (self.right, y));
            drawing.text("soft small end", (self.left - 8.0, y + 4.0), &measure.say(rung));
        }
    }

    /// The labels of the time axis, as many as have room.
    pub(crate) fn clock(&self, drawing: &mut Drawing, times: &Times) {
        let mut room = f64::NEG_INFINITY;
        for (at, label) in &times.ticks {
            let x = self.x(*at);
            if x < room || !(self.from..=self.to).contains(at) {
                continue;
            }
            room = x + SLOT;
            drawing.line("tick", (x, self.bottom), (x, self.bottom + 4.0));
            let (place, label) = ((x, self.bottom + 18.0), fit(label, SLOT - 4.0, SMALL));
            if times.utc {
                drawing.moment("soft small middle", place, &label, *at);
            } else {
                drawing.text("soft small middle", place, &label);
            }
        }
        if times.utc {
            drawing.text("soft small zone", (0.0, self.bottom + 18.0), "UTC");
        }
    }

    /// Said where nothing is to be drawn.
    pub(crate) fn empty(&self, drawing: &mut Drawing) {
        let middle = (f64::midpoint(self.left, self.right), f64::midpoint(self.top, self.bottom) + 4.0);
        drawing.text("soft middle", middle, "nothing in this time");
    }
}

/// An entry of a legend: what it looks like, and what it means.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) swatch: Swatch,
    pub(crate) text: String,
    /// Behind the text: a value, which is never cut. Empty: there is none.
    pub(crate) value: String,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Swatch {
    /// As a series has it.
    Shape(Colour),
    /// A filled area.
    Area(Colour),
    /// A line of this class.
    Line(&'static str),
    /// An upright mark of this class.
    Upright(&'static str),
}

/// Entries in rows, as many beside one another as have room.
#[derive(Debug)]
pub(crate) struct Legend {
    entries: Vec<(Pair, Entry)>,
    height: f64,
}

impl Legend {
    const ROW: f64 = 22.0;
    /// For the swatch.
    const SWATCH: f64 = 20.0;
    const GAP: f64 = 18.0;
    /// A longer text is cut.
    const TEXT: f64 = 150.0;

    pub(crate) fn new(entries: impl IntoIterator<Item = Entry>, left: f64, right: f64) -> Self {
        let (mut x, mut y) = (left, 14.0);
        let mut placed = Vec::new();
        for mut entry in entries {
            entry.text = fit(&entry.text, Self::TEXT, FONT);
            let size = Self::SWATCH + breadth(&entry.text, FONT) + Self::behind(&entry.value);
            if x > left && x + size > right {
                (x, y) = (left, y + Self::ROW);
            }
            placed.push(((x, y), entry));
            x += size + Self::GAP;
        }
        let height = if placed.is_empty() { 6.0 } else { y + 12.0 };
        Self { entries: placed, height }
    }

    fn behind(value: &str) -> f64 {
        if value.is_empty() { 0.0 } else { 6.0 + breadth(value, FONT) }
    }

    pub(crate) fn height(&self) -> f64 {
        self.height
    }

    pub(crate) fn draw(&self, drawing: &mut Drawing) {
        for ((x, y), Entry { swatch, text, value }) in &self.entries {
            let middle = y - 4.5;
            match swatch {
                Swatch::Shape(colour) => colour.draw(drawing, (x + 6.0, middle)),
                Swatch::Area(colour) => {
                    drawing.rect(&format!("area {}", colour.class()), (*x, middle - 6.0), (12.0, 12.0), 3.0);
                }
                Swatch::Line(class) => drawing.line(class, (*x, middle), (x + 15.0, middle)),
                Swatch::Upright(class) => drawing.line(class, (x + 6.0, middle - 7.0), (x + 6.0, middle + 7.0)),
            }
            drawing.pair("ink", (x + Self::SWATCH, *y), text, value);
        }
    }
}

/// Runs of neighbouring points that have a value.
pub(crate) fn runs<T>(points: impl IntoIterator<Item = Option<T>>) -> Vec<Vec<T>> {
    let mut runs: Vec<Vec<T>> = Vec::new();
    for point in points {
        match point {
            Some(point) => match runs.last_mut() {
                Some(run) => run.push(point),
                None => runs.push(vec![point]),
            },
            None => runs.push(Vec::new()),
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}
