//! Who had the workers, beside what they were entitled to; and one group with what can be set for it.

use std::{borrow::Borrow, collections::BTreeMap, time::Duration};

use askama::Template;
use serde::Deserialize;
use serde_json::json;
use turnwise::Timestamp;
use turnwise_chart::{Bar, Bars, Group as Band, Measure, Shares};

use crate::{
    call::Reply,
    page::{
        Visit,
        figure::Figure,
        frame::Frame,
        jobs::Page as Jobs,
        numbers::{Numbers, Sum, axis, last_minutes, unix},
        overview::Pause,
        recipe::{Command, Recipe},
        shown::{Count, Shown, span},
        visit::{encoded, parameters, render},
    },
    problem::Problem,
};

/// Groups of the chart that have a colour of their own.
const COLOURED: usize = 9;
/// Groups of the list.
const LISTED: usize = 50;
/// What stands for all groups without numbers of their own.
const OTHERS: &str = "all others";

#[derive(Template)]
#[template(path = "fairness.html")]
struct Fairness {
    frame: Frame,
    queues: Vec<Tab>,
    orders: Vec<Tab>,
    shares: Figure,
    bars: Figure,
    rows: Vec<Row>,
    empty: bool,
    /// Groups that are not listed.
    left: usize,
    /// Whether weights are shown, with what would become of another one.
    weighs: bool,
    recipe: Recipe,
    /// Jobs of two groups, to see them take turns.
    examples: [Recipe; 2],
}

#[derive(Debug)]
pub(crate) struct Tab {
    pub(crate) label: String,
    pub(crate) href: String,
    pub(crate) current: bool,
}

/// A group in the last hour.
#[derive(Debug, Clone)]
struct Row {
    /// `None`: all others together.
    name: Option<String>,
    sum: Sum,
    /// Its part of all that was used.
    had: f64,
    /// Its part of all that groups were entitled to.
    entitled: f64,
    /// As it is set now; `None`: that was not read.
    weight: Option<f64>,
}

impl Row {
    fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(OTHERS)
    }

    fn used(&self) -> String {
        span(Duration::try_from_secs_f64(self.sum.used).unwrap_or_default())
    }

    fn percent(part: impl Borrow<f64>) -> String {
        format!("{:.1} %", part.borrow() * 100.0)
    }

    /// What it had, beside what it was entitled to: far below 1, something held it up.
    fn ratio(&self) -> String {
        if self.sum.entitled > 0.0 { format!("{:.2}", self.sum.used / self.sum.entitled) } else { "–".to_owned() }
    }

    fn wait(&self, part: impl Borrow<f64>) -> String {
        let any = self.sum.waits.count() > 0;
        match self.sum.waits.quantile(*part.borrow()) {
            Some(wait) => span(wait),
            None if any => "days".to_owned(),
            None => "–".to_owned(),
        }
    }

    fn longest(&self) -> Duration {
        let any = self.sum.waits.count() > 0;
        self.sum.waits.quantile(1.0).unwrap_or(if any { Duration::MAX } else { Duration::ZERO })
    }
}

fn rows(numbers: &Numbers) -> Vec<Row> {
    let sums = numbers.sums(|point| point.group.clone());
    let used: f64 = sums.values().map(|sum| sum.used).sum();
    let entitled: f64 = sums.values().map(|sum| sum.entitled).sum();
    let part = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let row = |(name, sum): (Option<String>, Sum)| Row {
        had: part(sum.used, used),
        entitled: part(sum.entitled, entitled),
        weight: None,
        name,
        sum,
    };
    let mut rows: Vec<_> = sums.into_iter().map(row).collect();
    rows.sort_by(|one, other| {
        (other.sum.used, &one.name).partial_cmp(&(one.sum.used, &other.name)).unwrap_or(std::cmp::Ordering::Equal)
    });
    rows
}

/// The shares of the groups that had most, minute by minute.
fn shares(numbers: &Numbers, rows: &[Row], now: Timestamp) -> Shares {
    let minutes: Vec<_> = last_minutes(now, numbers.known(now)).collect();
    let of: BTreeMap<(Timestamp, Option<String>), Sum> = numbers.sums(|point| (point.at, point.group.clone()));
    let mut whole: BTreeMap<Timestamp, (f64, f64)> = BTreeMap::new();
    for ((at, _), sum) in &of {
        let (used, entitled) = whole.entry(*at).or_default();
        *used += sum.used;
        *entitled += sum.entitled;
    }
    let part = |at: &Timestamp, name: &Option<String>, value: fn(&Sum) -> f64, all: fn(&(f64, f64)) -> f64| {
        let all = whole.get(at).map(all).filter(|all| *all > 0.0)?;
        Some(of.get(&(*at, name.clone())).map_or(0.0, value) / all)
    };
    let named: Vec<_> = rows.iter().filter(|row| row.name.is_some()).take(COLOURED).collect();
    let groups = named.iter().map(|row| Band {
        name: row.label().to_owned(),
        had: minutes.iter().map(|at| part(at, &row.name, |sum| sum.used, |all| all.0)).collect(),
        entitled: minutes.iter().map(|at| part(at, &row.name, |sum| sum.entitled, |all| all.1)).collect(),
    });
    let groups: Vec<_> = groups.collect();
    let rest = minutes.iter().enumerate().map(|(number, at)| {
        whole.get(at).filter(|all| all.0 > 0.0)?;
        let coloured: f64 = groups.iter().filter_map(|group| group.had[number]).sum();
        Some((1.0 - coloured).max(0.0))
    });
    Shares {
        title: "Shares of worker time, by the minute (UTC)".to_owned(),
        times: axis(&minutes),
        at: minutes.iter().map(|at| unix(*at)).collect(),
        rest: if rows.len() > groups.len() { rest.collect() } else { Vec::new() },
        groups,
    }
}

fn bars(rows: &[Row], frame: &Frame) -> Bars {
    let bar = |row: &Row| Bar {
        name: row.label().to_owned(),
        used: row.had,
        entitled: Some(row.entitled),
        href: row.name.as_ref().map(|name| frame.named("groups", name)),
    };
    Bars {
        title: "Had and entitled to in the last hour".to_owned(),
        measure: Measure::Part,
        bars: rows.iter().take(COLOURED + 3).map(bar).collect(),
    }
}

pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    let frame = Frame::of(&visit, "fairness", "Fairness");
    let now = frame.now;
    let by_queue = Numbers::of_last_hour(&visit, "queue", &[]).await?.sums(|point| point.queue.clone());
    let busiest = by_queue.iter().max_by(|(_, one), (_, other)| one.used.total_cmp(&other.used)).map(|(name, _)| name);
    let queue = visit.query.get("queue").or(busiest.map(String::as_str)).unwrap_or("default").to_owned();
    let order = visit.query.get("by").unwrap_or("busiest");
    let numbers = Numbers::of_last_hour(&visit, "group", &[("queue", &queue)]).await?;
    let mut rows = rows(&numbers);
    let (shares, bars) = (Figure::of(&shares(&numbers, &rows, now)), Figure::of(&bars(&rows, &frame)));
    match order {
        "waiting" => rows.sort_by_key(|row| std::cmp::Reverse(row.longest())),
        "under" => {
            let lack = |row: &Row| row.sum.entitled - row.sum.used;
            rows.sort_by(|one, other| lack(other).total_cmp(&lack(one)));
        }
        _ => {}
    }
    let left = rows.len().saturating_sub(LISTED);
    rows.truncate(LISTED);
    let weighs = visit.may("simulate") && visit.may("listGroups");
    if weighs {
        weigh(&visit, &mut rows).await?;
    }
    let link = |queue: &str, by: &str| format!("{}fairness{}", frame.root, parameters([("queue", queue), ("by", by)]));
    let queues =
        by_queue.keys().map(|name| Tab { label: name.clone(), href: link(name, order), current: *name == queue });
    let queues = queues.collect();
    let orders = [("busiest", "Busiest"), ("waiting", "Waiting longest"), ("under", "Furthest under their share")];
    let orders =
        orders.map(|(by, label)| Tab { label: label.to_owned(), href: link(&queue, by), current: by == order });
    let asked = [("by", "group"), ("queue", queue.as_str())];
    let recipe = visit.table("getStatistics", "", &asked, Some(Command::new("top").flag("--once")));
    let examples = ["acme", "beta"].map(|group| {
        let job = json!({ "task": "sleep", "args": { "ms": 500 }, "group": group });
        let command = Command::new("enqueue").value("sleep").value(r#"{"ms": 500}"#).option("--group", group);
        visit.action("submitJob", "", Some(&job), Some(command))
    });
    let frame = frame.json(format!("statistics{}", parameters(asked)));
    let empty = rows.is_empty();
    render(&Fairness {
        frame,
        queues,
        orders: orders.into(),
        shares,
        bars,
        rows,
        empty,
        left,
        weighs,
        recipe,
        examples,
    })
}

/// What is set for a group.
#[derive(Debug, Deserialize)]
struct Weighed {
    name: String,
    weight: f64,
}

#[derive(Debug, Deserialize)]
struct AllWeighed {
    groups: Vec<Weighed>,
    next: Option<String>,
}

/// Notes the groups' weights. One that is not listed has no settings, unless there are more than one page of groups.
async fn weigh(visit: &Visit, rows: &mut [Row]) -> Result<(), Problem> {
    let Some(all) = visit.kept_of::<AllWeighed>("listGroups", &[("limit", "1000")]).await? else { return Ok(()) };
    let weights: BTreeMap<&str, f64> = all.groups.iter().map(|group| (group.name.as_str(), group.weight)).collect();
    for row in rows {
        let known = row.name.as_deref().map(|name| weights.get(name).copied());
        row.weight = known.and_then(|known| known.or_else(|| all.next.is_none().then_some(1.0)));
    }
    Ok(())
}

/// From the form of the search: the group's own page.
pub(crate) async fn find(visit: Visit) -> Result<Reply, Problem> {
    let name = visit.query.get("name").unwrap_or_default().trim();
    Ok(if name.is_empty() { visit.go("fairness") } else { visit.go(&format!("groups/{}", encoded(name))) })
}

/// A [`turnwise::wire::Group`].
#[derive(Debug, Deserialize)]
struct Present {
    state: String,
    waiting: u64,
    later: u64,
    scheduled: u64,
    running: u64,
    stuck: u64,
    at_least: bool,
    weight: f64,
    concurrency: Option<u32>,
    rate: Option<String>,
    scheme: Option<String>,
    max_waiting: Option<u32>,
    ahead: f64,
    paused: Option<Pause>,
}

impl Present {
    fn count(&self, number: impl Borrow<u64>) -> Count {
        Count { number: *number.borrow(), at_least: self.at_least }
    }

    fn busy(&self) -> u64 {
        self.scheduled + self.running
    }
}

#[derive(Template)]
#[template(path = "group.html")]
struct Group {
    frame: Frame,
    name: String,
    /// `None`: it has no unfinished jobs and no settings.
    present: Option<Present>,
    jobs: Jobs,
    sets: bool,
    operates: bool,
    simulates: bool,
    recipes: Recipes,
}

/// How each part is had or done without the page.
struct Recipes {
    present: Recipe,
    set: Recipe,
    reset: Recipe,
    what_if: Recipe,
    pause: Recipe,
    resume: Recipe,
    jobs: Recipe,
}

impl Recipes {
    fn of(visit: &Visit, name: &str) -> Self {
        let weights = json!({ "weights": { name: 2 } });
        let simulate = Command::new("simulate").option("--weight", format!("{name}=2"));
        let set = Command::new("group set").value(name).option("--weight", "2");
        let pause = Command::new("group pause").value(name).option("--reason", "too many");
        let jobs = Command::new("jobs").option("--group", name);
        Self {
            present: visit.table("getGroup", name, &[], Some(Command::new("groups"))),
            set: visit.action("setGroup", name, Some(&json!({ "weight": 2 })), Some(set)),
            reset: visit.action("resetGroup", name, None, Some(Command::new("group reset").value(name))),
            what_if: visit.action("simulate", "", Some(&weights), Some(simulate)),
            pause: visit.action("pauseGroup", name, Some(&json!({ "reason": "too many" })), Some(pause)),
            resume: visit.action("resumeGroup", name, None, Some(Command::new("group resume").value(name))),
            jobs: visit.table("listJobs", "", &[("group", name)], Some(jobs)),
        }
    }
}

pub(crate) async fn group(visit: Visit) -> Result<Reply, Problem> {
    let name = visit.name.clone();
    let present: Option<Present> = match visit.get("getGroup", &name, &[]).await {
        Ok(present) => Some(present),
        Err(problem) if problem.status() == 404 => None,
        Err(problem) => return Err(problem),
    };
    let jobs: Jobs = visit.get("listJobs", "", &[("group", &name), ("limit", "20")]).await?;
    if present.is_none() && jobs.jobs.is_empty() && jobs.reached.is_none() {
        return Err(Problem::not_found(format!("group {name:?} has no jobs and no settings")));
    }
    let frame = Frame::of(&visit, "fairness", format!("Group {name}")).json(format!("groups/{}", encoded(&name)));
    let (sets, operates, simulates) = (visit.may("setGroup"), visit.may("pauseGroup"), visit.may("simulate"));
    let recipes = Recipes::of(&visit, &name);
    render(&Group { frame, name, present, jobs, sets, operates, simulates, recipes })
}

/// A [`turnwise::wire::Comparison`].
#[derive(Debug, Deserialize)]
struct Comparison {
    jobs: u64,
    before: Course,
    after: Course,
    groups: Vec<Compared>,
    guessed: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Course {
    starts: u64,
    p50_wait_ms: u64,
    p95_wait_ms: u64,
    looked_ms: u64,
    complete: bool,
}

#[derive(Debug, Deserialize)]
struct Compared {
    group: String,
    jobs: u64,
    before: Waits,
    after: Waits,
}

#[derive(Debug, Deserialize)]
struct Waits {
    starts: u64,
    p50_wait_ms: u64,
    p95_wait_ms: u64,
    max_wait_ms: u64,
}

fn ms(ms: impl Borrow<u64>) -> String {
    span(Duration::from_millis(*ms.borrow()))
}

impl Compared {
    /// How much its p95 changes.
    fn change(&self) -> u64 {
        self.before.p95_wait_ms.abs_diff(self.after.p95_wait_ms)
    }

    fn sentence(&self) -> String {
        let (before, after) = (ms(self.before.p95_wait_ms), ms(self.after.p95_wait_ms));
        if self.before.starts == 0 && self.after.starts == 0 {
            format!("{}: none of its jobs starts in the time that was looked at.", self.group)
        } else if before == after {
            format!("{}’s p95 wait would stay at {after}.", self.group)
        } else {
            format!("{}’s p95 wait would go from {before} to {after}.", self.group)
        }
    }
}

#[derive(Template)]
#[template(path = "whatif.html")]
struct WhatIf {
    frame: Frame,
    name: String,
    weight: String,
    compared: Comparison,
    sets: bool,
    simulate: Recipe,
    set: Recipe,
}

impl WhatIf {
    fn ms(&self, millis: impl Borrow<u64>) -> String {
        ms(millis)
    }
}

/// Groups that a comparison lists.
const COMPARED: usize = 20;

/// What would become of everybody's waits if the group had another weight.
pub(crate) async fn what_if(visit: Visit) -> Result<Reply, Problem> {
    let (name, weight) = (visit.name.clone(), visit.query.get("weight").unwrap_or_default().trim().to_owned());
    let number: f64 =
        weight.parse().map_err(|_| Problem::invalid("weight", format!("weight: {weight:?} is not a number")))?;
    let body = json!({ "weights": { name.as_str(): number } });
    let mut compared: Comparison = visit.send("simulate", "", Some(&body)).await?;
    compared.groups.sort_by_key(|group| (group.group != name, std::cmp::Reverse(group.change())));
    compared.groups.truncate(COMPARED);
    let frame = Frame::of(&visit, "fairness", format!("If {name} had weight {weight}"));
    let sets = visit.may("setGroup");
    let command = Command::new("simulate").option("--weight", format!("{name}={weight}"));
    let simulate = visit.action("simulate", "", Some(&body), Some(command));
    let command = Command::new("group set").value(&name).option("--weight", &weight);
    let set = visit.action("setGroup", &name, Some(&json!({ "weight": number })), Some(command));
    render(&WhatIf { frame, name, weight, compared, sets, simulate, set })
}
