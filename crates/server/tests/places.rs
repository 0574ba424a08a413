//! The places of requests: one caller cannot take those of all others, and a caller that waits for a job takes none.

mod support;

use std::{sync::Arc, time::Duration};

use hyper::body::Body as _;
use serde_json::json;
use support::{Answer, Counted, PATIENCE, Server, request, with};
use tokio::{task::JoinHandle, time::sleep};
use tower::ServiceExt;
use turnwise::access::{Grant, NewAccess};
use turnwise_server::limits::{ANSWERS_KIB_OF_ONE, REQUESTS, REQUESTS_OF_ONE, STATISTICS, TURN_TIME, WAITS_OF_ONE};

/// Time goes on when nothing else can be done.
const A_MOMENT: Duration = Duration::from_millis(1);

async fn token(server: &Server) -> String {
    let token = server.turnwise.create_token(NewAccess::new("test", Grant::unlimited()).unwrap()).await.unwrap();
    token.secret.reveal().to_owned()
}

fn counted() -> (Arc<Counted>, Arc<Server>) {
    let (counted, turnwise) = Counted::new();
    (counted, Arc::new(Server::of("counted", turnwise)))
}

/// So many requests at the same time, without a token if it is empty.
fn asked(server: &Arc<Server>, count: usize, path: &str, secret: &str) -> Vec<JoinHandle<Answer>> {
    let ask = || {
        let request = request("GET", path, None);
        let (server, request) = (server.clone(), if secret.is_empty() { request } else { with(request, secret) });
        tokio::spawn(async move { server.send(request).await })
    };
    (0..count).map(|_| ask()).collect()
}

async fn statuses(asked: Vec<JoinHandle<Answer>>) -> Vec<u16> {
    let mut statuses = Vec::new();
    for one in asked {
        statuses.push(one.await.unwrap().status);
    }
    statuses
}

#[tokio::test(start_paused = true)]
async fn while_one_token_has_all_that_it_may_another_one_is_answered() {
    let (counted, server) = counted();
    let (greedy, other) = (token(&server).await, token(&server).await);
    let id = server.turnwise.submit(turnwise::JobRequest::new("t", &())).await.unwrap();
    counted.hold("job");
    let path = format!("/api/v1/jobs/{id}");
    let slow = asked(&server, REQUESTS + REQUESTS_OF_ONE, &path, &greedy);
    sleep(A_MOMENT).await;
    server.send(with(request("GET", "/api/v1/jobs", None), &other)).await.expect(200);
    sleep(TURN_TIME).await;
    counted.release();
    let statuses = statuses(slow).await;
    let of = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!((of(200), of(429)), (REQUESTS_OF_ONE, REQUESTS));
    server.send(with(request("GET", &path, None), &greedy)).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn a_few_requests_read_statistics_at_a_time_and_the_others_are_asked_to_come_again() {
    for (verb, path) in [("statistics", "/api/v1/statistics"), ("error_statistics", "/api/v1/errors")] {
        let (counted, server) = counted();
        counted.hold(verb);
        let asked = asked(&server, STATISTICS + 5, path, "");
        sleep(TURN_TIME * 2).await;
        assert_eq!(counted.asked(verb), STATISTICS, "{path}");
        counted.release();
        let statuses = statuses(asked).await;
        let of = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
        assert_eq!((of(200), of(429)), (STATISTICS, 5), "{path}");
        server.get(path).await.expect(200);
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_of_one_token_leave_room_for_those_of_another() {
    let (counted, server) = counted();
    let (greedy, other) = (token(&server).await, token(&server).await);
    counted.hold("enqueue");
    let batch = json!({"jobs": [{"task": "t"}]});
    let post = |secret: &str| {
        let mut request = with(request("POST", "/api/v1/jobs/batch", Some(&batch)), secret);
        // Of a body whose length is not told, the most that it may be is kept free.
        *request.body_mut() =
            axum::body::Body::from_stream(futures_util::stream::iter([Ok::<_, std::io::Error>(batch.to_string())]));
        let server = server.clone();
        tokio::spawn(async move { server.send(request).await })
    };
    let slow: Vec<_> = (0..8).map(|_| post(&greedy)).collect();
    sleep(A_MOMENT).await;
    let from_another = post(&other);
    sleep(A_MOMENT).await;
    assert_eq!(counted.asked("enqueue"), 3, "two of the one, and one of the other");
    sleep(TURN_TIME).await;
    counted.release();
    from_another.await.unwrap().expect(201);
    assert_eq!(statuses(slow).await.iter().filter(|status| **status == 201).count(), 2);
}

/// Each takes memory until its caller has read it: without a bound some hundred callers that read slowly would take all that there is.
#[tokio::test]
async fn answers_that_are_not_read_leave_room_for_those_of_others() {
    let server = Server::on_memory().await;
    for _ in 0..9 {
        let jobs = vec![json!({"task": "t", "args": "x".repeat(100_000)}); 10];
        server.post("/api/v1/jobs/batch", &json!({"jobs": jobs})).await.expect(201);
    }
    let (greedy, other) = (token(&server).await, token(&server).await);
    let (router, begun) = (server.service.router(), tokio::time::Instant::now());
    // The server learns of the first token.
    while server.get("/api/v1/jobs?limit=1").await.status != 401 {
        assert!(begun.elapsed() < PATIENCE);
        sleep(A_MOMENT).await;
    }
    let ask = async |path: &str, secret: &str| {
        router.clone().oneshot(with(request("GET", path, None), secret)).await.unwrap()
    };
    // Full pages first, then smaller ones, until nothing more is given.
    let (mut unread, mut bytes) = (Vec::new(), 0);
    for limit in ["1000", "10", "1"] {
        loop {
            let answer = ask(&format!("/api/v1/jobs?limit={limit}"), &greedy).await;
            if answer.status() == 429 {
                assert!(answer.headers().contains_key("retry-after"));
                break;
            }
            assert_eq!(answer.status(), 200);
            bytes += answer.body().size_hint().exact().expect("a whole answer");
            unread.push(answer);
            assert!(bytes <= u64::from(ANSWERS_KIB_OF_ONE) * 1024, "{bytes} bytes are kept for one caller");
        }
    }
    assert!(bytes > u64::from(ANSWERS_KIB_OF_ONE) * 1024 * 9 / 10, "{bytes}");
    // What would be answered at length is refused before it has changed anything; what is small goes on.
    let many = json!({"jobs": [{"task": "t", "queue": "late"}]});
    server.send(with(request("POST", "/api/v1/jobs/batch", Some(&many)), &greedy)).await.refused(429, None);
    let found = with(request("GET", "/api/v1/jobs?queue=late", None), &greedy);
    assert_eq!(server.send(found).await.expect(200)["jobs"], json!([]));
    let one = with(request("POST", "/api/v1/jobs", Some(&json!({"task": "t", "queue": "late"}))), &greedy);
    server.send(one).await.expect(201);
    // Another caller has its own room.
    assert_eq!(ask("/api/v1/jobs?limit=1000", &other).await.status(), 200);
    // What is read, or given up, makes room.
    drop(unread);
    assert_eq!(ask("/api/v1/jobs?limit=1000", &greedy).await.status(), 200);
    server.send(with(request("POST", "/api/v1/jobs/batch", Some(&many)), &greedy)).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn a_job_is_shown_in_a_place_unless_the_caller_waits_for_its_end() {
    let (counted, server) = counted();
    let id = server.turnwise.submit(turnwise::JobRequest::new("t", &())).await.unwrap();
    let path = format!("/api/v1/jobs/{id}");
    counted.hold("job");
    let shown = asked(&server, REQUESTS * 2, &path, "");
    sleep(A_MOMENT).await;
    assert_eq!(counted.asked("job"), REQUESTS, "reads at a time");
    counted.release();
    assert!(statuses(shown).await.iter().all(|status| *status == 200));
    // Zero is no wait.
    counted.hold("job");
    let before = counted.asked("job");
    let shown = asked(&server, REQUESTS * 2, &format!("{path}?wait=0s"), "");
    sleep(A_MOMENT).await;
    assert_eq!(counted.asked("job") - before, REQUESTS);
    counted.release();
    assert!(statuses(shown).await.iter().all(|status| *status == 200));
    let waiting = asked(&server, REQUESTS * 2, &format!("{path}?wait=30s"), "");
    sleep(Duration::from_secs(1)).await;
    assert!(waiting.iter().all(|one| !one.is_finished()));
    server.get("/api/v1/jobs").await.expect(200);
    server.turnwise.cancel(id).await.unwrap();
    for answer in waiting {
        assert_eq!(answer.await.unwrap().expect(200)["state"], "cancelled");
    }
}

#[tokio::test(start_paused = true)]
async fn callers_that_wait_for_jobs_cost_a_few_reads_a_second_in_all() {
    let (counted, server) = counted();
    let secret = token(&server).await;
    let id = server.turnwise.submit(turnwise::JobRequest::new("t", &())).await.unwrap();
    let waiting = asked(&server, WAITS_OF_ONE, &format!("/api/v1/jobs/{id}?wait=30s"), &secret);
    sleep(Duration::from_secs(5)).await;
    assert!(waiting.iter().all(|one| !one.is_finished()));
    let before = counted.asked_in_all();
    sleep(Duration::from_secs(10)).await;
    let reads = counted.asked_in_all() - before;
    // Four looks a second for all of them, and one look at their token every two seconds.
    assert!(reads <= 60, "{reads} reads in ten seconds");
    server.turnwise.cancel(id).await.unwrap();
    for answer in waiting {
        assert_eq!(answer.await.unwrap().expect(200)["state"], "cancelled");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_whose_token_is_revoked_waits_no_longer() {
    let (_, server) = counted();
    let secret = token(&server).await;
    let id = server.turnwise.submit(turnwise::JobRequest::new("t", &())).await.unwrap();
    let begun = tokio::time::Instant::now();
    let waiting = asked(&server, 1, &format!("/api/v1/jobs/{id}?wait=60s"), &secret);
    sleep(Duration::from_secs(1)).await;
    let token = server.turnwise.tokens().await.unwrap().0[0].id;
    server.turnwise.revoke_token(&token.to_string()).await.unwrap();
    assert_eq!(statuses(waiting).await, [401]);
    assert!(begun.elapsed() <= Duration::from_secs(6), "after {:?}", begun.elapsed());
}
