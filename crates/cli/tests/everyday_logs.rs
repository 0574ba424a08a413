//! What a real `turnwise serve` logs when things go wrong: each thing once, in words a person can act on, and bounded in rate.

mod support;

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use serde_json::json;
use support::{Harness, Node, Place, on_both_databases, until};
use turnwise_testpg::Cluster;

on_both_databases!(
    a_job_that_fails_is_a_line_with_its_error,
    a_job_that_killed_its_nodes_is_a_line_with_its_task_and_group,
    many_failures_are_ten_lines_and_a_count,
    refused_periodic_jobs_are_ten_lines_and_a_count,
    what_was_left_out_is_counted_when_the_node_stops,
    a_queue_that_pauses_itself_says_so,
    a_job_of_an_unknown_task_that_holds_a_serial_queue_is_named_first,
);

const TASKS: &str = "[tasks.broken]\ncommand = ['sh', '-c', 'echo no disk >&2; exit 1']\nretry = 'none'\n\
                     [tasks.shaky]\ncommand = ['sh', '-c', 'echo try later >&2; exit 1']\nretry = 'durations:1h'\n";

/// A node with these tasks, whose log is read.
struct Logged<'a> {
    place: &'a Place,
    serving: support::Process,
}

impl<'a> Logged<'a> {
    fn start(place: &'a Place) -> Self {
        Self::start_with(place, &["--name", "worker"])
    }

    fn start_with(place: &'a Place, flags: &[&str]) -> Self {
        fs::write(place.path().join("turnwise.toml"), TASKS).unwrap();
        let log = fs::File::create(place.path().join("log")).unwrap();
        let mut command = place.command(&[&["serve"], flags].concat());
        Self {
            place,
            serving: support::Process::new(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()),
        }
    }

    fn lines(&self) -> Vec<String> {
        fs::read_to_string(self.place.path().join("log")).unwrap().lines().map(str::to_owned).collect()
    }

    /// Waits for a line that holds all of these.
    fn line(&self, parts: &[&str]) -> String {
        let found = |line: &String| parts.iter().all(|part| line.contains(part));
        until(&format!("a line with {parts:?}"), || self.lines().into_iter().find(found))
    }

    fn count(&self, part: &str) -> usize {
        self.lines().iter().filter(|line| line.contains(part)).count()
    }

    fn stop(mut self) {
        self.serving.signal("TERM");
        assert!(self.serving.wait().success());
    }
}

fn a_job_that_fails_is_a_line_with_its_error(place: &Place) {
    let log = Logged::start(place);
    let (broken, shaky) = (place.enqueue(&["broken", "--group", "acme"]), place.enqueue(&["shaky"]));
    let by_hand = place.enqueue(&["broken", "--retry", "manual"]);
    let late = place.enqueue(&["broken", "--in", "1h", "--expires", "1ms"]);
    let (job, group) = (format!("job={broken}"), "group=acme");
    log.line(&["WARN", "a job failed for good", &job, "task=broken", group, "attempt=1", "no disk"]);
    let retried =
        log.line(&["INFO", "stuck until its next try", &shaky, "task=shaky", "attempt=1", "try later", "due="]);
    // The line comes once the end is stored: only from then on the row says when the next try is.
    let due = place.job(&shaky)["due_at"].as_str().unwrap().to_owned();
    assert!(retried.contains(&format!("due={due}")), "{retried}");
    log.line(&["INFO", "stuck until a person", &by_hand]);
    // A person's decision is in the log of the process that carries it out.
    let ready = log.line(&["ready: ", "http://"]);
    let server = format!("http://{}", ready.split_once("http://").unwrap().1.trim());
    place.told(&["fail", &by_hand, "--server", &server]);
    let fields = ["task=broken", "group=default", "attempt=1", "no disk"];
    log.line(&[&["WARN", "a job failed for good", &format!("job={by_hand}"), "a person"], &fields[..]].concat());
    let many: Vec<_> = (0..2).map(|_| place.enqueue(&["broken", "--retry", "manual"])).collect();
    many.iter().for_each(|job| place.wait_for_state(job, "stuck"));
    place.told(&["fail", "--filter", "task=broken", "--yes", "--server", &server]);
    for job in &many {
        log.line(&[&["WARN", "a job failed for good", &format!("job={job}"), "a person"], &fields[..]].concat());
    }
    log.line(&["WARN", "a job failed for good", &late, "expired"]);
    log.stop();
}

fn a_job_that_killed_its_nodes_is_a_line_with_its_task_and_group(place: &Place) {
    let job = place.enqueue(&["sleep", r#"{"ms":3600000}"#, "--group", "acme"]);
    let start = |name: &str| Logged::start_with(place, &["--demo-tasks", "--lease", "1s", "--name", name]);
    for name in ["first", "second", "third"] {
        let mut log = start(name);
        until("the run on this node", || {
            let shown = place.job(&job);
            (shown["state"] == "running" && shown["node"] == name).then_some(())
        });
        log.serving.kill();
    }
    let log = start("fourth");
    let line = log.line(&["WARN", "a job failed for good", "its nodes died while it ran", &format!("job={job}")]);
    for part in ["task=sleep", "group=acme", "attempt=", "poison"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    log.stop();
}

fn many_failures_are_ten_lines_and_a_count(place: &Place) {
    let log = Logged::start(place);
    place.enqueue_all((0..50).map(|_| json!({"task": "broken", "group": "flood"})));
    // So many lines were left out as jobs were not named.
    let count = log.line(&["WARN", "more in the last", "jobs failed"]);
    let left_out: usize = count.split("and ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let first = log
        .lines()
        .iter()
        .take_while(|line| **line != count)
        .filter(|line| line.contains("a job failed for good"))
        .count();
    assert_eq!(first, 10, "in the first ten seconds");
    assert!(left_out > 0 && left_out <= 40, "{count}");
    log.stop();
}

fn refused_periodic_jobs_are_ten_lines_and_a_count(place: &Place) {
    place.told(&["group", "set", "full", "--max-waiting", "1"]);
    let log = Logged::start(place);
    // One is as many as may wait.
    place.enqueue(&["nobody", "--group", "full"]);
    for number in 0..20 {
        let name = format!("s{number}");
        place.told(&["schedule", "add", &name, "nobody", "--every", "1s", "--overlap", "allow", "--group", "full"]);
    }
    // Each is tried again every second.
    let count = log.line(&["WARN", "more in the last", "periodic jobs were refused"]);
    let lines = log.lines();
    let named =
        lines.iter().take_while(|line| **line != count).filter(|line| line.contains("a periodic job was refused"));
    assert_eq!(named.count(), 10, "{lines:#?}");
    log.stop();
}

fn what_was_left_out_is_counted_when_the_node_stops(place: &Place) {
    let log = Logged::start(place);
    place.enqueue_all((0..30).map(|_| json!({"task": "broken"})));
    until("thirty failures", || {
        let failed = place.json(&["jobs", "--state", "failed", "--json"]);
        (failed.as_array().map(Vec::len) == Some(30)).then_some(())
    });
    let path = place.path().join("log");
    log.stop();
    let text = fs::read_to_string(path).unwrap();
    let named = text.lines().filter(|line| line.contains("a job failed for good")).count();
    let counted: usize = text
        .lines()
        .filter(|line| line.contains("jobs failed"))
        .map(|line| line.split("and ").nth(1).unwrap().split(' ').next().unwrap().parse::<usize>().unwrap())
        .sum();
    assert_eq!(named + counted, 30, "{text}");
}

fn a_queue_that_pauses_itself_says_so(place: &Place) {
    place.told(&["queue", "set", "careful", "--on-error", "pause"]);
    let log = Logged::start(place);
    let job = place.enqueue(&["broken", "--queue", "careful"]);
    log.line(&["WARN", "a queue paused itself", "queue=careful", &job, "turnwise queue resume careful"]);
    assert_eq!(place.listed("queues", "careful")["state"], "paused");
    log.stop();
}

fn a_job_of_an_unknown_task_that_holds_a_serial_queue_is_named_first(place: &Place) {
    place.told(&["queue", "set", "line", "--concurrency", "serial"]);
    let (first, second) = (place.enqueue(&["nobody", "--queue", "line"]), place.enqueue(&["shaky", "--queue", "line"]));
    let log = Logged::start(place);
    log.line(&["WARN", "a serial queue is held by its first job", "queue=line", &first, "task=nobody"]);
    log.line(&["WARN", "jobs wait for a task that no live node knows", "task=nobody", "jobs=1"]);
    let why = place.json(&["why", &second, "--json"]);
    assert_eq!(why["gates"][0]["gate"], "held_line", "{why}");
    let text = place.why(&second);
    let said = format!("the serial queue line is held by its first job {first}: no live node knows the task nobody");
    assert!(text.contains(&said), "{text}");
    let queue = place.listed("queues", "line");
    assert_eq!(queue["held_by"], json!({"job": first, "task": "nobody"}), "{queue}");
    let table = place.told(&["queues"]);
    assert!(table.contains(&format!("held: no live node knows task nobody of job {first}")), "{table}");
    // Once, however often the dispatcher looks.
    place.told(&["cancel", &first]);
    log.line(&["stuck until its next try", &second]);
    assert_eq!((log.count("a serial queue is held"), log.count("that no live node knows")), (1, 1));
    assert_eq!(place.listed("queues", "line")["held_by"], json!(null));
    log.stop();
}

#[test]
fn a_lost_node_and_a_change_of_the_lead_are_lines() {
    for mut harness in Harness::on_both() {
        let first = harness.serve("first", &["--lease", "2s"]);
        let second = harness.serve("second", &["--lease", "2s"]);
        until("the second to follow", || (harness.nodes().len() == 2).then_some(()));
        harness.kill(first);
        logs(&second, &["WARN", "the dispatcher is gone; this node dispatches now"]);
        logs(&second, &["WARN", "a node is lost; its jobs go back", "node=first"]);
        let third = harness.serve("third", &["--lease", "2s"]);
        until("the third to follow", || (harness.nodes().len() >= 2).then_some(()));
        second.stop();
        logs(&third, &["WARN", "this node dispatches now"]);
        third.stop();
    }
}

#[test]
fn an_outage_is_one_line_then_one_every_ten_seconds_and_one_when_it_is_over() {
    let cluster = Cluster::start().unwrap();
    let mut harness = Harness::on_postgres(&cluster);
    let mut node = harness.spawn("worker", &["--demo-tasks", "--slots", "4", "--listen", "127.0.0.1:0"]);
    let ready = node.wait_until_ready();
    let server = ready.split_once("http://").unwrap().1.trim().to_owned();
    harness.submit(100, "sleep", r#"{"ms":20}"#);
    until("some work", || (node.settles() >= 20).then_some(()));
    cluster.stop_immediate().unwrap();
    // A caller that asks again and again.
    let over = AtomicBool::new(false);
    let unanswered = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let asks = std::iter::repeat_with(|| status(&server, "/api/v1/jobs"));
            asks.take_while(|_| !over.load(Ordering::Relaxed)).filter(|status| *status == Some(503)).count()
        });
        logs(&node, &["WARN", "the database has not answered for 1"]);
        over.store(true, Ordering::Relaxed);
        asking.join().unwrap()
    });
    assert!(unanswered > 50, "{unanswered} requests were not answered");
    cluster.start_again().unwrap();
    logs(&node, &["WARN", "the database answers again, after"]);
    harness.wait_until_all_ended();
    let log = node.errors();
    let count = |part: &str| log.lines().filter(|line| line.contains(part)).count();
    assert_eq!((count("the database does not answer; trying again"), count("answers again")), (1, 1), "{log}");
    let waited: f64 = log.split("answers again, after ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(waited >= 10.0, "{log}");
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds of a test")]
    let tens = waited as usize / 10;
    assert!(count("has not answered for") <= tens, "{log}");
    assert_eq!(count("jobs=0"), 0, "{log}");
    let of_requests = log.lines().filter(|line| line.contains("not answered: the database")).count();
    assert!((1..=tens + 2).contains(&of_requests), "{of_requests} lines about {unanswered} requests: {log}");
    let loud = |line: &&str| line.contains(" WARN ") || line.contains(" ERROR ");
    let all = log.lines().filter(loud).count();
    assert!(all <= 2 + tens + of_requests + 3, "{log}");
    node.stop();
}

fn logs(node: &Node, parts: &[&str]) {
    let found = |line: &&str| parts.iter().all(|part| line.contains(part));
    until(&format!("a line with {parts:?}"), || node.errors().lines().find(found).map(drop));
}

/// The status of the answer; `None`: there was none.
fn status(server: &str, path: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(server).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}
