//! What programs answer beside success and failure, through the real binary, on both databases.

mod support;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::Stdio,
};

use serde_json::{Value, json};
use support::{Place, Process, on_both_databases, until};

const TASKS: &str = r#"
    [tasks.split]
    command = ["sh", "-c", '''
        printf '{"outcome": "next", "job": {"task": "join", "args": {"parts": 2}}}' > "$TURNWISE_OUTCOME"''']
    [tasks.join]
    command = ["cat"]
    [tasks.later]
    command = ["sh", "-c", '[ -e again ] || { touch again; exit 75; }; echo 7']
    snooze = "10ms"
    [tasks.refuse]
    command = ["sh", "-c", '''
        echo '{"outcome": "fail", "error": "no such customer"}' > "$TURNWISE_OUTCOME"''']
    [tasks.garbled]
    command = ["sh", "-c", '''echo '{"outcome": "done", "reslt": 1}' > "$TURNWISE_OUTCOME"''']
    retry = "none"
    [tasks.stay]
    command = ["sh", "-c", '''
        echo '{"done": 3, "total": 10, "text": "pages"}' >> "$TURNWISE_PROGRESS"
        echo '{"outcome": "done"}' > "$TURNWISE_OUTCOME"
        echo up > "up-$TURNWISE_JOB_ID"; sleep 1000 & wait''']
"#;

fn set_up(place: &Place) {
    fs::create_dir(place.path().join("tmp")).unwrap();
    // The braces of the scripts are no placeholders.
    let tasks = TASKS.replace('{', "{{").replace('}', "}}");
    fs::write(place.path().join("turnwise.toml"), tasks).unwrap();
}

/// A node whose temporary folder is the place's own.
fn serve(place: &Place) -> Process {
    let mut command = place.command(&["serve", "--log", "off", "--poll-interval", "50ms", "--lease", "2s"]);
    let mut child = command.env("TMPDIR", place.path().join("tmp")).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(ready.contains("ready"), "{ready}");
    Process::new(child)
}

fn stop(mut node: Process) {
    node.signal("TERM");
    assert_eq!(node.wait().code(), Some(0));
}

fn left_behind(place: &Place) -> Vec<PathBuf> {
    fs::read_dir(place.path().join("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn ended(place: &Place, id: &str) -> Value {
    until("its end", || {
        let job = place.job(id);
        matches!(job["state"].as_str(), Some("success" | "failed" | "cancelled")).then_some(job)
    })
}

fn every_answer_of_a_program_is_understood(place: &Place) {
    set_up(place);
    let ids: Vec<_> = ["split", "later", "refuse"].iter().map(|task| place.enqueue(&[task, "{\"n\": 1}"])).collect();
    let garbled = place.enqueue(&["garbled", "--retry", "none"]);
    let node = serve(place);
    let split = ended(place, &ids[0]);
    assert_eq!((&split["task"], &split["result"]), (&json!("join"), &json!({"parts": 2})), "{split}");
    let later = ended(place, &ids[1]);
    assert_eq!((&later["state"], &later["result"], &later["attempt"]), (&json!("success"), &json!(7), &json!(1)));
    let refused = ended(place, &ids[2]);
    assert_eq!((&refused["state"], &refused["error"]), (&json!("failed"), &json!("no such customer")));
    assert_eq!(refused["attempt"], json!(1), "for good");
    let problem = "sh: what it wrote to TURNWISE_OUTCOME cannot be used: unknown name \"reslt\"; known are outcome, \
                   result, error, for, job at column 27";
    assert_eq!(ended(place, &garbled)["error"], json!(problem));
    stop(node);
    assert_eq!(left_behind(place), [""; 0].map(PathBuf::from));
}

/// A job that runs, and whose progress is known: the node has looked.
fn running(place: &Place, flags: &[&str]) -> String {
    let id = place.enqueue(&[&["stay", "--retry", "none"], flags].concat());
    until("its program", || place.path().join(format!("up-{id}")).exists().then_some(()));
    id
}

fn no_folder_is_left_after_a_cancel_a_timeout_or_a_stop(place: &Place) {
    set_up(place);
    let node = serve(place);
    let cancelled = running(place, &[]);
    let progress = until("its progress", || Some(place.job(&cancelled)["progress"].clone()).filter(|it| !it.is_null()));
    assert_eq!(progress, json!({"done": 3, "total": 10, "text": "pages"}));
    assert_eq!(left_behind(place).len(), 1);
    place.told(&["cancel", &cancelled]);
    assert_eq!(ended(place, &cancelled)["state"], json!("cancelled"));
    let late = running(place, &["--timeout", "1s"]);
    assert_eq!(ended(place, &late)["error"], json!("timed out: it took longer than 1s"));
    until("the folders to be gone", || left_behind(place).is_empty().then_some(()));
    stop(node);
}

fn the_folder_of_a_killed_node_is_swept_by_the_next(place: &Place) {
    set_up(place);
    let mut node = serve(place);
    let id = running(place, &[]);
    let left = left_behind(place);
    assert_eq!(left.len(), 1);
    node.kill();
    assert_eq!(left_behind(place), left);
    place.told(&["cancel", &id]);
    let node = serve(place);
    // The first program that the node starts.
    let next = place.enqueue(&["join", "1"]);
    assert_eq!(ended(place, &next)["state"], json!("success"));
    until("the folder to be gone", || (!left[0].exists()).then_some(()));
    stop(node);
    assert_eq!(left_behind(place).len(), 0);
}

on_both_databases!(
    every_answer_of_a_program_is_understood,
    no_folder_is_left_after_a_cancel_a_timeout_or_a_stop,
    the_folder_of_a_killed_node_is_swept_by_the_next,
);
