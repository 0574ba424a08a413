//! A job to submit.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use turnwise_core::{Invalid, Priority, TaskName, Timestamp, TraceContext, time::parse_span};

use super::{
    Unreadable,
    object::{self, text, texts, truth},
};
use crate::JobRequest;

/// A job to submit, as its caller wrote it: every value is a text, and what is left out has its default.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Request<'a> {
    /// The task's name; not to be left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<Cow<'a, str>>,
    /// A UUIDv7 of the caller's choice, by which a repeated submit is recognised. Default: one of the library's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Cow<'a, str>>,
    /// JSON text. Default: `null`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "raw")]
    pub args: Option<&'a str>,
    /// Default: `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Cow<'a, str>>,
    /// Default: `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Cow<'a, str>>,
    /// The limit key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Cow<'a, str>>,
    /// 1 to 10, `high` or `low`. Default: 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Cow<'a, str>>,
    /// Not before this moment, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Cow<'a, str>>,
    /// Not before this long, such as `10m`; not together with `at`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#in: Option<Cow<'a, str>>,
    /// The retry policy, such as `exponential:10s,5`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Cow<'a, str>>,
    /// How long a run may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Cow<'a, str>>,
    /// If it has not begun after this long, it fails without having run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Cow<'a, str>>,
    /// The unique key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<Cow<'a, str>>,
    /// A unique key made from the task and its arguments; not together with `unique`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unique_by_args: bool,
    /// What the key is unique within.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique_scope: Option<Cow<'a, str>>,
    /// For how long the key is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique_for: Option<Cow<'a, str>>,
    /// `keep`, `reject` or `replace-args`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_duplicate: Option<Cow<'a, str>>,
    /// What others of the same [`Batch`](super::Batch) call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#as: Option<Cow<'a, str>>,
    /// Which jobs it waits for: ids, and in a [`Batch`](super::Batch) names, or `*` for all others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// What becomes of it if one of these fails: `fail`, `run` or `cancel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<Cow<'a, str>>,
    /// The task that it goes on as, with the same arguments, when its retries run out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_exhausted: Option<Cow<'a, str>>,
    /// The trace that it belongs to, as W3C's header of this name has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<Cow<'a, str>>,
    /// What other systems say about the trace; not without `traceparent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<Cow<'a, str>>,
    /// The task that it goes on as after a success, with the result as its arguments, or with its own if there is no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Cow<'a, str>>,
}

impl<'a> Request<'a> {
    const NAMES: [&'static str; 24] = [
        "task",
        "id",
        "args",
        "queue",
        "group",
        "key",
        "priority",
        "at",
        "in",
        "retry",
        "timeout",
        "expires",
        "unique",
        "unique_by_args",
        "unique_scope",
        "unique_for",
        "on_duplicate",
        "as",
        "after",
        "on_failure",
        "on_exhausted",
        "traceparent",
        "tracestate",
        "next",
    ];

    /// Reads one JSON object. [`Unreadable`] names the first field that is unknown, missing or of another kind. Values
    /// are checked by [`Request::to_request`].
    pub fn read(json: &'a str) -> Result<Self, Unreadable> {
        let mut request = Self::default();
        object::read(json, Self::NAMES, |name, value| request.put(name, value))?;
        Ok(request)
    }

    pub(super) fn put(&mut self, name: &'static str, value: &'a RawValue) -> Result<(), Invalid> {
        let place = match name {
            "args" => {
                self.args = Some(value.get());
                return Ok(());
            }
            "unique_by_args" => {
                self.unique_by_args = truth(name, value)?;
                return Ok(());
            }
            "after" => {
                self.after = texts(name, value)?;
                return Ok(());
            }
            // An object or an array is refused without repeating it.
            "priority" if !value.get().starts_with(['"', '{', '[']) => {
                self.priority = Some(Cow::Borrowed(value.get()));
                return Ok(());
            }
            "priority" => &mut self.priority,
            "task" => &mut self.task,
            "id" => &mut self.id,
            "queue" => &mut self.queue,
            "group" => &mut self.group,
            "key" => &mut self.key,
            "at" => &mut self.at,
            "in" => &mut self.r#in,
            "retry" => &mut self.retry,
            "timeout" => &mut self.timeout,
            "expires" => &mut self.expires,
            "unique" => &mut self.unique,
            "unique_scope" => &mut self.unique_scope,
            "unique_for" => &mut self.unique_for,
            "on_duplicate" => &mut self.on_duplicate,
            "as" => &mut self.r#as,
            "on_failure" => &mut self.on_failure,
            "on_exhausted" => &mut self.on_exhausted,
            "traceparent" => &mut self.traceparent,
            "tracestate" => &mut self.tracestate,
            "next" => &mut self.next,
            _ => return Err(Invalid::new(name, "is not known")),
        };
        *place = Some(text(name, value)?);
        Ok(())
    }

    /// The first value that is given and that a job keeps when it goes on as another task.
    pub(super) fn beyond_a_step(&self) -> Option<&'static str> {
        let given = [
            ("id", self.id.is_some()),
            ("queue", self.queue.is_some()),
            ("group", self.group.is_some()),
            ("key", self.key.is_some()),
            ("priority", self.priority.is_some()),
            ("expires", self.expires.is_some()),
            ("unique", self.unique.is_some()),
            ("unique_by_args", self.unique_by_args),
            ("unique_scope", self.unique_scope.is_some()),
            ("unique_for", self.unique_for.is_some()),
            ("on_duplicate", self.on_duplicate.is_some()),
            ("as", self.r#as.is_some()),
            ("after", !self.after.is_empty()),
            ("on_failure", self.on_failure.is_some()),
            ("traceparent", self.traceparent.is_some()),
            ("tracestate", self.tracestate.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// The job to submit, without those it waits for, or the first value that is invalid.
    pub fn to_request(&self) -> Result<JobRequest, Invalid> {
        let task = self.task.as_deref().ok_or_else(|| Invalid::new("task", "is missing"))?;
        let mut request = JobRequest::from_json(task, self.args.unwrap_or("null"));
        if let Some(id) = &self.id {
            let id = id.parse().map_err(|_| Invalid::new("id", format!("{id:?} is not a job id")))?;
            request = request.id(id);
        }
        if let Some(queue) = &self.queue {
            request = request.queue(queue);
        }
        if let Some(group) = &self.group {
            request = request.group(group);
        }
        if let Some(key) = &self.key {
            request = request.key(key);
        }
        if let Some(priority) = &self.priority {
            request = request.priority(priority.parse::<Priority>()?.get().into());
        }
        match (&self.at, &self.r#in) {
            (Some(_), Some(_)) => return Err(Invalid::new("in", "cannot be given together with at")),
            (Some(at), None) => request = request.at(at.parse::<Timestamp>()?),
            (None, Some(delay)) => request = request.delay(parse_span("in", delay)?),
            (None, None) => {}
        }
        if let Some(retry) = &self.retry {
            request = request.retry(retry.parse()?);
        }
        if let Some(limit) = &self.timeout {
            request = request.timeout(parse_span("timeout", limit)?);
        }
        if let Some(span) = &self.expires {
            request = request.begin_within(parse_span("expires", span)?);
        }
        match &self.unique {
            Some(_) if self.unique_by_args => {
                return Err(Invalid::new("unique_by_args", "cannot be given together with unique"));
            }
            Some(key) => request = request.unique(key),
            None if self.unique_by_args => request = request.unique_by_args(),
            None => {}
        }
        if let Some(scope) = &self.unique_scope {
            request = request.unique_within(scope.parse()?);
        }
        if let Some(period) = &self.unique_for {
            request = request.unique_for(parse_span("unique_for", period)?);
        }
        if let Some(policy) = &self.on_duplicate {
            request = request.on_duplicate(policy.parse()?);
        }
        if let Some(what) = &self.on_failure {
            request = request.on_failure(what.parse()?);
            if self.after.is_empty() {
                return Err(Invalid::new("on_failure", "has no effect without after"));
            }
        }
        if let Some(task) = &self.on_exhausted {
            TaskName::new(task).map_err(|invalid| Invalid::new("on_exhausted", invalid.problem))?;
            request = request.on_exhausted(JobRequest::from_json(task, self.args.unwrap_or("null")));
        }
        match (&self.traceparent, &self.tracestate) {
            (Some(parent), state) => request = request.trace(TraceContext::new(parent, state.as_deref())?),
            (None, Some(_)) => return Err(Invalid::new("tracestate", "has no effect without traceparent")),
            (None, None) => {}
        }
        if let Some(task) = &self.next {
            request = request.next(task);
        }
        // A request keeps its mistakes until it is submitted; here they must be known while its place is.
        request.clone().into_job(Timestamp::MIN)?;
        Ok(request)
    }
}

/// JSON text is written as it is.
fn raw<S: serde::Serializer>(json: &Option<&str>, serializer: S) -> Result<S::Ok, S::Error> {
    let json: Option<&RawValue> =
        json.map(serde_json::from_str).transpose().map_err(<S::Error as serde::ser::Error>::custom)?;
    json.serialize(serializer)
}
