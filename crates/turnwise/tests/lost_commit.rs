//! The reply to the commit of a task's transaction is lost. The node finds out whether it went through, and goes by that.

mod ledger;
mod schema;

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use ledger::{Bank, How, deposit};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use turnwise::{JobId, JobRequest, JobState, Turnwise};

/// Where the connection is cut, the first time that a task's transaction commits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// Nothing of its end arrives.
    Before,
    /// All of its end arrives but the commit; and the server does not notice the cut.
    Within,
    /// It is committed, and only the reply is lost.
    After,
}

/// Stands between the node and the server.
struct Wire {
    port: u16,
    cuts: Arc<AtomicU32>,
}

impl Wire {
    async fn to(url: &str, cut: Cut) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let cuts = Arc::new(AtomicU32::new(0));
        let server = url.split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
        let counted = cuts.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.unwrap();
                tokio::spawn(carry(client, server, cut, counted.clone()));
            }
        });
        Self { port, cuts }
    }

    fn url(&self, url: &str) -> String {
        let (user, rest) = url.split_once('@').unwrap();
        format!("{user}@127.0.0.1:{}/{}", self.port, rest.split_once('/').unwrap().1)
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

async fn carry(client: TcpStream, server: TcpStream, cut: Cut, cuts: Arc<AtomicU32>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mute, muted) = watch::channel(false);
    let (committed, mut heard_committed) = watch::channel(false);
    let replies = tokio::spawn(async move {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
            let said = &buffer[..read];
            let mute = *muted.borrow();
            if mute {
                if find(said, b"COMMIT\0").is_some() {
                    committed.send_replace(true);
                }
            } else if to_client.write_all(said).await.is_err() {
                return;
            }
        }
    });
    let mut buffer = vec![0; 1 << 16];
    let mut of_a_task = false;
    loop {
        let Ok(read @ 1..) = from_client.read(&mut buffer).await else { return replies.abort() };
        let said = &buffer[..read];
        of_a_task |= find(said, b"application_name = 'turnwise task").is_some();
        if of_a_task
            && let Some(commit) = find(said, b"Q\0\0\0\x0bcommit\0")
            && cuts.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        {
            mute.send_replace(true);
            match cut {
                Cut::Before => {}
                Cut::Within => {
                    to_server.write_all(&said[..commit]).await.unwrap();
                    replies.abort();
                    drop(from_client);
                    // The server does not notice it: it waits for the commit.
                    return std::future::pending().await;
                }
                Cut::After => {
                    to_server.write_all(said).await.unwrap();
                    heard_committed.wait_for(|committed| *committed).await.unwrap();
                }
            }
            return replies.abort();
        }
        if to_server.write_all(said).await.is_err() {
            return replies.abort();
        }
    }
}

async fn deposited_over(bank: &Bank, cut: Cut) -> JobId {
    let wire = Wire::to(&bank.url, cut).await;
    let turnwise = Turnwise::open(&wire.url(&bank.url)).await.unwrap();
    let executor = ledger::executor(&turnwise, false, |_| {});
    executor.start().await.unwrap();
    let request = JobRequest::new("deposit", &deposit(How::Well)).retry("durations:1ms".parse().unwrap());
    let id = bank.turnwise.submit(request).await.unwrap();
    assert_eq!(bank.ended(id).await.state, JobState::Success);
    executor.stop().await;
    assert_eq!(wire.cuts.load(Ordering::SeqCst), 1, "the reply was not lost");
    assert_eq!((bank.entries(), bank.total()), (vec![id.to_string()], 1));
    assert_eq!(bank.receipts().await.len(), 1);
    assert_eq!((executor.stats().stale, executor.stats().lost), (0, 0));
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_reply_is_lost_is_believed_and_not_run_again() {
    let bank = Bank::in_postgres().await;
    let id = deposited_over(&bank, Cut::After).await;
    let job = bank.turnwise.job(id).await.unwrap();
    assert_eq!((job.counts.attempt, job.error), (1, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_never_arrived_is_an_error_and_tried_again() {
    let bank = Bank::in_postgres().await;
    let id = deposited_over(&bank, Cut::Before).await;
    let job = bank.turnwise.job(id).await.unwrap();
    let error = job.error.unwrap_or_default();
    assert!(job.counts.attempt == 2 && error.starts_with("its transaction was not committed"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_waits_for_its_lost_commit_is_ended() {
    let bank = Bank::in_postgres().await;
    let id = deposited_over(&bank, Cut::Within).await;
    assert_eq!(bank.turnwise.job(id).await.unwrap().counts.attempt, 2);
}

/// As after a failover that took the commit back, and has given its transaction's number to another since.
const REUSED: &str = "create schema another;
    create function another.pg_xact_status(xid8) returns text language sql as $$ select 'committed' $$;
    do $$ begin execute format('alter database %I set search_path = another, pg_catalog, public', current_database()); end $$";

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_another_transaction_made_under_the_same_number_is_not_believed() {
    let bank = Bank::in_postgres().await;
    bank.ask(REUSED);
    let id = deposited_over(&bank, Cut::Before).await;
    assert_eq!(bank.turnwise.job(id).await.unwrap().counts.attempt, 2);
}
