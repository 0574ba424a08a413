//! Promises about totals: asked for, written by the dispatcher, found by every reader.

use std::sync::Arc;

use turnwise_core::{
    GroupName, QueueName,
    totals::{GroupTotal, HeldLine, Known, Tally, Totals},
    turn::Charge,
};

use super::{
    OperatorHarness,
    scene::{ALPHA, BETA, SECOND, Scene, id, rung, task},
};
use crate::{
    AskNews, Epoch, OperatorStore, StoreError,
    operators::{ASK_AGAIN, ASKED_FOR, FoundTotals},
};

async fn ask(store: &Arc<dyn OperatorStore>) -> FoundTotals {
    store.ask_totals().await.expect("ask for totals")
}

fn totals(waiting: usize) -> Totals {
    let mut jobs = Tally::default();
    (jobs.waiting, jobs.stuck) = (waiting, 2);
    let group = |name: &str, ahead| GroupTotal { name: GroupName::new(name).expect("a good name"), jobs, ahead };
    let queue = QueueName::new("\"quoted\" ☃").expect("a good name");
    Totals {
        complete: true,
        all: jobs,
        queues: vec![(queue.clone(), jobs)],
        groups: vec![
            group("a", Charge::from_text("123456789012345678").expect("a charge")),
            group("b", Charge::default()),
        ],
        tasks: vec![(task("mail"), jobs)],
        keys: Vec::new(),
        known: Known { queues: 1, groups: 2, tasks: 1, keys: 0 },
        held: vec![HeldLine { queue, job: id(7), task: task("mail") }],
    }
}

pub async fn a_question_comes_with_the_news_and_expires(h: &impl OperatorHarness) {
    let scene = Scene::led(h).await;
    let store = h.operators().await;
    let begin = scene.news(None).await;
    let news = scene.news(Some(begin.cursor)).await;
    assert_eq!(news.asked, None, "nobody asks");
    let found = ask(&store).await;
    assert_eq!((found.now, found.last), (news.now, None));
    let until = news.now.plus(ASKED_FOR);
    let news = scene.news(Some(news.cursor)).await;
    assert_eq!(news.asked, Some(until));
    // Not written again before it is time to.
    h.advance(ASK_AGAIN - SECOND).await;
    ask(&store).await;
    let news = scene.news(Some(news.cursor)).await;
    assert_eq!(news.asked, Some(until));
    h.advance(SECOND * 2).await;
    ask(&store).await;
    let news = scene.news(Some(news.cursor)).await;
    assert_eq!(news.asked, Some(news.now.plus(ASKED_FOR)));
    h.advance(ASKED_FOR).await;
    assert_eq!(scene.news(Some(news.cursor)).await.asked, None, "it has expired");
}

pub async fn a_question_rings_the_dispatcher_if_nobody_asked_before(h: &impl OperatorHarness) {
    let epoch = Scene::led(h).await.epoch;
    let (both, store) = h.both().await;
    let scene = Scene { store: both, epoch };
    let bell = scene.store.bell();
    let begin = scene.news(None).await.cursor;
    let asleep = AskNews { cursor: Some(begin), epoch, asleep: true, new_jobs: u32::MAX };
    let cursor = scene.store.news(asleep).await.expect("news").cursor;
    ask(&store).await;
    rung(&bell.news).await;
    assert!(scene.news(Some(cursor)).await.asked.is_some());
}

pub async fn totals_are_found_as_they_were_written_last(h: &impl OperatorHarness) {
    let scene = Scene::led(h).await;
    let (store, other) = (h.operators().await, h.operators().await);
    let first = ask(&store).await.now;
    let asked = store.write_totals((ALPHA, scene.epoch), totals(1)).await.expect("write totals");
    assert_eq!(asked, Some(first.plus(ASKED_FOR)));
    h.advance(SECOND).await;
    for _ in 0..2 {
        store.write_totals((ALPHA, scene.epoch), totals(5)).await.expect("write totals");
    }
    h.advance(SECOND).await;
    let found = ask(&other).await;
    assert_eq!(found.now, first.plus(SECOND * 2));
    let last = found.last.expect("written");
    assert_eq!((last.at, last.totals), (first.plus(SECOND), totals(5)));
    h.advance(ASKED_FOR).await;
    let asked = store.write_totals((ALPHA, scene.epoch), totals(6)).await.expect("write totals");
    assert_eq!(asked, None, "nobody asks any more");
}

pub async fn only_the_dispatcher_writes_totals(h: &impl OperatorHarness) {
    let scene = Scene::led(h).await;
    let store = h.operators().await;
    store.write_totals((ALPHA, scene.epoch), totals(1)).await.expect("write totals");
    for lead in [(BETA, scene.epoch), (ALPHA, Epoch(scene.epoch.0 + 1))] {
        let refused = store.write_totals(lead, totals(9)).await;
        assert!(matches!(refused, Err(StoreError::NotLeading)), "{refused:?}");
    }
    assert_eq!(ask(&store).await.last.map(|last| last.totals), Some(totals(1)));
}

pub async fn totals_are_no_news(h: &impl OperatorHarness) {
    let scene = Scene::led(h).await;
    let store = h.operators().await;
    let begin = scene.news(None).await.cursor;
    ask(&store).await;
    store.write_totals((ALPHA, scene.epoch), totals(1)).await.expect("write totals");
    let news = scene.news(Some(begin)).await;
    assert!(news.jobs.is_empty() && news.changes.is_empty() && !news.memos, "{news:?}");
}
