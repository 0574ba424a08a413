//! Real processes of the real binary on a database of their own, and the record of what they did.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Write},
    path::PathBuf,
    process::Stdio,
    sync::{OnceLock, mpsc},
    thread,
};

use serde_json::Value;
use turnwise_sim::{Counts, History, Report, check};
use turnwise_testpg::{Cluster, PgBouncer, PoolMode};

use super::{node::Node, output::succeeded, place::Place, process::Process, wait::until};

/// One database, the nodes on it, and the harness's own lines of the record.
pub(crate) struct Harness {
    pub(crate) place: Place,
    record: Vec<Value>,
    processes: usize,
}

impl Harness {
    fn at(place: Place) -> Self {
        Self { place, record: Vec::new(), processes: 0 }
    }

    pub(crate) fn on_sqlite() -> Self {
        Self::at(Place::on_sqlite())
    }

    pub(crate) fn on_postgres(cluster: &Cluster) -> Self {
        Self::at(Place::on(cluster.fresh_database().unwrap()).with_schema())
    }

    /// In transaction mode: each transaction has another of its sessions.
    pub(crate) fn through_pgbouncer() -> Self {
        static PGBOUNCER: OnceLock<PgBouncer> = OnceLock::new();
        let in_turn = "server_round_robin = 1";
        let start = || PgBouncer::start(Cluster::shared(), PoolMode::Transaction, in_turn).unwrap();
        let database = Cluster::shared().fresh_database().unwrap();
        Self::at(Place::on(PGBOUNCER.get_or_init(start).url(&database)).with_schema())
    }

    pub(crate) fn on_both() -> [Self; 2] {
        [Self::on_sqlite(), Self::on_postgres(Cluster::shared())]
    }

    pub(crate) fn database(&self) -> &str {
        self.place.database()
    }

    /// Submits `count` jobs of one task, spread over some groups, and returns their ids once they are acknowledged.
    pub(crate) fn submit(&mut self, count: usize, task: &str, args: &str) -> Vec<String> {
        let args: Value = serde_json::from_str(args).unwrap();
        let job = |n: usize| serde_json::json!({"task": task, "args": args, "group": format!("g{}", n % 7)});
        let ids = self.place.enqueue_all((0..count).map(job));
        assert_eq!(ids.len(), count);
        self.record.extend(ids.iter().map(|id| serde_json::json!({"event": "submit", "job": id})));
        ids
    }

    /// Starts a node with the demo tasks and waits until it is ready.
    pub(crate) fn serve(&mut self, name: &str, flags: &[&str]) -> Node {
        let mut node = self.spawn(name, &[&["--demo-tasks"], flags].concat());
        node.wait_until_ready();
        node
    }

    /// Starts a node and does not wait.
    pub(crate) fn spawn(&mut self, name: &str, flags: &[&str]) -> Node {
        self.processes += 1;
        let file = |kind: &str| self.place.path().join(format!("{}-{name}.{kind}", self.processes));
        let (trace, errors) = (file("trace"), file("stderr"));
        let mut command = self.place.command(&["serve", "--name", name, "--trace"]);
        command.arg(&trace).args(flags).stdout(Stdio::piped()).stderr(File::create(&errors).unwrap());
        let mut child = command.spawn().unwrap();
        let (said, output) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        Node { name: name.to_owned(), process: Process::new(child), output, trace, errors }
    }

    /// `kill -9`, and a line about it: the last lines of the killed node may be missing.
    pub(crate) fn kill(&mut self, mut node: Node) {
        node.process.kill();
        let killed = node.incarnations().pop().expect("a node that was ready has joined");
        self.note(serde_json::json!({"event": "kill", "killed": killed}));
    }

    /// As [`Harness::kill`], at a moment when a run of the node has begun and is not settled. The node is stopped to
    /// look: what it had sent before is settled once two looks in a row see the same.
    pub(crate) fn kill_among_its_runs(&mut self, node: Node) {
        until("a run to kill", || {
            node.signal("STOP");
            let mut held = self.held_by(&node.name);
            loop {
                let again = self.held_by(&node.name);
                if again == held {
                    break;
                }
                held = again;
            }
            if node.started().iter().any(|job| held.contains(job)) {
                return Some(());
            }
            node.signal("CONT");
            None
        });
        self.kill(node);
    }

    /// The jobs that the store says are in this node's hands, in order of their ids.
    fn held_by(&self, node: &str) -> Vec<String> {
        let held = self.jobs(&["--state", "scheduled", "--state", "running"]);
        let mut held: Vec<_> = held
            .iter()
            .filter(|job| job["node"] == node)
            .map(|job| job["id"].as_str().expect("a job has an id").to_owned())
            .collect();
        held.sort();
        held
    }

    pub(crate) fn cancel(&mut self, jobs: &[String]) {
        succeeded(&self.place.command(&["cancel"]).args(jobs).output().unwrap());
        self.record.extend(jobs.iter().map(|job| serde_json::json!({"event": "decide", "job": job})));
    }

    pub(crate) fn note(&mut self, line: Value) {
        self.record.push(line);
    }

    pub(crate) fn jobs(&self, flags: &[&str]) -> Vec<Value> {
        list(self.place.json(&[&["jobs", "--json", "--limit", "1000000"], flags].concat()))
    }

    pub(crate) fn nodes(&self) -> Vec<Value> {
        let nodes = list(self.place.json(&["nodes", "--json"]));
        nodes.into_iter().filter(|node| node["lost_at"].is_null()).collect()
    }

    /// Waits until the store lists no unfinished job.
    pub(crate) fn wait_until_all_ended(&self) {
        let states = ["--state", "waiting", "--state", "scheduled", "--state", "running", "--state", "stuck"];
        let one = [&["jobs", "--json", "--limit", "1"], &states[..]].concat();
        until("the end of all jobs", || list(self.place.json(&one)).is_empty().then_some(()));
    }

    /// Puts the record together, now that all nodes have stopped, and checks it.
    pub(crate) fn report(&self) -> Report {
        let mut history = History::read(self.files("trace")).unwrap();
        let jobs = self.jobs(&[]);
        let running = jobs.iter().filter(|job| job["state"] == "scheduled" || job["state"] == "running").count();
        let ends = jobs.iter().map(|job| serde_json::json!({"event": "end", "job": job["id"], "state": job["state"]}));
        let rest = serde_json::json!({"event": "rest", "running": running, "nodes": self.nodes().len()});
        let lines = self.record.iter().cloned().chain(ends).chain([rest]).map(|line| format!("{line}\n"));
        history.add(History::parse("the harness", &lines.collect::<String>()).unwrap());
        check(&history)
    }

    /// As [`Harness::report`]; every promise must have been kept, and all jobs have ended well.
    pub(crate) fn expect_all_success(&self, story: &str) -> Report {
        let report = self.report();
        tell(story, &report.counts);
        assert_eq!(report.violations, [], "{report}");
        assert_eq!(report.counts.success, report.counts.submitted, "{report}");
        report
    }

    fn files(&self, kind: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.place.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            entries.filter(|path| path.extension().is_some_and(|extension| extension == kind)).collect();
        files.sort();
        files
    }
}

/// A failed test shows what its nodes wrote to stderr.
impl Drop for Harness {
    fn drop(&mut self) {
        if thread::panicking() {
            for file in self.files("stderr") {
                let text = fs::read_to_string(&file).unwrap_or_default();
                let lines: Vec<_> = text.lines().collect();
                let end = lines[lines.len().saturating_sub(40)..].join("\n");
                let _ = writeln!(io::stderr(), "--- {}\n{end}", file.display());
            }
        }
    }
}

/// Prints past the capture of the test runner: these numbers are wanted also when the test passes.
pub(crate) fn tell(story: &str, counts: &Counts) {
    let _ = writeln!(io::stdout(), "{story}: {counts}");
}

fn list(value: Value) -> Vec<Value> {
    serde_json::from_value(value).unwrap()
}
