//! Why a job does not run yet, in plain words.

use turnwise::wire;

use crate::{args::OneJob, error::Failure, look, print, serve::block_on, settings::Settings};

pub(crate) fn why(settings: &Settings, call: &OneJob) -> Result<(), Failure> {
    let id = look::id(settings, &call.id)?;
    let answer = block_on(async { Ok(settings.open().await?.why(id).await?) })?;
    let why = wire::Why::new(&answer);
    if call.json {
        print::object(&why)?;
    } else {
        print::lines(why.words)?;
    }
    Ok(())
}
