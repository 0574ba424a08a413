//! Statistics: what the dispatcher has counted, by the minute, hour and day.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use turnwise_core::{
    Fingerprint, QueueName, TaskName, Timestamp,
    statistics::{
        ErrorRow, Row, Span,
        choice::{merge as merged, merge_errors},
    },
};
use turnwise_store::{
    AskErrors, AskStatistics, BegunStatistics, CountingTerm, Epoch, StoreError, TimedError, TimedRow, WriteStatistics,
    operators::{READ_ROWS, ROW_KINDS, in_order, of_columns, read_row},
};

use crate::errors::Failure;

type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn begin(conn: &Connection, epoch: Epoch) -> Result<BegunStatistics> {
    let mut lead = conn.prepare_cached(include_str!("../sql/statistics_lead.sql"))?;
    let term = lead.query_row([epoch.0], |row| row.get(0)).optional()?.ok_or(StoreError::NotLeading)?;
    Ok(BegunStatistics { term: CountingTerm(term), totals: totals(conn)? })
}

pub(crate) fn write(conn: &Connection, write: &WriteStatistics) -> Result<()> {
    let WriteStatistics { term, at, first, rows, errors, totals } = write;
    let mut is_term = conn.prepare_cached(include_str!("../sql/statistics_term.sql"))?;
    if !is_term.query_row([term.0], |row| row.get::<_, bool>(0))? {
        return Err(StoreError::NotLeading.into());
    }
    if *first {
        let minute = params![at.micros(), term.0];
        conn.prepare_cached(include_str!("../sql/statistics_replace.sql"))?.execute(minute)?;
        conn.prepare_cached(include_str!("../sql/statistics_replace_errors.sql"))?.execute(minute)?;
    }
    write_rows(conn, Span::Minute, *at, *term, rows)?;
    write_errors(conn, Span::Minute, *at, *term, errors)?;
    let mut total = conn.prepare_cached(include_str!("../sql/statistics_write_totals.sql"))?;
    for Row { queue, of, sums } in totals {
        let (kind, name) = of_columns(of);
        total.execute(params![queue.as_str(), kind, name, sums.to_bytes()])?;
    }
    Ok(())
}

fn write_rows(conn: &Connection, span: Span, at: Timestamp, term: CountingTerm, rows: &[Row]) -> Result<()> {
    let mut write = conn.prepare_cached(include_str!("../sql/statistics_write.sql"))?;
    for Row { queue, of, sums } in rows {
        let (kind, name) = of_columns(of);
        write.execute(params![span.code(), kind, queue.as_str(), at.micros(), name, term.0, sums.to_bytes()])?;
    }
    Ok(())
}

fn write_errors(conn: &Connection, span: Span, at: Timestamp, term: CountingTerm, errors: &[ErrorRow]) -> Result<()> {
    let mut write = conn.prepare_cached(include_str!("../sql/statistics_write_errors.sql"))?;
    for ErrorRow { queue, task, fingerprint, count, first, last } in errors {
        write.execute(params![
            span.code(),
            at.micros(),
            queue.as_str(),
            task.as_str(),
            fingerprint.to_string(),
            term.0,
            count.cast_signed(),
            first.micros(),
            last.micros()
        ])?;
    }
    Ok(())
}

pub(crate) fn totals(conn: &Connection) -> Result<Vec<Row>> {
    let mut totals = conn.prepare_cached(include_str!("../sql/statistics_totals.sql"))?;
    collect(totals.query(())?, 0)
}

pub(crate) fn rows(conn: &Connection, ask: &AskStatistics) -> Result<Vec<TimedRow>> {
    let (span, since, until) = (ask.span.code(), ask.since.micros(), ask.until.micros());
    let mut of_queue = conn.prepare_cached(include_str!("../sql/statistics_queue.sql"))?;
    let mut of_all = conn.prepare_cached(include_str!("../sql/statistics.sql"))?;
    let mut rows = Vec::new();
    let names = ask.of.names().map(|names| serde_json::Value::from(names).to_string());
    for kind in ask.of.kinds() {
        let mut found = match ask.of.queue() {
            Some(queue) => of_queue.query(params![span, kind, since, until, READ_ROWS, names, queue.as_str()])?,
            None => of_all.query(params![span, kind, since, until, READ_ROWS, names])?,
        };
        while let Some(row) = found.next()? {
            rows.push(TimedRow { at: Timestamp::from_micros(row.get(0)?), row: read(row, 1)? });
        }
    }
    Ok(in_order(rows))
}

pub(crate) fn errors(conn: &Connection, ask: &AskErrors) -> Result<Vec<TimedError>> {
    let mut errors = conn.prepare_cached(include_str!("../sql/statistics_errors.sql"))?;
    let mut found = errors.query(params![ask.span.code(), ask.since.micros(), ask.until.micros(), READ_ROWS])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push(TimedError { at: Timestamp::from_micros(row.get(6)?), error: read_error(row)? });
    }
    Ok(rows)
}

/// Merges one span of one queue's rows, or of errors; `false`: nothing is old.
pub(crate) fn merge(conn: &Connection, now: Timestamp) -> Result<bool> {
    for span in Span::ALL {
        let old = span.old_before(now);
        if merge_rows(conn, span, old)? || merge_errors_of(conn, span, old)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn merge_rows(conn: &Connection, span: Span, old: Timestamp) -> Result<bool> {
    let mut oldest = conn.prepare_cached(include_str!("../sql/statistics_oldest.sql"))?;
    let read = |row: &SqlRow<'_>| Ok((Timestamp::from_micros(row.get(0)?), row.get::<_, String>(1)?));
    let mut found = None;
    for kind in ROW_KINDS {
        if found.is_none() {
            found = oldest.query_row(params![span.code(), kind, old.micros()], read).optional()?;
        }
    }
    let Some((at, queue)) = found else { return Ok(false) };
    let next = span.next().unwrap_or(span);
    let begin = next.begin(at);
    let end = begin.plus(next.length());
    let mut take = conn.prepare_cached(include_str!("../sql/statistics_take.sql"))?;
    let mut taken = collect(take.query(params![span.code(), queue, begin.micros(), end.micros()])?, 0)?;
    if span.next().is_some() {
        taken.extend(collect(take.query(params![next.code(), queue, begin.micros(), end.micros()])?, 0)?);
        write_rows(conn, next, begin, CountingTerm::MERGED, &merged(taken))?;
    }
    Ok(true)
}

fn merge_errors_of(conn: &Connection, span: Span, old: Timestamp) -> Result<bool> {
    let mut oldest = conn.prepare_cached(include_str!("../sql/statistics_oldest_error.sql"))?;
    let oldest = oldest.query_row(params![span.code(), old.micros()], |row| row.get(0)).optional()?;
    let Some(at) = oldest.map(Timestamp::from_micros) else { return Ok(false) };
    let next = span.next().unwrap_or(span);
    let begin = next.begin(at);
    let end = begin.plus(next.length());
    let mut take = conn.prepare_cached(include_str!("../sql/statistics_take_errors.sql"))?;
    let mut taken = collect_errors(take.query(params![span.code(), begin.micros(), end.micros()])?)?;
    if span.next().is_some() {
        taken.extend(collect_errors(take.query(params![next.code(), begin.micros(), end.micros()])?)?);
        write_errors(conn, next, begin, CountingTerm::MERGED, &merge_errors(taken))?;
    }
    Ok(true)
}

fn collect(mut found: rusqlite::Rows<'_>, first: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push(read(row, first)?);
    }
    Ok(rows)
}

fn collect_errors(mut found: rusqlite::Rows<'_>) -> Result<Vec<ErrorRow>> {
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push(read_error(row)?);
    }
    Ok(rows)
}

fn read_error(row: &SqlRow<'_>) -> Result<ErrorRow> {
    let fingerprint: String = row.get(2)?;
    let unreadable = || StoreError::broken("read statistics", format!("{fingerprint:?} is no fingerprint"));
    Ok(ErrorRow {
        queue: QueueName::stored(row.get::<_, String>(0)?.into()),
        task: TaskName::stored(row.get::<_, String>(1)?.into()),
        fingerprint: Fingerprint::from_text(&fingerprint).ok_or_else(unreadable)?,
        count: row.get::<_, i64>(3)?.cast_unsigned(),
        first: Timestamp::from_micros(row.get(4)?),
        last: Timestamp::from_micros(row.get(5)?),
    })
}

/// The queue, the kind, the name and the sums, from this column on.
fn read(row: &SqlRow<'_>, first: usize) -> Result<Row> {
    let (queue, name): (String, String) = (row.get(first)?, row.get(first + 2)?);
    let sums = row.get_ref(first + 3)?.as_blob().map_err(rusqlite::Error::from)?;
    Ok(read_row(&queue, row.get(first + 1)?, &name, sums)?)
}
