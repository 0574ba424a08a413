//! A cluster works, and never outlives the process that asked for it.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use turnwise_testpg::{Cluster, URL_VARIABLE};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turnwise-testpg");

#[test]
fn a_fresh_database_is_empty_and_not_shared() {
    let cluster = Cluster::shared();
    let (one, other) = (cluster.fresh_database().unwrap(), cluster.fresh_database().unwrap());
    cluster.psql(&one, "create table mine (n int); insert into mine values (1), (2)").unwrap();
    assert_eq!(cluster.psql(&one, "select n, n * 2 from mine order by n").unwrap(), "1|2\n2|4");
    assert_eq!(cluster.psql(&other, "select count(*) from pg_tables where schemaname = 'public'").unwrap(), "0");
}

#[test]
fn an_error_in_sql_is_an_error_with_the_servers_words() {
    let cluster = Cluster::shared();
    let error = cluster.psql(&cluster.url(), "select * from nowhere").unwrap_err().to_string();
    assert!(error.contains("relation \"nowhere\" does not exist"), "{error}");
}

#[test]
fn what_was_committed_is_there_after_a_crash_of_the_server() {
    let cluster = Cluster::start().unwrap();
    let url = cluster.fresh_database().unwrap();
    cluster.psql(&url, "create table kept as select 7 as n").unwrap();
    cluster.stop_immediate().unwrap();
    assert!(cluster.psql(&url, "select n from kept").is_err(), "a stopped server answered");
    cluster.start_again().unwrap();
    assert_eq!(cluster.psql(&url, "select n from kept").unwrap(), "7");
}

#[test]
fn a_dropped_cluster_is_gone() {
    let cluster = Cluster::start().unwrap();
    let traces = Traces::of(&cluster.url());
    drop(cluster);
    traces.assert_gone();
}

#[test]
fn a_cluster_that_was_stopped_by_hand_is_removed_all_the_same() {
    let cluster = Cluster::start().unwrap();
    let traces = Traces::of(&cluster.url());
    cluster.stop_immediate().unwrap();
    drop(cluster);
    traces.assert_gone();
}

#[test]
fn the_servers_limits_fit_the_tests() {
    let cluster = Cluster::start().unwrap();
    let show = |name: &str| cluster.psql(&cluster.url(), &format!("show {name}")).unwrap();
    assert_eq!(show("max_connections"), "300");
    assert_eq!(show("max_prepared_transactions"), "20");
    assert_eq!(show("fsync"), "off");
    assert_eq!(show("synchronous_commit"), "on");
    assert_eq!(show("unix_socket_directories"), "");
}

#[test]
fn a_durable_cluster_keeps_postgresqls_promises() {
    let parent = Parent::start(&["--durable"]);
    let show = |name: &str| Cluster::shared().psql(&parent.url, &format!("show {name}")).unwrap();
    let shown = ["fsync", "full_page_writes", "synchronous_commit", "shared_buffers", "max_wal_size"].map(show);
    assert_eq!(shown, ["on", "on", "on", "1GB", "4GB"]);
    parent.end_by("-TERM");
}

#[test]
fn a_durable_cluster_counts_the_statements_of_a_database_that_asks_for_it() {
    let parent = Parent::start(&["--durable"]);
    let psql = |sql: &str| Cluster::shared().psql(&parent.url, sql);
    // It belongs to the server's package on Debian; elsewhere it may be missing, and a benchmark counts transactions.
    if psql("show shared_preload_libraries").unwrap() == "pg_stat_statements" {
        psql("create extension pg_stat_statements").unwrap();
        let counted = || psql("select coalesce(sum(calls), 0) from pg_stat_statements").unwrap();
        assert_eq!(counted(), "0", "it counts unasked");
        psql("alter database postgres set pg_stat_statements.track = 'top'").unwrap();
        psql("select 1 as one").unwrap();
        assert_eq!(counted(), "1");
    }
    parent.end_by("-TERM");
}

#[test]
fn the_exit_code_of_the_command_is_passed_on() {
    let status = |script: &str| Command::new(PROGRAM).args(["with", "sh", "-c", script]).status().unwrap();
    assert_eq!(status("exit 7").code(), Some(7));
    assert_eq!(status("kill -9 $$").code(), Some(128 + 9));
}

#[test]
fn a_command_that_cannot_be_started_leaves_no_cluster() {
    // The server's user need not be ours.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let with = |command: &str| {
        let script = "ls -d \"$TMPDIR\"/turnwise-testpg.*";
        Command::new(PROGRAM).args(["with", command, "-c", script]).env("TMPDIR", folder.path()).output().unwrap()
    };
    assert!(with("sh").status.success(), "the cluster is not where this test looks for it");
    let missing = with("./no-such-command");
    assert!(!missing.status.success());
    let stderr = String::from_utf8_lossy(&missing.stderr);
    assert!(stderr.contains("no-such-command"), "{stderr}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "the cluster is left behind");
}

#[test]
fn a_killed_parent_leaves_no_cluster_and_no_command() {
    Parent::start(&[]).end_by("-KILL");
}

// Not with -INT, which ends the parent the same way: a shell that starts the tests in the background has it ignored.
#[test]
fn a_terminated_parent_leaves_no_cluster_and_no_command() {
    Parent::start(&[]).end_by("-TERM");
}

#[test]
fn a_folder_without_server_programs_is_refused_by_name() {
    let empty = tempfile::tempdir().unwrap();
    let place = Command::new(PROGRAM).arg("where").env("TURNWISE_PG_BIN", empty.path()).output().unwrap();
    assert!(!place.status.success());
    let stderr = String::from_utf8_lossy(&place.stderr);
    assert!(stderr.contains(&empty.path().display().to_string()), "{stderr}");
}

/// `turnwise-testpg with` a command that does not end by itself while a test lasts.
struct Parent {
    process: Child,
    command: u32,
    url: String,
}

impl Parent {
    fn start(options: &[&str]) -> Parent {
        let script = format!("echo $$; echo ${URL_VARIABLE}; exec sleep 600");
        let mut process = Command::new(PROGRAM)
            .arg("with")
            .args(options)
            .args(["sh", "-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let command = lines.next().expect("the command's process id").unwrap().parse().unwrap();
        let url = lines.next().expect("the cluster's URL").unwrap();
        Parent { process, command, url }
    }

    fn end_by(mut self, signal: &str) {
        let traces = Traces::of(&self.url);
        assert!(Command::new("kill").args([signal, &self.process.id().to_string()]).status().unwrap().success());
        assert!(!self.process.wait().unwrap().success());
        // The command and the keeper hold the other end: its end is the end of both.
        let mut rest = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut rest).unwrap();
        traces.assert_gone();
        assert!(!alive(self.command), "the command goes on without its database");
    }
}

/// What a cluster leaves on the machine while it lives.
struct Traces {
    folder: PathBuf,
    server: u32,
    port: u16,
}

impl Traces {
    fn of(url: &str) -> Traces {
        let ask = |sql: &str| Cluster::shared().psql(url, sql).unwrap();
        let data = PathBuf::from(ask("show data_directory"));
        let postmaster = ask("select pg_read_file('postmaster.pid')");
        let traces = Traces {
            folder: data.parent().expect("the data folder has a parent").to_owned(),
            server: postmaster.lines().next().unwrap().parse().unwrap(),
            port: ask("show port").parse().unwrap(),
        };
        assert!(alive(traces.server) && traces.folder.exists(), "there is nothing to remove");
        traces
    }

    fn assert_gone(&self) {
        assert!(!self.folder.exists(), "{} is left behind", self.folder.display());
        assert!(!alive(self.server), "the server {} is left behind", self.server);
        assert!(TcpStream::connect(("127.0.0.1", self.port)).is_err(), "port {} still answers", self.port);
    }
}

/// Whether a process runs; one that has ended and only waits to be reaped (a container without an init) does not.
fn alive(process: u32) -> bool {
    let status = Path::new("/proc").join(process.to_string()).join("status");
    match fs::read_to_string(status) {
        Ok(status) => !status.lines().any(|line| line.starts_with("State:") && line.contains('Z')),
        Err(_) => false,
    }
}
