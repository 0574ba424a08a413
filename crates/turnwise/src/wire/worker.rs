//! What foreign workers and servers say to each other: docs/workers.md.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::Serialize;
use serde_json::value::RawValue;
use turnwise_core::{
    Fence, GroupName, Incarnation, Invalid, JobId, JobState, Json, NodeName, QueueName, Serves, TaskName, Timestamp,
    access::TokenId,
    story::{Level, MAX_STEP_NAME_BYTES},
    worker::{GRACE, LEASE, LEASES, MAX_SLOTS, MAX_TEXT_BYTES, PROTOCOLS, TaskFacts, Worker},
};
use turnwise_executor::workers::{
    End, EndAnswer, Given, Held, How, Left, NoteAnswer, Register, Registered, Said, SaidLine, Take, Taken,
};

use super::{
    Outcome, Progress, Unreadable,
    object::{self, count, list, text, texts},
};

/// Most ends, and most notes, in one request.
pub const MAX_ENDS: usize = 1_000;
/// Most jobs that are given at once.
pub const MAX_TAKEN: u64 = 1_000;
/// Most jobs that a worker may name as held.
const MAX_HELD: usize = 2 * MAX_SLOTS as usize;
/// The longest wait of a take.
pub const LONGEST_TAKE: Duration = Duration::from_secs(60);
/// The largest whole number that every language reads exactly.
const MOST_EXACT: u64 = (1 << 53) - 1;
/// Lines of one note.
const MAX_LINES: usize = 10_000;

fn missing(name: &'static str) -> Invalid {
    Invalid::new(name, "is missing")
}

fn at_most(name: &'static str, value: &RawValue, most: u64) -> Result<u64, Invalid> {
    match count(name, value)? {
        number if number <= most => Ok(number),
        number => Err(Invalid::new(name, format!("must be 0 to {most}, not {number}"))),
    }
}

fn number(name: &'static str, value: &RawValue, most: u32) -> Result<u32, Invalid> {
    at_most(name, value, most.into()).map(|number| u32::try_from(number).unwrap_or(most))
}

/// A job and a fence, as `id` and `fence`.
fn put_held(held: &mut (Option<JobId>, Option<Fence>), name: &'static str, value: &RawValue) -> Result<(), Invalid> {
    if name == "id" {
        held.0 = Some(text(name, value)?.parse()?);
    } else {
        let fence = at_most(name, value, MOST_EXACT)?;
        held.1 = Some(Fence(i64::try_from(fence).expect("it has 53 bits")));
    }
    Ok(())
}

fn held_of((id, fence): (Option<JobId>, Option<Fence>)) -> Result<Held, Invalid> {
    Ok((id.ok_or_else(|| missing("id"))?, fence.ok_or_else(|| missing("fence"))?))
}

/// A list of jobs with their fences, each job once.
fn read_held(name: &'static str, value: &RawValue) -> Result<BTreeSet<Held>, Unreadable> {
    let values = list(name, value)?;
    if values.len() > MAX_HELD {
        return Err(Invalid::new(name, format!("are {}, at most {MAX_HELD} are allowed", values.len())).into());
    }
    let (mut held, mut ids) = (BTreeSet::new(), BTreeSet::new());
    for (at, value) in values.into_iter().enumerate() {
        let mut one = (None, None);
        let read = object::read(value.get(), ["id", "fence"], |name, value| put_held(&mut one, name, value));
        let job = read.and_then(|()| Ok(held_of(one)?)).map_err(|error| error.within(at).within(name))?;
        if !ids.insert(job.0) {
            return Err(Unreadable::from(Invalid::new("id", "is named twice")).within(at).within(name));
        }
        held.insert(job);
    }
    Ok(held)
}

/// A worker that registers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RegisterWorker {
    /// All it says; the token is the server's to add.
    pub register: Register,
}

impl RegisterWorker {
    const NAMES: [&'static str; 10] =
        ["protocol", "worker", "name", "language", "client", "slots", "buffer", "queues", "lease_ms", "tasks"];

    /// Reads one JSON object; an error names the value that is missing, unknown or wrong. `host`: where it asks from, for people.
    pub fn read(json: &str, host: &str) -> Result<Self, Unreadable> {
        let (mut protocol, mut id, mut name, mut slots, mut tasks) = (None, None, None, None, None);
        let (mut language, mut client, mut buffer, mut queues, mut lease) =
            (String::new(), String::new(), 0, Serves::All, LEASE);
        object::read(json, Self::NAMES, |field, value| {
            match field {
                "protocol" => protocol = Some(number(field, value, u32::MAX)?),
                "worker" => {
                    let text = text(field, value)?;
                    let bad = |_| Invalid::new(field, format!("{text:?} is not a UUID"));
                    id = Some(Incarnation(text.parse().map_err(bad)?));
                }
                "name" => {
                    let text = text(field, value)?;
                    if text.len() > MAX_TEXT_BYTES {
                        let problem = format!("is {} bytes long, at most {MAX_TEXT_BYTES} are allowed", text.len());
                        return Err(Invalid::new(field, problem));
                    }
                    name = Some(NodeName::new(text)?);
                }
                "language" => language = text(field, value)?.into_owned(),
                "client" => client = text(field, value)?.into_owned(),
                "slots" => slots = Some(number(field, value, MAX_SLOTS)?),
                "buffer" => buffer = number(field, value, MAX_SLOTS)?,
                "queues" => {
                    let names = texts(field, value)?.into_iter().map(QueueName::new);
                    let plural = |invalid: Invalid| Invalid::new(field, invalid.problem);
                    queues = Serves::Only(names.collect::<Result<_, _>>().map_err(plural)?);
                }
                "lease_ms" => {
                    let span = Duration::from_millis(count(field, value)?);
                    if !LEASES.contains(&span) {
                        let (least, most) = (LEASES.start().as_millis(), LEASES.end().as_millis());
                        return Err(Invalid::new(
                            field,
                            format!("must be {least} to {most}, not {}", span.as_millis()),
                        ));
                    }
                    lease = span;
                }
                _ => tasks = Some(value),
            }
            Ok(())
        })?;
        let protocol = protocol.ok_or_else(|| missing("protocol"))?;
        // Before all else: of another version the rest may mean something else.
        if !PROTOCOLS.contains(&protocol) {
            let known: Vec<_> = PROTOCOLS.iter().map(u32::to_string).collect();
            let problem = format!("{protocol} is not known here; this server speaks {}", known.join(", "));
            return Err(Invalid::new("protocol", problem).into());
        }
        let slots = slots.ok_or_else(|| missing("slots"))?;
        if slots == 0 {
            return Err(Invalid::new("slots", format!("must be 1 to {MAX_SLOTS}, not 0")).into());
        }
        let tasks = read_tasks(tasks.ok_or_else(|| missing("tasks"))?)?;
        let worker = Worker { protocol, language, client, token: None, tasks };
        worker.check()?;
        let name = name.ok_or_else(|| missing("name"))?;
        let host = host.to_owned();
        Ok(Self { register: Register { id, name, host, slots, buffer, queues, lease, worker } })
    }

    /// The same, registered with this token.
    #[must_use]
    pub fn with_token(mut self, token: Option<TokenId>) -> Self {
        self.register.worker.token = token;
        self
    }
}

fn read_tasks(value: &RawValue) -> Result<BTreeMap<TaskName, TaskFacts>, Unreadable> {
    let problem = |_| Invalid::new("tasks", "must be an object of tasks by name");
    let tasks: BTreeMap<String, &RawValue> = serde_json::from_str(value.get()).map_err(problem)?;
    let mut read = BTreeMap::new();
    for (name, facts) in tasks {
        let within = |error: Unreadable| error.within(&name).within("tasks");
        let task = TaskName::new(&name).map_err(|invalid| Unreadable::from(invalid).within("tasks"))?;
        read.insert(task, read_facts(facts).map_err(within)?);
    }
    if read.is_empty() {
        return Err(Invalid::new("tasks", "must name at least one").into());
    }
    Ok(read)
}

fn read_facts(value: &RawValue) -> Result<TaskFacts, Unreadable> {
    let (mut retry, mut timeout, mut on_exhausted, mut secret) = (None, None, None, Vec::new());
    object::read(value.get(), ["retry", "timeout", "on_exhausted", "secret"], |field, value| {
        match field {
            "retry" => retry = Some(text(field, value)?),
            "timeout" => timeout = Some(text(field, value)?),
            "on_exhausted" => on_exhausted = Some(text(field, value)?),
            _ => secret = texts(field, value)?,
        }
        Ok(())
    })?;
    Ok(TaskFacts::read(retry.as_deref(), timeout.as_deref(), on_exhausted.as_deref(), &secret)?)
}

/// What a worker asks for when it takes jobs.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct TakeJobs {
    /// As it is asked.
    pub take: Take,
}

impl TakeJobs {
    /// Reads one JSON object; an error names the value that is missing, unknown or wrong.
    pub fn read(json: &str) -> Result<Self, Unreadable> {
        let mut take = Take { n: 1, ..Take::default() };
        let mut held = None;
        object::read(json, ["n", "wait_ms", "held"], |field, value| {
            match field {
                "n" => take.n = usize::try_from(count(field, value)?.min(MAX_TAKEN)).unwrap_or(usize::MAX),
                "wait_ms" => {
                    let most = u64::try_from(LONGEST_TAKE.as_millis()).unwrap_or(u64::MAX);
                    take.wait = Duration::from_millis(at_most(field, value, most)?);
                }
                _ => held = Some(value),
            }
            Ok(())
        })?;
        take.held = held.map_or_else(|| Ok(BTreeSet::new()), |held| read_held("held", held))?;
        Ok(Self { take })
    }
}

/// A worker's sign of life.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct BeatWorker {
    /// Jobs it runs at a time from now on; zero: it drains.
    pub slots: u32,
    /// What it holds.
    pub held: BTreeSet<Held>,
}

impl BeatWorker {
    /// Reads one JSON object; an error names the value that is missing, unknown or wrong.
    pub fn read(json: &str) -> Result<Self, Unreadable> {
        let (mut slots, mut held) = (None, None);
        object::read(json, ["slots", "held"], |field, value| {
            match field {
                "slots" => slots = Some(number(field, value, MAX_SLOTS)?),
                _ => held = Some(value),
            }
            Ok(())
        })?;
        let held = held.map_or_else(|| Ok(BTreeSet::new()), |held| read_held("held", held))?;
        Ok(Self { slots: slots.ok_or_else(|| missing("slots"))?, held })
    }
}

/// What runs say.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct NoteRuns {
    /// Each of another job.
    pub notes: Vec<Said>,
}

impl NoteRuns {
    /// Reads one JSON object; an error names the value that is missing, unknown or wrong.
    pub fn read(json: &str) -> Result<Self, Unreadable> {
        let mut ids = BTreeSet::new();
        let notes = read_all(json, "notes", |value| {
            let said = read_said(value)?;
            if ids.insert(said.job.0) { Ok(said) } else { Err(Invalid::new("id", "is named twice").into()) }
        })?;
        Ok(Self { notes })
    }
}

/// Reads `{"name": […]}`, at most [`MAX_ENDS`] values.
fn read_all<'a, T>(
    json: &'a str,
    name: &'static str,
    mut read: impl FnMut(&'a RawValue) -> Result<T, Unreadable>,
) -> Result<Vec<T>, Unreadable> {
    let mut all = None;
    object::read(json, [name], |field, value| {
        all = Some(list(field, value)?);
        Ok(())
    })?;
    let all = all.ok_or_else(|| missing(name))?;
    if all.len() > MAX_ENDS {
        return Err(Invalid::new(name, format!("are {}, at most {MAX_ENDS} are allowed", all.len())).into());
    }
    let read = |(at, value)| read(value).map_err(|error| error.within(at).within(name));
    all.into_iter().enumerate().map(read).collect()
}

fn read_said(value: &RawValue) -> Result<Said, Unreadable> {
    let (mut job, mut progress, mut lines, mut steps) = ((None, None), None, None, None);
    object::read(value.get(), ["id", "fence", "progress", "lines", "steps"], |field, value| {
        match field {
            "progress" => progress = Some(value),
            "lines" => lines = Some(list(field, value)?),
            "steps" => steps = Some(list(field, value)?),
            _ => put_held(&mut job, field, value)?,
        }
        Ok(())
    })?;
    let lines = lines.unwrap_or_default();
    if lines.len() > MAX_LINES {
        return Err(Invalid::new("lines", format!("are {}, at most {MAX_LINES} are allowed", lines.len())).into());
    }
    let progress = progress.map(|value| Progress::read(value.get())).transpose();
    let each = |(at, value)| read_line(value).map_err(|error| error.within(at).within("lines"));
    let step = |(at, value)| read_step(value).map_err(|error| error.within(at).within("steps"));
    Ok(Said {
        job: held_of(job)?,
        progress: progress.map_err(|error| error.within("progress"))?,
        lines: lines.into_iter().enumerate().map(each).collect::<Result<_, _>>()?,
        steps: steps.unwrap_or_default().into_iter().enumerate().map(step).collect::<Result<_, _>>()?,
    })
}

fn read_line(value: &RawValue) -> Result<SaidLine, Unreadable> {
    let (mut place, mut level, mut said, mut time) = (None, Level::Info, None, None);
    object::read(value.get(), ["number", "level", "text", "time"], |field, value| {
        match field {
            "number" => place = Some(number(field, value, i32::MAX.unsigned_abs())?),
            "level" => level = text(field, value)?.parse()?,
            "text" => said = Some(text(field, value)?.into_owned()),
            _ => {
                let moment = text(field, value)?.parse::<Timestamp>();
                time = Some(moment.map_err(|invalid| Invalid::new(field, invalid.problem))?);
            }
        }
        Ok(())
    })?;
    let number = place.ok_or_else(|| missing("number"))?;
    Ok(SaidLine { number, level, time, text: said.ok_or_else(|| missing("text"))? })
}

fn read_step(value: &RawValue) -> Result<(String, Json), Unreadable> {
    let (mut step, mut result) = (None, Json::null());
    object::read_with_nulls(value.get(), ["name", "result"], |field, value| {
        match field {
            "name" => {
                let text = text(field, value)?;
                if text.is_empty() || text.len() > MAX_STEP_NAME_BYTES || text.contains('\0') {
                    let problem = format!("must have 1 to {MAX_STEP_NAME_BYTES} bytes, none of them a NUL");
                    return Err(Invalid::new(field, problem));
                }
                step = Some(text.into_owned());
            }
            _ => result = Json::parse(field, value.get())?,
        }
        Ok(())
    })?;
    Ok((step.ok_or_else(|| missing("name"))?, result))
}

/// How runs ended.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SettleRuns {
    /// Each of another job.
    pub ends: Vec<End>,
}

impl SettleRuns {
    /// Reads one JSON object; an error names the value that is missing, unknown or wrong.
    pub fn read(json: &str) -> Result<Self, Unreadable> {
        let mut ids = BTreeSet::new();
        let ends = read_all(json, "ends", |value| {
            let end = read_end(value)?;
            if ids.insert(end.job.0) { Ok(end) } else { Err(Invalid::new("id", "is named twice").into()) }
        })?;
        Ok(Self { ends })
    }
}

fn read_end(value: &RawValue) -> Result<End, Unreadable> {
    let (mut job, mut ran, mut outcome) = ((None, None), None, None);
    object::read(value.get(), ["id", "fence", "ran_ms", "outcome"], |field, value| {
        match field {
            "ran_ms" => ran = Some(Duration::from_millis(count(field, value)?)),
            "outcome" => outcome = Some(value.get()),
            _ => put_held(&mut job, field, value)?,
        }
        Ok(())
    })?;
    let outcome = outcome.ok_or_else(|| missing("outcome"))?;
    let how = read_how(outcome).map_err(|error| error.within("outcome"))?;
    Ok(End { job: held_of(job)?, ran, how })
}

/// An [`Outcome`], or one of the two that only a worker may report.
fn read_how(json: &str) -> Result<How, Unreadable> {
    #[derive(serde::Deserialize)]
    struct Word<'a> {
        #[serde(borrow, default)]
        outcome: Option<std::borrow::Cow<'a, str>>,
    }
    let word = serde_json::from_str::<Word<'_>>(json).ok().and_then(|word| word.outcome);
    let alone = |how| object::read(json, ["outcome"], |_, _| Ok(())).map(|()| how);
    match word.as_deref() {
        Some("timed_out") => alone(How::TimedOut),
        Some("interrupted") => alone(How::Interrupted),
        Some(other) if !Outcome::WORDS.contains(&other) => {
            let words = Outcome::WORDS.join(", ");
            let problem = format!("must be one of {words}, timed_out, interrupted, not {other:?}");
            Err(Invalid::new("outcome", problem).into())
        }
        _ => Ok(How::Said(Outcome::read(json)?.to_outcome()?)),
    }
}

/// A worker that leaves.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LeaveWorker {
    /// What it has not begun.
    pub back: Vec<Held>,
    /// What it still runs; `None`: it does not say.
    pub held: Option<BTreeSet<Held>>,
}

impl LeaveWorker {
    /// Reads one JSON object; an error names the value that is missing, unknown or wrong.
    pub fn read(json: &str) -> Result<Self, Unreadable> {
        let (mut back, mut held) = (None, None);
        object::read(json, ["back", "held"], |field, value| {
            if field == "back" {
                back = Some(value)
            } else {
                held = Some(value)
            }
            Ok(())
        })?;
        let back = back.map_or_else(|| Ok(BTreeSet::new()), |back| read_held("back", back))?;
        let held = held.map(|held| read_held("held", held)).transpose()?;
        Ok(Self { back: back.into_iter().collect(), held })
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A worker that is registered.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct RegisteredWorker<'a> {
    /// This life of it, for all other verbs.
    pub worker: Incarnation,
    /// The version of the protocol that the server speaks to it.
    pub protocol: u32,
    /// How long it counts as alive after a request that it sent then was answered.
    pub lease_ms: u64,
    /// How often to beat.
    pub beat_ms: u64,
    /// How long a task has to stop before it is over time for good.
    pub grace_ms: u64,
    /// The queues it serves; `null`: all.
    pub queues: Option<&'a BTreeSet<QueueName>>,
    /// The tasks it is given jobs of.
    pub tasks: &'a BTreeSet<TaskName>,
}

impl<'a> RegisteredWorker<'a> {
    /// As the server registered it.
    pub fn new(registered: &'a Registered, protocol: u32) -> Self {
        Self {
            worker: registered.id,
            protocol,
            lease_ms: millis(registered.lease),
            beat_ms: millis(registered.lease / turnwise_core::worker::BEATS),
            grace_ms: millis(GRACE),
            queues: registered.queues.parts().0,
            tasks: &registered.tasks,
        }
    }
}

/// A job that a worker holds and is to stop.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ToStop {
    /// Which job.
    pub id: JobId,
    /// Of which assignment.
    pub fence: Fence,
    /// `cancelled`, `timed_out` or `gone`.
    pub reason: &'static str,
}

fn stops(stop: &[(Held, turnwise_core::worker::Stop)]) -> Vec<ToStop> {
    stop.iter().map(|((id, fence), why)| ToStop { id: *id, fence: *fence, reason: why.name() }).collect()
}

/// A job for a worker, with its secrets.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct JobToRun<'a> {
    /// Which job.
    pub id: JobId,
    /// Of this assignment: every word about the run names it.
    pub fence: Fence,
    /// What to run.
    pub task: &'a TaskName,
    /// Where it stood in line.
    pub queue: &'a QueueName,
    /// Whose turn it was.
    pub group: &'a GroupName,
    /// What the task gets, exactly.
    pub args: &'a Json,
    /// The number of this run, from 1.
    pub attempt: u32,
    /// How long the run may take; left out: as long as it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// A limit counts it: it is stopped when the worker may be taken for lost.
    pub limited: bool,
    /// Results of steps that earlier runs have finished, by name.
    pub steps: BTreeMap<&'a str, &'a Json>,
    /// The trace that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<&'a str>,
    /// What other systems say about the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<&'a str>,
}

impl<'a> JobToRun<'a> {
    fn new(given: &'a Given) -> Self {
        let job = &given.job;
        let trace = job.terms.trace();
        Self {
            id: job.id,
            fence: job.fence,
            task: &job.task,
            queue: &job.queue,
            group: &job.group,
            args: &job.args,
            attempt: job.counts.attempt + 1,
            timeout_ms: given.timeout.map(millis),
            limited: job.limited,
            steps: given.steps.iter().map(|step| (step.name.as_str(), &step.result)).collect(),
            traceparent: trace.map(|trace| trace.traceparent()),
            tracestate: trace.and_then(|trace| trace.tracestate()),
        }
    }
}

/// What a worker is told when it takes.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct TakenJobs<'a> {
    /// To run.
    pub jobs: Vec<JobToRun<'a>>,
    /// To stop.
    pub stop: Vec<ToStop>,
}

impl<'a> TakenJobs<'a> {
    /// What the server gives.
    pub fn new(taken: &'a Taken) -> Self {
        Self { jobs: taken.jobs.iter().map(JobToRun::new).collect(), stop: stops(&taken.stop) }
    }
}

/// The answer to a beat.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct BeatenWorker {
    /// How long it counts as alive from when it sent the beat.
    pub lease_ms: u64,
    /// To stop.
    pub stop: Vec<ToStop>,
}

impl BeatenWorker {
    /// What the server says.
    pub fn new(lease: Duration, stop: &[(Held, turnwise_core::worker::Stop)]) -> Self {
        Self { lease_ms: millis(lease), stop: stops(stop) }
    }
}

/// What became of one end or note.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Answered<'a> {
    /// Which job.
    pub id: JobId,
    /// Of which assignment.
    pub fence: Fence,
    /// In a word.
    pub answer: &'static str,
    /// The job's state, where an end is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    /// What is wrong with an end that cannot be stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<&'a str>,
}

/// What became of ends.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct EndsAnswered<'a> {
    /// In their order.
    pub ends: Vec<Answered<'a>>,
}

impl<'a> EndsAnswered<'a> {
    /// The answers to these.
    pub fn new(jobs: &[Held], answers: &'a [EndAnswer]) -> Self {
        let one = |((id, fence), answer): (&Held, &'a EndAnswer)| {
            let (word, state, detail) = match answer {
                EndAnswer::Applied(state) => ("applied", Some(*state), None),
                EndAnswer::Stale => ("stale", None, None),
                EndAnswer::Gone => ("gone", None, None),
                EndAnswer::Invalid(problem) => ("invalid", None, Some(problem.as_str())),
                EndAnswer::Locked => ("locked", None, None),
            };
            Answered { id: *id, fence: *fence, answer: word, state, detail }
        };
        Self { ends: jobs.iter().zip(answers).map(one).collect() }
    }
}

/// What became of notes.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct NotesAnswered {
    /// In their order.
    pub notes: Vec<Answered<'static>>,
}

impl NotesAnswered {
    /// The answers to these.
    pub fn new(jobs: &[Held], answers: &[NoteAnswer]) -> Self {
        let one = |((id, fence), answer): (&Held, &NoteAnswer)| {
            let answer = match answer {
                NoteAnswer::Applied => "applied",
                NoteAnswer::Stale => "stale",
                NoteAnswer::Locked => "locked",
            };
            Answered { id: *id, fence: *fence, answer, state: None, detail: None }
        };
        Self { notes: jobs.iter().zip(answers).map(one).collect() }
    }
}

/// What leaving came to.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct WorkerLeft {
    /// Whether it is gone.
    pub left: bool,
    /// How many jobs are still in its hands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<usize>,
}

impl WorkerLeft {
    /// The answer.
    pub fn new(left: Left) -> Self {
        match left {
            Left::Gone => Self { left: true, held: None },
            Left::Holds(held) => Self { left: false, held: Some(held) },
        }
    }
}
