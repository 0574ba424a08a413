//! What it costs the database that people watch: no more, however many they are.

mod support;

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use support::{Counted, PATIENCE, Server, request};

/// Statements a second and server that people who listen may cost.
const MOST: usize = 4;
const SECONDS: u64 = 30;

/// How many statements so many people cost in a while. Each listens; those who look read the first page again every two seconds, too, as it
/// does by itself when something happens all the time.
async fn cost(people: usize, looks: bool) -> usize {
    let (counted, turnwise) = Counted::new();
    let server = Server::of("memory", turnwise);
    let mut streams = join_all((0..people).map(|_| server.listen("/api/v1/events?pace=calm"))).await;
    // The page as it is opened, which it is before it is read again.
    assert_eq!(server.get("/").await.status, 200);
    let before = counted.asked_in_all();
    // The clock of the test: as long as nothing else is to be done, it goes on by itself.
    let listen = join_all(streams.iter_mut().map(async |stream| {
        let quiet = tokio::time::timeout(Duration::from_secs(SECONDS), stream.next()).await;
        assert!(quiet.is_err(), "{quiet:?}");
    }));
    let lookers = if looks { people } else { 0 };
    let look = join_all((0..lookers).map(async |_| {
        for _ in 0..SECONDS / 2 {
            let mut again = request("GET", "/", None);
            again.headers_mut().insert("x-turnwise-refresh", "1".parse().unwrap());
            let page = server.send(again).await;
            // 429: many pages are watched, and its turn comes later; the one that is open stays as it is.
            let read = page.status == 200 && page.text.contains("What needs attention");
            assert!(read || page.status == 429, "{}", page.text);
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    }));
    futures_util::future::join(listen, look).await;
    let asked = counted.asked_in_all() - before;
    // They have been listening all the time.
    server.submit(json!({"task": "t"})).await;
    for stream in &mut streams {
        let heard = tokio::time::timeout(PATIENCE, stream.heard("submitted")).await.expect("an event must come");
        assert_eq!(heard["job"]["task"], "t");
    }
    asked
}

#[tokio::test(start_paused = true)]
async fn people_who_listen_cost_few_statements_however_many_they_are() {
    for people in [1, 50] {
        let asked = cost(people, false).await;
        let seconds = usize::try_from(SECONDS).unwrap();
        assert!(asked >= seconds / 2, "{asked} statements in {SECONDS} s: nobody reads");
        assert!(asked <= MOST * seconds, "{people} cost {asked} statements in {SECONDS} s");
    }
}

#[tokio::test(start_paused = true)]
async fn people_who_look_at_the_same_page_cost_no_more_than_one_who_does() {
    let (one, many) = (cost(1, true).await, cost(50, true).await);
    assert!(one > cost(1, false).await, "{one} statements: the page was not read again");
    assert!(many <= one * 5 / 4, "fifty cost {many} statements in {SECONDS} s, one {one}");
}

#[tokio::test(start_paused = true)]
async fn a_program_hears_at_once_what_people_may_hear_later() {
    let (_, turnwise) = Counted::new();
    let server = Server::of("memory", turnwise);
    let mut calm = server.listen("/api/v1/events?pace=calm&type=submitted").await;
    let mut swift = server.listen("/api/v1/events?type=submitted").await;
    for _ in 0..3 {
        server.submit(json!({"task": "t"})).await;
        let began = tokio::time::Instant::now();
        swift.heard("submitted").await;
        assert!(began.elapsed() <= Duration::from_millis(600), "{:?}", began.elapsed());
        calm.heard("submitted").await;
    }
    // A crowd is told to people as one thing.
    let many: Vec<_> = (0..100).map(|_| json!({"task": "t"})).collect();
    server.post("/api/v1/jobs/batch", &json!({"jobs": many})).await.expect(201);
    assert_eq!(calm.next().await.unwrap().event, "reset");
    for _ in 0..100 {
        swift.heard("submitted").await;
    }
    drop(swift);
    server.submit(json!({"task": "t"})).await;
    let began = tokio::time::Instant::now();
    calm.heard("submitted").await;
    assert!(began.elapsed() <= Duration::from_millis(2_500), "{:?}", began.elapsed());
    let wrong = server.get("/api/v1/events?pace=hasty").await;
    wrong.refused(422, Some("pace"));
}
