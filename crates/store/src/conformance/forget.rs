//! Promises of a store with a retention of zero: what has finished is deleted.

use turnwise_core::{
    State,
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
        [Change { id: id(1), ran: Some(SECOND), failed: false, head: None }]
    );
}

pub async fn without_retention_a_failure_is_told_as_one(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let begin = scene.news(None).await.cursor;
    scene.end(BETA, 1, Outcome::Fail("for good".into())).await;
    let expected = [Change { id: id(1), ran: Some(SECOND), failed: true, head: None }];
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

pub async fn without_retention_an_unfinished_job_is_kept(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.end(BETA, 1, failed("x")).await;
    h.advance(SECOND * 100).await;
    scene.store.prune(None, ALL).await.expect("prune");
    assert_eq!((scene.state(1).await, scene.job(1).await.error.as_deref()), (State::Stuck, Some("x")));
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
