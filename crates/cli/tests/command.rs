//! Command tasks through the real binary, on a SQLite file.

mod support;

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
};

use serde_json::json;
use support::{PATIENCE, Place, Process};

#[test]
fn a_command_in_the_settings_file_runs_jobs_without_any_rust() {
    let place = Place::new().with(
        r#"
        [tasks.greet]
        command = ["sh", "-c", 'echo "to the log" >&2; printf "%s|" "$@"; cat', "greet", "{args.name}", "--group={group}"]
        [tasks.refuse]
        command = ["sh", "-c", "echo 'no such file' >&2; exit 2"]
        fail_codes = [2]
        "#,
    );
    let greeted = place.enqueue(&["greet", r#"{"name": "Ann $(id) \"B\""}"#, "--group", "acme"]);
    let refused = place.enqueue(&["refuse"]);
    place.work(&["--poll-interval", "50ms"]);
    let job = place.job(&greeted);
    let result = r#"Ann $(id) "B"|--group=acme|{"name": "Ann $(id) \"B\""}"#;
    assert_eq!((&job["state"], &job["result"]), (&json!("success"), &json!(result)), "{job}");
    assert!(place.told(&["logs", &greeted]).contains("to the log"));
    let job = place.job(&refused);
    assert_eq!((&job["state"], &job["attempt"]), (&json!("failed"), &json!(1)));
    assert_eq!(job["error"], json!("sh ended with exit code 2: no such file"));
}

#[test]
fn a_bad_command_is_refused_when_the_node_starts_and_by_no_other_command() {
    let place = Place::new().with("[tasks.resize]\ncommand = ['convert', '{args.from', 'x']\n");
    let refusal = place.refused(&["serve"], 2);
    assert!(refusal.starts_with("error: turnwise.toml: tasks.resize: command: \"{args.from\": "), "{refusal}");
    assert!(!place.path().join("turnwise.db").exists(), "nothing was begun");
    place.enqueue(&["resize", "{}"]);
}

#[test]
fn a_command_with_the_name_of_another_task_is_refused() {
    let place = Place::new().with("[tasks.sleep]\ncommand = ['sleep', '1']\n");
    let refusal = place.refused(&["serve", "--demo-tasks"], 2);
    assert!(refusal.contains("two tasks are named \"sleep\""), "{refusal}");
}

#[test]
fn a_node_that_is_told_twice_to_stop_leaves_no_command_behind() {
    let place =
        Place::new().with("[tasks.stay]\ncommand = ['sh', '-c', 'exec 3>lifeline; sleep 1000 & echo up >&3; wait']\n");
    let lifeline = place.path().join("lifeline");
    assert!(Command::new("mkfifo").arg(&lifeline).status().unwrap().success());
    let (say, heard) = mpsc::channel();
    thread::spawn(move || {
        let mut lines = BufReader::new(File::open(lifeline).unwrap());
        let mut up = String::new();
        lines.read_line(&mut up).unwrap();
        let _ = say.send(up);
        lines.read_to_string(&mut String::new()).unwrap();
        let _ = say.send("gone".to_owned());
    });
    place.enqueue(&["stay"]);
    let mut child =
        place.command(&["serve", "--log", "info"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut node = Process::new(child);
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), "up\n");
    node.signal("TERM");
    // The second signal is sent only after the first has taken effect: two at once may arrive as one.
    let mut line = String::new();
    while !line.contains("stopping") {
        line.clear();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "it ended before the signal");
    }
    node.signal("TERM");
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), "gone");
    assert_eq!(node.wait().code(), Some(130));
}
