//! Statistics, as the dispatcher writes them.

use std::collections::BTreeMap;

use turnwise_core::{
    Fingerprint, QueueName, TaskName, Timestamp,
    statistics::{
        ErrorRow, Of, Row, Span, Sums,
        choice::{merge as merged, merge_errors},
    },
};

use super::MemoryStore;
use crate::{
    StoreError,
    operators::{
        AskErrors, AskStatistics, BegunStatistics, CountingTerm, READ_ROWS, TimedError, TimedRow, WriteStatistics,
    },
    store::{Epoch, Result},
};

#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    /// Of the term that may write.
    epoch: Epoch,
    term: CountingTerm,
    rows: BTreeMap<(Span, Timestamp, QueueName, Of, CountingTerm), Sums>,
    errors: BTreeMap<(Span, Timestamp, ErrorKey, CountingTerm), ErrorRow>,
    totals: BTreeMap<(QueueName, Of), Sums>,
}

type ErrorKey = (QueueName, TaskName, Fingerprint);

fn key(row: &ErrorRow) -> ErrorKey {
    (row.queue.clone(), row.task.clone(), row.fingerprint)
}

impl Counts {
    fn totals(&self) -> Vec<Row> {
        let row = |((queue, of), sums): (&(QueueName, Of), &Sums)| Row {
            queue: queue.clone(),
            of: of.clone(),
            sums: sums.clone(),
        };
        self.totals.iter().map(row).collect()
    }

    /// Takes out the rows of one queue that are merged into one span, the oldest that are old.
    fn merge_rows(&mut self, span: Span, old: Timestamp) -> bool {
        let first = self.rows.keys().find(|(of_span, at, ..)| *of_span == span && *at < old);
        let Some((_, at, queue)) = first.map(|(span, at, queue, ..)| (*span, *at, queue.clone())) else { return false };
        let next = span.next().unwrap_or(span);
        let begin = next.begin(at);
        let is_source = |of_span: Span, at: Timestamp| of_span == span && next.begin(at) == begin;
        let is_target = |of_span: Span, at: Timestamp| of_span == next && at == begin;
        let taken: Vec<_> = self
            .rows
            .extract_if(.., |(of_span, at, of_queue, ..), _| {
                *of_queue == queue && (is_source(*of_span, *at) || is_target(*of_span, *at))
            })
            .map(|((_, _, queue, of, _), sums)| Row { queue, of, sums })
            .collect();
        if span.next().is_some() {
            for Row { queue, of, sums } in merged(taken) {
                self.rows.insert((next, begin, queue, of, CountingTerm::MERGED), sums);
            }
        }
        true
    }

    fn merge_errors(&mut self, span: Span, old: Timestamp) -> bool {
        let first = self.errors.keys().find(|(of_span, at, ..)| *of_span == span && *at < old);
        let Some(at) = first.map(|(_, at, ..)| *at) else { return false };
        let next = span.next().unwrap_or(span);
        let begin = next.begin(at);
        let taken: Vec<_> = self
            .errors
            .extract_if(.., |(of_span, at, ..), _| {
                (*of_span == span && next.begin(*at) == begin) || (*of_span == next && *at == begin)
            })
            .map(|(_, row)| row)
            .collect();
        if span.next().is_some() {
            for row in merge_errors(taken) {
                self.errors.insert((next, begin, key(&row), CountingTerm::MERGED), row);
            }
        }
        true
    }
}

pub(super) fn begin(store: &MemoryStore, epoch: Epoch) -> Result<BegunStatistics> {
    let counts = &mut store.data().statistics;
    if epoch < counts.epoch {
        return Err(StoreError::NotLeading);
    }
    (counts.epoch, counts.term) = (epoch, CountingTerm(counts.term.0 + 1));
    Ok(BegunStatistics { term: counts.term, totals: counts.totals() })
}

pub(super) fn write(store: &MemoryStore, write: WriteStatistics) -> Result<()> {
    let counts = &mut store.data().statistics;
    let WriteStatistics { term, at, first, rows, errors, totals } = write;
    if term != counts.term {
        return Err(StoreError::NotLeading);
    }
    if first {
        let minute = Span::Minute;
        counts.rows.retain(|(span, begun, _, _, by), _| (*span, *begun, *by) != (minute, at, term));
        counts.errors.retain(|(span, begun, _, by), _| (*span, *begun, *by) != (minute, at, term));
    }
    for Row { queue, of, sums } in rows {
        counts.rows.insert((Span::Minute, at, queue, of, term), sums);
    }
    for row in errors {
        counts.errors.insert((Span::Minute, at, key(&row), term), row);
    }
    for Row { queue, of, sums } in totals {
        counts.totals.insert((queue, of), sums);
    }
    Ok(())
}

pub(super) fn rows(store: &MemoryStore, ask: &AskStatistics) -> Result<Vec<TimedRow>> {
    let data = store.data();
    let wanted = |(span, at, queue, of, _): &&(Span, Timestamp, QueueName, Of, CountingTerm)| {
        let queue = ask.of.queue().is_none_or(|wanted| wanted == queue);
        *span == ask.span && (ask.since..ask.until).contains(at) && ask.of.wants(of) && queue
    };
    let rows = data.statistics.rows.iter().filter(|(key, _)| wanted(key)).take(READ_ROWS as usize);
    let timed = rows.map(|((_, at, queue, of, _), sums)| {
        let row = Row { queue: queue.clone(), of: of.clone(), sums: sums.clone() };
        TimedRow { at: *at, row }
    });
    Ok(timed.collect())
}

pub(super) fn errors(store: &MemoryStore, ask: &AskErrors) -> Result<Vec<TimedError>> {
    let data = store.data();
    let wanted = |span: Span, at: Timestamp| span == ask.span && (ask.since..ask.until).contains(&at);
    let rows = data.statistics.errors.iter().filter(|((span, at, ..), _)| wanted(*span, *at));
    let timed = |((_, at, ..), error): (&(_, Timestamp, _, _), &ErrorRow)| TimedError { at: *at, error: error.clone() };
    Ok(rows.take(READ_ROWS as usize).map(timed).collect())
}

pub(super) fn totals(store: &MemoryStore) -> Result<Vec<Row>> {
    Ok(store.data().statistics.totals())
}

pub(super) fn merge(store: &MemoryStore) -> Result<bool> {
    let now = store.clock.now();
    let counts = &mut store.data().statistics;
    Ok(Span::ALL.into_iter().any(|span| {
        let old = span.old_before(now);
        counts.merge_rows(span, old) || counts.merge_errors(span, old)
    }))
}
