//! What few jobs have: a time limit of their own, another step when their retries run out.
//!
//! Stored as one small piece of JSON beside the job, and not at all where there is nothing to store.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    job::Step,
    json::Json,
    name::{Invalid, TaskName},
    retry::RetryPolicy,
    time::{MAX_SPAN, parse_span, print_span},
};

/// Most steps that may follow one another by `on_exhausted`.
const MAX_STEPS: usize = 16;

/// Optional conditions of a job: a time limit for each run, and the step that follows when its retries run out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Terms(Option<Box<Inner>>);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Inner {
    timeout: Option<Duration>,
    on_exhausted: Option<Step>,
}

impl Terms {
    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// How long a run may take.
    pub fn timeout(&self) -> Option<Duration> {
        self.0.as_ref()?.timeout
    }

    /// What the job goes on with when its retries run out.
    pub fn on_exhausted(&self) -> Option<&Step> {
        self.0.as_ref()?.on_exhausted.as_ref()
    }

    /// Refuses less than a microsecond and more than ten years; the terms are unchanged then.
    pub fn set_timeout(&mut self, timeout: Duration) -> Result<(), Invalid> {
        if timeout < Duration::from_micros(1) {
            return Err(Invalid::new("timeout", "must be longer than nothing"));
        }
        if timeout > MAX_SPAN {
            return Err(Invalid::new("timeout", "is longer than ten years; leave it out for no limit"));
        }
        self.0.get_or_insert_default().timeout = Some(timeout);
        Ok(())
    }

    /// Refuses a chain of more than 16 such steps; the terms are unchanged then.
    pub fn set_on_exhausted(&mut self, step: Step) -> Result<(), Invalid> {
        let follows = |step: &Step| step.terms.on_exhausted().cloned();
        if std::iter::successors(Some(step.clone()), follows).take(MAX_STEPS + 1).count() > MAX_STEPS {
            return Err(Invalid::new("on_exhausted", format!("at most {MAX_STEPS} steps may follow one another")));
        }
        self.0.get_or_insert_default().on_exhausted = Some(step);
        Ok(())
    }

    /// As the database keeps it; `None` where there is nothing.
    pub fn to_text(&self) -> Option<String> {
        let stored = Stored::of(self)?;
        Some(serde_json::to_string(&stored).expect("text and spans are JSON"))
    }

    /// Reads what [`Terms::to_text`] wrote. An error for any other text, unknown fields included.
    pub fn from_text(text: &str) -> Result<Self, Invalid> {
        let stored: Stored = serde_json::from_str(text).map_err(|error| Invalid::new("terms", error.to_string()))?;
        stored.read()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on_exhausted: Option<StoredStep>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredStep {
    task: String,
    args: Box<RawValue>,
    /// Left out: as the task sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    terms: Option<Box<Stored>>,
}

impl Stored {
    fn of(terms: &Terms) -> Option<Self> {
        let inner = terms.0.as_ref()?;
        let step = |step: &Step| StoredStep {
            task: step.task.to_string(),
            args: RawValue::from_string(step.args.as_str().to_owned()).expect("checked when it was made"),
            retry: step.retry.as_ref().map(ToString::to_string),
            terms: Self::of(&step.terms).map(Box::new),
        };
        Some(Self { timeout: inner.timeout.map(print_span), on_exhausted: inner.on_exhausted.as_ref().map(step) })
    }

    fn read(self) -> Result<Terms, Invalid> {
        let mut terms = Terms::default();
        if let Some(timeout) = self.timeout {
            terms.set_timeout(parse_span("timeout", &timeout)?)?;
        }
        if let Some(step) = self.on_exhausted {
            terms.set_on_exhausted(Step {
                task: TaskName::new(step.task)?,
                args: Json::stored(step.args.get()),
                retry: step.retry.as_deref().map(str::parse::<RetryPolicy>).transpose()?,
                terms: step.terms.map_or_else(|| Ok(Terms::default()), |terms| terms.read())?,
            })?;
        }
        Ok(terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(task: &str, terms: Terms) -> Step {
        Step {
            task: TaskName::new(task).unwrap(),
            args: Json::parse("args", r#"{"n": 1.50, "a":[]}"#).unwrap(),
            retry: terms.is_empty().then(|| "durations:1s,2s".parse().unwrap()),
            terms,
        }
    }

    #[test]
    fn terms_read_back_to_the_letter_and_no_terms_are_nothing() {
        assert_eq!(Terms::default().to_text(), None);
        let mut last = Terms::default();
        last.set_timeout(Duration::from_millis(1_500)).unwrap();
        let mut terms = Terms::default();
        terms.set_on_exhausted(step("tell", last)).unwrap();
        terms.set_timeout(Duration::from_secs(90)).unwrap();
        let text = terms.to_text().unwrap();
        assert_eq!(Terms::from_text(&text).unwrap(), terms, "{text}");
        assert!(Terms::from_text(r#"{"timeout":"0s"}"#).is_err());
        assert!(Terms::default().set_timeout(Duration::MAX).is_err());
        assert!(Terms::default().set_timeout(Duration::from_nanos(1)).is_err());
        assert!(Terms::from_text(r#"{"time":"1s"}"#).is_err());
    }

    #[test]
    fn steps_do_not_follow_one_another_for_ever() {
        let mut terms = Terms::default();
        for _ in 0..MAX_STEPS {
            let before = std::mem::take(&mut terms);
            terms.set_on_exhausted(step("again", before)).unwrap();
        }
        let before = std::mem::take(&mut terms);
        assert!(terms.set_on_exhausted(step("again", before)).unwrap_err().to_string().contains("at most 16"));
    }
}
