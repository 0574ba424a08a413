//! The scheduler as its users see it: inputs in, picks out.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    time::Duration,
};

use proptest::prelude::*;
use turnwise_core::{
    Fence, Incarnation, JobHead, JobId, JobState, Node, Priority, QueueName, Serves, TaskName, Timestamp,
    scheduler::{Input, Output, Pending, Reply, Rest, Scheduler, Settled},
    turn::Scheme,
};
use uuid::Uuid;

mod table;

use table::{Table, at, head, node};

#[test]
fn groups_take_turns_one_job_each() {
    let mut table = Table::one_slot();
    let heads = [(1, "a"), (2, "a"), (3, "a"), (4, "b"), (5, "b"), (6, "c")].map(|(n, group)| head(n, group));
    table.tell(Input::Jobs(heads.to_vec()));
    assert_eq!(table.drain(), [1, 4, 6, 2, 5, 3]);
}

#[test]
fn a_flood_cannot_delay_a_single_job_of_another_group() {
    let mut table = Table::one_slot();
    table.tell(Input::Jobs((1..=5_000).map(|n| head(n, "flood")).collect()));
    table.tell(Input::Jobs(vec![head(9_999, "quiet")]));
    let order = table.drain();
    assert!(order.iter().position(|&seq| seq == 9_999).unwrap() <= 2, "{:?}", &order[..5]);
}

#[test]
fn two_high_then_one_low_and_the_other_class_when_one_is_empty() {
    let mut table = Table::one_slot();
    let classed = |n, priority| JobHead { priority: Priority::new(priority).unwrap(), ..head(n, "g") };
    table.tell(Input::Jobs(vec![classed(0, 5)]));
    table.tell(Input::Jobs((1..=4).map(|n| classed(n, 5)).chain((11..=16).map(|n| classed(n, 6))).collect()));
    assert_eq!(table.drain(), [0, 1, 11, 2, 3, 12, 4, 13, 14, 15, 16]);
}

#[test]
fn strict_takes_all_high_before_any_low() {
    let mut table = Table::new(Scheme::Strict, vec![node(1, 1, &["t"])]);
    let classed = |n, priority| JobHead { priority: Priority::new(priority).unwrap(), ..head(n, "g") };
    table.tell(Input::Jobs(vec![classed(1, 9), classed(2, 6), classed(3, 4), classed(4, 1)]));
    assert_eq!(table.drain(), [4, 3, 2, 1]);
}

#[test]
fn a_due_stuck_job_comes_before_every_priority_and_does_not_advance_the_scheme() {
    let mut table = Table::one_slot();
    let stuck = |n, due| JobHead {
        state: JobState::Stuck,
        due: Some(at(due)),
        priority: Priority::new(10).unwrap(),
        ..head(n, "g")
    };
    let first = JobHead { priority: Priority::new(1).unwrap(), ..head(1, "g") };
    table.tell(Input::Jobs(vec![head(0, "g")]));
    table.tell(Input::Jobs(vec![first, stuck(8, 1), stuck(9, 0), stuck(10, 500)]));
    assert_eq!(table.drain(), [0, 9, 8, 1]);
    table.now = at(500);
    table.tell(Input::Tick);
    assert_eq!(table.drain(), [0, 9, 8, 1, 10]);
}

#[test]
fn priority_then_due_time_then_submission() {
    let mut table = Table::one_slot();
    let job =
        |n, priority, due| JobHead { priority: Priority::new(priority).unwrap(), due: Some(at(due)), ..head(n, "g") };
    table.now = at(100);
    table.tell(Input::Jobs(vec![job(0, 1, 0)]));
    table.tell(Input::Jobs(vec![job(4, 2, 50), job(3, 2, 50), job(2, 2, 10), job(1, 3, 1)]));
    assert_eq!(table.drain(), [0, 2, 3, 4, 1]);
}

#[test]
fn a_job_waits_for_its_time() {
    let mut table = Table::one_slot();
    table.tell(Input::Jobs(vec![JobHead { due: Some(at(50)), ..head(1, "g") }]));
    assert!(table.order.is_empty());
    assert_eq!(table.wake_at, Some(at(50)));
    table.now = at(49);
    assert!(table.tell(Input::Tick).is_empty());
    table.now = at(50);
    assert_eq!(table.tell(Input::Tick).len(), 1);
}

#[test]
fn a_stuck_job_without_a_time_waits_for_a_person() {
    let mut table = Table::one_slot();
    let stuck = JobHead { state: JobState::Stuck, due: None, ..head(1, "g") };
    table.tell(Input::Jobs(vec![stuck.clone()]));
    assert_eq!(table.scheduler.pending(), Pending { manual: 1, ..Pending::default() });
    assert!(table.scheduler.pending().drained());
    table.tell(Input::Jobs(vec![JobHead { state: JobState::Waiting, due: Some(at(1)), ..stuck }]));
    assert_eq!(table.order.len(), 1);
}

#[test]
fn a_job_nobody_knows_is_kept_until_somebody_does() {
    let mut table = Table::one_slot();
    let unknown = JobHead { task: TaskName::new("other").unwrap(), ..head(1, "g") };
    table.tell(Input::Jobs(vec![unknown, head(2, "g")]));
    assert_eq!(table.drain(), [2]);
    assert_eq!(table.scheduler.pending(), Pending { unknown: 1, ..Pending::default() });
    let picks = table.tell(Input::Nodes(vec![node(1, 1, &["t"]), node(2, 1, &["other"])]));
    assert_eq!(picks[0].node, Incarnation(Uuid::from_u128(2)));
}

#[test]
fn a_node_gets_only_what_it_knows_and_serves() {
    let mut limited = node(1, 10, &["t"]);
    limited.queues = Serves::Only(BTreeSet::from([QueueName::new("mail").unwrap()]));
    let mut table = Table::new(Scheme::default(), vec![limited]);
    let mail = JobHead { queue: QueueName::new("mail").unwrap(), ..head(2, "g") };
    table.tell(Input::Jobs(vec![head(1, "g"), mail]));
    assert_eq!(table.order.len(), 1);
    assert_eq!(table.groups[&table.order[0].job].seq, 2);
}

#[test]
fn no_node_gets_more_than_its_slots_on_a_guess_and_the_freest_gets_the_next() {
    let mut roomy = node(1, 2, &["t"]);
    roomy.queue_capacity = 100;
    let mut table = Table::new(Scheme::default(), vec![roomy, node(2, 4, &["t"])]);
    table.tell(Input::Jobs((1..=50).map(|n| head(n, "g")).collect()));
    let mut counts = BTreeMap::new();
    table.order.iter().for_each(|pick| *counts.entry(pick.node).or_insert(0) += 1);
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [2, 4]);
}

#[test]
fn quick_jobs_are_prefetched_and_slow_ones_are_not() {
    let mut roomy = node(1, 1, &["t"]);
    roomy.queue_capacity = 100;
    let quick = |ran| {
        let mut table = Table::new(Scheme::default(), vec![roomy.clone()]);
        table.tell(Input::Jobs((1..=500).map(|n| head(n, "g")).collect()));
        let first = table.order[0].clone();
        table.settle(&first, ran, None).len()
    };
    assert_eq!(quick(Duration::from_micros(10)), 101, "one slot and the whole capacity");
    assert_eq!(quick(Duration::from_millis(10)), 5, "fifty milliseconds' worth");
    assert_eq!(quick(Duration::from_secs(10)), 1, "the slot alone");
}

#[test]
fn long_arguments_are_given_ahead_up_to_a_number_of_bytes_and_to_free_slots_without_end() {
    let given = |slots, args_bytes| {
        let roomy = Node { queue_capacity: 1_000, ..node(1, slots, &["t"]) };
        let mut table = Table::new(Scheme::default(), vec![roomy]);
        table.tell(Input::Jobs((1..=2_000).map(|n| JobHead { args_bytes, ..head(n, "g") }).collect()));
        let slots = table.order.clone();
        let mut ahead = 0;
        for pick in &slots {
            ahead += table.settle(pick, Duration::from_micros(10), None).len();
        }
        (slots.len(), ahead)
    };
    let long = 1024 * 1024;
    assert_eq!(given(4, 0), (4, 1_004), "as many as it has room for");
    assert_eq!(given(4, long), (4, 64), "64 MiB in its hands");
    assert_eq!(given(100, long), (100, 100), "a job for each slot, whatever its arguments");
}

#[test]
fn older_news_does_not_undo_newer() {
    let mut table = Table::one_slot();
    table.tell(Input::Jobs(vec![head(1, "g")]));
    let pick = table.order[0].clone();
    // The row as it was before it was assigned, read late.
    assert!(table.tell(Input::Jobs(vec![head(1, "g")])).is_empty());
    let rest = Rest { stuck: true, due: Some(at(50)), crashes: 0, next: None };
    table.settle(&pick, Duration::from_secs(1), Some(rest));
    // The row as it was while it ran, read late.
    let late = JobHead { state: JobState::Running, fence: Fence(1), node: Some(pick.node), ..head(1, "g") };
    table.tell(Input::Jobs(vec![late]));
    table.now = at(50);
    assert_eq!(table.tell(Input::Tick).len(), 1);
}

#[test]
fn a_locked_row_is_tried_again_after_a_while_that_grows_to_a_second() {
    let mut scheduler = Scheduler::new(10);
    let mut now = at(1);
    scheduler.handle(now, Input::Nodes(vec![node(1, 1, &["t"])]));
    let mut outputs = scheduler.handle(now, Input::Jobs(vec![head(1, "g")]));
    let mut waits = Vec::new();
    for _ in 0..9 {
        assert!(matches!(&outputs[0], Output::Assign(picks) if picks.len() == 1), "{outputs:?}");
        let locked = scheduler.handle(now, Input::Replied(vec![(head(1, "g").id, Fence(0), Reply::Locked)]));
        let [Output::WakeAt(wake)] = locked[..] else { panic!("{locked:?}") };
        waits.push(wake.since(now));
        now = wake;
        outputs = scheduler.handle(now, Input::Tick);
    }
    assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]) && waits[8] == Duration::from_secs(1), "{waits:?}");
}

#[test]
fn a_job_that_killed_two_nodes_runs_alone() {
    let mut table = Table::new(Scheme::default(), vec![node(1, 3, &["t"])]);
    table.tell(Input::Jobs((1..=2).map(|n| head(n, "g")).collect()));
    let suspect = JobHead { crashes: 2, ..head(10, "g") };
    assert!(table.tell(Input::Jobs(vec![suspect])).is_empty(), "the node is drained first");
    assert!(table.tell(Input::Jobs(vec![head(3, "g")])).is_empty());
    let (first, second) = (table.order[0].clone(), table.order[1].clone());
    assert!(table.settle(&first, Duration::from_secs(1), None).is_empty());
    let alone = table.settle(&second, Duration::from_secs(1), None);
    assert_eq!(alone.len(), 1);
    assert_eq!(table.groups[&alone[0].job].seq, 10);
    assert_eq!(table.settle(&alone[0], Duration::from_secs(1), None).len(), 1, "then the others go on");
}

#[test]
fn suspects_share_a_single_node_with_all_other_jobs() {
    let mut table = Table::new(Scheme::default(), vec![node(1, 2, &["t"])]);
    let suspects = (1..=3).map(|n| JobHead { crashes: 2, ..head(n, "g") });
    table.tell(Input::Jobs(suspects.chain((11..=40).map(|n| head(n, "g"))).collect()));
    // Each run takes ten seconds.
    let mut at = 0;
    while at < table.order.len() && at < 14 {
        table.now = table.now.plus(Duration::from_secs(10));
        let pick = table.order[at].clone();
        table.settle(&pick, Duration::from_secs(10), None);
        at += 1;
    }
    let order: Vec<_> = table.order.iter().map(|pick| table.groups[&pick.job].seq).collect();
    let second = order.iter().position(|&seq| seq == 2).expect("the second suspect has its turn");
    assert_eq!(order[0], 1);
    assert!(second >= 2, "others had the node in between: {order:?}");
    assert!(order.contains(&3), "{order:?}");
}

#[test]
fn groups_that_no_node_can_serve_cost_the_others_nothing() {
    let mut table = Table::one_slot();
    let unknown = |n: i64| JobHead { task: TaskName::new("unknown").unwrap(), ..head(n, &format!("u{n}")) };
    table.tell(Input::Jobs((1..=30_000).map(unknown).collect()));
    table.tell(Input::Jobs((30_001..=33_000).map(|n| head(n, "g")).collect()));
    // A walk past the thirty thousand for each of the three thousand would take minutes.
    assert_eq!(table.drain().len(), 3_000);
}

#[test]
fn a_suspect_whose_node_leaves_is_given_to_another() {
    let mut table = Table::new(Scheme::default(), vec![node(1, 1, &["t"])]);
    table.tell(Input::Jobs(vec![head(1, "g")]));
    table.tell(Input::Jobs(vec![JobHead { crashes: 2, ..head(2, "g") }]));
    let picks = table.tell(Input::Nodes(vec![node(2, 1, &["t"])]));
    assert_eq!(picks.len(), 1);
    assert_eq!((table.groups[&picks[0].job].seq, picks[0].node), (2, Incarnation(Uuid::from_u128(2))));
}

#[derive(Debug, Clone)]
enum Step {
    Submit { group: u8, priority: i64, due: u64, task: bool },
    Settle { which: usize, rest: u8 },
    Cancel { which: usize },
    Nodes { alive: u8 },
    Pass { seconds: u64 },
    Stale { which: usize },
}

fn steps() -> impl Strategy<Value = Vec<(Step, u8)>> {
    let step = prop_oneof![
        4 => (0u8..4, 1i64..=10, 0u64..40, any::<bool>())
            .prop_map(|(group, priority, due, task)| Step::Submit { group, priority, due, task }),
        4 => (any::<usize>(), any::<u8>()).prop_map(|(which, rest)| Step::Settle { which, rest }),
        1 => any::<usize>().prop_map(|which| Step::Cancel { which }),
        1 => (0u8..8).prop_map(|alive| Step::Nodes { alive }),
        2 => (0u64..20).prop_map(|seconds| Step::Pass { seconds }),
        1 => any::<usize>().prop_map(|which| Step::Stale { which }),
    ];
    proptest::collection::vec((step, any::<u8>()), 1..120)
}

/// The truth that the scheduler is a cache of, kept as simply as possible.
#[derive(Default)]
struct World {
    rows: BTreeMap<JobId, JobHead>,
    next: i64,
}

impl World {
    /// The store's side: it assigns every pick, or replies that the rows are locked. Checks every pick on the way.
    fn serve(
        &mut self,
        scheduler: &mut Scheduler,
        alive: &[Node],
        now: Timestamp,
        mut outputs: Vec<Output>,
        locked: bool,
    ) -> Result<(), TestCaseError> {
        while let Some(at) = outputs.iter().position(|output| matches!(output, Output::Assign(_))) {
            let Output::Assign(picks) = outputs.remove(at) else { unreachable!() };
            let mut seen = HashSet::new();
            let mut replies = Vec::new();
            for pick in picks {
                prop_assert!(seen.insert(pick.job), "picked twice in one batch");
                let row = self.rows.get_mut(&pick.job).expect("a picked job exists");
                prop_assert!(!row.state.assigned() && row.fence == pick.fence, "{row:?} {pick:?}");
                prop_assert!(row.due.is_some_and(|due| due <= now), "picked early");
                let node = alive.iter().find(|node| node.incarnation == pick.node).expect("picked for a living node");
                prop_assert!(node.can_run(&row.queue, &row.task));
                if locked {
                    replies.push((pick.job, pick.fence, Reply::Locked));
                } else {
                    row.state = JobState::Scheduled;
                    row.fence = row.fence.next();
                    row.node = Some(pick.node);
                    replies.push((pick.job, pick.fence, Reply::Assigned(row.fence)));
                }
            }
            outputs = scheduler.handle(now, Input::Replied(replies));
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(std::env::var("TURNWISE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(256)))]

    /// In every sequence of steps: no job is picked twice or early or for a node that cannot run it, no node is overfull, and a
    /// slot is never idle while a job could run in it.
    #[test]
    fn picks_are_sound_and_no_slot_idles(steps in steps()) {
        let all = [node(1, 1, &["t"]), node(2, 2, &["t", "u"]), node(3, 3, &["u"])];
        let living = |mask: u8| all.iter().enumerate().filter(|(n, _)| mask & (1 << n) != 0).map(|(_, node)| node.clone()).collect::<Vec<_>>();
        let mut scheduler = Scheduler::new(3);
        let mut world = World::default();
        let mut alive = living(7);
        let mut now = at(10);
        scheduler.handle(now, Input::Nodes(alive.clone()));
        for (step, chance) in steps {
            let mut inputs = Vec::new();
            match step {
                Step::Submit { group, priority, due, task } => {
                    world.next += 1;
                    let row = JobHead {
                        priority: Priority::new(priority).unwrap(),
                        due: Some(at(due)),
                        task: TaskName::new(if task { "t" } else { "u" }).unwrap(),
                        ..head(world.next, &format!("g{group}"))
                    };
                    world.rows.insert(row.id, row.clone());
                    inputs.push(Input::Jobs(vec![row]));
                }
                Step::Settle { which, rest } => {
                    let held: Vec<_> = world.rows.values().filter(|row| row.state.assigned()).map(|row| row.id).collect();
                    if let Some(&id) = held.get(which % held.len().max(1)) {
                        let row = world.rows.get_mut(&id).unwrap();
                        let rest = match rest % 3 {
                            0 => None,
                            1 => Some(Rest { stuck: true, due: Some(now.plus(Duration::from_secs(rest.into()))), crashes: 0, next: None }),
                            _ => Some(Rest { stuck: true, due: None, crashes: 0, next: None }),
                        };
                        let fence = row.fence;
                        match &rest {
                            Some(rest) => {
                                row.state = JobState::Stuck;
                                row.due = rest.due;
                                row.node = None;
                            }
                            None => drop(world.rows.remove(&id)),
                        }
                        inputs.push(Input::Settled(vec![Settled { id, fence, ran: None, rest, failed: false, well: true, error: None }]));
                    }
                }
                Step::Cancel { which } => {
                    let resting: Vec<_> = world.rows.values().filter(|row| !row.state.assigned()).map(|row| row.id).collect();
                    if let Some(id) = resting.get(which % resting.len().max(1)) {
                        world.rows.remove(id);
                        inputs.push(Input::Gone(vec![*id]));
                    }
                }
                Step::Nodes { alive: mask } => {
                    alive = living(mask);
                    // Jobs of nodes that left go back, as after a node loss.
                    let lost: Vec<_> = world.rows.values_mut().filter(|row| row.node.is_some_and(|node| !alive.iter().any(|known| known.incarnation == node))).map(|row| {
                        row.state = JobState::Waiting;
                        row.fence = row.fence.next();
                        row.node = None;
                        row.due = Some(now);
                        row.clone()
                    }).collect();
                    inputs.push(Input::Nodes(alive.clone()));
                    inputs.push(Input::Jobs(lost));
                }
                Step::Pass { seconds } => {
                    now = now.plus(Duration::from_secs(seconds));
                    inputs.push(Input::Tick);
                }
                Step::Stale { which } => {
                    // A row read before its last assignment, or twice.
                    let all: Vec<_> = world.rows.values().cloned().collect();
                    if let Some(row) = all.get(which % all.len().max(1)) {
                        let mut old = row.clone();
                        if row.fence > Fence(0) {
                            old = JobHead { fence: Fence(row.fence.0 - 1), state: JobState::Waiting, node: None, ..old };
                        }
                        inputs.push(Input::Jobs(vec![old]));
                    }
                }
            }
            for input in inputs {
                let outputs = scheduler.handle(now, input);
                world.serve(&mut scheduler, &alive, now, outputs, chance % 16 == 0)?;
            }
            let mut load: BTreeMap<Incarnation, u32> = BTreeMap::new();
            world.rows.values().filter_map(|row| row.node).for_each(|node| *load.entry(node).or_default() += 1);
            for node in &alive {
                let used = load.get(&node.incarnation).copied().unwrap_or(0);
                prop_assert!(used <= node.slots, "overfull");
                let could = world.rows.values().any(|row| !row.state.assigned() && row.due.is_some_and(|due| due <= now) && node.can_run(&row.queue, &row.task));
                if used < node.slots && could && chance % 16 != 0 {
                    // Only a locked row, waiting for its next try, may hold a free slot.
                    let later = now.plus(Duration::from_secs(1));
                    let tried = scheduler.handle(later, Input::Tick);
                    prop_assert!(tried.iter().any(|output| matches!(output, Output::Assign(_))), "an idle slot and a job that could run in it");
                    now = later;
                    world.serve(&mut scheduler, &alive, now, tried, false)?;
                    break;
                }
            }
        }
    }
}

#[test]
fn no_node_is_given_more_at_once_than_its_batch_size_whatever_the_others_take() {
    let sized = |number, batch| Node { batch_size: std::num::NonZeroU32::new(batch), ..node(number, 40, &["t"]) };
    let mut scheduler = Scheduler::new(10);
    let nodes = vec![sized(1, 3), sized(2, 15), Node { slots: 2, ..sized(3, 15) }];
    scheduler.handle(at(1), Input::Nodes(nodes));
    let mut outputs = scheduler.handle(at(1), Input::Jobs((1..=200).map(|n| head(n, "g")).collect()));
    let mut batches = Vec::new();
    while let Some(picks) = outputs.iter().find_map(|output| match output {
        Output::Assign(picks) => Some(picks.clone()),
        _ => None,
    }) {
        batches.push([1, 2, 3].map(|n| picks.iter().filter(|pick| pick.node.0.as_u128() == n).count()));
        let replies = picks.iter().map(|pick| (pick.job, pick.fence, Reply::Assigned(pick.fence.next()))).collect();
        outputs = scheduler.handle(at(1), Input::Replied(replies));
    }
    assert!(batches.iter().all(|batch| batch[0] <= 3 && batch[1] <= 15), "{batches:?}");
    assert!(batches.iter().all(|batch| batch.iter().sum::<usize>() <= 15), "as many as one of them takes: {batches:?}");
    assert!(batches.iter().any(|batch| batch[0] == 3), "{batches:?}");
    let all = batches.iter().fold([0; 3], |sum, batch| [0, 1, 2].map(|at| sum[at] + batch[at]));
    assert_eq!(all, [40, 40, 2], "in the end every slot has its job: {batches:?}");
}

#[test]
fn by_time_the_group_whose_run_was_shorter_comes_first_in_the_next_round() {
    let mut table = Table::one_slot();
    table.tell(Input::Jobs([(1, "a"), (2, "a"), (3, "b"), (4, "b")].map(|(n, group)| head(n, group)).to_vec()));
    for millis in [30, 20, 25] {
        let pick = table.order.last().unwrap().clone();
        table.settle(&pick, Duration::from_millis(millis), None);
    }
    let order: Vec<_> = table.order.iter().map(|pick| table.groups[&pick.job].seq).collect();
    assert_eq!(order, [1, 3, 4, 2], "a, b, then b again: its run was the shorter one");
}
