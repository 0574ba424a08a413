//! Many jobs at once, by COPY: about half of what the statement costs the server.
//!
//! COPY cannot leave out what is there already, nor refuse a group that is full. So it is tried where neither is to be
//! expected, and where it fails the statement does it all again.

use futures_util::pin_mut;
use tokio_postgres::{
    binary_copy::BinaryCopyInWriter,
    types::{ToSql, Type},
};
use turnwise_core::{KeyName, NewJob, RetryPolicy};
use turnwise_store::{Result, Submitted};
use uuid::Uuid;

use crate::{
    connect::Lent,
    enqueue::chunks,
    errors::{failed, is_there_already},
    rows::{JsonText, Moment},
    session::{Begin, Session},
    submit::newest,
};

/// From this many jobs on; for fewer, the statement's one round trip is quicker than the five of this.
const LEAST: usize = 200;

const MAY: &str = include_str!("../sql/copy_may.sql");
const DONE: &str = include_str!("../sql/copy_done.sql");

const COLUMNS: [Type; 10] = [
    Type::UUID,
    Type::TEXT,
    Type::JSON,
    Type::TEXT,
    Type::TEXT,
    Type::INT2,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TIMESTAMPTZ,
];

/// `None`: COPY cannot do it; nothing is stored.
pub(crate) async fn copy(client: &mut Lent, jobs: &[NewJob]) -> Result<Option<Vec<Submitted>>> {
    let fail = failed("enqueue");
    // Jobs that are due now get the time from the database: the column's default sets it for all of them.
    let Some(least) = jobs.iter().map(|job| job.id.uuid()).min() else { return Ok(None) };
    // COPY takes a statement with a name, which a pooler does not keep.
    if client.pooled() || jobs.len() < LEAST || jobs.iter().any(|job| job.due.is_some() || !job.after.is_empty()) {
        return Ok(None);
    }
    let newest = newest(jobs.iter());
    let transaction = client.begin().await.map_err(fail)?;
    if !transaction.query_one(MAY, &[&least, &newest]).await.map_err(fail)?.get::<_, bool>(0) {
        return Ok(None);
    }
    // In parts: the time a statement may take includes that in which its rows arrive.
    for part in chunks(jobs) {
        match write(transaction.inner(), part).await {
            Ok(()) => {}
            // It is there already, or twice in the list.
            Err(error) if is_there_already(&error) => return Ok(None),
            Err(error) => return Err(fail(error)),
        }
    }
    // Checked again, after the rows are in: a job that was being settled at the first check has ended since.
    let ids: Vec<Uuid> = jobs.iter().map(|job| job.id.uuid()).collect();
    if transaction.query_one(DONE, &[&ids]).await.map_err(fail)?.get(0) {
        return Ok(None);
    }
    transaction.commit().await.map_err(fail)?;
    Ok(Some(jobs.iter().map(|job| Submitted::itself(job.id, true)).collect()))
}

async fn write(
    transaction: &tokio_postgres::Transaction<'_>,
    jobs: &[NewJob],
) -> std::result::Result<(), tokio_postgres::Error> {
    let sink = transaction.copy_in(include_str!("../sql/copy.sql")).await?;
    let writer = BinaryCopyInWriter::new(sink, &COLUMNS);
    pin_mut!(writer);
    for job in jobs {
        let (retry, terms) = (RetryPolicy::to_stored(job.retry.as_ref()), job.terms.to_text());
        let row: [&(dyn ToSql + Sync); 10] = [
            &job.id.uuid(),
            &job.task.as_str(),
            &JsonText(job.args.as_str()),
            &job.queue.as_str(),
            &job.group.as_str(),
            &i16::from(job.priority.get()),
            &retry,
            &job.key.as_ref().map(KeyName::as_str),
            &terms,
            &job.expires.map(Moment),
        ];
        writer.as_mut().write(&row).await?;
    }
    writer.finish().await.map(drop)
}
