//! Reads of a large backlog: counts come from the dispatcher, and `why` from a view that is kept.

mod support;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use support::{Server, request};
use tokio::sync::Notify;
use turnwise::{Config, JobRequest, Turnwise};
use turnwise_store::{Load, MemoryStore, Page, Result, Store, delegate::Delegate};

/// Holds up who reads the backlog, and counts how often it is read.
#[derive(Debug)]
struct Slow {
    inner: Arc<dyn Store>,
    holds: AtomicBool,
    go: Notify,
    reads: AtomicUsize,
}

#[async_trait::async_trait]
impl Delegate for Slow {
    fn inner(&self) -> Arc<dyn Store> {
        self.inner.clone()
    }

    async fn load(&self, load: Load) -> Result<Page> {
        if matches!(load, Load::After { .. }) {
            self.reads.fetch_add(1, Ordering::SeqCst);
            if self.holds.load(Ordering::SeqCst) {
                self.go.notified().await;
            }
        }
        self.inner.load(load).await
    }
}

#[tokio::test]
async fn the_first_why_builds_the_view_meanwhile_others_get_429_and_then_it_is_kept() {
    let memory = MemoryStore::default();
    let slow =
        Arc::new(Slow { inner: Arc::new(memory.clone()), holds: true.into(), go: Notify::new(), reads: 0.into() });
    let turnwise = Turnwise::on(slow.clone()).with_operators(Arc::new(memory));
    let id = turnwise.submit(JobRequest::new("t", &())).await.unwrap();
    let server = Arc::new(Server::of("slow", turnwise));
    let path = format!("/api/v1/jobs/{id}/why");
    let first = tokio::spawn({
        let (server, path) = (server.clone(), path.clone());
        async move { server.get(&path).await }
    });
    while slow.reads.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let busy = server.send(request("GET", &path, None)).await;
    busy.refused(429, None);
    assert!(!busy.header("retry-after").is_empty());
    slow.holds.store(false, Ordering::SeqCst);
    slow.go.notify_one();
    first.await.unwrap().expect(200);
    let reads = slow.reads.load(Ordering::SeqCst);
    for _ in 0..3 {
        server.get(&path).await.expect(200);
    }
    assert_eq!(slow.reads.load(Ordering::SeqCst), reads, "the backlog was read once");
}

#[tokio::test]
async fn what_holds_up_a_job_of_a_serial_queue_is_asked_of_the_view_that_is_kept() {
    let memory = MemoryStore::default();
    let (holds, go) = (AtomicBool::new(false), Notify::new());
    let slow = Arc::new(Slow { inner: Arc::new(memory.clone()), holds, go, reads: 0.into() });
    let turnwise = Turnwise::on(slow.clone()).with_operators(Arc::new(memory));
    let server = Server::of("slow", turnwise.clone());
    let serial = serde_json::json!({"concurrency": "serial"});
    server.send(request("PATCH", "/api/v1/queues/default", Some(&serial))).await.expect(200);
    turnwise.submit(JobRequest::new("t", &1)).await.unwrap();
    let second = turnwise.submit(JobRequest::new("t", &2)).await.unwrap();
    let path = format!("/api/v1/jobs/{second}?gates=true");
    let first = server.get(&path).await.expect(200);
    let direct = turnwise.gates_of(&turnwise.job(second).await.unwrap()).await.unwrap();
    let direct: Vec<_> = direct.iter().map(ToString::to_string).collect();
    assert_eq!(first["waits_for"], serde_json::json!(direct), "as without a server");
    let reads = slow.reads.load(Ordering::SeqCst);
    for _ in 0..3 {
        assert_eq!(server.get(&path).await.expect(200)["waits_for"], first["waits_for"]);
    }
    assert_eq!(slow.reads.load(Ordering::SeqCst), reads, "the backlog was read once");
}

#[tokio::test]
async fn more_jobs_than_a_page_are_counted_by_the_dispatcher() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    let jobs =
        (0..10_050).map(|n| JobRequest::new("unknown", &n).group(format!("g{}", n % 201)).queue(format!("q{}", n % 3)));
    turnwise.submit_all(jobs).await.unwrap();
    let server = Server::of("memory", turnwise.clone());
    let alone = server.get("/api/v1/overview").await.expect(200);
    assert_eq!((&alone["waiting"], &alone["at_least"]), (&10_050.into(), &false.into()), "up to 20,000 are looked at");
    let node = turnwise.executor_with(Config::new("a".parse().unwrap())).build().unwrap();
    node.start().await.unwrap();
    let told = loop {
        let overview = server.get("/api/v1/overview").await.expect(200);
        if overview["counted_at"] != overview["now"] && overview["at_least"] == false {
            break overview;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((&told["waiting"], &told["queues"], &told["groups"]), (&10_050.into(), &3.into(), &201.into()));
    let queues = server.get("/api/v1/queues").await.expect(200);
    assert_eq!(queues["queues"][1]["waiting"], 3_350);
    let groups = server.get("/api/v1/groups?limit=1000").await.expect(200);
    let groups = groups["groups"].as_array().unwrap();
    let exact = groups.iter().filter(|group| group["at_least"] == false);
    assert!(exact.clone().all(|group| group["waiting"] == 50));
    assert_eq!((groups.len(), exact.count()), (201, 200), "the others are counted among the oldest jobs");
    node.stop().await;
}
