//! Promises of `load` and `news`: the dispatcher reads of everything, once.

use std::collections::BTreeSet;

use turnwise_core::{
    Failure, JobHead, JobId, JobState, NewJob,
    lifecycle::{Event, Outcome, POISON_CRASHES},
};

use super::{Harness, scene::*};
use crate::store::*;

pub async fn whoever_looks_far_back_may_leave_new_jobs_out(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let begin = scene.news(None).await.cursor;
    scene.enqueue([1, 2]).await;
    let ask = AskNews { cursor: Some(begin), epoch: Epoch(scene.epoch.0 + 1), asleep: false, new_jobs: 0 };
    scene.give(1, &[1], BETA).await;
    scene.end(BETA, 1, Outcome::Fail("no".to_owned().into())).await;
    let news = scene.store.news(ask).await.expect("news");
    assert_eq!((news.jobs, news.changes.iter().map(|change| change.id).collect::<Vec<_>>()), (vec![], vec![id(1)]));
}

pub async fn news_tell_no_more_new_jobs_than_were_asked_for_and_say_that_there_are(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let begin = scene.news(None).await.cursor;
    scene.enqueue(1..=10).await;
    scene.give(1, &[1], BETA).await;
    scene.end(BETA, 1, Outcome::Fail("no".to_owned().into())).await;
    let ask = |new_jobs| {
        let ask = AskNews { cursor: Some(begin.clone()), epoch: Epoch(scene.epoch.0 + 1), asleep: false, new_jobs };
        async { scene.store.news(ask).await.expect("news") }
    };
    let sizes = |news: &News| (news.jobs.len(), news.more, news.changes.len());
    assert_eq!(
        (sizes(&ask(4).await), sizes(&ask(100).await), sizes(&ask(0).await)),
        ((4, true, 1), (9, false, 1), (0, false, 1))
    );
    // The rest does not come as news again: the dispatcher finds it in the backlog.
    let next = scene.news(Some(ask(4).await.cursor)).await;
    assert_eq!(sizes(&next), (0, false, 0));
}

pub async fn pages_hold_every_unfinished_job_once_in_id_order(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([9, 3, 7, 1, 5, 8, 2]).await;
    scene.give(1, &[3], BETA).await;
    scene.give(2, &[8], BETA).await;
    scene.end(BETA, 8, done()).await;
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = scene.store.load(Load::After { id: after, limit: 2 }).await.expect("load");
        assert!(page.jobs.len() <= 2, "{page:?}");
        assert_eq!(page.now, scene.now().await);
        seen.extend(page.jobs.iter().map(|head| head.id));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, [1, 2, 3, 5, 7, 9].map(id));
}

pub async fn a_page_that_is_not_full_is_the_last(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let empty = scene.store.load(Load::After { id: None, limit: 5 }).await.expect("load");
    assert_eq!((empty.jobs.len(), empty.next), (0, None));
    scene.enqueue([1, 2]).await;
    let page = scene.store.load(Load::After { id: None, limit: 5 }).await.expect("load");
    assert_eq!((page.jobs.len(), page.next), (2, None));
}

pub async fn a_page_tells_where_the_job_is(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job(1), job_with_retry(2, "manual"), job(3)]).await;
    scene.give(1, &[1, 2], BETA).await;
    scene.end(BETA, 2, failed("no")).await;
    let heads = scene.heads().await;
    let read: Vec<_> = heads.iter().map(|head| (head.state, head.node, head.fence.0, head.due.is_some())).collect();
    let expected = [
        (JobState::Scheduled, Some(BETA), 1, true),
        (JobState::Stuck, None, 1, false),
        (JobState::Waiting, None, 0, true),
    ];
    assert_eq!(read, expected);
}

pub async fn named_jobs_are_loaded_if_they_are_still_there(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2, 3]).await;
    scene.give(1, &[2], BETA).await;
    scene.end(BETA, 2, done()).await;
    let page = scene.store.load(Load::These([3, 2, 99, 1, 3].map(id).to_vec())).await.expect("load");
    assert_eq!(page.jobs.iter().map(|head| head.id).collect::<BTreeSet<_>>(), BTreeSet::from([1, 3].map(id)));
    assert_eq!((page.jobs.len(), page.next), (2, None));
    assert_eq!(scene.store.load(Load::These(vec![])).await.expect("load").jobs, []);
}

pub async fn what_is_in_nodes_hands_is_told_whosever_they_are(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let in_hands = || async {
        let page = scene.store.load(Load::InHands(None)).await.expect("load");
        assert_eq!((page.now, page.next), (scene.now().await, None));
        page.jobs
    };
    assert_eq!(in_hands().await, []);
    scene.enqueue([1, 2, 3, 4, 5, 6]).await;
    scene.give(1, &[5, 3], BETA).await;
    scene.give(2, &[2, 4], ALPHA).await;
    scene.end(ALPHA, 2, done()).await;
    scene.end(BETA, 5, Outcome::Snooze { wait: std::time::Duration::ZERO }).await;
    let heads: Vec<_> = scene.heads().await.into_iter().filter(|head| head.state.assigned()).collect();
    assert_eq!(
        heads.iter().map(|head| (head.id, head.node)).collect::<Vec<_>>(),
        [(id(3), Some(BETA)), (id(4), Some(ALPHA))]
    );
    assert_eq!(in_hands().await, heads);
    for (node, job) in [(ALPHA, 4), (BETA, 3)] {
        let page = scene.store.load(Load::InHands(Some(node))).await.expect("load");
        assert_eq!(page.jobs.iter().map(|head| head.id).collect::<Vec<_>>(), [id(job)], "{node:?}");
    }
    scene.give(3, &[5], ALPHA).await;
    assert_eq!(in_hands().await.iter().map(|head| head.id).collect::<Vec<_>>(), [3, 4, 5].map(id));
}

/// A crash of the database takes back the ends of a batch, and the node still calls the batch done.
pub async fn what_a_node_holds_is_told_though_its_batch_was_called_done(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2, 3, 4]).await;
    scene.give(1, &[3, 1], BETA).await;
    scene.give(2, &[2], ALPHA).await;
    let done = Settle { author: by(BETA), settlements: vec![], done: vec![batch(1)] };
    assert_eq!(scene.store.settle(done).await.expect("settle"), []);
    let page = scene.store.load(Load::HeldBy(BETA)).await.expect("load");
    assert_eq!((page.now, page.next), (scene.now().await, None));
    let held: Vec<_> = scene.heads().await.into_iter().filter(|head| head.node == Some(BETA)).collect();
    assert_eq!(held.iter().map(|head| head.id).collect::<Vec<_>>(), [1, 3].map(id));
    assert_eq!(page.jobs, held);
    assert_eq!(scene.store.load(Load::HeldBy(GAMMA)).await.expect("load").jobs, []);
    // What batches name tells nothing of these.
    for (of, named) in [(None, vec![id(2)]), (Some(BETA), vec![])] {
        let page = scene.store.load(Load::InHands(of)).await.expect("load");
        assert_eq!(page.jobs.iter().map(|head| head.id).collect::<Vec<_>>(), named, "{of:?}");
    }
}

pub async fn news_without_a_cursor_only_say_where_to_begin(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    let begin = scene.news(None).await;
    assert_eq!((begin.jobs.len(), begin.changes.len(), begin.now), (0, 0, scene.now().await));
    let next = scene.news(Some(begin.cursor)).await;
    assert_eq!((next.jobs, next.changes), (vec![], vec![]), "what was there before is for load");
}

pub async fn news_tell_every_new_job_once_as_load_does(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let mut cursor = scene.news(None).await.cursor;
    for round in [vec![3, 1], vec![2], vec![], vec![5, 4]] {
        scene.enqueue(round.clone()).await;
        let news = scene.news(Some(cursor)).await;
        let ids: BTreeSet<_> = news.jobs.iter().map(|head| head.id).collect();
        assert_eq!((news.jobs.len(), ids), (round.len(), round.iter().map(|n| id(*n)).collect()));
        for head in news.jobs {
            let loaded = scene.store.load(Load::These(vec![head.id])).await.expect("load").jobs;
            assert_eq!(loaded, [head]);
        }
        cursor = news.cursor;
    }
}

pub async fn every_head_says_when_its_job_was_submitted(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let begin = scene.news(None).await.cursor;
    let earlier = scene.now().await;
    let mut timed = job(2);
    timed.due = Some(earlier.plus(SECOND));
    scene.submit(vec![job(1), timed]).await;
    h.advance(SECOND).await;
    scene.enqueue([3]).await;
    let later = scene.now().await;
    let times = |heads: &[JobHead]| heads.iter().map(|head| (head.submitted_at, head.due)).collect::<Vec<_>>();
    let expected = [(earlier, Some(earlier)), (earlier, Some(earlier.plus(SECOND))), (later, Some(later))];
    assert_eq!(times(&scene.news(Some(begin.clone())).await.jobs), expected, "by news");
    assert_eq!(times(&scene.heads().await), expected, "by load");
    scene.give(1, &[1], BETA).await;
    scene.end(BETA, 1, failed("again")).await;
    let changes = scene.news(Some(begin)).await.changes;
    let heads: Vec<_> = changes.iter().filter_map(|change| change.head.as_ref()).collect();
    assert_eq!(heads.iter().map(|head| head.submitted_at).collect::<Vec<_>>(), [earlier], "by a change");
}

pub async fn every_head_says_how_long_its_arguments_are_if_they_are_long(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let begin = scene.news(None).await.cursor;
    // A database keeps the second in a few thousand bytes, and the third in as many as it has.
    let mixed: String = ('a'..='z')
        .cycle()
        .scan(1_u64, |n, _| {
            *n = *n * 6_364_136_223 % 1_000_000_007;
            char::from_digit(u32::try_from(*n % 36).unwrap_or(0), 36)
        })
        .take(60_000)
        .collect();
    let texts = ["x".repeat(1_000), "x".repeat(900_000), mixed];
    let args: Vec<_> = texts.iter().map(|text| json(&format!("{text:?}"))).collect();
    scene.submit((1..).zip(&args).map(|(n, args)| NewJob { args: args.clone(), ..job(n) }).collect()).await;
    let long = [0, 900_002, 60_002];
    let lengths = |heads: &[JobHead]| heads.iter().map(|head| head.args_bytes).collect::<Vec<_>>();
    assert_eq!(lengths(&scene.news(Some(begin.clone())).await.jobs), long, "by news");
    assert_eq!(lengths(&scene.heads().await), long, "by load");
    let these = Load::These(vec![id(2), id(3)]);
    assert_eq!(lengths(&scene.store.load(these).await.expect("load").jobs), long[1..], "by their ids");
    scene.give(1, &[2], BETA).await;
    for load in [Load::InHands(None), Load::InHands(Some(BETA)), Load::HeldBy(BETA)] {
        assert_eq!(lengths(&scene.store.load(load).await.expect("load").jobs), long[1..2], "in a node's hands");
    }
    scene.end(BETA, 2, failed("again")).await;
    let changes = scene.news(Some(begin)).await.changes;
    let heads: Vec<_> = changes.into_iter().filter_map(|change| change.head).collect();
    assert_eq!(lengths(&heads), long[1..2], "by a change");
}

pub async fn what_had_begun_is_over_once_it_has_ended(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let begin = scene.news(None).await;
    scene.enqueue([1]).await;
    let mut news = scene.news(Some(begin.cursor)).await;
    let mark = news.writers.next;
    assert!(begin.writers.next <= mark && news.writers.over <= mark, "{:?}, then {:?}", begin.writers, news.writers);
    // A server may have other writers besides this test; they end too.
    while news.writers.over < mark {
        news = scene.news(Some(news.cursor)).await;
        tokio::task::yield_now().await;
    }
}

pub async fn the_same_cursor_tells_the_same_again(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let begin = scene.news(None).await.cursor;
    scene.enqueue([1, 2]).await;
    let first = scene.news(Some(begin.clone())).await;
    let again = scene.news(Some(begin)).await;
    let ids = |news: &News| news.jobs.iter().map(|head| head.id).collect::<BTreeSet<_>>();
    assert_eq!((ids(&first), first.jobs.len()), (ids(&again), 2), "a lost reply loses no job");
}

pub async fn news_from_sixteen_busy_submitters_miss_none_and_repeat_none(h: &impl Harness) {
    const EACH: u64 = 20;
    let scene = Scene::led(h).await;
    let mut cursor = scene.news(None).await.cursor;
    let mut callers = Vec::new();
    for caller in 0..16 {
        let store = h.open().await;
        callers.push(tokio::spawn(async move {
            for n in 0..EACH {
                let jobs = vec![job(caller * EACH + n)];
                until_answered(|| store.enqueue(jobs.clone())).await;
            }
        }));
    }
    let mut read: Vec<JobId> = Vec::new();
    // Reads news while the callers submit: a transaction that commits late must not be missed.
    while callers.iter().any(|caller| !caller.is_finished()) {
        let news = scene.news(Some(cursor)).await;
        read.extend(news.jobs.iter().map(|head| head.id));
        cursor = news.cursor;
        tokio::task::yield_now().await;
    }
    for caller in callers {
        caller.await.expect("no caller panics");
    }
    read.extend(scene.news(Some(cursor)).await.jobs.iter().map(|head| head.id));
    read.sort_unstable();
    let all: Vec<_> = (0..16 * EACH).map(id).collect();
    assert_eq!(read, all);
}

pub async fn another_nodes_end_is_told_with_how_long_it_ran(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    scene.give(1, &[1, 2], BETA).await;
    let begin = scene.news(None).await.cursor;
    scene.end(BETA, 1, done()).await;
    scene.end(BETA, 2, failed("again")).await;
    let news = scene.news(Some(begin.clone())).await;
    let changes = changes_as_set(news.changes);
    let stuck = scene.head(2).await;
    let expected = [(id(1), None), (id(2), stuck)].map(|(id, head)| Change {
        id,
        ran: Some(SECOND),
        failed: head.is_some(),
        well: head.is_none(),
        error: head.as_ref().map(|_| Failure::new("again").print()),
        head,
    });
    assert_eq!(changes, expected);
    assert_eq!(scene.news(Some(news.cursor)).await.changes, []);
    // The news says that it was an error, whatever state the job is in now.
    scene.give(2, &[2], BETA).await;
    let changes = scene.news(Some(begin)).await.changes;
    assert!(changes.iter().any(|change| change.id == id(2) && change.failed), "{changes:?}");
}

pub async fn another_nodes_failure_is_told_as_one_and_no_other_end_is(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let policies = [(1, "none"), (2, "none"), (3, "manual"), (4, "none"), (5, "none")];
    scene.submit(policies.map(|(n, retry)| job_with_retry(n, retry)).to_vec()).await;
    scene.give(1, &[1, 2, 3, 4, 5], BETA).await;
    let begin = scene.news(None).await.cursor;
    let ends = [done(), failed("no retries"), failed("ask"), Outcome::Cancelled, Outcome::Fail("for good".into())];
    let mut settlements = Vec::new();
    for (n, outcome) in (1..).zip(ends) {
        settlements.push(scene.settlement(n, &Event::Ended(outcome)).await);
    }
    // All in one call: each must be reported with its own end.
    assert_eq!(scene.settle(by(BETA), settlements).await, [Settled::Applied; 5]);
    let changes = changes_as_set(scene.news(Some(begin)).await.changes);
    let errors: Vec<_> = changes.iter().map(|change| change.error).collect();
    let print = |text: &str| Some(Failure::new(text).print());
    assert_eq!(errors, [None, print("no retries"), print("ask"), None, print("for good")]);
    let ends: Vec<_> = changes.iter().map(|change| (change.id, change.failed, change.head.is_some())).collect();
    let (end, failure, rest) = ((false, false), (true, false), (true, true));
    let expected = [(1, end), (2, failure), (3, rest), (4, end), (5, failure)];
    assert_eq!(ends, expected.map(|(n, (failed, rests))| (id(n), failed, rests)));
}

pub async fn a_lost_nodes_last_crash_is_told_to_the_next_dispatcher_as_a_failure(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    let (mut begin, mut error) = (scene.news(None).await.cursor, None);
    for round in 1..=u128::from(POISON_CRASHES) {
        assert_eq!(scene.state(1).await, JobState::Waiting, "it is not poison yet");
        begin = scene.news(Some(begin)).await.cursor;
        scene.give(round, &[1], BETA).await;
        assert_eq!(scene.start(BETA, 1).await, Settled::Applied);
        scene.lose_beta(h).await;
        let settlement = scene.settlement(1, &Event::NodeLost).await;
        error = settlement.to.fingerprint();
        assert_eq!(scene.settle_one(scene.for_lost(BETA, true), settlement).await, Settled::Applied);
        scene.store.join(join(BETA, "beta")).await.expect("join");
    }
    assert_eq!(scene.state(1).await, JobState::Failed);
    let ask = AskNews { cursor: Some(begin), epoch: Epoch(scene.epoch.0 + 1), asleep: false, new_jobs: u32::MAX };
    let changes = scene.store.news(ask).await.expect("news").changes;
    assert_eq!(changes, [Change { id: id(1), ran: None, failed: true, well: false, error, head: None }]);
}

pub async fn a_job_that_a_person_gives_up_is_not_told_as_a_failure(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job_with_retry(1, "manual")]).await;
    scene.give(1, &[1], BETA).await;
    scene.end(BETA, 1, failed("no")).await;
    let begin = scene.news(None).await.cursor;
    assert_eq!(scene.intervene(1, Event::GiveUp).await, Settled::Applied);
    assert_eq!(scene.state(1).await, JobState::Failed);
    let expected = [Change { id: id(1), ran: None, failed: false, well: false, error: None, head: None }];
    assert_eq!(scene.news(Some(begin)).await.changes, expected);
}

pub async fn a_start_is_no_news(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let begin = scene.news(None).await.cursor;
    scene.start(BETA, 1).await;
    assert_eq!(scene.news(Some(begin)).await.changes, []);
}

pub async fn an_assignment_is_no_news(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    let begin = scene.news(None).await.cursor;
    scene.give(1, &[1], BETA).await;
    let news = scene.news(Some(begin)).await;
    assert_eq!((news.jobs, news.changes), (vec![], vec![]), "the dispatcher did it itself");
}

pub async fn what_was_told_in_the_same_process_is_left_out_for_that_epoch(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    scene.give(1, &[1, 2], ALPHA).await;
    let begin = scene.news(None).await.cursor;
    let author = Author::Node { node: ALPHA, told: Some(scene.epoch) };
    let settlement = scene.settlement(1, &Event::Ended(done())).await;
    assert_eq!(scene.settle_one(author, settlement).await, Settled::Applied);
    scene.end(ALPHA, 2, done()).await;
    let ids = |news: News| news.changes.iter().map(|change| change.id).collect::<BTreeSet<_>>();
    assert_eq!(ids(scene.news(Some(begin.clone())).await), BTreeSet::from([id(2)]));
    // A dispatcher of another epoch was not notified.
    let ask = AskNews { cursor: Some(begin), epoch: Epoch(scene.epoch.0 + 1), asleep: false, new_jobs: u32::MAX };
    assert_eq!(ids(scene.store.news(ask).await.expect("news")), BTreeSet::from([id(1), id(2)]));
}

pub async fn what_the_dispatcher_settles_itself_is_left_out(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.lose_beta(h).await;
    let begin = scene.news(None).await.cursor;
    let settlement = scene.settlement(1, &Event::NodeLost).await;
    assert_eq!(scene.settle_one(scene.for_lost(BETA, true), settlement).await, Settled::Applied);
    assert_eq!(scene.news(Some(begin)).await.changes, []);
}

pub async fn a_persons_decision_is_told(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job(1), job_with_retry(2, "manual")]).await;
    scene.give(1, &[2], BETA).await;
    scene.end(BETA, 2, failed("no")).await;
    let begin = scene.news(None).await.cursor;
    assert_eq!(scene.intervene(1, Event::Cancel).await, Settled::Applied);
    assert_eq!(scene.intervene(2, Event::Retry).await, Settled::Applied);
    let changes = changes_as_set(scene.news(Some(begin)).await.changes);
    let waiting = scene.head(2).await;
    let expected = [(id(1), None), (id(2), waiting)];
    let expected = expected.map(|(id, head)| Change { id, ran: None, failed: false, well: false, error: None, head });
    assert_eq!(changes, expected);
}

pub async fn a_wish_to_stop_a_running_job_is_no_news(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let begin = scene.news(None).await.cursor;
    assert_eq!(scene.intervene(1, Event::Cancel).await, Settled::Applied);
    assert_eq!(scene.news(Some(begin)).await.changes, [], "only the node must be notified");
}

pub async fn a_redriven_job_is_news_again(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    scene.intervene(1, Event::Cancel).await;
    let begin = scene.news(None).await.cursor;
    assert_eq!(scene.intervene(1, Event::Retry).await, Settled::Applied);
    let news = scene.news(Some(begin)).await;
    let head = scene.head(1).await.expect("it waits");
    assert_eq!(news.jobs, std::slice::from_ref(&head));
    assert!(head.seq > scene.head(2).await.expect("it waits").seq, "it goes to the end of the line");
}

pub async fn a_settle_that_was_refused_is_no_news(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let begin = scene.news(None).await.cursor;
    let mut settlement = scene.settlement(1, &Event::Ended(done())).await;
    settlement.fence.0 -= 1;
    assert_eq!(scene.settle_one(by(BETA), settlement).await, Settled::Superseded);
    assert_eq!(scene.news(Some(begin)).await.changes, []);
}

pub async fn a_repeated_settle_is_told_once(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let begin = scene.news(None).await.cursor;
    let settlement = scene.settlement(1, &Event::Ended(done())).await;
    assert_eq!(scene.settle_one(by(BETA), settlement.clone()).await, Settled::Applied);
    let news = scene.news(Some(begin)).await;
    assert_eq!(news.changes.len(), 1);
    assert_eq!(scene.settle_one(by(BETA), settlement).await, Settled::Applied);
    assert_eq!(scene.news(Some(news.cursor)).await.changes, [], "nothing has changed since");
}

pub async fn a_settle_rings_the_dispatcher(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let store = h.open().await;
    let begin = scene.news(None).await.cursor;
    let ask = AskNews { cursor: Some(begin), epoch: scene.epoch, asleep: true, new_jobs: u32::MAX };
    store.news(ask).await.expect("news");
    let other = Scene { store, epoch: scene.epoch };
    let bell = other.store.bell();
    assert_eq!(other.end(BETA, 1, done()).await, Settled::Applied);
    rung(&bell.news).await;
}
