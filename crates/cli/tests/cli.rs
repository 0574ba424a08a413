//! The real binary, on a SQLite file of its own; where it matters, on PostgreSQL too.

mod support;

use std::{collections::BTreeSet, fmt::Write as _, fs, process::Stdio};

use serde_json::{Value, json};
use support::{Place, Serving, refused, said, succeeded, until};
use turnwise_sqlite::rusqlite;
use turnwise_testpg::Cluster;

/// Looks often for jobs that another process has submitted.
const OFTEN: [&str; 2] = ["--poll-interval", "50ms"];

fn work_until_empty(place: &Place) {
    place.work(&[&["--demo-tasks"], &OFTEN[..]].concat());
}

fn serve(place: &Place, flags: &[&str]) -> Serving {
    place.serve(&[&OFTEN[..], flags].concat())
}

/// Refused with code 2 and one line that holds `part`; nothing was stored.
fn refuses(place: &Place, args: &[&str], part: &str) {
    place.refuses(args, 2, part);
    assert_eq!(place.json(&["jobs", "--json"]), json!([]), "{args:?}");
}

#[test]
fn a_submitted_job_ends_in_success() {
    let place = Place::new();
    let id = place.enqueue(&["sleep", r#"{"ms":1}"#, "--queue", "mail", "--group", "acme", "--priority", "low"]);
    assert_eq!(place.job(&id)["state"], "waiting");
    work_until_empty(&place);
    let job = place.job(&id);
    assert_eq!((&job["state"], &job["attempt"], &job["error"]), (&json!("success"), &json!(1), &Value::Null));
    assert!(job["started_at"].as_str() <= job["finished_at"].as_str(), "{job}");
    assert!(place.path().join("turnwise.db").exists());
}

#[test]
fn a_job_has_the_promised_fields() {
    let place = Place::new();
    let args = r#"{"b":1.50,"a":12345678901234567890}"#;
    let id = place.enqueue(&["noop", args, "--retry", "durations:10s,20s"]);
    let listed = place.json(&["jobs", "--json"]);
    let names: BTreeSet<_> = listed[0].as_object().unwrap().keys().map(String::as_str).collect();
    let promised = "id task queue group key priority state attempt retries_left args result error node submitted_at due_at \
                    assigned_at started_at finished_at retry timeout on_exhausted next expires_at fingerprint cancel_requested \
                    waits_for schedule traceparent unique unique_scope unique_until";
    assert_eq!(names, promised.split_whitespace().collect());
    // A job shown alone also has the record of its runs, and the jobs that it waits for or that wait for it.
    let mut alone = place.job(&id);
    let nothing = [
        ("progress", Value::Null),
        ("steps", json!({})),
        ("attempts", json!([])),
        ("after", json!([])),
        ("on_failure", Value::Null),
        ("awaited_by", json!([])),
    ];
    for (name, nothing) in nothing {
        assert_eq!(alone.as_object_mut().unwrap().remove(name), Some(nothing));
    }
    assert_eq!(listed[0], alone);
    assert!(place.told(&["jobs", "--json"]).contains(&format!("\"args\":{args},")));
    let job = place.job(&id);
    assert_eq!((&job["id"], &job["queue"], &job["group"]), (&json!(id), &json!("default"), &json!("default")));
    assert_eq!((&job["priority"], &job["retries_left"], &job["attempt"]), (&json!(5), &json!(2), &json!(0)));
    assert_eq!(job["key"], Value::Null);
    let due = job["due_at"].as_str().unwrap();
    assert!(due.len() == "2030-01-31T08:30:00.000000Z".len() && due.ends_with('Z'), "{due}");
    work_until_empty(&place);
    assert_eq!(place.json(&["jobs", "--json", "--state", "success"])[0]["id"], json!(id));
}

#[test]
fn times_priorities_and_policies_are_read() {
    let place = Place::new();
    let due = |id: &str| place.job(id)["due_at"].as_str().unwrap().to_owned();
    let at = place.enqueue(&["noop", "--at", "2090-01-31T09:30:00+01:00", "--priority", "high"]);
    assert_eq!(due(&at), "2090-01-31T08:30:00.000000Z");
    assert_eq!(place.job(&at)["priority"], 3);
    let later = place.enqueue(&["noop", "--in", "1h", "--priority", "10"]);
    assert!(due(&later).as_str() > place.job(&later)["submitted_at"].as_str().unwrap());
    assert!(place.job(&later)["waits_for"][0].as_str().unwrap().contains("not due before"));
    for (policy, left) in [("exponential:1s,7", json!(7)), ("manual", Value::Null), ("none", json!(0))] {
        let id = place.enqueue(&["noop", "--retry", policy]);
        assert_eq!((&place.job(&id)["retries_left"], &place.job(&id)["retry"]), (&left, &json!(policy)));
    }
}

#[test]
fn a_limit_key_is_kept_and_shown() {
    let place = Place::new();
    let id = place.enqueue(&["noop", "--key", "db 1"]);
    assert_eq!(place.job(&id)["key"], "db 1");
    assert!(place.told(&["job", &id]).lines().any(|line| line.starts_with("key") && line.ends_with("db 1")));
    work_until_empty(&place);
    assert_eq!((&place.job(&id)["state"], &place.job(&id)["key"]), (&json!("success"), &json!("db 1")));
}

#[test]
fn bad_input_is_refused_with_its_field_and_stores_nothing() {
    let place = Place::new().with_schema();
    refuses(&place, &["enqueue", "noop", "{"], "args: ");
    refuses(&place, &["enqueue", "noop", "{} {}"], "args: ");
    refuses(&place, &["enqueue", "noop", r#"{"a":"\u0000"}"#], "args: must not contain a NUL byte");
    refuses(&place, &["enqueue", "noop", &"[".repeat(100)], "args: is nested deeper");
    refuses(&place, &["enqueue", "noop", ""], "args: ");
    refuses(&place, &["enqueue", ""], "task: must not be empty");
    refuses(&place, &["enqueue", "a\nb"], "task: must not contain control characters");
    refuses(&place, &["enqueue", &"x".repeat(201)], "task: is 201 bytes long");
    for priority in ["0", "11", "-1", "1.5", "urgent", ""] {
        refuses(&place, &["enqueue", "noop", "--priority", priority], "priority: ");
    }
    refuses(&place, &["enqueue", "noop", "--key", ""], "key: must not be empty");
    refuses(&place, &["enqueue", "--stdin", "--key", "db"], "--key");
    for time in ["tomorrow", "2030-13-01T00:00:00Z", "2030-01-01", "-5"] {
        refuses(&place, &["enqueue", "noop", "--at", time], "at: ");
    }
    for wait in ["10", "-1s", "soon", "99999999d"] {
        refuses(&place, &["enqueue", "noop", "--in", wait], "in: ");
    }
    refuses(&place, &["enqueue", "noop", "--in", "1s", "--at", "2030-01-01T00:00:00Z"], "--at");
    refuses(&place, &["enqueue", "noop", "--retry", "often"], "retry: ");
    refuses(&place, &["enqueue", "noop", "--queue", ""], "queue: ");
    refuses(&place, &["enqueue", "noop", "--group", " x"], "group: ");
    refuses(&place, &["enqueue"], "TASK");
    refuses(&place, &["jobs", "--state", "lost"], "state: ");
    refuses(&place, &["jobs", "--limit", "1000001"], "limit: ");
    refuses(&place, &["job", "seven"], "id: ");
    refuses(&place, &["cancel", "seven"], "id: ");
    refuses(&place, &["serve", "--slots", "0"], "core_pool_size: ");
    refuses(&place, &["serve", "--lease", "5"], "lease: ");
    refuses(&place, &["serve", "--log", "a=b=c"], "log: ");
    refuses(&place, &["jobs", "--database", "jobs.db"], "database: ");
    refuses(
        &place,
        &["jobs", "--database", "postgrs://ann:s3cret@db/jobs"],
        "\"postgrs://ann@db/jobs\" is not a database",
    );
    refuses(&place, &["jobs", "--database", "postgres://db:port/jobs"], "database: the url cannot be read: port=port");
    refuses(
        &place,
        &["jobs", "--database", "postgres://db/jobs?sslmode=maybe"],
        "database: the url cannot be read: sslmode",
    );
    refuses(&place, &["jobs", "--database", "sqlite:"], "database: \"sqlite:\" names no file");
    refuses(&place, &["frobnicate"], "frobnicate");
}

/// Whether the command looks, submits, works or changes the schema.
#[test]
fn a_mistyped_address_is_refused_alike_by_every_command() {
    let place = Place::new();
    let commands: [&[&str]; 10] = [
        &["jobs"],
        &["enqueue", "noop"],
        &["serve", "--until-empty"],
        &["migrate"],
        &["migrate", "--check"],
        &["migrate", "--print"],
        &["doctor"],
        &["bench", "--jobs", "10"],
        &["prune"],
        &["queue", "pause", "mail"],
    ];
    for (address, problem) in [
        ("jobs.db", "\"jobs.db\" is not a database; write sqlite:FILE or postgres://USER@HOST/NAME"),
        ("mysql://ann:s3cret@db/jobs", "\"mysql://ann@db/jobs\" is not a database"),
        ("http://ann:s3cret@db:8080", "\"http://ann@db:8080\" is no database; a server is named with --server"),
        ("sqlite:", "\"sqlite:\" names no file"),
        ("sqlite:jobs.db?timeout=1s", "\"sqlite:jobs.db?timeout=1s\": \"timeout=1s\" is not a setting"),
        ("postgres://ann:s3cret@db/jobs?sslmod=require", "the url cannot be read: there is no parameter \"sslmod\""),
        (
            "postgres://db/jobs?sslmode=verify-ca&sslrootcert=none.pem",
            "sslrootcert=none.pem: no certificate can be read",
        ),
    ] {
        for command in commands {
            let line = place.refused(&[command, &["--database", address]].concat(), 2);
            let expected = format!("error: database: {problem}");
            assert!(line.starts_with(&expected) && !line.contains("s3cret"), "{command:?}: {line}");
        }
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "something was made");
    // A flag is before the eyes; of another place it is said where it is.
    let place = place.with("database = 'jobs.db'\n");
    for command in commands {
        assert!(place.refused(command, 2).ends_with(" (turnwise.toml)\n"), "{command:?}");
    }
    let place = Place::on("jobs.db".to_owned());
    for command in commands {
        assert!(place.refused(command, 2).ends_with(" (TURNWISE_DATABASE)\n"), "{command:?}");
    }
    // What is not used is not looked at.
    assert!(place.told(&["config"]).contains("jobs.db"));
    place.refuses(&["jobs", "--server", "http://127.0.0.1:1"], 1, "cannot be reached");
}

#[test]
fn a_command_without_its_verb_is_refused_with_those_there_are() {
    let place = Place::new();
    for typed in [&[][..], &["queue"], &["group"], &["schedule"], &["token"]] {
        let output = place.run(typed);
        let (code, text) = (output.status.code(), said(&output));
        assert!(code == Some(2) && output.stdout.is_empty(), "{output:?}");
        assert!(text.contains(&format!("Usage: turnwise {}", typed.concat()).trim_end().to_owned()), "{text}");
        assert_eq!(text.lines().last(), Some("error: a command is missing: one of those above"), "{text}");
    }
}

#[test]
fn a_schedule_is_set_shown_and_tells_when_jobs_are_due() {
    let place = Place::new().with_schema();
    let set = ["queue", "set", "nightly", "--schedule", "0 2 * * *", "--zone", "Europe/Berlin"];
    assert!(place.told(&set).contains(", schedule 0 2 * * * Europe/Berlin"), "{}", place.told(&set));
    let id = place.enqueue(&["noop", "--queue", "nightly"]);
    let own = place.enqueue(&["noop", "--queue", "nightly", "--at", "2130-01-31T08:30:00Z"]);
    let queues = place.json(&["queues", "--json"]);
    assert_eq!(queues[0]["schedule"], json!({"cron": "0 2 * * *", "zone": "Europe/Berlin"}));
    assert!(place.told(&["queues"]).contains("0 2 * * * Europe/Berlin"));
    let job = place.job(&id);
    let due = job["due_at"].as_str().unwrap();
    assert!(due > job["submitted_at"].as_str().unwrap() && due.ends_with(":00:00.000000Z"), "{due}");
    let sentence = format!("not due before {due} (schedule 0 2 * * * Europe/Berlin of queue nightly)");
    assert_eq!(job["waits_for"][0], sentence);
    assert!(place.told(&["why", &id]).starts_with(&sentence), "{}", place.told(&["why", &id]));
    assert_eq!(place.job(&own)["due_at"], "2130-01-31T08:30:00.000000Z");
    let simulated = place.json(&["simulate", "--slots", "1", "--json"]);
    // One is due within a day, the other in a hundred years.
    assert_eq!(simulated["after"]["starts"], 1, "{simulated}");

    assert!(!place.told(&["queue", "set", "nightly", "--schedule", "none"]).contains("schedule"));
    assert_eq!(place.job(&id)["due_at"], place.job(&id)["submitted_at"]);
    place.told(&["cancel", &own]);
    work_until_empty(&place);
    assert_eq!(place.job(&id)["state"], "success");
}

#[test]
fn windows_are_set_shown_and_taken_away() {
    let place = Place::new().with_schema();
    let blocks = ["--block", "mon-fri 9:00-17:00 europe/berlin", "--block", "Sat 00:00-24:00"];
    let set = place.told(&[&["queue", "set", "mail"], &blocks[..]].concat());
    assert!(set.contains(", blocked Mon-Fri 09:00-17:00 Europe/Berlin, Sat 00:00-24:00"), "{set}");
    let queues = place.json(&["queues", "--json"]);
    assert_eq!(queues[0]["block"], json!(["Mon-Fri 09:00-17:00 Europe/Berlin", "Sat 00:00-24:00"]));
    // All but the minute before last: whenever this runs, the queue is closed.
    let now = place.job(&place.enqueue(&["noop"]))["submitted_at"].as_str().unwrap().to_owned();
    let minute = now[11..13].parse::<u32>().unwrap() * 60 + now[14..16].parse::<u32>().unwrap() + 1440;
    let clock = |minute: u32| format!("{:02}:{:02}", minute % 1440 / 60, minute % 60);
    let window = format!("{}-{}", clock(minute - 1), clock(minute - 2));
    place.told(&["queue", "set", "mail", "--block", &window]);
    let id = place.enqueue(&["noop", "--queue", "mail"]);
    let queue =
        place.json(&["queues", "--json"]).as_array().unwrap().iter().find(|q| q["name"] == "mail").unwrap().clone();
    let until = queue["blocked_until"].as_str().unwrap();
    let sentence = format!("queue mail is blocked until {until} ({window})");
    assert!(place.told(&["why", &id]).contains(&sentence), "{}", place.told(&["why", &id]));
    assert_eq!(place.job(&id)["waits_for"][0], sentence);
    assert!(!place.told(&["queue", "set", "mail", "--block", "none"]).contains("blocked"));
    work_until_empty(&place);
    assert_eq!(place.job(&id)["state"], "success");
}

#[test]
fn a_bad_schedule_or_window_is_refused_with_the_forms_that_are_good() {
    let place = Place::new().with_schema();
    for cron in ["0 2 * *", "61 * * * *", "", "0 0 30 2 *", "nightly"] {
        refuses(&place, &["queue", "set", "q", "--schedule", cron], "schedule: ");
        refuses(&place, &["queue", "set", "q", "--schedule", cron], r#"like "0 2 * * *""#);
    }
    refuses(
        &place,
        &["queue", "set", "q", "--schedule", "@daily", "--zone", "Mars"],
        "zone: \"Mars\" is not a time zone",
    );
    refuses(&place, &["queue", "set", "q", "--zone", "UTC"], "--schedule");
    for window in ["", "Mon", "9-17", "Mon-Fri 09:00-25:00", "09:00-09:00"] {
        refuses(&place, &["queue", "set", "q", "--block", window], "block: ");
        refuses(&place, &["queue", "set", "q", "--block", window], r#"like "Mon-Fri 09:00-17:00 Europe/Berlin""#);
    }
    refuses(&place, &["queue", "set", "q", "--block", "09:00-17:00 Mars"], "zone: ");
    let always = ["--block", "Mon-Fri 00:00-24:00", "--block", "Sat,Sun 00:00-24:00"];
    refuses(&place, &[&["queue", "set", "q"], &always[..]].concat(), "block: the windows leave no time at all");
    assert_eq!(place.json(&["queues", "--json"]), json!([]));
}

#[test]
fn bad_lines_on_stdin_store_none_of_them() {
    let place = Place::new().with_schema();
    let large = format!(r#"{{"task":"noop","args":"{}"}}"#, "x".repeat(1024 * 1024));
    for (line, part) in [
        (r#"{"task":"noop","priority":11}"#, "line 3: priority: "),
        (r#"{"task":"noop","args":{]}"#, "line 3: args: "),
        (r#"{"task":"noop","args":"\u0000"}"#, "line 3: args: must not contain a NUL byte"),
        ("{\"task\":\"no\0op\"}", "line 3: task: "),
        (r#"{"task":"noop","when":"now"}"#, "line 3: unknown name \"when\""),
        (&large, "line 3: args: is 1048578 bytes long"),
    ] {
        let lines = format!("{{\"task\":\"noop\"}}\n\n{line}\n{{\"task\":\"noop\"}}\n");
        let refusal = refused(&place.run_with_input(&["enqueue", "--stdin"], &lines), 2);
        assert!(refusal.contains(part), "{refusal}");
    }
    assert_eq!(place.json(&["jobs", "--json"]), json!([]));
}

#[test]
fn lines_on_stdin_are_stored_in_their_order() {
    let place = Place::new();
    let mut lines = String::new();
    for number in 0..1_000 {
        let _ = writeln!(lines, r#"{{"task":"noop","args":{{"n":{number}}},"group":"g{}","in":"1h"}}"#, number % 7);
    }
    let ids = succeeded(&place.run_with_input(&["enqueue", "--stdin"], &lines));
    let ids: Vec<_> = ids.lines().collect();
    assert_eq!(ids.len(), 1_000);
    assert!(ids.is_sorted());
    let listed = place.json(&["jobs", "--json", "--limit", "1000000"]);
    let newest_first: Vec<_> =
        listed.as_array().unwrap().iter().map(|job| job["args"]["n"].as_u64().unwrap()).collect();
    assert_eq!(newest_first, (0..1_000).rev().collect::<Vec<_>>());
    assert_eq!(listed[999]["id"], ids[0]);
    assert_eq!(place.json(&["jobs", "--json", "--group", "g3", "--limit", "5"]).as_array().unwrap().len(), 5);
    assert_eq!(succeeded(&place.run_with_input(&["enqueue", "--stdin"], "\n\n")), "");
}

#[test]
fn an_unknown_task_stays_waiting_and_says_why() {
    let place = Place::new();
    let id = place.enqueue(&["no-such-task"]);
    assert_eq!(place.job(&id)["waits_for"], json!(["no node is running"]));
    let mut node = serve(&place, &["--demo-tasks"]);
    assert_eq!(place.job(&id)["waits_for"], json!(["no live node knows this task"]));
    assert!(place.told(&["job", &id]).contains("waits for         no live node knows this task"));
    assert!(place.told(&["jobs"]).contains("waits: no live node knows this task"));
    node.signal("TERM");
    assert_eq!(node.end(), (Some(0), String::new()));
    work_until_empty(&place);
    assert_eq!(place.job(&id)["state"], "waiting");
}

#[test]
fn flaky_fails_its_first_attempts() {
    let place = Place::new();
    let id = place.enqueue(&["flaky", r#"{"fail":2}"#, "--retry", "durations:1ms,1ms,1ms"]);
    work_until_empty(&place);
    let job = place.job(&id);
    assert_eq!((&job["state"], &job["attempt"]), (&json!("success"), &json!(3)));
    let id = place.enqueue(&["flaky", r#"{"fail":9}"#, "--retry", "none"]);
    work_until_empty(&place);
    let job = place.job(&id);
    assert_eq!((&job["state"], &job["error"]), (&json!("failed"), &json!("attempt 1 of 9 that fail")));
}

#[test]
fn a_stuck_job_is_retried_or_failed_by_a_person() {
    let place = Place::new();
    let stuck = || {
        let id = place.enqueue(&["flaky", r#"{"fail":1}"#, "--retry", "manual"]);
        work_until_empty(&place);
        assert_eq!(place.job(&id)["state"], "stuck");
        assert_eq!(place.job(&id)["waits_for"][0], "needs a decision: retry it or fail it");
        id
    };
    let id = stuck();
    assert_eq!(place.told(&["retry", &id]), format!("{id} waiting\n"));
    work_until_empty(&place);
    assert_eq!(place.job(&id)["state"], "success");
    let other = stuck();
    assert_eq!(place.told(&["fail", &other]), format!("{other} failed\n"));
    assert_eq!(place.job(&other)["state"], "failed");
    assert!(place.refused(&["retry", &id], 1).contains("the job cannot be retried: it has already succeeded"));
}

#[test]
fn a_waiting_job_is_cancelled_at_once_and_a_running_one_is_told_to_stop() {
    let place = Place::new();
    let waiting = place.enqueue(&["noop"]);
    let unknown = "01920000-0000-7000-8000-000000000000";
    let output = place.run(&["cancel", unknown, &waiting]);
    assert!(refused(&output, 1).contains(&format!("there is no job {unknown}")));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{waiting} cancelled\n"));
    assert_eq!(place.job(&waiting)["state"], "cancelled");

    let node = serve(&place, &["--demo-tasks"]);
    let running = place.enqueue(&["sleep", r#"{"ms":3600000}"#]);
    place.wait_for_state(&running, "running");
    assert_eq!(
        place.told(&["cancel", &running]),
        format!("{running} is in a node's hands; the node was asked to stop it\n")
    );
    place.wait_for_state(&running, "cancelled");
    drop(node);
}

#[test]
fn a_node_is_listed_while_it_serves() {
    let place = Place::new().with_schema();
    assert_eq!(place.json(&["nodes", "--json"]), json!([]));
    let mut node = serve(&place, &["--name", "left", "--slots", "3", "--queue", "mail", "--demo-tasks"]);
    assert!(
        node.ready.contains("left") && node.ready.contains("3 slots") && node.ready.contains("noop"),
        "{}",
        node.ready
    );
    let listed = place.json(&["nodes", "--json"]);
    let shown = &listed[0];
    assert_eq!((&shown["name"], &shown["slots"], &shown["state"]), (&json!("left"), &json!(3), &json!("alive")));
    assert_eq!((&shown["queues"], &shown["pid"]), (&json!(["mail"]), &json!(node.process.id())));
    assert_eq!(shown["tasks"], json!(["flaky", "noop", "sleep", "spin"]));
    assert!(place.told(&["nodes"]).contains("left"));
    let twice = place.refused(&["serve", "--name", "left", "--lease", "500ms", "--log", "off"], 1);
    assert!(twice.contains("in use by a live node") && twice.contains("--name"), "{twice}");
    node.signal("INT");
    assert_eq!(node.end().0, Some(0));
    assert_eq!(place.json(&["nodes", "--json"]), json!([]));
}

#[test]
fn pools_of_the_file_are_nodes_of_one_process_with_their_own_queues_and_threads() {
    let place = Place::new();
    let file = |text: &str| std::fs::write(place.path().join("turnwise.toml"), text).unwrap();
    file(
        r#"
        [executor]
        name = "w"
        core_pool_size = 2
        max_pool_size = 5
        [pools.mail]
        queues = ["mail"]
        core_pool_size = 1
        batch_size = 3
        [tasks.who]
        command = ["sh", "-c", "cat /proc/$PPID/task/*/comm"]
        "#,
    );
    let mut node = serve(&place, &["--demo-tasks"]);
    assert!(node.ready.contains("2 to 5 slots, pools mail, tasks"), "{}", node.ready);
    let listed = place.json(&["nodes", "--json"]);
    let shown = |at: usize| {
        let node: &Value = &listed[at];
        (
            node["name"].clone(),
            node["slots"].clone(),
            node["queues"].clone(),
            node["all_but"].clone(),
            node["pid"].clone(),
        )
    };
    assert_eq!([0, 1].map(|at| listed[at]["batch_size"].clone()), [json!(2000), json!(3)]);
    let pid = json!(node.process.id());
    assert_eq!(shown(0), (json!("w"), json!(2), json!(["mail"]), json!(true), pid.clone()));
    assert_eq!(shown(1), (json!("w/mail"), json!(1), json!(["mail"]), json!(false), pid));
    assert!(place.told(&["nodes"]).contains("all but mail"));
    for (queue, name) in [("mail", "w/mail"), ("default", "w"), ("any", "w")] {
        let id = place.enqueue(&["who", "--queue", queue]);
        place.wait_for_state(&id, "success");
        let job = place.job(&id);
        assert_eq!(job["node"], name);
        let threads = job["result"].to_string();
        assert!(threads.contains("mail-1") && threads.contains("task-1"), "{threads}");
    }
    node.signal("TERM");
    assert_eq!(node.end().0, Some(0));
    assert_eq!(place.json(&["nodes", "--json"]), json!([]));

    for (text, problem) in [
        ("[pools.mail]", "queues: pool \"mail\" must name the queues bound to it"),
        ("[pools.a]\nqueues = ['x']\n[pools.b]\nqueues = ['x']", "queues: queue \"x\" is bound to two pools"),
        ("[pools.a]\nqueues = ['x']\nslots = 1", "unknown key \"pools.a.slots\"; known are queues, core_pool_size"),
        (
            "[pools.a]\nqueues = ['x']\nbatch_size = 'x'",
            "turnwise.toml: pools.a.batch_size: \"x\" is not a whole number",
        ),
    ] {
        file(text);
        let refusal = place.refused(&["serve", "--until-empty"], 2);
        assert!(refusal.contains(problem), "{refusal}");
    }
}

#[test]
fn a_stopped_node_returns_its_job_without_spending_an_attempt() {
    let place = Place::new();
    let mut node = serve(&place, &["--demo-tasks", "--await-termination", "0s"]);
    let id = place.enqueue(&["spin", r#"{"ms":3600000}"#]);
    place.wait_for_state(&id, "running");
    node.signal("TERM");
    assert_eq!(node.end().0, Some(0));
    let job = place.job(&id);
    assert_eq!((&job["state"], &job["attempt"]), (&json!("waiting"), &json!(0)));
}

#[test]
fn a_second_signal_ends_a_node_at_once() {
    let place = Place::new();
    let mut node = serve(&place, &["--demo-tasks", "--await-termination", "1h"]);
    let id = place.enqueue(&["sleep", r#"{"ms":3600000}"#]);
    place.wait_for_state(&id, "running");
    node.signal("TERM");
    // The first signal has arrived when the node takes no more jobs.
    until("no slot", || (place.json(&["nodes", "--json"])[0]["slots"] == 0).then_some(()));
    node.signal("INT");
    assert_eq!(node.end().0, Some(130));
}

#[test]
fn flags_outweigh_variables_and_variables_the_file() {
    let place = Place::new();
    std::fs::write(
        place.path().join("turnwise.toml"),
        "database = 'sqlite:file.db'\n[executor]\nname = 'file'\ncore_pool_size = 7\n",
    )
    .unwrap();
    place.enqueue(&["noop"]);
    assert!(place.path().join("file.db").exists());
    let output = place.command(&["enqueue", "noop"]).env("TURNWISE_DATABASE", "sqlite:variable.db").output().unwrap();
    succeeded(&output);
    assert!(place.path().join("variable.db").exists());
    let mut command = place.command(&["enqueue", "noop", "--database", "sqlite:flag.db"]);
    succeeded(&command.env("TURNWISE_DATABASE", "sqlite:other.db").output().unwrap());
    assert!(place.path().join("flag.db").exists() && !place.path().join("other.db").exists());
    let mut serve = place.command(&["serve", "--until-empty"]);
    let ready = succeeded(&serve.env("TURNWISE_NAME", "variable").output().unwrap());
    assert!(ready.contains("node variable, database sqlite:file.db, 7 slots"), "{ready}");

    std::fs::write(place.path().join("turnwise.toml"), "[executor]\nslotz = 7\n").unwrap();
    assert!(place.refused(&["jobs"], 2).contains("executor.slotz"));
    assert!(place.refused(&["jobs", "--config", "none.toml"], 2).contains("none.toml"));
}

#[test]
fn finished_jobs_are_not_kept_when_retention_is_zero() {
    let place = Place::new();
    let id = place.enqueue(&["noop"]);
    let set = place.told(&["installation", "set", "--retention", "0"]);
    assert_eq!(set, "installation: scheme 2,1, retention 0s, log lines 10000\n");
    place.told(&["serve", "--demo-tasks", "--until-empty"]);
    assert!(place.refused(&["job", &id], 1).contains("there is no job"));
}

#[test]
fn migrate_checks_prints_and_brings_up_to_date() {
    let place = Place::new();
    let check = place.run(&["migrate", "--check"]);
    assert!(refused(&check, 1).contains("not up to date"));
    assert!(String::from_utf8(check.stdout).unwrap().starts_with("missing: 0001 "));
    assert!(!place.path().join("turnwise.db").exists());
    assert!(place.told(&["migrate", "--print"]).contains("create table"));
    assert!(place.told(&["migrate", "--print", "--database", "postgres://x/y"]).contains("turnwise."));
    assert!(place.told(&["migrate"]).starts_with("done: 0001 "));
    assert!(place.told(&["migrate", "--check"]).starts_with("the schema is up to date: version "));
}

#[test]
fn a_database_that_cannot_be_used_is_told_in_one_line() {
    let place = Place::new();
    std::fs::write(place.path().join("text.db"), "not a database, but long enough to be taken for one ".repeat(40))
        .unwrap();
    for url in ["sqlite:nowhere/jobs.db", "sqlite:text.db", "postgres://nobody:s3cret@127.0.0.1:1/jobs"] {
        for command in [&["serve", "--log", "off"][..], &["enqueue", "noop"], &["jobs"], &["migrate"]] {
            let line = place.refused(&[command, &["--database", url]].concat(), 1);
            assert!(line.starts_with("error: ") && !line.contains("s3cret"), "{line}");
        }
    }
    let fleeting = place.refused(&["enqueue", "noop", "--database", "sqlite::memory:"], 2);
    assert!(fleeting.contains("database: sqlite::memory: ends with this command"), "{fleeting}");
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let place = Place::new();
    let lines = r#"{"task":"noop"}"#.to_owned() + "\n";
    succeeded(&place.run_with_input(&["enqueue", "--stdin"], &lines.repeat(5_000)));
    let mut child = place
        .command(&["jobs", "--json", "--limit", "5000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Closed before anything was read: every write fails.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_trace_of_the_run_is_written_when_asked_for() {
    let place = Place::new();
    let id = place.enqueue(&["noop"]);
    place.told(&["serve", "--demo-tasks", "--until-empty", "--trace", "run.jsonl"]);
    let trace = std::fs::read_to_string(place.path().join("run.jsonl")).unwrap();
    let lines: Vec<Value> = trace.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["event"] == "settle" && line["job"] == id.as_str()), "{trace}");
}

#[test]
fn jobs_in_the_hands_of_a_killed_node_end_in_success() {
    let place = Place::new();
    let mut node = serve(&place, &["--demo-tasks", "--slots", "20", "--name", "one"]);
    // Long enough for a busy machine to kill the node before one of them ends.
    place.enqueue_all((0..20).map(|_| json!({"task": "sleep", "args": {"ms": 4000}})));
    let running = || place.json(&["jobs", "--json", "--state", "running"]) != json!([]);
    until("a running job", || running().then_some(()));
    node.process.kill();
    let left = place.json(&["jobs", "--json", "--state", "waiting,scheduled,running"]).as_array().unwrap().len();
    assert!(left > 0, "the node was not killed in the middle of its work");
    place.told(&["serve", "--demo-tasks", "--until-empty", "--slots", "20", "--name", "one", "--log", "error"]);
    assert_eq!(place.json(&["jobs", "--json", "--state", "success"]).as_array().unwrap().len(), 20);
}

#[test]
fn what_is_missing_or_wrong_is_named_with_what_would_do() {
    let place = Place::new();
    place.refuses(&["schedule", "add", "nightly", "noop"], 2, "--every <SPAN>");
    let both = ["schedule", "add", "nightly", "noop", "--cron", "@daily", "--every", "1d"];
    place.refuses(&both, 2, "cannot be used with");
    for command in ["cancel", "retry", "fail"] {
        place.refuses(&[command], 2, "--filter <FILTER>");
        place.refuses(&[command, "0191e3b0", "--filter", "task=noop"], 2, "cannot be used with");
    }
    place.refuses(&["enqueue", "noop", "{bad"], 2, "args: is not JSON: key must be a string at line 1 column 2");
    place.refuses(&["serve", "--slots", "0", "--log", "off"], 2, "core_pool_size: must be 1 to 100000 slots");
    // Nothing listens on port 1.
    let nowhere = place.refused(&["jobs", "--database", "postgres://me@127.0.0.1:1/jobs"], 1);
    assert!(nowhere.ends_with("is a PostgreSQL server running at 127.0.0.1:1?\n"), "{nowhere}");
    let url = Cluster::shared().fresh_database().unwrap();
    let missing = place.refused(&["jobs", "--database", &format!("{url}_of_another_day")], 1);
    assert!(missing.contains("of_another_day\" does not exist") && missing.contains("create it, or name"), "{missing}");
}

#[test]
fn a_newer_schema_is_used_unless_it_declares_a_break() {
    for place in Place::on_both() {
        let step = |version: u32, breaks: bool| {
            let values = format!("(version, name, breaks) values ({version}, 'later', {breaks})");
            match place.database().strip_prefix("sqlite:") {
                Some(file) => {
                    let values = values.replace("breaks)", "breaks, applied_at)").replace("e)", "e, 0)");
                    let insert = format!("insert into turnwise_migration {values}");
                    rusqlite::Connection::open(file).unwrap().execute_batch(&insert).unwrap();
                }
                None => {
                    let insert = format!("insert into turnwise.migration {values}");
                    let psql = Cluster::shared().psql(place.database(), &insert).unwrap();
                    assert!(!psql.contains("ERROR"), "{psql}");
                }
            }
        };
        step(998, false);
        let job = place.enqueue(&["noop"]);
        place.work(&["--demo-tasks"]);
        assert_eq!(place.state(&job), "success");
        for command in [&["migrate"][..], &["migrate", "--check"]] {
            let newer = place.told(command);
            assert!(newer.starts_with("the schema is newer: it has version 998, turnwise "), "{newer}");
        }
        step(999, true);
        for command in
            [&["serve", "--log", "off"][..], &["enqueue", "noop"], &["jobs"], &["migrate"], &["migrate", "--check"]]
        {
            let line = place.refused(command, 1);
            assert!(line.contains("has schema version 999") && line.contains("or a newer one"), "{line}");
        }
    }
}

#[test]
fn every_command_works_on_an_empty_postgres_database() {
    let place = Place::new();
    let url = Cluster::shared().fresh_database().unwrap();
    let on = |args: &[&str]| place.told(&[args, &["--database", &url]].concat());
    let missing = place.refused(&["migrate", "--check", "--database", &url], 1);
    assert!(missing.contains("not up to date"), "{missing}");
    on(&["migrate"]);
    assert_eq!(on(&["jobs", "--json"]), "[]\n");
    let id = on(&["enqueue", "flaky", r#"{"fail":1}"#, "--retry", "durations:1ms"]);
    let unknown = on(&["enqueue", "no-such-task"]);
    let ready = on(&["serve", "--demo-tasks", "--until-empty", "--name", "pg"]);
    assert!(ready.contains("ready: node pg, database postgres://"), "{ready}");
    let job: Value = serde_json::from_str(&on(&["job", id.trim(), "--json"])).unwrap();
    assert_eq!((&job["state"], &job["attempt"], &job["node"]), (&json!("success"), &json!(2), &json!("pg")));
    assert_eq!(on(&["cancel", unknown.trim()]), format!("{} cancelled\n", unknown.trim()));
    assert_eq!(on(&["nodes", "--json"]), "[]\n");
    assert!(on(&["migrate", "--check"]).starts_with("the schema is up to date: version "));
}

#[test]
fn a_missing_postgres_database_is_told_in_one_line() {
    let place = Place::new();
    let url = Cluster::shared().fresh_database().unwrap() + "_not_there";
    for command in [&["serve", "--log", "off"][..], &["enqueue", "noop"], &["jobs"]] {
        let line = place.refused(&[command, &["--database", &url]].concat(), 1);
        assert!(line.contains("does not exist"), "{line}");
    }
}

#[test]
fn a_node_outlives_an_outage_of_its_database() {
    let place = Place::new();
    let cluster = Cluster::start().unwrap();
    let url = cluster.fresh_database().unwrap();
    let mut node = serve(&place, &["--demo-tasks", "--database", &url]);
    cluster.stop_immediate().unwrap();
    place.refused(&["enqueue", "noop", "--database", &url], 1);
    cluster.start_again().unwrap();
    let id = place.told(&["enqueue", "noop", "--database", &url]);
    let state = || place.json(&["job", id.trim(), "--json", "--database", &url])["state"].clone();
    until("the job's end", || (state() == "success").then_some(()));
    node.signal("TERM");
    assert_eq!(node.end().0, Some(0));
}
