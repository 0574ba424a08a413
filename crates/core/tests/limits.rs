//! Limits are exact: never more than allowed, and no slot idle while a job may run.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;
use turnwise_core::{
    Fence, GroupName, Incarnation, JobHead, JobId, JobState, KeyName, Node, QueueName, TaskName, Timestamp,
    queue_state::QueueState,
    scheduler::{Input, Output, Pick, Reply, Rest, Scheduler, Settled},
    settings::{Concurrency, GroupSettings, LimitSettings, OnError, Pause, QueueSettings, Settings},
    turn::Scheme,
    why::Gate,
};

mod table;
use table::{Table, at, head, node};

fn queue(name: &str, settings: QueueSettings) -> Input {
    let mut all = Settings::default();
    all.queues.insert(QueueName::new(name).unwrap(), settings);
    Input::Settings(all)
}

fn serial(on_error: OnError) -> Input {
    queue("default", QueueSettings { concurrency: Concurrency::Serial, on_error, ..QueueSettings::default() })
}

fn roomy() -> Table {
    Table::new(Scheme::default(), vec![node(1, 100, &["t", "u"])])
}

fn seqs(table: &Table, picks: &[Pick]) -> Vec<i64> {
    picks.iter().map(|pick| table.groups[&pick.job].seq).collect()
}

#[test]
fn a_serial_queue_runs_one_at_a_time_in_submission_order_whatever_the_group() {
    let mut table = roomy();
    table.tell(serial(OnError::Block));
    let jobs = [(3, "a"), (1, "b"), (2, "a"), (4, "c")].map(|(n, group)| head(n, group));
    table.tell(Input::Jobs(jobs.to_vec()));
    assert_eq!(table.order.len(), 1);
    assert_eq!(table.drain(), [1, 2, 3, 4]);
}

#[test]
fn in_a_serial_queue_a_stuck_job_blocks_the_line_or_is_skipped_or_pauses_the_queue() {
    let stuck = Rest { stuck: true, due: Some(at(100)), crashes: 0, next: None };
    let after_the_first_fails = |on_error| {
        let mut table = roomy();
        table.tell(serial(on_error));
        table.tell(Input::Jobs((1..=3).map(|n| head(n, "g")).collect()));
        let first = table.order[0].clone();
        let next = table.settle(&first, Duration::from_secs(1), Some(stuck.clone()));
        (table, next)
    };
    let (mut table, next) = after_the_first_fails(OnError::Block);
    assert!(next.is_empty(), "the stuck job holds the line");
    table.now = at(100);
    let again = table.tell(Input::Tick);
    assert_eq!(seqs(&table, &again), [1]);

    let (table, next) = after_the_first_fails(OnError::Skip);
    assert_eq!(seqs(&table, &next), [2]);

    let (table, _) = after_the_first_fails(OnError::Pause);
    assert_eq!(table.pauses, [QueueName::default()]);
}

#[test]
fn a_serial_queue_stays_closed_until_the_backlog_is_read() {
    let mut table = roomy();
    table.tell(Input::Loading(true));
    table.tell(serial(OnError::Block));
    table.tell(Input::Jobs(vec![head(2, "g")]));
    assert!(table.order.is_empty(), "an earlier job may still come");
    table.tell(Input::Jobs(vec![head(1, "g")]));
    table.tell(Input::Loading(false));
    assert_eq!(table.drain(), [1, 2]);
}

#[test]
fn a_job_that_had_begun_holds_the_line_after_a_take_over() {
    let mut table = roomy();
    table.tell(Input::Loading(true));
    table.tell(serial(OnError::Block));
    let begun = JobHead { state: JobState::Stuck, due: Some(at(50)), fence: Fence(3), ..head(5, "g") };
    table.tell(Input::Jobs(vec![head(1, "g"), begun]));
    table.tell(Input::Loading(false));
    assert!(table.order.is_empty());
    table.now = at(50);
    table.tell(Input::Tick);
    assert_eq!(table.drain(), [5, 1]);
}

/// A node for one suspect, then `suspect` waits for its turn; the queue "line" is serial.
fn behind_another_suspect(suspect: JobHead) -> Table {
    let mut table = Table::new(Scheme::default(), vec![node(1, 2, &["t"])]);
    table.tell(queue("line", QueueSettings { concurrency: Concurrency::Serial, ..QueueSettings::default() }));
    table.tell(Input::Jobs(vec![JobHead { crashes: 2, ..head(1, "g") }]));
    assert_eq!(seqs(&table, &table.order), [1]);
    table.tell(Input::Jobs(vec![suspect]));
    table
}

fn holds_the_line(number: i64) -> JobHead {
    JobHead { crashes: 2, fence: Fence(3), queue: QueueName::new("line").unwrap(), ..head(number, "g") }
}

#[test]
fn no_node_is_kept_free_for_a_suspect_that_is_paused() {
    let mut table = Table::new(Scheme::default(), vec![node(1, 2, &["t"])]);
    let pause = || Some(Pause { since: at(0), reason: None });
    let paused = || queue("line", QueueSettings { paused: pause(), ..QueueSettings::default() });
    table.tell(paused());
    let suspect = JobHead { crashes: 2, queue: QueueName::new("line").unwrap(), ..head(1, "g") };
    table.tell(Input::Jobs(vec![suspect, head(2, "g"), head(3, "g"), head(4, "g"), head(5, "g")]));
    assert_eq!(seqs(&table, &table.order), [2, 3]);
    assert_eq!(table.wake_at, None, "time alone does not help");
    // The suspect may run, and the node drains for it; but it is paused again before the node is empty.
    table.tell(queue("line", QueueSettings::default()));
    let next = table.settle(&table.order[0].clone(), Duration::ZERO, None);
    assert_eq!(next, [], "kept free");
    let next = table.tell(paused());
    assert_eq!(seqs(&table, &next), [4]);
    // In the end it may run, and runs alone.
    table.tell(queue("line", QueueSettings::default()));
    let running = table.order[1..].to_vec();
    table.settle(&running[0], Duration::ZERO, None);
    let next = table.settle(&running[1], Duration::ZERO, None);
    assert_eq!(seqs(&table, &next), [1]);
}

#[test]
fn a_suspect_that_held_the_line_and_is_gone_makes_no_suspect_of_another_job() {
    let suspect = holds_the_line(2);
    let mut table = behind_another_suspect(suspect.clone());
    table.tell(Input::Gone(vec![suspect.id]));
    table.tell(Input::Jobs((3..=4).map(|n| head(n, "g")).collect()));
    let first = table.order[0].clone();
    let next = table.settle(&first, Duration::ZERO, None);
    assert_eq!(seqs(&table, &next), [3, 4], "both slots are used: neither has to be alone");
}

#[test]
fn a_suspect_that_holds_the_line_runs_alone_and_the_line_waits_for_it() {
    let suspect = holds_the_line(2);
    let line = suspect.queue.clone();
    let mut table = behind_another_suspect(suspect);
    table.tell(Input::Jobs(vec![JobHead { queue: line, ..head(3, "g") }, head(4, "g")]));
    let ten = Duration::from_secs(10);
    let mut next = table.order.clone();
    // The first suspect had the node for ten seconds; all other jobs have it for as long.
    for expected in [4, 2, 3] {
        table.now = table.now.plus(ten);
        next = table.settle(&next[0], ten, None);
        assert_eq!(seqs(&table, &next), [expected]);
    }
}

#[test]
fn a_paused_group_waits_and_the_others_go_on() {
    let mut table = Table::one_slot();
    let mut settings = Settings::default();
    let paused = Some(Pause { since: at(1), reason: None });
    settings.groups.insert(GroupName::new("a").unwrap(), GroupSettings { paused, ..GroupSettings::default() });
    table.tell(Input::Settings(settings));
    table.tell(Input::Jobs(vec![head(1, "a"), head(2, "b"), head(3, "b")]));
    assert_eq!(table.drain(), [2, 3]);
    table.tell(Input::Settings(Settings::default()));
    assert_eq!(table.drain(), [2, 3, 1]);
}

#[test]
fn a_rate_lets_through_its_burst_and_then_one_at_a_time() {
    let mut table = roomy();
    let rate = Some("2/1s,2".parse().unwrap());
    table.tell(queue("default", QueueSettings { rate, ..QueueSettings::default() }));
    table.now = at(100);
    assert_eq!(table.tell(Input::Jobs((1..=10).map(|n| head(n, "g")).collect())).len(), 2);
    assert_eq!(table.wake_at, Some(at(100).plus(Duration::from_millis(500))));
    table.now = table.wake_at.unwrap();
    assert_eq!(table.tell(Input::Tick).len(), 1);
}

#[test]
fn a_rate_that_was_just_set_wakes_the_jobs_that_wait_for_it() {
    let mut table = roomy();
    table.tell(Input::Jobs(vec![head(1, "g")]));
    table.tell(queue("default", QueueSettings { rate: Some("10/1s,1".parse().unwrap()), ..QueueSettings::default() }));
    assert!(table.tell(Input::Jobs(vec![head(2, "g")])).is_empty(), "the bucket starts empty");
    assert_eq!(table.wake_at, Some(table.now.plus(Duration::from_millis(100))));
}

#[test]
fn a_key_at_its_limit_holds_up_its_own_jobs_only() {
    let mut table = roomy();
    let mut settings = Settings::default();
    let key = KeyName::new("customer-1").unwrap();
    settings.keys.insert(key.clone(), LimitSettings { concurrency: Some(2), rate: None });
    table.tell(Input::Settings(settings));
    let keyed = |n| JobHead { key: Some(key.clone()), ..head(n, "g") };
    let first = table.tell(Input::Jobs(vec![keyed(1), keyed(2), keyed(3), keyed(4), head(5, "g")]));
    assert_eq!(seqs(&table, &first), [1, 2, 5]);
    let next = table.settle(&first[0], Duration::from_secs(1), None);
    assert_eq!(seqs(&table, &next), [3]);
    table.tell(Input::Gone(vec![keyed(4).id]));
    assert!(table.settle(&first[1], Duration::from_secs(1), None).is_empty());
    assert!(table.settle(&next[0], Duration::from_secs(1), None).is_empty());
}

#[test]
fn a_node_gets_no_more_of_a_queue_than_its_cap() {
    let mut table = Table::new(Scheme::default(), vec![node(1, 10, &["t"]), node(2, 10, &["t"])]);
    table.tell(queue("default", QueueSettings { per_node: Some(3), ..QueueSettings::default() }));
    table.tell(Input::Jobs((1..=20).map(|n| head(n, "g")).collect()));
    let on = |number: u128| {
        table.order.iter().filter(|pick| pick.node == Incarnation(uuid::Uuid::from_u128(number))).count()
    };
    assert_eq!((on(1), on(2)), (3, 3));
}

#[test]
fn a_group_earns_no_credit_while_its_own_limit_holds_it_back() {
    let mut table = Table::new(Scheme::default(), vec![node(1, 10, &["t"])]);
    let a = GroupName::new("a").unwrap();
    let mut limited = Settings::default();
    limited.groups.insert(a.clone(), GroupSettings { concurrency: Some(2), ..GroupSettings::default() });
    table.tell(Input::Settings(limited));
    table.tell(Input::Jobs((1..=8_000).map(|n| head(n, if n % 2 == 0 { "a" } else { "b" })).collect()));
    let mut done = 0;
    let mut run = |table: &mut Table, waves: usize| {
        let from = table.order.len();
        for _ in 0..waves {
            table.now = table.now.plus(Duration::from_millis(100));
            let wave = table.order[done..].to_vec();
            done = table.order.len();
            wave.iter().for_each(|pick| drop(table.settle(pick, Duration::from_millis(100), None)));
        }
        let of_a = table.order[from..].iter().filter(|pick| table.groups[&pick.job].group == a).count();
        of_a as f64 / (table.order.len() - from) as f64
    };
    let held_back = run(&mut table, 200);
    assert!((held_back - 0.2).abs() < 0.01, "two of ten slots: {held_back}");
    table.tell(Input::Settings(Settings::default()));
    let afterwards = run(&mut table, 100);
    assert!((afterwards - 0.5).abs() < 0.05, "an equal share, and no more: {afterwards}");
}

#[test]
fn a_queue_waits_until_the_one_before_it_is_sealed_and_empty() {
    let mut table = roomy();
    let (first, second) = (QueueName::new("first").unwrap(), QueueName::new("second").unwrap());
    let set = |sealed: Option<Timestamp>| {
        let mut settings = Settings::default();
        settings.queues.insert(first.clone(), QueueSettings { sealed, quiet: sealed, ..QueueSettings::default() });
        settings
            .queues
            .insert(second.clone(), QueueSettings { after: vec![first.clone()], ..QueueSettings::default() });
        Input::Settings(settings)
    };
    table.tell(Input::Loading(true));
    table.tell(set(None));
    table.tell(Input::Jobs(vec![JobHead { queue: second.clone(), ..head(2, "g") }]));
    table.tell(Input::Loading(false));
    assert!(table.order.is_empty(), "the first is empty, but something may still come");
    table.tell(Input::Jobs(vec![JobHead { queue: first.clone(), ..head(1, "g") }]));
    table.tell(set(Some(at(1))));
    let waiting = (second.clone(), QueueState::Waiting(first.clone()));
    assert_eq!(table.scheduler.queue_states(), [(first.clone(), QueueState::Active), waiting]);
    assert_eq!(table.drain(), [1, 2]);
    assert_eq!(table.scheduler.queue_states()[0], (first, QueueState::Finished));
}

#[derive(Debug, Clone)]
enum Step {
    Submit { queue: u8, group: u8, task: bool, key: u8, due: u64 },
    Settle { which: usize, rest: u8 },
    Gone { which: usize },
    Limit { what: u8, limit: u8 },
    Pause { what: u8, on: bool },
    Nodes { alive: u8 },
    Pass { seconds: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0u8..3, 0u8..3, any::<bool>(), 0u8..4, 0u64..30)
            .prop_map(|(queue, group, task, key, due)| Step::Submit { queue, group, task, key, due }),
        5 => (any::<usize>(), any::<u8>()).prop_map(|(which, rest)| Step::Settle { which, rest }),
        1 => any::<usize>().prop_map(|which| Step::Gone { which }),
        2 => (0u8..7, 0u8..4).prop_map(|(what, limit)| Step::Limit { what, limit }),
        1 => (0u8..4, any::<bool>()).prop_map(|(what, on)| Step::Pause { what, on }),
        1 => (1u8..4).prop_map(|alive| Step::Nodes { alive }),
        1 => (0u64..10).prop_map(|seconds| Step::Pass { seconds }),
    ];
    proptest::collection::vec(step, 1..150)
}

/// The truth, kept as simply as possible.
struct World {
    rows: BTreeMap<JobId, JobHead>,
    settings: Settings,
    alive: Vec<Node>,
    now: Timestamp,
    next: i64,
}

fn queue_name(n: u8) -> QueueName {
    QueueName::new(format!("q{n}")).unwrap()
}

fn group_name(n: u8) -> GroupName {
    GroupName::new(format!("g{n}")).unwrap()
}

fn task_name(first: bool) -> TaskName {
    TaskName::new(if first { "t" } else { "u" }).unwrap()
}

fn key_name(n: u8) -> Option<KeyName> {
    (n > 0).then(|| KeyName::new(format!("k{n}")).unwrap())
}

impl World {
    fn held(&self, pred: impl Fn(&JobHead) -> bool) -> u32 {
        u32::try_from(self.rows.values().filter(|row| row.state.assigned() && pred(row)).count()).unwrap()
    }

    /// Whether every limit has room for one more like `job`.
    fn allowed(&self, job: &JobHead) -> bool {
        let under = |limit: Option<u32>, used: u32| limit.is_none_or(|limit| used < limit);
        let queue = self.settings.queues.get(&job.queue).cloned().unwrap_or_default();
        let group = self.settings.groups.get(&job.group).cloned().unwrap_or_default();
        let task = self.settings.tasks.get(&job.task).copied().unwrap_or_default();
        let key = job.key.as_ref().and_then(|key| self.settings.keys.get(key)).copied().unwrap_or_default();
        let queue_limit = match queue.concurrency {
            Concurrency::Unlimited => None,
            Concurrency::AtMost(limit) => Some(limit),
            Concurrency::Serial => Some(1),
        };
        queue.paused.is_none()
            && group.paused.is_none()
            && under(queue_limit, self.held(|row| row.queue == job.queue))
            && under(group.concurrency, self.held(|row| row.group == job.group))
            && under(task.concurrency, self.held(|row| row.task == job.task))
            && under(key.concurrency, self.held(|row| row.key.is_some() && row.key == job.key))
    }

    fn serial(&self, queue: &QueueName) -> bool {
        self.settings.queues.get(queue).is_some_and(|settings| settings.concurrency == Concurrency::Serial)
    }

    fn serve(&mut self, scheduler: &mut Scheduler, mut outputs: Vec<Output>) -> Result<(), TestCaseError> {
        while let Some(at) = outputs.iter().position(|output| matches!(output, Output::Assign(_))) {
            let Output::Assign(picks) = outputs.remove(at) else { unreachable!() };
            let mut replies = Vec::new();
            for pick in picks {
                let job = self.rows[&pick.job].clone();
                prop_assert!(!job.state.assigned() && job.fence == pick.fence);
                prop_assert!(job.due.is_some_and(|due| due <= self.now));
                prop_assert!(self.allowed(&job), "a limit is exceeded by {job:?}");
                let node = self.alive.iter().find(|node| node.incarnation == pick.node).expect("a living node");
                prop_assert!(node.can_run(&job.queue, &job.task));
                let used = self.held(|row| row.node == Some(pick.node));
                prop_assert!(used < node.slots, "overfull");
                if self.serial(&job.queue) {
                    let earlier = self.rows.values().find(|row| {
                        row.queue == job.queue
                            && row.seq < job.seq
                            && row.due.is_some_and(|due| due <= self.now)
                            && row.fence == Fence(0)
                    });
                    prop_assert!(job.fence > Fence(0) || earlier.is_none(), "out of line: {job:?} before {earlier:?}");
                }
                let row = self.rows.get_mut(&pick.job).unwrap();
                row.state = JobState::Scheduled;
                row.fence = row.fence.next();
                row.node = Some(pick.node);
                replies.push((pick.job, pick.fence, Reply::Assigned(row.fence)));
            }
            outputs = scheduler.handle(self.now, Input::Replied(replies));
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(std::env::var("TURNWISE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(256)))]

    /// However jobs, nodes and settings change: no limit is exceeded, and no slot idles while a job may run in it.
    #[test]
    fn no_limit_is_exceeded_and_no_slot_idles(steps in steps()) {
        let all = [node(1, 2, &["t", "u"]), node(2, 4, &["t"])];
        let mut world = World { rows: BTreeMap::new(), settings: Settings::default(), alive: all.to_vec(), now: at(10), next: 0 };
        let mut scheduler = Scheduler::new(3);
        scheduler.handle(world.now, Input::Nodes(world.alive.clone()));
        for step in steps {
            let mut inputs = Vec::new();
            match step {
                Step::Submit { queue, group, task, key, due } => {
                    world.next += 1;
                    let row = JobHead {
                        queue: queue_name(queue),
                        group: group_name(group),
                        task: task_name(task),
                        key: key_name(key),
                        due: Some(at(due)),
                        ..head(world.next, "g")
                    };
                    world.rows.insert(row.id, row.clone());
                    inputs.push(Input::Jobs(vec![row]));
                }
                Step::Settle { which, rest } => {
                    let held: Vec<_> = world.rows.values().filter(|row| row.state.assigned()).map(|row| row.id).collect();
                    if let Some(&id) = held.get(which % held.len().max(1)) {
                        let rest = match rest % 4 {
                            0 | 1 => None,
                            2 => Some(Rest { stuck: true, due: Some(world.now.plus(Duration::from_secs(u64::from(rest) / 16))), crashes: 0, next: None }),
                            _ => Some(Rest { stuck: false, due: Some(world.now), crashes: 0, next: None }),
                        };
                        let row = world.rows.get_mut(&id).unwrap();
                        let fence = row.fence;
                        match &rest {
                            Some(rest) => {
                                row.state = if rest.stuck { JobState::Stuck } else { JobState::Waiting };
                                row.due = rest.due;
                                row.node = None;
                            }
                            None => drop(world.rows.remove(&id)),
                        }
                        let ran = Some(Duration::from_secs(1));
                        inputs.push(Input::Settled(vec![Settled { id, fence, ran, rest, failed: false, well: true, error: None }]));
                    }
                }
                Step::Gone { which } => {
                    let resting: Vec<_> = world.rows.values().filter(|row| !row.state.assigned()).map(|row| row.id).collect();
                    if let Some(id) = resting.get(which % resting.len().max(1)) {
                        world.rows.remove(id);
                        inputs.push(Input::Gone(vec![*id]));
                    }
                }
                Step::Limit { what, limit } => {
                    let limit = u32::from(limit);
                    match what {
                        0 | 1 => {
                            let concurrency = match limit {
                                0 if what == 1 => Concurrency::Serial,
                                3 => Concurrency::Unlimited,
                                limit => Concurrency::AtMost(limit),
                            };
                            world.settings.queues.entry(queue_name(what)).or_default().concurrency = concurrency;
                        }
                        2 | 3 => world.settings.groups.entry(group_name(what - 2)).or_default().concurrency = (limit < 3).then_some(limit),
                        4 => world.settings.tasks.entry(task_name(true)).or_default().concurrency = (limit < 3).then_some(limit),
                        _ => world.settings.keys.entry(key_name(what - 4).unwrap()).or_default().concurrency = (limit < 3).then_some(limit),
                    }
                    inputs.push(Input::Settings(world.settings.clone()));
                }
                Step::Pause { what, on } => {
                    let pause = on.then_some(Pause { since: world.now, reason: None });
                    match what {
                        0 | 1 => world.settings.queues.entry(queue_name(what)).or_default().paused = pause,
                        what => world.settings.groups.entry(group_name(what - 2)).or_default().paused = pause,
                    }
                    inputs.push(Input::Settings(world.settings.clone()));
                }
                Step::Nodes { alive } => {
                    world.alive = all.iter().enumerate().filter(|(n, _)| alive & (1 << n) != 0).map(|(_, node)| node.clone()).collect();
                    let (known, now) = (world.alive.clone(), world.now);
                    let lost: Vec<_> = world.rows.values_mut()
                        .filter(|row| row.node.is_some_and(|node| !known.iter().any(|known| known.incarnation == node)))
                        .map(|row| {
                            row.state = JobState::Waiting;
                            row.fence = row.fence.next();
                            row.node = None;
                            row.due = Some(now);
                            row.clone()
                        })
                        .collect();
                    inputs.push(Input::Nodes(world.alive.clone()));
                    inputs.push(Input::Jobs(lost));
                }
                Step::Pass { seconds } => {
                    world.now = world.now.plus(Duration::from_secs(seconds));
                    inputs.push(Input::Tick);
                }
            }
            for input in inputs {
                let outputs = scheduler.handle(world.now, input);
                world.serve(&mut scheduler, outputs)?;
            }
            for node in &world.alive {
                if world.held(|row| row.node == Some(node.incarnation)) >= node.slots {
                    continue;
                }
                let could = world.rows.values().find(|row| {
                    !row.state.assigned()
                        && row.due.is_some_and(|due| due <= world.now)
                        && node.can_run(&row.queue, &row.task)
                        && world.allowed(row)
                        // In a serial queue only the head of the line may run; that it does is checked by its own tests.
                        && !world.serial(&row.queue)
                });
                prop_assert!(could.is_none(), "a slot of {} idles while {could:?} may run", node.name);
            }
        }
    }
}

/// Picked at once, the time to begin long past: only what waits expires.
#[test]
fn a_job_that_has_not_begun_in_time_is_reported_and_not_picked_any_more() {
    let mut table = Table::one_slot();
    let expires = |n: i64, at_second: u64| JobHead { expires: Some(at(at_second)), ..head(n, "g") };
    table.tell(Input::Jobs(vec![expires(1, 10), expires(2, 10), expires(3, 100), head(4, "g")]));
    assert_eq!(table.order.len(), 1, "the first has begun");
    let outputs = table.scheduler.handle(at(11), Input::Tick);
    assert!(outputs.contains(&Output::Expire(vec![head(2, "g").id])), "{outputs:?}");
    let again = table.scheduler.handle(at(12), Input::Tick);
    assert!(!again.iter().any(|output| matches!(output, Output::Expire(_))), "it is reported once: {again:?}");
    assert!(again.contains(&Output::WakeAt(at(100))), "{again:?}");
    table.now = at(20);
    table.tell(Input::Gone(vec![head(2, "g").id]));
    table.drain();
    let seqs: Vec<_> = table.order.iter().map(|pick| table.groups[&pick.job].seq).collect();
    assert_eq!(seqs, [1, 3, 4]);
    assert_eq!(table.scheduler.pending().manual, 0);
}

/// A queue is not finished as long as the end of its last job is not written.
#[test]
fn a_job_that_expires_is_counted_until_it_is_gone() {
    let mut table = Table::new(Scheme::default(), vec![]);
    table.tell(Input::Jobs(vec![JobHead { expires: Some(at(5)), ..head(1, "g") }]));
    table.now = at(6);
    table.tell(Input::Tick);
    assert_eq!(table.scheduler.pending().manual, 1);
    table.tell(Input::Jobs(vec![JobHead { fence: Fence(1), ..head(1, "g") }]));
    assert_eq!(table.scheduler.pending().manual, 0, "a person decided otherwise, and it waits again");
}

/// A dispatcher that takes over reads a suspect that runs already. When it ends, the other suspects rest for as long as this
/// dispatcher saw it run, not since the beginning of time.
#[test]
fn suspects_have_their_turn_again_after_a_hand_over() {
    let mut table = Table::one_slot();
    let suspect = |n: i64| JobHead { crashes: 2, ..head(n, "s") };
    let running =
        JobHead { state: JobState::Running, fence: Fence(1), node: Some(node(1, 1, &["t"]).incarnation), ..suspect(1) };
    table.tell(Input::Jobs(vec![running, suspect(2)]));
    table.tell(Input::Jobs((10..40).map(|n| head(n, "g")).collect()));
    table.now = at(3);
    let ended = Settled {
        id: head(1, "s").id,
        fence: Fence(1),
        ran: Some(Duration::from_secs(2)),
        rest: None,
        failed: false,
        well: true,
        error: None,
    };
    table.tell(Input::Settled(vec![ended]));
    for turn in 0..10 {
        let Some(pick) = table.order.get(turn).cloned() else { break };
        table.now = table.now.plus(Duration::from_secs(1));
        table.settle(&pick, Duration::from_secs(1), None);
    }
    let picked: Vec<_> = table.order.iter().map(|pick| table.groups[&pick.job].seq).collect();
    assert!(picked.contains(&2), "the second suspect had no turn among the others: {picked:?}");
}

#[test]
fn a_job_of_an_unknown_task_holds_a_serial_queue_and_why_says_so_first() {
    let mut table = Table::one_slot();
    table.tell(serial(OnError::Block));
    let unknown = JobHead { task: TaskName::new("nobody").unwrap(), ..head(1, "g") };
    table.tell(Input::Jobs(vec![unknown.clone(), head(2, "g")]));
    assert_eq!(table.scheduler.held_lines(), [(unknown.queue.clone(), unknown.id, unknown.task.clone())]);
    assert_eq!(table.scheduler.unknown_tasks().into_iter().collect::<Vec<_>>(), [(unknown.task.clone(), 1)]);
    let why = table.scheduler.why(table.now, head(2, "g").id, 10).unwrap();
    assert_eq!(why.gates, [Gate::HeldLine { queue: unknown.queue, first: unknown.id, task: unknown.task }]);
    assert_eq!(why.forecast, None);
    let of_the_first = table.scheduler.why(table.now, unknown.id, 10).unwrap().gates;
    assert_eq!(of_the_first, [Gate::UnknownTask]);
    // A node that knows it joins: the line moves.
    table.tell(Input::Nodes(vec![node(1, 1, &["t", "nobody"])]));
    assert_eq!((table.scheduler.held_lines(), table.scheduler.unknown_tasks().len()), (vec![], 0));
    assert_eq!(table.order.len(), 1);
}
