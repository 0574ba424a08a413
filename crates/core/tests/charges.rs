//! The charge is honest: a group pays for the slot time it used, and for nothing else.

use std::time::Duration;

use turnwise_core::{
    Fence, JobHead, JobState, Node, Priority, TaskName,
    scheduler::{Input, Pick, Reply, Rest, Scheduler, Settled},
    settings::{Fairness, GroupSettings, LimitSettings, Settings, Weight},
    turn::Scheme,
};

mod fleet;
mod table;
use fleet::{Fleet, Member};
use table::{Table, at, head, node};

fn second() -> Duration {
    Duration::from_secs(1)
}

/// One slot, and a task that is known to take a second: both groups have had a job.
fn two_groups_in_balance() -> Table {
    let mut table = Table::one_slot();
    table.tell(Input::Jobs(vec![head(1, "a"), head(2, "b")]));
    for at in 0..2 {
        let pick = table.order[at].clone();
        table.now = table.now.plus(second());
        table.settle(&pick, second(), None);
    }
    table
}

fn settled(pick: &Pick, ran: Option<Duration>, rest: Option<Rest>) -> Input {
    Input::Settled(vec![Settled {
        id: pick.job,
        fence: pick.fence.next(),
        ran,
        rest,
        failed: false,
        well: true,
        error: None,
    }])
}

/// A node gives back a job that has lain in its buffer for a second, and one that was cancelled before it began.
#[test]
fn a_job_that_never_began_costs_its_group_nothing() {
    let mut table = two_groups_in_balance();
    table.tell(Input::Jobs((11..30).flat_map(|n| [head(n, "a"), head(n + 20, "b")]).collect()));
    let mut runs = [0_i32, 0];
    let mut handed_back = 0;
    for turn in 2..22 {
        let pick = table.order[turn].clone();
        let group = usize::from(table.groups[&pick.job].group.as_str() == "b");
        if group == 0 && handed_back < 5 {
            handed_back += 1;
            let waiting = Rest { stuck: false, due: Some(at(0)), crashes: 0, next: None };
            table.tell(settled(&pick, None, Some(waiting)));
        } else {
            runs[group] += 1;
            table.now = table.now.plus(second());
            table.tell(settled(&pick, Some(second()), None));
        }
    }
    assert_eq!(handed_back, 5);
    assert!(runs[0].abs_diff(runs[1]) <= 1, "of {} turns of equal groups they got {runs:?}", runs[0] + runs[1]);
}

/// Cancelled or changed between the pick and its assignment.
#[test]
fn a_pick_that_came_to_nothing_costs_its_group_nothing() {
    let mut scheduler = Scheduler::new(10);
    let mut now = at(1);
    scheduler.handle(now, Input::Nodes(vec![node(1, 1, &["t"])]));
    // The first run shows that the task takes a second.
    scheduler.handle(now, Input::Jobs(vec![head(1, "b")]));
    scheduler.handle(now, Input::Replied(vec![(head(1, "b").id, Fence(0), Reply::Assigned(Fence(1)))]));
    now = now.plus(second());
    let first = Settled {
        id: head(1, "b").id,
        fence: Fence(1),
        ran: Some(second()),
        rest: None,
        failed: false,
        well: true,
        error: None,
    };
    scheduler.handle(now, Input::Settled(vec![first]));
    scheduler.handle(now, Input::Jobs(vec![head(11, "a")]));
    scheduler.handle(now, Input::Replied(vec![(head(11, "a").id, Fence(0), Reply::Gone)]));
    assert_eq!(scheduler.charges().iter().find(|charge| charge.group.as_str() == "a"), None);
}

/// A run of which a hundred seconds were expected, and one was used.
#[test]
fn a_run_that_is_lost_with_its_node_costs_what_it_used() {
    let mut table = Table::one_slot();
    table.tell(Input::Jobs(vec![head(1, "b")]));
    let first = table.order[0].clone();
    table.now = table.now.plus(second() * 100);
    table.settle(&first, second() * 100, None);
    table.tell(Input::Jobs(vec![head(11, "a")]));
    table.now = table.now.plus(second());
    table.tell(Input::Nodes(vec![]));
    table.tell(Input::Jobs(vec![JobHead { fence: Fence(2), ..head(11, "a") }]));
    let charged = table.scheduler.charges().into_iter().find(|charge| charge.group.as_str() == "a");
    let charged = charged.map_or(0.0, |charge| charge.ahead.seconds());
    assert!(charged <= 2.0, "{charged} s are charged for a run of one");
}

/// Short jobs that lie in a node's buffer behind a long run of another group use no slot meanwhile.
#[test]
fn a_job_that_lies_in_a_buffer_is_not_charged_as_if_it_ran() {
    let ms = Duration::from_millis;
    let long = Member { task: "u", ..Member::new(1.0, [ms(1), ms(1), ms(1), ms(1), second() * 20]) };
    let behind = Member { task: "t", ..Member::new(1.0, [ms(1)]) };
    let other = Member { task: "v", ..Member::new(1.0, [ms(1)]) };
    let buffered = Node { queue_capacity: 10, ..node(1, 1, &["t", "u"]) };
    let plain = node(2, 1, &["t", "v"]);
    let mut fleet = Fleet::new(vec![long, behind, other], vec![buffered, plain], Fairness::Time);
    fleet.arrive(&[(0, 5), (1, 50_000), (2, 50_000)]);
    let until = fleet.now.plus(second() * 10);
    while fleet.advance(until) {}
    // The second node has worked for ten seconds: for each of them about five.
    let (behind, other) = (fleet.share(1), fleet.share(2));
    let bound = 2.0 * (1.0 + 12.0) * 0.01;
    assert!((behind - other).abs() <= bound, "{behind} s and {other} s, and the bound is {bound} s");
}

/// A group that always has one job running and the next one just submitted uses one of four slots, by its own choice.
#[test]
fn one_job_at_a_time_earns_no_credit() {
    let member = Member::new(1.0, [second()]);
    let mut fleet = Fleet::new(vec![member.clone(), member], vec![node(1, 4, &["t"])], Fairness::Time);
    fleet.arrive(&[(0, 1), (1, 5_000)]);
    for _ in 0..1_000 {
        let until = fleet.now.plus(second() / 2);
        while fleet.advance(until) {}
        // Before the last one ends; so it is never idle.
        if fleet.books[0].ready == 0 {
            fleet.arrive(&[(0, 1)]);
        }
    }
    let before = [fleet.share(0), fleet.share(1)];
    fleet.arrive(&[(0, 5_000)]);
    let until = fleet.now.plus(second() * 100);
    while fleet.advance(until) {}
    let served = [fleet.share(0) - before[0], fleet.share(1) - before[1]];
    // Twice the bound: jobs of a second, at most four at a time.
    assert!((served[0] - served[1]).abs() <= 20.0, "of the next 400 slot seconds the two groups got {served:?}");
}

/// Many short jobs are in flight at an estimate that is far too high; what they did not really cost is given back. A group that
/// comes then is served next, not only when the others have used up what they were given back.
#[test]
fn a_late_group_does_not_wait_for_estimates_that_were_too_high() {
    late_group_after_estimates(Table::new(Scheme::default(), vec![node(1, 100, &["t"])]));
}

/// The same where the task's limit holds the flood, and not the slots.
#[test]
fn a_late_group_does_not_wait_for_estimates_at_a_limit() {
    let mut table = Table::new(Scheme::default(), vec![node(1, 200, &["t"])]);
    table.tell(task_limit("t", 100));
    late_group_after_estimates(table);
}

fn late_group_after_estimates(mut table: Table) {
    table.tell(Input::Jobs((1..=2_000).map(|n| head(n, "flood")).collect()));
    // The first runs take ten seconds, so the same is expected of the rest.
    let mut done = 0;
    for took in [second() * 10, Duration::from_micros(10)] {
        let flying: Vec<_> = table.order[done..].to_vec();
        done = table.order.len();
        table.now = table.now.plus(took);
        for pick in flying {
            table.settle(&pick, took, None);
        }
    }
    let before = table.order.len();
    table.tell(Input::Jobs(vec![head(9_001, "late")]));
    let flying: Vec<_> = table.order[done..].to_vec();
    for pick in flying {
        table.now = table.now.plus(Duration::from_micros(10));
        table.settle(&pick, Duration::from_micros(10), None);
    }
    let late = table.order.iter().position(|pick| table.groups[&pick.job].seq == 9_001);
    assert!(
        late.is_some_and(|late| late <= before + 2),
        "it was number {late:?}, and {before} had been picked when it came"
    );
}

/// If microseconds counted, groups would not stay level: a group with one interrupted run would be behind for hundreds of turns.
#[test]
fn jobs_of_less_than_a_millisecond_are_served_in_turn() {
    let mut table = Table::one_slot();
    let jobs = (1..=200).zip(["a", "b", "c", "d"].into_iter().cycle());
    table.tell(Input::Jobs(jobs.map(|(n, group)| head(n, group)).collect()));
    for turn in 0..200 {
        let pick = table.order[turn].clone();
        let took = Duration::from_micros(3 + 997 * u64::from(turn % 7 == 0));
        table.now = table.now.plus(took);
        table.settle(&pick, took, None);
    }
    let order: Vec<i64> = table.order.iter().map(|pick| table.groups[&pick.job].seq).collect();
    assert_eq!(order, (1..=200).collect::<Vec<_>>());
}

fn of_task(number: i64, group: &str, task: &str) -> JobHead {
    JobHead { task: TaskName::new(task).unwrap(), ..head(number, group) }
}

fn task_limit(task: &str, limit: u32) -> Input {
    let mut settings = Settings::default();
    let limit = LimitSettings { concurrency: Some(limit), rate: None };
    settings.tasks.insert(TaskName::new(task).unwrap(), limit);
    Input::Settings(settings)
}

/// The first slot runs `early` for a hundred seconds, then `late` comes: of its next twelve turns, how many are `late`'s?
fn turns_of_a_late_group(table: &mut Table) -> usize {
    let busy = node(1, 1, &[]).incarnation;
    let mut late = 0;
    table.tell(Input::Jobs((1..=200).map(|n| head(n, "early")).collect()));
    for turn in 0..112 {
        if turn == 100 {
            table.tell(Input::Jobs((1_001..=1_100).map(|n| head(n, "late")).collect()));
        }
        let pick = table.order.iter().rev().find(|pick| pick.node == busy).expect("it has work").clone();
        late += usize::from(table.groups[&pick.job].group.as_str() == "late");
        table.now = table.now.plus(second());
        table.settle(&pick, second(), None);
    }
    late
}

#[test]
fn a_group_that_no_node_can_serve_is_no_credit_for_one_that_comes_late() {
    let mut table = Table::one_slot();
    table.tell(Input::Jobs(vec![of_task(900, "odd", "unknown")]));
    let late = turns_of_a_late_group(&mut table);
    assert!((5..=7).contains(&late), "{late} of 12 turns");
}

#[test]
fn a_group_whose_task_is_at_its_limit_is_no_credit_for_one_that_comes_late() {
    let mut table = Table::new(Scheme::default(), vec![node(1, 1, &["t"]), node(2, 1, &["u"])]);
    table.tell(task_limit("u", 1));
    table.tell(Input::Jobs(vec![of_task(900, "other", "u"), of_task(901, "odd", "u")]));
    let late = turns_of_a_late_group(&mut table);
    assert!((5..=7).contains(&late), "{late} of 12 turns");
}

/// A task's limit lets few jobs run, so groups that only have jobs of that task are far behind the others. Among themselves they
/// are level: a group that comes late to the task does not wait until all the earlier ones have caught up with the queue.
#[test]
fn a_late_group_takes_turns_with_those_whose_task_is_at_its_limit() {
    let mut table = Table::new(Scheme::default(), vec![node(1, 4, &["t", "u"])]);
    table.tell(task_limit("u", 1));
    table.tell(Input::Jobs((1..=2_000).map(|n| head(n, "busy")).collect()));
    table.tell(Input::Jobs((3_001..=3_500).map(|n| of_task(n, "early", "u")).collect()));
    let (mut turns, mut done) = (Vec::new(), 0);
    for round in 0..112 {
        if round == 100 {
            table.tell(Input::Jobs((4_001..=4_100).map(|n| of_task(n, "late", "u")).collect()));
        }
        table.now = table.now.plus(second());
        let flying = table.order[done..].to_vec();
        done = table.order.len();
        for pick in flying {
            let job = &table.groups[&pick.job];
            if round >= 100 && job.task.as_str() == "u" {
                turns.push(job.group.to_string());
            }
            table.settle(&pick, second(), None);
        }
    }
    let late = turns.iter().filter(|group| *group == "late").count();
    assert!((5..=7).contains(&late), "{late} of {turns:?}");
}

#[test]
fn a_group_that_no_node_could_serve_comes_back_without_credit() {
    let mut table = Table::one_slot();
    table.tell(task_limit("t", 5));
    table.tell(Input::Jobs((1..=200).map(|n| head(n, "early")).collect()));
    table.tell(Input::Jobs((901..=1_000).map(|n| of_task(n, "odd", "u")).collect()));
    let mut odd = 0;
    for turn in 0..112 {
        if turn == 100 {
            table.tell(Input::Nodes(vec![node(1, 1, &["t", "u"])]));
        }
        let pick = table.order.last().expect("it has work").clone();
        odd += usize::from(table.groups[&pick.job].group.as_str() == "odd");
        table.now = table.now.plus(second());
        table.settle(&pick, second(), None);
    }
    assert!((5..=7).contains(&odd), "{odd} of 12 turns");
}

/// A long run is charged while it runs; nothing of what it has used will be given back.
#[test]
fn a_long_run_of_another_group_is_no_credit_for_one_that_comes_late() {
    let mut table = Table::new(Scheme::default(), vec![node(1, 1, &["t"]), node(2, 1, &["u"])]);
    // A little more weight, so that it is the next in turn while a job of the others runs.
    let mut settings = Settings::default();
    let weight = Weight::try_from(1.02).unwrap();
    settings.groups.insert(head(0, "long").group, GroupSettings { weight, ..GroupSettings::default() });
    table.tell(Input::Settings(settings));
    table.tell(Input::Jobs(vec![of_task(900, "long", "u")]));
    table.tell(Input::Jobs((901..1_000).map(|n| head(n, "long")).collect()));
    let late = turns_of_a_late_group(&mut table);
    assert!((4..=7).contains(&late), "{late} of 12 turns");
}

/// A scheduler is lost with its process; the next one gets the charges that this one has stored.
fn hand_over(table: &Table, left: Vec<JobHead>) -> Table {
    let mut next = Table::new(Scheme::default(), vec![]);
    next.now = table.now;
    next.tell(Input::Loading(true));
    next.tell(Input::Charges(table.scheduler.charges()));
    next.tell(Input::Jobs(left));
    next.tell(Input::Loading(false));
    next.tell(Input::Nodes(vec![node(1, 1, &["t"])]));
    next
}

#[test]
fn a_hand_over_forgets_no_charge() {
    let mut table = two_groups_in_balance();
    table.tell(Input::Jobs(vec![head(11, "a"), head(12, "b")]));
    let pick = table.order[2].clone();
    table.now = table.now.plus(second() * 5);
    table.settle(&pick, second() * 5, None);
    // Group a is five seconds ahead; the job of b, and three more of each.
    let mut left: Vec<_> = (21..24).flat_map(|n| [head(n, "a"), head(n + 10, "b")]).collect();
    left.push(JobHead { fence: Fence(2), state: JobState::Waiting, ..head(12, "b") });
    let mut next = hand_over(&table, left);
    next.drain();
    let groups: Vec<_> = next.order.iter().map(|pick| next.groups[&pick.job].group.to_string()).collect();
    assert_eq!(groups[..4], ["b", "b", "b", "b"], "{groups:?}");
}

/// `2,1`: after two jobs of the class high one of the class low is next, also if another node dispatches then.
#[test]
fn the_counting_scheme_goes_on_where_it_was_after_a_hand_over() {
    let classed = |n: i64| {
        let priority = Priority::new(if n < 100 { 1 } else { 10 }).unwrap();
        JobHead { priority, ..head(n, "g") }
    };
    let mut left: Vec<JobHead> = (1..=6).chain(101..=106).map(classed).collect();
    let mut order = Vec::new();
    let mut table = hand_over(&Table::new(Scheme::default(), vec![]), left.clone());
    for _ in 0..6 {
        let pick = table.order.last().unwrap().clone();
        let seq = table.groups[&pick.job].seq;
        order.push(if seq < 100 { "high" } else { "low" });
        left.retain(|head| head.seq != seq);
        table.now = table.now.plus(second());
        // The node leaves, so nothing more is picked: every job has a dispatcher of its own.
        table.tell(Input::Nodes(vec![]));
        table.tell(settled(&pick, Some(second()), None));
        table = hand_over(&table, left.clone());
    }
    assert_eq!(order, ["high", "high", "low", "high", "high", "low"]);
}
