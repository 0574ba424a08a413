//! Unique jobs with the real binary, on both databases.

use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use turnwise_testpg::Cluster;

struct Place {
    directory: TempDir,
    database: String,
}

impl Place {
    fn on_both() -> [Self; 2] {
        let directory = || tempfile::tempdir().unwrap();
        [
            Self { directory: directory(), database: "sqlite:jobs.db".to_owned() },
            Self { directory: directory(), database: Cluster::shared().fresh_database().unwrap() },
        ]
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_turnwise"));
        command.current_dir(self.directory.path()).args(args).args(["--database", &self.database]);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TURNWISE_")) {
            command.env_remove(name);
        }
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// What it printed to stdout and to stderr; it must succeed.
    fn told(&self, args: &[&str]) -> (String, String) {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    }

    fn jobs(&self) -> Vec<Value> {
        serde_json::from_str(&self.told(&["jobs", "--json"]).0).unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

#[test]
fn a_duplicate_is_told_the_job_that_holds_its_key() {
    for place in Place::on_both() {
        let unique = |more: &[&'static str]| [&["enqueue", "noop", "--unique", "k"], more].concat();
        let (first, nothing) = place.told(&unique(&[]));
        assert_eq!(nothing, "");
        let (id, told) = place.told(&unique(&[]));
        assert_eq!((id, told), (first.clone(), format!("job {first} holds the unique key; nothing was added")));
        let (id, told) = place.told(&["enqueue", "noop", "[1]", "--unique", "k", "--on-duplicate", "replace-args"]);
        assert_eq!(
            (id, told),
            (first.clone(), format!("job {first} holds the unique key; its arguments were replaced"))
        );
        assert_eq!(place.jobs()[0]["args"].to_string(), "[1]");
        let refused = place.run(&unique(&["--on-duplicate", "reject"]));
        assert_eq!(refused.status.code(), Some(3));
        assert_eq!(text(&refused.stderr), format!("error: unique key \"k\" in task:noop is held by job {first}"));
        assert_ne!(place.told(&unique(&["--unique-scope", "nightly"])).0, first, "another scope");
        assert_eq!(place.jobs().len(), 2);
        place.told(&["cancel", &first]);
        let (second, _) = place.told(&unique(&["--unique-for", "1h"]));
        assert_ne!(second, first, "its job has ended");
        place.told(&["cancel", &second]);
        assert_eq!(place.told(&unique(&[])).0, second, "its hour is not over");
        let (same, _) = place.told(&["enqueue", "noop", r#"{"a":1,"b":2}"#, "--unique-by-args"]);
        assert_eq!(place.told(&["enqueue", "noop", r#"{ "b":2, "a":1 }"#, "--unique-by-args"]).0, same);
        for (wrong, told) in [
            (&["--on-duplicate", "drop"][..], "on_duplicate: must be keep, reject or replace-args, not \"drop\""),
            (&["--unique-for", "soon"], "unique_for: "),
            (&["--unique-scope", ""], "unique_scope: must not be empty"),
        ] {
            let refused = place.run(&unique(wrong));
            assert_eq!(refused.status.code(), Some(2));
            assert!(text(&refused.stderr).starts_with(&format!("error: {told}")), "{}", text(&refused.stderr));
        }
    }
}

#[test]
fn of_thirty_two_processes_with_one_key_one_adds_a_job_and_all_are_told_it() {
    for place in Place::on_both() {
        place.told(&["migrate"]);
        let start = |_| -> Child {
            let mut command = place.command(&["enqueue", "noop", "--unique", "k"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let racing: Vec<_> = (0..32).map(start).collect();
        let outputs: Vec<_> = racing.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
        let jobs = place.jobs();
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        for output in &outputs {
            assert!(output.status.success(), "{}", text(&output.stderr));
            assert_eq!(text(&output.stdout), jobs[0]["id"].as_str().unwrap());
        }
        assert_eq!(outputs.iter().filter(|output| output.stderr.is_empty()).count(), 1, "one was not told of another");
    }
}
