//! My jobs: the plain page of a tenant. What runs, how far it is and its last lines; what waits, and for what; what has ended.
//!
//! It is made of lists by group, which an index serves: a quiet group's page is as complete and as quick as a loud one's. Of other
//! tenants' jobs it shows numbers alone, as the API does.

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
        jobs::short,
        recipe::{Command, Recipe},
        shown::{Count, Shown, span},
        visit::{encoded, render},
    },
    problem::Problem,
};

/// A [`turnwise::wire::Job`], as far as this page shows it.
#[derive(Debug, Deserialize)]
struct Entry {
    id: String,
    task: String,
    group: String,
    priority: u8,
    state: String,
    error: Option<String>,
    submitted_at: Timestamp,
    due_at: Option<Timestamp>,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    waits_for: Vec<String>,
    cancel_requested: bool,
    /// What its viewer can do about it with a button alone.
    #[serde(skip)]
    deeds: Vec<Deed>,
    /// Whether its priority can be changed.
    #[serde(skip)]
    change: Option<Recipe>,
}

/// One thing to do to a job.
#[derive(Debug)]
struct Deed {
    label: &'static str,
    path: String,
    recipe: Recipe,
}

/// A [`turnwise::wire::Jobs`].
#[derive(Debug, Deserialize)]
struct List {
    jobs: Vec<Entry>,
    next: Option<String>,
    reached: Option<Timestamp>,
}

/// What a [`turnwise::wire::JobInFull`] has beside.
#[derive(Debug, Deserialize)]
struct InFull {
    progress: Option<Progress>,
}

#[derive(Debug, Deserialize)]
struct Progress {
    done: u64,
    total: Option<u64>,
    text: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Log {
    lines: Vec<Line>,
}

#[derive(Debug, Deserialize)]
struct Line {
    at: Timestamp,
    level: String,
    run: i64,
    line: u32,
    text: String,
}

/// A job in a node's hands.
#[derive(Debug)]
struct Running {
    job: Entry,
    progress: Option<Progress>,
    log: Vec<Line>,
}

#[derive(Template)]
#[template(path = "mine.html")]
struct Mine {
    frame: Frame,
    /// Whether several groups' jobs are shown.
    several: bool,
    running: Vec<Running>,
    more_running: bool,
    waiting: List,
    ended: List,
    /// Whether anything can be done.
    operates: bool,
    explains: bool,
    recipe: Recipe,
}

impl Entry {
    fn short(&self) -> &str {
        short(&self.id)
    }

    /// How long it runs, or ran.
    fn ran(&self, now: impl Borrow<Timestamp>) -> Option<String> {
        Some(span(self.finished_at.unwrap_or(*now.borrow()).since(self.started_at?)))
    }

    /// When it is due, if that is still to come.
    fn due(&self, now: impl Borrow<Timestamp>) -> Option<Timestamp> {
        self.due_at.filter(|due| due > now.borrow())
    }

    fn with_deeds(self, visit: &Visit) -> Self {
        let ended = matches!(self.state.as_str(), "success" | "failed" | "cancelled");
        let all = [
            ("cancelJob", "cancel", "Cancel", !ended && !self.cancel_requested),
            ("retryJob", "retry", "Run again", matches!(self.state.as_str(), "stuck" | "failed" | "cancelled")),
        ];
        let deed = |(route, verb, label, _)| Deed {
            label,
            path: format!("jobs/{}/{verb}", encoded(&self.id)),
            recipe: visit.action(route, &self.id, None, Some(Command::new(verb).value(&self.id))),
        };
        let possible = all.into_iter().filter(|(route, .., possible)| *possible && visit.may(route));
        let deeds = possible.map(deed).collect();
        let changes = visit.may("changeJob") && matches!(self.state.as_str(), "waiting" | "stuck");
        let command = || Command::new("change").value(&self.id).option("--priority", "1");
        let change =
            changes.then(|| visit.action("changeJob", &self.id, Some(&json!({"priority": 1})), Some(command())));
        Self { deeds, change, ..self }
    }
}

impl List {
    fn count(&self) -> Count {
        Count { number: self.jobs.len() as u64, at_least: self.next.is_some() }
    }

    /// The one of these that has waited longest.
    fn oldest(&self) -> Option<&Entry> {
        self.jobs.last()
    }
}

impl Mine {
    fn is_empty(&self) -> bool {
        self.running.is_empty() && self.waiting.jobs.is_empty() && self.ended.jobs.is_empty()
    }
}

/// Where it is.
pub(crate) const PATH: &str = "mine";
/// Jobs of each list.
const LISTED: &str = "20";
/// Running jobs that are shown with their progress and their log: each is two more reads.
const SHOWN: usize = 5;
/// Lines of each of their logs.
const LINES: &str = "3";

/// Whether a caller is a tenant, who sees jobs of groups of its own alone: then this page is its first.
pub(crate) fn is_for(visit: &Visit) -> bool {
    visit.asker.caller.grant.limits().groups.is_some()
}

async fn list(visit: &Visit, group: &str, states: &str) -> Result<List, Problem> {
    let all = [("state", states), ("limit", LISTED), ("group", group)];
    let asked = if group.is_empty() { &all[..2] } else { &all[..] };
    let mut list: List = visit.get("listJobs", "", asked).await?;
    list.jobs = list.jobs.into_iter().map(|job| job.with_deeds(visit)).collect();
    Ok(list)
}

pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    let group = visit.query.get("group").unwrap_or_default().to_owned();
    let in_hands = list(&visit, &group, "running,scheduled").await?;
    let more_running = in_hands.next.is_some();
    let mut running = Vec::new();
    for (at, job) in in_hands.jobs.into_iter().enumerate() {
        running.push(if at < SHOWN {
            in_full(&visit, job).await?
        } else {
            Running { job, progress: None, log: vec![] }
        });
    }
    let waiting = list(&visit, &group, "waiting,stuck").await?;
    let ended = list(&visit, &group, "success,failed,cancelled").await?;
    let groups = visit.asker.caller.grant.limits().groups.as_ref();
    let several = group.is_empty() && groups.is_none_or(|groups| groups.len() > 1);
    let command = Command::new("jobs");
    let (asked, command) = match group.as_str() {
        "" => (vec![], command),
        group => (vec![("group", group)], command.option("--group", group)),
    };
    let recipe = visit.table("listJobs", "", &asked, Some(command));
    let frame = Frame::of(&visit, PATH, "My jobs");
    render(&Mine {
        frame,
        several,
        running,
        more_running,
        waiting,
        ended,
        operates: visit.may("cancelJob"),
        explains: visit.may("whyJob"),
        recipe,
    })
}

async fn in_full(visit: &Visit, job: Entry) -> Result<Running, Problem> {
    let full: Result<InFull, Problem> = visit.get("getJob", &job.id, &[]).await;
    let log: Result<Log, Problem> = visit.get("getJobLog", &job.id, &[("limit", LINES)]).await;
    match (full, log) {
        (Ok(full), Ok(log)) => Ok(Running { job, progress: full.progress, log: log.lines }),
        // It ended meanwhile, and is not kept.
        (Err(gone), _) | (_, Err(gone)) if gone.status() == 404 => Ok(Running { job, progress: None, log: vec![] }),
        (Err(problem), _) | (_, Err(problem)) => Err(problem),
    }
}
