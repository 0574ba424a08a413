//! What scripts rely on: exit codes by the end of a job, results on stdout, arguments from files and from stdin; on both databases.

mod support;

use std::{
    fs,
    io::{BufRead, BufReader},
    process::Stdio,
    time::Duration,
};

use serde_json::json;
use support::{Place, Process, on_both_databases, refused, said, succeeded};

const TASKS: &str = r#"
    [executor]
    poll_interval = "50ms"
    [tasks.echo]
    command = ["cat"]
    [tasks.quiet]
    command = ["true"]
    [tasks.refuse]
    command = ["sh", "-c", "echo 'no such customer' >&2; exit 65"]
    [tasks.give-up]
    command = ["sh", "-c", 'echo "{{\"outcome\": \"cancelled\"}}" > "$TURNWISE_OUTCOME"']
    [tasks.stay]
    command = ["sleep", "1000"]
"#;

fn set_up(place: &Place) {
    fs::write(place.path().join("turnwise.toml"), TASKS).unwrap();
    fs::write(place.path().join("args.json"), "{\"b\": 1.50,\n \"a\": []}\n").unwrap();
}

fn a_submit_that_waits_ends_as_its_job_and_prints_the_result(place: &Place) {
    set_up(place);
    let node = place.serve(&[]);
    let output = place.run(&["enqueue", "echo", r#"{"n":1.50}"#, "--wait"]);
    assert_eq!(succeeded(&output), "{\"n\":1.50}\n");
    let id = said(&output).trim().strip_prefix("job ").expect("the id is on stderr").to_owned();
    assert_eq!(place.state(&id), "success");
    assert_eq!(place.told(&["enqueue", "quiet", "--wait"]), "null\n");
    for (task, code, line) in
        [("refuse", 4, " failed: sh ended with exit code 65: no such customer\n"), ("give-up", 5, " was cancelled\n")]
    {
        let output = place.run(&["enqueue", task, "--wait"]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let text = said(&output);
        let id = text.lines().next().and_then(|first| first.strip_prefix("job ")).unwrap();
        assert_eq!(text, format!("job {id}\nerror: job {id}{line}"));
        let watched = place.run(&["job", id, "--watch"]);
        assert_eq!(refused(&watched, code), format!("error: job {id}{line}"));
    }
    let lines = "{\"task\":\"echo\",\"args\":1}\n{\"task\":\"give-up\"}\n{\"task\":\"refuse\"}\n{\"task\":\"echo\",\"args\":4}\n";
    let output = place.run_with_input(&["enqueue", "--stdin", "--wait"], lines);
    assert_eq!(output.status.code(), Some(4), "a failure counts more than a cancel");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "1\nnull\nnull\n4\n");
    let watched = place.told(&["job", &id, "--watch"]);
    assert!(watched.starts_with("success") && watched.contains("{\"n\":1.50}"), "{watched}");
    node.stop();
}

fn arguments_come_from_a_file_or_from_stdin(place: &Place) {
    set_up(place);
    let args = |id: &str| place.job(id)["args"].clone();
    assert_eq!(args(&place.enqueue(&["echo", "@args.json"])), json!({"b": 1.5, "a": []}));
    let piped = succeeded(&place.run_with_input(&["enqueue", "echo", "-"], "[1,\n2]\n"));
    assert_eq!(args(piped.trim()), json!([1, 2]));
    place.refuses(&["enqueue", "echo", "@none.json"], 2, "args: none.json: No such file");
    place.refuses(&["enqueue", "echo", "@"], 2, "args: @ names no file; write @FILE, or - for stdin");
    place.refuses(&["jobs", "--server", "http://127.0.0.1:1", "--token", "@"], 2, "token: @ names no file");
    fs::write(place.path().join("bad.json"), "{").unwrap();
    place.refuses(&["enqueue", "echo", "@bad.json"], 2, "args: is not JSON: EOF while parsing");
    fs::write(place.path().join("large.json"), "1".repeat(2_000_000)).unwrap();
    place.refuses(&["enqueue", "echo", "@large.json"], 2, "args: is 1048577 bytes long, at most 1048576");
    place.told(&["schedule", "add", "s", "echo", "@args.json", "--every", "1h"]);
    let id = place.told(&["schedule", "run", "s"]);
    assert_eq!(args(id.trim()), json!({"b": 1.5, "a": []}));
}

fn an_interrupted_wait_ends_with_130_and_leaves_the_job(place: &Place) {
    set_up(place);
    let mut command = place.command_in_background(&["enqueue", "stay", "--wait"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut waiting = Process::new(child);
    let mut line = String::new();
    assert_ne!(stderr.read_line(&mut line).unwrap(), 0);
    let id = line.trim().strip_prefix("job ").unwrap();
    // The command listens before it shows the id: nothing that is sent now is lost.
    waiting.signal("INT");
    let status = waiting.exit_within(Duration::from_secs(60), "a wait that was interrupted");
    assert_eq!(status.code(), Some(130), "{status}");
    assert_eq!(place.state(id), "waiting");
}

on_both_databases!(
    a_submit_that_waits_ends_as_its_job_and_prints_the_result,
    arguments_come_from_a_file_or_from_stdin,
    an_interrupted_wait_ends_with_130_and_leaves_the_job,
    counts_have_a_bound_unless_all_are_wanted,
);

#[test]
fn the_versions_of_the_binary_and_of_the_schema_are_shown() {
    let file = Place::new();
    let sqlite = format!("sqlite:{}", file.path().join("jobs.db").display());
    for database in [sqlite, turnwise_testpg::Cluster::shared().fresh_database().unwrap()] {
        let place = Place::on(database);
        let version = place.told(&["--version"]);
        let (postgres, sqlite) = (turnwise_postgres::schema_version(), turnwise_sqlite::schema_version());
        let known =
            format!("turnwise {} (schema versions: PostgreSQL {postgres}, SQLite {sqlite})\n", turnwise::VERSION);
        assert_eq!(version, known);
        let needed = if place.database().starts_with("sqlite:") { sqlite } else { postgres };
        let old = place.refused(&["migrate", "--check"], 1);
        let versions = format!("it has version 0, turnwise {} needs {needed}; run", turnwise::VERSION);
        assert!(old.starts_with("error: the schema is not up to date: ") && old.contains(&versions), "{old}");
        place.told(&["migrate"]);
        let new = place.told(&["migrate", "--check"]);
        assert_eq!(new, format!("the schema is up to date: version {needed}, of turnwise {}\n", turnwise::VERSION));
    }
}

fn counts_have_a_bound_unless_all_are_wanted(place: &Place) {
    let jobs = |name: &str, count: usize| {
        format!("{{\"task\":\"{name}\",\"queue\":\"{name}\",\"group\":\"{name}\",\"key\":\"{name}\"}}\n").repeat(count)
    };
    succeeded(&place.run_with_input(&["enqueue", "--stdin"], &(jobs("early", 99_999) + &jobs("late", 2))));
    let remark = "only the oldest 100000 unfinished jobs were counted; --exact counts all\n";
    for (what, column) in [("queues", 2), ("groups", 2), ("tasks", 1), ("keys", 1)] {
        let output = place.run(&[what]);
        let text = succeeded(&output);
        let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().split_whitespace().nth(column);
        assert_eq!((row("early"), row("late")), (Some("99999+"), Some("1+")), "{what}");
        assert_eq!(said(&output), remark, "{what}");
        let counted = |flags: &[&str]| {
            let all = place.json(&[&[what, "--json"], flags].concat());
            let late = all.as_array().unwrap().iter().find(|one| one["name"] == "late").unwrap().clone();
            (late["waiting"].as_u64().unwrap(), late["at_least"].as_bool().unwrap())
        };
        assert_eq!((counted(&[]), counted(&["--exact"])), ((1, true), (2, false)), "{what}");
    }
    let frame = place.told(&["top", "--once"]);
    assert!(frame.lines().next().unwrap().contains("waiting 100000+"), "{frame}");
    let note = "counted: the oldest 100000 jobs and all that nodes have";
    assert!(frame.lines().last().unwrap().starts_with(note), "{frame}");
    // What nodes have is counted, however young it is.
    place.told(&["queue", "pause", "early"]);
    let node = place.serve(&["--demo-tasks", "--slots", "1", "--poll-interval", "50ms"]);
    let young = place.enqueue(&["sleep", r#"{"ms":3600000}"#, "--group", "young"]);
    place.wait_for_state(&young, "running");
    assert_eq!(place.listed("groups", "young")["running"], 1);
    let frame = place.told(&["top", "--once"]);
    let row = frame.lines().find(|line| line.starts_with("young ")).unwrap();
    assert!(row.contains("100.0 %"), "it has had all slot time: {frame}");
    place.told(&["cancel", &young]);
    node.stop();
}
