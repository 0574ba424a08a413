//! Pools: queues that share no node take turns in trees of their own.

mod table;

use std::{collections::BTreeSet, time::Duration};

use table::{Table, head, node};
use turnwise_core::{
    JobHead, Node, QueueName, Serves, TaskName,
    scheduler::{Input, Pick},
    settings::{LimitSettings, QueueSettings, Settings},
    turn::Scheme,
};

fn name(queue: &str) -> QueueName {
    QueueName::new(queue).unwrap()
}

fn names(queues: &[&str]) -> BTreeSet<QueueName> {
    queues.iter().map(|queue| name(queue)).collect()
}

fn pool(number: u128, queues: Serves) -> Node {
    Node { queues, ..node(number, 1, &["t"]) }
}

fn only(number: u128, queues: &[&str]) -> Node {
    pool(number, Serves::Only(names(queues)))
}

fn jobs(queue: &str, from: i64, count: i64) -> Input {
    Input::Jobs((from..from + count).map(|n| JobHead { queue: name(queue), ..head(n, "g") }).collect())
}

/// What the pool `of` runs from here on, as the initials of its queues; what other pools have in their hands stays there.
fn run(table: &mut Table, of: &Node, count: usize) -> String {
    let mut ran = String::new();
    for _ in 0..count {
        let in_hand = table.order.iter().rev().find(|pick| pick.node == of.incarnation).expect("it has work").clone();
        ran.push_str(&queue(table, &in_hand)[..1]);
        table.settle(&in_hand, Duration::from_secs(1), None);
    }
    ran
}

fn queue(table: &Table, pick: &Pick) -> String {
    table.groups[&pick.job].queue.to_string()
}

/// A queue that only one of many nodes serves is far behind the queues that all nodes serve. Another queue that comes late to that
/// node takes turns with it, and does not wait until the first has caught up with the others.
#[test]
fn a_late_queue_takes_turns_with_those_that_have_the_same_few_nodes() {
    let small = only(1, &["early", "late", "wide"]);
    let wide = [only(2, &["wide"]), only(3, &["wide"])];
    let mut table = Table::new(Scheme::default(), [vec![small.clone()], wide.to_vec()].concat());
    table.tell(jobs("wide", 5_000, 1_000));
    table.tell(jobs("early", 1, 200));
    let round = |table: &mut Table| {
        table.now = table.now.plus(Duration::from_secs(1));
        wide.iter().for_each(|node| drop(run(table, node, 1)));
        run(table, &small, 1)
    };
    (0..100).for_each(|_| drop(round(&mut table)));
    table.tell(jobs("late", 2_000, 50));
    let ran: String = (0..12).map(|_| round(&mut table)).collect();
    assert!((5..=7).contains(&ran.matches('l').count()), "{ran}");
}

/// The same for queues that share a task's limit.
#[test]
fn a_late_queue_takes_turns_with_those_whose_task_is_at_its_limit() {
    let node = Node { slots: 4, ..node(1, 4, &["t", "u"]) };
    let mut table = Table::new(Scheme::default(), vec![node]);
    let mut settings = Settings::default();
    let limit = LimitSettings { concurrency: Some(1), rate: None };
    settings.tasks.insert(TaskName::new("u").unwrap(), limit);
    table.tell(Input::Settings(settings));
    let limited = |queue: &str, from: i64| {
        let of = |n| JobHead { queue: name(queue), task: TaskName::new("u").unwrap(), ..head(n, "g") };
        Input::Jobs((from..from + 200).map(of).collect())
    };
    table.tell(jobs("wide", 5_000, 1_000));
    table.tell(limited("early", 1));
    let (mut ran, mut done) = (String::new(), 0);
    for round in 0..112 {
        if round == 100 {
            table.tell(limited("late", 1_000));
            ran.clear();
        }
        table.now = table.now.plus(Duration::from_secs(1));
        let flying = table.order[done..].to_vec();
        done = table.order.len();
        for pick in flying {
            ran.push_str(&queue(&table, &pick)[..1]);
            table.settle(&pick, Duration::from_secs(1), None);
        }
    }
    let ran = ran.replace('w', "");
    assert!((5..=7).contains(&ran.matches('l').count()), "{ran}");
}

/// One pool has worked for a long time when a second queue of it gets jobs; the queue of the other pool has hardly been served.
fn late_queue(nodes: Vec<Node>, other_works: bool) -> String {
    let busy = nodes[0].clone();
    let mut table = Table::new(Scheme::default(), nodes);
    table.tell(jobs("early", 1, 200));
    if other_works {
        table.tell(jobs("other", 1_000, 50));
    }
    run(&mut table, &busy, 100);
    table.tell(jobs("late", 2_000, 50));
    run(&mut table, &busy, 12)
}

#[test]
fn the_order_in_a_pool_is_the_same_whatever_another_pool_does() {
    let nodes = || vec![only(1, &["early", "late"]), only(2, &["other"])];
    let alone = late_queue(nodes(), false);
    assert_eq!(alone.matches('l').count(), 6, "both in turn: {alone}");
    assert_eq!(late_queue(nodes(), true), alone);
    let default = || vec![pool(1, Serves::AllBut(names(&["other"]))), only(2, &["other"])];
    assert_eq!(late_queue(default(), true), alone, "the pool of all other queues too");
}

#[test]
fn queues_that_come_to_share_a_node_begin_level() {
    let (busy, other) = (only(1, &["early"]), only(2, &["other"]));
    let mut table = Table::new(Scheme::default(), vec![busy.clone(), other.clone()]);
    table.tell(jobs("early", 1, 200));
    table.tell(jobs("other", 1_000, 200));
    run(&mut table, &busy, 100);
    run(&mut table, &other, 3);
    // The other pool leaves, and its queue comes to this one.
    let both = Node { incarnation: node(3, 1, &["t"]).incarnation, ..only(3, &["early", "other"]) };
    table.tell(Input::Nodes(vec![both.clone()]));
    let ran = run(&mut table, &both, 12);
    let others = ran.matches('o').count();
    assert!((5..=7).contains(&others), "what was done apart counts neither for nor against it: {ran}");
}

fn odd(number: i64, task: &str) -> JobHead {
    JobHead { queue: name("odd"), task: TaskName::new(task).unwrap(), ..head(number, "g") }
}

/// What runs when a queue comes late, while the first in turn, "odd", cannot be served and stays behind.
fn late_behind_one_that_cannot_run(nodes: Vec<Node>, settings: Settings, odd: Vec<JobHead>) -> String {
    let busy = nodes[0].clone();
    let mut table = Table::new(Scheme::default(), nodes);
    table.tell(Input::Settings(settings));
    table.tell(Input::Jobs(odd));
    table.tell(jobs("early", 1, 200));
    run(&mut table, &busy, 100);
    table.tell(jobs("late", 2_000, 50));
    run(&mut table, &busy, 12)
}

fn both_in_turn(ran: &str) {
    let late = ran.matches('l').count();
    assert!((5..=7).contains(&late) && late + ran.matches('e').count() == 12, "both in turn: {ran}");
}

#[test]
fn a_queue_that_no_node_can_serve_is_no_credit_for_one_that_comes_late() {
    let ran = late_behind_one_that_cannot_run(vec![node(1, 1, &["t"])], Settings::default(), vec![odd(900, "unknown")]);
    both_in_turn(&ran);
}

#[test]
fn a_queue_whose_task_is_at_its_limit_is_no_credit_for_one_that_comes_late() {
    let mut settings = Settings::default();
    settings.tasks.insert(TaskName::new("u").unwrap(), LimitSettings { concurrency: Some(1), rate: None });
    let nodes = vec![node(1, 1, &["t"]), node(2, 1, &["u"])];
    both_in_turn(&late_behind_one_that_cannot_run(nodes, settings, vec![odd(900, "u"), odd(901, "u")]));
}

#[test]
fn a_queue_at_its_cap_on_every_node_is_no_credit_for_one_that_comes_late() {
    let mut settings = Settings::default();
    settings.queues.insert(name("odd"), QueueSettings { per_node: Some(1), ..QueueSettings::default() });
    let nodes = vec![node(1, 1, &["t"]), node(2, 2, &["u"])];
    both_in_turn(&late_behind_one_that_cannot_run(nodes, settings, vec![odd(900, "u"), odd(901, "u")]));
}

#[test]
fn a_queue_that_no_node_could_serve_comes_back_without_credit() {
    let knows = |tasks: &[&str]| node(1, 1, tasks);
    let mut table = Table::new(Scheme::default(), vec![knows(&["t"])]);
    table.tell(Input::Jobs((900..950).map(|n| odd(n, "u")).collect()));
    table.tell(jobs("early", 1, 200));
    run(&mut table, &knows(&[]), 100);
    table.tell(Input::Nodes(vec![knows(&["t", "u"])]));
    let ran = run(&mut table, &knows(&[]), 12);
    let odd = ran.matches('o').count();
    assert!((5..=7).contains(&odd), "both in turn: {ran}");
}

#[test]
fn a_queue_is_served_by_the_pool_it_is_bound_to_and_by_no_other() {
    let mut table = Table::new(Scheme::default(), vec![pool(1, Serves::AllBut(names(&["mail"]))), only(2, &["mail"])]);
    table.tell(jobs("mail", 1, 3));
    table.tell(jobs("new", 10, 3));
    let taken: Vec<_> = table.order.iter().map(|pick| (queue(&table, pick), pick.node)).collect();
    let nodes = [node(2, 1, &[]).incarnation, node(1, 1, &[]).incarnation];
    assert_eq!(taken, [("mail".to_owned(), nodes[0]), ("new".to_owned(), nodes[1])]);
}

#[test]
fn nodes_meet_where_there_can_be_a_queue_for_both() {
    let (a, b) = (Serves::Only(names(&["a"])), Serves::Only(names(&["b"])));
    let (not_a, not_b) = (Serves::AllBut(names(&["a"])), Serves::AllBut(names(&["b"])));
    for (one, other, meet) in [
        (&a, &a, true),
        (&a, &b, false),
        (&a, &not_a, false),
        (&a, &not_b, true),
        (&not_a, &not_b, true),
        (&a, &Serves::All, true),
        (&not_a, &Serves::All, true),
        (&Serves::Only(names(&[])), &Serves::All, false),
    ] {
        assert_eq!((one.meets(other), other.meets(one)), (meet, meet), "{one:?} {other:?}");
    }
}
