//! One schedule: when its jobs are submitted, which they were, and what can be done about it.

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
        jobs::{quoted, short},
        queue::Next,
        recipe::{Command, Recipe},
        schedules::{Form, Schedule},
        shown::{Shown, span},
        visit::{encoded, render},
    },
    problem::Problem,
};

/// A [`turnwise::wire::Job`] that the schedule has submitted.
#[derive(Debug, Deserialize)]
struct Run {
    id: String,
    state: String,
    attempt: u32,
    error: Option<String>,
    submitted_at: Timestamp,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
}

impl Run {
    fn short(&self) -> &str {
        short(&self.id)
    }

    fn ran(&self, now: impl Borrow<Timestamp>) -> Option<String> {
        let started = self.started_at?;
        Some(span(self.finished_at.unwrap_or(*now.borrow()).since(started)))
    }

    /// Why it did not go well.
    fn wrong(&self) -> Option<&str> {
        self.error.as_deref().filter(|_| matches!(self.state.as_str(), "stuck" | "failed"))
    }
}

#[derive(Debug, Deserialize)]
struct Runs {
    jobs: Vec<Run>,
    next: Option<String>,
    reached: Option<Timestamp>,
}

/// Runs of the history.
const RUNS: &str = "20";

#[derive(Template)]
#[template(path = "schedule.html")]
struct Page {
    frame: Frame,
    schedule: Schedule,
    next: Vec<Next>,
    runs: Runs,
    /// The filter that finds them.
    filter: String,
    operates: bool,
    /// For callers who may change it.
    form: Option<Form>,
    recipes: Recipes,
}

/// How each part is had or done without the page.
struct Recipes {
    schedule: Recipe,
    runs: Recipe,
    run: Recipe,
    pause: Recipe,
    resume: Recipe,
    remove: Recipe,
    set: Recipe,
}

impl Recipes {
    fn of(visit: &Visit, schedule: &Schedule, filter: &str) -> Self {
        let name = schedule.name.as_str();
        let command = |verb| Some(Command::new(verb).value(name));
        let pause = Command::new("schedule pause").value(name).option("--reason", "maintenance");
        let set = Command::new("schedule add").value(name).value(&schedule.task).option("--every", "1h");
        let asked = [("filter", filter), ("limit", RUNS)];
        let listed = Command::new("jobs").option("--filter", filter).option("--limit", RUNS);
        Self {
            schedule: visit.table("getSchedule", name, &[], command("schedule show")),
            runs: visit.table("listJobs", "", &asked, Some(listed)),
            run: visit.action("runSchedule", name, None, command("schedule run")),
            pause: visit.action("pauseSchedule", name, Some(&json!({ "reason": "maintenance" })), Some(pause)),
            resume: visit.action("resumeSchedule", name, None, command("schedule resume")),
            remove: visit.action("removeSchedule", name, None, command("schedule remove")),
            set: visit.action("setSchedule", name, Some(&json!({ "task": schedule.task, "every": "1h" })), Some(set)),
        }
    }
}

impl Page {
    fn short<'a>(&self, id: &'a str) -> &'a str {
        short(id)
    }

    /// Where a form about it is sent.
    fn path(&self, deed: &str) -> String {
        format!("schedules/{}/{deed}", encoded(&self.schedule.name))
    }
}

/// Finds its jobs, by an index as far as there is one: they are of its group, and of its task or one that they go on as.
fn filter(schedule: &Schedule) -> String {
    let tasks = [Some(&schedule.task), schedule.on_exhausted.as_ref(), schedule.next_task.as_ref()];
    let tasks: Vec<_> = tasks.into_iter().flatten().map(|task| quoted(task)).collect();
    format!("schedule:{} task:{} group:{}", quoted(&schedule.name), tasks.join(","), quoted(&schedule.group))
}

pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    let schedule: Schedule = visit.get("getSchedule", &visit.name, &[]).await?;
    let filter = filter(&schedule);
    let runs: Runs = visit.get("listJobs", "", &[("filter", &filter), ("limit", RUNS)]).await?;
    let frame = Frame::of(&visit, "schedules", format!("Schedule {}", schedule.name));
    render(&Page {
        frame: frame.json(format!("schedules/{}", encoded(&schedule.name))),
        next: schedule.times(),
        runs,
        operates: visit.may("pauseSchedule"),
        form: visit.may("setSchedule").then(|| Form::of(&schedule)),
        recipes: Recipes::of(&visit, &schedule, &filter),
        filter,
        schedule,
    })
}
