//! The filter language: which jobs, in a few words, the same on a page, over HTTP and on the command line.
//!
//! `docs/filters.md` has the grammar. [`JobFilter`] is a filter as it was written; [`JobFilter::at`] makes a [`Search`] of it, as of one
//! moment: what an index serves is a [`ListFilter`](crate::ListFilter), and the rest is looked at job by job
//! ([`Turnwise::search`](crate::Turnwise::search)), here and never in SQL, where one odd value would fail the whole list. [`suggest`] says
//! what may be written next.
//!
//! ```
//! # #[tokio::main] async fn main() -> Result<(), turnwise::Error> {
//! use turnwise::{JobRequest, Turnwise, filter::JobFilter};
//!
//! let turnwise = Turnwise::open("memory:").await?;
//! turnwise.submit_all((1..=12).map(|n| JobRequest::from_json("extract", &format!(r#"{{"pages":{n}}}"#)))).await?;
//! let filter: JobFilter = "task:extract args.pages>10".parse().map_err(turnwise::Invalid::from)?;
//! let page = turnwise.search(&mut filter.at(turnwise.now().await?), None, 100).await?;
//! assert_eq!(page.jobs.len(), 2);
//! # Ok(()) }
//! ```

mod meets;
mod number;
mod parse;
mod search;
mod suggest;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt, time::Duration};

use turnwise_core::{
    Fingerprint, GroupName, Invalid, JobId, JobState, KeyName, NodeName, QueueName, ScheduleName, TaskName, Timestamp,
    UniqueKey, time::print_span,
};

use number::Decimal;

pub use self::{
    parse::FilterError,
    search::Search,
    suggest::{Suggestion, Wanted, suggest},
};

/// Longest filter, in characters: each of its conditions may be asked of 20,000 jobs.
pub const MAX_FILTER_CHARS: usize = 1_000;

/// The fields that a condition may be about, as they are written. `args` and `result` have fields of their own: `args.customer.name`.
pub const FIELDS: [&str; 17] = [
    "state",
    "task",
    "queue",
    "group",
    "args",
    "error",
    "result",
    "since",
    "until",
    "fingerprint",
    "node",
    "unique",
    "key",
    "schedule",
    "priority",
    "attempt",
    "id",
];

/// Which jobs: all conditions must hold. Read with `parse`, and printed so that it is read as the same filter again.
///
/// ```
/// use turnwise::filter::JobFilter;
///
/// let filter: JobFilter = r#"task=extract state:failed,stuck -error~"timed out" since:2h"#.parse()?;
/// assert_eq!(filter.to_string(), r#"task:extract state:stuck,failed -error~"timed out" since:2h"#);
/// let error = "taks:extract".parse::<JobFilter>().unwrap_err();
/// assert!(error.to_string().starts_with(r#"at character 1: there is no field "taks"; did you mean "task"?"#));
/// # Ok::<(), turnwise::filter::FilterError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFilter {
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    negated: bool,
    test: Test,
}

/// What is asked of a job. Of several values any is enough.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    State(BTreeSet<JobState>),
    Queue(BTreeSet<QueueName>),
    Group(BTreeSet<GroupName>),
    Task(BTreeSet<TaskName>),
    Node(BTreeSet<NodeName>),
    Unique(BTreeSet<UniqueKey>),
    Key(BTreeSet<KeyName>),
    Schedule(BTreeSet<ScheduleName>),
    Fingerprint(BTreeSet<Fingerprint>),
    Id(BTreeSet<Ids>),
    Since(Moment),
    Until(Moment),
    Number(Count, Compare, BTreeSet<u32>),
    /// The error has one of these texts.
    Error(Vec<Pattern>),
    Value(Document, Vec<String>, Check),
}

/// The ids that begin with a text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Ids {
    first: JobId,
    last: JobId,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    At(Timestamp),
    Ago(Duration),
}

impl Moment {
    fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(span) => now.minus(span),
        }
    }
}

/// A number of a job's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count {
    Priority,
    Attempt,
}

/// A JSON document of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Document {
    Args,
    Result,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Check {
    Compare(Compare, Vec<Literal>),
    /// It has one of these texts.
    Has(Vec<Pattern>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compare {
    Equal,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// A value that values of a document are compared with. In quotation marks it is a text; otherwise what it looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Literal {
    text: String,
    quoted: bool,
    /// Of one that is not quoted.
    number: Option<Decimal>,
}

impl Literal {
    fn new(text: String, quoted: bool) -> Self {
        let number = if quoted { None } else { Decimal::parse(&text) };
        Self { text, quoted, number }
    }
}

/// A text to look for: its parts between the stars, one after the other, in any case.
///
/// No regular expression: an error's text is full of signs that mean something else there (`(os error 111)`, `Option<T>`, `a.b`), so a text
/// that is copied from a job would not find that job, or not be a pattern at all. This takes every text, has no error, and its cost is the
/// length of what it looks through, however it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    text: String,
    parts: Vec<String>,
}

impl Pattern {
    fn new(text: String) -> Self {
        let parts = text.split('*').filter(|part| !part.is_empty()).map(folded).collect();
        Self { text, parts }
    }

    fn is_in(&self, text: &str) -> bool {
        let text = folded(text);
        let mut rest = text.as_str();
        self.parts.iter().all(|part| match rest.find(part.as_str()) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        })
    }
}

/// Without the difference of upper and lower case; letter by letter, so that a part of a text is folded as within it.
fn folded(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

impl JobFilter {
    /// Whether it has no condition: every job is meant.
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// The states that it names as those that are meant; `None`: it names none.
    pub fn states(&self) -> Option<&BTreeSet<JobState>> {
        self.conditions.iter().find_map(|condition| match &condition.test {
            Test::State(states) if !condition.negated => Some(states),
            _ => None,
        })
    }

    /// Whether it names a time as so long ago: what it means depends on when it is asked.
    pub fn is_relative(&self) -> bool {
        let ago = |test: &Test| matches!(test, Test::Since(Moment::Ago(_)) | Test::Until(Moment::Ago(_)));
        self.conditions.iter().any(|condition| ago(&condition.test))
    }
}

impl From<FilterError> for Invalid {
    fn from(error: FilterError) -> Self {
        Self::new("filter", error.to_string())
    }
}

impl Compare {
    fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::More => ">",
            Self::AtLeast => ">=",
        }
    }
}

impl fmt::Display for JobFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, condition) in self.conditions.iter().enumerate() {
            if at > 0 {
                f.write_str(" ")?;
            }
            write!(f, "{condition}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { negated, test } = self;
        let name = |name: &str| name.to_owned();
        let (field, sign, values): (String, &str, Vec<String>) = match test {
            Test::State(values) => (name("state"), ":", bare(values)),
            Test::Queue(values) => (name("queue"), ":", bare(values)),
            Test::Group(values) => (name("group"), ":", bare(values)),
            Test::Task(values) => (name("task"), ":", bare(values)),
            Test::Node(values) => (name("node"), ":", bare(values)),
            Test::Unique(values) => (name("unique"), ":", bare(values)),
            Test::Key(values) => (name("key"), ":", bare(values)),
            Test::Schedule(values) => (name("schedule"), ":", bare(values)),
            Test::Fingerprint(values) => (name("fingerprint"), ":", bare(values)),
            Test::Id(ids) => (name("id"), ":", bare(ids.iter().map(|ids| &ids.text))),
            Test::Since(moment) => (name("since"), ":", vec![moment.to_string()]),
            Test::Until(moment) => (name("until"), ":", vec![moment.to_string()]),
            Test::Number(Count::Priority, compare, values) => (name("priority"), compare.sign(), bare(values)),
            Test::Number(Count::Attempt, compare, values) => (name("attempt"), compare.sign(), bare(values)),
            Test::Error(patterns) => (name("error"), "~", bare(patterns.iter().map(|pattern| &pattern.text))),
            Test::Value(document, path, check) => {
                let mut field = match document {
                    Document::Args => name("args"),
                    Document::Result => name("result"),
                };
                for part in path {
                    field.push('.');
                    field.push_str(&if parse::is_bare_name(part) { part.clone() } else { quoted(part) });
                }
                let write = |literal: &Literal| {
                    if literal.quoted { quoted(&literal.text) } else { literal.text.clone() }
                };
                match check {
                    Check::Compare(compare, values) => (field, compare.sign(), values.iter().map(write).collect()),
                    Check::Has(patterns) => (field, "~", bare(patterns.iter().map(|pattern| &pattern.text))),
                }
            }
        };
        let values = values.join(",");
        match (negated, sign) {
            (true, ":" | "=") => write!(f, "{field}!={values}"),
            (true, _) => write!(f, "-{field}{sign}{values}"),
            (false, _) => write!(f, "{field}{sign}{values}"),
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(at) => at.fmt(f),
            Self::Ago(span) => f.write_str(&print_span(*span)),
        }
    }
}

/// Each as it is read again: in quotation marks where it must be.
fn bare<T: fmt::Display>(values: impl IntoIterator<Item = T>) -> Vec<String> {
    let write = |value: T| {
        let text = value.to_string();
        if parse::is_bare_value(&text) { text } else { quoted(&text) }
    };
    values.into_iter().map(write).collect()
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
