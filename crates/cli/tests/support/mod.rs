//! Real processes of the real binary on a database of their own, and the record of what they did.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{OnceLock, mpsc},
    thread,
    time::{Duration, Instant, SystemTime},
};

use serde_json::Value;
use tempfile::TempDir;
use turnwise::Timestamp;
use turnwise_sim::{
    Counts, History, Report, check,
    history::{Line, NodeEvent},
};
use turnwise_testpg::{Cluster, PgBouncer, PoolMode};

/// Nothing here takes nearly as long; a test that waits in vain fails instead of hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// One database, the nodes on it, and the harness's own lines of the record.
pub(crate) struct Harness {
    dir: TempDir,
    database: String,
    record: Vec<Value>,
    processes: usize,
}

impl Harness {
    pub(crate) fn on_sqlite() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let database = format!("sqlite:{}", dir.path().join("jobs.db").display());
        Self { dir, database, record: Vec::new(), processes: 0 }
    }

    #[allow(dead_code, reason = "for tests that run commands of their own")]
    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    pub(crate) fn on_postgres(cluster: &Cluster) -> Self {
        let database = cluster.fresh_database().unwrap();
        Self { dir: tempfile::tempdir().unwrap(), database, record: Vec::new(), processes: 0 }
    }

    /// In transaction mode: each transaction has another of its sessions.
    #[allow(dead_code, reason = "for tests that kill nodes")]
    pub(crate) fn through_pgbouncer() -> Self {
        static PGBOUNCER: OnceLock<PgBouncer> = OnceLock::new();
        let in_turn = "server_round_robin = 1";
        let start = || PgBouncer::start(Cluster::shared(), PoolMode::Transaction, in_turn).unwrap();
        let mut harness = Self::on_postgres(Cluster::shared());
        harness.database = PGBOUNCER.get_or_init(start).url(&harness.database);
        harness
    }

    /// Submits `count` jobs of one task, spread over some groups, and returns their ids once they are acknowledged.
    pub(crate) fn submit(&mut self, count: usize, task: &str, args: &str) -> Vec<String> {
        let line = |n: usize| format!("{{\"task\":\"{task}\",\"args\":{args},\"group\":\"g{}\"}}\n", n % 7);
        let input: String = (0..count).map(line).collect();
        let mut command = self.turnwise("enqueue");
        let mut child =
            command.arg("--stdin").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // On a thread: the other side may write ids before it has read everything.
        let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        let ids: Vec<String> = String::from_utf8(succeeded(output)).unwrap().lines().map(str::to_owned).collect();
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
        let file = |kind: &str| self.dir.path().join(format!("{}-{name}.{kind}", self.processes));
        let (trace, errors) = (file("trace"), file("stderr"));
        let mut command = self.turnwise("serve");
        command.args(["--name", name, "--trace"]).arg(&trace).args(flags);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&errors).unwrap());
        let mut child = command.spawn().unwrap();
        let (said, output) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        Node { name: name.to_owned(), child, output, trace, errors }
    }

    /// `kill -9`, and a line about it: the dead one's last lines may be missing.
    pub(crate) fn kill(&mut self, mut node: Node) {
        node.signal("KILL");
        node.child.wait().unwrap();
        let killed = node.incarnations().pop().expect("a node that was ready has joined");
        self.note(serde_json::json!({"event": "kill", "killed": killed}));
    }

    /// As [`Harness::kill`], at a moment when a run of the node has begun and is not settled. The node is stopped to
    /// look: what it had sent by then is settled once two looks in a row see the same.
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

    #[allow(dead_code, reason = "not every test cancels")]
    pub(crate) fn cancel(&mut self, jobs: &[String]) {
        succeeded(self.turnwise("cancel").args(jobs).output().unwrap());
        self.record.extend(jobs.iter().map(|job| serde_json::json!({"event": "decide", "job": job})));
    }

    pub(crate) fn note(&mut self, line: Value) {
        self.record.push(line);
    }

    pub(crate) fn jobs(&self, flags: &[&str]) -> Vec<Value> {
        let output = self.turnwise("jobs").args(["--json", "--limit", "1000000"]).args(flags).output().unwrap();
        serde_json::from_slice(&succeeded(output)).unwrap()
    }

    pub(crate) fn nodes(&self) -> Vec<Value> {
        let output = self.turnwise("nodes").arg("--json").output().unwrap();
        serde_json::from_slice(&succeeded(output)).unwrap()
    }

    /// Waits until the store lists no unfinished job.
    pub(crate) fn wait_until_all_ended(&self) {
        let unfinished =
            ["--state", "waiting", "--state", "scheduled", "--state", "running", "--state", "stuck", "--limit", "1"];
        until("the end of all jobs", || {
            let output = self.turnwise("jobs").arg("--json").args(unfinished).output().unwrap();
            let jobs: Vec<Value> = serde_json::from_slice(&succeeded(output)).unwrap();
            jobs.is_empty().then_some(())
        });
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

    fn turnwise(&self, command: &str) -> Command {
        let mut turnwise = Command::new(env!("CARGO_BIN_EXE_turnwise"));
        // The folder is empty: no settings of the one who runs the tests.
        turnwise.current_dir(self.dir.path()).args([command, "--database", &self.database]);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TURNWISE_")) {
            turnwise.env_remove(name);
        }
        turnwise
    }

    fn files(&self, kind: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            entries.filter(|path| path.extension().is_some_and(|extension| extension == kind)).collect();
        files.sort();
        files
    }
}

/// A failed test shows what its nodes had to say.
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

/// A running `turnwise serve`; killed when it is dropped.
pub(crate) struct Node {
    name: String,
    child: Child,
    output: mpsc::Receiver<String>,
    trace: PathBuf,
    errors: PathBuf,
}

impl Node {
    pub(crate) fn wait_until_ready(&mut self) {
        let line = self
            .output
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|_| panic!("{} is not ready: {}", self.name, self.errors()));
        assert!(line.contains("ready"), "{line}");
    }

    #[allow(dead_code, reason = "few tests look at it from outside")]
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill").args(["-s", signal, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success(), "kill -s {signal}");
    }

    /// SIGTERM, and the code it must end with.
    pub(crate) fn stop(mut self) {
        self.signal("TERM");
        let status = self.exit_within(PATIENCE);
        assert_eq!(status.code(), Some(0), "{}", self.errors());
    }

    pub(crate) fn exit_within(&mut self, limit: Duration) -> ExitStatus {
        let name = self.name.clone();
        until_within(limit, &format!("the end of {name}"), || self.child.try_wait().unwrap())
    }

    /// What it wrote to stderr so far.
    pub(crate) fn errors(&self) -> String {
        fs::read_to_string(&self.errors).unwrap()
    }

    pub(crate) fn trace(&self) -> Vec<Line> {
        whole_lines(&self.trace)
    }

    pub(crate) fn count(&self, wanted: fn(&NodeEvent) -> bool) -> usize {
        self.trace().iter().filter(|line| matches!(line, Line::Node { event, .. } if wanted(event))).count()
    }

    pub(crate) fn starts(&self) -> usize {
        self.count(|event| matches!(event, NodeEvent::Start { .. }))
    }

    /// The jobs that have begun here, by its own record.
    fn started(&self) -> Vec<String> {
        let started = |line: &Line| match line {
            Line::Node { event: NodeEvent::Start { job, .. }, .. } => Some(job.to_string()),
            _ => None,
        };
        self.trace().iter().filter_map(started).collect()
    }

    /// The lines of its record that name the job.
    #[allow(dead_code, reason = "few tests show them")]
    pub(crate) fn records_of(&self, job: &str) -> String {
        let text = fs::read_to_string(&self.trace).unwrap();
        text.lines().filter(|line| line.contains(job)).map(|line| format!("    {line}\n")).collect()
    }

    /// The jobs its record names, with the time of each line.
    #[allow(dead_code, reason = "few tests care when")]
    pub(crate) fn jobs_at(&self) -> Vec<(String, SystemTime)> {
        let text = fs::read_to_string(&self.trace).unwrap();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let told = lines.filter_map(|line| {
            let at: Timestamp = line["at"].as_str()?.parse().ok()?;
            let since = Duration::from_micros(at.micros().try_into().ok()?);
            Some((line["job"].as_str()?.to_owned(), SystemTime::UNIX_EPOCH + since))
        });
        told.collect()
    }

    pub(crate) fn effects(&self) -> usize {
        self.count(|event| matches!(event, NodeEvent::Effect { .. }))
    }

    pub(crate) fn settles(&self) -> usize {
        self.count(|event| matches!(event, NodeEvent::Settle { .. }))
    }

    /// Whether it has ever taken the lead; one that was dispatching is not asked to give it up.
    #[allow(dead_code, reason = "few tests care")]
    pub(crate) fn dispatches(&self) -> bool {
        self.count(|event| matches!(event, NodeEvent::Lead { .. })) > 0
    }

    /// The incarnations it has joined as so far.
    pub(crate) fn incarnations(&self) -> Vec<String> {
        let joined = |line: &Line| match line {
            Line::Node { incarnation, event: NodeEvent::Join { .. }, .. } => Some(incarnation.clone()),
            _ => None,
        };
        self.trace().iter().filter_map(joined).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // One that has ended already is not an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a file somebody is still writing to.
fn whole_lines(path: &Path) -> Vec<Line> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let end = text.rfind('\n').map_or(0, |end| end + 1);
    History::parse(&path.display().to_string(), &text[..end]).unwrap().lines
}

/// Looks again and again until `look` sees it.
pub(crate) fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until_within(PATIENCE, what, look)
}

pub(crate) fn until_within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "waited {limit:?} for {what} in vain");
        thread::sleep(Duration::from_millis(20));
    }
}

/// More jobs when asked for with `TURNWISE_FULL=1`.
pub(crate) fn number(usual: usize, full: usize) -> usize {
    if std::env::var_os("TURNWISE_FULL").is_some_and(|value| value == "1") { full } else { usual }
}

/// Past the capture of the test runner: these numbers are wanted also when all is well.
pub(crate) fn tell(story: &str, counts: &Counts) {
    let _ = writeln!(io::stdout(), "{story}: {counts}");
}

fn succeeded(output: Output) -> Vec<u8> {
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    output.stdout
}
