//! The demo: how long the late groups' jobs waited, and who had the slots.

use crate::{
    Table,
    drawing::{Drawing, Role, Words},
    scale::{Ladder, span, tame},
    text::named,
};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 660.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 836.0;
/// Waits below this are drawn on the axis.
const LEAST: f64 = 1e-3;
/// More dots than this would only make the file large.
const DOTS: usize = 3_000;
/// Points of a line that is thinned.
const POINTS: usize = 200;

/// One loud group and many that come late, all times in seconds from the beginning.
#[derive(Debug, Clone, PartialEq)]
pub struct Fairness {
    /// What is shown, as a heading says it.
    pub title: String,
    /// How it went, in a few words.
    pub note: String,
    /// When everything had ended.
    pub end: f64,
    /// The greatest wait that could have been.
    pub longest: f64,
    /// Of each late group's job: when it was submitted, and how long it waited.
    pub waits: Vec<(f64, f64)>,
    /// From when to when they came.
    pub contended: (f64, f64),
    /// The loud group.
    pub loud: Course,
    /// All others together.
    pub others: Course,
}

/// What some groups had, so far, at each time.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// What they are called.
    pub name: String,
    /// Slot-seconds that they had.
    pub had: Vec<(f64, f64)>,
    /// Slot-seconds that they were entitled to.
    pub entitled: Vec<(f64, f64)>,
}

/// A rectangle with a scale on each side.
struct Panel {
    top: f64,
    bottom: f64,
    seconds: Ladder,
}

impl Panel {
    fn x(&self, at: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (at / self.seconds.end).clamp(0.0, 1.0)
    }

    /// `part`: 0 at the bottom, 1 at the top.
    fn y(&self, part: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * part.clamp(0.0, 1.0)
    }
}

impl Fairness {
    /// The picture: as wide as a page, for a file.
    #[must_use]
    pub fn svg(&self) -> String {
        let last = |course: &Course| course.had.last().and_then(|(_, had)| tame(*had)).unwrap_or(0.0);
        let point = format!(
            "The late groups' jobs waited: {}. Slot-seconds: {} had {:.1}, {} had {:.1}.",
            self.note,
            named(&self.loud.name),
            last(&self.loud),
            named(&self.others.name),
            last(&self.others),
        );
        let words = Words { title: &self.title, point: &point };
        let mut drawing = Drawing::begin("fairness", (WIDTH, HEIGHT), words, Role::Picture);
        drawing.text("ink title", (24.0, 34.0), &self.title);
        self.waits(&mut drawing);
        self.shares(&mut drawing);
        drawing.end()
    }

    /// The waits, in the order of the submits.
    #[must_use]
    pub fn table(&self) -> Table {
        Table::new(
            ["submitted", "waited"],
            self.waits.iter().map(|(at, wait)| [format!("+{}", span(*at)), span(*wait)]),
        )
    }

    fn waits(&self, drawing: &mut Drawing) {
        let panel = Panel { top: 92.0, bottom: 310.0, seconds: Ladder::new(self.end, 8.0) };
        let longest = tame(self.longest).unwrap_or(0.0);
        let greatest = 10_f64.powf(longest.max(LEAST).log10().ceil().max(1.0));
        let height = |wait: f64| panel.y((wait.max(LEAST) / LEAST).log10() / (greatest / LEAST).log10());
        drawing.part("waits");
        drawing.text("ink head", (24.0, 66.0), "How long the late collectives' jobs waited");
        drawing.text("soft end", (RIGHT, 66.0), &format!("one dot a job, {}", self.note));
        self.frame(drawing, &panel);
        let mut tick = LEAST;
        while tick <= greatest * 1.01 {
            let label = if tick < 0.5 { span(tick) } else { format!("{tick:.0} s") };
            rule(drawing, height(tick), &label);
            tick *= 10.0;
        }
        for (at, wait) in self.waits.iter().step_by(self.waits.len().div_ceil(DOTS).max(1)) {
            drawing.circle("spot series-0", (panel.x(*at), height(*wait)), 2.5);
        }
        drawing.text("soft end", (RIGHT, panel.bottom + 36.0), "time of the submit");
        drawing.close();
    }

    fn shares(&self, drawing: &mut Drawing) {
        let panel = Panel { top: 410.0, bottom: 600.0, seconds: Ladder::new(self.end, 8.0) };
        let courses = [(&self.loud, "series-1"), (&self.others, "series-0")];
        let points = courses.iter().flat_map(|(course, _)| course.had.iter().chain(&course.entitled));
        let ladder = Ladder::new(points.filter_map(|(_, had)| tame(*had)).fold(0.0, f64::max), 8.0);
        drawing.part("shares");
        drawing.text("ink head", (24.0, 384.0), "Who had the slots: slot-seconds so far");
        let mut x = RIGHT - 440.0;
        for (class, label, room) in [
            ("line thick series-1", self.loud.name.as_str(), 60.0),
            ("line thick series-0", self.others.name.as_str(), 150.0),
            ("line ideal", "entitled to", 0.0),
        ] {
            drawing.line(class, (x, 380.0), (x + 24.0, 380.0));
            drawing.text("soft", (x + 30.0, 384.0), label);
            x += 30.0 + room;
        }
        self.frame(drawing, &panel);
        for rung in ladder.rungs() {
            rule(drawing, panel.y(rung / ladder.end), &ticked(rung, ladder.step));
        }
        for (course, class) in courses {
            let place = |(at, had): &(f64, f64)| (panel.x(*at), panel.y(had / ladder.end));
            let thin = course.entitled.len().div_ceil(POINTS).max(1);
            let entitled = course.entitled.iter().step_by(thin).chain(course.entitled.last());
            drawing.polyline(&format!("line ideal {class}"), entitled.map(place));
            drawing.polyline(&format!("line thick {class}"), course.had.iter().map(place));
        }
        drawing.text("soft end", (RIGHT, panel.bottom + 36.0), "time");
        drawing.close();
    }

    /// The time axis, and the time in which the late groups came.
    fn frame(&self, drawing: &mut Drawing, panel: &Panel) {
        let (from, to) = (panel.x(self.contended.0), panel.x(self.contended.1));
        drawing.rect("stripe", (from, panel.top), (to - from, panel.bottom - panel.top), 0.0);
        drawing.text("soft", (from + 6.0, panel.top + 15.0), "the late collectives submit");
        for rung in panel.seconds.rungs() {
            let label = format!("{} s", ticked(rung, panel.seconds.step));
            drawing.text("soft middle", (panel.x(rung), panel.bottom + 18.0), &label);
        }
    }
}

/// A horizontal line with its value.
fn rule(drawing: &mut Drawing, y: f64, label: &str) {
    drawing.line("grid", (LEFT, y), (RIGHT, y));
    drawing.text("soft end", (LEFT - 8.0, y + 4.0), label);
}

/// A value on an axis, with as many places as its steps have.
fn ticked(tick: f64, step: f64) -> String {
    let places = if step >= 1.0 {
        0
    } else if step >= 0.1 {
        1
    } else {
        3
    };
    format!("{tick:.places$}")
}
