//! How many jobs were done at which time, and how long single steps took.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;

use crate::{logs, view::Progress};

/// The rates of the beginning and of the end are of this many jobs.
const SOME: u64 = 10_000;
/// The longest time that is recorded, in microseconds: a day. A longer one is recorded as this.
const LONGEST: u64 = 86_400_000_000;

/// How many jobs were done, by time.
#[derive(Debug)]
pub(super) struct Meter {
    begun: Instant,
    marks: Vec<(Duration, u64)>,
}

impl Meter {
    pub(super) fn start() -> Self {
        Self { begun: Instant::now(), marks: Vec::new() }
    }

    /// Where work begins at once, the start is the first mark.
    pub(super) fn start_at_once() -> Self {
        Self { begun: Instant::now(), marks: vec![(Duration::ZERO, 0)] }
    }

    /// Notes that this many jobs are done now.
    pub(super) fn mark(&mut self, jobs: u64) {
        if jobs > self.marks.last().map_or(0, |(_, before)| *before) {
            self.marks.push((self.begun.elapsed(), jobs));
        }
    }

    /// From the start to the last mark.
    pub(super) fn took(&self) -> Duration {
        self.marks.last().map_or(Duration::ZERO, |(at, _)| *at)
    }

    pub(super) fn per_second(&self) -> Option<f64> {
        // From the start, whenever the first mark was.
        rate((Duration::ZERO, 0), *self.marks.last()?)
    }

    /// From the first mark on: what came before it, loading the backlog, is left out.
    pub(super) fn first_per_second(&self) -> Option<f64> {
        let first = *self.marks.first()?;
        let through = self.marks.iter().find(|(_, jobs)| *jobs >= SOME)?;
        self.has_both_ends().then(|| rate(first, *through))?
    }

    pub(super) fn last_per_second(&self) -> Option<f64> {
        let last = *self.marks.last()?;
        let from = self.marks.iter().find(|(_, jobs)| jobs + SOME >= last.1)?;
        self.has_both_ends().then(|| rate(*from, last))?
    }

    /// With fewer jobs, the beginning would be part of the end.
    fn has_both_ends(&self) -> bool {
        self.marks.last().is_some_and(|(_, jobs)| *jobs >= 2 * SOME)
    }
}

fn rate(from: (Duration, u64), to: (Duration, u64)) -> Option<f64> {
    let span = to.0.checked_sub(from.0).filter(|span| !span.is_zero())?;
    Some((to.1 - from.1) as f64 / span.as_secs_f64())
}

/// How long single steps took.
#[derive(Debug)]
pub(super) struct Times(Histogram<u64>);

impl Times {
    pub(super) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST, 3).expect("these bounds are as they must be"))
    }

    pub(super) fn note(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    pub(super) fn add(&mut self, more: &Times) {
        // Of the same bounds, so that all of it fits.
        self.0.add(&more.0).expect("both have the same bounds");
    }

    pub(super) fn percentile_ms(&self, percentile: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_percentile(percentile) as f64 / 1e3)
    }

    pub(super) fn max_ms(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.max() as f64 / 1e3)
    }
}

/// How far it has come, on stderr where that is a terminal. Gone when it is dropped.
#[derive(Debug)]
pub(super) struct Bar {
    total: u64,
    what: &'static str,
    drawn: Option<Instant>,
    shown: bool,
}

impl Bar {
    /// Between two redraws.
    pub(super) const REDRAW: Duration = Duration::from_millis(200);

    pub(super) fn new(total: u64, what: &'static str) -> Self {
        Self { total, what, drawn: None, shown: io::stderr().is_terminal() }
    }

    pub(super) fn at(&mut self, done: u64) {
        if self.shown && self.drawn.is_none_or(|drawn| drawn.elapsed() >= Self::REDRAW) {
            self.drawn = Some(Instant::now());
            let progress = Progress { done, total: self.total, text: self.what.to_owned() };
            // A closed stderr is no reason to stop.
            let _ = write!(io::stderr(), "\r{}\u{1b}[K", logs::bar(&progress));
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(marks: &[(u64, u64)]) -> Meter {
        let marks = marks.iter().map(|(millis, jobs)| (Duration::from_millis(*millis), *jobs)).collect();
        Meter { begun: Instant::now(), marks }
    }

    #[test]
    fn rates_of_both_ends_are_between_marks() {
        // A second passes before the first mark: it counts for the whole, not for the beginning.
        let meter = meter(&[(1_000, 1_000), (1_900, 10_000), (2_000, 20_000), (4_000, 30_000)]);
        assert_eq!(meter.per_second(), Some(7_500.0));
        assert_eq!(meter.first_per_second(), Some(10_000.0));
        assert_eq!(meter.last_per_second(), Some(5_000.0));
    }

    #[test]
    fn few_jobs_have_no_rates_of_their_ends() {
        let meter = meter(&[(1, 10_000), (2, 19_999)]);
        assert_eq!((meter.first_per_second(), meter.last_per_second()), (None, None));
        assert_eq!((Meter::start().per_second(), Meter::start_at_once().per_second()), (None, None));
    }

    #[test]
    fn percentiles_are_in_milliseconds() {
        let mut times = Times::new();
        assert_eq!(times.percentile_ms(50.0), None);
        (1..=100).for_each(|n| times.note(Duration::from_millis(n)));
        let close = |seen: Option<f64>, wanted: f64| (seen.unwrap() - wanted).abs() < wanted / 100.0;
        assert!(close(times.percentile_ms(50.0), 50.0) && close(times.percentile_ms(99.0), 99.0), "{times:?}");
        assert!(close(times.max_ms(), 100.0), "{times:?}");
    }
}
