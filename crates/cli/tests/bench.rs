//! `turnwise bench` with few jobs: what it counts is exact, how long it took is nobody's promise.

use std::{
    collections::BTreeSet,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use turnwise_testpg::Cluster;

#[allow(dead_code, reason = "shared with tests that need more of it")]
mod support;
use support::Harness;

/// What a program finds in every report.
const KEYS: [&str; 11] = [
    "mode",
    "jobs",
    "groups",
    "per_second",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "first_10k_per_second",
    "last_10k_per_second",
    "rss_mb",
    "lead_at_half",
];

fn bench(harness: &Harness, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnwise"));
    command.current_dir(std::env::temp_dir()).args(["bench", "--database", harness.database()]).args(flags);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TURNWISE_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Runs to its end, and leaves nothing behind.
fn report(harness: &Harness, flags: &[&str]) -> Value {
    let output = bench(harness, flags).arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in KEYS {
        assert!(report.get(key).is_some(), "no {key}: {report:#}");
    }
    assert_clean(harness);
    report
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// No jobs, no nodes, nothing set and nothing used.
fn assert_clean(harness: &Harness) {
    assert_eq!(harness.jobs(&[]), Vec::<Value>::new());
    assert_eq!(harness.nodes(), Vec::<Value>::new());
    for command in ["queues", "groups"] {
        let mut turnwise = Command::new(env!("CARGO_BIN_EXE_turnwise"));
        let output = turnwise.args([command, "--json", "--database", harness.database()]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "[]", "{command}: {}", said(&output));
    }
}

fn positive(report: &Value, key: &str) {
    assert!(report[key].as_f64().is_some_and(|number| number > 0.0), "{key}: {report:#}");
}

fn null_keys(report: &Value) -> BTreeSet<&str> {
    report.as_object().unwrap().iter().filter(|(_, value)| value.is_null()).map(|(key, _)| key.as_str()).collect()
}

/// Both databases, one after the other.
fn on_both(test: impl Fn(Harness)) {
    test(Harness::on_sqlite());
    test(Harness::on_postgres(Cluster::shared()));
}

#[test]
fn a_drain_runs_every_job_and_tells_how_even_the_groups_were_served() {
    on_both(|harness| {
        let flags = ["--jobs", "600", "--groups", "3", "--slots", "2", "--args-bytes", "300"];
        let report = report(&harness, &flags);
        assert_eq!(report["mode"], "drain");
        assert_eq!((&report["jobs"], &report["groups"], &report["slots"]), (&600.into(), &3.into(), &2.into()));
        assert_eq!((&report["args_bytes"], &report["history"]), (&300.into(), &"delete".into()));
        positive(&report, "per_second");
        positive(&report, "fill_per_second");
        // In turns: two slots and what they hold ready may be one job apart, and the moment of the look another.
        assert!(report["lead_at_half"].as_u64().unwrap() <= 4, "{report:#}");
        assert_eq!((&report["p50_ms"], &report["first_10k_per_second"]), (&Value::Null, &Value::Null));
    });
}

#[test]
fn a_drain_with_history_kept_leaves_none_of_it() {
    on_both(|harness| {
        let report = report(&harness, &["--jobs", "50", "--groups", "5", "--history", "keep"]);
        assert_eq!((&report["jobs"], &report["history"]), (&50.into(), &"keep".into()));
    });
}

#[test]
fn bulk_counts_batches_and_runs_nothing() {
    on_both(|harness| {
        let report = report(&harness, &["--mode", "bulk", "--jobs", "25000"]);
        assert_eq!((&report["mode"], &report["jobs"]), (&"bulk".into(), &25_000.into()));
        for key in ["per_second", "p50_ms", "p95_ms", "p99_ms", "first_10k_per_second", "last_10k_per_second"] {
            positive(&report, key);
        }
        assert!(null_keys(&report).contains("lead_at_half"), "{report:#}");
    });
}

#[test]
fn postgres_tells_what_a_job_cost_the_server() {
    let harness = Harness::on_postgres(Cluster::shared());
    let report = report(&harness, &["--jobs", "2000", "--groups", "10"]);
    assert!(["statements", "transactions"].contains(&report["counted"].as_str().unwrap()), "{report:#}");
    // A row of a hundred bytes of arguments is written, taken and deleted.
    assert!(report["wal_bytes_per_job"].as_f64().unwrap() > 100.0, "{report:#}");
    assert!(report["calls_per_job"].is_number(), "{report:#}");
}

#[test]
fn a_database_with_other_jobs_is_refused_and_left_alone() {
    on_both(|mut harness| {
        let job = harness.submit(1, "mail", "null");
        let output = bench(&harness, &["--jobs", "10"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).starts_with("error: database: it holds jobs of queue default; "), "{}", said(&output));

        let output = bench(&harness, &["--jobs", "10", "--history", "keep", "--force"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).starts_with("error: history: cannot be kept: "), "{}", said(&output));

        let output = bench(&harness, &["--jobs", "10", "--force"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let left = harness.jobs(&[]);
        assert_eq!((left.len(), &left[0]["id"], &left[0]["state"]), (1, &job[0].as_str().into(), &"waiting".into()));
    });
}

#[test]
fn a_database_with_finished_jobs_or_a_node_is_refused() {
    let mut harness = Harness::on_sqlite();
    let node = harness.serve("a", &[]);
    let output = bench(&harness, &["--jobs", "10"]).output().unwrap();
    assert!(said(&output).starts_with("error: database: node a works on it; "), "{}", said(&output));
    harness.submit(1, "noop", "null");
    harness.wait_until_all_ended();
    node.stop();
    let output = bench(&harness, &["--jobs", "10"]).output().unwrap();
    assert!(said(&output).starts_with("error: database: it holds finished jobs; "), "{}", said(&output));
}

#[test]
fn a_sqlite_file_that_was_not_there_is_not_there_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnwise"));
    let output = command.current_dir(folder.path()).args(["bench", "--jobs", "10"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("drain: "), "{output:?}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn bad_numbers_are_refused_by_name() {
    let harness = Harness::on_sqlite();
    for (flags, told) in [
        (["--jobs", "0"], "error: jobs: must be 1 to 100000000, not \"0\""),
        (["--groups", "-1"], "error: groups: must be 1 to 10000000, not \"-1\""),
        (["--args-bytes", "1k"], "error: args-bytes: must be 0 to 1000000, not \"1k\""),
        (["--slots", "0"], "error: slots: must be 1 to 100000, not \"0\""),
    ] {
        let output = bench(&harness, &flags).output().unwrap();
        assert_eq!((output.status.code(), said(&output).trim()), (Some(2), told));
    }
}
