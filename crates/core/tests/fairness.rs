//! Every group gets its share of time: the stated bound, and what follows from it.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::Duration,
};

use proptest::prelude::*;
use turnwise_core::{
    GroupName, JobHead, JobId, QueueName, Timestamp,
    scheduler::{Input, Output, Pick, Reply, Scheduler, Settled},
    settings::{Fairness, GroupSettings, QueueSettings, Settings, Weight},
    turn::Scheme,
};
use uuid::Uuid;

mod table;
use table::{head, node};

/// When, a number that breaks ties, whose, how long, which job at which fence.
type End = (Timestamp, u64, usize, Duration, JobId, i64);

/// Groups with endless work on a few slots, in virtual time.
struct World {
    scheduler: Scheduler,
    now: Timestamp,
    ends: BinaryHeap<Reverse<End>>,
    group_of: HashMap<JobId, usize>,
    costs: Vec<Vec<Duration>>,
    begun: Vec<usize>,
    served: Vec<Duration>,
    longest: Vec<Duration>,
    count: u64,
}

impl World {
    fn new(weights: &[Weight], costs: Vec<Vec<Duration>>, slots: u32, prefetch: u32, fairness: Fairness) -> Self {
        let mut scheduler = Scheduler::new(Scheme::default(), 50);
        let now = table::at(10);
        let name = |group: usize| GroupName::new(format!("g{group}")).unwrap();
        let mut settings = Settings::default();
        settings.queues.insert(QueueName::default(), QueueSettings { fairness, ..QueueSettings::default() });
        for (group, weight) in weights.iter().enumerate() {
            settings.groups.insert(name(group), GroupSettings { weight: *weight, ..GroupSettings::default() });
        }
        scheduler.handle(now, Input::Settings(settings));
        let groups = costs.len();
        let mut world = Self {
            scheduler,
            now,
            ends: BinaryHeap::new(),
            group_of: HashMap::new(),
            begun: vec![0; groups],
            served: vec![Duration::ZERO; groups],
            longest: vec![Duration::from_millis(10); groups],
            costs,
            count: 0,
        };
        let mut heads = Vec::new();
        for group in 0..groups {
            for n in 0..1_500 {
                let number = i64::try_from(group * 100_000 + n).unwrap();
                let head = JobHead { id: JobId(Uuid::from_u128(number as u128)), ..head(number, name(group).as_str()) };
                world.group_of.insert(head.id, group);
                heads.push(head);
            }
        }
        world.tell(Input::Jobs(heads));
        let mut node = node(1, slots, &["t"]);
        node.queue_capacity = prefetch;
        world.tell(Input::Nodes(vec![node]));
        world
    }

    fn tell(&mut self, input: Input) {
        let mut outputs = self.scheduler.handle(self.now, input);
        while let Some(Output::Assign(picks)) = outputs.into_iter().find(|output| matches!(output, Output::Assign(_))) {
            let replies = picks.iter().map(|pick| (pick.job, Reply::Assigned(pick.fence.next()))).collect();
            picks.into_iter().for_each(|pick| self.start(pick));
            outputs = self.scheduler.handle(self.now, Input::Replied(replies));
        }
    }

    fn start(&mut self, pick: Pick) {
        let group = self.group_of[&pick.job];
        let cost = self.costs[group][self.begun[group] % self.costs[group].len()];
        self.begun[group] += 1;
        self.longest[group] = self.longest[group].max(cost);
        self.count += 1;
        self.ends.push(Reverse((self.now.plus(cost), self.count, group, cost, pick.job, pick.fence.next().0)));
    }

    /// The next run ends; its time counts as served.
    fn step(&mut self) {
        let Reverse((at, _, group, cost, job, fence)) = self.ends.pop().expect("there is always work");
        self.now = at;
        self.served[group] += cost;
        let settled =
            Settled { id: job, fence: turnwise_core::Fence(fence), ran: Some(cost), rest: None, failed: false };
        self.tell(Input::Settled(vec![settled]));
    }

    fn in_flight(&self, group: usize) -> usize {
        self.ends.iter().filter(|Reverse(end)| end.2 == group).count()
    }
}

fn cases() -> u32 {
    std::env::var("TURNWISE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(128)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// For groups that have work all the time, served time divided by weight differs by at most
    /// (1+Dᵢ)·mᵢ/wᵢ + (1+Dⱼ)·mⱼ/wⱼ, with m the longest of a group's jobs and of the estimate of its task, and D the most
    /// jobs it had in flight.
    #[test]
    fn served_time_stays_within_the_bound(
        weights in proptest::collection::vec(100u32..10_000, 2..6),
        seeds in proptest::collection::vec(proptest::collection::vec(1u64..2_000, 1..6), 6),
        slots in 1u32..6,
    ) {
        let weights: Vec<Weight> = weights.iter().map(|w| Weight::try_from(f64::from(*w) / 1000.0).unwrap()).collect();
        let costs: Vec<Vec<Duration>> = seeds[..weights.len()].iter().map(|costs| costs.iter().map(|ms| Duration::from_millis(*ms)).collect()).collect();
        let mut world = World::new(&weights, costs, slots, 0, Fairness::Time);
        let mut most = vec![0usize; weights.len()];
        for _ in 0..600 {
            for (group, most) in most.iter_mut().enumerate() {
                *most = (*most).max(world.in_flight(group));
            }
            world.step();
            // One task for all groups: its estimate may be anybody's cost.
            let estimate = world.longest.iter().max().unwrap().as_secs_f64();
            let share = |group: usize| world.served[group].as_secs_f64() / f64::from(weights[group]);
            let slack = |group: usize| (1.0 + most[group] as f64) * estimate.max(world.longest[group].as_secs_f64()) / f64::from(weights[group]);
            for i in 0..weights.len() {
                for j in 0..i {
                    let (apart, bound) = ((share(i) - share(j)).abs(), slack(i) + slack(j));
                    prop_assert!(apart <= bound + 1e-9, "groups {i} and {j} are {apart} apart, the bound is {bound}");
                }
            }
        }
    }
}

/// A group whose jobs take 34 times as long gets its share of time and no more; where turns are counted it takes nearly all.
#[test]
fn long_jobs_do_not_buy_a_larger_share() {
    let share = |fairness| {
        let mut costs = vec![vec![Duration::from_millis(10)]; 100];
        costs[0] = vec![Duration::from_millis(340)];
        let mut world = World::new(&[Weight::default(); 100], costs, 4, 0, fairness);
        for _ in 0..60_000 {
            world.step();
        }
        let total: Duration = world.served.iter().sum();
        world.served[0].as_secs_f64() / total.as_secs_f64()
    };
    let by_time = share(Fairness::Time);
    assert!((by_time - 0.01).abs() < 0.0005, "{by_time}");
    let by_turns = share(Fairness::Turns);
    assert!((by_turns - 34.0 / 133.0).abs() < 0.01, "{by_turns}");
}

#[test]
fn weights_divide_the_time() {
    let weights: Vec<Weight> = [1.0, 2.0, 5.0].map(|weight| Weight::try_from(weight).unwrap()).to_vec();
    let mut world = World::new(&weights, vec![vec![Duration::from_millis(20)]; 3], 2, 0, Fairness::Time);
    for _ in 0..1_600 {
        world.step();
    }
    let total: f64 = world.served.iter().map(Duration::as_secs_f64).sum();
    let shares: Vec<f64> = world.served.iter().map(|served| served.as_secs_f64() / total).collect();
    for (share, entitled) in shares.iter().zip([0.125, 0.25, 0.625]) {
        assert!((share - entitled).abs() < 0.01, "{shares:?}");
    }
}
