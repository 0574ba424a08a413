//! A person's decision about all jobs that a filter names: they are shown, the person agrees, and it is done.

use std::io::{self, IsTerminal, Write};

use turnwise::{Error, Filter, Invalid, Job, JobChange, JobId, JobState, Turnwise};

use crate::{
    args,
    error::{Failure, complain},
    print,
    serve::block_on,
    settings::Settings,
    terminal,
};

/// Jobs that are shown before a person says yes.
const SAMPLE: usize = 5;
/// Jobs between two updates of the progress bar.
const STEP: usize = 100;

/// What is to be done to the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb<'a> {
    Cancel,
    Retry,
    /// As retry, also to jobs that have succeeded.
    Again,
    Fail,
    Change(&'a JobChange),
}

impl Verb<'_> {
    fn may(self, state: JobState) -> bool {
        match self {
            Self::Cancel => !state.finished(),
            Self::Retry => state.can_be_retried(),
            Self::Again => state.can_be_rerun(),
            Self::Fail => state == JobState::Stuck,
            Self::Change(_) => matches!(state, JobState::Waiting | JobState::Stuck),
        }
    }

    /// The states that are meant if none is named.
    fn usual(self) -> Vec<JobState> {
        match self {
            Self::Retry => vec![JobState::Failed],
            Self::Again => vec![JobState::Success],
            Self::Cancel | Self::Fail | Self::Change(_) => {
                JobState::ALL.into_iter().filter(|state| self.may(*state)).collect()
            }
        }
    }

    fn participle(self) -> &'static str {
        match self {
            Self::Cancel => "cancelled",
            Self::Retry => "retried",
            Self::Again => "run again",
            Self::Fail => "failed by a person",
            Self::Change(_) => "changed",
        }
    }

    /// What would happen to so many jobs.
    fn preview(self, jobs: usize) -> String {
        let jobs = print::count(jobs, "job");
        match self {
            Self::Cancel => format!("{jobs} would be cancelled"),
            Self::Retry | Self::Again => format!("{jobs} would run again"),
            Self::Fail => format!("{jobs} would be marked as failed"),
            Self::Change(_) => format!("{jobs} would be changed"),
        }
    }

    fn question(self, jobs: usize) -> String {
        let jobs = print::count(jobs, "job");
        match self {
            Self::Cancel => format!("Cancel {jobs}?"),
            Self::Retry | Self::Again => format!("Run {jobs} again?"),
            Self::Fail => format!("Mark {jobs} as failed?"),
            Self::Change(_) => format!("Change {jobs}?"),
        }
    }
}

/// What was done.
#[derive(Debug, Default)]
struct Done {
    at_once: usize,
    /// Nodes were asked to stop them.
    requested: usize,
    left: Vec<JobId>,
}

impl Done {
    fn sentence(&self, verb: Verb<'_>) -> String {
        let jobs = print::count(self.at_once, "job");
        let asked = match self.requested {
            0 => String::new(),
            jobs => format!("; {} in nodes' hands: the nodes were asked to stop", print::count(jobs, "job")),
        };
        match verb {
            Verb::Cancel => format!("{jobs} cancelled{asked}"),
            Verb::Retry | Verb::Again if self.at_once == 1 => format!("{jobs} runs again"),
            Verb::Retry | Verb::Again => format!("{jobs} run again"),
            Verb::Fail => format!("{jobs} marked as failed"),
            Verb::Change(_) => format!("{jobs} changed"),
        }
    }
}

/// Which jobs: `state=failed task=mail queue=q group=g fingerprint=…`.
#[derive(Debug, Default)]
struct Which {
    filter: Filter,
    fingerprint: Option<String>,
}

impl Which {
    fn read(verb: Verb<'_>, conditions: &[String]) -> Result<Self, Invalid> {
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
            which.filter.states = verb.usual();
        }
        match which.filter.states.iter().find(|state| !verb.may(**state)) {
            Some(state) => {
                let hint = if *state == JobState::Success && verb == Verb::Retry { " without --again" } else { "" };
                let problem = format!("jobs that are {state} cannot be {}{hint}", verb.participle());
                Err(Invalid::new("filter", problem))
            }
            None => Ok(which),
        }
    }

    async fn jobs(self, turnwise: &Turnwise, limit: u32) -> Result<Vec<Job>, Error> {
        let read = match self.fingerprint {
            // The filter knows no fingerprint: as many jobs as possible are read, and compared below.
            Some(_) => Filter::MAX_LIMIT,
            None => limit,
        };
        let mut jobs = turnwise.jobs(Filter { limit: Some(read), ..self.filter }).await?;
        jobs.retain(|job| self.fingerprint.is_none() || job.fingerprint == self.fingerprint);
        jobs.truncate(limit as usize);
        Ok(jobs)
    }
}

/// Does it to all jobs that a filter names, after showing them.
pub(crate) fn filtered(settings: &Settings, verb: Verb<'_>, call: &args::Chosen) -> Result<(), Failure> {
    let which = Which::read(verb, &call.filter)?;
    let limit = call.limit.as_deref().map(|text| crate::look::limit("limit", text)).transpose()?;
    let limit = limit.unwrap_or(Filter::MAX_LIMIT);
    block_on(async {
        let turnwise = settings.open().await?;
        let jobs = which.jobs(&turnwise, limit).await?;
        perform(&turnwise, verb, &jobs, call.dry_run, call.yes).await
    })
}

/// Cancels all jobs of a queue that no node has.
pub(crate) fn empty(settings: &Settings, call: &args::Empty) -> Result<(), Failure> {
    let filter = Filter {
        states: vec![JobState::Waiting, JobState::Stuck],
        queue: Some(call.name.clone()),
        limit: Some(Filter::MAX_LIMIT),
        ..Filter::default()
    };
    block_on(async {
        let turnwise = settings.open().await?;
        let jobs = turnwise.jobs(filter).await?;
        perform(&turnwise, Verb::Cancel, &jobs, call.dry_run, call.yes).await
    })
}

async fn perform(turnwise: &Turnwise, verb: Verb<'_>, jobs: &[Job], dry_run: bool, yes: bool) -> Result<(), Failure> {
    preview(verb, jobs)?;
    if jobs.is_empty() || dry_run || !(yes || terminal::agreed(&verb.question(jobs.len()))?) {
        return Ok(());
    }
    decide(turnwise, verb, jobs).await
}

fn preview(verb: Verb<'_>, jobs: &[Job]) -> Result<(), Failure> {
    let rows = jobs.iter().take(SAMPLE).map(|job| {
        let error = job.error.as_deref().map(print::brief).unwrap_or_default();
        [job.id.to_string(), job.state.to_string(), job.task.to_string(), job.group.to_string(), error]
    });
    if !jobs.is_empty() {
        print::table(["ID", "STATE", "TASK", "GROUP", "ERROR"], rows, false)?;
    }
    if jobs.len() > SAMPLE {
        print::lines([format!("… and {} more", jobs.len() - SAMPLE)])?;
    }
    Ok(print::lines([verb.preview(jobs.len())])?)
}

async fn decide(turnwise: &Turnwise, verb: Verb<'_>, jobs: &[Job]) -> Result<(), Failure> {
    let live = io::stderr().is_terminal();
    let mut done = Done::default();
    for (round, chunk) in jobs.chunks(STEP).enumerate() {
        let some = decide_chunk(turnwise, verb, chunk).await?;
        done.at_once += some.at_once;
        done.requested += some.requested;
        done.left.extend(some.left);
        if live {
            let progress = (round * STEP + chunk.len()) as u64;
            let progress = turnwise::story::Progress::new(progress, jobs.len() as u64, "jobs");
            // A closed stderr is no reason to stop.
            let _ = write!(io::stderr(), "\r{}\u{1b}[K", crate::logs::bar(&progress));
        }
    }
    if live {
        let _ = write!(io::stderr(), "\r\u{1b}[K");
    }
    // A job is left if another person was quicker, if it is pruned, or if an open transaction holds it. Decided about alone, it is
    // waited for, or the error gives the reason.
    let mut refused = 0;
    for id in std::mem::take(&mut done.left) {
        match decide_one(turnwise, verb, id).await {
            Ok(turnwise::Cancelled::AtOnce) => done.at_once += 1,
            Ok(turnwise::Cancelled::Requested) => done.requested += 1,
            Err(error @ (Error::Illegal(_) | Error::NoSuchJob(_) | Error::Conflict(_))) => {
                complain(&format!("{id}: {error}"));
                refused += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
    print::lines([done.sentence(verb)])?;
    if refused > 0 { Err(Failure::AlreadyPrinted) } else { Ok(()) }
}

async fn decide_chunk(turnwise: &Turnwise, verb: Verb<'_>, jobs: &[Job]) -> Result<Done, Error> {
    Ok(match verb {
        Verb::Cancel => {
            let stopped = turnwise.cancel_these(jobs).await?;
            Done { at_once: stopped.at_once, requested: stopped.requested, left: stopped.left }
        }
        Verb::Retry | Verb::Again => {
            let retried = match verb {
                Verb::Again => turnwise.rerun_these(jobs).await?,
                _ => turnwise.retry_these(jobs).await?,
            };
            Done { at_once: retried.again, requested: 0, left: retried.left }
        }
        Verb::Fail => {
            let failed = turnwise.fail_these(jobs).await?;
            Done { at_once: failed.failed, requested: 0, left: failed.left }
        }
        Verb::Change(change) => {
            let changed = turnwise.change_these(jobs, change).await?;
            Done { at_once: changed.changed, requested: 0, left: changed.left }
        }
    })
}

async fn decide_one(turnwise: &Turnwise, verb: Verb<'_>, id: JobId) -> Result<turnwise::Cancelled, Error> {
    match verb {
        Verb::Cancel => return turnwise.cancel(id).await,
        Verb::Retry => turnwise.retry(id).await?,
        Verb::Again => turnwise.rerun(id).await?,
        Verb::Fail => turnwise.fail(id).await?,
        Verb::Change(change) => turnwise.change(id, change).await?,
    }
    Ok(turnwise::Cancelled::AtOnce)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_names_what_it_does_not_know() {
        let change = JobChange::new();
        let read = |verb, text: &str| Which::read(verb, &[text.to_owned()]);
        let which = read(Verb::Retry, "state=failed,").unwrap_err().to_string();
        assert!(which.starts_with("state: "), "{which}");
        for (verb, text, part) in [
            (Verb::Retry, "priority=1", "filter: \"priority=1\" is not a condition"),
            (Verb::Retry, "failed", "filter: \"failed\" is not a condition"),
            (Verb::Retry, "state=success", "filter: jobs that are success cannot be retried without --again"),
            (Verb::Cancel, "state=failed", "filter: jobs that are failed cannot be cancelled"),
            (Verb::Fail, "state=waiting", "filter: jobs that are waiting cannot be failed by a person"),
            (Verb::Change(&change), "state=running", "filter: jobs that are running cannot be changed"),
        ] {
            let refusal = read(verb, text).unwrap_err().to_string();
            assert!(refusal.starts_with(part), "{refusal}");
        }
        let which = read(Verb::Retry, "task=mail group=acme fingerprint=abc").unwrap();
        assert_eq!(which.filter.states, [JobState::Failed]);
        assert_eq!((which.filter.task.as_deref(), which.fingerprint.as_deref()), (Some("mail"), Some("abc")));
        assert_eq!(read(Verb::Again, "task=mail").unwrap().filter.states, [JobState::Success]);
        assert_eq!(read(Verb::Fail, "task=mail").unwrap().filter.states, [JobState::Stuck]);
        assert_eq!(read(Verb::Cancel, "task=mail").unwrap().filter.states.len(), 4);
    }

    #[test]
    fn one_job_is_not_several() {
        assert_eq!(Verb::Retry.preview(1), "1 job would run again");
        assert_eq!(Verb::Retry.preview(0), "0 jobs would run again");
        let one = Done { at_once: 1, ..Done::default() };
        assert_eq!(one.sentence(Verb::Retry), "1 job runs again");
    }
}
