//! Commands that look change nothing: no file, no schema, no migration. What makes a schema says so.

mod support;

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
    process::{Command, Output, Stdio},
};

use support::*;
use turnwise_sqlite::rusqlite::Connection;
use turnwise_testpg::{Cluster, programs::unprivileged};

const ID: &str = "0191e3b0-0000-7000-8000-000000000000";

/// Commands that read.
const READS: [&[&str]; 18] = [
    &["jobs"],
    &["jobs", "--args-contain", "x"],
    &["job", ID],
    &["logs", ID],
    &["why", ID],
    &["nodes"],
    &["queues"],
    &["groups"],
    &["tasks"],
    &["keys"],
    &["schedule", "list"],
    &["schedule", "show", "nightly"],
    &["installation", "show"],
    &["simulate", "--slots", "2"],
    &["top", "--once"],
    &["audit"],
    &["token", "list"],
    &["prune", "--dry-run"],
];

/// Commands that change what is there.
const CHANGES: [&[&str]; 11] = [
    &["cancel", ID],
    &["retry", ID],
    &["fail", ID],
    &["change", ID, "--priority", "1"],
    &["queue", "pause", "mail"],
    &["group", "set", "acme", "--weight", "2"],
    &["task", "set", "mail", "--concurrency", "2"],
    &["schedule", "add", "nightly", "noop", "--every", "1h"],
    &["schedule", "pause", "nightly"],
    &["token", "revoke", "tw_none"],
    &["prune"],
];

/// None of them makes a file or a schema.
fn looks() -> impl Iterator<Item = &'static [&'static str]> {
    READS.into_iter().chain(CHANGES)
}

#[test]
fn looking_in_a_folder_without_a_database_makes_none() {
    let place = Place::new();
    for command in looks() {
        place.refuses(command, 1, "\"turnwise.db\" does not exist; `turnwise serve` or `turnwise enqueue` makes it");
    }
    place.told(&["enqueue", "--stdin"]);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "a file was made, though nothing was submitted");
    // Submitting is the beginning of a new file.
    place.enqueue(&["noop"]);
    assert!(place.told(&["jobs"]).contains("noop"));
}

#[test]
fn looking_at_a_file_of_another_program_leaves_it_as_it_was() {
    let place = Place::new();
    let file = place.path().join("turnwise.db");
    Connection::open(&file).unwrap().execute_batch("create table book (page integer)").unwrap();
    let before = fs::read(&file).unwrap();
    for command in looks().chain([&["enqueue", "noop"][..]]) {
        place.refuses(command, 1, "has no Turnwise schema; `turnwise migrate` adds it");
    }
    assert_eq!(fs::read(&file).unwrap(), before);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    place.told(&["migrate"]);
    place.enqueue(&["noop"]);
}

/// A file with a job and a schedule, in this journal mode and closed.
fn file_in_mode(place: &Place, mode: &str) -> std::path::PathBuf {
    place.enqueue(&["noop"]);
    place.told(&["schedule", "add", "nightly", "noop", "--every", "1h"]);
    let file = place.path().join("turnwise.db");
    let conn = Connection::open(&file).unwrap();
    let set: String = conn.query_row(&format!("pragma journal_mode = {mode}"), (), |row| row.get(0)).unwrap();
    assert_eq!(set, mode);
    file
}

/// What is printed for a job that is there, and one line for one that is not.
fn has_looked(command: &[&str], output: &Output) {
    let expected = if command.contains(&ID) { 1 } else { 0 };
    assert_eq!(output.status.code(), Some(expected), "{command:?}: {output:?}");
    assert!(expected == 0 || said(output).contains("no job"), "{command:?}: {output:?}");
}

#[test]
fn looking_changes_no_byte_of_a_restored_file() {
    let place = Place::new();
    // As `vacuum into` and `.backup` leave it.
    let file = file_in_mode(&place, "delete");
    let before = fs::read(&file).unwrap();
    for command in READS {
        has_looked(command, &place.run(command));
        assert!(fs::read(&file).unwrap() == before, "{command:?} changed the file");
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    // The first write makes it as a file that is in use.
    place.enqueue(&["noop"]);
    assert_eq!(place.json(&["jobs", "--json"]).as_array().unwrap().len(), 2);
    assert_eq!(fs::read(&file).unwrap()[18..20], [2, 2], "the mode of the journal");
}

#[test]
fn a_file_that_may_only_be_read_can_be_looked_at_and_nothing_is_left_beside_it() {
    for mode in ["delete", "wal"] {
        let place = Place::new();
        let file = file_in_mode(&place, mode);
        let before = fs::read(&file).unwrap();
        let permit = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        permit(&file, 0o444);
        permit(place.path(), 0o555);
        let programs = tempfile::tempdir().unwrap();
        permit(programs.path(), 0o755);
        let binary = programs.path().join("turnwise");
        fs::copy(env!("CARGO_BIN_EXE_turnwise"), &binary).unwrap();
        let run = |args: &[&str]| {
            // To root, every file is writable.
            place.prepared(unprivileged(binary.to_str().unwrap()).unwrap(), args).output().unwrap()
        };
        for command in READS {
            has_looked(command, &run(command));
        }
        assert!(succeeded(&run(&["jobs"])).contains("noop"));
        assert!(succeeded(&run(&["schedule", "list"])).contains("nightly"));
        for command in [&["enqueue", "noop"][..], &["queue", "pause", "mail", "--force"]] {
            let line = refused(&run(command), 1);
            assert!(line.contains("is read-only; make it and its directory writable"), "{line}");
        }
        assert!(fs::read(&file).unwrap() == before, "{mode}");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "{mode}");
        permit(place.path(), 0o755);
    }
}

/// What `select count(*)` of any program with SQLite does, `.backup` among them.
fn another_program_looks(file: &Path) {
    let conn = Connection::open(file).unwrap();
    conn.query_row("select count(*) from turnwise_job", (), |_| Ok(())).unwrap();
    conn.close().unwrap();
}

#[test]
fn a_node_goes_on_when_another_program_has_looked_at_its_file() {
    let place = Place::new();
    let [real, link] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (file, link) = (real.path().join("jobs.db"), link.path().join("link.db"));
    symlink(&file, &link).unwrap();
    for path in [&file, &link] {
        let database = format!("sqlite:{}", path.display());
        let node = place.serve(&["--demo-tasks", "--database", &database]);
        let is_locked = || {
            let (node, inode) = (node.process.id().to_string(), format!(":{}", fs::metadata(&file).unwrap().ino()));
            let locks = fs::read_to_string("/proc/locks").unwrap();
            locks.lines().any(|line| {
                let words: Vec<_> = line.split_whitespace().collect();
                words.get(4) == Some(&node.as_str()) && words.get(5).is_some_and(|place| place.ends_with(&inode))
            })
        };
        let log = || fs::metadata(real.path().join("jobs.db-wal")).map(|log| log.ino());
        let before = log().unwrap();
        for looked_at in [&file, &link] {
            // Else a program with a SQLite before 3.51, which this test has not, deletes the log.
            assert!(is_locked(), "another program would take the file for unused");
            another_program_looks(looked_at);
            assert_eq!(log().ok(), Some(before), "the log of a live node was deleted");
            let run = place.run(&["enqueue", "noop", "--wait", "--database", &database]);
            assert_eq!(succeeded(&run), "null\n", "{run:?}");
        }
        node.stop();
    }
    let conn = Connection::open(&file).unwrap();
    let ended: i64 = conn.query_row("select count(*) from turnwise_history", (), |row| row.get(0)).unwrap();
    assert_eq!(ended, 4, "jobs that have ended are in the file");
}

#[test]
fn who_may_only_read_sees_what_a_node_has_written_through_a_link_too() {
    let place = Place::new();
    let dir = tempfile::tempdir().unwrap();
    let permit = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let (file, link) = (dir.path().join("jobs.db"), place.path().join("turnwise.db"));
    symlink(&file, &link).unwrap();
    let node = place.serve(&["--demo-tasks"]);
    place.enqueue(&["noop"]);
    [dir.path(), place.path()].into_iter().for_each(|path| permit(path, 0o755));
    let programs = tempfile::tempdir().unwrap();
    permit(programs.path(), 0o755);
    let binary = programs.path().join("turnwise");
    fs::copy(env!("CARGO_BIN_EXE_turnwise"), &binary).unwrap();
    let looked = place.prepared(unprivileged(binary.to_str().unwrap()).unwrap(), &["jobs"]).output().unwrap();
    assert!(succeeded(&looked).contains("noop"), "{looked:?}");
    node.stop();
}

#[test]
fn looking_at_an_empty_postgres_database_makes_no_schema() {
    let place = Place::on(Cluster::shared().fresh_database().unwrap());
    for command in looks().chain([&["enqueue", "noop"][..], &["bench", "--jobs", "10"]]) {
        place.refuses(command, 1, "the database has no Turnwise schema; `turnwise migrate` makes it");
    }
    let check = place.run(&["migrate", "--check"]);
    assert!(succeeded_not(&check).contains("missing: 0001 begin"), "{check:?}");
    // A node makes it.
    place.work(&["--demo-tasks"]);
    place.enqueue(&["noop"]);
}

fn succeeded_not(output: &std::process::Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// All steps of the schema but the last.
fn older(script: &str) -> String {
    let last = script.rfind("begin immediate;").or_else(|| script.rfind("\nbegin;\n")).unwrap();
    script[..last].to_owned()
}

#[test]
fn an_older_schema_in_a_file_is_brought_up_to_date_by_a_node_and_by_migrate_alone() {
    let place = Place::new();
    let steps = place.told(&["migrate", "--print"]);
    let file = place.path().join("turnwise.db");
    Connection::open(&file).unwrap().execute_batch(&older(&steps)).unwrap();
    for command in looks().chain([&["enqueue", "noop"][..]]) {
        place.refuses(command, 1, "this turnwise needs");
    }
    place.work(&["--demo-tasks"]);
    place.enqueue(&["noop"]);
    assert!(place.told(&["migrate", "--check"]).starts_with("the schema is up to date"));
}

#[test]
fn an_older_schema_on_a_server_is_brought_up_to_date_only_on_request() {
    let place = Place::on(Cluster::shared().fresh_database().unwrap());
    let steps = place.told(&["migrate", "--print"]);
    let psql = Cluster::shared().psql(place.database(), &older(&steps)).unwrap();
    assert!(!psql.contains("ERROR"), "{psql}");
    for command in looks().chain([&["enqueue", "noop"][..], &["serve", "--log", "off"]]) {
        place.refuses(command, 1, "this binary needs");
    }
    place.work(&["--demo-tasks", "--migrate"]);
    place.enqueue(&["noop"]);
    assert!(place.told(&["migrate", "--check"]).starts_with("the schema is up to date"));
}

#[test]
fn no_schema_is_made_in_a_database_that_was_not_named() {
    let place = Place::new();
    let url = Cluster::shared().fresh_database().unwrap();
    let (server, _) = url.rsplit_once('/').unwrap();
    for command in [&["serve", "--log", "off"][..], &["migrate"]] {
        place.refuses(
            &[command, &["--database", server]].concat(),
            2,
            "names no database; write postgres://USER@HOST/NAME",
        );
    }
}

#[test]
fn a_flag_that_does_not_exist_is_no_job() {
    let place = Place::new();
    for typed in [&["enqueue", "--dry-run"][..], &["enqueue", "noop", "--dry-run"], &["enqueue", "noop", "-x"]] {
        let output = place.run(typed);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(said(&output).contains("unexpected argument"), "{output:?}");
    }
    place.enqueue(&["noop", "-5"]);
    assert_eq!(place.json(&["jobs", "--json"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_flag_is_no_value_of_the_option_before_it() {
    let place = Place::new();
    for (typed, option) in [
        (&["enqueue", "noop", "--unique", "--wait"][..], "--unique"),
        (&["enqueue", "noop", "--next", "--wait"], "--next"),
        (&["enqueue", "noop", "--on-exhausted", "--wait"], "--on-exhausted"),
        (&["enqueue", "noop", "--priority", "--wait"], "--priority"),
        (&["schedule", "add", "s", "noop", "--every", "1h", "--queue", "--group", "g"], "--queue"),
        (&["queue", "pause", "mail", "--reason", "--force"], "--reason"),
        (&["--log", "off", "serve", "--slots", "--demo-tasks"], "--slots"),
        (&["jobs", "--args-contain", "--json"], "--args-contain"),
    ] {
        let line = place.refused(typed, 2);
        let hint = format!("error: {option} needs a value, and --");
        assert!(line.starts_with(&hint) && line.contains(&format!("write {option}=--")), "{line}");
    }
    place.refuses(
        &["schedule", "add", "s", "noop", "--dry-run", "--every", "1h"],
        2,
        "unexpected argument '--dry-run'",
    );
    assert!(!place.path().join("turnwise.db").exists(), "something was done");
    let id = place.enqueue(&["noop", "--unique=--wait", "--", "-5"]);
    assert_eq!(place.job(&id)["unique"], "--wait");
    place.told(&["schedule", "add", "s", "noop", "-5", "--every", "1h"]);
}

#[test]
fn a_variable_that_is_no_setting_is_warned_of_and_slots_count() {
    let place = Place::new();
    let mut command = place.command(&["serve", "--until-empty", "--log", "off"]);
    let output = command.env("TURNWISE_SLOTS", "7").env("TURNWISE_SLOT", "9").output().unwrap();
    assert!(succeeded(&output).contains(", 7 slots,"), "{output:?}");
    let warned = said(&output);
    assert_eq!(warned, "warning: TURNWISE_SLOT is not a setting and has no effect; did you mean \"TURNWISE_SLOTS\"?\n");
    // The variable that is set is the one that is wrong.
    for (name, other) in [("TURNWISE_SLOTS", "TURNWISE_CORE_POOL_SIZE"), ("TURNWISE_CORE_POOL_SIZE", "TURNWISE_SLOTS")]
    {
        let mut command = place.command(&["serve", "--until-empty", "--log", "off"]);
        let line = refused(&command.env(name, "zz").output().unwrap(), 2);
        assert!(line.contains(&format!("({name})")) && !line.contains(other), "{line}");
    }
    // A program that is a task has variables of its own.
    let mut within = place.command(&["jobs"]);
    let output = within.env("TURNWISE_JOB_ID", ID).env("TURNWISE_ATTEMPT", "1").output().unwrap();
    assert_eq!(said(&output), "");
}

#[test]
fn a_second_node_on_a_host_gets_a_number() {
    let place = Place::on_sqlite();
    let name = |ready: &str| ready.split("node ").nth(1).unwrap().split(',').next().unwrap().to_owned();
    let first = place.serve(&["--lease", "1s"]);
    let second = place.serve(&["--lease", "1s"]);
    let third = place.serve(&["--lease", "1s"]);
    let host = name(&first.ready);
    assert_eq!([name(&second.ready), name(&third.ready)], [format!("{host}-2"), format!("{host}-3")]);
    // A name that was chosen is not changed.
    let chosen = place.run(&["serve", "--log", "off", "--lease", "1s", "--name", &host]);
    assert!(refused(&chosen, 1).contains("is in use by a live node"), "{chosen:?}");
    [first, second, third].into_iter().for_each(Serving::stop);
}

#[test]
fn a_node_that_is_started_with_nohup_outlives_its_terminal() {
    let place = Place::on_sqlite();
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"trap '' HUP; exec "$0" "$@""#, env!("CARGO_BIN_EXE_turnwise")]);
    let mut command = place.prepared(shell, &["serve", "--demo-tasks", "--log", "off"]);
    let mut node = Process::new(command.stdout(Stdio::piped()).spawn().unwrap());
    let run = |job: &[&str]| place.wait_for_state(&place.enqueue(job), "success");
    run(&["noop"]);
    node.signal("HUP");
    // Were it to stop, it would run nothing more.
    run(&["sleep", r#"{"ms": 500}"#]);
    run(&["noop"]);
    node.signal("TERM");
    assert_eq!(node.wait().code(), Some(0));
}

/// The lines of a node that is told to stop while a job runs: whatever signal it is, and what a second one leaves behind.
#[test]
fn a_node_says_what_it_waits_for_when_it_stops_and_what_it_leaves_behind() {
    let place = Place::on_sqlite();
    let job = place.enqueue(&["sleep", r#"{"ms": 600000}"#]);
    // Also where nothing else is logged.
    // The tests may be run with nohup, and a signal that is ignored stays so.
    let mut hears = Command::new("env");
    hears.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_turnwise")]);
    let mut command = place.prepared(hears, &["serve", "--demo-tasks", "--await-termination", "90s", "--log", "error"]);
    let mut node = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    place.wait_for_state(&job, "running");
    signal(node.id(), "HUP");
    let stderr = std::io::BufReader::new(node.stderr.take().unwrap());
    let mut lines = std::io::BufRead::lines(stderr).map(Result::unwrap);
    let line = lines.find(|line| line.contains("stopping")).unwrap();
    assert!(line.contains("1 job runs, waiting up to 90s for it to end; signal again to leave it"), "{line}");
    assert!(line.ends_with(&format!("; running: sleep {job}")), "{line}");
    signal(node.id(), "INT");
    let line = lines.find(|line| line.contains("stopping at once")).unwrap();
    assert!(
        line.contains("1 job runs, other nodes take over what this one held when its lease of 5s is over"),
        "{line}"
    );
    assert!(line.ends_with(&format!("; running: sleep {job}")), "{line}");
    assert_eq!(node.wait().unwrap().code(), Some(130));
}
