//! A time axis, in seconds since 1970.

use crate::scale::tame;

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3_600.0;
const DAY: f64 = 86_400.0;

/// What a person calls a round time.
const STEPS: [f64; 21] = [
    1.0,
    2.0,
    5.0,
    10.0,
    15.0,
    30.0,
    MINUTE,
    2.0 * MINUTE,
    5.0 * MINUTE,
    10.0 * MINUTE,
    15.0 * MINUTE,
    30.0 * MINUTE,
    HOUR,
    2.0 * HOUR,
    3.0 * HOUR,
    6.0 * HOUR,
    12.0 * HOUR,
    DAY,
    2.0 * DAY,
    7.0 * DAY,
    28.0 * DAY,
];
/// No more labels on an axis.
const MOST: u32 = 8;

/// From when to when a chart goes, and what stands below it.
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    /// Seconds since 1970, or since whatever the labels say.
    pub from: f64,
    /// No less than `from`.
    pub to: f64,
    /// Labels, with when they stand. A chart leaves out those that it has no room for.
    pub ticks: Vec<(f64, String)>,
    /// Whether the labels are times of a clock in UTC: a chart says so beside them, and a page's script may write them anew for the zone of
    /// its reader.
    pub utc: bool,
}

impl Times {
    /// Labels as a person has them on a clock that is so many seconds ahead of UTC: `14:05`, and `19 Nov` at midnight.
    #[must_use]
    pub fn clock(from: f64, to: f64, ahead: f64) -> Self {
        let step = step(to - from);
        Self { utc: ahead == 0.0, ..Self::every(from, to, ahead, |at| clock(at + ahead, step)) }
    }

    /// Labels at round times of a clock that is so many seconds ahead of UTC, as `label` makes them.
    #[must_use]
    pub fn every(from: f64, to: f64, ahead: f64, label: impl Fn(f64) -> String) -> Self {
        let [from, to, ahead] = [from, to, ahead].map(|at| tame(at).unwrap_or(0.0));
        let step = step(to - from);
        let first = ((from + ahead) / step).ceil() * step - ahead;
        let ticks = (0..=MOST).map(|number| first + f64::from(number) * step).take_while(|&at| at <= to);
        Self { from, to, ticks: ticks.map(|at| (at, label(at))).collect(), utc: false }
    }

    /// A label for a row of a table: the day and the time in UTC.
    pub(crate) fn moment(at: f64) -> String {
        let at = tame(at).unwrap_or(0.0);
        let (year, month, day) = date(at);
        let second = at.rem_euclid(DAY).floor();
        format!("{year}-{month:02}-{day:02} {}:{:02.0}", minute(second), second % 60.0)
    }
}

/// The first step that gives no more than [`MOST`] of them.
fn step(length: f64) -> f64 {
    let rough = tame(length).unwrap_or(0.0) / f64::from(MOST);
    let known = STEPS.into_iter().find(|step| *step >= rough);
    known.unwrap_or_else(|| (rough / DAY).ceil() * DAY)
}

fn clock(at: f64, step: f64) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let second = at.rem_euclid(DAY).floor();
    if second == 0.0 || step >= DAY {
        let (_, month, day) = date(at);
        return format!("{day} {}", MONTHS[month - 1]);
    }
    if step < MINUTE { format!("{}:{:02.0}", minute(second), second % 60.0) } else { minute(second) }
}

/// Of a second of the day.
fn minute(second: f64) -> String {
    format!("{:02.0}:{:02.0}", (second / HOUR).floor(), (second % HOUR / MINUTE).floor())
}

/// Year, month and day of a time in UTC, by the rules of the Gregorian calendar.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the greatest value is 1e15 seconds
fn date(at: f64) -> (i64, usize, u32) {
    // Years are counted from 1 March of the year 0, so that a leap day is the last of its year.
    let days = (at / DAY).floor() as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * month + 2) / 5 + 1) as u32;
    let month = if month < 10 { month + 3 } else { month - 9 } as usize;
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_stand_at_round_times_of_the_clock() {
        let labels = |times: Times| times.ticks.into_iter().map(|(_, label)| label).collect::<Vec<_>>();
        let from = 1_795_047_300.0; // 2026-11-19 00:15 UTC
        assert_eq!(
            labels(Times::clock(from, from + HOUR, 0.0)),
            ["00:20", "00:30", "00:40", "00:50", "01:00", "01:10"]
        );
        assert_eq!(labels(Times::clock(from, from + 30.0, 0.0))[1], "00:15:05");
        let day = labels(Times::clock(from - DAY, from, 0.0));
        assert_eq!(day, ["03:00", "06:00", "09:00", "12:00", "15:00", "18:00", "21:00", "19 Nov"]);
        assert_eq!(labels(Times::clock(from, from + 6.0 * HOUR, 5.5 * HOUR))[0], "06:00");
        assert_eq!(labels(Times::clock(0.0, 0.0, 0.0)), ["1 Jan"]);
        assert_eq!(Times::moment(951_825_599.0), "2000-02-29 11:59:59");
    }
}
