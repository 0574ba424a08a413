//! Submitting: one job from the command line, or many from stdin, all or none.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fs::File,
    io::{self, BufRead, Read},
    time::Duration,
};

use serde::Deserialize;
use serde_json::value::RawValue;
use turnwise::{Error, Invalid, JobId, JobRequest, TraceContext, wire};
use turnwise_client::Ask;
use turnwise_core::json::MAX_JSON_BYTES;

use crate::{
    args,
    error::{Failure, judge, remark},
    known, look,
    place::{self, Place, Server, read},
    print,
    serve::{block_on, until_interrupted},
    settings::Settings,
    view,
};

/// The pause before a server that is out of reach is asked again for the end of a job.
const AWAY: Duration = Duration::from_secs(1);

/// Longest line of stdin: room for the largest arguments and then some, so that a file without line breaks is refused
/// before it fills the memory.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

pub(crate) fn enqueue(settings: &Settings, call: &args::Enqueue) -> Result<(), Failure> {
    // All input is read before the database is touched: what is refused leaves no trace.
    let mut input = Input::default();
    let requests = if call.stdin {
        // A server gets the lines as they are.
        input.keep = settings.server()?.is_some();
        read_lines(io::stdin().lock(), &mut input)?
    } else {
        let args = arguments(call.args.as_deref())?;
        let mut written = typed(call, args.as_deref());
        input.note(&written);
        let after = written.after.iter().map(|id| look::id(settings, id)).collect::<Result<Vec<JobId>, _>>();
        let after = after.map_err(|failure| failure.about("after"))?;
        // A server gets whole ids.
        written.after = after.iter().map(ToString::to_string).collect();
        let request = written.to_request()?.after_jobs(after);
        input.lines.push(serde_json::to_string(&written).map_err(|error| Failure::Input(error.to_string()))?);
        vec![request]
    };
    if requests.is_empty() {
        // Nothing to store: no database is made for it.
        return Ok(());
    }
    let trace = surrounding_trace();
    let requests: Vec<_> = match &trace {
        // What a request says itself comes first.
        Some(trace) => requests.into_iter().map(|request| request.trace_unless_given(trace.clone())).collect(),
        None => requests,
    };
    // Chosen anew for each command.
    let key = requests.first().map(|first| first.job_id()).transpose()?.map(|id| id.to_string());
    block_on(async {
        let place = Place::to_submit(settings).await?;
        let submitted = match &place {
            Place::Database(turnwise) => turnwise.submit_each(requests).await?.iter().map(Submitted::of).collect(),
            Place::Server(server) => sent(server, &input.lines, key, trace.as_ref()).await?,
        };
        let told = async {
            tell(&submitted, call.wait)?;
            if submitted.iter().any(|reply| reply.new) {
                known::warn(&place, &input.tasks).await;
            }
            Ok(())
        };
        if !call.wait {
            return told.await;
        }
        // From before the ids are shown: who has read one may interrupt the rest.
        until_interrupted(async {
            told.await?;
            wait(&place, &submitted).await
        })
        .await
    })
}

/// The trace that this command is called in: the program of a command task gets its job's. As with the headers of a request, what is not
/// one counts as none.
fn surrounding_trace() -> Option<TraceContext> {
    let (parent, state) = (std::env::var("TRACEPARENT").ok()?, std::env::var("TRACESTATE").ok());
    TraceContext::from_headers(&[&parent], state.as_deref())
}

/// What a submit came to: a [`wire::Submitted`].
#[derive(Debug, Deserialize)]
struct Submitted {
    id: String,
    new: bool,
    duplicate: Option<String>,
}

impl Submitted {
    fn of(submitted: &turnwise::Submitted) -> Self {
        let wire::Submitted { id, new, duplicate, .. } = wire::Submitted::new(submitted);
        Self { id: id.to_string(), new, duplicate: duplicate.map(str::to_owned) }
    }
}

/// What a server takes in one call: all of it is stored or nothing.
const SENT_JOBS: usize = 10_000;
const SENT_BYTES: usize = 32 * 1024 * 1024;

/// Sends the jobs under a key of their own: if the connection breaks they are sent again, and stored once.
async fn sent(
    server: &Server,
    lines: &[String],
    key: Option<String>,
    trace: Option<&TraceContext>,
) -> Result<Vec<Submitted>, Failure> {
    #[derive(Deserialize)]
    struct All {
        jobs: Vec<Submitted>,
    }
    let bytes: usize = lines.iter().map(|line| line.len() + 1).sum();
    if lines.len() > SENT_JOBS || bytes > SENT_BYTES {
        let problem = format!(
            "has {} jobs of {bytes} bytes; a server stores at most {SENT_JOBS} jobs or {SENT_BYTES} bytes at once: split the input",
            lines.len()
        );
        return Err(Invalid::new("stdin", problem).into());
    }
    // The values were checked here: what a server still refuses, it refuses because of what is stored there.
    let refused = |error: turnwise_client::Error| match Failure::from(error) {
        Failure::Input(text) => Failure::Other(text),
        other => other,
    };
    let Some(key) = key else { return Ok(Vec::new()) };
    let mut ask = Ask::post("/jobs/batch").json(format!("{{\"jobs\":[{}]}}", lines.join(","))).once(key);
    if let Some(trace) = trace {
        ask = ask.traced(trace.traceparent(), trace.tracestate());
    }
    Ok(read::<All>(&server.try_ask(ask).await.map_err(refused)?)?.jobs)
}

/// The arguments as they were typed, or from where the caller says that they are.
pub(crate) fn arguments(typed: Option<&str>) -> Result<Option<Cow<'_, str>>, Failure> {
    let bad = |from: &str, error: io::Error| Failure::Input(format!("args: {from}: {error}"));
    // One byte more than allowed, so that longer ones are refused, and not read to their end.
    let limit = u64::try_from(MAX_JSON_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let read = |from: &str, input: &mut dyn Read| {
        let mut text = String::new();
        input.take(limit).read_to_string(&mut text).map_err(|error| bad(from, error))?;
        Ok(Some(Cow::Owned(text)))
    };
    // Neither is JSON.
    match typed.map(|typed| (typed, typed.strip_prefix('@'))) {
        None => Ok(None),
        Some((_, Some(""))) => Err(Invalid::new("args", "@ names no file; write @FILE, or - for stdin").into()),
        Some((_, Some(path))) => read(path, &mut File::open(path).map_err(|error| bad(path, error))?),
        Some(("-", None)) => read("stdin", &mut io::stdin().lock()),
        Some((typed, None)) => Ok(Some(Cow::Borrowed(typed))),
    }
}

/// Waits for the end of all of them, and prints their results in their order.
async fn wait(place: &Place, submitted: &[Submitted]) -> Result<(), Failure> {
    let mut ended = Vec::with_capacity(submitted.len());
    for Submitted { id, .. } in submitted {
        let job = end(place, id).await?;
        print::lines([job.result.as_deref().map_or("null", RawValue::get)])?;
        ended.push(job);
    }
    judge(&ended)
}

/// The job when it has ended.
async fn end(place: &Place, id: &str) -> Result<view::Job, Failure> {
    let gone = || {
        Failure::Other(format!(
            "job {id} has ended, and nothing is kept of jobs that end so; turnwise installation set changes that"
        ))
    };
    match place {
        Place::Database(turnwise) => {
            let job = turnwise.wait(id.parse()?).await.map_err(|error| match error {
                Error::NoSuchJob(_) => gone(),
                other => other.into(),
            })?;
            let secrets = turnwise.secrets().await?;
            read(&place::shown(&wire::Job::new(&job, &Default::default(), &[], [], &secrets))?)
        }
        Place::Server(server) => loop {
            let asked = server.try_ask(Ask::get(format!("/jobs/{id}")).with("wait", "30s")).await;
            let job: view::Job = match asked {
                Ok(job) => read(&job)?,
                Err(turnwise_client::Error::Problem(problem)) if problem.word() == "not-found" => return Err(gone()),
                // As in a database that cannot be reached: the job goes on meanwhile.
                Err(turnwise_client::Error::Problem(problem)) if problem.word() == "unavailable" => {
                    tokio::time::sleep(AWAY).await;
                    continue;
                }
                Err(turnwise_client::Error::Unreachable(_)) => {
                    tokio::time::sleep(AWAY).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if job.state.finished() {
                return Ok(job);
            }
        },
    }
}

/// The ids, and for a person which of them are other jobs'. Where results are on stdout, the ids are not.
fn tell(submitted: &[Submitted], to_stderr: bool) -> Result<(), Failure> {
    for (id, duplicate) in submitted.iter().filter_map(|reply| Some((&reply.id, reply.duplicate.as_deref()?))) {
        remark(&match duplicate {
            "kept" => format!("job {id} holds the unique key; nothing was added"),
            "replaced" => format!("job {id} holds the unique key; its arguments were replaced"),
            "too_late" => format!("job {id} holds the unique key and has begun; it keeps its arguments"),
            _ => format!("job {id} of another task holds the unique key; it keeps its arguments"),
        });
    }
    if to_stderr {
        submitted.iter().for_each(|reply| remark(&format!("job {}", reply.id)));
        return Ok(());
    }
    Ok(print::lines(submitted.iter().map(|reply| &reply.id))?)
}

/// What is kept of the jobs that were read, beside the jobs themselves.
#[derive(Debug, Default)]
struct Input {
    /// The tasks that they run, or may go on as.
    tasks: BTreeSet<String>,
    /// The jobs as they were written, if they are to be sent.
    lines: Vec<String>,
    keep: bool,
}

impl Input {
    fn note(&mut self, written: &wire::Request<'_>) {
        for task in written.task.iter().chain(&written.on_exhausted).chain(&written.next) {
            // A million lines have few tasks.
            if !self.tasks.contains(&**task) {
                self.tasks.insert(task.to_string());
            }
        }
    }
}

fn typed<'a>(call: &args::Enqueue, args: Option<&'a str>) -> wire::Request<'a> {
    let text = |value: &'_ Option<String>| value.clone().map(Cow::Owned);
    wire::Request {
        task: text(&call.task),
        args,
        queue: text(&call.queue),
        group: text(&call.group),
        key: text(&call.key),
        priority: text(&call.priority),
        at: text(&call.at),
        r#in: text(&call.r#in),
        retry: text(&call.retry),
        timeout: text(&call.timeout),
        expires: text(&call.expires),
        unique: text(&call.unique),
        unique_by_args: call.unique_by_args,
        unique_scope: text(&call.unique_scope),
        unique_for: text(&call.unique_for),
        on_duplicate: text(&call.on_duplicate),
        id: None,
        r#as: None,
        after: call.after.clone(),
        on_failure: text(&call.on_failure),
        on_exhausted: text(&call.on_exhausted),
        next: text(&call.next),
        traceparent: None,
        tracestate: None,
    }
}

/// One JSON object a line; empty lines are skipped. The error names the line.
fn read_lines(mut input: impl BufRead, kept: &mut Input) -> Result<Vec<JobRequest>, Failure> {
    let wrong = |number: u64, problem: String| Failure::Input(format!("line {number}: {problem}"));
    let (mut batch, mut numbers) = (wire::Batch::default(), Vec::new());
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        // One byte more than allowed, to distinguish a line of exactly the limit from a longer one.
        let limit = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX).saturating_add(1);
        let length = input.by_ref().take(limit).read_until(b'\n', &mut line);
        if length.map_err(|error| Failure::Other(format!("reading stdin: {error}")))? == 0 {
            break;
        }
        if let Some(request) = read_line(&line).map_err(|problem| wrong(number, problem))? {
            batch.push(&request).map_err(|invalid| wrong(number, invalid.to_string()))?;
            numbers.push(number);
            kept.note(&request);
            if kept.keep {
                // It was read as one: it is UTF-8.
                kept.lines.push(String::from_utf8_lossy(&line).trim().to_owned());
            }
        }
    }
    batch.link().map_err(|misfit| wrong(numbers.get(misfit.at).copied().unwrap_or_default(), misfit.problem))
}

fn read_line(line: &[u8]) -> Result<Option<wire::Request<'_>>, String> {
    if line.len() > MAX_LINE_BYTES {
        return Err(format!("args: the line is longer than {MAX_LINE_BYTES} bytes"));
    }
    let line =
        std::str::from_utf8(line).map_err(|error| format!("is not UTF-8 from byte {}", error.valid_up_to() + 1))?;
    if line.trim().is_empty() {
        return Ok(None);
    }
    wire::Request::read(line).map(Some).map_err(|unreadable| unreadable.to_string())
}

#[cfg(test)]
mod tests {
    use turnwise::Timestamp;

    use super::*;

    fn read(input: impl BufRead) -> Result<Vec<JobRequest>, Failure> {
        read_lines(input, &mut Input::default())
    }

    fn refusal(lines: &str) -> String {
        match read(lines.as_bytes()) {
            Err(Failure::Input(text)) => text,
            other => panic!("not refused: {other:?}"),
        }
    }

    #[test]
    fn a_line_says_all_that_a_command_can() {
        let line = r#"{"task":"t","args":{"b":1.50,"a":[ ]},"queue":"q","group":"g","key":"k","priority":"low","at":"2030-01-31T08:30:00Z","retry":"durations:1s,2s"}"#;
        let mut requests = read(format!("\n{line}\n \r\n{line}").as_bytes()).unwrap();
        assert_eq!(requests.len(), 2);
        let job = requests.remove(0).into_job(Timestamp::MIN).unwrap();
        assert_eq!(job.args.as_str(), r#"{"b":1.50,"a":[ ]}"#);
        assert_eq!((job.task.as_str(), job.queue.as_str(), job.group.as_str()), ("t", "q", "g"));
        assert_eq!(job.key.as_ref().map(|key| key.as_str()), Some("k"));
        assert_eq!((job.priority.get(), job.retry.unwrap().to_string().as_str()), (8, "durations:1s,2s"));
        assert_eq!(job.due.unwrap().to_string(), "2030-01-31T08:30:00.000000Z");
    }

    #[test]
    fn lines_name_one_another_and_a_star_is_all_others() {
        let lines = r#"{"task":"join","after":["a","b"],"on_failure":"run"}
            {"task":"t","as":"a"}
            {"task":"t","as":"b","after":"a"}
            {"task":"end","after":"*"}"#;
        let jobs: Vec<_> =
            read(lines.as_bytes()).unwrap().into_iter().map(|job| job.into_job(Timestamp::MIN).unwrap()).collect();
        let ids = |of: &[usize]| {
            let mut ids: Vec<_> = of.iter().map(|&at| jobs[at].id).collect();
            ids.sort_unstable();
            ids
        };
        let after: Vec<_> = jobs.iter().map(|job| job.after.ids().to_vec()).collect();
        assert_eq!(after, [ids(&[1, 2]), ids(&[]), ids(&[1]), ids(&[0, 1, 2])]);
        assert_eq!(jobs[0].after.on_failure().map(|what| what.name()), Some("run"));
        for (line, problem) in [
            (
                r#"{"task":"t","after":["c"]}"#,
                r#"line 1: after: "c" is neither a job id nor the name (as) of another one"#,
            ),
            (r#"{"task":"t","after":[7]}"#, "line 1: after: must be an array of texts, not one of other values"),
            (r#"{"task":"t","as":"*"}"#, r#"line 1: as: "*" means something else in after"#),
            (
                "{\"task\":\"t\",\"as\":\"a\"}\n{\"task\":\"t\",\"as\":\"a\"}",
                "line 2: as: \"a\" is the name of another one already",
            ),
            (r#"{"task":"t","on_failure":"run"}"#, "line 1: on_failure: has no effect without after"),
            (r#"{"task":"t","after":"*","on_failure":"go"}"#, "line 1: on_failure: must be fail, run or cancel"),
        ] {
            let text = refusal(line);
            assert!(text.starts_with(problem), "{line}: {text}");
        }
    }

    #[test]
    fn names_left_out_or_null_are_the_defaults() {
        let requests = read(&br#"{"task":"t","args":null,"priority":null,"in":null}"#[..]).unwrap();
        let job = requests[0].clone().into_job(Timestamp::MIN).unwrap();
        assert_eq!((job.args.as_str(), job.priority.get(), job.queue.as_str()), ("null", 5, "default"));
        assert_eq!((job.retry, job.key), (None, None));
    }

    #[test]
    fn a_wrong_line_is_refused_with_its_number_and_its_field() {
        let good = r#"{"task":"t"}"#;
        for (line, problem) in [
            (r#"{"task":"t","priority":11}"#, "priority: must be 1"),
            (r#"{"task":"t","priority":1.5}"#, "priority: must be 1"),
            (r#"{"task":"t","priority":true}"#, "priority: must be 1"),
            (r#"{"task":"t","at":"tomorrow"}"#, "at: "),
            (r#"{"task":"t","at":5}"#, "at: must be a text, not 5"),
            (r#"{"task":"t","in":"10"}"#, "in: "),
            (r#"{"task":"t","in":"1s","at":"2030-01-31T08:30:00Z"}"#, "in: cannot be given together with at"),
            (r#"{"task":"t","retry":"often"}"#, "retry: "),
            (r#"{"task":"t","timeout":"0s"}"#, "timeout: must be longer than nothing"),
            (r#"{"task":"t","expires":"soon"}"#, "expires: "),
            (r#"{"task":"t","unique":""}"#, "unique: must not be empty"),
            (r#"{"task":"t","unique":"k","unique_by_args":true}"#, "unique_by_args: cannot be given together"),
            (r#"{"task":"t","unique_by_args":1}"#, "unique_by_args: must be true or false, not 1"),
            (r#"{"task":"t","unique":"k","unique_for":"soon"}"#, "unique_for: "),
            (r#"{"task":"t","unique":"k","unique_scope":""}"#, "unique_scope: must not be empty"),
            (
                r#"{"task":"t","unique":"k","on_duplicate":"drop"}"#,
                "on_duplicate: must be keep, reject or replace-args",
            ),
            (r#"{"task":"t","unique_for":"1m"}"#, "unique: is missing"),
            (r#"{"task":"t","args":{]}"#, "args: "),
            (r#"{"task":"t","args":"\u0000"}"#, "args: must not contain a NUL"),
            (r#"{"task":"t\u0000"}"#, "task: must not contain a NUL"),
            (r#"{"task":""}"#, "task: must not be empty"),
            (r#"{"args":{}}"#, "task: is missing"),
            (r#"{"task":"t","group":"a\nb"}"#, "group: must not contain control"),
            (r#"{"task":"t","key":""}"#, "key: must not be empty"),
            (r#"{"task":"t","key":7}"#, "key: must be a text, not 7"),
            (r#"{"task":"t","task":"u"}"#, "task: is given twice"),
            (r#"{"task":"t","prio":1}"#, "unknown name \"prio\""),
            (r#"{"task":"t"} {}"#, "trailing"),
            (r#"{"task":"t""#, "EOF"),
            ("[]", "must be a JSON object, not an array"),
            ("nonsense", "expected"),
        ] {
            let text = refusal(&format!("{good}\n\n{line}\n{good}\n"));
            assert!(text.starts_with(&format!("line 3: {problem}")) && !text.contains('\n'), "{line}: {text}");
        }
        assert!(
            matches!(read(&b"{\"task\":\"\xff\"}"[..]), Err(Failure::Input(text)) if text == "line 1: is not UTF-8 from byte 10")
        );
    }

    #[test]
    fn large_and_deep_arguments_are_refused() {
        let with = |args: String| refusal(&format!(r#"{{"task":"t","args":{args}}}"#));
        assert!(with(format!("\"{}\"", "x".repeat(1024 * 1024))).starts_with("line 1: args: is 1048578 bytes long"));
        assert!(with("[".repeat(100_000) + &"]".repeat(100_000)).starts_with("line 1: args: is nested deeper"));
        assert!(with("\"".to_owned() + &"x".repeat(MAX_LINE_BYTES)).starts_with("line 1: args: the line is longer"));
    }
}
