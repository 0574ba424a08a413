//! What the dispatcher reads: everything, page by page, and then the tail.

use std::{sync::PoisonError, time::Duration};

use tokio_postgres::{Row, types::ToSql};
use turnwise_core::{Fingerprint, JobId};
use turnwise_store::{AskNews, Change, Cursor, Epoch, Load, News, Page, Result, StoreError, Writers};
use uuid::Uuid;

use crate::{
    after,
    connect::connection,
    errors::failed,
    rows::{self, Names, get},
    session::Session,
    store::Inner,
};

pub(crate) async fn load(store: &Inner, load: Load) -> Result<Page> {
    let fail = failed("load");
    let client = connection(&store.pools.dispatch).await?;
    let (rows, limit) = match load {
        Load::After { id, limit } => {
            let limit = limit.max(1);
            let from = id.map_or(Uuid::nil(), |id| id.uuid());
            let without = id.map(|id| id.uuid());
            let binds: [&(dyn ToSql + Sync); 3] = [&from, &without, &i64::from(limit)];
            (client.query(include_str!("../sql/load_page.sql"), &binds).await.map_err(fail)?, Some(limit))
        }
        // No more than the time: a role that only submits may ask for it, and may not read what the others do.
        Load::These(ids) if ids.is_empty() => {
            let row = client.query_one(include_str!("../sql/now.sql"), &[]).await.map_err(fail)?;
            return Ok(Page { now: rows::now(&row, 0)?, jobs: Vec::new(), next: None });
        }
        Load::These(ids) => {
            let ids: Vec<Uuid> = ids.into_iter().map(|id| id.uuid()).collect();
            (client.query(include_str!("../sql/load_these.sql"), &[&ids]).await.map_err(fail)?, None)
        }
        Load::InHands(of) => {
            let of = of.map(|node| node.0);
            (client.query(include_str!("../sql/load_in_hands.sql"), &[&of]).await.map_err(fail)?, None)
        }
        Load::HeldBy(node) => {
            (client.query(include_str!("../sql/load_held_by.sql"), &[&node.0]).await.map_err(fail)?, None)
        }
    };
    let now = rows::now(rows.first().ok_or_else(|| StoreError::broken("load", "no answer"))?, 16)?;
    let mut names = Names::default();
    let mut jobs = Vec::with_capacity(rows.len());
    for row in &rows {
        jobs.extend(rows::head(row, 0, &mut names)?);
    }
    after::complete(&client, jobs.iter_mut()).await?;
    jobs.sort_unstable_by_key(|head| head.id);
    let full = limit.is_some_and(|limit| jobs.len() >= limit as usize);
    let next = jobs.last().filter(|_| full).map(|head| head.id);
    Ok(Page { now, jobs, next })
}

pub(crate) async fn news(store: &Inner, ask: &AskNews) -> Result<News> {
    let fail = failed("read the news");
    let client = connection(&store.pools.dispatch).await?;
    // First the flag, then the read: what is submitted in between is either seen or rings.
    say_asleep(store, &client, ask.epoch, ask.asleep).await?;
    let Some(last) = &ask.cursor else {
        client.execute(include_str!("../sql/restamp_jobs.sql"), &[]).await.map_err(fail)?;
        client.execute(include_str!("../sql/restamp_changes.sql"), &[]).await.map_err(fail)?;
        let row = client.query_one(include_str!("../sql/news_begin.sql"), &[]).await.map_err(fail)?;
        let (cursor, now) = (Cursor(get(&row, 0)?), rows::now(&row, 1)?);
        let writers = writers(&cursor)?;
        return Ok(News::begin(now, cursor, writers));
    };
    let sql = include_str!("../sql/news.sql");
    let last = CursorParts::of(last);
    let from = last.as_ref().map_or(BEGINNING, |last| last.snapshot);
    let most = i64::from(ask.new_jobs);
    let mut rows = client.query(sql, &[&from, &ask.epoch.0, &most]).await.map_err(fail)?;
    if !goes_on(&rows, last.as_ref())? {
        // The caller's cursor is of another lineage: its lead is over. A caller that takes no new jobs only looks back at what
        // was left undone, and reads everything there is.
        if ask.new_jobs > 0 {
            return Err(StoreError::NotLeading);
        }
        rows = client.query(sql, &[&BEGINNING, &ask.epoch.0, &most]).await.map_err(fail)?;
    }
    let mut begin = None;
    let mut jobs = Vec::with_capacity(rows.len());
    let mut changes = Vec::new();
    let mut memos = false;
    let mut names = Names::default();
    for row in &rows {
        match get::<i32>(row, KIND)? {
            0 => begin = Some((Cursor(get(row, CURSOR)?), rows::now(row, NOW)?, rows::moment(row, ASKED)?)),
            3 => memos = true,
            1 => jobs.extend(rows::head(row, HEAD, &mut names)?),
            _ => {
                let order: (i64, i64) = (get(row, CHANGE)?, get(row, CHANGE + 1)?);
                changes.push((order, changed(row, &mut names)?));
            }
        }
    }
    let changed = changes.iter_mut().filter_map(|(_, change): &mut (_, Change)| change.head.as_mut());
    after::complete(&client, jobs.iter_mut().chain(changed)).await?;
    jobs.sort_unstable_by_key(|head| head.seq);
    changes.sort_unstable_by_key(|(order, _)| *order);
    let (cursor, now, asked) = begin.ok_or_else(|| StoreError::broken("read the news", "no answer"))?;
    let changes = changes.into_iter().map(|(_, change)| change).collect();
    let writers = writers(&cursor)?;
    let more = most > 0 && i64::try_from(jobs.len()).is_ok_and(|jobs| jobs >= most);
    Ok(News { now, cursor, jobs, more, changes, memos, writers, asked })
}

/// A row about a changed job.
pub(crate) fn changed(row: &Row, names: &mut Names) -> Result<Change> {
    let ran = get::<Option<i64>>(row, RAN)?.and_then(|micros| u64::try_from(micros).ok());
    let head = rows::head(row, HEAD, names)?;
    // Null for a job that was cancelled, or ended by a decision.
    let failed = get::<Option<bool>>(row, FAILED)?;
    Ok(Change {
        id: JobId::from_uuid(get(row, CHANGED)?),
        ran: ran.map(Duration::from_micros),
        failed: failed == Some(true),
        well: failed == Some(false) && head.is_none(),
        error: get::<Option<&str>>(row, FINGERPRINT)?.and_then(Fingerprint::from_text),
        head,
    })
}

/// A snapshot from before every transaction.
const BEGINNING: &str = "1:1:";

/// A cursor, parsed: a snapshot, which has a meaning only within one lineage.
pub(crate) struct CursorParts<'a> {
    pub(crate) lineage: i64,
    pub(crate) snapshot: &'a str,
}

impl<'a> CursorParts<'a> {
    /// `None`: it is not of this version of the program, or was made when no lineage had begun.
    pub(crate) fn of(cursor: &'a Cursor) -> Option<Self> {
        let (lineage, snapshot) = cursor.0.split_once('/')?;
        Some(Self { lineage: lineage.parse().ok()?, snapshot })
    }
}

/// Whether the news are of the lineage that the last ones were of.
fn goes_on(rows: &[Row], last: Option<&CursorParts<'_>>) -> Result<bool> {
    for row in rows {
        if get::<i32>(row, KIND)? == 0 {
            let now = Cursor(get(row, CURSOR)?);
            return Ok(last.is_some_and(|last| CursorParts::of(&now).is_some_and(|now| now.lineage == last.lineage)));
        }
    }
    Err(StoreError::broken("read the news", "no answer"))
}

/// A snapshot's text is `xmin:xmax:xip,…`: all transactions before xmin have ended, none from xmax on has.
fn writers(cursor: &Cursor) -> Result<Writers> {
    let snapshot = cursor.0.split_once('/').map_or("", |(_, snapshot)| snapshot);
    let mut parts = snapshot.splitn(3, ':').map(|part| part.parse().ok());
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(over), Some(next)) => Ok(Writers { over, next }),
        _ => Err(StoreError::broken("read the news", format!("{:?} is not a snapshot", cursor.0))),
    }
}

/// Columns of `news.sql`.
const KIND: usize = 0;
const CHANGE: usize = 1;
const CHANGED: usize = 3;
const RAN: usize = 4;
const FAILED: usize = 5;
const FINGERPRINT: usize = 6;
const CURSOR: usize = 7;
const NOW: usize = 8;
const HEAD: usize = 9;
const ASKED: usize = 25;

async fn say_asleep(store: &Inner, client: &impl Session, epoch: Epoch, asleep: bool) -> Result<()> {
    let last = *store.asleep.lock().unwrap_or_else(PoisonError::into_inner);
    if last == Some((epoch, asleep)) {
        return Ok(());
    }
    let fail = failed("say whether the dispatcher sleeps");
    client.query(include_str!("../sql/asleep.sql"), &[&asleep, &epoch.0]).await.map_err(fail)?;
    *store.asleep.lock().unwrap_or_else(PoisonError::into_inner) = Some((epoch, asleep));
    Ok(())
}
