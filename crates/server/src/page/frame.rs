//! What every page has around it: where one can go, who is logged in, what was just done, and how old the data is.

use std::time::{SystemTime, UNIX_EPOCH};

use turnwise::Timestamp;

use crate::page::{
    assets, mine,
    shown::Shown,
    visit::{Visit, encoded},
};

/// A place to go.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) path: &'static str,
    pub(crate) label: &'static str,
    /// What leads there after a `g`.
    pub(crate) key: Option<char>,
    pub(crate) current: bool,
}

/// What stands around a page.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) root: String,
    pub(crate) title: String,
    pub(crate) ways: Vec<Way>,
    /// What was asked for, for forms that come back here.
    pub(crate) here: String,
    /// Whose log-in it is.
    pub(crate) who: Option<String>,
    pub(crate) theme: Option<&'static str>,
    /// What the last form has done.
    pub(crate) done: Option<String>,
    /// When it was made.
    pub(crate) now: Timestamp,
    pub(crate) css: String,
    pub(crate) script: String,
    /// The same as JSON: a path of the API.
    pub(crate) json: Option<String>,
}

/// Path, label, and the route that a caller must be allowed for it.
const WAYS: &[(&str, &str, &str)] = &[
    ("", "Overview", "getOverview"),
    (mine::PATH, "My jobs", "listJobs"),
    ("fairness", "Fairness", "getStatistics"),
    ("jobs", "Jobs", "listJobs"),
    ("errors", "Errors", "listErrors"),
    ("queues", "Queues", "listQueues"),
    ("schedules", "Schedules", "listSchedules"),
    ("tasks", "Tasks", "listTasks"),
    ("nodes", "Nodes", "listNodes"),
    ("audit", "Audit", "listAudit"),
    ("tokens", "Tokens", "listTokens"),
];

impl Frame {
    /// Around the page with this title; `current` is the path of its place.
    pub(crate) fn of(visit: &Visit, current: &str, title: impl Into<String>) -> Self {
        // A tenant's first page is that of its jobs, and nobody else has jobs of its own.
        let other = if mine::is_for(visit) { "" } else { mine::PATH };
        let ways = WAYS.iter().filter(|(path, _, route)| *path != other && visit.may(route));
        Self {
            root: visit.root.clone(),
            title: title.into(),
            ways: ways.map(|(path, label, _)| Way { path, label, key: key(path), current: *path == current }).collect(),
            here: visit.here.clone(),
            who: visit.asker.caller.own_token().map(|token| token.name.to_string()),
            theme: visit.theme,
            done: visit.query.get("done").and_then(|done| super::errands::said(done, visit.query.get("count"))),
            now: now(),
            css: assets::link(&visit.root, assets::CSS),
            script: assets::link(&visit.root, assets::SCRIPT),
            json: None,
        }
    }

    /// Around a page for a person who is not logged in: it leads nowhere.
    pub(crate) fn outside(visit: &Visit, title: impl Into<String>) -> Self {
        Self { ways: Vec::new(), who: None, done: None, ..Self::of(visit, "login", title) }
    }

    /// When it was made, for people.
    pub(crate) fn made(&self) -> String {
        self.now.utc()
    }

    /// With the route that has the same as JSON.
    pub(crate) fn json(self, path: impl Into<String>) -> Self {
        Self { json: Some(path.into()), ..self }
    }

    /// As of the database's clock, where an answer of the API has told it.
    pub(crate) fn at(self, now: Timestamp) -> Self {
        Self { now, ..self }
    }

    /// A link to a job.
    pub(crate) fn job(&self, id: &str) -> String {
        format!("{}jobs/{}", self.root, encoded(id))
    }

    /// A link to the page of a queue, a group, a task or a schedule.
    pub(crate) fn named(&self, kind: &str, name: &str) -> String {
        format!("{}{kind}/{}", self.root, encoded(name))
    }

    /// A link to the jobs that have this.
    pub(crate) fn jobs(&self, filter: impl AsRef<str>) -> String {
        format!("{}jobs?filter={}", self.root, encoded(filter.as_ref()))
    }
}

/// As the script has it.
fn key(path: &str) -> Option<char> {
    match path {
        "" => Some('o'),
        "tokens" => Some('k'),
        mine::PATH => None,
        path => path.chars().next(),
    }
}

/// By this machine's clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(0).plus(since)
}
