//! Job counts that the dispatcher writes while a caller asks for them.

use std::time::Duration;

use turnwise_core::{Timestamp, totals::Totals};

use crate::{StoreError, store::Result};

/// For how long one question counts: the dispatcher writes until then.
pub const ASKED_FOR: Duration = Duration::from_secs(20);
/// A question is written down again when so much of that time is left, so at most every ten seconds however many callers ask.
pub const ASK_AGAIN: Duration = Duration::from_secs(10);

/// What was written last, and when this was read.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundTotals {
    /// The database's time.
    pub now: Timestamp,
    /// `None`: nothing was ever written, or only by a version that wrote it in another way.
    pub last: Option<WrittenTotals>,
}

/// Totals, and when the dispatcher wrote them.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenTotals {
    /// The database's time of the write.
    pub at: Timestamp,
    /// What the dispatcher knew then.
    pub totals: Totals,
}

/// Totals as text in a column.
pub fn totals_text(totals: &Totals) -> Result<String> {
    serde_json::to_string(totals).map_err(|error| StoreError::broken("write totals", error))
}

/// The same, read back. What cannot be read is as if it were not there: another version wrote it, and the next write replaces it.
pub fn read_totals(at: Option<Timestamp>, text: Option<&str>) -> Option<WrittenTotals> {
    Some(WrittenTotals { at: at?, totals: serde_json::from_str(text?).ok()? })
}

/// Until when a question counts that is asked now, if it is to be written down; `until`: of the last one.
pub fn asked_until(now: Timestamp, until: Timestamp) -> Option<Timestamp> {
    (until < now.plus(ASK_AGAIN)).then(|| now.plus(ASKED_FOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_written_down_at_most_every_ten_seconds() {
        let at = |seconds: u64| Timestamp::from_micros(0).plus(Duration::from_secs(seconds));
        let mut until = at(0);
        let mut written = Vec::new();
        for second in 100..160 {
            if let Some(next) = asked_until(at(second), until) {
                until = next;
                written.push(second);
            }
        }
        assert_eq!(written, [100, 111, 122, 133, 144, 155]);
        assert_eq!(until, at(175));
    }
}
