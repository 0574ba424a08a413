//! Statistics, as pages read them: by the minute, added up over names or over time.

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;
use turnwise::{Timestamp, statistics::Histogram};
use turnwise_chart::{Colour, Lines, Measure, Series, State, Times as Axis};

use crate::{page::Visit, problem::Problem};

/// A [`turnwise::wire::Statistics`].
#[derive(Debug, Deserialize)]
pub(crate) struct Numbers {
    pub(crate) points: Vec<Point>,
}

/// What happened in a time.
#[derive(Debug, Deserialize)]
pub(crate) struct Point {
    pub(crate) at: Timestamp,
    pub(crate) queue: String,
    pub(crate) task: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) started: u64,
    pub(crate) success: u64,
    pub(crate) failed: u64,
    pub(crate) cancelled: u64,
    pub(crate) stuck: u64,
    pub(crate) retried: u64,
    pub(crate) used: f64,
    pub(crate) entitled: f64,
    pub(crate) waits: Spread,
    pub(crate) runs: Spread,
}

/// How times are spread.
#[derive(Debug, Deserialize)]
pub(crate) struct Spread {
    buckets: Vec<u64>,
}

impl Spread {
    fn histogram(&self) -> Histogram {
        let mut histogram = Histogram::default();
        histogram.buckets.iter_mut().zip(&self.buckets).for_each(|(mine, count)| *mine = *count);
        histogram
    }
}

/// Several points together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sum {
    pub(crate) started: u64,
    pub(crate) ended: u64,
    /// Runs that ended in an error, retried ones too.
    pub(crate) errors: u64,
    pub(crate) used: f64,
    pub(crate) entitled: f64,
    pub(crate) waits: Histogram,
    pub(crate) runs: Histogram,
}

impl Sum {
    pub(crate) fn add(&mut self, point: &Point) {
        self.started += point.started;
        self.ended += point.success + point.failed + point.cancelled;
        self.errors += point.failed + point.stuck + point.retried;
        self.used += point.used;
        self.entitled += point.entitled;
        self.waits.add(&point.waits.histogram());
        self.runs.add(&point.runs.histogram());
    }
}

impl Numbers {
    /// Of the last hour, by the minute. `by` is `queue`, `task` or `group`; the last needs a queue among the parameters.
    pub(crate) async fn of_last_hour(visit: &Visit, by: &str, parameters: &[(&str, &str)]) -> Result<Self, Problem> {
        let all: Vec<_> = [("by", by), ("step", "minute")].into_iter().chain(parameters.iter().copied()).collect();
        visit.get("getStatistics", "", &all).await
    }

    pub(crate) fn sums<K: Ord>(&self, key: impl Fn(&Point) -> K) -> BTreeMap<K, Sum> {
        let mut sums: BTreeMap<K, Sum> = BTreeMap::new();
        self.points.iter().for_each(|point| sums.entry(key(point)).or_default().add(point));
        sums
    }

    /// How many minutes a chart shows: an hour, or as many as are known, but at least ten.
    pub(crate) fn known(&self, now: Timestamp) -> i64 {
        let first = self.points.iter().map(|point| point.at).min().unwrap_or(now);
        ((now.micros() - first.micros()) / 60_000_000 + 1).clamp(10, 60)
    }

    /// A sum for each of the minutes that a chart shows, with when it began.
    pub(crate) fn minutes(&self, now: Timestamp) -> Vec<(Timestamp, Sum)> {
        let mut sums = self.sums(|point| point.at);
        last_minutes(now, self.known(now)).map(|at| (at, sums.remove(&at).unwrap_or_default())).collect()
    }
}

/// The beginnings of the last so many minutes.
pub(crate) fn last_minutes(now: Timestamp, many: i64) -> impl Iterator<Item = Timestamp> {
    let minute = now.micros().div_euclid(60_000_000);
    (minute - many + 1..=minute).map(|minute| Timestamp::from_micros(minute * 60_000_000))
}

/// Seconds since 1970, for charts.
#[allow(clippy::cast_precision_loss)] // a chart is no more exact
pub(crate) fn unix(at: Timestamp) -> f64 {
    at.micros() as f64 / 1e6
}

/// Minutes on an axis: those that begin at these times.
pub(crate) fn axis(minutes: &[Timestamp]) -> Axis {
    let at = |minute: Option<&Timestamp>| minute.map_or(0.0, |at| unix(*at));
    Axis::clock(at(minutes.first()), at(minutes.last()) + 60.0, 0.0)
}

#[allow(clippy::cast_precision_loss)] // a chart is no more exact
pub(crate) fn line(name: &str, colour: Colour, values: impl Iterator<Item = u64>) -> Series {
    Series { name: name.to_owned(), colour, values: values.map(|value| Some(value as f64)).collect() }
}

/// How many jobs ended and how many runs failed in each minute.
pub(crate) fn throughput(minutes: &[(Timestamp, Sum)]) -> Lines {
    Lines {
        title: "Jobs that ended, by the minute".to_owned(),
        times: axis(&minutes.iter().map(|(at, _)| *at).collect::<Vec<_>>()),
        at: minutes.iter().map(|(at, _)| unix(*at)).collect(),
        measure: Measure::Count,
        series: vec![
            line("ended", Colour::State(State::Success), minutes.iter().map(|(_, sum)| sum.ended)),
            line("runs that failed", Colour::State(State::Failed), minutes.iter().map(|(_, sum)| sum.errors)),
        ],
    }
}

/// How long jobs waited that started in each minute.
pub(crate) fn waits(minutes: &[(Timestamp, Sum)]) -> Lines {
    let series =
        [("half of them, at most", 0.5, 0), ("95 of 100, at most", 0.95, 1)].map(|(name, part, colour)| Series {
            name: name.to_owned(),
            colour: Colour::Series(colour),
            values: minutes
                .iter()
                .map(|(_, sum)| sum.waits.quantile(part).map(|wait: Duration| wait.as_secs_f64()))
                .collect(),
        });
    Lines {
        title: "How long jobs waited, by the minute".to_owned(),
        times: axis(&minutes.iter().map(|(at, _)| *at).collect::<Vec<_>>()),
        at: minutes.iter().map(|(at, _)| unix(*at)).collect(),
        measure: Measure::Seconds,
        series: series.into(),
    }
}
