//! What jobs record (log, progress, steps, attempts), and what can be done about those that failed: with the real binary, on both
//! databases.

mod support;

use serde_json::Value;
use support::{Place, on_both_databases};

/// With tasks that are commands.
fn with_commands(place: Place) -> Place {
    place.with(
        r#"
        [tasks.say]
        command = ["sh", "-c", "echo begun >&2; echo done >&2; echo '{{\"pages\":3}}'"]
        [tasks.slow]
        command = ["sleep", "600"]
        timeout = "200ms"
        [tasks.broken]
        command = ["sh", "-c", "echo \"no row $0\" >&2; exit 3", "{args}"]
        "#,
    )
}

fn work(place: &Place) {
    place.work(&["--slots", "2", "--demo-tasks"]);
}

on_both_databases! {
    in with_commands;
    a_job_tells_what_it_said_and_how_its_runs_ended,
    a_run_that_takes_too_long_fails_and_says_so,
    failures_are_counted_by_kind_and_run_again_in_bulk,
    what_need_not_be_kept_is_pruned,
    a_job_that_is_not_begun_in_time_fails,
}

fn a_job_tells_what_it_said_and_how_its_runs_ended(place: &Place) {
    let said = place.enqueue(&["say"]);
    let flaky = place.enqueue(&["flaky", r#"{"fail":1}"#, "--retry", "durations:1ms"]);
    work(place);
    let logs = place.told(&["logs", &said]);
    let lines: Vec<_> =
        logs.lines().map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines, ["info begun", "info done"]);
    assert_eq!(place.told(&["logs", "-f", &said, "--lines", "1"]).lines().count(), 1, "it ends with the job");
    let line: Value = serde_json::from_str(place.told(&["logs", &said, "--json"]).lines().next().unwrap()).unwrap();
    assert_eq!((&line["text"], &line["level"], &line["run"]), (&"begun".into(), &"info".into(), &1.into()));
    assert_eq!(place.job(&said)["result"]["pages"], 3);
    let watched = place.told(&["job", &said, "--watch"]);
    assert!(watched.starts_with("success") && watched.contains(&said), "{watched}");

    let job = place.job(&flaky);
    let attempts = job["attempts"].as_array().unwrap();
    assert_eq!((job["state"].as_str(), attempts.len()), (Some("success"), 1));
    assert_eq!((attempts[0]["ending"].as_str(), attempts[0]["number"].as_u64()), (Some("error"), Some(1)));
    assert!(attempts[0]["place"].as_str().is_some_and(|place| place.contains(".rs:")), "{job}");
    let told = place.told(&["job", &flaky]);
    assert!(told.contains("attempt           1 flaky on "), "{told}");
    let unknown = "01900000-0000-7000-8000-000000000000";
    assert!(place.refused(&["logs", unknown], 1).contains("there is no job"));
    assert!(place.refused(&["logs", &said, "--lines", "0"], 2).contains("lines: must be 1 to"));
}

fn a_run_that_takes_too_long_fails_and_says_so(place: &Place) {
    let by_task = place.enqueue(&["slow", "--retry", "none"]);
    let by_job = place.enqueue(&["sleep", r#"{"ms":600000}"#, "--retry", "none", "--timeout", "100ms"]);
    work(place);
    for (id, limit) in [(by_task, "200ms"), (by_job, "100ms")] {
        let job = place.job(&id);
        assert_eq!(job["state"], "failed");
        assert_eq!(job["error"], format!("timed out: it took longer than {limit}"));
        assert_eq!(job["attempts"][0]["ending"], "timed out");
    }
    assert!(place.refused(&["enqueue", "noop", "--timeout", "0s"], 2).contains("timeout: must be longer than nothing"));
}

fn failures_are_counted_by_kind_and_run_again_in_bulk(place: &Place) {
    for n in 0..5 {
        place.enqueue(&["broken", &n.to_string(), "--retry", "none"]);
    }
    place.enqueue(&["flaky", r#"{"fail":1}"#, "--retry", "none"]);
    work(place);
    let dead_letters = place.json(&["jobs", "--state", "failed", "--by", "error", "--json"]);
    let dead_letters = dead_letters.as_array().unwrap();
    assert_eq!(dead_letters.len(), 2, "{dead_letters:?}");
    assert_eq!((dead_letters[0]["jobs"].as_u64(), dead_letters[0]["task"].as_str()), (Some(5), Some("broken")));
    let table = place.told(&["jobs", "--state", "failed", "--by", "error"]);
    assert!(table.starts_with("JOBS") && table.contains("no row"), "{table}");

    let fingerprint = format!("fingerprint={}", dead_letters[1]["fingerprint"].as_str().unwrap());
    let preview = place.told(&["retry", "--filter", &fingerprint, "--dry-run"]);
    assert!(preview.contains("1 job would run again"), "{preview}");
    assert_eq!(place.json(&["jobs", "--state", "waiting", "--json"]), Value::Array(vec![]));
    assert!(place.refused(&["retry", "--filter", &fingerprint], 2).contains("--yes"));
    assert!(place.told(&["retry", "--filter", &fingerprint, "--yes"]).contains("1 job runs again"));
    work(place);
    assert_eq!(place.json(&["jobs", "--state", "failed", "--json"]).as_array().unwrap().len(), 5);
    assert!(place.refused(&["retry", "--filter", "colour=red", "--yes"], 2).contains("there is no field \"colour\""));
}

fn what_need_not_be_kept_is_pruned(place: &Place) {
    let id = place.enqueue(&["say"]);
    work(place);
    assert!(place.told(&["prune"]).starts_with("0 rows"));
    assert_eq!(place.job(&id)["state"], "success");
    assert!(place.told(&["prune", "--retention", "failed=0,1d", "--yes"]).starts_with("0 rows"));
    assert!(!place.told(&["prune", "--retention", "success=0", "--yes"]).starts_with("0 rows"));
    assert!(place.refused(&["job", &id], 1).contains("there is no job"));
    assert!(place.refused(&["prune", "--retention", "soon"], 2).contains("retention: "));
    let refusal = place.refused(&["prune", "--retention", "stuck=1d"], 2);
    assert!(refusal.contains("write success, failed or cancelled"), "{refusal}");
}

fn a_job_that_is_not_begun_in_time_fails(place: &Place) {
    let id = place.enqueue(&["noop", "--in", "1h", "--expires", "1ms"]);
    work(place);
    let job = place.job(&id);
    assert_eq!((&job["state"], &job["attempt"]), (&"failed".into(), &0.into()), "{job}");
    assert!(job["error"].as_str().is_some_and(|error| error.starts_with("expired")), "{job}");
}
