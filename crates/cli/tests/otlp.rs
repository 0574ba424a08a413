//! The spans that a node sends: of submits over HTTP and of the runs of jobs. With the feature `otlp` only.
#![cfg(feature = "otlp")]

mod support;

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use support::{Collector, Harness, Node, PATIENCE, Place, Span, until};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";
const CANARY: &str = "canary7f3a9d21c0ffee";

/// `repeat` says what it got in its result, its log and its error, and which trace it belongs to in its result.
const TASKS: &str = r#"
    [tasks.repeat]
    command = ["sh", "-c", 'cat; echo "|$TRACEPARENT|$TRACESTATE"; echo "with canary7f3a9d21c0ffee" >&2; exit "$1"', "repeat", "{args.code}"]
    retry = "none"
"#;

fn submit(server: SocketAddr, path: &str, headers: &str, body: &Value) -> (u16, Value) {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = body.to_string();
    let length = body.len();
    write!(stream, "POST {path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
}

fn started(harness: &mut Harness, flags: &[&str]) -> (Node, SocketAddr) {
    let mut node = harness.spawn("node", &[&["--demo-tasks", "--listen", "127.0.0.1:0"], flags].concat());
    let ready = node.wait_until_ready();
    (node, ready.split_once("http://").unwrap().1.trim().parse().unwrap())
}

fn run_of(collector: &Collector, job: &str) -> Span {
    collector.span(&format!("the run of {job}"), |span| span.attributes.get("turnwise.job").is_some_and(|id| id == job))
}

fn args(code: u32) -> Value {
    json!({"card": CANARY, "code": code})
}

#[test]
fn a_submit_and_the_runs_of_its_jobs_are_one_trace_and_say_nothing_of_arguments() {
    for mut harness in Harness::on_both() {
        fs::write(harness.place.path().join("turnwise.toml"), TASKS).unwrap();
        let collector = Collector::start();
        collector.serve(&mut harness.place);
        let (node, server) = started(&mut harness, &["--log", "debug"]);
        let place = &harness.place;
        let id_of = |answer: &Value| answer["id"].as_str().unwrap().to_owned();
        let submits = || collector.spans().into_iter().filter(|span| span.name == "submit").count();

        // In the caller's trace.
        let caller = format!("traceparent: 00-{TRACE}-{CALLER}-01\r\ntracestate: rojo=00f067aa0ba902b7\r\n");
        let one = json!({"task": "repeat", "args": args(0)});
        let (status, answer) = submit(server, "/api/v1/jobs", &caller, &one);
        assert_eq!(status, 201, "{answer}");
        let id = id_of(&answer);
        let run = run_of(&collector, &id);
        let submitted = collector.span("its submit", |span| span.id == run.parent);
        assert_eq!((submitted.name.as_str(), run.name.as_str()), ("submit", "run"));
        assert_eq!([&submitted.trace, &run.trace], [TRACE, TRACE]);
        assert_eq!(submitted.parent, CALLER);
        assert_eq!(run.attributes["turnwise.task"], "repeat");
        assert_eq!((run.attributes["turnwise.outcome"].as_str(), run.failed), ("done", false));
        assert_eq!(submitted.attributes["http.response.status_code"], "201");
        let job = place.job(&id);
        assert_eq!(job["traceparent"], format!("00-{TRACE}-{}-01", submitted.id));
        let in_the_program = format!("|00-{TRACE}-{}-01|rojo=00f067aa0ba902b7", submitted.id);
        assert!(job["result"].as_str().unwrap().contains(&in_the_program), "{job}");

        // Without one: a new trace. All jobs of a call have the same parent; one failed.
        let batch = json!({"jobs": [{"task": "repeat", "args": args(0)}, {"task": "repeat", "args": args(65)}]});
        let (status, answer) = submit(server, "/api/v1/jobs/batch", "", &batch);
        assert_eq!(status, 201, "{answer}");
        let runs = [0, 1].map(|at| run_of(&collector, &id_of(&answer["jobs"][at])));
        let first = collector.span("the submit of both", |span| span.id == runs[0].parent);
        assert_eq!((first.parent.as_str(), first.attributes["turnwise.jobs"].as_str()), ("", "2"));
        assert!(runs.iter().all(|run| run.trace == first.trace && run.parent == first.id), "{runs:?} of {first:?}");
        assert_ne!(first.trace, TRACE);
        let ends = runs.map(|run| (run.attributes["turnwise.outcome"].clone(), run.failed));
        assert_eq!(ends, [("done".to_owned(), false), ("fail".to_owned(), true)]);

        // A job's own trace comes first; of one that its submitter does not record, nothing is sent.
        let own = json!({"task": "noop", "traceparent": format!("00-{}-{CALLER}-01", TRACE.replace("0af7", "1111"))});
        let run = run_of(&collector, &id_of(&submit(server, "/api/v1/jobs", &caller, &own).1));
        assert_eq!((run.trace, run.parent.as_str()), (TRACE.replace("0af7", "1111"), CALLER));
        let unrecorded = format!("traceparent: 00-{}-{CALLER}-00\r\n", TRACE.replace("0af7", "2222"));
        let unseen = id_of(&submit(server, "/api/v1/jobs", &unrecorded, &json!({"task": "noop"})).1);
        place.wait_for_state(&unseen, "success");
        // A refused submit has a span as well. A job that was submitted elsewhere has no trace: its run is the first of one.
        let (status, _) = submit(
            server,
            "/api/v1/jobs",
            "",
            &json!({"task": "repeat", "args": args(0), "after": "01890163-d869-7739-8aea-5966c26f8ad9"}),
        );
        assert!((400..500).contains(&status), "{status}");
        let alone = run_of(&collector, &place.enqueue(&["noop"]));
        assert_eq!((alone.parent.as_str(), alone.trace.len()), ("", 32));
        until("the span of the refused submit", || (submits() == 4).then_some(()));

        node.stop();
        let text = collector.text();
        assert!(text.contains(&id) || text.contains("repeat"), "{text}");
        assert!(!text.contains(CANARY), "{text}");
        assert!(!text.contains(&unseen) && !collector.spans().iter().any(|span| span.trace.starts_with("2222")));
        assert!(collector.services().iter().all(|name| name == "jobs-of-the-test"), "{:?}", collector.services());
    }
}

/// The last spans are sent when the node stops.
#[test]
fn a_node_that_stops_sends_what_is_left() {
    let mut harness = Harness::on_sqlite();
    let collector = Collector::start();
    collector.serve(&mut harness.place);
    harness.place.set("OTEL_BSP_SCHEDULE_DELAY", "3600000");
    let (node, _) = started(&mut harness, &[]);
    let id = harness.place.enqueue(&["noop"]);
    harness.place.wait_for_state(&id, "success");
    assert_eq!(collector.spans().len(), 0);
    node.stop();
    assert_eq!(run_of(&collector, &id).name, "run");
}

#[test]
fn a_collector_that_is_away_or_silent_holds_up_neither_jobs_nor_the_end_of_a_node() {
    // Accepts, and never answers; or is not there.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (address, says) in [(gone, Some("spans are dropped")), (silent.local_addr().unwrap(), None)] {
        let mut harness = Harness::on_sqlite();
        harness.place.set("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"));
        harness.place.set("OTEL_EXPORTER_OTLP_TIMEOUT", "60000");
        harness.place.set("OTEL_BSP_SCHEDULE_DELAY", "50");
        harness.place.set("OTEL_BSP_MAX_QUEUE_SIZE", "16");
        let (node, server) = started(&mut harness, &[]);
        for _ in 0..100 {
            let (status, answer) = submit(server, "/api/v1/jobs", "", &json!({"task": "noop"}));
            assert_eq!(status, 201, "{answer}");
        }
        until("all jobs to be done", || {
            let done = harness.place.json(&["jobs", "--state", "success", "--json", "--limit", "200"]);
            (done.as_array().unwrap().len() == 100).then_some(())
        });
        if let Some(says) = says {
            until("a word about it", || node.errors().contains(says).then_some(()));
            assert_eq!(node.errors().matches(says).count(), 1, "said once: {}", node.errors());
        }
        let began = Instant::now();
        node.stop();
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}, and an answer has 60 s", began.elapsed());
    }
}

#[test]
fn what_cannot_be_done_is_refused_by_the_name_of_its_variable() {
    let refused = |variable, value: &str| {
        let mut place = Place::on_sqlite();
        place.set("OTEL_EXPORTER_OTLP_ENDPOINT", "https://127.0.0.1:1");
        place.set(variable, value);
        place.refused(&["serve", "--until-empty", "--listen", "none"], 2)
    };
    assert!(refused("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc").contains("must be http/protobuf, not \"grpc\""));
    assert!(refused("OTEL_EXPORTER_OTLP_CERTIFICATE", "none.pem").contains("OTEL_EXPORTER_OTLP_CERTIFICATE: none.pem"));
    // Other programs of the machine may want it; here it is off.
    let mut place = Place::on_sqlite();
    place.set("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    place.set("OTEL_SDK_DISABLED", "true");
    place.work(&["--listen", "none"]);
}
