//! `turnwise doctor` through the real binary, on both databases.

mod support;

use std::{fs, net::TcpListener};

use serde_json::{Value, json};
use support::{Place, on_both_databases, said, until};
use turnwise_testpg::Cluster;

fn finding<'a>(found: &'a Value, subject: &str) -> &'a Value {
    let findings = found["findings"].as_array().unwrap();
    findings.iter().find(|one| one["subject"] == subject).unwrap_or_else(|| panic!("no {subject} in {found}"))
}

/// Exit code and JSON.
fn ask(place: &Place) -> (Option<i32>, Value) {
    let output = place.run(&["doctor", "--json"]);
    assert_eq!(said(&output), "", "what is found is on stdout");
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

fn where_a_node_works_nothing_is_to_be_done(place: &Place) {
    let node = place.serve(&["--demo-tasks", "--name", "worker", "--listen", "none"]);
    place.enqueue(&["noop"]);
    let all = ["schema", "settings", "clock", "nodes", "dispatcher", "lost nodes", "jobs in hand", "tasks"];
    // A node takes the lead a moment after it is ready.
    let (code, found) = until("all to be well", || {
        let (code, found) = ask(place);
        all.iter().all(|subject| finding(&found, subject)["verdict"] == "fine").then_some((code, found))
    });
    assert!(finding(&found, "dispatcher")["text"].as_str().unwrap().contains("worker"), "{found}");
    let acknowledged = finding(&found, "acknowledged");
    if place.database().starts_with("sqlite:") {
        assert_eq!((code, &found["well"]), (Some(0), &json!(true)), "{found}");
        assert_eq!(acknowledged["text"], "jobs are on this machine's disk");
        let lines = place.told(&["doctor"]);
        assert!(lines.lines().all(|line| line.starts_with("fine ")), "{lines}");
    } else {
        // The cluster of the tests is thrown away afterwards, and need not survive a crash.
        assert_eq!((code, &acknowledged["verdict"]), (Some(1), &json!("bad")), "{found}");
        assert!(acknowledged["text"].as_str().unwrap().starts_with("fsync is off"), "{found}");
        assert!(finding(&found, "connections")["text"].as_str().unwrap().contains(" are left"), "{found}");
    }
    node.stop();
}

fn what_is_wrong_is_said_with_what_to_do(place: &Place) {
    let id = place.enqueue(&["mial"]);
    let (code, found) = ask(place);
    assert_eq!((code, &found["well"]), (Some(1), &json!(false)));
    assert!(finding(&found, "nodes")["advice"].as_str().unwrap().contains("turnwise serve"), "{found}");
    assert_eq!(finding(&found, "dispatcher")["verdict"], "bad");
    let tasks = finding(&found, "tasks");
    assert_eq!(
        (&tasks["verdict"], &tasks["text"]),
        (&json!("bad"), &json!("1 job waits for \"mial\", which no living node knows"))
    );
    assert_eq!(place.state(&id), "waiting", "it changes nothing");
}

on_both_databases!(where_a_node_works_nothing_is_to_be_done, what_is_wrong_is_said_with_what_to_do);

#[test]
fn a_database_that_cannot_be_used_is_a_finding() {
    let place = Place::new();
    let (code, found) = ask(&place);
    assert_eq!((code, &finding(&found, "database")["verdict"]), (Some(1), &json!("bad")));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "no file was made");
    fs::write(place.path().join("turnwise.db"), "a text, and as long as the head of a database would be ".repeat(20))
        .unwrap();
    let (code, found) = ask(&place);
    assert_eq!((code, &finding(&found, "database")["advice"]), (Some(1), &json!("then ask again")), "{found}");
    let place = Place::on("postgres://nobody:pass@127.0.0.1:1/jobs".to_owned());
    let (code, found) = ask(&place);
    assert_eq!(code, Some(1), "{found}");
    assert!(!found.to_string().contains("pass@"), "{found}");
    let place = Place::on(Cluster::shared().fresh_database().unwrap());
    let (code, found) = ask(&place);
    assert_eq!(code, Some(1));
    assert_eq!(finding(&found, "schema")["advice"], "run `turnwise migrate`");
}

/// A database of this machine is not looked at then.
#[test]
fn a_server_that_cannot_be_asked_is_a_finding() {
    let place = Place::on_sqlite();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = place.run(&["--server", &format!("http://{port}"), "doctor", "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &found["well"]), (Some(1), &json!(false)));
    let text = finding(&found, "server")["text"].as_str().unwrap();
    assert!(text.contains("cannot be reached"), "{found}");
    assert_eq!(found["findings"].as_array().unwrap().len(), 1, "{found}");
}

/// What it answers is about its own database and its own machine.
#[test]
fn a_server_is_asked_about_its_own_database() {
    let place = Place::on_sqlite();
    let node = place.serve(&["--demo-tasks", "--name", "worker", "--listen", "127.0.0.1:0"]);
    let (_, address) = node.ready.split_once("http://").unwrap();
    let elsewhere = Place::new();
    let server = format!("http://{}", address.trim());
    let found = until("a node that dispatches", || {
        let output = elsewhere.run(&["--server", &server, "doctor", "--json"]);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        (finding(&found, "dispatcher")["verdict"] == "fine").then_some(found)
    });
    assert_eq!(finding(&found, "dispatcher")["text"], "node worker");
    let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let clock = format!("the database has the clock of {}", machine.trim());
    assert_eq!(finding(&found, "clock")["text"], clock, "{found}");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0, "no file was made");
    node.stop();
}
