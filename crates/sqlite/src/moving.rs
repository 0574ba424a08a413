//! Moving everything to another database, or from one. While the file is closed, triggers refuse every change of what is moved, whichever
//! process or version makes it; while it is open there are none, and a submit does not look for a move.

use std::fmt::Write;

use rusqlite::{
    Connection, OptionalExtension, ToSql, params, params_from_iter, types::ToSqlOutput, types::Value, types::ValueRef,
};
use turnwise_core::Timestamp;
use turnwise_store::{
    StoreError,
    moving::{Cell, Hindrance, Import, LivingNode, MayClose, MoveId, MovedRow, Moving, PARTS, Part, Side},
};
use uuid::Uuid;

use crate::{errors::Failure, nodes, rows};

type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn moving(conn: &Connection) -> Result<Option<Moving>> {
    let mut moving = conn.prepare_cached(include_str!("../sql/move.sql"))?;
    let moving = moving.query_row((), |row| {
        let (id, side): (Uuid, i64) = (rows::uuid(row, 0)?, row.get(1)?);
        Ok((id, side, row.get(2)?, row.get(3)?, row.get(4)?))
    });
    let Some((id, side, other, position, finished)) = moving.optional()? else { return Ok(None) };
    let side =
        Side::from_code(side).ok_or_else(|| StoreError::broken("read a move", format!("{side} is not a side")))?;
    Ok(Some(Moving { id: MoveId(id), side, other, position, finished }))
}

pub(crate) fn close(conn: &Connection, new: &Moving, now: Timestamp) -> Result<std::result::Result<(), Hindrance>> {
    match MayClose::of(moving(conn)?, new) {
        MayClose::IsClosed => return Ok(Ok(())),
        MayClose::No(hindrance) => return Ok(Err(hindrance)),
        MayClose::Perhaps => {}
    }
    let living = nodes::nodes(conn)?.into_iter().filter(|node| node.alive(now));
    let living: Vec<_> = living.map(|node| LivingNode { name: node.name, until: node.lease_until }).collect();
    if !living.is_empty() {
        return Ok(Err(Hindrance::Nodes(living)));
    }
    let in_hands = |sql| conn.query_row(sql, (), |row| row.get::<_, bool>(0));
    if new.side == Side::Source && in_hands(include_str!("../sql/move_in_hands.sql"))? {
        return Ok(Err(Hindrance::InHands));
    }
    if new.side == Side::Target {
        for part in PARTS {
            let any = format!("select exists (select 1 from {}{})", table(part), condition(part, None));
            if conn.query_row(&any, (), |row| row.get(0))? {
                return Ok(Err(Hindrance::NotEmpty(part.name)));
            }
        }
    }
    let id = new.id.0.as_bytes();
    let begin = params![id, new.side.code(), new.other, new.position];
    conn.execute(include_str!("../sql/move_begin.sql"), begin)?;
    // Those of an earlier move, which had begun here and nothing more.
    accept_changes(conn)?;
    refuse_changes(conn, &new.refusal())?;
    Ok(Ok(()))
}

pub(crate) fn export(conn: &Connection, part: &Part, after: &[Cell], limit: u32) -> Result<Vec<MovedRow>> {
    let from = (!after.is_empty()).then(|| {
        let binds: Vec<_> = (1..=part.key).map(|n| format!("?{n}")).collect();
        format!("({}) > ({})", key(part), binds.join(", "))
    });
    let sql = format!(
        "select {} from {}{} order by {} limit {limit}",
        columns(part),
        table(part),
        condition(part, from),
        key(part)
    );
    let mut page = conn.prepare_cached(&sql)?;
    let mut page = page.query(params_from_iter(after.iter().map(Bound)))?;
    let mut rows = Vec::new();
    while let Some(row) = page.next()? {
        let cells = (0..part.columns.len()).map(|at| {
            Ok(match row.get_ref(at)? {
                ValueRef::Null => Cell::Null,
                ValueRef::Integer(number) => Cell::Int(number),
                ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
                text => Cell::Text(text.as_str().map_err(rusqlite::Error::from)?.to_owned()),
            })
        });
        rows.push(cells.collect::<Result<_>>()?);
    }
    Ok(rows)
}

pub(crate) fn import(conn: &Connection, import: &Import) -> Result<bool> {
    let Import { id, part, rows, from, to } = import;
    let id = id.0.as_bytes();
    if conn.prepare_cached(include_str!("../sql/move_write.sql"))?.execute(params![id, from, to])? == 0 {
        return Ok(false);
    }
    let binds: Vec<_> = (1..=part.columns.len()).map(|n| format!("?{n}")).collect();
    let sql = format!("insert into {} ({}) values ({})", table(part), columns(part), binds.join(", "));
    let mut insert = conn.prepare_cached(&sql)?;
    for row in rows {
        insert.execute(params_from_iter(row.iter().map(Bound)))?;
    }
    conn.prepare_cached(include_str!("../sql/move_written.sql"))?.execute(())?;
    Ok(true)
}

pub(crate) fn finish(conn: &Connection, id: MoveId) -> Result<bool> {
    let Some(found) = moving(conn)?.filter(|moving| moving.id == id) else { return Ok(false) };
    if found.finished {
        return Ok(true);
    }
    let done = Moving { finished: true, ..found };
    accept_changes(conn)?;
    conn.execute(include_str!("../sql/move_finish.sql"), [id.0.as_bytes()])?;
    if done.closed() {
        refuse_changes(conn, &done.refusal())?;
    } else {
        conn.execute(include_str!("../sql/move_count.sql"), ())?;
        conn.execute(include_str!("../sql/move_count_on.sql"), ())?;
        conn.execute(include_str!("../sql/move_term.sql"), ())?;
    }
    Ok(true)
}

pub(crate) fn give_up(conn: &Connection, id: MoveId) -> Result<bool> {
    let Some(found) = moving(conn)?.filter(|moving| moving.id == id && !moving.finished) else { return Ok(false) };
    accept_changes(conn)?;
    if found.side == Side::Target {
        // Lines of the audit log are copies here: the source keeps them.
        conn.execute_batch("drop trigger turnwise_audit_kept; drop trigger turnwise_audit_unchanged")?;
        for part in PARTS {
            conn.execute(&format!("delete from {}", table(part)), ())?;
        }
        conn.execute_batch(include_str!("../migrations/0024_append_only.sql"))?;
    }
    conn.execute(include_str!("../sql/move_delete.sql"), [id.0.as_bytes()])?;
    Ok(true)
}

/// What the triggers of a closed database are for: a table, and what is done to it.
fn guarded() -> impl Iterator<Item = (String, &'static str)> {
    let changes = |part| ["insert", "update", "delete"].map(|change| (table(part), change));
    PARTS.iter().flat_map(changes).chain([("turnwise_node".to_owned(), "insert")])
}

fn refuse_changes(conn: &Connection, refusal: &str) -> Result<()> {
    let mut sql = String::new();
    for (table, change) in guarded() {
        // The sentence stands in the trigger itself: SQLite takes no other before 3.47, which another program may have.
        let refusal = refusal.replace('\'', "''");
        // Writing to a String cannot fail.
        let _ = writeln!(
            sql,
            "create trigger {table}_closed_{change} before {change} on {table}
             when not (select writing from turnwise_move) begin select raise(abort, '{refusal}'); end;"
        );
    }
    Ok(conn.execute_batch(&sql)?)
}

fn accept_changes(conn: &Connection) -> Result<()> {
    let drop = |(table, change)| format!("drop trigger if exists {table}_closed_{change};");
    Ok(conn.execute_batch(&guarded().map(drop).collect::<String>())?)
}

fn table(part: &Part) -> String {
    format!("turnwise_{}", part.name)
}

fn columns(part: &Part) -> String {
    let names: Vec<_> = part.columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
    names.join(", ")
}

fn key(part: &Part) -> String {
    let names: Vec<_> = part.key_columns().iter().map(|column| format!("\"{}\"", column.name)).collect();
    names.join(", ")
}

fn condition(part: &Part, from: Option<String>) -> String {
    let stays = part.stays.map(|stays| format!("not ({stays})"));
    let all: Vec<_> = stays.into_iter().chain(from).collect();
    if all.is_empty() { String::new() } else { format!(" where {}", all.join(" and ")) }
}

/// A cell as a bind.
struct Bound<'a>(&'a Cell);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Cell::Null => ToSqlOutput::Owned(Value::Null),
            Cell::Int(number) => ToSqlOutput::Owned(Value::Integer(*number)),
            Cell::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Cell::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        })
    }
}
