//! What if: how long groups would wait with other weights, limits or slots, before anything is changed.

use std::{collections::BTreeSet, time::Duration};

use turnwise::{
    Invalid,
    view::{Comparison, Simulation, Waits},
    wire,
};

use crate::{
    args::Simulate,
    error::Failure,
    print::{self, about},
    serve::block_on,
    settings::Settings,
};

pub(crate) fn simulate(settings: &Settings, call: &Simulate) -> Result<(), Failure> {
    let mut what_if = wire::WhatIf::default();
    if let Some(slots) = &call.slots {
        what_if.set_slots(slots)?;
    }
    pairs("weight", "GROUP=W", &call.weights, |group, weight| what_if.set_weight(group, weight))?;
    pairs("concurrency", "QUEUE=N", &call.concurrency, |queue, limit| what_if.set_concurrency(queue, limit))?;
    call.pauses.iter().try_for_each(|group| what_if.pause(group))?;
    let comparison = block_on(async {
        let turnwise = settings.open().await?;
        let now = turnwise.now().await?;
        Ok(turnwise.simulate(what_if.slots(), |settings| what_if.apply(settings, now)).await?)
    })?;
    if call.json {
        return Ok(print::object(&wire::Comparison::new(&comparison))?);
    }
    Ok(print::lines(lines(&comparison))?)
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
