//! How much there is: the dispatcher writes it while somebody asks, and only then; in virtual time.

mod support;

use std::time::Duration;

use support::{config, connect, job, put, virtual_time};
use tokio::time::sleep;
use turnwise_executor::executor::Builder;
use turnwise_store::{MemoryStore, OperatorStore, WrittenTotals};

const SECOND: Duration = Duration::from_secs(1);

async fn ask(store: &MemoryStore) -> Option<WrittenTotals> {
    store.ask_totals().await.unwrap().last
}

#[tokio::test(start_paused = true)]
async fn a_dispatcher_writes_totals_once_a_second_while_it_is_asked_and_nothing_otherwise() {
    let store = virtual_time::store();
    // No node knows its task, so it waits.
    put(&store, job("unknown", "null")).await;
    let node = virtual_time::live(Builder::new(connect(&store), config("a")));
    sleep(60 * SECOND).await;
    assert_eq!(ask(&store).await, None, "nobody asked");
    // No ring comes from another process here: the dispatcher finds the question with its next news.
    let first = loop {
        sleep(SECOND / 100).await;
        if let Some(first) = ask(&store).await {
            break first;
        }
    };
    assert_eq!((first.totals.all.waiting, first.totals.all.jobs(), first.totals.complete), (1, 1, true));
    put(&store, job("unknown", "null")).await;
    let mut times = vec![first.at];
    for _ in 0..1_000 {
        sleep(SECOND / 100).await;
        let last = ask(&store).await.unwrap();
        if times.last() != Some(&last.at) {
            times.push(last.at);
        }
    }
    let apart = times.windows(2).map(|pair| pair[1].since(pair[0]));
    assert!(apart.clone().all(|apart| apart >= SECOND) && times.len() >= 8, "{times:?}");
    assert_eq!(ask(&store).await.unwrap().totals.all.waiting, 2, "what came meanwhile is counted");
    let asked_last = store.ask_totals().await.unwrap().now;
    sleep(60 * SECOND).await;
    let last = ask(&store).await.unwrap();
    assert!(last.at.since(asked_last) <= 21 * SECOND, "nobody has asked since: {:?}", last.at.since(asked_last));
    virtual_time::stop([node]).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_to_ask_has_an_answer_soon() {
    let store = virtual_time::store();
    put(&store, job("unknown", "null")).await;
    let node = virtual_time::live(Builder::new(connect(&store), config("a")));
    sleep(10 * SECOND).await;
    ask(&store).await;
    // As long as the library waits.
    sleep(SECOND + SECOND / 2).await;
    assert!(ask(&store).await.is_some());
    virtual_time::stop([node]).await;
}
