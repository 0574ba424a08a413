//! Command tasks: real programs, on the memory store.

#![cfg(unix)]

mod support;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use support::*;
use tempfile::TempDir;
use tokio::sync::oneshot;
use turnwise_core::{Job, JobId, JobState, RetryPolicy, lifecycle::Ending, story::Level};
use turnwise_executor::{
    CommandTask, Config, Executor, Registry,
    command::{ResultForm, Stdin},
    task::{AnyTask, Policies},
};
use turnwise_store::MemoryStore;

const TASK: &str = "command";

/// A script, with the words that follow it as `$1`, `$2`, …
fn script(text: &str, words: &[&str]) -> CommandTask {
    // The script is no template.
    let text = text.replace('{', "{{").replace('}', "}}");
    CommandTask::new(&[&["sh", "-c", &text, "script"], words].concat()).unwrap().pass(["PATH"]).unwrap()
}

/// A node that knows one command.
struct Place {
    store: MemoryStore,
    executor: Executor,
}

impl Place {
    async fn with(task: AnyTask, configure: impl FnOnce(&mut Config)) -> Self {
        let store = MemoryStore::default();
        let mut registry = Registry::new();
        registry.add(task).unwrap();
        let executor = started(node(&store, "a", registry).configure(configure)).await;
        Self { store, executor }
    }

    async fn knowing(command: CommandTask) -> Self {
        Self::with(command.into_task(TASK), |_| {}).await
    }

    async fn submit(&self, args: &str) -> JobId {
        self.executor.submit(job(TASK, args)).await.unwrap().id
    }

    async fn ended(&self, id: JobId) -> Job {
        ended(&self.store, id).await
    }

    async fn log(&self, id: JobId) -> Vec<String> {
        story(&self.store, id).await.lines.into_iter().map(|line| line.text).collect()
    }
}

/// Runs one job to its end.
async fn ran(command: CommandTask, args: &str) -> (Job, Vec<String>) {
    let place = Place::knowing(command).await;
    let id = place.submit(args).await;
    let ended = place.ended(id).await;
    let log = place.log(id).await;
    place.executor.stop().await;
    (ended, log)
}

/// The result of a job that must succeed.
async fn result(command: CommandTask, args: &str) -> Option<String> {
    let (job, log) = ran(command, args).await;
    assert_eq!(job.state, JobState::Success, "{:?} {log:?}", job.error);
    job.result.map(|result| result.as_str().to_owned())
}

/// A pipe that processes hold open: it says that they live, and its end that all of them are gone.
struct Lifeline {
    folder: TempDir,
    up: oneshot::Receiver<String>,
    gone: oneshot::Receiver<String>,
}

impl Lifeline {
    /// The name of the pipe in its folder, where commands run.
    const NAME: &str = "lifeline";

    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(folder.path(), Self::NAME);
        let (say_up, up) = oneshot::channel();
        let (say_gone, gone) = oneshot::channel();
        // A thread that nobody waits for: it stays here for ever if no process ever opens the pipe.
        std::thread::spawn(move || {
            let mut lines = BufReader::new(File::open(path).unwrap());
            let (mut first, mut rest) = (String::new(), String::new());
            lines.read_line(&mut first).unwrap();
            let _ = say_up.send(first);
            lines.read_to_string(&mut rest).unwrap();
            let _ = say_gone.send(rest);
        });
        Self { folder, up, gone }
    }

    /// A script whose processes all hold the pipe as their descriptor 3.
    fn script(&self, text: &str) -> CommandTask {
        script(&format!("exec 3>{}\n{text}", Self::NAME), &[]).cwd(self.folder.path())
    }

    async fn up(&mut self) {
        assert_eq!(soon(&mut self.up).await.unwrap(), "up\n");
    }

    /// What was said until the last process was gone.
    async fn gone(&mut self) -> String {
        soon(&mut self.gone).await.unwrap()
    }
}

fn pipe(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_arrive_to_the_letter_and_one_word_stays_one_word() {
    let folder = tempfile::tempdir().unwrap();
    let tell = r#"for word in "$@"; do printf '[%s]' "$word"; done"#;
    let words =
        ["{args.text}", "--file={args.file}", "{args.flag}", "{args.empty}", "{args.n}", "{args.list}", "{group}"];
    let text = "a  b\n'c' \"d\" $(touch it) `touch it` ; touch it | * ~ \\ {id} é";
    let args = serde_json::json!({
        "text": text, "file": "my file; touch it", "flag": "--force", "empty": "", "list": [1, "x y"], "n": 7,
    });
    let command = script(tell, &words).cwd(folder.path()).result(ResultForm::Text);
    let told = result(command, &args.to_string()).await.unwrap();
    let wanted = format!("[{text}][--file=my file; touch it][--force][][7][[1,\"x y\"]][default]");
    assert_eq!(serde_json::from_str::<String>(&told).unwrap(), wanted);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing of it was run");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_arguments_are_on_standard_input_and_the_output_is_the_result() {
    let args = r#"{"b":1.50,"a":"é\n"}"#;
    assert_eq!(result(CommandTask::new(&["cat"]).unwrap(), args).await.as_deref(), Some(args));
    let silent = CommandTask::new(&["cat"]).unwrap().stdin(Stdin::None);
    assert_eq!(result(silent, args).await, None);
    let text = script("echo 'three files'", &[]);
    assert_eq!(result(text, "null").await.as_deref(), Some("\"three files\""));
    let unread = CommandTask::new(&["cat"]).unwrap().result(ResultForm::None);
    assert_eq!(result(unread, args).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_read_its_input_succeeds_all_the_same() {
    // More than a pipe holds: a node that writes all of it is stopped in the middle.
    let args = format!("\"{}\"", "x".repeat(500_000));
    assert_eq!(result(script("exec 0<&-; echo 1", &[]), &args).await.as_deref(), Some("1"));
    assert_eq!(result(CommandTask::new(&["true"]).unwrap(), &args).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_may_talk_while_it_is_being_fed() {
    let args = format!("\"{}\"", "x".repeat(900_000));
    let echo = script("tee /dev/stderr", &[]);
    let (job, log) = ran(echo, &args).await;
    assert_eq!(job.result.unwrap().as_str(), args);
    assert_eq!(log.concat(), args);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_too_long_is_a_failure_for_good_and_ends_the_program() {
    let endless = CommandTask::new(&["yes"]).unwrap();
    let long = CommandTask::new(&["head", "-c", "8388608", "/dev/zero"]).unwrap();
    // The second one has more input waiting than its pipe holds, which nobody will read.
    let unread = format!("\"{}\"", "x".repeat(500_000));
    for (command, args) in [(long, "null"), (endless, unread.as_str())] {
        let (job, _) = ran(command, args).await;
        assert_eq!((job.state, job.counts.attempt), (JobState::Failed, 1));
        assert_eq!(job.error.unwrap(), "the result on standard output is longer than 1048576 bytes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_text_are_kept_as_far_as_text_goes() {
    let (job, log) = ran(script(r"printf 'a\377b\000c\n'; printf 'x\376y\000z' >&2", &[]), "null").await;
    assert_eq!(job.result.unwrap().as_str(), "\"a\u{fffd}b\u{fffd}c\"");
    assert_eq!(log, ["x\u{fffd}y?z"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_error_is_the_job_s_log_line_by_line() {
    let text = "echo one >&2; echo 'progress 3/10 text' >&2; echo >&2; printf 'é%.0s' $(seq 3000) >&2; printf last >&2";
    let place = Place::knowing(script(text, &[])).await;
    let id = place.submit("null").await;
    assert_eq!(place.ended(id).await.state, JobState::Success);
    let story = story(&place.store, id).await;
    assert!(story.lines.iter().all(|line| line.level == Level::Info && line.text.len() <= 4096));
    assert_eq!(story.progress, None);
    let lines: Vec<_> = story.lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(lines[..3], ["one", "progress 3/10 text", ""]);
    assert_eq!(lines[3..].concat(), "é".repeat(3000) + "last");
    place.executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_there_while_the_program_still_runs() {
    let mut lifeline = Lifeline::new();
    let place = Place::knowing(lifeline.script("echo begun >&2; echo up >&3; sleep 1000")).await;
    let id = place.submit("null").await;
    lifeline.up().await;
    until(async || place.log(id).await == ["begun"]).await;
    cancel(&place.store, id).await;
    assert_eq!(place.ended(id).await.state, JobState::Cancelled);
    place.executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_code_is_an_error_that_is_tried_again_unless_it_is_listed_as_final() {
    for (code, state, attempts) in [(3, JobState::Failed, 4), (70, JobState::Failed, 4), (2, JobState::Failed, 1)] {
        let command = script(&format!("echo first >&2; echo 'no disk' >&2; echo >&2; exit {code}"), &[]);
        let (job, _) = ran(command.fail_codes([2, 64]).unwrap(), "null").await;
        assert_eq!((job.state, job.counts.attempt), (state, attempts), "{code}");
        assert_eq!(job.error.unwrap(), format!("sh ended with exit code {code}: no disk"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_carries_a_higher_fence() {
    let second = script(r#"[ "$1" = 2 ] && echo "$1 $2 $TURNWISE_FENCE""#, &["{attempt}", "{fence}"]);
    assert_eq!(result(second, "null").await.as_deref(), Some("\"2 2 2\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_dies_of_a_signal_takes_down_only_its_own_job() {
    let folder = tempfile::tempdir().unwrap();
    let go = pipe(folder.path(), "go");
    let text = r#"case "$1" in none) cat go ;; *) kill -s "$1" $$ ;; esac"#;
    let place = Place::knowing(script(text, &["{args.signal}"]).cwd(folder.path())).await;
    let neighbour = place.submit(r#"{"signal":"none"}"#).await;
    let (say_begun, begun) = oneshot::channel();
    std::thread::spawn(move || drop(say_begun.send(File::options().write(true).open(go).unwrap())));
    let mut go = soon(begun).await.unwrap();
    for (signal, told) in [("KILL", "signal 9 (SIGKILL)"), ("SEGV", "signal 11 (SIGSEGV)")] {
        let mut dying = job(TASK, &format!(r#"{{"signal":"{signal}"}}"#));
        dying.retry = Some(RetryPolicy::None);
        let id = place.executor.submit(dying).await.unwrap().id;
        let job = place.ended(id).await;
        assert_eq!(job.state, JobState::Failed);
        assert!(job.error.as_ref().unwrap().starts_with(&format!("sh was killed by {told}")), "{:?}", job.error);
    }
    go.write_all(b"1").unwrap();
    drop(go);
    let neighbour = place.ended(neighbour).await;
    assert_eq!((neighbour.result.unwrap().as_str(), neighbour.counts.attempt), ("1", 1));
    assert_eq!(place.executor.stats().lost, 0);
    place.executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_is_clean_but_for_what_is_listed_and_what_names_the_run() {
    let command = CommandTask::new(&["env"]).unwrap().pass(["PATH", "NOBODY_HAS_SET_THIS"]).unwrap();
    let place = Place::knowing(command.result(ResultForm::Text)).await;
    let mut wanted = job(TASK, "null");
    wanted.group = turnwise_core::GroupName::new("acme & sons").unwrap();
    wanted.queue = turnwise_core::QueueName::new("mail").unwrap();
    let id = place.executor.submit(wanted).await.unwrap().id;
    let told: String = place.ended(id).await.result.unwrap().decode().unwrap();
    let variables: BTreeMap<_, _> = told.lines().map(|line| line.split_once('=').unwrap()).collect();
    let (id, path) = (id.to_string(), std::env::var("PATH").unwrap());
    assert!(std::env::vars_os().count() > 1, "there is something that could be passed on by mistake");
    let wanted = BTreeMap::from([
        ("PATH", path.as_str()),
        ("TURNWISE_JOB_ID", id.as_str()),
        ("TURNWISE_FENCE", "1"),
        ("TURNWISE_ATTEMPT", "1"),
        ("TURNWISE_TASK", TASK),
        ("TURNWISE_QUEUE", "mail"),
        ("TURNWISE_GROUP", "acme & sons"),
    ]);
    assert_eq!(variables, wanted);
    place.executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_runs_where_it_is_told_to_and_is_found_from_there() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    std::os::unix::fs::symlink("/bin/pwd", folder.path().join("bin/where")).unwrap();
    let place = std::fs::canonicalize(folder.path()).unwrap();
    let told = result(CommandTask::new(&["bin/where"]).unwrap().cwd(folder.path()), "null").await;
    assert_eq!(told.unwrap(), serde_json::to_string(&place).unwrap());
    let (job, _) = ran(CommandTask::new(&["true"]).unwrap().cwd(folder.path().join("none")), "null").await;
    assert_eq!(job.counts.attempt, 4);
    assert!(job.error.as_ref().unwrap().ends_with("/none: there is no such directory"), "{:?}", job.error);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_not_there_is_named_and_tried_again() {
    for program in ["turnwise-no-such-program", "./turnwise-no-such-program"] {
        let (job, _) = ran(CommandTask::new(&[program]).unwrap(), "null").await;
        assert_eq!((job.state, job.counts.attempt), (JobState::Failed, 4));
        assert!(job.error.as_ref().unwrap().starts_with(&format!("{program}: ")), "{:?}", job.error);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_is_missing_fails_the_job_for_good_before_anything_is_started() {
    let folder = tempfile::tempdir().unwrap();
    for (args, told) in [("{}", "args.to.name is missing"), (r#"{"to":{"name":null}}"#, "args.to.name is null")] {
        let (job, _) = ran(script("touch begun", &["{args.to.name}"]).cwd(folder.path()), args).await;
        assert_eq!((job.state, job.counts.attempt, job.error.as_deref()), (JobState::Failed, 1, Some(told)));
    }
    assert!(!folder.path().join("begun").exists());
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn an_argument_longer_than_the_system_takes_fails_the_job_for_good() {
    let args = format!("\"{}\"", "x".repeat(500_000));
    let (job, _) = ran(CommandTask::new(&["true", "{args}"]).unwrap(), &args).await;
    assert_eq!((job.state, job.counts.attempt), (JobState::Failed, 1));
    assert!(job.error.unwrap().ends_with("read them from standard input instead"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_asks_the_whole_group_to_end_and_lets_it() {
    let mut lifeline = Lifeline::new();
    let text = "trap 'wait; echo leader >&2; exit 3' TERM
        ( trap 'echo child >&3; exit' TERM; sleep 1000 & echo up >&3; wait ) &
        wait";
    let place = Place::knowing(lifeline.script(text)).await;
    let id = place.submit("null").await;
    lifeline.up().await;
    cancel(&place.store, id).await;
    let job = place.ended(id).await;
    assert_eq!(job.state, JobState::Cancelled);
    assert_eq!(job.error.as_deref(), Some("sh ended with exit code 3: leader"));
    assert_eq!((lifeline.gone().await.as_str(), place.log(id).await), ("child\n", vec!["leader".to_owned()]));
    place.executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_program_that_dies_of_the_request_has_not_failed() {
    let mut lifeline = Lifeline::new();
    let place = Place::knowing(lifeline.script("echo up >&3; exec sleep 1000")).await;
    let id = place.submit("null").await;
    lifeline.up().await;
    cancel(&place.store, id).await;
    let job = place.ended(id).await;
    assert_eq!((job.state, job.error), (JobState::Cancelled, None));
    lifeline.gone().await;
    place.executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_does_not_heed_a_cancel_is_killed_as_a_whole() {
    let mut lifeline = Lifeline::new();
    let task = lifeline.script("trap '' TERM; sleep 1000 & echo up >&3; wait; sleep 1000").into_task(TASK);
    let place = Place::with(task, |config| config.cancel_grace = Duration::from_millis(50)).await;
    let id = place.submit("null").await;
    lifeline.up().await;
    cancel(&place.store, id).await;
    assert_eq!(place.ended(id).await.state, JobState::Cancelled);
    lifeline.gone().await;
    place.executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_takes_too_long_is_killed_with_all_it_has_started() {
    let mut lifeline = Lifeline::new();
    let task = lifeline.script("trap '' TERM; sleep 1000 & echo up >&3; wait").into_task(TASK);
    let place = Place::with(
        task.with_policies(Policies { timeout: Some(Duration::from_secs(1)), ..Policies::default() }),
        |_| {},
    )
    .await;
    let id = place.submit("null").await;
    lifeline.up().await;
    lifeline.gone().await;
    let job = place.ended(id).await;
    assert_eq!(job.error.as_deref(), Some("timed out: it took longer than 1s"));
    let endings: Vec<_> = story(&place.store, id).await.attempts.iter().map(|attempt| attempt.ending).collect();
    assert_eq!(endings, [Ending::TimedOut; 4]);
    place.executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stops_takes_its_commands_along_and_gives_their_jobs_back() {
    let mut lifeline = Lifeline::new();
    let task = lifeline.script("trap '' TERM; sleep 1000 & echo up >&3; wait; sleep 1000").into_task(TASK);
    let place = Place::with(task, |config| config.wait_for_tasks_on_shutdown = false).await;
    let id = place.submit("null").await;
    lifeline.up().await;
    soon(place.executor.stop()).await;
    lifeline.gone().await;
    assert_eq!(in_state(&place.store, id, JobState::Waiting).await.counts.attempt, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_leaves_behind_in_its_group_is_killed_when_it_ends() {
    for (code, state) in [(0, JobState::Success), (1, JobState::Failed)] {
        let mut lifeline = Lifeline::new();
        // It also holds standard output and standard error open.
        let command = lifeline.script(&format!("trap '' TERM; sleep 1000 & echo up >&3; echo 1; exit {code}"));
        let (job, _) = ran(command.fail_codes([1]).unwrap(), "null").await;
        assert_eq!(job.state, state);
        lifeline.up().await;
        lifeline.gone().await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_has_left_the_group_does_not_hold_the_job() {
    let folder = tempfile::tempdir().unwrap();
    pipe(folder.path(), "left");
    let stay = pipe(folder.path(), "stay");
    let (say_held, held) = oneshot::channel();
    // The one that left reads from here until the test is over.
    std::thread::spawn(move || drop(say_held.send(File::options().write(true).open(stay).unwrap())));
    let text = "setsid sh -c 'echo left >left; cat stay' & read line <left; echo 1";
    let (job, log) = ran(script(text, &[]).cwd(folder.path()), "null").await;
    assert_eq!((job.state, job.result.unwrap().as_str()), (JobState::Success, "1"));
    assert_eq!(log, ["its output is held open by a process that has left its group"]);
    drop(soon(held).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_programs_that_end_at_once_are_all_noticed() {
    let task = CommandTask::new(&["cat"]).unwrap().into_task(TASK);
    let place = Place::with(task, |config| config.core_pool_size = 32).await;
    let mut ids = Vec::new();
    for n in 0..200 {
        ids.push((n, place.submit(&n.to_string()).await));
    }
    for (n, id) in ids {
        assert_eq!(place.ended(id).await.result.unwrap().as_str(), n.to_string());
    }
    place.executor.stop().await;
}
