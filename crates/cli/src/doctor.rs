//! What is wrong with an installation, and what to do. Only looks; core decides what it means.

use serde::Deserialize;
use turnwise::{doctor::Finding, wire};
use turnwise_client::{Ask, Error};
use turnwise_core::doctor::{Picture, diagnose};
use turnwise_sqlite::SqliteStore;

use crate::{
    args,
    error::Failure,
    migrate,
    place::{self, Server, Shown, read},
    print,
    serve::block_on,
    settings::Settings,
};

/// Unfinished jobs that are looked at, the oldest, where the dispatcher does not tell how many there are: those wait longest for a task
/// that no node knows.
const JOBS: usize = 100_000;

/// A [`wire::Findings`].
#[derive(Debug, Deserialize)]
struct Findings {
    well: bool,
    findings: Vec<Found>,
}

#[derive(Debug, Deserialize)]
struct Found {
    subject: String,
    verdict: String,
    text: String,
    advice: Option<String>,
}

pub(crate) fn doctor(settings: &Settings, call: &args::Doctor) -> Result<(), Failure> {
    let shown = block_on(async {
        match settings.server()? {
            Some(client) => ask(&Server::new(client)).await,
            None => place::shown(&wire::Findings::new(&examine(settings).await?)),
        }
    })?;
    let Findings { well, findings } = read(&shown)?;
    if call.json {
        print::indented(shown.get())?;
    } else {
        let line = |Found { subject, verdict, text, advice }: Found| {
            let advice = advice.map_or_else(String::new, |advice| format!("; {advice}"));
            print::clean(&format!("{verdict:<5} {subject}: {text}{advice}"))
        };
        print::lines(findings.into_iter().map(line))?;
    }
    // What is wrong is said already.
    if well { Ok(()) } else { Err(Failure::AlreadyPrinted) }
}

/// What a server finds. One that cannot be asked is a finding as well, and so is its database.
async fn ask(server: &Server) -> Result<Shown, Failure> {
    let finding = match server.try_ask(Ask::get("/doctor")).await {
        Ok(shown) => return Ok(shown),
        Err(error @ (Error::Unreachable(_) | Error::Foreign(_))) => {
            Finding::bad("server", error.to_string(), "see that it runs, and that --server is its address")
        }
        Err(Error::Problem(problem)) if problem.status == 503 => {
            Finding::bad("database", problem.detail, "see that it runs and that the server reaches it, then ask again")
        }
        Err(error) => return Err(error.into()),
    };
    place::shown(&wire::Findings::new(&[finding]))
}

/// A database that cannot be used is a finding as well, and the only one.
async fn examine(settings: &Settings) -> Result<Vec<Finding>, Failure> {
    let url = settings.database();
    let missing = url.starts_with("sqlite:") && SqliteStore::file(url)?.is_some_and(|file| !file.exists());
    if missing {
        let text = "the file is not there";
        return Ok(vec![Finding::bad("database", text, "make it with `turnwise migrate`, or name another one")]);
    }
    let unusable = |failure: Failure| match failure.text() {
        // What is wrong with a file says what to do.
        Some(text) if url.starts_with("sqlite:") => Ok(vec![Finding::bad("database", text, "then ask again")]),
        Some(text) => Ok(vec![Finding::bad("database", text, "see that it runs and can be reached, then ask again")]),
        None => Err(failure),
    };
    let schema = match migrate::versions(url).await {
        Ok(versions) => versions,
        Err(failure) => return unusable(failure),
    };
    if schema.is_some_and(|(found, known)| found < known) {
        let picture = Picture { schema, ..Picture::default() };
        return Ok(diagnose(&picture).into_iter().filter(|found| found.subject == "schema").collect());
    }
    let found = async { Ok(settings.open().await?.diagnose(JOBS).await?) };
    found.await.or_else(unusable)
}
