//! What a node logs as JSON, and the trace of a job from its submit to its run.

mod support;

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use serde_json::{Value, json};
use support::{Harness, PATIENCE, Place, on_both_databases};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const STATE: &str = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE";

/// `show` prints the trace that it got; `go_on` submits another job from within, and goes on as `show`.
const TASKS: &str = r#"
    [tasks.show]
    command = ["sh", "-c", 'echo "$TRACEPARENT|$TRACESTATE"']
    [tasks.go_on]
    command = ["sh", "-c", 'echo x']
    next = "show"
    stdin = "none"
"#;

fn submit(server: SocketAddr, headers: &str, body: &Value) -> (u16, Value) {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = body.to_string();
    let length = body.len();
    write!(stream, "POST /api/v1/jobs HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
}

#[test]
fn a_trace_goes_from_the_submit_to_the_run_and_into_commands() {
    for mut harness in Harness::on_both() {
        fs::write(harness.place.path().join("turnwise.toml"), TASKS).unwrap();
        let mut node = harness.spawn("node", &["--listen", "127.0.0.1:0"]);
        let ready = node.wait_until_ready();
        let server: SocketAddr = ready.split_once("http://").unwrap().1.trim().parse().unwrap();
        let place = &harness.place;
        let result = |answer: (u16, Value)| {
            assert_eq!(answer.0, 201, "{}", answer.1);
            let id = answer.1["id"].as_str().unwrap().to_owned();
            place.wait_for_state(&id, "success");
            let job = place.job(&id);
            (job["result"].as_str().unwrap().trim().to_owned(), job["traceparent"].clone())
        };
        let header =
            format!("traceparent: {PARENT}\r\ntracestate: rojo=00f067aa0ba902b7\r\ntracestate: congo=t61rcWkgMzE\r\n");
        let whole = (format!("{PARENT}|{STATE}"), json!(PARENT));
        assert_eq!(result(submit(server, &header, &json!({"task": "show"}))), whole);
        assert_eq!(
            result(submit(server, &header, &json!({"task": "go_on"}))),
            whole,
            "a step belongs to the trace of its job"
        );
        let own = PARENT.replace("0af7", "1111");
        let given = json!({"task": "show", "traceparent": own});
        assert_eq!(
            result(submit(server, &header, &given)),
            (format!("{own}|"), json!(own)),
            "the job's own comes first"
        );
        // A header that is none is ignored, a field is refused.
        let none = ("|".to_owned(), Value::Null);
        assert_eq!(result(submit(server, "traceparent: 00-nonsense\r\n", &json!({"task": "show"}))), none);
        let (status, problem) = submit(server, "", &json!({"task": "show", "traceparent": "00-nonsense"}));
        assert_eq!((status, &problem["errors"][0]["path"]), (422, &json!("/traceparent")));
        let (status, problem) = submit(server, "", &json!({"task": "show", "tracestate": "a=1"}));
        assert_eq!((status, &problem["errors"][0]["path"]), (422, &json!("/tracestate")));
        // The command goes on with the trace that it is called in.
        let output = place.command(&["enqueue", "show", "--wait"]).env("TRACEPARENT", PARENT).output().unwrap();
        assert!(String::from_utf8(output.stdout).unwrap().contains(PARENT));
        node.stop();
    }
}

fn a_log_as_json_has_an_object_a_line(place: &Place) {
    place.enqueue(&["flaky", r#"{"fail": 1}"#, "--retry", "none"]);
    let output = place.run(&[
        "serve",
        "--demo-tasks",
        "--until-empty",
        "--log-format",
        "json",
        "--log",
        "debug",
        "--listen",
        "none",
    ]);
    assert!(output.status.success(), "{output:?}");
    let log = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let failed =
        lines.iter().find(|line| line["message"] == "a job failed for good").unwrap_or_else(|| panic!("{log}"));
    assert_eq!((&failed["level"], &failed["task"]), (&json!("WARN"), &json!("flaky")), "{failed}");
    assert!(lines.iter().all(|line| line["timestamp"].is_string() && line["target"].is_string()), "{log}");
    place.refuses(&["serve", "--log-format", "xml"], 2, "log_format: must be text or json, not \"xml\"");
}

on_both_databases!(a_log_as_json_has_an_object_a_line);
