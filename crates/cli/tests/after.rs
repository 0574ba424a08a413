//! Jobs that wait for jobs, with the real binary, on both databases.

use std::{
    fs,
    io::Write,
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
        let database = database(&directory);
        Self { directory, database }
    }

    fn run(&self, args: &[&str], input: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_turnwise"));
        command.current_dir(self.directory.path()).args(args).args(["--database", &self.database]);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TURNWISE_")) {
            command.env_remove(name);
        }
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    fn told(&self, args: &[&str]) -> String {
        let output = self.run(args, "");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args, "");
        assert!(!output.status.success(), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn enqueue(&self, args: &[&str]) -> String {
        self.told(&[&["enqueue"], args].concat()).trim().to_owned()
    }

    fn job(&self, id: &str) -> Value {
        serde_json::from_str(&self.told(&["job", id, "--json"])).unwrap()
    }

    fn states(&self, ids: &[&String]) -> Vec<String> {
        ids.iter().map(|id| self.job(id)["state"].as_str().unwrap().to_owned()).collect()
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
    jobs_run_fail_or_are_cancelled_after_those_they_wait_for,
    a_batch_from_a_file_ends_with_the_one_that_waits_for_all,
    the_graph_is_told_and_drawn,
    what_cannot_be_waited_for_is_refused_in_one_line,
}

fn jobs_run_fail_or_are_cancelled_after_those_they_wait_for(place: &Place) {
    let good = place.enqueue(&["noop"]);
    let bad = place.enqueue(&["flaky", r#"{"fail":9}"#, "--retry", "none"]);
    let both = format!("{good},{bad}");
    let after = |more: &[&str]| place.enqueue(&[&["noop", "--after"], more].concat());
    let (fine, fails) = (after(&[&good]), after(&[&both]));
    let (runs, cancelled) = (after(&[&both, "--on-failure", "run"]), after(&[&both, "--on-failure", "cancel"]));
    let last = after(&[&fails, "--on-failure", "run"]);
    let why = place.told(&["why", &fails]);
    assert!(why.contains(&format!("waits for job {} and one other", good.clone().min(bad.clone()))), "{why}");
    place.work();
    let states = place.states(&[&good, &bad, &fine, &fails, &runs, &cancelled, &last]);
    assert_eq!(states, ["success", "failed", "success", "failed", "success", "cancelled", "success"]);
    let failed = place.job(&fails);
    assert_eq!(failed["error"], format!("job {bad}, which it waited for, failed"));
    assert_eq!((&failed["after"].as_array().unwrap().len(), &failed["on_failure"]), (&2, &Value::from("fail")));
    assert_eq!(failed["awaited_by"], serde_json::json!([last]));
    let shown = place.told(&["job", &fails]);
    assert!(shown.contains(&format!("after             {good} (on failure: fail)")), "{shown}");
    assert!(shown.contains(&format!("awaited by        {last}")), "{shown}");
}

fn a_batch_from_a_file_ends_with_the_one_that_waits_for_all(place: &Place) {
    let lines = r#"{"task":"noop","after":"*","as":"end"}
        {"task":"noop","as":"first"}
        {"task":"noop","as":"left","after":"first"}
        {"task":"noop","as":"right","after":["first"]}
        {"task":"noop","after":["left","right"]}"#;
    let output = place.run(&["enqueue", "--stdin"], lines);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let ids: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    place.work();
    let moments: Vec<(String, String)> = ids
        .iter()
        .map(|id| {
            let job = place.job(id);
            assert_eq!(job["state"], "success");
            let moment = |name: &str| job[name].as_str().unwrap().to_owned();
            (moment("assigned_at"), moment("finished_at"))
        })
        .collect();
    for (waits, first) in [(2, 1), (3, 1), (4, 2), (4, 3), (0, 4), (0, 1)] {
        assert!(moments[first].1 <= moments[waits].0, "{waits} after {first}: {moments:?}");
    }
}

fn the_graph_is_told_and_drawn(place: &Place) {
    let first = place.enqueue(&["noop"]);
    let second = place.enqueue(&["sleep", r#"{"ms":1}"#, "--after", &first, "--on-failure", "run"]);
    let third = place.enqueue(&["noop", "--after", &format!("{first},{second}")]);
    let told = place.told(&["job", &second, "--graph", "--svg", "graph.svg"]);
    let expected = format!(
        "#1  waiting   noop  {first}\n\
         #2    waiting   sleep  {second}  after #1 (run)  <- this one\n\
         #3      waiting   noop  {third}  after #1 #2 (fail)\n"
    );
    assert_eq!(told, expected);
    let svg = fs::read_to_string(place.directory.path().join("graph.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    assert_eq!(
        (svg.matches("<g>").count(), svg.matches("class=\"edge\"").count()),
        (3, 2),
        "one arrow follows from others"
    );
    place.work();
    let told = place.told(&["job", &first, "--graph"]);
    assert!(told.starts_with(&format!("#1  success   noop  {first}  <- this one\n")), "{told}");
}

fn what_cannot_be_waited_for_is_refused_in_one_line(place: &Place) {
    let unknown = "01900000-0000-7000-8000-000000000000";
    for (args, told) in [
        (&["--after", unknown][..], "after: there is no job 01900000-0000-7000-8000-000000000000"),
        (&["--after", "the-first"], r#"after: id: "the-first" is not a job id"#),
        (&["--after", unknown, "--on-failure", "ignore"], "on_failure: must be fail, run or cancel"),
    ] {
        let text = place.refused(&[&["enqueue", "noop"], args].concat());
        assert!(text.contains(told) && text.trim_end().lines().count() == 1, "{args:?}: {text}");
    }
    let circle = "{\"task\":\"noop\",\"as\":\"a\",\"after\":\"b\"}\n{\"task\":\"noop\",\"as\":\"b\",\"after\":\"a\"}";
    let output = place.run(&["enqueue", "--stdin"], circle);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains("after: jobs wait for one another: "), "{text}");
    assert_eq!(place.told(&["jobs", "--json"]).trim(), "[]");
}
