//! Promises about jobs that wait for jobs.

use turnwise_core::{
    After, JobState, NewJob, OnFailure, Unique, UniqueKey,
    after::{Awaits, MAX_AFTER},
    lifecycle::{Event, Outcome},
    story::MAX_AWAITED_BY,
};

use super::{Harness, scene::*};
use crate::{StoreError, store::*};

fn waits(n: u64, after: &[u64], on_failure: OnFailure) -> NewJob {
    NewJob { after: After::new(after.iter().copied().map(id), on_failure).expect("few"), ..job(n) }
}

/// The awaits of a job that fails if a job it waits for does.
fn open(numbers: &[u64]) -> Option<Box<Awaits>> {
    let open = numbers.iter().copied().map(id).collect();
    Some(Box::new(Awaits { on_failure: OnFailure::Fail, open, ended_badly: None }))
}

async fn awaits(scene: &Scene, n: u64) -> Option<Box<Awaits>> {
    scene.head(n).await.expect("it is unfinished").awaits
}

async fn refused(scene: &Scene, jobs: Vec<NewJob>) -> String {
    match scene.store.enqueue(jobs).await {
        Err(StoreError::Refused(text)) => text,
        other => panic!("it was not refused: {other:?}"),
    }
}

async fn run(scene: &Scene, number: u128, n: u64, outcome: Outcome) {
    scene.give(number, &[n], BETA).await;
    assert_eq!(scene.end(BETA, n, outcome).await, Settled::Applied);
}

pub async fn a_job_tells_whom_it_waits_for(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    let begin = scene.news(None).await.cursor;
    scene.submit(vec![waits(3, &[2, 1], OnFailure::Fail), waits(4, &[1], OnFailure::Cancel), job(5)]).await;
    let cancel = Some(Box::new(Awaits { on_failure: OnFailure::Cancel, open: vec![id(1)], ended_badly: None }));
    let expected = [open(&[1, 2]), cancel, None];
    let news = scene.news(Some(begin)).await.jobs;
    assert_eq!(news.into_iter().map(|head| head.awaits).collect::<Vec<_>>(), expected);
    let page: Vec<_> = scene.heads().await.into_iter().skip(2).map(|head| head.awaits).collect();
    assert_eq!(page, expected);
    assert_eq!(awaits(&scene, 3).await, expected[0]);
    assert_eq!(awaits(&scene, 1).await, None);
}

pub async fn who_has_ended_well_is_waited_for_no_longer(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job(1), job_with_retry(2, "manual"), waits(3, &[1, 2], OnFailure::Fail)]).await;
    scene.give(1, &[1, 2], BETA).await;
    assert_eq!(awaits(&scene, 3).await, open(&[1, 2]), "running is not ended");
    scene.end(BETA, 1, done()).await;
    scene.end(BETA, 2, failed("x")).await;
    assert_eq!(scene.state(2).await, JobState::Stuck);
    assert_eq!(awaits(&scene, 3).await, open(&[2]), "nor is stuck");
    scene.intervene(2, Event::Retry).await;
    run(&scene, 2, 2, done()).await;
    assert_eq!(awaits(&scene, 3).await, open(&[]));
}

pub async fn a_bad_end_is_told_to_those_who_wait(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let jobs = [1, 2, 3, 4].map(job).into_iter();
    let waiting = waits(9, &[1, 2, 3, 4], OnFailure::Fail);
    scene.submit(jobs.chain([waiting]).collect()).await;
    run(&scene, 1, 3, Outcome::Fail("no".into())).await;
    let bad = |open: &[u64], n, state| {
        let open = open.iter().copied().map(id).collect();
        Some(Box::new(Awaits { on_failure: OnFailure::Fail, open, ended_badly: Some((id(n), state)) }))
    };
    assert_eq!(awaits(&scene, 9).await, bad(&[1, 2, 4], 3, JobState::Failed));
    scene.intervene(2, Event::Cancel).await;
    assert_eq!(awaits(&scene, 9).await, bad(&[1, 4], 2, JobState::Cancelled), "the first by id");
    scene.intervene(2, Event::Retry).await;
    assert_eq!(awaits(&scene, 9).await, bad(&[1, 2, 4], 3, JobState::Failed), "brought back, it has not ended");
}

pub async fn a_job_may_wait_for_one_that_has_ended(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    run(&scene, 1, 1, done()).await;
    scene.intervene(2, Event::Cancel).await;
    scene.submit(vec![waits(3, &[1], OnFailure::Fail), waits(4, &[2], OnFailure::Run)]).await;
    assert_eq!(awaits(&scene, 3).await, open(&[]));
    let ended_badly = Some((id(2), JobState::Cancelled));
    let expected = Awaits { on_failure: OnFailure::Run, open: vec![], ended_badly };
    assert_eq!(awaits(&scene, 4).await, Some(Box::new(expected)));
}

pub async fn a_job_that_was_given_away_once_waits_for_nobody(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job(1), waits(2, &[1], OnFailure::Fail)]).await;
    let begin = scene.news(None).await.cursor;
    scene.give(1, &[2], BETA).await;
    assert_eq!(awaits(&scene, 2).await, None);
    scene.end(BETA, 2, Outcome::Interrupted).await;
    assert_eq!((scene.state(2).await, awaits(&scene, 2).await), (JobState::Waiting, None));
    let changes = scene.news(Some(begin)).await.changes;
    assert_eq!(changes[0].head.as_ref().map(|head| head.awaits.clone()), Some(None));
}

pub async fn a_job_that_a_person_has_run_again_waits_for_nobody(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job(1), waits(2, &[1], OnFailure::Fail)]).await;
    let failed = Event::AwaitedFailed { job: id(1), state: JobState::Failed, cancel: false };
    assert_eq!(scene.intervene(2, failed).await, Settled::Applied);
    let ended = scene.job(2).await;
    assert_eq!(ended.state, JobState::Failed);
    assert_eq!(ended.error.as_deref(), Some(&*format!("job {}, which it waited for, failed", id(1))));
    scene.intervene(2, Event::Retry).await;
    assert_eq!((scene.state(2).await, awaits(&scene, 2).await), (JobState::Waiting, None));
    assert_eq!(scene.story(2).await.after.ids(), [id(1)], "the story still names the jobs it waited for");
}

pub async fn jobs_of_one_call_may_wait_for_one_another(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let diamond = vec![
        waits(4, &[2, 3], OnFailure::Fail),
        waits(3, &[1], OnFailure::Fail),
        waits(2, &[1], OnFailure::Fail),
        job(1),
    ];
    scene.submit(diamond).await;
    assert_eq!(awaits(&scene, 4).await, open(&[2, 3]));
    assert_eq!(awaits(&scene, 3).await, open(&[1]));
}

pub async fn an_unknown_id_refuses_the_whole_call(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let text = refused(&scene, vec![job(1), waits(2, &[8, 1, 7], OnFailure::Run)]).await;
    assert_eq!(text, format!("after: there is no job {}", id(7)));
    assert_eq!((scene.find(1).await, scene.find(2).await), (None, None));
    assert_eq!(scene.story(2).await.after, After::default());
}

pub async fn a_circle_refuses_the_whole_call(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let circle = vec![job(1), waits(2, &[1, 3], OnFailure::Run), waits(3, &[2], OnFailure::Run)];
    let text = refused(&scene, circle).await;
    assert_eq!(text, format!("after: jobs wait for one another: {} → {} → {}", id(2), id(3), id(2)));
    assert_eq!(scene.find(1).await, None);
    let text = refused(&scene, vec![waits(1, &[1], OnFailure::Fail)]).await;
    assert_eq!(text, format!("after: job {} waits for itself", id(1)));
}

pub async fn a_job_that_is_there_is_not_refused_for_whom_it_waits(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job(1), waits(2, &[1], OnFailure::Fail)]).await;
    run(&scene, 1, 1, done()).await;
    h.advance(turnwise_core::Retention::default().failed + SECOND * 2 * 86_400).await;
    scene.store.prune(None, ALL).await.expect("prune");
    assert_eq!(scene.find(1).await, None);
    let again = vec![waits(2, &[1], OnFailure::Fail), waits(2, &[9], OnFailure::Cancel)];
    let replies = scene.store.enqueue(again).await.expect("enqueue");
    assert_eq!(replies, [Submitted::itself(id(2), false); 2]);
    assert_eq!(awaits(&scene, 2).await, open(&[]), "who is kept no longer and did not end badly has ended well");
    assert_eq!(scene.story(2).await.after.ids(), [id(1)], "and the first submit stands");
}

pub async fn a_job_that_is_there_is_in_no_circle(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    let jobs = vec![waits(1, &[2], OnFailure::Fail), waits(2, &[1], OnFailure::Fail)];
    let replies = scene.store.enqueue(jobs).await.expect("enqueue");
    assert_eq!(replies.iter().map(|reply| reply.new).collect::<Vec<_>>(), [false, true]);
    assert_eq!((awaits(&scene, 1).await, awaits(&scene, 2).await), (None, open(&[1])));
}

pub async fn who_waits_for_a_duplicate_waits_for_the_one_that_stands_for_it(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let keyed = |n| {
        let key = UniqueKey::new("only").expect("a good key");
        let (scope, hold, on_duplicate) = Default::default();
        NewJob { unique: Some(Box::new(Unique { key, scope, hold, on_duplicate })), ..job(n) }
    };
    scene.submit(vec![keyed(1)]).await;
    let call = vec![waits(4, &[2, 3], OnFailure::Fail), keyed(2), job(3)];
    let replies = scene.store.enqueue(call).await.expect("enqueue");
    assert_eq!(
        replies.iter().map(|reply| (reply.id, reply.new)).collect::<Vec<_>>(),
        [(id(4), true), (id(1), false), (id(3), true)]
    );
    assert_eq!(awaits(&scene, 4).await, open(&[1, 3]));
    assert_eq!(scene.story(4).await.after.ids(), [id(1), id(3)]);
}

pub async fn a_repeated_submit_waits_for_the_same(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    for new in [true, false] {
        let replies = scene.store.enqueue(vec![waits(2, &[1], OnFailure::Fail)]).await.expect("enqueue");
        assert_eq!(replies, [Submitted::itself(id(2), new)]);
        assert_eq!(awaits(&scene, 2).await, open(&[1]));
    }
}

pub async fn a_story_tells_who_waits_for_whom(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job(1), waits(2, &[1], OnFailure::Cancel), waits(3, &[1, 2], OnFailure::Run)]).await;
    let (first, second, third) = (scene.story(1).await, scene.story(2).await, scene.story(3).await);
    assert_eq!((first.after, first.awaited_by), (After::default(), vec![id(2), id(3)]));
    assert_eq!((second.after.ids(), second.after.on_failure()), (&[id(1)][..], Some(OnFailure::Cancel)));
    assert_eq!((third.after.ids(), third.after.on_failure()), (&[id(1), id(2)][..], Some(OnFailure::Run)));
    run(&scene, 1, 2, done()).await;
    assert_eq!(scene.story(2).await, second, "after its end too");
}

pub async fn what_a_pruned_job_waited_for_goes_with_it(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let again = waits(4, &[1], OnFailure::Run);
    scene.submit(vec![job(1), waits(2, &[1], OnFailure::Run), waits(3, &[2], OnFailure::Run), again]).await;
    scene.intervene(4, Event::Cancel).await;
    scene.intervene(4, Event::Retry).await;
    for (number, n) in [(1, 2), (2, 4)] {
        scene.give(number, &[n], BETA).await;
        let quiet = Settlement { noted: false, ..scene.settlement(n, &Event::Ended(done())).await };
        assert_eq!(scene.settle_one(by(BETA), quiet).await, Settled::Applied);
    }
    h.advance(turnwise_core::Retention::default().failed + SECOND * 2 * 86_400).await;
    scene.store.prune(None, ALL).await.expect("prune");
    assert_eq!(scene.story(2).await.after, After::default());
    assert_eq!(scene.story(1).await.awaited_by, []);
    assert_eq!(scene.story(3).await.after.ids(), [id(2)], "what others waited for stays");
}

pub async fn a_bad_end_is_remembered_when_its_job_is_pruned(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let both = waits(3, &[1], OnFailure::Run);
    scene.submit(vec![job(1), job(2), both, waits(4, &[1, 2], OnFailure::Fail)]).await;
    run(&scene, 1, 1, Outcome::Fail("no".into())).await;
    run(&scene, 2, 3, done()).await;
    h.advance(turnwise_core::Retention::default().failed + SECOND * 2 * 86_400).await;
    scene.store.prune(None, ALL).await.expect("prune");
    assert_eq!((scene.find(1).await, scene.find(3).await), (None, None));
    let ended_badly = Some((id(1), JobState::Failed));
    let expected = Awaits { on_failure: OnFailure::Fail, open: vec![id(2)], ended_badly };
    assert_eq!(awaits(&scene, 4).await, Some(Box::new(expected)));
    assert_eq!(scene.story(1).await.awaited_by, [id(4)], "the other one is gone with all it had");
    scene.enqueue([1]).await;
    assert_eq!(awaits(&scene, 4).await, open(&[1, 2]), "under the same id there is one that has not ended");
}

pub async fn an_end_is_told_as_good_or_not(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit((1..=5).map(|n| job_with_retry(n, "none")).collect()).await;
    let begin = scene.news(None).await.cursor;
    run(&scene, 1, 1, done()).await;
    run(&scene, 2, 2, failed("x")).await;
    run(&scene, 3, 3, Outcome::Cancelled).await;
    scene.intervene(4, Event::Cancel).await;
    run(&scene, 5, 5, Outcome::Interrupted).await;
    let changes = changes_as_set(scene.news(Some(begin)).await.changes);
    let ends: Vec<_> = changes.iter().map(|change| (change.failed, change.well)).collect();
    assert_eq!(ends, [(false, true), (true, false), (false, false), (false, false), (false, false)]);
}

pub async fn a_rest_before_a_bad_end_is_not_told_as_a_good_one(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    let begin = scene.news(None).await.cursor;
    run(&scene, 1, 1, Outcome::Interrupted).await;
    scene.intervene(1, Event::Cancel).await;
    let changes = scene.news(Some(begin)).await.changes;
    assert!(changes.iter().all(|change| !change.well && change.head.is_none()), "{changes:?}");
}

pub async fn a_job_may_wait_for_ten_thousand(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let many = MAX_AFTER as u64;
    let all: Vec<u64> = (1..=many).collect();
    // The first in the call: the jobs it waits for come later in the same call, which a store may split into parts.
    let jobs = [waits(many + 1, &all, OnFailure::Fail)].into_iter().chain((1..=many).map(job)).collect();
    scene.submit(jobs).await;
    assert_eq!(awaits(&scene, many + 1).await, open(&all));
    scene
        .submit((1..=u64::from(MAX_AWAITED_BY) + 1).map(|n| waits(many + 1 + n, &[1], OnFailure::Fail)).collect())
        .await;
    let awaited_by = scene.story(1).await.awaited_by;
    assert_eq!(awaited_by.len(), MAX_AWAITED_BY as usize);
    assert_eq!((awaited_by[0], awaited_by[1]), (id(many + 1), id(many + 2)));
}
