//! What a submit names comes first; what it leaves out is its task's or its queue's to say. Real binary, both databases.

mod support;

use serde_json::{Value, json};
use support::{Place, on_both_databases};

on_both_databases!(
    a_tasks_own_retry_policy_holds_for_jobs_that_are_submitted_by_name,
    a_time_that_is_given_counts_in_a_queue_with_a_schedule,
);

const ONCE: &str = "[tasks.once]\ncommand = ['sh', '-c', 'echo broken >&2; exit 1']\nretry = 'none'\n\
                    [tasks.again]\ncommand = ['false']\nretry = 'durations:1ms,1h'\n";

fn settings(place: &Place, text: &str) {
    std::fs::write(place.path().join("turnwise.toml"), text).unwrap();
}

fn a_tasks_own_retry_policy_holds_for_jobs_that_are_submitted_by_name(place: &Place) {
    settings(place, ONCE);
    let by_name = place.enqueue(&["once"]);
    let by_stdin = place.enqueue_all([json!({"task": "once"})]).remove(0);
    let by_hand = place.enqueue(&["once", "--retry", "manual"]);
    let by_default = place.enqueue(&["once", "--retry", "exponential:10s,5"]);
    let twice = place.enqueue(&["again"]);
    let serving = place.serve(&[]);
    let rests = |id: &str, state: &str| -> Value {
        place.wait_for_state(id, state);
        place.job(id)
    };
    for id in [&by_name, &by_stdin] {
        let job = rests(id, "failed");
        assert_eq!(
            (&job["attempt"], &job["retry"], &job["retries_left"]),
            (&json!(1), &Value::Null, &Value::Null),
            "{job}"
        );
    }
    assert_eq!(rests(&by_hand, "stuck")["retry"], "manual");
    let job = rests(&by_default, "stuck");
    assert_eq!(
        (&job["retry"], &job["retries_left"]),
        (&json!("exponential:10s,5"), &json!(4)),
        "its own word comes first"
    );
    support::until("the second failure", || (place.job(&twice)["attempt"] == 2).then_some(()));
    assert_eq!(rests(&twice, "stuck")["retry"], Value::Null);
    let shown = place.told(&["job", &twice]);
    assert!(
        shown.lines().any(|line| line.starts_with("retries_left") && line.ends_with("as its task sets it")),
        "{shown}"
    );
    serving.stop();
}

fn a_time_that_is_given_counts_in_a_queue_with_a_schedule(place: &Place) {
    settings(place, "");
    // A time that does not come while the test runs.
    place.told(&["queue", "set", "nightly", "--schedule", "0 0 29 2 *"]);
    let nightly = |rest: &[&str]| place.enqueue(&[&["noop", "--queue", "nightly"], rest].concat());
    let follows = nightly(&[]);
    let given = [&["--at", "2020-01-01T00:00:00Z"][..], &["--in", "0s"], &["--in", "1ms"]].map(nightly);
    let serving = place.serve(&["--demo-tasks"]);
    for id in &given {
        place.wait_for_state(id, "success");
    }
    let job = place.job(&follows);
    assert_eq!(job["state"], "waiting");
    assert!(job["due_at"].as_str().unwrap().contains("-02-29T00:00:00"), "{job}");
    serving.stop();
}
