//! PostgreSQL: COPY in, `skip locked` out, two connections side by side.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures_util::{SinkExt, future::try_join_all};
use serde_json::{Value, json};
use tokio_postgres::{Client, NoTls};

use crate::marks::Marks;
use crate::{BATCH, History, Verb, arguments, told};

/// One more was no quicker on two cores.
const CONNECTIONS: usize = 2;

/// How many rows one COPY brings.
const ROWS: usize = 10_000;

const TABLE: &str = "
    create table jobs (
        id bigserial primary key, queue text not null default 'q', grp text, task text not null, args jsonb not null,
        state smallint not null default 0, priority smallint not null default 0, run_at timestamptz not null default now()
    );
    create index jobs_ready on jobs (queue, priority, run_at, id) where state = 0";

const CLAIM: &str = "
    with c as materialized (
        select id from jobs where state = 0 and queue = 'q' and run_at <= now()
         order by priority, run_at, id limit $1 for update skip locked
    )
    update jobs set state = 1 from c where jobs.id = c.id returning jobs.id, jobs.task, jobs.args::text";

pub(crate) async fn run(url: &str, verb: Verb) -> Result<Value> {
    match verb {
        Verb::Setup => {
            connect(url).await?.batch_execute(TABLE).await?;
            Ok(json!({}))
        }
        Verb::Bulk { jobs, unnest } => bulk(url, jobs, unnest).await,
        Verb::Submit { jobs, callers } => submit(url, jobs, callers).await,
        Verb::Drain { jobs, limit, history } => drain(url, jobs, limit, history).await,
    }
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.context("connect to DATABASE_URL")?;
    // It ends with its client; what went wrong on it is told by the client's next call.
    tokio::spawn(connection);
    Ok(client)
}

async fn connections(url: &str, count: usize) -> Result<Vec<Client>> {
    try_join_all((0..count).map(|_| connect(url))).await
}

async fn bulk(url: &str, jobs: usize, unnest: bool) -> Result<Value> {
    let clients = connections(url, CONNECTIONS).await?;
    let next = AtomicUsize::new(0);
    let begun = Instant::now();
    try_join_all(clients.iter().map(|client| async {
        loop {
            let first = next.fetch_add(ROWS, Ordering::Relaxed);
            let ids = first..jobs.min(first + ROWS);
            if ids.is_empty() {
                return anyhow::Ok(());
            }
            if unnest {
                let rows: Vec<String> = ids.map(arguments).collect();
                let insert = "insert into jobs (task, args) select 'noop', a::jsonb from unnest($1::text[]) a";
                client.execute(insert, &[&rows]).await?;
            } else {
                let rows: String = ids.map(|id| format!("noop\t{}\n", arguments(id))).collect();
                let mut copy = Box::pin(client.copy_in("copy jobs (task, args) from stdin").await?);
                copy.send(Bytes::from(rows)).await?;
                copy.as_mut().finish().await?;
            }
        }
    }))
    .await?;
    let how = if unnest { "insert … select from unnest" } else { "COPY" };
    Ok(told(jobs, begun.elapsed(), &format!("{how}, {ROWS} rows, {CONNECTIONS} connections")))
}

async fn submit(url: &str, jobs: usize, callers: usize) -> Result<Value> {
    let clients = connections(url, callers).await?;
    let next = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let callers: Vec<_> = clients
        .into_iter()
        .map(|client| {
            let next = next.clone();
            tokio::spawn(async move {
                let insert = client.prepare("insert into jobs (task, args) values ('noop', $1::text::jsonb)").await?;
                loop {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    if id >= jobs {
                        return anyhow::Ok(());
                    }
                    client.execute(&insert, &[&arguments(id)]).await?;
                }
            })
        })
        .collect();
    let count = callers.len();
    for caller in callers {
        caller.await??;
    }
    Ok(told(jobs, begun.elapsed(), &format!("a prepared insert, committed each, {count} connections")))
}

async fn drain(url: &str, jobs: usize, limit: Duration, history: History) -> Result<Value> {
    let clients = connections(url, CONNECTIONS).await?;
    let marks = Arc::new(Mutex::new(Marks::begin()));
    let claimers: Vec<_> =
        clients.into_iter().map(|client| tokio::spawn(claim(client, history, limit, jobs, marks.clone()))).collect();
    for claimer in claimers {
        claimer.await??;
    }
    let end = if history == History::Delete { "delete" } else { "update" };
    let settings = format!("skip locked claim of {BATCH}, {end}, {CONNECTIONS} connections");
    Ok(marks.lock().unwrap_or_else(PoisonError::into_inner).told(limit, &settings))
}

async fn claim(client: Client, history: History, limit: Duration, jobs: usize, marks: Arc<Mutex<Marks>>) -> Result<()> {
    let claim = client.prepare(CLAIM).await?;
    let end = match history {
        History::Delete => "delete from jobs where id = any($1)",
        History::Keep => "update jobs set state = 2 where id = any($1)",
    };
    let end = client.prepare(end).await?;
    let over = || {
        let marks = marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks.ended() >= jobs || marks.over(limit)
    };
    while !over() {
        let rows = client.query(&claim, &[&i64::try_from(BATCH)?]).await?;
        if rows.is_empty() {
            return Ok(());
        }
        // The arguments are looked at: a queue hands them to its handler.
        let ids: Vec<i64> = rows.iter().filter(|row| !row.get::<_, &str>(2).is_empty()).map(|row| row.get(0)).collect();
        client.execute(&end, &[&ids]).await?;
        marks.lock().unwrap_or_else(PoisonError::into_inner).add(ids.len());
    }
    Ok(())
}
