//! How a run ended.

use serde::Serialize;
use serde_json::value::RawValue;
use turnwise_core::{
    Failure, Invalid, lifecycle,
    time::{parse_span, print_span},
};

use super::{
    Request, Unreadable,
    object::{self, text},
};
use std::{borrow::Cow, time::Duration};

/// How a run ended, as reported by the program that ran it. The word for it is in `outcome`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Outcome<'a> {
    /// `{"outcome": "done", "result": …}`: it did what it should; the result is kept with the job.
    Done(Option<&'a str>),
    /// `{"outcome": "error", "error": "…"}`: it failed and may be tried again, by the job's policy.
    Error(Cow<'a, str>),
    /// `{"outcome": "fail", "error": "…"}`: it failed for good.
    Fail(Cow<'a, str>),
    /// `{"outcome": "snooze", "for": "10m"}`: again after this long; spends no attempt.
    Snooze(Duration),
    /// `{"outcome": "cancelled"}`: it stopped because it was asked to.
    Cancelled,
    /// `{"outcome": "next", "job": {"task": "…"}}`: the same job goes on as this task, with its arguments, time, retries and timeout.
    Next(Box<Request<'a>>),
}

impl<'a> Outcome<'a> {
    const NAMES: [&'static str; 5] = ["outcome", "result", "error", "for", "job"];
    /// The words for the outcomes.
    pub(super) const WORDS: [&'static str; 6] = ["done", "error", "fail", "snooze", "cancelled", "next"];

    /// Reads one JSON object; an error names the value that is missing, unknown or wrong.
    pub fn read(json: &'a str) -> Result<Self, Unreadable> {
        let (mut word, mut result, mut error, mut wait, mut job) = (None, None, None, None, None);
        object::read(json, Self::NAMES, |name, value| {
            match name {
                "outcome" => word = Some(text(name, value)?),
                "result" => result = Some(value.get()),
                "error" => error = Some(text(name, value)?),
                "for" => wait = Some(parse_span("for", &text(name, value)?)?),
                _ => job = Some(value.get()),
            }
            Ok(())
        })?;
        let missing = |name| Unreadable::from(Invalid::new(name, "is missing"));
        let word = word.ok_or_else(|| missing("outcome"))?;
        let given =
            [("result", result.is_some()), ("error", error.is_some()), ("for", wait.is_some()), ("job", job.is_some())];
        let (outcome, takes) = match &*word {
            "done" => (Self::Done(result), "result"),
            "error" => (Self::Error(error.ok_or_else(|| missing("error"))?), "error"),
            "fail" => (Self::Fail(error.ok_or_else(|| missing("error"))?), "error"),
            "snooze" => (Self::Snooze(wait.ok_or_else(|| missing("for"))?), "for"),
            "cancelled" => (Self::Cancelled, ""),
            "next" => {
                let job = Request::read(job.ok_or_else(|| missing("job"))?).map_err(|error| error.within("job"))?;
                (Self::Next(Box::new(job)), "job")
            }
            other => {
                let problem = format!("must be done, error, fail, snooze, cancelled or next, not {other:?}");
                return Err(Invalid::new("outcome", problem).into());
            }
        };
        match given.into_iter().find(|(name, given)| *given && *name != takes) {
            Some((name, _)) => Err(Invalid::new(name, format!("has no effect with the outcome {word}")).into()),
            None => Ok(outcome),
        }
    }

    /// The outcome, as a task returns it, or the first value of the next step that is invalid.
    pub fn to_outcome(&self) -> Result<crate::Outcome, Invalid> {
        Ok(match self {
            Self::Done(None) => crate::Outcome::done(),
            Self::Done(Some(result)) => {
                let result: &RawValue =
                    serde_json::from_str(result).map_err(|e| Invalid::new("result", e.to_string()))?;
                crate::Outcome::done_with(&result)
            }
            // Without a place: the line is not one of the program that ran it.
            Self::Error(error) => lifecycle::Outcome::Error(Failure::new(error.to_string())).into(),
            Self::Fail(error) => lifecycle::Outcome::Fail(Failure::new(error.to_string())).into(),
            Self::Snooze(wait) => crate::Outcome::snooze(*wait),
            Self::Cancelled => crate::Outcome::cancelled(),
            Self::Next(job) => {
                let within = |invalid: Invalid| Invalid::new("job", invalid.to_string());
                if let Some(name) = job.beyond_a_step() {
                    let problem = format!("{name}: has no effect on the next step; the job keeps its own");
                    return Err(Invalid::new("job", problem));
                }
                crate::Outcome::next(job.to_request().map_err(within)?)
            }
        })
    }
}

impl Serialize for Outcome<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::{Error as _, SerializeMap};
        let mut map = serializer.serialize_map(None)?;
        let mut word = |word: &str| map.serialize_entry("outcome", word);
        match self {
            Self::Done(result) => {
                word("done")?;
                if let Some(result) = result {
                    let result: &RawValue = serde_json::from_str(result).map_err(S::Error::custom)?;
                    map.serialize_entry("result", result)?;
                }
            }
            Self::Error(error) => {
                word("error")?;
                map.serialize_entry("error", error)?;
            }
            Self::Fail(error) => {
                word("fail")?;
                map.serialize_entry("error", error)?;
            }
            Self::Snooze(wait) => {
                word("snooze")?;
                map.serialize_entry("for", &print_span(*wait))?;
            }
            Self::Cancelled => word("cancelled")?,
            Self::Next(job) => {
                word("next")?;
                map.serialize_entry("job", job)?;
            }
        }
        map.end()
    }
}
