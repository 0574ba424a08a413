//! The service, started as its reader would and asked over the network.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use turnwise::{Filter, JobState, Turnwise};
use turnwise_testpg::Cluster;

const PATIENCE: Duration = Duration::from_secs(120);

/// Killed when it is dropped.
struct Service {
    process: Child,
    printed: BufReader<std::process::ChildStdout>,
    address: String,
}

impl Service {
    fn start(database: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_turnwise-example-axum"))
            .env("DATABASE_URL", database)
            .env("LISTEN", "127.0.0.1:0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut printed = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        printed.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        Self { process, printed, address }
    }

    /// The status and the body of the answer.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.address);
        write!(stream, "{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn sign_up(&self, email: &str) -> u16 {
        self.ask("POST", "/signups", &format!(r#"{{"email": "{email}"}}"#)).0
    }

    /// It must end by itself, and well.
    fn stop(mut self, signal: &str) {
        let stopped = Command::new("kill").args(["-s", signal, &self.process.id().to_string()]).status().unwrap();
        assert!(stopped.success());
        let mut rest = String::new();
        self.printed.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "stopped\n");
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // A process that has ended already is not an error.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn until(what: &str, mut look: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !look() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_request_commits_its_row_with_its_job_and_the_job_runs_in_the_same_process() {
    let database = Cluster::shared().fresh_database().unwrap();
    let service = Service::start(&database);
    assert_eq!(service.sign_up("ann@example.com"), 201);
    until("the welcome", || {
        service.ask("GET", "/signups/ann@example.com", "")
            == (200, r#"{"email":"ann@example.com","welcomed":true}"#.to_owned())
    });
    assert_eq!(service.ask("GET", "/signups/bob@example.com", "").0, 404);
    // The second request submits its job before the row is refused: the job is rolled back with it.
    assert_eq!(service.sign_up("ann@example.com"), 409);
    service.stop("TERM");
    // As Ctrl-C at the terminal.
    Service::start(&database).stop("INT");

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let jobs = runtime.block_on(async {
        let turnwise = Turnwise::open(&database).await.unwrap();
        turnwise.jobs(Filter::default()).await.unwrap()
    });
    let ended: Vec<_> = jobs.iter().map(|job| (job.group.as_str(), job.state)).collect();
    assert_eq!(ended, [("example.com", JobState::Success)]);
}
