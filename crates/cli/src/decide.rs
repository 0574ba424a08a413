//! A person's decisions: cancel, retry, fail.

use turnwise::{Cancelled, Error, JobId, Turnwise};

use crate::{
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
