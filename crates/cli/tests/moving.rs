//! Moving everything to another database, with the real binary, between both kinds.

mod support;

use std::{
    io::{self, BufRead, BufReader, Write},
    process::Stdio,
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use support::{Place, Process, until};
use turnwise_testpg::Cluster;

/// Programs as tasks: one that says something, one that fails and is stuck then, one that fails for good, one that never ends.
const TASKS: &str = r#"
[tasks.talk]
command = ["sh", "-c", "echo well >&2; echo '[3, 4.50]'"]
secret = ["/pin"]
[tasks.later]
command = ["sh", "-c", "echo oops >&2; exit 1"]
retry = "manual"
[tasks.bad]
command = ["sh", "-c", "echo never >&2; exit 65"]
[tasks.hang]
command = ["sleep", "1000"]
"#;

/// A database that is not there yet, or is empty, for what is moved from `source`.
fn target(source: &Place, postgres: bool) -> Place {
    let database = if postgres {
        Cluster::shared().fresh_database().unwrap()
    } else {
        format!("sqlite:{}", source.path().join("moved.db").display())
    };
    Place::on(database).with(TASKS)
}

fn source(postgres: bool) -> Place {
    let place = if postgres { Place::on_postgres() } else { Place::on_sqlite() };
    place.with(TASKS)
}

/// Between all kinds of databases.
fn each_way(test: impl Fn(&Place, &Place)) {
    for (from, to) in [(false, true), (true, false), (false, false), (true, true)] {
        let source = source(from);
        let target = target(&source, to);
        test(&source, &target);
    }
}

fn moving<'a>(source: &'a Place, target: &'a Place) -> [&'a str; 3] {
    ["move", source.database(), target.database()]
}

/// What a person sees of everything.
fn seen(place: &Place) -> Vec<(String, Value)> {
    let mut commands: Vec<Vec<String>> = [
        "jobs --limit 1000000 --json",
        "queues --exact --json",
        "groups --exact --json",
        "tasks --exact --json",
        "keys --exact --json",
        "schedule list --json",
        "token list --json",
        "installation show --json",
        "audit --json",
    ]
    .iter()
    .map(|command| command.split(' ').map(str::to_owned).collect())
    .collect();
    let jobs = place.json(&["jobs", "--limit", "50", "--json"]);
    for job in jobs.as_array().unwrap() {
        let id = job["id"].as_str().unwrap();
        commands.push(vec!["job".to_owned(), id.to_owned(), "--json".to_owned()]);
    }
    let shown = |command: &Vec<String>| {
        let words: Vec<_> = command.iter().map(String::as_str).collect();
        (command.join(" "), place.json(&words))
    };
    commands.iter().map(shown).collect()
}

fn same(before: &[(String, Value)], after: &[(String, Value)]) {
    assert_eq!(before.len(), after.len());
    for ((command, before), (_, after)) in before.iter().zip(after) {
        assert_eq!(before, after, "{command}");
    }
}

/// Jobs in every state but in nodes' hands, with all that a job can have, and all that people set.
fn fill(place: &Place) {
    for command in [
        "installation set --retention 30d",
        "queue set mail --concurrency 3 --weight 2",
        "queue pause slow --force",
        "group set acme --weight 3",
        "task set talk --concurrency 7",
        "key set printer --concurrency 1",
        "token create --name reader --scope read",
    ] {
        place.told(&command.split(' ').collect::<Vec<_>>());
    }
    let job = |task: &str, more: Value| {
        let mut job = json!({"task": task});
        job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        job
    };
    place.enqueue_all([
        job("talk", json!({"args": {"pin": 1234, "text": "grüße  \"x\" \u{1F600}"}, "group": "acme"})),
        job("talk", json!({"queue": "mail", "unique": "held for an hour", "unique_for": "1h"})),
        job("later", json!({"group": "acme"})),
        job("bad", json!({})),
    ]);
    place.work(&["--name", "n1"]);
    place.told(&["schedule", "add", "nightly", "noop", "--cron", "0 2 * * *", "--zone", "Europe/Berlin"]);
    let first = place.enqueue(&["noop", "--queue", "slow"]);
    let all = [
        &["noop", "--queue", "slow", "--after", &first, "--on-failure", "run", "--unique", "one"][..],
        &["noop", "[1, 2.50]", "--queue", "slow", "--priority", "9", "--key", "printer", "--retry", "none"],
        &["noop", "--queue", "tomorrow", "--in", "1h", "--timeout", "30s", "--next", "talk"],
        &["talk", r#"{"pin": 99}"#, "--queue", "slow", "--group", "zebra", "--expires", "2h"],
    ];
    for job in all {
        place.enqueue(job);
    }
    let cancelled = place.enqueue(&["noop", "--queue", "slow"]);
    place.told(&["cancel", &cancelled]);
}

#[test]
fn everything_is_the_same_after_a_move() {
    each_way(|source, target| {
        fill(source);
        let before = seen(source);
        let told = source.told(&moving(source, target));
        assert!(told.contains("is closed: it takes neither jobs nor nodes from now on"), "{told}");
        assert!(told.contains("the same on both sides: 6 rows of job, checksum "), "{told}");
        assert!(told.trim_end().lines().last().unwrap().starts_with("done: use "), "{told}");
        same(&before, &seen(target));
        // The source can still be looked at.
        same(&before, &seen(source));
        let again = source.told(&moving(source, target));
        assert!(again.starts_with("was done before: use "), "{again}");

        // Keys are held, and a moved job runs like any other, with its number behind those that came before.
        let held = ["enqueue", "talk", "--queue", "mail", "--unique", "held for an hour", "--on-duplicate", "reject"];
        assert!(target.refused(&held, 3).contains("is held by job"));
        let held = ["enqueue", "noop", "--queue", "slow", "--unique", "one", "--on-duplicate", "reject"];
        assert!(target.refused(&held, 3).contains("is held by job"));
        let last = target.enqueue(&["noop"]);
        target.told(&["schedule", "remove", "nightly"]);
        target.told(&["queue", "resume", "slow"]);
        target.work(&["--demo-tasks", "--queue", "default", "--queue", "slow"]);
        assert_eq!(target.state(&last), "success");
        let ended = target.json(&["jobs", "--limit", "1000000", "--json"]);
        let open: Vec<_> = ended.as_array().unwrap().iter().filter(|job| job["state"] == "waiting").collect();
        assert_eq!(open.len(), 1, "only the one that is due in an hour: {open:?}");
    });
}

#[test]
fn a_moved_database_takes_neither_jobs_nor_changes_and_names_the_other() {
    for postgres in [false, true] {
        let source = source(postgres);
        let target = target(&source, !postgres);
        source.enqueue(&["noop"]);
        source.told(&moving(&source, &target));
        let named = target.database().rsplit('/').next().unwrap().to_owned();
        for command in [
            &["enqueue", "noop"][..],
            &["enqueue", "noop", "--unique", "k"],
            &["serve", "--demo-tasks", "--log", "off"],
            &["queue", "pause", "mail", "--force"],
            &["token", "create", "--name", "x", "--scope", "read"],
            &["prune"],
        ] {
            let refused = source.run(command);
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            if command == ["prune"] && refused.status.success() {
                // On SQLite there was nothing that it could have deleted.
                continue;
            }
            assert_eq!(refused.status.code(), Some(1), "{command:?}: {said}");
            assert!(
                said.contains("the jobs of this database were moved to ") && said.contains(&named),
                "{command:?}: {said}"
            );
        }
        let many: String = (0..1_000).map(|_| "{\"task\":\"noop\"}\n").collect();
        let refused = source.run_with_input(&["enqueue", "--stdin"], &many);
        assert_eq!(refused.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("were moved to "));
        assert_eq!(source.json(&["jobs", "--json"]).as_array().unwrap().len(), 1);
        assert_eq!(source.json(&["nodes", "--json"]), json!([]));
        let doctor = String::from_utf8(source.run(&["doctor"]).stdout).unwrap();
        assert!(doctor.contains("move: the jobs of this database were moved to "), "{doctor}");
        let back = source.refused(&moving(&target, &source), 1);
        assert!(back.contains("named the other way round"), "{back}");
        let cancel = source.refused(&[&moving(&source, &target)[..], &["--cancel"]].concat(), 1);
        assert!(cancel.contains("were moved to ") && cancel.contains("already"), "{cancel}");
    }
}

#[tokio::test]
async fn the_function_in_sql_refuses_too() {
    let source = source(true);
    let target = target(&source, false);
    source.told(&moving(&source, &target));
    let (client, connection) = tokio_postgres::connect(source.database(), tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let refused = client.query("select turnwise.enqueue('noop')", &[]).await.unwrap_err();
    let said = refused.as_db_error().expect("the server says so");
    assert_eq!(said.code().code(), "TW001");
    assert!(said.message().starts_with("the jobs of this database were moved to sqlite:"), "{said}");
    drop(client);
    connection.await.unwrap().unwrap();
}

#[test]
fn nothing_is_moved_while_a_node_is_alive() {
    for postgres in [false, true] {
        let source = source(postgres);
        let target = target(&source, !postgres);
        source.enqueue(&["noop"]);
        let node = source.serve(&["--name", "still-here", "--queue", "none"]);
        let refused = source.refused(&moving(&source, &target), 1);
        assert!(refused.contains("\"still-here\"") && refused.contains("stop them"), "{refused}");
        source.enqueue(&["noop"]);
        node.stop();
        target.told(&["migrate"]);
        let node = target.serve(&["--name", "too-early"]);
        let refused = source.refused(&moving(&source, &target), 1);
        assert!(refused.contains("\"too-early\""), "{refused}");
        source.enqueue(&["noop"]);
        node.stop();
    }
}

#[test]
fn a_database_that_is_not_empty_is_no_target() {
    for postgres in [false, true] {
        let source = source(!postgres);
        let target = target(&source, postgres).with_schema();
        let job = target.enqueue(&["noop"]);
        let refused = source.refused(&moving(&source, &target), 1);
        assert!(refused.contains("is not empty: it has rows in job"), "{refused}");
        assert_eq!(target.state(&job), "waiting");
        // Neither is closed.
        source.enqueue(&["noop"]);
        target.enqueue(&["noop"]);
        let refused = source.refused(&["move", source.database(), source.database()], 1);
        assert!(refused.contains("are the same database"), "{refused}");
    }
}

/// A job that a node had when it was killed runs again in the target.
#[test]
fn what_a_dead_node_held_goes_on_in_the_target() {
    for postgres in [false, true] {
        let source = source(postgres);
        let target = target(&source, !postgres);
        let job = source.enqueue(&["hang"]);
        let mut node = source.serve(&["--name", "dead"]);
        source.wait_for_state(&job, "running");
        node.process.kill();
        // Its lease goes on for some seconds.
        let told = until("the lease of the dead node to end", || {
            let output = source.run(&moving(&source, &target));
            if output.status.success() {
                return Some(String::from_utf8(output.stdout).unwrap());
            }
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains("\"dead\"") && said.contains("wait for the lease"), "{said}");
            None
        });
        assert!(told.contains("1 jobs were in the hands of nodes that are gone"), "{told}");
        assert_eq!(target.state(&job), "waiting");
        let attempts = target.job(&job)["attempts"].clone();
        assert_eq!(attempts[0]["node"], "dead", "{attempts}");
        let node = target.serve(&["--name", "next"]);
        target.wait_for_state(&job, "running");
        drop(node);
    }
}

#[test]
fn a_moved_schedule_goes_on_in_the_target_only() {
    let source = source(false);
    let target = target(&source, true);
    source.told(&["schedule", "add", "tick", "noop", "--every", "1s"]);
    source.told(&moving(&source, &target));
    let node = target.serve(&["--demo-tasks"]);
    until("a time of the schedule", || {
        let jobs = target.json(&["jobs", "--state", "success", "--json"]);
        (jobs.as_array().unwrap().len() >= 2).then_some(())
    });
    assert_eq!(source.json(&["jobs", "--json"]), json!([]));
    node.stop();
}

#[test]
fn a_moved_token_lets_its_caller_in() {
    let source = source(false);
    let target = target(&source, true);
    let secret = source.told(&["token", "create", "--name", "reader", "--scope", "read"]);
    let job = source.enqueue(&["noop"]);
    source.told(&moving(&source, &target));
    let node = target.serve(&["--queue", "none", "--listen", "127.0.0.1:0"]);
    let (_, address) = node.ready.split_once("http://").unwrap();
    let server = format!("http://{}", address.trim());
    let asked = |more: &[&str]| {
        let mut command = target.command(&[&["--server", &server, "jobs", "--json"], more].concat());
        command.env_remove("TURNWISE_DATABASE").output().unwrap()
    };
    let output = asked(&["--token", secret.trim()]);
    let jobs: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(jobs[0]["id"], job.as_str());
    assert_eq!(asked(&[]).status.code(), Some(1), "without a token, nobody gets in");
    node.stop();
}

/// Starts a move and kills it as soon as the source is closed: most of its many jobs are not in the target then.
fn interrupt(source: &Place, target: &Place) {
    let mut child = source.command(&moving(source, target)).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Process::new(child).kill();
    assert!(line.contains("is closed"), "{line}");
}

fn many(place: &Place, jobs: usize) {
    let job =
        |n| json!({"task": "noop", "args": {"n": n}, "group": format!("g{}", n % 97), "queue": format!("q{}", n % 2)});
    place.enqueue_all((0..jobs).map(job));
    place.told(&["cancel", "--filter", "queue=q1", "--limit", "5000", "--yes"]);
}

#[test]
fn a_move_that_is_killed_at_any_moment_goes_on() {
    for postgres in [false, true] {
        let source = source(postgres);
        let target = target(&source, !postgres);
        many(&source, 20_000);
        let before = source.json(&["jobs", "--limit", "1000000", "--json"]);
        assert_eq!(before.as_array().unwrap().len(), 20_000);
        interrupt(&source, &target);
        let refused = source.refused(&["enqueue", "noop"], 1);
        assert!(refused.contains("its jobs are being moved to "), "{refused}");
        for command in [&["enqueue", "noop"][..], &["serve", "--demo-tasks", "--log", "off"]] {
            let refused = target.refused(command, 1);
            assert!(refused.contains("jobs are being moved to it from "), "{command:?}: {refused}");
        }
        let third = target.path().join("third.db");
        let third = format!("sqlite:{}", third.display());
        let refused = source.refused(&["move", source.database(), &third], 1);
        assert!(refused.contains("are being moved to ") && refused.contains("--cancel"), "{refused}");
        // Each run gets longer, until one is long enough.
        let (mut wait, mut kills) = (Duration::from_millis(20), 0);
        let told = loop {
            let mut child = source.command(&moving(&source, &target)).stdout(Stdio::piped()).spawn().unwrap();
            thread::sleep(wait);
            if child.try_wait().unwrap().is_none() {
                child.kill().unwrap();
                kills += 1;
                wait = wait * 5 / 4;
                child.wait().unwrap();
                continue;
            }
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
            break String::from_utf8(output.stdout).unwrap();
        };
        assert!(kills > 1, "{kills}");
        assert!(told.contains("going on") || told.contains("done"), "{told}");
        let after = target.json(&["jobs", "--limit", "1000000", "--json"]);
        assert!(before == after, "the jobs are not the same after {kills} kills");
        let _ = writeln!(io::stdout(), "killed {kills} times, the last time after {wait:?}");
    }
}

#[test]
fn a_move_that_is_not_finished_can_be_given_up() {
    for postgres in [false, true] {
        let source = source(postgres);
        let target = target(&source, !postgres);
        many(&source, 20_000);
        interrupt(&source, &target);
        let cancel = [&moving(&source, &target)[..], &["--cancel"]].concat();
        let told = source.told(&cancel);
        assert!(told.starts_with("given up: ") && told.contains("is open again"), "{told}");
        source.enqueue(&["noop"]);
        assert_eq!(target.json(&["jobs", "--json"]), json!([]));
        assert!(source.refused(&cancel, 1).contains("there is nothing to cancel"));
        let moved = source.json(&[&moving(&source, &target)[..], &["--json"]].concat());
        let rows = |name: &str| moved["parts"].as_array().unwrap().iter().find(|part| part["name"] == name).unwrap();
        let (jobs, history) = (&rows("job")["rows"], &rows("history")["rows"]);
        assert_eq!(jobs.as_u64().unwrap() + history.as_u64().unwrap(), 20_001, "{moved}");
    }
}

#[test]
fn what_cannot_be_moved_is_told() {
    let place = Place::on_sqlite();
    for (source, target, code, part) in [
        ("sqlite::memory:", "sqlite:x.db", 2, "source: is in memory"),
        ("memory:", "sqlite:x.db", 2, "source: \"memory:\" is not a database to move"),
        ("sqlite:not-there.db", "sqlite:x.db", 1, "source: "),
        (place.database(), "jobs.db", 2, "target: \"jobs.db\" is not a database to move"),
    ] {
        let refused = place.refused(&["move", source, target], code);
        assert!(refused.contains(part), "{refused}");
    }
}
