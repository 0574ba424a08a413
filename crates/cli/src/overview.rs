//! Queues and groups: what is set for them, and how much there is.

use turnwise::{
    settings::{GroupSettings, Pause, QueueSettings},
    wire,
};

use crate::{
    args::Listing,
    error::Failure,
    print::{self, shown},
    serve::block_on,
    settings::Settings,
};

fn queue_row(queue: &wire::Queue<'_>) -> [String; 18] {
    [
        queue.name.to_string(),
        queue.state.to_owned(),
        queue.waiting.to_string(),
        queue.scheduled.to_string(),
        queue.running.to_string(),
        queue.stuck.to_string(),
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

/// What is set, in a line, as the commands that set it print it.
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
        group.waiting.to_string(),
        group.scheduled.to_string(),
        group.running.to_string(),
        group.stuck.to_string(),
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

pub(crate) fn queues(settings: &Settings, wish: &Listing) -> Result<(), Failure> {
    let overview = block_on(async { Ok(settings.open().await?.overview().await?) })?;
    let views = overview.queues.iter().map(|(name, queue)| wire::Queue::new(name, queue, &overview));
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
        print::table(header, views.map(|queue| queue_row(&queue)))?;
    }
    Ok(())
}

pub(crate) fn groups(settings: &Settings, wish: &Listing) -> Result<(), Failure> {
    let overview = block_on(async { Ok(settings.open().await?.overview().await?) })?;
    let views = overview.groups.iter().map(|(name, group)| wire::Group::new(name, group));
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
        print::table(header, views.map(|group| group_row(&group)))?;
    }
    Ok(())
}
