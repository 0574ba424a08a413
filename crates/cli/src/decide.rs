//! A person's decisions: cancel, retry, fail, change.

use serde::Deserialize;
use turnwise::{Cancelled, Error, Invalid, JobChange, JobId, Priority, QueueName, Timestamp, Turnwise};
use turnwise_client::Ask;
use turnwise_core::time::parse_span;

use crate::{
    args,
    bulk::{self, Verb},
    error::{Failure, complain},
    place::{Place, read},
    print,
    serve::block_on,
    settings::Settings,
};

pub(crate) fn cancel(settings: &Settings, call: &[String]) -> Result<(), Failure> {
    decide(settings, call, Verb::Cancel)
}

pub(crate) fn retry(settings: &Settings, call: &[String], again: bool) -> Result<(), Failure> {
    decide(settings, call, if again { Verb::Again } else { Verb::Retry })
}

pub(crate) fn fail(settings: &Settings, call: &[String]) -> Result<(), Failure> {
    decide(settings, call, Verb::Fail)
}

pub(crate) fn change(settings: &Settings, call: &args::Change) -> Result<(), Failure> {
    let change = wanted(call)?;
    let verb = Verb::Change(&change);
    if call.chosen.filter.is_empty() {
        decide(settings, &call.chosen.ids, verb)
    } else {
        bulk::filtered(settings, verb, &call.chosen)
    }
}

/// A change of a job: for the library, and as a server reads it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) change: JobChange,
    pub(crate) json: String,
}

/// What a decision about one job came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    AtOnce,
    /// A node has it, and was asked to stop it.
    Requested,
}

/// Why a decision about one job was not made.
pub(crate) enum Refused {
    /// About this job alone: others may be decided about. The text names the job.
    Job(String),
    /// Nothing can be decided now.
    All(Failure),
}

/// Decides about one job.
pub(crate) async fn decide_one(place: &Place, verb: Verb<'_>, id: JobId) -> Result<Came, Refused> {
    match place {
        Place::Database(turnwise) => in_database(turnwise, verb, id).await.map_err(|error| match error {
            // It names the job itself.
            Error::NoSuchJob(_) => Refused::Job(error.to_string()),
            Error::Illegal(_) | Error::Conflict(_) | Error::Store(_) => Refused::Job(format!("{id}: {error}")),
            other => Refused::All(other.into()),
        }),
        Place::Server(server) => {
            let ask = match verb {
                Verb::Cancel => Ask::post(format!("/jobs/{id}/cancel")),
                Verb::Retry => Ask::post(format!("/jobs/{id}/retry")),
                Verb::Again => Ask::post(format!("/jobs/{id}/rerun")),
                Verb::Fail => Ask::post(format!("/jobs/{id}/fail")),
                Verb::Change(wanted) => Ask::patch(format!("/jobs/{id}")).json(&wanted.json),
            };
            #[derive(Deserialize)]
            struct Decided {
                decided: String,
            }
            let answer = server.try_ask(ask).await.map_err(|error| match error {
                turnwise_client::Error::Problem(problem) if problem.word() == "not-found" => {
                    Refused::Job(problem.detail)
                }
                turnwise_client::Error::Problem(problem) if matches!(problem.word(), "conflict" | "unavailable") => {
                    Refused::Job(format!("{id}: {problem}"))
                }
                other => Refused::All(other.into()),
            })?;
            let came: Decided = read(&answer).map_err(Refused::All)?;
            Ok(if came.decided == "cancel_requested" { Came::Requested } else { Came::AtOnce })
        }
    }
}

async fn in_database(turnwise: &Turnwise, verb: Verb<'_>, id: JobId) -> Result<Came, Error> {
    match verb {
        Verb::Cancel => {
            return Ok(match turnwise.cancel(id).await? {
                Cancelled::AtOnce => Came::AtOnce,
                Cancelled::Requested => Came::Requested,
            });
        }
        Verb::Retry => turnwise.retry(id).await?,
        Verb::Again => turnwise.rerun(id).await?,
        Verb::Fail => turnwise.fail(id).await?,
        Verb::Change(wanted) => turnwise.change(id, &wanted.change).await?,
    }
    Ok(Came::AtOnce)
}

fn word(verb: Verb<'_>, came: Came) -> &'static str {
    match (verb, came) {
        (_, Came::Requested) => "is in a node's hands; the node was asked to stop it",
        (Verb::Cancel, Came::AtOnce) => "cancelled",
        (Verb::Retry | Verb::Again, Came::AtOnce) => "waiting",
        (Verb::Fail, Came::AtOnce) => "failed",
        (Verb::Change(_), Came::AtOnce) => "changed",
    }
}

fn wanted(call: &args::Change) -> Result<Wanted, Invalid> {
    let (mut change, mut json) = (JobChange::new(), serde_json::Map::new());
    let mut put = |name: &str, value: String| drop(json.insert(name.to_owned(), value.into()));
    if let Some(priority) = &call.priority {
        let priority = priority.parse::<Priority>()?.get();
        change = change.priority(priority.into());
        put("priority", priority.to_string());
    }
    if let Some(queue) = &call.queue {
        change = change.queue(QueueName::new(queue)?.as_str());
        put("queue", queue.clone());
    }
    if let Some(delay) = &call.r#in {
        change = change.delay(parse_span("in", delay)?);
        put("in", delay.clone());
    }
    if let Some(at) = &call.at {
        change = change.at(at.parse::<Timestamp>()?);
        put("at", at.clone());
    }
    if call.now {
        change = change.now();
        put("in", "0s".to_owned());
    }
    if json.is_empty() {
        return Err(Invalid::new("change", "needs a change: add --priority, --queue, --in, --at or --now"));
    }
    Ok(Wanted { change, json: serde_json::Value::from(json).to_string() })
}

/// Each job is decided by itself: an error about one job does not affect the others.
fn decide(settings: &Settings, call: &[String], verb: Verb<'_>) -> Result<(), Failure> {
    block_on(async {
        let place = Place::find(settings).await?;
        // All of them are known before anything is decided.
        let mut ids = Vec::new();
        for text in call {
            ids.push(place.find_id(text).await?);
        }
        let mut failed = false;
        for id in ids {
            match decide_one(&place, verb, id).await {
                Ok(came) => print::lines([format!("{id} {}", word(verb, came))])?,
                Err(Refused::Job(text)) => {
                    complain(&text);
                    failed = true;
                }
                // It is about this job, too, but the next one would fare no better.
                Err(Refused::All(failure)) => return Err(failure),
            }
        }
        if failed { Err(Failure::AlreadyPrinted) } else { Ok(()) }
    })
}
