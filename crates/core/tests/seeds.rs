//! Bugs of the first version of such a scheduler, so that they do not come back: a stuck job pinned to the node that failed it, a
//! stuck job of another node that blocks its group, a slot leaked by a task that no node knows.

use std::time::Duration;

use turnwise_core::{
    Incarnation, JobHead, JobState, Priority, TaskName,
    scheduler::{Input, Rest},
    turn::Scheme,
};
use uuid::Uuid;

mod table;
use table::{Table, at, head, node};

fn stuck_at(seconds: u64) -> Option<Rest> {
    Some(Rest { stuck: true, due: Some(at(seconds)), crashes: 0, next: None })
}

#[test]
fn a_stuck_job_runs_again_on_whichever_node_is_free() {
    let mut table = Table::new(Scheme::default(), vec![node(1, 1, &["t"])]);
    table.tell(Input::Jobs(vec![head(1, "g")]));
    let first = table.order[0].clone();
    table.settle(&first, Duration::from_secs(1), stuck_at(50));
    // The node that failed it lives, and is busy; another one is free.
    table.tell(Input::Jobs(vec![head(2, "g")]));
    table.tell(Input::Nodes(vec![node(1, 1, &["t"]), node(2, 1, &["t"])]));
    table.now = at(50);
    let again = table.tell(Input::Tick);
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].job, again[0].node), (first.job, Incarnation(Uuid::from_u128(2))));
}

#[test]
fn a_stuck_job_outlives_the_node_that_failed_it() {
    let mut table = Table::one_slot();
    table.tell(Input::Jobs(vec![head(1, "g")]));
    let first = table.order[0].clone();
    table.settle(&first, Duration::from_secs(1), stuck_at(50));
    table.tell(Input::Nodes(vec![node(2, 1, &["t"])]));
    table.now = at(50);
    let again = table.tell(Input::Tick);
    assert_eq!(again.iter().map(|pick| pick.node).collect::<Vec<_>>(), [Incarnation(Uuid::from_u128(2))]);
}

/// Due stuck jobs come first; one that no living node knows must not be first for ever.
#[test]
fn a_due_stuck_job_that_no_node_can_run_does_not_block_its_group() {
    let mut table = Table::one_slot();
    let foreign =
        |n| JobHead { state: JobState::Stuck, task: TaskName::new("of a node that is gone").unwrap(), ..head(n, "g") };
    table.tell(Input::Jobs(vec![foreign(1), foreign(2), head(3, "g"), head(4, "g"), head(5, "other")]));
    assert_eq!(table.drain(), [3, 5, 4]);
}

/// A node that serves another queue or knows other tasks gets a job all the same.
#[test]
fn each_node_is_given_the_next_job_it_can_run_of_a_group_whose_first_it_cannot() {
    let mut table = Table::new(Scheme::default(), vec![node(1, 1, &["t"]), node(2, 1, &["u"])]);
    let other = |n| JobHead { task: TaskName::new("u").unwrap(), priority: Priority::new(1).unwrap(), ..head(n, "g") };
    table.tell(Input::Jobs(vec![other(1), other(2), other(3), head(4, "g")]));
    let mut first: Vec<_> = table.order.iter().map(|pick| table.groups[&pick.job].seq).collect();
    first.sort_unstable();
    assert_eq!(first, [1, 4]);
}

#[test]
fn jobs_of_unknown_tasks_hold_no_slot() {
    let mut table = Table::new(Scheme::default(), vec![node(1, 4, &["t"])]);
    let unknown = |n| JobHead { task: TaskName::new("unknown").unwrap(), ..head(n, "g") };
    table.tell(Input::Jobs((1..=100).map(unknown).collect()));
    let picks = table.tell(Input::Jobs((101..=104).map(|n| head(n, "g")).collect()));
    assert_eq!(picks.len(), 4, "all four slots are there for the jobs that can run");
}

/// The store replies again and again that the row is locked: neither the job nor its group has a disadvantage by it.
#[test]
fn a_job_whose_assignment_is_lost_comes_again_and_holds_up_no_other() {
    use turnwise_core::scheduler::{Output, Reply, Scheduler};
    let mut scheduler = Scheduler::new(10);
    let mut now = at(1);
    scheduler.handle(now, Input::Nodes(vec![node(1, 1, &["t"])]));
    let mut outputs = scheduler.handle(now, Input::Jobs(vec![head(1, "g"), head(2, "g")]));
    let mut locked = 0;
    let mut order = Vec::new();
    while order.len() < 2 {
        let picks = outputs.iter().find_map(|output| match output {
            Output::Assign(picks) => Some(picks.clone()),
            _ => None,
        });
        let Some(picks) = picks else {
            now = now.plus(Duration::from_secs(1));
            outputs = scheduler.handle(now, Input::Tick);
            continue;
        };
        let pick = &picks[0];
        if pick.job == head(1, "g").id && locked < 12 {
            locked += 1;
            outputs = scheduler.handle(now, Input::Replied(vec![(pick.job, pick.fence, Reply::Locked)]));
            continue;
        }
        order.push(pick.job);
        scheduler.handle(now, Input::Replied(vec![(pick.job, pick.fence, Reply::Assigned(pick.fence.next()))]));
        let (id, fence, ran) = (pick.job, pick.fence.next(), Some(Duration::from_millis(1)));
        let settled =
            turnwise_core::scheduler::Settled { id, fence, ran, rest: None, failed: false, well: true, error: None };
        outputs = scheduler.handle(now, Input::Settled(vec![settled]));
    }
    assert_eq!(order, [head(2, "g").id, head(1, "g").id], "twelve lost races later");
    assert!(scheduler.is_empty());
}
