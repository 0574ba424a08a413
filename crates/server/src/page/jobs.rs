//! Lists of jobs: by a filter that stands in the address, so that a view can be passed on.

use std::borrow::Borrow;

use askama::Template;
use serde::Deserialize;
use serde_json::json;
use turnwise::Timestamp;

use crate::{
    call::Reply,
    page::{
        Visit,
        frame::Frame,
        recipe::{Command, Recipe},
        shown::Shown,
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
    pub(crate) waits_for: Vec<String>,
    #[serde(default)]
    pub(crate) cancel_requested: bool,
}

impl Row {
    /// As short as two jobs of a page can be told apart.
    pub(crate) fn short(&self) -> &str {
        short(&self.id)
    }

    /// What there is to say about it, in a line.
    fn note(&self) -> String {
        let asked = self.cancel_requested && !matches!(self.state.as_str(), "success" | "failed" | "cancelled");
        let asked = asked.then(|| "is asked to stop".to_owned());
        let error = self.error.as_ref().filter(|_| matches!(self.state.as_str(), "stuck" | "failed")).cloned();
        asked.into_iter().chain(error).chain(self.waits_for.iter().cloned()).collect::<Vec<_>>().join("; ")
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

/// A view of one state.
#[derive(Debug)]
struct Tab {
    label: &'static str,
    href: String,
    count: Option<crate::page::shown::Count>,
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
    /// Whether the filter could not be read, and why.
    wrong: Option<String>,
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
    let states = filter.split_whitespace().find(is_state).map(|word| &word[6..]);
    let others = filter.split_whitespace().filter(|word| !is_state(word)).collect::<Vec<_>>().join(" ");
    // A text in quotation marks is left as it is: it may have a state's word in it.
    if filter.contains('"') { (filter.to_owned(), None) } else { (others, states) }
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
            (Page { jobs: Vec::new(), next: None, reached: None }, Some(problem.detail().to_owned()))
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
        Some(crate::page::shown::Count { number, at_least: totals.at_least })
    };
    let tabs = TABS.into_iter().map(|(label, state)| {
        let word = if state.is_empty() { String::new() } else { format!("state:{state}") };
        let to = [word.as_str(), others.as_str()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
        Tab {
            label,
            href: if to.is_empty() { format!("{}jobs", frame.root) } else { frame.jobs(to.join(" ")) },
            // The numbers are those of all jobs.
            count: if others.is_empty() { count(state) } else { None },
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
    let decides = visit.may("cancelJobs");
    render(&Jobs { later: cursor.is_some(), frame, filter, tabs, page, older, wrong, decides, recipe, submit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tab_changes_the_states_of_a_filter_and_nothing_else() {
        assert_eq!(split("task:a state:failed group:b"), ("task:a group:b".to_owned(), Some("failed")));
        assert_eq!(split("error~\"state:x y\""), ("error~\"state:x y\"".to_owned(), None));
    }

    #[test]
    fn values_of_a_filter_are_quoted_where_they_must_be() {
        assert_eq!(
            (quoted("acme-1"), quoted("a b"), quoted("a\"\\")),
            ("acme-1".to_owned(), "\"a b\"".to_owned(), "\"a\\\"\\\\\"".to_owned())
        );
    }
}
