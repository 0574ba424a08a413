//! Promises of unique keys.

use std::{sync::Arc, time::Duration};

use turnwise_core::{
    GroupName, JobId, JobState, NewJob, QueueName, UniqueKey,
    lifecycle::{Event, Outcome},
    unique::{Hold, OnDuplicate, Scope, Unique},
};

use super::{Harness, scene::*};
use crate::{StoreError, store::*};

const MINUTE: Duration = Duration::from_secs(60);

fn key(text: &str) -> UniqueKey {
    UniqueKey::new(text).expect("a good key")
}

fn with(n: u64, unique: Unique) -> NewJob {
    NewJob { unique: Some(Box::new(unique)), ..job(n) }
}

/// The key is held until the job has ended, and a duplicate is answered with the holder.
fn unique(n: u64) -> NewJob {
    with(n, Unique::new(key("k")))
}

fn held(n: u64, hold: Hold) -> NewJob {
    with(n, Unique { hold, ..Unique::new(key("k")) })
}

fn on_duplicate(n: u64, on_duplicate: OnDuplicate) -> NewJob {
    with(n, Unique { on_duplicate, ..Unique::new(key("k")) })
}

async fn enqueue(scene: &Scene, job: NewJob) -> Submitted {
    let replies = scene.store.enqueue(vec![job]).await.expect("enqueue");
    assert_eq!(replies.len(), 1, "one answer to one job");
    replies[0]
}

fn new(n: u64) -> Submitted {
    Submitted::itself(id(n), true)
}

fn known(n: u64) -> Submitted {
    Submitted::itself(id(n), false)
}

fn kept(n: u64) -> Submitted {
    Submitted::held_by(id(n), Duplicate::Kept)
}

pub async fn a_key_is_held_until_its_job_has_ended(h: &impl Harness) {
    let scene = Scene::led(h).await;
    assert_eq!(enqueue(&scene, unique(1)).await, new(1));
    assert_eq!(enqueue(&scene, unique(2)).await, kept(1), "it waits");
    scene.give(1, &[1], BETA).await;
    assert_eq!(enqueue(&scene, unique(3)).await, kept(1), "it is in a node's hands");
    scene.start(BETA, 1).await;
    assert_eq!(enqueue(&scene, unique(4)).await, kept(1), "it runs");
    scene.end(BETA, 1, failed("no")).await;
    assert_eq!(scene.state(1).await, JobState::Stuck);
    assert_eq!(enqueue(&scene, unique(5)).await, kept(1), "it is stuck");
    scene.give(2, &[1], BETA).await;
    scene.end(BETA, 1, done()).await;
    assert_eq!(enqueue(&scene, unique(6)).await, new(6), "it has ended");
    assert_eq!(enqueue(&scene, unique(7)).await, kept(6));
    for n in [2, 3, 4, 5, 7] {
        assert_eq!(scene.find(n).await, None, "a job that another stands for is not stored");
    }
}

pub async fn a_key_is_free_again_however_its_job_ended(h: &impl Harness) {
    let scene = Scene::led(h).await;
    enqueue(&scene, unique(1)).await;
    scene.intervene(1, Event::Cancel).await;
    assert_eq!(enqueue(&scene, unique(2)).await, new(2), "cancelled");
    scene.give(1, &[2], BETA).await;
    scene.end(BETA, 2, Outcome::Fail("no".into())).await;
    assert_eq!(scene.state(2).await, JobState::Failed);
    assert_eq!(enqueue(&scene, unique(3)).await, new(3), "failed");
}

pub async fn a_key_may_be_held_for_a_period_whatever_became_of_the_job(h: &impl Harness) {
    let scene = Scene::led(h).await;
    enqueue(&scene, held(1, Hold::For(MINUTE))).await;
    scene.intervene(1, Event::Cancel).await;
    h.advance(MINUTE - Duration::from_micros(1)).await;
    assert_eq!(enqueue(&scene, held(2, Hold::For(MINUTE))).await, kept(1), "ended, but its minute is not over");
    h.advance(Duration::from_micros(1)).await;
    assert_eq!(enqueue(&scene, held(3, Hold::For(MINUTE))).await, new(3));
    h.advance(MINUTE).await;
    assert_eq!(enqueue(&scene, unique(4)).await, new(4), "not ended, but its minute is over");
    assert_eq!(scene.state(3).await, JobState::Waiting);
    assert_eq!(enqueue(&scene, held(5, Hold::For(SECOND))).await, kept(4), "the holder's word counts");
}

pub async fn a_key_may_be_held_for_the_longer_of_both(h: &impl Harness) {
    let scene = Scene::led(h).await;
    enqueue(&scene, held(1, Hold::AtLeast(MINUTE))).await;
    h.advance(MINUTE * 2).await;
    assert_eq!(enqueue(&scene, unique(2)).await, kept(1), "its minute is over, but it has not ended");
    scene.intervene(1, Event::Cancel).await;
    assert_eq!(enqueue(&scene, held(3, Hold::AtLeast(MINUTE))).await, new(3));
    scene.intervene(3, Event::Cancel).await;
    assert_eq!(enqueue(&scene, unique(4)).await, kept(3), "ended, but its minute is not over");
    h.advance(MINUTE).await;
    assert_eq!(enqueue(&scene, unique(5)).await, new(5));
}

pub async fn keys_of_different_scopes_do_not_meet(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let scoped = |n, scope: &str| with(n, Unique { scope: scope.parse().expect("a scope"), ..Unique::new(key("k")) });
    // All names the same: only the kind of scope differs.
    let named = |n, scope: &str| NewJob {
        queue: QueueName::new("mail").expect("a good name"),
        group: GroupName::new("mail").expect("a good name"),
        ..scoped(n, scope)
    };
    let scopes = ["task", "queue", "group", "mail"];
    for (n, scope) in (1..).zip(scopes) {
        assert_eq!(enqueue(&scene, named(n, scope)).await, new(n), "{scope}");
    }
    for (n, scope) in (1..).zip(scopes) {
        assert_eq!(enqueue(&scene, named(10 + n, scope)).await, kept(n), "{scope}");
    }
    assert_eq!(enqueue(&scene, NewJob { task: task("extract"), ..unique(20) }).await, new(20), "another task");
    assert_eq!(enqueue(&scene, NewJob { task: task("extract"), ..named(21, "mail") }).await, kept(4), "of any task");
    assert_eq!(enqueue(&scene, scoped(22, "queue")).await, new(22), "another queue");
    assert_eq!(enqueue(&scene, scoped(23, "group")).await, new(23), "another group");
    assert_eq!(enqueue(&scene, with(24, Unique::new(key("K")))).await, new(24), "another key");
    assert_eq!(Scope::default(), Scope::Task);
}

pub async fn a_rejected_duplicate_refuses_the_whole_call_and_names_the_holder(h: &impl Harness) {
    let scene = Scene::led(h).await;
    enqueue(&scene, unique(1)).await;
    let other = with(3, Unique::new(key("other")));
    let jobs = vec![job(2), other, on_duplicate(4, OnDuplicate::Reject)];
    match scene.store.enqueue(jobs).await {
        Err(StoreError::Duplicate { holder, text }) => {
            assert_eq!(holder, id(1));
            assert_eq!(text, format!("unique key \"k\" in task:mail is held by job {}", id(1)));
        }
        other => panic!("not refused: {other:?}"),
    }
    assert_eq!(scene.heads().await.len(), 1);
    assert_eq!(enqueue(&scene, with(5, Unique::new(key("other")))).await, new(5), "its key was not taken");
    scene.intervene(1, Event::Cancel).await;
    assert_eq!(enqueue(&scene, on_duplicate(4, OnDuplicate::Reject)).await, new(4), "no job holds it");
}

pub async fn arguments_are_replaced_as_long_as_the_holder_has_not_begun(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let replace = |n| on_duplicate(n, OnDuplicate::ReplaceArgs);
    let held = |duplicate| Submitted::held_by(id(1), duplicate);
    assert_eq!(enqueue(&scene, replace(1)).await, new(1));
    assert_eq!(enqueue(&scene, replace(2)).await, held(Duplicate::Replaced));
    assert_eq!(scene.job(1).await.args, job(2).args);
    assert_eq!(scene.give_mine(1, 1).await.args, job(2).args, "and that is what is run");
    assert_eq!(enqueue(&scene, replace(3)).await, held(Duplicate::TooLate), "in a node's hands");
    scene.end(ALPHA, 1, Outcome::Interrupted).await;
    assert_eq!(scene.state(1).await, JobState::Waiting);
    assert_eq!(enqueue(&scene, replace(4)).await, held(Duplicate::TooLate), "begun once");
    scene.give(2, &[1], BETA).await;
    scene.end(BETA, 1, failed("no")).await;
    assert_eq!(enqueue(&scene, replace(5)).await, held(Duplicate::TooLate), "stuck");
    assert_eq!(scene.job(1).await.args, job(2).args);
}

pub async fn no_job_gets_the_arguments_of_another_task(h: &impl Harness) {
    let scene = Scene::led(h).await;
    for (from, scope) in (0..).step_by(10).zip(["queue", "group", "nightly"]) {
        let scope: Scope = scope.parse().expect("a scope");
        let unique = Unique { scope, on_duplicate: OnDuplicate::ReplaceArgs, ..Unique::new(key("k")) };
        let mail = |n| with(from + n, unique.clone());
        let extract = |n| NewJob { task: task("extract"), ..mail(n) };
        let held = |duplicate| Submitted::held_by(id(from + 1), duplicate);
        enqueue(&scene, mail(1)).await;
        assert_eq!(enqueue(&scene, extract(2)).await, held(Duplicate::OtherTask), "{unique:?}");
        assert_eq!(scene.job(from + 1).await.args, mail(1).args);
        let replies = scene.store.enqueue(vec![extract(3), mail(4), mail(5), extract(6)]).await.expect("enqueue");
        let [replaced, other] = [Duplicate::Replaced, Duplicate::OtherTask].map(held);
        assert_eq!(replies, [other, replaced, replaced, other], "{unique:?}");
        let job = scene.job(from + 1).await;
        assert_eq!((job.task, job.args), (task("mail"), mail(5).args), "the last of its own task");
    }
}

pub async fn of_one_call_the_first_with_a_key_gets_it(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let replace = on_duplicate(4, OnDuplicate::ReplaceArgs);
    let jobs = vec![job(9), unique(2), unique(1), replace, unique(2)];
    let replies = scene.store.enqueue(jobs).await.expect("enqueue");
    let replaced = Submitted::held_by(id(2), Duplicate::Replaced);
    assert_eq!(replies, [new(9), new(2), kept(2), replaced, known(2)]);
    assert_eq!(scene.job(2).await.args, job(4).args);
    let mut heads = scene.heads().await;
    heads.sort_by_key(|head| head.seq);
    assert_eq!(heads.iter().map(|head| head.id).collect::<Vec<_>>(), [id(9), id(2)]);
    let pair = vec![with(5, Unique::new(key("l"))), {
        with(6, Unique { on_duplicate: OnDuplicate::Reject, ..Unique::new(key("l")) })
    }];
    let refused = scene.store.enqueue(pair).await;
    assert!(matches!(refused, Err(StoreError::Duplicate { holder, .. }) if holder == id(5)), "{refused:?}");
    assert_eq!(scene.find(5).await, None);
}

pub async fn a_repeated_submit_is_its_own_holder(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let job = || on_duplicate(1, OnDuplicate::Reject);
    assert_eq!(enqueue(&scene, job()).await, new(1));
    assert_eq!(enqueue(&scene, job()).await, known(1), "it waits");
    scene.give(1, &[1], BETA).await;
    scene.end(BETA, 1, done()).await;
    assert_eq!(enqueue(&scene, job()).await, known(1), "it has ended");
    enqueue(&scene, unique(2)).await;
    assert_eq!(enqueue(&scene, job()).await, known(1), "and another has its key");
    scene.intervene(2, Event::Cancel).await;
    let replies = scene.store.enqueue(vec![unique(2), unique(3)]).await.expect("enqueue");
    assert_eq!(replies, [known(2), new(3)], "a repeated submit of one that has ended holds nothing");
}

pub async fn a_full_group_refuses_no_job_that_another_stands_for(h: &impl Harness) {
    let scene = Scene::led(h).await;
    enqueue(&scene, unique(1)).await;
    scene.remember(memo(MemoKind::Full, "default", "full")).await;
    assert_eq!(enqueue(&scene, unique(2)).await, kept(1));
    let refused = scene.store.enqueue(vec![with(3, Unique::new(key("other")))]).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    scene.remember(NewMemo { value: None, ..memo(MemoKind::Full, "default", "") }).await;
    assert_eq!(enqueue(&scene, with(4, Unique::new(key("other")))).await, new(4), "the refused one holds nothing");
}

pub async fn a_job_that_runs_again_holds_its_key_again_unless_it_is_taken(h: &impl Harness) {
    let scene = Scene::led(h).await;
    enqueue(&scene, unique(1)).await;
    scene.intervene(1, Event::Cancel).await;
    scene.store.prune(None, ALL).await.expect("prune");
    scene.intervene(1, Event::Retry).await;
    assert_eq!(enqueue(&scene, unique(2)).await, kept(1));
    scene.intervene(1, Event::Cancel).await;
    assert_eq!(enqueue(&scene, unique(3)).await, new(3));
    scene.intervene(1, Event::Retry).await;
    assert_eq!(enqueue(&scene, unique(4)).await, kept(3), "who has it keeps it");
}

pub async fn keys_go_with_their_jobs_and_not_before_their_period_is_over(h: &impl Harness) {
    let scene = Scene::led(h).await;
    enqueue(&scene, unique(1)).await;
    enqueue(&scene, with(2, Unique { hold: Hold::For(RETENTION + DAY + MINUTE), ..Unique::new(key("long")) })).await;
    enqueue(&scene, with(3, Unique::new(key("waits")))).await;
    scene.intervene(1, Event::Cancel).await;
    scene.intervene(2, Event::Cancel).await;
    h.advance(RETENTION + DAY).await;
    // Two jobs of history and the key of one of them.
    assert_eq!(scene.store.prune(None, ALL).await.expect("prune"), 3);
    assert_eq!(scene.store.prune(None, ALL).await.expect("prune"), 0);
    let long = |n| with(n, Unique::new(key("long")));
    assert_eq!(enqueue(&scene, long(4)).await, kept(2), "held by one of whom nothing else is left");
    h.advance(MINUTE).await;
    assert_eq!(scene.store.prune(None, ALL).await.expect("prune"), 1);
    assert_eq!(enqueue(&scene, long(5)).await, new(5));
    assert_eq!(enqueue(&scene, with(6, Unique::new(key("waits")))).await, kept(3));
}

pub async fn pruning_keys_has_a_limit_and_comes_to_an_end(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let jobs = |numbers: std::ops::RangeInclusive<u64>| {
        numbers.map(|n| with(n, Unique { hold: Hold::For(MINUTE), ..Unique::new(key(&format!("k{n:02}"))) })).collect()
    };
    scene.submit(jobs(1..=9)).await;
    for n in 1..=9 {
        scene.intervene(n, Event::Cancel).await;
    }
    h.advance(RETENTION + DAY).await;
    let mut rows = 0;
    loop {
        match scene.store.prune(None, 2).await.expect("prune") {
            0 => break,
            // Two of history, two keys.
            some => assert!(some <= 4, "{some} rows of two kinds"),
        }
        rows += 1;
        assert!(rows < 100, "it comes to an end");
    }
    scene.submit(jobs(1..=9)).await;
    assert_eq!(scene.store.prune(None, 2).await.expect("prune"), 0, "what is held is kept");
}

async fn race(
    h: &impl Harness,
    submitters: u64,
    job: impl Fn(u64) -> NewJob + Send + Sync + 'static,
) -> Vec<Submitted> {
    let job = Arc::new(job);
    let mut racing = Vec::new();
    for n in 1..=submitters {
        let (store, job) = (h.open().await, Arc::clone(&job));
        racing.push(tokio::spawn(async move {
            let replies = until_answered(|| store.enqueue(vec![job(n)])).await;
            replies[0]
        }));
    }
    let mut replies = Vec::new();
    for racer in racing {
        replies.push(racer.await.expect("no panic"));
    }
    replies
}

fn assert_one_won(replies: &[Submitted]) -> JobId {
    let winners: Vec<_> = replies.iter().filter(|reply| reply.new).map(|reply| reply.id).collect();
    assert_eq!(winners.len(), 1, "{replies:?}");
    assert!(replies.iter().all(|reply| reply.id == winners[0]), "{replies:?}");
    winners[0]
}

pub async fn of_thirty_two_submitters_of_one_key_one_gets_it(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let first = assert_one_won(&race(h, 32, unique).await);
    assert_eq!(scene.heads().await.iter().map(|head| head.id).collect::<Vec<_>>(), [first]);
    // And again over a key whose holder has ended.
    let number = (1..=32).find(|n| id(*n) == first).expect("one of them");
    scene.intervene(number, Event::Cancel).await;
    let second = assert_one_won(&race(h, 32, |n| unique(100 + n)).await);
    assert_eq!(scene.heads().await.iter().map(|head| head.id).collect::<Vec<_>>(), [second]);
}

pub async fn submitters_with_keys_in_opposite_order_all_get_an_answer(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let mut racing = Vec::new();
    for n in 0..8_u64 {
        let store = h.open().await;
        racing.push(tokio::spawn(async move {
            let mut jobs: Vec<_> = (0..20)
                .map(|k| with(n * 100 + k, Unique::new(key(&format!("k{}", if n % 2 == 0 { k } else { 19 - k })))))
                .collect();
            jobs.push(job(n * 100 + 50));
            until_answered(|| store.enqueue(jobs.clone())).await
        }));
    }
    let mut won = 0;
    for racer in racing {
        won += racer.await.expect("no panic").iter().filter(|reply| reply.new).count();
    }
    assert_eq!(won, 20 + 8, "each key once, and the jobs without one");
    assert_eq!(scene.heads().await.len(), 20 + 8);
}

pub async fn without_retention_a_key_is_free_when_its_job_has_ended(h: &impl Harness) {
    let scene = Scene::led(h).await;
    enqueue(&scene, unique(1)).await;
    enqueue(&scene, with(2, Unique { hold: Hold::For(MINUTE), ..Unique::new(key("slot")) })).await;
    scene.give(1, &[1, 2], BETA).await;
    scene.end(BETA, 1, done()).await;
    scene.end(BETA, 2, done()).await;
    assert_eq!(scene.find(2).await, None);
    assert_eq!(enqueue(&scene, unique(1)).await, known(1), "the key remembers a repeated submit");
    assert_eq!(scene.find(1).await, None);
    assert_eq!(enqueue(&scene, with(3, Unique::new(key("slot")))).await, kept(2), "held by one that left no trace");
    assert_eq!(enqueue(&scene, unique(4)).await, new(4));
    scene.store.prune(None, ALL).await.expect("prune");
    assert_eq!(enqueue(&scene, with(5, Unique::new(key("slot")))).await, kept(2));
    assert_eq!(enqueue(&scene, unique(6)).await, kept(4));
    h.advance(MINUTE).await;
    assert_eq!(scene.store.prune(None, ALL).await.expect("prune"), 1);
    assert_eq!(enqueue(&scene, with(7, Unique::new(key("slot")))).await, new(7));
}

pub async fn a_job_is_shown_with_the_key_that_it_holds(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let queue = QueueName::new("bulk").expect("a good name");
    let group = GroupName::new("acme").expect("a good name");
    let named = Scope::Named("docs".parse().expect("a good name"));
    let scoped = |n: u64, scope: Scope, hold: Hold| {
        let unique = Unique { scope, hold, ..Unique::new(key("k")) };
        NewJob { queue: queue.clone(), group: group.clone(), ..with(n, unique) }
    };
    let jobs = vec![
        job(1),
        scoped(2, Scope::Task, Hold::UntilEnded),
        scoped(3, Scope::Queue, Hold::For(MINUTE)),
        scoped(4, Scope::Group, Hold::AtLeast(MINUTE)),
        scoped(5, named, Hold::UntilEnded),
    ];
    scene.submit(jobs).await;
    let over = Some(scene.now().await.plus(MINUTE));
    let shown = async || {
        let listed = scene.store.jobs(Filter::default()).await.expect("jobs");
        let mut shown = Vec::new();
        for n in 1..=5 {
            let alone = scene.job(n).await.unique;
            let in_list = listed.iter().find(|job| job.id == id(n)).expect("it is listed");
            assert_eq!(in_list.unique, alone, "job {n}: in a listing and alone");
            shown.push(alone.map(|held| {
                assert_eq!(held.key, key("k"));
                (held.scope, held.until)
            }));
        }
        shown
    };
    let held = |scope: &str, until| Some((scope.to_owned(), until));
    let (task, docs) = (held("task:mail", None), held("scope:docs", None));
    let all = [None, task.clone(), held("queue:bulk", over), held("group:acme", None), docs.clone()];
    assert_eq!(shown().await, all);
    scene.give(1, &[2], BETA).await;
    assert_eq!(shown().await, all, "it is in a node's hands");
    scene.end(BETA, 2, done()).await;
    scene.intervene(3, Event::Cancel).await;
    scene.intervene(4, Event::Cancel).await;
    let ended = [None, None, held("queue:bulk", over), held("group:acme", over), docs.clone()];
    assert_eq!(shown().await, ended, "what has ended holds it until its time is over");
    // Another job takes a key that is free.
    assert_eq!(enqueue(&scene, unique(6)).await, new(6));
    assert_eq!(scene.job(6).await.unique.map(|held| held.scope), Some("task:mail".to_owned()));
    h.advance(MINUTE).await;
    assert_eq!(shown().await, [None, None, None, None, docs]);
}
