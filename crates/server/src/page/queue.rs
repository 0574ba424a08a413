//! One queue: what it does and why, what is set for it, what it waits for, when it may start jobs, and how it went.

use askama::Template;
use serde::Deserialize;
use serde_json::json;
use turnwise::Timestamp;

use crate::{
    call::Reply,
    page::{
        Visit,
        figure::Figure,
        frame::Frame,
        jobs::{Page as Jobs, quoted},
        numbers::{Numbers, throughput, waits},
        queues::{Queue, Queues, may, ties},
        recipe::{Command, Recipe},
        shown::Shown,
        visit::{encoded, render},
    },
    problem::Problem,
};

/// Next times of its schedule that are shown.
const TIMES: usize = 5;

#[derive(Template)]
#[template(path = "queue.html")]
struct Page {
    frame: Frame,
    name: String,
    /// `None`: it has no unfinished jobs and no settings.
    present: Option<Queue>,
    /// What it waits for, and what waits for it.
    graph: Option<Figure>,
    awaited_by: Vec<String>,
    throughput: Figure,
    waits: Figure,
    /// Schedules that submit to it, with their next times.
    schedules: Vec<Submits>,
    next: Vec<Next>,
    sets: bool,
    operates: bool,
    resets: bool,
    recipes: Recipes,
}

/// A [`turnwise::wire::Schedule`], in as far as it is shown.
#[derive(Debug, Deserialize)]
struct Submits {
    name: String,
    queue: String,
    in_words: String,
    paused: bool,
    next: Vec<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
struct Schedules {
    schedules: Vec<Submits>,
}

/// A time of a schedule: by its zone's clock, and for everybody.
pub(crate) struct Next {
    pub(crate) there: String,
    pub(crate) at: Timestamp,
}

/// How each part is had or done without the page.
struct Recipes {
    queue: Recipe,
    set: Recipe,
    pause: Recipe,
    resume: Recipe,
    seal: Recipe,
    unseal: Recipe,
    reset: Recipe,
    ties: Recipe,
    statistics: Recipe,
    schedules: Recipe,
    submit: Recipe,
}

impl Recipes {
    fn of(visit: &Visit, name: &str) -> Self {
        let command = |verb| Some(Command::new(verb).value(name));
        let pause = Command::new("queue pause").value(name).option("--reason", "maintenance");
        let set = Command::new("queue set").value(name).option("--concurrency", "4");
        let job = json!({ "task": "noop", "queue": name });
        let submit = Command::new("enqueue").value("noop").option("--queue", name);
        Self {
            queue: visit.table("getQueue", name, &[], Some(Command::new("queues"))),
            set: visit.action("setQueue", name, Some(&json!({ "concurrency": 4 })), Some(set)),
            pause: visit.action("pauseQueue", name, Some(&json!({ "reason": "maintenance" })), Some(pause)),
            resume: visit.action("resumeQueue", name, None, command("queue resume")),
            seal: visit.action("sealQueue", name, None, command("queue seal")),
            unseal: visit.action("unsealQueue", name, None, command("queue seal").map(|seal| seal.flag("--undo"))),
            reset: visit.action("resetQueue", name, None, command("queue reset")),
            ties: visit.table("listQueues", "", &[], Some(Command::new("queues"))),
            statistics: visit.table("getStatistics", "", &[("by", "queue"), ("step", "minute"), ("queue", name)], None),
            schedules: visit.table("listSchedules", "", &[], Some(Command::new("schedule list"))),
            submit: visit.action("submitJob", "", Some(&job), Some(submit)),
        }
    }
}

impl Page {
    /// Where a form about it is sent.
    fn path(&self, deed: &str) -> String {
        format!("queues/{}/{deed}", encoded(&self.name))
    }

    fn is_paused(&self) -> bool {
        self.present.as_ref().is_some_and(|queue| queue.paused.is_some())
    }

    fn is_sealed(&self) -> bool {
        self.present.as_ref().is_some_and(|queue| queue.sealed.is_some())
    }

    fn jobs(&self, state: &str) -> String {
        let queue = format!("queue:{}", quoted(&self.name));
        self.frame.jobs(if state.is_empty() { queue } else { format!("{queue} state:{state}") })
    }

    /// Whether anything decides when its jobs may start.
    fn has_times(&self) -> bool {
        let own = self.present.as_ref().is_some_and(|queue| queue.schedule.is_some() || !queue.block.is_empty());
        own || !self.schedules.is_empty()
    }
}

/// What is set for it, as a form has it: one a line.
fn lines(texts: &[String]) -> String {
    texts.join("\n")
}

impl Queue {
    fn after_lines(&self) -> String {
        lines(&self.after)
    }

    fn block_lines(&self) -> String {
        lines(&self.block)
    }
}

pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    let name = visit.name.clone();
    let present: Option<Queue> = match visit.get("getQueue", &name, &[]).await {
        Ok(queue) => Some(queue),
        Err(problem) if problem.status() == 404 => {
            // It is there no more, or never was: its ended jobs tell.
            let jobs: Jobs =
                visit.get("listJobs", "", &[("queue", &name), ("limit", "1")]).await.map_err(|_| problem)?;
            // Where a form has just taken away all that was set, that is not a mistake.
            if jobs.jobs.is_empty() && jobs.reached.is_none() && visit.query.get("done").is_none() {
                let text =
                    format!("queue {name:?} has no jobs and no settings; a job that is submitted to it makes it");
                return Err(Problem::not_found(text));
            }
            None
        }
        Err(problem) => return Err(problem),
    };
    let frame = Frame::of(&visit, "queues", format!("Queue {name}")).json(format!("queues/{}", encoded(&name)));
    let all: Queues = visit.get("listQueues", "", &[("limit", "1000")]).await?;
    let graph = ties(&all.queues, Some(&name), &frame).map(|graph| Figure::of(&graph));
    let awaits = all.queues.iter().filter(|queue| queue.after.contains(&name));
    let awaited_by = awaits.map(|queue| queue.name.clone()).collect();
    let minutes = Numbers::of_last_hour(&visit, "queue", &[("queue", &name)]).await?.minutes(frame.now);
    let Schedules { mut schedules } = visit.get("listSchedules", "", &[("limit", "1000")]).await?;
    schedules.retain(|schedule| schedule.queue == name);
    let due = present.as_ref().and_then(|queue| queue.schedule.as_ref()?.schedule());
    let times = due.map(|schedule| {
        let times = std::iter::successors(schedule.next(frame.now), |at| schedule.next(*at)).take(TIMES);
        times.map(|at| Next { there: schedule.zone().words(at), at }).collect()
    });
    render(&Page {
        graph,
        awaited_by,
        throughput: Figure::of(&throughput(&minutes)),
        waits: Figure::of(&waits(&minutes)),
        schedules,
        next: times.unwrap_or_default(),
        sets: may(&visit, "setQueue", &name),
        operates: may(&visit, "pauseQueue", &name),
        resets: may(&visit, "resetQueue", &name),
        recipes: Recipes::of(&visit, &name),
        present,
        name,
        frame,
    })
}
