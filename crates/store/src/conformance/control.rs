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
    // The batch with the jobs is known; the requests come beside the batches, at every look until the jobs are settled.
    let stop = [(id(1), Fence(1)), (id(2), Fence(1))];
    for _ in 0..2 {
        let mail = scene.store.assignments(BETA, vec![batch(1)]).await.expect("assignments");
        assert_eq!(in_order(mail), Mail { batches: vec![], stop: stop.to_vec() });
    }
    scene.end(BETA, 1, Outcome::Cancelled).await;
    let mail = scene.store.assignments(BETA, vec![batch(1)]).await.expect("assignments");
    assert_eq!(mail.stop, stop[1..]);
}

pub async fn a_cancel_that_came_too_late_stops_nothing(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.intervene(1, Event::Cancel).await;
    scene.end(BETA, 1, done()).await;
    assert!(scene.mail(BETA).await.iter().all(|delivery| delivery.jobs.is_empty()));
    assert_eq!(scene.stop_requests(BETA).await, []);
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
    assert_eq!(scene.stop_requests(BETA).await, []);
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

pub async fn a_job_that_succeeded_runs_once_more_if_a_person_says_so(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.end(BETA, 1, done()).await;
    assert_eq!(scene.state(1).await, JobState::Success);
    assert_eq!(scene.intervene(1, Event::Rerun).await, Settled::Applied);
    let waiting = scene.job(1).await;
    assert_eq!((waiting.state, waiting.result, waiting.fence), (JobState::Waiting, None, Fence(1)));
    assert_eq!(waiting.counts, Counts { attempt: 1, retry: 0, crashes: 0 });
    scene.give(2, &[1], BETA).await;
    scene.end(BETA, 1, done()).await;
    let again = scene.job(1).await;
    assert_eq!((again.state, again.fence, again.counts.attempt), (JobState::Success, Fence(2), 2));
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
            // A caller that has to repeat its call may find its own write: then only the job shows that it was written.
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
