//! Promises of `recall` and `remember`, and of the memos that a store itself uses: a full group takes no jobs, and what is kept
//! of finished jobs and logs is as set for the installation.

use turnwise_core::{GroupName, JobState, NewJob, lifecycle::Event};

use super::{
    Harness,
    scene::*,
    story::{line, note},
};
use crate::{StoreError, store::*};

fn group(n: u64, group: &str) -> NewJob {
    NewJob { group: GroupName::new(group).expect("a good name"), ..job(n) }
}

async fn recalled(store: &dyn Store) -> Vec<(MemoKind, String, String, i64)> {
    let memos = store.recall(MemoKind::ALL.to_vec()).await.expect("recall");
    memos.into_iter().map(|memo| (memo.kind, memo.name, memo.value, memo.version)).collect()
}

fn refusal(reply: Result<Vec<Submitted>>) -> String {
    match reply {
        Err(StoreError::Refused(sentence)) => sentence,
        other => panic!("not refused: {other:?}"),
    }
}

pub async fn memos_are_recalled_by_kind_and_in_order(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let names = ["b", "é", "a", "B", "a b", "ß", "日本語", "e\u{301}"];
    let kinds = [MemoKind::Charge, MemoKind::Queue, MemoKind::Installation];
    let memos: Vec<_> = kinds
        .into_iter()
        .flat_map(|kind| names.map(|name| memo(kind, name, &format!(r#"{{"of": "{name}", "x":1.50}}"#))))
        .collect();
    assert_eq!(scene.store.remember(None, memos).await.expect("remember"), [true; 24]);
    let mut sorted = names;
    sorted.sort_unstable();
    let found =
        scene.store.recall(vec![MemoKind::Queue, MemoKind::Installation, MemoKind::Queue]).await.expect("recall");
    let expected: Vec<_> = [MemoKind::Installation, MemoKind::Queue]
        .into_iter()
        .flat_map(|kind| {
            sorted.map(|name| Memo {
                kind,
                name: name.to_owned(),
                value: format!(r#"{{"of": "{name}", "x":1.50}}"#),
                version: 1,
            })
        })
        .collect();
    assert_eq!(found, expected);
    assert_eq!(scene.store.recall(vec![]).await.expect("recall"), []);
    assert_eq!(scene.store.recall(vec![MemoKind::Full]).await.expect("recall"), []);
}

pub async fn what_is_kept_follows_the_installation_once_the_store_hears_of_it(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2, 3, 4]).await;
    scene.give(1, &[1, 2, 3], BETA).await;
    let set = async |value: &str| {
        assert!(scene.remember(memo(MemoKind::Installation, "", value)).await);
        scene.store.recall(vec![MemoKind::Queue]).await.expect("recall");
    };
    let read = async || drop(scene.store.recall(vec![MemoKind::Installation]).await.expect("recall"));
    set(r#"{"retention":"success=0,cancelled=0","log_lines":2}"#).await;
    scene.end(BETA, 1, done()).await;
    assert_eq!(scene.state(1).await, JobState::Success, "the store has not read the setting yet");
    read().await;
    let lines = (0..5).map(|n| line(1, n, "x")).collect();
    scene.note(BETA, Note { lines, trim: true, ..note(2, 1) }).await;
    assert_eq!((scene.story(2).await.lines.len(), scene.story(2).await.dropped), (2, 3));
    scene.end(BETA, 2, done()).await;
    scene.intervene(4, Event::Cancel).await;
    assert_eq!((scene.find(2).await, scene.find(4).await), (None, None));
    // A setting that cannot be read, or was deleted, counts as not set.
    set("{").await;
    assert!(scene.store.beat(beat(BETA, false)).await.expect("beat").alive);
    scene.end(BETA, 3, done()).await;
    assert_eq!(scene.state(3).await, JobState::Success);
}

pub async fn every_write_of_a_memo_raises_its_version_by_one(h: &impl Harness) {
    let scene = Scene::led(h).await;
    for (value, version) in [("1", 1), ("2", 2), ("2", 3), ("", 4)] {
        assert!(scene.remember(memo(MemoKind::Group, "acme", value)).await);
        assert_eq!(recalled(&*scene.store).await, [(MemoKind::Group, "acme".to_owned(), value.to_owned(), version)]);
    }
    scene.remember(memo(MemoKind::Group, "other", "x")).await;
    assert_eq!(recalled(&*scene.store).await[0].3, 4, "another memo's write is not this one's");
}

pub async fn a_memo_that_moved_on_since_it_was_seen_is_left_alone(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let write = |value: &str, seen| NewMemo { seen: Some(seen), ..memo(MemoKind::Queue, "mail", value) };
    assert!(!scene.remember(write("early", 1)).await, "it is not there yet");
    assert_eq!(recalled(&*scene.store).await, []);
    assert!(scene.remember(write("first", 0)).await);
    assert!(!scene.remember(write("second first", 0)).await);
    assert!(scene.remember(write("second", 1)).await);
    assert!(!scene.remember(write("late", 1)).await);
    assert!(!scene.remember(write("ahead", 3)).await);
    assert_eq!(recalled(&*scene.store).await, [(MemoKind::Queue, "mail".to_owned(), "second".to_owned(), 2)]);
}

pub async fn of_one_call_the_memos_are_written_that_are_as_they_were_seen(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.remember(memo(MemoKind::Queue, "a", "1")).await;
    scene.remember(memo(MemoKind::Queue, "b", "1")).await;
    let memos = vec![
        NewMemo { seen: Some(1), ..memo(MemoKind::Queue, "b", "2") },
        NewMemo { seen: Some(0), ..memo(MemoKind::Queue, "a", "2") },
        NewMemo { seen: Some(0), ..memo(MemoKind::Group, "a", "2") },
        memo(MemoKind::Task, "a", "2"),
    ];
    assert_eq!(scene.store.remember(None, memos).await.expect("remember"), [true, false, true, true]);
    let values: Vec<_> = recalled(&*scene.store).await.into_iter().map(|(_, name, value, _)| name + &value).collect();
    assert_eq!(values, ["a1", "b2", "a2", "a2"]);
}

pub async fn a_memo_is_deleted_if_it_is_as_it_was_seen(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let delete = |seen| NewMemo { value: None, seen, ..memo(MemoKind::Key, "db", "") };
    assert!(scene.remember(delete(None)).await, "what is not there is deleted already");
    assert!(scene.remember(delete(Some(0))).await);
    scene.remember(memo(MemoKind::Key, "db", "1")).await;
    scene.remember(memo(MemoKind::Key, "db2", "1")).await;
    for seen in [0, 2] {
        assert!(!scene.remember(delete(Some(seen))).await);
    }
    assert!(scene.remember(delete(Some(1))).await);
    assert!(!scene.remember(delete(Some(1))).await);
    assert_eq!(recalled(&*scene.store).await, [(MemoKind::Key, "db2".to_owned(), "1".to_owned(), 1)]);
    assert!(scene.remember(NewMemo { seen: Some(0), ..memo(MemoKind::Key, "db", "2") }).await, "it may come again");
    assert!(scene.remember(delete(None)).await);
    assert_eq!(recalled(&*scene.store).await.len(), 1);
}

pub async fn a_memo_named_twice_in_one_call_is_a_mistake(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let memos = vec![memo(MemoKind::Key, "db", "1"), memo(MemoKind::Key, "x", "1"), memo(MemoKind::Key, "db", "2")];
    let reply = scene.store.remember(None, memos).await;
    assert!(matches!(reply, Err(StoreError::Broken { .. })), "{reply:?}");
    assert_eq!(recalled(&*scene.store).await, []);
    assert_eq!(scene.store.remember(None, vec![]).await.expect("remember"), [false; 0]);
}

pub async fn who_does_not_lead_remembers_nothing_as_the_dispatcher(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let wrong = [(BETA, scene.epoch), (ALPHA, Epoch(scene.epoch.0 + 1)), (ALPHA, Epoch(scene.epoch.0 - 1))];
    for lead in wrong {
        for memos in [vec![memo(MemoKind::Charge, "acme", "1")], vec![]] {
            let reply = scene.store.remember(Some(lead), memos).await;
            assert!(matches!(reply, Err(StoreError::NotLeading)), "{reply:?}");
        }
    }
    assert_eq!(recalled(&*scene.store).await, []);
    let lead = Some((ALPHA, scene.epoch));
    let memos = vec![memo(MemoKind::Charge, "acme", "1"), memo(MemoKind::Full, "acme", "no")];
    assert_eq!(scene.store.remember(lead, memos).await.expect("remember"), [true, true]);
    assert_eq!(recalled(&*scene.store).await.len(), 2);
}

pub async fn of_sixteen_writers_who_saw_one_version_one_writes(h: &impl Harness) {
    for seen in [0, 1] {
        let mut callers = Vec::new();
        for n in 0..16 {
            let store = h.open().await;
            let new = NewMemo { seen: Some(seen), ..memo(MemoKind::Queue, "mail", &n.to_string()) };
            callers.push(tokio::spawn(async move {
                // A caller that has to repeat its call may find its own write; then no caller gets `true` for it.
                (n, until_answered(|| store.remember(None, vec![new.clone()])).await[0])
            }));
        }
        let mut writers = Vec::new();
        for caller in callers {
            let (n, wrote) = caller.await.expect("no caller panics");
            writers.extend(wrote.then(|| n.to_string()));
        }
        let memos = recalled(&*h.open().await).await;
        assert_eq!((memos.len(), memos[0].3), (1, seen + 1));
        assert!(writers.is_empty() || writers == [memos[0].2.clone()], "{writers:?} wrote {memos:?}");
    }
}

pub async fn no_write_of_sixteen_writers_who_saw_nothing_is_lost(h: &impl Harness) {
    const EACH: i64 = 8;
    let mut callers = Vec::new();
    for _ in 0..16 {
        let store = h.open().await;
        callers.push(tokio::spawn(async move {
            let mut calls = 0;
            for _ in 0..EACH {
                loop {
                    calls += 1;
                    match store.remember(None, vec![memo(MemoKind::Task, "mail", "x")]).await {
                        Ok(replies) => break assert_eq!(replies, [true]),
                        Err(error) => assert!(error.is_transient(), "{error}"),
                    }
                }
            }
            calls
        }));
    }
    let mut calls = 0;
    for caller in callers {
        calls += caller.await.expect("no caller panics");
    }
    // A call without an answer may have written or not.
    let version = recalled(&*h.open().await).await[0].3;
    assert!((16 * EACH..=calls).contains(&version), "version {version} after {calls} calls");
}

pub async fn ten_thousand_charges_are_written_in_one_call(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let lead = Some((ALPHA, scene.epoch));
    for round in 1..=2 {
        let charges = (0..10_000).map(|n| memo(MemoKind::Charge, &format!("group {n}"), &format!("{round}.{n}")));
        let replies = scene.store.remember(lead, charges.collect()).await.expect("remember");
        assert!(replies.len() == 10_000 && replies.iter().all(|wrote| *wrote));
        let memos = recalled(&*scene.store).await;
        assert!(memos.len() == 10_000 && memos.iter().all(|(_, _, _, version)| *version == round));
    }
}

pub async fn a_memo_written_by_others_is_news_once(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.remember(memo(MemoKind::Queue, "old", "1")).await;
    let begin = scene.news(None).await;
    assert!(!begin.memos, "without a cursor there are no news");
    let quiet = scene.news(Some(begin.cursor.clone())).await;
    assert!(!quiet.memos);
    let other = h.open().await;
    other.remember(None, vec![memo(MemoKind::Queue, "mail", "1")]).await.expect("remember");
    other.remember(None, vec![memo(MemoKind::Group, "acme", "1")]).await.expect("remember");
    let news = scene.news(Some(begin.cursor.clone())).await;
    assert_eq!((news.memos, news.jobs, news.changes), (true, vec![], vec![]));
    assert!(scene.news(Some(begin.cursor)).await.memos, "the same cursor gives the same news again");
    let next = scene.news(Some(news.cursor)).await;
    assert!(!next.memos, "once is enough");
    let delete = NewMemo { value: None, ..memo(MemoKind::Queue, "mail", "") };
    other.remember(None, vec![delete]).await.expect("remember");
    let deleted = scene.news(Some(next.cursor)).await;
    assert!(deleted.memos, "a deletion is a change too");
    scene.enqueue([1]).await;
    let news = scene.news(Some(deleted.cursor)).await;
    assert_eq!((news.memos, news.jobs.len()), (false, 1));
}

pub async fn what_the_dispatcher_remembers_or_nobody_wrote_is_no_news(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let begin = scene.news(None).await.cursor;
    let lead = Some((ALPHA, scene.epoch));
    scene.store.remember(lead, vec![memo(MemoKind::Charge, "acme", "1")]).await.expect("remember");
    assert!(!scene.remember(NewMemo { seen: Some(7), ..memo(MemoKind::Charge, "acme", "2") }).await);
    assert!(scene.remember(NewMemo { value: None, ..memo(MemoKind::Charge, "nobody", "") }).await);
    scene.store.remember(None, vec![]).await.expect("remember");
    let news = scene.news(Some(begin)).await;
    assert_eq!((news.memos, news.changes), (false, vec![]));
}

pub async fn pruning_seen_changes_hides_no_memo_that_was_not_seen(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.remember(memo(MemoKind::Queue, "mail", "1")).await;
    let seen = scene.news(None).await.cursor;
    scene.remember(memo(MemoKind::Queue, "mail", "2")).await;
    scene.store.prune(Some(seen.clone()), ALL).await.expect("prune");
    let news = scene.news(Some(seen)).await;
    assert!(news.memos);
    assert_eq!(recalled(&*scene.store).await.len(), 1, "pruning forgets no memo");
    assert!(!scene.news(Some(news.cursor)).await.memos);
}

pub async fn a_remembered_memo_rings_the_dispatcher(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let store = h.open().await;
    let begin = scene.news(None).await.cursor;
    store
        .news(AskNews { cursor: Some(begin), epoch: scene.epoch, asleep: true, new_jobs: u32::MAX })
        .await
        .expect("news");
    let bell = store.bell();
    store.remember(None, vec![memo(MemoKind::Group, "acme", "1")]).await.expect("remember");
    rung(&bell.news).await;
}

pub async fn a_full_group_takes_no_jobs(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let begin = scene.news(None).await.cursor;
    let sentence = r#"group "acme" has 1000 waiting jobs, its limit: 100% 'full' {}"#;
    scene.remember(memo(MemoKind::Full, "acme", sentence)).await;
    scene.remember(memo(MemoKind::Group, "blue", "settings of its own")).await;
    assert_eq!(refusal(scene.store.enqueue(vec![group(1, "acme")]).await), sentence);
    assert_eq!(scene.find(1).await, None);
    assert_eq!(scene.news(Some(begin)).await.jobs, []);
    scene.submit(vec![group(2, "blue"), group(3, "Acme"), group(4, "acme2")]).await;
    scene.remember(NewMemo { value: None, ..memo(MemoKind::Full, "acme", "") }).await;
    scene.submit(vec![group(1, "acme")]).await;
}

pub async fn one_job_of_a_full_group_refuses_the_whole_call(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.remember(memo(MemoKind::Full, "red", "red is full")).await;
    scene.remember(memo(MemoKind::Full, "black", "black is full")).await;
    let jobs = vec![group(1, "blue"), group(2, "red"), group(3, "black"), group(4, "blue")];
    assert_eq!(refusal(scene.store.enqueue(jobs).await), "red is full", "the first in the order of the jobs");
    assert_eq!(scene.heads().await, []);
}

pub async fn a_job_that_is_there_is_not_refused_when_it_is_repeated(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![group(1, "acme"), group(2, "acme"), group(3, "acme")]).await;
    scene.give(1, &[1, 2], BETA).await;
    scene.end(BETA, 2, done()).await;
    scene.remember(memo(MemoKind::Full, "acme", "full")).await;
    let again = vec![group(1, "acme"), group(2, "acme"), group(3, "acme"), group(5, "blue"), group(5, "acme")];
    let replies = scene.store.enqueue(again).await.expect("enqueue");
    assert_eq!(replies.iter().map(|reply| reply.new).collect::<Vec<_>>(), [false, false, false, true, false]);
    assert_eq!(refusal(scene.store.enqueue(vec![group(1, "acme"), group(4, "acme")]).await), "full");
}

pub async fn a_full_group_keeps_what_it_has(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![group(1, "acme"), group(2, "acme")]).await;
    scene.intervene(2, Event::Cancel).await;
    scene.remember(memo(MemoKind::Full, "acme", "full")).await;
    // A person may have an ended job run again: it was accepted once.
    assert_eq!(scene.intervene(2, Event::Retry).await, Settled::Applied);
    scene.give(1, &[1, 2], BETA).await;
    assert_eq!(scene.end(BETA, 1, failed("again")).await, Settled::Applied);
    assert_eq!(scene.end(BETA, 2, done()).await, Settled::Applied);
}
