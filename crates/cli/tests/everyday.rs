//! What a person types every day: listings, ids by their beginning, decisions about many jobs, names that are mistyped.

mod support;

use serde_json::{Value, json};
use support::{Place, on_both_databases, said, until};

on_both_databases! {
    jobs_are_found_by_time_unique_key_and_arguments,
    an_id_may_be_shortened_as_long_as_one_job_has_it,
    every_reason_is_named,
    many_jobs_are_cancelled_or_failed_after_a_look,
    a_job_that_succeeded_runs_once_more_only_if_that_is_said,
    a_queue_is_emptied,
    a_queue_shows_since_when_its_oldest_job_waits,
    a_mistyped_name_is_told,
    a_mistyped_name_is_not_looked_for_among_all_jobs,
    a_question_about_a_mistyped_name_is_answered_and_told,
    an_empty_list_of_a_mistyped_name_says_so,
    a_queue_that_is_set_to_wait_for_a_mistyped_one_says_so,
    a_queue_that_is_set_to_zero_is_told_to_be_serial,
    settings_are_taken_away_again,
    finished_jobs_are_deleted_only_if_that_is_said,
    a_schedule_is_shown_and_its_job_names_it,
    a_mistyped_schedule_is_told,
    tasks_and_keys_are_listed,
    a_unique_key_is_shown_as_long_as_it_is_held,
    a_node_that_stops_and_one_that_was_lost_are_shown,
    what_the_last_node_held_is_shown_when_its_lease_is_over,
    a_node_that_serves_until_empty_waits_for_what_a_dead_node_holds,
    a_job_of_a_dead_node_says_what_to_do,
}

fn ids(jobs: &Value) -> Vec<&str> {
    jobs.as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect()
}

/// What a command that must succeed said on stderr.
fn remarked(place: &Place, args: &[&str]) -> String {
    let output = place.run(args);
    assert!(output.status.success(), "{output:?}");
    said(&output)
}

fn jobs_are_found_by_time_unique_key_and_arguments(place: &Place) {
    let first = place.enqueue(&["noop", r#"{"customer":"ACME 42"}"#, "--unique", "k"]);
    let second = place.enqueue(&["noop", r#"{"customer":"other"}"#]);
    let found = |flags: &[&str]| place.json(&[&["jobs", "--json"], flags].concat());
    assert_eq!(ids(&found(&["--since", "1h"])), [&second, &first]);
    assert_eq!(found(&["--until", "1h"]), json!([]));
    let between = place.job(&second)["submitted_at"].as_str().unwrap().to_owned();
    assert_eq!(ids(&found(&["--since", &between])), [&second]);
    assert_eq!(ids(&found(&["--until", &between])), [&first]);
    assert_eq!(ids(&found(&["--unique", "k"])), [&first]);
    assert_eq!(found(&["--unique", "other"]), json!([]));
    assert_eq!(ids(&found(&["--args-contain", "ACME 4"])), [&first]);
    // Written alone, or as the verbs that decide about jobs take it.
    for filter in [&["task=noop", "args~other"][..], &["--filter", "task=noop", "args~other"]] {
        assert_eq!(ids(&found(filter)), [&second], "{filter:?}");
    }
    place.refuses(&["jobs", "task=noop", "--filter", "args~other"], 2, "cannot be used with");
    place.told(&["cancel", &first]);
    assert_eq!(found(&["--unique", "k"]), json!([]), "it has ended");
    place.refuses(&["jobs", "--since", "soon"], 2, "since: \"soon\" is neither a time nor a duration");
}

fn an_id_may_be_shortened_as_long_as_one_job_has_it(place: &Place) {
    let id = place.enqueue(&["noop"]);
    let other = place.enqueue(&["noop"]);
    let length = (1..id.len()).find(|length| id[..*length] != other[..*length]).unwrap();
    let short = &id[..length];
    assert!(place.told(&["job", short]).contains(&id));
    assert!(place.told(&["why", short]).contains("no node is running"));
    assert_eq!(place.told(&["cancel", short]), format!("{id} cancelled\n"));
    assert_eq!(place.told(&["retry", short]), format!("{id} waiting\n"));
    place.refuses(&["job", &id[..4]], 2, "the ids of several jobs begin with");
    place.refuses(&["job", &id[..4]], 2, &other);
    place.refuses(&["job", "ffffffff"], 1, "no job has an id that begins with \"ffffffff\"");
    place.refuses(&["job", "seven"], 2, "id: \"seven\" is neither a job id nor the first four digits of one, or more");
}

fn every_reason_is_named(place: &Place) {
    place.told(&["queue", "set", "slow", "--concurrency", "1"]);
    let node = place.serve(&["--demo-tasks", "--slots", "2", "--poll-interval", "50ms"]);
    let running = place.enqueue(&["sleep", r#"{"ms":3600000}"#, "--queue", "slow"]);
    place.wait_for_state(&running, "running");
    let job = place.enqueue(&["noop", "--queue", "slow", "--group", "acme", "--after", &running, "--in", "1h"]);
    place.told(&["group", "pause", "acme", "--reason", "not paid"]);
    let why: Vec<_> = place.why(&job).lines().map(str::to_owned).collect();
    let parts =
        [&format!("waits for job {running}")[..], "not due before", "1 of 1 slots of queue slow", "acme is paused"];
    let shown: Vec<String> = serde_json::from_value(place.job(&job)["waits_for"].clone()).unwrap();
    assert_eq!(shown, why[..why.len() - 1], "the same reasons in the same words");
    for part in parts {
        assert!(shown.iter().any(|reason| reason.contains(part)), "{part}: {shown:?}");
    }
    // A listing tells what the row and the settings show.
    let listed = place.told(&["jobs", "--state", "waiting"]);
    for part in [&format!("waits: for job {running}")[..], "not due before", "group acme is paused"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    assert!(!listed.contains("slots of queue"), "{listed}");
    assert!(why[why.len() - 1].starts_with("it will not start unless something changes"), "{why:?}");
    // How long the run takes that holds the only place is not known: no time is promised.
    let behind = place.enqueue(&["sleep", r#"{"ms":1}"#, "--queue", "slow"]);
    let why = place.why(&behind);
    assert!(why.contains("it is next; when it starts cannot be said") && !why.contains("about"), "{why}");
    assert_eq!(place.json(&["why", &behind, "--json"])["starts_in_ms"], Value::Null);
    // Nor does it start after its time is over, and that is said too.
    let late = place.enqueue(&["noop", "--queue", "slow", "--expires", "1h"]);
    let why = place.why(&late);
    let expires = place.job(&late)["expires_at"].as_str().unwrap().to_owned();
    assert!(why.ends_with(&format!("; if it has not begun by {expires}, it expires\n")), "{why}");
    place.told(&["cancel", &running]);
    place.wait_for_state(&running, "cancelled");
    node.stop();
}

fn many_jobs_are_cancelled_or_failed_after_a_look(place: &Place) {
    let all = place.enqueue_all((0..3).map(|n| json!({"task": "noop", "args": n, "group": "acme"})));
    let other = place.enqueue(&["noop"]);
    let preview = place.told(&["cancel", "--filter", "group=acme", "--dry-run"]);
    assert!(preview.ends_with("3 jobs would be cancelled\n"), "{preview}");
    place.refuses(&["cancel", "--filter", "group=acme"], 2, "there is no terminal to ask");
    assert_eq!(place.state(&all[0]), "waiting");
    let done = place.told(&["cancel", "--filter", "group=acme", "--yes"]);
    assert!(done.ends_with("3 jobs cancelled\n"), "{done}");
    assert_eq!((place.state(&all[0]).as_str(), place.state(&other).as_str()), ("cancelled", "waiting"));
    let one = place.told(&["cancel", "--filter", "state=waiting", "--yes"]);
    assert!(one.ends_with("1 job would be cancelled\n1 job cancelled\n"), "{one}");
    let stuck = place.enqueue(&["flaky", r#"{"fail":1}"#, "--retry", "manual"]);
    place.work(&["--demo-tasks"]);
    assert_eq!(place.state(&stuck), "stuck");
    let failed = place.told(&["fail", "--filter", "task=flaky", "--yes"]);
    assert!(failed.ends_with("1 job would be marked as failed\n1 job marked as failed\n"), "{failed}");
    assert_eq!(place.state(&stuck), "failed");
    let again = place.told(&["retry", "--filter", "task=flaky", "--dry-run"]);
    assert!(again.ends_with("\n1 job would run again\n"), "{again}");
    place.refuses(&["cancel", "--filter", "state=failed"], 2, "jobs that are failed cannot be cancelled");
    assert_eq!(place.told(&["fail", "--filter", "task=flaky", "--yes"]), "0 jobs would be marked as failed\n");
}

fn a_job_that_succeeded_runs_once_more_only_if_that_is_said(place: &Place) {
    let id = place.enqueue(&["noop"]);
    place.work(&["--demo-tasks"]);
    place.refuses(&["retry", &id], 1, "it has already succeeded (`retry --again` runs it once more)");
    assert_eq!(place.told(&["retry", &id, "--again"]), format!("{id} waiting\n"));
    assert_eq!(place.state(&id), "waiting");
    place.work(&["--demo-tasks"]);
    let job = place.job(&id);
    assert_eq!((&job["state"], &job["attempt"]), (&json!("success"), &json!(2)));
    place.refuses(&["retry", "--filter", "state=success"], 2, "cannot be retried without --again");
    let again = place.told(&["retry", "--again", "--filter", "task=noop", "--yes"]);
    assert!(again.ends_with("1 job would run again\n1 job runs again\n"), "{again}");
}

fn a_queue_is_emptied(place: &Place) {
    let gone = place.enqueue(&["noop", "--queue", "mail"]);
    let stays = place.enqueue(&["noop"]);
    place.refuses(&["queue", "empty", "mail"], 2, "there is no terminal to ask");
    assert!(place.told(&["queue", "empty", "mail", "--dry-run"]).ends_with("1 job would be cancelled\n"));
    assert!(place.told(&["queue", "empty", "mail", "--yes"]).ends_with("1 job cancelled\n"));
    assert_eq!((place.state(&gone).as_str(), place.state(&stays).as_str()), ("cancelled", "waiting"));
    assert_eq!(place.told(&["queue", "empty", "mail", "--yes"]), "0 jobs would be cancelled\n");
    place.refuses(&["queue", "empty", "mial", "--yes"], 2, "queue: no job and no setting has the name \"mial\"");
}

fn a_mistyped_name_is_not_looked_for_among_all_jobs(place: &Place) {
    let first = r#"{"task": "noop", "queue": "rare"}"#.to_owned() + "\n";
    let lines = first + &(r#"{"task": "noop", "queue": "mail"}"#.to_owned() + "\n").repeat(12_000);
    assert!(place.run_with_input(&["enqueue", "--stdin"], &lines).status.success());
    let refusal = "none of the newest and oldest jobs and no setting has the name \"mial\"; did you mean \"mail\"?";
    place.refuses(&["queue", "pause", "mial"], 2, refusal);
    assert!(place.told(&["queue", "pause", "rare"]).starts_with("queue rare: paused"), "it is among the oldest");
}

fn a_queue_shows_since_when_its_oldest_job_waits(place: &Place) {
    let (first, _) = (place.enqueue(&["noop", "--queue", "mail"]), place.enqueue(&["noop", "--queue", "mail"]));
    place.enqueue(&["noop", "--queue", "later", "--in", "1h"]);
    let due = place.job(&first)["due_at"].clone();
    assert!(due.is_string(), "{due}");
    assert_eq!(place.listed("queues", "mail")["oldest"], due);
    assert_eq!(place.listed("queues", "later")["oldest"], Value::Null);
    let table = place.told(&["queues", "--wide"]);
    assert!(table.contains("STUCK  OLDEST") && table.contains(due.as_str().unwrap()), "{table}");
}

fn a_mistyped_name_is_told(place: &Place) {
    place.enqueue(&["noop", "--queue", "mail", "--group", "acme", "--key", "disk"]);
    for verb in ["pause", "resume", "seal", "reset"] {
        place.refuses(
            &["queue", verb, "mial"],
            2,
            "no job and no setting has the name \"mial\"; did you mean \"mail\"?",
        );
    }
    for verb in ["pause", "resume", "reset"] {
        place.refuses(&["group", verb, "acne"], 2, "did you mean \"acme\"?");
    }
    place.refuses(&["task", "reset", "nop"], 2, "did you mean \"noop\"?");
    place.refuses(&["key", "reset", "dsik"], 2, "did you mean \"disk\"?");
    let refusal = place.refused(&["queue", "pause", "nightly"], 2);
    assert!(refusal.contains("no job and no setting") && !refusal.contains("did you mean"), "{refusal}");
    assert_eq!(place.json(&["queues", "--json"]).as_array().unwrap().len(), 1, "nothing was set");
    assert!(place.told(&["queue", "pause", "mial", "--force"]).starts_with("queue mial: paused"));
    // What is set for a name is often set before its first job comes: that is told, and done.
    let new = remarked(place, &["queue", "set", "mails", "--weight", "2"]);
    assert_eq!(new, "new queue: no job and no setting has the name \"mails\"; did you mean \"mail\"?\n");
    assert_eq!(remarked(place, &["queue", "set", "mail", "--weight", "2"]), "");
    assert_eq!(remarked(place, &["task", "set", "noop", "--concurrency", "2"]), "");
}

fn a_question_about_a_mistyped_name_is_answered_and_told(place: &Place) {
    place.enqueue(&["noop", "--queue", "mail", "--group", "acme"]);
    let ask = ["simulate", "--weight", "acne=3", "--pause", "acne", "--pause", "acme", "--concurrency", "mial=1"];
    assert_eq!(
        remarked(place, &ask),
        "queue: no job and no setting has the name \"mial\"; did you mean \"mail\"?\n\
         group: no job and no setting has the name \"acne\"; did you mean \"acme\"?\n"
    );
    assert_eq!(remarked(place, &["simulate", "--weight", "acme=3", "--concurrency", "mail=1"]), "");
}

fn an_empty_list_of_a_mistyped_name_says_so(place: &Place) {
    place.enqueue(&["noop", "--queue", "mail", "--group", "acme"]);
    for (flag, typed, meant) in [("queue", "mial", "mail"), ("group", "acne", "acme"), ("task", "nop", "noop")] {
        let list = |name: &str| remarked(place, &["jobs", &format!("--{flag}"), name, "--state", "failed"]);
        assert_eq!(
            list(typed),
            format!("{flag}: no job and no setting has the name {typed:?}; did you mean {meant:?}?\n")
        );
        assert_eq!(list(meant), "", "there is a job of that name, in another state");
    }
    assert_eq!(place.json(&["jobs", "--queue", "mial", "--json"]), json!([]));
}

fn a_queue_that_is_set_to_wait_for_a_mistyped_one_says_so(place: &Place) {
    for queue in ["mail", "report"] {
        place.enqueue(&["noop", "--queue", queue]);
    }
    let set = |after: &str| remarked(place, &["queue", "set", "report", "--after", after]);
    assert_eq!(set("mail"), "");
    assert_eq!(set("none"), "");
    assert_eq!(set("mial"), "after: no job and no setting has the name \"mial\"; did you mean \"mail\"?\n");
    assert_eq!(place.listed("queues", "report")["after"], json!(["mial"]), "it may come later");
}

fn a_queue_that_is_set_to_zero_is_told_to_be_serial(place: &Place) {
    place.enqueue(&["noop", "--queue", "mail"]);
    let told = remarked(place, &["queue", "set", "mail", "--concurrency", "0"]);
    assert!(told.contains("concurrency 0 is serial") && told.contains("`turnwise queue pause mail`"), "{told}");
    assert_eq!(place.listed("queues", "mail")["concurrency"], "serial");
    assert_eq!(remarked(place, &["queue", "set", "mail", "--concurrency", "serial"]), "");
}

fn settings_are_taken_away_again(place: &Place) {
    place.told(&["queue", "set", "mail", "--concurrency", "3"]);
    place.told(&["queue", "pause", "mail"]);
    assert_eq!(place.told(&["queue", "reset", "mail"]), "queue mail: its settings are removed; the defaults hold\n");
    assert_eq!(place.json(&["queues", "--json"]), json!([]));
    for (what, flags) in [("group", ["--weight", "3"]), ("task", ["--rate", "1/1m"]), ("key", ["--concurrency", "1"])] {
        place.told(&[what, "set", "x", flags[0], flags[1]]);
        let line = place.told(&[what, "reset", "x"]);
        assert_eq!(line, format!("{what} x: its settings are removed; the defaults hold\n"));
        assert_eq!(place.json(&[&format!("{what}s"), "--json"]), json!([]));
    }
    // A dispatcher hears of it.
    let node = place.serve(&["--demo-tasks", "--poll-interval", "50ms"]);
    let held = place.enqueue(&["noop", "--queue", "mail", "--in", "1ms"]);
    place.wait_for_state(&held, "success");
    place.told(&["queue", "pause", "mail"]);
    let held = place.enqueue(&["noop", "--queue", "mail"]);
    assert!(place.told(&["jobs"]).contains("waits: queue mail is paused"));
    place.told(&["queue", "reset", "mail"]);
    place.wait_for_state(&held, "success");
    node.stop();
}

fn finished_jobs_are_deleted_only_if_that_is_said(place: &Place) {
    let id = place.enqueue(&["noop"]);
    place.work(&["--demo-tasks"]);
    place.refuses(&["prune", "--retention", "0"], 2, "there is no terminal to ask");
    assert_eq!(place.state(&id), "success");
    let dry = place.told(&["prune", "--retention", "0", "--dry-run"]);
    assert_eq!(dry, "1 finished job would be deleted (retention 0s)\n");
    assert!(place.told(&["prune", "--dry-run"]).starts_with("0 finished jobs would be deleted"));
    assert_eq!(place.state(&id), "success");
    place.told(&["prune", "--retention", "0", "--yes"]);
    place.refuses(&["job", &id], 1, "there is no job");
}

fn a_mistyped_schedule_is_told(place: &Place) {
    place.told(&["schedule", "add", "nightly", "noop", "--every", "1h"]);
    for verb in ["show", "pause", "resume", "remove", "run"] {
        let line = place.refused(&["schedule", verb, "nigthly"], 2);
        assert!(line.ends_with("there is none named \"nigthly\"; did you mean \"nightly\"?\n"), "{verb}: {line}");
        let line = place.refused(&["schedule", verb, "something-else"], 2);
        assert!(line.ends_with("there is none named \"something-else\"\n"), "{verb}: {line}");
    }
}

fn a_schedule_is_shown_and_its_job_names_it(place: &Place) {
    let add = ["schedule", "add", "sales", "noop", r#"{"of":"acme"}"#];
    let set = place.told(&[&add[..], &["--every", "1h 30m"]].concat());
    assert!(set.starts_with("schedule sales: every 90m, task noop"), "{set}");
    for zone in [&["--every", "1h", "--zone", "Europe/Berlin"][..], &["--zone", "Europe/Berlin"]] {
        place.refused(&[&add[..], zone].concat(), 2);
    }
    assert!(place.told(&["schedule", "show", "sales"]).contains("  last run at its time: none yet\n"));
    assert!(place.told(&["schedule", "show", "sales"]).contains("  every 90m, at its multiples\n"));
    // A job that a person runs beside the plan is the schedule's, too, and no other's.
    place.told(&["schedule", "add", "other", "noop", "--every", "1h", "--on-exhausted", "sorry", "--next", "then"]);
    let runs: Vec<_> = (0..2).map(|_| place.told(&["schedule", "run", "sales"]).trim().to_owned()).collect();
    for run in &runs {
        assert_eq!(place.job(run)["schedule"], "sales");
    }
    assert_ne!(runs[0], runs[1]);
    let lines = place.told(&["schedule", "show", "other"]);
    for part in ["goes on as task sorry when its retries run out", "goes on as task then after a success"] {
        assert!(lines.contains(part), "{lines}");
    }
    let shown = place.json(&["schedule", "show", "other", "--json"]);
    assert_eq!([&shown["on_exhausted"], &shown["next_task"]], [&json!("sorry"), &json!("then")]);
    place.told(&[&["cancel"], &runs.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat());
    place.told(&["schedule", "add", "sales", "noop", r#"{"of":"acme"}"#, "--every", "1s"]);
    let node = place.serve(&["--demo-tasks", "--poll-interval", "50ms"]);
    let job = until("a job of the schedule", || {
        let jobs = place.json(&["jobs", "--json", "--state", "success", "--limit", "1"]);
        jobs.as_array().unwrap().first().cloned()
    });
    assert_eq!(job["schedule"], "sales");
    let shown = until("its last job", || {
        Some(place.json(&["schedule", "show", "sales", "--json"])).filter(|shown| shown["last_job"] != Value::Null)
    });
    assert_eq!((&shown["args"], &shown["when"]), (&json!({"of": "acme"}), &json!("every 1s")));
    let lines = place.told(&["schedule", "show", "sales"]);
    assert!(lines.contains(r#"  args {"of":"acme"}"#) && lines.contains("  last run at its time: job "), "{lines}");
    node.stop();
    let other = place.enqueue(&["noop"]);
    assert_eq!(place.job(&other)["schedule"], Value::Null);
}

fn tasks_and_keys_are_listed(place: &Place) {
    place.enqueue(&["noop", "--key", "disk"]);
    place.told(&["task", "set", "noop", "--rate", "10/1m"]);
    place.told(&["key", "set", "disk", "--concurrency", "2"]);
    let node = place.serve(&["--demo-tasks", "--queue", "elsewhere"]);
    let task = place.listed("tasks", "noop");
    assert_eq!((&task["waiting"], &task["nodes"], &task["rate"]), (&json!(1), &json!(1), &json!("10/1m,10")));
    let key = place.listed("keys", "disk");
    assert_eq!((&key["waiting"], &key["concurrency"]), (&json!(1), &json!(2)));
    let header = place.told(&["tasks"]).lines().next().unwrap().to_owned();
    assert_eq!(
        header.split_whitespace().collect::<Vec<_>>().join(" "),
        "TASK WAITING SCHEDULED RUNNING STUCK NODES CONCURRENCY RATE"
    );
    node.stop();
}

fn a_unique_key_is_shown_as_long_as_it_is_held(place: &Place) {
    let plain = place.enqueue(&["noop"]);
    let held = place.enqueue(&["noop", "--unique", "nightly"]);
    let timed = place.enqueue(&["noop", "--unique", "hourly", "--unique-scope", "docs", "--unique-for", "1h"]);
    let shown = |id: &str| {
        let (alone, all) = (place.job(id), place.json(&["jobs", "--json"]));
        let listed = all.as_array().unwrap().iter().find(|job| job["id"] == id).unwrap().clone();
        let keys = |job: &Value| ["unique", "unique_scope"].map(|name| job[name].clone());
        assert_eq!(keys(&alone), keys(&listed), "in a listing and alone");
        assert_eq!(alone["unique_until"], listed["unique_until"]);
        keys(&alone)
    };
    let none = [Value::Null, Value::Null];
    assert_eq!(shown(&plain), none);
    assert_eq!(shown(&held), [json!("nightly"), json!("task:noop")]);
    assert_eq!(shown(&timed), [json!("hourly"), json!("scope:docs")]);
    assert!(place.job(&held)["unique_until"].is_null() && place.job(&timed)["unique_until"].is_string());
    let table = place.told(&["jobs"]);
    assert!(table.contains("nightly (task:noop)") && table.contains("hourly (scope:docs)"), "{table}");
    let line = |id: &str| {
        let fields = place.told(&["job", id]);
        fields
            .lines()
            .find(|line| line.starts_with("unique "))
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!((line(&plain), line(&held)), ("unique -".into(), "unique nightly (task:noop) until it ends".into()));
    assert!(line(&timed).starts_with("unique hourly (scope:docs) until 2"), "{}", line(&timed));
    place.told(&["cancel", &held, &timed]);
    assert_eq!(shown(&held), none, "it has ended");
    assert_eq!(shown(&timed), [json!("hourly"), json!("scope:docs")], "its hour is not over");
}

fn a_node_that_stops_and_one_that_was_lost_are_shown(place: &Place) {
    let flags = |name| ["--demo-tasks", "--slots", "2", "--lease", "1s", "--poll-interval", "50ms", "--name", name];
    let mut first = place.serve(&flags("first"));
    let job = place.enqueue(&["sleep", r#"{"ms":3600000}"#]);
    place.wait_for_state(&job, "running");
    let listed = |name: &str| place.listed("nodes", name);
    assert_eq!(listed("first")["state"], "alive");
    assert_eq!([&listed("first")["lost_at"], &listed("first")["held"]], [&Value::Null, &Value::Null]);
    let second = place.serve(&flags("second"));
    first.process.kill();
    until("the loss to be shown", || (listed("first")["held"] == 1).then_some(()));
    let lost = listed("first");
    assert_eq!((&lost["state"], &lost["held_jobs"]), (&json!("lost"), &json!([job])));
    assert!(lost["lost_at"].is_string(), "{lost}");
    // Its job goes on elsewhere, and it is still shown.
    until("the job elsewhere", || (place.job(&job)["node"] == "second").then_some(()));
    place.wait_for_state(&job, "running");
    let table = place.told(&["nodes"]);
    let row = table.lines().find(|line| line.starts_with("first ")).unwrap();
    assert!(row.contains("lost") && row.contains(" ago ") && row.ends_with(&job), "{table}");
    // A node that takes its name is another one.
    let again = place.serve(&flags("first"));
    let all = place.json(&["nodes", "--json"]);
    let firsts: Vec<_> = all.as_array().unwrap().iter().filter(|node| node["name"] == "first").collect();
    assert_eq!(firsts.iter().map(|node| &node["state"]).collect::<Vec<_>>(), ["alive", "lost"], "{all}");
    again.stop();
    second.signal("TERM");
    until("the node to be stopping", || (listed("second")["state"] == "stopping").then_some(()));
    place.told(&["cancel", &job]);
    let mut second = second;
    assert_eq!(second.end().0, Some(0));
    let left = place.json(&["nodes", "--json"]);
    let left: Vec<_> = left.as_array().unwrap().iter().map(|node| (&node["name"], &node["state"])).collect();
    assert_eq!(left, [(&json!("first"), &json!("lost"))], "a node that has left is not shown");
}

/// There is no other node that could find it lost.
fn what_the_last_node_held_is_shown_when_its_lease_is_over(place: &Place) {
    let mut node = place.serve(&["--demo-tasks", "--lease", "1s", "--name", "only"]);
    let jobs = place.enqueue_all((0..2).map(|_| json!({"task": "sleep", "args": {"ms": 3_600_000}})));
    jobs.iter().for_each(|job| place.wait_for_state(job, "running"));
    node.process.kill();
    let listed = || place.listed("nodes", "only");
    until("its lease to be over", || (listed()["state"] == "lost").then_some(()));
    let lost = listed();
    assert_eq!([&lost["held"], &lost["held_jobs"]], [&json!(2), &json!(jobs)], "{lost}");
    assert_eq!(lost["lost_at"], lost["lease_until"], "{lost}");
    let table = place.told(&["nodes"]);
    assert!(table.lines().any(|line| line.starts_with("only ") && line.contains(&jobs[0])), "{table}");
}

/// Until its lease is over, a dead node looks like a living one that has the job.
fn a_node_that_serves_until_empty_waits_for_what_a_dead_node_holds(place: &Place) {
    let hang = "[tasks.once]\ncommand = ['sh', '-c', 'test -e begun && exit 0; touch begun; sleep 1000']\n";
    std::fs::write(place.path().join("turnwise.toml"), hang).unwrap();
    let mut first = place.serve(&["--lease", "3s", "--name", "first"]);
    let job = place.enqueue(&["once"]);
    until("the first run", || place.path().join("begun").exists().then_some(()));
    place.wait_for_state(&job, "running");
    first.process.kill();
    place.work(&["--name", "second"]);
    assert_eq!(place.state(&job), "success");
}

fn a_job_of_a_dead_node_says_what_to_do(place: &Place) {
    let mut node = place.serve(&["--demo-tasks", "--lease", "1s", "--poll-interval", "50ms"]);
    let job = place.enqueue(&["sleep", r#"{"ms":3600000}"#]);
    place.wait_for_state(&job, "running");
    node.process.kill();
    until("its lease to be over", || place.why(&job).contains("shows no sign of life").then_some(()));
    assert!(place.why(&job).contains("takes the job back; if no node is alive, start one"), "{}", place.why(&job));
    // Where it is listed, too, its state alone would look as if all were well.
    let why = place.why(&job).trim().to_owned();
    assert_eq!(place.job(&job)["waits_for"], json!([why]));
    assert_eq!(place.json(&["jobs", "--state", "running", "--json"])[0]["waits_for"], json!([why]));
    let table = place.told(&["jobs"]);
    assert!(table.lines().any(|line| line.starts_with(&job) && line.ends_with(&why)), "{table}");
    let next = place.serve(&["--demo-tasks", "--lease", "1s", "--poll-interval", "50ms", "--name", "next"]);
    until("the job elsewhere", || (place.job(&job)["node"] == "next").then_some(()));
    assert_eq!(place.job(&job)["waits_for"], json!([]), "a living node has it");
    place.told(&["cancel", &job]);
    next.stop();
}

#[test]
fn a_success_does_not_show_the_error_that_it_got_over() {
    let place = Place::new();
    let id = place.enqueue(&["flaky", r#"{"fail":1}"#, "--retry", "durations:1ms"]);
    place.work(&["--demo-tasks"]);
    assert_eq!(place.state(&id), "success");
    let table = place.told(&["jobs"]);
    assert!(table.lines().next().unwrap().ends_with("NODE  UNIQUE  NOTE"), "{table}");
    assert!(!table.contains("that fail"), "{table}");
    let shown = place.told(&["job", &id]);
    let error = shown.lines().find(|line| line.starts_with("error")).unwrap();
    assert!(error.ends_with(" -"), "{error}");
    assert!(shown.contains("attempt           1 flaky"), "the attempt tells it: {shown}");
    let preview = place.told(&["retry", "--again", "--filter", "task=flaky", "--dry-run"]);
    assert!(preview.contains(&id) && !preview.contains("that fail"), "{preview}");
}

#[test]
fn a_search_in_arguments_says_how_far_it_came() {
    let place = Place::new();
    place.enqueue(&["noop", r#""needle""#]);
    place.enqueue_all((0..20_000).map(|n| json!({"task": "noop", "args": n})));
    let output = place.run(&["jobs", "--args-contain", "needle", "--json"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "[]\n");
    let came = "enough jobs were looked at, those submitted since 20";
    assert!(said(&output).starts_with(came) && said(&output).contains("with --until"), "{}", said(&output));
    // A rare task is no reason to look at all jobs.
    place.enqueue(&["rare", r#""hay""#]);
    let output = place.run(&["jobs", "--task", "rare", "--args-contain", "needle", "--json"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "[]\n");
    assert!(said(&output).starts_with(came), "{}", said(&output));
    let rare = place.json(&["jobs", "--task", "rare", "--args-contain", "hay", "--limit", "1", "--json"]);
    assert_eq!(rare.as_array().unwrap().len(), 1);
    // The same in the filter language; a decision goes on to the end.
    let output = place.run(&["jobs", "args~needle", "--json"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "[]\n");
    assert!(said(&output).starts_with(came) && said(&output).contains("with until:"), "{}", said(&output));
    let rare = place.json(&["jobs", "task:rare args~HAY", "--limit", "1", "--json"]);
    assert_eq!(rare.as_array().unwrap().len(), 1);
    let preview = place.told(&["cancel", "--filter", "args~needle", "--dry-run"]);
    assert!(preview.contains("1 job would be cancelled"), "{preview}");
}

#[test]
fn the_demo_writes_no_file_unasked_and_fits_sixty_columns() {
    let place = Place::new();
    let printed = place.told(&["demo", "--groups", "3", "--seconds", "2"]);
    let files: Vec<_> = std::fs::read_dir(place.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(files.is_empty(), "{files:?}");
    let longest = printed.lines().max_by_key(|line| line.chars().count()).unwrap();
    assert!(longest.chars().count() <= 60, "{longest}");
    place.refuses(&["demo", "--database", "sqlite:x.db"], 2, "database: has no effect on the demo");
    for flags in [
        &["--log", "debug"][..],
        &["--log-format", "json"],
        &["--token", "x"],
        &["--server-ca", "ca.pem"],
        &["--server-plain-http"],
        &["--config", "other.toml"],
    ] {
        let name = flags[0].trim_start_matches("--");
        place.refuses(&[&["demo"], flags].concat(), 2, &format!("{name}: has no effect on the demo"));
    }
    // It uses no settings.
    std::fs::write(place.path().join("turnwise.toml"), "nonsense = 1").unwrap();
    assert!(place.told(&["demo", "--groups", "3", "--seconds", "1"]).contains("flood"));
}
