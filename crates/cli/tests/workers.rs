//! Foreign workers and real servers, which are stopped, killed and replaced while jobs run.

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use support::{Harness, Node, until};

const WORKER: &str = "0d9619ff-8b86-4d01-b42d-00c04fc964ff";

/// A worker as a client has it: it asks one server, and another one if that does not answer.
#[derive(Default)]
struct Client {
    servers: Mutex<Vec<SocketAddr>>,
    next: AtomicUsize,
    /// How often each job was run.
    runs: Mutex<BTreeMap<String, usize>>,
    held: Mutex<BTreeSet<(String, i64)>>,
    over: AtomicBool,
}

/// A test that fails stops its threads, too.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn ask(server: SocketAddr, path: &str, body: &Value) -> std::io::Result<(u16, Value)> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_secs(15)))?;
    let body = body.to_string();
    write!(
        stream,
        "POST /api/v1{path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let cut_off = || std::io::Error::other(format!("cut off: {answer:?}"));
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(cut_off)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(cut_off)?;
    Ok((status, serde_json::from_str(body).map_err(|_| cut_off())?))
}

impl Client {
    fn start(&self, harness: &mut Harness, name: &str) -> Node {
        let mut node = harness.spawn(name, &["--demo-tasks"]);
        let line = node.wait_until_ready();
        let address = line.split_once("http://").and_then(|(_, rest)| rest.trim().parse().ok());
        self.servers.lock().unwrap().push(address.unwrap_or_else(|| panic!("no address in {line:?}")));
        node
    }

    /// The server that was started first is not asked any more.
    fn forget_first(&self) {
        self.servers.lock().unwrap().remove(0);
    }

    /// Asks until a server has answered.
    fn call(&self, path: &str, body: &Value) -> Value {
        loop {
            let servers = self.servers.lock().unwrap().clone();
            let server = servers[self.next.fetch_add(1, Ordering::Relaxed) % servers.len()];
            match ask(server, path, body) {
                Ok((200 | 201, answer)) => return answer,
                Ok((429 | 503, _)) | Err(_) => thread::sleep(Duration::from_millis(50)),
                Ok((status, problem)) => panic!("{path}: {status} {problem}"),
            }
        }
    }

    fn verb(&self, verb: &str, body: &Value) -> Value {
        self.call(&format!("/workers/{WORKER}/{verb}"), body)
    }

    fn held(&self) -> Vec<Value> {
        self.held.lock().unwrap().iter().map(|(id, fence)| json!({"id": id, "fence": fence})).collect()
    }

    fn beat(&self) {
        while !self.over.load(Ordering::Relaxed) {
            let answer = self.verb("beat", &json!({"slots": 4, "held": self.held()}));
            assert_eq!(answer["stop"], json!([]), "no job is taken from it");
            thread::sleep(Duration::from_secs(1));
        }
    }

    fn work(&self) {
        thread::scope(|runs| {
            while !self.over.load(Ordering::Relaxed) {
                let room = 4 - self.held.lock().unwrap().len().min(4);
                let taken = self.verb("take", &json!({"n": room, "wait_ms": 500, "held": self.held()}));
                for job in taken["jobs"].as_array().unwrap().clone() {
                    let (id, fence) = (job["id"].as_str().unwrap().to_owned(), job["fence"].as_i64().unwrap());
                    // One that it has already is dropped.
                    if self.held.lock().unwrap().insert((id.clone(), fence)) {
                        runs.spawn(move || self.run(id, fence));
                    }
                }
            }
        });
    }

    fn run(&self, id: String, fence: i64) {
        *self.runs.lock().unwrap().entry(id.clone()).or_default() += 1;
        thread::sleep(Duration::from_millis(100));
        let end = json!({"id": id, "fence": fence, "ran_ms": 100, "outcome": {"outcome": "done", "result": fence}});
        let answer = self.verb("settle", &json!({"ends": [end]}));
        assert_eq!(answer["ends"][0]["answer"], "applied", "{answer}");
        self.held.lock().unwrap().remove(&(id, fence));
    }
}

#[test]
fn servers_are_stopped_killed_and_replaced_and_each_job_runs_once() {
    for mut harness in Harness::on_both() {
        let client = Client::default();
        let (first, second) = (client.start(&mut harness, "first"), client.start(&mut harness, "second"));
        let facts = json!({"protocol": 1, "worker": WORKER, "name": "far away", "slots": 4, "tasks": {"far": {}}});
        client.call("/workers", &facts);
        let _living = thread::scope(|threads| {
            let _over = Over(&client.over);
            threads.spawn(|| client.beat());
            threads.spawn(|| client.work());
            let mut jobs = Vec::new();
            let submit = |harness: &mut Harness, jobs: &mut Vec<String>| {
                jobs.extend(harness.submit(20, "far", "null"));
            };
            let done = |count: usize| until("runs", || (client.runs.lock().unwrap().len() >= count).then_some(()));
            submit(&mut harness, &mut jobs);
            done(5);
            // A deploy: one after the other, while jobs run.
            first.stop();
            client.forget_first();
            let third = client.start(&mut harness, "third");
            submit(&mut harness, &mut jobs);
            done(25);
            // And one that dies.
            harness.kill(second);
            client.forget_first();
            let fourth = client.start(&mut harness, "fourth");
            submit(&mut harness, &mut jobs);
            harness.wait_until_all_ended();
            until("the last answers", || client.held.lock().unwrap().is_empty().then_some(()));
            let runs = client.runs.lock().unwrap().clone();
            assert_eq!(runs.len(), 60);
            assert!(runs.values().all(|runs| *runs == 1), "a job ran twice: {runs:?}");
            let states: BTreeSet<_> = harness.jobs(&[]).iter().map(|job| job["state"].to_string()).collect();
            assert_eq!(states, ["\"success\"".to_owned()].into());
            // They live until the worker has left.
            (third, fourth)
        });
        assert_eq!(client.verb("leave", &json!({"held": []})), json!({"left": true}));
    }
}
