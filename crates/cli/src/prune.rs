//! Deleting finished jobs whose retention is over, by hand; the dispatcher does it regularly.

use serde::Deserialize;
use turnwise::{Error, Filter, Invalid, JobId, JobState, Options, Schema, Turnwise, settings::Retention};
use turnwise_client::Ask;
use turnwise_core::lifecycle::End;

use crate::{
    args,
    audit::this_user,
    error::Failure,
    place::{Server, read},
    print,
    serve::block_on,
    settings::Settings,
    terminal,
};

/// Rows in one transaction: many enough to be quick, few enough to hold up no other statement.
const ROWS: u32 = 1_000;
/// Finished jobs that are read at a time to be counted.
const PAGE: u32 = 10_000;

pub(crate) fn prune(settings: &Settings, call: &args::Prune) -> Result<(), Failure> {
    let mut options = Options { schema: Schema::Existing, ..settings.options()? };
    let asked: Option<Retention> = call.retention.as_deref().map(str::parse).transpose()?;
    if asked.is_some() {
        options.retention = asked;
    }
    if let Some(client) = settings.server()? {
        return at_server(&Server::new(client), call);
    }
    block_on(async {
        let turnwise = settings.open_with(options).await?.acting_as(this_user());
        let set = turnwise.settings().await?;
        // The dispatcher deletes what the installation keeps no longer anyway: no question is needed for that.
        if call.dry_run || (asked.is_some() && !call.yes) {
            let retention = asked.or(set.installation.retention).unwrap_or_default();
            let count = over(&turnwise, retention).await?;
            let jobs = print::count(count, "finished job");
            print::lines([format!("{jobs} would be deleted (retention {retention})")])?;
            if call.dry_run || (count > 0 && !terminal::agreed(&format!("Delete {jobs}?"))?) {
                return Ok(());
            }
        }
        let (gone, _) = turnwise.prune_all(ROWS, usize::MAX).await?;
        print::lines([format!("{} deleted", print::count(usize::try_from(gone).unwrap_or(usize::MAX), "row"))])?;
        Ok(())
    })
}

/// A server deletes what the installation keeps no longer: another retention would be the caller's own, and a count would read all of
/// the history for a caller who may ask again and again.
fn at_server(server: &Server, call: &args::Prune) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Pruned {
        deleted: u64,
        more: bool,
    }
    for (given, flag) in [(call.retention.is_some(), "retention"), (call.dry_run, "dry_run")] {
        if given {
            let problem = "a server deletes only what the installation's own retention keeps no longer; use it on the database itself";
            return Err(Invalid::new(flag, problem).into());
        }
    }
    block_on(async {
        let mut gone = 0;
        loop {
            let Pruned { deleted, more } = read(&server.ask(Ask::post("/prune")).await?)?;
            gone += deleted;
            if !more {
                break;
            }
        }
        Ok(print::lines([format!("{} deleted", print::count(usize::try_from(gone).unwrap_or(usize::MAX), "row"))])?)
    })
}

/// How many finished jobs this retention keeps no longer; they are read page by page, from the newest id on.
async fn over(turnwise: &Turnwise, retention: Retention) -> Result<usize, Error> {
    let now = turnwise.now().await?;
    let ends = End::ALL.map(|end| (end.state(), retention.edge(end, now)));
    let states: Vec<JobState> = ends.iter().map(|(state, _)| *state).collect();
    let (first, mut last) = Filter::default().id_range();
    let mut count = 0;
    loop {
        let page = Filter { states: states.clone(), ids: Some((first, last)), limit: Some(PAGE), ..Filter::default() };
        let jobs = turnwise.jobs(page).await?;
        let ended = |state, at| ends.iter().any(|(end, edge)| *end == state && at < Some(*edge));
        count += jobs.iter().filter(|job| ended(job.state, job.finished_at)).count();
        let before = jobs.last().and_then(|job| job.id.uuid().as_u128().checked_sub(1));
        match before.filter(|_| jobs.len() == PAGE as usize) {
            Some(before) => last = JobId::from_uuid(uuid::Uuid::from_u128(before)),
            None => return Ok(count),
        }
    }
}
