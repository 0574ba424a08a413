//! Looking at jobs and nodes.

use turnwise::{Filter, Invalid, JobId, story::Attempt, wire};

use crate::{
    args,
    error::Failure,
    graph, logs,
    print::{self, shown},
    serve::block_on,
    settings::Settings,
    troubles,
};

fn row(job: &wire::Job<'_>) -> [String; 9] {
    let note = if job.waits_for.is_empty() {
        job.error.map(print::brief).unwrap_or_default()
    } else {
        format!("waits: {}", job.waits_for.join("; "))
    };
    [
        job.id.to_string(),
        job.state.to_string(),
        job.task.to_string(),
        job.queue.to_string(),
        job.group.to_string(),
        job.priority.get().to_string(),
        job.attempt.to_string(),
        shown(job.node),
        note,
    ]
}

fn fields(job: &wire::Job<'_>) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        ("id", job.id.to_string()),
        ("task", job.task.to_string()),
        ("queue", job.queue.to_string()),
        ("group", job.group.to_string()),
        ("key", shown(job.key)),
        ("priority", job.priority.get().to_string()),
        ("state", job.state.to_string()),
        ("attempt", job.attempt.to_string()),
        ("retries_left", job.retries_left.map_or_else(|| "a person decides".to_owned(), |left| left.to_string())),
        ("retry", job.retry.clone()),
        ("timeout", shown(job.timeout.as_ref())),
        ("on_exhausted", shown(job.on_exhausted)),
        ("expires_at", shown(job.expires_at)),
        ("args", job.args.to_string()),
        ("result", shown(job.result)),
        ("error", shown(job.error)),
        ("fingerprint", shown(job.fingerprint)),
        ("node", shown(job.node)),
        ("submitted_at", job.submitted_at.to_string()),
        ("due_at", shown(job.due_at)),
        ("assigned_at", shown(job.assigned_at)),
        ("started_at", shown(job.started_at)),
        ("finished_at", shown(job.finished_at)),
        ("cancel_requested", job.cancel_requested.to_string()),
    ];
    fields.extend(job.waits_for.iter().map(|gate| ("waits for", gate.clone())));
    fields
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
    let views = jobs.iter().map(|job| wire::Job::new(job, &set, &fleet));
    if wish.json {
        print::array(views)?;
    } else {
        let header = ["ID", "STATE", "TASK", "QUEUE", "GROUP", "PRIORITY", "ATTEMPT", "NODE", ""];
        print::table(header, views.map(|job| row(&job)))?;
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
    let view = wire::Job::new(&job, &set, &fleet);
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

fn node_row(node: &wire::Node<'_>) -> [String; 10] {
    [
        node.name.to_string(),
        node.state.to_owned(),
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
    ]
}

fn listed(names: &[impl ToString]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

pub(crate) fn nodes(settings: &Settings, wish: &args::Nodes) -> Result<(), Failure> {
    let fleet = block_on(async { Ok(settings.open().await?.nodes().await?) })?;
    let views = fleet.nodes.iter().map(|node| wire::Node::new(node, fleet.now));
    if wish.json {
        print::array(views)?;
    } else {
        let header =
            ["NAME", "STATE", "DISPATCHER", "SLOTS", "HOST", "PID", "QUEUES", "TASKS", "LEASE UNTIL", "JOINED AT"];
        print::table(header, views.map(|node| node_row(&node)))?;
    }
    Ok(())
}
