//! Promises of `assign` and `assignments`: a job is given once, and what was given arrives.

use std::collections::BTreeSet;

use turnwise_core::{
    Fence, JobId, JobState,
    lifecycle::{Event, Outcome},
    scheduler::Pick,
};

use super::{Harness, scene::*};
use crate::{StoreError, store::*};

pub async fn an_assigned_job_is_scheduled_with_the_next_fence(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    h.advance(SECOND).await;
    assert_eq!(scene.give(1, &[1], BETA).await, [Fence(1)]);
    let seen = scene.job(1).await;
    assert_eq!((seen.state, seen.fence), (JobState::Scheduled, Fence(1)));
    assert_eq!((seen.assigned_at, seen.started_at), (Some(scene.now().await), None));
    assert_eq!(seen.node.as_ref().map(|name| name.as_str()), Some("beta"));
    assert_eq!(scene.head(1).await.and_then(|head| head.node), Some(BETA));
}

pub async fn the_dispatchers_own_node_starts_from_the_reply(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job_with_retry(1, "durations:1s,2s")]).await;
    let asked = job_with_retry(1, "durations:1s,2s");
    let given = scene.give_mine(1, 1).await;
    assert_eq!((given.id, given.fence, given.state), (id(1), Fence(1), JobState::Scheduled));
    assert_eq!(
        (&given.task, &given.args, &given.queue, &given.group),
        (&asked.task, &asked.args, &asked.queue, &asked.group)
    );
    assert_eq!((given.priority, &given.retry, given.cancel_requested), (asked.priority, &asked.retry, false));
    assert_eq!(given.submitted_at, scene.job(1).await.submitted_at);
}

pub async fn another_node_reads_the_same_as_a_delivery(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    let mine = scene.give_mine(1, 1).await;
    let picks = scene.picks(&[2], BETA).await;
    let replies = scene.store.assign(scene.order(2, picks)).await.expect("assign");
    assert_eq!(replies, [(id(2), AssignReply::Theirs(Fence(1)))]);
    let mail = scene.mail(BETA).await;
    assert_eq!((mail.len(), mail[0].batch), (1, batch(2)));
    assert_eq!(scene.stop_requests(BETA).await, []);
    let [theirs] = &mail[0].jobs[..] else { panic!("{mail:?}") };
    assert_eq!(theirs, &turnwise_core::job::AssignedJob { id: id(2), args: job(2).args, ..mine });
}

pub async fn a_node_is_told_which_of_its_jobs_are_limited(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue(1..=6).await;
    let mut picks = scene.picks(&[1, 2, 3, 4, 5, 6], BETA).await;
    picks[..2].iter_mut().for_each(|pick| pick.node = ALPHA);
    picks.iter_mut().step_by(2).for_each(|pick| pick.limited = true);
    let limited = |replies: Vec<(JobId, AssignReply)>| -> Vec<(JobId, bool)> {
        let mine = replies.into_iter().filter_map(|(id, reply)| match reply {
            AssignReply::Mine(job) => Some((id, job.limited)),
            _ => None,
        });
        mine.collect()
    };
    // Some of the batch first, then all of it, then again: as if replies had been lost.
    scene.store.assign(scene.order(1, picks[2..4].to_vec())).await.expect("assign");
    for _ in 0..2 {
        let replies = scene.store.assign(scene.order(1, picks.clone())).await.expect("assign");
        assert_eq!(limited(replies), [(id(1), true), (id(2), false)]);
    }
    let mail: Vec<_> =
        scene.mail(BETA).await.into_iter().flat_map(|mail| mail.jobs).map(|job| (job.id, job.limited)).collect();
    assert_eq!(mail, [(id(3), true), (id(4), false), (id(5), true), (id(6), false)]);
}

pub async fn one_batch_reaches_every_node_in_it(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.store.join(join(GAMMA, "gamma")).await.expect("join");
    scene.enqueue(1..=5).await;
    let mut picks = scene.picks(&[1, 4], BETA).await;
    picks.extend(scene.picks(&[2, 5], GAMMA).await);
    picks.extend(scene.picks(&[3], ALPHA).await);
    let replies = scene.store.assign(scene.order(7, picks)).await.expect("assign");
    assert_eq!(replies.len(), 5);
    for (node, jobs) in [(ALPHA, vec![3]), (BETA, vec![1, 4]), (GAMMA, vec![2, 5])] {
        let mail = scene.mail_in_order(node).await;
        assert_eq!(mail.iter().map(|delivery| delivery.batch).collect::<Vec<_>>(), [batch(7)]);
        let ids: Vec<_> = mail[0].jobs.iter().map(|job| job.id).collect();
        assert_eq!(ids, jobs.into_iter().map(id).collect::<Vec<_>>());
    }
}

pub async fn a_stuck_job_is_assigned_like_a_waiting_one(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.end(BETA, 1, failed("again")).await;
    assert_eq!(scene.state(1).await, JobState::Stuck);
    assert_eq!(scene.give(2, &[1], BETA).await, [Fence(2)]);
    assert_eq!(scene.job(1).await.counts.retry, 1);
}

pub async fn who_does_not_lead_assigns_nothing(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    let picks = scene.picks(&[1], BETA).await;
    let order = scene.order(1, picks);
    let before = scene.job(1).await;
    let wrong = [
        Assign { holder: BETA, ..order.clone() },
        Assign { epoch: Epoch(scene.epoch.0 + 1), ..order.clone() },
        Assign { epoch: Epoch(scene.epoch.0 - 1), ..order.clone() },
    ];
    for order in wrong {
        let reply = scene.store.assign(order).await;
        assert!(matches!(reply, Err(StoreError::NotLeading)), "{reply:?}");
    }
    assert_eq!((scene.job(1).await, scene.mail(BETA).await), (before, vec![]));
}

pub async fn a_dispatcher_that_was_followed_assigns_nothing(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    h.advance(LEASE + SECOND).await;
    let epoch = scene.store.beat(beat(BETA, true)).await.expect("beat").epoch;
    assert!(epoch > Some(scene.epoch));
    let picks = scene.picks(&[1], ALPHA).await;
    let reply = scene.store.assign(scene.order(1, picks)).await;
    assert!(matches!(reply, Err(StoreError::NotLeading)), "{reply:?}");
    assert_eq!(scene.state(1).await, JobState::Waiting);
}

pub async fn a_pick_at_another_fence_is_left_alone(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.end(BETA, 1, failed("again")).await;
    let before = scene.job(1).await;
    for fence in [Fence(0), Fence(2), Fence(7)] {
        let picks = vec![Pick { job: id(1), fence, node: ALPHA, limited: false }];
        let replies = scene.store.assign(scene.order(2, picks)).await.expect("assign");
        let head = scene.head(1).await.expect("it is stuck");
        assert_eq!(replies, [(id(1), AssignReply::Changed(head))]);
    }
    assert_eq!((scene.job(1).await, scene.mail(ALPHA).await), (before, vec![]));
}

pub async fn a_pick_of_a_job_in_other_hands_is_left_alone(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    let early = scene.picks(&[1], ALPHA).await;
    scene.give(1, &[1], BETA).await;
    let now = scene.picks(&[1], ALPHA).await;
    let before = scene.job(1).await;
    for picks in [early, now] {
        let replies = scene.store.assign(scene.order(2, picks)).await.expect("assign");
        assert!(matches!(&replies[..], [(_, AssignReply::Changed(head))] if head.node == Some(BETA)), "{replies:?}");
    }
    assert_eq!((scene.job(1).await, scene.mail(ALPHA).await), (before, vec![]));
}

pub async fn a_pick_at_another_fence_is_left_alone_in_the_same_hands(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], ALPHA).await;
    scene.end(ALPHA, 1, Outcome::Interrupted).await;
    assert_eq!(scene.give(2, &[1], ALPHA).await, [Fence(2)]);
    for fence in [Fence(0), Fence(2), Fence(3)] {
        let picks = vec![Pick { job: id(1), fence, node: ALPHA, limited: false }];
        let replies = scene.store.assign(scene.order(3, picks)).await.expect("assign");
        assert!(matches!(&replies[..], [(_, AssignReply::Changed(_))]), "{fence:?} is not its pick: {replies:?}");
    }
}

pub async fn a_pick_of_a_finished_job_is_told_gone(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    let picks = scene.picks(&[1], BETA).await;
    scene.intervene(1, Event::Cancel).await;
    let mut picks = picks;
    picks.push(Pick { job: id(99), fence: Fence(0), node: BETA, limited: false });
    let mut replies = scene.store.assign(scene.order(1, picks)).await.expect("assign");
    replies.sort_by_key(|(id, _)| *id);
    assert_eq!(replies, [(id(1), AssignReply::Gone), (id(99), AssignReply::Gone)]);
    assert_eq!((scene.state(1).await, scene.mail(BETA).await.len()), (JobState::Cancelled, 0));
}

pub async fn one_bad_pick_does_not_hold_the_others(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2, 3]).await;
    let picks = scene.picks(&[1, 2, 3], BETA).await;
    scene.intervene(2, Event::Cancel).await;
    let replies = scene.store.assign(scene.order(1, picks)).await.expect("assign");
    let given: BTreeSet<_> =
        replies.iter().filter(|(_, reply)| *reply == AssignReply::Theirs(Fence(1))).map(|(id, _)| *id).collect();
    assert_eq!(given, BTreeSet::from([id(1), id(3)]));
    let mail = scene.mail_in_order(BETA).await;
    assert_eq!(mail[0].jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [id(1), id(3)]);
}

pub async fn a_job_is_never_given_to_a_node_that_has_left(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    let picks = scene.picks(&[1], BETA).await;
    scene.store.leave(BETA).await.expect("leave");
    let replies = scene.store.assign(scene.order(1, picks)).await.expect("assign");
    // With a node that has left, the job would stay for ever: no lease would end, no node would be lost.
    assert_eq!(replies, [(id(1), AssignReply::Locked)]);
    assert_eq!((scene.state(1).await, scene.job(1).await.fence), (JobState::Waiting, Fence(0)));
    scene.give(2, &[1], ALPHA).await;
}

pub async fn a_job_given_to_a_node_that_leaves_meanwhile_is_not_stranded(h: &impl Harness) {
    for round in 1..=8_u64 {
        h.reset().await;
        let scene = Scene::led(h).await;
        scene.enqueue([round]).await;
        let picks = scene.picks(&[round], BETA).await;
        let other = h.open().await;
        let leaving = tokio::spawn(async move { until_answered(|| other.leave(BETA)).await });
        let order = scene.order(1, picks);
        until_answered(|| scene.store.assign(order.clone())).await;
        let left = leaving.await.expect("no caller panics");
        let given = scene.state(round).await == JobState::Scheduled;
        assert_eq!(left, !given, "it left without the job, or stays for it");
        assert_eq!(scene.mail(BETA).await.len(), usize::from(given), "it can still read of it");
    }
}

pub async fn two_dispatchers_give_each_job_once(h: &impl Harness) {
    const JOBS: u64 = 60;
    let scene = Scene::led(h).await;
    scene.enqueue(1..=JOBS).await;
    let numbers: Vec<_> = (1..=JOBS).collect();
    let mut callers = Vec::new();
    for (number, node) in [(1, ALPHA), (2, BETA)] {
        let store = h.open().await;
        let picks = scene.picks(&numbers, node).await;
        for (part, picks) in picks.chunks(10).enumerate() {
            // One begins at the front, one at the back: they conflict in the middle.
            let at = if number == 1 { part } else { 5 - part };
            let order = scene.order(u128::try_from(number * 10 + at).expect("small"), picks.to_vec());
            let store = store.clone();
            callers.push(tokio::spawn(async move { (node, until_answered(|| store.assign(order.clone())).await) }));
        }
    }
    let mut given = Vec::new();
    for caller in callers {
        let (node, replies) = caller.await.expect("no caller panics");
        let assigned = |reply: &AssignReply| matches!(reply, AssignReply::Mine(_) | AssignReply::Theirs(_));
        given.extend(replies.into_iter().filter(|(_, reply)| assigned(reply)).map(|(id, _)| (id, node)));
    }
    given.sort_unstable();
    let heads = scene.heads().await;
    assert!(heads.iter().all(|head| head.fence <= Fence(1)), "a job was given twice: {heads:?}");
    let held: Vec<_> = heads.iter().filter_map(|head| Some((head.id, head.node?))).collect();
    assert_eq!(given, held, "what was said and what is so");
    let mut delivered = Vec::new();
    for node in [ALPHA, BETA] {
        for delivery in scene.mail(node).await {
            delivered.extend(delivery.jobs.into_iter().map(|job| (job.id, node)));
        }
    }
    delivered.sort_unstable();
    assert_eq!(delivered, held, "what was given and what arrives");
}

pub async fn a_batch_is_answered_and_delivered_in_the_order_of_its_picks(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2, 3, 4]).await;
    for (number, node) in [(1, BETA), (2, ALPHA)] {
        let wanted = if node == BETA { [4, 2] } else { [3, 1] };
        let picks = scene.picks(&wanted, node).await;
        let replies = scene.store.assign(scene.order(number, picks)).await.expect("assign");
        assert_eq!(replies.iter().map(|(job, _)| *job).collect::<Vec<_>>(), wanted.map(id));
        let mail = scene.mail(node).await;
        assert_eq!(mail[0].jobs.iter().map(|job| job.id).collect::<Vec<_>>(), wanted.map(id));
    }
}

pub async fn a_known_batch_is_not_delivered_again(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    scene.give(1, &[1], BETA).await;
    scene.give(2, &[2], BETA).await;
    let mail = scene.store.assignments(BETA, vec![batch(1), batch(9)]).await.expect("assignments");
    assert_eq!(mail.batches.iter().map(|delivery| delivery.batch).collect::<Vec<_>>(), [batch(2)]);
    assert_eq!(scene.store.assignments(BETA, vec![batch(1), batch(2)]).await.expect("assignments"), Mail::default());
}

pub async fn a_batch_is_kept_until_it_is_done(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    scene.give(1, &[1, 2], BETA).await;
    scene.end(BETA, 1, done()).await;
    let mail = scene.mail(BETA).await;
    assert_eq!(mail[0].jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [id(2)], "only what is still in its hands");
    let settlements = vec![scene.settlement(2, &Event::Ended(done())).await];
    let settle = Settle { author: by(BETA), settlements, done: vec![batch(1)] };
    assert_eq!(scene.store.settle(settle).await.expect("settle"), [Settled::Applied]);
    assert_eq!(scene.mail(BETA).await, []);
}

pub async fn a_batch_does_not_deliver_what_others_have_by_now(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    scene.give(1, &[1, 2], BETA).await;
    scene.end(BETA, 1, Outcome::Interrupted).await;
    scene.end(BETA, 2, Outcome::Interrupted).await;
    scene.give(2, &[1], ALPHA).await;
    let mail = scene.mail(BETA).await;
    assert!(mail.iter().all(|delivery| delivery.jobs.is_empty()), "{mail:?}");
}

pub async fn a_batch_is_done_for_its_own_node_only(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    let mut picks = scene.picks(&[1], BETA).await;
    picks.extend(scene.picks(&[2], ALPHA).await);
    scene.store.assign(scene.order(1, picks)).await.expect("assign");
    let settle = Settle { author: by(ALPHA), settlements: vec![], done: vec![batch(1), batch(5)] };
    assert_eq!(scene.store.settle(settle).await.expect("settle"), []);
    assert_eq!((scene.mail(ALPHA).await.len(), scene.mail(BETA).await.len()), (0, 1));
}

pub async fn nobody_reads_anothers_mail(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    assert_eq!((scene.mail(ALPHA).await, scene.mail(GAMMA).await), (vec![], vec![]));
}

pub async fn an_assignment_rings_the_node(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let bell = scene.store.bell();
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    rung(&bell.mail).await;
}

pub async fn of_jobs_side_by_side_only_the_picked_are_given(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue(1..=40).await;
    scene.give(1, &[5], ALPHA).await;
    scene.end(ALPHA, 5, Outcome::Interrupted).await;
    let picked: Vec<_> = (1..=40).filter(|n| ![9, 10, 33].contains(n)).collect();
    let mut picks = scene.picks(&picked, ALPHA).await;
    // One job among all others that is not at the picked fence any more.
    picks[20].fence = picks[20].fence.next();
    let order = scene.order(2, picks);
    for _ in 0..2 {
        // The second time, they are in the node's hands already.
        let replies = scene.store.assign(order.clone()).await.expect("assign");
        let (mine, others): (Vec<_>, Vec<_>) =
            replies.iter().partition(|(_, reply)| matches!(reply, AssignReply::Mine(_)));
        assert!(matches!(others[..], [(job, AssignReply::Changed(_))] if *job == id(picked[20])), "{others:?}");
        assert_eq!(mine.len(), picked.len() - 1);
    }
    let left: Vec<_> =
        scene.heads().await.into_iter().filter(|head| !head.state.assigned()).map(|head| head.id).collect();
    assert_eq!(left, [9, 10, picked[20], 33].map(id));
    assert_eq!(scene.job(5).await.fence, Fence(2));
}
