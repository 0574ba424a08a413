//! The description that is served is the file `openapi.json`: a change of the API is seen.
//! `TURNWISE_BLESS=1 cargo test -p turnwise-server --test description` writes the file.

mod support;

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;
use support::Server;
use turnwise_core::access::Action;
use turnwise_server::{document, routes};

#[tokio::test]
async fn the_description_is_the_one_in_the_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let text = serde_json::to_string_pretty(&document()).unwrap() + "\n";
    if std::env::var_os("TURNWISE_BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    let hint =
        "crates/server/openapi.json is out of date: TURNWISE_BLESS=1 cargo test -p turnwise-server --test description";
    assert!(known == text, "{hint}; say in CHANGELOG.md what changed");
    let served = Server::on_memory().await.get("/api/v1/openapi.json").await.expect(200);
    assert_eq!(served, document());
}

/// All places that name a schema name one that is there, and every schema is named.
#[test]
fn every_schema_is_there_and_is_used() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                found.extend(
                    members.get("$ref").and_then(Value::as_str).map(|path| path.rsplit('/').next().unwrap().to_owned()),
                );
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let document = document();
    let mut named = BTreeSet::new();
    references(&document, &mut named);
    let there: BTreeSet<String> = document["components"]["schemas"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(named, there);
}

#[test]
fn every_route_but_those_for_machines_and_readers_needs_a_scope() {
    let open: Vec<_> = routes().iter().filter(|route| route.action.is_none()).map(|route| route.path).collect();
    let session = "/api/v1/session";
    let meant = [
        "/api/v1/openapi.json",
        session,
        session,
        session,
        "/api/v1/tickets/redeem",
        "/livez",
        "/readyz",
        "/docs",
        "/docs/docs.js",
        "/docs/docs.css",
    ];
    assert_eq!(open, meant);
    let ids: BTreeSet<_> = routes().iter().map(|route| route.id).collect();
    assert_eq!(ids.len(), routes().len(), "an id is given twice");
}

/// docs/access.md is printed from the actions: what it says that a token may do, there is a way to do.
#[test]
fn every_action_is_asked_for_by_a_route() {
    let asked: BTreeSet<_> = routes().iter().filter_map(|route| route.action).map(Action::words).collect();
    assert_eq!(asked, Action::ALL.iter().map(|action| action.words()).collect());
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let server = Server::on_memory().await;
    for (path, kind) in [("/docs", "text/html"), ("/docs/docs.js", "text/javascript"), ("/docs/docs.css", "text/css")] {
        let answer = server.get(path).await;
        assert_eq!(answer.status, 200);
        assert!(answer.header("content-type").starts_with(kind), "{path}");
        assert!(!answer.text.contains("http://") && !answer.text.contains("https://"), "{path}");
        assert!(answer.header("content-security-policy").contains("default-src 'none'"));
    }
}
