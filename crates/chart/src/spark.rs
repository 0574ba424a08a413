//! A line within a line of text.

use crate::{
    Colour, Measure, Table,
    drawing::{Drawing, Path, Role, Words},
    lines::thin,
    plot::runs,
    scale::tame,
};

const WIDTH: f64 = 96.0;
const HEIGHT: f64 = 24.0;
/// Room for half of the last dot.
const EDGE: f64 = 3.0;

/// A small line, from zero up, whose values are as far apart in time as each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Spark {
    /// What is shown, for readers who do not see it.
    pub title: String,
    /// What the values count.
    pub measure: Measure,
    /// A state's, where the values are of a state.
    pub colour: Colour,
    /// `None` leaves a gap.
    pub values: Vec<Option<f64>>,
}

impl Spark {
    /// The picture: it fits every place, so there is but one.
    #[must_use]
    pub fn svg(&self) -> String {
        let values: Vec<_> = self.values.iter().map(|value| tame((*value)?).map(|value| value.max(0.0))).collect();
        let known = || values.iter().flatten().copied();
        let most = known().fold(0.0, f64::max);
        let point = match known().next_back() {
            Some(last) => format!("{} at last, at most {}.", self.measure.say(last), self.measure.say(most)),
            None => "No values.".to_owned(),
        };
        let words = Words { title: &self.title, point: &point };
        let mut drawing = Drawing::begin("spark", (WIDTH, HEIGHT), words, Role::Picture);
        drawing.line("base", (EDGE, HEIGHT - 2.0), (WIDTH - EDGE, HEIGHT - 2.0));
        drawing.group(self.colour.class());
        #[allow(clippy::cast_precision_loss)] // where a point stands
        let x = |number: usize| EDGE + (WIDTH - 2.0 * EDGE) * number as f64 / (values.len().max(2) - 1) as f64;
        let y = |value: f64| HEIGHT - EDGE - (HEIGHT - 2.0 * EDGE) * value / most.max(f64::MIN_POSITIVE);
        let points = values.iter().enumerate().map(|(number, value)| Some((x(number), y((*value)?))));
        let runs = runs(points);
        for run in runs.iter().filter(|run| run.len() > 1) {
            let run = thin(run);
            if let [(first, _), .., (last, _)] = run.as_slice() {
                let floor = [(*last, HEIGHT - 2.0), (*first, HEIGHT - 2.0)];
                drawing.path("under", &Path::default().along(run.iter().copied()).along(floor).closed());
            }
            drawing.polyline("line", run);
        }
        for alone in runs.iter().filter(|run| run.len() == 1) {
            drawing.circle("dot", alone[0], 1.5);
        }
        if let Some(last) = runs.last().and_then(|run| run.last()) {
            drawing.circle("dot", *last, 2.5);
        }
        drawing.end()
    }

    /// Its values, the oldest first.
    #[must_use]
    pub fn table(&self) -> Table {
        let say = |value: &Option<f64>| value.map_or_else(|| "-".to_owned(), |value| self.measure.say(value));
        Table::new(["value"], self.values.iter().map(|value| [say(value)]))
    }
}
