//! SQLite: one connection, `synchronous = full`, transactions of a thousand.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rusqlite::{Connection, TransactionBehavior};
use serde_json::{Value, json};

use crate::marks::Marks;
use crate::{BATCH, History, Verb, arguments, told};

const TABLE: &str = "
    create table jobs (
        id integer primary key, queue text not null default 'q', grp text, task text not null, args text not null,
        state integer not null default 0, priority integer not null default 0, run_at integer not null default 1
    );
    create index jobs_ready on jobs (queue, priority, run_at, id) where state = 0";

const CLAIM: &str = "
    update jobs set state = 1
     where id in (select id from jobs where queue = 'q' and state = 0 and run_at <= 2 order by priority, run_at, id limit ?1)
    returning id, task, args";

pub(crate) fn run(file: &str, verb: &Verb) -> Result<Value> {
    let mut connection = Connection::open(file)?;
    connection.execute_batch("pragma journal_mode = wal; pragma synchronous = full")?;
    match *verb {
        Verb::Setup => {
            connection.execute_batch(TABLE)?;
            Ok(json!({}))
        }
        Verb::Bulk { jobs, unnest: false } => bulk(&mut connection, jobs),
        Verb::Drain { jobs, limit, history } => drain(&mut connection, jobs, limit, history),
        Verb::Bulk { unnest: true, .. } | Verb::Submit { .. } => bail!("on SQLite: setup | bulk N | fill N | drain N"),
    }
}

fn bulk(connection: &mut Connection, jobs: usize) -> Result<Value> {
    let begun = Instant::now();
    for first in (0..jobs).step_by(BATCH) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut insert = transaction.prepare_cached("insert into jobs (task, args) values ('noop', ?1)")?;
            for id in first..jobs.min(first + BATCH) {
                insert.execute([arguments(id)])?;
            }
        }
        transaction.commit()?;
    }
    Ok(told(jobs, begun.elapsed(), &format!("transactions of {BATCH}, synchronous full")))
}

fn drain(connection: &mut Connection, jobs: usize, limit: Duration, history: History) -> Result<Value> {
    let (end, word) = match history {
        History::Delete => ("delete from jobs where id = ?1", "delete"),
        History::Keep => ("update jobs set state = 2 where id = ?1", "update"),
    };
    let mut marks = Marks::begin();
    while marks.ended() < jobs && !marks.over(limit) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let ids = {
            let mut claim = transaction.prepare_cached(CLAIM)?;
            let rows = claim.query_map([i64::try_from(BATCH)?], |row| {
                // The arguments are looked at: a queue hands them to its handler.
                row.get::<_, String>(2)?;
                row.get::<_, i64>(0)
            })?;
            rows.collect::<Result<Vec<_>, _>>()?
        };
        transaction.commit()?;
        if ids.is_empty() {
            break;
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut end = transaction.prepare_cached(end)?;
            for id in &ids {
                end.execute([id])?;
            }
        }
        transaction.commit()?;
        marks.add(ids.len());
    }
    Ok(marks.told(limit, &format!("claim of {BATCH}, {word}, one connection, synchronous full")))
}
