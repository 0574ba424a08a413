//! Promises of `settle`: a decision is written once, and only by the node that has the job.

use std::time::Duration;

use turnwise_core::{
    Fence, JobState,
    job::Counts,
    lifecycle::{Event, Outcome},
};

use super::{Harness, scene::*};
use crate::{StoreError, store::*};

pub async fn a_started_job_is_running_and_still_held(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    assert_eq!(scene.start(BETA, 1).await, Settled::Applied);
    let (seen, now) = (scene.job(1).await, scene.now().await);
    assert_eq!((seen.state, seen.fence, seen.attempt()), (JobState::Running, Fence(1), 1));
    assert_eq!((seen.started_at, seen.finished_at), (Some(now.minus(SECOND)), None));
    assert_eq!(seen.node.as_ref().map(|name| name.as_str()), Some("beta"));
    assert_eq!(scene.mail(BETA).await[0].jobs[0].state, JobState::Running);
}

pub async fn a_finished_job_leaves_for_history_with_all_that_is_known(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    let submitted = scene.job(1).await;
    h.advance(SECOND * 5).await;
    let assigned_at = scene.now().await;
    scene.give(1, &[1], BETA).await;
    h.advance(SECOND * 5).await;
    let result = json(r#"{"sent": true}"#);
    assert_eq!(scene.end(BETA, 1, Outcome::Done { result: Some(result.clone()) }).await, Settled::Applied);
    let now = scene.now().await;
    let expected = turnwise_core::Job {
        state: JobState::Success,
        counts: Counts { attempt: 1, ..Counts::default() },
        fence: Fence(1),
        node: Some(join(BETA, "beta").name),
        result: Some(result),
        assigned_at: Some(assigned_at),
        started_at: Some(now.minus(SECOND)),
        finished_at: Some(now),
        ..submitted
    };
    assert_eq!(scene.job(1).await, expected);
    assert_eq!(scene.heads().await, []);
}

pub async fn a_job_without_a_run_is_finished_when_it_is_settled(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    h.advance(SECOND).await;
    let settlement = scene.unrun(1, Outcome::Fail("no such task".into())).await;
    assert_eq!(scene.settle_one(by(BETA), settlement).await, Settled::Applied);
    let seen = scene.job(1).await;
    assert_eq!((seen.state, seen.started_at, seen.finished_at), (JobState::Failed, None, Some(scene.now().await)));
}

pub async fn a_failed_run_is_stuck_until_it_is_due(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job_with_retry(1, "durations:30s")]).await;
    scene.give(1, &[1], BETA).await;
    assert_eq!(scene.end(BETA, 1, failed("boom\n\tat ü")).await, Settled::Applied);
    let (seen, now) = (scene.job(1).await, scene.now().await);
    assert_eq!((seen.state, seen.due_at), (JobState::Stuck, Some(now.plus(SECOND * 30))));
    assert_eq!(seen.counts, Counts { attempt: 1, retry: 1, crashes: 0 });
    assert_eq!((seen.error.as_deref(), seen.node, seen.fence), (Some("boom\n\tat ü"), None, Fence(1)));
    assert_eq!((seen.started_at, seen.finished_at), (Some(now.minus(SECOND)), Some(now)));
    let head = scene.head(1).await.expect("it is stuck");
    assert_eq!((head.state, head.due, head.node), (JobState::Stuck, seen.due_at, None));
}

pub async fn a_job_may_be_stuck_without_a_due_time(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job_with_retry(1, "manual")]).await;
    scene.give(1, &[1], BETA).await;
    scene.end(BETA, 1, failed("ask somebody")).await;
    assert_eq!((scene.state(1).await, scene.job(1).await.due_at), (JobState::Stuck, None));
}

pub async fn the_last_error_is_kept_through_a_later_success(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.end(BETA, 1, failed("first")).await;
    scene.give(2, &[1], BETA).await;
    scene.end(BETA, 1, done()).await;
    let seen = scene.job(1).await;
    assert_eq!((seen.state, seen.error.as_deref(), seen.fence), (JobState::Success, Some("first"), Fence(2)));
    assert_eq!(seen.counts, Counts { attempt: 2, retry: 1, crashes: 0 });
}

pub async fn the_last_run_is_kept_where_a_settle_tells_of_none(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let began = scene.now().await.minus(SECOND);
    scene.start(BETA, 1).await;
    h.advance(SECOND).await;
    let settlement = scene.settlement(1, &Event::Ended(failed("x"))).await;
    assert_eq!(scene.settle_one(by(BETA), Settlement { started_at: None, ..settlement }).await, Settled::Applied);
    let ended = scene.now().await;
    let seen = scene.job(1).await;
    assert_eq!((seen.started_at, seen.finished_at), (Some(began), Some(ended)), "the begin was written at the start");
    scene.give(2, &[1], BETA).await;
    scene.lose_beta(h).await;
    let lost = scene.settlement(1, &Event::NodeLost).await;
    assert_eq!(scene.settle_one(scene.for_lost(BETA, true), lost).await, Settled::Applied);
    let seen = scene.job(1).await;
    assert_eq!((seen.started_at, seen.finished_at), (Some(began), Some(ended)), "there was no other run");
}

pub async fn a_snoozed_job_waits_for_its_time(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    assert_eq!(scene.end(BETA, 1, Outcome::Snooze { wait: Duration::from_micros(1) }).await, Settled::Applied);
    let (seen, now) = (scene.job(1).await, scene.now().await);
    assert_eq!((seen.state, seen.due_at), (JobState::Waiting, Some(now.plus(Duration::from_micros(1)))));
    assert_eq!((seen.counts, seen.node), (Counts::default(), None));
}

pub async fn every_end_is_kept_as_what_it_is(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit((1..=5).map(|n| job_with_retry(n, "none")).collect()).await;
    scene.give(1, &[1, 2, 3, 4, 5], BETA).await;
    let ends = [
        (1, done(), JobState::Success, None),
        (2, failed("e"), JobState::Failed, Some("e")),
        (3, Outcome::Fail("f".into()), JobState::Failed, Some("f")),
        (4, Outcome::Cancelled, JobState::Cancelled, None),
        (5, Outcome::Interrupted, JobState::Waiting, None),
    ];
    for (n, outcome, state, error) in ends {
        assert_eq!(scene.end(BETA, n, outcome).await, Settled::Applied);
        let seen = scene.job(n).await;
        assert_eq!((seen.state, seen.error.as_deref()), (state, error), "job {n}");
    }
}

pub async fn answers_are_in_the_order_of_the_settlements(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue(1..=4).await;
    scene.give(1, &[1, 2, 4], BETA).await;
    scene.give(2, &[3], ALPHA).await;
    scene.intervene(2, Event::Cancel).await;
    let end = Event::Ended(done());
    let mut unseen = scene.settlement(2, &end).await;
    unseen.saw_cancel = false;
    let missing = Settlement { job: id(99), ..unseen.clone() };
    let settlements = vec![
        scene.settlement(4, &end).await,
        missing,
        scene.settlement(3, &end).await,
        unseen,
        scene.settlement(1, &end).await,
    ];
    let replies = scene.settle(by(BETA), settlements).await;
    let expected = [Settled::Applied, Settled::Gone, Settled::Superseded, Settled::CancelRequested, Settled::Applied];
    assert_eq!(replies, expected);
    let states = [scene.state(1).await, scene.state(2).await, scene.state(3).await, scene.state(4).await];
    assert_eq!(states, [JobState::Success, JobState::Scheduled, JobState::Scheduled, JobState::Success]);
}

pub async fn an_empty_settle_is_answered_with_nothing(h: &impl Harness) {
    let scene = Scene::led(h).await;
    assert_eq!(scene.settle(by(BETA), vec![]).await, []);
}

pub async fn a_settle_with_an_old_fence_is_superseded(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let old = scene.settlement(1, &Event::Ended(done())).await;
    scene.end(BETA, 1, Outcome::Interrupted).await;
    scene.give(2, &[1], BETA).await;
    let before = scene.job(1).await;
    assert_eq!(scene.settle_one(by(BETA), old.clone()).await, Settled::Superseded, "while it runs again");
    assert_eq!(scene.job(1).await, before);
    scene.end(BETA, 1, failed("x")).await;
    let before = scene.job(1).await;
    assert_eq!(scene.settle_one(by(BETA), old.clone()).await, Settled::Superseded, "while it is at rest");
    assert_eq!(scene.job(1).await, before);
    scene.give(3, &[1], BETA).await;
    scene.end(BETA, 1, Outcome::Fail("y".into())).await;
    let before = scene.job(1).await;
    assert_eq!(scene.settle_one(by(BETA), old).await, Settled::Superseded, "after its end");
    assert_eq!(scene.job(1).await, before);
}

/// A failover takes back that a job was given to a node, and with it its fence: the next node gets the same number.
pub async fn an_end_of_another_run_at_the_same_fence_is_superseded(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    scene.give(1, &[1, 2], BETA).await;
    let (taken_back, other) =
        (scene.settlement(1, &Event::Ended(done())).await, scene.settlement(2, &Event::Ended(done())).await);
    h.advance(SECOND).await;
    // The other node hands the first job back unrun, and ends the second.
    let unrun = scene.unrun(1, Outcome::Interrupted).await;
    assert_eq!(scene.settle_one(by(BETA), unrun.clone()).await, Settled::Applied);
    let written = scene.settlement(2, &Event::Ended(failed("x"))).await;
    assert_eq!(scene.settle_one(by(BETA), written.clone()).await, Settled::Applied);
    for author in [by(ALPHA), by(BETA)] {
        let late = scene.settle(author, vec![taken_back.clone(), other.clone()]).await;
        assert_eq!(late, [Settled::Superseded, Settled::Superseded]);
    }
    assert_eq!((scene.state(1).await, scene.state(2).await), (JobState::Waiting, JobState::Stuck));
    let repeated = scene.settle(by(BETA), vec![unrun, written]).await;
    assert_eq!(repeated, [Settled::Applied, Settled::Applied]);
}

pub async fn a_settle_of_a_job_in_other_hands_is_superseded(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let before = scene.job(1).await;
    assert_eq!(scene.end(ALPHA, 1, done()).await, Settled::Superseded);
    assert_eq!(scene.job(1).await, before);
}

pub async fn a_settle_of_an_unknown_job_is_told_gone(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let settlement = Settlement { job: id(99), ..scene.settlement(1, &Event::Ended(done())).await };
    assert_eq!(scene.settle_one(by(BETA), settlement).await, Settled::Gone);
    assert!(scene.find(99).await.is_none());
}

pub async fn a_start_that_comes_after_the_end_changes_nothing(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    scene.give(1, &[1, 2], BETA).await;
    let starts = vec![scene.settlement(1, &Event::Start).await, scene.settlement(2, &Event::Start).await];
    scene.end(BETA, 1, done()).await;
    scene.end(BETA, 2, failed("x")).await;
    let before = (scene.job(1).await, scene.job(2).await);
    assert_eq!(scene.settle(by(BETA), starts).await, [Settled::Applied, Settled::Applied]);
    assert_eq!((scene.job(1).await, scene.job(2).await), before);
}

pub async fn a_cancel_between_decision_and_settle_brings_the_job_back(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.start(BETA, 1).await;
    let decided = scene.settlement(1, &Event::Ended(done())).await;
    assert_eq!(scene.intervene(1, Event::Cancel).await, Settled::Applied);
    let before = scene.job(1).await;
    assert_eq!(scene.settle_one(by(BETA), decided).await, Settled::CancelRequested);
    assert_eq!(scene.job(1).await, before);
    assert_eq!(scene.end(BETA, 1, done()).await, Settled::Applied, "decided again, knowing of it");
    assert_eq!(scene.state(1).await, JobState::Cancelled);
}

pub async fn a_lost_nodes_late_settle_is_superseded(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    scene.give(1, &[1, 2], BETA).await;
    scene.start(BETA, 1).await;
    let late = vec![scene.settlement(1, &Event::Ended(done())).await, scene.settlement(2, &Event::Start).await];
    scene.lose_beta(h).await;
    let lost = vec![scene.settlement(1, &Event::NodeLost).await, scene.settlement(2, &Event::NodeLost).await];
    assert_eq!(scene.settle(scene.for_lost(BETA, true), lost).await, [Settled::Applied, Settled::Applied]);
    let seen = scene.job(1).await;
    assert_eq!((seen.state, seen.fence, seen.counts.crashes), (JobState::Waiting, Fence(2), 1));
    assert_eq!(seen.node, None);
    let before = (seen, scene.job(2).await);
    assert_eq!(scene.settle(by(BETA), late).await, [Settled::Superseded, Settled::Superseded]);
    assert_eq!((scene.job(1).await, scene.job(2).await), before);
}

pub async fn a_lost_nodes_late_settle_is_superseded_while_the_job_runs_elsewhere(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let late = scene.settlement(1, &Event::Ended(done())).await;
    scene.lose_beta(h).await;
    let lost = scene.settlement(1, &Event::NodeLost).await;
    scene.settle_one(scene.for_lost(BETA, true), lost).await;
    assert_eq!(scene.give(2, &[1], ALPHA).await, [Fence(3)]);
    assert_eq!(scene.settle_one(by(BETA), late.clone()).await, Settled::Superseded);
    assert_eq!(scene.end(ALPHA, 1, Outcome::Fail("x".into())).await, Settled::Applied);
    assert_eq!(scene.settle_one(by(BETA), late).await, Settled::Superseded);
    assert_eq!(scene.state(1).await, JobState::Failed);
}

pub async fn what_a_lost_node_settles_before_the_dispatcher_does_counts(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.lose_beta(h).await;
    let lost = scene.settlement(1, &Event::NodeLost).await;
    assert_eq!(scene.end(BETA, 1, done()).await, Settled::Applied, "the work was done: no other node has it");
    assert_eq!(scene.settle_one(scene.for_lost(BETA, true), lost).await, Settled::Superseded, "its node was first");
    assert_eq!((scene.state(1).await, scene.job(1).await.fence), (JobState::Success, Fence(1)));
    assert_eq!(scene.lost().await, []);
}

pub async fn only_the_dispatcher_settles_for_a_lost_node(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.lose_beta(h).await;
    let before = scene.job(1).await;
    for (holder, epoch) in [(GAMMA, scene.epoch), (ALPHA, Epoch(scene.epoch.0 + 1))] {
        let settlements = vec![scene.settlement(1, &Event::NodeLost).await];
        let author = Author::Dispatcher { holder, epoch, lost: BETA, bury: true };
        let reply = scene.store.settle(Settle { author, settlements, done: vec![batch(1)] }).await;
        assert!(matches!(reply, Err(StoreError::NotLeading)), "{reply:?}");
    }
    assert_eq!((scene.job(1).await, scene.mail(BETA).await.len()), (before, 1));
    assert_eq!(scene.lost().await.len(), 1);
}

pub async fn the_dispatcher_settles_only_what_the_lost_node_has(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], ALPHA).await;
    scene.lose_beta(h).await;
    let settlement = scene.settlement(1, &Event::NodeLost).await;
    let before = scene.job(1).await;
    assert_eq!(scene.settle_one(scene.for_lost(BETA, true), settlement).await, Settled::Superseded);
    assert_eq!(scene.job(1).await, before);
}

pub async fn a_cancelled_job_of_a_lost_node_ends_cancelled(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let unseen = scene.settlement(1, &Event::NodeLost).await;
    scene.intervene(1, Event::Cancel).await;
    scene.lose_beta(h).await;
    assert_eq!(scene.settle_one(scene.for_lost(BETA, true), unseen).await, Settled::CancelRequested);
    let seen = scene.settlement(1, &Event::NodeLost).await;
    assert_eq!(scene.settle_one(scene.for_lost(BETA, true), seen).await, Settled::Applied);
    let ended = scene.job(1).await;
    assert_eq!((ended.state, ended.fence), (JobState::Cancelled, Fence(2)));
    assert_eq!(ended.node.as_ref().map(|name| name.as_str()), Some("beta"));
}

pub async fn of_sixteen_settlers_of_one_fence_one_is_written(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let mut settlements = Vec::new();
    for n in 0..16 {
        settlements.push(scene.settlement(1, &Event::Ended(failed(&format!("written by {n}")))).await);
    }
    let mut callers = Vec::new();
    for settlement in settlements {
        let store = h.open().await;
        callers.push(tokio::spawn(async move {
            let settle = Settle { author: by(BETA), settlements: vec![settlement], done: vec![] };
            let replies = until_answered(|| store.settle(settle.clone())).await;
            // After its own reply each caller reads the job: a second write would show as a second text.
            let seen = until_answered(|| store.job(id(1))).await.expect("it is stuck");
            (replies, seen.error)
        }));
    }
    let mut texts = std::collections::BTreeSet::new();
    for caller in callers {
        let (replies, text) = caller.await.expect("no caller panics");
        assert_eq!(replies, [Settled::Applied]);
        texts.insert(text);
    }
    assert_eq!(texts.len(), 1, "{texts:?}");
    let seen = scene.job(1).await;
    assert_eq!((seen.state, seen.counts.attempt), (JobState::Stuck, 1));
}

pub async fn of_a_lost_node_and_its_dispatcher_one_settles(h: &impl Harness) {
    for round in 1..=8_u64 {
        h.reset().await;
        let scene = Scene::led(h).await;
        scene.enqueue([round]).await;
        scene.give(1, &[round], BETA).await;
        scene.lose_beta(h).await;
        let run = (by(BETA), scene.settlement(round, &Event::Ended(done())).await);
        let loss = (scene.for_lost(BETA, false), scene.settlement(round, &Event::NodeLost).await);
        let mut callers = Vec::new();
        for (author, settlement) in [run, loss] {
            let store = h.open().await;
            callers.push(tokio::spawn(async move {
                let settle = Settle { author, settlements: vec![settlement], done: vec![] };
                until_answered(|| store.settle(settle.clone())).await[0]
            }));
        }
        let mut replies = Vec::new();
        for caller in callers {
            replies.push(caller.await.expect("no caller panics"));
        }
        let seen = scene.job(round).await;
        match replies[..] {
            [Settled::Applied, Settled::Superseded] => {
                assert_eq!((seen.state, seen.fence), (JobState::Success, Fence(1)))
            }
            [Settled::Superseded, Settled::Applied] => {
                assert_eq!((seen.state, seen.fence), (JobState::Waiting, Fence(2)))
            }
            _ => panic!("{replies:?}"),
        }
    }
}
