//! The audit log of the library's own calls: what is decided by time and by nodes, which the commands' tests cannot wait for.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use turnwise::{
    Cancelled, Filter, JobChange, JobRequest, JobState, Registry, StoreError, Turnwise,
    audit::{Actor, AskAudit, AuditLine},
    task,
    testing::Kit,
};
use turnwise_core::Incarnation;
use turnwise_store::{Epoch, MemoryStore, NewMemo, Store, delegate::Delegate};

fn read(side: &Option<turnwise::Json>) -> Value {
    side.as_ref().map_or(Value::Null, |side| side.decode().unwrap())
}

async fn lines(turnwise: &Turnwise) -> Vec<AuditLine> {
    turnwise.audit(AskAudit { limit: 1_000, ..AskAudit::default() }).await.unwrap().lines
}

fn alice() -> Actor {
    Actor::named("alice").unwrap()
}

#[tokio::test]
async fn a_handle_that_acts_for_nobody_leaves_no_line() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    let acting = turnwise.acting_as(alice());
    turnwise.pause_queue("mail", None).await.unwrap();
    assert_eq!(lines(&turnwise).await, []);
    acting.resume_queue("mail").await.unwrap();
    let id = acting.submit(JobRequest::new("mail", &1)).await.unwrap();
    turnwise.cancel(id).await.unwrap();
    let lines = lines(&turnwise).await;
    assert_eq!(lines.iter().map(|line| line.verb.as_str()).collect::<Vec<_>>(), ["resume"]);
    assert_eq!(lines[0].actor, alice());
    assert_eq!(read(&lines[0].after), json!({"paused": null}));
    assert!(read(&lines[0].before)["paused"]["since"].is_string());
}

#[tokio::test]
async fn decisions_about_many_jobs_leave_a_line_for_each_that_is_decided() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    let acting = turnwise.acting_as(alice());
    let ids = turnwise.submit_all((0..3).map(|n| JobRequest::new("mail", &n))).await.unwrap();
    let jobs = turnwise.jobs(Filter::default()).await.unwrap();
    assert_eq!(turnwise.cancel(ids[0]).await.unwrap(), Cancelled::AtOnce);
    let stopped = acting.cancel_these(&jobs).await.unwrap();
    assert_eq!((stopped.at_once, stopped.left.as_slice()), (2, &ids[..1]), "one was decided about meanwhile");
    let mut targets: Vec<_> = lines(&turnwise).await.into_iter().map(|line| line.target).collect();
    targets.sort();
    assert_eq!(targets, [format!("job:{}", ids[1]), format!("job:{}", ids[2])]);
    assert_eq!(acting.retry_all(Filter::default()).await.unwrap().again, 3);
    let changed = acting.change_all(Filter::default(), &JobChange::new().priority(1)).await.unwrap();
    assert_eq!((changed.changed, lines(&turnwise).await.len()), (3, 2 + 3 + 3));
    let again = acting.change_all(Filter::default(), &JobChange::new().priority(1)).await.unwrap();
    assert_eq!((again.changed, lines(&turnwise).await.len()), (3, 8), "the priority is that already");
}

#[task("break", retry = "manual", register = false)]
async fn break_down(_: u32) -> Result<(), String> {
    Err("it is broken".to_owned())
}

#[tokio::test]
async fn giving_a_job_up_and_pruning_it_leave_a_line_each() {
    let mut registry = Registry::new();
    registry.register(break_down).unwrap();
    let kit = Kit::new(registry).await.unwrap();
    let ran = kit.run(break_down.job(1)).await.unwrap();
    assert_eq!(ran.job.state, JobState::Stuck);
    let acting = kit.turnwise().acting_as(alice());
    acting.fail(ran.job.id).await.unwrap();
    assert!(acting.fail(ran.job.id).await.is_err());
    let found = lines(&acting).await;
    assert_eq!((found.len(), found[0].verb.as_str()), (1, "fail"));
    assert_eq!(
        (&read(&found[0].before)["state"], read(&found[0].after)),
        (&json!("stuck"), json!({"state": "failed"}))
    );
    assert_eq!(acting.prune(100).await.unwrap(), 0);
    kit.advance(Duration::from_secs(30 * 86_400));
    let (deleted, more) = acting.prune_all(1, 100).await.unwrap();
    assert!(deleted >= 1 && !more, "{deleted}");
    let found = lines(&acting).await;
    assert_eq!(found.iter().map(|line| line.verb.as_str()).collect::<Vec<_>>(), ["prune", "fail"]);
    assert_eq!(read(&found[0].after), json!({"retention": "7d"}));
}

/// Loses the reply of the first write of each kind: what was written is there.
#[derive(Debug)]
struct LosesReplies {
    inner: Arc<dyn Store>,
    lost: AtomicBool,
}

#[async_trait::async_trait]
impl Delegate for LosesReplies {
    fn inner(&self) -> Arc<dyn Store> {
        self.inner.clone()
    }

    async fn remember(&self, lead: Option<(Incarnation, Epoch)>, memos: Vec<NewMemo>) -> Result<Vec<bool>, StoreError> {
        let written = self.inner.remember(lead, memos).await?;
        if self.lost.swap(true, Ordering::SeqCst) {
            Ok(written)
        } else {
            Err(StoreError::transient("remember", "the connection is lost"))
        }
    }
}

#[tokio::test]
async fn a_setting_whose_reply_was_lost_leaves_one_line() {
    let memory = MemoryStore::default();
    let store = LosesReplies { inner: Arc::new(memory.clone()), lost: AtomicBool::new(false) };
    let turnwise = Turnwise::on(Arc::new(store)).with_operators(Arc::new(memory)).acting_as(alice());
    turnwise.pause_queue("mail", Some("lunch".to_owned())).await.unwrap();
    let found = lines(&turnwise).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(read(&found[0].after)["paused"]["reason"], "lunch");
}
