//! What becomes of old rows: minutes are merged into hours, hours into days, and days are deleted.

use std::time::Duration;

use crate::time::Timestamp;

/// How long rows by the minute are kept, and those by the hour: afterwards they are merged into the next longer span.
pub const KEEP_MINUTES: Duration = Duration::from_secs(6 * HOUR);
pub const KEEP_HOURS: Duration = Duration::from_secs(14 * DAY);
/// How long rows by the day are kept, and rows of errors: as long as the audit log.
pub const KEEP_DAYS: Duration = Duration::from_secs(400 * DAY);

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The time that a row is about. Hours and days are those of UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Span {
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day, in UTC.
    Day,
}

impl Span {
    /// The shortest first.
    pub const ALL: [Span; 3] = [Self::Minute, Self::Hour, Self::Day];

    /// How long it is.
    pub fn length(self) -> Duration {
        Duration::from_secs(match self {
            Self::Minute => MINUTE,
            Self::Hour => HOUR,
            Self::Day => DAY,
        })
    }

    /// As people and programs read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }

    /// Reads a name; `None`: it is none of them.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|span| span.name() == name)
    }

    /// Number in the database; never reuse one.
    pub fn code(self) -> i16 {
        match self {
            Self::Minute => 0,
            Self::Hour => 1,
            Self::Day => 2,
        }
    }

    /// Reads a number, as the database has it.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|span| span.code() == code)
    }

    /// The beginning of the span that this moment is in.
    #[must_use]
    pub fn begin(self, at: Timestamp) -> Timestamp {
        let length = i64::try_from(self.length().as_micros()).expect("a day");
        Timestamp::from_micros(at.micros().div_euclid(length) * length)
    }

    /// What rows of this span are merged into when they are old; `None`: they are deleted.
    pub fn next(self) -> Option<Span> {
        match self {
            Self::Minute => Some(Self::Hour),
            Self::Hour => Some(Self::Day),
            Self::Day => None,
        }
    }

    /// How long rows of this span are kept.
    pub fn kept(self) -> Duration {
        match self {
            Self::Minute => KEEP_MINUTES,
            Self::Hour => KEEP_HOURS,
            Self::Day => KEEP_DAYS,
        }
    }

    /// Rows of this span that began before this are old. It is a whole span of the next length: all that is merged into one row is old at
    /// the same time.
    #[must_use]
    pub fn old_before(self, now: Timestamp) -> Timestamp {
        self.next().unwrap_or(self).begin(now.minus(self.kept()))
    }
}
