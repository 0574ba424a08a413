//! Real processes, killed, stopped and restarted, on SQLite and PostgreSQL. Each run's record goes through the history
//! checker. `TURNWISE_FULL=1` runs them with more jobs.

mod support;

use std::time::{Duration, Instant};

use support::{Harness, PATIENCE, number, tell, until};
use turnwise_sim::{Violation, history::NodeEvent};
use turnwise_testpg::Cluster;

#[test]
fn a_node_killed_among_a_thousand_jobs_loses_none_on_sqlite() {
    a_node_killed_among_a_thousand_jobs_loses_none(Harness::on_sqlite(), "killed on SQLite");
}

#[test]
fn a_node_killed_among_a_thousand_jobs_loses_none_on_postgres() {
    a_node_killed_among_a_thousand_jobs_loses_none(Harness::on_postgres(Cluster::shared()), "killed on PostgreSQL");
}

#[test]
fn a_node_killed_among_a_thousand_jobs_loses_none_through_pgbouncer() {
    a_node_killed_among_a_thousand_jobs_loses_none(Harness::through_pgbouncer(), "killed behind PgBouncer");
}

fn a_node_killed_among_a_thousand_jobs_loses_none(mut harness: Harness, story: &str) {
    harness.submit(1_000, "sleep", r#"{"ms":500}"#);
    let node = harness.serve("worker", &["--slots", "400", "--lease", "2s"]);
    // The second wave runs, the third waits.
    until("runs to kill", || (node.settles() >= 200 && node.starts() >= node.effects() + 100).then_some(()));
    harness.kill_among_its_runs(node);
    let mut again = harness.serve("worker", &["--slots", "400", "--lease", "2s", "--until-empty"]);
    assert_eq!(again.exit_within(PATIENCE).code(), Some(0), "{}", again.errors());
    let report = harness.expect_all_success(story);
    assert_eq!(report.counts.submitted, 1_000);
    assert!(report.counts.ran_twice > 0, "the killed one was running jobs: {report}");
}

#[test]
fn two_nodes_share_the_work_and_one_of_them_may_die_on_postgres() {
    two_nodes_share_the_work_and_one_of_them_may_die(
        Harness::on_postgres(Cluster::shared()),
        number(2_000, 10_000),
        100,
    );
}

#[test]
fn two_nodes_share_the_work_and_one_of_them_may_die_through_pgbouncer() {
    // No notifications arrive there: the other node polls for jobs every second, so a run takes as long as several would.
    two_nodes_share_the_work_and_one_of_them_may_die(Harness::through_pgbouncer(), number(400, 2_000), 500);
}

fn two_nodes_share_the_work_and_one_of_them_may_die(mut harness: Harness, jobs: usize, millis: u32) {
    let slots = number(20, 100).to_string();
    let flags = ["--slots", &slots, "--lease", "2s"];
    // The node that is killed is the dispatcher.
    let first = harness.serve("first", &flags);
    until("a dispatcher", || (first.leads() > 0).then_some(()));
    let second = harness.serve("second", &flags);
    harness.submit(jobs, "sleep", &format!(r#"{{"ms":{millis}}}"#));
    until("work on both nodes", || (first.effects() >= jobs / 8 && second.effects() >= jobs / 8).then_some(()));
    harness.kill_among_its_runs(first);
    harness.wait_until_all_ended();
    second.stop();
    let report = harness.expect_all_success("two nodes, one killed");
    assert_eq!(report.counts.submitted, jobs);
    assert!(report.counts.node_lost > 0 && report.counts.ran_twice > 0, "it was not the middle any more: {report}");
}

#[test]
fn a_node_that_wakes_up_after_its_lease_changes_nothing_on_postgres() {
    a_node_that_wakes_up_after_its_lease_changes_nothing(Harness::on_postgres(Cluster::shared()));
}

#[test]
fn a_node_that_wakes_up_after_its_lease_changes_nothing_through_pgbouncer() {
    a_node_that_wakes_up_after_its_lease_changes_nothing(Harness::through_pgbouncer());
}

fn a_node_that_wakes_up_after_its_lease_changes_nothing(mut harness: Harness) {
    let runs = 20;
    let flags = ["--slots", "20", "--lease", "2s"];
    let sleeper = harness.serve("sleeper", &flags);
    // Long enough for a busy machine to see them all begun before one ends.
    harness.submit(runs, "sleep", r#"{"ms":4000}"#);
    until("runs on the first node", || (sleeper.starts() == runs).then_some(()));
    sleeper.signal("STOP");
    let other = harness.serve("other", &flags);
    until("the other node's runs", || (other.settles() == runs).then_some(()));
    let taken = other.count(|event| matches!(event, NodeEvent::NodeLost { .. }));
    assert_eq!(taken, runs);
    sleeper.signal("CONT");
    until("the refusals", || (sleeper.count(|event| matches!(event, NodeEvent::Stale { .. })) == runs).then_some(()));
    assert_eq!(sleeper.settles(), 0, "a zombie's settle was accepted");
    until("the node's second life", || (sleeper.incarnations().len() == 2).then_some(()));
    let mut sleeper = sleeper;
    sleeper.signal("TERM");
    assert_eq!(sleeper.exit_within(PATIENCE).code(), Some(0));
    assert!(sleeper.errors().contains(&format!("refused {runs} stale settles")), "{}", sleeper.errors());
    let log = sleeper.errors();
    let warned = log.lines().filter(|line| line.contains("WARN") && line.contains("a stale settle was refused"));
    let warned: Vec<_> = warned.collect();
    assert!((1..runs).contains(&warned.len()), "some are named and the others counted: {log}");
    assert!(warned.iter().all(|line| line.contains("job=") && line.contains("fence=")), "{log}");
    assert!(log.contains("stale settles were refused"), "{log}");
    other.stop();
    let report = harness.expect_all_success("zombie");
    assert_eq!((report.counts.stale, report.counts.ran_twice), (runs, runs), "{report}");
}

#[test]
fn a_node_name_is_used_once_at_a_time_on_sqlite() {
    a_node_name_is_used_once_at_a_time(Harness::on_sqlite());
}

#[test]
fn a_node_name_is_used_once_at_a_time_on_postgres() {
    a_node_name_is_used_once_at_a_time(Harness::on_postgres(Cluster::shared()));
}

fn a_node_name_is_used_once_at_a_time(mut harness: Harness) {
    let first = harness.serve("worker", &["--lease", "20s"]);
    // The second watches for half its own lease, in which the first beats.
    let mut second = harness.spawn("worker", &["--demo-tasks", "--lease", "14s"]);
    assert_eq!(second.exit_within(PATIENCE).code(), Some(1), "{}", second.errors());
    for part in ["\"worker\" is in use", "--name", "stop that one"] {
        assert!(second.errors().contains(part), "{}", second.errors());
    }
    harness.kill(first);
    let killed = Instant::now();
    let mut third = harness.serve("worker", &["--lease", "2s", "--until-empty"]);
    // The first beats every 6.7 s, so its lease has more than 13 s left.
    assert!(killed.elapsed() < Duration::from_secs(10), "it waited for the lease of a process that is gone");
    assert_eq!(third.exit_within(PATIENCE).code(), Some(0), "{}", third.errors());
    expect_only_the_dead_one_left(&harness, 0);
}

#[test]
fn a_restarted_node_dispatches_at_once_on_sqlite() {
    a_restarted_node_dispatches_at_once(Harness::on_sqlite());
}

#[test]
fn a_restarted_node_dispatches_at_once_on_postgres() {
    a_restarted_node_dispatches_at_once(Harness::on_postgres(Cluster::shared()));
}

fn a_restarted_node_dispatches_at_once(mut harness: Harness) {
    let first = harness.serve("worker", &["--lease", "30s"]);
    until("a dispatcher", || (first.leads() > 0).then_some(()));
    harness.kill(first);
    let killed = Instant::now();
    harness.submit(1, "noop", "null");
    let mut again = harness.serve("worker", &["--lease", "30s", "--until-empty"]);
    assert_eq!(again.exit_within(PATIENCE).code(), Some(0), "{}", again.errors());
    // The dead node beat every 10 s, so its lease had at least 20 s left.
    assert!(killed.elapsed() < Duration::from_secs(15), "the dead one's lead was waited for");
    expect_only_the_dead_one_left(&harness, 1);
}

/// The dead node's name is free at once; its row is removed by a dispatcher that has been in contact for a full lease,
/// and these runs are shorter.
fn expect_only_the_dead_one_left(harness: &Harness, successes: usize) {
    let report = harness.report();
    let dead = |violation: &Violation| matches!(violation, Violation::NodeLeaked { nodes: 1, living: 0 });
    assert!(report.violations.iter().all(dead), "{report}");
    assert_eq!(report.counts.success, successes, "{report}");
}

#[test]
fn a_stopping_node_lets_its_jobs_finish_on_sqlite() {
    a_stopping_node_lets_its_jobs_finish(Harness::on_sqlite());
}

#[test]
fn a_stopping_node_lets_its_jobs_finish_on_postgres() {
    a_stopping_node_lets_its_jobs_finish(Harness::on_postgres(Cluster::shared()));
}

fn a_stopping_node_lets_its_jobs_finish(mut harness: Harness) {
    let mut node = harness.serve("worker", &["--slots", "5", "--lease", "2s"]);
    // Long enough for a busy machine to see five of them begun before one ends.
    harness.submit(12, "sleep", r#"{"ms":3000}"#);
    until("running jobs", || (node.starts() == 5).then_some(()));
    node.signal("TERM");
    assert_eq!(node.exit_within(Duration::from_secs(30)).code(), Some(0), "{}", node.errors());
    let (ended, waiting): (Vec<_>, Vec<_>) = harness.jobs(&[]).into_iter().partition(|job| job["state"] == "success");
    assert_eq!((ended.len(), waiting.len()), (5, 7));
    assert!(ended.iter().all(|job| job["attempt"] == 1), "{ended:?}");
    assert!(waiting.iter().all(|job| job["state"] == "waiting" && job["attempt"] == 0), "{waiting:?}");
    // The rest is for the next one.
    let mut next = harness.serve("worker", &["--slots", "5", "--lease", "2s", "--until-empty"]);
    assert_eq!(next.exit_within(PATIENCE).code(), Some(0), "{}", next.errors());
    let report = harness.expect_all_success("stopped and finished");
    assert_eq!(report.counts.ran_twice, 0, "{report}");
}

#[test]
fn a_job_interrupted_by_sigterm_comes_back_and_spends_no_attempt() {
    an_interrupted_job_comes_back_and_spends_no_attempt(Harness::on_sqlite(), "TERM");
    an_interrupted_job_comes_back_and_spends_no_attempt(Harness::on_postgres(Cluster::shared()), "TERM");
}

#[test]
fn a_job_interrupted_by_sigint_comes_back_and_spends_no_attempt() {
    an_interrupted_job_comes_back_and_spends_no_attempt(Harness::on_sqlite(), "INT");
    an_interrupted_job_comes_back_and_spends_no_attempt(Harness::on_postgres(Cluster::shared()), "INT");
}

fn an_interrupted_job_comes_back_and_spends_no_attempt(mut harness: Harness, signal: &str) {
    let mut node = harness.serve("worker", &["--slots", "7", "--lease", "2s", "--await-termination", "200ms"]);
    harness.submit(5, "sleep", r#"{"ms":600000}"#);
    harness.submit(2, "spin", r#"{"ms":600000}"#);
    until("running jobs", || (node.starts() == 7).then_some(()));
    node.signal(signal);
    assert_eq!(node.exit_within(Duration::from_secs(20)).code(), Some(0), "{}", node.errors());
    for job in harness.jobs(&[]) {
        assert_eq!((&job["state"], &job["attempt"]), (&"waiting".into(), &0.into()), "{job}");
    }
    let report = harness.report();
    tell(&format!("interrupted by SIG{signal}"), &report.counts);
    let back =
        |violation: &Violation| matches!(violation, Violation::NotEnded { state, .. } if state.name() == "waiting");
    assert!(report.violations.iter().all(back) && report.violations.len() == 7, "{report}");
}

/// Each try that fails is logged, too.
const EVERY_TRY: &str = "info,turnwise_executor=debug";

#[test]
fn a_node_survives_a_restart_of_its_database() {
    let cluster = Cluster::start().unwrap();
    let mut harness = Harness::on_postgres(&cluster);
    let jobs = number(300, 3_000);
    let node = harness.serve("worker", &["--slots", "20", "--lease", "2s", "--log", EVERY_TRY]);
    harness.submit(jobs, "sleep", r#"{"ms":50}"#);
    until("the middle", || (node.settles() >= jobs / 4).then_some(()));
    cluster.stop_immediate().unwrap();
    harness.note(serde_json::json!({"event": "outage"}));
    // It tries again after waits that double up to a second: after nine tries its lease of two seconds is over.
    until("the node to miss its lease", || (node.errors().matches("could not beat").count() >= 9).then_some(()));
    cluster.start_again().unwrap();
    harness.submit(10, "noop", "null");
    harness.wait_until_all_ended();
    node.stop();
    harness.expect_all_success("database restarted");
}

#[test]
fn tasks_that_block_their_threads_do_not_stop_the_heartbeat() {
    let mut harness = Harness::on_postgres(Cluster::shared());
    let worker = harness.serve("worker", &["--slots", "16", "--lease", "2s"]);
    // The other node would take the jobs over if it could; it knows no task, so no job is assigned to it.
    let mut watcher = harness.spawn("watcher", &["--lease", "2s"]);
    watcher.wait_until_ready();
    harness.submit(16, "spin", r#"{"ms":6000}"#);
    until("busy threads", || (worker.starts() == 16).then_some(()));
    harness.wait_until_all_ended();
    worker.stop();
    watcher.stop();
    let report = harness.expect_all_success("spinning");
    assert_eq!((report.counts.incarnations, report.counts.node_lost, report.counts.starts), (2, 0, 16), "{report}");
}

#[test]
fn a_node_stops_although_its_database_is_gone() {
    let cluster = Cluster::start().unwrap();
    let mut harness = Harness::on_postgres(&cluster);
    let flags = ["--slots", "4", "--lease", "2s", "--await-termination", "1s", "--log", EVERY_TRY];
    let mut node = harness.serve("worker", &flags);
    harness.submit(8, "sleep", r#"{"ms":600000}"#);
    until("all slots to be busy", || (node.starts() >= 4).then_some(()));
    cluster.stop_immediate().unwrap();
    until("the node to miss its lease", || (node.errors().matches("could not beat").count() >= 9).then_some(()));
    node.signal("TERM");
    let status = node.exit_within(std::time::Duration::from_secs(30));
    assert!(status.success(), "{status}");
    let complaints = node.errors().lines().count();
    assert!(complaints < 500, "it said so {complaints} times");
    cluster.start_again().unwrap();
}
