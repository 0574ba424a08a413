//! A change and its line in the audit log are one transaction: neither is there without the other. And the log is read by its indexes.

use rusqlite::Connection;
use tempfile::TempDir;
use turnwise_core::{
    Fence, JobId, JobState, Json, NewJob, TaskName,
    audit::{Actor, AuditId, AuditVerb, NewAuditLine},
    lifecycle::{self, Event, JobFacts},
};
use turnwise_sqlite::{SCHEMA, SqliteStore, rusqlite};
use turnwise_store::{AskAudit, Intervention, MemoKind, NewMemo, OperatorStore, Store};
use uuid::Uuid;

fn file() -> (TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db").to_str().unwrap().to_owned();
    (dir, path)
}

fn line(n: u128) -> NewAuditLine {
    let target = "queue:mail".parse().unwrap();
    let actor = Actor::named("alice").unwrap();
    NewAuditLine { id: AuditId(Uuid::from_u128(n)), actor, verb: AuditVerb::Set, target, before: None, after: None }
}

async fn lines(store: &SqliteStore) -> usize {
    store.audit(AskAudit { limit: 100, ..AskAudit::default() }).await.unwrap().lines.len()
}

/// The job's id, and a decision about it that has a line.
async fn cancel(store: &SqliteStore) -> (JobId, Intervention) {
    let id = JobId::from_parts(1, [0; 10]);
    let job = NewJob::new(id, TaskName::new("ship").unwrap(), Json::null());
    store.enqueue(vec![job]).await.unwrap();
    let job = store.job(id).await.unwrap().unwrap();
    let to = lifecycle::decide(&JobFacts::from(&job), &Event::Cancel, job.submitted_at, 0.0).unwrap();
    let line = Some(Box::new(line(1)));
    (id, Intervention { job: id, state: JobState::Waiting, fence: Fence(0), to, line })
}

fn setting() -> NewMemo {
    let (name, value, line) = ("mail".to_owned(), Some("{}".to_owned()), Some(Box::new(line(2))));
    NewMemo { kind: MemoKind::Queue, name, value, seen: Some(0), line }
}

#[tokio::test]
async fn a_line_is_neither_changed_nor_deleted_by_hand_before_its_time() {
    let (_dir, path) = file();
    let store = SqliteStore::open(&path, Default::default()).unwrap();
    store.remember(None, vec![setting()]).await.unwrap();
    let other = Connection::open(&path).unwrap();
    let refused = |sql: &str| other.execute(sql, ()).unwrap_err().to_string();
    let changed = refused("update turnwise_audit set actor = 'bob'");
    assert!(changed.contains("append-only: its lines are never changed"), "{changed}");
    // SQLite deletes what it replaces without a word to a trigger.
    let columns = "id, at, actor, verb, target";
    let replaced = refused(&format!(
        "replace into turnwise_audit ({columns}) select id, at, 'bob', verb, target from turnwise_audit"
    ));
    assert!(replaced.contains("append-only: its lines are never changed"), "{replaced}");
    let as_it_is = "insert or replace into turnwise_audit select * from turnwise_audit";
    assert_eq!(other.execute(as_it_is, ()).unwrap(), 0, "a line is there once, however often it is written");
    let backdated = format!(
        "replace into turnwise_audit ({columns}, after) select id, 1, actor, verb, target, after from turnwise_audit"
    );
    assert_eq!(other.execute(&backdated, ()).unwrap(), 0, "nor does it get another time");
    let deleted = refused("delete from turnwise_audit");
    assert!(deleted.contains("append-only: its lines are kept for 400 days"), "{deleted}");
    assert_eq!(lines(&store).await, 1);
    let old = "insert into turnwise_audit (id, at, actor, verb, target)
               values (x'01', (unixepoch() - 401 * 86400) * 1000000, 'a', 'set', 'installation')";
    other.execute(old, ()).unwrap();
    assert_eq!(store.prune(None, 100).await.unwrap(), 1, "a prune deletes what is older");
    assert_eq!(lines(&store).await, 1);
}

#[tokio::test]
async fn without_its_line_no_change_is_written() {
    let (_dir, path) = file();
    let store = SqliteStore::open(&path, Default::default()).unwrap();
    let (id, cancel) = cancel(&store).await;
    let other = Connection::open(&path).unwrap();
    other
        .execute_batch("create trigger full before insert on turnwise_audit begin select raise(abort, 'no room'); end")
        .unwrap();
    assert!(store.control(vec![cancel.clone()]).await.is_err());
    assert!(store.remember(None, vec![setting()]).await.is_err());
    assert_eq!(store.job(id).await.unwrap().unwrap().state, JobState::Waiting);
    assert_eq!(store.recall(vec![MemoKind::Queue]).await.unwrap(), []);
    other.execute_batch("drop trigger full").unwrap();
    store.control(vec![cancel]).await.unwrap();
    store.remember(None, vec![setting()]).await.unwrap();
    assert_eq!(store.job(id).await.unwrap().unwrap().state, JobState::Cancelled);
    assert_eq!(lines(&store).await, 2);
}

#[tokio::test]
async fn without_its_change_no_line_is_written() {
    let (_dir, path) = file();
    let store = SqliteStore::open(&path, Default::default()).unwrap();
    let (_, cancel) = cancel(&store).await;
    let other = Connection::open(&path).unwrap();
    // What comes last in each of the two transactions: the change that the dispatcher hears of.
    other
        .execute_batch("create trigger full before insert on turnwise_change begin select raise(abort, 'no room'); end")
        .unwrap();
    assert!(store.control(vec![cancel]).await.is_err());
    assert!(store.remember(None, vec![setting()]).await.is_err());
    assert_eq!(lines(&store).await, 0);
}

#[test]
fn the_log_is_read_by_the_index_of_its_filter() {
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch(SCHEMA).unwrap();
    for (sql, index) in [
        (include_str!("../sql/audit.sql"), "turnwise_audit_at ("),
        (include_str!("../sql/audit_actor.sql"), "turnwise_audit_actor (actor=?"),
        (include_str!("../sql/audit_target.sql"), "turnwise_audit_target (target=?"),
        (include_str!("../sql/audit_target_actor.sql"), "turnwise_audit_target_actor (target=? AND actor=?"),
        (include_str!("../sql/prune_audit.sql"), "turnwise_audit_at ("),
    ] {
        let mut plan = conn.prepare(&format!("explain query plan {sql}")).unwrap();
        for parameter in 1..=plan.parameter_count() {
            plan.raw_bind_parameter(parameter, 1).unwrap();
        }
        let mut rows = plan.raw_query();
        let mut lines = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            lines.push(row.get::<_, String>("detail").unwrap());
        }
        let plan = lines.join("\n");
        assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
    }
}
