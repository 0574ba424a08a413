//! A change and its line in the audit log are one transaction: neither is there without the other. And the log is read by its indexes.

mod database;

use database::{client, fresh_store, id, job};
use turnwise_core::{
    Fence, JobState,
    audit::{Actor, AuditId, AuditVerb, NewAuditLine},
    lifecycle::{self, Event, JobFacts},
};
use turnwise_postgres::PostgresStore;
use turnwise_store::{AskAudit, Intervention, MemoKind, NewMemo, OperatorStore, Store};
use uuid::Uuid;

fn line(n: u128) -> NewAuditLine {
    let target = "queue:mail".parse().unwrap();
    let actor = Actor::named("alice").unwrap();
    NewAuditLine { id: AuditId(Uuid::from_u128(n)), actor, verb: AuditVerb::Set, target, before: None, after: None }
}

async fn lines(store: &PostgresStore) -> usize {
    store.audit(AskAudit { limit: 100, ..AskAudit::default() }).await.unwrap().lines.len()
}

async fn cancel(store: &PostgresStore) -> Intervention {
    store.enqueue(vec![job(1)]).await.unwrap();
    let job = store.job(id(1)).await.unwrap().unwrap();
    let to = lifecycle::decide(&JobFacts::from(&job), &Event::Cancel, job.submitted_at, 0.0).unwrap();
    Intervention { job: id(1), state: JobState::Waiting, fence: Fence(0), to, line: Some(Box::new(line(1))) }
}

fn setting() -> NewMemo {
    let (name, value, line) = ("mail".to_owned(), Some("{}".to_owned()), Some(Box::new(line(2))));
    NewMemo { kind: MemoKind::Queue, name, value, seen: Some(0), line }
}

/// Nothing more fits into this table.
fn full(table: &str) -> String {
    format!(
        "create function public.no_room() returns trigger language plpgsql as $$ begin raise 'no room'; end $$;
         create trigger no_room before insert on turnwise.{table} for each row execute function public.no_room()"
    )
}

#[tokio::test]
async fn a_line_is_neither_changed_nor_deleted_by_hand_before_its_time() {
    let (store, url) = fresh_store().await;
    store.remember(None, vec![setting()]).await.unwrap();
    let other = client(&url).await;
    let refused =
        async |sql: &str| other.batch_execute(sql).await.unwrap_err().as_db_error().unwrap().message().to_owned();
    for (sql, says) in [
        ("update turnwise.audit set actor = 'bob'", "the audit log is append-only: its lines are never changed"),
        ("delete from turnwise.audit", "the audit log is append-only: its lines are kept for 400 days"),
        ("truncate turnwise.audit", "the audit log is append-only: its lines are never changed"),
    ] {
        assert_eq!(refused(sql).await, says, "{sql}");
    }
    assert_eq!(lines(&store).await, 1);
    let old = "insert into turnwise.audit (id, at, actor, verb, target)
               values (gen_random_uuid(), now() - interval '401 days', 'a', 'set', 'installation')";
    other.batch_execute(old).await.unwrap();
    assert_eq!(store.prune(None, 100).await.unwrap(), 1, "a prune deletes what is older");
    assert_eq!(lines(&store).await, 1);
}

#[tokio::test]
async fn without_its_line_no_change_is_written() {
    let (store, url) = fresh_store().await;
    let cancel = cancel(&store).await;
    let other = client(&url).await;
    other.batch_execute(&full("audit")).await.unwrap();
    assert!(store.control(vec![cancel.clone()]).await.is_err());
    assert!(store.remember(None, vec![setting()]).await.is_err());
    assert_eq!(store.job(id(1)).await.unwrap().unwrap().state, JobState::Waiting);
    assert_eq!(store.recall(vec![MemoKind::Queue]).await.unwrap(), []);
    other.batch_execute("drop trigger no_room on turnwise.audit").await.unwrap();
    store.control(vec![cancel]).await.unwrap();
    store.remember(None, vec![setting()]).await.unwrap();
    assert_eq!(store.job(id(1)).await.unwrap().unwrap().state, JobState::Cancelled);
    assert_eq!(lines(&store).await, 2);
}

#[tokio::test]
async fn without_its_change_no_line_is_written() {
    let (store, url) = fresh_store().await;
    let cancel = cancel(&store).await;
    let other = client(&url).await;
    // What comes last in each of the two transactions: the change that the dispatcher hears of.
    other.batch_execute(&full("change")).await.unwrap();
    assert!(store.control(vec![cancel]).await.is_err());
    assert!(store.remember(None, vec![setting()]).await.is_err());
    assert_eq!(lines(&store).await, 0);
}

#[tokio::test]
async fn the_log_is_read_by_the_index_of_its_filter() {
    let (_store, url) = fresh_store().await;
    let app = client(&url).await;
    app.batch_execute(
        "insert into turnwise.audit (id, at, actor, verb, target)
         select gen_random_uuid(), now() - n * interval '1 second', 'a' || n % 50, 'set', 'queue:' || n % 70
           from generate_series(1, 5000) as n;
         analyze turnwise.audit;
         set jit = off; set enable_seqscan = off; set plan_cache_mode = force_generic_plan",
    )
    .await
    .unwrap();
    let page = "now(), 'ffffffff-ffff-ffff-ffff-ffffffffffff', '-infinity', 10";
    for (sql, values, index) in [
        (include_str!("../sql/audit.sql"), page.to_owned(), "Index Scan Backward using audit_at"),
        (include_str!("../sql/audit_actor.sql"), format!("{page}, 'a1'"), "Index Scan Backward using audit_actor"),
        (
            include_str!("../sql/audit_target.sql"),
            format!("{page}, 'queue:1'"),
            "Index Scan Backward using audit_target",
        ),
        (
            include_str!("../sql/audit_target_actor.sql"),
            format!("{page}, 'queue:1', 'a1'"),
            "Index Scan Backward using audit_target_actor",
        ),
        (
            include_str!("../sql/prune_audit.sql"),
            "now() - interval '1 hour', 10".to_owned(),
            "Index Scan using audit_at",
        ),
    ] {
        app.batch_execute("deallocate all").await.unwrap();
        app.batch_execute(&format!("prepare page as {sql}")).await.unwrap();
        let rows = app.query(&format!("explain (costs off) execute page ({values})"), &[]).await.unwrap();
        let plan = rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n");
        assert!(plan.contains(index) && !plan.contains("Sort"), "{sql}\n{plan}");
    }
}
