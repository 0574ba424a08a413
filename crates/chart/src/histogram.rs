//! How long something took, in buckets on a log scale.

use crate::{
    Chart, Colour, Measure, Table, Width,
    drawing::{Drawing, Role, Words, class},
    plot::{AXIS, SMALL},
    scale::{span, tame},
    text::breadth,
};

/// No more buckets are drawn.
const BUCKETS: usize = 200;
/// Fewer buckets would be so wide that they are not seen as a log scale.
const FEWEST: usize = 12;
/// What may stand below the axis, in seconds.
const TICKS: [f64; 12] = [1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0, 36_000.0, 86_400.0, 864_000.0];
const SLOT: f64 = 52.0;

/// How many took how long.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// What is shown, as a heading says it.
    pub title: String,
    /// What was counted: "runs".
    pub what: String,
    /// The greatest time that each bucket holds, in seconds, ascending and greater than 0.
    pub bounds: Vec<f64>,
    /// How many are in each bucket; one more than there are bounds, for all that took longer.
    pub counts: Vec<u64>,
    /// Half of them took no longer.
    pub p50: Option<f64>,
    /// Of twenty, nineteen took no longer.
    pub p95: Option<f64>,
    /// A state's, where the time is spent in a state.
    pub colour: Colour,
}

impl Chart for Histogram {
    #[allow(clippy::cast_precision_loss)] // counts, for people
    fn svg(&self, width: Width) -> String {
        let units = width.units();
        let (left, right, top) = (46.0, units - 16.0, 44.0);
        let bottom = top + if width == Width::Wide { 160.0 } else { 140.0 };
        let point = self.point();
        let words = Words { title: &self.title, point: &point };
        let mut drawing = Drawing::begin(&class("histogram", width), (units, bottom + AXIS), words, Role::Picture);
        let (first, last) = self.shown();
        let each = (right - left) / (last - first).max(1) as f64;
        let most = self.counts.iter().copied().max().unwrap_or(0) as f64;
        let ladder = Measure::Count.ladder(most);
        let y = |count: f64| bottom - (bottom - top) * (count / ladder.end).clamp(0.0, 1.0);
        // A count has no halves.
        for rung in ladder.rungs().filter(|rung| rung.fract() == 0.0) {
            drawing.line(if rung == 0.0 { "base" } else { "grid" }, (left, y(rung)), (right, y(rung)));
            drawing.text("soft small end", (left - 8.0, y(rung) + 4.0), &Measure::Count.say(rung));
        }
        drawing.group(self.colour.class());
        for (number, &count) in self.counts.iter().enumerate().take(last).skip(first).filter(|(_, count)| **count > 0) {
            let x = left + each * (number - first) as f64;
            drawing.group("bucket");
            drawing.hint(&format!("{}: {count}", self.range(number)));
            // One of a million is still seen.
            let high = (bottom - y(count as f64)).max(1.5);
            drawing.rect("area", (x + 0.5, bottom - high), ((each - 1.0).max(0.5), high), 1.0);
            drawing.close();
        }
        drawing.close();
        let x = |at: f64| {
            self.place(at).map(|place| left + each * (place - first as f64)).filter(|x| (left..=right).contains(x))
        };
        let mut room = f64::NEG_INFINITY;
        for tick in TICKS {
            let Some(x) = x(tick).filter(|x| *x >= room) else { continue };
            room = x + SLOT;
            drawing.line("tick", (x, bottom), (x, bottom + 4.0));
            drawing.text("soft small middle", (x, bottom + 18.0), &span(tick));
        }
        for (name, value, y) in [("p50", self.p50, 14.0), ("p95", self.p95, 32.0)] {
            let Some((value, x)) = value.and_then(|value| Some((value, x(value)?))) else { continue };
            let label = format!("{name} {}", span(value));
            drawing.line("quantile", (x, y - 8.0), (x, bottom));
            let fits = x + 6.0 + breadth(&label, SMALL) <= units;
            let (class, x) = if fits { ("ink small over", x + 5.0) } else { ("ink small over end", x - 5.0) };
            drawing.text(class, (x, y + 2.0), &label);
        }
        if most == 0.0 {
            drawing.text(
                "soft middle",
                (f64::midpoint(left, right), f64::midpoint(top, bottom)),
                "nothing in this time",
            );
        }
        drawing.end()
    }

    fn table(&self) -> Table {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        Table {
            head: vec!["took".to_owned(), self.what.clone()],
            rows: counts.map(|(number, count)| vec![self.range(number), count.to_string()]).collect(),
        }
    }
}

impl Histogram {
    /// The buckets from the first to the last that hold something, and a few around them.
    fn shown(&self) -> (usize, usize) {
        let all = self.counts.len().min(BUCKETS);
        let full = |number: &usize| self.counts[*number] > 0;
        let first = (0..all).find(full).unwrap_or(0).saturating_sub(1);
        let last = (0..all).rev().find(full).map_or(all, |last| (last + 2).min(all));
        let missing = FEWEST.saturating_sub(last - first);
        let first = first.saturating_sub(missing.div_ceil(2));
        (first, (first + FEWEST).max(last).min(all))
    }

    /// Where a time is, counted in buckets.
    #[allow(clippy::cast_precision_loss)] // a few dozen
    fn place(&self, at: f64) -> Option<f64> {
        let at = tame(at).filter(|at| *at > 0.0)?;
        let number = self.bounds.partition_point(|bound| *bound < at);
        let upper = self.bounds.get(number).copied().or_else(|| Some(self.bounds.last()? * 10.0))?;
        let lower = match number.checked_sub(1) {
            Some(before) => self.bounds[before],
            // As wide as the next.
            None => upper * upper / self.bounds.get(1).copied().filter(|next| *next > upper).unwrap_or(upper * 10.0),
        };
        let part = (at / lower).ln() / (upper / lower).ln();
        Some(number as f64 + tame(part).unwrap_or(0.0).clamp(0.0, 1.0))
    }

    fn range(&self, number: usize) -> String {
        match (number.checked_sub(1).and_then(|before| self.bounds.get(before)), self.bounds.get(number)) {
            (None, Some(upper)) => format!("up to {}", span(*upper)),
            (Some(lower), Some(upper)) => format!("{} to {}", span(*lower), span(*upper)),
            (Some(lower), None) => format!("more than {}", span(*lower)),
            (None, None) => "any time".to_owned(),
        }
    }

    fn point(&self) -> String {
        let all: u64 = self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count));
        if all == 0 {
            return "There is nothing to show.".to_owned();
        }
        let half = self.p50.map_or_else(String::new, |p50| format!("; half took no longer than {}", span(p50)));
        let most = self.p95.map_or_else(String::new, |p95| format!("; 95 of 100 no longer than {}", span(p95)));
        format!("{all} {}{half}{most}.", self.what)
    }
}
