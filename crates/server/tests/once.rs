//! A submit under a key is done once, however often its caller repeats it.

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{Answer, Server, request};
use turnwise::access::{Grant, Limits, NewAccess, Scope};
use turnwise::{BodyHash, GroupName, JobRequest, Once, OnceKey};

async fn keyed(server: &Server, key: &str, path: &str, body: &Value) -> Answer {
    let mut request = request("POST", path, Some(body));
    request.headers_mut().insert("idempotency-key", key.parse().unwrap());
    server.send(request).await
}

async fn count(server: &Server) -> usize {
    server.get("/api/v1/jobs?limit=1000").await.expect(200)["jobs"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_repeat_gets_the_first_answer_and_stores_nothing() {
    for server in Server::on_all().await {
        let job = json!({"task": "mail", "args": {"to": "ann"}});
        let first = keyed(&server, "order-7", "/api/v1/jobs", &job).await;
        assert_eq!(first.header("idempotent-replayed"), "");
        let again = keyed(&server, "order-7", "/api/v1/jobs", &job).await;
        assert_eq!(again.expect(201), first.expect(201), "{}", server.store);
        assert_eq!(again.header("idempotent-replayed"), "true");
        assert_eq!(again.header("location"), first.header("location"));
        let quoted = keyed(&server, "\"order-7\"", "/api/v1/jobs", &job).await;
        assert_eq!(quoted.expect(201), first.expect(201), "the key may stand in quotation marks");

        let batch = json!({"jobs": [{"task": "a"}, {"task": "b", "after": ["x"]}, {"task": "c", "as": "x"}]});
        let first = keyed(&server, "night", "/api/v1/jobs/batch", &batch).await.expect(201);
        assert_eq!(keyed(&server, "night", "/api/v1/jobs/batch", &batch).await.expect(201), first);
        assert_eq!(count(&server).await, 4, "{}", server.store);
    }
}

#[tokio::test]
async fn another_body_under_the_same_key_is_refused() {
    for server in Server::on_all().await {
        keyed(&server, "order-7", "/api/v1/jobs", &json!({"task": "mail"})).await.expect(201);
        let other = keyed(&server, "order-7", "/api/v1/jobs", &json!({"task": "fax"})).await;
        let problem = other.refused(422, Some("Idempotency-Key"));
        assert!(problem["detail"].as_str().unwrap().contains("another body"), "{problem}");
        assert_eq!(count(&server).await, 1);
    }
}

#[tokio::test]
async fn a_request_that_was_refused_leaves_no_key() {
    for server in Server::on_all().await {
        let wrong = json!({"task": "mail", "priority": 11});
        keyed(&server, "order-7", "/api/v1/jobs", &wrong).await.refused(422, Some("/priority"));
        keyed(&server, "order-7", "/api/v1/jobs", &json!({"task": "mail"})).await.expect(201);
    }
}

#[tokio::test]
async fn of_many_at_once_one_is_stored() {
    for server in Server::on_all().await {
        let job = json!({"task": "mail"});
        let all: Vec<_> = (0..20).map(|_| keyed(&server, "one", "/api/v1/jobs", &job)).collect();
        let mut ids = Vec::new();
        for answer in futures_util::future::join_all(all).await {
            match answer.status {
                201 => ids.push(answer.json()["id"].clone()),
                // Under way for longer than the server waits: to be asked again.
                409 => assert_eq!(answer.header("retry-after"), "1"),
                other => panic!("{other}: {}", answer.text),
            }
        }
        ids.dedup();
        assert_eq!((ids.len(), count(&server).await), (1, 1), "{}", server.store);
    }
}

#[tokio::test]
async fn keys_of_different_tokens_do_not_meet() {
    for server in Server::on_all().await {
        let mut secrets = Vec::new();
        for name in ["ann", "bob"] {
            let grant = Grant::new([Scope::Submit], Limits::default()).unwrap();
            let created = server.turnwise.create_token(NewAccess::new(name, grant).unwrap()).await.unwrap();
            secrets.push(created.secret.reveal().to_owned());
        }
        let mut ids = Vec::new();
        for secret in secrets.iter().chain(&secrets) {
            let mut request = request("POST", "/api/v1/jobs", Some(&json!({"task": "mail"})));
            request.headers_mut().insert("idempotency-key", "same".parse().unwrap());
            request.headers_mut().insert("authorization", format!("Bearer {secret}").parse().unwrap());
            ids.push(server.send(request).await.expect(201)["id"].as_str().unwrap().to_owned());
        }
        assert!(ids[0] != ids[1] && ids[..2] == ids[2..], "{ids:?}");
    }
}

/// Neither its rate nor what has become of the jobs that it names changes what a repeat is answered.
#[tokio::test]
async fn a_repeat_of_a_limited_token_is_answered_as_the_first_call_was() {
    for server in Server::on_all().await {
        let limits = Limits { groups: Some([GroupName::new("acme").unwrap()].into()), ..Limits::default() };
        let grant = Grant::new([Scope::Submit], limits).unwrap();
        let access = NewAccess::new("tenant", grant).unwrap().rate(5.try_into().unwrap());
        let token = server.turnwise.create_token(access).await.unwrap();
        let awaited = server.turnwise.submit(JobRequest::new("t", &1).group("acme")).await.unwrap();
        let send = async |key: Option<&str>, body: &Value| {
            let mut request = request("POST", "/api/v1/jobs/batch", Some(body));
            let headers = request.headers_mut();
            headers.insert("authorization", format!("Bearer {}", token.secret.reveal()).parse().unwrap());
            key.map(|key| headers.insert("idempotency-key", key.parse().unwrap()));
            server.send(request).await
        };
        // More than the token may submit in minutes.
        let mut jobs = vec![json!({"task": "t", "group": "acme"}); 1_000];
        jobs[7]["after"] = json!([awaited]);
        let batch = json!({"jobs": jobs});
        let first = send(Some("night"), &batch).await.expect(201);
        // Nothing is kept of the job that one of them waited for.
        server.turnwise.set_installation(|set| set.retention = Some(Duration::ZERO.into())).await.unwrap();
        server.turnwise.cancel(awaited).await.unwrap();
        assert!(server.turnwise.job(awaited).await.is_err(), "{}: it is gone", server.store);
        let again = send(Some("night"), &batch).await;
        assert_eq!(again.expect(201), first, "{}", server.store);
        assert_eq!(again.header("idempotent-replayed"), "true");
        let other = json!({"jobs": [{"task": "t", "group": "acme"}]});
        send(Some("night"), &other).await.refused(422, Some("Idempotency-Key"));
        // A key that is new is a submit like any other.
        send(Some("day"), &other).await.refused(429, None);
        send(None, &other).await.refused(429, None);
    }
}

#[tokio::test]
async fn a_key_that_is_none_is_refused_by_name() {
    let server = Server::on_memory().await;
    for (key, words) in [("", "must not be empty"), ("\"\"", "must not be empty"), (&"k".repeat(300), "200")] {
        let refused = keyed(&server, key, "/api/v1/jobs", &json!({"task": "t"})).await;
        let problem = refused.refused(422, Some("Idempotency-Key"));
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
    }
    let mut twice = request("POST", "/api/v1/jobs", Some(&json!({"task": "t"})));
    for key in ["a", "b"] {
        twice.headers_mut().append("idempotency-key", key.parse().unwrap());
    }
    server.send(twice).await.refused(422, Some("Idempotency-Key"));
    assert_eq!(count(&server).await, 0);
}

#[tokio::test]
async fn the_library_has_it_too_and_keeps_times_and_ids_of_the_first_call() {
    for server in Server::on_all().await {
        let (key, body) = (OnceKey::new("k").unwrap(), BodyHash::of(b"7"));
        let submit = || {
            let job = JobRequest::new("t", &7).delay(Duration::from_secs(3600));
            server.turnwise.submit_once(None, key.clone(), body, [job])
        };
        let Once::Submitted(first) = submit().await.unwrap() else { panic!("the key is new") };
        assert_eq!(submit().await.unwrap(), Once::Again(first));
        let other =
            server.turnwise.submit_once(None, key.clone(), BodyHash::of(b"8"), [JobRequest::new("t", &8)]).await;
        assert_eq!(other.unwrap(), Once::OtherBody);
    }
}
