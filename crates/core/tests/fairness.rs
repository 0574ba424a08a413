//! Every group gets its share of time: the stated bound, and what follows from it.

use std::time::Duration;

use proptest::prelude::*;
use turnwise_core::{Node, Timestamp, settings::Fairness};

mod fleet;
mod table;
use fleet::{Fleet, Member};
use table::node;

fn cases() -> u32 {
    std::env::var("TURNWISE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(128)
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn fleet_node(number: u128, slots: u32, prefetch: u32) -> Node {
    Node { queue_capacity: prefetch, ..node(number, slots, &["t", "u", "v", "w", "x"]) }
}

/// Two groups since both are runnable: how far the first was ahead of the second, at least and at most.
#[derive(Debug, Clone)]
struct Together {
    begun: f64,
    least: f64,
    most: f64,
}

/// Watches a run, and compares the groups with each other.
struct Watch {
    pairs: Vec<(usize, usize, Option<Together>)>,
    /// Whether all groups began at this moment.
    level: bool,
}

impl Watch {
    fn new(groups: usize) -> Self {
        Self { pairs: (0..groups).flat_map(|i| (0..i).map(move |j| (i, j, None))).collect(), level: false }
    }

    /// All groups have just come, at the same moment, and none was there before.
    fn of_all_that_came(fleet: &Fleet) -> Result<Self, TestCaseError> {
        let mut watch = Self::new(fleet.members.len());
        watch.look(fleet)?;
        watch.level = true;
        Ok(watch)
    }

    /// All groups enter their line anew, each at the current virtual time or ahead of it.
    fn slots_changed(&mut self) {
        self.pairs.iter_mut().for_each(|(_, _, together)| *together = None);
    }

    fn look(&mut self, fleet: &Fleet) -> Result<(), TestCaseError> {
        let free = fleet.slot_free();
        for (group, books) in fleet.books.iter().enumerate() {
            prop_assert!(!(free && books.runnable()), "a slot idles while group {group} could run");
        }
        for (i, j, together) in &mut self.pairs {
            let (i, j) = (*i, *j);
            if !fleet.books[i].runnable() || !fleet.books[j].runnable() {
                *together = None;
                continue;
            }
            if self.level && together.is_none() {
                continue;
            }
            let apart = fleet.share(i) - fleet.share(j);
            let together = together.get_or_insert(Together { begun: apart, least: 0.0, most: 0.0 });
            let slack = |group: usize| {
                (1.0 + fleet.books[group].most_held as f64) * fleet.most(group) / f64::from(fleet.members[group].weight)
            };
            let bound = slack(i) + slack(j) + 1e-9;
            let since = apart - together.begun;
            together.least = together.least.min(since);
            together.most = together.most.max(since);
            let span = together.most - together.least;
            prop_assert!(span <= 2.0 * bound, "{i} and {j} came {span} apart; twice the bound is {}", 2.0 * bound);
            if self.level {
                prop_assert!(since.abs() <= bound, "{i} and {j} are {since} apart; the bound is {bound}");
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone)]
enum Step {
    Arrive { group: usize, jobs: usize },
    Limit { group: usize, limit: Option<u32> },
    Pause { group: usize, paused: bool },
    Live { nodes: u8 },
    Pass { millis: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let group = || 0usize..5;
    let step = prop_oneof![
        3 => (group(), 1usize..4).prop_map(|(group, jobs)| Step::Arrive { group, jobs }),
        4 => (group(), 20usize..120).prop_map(|(group, jobs)| Step::Arrive { group, jobs }),
        1 => (group(), proptest::option::of(1u32..4)).prop_map(|(group, limit)| Step::Limit { group, limit }),
        1 => (group(), any::<bool>()).prop_map(|(group, paused)| Step::Pause { group, paused }),
        1 => (0u8..8).prop_map(|nodes| Step::Live { nodes }),
        6 => (1u64..3_000).prop_map(|millis| Step::Pass { millis }),
    ];
    proptest::collection::vec(step, 5..40)
}

fn members() -> impl Strategy<Value = Vec<Member>> {
    let cost = prop_oneof![2 => 1u64..20, 1 => 1u64..300, 1 => 1u64..2_000];
    let member = (
        100u32..10_000,
        proptest::collection::vec(cost, 1..5),
        proptest::collection::vec(proptest::bool::weighted(0.2), 1..5),
        any::<bool>(),
    );
    proptest::collection::vec(member, 2..6).prop_map(|members| {
        let own = ["t", "u", "v", "w", "x"];
        let member = |(at, (weight, costs, fails, shared)): (usize, (u32, Vec<u64>, Vec<bool>, bool))| Member {
            task: if shared { "t" } else { own[at] },
            fails: if fails.iter().all(|fails| *fails) { vec![false] } else { fails },
            ..Member::new(f64::from(weight) / 1_000.0, costs.into_iter().map(millis))
        };
        members.into_iter().enumerate().map(member).collect()
    })
}

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let slots = proptest::collection::vec((1u32..4, prop_oneof![Just(0u32), 1u32..12]), 1..4);
    let node = |(n, (slots, prefetch))| fleet_node(n, slots, prefetch);
    slots.prop_map(move |slots| (1u128..).zip(slots).map(node).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// Even if jobs come late, fail, are held by a gate or lose their node: over any time in which two groups are runnable,
    /// what they were served divided by their weights differs by no more than 2·((1+Dᵢ)·mᵢ/wᵢ + (1+Dⱼ)·mⱼ/wⱼ). No limit is
    /// exceeded, no slot idles while a job may run, and in the end every job has run.
    #[test]
    fn served_time_stays_within_the_bound(members in members(), nodes in nodes(), steps in steps()) {
        let mut watch = Watch::new(members.len());
        let mut fleet = Fleet::new(members, nodes, Fairness::Time);
        go_through(&mut fleet, &mut watch, steps)?;
    }

    /// Half of that, as long as both are runnable, where they began at the same moment.
    #[test]
    fn groups_that_come_together_stay_within_half_of_it(members in members(), nodes in nodes(), steps in steps()) {
        let jobs: Vec<_> = (0..members.len()).map(|group| (group, 200)).collect();
        let mut fleet = Fleet::new(members, nodes, Fairness::Time);
        fleet.arrive(&jobs);
        let mut watch = Watch::of_all_that_came(&fleet)?;
        go_through(&mut fleet, &mut watch, steps)?;
    }
}

fn go_through(fleet: &mut Fleet, watch: &mut Watch, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let groups = fleet.members.len();
    for step in steps {
        match step {
            Step::Arrive { group, jobs } => fleet.arrive(&[(group % groups, jobs)]),
            Step::Limit { group, limit } => fleet.limit(group % groups, limit),
            Step::Pause { group, paused } => fleet.pause(group % groups, paused),
            Step::Live { nodes } => {
                fleet.live(|at| nodes & (1 << at) != 0);
                watch.slots_changed();
            }
            Step::Pass { millis: pass } => {
                let until = fleet.now.plus(millis(pass));
                while fleet.advance(until) {
                    watch.look(fleet)?;
                }
            }
        }
        watch.look(fleet)?;
    }
    for group in 0..groups {
        fleet.limit(group, None);
        fleet.pause(group, false);
    }
    fleet.live(|_| true);
    watch.slots_changed();
    while !fleet.is_empty() {
        watch.look(fleet)?;
        prop_assert!(fleet.advance(Timestamp::MAX), "jobs are left, and nothing happens any more");
    }
    Ok(())
}

/// How many turns one group gets while another stays runnable and gets none, at most.
fn most_turns_in_a_row(fleet: &mut Fleet, of: usize, while_waits: usize) -> usize {
    let (mut most, mut begun) = (0, fleet.books[of].turns);
    let mut waits = fleet.books[while_waits].turns;
    while fleet.books[of].runnable() && fleet.advance(Timestamp::MAX) {
        if !fleet.books[while_waits].runnable() || fleet.books[while_waits].turns > waits {
            (begun, waits) = (fleet.books[of].turns, fleet.books[while_waits].turns);
        }
        most = most.max(fleet.books[of].turns - begun);
    }
    most
}

/// The third group was at its limit when the first came, so that the virtual time contained its jobs in flight by their estimates;
/// when the second came, it was not.
#[test]
fn two_that_come_while_a_third_is_at_its_limit_and_after_begin_level() {
    let fails = vec![true, false];
    let first = Member { fails: fails.clone(), ..Member::new(4.382, [millis(1), millis(5)]) };
    let second = Member { task: "u", fails, ..Member::new(0.218, [millis(2)]) };
    let third = Member { task: "v", ..Member::new(0.1, [millis(74)]) };
    let nodes = vec![fleet_node(1, 2, 1), fleet_node(2, 2, 2)];
    let mut fleet = Fleet::new(vec![first, second, third], nodes, Fairness::Time);
    fleet.arrive(&[(2, 1)]);
    fleet.arrive(&[(0, 1)]);
    let until = fleet.now.plus(millis(74));
    while fleet.advance(until) {}
    fleet.limit(2, Some(2));
    fleet.arrive(&[(2, 20)]);
    fleet.arrive(&[(0, 3)]);
    fleet.limit(2, None);
    fleet.arrive(&[(1, 20)]);
    let turns = most_turns_in_a_row(&mut fleet, 1, 0);
    assert!(turns <= 4, "the second had {turns} turns while the first, of twenty times the weight, waited");
}

/// The unused charge of long jobs in flight gives a group no head start over a group with short jobs.
#[test]
fn a_late_group_gets_no_credit_for_what_a_third_has_in_flight() {
    for turns_before in 200..260 {
        let short = Member { task: "u", ..Member::new(1.0, [millis(10)]) };
        let long = Member::new(1.0, [millis(1_000)]);
        let members = vec![long, short.clone(), short];
        let mut fleet = Fleet::new(members, vec![fleet_node(1, 20, 0)], Fairness::Time);
        fleet.arrive(&[(0, 100), (1, 3_000)]);
        for _ in 0..turns_before {
            fleet.step();
        }
        fleet.arrive(&[(2, 1_000)]);
        let turns = most_turns_in_a_row(&mut fleet, 2, 1);
        assert!(turns <= 40, "after {turns_before} ends the late group had {turns} turns while the other waited");
    }
}

/// Groups with endless work on a few slots.
fn endless(members: Vec<Member>, slots: u32, fairness: Fairness) -> Fleet {
    let jobs: Vec<_> = (0..members.len()).map(|group| (group, 1_500)).collect();
    let mut fleet = Fleet::new(members, vec![fleet_node(1, slots, 0)], fairness);
    fleet.arrive(&jobs);
    fleet
}

/// A group whose jobs take 34 times as long gets its share of time and no more; where turns are counted it takes nearly all.
#[test]
fn long_jobs_do_not_buy_a_larger_share() {
    let share = |fairness| {
        let mut members = vec![Member::new(1.0, [millis(10)]); 100];
        members[0] = Member::new(1.0, [millis(340)]);
        let mut fleet = endless(members, 4, fairness);
        for _ in 0..60_000 {
            fleet.step();
        }
        let total: Duration = fleet.books.iter().map(|books| books.served).sum();
        fleet.books[0].served.as_secs_f64() / total.as_secs_f64()
    };
    let by_time = share(Fairness::Time);
    assert!((by_time - 0.01).abs() < 0.0005, "{by_time}");
    let by_turns = share(Fairness::Turns);
    assert!((by_turns - 34.0 / 133.0).abs() < 0.01, "{by_turns}");
}

#[test]
fn weights_divide_the_time() {
    let members = [1.0, 2.0, 5.0].map(|weight| Member::new(weight, [millis(20)])).to_vec();
    let mut fleet = endless(members, 2, Fairness::Time);
    for _ in 0..1_600 {
        fleet.step();
    }
    let total: f64 = fleet.books.iter().map(|books| books.served.as_secs_f64()).sum();
    let shares: Vec<f64> = fleet.books.iter().map(|books| books.served.as_secs_f64() / total).collect();
    for (share, entitled) in shares.iter().zip([0.125, 0.25, 0.625]) {
        assert!((share - entitled).abs() < 0.01, "{shares:?}");
    }
}

/// At every size: once the total is twenty bounds, no group is further from its share than a twentieth of that; and with few
/// groups, once a share is twenty bounds, it is met within a twentieth of itself.
#[test]
fn jobs_34_times_as_long_come_to_their_share_at_every_size() {
    for (groups, slots, prefetch) in [(2, 1, 0), (2, 4, 0), (5, 4, 0), (5, 4, 10), (20, 8, 0), (100, 16, 0)] {
        let short = Member { task: "u", ..Member::new(1.0, [millis(5)]) };
        let mut members = vec![short; groups];
        members[0] = Member::new(1.0, [millis(170)]);
        let mut fleet = Fleet::new(members, vec![fleet_node(1, slots, prefetch)], Fairness::Time);
        let mut met = false;
        while !met {
            // No group runs out of jobs.
            for group in 0..groups {
                if fleet.books[group].ready < 100 {
                    fleet.arrive(&[(group, 400)]);
                }
            }
            for _ in 0..50 {
                fleet.step();
            }
            let slack = |group: usize| (1.0 + fleet.books[group].most_held as f64) * fleet.most(group);
            let bound = slack(0) + (1..groups).map(slack).fold(0.0, f64::max);
            let total: f64 = fleet.books.iter().map(|books| books.served.as_secs_f64()).sum();
            let entitled = total / groups as f64;
            let (enough, allowed) = match groups {
                ..=5 => (entitled >= 20.0 * bound, entitled / 20.0),
                _ => (total >= 20.0 * bound, total / 20.0),
            };
            for (group, books) in fleet.books.iter().enumerate() {
                let apart = (books.served.as_secs_f64() - entitled).abs();
                let size = format!("{groups} groups on {slots} slots, {prefetch} ahead");
                assert!(apart <= bound, "{size}: {group} is {apart} s from its share; the bound is {bound}");
                assert!(!enough || apart <= allowed, "{size}: {group} is {apart} s from its {entitled} s");
            }
            met = enough;
        }
    }
}
