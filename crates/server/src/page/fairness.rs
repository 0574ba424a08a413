//! Who had the workers, beside what they were entitled to; and one group with what can be set for it.

use std::{borrow::Borrow, collections::BTreeMap, time::Duration};

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};
use turnwise::Timestamp;
use turnwise_chart::{Bar, Bars, Colour, Group as Band, Lines, Measure, Series, Shares};

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
    /// Whether these can be set, too.
    sets: bool,
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
    set: Option<Limited>,
}

impl Row {
    fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(OTHERS)
    }

    fn used(&self) -> String {
        span(Duration::try_from_secs_f64(self.sum.used).unwrap_or_default())
    }

    /// As the charts say it.
    fn percent(part: impl Borrow<f64>) -> String {
        Measure::Part.say(*part.borrow())
    }

    fn ended(&self) -> Count {
        Count::exact(self.sum.ended)
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
        set: None,
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
        in_all: Some((row.had, row.entitled)),
    });
    let groups: Vec<_> = groups.collect();
    let rest = minutes.iter().enumerate().map(|(number, at)| {
        whole.get(at).filter(|all| all.0 > 0.0)?;
        let coloured: f64 = groups.iter().filter_map(|group| group.had[number]).sum();
        Some((1.0 - coloured).max(0.0))
    });
    Shares {
        title: "Shares of worker time, by the minute".to_owned(),
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
    let sets = visit.may("setGroup") && visit.may("pauseGroup");
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
        sets,
        recipe,
        examples,
    })
}

/// What is set for a group.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Limited {
    weight: f64,
    concurrency: Option<u32>,
    state: String,
}

impl Default for Limited {
    fn default() -> Self {
        Self { weight: 1.0, concurrency: None, state: "active".to_owned() }
    }
}

impl Limited {
    fn is_paused(&self) -> bool {
        self.state == "paused"
    }
}

#[derive(Debug, Deserialize)]
struct Known {
    name: String,
    #[serde(flatten)]
    set: Limited,
}

#[derive(Debug, Deserialize)]
struct AllKnown {
    groups: Vec<Known>,
    next: Option<String>,
}

/// Notes what is set for the groups. One that is not listed has no settings, unless there are more than one page of groups.
async fn weigh(visit: &Visit, rows: &mut [Row]) -> Result<(), Problem> {
    let Some(all) = visit.kept_of::<AllKnown>("listGroups", &[("limit", "1000")]).await? else { return Ok(()) };
    let known: BTreeMap<&str, &Limited> = all.groups.iter().map(|group| (group.name.as_str(), &group.set)).collect();
    for row in rows {
        let set = row.name.as_deref().map(|name| known.get(name).copied().cloned());
        row.set = set.and_then(|set| set.or_else(|| all.next.is_none().then(Limited::default)));
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
    #[serde(default)]
    oldest: Option<Timestamp>,
    paused: Option<Pause>,
}

impl Present {
    fn count(&self, number: impl Borrow<u64>) -> Count {
        Count { number: *number.borrow(), at_least: self.at_least }
    }

    fn number(&self, number: impl Borrow<u64>) -> Count {
        Count::exact(*number.borrow())
    }

    /// The worker time that it has used beyond its turn.
    fn charge(&self) -> String {
        span(Duration::try_from_secs_f64(self.ahead).unwrap_or_default())
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
    /// Of each queue in which it had numbers of its own in the last hour.
    past: Vec<Past>,
    /// Whether such numbers can be seen at all.
    counts: bool,
    jobs: Jobs,
    sets: bool,
    operates: bool,
    simulates: bool,
    recipes: Recipes,
}

/// What a group had of a queue's workers in the last hour.
#[derive(Debug)]
struct Past {
    queue: String,
    row: Row,
    shares: Figure,
    recipe: Recipe,
}

/// Queues of a group's page.
const QUEUES: usize = 3;

/// The busiest queues in which the group has numbers of its own.
async fn past(visit: &Visit, name: &str, now: Timestamp) -> Result<Vec<Past>, Problem> {
    let by_queue = Numbers::of_last_hour(visit, "queue", &[]).await?.sums(|point| point.queue.clone());
    let mut queues: Vec<_> = by_queue.into_iter().map(|(queue, sum)| (sum.used, queue)).collect();
    queues.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut past = Vec::new();
    for (_, queue) in queues.into_iter().take(QUEUES) {
        // The same question as the page of all groups asks.
        let asked = [("queue", queue.as_str())];
        let numbers = Numbers::of_last_hour(visit, "group", &asked).await?;
        let Some(row) = rows(&numbers).into_iter().find(|row| row.name.as_deref() == Some(name)) else { continue };
        let shares = Figure::of(&share(&numbers, &row, now));
        let asked = [("by", "group"), ("step", "minute"), ("queue", queue.as_str()), ("group", name)];
        let recipe = visit.table("getStatistics", "", &asked, None);
        past.push(Past { queue, row, shares, recipe });
    }
    Ok(past)
}

/// One group's share minute by minute, and what it was entitled to.
fn share(numbers: &Numbers, row: &Row, now: Timestamp) -> Lines {
    let all = shares(numbers, std::slice::from_ref(row), now);
    let Shares { times, at, groups, .. } = all;
    let series = groups.into_iter().flat_map(|Band { had, entitled, .. }| {
        [("had", Colour::Series(0), had), ("entitled to", Colour::Rest, entitled)]
            .map(|(name, colour, values)| Series { name: name.to_owned(), colour, values })
    });
    Lines {
        title: format!("Its share of the workers’ time, by the minute, of {}", row.label()),
        times,
        at,
        measure: Measure::Part,
        series: series.collect(),
    }
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
    let counts = visit.may("getStatistics") && visit.may("listQueues");
    if present.is_none() && jobs.jobs.is_empty() && jobs.reached.is_none() {
        return Err(Problem::not_found(format!("group {name:?} has no jobs and no settings")));
    }
    let frame = Frame::of(&visit, "fairness", format!("Group {name}")).json(format!("groups/{}", encoded(&name)));
    let (sets, operates, simulates) = (visit.may("setGroup"), visit.may("pauseGroup"), visit.may("simulate"));
    let recipes = Recipes::of(&visit, &name);
    let past = if counts { past(&visit, &name, frame.now).await? } else { Vec::new() };
    render(&Group { frame, name, present, past, counts, jobs, sets, operates, simulates, recipes })
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

/// A wait of those that start: of none there is none.
fn wait(starts: u64, millis: impl Borrow<u64>) -> String {
    if starts == 0 { "–".to_owned() } else { ms(millis) }
}

impl Waits {
    fn told(&self, millis: impl Borrow<u64>) -> String {
        wait(self.starts, millis)
    }
}

impl Course {
    fn told(&self, millis: impl Borrow<u64>) -> String {
        wait(self.starts, millis)
    }
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
        } else if self.after.starts == 0 {
            format!(
                "{}’s p95 wait is {before}; then none of its jobs would start in the time that was looked at.",
                self.group
            )
        } else if self.before.starts == 0 {
            format!("{}’s p95 wait would be {after}; as things are, none of its jobs starts in that time.", self.group)
        } else if before == after {
            format!("{}’s p95 wait would stay at {after}.", self.group)
        } else {
            format!("{}’s p95 wait would go from {before} to {after}.", self.group)
        }
    }
}

/// What is supposed of a group, as far as it differs from what is set.
#[derive(Debug, Default)]
struct Supposed {
    weight: Option<f64>,
    /// `Some(None)`: no limit.
    concurrency: Option<Option<u32>>,
    pause: bool,
}

impl Supposed {
    /// From the form, beside what is set.
    fn read(visit: &Visit, set: &Limited) -> Result<Self, Problem> {
        let field = |name| visit.query.get(name).map(str::trim);
        let weight: Option<f64> = match field("weight").filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => Some(
                text.parse().map_err(|_| Problem::invalid("weight", format!("weight: {text:?} is not a number")))?,
            ),
        };
        let concurrency = match field("concurrency") {
            None => None,
            Some("") => Some(None),
            Some(text) => Some(Some(text.parse().map_err(|_| {
                Problem::invalid("concurrency", format!("concurrency: {text:?} is not a number from 1 on"))
            })?)),
        };
        let pause = field("pause").is_some() && !set.is_paused();
        let changed = Self {
            weight: weight.filter(|weight| (weight - set.weight).abs() > f64::EPSILON),
            concurrency: concurrency.filter(|most| *most != set.concurrency),
            pause,
        };
        // Asked about what is so already: the answer is that nothing changes.
        let nothing = changed.weight.is_none() && changed.concurrency.is_none() && !changed.pause;
        Ok(if nothing { Self { weight: Some(weight.unwrap_or(set.weight)), ..changed } } else { changed })
    }

    /// As a sentence goes on behind "if".
    fn words(&self, name: &str) -> String {
        let weight = self.weight.map(|weight| format!("had weight {weight}"));
        let most = self.concurrency.map(|most| match most {
            None => "had no limit of jobs at a time".to_owned(),
            Some(1) => "had at most one job at a time".to_owned(),
            Some(most) => format!("had at most {most} jobs at a time"),
        });
        let pause = self.pause.then(|| "were paused".to_owned());
        format!("{name} {}", weight.into_iter().chain(most).chain(pause).collect::<Vec<_>>().join(" and "))
    }

    /// As the API's route takes it.
    fn body(&self, name: &str) -> Value {
        let mut body = json!({});
        if let Some(weight) = self.weight {
            body["weights"] = json!({ name: weight });
        }
        if let Some(most) = self.concurrency {
            body["group_concurrency"] = json!({ name: most.map_or_else(|| json!("unlimited"), |most| json!(most)) });
        }
        if self.pause {
            body["pause"] = json!([name]);
        }
        body
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new("simulate");
        if let Some(weight) = self.weight {
            command = command.option("--weight", format!("{name}={weight}"));
        }
        if let Some(most) = self.concurrency {
            let most = most.map_or_else(|| "unlimited".to_owned(), |most| most.to_string());
            command = command.option("--group-concurrency", format!("{name}={most}"));
        }
        if self.pause { command.option("--pause", name) } else { command }
    }

    /// What sets it, but for the pause: fields of the form, and how it is done without the page.
    fn setting(&self, visit: &Visit, name: &str) -> Option<Setting> {
        let (mut body, mut command) = (json!({}), Command::new("group set").value(name));
        let (mut fields, mut words) = (Vec::new(), Vec::new());
        if let Some(weight) = self.weight {
            body["weight"] = weight.into();
            command = command.option("--weight", weight.to_string());
            fields.push(("weight", weight.to_string()));
            words.push(format!("weight {weight}"));
        }
        if let Some(most) = self.concurrency {
            let text = most.map(|most| most.to_string());
            body["concurrency"] = most.into();
            command = command.option("--concurrency", text.clone().unwrap_or_else(|| "unlimited".to_owned()));
            words.push(text.as_ref().map_or_else(|| "no limit".to_owned(), |most| format!("at most {most} at a time")));
            fields.push(("concurrency", text.unwrap_or_default()));
        }
        let recipe = visit.action("setGroup", name, Some(&body), Some(command));
        (!fields.is_empty()).then(|| Setting { words: words.join(" and "), fields, recipe })
    }
}

/// A change of a group's settings.
#[derive(Debug)]
struct Setting {
    words: String,
    fields: Vec<(&'static str, String)>,
    recipe: Recipe,
}

#[derive(Template)]
#[template(path = "whatif.html")]
struct WhatIf {
    frame: Frame,
    name: String,
    compared: Comparison,
    /// Where the form that asked stands.
    back: String,
    setting: Option<Setting>,
    pause: Option<Recipe>,
    simulate: Recipe,
}

impl WhatIf {
    fn ms(&self, millis: impl Borrow<u64>) -> String {
        ms(millis)
    }

    fn count(&self, number: impl Borrow<u64>) -> Count {
        Count::exact(*number.borrow())
    }
}

/// Groups that a comparison lists.
const COMPARED: usize = 20;

/// What would become of everybody's waits if the group had another weight or limit, or were paused.
pub(crate) async fn what_if(visit: Visit) -> Result<Reply, Problem> {
    let name = visit.name.clone();
    let set: Limited = match visit.get("getGroup", &name, &[]).await {
        Ok(set) => set,
        Err(problem) if problem.status() == 404 => Limited::default(),
        Err(problem) => return Err(problem),
    };
    let supposed = Supposed::read(&visit, &set)?;
    let body = supposed.body(&name);
    let mut compared: Comparison = visit.send("simulate", "", Some(&body)).await?;
    compared.groups.sort_by_key(|group| (group.group != name, std::cmp::Reverse(group.change())));
    compared.groups.truncate(COMPARED);
    let frame = Frame::of(&visit, "fairness", format!("If {}", supposed.words(&name)));
    let simulate = visit.action("simulate", "", Some(&body), Some(supposed.command(&name)));
    let setting = if visit.may("setGroup") { supposed.setting(&visit, &name) } else { None };
    let pause = (supposed.pause && visit.may("pauseGroup"))
        .then(|| visit.action("pauseGroup", &name, Some(&json!({})), Some(Command::new("group pause").value(&name))));
    let back = visit.query.get("back").map_or_else(|| format!("groups/{}", encoded(&name)), str::to_owned);
    render(&WhatIf { frame, name, compared, back, setting, pause, simulate })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_supposed_is_said_and_asked_alike() {
        let supposed = Supposed { weight: Some(2.0), concurrency: Some(None), pause: true };
        assert_eq!(supposed.words("acme"), "acme had weight 2 and had no limit of jobs at a time and were paused");
        assert_eq!(
            supposed.body("acme"),
            json!({"weights": {"acme": 2.0}, "group_concurrency": {"acme": "unlimited"}, "pause": ["acme"]})
        );
        let limited = Supposed { concurrency: Some(Some(3)), ..Supposed::default() };
        assert_eq!(limited.words("acme"), "acme had at most 3 jobs at a time");
        assert_eq!(limited.body("acme"), json!({"group_concurrency": {"acme": 3}}));
    }

    #[test]
    fn a_wait_that_never_ends_is_no_wait_of_zero() {
        let none = Waits { starts: 0, p50_wait_ms: 0, p95_wait_ms: 0, max_wait_ms: 0 };
        let some = Waits { starts: 1, p50_wait_ms: 0, p95_wait_ms: 1_000, max_wait_ms: 1_000 };
        let compared = |before: Waits, after: Waits| Compared { group: "acme".to_owned(), jobs: 1, before, after };
        let of = |starts| Waits { starts, p50_wait_ms: 0, p95_wait_ms: starts * 1_000, max_wait_ms: 0 };
        assert_eq!(
            compared(of(1), of(0)).sentence(),
            "acme’s p95 wait is 1.0 s; then none of its jobs would start in the time that was looked at."
        );
        assert_eq!(compared(of(1), of(2)).sentence(), "acme’s p95 wait would go from 1.0 s to 2.0 s.");
        assert_eq!((none.told(0), some.told(0), some.told(1_000)), ("–".into(), "0 s".into(), "1.0 s".into()));
    }
}
