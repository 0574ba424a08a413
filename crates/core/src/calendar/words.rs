//! A cron pattern in words.

use super::Schedule;

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Times of a day that are named one by one.
const NAMED: usize = 6;

/// A field of a pattern, in the forms that words are made of.
enum Field {
    Any,
    /// Each so many, from the first on.
    Step(u32),
    One(u32),
    Range(u32, u32),
    List(Vec<u32>),
}

impl Field {
    /// `None`: it has another form, such as `10-50/5`, `L` or `MON#2`.
    fn read(text: &str, names: &[&str], first: u32) -> Option<Self> {
        let value = |text: &str| {
            let short = |name: &&&str| name.get(..3).is_some_and(|short| short.eq_ignore_ascii_case(text));
            let named = names.iter().find(short).and_then(|name| names.iter().position(|other| other == name));
            named.and_then(|at| u32::try_from(at).ok()).map(|at| at + first).or_else(|| text.parse().ok())
        };
        match text {
            "*" | "?" => return Some(Self::Any),
            _ if text.contains(',') => return text.split(',').map(value).collect::<Option<_>>().map(Self::List),
            _ => {}
        }
        if let Some(step) = text.strip_prefix("*/") {
            return match step.parse().ok()? {
                1 => Some(Self::Any),
                step => Some(Self::Step(step)),
            };
        }
        match text.split_once('-') {
            Some((from, to)) => Some(Self::Range(value(from)?, value(to)?)),
            None => value(text).map(Self::One),
        }
    }

    /// Its values, where they are named one by one.
    fn values(&self) -> Option<&[u32]> {
        match self {
            Self::One(value) => Some(std::slice::from_ref(value)),
            Self::List(values) => Some(values),
            _ => None,
        }
    }
}

impl Schedule {
    /// When that is, for people: `at 02:00 every day`. A pattern of a form that has no words here is shown as it is written.
    pub fn words(&self) -> String {
        words(self.cron()).unwrap_or_else(|| format!("by the pattern {}", self.cron()))
    }
}

fn words(pattern: &str) -> Option<String> {
    let pattern = match pattern.to_ascii_lowercase().as_str() {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        _ => pattern,
    };
    let fields: Vec<_> = pattern.split(' ').collect();
    let [seconds, minute, hour, day, month, weekday] = match fields[..] {
        [minute, hour, day, month, weekday] => ["0", minute, hour, day, month, weekday],
        [second, minute, hour, day, month, weekday] => [second, minute, hour, day, month, weekday],
        _ => return None,
    };
    let number = |text| Field::read(text, &[], 0);
    let (time, names_a_time) = time(&number(seconds)?, &number(minute)?, &number(hour)?)?;
    let days = days(&number(day)?, &Field::read(weekday, &DAYS, 0)?)?;
    let months = months(&Field::read(month, &MONTHS, 1)?)?;
    let every_day = (days.is_none() && names_a_time).then(|| "every day".to_owned());
    Some([Some(time), days.or(every_day), months].into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// `a`, `a and b`, `a, b and c`.
fn list(words: Vec<String>) -> String {
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

fn numbers(values: &[u32]) -> String {
    list(values.iter().map(ToString::to_string).collect())
}

/// `2nd`, as a part of every second, third and so on.
fn ordinal(number: u32) -> String {
    let ending = match (number % 10, number % 100) {
        (1, tens) if tens != 11 => "st",
        (2, tens) if tens != 12 => "nd",
        (3, tens) if tens != 13 => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// And whether it names times of the day.
fn time(seconds: &Field, minutes: &Field, hours: &Field) -> Option<(String, bool)> {
    if let (Field::One(second), Some(minutes), Some(hours)) = (seconds, minutes.values(), hours.values())
        && minutes.len() * hours.len() <= NAMED
    {
        let clock = |hour: &u32, minute: &u32| match second {
            0 => format!("{hour:02}:{minute:02}"),
            second => format!("{hour:02}:{minute:02}:{second:02}"),
        };
        let times = hours.iter().flat_map(|hour| minutes.iter().map(move |minute| clock(hour, minute)));
        return Some((format!("at {}", list(times.collect())), true));
    }
    let of_hours = match hours {
        Field::Any => None,
        Field::Step(step) => Some(format!("of every {} hour from midnight on", ordinal(*step))),
        Field::Range(from, to) => Some(format!("from {from:02}:00 to {to:02}:59")),
        Field::One(hour) => Some(format!("from {hour:02}:00 to {hour:02}:59")),
        Field::List(hours) => Some(format!("in the hours {}", numbers(hours))),
    };
    let at_minutes = |of_hours: Option<String>| {
        let of_hours = of_hours.unwrap_or_else(|| "of every hour".to_owned());
        match minutes {
            Field::Any => Some(format!("every minute {of_hours}")),
            Field::Step(step) => Some(format!("every {step} minutes {of_hours}")),
            Field::Range(from, to) => Some(format!("every minute from {from} to {to} {of_hours}")),
            Field::One(minute) => Some(format!("at minute {minute} {of_hours}")),
            Field::List(minutes) => Some(format!("at the minutes {} {of_hours}", numbers(minutes))),
        }
    };
    let words = match (seconds, minutes, of_hours) {
        (Field::One(0), Field::Any, None) => "every minute".to_owned(),
        // Only then there is as much between the last of an hour and the first of the next one.
        (Field::One(0), Field::Step(step), None) if 60 % step == 0 => format!("every {step} minutes"),
        (Field::One(0), Field::One(0), None) => "every hour, on the hour".to_owned(),
        (Field::One(0), _, of_hours) => at_minutes(of_hours)?,
        (Field::Any, Field::Any, None) => "every second".to_owned(),
        (Field::Step(step), Field::Any, None) if 60 % step == 0 => format!("every {step} seconds"),
        (Field::Any, _, of_hours) => format!("every second, {}", at_minutes(of_hours)?),
        (Field::Step(step), _, of_hours) => format!("every {step} seconds, {}", at_minutes(of_hours)?),
        (Field::One(second), _, of_hours) => format!("at second {second}, {}", at_minutes(of_hours)?),
        (Field::List(seconds), _, of_hours) => {
            format!("at the seconds {}, {}", numbers(seconds), at_minutes(of_hours)?)
        }
        (Field::Range(..), ..) => return None,
    };
    Some((words, false))
}

/// Where both are given, a day that is either will do.
fn days(day: &Field, weekday: &Field) -> Option<Option<String>> {
    let name = |day: u32| DAYS.get(day as usize % 7).copied();
    let on_days = |values: &[u32]| {
        let names = values.iter().map(|day| name(*day).map(|name| format!("{name}s"))).collect::<Option<_>>()?;
        Some(format!("on {}", list(names)))
    };
    let weekday = match weekday {
        Field::Any => None,
        Field::Range(from, to) => Some(format!("from {} to {}", name(*from)?, name(*to)?)),
        Field::One(_) | Field::List(_) => Some(on_days(weekday.values()?)?),
        Field::Step(_) => return None,
    };
    let day = match day {
        Field::Any => None,
        Field::One(day) => Some(format!("on day {day} of the month")),
        Field::List(days) => Some(format!("on the days {} of the month", numbers(days))),
        Field::Range(from, to) => Some(format!("from day {from} to day {to} of the month")),
        Field::Step(_) => return None,
    };
    Some(match (day, weekday) {
        (Some(day), Some(weekday)) => Some(format!("{day} and {weekday}")),
        (day, weekday) => day.or(weekday),
    })
}

fn months(month: &Field) -> Option<Option<String>> {
    let name = |month: &u32| MONTHS.get(month.checked_sub(1)? as usize).map(|name| (*name).to_owned());
    Some(match month {
        Field::Any => None,
        Field::Range(from, to) => Some(format!("from {} to {}", name(from)?, name(to)?)),
        Field::One(month) => Some(format!("in {}", name(month)?)),
        Field::List(months) => Some(format!("in {}", list(months.iter().map(name).collect::<Option<_>>()?))),
        Field::Step(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{super::Zone, *};

    #[test]
    fn a_pattern_is_said_in_words() {
        for (pattern, words) in [
            ("0 2 * * *", "at 02:00 every day"),
            ("30 8,20 * * *", "at 08:30 and 20:30 every day"),
            ("15 30 8 * * *", "at 08:30:15 every day"),
            ("* * * * *", "every minute"),
            ("*/5 * * * *", "every 5 minutes"),
            ("*/7 * * * *", "every 7 minutes of every hour"),
            ("*/10 * * * * *", "every 10 seconds"),
            ("0 * * * *", "every hour, on the hour"),
            ("@hourly", "every hour, on the hour"),
            ("5,35 * * * *", "at the minutes 5 and 35 of every hour"),
            ("*/5 9-17 * * Mon-Fri", "every 5 minutes from 09:00 to 17:59 from Monday to Friday"),
            ("0 9-17 * * 1-5", "at minute 0 from 09:00 to 17:59 from Monday to Friday"),
            ("0 */2 * * *", "at minute 0 of every 2nd hour from midnight on"),
            ("0 6 * * 0,6", "at 06:00 on Sundays and Saturdays"),
            ("0 6 * * SUN", "at 06:00 on Sundays"),
            ("0 6 * * 7", "at 06:00 on Sundays"),
            ("@monthly", "at 00:00 on day 1 of the month"),
            ("0 4 1,15 * Mon", "at 04:00 on the days 1 and 15 of the month and on Mondays"),
            ("0 0 1 jan,Jul *", "at 00:00 on day 1 of the month in January and July"),
            ("0 0 * 6-8 *", "at 00:00 every day from June to August"),
        ] {
            assert_eq!(Schedule::new(pattern, Zone::UTC).unwrap().words(), words, "{pattern}");
        }
    }

    /// Better the pattern than words that say something else.
    #[test]
    fn a_pattern_without_words_is_shown_as_it_is() {
        for pattern in ["10-50/5 * * * *", "0 0 L * *", "0 0 * * Mon#2", "0 0 */3 * *"] {
            let words = Schedule::new(pattern, Zone::UTC).unwrap().words();
            assert_eq!(words, format!("by the pattern {pattern}"));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_pattern_makes_words_panic(text in "[-0-9*/,?L# A-Za-z]{0,40}") {
            let _ = words(&text);
        }
    }
}
