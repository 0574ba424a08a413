//! Watching: the news for readers that are not the dispatcher.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension, params};
use turnwise_core::{JobId, Timestamp};
use turnwise_store::{
    Change,
    operators::{AskWatch, EndedJob, InHands, NextNumbers, WatchCursor, Watched},
};

use crate::{
    errors::Failure,
    news, nodes,
    rows::{self, ChangedJob, Names},
};

type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn watch(conn: &Connection, ask: &AskWatch, now: Timestamp) -> Result<Watched> {
    let mut begin = conn.prepare_cached(include_str!("../sql/watch_begin.sql"))?;
    let (origin, next, first) = begin.query_row((), |row| {
        let next = NextNumbers { job: row.get::<_, i64>(1)? + 1, change: row.get::<_, i64>(2)? + 1 };
        Ok((row.get::<_, i64>(0)?, next, row.get::<_, Option<i64>>(3)?))
    })?;
    let cursor = WatchCursor::new(origin, now, next);
    let Some(last) = &ask.cursor else { return Ok(Watched::nothing(now, cursor, false)) };
    let read = last.parts().filter(|(of, ..)| *of == origin);
    let read = read.and_then(|(_, since, place)| Some((since, NextNumbers::parse(place)?)));
    let Some((since, from)) = read.filter(|(_, from)| from.can_go_on(next, first)) else {
        return Ok(Watched::nothing(now, cursor, true));
    };
    let mut watched = Watched { since, ..Watched::nothing(now, cursor, false) };
    let (most, mut names) = (ask.most as usize, Names::default());
    let mut jobs = conn.prepare_cached(include_str!("../sql/news.sql"))?;
    watched.jobs = news::heads(conn, &mut jobs, params![from.job.saturating_sub(1), ask.most], &mut names)?;
    read_changes(conn, from, most, &mut names, &mut watched)?;
    watched.more = watched.jobs.len() >= most || watched.changes.len() >= most;
    if ask.ends {
        let ended = watched.changes.iter().filter(|change| change.head.is_none()).map(|change| change.id);
        for id in ended.collect::<BTreeSet<_>>() {
            watched.ended.extend(ended_job(conn, id, &mut names)?);
        }
    }
    Ok(watched)
}

fn read_changes(
    conn: &Connection,
    from: NextNumbers,
    most: usize,
    names: &mut Names,
    watched: &mut Watched,
) -> Result<()> {
    let mut changes = conn.prepare_cached(include_str!("../sql/watch_changes.sql"))?;
    let mut changes = changes.query(params![from.change])?;
    while let Some(row) = changes.next()? {
        watched.memos |= row.get::<_, bool>(2)?;
        let jobs = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
        let failed = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        let otherwise = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
        let errors = row.get_ref(4)?.as_blob().map_err(rusqlite::Error::from)?;
        for ChangedJob { id, ran, failed, otherwise, error } in rows::unpack_changes(jobs, failed, otherwise, errors) {
            if watched.changes.len() >= most {
                return Ok(());
            }
            let head = news::head(conn, id, names)?;
            let well = head.is_none() && !failed && !otherwise;
            watched.changes.push(Change { id, ran, failed, well, error, head });
        }
    }
    Ok(())
}

fn ended_job(conn: &Connection, id: JobId, names: &mut Names) -> Result<Option<EndedJob>> {
    let mut ended = conn.prepare_cached(include_str!("../sql/watch_ended.sql"))?;
    Ok(ended.query_row([id.as_bytes()], |row| rows::ended(row, names)).optional()?)
}

pub(crate) fn in_hands(conn: &Connection, most: usize, now: Timestamp) -> Result<InHands> {
    let mut held = conn.prepare_cached(include_str!("../sql/in_hands.sql"))?;
    let (mut jobs, mut names) = (BTreeMap::new(), Names::default());
    for node in nodes::nodes(conn)? {
        // Every one of them is in a batch until it is settled.
        for id in nodes::batched(conn, node.incarnation)? {
            let params = params![id.as_bytes(), node.incarnation.0.as_bytes()];
            let job = held.query_row(params, |row| rows::in_hands(row, &node.name, &mut names)).optional()?;
            jobs.extend(job.map(|job| (id, job)));
        }
    }
    let jobs: Vec<_> = jobs.into_values().take(most).collect();
    Ok(InHands { now, more: jobs.len() >= most, jobs })
}
