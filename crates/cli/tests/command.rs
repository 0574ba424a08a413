//! Command tasks through the real binary, on a SQLite file.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Long enough for any machine; a test that needs it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with a `turnwise.toml` in it, in which commands are run.
struct Place {
    folder: TempDir,
}

impl Place {
    fn with(settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("turnwise.toml"), settings).unwrap();
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_turnwise"));
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        // What the test's own surroundings say must not count.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TURNWISE_")) {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn told(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn job(&self, id: &str) -> Value {
        serde_json::from_str(&self.told(&["job", id, "--json"])).unwrap()
    }

    fn work_until_empty(&self) {
        self.told(&["serve", "--until-empty", "--poll-interval", "50ms"]);
    }
}

#[test]
fn a_command_in_the_settings_file_runs_jobs_without_any_rust() {
    let place = Place::with(
        r#"
        [tasks.greet]
        command = ["sh", "-c", 'echo "to the log" >&2; printf "%s|" "$@"; cat', "greet", "{args.name}", "--group={group}"]
        [tasks.refuse]
        command = ["sh", "-c", "echo 'no such file' >&2; exit 2"]
        fail_codes = [2]
        "#,
    );
    let greeted = place.told(&["enqueue", "greet", r#"{"name": "Ann $(id) \"B\""}"#, "--group", "acme"]);
    let refused = place.told(&["enqueue", "refuse"]);
    place.work_until_empty();
    let job = place.job(&greeted);
    let result = r#"Ann $(id) "B"|--group=acme|{"name": "Ann $(id) \"B\""}"#;
    assert_eq!((&job["state"], &job["result"]), (&json!("success"), &json!(result)), "{job}");
    assert!(place.told(&["logs", &greeted]).contains("to the log"));
    let job = place.job(&refused);
    assert_eq!((&job["state"], &job["attempt"]), (&json!("failed"), &json!(1)));
    assert_eq!(job["error"], json!("sh ended with exit code 2: no such file"));
}

#[test]
fn a_bad_command_is_refused_when_the_node_starts_and_bothers_nobody_else() {
    let place = Place::with("[tasks.resize]\ncommand = ['convert', '{args.from', 'x']\n");
    let output = place.run(&["serve"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.starts_with("error: turnwise.toml: tasks.resize: command: \"{args.from\": "), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(!place.path().join("turnwise.db").exists(), "nothing was begun");
    place.told(&["enqueue", "resize", "{}"]);
}

#[test]
fn a_command_with_the_name_of_another_task_is_refused() {
    let place = Place::with("[tasks.sleep]\ncommand = ['sleep', '1']\n");
    let output = place.run(&["serve", "--demo-tasks"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("two tasks are named \"sleep\""), "{told}");
}

/// A running node; killed when the test is over.
struct Node(Child);

impl Node {
    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Gone already in a test that went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_node_that_is_told_twice_to_stop_leaves_no_command_behind() {
    let place =
        Place::with("[tasks.stay]\ncommand = ['sh', '-c', 'exec 3>lifeline; sleep 1000 & echo up >&3; wait']\n");
    let lifeline = place.path().join("lifeline");
    assert!(Command::new("mkfifo").arg(&lifeline).status().unwrap().success());
    let (say, heard) = mpsc::channel();
    thread::spawn(move || {
        let mut lines = BufReader::new(File::open(lifeline).unwrap());
        let mut up = String::new();
        lines.read_line(&mut up).unwrap();
        let _ = say.send(up);
        lines.read_to_string(&mut String::new()).unwrap();
        let _ = say.send("gone".to_owned());
    });
    place.told(&["enqueue", "stay"]);
    let mut child =
        place.command(&["serve", "--log", "info"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut node = Node(child);
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), "up\n");
    node.signal("TERM");
    // The first one is heeded before the second is sent: two at once may arrive as one.
    let mut line = String::new();
    while !line.contains("stopping") {
        line.clear();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "it ended before it was told to");
    }
    node.signal("TERM");
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), "gone");
    assert_eq!(node.0.wait().unwrap().code(), Some(130));
}
