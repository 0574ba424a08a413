//! A person's decisions: cancel, retry, fail, change.

use turnwise::{Cancelled, Error, Invalid, JobChange, JobId, Priority, QueueName, Timestamp, Turnwise};
use turnwise_core::time::parse_span;

use crate::{
    args,
    bulk::{self, Verb},
    error::{Failure, complain},
    print,
    serve::block_on,
    settings::Settings,
};

pub(crate) fn cancel(settings: &Settings, call: &[String]) -> Result<(), Failure> {
    decide(settings, call, async |turnwise, id| {
        Ok(match turnwise.cancel(id).await? {
            Cancelled::AtOnce => "cancelled",
            Cancelled::Requested => "is in a node's hands; the node was asked to stop it",
        })
    })
}

pub(crate) fn retry(settings: &Settings, call: &[String], again: bool) -> Result<(), Failure> {
    decide(settings, call, async |turnwise, id| {
        if again {
            turnwise.rerun(id).await?
        } else {
            turnwise.retry(id).await?
        }
        Ok("waiting")
    })
}

pub(crate) fn fail(settings: &Settings, call: &[String]) -> Result<(), Failure> {
    decide(settings, call, async |turnwise, id| turnwise.fail(id).await.map(|()| "failed"))
}

pub(crate) fn change(settings: &Settings, call: &args::Change) -> Result<(), Failure> {
    let change = wanted(call)?;
    if !call.chosen.filter.is_empty() {
        return bulk::filtered(settings, Verb::Change(&change), &call.chosen);
    }
    decide(settings, &call.chosen.ids, async |turnwise, id| turnwise.change(id, &change).await.map(|()| "changed"))
}

fn wanted(call: &args::Change) -> Result<JobChange, Invalid> {
    let mut change = JobChange::new();
    if let Some(priority) = &call.priority {
        change = change.priority(priority.parse::<Priority>()?.get().into());
    }
    if let Some(queue) = &call.queue {
        change = change.queue(QueueName::new(queue)?.as_str());
    }
    if let Some(delay) = &call.r#in {
        change = change.delay(parse_span("in", delay)?);
    }
    if let Some(at) = &call.at {
        change = change.at(at.parse::<Timestamp>()?);
    }
    if call.now {
        change = change.now();
    }
    if change == JobChange::new() {
        return Err(Invalid::new("change", "names nothing; add --priority, --queue, --in, --at or --now"));
    }
    Ok(change)
}

/// Each job is decided by itself: an error about one job does not affect the others.
fn decide(
    settings: &Settings,
    call: &[String],
    decision: impl AsyncFn(&Turnwise, JobId) -> Result<&'static str, Error>,
) -> Result<(), Failure> {
    block_on(async {
        let turnwise = settings.open().await?;
        // All of them are known before anything is decided.
        let mut ids = Vec::new();
        for text in call {
            ids.push(turnwise.find_id(text).await?);
        }
        let mut failed = false;
        for id in ids {
            match decision(&turnwise, id).await {
                Ok(word) => print::lines([format!("{id} {word}")])?,
                Err(error) => {
                    match error {
                        // It names the job itself.
                        Error::NoSuchJob(_) => complain(&error.to_string()),
                        _ => complain(&format!("{id}: {error}")),
                    }
                    failed = true;
                }
            }
        }
        if failed { Err(Failure::AlreadyPrinted) } else { Ok(()) }
    })
}
