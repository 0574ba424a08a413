//! The first page: what needs attention, and what is going on.

use std::borrow::Borrow;

use askama::Template;
use serde::Deserialize;
use serde_json::json;
use turnwise::Timestamp;

use crate::{
    call::Reply,
    page::{
        Visit,
        attention::{ERRORS, Item, Seen, items},
        errors::text_of,
        figure::Figure,
        frame::Frame,
        mine,
        numbers::{Numbers, throughput, waits},
        recipe::{Command, Recipe},
        shown::{Count, Shown},
        visit::render,
    },
    problem::Problem,
};

/// A [`turnwise::wire::Overview`].
#[derive(Debug, Deserialize)]
pub(crate) struct Totals {
    now: Timestamp,
    waiting: u64,
    scheduled: u64,
    running: u64,
    pub(crate) stuck: u64,
    at_least: bool,
    /// `None`, as the two below: the caller is limited.
    slots: Option<u64>,
    nodes: Option<u64>,
    dispatcher: Option<bool>,
}

impl Totals {
    pub(crate) fn count(&self, number: impl Borrow<u64>) -> Count {
        Count { number: *number.borrow(), at_least: self.at_least }
    }

    fn busy(&self) -> u64 {
        self.scheduled + self.running
    }

    /// Slots in use and slots, and on how many nodes if it is not one.
    fn used(&self) -> Option<(String, String)> {
        let (slots, nodes) = (self.slots?, self.nodes?);
        let on = if nodes == 1 { String::new() } else { format!(" on {nodes} nodes") };
        Some((format!("{} / {slots}", self.running), on))
    }

    fn dispatches(&self) -> bool {
        self.dispatcher == Some(true)
    }
}

/// A [`turnwise::wire::Finding`].
#[derive(Debug, Deserialize)]
pub(crate) struct Finding {
    pub(crate) subject: String,
    pub(crate) verdict: String,
    pub(crate) text: String,
    pub(crate) advice: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Findings {
    findings: Vec<Finding>,
}

/// A [`turnwise::wire::Queue`].
#[derive(Debug, Deserialize)]
pub(crate) struct Queue {
    pub(crate) name: String,
    state: String,
    waiting: u64,
    scheduled: u64,
    running: u64,
    stuck: u64,
    at_least: bool,
    pub(crate) oldest: Option<Timestamp>,
    pub(crate) held_by: Option<HeldBy>,
    pub(crate) paused: Option<Pause>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct HeldBy {
    pub(crate) job: String,
    pub(crate) task: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Pause {
    pub(crate) since: Timestamp,
    pub(crate) reason: Option<String>,
}

impl Queue {
    fn count(&self, number: impl Borrow<u64>) -> Count {
        Count { number: *number.borrow(), at_least: self.at_least }
    }
}

#[derive(Debug, Default, Deserialize)]
struct Queues {
    queues: Vec<Queue>,
}

/// A [`turnwise::wire::ErrorSeen`].
#[derive(Debug, Deserialize)]
pub(crate) struct ErrorSeen {
    pub(crate) fingerprint: String,
    pub(crate) queue: String,
    pub(crate) task: String,
    pub(crate) count: u64,
    pub(crate) last_seen: Timestamp,
    /// What it says.
    #[serde(skip)]
    pub(crate) text: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Errors {
    errors: Vec<ErrorSeen>,
}

/// A job in a node's hands.
#[derive(Debug, Deserialize)]
struct Running {
    id: String,
    task: String,
    group: String,
    state: String,
    node: Option<String>,
    started_at: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
struct Jobs {
    jobs: Vec<Running>,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    totals: Totals,
    items: Vec<Item>,
    /// The busiest of them.
    queues: Vec<Queue>,
    /// Since when the oldest job waits.
    oldest: Option<Timestamp>,
    throughput: Figure,
    waits: Figure,
    running: Vec<Running>,
    recipes: Recipes,
    /// Whether anything ever happened.
    empty: bool,
}

/// How each part is had without the page.
struct Recipes {
    findings: Option<Recipe>,
    statistics: Recipe,
    queues: Recipe,
    running: Recipe,
    submit: Recipe,
}

impl Recipes {
    fn of(visit: &Visit) -> Self {
        let new = json!({ "task": "noop", "group": "acme" });
        let submit = Command::new("enqueue").value("noop").option("--group", "acme");
        let running = "scheduled,running";
        Self {
            findings: visit.may("diagnose").then(|| visit.table("diagnose", "", &[], Some(Command::new("doctor")))),
            statistics: visit.table("getStatistics", "", &[("by", "queue"), ("step", "minute")], None),
            queues: visit.table("listQueues", "", &[], Some(Command::new("queues"))),
            running: visit.table(
                "listJobs",
                "",
                &[("state", running)],
                Some(Command::new("jobs").option("--state", running)),
            ),
            submit: visit.action("submitJob", "", Some(&new), Some(submit)),
        }
    }
}

/// Queues and jobs that are listed.
const LISTED: usize = 10;

pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    if mine::is_for(&visit) {
        return Ok(visit.go(mine::PATH));
    }
    let totals: Totals = visit.get("getOverview", "", &[]).await?;
    let now = totals.now;
    let frame = Frame::of(&visit, "", "Overview").at(now).json("overview");
    let findings: Findings = visit.kept("diagnose").await?.unwrap_or_default();
    let Queues { mut queues } = visit.get("listQueues", "", &[("limit", "1000")]).await?;
    // By the minute, so that pages that are read again ask the same.
    let minute = Timestamp::from_micros(now.micros() - now.micros().rem_euclid(60_000_000));
    let hour = minute.minus(std::time::Duration::from_secs(3_600)).to_string();
    let Errors { mut errors } = visit.get("listErrors", "", &[("since", &hour)]).await?;
    for error in errors.iter_mut().take(ERRORS) {
        error.text = text_of(&visit, error).await?;
    }
    let numbers = Numbers::of_last_hour(&visit, "queue", &[]).await?;
    let Jobs { jobs: running } =
        visit.get("listJobs", "", &[("state", "running,scheduled"), ("limit", &LISTED.to_string())]).await?;
    let minutes = numbers.minutes(now);
    let seen = Seen { findings: &findings.findings, queues: &queues, errors: &errors, totals: &totals, now };
    let items = items(&seen, &frame);
    let oldest = queues.iter().filter_map(|queue| queue.oldest).min();
    queues.sort_by_key(|queue| std::cmp::Reverse((queue.waiting + queue.running, queue.stuck)));
    queues.truncate(LISTED);
    let empty = queues.is_empty() && numbers.points.is_empty();
    let throughput = Figure::of(&throughput(&minutes));
    let waits = Figure::of(&waits(&minutes));
    let recipes = Recipes::of(&visit);
    render(&Overview { frame, totals, items, queues, oldest, throughput, waits, running, recipes, empty })
}
