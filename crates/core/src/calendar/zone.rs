//! A time zone, by its name.

use std::{fmt, str::FromStr};

use jiff::{
    Zoned,
    tz::{TimeZone, TimeZoneDatabase},
};

use super::{MAX_TEXT, brief, moment};
use crate::{name::Invalid, time::Timestamp};

/// A place's clock, by its name in the tz database.
#[derive(Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// Coordinated universal time; the zone of windows that name none.
    pub const UTC: Zone = Zone(TimeZone::UTC);

    /// Its name in the tz database, such as `Europe/Berlin`.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    pub(super) fn is_utc(&self) -> bool {
        *self == Self::UTC
    }

    /// What the clock on the wall shows, in microseconds as if it were UTC.
    pub(super) fn wall(&self, at: Timestamp) -> i64 {
        at.micros() + i64::from(self.0.to_offset(moment(at)).seconds()) * 1_000_000
    }

    /// What the clock on the wall shows.
    pub(super) fn shown(&self, at: Timestamp) -> Zoned {
        moment(at).to_zoned(self.0.clone())
    }

    /// What the clock on the wall shows, in words.
    pub fn words(&self, at: Timestamp) -> String {
        let shown = self.shown(at);
        format!("{} {}", shown.strftime("%A, %-d %B %Y at %H:%M:%S"), self.name())
    }

    /// When the clock is next put forward or back.
    pub(super) fn next_change(&self, after: Timestamp) -> Option<Timestamp> {
        let change = self.0.following(moment(after)).next()?;
        Some(Timestamp::from_micros(change.timestamp().as_microsecond()))
    }
}

impl FromStr for Zone {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        if text.eq_ignore_ascii_case("utc") {
            return Ok(Self::UTC);
        }
        let known = Some(text).filter(|text| text.len() <= MAX_TEXT);
        let zone = known.and_then(|text| TimeZoneDatabase::bundled().get(text).ok()).map(Self);
        zone.filter(|zone| zone.0.iana_name().is_some()).ok_or_else(|| {
            let text = brief(text);
            Invalid::new("zone", format!("{text:?} is not a time zone; write a name like Europe/Berlin, or UTC"))
        })
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
