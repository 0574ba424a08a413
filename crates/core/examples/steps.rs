//! What the scheduler costs a job, step by step:
//! `cargo run --release -p turnwise-core --example steps [jobs] [groups] [turns|time] [micros]`.
//!
//! Each run takes up to `micros` microseconds, 150 by default. Pages of ten thousand come, batches of a thousand are picked,
//! answered and settled, as in a dispatcher that drains a backlog. Prints nanoseconds per job. Instructions are counted by
//! `valgrind --tool=callgrind`, inclusive of what `arrive`, `replied`, `settled` and `tick` call, and they are the same on every
//! machine:
//!
//! ```text
//! valgrind --tool=callgrind --callgrind-out-file=/tmp/steps.out target/release/examples/steps 100000 1000 turns
//! callgrind_annotate --inclusive=yes /tmp/steps.out | grep steps::
//! ```

#![allow(clippy::print_stdout, clippy::cast_precision_loss)] // it is a program

use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use turnwise_core::{
    Fence, GroupName, Incarnation, JobHead, JobId, JobState, Node, NodeName, Priority, QueueName, Serves, TaskName,
    Timestamp,
    node::Host,
    scheduler::{Input, Output, Pick, Reply, Scheduler, Settled},
    settings::{Fairness, QueueSettings, Settings},
};
use uuid::Uuid;

const PAGE: u64 = 10_000;
const BATCH: usize = 1_000;

fn main() {
    let mut words = std::env::args().skip(1);
    let mut number = |usual| words.next().map_or(usual, |word| word.parse().expect("a number"));
    let (jobs, groups): (u64, u64) = (number(100_000), number(1_000));
    let fairness = match words.next().as_deref() {
        Some("time") => Fairness::Time,
        _ => Fairness::Turns,
    };
    let most: u64 = words.next().map_or(150, |word| word.parse().expect("a number"));
    let mut drain = Drain {
        scheduler: Scheduler::new(BATCH),
        now: Timestamp::from_micros(1_800_000_000_000_000),
        on_their_way: VecDeque::new(),
        running: VecDeque::new(),
        spent: [Duration::ZERO; 4],
    };
    let queue = QueueSettings { fairness, ..QueueSettings::default() };
    let settings = Settings { queues: [(QueueName::default(), queue)].into(), ..Settings::default() };
    if std::env::var_os("WITHOUT_STATISTICS").is_none() {
        drain.scheduler.keep_statistics(drain.now);
    }
    drain.scheduler.handle(drain.now, Input::Settings(settings));
    drain.scheduler.handle(drain.now, Input::Nodes(vec![node()]));
    drain.scheduler.handle(drain.now, Input::Loading(true));
    let names: Vec<GroupName> = (0..groups).map(|n| GroupName::new(format!("g{n}")).expect("a good name")).collect();
    let mut chance = Chance(7);
    let mut submitted = 0;
    while submitted < jobs {
        let page = submitted..(submitted + PAGE).min(jobs);
        let heads = page.map(|number| head(number, &names, &mut chance)).collect();
        submitted += PAGE;
        drain.step(0, Scheduler::arrive, heads);
        drain.go_on();
    }
    drain.scheduler.handle(drain.now, Input::Loading(false));
    let mut ended = 0;
    while !drain.scheduler.is_empty() {
        drain.now = drain.now.plus(Duration::from_micros(500));
        drain.go_on();
        let count = drain.running.len().min(BATCH);
        let ends = drain.running.drain(..count).map(|(id, fence)| Settled {
            id,
            fence,
            ran: Some(Duration::from_micros(chance.next() % most)),
            rest: None,
            failed: false,
            well: true,
            error: None,
        });
        let ends: Vec<Settled> = ends.collect();
        ended += ends.len() as u64;
        drain.step(3, Scheduler::settled, ends);
    }
    assert_eq!(ended, jobs, "each job ends once");
    let [arrive, tick, replied, settled] = drain.spent.map(|spent| spent.as_nanos() as f64 / jobs as f64);
    println!("ns/job: arrive {arrive:.0}, tick {tick:.0}, replied {replied:.0}, settled {settled:.0}");
}

/// A dispatcher, as its scheduler sees it.
struct Drain {
    scheduler: Scheduler,
    now: Timestamp,
    on_their_way: VecDeque<Vec<Pick>>,
    running: VecDeque<(JobId, Fence)>,
    /// Per step.
    spent: [Duration; 4],
}

impl Drain {
    fn step<T>(&mut self, step: usize, call: fn(&mut Scheduler, Timestamp, T) -> Vec<Output>, what: T) {
        let begun = Instant::now();
        let outputs = call(&mut self.scheduler, self.now, what);
        self.spent[step] += begun.elapsed();
        for output in outputs {
            if let Output::Assign(picks) = output {
                self.on_their_way.push_back(picks);
            }
        }
    }

    /// Two batches are in flight, as in `give.rs`.
    fn go_on(&mut self) {
        loop {
            if self.on_their_way.len() == 1 {
                self.step(1, |scheduler, now, ()| scheduler.tick(now), ());
            }
            let Some(picks) = self.on_their_way.pop_front() else { return };
            let replies = picks.iter().map(|pick| (pick.job, pick.fence, Reply::Assigned(pick.fence.next()))).collect();
            self.running.extend(picks.iter().map(|pick| (pick.job, pick.fence.next())));
            self.step(2, Scheduler::replied, replies);
        }
    }
}

/// Each step by name, for the profile. A step picks, too, as far as there is room.
trait Steps {
    fn arrive(&mut self, now: Timestamp, heads: Vec<JobHead>) -> Vec<Output>;
    fn tick(&mut self, now: Timestamp) -> Vec<Output>;
    fn replied(&mut self, now: Timestamp, replies: Vec<(JobId, Fence, Reply)>) -> Vec<Output>;
    fn settled(&mut self, now: Timestamp, ends: Vec<Settled>) -> Vec<Output>;
}

impl Steps for Scheduler {
    #[inline(never)]
    fn arrive(&mut self, now: Timestamp, heads: Vec<JobHead>) -> Vec<Output> {
        self.handle(now, Input::Jobs(heads))
    }

    #[inline(never)]
    fn tick(&mut self, now: Timestamp) -> Vec<Output> {
        self.handle(now, Input::Tick)
    }

    #[inline(never)]
    fn replied(&mut self, now: Timestamp, replies: Vec<(JobId, Fence, Reply)>) -> Vec<Output> {
        self.handle(now, Input::Replied(replies))
    }

    #[inline(never)]
    fn settled(&mut self, now: Timestamp, ends: Vec<Settled>) -> Vec<Output> {
        self.handle(now, Input::Settled(ends))
    }
}

/// The same numbers each time (splitmix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

fn node() -> Node {
    Node {
        incarnation: Incarnation(Uuid::from_u128(1)),
        name: NodeName::new("n").expect("a good name"),
        host: Host {
            name: String::new(),
            boot_id: String::new(),
            pid_namespace: String::new(),
            pid: 1,
            started: 1,
            version: None,
        },
        slots: 8,
        queue_capacity: 10_000,
        batch_size: None,
        queues: Serves::All,
        tasks: BTreeSet::from([TaskName::new("t").expect("a good name")]),
        joined_at: Timestamp::MIN,
        lease: std::time::Duration::from_secs(5),
        lease_until: Timestamp::MAX,
        lost: false,
        dispatcher: true,
    }
}

/// As a row of a page: its names are shared with the other rows.
fn head(number: u64, groups: &[GroupName], chance: &mut Chance) -> JobHead {
    thread_local! {
        static NAMES: (TaskName, QueueName) = (TaskName::new("t").expect("a good name"), QueueName::default());
    }
    let (task, queue) = NAMES.with(|(task, queue)| (task.clone(), queue.clone()));
    let at = Timestamp::from_micros(1_700_000_000_000_000 + i64::try_from(number).expect("small") * 10);
    let random = [chance.next(), chance.next()].map(u64::to_le_bytes).concat();
    let random: [u8; 10] = random[..10].try_into().expect("ten of sixteen");
    JobHead {
        id: JobId::from_parts(u64::try_from(at.micros() / 1_000).expect("long after 1970"), random),
        seq: i64::try_from(number).expect("small"),
        task,
        queue,
        group: groups[usize::try_from(number).expect("small") % groups.len()].clone(),
        priority: Priority::default(),
        state: JobState::Waiting,
        due: Some(at),
        fence: Fence(0),
        crashes: 0,
        node: None,
        key: None,
        submitted_at: at,
        expires: None,
        args_bytes: 0,
        awaits: None,
    }
}
