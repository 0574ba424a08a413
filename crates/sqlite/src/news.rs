//! News: what the dispatcher has not seen yet, and the pages it begins with.

use rusqlite::{Connection, OptionalExtension, Statement, params};
use turnwise_core::{JobHead, JobId, Timestamp};
use turnwise_store::{AskNews, Change, Cursor, Load, News, Page, StoreError, Writers};

use crate::{
    after,
    errors::Failure,
    nodes,
    rows::{self, ChangedJob, Names},
    totals,
};

type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn load(conn: &Connection, load: Load, now: Timestamp) -> Result<Page> {
    let mut names = Names::default();
    let (jobs, next) = match load {
        Load::After { id, limit } => {
            let limit = limit.max(1);
            // Every id is larger than no bytes at all.
            let after = id.as_ref().map_or(&[][..], |id| id.as_bytes());
            let mut page = conn.prepare_cached(include_str!("../sql/load_page.sql"))?;
            let jobs = heads(conn, &mut page, params![after, limit], &mut names)?;
            let full = jobs.len() == limit as usize;
            let next = jobs.last().filter(|_| full).map(|head| head.id);
            (jobs, next)
        }
        Load::These(mut ids) => {
            ids.sort_unstable();
            ids.dedup();
            let mut jobs = Vec::with_capacity(ids.len());
            for id in ids {
                jobs.extend(head(conn, id, &mut names)?);
            }
            (jobs, None)
        }
        Load::InHands(of) => {
            let mut in_hands = conn.prepare_cached(include_str!("../sql/load_in_hands.sql"))?;
            let mut jobs = Vec::new();
            let all = nodes::nodes(conn)?.into_iter().map(|node| node.incarnation);
            for node in all.filter(|node| of.is_none_or(|of| of == *node)) {
                // Every one of them is in a batch until it is settled.
                for id in nodes::batched(conn, node)? {
                    let params = params![id.as_bytes(), node.0.as_bytes()];
                    jobs.extend(in_hands.query_row(params, |row| rows::head(row, &mut names)).optional()?);
                }
            }
            after::complete(conn, &mut jobs)?;
            jobs.sort_unstable_by_key(|head: &JobHead| head.id);
            (jobs, None)
        }
        Load::HeldBy(node) => {
            let mut held = conn.prepare_cached(include_str!("../sql/load_held_by.sql"))?;
            (heads(conn, &mut held, params![node.0.as_bytes()], &mut names)?, None)
        }
    };
    Ok(Page { now, jobs, next })
}

pub(crate) fn news(conn: &Connection, ask: &AskNews, now: Timestamp) -> Result<News> {
    let mut cursor = conn.prepare_cached(include_str!("../sql/news_begin.sql"))?;
    let seen = cursor.query_row((), |row| Ok(LastNumbers { job: row.get(0)?, change: row.get(1)? }))?;
    let mut news = News::begin(now, seen.cursor(), Writers::default());
    let Some(last) = &ask.cursor else { return Ok(news) };
    news.asked = totals::asked(conn, now)?;
    let last = LastNumbers::read(last)?;
    let mut names = Names::default();
    if ask.new_jobs > 0 {
        let mut jobs = conn.prepare_cached(include_str!("../sql/news.sql"))?;
        news.jobs = heads(conn, &mut jobs, params![last.job, ask.new_jobs], &mut names)?;
        news.more = news.jobs.len() as u64 >= u64::from(ask.new_jobs);
    }
    let mut changes = conn.prepare_cached(include_str!("../sql/news_changes.sql"))?;
    let mut changes = changes.query(params![last.change, ask.epoch.0])?;
    while let Some(row) = changes.next()? {
        news.memos |= row.get::<_, bool>(2)?;
        let jobs = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
        let failed = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        let otherwise = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
        let errors = row.get_ref(4)?.as_blob().map_err(rusqlite::Error::from)?;
        for ChangedJob { id, ran, failed, otherwise, error } in rows::unpack_changes(jobs, failed, otherwise, errors) {
            let head = head(conn, id, &mut names)?;
            let well = head.is_none() && !failed && !otherwise;
            news.changes.push(Change { id, ran, failed, well, error, head });
        }
    }
    Ok(news)
}

/// An unfinished job as the scheduler sees it.
pub(crate) fn head(conn: &Connection, id: JobId, names: &mut Names) -> Result<Option<JobHead>> {
    let mut head = conn.prepare_cached(include_str!("../sql/load_one.sql"))?;
    let mut head = head.query_row([id.as_bytes()], |row| rows::head(row, names)).optional()?;
    after::complete(conn, &mut head)?;
    Ok(head)
}

pub(crate) fn heads(
    conn: &Connection,
    page: &mut Statement<'_>,
    params: impl rusqlite::Params,
    names: &mut Names,
) -> Result<Vec<JobHead>> {
    let heads = page.query_map(params, |row| rows::head(row, names))?;
    let mut heads = heads.collect::<rusqlite::Result<Vec<_>>>()?;
    after::complete(conn, &mut heads)?;
    Ok(heads)
}

/// The last numbers seen. SQLite's writers come one after the other, so numbers become visible in their order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastNumbers {
    pub(crate) job: i64,
    pub(crate) change: i64,
}

impl LastNumbers {
    fn cursor(self) -> Cursor {
        Cursor(format!("{} {}", self.job, self.change))
    }

    pub(crate) fn read(cursor: &Cursor) -> Result<Self> {
        let parts = cursor.0.split_once(' ');
        let seen = parts.and_then(|(job, change)| Some(Self { job: job.parse().ok()?, change: change.parse().ok()? }));
        let foreign = || format!("{:?} is not one of this store's", cursor.0);
        seen.ok_or_else(|| StoreError::broken("read a cursor", foreign()).into())
    }
}
