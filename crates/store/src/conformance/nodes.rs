//! Promises of `join`, `beat`, `leave` and `lost_nodes`: which nodes are there, and which one dispatches.

use std::{collections::BTreeSet, num::NonZeroU32, time::Duration};

use turnwise_core::{
    JobState, QueueName, Serves,
    lifecycle::{Event, Outcome},
};

use super::{Harness, scene::*};
use crate::{StoreError, store::*};

pub async fn a_node_that_joins_is_seen_with_all_it_said(h: &impl Harness) {
    let store = h.open().await;
    let queues = BTreeSet::from(["bulk", "Küche"].map(|name| QueueName::new(name).expect("a good name")));
    let (queues, batch_size) = (Serves::Only(queues), NonZeroU32::new(4_000_000_000));
    let asked = Join { queues, batch_size, lease: Duration::from_micros(1_500_001), ..join(ALPHA, "älpha") };
    let joined = store.join(asked.clone()).await.expect("join");
    let fleet = store.nodes().await.expect("nodes");
    assert_eq!(joined, Joined::In { now: fleet.now });
    let [node] = &fleet.nodes[..] else { panic!("{fleet:?}") };
    assert_eq!((node.incarnation, &node.name, &node.host), (ALPHA, &asked.name, &asked.host));
    assert_eq!((node.slots, node.queue_capacity), (asked.slots, asked.queue_capacity));
    assert_eq!(node.batch_size, asked.batch_size);
    assert_eq!((&node.queues, &node.tasks), (&asked.queues, &asked.tasks));
    assert_eq!((node.joined_at, node.lease_until), (fleet.now, fleet.now.plus(asked.lease)));
    assert_eq!((node.lost, node.dispatcher), (false, false));
}

pub async fn a_node_may_serve_all_queues_or_none_or_all_but_some(h: &impl Harness) {
    let store = h.open().await;
    store.join(join(ALPHA, "all")).await.expect("join");
    let none = Join { queues: Serves::Only(BTreeSet::new()), tasks: BTreeSet::new(), ..join(BETA, "none") };
    store.join(none.clone()).await.expect("join");
    let mail = BTreeSet::from([QueueName::new("mail").expect("a good name")]);
    let rest = Join { queues: Serves::AllBut(mail), ..join(GAMMA, "rest") };
    store.join(rest.clone()).await.expect("join");
    let nodes = store.nodes().await.expect("nodes").nodes;
    assert_eq!(nodes.iter().map(|node| &node.queues).collect::<Vec<_>>(), [&Serves::All, &none.queues, &rest.queues]);
    assert!(nodes[1].tasks.is_empty());
}

pub async fn nodes_are_told_by_name_and_joining_time(h: &impl Harness) {
    let store = h.open().await;
    store.join(join(GAMMA, "b")).await.expect("join");
    store.join(join(ALPHA, "c")).await.expect("join");
    h.advance(SECOND).await;
    let old = store.nodes().await.expect("nodes").nodes[0].clone();
    let replace = Replace { incarnation: GAMMA, lease_until: old.lease_until };
    store.join(Join { replace: Some(replace), ..join(BETA, "b") }).await.expect("join");
    let nodes = store.nodes().await.expect("nodes").nodes;
    let order: Vec<_> = nodes.iter().map(|node| (node.name.as_str(), node.incarnation, node.lost)).collect();
    assert_eq!(order, [("b", GAMMA, true), ("b", BETA, false), ("c", ALPHA, false)]);
}

pub async fn a_name_that_is_taken_is_told_and_nothing_changes(h: &impl Harness) {
    let store = h.open().await;
    store.join(join(ALPHA, "one")).await.expect("join");
    let before = store.nodes().await.expect("nodes");
    let reply = store.join(join(BETA, "one")).await.expect("join");
    assert_eq!(reply, Joined::Taken { by: Box::new(before.nodes[0].clone()), now: before.now });
    assert_eq!(store.nodes().await.expect("nodes"), before);
}

pub async fn a_name_is_taken_until_its_holder_is_lost(h: &impl Harness) {
    let store = h.open().await;
    store.join(join(ALPHA, "one")).await.expect("join");
    h.advance(LEASE + SECOND).await;
    let reply = store.join(join(BETA, "one")).await.expect("join");
    assert!(matches!(reply, Joined::Taken { ref by, .. } if by.incarnation == ALPHA), "{reply:?}");
}

pub async fn a_silent_namesake_is_replaced_in_one_step(h: &impl Harness) {
    let store = h.open().await;
    store.join(join(ALPHA, "one")).await.expect("join");
    let Joined::Taken { by, .. } = store.join(join(BETA, "one")).await.expect("join") else { panic!("not taken") };
    let replace = Replace { incarnation: by.incarnation, lease_until: by.lease_until };
    let reply = store.join(Join { replace: Some(replace), ..join(BETA, "one") }).await.expect("join");
    assert!(matches!(reply, Joined::In { .. }), "{reply:?}");
    let nodes = store.nodes().await.expect("nodes").nodes;
    assert_eq!(nodes.iter().filter(|node| !node.lost).map(|node| node.incarnation).collect::<Vec<_>>(), [BETA]);
    assert!(!store.beat(beat(ALPHA, true)).await.expect("beat").alive, "the replaced one must not go on");
}

pub async fn a_replaced_dispatcher_leads_no_more(h: &impl Harness) {
    let store = h.open().await;
    store.join(join(ALPHA, "one")).await.expect("join");
    let old = store.beat(beat(ALPHA, true)).await.expect("beat").epoch.expect("it leads");
    let lease_until = store.nodes().await.expect("nodes").nodes[0].lease_until;
    let replace = Replace { incarnation: ALPHA, lease_until };
    store.join(Join { replace: Some(replace), ..join(BETA, "one") }).await.expect("join");
    let new = store.beat(beat(BETA, true)).await.expect("beat").epoch.expect("the lead is free at once");
    assert!(new > old);
}

pub async fn a_silent_node_is_not_lost_before_it_is_said_so(h: &impl Harness) {
    let store = h.open().await;
    store.join(join(ALPHA, "one")).await.expect("join");
    store.join(join(BETA, "two")).await.expect("join");
    h.advance(LEASE + SECOND).await;
    let epoch = store.beat(beat(ALPHA, true)).await.expect("beat").epoch.expect("it leads");
    let ask = AskLost { holder: ALPHA, epoch, expire: Expire::NoNode, limit: ALL };
    assert_eq!(store.lost_nodes(ask.clone()).await.expect("lost_nodes"), []);
    let expired = AskLost { expire: Expire::by_the_clock(), ..ask.clone() };
    assert_eq!(store.lost_nodes(expired).await.expect("lost_nodes").len(), 1);
    assert_eq!(store.lost_nodes(ask).await.expect("lost_nodes").len(), 1, "nodes that are lost already are returned");
}

pub async fn a_node_found_silent_is_lost_however_late_its_lease_ends_unless_it_beat_since(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let seen = scene.store.nodes().await.expect("nodes").nodes.into_iter().find(|node| node.incarnation == BETA);
    let seen = Replace { incarnation: BETA, lease_until: seen.expect("it is there").lease_until };
    let lost = async || {
        let expire = Expire::Over { by: seen.lease_until.minus(LEASE), silent: vec![seen] };
        let ask = AskLost { holder: ALPHA, epoch: scene.epoch, expire, limit: ALL };
        scene.store.lost_nodes(ask).await.expect("lost_nodes").into_iter().map(|lost| lost.node.incarnation).collect()
    };
    h.advance(SECOND).await;
    scene.store.beat(beat(BETA, false)).await.expect("beat");
    let none: Vec<turnwise_core::Incarnation> = lost().await;
    assert_eq!(none, [], "it has beaten since it was seen");
    let again = Replace { lease_until: seen.lease_until.plus(SECOND), ..seen };
    let expire = Expire::Over { by: seen.lease_until.minus(LEASE), silent: vec![again] };
    let ask = AskLost { holder: ALPHA, epoch: scene.epoch, expire, limit: ALL };
    let lost = scene.store.lost_nodes(ask).await.expect("lost_nodes");
    assert_eq!(lost.iter().map(|lost| lost.node.incarnation).collect::<Vec<_>>(), [BETA]);
    assert!(!scene.store.beat(beat(BETA, false)).await.expect("beat").alive);
}

pub async fn nobody_is_lost_whose_lease_was_not_over_by_the_time_the_dispatcher_believes_it_to_be(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let believed = scene.now().await;
    // As if the clock had been put forward.
    h.advance(LEASE * 10).await;
    let ask = |by| {
        let expire = Expire::Over { by, silent: Vec::new() };
        scene.store.lost_nodes(AskLost { holder: ALPHA, epoch: scene.epoch, expire, limit: ALL })
    };
    assert_eq!(ask(believed.plus(SECOND)).await.expect("lost_nodes"), []);
    assert!(scene.store.beat(beat(BETA, false)).await.expect("beat").alive);
    assert!(!ask(believed.plus(LEASE * 10)).await.expect("lost_nodes").is_empty(), "others did not beat");
}

pub async fn a_lead_that_was_found_over_is_taken_unless_it_was_renewed(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let seen = scene.store.beat(beat(BETA, true)).await.expect("beat").leader.expect("a node leads").term;
    assert_eq!(seen.epoch, scene.epoch);
    h.advance(SECOND).await;
    assert_eq!(scene.store.beat(beat(ALPHA, true)).await.expect("beat").epoch, Some(scene.epoch));
    let take = async |over| scene.store.beat(Beat { over: Some(over), ..beat(BETA, true) }).await.expect("beat");
    let refused = take(seen).await;
    assert_eq!(refused.epoch, None, "it was renewed since");
    let renewed = refused.leader.expect("a node leads").term;
    assert_eq!(renewed, Term { epoch: scene.epoch, until: seen.until.plus(SECOND) });
    let taken = take(renewed).await.epoch.expect("it was not renewed");
    assert!(taken > scene.epoch);
    let old = scene.store.beat(beat(ALPHA, true)).await.expect("beat");
    assert_eq!((old.epoch, old.leader.map(|leader| leader.term.epoch)), (None, Some(taken)));
}

pub async fn a_look_tells_who_leads_and_changes_nothing(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let fleet = async || scene.store.nodes().await.expect("nodes").nodes;
    let before = fleet().await;
    let leads = before.iter().find(|node| node.incarnation == ALPHA).expect("it leads").clone();
    h.advance(SECOND).await;
    let look = async |node| scene.store.beat(Beat { only_look: true, ..beat(node, true) }).await.expect("beat");
    let seen = look(BETA).await;
    assert_eq!((seen.alive, seen.epoch, seen.nodes), (true, None, vec![]));
    let leader = seen.leader.expect("a node leads");
    let term = Term { epoch: scene.epoch, until: leads.lease_until };
    assert_eq!((leader.term, leader.host, leader.lease), (term, leads.host, LEASE));
    assert_eq!(look(ALPHA).await.leader, None, "it leads itself");
    assert_eq!(fleet().await, before);
    // A look does not take the lead either.
    h.advance(LEASE * 2).await;
    assert_eq!(look(BETA).await.epoch, None);
    assert_eq!(fleet().await, before);
}

pub async fn a_namesake_that_beats_meanwhile_is_not_replaced(h: &impl Harness) {
    let store = h.open().await;
    store.join(join(ALPHA, "one")).await.expect("join");
    let Joined::Taken { by, .. } = store.join(join(BETA, "one")).await.expect("join") else { panic!("not taken") };
    h.advance(SECOND).await;
    store.beat(beat(ALPHA, false)).await.expect("beat");
    let replace = Replace { incarnation: by.incarnation, lease_until: by.lease_until };
    let reply = store.join(Join { replace: Some(replace), ..join(BETA, "one") }).await.expect("join");
    let Joined::Taken { by: now, .. } = reply else { panic!("{reply:?}") };
    assert_eq!((now.incarnation, now.lease_until), (ALPHA, by.lease_until.plus(SECOND)));
    assert!(store.beat(beat(ALPHA, false)).await.expect("beat").alive);
}

pub async fn only_the_one_that_was_seen_is_replaced(h: &impl Harness) {
    let store = h.open().await;
    store.join(join(ALPHA, "one")).await.expect("join");
    let lease_until = store.nodes().await.expect("nodes").nodes[0].lease_until;
    let replace = Replace { incarnation: GAMMA, lease_until };
    let reply = store.join(Join { replace: Some(replace), ..join(BETA, "one") }).await.expect("join");
    assert!(matches!(reply, Joined::Taken { .. }), "{reply:?}");
    assert_eq!(store.nodes().await.expect("nodes").nodes.len(), 1);
}

pub async fn of_sixteen_namesakes_one_is_let_in(h: &impl Harness) {
    let mut callers = Vec::new();
    for n in 0..16_u128 {
        let store = h.open().await;
        let incarnation = turnwise_core::Incarnation(uuid::Uuid::from_u128(n + 1));
        callers.push(tokio::spawn(async move { until_answered(|| store.join(join(incarnation, "one"))).await }));
    }
    let mut let_in = 0;
    for caller in callers {
        let_in += u32::from(matches!(caller.await.expect("no caller panics"), Joined::In { .. }));
    }
    assert_eq!(let_in, 1);
    assert_eq!(h.open().await.nodes().await.expect("nodes").nodes.len(), 1);
}

pub async fn a_beat_prolongs_the_lease_and_sets_the_slots(h: &impl Harness) {
    let scene = Scene::led(h).await;
    h.advance(SECOND * 3).await;
    let ask = Beat { slots: 0, lease: LEASE * 2, ..beat(BETA, false) };
    let reply = scene.store.beat(ask).await.expect("beat");
    let now = scene.now().await;
    let lineage = reply.lineage;
    assert_eq!(
        reply,
        BeatReply { now, lineage, alive: true, epoch: None, nodes: vec![], leader: None, drained: false }
    );
    let nodes = scene.store.nodes().await.expect("nodes").nodes;
    assert_eq!((nodes[1].slots, nodes[1].lease_until), (0, now.plus(LEASE * 2)));
}

pub async fn a_beat_says_whether_this_life_of_the_node_was_drained(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let name = scene.store.nodes().await.expect("nodes").nodes[1].name.to_string();
    let drained = async || scene.store.beat(beat(BETA, false)).await.expect("beat").drained;
    assert!(!drained().await);
    for (value, is) in [(Some(BETA.to_string()), true), (Some(GAMMA.to_string()), false), (None, false)] {
        let memo = NewMemo { kind: MemoKind::Drained, name: name.clone(), value, seen: None, line: None };
        scene.store.remember(None, vec![memo]).await.expect("remember");
        assert_eq!(drained().await, is);
        // Another node does not hear of it.
        assert!(!scene.store.beat(beat(ALPHA, true)).await.expect("beat").drained);
    }
}

pub async fn an_unknown_node_is_told_that_it_is_not_alive(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let reply = scene.store.beat(beat(GAMMA, true)).await.expect("beat");
    assert_eq!((reply.alive, reply.epoch, reply.nodes.len()), (false, None, 0));
    assert_eq!(scene.store.nodes().await.expect("nodes").nodes.len(), 2);
}

pub async fn one_node_dispatches_at_a_time(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let reply = scene.store.beat(beat(BETA, true)).await.expect("beat");
    assert_eq!((reply.alive, reply.epoch, reply.nodes.len()), (true, None, 0));
    let nodes = scene.store.nodes().await.expect("nodes").nodes;
    assert_eq!(nodes.iter().map(|node| node.dispatcher).collect::<Vec<_>>(), [true, false]);
}

pub async fn the_dispatcher_is_told_all_living_nodes(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.store.join(Join { lease: SECOND, ..join(GAMMA, "gamma") }).await.expect("join");
    h.advance(SECOND + Duration::from_micros(1)).await;
    let reply = scene.store.beat(beat(ALPHA, true)).await.expect("beat");
    let mut living: Vec<_> = reply.nodes.iter().map(|node| (node.name.as_str(), node.dispatcher)).collect();
    living.sort_unstable();
    assert_eq!(living, [("alpha", true), ("beta", false)], "gamma's lease is over");
}

pub async fn dispatching_is_prolonged_within_one_epoch(h: &impl Harness) {
    let scene = Scene::led(h).await;
    for _ in 0..3 {
        h.advance(LEASE - SECOND).await;
        scene.store.beat(beat(BETA, false)).await.expect("beat");
        assert_eq!(scene.store.beat(beat(ALPHA, true)).await.expect("beat").epoch, Some(scene.epoch));
        assert_eq!(scene.store.beat(beat(BETA, true)).await.expect("beat").epoch, None);
    }
}

pub async fn dispatching_is_taken_over_when_it_is_over_and_not_before(h: &impl Harness) {
    let scene = Scene::led(h).await;
    h.advance(LEASE).await;
    assert_eq!(scene.store.beat(beat(BETA, true)).await.expect("beat").epoch, None, "the lease ends with this instant");
    h.advance(Duration::from_micros(1)).await;
    let epoch = scene.store.beat(beat(BETA, true)).await.expect("beat").epoch;
    assert_eq!(epoch, Some(Epoch(scene.epoch.0 + 1)));
    assert_eq!(scene.store.beat(beat(ALPHA, true)).await.expect("beat").epoch, None);
}

pub async fn a_beat_without_the_wish_to_lead_does_not_lead(h: &impl Harness) {
    let scene = Scene::led(h).await;
    h.advance(LEASE - SECOND).await;
    let reply = scene.store.beat(beat(ALPHA, false)).await.expect("beat");
    assert_eq!((reply.alive, reply.epoch), (true, None));
    h.advance(SECOND * 2).await;
    // Alpha lives, but its term as dispatcher was not prolonged.
    scene.store.join(join(GAMMA, "gamma")).await.expect("join");
    assert_eq!(scene.store.beat(beat(GAMMA, true)).await.expect("beat").epoch, Some(Epoch(scene.epoch.0 + 1)));
}

pub async fn the_epoch_only_grows(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let mut last = scene.epoch;
    for (leaves, name, leads) in [(ALPHA, "alpha", BETA), (BETA, "beta", ALPHA), (ALPHA, "alpha", BETA)] {
        scene.store.leave(leaves).await.expect("leave");
        let epoch = scene.store.beat(beat(leads, true)).await.expect("beat").epoch.expect("no node dispatches");
        assert!(epoch > last, "{epoch:?} after {last:?}");
        last = epoch;
        scene.store.join(join(leaves, name)).await.expect("join");
    }
}

pub async fn of_sixteen_that_want_to_lead_one_does(h: &impl Harness) {
    let mut callers = Vec::new();
    for n in 0..16_u128 {
        let store = h.open().await;
        let node = turnwise_core::Incarnation(uuid::Uuid::from_u128(n + 1));
        store.join(join(node, &format!("node-{n}"))).await.expect("join");
        callers.push(tokio::spawn(async move { until_answered(|| store.beat(beat(node, true))).await.epoch }));
    }
    let mut epochs = Vec::new();
    for caller in callers {
        epochs.extend(caller.await.expect("no caller panics"));
    }
    assert_eq!(epochs.len(), 1, "{epochs:?}");
}

pub async fn who_leaves_hands_over_at_once(h: &impl Harness) {
    let scene = Scene::led(h).await;
    assert!(scene.store.leave(ALPHA).await.expect("leave"));
    let nodes = scene.store.nodes().await.expect("nodes").nodes;
    assert_eq!(nodes.iter().map(|node| node.incarnation).collect::<Vec<_>>(), [BETA]);
    let epoch = scene.store.beat(beat(BETA, true)).await.expect("beat").epoch;
    assert_eq!(epoch, Some(Epoch(scene.epoch.0 + 1)));
}

pub async fn a_clean_leave_takes_the_nodes_mail_along(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.end(BETA, 1, done()).await;
    assert_eq!(scene.mail(BETA).await.len(), 1, "its batch was not called done");
    assert!(scene.store.leave(BETA).await.expect("leave"));
    assert_eq!(scene.mail(BETA).await, []);
}

pub async fn a_node_does_not_leave_before_its_jobs_are_settled(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    scene.give(1, &[1, 2], BETA).await;
    scene.end(BETA, 1, done()).await;
    let mail = scene.mail(BETA).await;
    assert!(!scene.store.leave(BETA).await.expect("leave"), "the second is still in its hands");
    assert_eq!(scene.mail(BETA).await, mail, "it may not have read it yet");
    assert_eq!(scene.lost().await, []);
    assert!(scene.store.beat(beat(BETA, false)).await.expect("beat").alive);
    assert_eq!(scene.end(BETA, 2, Outcome::Interrupted).await, Settled::Applied);
    assert!(scene.store.leave(BETA).await.expect("leave"));
    let nodes = scene.store.nodes().await.expect("nodes").nodes;
    assert_eq!(nodes.iter().map(|node| node.incarnation).collect::<Vec<_>>(), [ALPHA]);
    let job = scene.job(2).await;
    assert_eq!((job.state, job.counts.crashes), (JobState::Waiting, 0), "no node crashed");
}

pub async fn a_dispatcher_with_jobs_in_its_hands_gives_up_the_lead_and_stays(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], ALPHA).await;
    assert!(!scene.store.leave(ALPHA).await.expect("leave"));
    let epoch = scene.store.beat(beat(BETA, true)).await.expect("beat").epoch;
    assert_eq!(epoch, Some(Epoch(scene.epoch.0 + 1)), "the lead is free at once");
    let reply = scene.store.beat(beat(ALPHA, false)).await.expect("beat");
    assert_eq!((reply.alive, reply.epoch), (true, None));
    assert_eq!(scene.end(ALPHA, 1, done()).await, Settled::Applied);
    assert!(scene.store.leave(ALPHA).await.expect("leave"));
}

pub async fn a_lost_node_that_leaves_stays_lost_until_its_jobs_are_seen_to(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let lost = scene.lose_beta(h).await;
    assert!(!scene.store.leave(BETA).await.expect("leave"));
    assert_eq!(scene.lost().await, [lost]);
}

pub async fn an_unknown_node_may_leave(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let before = scene.store.nodes().await.expect("nodes");
    assert!(scene.store.leave(GAMMA).await.expect("leave"));
    assert_eq!(scene.store.nodes().await.expect("nodes"), before);
}

pub async fn a_leaving_node_rings_for_a_new_dispatcher(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let bell = scene.store.bell();
    scene.store.leave(ALPHA).await.expect("leave");
    rung(&bell.lead).await;
}

pub async fn a_beat_with_other_slots_rings_for_the_dispatcher(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let bell = scene.store.bell().another();
    let same = beat(BETA, false);
    scene.store.beat(same.clone()).await.expect("beat");
    scene.store.beat(Beat { slots: same.slots + 1, ..same }).await.expect("beat");
    rung(&bell.lead).await;
    let reply = scene.store.beat(beat(ALPHA, true)).await.expect("beat");
    let slots = reply.nodes.iter().find(|node| node.incarnation == BETA).map(|node| node.slots);
    assert_eq!(slots, Some(beat(BETA, false).slots + 1));
}

pub async fn everybody_who_listens_hears_a_ring(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let (one, other) = (scene.store.bell().another(), scene.store.bell().another());
    scene.store.leave(ALPHA).await.expect("leave");
    rung(&one.lead).await;
    rung(&other.lead).await;
}

pub async fn nobody_is_lost_before_its_lease_is_over(h: &impl Harness) {
    let scene = Scene::led(h).await;
    h.advance(LEASE).await;
    assert_eq!(scene.lost().await, []);
    assert!(scene.store.beat(beat(BETA, false)).await.expect("beat").alive);
}

pub async fn a_silent_node_is_lost_and_its_beat_refused(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let lost = scene.lose_beta(h).await;
    assert!(lost.node.lost && lost.complete && lost.jobs.is_empty(), "{lost:?}");
    let reply = scene.store.beat(beat(BETA, true)).await.expect("beat");
    assert_eq!((reply.alive, reply.epoch), (false, None));
    let nodes = scene.store.nodes().await.expect("nodes").nodes;
    assert!(nodes[1].lost && nodes[1].lease_until < nodes[0].lease_until, "nothing was prolonged: {nodes:?}");
}

pub async fn a_silent_node_that_nobody_called_lost_may_beat_again(h: &impl Harness) {
    let scene = Scene::led(h).await;
    h.advance(LEASE * 2).await;
    assert!(scene.store.beat(beat(BETA, false)).await.expect("beat").alive);
    scene.store.beat(beat(ALPHA, true)).await.expect("beat");
    assert_eq!(scene.lost().await, []);
}

pub async fn a_lost_node_is_told_with_the_jobs_in_its_hands(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2, 3, 4, 5]).await;
    scene.give(1, &[1, 2, 3], BETA).await;
    scene.give(2, &[4], ALPHA).await;
    scene.start(BETA, 2).await;
    scene.end(BETA, 3, done()).await;
    assert_eq!(scene.intervene(1, Event::Cancel).await, Settled::Applied);
    let lost = scene.lose_beta(h).await;
    let mut held = lost.jobs;
    held.sort_by_key(|held| held.id);
    let states: Vec<_> = held.iter().map(|held| (held.id, held.state, held.cancel_requested)).collect();
    assert_eq!(states, [(id(1), JobState::Scheduled, true), (id(2), JobState::Running, false)]);
    let seen = scene.job(2).await;
    assert_eq!((held[1].fence, held[1].counts), (seen.fence, seen.counts));
    assert!(lost.complete);
}

pub async fn jobs_of_lost_nodes_are_told_within_the_limit(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue(1..=5).await;
    scene.give(1, &[1, 2, 3, 4, 5], BETA).await;
    scene.lose_beta(h).await;
    let lost = scene
        .store
        .lost_nodes(AskLost { holder: ALPHA, epoch: scene.epoch, expire: Expire::by_the_clock(), limit: 3 })
        .await
        .expect("lost_nodes");
    assert_eq!((lost[0].jobs.len(), lost[0].complete), (3, false));
    let lost = scene
        .store
        .lost_nodes(AskLost { holder: ALPHA, epoch: scene.epoch, expire: Expire::by_the_clock(), limit: 5 })
        .await
        .expect("lost_nodes");
    assert_eq!((lost[0].jobs.len(), lost[0].complete), (5, true));
}

pub async fn a_batch_that_is_called_done_too_early_loses_no_job(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue(1..=3).await;
    scene.give(1, &[1, 2], BETA).await;
    scene.give(2, &[3], BETA).await;
    let settle = Settle { author: by(BETA), settlements: vec![], done: vec![batch(1)] };
    assert_eq!(scene.store.settle(settle).await.expect("settle"), []);
    scene.end(BETA, 3, done()).await;
    assert!(!scene.store.leave(BETA).await.expect("leave"), "two are still in its hands");
    let lost = scene.lose_beta(h).await;
    assert_eq!(lost.jobs.iter().map(|held| held.id).collect::<Vec<_>>(), [1, 2].map(id));
    let settlement = scene.settlement(1, &Event::NodeLost).await;
    assert_eq!(scene.settle_one(scene.for_lost(BETA, true), settlement).await, Settled::Applied);
    let left = scene.lost().await;
    assert_eq!(left[0].jobs.iter().map(|held| held.id).collect::<Vec<_>>(), [id(2)], "nor is it buried with one");
}

pub async fn only_the_dispatcher_calls_a_node_lost(h: &impl Harness) {
    let scene = Scene::led(h).await;
    h.advance(LEASE + SECOND).await;
    scene.store.beat(beat(ALPHA, true)).await.expect("beat");
    let wrong = [(BETA, scene.epoch), (ALPHA, Epoch(scene.epoch.0 + 1)), (ALPHA, Epoch(scene.epoch.0 - 1))];
    for (holder, epoch) in wrong {
        let reply = scene.store.lost_nodes(AskLost { holder, epoch, expire: Expire::by_the_clock(), limit: ALL }).await;
        assert!(matches!(reply, Err(StoreError::NotLeading)), "{reply:?}");
    }
    let nodes = scene.store.nodes().await.expect("nodes").nodes;
    assert!(nodes.iter().all(|node| !node.lost), "{nodes:?}");
    assert!(scene.store.beat(beat(BETA, false)).await.expect("beat").alive);
}

pub async fn a_lost_node_is_told_until_it_is_buried(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.lose_beta(h).await;
    let settlement = scene.settlement(1, &Event::NodeLost).await;
    assert_eq!(scene.settle_one(scene.for_lost(BETA, false), settlement).await, Settled::Applied);
    assert_eq!(scene.lost().await.len(), 1, "it was not removed");
    scene.settle(scene.for_lost(BETA, true), vec![]).await;
    assert_eq!(scene.lost().await, []);
    assert_eq!((scene.store.nodes().await.expect("nodes").nodes.len(), scene.mail(BETA).await.len()), (1, 0));
}

pub async fn a_node_is_not_buried_while_jobs_are_in_its_hands(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    scene.give(1, &[1, 2], BETA).await;
    scene.lose_beta(h).await;
    let settlement = scene.settlement(1, &Event::NodeLost).await;
    assert_eq!(scene.settle_one(scene.for_lost(BETA, true), settlement).await, Settled::Applied);
    let lost = scene.lost().await;
    assert_eq!(lost[0].jobs.iter().map(|held| held.id).collect::<Vec<_>>(), [id(2)]);
    let settlement = scene.settlement(2, &Event::NodeLost).await;
    assert_eq!(scene.settle_one(scene.for_lost(BETA, true), settlement).await, Settled::Applied);
    assert_eq!(scene.lost().await, []);
}

pub async fn a_name_is_free_again_once_its_holder_is_lost(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.lose_beta(h).await;
    let reply = scene.store.join(join(GAMMA, "beta")).await.expect("join");
    assert!(matches!(reply, Joined::In { .. }), "{reply:?}");
    // The new node does not get the jobs of the old one.
    assert_eq!(scene.mail(GAMMA).await, []);
    assert_eq!(scene.end(GAMMA, 1, done()).await, Settled::Superseded);
    assert_eq!(scene.end(BETA, 1, Outcome::Interrupted).await, Settled::Applied);
}

async fn losses(scene: &Scene) -> Vec<Loss> {
    scene.store.nodes().await.expect("nodes").losses
}

pub async fn a_lost_node_is_noted_with_when_and_what_it_held(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue(1..=13).await;
    scene.give(1, &(1..=12).collect::<Vec<_>>(), BETA).await;
    scene.give(2, &[13], ALPHA).await;
    scene.start(BETA, 2).await;
    scene.end(BETA, 3, done()).await;
    assert_eq!(losses(&scene).await, []);
    let lost = scene.lose_beta(h).await;
    let lost_at = scene.now().await;
    let noted = losses(&scene).await;
    let named: Vec<_> = [1, 2].into_iter().chain(4..=11).map(id).collect();
    assert_eq!(noted, [Loss { node: lost.node, lost_at, held: 11, jobs: named }]);
    assert_eq!(noted[0].jobs.len(), Loss::JOBS);
    // However its jobs end: what is noted is what it held.
    for n in [1, 2].into_iter().chain(4..=12) {
        let settlement = scene.settlement(n, &Event::NodeLost).await;
        assert_eq!(scene.settle_one(scene.for_lost(BETA, true), settlement).await, Settled::Applied);
        h.advance(SECOND).await;
        scene.store.beat(beat(ALPHA, true)).await.expect("beat");
        scene.lost().await;
    }
    let fleet = scene.store.nodes().await.expect("nodes");
    assert_eq!(fleet.nodes.iter().map(|node| node.incarnation).collect::<Vec<_>>(), [ALPHA]);
    assert_eq!(fleet.losses, noted, "it is buried, and shown");
}

pub async fn a_node_that_was_lost_is_in_nobodys_way(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.lose_beta(h).await;
    let settlement = scene.settlement(1, &Event::NodeLost).await;
    scene.settle_one(scene.for_lost(BETA, true), settlement).await;
    assert_eq!(scene.lost().await, []);
    let reply = scene.store.beat(beat(BETA, true)).await.expect("beat");
    assert!(!reply.alive && reply.epoch.is_none(), "{reply:?}");
    assert!(matches!(scene.store.join(join(GAMMA, "beta")).await.expect("join"), Joined::In { .. }));
    let reply = scene.store.beat(beat(ALPHA, true)).await.expect("beat");
    assert_eq!(reply.nodes.iter().map(|node| node.incarnation).collect::<BTreeSet<_>>(), [ALPHA, GAMMA].into());
    assert!(scene.store.leave(BETA).await.expect("leave"));
    // A node that leaves is not lost.
    assert!(scene.store.leave(GAMMA).await.expect("leave"));
    assert_eq!(losses(&scene).await.iter().map(|loss| loss.node.incarnation).collect::<Vec<_>>(), [BETA]);
}

pub async fn a_node_that_was_replaced_by_name_is_noted_once_the_dispatcher_has_seen_it(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let by = scene.store.join(join(GAMMA, "beta")).await.expect("join");
    let Joined::Taken { by, .. } = by else { panic!("{by:?}") };
    let replace = Some(Replace { incarnation: by.incarnation, lease_until: by.lease_until });
    let joined = scene.store.join(Join { replace, ..join(GAMMA, "beta") }).await.expect("join");
    assert!(matches!(joined, Joined::In { .. }), "{joined:?}");
    h.advance(SECOND).await;
    let ask = AskLost { holder: ALPHA, epoch: scene.epoch, expire: Expire::NoNode, limit: ALL };
    scene.store.lost_nodes(ask).await.expect("lost_nodes");
    let noted = losses(&scene).await;
    let seen: Vec<_> =
        noted.iter().map(|loss| (loss.node.incarnation, loss.lost_at, loss.held, &loss.jobs[..])).collect();
    assert_eq!(seen, [(BETA, scene.now().await, 1, &[id(1)][..])]);
}

pub async fn a_loss_is_shown_for_a_day_and_then_pruned(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.store.join(join(GAMMA, "gamma")).await.expect("join");
    h.advance(LEASE + SECOND).await;
    scene.store.beat(beat(ALPHA, true)).await.expect("beat");
    assert_eq!(scene.lost().await.len(), 2);
    for node in [BETA, GAMMA] {
        scene.settle(scene.for_lost(node, true), vec![]).await;
    }
    h.advance(Loss::KEPT).await;
    assert_eq!(losses(&scene).await.len(), 2);
    assert_eq!(scene.store.prune(None, ALL).await.expect("prune"), 0);
    h.advance(SECOND).await;
    assert_eq!(losses(&scene).await, []);
    assert_eq!(scene.store.prune(None, 1).await.expect("prune"), 1, "no more than the limit");
    assert_eq!(scene.store.prune(None, ALL).await.expect("prune"), 1);
    assert_eq!(scene.store.prune(None, ALL).await.expect("prune"), 0);
}
