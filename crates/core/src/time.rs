//! Points in time by the database's clock: microseconds since 1970, UTC.

use std::{fmt, str::FromStr, time::Duration};

use crate::name::Invalid;

/// A moment of the database's clock. Everything that is compared (due times, leases) is one of these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 9999-12-30T22:00:00Z, the last hour that can be printed in every time zone.
    pub const MAX: Timestamp = Timestamp(253_402_207_200_000_000);
    /// 0001-01-02, for the same reason.
    pub const MIN: Timestamp = Timestamp(-62_135_510_400_000_000);

    /// From microseconds since 1970, UTC. What lies beyond [`Timestamp::MIN`] or [`Timestamp::MAX`] becomes that bound.
    pub fn from_micros(micros: i64) -> Self {
        Self(micros.clamp(Self::MIN.0, Self::MAX.0))
    }

    /// Microseconds since 1970, UTC; negative before.
    pub fn micros(self) -> i64 {
        self.0
    }

    /// The moment `span` later; the end of time when it would lie beyond.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_add(micros))
    }

    /// The moment `span` earlier; [`Timestamp::MIN`] when it would lie before that.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_sub(micros))
    }

    /// How long it is from `earlier` to this; zero when it is not later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// RFC 3339 in UTC with six digits, always the same width, so that text sorts like time.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(moment) => write!(f, "{moment:.6}"),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let moment: jiff::Timestamp = text
            .parse()
            .map_err(|_| Invalid::new("at", format!("{text:?} is not a time; write it like 2030-01-31T08:30:00Z")))?;
        Ok(Self::from_micros(moment.as_microsecond()))
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(decoder)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

const UNITS: [(&str, u64); 7] = [
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("min", 60_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];

/// Longest span that may be asked for: ten years.
pub const MAX_SPAN: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Reads `10s`, `1.5h`, `250ms`, `2d`, and several of them as their sum: `1h 30m`. A bare number would leave the unit to guessing
/// and is refused.
pub fn parse_span(field: &'static str, text: &str) -> Result<Duration, Invalid> {
    let bad = || Invalid::new(field, format!("{text:?} is not a duration; write it like 10s, 250ms, 5m, 1h 30m or 1d"));
    let too_long = || Invalid::new(field, format!("{text:?} is longer than ten years"));
    let mut total: u64 = 0;
    let mut rest = text;
    loop {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let (number, after) = rest.split_at(unit_at);
        let (unit, after) = after.split_at(after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len()));
        let (_, micros) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(fraction) || (number.contains('.') && fraction.is_empty()) {
            return Err(bad());
        }
        let whole: u64 = whole.parse().map_err(|_| too_long())?;
        total = whole.checked_mul(*micros).and_then(|part| total.checked_add(part)).ok_or_else(too_long)?;
        let mut step = *micros;
        for digit in fraction.bytes() {
            step /= 10;
            total = total.checked_add(u64::from(digit - b'0') * step).ok_or_else(too_long)?;
        }
        if after.is_empty() {
            break;
        }
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    let span = Duration::from_micros(total);
    if span > MAX_SPAN { Err(too_long()) } else { Ok(span) }
}

/// Writes a span so that [`parse_span`] reads the same span back: the largest unit without a fraction.
pub fn print_span(span: Duration) -> String {
    let micros = span.as_micros();
    let (unit, size) = UNITS
        .iter()
        .rev()
        .filter(|(name, _)| *name != "min")
        .find(|(_, size)| micros >= u128::from(*size) && micros.is_multiple_of(u128::from(*size)))
        .copied()
        .unwrap_or(("s", 1_000_000));
    format!("{}{unit}", micros / u128::from(size))
}

/// How long ago, in a few letters, for a column of a table: `45s`, `3m`, `7h`, `12d`.
pub fn print_age(span: Duration) -> String {
    match span.as_secs() {
        seconds @ ..120 => format!("{seconds}s"),
        seconds @ ..7_200 => format!("{}m", seconds / 60),
        seconds @ ..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// About how long, for people: two or three digits and a unit.
pub fn print_about(span: Duration) -> String {
    let seconds = span.as_secs_f64();
    match seconds {
        ..1.0 => format!("{:.0} ms", seconds * 1e3),
        ..10.0 => format!("{seconds:.1} s"),
        ..120.0 => format!("{seconds:.0} s"),
        ..7_200.0 => format!("{:.0} min", seconds / 60.0),
        ..172_800.0 => format!("{:.1} h", seconds / 3_600.0),
        _ => format!("{:.1} d", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_span_is_printed_in_few_digits() {
        for (millis, printed) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (4_200, "4.2 s"),
            (12_400, "12 s"),
            (600_000, "10 min"),
            (86_400_000, "24.0 h"),
        ] {
            assert_eq!(print_about(Duration::from_millis(millis)), printed);
        }
    }

    #[test]
    fn an_age_is_one_number_and_a_letter() {
        for (seconds, printed) in [(0, "0s"), (119, "119s"), (185, "3m"), (7_300, "2h"), (172_800, "2d")] {
            assert_eq!(print_age(Duration::from_secs(seconds)), printed);
        }
    }

    #[test]
    fn several_spans_are_added() {
        for text in ["1h 30m", "1h30m", "90m", "5400s", "1.5h", "1h 29m 60s"] {
            assert_eq!(parse_span("every", text).unwrap(), Duration::from_secs(5_400), "{text}");
        }
        for text in ["1h  30m", "1h ", " 1h", "1h 30", "1 h", "1h-30m", "9999999d 1s"] {
            assert!(parse_span("every", text).unwrap_err().to_string().starts_with("every: "), "{text}");
        }
    }

    #[test]
    fn times_are_utc_with_six_digits() {
        let moment: Timestamp = "2030-01-31T09:30:00+01:00".parse().unwrap();
        assert_eq!(moment.to_string(), "2030-01-31T08:30:00.000000Z");
        assert_eq!(Timestamp::from_micros(1).to_string(), "1970-01-01T00:00:00.000001Z");
        assert_eq!(Timestamp::from_micros(i64::MAX).to_string(), "9999-12-30T22:00:00.000000Z");
    }

    #[test]
    fn a_span_needs_a_unit() {
        assert_eq!(parse_span("in", "1.5h").unwrap(), Duration::from_secs(5400));
        assert_eq!(parse_span("in", "250ms").unwrap(), Duration::from_millis(250));
        for text in ["", "10", "s", "-1s", "1.s", "1e3s", "10 s", "99999999d", "18446744073709551616s"] {
            assert!(parse_span("in", text).unwrap_err().to_string().starts_with("in: "), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_printed_span_reads_back(micros in 0u64..10 * 365 * 86_400 * 1_000_000) {
            let span = Duration::from_micros(micros);
            prop_assert_eq!(parse_span("in", &print_span(span)).unwrap(), span);
        }
    }
}
