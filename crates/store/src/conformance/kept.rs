//! Promises of a store with a retention for each state: see [`KEPT`].

use std::time::Duration;

use turnwise_core::{
    JobState, Retention,
    lifecycle::{Event, Outcome},
    story::Story,
};

use super::{Harness, scene::*};
use crate::store::*;

/// Jobs that end well are not kept, cancelled ones for an hour, failed ones for days.
pub const KEPT: Retention =
    Retention { success: Duration::ZERO, failed: Duration::from_secs(3 * 86_400), cancelled: HOUR };

const HOUR: Duration = Duration::from_secs(3_600);

/// Jobs 1, 2 and 3 have ended as success, failed and cancelled, in one call; 4 was cancelled by a person, 5 waits.
async fn ended(h: &impl Harness) -> Scene {
    let scene = Scene::led(h).await;
    scene.submit((1..=5).map(|n| job_with_retry(n, "none")).collect()).await;
    scene.give(1, &[1, 2, 3], BETA).await;
    let mut settlements = Vec::new();
    for (n, outcome) in [(1, done()), (2, failed("x")), (3, Outcome::Cancelled)] {
        settlements.push(scene.settlement(n, &Event::Ended(outcome)).await);
    }
    let settle = Settle { author: by(BETA), settlements, done: vec![] };
    assert_eq!(scene.store.settle(settle).await.expect("settle"), [Settled::Applied; 3]);
    assert_eq!(scene.intervene(4, Event::Cancel).await, Settled::Applied);
    scene
}

pub async fn a_state_without_retention_is_deleted_and_the_others_are_kept(h: &impl Harness) {
    let scene = ended(h).await;
    assert_eq!(scene.find(1).await, None);
    assert_eq!(scene.story(1).await, Story::default());
    let states = [scene.state(2).await, scene.state(3).await, scene.state(4).await, scene.state(5).await];
    assert_eq!(states, [JobState::Failed, JobState::Cancelled, JobState::Cancelled, JobState::Waiting]);
    assert_eq!(scene.story(2).await.attempts.len(), 1);
}

pub async fn each_state_is_kept_for_its_own_time(h: &impl Harness) {
    let scene = ended(h).await;
    let mut left = Vec::new();
    for pass in [HOUR, HOUR, DAY * 3 - HOUR * 2, DAY] {
        h.advance(pass).await;
        scene.store.prune(None, ALL).await.expect("prune");
        let mut there = Vec::new();
        for n in 1..=5 {
            there.extend(scene.find(n).await.map(|_| n));
        }
        left.push(there);
    }
    assert_eq!(left, [vec![2, 3, 4, 5], vec![2, 5], vec![2, 5], vec![5]]);
    assert_eq!(scene.story(2).await, Story::default());
}

pub async fn a_decision_of_a_person_is_kept_by_the_state_it_ends_in(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job_with_retry(1, "manual"), job_with_retry(2, "manual")]).await;
    scene.give(1, &[1, 2], BETA).await;
    scene.end(BETA, 1, failed("x")).await;
    scene.end(BETA, 2, failed("x")).await;
    assert_eq!(scene.intervene(1, Event::GiveUp).await, Settled::Applied);
    assert_eq!(scene.intervene(2, Event::Cancel).await, Settled::Applied);
    assert_eq!((scene.state(1).await, scene.state(2).await), (JobState::Failed, JobState::Cancelled));
    assert_eq!((scene.story(1).await.attempts.len(), scene.story(2).await.attempts.len()), (1, 1));
}

pub async fn an_end_that_is_not_kept_is_told_beside_one_that_is(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit((1..=3).map(|n| job_with_retry(n, "none")).collect()).await;
    scene.give(1, &[1, 2, 3], BETA).await;
    let begin = scene.news(None).await.cursor;
    let mut settlements = Vec::new();
    for (n, outcome) in [(1, done()), (2, failed("x")), (3, Outcome::Snooze { wait: SECOND })] {
        settlements.push(scene.settlement(n, &Event::Ended(outcome)).await);
    }
    let settle = Settle { author: by(BETA), settlements, done: vec![] };
    let repeated = settle.clone();
    assert_eq!(scene.store.settle(settle).await.expect("settle"), [Settled::Applied; 3]);
    let mut changes: Vec<_> = scene.news(Some(begin)).await.changes;
    changes.sort_by_key(|change| change.id);
    let ends: Vec<_> = changes.iter().map(|change| (change.id, change.failed, change.head.is_some())).collect();
    assert_eq!(ends, [(id(1), false, false), (id(2), true, false), (id(3), false, true)]);
    let again = scene.store.settle(repeated).await.expect("settle");
    assert_eq!(again, [Settled::Gone, Settled::Applied, Settled::Applied]);
}
