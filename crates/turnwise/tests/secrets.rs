//! Secret fields of a task in Rust: the task gets them, and nothing that its runs leave behind has them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use turnwise::{
    Config, Ctx, Executor, Invalid, JobState, NodeName, Registry, StartError, TaskError, Turnwise, secret::MASKED, task,
};
use turnwise_store::{MemoryStore, Options, memory::Clock};

const KEY: &str = "hunter2-and-more";

#[derive(Serialize, Deserialize)]
struct Order {
    key: String,
    how: String,
}

#[task("charge", secret = ["/key"], retry = "none", on_exhausted = "apologise", register = false)]
async fn charge(order: Order, ctx: Ctx) -> Result<String, TaskError> {
    assert_eq!(order.key, KEY, "the task gets it");
    ctx.log(format!("with {}", order.key));
    ctx.progress(1, 2, format!("at {}", order.key));
    match order.how.as_str() {
        "error" => Err(TaskError::new(format!("refused: {}", order.key))),
        "panic" => panic!("no such key: {}", order.key),
        _ => Ok(order.key),
    }
}

#[task("apologise", register = false)]
async fn apologise(order: Order) -> String {
    format!("sorry, {}", order.key)
}

async fn node(turnwise: &Turnwise) -> Result<Executor, StartError> {
    let mut registry = Registry::new();
    registry.register(charge)?.register(apologise)?;
    let executor = turnwise.executor_with(Config::new(NodeName::new("node")?)).registry(registry).build()?;
    executor.start().await?;
    Ok(executor)
}

#[tokio::test]
async fn what_a_run_leaves_behind_has_no_secrets() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    let node = node(&turnwise).await.unwrap();
    let secrets = turnwise.secrets().await.unwrap();
    let named: Vec<_> = secrets.iter().map(|(task, pointer)| format!("{task}{pointer}")).collect();
    assert_eq!(named, ["apologise/key", "charge/key"], "the arguments go on with the job");
    for how in ["error", "panic", "well"] {
        let id = turnwise.submit(charge.job(Order { key: KEY.into(), how: how.into() })).await.unwrap();
        let job = turnwise.wait(id).await.unwrap();
        assert_eq!(job.state, JobState::Success);
        assert!(job.args.as_str().contains(KEY), "it is stored as it is");
        let story = turnwise.story(id, 100).await.unwrap();
        let kept = format!("{:?} {:?} {:?} {:?}", job.error, story.attempts, story.lines, story.progress);
        assert!(!kept.contains(KEY) && kept.contains(MASKED), "{how}: {kept}");
        assert!(job.result.as_ref().is_some_and(|result| result.as_str().contains(KEY)), "what it returns is its own");
        let shown = secrets.result_of(&job).unwrap();
        assert!(shown.as_str().contains(MASKED) && !shown.as_str().contains(KEY), "{shown}");
    }
    node.stop().await;
}

#[tokio::test]
async fn a_store_that_cannot_note_secrets_runs_no_task_that_has_some() {
    let store = MemoryStore::new(Options::default(), Clock::system());
    let refused = node(&Turnwise::on(Arc::new(store))).await.unwrap_err();
    assert!(matches!(&refused, StartError::Invalid(Invalid { field: "secret", .. })), "{refused}");
}
