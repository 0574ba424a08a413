//! What programs answer: by their exit codes, and by the files that the environment names.

#![cfg(unix)]

use std::time::Duration;

use turnwise::{CommandTask, JobRequest, JobState, Registry, story::Level, testing::Kit};

/// The program runs this script.
fn script(text: &str) -> CommandTask {
    let text = text.replace('{', "{{").replace('}', "}}");
    CommandTask::new(&["sh", "-c", &text]).unwrap().pass(["PATH"]).unwrap()
}

/// Tasks named `first` and `second`; the second prints what it gets.
async fn kit(first: CommandTask) -> Kit {
    let mut registry = Registry::new();
    registry.add(first.into_task("first")).unwrap();
    registry.add(CommandTask::new(&["cat"]).unwrap().into_task("second")).unwrap();
    Kit::new(registry).await.unwrap()
}

fn job() -> JobRequest {
    JobRequest::from_json("first", r#"{"n":1}"#).retry("durations:10s".parse().unwrap())
}

/// How the first run of such a program ends: state, attempts, result or error.
async fn ends(first: CommandTask) -> (JobState, u32, String) {
    let kit = kit(first).await;
    let ran = kit.run(job()).await.unwrap();
    let result = ran.result.as_ref().map(ToString::to_string);
    (ran.state, ran.counts.attempt, result.or(ran.error.clone()).unwrap_or_default())
}

fn writes(outcome: &str, code: i32) -> CommandTask {
    script(&format!("echo '{outcome}' > \"$TURNWISE_OUTCOME\"; echo printed; exit {code}"))
}

#[tokio::test]
async fn an_outcome_is_what_the_program_writes() {
    let done = |result: &str| (JobState::Success, 1, result.to_owned());
    assert_eq!(ends(writes(r#"{"outcome":"done","result":{"pages":3.50}}"#, 0)).await, done(r#"{"pages":3.50}"#));
    // Without one of its own, the result is the output.
    assert_eq!(ends(writes(r#"{"outcome":"done"}"#, 0)).await, done(r#""printed""#));
    let fail = r#"{"outcome":"fail","error":"no such customer"}"#;
    let error = r#"{"outcome":"error","error":"no water"}"#;
    for code in [0, 1, 65, 75] {
        assert_eq!(ends(writes(fail, code)).await, (JobState::Failed, 1, "no such customer".to_owned()), "{code}");
    }
    assert_eq!(ends(writes(error, 0)).await, (JobState::Stuck, 1, "no water".to_owned()));
    assert_eq!(ends(writes(error, 1)).await, (JobState::Stuck, 1, "no water".to_owned()));
    // The code says that another try is useless.
    assert_eq!(ends(writes(error, 65)).await, (JobState::Failed, 1, "no water".to_owned()));
    assert_eq!(ends(writes(r#"{"outcome":"cancelled"}"#, 0)).await.0, JobState::Cancelled);
}

#[tokio::test]
async fn a_snooze_spends_no_attempt_and_lasts_as_long_as_the_program_says() {
    let by_code = script("exit 75");
    let longer = script("exit 7").snooze_codes([7]).unwrap().snooze(Duration::from_secs(600)).unwrap();
    let by_file = writes(r#"{"outcome":"snooze","for":"90s"}"#, 0);
    let by_both = writes(r#"{"outcome":"snooze","for":"90s"}"#, 75);
    for (program, seconds) in [(by_code, 60), (longer, 600), (by_file, 90), (by_both, 90)] {
        let kit = kit(program).await;
        let before = kit.now();
        let ran = kit.run(job()).await.unwrap();
        assert_eq!((ran.state, ran.counts.attempt), (JobState::Waiting, 0));
        assert_eq!(ran.due_at.unwrap().since(before), Duration::from_secs(seconds));
    }
    // Where no code means a snooze, 75 is an error as any other.
    assert_eq!(ends(script("exit 75").snooze_codes([]).unwrap()).await.0, JobState::Stuck);
    assert_eq!(ends(script("exit 65").fail_codes([]).unwrap()).await.0, JobState::Stuck);
    assert_eq!(ends(script("exit 65")).await, (JobState::Failed, 1, "sh ended with exit code 65".to_owned()));
}

#[tokio::test]
async fn a_job_goes_on_as_the_task_that_the_program_names_or_its_settings() {
    let written = writes(r#"{"outcome":"next","job":{"task":"second","args":{"n":2},"in":"5m"}}"#, 0);
    let kit_of_next = kit(written.next("nowhere").unwrap()).await;
    let before = kit_of_next.now();
    let ran = kit_of_next.run(job()).await.unwrap();
    assert_eq!((ran.state, ran.task.as_str(), ran.args.as_str()), (JobState::Waiting, "second", r#"{"n":2}"#));
    assert_eq!(ran.due_at.unwrap().since(before), Duration::from_secs(300));
    kit_of_next.advance(Duration::from_secs(300));
    kit_of_next.drain().await.unwrap();
    assert_eq!(kit_of_next.look(ran.id).await.unwrap().result.clone().unwrap().as_str(), r#"{"n":2}"#);

    let fail = r#"{"outcome":"fail","error":"x"}"#;
    for (program, result) in [
        (script("echo '{\"n\":3}'"), Some(r#"{"n":3}"#)),
        (script("cat >/dev/null"), Some(r#"{"n":1}"#)),
        (writes(r#"{"outcome":"done","result":4}"#, 0), Some("4")),
        (writes(fail, 0), None),
        (script("exit 65"), None),
    ] {
        let kit = kit(program.next("second").unwrap()).await;
        let ran = kit.run(job()).await.unwrap();
        kit.drain().await.unwrap();
        let ended = kit.look(ran.id).await.unwrap();
        assert_eq!(ended.result.as_ref().map(|result| result.as_str()), result);
        assert_eq!(ended.task.as_str(), if result.is_some() { "second" } else { "first" });
    }
}

#[tokio::test]
async fn an_outcome_that_cannot_be_read_is_a_failure_that_says_what_is_wrong_and_where() {
    for (written, problem) in [
        (r#"{"outcome":"done","result":1"#, "EOF while parsing an object"),
        ("{\"outcome\":\n\"well\"}", "outcome: must be done, error, fail, snooze, cancelled or next, not \"well\""),
        (r#"{"outcome":"snooze"}"#, "for: is missing"),
        (r#"{"outcome":"done","results":1}"#, "unknown name \"results\"; known are outcome, result, error, for, job"),
        (r#"{"outcome":"next","job":{"task":"t","queue":"q"}}"#, "job: queue: has no effect on the next step"),
        (r#"{"outcome":"next","job":{"task":"t","in":"soon"}}"#, "job: in: "),
        ("", "EOF"),
        ("done", "expected value at column 1"),
        (r#"{"outcome":"done"} {}"#, "trailing characters"),
    ] {
        let (state, attempts, error) = ends(writes(written, 0)).await;
        assert_eq!((state, attempts), (JobState::Stuck, 1), "{written}");
        let wanted = format!("sh: what it wrote to TURNWISE_OUTCOME cannot be used: {problem}");
        assert!(error.starts_with(&wanted), "{written}: {error}");
    }
    let large = script("head -c 3000000 /dev/zero > \"$TURNWISE_OUTCOME\"");
    let (state, _, error) = ends(large).await;
    assert_eq!(state, JobState::Failed);
    assert!(error.ends_with("cannot be used: is longer than 1114112 bytes"), "{error}");
    let (state, _, error) = ends(script("mkfifo \"$TURNWISE_OUTCOME\"")).await;
    assert_eq!(state, JobState::Stuck);
    assert!(error.ends_with("is not a file"), "{error}");
}

#[tokio::test]
async fn a_failed_program_is_not_believed_that_all_is_well() {
    for written in [r#"{"outcome":"done"}"#, r#"{"outcome":"next","job":{"task":"second"}}"#, "nonsense"] {
        let kit = kit(writes(written, 3)).await;
        let ran = kit.run(job()).await.unwrap();
        assert_eq!((ran.state, ran.error.as_deref()), (JobState::Stuck, Some("sh ended with exit code 3")));
        let warned = ran.story.lines.iter().find(|line| line.level == Level::Warn).unwrap();
        let text = &warned.text;
        assert!(text.starts_with("TURNWISE_OUTCOME: ") && text.ends_with("that sh ended with exit code 3"), "{text}");
    }
}

#[tokio::test]
async fn progress_is_the_last_line_that_the_program_has_written() {
    let say = |text: &str| format!("echo '{text}' >> \"$TURNWISE_PROGRESS\"");
    let lines = [r#"{"done":1,"total":10}"#, r#"{"done":7,"total":10,"text":"pages"}"#].map(say).join(";");
    let kit_of = kit(script(&lines)).await;
    let ran = kit_of.run(job()).await.unwrap();
    let progress = ran.story.progress.as_ref().unwrap();
    assert_eq!((progress.done, progress.total, progress.text.as_str()), (7, 10, "pages"));

    let kit_of = kit(script(&say(r#"{"done":1,"of":10}"#))).await;
    let ran = kit_of.run(job()).await.unwrap();
    assert_eq!(ran.state, JobState::Success, "a report that cannot be read is no failure");
    let story = &ran.story;
    assert_eq!(story.progress, None);
    assert!(story.lines[0].text.starts_with("TURNWISE_PROGRESS: its last line cannot be read: unknown name \"of\""));
}
