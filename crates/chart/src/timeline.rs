//! The attempts of a job, each in its phases.
//!
//! A job may wait for hours and run for milliseconds. Where a phase would be too small to see, it is drawn wider than it was, and
//! marked by a dotted foot; all others are to scale.

use crate::{
    Chart, Colour, Measure, State, Table, Width,
    drawing::{Drawing, Role, Words, class},
    plot::{FONT, SMALL},
    scale::{span, tame},
    text::{breadth, fit, named},
};

/// The latest are drawn; earlier ones are counted.
const ATTEMPTS: usize = 40;
/// A phase is no narrower if all of them have that much room: its duration can be read.
const LEAST: f64 = 56.0;
/// Of the width, for phases that are drawn wider than they were.
const WIDENED: f64 = 0.7;
/// Labels of the axis are this far apart.
const SLOT: f64 = 90.0;
/// For the name of an attempt, whatever it is: the axis begins behind it.
const NAME: f64 = 94.0;
const BAR: f64 = 24.0;

/// The attempts of one job.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// What is shown, as a heading says it.
    pub title: String,
    /// When it begins, in words: the axis counts from there.
    pub begins: String,
    /// The first one first.
    pub attempts: Vec<Attempt>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// What it is called.
    pub name: String,
    /// One after the other.
    pub phases: Vec<Phase>,
    /// How it ended; `None`: it still goes on, and its last phase ends now.
    pub ended: Option<State>,
}

/// A time in one state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phase {
    /// The state.
    pub state: State,
    /// In seconds since whenever.
    pub from: f64,
    /// No less than `from`.
    pub to: f64,
}

impl Phase {
    fn ends(&self) -> (f64, f64) {
        let from = tame(self.from).unwrap_or(0.0);
        (from, tame(self.to).unwrap_or(from).max(from))
    }

    fn span(&self) -> String {
        let (from, to) = self.ends();
        span(to - from)
    }
}

impl Chart for Timeline {
    fn svg(&self, width: Width) -> String {
        let units = width.units();
        let narrow = width == Width::Narrow;
        let shown = &self.attempts[self.attempts.len().saturating_sub(ATTEMPTS)..];
        let left = if narrow { 0.0 } else { NAME + 16.0 };
        let axis = Axis::new(shown, left, units - 8.0);
        let (row, above) = if narrow { (74.0, 22.0) } else { (46.0, 6.0) };
        let hidden = self.attempts.len() - shown.len();
        let top = if hidden > 0 { 24.0 } else { 4.0 };
        #[allow(clippy::cast_precision_loss)] // forty
        let bottom = top + row * shown.len().max(1) as f64;
        let height = bottom + 28.0 + if axis.widened() { 20.0 } else { 0.0 };
        let point = self.point();
        let words = Words { title: &self.title, point: &point };
        let mut drawing = Drawing::begin(&class("timeline", width), (units, height), words, Role::Picture);
        if hidden > 0 {
            drawing.text("soft", (0.0, 16.0), &format!("{hidden} earlier attempts are not drawn"));
        }
        axis.draw(&mut drawing, &self.begins, top, bottom);
        let mut y = top;
        for attempt in shown {
            drawing.group("attempt");
            let (outcome, state) = attempt.outcome();
            let name = fit(&attempt.name, NAME, FONT);
            let (mark, word) = if narrow {
                drawing.text("ink head", (0.0, y + 15.0), &name);
                let x = breadth(&name, FONT) + 22.0;
                ((x, y + 10.5), (x + 11.0, y + 15.0))
            } else {
                drawing.text("ink head", (0.0, y + 16.0), &name);
                ((6.0, y + 29.0), (17.0, y + 33.0))
            };
            if let Some(state) = state {
                Colour::State(state).draw(&mut drawing, mark);
            }
            drawing.text("soft small", word, outcome);
            for phase in &attempt.phases {
                axis.phase(&mut drawing, phase, y + above);
            }
            if narrow {
                attempt.durations(&mut drawing, (0.0, y + above + BAR + 16.0), units);
            }
            drawing.close();
            y += row;
        }
        if shown.is_empty() {
            drawing.text("soft", (0.0, top + 20.0), "no attempt has been made");
        }
        if axis.widened() {
            drawing.line("foot short", (0.0, height - 9.0), (24.0, height - 9.0));
            drawing.text("soft small", (30.0, height - 6.0), "drawn wider than it was");
        }
        drawing.end()
    }

    fn table(&self) -> Table {
        let rows = self.attempts.iter().flat_map(|attempt| {
            let phases = attempt.phases.iter();
            phases.map(|phase| {
                [attempt.name.clone(), phase.state.name().to_owned(), phase.span(), attempt.outcome().0.to_owned()]
            })
        });
        Table::new(["attempt", "phase", "lasted", "ended"], rows)
    }
}

impl Timeline {
    fn point(&self) -> String {
        let all = |state: State| -> f64 {
            let phases = self.attempts.iter().flat_map(|attempt| &attempt.phases).filter(|phase| phase.state == state);
            phases.map(|phase| phase.ends().1 - phase.ends().0).sum()
        };
        let states = State::ALL.into_iter().map(|state| (state, all(state))).filter(|(_, time)| *time > 0.0);
        let times: Vec<_> = states.map(|(state, time)| format!("{} for {}", state.name(), span(time))).collect();
        let count = match self.attempts.len() {
            0 => return "No attempt has been made.".to_owned(),
            1 => "One attempt".to_owned(),
            count => format!("{count} attempts"),
        };
        let last = self.attempts.last().map_or("", |attempt| attempt.outcome().0);
        let name = self.attempts.last().map_or_else(String::new, |attempt| named(&attempt.name));
        format!("{count}: {}; {name}: {last}.", if times.is_empty() { "no time".to_owned() } else { times.join(", ") })
    }
}

impl Attempt {
    fn outcome(&self) -> (&'static str, Option<State>) {
        match (self.ended, self.phases.last()) {
            (Some(state), _) => (state.name(), Some(state)),
            (None, Some(phase)) => ("until now", Some(phase.state)),
            (None, None) => ("until now", None),
        }
    }
}

impl Attempt {
    /// What has no room within the phases themselves: shapes and durations, one after the other.
    fn durations(&self, drawing: &mut Drawing, (mut x, y): (f64, f64), right: f64) {
        for phase in &self.phases {
            let span = phase.span();
            if x + 17.0 + breadth(&span, SMALL) > right - 12.0 {
                drawing.text("soft small", (x, y), "…");
                break;
            }
            Colour::State(phase.state).draw(drawing, (x + 6.0, y - 4.5));
            drawing.text("soft small", (x + 17.0, y), &span);
            x += 17.0 + breadth(&span, SMALL) + 10.0;
        }
    }
}

/// Time from left to right, in pieces with a scale of their own.
struct Axis {
    /// The times at which a phase begins or ends, and where each is.
    bends: Vec<(f64, f64)>,
    /// Pieces that would have been narrower than this are widened to it.
    least: f64,
    /// Units for a second in all other pieces.
    factor: f64,
}

impl Axis {
    fn new(attempts: &[Attempt], left: f64, right: f64) -> Self {
        let phases = attempts.iter().flat_map(|attempt| &attempt.phases);
        let mut times: Vec<f64> = phases.map(Phase::ends).flat_map(|(from, to)| [from, to]).collect();
        times.sort_by(f64::total_cmp);
        times.dedup();
        let lengths: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let room = right - left;
        #[allow(clippy::cast_precision_loss)] // a few hundred
        let least = LEAST.min(WIDENED * room / lengths.len().max(1) as f64);
        // To widen some leaves less for the others, which may make some more too narrow.
        let mut factor = 0.0;
        let mut widened = 0;
        loop {
            let (narrow, wide): (Vec<f64>, Vec<f64>) =
                lengths.iter().partition(|&&length| widened > 0 && length * factor < least);
            if wide.is_empty() {
                break;
            }
            #[allow(clippy::cast_precision_loss)] // a few hundred
            let left = room - least * narrow.len() as f64;
            factor = left / wide.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            let count = lengths.iter().filter(|&&length| length * factor < least).count();
            if count <= widened {
                break;
            }
            widened = count;
        }
        let mut x = left;
        let mut bends: Vec<_> = times.first().map(|&at| (at, left)).into_iter().collect();
        for (length, &at) in lengths.iter().zip(times.iter().skip(1)) {
            x += (length * factor).max(least);
            bends.push((at, x.min(right)));
        }
        Self { bends, least, factor }
    }

    fn is_short(&self, (from, to): (f64, f64)) -> bool {
        (to - from) * self.factor < self.least * 0.999
    }

    fn widened(&self) -> bool {
        self.bends.windows(2).any(|pair| self.is_short((pair[0].0, pair[1].0)))
    }

    /// Where one of the bends is.
    fn x(&self, at: f64) -> f64 {
        let after = self.bends.partition_point(|(bend, _)| *bend < at);
        self.bends.get(after).or(self.bends.last()).map_or(0.0, |(_, x)| *x)
    }

    /// Times since the beginning: round ones if all is to scale, those of the bends otherwise.
    fn draw(&self, drawing: &mut Drawing, begins: &str, top: f64, bottom: f64) {
        let (Some(&(begin, left)), Some(&(end, right))) = (self.bends.first(), self.bends.last()) else { return };
        let marks: Vec<(f64, f64)> = if self.widened() {
            self.bends.iter().skip(1).map(|&(at, x)| (at - begin, x)).collect()
        } else {
            let ladder = Measure::Seconds.ladder(end - begin);
            let length = (end - begin).max(f64::MIN_POSITIVE);
            let rungs = ladder.rungs().skip(1).map(|rung| (rung, left + (right - left) * rung / length));
            rungs.filter(|(rung, _)| *rung <= length).collect()
        };
        drawing.line("base", (left, bottom), (right, bottom));
        drawing.text("soft small", (left, bottom + 18.0), &fit(begins, SLOT, SMALL));
        let (mut room, mut before) = (left + SLOT * 1.6, String::new());
        for (since, x) in marks {
            drawing.line("grid", (x, top), (x, bottom));
            let label = format!("+{}", span(since));
            // The last one ends where the axis does, and needs its room to the left.
            let last = x + SLOT / 2.0 > right;
            if label != before && x >= room + if last { SLOT / 2.0 } else { 0.0 } {
                room = x + SLOT;
                let class = if last { "soft small end" } else { "soft small middle" };
                drawing.text(class, (x, bottom + 18.0), &label);
                before = label;
            }
        }
    }

    fn phase(&self, drawing: &mut Drawing, phase: &Phase, top: f64) {
        let (from, to) = phase.ends();
        let (x, end) = (self.x(from), self.x(to));
        let width = (end - x - 1.0).max(2.0);
        drawing.group(&format!("phase {}", phase.state.class()));
        drawing.hint(&format!("{} for {}", phase.state.name(), phase.span()));
        drawing.rect("tint", (x, top), (width, BAR), 2.0);
        let foot = if self.is_short((from, to)) { "foot short" } else { "foot" };
        drawing.line(foot, (x, top + BAR - 1.5), (x + width, top + BAR - 1.5));
        let (span, word) = (phase.span(), phase.state.name());
        let both = format!("{word} {span}");
        let with_mark = |text: &str| breadth(text, SMALL) + 28.0 <= width;
        if with_mark(&span) {
            Colour::State(phase.state).draw(drawing, (x + 11.0, top + 10.5));
            drawing.text("ink small", (x + 21.0, top + 15.0), if with_mark(&both) { &both } else { &span });
        } else if breadth(&span, SMALL) + 6.0 <= width {
            drawing.text("ink small", (x + 4.0, top + 15.0), &span);
        }
        drawing.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(state: State, from: f64, to: f64) -> Phase {
        Phase { state, from, to }
    }

    #[test]
    fn a_run_of_milliseconds_beside_a_wait_of_hours_can_be_seen() {
        let phases = vec![phase(State::Waiting, 0.0, 10_000.0), phase(State::Running, 10_000.0, 10_000.02)];
        let attempts = [Attempt { name: "attempt 1".to_owned(), phases, ended: Some(State::Success) }];
        let axis = Axis::new(&attempts, 100.0, 820.0);
        let widths: Vec<_> = axis.bends.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
        assert_eq!(widths, [664.0, 56.0]);
        assert!(axis.widened() && axis.is_short((10_000.0, 10_000.02)) && !axis.is_short((0.0, 10_000.0)));
    }

    #[test]
    fn phases_that_can_all_be_seen_are_to_scale() {
        let phases = vec![phase(State::Waiting, 5.0, 7.0), phase(State::Running, 7.0, 11.0)];
        let attempts = [Attempt { name: "attempt 1".to_owned(), phases, ended: None }];
        let axis = Axis::new(&attempts, 0.0, 600.0);
        assert_eq!(axis.bends, [(5.0, 0.0), (7.0, 200.0), (11.0, 600.0)]);
        assert!(!axis.widened());
    }
}
