//! What is left for a process to do: the dispatcher's answer, from its tables, and the answer by reading the jobs' rows agree.

use std::time::Duration;

use proptest::{collection::vec, prelude::*};
use turnwise_core::{
    GroupName, Incarnation, JobHead, JobState, KeyName, Node, QueueName, Serves, TaskName,
    remaining::{Remaining, remaining},
    scheduler::{Input, Scheduler},
    settings::{Concurrency, GroupSettings, LimitSettings, Pause, QueueSettings, Settings},
};

mod table;

use table::{at, head, node};

const QUEUES: [&str; 4] = ["plain", "serial", "paused", "after"];
const GROUPS: [&str; 3] = ["plain", "paused", "slow"];
const TASKS: [&str; 3] = ["t", "u", "nobody's"];

fn settings() -> Settings {
    let pause = || Some(Pause { since: at(0), reason: None });
    let rate = || Some("1/1h".parse().unwrap());
    let queue = |name: &str, settings| (QueueName::new(name).unwrap(), settings);
    let plain = QueueSettings::default;
    let group = |name: &str, settings| (GroupName::new(name).unwrap(), settings);
    Settings {
        queues: [
            queue("serial", QueueSettings { concurrency: Concurrency::Serial, ..plain() }),
            queue("paused", QueueSettings { paused: pause(), ..plain() }),
            queue("after", QueueSettings { after: vec![QueueName::new("plain").unwrap()], ..plain() }),
        ]
        .into(),
        groups: [
            group("paused", GroupSettings { paused: pause(), ..GroupSettings::default() }),
            group("slow", GroupSettings { rate: rate(), ..GroupSettings::default() }),
        ]
        .into(),
        keys: [(KeyName::new("slow").unwrap(), LimitSettings { concurrency: None, rate: rate() })].into(),
        ..Settings::default()
    }
}

/// Neither has a slot: so nothing is assigned, and everything stays left.
fn fleet() -> Vec<Node> {
    let only = |queues: &[&str]| Serves::Only(queues.iter().map(|queue| QueueName::new(*queue).unwrap()).collect());
    vec![Node { queues: only(&["plain", "paused"]), ..node(1, 0, &["t", "u"]) }, node(2, 0, &["t"])]
}

fn any_head() -> impl Strategy<Value = JobHead> {
    (0..QUEUES.len(), 0..GROUPS.len(), 0..TASKS.len(), 0..4_u8, any::<bool>(), 0..3_u32).prop_map(
        |(queue, group, task, when, key, crashes)| JobHead {
            queue: QueueName::new(QUEUES[queue]).unwrap(),
            task: TaskName::new(TASKS[task]).unwrap(),
            state: if when == 3 { JobState::Stuck } else { JobState::Waiting },
            due: [Some(at(0)), Some(at(0)), Some(at(500)), None][when as usize],
            key: key.then(|| KeyName::new("slow").unwrap()),
            crashes,
            ..head(1, GROUPS[group])
        },
    )
}

proptest! {
    #[test]
    fn the_scheduler_and_the_rows_say_the_same(heads in vec(any_head(), 0..4)) {
        let heads: Vec<JobHead> = (1..).zip(heads).map(|(n, like)| JobHead { id: head(n, "g").id, seq: n, ..like }).collect();
        let mut scheduler = Scheduler::new(10);
        let now = at(1);
        scheduler.handle(now, Input::Settings(settings()));
        scheduler.handle(now, Input::Nodes(fleet()));
        scheduler.handle(now, Input::Jobs(heads.clone()));
        for here in [&[0][..], &[1], &[0, 1], &[]] {
            let here: Vec<Incarnation> = here.iter().map(|&at| fleet()[at].incarnation).collect();
            let by_rows = heads.iter().any(|head| remaining(head, &fleet(), &here, &settings(), now) == Remaining::Now);
            prop_assert_eq!(scheduler.has_work_for(now, &here), by_rows, "{:?}: {:?}", here, heads);
        }
    }
}

#[test]
fn what_is_in_a_nodes_hands_is_left_for_it_and_for_no_other() {
    let nodes = vec![node(1, 1, &["t"]), node(2, 0, &["t"])];
    let [one, two] = [0, 1].map(|at| nodes[at].incarnation);
    let mut scheduler = Scheduler::new(10);
    scheduler.handle(at(1), Input::Nodes(nodes.clone()));
    scheduler.handle(at(1), Input::Jobs(vec![head(1, "g")]));
    assert!(scheduler.has_work_for(at(1), &[one]) && !scheduler.has_work_for(at(1), &[two]));
    let held = JobHead { state: JobState::Running, node: Some(one), ..head(1, "g") };
    let of = |here: Incarnation, now| remaining(&held, &nodes, &[here], &Settings::default(), now);
    assert_eq!(
        (of(one, at(1)), of(two, at(1))),
        (Remaining::Now, Remaining::Later),
        "its run may fail, or its node die"
    );
    let foreign = node(3, 0, &["other"]);
    let here = [foreign.incarnation];
    let fleet = [nodes.clone(), vec![foreign]].concat();
    assert_eq!(remaining(&held, &fleet, &here, &Settings::default(), at(1)), Remaining::Never, "it cannot run it");
    let lost = nodes[0].lease_until.plus(Duration::from_micros(1));
    assert_eq!(of(two, lost), Remaining::Now, "a lost node's job goes back");
}

#[test]
fn a_node_that_has_just_come_counts_as_having_something_left() {
    let mut scheduler = Scheduler::new(10);
    scheduler.handle(at(0), Input::Nodes(vec![node(1, 1, &["t"])]));
    let (known, new) = (node(1, 1, &["t"]).incarnation, node(2, 1, &["t"]).incarnation);
    assert!(!scheduler.has_work_for(at(0), &[known]));
    assert!(scheduler.has_work_for(at(0), &[known, new]));
}
