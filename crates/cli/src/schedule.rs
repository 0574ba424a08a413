//! Periodic jobs: schedules, and when they come next.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{json, value::RawValue};
use turnwise::{
    Invalid, JobState, Timestamp, Turnwise,
    schedules::{Periodic, ScheduleName, Zone},
    settings, wire,
};
use turnwise_client::{Ask, encoded};

use crate::{
    args::{AddSchedule, Pause, ScheduleVerb},
    enqueue::arguments,
    error::Failure,
    known::{self, did_you_mean},
    place::{self, Place, Server, Shown, read},
    print,
    serve::block_on,
    settings::Settings,
};

/// A [`wire::Schedule`].
#[derive(Debug, Deserialize)]
struct Schedule {
    name: String,
    when: String,
    // A server of before does not say it.
    #[serde(default)]
    in_words: Option<String>,
    zone: String,
    task: String,
    queue: String,
    group: String,
    pause: Option<settings::Pause>,
    next: Vec<Timestamp>,
    args: Box<RawValue>,
    priority: u8,
    key: Option<String>,
    retry: Option<String>,
    timeout: Option<String>,
    // A server of before has neither.
    #[serde(default)]
    on_exhausted: Option<String>,
    #[serde(default)]
    next_task: Option<String>,
    overlap: String,
    catch_up: String,
    last: Option<Timestamp>,
    last_job: Option<String>,
}

/// A schedule, and the time at which it is seen.
type Seen = (Shown, Timestamp);

/// All schedules, and the time at which they are seen.
pub(crate) async fn all(place: &Place) -> Result<(Vec<Shown>, Timestamp), Failure> {
    let turnwise = match place {
        Place::Server(server) => return server.by_name("/schedules", "schedules").await,
        Place::Database(turnwise) => turnwise,
    };
    let (all, last, now) = (turnwise.schedules().await?, turnwise.last_times().await?, turnwise.now().await?);
    let secrets = turnwise.secrets().await?;
    let show = |(name, periodic)| place::shown(&wire::Schedule::new(name, periodic, last.get(name), now, &secrets));
    Ok((all.iter().map(show).collect::<Result<_, _>>()?, now))
}

/// Asks about one schedule. That there is none is a mistake in the command, as it is without a server.
async fn ask_about(server: &Server, ask: &Ask) -> Result<Seen, Failure> {
    server.try_answer(ask).await.map_err(|error| match error {
        turnwise_client::Error::Problem(problem) if problem.word() == "not-found" => Failure::Input(problem.detail),
        other => other.into(),
    })
}

fn path(name: &str, verb: &str) -> String {
    format!("/schedules/{}{verb}", encoded(name))
}

async fn seen(turnwise: &Turnwise, name: &str, periodic: &Periodic) -> Result<Seen, Failure> {
    let (name, now) = (ScheduleName::new(name)?, turnwise.now().await?);
    let last = turnwise.last_times().await?.remove(&name);
    let secrets = turnwise.secrets().await?;
    Ok((place::shown(&wire::Schedule::new(&name, periodic, last.as_ref(), now, &secrets))?, now))
}

async fn one(place: &Place, name: &str) -> Result<Seen, Failure> {
    let known = ScheduleName::new(name)?;
    match place {
        Place::Database(turnwise) => {
            let none = || Invalid::new("schedule", format!("there is none named {name:?}"));
            let periodic = turnwise.schedules().await?.remove(&known).ok_or_else(none)?;
            seen(turnwise, name, &periodic).await
        }
        Place::Server(server) => ask_about(server, &Ask::get(path(name, ""))).await,
    }
}

pub(crate) fn schedule(settings: &Settings, verb: &ScheduleVerb) -> Result<(), Failure> {
    let show = |(schedule, now): Seen| Ok::<_, Failure>(print::lines(story(&read(&schedule)?, now)?)?);
    match verb {
        ScheduleVerb::Add(call) => {
            let args = arguments(call.args.as_deref())?;
            let (written, json) = written(call, args.as_deref());
            // All values are read before the database is touched.
            let recurring = written.to_recurring()?;
            block_on(async {
                let place = Place::find(settings).await?;
                show(match &place {
                    Place::Database(turnwise) => {
                        let set = turnwise.set_schedule(&call.name, recurring).await?;
                        seen(turnwise, &call.name, &set).await?
                    }
                    Place::Server(server) => {
                        ScheduleName::new(&call.name)?;
                        server.answer(&Ask::put(path(&call.name, "")).json(json)).await?
                    }
                })?;
                let tasks = std::iter::once(&call.task).chain(&call.on_exhausted).chain(&call.next).cloned().collect();
                known::warn(&place, &tasks).await;
                Ok(())
            })?;
        }
        ScheduleVerb::List(call) => {
            let (all, now) = block_on(async { all(&Place::find(settings).await?).await })?;
            if call.json {
                print::array(all)?
            } else {
                let header = ["NAME", "WHEN", "TASK", "QUEUE", "GROUP", "STATE", "LAST", "NEXT"];
                let rows = all.iter().map(|schedule| Ok(row(&read(schedule)?, now)));
                print::table(header, rows.collect::<Result<Vec<_>, Failure>>()?, call.wide)?
            }
        }
        ScheduleVerb::Show(call) => {
            let (schedule, last, now) = block_on(about(settings, &call.name, async |place| {
                let (schedule, now) = one(place, &call.name).await?;
                let last = last_job(place, &read(&schedule)?).await?;
                Ok((schedule, last, now))
            }))?;
            if call.json {
                print::indented(schedule.get())?;
            } else {
                let schedule = read(&schedule)?;
                let mut lines = story(&schedule, now)?;
                lines.splice(1..1, details(&schedule, last.as_ref()));
                print::lines(lines)?;
            }
        }
        ScheduleVerb::Pause(Pause { name, reason }) => {
            show(block_on(about(settings, name, async |place| match place {
                Place::Database(turnwise) => {
                    seen(turnwise, name, &turnwise.pause_schedule(name, reason.clone()).await?).await
                }
                Place::Server(server) => {
                    let body = json!({ "reason": reason }).to_string();
                    ask_about(server, &Ask::post(path(name, "/pause")).json(body)).await
                }
            }))?)?
        }
        ScheduleVerb::Resume(call) => show(block_on(about(settings, &call.name, async |place| match place {
            Place::Database(turnwise) => seen(turnwise, &call.name, &turnwise.resume_schedule(&call.name).await?).await,
            Place::Server(server) => ask_about(server, &Ask::post(path(&call.name, "/resume"))).await,
        }))?)?,
        ScheduleVerb::Remove(call) => {
            block_on(about(settings, &call.name, async |place| {
                match place {
                    Place::Database(turnwise) => turnwise.remove_schedule(&call.name).await?,
                    Place::Server(server) => drop(ask_about(server, &Ask::delete(path(&call.name, ""))).await?),
                }
                Ok(())
            }))?;
            print::lines([format!("schedule {} is removed; its jobs stay", call.name)])?;
        }
        ScheduleVerb::Run(call) => {
            #[derive(Deserialize)]
            struct Submitted {
                id: String,
            }
            let id = block_on(about(settings, &call.name, async |place| match place {
                Place::Database(turnwise) => Ok(turnwise.run_schedule(&call.name).await?.to_string()),
                Place::Server(server) => {
                    let (submitted, _) = ask_about(server, &Ask::post(path(&call.name, "/run"))).await?;
                    Ok(read::<Submitted>(&submitted)?.id)
                }
            }))?;
            print::lines([id])?;
        }
    }
    Ok(())
}

/// Does `work` to the schedule of this name. If there is none, the one that was probably meant is named.
async fn about<T>(
    settings: &Settings,
    name: &str,
    work: impl AsyncFnOnce(&Place) -> Result<T, Failure>,
) -> Result<T, Failure> {
    ScheduleName::new(name)?;
    let place = Place::find(settings).await?;
    match work(&place).await {
        Err(Failure::Input(text)) => {
            // Without a right to read them there is no hint.
            let schedules = all(&place).await.map_or_else(|_| Vec::new(), |(schedules, _)| schedules);
            let names = schedules.iter().map(|schedule| Ok(read::<Schedule>(schedule)?.name));
            let names = names.collect::<Result<Vec<_>, Failure>>()?;
            let is_there = names.iter().any(|known| known == name);
            let hint = if is_there { String::new() } else { did_you_mean(name, names.iter().map(String::as_str)) };
            Err(Failure::Input(text + &hint))
        }
        done => done,
    }
}

/// The last job that it submitted.
#[derive(Debug, Deserialize)]
struct LastJob {
    state: JobState,
    submitted_at: Timestamp,
}

/// `None`: there is none, or it is kept no longer.
async fn last_job(place: &Place, schedule: &Schedule) -> Result<Option<LastJob>, Failure> {
    let Some(id) = &schedule.last_job else { return Ok(None) };
    match place {
        Place::Database(turnwise) => {
            let job = turnwise.store().job(id.parse()?).await?;
            Ok(job.map(|job| LastJob { state: job.state, submitted_at: job.submitted_at }))
        }
        Place::Server(server) => match server.try_ask(Ask::get(format!("/jobs/{id}"))).await {
            Ok(job) => Ok(Some(read(&job)?)),
            Err(turnwise_client::Error::Problem(problem)) if problem.word() == "not-found" => Ok(None),
            Err(error) => Err(error.into()),
        },
    }
}

/// The schedule as it was written, for the library and for a server.
fn written<'a>(call: &'a AddSchedule, args: Option<&'a str>) -> (wire::NewSchedule<'a>, String) {
    fn text(value: &Option<String>) -> Option<Cow<'_, str>> {
        value.as_deref().map(Cow::Borrowed)
    }
    let job = wire::Request {
        task: Some(Cow::Borrowed(&call.task)),
        args,
        queue: text(&call.queue),
        group: text(&call.group),
        key: text(&call.key),
        priority: text(&call.priority),
        retry: text(&call.retry),
        timeout: text(&call.timeout),
        on_exhausted: text(&call.on_exhausted),
        next: text(&call.next),
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
    // What is wrong with the arguments is found by the library's own reading.
    let json = serde_json::to_string(&schedule).unwrap_or_default();
    (schedule, json)
}

/// The schedule in one line, and its next times, one a line.
fn story(schedule: &Schedule, now: Timestamp) -> Result<Vec<String>, Failure> {
    let Schedule { name, when, zone, task, group, queue, overlap, catch_up, .. } = schedule;
    let mut lines = vec![format!(
        "schedule {name}: {when}, task {task}, queue {queue}, group {group}, overlap {overlap}, catch up {catch_up}"
    )];
    if let Some(pause) = &schedule.pause {
        let reason = pause.reason.as_ref().map_or_else(String::new, |reason| format!(": {}", print::clean(reason)));
        lines.push(format!("paused since {}{reason}; without the pause its next times would be", pause.since));
    }
    let (zone, times) = (zone.parse::<Zone>()?, schedule.next.iter());
    lines.extend(times.map(|slot| format!("  {}, in {}", zone.words(*slot), print::about(slot.since(now)))));
    Ok(lines)
}

/// What its jobs get, and its last run.
fn details(schedule: &Schedule, job: Option<&LastJob>) -> Vec<String> {
    let key = schedule.key.as_ref().map(|key| format!(", key {key}")).unwrap_or_default();
    let timeout = schedule.timeout.as_ref().map(|timeout| format!(", timeout {timeout}")).unwrap_or_default();
    let last = match (&schedule.last_job, job) {
        (Some(id), Some(job)) => format!("job {id}, {} (submitted at {})", job.state, job.submitted_at),
        (Some(id), None) => format!("job {id}, which is not kept any more"),
        (None, _) => "none yet".to_owned(),
    };
    let steps = [
        ("goes on as task {} when its retries run out", &schedule.on_exhausted),
        ("goes on as task {} after a success", &schedule.next_task),
    ];
    let steps =
        steps.into_iter().filter_map(|(words, task)| Some(format!("  {}", words.replace("{}", task.as_ref()?))));
    let words = schedule.in_words.as_ref().map(|words| format!("  {words}"));
    let mut lines: Vec<_> = words.into_iter().collect();
    lines.extend([
        format!("  args {}", print::clean(schedule.args.get())),
        format!(
            "  priority {}, retry {}{key}{timeout}",
            schedule.priority,
            schedule.retry.as_deref().unwrap_or("as its task sets it")
        ),
    ]);
    lines.extend(steps);
    lines.extend([format!("  last run at its time: {last}"), "  next times:".to_owned()]);
    lines
}

fn row(schedule: &Schedule, now: Timestamp) -> [String; 8] {
    let paused = schedule.pause.is_some();
    let next = schedule.next.first().filter(|_| !paused).map(Timestamp::to_string);
    [
        schedule.name.clone(),
        schedule.when.clone(),
        schedule.task.clone(),
        schedule.queue.clone(),
        schedule.group.clone(),
        if paused { "paused" } else { "active" }.to_owned(),
        schedule.last.map_or_else(|| "-".to_owned(), |last| format!("{} ago", print::age(now.since(last)))),
        next.unwrap_or_default(),
    ]
}
