//! What a database, a role or an application may have set otherwise than we would: nothing of ours relies on it.

mod database;

use database::{client, fresh_store, fresh_url, id, job, lead, node};
use turnwise_core::{
    Fence, Incarnation, JobState,
    lifecycle::{self, Event, JobFacts, Outcome},
    scheduler::Pick,
};
use turnwise_postgres::{PostgresStore, Transactions, enqueue_in, migrate};
use turnwise_store::{
    Assign, AssignReply, Author, BatchId, Closed, Closing, Last, Options, Settle, Settled, Settlement, Store, Submitted,
};
use uuid::Uuid;

/// A database whose sessions are serialisable unless they say otherwise.
async fn strict_url() -> String {
    let url = fresh_url();
    let name = url.rsplit('/').next().unwrap();
    let sql = format!("alter database {name} set default_transaction_isolation = 'serializable'");
    client(&url).await.batch_execute(&sql).await.unwrap();
    url
}

#[tokio::test]
async fn four_who_migrate_at_once_succeed_whatever_the_default_isolation() {
    let url = strict_url().await;
    let (one, two, three, four) = tokio::join!(migrate(&url), migrate(&url), migrate(&url), migrate(&url));
    for migrated in [one, two, three, four] {
        migrated.unwrap();
    }
}

#[tokio::test]
async fn a_node_that_was_given_a_job_meanwhile_does_not_leave_whatever_the_default_isolation() {
    let url = strict_url().await;
    let store = PostgresStore::open(&url, Options::default()).await.unwrap();
    let epoch = lead(&store, node(1), "alpha").await;
    for round in 1..=20_u64 {
        let beta: Incarnation = node(100 + u128::from(round));
        database::join(&store, beta, &format!("beta {round}")).await;
        store.enqueue(vec![job(round)]).await.unwrap();
        let picks = vec![Pick { job: id(round), fence: Fence(0), node: beta, limited: false }];
        let batch = BatchId(Uuid::from_u128(u128::from(round)));
        let assign = Assign { holder: node(1), epoch, batch, picks };
        let (given, left) = tokio::join!(store.assign(assign), store.leave(beta));
        let given = matches!(given.unwrap()[0].1, AssignReply::Theirs(_));
        assert_ne!(given, left.unwrap(), "it left without the job, or stays for it");
        let job = store.job(id(round)).await.unwrap().unwrap();
        assert_eq!(job.state == JobState::Scheduled, given);
    }
}

#[tokio::test]
async fn a_task_that_took_longer_than_a_moment_commits_whatever_the_default_isolation() {
    let url = strict_url().await;
    let store = PostgresStore::open(&url, Options::default()).await.unwrap();
    store.enqueue(vec![job(1)]).await.unwrap();
    let epoch = lead(&store, node(1), "alpha").await;
    let picks = vec![Pick { job: id(1), fence: Fence(0), node: node(1), limited: false }];
    store.assign(Assign { holder: node(1), epoch, batch: BatchId(Uuid::nil()), picks }).await.unwrap();
    let now = store.nodes().await.unwrap().now;
    let settlement = async |event: Event| {
        let job = store.job(id(1)).await.unwrap().unwrap();
        let to = lifecycle::decide(&JobFacts::from(&job), &event, now, 0.0).unwrap();
        let (saw_cancel, noted, started_at, finished_at) = (false, false, Some(now), None);
        Settlement { job: id(1), fence: Fence(1), saw_cancel, to, noted, started_at, finished_at }
    };

    let tasks = Transactions::new(&url, &Options::default()).unwrap();
    let transaction = tasks.begin(node(1), None, 1).await.unwrap();
    transaction.batch_execute("create table made (n int)").await.unwrap();
    let running = vec![settlement(Event::Start).await];
    let author = Author::Node { node: node(1), told: None };
    let written = store.settle(Settle { author, settlements: running, done: vec![] }).await.unwrap();
    assert_eq!(written, [Settled::Applied], "it is marked as running meanwhile");
    let settlement = settlement(Event::Ended(Outcome::Done { result: None })).await;
    let closed = Box::new(transaction).settle(Last { node: node(1), told: None, settlement, note: None }).await;
    assert!(matches!(closed, Closed::Committed), "{closed:?}");
    client(&url).await.batch_execute("select from made").await.expect("what the task wrote is there");
}

#[tokio::test]
async fn functions_of_other_users_are_out_of_reach() {
    let (store, url) = fresh_store().await;
    let app = client(&url).await;
    // They fit better than the built-in ones, which take any type.
    app.batch_execute(
        "create table called (name text);
         create function unnest(uuid[]) returns setof uuid language plpgsql
             as $$ begin insert into public.called values ('unnest'); return query select pg_catalog.unnest($1); end $$;
         create function unnest(text[]) returns setof text language plpgsql
             as $$ begin insert into public.called values ('unnest'); return query select pg_catalog.unnest($1); end $$;
         create function format(text, text) returns text language plpgsql
             as $$ begin insert into public.called values ('format'); return $1; end $$;
         create function note(state uuid[], value uuid) returns uuid[] language plpgsql
             as $$ begin insert into public.called values ('array_agg'); return state || value; end $$;
         create aggregate array_agg(uuid) (sfunc = note, stype = uuid[]);
         create function same(uuid, uuid) returns boolean language plpgsql
             as $$ begin insert into public.called values ('='); return pg_catalog.uuid_eq($1, $2); end $$;
         create operator public.= (leftarg = uuid, rightarg = uuid, function = same);
         create operator public.<> (leftarg = uuid, rightarg = uuid, function = same);
         create operator public.>= (leftarg = uuid, rightarg = uuid, function = same)",
    )
    .await
    .unwrap();
    let user: String = app.query_one("select current_user::text", &[]).await.unwrap().get(0);
    let name = url.rsplit('/').next().unwrap();
    app.batch_execute(&format!("alter database {name} set search_path = public, pg_catalog")).await.unwrap();
    assert!(!user.is_empty());

    // Sessions that begin from now on find them first.
    let caller = client(&url).await;
    assert_eq!(enqueue_in(&caller, &[job(1)]).await.unwrap(), [Submitted::itself(id(1), true)]);
    assert_eq!(enqueue_in(&caller, &[job(1)]).await.unwrap(), [Submitted::itself(id(1), false)]);
    let keyed = "select turnwise.enqueue('mail', unique_key => 'k', after => array[turnwise.enqueue('first')])";
    caller.query(keyed, &[]).await.unwrap();
    caller.query(keyed, &[]).await.unwrap();
    drop(store);
    let store = PostgresStore::open(&url, Options::default()).await.unwrap();
    store.enqueue((10..300).map(job).collect()).await.unwrap();
    let epoch = lead(&store, node(1), "alpha").await;
    let picks = vec![Pick { job: id(1), fence: Fence(0), node: node(1), limited: false }];
    store.assign(Assign { holder: node(1), epoch, batch: BatchId(Uuid::nil()), picks }).await.unwrap();
    let called = caller.query("select distinct name::text from public.called", &[]).await.unwrap();
    let called: Vec<String> = called.iter().map(|row| row.get(0)).collect();
    assert_eq!(called, Vec::<String>::new(), "run as {user}");
}

#[tokio::test]
async fn a_transaction_that_submits_without_ringing_can_be_prepared() {
    let (store, url) = fresh_store().await;
    let app = client(&url).await;
    app.batch_execute("update turnwise.dispatcher set asleep = true").await.unwrap();
    let submit = "select turnwise.enqueue('mail'); prepare transaction 'late'";
    let name = url.rsplit('/').next().unwrap().to_owned();
    let submit = submit.replace("late", &name);
    let rings = app.batch_execute(&format!("begin; {submit}")).await.unwrap_err();
    assert!(rings.as_db_error().unwrap().message().contains("NOTIFY"), "{rings}");
    app.batch_execute("rollback").await.unwrap();
    app.batch_execute(&format!("begin; set local turnwise.ring = off; {submit}")).await.unwrap();
    app.batch_execute(&format!("commit prepared '{name}'")).await.unwrap();
    assert_eq!(store.jobs(turnwise_store::Filter::default()).await.unwrap().len(), 1);
}
