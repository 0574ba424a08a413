//! The doorbell between processes.

mod database;

use std::time::Duration;

use database::{client, fresh_store, fresh_url, id, job, join, lead, node};
use turnwise_core::{Fence, lead::Sight, scheduler::Pick};
use turnwise_postgres::{PostgresStore, enqueue_in};
use turnwise_store::{AskNews, Assign, BatchId, Beat, Options, Store};
use uuid::Uuid;

/// Far beyond any wait; only a ring that never comes gets here.
const NEVER: Duration = Duration::from_secs(30);

async fn rung(bell: &tokio::sync::Notify) {
    tokio::time::timeout(NEVER, bell.notified()).await.expect("the bell rings");
}

/// Opens a store and waits until its doorbell is connected: it then rings all three.
async fn listening(url: &str) -> PostgresStore {
    let store = PostgresStore::open(url, Options::default()).await.unwrap();
    let bell = store.bell();
    rung(&bell.mail).await;
    rung(&bell.news).await;
    rung(&bell.lead).await;
    store
}

#[tokio::test]
async fn a_submit_of_any_application_rings_the_sleeping_dispatcher() {
    let url = fresh_url();
    let store = listening(&url).await;
    let epoch = lead(&store, node(1), "alpha").await;
    let begin = store.news(AskNews { cursor: None, epoch, asleep: false, new_jobs: u32::MAX }).await.unwrap().cursor;
    store.news(AskNews { cursor: Some(begin), epoch, asleep: true, new_jobs: u32::MAX }).await.unwrap();
    let app = client(&url).await;
    enqueue_in(&app, &[job(1)]).await.unwrap();
    rung(&store.bell().news).await;
    app.query_one("select turnwise.enqueue('mail')", &[]).await.unwrap();
    rung(&store.bell().news).await;
}

#[tokio::test]
async fn a_submit_does_not_ring_while_the_dispatcher_is_awake() {
    let url = fresh_url();
    let store = listening(&url).await;
    let epoch = lead(&store, node(1), "alpha").await;
    // Joining rings it.
    rung(&store.bell().lead).await;
    store.news(AskNews { cursor: None, epoch, asleep: false, new_jobs: u32::MAX }).await.unwrap();
    let app = client(&url).await;
    enqueue_in(&app, &[job(1)]).await.unwrap();
    // Rings come in the order of their commits: had the submit rung, this one would be second.
    app.batch_execute("notify turnwise, 'lead'").await.unwrap();
    rung(&store.bell().lead).await;
    let news = store.bell().news;
    let pending = tokio::select! { biased; () = news.notified() => true, () = async {} => false };
    assert!(!pending, "a busy dispatcher is not rung for each job");
}

#[tokio::test]
async fn an_assignment_rings_its_node_and_no_other() {
    let url = fresh_url();
    let (alpha, beta, gamma) = (listening(&url).await, listening(&url).await, listening(&url).await);
    let epoch = lead(&alpha, node(1), "alpha").await;
    join(&beta, node(2), "beta").await;
    join(&gamma, node(3), "gamma").await;
    // Joining rings it.
    rung(&gamma.bell().lead).await;
    alpha.enqueue(vec![job(1)]).await.unwrap();
    let picks = vec![Pick { job: id(1), fence: Fence(0), node: node(2), limited: false }];
    let batch = BatchId(Uuid::from_u128(1));
    alpha.assign(Assign { holder: node(1), epoch, batch, picks }).await.unwrap();
    rung(&beta.bell().mail).await;
    assert_eq!(beta.assignments(node(2), vec![]).await.unwrap().batches[0].jobs[0].id, id(1));
    client(&url).await.batch_execute("notify turnwise, 'lead'").await.unwrap();
    rung(&gamma.bell().lead).await;
    let mail = gamma.bell().mail;
    let pending = tokio::select! { biased; () = mail.notified() => true, () = async {} => false };
    assert!(!pending, "gamma has no mail");
}

#[tokio::test]
async fn an_assignment_rings_every_process_that_listens_for_its_node_by_name() {
    let url = fresh_url();
    let (alpha, one, two) = (listening(&url).await, listening(&url).await, listening(&url).await);
    let epoch = lead(&alpha, node(1), "alpha").await;
    join(&alpha, node(2), "beta").await;
    let [here, there] = [&one, &two].map(|server| server.bell().listen_for(node(2)));
    let other = one.bell().listen_for(node(3));
    alpha.enqueue(vec![job(1)]).await.unwrap();
    let picks = vec![Pick { job: id(1), fence: Fence(0), node: node(2), limited: false }];
    let batch = BatchId(Uuid::from_u128(1));
    alpha.assign(Assign { holder: node(1), epoch, batch, picks }).await.unwrap();
    rung(&here).await;
    rung(&there).await;
    let pending = tokio::select! { biased; () = other.notified() => true, () = async {} => false };
    assert!(!pending, "another node has no mail");
}

/// Whether the bell has rung for the lead, as far as rings were sent before this call.
async fn rang_for_the_lead(store: &PostgresStore, app: &tokio_postgres::Client) -> bool {
    // Rings come in the order of their commits.
    app.batch_execute("notify turnwise, 'news'").await.unwrap();
    rung(&store.bell().news).await;
    let lead = store.bell().lead;
    tokio::select! { biased; () = lead.notified() => true, () = async {} => false }
}

#[tokio::test]
async fn a_dispatcher_rings_once_its_session_can_be_seen() {
    const LEASE: Duration = Duration::from_secs(60);
    let url = fresh_url();
    let (app, follower) = (client(&url).await, listening(&url).await);
    // It has no session that listens yet.
    let dispatcher = PostgresStore::open(&url, Options::default()).await.unwrap();
    lead(&dispatcher, node(1), "alpha").await;
    join(&follower, node(2), "beta").await;
    let look = Beat { only_look: true, ..Beat::new(node(2), LEASE, 1, true) };
    assert_eq!(follower.beat(look.clone()).await.unwrap().leader.unwrap().sight, Sight::Unseen);
    rang_for_the_lead(&follower, &app).await;
    dispatcher.bell();
    let beat = Beat::new(node(1), LEASE, 1, true);
    let seen = async {
        while follower.beat(look.clone()).await.unwrap().leader.unwrap().sight != Sight::There {
            dispatcher.beat(beat.clone()).await.unwrap();
        }
    };
    tokio::time::timeout(NEVER, seen).await.expect("the dispatcher can be seen");
    assert!(rang_for_the_lead(&follower, &app).await, "a node that follows goes on believing that it cannot be seen");
    dispatcher.beat(beat).await.unwrap();
    assert!(!rang_for_the_lead(&follower, &app).await, "nothing has changed since");
}

#[tokio::test]
async fn a_cut_doorbell_comes_back_and_rings_all() {
    let (store, url) = fresh_store().await;
    let bell = store.bell();
    rung(&bell.mail).await;
    // Found by its last statement: it listens, or has taken the lock by which the process is seen.
    let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                where datname = current_database()
                  and (query like 'listen turnwise%' or query like 'select pg_catalog.pg_try_advisory_lock_shared%')";
    assert_eq!(client(&url).await.query_one(cut, &[]).await.unwrap().get::<_, i64>(0), 1);
    rung(&bell.mail).await;
}

#[tokio::test]
async fn a_cut_connection_is_transient_and_the_next_call_succeeds() {
    let (store, url) = fresh_store().await;
    store.enqueue(vec![job(1)]).await.unwrap();
    let cut = "select pg_terminate_backend(pid) from pg_stat_activity
                where datname = current_database() and pid <> pg_backend_pid()";
    client(&url).await.query(cut, &[]).await.unwrap();
    // The first call may meet the closed connection; it never gets anything but a transient error.
    let mut replies = store.enqueue(vec![job(2)]).await;
    while let Err(error) = &replies {
        assert!(error.is_transient(), "{error}");
        replies = store.enqueue(vec![job(2)]).await;
    }
    assert!(store.job(id(2)).await.unwrap().is_some());
}
