//! Why a job does not run yet, in plain words.

use turnwise::{JobId, wire};

use crate::{args::OneJob, error::Failure, print, serve::block_on, settings::Settings};

pub(crate) fn why(settings: &Settings, wish: &OneJob) -> Result<(), Failure> {
    let id: JobId = wish.id.parse()?;
    let answer = block_on(async { Ok(settings.open().await?.why(id).await?) })?;
    let why = wire::Why::new(&answer);
    if wish.json {
        print::object(&why)?;
    } else {
        print::lines(why.words)?;
    }
    Ok(())
}
