//! Cleaning up. History lies in slices of time, made ahead and dropped whole; only what found no slice goes row by row.

use turnwise_core::{Retention, Timestamp, audit::NewAuditLine, lifecycle::End};
use turnwise_store::{Cursor, Loss, Result, StoreError};
use uuid::Uuid;

use crate::{
    audit,
    connect::connection,
    errors::{failed, is_for_another_time},
    news::CursorParts,
    once,
    rows::{Moment, get},
    session::{Answer, Begin, Bind, Session},
    store::Inner,
    unique,
};

/// Most attempts, lines, steps and bad ends that are deleted in one round: the dispatcher waits for it.
const STORY_ROWS: i64 = 20_000;

/// Making and dropping a slice needs an exclusive lock on its state's history for a moment. Reads and settles queue behind the
/// request for that lock, so it is given up soon and made again in the next round.
const PATIENCE: &str = "set local lock_timeout = '100ms'";

/// The part of history that the statements are written for; another part's name is put in its place.
const WRITTEN_FOR: &str = "history_success_rest";

/// Does a step of a prune. With a line, that is written in the transaction of the step, if the step deletes anything: the first one writes
/// it, for a line is there once. A macro, because the steps are futures that borrow what they work on.
macro_rules! step {
    ($line:expr, $client:expr, $on:ident => $work:expr) => {
        match &$line {
            None => {
                let $on = &mut $client;
                $work.await
            }
            Some(line) => {
                let mut transaction = $client.begin().await.map_err(failed("prune"))?;
                let $on = &mut transaction;
                let deleted = $work.await;
                if let Ok(deleted) = &deleted {
                    let lines: &[_] = if *deleted > 0 { &[line] } else { &[] };
                    audit::write(&transaction, lines).await.map_err(failed("prune"))?;
                    transaction.commit().await.map_err(failed("prune"))?;
                }
                deleted
            }
        }
    };
}

pub(crate) async fn prune(store: &Inner, seen: Option<&Cursor>, limit: u32, line: Option<NewAuditLine>) -> Result<u64> {
    let fail = failed("prune");
    let mut client = connection(&store.pools.people).await?;
    let (retention, limit) = (store.kept.now().retention, i64::from(limit));
    let line = line.map(|line| line.keeping(retention));
    let begin = client.query_one(include_str!("../sql/prune_begin.sql"), &[]).await.map_err(fail)?;
    // Slices are dropped past the triggers that refuse all other changes then.
    if let Some(refusal) = get::<Option<String>>(&begin, 1)? {
        return Err(StoreError::Refused(refusal));
    }
    let now: Moment = get(&begin, 0)?;
    let slices = make_ahead(&mut client, retention, now.0).await?;
    let mut old = 0;
    for end in End::ALL {
        let edge = retention.edge(end, now.0);
        for slice in slices.iter().filter(|slice| slice.end == end && slice.from < edge) {
            if old < limit {
                let gone = if slice.to <= edge {
                    step!(line, client, on => drop_slice(on, slice, limit - old))
                } else if !retention.keeps(end) {
                    // Where none are kept any more, the last slice does not wait to be full.
                    step!(line, client, on => by_rows(on, &slice.name(), edge, limit - old))
                } else {
                    Ok(0)
                };
                old += match gone {
                    Err(error) if is_for_another_time(&error) => 0,
                    gone => gone.map_err(fail)?,
                };
            }
        }
        if old < limit {
            old += step!(line, client, on => by_rows(on, &rest(end), edge, limit - old)).map_err(fail)?;
        }
    }
    let changes = match seen.and_then(CursorParts::of) {
        Some(CursorParts { lineage, snapshot }) => {
            let sql = include_str!("../sql/prune_changes.sql");
            let gone = client.query_one(sql, &[&snapshot, &limit, &lineage]).await.map_err(fail)?;
            u64::try_from(get::<i64>(&gone, 0)?).unwrap_or(0)
        }
        None => 0,
    };
    if forget_bad_ends(&client).await.map_err(fail)? {
        old = old.max(limit);
    }
    let sql = include_str!("../sql/prune_lost.sql");
    let lost: [Bind<'_>; 2] = [&Moment(Loss::edge(now.0)), &limit];
    let losses = step!(line, client, on => on.execute(sql, &lost)).map_err(fail)?;
    let once = step!(line, client, on => once::prune(on, limit)).map_err(fail)?;
    let lines = step!(line, client, on => audit::prune(on, now.0, limit)).map_err(fail)?;
    // Last, so that nothing else depends on rows that other transactions lock.
    let keys = step!(line, client, on => unique::prune(store, on, limit))?;
    Ok(u64::try_from(old).unwrap_or(0) + changes + losses + once + lines + keys)
}

/// Forgets bad ends in two rounds: in one it becomes known which transactions could still bring a job that waits for them, in a
/// later one those transactions are over. Returns whether there may be more; bad ends are no jobs, and not counted.
async fn forget_bad_ends(client: &impl Session) -> Answer<bool> {
    let gone: i64 = client.query_one(include_str!("../sql/prune_bad_ends.sql"), &[&STORY_ROWS]).await?.try_get(0)?;
    let seen = client.query(include_str!("../sql/bad_ends_seen.sql"), &[&STORY_ROWS]).await?;
    let seen = seen.iter().map(|row| row.try_get(0)).collect::<Answer<Vec<Uuid>>>()?;
    if !seen.is_empty() {
        client.execute(include_str!("../sql/bad_ends_until.sql"), &[&seen]).await?;
    }
    Ok(gone >= STORY_ROWS || i64::try_from(seen.len()).is_ok_and(|seen| seen >= STORY_ROWS))
}

/// A slice of history: a table whose name says what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slice {
    from: Timestamp,
    to: Timestamp,
    end: End,
}

impl Slice {
    fn name(&self) -> String {
        format!("{}_{}_{}", of_state(self.end), stamp(self.from), stamp(self.to))
    }

    fn read(name: &str) -> Option<Self> {
        let end = End::ALL.into_iter().find(|end| name.starts_with(&of_state(*end)))?;
        let (from, to) = name.strip_prefix(&of_state(end))?.strip_prefix('_')?.split_once('_')?;
        Some(Self { from: read_stamp(from)?, to: read_stamp(to)?, end })
    }

    fn holds(&self, end: End, at: Timestamp) -> bool {
        self.end == end && self.from <= at && at < self.to
    }
}

fn of_state(end: End) -> String {
    format!("history_{}", end.state())
}

fn rest(end: End) -> String {
    format!("{}_rest", of_state(end))
}

/// An hour in UTC, like 2030013108. Slices begin and end with one.
fn stamp(at: Timestamp) -> String {
    at.to_string().chars().filter(char::is_ascii_digit).take(10).collect()
}

fn read_stamp(text: &str) -> Option<Timestamp> {
    let part = |range| text.get(range).filter(|_| text.len() == 10);
    format!("{}-{}-{}T{}:00:00Z", part(0..4)?, part(4..6)?, part(6..8)?, part(8..10)?).parse().ok()
}

/// Makes the slices that hold `now` and the one after where they are missing; returns all slices, the oldest first.
pub(crate) async fn make_ahead(client: &mut impl Begin, retention: Retention, now: Timestamp) -> Result<Vec<Slice>> {
    let fail = failed("read the slices of history");
    let rows = client.query(include_str!("../sql/slices.sql"), &[]).await.map_err(fail)?;
    let mut slices = Vec::with_capacity(rows.len());
    for row in &rows {
        slices.extend(Slice::read(&get::<String>(row, 0)?));
    }
    for slice in missing(&slices, retention, now) {
        if make(client, &slice).await? {
            slices.push(slice);
        }
    }
    slices.sort_unstable_by_key(|slice| slice.from);
    Ok(slices)
}

/// The slices to be made: as long as the retention has them, cut where slices that were made for another retention are in the way.
fn missing(slices: &[Slice], retention: Retention, now: Timestamp) -> Vec<Slice> {
    let mut missing = Vec::new();
    for end in End::ALL {
        let until = retention.slice(end, retention.slice(end, now).1).1;
        let mut at = now;
        while at < until {
            at = match slices.iter().find(|slice| slice.holds(end, at)) {
                Some(slice) => slice.to,
                None => {
                    let (from, to) = retention.slice(end, at);
                    let others = || slices.iter().filter(|slice| slice.end == end);
                    let from = others().map(|slice| slice.to).filter(|other| *other <= at).fold(from, Timestamp::max);
                    let to = others().map(|slice| slice.from).filter(|other| *other > at).fold(to, Timestamp::min);
                    missing.push(Slice { from, to, end });
                    to
                }
            };
        }
    }
    missing
}

/// Whether it was made. Not where the rest already holds jobs of its time: those are deleted row by row when they are old enough.
/// Nor where a lock is in the way or another process was faster: then the next round finds the slice, or makes it.
async fn make(client: &mut impl Begin, slice: &Slice) -> Result<bool> {
    let fail = failed("make a slice of history");
    let taken = include_str!("../sql/slice_taken.sql").replace(WRITTEN_FOR, &rest(slice.end));
    let taken =
        client.wire().rarely().query_one(&taken, &[&Moment(slice.from), &Moment(slice.to)]).await.map_err(fail)?;
    if get(&taken, 0)? {
        return Ok(false);
    }
    let Slice { from, to, .. } = slice;
    let sql = format!(
        "create table turnwise.{} partition of turnwise.{} for values from ('{from}') to ('{to}')",
        slice.name(),
        of_state(slice.end)
    );
    let transaction = client.begin().await.map_err(fail)?;
    let made = match transaction.batch_execute(&format!("{PATIENCE}; {sql}")).await {
        Ok(()) => transaction.commit().await,
        Err(error) => Err(error),
    };
    match made {
        Ok(()) => Ok(true),
        Err(error) if is_for_another_time(&error) => Ok(false),
        Err(error) => Err(fail(error)),
    }
}

/// Drops a slice with the stories of its jobs, at once or in rounds; returns how many jobs were deleted, or `limit` if there is
/// more to do.
async fn drop_slice(client: &mut impl Begin, slice: &Slice, limit: i64) -> Answer<i64> {
    let name = slice.name();
    if strip(client, &name, slice.to, limit).await? >= STORY_ROWS {
        return Ok(limit);
    }
    let rows = include_str!("../sql/slice_rows.sql").replace(WRITTEN_FOR, &name);
    let rows = client.wire().rarely().query_one(&rows, &[]).await?.try_get(0)?;
    let transaction = client.begin().await?;
    // Readers lock the whole table before its parts: so does this.
    let lock = format!("{PATIENCE}; lock table only turnwise.{} in access exclusive mode", of_state(slice.end));
    transaction.batch_execute(&lock).await?;
    let noted = format!("select exists (select from turnwise.{name} where noted)");
    if transaction.wire().rarely().query_one(&noted, &[]).await?.try_get(0)? {
        return Ok(limit);
    }
    if slice.end != End::Success {
        // A transaction that found such a job, to wait for it, has either read history, and committed before this lock was
        // granted; or it has a snapshot from before the job ended, and still sees it as unfinished.
        let older = include_str!("../sql/slice_older.sql");
        if transaction.query_one(older, &[&Moment(slice.to)]).await?.try_get(0)? {
            return Ok(0);
        }
        let ends = include_str!("../sql/prune_ends.sql").replace(WRITTEN_FOR, &name);
        transaction.wire().rarely().execute(&ends, &[]).await?;
    }
    transaction.batch_execute(&format!("drop table turnwise.{name}")).await?;
    transaction.commit().await?;
    Ok(rows)
}

/// Deletes the stories of jobs that ended before `edge`; returns the largest number of rows deleted of one kind. [`STORY_ROWS`] or
/// more: there may be more.
async fn strip(client: &impl Session, part: &str, edge: Timestamp, limit: i64) -> Answer<i64> {
    let sql = include_str!("../sql/prune_stories.sql").replace(WRITTEN_FOR, part);
    let most = client.wire().rarely().query_one(&sql, &[&Moment(edge), &limit, &STORY_ROWS]).await?.try_get(0)?;
    let sql = include_str!("../sql/prune_told.sql").replace(WRITTEN_FOR, part);
    client.wire().rarely().execute(&sql, &[&Moment(edge), &limit]).await?;
    Ok(most)
}

/// Deletes jobs of a part of history that ended before `edge`, with their stories.
async fn by_rows(client: &impl Session, part: &str, edge: Timestamp, limit: i64) -> Answer<i64> {
    let stripped = strip(client, part, edge, limit).await?;
    let sql = include_str!("../sql/prune_history.sql").replace(WRITTEN_FOR, part);
    let gone = client.wire().rarely().query_one(&sql, &[&Moment(edge), &limit]).await?.try_get(0)?;
    // There may be more: reported as a full round, so that the next one follows at once.
    Ok(if stripped >= STORY_ROWS { limit.max(gone) } else { gone })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const DAY: Duration = Duration::from_secs(86_400);

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn names(slices: &[Slice], retention: Duration, now: &str) -> Vec<String> {
        let missing = missing(slices, retention.into(), at(now));
        missing.iter().filter(|slice| slice.end == End::Failed).map(Slice::name).collect()
    }

    #[test]
    fn a_slice_is_read_back_from_its_name() {
        let slice = Slice { from: at("2030-01-31T08:00:00Z"), to: at("2030-02-01T00:00:00Z"), end: End::Cancelled };
        assert_eq!(slice.name(), "history_cancelled_2030013108_2030020100");
        assert_eq!(Slice::read(&slice.name()), Some(slice));
        for other in ["history_failed_rest", "history_failed_2030013108", "history_failed_20300131_20300201", "job"] {
            assert_eq!(Slice::read(other), None, "{other}");
        }
    }

    #[test]
    fn the_present_slice_and_the_next_are_made_ahead() {
        let first = names(&[], 7 * DAY, "2030-01-31T08:30:00Z");
        assert_eq!(first, ["history_failed_2030013100_2030020100", "history_failed_2030020100_2030020200"]);
        let there: Vec<_> = first.iter().filter_map(|name| Slice::read(name)).collect();
        assert!(names(&there, 7 * DAY, "2030-01-31T23:59:59Z").is_empty());
        assert_eq!(names(&there, 7 * DAY, "2030-02-01T00:00:00Z"), ["history_failed_2030020200_2030020300"]);
    }

    #[test]
    fn another_retention_makes_no_slice_across_those_that_are_there() {
        let day = Slice { from: at("2030-01-31T00:00:00Z"), to: at("2030-02-01T00:00:00Z"), end: End::Failed };
        assert_eq!(names(&[day], HOUR, "2030-01-31T23:30:00Z"), ["history_failed_2030020100_2030020101"]);
        let hour = Slice { from: at("2030-01-31T08:00:00Z"), to: at("2030-01-31T09:00:00Z"), end: End::Failed };
        let around = ["history_failed_2030013109_2030020100", "history_failed_2030020100_2030020200"];
        assert_eq!(names(&[hour], DAY, "2030-01-31T08:30:00Z"), around);
        assert_eq!(names(&[hour], DAY, "2030-01-31T09:30:00Z"), around);
        assert_eq!(names(&[hour], DAY, "2030-01-31T07:30:00Z")[0], "history_failed_2030013100_2030013108");
    }
}
