//! Every route on every store: what it answers, and what it refuses.

mod support;

use std::collections::BTreeSet;

use axum::{
    body::Body,
    http::{HeaderValue, Request, header},
};
use serde_json::{Value, json};
use support::{Answer, EMBEDDER, Server, misfit, request};
use turnwise::access::{Grant, Limits, NewAccess, Scope};
use turnwise_server::{Input, Route, Verb, routes};

const NO_JOB: &str = "01890163-d869-7739-8aea-5966c26f8ad9";

/// Asks, and notes which routes were asked.
struct Caller<'a> {
    server: &'a Server,
    routes: Vec<Route>,
    asked: BTreeSet<&'static str>,
    /// Of a token, once there is one.
    secret: Option<String>,
}

impl<'a> Caller<'a> {
    fn new(server: &'a Server) -> Self {
        Self { server, routes: routes(), asked: BTreeSet::new(), secret: None }
    }

    /// Asks the route of this id; the answer must be a success, and what the description says.
    async fn ask(&mut self, id: &str, name: &str, query: &str, body: Option<&Value>) -> Value {
        let server = self.server;
        let route = self.routes.iter().find(|route| route.id == id).unwrap_or_else(|| panic!("no route {id}"));
        if route.streams {
            let mut stream = server.listen(&(path(route, name) + query)).await;
            self.asked.insert(route.id);
            return stream.next().await.map_or(Value::Null, |heard| heard.data);
        }
        let mut asked = request(route.verb.method().as_str(), &(path(route, name) + query), body);
        if let Some(secret) = &self.secret {
            asked.headers_mut().insert(header::AUTHORIZATION, format!("Bearer {secret}").parse().unwrap());
        }
        let answer = server.send(asked).await;
        assert_eq!(answer.status, route.output.0, "{}: {route:?}: {}", server.store, answer.text);
        self.asked.insert(route.id);
        if matches!(route.output.1, "Html" | "Script" | "Style" | "Metrics") {
            return Value::Null;
        }
        let json = answer.json();
        assert_eq!(misfit(route.output.1, &json), None, "{}: {route:?}", server.store);
        json
    }
}

fn path(route: &Route, name: &str) -> String {
    match route.path.split_once('{') {
        None => route.path.to_owned(),
        Some((before, rest)) => format!("{before}{name}{}", rest.split_once('}').unwrap().1),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_answers_on_every_store() {
    for server in Server::on_all().await {
        let mut caller = Caller::new(&server);
        let ask = &mut caller;
        // Jobs: what waits.
        let job = json!({"task": "double", "args": 21, "group": "acme", "queue": "sums", "key": "db", "in": "1h"});
        let waiting = ask.ask("submitJob", "", "", Some(&job)).await["id"].as_str().unwrap().to_owned();
        let shown = ask.ask("getJob", &waiting, "", None).await;
        assert_eq!((&shown["state"], &shown["args"], &shown["group"]), (&json!("waiting"), &json!(21), &json!("acme")));
        let in_full = ask.ask("getJob", &waiting, "?gates=true", None).await;
        let why = ask.ask("whyJob", &waiting, "", None).await;
        let texts: Vec<_> = why["gates"].as_array().unwrap().iter().map(|gate| gate["text"].clone()).collect();
        assert_eq!(in_full["waits_for"], json!(texts));
        assert_eq!(why["gates"][0]["gate"], "not_due");
        let batch = json!({"jobs": [
            {"task": "double", "args": 1, "as": "first", "in": "1h"},
            {"task": "double", "args": 2, "after": "first", "group": "acme"},
        ]});
        let batch = ask.ask("submitJobs", "", "", Some(&batch)).await;
        let second = batch["jobs"][1]["id"].as_str().unwrap();
        assert_eq!(ask.ask("getJob", second, "", None).await["after"], json!([batch["jobs"][0]["id"]]));
        let listed = ask.ask("listJobs", "", "?group=acme&state=waiting,stuck&queue=sums&limit=5", None).await;
        assert_eq!((&listed["jobs"][0]["id"], &listed["next"]), (&json!(waiting), &Value::Null));
        let graph = ask.ask("getJobGraph", second, "", None).await;
        let ties: Vec<_> = graph["jobs"].as_array().unwrap().iter().map(|tied| (&tied["id"], &tied["layer"])).collect();
        assert_eq!(ties, [(&batch["jobs"][0]["id"], &json!(0)), (&json!(second), &json!(1))]);
        // The first digits of these ids are a time, and all of them alike.
        let begins = ask.ask("listJobs", "", &format!("?id={}", &waiting[..30]), None).await;
        assert_eq!((&begins["jobs"][0]["id"], begins["jobs"].as_array().unwrap().len()), (&json!(waiting), 1));
        assert_eq!(ask.ask("listJobs", "", "?id=00000000", None).await["jobs"], json!([]));
        assert_eq!(ask.ask("listJobs", "", "?id=ffffffff", None).await["jobs"], json!([]));
        let edit = json!({"priority": "high", "queue": "other", "at": "2030-01-31T08:30:00Z"});
        assert_eq!(ask.ask("changeJob", &waiting, "", Some(&edit)).await["decided"], "changed");
        let changed = ask.ask("getJob", &waiting, "", None).await;
        assert_eq!((&changed["priority"], &changed["queue"]), (&json!(3), &json!("other")));
        assert_eq!(changed["due_at"], "2030-01-31T08:30:00.000000Z");
        ask.ask("changeJob", &waiting, "", Some(&json!({"queue": "sums", "in": "1h"}))).await;
        assert_eq!(ask.ask("cancelJob", &waiting, "", None).await["decided"], "cancelled");
        assert_eq!(ask.ask("retryJob", &waiting, "", None).await["decided"], "waiting");
        // Jobs: what has run.
        let node = server.node().await;
        let done = server.submit(json!({"task": "double", "args": 21})).await;
        let ended = ask.ask("getJob", &done, "?wait=60s", None).await;
        assert_eq!((&ended["state"], &ended["result"]), (&json!("success"), &json!(42)));
        assert_eq!(ask.ask("getJobLog", &done, "?limit=10", None).await["lines"][0]["text"], "doubling");
        assert_eq!(ask.ask("followJobLog", &done, "", None).await["text"], "doubling");
        let broken = server.submit(json!({"task": "break", "retry": "manual"})).await;
        let stuck = server.job_in(&broken, "stuck").await;
        assert_eq!(stuck["attempts"][0]["error"], json!(["it is broken"]));
        assert_eq!(ask.ask("failJob", &broken, "", None).await["decided"], "failed");
        assert_eq!(ask.ask("getJobRequest", &done, "", None).await["args"], 21);
        let again = ask.ask("resubmitJob", &done, "", Some(&json!({"args": 4}))).await;
        assert_eq!(server.job_in(again["id"].as_str().unwrap(), "success").await["result"], 8);
        assert_eq!(ask.ask("rerunJob", &done, "", None).await["decided"], "waiting");
        server.job_in(&done, "success").await;
        // Decisions by a filter.
        let later = json!({"task": "double", "args": 1, "group": "later", "in": "1h"});
        server.submit(later.clone()).await;
        let newest = server.submit(later).await;
        let preview = ask.ask("cancelJobs", "", "", Some(&json!({"group": "later", "dry_run": true}))).await;
        assert_eq!((&preview["count"], &preview["newest"]), (&json!(2), &json!(newest)));
        let choice = json!({"group": "later", "newest": newest});
        assert_eq!(ask.ask("cancelJobs", "", "", Some(&choice)).await["decided"], 2);
        ask.ask("retryJobs", "", "", Some(&json!({"task": "break", "newest": broken}))).await;
        server.job_in(&broken, "stuck").await;
        assert_eq!(ask.ask("failJobs", "", "", Some(&json!({"newest": broken}))).await["decided"], 1);
        // Queues, groups, tasks, keys.
        let set =
            ask.ask("setQueue", "sums", "", Some(&json!({"weight": 2.5, "concurrency": 3, "rate": "10/1m"}))).await;
        assert_eq!((&set["weight"], &set["concurrency"]), (&json!(2.5), &json!("3")));
        assert_eq!(ask.ask("setQueue", "sums", "", Some(&json!({"rate": null}))).await["rate"], Value::Null);
        assert_eq!(
            ask.ask("pauseQueue", "sums", "", Some(&json!({"reason": "lunch"}))).await["paused"]["reason"],
            "lunch"
        );
        assert_eq!(ask.ask("getQueue", "sums", "", None).await["state"], "paused");
        assert_eq!(ask.ask("listQueues", "", "?after=default", None).await["queues"].as_array().unwrap().len(), 1);
        assert_eq!(ask.ask("resumeQueue", "sums", "", None).await["paused"], Value::Null);
        assert!(ask.ask("sealQueue", "sums", "", None).await["sealed"].is_string());
        assert_eq!(ask.ask("unsealQueue", "sums", "", None).await["sealed"], Value::Null);
        assert_eq!(ask.ask("resetQueue", "sums", "", None).await["was_set"], true);
        ask.ask("setGroup", "a%2Fb", "", Some(&json!({"weight": 0.5, "max_waiting": 7}))).await;
        assert_eq!(ask.ask("getGroup", "a%2Fb", "", None).await["name"], "a/b");
        ask.ask("pauseGroup", "acme", "", None).await;
        assert_eq!(ask.ask("listGroups", "", "?limit=1", None).await["next"], "a/b");
        ask.ask("resumeGroup", "acme", "", None).await;
        ask.ask("resetGroup", "a%2Fb", "", None).await;
        ask.ask("setTask", "double", "", Some(&json!({"concurrency": 4}))).await;
        assert_eq!(ask.ask("getTask", "double", "", None).await["nodes"], 1);
        ask.ask("listTasks", "", "", None).await;
        ask.ask("resetTask", "double", "", None).await;
        ask.ask("setKey", "db", "", Some(&json!({"rate": "5/1s,5"}))).await;
        assert_eq!(ask.ask("getKey", "db", "", None).await["rate"], "5/1s,5");
        ask.ask("listKeys", "", "", None).await;
        ask.ask("resetKey", "db", "", None).await;
        // Schedules.
        let schedule = json!({"task": "double", "args": 3, "cron": "0 2 * * *", "zone": "Europe/Berlin"});
        assert_eq!(ask.ask("setSchedule", "nightly", "", Some(&schedule)).await["next"].as_array().unwrap().len(), 5);
        ask.ask("listSchedules", "", "", None).await;
        assert_eq!(ask.ask("pauseSchedule", "nightly", "", None).await["paused"], true);
        assert_eq!(ask.ask("resumeSchedule", "nightly", "", None).await["paused"], false);
        let ran = ask.ask("runSchedule", "nightly", "", None).await;
        assert_eq!(server.job_in(ran["id"].as_str().unwrap(), "success").await["result"], 6);
        ask.ask("getSchedule", "nightly", "", None).await;
        ask.ask("removeSchedule", "nightly", "", None).await;
        // The installation.
        let mut foreign = request("GET", "/api/v1/events", None);
        foreign.headers_mut().insert("last-event-id", HeaderValue::from_static("nonsense"));
        assert_eq!(server.stream(foreign).await.heard("reset").await["type"], "reset");
        ask.asked.insert("listen");
        let overview = ask.ask("getOverview", "", "", None).await;
        assert_eq!(
            (&overview["nodes"], &overview["slots"], &overview["dispatcher"]),
            (&json!(1), &json!(2), &json!(true))
        );
        assert_eq!(ask.ask("listNodes", "", "", None).await["nodes"][0]["name"], "node");
        assert_eq!(ask.ask("drainNode", "node", "", None).await["drained"], true);
        assert_eq!(ask.ask("resumeNode", "node", "", None).await["drained"], false);
        let found = ask.ask("diagnose", "", "", None).await;
        let of = |subject: &str| found["findings"].as_array().unwrap().iter().find(|one| one["subject"] == subject);
        assert_eq!(of("nodes").unwrap()["text"], "1 is alive", "{found}");
        let version = server.turnwise.schema_version();
        let said = version.map_or_else(|| "there is none in memory".to_owned(), |version| format!("version {version}"));
        assert_eq!(of("schema").unwrap()["text"], json!(said), "{found}");
        ask.ask("setInstallation", "", "", Some(&json!({"retention": "failed=1d"}))).await;
        assert_eq!(ask.ask("getInstallation", "", "", None).await["log_lines"], 10_000);
        let what_if =
            json!({"slots": 8, "weights": {"acme": 2}, "concurrency": {"sums": "serial"}, "pause": ["flood"]});
        assert_eq!(ask.ask("simulate", "", "", Some(&what_if)).await["after"]["slots"], 8);
        assert_eq!(ask.ask("prune", "", "", None).await["more"], false);
        let audit = ask.ask("listAudit", "", "?limit=1", None).await;
        assert_eq!(audit["lines"][0]["target"], "installation");
        ask.ask("getStatistics", "", "?by=task&step=hour", None).await;
        ask.ask("listErrors", "", "", None).await;
        ask.ask("getMetrics", "", "", None).await;
        for id in ["getDescription", "isAlive", "isReady", "getDocs", "getDocsScript", "getDocsStyle"] {
            ask.ask(id, "", "", None).await;
        }
        // A foreign worker.
        let tasks = json!({"far": {"timeout": "30s"}});
        let facts = json!({"protocol": 1, "name": "elsewhere", "slots": 2, "language": "python 3.12", "tasks": tasks});
        let registered = ask.ask("registerWorker", "", "", Some(&facts)).await;
        let worker = registered["worker"].as_str().unwrap().to_owned();
        let far = server.submit(json!({"task": "far", "args": {"to": "ann"}})).await;
        let asked = json!({"n": 5, "wait_ms": 60_000, "held": []});
        let taken = ask.ask("takeJobs", &worker, "", Some(&asked)).await;
        assert_eq!((&taken["jobs"][0]["id"], &taken["jobs"][0]["args"]), (&json!(far), &json!({"to": "ann"})));
        let held = json!({"id": far, "fence": taken["jobs"][0]["fence"]});
        let beaten = ask.ask("beatWorker", &worker, "", Some(&json!({"slots": 2, "held": [held]}))).await;
        assert_eq!(beaten, json!({"lease_ms": 30_000, "stop": []}));
        let mut said = held.clone();
        said["progress"] = json!({"done": 1});
        said["lines"] = json!([{"number": 0, "text": "hello"}]);
        said["steps"] = json!([{"name": "one", "result": 1}]);
        let noted = ask.ask("noteRuns", &worker, "", Some(&json!({"notes": [said]}))).await;
        assert_eq!(noted["notes"][0]["answer"], "applied");
        let mut end = held.clone();
        (end["ran_ms"], end["outcome"]) = (json!(7), json!({"outcome": "done", "result": 3}));
        let settled = ask.ask("settleRuns", &worker, "", Some(&json!({"ends": [end]}))).await;
        assert_eq!(settled["ends"][0]["state"], "success");
        let left = ask.ask("leaveWorker", &worker, "", Some(&json!({"back": [], "held": []}))).await;
        assert_eq!(left["left"], true);
        let none = ask.ask("listTokens", "", "", None).await;
        assert_eq!(none["tokens"], json!([]));
        // Logging in comes last: from the first token on every request needs one.
        ask.ask("getSession", "", "", None).await;
        ask.ask("logOut", "", "", None).await;
        let grant = Grant::new([Scope::Read], Limits::default()).unwrap();
        let created = server.turnwise.create_token(NewAccess::new("ann", grant).unwrap()).await.unwrap();
        ask.ask("logIn", "", "", Some(&json!({"token": created.secret.reveal()}))).await;
        let may = Scope::ALL.into_iter();
        let admin = NewAccess::new("admin", Grant::new(may, Limits::default()).unwrap()).unwrap();
        ask.secret = Some(server.turnwise.create_token(admin).await.unwrap().secret.reveal().to_owned());
        let new = json!({"name": "ci", "scopes": ["submit"], "groups": ["acme"], "expires": "1d", "rate": 7});
        let made = ask.ask("createToken", "", "", Some(&new)).await;
        assert!(made["secret"].as_str().unwrap().starts_with(made["prefix"].as_str().unwrap()));
        let revoked = ask.ask("revokeToken", made["id"].as_str().unwrap(), "", None).await;
        assert_eq!((&revoked["state"], &revoked["groups"]), (&json!("revoked"), &json!(["acme"])));
        let ticket = ask.ask("makeTicket", "", "", Some(&json!({"groups": "acme", "origins": [EMBEDDER]}))).await;
        let redeem = json!({"ticket": ticket["ticket"], "origins": [EMBEDDER]});
        assert_eq!(ask.ask("redeemTicket", "", "", Some(&redeem)).await["groups"], json!(["acme"]));
        node.stop().await;
        let all: BTreeSet<_> = caller.routes.iter().map(|route| route.id).collect();
        assert_eq!(caller.asked, all, "{}: a route was not asked", server.store);
    }
}

/// A request to the route, right but for what a test changes.
fn right(route: &Route) -> Request<Body> {
    let name = if route.path.contains("{id}") { NO_JOB } else { "some" };
    let body = route.input.filter(|input| !input.optional).map(|_| json!({}));
    request(route.verb.method().as_str(), &path(route, name), body.as_ref())
}

fn with_body(route: &Route, body: impl Into<Body>) -> Request<Body> {
    let mut request = right(route);
    *request.body_mut() = body.into();
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request
}

fn with_query(route: &Route, query: &str) -> Request<Body> {
    let mut request = right(route);
    *request.uri_mut() = format!("{}?{query}", request.uri().path()).parse().unwrap();
    request
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_refused_by_every_route_on_every_store() {
    for server in Server::on_all().await {
        for route in &routes() {
            let told = |answer: &Answer| format!("{}: {route:?}: {}", server.store, answer.text);
            // A page of elsewhere, and a name of elsewhere that points here.
            if route.action.is_some() {
                for (name, value) in
                    [("host", "example.com"), ("origin", "http://example.com"), ("x-forwarded-for", "::1")]
                {
                    let mut request = right(route);
                    request.headers_mut().insert(name, HeaderValue::from_static(value));
                    server.send(request).await.refused(403, None);
                }
                for (address, host) in [("example.com", "127.0.0.1:8080"), ("127.0.0.1:8080", "example.com")] {
                    let mut request = right(route);
                    *request.uri_mut() = format!("http://{address}{}", request.uri()).parse().unwrap();
                    request.headers_mut().insert("host", HeaderValue::from_static(host));
                    server.send(request).await.refused(403, None);
                }
            }
            server.send(with_query(route, "nonsense=1")).await.refused(422, Some("nonsense"));
            server.send(with_query(route, "nonsense=%ff")).await.refused(400, None);
            for parameter in route.parameters {
                if !matches!(parameter.schema, "Name" | "Text" | "Snippet") {
                    let answer = server.send(with_query(route, &format!("{}=x", parameter.name))).await;
                    answer.refused(422, Some(parameter.name));
                }
                if !parameter.many {
                    let twice = format!("{0}=1&{0}=1", parameter.name);
                    server.send(with_query(route, &twice)).await.refused(422, Some(parameter.name));
                }
            }
            if let Some(Input { most, optional, .. }) = route.input {
                server.send(with_body(route, r#"{"nonsense":1}"#)).await.refused(422, Some("/nonsense"));
                server.send(with_body(route, "[]")).await.refused(422, None);
                server.send(with_body(route, "{")).await.refused(400, None);
                server.send(with_body(route, vec![0xff])).await.refused(400, None);
                server.send(with_body(route, "x".repeat(most + 1))).await.refused(413, None);
                let mut plain = with_body(route, "{}");
                plain.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
                server.send(plain).await.refused(415, None);
                let mut packed = with_body(route, vec![0x1f, 0x8b, 8, 0]);
                packed.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                server.send(packed).await.refused(415, None);
                if !optional {
                    server.send(with_body(route, "")).await.refused(400, None);
                }
            }
            if route.path.contains("{id}") {
                let answer = server.send(right(route)).await;
                assert!(answer.refused(404, None)["detail"].as_str().unwrap().contains(NO_JOB), "{}", told(&answer));
                let mut request = right(route);
                *request.uri_mut() = path(route, "nonsense").parse().unwrap();
                server.send(request).await.refused(404, None);
            }
            if route.path.contains("{name}") && route.verb != Verb::Get {
                for name in ["%00", &"x".repeat(201), "%20x"] {
                    let mut request = right(route);
                    *request.uri_mut() = path(route, name).parse().unwrap();
                    server.send(request).await.refused(422, Some("name"));
                }
            }
        }
        server.get("/api/v1/nonsense").await.refused(404, None);
        server.send(request("DELETE", "/api/v1/jobs", None)).await.refused(405, None);
        server.send(request("OPTIONS", "/api/v1/jobs", None)).await.refused(405, None);
    }
}

#[tokio::test]
async fn a_wrong_value_is_refused_with_its_place() {
    let server = Server::on_memory().await;
    for (body, status, path) in [
        (json!({"task": "t", "priority": 11}), 422, "/priority"),
        (json!({"task": 7}), 422, "/task"),
        (json!({"args": 1}), 422, "/task"),
        (json!({"task": "t", "at": "tomorrow"}), 422, "/at"),
        (json!({"task": "t", "after": [NO_JOB]}), 422, "/after"),
        (json!({"task": "t", "after": ["nobody"]}), 422, "/after"),
        (json!({"task": "t", "args": "x".repeat(1024 * 1024)}), 422, "/args"),
    ] {
        server.post("/api/v1/jobs", &body).await.refused(status, Some(path));
    }
    let batch = json!({"jobs": [{"task": "t"}, {"task": "t", "priority": 0}]});
    server.post("/api/v1/jobs/batch", &batch).await.refused(422, Some("/jobs/1/priority"));
    let batch = json!({"jobs": [{"task": "t"}, {"task": "t", "after": ["x"]}]});
    server.post("/api/v1/jobs/batch", &batch).await.refused(422, Some("/jobs/1/after"));
    let many: Vec<_> = (0..10_001).map(|_| json!({"task": "t"})).collect();
    server.post("/api/v1/jobs/batch", &json!({"jobs": many})).await.refused(422, Some("/jobs"));
    server.post("/api/v1/jobs/batch", &json!({"jobs": []})).await.refused(422, Some("/jobs"));
    assert_eq!(server.get("/api/v1/jobs").await.expect(200)["jobs"], json!([]), "nothing was stored");
}
