//! Looking at jobs and nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::Deserialize;
use serde_json::value::RawValue;
use turnwise::{
    Filter, GroupName, Invalid, JobId, JobState, ListFilter, QueueName, TaskName, Timestamp, Turnwise, UniqueKey,
    filter::{JobFilter, Search},
    schedules::{Periodic, ScheduleName},
    wire,
};
use turnwise_client::Ask;
use turnwise_core::time::parse_span;

use crate::{
    args, dead_letters,
    error::{Failure, remark},
    graph, logs,
    names::{Doubt, Kind},
    place::{self, Place, Shown, read},
    print::{self, shown},
    serve::block_on,
    settings::Settings,
    view::{Attempt, Job, Node, Story},
};

fn row(job: &Job, now: Timestamp) -> [String; 11] {
    [
        job.id.clone(),
        print::age(now.since(job.submitted_at)),
        job.state.to_string(),
        job.task.clone(),
        job.queue.clone(),
        job.group.clone(),
        job.priority.to_string(),
        job.attempt.to_string(),
        shown(job.node.as_ref()),
        shown(unique(job)),
        note(job),
    ]
}

/// `nightly (task:report)`: the unique key that it holds, and among which jobs.
fn unique(job: &Job) -> Option<String> {
    Some(format!("{} ({})", job.unique.as_ref()?, job.unique_scope.as_ref()?))
}

/// An error that a job got over is not among what is shown: the attempts have it.
fn error(job: &Job) -> Option<&str> {
    job.error.as_deref().filter(|_| job.state != JobState::Success)
}

/// What a person would ask next: what it waits for, or what went wrong.
fn note(job: &Job) -> String {
    if job.state.assigned() {
        return job.waits_for.join("; ");
    }
    let error = error(job).map(print::brief).unwrap_or_default();
    let waits: Vec<_> = job.waits_for.iter().map(|gate| gate.strip_prefix("waits ").unwrap_or(gate)).collect();
    if waits.is_empty() { error } else { format!("waits: {}", waits.join("; ")) }
}

fn retries_left(job: &Job) -> String {
    match (job.retries_left, &job.retry) {
        (Some(left), _) => left.to_string(),
        (None, Some(_)) => "a person decides".to_owned(),
        (None, None) => "as its task sets it".to_owned(),
    }
}

fn fields(job: &Job) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        ("id", job.id.clone()),
        ("task", job.task.clone()),
        ("queue", job.queue.clone()),
        ("group", job.group.clone()),
        ("key", shown(job.key.as_ref())),
        (
            "unique",
            shown(unique(job).map(|held| match job.unique_until {
                Some(until) => format!("{held} until {until}"),
                None => format!("{held} until it ends"),
            })),
        ),
        ("priority", job.priority.to_string()),
        ("state", job.state.to_string()),
        ("attempt", job.attempt.to_string()),
        ("retries_left", retries_left(job)),
        ("retry", shown(job.retry.as_ref())),
        ("timeout", shown(job.timeout.as_ref())),
        ("on_exhausted", shown(job.on_exhausted.as_ref())),
        ("next", shown(job.next.as_ref())),
        ("expires_at", shown(job.expires_at)),
        ("args", job.args.get().to_owned()),
        ("result", shown(job.result.as_deref().map(RawValue::get))),
        ("error", shown(error(job))),
        ("fingerprint", shown(job.fingerprint.as_ref().filter(|_| job.state != JobState::Success))),
        ("node", shown(job.node.as_ref())),
        ("submitted_at", job.submitted_at.to_string()),
        ("due_at", shown(job.due_at)),
        ("assigned_at", shown(job.assigned_at)),
        ("started_at", shown(job.started_at)),
        ("finished_at", shown(job.finished_at)),
        ("cancel_requested", job.cancel_requested.to_string()),
    ];
    fields.extend(job.schedule.as_ref().map(|name| ("schedule", name.clone())));
    let waits = job.waits_for.iter().map(|gate| gate.strip_prefix("waits for ").unwrap_or(gate));
    fields.extend(waits.map(|gate| ("waits for", gate.to_owned())));
    fields
}

pub(crate) fn jobs(settings: &Settings, call: &args::Jobs) -> Result<(), Failure> {
    let limit = match (call.limit.as_deref(), &call.by) {
        (Some(text), _) => limit("limit", text)?,
        (None, Some(_)) => Filter::MAX_LIMIT,
        (None, None) => Filter::DEFAULT_LIMIT,
    };
    let since = call.since.as_deref().map(|text| Asked::read("since", text)).transpose()?;
    let until = call.until.as_deref().map(|text| Asked::read("until", text)).transpose()?;
    check_names(call.queue.as_deref(), call.group.as_deref(), call.task.as_deref())?;
    call.unique.as_deref().map(UniqueKey::new).transpose()?;
    if let Some(text) = &call.args_contain {
        check_snippet(text)?;
    }
    let states = call.states.iter().map(|state| state.parse()).collect::<Result<Vec<JobState>, _>>()?;
    let words = words(if call.filter.is_empty() { &call.filter_option } else { &call.filter })?;
    let how = if words.is_empty() { "--until" } else { "until:" };
    let looks_closer = call.args_contain.is_some() || !words.is_empty();
    let (jobs, now) = block_on(async {
        let place = Place::find(settings).await?;
        // Only what is asked for relative to now needs to know it.
        let now =
            if since.is_some() || until.is_some() || words.is_relative() { place.now().await? } else { Timestamp::MIN };
        let (since, until) = (since.map(|asked| asked.at(now)), until.map(|asked| asked.at(now)));
        let (jobs, now) = match &place {
            Place::Database(turnwise) => {
                let jobs = if looks_closer {
                    let list = ListFilter {
                        states: states.into_iter().collect(),
                        queues: only_one(call.queue.as_deref().map(QueueName::new).transpose()?),
                        groups: only_one(call.group.as_deref().map(GroupName::new).transpose()?),
                        tasks: only_one(call.task.as_deref().map(TaskName::new).transpose()?),
                        unique: call.unique.as_deref().map(UniqueKey::new).transpose()?,
                        since,
                        until,
                        args: call.args_contain.clone(),
                        ..ListFilter::default()
                    };
                    let (jobs, reached) = found(turnwise, &words.at(now).within(list), limit, false).await?;
                    if let Some(oldest) = reached {
                        looked_so_far(oldest, how);
                    }
                    jobs
                } else {
                    let filter = Filter {
                        states,
                        queue: call.queue.clone(),
                        group: call.group.clone(),
                        task: call.task.clone(),
                        unique: call.unique.clone(),
                        since,
                        until,
                        limit: Some(limit),
                        ..Filter::default()
                    };
                    turnwise.jobs(filter).await?
                };
                listed(turnwise, jobs).await?
            }
            Place::Server(server) => {
                let states: Vec<_> = states.iter().map(ToString::to_string).collect();
                let ask = Ask::get("/jobs")
                    .with_some("state", (!states.is_empty()).then(|| states.join(",")))
                    .with_some("queue", call.queue.as_ref())
                    .with_some("group", call.group.as_ref())
                    .with_some("task", call.task.as_ref())
                    .with_some("unique", call.unique.as_ref())
                    .with_some("since", since)
                    .with_some("until", until)
                    .with_some("args_contain", call.args_contain.as_ref())
                    .with_some("filter", (!words.is_empty()).then_some(&words));
                let listed = server.by_cursor(&ask, "jobs", limit).await?;
                if let Some(oldest) = listed.reached.filter(|_| looks_closer) {
                    looked_so_far(oldest, how);
                }
                (listed.items, listed.at)
            }
        };
        if jobs.is_empty() {
            doubt_names(&place, call).await;
        }
        Ok::<_, Failure>((jobs, now))
    })?;
    if call.by.is_some() {
        return dead_letters::by_error(&jobs, &call.table);
    }
    if call.table.json {
        print::array(jobs)?;
    } else {
        let header = ["ID", "AGE", "STATE", "TASK", "QUEUE", "GROUP", "PRIORITY", "ATTEMPT", "NODE", "UNIQUE", "NOTE"];
        let rows = jobs.iter().map(|job| Ok(row(&read(job)?, now))).collect::<Result<Vec<_>, Failure>>()?;
        print::table(header, rows, call.table.wide)?;
    }
    Ok(())
}

/// Where no job was found: says which of the names that were asked for nothing has.
async fn doubt_names(place: &Place, call: &args::Jobs) {
    let asked = [(Kind::Queue, &call.queue), (Kind::Group, &call.group), (Kind::Task, &call.task)];
    for (kind, name) in asked {
        let Some(name) = name else { continue };
        Doubt::look(place, kind, kind.word(), name).await.tell();
    }
}

/// Refuses what cannot be the name of a queue, a group or a task.
pub(crate) fn check_names(queue: Option<&str>, group: Option<&str>, task: Option<&str>) -> Result<(), Invalid> {
    queue.map(QueueName::new).transpose()?;
    group.map(GroupName::new).transpose()?;
    task.map(TaskName::new).transpose()?;
    Ok(())
}

/// Longest text that is looked for, in characters.
const SNIPPET: usize = 1_000;

fn check_snippet(text: &str) -> Result<(), Invalid> {
    if text.is_empty() || text.chars().count() > SNIPPET || text.contains(|c: char| c.is_ascii_control()) {
        let problem = format!("must have 1 to {SNIPPET} characters, none of them a control character");
        return Err(Invalid::new("args_contain", problem));
    }
    Ok(())
}

fn only_one<N: Ord>(name: Option<N>) -> Option<BTreeSet<N>> {
    name.map(|name| BTreeSet::from([name]))
}

fn looked_so_far(oldest: Timestamp, how: &str) {
    remark(&format!(
        "enough jobs were looked at, those submitted since {oldest}; to look at older ones, name that time with {how}"
    ));
}

/// A filter, of one argument or of several.
pub(crate) fn words(arguments: &[String]) -> Result<JobFilter, Invalid> {
    Ok(arguments.join(" ").parse::<JobFilter>()?)
}

/// Jobs that one look finds at most: as many as one of a server's.
const FOUND_AT_ONCE: u32 = 100;
/// The same, of a look that asks each job for more than the database is asked for.
const FOUND_CLOSER: u32 = 1_000;

/// Of the database's jobs the newest that a search means, at most so many. A look ends after some ten thousand rows, whatever they hold:
/// there the search ends, and says how far it came, or it goes on `to_the_end`.
pub(crate) async fn found(
    turnwise: &Turnwise,
    search: &Search,
    limit: u32,
    to_the_end: bool,
) -> Result<(Vec<turnwise::Job>, Option<Timestamp>), Failure> {
    let (mut jobs, mut cursor) = (Vec::new(), None);
    let most = if search.looks_closer() { FOUND_CLOSER } else { FOUND_AT_ONCE };
    loop {
        let left = limit.saturating_sub(u32::try_from(jobs.len()).unwrap_or(u32::MAX));
        // Each page has a look of its own, as those of a server have.
        let page = turnwise.search(&mut search.clone(), cursor, left.min(most)).await?;
        jobs.extend(page.jobs);
        cursor = page.next;
        if (page.reached.is_some() && !to_the_end) || cursor.is_none() || jobs.len() >= limit as usize {
            return Ok((jobs, page.reached));
        }
    }
}

/// The jobs as they are shown, and the time.
async fn listed(turnwise: &Turnwise, jobs: Vec<turnwise::Job>) -> Result<(Vec<Shown>, Timestamp), Failure> {
    let now = turnwise.now().await?;
    let secrets = turnwise.secrets().await?;
    let reasons = turnwise.reasons(&jobs).await?;
    let (set, schedules) = (turnwise.settings().await?, schedules(turnwise).await);
    // One after the other: the jobs of a long listing are not in memory twice.
    let show = |(job, gates): (turnwise::Job, Vec<_>)| {
        place::shown(&wire::Job::new(&job, &set, &gates, schedules.keys(), &secrets))
    };
    Ok((jobs.into_iter().zip(reasons).map(show).collect::<Result<_, _>>()?, now))
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
        Err(_) => block_on(async { Place::find(settings).await?.find_id(text).await }),
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
        (_, true) => graph::show(settings, id, call.json, call.svg.as_deref()),
        _ => show_job(settings, id, call.json),
    }
}

pub(crate) fn job_in_full(settings: &Settings, id: JobId) -> Result<(), Failure> {
    show_job(settings, id, false)
}

/// A job with what is recorded about its runs.
pub(crate) async fn in_full(place: &Place, id: JobId) -> Result<Shown, Failure> {
    match place {
        Place::Database(turnwise) => {
            let job = turnwise.job(id).await?;
            let gates = turnwise.gates_of(&job).await?;
            let (story, set) = (turnwise.story(id, 0).await?, turnwise.settings().await?);
            let schedules = schedules(turnwise).await;
            let secrets = turnwise.secrets().await?;
            let view = wire::Job::new(&job, &set, &gates, schedules.keys(), &secrets);
            place::shown(&wire::JobInFull::new(view, &story))
        }
        Place::Server(server) => server.ask(Ask::get(format!("/jobs/{id}")).with("gates", true)).await,
    }
}

fn show_job(settings: &Settings, id: JobId, json: bool) -> Result<(), Failure> {
    let shown = block_on(async { in_full(&Place::find(settings).await?, id).await })?;
    if json {
        return Ok(print::indented(shown.get())?);
    }
    let story: Story = read(&shown)?;
    let mut fields = fields(&read(&shown)?);
    if let Some(what) = story.on_failure {
        fields.extend(story.after.iter().map(|id| ("after", format!("{id} (on failure: {what})"))));
    }
    fields.extend(story.awaited_by.into_iter().map(|id| ("awaited by", id)));
    fields.extend(story.progress.as_ref().map(|progress| ("progress", logs::bar(progress))));
    fields.extend(story.steps.iter().map(|(name, result)| ("step", format!("{name} = {}", result.get()))));
    fields.extend(story.attempts.into_iter().map(|attempt| ("attempt", attempt_line(attempt))));
    print::fields(fields)?;
    Ok(())
}

/// `1 extract on node-a, error after 3.0 s: disk on fire (at src/extract.rs:41:9)`
fn attempt_line(attempt: Attempt) -> String {
    let Attempt { number, task, ending, node, started_at, finished_at, error, place } = attempt;
    let on = node.map_or_else(String::new, |node| format!(" on {node}"));
    let after = match (started_at, finished_at) {
        (Some(began), Some(ended)) => format!(" after {}", print::about(ended.since(began))),
        _ => String::new(),
    };
    let error = error.map_or_else(String::new, |chain| {
        let failure = turnwise_core::Failure { chain, place: None };
        format!(": {}", failure.text())
    });
    let place = place.map_or_else(String::new, |place| format!(" (at {place})"));
    format!("{number} {task}{on}, {ending}{after}{error}{place}")
}

fn node_row(node: &Node, now: Timestamp) -> [String; 15] {
    [
        node.name.clone(),
        print::age(now.since(node.joined_at)),
        node.state.clone(),
        node.lost_at.map_or_else(String::new, |at| format!("{} ago", print::age(now.since(at)))),
        node.held.map_or_else(String::new, |held| held.to_string()),
        if node.dispatcher { "yes" } else { "" }.to_owned(),
        node.slots.to_string(),
        node.host.clone(),
        if node.is_foreign() { String::new() } else { node.pid.to_string() },
        node.version.clone().unwrap_or_else(|| node.program()),
        match &node.queues {
            None => "all".to_owned(),
            Some(queues) if node.all_but => format!("all but {}", queues.join(", ")),
            Some(queues) => queues.join(", "),
        },
        node.tasks.join(", "),
        node.lease_until.to_string(),
        node.joined_at.to_string(),
        match node.held {
            Some(held) if held > node.held_jobs.len() as u64 => format!("{}, …", node.held_jobs.join(", ")),
            _ => node.held_jobs.join(", "),
        },
    ]
}

/// All nodes, and the database's time.
#[derive(Debug, Deserialize)]
struct Nodes {
    now: Timestamp,
    nodes: Vec<Shown>,
}

async fn fleet(place: &Place) -> Result<Nodes, Failure> {
    read(&match place {
        Place::Database(turnwise) => place::shown(&wire::Nodes::new(&turnwise.nodes().await?))?,
        Place::Server(server) => server.ask(Ask::get("/nodes")).await?,
    })
}

/// The nodes that are alive.
pub(crate) async fn living(place: &Place) -> Result<Vec<Node>, Failure> {
    let nodes = fleet(place).await?.nodes.iter().map(|node| read::<Node>(node)).collect::<Result<Vec<_>, _>>()?;
    Ok(nodes.into_iter().filter(Node::lives).collect())
}

pub(crate) fn nodes(settings: &Settings, call: &args::Table) -> Result<(), Failure> {
    let fleet = block_on(async { fleet(&Place::find(settings).await?).await })?;
    if call.json {
        print::array(fleet.nodes)?;
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
            "PROGRAM",
            "QUEUES",
            "TASKS",
            "LEASE UNTIL",
            "JOINED AT",
            "HELD JOBS",
        ];
        let row = |node: &Shown| Ok(node_row(&read(node)?, fleet.now));
        print::table(header, fleet.nodes.iter().map(row).collect::<Result<Vec<_>, Failure>>()?, call.wide)?;
    }
    Ok(())
}
