//! The dispatcher's process dies, or only stands still: how soon another node dispatches. Real processes on one machine.

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use support::{Harness, Node, until};
use turnwise_sim::history::NodeEvent;
use turnwise_testpg::{Cluster, Pace};

fn assigns(node: &Node) -> usize {
    node.count(|event| matches!(event, NodeEvent::Assign { .. }))
}

/// Two nodes: the first leads, and both have been there for a while.
fn fleet(harness: &mut Harness, lease: &str) -> (Node, Node) {
    let flags = ["--slots", "4", "--lease", lease];
    let first = harness.serve("first", &flags);
    until("a dispatcher", || (first.leads() > 0).then_some(()));
    let second = harness.serve("second", &flags);
    harness.submit(40, "sleep", r#"{"ms":20}"#);
    until("work on both nodes", || (first.settles() > 0 && second.settles() > 0).then_some(()));
    harness.wait_until_all_ended();
    (first, second)
}

fn killed_among_work(mut harness: Harness) {
    let (first, second) = fleet(&mut harness, "5s");
    harness.submit(3_000, "sleep", r#"{"ms":20}"#);
    until("work on both nodes", || (first.settles() > 100 && second.settles() > 100).then_some(()));
    first.signal("KILL");
    let killed = Pace::start();
    until("another dispatcher", || (assigns(&second) > 0).then_some(()));
    let silent = killed.elapsed();
    assert!(silent < Duration::from_secs(1), "nothing was dispatched for {silent:?}");
    harness.kill(first);
    harness.wait_until_all_ended();
    second.stop();
    harness.expect_all_success("the dispatcher killed among work");
}

#[test]
fn dispatching_goes_on_within_a_second_of_the_dispatchers_death_on_sqlite() {
    killed_among_work(Harness::on_sqlite());
}

#[test]
fn dispatching_goes_on_within_a_second_of_the_dispatchers_death_on_postgres() {
    killed_among_work(Harness::on_postgres(Cluster::shared()));
}

fn killed_while_idle(mut harness: Harness) {
    let (first, second) = fleet(&mut harness, "5s");
    // Longer than a node counts as having work.
    thread::sleep(Duration::from_secs(6));
    let started = second.starts();
    first.signal("KILL");
    let killed = Pace::start();
    harness.submit(1, "noop", "null");
    until("the job", || (second.starts() > started).then_some(()));
    let silent = killed.elapsed();
    assert!(silent < Duration::from_secs(2), "nothing was dispatched for {silent:?}");
    harness.kill(first);
    harness.wait_until_all_ended();
    // The dead node is lost when its lease is over, as ever.
    until("the dead one to be lost", || harness.nodes().iter().all(|node| node["name"] != "first").then_some(()));
    second.stop();
    harness.expect_all_success("the dispatcher killed while idle");
}

#[test]
fn an_idle_fleet_dispatches_within_two_seconds_of_the_dispatchers_death_on_sqlite() {
    killed_while_idle(Harness::on_sqlite());
}

#[test]
fn an_idle_fleet_dispatches_within_two_seconds_of_the_dispatchers_death_on_postgres() {
    killed_while_idle(Harness::on_postgres(Cluster::shared()));
}

/// Both cores, and more.
struct Load(Arc<AtomicBool>);

impl Load {
    fn begin() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..4 {
            let over = over.clone();
            thread::spawn(move || while !over.load(Ordering::Relaxed) {});
        }
        Self(over)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn only_slow(mut harness: Harness) {
    let (first, second) = fleet(&mut harness, "10s");
    harness.submit(600, "sleep", r#"{"ms":100}"#);
    let lease_until = |harness: &Harness| harness.place.listed("nodes", "first")["lease_until"].clone();
    let load = Load::begin();
    for _ in 0..3 {
        first.signal("STOP");
        // Less than its lease has left: it beats every 3.3 s, and a busy machine may be late by 2.7 s.
        thread::sleep(Duration::from_secs(4));
        let before = lease_until(&harness);
        first.signal("CONT");
        until("its next beat", || (lease_until(&harness) != before).then_some(()));
    }
    harness.wait_until_all_ended();
    drop(load);
    assert_eq!((first.leads(), second.leads()), (1, 0), "the lead went from one that lives to another");
    first.stop();
    second.stop();
    harness.expect_all_success("the dispatcher stopped and continued");
}

#[test]
fn a_dispatcher_that_stands_still_for_less_than_its_lease_keeps_the_lead_on_sqlite() {
    only_slow(Harness::on_sqlite());
}

#[test]
fn a_dispatcher_that_stands_still_for_less_than_its_lease_keeps_the_lead_on_postgres() {
    only_slow(Harness::on_postgres(Cluster::shared()));
}
