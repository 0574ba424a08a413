//! A folder in which the real binary is run, and the database that it finds there.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{ChildStdout, Command, Output, Stdio},
    thread,
};

use serde_json::Value;
use tempfile::TempDir;
use turnwise_testpg::Cluster;

use super::{
    output::{refused, succeeded},
    process::Process,
    wait::until,
};

pub(crate) struct Place {
    folder: TempDir,
    database: Option<String>,
    binary: PathBuf,
    variables: Vec<(&'static str, String)>,
}

impl Place {
    /// Without a database of its own: commands make the file `turnwise.db` in the folder, unless they are told another.
    pub(crate) fn new() -> Self {
        // The folder is empty: the settings of the person who runs the tests must not count.
        Self {
            folder: tempfile::tempdir().unwrap(),
            database: None,
            binary: PathBuf::from(env!("CARGO_BIN_EXE_turnwise")),
            variables: Vec::new(),
        }
    }

    pub(crate) fn on(database: String) -> Self {
        Self { database: Some(database), ..Self::new() }
    }

    pub(crate) fn on_sqlite() -> Self {
        let place = Self::new();
        let database = Some(format!("sqlite:{}", place.path().join("jobs.db").display()));
        Self { database, ..place }.with_schema()
    }

    pub(crate) fn on_postgres() -> Self {
        Self::on(Cluster::shared().fresh_database().unwrap()).with_schema()
    }

    pub(crate) fn on_both() -> [Self; 2] {
        [Self::on_sqlite(), Self::on_postgres()]
    }

    /// As an operator leaves it who has run `turnwise migrate`.
    pub(crate) fn with_schema(self) -> Self {
        succeeded(&self.run(&["migrate"]));
        self
    }

    /// Where commands are run by another binary than the present one.
    pub(crate) fn run_by(self, binary: &Path) -> Self {
        Self { binary: binary.to_owned(), ..self }
    }

    /// With this `turnwise.toml`.
    pub(crate) fn with(self, settings: &str) -> Self {
        fs::write(self.path().join("turnwise.toml"), settings).unwrap();
        self
    }

    /// Commands and nodes that are started from now on have this variable.
    pub(crate) fn set(&mut self, variable: &'static str, value: impl Into<String>) {
        self.variables.push((variable, value.into()));
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn database(&self) -> &str {
        self.database.as_deref().expect("a place with a database of its own")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.prepared(Command::new(&self.binary), args)
    }

    /// As a shell without job control starts it with `&`: it ignores SIGINT unless it asks for it.
    pub(crate) fn command_in_background(&self, args: &[&str]) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"trap '' INT; exec "$0" "$@""#]).arg(&self.binary);
        self.prepared(shell, args)
    }

    /// A command that runs the binary in its own way, in this place and with its settings alone.
    pub(crate) fn prepared(&self, mut command: Command, args: &[&str]) -> Command {
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        // Settings in the environment of the test must not count.
        let counts = |name: &str| name.starts_with("TURNWISE_") || name.starts_with("OTEL_");
        for (name, _) in std::env::vars_os().filter(|(name, _)| counts(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.envs(self.database.as_ref().map(|database| ("TURNWISE_DATABASE", database)));
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    pub(crate) fn run_with_input(&self, args: &[&str], input: &str) -> Output {
        let mut command = self.command(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        thread::scope(|scope| {
            // On a thread: the other side may write before it has read everything. If it refuses its input early it closes it;
            // that is not the test's failure.
            scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
            child.wait_with_output().unwrap()
        })
    }

    /// What the command prints; it must succeed.
    pub(crate) fn told(&self, args: &[&str]) -> String {
        succeeded(&self.run(args))
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.told(args)).unwrap()
    }

    /// The one line on stderr of a command that ends with `code`.
    pub(crate) fn refused(&self, args: &[&str], code: i32) -> String {
        refused(&self.run(args), code)
    }

    /// As [`Place::refused`]; the line holds `part`.
    pub(crate) fn refuses(&self, args: &[&str], code: i32, part: &str) {
        let line = self.refused(args, code);
        assert!(line.contains(part), "{args:?}: {line}");
    }

    /// Submits one job.
    pub(crate) fn enqueue(&self, args: &[&str]) -> String {
        let id = self.told(&[&["enqueue"], args].concat());
        assert_eq!(id.lines().count(), 1, "{id}");
        id.trim().to_owned()
    }

    /// Submits these jobs in one go, in this order.
    pub(crate) fn enqueue_all(&self, jobs: impl IntoIterator<Item = Value>) -> Vec<String> {
        let lines: String = jobs.into_iter().map(|job| format!("{job}\n")).collect();
        let ids = succeeded(&self.run_with_input(&["enqueue", "--stdin"], &lines));
        ids.lines().map(str::to_owned).collect()
    }

    pub(crate) fn job(&self, id: &str) -> Value {
        self.json(&["job", id, "--json"])
    }

    pub(crate) fn state(&self, id: &str) -> String {
        self.job(id)["state"].as_str().unwrap().to_owned()
    }

    pub(crate) fn wait_for_state(&self, id: &str, state: &str) {
        until(&format!("{id} to be {state}"), || (self.state(id) == state).then_some(()));
    }

    pub(crate) fn why(&self, id: &str) -> String {
        self.told(&["why", id])
    }

    /// The queue, group or node that is listed under this name.
    pub(crate) fn listed(&self, what: &str, name: &str) -> Value {
        let all = self.json(&[what, "--json"]);
        let found = all.as_array().unwrap().iter().find(|one| one["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {all}")).clone()
    }

    /// Runs a node until nothing is left.
    pub(crate) fn work(&self, flags: &[&str]) {
        self.told(&[&["serve", "--until-empty"], flags].concat());
    }

    /// Starts a node and waits until it is ready.
    pub(crate) fn serve(&self, flags: &[&str]) -> Serving {
        let mut command = self.command(&[&["serve", "--log", "off"], flags].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let process = Process::new(child);
        let mut ready = String::new();
        stdout.read_line(&mut ready).unwrap();
        assert!(ready.contains("ready"), "{ready}");
        Serving { process, stdout, ready }
    }
}

/// A node that was ready.
pub(crate) struct Serving {
    pub(crate) process: Process,
    stdout: BufReader<ChildStdout>,
    /// What it said then.
    pub(crate) ready: String,
}

impl Serving {
    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Its exit code, and what it printed after the ready line.
    pub(crate) fn end(&mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (self.process.wait().code(), rest)
    }

    pub(crate) fn stop(mut self) {
        self.signal("TERM");
        assert_eq!(self.end().0, Some(0));
    }
}

/// Each function as a test on each database, with a place of its own; `in`: made by this function from the bare one.
macro_rules! on_both_databases {
    (in $place:ident; $($name:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[test] fn $name() { super::$name(&super::$place(crate::support::Place::on_sqlite())); })+
        }
        mod on_postgres {
            $(#[test] fn $name() { super::$name(&super::$place(crate::support::Place::on_postgres())); })+
        }
    };
    ($($name:ident),+ $(,)?) => {
        mod on_sqlite { $(#[test] fn $name() { super::$name(&crate::support::Place::on_sqlite()); })+ }
        mod on_postgres { $(#[test] fn $name() { super::$name(&crate::support::Place::on_postgres()); })+ }
    };
}
pub(crate) use on_both_databases;
