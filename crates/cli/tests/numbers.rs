//! What a node costs that does a great deal at once.

#![cfg(target_os = "linux")]

mod support;

use std::{fs, io::Write};

use support::{Harness, until};
use turnwise_testpg::Cluster;

const MEBIBYTE: u64 = 1024 * 1024;

#[test]
fn a_thousand_tasks_at_once_fit_into_a_hundred_mebibytes_on_sqlite() {
    a_thousand_tasks_at_once_fit_into_a_hundred_mebibytes(Harness::on_sqlite());
}

#[test]
fn a_thousand_tasks_at_once_fit_into_a_hundred_mebibytes_on_postgres() {
    a_thousand_tasks_at_once_fit_into_a_hundred_mebibytes(Harness::on_postgres(Cluster::shared()));
}

fn a_thousand_tasks_at_once_fit_into_a_hundred_mebibytes(mut harness: Harness) {
    let node = harness.serve("a", &["--slots", "1000"]);
    let jobs = harness.submit(1_000, "sleep", r#"{"ms":3600000}"#);
    until("a thousand tasks to run", || (node.starts() == 1_000).then_some(()));
    let most = peak_memory(node.process());
    let _ = writeln!(std::io::stdout(), "1,000 tasks at once: at most {} MiB", most / MEBIBYTE);
    assert!(most <= 100 * MEBIBYTE, "{most} bytes");
    harness.cancel(&jobs);
    harness.wait_until_all_ended();
    node.stop();
}

/// The most it has ever had in memory.
fn peak_memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kibibytes * 1024
}
