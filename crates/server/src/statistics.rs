//! What happened: numbers by the minute, hour and day, and which errors there were.

use turnwise::{
    Error, GroupName, Invalid, QueueName, TaskName,
    statistics::{AskErrors, AskStatistics, By, Counted, Of, Step},
    wire,
};
use turnwise_core::access::Target;

use crate::{
    call::{Call, Reply},
    problem::Problem,
    service::Turn,
};

/// A caller sees only numbers of jobs that it may see: one that is limited to groups gets those of its groups, by group.
pub(crate) async fn list(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Many)?;
    let query = &call.query;
    let (by, step, outcome) = (query.parse("by", by)?, query.parse("step", step)?, query.parse("outcome", outcome)?);
    let ask = AskStatistics {
        since: query.time("since")?,
        until: query.time("until")?,
        queue: query.parse("queue", |text| QueueName::new(text))?,
        task: query.parse("task", |text| TaskName::new(text))?,
        group: query.parse("group", |text| GroupName::new(text))?,
        ..AskStatistics::by(by.unwrap_or(By::Queue), step.unwrap_or(Step::Minute))
    };
    if let Some(queue) = &ask.queue {
        call.check(Target::Queue(queue))?;
    }
    if ask.by == By::Group && ask.queue.is_none() {
        let invalid = Invalid::new("queue", "numbers by group are those of one queue; name it");
        return Err(Problem::in_parameter("queue", &invalid));
    }
    let _turn = call.service.turn(Turn::Statistics).await?;
    let points = call.turnwise().statistics_within(&ask, call.grant.limits()).await.map_err(problem)?;
    Reply::json(&wire::Statistics::new(&points, outcome))
}

pub(crate) async fn errors(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Many)?;
    let step = call.query.parse("step", step)?;
    let ask = AskErrors { since: call.query.time("since")?, until: call.query.time("until")?, step };
    let queue = call.query.parse("queue", |text| QueueName::new(text))?;
    let task = call.query.parse("task", |text| TaskName::new(text))?;
    if let Some(queue) = &queue {
        call.check(Target::Queue(queue))?;
    }
    let _turn = call.service.turn(Turn::Statistics).await?;
    let errors = call.turnwise().error_statistics_where(&ask, |row| {
        let wanted = queue.as_ref().is_none_or(|queue| *queue == row.queue);
        let wanted = wanted && task.as_ref().is_none_or(|task| *task == row.task);
        wanted && call.grant.sees(&row.queue, &Of::Task(row.task.clone()))
    });
    Reply::json(&wire::Errors::new(&errors.await.map_err(problem)?))
}

/// What is invalid came as a parameter, and not in a body.
fn problem(error: Error) -> Problem {
    match error {
        Error::Invalid(invalid) => Problem::in_parameter(invalid.field, &invalid),
        other => other.into(),
    }
}

fn by(text: &str) -> Result<By, Invalid> {
    match text {
        "queue" => Ok(By::Queue),
        "task" => Ok(By::Task),
        "group" => Ok(By::Group),
        _ => Err(Invalid::new("by", format!("{text:?} is not queue, task or group"))),
    }
}

fn step(text: &str) -> Result<Step, Invalid> {
    Step::from_name(text).ok_or_else(|| Invalid::new("step", format!("{text:?} is not minute, hour or day")))
}

fn outcome(text: &str) -> Result<Counted, Invalid> {
    let outcome = Counted::from_name(text).filter(|counted| *counted != Counted::Started);
    outcome.ok_or_else(|| {
        Invalid::new("outcome", format!("{text:?} is not success, failed, cancelled, stuck, retried or again"))
    })
}
