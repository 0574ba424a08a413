//! After a failover, a restore, a copy or a crash the last commits may be gone, and transaction numbers be given out again;
//! a node that dispatched before must notice, and the database must go on.

mod database;

use std::{path::Path, process::Command};

use database::{LEASE, client, fresh_store, id, job, lead, node};
use turnwise_core::{Fence, scheduler::Pick};
use turnwise_postgres::{PostgresStore, migrate_print};
use turnwise_store::{
    AskNews, AskWatch, Assign, AssignReply, BatchId, Beat, BeatReply, Cursor, Epoch, Lineage, MemoKind, NewMemo,
    OperatorStore, Options, Store, StoreError, WatchCursor,
};
use turnwise_testpg::{Cluster, programs};
use uuid::Uuid;

async fn beat(store: &PostgresStore) -> BeatReply {
    // A connection that is cut is replaced at the next call.
    loop {
        match store.beat(Beat::new(node(1), LEASE, 1, true)).await {
            Err(StoreError::Transient { .. }) => {}
            reply => break reply.unwrap(),
        }
    }
}

async fn ask(store: &PostgresStore, cursor: Option<Cursor>, new_jobs: u32) -> Result<Cursor, StoreError> {
    loop {
        let ask = AskNews { cursor: cursor.clone(), epoch: Epoch(0), asleep: false, new_jobs };
        match store.news(ask).await {
            Err(StoreError::Transient { .. }) => {}
            news => break news.map(|news| news.cursor),
        }
    }
}

/// What a dispatcher knows.
struct Term {
    epoch: Epoch,
    lineage: Lineage,
    cursor: Cursor,
}

impl Term {
    /// Node 1 dispatches, job 1 waits.
    async fn begin(store: &PostgresStore) -> Self {
        let epoch = lead(store, node(1), "alpha").await;
        store.enqueue(vec![job(1)]).await.unwrap();
        let reply = beat(store).await;
        assert_eq!(reply.epoch, Some(epoch), "within one lineage the lead goes on");
        Self { epoch, lineage: reply.lineage, cursor: ask(store, None, u32::MAX).await.unwrap() }
    }

    async fn assign(&self, store: &PostgresStore) -> Result<Vec<(turnwise_core::JobId, AssignReply)>, StoreError> {
        let pick = Pick { job: id(1), fence: Fence(0), node: node(1), limited: false };
        let batch = BatchId(Uuid::from_u128(1));
        loop {
            let assign = Assign { holder: node(1), epoch: self.epoch, batch, picks: vec![pick.clone()] };
            match store.assign(assign).await {
                Err(StoreError::Transient { .. }) => {}
                replies => break replies,
            }
        }
    }

    /// This term is over, for its holder too; and the next one dispatches.
    async fn is_over(&self, store: &PostgresStore) {
        assert!(matches!(self.assign(store).await, Err(StoreError::NotLeading)));
        let memo =
            NewMemo { kind: MemoKind::Charge, name: "x".into(), value: Some("1".into()), seen: None, line: None };
        let written = store.remember(Some((node(1), self.epoch)), vec![memo]).await;
        assert!(matches!(written, Err(StoreError::NotLeading)), "{written:?}");
        let reply = beat(store).await;
        let epoch = reply.epoch.expect("no other node dispatches");
        assert!(reply.lineage != self.lineage && epoch > self.epoch, "{reply:?}");
        assert_eq!(beat(store).await.epoch, Some(epoch), "the new term goes on");
        let news = ask(store, Some(self.cursor.clone()), u32::MAX).await;
        assert!(matches!(news, Err(StoreError::NotLeading)), "a cursor of another lineage means nothing: {news:?}");
        let cursor = ask(store, None, u32::MAX).await.unwrap();
        ask(store, Some(cursor.clone()), u32::MAX).await.unwrap();
        let next = Self { epoch, lineage: reply.lineage, cursor };
        assert!(matches!(next.assign(store).await.unwrap()[..], [(_, AssignReply::Mine(_))]));
    }
}

async fn open(url: &str) -> PostgresStore {
    PostgresStore::open(url, Options::default()).await.unwrap()
}

#[tokio::test]
async fn a_crash_of_one_backend_begins_a_new_lineage() {
    let cluster = Cluster::start().unwrap();
    let url = cluster.fresh_database().unwrap();
    let store = open(&url).await;
    let term = Term::begin(&store).await;
    let app = client(&url).await;
    let pid: i32 = app.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    // The server is back when it answers: until then it reports that it recovers.
    while !matches!(app.query_one("select 1", &[]).await, Err(error) if error.is_closed()) {}
    while cluster.psql(&url, "select 1").is_err() {}
    term.is_over(&store).await;
}

#[tokio::test]
async fn a_crash_of_the_server_begins_a_new_lineage() {
    let cluster = Cluster::start().unwrap();
    let store = open(&cluster.fresh_database().unwrap()).await;
    let term = Term::begin(&store).await;
    cluster.stop_immediate().unwrap();
    cluster.start_again().unwrap();
    term.is_over(&store).await;
}

#[tokio::test]
async fn a_promoted_server_begins_a_new_lineage() {
    let cluster = Cluster::start().unwrap();
    let url = cluster.fresh_database().unwrap();
    let store = open(&url).await;
    let term = Term::begin(&store).await;
    let folder = cluster.psql(&url, "show data_directory").unwrap();
    cluster.stop_immediate().unwrap();
    std::fs::write(format!("{folder}/standby.signal"), "").unwrap();
    cluster.start_again().unwrap();
    assert_eq!(cluster.psql(&url, "select pg_promote()").unwrap(), "t");
    term.is_over(&store).await;
}

/// The store at another database, which is a copy of the one at `url`.
async fn copied(url: &str, copy: impl FnOnce(&Cluster, &str, &str) -> String) -> (Term, PostgresStore) {
    let store = open(url).await;
    let term = Term::begin(&store).await;
    drop(store);
    let name = url.rsplit('/').next().unwrap();
    let copy = copy(Cluster::shared(), name, &format!("{name}_copy"));
    (term, open(&copy).await)
}

#[tokio::test]
async fn a_template_copy_begins_a_new_lineage() {
    let url = database::fresh_url();
    let (term, copy) = copied(&url, |cluster, name, copy| {
        // A template must have no connections; a backend that was asked to end is there for a moment longer.
        let end = format!("select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = '{name}'");
        cluster.psql(&cluster.url(), &end).unwrap();
        cluster.psql(&cluster.url(), &format!("create database {copy} template {name}")).unwrap();
        url.replace(name, copy)
    })
    .await;
    term.is_over(&copy).await;
}

fn dumped(pg_dump: &Path, url: &str) -> String {
    let dump = Command::new(pg_dump).arg(url).output().unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    String::from_utf8(dump.stdout).unwrap()
}

/// What `pg_dump` would write, for servers that came without it: the schema, and every row there is in it.
fn dumped_by_hand(cluster: &Cluster, url: &str) -> String {
    let tables = "select relname from pg_class where relnamespace = 'turnwise'::regnamespace
                     and relkind in ('r', 'p') and not relispartition";
    let mut dump = migrate_print();
    for table in cluster.psql(url, tables).unwrap().lines() {
        let rows = cluster.psql(url, &format!("copy (select * from turnwise.{table}) to stdout")).unwrap();
        let rows = if rows.is_empty() { rows } else { rows + "\n" };
        dump += &format!("truncate turnwise.{table};\ncopy turnwise.{table} from stdin;\n{rows}\\.\n");
    }
    dump
}

#[tokio::test]
async fn a_restored_dump_begins_a_new_lineage_whatever_its_old_one_was() {
    let url = database::fresh_url();
    let (term, copy) = copied(&url, |cluster, name, copy| {
        let dump = match programs::pg_dump().unwrap() {
            Some(program) => dumped(&program, &url),
            None => dumped_by_hand(cluster, &url),
        };
        cluster.psql(&cluster.url(), &format!("create database {copy} template template0")).unwrap();
        let copy = url.replace(name, copy);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, dump).unwrap();
        let mut psql = Command::new(programs::psql());
        psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &copy, "-f"]);
        let restored = psql.arg(file.path()).output().unwrap();
        assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
        copy
    })
    .await;
    term.is_over(&copy).await;
}

#[tokio::test]
async fn a_lineage_that_is_lower_than_the_last_is_a_new_one_all_the_same() {
    let (store, url) = fresh_store().await;
    let term = Term::begin(&store).await;
    let app = client(&url).await;
    // As it is after pg_upgrade, or on a logical replica: another cluster, with what this one had.
    app.batch_execute("update turnwise.run set place = 'elsewhere'; update turnwise.dispatcher set epoch = epoch")
        .await
        .unwrap();
    term.is_over(&store).await;
    app.batch_execute("update turnwise.run set lineage = 0").await.unwrap();
    let (before, after) = (term.epoch, beat(&store).await);
    assert!(after.lineage == Lineage(0) && after.epoch > Some(before), "{after:?}");
}

#[tokio::test]
async fn a_caller_that_looks_back_from_another_lineage_sees_all_changes_there_are() {
    let (store, url) = fresh_store().await;
    let term = Term::begin(&store).await;
    let app = client(&url).await;
    app.batch_execute(
        "insert into turnwise.change (jobs, ran, failed) select array[id], array[1], array[true] from turnwise.job",
    )
    .await
    .unwrap();
    let cursor = ask(&store, Some(term.cursor), u32::MAX).await.unwrap();
    let changes = async |cursor: &Cursor| {
        let ask = AskNews { cursor: Some(cursor.clone()), epoch: Epoch(0), asleep: false, new_jobs: 0 };
        store.news(ask).await.unwrap().changes.len()
    };
    assert_eq!(changes(&cursor).await, 0, "it has seen them");
    app.batch_execute("truncate turnwise.run").await.unwrap();
    beat(&store).await;
    assert_eq!(changes(&cursor).await, 1, "in another run of the server, that means nothing");
    assert_eq!(store.prune(Some(cursor), 100).await.unwrap(), 0);
    assert_eq!(store.prune(Some(ask(&store, None, u32::MAX).await.unwrap()), 100).await.unwrap(), 1);
}

#[tokio::test]
async fn a_watcher_that_began_before_any_node_did_goes_on_with_the_first_lineage_and_notices_a_crash() {
    let cluster = Cluster::start().unwrap();
    let store = open(&cluster.fresh_database().unwrap()).await;
    let look = async |cursor: Option<WatchCursor>| {
        loop {
            match store.watch(AskWatch { cursor: cursor.clone(), most: 10, ends: false }).await {
                // The connections were cut by the crash.
                Err(error) if error.is_transient() => {}
                answer => return answer.unwrap(),
            }
        }
    };
    let begun = look(None).await.cursor;
    store.enqueue(vec![job(1)]).await.unwrap();
    let seen = look(Some(begun)).await;
    assert_eq!((seen.reset, seen.jobs.len()), (false, 1));
    cluster.stop_immediate().unwrap();
    cluster.start_again().unwrap();
    let after = look(Some(seen.cursor)).await;
    assert!(after.reset, "a crash may have taken back what it saw");
    Term::begin(&store).await;
    let seen = look(Some(after.cursor)).await;
    assert!(!seen.reset, "the first node has begun a lineage, and nothing was taken back");
}
