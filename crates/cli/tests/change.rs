//! A person changes the priority, the time or the queue of jobs that are in no node's hands. Real binary, both databases.

mod support;

use std::fs;

use serde_json::json;
use support::{Place, on_both_databases, until};

on_both_databases!(
    in with_tasks;
    a_job_that_is_put_first_overtakes,
    a_postponed_job_waits_until_it_is_due_at_once,
    a_job_that_moves_runs_in_its_new_queue_under_its_limits,
    a_job_without_a_time_takes_the_schedule_of_its_new_queue,
    a_stuck_job_stays_stuck_until_its_new_time,
    what_cannot_be_changed_says_why,
    many_jobs_are_changed_by_a_filter,
);

/// `hold` runs until the file `go` is there; `note` writes its arguments to the file `order`.
fn with_tasks(place: Place) -> Place {
    place.with(
        "[tasks.hold]\ncommand = ['sh', '-c', 'until [ -e go ]; do sleep 0.02; done']\n\
         [tasks.note]\ncommand = ['sh', '-c', 'echo $0 >> order', '{args}']\n\
         [tasks.broken]\ncommand = ['false']\n",
    )
}

/// One slot, and nothing held ready beyond it: what waits is in no node's hands.
const ONE_SLOT: [&str; 4] = ["--slots", "1", "--queue-capacity", "0"];

/// A job that runs until [`go`].
fn hold(place: &Place, queue: &str) -> String {
    let id = place.enqueue(&["hold", "--queue", queue]);
    until("the job that holds the slot", || (place.job(&id)["node"] != json!(null)).then_some(()));
    id
}

fn go(place: &Place) {
    fs::write(place.path().join("go"), "").unwrap();
}

/// The arguments of the `note` jobs that have ended, in their order.
fn order(place: &Place) -> Vec<String> {
    fs::read_to_string(place.path().join("order")).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn a_job_that_is_put_first_overtakes(place: &Place) {
    let serving = place.serve(&ONE_SLOT);
    hold(place, "default");
    let others = place.enqueue_all((1..=2).map(|n| json!({"task": "note", "args": n})));
    let last = place.enqueue(&["note", "3"]);
    // The beginning of an id is enough.
    assert_eq!(place.told(&["change", &last[..last.len() - 2], "--priority", "high"]), format!("{last} changed\n"));
    // The others as well: whenever the dispatcher reads of it, it gives none of them away as they were.
    place.told(&["change", &others[0], &others[1], "--priority", "low"]);
    assert_eq!((&place.job(&last)["priority"], &place.job(&others[0])["priority"]), (&json!(3), &json!(8)));
    go(place);
    others.iter().chain([&last]).for_each(|id| place.wait_for_state(id, "success"));
    assert_eq!(order(place), ["3", "1", "2"]);
    serving.stop();
}

fn a_postponed_job_waits_until_it_is_due_at_once(place: &Place) {
    let serving = place.serve(&ONE_SLOT);
    hold(place, "default");
    let jobs = place.enqueue_all((1..=2).map(|n| json!({"task": "note", "args": n})));
    place.told(&["change", &jobs[0], "--in", "1h"]);
    let due = place.job(&jobs[0])["due_at"].as_str().unwrap().to_owned();
    assert!(place.why(&jobs[0]).contains(&format!("not due before {due}")), "{}", place.why(&jobs[0]));
    go(place);
    place.wait_for_state(&jobs[1], "success");
    assert_eq!(place.state(&jobs[0]), "waiting");
    place.told(&["change", &jobs[0], "--at", "2030-01-31T08:30:00Z"]);
    assert_eq!(place.job(&jobs[0])["due_at"], "2030-01-31T08:30:00.000000Z");
    place.told(&["change", &jobs[0], "--now"]);
    place.wait_for_state(&jobs[0], "success");
    assert_eq!(order(place), ["2", "1"]);
    serving.stop();
}

fn a_job_that_moves_runs_in_its_new_queue_under_its_limits(place: &Place) {
    place.told(&["queue", "set", "narrow", "--concurrency", "1"]);
    place.told(&["queue", "pause", "shut", "--force"]);
    let serving = place.serve(&["--slots", "4", "--queue-capacity", "0"]);
    hold(place, "narrow");
    let jobs = place.enqueue_all((1..=2).map(|n| json!({"task": "note", "args": n, "queue": "shut"})));
    assert!(place.why(&jobs[0]).contains("queue shut is paused"), "{}", place.why(&jobs[0]));
    let told = place.told(&["change", &jobs[0], &jobs[1], "--queue", "narrow"]);
    assert_eq!(told, format!("{} changed\n{} changed\n", jobs[0], jobs[1]));
    // Three slots are free, but the queue has only one.
    until("the dispatcher to see the move", || {
        place.why(&jobs[0]).contains("1 of 1 slots of queue narrow").then_some(())
    });
    assert_eq!((place.state(&jobs[0]), place.state(&jobs[1])), ("waiting".into(), "waiting".into()));
    go(place);
    jobs.iter().for_each(|id| place.wait_for_state(id, "success"));
    assert_eq!(order(place), ["1", "2"]);
    assert!(jobs.iter().all(|id| place.job(id)["queue"] == "narrow"));
    serving.stop();
}

fn a_job_without_a_time_takes_the_schedule_of_its_new_queue(place: &Place) {
    // A time that does not come while the test runs.
    place.told(&["queue", "set", "nightly", "--schedule", "0 0 29 2 *"]);
    let jobs = place.enqueue_all((1..=2).map(|n| json!({"task": "note", "args": n, "queue": "default"})));
    place.told(&["change", &jobs[0], "--queue", "nightly"]);
    place.told(&["change", &jobs[1], "--queue", "nightly", "--now"]);
    let serving = place.serve(&[]);
    place.wait_for_state(&jobs[1], "success");
    let job = place.job(&jobs[0]);
    assert_eq!(job["state"], "waiting");
    assert!(job["due_at"].as_str().unwrap().contains("-02-29T00:00:00"), "{job}");
    // Elsewhere it is due when it says so.
    place.told(&["change", &jobs[0], "--queue", "default", "--now"]);
    place.wait_for_state(&jobs[0], "success");
    serving.stop();
}

fn a_stuck_job_stays_stuck_until_its_new_time(place: &Place) {
    let serving = place.serve(&[]);
    let id = place.enqueue(&["broken", "--retry", "manual"]);
    place.wait_for_state(&id, "stuck");
    assert!(place.why(&id).contains("needs a decision"), "{}", place.why(&id));
    place.told(&["change", &id, "--in", "1h"]);
    assert_eq!(place.state(&id), "stuck");
    assert!(place.why(&id).contains("not due before"), "{}", place.why(&id));
    place.told(&["change", &id, "--now"]);
    until("the second failure", || (place.job(&id)["attempt"] == 2).then_some(()));
    serving.stop();
}

fn what_cannot_be_changed_says_why(place: &Place) {
    let unique = place.enqueue(&["note", "1", "--unique", "k", "--unique-scope", "queue", "--queue", "shut"]);
    place.told(&["queue", "pause", "shut"]);
    place.refuses(&["change", &unique], 2, "change: needs a change: add --priority, --queue, --in, --at or --now");
    place.refuses(&["change", &unique, "--priority", "11"], 2, "priority: must be 1 (first) to 10 (last), not 11");
    place.refuses(&["change", &unique, "--in", "soon"], 2, "in: \"soon\" is not a duration");
    place.refuses(&["change", &unique, "--queue", ""], 2, "queue: must not be empty");
    place.refuses(&["change", &unique, "--now", "--in", "1s"], 2, "cannot be used with");
    let nobody = "01920000-0000-7000-8000-000000000000";
    place.refuses(&["change", nobody, "--now"], 1, &format!("there is no job {nobody}"));
    let moved = "the job cannot be moved to another queue: it holds a unique key within its queue";
    place.refuses(&["change", &unique, "--queue", "other"], 1, &format!("{unique}: {moved}"));
    let serving = place.serve(&ONE_SLOT);
    let running = hold(place, "default");
    let hands =
        "the job cannot be changed: it is in a node's hands; only a job that is waiting or stuck can be changed";
    place.refuses(&["change", &running, "--now"], 1, &format!("{running}: {hands}"));
    go(place);
    place.wait_for_state(&running, "success");
    place.refuses(&["change", &running, "--now"], 1, "the job cannot be changed: it has already succeeded");
    let stuck = place.enqueue(&["broken", "--retry", "manual"]);
    place.wait_for_state(&stuck, "stuck");
    place.told(&["queue", "set", "line", "--concurrency", "serial"]);
    let begun = "the job cannot be moved to another queue: it has begun, and that queue is serial";
    place.refuses(&["change", &stuck, "--queue", "line"], 1, begun);
    serving.stop();
}

fn many_jobs_are_changed_by_a_filter(place: &Place) {
    place.enqueue_all((1..=3).map(|n| json!({"task": "note", "args": n, "queue": "old"})));
    place.enqueue(&["note", "4", "--queue", "old", "--unique", "k", "--unique-scope", "queue"]);
    let dry = place.told(&["change", "--filter", "queue=old", "--queue", "new", "--dry-run"]);
    assert!(dry.ends_with("4 jobs would be changed\n"), "{dry}");
    let output = place.run(&["change", "--filter", "queue=old", "--queue", "new", "--yes"]);
    assert_eq!(output.status.code(), Some(1), "one of them stays");
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.ends_with("3 jobs changed\n"), "{told}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("it holds a unique key within its queue"), "{said}");
    let queues = |queue: &str| place.json(&["jobs", "--queue", queue, "--json"]).as_array().unwrap().len();
    assert_eq!((queues("old"), queues("new")), (1, 3));
    place.work(&[]);
    let mut ended = order(place);
    ended.sort();
    assert_eq!(ended, ["1", "2", "3", "4"]);
}
