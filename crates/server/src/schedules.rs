//! Schedules: jobs that are submitted again and again.

use turnwise::{
    JobId, Timestamp,
    schedules::{LastTime, Periodic, ScheduleName},
    wire::{self, NewSchedule, PauseReason, Reset},
};
use turnwise_core::access::Target;
use uuid::Uuid;

use crate::{
    call::{Call, Reply},
    names::page,
    problem::Problem,
};

fn target(periodic: &Periodic) -> Target<'_> {
    Target::Job { queue: &periodic.queue, group: &periodic.group, task: &periodic.task }
}

fn none(name: &ScheduleName) -> Problem {
    Problem::not_found(format!("schedule: there is none named {:?}", name.as_str()))
}

/// The schedule in the path; one that the caller may not see is not there.
async fn own(call: &Call) -> Result<(ScheduleName, Periodic), Problem> {
    let name = call.named(ScheduleName::new)?;
    let periodic = call.turnwise().schedules().await?.remove(&name).ok_or_else(|| none(&name))?;
    call.check(target(&periodic)).map_err(|_| none(&name))?;
    Ok((name, periodic))
}

async fn shown(call: &Call, name: &ScheduleName, periodic: &Periodic) -> Result<Reply, Problem> {
    let last: Option<LastTime> = call.turnwise().last_times().await?.remove(name);
    let now: Timestamp = call.turnwise().now().await?;
    let secrets = call.turnwise().secrets().await?;
    Reply::json(&wire::Schedule::new(name, periodic, last.as_ref(), now, &secrets))
}

pub(crate) async fn list(call: Call) -> Result<Reply, Problem> {
    let turnwise = call.turnwise();
    let (mut all, last, now) = (turnwise.schedules().await?, turnwise.last_times().await?, turnwise.now().await?);
    all.retain(|_, periodic| call.check(target(periodic)).is_ok());
    let (page, next) = page(&call, &all, ScheduleName::as_str)?;
    let secrets = turnwise.secrets().await?;
    let view = |(name, periodic)| wire::Schedule::new(name, periodic, last.get(name), now, &secrets);
    let views = page.into_iter().map(view);
    Reply::json(&wire::Schedules::new(views.collect(), next))
}

pub(crate) async fn show(call: Call) -> Result<Reply, Problem> {
    let (name, periodic) = own(&call).await?;
    shown(&call, &name, &periodic).await
}

pub(crate) async fn set(call: Call) -> Result<Reply, Problem> {
    let name = call.named(ScheduleName::new)?;
    let new = call.read(NewSchedule::read)?;
    let recurring = new.to_recurring().map_err(|invalid| Problem::in_body(&invalid))?;
    let job = new.job.to_request().and_then(|job| job.into_job(Timestamp::MIN));
    let job = job.map_err(|invalid| Problem::in_body(&invalid))?;
    call.check(Target::New(&job)).map_err(|_| Problem::not_to_submit())?;
    // One that is another's must not be replaced.
    if let Some(there) = call.turnwise().schedules().await?.get(&name) {
        call.check(target(there)).map_err(|_| Problem::conflict("a schedule has this name; choose another one"))?;
    }
    let set = call.acting().set_schedule(name.as_str(), recurring).await?;
    shown(&call, &name, &set).await
}

pub(crate) async fn remove(call: Call) -> Result<Reply, Problem> {
    let (name, _) = own(&call).await?;
    call.acting().remove_schedule(name.as_str()).await?;
    Reply::json(&Reset::new(true))
}

pub(crate) async fn pause(call: Call) -> Result<Reply, Problem> {
    let reason = call.read(PauseReason::read)?.reason;
    let (name, _) = own(&call).await?;
    let set = call.acting().pause_schedule(name.as_str(), reason).await?;
    shown(&call, &name, &set).await
}

pub(crate) async fn resume(call: Call) -> Result<Reply, Problem> {
    let (name, _) = own(&call).await?;
    let set = call.acting().resume_schedule(name.as_str()).await?;
    shown(&call, &name, &set).await
}

pub(crate) async fn run(call: Call) -> Result<Reply, Problem> {
    let (name, periodic) = own(&call).await?;
    // Another token may have set it to go on as a task that is not the caller's.
    let job = periodic.job_now(JobId::from_uuid(Uuid::nil()));
    call.check(Target::New(&job)).map_err(|_| Problem::not_to_submit())?;
    let id = call
        .turnwise()
        .run_schedule(name.as_str())
        .await
        .map_err(|error| Problem::of_submit(error, |_| "name".to_owned()))?;
    let submitted = wire::Submitted::new(&turnwise::Submitted::itself(id, true));
    Ok(Reply::json(&submitted)?.created(format_args!("/api/v1/jobs/{id}")))
}
