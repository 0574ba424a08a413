//! Why a job does not run yet, in plain words.

use serde::Deserialize;
use turnwise::wire;
use turnwise_client::Ask;

use crate::{
    args::OneJob,
    error::Failure,
    place::{self, Place, read},
    print,
    serve::block_on,
    settings::Settings,
};

pub(crate) fn why(settings: &Settings, call: &OneJob) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Why {
        words: Vec<String>,
    }
    let why = block_on(async {
        let place = Place::find(settings).await?;
        let id = place.find_id(&call.id).await?;
        match &place {
            Place::Database(turnwise) => place::shown(&wire::Why::new(&turnwise.why(id).await?)),
            Place::Server(server) => server.ask(Ask::get(format!("/jobs/{id}/why"))).await,
        }
    })?;
    if call.json {
        print::indented(why.get())?;
    } else {
        print::lines(read::<Why>(&why)?.words)?;
    }
    Ok(())
}
