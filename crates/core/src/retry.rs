//! How long to wait before the next try. A policy is data, stored with the job.

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use crate::{
    name::Invalid,
    time::{MAX_SPAN, parse_span, print_span},
};

/// Most retries that a policy may allow: more would be an endless loop.
pub const MAX_RETRIES: u32 = 1_000;
/// What stores keep in place of a policy if a job names none: that of its task holds, as it is where a run of the job fails.
pub const OF_TASK: &str = "task";
/// Most waits a `durations` policy may list.
pub const MAX_DURATIONS: usize = 100;

/// What to do when a run has failed. Written and read as `exponential:10s,5`, `durations:10s,20s`, `manual`, `none`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryPolicy {
    /// Wait `unit × 2^retry`, counting retries from 0; at most `max_retries` of them.
    Exponential { unit: Duration, max_retries: u32 },
    /// Wait these, one after the other.
    Durations(Vec<Duration>),
    /// Stay stuck without a due time until a person decides: retry or fail.
    Manual,
    /// The first failure is the end.
    None,
}

/// What follows the failure number `retry` (from 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    For(Duration),
    ForAPerson,
    NoMore,
}

impl RetryPolicy {
    /// Five retries, after 10 s, 20 s, 40 s and so on: where neither a job nor its task names a policy.
    pub const DEFAULT: Self = Self::Exponential { unit: Duration::from_secs(10), max_retries: 5 };

    /// As stores keep it; `None` is the task's own.
    #[doc(hidden)]
    pub fn to_stored(policy: Option<&Self>) -> Cow<'static, str> {
        policy.map_or(Cow::Borrowed(OF_TASK), |policy| Cow::Owned(policy.to_string()))
    }

    /// Reads what [`RetryPolicy::to_stored`] wrote.
    #[doc(hidden)]
    pub fn from_stored(text: &str) -> Result<Option<Self>, Invalid> {
        if text == OF_TASK { Ok(None) } else { text.parse().map(Some) }
    }

    /// Refuses a unit above ten years and more than [`MAX_RETRIES`] retries.
    pub fn exponential(unit: Duration, max_retries: u32) -> Result<Self, Invalid> {
        if unit > MAX_SPAN {
            return Err(Invalid::new("retry", "the unit is longer than ten years"));
        }
        if max_retries > MAX_RETRIES {
            return Err(Invalid::new("retry", format!("at most {MAX_RETRIES} retries are allowed, not {max_retries}")));
        }
        Ok(Self::Exponential { unit, max_retries })
    }

    /// Refuses an empty list and more than [`MAX_DURATIONS`] waits.
    pub fn durations(waits: Vec<Duration>) -> Result<Self, Invalid> {
        if waits.is_empty() || waits.len() > MAX_DURATIONS {
            return Err(Invalid::new(
                "retry",
                format!("durations needs 1 to {MAX_DURATIONS} waits, not {}", waits.len()),
            ));
        }
        Ok(Self::Durations(waits))
    }

    /// How long to wait after `retry` retries have been used up and the job failed once more.
    ///
    /// `jitter` (0 ≤ jitter < 1) only ever adds, up to a tenth: the wait is a minimum.
    pub fn wait(&self, retry: u32, jitter: f64) -> Wait {
        let least = match self {
            Self::Exponential { unit, max_retries } if retry < *max_retries => {
                let factor = 1_u32.checked_shl(retry).unwrap_or(u32::MAX);
                unit.saturating_mul(factor).min(MAX_SPAN)
            }
            Self::Durations(waits) => match waits.get(retry as usize) {
                Some(wait) => *wait,
                None => return Wait::NoMore,
            },
            Self::Manual => return Wait::ForAPerson,
            Self::Exponential { .. } | Self::None => return Wait::NoMore,
        };
        Wait::For(least + least.mul_f64(jitter.clamp(0.0, 1.0) / 10.0))
    }

    /// Retries left after `used`; `None` where a person decides.
    pub fn left(&self, used: u32) -> Option<u32> {
        match self {
            Self::Exponential { max_retries, .. } => Some(max_retries.saturating_sub(used)),
            Self::Durations(waits) => Some(u32::try_from(waits.len()).unwrap_or(u32::MAX).saturating_sub(used)),
            Self::Manual => None,
            Self::None => Some(0),
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for RetryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exponential { unit, max_retries } => write!(f, "exponential:{},{max_retries}", print_span(*unit)),
            Self::Durations(waits) => {
                let waits: Vec<_> = waits.iter().copied().map(print_span).collect();
                write!(f, "durations:{}", waits.join(","))
            }
            Self::Manual => f.write_str("manual"),
            Self::None => f.write_str("none"),
        }
    }
}

impl FromStr for RetryPolicy {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match (kind, rest) {
            ("exponential", rest) => {
                let (unit, retries) = rest.split_once(',').ok_or_else(|| {
                    Invalid::new("retry", format!("{text:?} wants a unit and a count, like exponential:10s,5"))
                })?;
                let retries = retries
                    .trim()
                    .parse()
                    .map_err(|_| Invalid::new("retry", format!("{retries:?} is not a number of retries")))?;
                Self::exponential(parse_span("retry", unit.trim())?, retries)
            }
            ("durations", rest) => {
                Self::durations(rest.split(',').map(|wait| parse_span("retry", wait.trim())).collect::<Result<_, _>>()?)
            }
            ("manual", "") => Ok(Self::Manual),
            ("none", "") => Ok(Self::None),
            _ => Err(Invalid::new(
                "retry",
                format!("{text:?} is not a policy; write exponential:10s,5 or durations:10s,20s or manual or none"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(n: u64) -> Wait {
        Wait::For(Duration::from_secs(n))
    }

    #[test]
    fn exponential_waits_double_from_the_unit() {
        let policy = RetryPolicy::default();
        let waits: Vec<_> = (0..6).map(|retry| policy.wait(retry, 0.0)).collect();
        assert_eq!(waits, [seconds(10), seconds(20), seconds(40), seconds(80), seconds(160), Wait::NoMore]);
    }

    #[test]
    fn durations_are_used_one_after_the_other() {
        let policy: RetryPolicy = "durations:10s,20s,30s".parse().unwrap();
        let waits: Vec<_> = (0..4).map(|retry| policy.wait(retry, 0.0)).collect();
        assert_eq!(waits, [seconds(10), seconds(20), seconds(30), Wait::NoMore]);
        assert_eq!((policy.left(0), policy.left(2), policy.left(9)), (Some(3), Some(1), Some(0)));
    }

    #[test]
    fn a_long_series_of_retries_ends_at_the_longest_span() {
        let policy = RetryPolicy::exponential(Duration::from_secs(86_400), MAX_RETRIES).unwrap();
        assert_eq!(policy.wait(999, 0.0), Wait::For(MAX_SPAN));
    }

    #[test]
    fn a_bad_policy_is_refused_with_its_field() {
        for text in [
            "",
            "linear",
            "exponential",
            "exponential:10s",
            "exponential:10,5",
            "exponential:1s,1001",
            "durations:",
            "manual:1",
        ] {
            assert!(text.parse::<RetryPolicy>().unwrap_err().to_string().starts_with("retry: "), "{text}");
        }
    }

    proptest! {
        #[test]
        fn jitter_only_adds(retry in 0u32..5, jitter in 0.0f64..1.0) {
            let policy = RetryPolicy::default();
            let (Wait::For(least), Wait::For(wait)) = (policy.wait(retry, 0.0), policy.wait(retry, jitter)) else { unreachable!() };
            prop_assert!(least <= wait && wait <= least.mul_f64(1.1));
        }

        #[test]
        fn a_printed_policy_reads_back(unit in 0u64..1_000_000, count in 0u32..1000) {
            let exponential = RetryPolicy::exponential(Duration::from_millis(unit), count).unwrap();
            prop_assert_eq!(exponential.to_string().parse::<RetryPolicy>().unwrap(), exponential);
            let durations = RetryPolicy::durations(vec![Duration::from_micros(unit); 1 + count as usize % 7]).unwrap();
            prop_assert_eq!(durations.to_string().parse::<RetryPolicy>().unwrap(), durations);
        }
    }
}
