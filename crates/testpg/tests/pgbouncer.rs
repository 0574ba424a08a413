//! A PgBouncer works in front of a cluster, and never outlives the process that asked for it.

use std::net::TcpStream;
use std::process::Command;

use turnwise_testpg::{Cluster, PgBouncer, PoolMode};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turnwise-testpg");

#[test]
fn a_statement_goes_through_in_both_modes() {
    let cluster = Cluster::shared();
    let database = cluster.fresh_database().unwrap();
    for (mode, name) in [(PoolMode::Transaction, "transaction"), (PoolMode::Session, "session")] {
        let pgbouncer = PgBouncer::start(cluster, mode, "").unwrap();
        let url = pgbouncer.url(&database);
        let same = format!("select 1, current_database() = '{}'", database.rsplit('/').next().unwrap());
        assert_eq!(cluster.psql(&url, &same).unwrap(), "1|t");
        assert!(console(&pgbouncer, "show config").contains(&format!("pool_mode|{name}|")));
    }
}

#[test]
fn a_role_of_a_test_is_known_without_being_told() {
    let cluster = Cluster::shared();
    let database = cluster.fresh_database().unwrap();
    let role = format!("clerk_of_{}", database.rsplit('/').next().unwrap());
    cluster.psql(&database, &format!("create role {role} login")).unwrap();
    let pgbouncer = PgBouncer::start(cluster, PoolMode::Transaction, "").unwrap();
    let url = pgbouncer.url(&database).replace("postgres@", &format!("{role}@"));
    assert_eq!(cluster.psql(&url, "select current_user").unwrap(), role);
}

#[test]
fn a_parameter_at_the_start_is_refused_unless_it_is_to_be_ignored() {
    let cluster = Cluster::shared();
    let url = format!("{}?options=-c%20lock_timeout%3D7s", cluster.fresh_database().unwrap());
    let strict = PgBouncer::start(cluster, PoolMode::Session, "").unwrap();
    let refused = cluster.psql(&strict.url(&url), "show lock_timeout").unwrap_err().to_string();
    assert!(refused.contains("unsupported startup parameter: options"), "{refused}");
    let settings = "ignore_startup_parameters = extra_float_digits, options";
    let lenient = PgBouncer::start(cluster, PoolMode::Session, settings).unwrap();
    assert_eq!(cluster.psql(&lenient.url(&url), "show lock_timeout").unwrap(), "0", "it was passed on");
    assert_eq!(cluster.psql(&url, "show lock_timeout").unwrap(), "7s");
}

#[test]
fn a_stopped_one_comes_back_at_the_same_address() {
    let cluster = Cluster::shared();
    let pgbouncer = PgBouncer::start(cluster, PoolMode::Transaction, "").unwrap();
    let url = pgbouncer.url(&cluster.fresh_database().unwrap());
    pgbouncer.stop_immediate().unwrap();
    assert!(cluster.psql(&url, "select 1").is_err(), "a stopped PgBouncer answered");
    pgbouncer.start_again().unwrap();
    assert_eq!(cluster.psql(&url, "select 1").unwrap(), "1");
}

#[test]
fn one_that_ended_by_itself_leaves_its_log() {
    let pgbouncer = PgBouncer::start(Cluster::shared(), PoolMode::Transaction, "").unwrap();
    shut_down(&pgbouncer);
    let failed = pgbouncer.stop_immediate().unwrap_err().to_string();
    assert!(failed.contains("SHUTDOWN command issued"), "{failed}");
}

#[test]
fn a_test_that_loses_its_own_prints_the_log() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "loses_its_own", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("the server had ended by itself"), "{stderr}");
    assert!(stderr.contains("SHUTDOWN command issued"), "{stderr}");
}

/// Run by the test above, for what is on its standard error.
#[test]
#[ignore = "the test above runs it"]
fn loses_its_own() {
    let pgbouncer = PgBouncer::start(Cluster::shared(), PoolMode::Transaction, "").unwrap();
    shut_down(&pgbouncer);
}

#[test]
fn a_dropped_one_is_gone() {
    let cluster = Cluster::shared();
    let pgbouncer = PgBouncer::start(cluster, PoolMode::Transaction, "").unwrap();
    let url = pgbouncer.url(&cluster.url());
    let place = url.split(['@', '/']).find(|part| part.starts_with("127.0.0.1:")).unwrap().to_owned();
    assert!(TcpStream::connect(&place).is_ok(), "there is nothing to remove");
    drop(pgbouncer);
    assert!(TcpStream::connect(&place).is_err(), "{place} still answers");
}

#[test]
fn a_setting_that_pgbouncer_does_not_know_is_an_error_with_its_words() {
    let refused = PgBouncer::start(Cluster::shared(), PoolMode::Session, "no_such_setting = 1").map(drop).unwrap_err();
    assert!(refused.to_string().contains("no_such_setting"), "{refused:#}");
}

#[test]
fn a_program_that_is_no_pgbouncer_is_refused_by_name() {
    let place =
        Command::new(PROGRAM).args(["where", "pgbouncer"]).env("TURNWISE_PGBOUNCER", "/bin/sh").output().unwrap();
    assert!(!place.status.success());
    let stderr = String::from_utf8_lossy(&place.stderr);
    assert!(stderr.contains("TURNWISE_PGBOUNCER=/bin/sh"), "{stderr}");
}

fn console(pgbouncer: &PgBouncer, command: &str) -> String {
    ask(pgbouncer, command).unwrap()
}

/// Returns when PgBouncer no longer listens.
fn shut_down(pgbouncer: &PgBouncer) {
    // The connection may be cut before the answer.
    let _ = ask(pgbouncer, "shutdown");
    while ask(pgbouncer, "show version").is_ok() {}
}

fn ask(pgbouncer: &PgBouncer, command: &str) -> anyhow::Result<String> {
    let cluster = Cluster::shared();
    let url = cluster.url();
    let (server, _) = url.rsplit_once('/').expect("it names a database");
    cluster.psql(&pgbouncer.url(&format!("{server}/pgbouncer")), command)
}
