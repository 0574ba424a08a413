//! Secret fields of tasks.

use std::sync::Arc;

use rusqlite::Connection;
use turnwise_core::{
    TaskName,
    secret::{Pointer, Secrets},
};
use turnwise_store::operators::new_secrets;

use crate::errors::Failure;

type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn note(conn: &Connection, secrets: &Secrets) -> Result<()> {
    let mut insert = conn.prepare_cached(include_str!("../sql/secret_note.sql"))?;
    for (task, pointer) in new_secrets(&all(conn)?, secrets)?.iter() {
        insert.execute([task.as_str(), pointer.as_str()])?;
    }
    Ok(())
}

pub(crate) fn all(conn: &Connection) -> Result<Secrets> {
    let mut secrets = Secrets::default();
    let mut statement = conn.prepare_cached(include_str!("../sql/secrets.sql"))?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        secrets.add(TaskName::stored(row.get::<_, Arc<str>>(0)?), Pointer::stored(row.get::<_, Arc<str>>(1)?));
    }
    Ok(secrets)
}
