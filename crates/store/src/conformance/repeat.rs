//! Every verb once with its reply thrown away, then again: nothing changes, and the answer is the one that is documented.

use turnwise_core::{
    Fence, Incarnation, JobState, Priority, QueueName,
    lifecycle::{EditRequest, Event, Outcome},
    scheduler::Pick,
};

use super::{
    Harness,
    scene::{View, *},
};
use crate::store::*;

/// A scene with a cursor to read news from.
struct Twice {
    scene: Scene,
    begin: Cursor,
}

impl Twice {
    async fn new(h: &impl Harness) -> Self {
        let scene = Scene::led(h).await;
        let begin = scene.news(None).await.cursor;
        Self { scene, begin }
    }

    async fn view(&self) -> View {
        View::of(&*self.scene.store, &[ALPHA, BETA, GAMMA], &self.begin, self.scene.epoch).await
    }

    /// Calls, forgets the reply, calls again; returns the second reply once it is certain that it changed nothing.
    async fn call<T, F: Future<Output = Result<T>>>(&self, verb: impl Fn() -> F) -> T {
        drop(verb().await.expect("the first call"));
        let once = self.view().await;
        let reply = verb().await.expect("the second call");
        assert_eq!(self.view().await, once, "the second call changed something");
        reply
    }
}

pub async fn a_repeated_enqueue_says_that_the_jobs_are_there(h: &impl Harness) {
    let twice = Twice::new(h).await;
    let replies = twice.call(|| twice.scene.store.enqueue(vec![job(1), job(2)])).await;
    assert!(replies.iter().all(|reply| !reply.new), "{replies:?}");
}

pub async fn a_repeated_join_is_in(h: &impl Harness) {
    let twice = Twice::new(h).await;
    let now = twice.scene.now().await;
    assert_eq!(twice.call(|| twice.scene.store.join(join(GAMMA, "gamma"))).await, Joined::In { now });
}

pub async fn a_repeated_replacement_is_in(h: &impl Harness) {
    let twice = Twice::new(h).await;
    let now = twice.scene.now().await;
    let replace = Some(Replace { incarnation: BETA, lease_until: now.plus(LEASE) });
    let again = Join { replace, ..join(GAMMA, "beta") };
    assert_eq!(twice.call(|| twice.scene.store.join(again.clone())).await, Joined::In { now });
}

pub async fn a_repeated_beat_stays_in_its_epoch(h: &impl Harness) {
    let twice = Twice::new(h).await;
    h.advance(LEASE * 2).await;
    let reply = twice.call(|| twice.scene.store.beat(beat(BETA, true))).await;
    assert_eq!((reply.alive, reply.epoch), (true, Some(Epoch(twice.scene.epoch.0 + 1))));
}

pub async fn a_repeated_leave_is_no_error(h: &impl Harness) {
    let twice = Twice::new(h).await;
    twice.scene.enqueue([1]).await;
    twice.scene.give(1, &[1], BETA).await;
    assert!(!twice.call(|| twice.scene.store.leave(BETA)).await);
    assert!(twice.call(|| twice.scene.store.leave(ALPHA)).await);
}

pub async fn a_repeated_look_shows_the_same(h: &impl Harness) {
    let twice = Twice::new(h).await;
    twice.scene.enqueue([1, 2]).await;
    twice.scene.give(1, &[1], BETA).await;
    let page = twice.call(|| twice.scene.store.load(Load::After { id: None, limit: 1 })).await;
    assert_eq!((page.jobs[0].id, page.next), (id(1), Some(id(1))));
    let ask = AskNews { cursor: Some(twice.begin.clone()), epoch: twice.scene.epoch, asleep: true, new_jobs: u32::MAX };
    assert_eq!(twice.call(|| twice.scene.store.news(ask.clone())).await.jobs.len(), 2);
    assert_eq!(twice.call(|| twice.scene.store.assignments(BETA, vec![])).await.batches[0].jobs[0].id, id(1));
}

pub async fn a_repeated_assign_answers_what_the_first_did(h: &impl Harness) {
    let twice = Twice::new(h).await;
    twice.scene.enqueue([1, 2, 3]).await;
    let mut picks = twice.scene.picks(&[1], BETA).await;
    picks.extend(twice.scene.picks(&[2], ALPHA).await);
    let fence = twice.scene.job(1).await.fence;
    picks.push(Pick { job: id(99), fence, node: BETA, limited: false });
    let order = twice.scene.order(1, picks);
    let mut replies = twice.call(|| twice.scene.store.assign(order.clone())).await;
    replies.sort_by_key(|(id, _)| *id);
    let [(_, AssignReply::Theirs(theirs)), (_, AssignReply::Mine(mine)), (_, AssignReply::Gone)] = &replies[..] else {
        panic!("{replies:?}")
    };
    assert_eq!((*theirs, mine.fence, mine.id), (fence.next(), fence.next(), id(2)));
}

pub async fn a_repeated_assign_of_a_job_that_has_ended_since_is_told(h: &impl Harness) {
    let twice = Twice::new(h).await;
    twice.scene.enqueue([1, 2]).await;
    let order = twice.scene.order(1, twice.scene.picks(&[1, 2], BETA).await);
    twice.scene.store.assign(order.clone()).await.expect("assign");
    twice.scene.end(BETA, 1, done()).await;
    twice.scene.end(BETA, 2, Outcome::Interrupted).await;
    let mut replies = twice.call(|| twice.scene.store.assign(order.clone())).await;
    replies.sort_by_key(|(id, _)| *id);
    assert!(matches!(&replies[..], [(_, AssignReply::Gone), (_, AssignReply::Changed(_))]), "{replies:?}");
    assert_eq!(twice.scene.state(2).await, JobState::Waiting, "it must not run again by an old pick");
}

pub async fn a_repeated_settle_is_applied_whatever_became_of_the_job(h: &impl Harness) {
    let outcomes = [
        done(),
        failed("again"),
        Outcome::Fail("no".into()),
        Outcome::Snooze { wait: SECOND },
        Outcome::Cancelled,
        Outcome::Interrupted,
    ];
    let events = [Event::Start].into_iter().chain(outcomes.into_iter().map(Event::Ended));
    for event in events {
        h.reset().await;
        let twice = Twice::new(h).await;
        twice.scene.enqueue([1]).await;
        twice.scene.give(1, &[1], BETA).await;
        let settlements = vec![twice.scene.settlement(1, &event).await];
        let settle = Settle { author: by(BETA), settlements, done: vec![batch(1)] };
        let replies = twice.call(|| twice.scene.store.settle(settle.clone())).await;
        assert_eq!(replies, [Settled::Applied], "{event:?}");
    }
}

pub async fn a_repeated_settle_is_applied_after_the_node_has_gone(h: &impl Harness) {
    let twice = Twice::new(h).await;
    twice.scene.enqueue([1]).await;
    twice.scene.give(1, &[1], BETA).await;
    let settlements = vec![twice.scene.settlement(1, &Event::Ended(done())).await];
    let settle = Settle { author: by(BETA), settlements, done: vec![batch(1)] };
    twice.scene.store.settle(settle.clone()).await.expect("settle");
    twice.scene.store.leave(BETA).await.expect("leave");
    let before = twice.scene.job(1).await;
    assert_eq!(twice.call(|| twice.scene.store.settle(settle.clone())).await, [Settled::Applied]);
    assert_eq!(twice.scene.job(1).await, before, "who ran it is not forgotten");
}

pub async fn a_repeated_settle_for_a_lost_node_finds_the_fence_raised(h: &impl Harness) {
    let twice = Twice::new(h).await;
    twice.scene.enqueue([1]).await;
    twice.scene.give(1, &[1], BETA).await;
    twice.scene.lose_beta(h).await;
    let settlements = vec![twice.scene.settlement(1, &Event::NodeLost).await];
    let settle = Settle { author: twice.scene.for_lost(BETA, true), settlements, done: vec![] };
    // Whichever call raised it, the lost node does not have the job any more: the dispatcher reads it again.
    assert_eq!(twice.call(|| twice.scene.store.settle(settle.clone())).await, [Settled::Superseded]);
    assert_eq!(twice.scene.state(1).await, JobState::Waiting);
}

pub async fn a_repeated_call_for_the_lost_tells_the_same(h: &impl Harness) {
    let twice = Twice::new(h).await;
    twice.scene.enqueue([1]).await;
    twice.scene.give(1, &[1], BETA).await;
    twice.scene.lose_beta(h).await;
    let lost = twice
        .call(|| {
            twice.scene.store.lost_nodes(AskLost {
                holder: ALPHA,
                epoch: twice.scene.epoch,
                expire: Expire::by_the_clock(),
                limit: ALL,
            })
        })
        .await;
    assert_eq!((lost.len(), lost[0].jobs.len()), (1, 1));
}

pub async fn a_repeated_intervention_finds_the_job_moved(h: &impl Harness) {
    for event in [Event::Cancel, Event::Retry, Event::GiveUp] {
        h.reset().await;
        let twice = Twice::new(h).await;
        twice.scene.submit(vec![job_with_retry(1, "manual")]).await;
        twice.scene.give(1, &[1], BETA).await;
        twice.scene.end(BETA, 1, failed("x")).await;
        let intervention = twice.scene.intervention(1, &event).await;
        let replies = twice.call(|| twice.scene.store.control(vec![intervention.clone()])).await;
        assert_eq!(replies, [Settled::Superseded], "{event:?}: it is not what the person saw");
    }
}

pub async fn a_repeated_redrive_finds_the_job_moved(h: &impl Harness) {
    let twice = Twice::new(h).await;
    twice.scene.enqueue([1]).await;
    twice.scene.intervene(1, Event::Cancel).await;
    let intervention = twice.scene.intervention(1, &Event::Retry).await;
    let replies = twice.call(|| twice.scene.store.control(vec![intervention.clone()])).await;
    assert_eq!(replies, [Settled::Superseded]);
}

pub async fn a_repeated_cancel_of_a_running_job_is_applied(h: &impl Harness) {
    let twice = Twice::new(h).await;
    twice.scene.enqueue([1]).await;
    twice.scene.give(1, &[1], BETA).await;
    let intervention = twice.scene.intervention(1, &Event::Cancel).await;
    let replies = twice.call(|| twice.scene.store.control(vec![intervention.clone()])).await;
    assert_eq!(replies, [Settled::Applied]);
    assert_eq!(twice.scene.stop_requests(BETA).await, [(id(1), Fence(1))]);
}

pub async fn a_repeated_edit_finds_the_fence_raised(h: &impl Harness) {
    let asked = EditRequest {
        priority: Some(Priority::HIGH),
        queue: Some(QueueName::new("other").expect("a good name")),
        ..EditRequest::default()
    };
    let twice = Twice::new(h).await;
    twice.scene.enqueue([1]).await;
    let intervention = edit_of(&twice.scene, 1, &asked).await;
    let replies = twice.call(|| twice.scene.store.control(vec![intervention.clone()])).await;
    // The person looks again, and sees the job edited.
    assert_eq!(replies, [Settled::Superseded]);
    let job = twice.scene.job(1).await;
    assert_eq!((job.priority, Some(job.queue), job.fence), (Priority::HIGH, asked.queue, Fence(0).edited()));
}

pub async fn a_repeated_prune_finds_nothing(h: &impl Harness) {
    let twice = Twice::new(h).await;
    twice.scene.enqueue([1]).await;
    twice.scene.intervene(1, Event::Cancel).await;
    h.advance(RETENTION * 2).await;
    assert_eq!(twice.call(|| twice.scene.store.prune(None, ALL)).await, 0);
}

pub async fn a_repeated_remember_finds_the_memo_moved(h: &impl Harness) {
    let twice = Twice::new(h).await;
    let lead = Some((ALPHA, twice.scene.epoch));
    for (lead, value, seen) in [(None, Some("1"), 0), (None, Some("2"), 1), (lead, Some("3"), 2), (None, None, 3)] {
        let new = NewMemo { value: value.map(str::to_owned), seen: Some(seen), ..memo(MemoKind::Queue, "mail", "") };
        let replies = twice.call(|| twice.scene.store.remember(lead, vec![new.clone()])).await;
        assert_eq!(replies, [false], "it moved on, by the first call");
    }
}

pub async fn a_repeated_remember_without_a_version_writes_the_same_again(h: &impl Harness) {
    let twice = Twice::new(h).await;
    let store = &twice.scene.store;
    for _ in 0..2 {
        store.remember(None, vec![memo(MemoKind::Queue, "mail", "1")]).await.expect("remember");
    }
    let memos = store.recall(vec![MemoKind::Queue]).await.expect("recall");
    assert_eq!((memos.len(), memos[0].value.as_str(), memos[0].version), (1, "1", 2));
    let delete = NewMemo { value: None, ..memo(MemoKind::Queue, "mail", "") };
    assert_eq!(twice.call(|| store.remember(None, vec![delete.clone()])).await, [true]);
}

pub async fn a_late_beat_of_another_life_changes_nothing(h: &impl Harness) {
    let twice = Twice::new(h).await;
    let stranger = Incarnation(uuid::Uuid::from_u128(77));
    assert!(!twice.call(|| twice.scene.store.beat(beat(stranger, true))).await.alive);
    assert_eq!(twice.scene.store.nodes().await.expect("nodes").nodes.len(), 2);
}
