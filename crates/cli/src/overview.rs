//! Queues and groups: what is set for them, and how much there is.

use serde::Serialize;
use turnwise::{
    QueueName, Timestamp,
    overview::{GroupOverview, Overview, QueueOverview},
    schedules::{Schedule, Window},
    settings::{Concurrency, Fairness, GroupSettings, OnError, Pause, QueueSettings, Rate, Scheme, Weight},
};
use turnwise_core::calendar::blocked_until;

use crate::{
    args::Listing,
    error::Failure,
    print::{self, shown},
    serve::block_on,
    settings::Settings,
};

/// A queue as it is shown. The names are an interface: scripts read them.
#[derive(Debug, Serialize)]
pub(crate) struct QueueView<'a> {
    name: &'a str,
    state: &'static str,
    waiting: usize,
    scheduled: usize,
    running: usize,
    stuck: usize,
    weight: Weight,
    fairness: Fairness,
    concurrency: Concurrency,
    per_node: Option<u32>,
    rate: Option<Rate>,
    scheme: Option<Scheme>,
    on_error: OnError,
    after: &'a [QueueName],
    schedule: Option<&'a Schedule>,
    block: &'a [Window],
    /// The end of the window it is in.
    blocked_until: Option<Timestamp>,
    sealed: Option<Timestamp>,
    paused: Option<&'a Pause>,
}

impl<'a> QueueView<'a> {
    fn new(name: &'a QueueName, queue: &'a QueueOverview, overview: &Overview) -> Self {
        let QueueOverview { settings, jobs, .. } = queue;
        Self {
            name: name.as_str(),
            state: overview.state(name).name(),
            waiting: jobs.waiting,
            scheduled: jobs.scheduled,
            running: jobs.running,
            stuck: jobs.stuck,
            weight: settings.weight,
            fairness: settings.fairness,
            concurrency: settings.concurrency,
            per_node: settings.per_node,
            rate: settings.rate,
            scheme: settings.scheme,
            on_error: settings.on_error,
            after: &settings.after,
            schedule: settings.schedule.as_ref(),
            block: &settings.block,
            blocked_until: blocked_until(&settings.block, overview.now),
            sealed: settings.sealed,
            paused: settings.paused.as_ref(),
        }
    }

    fn row(&self) -> [String; 18] {
        [
            self.name.to_owned(),
            self.state.to_owned(),
            self.waiting.to_string(),
            self.scheduled.to_string(),
            self.running.to_string(),
            self.stuck.to_string(),
            self.weight.to_string(),
            word(self.fairness),
            self.concurrency.to_string(),
            shown(self.per_node),
            shown(self.rate),
            shown(self.scheme),
            word(self.on_error),
            listed(self.after),
            shown(self.schedule),
            match self.blocked_until {
                Some(until) => format!("{} (until {until})", listed(self.block)),
                None => listed(self.block),
            },
            shown(self.sealed),
            pause_words(self.paused),
        ]
    }

    /// What is set, in a line, as the commands that set it print it.
    pub(crate) fn sentence(name: &str, set: &QueueSettings) -> String {
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
            word(fairness),
            word(on_error),
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
}

/// A group as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct GroupView<'a> {
    name: &'a str,
    state: &'static str,
    waiting: usize,
    scheduled: usize,
    running: usize,
    stuck: usize,
    weight: Weight,
    concurrency: Option<u32>,
    rate: Option<Rate>,
    scheme: Option<Scheme>,
    max_waiting: Option<u32>,
    /// Weighted seconds it has used beyond its turn.
    ahead: f64,
    paused: Option<&'a Pause>,
}

impl<'a> GroupView<'a> {
    fn new(name: &'a str, group: &'a GroupOverview) -> Self {
        let GroupOverview { settings, jobs, ahead, .. } = group;
        Self {
            name,
            state: state(settings.paused.as_ref()),
            waiting: jobs.waiting,
            scheduled: jobs.scheduled,
            running: jobs.running,
            stuck: jobs.stuck,
            weight: settings.weight,
            concurrency: settings.concurrency,
            rate: settings.rate,
            scheme: settings.scheme,
            max_waiting: settings.max_waiting,
            ahead: ahead.seconds(),
            paused: settings.paused.as_ref(),
        }
    }

    fn row(&self) -> [String; 13] {
        [
            self.name.to_owned(),
            self.state.to_owned(),
            self.waiting.to_string(),
            self.scheduled.to_string(),
            self.running.to_string(),
            self.stuck.to_string(),
            self.weight.to_string(),
            shown(self.concurrency),
            shown(self.rate),
            shown(self.scheme),
            shown(self.max_waiting),
            format!("{:.3} s", self.ahead),
            pause_words(self.paused),
        ]
    }

    pub(crate) fn sentence(name: &str, set: &GroupSettings) -> String {
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

/// The word a value is written as.
fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        other => unreachable!("settings of one word are written as it: {other:?}"),
    }
}

pub(crate) fn queues(settings: &Settings, wish: &Listing) -> Result<(), Failure> {
    let overview = block_on(async { Ok(settings.open().await?.overview().await?) })?;
    let views = overview.queues.iter().map(|(name, queue)| QueueView::new(name, queue, &overview));
    if wish.json {
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
        print::table(header, views.map(|view| view.row()))?;
    }
    Ok(())
}

pub(crate) fn groups(settings: &Settings, wish: &Listing) -> Result<(), Failure> {
    let overview = block_on(async { Ok(settings.open().await?.overview().await?) })?;
    let views = overview.groups.iter().map(|(name, group)| GroupView::new(name.as_str(), group));
    if wish.json {
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
        print::table(header, views.map(|view| view.row()))?;
    }
    Ok(())
}
