//! Submitting a job again, with changes.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use turnwise::{Json, Priority, wire};
use turnwise_client::Ask;

use crate::{
    args,
    enqueue::arguments,
    error::Failure,
    known,
    place::{Place, read, shown},
    print,
    serve::block_on,
    settings::Settings,
};

/// A [`wire::Resubmission`], as it was typed.
#[derive(Serialize)]
struct Changes<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#in: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<&'a str>,
}

fn typed(call: &args::Resubmit) -> Result<String, Failure> {
    let args = match arguments(call.args.as_deref())? {
        Some(text) => Some(Json::parse("args", &text)?),
        None => None,
    };
    let priority = call.priority.as_deref().map(str::parse::<Priority>).transpose()?.map(Priority::get);
    let (task, queue, group) = (call.task.as_deref(), call.queue.as_deref(), call.group.as_deref());
    let changes = Changes { args, task, queue, group, priority, r#in: call.r#in.as_deref(), at: call.at.as_deref() };
    serde_json::to_string(&changes).map_err(|error| Failure::Input(error.to_string()))
}

pub(crate) fn resubmit(settings: &Settings, call: &args::Resubmit) -> Result<(), Failure> {
    // All input is read before the database is touched: what is refused leaves no trace.
    let typed = typed(call)?;
    let changes = wire::Resubmission::read(&typed).map_err(|unreadable| Failure::Input(unreadable.to_string()))?;
    block_on(async {
        let place = Place::find(settings).await?;
        let id = place.find_id(&call.id).await?;
        if call.show {
            return Ok(print::lines([to_edit(&place, id).await?.get()])?);
        }
        let again = match &place {
            Place::Database(turnwise) => turnwise.resubmit(id, &changes).await?.to_string(),
            Place::Server(server) => {
                #[derive(Deserialize)]
                struct Submitted {
                    id: String,
                }
                // If the connection breaks it is sent again, and done once.
                let key = turnwise::JobRequest::from_json("again", "null").job_id()?.to_string();
                let ask = Ask::post(format!("/jobs/{id}/resubmit")).json(typed).once(key);
                read::<Submitted>(&server.ask(ask).await?)?.id
            }
        };
        print::lines([again])?;
        known::warn(&place, &changes.task.into_iter().map(|task| task.to_string()).collect()).await;
        Ok(())
    })
}

async fn to_edit(place: &Place, id: turnwise::JobId) -> Result<Box<RawValue>, Failure> {
    match place {
        Place::Database(turnwise) => {
            let job = turnwise.job(id).await?;
            shown(&wire::ToEdit::new(&job, &turnwise.to_edit(&job).await?))
        }
        Place::Server(server) => server.ask(Ask::get(format!("/jobs/{id}/request"))).await,
    }
}
