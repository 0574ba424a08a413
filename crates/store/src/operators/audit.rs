//! The audit log, read in pages: newest first.

use std::{fmt, str::FromStr};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use turnwise_core::{
    ActorName, Invalid, Timestamp,
    audit::{AuditId, AuditLine, AuditTarget},
};
use uuid::Uuid;

use super::MAX_PAGE;

/// Which lines: all given conditions must hold. Each of them, and actor and target together, has an index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditFilter {
    /// Of this actor.
    pub actor: Option<ActorName>,
    /// About this.
    pub target: Option<AuditTarget>,
    /// Written at this time or later, by the database's clock.
    pub since: Option<Timestamp>,
    /// Written before this time.
    pub until: Option<Timestamp>,
}

/// Where the next page begins; opaque to callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditCursor {
    at: Timestamp,
    id: AuditId,
}

/// Of the text of a cursor: that of a list of jobs has another number.
const FORM: u8 = 2;

impl fmt::Display for AuditCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: Vec<u8> =
            [FORM].into_iter().chain(self.at.micros().to_be_bytes()).chain(*self.id.0.as_bytes()).collect();
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for AuditCursor {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let read = || {
            let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
            let (&form, rest) = bytes.split_first()?;
            let (at, id) = rest.split_first_chunk::<8>()?;
            let id = AuditId(Uuid::from_slice(id).ok()?);
            (form == FORM).then_some(Self { at: Timestamp::from_micros(i64::from_be_bytes(*at)), id })
        };
        let wrong = "is none of the audit log; take it from the page before, or leave it out";
        read().ok_or_else(|| Invalid::new("cursor", wrong))
    }
}

/// One page.
#[derive(Debug, Clone, Default)]
pub struct AskAudit {
    /// Which lines.
    pub filter: AuditFilter,
    /// From where on; `None`: from the newest.
    pub cursor: Option<AuditCursor>,
    /// At most so many; more than [`MAX_PAGE`] counts as that.
    pub limit: u32,
}

impl AskAudit {
    /// The limit that counts.
    pub fn limit(&self) -> u32 {
        self.limit.min(MAX_PAGE)
    }

    /// Only lines that come before this time and id, in this order, are asked for.
    pub fn below(&self) -> (Timestamp, AuditId) {
        // No id comes before the first one: all lines of that time are left out.
        let until = self.filter.until.map(|at| AuditCursor { at, id: AuditId(Uuid::nil()) });
        let end = AuditCursor { at: Timestamp::MAX, id: AuditId(Uuid::max()) };
        let AuditCursor { at, id } = [until, self.cursor].into_iter().flatten().fold(end, AuditCursor::min);
        (at, id)
    }

    /// Only lines of this time or later are asked for.
    pub fn since(&self) -> Timestamp {
        self.filter.since.unwrap_or(Timestamp::MIN)
    }
}

/// A page of lines, newest first; of those of one moment, the greatest id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditPage {
    /// At most as many as were asked for.
    pub lines: Vec<AuditLine>,
    /// Where the next page begins; `None`: this was the last one.
    pub next: Option<AuditCursor>,
}

impl AuditPage {
    /// The page of these lines, of which there is one more than fits if there is another page.
    pub fn of(mut lines: Vec<AuditLine>, limit: u32) -> Self {
        let more = lines.len() > limit as usize;
        lines.truncate(limit as usize);
        let next = lines.last().filter(|_| more).map(|line| AuditCursor { at: line.at, id: line.id });
        Self { lines, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(at: i64, id: u128) -> AuditCursor {
        AuditCursor { at: Timestamp::from_micros(at), id: AuditId(Uuid::from_u128(id)) }
    }

    #[test]
    fn a_cursor_is_read_as_it_is_written_and_nothing_else_is_one() {
        for cursor in [cursor(-1, 7), cursor(1_234_567, u128::MAX)] {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        let text = cursor(1, 1).to_string();
        for other in ["", "x", &text[1..], &format!("{text}A"), &text.replacen('A', "B", 1)] {
            assert!(other.parse::<AuditCursor>().unwrap_err().to_string().starts_with("cursor: "), "{other}");
        }
    }

    #[test]
    fn a_page_begins_below_its_cursor_and_before_the_end_of_its_time() {
        let until = |micros| AuditFilter { until: Some(Timestamp::from_micros(micros)), ..AuditFilter::default() };
        let below = |filter, cursor| AskAudit { filter, cursor, limit: 9 }.below();
        assert_eq!(below(AuditFilter::default(), None).0, Timestamp::MAX);
        let AuditCursor { at, id } = cursor(5, 3);
        assert_eq!(below(until(9), Some(cursor(5, 3))), (at, id));
        assert_eq!(below(until(5), Some(cursor(5, 3))), (at, AuditId(Uuid::nil())));
    }
}
