//! Who may ask for what: every route with every kind of token, on what is the token's own and on what is not.

mod support;

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, Request, header},
};
use serde_json::{Value, json};
use support::{Answer, EMBEDDER, PATIENCE, Server, request};
use tokio::time::Instant;
use turnwise::{
    GroupName, JobId, JobRequest, JobState, Options, QueueName, TaskName, Timestamp, Turnwise,
    access::{Action, CreatedToken, Grant, Limits, NewAccess, Reach, Scope},
    schedules::Recurring,
};
use turnwise_core::{
    NewJob,
    access::{Refusal, Target},
};
use turnwise_server::{Route, Verb, routes};
use turnwise_store::memory::{Clock, MemoryStore};

/// What a token may be limited by, each alone.
const LIMITS: [&str; 3] = ["queue", "group", "task"];

fn limited_by(what: &str, side: &Side) -> Limits {
    match what {
        "queue" => Limits { queues: Some([side.queue()].into()), ..Limits::default() },
        "group" => Limits { groups: Some([side.group()].into()), ..Limits::default() },
        _ => Limits { tasks: Some([side.task()].into()), ..Limits::default() },
    }
}

/// What only answers about others' jobs have.
const CANARY: &str = "canary-7c1f";

/// One of two tenants that have nothing in common: the names of all that is theirs, and the job that they have.
struct Side {
    name: &'static str,
    job: JobId,
}

impl Side {
    const NAMES: [&'static str; 2] = ["acme", "rival"];

    /// With a job, a schedule, and reasons to pause.
    async fn new(server: &Server, name: &'static str) -> Self {
        let side = Self { name, job: JobId::from_parts(0, [0; 10]) };
        side.set_up(server).await;
        let job = server.turnwise.submit(side.request().unique(side.secret())).await.unwrap();
        Self { job, ..side }
    }

    fn queue(&self) -> QueueName {
        QueueName::new(format!("{}-queue", self.name)).unwrap()
    }

    fn group(&self) -> GroupName {
        GroupName::new(format!("{}-group", self.name)).unwrap()
    }

    fn task(&self) -> TaskName {
        TaskName::new(format!("{}-task", self.name)).unwrap()
    }

    fn schedule(&self) -> String {
        format!("{}-schedule", self.name)
    }

    fn secret(&self) -> String {
        format!("{CANARY}-{}", self.name)
    }

    fn request(&self) -> JobRequest {
        JobRequest::new(self.task().as_str(), &self.secret()).queue(self.queue().as_str()).group(self.group().as_str())
    }

    /// What a test has taken away or set, as it was.
    async fn set_up(&self, server: &Server) {
        let turnwise = &server.turnwise;
        let (queue, group) = (self.queue(), self.group());
        turnwise.reset_queue(queue.as_str()).await.unwrap();
        turnwise.reset_group(group.as_str()).await.unwrap();
        turnwise.reset_task(self.task().as_str()).await.unwrap();
        let reason = || Some(self.secret());
        turnwise.pause_queue(queue.as_str(), reason()).await.unwrap();
        turnwise.pause_group(group.as_str(), reason()).await.unwrap();
        let recurring = Recurring::every("1h", self.request());
        turnwise.set_schedule(self.schedule(), recurring).await.unwrap();
    }

    /// The side's job as the route finds or submits it.
    fn new_job(&self) -> NewJob {
        self.request().into_job(Timestamp::MIN).unwrap()
    }
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

/// A request that is right, about what belongs to this side.
fn asked(route: &Route, side: &Side) -> Request<Body> {
    let name = match route.path {
        path if path.contains("/groups/") => side.group().to_string(),
        path if path.contains("/schedules/") => side.schedule(),
        path if path.contains("/tasks/") => side.task().to_string(),
        _ => side.queue().to_string(),
    };
    let path = route.path.replace("{id}", &side.job.to_string()).replace("{name}", &name);
    // No worker has this id: it counts as one that is lost.
    let path = path.replace("{worker}", &side.job.to_string());
    let names = json!({"task": side.task(), "group": side.group(), "queue": side.queue()});
    let with = |mut body: Value| {
        body.as_object_mut().unwrap().extend(names.as_object().unwrap().clone());
        body
    };
    let body = route.input.map(|input| match input.schema {
        "Request" => names.clone(),
        "Batch" => json!({"jobs": [names]}),
        "CancelChoice" | "RetryChoice" | "FailChoice" => with(json!({"dry_run": true})),
        "JobEdit" => json!({"priority": 1}),
        "NewToken" => json!({"name": "made", "scopes": ["read"]}),
        "NewTicket" => json!({"groups": [side.group()], "origins": [EMBEDDER]}),
        "NewSchedule" => with(json!({"every": "1h"})),
        "RegisterWorker" => json!({
            "protocol": 1, "name": "worker", "slots": 1, "queues": [side.queue()], "tasks": {side.task().as_str(): {}},
        }),
        "TakeJobs" => json!({"n": 0, "held": []}),
        "BeatWorker" => json!({"slots": 1, "held": []}),
        "NoteRuns" => json!({"notes": []}),
        "SettleRuns" => json!({"ends": []}),
        "LeaveWorker" => json!({"back": []}),
        _ => json!({}),
    });
    request(route.verb.method().as_str(), &path, body.as_ref())
}

/// The same with each name of the side as a parameter, one at a time.
fn asked_by_parameters(route: &Route, own: &Side, side: &Side) -> Vec<Request<Body>> {
    let value = |name: &str| match name {
        "queue" => Some(side.queue().to_string()),
        "group" => Some(side.group().to_string()),
        "task" => Some(side.task().to_string()),
        "unique" | "args_contain" => Some(side.secret()),
        "filter" => Some(format!("group:{}", side.group())),
        "job" | "id" => Some(side.job.to_string()),
        _ => None,
    };
    let pairs = route.parameters.iter().filter_map(|known| Some((known.name, value(known.name)?)));
    let with = |(name, value): (&str, String)| {
        let mut request = asked(route, own);
        // Numbers by group are those of one queue.
        let by = if route.path.ends_with("/statistics") && name == "group" { "&by=group&queue=acme-queue" } else { "" };
        *request.uri_mut() = format!("{}?{name}={value}{by}", request.uri()).parse().unwrap();
        request
    };
    pairs.map(with).collect()
}

/// What a route answers to a token that may do it, about what is there: some jobs are not in a state for it.
fn done(status: u16) -> bool {
    matches!(status, 200 | 201 | 409)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_with_every_scope_and_every_state_of_a_token() {
    for server in Server::on_all().await {
        let own = Side::new(&server, Side::NAMES[0]).await;
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
            // What a log-in answers, login.rs shows; and embed.rs, what a ticket is redeemed for.
            if matches!(route.path, "/api/v1/session" | "/api/v1/tickets/redeem") {
                continue;
            }
            let Some(action) = route.action else {
                assert!(server.send(asked(route, &own)).await.status == 200, "{route:?} needs no token");
                continue;
            };
            // Without a good token nobody gets in, whatever is asked for.
            let no_header = server.send(asked(route, &own)).await;
            no_header.refused(401, None);
            assert_eq!(no_header.header("www-authenticate"), "Bearer");
            for secret in [unknown.as_str(), "nonsense", expired.secret.reveal(), revoked.secret.reveal()] {
                server.send(with(asked(route, &own), secret)).await.refused(401, None);
                cells += 1;
            }
            for scope in Scope::ALL {
                let told = || format!("{}: {route:?} with {scope}", server.store);
                let whole = token(&server, &[scope], Limits::default()).await;
                let answer = server.send(with(asked(route, &own), whole.secret.reveal())).await;
                if scope.includes(action.scope()) {
                    assert!(done(answer.status) || gone(route, answer.status), "{}: {}", told(), answer.text);
                } else {
                    assert_eq!(answer.status, 403, "{}: {}", told(), answer.text);
                }
                if route.verb != Verb::Get {
                    own.set_up(&server).await;
                }
                cells += 1;
            }
        }
        assert!(cells > 500, "{cells} cells");
    }
}

/// What each limited token gets follows from [`Grant::check`] and from what the route names, and nothing that it gets has a word of
/// another's job, schedule or pause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_with_every_scope_and_every_limit_of_a_token() {
    for server in Server::on_all().await {
        let own = Side::new(&server, Side::NAMES[0]).await;
        let foreign = Side::new(&server, Side::NAMES[1]).await;
        let mut cells = 0;
        for (limit, scope) in LIMITS.into_iter().flat_map(|limit| Scope::ALL.map(|scope| (limit, scope))) {
            if (limit, scope) == ("group", Scope::Work) {
                continue;
            }
            let limited = token(&server, &[scope], limited_by(limit, &own)).await;
            let ask = async |request| server.send(with(request, limited.secret.reveal())).await;
            let leaks = |answer: &Answer| answer.text.contains(&foreign.secret());
            for route in routes().iter().filter(|route| route.path != "/api/v1/session") {
                let Some(action) = route.action else { continue };
                for side in [&own, &foreign] {
                    let told =
                        format!("{}: {route:?} with {scope}, limited to a {limit}, of {}", server.store, side.name);
                    let answer = ask(asked(route, side)).await;
                    let expected = expected(&limited.token.grant, action, route, side);
                    let status = if done(answer.status) { 200 } else { answer.status };
                    assert_eq!(status, expected, "{told}: {}", answer.text);
                    assert!(!leaks(&answer), "{told}: {}", answer.text);
                    for request in asked_by_parameters(route, &own, side) {
                        let uri = request.uri().clone();
                        let answer = ask(request).await;
                        assert!(answer.status < 500, "{told}: {uri}: {}", answer.text);
                        // What was asked for may be named; what is there may not.
                        assert!(
                            uri.to_string().contains(&foreign.secret()) || !leaks(&answer),
                            "{told}: {uri} {}",
                            answer.text
                        );
                        cells += 1;
                    }
                    cells += 1;
                    if route.verb != Verb::Get && done(answer.status) {
                        side.set_up(&server).await;
                    }
                }
            }
        }
        assert!(cells > 2_000, "{cells} cells");
        let whole = server.turnwise.job(foreign.job).await.unwrap();
        let as_it_was = (JobState::Waiting, foreign.queue(), turnwise::Priority::default());
        assert_eq!((whole.state, whole.queue, whole.priority), as_it_was, "{}: no one has touched it", server.store);
    }
}

/// What a token gets by core's own answer to the question what the route is about.
fn expected(grant: &Grant, action: Action, route: &Route, side: &Side) -> u16 {
    let (queue, group, task, job) = (side.queue(), side.group(), side.task(), side.new_job());
    let target = match route.path {
        path if path.contains("/keys/") => Target::Key,
        path if path.contains("/queues/") => Target::Queue(&queue),
        path if path.contains("/groups/") => Target::Group(&group),
        path if path.contains("/tasks/") => Target::Task(&task),
        _ if matches!(route.id, "submitJob" | "submitJobs" | "setSchedule") => Target::New(&job),
        // A worker is the token's own, whatever it is limited to.
        path if path.contains("/workers") => Target::Many,
        path if path.contains('{') => Target::Job { queue: &queue, group: &group, task: &task },
        _ if action.reach() == Reach::Installation => Target::Installation,
        _ => Target::Many,
    };
    match grant.check(action, target) {
        Err(Refusal::NotFound) => 404,
        Err(_) => 403,
        // It may be there or not: the token has no jobs in it.
        Ok(()) if side.name != Side::NAMES[0] && matches!(route.id, "getQueue" | "getGroup" | "getTask") => 404,
        // It gives away no more than it has, and says so.
        Ok(())
            if route.id == "makeTicket" && grant.limits().groups.as_ref().is_some_and(|own| !own.contains(&group)) =>
        {
            403
        }
        // It is registered for what the token has of its queues and tasks, which is nothing.
        Ok(()) if route.id == "registerWorker" && !grant.covers(&queue, &group, &task) => 403,
        Ok(()) => 200,
    }
}

/// A name that there may be nothing about, or a task or a key that nothing is set for.
fn gone(route: &Route, status: u16) -> bool {
    let names = ["getKey", "getTask", "getQueue", "getGroup", "revokeToken", "drainNode", "resumeNode"];
    status == 404 && names.contains(&route.id)
}

fn of_group(group: &str) -> Limits {
    Limits { groups: Some([GroupName::new(group).unwrap()].into()), ..Limits::default() }
}

/// The jobs and schedules of two groups.
async fn two_groups(server: &Server) -> [String; 2] {
    let mut ids = Vec::new();
    for group in ["acme", "other"] {
        let id = server.turnwise.submit(JobRequest::new("t", &1).group(group)).await.unwrap();
        ids.push(id.to_string());
        let recurring = Recurring::every("1h", JobRequest::new("t", &1).group(group));
        server.turnwise.set_schedule(format!("of-{group}"), recurring).await.unwrap();
    }
    ids.try_into().unwrap()
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
        let overview = ask("/api/v1/overview").await.expect(200);
        assert_eq!(overview["waiting"], 1);
        // Nodes are not its to see: it is not told that there are none.
        for name in ["nodes", "slots", "dispatcher"] {
            assert_eq!(overview.get(name), Some(&json!(null)), "{name}");
        }
        let operator = token(&server, &[Scope::Operate], of_group("acme")).await;
        let all = request("POST", "/api/v1/jobs/cancel", Some(&json!({"dry_run": true})));
        let preview = server.send(with(all, operator.secret.reveal())).await.expect(200);
        assert_eq!((&preview["count"], &preview["newest"]), (&json!(1), &json!(own)), "{}", server.store);
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

/// On a store whose clock goes with the test's: what waits ends within five seconds after its token has expired.
#[tokio::test(start_paused = true)]
async fn what_waits_with_a_token_ends_within_five_seconds_after_it_has_expired() {
    let (begun, real) = (Instant::now(), Clock::system().now());
    let clock = Clock::new(move || real.plus(begun.elapsed()));
    let store = MemoryStore::new(Options::default(), clock);
    let operators = Arc::new(store.clone());
    let server = Server::of("memory", Turnwise::on(Arc::new(store)).with_operators(operators));
    let grant = Grant::new([Scope::Read], Limits::default()).unwrap();
    let life = Duration::from_millis(7_300);
    let access = NewAccess::new("short", grant).unwrap().expires_in(life).unwrap();
    let created = server.turnwise.create_token(access).await.unwrap();
    let expires = Instant::now() + life;
    let id = server.turnwise.submit(JobRequest::new("nobody-knows", &1)).await.unwrap();
    let signed = |path: &str| with(request("GET", path, None), created.secret.reveal());
    let poll = server.send(signed(&format!("/api/v1/jobs/{id}?wait=60s")));
    let stream = async |path: String| {
        let mut stream = server.stream(signed(&path)).await;
        let closed = stream.heard("closed").await;
        assert_eq!((&closed["reason"], stream.next().await), (&json!("the token has expired"), None), "{path}");
        Instant::now()
    };
    let streams = [stream("/api/v1/events".to_owned()), stream(format!("/api/v1/jobs/{id}/log/live"))].map(Box::pin);
    let poll = async {
        poll.await.refused(401, None);
        Instant::now()
    };
    let (polled, ended) = tokio::join!(poll, futures_util::future::join_all(streams));
    for over in ended.into_iter().chain([polled]) {
        assert!(over >= expires, "{:?} too soon", expires - over);
        assert!(over <= expires + Duration::from_secs(5), "{:?} too late", over - expires);
    }
    server.send(signed("/api/v1/jobs")).await.refused(401, None);
}

#[tokio::test]
async fn an_operator_takes_away_nothing_that_only_an_administrator_may_set() {
    let server = Server::on_memory().await;
    let administrator = token(&server, &[Scope::Admin], Limits::default()).await;
    let operator = token(&server, &[Scope::Operate], Limits::default()).await;
    let ask = async |method: &str, path: &str, body: Option<&Value>, by: &CreatedToken| {
        server.send(with(request(method, path, body), by.secret.reveal())).await
    };
    for kind in ["queues", "groups", "tasks", "keys"] {
        let path = format!("/api/v1/{kind}/one");
        let limit = json!({"rate": "5/1s,5"});
        ask("PATCH", &path, Some(&limit), &administrator).await.expect(200);
        ask("PATCH", &path, Some(&json!({"rate": null})), &operator).await.refused(403, None);
        ask("POST", &format!("{path}/reset"), None, &operator).await.refused(403, None);
        assert_eq!(ask("GET", &path, None, &operator).await.expect(200)["rate"], "5/1s,5", "{kind}");
        assert_eq!(ask("POST", &format!("{path}/reset"), None, &administrator).await.expect(200)["was_set"], true);
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
