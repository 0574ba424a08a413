//! Lists over HTTP: every filter of docs/lists.md, in pages.

mod support;

use serde_json::{Value, json};
use support::{Server, request};
use turnwise::access::{Grant, Limits, NewAccess, Scope};

/// What the jobs of a list were submitted with.
fn args(page: &Value) -> Vec<u64> {
    page["jobs"].as_array().unwrap().iter().map(|job| job["args"]["n"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn every_filter_leaves_the_jobs_that_meet_it() {
    for server in Server::on_all().await {
        let jobs = [
            json!({"task": "break", "args": {"n": 0}, "retry": "none"}),
            json!({"task": "double", "args": {"n": 1}, "queue": "slow", "in": "1h"}),
            json!({"task": "double", "args": {"n": 2}, "group": "acme", "in": "1h", "unique": "two"}),
            json!({"task": "double", "args": {"n": 3, "to": "ann's"}, "in": "1h"}),
        ];
        let mut ids = Vec::new();
        for job in jobs {
            ids.push(server.submit(job).await);
        }
        let node = server.node().await;
        let failed = server.job_in(&ids[0], "failed").await;
        let kind = failed["fingerprint"].as_str().unwrap();
        let time = server.get(&format!("/api/v1/jobs/{}", ids[2])).await.expect(200)["submitted_at"].clone();
        let time = time.as_str().unwrap();
        for (filter, expected) in [
            ("queue=slow".to_owned(), vec![1]),
            ("group=acme".to_owned(), vec![2]),
            ("task=double".to_owned(), vec![3, 2, 1]),
            ("state=waiting".to_owned(), vec![3, 2, 1]),
            ("state=failed,waiting".to_owned(), vec![3, 2, 1, 0]),
            ("node=node".to_owned(), vec![0]),
            ("unique=two".to_owned(), vec![2]),
            (format!("since={time}"), vec![3, 2]),
            (format!("until={time}"), vec![1, 0]),
            (format!("fingerprint={kind}"), vec![0]),
            ("args_contain=ann%27s".to_owned(), vec![3]),
            ("task=double&queue=default".to_owned(), vec![3, 2]),
            ("task=none".to_owned(), vec![]),
        ] {
            let page = server.get(&format!("/api/v1/jobs?{filter}")).await.expect(200);
            assert_eq!(args(&page), expected, "{}: {filter}", server.store);
            assert_eq!((&page["next"], &page["reached"]), (&Value::Null, &Value::Null), "{}: {filter}", server.store);
        }
        node.stop().await;
    }
}

#[tokio::test]
async fn a_page_of_small_jobs_is_full_although_their_rows_are_looked_at() {
    for server in Server::on_all().await {
        let jobs: Vec<_> =
            (0..25).map(|n| json!({"task": "t", "group": "acme", "args": {"n": n}, "in": "1h"})).collect();
        server.post("/api/v1/jobs/batch", &json!({"jobs": jobs})).await.expect(201);
        for filter in ["args_contain=n", "group=acme&state=waiting", "task=t&queue=default"] {
            let page = server.get(&format!("/api/v1/jobs?{filter}&limit=100")).await.expect(200);
            assert_eq!((args(&page).len(), &page["next"]), (25, &Value::Null), "{}: {filter}", server.store);
        }
    }
}

#[tokio::test]
async fn a_filter_without_an_index_looks_at_a_bounded_number_of_jobs_and_goes_on_from_there() {
    for server in [Server::on_sqlite().await, Server::on_postgres().await] {
        server.submit(json!({"task": "rare", "args": {"n": 7}})).await;
        for _ in 0..3 {
            let jobs: Vec<_> = (0..10_000).map(|_| json!({"task": "t"})).collect();
            server.post("/api/v1/jobs/batch", &json!({"jobs": jobs})).await.expect(201);
        }
        let (mut pages, mut path) = (0, "/api/v1/jobs?task=rare".to_owned());
        let last = loop {
            let page = server.get(&path).await.expect(200);
            pages += 1;
            let Some(next) = page["next"].as_str() else { break page };
            assert!(page["reached"].is_string() && args(&page).is_empty(), "{}: {page}", server.store);
            path = format!("/api/v1/jobs?task=rare&cursor={next}");
        };
        assert_eq!(args(&last), [7], "{}", server.store);
        assert!((3..=5).contains(&pages), "{}: {pages} pages", server.store);
    }
}

#[tokio::test]
async fn a_limited_token_finds_its_own_jobs_without_reading_those_of_others() {
    for server in Server::on_all().await {
        for (n, group) in ["acme", "other", "umbrella"].into_iter().enumerate() {
            server
                .submit(json!({"task": "t", "args": {"n": n}, "group": group, "unique": "k", "unique_scope": "group"}))
                .await;
        }
        let limits =
            Limits { groups: Some(["acme", "umbrella"].map(|name| name.parse().unwrap()).into()), ..Limits::default() };
        let grant = Grant::new([Scope::Read], limits).unwrap();
        let created = server.turnwise.create_token(NewAccess::new("ci", grant).unwrap()).await.unwrap();
        for (filter, expected) in
            [("", vec![2, 0]), ("?group=acme", vec![0]), ("?group=other", vec![]), ("?unique=k", vec![2, 0])]
        {
            let mut request = request("GET", &format!("/api/v1/jobs{filter}"), None);
            request
                .headers_mut()
                .insert("authorization", format!("Bearer {}", created.secret.reveal()).parse().unwrap());
            let page = server.send(request).await.expect(200);
            assert_eq!(args(&page), expected, "{}: {filter}", server.store);
        }
    }
}

#[tokio::test]
async fn a_cursor_or_a_text_that_is_none_is_refused_by_name() {
    let server = Server::on_memory().await;
    for (query, path) in [
        ("cursor=", "cursor"),
        ("cursor=7", "cursor"),
        ("args_contain=", "args_contain"),
        ("args_contain=%00", "args_contain"),
        ("fingerprint=%0a", "fingerprint"),
        ("before=7", "before"),
    ] {
        server.get(&format!("/api/v1/jobs?{query}")).await.refused(422, Some(path));
    }
}

#[tokio::test]
async fn a_job_has_the_id_that_its_caller_chose_and_is_stored_once() {
    for server in Server::on_all().await {
        let id = turnwise::JobRequest::new("t", &0).job_id().unwrap().to_string();
        let job = json!({"task": "t", "id": id});
        assert_eq!(server.submit(job.clone()).await, id);
        let again = server.post("/api/v1/jobs", &job).await.expect(200);
        assert_eq!(again, json!({"id": id, "new": false, "duplicate": null}), "{}", server.store);
        let version_4 = json!({"task": "t", "id": "c0ffee00-0000-4000-8000-000000000000"});
        server.post("/api/v1/jobs", &version_4).await.refused(422, Some("/id"));
        let far_ahead = json!({"task": "t", "id": "fffffff0-0000-7000-8000-000000000000"});
        server.post("/api/v1/jobs", &far_ahead).await.refused(422, Some("/id"));
        let batch = json!({"jobs": [{"task": "t"}, {"task": "t", "id": "x"}]});
        server.post("/api/v1/jobs/batch", &batch).await.refused(422, Some("/jobs/1/id"));
    }
}

#[tokio::test]
async fn an_id_of_another_tenant_does_not_pass_for_ones_own() {
    for server in Server::on_all().await {
        let id = server.submit(json!({"task": "t", "group": "other"})).await;
        let limits = Limits { groups: Some(["acme".parse().unwrap()].into()), ..Limits::default() };
        let grant = Grant::new([Scope::Submit], limits).unwrap();
        let created = server.turnwise.create_token(NewAccess::new("ci", grant).unwrap()).await.unwrap();
        let mut request = request("POST", "/api/v1/jobs", Some(&json!({"task": "t", "group": "acme", "id": id})));
        request.headers_mut().insert("authorization", format!("Bearer {}", created.secret.reveal()).parse().unwrap());
        server.send(request).await.refused(422, Some("/id"));
    }
}
