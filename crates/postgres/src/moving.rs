//! Moving everything to another database, or from one. While the database is closed, triggers refuse every change of what is moved,
//! whichever process or version makes it; while it is open there are none, and a submit does not look for a move.

use std::fmt::Write;

use tokio_postgres::Row;
use turnwise_core::{RetryPolicy, Timestamp};
use turnwise_store::{
    Result, StoreError,
    moving::{
        Cell, Column, Hindrance, Import, Kind, LivingNode, MayClose, MoveId, MovedRow, Moving, PARTS, Part, Side,
    },
};
use uuid::Uuid;

use crate::{
    connect::connection,
    errors::failed,
    rows::{self, Moment, Names, get},
    session::{Begin, Bind, Session, Transaction},
    store::Inner,
};

/// What is done in whole tables takes as long as it takes.
const NO_LIMIT: &str = "set local statement_timeout = 0";

const HELD: &str = "close the database (a transaction that is open may hold it: end that, and try again)";

pub(crate) async fn moving(store: &Inner) -> Result<Option<Moving>> {
    found(&connection(&store.pools.people).await?).await
}

async fn found(client: &impl Session) -> Result<Option<Moving>> {
    let rows = client.query(include_str!("../sql/move.sql"), &[]).await.map_err(failed("read the move"))?;
    let Some(row) = rows.first() else { return Ok(None) };
    let code = get::<i16>(row, 1)?.into();
    let side =
        Side::from_code(code).ok_or_else(|| StoreError::broken("read a move", format!("{code} is not a side")))?;
    Ok(Some(Moving {
        id: MoveId(get(row, 0)?),
        side,
        other: get(row, 2)?,
        position: get(row, 3)?,
        finished: get(row, 4)?,
    }))
}

pub(crate) async fn close(store: &Inner, new: &Moving) -> Result<std::result::Result<(), Hindrance>> {
    let fail = failed(HELD);
    let mut client = connection(&store.pools.people).await?;
    let transaction = client.begin().await.map_err(fail)?;
    // Waits for all that is being written now; what comes later finds the triggers.
    let tables: Vec<_> = guarded().map(|(table, _)| table).collect();
    let lock = format!("lock table {} in share row exclusive mode", tables.join(", "));
    transaction.batch_execute(&lock).await.map_err(fail)?;
    if let Some(answer) = hindrance(&transaction, new).await? {
        transaction.rollback().await.map_err(fail)?;
        return Ok(answer);
    }
    let side = i16::from(new.side == Side::Target);
    let binds: [Bind<'_>; 5] = [&new.id.0, &side, &new.other, &new.position, &new.refusal()];
    transaction.execute(include_str!("../sql/move_begin.sql"), &binds).await.map_err(fail)?;
    let mut triggers = accept_changes();
    for (table, changes) in guarded() {
        // Writing to a String cannot fail.
        let _ = write!(
            triggers,
            "create trigger closed before {changes} on {table} for each statement execute function turnwise.refuse_change();"
        );
    }
    transaction.batch_execute(&triggers).await.map_err(fail)?;
    transaction.commit().await.map_err(fail)?;
    Ok(Ok(()))
}

/// What `close` answers if it has nothing to do, or must not do it.
async fn hindrance(client: &impl Session, new: &Moving) -> Result<Option<std::result::Result<(), Hindrance>>> {
    let fail = failed("close the database");
    match MayClose::of(found(client).await?, new) {
        MayClose::IsClosed => return Ok(Some(Ok(()))),
        MayClose::No(hindrance) => return Ok(Some(Err(hindrance))),
        MayClose::Perhaps => {}
    }
    let living = client.query(include_str!("../sql/move_living.sql"), &[]).await.map_err(fail)?;
    if !living.is_empty() {
        let node = |row: &Row| {
            let name = turnwise_core::NodeName::stored(get::<&str>(row, 0)?.into());
            Ok(LivingNode { name, until: rows::now(row, 1)? })
        };
        return Ok(Some(Err(Hindrance::Nodes(living.iter().map(node).collect::<Result<_>>()?))));
    }
    if new.side == Side::Source {
        let row = client.query_one(include_str!("../sql/move_in_hands.sql"), &[]).await.map_err(fail)?;
        return Ok(get::<bool>(&row, 0)?.then_some(Err(Hindrance::InHands)));
    }
    for part in PARTS {
        let any = format!("select exists (select from {}{})", table(part), condition(part, None));
        let row = client.wire().rarely().query_one(&any, &[]).await.map_err(fail)?;
        if get(&row, 0)? {
            return Ok(Some(Err(Hindrance::NotEmpty(part.name))));
        }
    }
    Ok(None)
}

pub(crate) async fn export(store: &Inner, part: &Part, after: &[Cell], limit: u32) -> Result<Vec<MovedRow>> {
    let from = (!after.is_empty()).then(|| {
        let binds: Vec<_> =
            part.key_columns().iter().zip(1..).map(|(column, n)| format!("${n}::{}", bind_type(column.kind))).collect();
        format!("({}) > ({})", key(part), binds.join(", "))
    });
    let sql = format!(
        "select {} from {}{} order by {} limit {limit}",
        part.columns.iter().map(read).collect::<Vec<_>>().join(", "),
        table(part),
        condition(part, from),
        key(part)
    );
    let binds: Vec<One> =
        part.key_columns().iter().zip(after).map(|(column, cell)| One::of(column, cell)).collect::<Result<_>>()?;
    let client = connection(&store.pools.people).await?;
    let binds: Vec<Bind<'_>> = binds.iter().map(One::bind).collect();
    let page = client.query(&sql, &binds).await.map_err(failed("read what is moved"))?;
    let mut names = Names::default();
    page.iter()
        .map(|row| {
            let cells = part.columns.iter().enumerate().map(|(at, column)| cell(row, at, column.kind, &mut names));
            cells.collect()
        })
        .collect()
}

pub(crate) async fn import(store: &Inner, import: &Import) -> Result<bool> {
    let fail = failed("write what is moved");
    let Import { id, part, rows, from, to } = import;
    let mut client = connection(&store.pools.people).await?;
    let transaction = client.begin().await.map_err(fail)?;
    let write = transaction.execute(include_str!("../sql/move_write.sql"), &[&id.0, from, to]).await.map_err(fail)?;
    if write == 0 {
        transaction.rollback().await.map_err(fail)?;
        return Ok(false);
    }
    if !rows.is_empty() {
        let columns: Vec<Many> = part
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| Many::of(column, rows.iter().map(|row| &row[at])))
            .collect::<Result<_>>()?;
        let binds: Vec<Bind<'_>> = columns.iter().map(Many::bind).collect();
        transaction.execute(&insert(part), &binds).await.map_err(fail)?;
    }
    transaction.execute(include_str!("../sql/move_written.sql"), &[]).await.map_err(fail)?;
    transaction.commit().await.map_err(fail)?;
    Ok(true)
}

fn insert(part: &Part) -> String {
    let names = part.columns.iter().map(|column| quoted(column.name)).collect::<Vec<_>>().join(", ");
    let arrays: Vec<_> =
        part.columns.iter().zip(1..).map(|(column, n)| format!("${n}::{}[]", bind_type(column.kind))).collect();
    let values: Vec<_> = part.columns.iter().map(written).collect();
    // The numbers of jobs are those that they had.
    let numbers = if part.name == "job" { "overriding system value" } else { "" };
    format!(
        "insert into {} ({names}) {numbers} select {} from unnest({}) as t ({names})",
        table(part),
        values.join(", "),
        arrays.join(", ")
    )
}

pub(crate) async fn finish(store: &Inner, id: MoveId) -> Result<bool> {
    let fail = failed("finish the move");
    let mut client = connection(&store.pools.people).await?;
    let transaction = client.begin().await.map_err(fail)?;
    let Some(found) = found(&transaction).await?.filter(|moving| moving.id == id) else { return Ok(false) };
    if found.finished {
        return Ok(true);
    }
    transaction.batch_execute(NO_LIMIT).await.map_err(fail)?;
    let done = Moving { finished: true, ..found };
    transaction.execute(include_str!("../sql/move_finish.sql"), &[&id.0, &done.refusal()]).await.map_err(fail)?;
    if !done.closed() {
        transaction.batch_execute(&accept_changes()).await.map_err(fail)?;
        transaction.query(include_str!("../sql/move_count_on.sql"), &[]).await.map_err(fail)?;
        transaction.execute(include_str!("../sql/move_term.sql"), &[]).await.map_err(fail)?;
    }
    transaction.commit().await.map_err(fail)?;
    Ok(true)
}

pub(crate) async fn give_up(store: &Inner, id: MoveId) -> Result<bool> {
    let fail = failed("give the move up");
    let mut client = connection(&store.pools.people).await?;
    let transaction: Transaction<'_> = client.begin().await.map_err(fail)?;
    let found = found(&transaction).await?.filter(|moving| moving.id == id && !moving.finished);
    let Some(found) = found else { return Ok(false) };
    transaction.batch_execute(NO_LIMIT).await.map_err(fail)?;
    transaction.batch_execute(&accept_changes()).await.map_err(fail)?;
    if found.side == Side::Target {
        let tables: Vec<_> = PARTS.iter().map(table).collect();
        // Lines of the audit log are copies here: the source keeps them.
        let audit = |verb| format!("alter table turnwise.audit {verb} trigger audit_whole");
        let [off, on] = ["disable", "enable"].map(audit);
        let truncate = format!("{off}; truncate {}; {on}", tables.join(", "));
        transaction.batch_execute(&truncate).await.map_err(fail)?;
    }
    transaction.execute(include_str!("../sql/move_delete.sql"), &[&id.0]).await.map_err(fail)?;
    transaction.commit().await.map_err(fail)?;
    Ok(true)
}

/// What the triggers of a closed database are for: a table, and what is done to it.
fn guarded() -> impl Iterator<Item = (String, &'static str)> {
    let changes = |part| (table(part), "insert or update or delete");
    PARTS.iter().map(changes).chain([("turnwise.node".to_owned(), "insert")])
}

fn accept_changes() -> String {
    guarded().map(|(table, _)| format!("drop trigger if exists closed on {table};")).collect()
}

fn table(part: &Part) -> String {
    format!("turnwise.{}", part.name)
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

fn key(part: &Part) -> String {
    part.key_columns().iter().map(|column| quoted(column.name)).collect::<Vec<_>>().join(", ")
}

fn condition(part: &Part, from: Option<String>) -> String {
    let stays = part.stays.map(|stays| format!("not ({stays})"));
    let all: Vec<_> = stays.into_iter().chain(from).collect();
    if all.is_empty() { String::new() } else { format!(" where {}", all.join(" and ")) }
}

/// The type in which cells of this kind travel.
fn bind_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Id => "uuid",
        Kind::Int => "bigint",
        Kind::Flag => "boolean",
        Kind::Time => "timestamptz",
        Kind::Text | Kind::Json | Kind::Policy | Kind::OnFailure => "text",
        Kind::Bytes => "bytea",
    }
}

/// A column as it is selected.
fn read(column: &Column) -> String {
    let name = quoted(column.name);
    match column.kind {
        Kind::Int => format!("{name}::bigint"),
        Kind::Json => format!("{name}::text"),
        // A job that a person has run again waits for no other any more.
        Kind::OnFailure => format!("nullif({name}, 'over')"),
        Kind::Id | Kind::Flag | Kind::Time | Kind::Text | Kind::Policy | Kind::Bytes => name,
    }
}

/// A column as it is inserted, from `t`.
fn written(column: &Column) -> String {
    let name = quoted(column.name);
    match column.kind {
        Kind::Json => format!("t.{name}::json"),
        // As `control_again.sql` writes it: it is known which jobs it waited for, and that it no longer does.
        Kind::OnFailure => format!(
            "coalesce(t.{name}, case when exists (select from turnwise.dependency where dependency.job = t.id) then 'over' end)"
        ),
        _ => format!("t.{name}"),
    }
}

fn cell(row: &Row, at: usize, kind: Kind, names: &mut Names) -> Result<Cell> {
    let text = |text: Option<&str>| text.map_or(Cell::Null, |text| Cell::Text(text.to_owned()));
    let number = |number: Option<i64>| number.map_or(Cell::Null, Cell::Int);
    let bytes = |bytes: Option<&[u8]>| bytes.map_or(Cell::Null, |bytes| Cell::Bytes(bytes.to_vec()));
    Ok(match kind {
        Kind::Id => bytes(get::<Option<Uuid>>(row, at)?.as_ref().map(|id| id.as_bytes().as_slice())),
        Kind::Int => number(get(row, at)?),
        Kind::Flag => number(get::<Option<bool>>(row, at)?.map(i64::from)),
        Kind::Time => number(get::<Option<Moment>>(row, at)?.map(|moment| moment.0.micros())),
        Kind::Text | Kind::Json | Kind::OnFailure => text(get(row, at)?),
        Kind::Policy => Cell::Text(RetryPolicy::to_stored(names.policy(get(row, at)?).as_ref()).into_owned()),
        Kind::Bytes => bytes(get(row, at)?),
    })
}

/// A cell of another kind than its column: a part that is described wrongly.
fn foreign(column: &Column) -> StoreError {
    StoreError::broken("move a row", format!("{} does not fit its column", column.name))
}

fn int(column: &Column, cell: &Cell) -> Result<Option<i64>> {
    match cell {
        Cell::Null => Ok(None),
        Cell::Int(number) => Ok(Some(*number)),
        Cell::Text(_) | Cell::Bytes(_) => Err(foreign(column)),
    }
}

fn bytes<'a>(column: &Column, cell: &'a Cell) -> Result<Option<&'a [u8]>> {
    match cell {
        Cell::Null => Ok(None),
        Cell::Bytes(bytes) => Ok(Some(bytes)),
        Cell::Text(_) | Cell::Int(_) => Err(foreign(column)),
    }
}

fn text<'a>(column: &Column, cell: &'a Cell) -> Result<Option<&'a str>> {
    match cell {
        Cell::Null => Ok(None),
        Cell::Text(text) => Ok(Some(text)),
        Cell::Bytes(_) | Cell::Int(_) => Err(foreign(column)),
    }
}

fn id(column: &Column, cell: &Cell) -> Result<Option<Uuid>> {
    let read = |bytes: &[u8]| Uuid::from_slice(bytes).map_err(|_| foreign(column));
    bytes(column, cell)?.map(read).transpose()
}

/// The cells of a column, as an array.
enum Many<'a> {
    Ids(Vec<Option<Uuid>>),
    Ints(Vec<Option<i64>>),
    Flags(Vec<Option<bool>>),
    Times(Vec<Option<Moment>>),
    Texts(Vec<Option<&'a str>>),
    Bytes(Vec<Option<&'a [u8]>>),
}

impl<'a> Many<'a> {
    fn of(column: &Column, cells: impl Iterator<Item = &'a Cell>) -> Result<Self> {
        let ints = |cells: &mut dyn Iterator<Item = &'a Cell>| {
            cells.map(|cell| int(column, cell)).collect::<Result<Vec<Option<i64>>>>()
        };
        let mut cells = cells;
        Ok(match column.kind {
            Kind::Id => Self::Ids(cells.map(|cell| id(column, cell)).collect::<Result<_>>()?),
            Kind::Int => Self::Ints(ints(&mut cells)?),
            Kind::Flag => Self::Flags(ints(&mut cells)?.into_iter().map(|flag| flag.map(|flag| flag != 0)).collect()),
            Kind::Time => {
                let moment = |micros: Option<i64>| micros.map(|micros| Moment(Timestamp::from_micros(micros)));
                Self::Times(ints(&mut cells)?.into_iter().map(moment).collect())
            }
            Kind::Text | Kind::Json | Kind::Policy | Kind::OnFailure => {
                Self::Texts(cells.map(|cell| text(column, cell)).collect::<Result<_>>()?)
            }
            Kind::Bytes => Self::Bytes(cells.map(|cell| bytes(column, cell)).collect::<Result<_>>()?),
        })
    }

    fn bind(&self) -> Bind<'_> {
        match self {
            Self::Ids(all) => all,
            Self::Ints(all) => all,
            Self::Flags(all) => all,
            Self::Times(all) => all,
            Self::Texts(all) => all,
            Self::Bytes(all) => all,
        }
    }
}

/// One cell, of a key.
enum One {
    Id(Option<Uuid>),
    Int(Option<i64>),
    Flag(Option<bool>),
    Time(Option<Moment>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
}

impl One {
    fn of(column: &Column, cell: &Cell) -> Result<Self> {
        Ok(match column.kind {
            Kind::Id => Self::Id(id(column, cell)?),
            Kind::Int => Self::Int(int(column, cell)?),
            Kind::Flag => Self::Flag(int(column, cell)?.map(|flag| flag != 0)),
            Kind::Time => Self::Time(int(column, cell)?.map(|micros| Moment(Timestamp::from_micros(micros)))),
            Kind::Text | Kind::Json | Kind::Policy | Kind::OnFailure => {
                Self::Text(text(column, cell)?.map(str::to_owned))
            }
            Kind::Bytes => Self::Bytes(bytes(column, cell)?.map(<[u8]>::to_vec)),
        })
    }

    fn bind(&self) -> Bind<'_> {
        match self {
            Self::Id(one) => one,
            Self::Int(one) => one,
            Self::Flag(one) => one,
            Self::Time(one) => one,
            Self::Text(one) => one,
            Self::Bytes(one) => one,
        }
    }
}
