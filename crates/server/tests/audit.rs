//! The audit log over HTTP: every route that changes something leaves a line with who, what, before and after.

mod support;

use axum::{
    body::Body,
    http::{HeaderValue, Request, header},
};
use serde_json::{Value, json};
use support::{EMBEDDER, Server, request};
use turnwise::{
    JobRequest,
    access::{CreatedToken, Grant, Limits, NewAccess, Scope},
};
use turnwise_server::routes;

/// A caller with a token.
struct Caller<'a> {
    server: &'a Server,
    token: CreatedToken,
}

impl<'a> Caller<'a> {
    async fn admin(server: &'a Server) -> Self {
        let grant = Grant::new([Scope::Admin], Limits::default()).unwrap();
        let token = server.turnwise.create_token(NewAccess::new("night shift", grant).unwrap()).await.unwrap();
        Self { server, token }
    }

    fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Request<Body> {
        let mut request = request(method, path, body);
        let bearer = HeaderValue::try_from(format!("Bearer {}", self.token.secret.reveal())).unwrap();
        request.headers_mut().insert(header::AUTHORIZATION, bearer);
        request
    }

    async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> support::Answer {
        self.server.send(self.request(method, path, body)).await
    }

    async fn lines(&self, query: &str) -> Vec<Value> {
        let page = self.ask("GET", &format!("/api/v1/audit{query}"), None).await.expect(200);
        page["lines"].as_array().unwrap().clone()
    }
}

#[tokio::test]
async fn every_route_that_changes_something_leaves_a_line_on_every_store() {
    for server in Server::on_all().await {
        let caller = Caller::admin(&server).await;
        let job =
            async |task: &str| server.turnwise.submit(JobRequest::new(task, &"hunter2")).await.unwrap().to_string();
        let (first, second, third) = (job("t").await, job("t").await, job("u").await);
        let at = |id: &str, verb: &str| format!("/api/v1/jobs/{id}/{verb}");
        let choice = |newest: &str| json!({"task": "u", "newest": newest});
        let schedule = json!({"task": "t", "args": "hunter2", "every": "1h"});
        // Stuck jobs and a prune that deletes something need a node and time: the library's tests have them.
        let without = ["failJob", "failJobs", "prune", "runSchedule", "submitJob", "submitJobs", "simulate"];
        // A log-in changes nothing but who its bearer is, and so does a ticket that is redeemed.
        let without = [&without[..], &["logIn", "logOut", "redeemTicket"]].concat();
        // What a worker does is no operator's change: its jobs' stories have it.
        let of_workers = ["registerWorker", "takeJobs", "beatWorker", "noteRuns", "settleRuns", "leaveWorker"];
        let without = [&without[..], &of_workers].concat();
        let mut asked = Vec::new();
        // A token: its id is known once it is there.
        let new = json!({"name": "ci", "scopes": ["read"]});
        let made = caller.ask("POST", "/api/v1/tokens", Some(&new)).await.expect(201);
        let (id, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
        caller.ask("POST", &format!("/api/v1/tokens/{id}/revoke"), None).await.expect(200);
        caller.ask("POST", &format!("/api/v1/tokens/{id}/revoke"), None).await.expect(200);
        let lines = caller.lines(&format!("?target=token:{id}")).await;
        let verbs: Vec<_> = lines.iter().map(|line| (&line["verb"], &line["actor"])).collect();
        let actor = json!(format!("token:{}", caller.token.token.id));
        assert_eq!(verbs, [(&json!("revoke"), &actor), (&json!("create"), &actor)], "{}", server.store);
        assert!(!json!(lines).to_string().contains(secret), "{}", server.store);
        asked.extend(["createToken", "revokeToken"]);
        // A ticket that may only look is no change; one that may decide has a line about the token that it is made with.
        let ticket = |scope: &str| json!({"groups": ["g"], "scopes": [scope], "origins": [EMBEDDER]});
        let own = format!("?target=token:{}", caller.token.token.id);
        caller.ask("POST", "/api/v1/tickets", Some(&ticket("read"))).await.expect(201);
        assert_eq!(caller.lines(&own).await, [] as [Value; 0], "{}", server.store);
        let made = caller.ask("POST", "/api/v1/tickets", Some(&ticket("operate"))).await.expect(201);
        let lines = caller.lines(&own).await;
        assert_eq!(
            (lines.len(), &lines[0]["verb"], &lines[0]["actor"]),
            (1, &json!("create"), &actor),
            "{}",
            server.store
        );
        let given = json!({"granted": {"scopes": ["operate"], "limits": {"groups": ["g"]}}, "origins": [EMBEDDER]});
        assert_eq!(lines[0]["after"], json!({"ticket": given}), "{}", server.store);
        assert!(!json!(lines).to_string().contains(made["ticket"].as_str().unwrap()), "{}", server.store);
        asked.push("makeTicket");
        // It knows none of the jobs' tasks.
        let node = server.node().await;
        for (route, method, path, body, verb, target) in [
            (
                "changeJob",
                "PATCH",
                format!("/api/v1/jobs/{first}"),
                Some(json!({"priority": 1})),
                "change",
                format!("job:{first}"),
            ),
            ("cancelJob", "POST", at(&first, "cancel"), None, "cancel", format!("job:{first}")),
            ("retryJob", "POST", at(&first, "retry"), None, "retry", format!("job:{first}")),
            ("cancelJob", "POST", at(&second, "cancel"), None, "cancel", format!("job:{second}")),
            ("rerunJob", "POST", at(&second, "rerun"), None, "rerun", format!("job:{second}")),
            (
                "resubmitJob",
                "POST",
                at(&second, "resubmit"),
                Some(json!({"args": "hunter2 again"})),
                "resubmit",
                format!("job:{second}"),
            ),
            (
                "cancelJobs",
                "POST",
                "/api/v1/jobs/cancel".into(),
                Some(choice(&third)),
                "cancel",
                format!("job:{third}"),
            ),
            (
                "retryJobs",
                "POST",
                "/api/v1/jobs/retry".into(),
                Some(json!({"task": "u", "state": ["cancelled"], "newest": third})),
                "retry",
                format!("job:{third}"),
            ),
            ("setQueue", "PATCH", "/api/v1/queues/a%2Fb".into(), Some(json!({"weight": 2})), "set", "queue:a/b".into()),
            (
                "pauseQueue",
                "POST",
                "/api/v1/queues/q/pause".into(),
                Some(json!({"reason": "lunch"})),
                "pause",
                "queue:q".into(),
            ),
            ("resumeQueue", "POST", "/api/v1/queues/q/resume".into(), None, "resume", "queue:q".into()),
            ("sealQueue", "POST", "/api/v1/queues/q/seal".into(), None, "seal", "queue:q".into()),
            ("unsealQueue", "POST", "/api/v1/queues/q/unseal".into(), None, "unseal", "queue:q".into()),
            ("resetQueue", "POST", "/api/v1/queues/a%2Fb/reset".into(), None, "reset", "queue:a/b".into()),
            ("setGroup", "PATCH", "/api/v1/groups/g".into(), Some(json!({"weight": 2})), "set", "group:g".into()),
            ("pauseGroup", "POST", "/api/v1/groups/g/pause".into(), None, "pause", "group:g".into()),
            ("resumeGroup", "POST", "/api/v1/groups/g/resume".into(), None, "resume", "group:g".into()),
            ("resetGroup", "POST", "/api/v1/groups/g/reset".into(), None, "reset", "group:g".into()),
            ("setTask", "PATCH", "/api/v1/tasks/t".into(), Some(json!({"concurrency": 2})), "set", "task:t".into()),
            ("resetTask", "POST", "/api/v1/tasks/t/reset".into(), None, "reset", "task:t".into()),
            ("setKey", "PATCH", "/api/v1/keys/k".into(), Some(json!({"concurrency": 2})), "set", "key:k".into()),
            ("resetKey", "POST", "/api/v1/keys/k/reset".into(), None, "reset", "key:k".into()),
            ("setSchedule", "PUT", "/api/v1/schedules/s".into(), Some(schedule), "set", "schedule:s".into()),
            ("pauseSchedule", "POST", "/api/v1/schedules/s/pause".into(), None, "pause", "schedule:s".into()),
            ("resumeSchedule", "POST", "/api/v1/schedules/s/resume".into(), None, "resume", "schedule:s".into()),
            ("removeSchedule", "DELETE", "/api/v1/schedules/s".into(), None, "remove", "schedule:s".into()),
            ("drainNode", "POST", "/api/v1/nodes/node/drain".into(), None, "drain", "node:node".into()),
            ("resumeNode", "POST", "/api/v1/nodes/node/resume".into(), None, "resume", "node:node".into()),
            (
                "setInstallation",
                "PATCH",
                "/api/v1/installation".into(),
                Some(json!({"log_lines": 7})),
                "set",
                "installation".into(),
            ),
        ] {
            let before = caller.lines("?limit=1000").await.len();
            let told = format!("{}: {route}", server.store);
            let status = if route == "resubmitJob" { 201 } else { 200 };
            caller.ask(method, &path, body.as_ref()).await.expect(status);
            let lines = caller.lines("?limit=1000").await;
            assert_eq!(lines.len(), before + 1, "{told}");
            let line = &lines[0];
            assert_eq!((line["verb"].as_str(), line["target"].as_str()), (Some(verb), Some(target.as_str())), "{told}");
            assert_eq!(line["actor"], format!("token:{}", caller.token.token.id), "{told}");
            assert_eq!(line["actor_name"], format!("night shift ({}…)", caller.token.token.prefix), "{told}");
            assert_ne!(line["before"], line["after"], "{told}");
            asked.push(route);
        }
        node.stop().await;
        for route in routes().iter().filter(|route| route.verb != turnwise_server::Verb::Get) {
            assert!(asked.contains(&route.id) || without.contains(&route.id), "{route:?} was not asked");
        }
        let all = caller.lines("?limit=1000").await;
        assert!(!json!(all).to_string().contains("hunter2"), "{}: arguments are in the log", server.store);
        // Each of these changes nothing any more.
        for (method, path, body) in [
            ("PATCH", "/api/v1/installation", Some(json!({"log_lines": 7}))),
            ("POST", "/api/v1/queues/q/resume", None),
            ("POST", "/api/v1/groups/g/reset", None),
            ("POST", "/api/v1/prune", None),
        ] {
            caller.ask(method, path, body.as_ref()).await.expect(200);
        }
        caller.ask("POST", &at(&first, "fail"), None).await.refused(409, None);
        caller.ask("PATCH", "/api/v1/queues/q", Some(&json!({"weight": 0}))).await.refused(422, None);
        assert_eq!(caller.lines("?limit=1000").await.len(), all.len(), "{}", server.store);
    }
}

#[tokio::test]
async fn the_log_is_read_in_pages_and_by_who_what_and_when() {
    let server = Server::on_memory().await;
    let pause = |queue: &str| request("POST", &format!("/api/v1/queues/{queue}/pause"), None);
    server.send(pause("early")).await.expect(200);
    // Another server: the first one remembers for some seconds that there are no tokens.
    let other = Server::of("memory", server.turnwise.clone());
    let caller = Caller::admin(&other).await;
    for queue in ["a", "b", "c"] {
        caller.ask("POST", &format!("/api/v1/queues/{queue}/pause"), None).await.expect(200);
    }
    let targets =
        |lines: &[Value]| lines.iter().map(|line| line["target"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(targets(&caller.lines("").await), ["queue:c", "queue:b", "queue:a", "queue:early"]);
    let local = caller.lines("?actor=http:without-token").await;
    assert_eq!((targets(&local), &local[0]["actor_name"]), (vec!["queue:early".to_owned()], &Value::Null));
    assert_eq!(caller.lines(&format!("?actor=token:{}", caller.token.token.id)).await.len(), 3);
    assert_eq!(targets(&caller.lines("?target=queue:b").await), ["queue:b"]);
    let all = caller.lines("").await;
    let since = all[1]["at"].as_str().unwrap();
    assert_eq!(caller.lines(&format!("?since={since}")).await.len(), 2);
    assert_eq!(caller.lines(&format!("?until={since}")).await.len(), 2);
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = caller.ask("GET", &format!("/api/v1/audit?limit=3{cursor}"), None).await.expect(200);
        found.extend(page["lines"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(found, all);
    for (query, path) in
        [("actor=%20", "actor"), ("target=machine:a", "target"), ("cursor=x", "cursor"), ("limit=0", "limit")]
    {
        caller.ask("GET", &format!("/api/v1/audit?{query}"), None).await.refused(422, Some(path));
    }
}
