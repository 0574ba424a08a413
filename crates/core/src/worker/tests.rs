use super::*;
use crate::job::{Fence, JobId};

fn task(name: &str) -> TaskName {
    TaskName::new(name).unwrap()
}

fn worker() -> Worker {
    let facts = TaskFacts::read(Some("durations:1s,2s"), Some("30s"), Some("tell"), &["/card".to_owned()]).unwrap();
    Worker {
        protocol: 1,
        language: "python 3.12".to_owned(),
        client: "turnwise-python 0.1.0".to_owned(),
        token: Some(TokenId(Uuid::from_u128(7))),
        tasks: [(task("send"), facts), (task("tell"), TaskFacts::default())].into(),
    }
}

#[test]
fn facts_read_back_as_they_were_written_and_additions_are_left_out() {
    let text = worker().to_text();
    assert_eq!(
        text,
        r#"{"protocol":1,"language":"python 3.12","client":"turnwise-python 0.1.0","token":"00000000-0000-0000-0000-000000000007","tasks":{"send":{"retry":"durations:1s,2s","timeout":"30s","on_exhausted":"tell","secret":["/card"]},"tell":{}}}"#,
        "stored workers outlive a release"
    );
    assert_eq!(Worker::from_text(&text), Ok(worker()));
    let newer = text.replacen('{', r#"{"colour":"red","#, 1);
    assert_eq!(Worker::from_text(&newer), Ok(worker()));
    assert!(Worker::from_text("{}").is_err());
}

#[test]
fn what_is_beyond_the_bounds_is_refused_by_name() {
    assert_eq!(worker().check(), Ok(()));
    let refused = |change: &dyn Fn(&mut Worker)| {
        let mut worker = worker();
        change(&mut worker);
        worker.check().unwrap_err().to_string()
    };
    assert_eq!(refused(&|worker| worker.protocol = 2), "protocol: 2 is not known here; this server speaks 1");
    assert!(refused(&|worker| worker.language = "x".repeat(101)).starts_with("language: is 101 bytes long"));
    assert!(refused(&|worker| worker.client = "a\nb".to_owned()).starts_with("client: "));
    let many = |worker: &mut Worker| {
        worker.tasks = (0..1_001).map(|n| (task(&format!("task {n}")), TaskFacts::default())).collect();
    };
    assert_eq!(refused(&many), "tasks: are 1001, at most 1000 are allowed");
    for (facts, field) in [
        (TaskFacts::read(Some("often"), None, None, &[]), "retry"),
        (TaskFacts::read(None, Some("0s"), None, &[]), "timeout"),
        (TaskFacts::read(None, None, Some(""), &[]), "on_exhausted"),
        (TaskFacts::read(None, None, None, &["card".to_owned()]), "secret"),
    ] {
        assert_eq!(facts.unwrap_err().field, field);
    }
}

#[test]
fn what_is_secret_for_a_task_is_so_for_the_one_it_goes_on_as() {
    let card = Pointer::new("/card").unwrap();
    let secrets = worker().secrets();
    assert!(secrets.has(&task("send"), &card) && secrets.has(&task("tell"), &card));
}

#[test]
fn a_name_is_free_once_its_lease_is_over() {
    let now = Timestamp::from_micros(1_000_000_000);
    let node = |lease_until: Timestamp, lost| Node {
        incarnation: crate::Incarnation(Uuid::nil()),
        name: crate::NodeName::new("one").unwrap(),
        host: crate::node::Host {
            name: String::new(),
            boot_id: String::new(),
            pid_namespace: String::new(),
            pid: 0,
            started: 0,
            version: None,
        },
        slots: 1,
        queue_capacity: 0,
        batch_size: None,
        queues: crate::Serves::All,
        tasks: BTreeSet::new(),
        joined_at: now,
        lease: LEASE,
        lease_until,
        lost,
        dispatcher: false,
    };
    let second = Duration::from_secs(1);
    assert_eq!(wait_for_name(&node(now.plus(second), false), now), Some(second));
    assert_eq!(wait_for_name(&node(now.minus(second), false), now), None);
    assert_eq!(wait_for_name(&node(now.plus(second), true), now), None);
}

#[test]
fn a_batch_is_known_when_all_of_it_is_held() {
    let job = |n: u64, fence| (JobId::from_parts(n, [7; 10]), Fence(fence));
    let (one, two, none) = (BTreeSet::from([job(1, 1)]), BTreeSet::from([job(2, 1), job(3, 1)]), BTreeSet::new());
    let batches = || [(1, &one), (2, &two), (3, &none)];
    assert_eq!(known_batches(batches(), &BTreeSet::new()), [3]);
    assert_eq!(known_batches(batches(), &BTreeSet::from([job(1, 1), job(2, 1)])), [1, 3]);
    assert_eq!(known_batches(batches(), &BTreeSet::from([job(1, 2), job(2, 1), job(3, 1)])), [2, 3]);
}

#[test]
fn a_run_has_its_time_and_the_grace() {
    let (timeout, tick) = (Duration::from_secs(30), Duration::from_micros(1));
    assert!(!is_over_time(timeout + GRACE, timeout) && is_over_time(timeout + GRACE + tick, timeout));
    assert!(!is_over_time(Duration::from_secs(1 << 40), Duration::MAX));
}
