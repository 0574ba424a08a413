//! Times of the week in which nothing of a queue is started.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use super::{DAY, MAX_TEXT, Zone, brief};
use crate::{name::Invalid, time::Timestamp};

/// Most windows of a queue.
pub const MAX_WINDOWS: usize = 32;
/// How far ahead a window's end is looked for. Windows repeat every week, so what is closed for longer is closed for ever.
const LOOK_AHEAD: Duration = Duration::from_secs(8 * 86_400);
const MINUTE: i64 = 60_000_000;

const WEEK: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const ALL_DAYS: u8 = 0b111_1111;

/// A time of the week in which nothing of a queue is started, written `Mon-Fri 09:00-17:00 Europe/Berlin`: on these days
/// (every day, if none is named), from one time to the other (into the next day, if that is not later), by the clock of
/// this zone (UTC, if none is named).
///
/// A moment is in the window if the clock on the wall then shows a time in it. So a window that would end in an hour that
/// the clock skips ends when the clock goes on, and a time that it shows twice is in the window both times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Window {
    /// Monday is the lowest bit.
    days: u8,
    /// Minutes of the day; `to` is up to 1440, and not later than `from` where it is a time of the next day.
    from: u16,
    to: u16,
    zone: Zone,
}

impl Window {
    /// Whether the clock on the wall shows a time of the window.
    pub fn contains(&self, at: Timestamp) -> bool {
        let wall = self.zone.wall(at);
        let (day, time) = (wall.div_euclid(DAY), wall.rem_euclid(DAY));
        // The first day of 1970 was a Thursday.
        let on = |day: i64| self.days >> (day + 3).rem_euclid(7) & 1 == 1;
        let (from, to) = self.times();
        if from < to {
            on(day) && (from..to).contains(&time)
        } else {
            on(day) && time >= from || on(day - 1) && time < to
        }
    }

    /// If `now` is in the window: when it ends.
    pub fn until(&self, now: Timestamp) -> Option<Timestamp> {
        self.contains(now).then(|| self.first_after(now, |at| !self.contains(at)).unwrap_or(now.plus(LOOK_AHEAD)))
    }

    /// The next time it begins.
    fn begins(&self, now: Timestamp) -> Option<Timestamp> {
        self.first_after(now, |at| self.contains(at))
    }

    /// The first edge after `now` for which `is` holds.
    fn first_after(&self, now: Timestamp, is: impl Fn(Timestamp) -> bool) -> Option<Timestamp> {
        let mut at = now;
        while at < now.plus(LOOK_AHEAD) {
            at = self.next_edge(at);
            if is(at) {
                return Some(at);
            }
        }
        None
    }

    /// The next moment at which the window could begin or end: its times and midnight by the clock as it goes now, and
    /// where the clock is put forward or back.
    fn next_edge(&self, at: Timestamp) -> Timestamp {
        let time = self.zone.wall(at).rem_euclid(DAY);
        let (from, to) = self.times();
        let next = [from, to].into_iter().filter(|edge| *edge > time).min().unwrap_or(DAY);
        let by_clock = Timestamp::from_micros(at.micros().saturating_add(next - time));
        self.zone.next_change(at).map_or(by_clock, |change| change.min(by_clock))
    }

    /// In microseconds of the day.
    fn times(&self) -> (i64, i64) {
        (i64::from(self.from) * MINUTE, i64::from(self.to) * MINUTE)
    }
}

impl FromStr for Window {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let bad = |problem: &str| {
            let forms = "write it like \"Mon-Fri 09:00-17:00 Europe/Berlin\"; days (Mon,Wed,Fri-Sun) and zone may be left \
                         out, a window like 22:00-06:00 goes into the next day, a whole day is 00:00-24:00";
            Invalid::new("block", format!("{:?} {problem}; {forms}", brief(text)))
        };
        if text.len() > MAX_TEXT {
            return Err(bad("is too long"));
        }
        let mut words = text.split_whitespace().peekable();
        let first_is_a_time = words.peek().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        let days = if first_is_a_time {
            ALL_DAYS
        } else {
            words.next().and_then(read_days).ok_or_else(|| bad("does not begin with days or times"))?
        };
        let times = words.next().and_then(|times| times.split_once('-'));
        let (from, to) = times
            .and_then(|(from, to)| Some((read_time(from)?, read_time(to)?)))
            .ok_or_else(|| bad("has no times from 00:00 to 24:00"))?;
        let zone = words.next().map_or(Ok(Zone::UTC), str::parse)?;
        if words.next().is_some() {
            return Err(bad("goes on after the zone"));
        }
        if from == to || from == 1440 {
            return Err(bad("is empty"));
        }
        Ok(Self { days, from, to, zone })
    }
}

/// `Mon`, `Mon,Wed`, `Mon-Fri`, `Sat-Mon`.
fn read_days(text: &str) -> Option<u8> {
    let day = |text: &str| WEEK.iter().position(|day| day.eq_ignore_ascii_case(text));
    let mut days = 0;
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (mut at, last) = (day(first)?, day(last)?);
        days |= 1 << at;
        while at != last {
            at = (at + 1) % 7;
            days |= 1 << at;
        }
    }
    Some(days)
}

/// Minutes of the day.
fn read_time(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let digits = |text: &str| (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(hours) || !digits(minutes) || minutes.len() != 2 {
        return None;
    }
    let (hours, minutes): (u16, u16) = (hours.parse().ok()?, minutes.parse().ok()?);
    (minutes < 60).then_some(hours * 60 + minutes).filter(|time| *time <= 1440)
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.days != ALL_DAYS {
            f.write_str(&print_days(self.days))?;
            f.write_str(" ")?;
        }
        let Self { from, to, .. } = self;
        write!(f, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60)?;
        if self.zone.is_utc() { Ok(()) } else { write!(f, " {}", self.zone) }
    }
}

/// Days in a row as a range.
fn print_days(days: u8) -> String {
    let on = |day: usize| days >> (day % 7) & 1 == 1;
    // A row begins where the day before is free, so that one over the end of the week stays in one piece.
    let begins = (0..7).filter(|&day| on(day) && !on(day + 6));
    let rows = begins.map(|first| {
        let length = (1..7).take_while(|step| on(first + step)).count();
        match length {
            0 => WEEK[first].to_owned(),
            1 => format!("{},{}", WEEK[first], WEEK[(first + 1) % 7]),
            _ => format!("{}-{}", WEEK[first], WEEK[(first + length) % 7]),
        }
    });
    rows.collect::<Vec<_>>().join(",")
}

impl TryFrom<String> for Window {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Window> for String {
    fn from(window: Window) -> String {
        window.to_string()
    }
}

/// If `now` is in one of the windows: when none is closed any more, also where one window ends within another. If that is more than
/// a week ahead, a moment at which to ask again.
pub fn blocked_until(windows: &[Window], now: Timestamp) -> Option<Timestamp> {
    let mut at = now;
    while at < now.plus(LOOK_AHEAD)
        && let Some(end) = windows.iter().find_map(|window| window.until(at))
    {
        at = end;
    }
    (at > now).then_some(at)
}

/// When the next window begins, if `now` is in none.
pub fn next_block(windows: &[Window], now: Timestamp) -> Option<Timestamp> {
    windows.iter().filter_map(|window| window.begins(now)).min()
}

/// Refuses windows that together leave no time in which a job could start, in some week of a year. A whole year is checked because
/// clocks that change at different dates may leave a gap in summer only.
pub fn check_windows(windows: &[Window]) -> Result<(), Invalid> {
    if windows.len() > MAX_WINDOWS {
        return Err(Invalid::new("block", format!("has {} windows; {MAX_WINDOWS} is the most", windows.len())));
    }
    // Any year will do; this one begins in 2030.
    let mut at = Timestamp::from_micros(1_893_456_000_000_000);
    let end = at.plus(Duration::from_secs(366 * 86_400));
    while at < end {
        if let Some(until) = blocked_until(windows, at) {
            if until >= at.plus(LOOK_AHEAD) {
                let problem = "the windows leave no time at all in which a job could start; to stop a queue, pause it";
                return Err(Invalid::new("block", problem));
            }
            at = until;
        }
        match next_block(windows, at) {
            Some(begin) => at = begin,
            None => return Ok(()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::{super::moment, *};

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn window(text: &str) -> Window {
        text.parse().unwrap()
    }

    fn windows(texts: &[&str]) -> Vec<Window> {
        texts.iter().map(|text| window(text)).collect()
    }

    #[test]
    fn windows_are_printed_as_they_are_read() {
        for (text, printed) in [
            ("Mon-Fri 09:00-17:00 Europe/Berlin", "Mon-Fri 09:00-17:00 Europe/Berlin"),
            ("9:00-17:30", "09:00-17:30"),
            ("mon,TUE,wed,sat 00:00-24:00 utc", "Mon-Wed,Sat 00:00-24:00"),
            ("Sat,Sun 22:00-06:00 asia/kathmandu", "Sat,Sun 22:00-06:00 Asia/Kathmandu"),
            ("Fri-Mon 12:00-13:00", "Fri-Mon 12:00-13:00"),
            ("Mon-Sun 12:00-13:00", "12:00-13:00"),
        ] {
            assert_eq!(window(text).to_string(), printed);
            assert_eq!(window(printed), window(text));
        }
        for text in [
            "",
            "Mon",
            "Mon-Fri",
            "9-17",
            "09:00",
            "09:00-25:00",
            "09:60-10:00",
            "24:00-01:00",
            "09:00-09:00",
            "Mon-Foo 09:00-10:00",
            "09:00-10:00 UTC now",
            "Mon 09:00-10:00-11:00",
        ] {
            let error = text.parse::<Window>().unwrap_err().to_string();
            assert!(error.starts_with("block: ") && error.contains("Mon-Fri 09:00-17:00 Europe/Berlin"), "{error}");
        }
        assert!("09:00-17:00 Nowhere".parse::<Window>().unwrap_err().to_string().starts_with("zone: "));
    }

    #[test]
    fn a_window_ends_at_its_end() {
        let office = window("Mon-Fri 09:00-17:00 Europe/Berlin");
        // A Tuesday in winter.
        assert_eq!(office.until(at("2030-01-15T07:59:59.999999Z")), None);
        assert_eq!(office.until(at("2030-01-15T08:00:00Z")), Some(at("2030-01-15T16:00:00Z")));
        assert_eq!(office.until(at("2030-01-15T16:00:00Z")), None);
        assert_eq!(office.until(at("2030-01-19T12:00:00Z")), None, "a Saturday");
        // Over midnight: the night from Friday to Saturday belongs to Friday.
        let night = window("Fri 22:00-06:00");
        assert_eq!(night.until(at("2030-01-18T22:00:00Z")), Some(at("2030-01-19T06:00:00Z")));
        assert_eq!(night.until(at("2030-01-19T05:59:00Z")), Some(at("2030-01-19T06:00:00Z")));
        assert_eq!(night.until(at("2030-01-18T05:00:00Z")), None);
        assert_eq!(night.until(at("2030-01-19T22:30:00Z")), None);
    }

    #[test]
    fn windows_that_touch_are_one() {
        let both = windows(&["Sat 12:00-24:00", "Sun 00:00-08:00", "Sun 07:00-09:00 UTC"]);
        assert_eq!(blocked_until(&both, at("2030-01-19T13:00:00Z")), Some(at("2030-01-20T09:00:00Z")));
        assert_eq!(next_block(&both, at("2030-01-20T09:00:00Z")), Some(at("2030-01-26T12:00:00Z")));
        assert_eq!(
            (blocked_until(&[], at("2030-01-20T09:00:00Z")), next_block(&[], at("2030-01-20T09:00:00Z"))),
            (None, None)
        );
    }

    #[test]
    fn a_window_keeps_to_the_clock_on_the_wall_when_that_is_put_forward_or_back() {
        // Berlin, March 31st: 02:00 becomes 03:00. The end falls into the skipped hour, so it is the end of that.
        let early = window("01:00-02:30 Europe/Berlin");
        assert_eq!(early.until(at("2030-03-31T00:00:00Z")), Some(at("2030-03-31T01:00:00Z")));
        // A window that lies entirely in the skipped hour does not come on that day.
        let skipped = window("02:10-02:50 Europe/Berlin");
        assert_eq!(skipped.begins(at("2030-03-31T00:00:00Z")), Some(at("2030-04-01T00:10:00Z")));
        // A window that begins in the skipped hour begins when the clock goes on.
        let late = window("02:30-04:00 Europe/Berlin");
        assert_eq!(late.begins(at("2030-03-31T00:00:00Z")), Some(at("2030-03-31T01:00:00Z")));
        assert_eq!(late.until(at("2030-03-31T01:00:00Z")), Some(at("2030-03-31T02:00:00Z")));
        // October 27th: 03:00 becomes 02:00. What the clock shows twice is closed twice.
        assert_eq!(early.until(at("2030-10-27T00:00:00Z")), Some(at("2030-10-27T00:30:00Z")));
        assert_eq!(early.until(at("2030-10-27T01:10:00Z")), Some(at("2030-10-27T01:30:00Z")));
        let through = window("01:00-04:00 Europe/Berlin");
        assert_eq!(through.until(at("2030-10-26T23:00:00Z")), Some(at("2030-10-27T03:00:00Z")), "four hours long");
        // New York, March 10th: 02:00 becomes 03:00; Lord Howe, October 6th: 02:00 becomes 02:30.
        let new_york = window("01:00-02:30 America/New_York");
        assert_eq!(new_york.until(at("2030-03-10T06:30:00Z")), Some(at("2030-03-10T07:00:00Z")));
        let lord_howe = window("01:00-02:15 Australia/Lord_Howe");
        assert_eq!(lord_howe.until(at("2030-10-05T15:00:00Z")), Some(at("2030-10-05T15:30:00Z")));
        // Havana, March 10th: midnight becomes 01:00, so the day begins an hour late.
        let havana = window("Sat 20:00-00:30 America/Havana");
        assert_eq!(havana.until(at("2030-03-10T02:00:00Z")), Some(at("2030-03-10T05:00:00Z")));
    }

    #[test]
    fn windows_that_leave_no_time_are_refused_and_cost_little_all_the_same() {
        let refused = [
            windows(&["00:00-24:00"]),
            windows(&["12:00-11:00", "10:30-12:30 Europe/Berlin", "11:00-12:00"]),
            windows(&["Mon-Fri 00:00-24:00", "Sat-Sun 00:00-24:00"]),
            // Only in summer is there an hour between them.
            windows(&["00:00-12:00 UTC", "13:00-01:00 Europe/Berlin"]),
        ];
        for windows in refused {
            let error = check_windows(&windows).unwrap_err().to_string();
            assert!(error.starts_with("block: the windows leave no time at all"), "{error}");
            // If another program has set them all the same, the scheduler asks again within a week or so.
            let now = at("2030-01-15T12:30:00Z");
            let until = blocked_until(&windows, now).unwrap();
            assert!(until >= now.plus(LOOK_AHEAD) && until < now.plus(2 * LOOK_AHEAD), "{until}");
        }
        assert_eq!(check_windows(&windows(&["00:00-23:59"])), Ok(()));
        assert_eq!(check_windows(&windows(&["Mon-Sat 00:00-24:00", "Sun 00:01-24:00"])), Ok(()));
        assert_eq!(check_windows(&windows(&["02:10-02:50 Europe/Berlin"])), Ok(()));
        let many = vec![window("12:00-13:00"); MAX_WINDOWS + 1];
        assert!(check_windows(&many).unwrap_err().to_string().contains("32 is the most"));
    }

    /// Two years, minute by minute, compared with the clock on the wall as jiff reads it.
    fn two_years(texts: &[&str]) {
        let windows = windows(texts);
        let begin = at("2029-01-01T00:00:00Z");
        let minute = |n: usize| begin.plus(Duration::from_secs(60 * n as u64));
        let minutes = 2 * 365 * 1440;
        let parsed = texts.iter().map(|text| {
            let words: Vec<_> = text.split(' ').collect();
            let [days, times, zone] = words[..] else { panic!("days, times and zone") };
            let (from, to) = times.split_once('-').unwrap();
            let time = |text: &str| jiff::civil::Time::strptime("%H:%M", text).unwrap();
            let days: Vec<_> =
                days.split(',').map(|day| WEEK.iter().position(|known| *known == day).unwrap()).collect();
            (days, time(from), time(to), TimeZone::get(zone).unwrap())
        });
        let parsed: Vec<_> = parsed.collect();
        let closed = |n: usize| {
            parsed.iter().any(|(days, from, to, zone)| {
                let shows = zone.to_datetime(moment(minute(n)));
                let named = |date: jiff::civil::Date| {
                    let day = usize::try_from(date.weekday().to_monday_zero_offset()).unwrap();
                    days.contains(&day)
                };
                let (today, yesterday) = (shows.date(), shows.date().yesterday().unwrap());
                if from < to {
                    named(today) && *from <= shows.time() && shows.time() < *to
                } else {
                    named(today) && shows.time() >= *from || named(yesterday) && shows.time() < *to
                }
            })
        };
        let closed: Vec<bool> = (0..minutes).map(closed).collect();
        let (mut opens, mut closes) = (None, None);
        for n in (0..minutes).rev() {
            let now = minute(n);
            if closed[n] {
                closes = Some(now);
            } else {
                opens = Some(now);
            }
            assert_eq!(windows.iter().any(|window| window.contains(now)), closed[n], "{now}");
            let edge = n > 0 && closed[n] != closed[n - 1];
            if !edge && n % 97 != 0 {
                continue;
            }
            if closed[n] {
                // The last one ends beyond what was looked at.
                assert!(opens.is_none_or(|opens| blocked_until(&windows, now) == Some(opens)), "{now}");
            } else {
                assert_eq!(blocked_until(&windows, now), None, "{now}");
                assert!(closes.is_none_or(|closes| next_block(&windows, now) == Some(closes)), "{now}");
            }
        }
        assert!(closed.contains(&true) && closed.contains(&false));
    }

    #[test]
    fn two_years_of_minutes_in_berlin() {
        two_years(&["Mon,Tue,Wed,Thu,Fri 09:00-17:00 Europe/Berlin", "Sat,Sun 01:30-02:30 Europe/Berlin"]);
    }

    #[test]
    fn two_years_of_minutes_in_new_york_and_kathmandu() {
        two_years(&["Sat,Sun 01:00-02:30 America/New_York", "Sun,Wed 22:15-06:45 Asia/Kathmandu"]);
    }

    #[test]
    fn two_years_of_minutes_in_havana_and_on_lord_howe() {
        two_years(&["Sat,Sun 23:00-00:30 America/Havana", "Sat,Sun,Mon 01:45-02:15 Australia/Lord_Howe"]);
    }

    fn any_window() -> impl Strategy<Value = Window> {
        let zones =
            ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Africa/Casablanca"];
        (1u8..=ALL_DAYS, 0u16..1440, 0u16..=1440, proptest::sample::select(zones.to_vec()))
            .prop_filter_map("empty", |(days, from, to, zone)| {
                (from != to).then(|| Window { days, from, to, zone: zone.parse().unwrap() })
            })
    }

    proptest! {
        #[test]
        fn the_end_of_a_block_is_in_no_window_and_everything_before_it_is(
            windows in proptest::collection::vec(any_window(), 1..5),
            minute in 0u64..3 * 366 * 1440,
            micros in 0u64..60_000_000,
            steps in proptest::collection::vec(0.0f64..1.0, 8),
        ) {
            let inside = |at: Timestamp| windows.iter().any(|window| window.contains(at));
            let now = at("2029-06-01T00:00:00Z").plus(Duration::from_micros(minute * 60_000_000 + micros));
            let between = |end: Timestamp| {
                let span = end.since(now);
                steps.iter().map(move |step| now.plus(span.mul_f64(*step))).filter(move |at| *at < end).collect::<Vec<_>>()
            };
            match blocked_until(&windows, now) {
                Some(end) if end >= now.plus(LOOK_AHEAD) => prop_assert!(check_windows(&windows).is_err()),
                Some(end) => {
                    prop_assert!(inside(now) && !inside(end), "{end}");
                    prop_assert!(inside(Timestamp::from_micros(end.micros() - 1)));
                    prop_assert!(between(end).into_iter().all(inside));
                }
                None => {
                    prop_assert!(!inside(now));
                    if let Some(begin) = next_block(&windows, now) {
                        prop_assert!(inside(begin) && !inside(Timestamp::from_micros(begin.micros() - 1)), "{begin}");
                        prop_assert!(!between(begin).into_iter().any(inside));
                    }
                }
            }
        }

        #[test]
        fn a_printed_window_reads_back(window in any_window()) {
            prop_assert_eq!(window.to_string().parse::<Window>().unwrap(), window);
        }
    }
}
