//! What if: how long groups would wait with other weights, limits or slots, before anything is changed.

use std::{collections::BTreeSet, time::Duration};

use serde::Serialize;
use turnwise::{
    GroupName, Invalid, QueueName,
    settings::{Concurrency, Pause, Weight},
    view::{Comparison, Simulation, Waits},
};

use crate::{
    args::Simulate,
    error::Failure,
    print::{self, about},
    serve::block_on,
    settings::Settings,
};

#[derive(Debug, Serialize)]
struct Report<'a> {
    before: Whole,
    after: Whole,
    groups: Vec<GroupReport<'a>>,
    /// Tasks without a recorded run: a short run is assumed for them.
    guessed: Vec<&'a str>,
}

#[derive(Debug, Serialize)]
struct Whole {
    slots: u32,
    starts: usize,
    end_ms: u128,
    /// `false`: the simulation was cut off, more jobs would start after it.
    complete: bool,
}

#[derive(Debug, Serialize)]
struct GroupReport<'a> {
    group: &'a str,
    jobs: usize,
    before: WaitsReport,
    after: WaitsReport,
}

#[derive(Debug, Serialize)]
struct WaitsReport {
    starts: usize,
    first_start_ms: Option<u128>,
    mean_wait_ms: u128,
    max_wait_ms: u128,
    end_ms: u128,
}

impl From<&Waits> for WaitsReport {
    fn from(waits: &Waits) -> Self {
        Self {
            starts: waits.starts,
            first_start_ms: waits.first.map(|first| first.as_millis()),
            mean_wait_ms: waits.mean().as_millis(),
            max_wait_ms: waits.longest.as_millis(),
            end_ms: waits.end.as_millis(),
        }
    }
}

impl From<&Simulation> for Whole {
    fn from(simulation: &Simulation) -> Self {
        let Simulation { slots, starts, end, complete, .. } = simulation;
        Self { slots: *slots, starts: *starts, end_ms: end.as_millis(), complete: *complete }
    }
}

pub(crate) fn simulate(settings: &Settings, call: &Simulate) -> Result<(), Failure> {
    let slots = call.slots.as_deref().map(slots).transpose()?;
    let weights = pairs("weight", "GROUP=W", &call.weights, |group, weight| {
        Ok((GroupName::new(group)?, weight.parse::<Weight>()?))
    })?;
    let concurrency = pairs("concurrency", "QUEUE=N", &call.concurrency, |queue, limit| {
        Ok((QueueName::new(queue)?, limit.parse::<Concurrency>()?))
    })?;
    let pauses = call.pauses.iter().map(GroupName::new).collect::<Result<Vec<_>, _>>()?;
    let comparison = block_on(async {
        let turnwise = settings.open().await?;
        let since = turnwise.now().await?;
        let change = |settings: &mut turnwise::settings::Settings| {
            for (group, weight) in weights {
                settings.groups.entry(group).or_default().weight = weight;
            }
            for (queue, limit) in concurrency {
                settings.queues.entry(queue).or_default().concurrency = limit;
            }
            for group in pauses {
                settings.groups.entry(group).or_default().paused = Some(Pause { since, reason: None });
            }
        };
        Ok(turnwise.simulate(slots, change).await?)
    })?;
    if call.json {
        return Ok(print::object(&report(&comparison))?);
    }
    Ok(print::lines(lines(&comparison))?)
}

fn slots(text: &str) -> Result<u32, Invalid> {
    match text.parse() {
        Ok(slots @ 1..=1_000_000) => Ok(slots),
        _ => Err(Invalid::new("slots", format!("must be 1 to 1000000, not {text:?}"))),
    }
}

/// A name may hold an equals sign itself; a value never does.
fn pairs<T>(
    field: &'static str,
    form: &str,
    texts: &[String],
    read: impl Fn(&str, &str) -> Result<T, Invalid>,
) -> Result<Vec<T>, Invalid> {
    let pair = |text: &String| match text.rsplit_once('=') {
        Some((name, value)) => read(name, value),
        None => Err(Invalid::new(field, format!("{text:?} is not of the form {form}"))),
    };
    texts.iter().map(pair).collect()
}

fn report(comparison: &Comparison) -> Report<'_> {
    let Comparison { before, after, .. } = comparison;
    let groups = before.groups.iter().map(|(group, waits)| GroupReport {
        group: group.as_str(),
        jobs: waits.jobs,
        before: waits.into(),
        after: after.groups.get(group).unwrap_or(waits).into(),
    });
    Report {
        before: before.into(),
        after: after.into(),
        groups: groups.collect(),
        guessed: before.guessed.iter().map(|task| task.as_str()).collect(),
    }
}

fn lines(comparison: &Comparison) -> Vec<String> {
    let Comparison { before, after, .. } = comparison;
    let rows = before.groups.iter().map(|(group, was)| {
        let is = after.groups.get(group).unwrap_or(was);
        let first = |waits: &Waits| waits.first.map_or_else(|| "never".to_owned(), about);
        let span = |waits: &Waits, span: Duration| if waits.starts == 0 { "-".to_owned() } else { about(span) };
        [
            group.to_string(),
            was.jobs.to_string(),
            step((was.jobs - was.starts).to_string(), (is.jobs - is.starts).to_string()),
            step(first(was), first(is)),
            step(span(was, was.mean()), span(is, is.mean())),
            step(span(was, was.longest), span(is, is.longest)),
            step(span(was, was.end), span(is, is.end)),
        ]
    });
    let header = ["GROUP", "JOBS", "HELD", "FIRST START IN", "MEAN WAIT", "LONGEST WAIT", "END IN"];
    let mut lines = print::columns(header, rows);
    let end = |simulation: &Simulation| {
        let more = if simulation.complete { "" } else { " or more" };
        format!("{}{more}", about(simulation.end))
    };
    lines.push(format!(
        "slots {}; everything that can run has run in {}",
        step(before.slots.to_string(), after.slots.to_string()),
        step(end(before), end(after)),
    ));
    lines.extend(guess(&before.guessed));
    lines
}

fn guess(tasks: &BTreeSet<turnwise::TaskName>) -> Option<String> {
    let tasks: Vec<_> = tasks.iter().map(|task| task.as_str()).collect();
    let list = tasks.join(", ");
    (!tasks.is_empty()).then(|| format!("no run of these tasks is recorded, a short one is assumed: {list}"))
}

/// The value before and after the change; one value where nothing changes.
fn step(before: String, after: String) -> String {
    if before == after { before } else { format!("{before} → {after}") }
}
