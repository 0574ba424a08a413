//! One job: what it is, what became of it, why it does not run, and what can be done about it.

use std::borrow::Borrow;

use askama::Template;
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use turnwise::Timestamp;
use turnwise_chart::{Attempt as Bar, Graph, Kind, Node, Phase, State, Timeline};

use crate::{
    call::Reply,
    page::{
        Visit,
        figure::Figure,
        frame::Frame,
        indent::indent,
        jobs::short,
        numbers::unix,
        recipe::{Command, Recipe},
        shown::{Shown, span},
        visit::{encoded, render},
    },
    problem::Problem,
};

/// A [`turnwise::wire::JobInFull`].
#[derive(Debug, Deserialize)]
struct Job {
    id: String,
    task: String,
    queue: String,
    group: String,
    key: Option<String>,
    unique: Option<String>,
    unique_scope: Option<String>,
    priority: u8,
    state: String,
    attempt: u32,
    retries_left: Option<u32>,
    args: Box<RawValue>,
    result: Option<Box<RawValue>>,
    error: Option<String>,
    node: Option<String>,
    submitted_at: Timestamp,
    due_at: Option<Timestamp>,
    assigned_at: Option<Timestamp>,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    retry: Option<String>,
    timeout: Option<String>,
    on_exhausted: Option<String>,
    next: Option<String>,
    expires_at: Option<Timestamp>,
    fingerprint: Option<String>,
    cancel_requested: bool,
    waits_for: Vec<String>,
    schedule: Option<String>,
    progress: Option<Progress>,
    steps: Option<Box<RawValue>>,
    after: Vec<String>,
    on_failure: Option<String>,
    awaited_by: Vec<String>,
    attempts: Vec<Attempt>,
}

#[derive(Debug, Deserialize)]
struct Progress {
    done: u64,
    total: Option<u64>,
    text: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Attempt {
    number: u32,
    task: String,
    ending: String,
    node: Option<String>,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    error: Option<Vec<String>>,
    place: Option<String>,
    fingerprint: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Log {
    lines: Vec<Line>,
    dropped: u64,
}

#[derive(Debug, Deserialize)]
struct Line {
    at: Timestamp,
    level: String,
    run: i64,
    line: u32,
    text: String,
}

#[derive(Debug, Deserialize)]
struct Ties {
    jobs: Vec<Tied>,
    more: bool,
}

#[derive(Debug, Deserialize)]
struct Tied {
    id: String,
    state: Option<String>,
    task: Option<String>,
    after: Vec<String>,
    on_failure: Option<String>,
}

#[derive(Template)]
#[template(path = "job.html")]
struct Page {
    frame: Frame,
    job: Job,
    log: Log,
    timeline: Figure,
    graph: Option<Figure>,
    more_ties: bool,
    /// What the caller may do, and is possible in the job's state.
    deeds: Vec<Deed>,
    may: May,
    recipes: Recipes,
}

/// How each part is had or done without the page.
struct Recipes {
    job: Recipe,
    log: Recipe,
    graph: Recipe,
    change: Recipe,
}

impl Recipes {
    fn of(visit: &Visit, job: &Job) -> Self {
        let command = |verb| Command::new(verb).value(&job.id);
        let change = command("change").option("--priority", "1").option("--queue", &job.queue).option("--in", "10m");
        let body = json!({ "priority": 1, "queue": job.queue, "in": "10m" });
        Self {
            job: visit.table("getJob", &job.id, &[], Some(command("job"))),
            log: visit.table("getJobLog", &job.id, &[], Some(command("logs"))),
            graph: visit.table("getJobGraph", &job.id, &[], Some(command("job").flag("--graph"))),
            change: visit.action("changeJob", &job.id, Some(&body), Some(change)),
        }
    }
}

/// One thing to do to the job.
#[derive(Debug)]
struct Deed {
    label: &'static str,
    path: String,
    recipe: Recipe,
}

/// What else the caller may do.
#[derive(Debug)]
struct May {
    change: bool,
    resubmit: bool,
    why: bool,
}

impl Job {
    fn ended(&self) -> bool {
        matches!(self.state.as_str(), "success" | "failed" | "cancelled")
    }

    fn rests(&self) -> bool {
        matches!(self.state.as_str(), "waiting" | "stuck")
    }

    fn may(&self, visit: &Visit) -> May {
        May {
            change: visit.may("changeJob") && self.rests(),
            resubmit: visit.may("resubmitJob"),
            why: visit.may("whyJob"),
        }
    }

    fn deeds(&self, visit: &Visit) -> Vec<Deed> {
        let state = self.state.as_str();
        let all = [
            ("cancelJob", "cancel", "Cancel", "cancel", !self.ended() && !self.cancel_requested),
            ("retryJob", "retry", "Run again", "retry", matches!(state, "stuck" | "failed" | "cancelled")),
            ("rerunJob", "rerun", "Run once more", "retry", state == "success"),
            ("failJob", "fail", "Mark as failed", "fail", state == "stuck"),
        ];
        let possible = all.into_iter().filter(|(route, .., possible)| *possible && visit.may(route));
        let deed = |(route, verb, label, command, _)| {
            let command = Command::new(command).value(&self.id);
            let command = if route == "rerunJob" { command.flag("--again") } else { command };
            Deed {
                label,
                path: format!("jobs/{}/{verb}", self.id),
                recipe: visit.action(route, &self.id, None, Some(command)),
            }
        };
        possible.map(deed).collect()
    }

    /// What its priority means.
    fn lane(&self) -> &'static str {
        match self.priority {
            5 => "as usual",
            1..5 => "before others of its group",
            _ => "after others of its group",
        }
    }

    /// What becomes of it if a job that it waits for does not succeed.
    fn otherwise(&self) -> Option<&'static str> {
        match self.on_failure.as_deref()? {
            "run" => Some("it runs all the same"),
            "cancel" => Some("it is cancelled"),
            _ => Some("it fails, too"),
        }
    }

    fn steps(&self) -> Option<String> {
        let steps = self.steps.as_ref()?.get();
        (!matches!(steps, "{}" | "null")).then(|| indent(steps))
    }

    fn args(&self) -> String {
        indent(self.args.get())
    }

    fn result(&self) -> String {
        self.result.as_ref().map_or_else(String::new, |result| indent(result.get()))
    }

    /// How long it ran, or runs until now.
    fn ran(&self, now: impl Borrow<Timestamp>) -> Option<String> {
        let started = self.started_at?;
        Some(span(self.finished_at.unwrap_or(*now.borrow()).since(started)))
    }

    fn waited(&self, now: impl Borrow<Timestamp>) -> String {
        // Until its first run: what came between the runs is the picture's to show.
        let first = self.attempts.iter().filter_map(|attempt| attempt.started_at).chain(self.started_at).min();
        let until = first.or(self.finished_at).unwrap_or(*now.borrow());
        span(until.since(self.submitted_at))
    }

    /// Its attempts, each in its phases.
    fn timeline(&self, now: Timestamp) -> Timeline {
        let mut from = self.submitted_at;
        let mut rests = State::Waiting;
        let mut attempts = Vec::new();
        for attempt in &self.attempts {
            let started = attempt.started_at.unwrap_or(from);
            let finished = attempt.finished_at.unwrap_or(started);
            let mut phases = vec![Phase { state: rests, from: unix(from), to: unix(started) }];
            phases.push(Phase { state: State::Running, from: unix(started), to: unix(finished) });
            let ended = Some(if attempt.ending == "next" { State::Success } else { State::Failed });
            attempts.push(Bar { name: format!("{}. {}", attempt.number, attempt.ending), phases, ended });
            (from, rests) = (finished, if attempt.ending == "next" { State::Waiting } else { State::Stuck });
        }
        // What is not among the attempts: the run that ended well, the one that is under way, or the wait for the next one.
        let last = self.attempts.last().and_then(|attempt| attempt.started_at);
        let is_new = self.started_at.is_some_and(|started| last.is_none_or(|last| last < started));
        let end = self.finished_at.filter(|_| self.ended()).unwrap_or(now);
        let state = State::from_name(&self.state).unwrap_or(State::Waiting);
        let mut phases = Vec::new();
        let mut step = |state, from: Timestamp, to: Timestamp| {
            phases.push(Phase { state, from: unix(from), to: unix(to.max(from)) });
        };
        match self.started_at.filter(|_| is_new) {
            Some(started) => {
                let given = self.assigned_at.filter(|given| *given >= from && *given <= started).unwrap_or(started);
                step(rests, from, given);
                step(State::Scheduled, given, started);
                step(State::Running, started, end);
            }
            None if self.ended() && self.attempts.last().is_some_and(|last| last.finished_at == self.finished_at) => {}
            None => match self.assigned_at.filter(|_| state == State::Scheduled && self.assigned_at >= Some(from)) {
                Some(given) => {
                    step(rests, from, given);
                    step(State::Scheduled, given, end);
                }
                None => step(rests, from, end),
            },
        }
        if !phases.is_empty() {
            let number = self.attempts.last().map_or(0, |last| last.number) + 1;
            let name = match self.started_at.filter(|_| is_new) {
                Some(_) => format!("{number}. run"),
                None if self.ended() => "then".to_owned(),
                None => "since then".to_owned(),
            };
            attempts.push(Bar { name, phases, ended: self.ended().then_some(state) });
        }
        Timeline { title: "Attempts of this job".to_owned(), begins: "submitted".to_owned(), attempts }
    }
}

fn graph(ties: &Ties, here: &str, frame: &Frame) -> Graph {
    let number = |id: &String| ties.jobs.iter().position(|job| job.id == *id);
    let nodes = ties.jobs.iter().map(|job| {
        let state = job.state.as_deref().unwrap_or("kept no longer");
        let on_failure = job.on_failure.as_ref().map_or_else(String::new, |what| format!(", on failure: {what}"));
        Node {
            name: job.task.clone().unwrap_or_else(|| short(&job.id).to_owned()),
            note: format!("{state} · {}", short(&job.id)),
            hint: format!("{} {state}{on_failure}", job.id),
            kind: job.state.as_deref().and_then(State::from_name).map_or(Kind::Gone, Kind::State),
            href: Some(frame.job(&job.id)),
            here: job.id == here,
            after: job.after.iter().filter_map(number).collect(),
        }
    });
    Graph { title: "Which jobs wait for which".to_owned(), heading: String::new(), nodes: nodes.collect() }
}

pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    let job: Job = visit.get("getJob", &visit.name, &[]).await?;
    let log: Log = visit.get("getJobLog", &visit.name, &[("limit", "200")]).await?;
    let frame = Frame::of(&visit, "jobs", format!("{} {}", job.task, short(&job.id)));
    let frame = frame.json(format!("jobs/{}", encoded(&job.id)));
    let ties: Option<Ties> = if job.after.is_empty() && job.awaited_by.is_empty() {
        None
    } else {
        Some(visit.get("getJobGraph", &visit.name, &[]).await?)
    };
    let graph = ties.as_ref().map(|ties| Figure::of(&graph(ties, &job.id, &frame)));
    let timeline = Figure::of(&job.timeline(frame.now));
    let (deeds, may) = (job.deeds(&visit), job.may(&visit));
    let more_ties = ties.is_some_and(|ties| ties.more);
    let recipes = Recipes::of(&visit, &job);
    render(&Page { frame, log, timeline, graph, more_ties, deeds, may, recipes, job })
}

/// A [`turnwise::wire::Why`].
#[derive(Debug, Deserialize)]
struct Words {
    gates: Vec<Gate>,
    before: Option<u64>,
    starts_in_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Gate {
    text: String,
    until: Option<Timestamp>,
}

#[derive(Template)]
#[template(path = "why.html")]
struct Why {
    frame: Frame,
    id: String,
    why: Words,
    recipe: Recipe,
}

impl Words {
    /// When the last of what holds it up, as far as that is known, is over.
    fn earliest(&self) -> Option<Timestamp> {
        self.gates.iter().filter_map(|gate| gate.until).max()
    }

    fn starts(&self) -> Option<String> {
        self.starts_in_ms.map(|ms| span(std::time::Duration::from_millis(ms)))
    }
}

/// Why it does not run, which may take a while: the page asks for it when it is there itself.
pub(crate) async fn why(visit: Visit) -> Result<Reply, Problem> {
    let why = visit.get("whyJob", &visit.name, &[]).await?;
    let frame = Frame::of(&visit, "jobs", format!("Why {} waits", short(&visit.name)));
    let frame = frame.json(format!("jobs/{}/why", encoded(&visit.name)));
    let recipe = visit.table("whyJob", &visit.name, &[], Some(Command::new("why").value(&visit.name)));
    render(&Why { frame, id: visit.name.clone(), why, recipe })
}
