//! Periodic jobs with the real binary, on both databases.

use std::{
    collections::BTreeSet,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use turnwise_testpg::Cluster;

#[allow(dead_code, reason = "shared with tests that need more of it")]
mod support;
use support::{Harness, until};

fn places() -> [Harness; 2] {
    [Harness::on_sqlite(), Harness::on_postgres(Cluster::shared())]
}

fn run(harness: &Harness, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnwise"));
    command.args(args).args(["--database", harness.database()]).stdin(Stdio::null());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TURNWISE_")) {
        command.env_remove(name);
    }
    command.output().unwrap()
}

fn told(harness: &Harness, args: &[&str]) -> String {
    let output = run(harness, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(harness: &Harness, args: &[&str]) -> String {
    let output = run(harness, args);
    assert!(!output.status.success(), "{args:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The times for which the schedule's jobs are due, of those that have ended well.
fn slots(harness: &Harness) -> Vec<String> {
    let jobs = harness.jobs(&["--state", "success"]);
    jobs.iter().map(|job| job["due_at"].as_str().expect("a job of a schedule is due").to_owned()).collect()
}

#[test]
fn a_schedule_is_added_listed_paused_resumed_run_and_removed() {
    for harness in places() {
        let added = told(
            &harness,
            &["schedule", "add", "sales", "noop", "--cron", "0 2 * * *", "--zone", "Europe/Berlin", "--group", "acme"],
        );
        let lines: Vec<_> = added.lines().collect();
        assert_eq!(lines.len(), 6, "{added}");
        assert!(lines[0].starts_with("schedule sales: 0 2 * * * Europe/Berlin, task noop, queue default, group acme"));
        assert!(lines[1..].iter().all(|line| line.contains(" at 02:00:00 Europe/Berlin, in ")), "{added}");
        assert!(told(&harness, &["schedule", "list"]).contains("active"));
        assert!(told(&harness, &["schedule", "pause", "sales", "--reason", "holidays"]).contains("holidays"));
        assert!(told(&harness, &["schedule", "list"]).contains("paused"));
        let again =
            ["schedule", "add", "sales", "noop", "--cron", "0 3 * * *", "--zone", "Europe/Berlin", "--group", "acme"];
        assert!(told(&harness, &again).contains("holidays"), "a person's pause stays when it is set anew");
        assert!(!told(&harness, &["schedule", "resume", "sales"]).contains("holidays"));
        let id = told(&harness, &["schedule", "run", "sales"]);
        let job: Value = serde_json::from_str(&told(&harness, &["job", id.trim(), "--json"])).unwrap();
        assert_eq!((job["task"].as_str(), job["group"].as_str()), (Some("noop"), Some("acme")));
        assert_eq!(told(&harness, &["schedule", "remove", "sales"]), "schedule sales is gone; its jobs stay\n");
        assert!(refused(&harness, &["schedule", "run", "sales"]).contains("there is none named \"sales\""));
        assert!(refused(&harness, &["schedule", "add", "x", "noop", "--cron", "61 * * * *"]).contains("schedule: "));
        assert!(refused(&harness, &["schedule", "add", "x", "noop", "--every", "10"]).contains("every: "));
        let bad = ["schedule", "add", "x", "noop", "--every", "10s", "--overlap", "maybe"];
        assert!(refused(&harness, &bad).contains("must be one of skip, wait, allow"));
    }
}

/// Two nodes; whichever dispatches is killed again and again. Each second of the schedule has one job, and none is left out.
#[test]
fn each_time_has_one_job_whichever_node_dispatches_and_dies() {
    for mut harness in places() {
        let mut nodes = vec![harness.serve("a", &[]), harness.serve("b", &[])];
        told(
            &harness,
            &["schedule", "add", "tick", "noop", "--every", "1s", "--overlap", "allow", "--catch-up", "all"],
        );
        for name in ["c", "d"] {
            let before = slots(&harness).len();
            until("some times to come", || (slots(&harness).len() >= before + 3).then_some(()));
            let dispatcher = nodes.iter().position(|node| node.dispatches()).expect("one of them dispatches");
            harness.kill(nodes.remove(dispatcher));
            nodes.push(harness.serve(name, &[]));
        }
        let before = slots(&harness).len();
        until("some times to come after the last death", || (slots(&harness).len() >= before + 3).then_some(()));
        told(&harness, &["schedule", "remove", "tick"]);
        harness.wait_until_all_ended();
        let slots = slots(&harness);
        let distinct: BTreeSet<_> = slots.iter().collect();
        assert_eq!(distinct.len(), slots.len(), "a time was fired twice: {slots:?}");
        let seconds: Vec<i64> = distinct.iter().map(|slot| second(slot)).collect();
        assert!(seconds.windows(2).all(|pair| pair[1] - pair[0] == 1), "a time was left out: {slots:?}");
        nodes.into_iter().for_each(support::Node::stop);
    }
}

fn second(slot: &str) -> i64 {
    slot.parse::<turnwise::Timestamp>().unwrap().micros() / 1_000_000
}
