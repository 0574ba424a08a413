//! What callers rely on when they submit, list, wait and decide.

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{PATIENCE, Server, misfit, request};
use turnwise::{JobRequest, ListCursor};
use turnwise_store::operators::LOOKS;

#[tokio::test]
async fn a_job_whose_unique_key_is_held_is_answered_with_the_holder_or_refused() {
    for server in Server::on_all().await {
        let job = |policy: &str| json!({"task": "t", "unique": "one", "on_duplicate": policy});
        let first = server.post("/api/v1/jobs", &job("keep")).await;
        let id = first.expect(201)["id"].clone();
        assert_eq!(first.header("location"), format!("/api/v1/jobs/{}", id.as_str().unwrap()));
        let second = server.post("/api/v1/jobs", &job("keep")).await.expect(200);
        assert_eq!(second, json!({"id": id, "new": false, "duplicate": "kept"}));
        let refused = server.post("/api/v1/jobs", &job("reject")).await;
        assert_eq!(refused.refused(409, Some("/unique"))["job"], id);
        let held = server.get("/api/v1/jobs?unique=one").await.expect(200);
        assert_eq!(held["jobs"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn of_a_batch_all_jobs_are_stored_or_none() {
    for server in Server::on_all().await {
        let job = |policy: &str| json!({"task": "t", "unique": "one", "on_duplicate": policy});
        server.submit(job("keep")).await;
        let batch = json!({"jobs": [{"task": "t"}, job("reject")]});
        server.post("/api/v1/jobs/batch", &batch).await.refused(409, None);
        assert_eq!(server.get("/api/v1/jobs").await.expect(200)["jobs"].as_array().unwrap().len(), 1);
    }
}

/// The store knows no places: it names a job's id or key.
#[tokio::test]
async fn a_batch_that_the_store_refuses_is_answered_with_the_place_of_the_job() {
    const NO_JOB: &str = "01890163-d869-7739-8aea-5966c26f8ad9";
    const FUTURE: &str = "ffffffff-ffff-7fff-bfff-ffffffffffff";
    for server in Server::on_all().await {
        let (job, held) = (json!({"task": "t"}), json!({"task": "t", "unique": "one", "on_duplicate": "reject"}));
        server.submit(json!({"task": "t", "unique": "one"})).await;
        let two = json!({"task": "t", "unique": "two", "on_duplicate": "reject"});
        for (jobs, status, path) in [
            (json!([job, job, {"task": "t", "after": [NO_JOB]}]), 422, "/jobs/2/after"),
            (json!([job, {"task": "t", "id": FUTURE}, job]), 422, "/jobs/1/id"),
            (json!([job, held, job]), 409, "/jobs/1/unique"),
            // Either may be meant.
            (json!([two, two]), 409, "/jobs"),
        ] {
            let refused = server.post("/api/v1/jobs/batch", &json!({"jobs": jobs})).await;
            refused.refused(status, Some(path));
        }
        let listed = server.get("/api/v1/jobs").await.expect(200);
        assert_eq!(listed["jobs"].as_array().unwrap().len(), 1, "{}: nothing else was stored", server.store);
    }
}

#[tokio::test]
async fn pages_of_a_listing_have_every_job_once() {
    for server in Server::on_all().await {
        let jobs: Vec<_> = (0..250).map(|n| json!({"task": "t", "args": n, "group": format!("g{}", n % 2)})).collect();
        server.post("/api/v1/jobs/batch", &json!({"jobs": jobs})).await.expect(201);
        let (mut seen, mut before) = (Vec::new(), String::new());
        loop {
            let page = server.get(&format!("/api/v1/jobs?group=g1&limit=50{before}")).await.expect(200);
            seen.extend(page["jobs"].as_array().unwrap().iter().map(|job| job["args"].as_u64().unwrap()));
            // A submit between two pages moves nothing.
            server.submit(json!({"task": "t", "args": 1000, "group": "g1"})).await;
            match page["next"].as_str() {
                Some(next) => before = format!("&cursor={next}"),
                None => break,
            }
        }
        let expected: Vec<u64> = (0..250).rev().filter(|n| n % 2 == 1).collect();
        assert_eq!(seen, expected, "{}", server.store);
    }
}

#[tokio::test]
async fn a_page_of_large_jobs_ends_early_and_says_where_to_go_on() {
    let server = Server::on_memory().await;
    for _ in 0..210 {
        server.submit(json!({"task": "t", "args": "x".repeat(100_000)})).await;
    }
    let page = server.get("/api/v1/jobs?limit=1000").await.expect(200);
    let jobs = page["jobs"].as_array().unwrap();
    assert!(jobs.len() < 210 && !jobs.is_empty(), "{} jobs", jobs.len());
    let next = page["next"].as_str().unwrap();
    let rest = server.get(&format!("/api/v1/jobs?limit=1000&cursor={next}")).await.expect(200);
    assert!(rest["jobs"].as_array().unwrap()[0]["id"].as_str().unwrap() < jobs.last().unwrap()["id"].as_str().unwrap());
}

#[tokio::test]
async fn no_page_is_larger_than_is_said_however_large_its_jobs_are() {
    for server in Server::on_all().await {
        let mut submitted = Vec::new();
        for size in [1_000_000, 400_000, 1_000].repeat(15) {
            submitted.push(server.submit(json!({"task": "t", "args": "x".repeat(size)})).await);
        }
        submitted.reverse();
        for query in ["", "&task=t", "&filter=args~x"] {
            let (mut listed, mut cursor) = (Vec::new(), String::new());
            loop {
                let answer = server.get(&format!("/api/v1/jobs?limit=1000{query}{cursor}")).await;
                let page = answer.expect(200);
                // The last job of a page may be a large one.
                assert!(answer.text.len() < 10_000_000, "{}: {query}: {} bytes", server.store, answer.text.len());
                listed
                    .extend(page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()));
                let Some(next) = page["next"].as_str() else { break };
                cursor = format!("&cursor={next}");
            }
            assert_eq!(listed, submitted, "{}: {query}", server.store);
        }
    }
}

#[tokio::test]
async fn a_decision_by_a_filter_leaves_jobs_alone_that_came_after_its_preview() {
    for server in Server::on_all().await {
        let old = server.submit(json!({"task": "t"})).await;
        server.post("/api/v1/jobs/cancel", &json!({})).await.refused(422, Some("/newest"));
        let preview = server.post("/api/v1/jobs/cancel", &json!({"task": "t", "dry_run": true})).await.expect(200);
        assert_eq!(preview, json!({"count": 1, "more": false, "newest": old, "next": null, "reached": null}));
        let new = server.submit(json!({"task": "t"})).await;
        let choice = json!({"task": "t", "newest": preview["newest"]});
        let done = server.post("/api/v1/jobs/cancel", &choice).await.expect(200);
        assert_eq!(
            done,
            json!({"decided": 1, "requested": 0, "left": [], "more": false, "next": null, "reached": null})
        );
        assert_eq!(server.get(&format!("/api/v1/jobs/{new}")).await.expect(200)["state"], "waiting");
        let wrong = json!({"state": "success", "dry_run": true});
        server.post("/api/v1/jobs/cancel", &wrong).await.refused(422, Some("/state"));
        // Ten at a time.
        let jobs: Vec<_> = (0..25).map(|_| json!({"task": "many"})).collect();
        server.post("/api/v1/jobs/batch", &json!({"jobs": jobs})).await.expect(201);
        let ask = json!({"task": "many", "limit": 10, "dry_run": true});
        let preview = server.post("/api/v1/jobs/cancel", &ask).await.expect(200);
        assert_eq!((&preview["count"], &preview["more"]), (&json!(10), &json!(true)));
        let ask = json!({"task": "many", "limit": 25, "dry_run": true});
        let whole = server.post("/api/v1/jobs/cancel", &ask).await.expect(200);
        assert_eq!((&whole["count"], &whole["more"], &whole["next"]), (&json!(25), &json!(false), &Value::Null));
        let choice = json!({"task": "many", "newest": preview["newest"]});
        assert_eq!(server.post("/api/v1/jobs/cancel", &choice).await.expect(200)["decided"], 25);
    }
}

/// As a list of such jobs is: one call looks at so many rows, and says where to go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_by_a_filter_looks_at_so_many_jobs_and_says_how_far_it_came() {
    for server in Server::on_all().await {
        let rare = |n: u32| JobRequest::new("rare", &n);
        let old = server.turnwise.submit(rare(1)).await.unwrap().to_string();
        let many = (0..LOOKS + 100).map(|n| JobRequest::new("many", &n));
        server.turnwise.submit_all(many).await.unwrap();
        let ask = async |body: Value| server.post("/api/v1/jobs/cancel", &body).await.expect(200);
        let part = ask(json!({"task": "rare", "dry_run": true})).await;
        assert_eq!(misfit("Preview", &part), None);
        let told = format!("{}: {part}", server.store);
        assert_eq!((&part["count"], &part["more"], &part["newest"]), (&json!(0), &json!(true), &Value::Null), "{told}");
        assert!(part["next"].is_string() && part["reached"].is_string(), "{told}");
        let rest = ask(json!({"task": "rare", "dry_run": true, "cursor": part["next"]})).await;
        let expected = json!({"count": 1, "more": false, "newest": old, "next": null, "reached": null});
        assert_eq!(rest, expected, "{told}");
        // One that comes later is left alone, wherever the decision begins.
        let new = server.turnwise.submit(rare(2)).await.unwrap().to_string();
        let mut body = json!({"task": "rare", "newest": old});
        let done = ask(body.clone()).await;
        assert_eq!(
            done,
            json!({"decided": 1, "requested": 0, "left": [], "more": false, "next": null, "reached": null})
        );
        body["newest"] = json!(new);
        let done = ask(body.clone()).await;
        assert_eq!(misfit("DecidedAll", &done), None);
        assert_eq!((&done["decided"], &done["more"]), (&json!(1), &json!(true)), "{}: {done}", server.store);
        body["cursor"] = done["next"].clone();
        let done = ask(body).await;
        assert_eq!((&done["decided"], &done["more"], &done["next"]), (&json!(0), &json!(false), &Value::Null));
        let wrong = json!({"task": "rare", "dry_run": true, "cursor": "x"});
        server.post("/api/v1/jobs/cancel", &wrong).await.refused(422, Some("/cursor"));
        // A cursor above the newest job does not reach beyond that one.
        let newer = server.turnwise.submit(rare(3)).await.unwrap().to_string();
        let above = ListCursor::after("ffffffff-ffff-7fff-bfff-ffffffffffff".parse().unwrap()).to_string();
        let done = ask(json!({"task": "rare", "newest": new, "cursor": above})).await;
        assert_eq!(done["decided"], 0, "{}: {done}", server.store);
        assert_eq!(server.get(&format!("/api/v1/jobs/{newer}")).await.expect(200)["state"], "waiting");
    }
}

#[tokio::test]
async fn a_decision_that_the_state_does_not_allow_is_a_conflict() {
    for server in Server::on_all().await {
        let id = server.submit(json!({"task": "t"})).await;
        server.post(&format!("/api/v1/jobs/{id}/fail"), &Value::Null).await.refused(409, None);
        server.post(&format!("/api/v1/jobs/{id}/cancel"), &Value::Null).await.expect(200);
        server.post(&format!("/api/v1/jobs/{id}/cancel"), &Value::Null).await.refused(409, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_that_wait_are_answered_when_their_jobs_end() {
    for server in Server::on_all().await {
        let mut ids = Vec::new();
        for n in 0..30 {
            ids.push(server.submit(json!({"task": "double", "args": n})).await);
        }
        let asked = ids.iter().map(|id| {
            let request = request("GET", &format!("/api/v1/jobs/{id}?wait=60s"), None);
            server.send(request)
        });
        let waiting = futures_all(asked.collect());
        let (answers, node) = tokio::join!(tokio::time::timeout(PATIENCE, waiting), server.node());
        for (n, answer) in answers.unwrap().iter().enumerate() {
            assert_eq!(answer.expect(200)["result"], n * 2, "{}", server.store);
        }
        node.stop().await;
    }
}

#[tokio::test]
async fn a_wait_ends_with_its_time_and_with_the_service() {
    let server = Server::on_memory().await;
    let id = server.submit(json!({"task": "nobody-knows"})).await;
    let begun = Instant::now();
    let answer = server.get(&format!("/api/v1/jobs/{id}?wait=300ms")).await.expect(200);
    assert_eq!(answer["state"], "waiting");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    server.get(&format!("/api/v1/jobs/{id}?wait=61s")).await.refused(422, Some("wait"));
    let path = format!("/api/v1/jobs/{id}?wait=60s");
    let wait = tokio::time::timeout(PATIENCE / 2, server.get(&path));
    let stop = async {
        tokio::task::yield_now().await;
        server.service.stop_soon();
    };
    let (answer, ()) = tokio::join!(wait, stop);
    assert_eq!(answer.expect("a wait ends when the service stops").expect(200)["state"], "waiting");
    assert_eq!(server.get("/readyz").await.expect(503)["ready"], false);
    server.get("/livez").await.expect(200);
}

#[tokio::test]
async fn a_log_is_read_part_by_part() {
    for server in Server::on_all().await {
        let node = server.node().await;
        let id = server.submit(json!({"task": "double", "args": 1})).await;
        server.job_in(&id, "success").await;
        let log = server.get(&format!("/api/v1/jobs/{id}/log")).await.expect(200);
        assert_eq!(log["lines"].as_array().unwrap().len(), 1, "{log}");
        let next = log["next"].as_str().unwrap();
        let rest = server.get(&format!("/api/v1/jobs/{id}/log?after={next}")).await.expect(200);
        assert_eq!((&rest["lines"], &rest["next"]), (&json!([]), &json!(next)));
        let all = server.get(&format!("/api/v1/jobs/{id}/log?after=0.0")).await.expect(200);
        assert_eq!(all["lines"], log["lines"]);
        server.get(&format!("/api/v1/jobs/{id}/log?after=x")).await.refused(422, Some("after"));
        node.stop().await;
    }
}

/// All of them at the same time.
async fn futures_all<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut pinned: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        for (future, answer) in &mut pinned {
            if answer.is_none()
                && let std::task::Poll::Ready(ready) = future.as_mut().poll(cx)
            {
                *answer = Some(ready);
            }
        }
        if pinned.iter().all(|(_, answer)| answer.is_some()) {
            return std::task::Poll::Ready(());
        }
        std::task::Poll::Pending
    })
    .await;
    pinned.into_iter().filter_map(|(_, answer)| answer).collect()
}
