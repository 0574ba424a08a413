//! Looking at jobs and nodes.

use serde::Serialize;
use turnwise::{
    Filter, GroupName, Job, JobId, Json, KeyName, Node, NodeName, Priority, QueueName, TaskName, Timestamp,
    core::{Incarnation, Invalid, State, settings::Settings as Set, why::gates},
    store::Fleet,
};

use crate::{
    args,
    error::Failure,
    print::{self, shown},
    serve::block_on,
    settings::Settings,
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
    state: State,
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
    cancel_requested: bool,
    waits_for: Vec<String>,
}

impl<'a> JobView<'a> {
    fn new(job: &'a Job, set: &Set, fleet: &Fleet) -> Self {
        let set = set.queues.get(&job.queue);
        let by_schedule = set.filter(|_| job.state == State::Waiting).and_then(|set| set.due_by_schedule(job));
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
            ("args", self.args.to_string()),
            ("result", shown(self.result)),
            ("error", shown(self.error)),
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
        limit: wish.limit.as_deref().map(limit).transpose()?,
    };
    let (jobs, set, fleet) = block_on(async {
        let turnwise = settings.open().await?;
        let jobs = turnwise.jobs(filter).await?;
        Ok((jobs, turnwise.settings().await?, turnwise.nodes().await?))
    })?;
    let views = jobs.iter().map(|job| JobView::new(job, &set, &fleet));
    if wish.json {
        print::array(views)?;
    } else {
        let header = ["ID", "STATE", "TASK", "QUEUE", "GROUP", "PRIORITY", "ATTEMPT", "NODE", ""];
        print::table(header, views.map(|view| view.row()))?;
    }
    Ok(())
}

fn limit(text: &str) -> Result<u32, Invalid> {
    match text.parse() {
        Ok(limit @ 1..=Filter::MAX_LIMIT) => Ok(limit),
        _ => Err(Invalid::new("limit", format!("must be 1 to {}, not {text:?}", Filter::MAX_LIMIT))),
    }
}

pub(crate) fn job(settings: &Settings, wish: &args::OneJob) -> Result<(), Failure> {
    let id: JobId = wish.id.parse()?;
    let (job, set, fleet) = block_on(async {
        let turnwise = settings.open().await?;
        Ok((turnwise.job(id).await?, turnwise.settings().await?, turnwise.nodes().await?))
    })?;
    let view = JobView::new(&job, &set, &fleet);
    if wish.json {
        print::object(&view)?;
    } else {
        print::fields(view.fields())?;
    }
    Ok(())
}

/// A node as it is shown.
#[derive(Debug, Serialize)]
struct NodeView<'a> {
    name: &'a NodeName,
    incarnation: Incarnation,
    host: &'a str,
    pid: u32,
    slots: u32,
    /// `null` = all.
    queues: Option<Vec<&'a QueueName>>,
    tasks: Vec<&'a TaskName>,
    dispatcher: bool,
    state: &'static str,
    lease_until: Timestamp,
    joined_at: Timestamp,
}

impl<'a> NodeView<'a> {
    fn new(node: &'a Node, now: Timestamp) -> Self {
        Self {
            name: &node.name,
            incarnation: node.incarnation,
            host: &node.host.name,
            pid: node.host.pid,
            slots: node.slots,
            queues: node.queues.as_ref().map(|queues| queues.iter().collect()),
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
            self.queues.as_ref().map_or_else(|| "all".to_owned(), |queues| listed(queues)),
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
