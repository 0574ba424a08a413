//! Periodic jobs: schedules, and when they come next.

use std::borrow::Cow;

use turnwise::{
    Invalid, Timestamp,
    schedules::{CatchUp, Overlap, Periodic, Recurring, ScheduleName},
    wire,
};

use crate::{
    args::{AddSchedule, Pause, ScheduleVerb},
    error::Failure,
    print,
    serve::block_on,
    settings::Settings,
};

pub(crate) fn schedule(settings: &Settings, verb: &ScheduleVerb) -> Result<(), Failure> {
    let told = |name: &str, periodic: Periodic, now| print::lines(story(name, &periodic, now));
    match verb {
        ScheduleVerb::Add(wish) => {
            let recurring = recurring(wish)?;
            let (set, now) = block_on(async {
                let turnwise = settings.open_lasting().await?;
                Ok((turnwise.set_schedule(&wish.name, recurring).await?, turnwise.now().await?))
            })?;
            told(&wish.name, set, now)?;
        }
        ScheduleVerb::List(wish) => {
            let (all, now) = block_on(async {
                let turnwise = settings.open().await?;
                Ok((turnwise.schedules().await?, turnwise.now().await?))
            })?;
            let views = all.iter().map(|(name, periodic)| wire::Schedule::new(name, periodic, now));
            if wish.json {
                print::array(views)?
            } else {
                print::table(["NAME", "WHEN", "TASK", "GROUP", "STATE", "NEXT"], views.map(|schedule| row(&schedule)))?
            }
        }
        ScheduleVerb::Show(wish) => {
            let (mut all, now) = block_on(async {
                let turnwise = settings.open().await?;
                Ok((turnwise.schedules().await?, turnwise.now().await?))
            })?;
            let none = || Invalid::new("schedule", format!("there is none named {:?}", wish.name));
            let periodic = all.remove(&ScheduleName::new(&wish.name)?).ok_or_else(none)?;
            told(&wish.name, periodic, now)?;
        }
        ScheduleVerb::Pause(Pause { name, reason }) => {
            let (set, now) = block_on(async {
                let turnwise = settings.open().await?;
                Ok((turnwise.pause_schedule(name, reason.clone()).await?, turnwise.now().await?))
            })?;
            told(name, set, now)?;
        }
        ScheduleVerb::Resume(wish) => {
            let (set, now) = block_on(async {
                let turnwise = settings.open().await?;
                Ok((turnwise.resume_schedule(&wish.name).await?, turnwise.now().await?))
            })?;
            told(&wish.name, set, now)?;
        }
        ScheduleVerb::Remove(wish) => {
            block_on(async { Ok(settings.open().await?.remove_schedule(&wish.name).await?) })?;
            print::lines([format!("schedule {} is gone; its jobs stay", wish.name)])?;
        }
        ScheduleVerb::Run(wish) => {
            let id = block_on(async { Ok(settings.open().await?.run_schedule(&wish.name).await?) })?;
            print::lines([id])?;
        }
    }
    Ok(())
}

/// All values are read before the database is touched.
fn recurring(wish: &AddSchedule) -> Result<Recurring, Failure> {
    let text = |value: &Option<String>| value.clone().map(Cow::Owned);
    let job = wire::Request {
        task: Some(Cow::Borrowed(&wish.task)),
        args: wish.args.as_deref(),
        queue: text(&wish.queue),
        group: text(&wish.group),
        key: text(&wish.key),
        priority: text(&wish.priority),
        retry: text(&wish.retry),
        timeout: text(&wish.timeout),
        ..wire::Request::default()
    };
    let job = job.to_request()?;
    let mut recurring = match (&wish.cron, &wish.every) {
        (Some(cron), _) => Recurring::cron_in(cron, wish.zone.as_deref().unwrap_or("UTC"), job),
        (None, Some(every)) => Recurring::every(every, job),
        (None, None) => return Err(Invalid::new("schedule", "needs --cron or --every").into()),
    };
    if let Some(catch_up) = &wish.catch_up {
        let catch_up = catch_up.parse()?;
        recurring = recurring.catch_up(catch_up);
        if catch_up == CatchUp::All {
            // To let go what overlaps would leave one of them.
            recurring = recurring.overlap(Overlap::Wait);
        }
    }
    if let Some(overlap) = &wish.overlap {
        recurring = recurring.overlap(overlap.parse()?);
    }
    Ok(recurring)
}

/// The schedule in a line, and its next times in words.
fn story(name: &str, periodic: &Periodic, now: Timestamp) -> Vec<String> {
    let Periodic { when, task, group, queue, overlap, catch_up, .. } = periodic;
    let mut lines = vec![format!(
        "schedule {name}: {when}, task {task}, queue {queue}, group {group}, overlap {overlap}, catch up {catch_up}"
    )];
    if let Some(pause) = &periodic.paused {
        let reason = pause.reason.as_ref().map_or_else(String::new, |reason| format!(": {}", print::clean(reason)));
        lines.push(format!("paused since {}{reason}; it would come", pause.since));
    }
    let times = when.following(now).take(wire::Schedule::TIMES);
    lines.extend(times.map(|slot| format!("  {}, in {}", when.zone().words(slot), print::about(slot.since(now)))));
    lines
}

fn row(schedule: &wire::Schedule<'_>) -> [String; 6] {
    let state = if schedule.paused { "paused" } else { "active" };
    let next = schedule.next.first().filter(|_| !schedule.paused).map(Timestamp::to_string);
    [
        schedule.name.to_string(),
        schedule.when.clone(),
        schedule.task.to_string(),
        schedule.group.to_string(),
        state.to_owned(),
        next.unwrap_or_default(),
    ]
}
