//! Whether a job meets a condition, by what may be shown of it.

use std::{borrow::Cow, cmp::Ordering};

use serde_json::value::RawValue;
use turnwise_core::{
    Job, JobState, Json,
    json::{Members, find, members},
    periodic::schedule_of,
    secret::Mask,
};

use super::{Check, Compare, Condition, Count, Decimal, Document, Literal, Pattern, Test};

impl Condition {
    /// Whether a job meets it. It is asked about nothing but what the mask leaves to be shown: no answer depends on a secret.
    pub(super) fn is_met(&self, job: &Job, mask: &Mask) -> bool {
        self.test.is_met(job, mask) != self.negated
    }
}

impl Test {
    fn is_met(&self, job: &Job, mask: &Mask) -> bool {
        match self {
            Self::State(states) => states.contains(&job.state),
            Self::Queue(names) => names.contains(&job.queue),
            Self::Group(names) => names.contains(&job.group),
            Self::Task(names) => names.contains(&job.task),
            Self::Node(names) => job.node.as_ref().is_some_and(|node| names.contains(node)),
            Self::Unique(keys) => job.unique.as_ref().is_some_and(|held| keys.contains(&held.key)),
            Self::Key(names) => job.key.as_ref().is_some_and(|key| names.contains(key)),
            // A job's id says which schedule has submitted it.
            Self::Schedule(names) => schedule_of(names, job.id).is_some(),
            Self::Fingerprint(kinds) => {
                let kind = job.fingerprint.as_ref().filter(|_| failed(job));
                kind.is_some_and(|kind| kinds.iter().any(|wanted| wanted.to_string() == *kind))
            }
            Self::Id(ids) => ids.iter().any(|ids| (ids.first..=ids.last).contains(&job.id)),
            // A search asks its list about times: it knows what time it is.
            Self::Since(_) | Self::Until(_) => true,
            Self::Number(count, compare, numbers) => {
                let number = match count {
                    Count::Priority => job.priority.get().into(),
                    Count::Attempt => job.attempt(),
                };
                numbers.iter().any(|wanted| compare.holds(number.cmp(wanted)))
            }
            Self::Error(patterns) => {
                let error = job.error.as_deref().filter(|_| failed(job)).map(|error| mask.text(error));
                error.is_some_and(|error| patterns.iter().any(|pattern| pattern.is_in(&error)))
            }
            Self::Value(document, path, check) => {
                let json: Option<Cow<'_, Json>> = match document {
                    Document::Args => Some(mask.shown(&job.args)),
                    Document::Result => job.result.as_ref().map(|result| mask.json(result)),
                };
                json.is_some_and(|json| check.is_met(&json, path))
            }
        }
    }
}

/// An error that a job got over is not what became of it.
fn failed(job: &Job) -> bool {
    !matches!(job.state, JobState::Success | JobState::Cancelled)
}

impl Compare {
    fn holds(self, found: Ordering) -> bool {
        match self {
            Self::Equal => found.is_eq(),
            Self::Less => found.is_lt(),
            Self::AtMost => found.is_le(),
            Self::More => found.is_gt(),
            Self::AtLeast => found.is_ge(),
        }
    }
}

impl Check {
    /// Whether any value at this place meets it; of an array also any of its items.
    fn is_met(&self, json: &Json, path: &[String]) -> bool {
        let Ok(root) = serde_json::from_str::<&RawValue>(json.as_str()) else { return false };
        let mut found = Vec::new();
        find(root, path, &mut found);
        found.into_iter().any(|value| match self {
            Self::Has(patterns) => patterns.iter().any(|pattern| pattern.is_in_value(value)),
            Self::Compare(compare, literals) => {
                let meets = |value: &RawValue| literals.iter().any(|literal| literal.compares(*compare, value));
                match members(value) {
                    Members::Array(items) => items.into_iter().any(meets),
                    _ => meets(value),
                }
            }
        })
    }
}

impl Literal {
    /// A number is compared with numbers, a text with texts; without quotation marks it is also equal to a text that looks the same.
    fn compares(&self, compare: Compare, value: &RawValue) -> bool {
        match members(value) {
            Members::Text(text) => {
                let comparable = self.number.is_none() || compare == Compare::Equal;
                comparable && compare.holds(text.as_str().cmp(&self.text))
            }
            Members::Other => match (&self.number, Decimal::parse(value.get())) {
                (Some(wanted), Some(number)) => compare.holds(number.cmp(wanted)),
                _ => compare == Compare::Equal && !self.quoted && value.get() == self.text,
            },
            Members::Object(_) | Members::Array(_) => false,
        }
    }
}

impl Pattern {
    /// Whether a value has the text: as JSON writes it, or in any text within it, however that is written.
    fn is_in_value(&self, value: &RawValue) -> bool {
        let json = value.get();
        match members(value) {
            Members::Text(text) => self.is_in(&text),
            Members::Other => self.is_in(json),
            _ if self.is_in(json) => true,
            // Without an escape there are no other texts in it.
            _ if !json.contains('\\') => false,
            Members::Object(entries) => {
                entries.into_iter().any(|(name, value)| self.is_in(&name) || self.is_in_value(value))
            }
            Members::Array(items) => items.into_iter().any(|item| self.is_in_value(item)),
        }
    }
}
