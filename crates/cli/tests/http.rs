//! The HTTP API of the real binary: its address, its answers, its end.

mod support;

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use support::{Harness, Node, PATIENCE, Place, until};
use turnwise_testpg::Cluster;

/// A caller of one server.
#[derive(Clone, Copy)]
struct Caller<'a>(SocketAddr, Option<&'a str>);

impl<'a> Caller<'a> {
    /// Starts a node and reads its address from the line that it prints.
    fn start(harness: &mut Harness, name: &str, flags: &[&str]) -> (Node, Self) {
        let mut node = harness.spawn(name, &[&["--demo-tasks"], flags].concat());
        let line = node.wait_until_ready();
        (node, Self(address(&line).unwrap_or_else(|| panic!("no address in {line:?}")), None))
    }

    /// With this token.
    fn with(self, secret: &str) -> Caller<'_> {
        Caller(self.0, Some(secret))
    }

    /// The status, and the JSON of the answer.
    fn ask(self, method: &str, path: &str, body: Option<&Value>) -> std::io::Result<(u16, Value)> {
        let mut stream = TcpStream::connect(self.0)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let token = self.1.map(|secret| format!("authorization: Bearer {secret}\r\n")).unwrap_or_default();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{token}\r\n{body}",
            self.0,
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let cut_off = || std::io::Error::other(format!("cut off: {answer:?}"));
        let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(cut_off)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(cut_off)?;
        Ok((status, serde_json::from_str(body).map_err(|_| cut_off())?))
    }

    fn get(self, path: &str) -> (u16, Value) {
        self.ask("GET", path, None).unwrap()
    }

    /// A stream of events that has begun: what is read of it from now on.
    fn listen(self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.0).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.0).unwrap();
        let mut read = Vec::new();
        while !String::from_utf8_lossy(&read).contains("\nid: ") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            read.push(byte[0]);
        }
        stream
    }

    fn submit(self, job: &Value) -> String {
        let (status, answer) = self.ask("POST", "/api/v1/jobs", Some(job)).unwrap();
        assert_eq!(status, 201, "{answer}");
        answer["id"].as_str().unwrap().to_owned()
    }
}

/// The address in the line of a node that is ready.
fn address(line: &str) -> Option<SocketAddr> {
    line.split_once("http://")?.1.trim().parse().ok()
}

/// A port that was free a moment ago.
fn free() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn a_job_is_submitted_and_its_end_awaited_over_http() {
    for mut harness in Harness::on_both() {
        let (node, caller) = Caller::start(&mut harness, "server", &[]);
        let (status, ready) = caller.get("/readyz");
        assert_eq!((status, &ready["ready"]), (200, &json!(true)));
        let durable = &ready["acknowledged"];
        assert!(durable["synchronous"] == "full" || durable["synchronous_commit"].is_string(), "{ready}");
        let id = caller.submit(&json!({"task": "sleep", "args": {"ms": 50}, "group": "acme"}));
        let (status, job) = caller.get(&format!("/api/v1/jobs/{id}?wait=60s"));
        assert_eq!((status, &job["state"], &job["group"]), (200, &json!("success"), &json!("acme")));
        assert_eq!(harness.jobs(&["--group", "acme"])[0]["id"], json!(id), "the command sees the same job");
        node.stop();
    }
}

#[test]
fn a_taken_port_is_replaced_by_a_free_one_unless_it_was_asked_for() {
    let mut harness = Harness::on_sqlite();
    let (first, one) = Caller::start(&mut harness, "first", &[]);
    let (second, other) = Caller::start(&mut harness, "second", &[]);
    assert_ne!(one.0, other.0);
    for caller in [one, other] {
        assert_eq!(caller.get("/livez").0, 200);
        assert!(caller.0.ip().is_loopback());
    }
    let taken = one.0.to_string();
    harness.place.refuses(&["serve", "--listen", &taken], 1, "choose another --listen");
    first.stop();
    second.stop();
}

#[test]
fn a_node_without_http_says_nothing_about_it() {
    let mut harness = Harness::on_sqlite();
    let mut node = harness.spawn("quiet", &["--listen", "none"]);
    assert_eq!(address(&node.wait_until_ready()), None);
    node.stop();
}

#[test]
fn other_machines_are_not_served() {
    let place = Place::on_sqlite();
    let everybody = ["serve", "--listen", "0.0.0.0:0"];
    place.refuses(&everybody, 2, "listen: 0.0.0.0 can be reached by other machines, and there is no token");
    place.told(&["token", "create", "--name", "test", "--scope", "read"]);
    place.refuses(&everybody, 2, "without TLS tokens would be readable on the way; add --tls-cert and --tls-key");
    place.refuses(&["serve", "--tls-cert", "a.pem"], 2, "tls_key: is missing beside tls_cert");
    place.refuses(&["serve", "--tls-key", "a.pem"], 2, "tls_cert: is missing beside tls_key");
    place.refuses(&["serve", "--tls-cert", "a.pem", "--tls-key", "a.pem"], 2, "tls_cert: a.pem: No such file");
    place.refuses(&["serve", "--allow-origin", "*"], 2, "allow_origin: \"*\" is not an origin");
    place.refuses(&["serve", "--listen", "nonsense"], 2, "listen: \"nonsense\" is not an address");
}

#[test]
fn after_sigterm_the_node_stops_first_and_http_last() {
    for mut harness in Harness::on_both() {
        let (mut node, caller) = Caller::start(&mut harness, "server", &["--await-termination", "10m"]);
        let id = caller.submit(&json!({"task": "sleep", "args": {"ms": 600_000}}));
        let path = format!("/api/v1/jobs/{id}");
        until("the job to run", || (caller.get(&path).1["state"] == "running").then_some(()));
        let waiting = format!("{path}?wait=60s");
        let waiter = thread::spawn(move || caller.get(&waiting));
        let mut events = caller.listen("/api/v1/events");
        node.signal("TERM");
        let mut rest = String::new();
        events.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("event: closed") && rest.contains("the server stops"), "a stream ends at once: {rest}");
        until("the server to be no longer ready", || (caller.get("/readyz").0 == 503).then_some(()));
        let (status, job) = waiter.join().unwrap();
        assert_eq!((status, &job["state"]), (200, &json!("running")), "a long poll is answered at once");
        // The node waits for its job, and HTTP goes on.
        assert_eq!(caller.get("/livez").0, 200);
        let (status, decided) = caller.ask("POST", &format!("{path}/cancel"), None).unwrap();
        assert_eq!((status, &decided["decided"]), (200, &json!("cancel_requested")));
        assert_eq!(node.exit_within(PATIENCE).code(), Some(0), "{}", node.errors());
        assert_eq!(harness.jobs(&[])[0]["state"], "cancelled");
    }
}

#[test]
fn what_was_acknowledged_is_there_after_kill_nine() {
    for mut harness in Harness::on_both() {
        let address = free();
        let flags = ["--listen", address.as_str()];
        let (node, caller) = Caller::start(&mut harness, "server", &flags);
        let ids: Vec<_> = (0..20).map(|_| caller.submit(&json!({"task": "sleep", "args": {"ms": 200}}))).collect();
        harness.kill(node);
        assert!(caller.ask("GET", "/livez", None).is_err(), "a killed process answers nothing");
        let (node, caller) = Caller::start(&mut harness, "server", &flags);
        for id in &ids {
            let job = until("the job's end", || {
                let (status, job) = caller.get(&format!("/api/v1/jobs/{id}?wait=10s"));
                assert_eq!(status, 200, "{job}");
                (job["state"] == "success").then_some(job)
            });
            assert_eq!(job["id"], json!(id));
        }
        node.stop();
    }
}

#[test]
fn from_the_first_token_on_every_request_needs_one() {
    for mut harness in Harness::on_both() {
        let (node, caller) = Caller::start(&mut harness, "server", &[]);
        assert_eq!(caller.get("/api/v1/nodes").0, 200, "a program of this machine needs no token while there is none");
        let create = ["token", "create", "--name", "test", "--scope", "read"];
        let secret = harness.place.told(&create).trim().to_owned();
        until("the server to hear of the token", || (caller.get("/api/v1/nodes").0 == 401).then_some(()));
        assert_eq!(caller.get("/readyz").0, 200, "health needs no token");
        let known = caller.with(&secret);
        assert_eq!(known.get("/api/v1/nodes").0, 200);
        assert_eq!(known.ask("POST", "/api/v1/prune", None).unwrap().0, 403, "it may only read");
        harness.place.told(&["token", "revoke", &secret]);
        until("the server to hear that it is revoked", || (known.get("/api/v1/nodes").0 == 401).then_some(()));
        assert_eq!(caller.get("/api/v1/nodes").0, 401, "nor does the server open again");
        node.stop();
    }
}

#[test]
fn a_request_from_elsewhere_is_refused() {
    let mut harness = Harness::on_sqlite();
    let (node, caller) = Caller::start(&mut harness, "server", &[]);
    for header in
        ["host: example.com", "host: localhost\r\norigin: http://example.com", "host: localhost\r\nvia: 1.1 proxy"]
    {
        let mut stream = TcpStream::connect(caller.0).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "GET /api/v1/jobs HTTP/1.1\r\n{header}\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 403 "), "{header}: {answer}");
    }
    node.stop();
}

#[test]
fn a_server_with_pools_listings_and_a_listener_has_at_most_ten_connections() {
    let url = Cluster::shared().fresh_database().unwrap();
    let settings =
        "[pools.mail]\nqueues = ['mail']\ncore_pool_size = 2\n[pools.pdf]\nqueues = ['pdf']\ncore_pool_size = 2\n";
    // The connections of the server go by this name, and no others.
    let place = Place::on(format!("{url}?application_name=counted")).with_schema().with(settings);
    let mut node = place.serve(&["--demo-tasks", "--listen", "127.0.0.1:0"]);
    let caller = Caller(address(&node.ready).unwrap_or_else(|| panic!("no address in {:?}", node.ready)), None);
    let stream = caller.listen("/api/v1/events");
    let over = AtomicBool::new(false);
    let count = || -> usize {
        let sql = "select count(*) from pg_stat_activity where application_name = 'counted'";
        Cluster::shared().psql(&url, sql).unwrap().trim().parse().unwrap()
    };
    thread::scope(|scope| {
        for line in 0..30 {
            let (over, queue) = (&over, ["default", "mail", "pdf"][line % 3]);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    match line % 5 {
                        0 => drop(caller.get("/api/v1/jobs?limit=100")),
                        1 => drop(caller.get("/api/v1/queues")),
                        2 => drop(caller.get("/api/v1/statistics")),
                        _ => drop(caller.ask("POST", "/api/v1/jobs", Some(&json!({"task": "noop", "queue": queue})))),
                    }
                }
            });
        }
        let (mut most, mut looks) = (0, 0);
        while looks < 40 || most < 7 {
            most = most.max(count());
            looks += 1;
            if most > 10 || looks > 2_000 {
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
        assert!((7..=10).contains(&most), "{most} connections at most");
    });
    drop(stream);
    node.signal("TERM");
    assert_eq!(node.end().0, Some(0));
}
