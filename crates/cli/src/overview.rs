//! Queues, groups, tasks and keys: their settings, and how many jobs they have.

use turnwise::{
    overview::Overview,
    settings::{GroupSettings, Pause, QueueSettings},
    wire,
};

use crate::{
    args::Counted,
    error::{Failure, remark},
    print::{self, shown},
    serve::block_on,
    settings::Settings,
};

/// How many jobs are counted unless all are to be: a fraction of a second.
pub(crate) const COUNTED: usize = 100_000;

fn queue_row(queue: &wire::Queue<'_>) -> [String; 18] {
    [
        queue.name.to_string(),
        match &queue.held_by {
            Some(held) => format!("held: no live node knows task {} of job {}", held.task, held.job),
            None => queue.state.to_owned(),
        },
        counted(queue.waiting, queue.at_least),
        queue.scheduled.to_string(),
        queue.running.to_string(),
        counted(queue.stuck, queue.at_least),
        queue.weight.to_string(),
        queue.fairness.to_string(),
        queue.concurrency.to_string(),
        shown(queue.per_node),
        shown(queue.rate),
        shown(queue.scheme),
        queue.on_error.to_string(),
        listed(queue.after),
        shown(queue.schedule),
        match queue.blocked_until {
            Some(until) => format!("{} (until {until})", listed(queue.block)),
            None => listed(queue.block),
        },
        shown(queue.sealed),
        pause_words(queue.paused),
    ]
}

/// `7`, or `7+` if there may be more.
fn counted(jobs: usize, at_least: bool) -> String {
    format!("{jobs}{}", if at_least { "+" } else { "" })
}

/// The settings in one line, as the commands that change them print them.
pub(crate) fn queue_sentence(name: &str, set: &QueueSettings) -> String {
    let QueueSettings {
        weight,
        fairness,
        concurrency,
        per_node,
        rate,
        scheme,
        on_error,
        paused,
        sealed,
        quiet: _,
        after,
        schedule,
        block,
    } = set;
    let mut sentence = format!(
        "queue {name}: {}, weight {weight}, concurrency {concurrency}, per node {}, rate {}, scheme {}, fairness {}, \
         on error {}",
        state_words(paused.as_ref()),
        or_none(*per_node),
        or_none(*rate),
        or_none(*scheme),
        fairness,
        on_error,
    );
    if !after.is_empty() {
        sentence += &format!(", after {}", listed(after));
    }
    if let Some(schedule) = schedule {
        sentence += &format!(", schedule {schedule}");
    }
    if !block.is_empty() {
        sentence += &format!(", blocked {}", listed(block));
    }
    if let Some(sealed) = sealed {
        sentence += &format!(", sealed at {sealed}");
    }
    sentence
}

fn group_row(group: &wire::Group<'_>) -> [String; 13] {
    [
        group.name.to_string(),
        group.state.to_owned(),
        counted(group.waiting, group.at_least),
        group.scheduled.to_string(),
        group.running.to_string(),
        counted(group.stuck, group.at_least),
        group.weight.to_string(),
        shown(group.concurrency),
        shown(group.rate),
        shown(group.scheme),
        shown(group.max_waiting),
        format!("{:.3} s", group.ahead),
        pause_words(group.paused),
    ]
}

pub(crate) fn group_sentence(name: &str, set: &GroupSettings) -> String {
    let GroupSettings { weight, concurrency, rate, scheme, max_waiting, paused } = set;
    format!(
        "group {name}: {}, weight {weight}, concurrency {}, rate {}, scheme {}, max waiting {}",
        state_words(paused.as_ref()),
        or_none(*concurrency),
        or_none(*rate),
        or_none(*scheme),
        or_none(*max_waiting),
    )
}

fn state(paused: Option<&Pause>) -> &'static str {
    if paused.is_some() { "paused" } else { "active" }
}

fn pause_words(paused: Option<&Pause>) -> String {
    paused.map_or_else(String::new, |pause| {
        let reason = pause.reason.as_deref().map(|reason| format!(" ({})", print::brief(reason)));
        format!("since {}{}", pause.since, reason.unwrap_or_default())
    })
}

fn state_words(paused: Option<&Pause>) -> String {
    format!("{} {}", state(paused), pause_words(paused)).trim_end().to_owned()
}

fn listed(items: &[impl ToString]) -> String {
    match items {
        [] => "-".to_owned(),
        items => items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

fn or_none<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

fn overview(settings: &Settings, call: &Counted) -> Result<Overview, Failure> {
    let most = if call.exact { usize::MAX } else { COUNTED };
    let overview = block_on(async { Ok(settings.open().await?.overview_within(most).await?) })?;
    if overview.more {
        remark(&format!("only the oldest {COUNTED} unfinished jobs were counted; --exact counts all"));
    }
    Ok(overview)
}

pub(crate) fn queues(settings: &Settings, call: &Counted) -> Result<(), Failure> {
    let overview = overview(settings, call)?;
    let views = overview.queues.iter().map(|(name, queue)| wire::Queue::new(name, queue, &overview));
    if call.table.json {
        print::array(views)?;
    } else {
        let header = [
            "QUEUE",
            "STATE",
            "WAITING",
            "SCHEDULED",
            "RUNNING",
            "STUCK",
            "WEIGHT",
            "FAIRNESS",
            "CONCURRENCY",
            "PER NODE",
            "RATE",
            "SCHEME",
            "ON ERROR",
            "AFTER",
            "SCHEDULE",
            "BLOCK",
            "SEALED",
            "PAUSED",
        ];
        print::table(header, views.map(|queue| queue_row(&queue)), call.table.wide)?;
    }
    Ok(())
}

pub(crate) fn groups(settings: &Settings, call: &Counted) -> Result<(), Failure> {
    let overview = overview(settings, call)?;
    let views = overview.groups.iter().map(|(name, group)| wire::Group::new(name, group, &overview));
    if call.table.json {
        print::array(views)?;
    } else {
        let header = [
            "GROUP",
            "STATE",
            "WAITING",
            "SCHEDULED",
            "RUNNING",
            "STUCK",
            "WEIGHT",
            "CONCURRENCY",
            "RATE",
            "SCHEME",
            "MAX WAITING",
            "AHEAD",
            "PAUSED",
        ];
        print::table(header, views.map(|group| group_row(&group)), call.table.wide)?;
    }
    Ok(())
}

pub(crate) fn tasks(settings: &Settings, call: &Counted) -> Result<(), Failure> {
    let overview = overview(settings, call)?;
    let views = overview.tasks.iter().map(|(name, task)| wire::Task::new(name, task, &overview));
    if call.table.json {
        print::array(views)?;
    } else {
        let header = ["TASK", "WAITING", "SCHEDULED", "RUNNING", "STUCK", "NODES", "CONCURRENCY", "RATE"];
        let row = |task: wire::Task<'_>| {
            [
                task.name.to_string(),
                counted(task.waiting, task.at_least),
                task.scheduled.to_string(),
                task.running.to_string(),
                counted(task.stuck, task.at_least),
                task.nodes.to_string(),
                shown(task.concurrency),
                shown(task.rate),
            ]
        };
        print::table(header, views.map(row), call.table.wide)?;
    }
    Ok(())
}

pub(crate) fn keys(settings: &Settings, call: &Counted) -> Result<(), Failure> {
    let overview = overview(settings, call)?;
    let views = overview.keys.iter().map(|(name, key)| wire::Key::new(name, key, &overview));
    if call.table.json {
        print::array(views)?;
    } else {
        let header = ["KEY", "WAITING", "SCHEDULED", "RUNNING", "STUCK", "CONCURRENCY", "RATE"];
        let row = |key: wire::Key<'_>| {
            [
                key.name.to_string(),
                counted(key.waiting, key.at_least),
                key.scheduled.to_string(),
                key.running.to_string(),
                counted(key.stuck, key.at_least),
                shown(key.concurrency),
                shown(key.rate),
            ]
        };
        print::table(header, views.map(row), call.table.wide)?;
    }
    Ok(())
}
