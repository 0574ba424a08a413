//! Promises of `control`: a person's decision is written if the job is still what the person saw.

use turnwise_core::{
    Fence, JobState,
    job::Counts,
    lifecycle::{Event, Outcome},
};

use super::{Harness, scene::*};
use crate::store::*;

pub async fn a_waiting_job_is_cancelled_at_once(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    h.advance(SECOND).await;
    assert_eq!(scene.intervene(1, Event::Cancel).await, Settled::Applied);
    let seen = scene.job(1).await;
    assert_eq!((seen.state, seen.finished_at, seen.node), (JobState::Cancelled, Some(scene.now().await), None));
    assert_eq!(scene.heads().await, []);
}

pub async fn a_stuck_job_is_cancelled_retried_or_given_up(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit((1..=3).map(|n| job_with_retry(n, "manual")).collect()).await;
    scene.give(1, &[1, 2, 3], BETA).await;
    for n in 1..=3 {
        scene.end(BETA, n, failed("why")).await;
    }
    h.advance(SECOND).await;
    for (n, event) in [(1, Event::Cancel), (2, Event::Retry), (3, Event::GiveUp)] {
        assert_eq!(scene.intervene(n, event).await, Settled::Applied);
    }
    assert_eq!((scene.state(1).await, scene.state(3).await), (JobState::Cancelled, JobState::Failed));
    let retried = scene.job(2).await;
    assert_eq!((retried.state, retried.due_at), (JobState::Waiting, Some(scene.now().await)));
    assert_eq!(retried.counts, Counts { attempt: 1, retry: 0, crashes: 0 });
    assert_eq!((retried.error.as_deref(), retried.fence), (Some("why"), Fence(1)));
}

pub async fn a_running_job_is_told_to_stop(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    scene.give(1, &[1, 2], BETA).await;
    scene.start(BETA, 1).await;
    for n in [1, 2] {
        assert_eq!(scene.intervene(n, Event::Cancel).await, Settled::Applied);
        assert!(scene.job(n).await.cancel_requested);
    }
    assert_eq!((scene.state(1).await, scene.state(2).await), (JobState::Running, JobState::Scheduled));
    // The batch with the jobs is known; the cancels come as deliveries of their own.
    let mail = scene.store.assignments(BETA, vec![batch(1)]).await.expect("assignments");
    let mut cancel: Vec<_> = mail.iter().flat_map(|delivery| delivery.cancel.clone()).collect();
    cancel.sort_unstable();
    assert_eq!(cancel, [id(1), id(2)]);
    assert!(mail.iter().all(|delivery| delivery.jobs.is_empty()), "{mail:?}");
    let known = mail.iter().map(|delivery| delivery.batch).chain([batch(1)]).collect();
    assert_eq!(scene.store.assignments(BETA, known).await.expect("assignments"), []);
}

pub async fn a_cancel_that_came_too_late_stops_nothing(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.intervene(1, Event::Cancel).await;
    scene.end(BETA, 1, done()).await;
    assert!(scene.mail(BETA).await.iter().all(|delivery| delivery.cancel.is_empty() && delivery.jobs.is_empty()));
}

pub async fn a_cancel_of_an_earlier_run_does_not_stop_a_later_one(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.intervene(1, Event::Cancel).await;
    // Beta ends the job without having read the cancel; a person runs it again on the same node.
    scene.end(BETA, 1, Outcome::Interrupted).await;
    assert_eq!(scene.intervene(1, Event::Retry).await, Settled::Applied);
    scene.give(2, &[1], BETA).await;
    let mail = scene.mail(BETA).await;
    assert!(mail.iter().all(|delivery| delivery.cancel.is_empty()), "{mail:?}");
    assert!(!scene.job(1).await.cancel_requested);
}

pub async fn a_decision_about_another_state_is_superseded(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    let seen_waiting = scene.intervention(1, &Event::Cancel).await;
    scene.give(1, &[1], BETA).await;
    let before = scene.job(1).await;
    assert_eq!(scene.store.control(vec![seen_waiting]).await.expect("control"), [Settled::Superseded]);
    assert_eq!(scene.job(1).await, before);
    let seen_scheduled = scene.intervention(1, &Event::Cancel).await;
    scene.start(BETA, 1).await;
    let before = scene.job(1).await;
    assert_eq!(scene.store.control(vec![seen_scheduled]).await.expect("control"), [Settled::Superseded]);
    assert_eq!(scene.job(1).await, before);
}

pub async fn a_decision_about_another_fence_is_superseded(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    let seen = scene.intervention(1, &Event::Cancel).await;
    scene.give(1, &[1], BETA).await;
    scene.end(BETA, 1, Outcome::Interrupted).await;
    let before = scene.job(1).await;
    assert_eq!((before.state, before.fence), (JobState::Waiting, Fence(1)));
    assert_eq!(scene.store.control(vec![seen]).await.expect("control"), [Settled::Superseded]);
    assert_eq!(scene.job(1).await, before);
}

pub async fn a_decision_about_an_unknown_job_is_told_gone(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    let missing = Intervention { job: id(99), ..scene.intervention(1, &Event::Cancel).await };
    let good = scene.intervention(1, &Event::Cancel).await;
    let replies = scene.store.control(vec![missing, good]).await.expect("control");
    assert_eq!(replies, [Settled::Gone, Settled::Applied]);
}

pub async fn an_ended_job_is_redriven_with_a_fence_that_goes_on_growing(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let old = scene.settlement(1, &Event::Ended(Outcome::Done { result: Some(json("1")) })).await;
    scene.end(BETA, 1, Outcome::Fail("no".into())).await;
    let ended = scene.job(1).await;
    h.advance(SECOND).await;
    assert_eq!(scene.intervene(1, Event::Retry).await, Settled::Applied);
    let (seen, now) = (scene.job(1).await, scene.now().await);
    assert_eq!((seen.state, seen.due_at, seen.node), (JobState::Waiting, Some(now), None));
    assert_eq!((seen.submitted_at, seen.error, &seen.args), (ended.submitted_at, ended.error, &ended.args));
    assert_eq!(scene.give(2, &[1], BETA).await, [Fence(2)]);
    assert_eq!(scene.settle_one(by(BETA), old).await, Settled::Superseded);
    assert_eq!(scene.end(BETA, 1, done()).await, Settled::Applied);
    let seen = scene.job(1).await;
    assert_eq!((seen.state, seen.counts.attempt, seen.fence), (JobState::Success, 2, Fence(2)));
    let all = scene.store.jobs(Filter::default()).await.expect("jobs");
    assert_eq!(all.len(), 1, "one job, not one per life");
}

pub async fn a_redriven_job_carries_neither_result_nor_cancel(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.intervene(1, Event::Cancel).await;
    scene.end(BETA, 1, Outcome::Done { result: Some(json("1")) }).await;
    assert!(scene.job(1).await.cancel_requested, "history says that it was asked for");
    scene.intervene(1, Event::Retry).await;
    let seen = scene.job(1).await;
    assert_eq!((seen.state, seen.result, seen.cancel_requested), (JobState::Waiting, None, false));
}

pub async fn of_sixteen_people_who_redrive_a_job_one_does(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.intervene(1, Event::Cancel).await;
    let intervention = scene.intervention(1, &Event::Retry).await;
    let mut callers = Vec::new();
    for _ in 0..16 {
        let (store, intervention) = (h.open().await, intervention.clone());
        callers.push(tokio::spawn(async move {
            // A caller that has to repeat itself may find its own work done: only the job tells then.
            until_answered(|| store.control(vec![intervention.clone()])).await[0]
        }));
    }
    let mut applied = 0;
    for caller in callers {
        match caller.await.expect("no caller panics") {
            Settled::Applied => applied += 1,
            reply => assert_eq!(reply, Settled::Superseded),
        }
    }
    assert!(applied <= 1, "{applied} redrives of one end");
    assert_eq!((scene.heads().await.len(), scene.state(1).await), (1, JobState::Waiting));
}

pub async fn a_persons_decision_rings_node_and_dispatcher(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let store = h.open().await;
    let begin = scene.news(None).await.cursor;
    let ask = AskNews { cursor: Some(begin), epoch: scene.epoch, asleep: true, new_jobs: u32::MAX };
    store.news(ask).await.expect("news");
    let person = Scene { store, epoch: scene.epoch };
    let bell = person.store.bell();
    person.intervene(1, Event::Cancel).await;
    rung(&bell.mail).await;
    rung(&bell.news).await;
}
