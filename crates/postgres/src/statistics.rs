//! Statistics: what the dispatcher has counted, by the minute, hour and day.

use tokio_postgres::Row as SqlRow;
use turnwise_core::{
    Fingerprint, QueueName, TaskName, Timestamp,
    statistics::{
        ErrorRow, Row, Span,
        choice::{merge as merged, merge_errors},
    },
};
use turnwise_store::{
    AskErrors, AskStatistics, BegunStatistics, CountingTerm, Epoch, Result, StoreError, TimedError, TimedRow,
    WriteStatistics,
    operators::{READ_ROWS, ROW_KINDS, in_order, of_columns, read_row},
};

use crate::{
    connect::connection,
    errors::failed,
    rows::{self, Moment, get},
    session::{Answer, Begin, Session},
    store::Inner,
};

const WRITE: &str = "write statistics";
const READ: &str = "read statistics";
const MERGE: &str = "merge statistics";

pub(crate) async fn begin(store: &Inner, epoch: Epoch) -> Result<BegunStatistics> {
    let client = connection(&store.pools.people).await?;
    let term = client.query(include_str!("../sql/statistics_lead.sql"), &[&epoch.0]).await.map_err(failed(WRITE))?;
    let term = CountingTerm(get(term.first().ok_or(StoreError::NotLeading)?, 0)?);
    Ok(BegunStatistics { term, totals: all_totals(&client).await? })
}

pub(crate) async fn write(store: &Inner, write: &WriteStatistics) -> Result<()> {
    let fail = failed(WRITE);
    let WriteStatistics { term, at, first, rows, errors, totals } = write;
    let mut client = connection(&store.pools.people).await?;
    let transaction = client.begin().await.map_err(fail)?;
    let is_term = transaction.query(include_str!("../sql/statistics_term.sql"), &[&term.0]).await.map_err(fail)?;
    if is_term.is_empty() {
        return Err(StoreError::NotLeading);
    }
    if *first {
        let at = Moment(*at);
        for sql in [include_str!("../sql/statistics_replace.sql"), include_str!("../sql/statistics_replace_errors.sql")]
        {
            transaction.execute(sql, &[&at, &term.0]).await.map_err(fail)?;
        }
    }
    write_rows(&transaction, Span::Minute, *at, *term, rows).await.map_err(fail)?;
    write_errors(&transaction, Span::Minute, *at, *term, errors).await.map_err(fail)?;
    if !totals.is_empty() {
        let Columns { kinds, queues, names, sums } = Columns::of(totals);
        let sql = include_str!("../sql/statistics_write_totals.sql");
        transaction.execute(sql, &[&kinds, &queues, &names, &sums]).await.map_err(fail)?;
    }
    transaction.commit().await.map_err(fail)
}

/// Rows as columns, in the order of the binds.
struct Columns<'a> {
    kinds: Vec<i16>,
    queues: Vec<&'a str>,
    names: Vec<&'a str>,
    sums: Vec<Vec<u8>>,
}

impl<'a> Columns<'a> {
    fn of(rows: &'a [Row]) -> Self {
        Self {
            kinds: rows.iter().map(|row| of_columns(&row.of).0).collect(),
            queues: rows.iter().map(|row| row.queue.as_str()).collect(),
            names: rows.iter().map(|row| of_columns(&row.of).1).collect(),
            sums: rows.iter().map(|row| row.sums.to_bytes()).collect(),
        }
    }
}

async fn write_rows(session: &impl Session, span: Span, at: Timestamp, term: CountingTerm, rows: &[Row]) -> Answer<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let Columns { kinds, queues, names, sums } = Columns::of(rows);
    let sql = include_str!("../sql/statistics_write.sql");
    session.execute(sql, &[&span.code(), &Moment(at), &term.0, &kinds, &queues, &names, &sums]).await.map(drop)
}

async fn write_errors(
    session: &impl Session,
    span: Span,
    at: Timestamp,
    term: CountingTerm,
    errors: &[ErrorRow],
) -> Answer<()> {
    if errors.is_empty() {
        return Ok(());
    }
    let each = || errors.iter();
    let queues: Vec<&str> = each().map(|error| error.queue.as_str()).collect();
    let tasks: Vec<&str> = each().map(|error| error.task.as_str()).collect();
    let fingerprints: Vec<String> = each().map(|error| error.fingerprint.to_string()).collect();
    let counts: Vec<i64> = each().map(|error| error.count.cast_signed()).collect();
    let first: Vec<Moment> = each().map(|error| Moment(error.first)).collect();
    let last: Vec<Moment> = each().map(|error| Moment(error.last)).collect();
    let sql = include_str!("../sql/statistics_write_errors.sql");
    let (code, at) = (span.code(), Moment(at));
    session.execute(sql, &[&code, &at, &term.0, &queues, &tasks, &fingerprints, &counts, &first, &last]).await.map(drop)
}

pub(crate) async fn totals(store: &Inner) -> Result<Vec<Row>> {
    all_totals(&connection(&store.pools.people).await?).await
}

async fn all_totals(session: &impl Session) -> Result<Vec<Row>> {
    let found = session.query(include_str!("../sql/statistics_totals.sql"), &[]).await.map_err(failed(READ))?;
    found.iter().map(|row| read(row, 0)).collect()
}

pub(crate) async fn rows(store: &Inner, ask: &AskStatistics) -> Result<Vec<TimedRow>> {
    let client = connection(&store.pools.people).await?;
    let (span, limit) = (ask.span.code(), i64::from(READ_ROWS));
    let (since, until) = (Moment(ask.since), Moment(ask.until));
    let mut rows = Vec::new();
    let names = ask.of.names();
    for kind in ask.of.kinds() {
        let found = match ask.of.queue().map(|queue| queue.as_str()) {
            Some(queue) => {
                let sql = include_str!("../sql/statistics_queue.sql");
                client.query(sql, &[&span, kind, &since, &until, &limit, &names, &queue]).await
            }
            None => {
                let sql = include_str!("../sql/statistics.sql");
                client.query(sql, &[&span, kind, &since, &until, &limit, &names]).await
            }
        };
        for row in &found.map_err(failed(READ))? {
            rows.push(TimedRow { at: rows::now(row, 0)?, row: read(row, 1)? });
        }
    }
    Ok(in_order(rows))
}

pub(crate) async fn errors(store: &Inner, ask: &AskErrors) -> Result<Vec<TimedError>> {
    let client = connection(&store.pools.people).await?;
    let sql = include_str!("../sql/statistics_errors.sql");
    let (span, limit) = (ask.span.code(), i64::from(READ_ROWS));
    let found = client.query(sql, &[&span, &Moment(ask.since), &Moment(ask.until), &limit]).await;
    let timed = |row: &SqlRow| Ok(TimedError { at: rows::now(row, 6)?, error: read_error(row)? });
    found.map_err(failed(READ))?.iter().map(timed).collect()
}

/// Merges one span of one queue's rows, or of errors; `false`: nothing is old.
pub(crate) async fn merge(store: &Inner) -> Result<bool> {
    let mut client = connection(&store.pools.people).await?;
    let now = client.query_one(include_str!("../sql/now.sql"), &[]).await.map_err(failed(MERGE))?;
    let now = rows::now(&now, 0)?;
    for span in Span::ALL {
        let old = span.old_before(now);
        if merge_rows(&mut client, span, old).await? || merge_errors_of(&mut client, span, old).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn merge_rows(client: &mut impl Begin, span: Span, old: Timestamp) -> Result<bool> {
    let fail = failed(MERGE);
    let transaction = client.begin().await.map_err(fail)?;
    let mut oldest = Vec::new();
    for kind in ROW_KINDS {
        if oldest.is_empty() {
            let sql = include_str!("../sql/statistics_oldest.sql");
            oldest = transaction.query(sql, &[&span.code(), &kind, &Moment(old)]).await.map_err(fail)?;
        }
    }
    let Some(oldest) = oldest.first() else { return Ok(false) };
    let (at, queue): (Timestamp, String) = (rows::now(oldest, 0)?, get(oldest, 1)?);
    let next = span.next().unwrap_or(span);
    let begin = next.begin(at);
    let (from, to) = (Moment(begin), Moment(begin.plus(next.length())));
    let take = include_str!("../sql/statistics_take.sql");
    let mut taken = transaction.query(take, &[&span.code(), &queue, &from, &to]).await.map_err(fail)?;
    if span.next().is_some() {
        taken.extend(transaction.query(take, &[&next.code(), &queue, &from, &to]).await.map_err(fail)?);
        let taken = taken.iter().map(|row| read(row, 0)).collect::<Result<Vec<_>>>()?;
        write_rows(&transaction, next, begin, CountingTerm::MERGED, &merged(taken)).await.map_err(fail)?;
    }
    transaction.commit().await.map_err(fail)?;
    Ok(true)
}

async fn merge_errors_of(client: &mut impl Begin, span: Span, old: Timestamp) -> Result<bool> {
    let fail = failed(MERGE);
    let transaction = client.begin().await.map_err(fail)?;
    let oldest = include_str!("../sql/statistics_oldest_error.sql");
    let oldest = transaction.query(oldest, &[&span.code(), &Moment(old)]).await.map_err(fail)?;
    let Some(oldest) = oldest.first() else { return Ok(false) };
    let next = span.next().unwrap_or(span);
    let begin = next.begin(rows::now(oldest, 0)?);
    let (from, to) = (Moment(begin), Moment(begin.plus(next.length())));
    let take = include_str!("../sql/statistics_take_errors.sql");
    let mut taken = transaction.query(take, &[&span.code(), &from, &to]).await.map_err(fail)?;
    if span.next().is_some() {
        taken.extend(transaction.query(take, &[&next.code(), &from, &to]).await.map_err(fail)?);
        let taken = taken.iter().map(read_error).collect::<Result<Vec<_>>>()?;
        write_errors(&transaction, next, begin, CountingTerm::MERGED, &merge_errors(taken)).await.map_err(fail)?;
    }
    transaction.commit().await.map_err(fail)?;
    Ok(true)
}

/// The queue, the kind, the name and the sums, from this column on.
fn read(row: &SqlRow, first: usize) -> Result<Row> {
    let (queue, name): (String, String) = (get(row, first)?, get(row, first + 2)?);
    read_row(&queue, get(row, first + 1)?, &name, &get::<Vec<u8>>(row, first + 3)?)
}

fn read_error(row: &SqlRow) -> Result<ErrorRow> {
    let fingerprint: String = get(row, 2)?;
    let unreadable = || StoreError::broken(READ, format!("{fingerprint:?} is no fingerprint"));
    Ok(ErrorRow {
        queue: QueueName::stored(get::<String>(row, 0)?.into()),
        task: TaskName::stored(get::<String>(row, 1)?.into()),
        fingerprint: Fingerprint::from_text(&fingerprint).ok_or_else(unreadable)?,
        count: get::<i64>(row, 3)?.cast_unsigned(),
        first: rows::now(row, 4)?,
        last: rows::now(row, 5)?,
    })
}
