//! The rights that docs/guides/postgres.md grants are enough, and the roles cannot do more with them. The SQL is read from the
//! guide.

mod database;
mod still;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use database::{client, fresh_url, id, job, join, lead, node};
use tokio_postgres::Client;
use turnwise_core::{
    After, Fence, Incarnation, JobState, NewJob, OnFailure, Unique, UniqueKey,
    lifecycle::{self, Event, JobFacts, Outcome},
    scheduler::Pick,
    unique::OnDuplicate,
};
use turnwise_postgres::{PostgresStore, Transactions, enqueue_in, migrate, migrate_check};
use turnwise_store::{
    AskNews, AskStory, AskWatch, Assign, Author, BatchId, Beat, Closing, Epoch, Filter, Intervention, Load, MemoKind,
    NewMemo, OperatorStore, Options, Result, Settle, Settlement, Store, StoreError,
    conformance::{self, ClosingHarness, Harness},
};
use uuid::Uuid;

const GUIDE: &str = include_str!("../../../docs/guides/postgres.md");

/// A database with the roles of the guide, under names of its own: roles belong to the whole cluster.
struct Site {
    url: String,
    prefix: String,
    /// What the guide has: the owner and its schema, the other roles, their grants.
    blocks: [String; 3],
}

impl Site {
    fn new() -> Site {
        let url = fresh_url();
        let prefix = url.rsplit('/').next().expect("it names a database").to_owned();
        let section = GUIDE.split("\n## ").find(|section| section.starts_with("Roles and grants\n"));
        let blocks = section.expect("the guide's section").split("```sql\n").skip(1);
        let blocks =
            blocks.map(|rest| rest.split("```").next().expect("a part").replace("jobs_", &format!("{prefix}_")));
        let blocks = blocks.collect::<Vec<_>>().try_into().expect("three blocks of SQL");
        Site { url, prefix, blocks }
    }

    /// As the guide has it: the administrator's part, the migration, the owner's part.
    async fn granted() -> Site {
        let site = Site::new();
        let administrator = client(&site.url).await;
        administrator.batch_execute(&site.blocks[0]).await.unwrap();
        migrate(&site.url_of("owner")).await.unwrap();
        administrator.batch_execute(&site.blocks[1]).await.unwrap();
        let owner = site.client("owner").await;
        owner.batch_execute(&site.blocks[2]).await.unwrap();
        owner.batch_execute(&site.blocks[2]).await.expect("granting twice is no error");
        site
    }

    fn url_of(&self, role: &str) -> String {
        self.url.replace("//postgres@", &format!("//{}_{role}@", self.prefix))
    }

    async fn client(&self, role: &str) -> Client {
        client(&self.url_of(role)).await
    }

    async fn store(&self, role: &str) -> PostgresStore {
        PostgresStore::open(&self.url_of(role), Options::default()).await.expect("it opens")
    }

    /// Each statement is refused by PostgreSQL for want of a right.
    async fn refuses(&self, role: &str, statements: &[&str]) {
        let client = self.client(role).await;
        for sql in statements {
            let error = client.batch_execute(sql).await.expect_err(sql);
            assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{sql}: {error:?}");
        }
    }
}

/// The refusal names the thing, and says where to read on.
fn assert_refused<T>(result: Result<T>, thing: &str) {
    match result.map(drop) {
        Err(StoreError::Refused(text)) => {
            assert!(text.contains(&format!("permission denied for {thing}")), "{text}");
            assert!(text.contains("docs/guides/postgres.md"), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

fn keyed(n: u64) -> NewJob {
    let key = UniqueKey::new("k").expect("a good key");
    let unique = Unique { on_duplicate: OnDuplicate::ReplaceArgs, ..Unique::new(key) };
    NewJob { unique: Some(Box::new(unique)), ..job(n) }
}

fn after(n: u64, awaited: u64) -> NewJob {
    NewJob { after: After::new([id(awaited)], OnFailure::Fail).expect("one job"), ..job(n) }
}

/// Runs one job to its end.
async fn run(store: &PostgresStore, n: u64) {
    let epoch = lead(store, node(1), "alpha").await;
    let batch = BatchId(Uuid::from_u128(1));
    let picks = vec![Pick { job: id(n), fence: Fence(0), node: node(1), limited: false }];
    store.assign(Assign { holder: node(1), epoch, batch, picks }).await.unwrap();
    let job = store.job(id(n)).await.unwrap().unwrap();
    let ended = Event::Ended(Outcome::Done { result: None });
    let to = lifecycle::decide(&JobFacts::from(&job), &ended, job.submitted_at, 0.0).unwrap();
    let (saw_cancel, noted, started_at, finished_at) = (false, false, None, None);
    let settlement = Settlement { job: id(n), fence: Fence(1), saw_cancel, to, noted, started_at, finished_at };
    let author = Author::Node { node: node(1), told: None };
    store.settle(Settle { author, settlements: vec![settlement], done: vec![batch] }).await.unwrap();
    assert!(store.leave(node(1)).await.unwrap());
}

fn cancel(job: &turnwise_core::Job) -> Intervention {
    let to = lifecycle::decide(&JobFacts::from(job), &Event::Cancel, job.submitted_at, 0.0).unwrap();
    Intervention { job: job.id, state: job.state, fence: job.fence, to, line: None }
}

fn memo() -> NewMemo {
    NewMemo { kind: MemoKind::Queue, name: "mail".into(), value: Some("{}".into()), seen: None, line: None }
}

fn first_news() -> AskNews {
    AskNews { cursor: None, epoch: Epoch(0), asleep: false, new_jobs: u32::MAX }
}

#[tokio::test]
async fn a_role_that_owns_its_schema_and_nothing_else_migrates() {
    let site = Site::new();
    client(&site.url).await.batch_execute(&site.blocks[0]).await.unwrap();
    let owner = site.client("owner").await;
    let rights = "select rolsuper or rolcreatedb or rolcreaterole or rolreplication or rolbypassrls
                         or has_database_privilege(current_database(), 'create')
                         or exists (select from pg_auth_members where member = pg_roles.oid)
                    from pg_roles where rolname = current_user";
    assert!(!owner.query_one(rights, &[]).await.unwrap().get::<_, bool>(0), "it may more than it should");
    migrate(&site.url_of("owner")).await.unwrap();
    assert_eq!(migrate_check(&site.url_of("owner")).await.unwrap(), []);
    site.refuses("owner", &["create schema other", "create role other", "create database other"]).await;
}

#[tokio::test]
async fn a_role_that_may_create_schemas_makes_its_own() {
    let site = Site::new();
    let grant = format!("create role {0}_owner login; grant create on database {0} to {0}_owner", site.prefix);
    client(&site.url).await.batch_execute(&grant).await.unwrap();
    migrate(&site.url_of("owner")).await.unwrap();
    assert_eq!(migrate_check(&site.url_of("owner")).await.unwrap(), []);
}

#[tokio::test]
async fn a_role_without_the_schema_is_told_what_it_lacks() {
    let site = Site::new();
    let nobody = format!("create role {}_nobody login", site.prefix);
    client(&site.url).await.batch_execute(&nobody).await.unwrap();
    assert_refused(migrate(&site.url_of("nobody")).await, "database");
    let site = Site::granted().await;
    let nobody = format!("create role {}_nobody login", site.prefix);
    client(&site.url).await.batch_execute(&nobody).await.unwrap();
    assert_refused(PostgresStore::open(&site.url_of("nobody"), Options::default()).await, "schema turnwise");
}

#[tokio::test]
async fn a_role_that_submits_submits_in_every_way() {
    let site = Site::granted().await;
    let store = site.store("submit").await;
    let new = async |jobs: Vec<NewJob>| -> Vec<bool> {
        store.enqueue(jobs).await.unwrap().iter().map(|reply| reply.new).collect()
    };
    assert_eq!(new(vec![job(1)]).await, [true]);
    assert_eq!(new(vec![job(1)]).await, [false], "a repeat is recognised");
    assert_eq!(new((100..400).map(job).collect()).await.len(), 300, "by COPY");
    assert_eq!(new(vec![keyed(2)]).await, [true]);
    assert_eq!(new(vec![keyed(3)]).await, [false], "the second of the key replaces the first one's arguments");
    assert_eq!(new(vec![after(4, 1)]).await, [true]);
    assert!(store.nodes().await.is_ok(), "whether a node knows the task");
    let page = store.load(Load::These(Vec::new())).await.expect("times that are counted from now");
    assert!(page.jobs.is_empty() && page.now > turnwise_core::Timestamp::MIN);
    let mut app = site.client("submit").await;
    let transaction = app.transaction().await.unwrap();
    enqueue_in(&transaction, &[job(5), after(6, 5)]).await.unwrap();
    let all = "select turnwise.enqueue('mail', '{}', unique_key => 'sql'),
                      turnwise.enqueue('mail', '{}', unique_key => 'sql', on_duplicate => 'replace-args')";
    transaction.batch_execute(all).await.unwrap();
    let waits = "select turnwise.enqueue('mail', '{}', after => array[$1::uuid], expires => now())";
    transaction.execute(waits, &[&id(5).uuid()]).await.unwrap();
    transaction.commit().await.unwrap();
    // A repeat that comes after the job has ended: it is taken back, which deletes a row.
    run(&site.store("work").await, 1).await;
    assert_eq!(new(vec![job(1)]).await, [false]);
    let stored = site.store("look").await.jobs(Filter { limit: Some(1000), ..Filter::default() }).await.unwrap();
    assert_eq!(
        stored.iter().filter(|one| one.id == id(1)).map(|one| one.state).collect::<Vec<_>>(),
        [JobState::Success]
    );
    assert_eq!(stored.len(), 1 + 300 + 1 + 1 + 2 + 2);
}

#[tokio::test]
async fn a_role_that_submits_does_nothing_else() {
    let site = Site::granted().await;
    let store = site.store("submit").await;
    store.enqueue(vec![job(1)]).await.unwrap();
    assert_refused(store.job(id(1)).await, "table job");
    assert_refused(store.jobs(Filter::default()).await, "table job");
    assert_refused(store.remember(None, vec![memo()]).await, "table");
    assert_refused(store.beat(Beat::new(node(1), database::LEASE, 1, true)).await, "table");
    let waiting = site.store("look").await.job(id(1)).await.unwrap().unwrap();
    assert_refused(store.control(vec![cancel(&waiting)]).await, "table");
    site.refuses(
        "submit",
        &[
            "select args from turnwise.job",
            "delete from turnwise.job",
            "update turnwise.job set state = 4",
            "insert into turnwise.job (id, task, queue, grp, priority, args, state)
                 values (gen_random_uuid(), 'mail', 'q', 'g', 5, 'null', 1)",
            "select args from turnwise.history",
            "delete from turnwise.unique_key",
            "select text from turnwise.log",
            "select actor from turnwise.audit",
            "insert into turnwise.node select * from turnwise.node",
            "create table turnwise.mine (n int)",
        ],
    )
    .await;
}

#[tokio::test]
async fn a_role_that_works_changes_no_schema() {
    let site = Site::granted().await;
    let store = site.store("work").await;
    store.enqueue(vec![job(1)]).await.unwrap();
    run(&store, 1).await;
    // Only the owner may make and drop slices; that is left to the owner, and is no error.
    store.prune(None, 100).await.unwrap();
    site.refuses(
        "work",
        &[
            "create table turnwise.mine (n int)",
            "drop table turnwise.log",
            "truncate turnwise.job",
            "alter table turnwise.job add column mine int",
            "create or replace function turnwise.now() returns timestamptz language sql as 'select null::timestamptz'",
            "delete from turnwise.migration",
            "insert into turnwise.migration (version, name) values (999, 'later')",
            "update turnwise.audit set actor = 'nobody'",
        ],
    )
    .await;
}

#[tokio::test]
async fn a_slice_of_history_made_later_is_open_to_the_roles_that_work_and_look() {
    let site = Site::granted().await;
    let owner = site.client("owner").await;
    owner
        .batch_execute(
            "create table turnwise.history_failed_2099010100_2099010200 partition of turnwise.history_failed
                 for values from ('2099-01-01T00:00:00Z') to ('2099-01-02T00:00:00Z')",
        )
        .await
        .unwrap();
    for (role, sql) in [
        ("work", "delete from turnwise.history_failed_2099010100_2099010200"),
        ("look", "select count(*) from turnwise.history_failed_2099010100_2099010200"),
    ] {
        site.client(role).await.batch_execute(sql).await.expect(role);
    }
    // The owner's prune does what the working role leaves to it.
    site.store("owner").await.prune(None, 100).await.unwrap();
}

#[tokio::test]
async fn a_role_that_looks_sees_everything_and_changes_nothing() {
    let site = Site::granted().await;
    let works = site.store("work").await;
    works.enqueue(vec![job(1), job(2)]).await.unwrap();
    run(&works, 1).await;
    join(&works, node(2), "beta").await;
    works.remember(None, vec![memo()]).await.unwrap();
    let store = site.store("look").await;
    let waiting = store.job(id(2)).await.unwrap().expect("a waiting one");
    assert_eq!(store.job(id(1)).await.unwrap().map(|job| job.state), Some(JobState::Success));
    assert_eq!(store.jobs(Filter::default()).await.unwrap().len(), 2);
    assert_eq!(store.nodes().await.unwrap().nodes.len(), 1);
    assert_eq!(store.recall(vec![MemoKind::Queue, MemoKind::Charge]).await.unwrap().len(), 1);
    for load in [Load::After { id: None, limit: 10 }, Load::These(vec![id(2)])] {
        assert_eq!(store.load(load).await.unwrap().jobs.len(), 1);
    }
    assert!(store.load(Load::InHands(None)).await.unwrap().jobs.is_empty());
    store.story(AskStory { job: id(2), after: None, lines: 10 }).await.unwrap();
    // Watching is looking: a role that may write nothing is told all the same.
    let ask = |cursor| AskWatch { cursor, most: 10, ends: true };
    let begin = store.watch(ask(None)).await.unwrap().cursor;
    works.enqueue(vec![job(4)]).await.unwrap();
    let seen = store.watch(ask(Some(begin))).await.unwrap();
    assert_eq!(seen.jobs.iter().map(|head| head.id).collect::<Vec<_>>(), [id(4)]);
    assert!(store.in_hands(10).await.unwrap().jobs.is_empty());
    assert_refused(store.enqueue(vec![job(3)]).await, "table job");
    assert_refused(store.control(vec![cancel(&waiting)]).await, "table");
    assert_refused(store.remember(None, vec![memo()]).await, "table");
    assert_refused(store.beat(Beat::new(node(2), database::LEASE, 1, true)).await, "table");
    assert_refused(store.news(first_news()).await, "table");
    site.refuses(
        "look",
        &[
            "select turnwise.enqueue('mail')",
            "delete from turnwise.history",
            "update turnwise.memo set value = ''",
            "create table turnwise.mine (n int)",
            "truncate turnwise.log",
        ],
    )
    .await;
}

/// The store as this role has it, with a clock that the administrator moves.
struct As {
    site: Site,
    role: &'static str,
}

impl As {
    async fn role(role: &'static str) -> As {
        let site = Site::granted().await;
        client(&site.url).await.batch_execute(still::CLOCK).await.unwrap();
        As { site, role }
    }
}

#[async_trait]
impl Harness for As {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.site.store(self.role).await)
    }

    async fn advance(&self, by: Duration) {
        client(&self.site.url).await.batch_execute(&still::advance(by)).await.unwrap();
    }

    async fn reset(&self) {
        client(&self.site.url).await.batch_execute(still::EMPTY).await.unwrap();
    }
}

#[async_trait]
impl ClosingHarness for As {
    async fn closing(&self, node: Incarnation, job: NewJob) -> Box<dyn Closing> {
        let transactions = Transactions::new(&self.site.url_of(self.role), &Options::default()).unwrap();
        let transaction = transactions.begin(node, None, 1).await.unwrap();
        enqueue_in(&*transaction, &[job]).await.unwrap();
        Box::new(transaction)
    }
}

/// Some promises of the store, which together use every verb and every table.
async fn keeps_the_promises(role: &'static str) {
    use conformance::{after, closing, control, crash, memo, nodes, repeat, story, unique};
    let place = &As::role(role).await;
    macro_rules! keeps {
        ($($promise:path),* $(,)?) => { $( $promise(place).await; place.reset().await; )* };
    }
    keeps!(
        crash::a_dispatcher_that_dies_at_any_step_loses_and_doubles_nothing,
        closing::what_a_run_wrote_is_committed_with_its_end,
        story::a_story_goes_on_through_retries_and_to_the_next_node,
        story::attempts_beyond_the_bound_go_oldest_first,
        story::a_log_keeps_its_last_lines_and_says_how_many_went,
        story::what_a_pruned_job_told_goes_with_it,
        after::a_bad_end_is_told_to_those_who_wait,
        after::a_bad_end_is_remembered_when_its_job_is_pruned,
        unique::arguments_are_replaced_as_long_as_the_holder_has_not_begun,
        control::an_ended_job_is_redriven_with_a_fence_that_goes_on_growing,
        memo::a_memo_is_deleted_if_it_is_as_it_was_seen,
        memo::who_does_not_lead_remembers_nothing_as_the_dispatcher,
        nodes::a_silent_namesake_is_replaced_in_one_step,
        nodes::a_lead_that_was_found_over_is_taken_unless_it_was_renewed,
        repeat::a_repeated_prune_finds_nothing,
    );
    // Counts what goes, and so wants no slices of history that were made for others.
    unique::pruning_keys_has_a_limit_and_comes_to_an_end(&As::role(role).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_owns_its_schema_keeps_the_promises_of_the_store() {
    keeps_the_promises("owner").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_works_keeps_the_promises_of_the_store() {
    keeps_the_promises("work").await;
}
