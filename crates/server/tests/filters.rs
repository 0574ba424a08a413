//! The filter language over HTTP: lists, and decisions by a filter.

mod support;

use serde_json::{Value, json};
use support::{Answer, Server, misfit, request, with};
use turnwise::{
    JobRequest,
    access::{CreatedToken, Grant, Limits, NewAccess, Scope},
    secret::{Pointer, Secrets},
};
use turnwise_store::operators::LOOKS;

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

fn listed(filter: &str, more: &str) -> String {
    format!("/api/v1/jobs?filter={}{more}", encoded(filter))
}

/// What the jobs of a list were submitted with.
fn args(page: &Value) -> Vec<i64> {
    page["jobs"].as_array().unwrap().iter().map(|job| job["args"]["n"].as_i64().unwrap()).collect()
}

async fn token(server: &Server, scope: Scope, group: &str) -> CreatedToken {
    let limits = Limits { groups: Some([group.parse().unwrap()].into()), ..Limits::default() };
    let grant = Grant::new([scope], limits).unwrap();
    server.turnwise.create_token(NewAccess::new("ci", grant).unwrap()).await.unwrap()
}

#[tokio::test]
async fn every_condition_leaves_the_jobs_that_meet_it() {
    for server in Server::on_all().await {
        let jobs = [
            json!({"task": "break", "args": {"n": 0}, "retry": "none"}),
            json!({"task": "double", "args": {"n": 1, "pages": 7}, "queue": "slow", "in": "1h"}),
            json!({"task": "double", "args": {"n": 2, "pages": "7"}, "group": "acme", "in": "1h", "unique": "two"}),
            json!({"task": "double", "args": {"n": 3, "to": ["Ann's", "é"], "pages": 70}, "in": "1h", "priority": 1}),
        ];
        let mut ids = Vec::new();
        for job in jobs {
            ids.push(server.submit(job).await);
        }
        let node = server.node().await;
        let failed = server.job_in(&ids[0], "failed").await;
        let kind = failed["fingerprint"].as_str().unwrap();
        let error = failed["error"].as_str().unwrap();
        let time = server.get(&format!("/api/v1/jobs/{}", ids[2])).await.expect(200)["submitted_at"].clone();
        let time = time.as_str().unwrap();
        for (filter, expected) in [
            (String::new(), vec![3, 2, 1, 0]),
            ("queue:slow".to_owned(), vec![1]),
            ("group=acme task:double".to_owned(), vec![2]),
            ("state:failed,waiting -task:break".to_owned(), vec![3, 2, 1]),
            ("state!=waiting".to_owned(), vec![0]),
            ("node:node".to_owned(), vec![0]),
            ("node:node,other".to_owned(), vec![0]),
            ("unique:two,three".to_owned(), vec![2]),
            (format!("since:{time}"), vec![3, 2]),
            (format!("until:{time} since:1h"), vec![1, 0]),
            ("until:1h".to_owned(), vec![]),
            (format!("fingerprint:{kind}"), vec![0]),
            (format!("error~{error:?}"), vec![0]),
            (format!("-error~{error:?} -args.pages~*"), vec![]),
            ("args.pages>10".to_owned(), vec![3]),
            ("args.pages=7".to_owned(), vec![2, 1]),
            ("args.pages=\"7\" task:double".to_owned(), vec![2]),
            ("args.to=é".to_owned(), vec![3]),
            ("args~\"ann's\"".to_owned(), vec![3]),
            ("priority<5".to_owned(), vec![3]),
            (format!("id:{}", ids[1]), vec![1]),
            (format!("id:{},{} args.n>=0", ids[1], ids[3]), vec![3, 1]),
            ("task:none".to_owned(), vec![]),
            ("state:failed -state:failed".to_owned(), vec![]),
        ] {
            let page = server.get(&listed(&filter, "")).await.expect(200);
            assert_eq!(misfit("Jobs", &page), None);
            assert_eq!(args(&page), expected, "{}: {filter}", server.store);
            assert_eq!((&page["next"], &page["reached"]), (&Value::Null, &Value::Null), "{}: {filter}", server.store);
        }
        let both = server.get(&listed("args.pages=7", "&queue=slow&state=waiting")).await.expect(200);
        assert_eq!(args(&both), [1], "{}: with other parameters", server.store);
        let page = server.get(&listed("args.n>0", "&limit=2")).await.expect(200);
        assert_eq!(args(&page), [3, 2]);
        let next = page["next"].as_str().unwrap();
        let page = server.get(&listed("args.n>0", &format!("&limit=2&cursor={next}"))).await.expect(200);
        assert_eq!((args(&page), &page["next"]), (vec![1], &Value::Null), "{}", server.store);
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_looks_at_so_many_jobs_and_says_how_far_it_came() {
    for server in Server::on_all().await {
        let one = |n: i64| JobRequest::new("t", &json!({"n": n}));
        let old = server.turnwise.submit(one(-1)).await.unwrap().to_string();
        server.turnwise.submit_all((0..i64::from(LOOKS) + 100).map(one)).await.unwrap();
        let first = server.get(&listed("args.n<0", "")).await.expect(200);
        assert_eq!(args(&first), [0; 0], "{}", server.store);
        assert!(first["reached"].is_string(), "{}: {first}", server.store);
        let next = first["next"].as_str().unwrap();
        let second = server.get(&listed("args.n<0", &format!("&cursor={next}"))).await.expect(200);
        assert_eq!((args(&second), &second["next"]), (vec![-1], &Value::Null), "{}", server.store);
        // The same of a decision, and of its preview.
        let ask = async |body: Value| server.post("/api/v1/jobs/cancel", &body).await.expect(200);
        let part = ask(json!({"filter": "args.n<0", "dry_run": true})).await;
        let told = format!("{}: {part}", server.store);
        assert_eq!((&part["count"], &part["more"]), (&json!(0), &json!(true)), "{told}");
        let rest = ask(json!({"filter": "args.n<0", "dry_run": true, "cursor": part["next"]})).await;
        assert_eq!(rest, json!({"count": 1, "more": false, "newest": old, "next": null, "reached": null}), "{told}");
    }
}

#[tokio::test]
async fn a_decision_by_a_filter_is_about_what_was_previewed() {
    for server in Server::on_all().await {
        let submit =
            async |n: u64| server.submit(json!({"task": "t", "args": {"n": n}, "queue": format!("q{}", n % 2)})).await;
        let mut ids = Vec::new();
        for n in 0..6 {
            ids.push(submit(n).await);
        }
        let mut body = json!({"filter": "args.n>=2", "queue": "q1", "dry_run": true});
        let preview = server.post("/api/v1/jobs/cancel", &body).await.expect(200);
        assert_eq!((&preview["count"], &preview["newest"]), (&json!(2), &json!(ids[5])), "{}", server.store);
        let later = submit(7).await;
        body = json!({"filter": "args.n>=2", "queue": "q1", "newest": preview["newest"]});
        let done = server.post("/api/v1/jobs/cancel", &body).await.expect(200);
        assert_eq!((&done["decided"], &done["more"]), (&json!(2), &json!(false)), "{}: {done}", server.store);
        server.job_in(&later, "waiting").await;
        server.job_in(&ids[1], "waiting").await;
        for n in [3, 5] {
            server.job_in(&ids[n], "cancelled").await;
        }
        // A retry is about failed jobs unless the filter names others.
        let retry = async |filter: &str| {
            let body = json!({"filter": filter, "dry_run": true});
            server.post("/api/v1/jobs/retry", &body).await.expect(200)["count"].clone()
        };
        assert_eq!((retry("args.n>3").await, retry("args.n>3 state:cancelled").await), (json!(0), json!(1)));
        let wrong = json!({"filter": "state:success", "dry_run": true});
        server.post("/api/v1/jobs/cancel", &wrong).await.refused(422, Some("/filter"));
    }
}

#[tokio::test]
async fn a_limited_token_finds_and_decides_about_its_own_jobs_alone() {
    for server in Server::on_all().await {
        for (n, group) in ["acme", "other", "acme"].into_iter().enumerate() {
            server.submit(json!({"task": "t", "args": {"n": n}, "group": group})).await;
        }
        let token = token(&server, Scope::Operate, "acme").await;
        let send = async |method: &str, path: &str, body: Option<&Value>| {
            server.send(with(request(method, path, body), token.secret.reveal())).await.expect(200)
        };
        for (filter, expected) in [
            ("args.n>=0", vec![2, 0]),
            ("group:other args.n>=0", vec![]),
            ("group!=acme", vec![]),
            ("args.n=1", vec![]),
        ] {
            let page = send("GET", &listed(filter, ""), None).await;
            assert_eq!(args(&page), expected, "{}: {filter}", server.store);
        }
        let body = json!({"filter": "args.n>0", "dry_run": true});
        let preview = send("POST", "/api/v1/jobs/cancel", Some(&body)).await;
        assert_eq!(preview["count"], 1, "{}", server.store);
    }
}

/// Two jobs that differ in a secret alone: every answer is the same for both, whatever is asked.
#[tokio::test]
async fn no_answer_shows_whether_a_secret_meets_a_condition() {
    for server in Server::on_all().await {
        let mut secrets = Secrets::default();
        secrets.add("pay".parse().unwrap(), Pointer::new("/card").unwrap());
        server.turnwise.operators().unwrap().note_secrets(secrets).await.unwrap();
        for (group, card) in [("one", "41111111"), ("two", "52222222")] {
            server.submit(json!({"task": "pay", "args": {"n": 1, "card": card}, "group": group})).await;
            for n in 2..5 {
                server.submit(json!({"task": "mail", "args": {"n": n, "card": "41111111"}, "group": group})).await;
            }
        }
        let counted = |answer: Answer| {
            let page = answer.expect(200);
            (args(&page), page["next"].is_string(), page["reached"].is_string())
        };
        for condition in [
            "args.card=41111111",
            "args.card=\"41111111\"",
            "args.card!=41111111",
            "args.card>42",
            "args.card<\"42\"",
            "args.card~4111",
            "-args.card~4111",
            "args~41111111",
            "args.card~*",
            "args.card=[secret]",
            "args.n=1",
        ] {
            let mut answers = Vec::new();
            for group in ["one", "two"] {
                let filter = format!("group:{group} task:pay {condition}");
                let page = counted(server.get(&listed(&filter, "&limit=1")).await);
                let body = json!({"filter": filter, "dry_run": true});
                let preview = server.post("/api/v1/jobs/cancel", &body).await.expect(200)["count"].clone();
                assert_eq!(json!(page.0.len()), preview, "{}: {filter}", server.store);
                answers.push(page);
            }
            assert_eq!(answers[0], answers[1], "{}: {condition}", server.store);
        }
        let shown = server.get(&listed("args.card=41111111", "")).await.expect(200);
        assert_eq!(args(&shown), [4, 3, 2, 4, 3, 2], "{}: what is no secret is found", server.store);
    }
}

#[tokio::test]
async fn a_mistake_is_refused_with_its_place() {
    let server = Server::on_memory().await;
    for (filter, part) in [
        ("taks:mail", "filter: at character 1: there is no field \"taks\"; did you mean \"task\"?"),
        ("state:waiting args.=1", "filter: at character 20: a name was expected"),
        ("error~\"open", "filter: at character 7: this quotation mark"),
        ("task:a\u{0}", "filter: at character 7: a filter has no control characters"),
    ] {
        let problem = server.get(&listed(filter, "")).await.refused(422, Some("filter"));
        assert!(problem.to_string().contains(&json!(part).to_string()[1..part.len()]), "{problem}");
        let body = json!({"filter": filter, "dry_run": true});
        server.post("/api/v1/jobs/cancel", &body).await.refused(422, Some("/filter"));
    }
    let long = "x".repeat(20_000);
    server.get(&format!("/api/v1/jobs?filter={long}")).await.refused(422, Some("filter"));
    server.post("/api/v1/jobs/cancel", &json!({"filter": long, "dry_run": true})).await.refused(422, Some("/filter"));
    let body = json!({"filter": "x".repeat(200_000), "dry_run": true});
    server.post("/api/v1/jobs/cancel", &body).await.refused(413, None);
    for strange in ["args~(((", "error~[a-z", "args.n>1e999999", "args.a.a.a.a.a.a~*"] {
        server.get(&listed(strange, "")).await.expect(200);
    }
}
