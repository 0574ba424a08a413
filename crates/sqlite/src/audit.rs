//! The audit log: lines are written in the transaction of the change that they describe.

use rusqlite::{Connection, Row, params};
use turnwise_core::{
    Json, Timestamp,
    audit::{Actor, AuditId, AuditLine, KEEP_AUDIT, NewAuditLine},
};
use turnwise_store::{AskAudit, AuditPage};

use crate::{errors::Failure, rows};

type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn write(conn: &Connection, line: Option<&NewAuditLine>, now: Timestamp) -> Result<()> {
    let Some(line) = line else { return Ok(()) };
    conn.prepare_cached(include_str!("../sql/audit_write.sql"))?.execute(params![
        line.id.0.as_bytes(),
        now.micros(),
        line.actor.id().as_str(),
        line.actor.label(),
        line.verb.to_string(),
        line.target.to_string(),
        line.before.as_ref().map(Json::as_str),
        line.after.as_ref().map(Json::as_str),
    ])?;
    Ok(())
}

pub(crate) fn page(conn: &Connection, ask: &AskAudit) -> Result<AuditPage> {
    let ((at, id), limit) = (ask.below(), ask.limit());
    let (at, id, since, rows) = (at.micros(), id.0.as_bytes(), ask.since().micros(), i64::from(limit) + 1);
    let (actor, target) = (ask.filter.actor.as_ref(), ask.filter.target.as_ref().map(ToString::to_string));
    let actor = actor.map(|actor| actor.as_str());
    let prepare = |sql| conn.prepare_cached(sql);
    let lines = match (target, actor) {
        (None, None) => prepare(include_str!("../sql/audit.sql"))?
            .query_map(params![at, id, since, rows], line)?
            .collect::<rusqlite::Result<Vec<_>>>(),
        (None, Some(actor)) => prepare(include_str!("../sql/audit_actor.sql"))?
            .query_map(params![at, id, since, rows, actor], line)?
            .collect(),
        (Some(target), None) => prepare(include_str!("../sql/audit_target.sql"))?
            .query_map(params![at, id, since, rows, target], line)?
            .collect(),
        (Some(target), Some(actor)) => prepare(include_str!("../sql/audit_target_actor.sql"))?
            .query_map(params![at, id, since, rows, target, actor], line)?
            .collect(),
    };
    Ok(AuditPage::of(lines?, limit))
}

pub(crate) fn prune(conn: &Connection, limit: u32, now: Timestamp) -> Result<usize> {
    let mut prune = conn.prepare_cached(include_str!("../sql/prune_audit.sql"))?;
    Ok(prune.execute(params![now.minus(KEEP_AUDIT).micros(), limit])?)
}

fn line(row: &Row<'_>) -> rusqlite::Result<AuditLine> {
    let json = |at| Ok::<_, rusqlite::Error>(row.get::<_, Option<String>>(at)?.map(Json::stored));
    Ok(AuditLine {
        id: AuditId(rows::uuid(row, 0)?),
        at: Timestamp::from_micros(row.get(1)?),
        actor: Actor::stored(row.get(2)?, row.get(3)?),
        verb: row.get(4)?,
        target: row.get(5)?,
        before: json(6)?,
        after: json(7)?,
    })
}
