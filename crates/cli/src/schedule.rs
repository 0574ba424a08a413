//! Periodic jobs: schedules, and when they come next.

use std::borrow::Cow;

use turnwise::{
    Invalid, Job, Timestamp,
    schedules::{Periodic, Recurring, ScheduleName},
    wire,
};

use crate::{
    args::{AddSchedule, Pause, ScheduleVerb},
    enqueue::arguments,
    error::Failure,
    known, print,
    serve::block_on,
    settings::Settings,
};

pub(crate) fn schedule(settings: &Settings, verb: &ScheduleVerb) -> Result<(), Failure> {
    let show = |name: &str, periodic: Periodic, now| print::lines(story(name, &periodic, now));
    match verb {
        ScheduleVerb::Add(call) => {
            let recurring = recurring(call)?;
            block_on(async {
                let turnwise = settings.open_to_submit().await?;
                let set = turnwise.set_schedule(&call.name, recurring).await?;
                show(&call.name, set, turnwise.now().await?)?;
                let tasks = std::iter::once(&call.task).chain(&call.on_exhausted).cloned().collect();
                known::warn(&turnwise, &tasks).await;
                Ok(())
            })?;
        }
        ScheduleVerb::List(call) => {
            let (all, last, now) = block_on(async {
                let turnwise = settings.open().await?;
                Ok((turnwise.schedules().await?, turnwise.last_times().await?, turnwise.now().await?))
            })?;
            let views = all.iter().map(|(name, periodic)| wire::Schedule::new(name, periodic, last.get(name), now));
            if call.json {
                print::array(views)?
            } else {
                let header = ["NAME", "WHEN", "TASK", "QUEUE", "GROUP", "STATE", "LAST", "NEXT"];
                print::table(header, views.map(|schedule| row(&schedule, now)), call.wide)?
            }
        }
        ScheduleVerb::Show(call) => {
            let name = ScheduleName::new(&call.name)?;
            let none = || Invalid::new("schedule", format!("there is none named {:?}", call.name));
            let (periodic, last, job, now) = block_on(async {
                let turnwise = settings.open().await?;
                let periodic = turnwise.schedules().await?.remove(&name).ok_or_else(none)?;
                let last = turnwise.last_times().await?.remove(&name);
                // It may be kept no longer.
                let job = match last.and_then(|last| last.job) {
                    Some(id) => turnwise.store().job(id).await?,
                    None => None,
                };
                Ok((periodic, last, job, turnwise.now().await?))
            })?;
            let view = wire::Schedule::new(&name, &periodic, last.as_ref(), now);
            if call.json {
                print::object(&view)?;
            } else {
                let mut lines = story(&call.name, &periodic, now);
                lines.splice(1..1, details(&view, job.as_ref()));
                print::lines(lines)?;
            }
        }
        ScheduleVerb::Pause(Pause { name, reason }) => {
            let (set, now) = block_on(async {
                let turnwise = settings.open().await?;
                Ok((turnwise.pause_schedule(name, reason.clone()).await?, turnwise.now().await?))
            })?;
            show(name, set, now)?;
        }
        ScheduleVerb::Resume(call) => {
            let (set, now) = block_on(async {
                let turnwise = settings.open().await?;
                Ok((turnwise.resume_schedule(&call.name).await?, turnwise.now().await?))
            })?;
            show(&call.name, set, now)?;
        }
        ScheduleVerb::Remove(call) => {
            block_on(async { Ok(settings.open().await?.remove_schedule(&call.name).await?) })?;
            print::lines([format!("schedule {} is removed; its jobs stay", call.name)])?;
        }
        ScheduleVerb::Run(call) => {
            let id = block_on(async { Ok(settings.open().await?.run_schedule(&call.name).await?) })?;
            print::lines([id])?;
        }
    }
    Ok(())
}

/// All values are read before the database is touched.
fn recurring(call: &AddSchedule) -> Result<Recurring, Failure> {
    let text = |value: &Option<String>| value.clone().map(Cow::Owned);
    let args = arguments(call.args.as_deref())?;
    let job = wire::Request {
        task: Some(Cow::Borrowed(&call.task)),
        args: args.as_deref(),
        queue: text(&call.queue),
        group: text(&call.group),
        key: text(&call.key),
        priority: text(&call.priority),
        retry: text(&call.retry),
        timeout: text(&call.timeout),
        on_exhausted: text(&call.on_exhausted),
        ..wire::Request::default()
    };
    let schedule = wire::NewSchedule {
        job,
        cron: text(&call.cron),
        zone: text(&call.zone),
        every: text(&call.every),
        overlap: text(&call.overlap),
        catch_up: text(&call.catch_up),
    };
    Ok(schedule.to_recurring()?)
}

/// The schedule in one line, and its next times, one a line.
fn story(name: &str, periodic: &Periodic, now: Timestamp) -> Vec<String> {
    let Periodic { when, task, group, queue, overlap, catch_up, .. } = periodic;
    let mut lines = vec![format!(
        "schedule {name}: {when}, task {task}, queue {queue}, group {group}, overlap {overlap}, catch up {catch_up}"
    )];
    if let Some(pause) = &periodic.paused {
        let reason = pause.reason.as_ref().map_or_else(String::new, |reason| format!(": {}", print::clean(reason)));
        lines.push(format!("paused since {}{reason}; without the pause its next times would be", pause.since));
    }
    let times = when.following(now).take(wire::Schedule::TIMES);
    lines.extend(times.map(|slot| format!("  {}, in {}", when.zone().words(slot), print::about(slot.since(now)))));
    lines
}

/// What its jobs get, and its last run.
fn details(schedule: &wire::Schedule<'_>, job: Option<&Job>) -> Vec<String> {
    let key = schedule.key.map(|key| format!(", key {key}")).unwrap_or_default();
    let timeout = schedule.timeout.as_ref().map(|timeout| format!(", timeout {timeout}")).unwrap_or_default();
    let last = match (schedule.last_job, job) {
        (Some(id), Some(job)) => format!("job {id}, {} (submitted at {})", job.state, job.submitted_at),
        (Some(id), None) => format!("job {id}, which is not kept any more"),
        (None, _) => "none yet".to_owned(),
    };
    vec![
        format!("  args {}", print::clean(schedule.args.as_str())),
        format!(
            "  priority {}, retry {}{key}{timeout}",
            schedule.priority.get(),
            schedule.retry.as_deref().unwrap_or("as its task sets it")
        ),
        format!("  last run: {last}"),
        "  next times:".to_owned(),
    ]
}

fn row(schedule: &wire::Schedule<'_>, now: Timestamp) -> [String; 8] {
    let state = if schedule.paused { "paused" } else { "active" };
    let next = schedule.next.first().filter(|_| !schedule.paused).map(Timestamp::to_string);
    [
        schedule.name.to_string(),
        schedule.when.clone(),
        schedule.task.to_string(),
        schedule.queue.to_string(),
        schedule.group.to_string(),
        state.to_owned(),
        schedule.last.map_or_else(|| "-".to_owned(), |last| format!("{} ago", print::age(now.since(last)))),
        next.unwrap_or_default(),
    ]
}
