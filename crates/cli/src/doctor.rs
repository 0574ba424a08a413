//! What is wrong with an installation, and what to do. Only looks; core decides what it means.

use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use turnwise::Turnwise;
use turnwise_core::doctor::{Finding, Lost, Picture, Verdict, diagnose};
use turnwise_sqlite::SqliteStore;

use crate::{args, error::Failure, migrate, print, serve::block_on, settings::Settings};

/// Unfinished jobs that are looked at, the oldest: those wait longest for a task that nobody knows.
const JOBS: usize = 100_000;

/// All that was found, for a program.
#[derive(Debug, Serialize)]
struct Findings<'a> {
    /// Whether nothing is bad.
    well: bool,
    findings: Vec<Found<'a>>,
}

#[derive(Debug, Serialize)]
struct Found<'a> {
    subject: &'static str,
    /// `fine`, `look` or `bad`.
    verdict: Verdict,
    text: &'a str,
    /// What to do; `null`: nothing.
    advice: Option<&'a str>,
}

pub(crate) fn doctor(settings: &Settings, call: &args::Doctor) -> Result<(), Failure> {
    let findings = block_on(examine(settings))?;
    let well = findings.iter().all(|found| found.verdict != Verdict::Bad);
    if call.json {
        let found = findings.iter().map(|found| Found {
            subject: found.subject,
            verdict: found.verdict,
            text: &found.text,
            advice: found.advice.as_deref(),
        });
        print::object(&Findings { well, findings: found.collect() })?;
    } else {
        print::lines(findings.iter().map(|found| print::clean(&format!("{:<5} {found}", found.verdict.to_string()))))?;
    }
    // What is wrong is said already.
    if well { Ok(()) } else { Err(Failure::AlreadyPrinted) }
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
    match picture(settings, schema).await {
        Ok(picture) => Ok(diagnose(&picture)),
        Err(failure) => unusable(failure),
    }
}

async fn picture(settings: &Settings, schema: Option<(u32, u32)>) -> Result<Picture, Failure> {
    let turnwise = settings.open().await?;
    let vitals = turnwise.operators()?.vitals().await.map_err(turnwise::Error::from)?;
    let clock = if vitals.connections.is_some() { Some(offset(&turnwise).await?) } else { None };
    let fleet = turnwise.nodes().await?;
    let overview = turnwise.overview_within(JOBS).await?;
    let living = || fleet.nodes.iter().filter(|node| node.alive(fleet.now));
    let lost = fleet.losses.iter().map(|loss| Lost { name: loss.node.name.clone(), at: loss.lost_at, held: loss.held });
    let unknown = overview.tasks.iter().filter(|(_, task)| task.nodes == 0 && !task.jobs.is_empty());
    Ok(Picture {
        schema,
        vitals,
        clock,
        nodes: living().count(),
        dispatcher: living().find(|node| node.dispatcher).map(|node| node.name.clone()),
        lost: lost.collect(),
        unknown: unknown.map(|(name, task)| (name.clone(), task.jobs.waiting + task.jobs.stuck)).collect(),
        more: overview.more,
    })
}

/// How far the database's clock is ahead of this machine's, in microseconds: it was read between two looks at ours.
async fn offset(turnwise: &Turnwise) -> Result<(i64, Duration), Failure> {
    // The first question may have to wait for a connection.
    turnwise.now().await?;
    let (asked, before) = (Instant::now(), SystemTime::now());
    let there = turnwise.now().await?;
    let within = asked.elapsed() / 2;
    let here = before.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + within;
    let here = i64::try_from(here.as_micros()).unwrap_or(i64::MAX);
    Ok((there.micros().saturating_sub(here), within))
}
