//! A person's decision about all jobs that a filter names: they are shown, the person agrees, and it is done.

use std::{
    fmt::Display,
    io::{self, IsTerminal, Write},
};

use turnwise::{Decision, Error, Filter, Invalid, Job, JobId, JobState, Turnwise};
use turnwise_client::Ask;

use crate::{
    args,
    decide::{Came, Refused, Wanted, decide_one},
    error::{Failure, complain},
    look::check_names,
    names,
    place::{self, Place},
    print,
    serve::block_on,
    settings::Settings,
    terminal, view,
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
    Change(&'a Wanted),
}

impl Verb<'_> {
    fn decision(self) -> Decision {
        match self {
            Self::Cancel => Decision::Cancel,
            Self::Retry => Decision::Retry,
            Self::Again => Decision::Rerun,
            Self::Fail => Decision::Fail,
            Self::Change(_) => Decision::Change,
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
        let Filter { queue, group, task, .. } = &which.filter;
        check_names(queue.as_deref(), group.as_deref(), task.as_deref())?;
        if which.filter.states.is_empty() {
            which.filter.states = verb.decision().usual();
        }
        match which.filter.states.iter().find(|state| !verb.decision().may(**state)) {
            Some(state) => {
                let hint = if *state == JobState::Success && verb == Verb::Retry { " without --again" } else { "" };
                let problem = format!("jobs that are {state} cannot be {}{hint}", verb.participle());
                Err(Invalid::new("filter", problem))
            }
            None => Ok(which),
        }
    }

    /// The jobs; and in a database as they were read, so that they are decided about only if they are still so.
    async fn jobs(self, place: &Place, limit: u32) -> Result<Found, Failure> {
        let Self { filter, fingerprint } = self;
        match place {
            Place::Database(turnwise) => {
                let read = match fingerprint {
                    // The filter knows no fingerprint: as many jobs as possible are read, and compared below.
                    Some(_) => Filter::MAX_LIMIT,
                    None => limit,
                };
                let mut jobs = turnwise.jobs(Filter { limit: Some(read), ..filter }).await?;
                jobs.retain(|job| fingerprint.is_none() || job.fingerprint == fingerprint);
                jobs.truncate(limit as usize);
                Ok(Found::Read(jobs))
            }
            Place::Server(server) => {
                let states: Vec<_> = filter.states.iter().map(ToString::to_string).collect();
                let ask = Ask::get("/jobs")
                    .with("state", states.join(","))
                    .with_some("queue", filter.queue)
                    .with_some("group", filter.group)
                    .with_some("task", filter.task)
                    .with_some("fingerprint", fingerprint);
                let listed = server.all_by_cursor(&ask, "jobs", limit).await?;
                Ok(Found::Listed(listed.items.iter().map(|job| place::read(job)).collect::<Result<_, _>>()?))
            }
        }
    }
}

/// The jobs that a filter names.
enum Found {
    Read(Vec<Job>),
    Listed(Vec<view::Job>),
}

/// What a person sees of a job before it is decided about.
type Row = [String; 5];

impl Found {
    fn len(&self) -> usize {
        match self {
            Self::Read(jobs) => jobs.len(),
            Self::Listed(jobs) => jobs.len(),
        }
    }

    fn sample(&self) -> Vec<Row> {
        let row = |id: &dyn Display, state: JobState, task: &dyn Display, group: &dyn Display, error: Option<&str>| {
            // An error that a job got over is not among what is shown, as in every listing.
            let error = error.filter(|_| state != JobState::Success).map(print::brief).unwrap_or_default();
            [id.to_string(), state.to_string(), task.to_string(), group.to_string(), error]
        };
        match self {
            Self::Read(jobs) => {
                let row = |job: &Job| row(&job.id, job.state, &job.task, &job.group, job.error.as_deref());
                jobs.iter().take(SAMPLE).map(row).collect()
            }
            Self::Listed(jobs) => {
                let row = |job: &view::Job| row(&job.id, job.state, &job.task, &job.group, job.error.as_deref());
                jobs.iter().take(SAMPLE).map(row).collect()
            }
        }
    }
}

/// Does it to all jobs that a filter names, after showing them.
pub(crate) fn filtered(settings: &Settings, verb: Verb<'_>, call: &args::Chosen) -> Result<(), Failure> {
    let which = Which::read(verb, &call.filter)?;
    let limit = call.limit.as_deref().map(|text| crate::look::limit("limit", text)).transpose()?;
    let limit = limit.unwrap_or(Filter::MAX_LIMIT);
    block_on(async {
        let place = Place::find(settings).await?;
        let jobs = which.jobs(&place, limit).await?;
        perform(&place, verb, &jobs, call.dry_run, call.yes).await
    })
}

/// Cancels all jobs of a queue that no node has.
pub(crate) fn empty(settings: &Settings, call: &args::Empty) -> Result<(), Failure> {
    let states = JobState::ALL.into_iter().filter(|state| state.at_rest()).collect();
    let filter = Filter { states, queue: Some(call.name.clone()), ..Filter::default() };
    let which = Which { filter, fingerprint: None };
    block_on(async {
        let place = Place::find(settings).await?;
        let jobs = which.jobs(&place, Filter::MAX_LIMIT).await?;
        if jobs.len() == 0 {
            names::expect(&place, names::Kind::Queue, &call.name).await?;
        }
        perform(&place, Verb::Cancel, &jobs, call.dry_run, call.yes).await
    })
}

async fn perform(place: &Place, verb: Verb<'_>, jobs: &Found, dry_run: bool, yes: bool) -> Result<(), Failure> {
    preview(verb, jobs)?;
    if jobs.len() == 0 || dry_run || !(yes || terminal::agreed(&verb.question(jobs.len()))?) {
        return Ok(());
    }
    decide(place, verb, jobs).await
}

fn preview(verb: Verb<'_>, jobs: &Found) -> Result<(), Failure> {
    if jobs.len() > 0 {
        print::table(["ID", "STATE", "TASK", "GROUP", "ERROR"], jobs.sample(), false)?;
    }
    if jobs.len() > SAMPLE {
        print::lines([format!("… and {} more", jobs.len() - SAMPLE)])?;
    }
    Ok(print::lines([verb.preview(jobs.len())])?)
}

/// Draws how far it has come, where there is a terminal.
struct Bar {
    live: bool,
    total: usize,
}

impl Bar {
    fn draw(&self, done: usize) {
        if self.live {
            let progress = view::Progress { done: done as u64, total: self.total as u64, text: "jobs".to_owned() };
            // A closed stderr is no reason to stop.
            let _ = write!(io::stderr(), "\r{}\u{1b}[K", crate::logs::bar(&progress));
        }
    }

    fn clear(&self) {
        if self.live {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}

async fn decide(place: &Place, verb: Verb<'_>, jobs: &Found) -> Result<(), Failure> {
    let bar = Bar { live: io::stderr().is_terminal(), total: jobs.len() };
    let mut done = Done::default();
    match (place, jobs) {
        (Place::Database(turnwise), Found::Read(jobs)) => {
            for (round, chunk) in jobs.chunks(STEP).enumerate() {
                let some = decide_chunk(turnwise, verb, chunk).await?;
                done.at_once += some.at_once;
                done.requested += some.requested;
                done.left.extend(some.left);
                bar.draw(round * STEP + chunk.len());
            }
        }
        (_, Found::Listed(jobs)) => {
            for job in jobs {
                done.left.push(job.id.parse()?);
            }
        }
        (Place::Server(_), Found::Read(_)) => {}
    }
    // A job is left if another person was quicker, if it is pruned, or if an open transaction holds it. Decided about alone, it is
    // waited for, or the error gives the reason. A server is asked about each job by itself.
    let mut refused = 0;
    for (at, id) in std::mem::take(&mut done.left).into_iter().enumerate() {
        match decide_one(place, verb, id).await {
            Ok(Came::AtOnce) => done.at_once += 1,
            Ok(Came::Requested) => done.requested += 1,
            Err(Refused::Job(text)) => {
                complain(&text);
                refused += 1;
            }
            Err(Refused::All(failure)) => return Err(failure),
        }
        if at % STEP == STEP - 1 && matches!(jobs, Found::Listed(_)) {
            bar.draw(at + 1);
        }
    }
    bar.clear();
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
            let changed = turnwise.change_these(jobs, &change.change).await?;
            Done { at_once: changed.changed, requested: 0, left: changed.left }
        }
    })
}

#[cfg(test)]
mod tests {
    use turnwise::JobChange;

    use super::*;

    #[test]
    fn a_filter_names_what_it_does_not_know() {
        let change = Wanted { change: JobChange::new(), json: String::new() };
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
