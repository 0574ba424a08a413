//! Promises of `watch`: any reader learns what has changed, and nothing is written or locked for it.

use std::sync::Arc;

use turnwise_core::{
    JobId, JobState,
    lifecycle::{Event, Outcome},
    story::Progress,
};

use super::{OperatorHarness, scene::*, story::note};
use crate::{
    AskWatch, OperatorStore, WatchCursor, Watched,
    store::{Author, MemoKind, Note, Settle, Settled},
};

/// As much as any of these tests does.
const MOST: u32 = 1_000;

async fn look(store: &Arc<dyn OperatorStore>, cursor: Option<WatchCursor>) -> Watched {
    store.watch(AskWatch { cursor, most: MOST, ends: true }).await.expect("watch")
}

/// The store with its watcher, who begins here.
async fn watched(h: &impl OperatorHarness) -> (Scene, Arc<dyn OperatorStore>, WatchCursor) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    let cursor = look(&store, None).await.cursor;
    (scene, store, cursor)
}

fn ids(watched: &Watched) -> (Vec<JobId>, Vec<JobId>) {
    (watched.jobs.iter().map(|head| head.id).collect(), watched.changes.iter().map(|change| change.id).collect())
}

fn is_empty(watched: &Watched) -> bool {
    let Watched { reset, jobs, changes, ended, memos, more, .. } = watched;
    !reset && jobs.is_empty() && changes.is_empty() && ended.is_empty() && !memos && !more
}

pub async fn a_watcher_without_a_cursor_is_told_where_to_begin(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    scene.enqueue([1]).await;
    let begin = look(&store, None).await;
    assert!(is_empty(&begin), "{begin:?}");
    assert_eq!((begin.now, begin.since), (scene.now().await, scene.now().await));
    h.advance(SECOND).await;
    let later = look(&store, Some(begin.cursor)).await;
    assert!(is_empty(&later), "{later:?}");
    assert_eq!((later.now, later.since), (scene.now().await, begin.now));
}

pub async fn a_watcher_is_told_new_jobs_as_the_dispatcher_is(h: &impl OperatorHarness) {
    let (scene, store, begin) = watched(h).await;
    let news = scene.news(None).await.cursor;
    scene.enqueue([3, 1, 2]).await;
    let seen = look(&store, Some(begin)).await;
    assert_eq!((seen.jobs, seen.changes), (scene.news(Some(news)).await.jobs, vec![]));
    let after = look(&store, Some(seen.cursor)).await;
    assert!(is_empty(&after), "each is told once: {after:?}");
}

pub async fn a_watcher_is_told_ends_that_the_dispatcher_knows_already(h: &impl OperatorHarness) {
    let (scene, store, begin) = watched(h).await;
    scene.enqueue([1, 2, 3]).await;
    let news = scene.news(None).await.cursor;
    let begin = look(&store, Some(begin)).await.cursor;
    scene.give(1, &[1, 2, 3], ALPHA).await;
    for (n, outcome) in [(1, done()), (2, failed("no")), (3, Outcome::Fail("never".to_owned().into()))] {
        let settlement = scene.settlement(n, &Event::Ended(outcome)).await;
        let author = Author::Node { node: ALPHA, told: Some(scene.epoch) };
        scene.store.settle(Settle { author, settlements: vec![settlement], done: vec![] }).await.expect("settle");
    }
    assert_eq!(scene.news(Some(news)).await.changes, [], "the dispatcher was told in its own process");
    let seen = look(&store, Some(begin)).await;
    assert_eq!(ids(&seen), (vec![], [1, 2, 3].map(id).to_vec()));
    let told: Vec<_> = seen.changes.iter().map(|change| (change.well, change.failed, change.head.is_some())).collect();
    assert_eq!(told, [(true, false, false), (false, true, true), (false, true, false)]);
    assert_eq!(seen.changes[0].ran, Some(SECOND));
    assert_eq!(seen.changes[1].head, scene.head(2).await);
    let ended: Vec<_> = seen.ended.iter().map(|job| (job.id, job.state, job.attempt)).collect();
    assert_eq!(ended, [(id(1), JobState::Success, 1), (id(3), JobState::Failed, 1)]);
    let (shown, job) = (&seen.ended[1], scene.job(3).await);
    assert_eq!((&shown.task, &shown.queue, &shown.group, &shown.node), (&job.task, &job.queue, &job.group, &job.node));
    assert_eq!(
        (shown.submitted_at, shown.started_at, shown.finished_at, &shown.fingerprint),
        (job.submitted_at, job.started_at, job.finished_at, &job.fingerprint)
    );
    assert!(shown.fingerprint.is_some() && shown.node.is_some());
}

pub async fn a_job_that_came_and_ended_between_two_looks_is_told_by_its_end(h: &impl OperatorHarness) {
    let (scene, store, begin) = watched(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.end(BETA, 1, done()).await;
    let seen = look(&store, Some(begin.clone())).await;
    assert_eq!(ids(&seen), (vec![], vec![id(1)]));
    assert_eq!(seen.ended.iter().map(|job| job.id).collect::<Vec<_>>(), [id(1)]);
    let brief = store.watch(AskWatch { cursor: Some(begin), most: MOST, ends: false }).await.expect("watch");
    assert_eq!((brief.ended, brief.changes), (vec![], seen.changes), "ended jobs are read if they are asked for");
}

pub async fn decisions_of_people_and_jobs_that_run_again_are_told_to_watchers(h: &impl OperatorHarness) {
    let (scene, store, begin) = watched(h).await;
    scene.enqueue([1]).await;
    let begin = look(&store, Some(begin)).await.cursor;
    scene.intervene(1, Event::Cancel).await;
    let seen = look(&store, Some(begin)).await;
    let told: Vec<_> = seen.changes.iter().map(|change| (change.id, change.well, change.failed)).collect();
    assert_eq!(told, [(id(1), false, false)]);
    assert_eq!(seen.ended.iter().map(|job| job.state).collect::<Vec<_>>(), [JobState::Cancelled]);
    scene.intervene(1, Event::Retry).await;
    let again = look(&store, Some(seen.cursor)).await;
    assert_eq!(again.jobs, scene.heads().await);
    assert!(again.ended.is_empty(), "it has not ended: {again:?}");
}

pub async fn a_watcher_is_told_that_memos_were_written(h: &impl OperatorHarness) {
    let (scene, store, begin) = watched(h).await;
    assert!(scene.remember(memo(MemoKind::Queue, "mail", "{}")).await);
    let seen = look(&store, Some(begin)).await;
    assert_eq!((seen.memos, ids(&seen)), (true, (vec![], vec![])));
    assert!(!look(&store, Some(seen.cursor)).await.memos);
}

pub async fn a_cursor_holds_in_every_process_and_tells_the_same_again(h: &impl OperatorHarness) {
    let (scene, store, begin) = watched(h).await;
    scene.enqueue([1, 2]).await;
    scene.give(1, &[1], BETA).await;
    scene.end(BETA, 1, done()).await;
    let (here, there) = (look(&store, Some(begin.clone())).await, look(&h.operators().await, Some(begin)).await);
    assert_eq!(ids(&here), (vec![id(2)], vec![id(1)]));
    assert_eq!((here.jobs, here.changes, here.ended), (there.jobs, there.changes, there.ended));
    let text = there.cursor.to_string();
    assert!(text.bytes().all(|byte| byte.is_ascii_digit() || b"/:,.-".contains(&byte)), "{text} goes into a header");
    assert!(is_empty(&look(&store, Some(WatchCursor(text))).await));
}

pub async fn a_look_is_bounded_and_says_that_there_is_more(h: &impl OperatorHarness) {
    let (scene, store, begin) = watched(h).await;
    scene.enqueue(1..=10).await;
    scene.give(1, &[1, 2, 3, 4], BETA).await;
    for n in 1..=4 {
        scene.end(BETA, n, done()).await;
    }
    let ask = |most| AskWatch { cursor: Some(begin.clone()), most, ends: true };
    let few = store.watch(ask(3)).await.expect("watch");
    assert_eq!((few.jobs.len(), few.changes.len(), few.more), (3, 3, true));
    assert!(is_empty(&look(&store, Some(few.cursor)).await), "the cursor is beyond what was left out");
    let all = store.watch(ask(7)).await.expect("watch");
    assert_eq!((all.jobs.len(), all.changes.len(), all.more), (6, 4, false));
}

pub async fn a_cursor_from_elsewhere_is_told_as_a_reset(h: &impl OperatorHarness) {
    let (scene, store, begin) = watched(h).await;
    scene.enqueue([1]).await;
    let (lineage, at, place) = begin.parts().expect("it is one");
    let foreign = [
        String::new(),
        "what".to_owned(),
        "1/2/3".to_owned(),
        "1/2/3.4".to_owned(),
        "1/2/10:20:".to_owned(),
        "'; drop table turnwise.job".to_owned(),
        WatchCursor::new(lineage + 1, at, place).0,
        WatchCursor::new(lineage, at, "9223372036854775807.9223372036854775807").0,
        WatchCursor::new(lineage, at, "9223372036854775806:9223372036854775807:").0,
        WatchCursor::new(lineage, at, "-5.-5").0,
        WatchCursor::new(lineage, at, "0:0:").0,
        WatchCursor::new(lineage, at, format!("1:100000:{}", vec!["7"; 9_000].join(","))).0,
        format!("{begin}1"),
    ];
    for text in foreign {
        let seen = look(&store, Some(WatchCursor(text.clone()))).await;
        assert!(seen.reset && ids(&seen) == (vec![], vec![]), "{text:.60}: {seen:?}");
        assert!(is_empty(&look(&store, Some(seen.cursor)).await), "from there it goes on");
    }
}

pub async fn a_cursor_that_is_older_than_what_is_kept_is_told_as_a_reset(h: &impl OperatorHarness) {
    let (scene, store, begin) = watched(h).await;
    scene.enqueue([1, 2, 3]).await;
    scene.give(1, &[1, 2, 3], BETA).await;
    scene.end(BETA, 1, done()).await;
    let read = scene.news(None).await.cursor;
    let middle = look(&store, Some(begin.clone())).await;
    assert_eq!(ids(&middle).1, [id(1)]);
    scene.end(BETA, 2, done()).await;
    assert!(scene.store.prune(Some(read), ALL).await.expect("prune") >= 1);
    assert!(look(&store, Some(begin)).await.reset, "the end of 1 was deleted");
    // First how far the prune goes, then the look, as in life, where a prune is a minute behind: transactions of others may end in between.
    let read = scene.news(None).await.cursor;
    let seen = look(&store, Some(middle.cursor.clone())).await;
    assert_eq!((seen.reset, ids(&seen).1), (false, vec![id(2)]));
    scene.store.prune(Some(read), ALL).await.expect("prune");
    assert!(look(&store, Some(middle.cursor)).await.reset, "the end of 2 was deleted");
    assert!(is_empty(&look(&store, Some(seen.cursor.clone())).await), "nothing that this one has not seen was deleted");
    scene.end(BETA, 3, done()).await;
    assert_eq!(ids(&look(&store, Some(seen.cursor)).await).1, [id(3)]);
}

pub async fn sixteen_submitters_do_not_hide_a_job_from_a_watcher(h: &impl OperatorHarness) {
    let (scene, store, mut cursor) = watched(h).await;
    let submits: Vec<_> = (0..16)
        .map(|submitter| {
            let store = Arc::clone(&scene.store);
            tokio::spawn(async move {
                for n in 0..20 {
                    store.enqueue(vec![job(1 + submitter * 20 + n)]).await.expect("enqueue");
                }
            })
        })
        .collect();
    let (mut seen, mut over) = (Vec::new(), false);
    loop {
        let looked = look(&store, Some(cursor)).await;
        assert!(!looked.reset && !looked.more, "{looked:?}");
        seen.extend(ids(&looked).0);
        cursor = looked.cursor;
        if over {
            break;
        }
        over = submits.iter().all(tokio::task::JoinHandle::is_finished);
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=320).map(id).collect::<Vec<_>>());
}

pub async fn watching_leaves_nothing_behind_and_nothing_out(h: &impl OperatorHarness) {
    let (scene, store, begin) = watched(h).await;
    let news = scene.news(None).await.cursor;
    scene.enqueue([1, 2]).await;
    scene.give(1, &[1], BETA).await;
    scene.end(BETA, 1, done()).await;
    let before = scene.news(Some(news.clone())).await;
    for _ in 0..3 {
        look(&store, Some(begin.clone())).await;
    }
    let after = scene.news(Some(news)).await;
    assert_eq!((before.jobs, before.changes), (after.jobs, after.changes), "the dispatcher's news are its own");
}

pub async fn what_is_in_nodes_hands_is_shown_with_how_far_it_has_come(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    scene.enqueue([1, 2, 3, 4]).await;
    scene.give(1, &[1, 2], BETA).await;
    scene.give(2, &[3], ALPHA).await;
    scene.start(BETA, 2).await;
    let fence = scene.job(2).await.fence;
    let progress = Progress::new(3, 7, "pages");
    let note = Note { progress: Some(progress.clone()), ..note(2, fence.0) };
    assert_eq!(scene.note(BETA, note).await, Settled::Applied);
    let held = store.in_hands(MOST).await.expect("in hands");
    assert_eq!((held.now, held.more), (scene.now().await, false));
    let shown: Vec<_> =
        held.jobs.iter().map(|job| (job.id, job.state, job.node.as_str(), job.progress.as_ref())).collect();
    assert_eq!(
        shown,
        [
            (id(1), JobState::Scheduled, "beta", None),
            (id(2), JobState::Running, "beta", Some(&progress)),
            (id(3), JobState::Scheduled, "alpha", None),
        ]
    );
    let (two, row) = (&held.jobs[1], scene.job(2).await);
    assert_eq!((&two.task, &two.queue, &two.group, two.fence), (&row.task, &row.queue, &row.group, row.fence));
    assert_eq!((two.attempt, two.submitted_at, two.started_at), (row.counts.attempt, row.submitted_at, row.started_at));
    let few = store.in_hands(2).await.expect("in hands");
    assert_eq!((few.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), few.more), ([1, 2].map(id).to_vec(), true));
    for n in [1, 2, 3] {
        scene.end(if n == 3 { ALPHA } else { BETA }, n, done()).await;
    }
    assert_eq!(store.in_hands(MOST).await.expect("in hands").jobs, []);
}
