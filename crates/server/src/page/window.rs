//! How far back a page looks: as its address says it, `?window=day`.

use std::time::Duration;

use turnwise::Timestamp;
use turnwise_chart::Times;

use crate::page::{
    fairness::Tab,
    numbers::{Numbers, Sum, unix},
    visit::{Visit, parameters},
};

/// A time up to now, in steps.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) name: &'static str,
    /// As a sentence says it.
    pub(crate) words: &'static str,
    /// As the API names its steps.
    pub(crate) step: &'static str,
    seconds: i64,
    steps: i64,
}

static WINDOWS: [Window; 4] = [
    Window { name: "hour", words: "the last hour", step: "minute", seconds: 60, steps: 60 },
    Window { name: "day", words: "the last day", step: "hour", seconds: 3_600, steps: 24 },
    Window { name: "week", words: "the last week", step: "hour", seconds: 3_600, steps: 168 },
    Window { name: "month", words: "the last 30 days", step: "day", seconds: 86_400, steps: 30 },
];

impl Window {
    /// The one of the address; a day if it names none.
    pub(crate) fn of(visit: &Visit) -> &'static Self {
        let name = visit.query.get("window").unwrap_or("day");
        WINDOWS.iter().find(|window| window.name == name).unwrap_or(&WINDOWS[1])
    }

    /// A choice of all of them; `path` is the page's, `others` what else its address says.
    pub(crate) fn tabs(&self, root: &str, path: &str, others: &[(&str, &str)]) -> Vec<Tab> {
        let label = |window: &Window| match window.name {
            "month" => "30 days".to_owned(),
            name => format!("Last {name}"),
        };
        let tab = |window: &Window| Tab {
            label: label(window),
            href: format!(
                "{root}{path}{}",
                parameters([("window", window.name)].into_iter().chain(others.iter().copied()))
            ),
            current: window == self,
        };
        WINDOWS.iter().map(tab).collect()
    }

    fn micros(&self) -> i64 {
        self.seconds * 1_000_000
    }

    /// When it begins: with a whole step.
    pub(crate) fn begin(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_micros((now.micros().div_euclid(self.micros()) + 1 - self.steps) * self.micros())
    }

    /// When its steps begin.
    pub(crate) fn steps(&self, now: Timestamp) -> Vec<Timestamp> {
        let begin = self.begin(now).micros();
        (0..self.steps).map(|step| Timestamp::from_micros(begin + step * self.micros())).collect()
    }

    /// Which step a time is in. What began before is in the first: it comes in a longer step, which reaches into the window.
    pub(crate) fn step_of(&self, at: Timestamp, now: Timestamp) -> Option<usize> {
        let step = (at.micros() - self.begin(now).micros()).div_euclid(self.micros()).max(0);
        usize::try_from(step).ok().filter(|_| step < self.steps)
    }

    /// An axis of it.
    pub(crate) fn axis(&self, now: Timestamp) -> Times {
        let from = unix(self.begin(now));
        let length = Duration::from_secs((self.seconds * self.steps).cast_unsigned());
        Times::clock(from, from + length.as_secs_f64(), 0.0)
    }

    /// Values, each at its time, added up by the step.
    pub(crate) fn count(&self, counts: impl IntoIterator<Item = (Timestamp, u64)>, now: Timestamp) -> Vec<u64> {
        let mut steps = vec![0; usize::try_from(self.steps).unwrap_or(0)];
        for (at, count) in counts {
            if let Some(step) = self.step_of(at, now).and_then(|step| steps.get_mut(step)) {
                *step += count;
            }
        }
        steps
    }

    /// What happened, by the step.
    pub(crate) fn sums(&self, numbers: &Numbers, now: Timestamp) -> Vec<(Timestamp, Sum)> {
        let mut sums = numbers.sums(|point| self.step_of(point.at, now));
        let begins = self.steps(now).into_iter().enumerate();
        begins.map(|(step, at)| (at, sums.remove(&Some(step)).unwrap_or_default())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_ends_with_the_step_that_is_not_over_yet() {
        let now: Timestamp = "2030-01-31T08:30:10Z".parse().unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let day = &WINDOWS[1];
        let steps = day.steps(now);
        assert_eq!((steps.len(), steps[0], steps[23]), (24, at("2030-01-30T09:00:00Z"), at("2030-01-31T08:00:00Z")));
        assert_eq!(day.step_of(at("2030-01-31T08:30:00Z"), now), Some(23));
        assert_eq!(day.step_of(at("2030-01-31T09:00:00Z"), now), None, "a step that has not begun");
        assert_eq!(day.step_of(at("2030-01-30T00:00:00Z"), now), Some(0), "a day that reaches into it");
        let counts = [("2030-01-31T07:05:00Z", 2), ("2030-01-31T07:55:00Z", 3), ("2030-01-30T09:00:00Z", 1)];
        let counted = day.count(counts.map(|(text, count)| (at(text), count)), now);
        assert_eq!((counted[0], counted[22], counted.iter().sum::<u64>()), (1, 5, 6));
    }
}
