//! Clocks that are put forward and back: cron times in every zone there is, compared with times computed without croner.
//! `TURNWISE_CASES` (as `./check --full` sets it) looks at more years.

use jiff::{
    ToSpan, Unit,
    civil::{Date, DateTime},
    tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase},
};
use turnwise_core::{
    Timestamp,
    calendar::{Schedule, Zone},
};

/// Only years to come: no schedule is asked for times before it was set. (In the past, clocks were put forward by three hours at
/// midnight, which croner does not get right: Casey, 2016.)
fn years() -> std::ops::Range<i16> {
    if std::env::var_os("TURNWISE_CASES").is_some() { 2026..2046 } else { 2026..2028 }
}

fn timestamp(moment: jiff::Timestamp) -> Timestamp {
    Timestamp::from_micros(moment.as_microsecond())
}

/// When a fixed time of day comes on this day: the first time the clock shows it, or, if it skips it, when it goes on.
fn comes(zone: &TimeZone, wall: DateTime) -> jiff::Timestamp {
    let ambiguous = zone.to_ambiguous_timestamp(wall);
    match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } => ambiguous.compatible().unwrap(),
        AmbiguousOffset::Fold { .. } => ambiguous.earlier().unwrap(),
        // Between the two readings lies one change of the clock.
        AmbiguousOffset::Gap { .. } => {
            let before =
                ambiguous.earlier().unwrap() - 1.day().to_duration(jiff::SpanRelativeTo::days_are_24_hours()).unwrap();
            let later = ambiguous.later().unwrap();
            let changes = zone.following(before).map(|change| change.timestamp());
            changes.take_while(|change| *change <= later).last().unwrap()
        }
    }
}

/// Changes of the clock in these years, and whether it is put forward.
fn changes(zone: &TimeZone) -> Vec<(jiff::Timestamp, bool)> {
    let (begin, end) = (Date::new(years().start, 1, 1).unwrap(), Date::new(years().end, 1, 1).unwrap());
    let moment = |date: Date| date.to_zoned(TimeZone::UTC).unwrap().timestamp();
    let offset = |at: jiff::Timestamp| zone.to_offset(at).seconds();
    let second = 1.second();
    zone.following(moment(begin))
        .map(|change| change.timestamp())
        .take_while(|change| *change < moment(end))
        .filter(|change| offset(*change) != offset(*change - second))
        .map(|change| (change, offset(change) > offset(change - second)))
        .collect()
}

#[test]
fn a_fixed_time_comes_once_a_day_in_every_zone_when_clocks_change() {
    let database = TimeZoneDatabase::bundled();
    let (mut zones, mut forward, mut back) = (0, 0, 0);
    for name in database.available() {
        let Ok(zone) = database.get(name.as_str()) else { continue };
        let Ok(ours) = name.as_str().parse::<Zone>() else { continue };
        let changes = changes(&zone);
        zones += usize::from(!changes.is_empty());
        for (change, is_forward) in changes {
            if is_forward {
                forward += 1;
            } else {
                back += 1;
            }
            let (before, after) = (zone.to_datetime(change - 1.second()), zone.to_datetime(change));
            let (from, to) = if before < after { (before, after) } else { (after, before) };
            let skipped_days = to.date() != from.date() && before < after && to.time() >= from.time();
            if skipped_days {
                // Whole skipped days have a test of their own, beside the code.
                continue;
            }
            // Within what is skipped or shown twice, at its edges, and beside it.
            let half = from.until((Unit::Second, to)).unwrap().get_seconds() / 2;
            let middle = from + half.seconds();
            for wall in [from - 1.minute(), from, middle, to, to + 1.minute()] {
                let (hour, minute) = (wall.time().hour(), wall.time().minute());
                let schedule = Schedule::new(&format!("{minute} {hour} * * *"), ours.clone()).unwrap();
                let day = wall.date();
                let days = (-2..=2).map(|n: i32| day.checked_add(n.days()).unwrap());
                let expected: Vec<Timestamp> =
                    days.map(|day| timestamp(comes(&zone, day.at(hour, minute, 0, 0)))).collect();
                let begin = Timestamp::from_micros(expected[0].micros() - 1);
                let found: Vec<Timestamp> = std::iter::successors(schedule.next(begin), |slot| schedule.next(*slot))
                    .take(expected.len())
                    .collect();
                assert_eq!(found, expected, "{minute} {hour} * * * in {} around {change}", name.as_str());
            }
        }
    }
    assert!(zones > 100 && forward > 100 && back > 100, "{zones} zones, {forward} forward, {back} back");
}

/// Every quarter of an hour that the clock shows, twice if it is shown twice, and not at all if it is skipped.
#[test]
fn quarters_come_whenever_the_clock_shows_them_in_every_zone() {
    let database = TimeZoneDatabase::bundled();
    let mut seen = 0;
    for name in database.available() {
        let Ok(zone) = database.get(name.as_str()) else { continue };
        let Ok(ours) = name.as_str().parse::<Zone>() else { continue };
        let schedule = Schedule::new("*/15 * * * *", ours).unwrap();
        for (change, _) in changes(&zone) {
            let begin = (change - 6.hours()).round(Unit::Minute).unwrap();
            let minutes = (1..=12 * 60).map(|n: i64| begin + n.minutes());
            let shown = minutes.filter(|minute| {
                let wall = zone.to_datetime(*minute).time();
                wall.minute() % 15 == 0 && wall.second() == 0
            });
            let expected: Vec<Timestamp> = shown.map(timestamp).collect();
            let last = *expected.last().unwrap();
            let first = schedule.next(timestamp(begin));
            let found: Vec<Timestamp> =
                std::iter::successors(first, |slot| schedule.next(*slot)).take_while(|slot| *slot <= last).collect();
            assert_eq!(found, expected, "{} around {change}", name.as_str());
            seen += 1;
        }
    }
    assert!(seen > 200, "{seen} changes");
}
