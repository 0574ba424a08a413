//! The audit log with the real binary, on both databases: what each command leaves there.

mod support;

use serde_json::{Value, json};
use support::Place;

fn lines(place: &Place, rest: &[&str]) -> Vec<Value> {
    let lines = place.json(&[&["audit", "--json"], rest].concat());
    lines.as_array().expect("an array").clone()
}

#[test]
fn each_command_that_changes_something_leaves_a_line_with_who_and_what() {
    for place in Place::on_both() {
        let id = place.told(&["enqueue", "mail", r#"{"password":"hunter2"}"#, "--in", "1h"]).trim().to_owned();
        let job = format!("job:{id}");
        assert_eq!(lines(&place, &[]), [] as [Value; 0], "a submit is no change of an operator");
        for (command, verb, target) in [
            (["change", &id, "--priority", "1"].as_slice(), "change", job.as_str()),
            (&["cancel", &id], "cancel", &job),
            (&["retry", &id], "retry", &job),
            (&["queue", "set", "mail", "--weight", "2"], "set", "queue:mail"),
            (&["queue", "pause", "mail", "--reason", "lunch"], "pause", "queue:mail"),
            (&["queue", "resume", "mail"], "resume", "queue:mail"),
            (&["queue", "seal", "mail"], "seal", "queue:mail"),
            (&["queue", "seal", "mail", "--undo"], "unseal", "queue:mail"),
            (&["queue", "reset", "mail"], "reset", "queue:mail"),
            (&["group", "set", "acme", "--weight", "2"], "set", "group:acme"),
            (&["task", "set", "mail", "--concurrency", "2"], "set", "task:mail"),
            (&["key", "set", "db", "--concurrency", "2"], "set", "key:db"),
            (&["installation", "set", "--log-lines", "9"], "set", "installation"),
            (&["schedule", "add", "nightly", "--every", "1h", "mail"], "set", "schedule:nightly"),
            (&["schedule", "pause", "nightly"], "pause", "schedule:nightly"),
            (&["schedule", "resume", "nightly"], "resume", "schedule:nightly"),
            (&["schedule", "remove", "nightly"], "remove", "schedule:nightly"),
            (&["cancel", "--filter", "task=mail", "--yes"], "cancel", &job),
            (&["prune", "--retention", "0", "--yes"], "prune", "installation"),
        ] {
            let before = lines(&place, &[]).len();
            place.told(command);
            let after = lines(&place, &[]);
            assert_eq!(after.len(), before + 1, "{command:?}: {after:?}");
            assert_eq!((&after[0]["verb"], &after[0]["target"]), (&json!(verb), &json!(target)), "{command:?}");
            let actor = after[0]["actor"].as_str().expect("a text");
            assert!(actor.starts_with("cli:") && actor.contains('@'), "{actor}");
        }
        let prune = &lines(&place, &["--limit", "1"])[0];
        assert_eq!(prune["after"], json!({"retention": "0s"}));
        let changed = &lines(&place, &["--target", &job])[3];
        assert_eq!((&changed["before"]["priority"], &changed["after"]), (&json!(5), &json!({"priority": 1})));
        let table = place.told(&["audit"]);
        assert!(!table.contains("hunter2") && table.contains(&job), "{table}");
    }
}

#[test]
fn tokens_are_created_and_revoked_with_a_line_each_and_never_with_the_secret() {
    for place in Place::on_both() {
        let secret = place.told(&["token", "create", "--name", "nightly", "--scope", "submit,read"]);
        place.told(&["token", "revoke", secret.trim()]);
        place.told(&["token", "revoke", secret.trim()]);
        let found = lines(&place, &[]);
        let verbs: Vec<_> = found.iter().map(|line| line["verb"].clone()).collect();
        assert_eq!(verbs, ["revoke", "create"], "revoked once more, nothing changed");
        assert_eq!(found[1]["after"]["granted"], json!({"scopes": ["submit", "read"]}));
        assert_eq!(found[0]["before"]["name"], "nightly");
        assert!(!json!(found).to_string().contains(&secret.trim()[11..]), "{found:?}");
    }
}

#[test]
fn what_fails_or_changes_nothing_leaves_no_line() {
    let place = Place::on_sqlite();
    let id = place.told(&["enqueue", "mail"]).trim().to_owned();
    place.told(&["queue", "set", "mail", "--weight", "2"]);
    let before = lines(&place, &[]);
    for command in
        [["fail", id.as_str()].as_slice(), &["queue", "set", "mail", "--weight", "0"], &["schedule", "remove", "x"]]
    {
        assert!(!place.run(command).status.success(), "{command:?}");
    }
    place.told(&["queue", "set", "mail", "--weight", "2"]);
    place.told(&["queue", "resume", "mail"]);
    place.told(&["prune"]);
    assert_eq!(lines(&place, &[]), before);
}

#[test]
fn the_log_is_filtered_and_a_wrong_filter_is_refused_by_its_name() {
    let place = Place::on_sqlite();
    place.told(&["enqueue", "mail"]);
    for queue in ["default", "slow"] {
        place.told(&["queue", "pause", queue, "--force"]);
    }
    let all = lines(&place, &[]);
    assert_eq!(all.len(), 2);
    let actor = all[0]["actor"].as_str().expect("a text");
    assert_eq!(lines(&place, &["--actor", actor, "--since", "1h"]), all);
    assert_eq!(lines(&place, &["--target", "queue:slow"]), all[..1]);
    assert_eq!(lines(&place, &["--until", "1h"]), [] as [Value; 0]);
    assert_eq!(lines(&place, &["--since", all[0]["at"].as_str().expect("a time")]), all[..1]);
    assert_eq!(lines(&place, &["--limit", "1"]), all[..1]);
    for (rest, part) in [
        (["--target", "machine:a"], "target: must be job:ID"),
        (["--since", "soon"], "since: must be a time"),
        (["--actor", ""], "actor: must not be empty"),
        (["--limit", "0"], "limit: must be a number from 1 on"),
    ] {
        let output = place.run(&[&["audit"], rest.as_slice()].concat());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && told.contains(part), "{rest:?}: {told}");
    }
}
