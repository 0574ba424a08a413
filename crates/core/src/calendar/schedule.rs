//! When a queue's jobs are due by its schedule.

use std::{fmt, sync::Arc};

use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::{DAY, MAX_TEXT, Zone, brief, moment};
use crate::{
    job::{Fence, Job, JobHead},
    name::Invalid,
    time::Timestamp,
};

/// When jobs of a queue are due that name no time of their own: a cron pattern by the clock of a zone.
///
/// Minute, hour, day of the month, month, day of the week; with six fields the first one is the second. A fixed time
/// that the clock skips comes as soon as the clock goes on, and one that it shows twice comes once.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "ScheduleText", into = "ScheduleText")]
pub struct Schedule {
    text: Arc<str>,
    cron: Arc<Cron>,
    zone: Zone,
}

/// As it is written down.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScheduleText {
    cron: String,
    zone: String,
}

impl Schedule {
    /// Refuses what is longer than 100 characters, is not a cron pattern, or is a time that never comes.
    pub fn new(cron: &str, zone: Zone) -> Result<Self, Invalid> {
        let bad = |problem: String| {
            let text = brief(cron);
            let forms = "write minute, hour, day, month and weekday like \"0 2 * * *\" or \"*/5 9-17 * * Mon-Fri\", \
                         with seconds before them if wanted, or @hourly, @daily, @weekly, @monthly, @yearly";
            Invalid::new("schedule", format!("{text:?} {problem}; {forms}"))
        };
        let text = cron.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.len() > MAX_TEXT {
            return Err(bad(format!("is longer than {MAX_TEXT} characters")));
        }
        // No year: a schedule that repeats for ever never has to be removed, and whether it comes at all can be checked now.
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let cron = parser.parse(&text).map_err(|_| bad("is not a cron pattern".to_owned()))?;
        let schedule = Self { text: text.as_str().into(), cron: Arc::new(cron), zone };
        match schedule.next(Timestamp::from_micros(0)) {
            Some(_) => Ok(schedule),
            None => Err(bad("is a time that never comes".to_owned())),
        }
    }

    /// The first time after `after`. `None` beyond the year 5000.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let find = |from: Timestamp, inclusive| {
            let from = self.zone.shown(from);
            let next = self.cron.find_next_occurrence(&from, inclusive).ok()?;
            Some(Timestamp::from_micros(next.timestamp().as_microsecond()))
        };
        let mut after = after;
        loop {
            // The search does not get past a whole day that the clock skips (Samoa, 2011); from the change on, it does.
            let next = find(after, false).or_else(|| find(self.zone.next_change(after)?, true))?;
            if let Some(change) = self.skipped_before(after, next) {
                return Some(change);
            }
            if self.comes_at(next) {
                return Some(next);
            }
            after = next;
        }
    }

    /// Whether the clock shows a time of the pattern then, or has just skipped one. The search also stops where a clock skips the
    /// first hour of a day (Cairo), although the pattern names no time in that hour.
    fn comes_at(&self, at: Timestamp) -> bool {
        let shown = self.zone.shown(at);
        if self.cron.is_time_matching(&shown).unwrap_or(true) {
            return true;
        }
        self.skips(at)
    }

    /// A fixed time that a clock skips before `next`. The search leaves it out if the day on which the clock goes on is not
    /// one of the pattern's (Nuuk, where Saturday ends an hour early).
    fn skipped_before(&self, after: Timestamp, next: Timestamp) -> Option<Timestamp> {
        let is_fixed = |field: &str| field.bytes().all(|byte| byte.is_ascii_digit());
        let fields: Vec<&str> = self.text.split(' ').collect();
        if fields.len() < 5 || !fields[..fields.len() - 3].iter().all(|field| is_fixed(field)) {
            return None;
        }
        let mut changes = std::iter::successors(self.zone.next_change(after), |change| self.zone.next_change(*change));
        changes.by_ref().take_while(|change| *change < next).find(|change| self.skips(*change))
    }

    /// Whether a clock that goes on at this moment has skipped a time of the pattern.
    fn skips(&self, at: Timestamp) -> bool {
        let last = Timestamp::from_micros(at.micros() - 1);
        let (from, to) = (self.zone.wall(last) + 1, self.zone.wall(at));
        // A whole day that was never there is not made up for.
        if from >= to || to - from >= DAY {
            return false;
        }
        let skipped = moment(Timestamp::from_micros(from)).to_zoned(TimeZone::UTC);
        let named = self.cron.find_next_occurrence(&skipped, true).ok();
        named.is_some_and(|named| named.timestamp().as_microsecond() < to)
    }

    /// The pattern as it was written, with single spaces.
    pub fn cron(&self) -> &str {
        &self.text
    }

    /// The zone whose clock the pattern goes by.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, &self.zone) == (&other.text, &other.zone)
    }
}

impl Eq for Schedule {}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.text, self.zone)
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<ScheduleText> for Schedule {
    type Error = Invalid;
    fn try_from(text: ScheduleText) -> Result<Self, Invalid> {
        Self::new(&text.cron, text.zone.parse()?)
    }
}

impl From<Schedule> for ScheduleText {
    fn from(schedule: Schedule) -> Self {
        Self { cron: schedule.text.as_ref().to_owned(), zone: schedule.zone.to_string() }
    }
}

/// The due time that a store keeps for a job that is submitted at `now`: that moment itself if the job names none. One that is named
/// counts in a queue with a schedule, past or not; if it is that very moment, a microsecond tells it apart.
pub fn stored_due(given: Option<Timestamp>, now: Timestamp) -> Timestamp {
    match given {
        None => now,
        Some(due) if due == now => Timestamp::from_micros(now.micros() - 1),
        Some(due) => due,
    }
}

/// What decides whether a job follows its queue's schedule.
#[derive(Debug, Clone, Copy)]
pub struct GivenTime {
    pub due: Option<Timestamp>,
    pub submitted_at: Timestamp,
    pub fence: Fence,
}

impl GivenTime {
    /// The moment after which the next time of the schedule is looked for. `None`: the job keeps its own time, because it has named
    /// one, or because it has begun: a retry, a snooze or a lost node must not delay it until tomorrow night. An edit of something
    /// else than its time changes nothing about that.
    pub fn follows_from(&self) -> Option<Timestamp> {
        let follows = !self.fence.was_assigned() && self.due == Some(self.submitted_at);
        follows.then_some(self.submitted_at)
    }

    /// When the job is due in a queue with this schedule, if that is another time than its own.
    pub fn due_by(&self, schedule: &Schedule) -> Option<Timestamp> {
        Some(schedule.next(self.follows_from()?).unwrap_or(Timestamp::MAX))
    }
}

impl From<&JobHead> for GivenTime {
    fn from(head: &JobHead) -> Self {
        Self { due: head.due, submitted_at: head.submitted_at, fence: head.fence }
    }
}

impl From<&Job> for GivenTime {
    fn from(job: &Job) -> Self {
        Self { due: job.due_at, submitted_at: job.submitted_at, fence: job.fence }
    }
}

/// The last answer of a schedule, kept because jobs come in by the million and most of them are due at the same next time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LastNext(Option<(Timestamp, Timestamp)>);

impl LastNext {
    pub(crate) fn due_by(&mut self, schedule: &Schedule, given: GivenTime) -> Option<Timestamp> {
        let after = given.follows_from()?;
        match self.0 {
            Some((from, next)) if from <= after && after < next => Some(next),
            _ => {
                let next = given.due_by(schedule)?;
                self.0 = Some((after, next));
                Some(next)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::{super::Window, *};

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn schedule(cron: &str, zone: &str) -> Schedule {
        Schedule::new(cron, zone.parse().unwrap()).unwrap()
    }

    #[test]
    fn a_schedule_goes_by_the_clock_of_its_zone_in_summer_and_winter() {
        let nightly = schedule("0 2 * * *", "Europe/Berlin");
        assert_eq!(nightly.next(at("2030-01-15T12:00:00Z")), Some(at("2030-01-16T01:00:00Z")));
        assert_eq!(nightly.next(at("2030-07-15T12:00:00Z")), Some(at("2030-07-16T00:00:00Z")));
        assert_eq!(nightly.next(at("2030-01-16T01:00:00Z")), Some(at("2030-01-17T01:00:00Z")), "after, not at");
        assert_eq!(nightly.next(at("2030-01-16T00:59:59.999999Z")), Some(at("2030-01-16T01:00:00Z")));
        assert_eq!(schedule("@daily", "UTC").next(at("2030-01-01T00:00:00Z")), Some(at("2030-01-02T00:00:00Z")));
        let seconds = schedule("*/10 * * * * *", "UTC");
        assert_eq!(seconds.next(at("2030-01-01T00:00:01Z")), Some(at("2030-01-01T00:00:10Z")));
    }

    #[test]
    fn a_time_that_the_clock_skips_comes_when_it_goes_on_and_one_shown_twice_comes_once() {
        // 02:00 becomes 03:00 on March 31st, 03:00 becomes 02:00 on October 27th.
        let nightly = schedule("30 2 * * *", "Europe/Berlin");
        assert_eq!(nightly.next(at("2030-03-31T00:00:00Z")), Some(at("2030-03-31T01:00:00Z")));
        assert_eq!(nightly.next(at("2030-03-31T01:00:00Z")), Some(at("2030-04-01T00:30:00Z")));
        assert_eq!(nightly.next(at("2030-10-26T12:00:00Z")), Some(at("2030-10-27T00:30:00Z")));
        assert_eq!(nightly.next(at("2030-10-27T00:30:00Z")), Some(at("2030-10-28T01:30:00Z")));
        let in_new_york = schedule("30 2 * * *", "America/New_York");
        assert_eq!(in_new_york.next(at("2030-03-10T06:00:00Z")), Some(at("2030-03-10T07:00:00Z")));
        // Half an hour is skipped here.
        let on_lord_howe = schedule("15 2 * * *", "Australia/Lord_Howe");
        assert_eq!(on_lord_howe.next(at("2030-10-05T12:00:00Z")), Some(at("2030-10-05T15:30:00Z")));
        // Saturday ends an hour early, and the clock goes on on a Sunday.
        let in_nuuk = schedule("30 23 * * Sat", "America/Nuuk");
        assert_eq!(in_nuuk.next(at("2027-03-27T12:00:00Z")), Some(at("2027-03-28T01:00:00Z")));
        assert_eq!(in_nuuk.next(at("2027-03-28T01:00:00Z")), Some(at("2027-04-04T00:30:00Z")));
        // Three hours from midnight on.
        let in_casey = schedule("29 1 * * *", "Antarctica/Casey");
        assert_eq!(in_casey.next(at("2016-10-21T12:00:00Z")), Some(at("2016-10-21T16:00:00Z")));
        // Here it was a whole day.
        let in_samoa = schedule("0 12 * * *", "Pacific/Apia");
        assert_eq!(in_samoa.next(at("2011-12-29T23:00:00Z")), Some(at("2011-12-30T22:00:00Z")));
    }

    #[test]
    fn a_schedule_that_is_none_is_refused_with_the_forms_that_are() {
        let long = "1,".repeat(100) + "1 * * * *";
        for text in
            ["", "0 2 * *", "61 * * * *", "0 2 * * * * 2030", "0 0 30 2 *", "*/0 * * * *", "tomorrow", "@reboot", &long]
        {
            let error = Schedule::new(text, Zone::UTC).unwrap_err().to_string();
            assert!(error.starts_with("schedule: ") && error.contains("\"0 2 * * *\""), "{text}: {error}");
        }
        assert!(Schedule::new("0 0 30 2 *", Zone::UTC).unwrap_err().to_string().contains("never comes"));
        for text in ["Mars/Base", "", "+01:00", "Europe/Berlin ", &long] {
            let error = text.parse::<Zone>().unwrap_err().to_string();
            assert!(error.starts_with("zone: ") && error.contains("Europe/Berlin, or UTC"), "{text}: {error}");
        }
        assert_eq!("europe/berlin".parse::<Zone>().unwrap().name(), "Europe/Berlin");
    }

    #[test]
    fn a_job_that_names_a_time_or_has_begun_keeps_its_own() {
        let nightly = schedule("0 2 * * *", "UTC");
        let (submitted_at, night) = (at("2030-01-01T12:00:00Z"), at("2030-01-02T02:00:00Z"));
        let given = GivenTime { due: Some(submitted_at), submitted_at, fence: Fence(0) };
        assert_eq!(given.due_by(&nightly), Some(night));
        let past = GivenTime { due: Some(at("2020-01-01T00:00:00Z")), ..given };
        let later = GivenTime { due: Some(at("2030-01-01T12:00:00.000001Z")), ..given };
        let begun = GivenTime { fence: Fence(1), ..given };
        let by_hand = GivenTime { due: None, ..given };
        assert_eq!([past, later, begun, by_hand].map(|given| given.due_by(&nightly)), [None; 4]);
        let edited = GivenTime { fence: Fence(0).edited(), ..given };
        let edited_after_a_run = GivenTime { fence: Fence(1).edited(), ..given };
        assert_eq!([edited, edited_after_a_run].map(|given| given.due_by(&nightly)), [Some(night), None]);
    }

    #[test]
    fn a_time_that_is_given_counts_also_if_it_is_now_or_past() {
        let (nightly, now) = (schedule("0 2 * * *", "UTC"), at("2030-01-01T12:00:00Z"));
        let stored = |given| GivenTime { due: Some(stored_due(given, now)), submitted_at: now, fence: Fence(0) };
        assert_eq!(stored(None).due_by(&nightly), Some(at("2030-01-02T02:00:00Z")));
        for given in [now, at("2020-01-01T00:00:00Z"), at("2030-01-01T12:00:01Z")] {
            let stored = stored(Some(given));
            assert_eq!(stored.due_by(&nightly), None, "{given}");
            assert!(given.since(stored.due.unwrap()) <= Duration::from_micros(1), "{given}");
        }
    }

    proptest! {
        #[test]
        fn the_last_answer_is_used_only_where_it_is_right(
            cron in proptest::sample::select(&["0 2 * * *", "*/7 * * * *", "30 2 * * Sun", "15 10 1,15 * *", "0 0 29 2 *"]),
            zone in proptest::sample::select(&["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
            submits in proptest::collection::vec(0u64..3 * 366 * 24 * 60, 1..40),
        ) {
            let schedule = schedule(cron, zone);
            let mut last = LastNext::default();
            for minutes in submits {
                let submitted_at = at("2029-01-01T00:00:00Z").plus(Duration::from_secs(60 * minutes));
                let given = GivenTime { due: Some(submitted_at), submitted_at, fence: Fence(0) };
                prop_assert_eq!(last.due_by(&schedule, given), given.due_by(&schedule));
            }
        }

        #[test]
        fn no_text_makes_a_schedule_or_a_window_panic(text in "[-0-9*/,@#LW? A-Za-z:]{0,40}") {
            let _ = Schedule::new(&text, Zone::UTC);
            let _ = text.parse::<Window>();
        }
    }
}
