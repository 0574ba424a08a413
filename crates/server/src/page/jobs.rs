//! Lists of jobs: by a filter that stands in the address, so that a view can be passed on.

use std::borrow::Borrow;

use askama::Template;
use serde::Deserialize;
use serde_json::json;
use turnwise::{
    Timestamp,
    filter::{FilterError, JobFilter},
};

use crate::{
    call::Reply,
    page::{
        Visit,
        frame::Frame,
        numbers::Numbers,
        recipe::{Command, Recipe},
        shown::{Count, Shown, span},
        suggest,
        visit::{parameters, render},
    },
    problem::Problem,
};

/// A [`turnwise::wire::Job`] in a list.
#[derive(Debug, Deserialize)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) task: String,
    pub(crate) queue: String,
    pub(crate) group: String,
    pub(crate) state: String,
    pub(crate) attempt: u32,
    pub(crate) error: Option<String>,
    pub(crate) submitted_at: Timestamp,
    #[serde(default)]
    started_at: Option<Timestamp>,
    #[serde(default)]
    finished_at: Option<Timestamp>,
    #[serde(default)]
    pub(crate) waits_for: Vec<String>,
    #[serde(default)]
    pub(crate) cancel_requested: bool,
}

impl Row {
    /// As short as two jobs of a page can be told apart.
    pub(crate) fn short(&self) -> &str {
        short(&self.id)
    }

    /// How long it ran, or runs until now; nothing while it waits for another run.
    fn ran(&self, now: impl Borrow<Timestamp>) -> Option<String> {
        let until = match self.state.as_str() {
            "running" => *now.borrow(),
            "waiting" | "scheduled" => return None,
            _ => self.finished_at?,
        };
        Some(span(until.since(self.started_at.filter(|started| *started <= until)?)))
    }

    /// What there is to say about it besides what holds it up, in a line.
    fn note(&self) -> String {
        let asked = self.cancel_requested && !matches!(self.state.as_str(), "success" | "failed" | "cancelled");
        let asked = asked.then(|| "is asked to stop".to_owned());
        let error = self.error.as_ref().filter(|_| matches!(self.state.as_str(), "stuck" | "failed")).cloned();
        asked.into_iter().chain(error).collect::<Vec<_>>().join("; ")
    }
}

/// The end of an id: it begins with a time, which many share.
pub(crate) fn short(id: &str) -> &str {
    id.len().checked_sub(8).and_then(|from| id.get(from..)).unwrap_or(id)
}

/// A [`turnwise::wire::Jobs`].
#[derive(Debug, Deserialize)]
pub(crate) struct Page {
    pub(crate) jobs: Vec<Row>,
    pub(crate) next: Option<String>,
    pub(crate) reached: Option<Timestamp>,
}

/// What is counted cheaply.
#[derive(Debug, Default, Deserialize)]
struct Totals {
    waiting: u64,
    scheduled: u64,
    running: u64,
    stuck: u64,
    at_least: bool,
}

/// What is wrong with a filter.
#[derive(Debug)]
struct Wrong {
    problem: String,
    /// The filter up to the place that is wrong, the character there, and the rest; `None`: it is about no place.
    place: Option<(String, String, String)>,
}

impl Wrong {
    fn of(filter: &str, problem: &Problem) -> Self {
        let split = |error: FilterError| {
            let (before, rest) = filter.split_at_checked(error.at)?;
            let end = rest.chars().next().map_or(0, char::len_utf8);
            Some((before.to_owned(), rest[..end].to_owned(), rest[end..].to_owned()))
        };
        let place = filter.parse::<JobFilter>().err().and_then(split);
        Self { problem: problem.detail().to_owned(), place }
    }
}

/// A view of one state.
#[derive(Debug)]
struct Tab {
    label: &'static str,
    href: String,
    count: Option<Count>,
    /// Whether these are those of the last hour: nobody counts all that ever ended.
    hour: bool,
    current: bool,
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct Jobs {
    frame: Frame,
    filter: String,
    tabs: Vec<Tab>,
    page: Page,
    /// The page that follows.
    older: Option<String>,
    /// Whether this is not the first page.
    later: bool,
    /// Whole filters that may be written next, for a browser without the script.
    words: Vec<String>,
    /// Whether the filter could not be read, and why.
    wrong: Option<Wrong>,
    decides: bool,
    recipe: Recipe,
    submit: Recipe,
}

impl Jobs {
    fn age(&self, at: impl Borrow<Timestamp>) -> String {
        at.borrow().age(self.frame.now)
    }

    fn narrowed(&self, name: &str, value: &str) -> String {
        let word = format!("{name}:{}", quoted(value));
        let filter = if self.filter.is_empty() { word } else { format!("{} {word}", self.filter) };
        self.frame.jobs(&filter)
    }
}

/// A value as a filter has it.
pub(crate) fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./@".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        value.to_owned()
    } else {
        format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

const TABS: [(&str, &str); 8] = [
    ("All", ""),
    ("Waiting", "waiting"),
    ("Running", "scheduled,running"),
    ("Stuck", "stuck"),
    ("Succeeded", "success"),
    ("Failed", "failed"),
    ("Cancelled", "cancelled"),
    ("Unfinished", "waiting,scheduled,running,stuck"),
];
/// Jobs of a page.
const LISTED: &str = "50";

/// The filter without its states, and these.
fn split(filter: &str) -> (String, Option<&str>) {
    let is_state = |word: &&str| word.starts_with("state:") || word.starts_with("state=");
    let words = conditions(filter);
    let states = words.iter().copied().find(is_state).map(|word| &word[6..]);
    (words.into_iter().filter(|word| !is_state(word)).collect::<Vec<_>>().join(" "), states)
}

/// The conditions of a filter: a text between quotation marks is left as it is, also if it has a space or a state's word in it.
fn conditions(filter: &str) -> Vec<&str> {
    let (mut quoted, mut escaped) = (false, false);
    let ends = |c: char| {
        let ends = !quoted && c.is_whitespace();
        (quoted, escaped) = match c {
            '"' if !escaped => (!quoted, false),
            '\\' => (quoted, quoted && !escaped),
            _ => (quoted, false),
        };
        ends
    };
    filter.split(ends).filter(|word| !word.is_empty()).collect()
}

/// What ended in the last hour; `None`: the caller may not know it.
async fn ended(visit: &Visit) -> Result<Option<Numbers>, Problem> {
    let asked = [("by", "queue"), ("step", "minute")];
    match visit.kept_of("getStatistics", &asked).await? {
        None if visit.may("getStatistics") => visit.get("getStatistics", "", &asked).await.map(Some),
        known => Ok(known),
    }
}

pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    let filter = visit.query.get("filter").unwrap_or_default().trim().to_owned();
    let cursor = visit.query.get("cursor");
    let asked: Vec<_> = [("limit", LISTED)]
        .into_iter()
        .chain((!filter.is_empty()).then_some(("filter", filter.as_str())))
        .chain(cursor.map(|cursor| ("cursor", cursor)))
        .collect();
    let (page, wrong) = match visit.get::<Page>("listJobs", "", &asked).await {
        Ok(page) => (page, None),
        Err(problem) if problem.status() == 422 => {
            (Page { jobs: Vec::new(), next: None, reached: None }, Some(Wrong::of(&filter, &problem)))
        }
        Err(problem) => return Err(problem),
    };
    let totals: Totals =
        if visit.may("getOverview") { visit.get("getOverview", "", &[]).await? } else { Totals::default() };
    let frame = Frame::of(&visit, "jobs", "Jobs").json(format!("jobs{}", parameters(asked.iter().copied())));
    let (others, states) = split(&filter);
    let count = |state: &str| {
        let number = match state {
            "waiting" => totals.waiting,
            "scheduled,running" => totals.scheduled + totals.running,
            "stuck" => totals.stuck,
            _ => return None,
        };
        Some(Count { number, at_least: totals.at_least })
    };
    let ended = if others.is_empty() { ended(&visit).await? } else { None };
    let of_last_hour = |state: &str| {
        let ended = ended.as_ref()?;
        let number = match state {
            "success" => ended.points.iter().map(|point| point.success).sum(),
            "failed" => ended.points.iter().map(|point| point.failed).sum(),
            "cancelled" => ended.points.iter().map(|point| point.cancelled).sum(),
            _ => return None,
        };
        Some(Count::exact(number))
    };
    let tabs = TABS.into_iter().map(|(label, state)| {
        let word = if state.is_empty() { String::new() } else { format!("state:{state}") };
        let to = [word.as_str(), others.as_str()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
        Tab {
            label,
            href: if to.is_empty() { format!("{}jobs", frame.root) } else { frame.jobs(to.join(" ")) },
            // The numbers are those of all jobs.
            count: if others.is_empty() { count(state).or_else(|| of_last_hour(state)) } else { None },
            hour: count(state).is_none(),
            current: states.unwrap_or_default() == state,
        }
    });
    let older = page.next.as_ref().map(|next| {
        let pairs =
            (!filter.is_empty()).then_some(("filter", filter.as_str())).into_iter().chain([("cursor", next.as_str())]);
        format!("{}jobs{}", frame.root, parameters(pairs))
    });
    let command = Command::new("jobs");
    let command = if filter.is_empty() { command } else { command.value(&filter) };
    let recipe = visit.table("listJobs", "", &asked, Some(command));
    let submit = Command::new("enqueue").value("noop").option("--group", "acme");
    let submit = visit.action("submitJob", "", Some(&json!({ "task": "noop", "group": "acme" })), Some(submit));
    let tabs = tabs.collect();
    let words = suggest::words(&filter, &page.jobs);
    let decides = visit.may("cancelJobs");
    render(&Jobs { later: cursor.is_some(), frame, filter, tabs, page, older, words, wrong, decides, recipe, submit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tab_changes_the_states_of_a_filter_and_nothing_else() {
        assert_eq!(split("task:a state:failed group:b"), ("task:a group:b".to_owned(), Some("failed")));
        for text in [r#"error~"a state:x y""#, r#"error~"say \" state:x" -state:stuck"#] {
            assert_eq!(split(text), (text.to_owned(), None));
            assert_eq!(split(&format!("{text} state:failed")), (text.to_owned(), Some("failed")));
        }
    }

    #[test]
    fn values_of_a_filter_are_quoted_where_they_must_be() {
        assert_eq!(
            (quoted("acme-1"), quoted("a b"), quoted("a\"\\")),
            ("acme-1".to_owned(), "\"a b\"".to_owned(), "\"a\\\"\\\\\"".to_owned())
        );
    }
}
