//! Work without writing Rust: a task that starts a program.
//!
//! `template` the words of the command, filled from the job → [`CommandTask`] one run of it, → `group` the processes,
//! which end as a whole, `answer` the files that they write.
//!
//! The program gets an argument vector, never a shell string; the job's arguments as JSON on standard input; an environment
//! that holds only the listed variables and those that identify the run. Its standard output is the result, its standard error
//! the job's log, its exit code the outcome, unless it has written another into the file that `TURNWISE_OUTCOME` names. What it
//! writes into the file `TURNWISE_PROGRESS` while it runs is the job's progress.

mod answer;
mod group;
mod lines;
mod template;

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fmt, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    process::Command,
    time::MissedTickBehavior,
};
use turnwise_core::{Failure, Invalid, Json, TaskName, json::MAX_JSON_BYTES, lifecycle, story::Level, time::MAX_SPAN};

pub use self::answer::AnswerFormat;
use self::{
    answer::{Answer, Unusable},
    group::Group,
    lines::Log,
    template::{Values, Word},
};
use crate::{ctx::Ctx, outcome::Outcome, task::AnyTask};

/// How long to wait for the end of the output once the group is gone. Only a process that has left the group can still
/// hold it open, and such a process may live for ever.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Read at a time; as much as a pipe holds.
const CHUNK_BYTES: usize = 64 * 1024;
/// How often the node looks for progress; no reader of it is shown more.
const LOOK_FOR_PROGRESS: Duration = Duration::from_millis(250);
/// EX_DATAERR of `sysexits.h`: what the program was given is wrong, and will be next time.
const FAIL_CODE: i32 = 65;
/// EX_TEMPFAIL of `sysexits.h`: what the program needs is not there now.
const SNOOZE_CODE: i32 = 75;
/// How long a snooze takes that the program says by its exit code.
const SNOOZE: Duration = Duration::from_secs(60);

/// A program to start for every job of a task.
///
/// A run that is cancelled sends SIGTERM to the program's process group, and SIGKILL when the node's `cancel_grace` is
/// over. One that takes too long, or is interrupted by the end of its node, is killed at once. What the program leaves
/// behind in its group is killed when it ends. Only `kill -9` of the node itself lets it live: it then goes on with an old
/// fence.
///
/// ```
/// use turnwise_executor::{CommandTask, Registry};
///
/// let command = CommandTask::new(&["convert", "{args.from}", "--width={args.width}"])?.pass(["HOME"])?.fail_codes([2])?;
/// let mut registry = Registry::new();
/// registry.add(command.into_task("thumbnail"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct CommandTask {
    program: String,
    words: Vec<Word>,
    pass: BTreeSet<String>,
    cwd: Option<PathBuf>,
    stdin: Stdin,
    result: ResultForm,
    fail_codes: BTreeSet<i32>,
    snooze_codes: BTreeSet<i32>,
    snooze: Duration,
    next: Option<TaskName>,
}

/// What an exit code says, and death by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Success,
    Error,
    Fail,
    Snooze,
}

/// What the program finds on standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stdin {
    /// The job's arguments as JSON, then the end of the input.
    #[default]
    Args,
    /// An empty input.
    None,
}

/// What the program's standard output is to the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResultForm {
    /// JSON if it is JSON, otherwise a text; nothing if it is empty.
    #[default]
    Auto,
    /// JSON; anything else is an error.
    Json,
    /// A text, whatever it looks like; nothing if it is empty.
    Text,
    /// Nothing: it is thrown away.
    None,
}

impl FromStr for Stdin {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text {
            "args" => Ok(Self::Args),
            "none" => Ok(Self::None),
            _ => Err(Invalid::new("stdin", format!("{text:?} is not one of args, none"))),
        }
    }
}

impl FromStr for ResultForm {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text {
            "auto" => Ok(Self::Auto),
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            "none" => Ok(Self::None),
            _ => Err(Invalid::new("result", format!("{text:?} is not one of auto, json, text, none"))),
        }
    }
}

impl CommandTask {
    /// The program and its arguments, which may hold placeholders: `{args}`, `{args.FIELD}`, `{id}`, `{queue}`, `{group}`,
    /// `{attempt}`, `{fence}`.
    ///
    /// The program itself may not: a caller who may submit a job does not thereby choose which program runs.
    pub fn new(command: &[impl AsRef<str>]) -> Result<Self, Invalid> {
        let bad = |problem| Invalid::new("command", problem);
        let words =
            command.iter().map(|word| Word::parse(word.as_ref())).collect::<Result<Vec<_>, _>>().map_err(bad)?;
        let Some((first, words)) = words.split_first() else {
            return Err(bad("must name a program".to_owned()));
        };
        let program = match first.plain() {
            Some("") => return Err(bad("must name a program".to_owned())),
            Some(program) => program.to_owned(),
            None => return Err(bad("the program itself must not come from the job".to_owned())),
        };
        Ok(Self {
            program,
            words: words.to_vec(),
            pass: BTreeSet::new(),
            cwd: None,
            stdin: Stdin::default(),
            result: ResultForm::default(),
            fail_codes: BTreeSet::from([FAIL_CODE]),
            snooze_codes: BTreeSet::from([SNOOZE_CODE]),
            snooze: SNOOZE,
            next: None,
        })
    }

    /// Variables of the node's own environment that the program gets, as far as the node has them.
    pub fn pass(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, Invalid> {
        for name in names.into_iter().map(Into::into) {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(Invalid::new("env", format!("{name:?} is not the name of a variable")));
            }
            self.pass.insert(name);
        }
        Ok(self)
    }

    /// Where the program runs; a program named by a relative path is looked for from there.
    #[must_use]
    pub fn cwd(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cwd = Some(directory.into());
        self
    }

    /// What the program finds on standard input. Default: the job's arguments.
    #[must_use]
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// How the program's standard output becomes the job's result. Default: [`ResultForm::Auto`].
    #[must_use]
    pub fn result(mut self, form: ResultForm) -> Self {
        self.result = form;
        self
    }

    /// Exit codes after which the job fails without a retry. Default: 65 (EX_DATAERR).
    pub fn fail_codes(mut self, codes: impl IntoIterator<Item = i32>) -> Result<Self, Invalid> {
        self.fail_codes = codes_of_a_failure("fail_codes", codes)?;
        Ok(self)
    }

    /// Exit codes after which the program is started again later without having spent an attempt. Default: 75 (EX_TEMPFAIL).
    pub fn snooze_codes(mut self, codes: impl IntoIterator<Item = i32>) -> Result<Self, Invalid> {
        self.snooze_codes = codes_of_a_failure("snooze_codes", codes)?;
        Ok(self)
    }

    /// How much later that is. Default: a minute.
    pub fn snooze(mut self, wait: Duration) -> Result<Self, Invalid> {
        if wait > MAX_SPAN {
            return Err(Invalid::new("snooze", "is longer than ten years"));
        }
        self.snooze = wait;
        Ok(self)
    }

    /// After a success the job goes on as this task, with the result as its arguments, or with the same arguments if there is no
    /// result. Another outcome that the program writes comes first.
    pub fn next(mut self, task: impl AsRef<str>) -> Result<Self, Invalid> {
        let task = TaskName::new(task).map_err(|invalid| Invalid::new("next", invalid.problem))?;
        self.next = Some(task);
        Ok(self)
    }

    /// The command as a task of this name, for [`Registry::add`](crate::Registry::add), which refuses a name that cannot be used.
    pub fn into_task(self, name: impl Into<String>) -> AnyTask {
        let (command, next) = (Arc::new(self.clone()), self.next);
        AnyTask::from_fn(name, move |ctx, args| {
            let (command, args) = (command.clone(), args.clone());
            Box::pin(async move { command.run(&ctx, &args).await.unwrap_or_else(Outcome::from) })
        })
        .followed_by(next)
    }

    /// Starts the program and waits for its end. If the future is dropped, the program and its group are killed.
    async fn run(&self, ctx: &Ctx, args: &Json) -> Result<Outcome, RunError> {
        let mut command = self.prepare(ctx, args)?;
        // Before the group, so that it is dropped after it: the folder is deleted once its writers are killed.
        let mut answer = ctx.state::<AnswerFormat>().map(|format| Answer::new(*format)).transpose()?;
        if let Some(answer) = &answer {
            command.env("TURNWISE_OUTCOME", answer.outcome_path()).env("TURNWISE_PROGRESS", answer.progress_path());
        }
        let mut group = Group::start(&mut command).map_err(|error| self.not_started(&error))?;
        let child = group.child();
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut output = Vec::new();
        let mut log = Log::new(ctx);
        let mut asked_to_end = false;
        let status = {
            // An output that is too long ends the run at once, whether or not the program ever reads its input.
            let talk =
                async { tokio::try_join!(feed(stdin, args), collect(stdout, &mut output), listen(stderr, &mut log)) };
            tokio::pin!(talk);
            let mut talking = true;
            let mut look = tokio::time::interval(LOOK_FOR_PROGRESS);
            look.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    () = group.leader_ended() => break,
                    () = ctx.cancelled(), if !asked_to_end => {
                        asked_to_end = true;
                        group.terminate();
                    }
                    said = &mut talk, if talking => {
                        talking = false;
                        said?;
                    }
                    _ = look.tick(), if answer.is_some() => answer.iter_mut().for_each(|answer| answer.report(ctx, false)),
                }
            }
            let status = group.end().map_err(|error| RunError::error(format!("{}: {error}", self.program)))?;
            if talking {
                match tokio::time::timeout(LAST_WORDS, talk).await {
                    Ok(said) => drop(said?),
                    Err(_) => ctx.log_at(Level::Warn, "its output is held open by a process that has left its group"),
                }
            }
            status
        };
        answer.iter_mut().for_each(|answer| answer.report(ctx, true));
        let last_line = log.finish();
        if asked_to_end && status.code().is_none() {
            return Ok(Outcome::cancelled());
        }
        let outcome = self.outcome_of(ctx, status, answer.as_ref())?;
        match outcome.map(Outcome::into_plain) {
            None => match self.exit(status) {
                Exit::Success => Ok(self.after_success(ctx, self.result_of(&output)?, args)),
                Exit::Snooze => Ok(Outcome::snooze(self.snooze)),
                Exit::Fail => Err(RunError::Fail(self.failure_of(status, last_line))),
                Exit::Error => Err(RunError::Error(self.failure_of(status, last_line))),
            },
            // It leaves its result to its output.
            Some(Ok(lifecycle::Outcome::Done { result: None })) => {
                Ok(self.after_success(ctx, self.result_of(&output)?, args))
            }
            Some(Ok(lifecycle::Outcome::Done { result })) => Ok(self.after_success(ctx, result, args)),
            Some(Ok(lifecycle::Outcome::Error(failure))) if self.exit(status) == Exit::Fail => {
                Err(RunError::Fail(failure))
            }
            Some(Ok(other)) => Ok(other.into()),
            Some(Err(next)) => Ok(Outcome::next(*next)),
        }
    }

    /// The outcome that the program has written, if its exit code does not say otherwise.
    fn outcome_of(&self, ctx: &Ctx, status: ExitStatus, answer: Option<&Answer>) -> Result<Option<Outcome>, RunError> {
        let Some(answer) = answer else { return Ok(None) };
        let exit = self.exit(status);
        let not_taken = |why: &str| {
            ctx.log_at(Level::Warn, format!("TURNWISE_OUTCOME: {why}; what counts is that {}", self.end_of(status)));
            Ok(None)
        };
        match answer.outcome() {
            Ok(None) => Ok(None),
            Ok(Some(outcome)) => match outcome.plain() {
                _ if exit == Exit::Success => Ok(Some(outcome)),
                // With these a program says why it failed.
                Some(lifecycle::Outcome::Error(_) | lifecycle::Outcome::Fail(_)) => Ok(Some(outcome)),
                Some(lifecycle::Outcome::Snooze { .. }) if exit == Exit::Snooze => Ok(Some(outcome)),
                _ => not_taken("it does not say that the run failed"),
            },
            Err(problem) if exit != Exit::Success => not_taken(&problem.to_string()),
            Err(problem) => {
                let text = format!("{}: what it wrote to TURNWISE_OUTCOME cannot be used: {problem}", self.program);
                Err(match problem {
                    Unusable::Unreadable(_) => RunError::error(text),
                    Unusable::TooLong => RunError::fail(text),
                })
            }
        }
    }

    fn exit(&self, status: ExitStatus) -> Exit {
        match status.code() {
            Some(0) => Exit::Success,
            Some(code) if self.fail_codes.contains(&code) => Exit::Fail,
            Some(code) if self.snooze_codes.contains(&code) => Exit::Snooze,
            _ => Exit::Error,
        }
    }

    /// What a job names itself comes first; it is counted in when the end is settled.
    fn after_success(&self, ctx: &Ctx, result: Option<Json>, args: &Json) -> Outcome {
        let next = self.next.as_ref().filter(|_| ctx.job.terms.next().is_none());
        lifecycle::Outcome::Done { result }.then(next, args).into()
    }

    /// The command with its words filled and its environment.
    fn prepare(&self, ctx: &Ctx, args: &Json) -> Result<Command, RunError> {
        let values = Values {
            args,
            id: ctx.id(),
            queue: ctx.queue().as_str(),
            group: ctx.group().as_str(),
            attempt: ctx.attempt(),
            fence: ctx.fence(),
        };
        // The same arguments will lack the same field next time.
        let words = self.words.iter().map(|word| word.fill(&values)).collect::<Result<Vec<_>, _>>();
        let words = words.map_err(RunError::fail)?;
        let directory = self.directory()?;
        let mut command = Command::new(self.find(&directory)?);
        command.args(words).current_dir(directory).env_clear();
        command.envs(self.pass.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.env("TURNWISE_JOB_ID", values.id.to_string());
        command.env("TURNWISE_FENCE", values.fence.0.to_string());
        command.env("TURNWISE_ATTEMPT", values.attempt.to_string());
        command.env("TURNWISE_TASK", ctx.task());
        command.env("TURNWISE_QUEUE", values.queue);
        command.env("TURNWISE_GROUP", values.group);
        if let Some(trace) = ctx.trace() {
            command.env("TRACEPARENT", trace.traceparent());
            command.envs(trace.tracestate().map(|state| ("TRACESTATE", state)));
        }
        command.stdin(match self.stdin {
            Stdin::Args => Stdio::piped(),
            Stdin::None => Stdio::null(),
        });
        command.stdout(match self.result {
            ResultForm::None => Stdio::null(),
            ResultForm::Auto | ResultForm::Json | ResultForm::Text => Stdio::piped(),
        });
        command.stderr(Stdio::piped());
        Ok(command)
    }

    fn directory(&self) -> Result<PathBuf, RunError> {
        let wanted = self.cwd.as_deref().unwrap_or(Path::new("."));
        let bad = |problem: &dyn fmt::Display| RunError::error(format!("cwd {}: {problem}", wanted.display()));
        // A start in a directory that is not there fails with the same text as a program that is not there.
        let directory = std::path::absolute(wanted).map_err(|error| bad(&error))?;
        if directory.is_dir() { Ok(directory) } else { Err(bad(&"there is no such directory")) }
    }

    /// The program's file: found with the node's own `PATH`, for the program's environment may have none.
    fn find(&self, directory: &Path) -> Result<PathBuf, RunError> {
        if self.program.contains('/') {
            return Ok(directory.join(&self.program));
        }
        let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
        let files = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).map(|f| f.join(&self.program));
        let runs =
            |file: &PathBuf| file.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0);
        let found = files.into_iter().find(runs);
        found.ok_or_else(|| RunError::error(format!("{}: no such program in the PATH of this node", self.program)))
    }

    fn not_started(&self, error: &io::Error) -> RunError {
        let text = format!("{}: {error}", self.program);
        match error.kind() {
            // The same words will be too long next time.
            io::ErrorKind::ArgumentListTooLong => {
                RunError::fail(format!("{text}; read them from standard input instead"))
            }
            _ => RunError::error(text),
        }
    }

    fn result_of(&self, output: &[u8]) -> Result<Option<Json>, RunError> {
        let text = String::from_utf8_lossy(output);
        let json = match self.result {
            ResultForm::None => return Ok(None),
            ResultForm::Auto | ResultForm::Json => Json::parse("result", text.trim()),
            ResultForm::Text => Err(Invalid::new("result", "is a text")),
        };
        match (json, self.result) {
            (Ok(json), _) => Ok(Some(json).filter(|json| *json != Json::null())),
            (Err(invalid), ResultForm::Json) => {
                Err(RunError::error(format!("{}: its output is not JSON: {}", self.program, invalid.problem)))
            }
            (Err(_), _) if text.trim().is_empty() => Ok(None),
            (Err(_), _) => {
                // As a shell takes a program's output. A NUL fits in no database column.
                let text = text.trim_end_matches(['\n', '\r']).replace('\0', "\u{fffd}");
                Json::encode("result", &text).map(Some).map_err(|invalid| RunError::fail(invalid.to_string()))
            }
        }
    }

    fn failure_of(&self, status: ExitStatus, last_line: Option<String>) -> Failure {
        // The last line that a program writes is usually the reason.
        let chain = std::iter::once(self.end_of(status)).chain(last_line).collect();
        Failure { chain, place: None }
    }

    fn end_of(&self, status: ExitStatus) -> String {
        match status.code() {
            Some(code) => format!("{} ended with exit code {code}", self.program),
            // With the signal's name: "signal: 9 (SIGKILL)".
            None => format!("{} was killed by {}", self.program, status.to_string().replace("signal: ", "signal ")),
        }
    }
}

fn codes_of_a_failure(option: &'static str, codes: impl IntoIterator<Item = i32>) -> Result<BTreeSet<i32>, Invalid> {
    let check = |code| match code {
        1..=255 => Ok(code),
        _ => Err(Invalid::new(option, format!("{code} is not an exit code of a failure (1 to 255)"))),
    };
    codes.into_iter().map(check).collect()
}

/// Why a run did not come to its end.
#[derive(Debug)]
enum RunError {
    /// It may be tried again.
    Error(Failure),
    /// Another try would fail in the same way.
    Fail(Failure),
}

impl RunError {
    fn error(text: impl Into<String>) -> Self {
        Self::Error(Failure::new(text))
    }

    fn fail(text: impl Into<String>) -> Self {
        Self::Fail(Failure::new(text))
    }
}

impl From<RunError> for Outcome {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Error(failure) => lifecycle::Outcome::Error(failure).into(),
            RunError::Fail(failure) => lifecycle::Outcome::Fail(failure).into(),
        }
    }
}

/// Writes the arguments, then closes the input.
async fn feed(stdin: Option<impl AsyncWrite + Unpin>, args: &Json) -> Result<(), RunError> {
    if let Some(mut stdin) = stdin {
        // A program that does not read all of it may close its input; that is no error.
        let _ = stdin.write_all(args.as_str().as_bytes()).await;
    }
    Ok(())
}

/// Reads the result, up to the most bytes that a result may have.
async fn collect(stdout: Option<impl AsyncRead + Unpin>, output: &mut Vec<u8>) -> Result<(), RunError> {
    let Some(stdout) = stdout else { return Ok(()) };
    // One byte more than allowed, to distinguish an output of exactly the limit from a longer one.
    let limit = u64::try_from(MAX_JSON_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let read = stdout.take(limit).read_to_end(output).await;
    read.map_err(|error| RunError::error(format!("reading standard output: {error}")))?;
    if output.len() > MAX_JSON_BYTES {
        // The rest of it may never end, so the program does.
        return Err(RunError::fail(format!("the result on standard output is longer than {MAX_JSON_BYTES} bytes")));
    }
    Ok(())
}

/// Writes what comes to the job's log, line by line.
async fn listen(stderr: Option<impl AsyncRead + Unpin>, log: &mut Log<'_>) -> Result<(), RunError> {
    let Some(mut stderr) = stderr else { return Ok(()) };
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match stderr.read(&mut chunk).await {
            Ok(0) => return Ok(()),
            Ok(length) => log.hear(&chunk[..length]),
            Err(error) => return Err(RunError::error(format!("reading standard error: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_cannot_be_right_is_refused() {
        let refusal = |command: &[&str]| CommandTask::new(command).unwrap_err().to_string();
        assert_eq!(refusal(&[]), "command: must name a program");
        assert_eq!(refusal(&["", "x"]), "command: must name a program");
        assert_eq!(refusal(&["{args.program}"]), "command: the program itself must not come from the job");
        assert!(refusal(&["echo", "{fense}"]).starts_with("command: \"{fense}\": unknown placeholder"));
        let echo = || CommandTask::new(&["echo"]).unwrap();
        assert!(echo().pass(["A=b"]).unwrap_err().to_string().starts_with("env: "));
        assert!(echo().fail_codes([0]).unwrap_err().to_string().starts_with("fail_codes: 0 "));
        assert!(echo().snooze_codes([256]).unwrap_err().to_string().starts_with("snooze_codes: 256 "));
        assert!(echo().snooze(Duration::MAX).unwrap_err().to_string().starts_with("snooze: "));
        assert!(echo().next("").unwrap_err().to_string().starts_with("next: "));
        assert!("yaml".parse::<ResultForm>().unwrap_err().to_string().starts_with("result: "));
        assert!("file".parse::<Stdin>().unwrap_err().to_string().starts_with("stdin: "));
    }

    #[test]
    fn output_becomes_a_result_in_the_form_that_was_asked_for() {
        let done = |json: &str| Some(Json::parse("result", json).unwrap());
        let of = |form, output: &[u8]| {
            CommandTask::new(&["p"]).unwrap().result(form).result_of(output).map_err(|error| match error {
                RunError::Error(failure) => failure.text(),
                RunError::Fail(failure) => format!("for good: {}", failure.text()),
            })
        };
        assert_eq!(of(ResultForm::Auto, b" {\"n\": 1.50}\n"), Ok(done("{\"n\": 1.50}")));
        assert_eq!(of(ResultForm::Auto, b"done: 3 \"files\"\n"), Ok(done(r#""done: 3 \"files\"""#)));
        assert_eq!(of(ResultForm::Auto, b"\xff\0\n"), Ok(done("\"\u{fffd}\u{fffd}\"")));
        assert_eq!(of(ResultForm::Text, b"12\n"), Ok(done("\"12\"")));
        assert_eq!(of(ResultForm::Json, b"12\n"), Ok(done("12")));
        for (form, nothing) in [
            (ResultForm::Auto, &b"\n"[..]),
            (ResultForm::Auto, b"null"),
            (ResultForm::Json, b"null\n"),
            (ResultForm::Text, b""),
            (ResultForm::None, b"12"),
        ] {
            assert_eq!(of(form, nothing), Ok(None), "{form:?}");
        }
        assert!(of(ResultForm::Json, b"<html>").unwrap_err().starts_with("p: its output is not JSON: "));
        assert!(of(ResultForm::Json, b"").unwrap_err().starts_with("p: its output is not JSON: "));
        // Two bytes each once they are quoted: more than a result may have.
        let quotes = vec![b'"'; MAX_JSON_BYTES];
        assert!(of(ResultForm::Auto, &quotes).unwrap_err().starts_with("for good: result: is "));
    }
}
