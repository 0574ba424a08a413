//! Promises of a store with a retention of zero: what has finished is deleted.

use turnwise_core::{
    After, Failure, JobState, NewJob, OnFailure,
    lifecycle::{Event, Outcome},
    story::Story,
};

use super::{Harness, scene::*};
use crate::store::*;

pub async fn without_retention_a_finished_job_is_deleted(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit((1..=4).map(|n| job_with_retry(n, "none")).collect()).await;
    scene.give(1, &[1, 2, 3], BETA).await;
    let ends = [(1, done()), (2, failed("x")), (3, Outcome::Cancelled)];
    for (n, outcome) in ends {
        assert_eq!(scene.end(BETA, n, outcome).await, Settled::Applied);
        assert_eq!(scene.find(n).await, None);
    }
    assert_eq!(scene.intervene(4, Event::Cancel).await, Settled::Applied);
    assert_eq!(scene.store.jobs(Filter::default()).await.expect("jobs"), []);
    assert_eq!((scene.heads().await.len(), scene.store.prune(None, ALL).await.expect("prune")), (0, 0));
}

pub async fn without_retention_an_end_is_told_all_the_same(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let begin = scene.news(None).await.cursor;
    scene.end(BETA, 1, done()).await;
    assert_eq!(
        scene.news(Some(begin)).await.changes,
        [Change { id: id(1), ran: Some(SECOND), failed: false, well: true, error: None, head: None }]
    );
}

pub async fn without_retention_a_failure_is_told_as_one(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let begin = scene.news(None).await.cursor;
    scene.end(BETA, 1, Outcome::Fail("for good".into())).await;
    let error = Some(Failure::new("for good").print());
    let expected = [Change { id: id(1), ran: Some(SECOND), failed: true, well: false, error, head: None }];
    assert_eq!(scene.news(Some(begin)).await.changes, expected);
}

pub async fn without_retention_a_repeated_settle_is_told_gone(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let settlement = scene.settlement(1, &Event::Ended(done())).await;
    assert_eq!(scene.settle_one(by(BETA), settlement.clone()).await, Settled::Applied);
    assert_eq!(scene.settle_one(by(BETA), settlement).await, Settled::Gone);
}

pub async fn without_retention_an_end_is_refused_for_the_same_reasons(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue(1..=6).await;
    scene.give(1, &[1, 2, 5, 6], BETA).await;
    scene.give(2, &[3], ALPHA).await;
    let end = Event::Ended(done());
    let ordinary = |settlement: Settlement| Settlement { noted: false, ..settlement };
    let mut settlements = Vec::new();
    for n in [1, 2, 3, 5, 6] {
        settlements.push(ordinary(scene.settlement(n, &end).await));
    }
    let missing = Settlement { job: id(99), ..settlements[0].clone() };
    let waiting = Settlement { job: id(4), ..settlements[0].clone() };
    settlements.extend([missing, waiting]);
    // Cancelled since, in other hands, assigned again since; and one with a cancel that the decision has seen, which is written.
    assert_eq!(scene.intervene(2, Event::Cancel).await, Settled::Applied);
    scene.end(BETA, 5, Outcome::Snooze { wait: SECOND }).await;
    scene.give(3, &[5], BETA).await;
    assert_eq!(scene.intervene(6, Event::Cancel).await, Settled::Applied);
    settlements[4].saw_cancel = true;
    let replies = scene.settle(by(BETA), settlements).await;
    let superseded = Settled::Superseded;
    let expected =
        [Settled::Applied, Settled::CancelRequested, superseded, superseded, Settled::Applied, Settled::Gone];
    assert_eq!((&replies[..6], replies[6]), (&expected[..], superseded));
    let mut left = Vec::new();
    for n in 1..=6 {
        left.extend(scene.find(n).await.map(|job| (n, job.state)));
    }
    let there = [(2, JobState::Scheduled), (3, JobState::Scheduled), (4, JobState::Waiting), (5, JobState::Scheduled)];
    assert_eq!(left, there);
}

pub async fn without_retention_the_end_of_many_leaves_those_between_them_alone(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue(1..=40).await;
    let all: Vec<_> = (1..=40).filter(|n| *n != 30).collect();
    scene.give(1, &all, BETA).await;
    let mut settlements = Vec::new();
    for n in all.into_iter().filter(|n| ![7, 20].contains(n)).rev() {
        settlements.push(Settlement { noted: false, ..scene.settlement(n, &Event::Ended(done())).await });
    }
    let replies = scene.settle(by(BETA), settlements.clone()).await;
    assert_eq!(replies, [Settled::Applied; 37]);
    let left: Vec<_> = scene.heads().await.into_iter().map(|head| (head.id, head.state)).collect();
    let expected = [(7, JobState::Scheduled), (20, JobState::Scheduled), (30, JobState::Waiting)];
    assert_eq!(left, expected.map(|(n, state)| (id(n), state)));
    assert_eq!(scene.settle(by(BETA), settlements).await, [Settled::Gone; 37], "the second time");
}

pub async fn without_retention_an_unfinished_job_is_kept(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.end(BETA, 1, failed("x")).await;
    h.advance(SECOND * 100).await;
    scene.store.prune(None, ALL).await.expect("prune");
    assert_eq!((scene.state(1).await, scene.job(1).await.error.as_deref()), (JobState::Stuck, Some("x")));
}

pub async fn without_retention_a_job_takes_its_story_with_it(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job_with_retry(1, "durations:0s")]).await;
    scene.give(1, &[1], BETA).await;
    scene.end(BETA, 1, failed("x")).await;
    assert_eq!(scene.story(1).await.attempts.len(), 1);
    scene.give(2, &[1], BETA).await;
    scene.end(BETA, 1, failed("y")).await;
    assert_eq!(scene.find(1).await, None);
    assert_eq!(scene.story(1).await, Story::default());
}

pub async fn without_retention_a_bad_end_is_remembered_by_those_who_wait(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let after = |numbers: &[u64]| After::new(numbers.iter().copied().map(id), OnFailure::Fail).expect("few");
    let waiting = NewJob { after: after(&[1, 2, 3, 4]), ..job(5) };
    scene.submit(vec![job(1), job(2), job(3), job(4), waiting, NewJob { after: after(&[2]), ..job(6) }]).await;
    let awaits = async |n| {
        let awaits = scene.head(n).await.and_then(|head| head.awaits).expect("it waits");
        (awaits.open, awaits.ended_badly)
    };
    scene.give(1, &[1, 3], BETA).await;
    scene.end(BETA, 1, done()).await;
    assert_eq!(awaits(5).await, (vec![id(2), id(3), id(4)], None));
    let quiet = Settlement { noted: false, ..scene.settlement(3, &Event::Ended(Outcome::Fail("x".into()))).await };
    assert_eq!(scene.settle_one(by(BETA), quiet).await, Settled::Applied);
    assert_eq!(awaits(5).await, (vec![id(2), id(4)], Some((id(3), JobState::Failed))));
    scene.intervene(2, Event::Cancel).await;
    assert_eq!(awaits(5).await, (vec![id(4)], Some((id(2), JobState::Cancelled))));
    assert_eq!(awaits(6).await, (vec![], Some((id(2), JobState::Cancelled))));
}

pub async fn without_retention_an_end_that_is_refused_is_remembered_by_nobody(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let after = After::new([id(1), id(2)], OnFailure::Fail).expect("few");
    scene.submit(vec![job(1), job(2), NewJob { after, ..job(3) }]).await;
    scene.give(1, &[1], BETA).await;
    let failed = scene.settlement(1, &Event::Ended(Outcome::Fail("x".into()))).await;
    let given_up = scene.intervention(1, &Event::NodeLost).await;
    scene.end(BETA, 1, done()).await;
    assert_eq!(scene.settle_one(by(BETA), failed).await, Settled::Gone);
    let cancelled = Intervention { to: scene.intervention(2, &Event::Cancel).await.to, ..given_up };
    assert_eq!(scene.store.control(vec![cancelled]).await.expect("control"), [Settled::Gone]);
    let awaits = scene.head(3).await.and_then(|head| head.awaits).expect("it waits");
    assert_eq!((awaits.open, awaits.ended_badly), (vec![id(2)], None));
}

pub async fn without_retention_what_a_job_waited_for_goes_with_it(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let after = |n| After::new([id(n)], OnFailure::Run).expect("few");
    scene.submit(vec![job(1), NewJob { after: after(1), ..job(2) }, NewJob { after: after(1), ..job(3) }]).await;
    assert_eq!(scene.story(1).await.awaited_by, [id(2), id(3)]);
    scene.give(1, &[2], BETA).await;
    let quiet = Settlement { noted: false, ..scene.settlement(2, &Event::Ended(done())).await };
    assert_eq!(scene.settle_one(by(BETA), quiet).await, Settled::Applied);
    scene.intervene(3, Event::Cancel).await;
    assert_eq!(scene.story(1).await.awaited_by, []);
    assert_eq!(scene.story(2).await, Story::default());
}
