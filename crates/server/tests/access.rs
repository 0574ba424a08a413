//! Who may ask for what: every route with every kind of token, on what is the token's own and on what is not.

mod support;

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderValue, Request, header},
};
use serde_json::{Value, json};
use support::{PATIENCE, Server, request};
use turnwise::{
    GroupName, JobRequest,
    access::{Action, CreatedToken, Grant, Limits, NewAccess, Reach, Scope},
};
use turnwise_server::{Route, routes};

fn of_group(group: &str) -> Limits {
    Limits { groups: Some([GroupName::new(group).unwrap()].into()), ..Limits::default() }
}

async fn token(server: &Server, scopes: &[Scope], limits: Limits) -> CreatedToken {
    let grant = Grant::new(scopes.iter().copied(), limits).unwrap();
    server.turnwise.create_token(NewAccess::new("test", grant).unwrap()).await.unwrap()
}

fn with(mut request: Request<Body>, secret: &str) -> Request<Body> {
    let bearer = HeaderValue::try_from(format!("Bearer {secret}")).unwrap();
    request.headers_mut().insert(header::AUTHORIZATION, bearer);
    request
}

/// A request that is right, about what belongs to this group.
fn asked(route: &Route, group: &str, job: &str) -> Request<Body> {
    let name = match route.path {
        path if path.contains("/groups/") => group.to_owned(),
        path if path.contains("/schedules/") => format!("of-{group}"),
        path if path.contains("/tasks/") => "t".to_owned(),
        _ => "default".to_owned(),
    };
    let path = route.path.replace("{id}", job).replace("{name}", &name);
    let body = route.input.map(|input| match input.schema {
        "Request" => json!({"task": "t", "group": group}),
        "Batch" => json!({"jobs": [{"task": "t", "group": group}]}),
        "CancelChoice" | "RetryChoice" | "FailChoice" => json!({"group": group, "dry_run": true}),
        "JobEdit" => json!({"priority": 1}),
        "NewToken" => json!({"name": "made", "scopes": ["read"]}),
        "NewSchedule" => json!({"task": "t", "group": group, "every": "1h"}),
        _ => json!({}),
    });
    request(route.verb.method().as_str(), &path, body.as_ref())
}

/// The jobs and schedules of two groups.
async fn two_groups(server: &Server) -> [String; 2] {
    let mut ids = Vec::new();
    for group in ["acme", "other"] {
        let id = server.turnwise.submit(JobRequest::new("t", &1).group(group)).await.unwrap();
        ids.push(id.to_string());
        let recurring = turnwise::schedules::Recurring::every("1h", JobRequest::new("t", &1).group(group));
        server.turnwise.set_schedule(format!("of-{group}"), recurring).await.unwrap();
    }
    ids.try_into().unwrap()
}

/// What a route answers to a token that may do it, about what is there: some jobs are not in a state for it.
fn done(status: u16) -> bool {
    matches!(status, 200 | 201 | 409)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_with_every_scope_and_every_state_of_a_token() {
    for server in Server::on_all().await {
        let [own, foreign] = two_groups(&server).await;
        let admin = token(&server, &Scope::ALL, Limits::default()).await;
        let expired = Grant::new([Scope::Admin], Limits::default()).unwrap();
        let expired = NewAccess::new("short", expired).unwrap().expires_in(Duration::from_micros(1)).unwrap();
        let expired = server.turnwise.create_token(expired).await.unwrap();
        let revoked = token(&server, &[Scope::Admin], Limits::default()).await;
        server.turnwise.revoke_token(&revoked.token.prefix).await.unwrap();
        let expires = expired.token.expires_at.unwrap();
        while server.turnwise.now().await.unwrap() < expires {}
        let unknown = format!("tw_{}", "A".repeat(43));
        let mut cells = 0;
        for route in &routes() {
            // What a log-in answers, login.rs shows.
            if route.path == "/api/v1/session" {
                continue;
            }
            let Some(action) = route.action else {
                assert!(server.send(asked(route, "acme", &own)).await.status == 200, "{route:?} needs no token");
                continue;
            };
            // Without a good token nobody gets in, whatever is asked for.
            let no_header = server.send(asked(route, "acme", &own)).await;
            no_header.refused(401, None);
            assert_eq!(no_header.header("www-authenticate"), "Bearer");
            for secret in [unknown.as_str(), "nonsense", expired.secret.reveal(), revoked.secret.reveal()] {
                server.send(with(asked(route, "acme", &own), secret)).await.refused(401, None);
                cells += 1;
            }
            for scope in Scope::ALL {
                let may = scope.includes(action.scope());
                let told = || format!("{}: {route:?} with {scope}", server.store);
                let whole = token(&server, &[scope], Limits::default()).await;
                let answer = server.send(with(asked(route, "acme", &own), whole.secret.reveal())).await;
                if may {
                    assert!(done(answer.status) || gone(route, answer.status), "{}: {}", told(), answer.text);
                } else {
                    assert_eq!(answer.status, 403, "{}: {}", told(), answer.text);
                }
                put_back(&server, route).await;
                cells += 1;
                if scope == Scope::Work {
                    continue;
                }
                let limited = token(&server, &[scope], of_group("acme")).await;
                for (group, job) in [("acme", &own), ("other", &foreign)] {
                    let answer = server.send(with(asked(route, group, job), limited.secret.reveal())).await;
                    let expected = expected(action, route, may, group == "acme");
                    let status = if done(answer.status) { 200 } else { answer.status };
                    assert_eq!(status, expected, "{} limited to acme, of {group}: {}", told(), answer.text);
                    put_back(&server, route).await;
                    cells += 1;
                }
            }
        }
        assert!(cells > 700, "{cells} cells");
        let bulk = json!({"dry_run": true});
        let limited = token(&server, &[Scope::Operate], of_group("acme")).await;
        let asked = with(request("POST", "/api/v1/jobs/cancel", Some(&bulk)), limited.secret.reveal());
        let all = with(request("POST", "/api/v1/jobs/cancel", Some(&bulk)), admin.secret.reveal());
        let (some, all) = (server.send(asked).await.expect(200), server.send(all).await.expect(200));
        assert!(some["count"].as_u64() < all["count"].as_u64(), "{some} {all}");
    }
}

/// A name that there may be nothing about, or a task or a key that nothing is set for.
fn gone(route: &Route, status: u16) -> bool {
    status == 404 && matches!(route.id, "getKey" | "getTask" | "getQueue" | "getGroup" | "revokeToken")
}

/// What a token that is limited to one group gets.
fn expected(action: Action, route: &Route, may: bool, own: bool) -> u16 {
    if !may {
        return 403;
    }
    match (action.reach(), route.path) {
        (Reach::Installation, _) => 403,
        // A key belongs to no group.
        (_, path) if path.contains("/keys/") => 404,
        // A whole queue or task is not a group's.
        (Reach::Whole, path) if !path.contains("/groups/") => 403,
        // It names nothing of the group's, or leaves out what is not.
        (_, path) if !path.contains('{') && !matches!(route.id, "submitJob" | "submitJobs") => 200,
        (_, path) if path.contains("/queues/") || path.contains("/tasks/") => 200,
        // The name is another one's.
        _ if route.id == "setSchedule" && !own => 404,
        _ if own => 200,
        _ => 404,
    }
}

/// What some routes take away or set, as it was.
async fn put_back(server: &Server, route: &Route) {
    if !route.path.contains("/groups/") && !route.path.contains("/schedules/") {
        return;
    }
    let turnwise = &server.turnwise;
    for group in ["acme", "other"] {
        turnwise.resume_group(group).await.unwrap();
        let recurring = turnwise::schedules::Recurring::every("1h", JobRequest::new("t", &1).group(group));
        turnwise.set_schedule(format!("of-{group}"), recurring).await.unwrap();
    }
}

#[tokio::test]
async fn a_limited_token_sees_nothing_of_others() {
    for server in Server::on_all().await {
        let [own, foreign] = two_groups(&server).await;
        let limited = token(&server, &[Scope::Read, Scope::Submit], of_group("acme")).await;
        let ask = async |path: &str| server.send(with(request("GET", path, None), limited.secret.reveal())).await;
        let jobs = ask("/api/v1/jobs").await.expect(200);
        let ids: Vec<_> = jobs["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
        assert_eq!(ids, [own.as_str()]);
        assert_eq!(ask("/api/v1/jobs?group=other").await.expect(200)["jobs"], json!([]));
        assert_eq!(ask("/api/v1/overview").await.expect(200)["waiting"], 1);
        let groups = ask("/api/v1/groups").await.expect(200);
        assert_eq!(groups["groups"].as_array().unwrap().len(), 1);
        assert_eq!(ask("/api/v1/queues").await.expect(200)["queues"][0]["waiting"], 1, "others' jobs are not counted");
        let schedules = ask("/api/v1/schedules").await.expect(200);
        assert_eq!(schedules["schedules"].as_array().unwrap().len(), 1);
        // The answer about another's job is the same as about none.
        let none = "01890163-d869-7739-8aea-5966c26f8ad9";
        let [theirs, nobodys] =
            [ask(&format!("/api/v1/jobs/{foreign}")).await, ask(&format!("/api/v1/jobs/{none}")).await];
        assert_eq!(
            theirs.refused(404, None).to_string().replace(&foreign, none),
            nobodys.refused(404, None).to_string()
        );
        // A graph has its own jobs alone, and names no other.
        let theirs = JobRequest::new("t", &1).group("other").after_jobs([own.parse().unwrap()]);
        let theirs = server.turnwise.submit(theirs).await.unwrap().to_string();
        let graph = ask(&format!("/api/v1/jobs/{own}/graph")).await.expect(200);
        assert_eq!(graph["jobs"].as_array().unwrap().len(), 1, "{graph}");
        assert!(!graph.to_string().contains(&theirs), "{graph}");
        ask(&format!("/api/v1/jobs/{theirs}/graph")).await.refused(404, None);
        assert_eq!(ask(&format!("/api/v1/jobs?id={}", &theirs[..30])).await.expect(200)["jobs"], json!([]));
        // Nor does it wait for another's job, or learn of another's unique key.
        let send = async |body: Value| {
            server.send(with(request("POST", "/api/v1/jobs", Some(&body)), limited.secret.reveal())).await
        };
        send(json!({"task": "t", "group": "acme", "after": [foreign]})).await.refused(422, Some("/after"));
        send(json!({"task": "t", "group": "acme", "after": [own]})).await.expect(201);
        let theirs = JobRequest::new("t", &1).group("other").unique("account-7");
        server.turnwise.submit(theirs).await.unwrap();
        let mine = send(json!({"task": "t", "group": "acme", "unique": "account-7"})).await.expect(201);
        assert_eq!(mine["duplicate"], Value::Null);
    }
}

#[tokio::test]
async fn a_revoked_token_is_refused_within_seconds_also_while_it_waits() {
    for server in Server::on_all().await {
        let id = server.turnwise.submit(JobRequest::new("nobody-knows", &1)).await.unwrap();
        let created = token(&server, &[Scope::Read], Limits::default()).await;
        let path = format!("/api/v1/jobs/{id}");
        let ask = async |path: &str| server.send(with(request("GET", path, None), created.secret.reveal())).await;
        ask(&path).await.expect(200);
        let waiting = format!("{path}?wait=60s");
        let revoke = async {
            server.turnwise.revoke_token(&created.token.id.to_string()).await.unwrap();
        };
        let (answer, ()) = tokio::join!(tokio::time::timeout(PATIENCE / 2, ask(&waiting)), revoke);
        answer.expect("a wait ends when its token is revoked").refused(401, None);
        ask(&path).await.refused(401, None);
    }
}

#[tokio::test]
async fn a_token_submits_no_faster_than_it_may() {
    let server = Server::on_memory().await;
    let grant = Grant::new([Scope::Submit], Limits::default()).unwrap();
    let access = NewAccess::new("slow", grant).unwrap().rate(5.try_into().unwrap());
    let created = server.turnwise.create_token(access).await.unwrap();
    let send = async |count: usize| {
        let jobs: Vec<_> = (0..count).map(|_| json!({"task": "t"})).collect();
        let request = request("POST", "/api/v1/jobs/batch", Some(&json!({"jobs": jobs})));
        server.send(with(request, created.secret.reveal())).await
    };
    send(1_000).await.expect(201);
    let refused = send(1).await;
    refused.refused(429, None);
    assert!(!refused.header("retry-after").is_empty());
}

#[tokio::test]
async fn the_first_token_grants_no_more_than_it_says_from_its_first_moment_on() {
    for server in Server::on_all().await {
        // The server has just learnt that there is no token.
        server.get("/api/v1/jobs").await.expect(200);
        let grant = Grant::new([Scope::Submit], Limits::default()).unwrap();
        let created = server.turnwise.create_token(NewAccess::new("ci", grant).unwrap()).await.unwrap();
        let mut read = request("GET", "/api/v1/jobs", None);
        let bearer = format!("Bearer {}", created.secret.reveal());
        read.headers_mut().insert("authorization", bearer.parse().unwrap());
        server.send(read).await.refused(403, None);
        server.get("/api/v1/jobs").await.refused(401, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_waits_for_so_many_jobs_at_a_time_and_others_go_on() {
    let server = std::sync::Arc::new(Server::on_memory().await);
    let id = server.submit(json!({"task": "t", "in": "1h"})).await;
    let path = format!("/api/v1/jobs/{id}?wait=60s");
    let (busy, other) = (
        token(&server, &[Scope::Read], Limits::default()).await,
        token(&server, &[Scope::Read], Limits::default()).await,
    );
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..=turnwise_server::limits::WAITS_OF_ONE {
        let (server, request) = (server.clone(), with(request("GET", &path, None), busy.secret.reveal()));
        waiting.spawn(async move { server.send(request).await });
    }
    let refused = tokio::time::timeout(PATIENCE, waiting.join_next()).await.unwrap().unwrap().unwrap();
    refused.refused(429, None);
    waiting.spawn({
        let (server, request) = (server.clone(), with(request("GET", &path, None), other.secret.reveal()));
        async move { server.send(request).await }
    });
    server.turnwise.cancel(id.parse().unwrap()).await.unwrap();
    let mut answered = 0;
    while let Some(answer) = tokio::time::timeout(PATIENCE, waiting.join_next()).await.unwrap() {
        assert_eq!(answer.unwrap().expect(200)["state"], "cancelled");
        answered += 1;
    }
    assert_eq!(answered, turnwise_server::limits::WAITS_OF_ONE + 1, "all others, and the one of another token");
}
