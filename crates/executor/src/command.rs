//! Work without writing Rust: a task that starts a program.
//!
//! `template` the words of the command, filled from the job → [`CommandTask`] one run of it, → `group` the processes,
//! which end as a whole.
//!
//! The program gets an argument vector, never a shell string; the job's arguments as JSON on standard input; an empty
//! environment but for what is listed and what says which run this is. Its standard output is the result, its standard
//! error the job's log, its exit code the outcome.

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
};
use turnwise_core::{Failure, Invalid, Json, json::MAX_JSON_BYTES, lifecycle, story::Level};

use self::{
    group::Group,
    lines::Log,
    template::{Values, Word},
};
use crate::{ctx::Ctx, outcome::Outcome, task::AnyTask};

/// How long to wait for the end of the output once the group is gone. Only a process that has left the group can still
/// hold it open, and such a one may live for ever.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Read at a time; as much as a pipe holds.
const CHUNK_BYTES: usize = 64 * 1024;

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
}

/// What the program finds on standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stdin {
    /// The job's arguments as JSON, then the end.
    #[default]
    Args,
    /// The end.
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
    /// The program itself may not: whoever may submit a job does not thereby choose what is run.
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
            fail_codes: BTreeSet::new(),
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

    #[must_use]
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    #[must_use]
    pub fn result(mut self, form: ResultForm) -> Self {
        self.result = form;
        self
    }

    /// Exit codes after which trying again is of no use.
    pub fn fail_codes(mut self, codes: impl IntoIterator<Item = i32>) -> Result<Self, Invalid> {
        for code in codes {
            if !(1..=255).contains(&code) {
                return Err(Invalid::new("fail_codes", format!("{code} is not an exit code of a failure (1 to 255)")));
            }
            self.fail_codes.insert(code);
        }
        Ok(self)
    }

    pub fn into_task(self, name: impl Into<String>) -> AnyTask {
        let command = Arc::new(self);
        AnyTask::from_fn(name, move |ctx, args| {
            let (command, args) = (command.clone(), args.clone());
            Box::pin(async move { command.run(&ctx, &args).await.unwrap_or_else(Outcome::from) })
        })
    }

    /// Starts the program and stays with it to its end. Dropped, it takes the program along.
    async fn run(&self, ctx: &Ctx, args: &Json) -> Result<Outcome, Trouble> {
        let mut group = Group::start(&mut self.prepare(ctx, args)?).map_err(|error| self.not_started(&error))?;
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
                }
            }
            let status = group.end().map_err(|error| Trouble::error(format!("{}: {error}", self.program)))?;
            if talking {
                match tokio::time::timeout(LAST_WORDS, talk).await {
                    Ok(said) => drop(said?),
                    Err(_) => ctx.log_at(Level::Warn, "its output is held open by a process that has left its group"),
                }
            }
            status
        };
        let last_line = log.finish();
        match status.code() {
            Some(0) => self.result_of(&output),
            None if asked_to_end => Ok(Outcome::cancelled()),
            _ => Err(self.failure_of(status, last_line)),
        }
    }

    /// The command with its words filled and its environment.
    fn prepare(&self, ctx: &Ctx, args: &Json) -> Result<Command, Trouble> {
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
        let words = words.map_err(Trouble::fail)?;
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

    fn directory(&self) -> Result<PathBuf, Trouble> {
        let wanted = self.cwd.as_deref().unwrap_or(Path::new("."));
        let bad = |problem: &dyn fmt::Display| Trouble::error(format!("cwd {}: {problem}", wanted.display()));
        // A start in a directory that is not there fails with the same words as a program that is not there.
        let directory = std::path::absolute(wanted).map_err(|error| bad(&error))?;
        if directory.is_dir() { Ok(directory) } else { Err(bad(&"there is no such directory")) }
    }

    /// The program's file: found with the node's own `PATH`, for the program's environment may have none.
    fn find(&self, directory: &Path) -> Result<PathBuf, Trouble> {
        if self.program.contains('/') {
            return Ok(directory.join(&self.program));
        }
        let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
        let files = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).map(|f| f.join(&self.program));
        let runs =
            |file: &PathBuf| file.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0);
        let found = files.into_iter().find(runs);
        found.ok_or_else(|| Trouble::error(format!("{}: no such program in the PATH of this node", self.program)))
    }

    fn not_started(&self, error: &io::Error) -> Trouble {
        let text = format!("{}: {error}", self.program);
        match error.kind() {
            // The same words will be too long next time.
            io::ErrorKind::ArgumentListTooLong => {
                Trouble::fail(format!("{text}; read them from standard input instead"))
            }
            _ => Trouble::error(text),
        }
    }

    fn result_of(&self, output: &[u8]) -> Result<Outcome, Trouble> {
        let text = String::from_utf8_lossy(output);
        let json = match self.result {
            ResultForm::None => return Ok(Outcome::done()),
            ResultForm::Auto | ResultForm::Json => Json::parse("result", text.trim()),
            ResultForm::Text => Err(Invalid::new("result", "is a text")),
        };
        match (json, self.result) {
            (Ok(json), _) if json == Json::null() => Ok(Outcome::done()),
            (Ok(json), _) => Ok(lifecycle::Outcome::Done { result: Some(json) }.into()),
            (Err(invalid), ResultForm::Json) => {
                Err(Trouble::error(format!("{}: its output is not JSON: {}", self.program, invalid.problem)))
            }
            (Err(_), _) if text.trim().is_empty() => Ok(Outcome::done()),
            // As a shell takes a program's output. A NUL fits in no database column.
            (Err(_), _) => Ok(Outcome::done_with(&text.trim_end_matches(['\n', '\r']).replace('\0', "\u{fffd}"))),
        }
    }

    fn failure_of(&self, status: ExitStatus, last_line: Option<String>) -> Trouble {
        let how = match status.code() {
            Some(code) => format!("{} ended with exit code {code}", self.program),
            // With the signal's name: "signal: 9 (SIGKILL)".
            None => format!("{} was killed by {}", self.program, status.to_string().replace("signal: ", "signal ")),
        };
        // What a program says last is, more often than not, why.
        let chain = std::iter::once(how).chain(last_line).collect();
        let failure = Failure { chain, place: None };
        if status.code().is_some_and(|code| self.fail_codes.contains(&code)) {
            Trouble::Fail(failure)
        } else {
            Trouble::Error(failure)
        }
    }
}

/// Why a run did not come to its end.
#[derive(Debug)]
enum Trouble {
    /// It may be tried again.
    Error(Failure),
    /// It is of no use to try again.
    Fail(Failure),
}

impl Trouble {
    fn error(text: impl Into<String>) -> Self {
        Self::Error(Failure::new(text))
    }

    fn fail(text: impl Into<String>) -> Self {
        Self::Fail(Failure::new(text))
    }
}

impl From<Trouble> for Outcome {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Error(failure) => lifecycle::Outcome::Error(failure).into(),
            Trouble::Fail(failure) => lifecycle::Outcome::Fail(failure).into(),
        }
    }
}

/// Writes the arguments, then the end.
async fn feed(stdin: Option<impl AsyncWrite + Unpin>, args: &Json) -> Result<(), Trouble> {
    if let Some(mut stdin) = stdin {
        // A program that does not want to read all of it closes its end, which is its own affair.
        let _ = stdin.write_all(args.as_str().as_bytes()).await;
    }
    Ok(())
}

/// Reads the result, as far as a result may go.
async fn collect(stdout: Option<impl AsyncRead + Unpin>, output: &mut Vec<u8>) -> Result<(), Trouble> {
    let Some(stdout) = stdout else { return Ok(()) };
    // One byte more than allowed, to tell an output of exactly the limit from a longer one.
    let limit = u64::try_from(MAX_JSON_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let read = stdout.take(limit).read_to_end(output).await;
    read.map_err(|error| Trouble::error(format!("reading standard output: {error}")))?;
    if output.len() > MAX_JSON_BYTES {
        // The rest of it may never end, so the program does.
        return Err(Trouble::fail(format!("the result on standard output is longer than {MAX_JSON_BYTES} bytes")));
    }
    Ok(())
}

/// Writes what comes to the job's log, line by line.
async fn listen(stderr: Option<impl AsyncRead + Unpin>, log: &mut Log<'_>) -> Result<(), Trouble> {
    let Some(mut stderr) = stderr else { return Ok(()) };
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match stderr.read(&mut chunk).await {
            Ok(0) => return Ok(()),
            Ok(length) => log.hear(&chunk[..length]),
            Err(error) => return Err(Trouble::error(format!("reading standard error: {error}"))),
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
        assert!("yaml".parse::<ResultForm>().unwrap_err().to_string().starts_with("result: "));
        assert!("file".parse::<Stdin>().unwrap_err().to_string().starts_with("stdin: "));
    }

    #[test]
    fn output_becomes_a_result_in_the_form_that_was_asked_for() {
        let done = |json: &str| Some(Json::parse("result", json).unwrap());
        let of = |form, output: &[u8]| {
            let outcome =
                CommandTask::new(&["p"]).unwrap().result(form).result_of(output).map_err(|trouble| match trouble {
                    Trouble::Error(failure) => failure.text(),
                    Trouble::Fail(failure) => format!("for good: {}", failure.text()),
                })?;
            match outcome.resolve(&crate::Registry::new(), turnwise_core::Timestamp::MIN) {
                lifecycle::Outcome::Done { result } => Ok(result),
                lifecycle::Outcome::Fail(failure) => Err(format!("for good: {}", failure.text())),
                other => panic!("{other:?}"),
            }
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
