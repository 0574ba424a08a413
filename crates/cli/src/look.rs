//! Looking at jobs and nodes.

use std::{collections::BTreeMap, num::NonZeroU32};

use serde::Serialize;
use turnwise::{
    Filter, Fleet, GroupName, Invalid, Job, JobId, JobState, Json, KeyName, Node, NodeName, OnFailure, Priority,
    QueueName, TaskName, Timestamp,
    settings::Settings as Set,
    story::{Attempt, Progress, Story},
};
use turnwise_core::{Incarnation, time::print_span, why::gates};

use crate::{
    args,
    error::Failure,
    graph, logs,
    print::{self, shown},
    serve::block_on,
    settings::Settings,
    troubles,
};

/// A job as it is shown. The names are an interface: scripts read them.
#[derive(Debug, Serialize)]
struct JobView<'a> {
    id: JobId,
    task: &'a TaskName,
    queue: &'a QueueName,
    group: &'a GroupName,
    key: Option<&'a KeyName>,
    priority: Priority,
    state: JobState,
    attempt: u32,
    /// `null` where a person decides.
    retries_left: Option<u32>,
    args: &'a Json,
    result: Option<&'a Json>,
    error: Option<&'a str>,
    node: Option<&'a NodeName>,
    submitted_at: Timestamp,
    due_at: Option<Timestamp>,
    assigned_at: Option<Timestamp>,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    retry: String,
    timeout: Option<String>,
    on_exhausted: Option<&'a TaskName>,
    expires_at: Option<Timestamp>,
    /// The same for all failures of that kind.
    fingerprint: Option<&'a str>,
    cancel_requested: bool,
    waits_for: Vec<String>,
}

impl<'a> JobView<'a> {
    fn new(job: &'a Job, set: &Set, fleet: &Fleet) -> Self {
        let set = set.queues.get(&job.queue);
        let by_schedule = set.filter(|_| job.state == JobState::Waiting).and_then(|set| set.due_by_schedule(job));
        Self {
            id: job.id,
            task: &job.task,
            queue: &job.queue,
            group: &job.group,
            key: job.key.as_ref(),
            priority: job.priority,
            state: job.state,
            attempt: job.attempt(),
            retries_left: job.retry.left(job.counts.retry),
            args: &job.args,
            result: job.result.as_ref(),
            error: job.error.as_deref(),
            node: job.node.as_ref(),
            submitted_at: job.submitted_at,
            due_at: by_schedule.or(job.due_at),
            assigned_at: job.assigned_at,
            started_at: job.started_at,
            finished_at: job.finished_at,
            retry: job.retry.to_string(),
            timeout: job.terms.timeout().map(print_span),
            on_exhausted: job.terms.on_exhausted().map(|step| &step.task),
            expires_at: job.expires_at,
            fingerprint: job.fingerprint.as_deref(),
            cancel_requested: job.cancel_requested,
            waits_for: gates(job, set, &fleet.nodes, fleet.now).iter().map(ToString::to_string).collect(),
        }
    }

    fn row(&self) -> [String; 9] {
        let note = if self.waits_for.is_empty() {
            self.error.map(print::brief).unwrap_or_default()
        } else {
            format!("waits: {}", self.waits_for.join("; "))
        };
        [
            self.id.to_string(),
            self.state.to_string(),
            self.task.to_string(),
            self.queue.to_string(),
            self.group.to_string(),
            self.priority.get().to_string(),
            self.attempt.to_string(),
            shown(self.node),
            note,
        ]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![
            ("id", self.id.to_string()),
            ("task", self.task.to_string()),
            ("queue", self.queue.to_string()),
            ("group", self.group.to_string()),
            ("key", shown(self.key)),
            ("priority", self.priority.get().to_string()),
            ("state", self.state.to_string()),
            ("attempt", self.attempt.to_string()),
            ("retries_left", self.retries_left.map_or_else(|| "a person decides".to_owned(), |left| left.to_string())),
            ("retry", self.retry.clone()),
            ("timeout", shown(self.timeout.as_ref())),
            ("on_exhausted", shown(self.on_exhausted)),
            ("expires_at", shown(self.expires_at)),
            ("args", self.args.to_string()),
            ("result", shown(self.result)),
            ("error", shown(self.error)),
            ("fingerprint", shown(self.fingerprint)),
            ("node", shown(self.node)),
            ("submitted_at", self.submitted_at.to_string()),
            ("due_at", shown(self.due_at)),
            ("assigned_at", shown(self.assigned_at)),
            ("started_at", shown(self.started_at)),
            ("finished_at", shown(self.finished_at)),
            ("cancel_requested", self.cancel_requested.to_string()),
        ];
        fields.extend(self.waits_for.iter().map(|gate| ("waits for", gate.clone())));
        fields
    }
}

pub(crate) fn jobs(settings: &Settings, wish: &args::Jobs) -> Result<(), Failure> {
    let filter = Filter {
        states: wish.states.iter().map(|state| state.parse()).collect::<Result<_, _>>()?,
        queue: wish.queue.clone(),
        group: wish.group.clone(),
        task: wish.task.clone(),
        limit: match (wish.limit.as_deref(), &wish.by) {
            (Some(text), _) => Some(limit("limit", text)?),
            (None, Some(_)) => Some(Filter::MAX_LIMIT),
            (None, None) => None,
        },
    };
    let (jobs, set, fleet) = block_on(async {
        let turnwise = settings.open().await?;
        let jobs = turnwise.jobs(filter).await?;
        Ok((jobs, turnwise.settings().await?, turnwise.nodes().await?))
    })?;
    if wish.by.is_some() {
        return troubles::by_error(&jobs, wish.json);
    }
    let views = jobs.iter().map(|job| JobView::new(job, &set, &fleet));
    if wish.json {
        print::array(views)?;
    } else {
        let header = ["ID", "STATE", "TASK", "QUEUE", "GROUP", "PRIORITY", "ATTEMPT", "NODE", ""];
        print::table(header, views.map(|view| view.row()))?;
    }
    Ok(())
}

pub(crate) fn limit(name: &'static str, text: &str) -> Result<u32, Invalid> {
    match text.parse() {
        Ok(limit @ 1..=Filter::MAX_LIMIT) => Ok(limit),
        _ => Err(Invalid::new(name, format!("must be 1 to {}, not {text:?}", Filter::MAX_LIMIT))),
    }
}

pub(crate) fn job(settings: &Settings, wish: &args::ShowJob) -> Result<(), Failure> {
    let id: JobId = wish.id.parse()?;
    match (wish.watch, wish.graph) {
        (true, _) => logs::watch(settings, id),
        (_, true) => graph::show(settings, id, wish.svg.as_deref()),
        _ => show_job(settings, id, wish.json),
    }
}

pub(crate) fn job_in_full(settings: &Settings, id: JobId) -> Result<(), Failure> {
    show_job(settings, id, false)
}

/// The row, and what the job tells of its runs.
fn show_job(settings: &Settings, id: JobId, json: bool) -> Result<(), Failure> {
    let (job, story, set, fleet) = block_on(async {
        let turnwise = settings.open().await?;
        Ok((turnwise.job(id).await?, turnwise.story(id, 0).await?, turnwise.settings().await?, turnwise.nodes().await?))
    })?;
    let view = JobView::new(&job, &set, &fleet);
    if json {
        print::object(&InFull { job: view, story: StoryView::new(&story) })?;
        return Ok(());
    }
    let mut fields = view.fields();
    if let Some(what) = story.after.on_failure() {
        fields.extend(story.after.ids().iter().map(|id| ("after", format!("{id} (on failure: {what})"))));
    }
    fields.extend(story.awaited_by.iter().map(|id| ("awaited by", id.to_string())));
    fields.extend(story.progress.as_ref().map(|progress| ("progress", logs::bar(progress))));
    fields.extend(story.steps.iter().map(|step| ("step", format!("{} = {}", step.name, step.result))));
    fields.extend(story.attempts.iter().map(|attempt| ("attempt", told(attempt))));
    print::fields(fields)?;
    Ok(())
}

/// `1 extract on node-a, error after 3.0 s: disk on fire (at src/extract.rs:41:9)`
fn told(attempt: &Attempt) -> String {
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

#[derive(Debug, Serialize)]
struct InFull<'a> {
    #[serde(flatten)]
    job: JobView<'a>,
    #[serde(flatten)]
    story: StoryView<'a>,
}

#[derive(Debug, Serialize)]
struct StoryView<'a> {
    progress: Option<ProgressView<'a>>,
    steps: BTreeMap<&'a str, &'a Json>,
    /// Whom it waits or waited for.
    after: &'a [JobId],
    on_failure: Option<&'static str>,
    /// Who waits or waited for it; the first of them.
    awaited_by: &'a [JobId],
    attempts: Vec<AttemptView<'a>>,
}

#[derive(Debug, Serialize)]
struct ProgressView<'a> {
    done: u64,
    total: u64,
    text: &'a str,
}

#[derive(Debug, Serialize)]
struct AttemptView<'a> {
    number: u32,
    task: &'a TaskName,
    ending: &'static str,
    node: Option<&'a NodeName>,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    /// What went wrong, then each cause.
    error: Option<&'a [String]>,
    place: Option<&'a str>,
    fingerprint: Option<String>,
}

impl<'a> StoryView<'a> {
    fn new(story: &'a Story) -> Self {
        let attempt = |attempt: &'a Attempt| AttemptView {
            number: attempt.number,
            task: &attempt.task,
            ending: attempt.ending.name(),
            node: attempt.node.as_ref(),
            started_at: attempt.started_at,
            finished_at: attempt.finished_at,
            error: attempt.failure.as_ref().map(|failure| failure.chain.as_slice()),
            place: attempt.failure.as_ref().and_then(|failure| failure.place.as_deref()),
            fingerprint: attempt.failure.as_ref().map(|failure| failure.fingerprint()),
        };
        let progress =
            |progress: &'a Progress| ProgressView { done: progress.done, total: progress.total, text: &progress.text };
        Self {
            progress: story.progress.as_ref().map(progress),
            steps: story.steps.iter().map(|step| (step.name.as_str(), &step.result)).collect(),
            after: story.after.ids(),
            on_failure: story.after.on_failure().map(OnFailure::name),
            awaited_by: &story.awaited_by,
            attempts: story.attempts.iter().map(attempt).collect(),
        }
    }
}

/// A node as it is shown.
#[derive(Debug, Serialize)]
struct NodeView<'a> {
    name: &'a NodeName,
    incarnation: Incarnation,
    host: &'a str,
    pid: u32,
    slots: u32,
    batch_size: Option<NonZeroU32>,
    /// `null` = all.
    queues: Option<Vec<&'a QueueName>>,
    /// Those are the ones it does not serve.
    all_but: bool,
    tasks: Vec<&'a TaskName>,
    dispatcher: bool,
    state: &'static str,
    lease_until: Timestamp,
    joined_at: Timestamp,
}

impl<'a> NodeView<'a> {
    fn new(node: &'a Node, now: Timestamp) -> Self {
        let (queues, all_but) = node.queues.parts();
        Self {
            name: &node.name,
            incarnation: node.incarnation,
            host: &node.host.name,
            pid: node.host.pid,
            slots: node.slots,
            batch_size: node.batch_size,
            queues: queues.map(|queues| queues.iter().collect()),
            all_but,
            tasks: node.tasks.iter().collect(),
            dispatcher: node.dispatcher,
            state: if node.alive(now) { "alive" } else { "lost" },
            lease_until: node.lease_until,
            joined_at: node.joined_at,
        }
    }

    fn row(&self) -> [String; 10] {
        [
            self.name.to_string(),
            self.state.to_owned(),
            if self.dispatcher { "yes" } else { "" }.to_owned(),
            self.slots.to_string(),
            self.host.to_owned(),
            self.pid.to_string(),
            match &self.queues {
                None => "all".to_owned(),
                Some(queues) if self.all_but => format!("all but {}", listed(queues)),
                Some(queues) => listed(queues),
            },
            listed(&self.tasks),
            self.lease_until.to_string(),
            self.joined_at.to_string(),
        ]
    }
}

fn listed(names: &[impl ToString]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

pub(crate) fn nodes(settings: &Settings, wish: &args::Nodes) -> Result<(), Failure> {
    let fleet = block_on(async { Ok(settings.open().await?.nodes().await?) })?;
    let views = fleet.nodes.iter().map(|node| NodeView::new(node, fleet.now));
    if wish.json {
        print::array(views)?;
    } else {
        let header =
            ["NAME", "STATE", "DISPATCHER", "SLOTS", "HOST", "PID", "QUEUES", "TASKS", "LEASE UNTIL", "JOINED AT"];
        print::table(header, views.map(|view| view.row()))?;
    }
    Ok(())
}
