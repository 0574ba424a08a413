//! How long finished jobs are kept, by how they ended.

use std::{fmt, str::FromStr, time::Duration};

use crate::{
    lifecycle::End,
    name::Invalid,
    time::{Timestamp, parse_span, print_span},
};

/// How long finished jobs are kept, by how they ended. Zero: they are deleted instead of entering history.
///
/// Written as one span for all (`7d`, `0`), by state (`success=1d,failed=30d`), or both: the span without a state is for
/// the states that are not named. Without one, those have a week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Retention {
    /// For jobs that ended with success.
    pub success: Duration,
    /// For jobs that failed.
    pub failed: Duration,
    /// For jobs that were cancelled.
    pub cancelled: Duration,
}

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

impl Retention {
    /// The same, however a job ends.
    pub const fn all(span: Duration) -> Self {
        Self { success: span, failed: span, cancelled: span }
    }

    /// How long a job that ends so is kept, at least.
    pub fn of(self, end: End) -> Duration {
        match end {
            End::Success => self.success,
            End::Failed => self.failed,
            End::Cancelled => self.cancelled,
        }
    }

    /// Whether a job that ends so enters history.
    pub fn keeps(self, end: End) -> bool {
        !self.of(end).is_zero()
    }

    /// At `now`, jobs that ended before this moment need not be kept any longer. It is the beginning of the slice of time in which
    /// the retention span begins: so jobs are dropped in whole slices, and each is kept at least for its retention.
    pub fn edge(self, end: End, now: Timestamp) -> Timestamp {
        let span = self.of(end);
        match slice(span) {
            None => now,
            Some(slice) => floor(now.minus(span), slice),
        }
    }

    /// Begin and end of the slice of time that `at` lies in, for jobs that end so. (Where none are kept, a day: another process may
    /// still keep such jobs, and they need a slice.)
    pub fn slice(self, end: End, at: Timestamp) -> (Timestamp, Timestamp) {
        let slice = slice(self.of(end)).unwrap_or(DAY);
        let begin = floor(at, slice);
        (begin, begin.plus(slice))
    }
}

/// Days, in UTC. Hours for what is kept less than a day, so that it is not kept for many times its retention; weeks for
/// what is kept a month and longer, so that there are not too many slices to search.
fn slice(retention: Duration) -> Option<Duration> {
    match retention {
        Duration::ZERO => None,
        span if span < DAY => Some(HOUR),
        span if span < 30 * DAY => Some(DAY),
        _ => Some(7 * DAY),
    }
}

fn floor(at: Timestamp, slice: Duration) -> Timestamp {
    let micros = i64::try_from(slice.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(at.micros().div_euclid(micros) * micros)
}

impl Default for Retention {
    fn default() -> Self {
        Self::all(7 * DAY)
    }
}

impl From<Duration> for Retention {
    fn from(span: Duration) -> Self {
        Self::all(span)
    }
}

impl FromStr for Retention {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let span = |text: &str| if text == "0" { Ok(Duration::ZERO) } else { parse_span("retention", text) };
        let parts = || text.split(',').map(str::trim).map(|part| part.split_once('='));
        let mut bare = text.split(',').map(str::trim).filter(|part| !part.contains('='));
        let mut kept = bare.next().map(span).transpose()?.map_or_else(Self::default, Self::all);
        if bare.next().is_some() {
            return Err(Invalid::new("retention", format!("{text:?} has two spans without a state")));
        }
        for (state, value) in parts().flatten() {
            let place = match state {
                "success" => &mut kept.success,
                "failed" => &mut kept.failed,
                "cancelled" => &mut kept.cancelled,
                _ => {
                    let problem = format!("{state:?} is not a state jobs end in; write success, failed or cancelled");
                    return Err(Invalid::new("retention", problem));
                }
            };
            *place = span(value)?;
        }
        Ok(kept)
    }
}

impl TryFrom<String> for Retention {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Retention> for String {
    fn from(retention: Retention) -> Self {
        retention.to_string()
    }
}

impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { success, failed, cancelled } = *self;
        if success == failed && failed == cancelled {
            f.write_str(&print_span(success))
        } else {
            let [success, failed, cancelled] = [success, failed, cancelled].map(print_span);
            write!(f, "success={success},failed={failed},cancelled={cancelled}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_state_that_is_named_has_its_own_span_and_the_others_the_common_one() {
        let parse = |text: &str| text.parse::<Retention>().unwrap();
        assert_eq!(parse("0"), Retention::all(Duration::ZERO));
        assert_eq!(parse("2h"), Retention::all(2 * HOUR));
        assert_eq!(parse("success=0"), Retention { success: Duration::ZERO, ..Retention::default() });
        let mixed = Retention { success: Duration::ZERO, failed: 30 * DAY, cancelled: DAY };
        assert_eq!(parse("success=0, 1d, failed=30d"), mixed);
    }

    #[test]
    fn a_retention_that_says_nothing_is_refused_with_what_it_may_say() {
        for (text, problem) in [
            ("", "is not a duration"),
            ("soon", "is not a duration"),
            ("failed=1", "is not a duration"),
            ("1d,2d", "has two spans"),
            ("stuck=1d", "write success, failed or cancelled"),
        ] {
            let refusal = text.parse::<Retention>().unwrap_err().to_string();
            assert!(refusal.starts_with("retention: ") && refusal.contains(problem), "{text}: {refusal}");
        }
    }

    proptest! {
        #[test]
        fn a_printed_retention_reads_back(spans in prop::array::uniform3(0u64..100 * 86_400)) {
            let [success, failed, cancelled] = spans.map(Duration::from_secs);
            let kept = Retention { success, failed, cancelled };
            prop_assert_eq!(kept.to_string().parse::<Retention>().unwrap(), kept);
        }

        #[test]
        fn a_job_is_kept_its_retention_and_at_most_a_slice_longer(span in 1u64..60 * 86_400, now in 0i64..1 << 52) {
            let (span, now) = (Duration::from_secs(span), Timestamp::from_micros(now));
            let edge = Retention::all(span).edge(End::Failed, now);
            let slice = if span < DAY { HOUR } else if span < 30 * DAY { DAY } else { 7 * DAY };
            prop_assert!(edge <= now.minus(span));
            prop_assert!(edge.plus(slice) > now.minus(span));
            // So what goes is whole slices.
            prop_assert_eq!(Retention::all(span).slice(End::Failed, edge), (edge, edge.plus(slice)));
        }
    }
}
