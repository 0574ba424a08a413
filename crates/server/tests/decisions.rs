//! A decision about very many jobs that a person begins on a page: it goes on in parts, and a server that stops leaves behind how far it came.

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{Counted, PATIENCE, Server};
use turnwise_server::{Service, limits::DECIDED_AT_ONCE};

/// Jobs more than one part is about.
const MORE: usize = 30;

async fn flood(server: &Server, jobs: usize) {
    for at in (0..jobs).step_by(5_000) {
        let some: Vec<_> = (at..jobs.min(at + 5_000)).map(|_| json!({"task": "t", "group": "flood"})).collect();
        server.post("/api/v1/jobs/batch", &json!({"jobs": some})).await.expect(201);
    }
}

/// Begins to cancel all jobs of the group; the address of the page that says how far it is.
async fn cancel_all(server: &Server) -> String {
    let preview =
        server.post("/api/v1/jobs/cancel", &json!({"filter": "group:flood", "dry_run": true})).await.expect(200);
    let newest = preview["newest"].as_str().unwrap().to_owned();
    let sent = server.form("/decide", &[("do", "cancel"), ("filter", "group:flood"), ("newest", &newest)]).await;
    assert_eq!(sent.status, 303, "{}", sent.text);
    format!("/{}", sent.header("location").trim_start_matches("./"))
}

/// What the page says once it says this.
async fn says(server: &Server, path: &str, what: &str) -> String {
    let seen = async {
        loop {
            let page = server.get(path).await;
            assert_eq!(page.status, 200, "{path}: {}", page.text);
            if page.text.contains(what) {
                return page.text;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.unwrap_or_else(|_| panic!("{path} never said {what:?}"))
}

/// What the audit log says of a decision, the first line first.
async fn lines(server: &Server, number: &str) -> Vec<Value> {
    let lines = server.get(&format!("/api/v1/audit?target=decision:{number}")).await.expect(200);
    lines["lines"].as_array().unwrap().iter().rev().map(|line| line["after"].clone()).collect()
}

#[tokio::test]
async fn a_decision_about_more_jobs_than_a_part_goes_on_to_its_end_and_the_audit_log_has_both() {
    let (_counted, turnwise) = Counted::new();
    let server = Server::of("memory", turnwise);
    flood(&server, DECIDED_AT_ONCE + MORE).await;
    let path = cancel_all(&server).await;
    let page = says(&server, &path, "Done.").await;
    assert!(page.contains("10\u{202f}030 cancelled"), "{page}");
    let told = lines(&server, "1").await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!((&told[0]["state"], &told[0]["filter"]), (&json!("begun"), &json!("group:flood")));
    assert_eq!((&told[1]["state"], &told[1]["decided"]), (&json!("over"), &json!(DECIDED_AT_ONCE + MORE)));
    assert_eq!(told[1]["ended_by"], Value::Null);
}

#[tokio::test]
async fn after_a_restart_the_page_and_the_audit_log_say_where_a_decision_ended_and_its_number_is_not_used_again() {
    let (_counted, turnwise) = Counted::new();
    let mut server = Server::of("memory", turnwise.clone());
    flood(&server, DECIDED_AT_ONCE + MORE).await;
    // It stops while it carries out the first part.
    server.service.stop_soon();
    let path = cancel_all(&server).await;
    says(&server, &path, "It ended before all were decided about: the server was stopped").await;
    server.serve(Service::new(turnwise));
    let page = says(&server, &path, "It ended before all were decided about: the server was stopped").await;
    assert!(page.contains("10\u{202f}000 cancelled"), "{page}");
    let told = lines(&server, "1").await;
    assert_eq!(
        (told.len(), &told[1]["decided"], &told[1]["ended_by"]),
        (2, &json!(DECIDED_AT_ONCE), &json!("the server was stopped"))
    );
    let left = server.get("/api/v1/jobs?state=waiting&limit=1000").await.expect(200);
    assert_eq!(left["jobs"].as_array().unwrap().len(), MORE);
    // The next one is another one, and the address of the first still shows the first.
    let next = cancel_all(&server).await;
    assert_ne!(path, next);
    says(&server, &next, "Done.").await;
    says(&server, &path, "It ended before all were decided about").await;
}
