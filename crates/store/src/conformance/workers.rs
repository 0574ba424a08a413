//! Promises about foreign workers: what is kept of them, their beats, and which of them have mail.

use std::time::Duration;

use turnwise_core::{
    Incarnation,
    access::TokenId,
    lifecycle::{Event, Outcome},
    worker::{TaskFacts, Worker},
};
use uuid::Uuid;

use super::{OperatorHarness, scene::*};
use crate::{operators::*, store::*};

/// All that a worker may say.
fn facts() -> Worker {
    let secret = ["/kärte".to_owned()];
    let facts = TaskFacts::read(Some("durations:1s,2s"), Some("1.5s"), Some("extract"), &secret).expect("good facts");
    Worker {
        protocol: 1,
        language: "python 3.12 \"é\"".to_owned(),
        client: "turnwise-python 0.1.0".to_owned(),
        token: Some(TokenId(Uuid::from_u128(7))),
        tasks: [(task("mail"), facts), (task("extract"), TaskFacts::default())].into(),
    }
}

fn join_as_worker(node: Incarnation, name: &str) -> Join {
    Join { worker: Some(facts()), ..join(node, name) }
}

fn beat_of(node: Incarnation, slots: u32) -> WorkerBeat {
    WorkerBeat { node, slots, lease: LEASE * 2 }
}

pub async fn a_worker_is_found_with_all_it_said(h: &impl OperatorHarness) {
    let ((store, operators), other) = (h.both().await, h.operators().await);
    store.join(join(ALPHA, "alpha")).await.expect("join");
    store.join(join_as_worker(BETA, "beta")).await.expect("join");
    let fleet = store.nodes().await.expect("nodes");
    let found = other.worker(BETA).await.expect("worker").expect("it is there");
    assert_eq!((&found.worker, found.now, &found.node), (&facts(), fleet.now, &fleet.nodes[1]));
    assert_eq!(fleet.workers, [(BETA, facts())].into(), "the other node is none");
    assert_eq!(operators.worker(ALPHA).await.expect("worker"), None);
    assert_eq!(operators.worker(GAMMA).await.expect("worker"), None);
}

pub async fn a_repeated_join_keeps_what_a_worker_said_first(h: &impl OperatorHarness) {
    let (store, operators) = h.both().await;
    store.join(join_as_worker(BETA, "beta")).await.expect("join");
    let other = Worker { language: "typescript".to_owned(), ..facts() };
    store.join(Join { worker: Some(other), ..join(BETA, "beta") }).await.expect("join");
    assert_eq!(operators.worker(BETA).await.expect("worker").expect("it is there").worker, facts());
    store.join(join(ALPHA, "alpha")).await.expect("join");
    store.join(join_as_worker(ALPHA, "alpha")).await.expect("join");
    assert_eq!(operators.worker(ALPHA).await.expect("worker"), None, "no node becomes a worker");
}

pub async fn a_lost_worker_is_found_as_lost_and_one_that_left_is_not_found(h: &impl OperatorHarness) {
    let (store, operators) = h.both().await;
    store.join(join(ALPHA, "alpha")).await.expect("join");
    let epoch = store.beat(beat(ALPHA, true)).await.expect("beat").epoch.expect("it leads");
    store.join(join_as_worker(BETA, "beta")).await.expect("join");
    store.join(Join { lease: LEASE * 10, ..join_as_worker(GAMMA, "gamma") }).await.expect("join");
    h.advance(LEASE + SECOND).await;
    store.beat(beat(ALPHA, true)).await.expect("beat");
    let ask = AskLost { holder: ALPHA, epoch, expire: Expire::by_the_clock(), limit: ALL };
    store.lost_nodes(ask).await.expect("lost_nodes");
    assert!(operators.worker(BETA).await.expect("worker").expect("it is there").node.lost);
    assert!(!operators.worker(GAMMA).await.expect("worker").expect("it is there").node.lost);
    assert!(store.leave(GAMMA).await.expect("leave"));
    assert_eq!(operators.worker(GAMMA).await.expect("worker"), None);
    assert_eq!(store.nodes().await.expect("nodes").workers.into_keys().collect::<Vec<_>>(), [BETA]);
    let buried = Author::Dispatcher { holder: ALPHA, epoch, lost: BETA, bury: true };
    store.settle(Settle { author: buried, settlements: vec![], done: vec![] }).await.expect("settle");
    assert_eq!(operators.worker(BETA).await.expect("worker"), None);
}

pub async fn beats_of_many_workers_prolong_each_as_it_says(h: &impl OperatorHarness) {
    let (store, operators) = h.both().await;
    for (node, name) in [(ALPHA, "alpha"), (BETA, "beta"), (GAMMA, "gamma")] {
        store.join(join_as_worker(node, name)).await.expect("join");
    }
    h.advance(SECOND).await;
    let short = WorkerBeat { lease: Duration::from_micros(1_500_001), ..beat_of(GAMMA, 0) };
    let unknown = Incarnation(Uuid::from_u128(999));
    let beats = vec![short, beat_of(unknown, 1), beat_of(ALPHA, 7)];
    let reply = operators.beat_workers(beats.clone()).await.expect("beat");
    let fleet = store.nodes().await.expect("nodes");
    let lineage = operators.worker(ALPHA).await.expect("worker").expect("it is there").lineage;
    assert_eq!(reply, BeatenWorkers { now: fleet.now, lineage, alive: vec![true, false, true] });
    let seen: Vec<_> = fleet.nodes.iter().map(|node| (node.slots, node.lease_until)).collect();
    let untouched = fleet.now.minus(SECOND).plus(LEASE);
    assert_eq!(seen, [(7, fleet.now.plus(LEASE * 2)), (4, untouched), (0, fleet.now.plus(short.lease))]);
    assert_eq!(operators.beat_workers(beats).await.expect("beat"), reply, "a repeated beat changes nothing");
    assert_eq!(operators.beat_workers(vec![]).await.expect("beat").alive, Vec::<bool>::new());
}

pub async fn a_worker_that_a_person_drained_has_no_slots_whatever_it_says(h: &impl OperatorHarness) {
    let (store, operators) = h.both().await;
    store.join(join_as_worker(BETA, "beta")).await.expect("join");
    store.join(join_as_worker(GAMMA, "gamma")).await.expect("join");
    for (value, slots) in [(Some(BETA.to_string()), 0), (Some(GAMMA.to_string()), 7), (None, 7)] {
        let memo = NewMemo { kind: MemoKind::Drained, name: "beta".to_owned(), value, seen: None, line: None };
        store.remember(None, vec![memo]).await.expect("remember");
        let beaten = operators.beat_workers(vec![beat_of(BETA, 7), beat_of(GAMMA, 7)]).await.expect("beat_workers");
        assert_eq!(beaten.alive, [true, true]);
        let nodes = store.nodes().await.expect("nodes").nodes;
        assert_eq!(nodes.iter().map(|node| node.slots).collect::<Vec<_>>(), [slots, 7]);
    }
}

pub async fn a_worker_that_was_lost_or_replaced_beats_in_vain(h: &impl OperatorHarness) {
    let (store, operators) = h.both().await;
    store.join(join_as_worker(BETA, "one")).await.expect("join");
    let lease_until = store.nodes().await.expect("nodes").nodes[0].lease_until;
    let replace = Some(Replace { incarnation: BETA, lease_until });
    store.join(Join { replace, ..join_as_worker(GAMMA, "one") }).await.expect("join");
    let reply = operators.beat_workers(vec![beat_of(BETA, 4), beat_of(GAMMA, 4)]).await.expect("beat");
    assert_eq!(reply.alive, [false, true]);
    assert_eq!(operators.mail_waiting(vec![BETA, GAMMA]).await.expect("look"), [BETA], "a lost one should look");
}

pub async fn sixteen_servers_beat_for_the_same_workers_at_once(h: &impl OperatorHarness) {
    let nodes: Vec<_> = (1..=20).map(|n: u128| Incarnation(Uuid::from_u128(n))).collect();
    let store = h.open().await;
    for node in &nodes {
        store.join(join_as_worker(*node, &format!("worker {node}"))).await.expect("join");
    }
    let mut servers = Vec::new();
    for n in 0..16_u32 {
        let (operators, mut nodes) = (h.operators().await, nodes.clone());
        nodes.rotate_left(n as usize);
        servers.push(tokio::spawn(async move {
            let beats: Vec<_> = nodes.iter().map(|node| beat_of(*node, n + 1)).collect();
            until_answered(|| operators.beat_workers(beats.clone())).await
        }));
    }
    for server in servers {
        assert_eq!(server.await.expect("no server panics").alive, vec![true; nodes.len()]);
    }
}

pub async fn workers_with_batches_or_requests_to_stop_should_look(h: &impl OperatorHarness) {
    let scene = Scene::led(h).await;
    let operators = h.operators().await;
    scene.store.join(join_as_worker(GAMMA, "gamma")).await.expect("join");
    let should_look = async || {
        let mut nodes = operators.mail_waiting(vec![BETA, GAMMA]).await.expect("look");
        nodes.sort_unstable();
        nodes
    };
    assert_eq!(should_look().await, []);
    scene.enqueue([1]).await;
    scene.give(1, &[1], GAMMA).await;
    assert_eq!(should_look().await, [GAMMA]);
    scene.end(GAMMA, 1, done()).await;
    assert_eq!(should_look().await, [GAMMA], "its batch is there until it is called done");
    let settle = Settle { author: by(GAMMA), settlements: vec![], done: vec![batch(1)] };
    scene.store.settle(settle).await.expect("settle");
    assert_eq!(should_look().await, []);
    scene.enqueue([2]).await;
    scene.give(2, &[2], BETA).await;
    assert_eq!(should_look().await, [BETA]);
    let settle = Settle { author: by(BETA), settlements: vec![], done: vec![batch(2)] };
    scene.store.settle(settle).await.expect("settle");
    assert_eq!(should_look().await, []);
    scene.intervene(2, Event::Cancel).await;
    assert_eq!(should_look().await, [BETA], "it is to stop a job");
    scene.end(BETA, 2, Outcome::Cancelled).await;
    assert_eq!(should_look().await, []);
    assert_eq!(operators.mail_waiting(vec![]).await.expect("look"), []);
    let unknown = Incarnation(Uuid::from_u128(999));
    assert_eq!(operators.mail_waiting(vec![unknown]).await.expect("look"), [unknown], "it finds that it is gone");
}
