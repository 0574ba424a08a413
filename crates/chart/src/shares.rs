//! Who had the workers: the shares of groups over time, one upon the other.

use crate::{
    Chart, Colour, Measure, SERIES, Table, Times, Width,
    drawing::{Drawing, Path, Role, Words, class},
    plot::{AXIS, Entry, FONT, Legend, Plot, Swatch, runs},
    scale::{Ladder, tame},
    text::{fit, named},
};

/// The shares of groups in the time of all workers, over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Shares {
    /// What is shown, as a heading says it.
    pub title: String,
    /// From when to when.
    pub times: Times,
    /// When each value begins to hold, in ascending order.
    pub at: Vec<f64>,
    /// From the bottom up. Those beyond [`SERIES`] are drawn together.
    pub groups: Vec<Group>,
    /// All other groups together, a value for each time; empty if there are none.
    pub rest: Vec<Option<f64>>,
}

/// One group's part.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// What it is called.
    pub name: String,
    /// Its share at each time, as a part of 1; `None`: not known.
    pub had: Vec<Option<f64>>,
    /// The share it was entitled to at each time; empty if that is not shown.
    pub entitled: Vec<Option<f64>>,
    /// Its share of the whole time, and the one it was entitled to; `None`: the mean of those of each time. In a minute in which little was
    /// done a share counts for as much as in a busy one, so the two differ.
    pub in_all: Option<(f64, f64)>,
}

/// A band of the picture.
struct Band {
    name: String,
    colour: Colour,
    had: Vec<Option<f64>>,
    entitled: Vec<Option<f64>>,
    mean: Option<f64>,
    should: Option<f64>,
}

impl Chart for Shares {
    fn svg(&self, width: Width) -> String {
        let bands = self.bands();
        let units = width.units();
        let legend = Legend::new(legend(&bands), 0.0, units);
        let height = if width == Width::Narrow { 170.0 } else { 210.0 };
        let plot = Plot::over(&self.times, units, legend.height() + 8.0, height);
        let point = point(&bands);
        let words = Words { title: &self.title, point: &point };
        let mut drawing = Drawing::begin(&class("shares", width), (units, plot.bottom + AXIS), words, Role::Picture);
        legend.draw(&mut drawing);
        let ladder = Ladder { step: 0.25, end: 1.0 };
        // Areas hide what is behind them: the rungs are drawn over them, faintly.
        let levels = self.levels(&bands);
        for (number, band) in bands.iter().enumerate() {
            drawing.group(&format!("band {}", band.colour.class()));
            drawing.hint(&format!("{}: {}", named(&band.name), Measure::Part.say(band.mean.unwrap_or(0.0))));
            for run in self.ribbons(&levels, number) {
                let above = run.iter().map(|&(at, _, high)| (plot.x(at), plot.y(high)));
                let below = run.iter().rev().map(|&(at, low, _)| (plot.x(at), plot.y(low)));
                drawing.path("area", &Path::default().along(above).along(below).closed());
            }
            drawing.close();
        }
        plot.rungs(&mut drawing, ladder, Measure::Part);
        for line in self.entitlements(&bands) {
            drawing.polyline("line ideal", line.into_iter().map(|(at, part)| (plot.x(at), plot.y(part))));
        }
        for (number, band) in bands.iter().enumerate() {
            if let Some((x, y, room)) = self.widest(&plot, &levels, number) {
                drawing.text("onarea middle", (x, y + 4.0), &fit(&band.name, room, FONT));
            }
        }
        if bands.iter().all(|band| band.mean.is_none()) {
            plot.empty(&mut drawing);
        }
        plot.clock(&mut drawing, &self.times);
        drawing.end()
    }

    fn table(&self) -> Table {
        let bands = self.bands();
        let say = |part: Option<f64>| part.map_or_else(|| "-".to_owned(), |part| Measure::Part.say(part));
        let mut head = vec!["time (UTC)".to_owned()];
        head.extend(bands.iter().map(|band| band.name.clone()));
        let rows = self.at.iter().enumerate().map(|(number, &at)| {
            let parts = bands.iter().map(|band| say(band.had.get(number).copied().flatten()));
            std::iter::once(Times::moment(at)).chain(parts).collect()
        });
        Table { head, rows: rows.collect() }
    }
}

impl Shares {
    fn bands(&self) -> Vec<Band> {
        let count = self.at.len();
        let values = |from: &[Option<f64>]| -> Vec<Option<f64>> {
            (0..count).map(|at| tame(from.get(at).copied().flatten()?).map(|part| part.clamp(0.0, 1.0))).collect()
        };
        let alone = self.groups.iter().take(SERIES).enumerate().map(|(number, group)| {
            let (had, entitled) = (values(&group.had), values(&group.entitled));
            let band = Band::new(group.name.clone(), Colour::Series(number), had, entitled);
            let in_all = group.in_all.and_then(|(had, entitled)| tame(had).zip(tame(entitled)));
            match in_all {
                Some((had, entitled)) => {
                    let should = band.should.map(|_| entitled.clamp(0.0, 1.0));
                    Band { mean: Some(had.clamp(0.0, 1.0)), should, ..band }
                }
                None => band,
            }
        });
        let mut bands: Vec<_> = alone.collect();
        let others = self.groups.iter().skip(SERIES).map(|group| &group.had).chain([&self.rest]);
        let mut together: Vec<Option<f64>> = vec![None; count];
        for had in others {
            for (sum, part) in together.iter_mut().zip(values(had)) {
                *sum = part.map_or(*sum, |part| Some(sum.unwrap_or(0.0) + part));
            }
        }
        if self.groups.len() > SERIES || !self.rest.is_empty() {
            let rest = Band::new("all others".to_owned(), Colour::Rest, together, Vec::new());
            let known = self
                .groups
                .iter()
                .all(|group| group.in_all.is_some())
                .then(|| bands.iter().filter_map(|band| band.mean).sum::<f64>());
            let mean = known.map_or(rest.mean, |known| rest.mean.map(|_| (1.0 - known).max(0.0)));
            bands.push(Band { mean, ..rest });
        }
        bands
    }

    /// For each time, the upper edge of each band; `None` where no band has a value. Parts that come to more than 1 are shrunk.
    fn levels(&self, bands: &[Band]) -> Vec<Option<Vec<f64>>> {
        let level = |at: usize| {
            let parts: Vec<_> = bands.iter().map(|band| band.had[at]).collect();
            parts.iter().any(Option::is_some).then(|| {
                let all: f64 = parts.iter().flatten().sum();
                let mut so_far = 0.0;
                let parts = parts.iter().map(|part| part.unwrap_or(0.0) / all.max(1.0));
                parts
                    .map(|part| {
                        so_far += part;
                        so_far
                    })
                    .collect()
            })
        };
        (0..self.at.len()).map(level).collect()
    }

    /// The time, the lower and the upper edge of a band, run by run. What is known at one time only is drawn until the next.
    fn ribbons(&self, levels: &[Option<Vec<f64>>], band: usize) -> Vec<Vec<(f64, f64, f64)>> {
        let edge = |number: usize| {
            let level = levels[number].as_ref()?;
            let low = if band == 0 { 0.0 } else { level[band - 1] };
            Some((number, low, level[band]))
        };
        let ribbon = |run: Vec<(usize, f64, f64)>| {
            let mut ribbon: Vec<_> = run.iter().map(|&(number, low, high)| (self.at[number], low, high)).collect();
            if let Some(&(number, low, high)) =
                run.last().filter(|(number, ..)| *number + 1 == self.at.len() || run.len() == 1)
            {
                ribbon.push((self.until(number), low, high));
            }
            ribbon
        };
        runs((0..levels.len()).map(edge)).into_iter().map(ribbon).collect()
    }

    /// How long a value holds.
    fn until(&self, number: usize) -> f64 {
        self.at.get(number + 1).copied().unwrap_or(self.times.to)
    }

    /// The upper edges that the bands would have if each group had what it is entitled to.
    fn entitlements(&self, bands: &[Band]) -> Vec<Vec<(f64, f64)>> {
        let mut lines = Vec::new();
        let mut so_far = vec![Some(0.0); self.at.len()];
        for band in bands.iter().filter(|band| band.should.is_some()) {
            for (sum, part) in so_far.iter_mut().zip(&band.entitled) {
                *sum = sum.zip(*part).map(|(sum, part): (f64, f64)| (sum + part).min(1.0));
            }
            let points = so_far.iter().enumerate().map(|(number, part)| Some((number, (*part)?)));
            for run in runs(points) {
                let last = run.last().map(|&(number, part)| (self.until(number), part));
                // At the top the line would be the frame.
                if run.iter().any(|(_, part)| *part < 0.999) {
                    lines.push(run.iter().map(|&(number, part)| (self.at[number], part)).chain(last).collect());
                }
            }
        }
        lines
    }

    /// Where a band is high enough for its name, and for how wide a one: the middle of the longest such run.
    fn widest(&self, plot: &Plot, levels: &[Option<Vec<f64>>], band: usize) -> Option<(f64, f64, f64)> {
        let high = |number: usize| {
            let level = levels[number].as_ref()?;
            let low = if band == 0 { 0.0 } else { level[band - 1] };
            let (top, bottom) = (plot.y(level[band]), plot.y(low));
            (bottom - top >= 22.0).then_some((number, f64::midpoint(top, bottom)))
        };
        let long = |run: &Vec<(usize, f64)>| {
            let (first, last) = (run.first().map_or(0, |run| run.0), run.last().map_or(0, |run| run.0));
            plot.x(self.until(last)) - plot.x(self.at[first])
        };
        let best = runs((0..levels.len()).map(high)).into_iter().max_by(|a, b| long(a).total_cmp(&long(b)))?;
        let room = long(&best);
        let &(number, y) = best.get(best.len() / 2)?;
        let x = plot.x(f64::midpoint(self.at[number], self.until(number)));
        let room = room.min(2.0 * (x - plot.left).min(plot.right - x)) - 12.0;
        (room >= 44.0).then_some((x, y, room))
    }
}

impl Band {
    fn new(name: String, colour: Colour, had: Vec<Option<f64>>, entitled: Vec<Option<f64>>) -> Self {
        let (mean, should) = (mean(&had), mean(&entitled));
        Self { name, colour, had, entitled, mean, should }
    }
}

#[allow(clippy::cast_precision_loss)] // as many as a chart has points
fn mean(parts: &[Option<f64>]) -> Option<f64> {
    let known: Vec<f64> = parts.iter().flatten().copied().collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

fn legend(bands: &[Band]) -> Vec<Entry> {
    let mut entries: Vec<_> = bands
        .iter()
        .map(|band| Entry {
            swatch: Swatch::Area(band.colour),
            text: band.name.clone(),
            value: band.mean.map_or_else(String::new, |mean| Measure::Part.say(mean)),
        })
        .collect();
    if bands.iter().any(|band| band.should.is_some()) {
        let value = String::new();
        entries.push(Entry { swatch: Swatch::Line("line ideal"), text: "entitled to".to_owned(), value });
    }
    entries
}

fn point(bands: &[Band]) -> String {
    let mut sorted: Vec<_> = bands.iter().filter_map(|band| Some((band.mean?, band))).collect();
    sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
    let say = |(mean, band): &(f64, &Band)| {
        let entitled =
            band.should.map_or_else(String::new, |should| format!(", entitled to {}", Measure::Part.say(should)));
        format!("{} had {}{entitled}", named(&band.name), Measure::Part.say(*mean))
    };
    match sorted.len() {
        0 => "No group had a worker in this time.".to_owned(),
        count if count > 4 => {
            let first: Vec<_> = sorted.iter().take(4).map(say).collect();
            format!("On average, {}; {} more had less.", first.join("; "), count - 4)
        }
        _ => format!("On average, {}.", sorted.iter().map(say).collect::<Vec<_>>().join("; ")),
    }
}
