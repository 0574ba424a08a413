//! A person's decisions: cancel, retry, fail.

use turnwise::{Cancelled, Error, JobId, Turnwise};

use crate::{
    error::{Failure, complain},
    print,
    serve::block_on,
    settings::Settings,
};

pub(crate) fn cancel(settings: &Settings, wish: &[String]) -> Result<(), Failure> {
    decide(settings, wish, async |turnwise, id| {
        Ok(match turnwise.cancel(id).await? {
            Cancelled::AtOnce => "cancelled",
            Cancelled::Requested => "is told to stop",
        })
    })
}

pub(crate) fn retry(settings: &Settings, wish: &[String]) -> Result<(), Failure> {
    decide(settings, wish, async |turnwise, id| turnwise.retry(id).await.map(|()| "waiting"))
}

pub(crate) fn fail(settings: &Settings, wish: &[String]) -> Result<(), Failure> {
    decide(settings, wish, async |turnwise, id| turnwise.fail(id).await.map(|()| "failed"))
}

/// Each job by itself: one that cannot be decided about keeps no other from it.
fn decide(
    settings: &Settings,
    wish: &[String],
    decision: impl AsyncFn(&Turnwise, JobId) -> Result<&'static str, Error>,
) -> Result<(), Failure> {
    let ids = wish.iter().map(|id| id.parse()).collect::<Result<Vec<JobId>, _>>()?;
    block_on(async {
        let turnwise = settings.open().await?;
        let mut told = false;
        for id in ids {
            match decision(&turnwise, id).await {
                Ok(word) => print::lines([format!("{id} {word}")])?,
                Err(error) => {
                    match error {
                        // It names the job itself.
                        Error::NoSuchJob(_) => complain(&error.to_string()),
                        _ => complain(&format!("{id}: {error}")),
                    }
                    told = true;
                }
            }
        }
        if told { Err(Failure::Told) } else { Ok(()) }
    })
}
