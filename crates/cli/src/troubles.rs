//! Dead letters: jobs by what went wrong with them, and running them again in bulk.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, IsTerminal, Write},
};

use serde::Serialize;
use turnwise::{Error, Filter, Invalid, Job, JobId, JobState, TaskName, Timestamp, Turnwise};

use crate::{
    args,
    error::{Failure, complain},
    print,
    serve::block_on,
    settings::Settings,
};

/// Jobs that are shown before a person says yes.
const SAMPLE: usize = 5;
/// Jobs between two looks at the progress.
const STEP: usize = 100;

/// Jobs that failed in the same way.
#[derive(Debug, Serialize)]
struct Trouble<'a> {
    fingerprint: &'a str,
    task: &'a TaskName,
    jobs: usize,
    first: Timestamp,
    last: Timestamp,
    /// Of the last one.
    error: &'a str,
    example: JobId,
}

pub(crate) fn by_error(jobs: &[Job], json: bool) -> Result<(), Failure> {
    let troubles = grouped(jobs);
    if json {
        print::array(troubles)?;
    } else {
        let rows = troubles.iter().map(|trouble| {
            [
                trouble.jobs.to_string(),
                trouble.fingerprint.to_owned(),
                trouble.task.to_string(),
                trouble.first.to_string(),
                trouble.last.to_string(),
                print::brief(trouble.error),
            ]
        });
        print::table(["JOBS", "FINGERPRINT", "TASK", "FIRST", "LAST", "ERROR"], rows)?;
    }
    Ok(())
}

/// By task and fingerprint, the most frequent first.
fn grouped(jobs: &[Job]) -> Vec<Trouble<'_>> {
    let mut troubles: BTreeMap<(&TaskName, &str), Trouble<'_>> = BTreeMap::new();
    for job in jobs {
        let (Some(fingerprint), Some(error)) = (&job.fingerprint, &job.error) else { continue };
        let at = job.finished_at.unwrap_or(job.submitted_at);
        let trouble = troubles.entry((&job.task, fingerprint)).or_insert(Trouble {
            fingerprint,
            task: &job.task,
            jobs: 0,
            first: at,
            last: at,
            error,
            example: job.id,
        });
        trouble.jobs += 1;
        trouble.first = trouble.first.min(at);
        if at >= trouble.last {
            (trouble.last, trouble.error, trouble.example) = (at, error, job.id);
        }
    }
    let mut troubles: Vec<_> = troubles.into_values().collect();
    troubles.sort_by_key(|trouble| (std::cmp::Reverse(trouble.jobs), trouble.fingerprint));
    troubles
}

/// Which jobs: `state=failed task=mail queue=q group=g fingerprint=…`.
#[derive(Debug, Default)]
struct Which {
    filter: Filter,
    fingerprint: Option<String>,
}

impl Which {
    fn read(conditions: &[String]) -> Result<Self, Invalid> {
        let mut which = Self::default();
        for condition in conditions.iter().flat_map(|text| text.split_whitespace()) {
            let bad = || {
                let known = "state, task, queue, group or fingerprint";
                Invalid::new("filter", format!("{condition:?} is not a condition; write NAME=VALUE with {known}"))
            };
            let (name, value) = condition.split_once('=').ok_or_else(bad)?;
            let value = value.to_owned();
            match name {
                "state" => which.filter.states.push(value.parse()?),
                "task" => which.filter.task = Some(value),
                "queue" => which.filter.queue = Some(value),
                "group" => which.filter.group = Some(value),
                "fingerprint" => which.fingerprint = Some(value),
                _ => return Err(bad()),
            }
        }
        if which.filter.states.is_empty() {
            which.filter.states.push(JobState::Failed);
        }
        match which.filter.states.iter().find(|state| !state.can_be_retried()) {
            Some(state) => Err(Invalid::new("filter", format!("jobs that are {state} cannot be retried"))),
            None => Ok(which),
        }
    }

    async fn jobs(self, turnwise: &Turnwise, limit: u32) -> Result<Vec<Job>, Error> {
        let limit = match self.fingerprint {
            // Which of them have it is seen when they are read.
            Some(_) => Filter::MAX_LIMIT,
            None => limit,
        };
        let mut jobs = turnwise.jobs(Filter { limit: Some(limit), ..self.filter }).await?;
        jobs.retain(|job| self.fingerprint.is_none() || job.fingerprint == self.fingerprint);
        Ok(jobs)
    }
}

/// Runs all jobs again that a filter names, after showing them.
pub(crate) fn retry(settings: &Settings, wish: &args::Retry) -> Result<(), Failure> {
    let which = Which::read(&wish.filter)?;
    let limit = wish.limit.as_deref().map(|text| crate::look::limit("limit", text)).transpose()?;
    let limit = limit.unwrap_or(Filter::MAX_LIMIT);
    block_on(async {
        let turnwise = settings.open().await?;
        let mut jobs = which.jobs(&turnwise, limit).await?;
        jobs.truncate(limit as usize);
        preview(&jobs)?;
        if jobs.is_empty() || wish.dry_run || !(wish.yes || agreed(jobs.len())?) {
            return Ok(());
        }
        redrive(&turnwise, &jobs).await
    })
}

fn preview(jobs: &[Job]) -> Result<(), Failure> {
    let rows = jobs.iter().take(SAMPLE).map(|job| {
        let error = job.error.as_deref().map(print::brief).unwrap_or_default();
        [job.id.to_string(), job.state.to_string(), job.task.to_string(), job.group.to_string(), error]
    });
    print::table(["ID", "STATE", "TASK", "GROUP", "ERROR"], rows)?;
    if jobs.len() > SAMPLE {
        print::lines([format!("… and {} more", jobs.len() - SAMPLE)])?;
    }
    Ok(print::lines([format!("{} jobs would run again", jobs.len())])?)
}

/// Asks the person at the terminal; where there is no terminal, a flag must have answered.
fn agreed(jobs: usize) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::Input(
            "yes: there is no terminal to ask on; give --yes, or --dry-run to only look".to_owned(),
        ));
    }
    let asked = |error: io::Error| Failure::Other(format!("asking: {error}"));
    write!(io::stderr(), "Run {jobs} jobs again? [y/N] ").map_err(asked)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(asked)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

async fn redrive(turnwise: &Turnwise, jobs: &[Job]) -> Result<(), Failure> {
    let live = io::stderr().is_terminal();
    let (mut again, mut left) = (0, Vec::new());
    for (round, chunk) in jobs.chunks(STEP).enumerate() {
        let retried = turnwise.retry_these(chunk).await?;
        again += retried.again;
        left.extend(retried.left);
        if live {
            let done = (round * STEP + chunk.len()) as u64;
            let progress = turnwise::story::Progress::new(done, jobs.len() as u64, "jobs");
            // Where stderr is closed, there is no one to show it to.
            let _ = write!(io::stderr(), "\r{}\u{1b}[K", crate::logs::bar(&progress));
        }
    }
    if live {
        let _ = write!(io::stderr(), "\r\u{1b}[K");
    }
    // Another person was quicker, it is pruned, or an open transaction holds it: alone it is waited for, or said why not.
    let mut refused = 0;
    for id in left {
        match turnwise.retry(id).await {
            Ok(()) => again += 1,
            Err(error @ (Error::Illegal(_) | Error::NoSuchJob(_) | Error::Conflict(_))) => {
                complain(&format!("{id}: {error}"));
                refused += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
    print::lines([format!("{again} jobs run again")])?;
    if refused > 0 { Err(Failure::Told) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_names_what_it_does_not_know() {
        let read = |text: &str| Which::read(&[text.to_owned()]);
        let which = read("state=failed,").unwrap_err().to_string();
        assert!(which.starts_with("state: "), "{which}");
        for (text, part) in [
            ("priority=1", "filter: \"priority=1\" is not a condition"),
            ("failed", "filter: \"failed\" is not a condition"),
            ("state=success", "filter: jobs that are success cannot be retried"),
        ] {
            let told = read(text).unwrap_err().to_string();
            assert!(told.starts_with(part), "{told}");
        }
        let which = read("task=mail group=acme fingerprint=abc").unwrap();
        assert_eq!(which.filter.states, [JobState::Failed]);
        assert_eq!((which.filter.task.as_deref(), which.fingerprint.as_deref()), (Some("mail"), Some("abc")));
    }
}
