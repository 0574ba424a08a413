//! A person's decision about all jobs that a filter names: they are shown, the person agrees, and it is done.

use std::{
    fmt::Display,
    io::{self, IsTerminal, Write},
};

use turnwise::{
    Decision, Error, Filter, Invalid, Job, JobId, JobState, ListFilter, QueueName, Timestamp, Turnwise,
    filter::JobFilter,
};
use turnwise_client::Ask;

use crate::{
    args,
    decide::{Came, Refused, Wanted, decide_one},
    error::{Failure, complain},
    look, names,
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

/// Which jobs.
#[derive(Debug, Default)]
struct Which {
    words: JobFilter,
    /// In one of these states, of those that the words mean; empty: in any.
    states: Vec<JobState>,
    queue: Option<QueueName>,
}

impl Which {
    fn read(verb: Verb<'_>, conditions: &[String]) -> Result<Self, Invalid> {
        let words = look::words(conditions)?;
        let Some(named) = words.states() else {
            return Ok(Self { states: verb.decision().usual(), words, queue: None });
        };
        match named.iter().find(|state| !verb.decision().may(**state)) {
            Some(state) => {
                let hint = if *state == JobState::Success && verb == Verb::Retry { " without --again" } else { "" };
                let problem = format!("jobs that are {state} cannot be {}{hint}", verb.participle());
                Err(Invalid::new("filter", problem))
            }
            None => Ok(Self { words, ..Self::default() }),
        }
    }

    /// The jobs; and in a database as they were read, so that they are decided about only if they are still so.
    async fn jobs(self, place: &Place, limit: u32) -> Result<Found, Failure> {
        let Self { words, states, queue } = self;
        match place {
            Place::Database(turnwise) => {
                let now = if words.is_relative() { turnwise.now().await? } else { Timestamp::MIN };
                let queues = queue.map(|name| [name].into());
                let list = ListFilter { states: states.into_iter().collect(), queues, ..ListFilter::default() };
                let (jobs, _) = look::found(turnwise, &words.at(now).within(list), limit, true).await?;
                Ok(Found::Read(jobs))
            }
            Place::Server(server) => {
                let states: Vec<_> = states.iter().map(ToString::to_string).collect();
                let ask = Ask::get("/jobs")
                    .with_some("state", (!states.is_empty()).then(|| states.join(",")))
                    .with_some("queue", queue)
                    .with_some("filter", (!words.is_empty()).then_some(words));
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
    let which = Which { words: JobFilter::default(), states, queue: Some(QueueName::new(&call.name)?) };
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
        for (verb, text, part) in [
            (
                Verb::Retry,
                "priorty=1",
                "filter: at character 1: there is no field \"priorty\"; did you mean \"priority\"?",
            ),
            (Verb::Retry, "failed", "filter: at character 1: \"failed\" is not a condition"),
            (Verb::Retry, "state=failed,", "filter: at character 14: a value was expected"),
            (Verb::Retry, "state=success", "filter: jobs that are success cannot be retried without --again"),
            (Verb::Cancel, "state=failed", "filter: jobs that are failed cannot be cancelled"),
            (Verb::Fail, "state=waiting", "filter: jobs that are waiting cannot be failed by a person"),
            (Verb::Change(&change), "state=running", "filter: jobs that are running cannot be changed"),
        ] {
            let refusal = read(verb, text).unwrap_err().to_string();
            assert!(refusal.starts_with(part), "{refusal}");
        }
        let which = Which::read(Verb::Retry, &["task=mail".to_owned(), "group=acme error~timeout".to_owned()]).unwrap();
        assert_eq!(which.states, [JobState::Failed]);
        assert_eq!(which.words.to_string(), "task:mail group:acme error~timeout", "in one argument or in several");
        assert_eq!(read(Verb::Retry, "state=stuck,failed").unwrap().states, [], "as the filter names them");
        assert_eq!(read(Verb::Again, "task=mail").unwrap().states, [JobState::Success]);
        assert_eq!(read(Verb::Fail, "task=mail").unwrap().states, [JobState::Stuck]);
        assert_eq!(read(Verb::Cancel, "task=mail").unwrap().states.len(), 4);
    }

    #[test]
    fn one_job_is_not_several() {
        assert_eq!(Verb::Retry.preview(1), "1 job would run again");
        assert_eq!(Verb::Retry.preview(0), "0 jobs would run again");
        let one = Done { at_once: 1, ..Done::default() };
        assert_eq!(one.sentence(Verb::Retry), "1 job runs again");
    }
}
