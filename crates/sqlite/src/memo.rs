//! Memos: settings and charges, kept for core; and the one kind the store heeds, groups that take no jobs.

use rusqlite::{Connection, OptionalExtension, params};
use turnwise_core::{GroupName, Incarnation, Timestamp};
use turnwise_store::{Epoch, Memo, MemoKind, NewMemo, StoreError};

use crate::{audit, bell::Ring, errors::Failure, nodes::check_leading};

type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn recall(conn: &Connection, mut kinds: Vec<MemoKind>) -> Result<Vec<Memo>> {
    kinds.sort_unstable();
    kinds.dedup();
    let mut recall = conn.prepare_cached(include_str!("../sql/recall.sql"))?;
    let mut memos = Vec::new();
    for kind in kinds {
        let found = recall.query_map([kind.code()], |row| {
            Ok(Memo { kind, name: row.get(0)?, value: row.get(1)?, version: row.get(2)? })
        })?;
        for memo in found {
            memos.push(memo?);
        }
    }
    Ok(memos)
}

/// The answers, and whether the dispatcher has something to read.
pub(crate) fn remember(
    conn: &Connection,
    lead: Option<(Incarnation, Epoch)>,
    memos: &[NewMemo],
    now: Timestamp,
) -> Result<(Vec<bool>, Ring)> {
    NewMemo::check_named_once(memos)?;
    if let Some((holder, epoch)) = lead {
        check_leading(conn, holder, epoch)?;
    }
    let mut version = conn.prepare_cached(include_str!("../sql/memo_version.sql"))?;
    let mut write = conn.prepare_cached(include_str!("../sql/remember.sql"))?;
    let mut delete = conn.prepare_cached(include_str!("../sql/memo_forget.sql"))?;
    let mut replies = Vec::with_capacity(memos.len());
    let mut changed = 0;
    for NewMemo { kind, name, value, seen, line } in memos {
        let version: i64 = version.query_row(params![kind.code(), name], |row| row.get(0)).optional()?.unwrap_or(0);
        let as_seen = seen.is_none_or(|seen| seen == version);
        replies.push(as_seen);
        if as_seen {
            audit::write(conn, line.as_deref(), now)?;
        }
        changed += match value {
            _ if !as_seen => 0,
            Some(value) => write.execute(params![kind.code(), name, value, version + 1])?,
            None => delete.execute(params![kind.code(), name])?,
        };
    }
    if changed == 0 || lead.is_some() {
        return Ok((replies, Ring::NONE));
    }
    let known_to: Option<i64> = None;
    conn.prepare_cached(include_str!("../sql/settle_tell.sql"))?
        .execute(params![known_to, [0_u8; 0], [0_u8; 0], true, [0_u8; 0], [0_u8; 0]])?;
    Ok((replies, Ring::NEWS))
}

/// Whether any group takes no jobs.
pub(crate) fn any_full(conn: &Connection) -> Result<bool> {
    Ok(conn.prepare_cached(include_str!("../sql/memo_any_full.sql"))?.query_row((), |row| row.get(0))?)
}

pub(crate) fn refuse_if_full(conn: &Connection, group: &GroupName) -> Result<()> {
    let mut full = conn.prepare_cached(include_str!("../sql/memo_full.sql"))?;
    match full.query_row([group.as_str()], |row| row.get(0)).optional()? {
        Some(sentence) => Err(StoreError::Refused(sentence).into()),
        None => Ok(()),
    }
}
