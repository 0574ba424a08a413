//! Looking at jobs and nodes.

use std::{collections::BTreeMap, time::Duration};

use turnwise::{
    Filter, Invalid, JobId, JobState, Timestamp, Turnwise,
    schedules::{Periodic, ScheduleName},
    story::Attempt,
    wire,
};
use turnwise_core::time::parse_span;

use crate::{
    args, dead_letters,
    error::{Failure, remark},
    graph, logs,
    print::{self, shown},
    serve::block_on,
    settings::Settings,
};

fn row(job: &wire::Job<'_>, now: Timestamp) -> [String; 11] {
    [
        job.id.to_string(),
        print::age(now.since(job.submitted_at)),
        job.state.to_string(),
        job.task.to_string(),
        job.queue.to_string(),
        job.group.to_string(),
        job.priority.get().to_string(),
        job.attempt.to_string(),
        shown(job.node),
        shown(unique(job)),
        note(job),
    ]
}

/// `nightly (task:report)`: the unique key that it holds, and among which jobs.
fn unique(job: &wire::Job<'_>) -> Option<String> {
    Some(format!("{} ({})", job.unique?, job.unique_scope?))
}

/// What a person would ask next: what it waits for, or what went wrong. An error that a job got over is not among it.
fn note(job: &wire::Job<'_>) -> String {
    let error = job.error.filter(|_| job.state != JobState::Success).map(print::brief).unwrap_or_default();
    let waits: Vec<_> = job.waits_for.iter().map(|gate| gate.strip_prefix("waits ").unwrap_or(gate)).collect();
    if waits.is_empty() { error } else { format!("waits: {}", waits.join("; ")) }
}

fn retries_left(job: &wire::Job<'_>) -> String {
    match (job.retries_left, &job.retry) {
        (Some(left), _) => left.to_string(),
        (None, Some(_)) => "a person decides".to_owned(),
        (None, None) => "as its task sets it".to_owned(),
    }
}

fn fields(job: &wire::Job<'_>) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        ("id", job.id.to_string()),
        ("task", job.task.to_string()),
        ("queue", job.queue.to_string()),
        ("group", job.group.to_string()),
        ("key", shown(job.key)),
        (
            "unique",
            shown(unique(job).map(|held| match job.unique_until {
                Some(until) => format!("{held} until {until}"),
                None => format!("{held} until it ends"),
            })),
        ),
        ("priority", job.priority.get().to_string()),
        ("state", job.state.to_string()),
        ("attempt", job.attempt.to_string()),
        ("retries_left", retries_left(job)),
        ("retry", shown(job.retry.as_ref())),
        ("timeout", shown(job.timeout.as_ref())),
        ("on_exhausted", shown(job.on_exhausted)),
        ("expires_at", shown(job.expires_at)),
        ("args", job.args.to_string()),
        ("result", shown(job.result)),
        // What went wrong before a success is told by the attempts.
        ("error", shown(job.error.filter(|_| job.state != JobState::Success))),
        ("fingerprint", shown(job.fingerprint.filter(|_| job.state != JobState::Success))),
        ("node", shown(job.node)),
        ("submitted_at", job.submitted_at.to_string()),
        ("due_at", shown(job.due_at)),
        ("assigned_at", shown(job.assigned_at)),
        ("started_at", shown(job.started_at)),
        ("finished_at", shown(job.finished_at)),
        ("cancel_requested", job.cancel_requested.to_string()),
    ];
    fields.extend(job.schedule.map(|name| ("schedule", name.to_string())));
    let waits = job.waits_for.iter().map(|gate| gate.strip_prefix("waits for ").unwrap_or(gate));
    fields.extend(waits.map(|gate| ("waits for", gate.to_owned())));
    fields
}

/// Jobs that are looked at for a text in their arguments.
const LOOKS: u32 = 20_000;

pub(crate) fn jobs(settings: &Settings, call: &args::Jobs) -> Result<(), Failure> {
    let limit = match (call.limit.as_deref(), &call.by) {
        (Some(text), _) => limit("limit", text)?,
        (None, Some(_)) => Filter::MAX_LIMIT,
        (None, None) => Filter::DEFAULT_LIMIT,
    };
    let since = call.since.as_deref().map(|text| Asked::read("since", text)).transpose()?;
    let until = call.until.as_deref().map(|text| Asked::read("until", text)).transpose()?;
    let mut filter = Filter {
        states: call.states.iter().map(|state| state.parse()).collect::<Result<_, _>>()?,
        queue: call.queue.clone(),
        group: call.group.clone(),
        task: call.task.clone(),
        unique: call.unique.clone(),
        limit: Some(if call.args_contain.is_some() { LOOKS } else { limit }),
        ..Filter::default()
    };
    let (jobs, reasons, set, schedules, now) = block_on(async {
        let turnwise = settings.open().await?;
        let now = turnwise.now().await?;
        filter.since = since.map(|asked| asked.at(now));
        filter.until = until.map(|asked| asked.at(now));
        let mut jobs = turnwise.jobs(filter).await?;
        if let Some(text) = &call.args_contain {
            let (looked, oldest) = (jobs.len(), jobs.last().map(|job| job.submitted_at));
            jobs.retain(|job| job.args.as_str().contains(text));
            if let Some(oldest) = oldest.filter(|_| looked == LOOKS as usize) {
                remark(&format!("looked at the newest {looked} jobs, back to {oldest}; older ones were not looked at"));
            }
            jobs.truncate(limit as usize);
        }
        let reasons = turnwise.reasons(&jobs).await?;
        Ok((jobs, reasons, turnwise.settings().await?, schedules(&turnwise).await, now))
    })?;
    if call.by.is_some() {
        return dead_letters::by_error(&jobs, &call.table);
    }
    let views = jobs.iter().zip(&reasons).map(|(job, gates)| wire::Job::new(job, &set, gates, schedules.keys()));
    if call.table.json {
        print::array(views)?;
    } else {
        let header = ["ID", "AGE", "STATE", "TASK", "QUEUE", "GROUP", "PRIORITY", "ATTEMPT", "NODE", "UNIQUE", "NOTE"];
        print::table(header, views.map(|job| row(&job, now)), call.table.wide)?;
    }
    Ok(())
}

/// For the names of jobs' schedules. One that a newer program has written is no reason to show no jobs.
pub(crate) async fn schedules(turnwise: &Turnwise) -> BTreeMap<ScheduleName, Periodic> {
    turnwise.schedules().await.unwrap_or_default()
}

/// A time as a person asks for it.
#[derive(Debug, Clone, Copy)]
enum Asked {
    At(Timestamp),
    Ago(Duration),
}

impl Asked {
    fn read(field: &'static str, text: &str) -> Result<Self, Invalid> {
        if let Ok(at) = text.parse() {
            return Ok(Self::At(at));
        }
        let like = "write it like 2030-01-31T08:30:00Z, or like 2h for two hours ago";
        let bad = |_| Invalid::new(field, format!("{text:?} is neither a time nor a duration; {like}"));
        parse_span(field, text).map(Self::Ago).map_err(bad)
    }

    fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(span) => now.minus(span),
        }
    }
}

/// The job that a person means by an id, or by the beginning of one.
pub(crate) fn id(settings: &Settings, text: &str) -> Result<JobId, Failure> {
    match text.parse() {
        Ok(id) => Ok(id),
        Err(_) => block_on(async { Ok(settings.open().await?.find_id(text).await?) }),
    }
}

pub(crate) fn limit(name: &'static str, text: &str) -> Result<u32, Invalid> {
    match text.parse() {
        Ok(limit @ 1..=Filter::MAX_LIMIT) => Ok(limit),
        _ => Err(Invalid::new(name, format!("must be 1 to {}, not {text:?}", Filter::MAX_LIMIT))),
    }
}

pub(crate) fn job(settings: &Settings, call: &args::ShowJob) -> Result<(), Failure> {
    let id = id(settings, &call.id)?;
    match (call.watch, call.graph) {
        (true, _) => logs::watch(settings, id),
        (_, true) => graph::show(settings, id, call.svg.as_deref()),
        _ => show_job(settings, id, call.json),
    }
}

pub(crate) fn job_in_full(settings: &Settings, id: JobId) -> Result<(), Failure> {
    show_job(settings, id, false)
}

/// The row, and what is recorded about the job's runs.
fn show_job(settings: &Settings, id: JobId, json: bool) -> Result<(), Failure> {
    let (job, story, gates, set, schedules) = block_on(async {
        let turnwise = settings.open().await?;
        let job = turnwise.job(id).await?;
        let gates = turnwise.gates_of(&job).await?;
        Ok((job, turnwise.story(id, 0).await?, gates, turnwise.settings().await?, schedules(&turnwise).await))
    })?;
    let view = wire::Job::new(&job, &set, &gates, schedules.keys());
    if json {
        print::object(&wire::JobInFull::new(view, &story))?;
        return Ok(());
    }
    let mut fields = fields(&view);
    if let Some(what) = story.after.on_failure() {
        fields.extend(story.after.ids().iter().map(|id| ("after", format!("{id} (on failure: {what})"))));
    }
    fields.extend(story.awaited_by.iter().map(|id| ("awaited by", id.to_string())));
    fields.extend(story.progress.as_ref().map(|progress| ("progress", logs::bar(progress))));
    fields.extend(story.steps.iter().map(|step| ("step", format!("{} = {}", step.name, step.result))));
    fields.extend(story.attempts.iter().map(|attempt| ("attempt", attempt_line(attempt))));
    print::fields(fields)?;
    Ok(())
}

/// `1 extract on node-a, error after 3.0 s: disk on fire (at src/extract.rs:41:9)`
fn attempt_line(attempt: &Attempt) -> String {
    let Attempt { number, task, ending, node, started_at, finished_at, failure, .. } = attempt;
    let on = node.as_ref().map_or_else(String::new, |node| format!(" on {node}"));
    let after = match (started_at, finished_at) {
        (Some(began), Some(ended)) => format!(" after {}", print::about(ended.since(*began))),
        _ => String::new(),
    };
    let error = failure.as_ref().map_or_else(String::new, |failure| format!(": {}", failure.text()));
    let place = failure.as_ref().and_then(|failure| failure.place.as_ref());
    let place = place.map_or_else(String::new, |place| format!(" (at {place})"));
    format!("{number} {task}{on}, {}{after}{error}{place}", ending.name())
}

fn node_row(node: &wire::Node<'_>, now: Timestamp) -> [String; 14] {
    [
        node.name.to_string(),
        print::age(now.since(node.joined_at)),
        node.state.to_owned(),
        node.lost_at.map_or_else(String::new, |at| format!("{} ago", print::age(now.since(at)))),
        node.held.map_or_else(String::new, |held| held.to_string()),
        if node.dispatcher { "yes" } else { "" }.to_owned(),
        node.slots.to_string(),
        node.host.to_owned(),
        node.pid.to_string(),
        match &node.queues {
            None => "all".to_owned(),
            Some(queues) if node.all_but => format!("all but {}", listed(queues)),
            Some(queues) => listed(queues),
        },
        listed(&node.tasks),
        node.lease_until.to_string(),
        node.joined_at.to_string(),
        match node.held {
            Some(held) if held > node.held_jobs.len() as u64 => format!("{}, …", listed(node.held_jobs)),
            _ => listed(node.held_jobs),
        },
    ]
}

fn listed(names: &[impl ToString]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

pub(crate) fn nodes(settings: &Settings, call: &args::Table) -> Result<(), Failure> {
    let fleet = block_on(async { Ok(settings.open().await?.nodes().await?) })?;
    let views = wire::Node::all(&fleet);
    if call.json {
        print::array(views)?;
    } else {
        let header = [
            "NAME",
            "AGE",
            "STATE",
            "LOST",
            "HELD",
            "DISPATCHER",
            "SLOTS",
            "HOST",
            "PID",
            "QUEUES",
            "TASKS",
            "LEASE UNTIL",
            "JOINED AT",
            "HELD JOBS",
        ];
        print::table(header, views.iter().map(|node| node_row(node, fleet.now)), call.wide)?;
    }
    Ok(())
}
