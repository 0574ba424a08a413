//! Answers while the database does not: each comes in bounded time, and says when to try again.

mod support;

use std::{any::Any, sync::Arc, time::Duration};

use serde_json::{Value, json};
use support::{Server, request};
use tokio::time::Instant;
use turnwise::Turnwise;
use turnwise_core::Timestamp;
use turnwise_server::{
    Route,
    limits::{ANSWER_TIME, LONGEST_WAIT},
    routes,
};
use turnwise_store::{
    FoundToken, MemoryStore, OperatorStore, Options, Result, Store, StoreError, TokenHash,
    delegate::{Call, Delegate, DelegateOperators},
    memory::Clock,
};

/// Answers no call, or each with an error.
#[derive(Debug)]
struct Away {
    inner: Arc<MemoryStore>,
    silent: bool,
}

#[async_trait::async_trait]
impl Delegate for Away {
    fn inner(&self) -> Arc<dyn Store> {
        self.inner.clone()
    }

    async fn pass<T: Send + 'static>(
        &self,
        _verb: &'static str,
        _asked: &(dyn Any + Send + Sync),
        _call: Call<T>,
    ) -> Result<T> {
        if self.silent {
            std::future::pending::<()>().await;
        }
        Err(StoreError::transient("ask", "the database is away"))
    }
}

#[async_trait::async_trait]
impl DelegateOperators for Away {
    fn operators(&self) -> Arc<dyn OperatorStore> {
        self.inner.clone()
    }

    /// The one question that is answered, as a server may remember: otherwise no request would come any further.
    async fn find_token(&self, _: TokenHash) -> Result<FoundToken> {
        Ok(FoundToken { token: None, any: false, now: Timestamp::from_micros(0) })
    }
}

fn server(silent: bool) -> Server {
    let inner = Arc::new(MemoryStore::new(Options::default(), Clock::system()));
    let away = Arc::new(Away { inner, silent });
    Server::of("away", Turnwise::on(away.clone()).with_operators(away))
}

/// A request that would be done if the database answered.
fn body(route: &Route) -> Option<Value> {
    Some(match route.input?.schema {
        "Request" => json!({"task": "t"}),
        "Batch" => json!({"jobs": [{"task": "t"}]}),
        "CancelChoice" | "RetryChoice" | "FailChoice" => json!({"dry_run": true}),
        "NewToken" => json!({"name": "t", "scopes": ["read"]}),
        "NewTicket" => json!({"groups": ["acme"], "origins": ["https://app.example"]}),
        "NewSchedule" => json!({"task": "t", "every": "1h"}),
        "RegisterWorker" => json!({"protocol": 1, "name": "worker", "slots": 1, "tasks": {"t": {}}}),
        "TakeJobs" => json!({"n": 1, "held": []}),
        "BeatWorker" => json!({"slots": 1, "held": []}),
        "NoteRuns" => json!({"notes": []}),
        "SettleRuns" => json!({"ends": []}),
        "LeaveWorker" => json!({"back": []}),
        _ => json!({}),
    })
}

async fn each_route_says_try_again(server: &Server, most: Duration) {
    for route in routes().iter().filter(|route| route.action.is_some()) {
        let id = "01890163-d869-7739-8aea-5966c26f8ad9";
        let path = route.path.replace("{id}", id).replace("{worker}", id).replace("{name}", "some");
        let begun = Instant::now();
        let answer = server.send(request(route.verb.method().as_str(), &path, body(route).as_ref())).await;
        if route.id == "makeTicket" {
            // It is made with a token, which nobody has here: that is known without the database.
            answer.refused(403, None);
            continue;
        }
        // Settings that keep changing, as it seems without an answer.
        if answer.status != 409 {
            answer.refused(503, None);
        }
        assert!(!answer.header("retry-after").is_empty(), "{route:?}");
        assert!(begun.elapsed() <= most, "{route:?} took {:?}", begun.elapsed());
    }
    let ready = server.get("/readyz").await.expect(503);
    assert_eq!(ready["reason"], "the database does not answer");
    server.get("/livez").await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn while_the_database_fails_every_route_says_so() {
    each_route_says_try_again(&server(false), ANSWER_TIME).await;
}

#[tokio::test(start_paused = true)]
async fn while_the_database_is_silent_every_route_answers_in_bounded_time() {
    each_route_says_try_again(&server(true), ANSWER_TIME + LONGEST_WAIT).await;
}
