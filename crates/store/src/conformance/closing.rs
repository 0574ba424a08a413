//! Promises of a run that commits together with its end. Here all it does is submit job 9, which a reader can see.

use turnwise_core::{
    JobState,
    lifecycle::{Event, Outcome},
    story::Progress,
};

use super::{ClosingHarness, scene::*};
use crate::{Closed, Last, store::*};

const WRITTEN: u64 = 9;

/// Job 1 is in beta's hands, and its run has done its work.
async fn run(h: &impl ClosingHarness) -> (Scene, Box<dyn crate::Closing>) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let closing = h.closing(BETA, job(WRITTEN)).await;
    assert_eq!(scene.find(WRITTEN).await, None, "no reader sees it before the end");
    (scene, closing)
}

async fn last(scene: &Scene, outcome: Outcome) -> Last {
    let settlement = scene.settlement(1, &Event::Ended(outcome)).await;
    let (job, fence) = (settlement.job, settlement.fence);
    let progress = Some(Progress::new(1, 1, "written"));
    let note = Note { job, fence, progress, lines: Vec::new(), trim: false, steps: Vec::new() };
    Last { node: BETA, told: None, settlement, note: Some(note) }
}

async fn assert_nothing_is_there(scene: &Scene) {
    assert_eq!(scene.find(WRITTEN).await, None);
    assert_eq!(scene.story(1).await.progress, None);
}

pub async fn what_a_run_wrote_is_committed_with_its_end(h: &impl ClosingHarness) {
    let (scene, closing) = run(h).await;
    let result = json("[7]");
    let last = last(&scene, Outcome::Done { result: Some(result.clone()) }).await;
    let cursor = scene.news(None).await.cursor;
    assert!(matches!(closing.settle(last).await, Closed::Committed));
    let ended = scene.job(1).await;
    assert_eq!((ended.state, ended.attempt(), ended.result), (JobState::Success, 1, Some(result)));
    assert_eq!(scene.state(WRITTEN).await, JobState::Waiting);
    assert_eq!(scene.story(1).await.progress, Some(Progress::new(1, 1, "written")));
    let news = scene.news(Some(cursor)).await;
    assert_eq!(news.changes.iter().map(|change| change.id).collect::<Vec<_>>(), [id(1)]);
    assert_eq!(news.jobs.iter().map(|head| head.id).collect::<Vec<_>>(), [id(WRITTEN)]);
}

pub async fn what_a_run_wrote_is_committed_with_its_next_step(h: &impl ClosingHarness) {
    let (scene, closing) = run(h).await;
    let last = last(&scene, Outcome::Next { step: Box::new(step("extract")), due: None }).await;
    assert!(matches!(closing.settle(last).await, Closed::Committed));
    let job = scene.job(1).await;
    assert_eq!((job.state, job.task.as_str()), (JobState::Waiting, "extract"));
    assert_eq!(scene.state(WRITTEN).await, JobState::Waiting);
}

pub async fn what_is_rolled_back_was_never_there(h: &impl ClosingHarness) {
    let (scene, closing) = run(h).await;
    closing.roll_back().await;
    assert_nothing_is_there(&scene).await;
    assert_eq!(scene.end(BETA, 1, failed("no")).await, Settled::Applied);
}

pub async fn a_run_that_is_dropped_was_never_there(h: &impl ClosingHarness) {
    let (scene, closing) = run(h).await;
    drop(closing);
    assert_eq!(scene.end(BETA, 1, failed("no")).await, Settled::Applied);
    assert_nothing_is_there(&scene).await;
}

pub async fn a_run_whose_job_is_in_other_hands_commits_nothing(h: &impl ClosingHarness) {
    let (scene, closing) = run(h).await;
    let last = last(&scene, done()).await;
    let lost = scene.settlement(1, &Event::NodeLost).await;
    assert_eq!(scene.settle_one(scene.for_lost(BETA, false), lost).await, Settled::Applied);
    scene.give(2, &[1], ALPHA).await;
    let closed = closing.settle(last).await;
    assert!(matches!(closed, Closed::Refused(Settled::Superseded)), "{closed:?}");
    assert_nothing_is_there(&scene).await;
    assert_eq!(scene.state(1).await, JobState::Scheduled);
}

pub async fn a_run_that_was_settled_already_commits_nothing(h: &impl ClosingHarness) {
    let (scene, closing) = run(h).await;
    let last = last(&scene, done()).await;
    assert_eq!(scene.end(BETA, 1, failed("given up")).await, Settled::Applied);
    let closed = closing.settle(last).await;
    assert!(matches!(closed, Closed::Refused(Settled::Superseded)), "{closed:?}");
    assert_nothing_is_there(&scene).await;
}

pub async fn a_cancel_that_the_decision_did_not_know_comes_first(h: &impl ClosingHarness) {
    let (scene, closing) = run(h).await;
    let last = last(&scene, done()).await;
    assert_eq!(scene.intervene(1, Event::Cancel).await, Settled::Applied);
    let closed = closing.settle(last).await;
    assert!(matches!(closed, Closed::Refused(Settled::CancelRequested)), "{closed:?}");
    assert_nothing_is_there(&scene).await;
}

pub async fn a_run_that_is_known_to_be_cancelled_commits_nothing(h: &impl ClosingHarness) {
    let (scene, closing) = run(h).await;
    assert_eq!(scene.intervene(1, Event::Cancel).await, Settled::Applied);
    let last = last(&scene, done()).await;
    assert!(last.settlement.saw_cancel);
    let closed = closing.settle(last).await;
    assert!(matches!(closed, Closed::Refused(Settled::CancelRequested)), "{closed:?}");
    assert_nothing_is_there(&scene).await;
    assert!(scene.state(1).await.assigned(), "it is settled by itself");
}
