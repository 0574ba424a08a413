//! A service in this process, on each store in turn, and a caller of it.

#![allow(dead_code, reason = "each test file uses its part")]

mod counted;
mod schema;

use std::time::Duration;

use axum::{
    Router,
    body::{Body, BodyDataStream, to_bytes},
    http::{HeaderMap, HeaderValue, Request, header},
};
use futures_util::StreamExt;
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt;
use turnwise::{Config, Ctx, Executor, NodeName, Options, Registry, Schema, Turnwise, task};
use turnwise_server::{Origins, Service};
use turnwise_testpg::Cluster;

#[allow(unused_imports, reason = "each test file uses its part")]
pub(crate) use counted::Counted;
pub(crate) use schema::misfit;

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Pages of this origin may embed a tenant's view.
pub(crate) const EMBEDDER: &str = "https://app.example";

pub(crate) struct Server {
    pub(crate) store: &'static str,
    pub(crate) turnwise: Turnwise,
    pub(crate) service: Service,
    router: Router,
    _folder: Option<TempDir>,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The JSON of an answer with this status.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json()
    }

    /// The problem of this status, and the path that it names.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, path: Option<&str>) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem = self.json();
        assert_eq!(misfit("Problem", &problem), None);
        assert_eq!(problem["status"], status);
        if let Some(path) = path {
            assert_eq!(problem["errors"][0]["path"], path, "{problem}");
        }
        problem
    }
}

impl Server {
    pub(crate) fn of(store: &'static str, turnwise: Turnwise) -> Self {
        let service = Service::new(turnwise.clone());
        let mut embedders = Origins::default();
        [EMBEDDER, "http://localhost:3000"].iter().for_each(|origin| embedders.embed(origin).unwrap());
        service.may_be_embedded_by(embedders);
        Self { store, turnwise, router: service.router(), service, _folder: None }
    }

    /// Answers by another service from now on.
    pub(crate) fn serve(&mut self, service: Service) {
        self.router = service.router();
        self.service = service;
    }

    pub(crate) async fn on_memory() -> Self {
        Self::of("memory", Turnwise::open("memory:").await.unwrap())
    }

    pub(crate) async fn on_sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
        Self { _folder: Some(folder), ..Self::of("sqlite", Turnwise::open(&url).await.unwrap()) }
    }

    pub(crate) async fn on_postgres() -> Self {
        let url = Cluster::shared().fresh_database().unwrap();
        let options = Options { schema: Schema::Migrate, ..Options::default() };
        Self::of("postgres", Turnwise::open_with(&url, options).await.unwrap())
    }

    pub(crate) async fn on_all() -> [Self; 3] {
        [Self::on_memory().await, Self::on_sqlite().await, Self::on_postgres().await]
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = if parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream") {
            // A stream does not end by itself: its beginning is the answer.
            body.into_data_stream().next().await.expect("every stream begins with something").unwrap()
        } else {
            to_bytes(body, usize::MAX).await.unwrap()
        };
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            text: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    /// Opens a stream of events; an answer that is none is a failure.
    pub(crate) async fn stream(&self, request: Request<Body>) -> Stream {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let kind = response.headers().get(header::CONTENT_TYPE).cloned();
        assert!(response.status().is_success(), "{}: {response:?}", self.store);
        assert_eq!(kind.unwrap(), "text/event-stream");
        Stream { body: response.into_body().into_data_stream(), text: String::new(), id: None }
    }

    pub(crate) async fn listen(&self, path: &str) -> Stream {
        self.stream(request("GET", path, None)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(request("GET", path, None)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(request("POST", path, Some(body))).await
    }

    /// A form of a page, sent as a browser sends it.
    pub(crate) async fn form(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.send(form(path, fields)).await
    }

    /// The id of a new job.
    pub(crate) async fn submit(&self, job: Value) -> String {
        let submitted = self.post("/api/v1/jobs", &job).await.expect(201);
        submitted["id"].as_str().unwrap().to_owned()
    }

    /// A node that knows the tasks of this file.
    pub(crate) async fn node(&self) -> Executor {
        let mut registry = Registry::new();
        registry.register(double).unwrap().register(break_down).unwrap();
        let config = Config { core_pool_size: 2, ..Config::new(NodeName::new("node").unwrap()) };
        let executor = self.turnwise.executor_with(config).registry(registry).build().unwrap();
        executor.start().await.unwrap();
        executor
    }

    /// The job, once it is in this state.
    pub(crate) async fn job_in(&self, id: &str, state: &str) -> Value {
        let seen = async {
            loop {
                let job = self.get(&format!("/api/v1/jobs/{id}")).await.expect(200);
                if job["state"] == state {
                    return job;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, seen).await.unwrap_or_else(|_| panic!("{id} never was {state}"))
    }
}

/// A stream of events, read as a browser does.
pub(crate) struct Stream {
    body: BodyDataStream,
    text: String,
    /// The last one that was told.
    pub(crate) id: Option<String>,
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Heard {
    pub(crate) event: String,
    pub(crate) data: Value,
}

impl Stream {
    /// The next event; `None`: the stream is over.
    pub(crate) async fn next(&mut self) -> Option<Heard> {
        tokio::time::timeout(PATIENCE, self.await_next()).await.expect("an event must come")
    }

    async fn await_next(&mut self) -> Option<Heard> {
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                self.id = field("id: ").or(self.id.take());
                if let Some(data) = field("data: ") {
                    let data = serde_json::from_str(&data).unwrap_or_else(|error| panic!("{error}: {block}"));
                    return Some(Heard { event: field("event: ").expect("every event has a name"), data });
                }
            }
            self.read().await?;
        }
    }

    /// The id that is told next; events before it are left out.
    pub(crate) async fn heard_id(&mut self) -> String {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let id = block.lines().find_map(|line| line.strip_prefix("id: ")).map(str::to_owned);
                self.text = rest.to_owned();
                if let Some(id) = id {
                    self.id = Some(id.clone());
                    return id;
                }
                continue;
            }
            self.read().await.expect("a stream that goes on");
        }
    }

    async fn read(&mut self) -> Option<()> {
        let part = tokio::time::timeout(PATIENCE, self.body.next()).await.expect("something must come");
        self.text += std::str::from_utf8(&part?.unwrap()).unwrap();
        Some(())
    }

    /// The next event of this name; others are left out.
    pub(crate) async fn heard(&mut self, event: &str) -> Value {
        loop {
            let heard = self.next().await.unwrap_or_else(|| panic!("the stream ended before {event} came"));
            if heard.event == event {
                return heard.data;
            }
        }
    }
}

/// With a token.
pub(crate) fn with(mut request: Request<Body>, secret: &str) -> Request<Body> {
    let bearer = HeaderValue::try_from(format!("Bearer {secret}")).unwrap();
    request.headers_mut().insert(header::AUTHORIZATION, bearer);
    request
}

/// As a program of this machine sends it.
pub(crate) fn request(method: &str, path: &str, body: Option<&Value>) -> Request<Body> {
    let request = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:8080");
    match body {
        None => request.body(Body::empty()).unwrap(),
        Some(body) => {
            request.header(header::CONTENT_TYPE, "application/json").body(Body::from(body.to_string())).unwrap()
        }
    }
}

/// A form of a page, as a browser sends it.
pub(crate) fn form(path: &str, fields: &[(&str, &str)]) -> Request<Body> {
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let pairs: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    let request = Request::post(path).header(header::HOST, "127.0.0.1:8080").header("sec-fetch-site", "same-origin");
    let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    request.body(Body::from(pairs.join("&"))).unwrap()
}

#[task("double", register = false)]
async fn double(number: u64, ctx: Ctx) -> u64 {
    ctx.log("doubling");
    number * 2
}

#[task("break", register = false)]
async fn break_down(_anything: serde_json::Value) -> Result<(), String> {
    Err("it is broken".to_owned())
}
