//! What jobs tell of themselves, and what can be done about those that failed: with the real binary, on both databases.

use std::{
    fs,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;
use turnwise_testpg::Cluster;

struct Place {
    directory: TempDir,
    database: String,
}

impl Place {
    fn new(database: impl FnOnce(&TempDir) -> String) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let settings = r#"
            [tasks.say]
            command = ["sh", "-c", "echo begun >&2; echo done >&2; echo '{{\"pages\":3}}'"]
            [tasks.slow]
            command = ["sleep", "600"]
            timeout = "200ms"
            [tasks.broken]
            command = ["sh", "-c", "echo \"no row $0\" >&2; exit 3", "{args}"]
        "#;
        fs::write(directory.path().join("turnwise.toml"), settings).unwrap();
        let database = database(&directory);
        Self { directory, database }
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_turnwise"));
        command.current_dir(self.directory.path()).args(args).args(["--database", &self.database]);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TURNWISE_")) {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn told(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused(&self, args: &[&str], code: i32) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.told(args)).unwrap()
    }

    fn enqueue(&self, args: &[&str]) -> String {
        self.told(&[&["enqueue"], args].concat()).trim().to_owned()
    }

    fn work(&self) {
        self.told(&["serve", "--until-empty", "--slots", "2", "--demo-tasks"]);
    }
}

macro_rules! on_both_databases {
    ($($name:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[test] fn $name() {
                super::$name(&super::Place::new(|dir| format!("sqlite:{}", dir.path().join("jobs.db").display())));
            })+
        }
        mod on_postgres {
            $(#[test] fn $name() {
                super::$name(&super::Place::new(|_| super::Cluster::shared().fresh_database().unwrap()));
            })+
        }
    };
}

on_both_databases! {
    a_job_tells_what_it_said_and_how_its_runs_ended,
    a_run_that_takes_too_long_fails_and_says_so,
    failures_are_counted_by_kind_and_run_again_in_bulk,
    what_need_not_be_kept_is_pruned,
    a_job_that_nobody_begins_in_time_fails,
}

fn a_job_tells_what_it_said_and_how_its_runs_ended(place: &Place) {
    let said = place.enqueue(&["say"]);
    let flaky = place.enqueue(&["flaky", r#"{"fail":1}"#, "--retry", "durations:1ms"]);
    place.work();
    let logs = place.told(&["logs", &said]);
    let lines: Vec<_> =
        logs.lines().map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines, ["info begun", "info done"]);
    assert_eq!(place.told(&["logs", "-f", &said, "--lines", "1"]).lines().count(), 1, "it ends with the job");
    let line: Value = serde_json::from_str(place.told(&["logs", &said, "--json"]).lines().next().unwrap()).unwrap();
    assert_eq!((&line["text"], &line["level"], &line["run"]), (&"begun".into(), &"info".into(), &1.into()));
    assert_eq!(place.json(&["job", &said, "--json"])["result"]["pages"], 3);
    let watched = place.told(&["job", &said, "--watch"]);
    assert!(watched.starts_with("success") && watched.contains(&said), "{watched}");

    let job = place.json(&["job", &flaky, "--json"]);
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
    place.work();
    for (id, limit) in [(by_task, "200ms"), (by_job, "100ms")] {
        let job = place.json(&["job", &id, "--json"]);
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
    place.work();
    let troubles = place.json(&["jobs", "--state", "failed", "--by", "error", "--json"]);
    let troubles = troubles.as_array().unwrap();
    assert_eq!(troubles.len(), 2, "{troubles:?}");
    assert_eq!((troubles[0]["jobs"].as_u64(), troubles[0]["task"].as_str()), (Some(5), Some("broken")));
    let table = place.told(&["jobs", "--state", "failed", "--by", "error"]);
    assert!(table.starts_with("JOBS") && table.contains("no row"), "{table}");

    let fingerprint = format!("fingerprint={}", troubles[1]["fingerprint"].as_str().unwrap());
    let preview = place.told(&["retry", "--filter", &fingerprint, "--dry-run"]);
    assert!(preview.contains("1 jobs would run again"), "{preview}");
    assert_eq!(place.json(&["jobs", "--state", "waiting", "--json"]), Value::Array(vec![]));
    assert!(place.refused(&["retry", "--filter", &fingerprint], 2).contains("--yes"));
    assert!(place.told(&["retry", "--filter", &fingerprint, "--yes"]).contains("1 jobs run again"));
    place.work();
    assert_eq!(place.json(&["jobs", "--state", "failed", "--json"]).as_array().unwrap().len(), 5);
    assert!(place.refused(&["retry", "--filter", "colour=red", "--yes"], 2).contains("filter: \"colour=red\""));
}

fn what_need_not_be_kept_is_pruned(place: &Place) {
    let id = place.enqueue(&["say"]);
    place.work();
    assert!(place.told(&["prune"]).starts_with("0 rows"));
    assert_eq!(place.json(&["job", &id, "--json"])["state"], "success");
    assert!(place.told(&["prune", "--retention", "failed=0,1d"]).starts_with("0 rows"));
    assert!(!place.told(&["prune", "--retention", "success=0"]).starts_with("0 rows"));
    assert!(place.refused(&["job", &id], 1).contains("there is no job"));
    assert!(place.refused(&["prune", "--retention", "soon"], 2).contains("retention: "));
    let refusal = place.refused(&["prune", "--retention", "stuck=1d"], 2);
    assert!(refusal.contains("write success, failed or cancelled"), "{refusal}");
}

fn a_job_that_nobody_begins_in_time_fails(place: &Place) {
    let id = place.enqueue(&["noop", "--in", "1h", "--expires", "1ms"]);
    place.work();
    let job = place.json(&["job", &id, "--json"]);
    assert_eq!((&job["state"], &job["attempt"]), (&"failed".into(), &0.into()), "{job}");
    assert!(job["error"].as_str().is_some_and(|error| error.starts_with("expired")), "{job}");
}
