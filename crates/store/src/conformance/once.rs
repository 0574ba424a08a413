//! Promises of `submit_once`.

use std::sync::Arc;

use turnwise_core::{
    After, NewJob, OnFailure, OnceKey, Unique, UniqueKey,
    access::TokenId,
    lifecycle::Event,
    unique::{OnDuplicate, Scope},
};
use uuid::Uuid;

use super::{OperatorHarness, scene::*};
use crate::{
    BodyHash, Once, OperatorStore, StoreError, SubmitOnce,
    operators::KEEP_ONCE,
    store::{AskNews, Duplicate, Filter, MemoKind, Submitted},
};

const BODY: BodyHash = BodyHash([1; 32]);

fn call(key: &str, jobs: Vec<NewJob>) -> SubmitOnce {
    SubmitOnce { caller: None, key: OnceKey::new(key).expect("a good key"), body: BODY, jobs, line: None }
}

async fn once(store: &Arc<dyn OperatorStore>, submit: SubmitOnce) -> Once {
    store.submit_once(submit).await.expect("submit once")
}

async fn find(store: &Arc<dyn OperatorStore>, key: &str, body: BodyHash) -> Option<Once> {
    let key = OnceKey::new(key).expect("a good key");
    store.find_once(None, key, body).await.expect("find what was submitted once")
}

fn new(numbers: impl IntoIterator<Item = u64>) -> Vec<Submitted> {
    numbers.into_iter().map(|n| Submitted::itself(id(n), true)).collect()
}

async fn jobs(scene: &Scene) -> usize {
    scene.store.jobs(Filter { limit: Some(u32::MAX), ..Filter::default() }).await.expect("jobs").len()
}

pub async fn the_first_call_submits_and_a_repeat_gets_its_answer(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    assert_eq!(find(&store, "k", BODY).await, None);
    assert_eq!(once(&store, call("k", vec![job(2), job(1)])).await, Once::Submitted(new([2, 1])));
    assert_eq!(find(&store, "k", BODY).await, Some(Once::Again(new([2, 1]))));
    assert_eq!(find(&store, "k", BodyHash([2; 32])).await, Some(Once::OtherBody));
    let other = Some(TokenId(Uuid::from_u128(7)));
    let key = OnceKey::new("k").expect("a good key");
    assert_eq!(store.find_once(other, key, BODY).await.expect("find"), None, "of another caller");
    // A server gives each request's jobs fresh ids.
    for repeat in [vec![job(2), job(1)], vec![job(3), job(4)]] {
        assert_eq!(once(&store, call("k", repeat)).await, Once::Again(new([2, 1])));
    }
    assert_eq!(jobs(&scene).await, 2);
    assert_eq!(once(&store, call("other", vec![job(5)])).await, Once::Submitted(new([5])));
    assert_eq!(once(&store, call("nothing", vec![])).await, Once::Submitted(vec![]));
    assert_eq!(once(&store, call("nothing", vec![])).await, Once::Again(vec![]));
}

pub async fn a_repeat_is_recognised_after_its_jobs_have_ended_and_are_pruned(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    once(&store, call("k", vec![job(1)])).await;
    scene.intervene(1, Event::Cancel).await;
    scene.store.prune(None, ALL).await.expect("prune");
    assert_eq!(once(&store, call("k", vec![job(2)])).await, Once::Again(new([1])));
}

pub async fn the_same_key_with_another_body_is_refused(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    once(&store, call("k", vec![job(1)])).await;
    let other = SubmitOnce { body: BodyHash([2; 32]), ..call("k", vec![job(2)]) };
    assert_eq!(once(&store, other).await, Once::OtherBody);
    assert_eq!(jobs(&scene).await, 1);
    assert_eq!(
        once(&store, call("k", vec![job(3)])).await,
        Once::Again(new([1])),
        "the first body still has its answer"
    );
}

pub async fn keys_of_different_callers_do_not_meet(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let callers = [None, Some(TokenId(Uuid::from_u128(1))), Some(TokenId(Uuid::from_u128(2)))];
    for (n, caller) in (1..).zip(callers) {
        let submit = SubmitOnce { caller, ..call("k", vec![job(n)]) };
        assert_eq!(once(&store, submit.clone()).await, Once::Submitted(new([n])), "{caller:?}");
        assert_eq!(once(&store, submit).await, Once::Again(new([n])), "{caller:?}");
    }
}

pub async fn a_call_that_is_refused_leaves_no_key_behind(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    scene.remember(memo(MemoKind::Full, "default", "the group is full")).await;
    let refused = store.submit_once(call("k", vec![job(1)])).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    let full = crate::store::NewMemo { value: None, ..memo(MemoKind::Full, "default", "") };
    scene.remember(full).await;
    let after = After::new([id(9)], OnFailure::Fail).expect("one job");
    let unknown = store.submit_once(call("k", vec![NewJob { after, ..job(1) }])).await;
    assert!(matches!(unknown, Err(StoreError::Refused(_))), "{unknown:?}");
    assert_eq!(jobs(&scene).await, 0);
    let other = SubmitOnce { body: BodyHash([2; 32]), ..call("k", vec![job(1)]) };
    assert_eq!(once(&store, other).await, Once::Submitted(new([1])), "a caller may mend its request");
}

pub async fn every_kind_of_answer_is_repeated_as_it_was(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    let keyed = |n: u64, on_duplicate: OnDuplicate, args: &str| {
        let unique = Unique { scope: Scope::Queue, on_duplicate, ..Unique::new(UniqueKey::new("u").expect("good")) };
        NewJob { unique: Some(Box::new(unique)), args: json(args), ..job(n) }
    };
    scene.submit(vec![job(1), keyed(2, OnDuplicate::Keep, "1")]).await;
    let submit =
        call("k", vec![job(1), keyed(3, OnDuplicate::Keep, "2"), keyed(4, OnDuplicate::ReplaceArgs, "3"), job(5)]);
    let expected = vec![
        Submitted::itself(id(1), false),
        Submitted::held_by(id(2), Duplicate::Kept),
        Submitted::held_by(id(2), Duplicate::Replaced),
        Submitted::itself(id(5), true),
    ];
    assert_eq!(once(&store, submit.clone()).await, Once::Submitted(expected.clone()));
    assert_eq!(once(&store, submit).await, Once::Again(expected));
    let rejected = store.submit_once(call("r", vec![keyed(6, OnDuplicate::Reject, "4")])).await;
    assert!(matches!(rejected, Err(StoreError::Duplicate { holder, .. }) if holder == id(2)), "{rejected:?}");
}

pub async fn a_key_is_kept_for_a_day_and_then_free_again(h: &impl OperatorHarness) {
    let store = h.operators().await;
    once(&store, call("k", vec![job(1)])).await;
    h.advance(KEEP_ONCE - SECOND).await;
    assert_eq!(once(&store, call("k", vec![job(2)])).await, Once::Again(new([1])));
    h.advance(SECOND).await;
    assert_eq!(find(&store, "k", BODY).await, None);
    let other = SubmitOnce { body: BodyHash([2; 32]), ..call("k", vec![job(2)]) };
    assert_eq!(once(&store, other.clone()).await, Once::Submitted(new([2])));
    assert_eq!(once(&store, other).await, Once::Again(new([2])));
    h.advance(KEEP_ONCE - SECOND).await;
    assert_eq!(
        once(&store, call("k", vec![job(3)])).await,
        Once::OtherBody,
        "its day begins with the call that took it"
    );
}

pub async fn old_keys_are_pruned_within_the_limit_and_young_ones_are_not(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    for n in 1..=5 {
        once(&store, call(&n.to_string(), vec![job(n)])).await;
    }
    h.advance(KEEP_ONCE - SECOND).await;
    once(&store, call("young", vec![job(6)])).await;
    assert_eq!(scene.store.prune(None, ALL).await.expect("prune"), 0);
    h.advance(SECOND).await;
    let mut gone = Vec::new();
    for _ in 0..4 {
        gone.push(scene.store.prune(None, 2).await.expect("prune"));
    }
    assert_eq!(gone, [2, 2, 1, 0]);
    assert_eq!(once(&store, call("young", vec![job(7)])).await, Once::Again(new([6])));
}

pub async fn of_sixteen_calls_with_one_key_one_submits(h: &impl OperatorHarness) {
    let scene = Scene::led(h).await;
    let mut callers = Vec::new();
    for n in 1..=16 {
        let store = h.operators().await;
        callers.push(tokio::spawn(async move {
            loop {
                match until_answered(|| store.submit_once(call("k", vec![job(n), job(100 + n)]))).await {
                    Once::UnderWay => tokio::task::yield_now().await,
                    answer => return answer,
                }
            }
        }));
    }
    let mut answers = Vec::new();
    for caller in callers {
        answers.push(caller.await.expect("no caller panics"));
    }
    let submitted: Vec<_> = answers
        .iter()
        .filter_map(|answer| match answer {
            Once::Submitted(jobs) => Some(jobs.clone()),
            _ => None,
        })
        .collect();
    let [first] = submitted.as_slice() else { panic!("one submits: {answers:?}") };
    let again = answers.iter().filter(|answer| **answer == Once::Again(first.clone())).count();
    assert_eq!(again, 15, "{answers:?}");
    assert_eq!(jobs(&scene).await, 2);
}

pub async fn a_submit_that_is_done_once_rings_the_dispatcher(h: &impl OperatorHarness) {
    let epoch = Scene::led(h).await.epoch;
    let (both, store) = h.both().await;
    let scene = Scene { store: both, epoch };
    let bell = scene.store.bell();
    let begin = scene.news(None).await.cursor;
    let ask = AskNews { cursor: Some(begin), epoch: scene.epoch, asleep: true, new_jobs: u32::MAX };
    let asleep = scene.store.news(ask).await.expect("news");
    once(&store, call("k", vec![job(1)])).await;
    rung(&bell.news).await;
    assert_eq!(scene.news(Some(asleep.cursor)).await.jobs.len(), 1);
}

pub async fn ten_thousand_jobs_are_submitted_once(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    let all: Vec<_> = (1..=10_000).map(job).collect();
    assert_eq!(once(&store, call("k", all.clone())).await, Once::Submitted(new(1..=10_000)));
    assert_eq!(once(&store, call("k", all)).await, Once::Again(new(1..=10_000)));
    assert_eq!(jobs(&scene).await, 10_000);
}
