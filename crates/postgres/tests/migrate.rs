//! How the schema comes and grows.

mod database;

use std::collections::BTreeSet;

use database::{client, fresh_url};
use turnwise_postgres::{PostgresStore, found_version, migrate, migrate_check, migrate_print};
use turnwise_store::{
    Filter, Options, Store, StoreError,
    moving::{PARTS, Part},
};

/// Everything of the catalog that a statement could notice.
const CATALOG: &str = "
    select 'column ' || concat_ws(' ', table_name,
                                  row_number() over (partition by table_name order by ordinal_position),
                                  column_name, data_type, udt_name, is_nullable, column_default, is_identity,
                                  identity_generation)
      from information_schema.columns where table_schema = 'turnwise'
     union all
    select 'index ' || indexdef from pg_indexes where schemaname = 'turnwise'
     union all
    select 'constraint ' || conrelid::regclass || ' ' || pg_get_constraintdef(oid)
      from pg_constraint where connamespace = 'turnwise'::regnamespace
     union all
    select 'function ' || pg_get_functiondef(oid) from pg_proc where pronamespace = 'turnwise'::regnamespace
     union all
    select 'options ' || relname || ' ' || coalesce(reloptions::text, '')
      from pg_class where relnamespace = 'turnwise'::regnamespace and relkind = 'r'
     order by 1";

async fn catalog(url: &str) -> Vec<String> {
    let rows = client(url).await.query(CATALOG, &[]).await.unwrap();
    // Slices of history come and go with time.
    let slice = |line: &String| line.contains("_2") && line.contains("history_");
    rows.iter().map(|row| row.get(0)).filter(|line| !slice(line)).collect()
}

#[tokio::test]
async fn the_steps_one_by_one_give_the_whole_schema() {
    let (stepwise, whole, printed) = (fresh_url(), fresh_url(), fresh_url());
    migrate(&stepwise).await.unwrap();
    client(&whole).await.batch_execute(include_str!("../schema.sql")).await.unwrap();
    client(&printed).await.batch_execute(&migrate_print()).await.unwrap();
    let expected = catalog(&whole).await;
    assert!(expected.len() > 50, "{expected:#?}");
    assert_eq!(catalog(&stepwise).await, expected);
    assert_eq!(catalog(&printed).await, expected);
    assert_eq!(migrate_check(&printed).await.unwrap(), []);
}

/// The last step there is.
async fn last_step() -> i32 {
    migrate_check(&fresh_url()).await.unwrap().last().unwrap().version
}

#[tokio::test]
async fn a_database_of_the_first_version_is_brought_up_to_date_with_its_jobs() {
    let (url, whole) = (fresh_url(), fresh_url());
    let app = client(&url).await;
    app.batch_execute(include_str!("../migrations/0001_begin.sql")).await.unwrap();
    app.batch_execute(
        "insert into turnwise.migration (version, name) values (1, 'begin');
         select turnwise.enqueue('mail', retry => 'none');
         insert into turnwise.history
                (id, seq, task, queue, grp, priority, args, state, attempt, retries, crashes, fence, cancel_requested,
                 submitted_at, ended_at)
         values (gen_random_uuid(), 7, 'mail', 'q', 'g', 5, 'null', 4, 1, 0, 0, 1, false, now(), now());",
    )
    .await
    .unwrap();
    let pending: Vec<_> = migrate_check(&url).await.unwrap().iter().map(|step| step.version).collect();
    assert_eq!(pending, (2..=last_step().await).collect::<Vec<_>>());
    let store = PostgresStore::open(&url, Options::default()).await.unwrap();
    client(&whole).await.batch_execute(include_str!("../schema.sql")).await.unwrap();
    assert_eq!(catalog(&url).await, catalog(&whole).await);
    let jobs = store.jobs(Filter::default()).await.unwrap();
    assert_eq!(jobs.iter().map(|job| &job.key).collect::<Vec<_>>(), [&None, &None]);
    app.batch_execute("select turnwise.enqueue('mail')").await.unwrap();
}

#[tokio::test]
async fn a_check_returns_the_pending_steps_and_changes_nothing() {
    let url = fresh_url();
    let pending = migrate_check(&url).await.unwrap();
    assert_eq!(pending.first().map(|step| (step.version, step.name)), Some((1, "begin")));
    assert_eq!(migrate_check(&url).await.unwrap(), pending);
    migrate(&url).await.unwrap();
    assert_eq!(migrate_check(&url).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_processes_that_start_at_once_do_not_collide() {
    let url = fresh_url();
    let starts: Vec<_> = (0..8)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { PostgresStore::open(&url, Options::default()).await.map(drop) })
        })
        .collect();
    for start in starts {
        start.await.unwrap().unwrap();
    }
    assert_eq!(migrate_check(&url).await.unwrap(), []);
}

#[tokio::test]
async fn a_newer_schema_that_only_added_is_used_as_it_is() {
    let url = fresh_url();
    migrate(&url).await.unwrap();
    let later = "alter table turnwise.job add column mood text not null default 'good';
                 create table turnwise.later (what text);
                 insert into turnwise.migration (version, name) values (999, 'later')";
    client(&url).await.batch_execute(later).await.unwrap();
    assert_eq!(migrate_check(&url).await.unwrap(), []);
    assert_eq!(found_version(&url).await.unwrap(), 999);
    migrate(&url).await.unwrap();
    let store = PostgresStore::connect(&url, Options::default()).await.unwrap();
    store.enqueue(vec![database::job(1)]).await.unwrap();
    assert_eq!(store.jobs(Filter::default()).await.unwrap().len(), 1);
    assert_eq!(found_version(&url).await.unwrap(), 999, "nothing was taken back");
}

#[tokio::test]
async fn a_newer_schema_that_older_binaries_do_not_work_with_is_refused_naming_both_versions() {
    let url = fresh_url();
    migrate(&url).await.unwrap();
    let later =
        "insert into turnwise.migration (version, name, breaks) values (998, 'break', true), (999, 'later', false)";
    client(&url).await.batch_execute(later).await.unwrap();
    for error in [
        PostgresStore::open(&url, Options::default()).await.map(drop),
        PostgresStore::connect(&url, Options::default()).await.map(drop),
        migrate_check(&url).await.map(drop),
        migrate(&url).await,
    ] {
        let text = match error {
            Err(StoreError::Refused(text)) => text,
            other => panic!("{other:?}"),
        };
        for part in
            ["version 999", &format!("knows {}", last_step().await), "step 998", "run the turnwise that migrated it"]
        {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[tokio::test]
async fn connecting_without_migrating_refuses_an_empty_database() {
    let url = fresh_url();
    let error = PostgresStore::connect(&url, Options::default()).await.expect_err("there is no schema");
    assert!(matches!(&error, StoreError::Refused(text) if text.contains("turnwise migrate")), "{error}");
}

#[tokio::test]
async fn a_database_that_cannot_hold_every_text_is_refused_with_what_to_do() {
    let cluster = turnwise_testpg::Cluster::shared();
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let name = format!("not_utf8_{}_{}", encoding.to_lowercase(), std::process::id());
        let create =
            format!("create database {name} encoding '{encoding}' lc_collate 'C' lc_ctype 'C' template template0");
        cluster.psql(&cluster.url(), &create).unwrap();
        let url = format!("{}/{name}", cluster.url().trim_end_matches("/postgres"));
        let errors = [
            migrate(&url).await.err(),
            PostgresStore::open(&url, Options::default()).await.err(),
            PostgresStore::connect(&url, Options::default()).await.err(),
        ];
        for refusal in errors.map(|error| error.expect("it is refused").to_string()) {
            assert!(refusal.contains(encoding) && refusal.contains("encoding 'UTF8'"), "{refusal}");
        }
    }
}

/// Tables that hold nothing of a database that another one could use: what is there as long as nodes are, or open transactions.
const STAYS: [&str; 14] = [
    "assignment",
    "bad_end",
    "change",
    "change_floor",
    "dispatcher",
    "lost_node",
    "migration",
    "move",
    "node",
    "run",
    "statistics_writer",
    "stop_request",
    // They last for a quarter of an hour.
    "ticket",
    "totals",
];
/// What a job has only while a node has it, or in this database.
const STAYING_COLUMNS: [(&str, &str); 3] = [("job", "node"), ("job", "xact"), ("history", "noted")];

#[tokio::test]
async fn a_move_brings_every_column_or_it_is_known_why_not() {
    let url = fresh_url();
    migrate(&url).await.unwrap();
    let columns = "select c.relname::text, a.attname::text
                     from pg_class as c join pg_attribute as a on a.attrelid = c.oid
                    where c.relnamespace = 'turnwise'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
                      and a.attnum > 0 and not a.attisdropped";
    let rows = client(&url).await.query(columns, &[]).await.unwrap();
    let columns = rows.iter().map(|row| (row.get::<_, String>(0), row.get::<_, String>(1)));
    let stays = |table: &str, column: &str| STAYS.contains(&table) || STAYING_COLUMNS.contains(&(table, column));
    let needed: BTreeSet<_> = columns.filter(|(table, column)| !stays(table, column)).collect();
    let named = |part: &Part| part.columns.iter().map(|column| (part.name.to_owned(), column.name.to_owned()));
    assert_eq!(PARTS.iter().flat_map(named).collect::<BTreeSet<_>>(), needed);
}
