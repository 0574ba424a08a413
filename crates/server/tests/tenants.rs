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
    Config, Ctx, JobChange, JobRequest, NodeName, QueueName, Registry, TaskName,
    access::{CreatedToken, Grant, Limits, NewAccess, Scope},
    schedules::Recurring,
    task,
};

fn of_queue(name: &str) -> Limits {
    Limits { queues: Some([QueueName::new(name).unwrap()].into()), ..Limits::default() }
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
