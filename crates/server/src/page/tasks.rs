//! Tasks: how long they run, how often they fail, how much waits, who knows them, and their limits.

use std::{borrow::Borrow, cmp::Reverse, collections::BTreeMap};

use askama::Template;
use serde::Deserialize;
use serde_json::json;
use turnwise::Timestamp;
use turnwise_chart::{Colour, Lines, Measure, Series, Spark, State};

use crate::{
    call::Reply,
    page::{
        Visit,
        fairness::Tab,
        figure::Figure,
        frame::Frame,
        jobs::{Page as Jobs, quoted},
        numbers::{Numbers, Sum, line, unix},
        overview::ErrorSeen,
        recipe::{Command, Recipe},
        shown::{Count, Shown, span},
        visit::{encoded, parameters, render},
        window::Window,
    },
    problem::Problem,
};

/// A [`turnwise::wire::Task`].
#[derive(Debug, Deserialize)]
struct Task {
    name: String,
    waiting: u64,
    scheduled: u64,
    running: u64,
    stuck: u64,
    at_least: bool,
    concurrency: Option<u32>,
    rate: Option<String>,
    nodes: u64,
}

impl Task {
    fn count(&self, number: impl Borrow<u64>) -> Count {
        Count { number: *number.borrow(), at_least: self.at_least }
    }

    fn busy(&self) -> u64 {
        self.scheduled + self.running
    }

    /// What is set for it, in words.
    fn limits(&self) -> String {
        let most = self.concurrency.map(|most| format!("{most} at a time"));
        let limits: Vec<_> = most.into_iter().chain(self.rate.clone()).collect();
        if limits.is_empty() { "no limits".to_owned() } else { limits.join(", ") }
    }

    /// Something waits that no living node can run.
    fn is_stranded(&self) -> bool {
        self.nodes == 0 && self.waiting + self.stuck > 0
    }
}

#[derive(Debug, Deserialize)]
struct Listed {
    tasks: Vec<Task>,
    next: Option<String>,
}

/// A task, as a row.
struct Row {
    /// `None`: all that have no numbers of their own.
    name: Option<String>,
    /// `None`: it has no unfinished jobs and no settings, and no living node knows it.
    task: Option<Task>,
    sum: Sum,
    spark: String,
    set: Option<Recipe>,
}

impl Row {
    fn count(&self, number: impl Borrow<u64>) -> Count {
        Count::exact(*number.borrow())
    }

    fn label(&self) -> &str {
        self.name.as_deref().unwrap_or("all others")
    }

    fn ran(&self, part: f64) -> String {
        ran(&self.sum, part)
    }
}

fn ran(sum: &Sum, part: f64) -> String {
    sum.runs.quantile(part).map_or_else(|| "–".to_owned(), span)
}

#[derive(Template)]
#[template(path = "tasks.html")]
struct Tasks {
    frame: Frame,
    window: &'static Window,
    windows: Vec<Tab>,
    orders: Vec<Tab>,
    rows: Vec<Row>,
    more: Option<String>,
    first: Option<String>,
    /// Not all names were read.
    unread: bool,
    /// Whether this token sees no numbers by task.
    of_groups: bool,
    recipe: Recipe,
    statistics: Recipe,
    node: &'static str,
}

/// Tasks of a page.
const LISTED: usize = 50;
const ORDERS: [(&str, &str); 4] =
    [("failures", "Most failures"), ("slowest", "Slowest"), ("waiting", "Most waiting"), ("name", "Name")];
/// What starts a node that knows a task, for people who have none.
const NODE: &str = "turnwise serve --demo-tasks";

#[allow(clippy::cast_precision_loss)] // a chart is no more exact
fn spark(name: &str, failures: &[u64], window: &Window) -> String {
    let values = failures.iter().map(|count| Some(*count as f64)).collect();
    let title = format!("Runs of {name} that failed, by the {}", window.step);
    Spark { title, measure: Measure::Count, colour: Colour::State(State::Failed), values }.svg()
}

fn set(visit: &Visit, task: &str) -> Recipe {
    let command = Command::new("task set").value(task).option("--concurrency", "2").option("--rate", "10/1m");
    visit.action("setTask", task, Some(&json!({ "concurrency": 2, "rate": "10/1m" })), Some(command))
}

pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    let window = Window::of(&visit);
    let frame = Frame::of(&visit, "tasks", "Tasks");
    let now = frame.now;
    let Listed { tasks, next } = visit.get("listTasks", "", &[("limit", "1000")]).await?;
    let since = window.begin(now).to_string();
    let asked = [("by", "task"), ("step", window.step), ("since", since.as_str())];
    let numbers: Numbers = visit.get("getStatistics", "", &asked).await?;
    let mut sums = numbers.sums(|point| point.task.clone());
    let mut failures: BTreeMap<Option<String>, Vec<(Timestamp, u64)>> = BTreeMap::new();
    for point in &numbers.points {
        let count = point.failed + point.stuck + point.retried;
        failures.entry(point.task.clone()).or_default().push((point.at, count));
    }
    let mut known: BTreeMap<_, _> = tasks.into_iter().map(|task| (Some(task.name.clone()), Some(task))).collect();
    for name in sums.keys() {
        known.entry(name.clone()).or_insert(None);
    }
    let mut rows: Vec<_> = known
        .into_iter()
        .map(|(name, task)| {
            let sum = sums.remove(&name).unwrap_or_default();
            let failed = window.count(failures.remove(&name).unwrap_or_default(), now);
            let spark = spark(name.as_deref().unwrap_or("all others"), &failed, window);
            let set = name.as_ref().filter(|_| visit.may("setTask")).map(|name| set(&visit, name));
            Row { name, task, sum, spark, set }
        })
        .collect();
    let order = visit.query.get("by").unwrap_or("failures");
    let waiting = |row: &Row| row.task.as_ref().map_or(0, |task| task.waiting);
    match order {
        "slowest" => rows.sort_by_key(|row| Reverse(row.sum.runs.quantile(0.95))),
        "waiting" => rows.sort_by_key(|row| Reverse(waiting(row))),
        "name" => {}
        _ => rows.sort_by_key(|row| Reverse((row.sum.errors, waiting(row)))),
    }
    let (from, count) = (visit.query.get("from").and_then(|from| from.parse().ok()).unwrap_or(0_usize), rows.len());
    let rows: Vec<_> = rows.into_iter().skip(from).take(LISTED).collect();
    let link = |by: &str, from: Option<&str>| {
        let pairs = [("window", window.name), ("by", by)].into_iter().chain(from.map(|from| ("from", from)));
        format!("{}tasks{}", frame.root, parameters(pairs))
    };
    let after = (from + LISTED).to_string();
    let (more, first) =
        ((from + LISTED < count).then(|| link(order, Some(&after))), (from > 0).then(|| link(order, None)));
    let orders = ORDERS.map(|(by, label)| Tab { label: label.to_owned(), href: link(by, None), current: by == order });
    let windows = window.tabs(&frame.root, "tasks", &[("by", order)]);
    let recipe = visit.table("listTasks", "", &[], Some(Command::new("tasks")));
    let statistics = visit.table("getStatistics", "", &asked, None);
    let of_groups = visit.asker.caller.grant.limits().groups.is_some();
    let frame = frame.json("tasks");
    let (orders, unread) = (orders.into(), next.is_some());
    render(&Tasks {
        frame,
        window,
        windows,
        orders,
        rows,
        more,
        first,
        unread,
        of_groups,
        recipe,
        statistics,
        node: NODE,
    })
}

/// A node that knows it.
#[derive(Debug, Deserialize)]
struct Node {
    name: String,
    tasks: Vec<String>,
    state: String,
    slots: u32,
}

#[derive(Debug, Deserialize)]
struct Nodes {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Errors {
    errors: Vec<ErrorSeen>,
}

#[derive(Template)]
#[template(path = "task.html")]
struct One {
    frame: Frame,
    name: String,
    task: Option<Task>,
    window: &'static Window,
    windows: Vec<Tab>,
    sum: Sum,
    ends: Figure,
    times: Figure,
    errors: Vec<ErrorSeen>,
    all_errors: String,
    /// `None`: the token may not see nodes.
    nodes: Option<Vec<Node>>,
    jobs: Jobs,
    sets: bool,
    of_groups: bool,
    /// Where the form is sent that takes its limits away.
    reset: String,
    recipes: Recipes,
}

/// How each part is had or done without the page.
struct Recipes {
    task: Recipe,
    statistics: Recipe,
    set: Recipe,
    reset: Recipe,
    jobs: Recipe,
}

impl One {
    fn all_jobs(&self) -> String {
        self.frame.jobs(format!("task:{}", quoted(&self.name)))
    }

    fn jobs_in(&self, states: &str) -> String {
        self.frame.jobs(format!("state:{states} task:{}", quoted(&self.name)))
    }

    fn ran(&self, part: f64) -> String {
        ran(&self.sum, part)
    }

    fn count(&self, number: impl Borrow<u64>) -> Count {
        Count::exact(*number.borrow())
    }
}

fn times(sums: &[(Timestamp, Sum)], window: &Window, now: Timestamp) -> Lines {
    let parts = [("half of them, at most", 0.5, 0), ("95 of 100, at most", 0.95, 1)];
    let series = parts.map(|(name, part, colour)| Series {
        name: name.to_owned(),
        colour: Colour::Series(colour),
        values: sums.iter().map(|(_, sum)| sum.runs.quantile(part).map(|ran| ran.as_secs_f64())).collect(),
    });
    Lines {
        title: format!("How long runs took, by the {}", window.step),
        times: window.axis(now),
        at: sums.iter().map(|(at, _)| unix(*at)).collect(),
        measure: Measure::Seconds,
        series: series.into(),
    }
}

fn ends(sums: &[(Timestamp, Sum)], window: &Window, now: Timestamp) -> Lines {
    Lines {
        title: format!("Jobs that started and ended, by the {}", window.step),
        times: window.axis(now),
        at: sums.iter().map(|(at, _)| unix(*at)).collect(),
        measure: Measure::Count,
        series: vec![
            line("started", Colour::State(State::Running), sums.iter().map(|(_, sum)| sum.started)),
            line("ended", Colour::State(State::Success), sums.iter().map(|(_, sum)| sum.ended)),
            line("runs that failed", Colour::State(State::Failed), sums.iter().map(|(_, sum)| sum.errors)),
        ],
    }
}

pub(crate) async fn task(visit: Visit) -> Result<Reply, Problem> {
    let name = visit.name.clone();
    let window = Window::of(&visit);
    let frame = Frame::of(&visit, "tasks", format!("Task {name}")).json(format!("tasks/{}", encoded(&name)));
    let now = frame.now;
    let (task, missing): (Option<Task>, _) = match visit.get("getTask", &name, &[]).await {
        Ok(task) => (Some(task), None),
        Err(problem) if problem.status() == 404 => (None, Some(problem)),
        Err(problem) => return Err(problem),
    };
    let since = window.begin(now).to_string();
    let asked = [("by", "task"), ("step", window.step), ("since", since.as_str()), ("task", name.as_str())];
    let numbers: Numbers = visit.get("getStatistics", "", &asked).await?;
    let jobs: Jobs = visit.get("listJobs", "", &[("task", &name), ("limit", "20")]).await?;
    if let Some(missing) = missing.filter(|_| numbers.points.is_empty() && jobs.jobs.is_empty()) {
        return Err(missing);
    }
    let Errors { mut errors } = visit.get("listErrors", "", &[("since", &since), ("task", &name)]).await?;
    errors.truncate(10);
    let grant = &visit.asker.caller.grant;
    let nodes = if grant.is_limited() || !visit.may("listNodes") {
        None
    } else {
        let Nodes { mut nodes } = visit.get("listNodes", "", &[]).await?;
        nodes.retain(|node| node.tasks.contains(&name) && node.state != "lost");
        Some(nodes)
    };
    let sums = window.sums(&numbers, now);
    let mut sum = Sum::default();
    numbers.points.iter().for_each(|point| sum.add(point));
    let recipes = Recipes {
        task: visit.table("getTask", &name, &[], Some(Command::new("tasks"))),
        statistics: visit.table("getStatistics", "", &asked, None),
        set: set(&visit, &name),
        reset: visit.action("resetTask", &name, None, Some(Command::new("task reset").value(&name))),
        jobs: visit.table("listJobs", "", &[("task", &name)], Some(Command::new("jobs").option("--task", &name))),
    };
    let (windows, sets) = (window.tabs(&frame.root, &format!("tasks/{}", encoded(&name)), &[]), visit.may("setTask"));
    let all_errors = format!("{}errors{}", frame.root, parameters([("window", window.name), ("task", name.as_str())]));
    let (ends, times) = (Figure::of(&ends(&sums, window, now)), Figure::of(&times(&sums, window, now)));
    let of_groups = grant.limits().groups.is_some();
    let reset = format!("tasks/{}/reset", encoded(&name));
    render(&One {
        frame,
        name,
        task,
        window,
        windows,
        sum,
        ends,
        times,
        errors,
        all_errors,
        nodes,
        jobs,
        sets,
        of_groups,
        reset,
        recipes,
    })
}
