//! How much there is: what the scheduler keeps as jobs come and go is what counting them one by one would give.

use std::{collections::BTreeMap, time::Duration};

use proptest::{collection::vec, prelude::*};
use turnwise_core::{
    Fence, GroupName, JobHead, JobState, KeyName, QueueName, TaskName,
    scheduler::{Input, Output, Reply, Rest, Scheduler, Settled},
    settings::{Concurrency, QueueSettings, Settings},
    totals::{GROUPS, Tally, Totals},
};

mod table;

use table::{Table, at, head, node};

fn tally(waiting: usize, scheduled: usize, running: usize, stuck: usize) -> Tally {
    let mut tally = Tally::default();
    (tally.waiting, tally.scheduled, tally.running, tally.stuck) = (waiting, scheduled, running, stuck);
    tally
}

fn named<N: Ord + Clone>(counts: &[(N, Tally)]) -> BTreeMap<N, Tally> {
    counts.iter().cloned().collect()
}

fn group(totals: &Totals, name: &str) -> Tally {
    totals.groups.iter().find(|group| group.name.as_str() == name).map(|group| group.jobs).unwrap_or_default()
}

#[test]
fn jobs_are_counted_where_they_are_from_their_arrival_to_their_end() {
    let mut scheduler = Scheduler::new(10);
    let mut tell = |input| scheduler.handle(at(1), input);
    tell(Input::Nodes(vec![node(1, 2, &["t"])]));
    let stuck = JobHead { state: JobState::Stuck, ..head(4, "b") };
    let outputs = tell(Input::Jobs(vec![head(1, "a"), head(2, "a"), head(3, "a"), stuck]));
    let picks = outputs.into_iter().find_map(|output| match output {
        Output::Assign(picks) => Some(picks),
        _ => None,
    });
    let picks = picks.expect("there is room for two");
    tell(Input::Replied(picks.iter().map(|pick| (pick.job, pick.fence, Reply::Assigned(Fence(1)))).collect()));
    let totals = scheduler.totals();
    assert_eq!(totals.all, tally(2, 0, 2, 0), "a stuck job that a node has got is stuck no more");
    assert_eq!((group(&totals, "a").jobs(), group(&totals, "b").jobs()), (3, 1));
    assert_eq!((group(&totals, "a").in_hand(), group(&totals, "b").in_hand()), (1, 1));
    let rest = Some(Rest { stuck: true, due: None, crashes: 0, next: TaskName::new("u").ok() });
    let ran = Some(Duration::from_secs(1));
    let settled = |at: usize, rest| Settled {
        id: picks[at].job,
        fence: Fence(1),
        ran,
        rest,
        failed: false,
        well: true,
        error: None,
    };
    // The slots that this frees are given to the two that waited.
    scheduler.handle(at(2), Input::Settled(vec![settled(0, rest), settled(1, None)]));
    let totals = scheduler.totals();
    assert_eq!(totals.all, tally(0, 0, 2, 1));
    let tasks = named(&totals.tasks);
    assert_eq!(tasks[&TaskName::new("u").unwrap()], tally(0, 0, 0, 1), "it goes on as another task");
    assert_eq!(tasks[&TaskName::new("t").unwrap()].jobs(), 2);
    assert!(totals.complete && totals.names_all_groups() && totals.names_all_but_groups());
}

#[test]
fn of_many_groups_the_largest_are_named_and_those_that_nodes_work_for() {
    let mut table = Table::one_slot();
    let many = i64::try_from(GROUPS).unwrap() + 100;
    // Every second group has two jobs.
    let names = (0..many).flat_map(|n| std::iter::repeat_n(n, 1 + usize::from(n % 2 == 0)));
    let heads = (1..).zip(names).map(|(at, n)| head(at, &format!("g{n:04}")));
    table.tell(Input::Loading(true));
    table.tell(Input::Jobs(heads.collect()));
    table.tell(Input::Jobs(vec![head(9_999, "z")]));
    let totals = table.scheduler.totals();
    assert!(!totals.complete, "the backlog is still being read");
    assert_eq!(totals.known.groups, GROUPS + 101);
    assert!(!totals.names_all_groups() && totals.names_all_but_groups());
    let two = (many + 1) / 2;
    assert_eq!(totals.groups.iter().filter(|group| group.jobs.jobs() == 2).count(), usize::try_from(two).unwrap());
    assert!(totals.groups.len() <= GROUPS + 1, "one job is in a node's hands");
    assert!(totals.groups.iter().any(|group| group.jobs.in_hand() == 1));
    assert!(totals.groups.is_sorted_by_key(|group| std::cmp::Reverse(group.jobs.jobs())));
    let text = serde_json::to_string(&totals).unwrap();
    assert_eq!(serde_json::from_str::<Totals>(&text).unwrap(), totals);
}

#[test]
fn a_serial_queue_that_is_held_up_is_named() {
    let mut scheduler = Scheduler::new(10);
    let serial = QueueSettings { concurrency: Concurrency::Serial, ..QueueSettings::default() };
    let settings = Settings { queues: [(QueueName::new("line").unwrap(), serial)].into(), ..Settings::default() };
    scheduler.handle(at(1), Input::Settings(settings));
    scheduler.handle(at(1), Input::Nodes(vec![node(1, 1, &["t"])]));
    let first = JobHead { queue: QueueName::new("line").unwrap(), task: TaskName::new("u").unwrap(), ..head(1, "g") };
    scheduler.handle(at(1), Input::Jobs(vec![first.clone()]));
    let totals = scheduler.totals();
    assert_eq!((totals.held.len(), totals.held[0].job), (1, first.id));
    let text = serde_json::to_string(&totals).unwrap();
    assert_eq!(serde_json::from_str::<Totals>(&text).unwrap(), totals);
}

const NAMES: [&str; 3] = ["x", "y", "z"];

fn any_head() -> impl Strategy<Value = JobHead> {
    (1..6_i64, 0..3_usize, 0..3_usize, 0..3_usize, any::<bool>(), 0..4_i64, any::<bool>(), any::<bool>()).prop_map(
        |(n, queue, group, task, stuck, fence, key, expires)| JobHead {
            queue: QueueName::new(NAMES[queue]).unwrap(),
            task: TaskName::new(NAMES[task]).unwrap(),
            state: if stuck { JobState::Stuck } else { JobState::Waiting },
            key: key.then(|| KeyName::new("k").unwrap()),
            fence: Fence(fence),
            expires: expires.then(|| at(5)),
            ..head(n, NAMES[group])
        },
    )
}

proptest! {
    /// Jobs come, come again as something else, expire and go.
    #[test]
    fn the_totals_are_what_counting_one_by_one_gives(steps in vec((any_head(), any::<bool>(), 1..9_u64), 1..40)) {
        let mut scheduler = Scheduler::new(10);
        let mut known: BTreeMap<_, JobHead> = BTreeMap::new();
        let mut now = at(0);
        for (next, goes, time) in steps {
            now = now.max(at(time));
            if goes {
                known.remove(&next.id);
                scheduler.handle(now, Input::Gone(vec![next.id]));
            } else {
                // A row that is not newer than what is known changes nothing.
                if known.get(&next.id).is_none_or(|old| old.fence < next.fence) {
                    known.insert(next.id, next.clone());
                    scheduler.handle(now, Input::Jobs(vec![next]));
                } else {
                    scheduler.handle(now, Input::Tick);
                }
            }
            let (mut all, mut queues, mut groups, mut tasks, mut keys) =
                (Tally::default(), BTreeMap::new(), BTreeMap::<GroupName, Tally>::new(), BTreeMap::new(), BTreeMap::new());
            for head in known.values() {
                all.add(head.state);
                queues.entry(head.queue.clone()).or_insert_with(Tally::default).add(head.state);
                groups.entry(head.group.clone()).or_default().add(head.state);
                tasks.entry(head.task.clone()).or_insert_with(Tally::default).add(head.state);
                if let Some(key) = &head.key {
                    keys.entry(key.clone()).or_insert_with(Tally::default).add(head.state);
                }
            }
            let totals = scheduler.totals();
            prop_assert_eq!(totals.all, all);
            prop_assert_eq!(named(&totals.queues), queues);
            prop_assert_eq!(named(&totals.tasks), tasks);
            prop_assert_eq!(named(&totals.keys), keys);
            let counted: BTreeMap<_, _> = totals.groups.iter().map(|group| (group.name.clone(), group.jobs)).collect();
            prop_assert_eq!(counted, groups);
        }
    }
}
