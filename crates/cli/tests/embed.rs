//! A ticket with the real binary: the command makes one, a browser's part redeems it, and neither secret is written down anywhere.

mod support;

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
};

use serde_json::{Value, json};
use support::{Harness, PATIENCE};
use turnwise_testpg::Cluster;

const ORIGIN: &str = "https://app.example";

/// The head and the body of an answer to what a page of the server sends.
fn ask(address: &str, method: &str, path: &str, bearer: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let bearer = if bearer.is_empty() { String::new() } else { format!("authorization: Bearer {bearer}\r\n") };
    let kind = if body.starts_with('{') { "application/json" } else { "application/x-www-form-urlencoded" };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\norigin: http://{address}\r\nsec-fetch-site: same-origin\r\n{bearer}content-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("cut off: {answer:?}"));
    (head.to_owned(), body.to_owned())
}

#[test]
fn a_ticket_opens_the_view_and_neither_it_nor_its_bearer_is_written_down() {
    for mut harness in [Harness::on_sqlite(), Harness::on_postgres(Cluster::shared())] {
        let flags = ["--demo-tasks", "--listen", "127.0.0.1:0", "--embed-origin", ORIGIN, "--log", "trace"];
        let mut node = harness.spawn("n1", &flags);
        let ready = node.wait_until_ready();
        let (_, address) = ready.split_once("http://").unwrap_or_else(|| panic!("no address: {ready}"));
        let address = address.trim();
        let place = &harness.place;
        let job = place.told(&["enqueue", "sleep", r#"{"ms": 1}"#, "--group", "acme", "--in", "1h"]);
        let token = place.told(&["token", "create", "--name", "host", "--scope", "admin"]);
        fs::write(place.path().join("token"), token.trim()).unwrap();
        let server = format!("http://{address}");
        let by_token = ["--server", server.as_str(), "--token", "@token"];
        let asked = ["token", "ticket", "--group", "acme", "--scope", "operate", "--origin", ORIGIN];
        let made = place.told(&[&by_token[..], &asked].concat());
        let (shell, ticket) = made.trim().split_once('#').unwrap_or_else(|| panic!("no ticket: {made}"));
        assert_eq!(shell, format!("/embed?origin={ORIGIN}"));
        // As the browser of the host's user goes on.
        let (head, page) = ask(address, "GET", shell, "", "");
        assert!(head.starts_with("HTTP/1.1 200") && head.contains(&format!("frame-ancestors {ORIGIN};")), "{head}");
        assert!(head.contains("referrer-policy: no-referrer") && !head.contains("set-cookie"), "{head}");
        assert!(page.contains(&format!("data-origins=\"{ORIGIN}\"")), "{page}");
        let redeem = json!({"ticket": ticket, "origins": [ORIGIN]}).to_string();
        let (_, redeemed) = ask(address, "POST", "/api/v1/tickets/redeem", "", &redeem);
        let redeemed: Value = serde_json::from_str(&redeemed).unwrap();
        let bearer = redeemed["bearer"].as_str().unwrap_or_else(|| panic!("{redeemed}"));
        let (head, view) = ask(address, "GET", "/mine", bearer, "");
        assert!(head.starts_with("HTTP/1.1 200") && view.contains(job.trim()), "{head}\n{view}");
        let (head, _) = ask(address, "POST", &format!("/jobs/{}/cancel", job.trim()), bearer, "back=mine");
        assert!(head.starts_with("HTTP/1.1 303"), "{head}");
        assert!(ask(address, "POST", "/api/v1/tickets/redeem", "", &redeem).0.starts_with("HTTP/1.1 401"));
        // Nobody reads either of them anywhere.
        let admin = fs::read_to_string(place.path().join("token")).unwrap();
        let audit = place.told(&["audit", "--json"]);
        assert!(audit.contains("by a ticket") && audit.contains(r#""ticket""#), "{audit}");
        let metrics = ask(address, "GET", "/metrics", &admin, "").1;
        assert!(metrics.contains("/api/v1/tickets"), "{metrics}");
        let errors = node.errors();
        assert!(!errors.is_empty());
        for (what, text) in [("the audit log", &audit), ("the metrics", &metrics), ("the node's log", &errors)] {
            for (name, secret) in [("the ticket", ticket), ("the bearer", bearer)] {
                assert!(!text.contains(&secret[4..]), "{name} is in {what}");
            }
        }
        node.stop();
    }
}

#[test]
fn a_ticket_is_made_by_a_server_alone() {
    let harness = Harness::on_sqlite();
    let place = &harness.place;
    let ticket = ["token", "ticket", "--group", "acme", "--origin", ORIGIN];
    assert!(place.refused(&ticket, 2).contains("server: is missing: a ticket is made by a server, with a token"));
    assert!(
        place
            .refused(&[&ticket[..], &["--scope", "admin"]].concat(), 2)
            .contains("scope: a ticket may read and operate")
    );
    let serve = ["serve", "--embed-origin", "https://app.example/path"];
    assert!(place.refused(&serve, 2).contains("embed_origin: "));
}
