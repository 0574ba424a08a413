//! Tasks that are HTTP endpoints, with a real node and an endpoint that answers as each test says.

mod support;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
};

use serde_json::{Value, json};
use support::*;

/// What an endpoint has got.
#[derive(Debug)]
struct Got {
    line: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// An endpoint: each request gets the answer that `answer` makes of how many came before it; an empty one is none.
struct Endpoint {
    address: String,
    got: Receiver<Got>,
}

impl Endpoint {
    fn start(answer: impl Fn(usize) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (tell, got) = channel();
        thread::spawn(move || {
            let mut count = 0;
            // Each connection brings what it has, one after the other: the tests have one job at a time.
            for stream in listener.incoming() {
                serve(&stream.unwrap(), &tell, &answer, &mut count);
            }
        });
        Self { address, got }
    }

    fn next(&self) -> Got {
        self.got.recv().unwrap()
    }
}

fn serve(stream: &TcpStream, tell: &Sender<Got>, answer: &dyn Fn(usize) -> String, count: &mut usize) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line).is_err() || line.is_empty() {
        return;
    }
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, length)| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let got = Got { line: line.trim_end().to_owned(), headers, body: String::from_utf8(body).unwrap() };
    // An error means that the test has seen enough.
    let _ = tell.send(got);
    let text = answer(*count);
    *count += 1;
    if text.is_empty() {
        // It never answers; the other side goes away.
        let _ = reader.read(&mut [0]);
    } else {
        let _ = (&*stream).write_all(text.as_bytes());
    }
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A node with the task `invoice` at this address.
fn node(place: &Place, url: &str, more: &str) -> Serving {
    let file = format!("[tasks.invoice]\nurl = {url:?}\nretry = \"durations:10ms,10ms\"\n{more}\n");
    std::fs::write(place.path().join("turnwise.toml"), file).unwrap();
    place.serve(&[])
}

on_both_databases!(
    a_job_is_posted_with_what_identifies_it_and_the_answer_is_its_result,
    an_answer_may_put_a_job_off_without_an_attempt,
    what_is_not_wanted_fails_for_good_and_what_went_wrong_is_tried_again,
    a_job_whose_endpoint_does_not_answer_is_cancelled_or_runs_out_of_time,
);

fn a_job_is_posted_with_what_identifies_it_and_the_answer_is_its_result(place: &Place) {
    let json = "Content-Type: application/json; charset=utf-8\r\n";
    let endpoint = Endpoint::start(move |_| answer("200 OK", json, r#"{"number": 1.50}"#));
    std::fs::write(place.path().join("secret"), format!("{SECRET}\n")).unwrap();
    let node = node(place, &format!("http://{}/jobs?key=k", endpoint.address), "sign_files = [\"secret\"]");
    let job = place.enqueue(&["invoice", r#"{"order": 7.0}"#, "--group", "acme"]);
    place.wait_for_state(&job, "success");
    let got = endpoint.next();
    assert_eq!(got.line, "POST /jobs?key=k HTTP/1.1");
    let posted = got.json();
    assert_eq!(posted["id"], job.as_str());
    assert_eq!(
        (&posted["task"], &posted["group"], &posted["queue"]),
        (&json!("invoice"), &json!("acme"), &json!("default"))
    );
    assert_eq!((&posted["attempt"], &posted["fence"]), (&json!(1), &json!(1)));
    assert!(got.body.contains(r#""args":{"order": 7.0}"#), "to the letter: {}", got.body);
    assert!(got.header("webhook-id").unwrap().starts_with(&job));
    assert!(got.header("webhook-signature").unwrap().starts_with("v1,"));
    assert!(got.header("webhook-timestamp").unwrap().parse::<i64>().unwrap() > 1_700_000_000);
    assert_eq!(place.job(&job)["result"], json!({"number": 1.50}));
    node.stop();
}

fn an_answer_may_put_a_job_off_without_an_attempt(place: &Place) {
    let endpoint = Endpoint::start(|count| match count {
        0 => answer("503 Service Unavailable", "Retry-After: 0\r\n", "later"),
        1 => answer("429 Too Many Requests", "Retry-After: 0\r\n", ""),
        _ => answer("200 OK", "", "done"),
    });
    let node = node(place, &format!("http://{}", endpoint.address), "");
    let job = place.enqueue(&["invoice", "--retry", "none"]);
    place.wait_for_state(&job, "success");
    let all = [endpoint.next(), endpoint.next(), endpoint.next()];
    assert_eq!(all.each_ref().map(|got| got.json()["attempt"].clone()), [json!(1), json!(1), json!(1)]);
    let ids = all.each_ref().map(|got| got.header("webhook-id").unwrap().to_owned());
    assert!(ids.iter().all(|id| *id == ids[0]), "one message: {ids:?}");
    assert_eq!(place.job(&job)["result"], "done");
    node.stop();
}

fn what_is_not_wanted_fails_for_good_and_what_went_wrong_is_tried_again(place: &Place) {
    let endpoint = Endpoint::start(|count| match count {
        0 => answer("422 Unprocessable Content", "", "no such order"),
        1 => answer("307 Temporary Redirect", "Location: http://127.0.0.1:9/x\r\n", ""),
        2 => answer("200 OK", "", &"x".repeat(1_048_577)),
        3 => answer("500 Internal Server Error", "", "oops"),
        _ => answer("204 No Content", "", ""),
    });
    let node = node(place, &format!("http://{}/s3cret", endpoint.address), "");
    for error in [
        "answered with status 422: no such order",
        "answered with status 307, a redirect, which is not followed",
        "its answer is longer than 1048576 bytes",
    ] {
        let job = place.enqueue(&["invoice"]);
        place.wait_for_state(&job, "failed");
        let shown = place.job(&job);
        assert!(shown["error"].as_str().unwrap().contains(error), "{shown}");
        assert!(!shown.to_string().contains("s3cret"), "the path of an address may be a secret: {shown}");
        assert_eq!(endpoint.next().json()["attempt"], 1);
    }
    let job = place.enqueue(&["invoice"]);
    place.wait_for_state(&job, "success");
    assert_eq!(
        [endpoint.next().json()["attempt"].clone(), endpoint.next().json()["attempt"].clone()],
        [json!(1), json!(2)]
    );
    node.stop();
}

fn a_job_whose_endpoint_does_not_answer_is_cancelled_or_runs_out_of_time(place: &Place) {
    let endpoint = Endpoint::start(|_| String::new());
    let node = node(place, &format!("http://{}", endpoint.address), "");
    let job = place.enqueue(&["invoice"]);
    endpoint.next();
    place.told(&["cancel", &job]);
    place.wait_for_state(&job, "cancelled");
    let late = place.enqueue(&["invoice", "--timeout", "50ms", "--retry", "none"]);
    endpoint.next();
    place.wait_for_state(&late, "failed");
    node.stop();
}

#[test]
fn an_address_of_this_machine_is_refused_where_private_addresses_are() {
    let place = Place::on_sqlite();
    let endpoint = Endpoint::start(|_| answer("200 OK", "", ""));
    let port = endpoint.address.rsplit(':').next().unwrap();
    let node = node(&place, &format!("http://localhost:{port}"), "private_addresses = false");
    let job = place.enqueue(&["invoice", "--retry", "none"]);
    place.wait_for_state(&job, "failed");
    let error = place.job(&job)["error"].as_str().unwrap().to_owned();
    assert!(error.ends_with("localhost is at no public address, and private_addresses = false"), "{error}");
    assert!(endpoint.got.try_recv().is_err(), "nothing was sent");
    node.stop();
}

#[test]
fn a_proxy_is_given_the_whole_address() {
    let place = Place::on_sqlite();
    let proxy = Endpoint::start(|_| answer("200 OK", "", "by the proxy"));
    let node = node(&place, "http://billing.invalid/jobs", &format!("proxy = \"http://{}\"", proxy.address));
    let job = place.enqueue(&["invoice"]);
    place.wait_for_state(&job, "success");
    let got = proxy.next();
    assert_eq!(got.line, "POST http://billing.invalid/jobs HTTP/1.1");
    assert_eq!(got.header("host"), Some("billing.invalid"));
    node.stop();
}

#[test]
fn a_node_does_not_start_with_a_secret_that_is_none_and_does_not_show_it() {
    let place = Place::on_sqlite();
    std::fs::write(place.path().join("secret"), "s3cret").unwrap();
    let file = "[tasks.invoice]\nurl = \"https://billing.example.com\"\nsign_files = [\"secret\"]\n";
    std::fs::write(place.path().join("turnwise.toml"), file).unwrap();
    let refusal = place.refused(&["serve"], 2);
    assert!(refusal.contains("tasks.invoice: sign_files: secret: must be whsec_"), "{refusal}");
    assert!(!refusal.contains("s3cret"), "{refusal}");
}
