//! `turnwise bench` with few jobs: its counts are exact, how long it took is not checked.

mod support;

use std::{
    collections::BTreeSet,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use support::{Harness, Place, said, signal, until};
use turnwise_testpg::Cluster;

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
    harness.place.command(&[&["bench"], flags].concat())
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

/// No jobs, no nodes, nothing set and nothing used.
fn assert_clean(harness: &Harness) {
    assert_eq!(harness.jobs(&[]), Vec::<Value>::new());
    assert_eq!(harness.nodes(), Vec::<Value>::new());
    for command in ["queues", "groups"] {
        assert_eq!(harness.place.json(&[command, "--json"]), json!([]), "{command}");
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
    Harness::on_both().into_iter().for_each(test);
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
        // In turns: two slots and the jobs they hold ready may be one job apart, and the time of the reading another one.
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
fn single_submits_come_from_many_callers() {
    on_both(|harness| {
        let report = report(&harness, &["--mode", "submit", "--jobs", "300", "--callers", "7"]);
        assert_eq!((&report["jobs"], &report["callers"]), (&300.into(), &7.into()));
        for key in ["per_second", "p50_ms", "p95_ms", "p99_ms", "max_ms"] {
            positive(&report, key);
        }
    });
}

#[test]
fn a_lifecycle_is_timed_from_submit_to_stored_end() {
    on_both(|harness| {
        let report = report(&harness, &["--mode", "lifecycle", "--jobs", "300", "--callers", "7", "--slots", "3"]);
        assert_eq!((&report["jobs"], &report["callers"]), (&300.into(), &7.into()));
        for key in ["per_second", "p50_ms", "p95_ms", "p99_ms", "max_ms"] {
            positive(&report, key);
        }
    });
}

#[test]
fn latency_is_timed_on_one_node_and_between_nodes() {
    on_both(|harness| {
        for other in [false, true] {
            let mut flags = vec!["--mode", "latency", "--jobs", "5"];
            flags.extend(other.then_some("--other-node"));
            let report = report(&harness, &flags);
            assert_eq!((&report["jobs"], &report["other_node"]), (&5.into(), &other.into()));
            // It may be zero: a task may begin before the submitter has its answer.
            assert!(report["p50_ms"].is_number() && report["per_second"].is_null(), "{report:#}");
        }
    });
}

#[test]
fn a_pinned_drain_compares_its_beginning_with_its_end() {
    on_both(|harness| {
        let report = report(&harness, &["--mode", "pinned", "--jobs", "20000", "--groups", "10"]);
        assert_eq!((&report["mode"], &report["jobs"]), (&"pinned".into(), &20_000.into()));
        for key in ["per_second", "first_10k_per_second", "last_10k_per_second"] {
            positive(&report, key);
        }
    });
}

#[test]
fn the_snapshot_of_a_pinned_drain_is_older_than_its_jobs() {
    let cluster = Cluster::shared();
    let harness = Harness::on_postgres(cluster);
    let child = begun(&harness, &["--mode", "pinned", "--jobs", "10000000"]);
    let held = "select count(*) from pg_stat_activity where datname = current_database() and state = 'idle in transaction' \
                and backend_xmin::text::bigint <= (select min(xact::text::bigint) from turnwise.job)";
    assert_eq!(cluster.psql(harness.database(), held).unwrap(), "1");
    signal(child.id(), "INT");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert_clean(&harness);
}

#[test]
fn an_idle_node_is_looked_at_for_as_long_as_was_said() {
    on_both(|harness| {
        let report = report(&harness, &["--mode", "idle", "--seconds", "2"]);
        assert_eq!((&report["mode"], &report["jobs"]), (&"idle".into(), &0.into()));
        assert!(report["seconds"].as_f64().unwrap() >= 2.0, "{report:#}");
        let counts = report["database"] == "postgres";
        assert_eq!((report["counted"].is_string(), report["calls_per_second"].is_number()), (counts, counts));
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
    assert!(said(&output).starts_with("error: database: node a uses it; "), "{}", said(&output));
    harness.submit(1, "noop", "null");
    harness.wait_until_all_ended();
    node.stop();
    let output = bench(&harness, &["--jobs", "10"]).output().unwrap();
    assert!(said(&output).starts_with("error: database: it holds finished jobs; "), "{}", said(&output));
}

#[test]
fn a_sqlite_file_that_was_not_there_is_not_there_afterwards() {
    let place = Place::new();
    assert!(place.told(&["bench", "--jobs", "10"]).starts_with("drain: "));
    assert_eq!(place.path().read_dir().unwrap().count(), 0);
}

/// Starts it and waits until jobs of it are stored.
fn begun(harness: &Harness, flags: &[&str]) -> Child {
    let mut child = bench(harness, flags).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("jobs of the benchmark", || {
        assert_eq!(child.try_wait().unwrap(), None, "it has ended early");
        (!harness.jobs(&["--queue", "turnwise-bench"]).is_empty()).then_some(())
    });
    child
}

#[test]
fn an_interrupted_benchmark_leaves_nothing_behind() {
    on_both(|harness| {
        // More than it could store before the signal.
        for mode in ["drain", "submit"] {
            let child = begun(&harness, &["--mode", mode, "--jobs", "10000000"]);
            signal(child.id(), "INT");
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(130), "{}", said(&output));
            assert_clean(&harness);
        }
    });
}

#[test]
fn an_idle_node_can_be_interrupted() {
    let harness = Harness::on_sqlite();
    let child = bench(&harness, &["--mode", "idle", "--seconds", "86400"]).stderr(Stdio::piped()).spawn().unwrap();
    until("its node", || harness.nodes().iter().any(|node| node["name"] == "turnwise-bench").then_some(()));
    signal(child.id(), "TERM");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert_clean(&harness);
}

#[test]
fn what_a_killed_benchmark_left_is_taken_away_by_the_next() {
    on_both(|harness| {
        let child = begun(&harness, &["--mode", "lifecycle", "--jobs", "10000000"]);
        killed_and_cleared(&harness, child);
    });
}

#[test]
fn the_history_that_a_killed_benchmark_left_is_taken_away_by_the_next() {
    let harness = Harness::on_sqlite();
    let child = begun(&harness, &["--mode", "lifecycle", "--jobs", "10000000", "--history", "keep"]);
    // More than the next benchmark reads at first.
    until("finished jobs", || (harness.jobs(&["--state", "success"]).len() > 1_000).then_some(()));
    killed_and_cleared(&harness, child);
}

fn killed_and_cleared(harness: &Harness, mut child: Child) {
    signal(child.id(), "KILL");
    child.wait().unwrap();
    // Its node counts as alive until its lease expires.
    until("the next benchmark", || {
        let output = bench(harness, &["--jobs", "10"]).output().unwrap();
        let refused =
            "error: database: another benchmark runs on it, or was killed a moment ago; try again in a few seconds\n";
        match output.status.code() {
            Some(0) => Some(()),
            _ => {
                assert_eq!(said(&output), refused);
                None
            }
        }
    });
    assert_clean(harness);
}

#[test]
fn a_benchmark_that_fails_leaves_nothing() {
    let cluster = Cluster::shared();
    let harness = Harness::on_postgres(cluster);
    assert_eq!(harness.jobs(&[]).len(), 0, "which also makes the schema");
    let trap = "create function stop() returns trigger language plpgsql as \
                $$ begin raise exception 'the disk is full'; end $$; \
                create trigger stop before insert on turnwise.job for each row \
                when (new.args ->> 'n' = '10005') execute function stop()";
    cluster.psql(harness.database(), trap).unwrap();
    let output = bench(&harness, &["--jobs", "20000"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("the disk is full"), "{}", said(&output));
    assert_clean(&harness);
}

#[test]
fn a_file_of_another_program_is_left_alone() {
    let place = Place::on_sqlite();
    let file = place.path().join("others.db");
    let open = || turnwise_sqlite::rusqlite::Connection::open(&file).unwrap();
    open().execute_batch("create table theirs (n int)").unwrap();
    let refused = place.refused(&["bench", "--jobs", "10", "--database", "sqlite:others.db"], 1);
    assert!(refused.contains("no Turnwise schema"), "{refused}");
    let tables: i64 = open().query_row("select count(*) from sqlite_schema", [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 1);
}

#[test]
fn bad_numbers_are_refused_by_name() {
    let place = Place::on_sqlite();
    for (flags, refusal) in [
        (["--jobs", "0"], "error: jobs: must be 1 to 100000000, not \"0\""),
        (["--groups", "-1"], "error: groups: must be 1 to 10000000, not \"-1\""),
        (["--args-bytes", "1k"], "error: args-bytes: must be 0 to 1000000, not \"1k\""),
        (["--slots", "0"], "error: slots: must be 1 to 100000, not \"0\""),
        (["--callers", "0"], "error: callers: must be 1 to 1000, not \"0\""),
        (["--seconds", "0"], "error: seconds: must be 1 to 86400, not \"0\""),
    ] {
        assert_eq!(place.refused(&[&["bench"], &flags[..]].concat(), 2).trim(), refusal);
    }
}

#[test]
fn what_a_mode_cannot_do_is_refused() {
    let place = Place::on_sqlite();
    let other_node = place.refused(&["bench", "--other-node"], 2);
    assert_eq!(other_node.trim(), "error: other-node: works only with --mode latency");
    let memory = place.refused(&["bench", "--database", "memory:", "--mode", "pinned"], 2);
    let refusal =
        "error: database: memory: cannot be opened a second time, as this mode needs; name a file or a server";
    assert_eq!(memory.trim(), refusal);
}
