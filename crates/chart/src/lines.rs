//! Values over time, as lines.

use crate::{
    Chart, Colour, Measure, Table, Times, Width,
    drawing::{Drawing, Pair, Path, Role, Words, class},
    plot::{AXIS, Entry, Legend, Plot, Swatch, runs},
    scale::tame,
    text::named,
};

/// One or several series over time, from zero up.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    /// What is shown, as a heading says it.
    pub title: String,
    /// From when to when.
    pub times: Times,
    /// When each value was, in ascending order.
    pub at: Vec<f64>,
    /// What the values count.
    pub measure: Measure,
    /// At most a dozen can be told apart.
    pub series: Vec<Series>,
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What it is called.
    pub name: String,
    /// A state's, where the values are of a state.
    pub colour: Colour,
    /// A value for each time; `None` leaves a gap.
    pub values: Vec<Option<f64>>,
}

impl Chart for Lines {
    fn svg(&self, width: Width) -> String {
        let units = width.units();
        let legend = Legend::new(self.series.iter().map(|series| self.entry(series)), 0.0, units);
        let height = if width >= Width::Wide { 170.0 } else { 150.0 };
        let plot = Plot::over(&self.times, units, legend.height() + 8.0, height);
        let point = self.point();
        let words = Words { title: &self.title, point: &point };
        let mut drawing = Drawing::begin(&class("lines", width), (units, plot.bottom + AXIS), words, Role::Picture);
        legend.draw(&mut drawing);
        let most = self.series.iter().flat_map(|series| self.known(series)).map(|(_, value)| value).fold(0.0, f64::max);
        let ladder = self.measure.ladder(most);
        plot.rungs(&mut drawing, ladder, self.measure);
        for series in &self.series {
            drawing.group(series.colour.class());
            drawing.hint(&format!("{}: {}", named(&series.name), self.summary(series)));
            let points = (0..self.at.len()).map(|number| {
                let (at, value) = self.value(series, number)?;
                Some((plot.x(at), plot.y(value / ladder.end)))
            });
            let mut last = None;
            for run in runs(points) {
                last = run.last().copied();
                match run.as_slice() {
                    [alone] => drawing.circle("dot", *alone, 2.5),
                    _ => self.draw_run(&mut drawing, &plot, &thin(&run)),
                }
            }
            if let Some(last) = last {
                series.colour.draw(&mut drawing, last);
            }
            drawing.close();
        }
        if self.series.iter().all(|series| self.known(series).next().is_none()) {
            plot.empty(&mut drawing);
        }
        plot.clock(&mut drawing, &self.times);
        drawing.end()
    }

    fn table(&self) -> Table {
        let mut head = vec!["time (UTC)".to_owned()];
        head.extend(self.series.iter().map(|series| series.name.clone()));
        let rows = self.at.iter().enumerate().map(|(number, &at)| {
            let say = |series| {
                self.value(series, number).map_or_else(|| "-".to_owned(), |(_, value)| self.measure.say(value))
            };
            std::iter::once(Times::moment(at)).chain(self.series.iter().map(say)).collect()
        });
        Table { head, rows: rows.collect() }
    }
}

impl Lines {
    fn value(&self, series: &Series, number: usize) -> Option<Pair> {
        let value = tame(series.values.get(number).copied().flatten()?)?;
        Some((tame(self.at[number])?, value.max(0.0)))
    }

    fn known<'a>(&'a self, series: &'a Series) -> impl Iterator<Item = Pair> {
        (0..self.at.len()).filter_map(|number| self.value(series, number))
    }

    fn latest(&self, series: &Series) -> String {
        self.known(series).last().map_or_else(|| "-".to_owned(), |(_, value)| self.measure.say(value))
    }

    /// One value for all of them, and what it is: how many there were in all, or the last one.
    fn summary(&self, series: &Series) -> String {
        match self.measure {
            _ if self.known(series).next().is_none() => "–".to_owned(),
            Measure::Count => {
                format!("{} in all", self.measure.say(self.known(series).map(|(_, value)| value).sum()))
            }
            Measure::Seconds | Measure::Part => format!("{} at last", self.latest(series)),
        }
    }

    fn entry(&self, series: &Series) -> Entry {
        Entry { swatch: Swatch::Shape(series.colour), text: series.name.clone(), value: self.summary(series) }
    }

    /// A line that stands alone has its area filled, so that little is seen well.
    fn draw_run(&self, drawing: &mut Drawing, plot: &Plot, run: &[Pair]) {
        if let ([_], [(first, _), .., (last, _)]) = (self.series.as_slice(), run) {
            let floor = [(*last, plot.bottom), (*first, plot.bottom)];
            drawing.path("under", &Path::default().along(run.iter().copied()).along(floor).closed());
        }
        drawing.polyline("line", run.iter().copied());
    }

    fn point(&self) -> String {
        let say = |series: &Series| {
            let most = self.known(series).map(|(_, value)| value).fold(0.0, f64::max);
            match self.known(series).next() {
                Some(_) => format!(
                    "{}: {} at last, at most {}",
                    named(&series.name),
                    self.latest(series),
                    self.measure.say(most)
                ),
                None => format!("{}: no values", named(&series.name)),
            }
        };
        if self.series.is_empty() {
            return "There is nothing to show.".to_owned();
        }
        let more = if self.series.len() > 6 { "; and more" } else { "" };
        format!("{}{more}.", self.series.iter().take(6).map(say).collect::<Vec<_>>().join("; "))
    }
}

/// No more than two points for each unit of the width: the lowest and the highest, so that no peak is lost.
pub(crate) fn thin(run: &[Pair]) -> Vec<Pair> {
    let mut thin: Vec<Pair> = Vec::new();
    for column in run.chunk_by(|a, b| a.0.floor() == b.0.floor()) {
        let by_height = |a: &&Pair, b: &&Pair| a.1.total_cmp(&b.1);
        let (Some(high), Some(low)) = (column.iter().min_by(by_height), column.iter().max_by(by_height)) else {
            continue;
        };
        thin.extend(if high == low {
            vec![*high]
        } else if high.0 <= low.0 {
            vec![*high, *low]
        } else {
            vec![*low, *high]
        });
    }
    thin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_points_keep_their_peaks() {
        let run: Vec<_> = (0..10_000).map(|n| (f64::from(n) / 100.0, if n == 4_321 { 9.0 } else { 1.0 })).collect();
        let thin = thin(&run);
        assert!(thin.len() <= 202 && thin.iter().any(|point| point.1 == 9.0), "{}", thin.len());
    }
}
