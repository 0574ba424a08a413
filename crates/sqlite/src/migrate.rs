//! The schema and the steps that lead to it. A step is never changed once it was published; a new one is added.

use std::fmt::Write;

use rusqlite::{Connection, params};
use turnwise_store::{
    Result, Schema, StoreError,
    schema::{Done, FoundSchema, Home},
};

use crate::{
    errors::Failure,
    location::{Location, Purpose},
};

/// The whole schema, as the steps leave it: to read, and to compare a database with.
pub const SCHEMA: &str = include_str!("../schema.sql");

/// One step of the schema, done in one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Steps are done in this order, from 1 without a gap.
    pub version: i64,
    pub name: &'static str,
    pub sql: &'static str,
}

const STEPS: [Step; 29] = [
    Step { version: 1, name: "tables", sql: include_str!("../migrations/0001_tables.sql") },
    Step { version: 2, name: "memos", sql: include_str!("../migrations/0002_memos.sql") },
    Step { version: 3, name: "failures", sql: include_str!("../migrations/0003_failures.sql") },
    Step { version: 4, name: "stories", sql: include_str!("../migrations/0004_stories.sql") },
    Step { version: 5, name: "retention", sql: include_str!("../migrations/0005_retention.sql") },
    Step { version: 6, name: "limited", sql: include_str!("../migrations/0006_limited.sql") },
    Step { version: 7, name: "unique", sql: include_str!("../migrations/0007_unique.sql") },
    Step { version: 8, name: "pools", sql: include_str!("../migrations/0008_pools.sql") },
    Step { version: 9, name: "after", sql: include_str!("../migrations/0009_after.sql") },
    Step { version: 10, name: "shares", sql: include_str!("../migrations/0010_shares.sql") },
    Step { version: 11, name: "hands", sql: include_str!("../migrations/0011_hands.sql") },
    Step { version: 12, name: "leases", sql: include_str!("../migrations/0012_leases.sql") },
    Step { version: 13, name: "stop_requests", sql: include_str!("../migrations/0013_stop_requests.sql") },
    Step { version: 14, name: "given", sql: include_str!("../migrations/0014_given.sql") },
    Step { version: 15, name: "shown", sql: include_str!("../migrations/0015_shown.sql") },
    Step { version: 16, name: "edits", sql: include_str!("../migrations/0016_edits.sql") },
    Step { version: 17, name: "operators", sql: include_str!("../migrations/0017_operators.sql") },
    Step { version: 18, name: "logins", sql: include_str!("../migrations/0018_logins.sql") },
    Step { version: 19, name: "audit", sql: include_str!("../migrations/0019_audit.sql") },
    Step { version: 20, name: "watch", sql: include_str!("../migrations/0020_watch.sql") },
    Step { version: 21, name: "totals", sql: include_str!("../migrations/0021_totals.sql") },
    Step { version: 22, name: "statistics", sql: include_str!("../migrations/0022_statistics.sql") },
    Step { version: 23, name: "secrets", sql: include_str!("../migrations/0023_secrets.sql") },
    Step { version: 24, name: "append_only", sql: include_str!("../migrations/0024_append_only.sql") },
    Step { version: 25, name: "move", sql: include_str!("../migrations/0025_move.sql") },
    Step { version: 26, name: "groups", sql: include_str!("../migrations/0026_groups.sql") },
    Step { version: 27, name: "not_replaced", sql: include_str!("../migrations/0027_not_replaced.sql") },
    Step { version: 28, name: "tickets", sql: include_str!("../migrations/0028_tickets.sql") },
    Step { version: 29, name: "workers", sql: include_str!("../migrations/0029_workers.sql") },
];

/// The steps that a binary without them does not work with (docs/compatibility.md). The steps up to 16 were made before that was
/// promised.
const BREAKS: &[i64] = &[];

/// The version of the schema that this version works with: that of its last step.
pub fn schema_version() -> u32 {
    u32::try_from(STEPS.len()).expect("there are few steps")
}

/// The version of the schema in this file; 0: there is none. No file is made.
pub fn found_version(path_or_url: &str) -> Result<u32> {
    let location = Location::parse(path_or_url)?;
    if location.in_memory() || !location.path().exists() {
        return Ok(0);
    }
    Ok(done(&location.open(Purpose::Read)?, &location)?.last)
}

/// All steps this version knows.
pub fn steps() -> &'static [Step] {
    &STEPS
}

/// Brings the schema of `path_or_url` up to date and returns the steps this took. The file is made if it is not there.
///
/// Safe beside running processes and beside another `migrate`: all steps are one transaction.
pub fn migrate(path_or_url: &str) -> Result<Vec<Step>> {
    let location = Location::parse(path_or_url)?;
    run(&location.open(Purpose::Write)?, &location)
}

/// The steps that [`migrate`] would do; nothing is changed, and no file is made.
pub fn migrate_check(path_or_url: &str) -> Result<Vec<Step>> {
    let location = Location::parse(path_or_url)?;
    if location.in_memory() || !location.path().exists() {
        return Ok(STEPS.to_vec());
    }
    pending(&location.open(Purpose::Read)?, &location)
}

/// All steps as a script for `sqlite3`, for people who change their schema only by hand.
pub fn migrate_print() -> String {
    let mut script = String::new();
    for step in STEPS {
        let Step { version, name, sql } = step;
        let note = include_str!("../sql/schema_done.sql").trim_end();
        let note = note.replace("?1", &version.to_string()).replace("?2", &format!("'{name}'"));
        let breaks = if BREAKS.contains(&version) {
            include_str!("../sql/schema_break.sql").trim_end().replace("?1", &version.to_string()) + ";\n"
        } else {
            String::new()
        };
        // Writing to a String cannot fail.
        let _ = write!(script, "begin immediate;\n\n{sql}\n{note};\n{breaks}\ncommit;\n");
    }
    script
}

/// Does what is pending.
pub(crate) fn run(conn: &Connection, location: &Location) -> Result<Vec<Step>> {
    // Looked at without the write lock first: a store that is opened beside a busy one need not wait for it.
    if pending(conn, location)?.is_empty() {
        return Ok(Vec::new());
    }
    let failed = |error| location.explain(error);
    conn.execute_batch("begin immediate").map_err(failed)?;
    let done = pending(conn, location).and_then(|steps| {
        for step in &steps {
            conn.execute_batch(step.sql).map_err(|error| refused(location, step, error))?;
            conn.execute(include_str!("../sql/schema_done.sql"), params![step.version, step.name]).map_err(failed)?;
            if BREAKS.contains(&step.version) {
                conn.execute(include_str!("../sql/schema_break.sql"), [step.version]).map_err(failed)?;
            }
        }
        conn.execute_batch("commit").map_err(failed)?;
        Ok(steps)
    });
    if done.is_err() && !conn.is_autocommit() {
        conn.execute_batch("rollback").map_err(failed)?;
    }
    done
}

/// For callers that must not migrate: a file that is missing, has no schema or an older one is an error, and is left as it is.
pub(crate) fn refuse_pending(location: &Location, schema: Schema) -> Result<()> {
    let missing = !location.path().exists();
    let pending = if missing { STEPS.to_vec() } else { pending(&location.open(Purpose::Read)?, location)? };
    let found = match pending.len() {
        0 => return Ok(()),
        n if n == STEPS.len() => FoundSchema::None,
        _ => FoundSchema::Older,
    };
    if schema.migrates(Home::File, found) {
        return Ok(());
    }
    let (first, newest) = (pending[0].version - 1, STEPS[STEPS.len() - 1].version);
    Err(match found {
        FoundSchema::None if missing => location.refused(
            "does not exist; `turnwise serve` or `turnwise enqueue` makes it, or name another file with --database",
        ),
        FoundSchema::None => {
            location.refused("has no Turnwise schema; `turnwise migrate` adds it, or name another file with --database")
        }
        FoundSchema::Older => location
            .refused(&format!("has schema version {first}, this turnwise needs {newest}; run `turnwise migrate`")),
    })
}

fn refused(location: &Location, step: &Step, error: rusqlite::Error) -> StoreError {
    match location.explain(error) {
        // The statement itself failed: something of that name is there, or a person changed the schema by hand.
        StoreError::Broken { source, .. } => {
            let Step { version, name, .. } = step;
            location.refused(&format!("does not take schema step {version} ({name}): {source}"))
        }
        other => other,
    }
}

/// The number of the last step that was done, in a file that has a schema.
pub(crate) fn last_step(conn: &Connection) -> std::result::Result<u32, Failure> {
    Ok(conn.query_row(include_str!("../sql/schema_version.sql"), (), |row| row.get(0))?)
}

fn done(conn: &Connection, location: &Location) -> Result<Done> {
    let number = |sql| {
        let number = conn.query_row(sql, (), |row| row.get::<_, u32>(0));
        number.map_err(|error| location.explain(error))
    };
    if number(include_str!("../sql/schema_exists.sql"))? == 0 {
        return Ok(Done { last: 0, breaks: 0 });
    }
    let last = number(include_str!("../sql/schema_version.sql"))?;
    // An older schema has no column for it, and none of its steps is unknown.
    let breaks = if last > schema_version() { number(include_str!("../sql/schema_breaks.sql"))? } else { 0 };
    Ok(Done { last, breaks })
}

/// The steps that are missing; none, if the schema is newer.
fn pending(conn: &Connection, location: &Location) -> Result<Vec<Step>> {
    let done = done(conn, location)?;
    done.check(schema_version()).map_err(|why| location.refused(&why))?;
    Ok(STEPS.into_iter().filter(|step| step.version > i64::from(done.last)).collect())
}
