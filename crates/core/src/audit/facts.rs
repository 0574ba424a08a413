//! What is said of a thing in the audit log: names and values, as JSON of a bounded length.

use std::num::NonZeroU32;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::{
    access::{Grant, NewToken, Token},
    job::{Job, NewJob},
    json::Json,
    lifecycle::{Target, Transition},
    periodic::Periodic,
    retention::Retention,
    terms::Terms,
};

pub(super) type Facts = Map<String, Value>;

/// Longest value of one name, as JSON; of a longer one its hash is kept.
const MAX_VALUE_BYTES: usize = 1_000;
/// Longest of all together.
const MAX_BYTES: usize = 8_000;

/// What differs, on both sides; `None`: nothing does. A name that one side lacks is `null` there. Where a side is not there at all, the
/// other is recorded whole.
pub(super) fn difference(before: Option<Facts>, after: Option<Facts>) -> Option<(Option<Facts>, Option<Facts>)> {
    let (before, after) = match (before, after) {
        (Some(before), Some(after)) => (before, after),
        (None, None) => return None,
        one => return Some(one),
    };
    let names: Vec<_> =
        before.keys().chain(after.keys()).filter(|name| before.get(*name) != after.get(*name)).collect();
    if names.is_empty() {
        return None;
    }
    let side = |side: &Facts| {
        let value = |name: &&String| ((*name).clone(), side.get(*name).cloned().unwrap_or(Value::Null));
        names.iter().map(value).collect::<Facts>()
    };
    Some((Some(side(&before)), Some(side(&after))))
}

/// As text; what is too long is there as a hash.
pub(super) fn bounded(mut facts: Facts) -> Json {
    for value in facts.values_mut() {
        let text = value.to_string();
        if text.len() > MAX_VALUE_BYTES {
            *value = too_long(&text);
        }
    }
    let text = Value::Object(facts).to_string();
    Json::stored(if text.len() > MAX_BYTES { too_long(&text).to_string() } else { text })
}

fn too_long(text: &str) -> Value {
    json!({"bytes": text.len(), "sha256": hash(text)})
}

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Of arguments only a hash is recorded: they may be secret, and lines are kept for long.
fn hidden(args: &Json) -> String {
    format!("sha256:{}", hash(args.as_str()))
}

/// Which job it is.
pub(super) fn job_itself(job: &Job) -> Facts {
    let Job { task, queue, group, args, state, .. } = job;
    let facts = json!({"task": task, "queue": queue, "group": group, "args": hidden(args), "state": state.to_string()});
    object(facts)
}

/// A job that is made of another one.
pub(super) fn new_job(job: &NewJob) -> Facts {
    let NewJob { id, task, queue, group, args, priority, due, .. } = job;
    object(json!({
        "job": id, "task": task, "queue": queue, "group": group, "args": hidden(args), "priority": priority.get(), "due_at": due,
    }))
}

/// What a decision may change of a job.
pub(super) fn job_before(job: &Job) -> Facts {
    let Job { state, queue, priority, due_at, cancel_requested, .. } = job;
    let (state, priority) = (state.to_string(), priority.get());
    object(json!({
        "state": state, "queue": queue, "priority": priority, "due_at": due_at, "cancel_requested": cancel_requested,
    }))
}

pub(super) fn job_after(job: &Job, to: &Transition) -> Facts {
    let mut facts = job_before(job);
    let mut put = |name: &str, value: Value| drop(facts.insert(name.to_owned(), value));
    put("state", to.state(job.state).to_string().into());
    match &to.to {
        Target::CancelRequested => put("cancel_requested", true.into()),
        Target::Waiting { due } | Target::Next { due, .. } => put("due_at", due.to_string().into()),
        Target::Stuck { due } => put("due_at", json!(due)),
        Target::Edited(edit) => {
            if let Some(priority) = edit.priority {
                put("priority", priority.get().into());
            }
            if let Some(due) = edit.due {
                put("due_at", due.to_string().into());
            }
            if let Some(queue) = &edit.queue {
                put("queue", queue.name.as_str().into());
            }
        }
        Target::Scheduled | Target::Running | Target::Finish { .. } => {}
    }
    if to.clears.cancel {
        put("cancel_requested", false.into());
    }
    facts
}

/// Settings as they are stored; nothing stored: the defaults. What cannot be read, for example because a newer program has written it, is
/// recorded as it is.
pub(super) fn settings<S: Serialize + DeserializeOwned + Default>(text: Option<&str>) -> Facts {
    let read = text.map(serde_json::from_str::<S>).transpose();
    match (read, text) {
        (Ok(set), _) => object(json!(set.unwrap_or_default())),
        (Err(_), text) => unread(text.unwrap_or_default()),
    }
}

pub(super) fn schedule(text: &str) -> Facts {
    let Ok(mut periodic) = serde_json::from_str::<Periodic>(text) else {
        // It may have arguments somewhere.
        return object(json!({"unreadable": too_long(text)}));
    };
    periodic.args = Json::stored(json!(hidden(&periodic.args)).to_string());
    periodic.terms = without_args(&periodic.terms);
    let since = periodic.since.to_string();
    let mut facts = object(json!(periodic));
    facts.insert("since".to_owned(), since.into());
    facts
}

fn without_args(terms: &Terms) -> Terms {
    let mut hiding = Terms::default();
    if let Some(timeout) = terms.timeout() {
        // They were checked when they were set.
        let _ = hiding.set_timeout(timeout);
    }
    if let Some(step) = terms.on_exhausted() {
        let mut step = step.clone();
        step.args = Json::stored(json!(hidden(&step.args)).to_string());
        step.terms = without_args(&step.terms);
        let _ = hiding.set_on_exhausted(step);
    }
    if let Some(task) = terms.next() {
        hiding.set_next(task.clone());
    }
    hiding
}

fn unread(text: &str) -> Facts {
    let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    object(json!({"unreadable": value}))
}

pub(super) fn token(token: &NewToken) -> Facts {
    let NewToken { name, prefix, grant, rate, expires_at, .. } = token;
    let rate = rate.map(NonZeroU32::get);
    object(json!({"name": name, "prefix": prefix, "granted": grant, "rate": rate, "expires_at": expires_at}))
}

pub(super) fn ticket(given: &Grant, origins: &[String]) -> Facts {
    object(json!({"ticket": {"granted": given, "origins": origins}}))
}

pub(super) fn revoked(token: &Token) -> (Facts, Facts) {
    let Token { name, prefix, grant, .. } = token;
    let before = json!({"name": name, "prefix": prefix, "granted": grant, "revoked": false});
    (object(before), object(json!({"revoked": true})))
}

pub(super) fn kept(retention: Retention) -> Facts {
    object(json!({"retention": retention.to_string()}))
}

fn object(value: Value) -> Facts {
    match value {
        Value::Object(facts) => facts,
        other => Map::from_iter([("value".to_owned(), other)]),
    }
}
