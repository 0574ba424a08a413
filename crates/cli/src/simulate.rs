//! What if: how long groups would wait with other weights, limits or slots, before anything is changed.

use std::{collections::BTreeSet, time::Duration};

use serde::Deserialize;
use serde_json::json;
use turnwise::{Invalid, settings::Weight, wire};
use turnwise_client::Ask;

use crate::{
    args::Simulate,
    error::Failure,
    names::{Doubt, Kind},
    place::{self, Place, read},
    print::{self, about},
    serve::block_on,
    settings::Settings,
    terminal,
};

pub(crate) fn simulate(settings: &Settings, call: &Simulate) -> Result<(), Failure> {
    let (mut what_if, mut json) = (wire::WhatIf::default(), json!({}));
    if let Some(slots) = &call.slots {
        what_if.set_slots(slots)?;
        json["slots"] = what_if.slots().into();
    }
    pairs("weight", "GROUP=W", &call.weights, |group, weight| {
        json["weights"][group] = f64::from(weight.parse::<Weight>()?).into();
        what_if.set_weight(group, weight)
    })?;
    pairs("concurrency", "QUEUE=N", &call.concurrency, |queue, limit| {
        json["concurrency"][queue] = limit.into();
        what_if.set_concurrency(queue, limit)
    })?;
    pairs("group-concurrency", "GROUP=N", &call.group_concurrency, |group, limit| {
        json["group_concurrency"][group] = limit.into();
        what_if.set_group_concurrency(group, limit)
    })?;
    call.pauses.iter().try_for_each(|group| what_if.pause(group))?;
    if !call.pauses.is_empty() {
        json["pause"] = call.pauses.clone().into();
    }
    let comparison = block_on(async {
        let place = Place::find(settings).await?;
        let comparison = match &place {
            Place::Database(turnwise) => {
                let now = turnwise.now().await?;
                let compared = turnwise.simulate(what_if.slots(), |settings| what_if.apply(settings, now)).await?;
                place::shown(&wire::Comparison::new(&compared))
            }
            Place::Server(server) => server.ask(Ask::post("/simulate").json(json.to_string())).await,
        }?;
        // A change for a name that was mistyped changes nothing, and the answer does not show it.
        for (kind, name) in named(call) {
            Doubt::look(&place, kind, kind.word(), name).await.tell();
        }
        Ok::<_, Failure>(comparison)
    })?;
    if call.json {
        return Ok(print::indented(comparison.get())?);
    }
    let width = if call.wide { None } else { terminal::width() };
    Ok(print::lines(lines(&read(&comparison)?).into_iter().map(|line| print::cut(line, width)))?)
}

/// The groups and queues that the changes are for, each once.
fn named(call: &Simulate) -> BTreeSet<(Kind, &str)> {
    fn names(kind: Kind, pairs: &[String]) -> impl Iterator<Item = (Kind, &str)> {
        pairs.iter().filter_map(move |pair| Some((kind, pair.rsplit_once('=')?.0)))
    }
    let paused = call.pauses.iter().map(|group| (Kind::Group, group.as_str()));
    names(Kind::Group, &call.weights).chain(names(Kind::Queue, &call.concurrency)).chain(paused).collect()
}

/// A name may hold an equals sign itself; a value never does.
fn pairs(
    field: &'static str,
    form: &str,
    texts: &[String],
    mut put: impl FnMut(&str, &str) -> Result<(), Invalid>,
) -> Result<(), Invalid> {
    texts.iter().try_for_each(|text| match text.rsplit_once('=') {
        Some((name, value)) => put(name, value),
        None => Err(Invalid::new(field, format!("{text:?} is not of the form {form}"))),
    })
}

#[derive(Debug, Deserialize)]
struct Comparison {
    before: Course,
    after: Course,
    groups: Vec<GroupCourse>,
    guessed: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Course {
    slots: u32,
    starts: usize,
    p50_wait_ms: u64,
    p95_wait_ms: u64,
    max_wait_ms: u64,
    end_ms: u64,
    looked_ms: u64,
    complete: bool,
}

#[derive(Debug, Deserialize)]
struct GroupCourse {
    group: String,
    jobs: usize,
    before: Waits,
    after: Waits,
}

#[derive(Debug, Deserialize)]
struct Waits {
    starts: usize,
    first_start_ms: Option<u64>,
    p50_wait_ms: u64,
    p95_wait_ms: u64,
    max_wait_ms: u64,
    end_ms: u64,
}

fn lines(comparison: &Comparison) -> Vec<String> {
    let Comparison { before, after, groups, guessed } = comparison;
    let millis = |ms: u64| about(Duration::from_millis(ms));
    let rows = groups.iter().map(|GroupCourse { group, jobs, before: was, after: is }| {
        let first = |waits: &Waits| waits.first_start_ms.map_or_else(|| "never".to_owned(), millis);
        let span = |waits: &Waits, ms: u64| if waits.starts == 0 { "-".to_owned() } else { millis(ms) };
        [
            group.clone(),
            jobs.to_string(),
            step(jobs.saturating_sub(was.starts).to_string(), jobs.saturating_sub(is.starts).to_string()),
            step(first(was), first(is)),
            step(span(was, was.p50_wait_ms), span(is, is.p50_wait_ms)),
            step(span(was, was.p95_wait_ms), span(is, is.p95_wait_ms)),
            step(span(was, was.max_wait_ms), span(is, is.max_wait_ms)),
            step(span(was, was.end_ms), span(is, is.end_ms)),
        ]
    });
    let header = ["GROUP", "JOBS", "HELD", "FIRST START IN", "P50 WAIT", "P95 WAIT", "LONGEST WAIT", "END IN"];
    let mut lines = print::columns(header, rows);
    let span = |course: &Course, ms: u64| if course.starts == 0 { "-".to_owned() } else { millis(ms) };
    lines.push(format!(
        "over all groups: p50 wait {}, p95 {}, longest {}",
        step(span(before, before.p50_wait_ms), span(after, after.p50_wait_ms)),
        step(span(before, before.p95_wait_ms), span(after, after.p95_wait_ms)),
        step(span(before, before.max_wait_ms), span(after, after.max_wait_ms)),
    ));
    let end = |course: &Course| {
        let more = if course.complete { "" } else { " or more" };
        format!("{}{more}", millis(course.end_ms))
    };
    lines.push(format!(
        "slots {}; everything that can run has run in {}",
        step(before.slots.to_string(), after.slots.to_string()),
        step(end(before), end(after)),
    ));
    for (course, when) in [(before, "as things are"), (after, "with the change")] {
        lines.extend((!course.complete).then(|| cut_off(course, when)));
    }
    if !guessed.is_empty() {
        lines.push(format!("no run of these tasks is recorded, a short one is assumed: {}", guessed.join(", ")));
    }
    lines
}

/// How far a look went that saw no end of it.
fn cut_off(course: &Course, when: &str) -> String {
    let (starts, until) = (course.starts, about(Duration::from_millis(course.looked_ms)));
    format!("{when}, only the first {starts} starts were looked at, those within {until}; later ones count as held")
}

/// The value before and after the change; one value where nothing changes.
fn step(before: String, after: String) -> String {
    if before == after { before } else { format!("{before} → {after}") }
}
