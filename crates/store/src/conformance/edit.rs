//! Promises of edits: a person gives a job at rest another priority, due time or queue.

use turnwise_core::{
    Fence, Job, JobState, NewJob, Priority, QueueName, UniqueKey,
    lifecycle::{EditRequest, Event, Outcome},
    unique::{Hold, Scope, Unique},
};

use super::{Harness, scene::*};
use crate::store::*;

fn queue(name: &str) -> QueueName {
    QueueName::new(name).expect("a good name")
}

fn first() -> EditRequest {
    EditRequest { priority: Some(Priority::new(1).expect("1 to 10")), ..EditRequest::default() }
}

fn to_queue(name: &str) -> EditRequest {
    EditRequest { queue: Some(queue(name)), ..EditRequest::default() }
}

async fn edit(scene: &Scene, n: u64, asked: &EditRequest) -> Settled {
    let decision = edit_of(scene, n, asked).await;
    let replies = scene.store.control(vec![decision]).await.expect("control");
    assert_eq!(replies.len(), 1, "one answer to one edit");
    replies[0]
}

/// Waiting, stuck until a time, and stuck until a person decides; numbers 1 to 3.
async fn at_rest(h: &impl Harness) -> Scene {
    let scene = Scene::led(h).await;
    scene.submit(vec![job(1), job_with_retry(2, "durations:1m"), job_with_retry(3, "manual")]).await;
    scene.give(1, &[2, 3], BETA).await;
    for n in [2, 3] {
        scene.end(BETA, n, failed("why")).await;
    }
    h.advance(SECOND).await;
    scene
}

pub async fn a_job_at_rest_gets_another_priority_time_and_queue_and_nothing_else(h: &impl Harness) {
    let scene = at_rest(h).await;
    let due = scene.now().await.plus(SECOND * 30);
    let all = EditRequest { due: Some(due), ..EditRequest { priority: first().priority, ..to_queue("other") } };
    for n in 1..=3 {
        let before = scene.job(n).await;
        assert_eq!(edit(&scene, n, &all).await, Settled::Applied);
        let fence = before.fence.edited();
        let expected =
            Job { priority: Priority::new(1).expect("1"), due_at: Some(due), queue: queue("other"), fence, ..before };
        assert_eq!(scene.job(n).await, expected);
        let head = scene.head(n).await.expect("it is unfinished");
        assert_eq!((head.priority.get(), head.due, head.queue, head.fence), (1, Some(due), queue("other"), fence));
        assert_eq!(head.state, expected.state, "a stuck job stays stuck");
    }
}

pub async fn what_an_edit_does_not_name_stays_as_it_is(h: &impl Harness) {
    let scene = at_rest(h).await;
    for n in 1..=3 {
        let before = scene.job(n).await;
        assert_eq!(edit(&scene, n, &first()).await, Settled::Applied);
        assert_eq!(edit(&scene, n, &to_queue("other")).await, Settled::Applied);
        let after = scene.job(n).await;
        assert_eq!((after.priority.get(), &after.queue, after.due_at), (1, &queue("other"), before.due_at));
        assert_eq!(after.fence, before.fence.edited().edited(), "each edit raises it");
    }
}

pub async fn an_edited_job_runs_and_ends_like_any_other(h: &impl Harness) {
    let scene = at_rest(h).await;
    edit(&scene, 1, &to_queue("other")).await;
    let fence = scene.job(1).await.fence;
    assert!(!fence.was_assigned());
    let mine = scene.give_mine(2, 1).await;
    assert_eq!((mine.fence, mine.queue), (fence.next(), queue("other")));
    assert_eq!(scene.start(ALPHA, 1).await, Settled::Applied);
    assert_eq!(scene.end(ALPHA, 1, Outcome::Fail("no".into())).await, Settled::Applied);
    let ended = scene.job(1).await;
    assert_eq!((ended.state, &ended.queue, ended.fence), (JobState::Failed, &queue("other"), fence.next()));
    // History keeps it, and so does the job that comes back from there.
    assert_eq!(scene.intervene(1, Event::Retry).await, Settled::Applied);
    let again = scene.job(1).await;
    assert_eq!((again.state, &again.queue, again.fence), (JobState::Waiting, &queue("other"), fence.next()));
    assert_eq!(scene.give(3, &[1], BETA).await, [fence.next().next()]);
}

pub async fn a_job_in_a_nodes_hands_or_at_its_end_is_not_edited(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2, 3]).await;
    let mut seen = Vec::new();
    for n in 1..=3 {
        seen.push(edit_of(&scene, n, &first()).await);
    }
    scene.give(1, &[1, 2], BETA).await;
    scene.start(BETA, 2).await;
    scene.intervene(3, Event::Cancel).await;
    for (n, edit) in (1..=3).zip(seen) {
        let before = scene.job(n).await;
        // By what the person saw, and by what the job is now: the store writes no edit to such a job, whatever it is asked.
        let now = Intervention { state: before.state, fence: before.fence, ..edit.clone() };
        let mut edits = vec![edit];
        edits.extend(before.state.assigned().then_some(now));
        for edit in edits {
            assert_eq!(scene.store.control(vec![edit]).await.expect("control"), [Settled::Superseded]);
        }
        assert_eq!(scene.job(n).await, before);
    }
}

pub async fn an_edit_of_a_job_that_ran_meanwhile_is_superseded(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    let seen = edit_of(&scene, 1, &first()).await;
    scene.give(1, &[1], BETA).await;
    scene.end(BETA, 1, Outcome::Interrupted).await;
    let before = scene.job(1).await;
    assert_eq!((before.state, before.fence), (JobState::Waiting, Fence(1)));
    assert_eq!(scene.store.control(vec![seen]).await.expect("control"), [Settled::Superseded]);
    assert_eq!(scene.job(1).await, before);
}

pub async fn a_pick_from_before_an_edit_is_answered_with_the_edited_job(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    let order = scene.order(1, scene.picks(&[1, 2], BETA).await);
    edit(&scene, 1, &to_queue("other")).await;
    let replies = scene.store.assign(order).await.expect("assign");
    let [(_, AssignReply::Changed(head)), (_, AssignReply::Theirs(_))] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!(Some(head), scene.head(1).await.as_ref());
    assert_eq!((head.state, &head.queue, head.fence), (JobState::Waiting, &queue("other"), Fence(0).edited()));
    assert!(scene.mail(BETA).await.iter().all(|delivery| delivery.jobs.iter().all(|job| job.id == id(2))));
}

pub async fn an_edit_is_news_with_the_edited_job(h: &impl Harness) {
    let scene = at_rest(h).await;
    let begin = scene.news(None).await.cursor;
    edit(&scene, 1, &to_queue("other")).await;
    edit(&scene, 3, &first()).await;
    let news = scene.news(Some(begin)).await;
    assert_eq!(news.jobs, [], "they are not new");
    let heads: Vec<_> = news.changes.into_iter().map(|change| (change.ran, change.failed, change.head)).collect();
    assert_eq!(heads, [(None, false, scene.head(1).await), (None, false, scene.head(3).await)]);
}

pub async fn an_edit_rings_the_dispatcher(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    let store = h.open().await;
    let begin = scene.news(None).await.cursor;
    let ask = AskNews { cursor: Some(begin), epoch: scene.epoch, asleep: true, new_jobs: u32::MAX };
    store.news(ask).await.expect("news");
    let person = Scene { store, epoch: scene.epoch };
    let bell = person.store.bell();
    edit(&person, 1, &first()).await;
    rung(&bell.news).await;
}

pub async fn a_settle_is_recognised_after_an_edit(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job_with_retry(1, "manual")]).await;
    scene.give(1, &[1], BETA).await;
    let settlement = scene.settlement(1, &Event::Ended(failed("x"))).await;
    assert_eq!(scene.settle_one(by(BETA), settlement.clone()).await, Settled::Applied);
    edit(&scene, 1, &first()).await;
    let before = scene.job(1).await;
    // The node got no reply, and asks again.
    assert_eq!(scene.settle_one(by(BETA), settlement.clone()).await, Settled::Applied);
    assert_eq!(scene.job(1).await, before);
    scene.give(2, &[1], ALPHA).await;
    assert_eq!(scene.settle_one(by(BETA), settlement).await, Settled::Superseded, "it runs elsewhere");
}

pub async fn a_job_that_waits_for_others_goes_on_waiting_when_it_is_edited(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let after = turnwise_core::After::new([id(1)], turnwise_core::OnFailure::Fail).expect("one");
    scene.submit(vec![job(1), NewJob { after, ..job(2) }]).await;
    let awaits = scene.head(2).await.expect("it waits").awaits;
    assert!(awaits.is_some());
    edit(&scene, 2, &to_queue("other")).await;
    assert_eq!(scene.head(2).await.expect("it waits").awaits, awaits);
    let page: Vec<_> = scene.heads().await.into_iter().map(|head| head.awaits).collect();
    assert_eq!(page, [None, awaits]);
}

fn keyed(n: u64, scope: Scope, hold: Hold) -> NewJob {
    let key = UniqueKey::new(format!("k{n}")).expect("a good key");
    NewJob { unique: Some(Box::new(Unique { scope, hold, ..Unique::new(key) })), ..job(n) }
}

pub async fn a_job_that_holds_a_key_within_its_queue_stays_there(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let jobs = vec![
        keyed(1, Scope::Queue, Hold::UntilEnded),
        keyed(2, Scope::Queue, Hold::For(SECOND)),
        keyed(3, Scope::Task, Hold::UntilEnded),
        keyed(4, Scope::Group, Hold::UntilEnded),
    ];
    scene.submit(jobs).await;
    for n in [1, 2] {
        let before = scene.job(n).await;
        assert_eq!(edit(&scene, n, &to_queue("other")).await, Settled::KeyHeld);
        assert_eq!(scene.job(n).await, before);
        assert_eq!(edit(&scene, n, &first()).await, Settled::Applied, "only a move is refused");
        assert_eq!(edit(&scene, n, &to_queue("default")).await, Settled::Applied, "it is there already");
    }
    for n in [3, 4] {
        assert_eq!(edit(&scene, n, &to_queue("other")).await, Settled::Applied);
    }
    h.advance(SECOND * 2).await;
    assert_eq!(edit(&scene, 1, &to_queue("other")).await, Settled::KeyHeld);
    assert_eq!(edit(&scene, 2, &to_queue("other")).await, Settled::Applied, "its period is over");
}

pub async fn many_edits_are_answered_in_their_order(h: &impl Harness) {
    let scene = at_rest(h).await;
    scene.submit(vec![keyed(4, Scope::Queue, Hold::UntilEnded)]).await;
    let mut edits = Vec::new();
    for n in [4, 2, 1] {
        edits.push(edit_of(&scene, n, &to_queue("other")).await);
    }
    let stale = edit_of(&scene, 3, &first()).await;
    edit(&scene, 3, &first()).await;
    edits.push(stale);
    edits.push(Intervention { job: id(99), ..edits[2].clone() });
    let replies = scene.store.control(edits).await.expect("control");
    assert_eq!(replies, [Settled::KeyHeld, Settled::Applied, Settled::Applied, Settled::Superseded, Settled::Gone]);
}

pub async fn of_sixteen_people_who_edit_a_job_one_does(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    let decision = edit_of(&scene, 1, &to_queue("other")).await;
    let mut callers = Vec::new();
    for _ in 0..16 {
        let (store, decision) = (h.open().await, decision.clone());
        // A caller that has to repeat its call may find its own write: then only the job shows that it was written.
        callers.push(tokio::spawn(async move { until_answered(|| store.control(vec![decision.clone()])).await[0] }));
    }
    let mut applied = 0;
    for caller in callers {
        match caller.await.expect("no caller panics") {
            Settled::Applied => applied += 1,
            reply => assert!(matches!(reply, Settled::Superseded | Settled::Locked), "{reply:?}"),
        }
    }
    assert!(applied <= 1, "{applied} edits of one fence");
    let seen = scene.job(1).await;
    assert_eq!((seen.fence, seen.queue), (Fence(0).edited(), queue("other")));
}
