//! What few jobs have: a time limit of their own, another step when their retries run out or when they succeed, a trace that they belong to.
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
    trace_context::TraceContext,
};

/// Most steps that may follow one another by `on_exhausted`.
const MAX_STEPS: usize = 16;

/// Optional conditions of a job: a time limit for each run, the step that follows when its retries run out, the task that follows a
/// success, and its submitter's trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Terms(Option<Box<Inner>>);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Inner {
    timeout: Option<Duration>,
    on_exhausted: Option<Step>,
    trace: Option<TraceContext>,
    next: Option<TaskName>,
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

    /// The trace of its submitter.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.0.as_ref()?.trace.as_ref()
    }

    /// Sets it.
    pub fn set_trace(&mut self, trace: TraceContext) {
        self.0.get_or_insert_default().trace = Some(trace);
    }

    /// The same without the trace.
    #[must_use]
    pub fn without_trace(mut self) -> Self {
        if let Some(inner) = &mut self.0 {
            inner.trace = None;
        }
        if self.0.as_deref() == Some(&Inner::default()) { Self::default() } else { self }
    }

    /// These terms for a step that follows a job with those: it belongs to the same trace, unless it has one of its own.
    pub(crate) fn in_trace_of(&mut self, job: &Terms) {
        if let (None, Some(trace)) = (self.trace(), job.trace()) {
            self.set_trace(trace.clone());
        }
    }

    /// What the job goes on as after a success, with the result as its arguments, or with its own if there is no result.
    pub fn next(&self) -> Option<&TaskName> {
        self.0.as_ref()?.next.as_ref()
    }

    /// See [`Terms::next`].
    pub fn set_next(&mut self, task: TaskName) {
        self.0.get_or_insert_default().next = Some(task);
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

    /// Every task that the job may go on as by these terms, with those of the steps that follow.
    pub fn tasks(&self) -> impl Iterator<Item = &TaskName> {
        let steps = std::iter::successors(self.on_exhausted(), |step| step.terms.on_exhausted());
        let of_steps = steps.flat_map(|step| [&step.task].into_iter().chain(step.terms.next()));
        self.next().into_iter().chain(of_steps)
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tracestate: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<String>,
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
        Some(Self {
            timeout: inner.timeout.map(print_span),
            on_exhausted: inner.on_exhausted.as_ref().map(step),
            traceparent: inner.trace.as_ref().map(|trace| trace.traceparent().to_owned()),
            tracestate: inner.trace.as_ref().and_then(|trace| trace.tracestate().map(str::to_owned)),
            next: inner.next.as_ref().map(ToString::to_string),
        })
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
        if let Some(parent) = &self.traceparent {
            terms.set_trace(TraceContext::new(parent, self.tracestate.as_deref())?);
        }
        if let Some(task) = self.next {
            terms.set_next(TaskName::new(task)?);
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

    fn trace(digit: char) -> TraceContext {
        let id = digit.to_string().repeat(32);
        TraceContext::new(&format!("00-{id}-b7ad6b7169203331-01"), Some("a=1")).unwrap()
    }

    #[test]
    fn a_step_belongs_to_the_trace_of_its_job_unless_it_has_its_own() {
        let (mut job, mut other) = (Terms::default(), Terms::default());
        job.set_trace(trace('1'));
        other.set_trace(trace('2'));
        for (mut step, expected) in [(Terms::default(), trace('1')), (other, trace('2'))] {
            step.in_trace_of(&job);
            assert_eq!(step.trace(), Some(&expected));
        }
        let mut step = Terms::default();
        step.in_trace_of(&Terms::default());
        assert!(step.is_empty());
    }

    #[test]
    fn terms_read_back_to_the_letter_and_no_terms_are_nothing() {
        assert_eq!(Terms::default().to_text(), None);
        let mut last = Terms::default();
        last.set_timeout(Duration::from_millis(1_500)).unwrap();
        let mut terms = Terms::default();
        terms.set_on_exhausted(step("tell", last)).unwrap();
        terms.set_timeout(Duration::from_secs(90)).unwrap();
        terms.set_trace(trace('1'));
        terms.set_next(TaskName::new("send").unwrap());
        let text = terms.to_text().unwrap();
        assert_eq!(Terms::from_text(&text).unwrap(), terms, "{text}");
        assert!(Terms::from_text(r#"{"timeout":"0s"}"#).is_err());
        assert!(Terms::default().set_timeout(Duration::MAX).is_err());
        assert!(Terms::default().set_timeout(Duration::from_nanos(1)).is_err());
        assert!(Terms::from_text(r#"{"time":"1s"}"#).is_err());
    }

    #[test]
    fn all_tasks_that_may_follow_are_named_those_of_later_steps_too() {
        let mut last = Terms::default();
        last.set_next(TaskName::new("thank").unwrap());
        let mut middle = Terms::default();
        middle.set_on_exhausted(step("tell", last)).unwrap();
        let mut terms = Terms::default();
        terms.set_on_exhausted(step("again", middle)).unwrap();
        terms.set_next(TaskName::new("send").unwrap());
        assert_eq!(terms.tasks().map(TaskName::as_str).collect::<Vec<_>>(), ["send", "again", "tell", "thank"]);
        assert_eq!(Terms::default().tasks().count(), 0);
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
