//! What a token that is limited to some jobs can have done and can learn, where the route alone does not show it: by what a body names, by
//! what a job goes on as, and by what a job waits for.

mod support;

use std::sync::LazyLock;

use axum::{
    body::Body,
    http::{Request, header},
};
use serde_json::{Value, json};
use support::{Answer, Server, misfit, request};
use tokio::sync::Semaphore;
use turnwise::{
    Config, Ctx, GroupName, JobChange, JobRequest, NodeName, QueueName, Registry, TaskName,
    access::{CreatedToken, Grant, Limits, NewAccess, Scope},
    schedules::Recurring,
    settings::Concurrency,
    task,
};
use turnwise_store::operators::LOOKS;

/// A job that nobody has.
const NO_JOB: &str = "01890163-d869-7739-8aea-5966c26f8ad9";

fn of_queue(name: &str) -> Limits {
    Limits { queues: Some([QueueName::new(name).unwrap()].into()), ..Limits::default() }
}

fn of_group(name: &str) -> Limits {
    Limits { groups: Some([GroupName::new(name).unwrap()].into()), ..Limits::default() }
}

fn of_task(name: &str) -> Limits {
    Limits { tasks: Some([TaskName::new(name).unwrap()].into()), ..Limits::default() }
}

/// A caller with a token of its own.
struct Tenant<'a> {
    server: &'a Server,
    token: CreatedToken,
}

impl<'a> Tenant<'a> {
    async fn new(server: &'a Server, scopes: &[Scope], limits: Limits) -> Self {
        let grant = Grant::new(scopes.iter().copied(), limits).unwrap();
        let token = server.turnwise.create_token(NewAccess::new("tenant", grant).unwrap()).await.unwrap();
        Self { server, token }
    }

    /// One that may see everything.
    async fn admin(server: &'a Server) -> Self {
        Self::new(server, &[Scope::Submit, Scope::Admin], Limits::default()).await
    }

    fn signed(&self, method: &str, path: &str, body: Option<&Value>) -> Request<Body> {
        let mut request = request(method, path, body);
        let bearer = format!("Bearer {}", self.token.secret.reveal());
        request.headers_mut().insert(header::AUTHORIZATION, bearer.parse().unwrap());
        request
    }

    async fn send(&self, method: &str, path: &str, body: Value) -> Answer {
        self.server.send(self.signed(method, path, Some(&body))).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.server.send(self.signed("GET", path, None)).await
    }

    async fn submit(&self, job: Value) -> String {
        self.send("POST", "/api/v1/jobs", job).await.expect(201)["id"].as_str().unwrap().to_owned()
    }

    async fn count(&self) -> usize {
        self.get("/api/v1/jobs").await.expect(200)["jobs"].as_array().unwrap().len()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_tenants_page_is_complete_however_loud_another_is() {
    for server in Server::on_all().await {
        let tenant = Tenant::new(&server, &[Scope::Submit, Scope::Read], of_group("quiet")).await;
        let old = tenant.submit(json!({"task": "t", "group": "quiet"})).await;
        let many = (0..LOOKS + 100).map(|n| JobRequest::new("t", &n).group("loud"));
        server.turnwise.submit_all(many).await.unwrap();
        for filter in ["", "?state=waiting", "?queue=default", "?limit=1000"] {
            let page = tenant.get(&format!("/api/v1/jobs{filter}")).await.expect(200);
            let told = format!("{}, {filter}: {page}", server.store);
            assert_eq!((page["jobs"].as_array().unwrap().len(), &page["jobs"][0]["id"]), (1, &json!(old)), "{told}");
            assert_eq!((&page["next"], &page["reached"]), (&Value::Null, &Value::Null), "{told}");
        }
    }
}

/// A program that has found no names for its new token must not get one for everything.
#[tokio::test]
async fn a_limit_without_names_makes_no_unlimited_token() {
    let server = Server::on_memory().await;
    let admin = Tenant::admin(&server).await;
    for limit in ["queues", "groups", "tasks"] {
        let new = json!({"name": "t", "scopes": ["read"], limit: []});
        admin.send("POST", "/api/v1/tokens", new).await.refused(422, Some(&format!("/{limit}")));
    }
    let nothing = json!({"state": [], "dry_run": true});
    admin.send("POST", "/api/v1/jobs/cancel", nothing).await.refused(422, Some("/state"));
    assert_eq!(server.turnwise.tokens().await.unwrap().0.len(), 1, "only the administrator's");
}

#[tokio::test]
async fn a_token_limited_to_tasks_makes_no_job_that_goes_on_as_another() {
    for server in Server::on_all().await {
        let admin = Tenant::admin(&server).await;
        let tenant = Tenant::new(&server, &[Scope::Submit, Scope::Admin], of_task("mail")).await;
        for way in ["next", "on_exhausted"] {
            let told = format!("{}: {way}", server.store);
            let foreign = json!({"task": "mail", way: "admin-task"});
            tenant.send("POST", "/api/v1/jobs", foreign.clone()).await.refused(404, None);
            let batch = json!({"jobs": [{"task": "mail"}, foreign]});
            tenant.send("POST", "/api/v1/jobs/batch", batch).await.refused(404, None);
            let mut keyed = tenant.signed("POST", "/api/v1/jobs", Some(&foreign));
            keyed.headers_mut().insert("idempotency-key", "order-7".parse().unwrap());
            server.send(keyed).await.refused(404, None);
            let schedule = json!({"task": "mail", way: "admin-task", "every": "1h"});
            tenant.send("PUT", "/api/v1/schedules/mine", schedule).await.refused(404, None);
            assert_eq!(admin.count().await, 0, "{told}: a job was stored");
            admin.get("/api/v1/schedules/mine").await.refused(404, None);
            // One that another token has set is the tenant's to see, and not to run.
            let job = JobRequest::new("mail", &1);
            let job = if way == "next" {
                job.next("admin-task")
            } else {
                job.on_exhausted(JobRequest::new("admin-task", &1))
            };
            server.turnwise.set_schedule("theirs", Recurring::every("1h", job)).await.unwrap();
            tenant.get("/api/v1/schedules/theirs").await.expect(200);
            tenant.send("POST", "/api/v1/schedules/theirs/run", json!({})).await.refused(404, None);
            assert_eq!(admin.count().await, 0, "{told}: a job was stored");
            server.turnwise.remove_schedule("theirs").await.unwrap();
        }
        // A change of a job names no task.
        let own = tenant.submit(json!({"task": "mail", "next": "mail", "on_exhausted": "mail"})).await;
        let path = format!("/api/v1/jobs/{own}");
        for name in ["task", "next", "on_exhausted"] {
            tenant.send("PATCH", &path, json!({name: "admin-task"})).await.refused(422, Some(&format!("/{name}")));
        }
        tenant
            .send("PUT", "/api/v1/schedules/mine", json!({"task": "mail", "next": "mail", "every": "1h"}))
            .await
            .expect(200);
        tenant.send("POST", "/api/v1/schedules/mine/run", json!({})).await.expect(201);
    }
}

#[tokio::test]
async fn what_a_body_names_must_be_the_tokens_own_too() {
    for server in Server::on_all().await {
        let admin = Tenant::admin(&server).await;
        let tenant = Tenant::new(&server, &[Scope::Submit, Scope::Admin], of_queue("own")).await;
        let foreign = admin.submit(json!({"task": "t", "queue": "rival", "in": "1h"})).await;
        let own = tenant.submit(json!({"task": "t", "queue": "own", "in": "1h"})).await;
        let before = admin.count().await;
        // Jobs that others wait for, anywhere in a batch: as for a job that is not there.
        let waits_for = |id: &str| json!({"jobs": [{"task": "t", "queue": "own", "as": "x"}, {"task": "t", "queue": "own", "after": ["x", id]}]});
        let mut texts = Vec::new();
        for id in [foreign.as_str(), NO_JOB] {
            let refused = tenant.send("POST", "/api/v1/jobs/batch", waits_for(id)).await;
            texts.push(refused.refused(422, Some("/jobs/1/after")).to_string().replace(id, "ID"));
        }
        assert_eq!(texts[0], texts[1], "{}", server.store);
        // The id of a job that is there.
        for path in ["/api/v1/jobs", "/api/v1/jobs/batch"] {
            let job = json!({"task": "t", "queue": "own", "id": foreign});
            let body = if path.ends_with("batch") { json!({"jobs": [job]}) } else { job };
            assert_eq!(tenant.send("POST", path, body).await.status, 422, "{}: {path}", server.store);
        }
        assert_eq!(admin.count().await, before, "{}: a job was stored", server.store);
        // The queue that a job moves to.
        let path = format!("/api/v1/jobs/{own}");
        tenant.send("PATCH", &path, json!({"queue": "rival", "priority": 1})).await.refused(404, None);
        let shown = tenant.get(&path).await.expect(200);
        assert_eq!((&shown["queue"], &shown["priority"]), (&json!("own"), &json!(5)), "{}", server.store);
        // The queue that a queue waits for.
        tenant.send("PATCH", "/api/v1/queues/own", json!({"after": ["rival"]})).await.refused(422, Some("/after"));
        tenant
            .send("PATCH", "/api/v1/queues/own", json!({"after": ["own", "rival"]}))
            .await
            .refused(422, Some("/after"));
        assert!(
            server
                .turnwise
                .settings()
                .await
                .unwrap()
                .queues
                .get(&QueueName::new("own").unwrap())
                .is_none_or(|set| set.after.is_empty())
        );
        // A decision by a filter that names others' jobs is about none.
        for filter in
            [json!({"queue": "rival"}), json!({"newest": foreign}), json!({"queue": "rival", "newest": foreign})]
        {
            let mut body = filter.clone();
            if body.get("newest").is_none() {
                body["dry_run"] = json!(true);
            }
            let answer = tenant.send("POST", "/api/v1/jobs/cancel", body).await.expect(200);
            assert!(answer["count"] == 0 || answer["decided"] == 0, "{}: {filter} {answer}", server.store);
        }
        assert_eq!(admin.get(&format!("/api/v1/jobs/{foreign}")).await.expect(200)["state"], "waiting");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_job_waits_for_is_told_without_others_names() {
    for server in Server::on_all().await {
        let admin = Tenant::admin(&server).await;
        let tenant = Tenant::new(&server, &[Scope::Read], of_group("acme")).await;
        let turnwise = &server.turnwise;
        let node = server.node().await;
        for queue in ["line", "held"] {
            turnwise.set_queue(queue, |set| set.concurrency = Concurrency::Serial).await.unwrap();
        }
        turnwise.set_queue("late", |set| set.after = vec![QueueName::new("rival-queue").unwrap()]).await.unwrap();
        // The first of one line waits until the queue goes on, and nobody knows the task of the other's.
        turnwise.pause_queue("line", None).await.unwrap();
        let paused = json!({"task": "double", "args": 1, "queue": "line", "group": "rival-group"});
        let unknown = json!({"task": "rival-task", "queue": "held", "group": "rival-group"});
        let (first, held) = (admin.submit(paused).await, admin.submit(unknown).await);
        let awaited = admin.submit(json!({"task": "double", "args": 1, "group": "rival-group", "in": "1h"})).await;
        let own = |queue: &str| json!({"task": "double", "args": 1, "queue": queue, "group": "acme"});
        let after = json!({"task": "double", "args": 1, "group": "acme", "after": [awaited]});
        let mut seen = Vec::new();
        for (gate, job, named) in [
            ("line", own("line"), first.as_str()),
            ("held_line", own("held"), held.as_str()),
            ("waits_for_jobs", after, awaited.as_str()),
            ("waits_for_queue", own("late"), "rival-queue"),
        ] {
            let id = admin.submit(job).await;
            let path = format!("/api/v1/jobs/{id}");
            let answered = async |tenant: &Tenant<'_>| {
                let why = tenant.get(&format!("{path}/why")).await.expect(200);
                assert_eq!(misfit("Why", &why), None);
                assert!(why["gates"].as_array().unwrap().iter().any(|told| told["gate"] == gate), "{gate}: {why}");
                let (shown, whole) = (tenant.get(&path).await, tenant.get(&format!("{path}?gates=true")).await);
                let waits = whole.expect(200)["waits_for"].clone();
                assert_ne!(waits, json!([]), "{}: {gate}", server.store);
                [why.to_string(), shown.expect(200).to_string(), whole.text].join("\n")
            };
            let whole = answered(&admin).await;
            assert!(whole.contains(named), "{}: an administrator is told: {whole}", server.store);
            seen.push(answered(&tenant).await);
        }
        let listed = tenant.get("/api/v1/jobs?group=acme").await.expect(200);
        assert_eq!(listed["jobs"].as_array().unwrap().len(), 4);
        seen.push(listed.to_string());
        for text in &seen {
            for foreign in ["rival", &first, &held, &awaited] {
                assert!(!text.contains(foreign), "{}: {foreign} is in {text}", server.store);
            }
        }
        assert!(seen[2].contains("waits for 1 of the jobs that it comes after"), "a number is told: {}", seen[2]);
        node.stop().await;
    }
}

/// What is set for a shared or an own queue names no queue that the token finds in no list.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_shown_without_the_names_of_others_that_it_waits_for() {
    for server in Server::on_all().await {
        let admin = Tenant::admin(&server).await;
        let both = Limits {
            queues: Some(["own", "mine"].map(|name| QueueName::new(name).unwrap()).into()),
            ..Limits::default()
        };
        let by_queue = Tenant::new(&server, &[Scope::Admin], both).await;
        let by_group = Tenant::new(&server, &[Scope::Read], of_group("acme")).await;
        let after = json!({"after": ["rival", "mine"]});
        admin.submit(json!({"task": "t", "queue": "rival", "group": "rival"})).await;
        for queue in ["own", "mine"] {
            admin.submit(json!({"task": "t", "queue": queue, "group": "acme"})).await;
        }
        let set = admin.send("PATCH", "/api/v1/queues/own", after).await.expect(200);
        assert_eq!(set["after"], json!(["rival", "mine"]), "an administrator is told");
        let mut heard = server.stream(by_queue.signed("GET", "/api/v1/events?type=queue", None)).await;
        for tenant in [&by_queue, &by_group] {
            let (one, list) = (tenant.get("/api/v1/queues/own").await, tenant.get("/api/v1/queues").await);
            assert_eq!(one.expect(200)["after"], json!(["mine"]), "{}", server.store);
            assert!(!list.text.contains("rival"), "{}: {}", server.store, list.text);
        }
        for (method, path) in [
            ("PATCH", "/api/v1/queues/own"),
            ("POST", "/api/v1/queues/own/pause"),
            ("POST", "/api/v1/queues/own/resume"),
            ("POST", "/api/v1/queues/own/seal"),
            ("POST", "/api/v1/queues/own/unseal"),
        ] {
            let body = if method == "PATCH" { json!({"weight": 2}) } else { json!({}) };
            let set = by_queue.send(method, path, body).await.expect(200);
            assert_eq!(set["after"], json!(["mine"]), "{}: {path}", server.store);
        }
        let event = heard.heard("queue").await;
        assert_eq!(misfit("Event", &event), None);
        assert_eq!(event["queue"]["after"], json!(["mine"]), "{}", server.store);
        let whole = admin.get("/api/v1/queues/own").await.expect(200);
        assert_eq!(whole["after"], json!(["rival", "mine"]), "{}: it waits for both all the same", server.store);
    }
}

/// Each run of a step waits for a test to let it go on.
static STEP: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(0));

#[task("mine", register = false)]
async fn mine(_anything: Value, ctx: Ctx) {
    ctx.log("of the token's own task");
    STEP.acquire().await.unwrap().forget();
}

#[task("rival-task", register = false)]
async fn theirs(_anything: Value, ctx: Ctx) {
    ctx.log("of another's task");
    STEP.acquire().await.unwrap().forget();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_followed_no_longer_than_its_job_is_the_tokens_own() {
    for server in Server::on_all().await {
        // A job that waits goes to another's queue: its log is silent, and the stream ends all the same.
        let by_queue = Tenant::new(&server, &[Scope::Read], of_queue("own")).await;
        let id = server.turnwise.submit(JobRequest::new("unknown", &1).queue("own")).await.unwrap();
        let mut log = server.stream(by_queue.signed("GET", &format!("/api/v1/jobs/{id}/log/live"), None)).await;
        server.turnwise.change(id, &JobChange::new().queue("rival")).await.unwrap();
        let closed = log.heard("closed").await;
        assert_eq!(misfit("Event", &closed), None);
        assert!(!closed.to_string().contains("rival"), "{}: {closed}", server.store);
        assert_eq!(log.next().await, None, "{}", server.store);
        // One that runs goes on as another's task.
        let by_task = Tenant::new(&server, &[Scope::Read], of_task("mine")).await;
        let job = JobRequest::new("mine", &1).next("rival-task");
        let id = server.turnwise.submit(job).await.unwrap();
        let path = format!("/api/v1/jobs/{id}/log/live");
        let mut log = server.stream(by_task.signed("GET", &path, None)).await;
        let mut registry = Registry::new();
        registry.register(mine).unwrap().register(theirs).unwrap();
        let config = Config { core_pool_size: 2, ..Config::new(NodeName::new("steps").unwrap()) };
        let node = server.turnwise.executor_with(config).registry(registry).build().unwrap();
        node.start().await.unwrap();
        assert_eq!(log.heard("line").await["text"], "of the token's own task");
        STEP.add_permits(1);
        let next = log.next().await.expect("an event");
        assert_eq!(next.event, "closed", "{}: {next:?}", server.store);
        assert_eq!(log.next().await, None, "{}", server.store);
        server.send(by_task.signed("GET", &path, None)).await.refused(404, None);
        STEP.add_permits(1);
        assert_eq!(server.turnwise.wait(id).await.unwrap().task.as_str(), "rival-task");
        node.stop().await;
    }
}
