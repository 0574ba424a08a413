//! Unique jobs with the real binary, on both databases.

mod support;

use std::process::{Child, Stdio};

use serde_json::Value;
use support::Place;

/// What it printed to stdout and to stderr; it must succeed.
fn told(place: &Place, args: &[&str]) -> (String, String) {
    let output = place.run(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

fn jobs(place: &Place) -> Vec<Value> {
    serde_json::from_value(place.json(&["jobs", "--json"])).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

#[test]
fn a_duplicate_is_told_the_job_that_holds_its_key() {
    for place in Place::on_both() {
        let unique = |more: &[&'static str]| [&["enqueue", "noop", "--unique", "k"], more].concat();
        let (first, nothing) = told(&place, &unique(&[]));
        assert!(nothing.starts_with("warning: no node is alive; "), "{nothing}");
        let (id, said) = told(&place, &unique(&[]));
        assert_eq!((id, said), (first.clone(), format!("job {first} holds the unique key; nothing was added")));
        let (id, said) = told(&place, &["enqueue", "noop", "[1]", "--unique", "k", "--on-duplicate", "replace-args"]);
        assert_eq!(
            (id, said),
            (first.clone(), format!("job {first} holds the unique key; its arguments were replaced"))
        );
        assert_eq!(jobs(&place)[0]["args"].to_string(), "[1]");
        let refused = place.run(&unique(&["--on-duplicate", "reject"]));
        assert_eq!(refused.status.code(), Some(3));
        assert_eq!(text(&refused.stderr), format!("error: unique key \"k\" in task:noop is held by job {first}"));
        assert_ne!(told(&place, &unique(&["--unique-scope", "nightly"])).0, first, "another scope");
        assert_eq!(jobs(&place).len(), 2);
        told(&place, &["cancel", &first]);
        let (second, _) = told(&place, &unique(&["--unique-for", "1h"]));
        assert_ne!(second, first, "its job has ended");
        told(&place, &["cancel", &second]);
        assert_eq!(told(&place, &unique(&[])).0, second, "its hour is not over");
        let (same, _) = told(&place, &["enqueue", "noop", r#"{"a":1,"b":2}"#, "--unique-by-args"]);
        assert_eq!(told(&place, &["enqueue", "noop", r#"{ "b":2, "a":1 }"#, "--unique-by-args"]).0, same);
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
        told(&place, &["migrate"]);
        let start = |_| -> Child {
            let mut command = place.command(&["enqueue", "noop", "--unique", "k"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let racing: Vec<_> = (0..32).map(start).collect();
        let outputs: Vec<_> = racing.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
        let all = jobs(&place);
        assert_eq!(all.len(), 1, "{all:?}");
        for output in &outputs {
            assert!(output.status.success(), "{}", text(&output.stderr));
            assert_eq!(text(&output.stdout), all[0]["id"].as_str().unwrap());
        }
        let told_another = |stderr: &[u8]| text(stderr).contains("holds the unique key");
        let new = outputs.iter().filter(|output| !told_another(&output.stderr)).count();
        assert_eq!(new, 1, "only one job was new");
    }
}
