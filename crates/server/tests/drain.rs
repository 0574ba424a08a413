//! A node that a person drains: it takes no more jobs until it is let go on or started anew, and people see that.

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{PATIENCE, Server};
use turnwise::Executor;

/// The node of these tests, once it is in this state.
async fn node_in(server: &Server, state: &str) -> Value {
    let seen = async {
        loop {
            let fleet = server.get("/api/v1/nodes").await.expect(200);
            let nodes = fleet["nodes"].as_array().unwrap();
            if let Some(node) = nodes.iter().find(|node| node["name"] == "node" && node["state"] == state) {
                return node.clone();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.unwrap_or_else(|_| panic!("the node never was {state}"))
}

/// Waits until it has beaten so often again.
async fn beats(server: &Server, state: &str, times: usize) {
    for _ in 0..times {
        let last = node_in(server, state).await["beat_at"].clone();
        let again = async {
            while node_in(server, state).await["beat_at"] == last {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, again).await.expect("it beats");
    }
}

async fn stop(node: Executor) {
    node.stop().await;
}

#[tokio::test]
async fn a_drained_node_gets_no_jobs_until_it_is_let_go_on() {
    for server in Server::on_all().await {
        let node = server.node().await;
        assert_eq!(node_in(&server, "alive").await["version"], turnwise::VERSION, "{}", server.store);
        let page = server.get("/nodes").await.text;
        assert!(
            page.contains(&format!("version {}", turnwise::VERSION)) && page.contains("nodes/node/drain"),
            "{page}"
        );
        let sent = server.form("/nodes/node/drain", &[]).await;
        assert_eq!(sent.status, 303, "{}", sent.text);
        let drained = node_in(&server, "drained").await;
        assert_eq!(drained["slots"], 0);
        let job = server.submit(json!({"task": "double", "args": 2})).await;
        // It goes on to beat, with nothing in hand.
        beats(&server, "drained", 2).await;
        assert_eq!(
            server.get(&format!("/api/v1/jobs/{job}")).await.expect(200)["state"],
            "waiting",
            "{}",
            server.store
        );
        let page = server.get("/nodes").await.text;
        assert!(page.contains("nodes/node/resume") && !page.contains("nodes/node/drain"), "{page}");
        let sent = server.form("/nodes/node/resume", &[]).await;
        assert_eq!(sent.status, 303, "{}", sent.text);
        server.job_in(&job, "success").await;
        node_in(&server, "alive").await;
        stop(node).await;
    }
}

#[tokio::test]
async fn a_drained_node_takes_jobs_again_after_it_was_started_anew() {
    for server in Server::on_all().await {
        let node = server.node().await;
        assert_eq!(
            server.post("/api/v1/nodes/node/drain", &json!({})).await.expect(200),
            json!({"name": "node", "drained": true})
        );
        node_in(&server, "drained").await;
        stop(node).await;
        let node = server.node().await;
        let job = server.submit(json!({"task": "double", "args": 2})).await;
        server.job_in(&job, "success").await;
        server.post("/api/v1/nodes/nobody/drain", &json!({})).await.refused(404, None);
        stop(node).await;
    }
}

#[tokio::test]
async fn a_change_of_the_dispatcher_is_told_also_by_a_server_that_was_started_after_it() {
    use turnwise::{Config, NodeName};
    for server in Server::on_all().await {
        for name in ["first", "second", "second"] {
            let config = Config { core_pool_size: 1, ..Config::new(NodeName::new(name).unwrap()) };
            let node = server.turnwise.executor_with(config).build().unwrap();
            node.start().await.unwrap();
            let dispatches = async {
                let led = |fleet: &Value| {
                    fleet["nodes"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .any(|node| node["name"] == name && node["dispatcher"] == true)
                };
                while !led(&server.get("/api/v1/nodes").await.expect(200)) {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                // It writes that down before it dispatches anything.
                let job = server.submit(json!({"task": "none", "queue": name})).await;
                server.get(&format!("/api/v1/jobs/{job}")).await.expect(200);
                while !told(&server, name).await {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::time::timeout(PATIENCE, dispatches).await.unwrap_or_else(|_| panic!("{name} never dispatched"));
            stop(node).await;
        }
        // Nobody looked until now, and the server is another one.
        let later = Server::of(server.store, server.turnwise.clone());
        let page = later.get("/").await.text;
        assert!(page.contains("it has changed once in the last hour: second took over from first"), "{page}");
    }
}

/// Whether the change to this node is known; the first one is no change.
async fn told(server: &Server, name: &str) -> bool {
    let found = server.get("/api/v1/doctor").await.expect(200);
    let texts: Vec<_> = found["findings"].as_array().unwrap().iter().filter_map(|one| one["text"].as_str()).collect();
    name == "first" || texts.iter().any(|text| text.contains(&format!("{name} took over from")))
}
