//! Queues, groups, tasks and keys: their settings, and how many jobs they have.

use serde::Deserialize;
use turnwise::{
    Invalid, QueueName, Timestamp,
    schedules::{Schedule, Window},
    settings::{Concurrency, Fairness, OnError, Pause, Rate, Scheme, Weight},
    wire,
};

use crate::{
    args::Counted,
    error::{Failure, remark},
    place::{self, Place, Shown, read},
    print::{self, shown},
    serve::block_on,
    settings::Settings,
};

/// How many jobs are counted unless all are to be: a fraction of a second.
pub(crate) const COUNTED: usize = 100_000;

/// A [`wire::Queue`], or a [`wire::QueueSet`]: that one has no jobs.
#[derive(Debug, Deserialize)]
pub(crate) struct Queue {
    name: String,
    #[serde(default)]
    state: String,
    held_by: Option<HeldBy>,
    #[serde(flatten)]
    jobs: Jobs,
    oldest: Option<Timestamp>,
    weight: Weight,
    fairness: Fairness,
    concurrency: Concurrency,
    per_node: Option<u32>,
    rate: Option<Rate>,
    scheme: Option<Scheme>,
    on_error: OnError,
    after: Vec<QueueName>,
    schedule: Option<Schedule>,
    block: Vec<Window>,
    blocked_until: Option<Timestamp>,
    sealed: Option<Timestamp>,
    paused: Option<Pause>,
}

#[derive(Debug, Deserialize)]
struct HeldBy {
    job: String,
    task: String,
}

/// How many jobs there are.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Jobs {
    pub(crate) waiting: usize,
    /// Of groups: those of them that cannot start now.
    pub(crate) later: usize,
    pub(crate) scheduled: usize,
    pub(crate) running: usize,
    pub(crate) stuck: usize,
    /// Whether not all jobs were counted.
    pub(crate) at_least: bool,
}

impl Jobs {
    fn waiting(&self) -> String {
        counted(self.waiting, self.at_least)
    }

    fn stuck(&self) -> String {
        counted(self.stuck, self.at_least)
    }
}

fn queue_row(queue: &Queue) -> [String; 19] {
    [
        queue.name.clone(),
        match &queue.held_by {
            Some(held) => format!("held: no live node knows task {} of job {}", held.task, held.job),
            None => queue.state.clone(),
        },
        queue.jobs.waiting(),
        queue.jobs.scheduled.to_string(),
        queue.jobs.running.to_string(),
        queue.jobs.stuck(),
        shown(queue.oldest),
        queue.weight.to_string(),
        queue.fairness.to_string(),
        queue.concurrency.to_string(),
        shown(queue.per_node),
        shown(queue.rate),
        shown(queue.scheme),
        queue.on_error.to_string(),
        listed(&queue.after),
        shown(queue.schedule.as_ref()),
        match queue.blocked_until {
            Some(until) => format!("{} (until {until})", listed(&queue.block)),
            None => listed(&queue.block),
        },
        shown(queue.sealed),
        pause_words(queue.paused.as_ref()),
    ]
}

/// `7`, or `7+` if there may be more.
fn counted(jobs: usize, at_least: bool) -> String {
    format!("{jobs}{}", if at_least { "+" } else { "" })
}

/// The settings in one line, as the commands that change them print them.
pub(crate) fn queue_sentence(set: &Queue) -> String {
    let Queue {
        name,
        weight,
        fairness,
        concurrency,
        per_node,
        rate,
        scheme,
        on_error,
        paused,
        sealed,
        after,
        schedule,
        block,
        state: _,
        held_by: _,
        jobs: _,
        oldest: _,
        blocked_until: _,
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

/// A [`wire::Group`], or a [`wire::GroupSet`]: that one has no jobs.
#[derive(Debug, Deserialize)]
pub(crate) struct Group {
    pub(crate) name: String,
    #[serde(default)]
    state: String,
    #[serde(flatten)]
    pub(crate) jobs: Jobs,
    pub(crate) weight: Weight,
    concurrency: Option<u32>,
    rate: Option<Rate>,
    scheme: Option<Scheme>,
    max_waiting: Option<u32>,
    #[serde(default)]
    ahead: f64,
    pub(crate) paused: Option<Pause>,
}

fn group_row(group: &Group) -> [String; 13] {
    [
        group.name.clone(),
        group.state.clone(),
        group.jobs.waiting(),
        group.jobs.scheduled.to_string(),
        group.jobs.running.to_string(),
        group.jobs.stuck(),
        group.weight.to_string(),
        shown(group.concurrency),
        shown(group.rate),
        shown(group.scheme),
        shown(group.max_waiting),
        format!("{:.3} s", group.ahead),
        pause_words(group.paused.as_ref()),
    ]
}

pub(crate) fn group_sentence(set: &Group) -> String {
    let Group { name, weight, concurrency, rate, scheme, max_waiting, paused, state: _, jobs: _, ahead: _ } = set;
    format!(
        "group {name}: {}, weight {weight}, concurrency {}, rate {}, scheme {}, max waiting {}",
        state_words(paused.as_ref()),
        or_none(*concurrency),
        or_none(*rate),
        or_none(*scheme),
        or_none(*max_waiting),
    )
}

/// A [`wire::Task`], a [`wire::Key`] or a [`wire::LimitSet`]: that one has no jobs.
#[derive(Debug, Deserialize)]
pub(crate) struct Limited {
    name: String,
    #[serde(flatten)]
    jobs: Jobs,
    concurrency: Option<u32>,
    rate: Option<Rate>,
    /// Of a task: living nodes that know it.
    #[serde(default)]
    nodes: usize,
}

pub(crate) fn limits_sentence(word: &str, set: &Limited) -> String {
    format!("{word} {}: concurrency {}, rate {}", set.name, or_none(set.concurrency), or_none(set.rate))
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

/// What is listed by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    Queues,
    Groups,
    Tasks,
    Keys,
}

impl Named {
    /// As it is called in an answer, and at the end of its path.
    fn word(self) -> &'static str {
        match self {
            Self::Queues => "queues",
            Self::Groups => "groups",
            Self::Tasks => "tasks",
            Self::Keys => "keys",
        }
    }
}

/// All queues, groups, tasks or keys, with their settings and how many of the jobs they have: of all jobs, or of the oldest `most`.
pub(crate) async fn named(place: &Place, named: Named, most: usize) -> Result<Vec<Shown>, Failure> {
    let turnwise = match place {
        Place::Server(server) => return Ok(server.by_name(&format!("/{}", named.word()), named.word()).await?.0),
        Place::Database(turnwise) => turnwise,
    };
    let all =
        if most == usize::MAX { turnwise.overview().await? } else { turnwise.overview_by_dispatcher(most).await? };
    match named {
        Named::Queues => {
            all.queues.iter().map(|(name, queue)| place::shown(&wire::Queue::new(name, queue, &all))).collect()
        }
        Named::Groups => {
            all.groups.iter().map(|(name, group)| place::shown(&wire::Group::new(name, group, &all))).collect()
        }
        Named::Tasks => all.tasks.iter().map(|(name, task)| place::shown(&wire::Task::new(name, task, &all))).collect(),
        Named::Keys => all.keys.iter().map(|(name, key)| place::shown(&wire::Key::new(name, key, &all))).collect(),
    }
}

fn list(settings: &Settings, call: &Counted, what: Named) -> Result<Vec<Shown>, Failure> {
    let most = if call.exact { usize::MAX } else { COUNTED };
    let (items, asked) = block_on(async {
        let place = Place::find(settings).await?;
        let asked = matches!(place, Place::Server(_));
        if asked && call.exact {
            let problem = "a server counts at most 100000 jobs for an answer; use --exact on the database itself";
            return Err(Invalid::new("exact", problem).into());
        }
        Ok((named(&place, what, most).await?, asked))
    })?;
    let more = items.first().map(|item| read::<Jobs>(item)).transpose()?.is_some_and(|jobs| jobs.at_least);
    if more {
        let all = if asked { "" } else { "; --exact counts all" };
        remark(&format!("only the oldest {COUNTED} unfinished jobs were counted{all}"));
    }
    Ok(items)
}

/// Prints them as they are, or the rows of a table.
fn tell<const N: usize, T: serde::de::DeserializeOwned>(
    items: Vec<Shown>,
    call: &Counted,
    header: [&str; N],
    row: impl Fn(&T) -> [String; N],
) -> Result<(), Failure> {
    if call.table.json {
        return Ok(print::array(items)?);
    }
    let rows = items.iter().map(|item| Ok(row(&read(item)?))).collect::<Result<Vec<_>, Failure>>()?;
    Ok(print::table(header, rows, call.table.wide)?)
}

pub(crate) fn queues(settings: &Settings, call: &Counted) -> Result<(), Failure> {
    let header = [
        "QUEUE",
        "STATE",
        "WAITING",
        "SCHEDULED",
        "RUNNING",
        "STUCK",
        "OLDEST",
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
    tell(list(settings, call, Named::Queues)?, call, header, queue_row)
}

pub(crate) fn groups(settings: &Settings, call: &Counted) -> Result<(), Failure> {
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
    tell(list(settings, call, Named::Groups)?, call, header, group_row)
}

pub(crate) fn tasks(settings: &Settings, call: &Counted) -> Result<(), Failure> {
    let header = ["TASK", "WAITING", "SCHEDULED", "RUNNING", "STUCK", "NODES", "CONCURRENCY", "RATE"];
    tell(list(settings, call, Named::Tasks)?, call, header, |task: &Limited| {
        [
            task.name.clone(),
            task.jobs.waiting(),
            task.jobs.scheduled.to_string(),
            task.jobs.running.to_string(),
            task.jobs.stuck(),
            task.nodes.to_string(),
            shown(task.concurrency),
            shown(task.rate),
        ]
    })
}

pub(crate) fn keys(settings: &Settings, call: &Counted) -> Result<(), Failure> {
    let header = ["KEY", "WAITING", "SCHEDULED", "RUNNING", "STUCK", "CONCURRENCY", "RATE"];
    tell(list(settings, call, Named::Keys)?, call, header, |key: &Limited| {
        [
            key.name.clone(),
            key.jobs.waiting(),
            key.jobs.scheduled.to_string(),
            key.jobs.running.to_string(),
            key.jobs.stuck(),
            shown(key.concurrency),
            shown(key.rate),
        ]
    })
}
